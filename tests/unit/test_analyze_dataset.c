/* What analyses look at: arrays of a trace, steps, links; and tables of facts, of one rank and of
 * several. */
#include "unit.h"

#include <math.h>

#include "analyze/dataset/dataset.h"
#include <ckineto/analyze.h>

typedef struct sample {
    kt_builder *b;
    uint32_t host, thread, stream, other;
} sample;

#define EPOCH INT64_C(1700000000000000000)

static void begin(sample *s)
{
    assert_int_equal(kt_builder_create(&s->b, NULL), KINETO_OK);
    s->host = kt_process(s->b, false, 10, 0);
    uint32_t device = kt_process(s->b, true, 0, 0);
    s->thread = kt_track(s->b, s->host, KINETO_TRACK_THREAD, 11);
    s->stream = kt_track(s->b, device, KINETO_TRACK_STREAM, 7);
    s->other = kt_track(s->b, device, KINETO_TRACK_STREAM, 20);
}

static void add(sample *s, uint32_t track, uint32_t kind, const char *name, int64_t start,
                int64_t end, uint64_t correlation)
{
    kt_row row = {.start_ns = EPOCH + start,
                  .end_ns = EPOCH + end,
                  .name = kt_string(s->b, kb_string(name)),
                  .track = track,
                  .kind = kind,
                  .correlation_id = correlation};
    (void)kt_append(s->b, &row);
}

static kineto_trace *finish(sample *s)
{
    kineto_trace *trace = NULL;
    assert_int_equal(kt_builder_finish(s->b, &trace, NULL), KINETO_OK);
    kt_builder_destroy(s->b);
    return trace;
}

/* Two steps; each has an operator with a launch; the kernel of the first ends in the second step.
 */
static kineto_trace *two_steps(void)
{
    sample s;
    begin(&s);
    for (int i = 0; i < 2; i++) {
        int64_t at = i * 10000;
        add(&s, s.thread, KINETO_KIND_USER_ANNOTATION, i ? "ProfilerStep#8" : "ProfilerStep#7", at,
            at + 10000, 0);
        add(&s, s.thread, KINETO_KIND_CPU_OP, "aten::mm", at + 1000, at + 6000, 0);
        add(&s, s.thread, KINETO_KIND_RUNTIME, "cudaLaunchKernel", at + 2000, at + 3000,
            (uint64_t)i + 1);
        add(&s, s.stream, KINETO_KIND_CONCURRENT_KERNEL, "ampere_sgemm_128x64_nn", at + 9000,
            at + 12000, (uint64_t)i + 1);
    }
    add(&s, s.other, KINETO_KIND_CONCURRENT_KERNEL, "ncclDevKernel_AllReduce_Sum_f32_RING_LL", 9500,
        11000, 99);
    return finish(&s);
}

static void open_scope(const kineto_trace *trace, uint32_t steps, uint64_t first, uint64_t last,
                       const char *streams, ka_dataset *dataset, ka_rules **rules)
{
    kineto_analysis_options o = {.size = sizeof o,
                                .steps = steps,
                                .first_step = first,
                                .last_step = last,
                                .streams = streams};
    assert_int_equal(ka_rules_create(NULL, rules, NULL), KINETO_OK);
    assert_int_equal(ka_dataset_create(trace, &o, *rules, dataset, NULL), KINETO_OK);
}

static void close_scope(ka_dataset *dataset, ka_rules *rules, kineto_trace *trace)
{
    ka_dataset_free(dataset);
    ka_rules_free(rules);
    kineto_trace_release(trace);
}

