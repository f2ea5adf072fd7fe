/* What profilers record besides operators' names: stacks, counters, collections, reports of
 * backends; and results that several threads look at. */
#include "unit/unit.h"

#include "base/base.h"

#include "profiler/profiling.h"

/* ---- stacks ------------------------------------------------------------------------------------------ */

__attribute__((noinline)) static void inner_caller(void)
{
    run_op("aten::mm");
    __asm__ volatile("" ::: "memory"); /* no tail call */
}

static void native_stacks_are_there_where_the_program_says_nothing(void **state)
{
    (void)state;
    kineto_profiler_config c = config_of(KINETO_STATE_KINETO);
    c.with_stack = true;
    enable_with(&c, ONLY(CPU));
    inner_caller();
    kineto_function_info info;
    kineto_function_info_init(&info);
    info.stack = "mine;";
    run_op_with("aten::said", &info);
    kineto_profiler_result *r = disabled();
    kineto_event e = event_named(r, "aten::mm");
    kineto_string stack = kineto_event_stack(&e);
    assert_true(stack.size > 1 && stack.data[stack.size - 1] == ';');
    e = event_named(r, "aten::said");
    assert_text(kineto_event_stack(&e), "mine;");
    kineto_profiler_result_release(r);
}

static void add_frame(int64_t handle, kineto_post_event *event, void *user)
{
    (void)user;
    if (handle == 1)
        kineto_post_event_add_frame(event, "told afterwards");
}

static uint32_t args_named(const kineto_event *e, const char *key)
{
    kineto_args_iterator it;
    kineto_arg arg;
    uint32_t n = 0;
    kineto_args_begin(e->trace, e->row, &it);
    while (kineto_args_next(&it, &arg))
        n += text_is(arg.key, key);
    return n;
}

static void a_stack_that_is_set_afterwards_replaces_a_native_one(void **state)
{
    (void)state;
    kineto_profiler_config c = config_of(KINETO_STATE_KINETO);
    c.with_stack = true;
    assert_int_equal(
        kineto_profiler_enable_with_post_process(&c, ONLY(CPU), add_frame, NULL, 0, NULL),
        KINETO_OK);
    kineto_function_info info;
    kineto_function_info_init(&info);
    info.debug_handle = 1;
    run_op_with("aten::told", &info);
    run_op("aten::native");
    info.stack = "handed in;";
    run_op_with("aten::both", &info);
    kineto_profiler_result *r = disabled();
    kineto_event e = event_named(r, "aten::told");
    assert_text(kineto_event_stack(&e), "told afterwards;");
    e = event_named(r, "aten::both");
    assert_text(kineto_event_stack(&e), "handed in;");
    assert_int_equal(args_named(&e, "Call stack"), 1);
    e = event_named(r, "aten::native");
    assert_true(kineto_event_has_stack(&e));
    assert_null(memmem(kineto_event_stack(&e).data, kineto_event_stack(&e).size, "told ", 5));
    kineto_profiler_result_release(r);
}

/* ---- counters ---------------------------------------------------------------------------------------- */

/* Whatever the machine has of them: an argument, or a line in the ledger, nothing silent. */
static void each_counter_is_there_or_said_not_to_be(void **state)
{
    (void)state;
    static const char *const names[] = {"cycles", "instructions", "pagefaults",
                                        "backend-stall-cycles"};
    kineto_profiler_config c = config_of(KINETO_STATE_KINETO);
    c.experimental.performance_events = names;
    c.experimental.performance_event_count = COUNT_OF(names);
    enable_with(&c, ONLY(CPU));
    run_op("aten::mm");
    kineto_profiler_result *r = disabled();
    kineto_event e = event_named(r, "aten::mm");
    kineto_string name;
    uint64_t value;
    uint32_t n = 0;
    while (kineto_event_perf_counter(&e, n, &name, &value))
        n++;
    assert_true(n <= COUNT_OF(names));
    if (n < COUNT_OF(names)) {
        bool said = false;
        for (uint32_t i = 0; i < kineto_trace_ledger_count(trace_of(r)); i++) {
            kineto_ledger_line l;
            kineto_trace_ledger(trace_of(r), i, &l);
            said |= text_is(l.source, "counters");
        }
        assert_true(said);
    }
    assert_false(kineto_event_has_kwinputs(&e)); /* counters are no inputs */
    kineto_profiler_result_release(r);
}

