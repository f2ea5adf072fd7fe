/* Steps, operators, devices, memory, modules and ranks. */
#include "analyzing.h"

#define ALL                                                                                        \
    "steps,operators,gpu_summary,kernel_use,kernel_operators,memory,memory_operators,"             \
    "memory_leaks,modules,distributed_overlap,distributed_wait,distributed_operators"

static int64_t ns_of(const kineto_analysis *facts, const char *table, uint64_t row,
                     const char *column)
{
    return cell(facts, table, row, column).i;
}

/* Row whose column has this text. */
static uint64_t row_with(const kineto_analysis *facts, const char *table, const char *column,
                         const char *text)
{
    for (uint64_t row = 0; row < rows_of(facts, table); row++)
        if (cell_is(facts, table, row, column, text))
            return row;
    fail_msg("%s has no %s", table, text);
    return 0;
}

static void each_moment_of_a_step_counts_once(void **state)
{
    (void)state;
    maker m = make();
    put_range(&m, "ProfilerStep#3", 0, 100);
    put_op(&m, "aten::mm", 10, 40);
    put_call(&m, "cudaLaunchKernel", 20, 30, 1);
    put_call(&m, "cudaLaunchKernel", 30, 35, 2);
    put_op(&m, "enumerate(DataLoader)#_Iter.__next__", 60, 80);
    put_kernel(&m, m.stream, "ampere_sgemm_128x64_nn", 25, 45, 1);
    put_kernel(&m, m.other, "ncclDevKernel_AllReduce_Sum_f32_RING_LL", 40, 120, 2);
    kineto_analysis *facts = analyzed(finish(m.b), ALL);
    const char *const columns[] = {"dur_us",        "kernel_us",        "memcpy_us",
                                   "memset_us",     "communication_us", "runtime_us",
                                   "dataloader_us", "cpu_us",           "other_us"};
    /* the collective ends the step, and hides the data loader */
    const int64_t expected[] = {120000, 20000, 0, 0, 75000, 5000, 0, 10000, 10000};
    for (size_t i = 0; i < KB_COUNT(columns); i++)
        assert_int_equal(ns_of(facts, "steps", 0, columns[i]), expected[i]);
    assert_true(cell_is(facts, "steps", 0, "step", "3"));
    assert_int_equal(ns_of(facts, "distributed_overlap", 0, "overlap_us"), 5000);
    assert_int_equal(ns_of(facts, "distributed_overlap", 0, "computation_us"), 15000);
    assert_int_equal(ns_of(facts, "distributed_overlap", 0, "communication_us"), 75000);
    kineto_analysis_destroy(facts);
}

static void a_step_begins_when_the_devices_are_done_with_the_one_before(void **state)
{
    (void)state;
    maker m = make();
    put_range(&m, "ProfilerStep#1", 0, 10);
    put_call(&m, "cudaLaunchKernel", 5, 6, 1);
    put_range(&m, "ProfilerStep#2", 10, 20);
    put_kernel(&m, m.stream, "first", 7, 14, 1);
    kineto_analysis *facts = analyzed(finish(m.b), "steps");
    assert_int_equal(ns_of(facts, "steps", 0, "dur_us"), 14000);
    assert_int_equal(ns_of(facts, "steps", 1, "start_us"), EPOCH + 14000);
    assert_int_equal(ns_of(facts, "steps", 1, "dur_us"), 6000);
    kineto_analysis_destroy(facts);
}

static void a_call_inside_one_of_its_group_counts_with_that_one(void **state)
{
    (void)state;
    maker m = make();
    put_op(&m, "aten::mul", 0, 100);
    put_op(&m, "aten::mul", 10, 60);
    put_op(&m, "aten::empty", 20, 25);
    put_call(&m, "cudaLaunchKernel", 30, 40, 1);
    put_kernel(&m, m.stream, "elementwise_kernel", 50, 57, 1);
    kineto_analysis *facts = analyzed(finish(m.b), "operators");
    uint64_t row = row_with(facts, "operators", "name", "aten::mul");
    assert_int_equal(ns_of(facts, "operators", row, "calls"), 2);
    assert_int_equal(ns_of(facts, "operators", row, "host_total_us"), 100000);
    assert_int_equal(ns_of(facts, "operators", row, "host_self_us"), 50000 + 50000 - 5000 - 10000);
    assert_int_equal(ns_of(facts, "operators", row, "device_total_us"), 7000);
    assert_int_equal(ns_of(facts, "operators", row, "device_self_us"), 7000);
    kineto_analysis_destroy(facts);
}

