/* A program that was compiled when structs were smaller: all that the library writes to lies within
 * the size that the program stated, and the size stays the program's. Called is what is exported.
 *
 * usage: test_older_program TRACE PAGE: the trace has memory in it, PAGE.html is written */
#include <ckineto/ckineto.h>

#include <stddef.h>
#include <stdio.h>
#include <string.h>

enum { UNTOUCHED = 0xee, ROOM = 8192 };

static _Alignas(max_align_t) unsigned char room[ROOM];
static unsigned faults;

/* A struct of N bytes, and after it bytes that are not the library's. */
static void *older(size_t bytes)
{
    memset(room, UNTOUCHED, sizeof room);
    memcpy(room, &bytes, sizeof bytes);
    return room;
}

static void expect(const char *what, size_t bytes, int status)
{
    size_t size, at = bytes;
    memcpy(&size, room, sizeof size);
    while (at < ROOM && room[at] == UNTOUCHED)
        at++;
    if (status || size != bytes || at != ROOM) {
        printf("%s of %zu bytes: status %d, size %zu, %s\n", what, bytes, status, size,
               at == ROOM ? "nothing after it written" : "written after it");
        faults++;
    }
}

static void check_profiler(size_t bytes)
{
    static const int64_t values[KINETO_CONFIG_VALUES] = {KINETO_STATE_KINETO, 1, 1};
    kineto_profiler_config config;
    kineto_error err;
    kineto_profiler_config_init(&config, KINETO_STATE_KINETO);
    expect("config of values", bytes,
           kineto_profiler_config_from_values(values, KINETO_CONFIG_VALUES, older(bytes), &err));
    (void)kineto_profiler_enable(&config, KINETO_ACTIVITY_SET(CPU), 0, &err);
    expect("config of the profiler", bytes, !kineto_profiler_config_get(older(bytes)));
    (void)kineto_profiler_disable(NULL, &err);
    expect("stubs", offsetof(kineto_stubs, record),
           !kineto_stubs_slot_get(KINETO_STUBS_CUDA, older(offsetof(kineto_stubs, record))));
}

static void check_trace(const kineto_trace *trace, size_t bytes)
{
    kineto_scrub how = {
        .size = sizeof how, .what = KINETO_SCRUB_USUAL, .salt = "salt", .salt_bytes = 4};
    kineto_trace *scrubbed;
    kineto_error err;
    kineto_trace_identity(trace, "rank_1.json", older(bytes));
    expect("identity", bytes, 0);
    expect("result of scrubbing", bytes,
           kineto_trace_scrub(trace, &how, &scrubbed, older(bytes), &err));
    kineto_trace_release(scrubbed);
    expect("result of exporting", bytes,
           kineto_trace_export_chrome(trace, "/dev/null", older(bytes), &err));
    expect("format", bytes, !kineto_export_format_get(0, older(bytes)));
}

static void check_memory(const kineto_trace *trace, const char *page, size_t bytes)
{
    kineto_function_events *events = NULL;
    kineto_error err;
    (void)kineto_function_events_create(trace, NULL, &events, &err);
    expect("result of memory over time", bytes,
           kineto_memory_timeline_save(events, NULL, page, older(bytes), &err));
    kineto_function_events_destroy(events);
}

static void check_analysis(const kineto_trace *trace, size_t bytes)
{
    static const kineto_what_if_scale half = {KINETO_WHAT_IF_OPERATOR, "", 0.5};
    kineto_critical_path *path = NULL;
    kineto_analysis *diff = NULL;
    kineto_error err;
    (void)kineto_critical_path_create(trace, NULL, &path, &err);
    expect("what-if", bytes, path ? kineto_critical_path_what_if(path, &half, 1, older(bytes), &err) : 1);
    (void)kineto_diff_run(trace, trace, NULL, &diff, &err);
    expect("verdict", bytes, kineto_diff_gate(diff, "step>3%", true, older(bytes), &err));
    kineto_critical_path_destroy(path);
    kineto_analysis_destroy(diff);
}

int main(int argc, char **argv)
{
    static const size_t sizes[] = {sizeof(size_t), 2 * sizeof(size_t), 3 * sizeof(size_t)};
    kineto_trace *trace;
    kineto_error err;
    if (argc != 3 || kineto_trace_open(argv[1], &trace, &err)) {
        puts(argc == 3 ? err.message : "name a trace and a page");
        return 2;
    }
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        check_profiler(sizes[i]);
        check_trace(trace, sizes[i]);
        check_memory(trace, argv[2], sizes[i]);
        check_analysis(trace, sizes[i]);
    }
    kineto_trace_release(trace);
    return faults != 0;
}