static void more_counters_than_there_is_room_for_are_refused(void **state)
{
    (void)state;
    static const char *const names[] = {"cycles", "instructions", "pagefaults", "page-faults",
                                        "task-clock"};
    kineto_profiler_config c = config_of(KINETO_STATE_KINETO);
    c.experimental.performance_events = names;
    c.experimental.performance_event_count = COUNT_OF(names);
    assert_int_not_equal(kineto_profiler_enable(&c, ONLY(CPU), 0, NULL), KINETO_OK);
}

/* ---- reports ------------------------------------------------------------------------------------------ */

static void *report_from_a_thread(void *now)
{
    for (int i = 0; i < 100; i++)
        kineto_profiler_report_backend_event_ns(*(int64_t *)now, *(int64_t *)now + 50, i,
                                                KINETO_SCOPE_FUNCTION, "delegate", "NNAPI");
    return NULL;
}

static void reports_of_backends_have_ids_and_threads_of_their_own(void **state)
{
    (void)state;
    kineto_profiler_config c = config_of(KINETO_STATE_KINETO);
    c.experimental.profile_all_threads = true;
    enable_with(&c, ONLY(CPU));
    int64_t now = now_realtime_ns();
    report_from_a_thread(&now);
    on_thread(report_from_a_thread, &now);
    uint64_t op = run_op("aten::mm");
    usleep(1000);
    kineto_profiler_result *r = disabled();
    assert_int_equal(events_named(r, "delegate"), 200);
    kineto_event e;
    int64_t threads[2] = {0};
    kb_map ids = {0};
    for (uint64_t i = 0; i < 200; i++) {
        bool created;
        e = event_nth(r, "delegate", i);
        assert_text(kineto_event_backend(&e), "NNAPI");
        assert_in_range(kineto_event_debug_handle(&e), 0, 99);
        assert_int_not_equal(kineto_event_external_id(&e), op);
        assert_non_null(kb_map_insert(&ids, kineto_event_external_id(&e), 1, &created));
        assert_true(created);
        threads[kineto_event_device_resource_id(&e) == gettid()]++;
    }
    assert_int_equal(threads[0], 100);
    assert_int_equal(threads[1], 100);
    kb_map_free(&ids);
    kineto_profiler_result_release(r);
}

static void reports_with_odd_times_and_texts_do_no_harm(void **state)
{
    (void)state;
    static char large[70000];
    memset(large, 'n', sizeof large - 1);
    enable_plain();
    int64_t now = now_realtime_ns();
    kineto_profiler_report_backend_event_ns(now + 100, now, -5, KINETO_SCOPE_FUNCTION, "backwards",
                                            "");
    kineto_profiler_report_backend_event_ns(INT64_MIN, INT64_MAX, 0, KINETO_SCOPE_FUNCTION, "huge",
                                            "x");
    kineto_profiler_report_backend_event_ns(now, now + 1, 0, KINETO_SCOPE_FUNCTION, large, large);
    kineto_profiler_report_backend_event_ns(now, now + 1, 0, KINETO_SCOPE_FUNCTION, NULL, NULL);
    kineto_profiler_report_backend_event_ns(now, now + 1, 0, KINETO_SCOPE_FUNCTION, "\xff\"\n",
                                            "\"");
    usleep(1000);
    kineto_profiler_result *r = disabled(); /* times are the caller's, and not cut at the window */
    kineto_event e = event_named(r, "backwards");
    assert_int_equal(kineto_event_duration_ns(&e), 0);
    (void)event_named(r, "\xff\"\n");
    char folder[256], path[300];
    assert_non_null(make_directory(folder, sizeof folder));
    (void)snprintf(path, sizeof path, "%s/t.json", folder);
    assert_int_equal(kineto_profiler_result_save(r, path, NULL), KINETO_OK);
    kineto_trace *again = NULL;
    kineto_open_options strict = {.size = sizeof strict, .strict = true};
    assert_int_equal(kineto_trace_open_with(path, &strict, &again, NULL), KINETO_OK);
    kineto_trace_release(again);
    (void)unlink(path);
    (void)rmdir(folder);
    kineto_profiler_result_release(r);
}

