/* Collectives; steps as a whole; operators and steps against what a device can do. */
#include "analyzing.h"

#include "analyze/facts/analyses.h"

#include <ckineto/function.h>

#define ALL_REDUCE "ncclDevKernel_AllReduce_Sum_f32_RING_LL"

static double number(const kineto_analysis *facts, const char *table, uint64_t row,
                     const char *column)
{
    kineto_fact fact = cell(facts, table, row, column);
    assert_false(fact.is_none);
    return fact.d;
}

static void put_message(maker *m, const char *name, int64_t in, int64_t out, int64_t ranks)
{
    put_text(m, "Collective name", name);
    put_number(m, "In msg nelems", in);
    put_number(m, "Out msg nelems", out);
    put_number(m, "Group size", ranks);
    put_text(m, "dtype", "Float");
    put_text(m, "Process Group Name", "7");
    put_number(m, "Seq", 3);
}

static void bandwidths_follow_from_what_a_kernel_says(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        int64_t in, out;
        double factor;
    } kinds[] = {{"allreduce", 1000000, 1000000, 1.75},
                 {"_allgather_base", 125000, 1000000, 0.875},
                 {"_reduce_scatter_base", 1000000, 125000, 0.875},
                 {"all_to_allv", 1000000, 1000000, 0.875},
                 {"broadcast", 1000000, 1000000, 1},
                 {"reduce", 1000000, 1000000, 1}};
    maker m = make();
    for (size_t i = 0; i < KB_COUNT(kinds); i++) {
        put_message(&m, kinds[i].name, kinds[i].in, kinds[i].out, 8);
        put_kernel(&m, m.stream, "ncclDevKernel", (double)i * 100, (double)i * 100 + 40, i + 1);
    }
    kineto_analysis *facts = analyzed(finish(m.b), "collectives");
    assert_int_equal(rows_of(facts, "collectives"), KB_COUNT(kinds));
    for (size_t i = 0; i < KB_COUNT(kinds); i++) {
        assert_true(cell_is(facts, "collectives", i, "name", kinds[i].name));
        assert_true(cell_is(facts, "collectives", i, "group", "7"));
        assert_int_equal(cell(facts, "collectives", i, "seq").i, 3);
        assert_int_equal(cell(facts, "collectives", i, "bytes").i, 4000000);
        assert_float_equal(number(facts, "collectives", i, "algbw_gbps"), 100, 1e-9);
        assert_float_equal(number(facts, "collectives", i, "busbw_gbps"), 100 * kinds[i].factor,
                           1e-9);
    }
    kineto_analysis_destroy(facts);
}

static void what_computation_does_not_cover_is_exposed(void **state)
{
    (void)state;
    maker m = make();
    put_kernel(&m, m.other, ALL_REDUCE, 0, 100, 1);
    put_kernel(&m, m.stream, "gemm", 10, 40, 2);
    put_kernel(&m, m.stream, "gemm", 90, 120, 3);
    put_row(&m, m.stream, KINETO_KIND_GPU_MEMCPY, "Memcpy DtoD (Device -> Device)", 50, 60, 4);
    kineto_analysis *facts = analyzed(finish(m.b), "collectives,collective_groups");
    assert_int_equal(cell(facts, "collectives", 0, "exposed_us").i, 60000);
    assert_true(cell_is(facts, "collectives", 0, "name", "allreduce"));
    assert_true(cell(facts, "collectives", 0, "bytes").is_none);
    assert_true(cell(facts, "collectives", 0, "busbw_gbps").is_none);
    assert_int_equal(cell(facts, "collective_groups", 0, "exposed_us").i, 60000);
    kineto_analysis_destroy(facts);
}

static void the_operator_that_starts_it_is_asked_too(void **state)
{
    (void)state;
    maker m = make();
    put_message(&m, "allreduce", 10, 10, 2);
    put_op(&m, "record_param_comms", 0, 30);
    put_range(&m, "nccl:all_reduce", 1, 29);
    put_call(&m, "cudaLaunchKernel", 5, 10, 1);
    put_kernel(&m, m.other, ALL_REDUCE, 20, 30, 1);
    /* before 2.2: dimensions of the annotation */
    put_op(&m, "record_param_comms", 100, 130);
    put_json(&m, "Input Dims", "[[8, 1024, 16]]");
    put_json(&m, "Input type", "[\"c10::Half\"]");
    put_range(&m, "nccl:all_to_all", 101, 129);
    put_call(&m, "cudaLaunchKernel", 105, 110, 2);
    put_kernel(&m, m.other, "ncclKernel_SendRecv_RING", 120, 130, 2);
    kineto_analysis *facts = analyzed(finish(m.b), "collectives,collective_groups");
    assert_int_equal(cell(facts, "collectives", 0, "bytes").i, 40);
    assert_true(cell_is(facts, "collectives", 1, "name", "all_to_all"));
    assert_int_equal(cell(facts, "collectives", 1, "bytes").i, 8 * 1024 * 16 * 2);
    assert_true(cell(facts, "collectives", 1, "busbw_gbps").is_none);
    kineto_analysis_destroy(facts);
}

