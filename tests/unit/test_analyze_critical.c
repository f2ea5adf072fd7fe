/* The critical path of traces that are made for it: what waits for what, slack, and what-if. */
#include "building.h"

#include <ckineto/analyze.h>

#define EPOCH INT64_C(1700000000000000000)
#define US    INT64_C(1000)

typedef struct sample {
    kt_builder *b;
    uint32_t host, thread, other, device, stream, stream2;
} sample;

static void begin(sample *s)
{
    s->b = builder();
    s->host = kt_process(s->b, false, 10, 0);
    s->device = kt_process(s->b, true, 0, 0);
    s->thread = kt_track(s->b, s->host, KINETO_TRACK_THREAD, 11);
    s->other = kt_track(s->b, s->host, KINETO_TRACK_THREAD, 12);
    s->stream = kt_track(s->b, s->device, KINETO_TRACK_STREAM, 7);
    s->stream2 = kt_track(s->b, s->device, KINETO_TRACK_STREAM, 20);
}

static kineto_row add(sample *s, uint32_t track, uint32_t kind, const char *name, int64_t start_us,
                      int64_t end_us, uint64_t correlation)
{
    kt_row row = {.start_ns = EPOCH + start_us * US,
                  .end_ns = EPOCH + end_us * US,
                  .name = kt_string(s->b, kb_string(name)),
                  .track = track,
                  .kind = kind,
                  .correlation_id = correlation};
    return kt_append(s->b, &row);
}

static kineto_row op(sample *s, const char *name, int64_t from, int64_t to)
{
    return add(s, s->thread, KINETO_KIND_CPU_OP, name, from, to, 0);
}
static kineto_row call(sample *s, const char *name, int64_t from, int64_t to, uint64_t id)
{
    return add(s, s->thread, KINETO_KIND_RUNTIME, name, from, to, id);
}
static kineto_row kernel(sample *s, uint32_t stream, const char *name, int64_t from, int64_t to,
                         uint64_t id)
{
    return add(s, stream, KINETO_KIND_CONCURRENT_KERNEL, name, from, to, id);
}

/* Every moment comes when it did, and the path is as long as the window: always so. */
static kineto_critical_path *path_of(kineto_trace *trace, const kineto_analysis_options *options)
{
    kineto_critical_path *path;
    kineto_error err = {.message = ""};
    if (kineto_critical_path_create(trace, options, &path, &err) != KINETO_OK)
        fail_msg("%s", err.message);
    int64_t sum = 0, origin = INT64_MIN;
    for (uint32_t i = 0; i < kineto_critical_path_edge_count(path); i++) {
        kineto_critical_edge e;
        assert_true(kineto_critical_path_edge(path, i, &e));
        assert_true(e.from < e.to && e.ns >= 0);
        sum += e.on_path ? e.ns : 0;
    }
    assert_int_equal(sum, kineto_critical_path_length_ns(path));
    for (uint32_t i = 1; i < kineto_critical_path_node_count(path); i++) {
        kineto_critical_node n;
        kineto_activity a;
        assert_true(kineto_critical_path_node(path, i, &n));
        kineto_trace_get(trace, n.row, &a);
        int64_t began = (n.is_end ? a.end_ns : a.start_ns) - n.at_ns;
        if (origin == INT64_MIN)
            origin = began;
        assert_int_equal(began, origin);
        assert_true(n.slack_ns >= 0 && (!n.on_path || n.slack_ns == 0));
    }
    return path;
}

static int64_t class_us(const kineto_critical_path *path, const char *name)
{
    const char *found;
    int64_t ns;
    for (uint32_t i = 0; kineto_critical_path_class(path, i, &found, &ns); i++)
        if (strcmp(found, name) == 0)
            return ns / US;
    fail_msg("no class %s", name);
    return -1;
}

static kineto_critical_node node_of(const kineto_critical_path *path, kineto_row row, bool is_end)
{
    kineto_critical_node n;
    for (uint32_t i = 0; kineto_critical_path_node(path, i, &n); i++)
        if (n.row == row && n.is_end == is_end)
            return n;
    fail_msg("row %llu is not in the graph", (unsigned long long)row);
    return n;
}

static int64_t what_if_us(const kineto_critical_path *path, uint32_t kind, const char *pattern,
                          double factor)
{
    kineto_what_if_scale scale = {kind, pattern, factor};
    kineto_what_if_result r = {.size = sizeof r};
    assert_int_equal(kineto_critical_path_what_if(path, &scale, 1, &r, NULL), KINETO_OK);
    assert_int_equal(r.before_ns, kineto_critical_path_length_ns(path));
    return r.after_ns / US;
}