static void operators_are_distinguished_by_shapes_and_counted(void **state)
{
    (void)state;
    maker m = make();
    for (int i = 0; i < 3; i++) {
        put_json(&m, "Input Dims", i < 2 ? "[[2,3],[3,4]]" : "[[5,3],[3,4]]");
        put_text(&m, "Call stack", "model.py(3): forward;main.py(1): <module>");
        put_op(&m, "aten::mm", 10 * i, 10 * i + 5);
    }
    kineto_analysis *facts = analyzed(finish(m.b), "operators");
    assert_int_equal(rows_of(facts, "operators"), 2);
    uint64_t row = row_with(facts, "operators", "shapes", "[[2, 3], [3, 4]]");
    assert_int_equal(ns_of(facts, "operators", row, "calls"), 2);
    assert_true(cell(facts, "operators", row, "flops").d == 2 * 2 * 2 * 3 * 4);
    assert_int_equal(ns_of(facts, "operators", row, "tc_eligible"), 1);
    assert_true(
        cell_is(facts, "operators", row, "stack", "model.py(3): forward;main.py(1): <module>"));
    kineto_analysis_destroy(facts);
}

static void put_used_kernel(maker *m, double from, double to, int64_t blocks, int64_t occupancy)
{
    put_number(m, "blocks per SM", blocks);
    put_number(m, "est. achieved occupancy %", occupancy);
    put_kernel(m, m->stream, "k", from, to, 0);
}

static void devices_are_as_full_as_their_kernels_say(void **state)
{
    (void)state;
    maker m = make();
    put_op(&m, "aten::mm", 0, 100);
    put_used_kernel(&m, 0, 20, 8, 100);
    put_used_kernel(&m, 50, 80, 0, 50);
    kineto_analysis *facts = analyzed(finish(m.b), "gpu_summary,kernel_use");
    assert_true(cell(facts, "gpu_summary", 0, "utilization_pct").d == 50);
    assert_true(cell(facts, "gpu_summary", 0, "sm_efficiency_pct").d == 20);
    assert_true(cell(facts, "gpu_summary", 0, "achieved_occupancy_pct").d == 70);
    assert_int_equal(ns_of(facts, "kernel_use", 0, "count"), 2);
    assert_int_equal(ns_of(facts, "kernel_use", 0, "max_us"), 30000);
    kineto_analysis_destroy(facts);
}

static void put_memory(maker *m, double at, int64_t address, int64_t bytes, int64_t total)
{
    put_number(m, "Addr", address);
    put_number(m, "Bytes", bytes);
    put_number(m, "Device Type", 1);
    put_number(m, "Device Id", 0);
    put_number(m, "Total Allocated", total);
    put_row(m, m->thread, KINETO_KIND_MEMORY, "[memory]", at, at, 0);
}

static void every_device_has_its_row(void **state)
{
    (void)state;
    enum { DEVICES = 100 };
    maker m = make();
    for (uint32_t i = 0; i < DEVICES; i++) {
        uint32_t device = kt_process(m.b, true, DEVICES - 1 - i, 0);
        put_number(&m, "device", DEVICES - 1 - i);
        put_kernel(&m, kt_track(m.b, device, KINETO_TRACK_STREAM, 7), "k", 10, 60, 0);
    }
    kineto_analysis *facts = analyzed(finish(m.b), "gpu_summary");
    assert_int_equal(rows_of(facts, "gpu_summary"), DEVICES);
    for (uint32_t i = 0; i < DEVICES; i++)
        assert_int_equal(cell(facts, "gpu_summary", i, "gpu").i, i);
    kineto_analysis_destroy(facts);
}