static void ranges_know_what_encloses_and_what_they_launched(void **state)
{
    (void)state;
    kineto_trace *trace = two_steps();
    ka_dataset s;
    ka_rules *rules;
    open_scope(trace, KINETO_STEPS_ALL, 0, 0, NULL, &s, &rules);
    assert_int_equal(s.slice_count, 6);
    assert_int_equal(s.work_count, 3);
    assert_int_equal(s.step_count, 2);
    const ka_slice *launch = &s.slices[2];
    assert_int_equal(launch->depth, 2);
    assert_int_equal(launch->parent, 1);
    assert_int_equal(s.slices[0].next, 3);
    assert_int_equal(launch->work_count, 1);
    const ka_work *w = &s.work[s.launched[launch->first_work]];
    assert_int_equal(w->call, 2);
    assert_int_equal(w->type, KA_TYPE_COMPUTATION);
    assert_int_equal(w->step, 0);
    close_scope(&s, rules, trace);
}

static void device_work_belongs_to_the_step_of_its_launch(void **state)
{
    (void)state;
    kineto_trace *trace = two_steps();
    ka_dataset s;
    ka_rules *rules;
    open_scope(trace, KINETO_STEPS_RANGE, 7, 7, NULL, &s, &rules);
    assert_int_equal(s.slice_count, 3);
    assert_int_equal(s.work_count, 1);
    assert_int_equal(s.work[0].start_ns, EPOCH + 9000);
    close_scope(&s, rules, trace);
}

/* PyTorch has written steps as operators and as annotations, and as both. */
static void a_step_that_is_written_twice_is_one_step(void **state)
{
    (void)state;
    sample b;
    begin(&b);
    for (int i = 0; i < 2; i++) {
        int64_t at = i * 10000;
        const char *name = i ? "ProfilerStep#8" : "ProfilerStep#7";
        add(&b, b.thread, i ? KINETO_KIND_USER_ANNOTATION : KINETO_KIND_CPU_OP, name, at, at + 9000,
            0);
        add(&b, b.thread, i ? KINETO_KIND_CPU_OP : KINETO_KIND_USER_ANNOTATION, name, at, at + 9000,
            0);
        add(&b, b.thread, KINETO_KIND_CPU_OP, "aten::mm", at + 1000, at + 6000, 0);
    }
    add(&b, b.thread, KINETO_KIND_USER_ANNOTATION, "ProfilerStep#9", 20000, 29000, 0);
    add(&b, b.thread, KINETO_KIND_USER_ANNOTATION, "ProfilerStep#9", 20000, 28000, 0);
    kineto_trace *trace = finish(&b);
    ka_dataset s;
    ka_rules *rules;
    open_scope(trace, KINETO_STEPS_ALL, 0, 0, NULL, &s, &rules);
    assert_int_equal(s.step_count, 4); /* the last two differ */
    for (uint32_t i = 0; i < s.step_count; i++)
        assert_int_equal(s.slices[s.steps[i].slice].kind, KINETO_KIND_USER_ANNOTATION);
    for (uint32_t i = 0; i < s.slice_count && s.slices[i].start_ns < EPOCH + 20000; i++)
        assert_int_equal(s.steps[s.slices[i].step].number,
                         s.slices[i].start_ns < EPOCH + 10000 ? 7 : 8);
    close_scope(&s, rules, trace);
}

/* Two ranks in one trace, the second 4 us after the first. */
static kineto_trace *two_ranks(void)
{
    sample b;
    begin(&b);
    for (int rank = 0; rank < 2; rank++) {
        uint32_t host = kt_process(b.b, false, 100 + rank, 0),
                 device = kt_process(b.b, true, 1 + rank, 0),
                 thread = kt_track(b.b, host, KINETO_TRACK_THREAD, 11),
                 stream = kt_track(b.b, device, KINETO_TRACK_STREAM, 7);
        for (int i = 0; i < 2; i++) {
            int64_t at = i * 10000 + rank * 4000;
            uint64_t id = (uint64_t)(rank * 2 + i + 1);
            add(&b, thread, KINETO_KIND_USER_ANNOTATION, i ? "ProfilerStep#8" : "ProfilerStep#7",
                at, at + 10000, 0);
            add(&b, thread, KINETO_KIND_RUNTIME, "cudaLaunchKernel", at + 2000, at + 3000, id);
            add(&b, stream, KINETO_KIND_CONCURRENT_KERNEL, "sgemm", at + 5000,
                at + 6000 + rank * 500, id);
        }
    }
    return finish(&b);
}

