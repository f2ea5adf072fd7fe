/* A program that forgot to state the size of a struct, states one that cannot be, sets what only a
 * newer version knows, or hands over nothing where something is needed: each time it is reported,
 * and what a function makes is NULL afterwards. Called is what is exported.
 *
 * usage: test_careless_program TRACE */
#include <ckineto/ckineto.h>

#include <stdint.h>
#include <stdio.h>
#include <string.h>

enum { ROOM = 8192 };

static _Alignas(max_align_t) unsigned char room[ROOM];
static kineto_error err;
static unsigned faults;

/* What functions are asked about, and what they make. */
static const char *path;
static kineto_trace *trace;
static kineto_files *files;
static kineto_function_events *events;
static kineto_averages *averages;
static kineto_profile_run *profile;
static kineto_critical_path *critical;
static kineto_analysis *diff;
static kineto_findings *findings;
static void *made;

/* A struct of nothing but its size; with `more`, a member after what is known here is set. */
static void *stated(size_t size, size_t more)
{
    memset(room, 0, sizeof room);
    memcpy(room, &size, sizeof size);
    room[more] = (unsigned char)(more ? 1 : room[0]);
    return room;
}

static void expect(const char *what, kineto_status expected, kineto_status status)
{
    if (status != expected || !err.message[0] || made) {
        printf("%s: status %s '%s'%s\n", what, kineto_status_name(status), err.message,
               made ? ", and something was made" : "");
        faults++;
    }
    err.message[0] = '\0';
    made = NULL;
}