static void memory_is_followed_from_operators_to_releases(void **state)
{
    (void)state;
    maker m = make();
    put_op(&m, "aten::linear", 0, 50);
    put_op(&m, "aten::empty", 10, 20);
    put_memory(&m, 15, 100, 64, 1064);
    put_memory(&m, 30, 200, 32, 1096);
    put_memory(&m, 60, 100, -64, 1032);
    kineto_analysis *facts = analyzed(finish(m.b), "memory,memory_operators,memory_leaks");
    assert_int_equal(ns_of(facts, "memory", 0, "peak_allocated_bytes"), 1096);
    assert_int_equal(ns_of(facts, "memory", 0, "peak_at_us"), EPOCH + 30000);
    assert_int_equal(ns_of(facts, "memory", 0, "end_allocated_bytes"), 1032);
    uint64_t row = row_with(facts, "memory_operators", "operator", "aten::linear");
    assert_int_equal(ns_of(facts, "memory_operators", row, "allocation_bytes"), 96);
    assert_int_equal(ns_of(facts, "memory_operators", row, "self_allocation_bytes"), 32);
    assert_int_equal(rows_of(facts, "memory_leaks"), 1);
    assert_true(cell_is(facts, "memory_leaks", 0, "operator", "aten::linear"));
    assert_int_equal(ns_of(facts, "memory_leaks", 0, "bytes"), 32);
    kineto_analysis_destroy(facts);
}

static void put_module(maker *m, const char *name, double from, double to, int64_t id)
{
    put_number(m, "Python module id", id);
    put_row(m, m->thread, KINETO_KIND_PYTHON_FUNCTION, name, from, to, 0);
}

static void modules_have_what_ran_in_them_and_in_backward_for_them(void **state)
{
    (void)state;
    maker m = make();
    put_module(&m, "nn.Module: Net_0", 0, 100, 1);
    put_module(&m, "nn.Module: Linear_0", 10, 60, 2);
    kt_flow(m.b, KINETO_FLOW_FWD_BWD, 9, 2, true);
    put_op(&m, "aten::addmm", 20, 50);
    put_call(&m, "cudaLaunchKernel", 30, 35, 1);
    put_kernel(&m, m.stream, "ampere_sgemm_128x64_nn", 40, 47, 1);
    put_row(&m, m.second_thread, KINETO_KIND_CPU_OP,
            "autograd::engine::evaluate_function: AddmmBackward0", 200, 240, 0);
    kt_flow(m.b, KINETO_FLOW_FWD_BWD, 9, 6, false);
    put_row(&m, m.second_thread, KINETO_KIND_CPU_OP, "AddmmBackward0", 210, 230, 0);
    kineto_analysis *facts = analyzed(finish(m.b), "modules");
    uint64_t net = row_with(facts, "modules", "module", "nn.Module: Net_0"),
             linear = row_with(facts, "modules", "module", "nn.Module: Linear_0"),
             back = row_with(facts, "modules", "module", "nn.Module: Linear_0.backward");
    assert_int_equal(ns_of(facts, "modules", net, "host_self_us"), 50000);
    assert_int_equal(ns_of(facts, "modules", net, "device_total_us"), 7000);
    assert_int_equal(ns_of(facts, "modules", net, "device_self_us"), 0);
    assert_int_equal(ns_of(facts, "modules", linear, "parent"), 1);
    assert_int_equal(ns_of(facts, "modules", linear, "device_self_us"), 7000);
    assert_int_equal(ns_of(facts, "modules", linear, "operators"), 1);
    assert_int_equal(ns_of(facts, "modules", back, "host_total_us"), 40000);
    assert_int_equal(ns_of(facts, "modules", back, "operators"), 2);
    kineto_analysis_destroy(facts);
}

/* A collective that ends at 100 on all ranks. */
static kineto_analysis *rank_that_begins(int32_t rank, double at)
{
    maker m = make();
    put_range(&m, "ProfilerStep#1", 0, 110);
    put_call(&m, "cudaLaunchKernel", 1, 2, 1);
    put_number(&m, "In msg nelems", 256);
    put_text(&m, "dtype", "Float");
    put_kernel(&m, m.stream, "ncclDevKernel_AllReduce_Sum_f32_RING_LL", at, 100, 1);
    kineto_trace *trace = finish(m.b);
    kineto_analysis_options o = {
        .size = sizeof o, .tables = "distributed_wait,distributed_operators", .rank = &rank};
    kineto_analysis *facts = NULL;
    assert_int_equal(kineto_analysis_run(trace, &o, &facts, NULL), KINETO_OK);
    kineto_trace_release(trace);
    return facts;
}

