/* Calls as a dataset has them and as HTA nests them; sequences; filters by ranges. */
#include "unit.h"

#include "analyze/facts/analyses.h"
#include <ckineto/analyze.h>

typedef struct sample {
    kt_builder *b;
    uint32_t main, backward, stream, stream_zero;
} sample;

#define EPOCH INT64_C(1700000000000000000)

static void begin(sample *s)
{
    assert_int_equal(kt_builder_create(&s->b, NULL), KINETO_OK);
    uint32_t host = kt_process(s->b, false, 10, 0), device = kt_process(s->b, true, 0, 0);
    s->main = kt_track(s->b, host, KINETO_TRACK_THREAD, 11);
    s->backward = kt_track(s->b, host, KINETO_TRACK_THREAD, 12);
    s->stream = kt_track(s->b, device, KINETO_TRACK_STREAM, 7);
    s->stream_zero = kt_track(s->b, device, KINETO_TRACK_STREAM, 0);
}

static kineto_row add_ns(sample *s, const char *name, int64_t start_ns, int64_t end_ns)
{
    return kt_append(s->b, &(kt_row){.start_ns = EPOCH + start_ns,
                                     .end_ns = EPOCH + end_ns,
                                     .name = kt_string(s->b, kb_string(name)),
                                     .track = s->main,
                                     .kind = KINETO_KIND_CPU_OP});
}

static kineto_row add(sample *s, uint32_t track, uint32_t kind, const char *name, int64_t start_us,
                      int64_t end_us, uint64_t correlation)
{
    uint32_t key = kt_string(s->b, kb_string("stream"));
    if (track == s->stream || track == s->stream_zero)
        kt_args_put_int(s->b, key, track == s->stream ? 7 : 0);
    return kt_append(s->b, &(kt_row){.start_ns = EPOCH + start_us * 1000,
                                     .end_ns = EPOCH + end_us * 1000,
                                     .name = kt_string(s->b, kb_string(name)),
                                     .track = track,
                                     .kind = kind,
                                     .correlation_id = correlation});
}

static kineto_trace *finish(sample *s)
{
    kineto_trace *trace = NULL;
    assert_int_equal(kt_builder_finish(s->b, &trace, NULL), KINETO_OK);
    kt_builder_destroy(s->b);
    return trace;
}

/* A step in which the main thread waits for another one, which launches two kernels, one of them on
 * stream 0. */
static kineto_trace *training(void)
{
    sample s;
    begin(&s);
    add(&s, s.main, KINETO_KIND_USER_ANNOTATION, "ProfilerStep#3", 0, 100, 0);
    add(&s, s.main, KINETO_KIND_USER_ANNOTATION, "## backward ##", 10, 60, 0);
    add(&s, s.backward, KINETO_KIND_CPU_OP, "autograd::engine::evaluate_function: Mm", 20, 50, 0);
    add(&s, s.backward, KINETO_KIND_CPU_OP, "aten::mm", 21, 40, 0);
    add(&s, s.backward, KINETO_KIND_RUNTIME, "cudaLaunchKernel", 22, 24, 1);
    add(&s, s.backward, KINETO_KIND_RUNTIME, "cudaLaunchKernel", 25, 27, 2);
    add(&s, s.stream, KINETO_KIND_CONCURRENT_KERNEL, "gemm", 30, 45, 1);
    add(&s, s.stream_zero, KINETO_KIND_CONCURRENT_KERNEL, "copy", 30, 40, 2);
    return finish(&s);
}

typedef struct opened {
    ka_dataset dataset;
    ka_rules *rules;
    kineto_analysis_options options;
    ka_calls calls;
} opened;

static void open_calls(opened *o, const kineto_trace *trace, uint32_t definitions)
{
    o->options = (kineto_analysis_options){.size = sizeof o->options,
                                          .definitions = definitions,
                                          .steps = KINETO_STEPS_ALL,
                                          .sequence_min = 1,
                                          .sequence_top = 5};
    assert_int_equal(ka_rules_create(NULL, &o->rules, NULL), KINETO_OK);
    assert_int_equal(ka_dataset_create(trace, &o->options, o->rules, &o->dataset, NULL), KINETO_OK);
    assert_true(ka_calls_create(&o->dataset, &o->calls));
}