/* As PyTorch 2.5 writes them where functions of Python are recorded, too. */
static void steps_that_were_cut_begin_where_the_one_before_ended(void **state)
{
    (void)state;
    sample s;
    begin(&s);
    add(&s, s.thread, KINETO_KIND_CPU_OP, "aten::mm", 1000, 2000, 0);
    for (int i = 1; i <= 3; i++) {
        int64_t at = i * 10000;
        add(&s, s.thread, KINETO_KIND_PYTHON_FUNCTION, "torch/profiler/profiler.py(844): step", at,
            at + 500, 0);
        add(&s, s.thread, KINETO_KIND_USER_ANNOTATION,
            i == 1   ? "ProfilerStep#1"
            : i == 2 ? "ProfilerStep#2"
                     : "ProfilerStep#3",
            at + 10, at + 100, 0);
        add(&s, s.thread, KINETO_KIND_CPU_OP, "aten::mm", at + 1000, at + 2000, 0);
    }
    kineto_trace *trace = finish(&s);
    ka_dataset dataset;
    ka_rules *rules;
    open_scope(trace, KINETO_STEPS_ALL, 0, 0, NULL, &dataset, &rules);
    assert_int_equal(dataset.step_count, 3);
    assert_int_equal(dataset.steps[0].start_ns, EPOCH + 1000);
    assert_int_equal(dataset.steps[1].start_ns, EPOCH + 10100);
    assert_int_equal(dataset.steps[2].start_ns, EPOCH + 20100);
    assert_int_equal(dataset.steps[2].end_ns, EPOCH + 30100);
    assert_int_equal(dataset.slices[0].step, 0);
    close_scope(&dataset, rules, trace);
}

static void steps_of_several_processes_do_not_cut_each_other(void **state)
{
    (void)state;
    kineto_trace *trace = two_ranks();
    kineto_analysis_options o = {.size = sizeof o, .tables = "steps"};
    kineto_analysis *a = NULL;
    kineto_fact duration, kernel;
    assert_int_equal(kineto_analysis_run(trace, &o, &a, NULL), KINETO_OK);
    for (uint64_t row = 0; row < 4; row++) {
        assert_true(kineto_analysis_fact(a, 0, row, 3, &duration));
        assert_true(kineto_analysis_fact(a, 0, row, 4, &kernel));
        assert_int_equal(duration.i, 10000);
        assert_int_equal(kernel.i,
                         row < 2 ? 1000 : 1500); /* what the other rank did is not in it */
    }
    assert_false(kineto_analysis_fact(a, 0, 4, 3, &duration));
    kineto_analysis_destroy(a);
    kineto_trace_release(trace);
}

static void dropping_the_last_step_drops_that_of_each_process(void **state)
{
    (void)state;
    kineto_trace *trace = two_ranks();
    ka_dataset s;
    ka_rules *rules;
    open_scope(trace, KINETO_STEPS_DROP_LAST, 0, 0, NULL, &s, &rules);
    assert_int_equal(s.slice_count, 4);
    assert_int_equal(s.work_count, 2);
    for (uint32_t i = 0; i < s.step_count; i++)
        assert_int_equal(s.steps[i].slice == KA_NONE, s.steps[i].number == 8);
    close_scope(&s, rules, trace);
}

static void dropping_the_last_step_keeps_what_began_before(void **state)
{
    (void)state;
    kineto_trace *trace = two_steps();
    ka_dataset s;
    ka_rules *rules;
    open_scope(trace, KINETO_STEPS_DROP_LAST, 0, 0, NULL, &s, &rules);
    assert_int_equal(s.slice_count, 3);
    assert_int_equal(s.work_count, 2); /* the one without a launch began before, too */
    assert_int_equal(s.steps[1].slice, KA_NONE);
    close_scope(&s, rules, trace);
}