static void what_others_needed_longer_than_the_last_rank_they_waited(void **state)
{
    (void)state;
    kineto_analysis *all = rank_that_begins(0, 20), *late = rank_that_begins(1, 90);
    assert_true(notes(all, "distributed_wait", "several ranks"));
    assert_int_equal(kineto_analysis_add(all, late, NULL), KINETO_OK);
    assert_int_equal(rows_of(all, "distributed_wait"), 2);
    assert_int_equal(ns_of(all, "distributed_wait", 0, "synchronizing_us"), 70000);
    assert_int_equal(ns_of(all, "distributed_wait", 0, "transfer_us"), 10000);
    assert_int_equal(ns_of(all, "distributed_wait", 1, "synchronizing_us"), 0);
    assert_int_equal(ns_of(all, "distributed_operators", 0, "bytes"), 1024);
    assert_int_equal(ns_of(all, "distributed_operators", 0, "transfer_us"), 10000);
    kineto_analysis_destroy(late);
    kineto_analysis_destroy(all);
}

/* Facts of a rank whose trace has what is said of it. */
static kineto_analysis *rank_with(int32_t rank, bool device, bool collective)
{
    maker m = make();
    put_op(&m, "aten::mm", 0, 50);
    if (device)
        put_kernel(&m, m.stream, "gemm", 10, 20, 1);
    if (collective)
        put_kernel(&m, m.stream, "ncclDevKernel_AllReduce_Sum_f32_RING_LL", 20, 40, 2);
    kineto_trace *trace = finish(m.b);
    kineto_analysis_options o = {.size = sizeof o,
                                .tables = "distributed_wait,distributed_operators,stragglers,rank_causes",
                                .rank = &rank};
    kineto_analysis *facts = NULL;
    assert_int_equal(kineto_analysis_run(trace, &o, &facts, NULL), KINETO_OK);
    kineto_trace_release(trace);
    return facts;
}

static void add_rank(kineto_analysis *all, int32_t rank, bool device, bool collective)
{
    kineto_analysis *one = rank_with(rank, device, collective);
    assert_int_equal(kineto_analysis_add(all, one, NULL), KINETO_OK);
    kineto_analysis_destroy(one);
}

static const char *const comparing_ranks[] = {"distributed_wait", "distributed_operators"};

static void ranks_without_what_is_compared_are_named(void **state)
{
    (void)state;
    kineto_analysis *all = rank_with(0, true, true);
    add_rank(all, 3, false, false);
    add_rank(all, 1, true, true);
    add_rank(all, 2, true, false);
    for (size_t i = 0; i < KB_COUNT(comparing_ranks); i++) {
        assert_true(notes(all, comparing_ranks[i], "rank 3 has no device activity"));
        assert_true(notes(all, comparing_ranks[i], "rank 2 has no collectives"));
        assert_false(notes(all, comparing_ranks[i], "several traces"));
    }
    add_rank(all, 5, false, false);
    assert_true(notes(all, "distributed_wait", "ranks 3, 5 have no device activity"));
    for (int32_t rank = 10; rank < 40; rank++)
        add_rank(all, rank, false, false);
    assert_true(notes(all, "distributed_wait", "rank 2 has no collectives"));
    assert_true(notes(all, "distributed_wait", "28 more"));
    kineto_analysis_destroy(all);
}

static void several_traces_of_one_rank_are_reported(void **state)
{
    (void)state;
    kineto_analysis *all = rank_with(0, true, true);
    add_rank(all, 1, true, true);
    for (size_t i = 0; i < KB_COUNT(comparing_ranks); i++)
        assert_false(notes(all, comparing_ranks[i], "several traces"));
    add_rank(all, 0, true, true);
    for (size_t i = 0; i < KB_COUNT(comparing_ranks); i++)
        assert_true(notes(all, comparing_ranks[i], "rank 0 has several traces"));
    kineto_analysis_destroy(all);
}

static void stragglers_are_causes_and_nothing_else(void **state)
{
    (void)state;
    kineto_analysis *all = rank_with(0, true, false);
    assert_true(notes(all, "stragglers", "one rank cannot be compared"));
    add_rank(all, 1, true, true);
    assert_true(notes(all, "stragglers", "the ranks have no collectives of the same steps in common"));
    assert_true(notes(all, "rank_causes", "the ranks have no collectives of the same steps in common"));
    assert_int_equal(rows_of(all, "stragglers"), rows_of(all, "rank_causes"));
    kineto_analysis_destroy(all);
}

