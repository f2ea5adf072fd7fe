/* States NVTX and ITT: operators become ranges of the attached tool, which the tests of emission
 * bring along; it logs the calls that it receives. */
#include "unit/unit.h"

#include "base/base.h"

#include "profiler/profiling.h"

static char log_path[300];

/* Lines "PID TID CALL TEXT" since the last look, without PID and TID. */
static const char *take_calls(void)
{
    static char text[1 << 16], calls[1 << 16];
    size_t used = 0;
    calls[0] = 0;
    if (!read_whole(log_path, text, sizeof text))
        return calls;
    char *save = NULL;
    for (char *line = strtok_r(text, "\n", &save); line; line = strtok_r(NULL, "\n", &save)) {
        const char *at = strchr(line, ' ');
        at = at ? strchr(at + 1, ' ') : NULL;
        if (at)
            used += (size_t)snprintf(calls + used, sizeof calls - used, "%s\n", at + 1);
    }
    assert_int_equal(truncate(log_path, 0), 0);
    return calls;
}

static uint64_t ids[2];

static void run_nested(void)
{
    int64_t sizes[] = {2, 3};
    kineto_tensor t = {.sizes = sizes, .rank = 2, .dtype = KINETO_DTYPE_FLOAT, .id = 5};
    kineto_input in = kineto_input_tensor(&t);
    kineto_function outer, inner;
    kineto_function_info info;
    kineto_function_info_init(&info);
    KINETO_OPERATOR(linear, "aten::linear");
    KINETO_OPERATOR(mm, "aten::mm");
    info.sequence_number = 4;
    kineto_function_begin_info(&outer, &linear, &info);
    kineto_function_begin(&inner, &mm, &in, 1);
    ids[0] = kineto_function_id(&outer);
    ids[1] = kineto_function_id(&inner);
    kineto_function_end(&inner);
    kineto_function_end(&outer);
}

static void *run_elsewhere(void *unused)
{
    run_nested();
    return unused;
}
static void *run_as_child(void *unused)
{
    kineto_profiler *p = unused;
    assert_int_equal(kineto_profiler_join(p, NULL), KINETO_OK);
    run_nested();
    assert_int_equal(kineto_profiler_leave(p, NULL), KINETO_OK);
    run_nested();
    return unused;
}

static uint32_t times(const char *text, const char *what)
{
    uint32_t n = 0;
    for (const char *at = text; (at = strstr(at, what)) != NULL; at += strlen(what))
        n++;
    return n;
}

static void nvtx_shows_ranges_of_the_thread(void **state)
{
    (void)state;
    kineto_profiler_config c = config_of(KINETO_STATE_NVTX);
    enable_with(&c, 0);
    assert_int_equal(kineto_profiler_type(), KINETO_ACTIVE_NVTX);
    assert_false(kineto_profiler_is_enabled_in_main_thread()); /* nothing is recorded here */
    (void)take_calls();
    run_nested();
    uint64_t mine[2] = {ids[0], ids[1]};
    on_thread(run_elsewhere, NULL); /* another thread's are not shown */
    const char *calls = take_calls();
    kineto_profiler_result *r = disabled();
    assert_null(kineto_profiler_result_trace(r));
    assert_int_equal(kineto_profiler_result_start_ns(r), 0);
    kineto_profiler_result_release(r);
    char expected[200];
    (void)snprintf(expected, sizeof expected,
                   "pushA aten::linear, seq = 4, op_id = %llu\npushA aten::mm, op_id = %llu\n"
                   "pop \npop \n",
                   (unsigned long long)mine[0], (unsigned long long)mine[1]);
    assert_string_equal(calls, expected);
    run_nested();
    assert_string_equal(take_calls(), "");
}