static void collections_are_recorded_for_handles_too_and_nest_flat(void **state)
{
    (void)state;
    kineto_profiler_config c = config_of(KINETO_STATE_KINETO);
    kineto_profiler *p = NULL;
    kineto_profiler_result *r = NULL;
    c.experimental.record_python_gc_info = true;
    assert_int_equal(kineto_profiler_create(&c, ONLY(CPU), 0, &p, NULL), KINETO_OK);
    kineto_profiler_report_gc(true);
    assert_int_equal(kineto_profiler_start(p, NULL), KINETO_OK);
    kineto_profiler_report_gc(false); /* its begin was not wanted */
    kineto_profiler_report_gc(true);
    kineto_profiler_report_gc(true); /* it does not nest */
    kineto_profiler_report_gc(false);
    kineto_profiler_report_gc(false);
    assert_int_equal(kineto_profiler_stop(p, &r, NULL), KINETO_OK);
    assert_int_equal(events_named(r, "Python GC"), 1);
    kineto_profiler_result_release(r);
    kineto_profiler_report_gc(true);
    kineto_profiler_report_gc(false);
    kineto_profiler_destroy(p);
}

/* ---- results of several threads ------------------------------------------------------------------------ */

static void *look(void *result)
{
    const kineto_profiler_result *r = result;
    uint64_t seen = 0;
    for (uint64_t i = 0; i < kineto_profiler_result_tree_root_count(r); i++) {
        kineto_row root = kineto_profiler_result_tree_root(r, i);
        seen++;
        for (kineto_row c = kineto_profiler_result_tree_first_child(r, root); c != KINETO_NO_ROW;
             c = kineto_profiler_result_tree_next_sibling(r, c))
            seen++;
    }
    for (uint64_t i = 0; i < kineto_profiler_result_event_count(r); i++) {
        kineto_event e;
        if (!kineto_profiler_result_event(r, i, &e) || kineto_event_flow_type(&e) != KINETO_FLOW_FWD_BWD)
            return NULL;
    }
    return (void *)(uintptr_t)seen;
}

static void threads_look_at_a_fresh_result_at_once(void **state)
{
    (void)state;
    enum { LOOKERS = 4, OPS = 500 };
    pthread_t threads[LOOKERS];
    kineto_function_info forward, backward;
    kineto_function_info_init(&forward);
    backward = forward;
    KINETO_OPERATOR(mul, "aten::mul");
    KINETO_FUNCTION_SITE(mul_backward, KINETO_SCOPE_BACKWARD_FUNCTION, "MulBackward0");
    enable_plain();
    for (int i = 0; i < OPS; i++) {
        kineto_function a, b;
        forward.sequence_number = backward.sequence_number = i;
        backward.forward_thread_id = kineto_function_thread_id();
        kineto_function_begin_info(&a, &mul, &forward);
        kineto_function_end(&a);
        kineto_function_begin_info(&b, &mul_backward, &backward);
        kineto_function_end(&b);
    }
    kineto_profiler_result *r = disabled();
    for (int i = 0; i < LOOKERS; i++)
        threads[i] = start_thread(look, kineto_profiler_result_retain(r));
    for (int i = 0; i < LOOKERS; i++) {
        void *seen = NULL;
        assert_int_equal(pthread_join(threads[i], &seen), 0);
        assert_int_equal((uintptr_t)seen, 2 * OPS);
        kineto_profiler_result_release(r);
    }
    kineto_profiler_result_release(r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        ROW(native_stacks_are_there_where_the_program_says_nothing),
        ROW(a_stack_that_is_set_afterwards_replaces_a_native_one),
        ROW(each_counter_is_there_or_said_not_to_be),
        ROW(more_counters_than_there_is_room_for_are_refused),
        ROW(reports_of_backends_have_ids_and_threads_of_their_own),
        ROW(collections_are_recorded_for_handles_too_and_nest_flat),
        ROW(threads_look_at_a_fresh_result_at_once),
        ROW(reports_with_odd_times_and_texts_do_no_harm), /* last: one of them goes on for ever */
    };
    return RUN_TESTS(tests);
}