static void facts_are_not_added_to_themselves(void **state)
{
    (void)state;
    kineto_error err = {.message = ""};
    kineto_analysis *one = rank_with(0, true, true);
    assert_int_equal(kineto_analysis_add(one, one, &err), KINETO_E_ARGUMENT);
    assert_non_null(strstr(err.message, "themselves"));
    kineto_analysis_destroy(one);
}

static void put_extreme(maker *m, uint32_t track, uint32_t kind, int64_t start, int64_t end)
{
    kt_row row = {.start_ns = start,
                  .end_ns = end,
                  .name = kt_string(m->b, kb_string("aten::mm")),
                  .track = track,
                  .kind = kind,
                  .correlation_id = 1};
    (void)kt_append(m->b, &row);
}

static void times_at_the_ends_of_all_times_do_no_harm(void **state)
{
    (void)state;
    for (uint32_t definitions = 0; definitions < 2; definitions++) {
        maker m = make();
        put_extreme(&m, m.thread, KINETO_KIND_CPU_OP, INT64_MIN, INT64_MAX);
        put_extreme(&m, m.thread, KINETO_KIND_CPU_OP, INT64_MIN, INT64_MAX);
        put_extreme(&m, m.thread, KINETO_KIND_RUNTIME, INT64_MIN, INT64_MAX);
        put_extreme(&m, m.stream, KINETO_KIND_CONCURRENT_KERNEL, INT64_MIN, INT64_MAX);
        put_number(&m, "blocks per SM", INT64_MAX);
        put_extreme(&m, m.stream, KINETO_KIND_CONCURRENT_KERNEL, 0, INT64_MAX);
        put_memory(&m, 5, INT64_MIN, INT64_MIN, INT64_MAX);
        put_memory(&m, 6, 1, INT64_MIN, INT64_MIN);
        kineto_trace *trace = finish(m.b);
        kineto_analysis_options o = {.size = sizeof o, .tables = ALL, .definitions = definitions};
        kineto_analysis *facts = NULL;
        assert_int_equal(kineto_analysis_run(trace, &o, &facts, NULL), KINETO_OK);
        kineto_trace_release(trace);
        kineto_analysis_destroy(facts);
    }
}

static void missing_parts_are_reported(void **state)
{
    (void)state;
    maker m = make();
    put_range(&m, "only this", 0, 10);
    kineto_analysis *facts = analyzed(finish(m.b), ALL);
    assert_true(notes(facts, "steps", "no steps"));
    assert_true(notes(facts, "operators", "no operators"));
    assert_true(notes(facts, "gpu_summary", "no device activity"));
    assert_true(notes(facts, "memory", "no memory events"));
    assert_true(notes(facts, "modules", "no modules"));
    assert_true(notes(facts, "distributed_overlap", "no communication"));
    assert_true(notes(facts, "distributed_wait", "no communication"));
    kineto_analysis_destroy(facts);
    facts = analyzed(finish(builder()), ALL);
    assert_true(notes(facts, "steps", "nothing in the trace"));
    kineto_analysis_destroy(facts);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_moment_of_a_step_counts_once),
        cmocka_unit_test(a_step_begins_when_the_devices_are_done_with_the_one_before),
        cmocka_unit_test(a_call_inside_one_of_its_group_counts_with_that_one),
        cmocka_unit_test(operators_are_distinguished_by_shapes_and_counted),
        cmocka_unit_test(devices_are_as_full_as_their_kernels_say),
        cmocka_unit_test(every_device_has_its_row),
        cmocka_unit_test(memory_is_followed_from_operators_to_releases),
        cmocka_unit_test(modules_have_what_ran_in_them_and_in_backward_for_them),
        cmocka_unit_test(what_others_needed_longer_than_the_last_rank_they_waited),
        cmocka_unit_test(ranks_without_what_is_compared_are_named),
        cmocka_unit_test(several_traces_of_one_rank_are_reported),
        cmocka_unit_test(stragglers_are_causes_and_nothing_else),
        cmocka_unit_test(facts_are_not_added_to_themselves),
        cmocka_unit_test(times_at_the_ends_of_all_times_do_no_harm),
        cmocka_unit_test(missing_parts_are_reported),
    };
    return RUN_TESTS(tests);
}