/* An operator launches two kernels and waits for them; a third one, aside, is shorter. */
static kineto_trace *two_streams(kineto_row rows[4])
{
    sample s;
    begin(&s);
    op(&s, "op", 0, 300);
    call(&s, "cudaLaunchKernel", 10, 20, 1);
    call(&s, "cudaLaunchKernel", 20, 30, 2);
    call(&s, "cudaLaunchKernel", 30, 40, 3);
    rows[0] = kernel(&s, s.stream, "gemm", 15, 115, 1);
    rows[1] = kernel(&s, s.stream, "relu", 117, 217, 2);
    rows[2] = kernel(&s, s.stream2, "aside", 35, 135, 3);
    rows[3] = call(&s, "cudaDeviceSynchronize", 50, 220, 0);
    return finish(s.b);
}

static void test_a_wait_for_the_device_puts_its_work_on_the_path(void **state)
{
    (void)state;
    kineto_row rows[4];
    kineto_trace *t = two_streams(rows);
    kineto_critical_path *p = path_of(t, NULL);
    assert_int_equal(kineto_critical_path_length_ns(p), 300 * US);
    assert_int_equal(class_us(p, "device_compute"), 200);
    assert_int_equal(class_us(p, "kernel_gap"), 2);
    assert_int_equal(class_us(p, "launch_delay"), 5);
    assert_int_equal(class_us(p, "sync_return"), 3);
    assert_int_equal(class_us(p, "host_operator"), 90);
    assert_int_equal(class_us(p, "not_explained"), 0);
    assert_true(node_of(p, rows[1], true).on_path && node_of(p, rows[3], true).on_path);
    assert_false(node_of(p, rows[3], false).on_path);
    kineto_critical_path_destroy(p);
    kineto_trace_release(t);
}

static void test_slack_is_how_much_later_something_might_end(void **state)
{
    (void)state;
    kineto_row rows[4];
    kineto_trace *t = two_streams(rows);
    kineto_critical_path *p = path_of(t, NULL);
    assert_int_equal(node_of(p, rows[0], true).slack_ns, 0);
    assert_int_equal(node_of(p, rows[2], true).slack_ns, 85 * US);
    assert_int_equal(node_of(p, rows[3], false).slack_ns, 168 * US);
    kineto_critical_path_destroy(p);
    kineto_trace_release(t);
}

static void test_what_if_stops_at_what_is_waited_for_next(void **state)
{
    (void)state;
    kineto_row rows[4];
    kineto_trace *t = two_streams(rows);
    kineto_critical_path *p = path_of(t, NULL);
    assert_int_equal(what_if_us(p, KINETO_WHAT_IF_KERNEL, "gemm", 0.5), 250);
    assert_int_equal(what_if_us(p, KINETO_WHAT_IF_KERNEL, "g*m", 0.9), 290);
    /* Then the kernel aside is the last to end. */
    assert_int_equal(what_if_us(p, KINETO_WHAT_IF_KERNEL, "relu", 0), 215);
    kineto_what_if_scale both[] = {{KINETO_WHAT_IF_KERNEL, "relu", 0},
                                   {KINETO_WHAT_IF_KERNEL, "gemm", 0}};
    kineto_what_if_result r = {.size = sizeof r};
    assert_int_equal(kineto_critical_path_what_if(p, both, 2, &r, NULL), KINETO_OK);
    assert_int_equal(r.after_ns, 215 * US);
    assert_int_equal(r.scaled, 2);
    assert_int_equal(what_if_us(p, KINETO_WHAT_IF_KERNEL, "aside", 3), 415);
    assert_int_equal(what_if_us(p, KINETO_WHAT_IF_COPY, "", 0), 300);
    assert_int_equal(what_if_us(p, KINETO_WHAT_IF_CLASS, "kernel_gap", 0), 298);
    assert_int_equal(what_if_us(p, KINETO_WHAT_IF_CLASS, "host_operator", 2), 390);
    assert_int_equal(what_if_us(p, KINETO_WHAT_IF_OPERATOR, "op", 0), 8 + 2);
    kineto_critical_path_destroy(p);
    kineto_trace_release(t);
}