static void streams_can_be_chosen(void **state)
{
    (void)state;
    kineto_trace *trace = two_steps();
    ka_dataset s;
    ka_rules *rules;
    open_scope(trace, KINETO_STEPS_ALL, 0, 0, "20,99", &s, &rules);
    assert_int_equal(s.stream_count, 1);
    assert_int_equal(s.work_count, 1);
    assert_int_equal(s.work[0].type, KA_TYPE_COMMUNICATION);
    close_scope(&s, rules, trace);
}

static void ranges_that_cross_keep_what_they_enclose(void **state)
{
    (void)state;
    sample b;
    begin(&b);
    add(&b, b.thread, KINETO_KIND_CPU_OP, "first", 0, 1000, 0);
    add(&b, b.thread, KINETO_KIND_CPU_OP, "crossing", 500, 1500, 0);
    add(&b, b.thread, KINETO_KIND_CPU_OP, "inside", 600, 700, 0);
    kineto_trace *trace = finish(&b);
    ka_dataset s;
    ka_rules *rules;
    open_scope(trace, KINETO_STEPS_ALL, 0, 0, NULL, &s, &rules);
    assert_int_equal(s.thread_count, 1);
    assert_int_equal(s.slice_count, 3);
    assert_int_equal(s.slices[0].parent, KA_NONE);
    assert_int_equal(s.slices[1].parent, KA_NONE);
    assert_int_equal(s.slices[2].parent, 1);
    assert_int_equal(s.slices[0].next, 1);
    assert_int_equal(s.slices[1].next, 3);
    close_scope(&s, rules, trace);
}

/* ---- spans ------------------------------------------------------------------------------------------- */

static void spans_are_united_intersected_and_subtracted(void **state)
{
    (void)state;
    ka_spans a = {0}, b = {0}, out = {0};
    const ka_span as[] = {{10, 20}, {0, 5}, {5, 7}, {15, 30}, {12, 13}}, bs[] = {{6, 11}, {25, 40}};
    for (size_t i = 0; i < KB_COUNT(as); i++)
        assert_true(kb_vec_push(&a, as[i]));
    for (size_t i = 0; i < KB_COUNT(bs); i++)
        assert_true(kb_vec_push(&b, bs[i]));
    ka_spans_unite(&a);
    ka_spans_unite(&b);
    assert_int_equal(a.count, 2);
    assert_int_equal(ka_spans_ns(&a), 27);
    assert_true(ka_spans_both(&a, &b, &out));
    assert_int_equal(ka_spans_ns(&out), 1 + 1 + 5);
    assert_true(ka_spans_without(&a, &b, &out));
    assert_int_equal(ka_spans_ns(&out), 27 - 7);
    size_t cursor = 0;
    assert_int_equal(ka_spans_within(&a, 3, 12, &cursor), 4 + 2);
    assert_int_equal(ka_spans_within(&a, 28, 99, &cursor), 2);
    kb_vec_free(&a);
    kb_vec_free(&b);
    kb_vec_free(&out);
}

static void numbers_are_described_as_pandas_does(void **state)
{
    (void)state;
    double values[] = {4, 1, 3, 2};
    ka_describe d = ka_describe_values(values, 4);
    assert_int_equal(d.count, 4);
    assert_true(d.mean == 2.5 && d.min == 1 && d.max == 4);
    assert_true(d.p25 == 1.75 && d.p50 == 2.5 && d.p75 == 3.25);
    assert_true(fabs(d.std - 1.2909944487358056) < 1e-12);
    assert_true(ka_describe_values(values, 0).count == 0);
    assert_true(ka_describe_values(values, 1).std == 0);
}

/* ---- facts ------------------------------------------------------------------------------------------- */

static kineto_analysis *facts_of(const char *tables, int32_t rank, uint32_t threads)
{
    kineto_trace *trace = two_steps();
    kineto_analysis_options o = {
        .size = sizeof o, .tables = tables, .rank = &rank, .threads = threads};
    kineto_analysis *a = NULL;
    assert_int_equal(kineto_analysis_run(trace, &o, &a, NULL), KINETO_OK);
    kineto_trace_release(trace);
    return a;
}

