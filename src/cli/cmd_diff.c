/* ckineto diff: compare two traces with confidence intervals, and evaluate regression gates. The
 * comparison is kineto_diff_run (ckineto/diff.h); the outputs are in src/cli/diff. The exit status 1 is
 * reserved for a failed gate: everything else that goes wrong is 2, so that a build server can
 * distinguish both. */
#include "cli/page.h"
#include "cli/open_many.h"

#include "cli/diff/diff.h"
#include "analyze/saved/facts_paths.h"
#include "cli/diff/diff_facts.h"
#include "cli/style.h"

#include <ckineto/analyze.h>
#include <ckineto/export.h>

static const char *definitions = "exact", *devices = "all", *rank, *streams, *rules;
static const char *json, *csv, *junit, *sarif, *markdown;
static bool is_of_runs, only_ranks, short_names, shapes, medians, no_findings, no_noise, all_tables;
static kc_texts fail_on;
static uint64_t row_limit = 20, draws, seed, threads;

static const kc_option option_list[] = {
    {"fail-on", 0, KC_TEXTS, &fail_on, "GATE",
     "exit with 1 if a difference exceeds this and is not noise: step>3%,\n"
     "memory>100MB, kernel:NAME>5%, op:NAME>2ms, function:NAME>5%,\n"
     "category:NAME>…, counter:NAME<…, where < is for values that must\nnot fall; repeatable"},
    {"no-noise", 0, KC_FLAG, &no_noise, NULL,
     "gates: use the difference alone if there are too few steps to\ndistinguish it from noise"},
    {"runs", 0, KC_FLAG, &is_of_runs, NULL,
     "several runs of each side: BEFORE... -- AFTER...; intervals and gates\n"
     "count the noise between runs, and typical calls of each run are compared\n(needs 3 a side, --medians 5)"},
    {"medians", 0, KC_FLAG, &medians, NULL, "compare medians of steps or runs, not means"},
    {"ranks", 0, KC_FLAG, &only_ranks, NULL,
     "compare only what differs across ranks: one trace is in memory at a\ntime; also facts with traces"},
    {"shapes", 0, KC_FLAG, &shapes, NULL, "distinguish operators by shapes"},
    {"no-findings", 0, KC_FLAG, &no_findings, NULL,
     "do not search both traces for findings: faster"},
    {"definitions", 0, KC_TEXT, &definitions, "exact|hta",
     "exact (the default), or compare first steps like HolisticTraceAnalysis"},
    {"device", 0, KC_TEXT, &devices, "all|host|device",
     "hta: only names of the host, or of devices"},
    {"short-names", 0, KC_FLAG, &short_names, NULL, "hta: without template arguments"},
    KC_RANK_OPTION(rank),
    KC_STEP_OPTION,
    {"stream", 0, KC_TEXT, &streams, "ID[,...]", "only these streams of devices"},
    {"rules", 0, KC_TEXT, &rules, "FILE",
     "more rules for names of kernels: docs/reference/kernel-rules.md"},
    {"all", 'a', KC_FLAG, &all_tables, NULL, "print every table"},
    KC_TOP_OPTION(row_limit, "20"),
    KC_ALIAS_OPTION("row-limit", "top"),
    {"json", 'j', KC_JSON_WORD, &json, "[=FILE]",
     "write all facts as JSON, to FILE or the standard output"},
    {"csv", 0, KC_TEXT, &csv, "DIR", "write each table as DIR/NAME.csv"},
    {"junit", 0, KC_TEXT, &junit, "FILE", "write gates as JUnit XML, a test case for each"},
    {"sarif", 0, KC_TEXT, &sarif, "FILE", "write gates and new findings as SARIF 2.1.0"},
    {"markdown", 0, KC_TEXT, &markdown, "FILE", "write a comment for a pull request"},
    {"draws", 0, KC_NUMBER, &draws, "N", "bootstrap samples for the intervals (2000)"},
    {"seed", 0, KC_NUMBER, &seed, "N",
     "seed of the samples: the same seed gives the same intervals (0)"},
    {"threads", 0, KC_NUMBER, &threads, "N", "use N threads; the results do not depend on it"},
    KC_READING_OPTIONS,
    KC_COLOR_OPTION,
};
static const kc_options options = {
    "diff",
    "[options] BEFORE AFTER | --runs [options] BEFORE... -- AFTER...",
    "Compare two traces with confidence intervals, and evaluate regression gates.\n"
    "The exit status is 0 if all gates passed, 1 if one failed, 2 if one could not be evaluated\n"
    "or something else failed.",
    "ckineto diff --fail-on 'step>3%' --junit gates.xml before.json after.json\n"
    "ckineto diff --runs main-*.json -- branch-*.json",
    option_list,
    KB_COUNT(option_list),
    false};