static void test_what_if_says_what_makes_no_sense(void **state)
{
    (void)state;
    kineto_row rows[4];
    kineto_trace *t = two_streams(rows);
    kineto_critical_path *p = path_of(t, NULL);
    const kineto_what_if_scale bad[] = {{KINETO_WHAT_IF_KERNEL, "gemm", -1},
                                        {KINETO_WHAT_IF_KERNEL, "gemm", 1e9},
                                        {KINETO_WHAT_IF_KERNEL, "gemm", __builtin_nan("")},
                                        {KINETO_WHAT_IF_CLASS, "nothing", 1},
                                        {9, "gemm", 1}};
    for (size_t i = 0; i < KB_COUNT(bad); i++) {
        kineto_what_if_result r = {.size = sizeof r};
        assert_int_equal(kineto_critical_path_what_if(p, &bad[i], 1, &r, NULL), KINETO_E_ARGUMENT);
    }
    kineto_critical_path_destroy(p);
    kineto_trace_release(t);
}

static void test_launch_cost_is_the_hosts_until_the_device_is_busy(void **state)
{
    (void)state;
    sample s;
    begin(&s);
    for (int i = 0; i < 10; i++) {
        call(&s, "cudaLaunchKernel", i * 20, i * 20 + 10, (uint64_t)i + 1);
        kernel(&s, s.stream, "tiny", i * 20 + 5, i * 20 + 9, (uint64_t)i + 1);
    }
    kineto_trace *t = finish(s.b);
    kineto_critical_path *p = path_of(t, NULL);
    assert_int_equal(class_us(p, "host_call"), 100);
    assert_int_equal(class_us(p, "host_between"), 90);
    /* The last kernel begins 5 us after its launch did, and takes 4. */
    assert_int_equal(what_if_us(p, KINETO_WHAT_IF_LAUNCH, "tiny", 0.5), 144);
    assert_int_equal(what_if_us(p, KINETO_WHAT_IF_KERNEL, "tiny", 0.5), 190);
    kineto_critical_path_destroy(p);
    kineto_trace_release(t);
}

static void test_a_stream_that_was_made_to_wait_waits_for_the_other(void **state)
{
    (void)state;
    sample s;
    begin(&s);
    call(&s, "cudaLaunchKernel", 0, 5, 1);
    call(&s, "cudaEventRecord", 5, 6, 0);
    call(&s, "cudaStreamWaitEvent", 6, 8, 0);
    call(&s, "cudaLaunchKernel", 8, 12, 2);
    kernel(&s, s.stream, "first", 4, 104, 1);
    kineto_row second = kernel(&s, s.stream2, "second", 106, 126, 2);
    kineto_trace *t = finish(s.b);
    kineto_critical_path *p = path_of(t, NULL);
    assert_true(node_of(p, second, false).on_path);
    assert_int_equal(class_us(p, "device_compute"), 120);
    assert_int_equal(class_us(p, "stream_wait"), 2);
    assert_int_equal(what_if_us(p, KINETO_WHAT_IF_KERNEL, "first", 0.5), 76);
    kineto_critical_path_destroy(p);
    kineto_trace_release(t);
}

/* The queue takes 40: the host is only as fast as the device. */
static void test_a_launch_into_a_full_queue_waits_for_a_place(void **state)
{
    (void)state;
    sample s;
    int64_t at = 0;
    begin(&s);
    for (int i = 0; i < 80; i++) {
        int64_t end = i < 40 ? at + 1 : 10 + 100 * (i - 39) + 2;
        call(&s, "cudaLaunchKernel", at, end, (uint64_t)i + 1);
        kernel(&s, s.stream, "k", 10 + 100 * i, 110 + 100 * i, (uint64_t)i + 1);
        at = end + 1;
    }
    op(&s, "rest", at, at + 5000);
    kineto_trace *t = finish(s.b);
    kineto_critical_path *p = path_of(t, NULL);
    assert_int_equal(kineto_critical_path_length_ns(p), 9013 * US);
    assert_int_equal(class_us(p, "device_compute"), 4000);
    assert_int_equal(what_if_us(p, KINETO_WHAT_IF_KERNEL, "k", 0.5), 7013);
    kineto_critical_path_destroy(p);
    kineto_trace_release(t);
}

static void test_threads_of_backward_are_waited_for(void **state)
{
    (void)state;
    sample s;
    begin(&s);
    op(&s, "forward", 0, 100);
    add(&s, s.other, KINETO_KIND_CPU_OP, "autograd::engine::evaluate_function: Mul", 105, 250, 0);
    add(&s, s.other, KINETO_KIND_CPU_OP, "autograd::engine::evaluate_function: Add", 255, 395, 0);
    op(&s, "optimizer", 400, 500);
    kineto_trace *t = finish(s.b);
    kineto_critical_path *p = path_of(t, NULL);
    assert_int_equal(class_us(p, "hand_over"), 10);
    assert_int_equal(class_us(p, "host_operator"), 485);
    assert_int_equal(what_if_us(p, KINETO_WHAT_IF_OPERATOR, "evaluate_function: Mul", 0), 355);
    kineto_critical_path_destroy(p);
    kineto_trace_release(t);
}

