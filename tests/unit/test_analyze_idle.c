/* Idle time of devices, by what was waited for. */
#include "analyzing.h"

#define TABLES "idle_named,idle_gaps,idle_operators"

/* ns of a reason; stream -1: of the device. */
static int64_t idle(const kineto_analysis *facts, int64_t stream, const char *reason)
{
    for (uint64_t row = 0; row < rows_of(facts, "idle_named"); row++)
        if (cell(facts, "idle_named", row, "stream").i == stream &&
            cell_is(facts, "idle_named", row, "reason", reason))
            return cell(facts, "idle_named", row, "idle_us").i;
    return 0;
}

static int64_t all_idle(const kineto_analysis *facts, int64_t stream)
{
    int64_t sum = 0;
    for (uint64_t row = 0; row < rows_of(facts, "idle_named"); row++)
        if (cell(facts, "idle_named", row, "stream").i == stream)
            sum += cell(facts, "idle_named", row, "idle_us").i;
    return sum;
}

/* A kernel at 0..10 and one at 1000, launched at 980..990. */
static maker gap_of_990(void)
{
    maker m = make();
    put_call(&m, "cudaLaunchKernel", -10, -5, 1);
    put_call(&m, "cudaLaunchKernel", 980, 990, 2);
    put_kernel(&m, m.stream, "first", 0, 10, 1);
    put_kernel(&m, m.stream, "second", 1000, 1010, 2);
    return m;
}

static void a_gap_is_cut_into_what_the_host_did(void **state)
{
    (void)state;
    maker m = gap_of_990();
    put_call(&m, "cudaDeviceSynchronize", 20, 120, 0);
    put_row(&m, m.thread, KINETO_KIND_USER_ANNOTATION,
            "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__", 200, 400, 0);
    put_op(&m, "aten::stack", 250, 300);
    put_op(&m, "aten::mm", 900, 995);
    put_call(&m, "cudaMalloc", 910, 930, 0);
    kineto_analysis *facts = analyzed(finish(m.b), TABLES);
    for (int64_t stream = -1; stream < 8; stream += 8) {
        assert_int_equal(idle(facts, stream, "synchronizing"), 100000);
        assert_int_equal(idle(facts, stream, "data_loader"), 200000);
        assert_int_equal(idle(facts, stream, "in_runtime"), 20000);
        assert_int_equal(idle(facts, stream, "in_operator"), 60000);
        assert_int_equal(idle(facts, stream, "launching"), 10000);
        assert_int_equal(idle(facts, stream, "device_latency"), 10000);
        assert_int_equal(idle(facts, stream, "between_operators"), 590000);
        assert_int_equal(all_idle(facts, stream), 990000);
    }
    assert_true(cell_is(facts, "idle_gaps", 0, "reason", "between_operators"));
    assert_int_equal(cell(facts, "idle_gaps", 0, "dur_us").i, 990000);
    kineto_analysis_destroy(facts);
}

static void reading_a_scalar_is_synchronizing(void **state)
{
    (void)state;
    maker m = gap_of_990();
    put_op(&m, "aten::item", 100, 300);
    put_op(&m, "aten::_local_scalar_dense", 110, 290);
    put_call(&m, "cudaMemcpyAsync", 120, 130, 0);
    kineto_analysis *facts = analyzed(finish(m.b), TABLES);
    assert_int_equal(idle(facts, 7, "synchronizing"), 200000);
    kineto_analysis_destroy(facts);
}

static void a_copy_that_the_call_waits_for_is_synchronizing(void **state)
{
    (void)state;
    maker m = gap_of_990();
    put_call(&m, "cudaMemcpyAsync", 100, 500, 3);
    put_row(&m, m.other, KINETO_KIND_GPU_MEMCPY, "Memcpy DtoH (Device -> Pageable)", 450, 490, 3);
    kineto_analysis *facts = analyzed(finish(m.b), TABLES);
    assert_int_equal(idle(facts, 7, "synchronizing"), 400000);
    kineto_analysis_destroy(facts);
}

