/* The functions of PyTorch's index of its profiler, row by row: what ours do instead. */
#include "unit/unit.h"

#include "profiler/profiling.h"

/* prepareProfiler → kineto_profiler_prepare: reserves everything, records nothing yet; the enable
 * that follows takes it over. */
static void prepareProfiler(void **state)
{
    (void)state;
    kineto_profiler_config c = config_of(KINETO_STATE_KINETO);
    assert_int_equal(kineto_profiler_prepare(&c, ONLY(CPU), NULL), KINETO_OK);
    assert_false(kineto_profiler_enabled());
    assert_int_equal(run_op("before"), 0); /* no callback is registered */
    enable_with(&c, ONLY(CPU));
    assert_true(run_op("after") != 0);
    kineto_profiler_result *r = disabled();
    assert_int_equal(kineto_profiler_result_event_count(r), 1);
    (void)event_named(r, "after");
    kineto_profiler_result_release(r);
    c.state = KINETO_STATE_KINETO_ONDEMAND;
    expect(KINETO_E_UNSUPPORTED, "Supported only in Kineto profiler",
           kineto_profiler_prepare(&c, ONLY(CPU), &err));
}

/* enableProfiler → kineto_profiler_enable: from here on this thread's operators are recorded, of
 * the scopes that were asked for. */
static void enableProfiler(void **state)
{
    (void)state;
    kineto_profiler_config c = config_of(KINETO_STATE_KINETO);
    uint32_t scopes = 1u << KINETO_SCOPE_USER_SCOPE | 1u << KINETO_SCOPE_BACKWARD_FUNCTION;
    assert_int_equal(kineto_profiler_enable(&c, ONLY(CPU), scopes, NULL), KINETO_OK);
    assert_true(kineto_profiler_enabled());
    expect(KINETO_E_STATE, "Profiler is already enabled on this thread.",
           kineto_profiler_enable(&c, ONLY(CPU), 0, &err));
    for (uint32_t scope = 0; scope < KINETO_NUM_SCOPES; scope++) {
        char name[16];
        (void)snprintf(name, sizeof name, "scope %u", scope);
        run_scoped(name, (kineto_scope)scope);
    }
    kineto_profiler_result *r = disabled();
    assert_int_equal(kineto_profiler_result_event_count(r), 2);
    kineto_event user = event_named(r, "scope 7"), backward = event_named(r, "scope 1");
    assert_int_equal(kineto_event_scope(&user), KINETO_SCOPE_USER_SCOPE);
    assert_int_equal(kineto_event_scope(&backward), KINETO_SCOPE_BACKWARD_FUNCTION);
    kineto_profiler_result_release(r);
    expect(KINETO_E_ARGUMENT, "No activities specified.", kineto_profiler_enable(&c, 0, 0, &err));
}

/* disableProfiler → kineto_profiler_disable: a result of one's own; a second one is a status, where
 * PyTorch followed a null pointer. */
static void disableProfiler(void **state)
{
    (void)state;
    enable_plain();
    run_op("inside");
    kineto_profiler_result *r = disabled();
    assert_int_equal(run_op("outside"), 0);
    assert_int_equal(kineto_profiler_result_event_count(r), 1);
    kineto_profiler_result *none = r;
    expect(KINETO_E_STATE, "Can't disable Kineto profiler when it's not running",
           kineto_profiler_disable(&none, &err));
    assert_null(none);
    kineto_profiler_result_release(r);
}

/* enableProfilerWithEventPostProcess → kineto_profiler_enable_with_post_process: called once for
 * each operator, at the end, on the thread that disables; what it says is in the event. */
typedef struct asked {
    pthread_t thread;
    int64_t handles[8];
    int count;
} asked;

