/* kineto_verify_run as other programs use it: options, reports, places; and traces built without a
 * file. */
#include "unit.h"

#include "trace/repair/repair.h"
#include "trace/trace.h"
#include <ckineto/analyze.h>

typedef struct sample {
    kt_builder *b;
    uint32_t host, thread, device, stream;
} sample;

static void begin(sample *s)
{
    assert_int_equal(kt_builder_create(&s->b, NULL), KINETO_OK);
    s->host = kt_process(s->b, false, 10, 0);
    s->device = kt_process(s->b, true, 0, 0);
    s->thread = kt_track(s->b, s->host, KINETO_TRACK_THREAD, 11);
    s->stream = kt_track(s->b, s->device, KINETO_TRACK_STREAM, 7);
    kt_track_set(s->b, s->thread, kb_string("main"), 0);
    kt_track_set(s->b, s->stream, kb_string("stream 7"), 0);
}

#define EPOCH INT64_C(1700000000000000000)

static kineto_row add(sample *s, uint32_t track, uint32_t kind, int64_t start, int64_t end,
                      uint64_t correlation)
{
    kt_row row = {.start_ns = EPOCH + start,
                  .end_ns = EPOCH + end,
                  .name = kt_string(s->b, kb_string(kineto_kind_name(kind))),
                  .track = track,
                  .kind = kind,
                  .correlation_id = correlation};
    return kt_append(s->b, &row);
}

static kineto_trace *finish(sample *s)
{
    kineto_trace *trace = NULL;
    assert_int_equal(kt_builder_finish(s->b, &trace, NULL), KINETO_OK);
    kt_builder_destroy(s->b);
    return trace;
}

/* Calls and kernels, a pair each 10 us; the kernels `shift` ns later than the calls. */
static kineto_trace *pairs(uint32_t count, int64_t shift)
{
    sample s;
    begin(&s);
    for (uint32_t i = 0; i < count; i++) {
        int64_t at = i * INT64_C(10000);
        add(&s, s.thread, KINETO_KIND_RUNTIME, at, at + 2000, i + 1);
        add(&s, s.stream, KINETO_KIND_CONCURRENT_KERNEL, at + shift, at + shift + 3000, i + 1);
    }
    return finish(&s);
}

static kineto_verify_report *verify(const kineto_trace *trace, const char *rules, uint32_t places)
{
    kineto_verify_options options = {.size = sizeof options, .rules = rules, .places = places};
    kineto_verify_report *report = NULL;
    assert_int_equal(kineto_verify_run(trace, &options, &report, NULL), KINETO_OK);
    assert_non_null(report);
    return report;
}

static const char *first_rule(const kineto_verify_report *report)
{
    kineto_verify_finding finding;
    kineto_verify_rule rule;
    if (!kineto_verify_report_finding(report, 0, &finding))
        return "";
    assert_true(kineto_verify_rule_get(finding.rule, &rule));
    return rule.id;
}

static void sound_trace_has_an_empty_report(void **state)
{
    (void)state;
    kineto_trace *trace = pairs(100, 4000);
    kineto_verify_report *report = NULL;
    assert_int_equal(kineto_verify_run(trace, NULL, &report, NULL), KINETO_OK);
    assert_int_equal(kineto_verify_report_count(report), 0);
    kineto_verify_report_destroy(report);
    kineto_trace_release(trace);
}

static void report_outlives_the_trace(void **state)
{
    (void)state;
    kineto_trace *trace = pairs(100, -4000);
    kineto_verify_report *report = verify(trace, NULL, 5);
    kineto_trace_release(trace);
    kineto_verify_finding finding;
    kineto_verify_place place;
    assert_string_equal(first_rule(report), "clock.suspicion");
    assert_true(kineto_verify_report_finding(report, 0, &finding));
    assert_int_equal(finding.severity, KINETO_SEVERITY_WARNING);
    assert_int_equal(finding.count, 100);
    assert_int_equal(finding.place_count, 5);
    assert_non_null(memmem(finding.sentence.data, finding.sentence.size, "4.000 us", 8));
    assert_true(kineto_verify_report_place(report, 0, 4, &place));
    assert_int_equal(place.offset, KINETO_NO_OFFSET);
    assert_int_equal(place.end_ns - place.start_ns, 3000);
    assert_true(kb_string_equal(place.name, kb_string("kernel")));
    assert_int_equal(kineto_verify_report_severity_count(report, KINETO_SEVERITY_WARNING), 1);
    assert_int_equal(kineto_verify_report_severity_count(report, KINETO_SEVERITY_ERROR), 0);
    kineto_verify_report_destroy(report);
}