/* What three tables say of 1000 elements of a type. */
static void check_type(const char *type, int64_t size)
{
    maker m = make();
    char list[64];
    snprintf(list, sizeof list, "[\"%s\"]", type);
    put_json(&m, "Input Dims", "[[10, 100]]");
    put_json(&m, "Input type", list);
    put_op(&m, "aten::mul", 0, 50);
    put_call(&m, "cudaLaunchKernel", 5, 10, 1);
    put_kernel(&m, m.stream, "elementwise", 20, 30, 1);
    put_number(&m, "In msg nelems", 1000);
    put_text(&m, "dtype", type);
    put_kernel(&m, m.other, ALL_REDUCE, 40, 50, 2);
    kineto_analysis *facts = analyzed(finish(m.b), "collectives,distributed_operators,roofline");
    int64_t said[] = {cell(facts, "collectives", 0, "bytes").i,
                      cell(facts, "distributed_operators", 0, "bytes").i,
                      (int64_t)number(facts, "roofline", 0, "bytes")};
    for (size_t i = 0; i < KB_COUNT(said); i++)
        if (said[i] != 1000 * size)
            fail_msg("%s in table %zu: %lld bytes", type, i, (long long)said[i]);
    kineto_analysis_destroy(facts);
}

/* As C++ and PyTorch spell them; the sizes are those of torch.dtype.itemsize. */
static void every_type_of_pytorch_has_its_size(void **state)
{
    (void)state;
    static const struct {
        const char *type;
        int64_t size;
    } types[] = {
#define KINETO_X(name, value, text, bytes) {text, bytes},
        KINETO_DTYPE_MAP(KINETO_X)
#undef KINETO_X
            {"Byte", 1},
        {"Char", 1},
        {"Short", 2},
        {"Int", 4},
        {"Long", 8},
        {"Half", 2},
        {"Float", 4},
        {"Double", 8},
        {"ComplexHalf", 4},
        {"ComplexFloat", 8},
        {"ComplexDouble", 16},
        {"Bool", 1},
        {"QInt8", 1},
        {"QUInt8", 1},
        {"QInt32", 4},
        {"BFloat16", 2},
        {"QUInt4x2", 1},
        {"QUInt2x4", 1},
        {"Bits1x8", 1},
        {"Bits8", 1},
        {"Bits16", 2},
        {"Float8_e5m2", 1},
        {"Float8_e4m3fn", 1},
        {"Float8_e5m2fnuz", 1},
        {"UInt16", 2},
        {"UInt32", 4},
        {"UInt64", 8},
        {"Float8_e8m0fnu", 1},
        {"Float4_e2m1fn_x2", 1},
        {"c10::Float8_e8m0fnu", 1},
        {"c10::Float4_e2m1fn_x2", 1},
        {"long", 8},
        {"short", 2},
        {"torch.bfloat16", 2},
        {"float32", 4},
        {"int8", 1},
        {"complex64", 8}};
    for (size_t i = 0; i < KB_COUNT(types); i++)
        check_type(types[i].type, types[i].size);
}

static void groups_have_sums_and_small_messages(void **state)
{
    (void)state;
    maker m = make();
    for (uint64_t i = 0; i < 4; i++) {
        put_message(&m, "allreduce", i < 3 ? 100 : 1000000, i < 3 ? 100 : 1000000, 2);
        put_kernel(&m, m.other, ALL_REDUCE, (double)i * 100, (double)i * 100 + (i < 3 ? 10 : 40),
                   i);
    }
    kineto_analysis *facts = analyzed(finish(m.b), "collective_groups");
    assert_int_equal(rows_of(facts, "collective_groups"), 1);
    assert_int_equal(cell(facts, "collective_groups", 0, "count").i, 4);
    assert_int_equal(cell(facts, "collective_groups", 0, "bytes").i, 4001200);
    assert_int_equal(cell(facts, "collective_groups", 0, "small_count").i, 3);
    assert_int_equal(cell(facts, "collective_groups", 0, "small_us").i, 30000);
    assert_float_equal(number(facts, "collective_groups", 0, "algbw_gbps"), 4001200 / 70000.0,
                       1e-9);
    kineto_analysis_destroy(facts);
}