/* Of ranges that cross, the one that began last has the time that both are open. */
static void test_ranges_that_cross_do_not_hold_their_thread_up(void **state)
{
    (void)state;
    sample s;
    begin(&s);
    op(&s, "around", 0, 1000);
    for (int i = 0; i < 5; i++) {
        op(&s, "aten::mm", 100 + 150 * i, 200 + 150 * i);
        op(&s, "crossing", 190 + 150 * i, 210 + 150 * i);
    }
    kineto_trace *trace = finish(s.b);
    kineto_critical_path *path = path_of(trace, NULL);
    kineto_what_if_scale none = {KINETO_WHAT_IF_OPERATOR, "aten::mm", 0};
    kineto_what_if_result result = {.size = sizeof result};
    assert_int_equal(kineto_critical_path_what_if(path, &none, 1, &result, NULL), KINETO_OK);
    assert_int_equal(result.before_ns, 1000000);
    assert_int_equal(result.after_ns, 550000);
    kineto_critical_path_destroy(path);
    kineto_trace_release(trace);
}

static void test_a_window_is_a_range_by_its_name(void **state)
{
    (void)state;
    sample s;
    begin(&s);
    for (int i = 0; i < 3; i++) {
        char name[32];
        snprintf(name, sizeof name, "ProfilerStep#%d", i);
        add(&s, s.thread, KINETO_KIND_USER_ANNOTATION, name, i * 100, i * 100 + 90 + i, 0);
        op(&s, "work", i * 100 + 10, i * 100 + 50);
    }
    kineto_trace *t = finish(s.b);
    kineto_analysis_options o = {.size = sizeof o, .annotation = "ProfilerStep", .instance = 2};
    kineto_critical_path *p = path_of(t, &o);
    assert_int_equal(kineto_critical_path_length_ns(p), 92 * US);
    kineto_what_if_scale scale = {KINETO_WHAT_IF_OPERATOR, "work", 0.25};
    kineto_what_if_result r = {.size = sizeof r};
    assert_int_equal(kineto_critical_path_what_if(p, &scale, 1, &r, NULL), KINETO_OK);
    assert_int_equal(r.step_count, 1);
    assert_int_equal(r.step_before_ns, 92 * US);
    assert_int_equal(r.step_after_ns, 62 * US);
    kineto_critical_path_destroy(p);
    o.instance = 3;
    assert_int_equal(kineto_critical_path_create(t, &o, &p, NULL), KINETO_E_NOT_FOUND);
    assert_null(p);
    kineto_trace_release(t);
}

static void test_the_path_is_drawn_into_a_trace(void **state)
{
    (void)state;
    kineto_row rows[4];
    kineto_trace *t = two_streams(rows), *drawn;
    kineto_critical_path *p = path_of(t, NULL);
    assert_int_equal(kineto_critical_path_overlay(p, &drawn, NULL), KINETO_OK);
    int64_t sum = 0;
    uint64_t count = 0;
    for (kineto_row row = kineto_trace_count(t); row < kineto_trace_count(drawn); row++) {
        kineto_activity a;
        kineto_trace_get(drawn, row, &a);
        sum += a.end_ns - a.start_ns;
        count++;
    }
    assert_int_equal(sum, kineto_critical_path_length_ns(p));
    assert_true(count >= 7);
    kineto_trace_release(drawn);
    kineto_critical_path_destroy(p);
    kineto_trace_release(t);
}

static void test_an_empty_trace_has_none(void **state)
{
    (void)state;
    kineto_trace *t = finish(builder());
    kineto_critical_path *p;
    kineto_analysis *facts;
    assert_int_equal(kineto_critical_path_create(t, NULL, &p, NULL), KINETO_E_NOT_FOUND);
    kineto_analysis_options o = {.size = sizeof o, .tables = "critical_path_summary"};
    assert_int_equal(kineto_analysis_run(t, &o, &facts, NULL), KINETO_OK);
    kineto_fact_table table;
    assert_true(kineto_analysis_table(facts, 0, &table));
    assert_true(table.row_count == 0 && table.note.size > 0);
    kineto_analysis_destroy(facts);
    kineto_trace_release(t);
}

