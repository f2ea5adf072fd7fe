/* <ckineto/builder.h>: traces of a program's own events, and a trace appended to another. */
#include "unit.h"
#include "../helpers/sessions.h"

#include <ckineto/builder.h>
#include <ckineto/session.h>

static kineto_string text(const char *s) { return (kineto_string){s, strlen(s)}; }

static uint32_t add_thread(kineto_builder *b, int64_t pid, int64_t tid)
{
    kineto_process process = {.pid = pid, .rank = -1, .name = text("node"), .label = text("CPU")};
    kineto_track track = {.type = KINETO_TRACK_THREAD, .id = tid, .name = text("main")};
    return kineto_builder_track(b, kineto_builder_process(b, &process), &track);
}

static kineto_row add_slice(kineto_builder *b, uint32_t track, const char *name, uint32_t kind,
                            int64_t start_ns, int64_t end_ns)
{
    kineto_activity a = {.start_ns = start_ns,
                         .end_ns = end_ns,
                         .name_id = kineto_builder_string(b, text(name)),
                         .track = track,
                         .kind = kind,
                         .external_id = 7};
    return kineto_builder_add(b, &a);
}

static void put_args(kineto_builder *b)
{
    kineto_arg whole = {.type = KINETO_ARG_INT, .i = -3}, part = {.type = KINETO_ARG_DOUBLE, .d = 0.5},
               yes = {.type = KINETO_ARG_BOOL, .u = 1},
               word = {.type = KINETO_ARG_STRING, .text = text("a \"b\"\n")},
               list = {.type = KINETO_ARG_JSON, .text = text("[1,[2]]")},
               broken = {.type = KINETO_ARG_JSON, .text = text("[1,")};
    kineto_builder_arg(b, kineto_builder_string(b, text("whole")), &whole);
    kineto_builder_arg(b, kineto_builder_string(b, text("part")), &part);
    kineto_builder_arg(b, kineto_builder_string(b, text("yes")), &yes);
    kineto_builder_arg(b, kineto_builder_string(b, text("word")), &word);
    kineto_builder_arg(b, kineto_builder_string(b, text("list")), &list);
    kineto_builder_arg(b, kineto_builder_string(b, text("broken")), &broken);
}

static void arguments_come_back(void **state)
{
    (void)state;
    kineto_builder *b;
    kineto_trace *t;
    kineto_arg arg;
    assert_int_equal(kineto_builder_create(&b, NULL), KINETO_OK);
    uint32_t track = add_thread(b, 5, 6);
    put_args(b);
    assert_int_equal(add_slice(b, track, "first", KINETO_KIND_CPU_OP, 10, 20), 0);
    assert_true(kineto_builder_args(b, text("{\"x\": 1}")));
    assert_int_equal(add_slice(b, track, "second", KINETO_KIND_CPU_OP, 12, 18), 1);
    assert_false(kineto_builder_args(b, text("{\"x\": ")));
    assert_int_equal(add_slice(b, track, "third", KINETO_KIND_CPU_OP, 30, 31), 2);
    kineto_builder_metadata(b, text("key"), text("{\"a\":1}"));
    kineto_builder_window(b, 0, 100);
    assert_int_equal(kineto_builder_finish(b, &t, NULL), KINETO_OK);
    kineto_builder_destroy(b);

    assert_int_equal(kineto_trace_count(t), 3);
    assert_true(kineto_args_find(t, 0, "whole", &arg) && arg.i == -3);
    assert_true(kineto_args_find(t, 0, "part", &arg) && arg.d == 0.5);
    assert_true(kineto_args_find(t, 0, "yes", &arg) && arg.u == 1);
    assert_true(kineto_args_find(t, 0, "word", &arg) && arg.text.size == 6);
    assert_true(kineto_args_find(t, 0, "list", &arg) && arg.text.size == 7);
    assert_true(kineto_args_find(t, 0, "broken", &arg) && arg.type == KINETO_ARG_STRING);
    assert_true(kineto_args_find(t, 1, "x", &arg));
    assert_false(kineto_args_find(t, 2, "x", &arg));
    assert_int_equal(kineto_trace_parent(t, 1), 0);
    assert_int_equal(kineto_trace_metadata_count(t), 1);
    kineto_trace_release(t);
}

