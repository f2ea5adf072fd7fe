/* Tables about devices and launches, where a few activities tell more than a real trace:
 * tests/analyze looks at those. */
#include "unit.h"

#include "analyze/compat/order.h"
#include "trace/trace.h"

#include <ckineto/analyze.h>

#define EPOCH INT64_C(1700000000000000000)

typedef struct sample {
    kt_builder *b;
    uint32_t thread, stream;
} sample;

static void begin(sample *s)
{
    assert_int_equal(kt_builder_create(&s->b, NULL), KINETO_OK);
    s->thread = kt_track(s->b, kt_process(s->b, false, 10, 0), KINETO_TRACK_THREAD, 11);
    s->stream = kt_track(s->b, kt_process(s->b, true, 0, 0), KINETO_TRACK_STREAM, 7);
}

static void add(sample *s, uint32_t kind, const char *name, int64_t start, int64_t end,
                uint64_t correlation)
{
    bool device = kind == KINETO_KIND_CONCURRENT_KERNEL || kind == KINETO_KIND_GPU_MEMCPY ||
                  kind == KINETO_KIND_GPU_USER_ANNOTATION;
    kt_row row = {.start_ns = EPOCH + start,
                  .end_ns = EPOCH + end,
                  .name = kt_string(s->b, kb_string(name)),
                  .track = device ? s->stream : s->thread,
                  .kind = kind,
                  .correlation_id = correlation};
    (void)kt_append(s->b, &row);
}

static kineto_analysis *analyze(sample *s, const char *tables)
{
    kineto_trace *trace = NULL;
    kineto_analysis *a = NULL;
    kineto_analysis_options o = {.size = sizeof o, .tables = tables};
    assert_int_equal(kt_builder_finish(s->b, &trace, NULL), KINETO_OK);
    kt_builder_destroy(s->b);
    assert_int_equal(kineto_analysis_run(trace, &o, &a, NULL), KINETO_OK);
    kineto_trace_release(trace);
    return a;
}

static uint64_t rows_of(const kineto_analysis *a, uint32_t table)
{
    kineto_fact_table t;
    assert_true(kineto_analysis_table(a, table, &t));
    return t.row_count;
}

static kineto_fact fact(const kineto_analysis *a, uint32_t table, uint64_t row, uint32_t column)
{
    kineto_fact f;
    assert_true(kineto_analysis_fact(a, table, row, column, &f));
    return f;
}

static void assert_text(kineto_fact f, const char *text)
{
    assert_int_equal(f.text.size, strlen(text));
    assert_memory_equal(f.text.data, text, f.text.size);
}

/* ---- order -------------------------------------------------------------------------------------- */

static void assert_ordered(const int64_t *ns, const uint32_t *order, size_t count)
{
    uint8_t *seen = calloc(count + 1, 1);
    for (size_t i = 0; i < count; i++) {
        assert_true(order[i] < count && !seen[order[i]]);
        seen[order[i]] = 1;
        assert_true(!i || ns[order[i - 1]] <= ns[order[i]]);
    }
    free(seen);
}

/* What rises and falls makes partitions uneven: it needs the heap. */
static void any_order_becomes_sorted(void **state)
{
    (void)state;
    static const size_t counts[] = {0, 1, 2, 15, 16, 17, 100, 5000};
    static int64_t ns[5000];
    static uint32_t order[5000];
    for (size_t k = 0; k < KB_COUNT(counts); k++)
        for (int how = 0; how < 5; how++) {
            uint32_t random = 1;
            for (size_t i = 0; i < counts[k]; i++) {
                random = random * 1664525u + 1013904223u;
                size_t half = counts[k] / 2;
                const int64_t of[] = {(int64_t)i, -(int64_t)i, 7, random >> 24,
                                      (int64_t)(i < half ? i : i - half)};
                ns[i] = of[how];
            }
            ka_order_numpy(ns, order, counts[k]);
            assert_ordered(ns, order, counts[k]);
        }
}