static void indices_out_of_range_give_nothing(void **state)
{
    (void)state;
    kineto_trace *trace = pairs(100, -4000);
    kineto_verify_report *report = verify(trace, NULL, 1);
    kineto_verify_finding finding;
    kineto_verify_place place;
    kineto_verify_rule rule;
    assert_false(kineto_verify_report_finding(report, 1, &finding));
    assert_int_equal(finding.count, 0);
    assert_false(kineto_verify_report_place(report, 0, 1, &place));
    assert_false(kineto_verify_report_place(report, 1, 0, &place));
    assert_false(kineto_verify_rule_get(kineto_verify_rule_count(), &rule));
    assert_null(rule.id);
    assert_int_equal(kineto_verify_report_count(NULL), 0);
    assert_false(kineto_verify_report_finding(NULL, 0, &finding));
    assert_string_equal(kineto_severity_name(3), "unknown");
    kineto_verify_report_destroy(NULL);
    kineto_verify_report_destroy(report);
    kineto_trace_release(trace);
}

static void rules_are_chosen_by_id_or_group(void **state)
{
    (void)state;
    kineto_trace *trace = pairs(100, -4000);
    const char *found[] = {"clock", "clock.suspicion", "flow,clock.suspicion,", "launch,clock"};
    const char *other[] = {"flow", "launch.order", "clock.residual,steps"};
    for (size_t i = 0; i < KB_COUNT(found); i++) {
        kineto_verify_report *report = verify(trace, found[i], 0);
        assert_string_equal(first_rule(report), "clock.suspicion");
        kineto_verify_report_destroy(report);
    }
    for (size_t i = 0; i < KB_COUNT(other); i++) {
        kineto_verify_report *report = verify(trace, other[i], 0);
        assert_int_equal(kineto_verify_report_count(report), 0);
        kineto_verify_report_destroy(report);
    }
    kineto_trace_release(trace);
}

static void bad_arguments_are_refused(void **state)
{
    (void)state;
    kineto_trace *trace = pairs(1, 4000);
    const char *wrong[] = {"", ",", "clo", "clock.", "nothing", "flow,nothing"};
    for (size_t i = 0; i < KB_COUNT(wrong); i++) {
        kineto_verify_options options = {.size = sizeof options, .rules = wrong[i]};
        kineto_verify_report *report = (kineto_verify_report *)&options;
        kineto_error err = {0};
        assert_int_equal(kineto_verify_run(trace, &options, &report, &err), KINETO_E_ARGUMENT);
        assert_null(report);
        assert_true(err.message[0]);
    }
    kineto_verify_report *report;
    assert_int_equal(kineto_verify_run(NULL, NULL, &report, NULL), KINETO_E_ARGUMENT);
    assert_int_equal(kineto_verify_run(trace, NULL, NULL, NULL), KINETO_E_ARGUMENT);
    kineto_trace_release(trace);
}

static void few_early_kernels_are_reported_one_by_one(void **state)
{
    (void)state;
    sample s;
    begin(&s);
    for (uint32_t i = 0; i < 100; i++) {
        int64_t at = i * INT64_C(10000), shift = i == 50 ? -3500 : 4000;
        add(&s, s.thread, KINETO_KIND_RUNTIME, at, at + 2000, i + 1);
        add(&s, s.stream, KINETO_KIND_CONCURRENT_KERNEL, at + shift, at + shift + 500, i + 1);
    }
    kineto_trace *trace = finish(&s);
    kineto_verify_report *report = verify(trace, NULL, 0);
    assert_string_equal(first_rule(report), "launch.order");
    kineto_verify_report_destroy(report);
    kineto_trace_release(trace);
}

/* Two ranks in one file, the second one's ids from 1000 on; each begins with a kernel that was
 * launched before the recording. */