static void flows_join(void **state)
{
    (void)state;
    kineto_builder *b;
    kineto_trace *t;
    kineto_flow flow;
    assert_int_equal(kineto_builder_create(&b, NULL), KINETO_OK);
    uint32_t track = add_thread(b, 5, 6);
    kineto_row from = add_slice(b, track, "forward", KINETO_KIND_CPU_OP, 10, 20);
    kineto_row to = add_slice(b, track, "backward", KINETO_KIND_CPU_OP, 30, 40);
    kineto_builder_flow(b, KINETO_FLOW_FWD_BWD, 9, to, false);
    kineto_builder_flow(b, KINETO_FLOW_FWD_BWD, 9, from, true);
    kineto_builder_flow(b, KINETO_FLOW_FWD_BWD, 9, 77, true); /* no such row */
    assert_int_equal(kineto_builder_finish(b, &t, NULL), KINETO_OK);
    kineto_builder_destroy(b);
    assert_int_equal(kineto_trace_flow_count(t), 1);
    kineto_trace_flow(t, 0, &flow);
    assert_true(flow.from == from && flow.to == to && flow.type == KINETO_FLOW_FWD_BWD);
    kineto_trace_release(t);
}

static void what_makes_no_sense_is_refused(void **state)
{
    (void)state;
    kineto_builder *b;
    kineto_trace *t;
    kineto_error err = {0};
    assert_int_equal(kineto_builder_create(NULL, &err), KINETO_E_ARGUMENT);
    assert_int_equal(kineto_builder_create(&b, NULL), KINETO_OK);
    uint32_t track = add_thread(b, 1, 1);
    kineto_track odd = {.type = 99};
    kineto_activity a = {.track = track + 1};
    assert_int_equal(kineto_builder_track(b, 0, &odd), KINETO_NO_ROW);
    assert_int_equal(kineto_builder_track(b, 55, &(kineto_track){0}), KINETO_NO_ROW);
    assert_int_equal(kineto_builder_process(b, NULL), KINETO_NO_ROW);
    assert_int_equal(kineto_builder_add(b, &a), KINETO_NO_ROW);
    a = (kineto_activity){.track = track, .kind = KINETO_KIND_COUNT};
    assert_int_equal(kineto_builder_add(b, &a), KINETO_NO_ROW);
    a = (kineto_activity){.track = track, .name_id = 12345};
    assert_int_equal(kineto_builder_add(b, &a), KINETO_NO_ROW);
    assert_int_equal(kineto_builder_append(b, NULL), KINETO_NO_ROW);
    kineto_builder_arg(b, 0, NULL);
    kineto_builder_ledger(b, NULL);
    assert_int_equal(kineto_builder_finish(b, NULL, &err), KINETO_E_ARGUMENT);
    assert_int_equal(kineto_builder_finish(b, &t, NULL), KINETO_OK);
    assert_int_equal(kineto_trace_count(t), 0);
    kineto_trace_release(t);
    kineto_builder_destroy(b);
    kineto_builder_destroy(NULL);
}

static kineto_trace *recorded(void)
{
    kineto_session *session;
    kineto_trace *t;
    assert_int_equal(begin_session(NULL, &session, NULL), KINETO_OK);
    KINETO_SITE(site, KINETO_KIND_USER_ANNOTATION, "recorded");
    kineto_range r = kineto_range_begin(&site);
    kineto_flow_begin(KINETO_FLOW_USER, 3);
    kineto_flow_end(KINETO_FLOW_USER, 3);
    kineto_range_end(r);
    assert_int_equal(end_session(session, &t, NULL), KINETO_OK);
    return t;
}

/* As in the seat of PyTorch: device work with arrows, and operators with arrows of their own. */
static void flows_of_an_appended_trace_and_new_ones_are_kept(void **state)
{
    (void)state;
    kineto_builder *b;
    kineto_trace *devices, *t;
    assert_int_equal(kineto_builder_create(&b, NULL), KINETO_OK);
    for (int round = 0; round < 2; round++) {
        uint32_t track = add_thread(b, 5, 6);
        kineto_row from = add_slice(b, track, "from", KINETO_KIND_CPU_OP, 10 + 10 * round, 15 + 10 * round),
                   to = add_slice(b, track, "to", KINETO_KIND_CPU_OP, 16 + 10 * round, 19 + 10 * round);
        kineto_builder_flow(b, KINETO_FLOW_FWD_BWD, (uint64_t)round + 1, from, true);
        kineto_builder_flow(b, KINETO_FLOW_FWD_BWD, (uint64_t)round + 1, to, false);
        assert_int_equal(kineto_builder_finish(b, round ? &t : &devices, NULL), KINETO_OK);
        kineto_builder_destroy(b);
        if (round)
            break;
        assert_int_equal(kineto_builder_create(&b, NULL), KINETO_OK);
        assert_int_equal(kineto_builder_append(b, devices), 0);
    }
    assert_int_equal(kineto_trace_flow_count(devices), 1);
    assert_int_equal(kineto_trace_flow_count(t), 2);
    for (uint64_t i = 0; i < 2; i++) {
        kineto_flow flow;
        assert_true(kineto_trace_flow(t, i, &flow));
        assert_int_equal(flow.to, flow.from + 1);
    }
    kineto_trace_release(devices);
    kineto_trace_release(t);
}