static void few_equal_moments_keep_their_order(void **state)
{
    (void)state;
    const int64_t ns[] = {5, 3, 5, 3, 1, 5, 3};
    const uint32_t expected[] = {4, 1, 3, 6, 0, 2, 5};
    uint32_t order[7];
    ka_order_numpy(ns, order, 7);
    assert_memory_equal(order, expected, sizeof order);
}

/* ---- tables ------------------------------------------------------------------------------------- */

/* The second one began while the first still ran: the gap is in front of the third only. */
static void gaps_begin_when_all_earlier_work_has_ended(void **state)
{
    (void)state;
    sample s;
    begin(&s);
    add(&s, KINETO_KIND_CONCURRENT_KERNEL, "long", 0, 50000, 0);
    add(&s, KINETO_KIND_CONCURRENT_KERNEL, "short", 1000, 2000, 0);
    add(&s, KINETO_KIND_CONCURRENT_KERNEL, "next", 60000, 61000, 0);
    add(&s, KINETO_KIND_RUNTIME, "cudaLaunchKernel", 70000, 71000, 5);
    add(&s, KINETO_KIND_CONCURRENT_KERNEL, "launched late", 161000, 162000, 5);
    kineto_analysis *a = analyze(&s, "idle_breakdown");
    assert_int_equal(rows_of(a, 0), 2);
    assert_text(fact(a, 0, 0, 2), "host_wait");
    assert_int_equal(fact(a, 0, 0, 3).i, 100000);
    assert_text(fact(a, 0, 1, 2), "kernel_wait");
    assert_int_equal(fact(a, 0, 1, 3).i, 10000);
    kineto_analysis_destroy(a);
}

/* Three of a graph wait after its launch; one of them begins before, as its clock has it. */
static void every_activity_of_a_launch_waits_and_none_less_than_nothing(void **state)
{
    (void)state;
    sample s;
    begin(&s);
    add(&s, KINETO_KIND_RUNTIME, "cudaGraphLaunch", 1000, 5000, 1);
    for (int i = 0; i < 3; i++)
        add(&s, KINETO_KIND_CONCURRENT_KERNEL, "node", 500 + i * 2000, 1500 + i * 2000, 1);
    kineto_analysis *a = analyze(&s, "queue_length,queue_length_series");
    const int64_t lengths[] = {1, 2, 3, 2, 1, 0};
    assert_int_equal(rows_of(a, 1), 6);
    for (uint64_t i = 0; i < 6; i++)
        assert_int_equal(fact(a, 1, i, 3).i, lengths[i]);
    assert_int_equal(fact(a, 0, 0, 2).i, 6);
    assert_true(fact(a, 0, 0, 9).d == 3);
    assert_int_equal(fact(a, 0, 0, 10).i, 0);
    kineto_analysis_destroy(a);
}

/* 1024 launches wait: full from the last of them to the first activity. */
static void a_full_stream_tells_how_long_it_was(void **state)
{
    (void)state;
    sample s;
    begin(&s);
    for (int i = 0; i < 1024; i++) {
        add(&s, KINETO_KIND_RUNTIME, "cuLaunchKernelEx", i * 10, i * 10 + 5, (uint64_t)i + 1);
        add(&s, KINETO_KIND_CONCURRENT_KERNEL, "k", 20000 + i * 10, 20000 + i * 10 + 9,
            (uint64_t)i + 1);
    }
    kineto_analysis *a = analyze(&s, "queue_length");
    assert_int_equal(fact(a, 0, 0, 10).i, 20000 - 10230);
    kineto_analysis_destroy(a);
}