static double number_at(const kineto_analysis *a, uint32_t table, uint64_t row, uint32_t column)
{
    kineto_fact f;
    assert_true(kineto_analysis_fact(a, table, row, column, &f));
    return f.type == KINETO_CELL_NUMBER ? f.d : (double)f.i;
}

static void ranks_follow_and_sums_are_summed(void **state)
{
    (void)state;
    kineto_analysis *a = facts_of("temporal_breakdown,kernel_types", 0, 1),
                    *b = facts_of("temporal_breakdown,kernel_types", 1, 1);
    kineto_fact_table t;
    assert_int_equal(kineto_analysis_add(a, b, NULL), KINETO_OK);
    assert_true(kineto_analysis_table(a, 0, &t));
    assert_string_equal(t.name, "temporal_breakdown");
    assert_int_equal(t.row_count, 2);
    assert_true(number_at(a, 0, 1, 0) == 1);
    uint64_t rows = (kineto_analysis_table(a, 1, &t), t.row_count);
    double sum = 0, percent = 0;
    for (uint64_t r = 0; r < rows; r++) {
        sum += number_at(a, 1, r, 1);
        percent += number_at(a, 1, r, 2);
    }
    assert_true(sum == 2 * 6000); /* busy time of both */
    assert_true(fabs(percent - 100) < 1e-9);
    kineto_analysis_destroy(a);
    kineto_analysis_destroy(b);
}

static void facts_of_other_tables_are_not_added(void **state)
{
    (void)state;
    kineto_error err = {0};
    kineto_analysis *a = facts_of("temporal_breakdown", 0, 1), *b = facts_of("overlap", 1, 1);
    assert_int_equal(kineto_analysis_add(a, b, &err), KINETO_E_ARGUMENT);
    assert_non_null(strstr(err.message, "same tables"));
    kineto_analysis_destroy(a);
    kineto_analysis_destroy(b);
}

static void any_number_of_threads_gives_the_same(void **state)
{
    (void)state;
    kineto_analysis *one = facts_of(NULL, 3, 1), *many = facts_of(NULL, 3, 5);
    kineto_fact x, y;
    assert_int_equal(kineto_analysis_table_count(one), kineto_analysis_table_count(many));
    for (uint32_t t = 0; t < kineto_analysis_table_count(one); t++)
        for (uint64_t r = 0; kineto_analysis_fact(one, t, r, 0, &x); r++)
            for (uint32_t c = 0; kineto_analysis_fact(one, t, r, c, &x); c++) {
                assert_true(kineto_analysis_fact(many, t, r, c, &y));
                assert_true(x.i == y.i && x.is_none == y.is_none &&
                            kb_string_equal(x.text, y.text));
                assert_memory_equal(&x.d, &y.d, sizeof x.d);
            }
    kineto_analysis_destroy(one);
    kineto_analysis_destroy(many);
}

static void unknown_tables_and_streams_are_refused_by_name(void **state)
{
    (void)state;
    kineto_trace *trace = two_steps();
    kineto_analysis *a;
    kineto_error err = {0};
    kineto_analysis_options o = {.size = sizeof o, .tables = "overlap,nosuch"};
    assert_int_equal(kineto_analysis_run(trace, &o, &a, &err), KINETO_E_ARGUMENT);
    assert_non_null(strstr(err.message, "nosuch"));
    o = (kineto_analysis_options){.size = sizeof o, .streams = "7;8"};
    assert_int_equal(kineto_analysis_run(trace, &o, &a, &err), KINETO_E_ARGUMENT);
    o = (kineto_analysis_options){
        .size = sizeof o, .steps = KINETO_STEPS_RANGE, .first_step = 90, .last_step = 91};
    assert_int_equal(kineto_analysis_run(trace, &o, &a, &err), KINETO_E_NOT_FOUND);
    assert_non_null(strstr(err.message, "7..8"));
    for (uint32_t definitions = 0; definitions < 2; definitions++) {
        o = (kineto_analysis_options){
            .size = sizeof o, .streams = "8,9", .definitions = definitions};
        assert_int_equal(kineto_analysis_run(trace, &o, &a, &err), KINETO_OK);
        kineto_fact_table t;
        assert_true(kineto_analysis_table(a, kineto_analysis_find_table(a, "temporal_breakdown"), &t));
        assert_non_null(strstr(t.note.data, "which has 7, 20"));
        kineto_analysis_destroy(a);
    }
    kineto_trace_release(trace);
}

