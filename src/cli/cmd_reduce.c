/* ckineto reduce: join facts files to one of the run, and say what all ranks together show. The exit status is 3 if
 * ranks are missing or could not be read, 1 if the file could not be written, 2 if there is nothing to join. */
#include "cli/open_many.h"

#include "analyze/facts/analyses.h"
#include "cli/facts/facts_files.h"
#include "cli/print_facts.h"

static const char *output;
static bool quiet;
static const kc_option option_list[] = {
    {"output", 'o', KC_TEXT, &output, "FILE", "write the facts of all ranks, and what comparing them shows, to FILE"},
    KC_QUIET_OPTION(quiet),
    {"mem", 0, KC_SIZE, &kc_reading.memory_bytes, "SIZE", "keep at most about SIZE in memory (256M; by default 1G): what does\nnot fit is read in parts"},
};
static const kc_options options = {
    "reduce",
    "[options] FACTS...",
    "Join the facts files of ranks, of directories of them, and files of runs to the file of one run.\n"
    "The same facts give the same bytes, in any order, also if parts of them are joined first. The\n"
    "first line says which ranks are missing; then the exit status is 3.",
    "ckineto reduce run.facts/ -o run.ckrun\n"
    "ckineto analyze run.ckrun",
    option_list,
    KB_COUNT(option_list),
    false};

/* Which ranks there are, then those that could not be read. */
static kineto_status print_coverage(const ka_facts_set *s, bool *is_whole, kineto_error *err)
{
    char text[400];
    ka_coverage coverage = {.rank_count = 0};
    kineto_status status = ka_facts_set_coverage(s, &coverage, err);
    ka_coverage_describe(&coverage, text, sizeof text);
    *is_whole = !coverage.unreadable && coverage.world_size <= coverage.rank_count;
    if (!status && !quiet)
        kc_put_wrapped(stdout, kc_page_width(stdout), "", "", 0, kb_string(*text ? text : "1 rank."));
    ka_coverage_free(&coverage);
    return status;
}

static void print_errors(const ka_facts_set *s)
{
    kineto_error why = {.message = ""};
    for (uint32_t i = 0; i < ka_facts_set_count(s); i++)
        if (ka_facts_set_error(s, i, &why))
            kc_complain("reduce: %s", why.message);
    for (uint32_t i = 0; ka_facts_set_damaged(s, i); i++)
        kc_complain("reduce: %s", ka_facts_set_damaged(s, i));
}

static kineto_status reduce_facts(ka_facts_set *s, bool *is_whole, kineto_error *err)
{
    if (!ka_facts_set_readable(s)) {
        print_errors(s);
        *is_whole = false;
        return kb_fail(err, KINETO_E_NOT_FOUND, "no facts of a trace that could be read: nothing to join");
    }
    kineto_status status = print_coverage(s, is_whole, err);
    print_errors(s);
    ka_facts_set_limit_memory(s, kc_reading.memory_bytes);
    if (!status && output)
        status = ka_facts_set_save(s, output, err);
    return status;
}

int kc_reduce(int argc, char **argv)
{
    int operands;
    ka_facts_set *set = NULL;
    kineto_error err = {.message = ""};
    bool is_whole = false;
    kineto_status status = kc_parse_options(&options, argc, argv, &operands);
    if (status == KINETO_E_NOT_FOUND)
        return kc_finish_stdout("reduce", 0);
    if (!status && !operands)
        status = kc_usage_error("reduce", "name facts files, or directories of them");
    if (!status)
        status = kc_check_outputs("reduce", argv + 1, operands, &output, 1, false);
    if (status)
        return KC_EXIT_USAGE;
    status = kc_open_facts(argv + 1, operands, &set, &err);
    bool is_read = !status && ka_facts_set_readable(set);
    if (!status)
        status = reduce_facts(set, &is_whole, &err);
    if (status)
        kc_complain_of("reduce", &err);
    ka_facts_set_destroy(set);
    return kc_finish_stdout("reduce", status ? kc_exit_of(status, is_read) : is_whole ? 0 : KC_EXIT_INCOMPLETE);
}
