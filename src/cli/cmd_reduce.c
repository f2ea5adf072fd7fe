/* ckineto reduce: join facts files to one of the run, and say what all ranks together show. The exit status is 3 if
 * ranks are missing, files not sound, or a rank has several traces, 1 if the file could not be written, 2 if there is nothing to join. */
#include "cli/open_many.h"

#include "cli/facts/facts_answer.h"
#include "analyze/saved/facts_paths.h"

static const char *output;
static bool quiet;
static const kc_option option_list[] = {
    {"output", 'o', KC_TEXT, &output, "FILE", "write the facts of all ranks, and what comparing them shows, to FILE"},
    KC_QUIET_OPTION(quiet),
    {"mem", 0, KC_SIZE, &kc_reading.memory_bytes, "SIZE", "keep at most about SIZE in memory (256M; by default 1G; less than\n16M counts as 16M): what does not fit is read in parts"},
};
static const kc_options options = {
    "reduce",
    "[options] FACTS...",
    "Join the facts files of ranks, of directories of them, and files of runs to the file of one run.\n"
    "The same facts give the same bytes, in any order, also if parts of them are joined first. The\n"
    "first line says which ranks are missing (then the exit status is 3); after it come the ranks\n"
    "and links that make the run longer.",
    "ckineto reduce run.facts/ -o run.ckrun\n"
    "ckineto analyze run.ckrun",
    option_list,
    KB_COUNT(option_list),
    false};

/* "Rank 3 has 2 traces: a.json, b.json; are these two runs?" *is_of_two: it was said. */
static void print_repeated_rank(const kineto_survey *survey, bool *is_of_two)
{
    kineto_files_finding f, first = {.total = 0};
    kineto_survey_file file;
    uint32_t ranks = 0;
    for (uint32_t i = 0; kineto_survey_finding(survey, i, &f); i++)
        if (f.kind == KINETO_FILES_RANK_REPEATED && !ranks++)
            first = f;
    *is_of_two = ranks > 0;
    if (!ranks || quiet || !kineto_survey_file_at(survey, first.files[0], &file))
        return;
    printf("Rank %d has %u traces: ", file.identity->rank, first.file_count);
    for (uint32_t i = 0; i < first.file_count && kineto_survey_file_at(survey, first.files[i], &file); i++) {
        fputs(i ? ", " : "", stdout);
        kc_put_name(stdout, kb_string(file.name), 0);
    }
    printf("; are these two runs?");
    if (ranks > 1)
        printf(" %u more %s several traces.", ranks - 1, ranks == 2 ? "rank has" : "ranks have");
    putchar('\n');
}

/* Which ranks there are, and which files are not sound. */
static kineto_status print_coverage(const ka_facts_set *s, bool *is_whole, kineto_error *err)
{
    char text[400];
    ka_coverage coverage = {.rank_count = 0};
    kineto_survey *survey = NULL;
    bool is_of_two = false;
    kineto_status status = ka_facts_set_survey(s, &survey, err);
    if (!status)
        status = ka_facts_set_coverage(s, survey, &coverage, err);
    if (!status) {
        print_repeated_rank(survey, &is_of_two);
        ka_coverage_describe(&coverage, text, sizeof text);
        if (!quiet)
            kc_put_wrapped(stdout, kc_page_width(stdout), "", "", 0, kb_string(*text ? text : "1 rank."));
        *is_whole = ka_coverage_is_whole(&coverage);
        fflush(stdout);
        kc_report_bad_files(survey);
    }
    kineto_survey_destroy(survey);
    ka_coverage_free(&coverage);
    return status;
}

/* Of the file that was written, in which ranks are compared already. */
static kineto_status print_answer(const ka_facts_set *s, kineto_error *err)
{
    ka_facts_set *written = NULL;
    if (quiet)
        return KINETO_OK;
    if (!output)
        return kc_print_answer(s, stdout, err);
    kineto_status status = ka_facts_set_open(&output, 1, &written, err);
    if (!status)
        status = kc_print_answer(written, stdout, err);
    ka_facts_set_destroy(written);
    return status;
}

static kineto_status reduce_facts(ka_facts_set *s, bool *is_whole, kineto_error *err)
{
    ka_facts_set_limit_memory(s, kc_reading.memory_bytes);
    kineto_status status = print_coverage(s, is_whole, err);
    if (!ka_facts_set_readable(s) && !status)
        status = kb_fail(err, KINETO_E_NOT_FOUND, "no facts of a trace that could be read: nothing to join");
    if (!status && output)
        status = ka_facts_set_save(s, output, err);
    return status ? status : print_answer(s, err);
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
    status = ka_facts_open_paths(argv + 1, operands, &set, &err);
    bool is_read = !status && ka_facts_set_readable(set);
    if (!status)
        status = reduce_facts(set, &is_whole, &err);
    if (status)
        kc_complain_of("reduce", &err);
    ka_facts_set_destroy(set);
    return kc_finish_stdout("reduce", status ? kc_exit_of(status, is_read) : is_whole ? 0 : KC_EXIT_INCOMPLETE);
}