/* Ranges anywhere, overlapping, out of order, at the ends of what a number holds. */
static void test_any_times_give_a_path(void **state)
{
    (void)state;
    static const char *const names[] = {"cudaLaunchKernel",
                                        "cudaDeviceSynchronize",
                                        "cudaStreamWaitEvent",
                                        "cudaMemcpyAsync",
                                        "aten::mm",
                                        "autograd::engine::evaluate_function: X"};
    for (uint64_t seed = 1; seed <= FEWER(200, 64); seed++) {
        sample s;
        uint64_t random = seed;
        begin(&s);
        for (int i = 0; i < 60; i++) {
            uint32_t tracks[] = {s.thread, s.other, s.stream, s.stream2};
            uint32_t kinds[] = {KINETO_KIND_RUNTIME, KINETO_KIND_CPU_OP};
            uint32_t track = tracks[next_random(&random) % 4];
            uint32_t kind = track == s.stream || track == s.stream2
                                ? KINETO_KIND_CONCURRENT_KERNEL
                                : kinds[next_random(&random) % 2];
            int64_t at = (int64_t)(next_random(&random) % 64);
            kt_row row = {.start_ns = at,
                          .end_ns = at + (int64_t)(next_random(&random) % 32),
                          .name = kt_string(s.b, kb_string(names[next_random(&random) % 6])),
                          .track = track,
                          .kind = kind,
                          .correlation_id = next_random(&random) % 24};
            if (seed % 8 == 0 && next_random(&random) % 8 == 0)
                row.end_ns = INT64_MAX;
            if (seed % 8 == 0 && next_random(&random) % 8 == 0)
                row.start_ns = INT64_MIN;
            kt_append(s.b, &row);
        }
        kineto_trace *t = finish(s.b);
        for (uint32_t definitions = 0; definitions < 2; definitions++) {
            kineto_critical_path *p;
            kineto_analysis_options o = {.size = sizeof o, .definitions = definitions};
            kineto_what_if_scale scale = {KINETO_WHAT_IF_KERNEL, "", 2};
            kineto_what_if_result r = {.size = sizeof r};
            kineto_status status = kineto_critical_path_create(t, &o, &p, NULL);
            if (definitions == 0 && seed % 8)
                kineto_critical_path_destroy(path_of(t, &o));
            assert_true(status == KINETO_OK || status == KINETO_E_NOT_FOUND);
            if (status == KINETO_OK)
                kineto_critical_path_what_if(p, &scale, 1, &r, NULL);
            kineto_critical_path_destroy(p);
        }
        kineto_trace_release(t);
    }
}

/* Whatever the sizes, a graph twice as large is not much more work; and none of it is lost. */
static void test_a_long_trace_has_all_its_nodes(void **state)
{
    (void)state;
    sample s;
    begin(&s);
    enum { COUNT = 25000 };
    for (int i = 0; i < COUNT; i++) {
        call(&s, "cudaLaunchKernel", i * 10, i * 10 + 5, (uint64_t)i + 1);
        kernel(&s, s.stream, "k", i * 10 + 4, i * 10 + 12, (uint64_t)i + 1);
    }
    kineto_trace *t = finish(s.b);
    kineto_critical_path *p;
    assert_int_equal(kineto_critical_path_create(t, NULL, &p, NULL), KINETO_OK);
    assert_int_equal(kineto_critical_path_node_count(p), 4 * COUNT + 1);
    kineto_critical_path_destroy(p);
    kineto_trace_release(t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_wait_for_the_device_puts_its_work_on_the_path),
        cmocka_unit_test(test_slack_is_how_much_later_something_might_end),
        cmocka_unit_test(test_what_if_stops_at_what_is_waited_for_next),
        cmocka_unit_test(test_what_if_says_what_makes_no_sense),
        cmocka_unit_test(test_launch_cost_is_the_hosts_until_the_device_is_busy),
        cmocka_unit_test(test_a_stream_that_was_made_to_wait_waits_for_the_other),
        cmocka_unit_test(test_a_launch_into_a_full_queue_waits_for_a_place),
        cmocka_unit_test(test_threads_of_backward_are_waited_for),
        cmocka_unit_test(test_ranges_that_cross_do_not_hold_their_thread_up),
        cmocka_unit_test(test_a_window_is_a_range_by_its_name),
        cmocka_unit_test(test_the_path_is_drawn_into_a_trace),
        cmocka_unit_test(test_an_empty_trace_has_none),
        cmocka_unit_test(test_any_times_give_a_path),
        cmocka_unit_test(test_a_long_trace_has_all_its_nodes),
    };
    return RUN_TESTS(tests);
}