static void tell(int64_t handle, kineto_post_event *event, void *user)
{
    asked *a = user;
    char text[32];
    assert_true(a->count < 8);
    a->handles[a->count++] = handle;
    a->thread = pthread_self();
    (void)snprintf(text, sizeof text, "frame %lld", (long long)handle);
    kineto_post_event_add_frame(event, text);
    kineto_post_event_add_frame(event, "main");
    kineto_post_event_add_module(event, "Net");
    kineto_post_event_add_module(event, "Linear");
}

static void enableProfilerWithEventPostProcess(void **state)
{
    (void)state;
    asked a = {.count = 0};
    kineto_profiler_config c = config_of(KINETO_STATE_KINETO);
    c.with_stack = c.with_modules = true;
    assert_int_equal(kineto_profiler_enable_with_post_process(&c, ONLY(CPU), tell, &a, 0, NULL),
                     KINETO_OK);
    kineto_function_info info;
    kineto_function_info_init(&info);
    info.debug_handle = 42;
    run_op_with("aten::mm", &info);
    assert_int_equal(a.count, 0);
    kineto_profiler_result *r = disabled();
    assert_int_equal(a.count, 1);
    assert_int_equal(a.handles[0], 42);
    assert_true(pthread_equal(a.thread, pthread_self()));
    kineto_event e = event_named(r, "aten::mm");
    assert_text(kineto_event_stack(&e), "frame 42;main;");
    assert_text(kineto_event_module_hierarchy(&e), "Net.Linear.");
    kineto_profiler_result_release(r);
    c.state = KINETO_STATE_NVTX;
    expect(KINETO_E_UNSUPPORTED, "NVTX does not support post processing callback.",
           kineto_profiler_enable_with_post_process(&c, 0, tell, &a, 0, &err));
    c.state = KINETO_STATE_ITT;
    expect(KINETO_E_UNSUPPORTED, "ITT does not support post processing callback.",
           kineto_profiler_enable_with_post_process(&c, 0, tell, &a, 0, &err));
    c.state = KINETO_STATE_KINETO_ONDEMAND;
    expect(KINETO_E_UNSUPPORTED, "On-demand profiling does not support post processing callback",
           kineto_profiler_enable_with_post_process(&c, ONLY(CPU), tell, &a, 0, &err));
}

/* enableProfilerInChildThread, disableProfilerInChildThread →
 * kineto_profiler_enable_in_child_thread and _disable_in_child_thread: only what lies between them
 * is recorded. */
static void *child(void *unused)
{
    run_op("child before");
    expect(KINETO_E_STATE, "Can't disable Kineto profiler when it's not running in this thread",
           kineto_profiler_disable_in_child_thread(&err));
    assert_int_equal(kineto_profiler_enable_in_child_thread(NULL), KINETO_OK);
    run_op("child inside");
    expect(KINETO_E_STATE, "Profiler is already enabled in this thread.",
           kineto_profiler_enable_in_child_thread(&err));
    assert_int_equal(kineto_profiler_disable_in_child_thread(NULL), KINETO_OK);
    run_op("child after");
    return unused;
}

static void enableProfilerInChildThread(void **state)
{
    (void)state;
    expect(KINETO_E_STATE, "Profiler is not enabled in main thread.",
           kineto_profiler_enable_in_child_thread(&err));
    enable_plain();
    run_op("main");
    on_thread(child, NULL);
    kineto_profiler_result *r = disabled();
    assert_int_equal(kineto_profiler_result_event_count(r), 2);
    kineto_event main_one = event_named(r, "main"), joined = event_named(r, "child inside");
    assert_int_not_equal(kineto_event_device_resource_id(&main_one),
                         kineto_event_device_resource_id(&joined));
    kineto_profiler_result_release(r);
}

static void *child_that_leaves(void *unused)
{
    assert_int_equal(kineto_profiler_enable_in_child_thread(NULL), KINETO_OK);
    run_op("in");
    assert_int_equal(kineto_profiler_disable_in_child_thread(NULL), KINETO_OK);
    run_op("out");
    assert_int_equal(kineto_profiler_enable_in_child_thread(NULL), KINETO_OK);
    run_op("in");
    return unused; /* a thread that ends has left */
}

