/* ckineto bench: records a command several times, or two commands in turn, and compares them as `ckineto diff
 * --runs` does. The exit status 1 is reserved for a failed gate, as that of diff. */
#include "cli/bench/bench.h"
#include "cli/cli.h"
#include "cli/style.h"

static uint64_t repeat = 10, warm_up = 1, row_limit = 5;
static const char *directory = "ckineto-bench", *json, *markdown;
static bool are_two, medians, ignore_failures, show_output;
static kc_texts gates, record_options;

static const kc_option option_list[] = {
    {"repeat", 'n', KC_NUMBER, &repeat, "N", "record each command N times (10); 2 to 32"},
    {"warm-up", 'w', KC_NUMBER, &warm_up, "N", "first run each command N times without recording (1)"},
    {"ab", 0, KC_FLAG, &are_two, NULL,
     "compare two commands, which the shell runs in turn: --ab 'A' 'B'"},
    {"gate", 0, KC_TEXTS, &gates, "GATE",
     "with --ab: exit with 1 if B exceeds this and it is not noise:\n"
     "step>3%, function:NAME>5% …, as --fail-on of ckineto diff; repeatable"},
    {"output", 'o', KC_TEXT, &directory, "DIR",
     "where the traces are kept (ckineto-bench); those of an earlier\nbenchmark in it are replaced"},
    {"record", 0, KC_TEXTS, &record_options, "OPTION",
     "an option for ckineto record, such as --record=--waits; repeatable"},
    {"medians", 0, KC_FLAG, &medians, NULL, "compare medians of runs, not means (needs 5 runs)"},
    KC_TOP_OPTION(row_limit, "5"),
    {"json", 'j', KC_JSON, &json, "[=FILE]",
     "write JSON instead of text, to FILE or the standard output"},
    {"markdown", 0, KC_TEXT, &markdown, "FILE", "with --ab: write a comment for a pull request"},
    {"ignore-failure", 'i', KC_FLAG, &ignore_failures, NULL, "continue if a command fails"},
    {"show-output", 0, KC_FLAG, &show_output, NULL,
     "show what the commands print; else the output of the last run is in\nDIR/output.txt"},
    KC_COLOR_OPTION,
};
static const kc_options options = {
    "bench",
    "[options] -- COMMAND [ARGUMENTS] | --ab 'COMMAND A' 'COMMAND B'",
    "Record a command several times, or two commands in turn, print their times, and with --ab\n"
    "say which is faster and why, with confidence intervals over runs.\n"
    "Times are those of steps; without steps of whole runs.\n"
    "The exit status is 0 if all gates passed, 1 if one failed, 2 if one could not be evaluated,\n"
    "a command failed, or something else did.",
    "ckineto bench --repeat 10 -- ./program data\n"
    "ckineto bench --ab './main data' './branch data' --gate 'step>3%'",
    option_list,
    KB_COUNT(option_list),
    false};

/* The state of one benchmark. */
typedef struct bench_work {
    kc_bench_runs runs;
    kc_diff_output shown;
    char *shell[2][4];
} bench_work;

/* The commands of --ab are for the shell; else all words are one command. */
static kineto_status parse_commands(bench_work *w, char **words, int count)
{
    static char sh[] = "sh", c[] = "-c";
    if (are_two && count != 2)
        return kc_usage_error("bench", "--ab needs two commands, each as one word: --ab 'COMMAND A' 'COMMAND B'");
    if (!count)
        return kc_usage_error("bench", "no command given: ckineto bench -- COMMAND");
    w->runs.command_count = are_two ? 2 : 1;
    w->runs.commands[0] = words;
    for (uint32_t i = 0; i < 2 && are_two; i++) {
        char *shell[] = {sh, c, words[i], NULL};
        memcpy(w->shell[i], shell, sizeof shell);
        w->runs.commands[i] = w->shell[i];
    }
    return KINETO_OK;
}

static kineto_status parse_bench_options(bench_work *w, char **words, int count)
{
    if (repeat < 2 || repeat > KC_MAX_RUNS)
        return kc_usage_error("bench", "--repeat is from 2 to %d", KC_MAX_RUNS);
    if (warm_up > 1000)
        return kc_usage_error("bench", "--warm-up is from 0 to 1000");
    if (!are_two && (gates.count || json || markdown))
        return kc_usage_error("bench", "--gate, --json and --markdown compare two commands: they need --ab");
    w->runs.directory = directory;
    w->runs.repeat = (uint32_t)repeat;
    w->runs.warm_up = (uint32_t)warm_up;
    w->runs.record_options = &record_options;
    w->runs.ignore_failures = ignore_failures;
    w->runs.show_output = show_output;
    return parse_commands(w, words, count);
}

/* A single command is measured as both sides of a comparison. */
static kineto_status compare_bench(bench_work *w, kineto_error *err)
{
    kineto_diff_options o = {.size = sizeof o, .medians = medians, .findings = are_two, .draws = are_two ? 0 : 100};
    kc_diff_output *d = &w->shown;
    for (uint32_t side = 0; side < 2; side++) {
        d->paths[side] = w->runs.traces[are_two ? side : 0];
        d->run_count[side] = w->runs.repeat;
    }
    kineto_status status = kc_diff_compare(d, -1, &o, err);
    return status ? status : kc_diff_evaluate_gates(d, &gates, false, err);
}

static kineto_status write_bench(const bench_work *w, kineto_error *err)
{
    kineto_status status = json ? kc_diff_save_json(&w->shown, json, err) : KINETO_OK;
    if (!status && markdown)
        status = kc_diff_save_markdown(&w->shown, markdown, err);
    bool to_stdout = (json && strcmp(json, "-") == 0) || (markdown && strcmp(markdown, "-") == 0);
    if (status || to_stdout)
        return status;
    kc_bench_print(&w->runs, &w->shown, stdout);
    if (are_two) {
        fputc('\n', stdout);
        kc_diff_print(&w->shown, row_limit, false, stdout);
    }
    return KINETO_OK;
}

int kc_bench(int argc, char **argv)
{
    int operands;
    kineto_error err = {.message = ""};
    bench_work w = {.runs = {.directory = NULL}};
    kineto_status status = kc_parse_options(&options, argc, argv, &operands);
    if (status == KINETO_E_NOT_FOUND)
        return kc_finish_stdout("bench", 0) ? KC_EXIT_USAGE : 0;
    if (status || parse_bench_options(&w, argv + 1, operands))
        return KC_EXIT_USAGE;
    status = kc_bench_record(&w.runs, &err);
    if (!status)
        status = compare_bench(&w, &err);
    if (!status)
        status = write_bench(&w, &err);
    if (status)
        kc_complain_of("bench", &err);
    int result = status ? KC_EXIT_USAGE : kc_diff_exit_status(&w.shown);
    kc_diff_free(&w.shown);
    kc_bench_free(&w.runs);
    return kc_finish_stdout("bench", 0) ? KC_EXIT_USAGE : result;
}