static void where_its_thread_did_nothing_the_main_thread_is_asked(void **state)
{
    (void)state;
    maker m = make();
    put_call(&m, "cudaLaunchKernel", -10, -5, 1);
    put_range(&m, "ProfilerStep#1", -20, 2000);
    put_op(&m, "aten::add", 100, 300);
    put_row(&m, m.second_thread, KINETO_KIND_RUNTIME, "cudaLaunchKernel", 980, 990, 2);
    put_kernel(&m, m.stream, "first", 0, 10, 1);
    put_kernel(&m, m.stream, "second", 1000, 1010, 2);
    kineto_analysis *facts = analyzed(finish(m.b), TABLES);
    assert_int_equal(idle(facts, 7, "in_operator"), 200000);
    assert_int_equal(idle(facts, 7, "between_operators"), 770000);
    kineto_analysis_destroy(facts);
}

static void work_that_was_launched_waits_for_other_streams(void **state)
{
    (void)state;
    maker m = make();
    put_call(&m, "cudaLaunchKernel", -10, -9, 1);
    put_call(&m, "cudaLaunchKernel", -8, -7, 2);
    put_call(&m, "cudaLaunchKernel", -6, -5, 3);
    put_call(&m, "cudaLaunchKernel", -4, -3, 4);
    put_kernel(&m, m.stream, "first", 0, 10, 1);
    put_kernel(&m, m.other, "gemm", 10, 400, 2);
    put_kernel(&m, m.other, "ncclDevKernel_AllReduce_Sum_f32_RING_LL", 400, 990, 3);
    put_kernel(&m, m.stream, "second", 1000, 1010, 4);
    kineto_analysis *facts = analyzed(finish(m.b), TABLES);
    assert_int_equal(idle(facts, 7, "other_stream"), 390000);
    assert_int_equal(idle(facts, 7, "other_rank"), 590000);
    assert_int_equal(idle(facts, 7, "device_latency"), 10000);
    assert_int_equal(all_idle(facts, -1), 10000);
    kineto_analysis_destroy(facts);
}

static void a_stream_without_reason_to_wait_is_unknown(void **state)
{
    (void)state;
    maker m = make();
    put_call(&m, "cudaLaunchKernel", -10, -9, 1);
    put_call(&m, "cudaLaunchKernel", -8, -7, 2);
    put_kernel(&m, m.stream, "first", 0, 10, 1);
    put_kernel(&m, m.stream, "second", 1000, 1010, 2);
    put_kernel(&m, m.stream, "third", 2000, 2010, 77);
    kineto_analysis *facts = analyzed(finish(m.b), TABLES);
    assert_int_equal(idle(facts, 7, "unknown"), 990000 * 2);
    kineto_analysis_destroy(facts);
}

static void a_long_launch_into_a_full_queue_is_reported(void **state)
{
    (void)state;
    maker m = make();
    uint64_t id = 1;
    for (; id <= 1023; id++) {
        put_call(&m, "cudaLaunchKernel", (double)id, (double)id + 0.5, id);
        put_kernel(&m, m.other, "k", 5000 + (double)id * 10, 5009 + (double)id * 10, id);
    }
    put_call(&m, "cudaLaunchKernel", 1100, 4000, id);
    put_kernel(&m, m.other, "k", 20000, 20010, id++);
    put_call(&m, "cudaLaunchKernel", 10, 10.5, id);
    put_kernel(&m, m.stream, "first", 1050, 1060, id++);
    put_call(&m, "cudaLaunchKernel", 4010, 4020, id);
    put_kernel(&m, m.stream, "second", 4025, 4030, id);
    kineto_analysis *facts = analyzed(finish(m.b), TABLES);
    assert_int_equal(idle(facts, 7, "full_queue"), 2900000);
    kineto_analysis_destroy(facts);
}

static void what_a_graph_did_unrecorded_is_neither_idle_host_nor_waiting(void **state)
{
    (void)state;
    maker m = make();
    for (int i = 0; i < 4; i++) {
        double at = i * 3000;
        uint64_t id = (uint64_t)i + 1;
        put_call(&m, "cudaGraphLaunch", at - 10, at - 5, id);
        put_kernel(&m, m.stream, "graph_first", at + 1000, at + 1100, id);
        put_kernel(&m, m.stream, "graph_second", at + 2000, at + 3000, id);
    }
    kineto_analysis *facts = analyzed(finish(m.b), TABLES);
    /* inside: 4 times 900; in front: 3 times 1000, always the same */
    assert_int_equal(idle(facts, 7, "unrecorded_work"), 6600000);
    assert_int_equal(all_idle(facts, 7), 6600000);
    assert_int_equal(idle(facts, -1, "unrecorded_work"), 6600000);
    kineto_fact evidence = cell(facts, "idle_gaps", 0, "evidence");
    assert_non_null(memmem(evidence.text.data, evidence.text.size, "in 3 launches", 13));
    kineto_analysis_destroy(facts);
}