static void disableProfilerInChildThread(void **state)
{
    (void)state;
    enable_plain();
    on_thread(child_that_leaves, NULL);
    on_thread(child_that_leaves, NULL);
    kineto_profiler_result *r = disabled();
    assert_int_equal(events_named(r, "in"), 4);
    assert_int_equal(events_named(r, "out"), 0);
    kineto_profiler_result_release(r);
    expect(KINETO_E_STATE, "Can't disable Kineto profiler when it's not running in this thread",
           kineto_profiler_disable_in_child_thread(&err));
}

/* isProfilerEnabledInMainThread → kineto_profiler_is_enabled_in_main_thread: as long as there is
 * one of the host to join, asked from any thread. */
static void *ask(void *answer)
{
    *(bool *)answer = kineto_profiler_is_enabled_in_main_thread();
    return NULL;
}

static void isProfilerEnabledInMainThread(void **state)
{
    (void)state;
    bool before = true, during = false, after = true, of_device = true;
    on_thread(ask, &before);
    enable_plain();
    on_thread(ask, &during);
    kineto_profiler_result_release(disabled());
    on_thread(ask, &after);
    kineto_profiler_config c = config_of(KINETO_STATE_KINETO);
    enable_with(&c, ONLY(CUDA)); /* nothing of the host to take part in */
    on_thread(ask, &of_device);
    kineto_profiler_result_release(disabled());
    assert_false(before);
    assert_true(during);
    assert_false(after);
    assert_false(of_device);
}

/* reportBackendEventToActiveKinetoProfiler → kineto_profiler_report_backend_event_ns: nanoseconds;
 * nothing without a profiler. */