static void choosing_steps_changes_no_depth(void **state)
{
    (void)state;
    enum { DEEP = 70000 };
    kineto_analysis_options all = {.size = sizeof all, .steps = KINETO_STEPS_ALL},
                           one = {.size = sizeof one,
                                  .steps = KINETO_STEPS_RANGE,
                                  .first_step = 1,
                                  .last_step = 1};
    sample s;
    begin(&s);
    add(&s, s.thread, KINETO_KIND_USER_ANNOTATION, "ProfilerStep#1", 0, 10 * DEEP, 0);
    for (int64_t i = 1; i < DEEP; i++)
        add(&s, s.thread, KINETO_KIND_CPU_OP, "f", i, 10 * DEEP - i, 0);
    kineto_trace *trace = finish(&s);
    ka_rules *rules = NULL;
    ka_dataset scopes[2];
    assert_int_equal(ka_rules_create(NULL, &rules, NULL), KINETO_OK);
    assert_int_equal(ka_dataset_create(trace, &all, rules, &scopes[0], NULL), KINETO_OK);
    assert_int_equal(ka_dataset_create(trace, &one, rules, &scopes[1], NULL), KINETO_OK);
    assert_int_equal(scopes[1].slice_count, DEEP);
    for (uint32_t i = 0; i < DEEP; i++)
        assert_int_equal(scopes[1].slices[i].depth, KB_MIN(i, UINT32_C(65535)));
    assert_int_equal(scopes[0].slices[DEEP - 1].depth, 65535);
    ka_dataset_free(&scopes[0]);
    ka_dataset_free(&scopes[1]);
    ka_rules_free(rules);
    kineto_trace_release(trace);
}

static void an_empty_trace_has_tables_that_say_why(void **state)
{
    (void)state;
    sample s;
    begin(&s);
    kineto_trace *trace = finish(&s);
    kineto_analysis *a;
    kineto_fact_table t;
    kineto_analysis_options o = {.size = sizeof o, .series = true};
    assert_int_equal(kineto_analysis_run(trace, &o, &a, NULL), KINETO_OK);
    assert_true(kineto_analysis_table(a, 0, &t));
    assert_int_equal(t.row_count, 0);
    assert_non_null(strstr(t.note.data, "no device activity"));
    kineto_analysis_destroy(a);
    kineto_trace_release(trace);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ranges_know_what_encloses_and_what_they_launched),
        cmocka_unit_test(device_work_belongs_to_the_step_of_its_launch),
        cmocka_unit_test(a_step_that_is_written_twice_is_one_step),
        cmocka_unit_test(steps_that_were_cut_begin_where_the_one_before_ended),
        cmocka_unit_test(steps_of_several_processes_do_not_cut_each_other),
        cmocka_unit_test(dropping_the_last_step_drops_that_of_each_process),
        cmocka_unit_test(dropping_the_last_step_keeps_what_began_before),
        cmocka_unit_test(streams_can_be_chosen),
        cmocka_unit_test(ranges_that_cross_keep_what_they_enclose),
        cmocka_unit_test(spans_are_united_intersected_and_subtracted),
        cmocka_unit_test(numbers_are_described_as_pandas_does),
        cmocka_unit_test(ranks_follow_and_sums_are_summed),
        cmocka_unit_test(facts_of_other_tables_are_not_added),
        cmocka_unit_test(any_number_of_threads_gives_the_same),
        cmocka_unit_test(unknown_tables_and_streams_are_refused_by_name),
        cmocka_unit_test(choosing_steps_changes_no_depth),
        cmocka_unit_test(an_empty_trace_has_tables_that_say_why),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