static void operators_have_the_sequence_of_what_they_launched(void **state)
{
    (void)state;
    sample s;
    begin(&s);
    for (int i = 0; i < 2; i++) {
        int64_t at = i * 100000;
        uint64_t id = (uint64_t)i * 2 + 1;
        add(&s, KINETO_KIND_CPU_OP, "aten::linear", at, at + 50000, 0);
        add(&s, KINETO_KIND_CPU_OP, "aten::addmm", at + 1000, at + 40000, 0);
        add(&s, KINETO_KIND_RUNTIME, "cudaLaunchKernel", at + 5000, at + 7000, id);
        add(&s, KINETO_KIND_DRIVER, "cuLaunchKernel", at + 8000, at + 9000, id + 1);
        add(&s, KINETO_KIND_CONCURRENT_KERNEL, "f(int, int)", at + 10000, at + 11000, id);
        add(&s, KINETO_KIND_CONCURRENT_KERNEL, "g", at + 12000, at + 13000, id + 1);
    }
    kineto_analysis *a = analyze(&s, "op_launch");
    assert_int_equal(rows_of(a, 0), 1);
    assert_text(fact(a, 0, 0, 0), "aten::addmm");
    assert_text(fact(a, 0, 0, 1), "f(int, int) -> g");
    assert_int_equal(fact(a, 0, 0, 2).i, 2);
    assert_true(fact(a, 0, 0, 3).d == 4 && fact(a, 0, 0, 4).d == 3);
    kineto_analysis_destroy(a);
}

static void work_belongs_to_the_innermost_range_around_its_launch(void **state)
{
    (void)state;
    sample s;
    begin(&s);
    add(&s, KINETO_KIND_USER_ANNOTATION, "outer", 0, 10000, 0);
    add(&s, KINETO_KIND_USER_ANNOTATION, "inner", 1000, 4000, 0);
    add(&s, KINETO_KIND_RUNTIME, "cudaLaunchKernel", 2000, 3000, 1);
    add(&s, KINETO_KIND_RUNTIME, "cudaLaunchKernel", 5000, 6000, 2);
    add(&s, KINETO_KIND_RUNTIME, "cudaLaunchKernel", 11000, 12000, 3);
    for (int i = 0; i < 3; i++)
        add(&s, KINETO_KIND_CONCURRENT_KERNEL, "k", 20000 + i * 1000, 20500 + i * 1000,
            (uint64_t)i + 1);
    add(&s, KINETO_KIND_GPU_USER_ANNOTATION, "outer", 20000, 21500, 0);
    kineto_analysis *a = analyze(&s, "annotations,kernels_annotated");
    assert_text(fact(a, 1, 0, 2), "inner");
    assert_text(fact(a, 1, 1, 2), "outer");
    assert_true(fact(a, 1, 2, 2).is_none);
    assert_int_equal(rows_of(a, 0), 3);
    assert_text(fact(a, 0, 0, 1), "host");
    assert_text(fact(a, 0, 2, 1), "device");
    assert_int_equal(fact(a, 0, 2, 4).i, 1500);
    kineto_analysis_destroy(a);
}

static void without_work_tables_say_why_they_are_empty(void **state)
{
    (void)state;
    sample s;
    begin(&s);
    add(&s, KINETO_KIND_CPU_OP, "aten::add", 0, 1000, 0);
    kineto_analysis *a = analyze(&s, "kernels,idle_breakdown,queue_length,queue_length_series,"
                                     "memory_bandwidth,bandwidth_series,launch_stats,op_launch,"
                                     "annotations,kernels_annotated");
    for (uint32_t i = 0; i < kineto_analysis_table_count(a); i++) {
        kineto_fact_table t;
        assert_true(kineto_analysis_table(a, i, &t));
        assert_int_equal(t.row_count, 0);
        assert_true(t.note.size > 0);
    }
    kineto_analysis_destroy(a);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(any_order_becomes_sorted),
        cmocka_unit_test(few_equal_moments_keep_their_order),
        cmocka_unit_test(gaps_begin_when_all_earlier_work_has_ended),
        cmocka_unit_test(every_activity_of_a_launch_waits_and_none_less_than_nothing),
        cmocka_unit_test(a_full_stream_tells_how_long_it_was),
        cmocka_unit_test(operators_have_the_sequence_of_what_they_launched),
        cmocka_unit_test(work_belongs_to_the_innermost_range_around_its_launch),
        cmocka_unit_test(without_work_tables_say_why_they_are_empty),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