static void close_calls(opened *o, kineto_trace *trace)
{
    ka_calls_free(&o->calls);
    ka_dataset_free(&o->dataset);
    ka_rules_free(o->rules);
    kineto_trace_release(trace);
}

static uint32_t slice_of(const opened *o, kineto_row row)
{
    for (uint32_t i = 0; i < o->dataset.slice_count; i++)
        if (o->dataset.slices[i].row == row)
            return i;
    fail();
    return 0;
}

static void threads_stay_apart(void **state)
{
    (void)state;
    kineto_trace *trace = training();
    opened o;
    open_calls(&o, trace, KINETO_DEFINITIONS_EXACT);
    uint32_t step = slice_of(&o, 0), autograd = slice_of(&o, 2);
    assert_int_equal(o.calls.parent[autograd], KA_NONE);
    assert_int_equal(o.calls.kernels[autograd], 2);
    assert_int_equal(o.calls.kernel_ns[autograd], 25000);
    assert_int_equal(o.calls.height[autograd], 3);
    assert_int_equal(o.calls.kernels[step], 0);
    close_calls(&o, trace);
}

static void hta_hangs_the_backward_thread_under_who_waits_for_it(void **state)
{
    (void)state;
    kineto_trace *trace = training();
    opened o;
    open_calls(&o, trace, KINETO_DEFINITIONS_HTA);
    uint32_t step = slice_of(&o, 0), waits = slice_of(&o, 1), autograd = slice_of(&o, 2);
    assert_int_equal(o.calls.parent[autograd], waits);
    assert_int_equal(o.calls.depth[autograd], 2);
    assert_int_equal(o.calls.depth[slice_of(&o, 3)], 3);
    assert_int_equal(o.calls.kernels[step], 1); /* it does not see stream 0 */
    assert_int_equal(o.calls.kernel_ns[step], 15000);
    close_calls(&o, trace);
}

static void hta_takes_a_moment_at_the_end_for_enclosed(void **state)
{
    (void)state;
    sample s;
    begin(&s);
    add(&s, s.main, KINETO_KIND_CPU_OP, "outer", 0, 10, 0);
    add(&s, s.main, KINETO_KIND_CPU_OP, "moment", 10, 10, 0);
    add(&s, s.main, KINETO_KIND_CPU_OP, "next", 11, 20, 0);
    kineto_trace *trace = finish(&s);
    opened o;
    open_calls(&o, trace, KINETO_DEFINITIONS_HTA);
    assert_int_equal(o.calls.parent[slice_of(&o, 1)], slice_of(&o, 0));
    assert_int_equal(o.calls.parent[slice_of(&o, 2)], KA_NONE);
    close_calls(&o, trace);
}

/* "outer" ends before "next" begins, that before "moment", and that before "outer" ends. */
static void hta_nests_what_goes_round_in_a_circle_by_its_order(void **state)
{
    (void)state;
    sample s;
    begin(&s);
    add(&s, s.main, KINETO_KIND_CPU_OP, "outer", 0, 10, 0);
    add(&s, s.main, KINETO_KIND_CPU_OP, "next", 10, 20, 0);
    add(&s, s.main, KINETO_KIND_CPU_OP, "moment", 10, 10, 0);
    kineto_trace *trace = finish(&s);
    opened o;
    open_calls(&o, trace, KINETO_DEFINITIONS_HTA);
    assert_int_equal(o.calls.parent[slice_of(&o, 0)], KA_NONE);
    assert_int_equal(o.calls.parent[slice_of(&o, 1)], slice_of(&o, 0));
    assert_int_equal(o.calls.parent[slice_of(&o, 2)], slice_of(&o, 1));
    close_calls(&o, trace);
}