static void odd_arguments_do_no_harm(void **state)
{
    (void)state;
    static const char *const dims[] = {
        "[]", "[[]]",     "[[9223372036854775807, 9223372036854775807]]",
        "[[", "\"text\"", "[[1,\"x\"]]"};
    maker m = make();
    for (uint64_t i = 0; i < KB_COUNT(dims); i++) {
        double at = (double)i * 100;
        put_text(&m, "Input Dims", dims[i]);
        put_text(&m, "Input type", i % 2 ? "[\"float" : "[\"float\"]");
        put_range(&m, "nccl:all_reduce", at, at + 50);
        put_call(&m, "cudaLaunchKernel", at + 5, at + 10, i + 1);
        put_text(&m, "Group size", "-4");
        put_number(&m, "Seq", -1);
        put_kernel(&m, m.other, ALL_REDUCE, at + 20, at + 20 + (double)i, i + 1);
    }
    kineto_analysis *facts = analyzed(finish(m.b), "collectives,collective_groups,roofline,mfu");
    assert_int_equal(rows_of(facts, "collectives"), KB_COUNT(dims));
    kineto_analysis_destroy(facts);
}

/* ---- steps ---------------------------------------------------------------------------------- */

/* Steps of these lengths; in each an operator of half of it, and a kernel of 10. */
static maker steps_of(const double *lengths, size_t count)
{
    maker m = make();
    double at = 0;
    for (size_t i = 0; i < count; i++) {
        char name[32];
        snprintf(name, sizeof name, "ProfilerStep#%d", (int)i);
        put_range(&m, name, at, at + lengths[i]);
        put_op(&m, "aten::slow", at + 1, at + 1 + lengths[i] / 2);
        put_call(&m, "cudaLaunchKernel", at + 2, at + 3, i + 1);
        put_kernel(&m, m.stream, "k", at + 4, at + 14, i + 1);
        at += lengths[i];
    }
    return m;
}

static void first_steps_that_take_long_are_warm_up(void **state)
{
    (void)state;
    static const double lengths[] = {900, 500, 100, 101, 99, 100, 102, 98, 100};
    maker m = steps_of(lengths, KB_COUNT(lengths));
    kineto_analysis *facts = analyzed(finish(m.b), "step_statistics,step_outliers");
    assert_int_equal(cell(facts, "step_statistics", 0, "count").i, 9);
    assert_int_equal(cell(facts, "step_statistics", 0, "warm_up").i, 2);
    assert_float_equal(number(facts, "step_statistics", 0, "median_us"), 100, 1e-9);
    assert_float_equal(number(facts, "step_statistics", 0, "mad_us"), 1, 1e-9);
    assert_int_equal(cell(facts, "step_statistics", 0, "max_us").i, 102000);
    assert_int_equal(cell(facts, "step_statistics", 0, "outliers").i, 0);
    assert_true(notes(facts, "step_outliers", "no step"));
    kineto_analysis_destroy(facts);
}

static void what_took_longer_in_a_slow_step_is_named(void **state)
{
    (void)state;
    static const double lengths[] = {100, 101, 99, 100, 300, 102, 98, 100};
    maker m = steps_of(lengths, KB_COUNT(lengths));
    kineto_analysis *facts = analyzed(finish(m.b), "step_statistics,step_outliers");
    assert_int_equal(cell(facts, "step_statistics", 0, "outliers").i, 1);
    assert_int_equal(rows_of(facts, "step_outliers"), 2);
    assert_true(cell_is(facts, "step_outliers", 0, "step", "4"));
    assert_true(cell_is(facts, "step_outliers", 0, "what", "aten::slow"));
    assert_true(cell_is(facts, "step_outliers", 0, "kind", "operator"));
    assert_float_equal(number(facts, "step_outliers", 0, "delta_us"), 100, 1e-9);
    assert_true(cell_is(facts, "step_outliers", 1, "kind", "host"));
    kineto_analysis_destroy(facts);
}