/* Between graphs lies what ended last, not what began last. */
static void gaps_between_graphs_are_distinguished_by_what_ended_last(void **state)
{
    (void)state;
    maker m = make();
    for (int i = 0; i < 4; i++) {
        double at = i * 3000;
        uint64_t id = (uint64_t)i + 1;
        put_call(&m, "cudaGraphLaunch", at - 10, at - 5, id);
        put_kernel(&m, m.stream, "graph_long", at + 1000, at + 3000, id);
        put_kernel(&m, m.stream, "graph_short", at + 2000, at + 2100, id);
    }
    kineto_analysis *facts = analyzed(finish(m.b), TABLES);
    assert_int_equal(idle(facts, 7, "unrecorded_work"), 3000000);
    assert_int_equal(all_idle(facts, 7), 3000000);
    kineto_analysis_destroy(facts);
}

static void a_wait_in_front_of_a_graph_that_varies_is_not_its_work(void **state)
{
    (void)state;
    maker m = make();
    double at = 0;
    for (int i = 0; i < 4; i++) {
        put_call(&m, "cudaGraphLaunch", -10 - i, -9.5 - i, (uint64_t)(4 - i));
        at += 200 * (i + 1);
        put_kernel(&m, m.stream, "graph", at, at + 100, (uint64_t)i + 1);
        at += 100;
    }
    kineto_analysis *facts = analyzed(finish(m.b), TABLES);
    assert_int_equal(idle(facts, 7, "unrecorded_work"), 0);
    assert_int_equal(idle(facts, 7, "unknown"), 1800000);
    kineto_analysis_destroy(facts);
}

static void the_profilers_own_work_is_reported(void **state)
{
    (void)state;
    maker m = gap_of_990();
    put_row(&m, m.second_thread, KINETO_KIND_OVERHEAD, "Buffer Flush", 500, 700, 0);
    put_row(&m, m.second_thread, KINETO_KIND_OVERHEAD, "Lazy Function Loading", 710, 720, 0);
    kineto_analysis *facts = analyzed(finish(m.b), TABLES);
    assert_int_equal(idle(facts, 7, "profiler_overhead"), 200000);
    kineto_analysis_destroy(facts);
}

static void operators_after_idle_devices_are_named_with_what_is_around(void **state)
{
    (void)state;
    maker m = gap_of_990();
    put_range(&m, "forward", 50, 995);
    put_op(&m, "aten::linear", 100, 995);
    put_op(&m, "aten::addmm", 200, 700);
    kineto_analysis *facts = analyzed(finish(m.b), TABLES);
    assert_true(cell_is(facts, "idle_operators", 0, "operator", "aten::addmm"));
    assert_true(cell_is(facts, "idle_operators", 0, "stack", "forward;aten::linear"));
    assert_true(cell_is(facts, "idle_operators", 0, "reason", "in_operator"));
    assert_int_equal(cell(facts, "idle_operators", 0, "idle_us").i, 500000);
    kineto_analysis_destroy(facts);
}

