/* ckineto history add: the facts of a run, which may have many ranks, into a data set. One rank is in
 * memory at a time; what ranks are compared by stays until all are read. */
#include "cli/history/history.h"

#include "cli/open_many.h"
#include "cli/run_name.h"

static const char *data_set, *commit, *label, *run_name;
static bool replace, quiet;
static const kc_option option_list[] = {
    {"dataset", 'd', KC_TEXT, &data_set, "DIR", "the data set, which 'ckineto export --parquet DIR' may share"},
    {"commit", 0, KC_TEXT, &commit, "HASH", "the version of the program that ran"},
    {"label", 0, KC_TEXT, &label, "TEXT", "a remark, shown with the run"},
    {"run", 0, KC_TEXT, &run_name, "NAME", "the name of the run (that of the directory or file)"},
    {"replace", 0, KC_FLAG, &replace, NULL, "replace a run of the same name"},
    KC_READING_OPTIONS,
    KC_QUIET_OPTION(quiet),
};
static const kc_options options = {
    "history add",
    "RUN -d DIR [options]",
    "Add the step time of a run and its parts to the history in a data set. RUN is a directory of\n"
    "traces, one of each rank, or a trace. Runs may be added at the same time.",
    "ckineto history add run-17/ -d history/ --commit \"$(git rev-parse HEAD)\"",
    option_list,
    KB_COUNT(option_list),
    false};

/* @param coverage  receives its rank. @param bad  counts files that cannot be read, each of which is a line. */
static kineto_status add_file(kc_history_sums *sums, const char *path, uint32_t index, ka_coverage *coverage, uint32_t *bad,
                              kineto_error *err)
{
    kineto_trace *trace = NULL;
    kineto_status status = kineto_trace_open_with(path, &kc_reading, &trace, err);
    if (status && status != KINETO_E_MEMORY) {
        kc_complain("history add: %s", err->message);
        ++*bad;
        return ka_coverage_add_unreadable(coverage, path, err->message) ? KINETO_OK : kb_fail_memory(err, path);
    }
    if (!status) {
        int32_t rank = kc_trace_rank(trace, path, index);
        status = kc_history_add_trace(sums, trace, rank, err);
        if (!status && !ka_coverage_add(coverage, trace, &rank))
            status = kb_fail_memory(err, path);
    }
    kineto_trace_release(trace);
    return status;
}

/* @param lacks_ranks  are some missing? That is a line. */
static kineto_status add_run_of_files(const kineto_files *files, const char *name, uint32_t *bad, bool *lacks_ranks,
                                      kineto_error *err)
{
    kc_history_sums sums = {0};
    kc_history_run run = {strdup(name), strdup(commit ? commit : ""), strdup(label ? label : ""), 0, 0, 0, 0, {0}};
    ka_coverage coverage = {.rank_count = 0};
    uint32_t count = kineto_files_count(files);
    kineto_status status = run.name && run.commit && run.label ? KINETO_OK : kb_fail_memory(err, name);
    for (uint32_t i = 0; i < count && !status; i++) {
        kc_show_reading(i, count, kineto_files_path(files, i));
        status = add_file(&sums, kineto_files_path(files, i), i, &coverage, bad, err);
    }
    kc_show_reading(0, 0, NULL);
    if (!status && *bad < count)
        status = kc_history_finish(&sums, &run, err);
    if (!status && *bad < count)
        status = kc_history_save(data_set, &run, replace, err);
    if (!status && *bad < count && !quiet)
        fprintf(stderr, "ckineto: %s: run %s: %llu %s, step %s\n", data_set, name, (unsigned long long)run.ranks,
                kc_noun(run.ranks, "rank", "ranks"), kb_duration((int64_t)run.step_ns).s);
    *lacks_ranks = !status && kc_report_missing_ranks(&coverage, count);
    ka_coverage_free(&coverage);
    kc_history_run_free(&run);
    kc_history_sums_free(&sums);
    return status;
}

int kc_history_add(int argc, char **argv)
{
    char name[KC_RUN_NAME_BYTES];
    int operands;
    uint32_t bad = 0;
    bool lacks_ranks = false;
    kineto_error err = {0};
    kineto_files *files = NULL;
    kineto_status status = kc_parse_options(&options, argc, argv, &operands);
    if (status == KINETO_E_NOT_FOUND)
        return kc_finish_stdout("history add", 0);
    if (!status && (operands != 1 || !data_set))
        status = kc_usage_error("history add", operands != 1 ? "give one run: a directory of traces, or a trace"
                                                             : "no data set given, for example -d history/");
    if (status || kc_choose_run_name("history add", run_name, argv[1], name))
        return KC_EXIT_USAGE;
    status = kineto_files_find((const char *const *)(argv + 1), 1, &files, &err);
    uint32_t count = status ? 0 : kineto_files_count(files);
    if (!status)
        status = add_run_of_files(files, name, &bad, &lacks_ranks, &err);
    kineto_files_destroy(files);
    if (status)
        kc_complain_of("history add", &err);
    if (!count || bad == count)
        return KC_EXIT_USAGE;
    return status ? KC_EXIT_FAILURE : bad || lacks_ranks ? KC_EXIT_INCOMPLETE : 0;
}