static void work_launched_earlier_is_recognised_by_the_ids_of_its_device(void **state)
{
    (void)state;
    sample s;
    begin(&s);
    uint32_t device = kt_process(s.b, true, 1, 0);
    uint32_t stream = kt_track(s.b, device, KINETO_TRACK_STREAM, 7);
    for (uint32_t rank = 0; rank < 2; rank++) {
        uint32_t queue = rank ? stream : s.stream;
        for (uint32_t i = 0; i < 20; i++) {
            uint64_t id = rank * 1000 + i + 10;
            int64_t at = i * INT64_C(10000);
            if (i > 0)
                add(&s, s.thread, KINETO_KIND_RUNTIME, at, at + 2000, id);
            add(&s, queue, KINETO_KIND_CONCURRENT_KERNEL, at + 4000, at + 5000, id);
        }
    }
    kineto_trace *trace = finish(&s);
    kineto_verify_report *report = verify(trace, "correlation.dangling", 0);
    kineto_verify_finding finding;
    assert_true(kineto_verify_report_finding(report, 0, &finding));
    assert_int_equal(finding.severity, KINETO_SEVERITY_NOTE);
    assert_int_equal(finding.count, 2);
    kineto_verify_report_destroy(report);
    kineto_trace_release(trace);
}

static void nodes_of_a_graph_may_overlap(void **state)
{
    (void)state;
    for (uint64_t other = 1; other <= 2; other++) {
        sample s;
        begin(&s);
        add(&s, s.thread, KINETO_KIND_RUNTIME, 0, 1000, 1);
        add(&s, s.thread, KINETO_KIND_RUNTIME, 1000, 2000, 2);
        add(&s, s.stream, KINETO_KIND_CONCURRENT_KERNEL, 5000, 105000, 1);
        add(&s, s.stream, KINETO_KIND_CONCURRENT_KERNEL, 6000, 104000, other);
        kineto_trace *trace = finish(&s);
        kineto_verify_report *report = verify(trace, "track.overlap", 0);
        assert_int_equal(kineto_verify_report_severity_count(report, KINETO_SEVERITY_WARNING),
                         other == 2);
        assert_int_equal(kineto_verify_report_severity_count(report, KINETO_SEVERITY_NOTE),
                         other == 1);
        kineto_verify_report_destroy(report);
        kineto_trace_release(trace);
    }
}

static void devices_that_overlap_by_design_may(void **state)
{
    (void)state;
    const char *properties[] = {"{\"id\": 0, \"computeMajor\": 8}",
                                "{\"id\": 0, \"computeMajor\": 9}",
                                "{\"id\": 0, \"computeMajor\": 10}", "{\"computeMajor\":"};
    for (size_t i = 0; i < KB_COUNT(properties); i++) {
        sample s;
        begin(&s);
        kineto_process p = {.rank = -1, .properties_json = kb_string(properties[i])};
        kt_process_set(s.b, s.device, &p);
        add(&s, s.stream, KINETO_KIND_CONCURRENT_KERNEL, 0, 100000, 1);
        add(&s, s.stream, KINETO_KIND_CONCURRENT_KERNEL, 5000, 104000, 2);
        kineto_trace *trace = finish(&s);
        kineto_verify_report *report = verify(trace, "track.overlap", 0);
        assert_int_equal(kineto_verify_report_severity_count(report, KINETO_SEVERITY_WARNING),
                         i == 0 || i == 3);
        kineto_verify_report_destroy(report);
        kineto_trace_release(trace);
    }
}

static void images_of_one_process_do_not_conflict_unless_at_once(void **state)
{
    (void)state;
    for (int at_once = 0; at_once < 2; at_once++) {
        sample s;
        begin(&s);
        uint32_t image = kt_process(s.b, false, 10, 99);
        uint32_t track = kt_track(s.b, image, KINETO_TRACK_THREAD, 11);
        add(&s, s.thread, KINETO_KIND_CPU_OP, 0, 1000, 0);
        add(&s, track, KINETO_KIND_CPU_OP, at_once ? 500 : 1000, 2000, 0);
        kineto_trace *trace = finish(&s);
        kineto_verify_report *report = verify(trace, "process", 0);
        assert_int_equal(kineto_verify_report_count(report), at_once);
        kineto_verify_report_destroy(report);
        kineto_trace_release(trace);
    }
}

static void children_share_the_rank_of_their_parent(void **state)
{
    (void)state;
    for (int64_t parent = 10; parent <= 12; parent++) {
        sample s;
        begin(&s);
        uint32_t child = kt_process(s.b, false, 20, 0);
        kineto_process ranked = {.rank = 3}, below = {.rank = 3, .ppid = parent};
        kt_process_set(s.b, s.host, &ranked);
        kt_process_set(s.b, child, &below);
        add(&s, s.thread, KINETO_KIND_CPU_OP, 0, 1000, 0);
        add(&s, kt_track(s.b, child, KINETO_TRACK_THREAD, 20), KINETO_KIND_CPU_OP, 0, 1000, 0);
        kineto_trace *trace = finish(&s);
        kineto_verify_report *report = verify(trace, "process", 0);
        assert_int_equal(kineto_verify_report_count(report), parent != 10);
        kineto_verify_report_destroy(report);
        kineto_trace_release(trace);
    }
}