/* The same for each way to state a size. `o` is the struct in the call. */
#define REFUSED(type, call)                                                                        \
    do {                                                                                           \
        void *o = stated(0, 0);                                                                    \
        expect(#type " without its size", KINETO_E_ARGUMENT, call);                                \
        o = stated(SIZE_MAX, 0);                                                                   \
        expect(#type " of any size", KINETO_E_ARGUMENT, call);                                     \
        o = stated(sizeof(type) + 8, sizeof(type));                                                \
        expect(#type " of a newer version", KINETO_E_UNSUPPORTED, call);                           \
    } while (0)
/* Of functions that a program offers, newer ones may have more. */
#define SIZE_REFUSED(type, call)                                                                   \
    do {                                                                                           \
        void *o = stated(0, 0);                                                                    \
        expect(#type " without its size", KINETO_E_ARGUMENT, call);                                \
        o = stated(SIZE_MAX, 0);                                                                   \
        expect(#type " of any size", KINETO_E_ARGUMENT, call);                                     \
    } while (0)
#define MADE (made = &err, (void *)&made)

static void check_options_of_traces(void)
{
    REFUSED(kineto_open_options, kineto_trace_open_with(path, o, MADE, &err));
    REFUSED(kineto_open_many_options, kineto_trace_open_many(&path, 1, o, MADE, &err));
    REFUSED(kineto_selection, kineto_trace_select(trace, o, MADE, &err));
    REFUSED(kineto_scrub, kineto_trace_scrub(trace, o, MADE, NULL, &err));
    REFUSED(kineto_merge_options,
            kineto_trace_merge(&(const kineto_trace *){trace}, 1, o, MADE, &err));
    REFUSED(kineto_survey_options, kineto_files_survey(files, o, MADE, &err));
    REFUSED(kineto_export_options, kineto_trace_export(trace, "/dev/null", o, NULL, &err));
    REFUSED(kineto_report_options, kineto_report_save(trace, o, "/dev/null", &err));
    REFUSED(kineto_function_events_options, kineto_function_events_create(trace, o, MADE, &err));
    REFUSED(kineto_averages_options, kineto_averages_create(events, o, MADE, &err));
    REFUSED(kineto_table_options, kineto_averages_save(averages, o, "/dev/null", &err));
    REFUSED(kineto_table_options, kineto_averages_text(averages, o, MADE, NULL, &err));
    REFUSED(kineto_stacks_options, kineto_stacks_save(events, o, "/dev/null", NULL, &err));
    REFUSED(kineto_memory_timeline_options,
            kineto_memory_timeline_save(events, o, "/dev/null/x.json", NULL, &err));
}

static void check_options_of_facts(void)
{
    kineto_diff_options both = {.size = sizeof both};
    kineto_findings_options find = {.size = sizeof find};
    REFUSED(kineto_verify_options, kineto_verify_run(trace, o, MADE, &err));
    REFUSED(kineto_analysis_options, kineto_analysis_run(trace, o, MADE, &err));
    REFUSED(kineto_analysis_options, kineto_analysis_overlay(trace, o, MADE, &err));
    REFUSED(kineto_analysis_options, kineto_critical_path_create(trace, o, MADE, &err));
    REFUSED(kineto_diff_options, kineto_diff_run(trace, trace, o, MADE, &err));
    REFUSED(kineto_analysis_options,
            (both.analyze = o, kineto_diff_run(trace, trace, &both, MADE, &err)));
    REFUSED(kineto_findings_options, kineto_findings_find(trace, o, MADE, &err));
    REFUSED(kineto_analysis_options, (find.analyze = o, kineto_findings_find(trace, &find, MADE, &err)));
}

static void check_options_of_recording(void)
{
    kineto_callback callback;
    REFUSED(kineto_session_options, kineto_session_create(o, MADE, &err));
    REFUSED(kineto_profiler_config, kineto_profiler_create(o, 1, 0, MADE, &err));
    REFUSED(kineto_profiler_config, kineto_ondemand_prepare(o, &err));
    REFUSED(kineto_profile_run_options, kineto_profile_run_create(o, MADE, &err));
    REFUSED(kineto_tensorboard, kineto_profile_run_save_tensorboard(profile, o, NULL, 0, &err));
    REFUSED(kineto_control_options, kineto_control_start(o, &err));
    SIZE_REFUSED(kineto_control_client, kineto_control_set_client(o, &err));
    SIZE_REFUSED(kineto_stubs, kineto_stubs_register(KINETO_STUBS_ITT, o, &err));
    SIZE_REFUSED(kineto_privateuse1_observer, kineto_privateuse1_observer_register(o, &err));
    REFUSED(kineto_function_callback, kineto_function_add_global(o, &callback, &err));
    REFUSED(kineto_schedule, kineto_schedule_check(o, NULL, &err));
}

/* Where results go: before anything is done. */
static void check_results(void)
{
    static const kineto_scrub how = {
        .size = sizeof how, .what = KINETO_SCRUB_USUAL, .salt = "salt", .salt_bytes = 4};
    static const size_t sizes[] = {0, sizeof(size_t) - 1, SIZE_MAX};
    expect("no verdict", KINETO_E_ARGUMENT, kineto_diff_gate(diff, "step>3%", true, NULL, &err));
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        void *o = stated(sizes[i], 0);
        expect("result of a writer", KINETO_E_ARGUMENT,
               kineto_trace_export_chrome(trace, "/nowhere/x.json", o, &err));
        expect("result of scrubbing", KINETO_E_ARGUMENT,
               kineto_trace_scrub(trace, &how, MADE, o, &err));
        expect("result of memory", KINETO_E_ARGUMENT,
               kineto_memory_timeline_save(events, NULL, "/nowhere/x.json", o, &err));
        expect("result of a what-if", KINETO_E_ARGUMENT,
               kineto_critical_path_what_if(critical, NULL, 0, o, &err));
        expect("verdict", KINETO_E_ARGUMENT, kineto_diff_gate(diff, "step>3%", true, o, &err));
        if (kineto_export_format_get(0, o))
            faults++, puts("a format was written to a struct without its size");
    }
}

static void check_nothing(void)
{
    bool passed;
    expect("open", KINETO_E_ARGUMENT, kineto_trace_open(NULL, MADE, &err));
    expect("find files", KINETO_E_ARGUMENT,
           kineto_files_find(&(const char *){NULL}, 1, MADE, &err));
    expect("merge", KINETO_E_ARGUMENT,
           kineto_trace_merge((const kineto_trace *[]){trace, NULL}, 2, NULL, MADE, &err));
    expect("verify", KINETO_E_ARGUMENT, kineto_verify_run(NULL, NULL, MADE, &err));
    expect("analyze", KINETO_E_ARGUMENT, kineto_analysis_run(trace, NULL, NULL, &err));
    expect("overlay", KINETO_E_ARGUMENT, kineto_analysis_overlay(trace, NULL, NULL, &err));
    expect("path", KINETO_E_ARGUMENT, kineto_critical_path_create(trace, NULL, NULL, &err));
    expect("path shown", KINETO_E_ARGUMENT, kineto_critical_path_overlay(NULL, MADE, &err));
    expect("path shown", KINETO_E_ARGUMENT, kineto_critical_path_overlay(critical, NULL, &err));
    expect("what-if", KINETO_E_ARGUMENT, kineto_critical_path_what_if(NULL, NULL, 0, stated(64, 0), &err));
    expect("what-if", KINETO_E_ARGUMENT, kineto_critical_path_what_if(critical, NULL, 1, stated(64, 0), &err));
    expect("what-if", KINETO_E_ARGUMENT, kineto_critical_path_what_if(critical, NULL, 0, NULL, &err));
    expect("diff", KINETO_E_ARGUMENT, kineto_diff_run(trace, trace, NULL, NULL, &err));
    expect("find", KINETO_E_ARGUMENT, kineto_findings_find(NULL, NULL, MADE, &err));
    expect("find", KINETO_E_ARGUMENT, kineto_findings_find(trace, NULL, NULL, &err));
    expect("gate", KINETO_E_ARGUMENT, kineto_findings_gate(NULL, "all", &passed, NULL, 0, &err));
    expect("gate", KINETO_E_ARGUMENT, kineto_findings_gate(findings, "all", NULL, NULL, 0, &err));
    expect("snapshot", KINETO_E_ARGUMENT, kineto_session_snapshot(NULL, MADE, &err));
}

/* Numbers that are in no enumeration. */
static void check_choices(void)
{
    kineto_analysis_options facts = {.size = sizeof facts, .definitions = 2};
    kineto_diff_options both = {.size = sizeof both, .devices = 3};
    kineto_averages_options groups = {.size = sizeof groups, .flops = 3};
    expect("definitions", KINETO_E_ARGUMENT, kineto_analysis_run(trace, &facts, MADE, &err));
    facts = (kineto_analysis_options){.size = sizeof facts, .steps = 4};
    expect("steps", KINETO_E_ARGUMENT, kineto_critical_path_create(trace, &facts, MADE, &err));
    expect("devices", KINETO_E_ARGUMENT, kineto_diff_run(trace, trace, &both, MADE, &err));
    expect("flops", KINETO_E_ARGUMENT, kineto_averages_create(events, &groups, MADE, &err));
}

/* Those of a newer program lie further apart. */
static void check_identities(void)
{
    struct {
        kineto_identity known;
        uint64_t more;
    } newer[2] = {{.more = 1}, {.more = 1}};
    const kineto_trace *both[] = {trace, trace};
    kineto_merge_options how = {.size = sizeof how, .identities = &newer[0].known};
    kineto_trace *merged = NULL;
    for (int32_t i = 0; i < 2; i++) {
        newer[i].known.size = sizeof newer[i];
        newer[i].known.rank = 40 + i;
    }
    kineto_process process = {.rank = -1};
    if (kineto_trace_merge(both, 2, &how, &merged, &err) == KINETO_OK)
        kineto_trace_process(merged, kineto_trace_process_count(merged) - 1, &process);
    if (process.rank != 41)
        faults++, printf("the second of two is rank %d, not 41\n", (int)process.rank);
    kineto_trace_release(merged);
}

static bool make_all(void)
{
    return !kineto_trace_open(path, &trace, &err) && !kineto_files_find(&path, 1, &files, &err) &&
           !kineto_function_events_create(trace, NULL, &events, &err) &&
           !kineto_averages_create(events, NULL, &averages, &err) &&
           !kineto_profile_run_create(NULL, &profile, &err) &&
           !kineto_critical_path_create(trace, NULL, &critical, &err) &&
           !kineto_diff_run(trace, trace, NULL, &diff, &err) &&
           !kineto_findings_find(trace, NULL, &findings, &err);
}

int main(int argc, char **argv)
{
    path = argv[argc - 1];
    if (argc != 2 || !make_all()) {
        puts(argc == 2 ? err.message : "name a trace");
        return 2;
    }
    check_options_of_traces();
    check_options_of_facts();
    check_options_of_recording();
    check_results();
    check_nothing();
    check_choices();
    check_identities();
    kineto_findings_destroy(findings);
    kineto_analysis_destroy(diff);
    kineto_critical_path_destroy(critical);
    kineto_profile_run_destroy(profile);
    kineto_averages_destroy(averages);
    kineto_function_events_destroy(events);
    kineto_files_destroy(files);
    kineto_trace_release(trace);
    return faults != 0;
}