/* ---- options --------------------------------------------------------------------------------- */

/* State of one command: parsed options, and what the outputs show. */
typedef struct diff_work {
    kineto_analysis_options analyze;
    kineto_diff_options diff;
    kc_diff_output shown;
    int32_t rank;
} diff_work;

/* --device: an index, in the order of the words. */
static kineto_status parse_device_option(kineto_diff_options *o)
{
    static const char *const words[] = {"all", "host", "device"};
    for (uint32_t i = 0; i < KB_COUNT(words); i++)
        if (strcmp(devices, words[i]) == 0) {
            o->devices = i;
            return KINETO_OK;
        }
    return kc_usage_error("diff", "--device is all, host or device, not '%s'", devices);
}

/* An option without a meaning for the chosen definitions is an error, not ignored. */
static kineto_status check_definition_options(bool hta)
{
    const struct {
        const void *value;
        const char *name;
        bool hta;
    } concerns[] = {{&no_noise, "no-noise", false}, {&is_of_runs, "runs", false}, {&medians, "medians", false},
                    {&shapes, "shapes", false},     {&no_findings, "no-findings", false},
                    {&draws, "draws", false},       {&seed, "seed", false},
                    {&devices, "device", true},     {&short_names, "short-names", true}};
    for (size_t i = 0; i < KB_COUNT(concerns); i++)
        if (concerns[i].hta != hta && kc_option_given(concerns[i].value))
            return kc_usage_error("diff", "--%s needs --definitions %s", concerns[i].name,
                                  hta ? "exact" : "hta");
    return KINETO_OK;
}

/* Fill the options of the comparison, and refuse combinations that exclude each other. */
static kineto_status parse_diff_options(diff_work *w)
{
    bool hta = strcmp(definitions, "hta") == 0;
    w->analyze = (kineto_analysis_options){
        .size = sizeof w->analyze,
        .definitions = hta ? KINETO_DEFINITIONS_HTA : KINETO_DEFINITIONS_EXACT,
        .streams = streams,
        .rules = rules,
        .step_pattern = kc_step_pattern,
        .threads = (uint32_t)KB_MIN(threads, (uint64_t)UINT32_MAX)};
    w->diff = (kineto_diff_options){.size = sizeof w->diff,
                                    .analyze = &w->analyze,
                                    .shapes = shapes,
                                    .medians = medians,
                                    .findings = !no_findings && !hta,
                                    .draws = (uint32_t)KB_MIN(draws, (uint64_t)UINT32_MAX),
                                    .seed = seed,
                                    .short_names = short_names};
    if (!hta && strcmp(definitions, "exact") != 0)
        return kc_usage_error("diff", "--definitions is exact or hta, not '%s'", definitions);
    if (hta && (fail_on.count || junit || sarif || markdown))
        return kc_usage_error("diff", "--definitions hta cannot be used with --fail-on, --junit, "
                                      "--sarif or --markdown");
    kineto_status status = check_definition_options(hta);
    if (!status)
        status = parse_device_option(&w->diff);
    return status ? status : kc_parse_rank("diff", rank, &w->rank);
}

/* ---- the verb -------------------------------------------------------------------------------- */

/* Is one of the operands a list with commas, not the name of a file? */
static bool lists_files(char *const *paths, int count)
{
    for (int i = 0; i < count; i++)
        if (strchr(paths[i], ',') && access(paths[i], F_OK) != 0)
            return true;
    return false;
}