static void a_recording_is_appended(void **state)
{
    (void)state;
    kineto_builder *b;
    kineto_trace *t, *source = recorded();
    kineto_activity a;
    kineto_flow flow;
    assert_int_equal(kineto_builder_create(&b, NULL), KINETO_OK);
    assert_int_equal(add_slice(b, add_thread(b, 5, 6), "before", KINETO_KIND_CPU_OP, 1, 2), 0);
    assert_int_equal(kineto_builder_append(b, source), 1);
    uint32_t track = add_thread(b, getpid(), 6); /* the process that is there, whatever image of it */
    kineto_row last = add_slice(b, track, "after", KINETO_KIND_CPU_OP, 3, 4);
    assert_int_equal(kineto_builder_finish(b, &t, NULL), KINETO_OK);
    kineto_builder_destroy(b);
    assert_int_equal(kineto_trace_count(t), kineto_trace_count(source) + 2);
    assert_int_equal(kineto_trace_process_count(t), 2);
    kineto_trace_get(t, 1, &a);
    assert_true(a.name.size == 8 && memcmp(a.name.data, "recorded", 8) == 0);
    assert_int_equal(last, kineto_trace_count(t) - 1);
    assert_int_equal(kineto_trace_flow_count(t), 1);
    kineto_trace_flow(t, 0, &flow);
    assert_true(flow.from == 1 && flow.to == 1);
    kineto_trace_release(t);
    kineto_trace_release(source);
}

static kineto_row add_correlated(kineto_builder *b, uint32_t track, const char *name, uint32_t kind,
                                 int64_t start_ns, int64_t end_ns)
{
    kineto_activity a = {.start_ns = start_ns,
                         .end_ns = end_ns,
                         .name_id = kineto_builder_string(b, text(name)),
                         .track = track,
                         .kind = kind,
                         .correlation_id = 44};
    return kineto_builder_add(b, &a);
}

static void annotations_are_projected_on_devices(void **state)
{
    (void)state;
    kineto_builder *b;
    kineto_trace *t;
    kineto_activity a;
    kineto_process device = {.is_device = true, .pid = 0, .rank = -1};
    kineto_track stream = {.type = KINETO_TRACK_STREAM, .id = 7};
    assert_int_equal(kineto_builder_create(&b, NULL), KINETO_OK);
    uint32_t host = add_thread(b, 5, 6);
    uint32_t queue = kineto_builder_track(b, kineto_builder_process(b, &device), &stream);
    add_slice(b, host, "step", KINETO_KIND_USER_ANNOTATION, 10, 50);
    add_correlated(b, host, "launch", KINETO_KIND_RUNTIME, 20, 30);
    add_correlated(b, queue, "kernel", KINETO_KIND_CONCURRENT_KERNEL, 60, 90);
    kineto_builder_project(b);
    assert_int_equal(kineto_builder_finish(b, &t, NULL), KINETO_OK);
    kineto_builder_destroy(b);
    assert_int_equal(kineto_trace_count(t), 4);
    kineto_trace_get(t, 3, &a);
    assert_int_equal(a.kind, KINETO_KIND_GPU_USER_ANNOTATION);
    assert_true(a.start_ns == 60 && a.end_ns == 90 && a.track == queue);
    kineto_trace_release(t);
}

static void rows_may_be_known_by_texts(void **state)
{
    (void)state;
    kineto_builder *b;
    kineto_trace *t;
    kineto_activity a = {.start_ns = 1, .end_ns = 9, .category = UINT32_MAX};
    assert_int_equal(kineto_builder_create(&b, NULL), KINETO_OK);
    a.track = kineto_builder_named_track(b, text("Spans"), text("Profiler"));
    assert_int_equal(kineto_builder_named_track(b, text("Spans"), text("Profiler")), a.track);
    a.name_id = kineto_builder_string(b, text("span"));
    assert_int_equal(kineto_builder_add(b, &a), 0);
    assert_int_equal(kineto_builder_finish(b, &t, NULL), KINETO_OK);
    kineto_builder_destroy(b);
    assert_int_equal(kineto_trace_process_count(t), 1);
    kineto_trace_get(t, 0, &a);
    assert_int_equal(kineto_trace_string(t, a.category).size, 0);
    kineto_trace_release(t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(arguments_come_back),
        cmocka_unit_test(flows_join),
        cmocka_unit_test(what_makes_no_sense_is_refused),
        cmocka_unit_test(flows_of_an_appended_trace_and_new_ones_are_kept),
        cmocka_unit_test(a_recording_is_appended),
        cmocka_unit_test(annotations_are_projected_on_devices),
        cmocka_unit_test(rows_may_be_known_by_texts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