static void reasons_add_up_to_the_gaps(void **state)
{
    (void)state;
    uint64_t seed = 5;
    for (int round = 0; round < 30; round++) {
        maker m = make();
        double host = 0, device = 0, end = -1;
        int64_t idle_ns = 0;
        for (uint64_t id = 1; id < 200; id++) {
            host += (double)(next_random(&seed) % 50);
            double calls = 1 + (double)(next_random(&seed) % 20);
            if (id % 3 == 0)
                put_op(&m, "aten::op", host, host + calls + 4);
            bool graph = next_random(&seed) % 4 == 0;
            put_call(&m, graph ? "cudaGraphLaunch" : "cudaLaunchKernel", host + 1, host + calls,
                     id);
            host += calls + 5;
            device = (device > host ? device : host) + (double)(next_random(&seed) % 70);
            if (end >= 0 && device > end)
                idle_ns += (int64_t)(device - end) * 1000;
            end = device + 1 + (double)(next_random(&seed) % 30);
            put_kernel(&m, m.stream, "k", device, end, next_random(&seed) % 8 ? id : 0);
            device = end;
            put_kernel(&m, m.other, id % 2 ? "ncclKernel_AllReduce" : "x",
                       host + (double)(next_random(&seed) % 90), host + 100, 1000 + id);
        }
        kineto_analysis *facts = analyzed(finish(m.b), TABLES);
        assert_int_equal(all_idle(facts, 7), idle_ns);
        kineto_analysis_destroy(facts);
    }
}

static void times_at_the_ends_of_all_times_do_no_harm(void **state)
{
    (void)state;
    maker m = make();
    const int64_t times[] = {INT64_MIN, INT64_MIN + 1, -1, 0, 1, INT64_MAX - 1, INT64_MAX};
    for (size_t i = 0; i + 1 < KB_COUNT(times); i++)
        for (int kind = 0; kind < 3; kind++) {
            static const uint32_t kinds[] = {KINETO_KIND_CONCURRENT_KERNEL, KINETO_KIND_RUNTIME,
                                             KINETO_KIND_OVERHEAD};
            kt_row row = {.start_ns = times[i],
                          .end_ns = times[i + (i % 2)],
                          .name = kt_string(m.b, kb_string(i % 2 ? "cudaGraphLaunch" : "k")),
                          .track = kind    ? m.thread
                                   : i % 3 ? m.stream
                                           : m.other,
                          .kind = kinds[kind],
                          .correlation_id = i + 1};
            (void)kt_append(m.b, &row);
        }
    kineto_analysis *facts =
        analyzed(finish(m.b), TABLES ",collectives,step_statistics,step_outliers,roofline,mfu");
    assert_true(rows_of(facts, "idle_named") > 0);
    kineto_analysis_destroy(facts);
}

static void without_device_work_a_note_says_so(void **state)
{
    (void)state;
    maker m = make();
    put_op(&m, "aten::mm", 0, 10);
    kineto_analysis *facts = analyzed(finish(m.b), TABLES);
    assert_int_equal(rows_of(facts, "idle_named"), 0);
    assert_true(notes(facts, "idle_named", "no device activity"));
    assert_true(notes(facts, "idle_gaps", "no device activity"));
    kineto_analysis_destroy(facts);
    m = make();
    put_kernel(&m, m.stream, "alone", 0, 10, 0);
    facts = analyzed(finish(m.b), TABLES);
    assert_int_equal(rows_of(facts, "idle_named"), 0);
    assert_true(notes(facts, "idle_named", "which calls launched"));
    kineto_analysis_destroy(facts);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_gap_is_cut_into_what_the_host_did),
        cmocka_unit_test(reading_a_scalar_is_synchronizing),
        cmocka_unit_test(a_copy_that_the_call_waits_for_is_synchronizing),
        cmocka_unit_test(where_its_thread_did_nothing_the_main_thread_is_asked),
        cmocka_unit_test(work_that_was_launched_waits_for_other_streams),
        cmocka_unit_test(a_stream_without_reason_to_wait_is_unknown),
        cmocka_unit_test(a_long_launch_into_a_full_queue_is_reported),
        cmocka_unit_test(what_a_graph_did_unrecorded_is_neither_idle_host_nor_waiting),
        cmocka_unit_test(gaps_between_graphs_are_distinguished_by_what_ended_last),
        cmocka_unit_test(a_wait_in_front_of_a_graph_that_varies_is_not_its_work),
        cmocka_unit_test(the_profilers_own_work_is_reported),
        cmocka_unit_test(operators_after_idle_devices_are_named_with_what_is_around),
        cmocka_unit_test(reasons_add_up_to_the_gaps),
        cmocka_unit_test(times_at_the_ends_of_all_times_do_no_harm),
        cmocka_unit_test(without_device_work_a_note_says_so),
    };
    return RUN_TESTS(tests);
}