/* Bytes of a path up to the number of the run: "old" of "old12.json". */
static size_t measure_stem(const char *path)
{
    const char *name = strrchr(path, '/');
    name = name ? name + 1 : path;
    size_t size = (size_t)(name - path) + strcspn(name, ".");
    while (size > (size_t)(name - path) && strchr("0123456789-_", path[size - 1]))
        size--;
    return size;
}

/* How many operands, from the first, have its stem, if all others share a second one. 0: they are not two groups, or
 * a shell would split one of the names. */
static int find_second_group(char *const *paths, int count)
{
    enum { MAX_NAME_BYTES = 200 };
    int first = 0;
    for (int i = 0; i < count; i++) {
        const char *model = paths[first ? first : 0];
        size_t size = measure_stem(paths[i]);
        bool is_same = size == measure_stem(model) && strncmp(paths[i], model, size) == 0;
        if ((!is_same && first) || strcmp(kc_command_word(paths[i], MAX_NAME_BYTES), paths[i]) != 0)
            return 0;
        if (!is_same)
            first = i;
    }
    return first;
}

/* Several runs without --runs: the command that compares them, with the operands if their names are two groups. */
static kineto_status suggest_runs(char *const *paths, int count)
{
    char *text = NULL;
    size_t size = 0;
    int first = find_second_group(paths, count);
    FILE *out = first ? open_memstream(&text, &size) : NULL;
    for (int i = 0; out && i < count; i++)
        fprintf(out, "%s%s", i == first ? " -- " : " ", paths[i]);
    bool is_whole = out && fclose(out) == 0;
    kineto_status status = kc_usage_error("diff", "several runs of each side: ckineto diff --runs%s",
                                          is_whole ? text : " A1 A2 ... -- B1 B2 ...");
    free(text);
    return status;
}

/* Divides the operands into the two sides: at "--" for runs, else one each. */
static kineto_status divide_operands(kc_diff_output *d, char *const *paths, int count)
{
    int first = is_of_runs ? kc_operands_before_dashes() : 1, second = count - first;
    if (!is_of_runs && (count > 2 || lists_files(paths, count)))
        return suggest_runs(paths, count);
    if (!is_of_runs && count != 2)
        return kc_usage_error("diff", "two traces are needed: before and after");
    if (first < 1 || second < 1)
        return kc_usage_error("diff", "--runs needs traces before and after the word --: "
                                      "--runs BEFORE... -- AFTER...");
    if (first > KC_MAX_RUNS || second > KC_MAX_RUNS)
        return kc_usage_error("diff", "--runs takes %d runs of a side at most", KC_MAX_RUNS);
    d->paths[0] = paths;
    d->paths[1] = paths + first;
    d->run_count[0] = (uint32_t)first;
    d->run_count[1] = (uint32_t)second;
    return KINETO_OK;
}

static void print_diff(const kc_diff_output *d)
{
    enum { MANY_RANKS = 16 };
    kc_page page;
    FILE *out = kc_page_begin(&page, stdout);
    kc_diff_print(d, row_limit, all_tables, out);
    kc_page_end(&page);
    if (!fail_on.count && strcmp(definitions, "exact") == 0)
        kc_diff_print_next(d, stdout); /* not wrapped: it is to be copied */
    if (d->coverage[0].rank_count > MANY_RANKS && d->coverage[1].rank_count > MANY_RANKS)
        fputs("\n'ckineto diff --ranks' compares many ranks with one trace in memory.\n", stdout);
}

/* All output files; the text only if none of them is the standard output. */
static kineto_status write_outputs(const kc_diff_output *d, kineto_error *err)
{
    const struct {
        const char *path;
        kc_diff_save *save;
    } files[] = {{json, kc_diff_save_json},
                 {junit, kc_diff_save_junit},
                 {sarif, kc_diff_save_sarif},
                 {markdown, kc_diff_save_markdown}};
    kineto_status status = csv ? kineto_analysis_save_csv(d->facts, csv, err) : KINETO_OK;
    bool to_stdout = false;
    for (size_t i = 0; i < KB_COUNT(files) && !status; i++) {
        if (!files[i].path)
            continue;
        to_stdout |= strcmp(files[i].path, "-") == 0;
        status = files[i].save(d, files[i].path, err);
    }
    if (!status && !to_stdout)
        print_diff(d);
    return status;
}