static void reportBackendEventToActiveKinetoProfiler(void **state)
{
    (void)state;
    kineto_profiler_report_backend_event_ns(1, 2, 3, KINETO_SCOPE_FUNCTION, "nobody", "none");
    enable_plain();
    struct timespec t;
    clock_gettime(CLOCK_REALTIME, &t);
    int64_t now = (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
    kineto_profiler_report_backend_event_ns(now, now + 1001, 77, KINETO_SCOPE_FUNCTION,
                                            "delegate::run", "XNNPACK");
    kineto_profiler_report_backend_event_ns(now + 5, now + 9, -1, KINETO_SCOPE_USER_SCOPE, "marked",
                                            "XNNPACK");
    usleep(1000);
    kineto_profiler_result *r = disabled();
    kineto_event e = event_named(r, "delegate::run"), marked = event_named(r, "marked");
    assert_int_equal(kineto_event_activity_type(&e), KINETO_KIND_CPU_OP);
    assert_int_equal(kineto_event_activity_type(&marked), KINETO_KIND_USER_ANNOTATION);
    assert_text(kineto_event_backend(&e), "XNNPACK");
    assert_int_equal(kineto_event_debug_handle(&e), 77);
    assert_in_range(kineto_event_duration_ns(&e), 1000, 1002); /* by way of ticks */
    assert_in_range(kineto_event_start_ns(&e), now - 100000, now + 100000);
    assert_int_not_equal(kineto_event_external_id(&e), kineto_event_external_id(&marked));
    assert_int_equal(kineto_event_device_resource_id(&e), gettid());
    kineto_profiler_result_release(r);
}

/* toggleCollectionDynamic → kineto_profiler_pause_collection. */
static void toggleCollectionDynamic(void **state)
{
    (void)state;
    expect(KINETO_E_STATE, "no profiler",
           kineto_profiler_pause_collection(true, ONLY(CPU), &err));
    enable_plain();
    run_op("one");
    assert_int_equal(kineto_profiler_pause_collection(true, ONLY(CPU), NULL), KINETO_OK);
    run_op("two");
    assert_int_equal(kineto_profiler_pause_collection(false, ONLY(CPU), NULL), KINETO_OK);
    run_op("three");
    expect(KINETO_E_ARGUMENT, "No activities specified.",
           kineto_profiler_pause_collection(false, 0, &err));
    kineto_profiler_result *r = disabled();
    assert_int_equal(kineto_profiler_result_event_count(r), 2);
    (void)event_named(r, "one"), (void)event_named(r, "three");
    kineto_profiler_result_release(r);
}

/* startMemoryProfile, stopMemoryProfile, exportMemoryProfile → kineto_memory_profile_start, _stop,
 * _export. tests/profiler/test_profiler_memory.c has the numbers. */
static void allocate(uint64_t address, int64_t bytes)
{
    kineto_memory_event e = {
        .size = sizeof e, .address = address, .bytes = bytes, .device_index = -1};
    kineto_memory_report(&e);
}

static char *exported(char *text, size_t size)
{
    char folder[256], path[300];
    assert_non_null(make_directory(folder, sizeof folder));
    (void)snprintf(path, sizeof path, "%s/memory.json", folder);
    kineto_error err = {0};
    if (kineto_memory_profile_export(path, &err))
        fail_msg("not exported: %s", err.message);
    assert_true(read_whole(path, text, size) > 0);
    (void)unlink(path);
    (void)rmdir(folder);
    return text;
}

static void startMemoryProfile(void **state)
{
    (void)state;
    char text[4096];
    allocate(0x10, 1 << 20); /* before */
    assert_int_equal(kineto_memory_profile_start(NULL), KINETO_OK);
    expect(KINETO_E_STATE, "running already", kineto_memory_profile_start(&err));
    allocate(0x20, 100);
    assert_non_null(strstr(exported(text, sizeof text), "\"live_bytes\":100"));
    assert_int_equal(kineto_memory_profile_stop(NULL), KINETO_OK);
}

static void stopMemoryProfile(void **state)
{
    (void)state;
    char text[4096];
    expect(KINETO_E_STATE, "no memory profile is running", kineto_memory_profile_stop(&err));
    assert_int_equal(kineto_memory_profile_start(NULL), KINETO_OK);
    allocate(0x20, 64);
    assert_int_equal(kineto_memory_profile_stop(NULL), KINETO_OK);
    allocate(0x30, 1 << 20); /* after */
    assert_non_null(strstr(exported(text, sizeof text), "\"live_bytes\":64"));
}

static void exportMemoryProfile(void **state)
{
    (void)state;
    char text[4096];
    assert_int_equal(kineto_memory_profile_start(NULL), KINETO_OK);
    allocate(0x20, 300);
    allocate(0x30, 200);
    allocate(0x20, -300);
    assert_int_equal(kineto_memory_profile_stop(NULL), KINETO_OK);
    exported(text, sizeof text);
    assert_non_null(strstr(text, "\"live_bytes\":200"));
    assert_non_null(strstr(text, "\"peak_bytes\":500"));
    assert_non_null(strstr(text, "\"allocations\":2"));
    expect(KINETO_E_NOT_FOUND, "/nowhere", kineto_memory_profile_export("/nowhere/at/all", &err));
}

/* Where nothing was ever profiled PyTorch followed a null pointer; first, for that reason. */
static void exportMemoryProfile_before_any_start_is_a_status(void **state)
{
    (void)state;
    expect(KINETO_E_STATE, "start one first", kineto_memory_profile_export("/tmp/never", &err));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        ROW(exportMemoryProfile_before_any_start_is_a_status),
        ROW(prepareProfiler),
        ROW(enableProfiler),
        ROW(disableProfiler),
        ROW(enableProfilerWithEventPostProcess),
        ROW(enableProfilerInChildThread),
        ROW(disableProfilerInChildThread),
        ROW(isProfilerEnabledInMainThread),
        ROW(reportBackendEventToActiveKinetoProfiler),
        ROW(toggleCollectionDynamic),
        ROW(startMemoryProfile),
        ROW(stopMemoryProfile),
        ROW(exportMemoryProfile),
    };
    return RUN_TESTS(tests);
}