static void empty_trace_is_reported(void **state)
{
    (void)state;
    kt_builder *b;
    kineto_trace *trace = NULL;
    assert_int_equal(kt_builder_create(&b, NULL), KINETO_OK);
    assert_int_equal(kt_builder_finish(b, &trace, NULL), KINETO_OK);
    kt_builder_destroy(b);
    kineto_verify_report *report = verify(trace, NULL, 0);
    assert_string_equal(first_rule(report), "rows.none");
    kineto_verify_report_destroy(report);
    kineto_trace_release(trace);
}

static void every_kind_of_repair_is_one_and_nothing_else(void **state)
{
    (void)state;
    for (uint32_t kind = 0; kind < KT_REPAIR_KINDS; kind++) {
        sample s;
        begin(&s);
        add(&s, s.thread, KINETO_KIND_CPU_OP, 2, 4, 0);
        kt_ledger_add(s.b, kb_string("reader"), kb_string(kt_repair_text(kind)), 3,
                      kt_repair_loss_of(kind) == KT_LOSES_EVENTS, kb_string("3 times, first at byte 12"));
        kineto_severity severity = kind == KT_REPAIR_DUPLICATE_HEADER ? KINETO_SEVERITY_NOTE
                                                                        : KINETO_SEVERITY_WARNING;
        kineto_trace *trace = finish(&s);
        kineto_verify_report *report = verify(trace, NULL, 0);
        kineto_verify_place place;
        assert_string_equal(first_rule(report), "ledger.repaired");
        assert_int_equal(kineto_verify_report_severity_count(report, severity), 1);
        assert_true(kineto_verify_report_place(report, 0, 0, &place));
        assert_int_equal(place.offset, 12);
        kineto_verify_report_destroy(report);
        kineto_trace_release(trace);
    }
}

static void worst_findings_come_first(void **state)
{
    (void)state;
    sample s;
    begin(&s);
    kt_ledger_add(s.b, kb_string("program"), kb_string("buffer full"), 3, true, kb_string(""));
    kt_ledger_add(s.b, kb_string("sim"), kb_string("buffer full"), 4, true, kb_string(""));
    add(&s, s.thread, KINETO_KIND_CPU_OP, 10, 5, 0);
    add(&s, s.thread, KINETO_KIND_CPU_OP, 2, 4, 0);
    kineto_trace *trace = finish(&s);
    kineto_verify_report *report = verify(trace, NULL, 0);
    kineto_verify_finding finding;
    uint32_t severity = KINETO_SEVERITY_ERROR;
    assert_string_equal(first_rule(report), "duration.negative");
    assert_int_equal(kineto_verify_report_count(report), 3);
    for (uint32_t i = 0; kineto_verify_report_finding(report, i, &finding); i++) {
        assert_true(finding.severity <= severity);
        severity = finding.severity;
        if (severity == KINETO_SEVERITY_WARNING) {
            assert_int_equal(finding.count, 7);
            assert_int_equal(finding.place_count, 2);
        }
    }
    kineto_verify_report_destroy(report);
    kineto_trace_release(trace);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sound_trace_has_an_empty_report),
        cmocka_unit_test(report_outlives_the_trace),
        cmocka_unit_test(indices_out_of_range_give_nothing),
        cmocka_unit_test(rules_are_chosen_by_id_or_group),
        cmocka_unit_test(bad_arguments_are_refused),
        cmocka_unit_test(few_early_kernels_are_reported_one_by_one),
        cmocka_unit_test(work_launched_earlier_is_recognised_by_the_ids_of_its_device),
        cmocka_unit_test(nodes_of_a_graph_may_overlap),
        cmocka_unit_test(devices_that_overlap_by_design_may),
        cmocka_unit_test(images_of_one_process_do_not_conflict_unless_at_once),
        cmocka_unit_test(children_share_the_rank_of_their_parent),
        cmocka_unit_test(empty_trace_is_reported),
        cmocka_unit_test(every_kind_of_repair_is_one_and_nothing_else),
        cmocka_unit_test(worst_findings_come_first),
    };
    return RUN_TESTS(tests);
}