/* Open, compare, evaluate the gates, and write the outputs. */
static kineto_status run_diff(diff_work *w, kineto_error *err)
{
    kineto_status status = kc_diff_compare(&w->shown, w->rank, &w->diff, err);
    if (!status)
        status = kc_diff_evaluate_gates(&w->shown, &fail_on, no_noise, err);
    return status ? status : write_outputs(&w->shown, err);
}

/* No output may replace one of the traces, or another output. */
static kineto_status check_diff_outputs(char *const *paths, int count)
{
    const char *outputs[] = {json, junit, sarif, markdown};
    return kc_check_outputs("diff", paths, count, outputs, KB_COUNT(outputs), false);
}

/* An output that could not be written is not 1, which means that a gate failed. */
static int finish_diff_output(int status)
{
    return kc_finish_stdout("diff", 0) ? KC_EXIT_USAGE : status;
}

/* Facts have no gates. How traces are read matters if a side is traces. */
static int run_diff_of_facts(char *const *paths, int count)
{
    kineto_error err = {.message = ""};
    ka_operands_kind kind = KA_OPERANDS_TRACES;
    bool are_all_facts = !ka_find_facts(paths, count, &kind, NULL, NULL) && kind == KA_OPERANDS_FACTS;
    const void *const allowed[] = {&row_limit, &kc_color_choice, &threads, &kc_reading.memory_bytes, &json, &csv, &only_ranks};
    for (size_t i = 0; i < KB_COUNT(option_list); i++) {
        const kc_option *o = &option_list[i];
        bool is_allowed = o->type == KC_ALIAS;
        for (size_t k = 0; k < KB_COUNT(allowed); k++)
            is_allowed |= o->value == allowed[k] || (o->value == &kc_reading.ts_unit_ns && !are_all_facts);
        if (!is_allowed && kc_option_given(o->value)) {
            (void)kc_usage_error("diff", "--%s needs the traces themselves, not their facts%s", o->name,
                                 only_ranks ? ": leave out --ranks" : "");
            return KC_EXIT_USAGE;
        }
    }
    if (count != 2) {
        (void)kc_usage_error("diff", "two runs are needed: before and after");
        return KC_EXIT_USAGE;
    }
    if (check_diff_outputs(paths, count))
        return KC_EXIT_USAGE;
    const kc_diff_facts_output to = {row_limit, json, csv};
    kineto_status status = kc_diff_facts(paths, &to, &err);
    if (status)
        kc_complain_of("diff", &err);
    return finish_diff_output(status ? KC_EXIT_USAGE : 0);
}

/* Only a failed gate is KC_EXIT_FAILURE (1); all else that goes wrong is KC_EXIT_USAGE (2). */
int kc_diff(int argc, char **argv)
{
    int operands;
    kineto_error err = {.message = ""};
    diff_work w = {.rank = -1};
    kineto_status status = kc_parse_options(&options, argc, argv, &operands);
    if (status == KINETO_E_NOT_FOUND)
        return finish_diff_output(0);
    if (status == KINETO_OK && operands && (only_ranks || kc_diff_is_of_facts(argv + 1, operands)))
        return run_diff_of_facts(argv + 1, operands);
    if (status == KINETO_OK)
        status = check_diff_outputs(argv + 1, operands);
    if (status == KINETO_OK)
        status = divide_operands(&w.shown, argv + 1, operands);
    if (status || parse_diff_options(&w))
        return KC_EXIT_USAGE;
    status = run_diff(&w, &err);
    if (status)
        kc_complain_of("diff", &err);
    int result = status ? KC_EXIT_USAGE : kc_diff_exit_status(&w.shown);
    kc_diff_free(&w.shown);
    return finish_diff_output(result);
}