static void without_steps_a_note_says_so(void **state)
{
    (void)state;
    maker m = make();
    put_op(&m, "aten::mm", 0, 10);
    kineto_analysis *facts =
        analyzed(finish(m.b), "step_statistics,step_outliers,roofline,mfu,collectives");
    assert_true(notes(facts, "step_statistics", "no steps"));
    assert_true(notes(facts, "mfu", "no device activity"));
    assert_true(notes(facts, "collectives", "no device activity"));
    kineto_analysis_destroy(facts);
}

/* ---- peaks ---------------------------------------------------------------------------------- */

static void devices_are_known_by_name_or_capability(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        int64_t major;
        double fp16, memory;
    } devices[] = {{"NVIDIA A100-SXM4-80GB", 8, 312, 2039},
                   {"NVIDIA A100-PG509-200", 8, 312, 1555},
                   {"NVIDIA A100 80GB PCIe", 8, 312, 1935},
                   {"NVIDIA H100 80GB HBM3", 9, 989.4, 3350},
                   {"NVIDIA H100 PCIe", 9, 756, 2000},
                   {"NVIDIA H200", 9, 989.4, 4800},
                   {"Tesla V100-SXM2-32GB", 7, 125, 900},
                   {"NVIDIA A10", 8, 125, 600},
                   {"NVIDIA A10G", 8, 70, 600},
                   {"NVIDIA L4", 8, 121, 300},
                   {"NVIDIA L40S", 8, 362, 864},
                   {"Tesla T4", 7, 65, 320},
                   {"AMD Instinct MI300X", 9, 1307.4, 5300},
                   {"AMD Instinct MI250X", 9, 191.5, 1638},
                   {"NVIDIA GeForce RTX 4090", 8, 165.2, 1008},
                   {"NVIDIA H100 NVL", 9, 835.5, 3900},
                   {"NVIDIA H200 NVL", 9, 835.5, 4800},
                   {"NVIDIA H20", 9, 148, 4000},
                   {"NVIDIA GH200 480GB", 9, 989.4, 4000},
                   {"NVIDIA GH200 144G HBM3e", 9, 989.4, 4900},
                   {"NVIDIA B200", 10, 2250, 7700},
                   {"NVIDIA GB200", 10, 2500, 8000},
                   {"NVIDIA A100-PCIE-40GB", 8, 312, 1555},
                   {"NVIDIA A800-SXM4-80GB", 8, 312, 2039},
                   {"NVIDIA L40", 8, 181, 864},
                   {"NVIDIA RTX 6000 Ada Generation", 8, 364.2, 960},
                   {"Tesla V100-PCIE-16GB", 7, 112, 900},
                   {"Tesla V100S-PCIE-32GB", 7, 130, 1134},
                   {"Tesla V100-DGXS-32GB", 7, 125, 900},
                   {"Tesla P100-PCIE-12GB", 6, 18.7, 549},
                   {"AMD Instinct MI250X/MI250", 9, 191.5, 1638},
                   {"AMD Instinct MI250", 9, 181, 1638},
                   {"AMD Instinct MI355X", 9, 2516.6, 8000},
                   {"Intel(R) Data Center GPU Max 1550", 0, 839, 3277},
                   {"NVIDIA GeForce RTX 3080 Ti", 8, 68.2, 912},
                   {"NVIDIA GeForce RTX 4080 SUPER", 8, 104.4, 736},
                   {"NVIDIA GeForce RTX 4090 Laptop GPU", 0, 0, 0},
                   {"NVIDIA A100-SXM4-80GB MIG 1g.10gb", 8, 0, 0},
                   {"AMD Radeon Graphics", 9, 0, 0},
                   {"NVIDIA Something New", 9, 989.4, 3350},
                   {"", 8, 0, 0}};
    for (size_t i = 0; i < KB_COUNT(devices); i++) {
        const ka_peaks *p = ka_peaks_of(kb_string(devices[i].name), devices[i].major, 0);
        if (p->fp16 != devices[i].fp16 || p->memory_gbps != devices[i].memory)
            fail_msg("%s: %g TFLOPS, %g GB/s", devices[i].name, p->fp16, p->memory_gbps);
    }
}