static void nvtx_with_shapes_says_sizes_and_ids(void **state)
{
    (void)state;
    kineto_profiler_config c = config_of(KINETO_STATE_NVTX);
    char expected[200];
    c.report_input_shapes = true;
    enable_with(&c, 0);
    (void)take_calls();
    run_nested();
    const char *calls = take_calls();
    kineto_profiler_result_release(disabled());
    (void)snprintf(expected, sizeof expected, "pushA aten::linear, seq = 4, op_id = %llu\n",
                   (unsigned long long)ids[0]);
    if (!strstr(calls, expected))
        fail_msg("%s is not in:\n%s", expected, calls);
    (void)snprintf(expected, sizeof expected, "pushA aten::mm, op_id = %llu, sizes = [[2, 3]]",
                   (unsigned long long)ids[1]);
    if (!strstr(calls, expected))
        fail_msg("%s is not in:\n%s", expected, calls);
}

static void itt_shows_names(void **state)
{
    (void)state;
    kineto_profiler_config c = config_of(KINETO_STATE_ITT);
    enable_with(&c, 0);
    assert_int_equal(kineto_profiler_type(), KINETO_ACTIVE_ITT);
    (void)take_calls();
    run_nested();
    const char *calls = take_calls();
    kineto_profiler_result *r = disabled(); /* PyTorch gives none at all */
    assert_null(kineto_profiler_result_trace(r));
    kineto_profiler_result_release(r);
    assert_int_equal(times(calls, "taskBegin"), 2);
    assert_int_equal(times(calls, "taskEnd"), 2);
    assert_non_null(strstr(calls, "aten::linear"));
    assert_null(strstr(calls, "seq ="));
}

static void ranges_follow_joins_pauses_and_scopes(void **state)
{
    (void)state;
    kineto_profiler_config c = config_of(KINETO_STATE_NVTX);
    kineto_profiler *p = NULL;
    assert_int_equal(kineto_profiler_create(&c, 0, 1u << KINETO_SCOPE_FUNCTION, &p, NULL),
                     KINETO_OK);
    assert_int_equal(kineto_profiler_start(p, NULL), KINETO_OK);
    (void)take_calls();
    run_scoped("user", KINETO_SCOPE_USER_SCOPE);
    assert_string_equal(take_calls(), "");
    on_thread(run_as_child, p);
    const char *calls = take_calls();
    assert_int_equal(times(calls, "pushA"), 2);
    assert_int_equal(times(calls, "pop"), 2);
    assert_int_equal(kineto_profiler_pause(p, true, NULL), KINETO_OK);
    run_nested();
    assert_string_equal(take_calls(), "");
    assert_int_equal(kineto_profiler_pause(p, false, NULL), KINETO_OK);
    run_nested();
    assert_int_equal(times(take_calls(), "pushA"), 2);
    kineto_profiler_destroy(p);
    run_nested();
    assert_string_equal(take_calls(), "");
}

/* A tool and a trace of the same operators. */
static void a_tool_and_a_recording_go_together(void **state)
{
    (void)state;
    kineto_profiler_config nvtx = config_of(KINETO_STATE_NVTX), k = config_of(KINETO_STATE_KINETO);
    kineto_profiler *p = NULL;
    assert_int_equal(kineto_profiler_create(&nvtx, 0, 0, &p, NULL), KINETO_OK);
    assert_int_equal(kineto_profiler_start(p, NULL), KINETO_OK);
    enable_with(&k, ONLY(CPU));
    (void)take_calls();
    run_nested();
    assert_int_equal(times(take_calls(), "pushA"), 2);
    kineto_profiler_result *r = disabled();
    assert_int_equal(kineto_profiler_result_event_count(r), 2);
    kineto_profiler_result_release(r);
    kineto_profiler_destroy(p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        ROW(nvtx_shows_ranges_of_the_thread),
        ROW(nvtx_with_shapes_says_sizes_and_ids),
        ROW(itt_shows_names),
        ROW(ranges_follow_joins_pauses_and_scopes),
        ROW(a_tool_and_a_recording_go_together),
    };
    char folder[256];
    if (!make_directory(folder, sizeof folder))
        return 1;
    (void)snprintf(log_path, sizeof log_path, "%s/log", folder);
    (void)setenv("EMIT_LOG", log_path, 1);
    (void)setenv("NVTX_INJECTION64_PATH", NVTX_TOOL, 1);
    (void)setenv("INTEL_LIBITTNOTIFY64", ITT_TOOL, 1);
    int failed = RUN_TESTS(tests);
    (void)unlink(log_path);
    (void)rmdir(folder);
    return failed;
}