static void hta_closes_what_is_open_where_a_short_range_ends_before_it_begins(void **state)
{
    (void)state;
    sample s;
    begin(&s);
    add_ns(&s, "outer", 200, 10900);
    add_ns(&s, "short", 2300, 2800);
    add_ns(&s, "next", 5000, 8000);
    kineto_trace *trace = finish(&s);
    opened o;
    open_calls(&o, trace, KINETO_DEFINITIONS_HTA);
    assert_int_equal(o.calls.parent[slice_of(&o, 1)], KA_NONE);
    assert_int_equal(o.calls.parent[slice_of(&o, 2)], slice_of(&o, 1));
    close_calls(&o, trace);
}

static void short_ranges_have_no_length_where_hta_fails(void **state)
{
    (void)state;
    sample s;
    begin(&s);
    add_ns(&s, "outer", 200, 10900);
    add_ns(&s, "short", 2300, 2800);
    add_ns(&s, "moment", 2900, 3200);
    add_ns(&s, "next", 5000, 8000);
    kineto_trace *trace = finish(&s);
    opened o;
    open_calls(&o, trace, KINETO_DEFINITIONS_HTA);
    assert_int_equal(o.calls.count, 4);
    for (kineto_row row = 1; row < 4; row += 2)
        assert_int_equal(o.calls.parent[slice_of(&o, row)], slice_of(&o, 0));
    close_calls(&o, trace);
}

static void occurrences_know_their_sequence(void **state)
{
    (void)state;
    kineto_trace *trace = training();
    opened o;
    ka_occurrence_list list = {0};
    open_calls(&o, trace, KINETO_DEFINITIONS_EXACT);
    assert_true(ka_sequences_find(&o.dataset, &list));
    assert_int_equal(list.count, 1);
    assert_int_equal(list.data[0].kernels, 2);
    assert_int_equal(list.data[0].slice, slice_of(&o, 2));
    kb_vec_free(&list);
    close_calls(&o, trace);
}

static uint64_t kept(const kineto_trace *trace, kineto_selection how)
{
    kineto_trace *part = NULL;
    how.size = sizeof how;
    assert_int_equal(kineto_trace_select(trace, &how, &part, NULL), KINETO_OK);
    uint64_t count = kineto_trace_count(part);
    kineto_trace_release(part);
    return count;
}

static void ranges_choose_rows(void **state)
{
    (void)state;
    kineto_trace *trace = training();
    assert_int_equal(kept(trace, (kineto_selection){.under = "^aten::mm$"}), 5);
    assert_int_equal(kept(trace, (kineto_selection){.around = "^gemm$"}), 4);
    assert_int_equal(kept(trace, (kineto_selection){.under = "gemm"}), 1);
    assert_int_equal(kept(trace, (kineto_selection){.after = "aten::mm"}), 0);
    assert_int_equal(kept(trace, (kineto_selection){.before = "^cudaLaunchKernel$"}), 0);
    /* The kernels are when they were launched. */
    assert_int_equal(kept(trace, (kineto_selection){.before = "^gemm$"}), 3);
    kineto_trace_release(trace);
}

static void an_empty_trace_can_be_drawn_into(void **state)
{
    (void)state;
    sample s;
    begin(&s);
    kineto_trace *trace = finish(&s), *drawn = NULL;
    assert_int_equal(kineto_analysis_overlay(trace, NULL, &drawn, NULL), KINETO_OK);
    assert_int_equal(kineto_trace_count(drawn), 0);
    kineto_trace_release(drawn);
    kineto_trace_release(trace);
    assert_int_equal(kineto_analysis_overlay(NULL, NULL, &drawn, NULL), KINETO_E_ARGUMENT);
    assert_null(drawn);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(threads_stay_apart),
        cmocka_unit_test(hta_hangs_the_backward_thread_under_who_waits_for_it),
        cmocka_unit_test(hta_takes_a_moment_at_the_end_for_enclosed),
        cmocka_unit_test(hta_nests_what_goes_round_in_a_circle_by_its_order),
        cmocka_unit_test(hta_closes_what_is_open_where_a_short_range_ends_before_it_begins),
        cmocka_unit_test(short_ranges_have_no_length_where_hta_fails),
        cmocka_unit_test(occurrences_know_their_sequence),
        cmocka_unit_test(ranges_choose_rows),
        cmocka_unit_test(an_empty_trace_can_be_drawn_into),
    };
    return RUN_TESTS(tests);
}
