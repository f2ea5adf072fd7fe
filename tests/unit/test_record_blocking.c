/* Calls that may block (kineto_blocking_begin): in the trace while they last, and without a trace once
 * they have ended. */
#include "unit.h"

#include "../helpers/recording.h"

#include <sched.h>
#include <stdatomic.h>

static const kineto_arg_desc two_args[] = {{"a", KINETO_ARG_UINT}, {"b", KINETO_ARG_UINT}};
static kineto_site wait_site = {
    .kind = KINETO_KIND_BLOCKING_CALL, .arg_count = 2, .name = "a wait", .args = two_args};
static kineto_site inner_site = {
    .kind = KINETO_KIND_BLOCKING_CALL, .arg_count = 0, .name = "an inner wait"};
static kineto_site other_site = {.kind = KINETO_KIND_CPU_OP, .name = "other"};

static void begin_wait(kineto_blocking *call, uint64_t a, uint32_t least_us)
{
    kineto_value values[] = {{.u = a}, {.u = ~a}};
    kineto_blocking_begin(call, &wait_site, least_us, values);
}

static void assert_open(const kineto_trace *trace, uint64_t a)
{
    kineto_activity row = find_only(trace, "a wait");
    assert_true(row.flags & KINETO_ACTIVITY_OPEN_END);
    assert_int_equal(row.kind, KINETO_KIND_BLOCKING_CALL);
    assert_int_equal(arg_of(trace, row.row, "a").u, a);
    assert_int_equal(arg_of(trace, row.row, "b").u, ~a);
}

static void an_open_call_is_in_snapshot_and_trace(void **state)
{
    (void)state;
    kineto_blocking call;
    kineto_session *session = record();
    begin_wait(&call, 7, 0);
    kineto_trace *trace = snapshot(session);
    assert_open(trace, 7);
    kineto_trace_release(trace);
    trace = finish(session);
    assert_open(trace, 7);
    verify(trace);
    kineto_trace_release(trace);
    kineto_blocking_end(&call);
}

static void a_call_that_has_ended_leaves_nothing(void **state)
{
    (void)state;
    kineto_blocking call;
    kineto_session *session = record();
    for (uint64_t i = 0; i < 100000; i++) {
        begin_wait(&call, i, 0);
        kineto_blocking_end(&call);
    }
    kineto_trace *trace = finish(session);
    assert_int_equal(kineto_trace_count(trace), 0);
    assert_int_equal(kineto_trace_lost(trace), 0);
    kineto_trace_release(trace);
}

/* As after a jump out of it: the thread goes on to record. */
static void a_call_with_a_record_after_it_has_ended(void **state)
{
    (void)state;
    kineto_blocking call;
    kineto_session *session = record();
    begin_wait(&call, 1, 0);
    kineto_range_end(kineto_range_begin(&other_site));
    kineto_trace *trace = finish(session);
    assert_int_equal(count_named(trace, "a wait"), 0);
    assert_int_equal(count_named(trace, "other"), 1);
    kineto_trace_release(trace);
    kineto_blocking_end(&call);
}

static void a_call_within_another_one_gives_way_to_it(void **state)
{
    (void)state;
    kineto_blocking outer, inner;
    kineto_session *session = record();
    begin_wait(&outer, 5, 0);
    kineto_blocking_begin(&inner, &inner_site, 0, NULL);
    kineto_trace *trace = snapshot(session);
    find_only(trace, "an inner wait");
    assert_int_equal(count_named(trace, "a wait"), 0);
    kineto_trace_release(trace);
    kineto_record_past(&inner_site, inner.ticks, NULL);
    kineto_blocking_end(&inner);
    trace = finish(session);
    assert_open(trace, 5);
    assert_false(find_only(trace, "an inner wait").flags & KINETO_ACTIVITY_OPEN_END);
    kineto_trace_release(trace);
    kineto_blocking_end(&outer);
}

static void short_ones_are_dropped(void **state)
{
    (void)state;
    kineto_blocking call;
    kineto_session *session = record();
    begin_wait(&call, 1, UINT32_MAX); /* more than an hour */
    kineto_trace *trace = finish(session);
    assert_int_equal(kineto_trace_count(trace), 0);
    kineto_trace_release(trace);
    kineto_blocking_end(&call);
}

/* Whatever room a chunk has left: the announcement stays readable, and takes none of it. */
static void any_room_of_a_chunk_will_do(void **state)
{
    (void)state;
    kineto_blocking call;
    for (unsigned pairs = 660; pairs < 690; pairs++) {
        kineto_session *session = record();
        for (unsigned i = 0; i < pairs; i++)
            kineto_range_end(kineto_range_begin(&other_site));
        begin_wait(&call, pairs, 0);
        kineto_trace *trace = finish(session);
        assert_open(trace, pairs);
        assert_int_equal(count_named(trace, "other"), pairs);
        verify(trace);
        kineto_trace_release(trace);
        kineto_blocking_end(&call);
    }
}

static atomic_bool stop;

static void *wait_and_record(void *unused)
{
    kineto_blocking call;
    for (uint64_t i = 0; !atomic_load(&stop); i++) {
        begin_wait(&call, i, 0);
        if (i % 3 == 0)
            sched_yield();
        if (i % 50 == 0)
            kineto_record_past(&inner_site, call.ticks, NULL);
        kineto_blocking_end(&call);
        if (i % 70 == 0)
            kineto_range_end(kineto_range_begin(&other_site));
    }
    return unused;
}

/* Property: a snapshot at any moment has each call whole or not at all, and no damaged record. */
static void snapshots_find_whole_calls(void **state)
{
    (void)state;
    pthread_t threads[2];
    uint64_t found = 0;
    kineto_session *session = session_of(KINETO_KINDS_ALL, 1u << 20, KINETO_RETAIN_OLDEST);
    atomic_store(&stop, false);
    for (int i = 0; i < 2; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, wait_and_record, NULL), 0);
    for (int i = 0; i < 50; i++) {
        kineto_trace *trace = snapshot(session);
        for (kineto_row r = 0; r < kineto_trace_count(trace); r++) {
            kineto_activity a = row_at(trace, r);
            if (!text_is(a.name, "a wait"))
                continue;
            found++;
            assert_true(a.flags & KINETO_ACTIVITY_OPEN_END);
            assert_int_equal(arg_of(trace, r, "a").u, ~arg_of(trace, r, "b").u);
        }
        assert_true(count_named(trace, "a wait") <= 2);
        verify(trace);
        kineto_trace_release(trace);
    }
    atomic_store(&stop, true);
    for (int i = 0; i < 2; i++)
        assert_int_equal(pthread_join(threads[i], NULL), 0);
    kineto_trace *trace = finish(session);
    assert_int_equal(count_named(trace, "a wait"), 0);
    kineto_trace_release(trace);
    print_message("%llu open calls in 50 snapshots\n", (unsigned long long)found);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_open_call_is_in_snapshot_and_trace),
        cmocka_unit_test(a_call_that_has_ended_leaves_nothing),
        cmocka_unit_test(a_call_with_a_record_after_it_has_ended),
        cmocka_unit_test(a_call_within_another_one_gives_way_to_it),
        cmocka_unit_test(short_ones_are_dropped),
        cmocka_unit_test(any_room_of_a_chunk_will_do),
        cmocka_unit_test(snapshots_find_whole_calls),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