static void operators_and_steps_are_measured_against_the_device(void **state)
{
    (void)state;
    maker m = make();
    kineto_process properties = {.is_device = true,
                                 .rank = -1,
                                 .properties_json =
                                     kb_string("{\"id\": 0, \"name\": \"NVIDIA A100-SXM4-80GB\", "
                                               "\"computeMajor\": 8, \"computeMinor\": 0}")};
    kt_process_set(m.b, m.device, &properties);
    put_range(&m, "ProfilerStep#0", 0, 1000);
    put_json(&m, "Input Dims", "[[1000, 2000], [2000, 3000]]");
    put_json(&m, "Input type", "[\"c10::Half\", \"c10::Half\"]");
    put_op(&m, "aten::mm", 10, 50);
    put_call(&m, "cudaLaunchKernel", 20, 30, 1);
    put_kernel(&m, m.stream, "ampere_fp16_s16816gemm_fp16_128x64_nn", 100, 200, 1);
    kineto_analysis *facts = analyzed(finish(m.b), "roofline,mfu");
    assert_true(cell_is(facts, "roofline", 0, "operator", "aten::mm"));
    assert_float_equal(number(facts, "roofline", 0, "flops"), 12e9, 1);
    assert_float_equal(number(facts, "roofline", 0, "bytes"), 16e6, 1);
    assert_float_equal(number(facts, "roofline", 0, "tflops"), 120, 1e-6);
    assert_float_equal(number(facts, "roofline", 0, "flops_pct"), 100 * 120 / 312.0, 1e-6);
    assert_float_equal(number(facts, "roofline", 0, "gbps"), 160, 1e-6);
    assert_true(cell_is(facts, "roofline", 0, "bound", "compute"));
    assert_float_equal(number(facts, "mfu", 0, "mfu_pct"), 100 * 12 / 312.0, 1e-6);
    assert_true(cell_is(facts, "mfu", 0, "precision", "fp16"));
    kineto_analysis_destroy(facts);
}

/* An operator of these sizes, with a kernel if `id` is not 0. */
static void put_sized(maker *m, const char *name, const char *dims, double from, double to,
                      uint64_t id)
{
    put_json(m, "Input Dims", dims);
    put_op(m, name, from, to);
    if (!id)
        return;
    put_call(m, "cudaLaunchKernel", from + 1, from + 2, id);
    put_kernel(m, m->stream, "k", from + 2, from + 3, id);
}

static void nested_operators_are_not_counted_twice(void **state)
{
    (void)state;
    maker m = make();
    put_range(&m, "ProfilerStep#0", 0, 1000);
    put_sized(&m, "aten::linear", "[[4,8],[16,8],[16]]", 10, 100, 0);
    put_sized(&m, "aten::addmm", "[[16],[4,8],[8,16]]", 20, 90, 1);
    put_sized(&m, "aten::scaled_dot_product_attention", "[[5,8],[7,8],[7,4]]", 200, 300, 0);
    put_sized(&m, "aten::mul", "[[5,8],[]]", 210, 220, 2);
    put_sized(&m, "aten::matmul", "[[5,8],[8,7]]", 230, 240, 3);
    put_sized(&m, "aten::matmul", "[[5,7],[7,4]]", 250, 260, 4);
    kineto_analysis *facts = analyzed(finish(m.b), "roofline,mfu");
    assert_int_equal(rows_of(facts, "roofline"), 3);
    /* linear is its addmm; what is inside the attention is 40 + 560 + 280, more than its 840 */
    assert_float_equal(number(facts, "mfu", 0, "flops"), 1024 + 880, 1e-9);
    kineto_analysis_destroy(facts);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bandwidths_follow_from_what_a_kernel_says),
        cmocka_unit_test(what_computation_does_not_cover_is_exposed),
        cmocka_unit_test(the_operator_that_starts_it_is_asked_too),
        cmocka_unit_test(every_type_of_pytorch_has_its_size),
        cmocka_unit_test(groups_have_sums_and_small_messages),
        cmocka_unit_test(odd_arguments_do_no_harm),
        cmocka_unit_test(first_steps_that_take_long_are_warm_up),
        cmocka_unit_test(what_took_longer_in_a_slow_step_is_named),
        cmocka_unit_test(without_steps_a_note_says_so),
        cmocka_unit_test(devices_are_known_by_name_or_capability),
        cmocka_unit_test(operators_and_steps_are_measured_against_the_device),
        cmocka_unit_test(nested_operators_are_not_counted_twice),
    };
    return RUN_TESTS(tests);
}
