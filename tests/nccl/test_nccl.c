/* The NCCL source in the process of a scripted host: every version and every fault, under the sanitizers, too. */
#include "unit/unit.h"

#include "helpers/recording.h"
#include "host.h"

extern const nc_table ncclProfiler_v1, ncclProfiler_v2, ncclProfiler_v3, ncclProfiler_v4, ncclProfiler_v5, ncclProfiler_v6;
static const nc_table *const tables[] = {NULL,
                                         &ncclProfiler_v1,
                                         &ncclProfiler_v2,
                                         &ncclProfiler_v3,
                                         &ncclProfiler_v4,
                                         &ncclProfiler_v5,
                                         &ncclProfiler_v6};

/* Runs a scenario in a session; no call returns an error. */
static kineto_trace *run_recorded(unsigned version, const char *scenario, size_t bytes)
{
    host h = {.version = version, .table = tables[version]};
    kineto_session *s = session_of(KINETO_KINDS_ALL, bytes, KINETO_RETAIN_OLDEST);
    assert_true(run_scenario(&h, scenario));
    assert_int_equal(atomic_load(&h.errors), 0);
    return finish(s);
}

static uint32_t rows_of(const kineto_trace *trace, uint32_t kind, const char *name)
{
    uint32_t count = 0;
    for (kineto_row r = 0; r < kineto_trace_count(trace); r++) {
        kineto_activity a = row_at(trace, r);
        count += a.kind == kind && text_is(a.name, name);
    }
    return count;
}

static uint64_t ledger_count(const kineto_trace *trace, const char *reason) { return ledger(trace, "NCCL", reason); }

/* ---- what is recorded ------------------------------------------------------------------------------ */

static void every_version_has_collectives_messages_and_their_parts(void **state)
{
    (void)state;
    for (unsigned v = 1; v <= 6; v++) {
        kineto_trace *t = run_recorded(v, "train", 4u << 20);
        bool channels = v >= 3;
        /* 5 collectives, and 2 channels of each */
        assert_int_equal(rows_of(t, KINETO_KIND_COLLECTIVE_COMM, "nccl:all_reduce"), 5 + (channels ? 10 : 0) + 5);
        assert_int_equal(rows_of(t, KINETO_KIND_COLLECTIVE_COMM, "nccl:broadcast"), 10 + (channels ? 5 : 0));
        assert_int_equal(rows_of(t, KINETO_KIND_COLLECTIVE_COMM, "nccl:send"), 1 + (channels ? 1 : 0));
        assert_int_equal(rows_of(t, KINETO_KIND_COLLECTIVE_COMM, "step"), 10);
        assert_int_equal(rows_of(t, KINETO_KIND_COLLECTIVE_COMM, "network"), v >= 3 ? 10 : 0);
        assert_int_equal(rows_of(t, KINETO_KIND_COLLECTIVE_COMM, "proxy sleeps"), 5);
        assert_int_equal(rows_of(t, KINETO_KIND_COLLECTIVE_COMM, "nccl:all_gather"), v >= 6 ? 1 : 0);
        assert_int_equal(rows_of(t, KINETO_KIND_COLLECTIVE_COMM, "batch of copies"), v >= 6 ? 1 : 0);
        assert_int_equal(rows_of(t, KINETO_KIND_RUNTIME, "ncclAllReduce"), v >= 5 ? 5 : 0);
        assert_int_equal(rows_of(t, KINETO_KIND_RUNTIME, "ncclGroup"), v >= 5 ? 16 : 0);
        assert_int_equal(rows_of(t, KINETO_KIND_USER_ANNOTATION, "nccl:all_reduce"), 5);
        assert_int_equal(rows_of(t, KINETO_KIND_USER_ANNOTATION, v >= 5 ? "nccl:send_recv" : "nccl:recv"), 1);
        assert_int_equal(kineto_trace_lost(t), 0);
        assert_int_equal(ledger_count(t, "events that had not ended"), 0);
        kineto_trace_release(t);
    }
}

/* Ranks agree about numbers, whenever each began to record. */
static void collectives_are_counted_while_nothing_records(void **state)
{
    (void)state;
    for (unsigned v = 1; v <= 6; v++) {
        host h = {.version = v, .table = tables[v]};
        comm c = comm_begin(&h, 9, "count", 2, 0);
        assert_int_equal(host_mask(&h), NC_COLL);
        for (int i = 0; i < 4; i++)
            collective(&c, i % 2 ? "AllReduce" : "Broadcast", 8, 0, NULL);
        kineto_session *s = record();
        assert_true(host_mask(&h) & NC_GROUP);
        collective(&c, "AllReduce", 8, 0, NULL);
        kineto_trace *t = finish(s);
        assert_int_equal(host_mask(&h), NC_COLL);
        comm_end(&c);
        for (kineto_row r = 0; r < kineto_trace_count(t); r++)
            if (text_is(row_at(t, r).name, "nccl:all_reduce"))
                assert_int_equal(arg_of(t, r, "Seq").i, 4);
        kineto_trace_release(t);
    }
}

/* ---- faults ---------------------------------------------------------------------------------------- */

static void calls_in_any_order_are_no_error(void **state)
{
    (void)state;
    for (unsigned v = 1; v <= 6; v++)
        kineto_trace_release(run_recorded(v, "wrong", 4u << 20));
    for (unsigned v = 1; v <= 6; v++) {
        host h = {.version = v, .table = tables[v]};
        assert_true(run_scenario(&h, "wrong")); /* and while nothing records */
        assert_int_equal(atomic_load(&h.errors), 0);
    }
}

static void events_without_an_end_end_with_the_session(void **state)
{
    (void)state;
    for (unsigned v = 3; v <= 6; v++) {
        kineto_trace *t = run_recorded(v, "open", 4u << 20);
        assert_true(ledger_count(t, "events that had not ended") >= 2);
        assert_int_equal(rows_of(t, KINETO_KIND_COLLECTIVE_COMM, "nccl:all_reduce"), 1);
        kineto_trace_release(t);
    }
}

static void parents_of_another_process_are_not_followed(void **state)
{
    (void)state;
    kineto_trace *t = run_recorded(6, "foreign", 4u << 20);
    uint32_t foreign = 0, own = 0;
    for (kineto_row r = 0; r < kineto_trace_count(t); r++) {
        kineto_arg arg;
        if (!kineto_args_find(t, r, "chunk bytes", &arg))
            continue;
        bool is_foreign = kineto_args_find(t, r, "of another process", &arg);
        foreign += is_foreign;
        own += !is_foreign;
        assert_int_equal(kineto_args_find(t, r, "Seq", &arg), !is_foreign);
    }
    assert_int_equal(foreign, 2);
    assert_int_equal(own, 1);
    kineto_trace_release(t);
}

static void too_many_open_events_are_counted(void **state)
{
    (void)state;
    kineto_trace *t = run_recorded(6, "flood", 64u << 20);
    uint64_t lost = ledger_count(t, "too many open events");
    assert_true(lost > 0 && lost <= 20000);
    kineto_trace_release(t);
}

static void a_small_buffer_counts_what_it_loses(void **state)
{
    (void)state;
    host h = {.version = 6, .table = tables[6]};
    kineto_session *s = session_of(KINETO_KINDS_ALL, 1u << 20, KINETO_RETAIN_OLDEST);
    comm c = comm_begin(&h, 11, NULL, 2, 0);
    for (int i = 0; i < 20000; i++)
        collective(&c, "AllReduce", 8, 0, NULL);
    comm_end(&c);
    kineto_trace *t = finish(s);
    assert_int_equal(atomic_load(&h.errors), 0);
    assert_true(kineto_trace_lost(t) > 0);
    kineto_trace_release(t);
}

static void more_communicators_than_there_is_room_are_counted(void **state)
{
    (void)state;
    kineto_trace *t = run_recorded(6, "many", 8u << 20);
    assert_true(ledger_count(t, "communicators beyond 256") >= 44);
    kineto_trace_release(t);
}

static void a_child_of_a_fork_may_go_on(void **state)
{
    (void)state;
    kineto_trace *t = run_recorded(6, "fork", 4u << 20);
    assert_true(rows_of(t, KINETO_KIND_COLLECTIVE_COMM, "nccl:all_reduce") >= 2);
    kineto_trace_release(t);
}

/* ---- threads --------------------------------------------------------------------------------------- */

static void *run_threads(void *argument)
{
    host *h = argument;
    run_scenario(h, "threads");
    return NULL;
}

/* Sessions begin and end while eight threads call. */
static void sessions_come_and_go_while_threads_call(void **state)
{
    (void)state;
    for (unsigned v = 4; v <= 6; v += 2) {
        host h = {.version = v, .table = tables[v]};
        pthread_t thread;
        assert_int_equal(pthread_create(&thread, NULL, run_threads, &h), 0);
        for (int i = 0; i < 5; i++)
            kineto_trace_release(finish(record()));
        assert_int_equal(pthread_join(thread, NULL), 0);
        assert_int_equal(atomic_load(&h.errors), 0);
    }
}

static void threads_lose_nothing(void **state)
{
    (void)state;
    kineto_trace *t = run_recorded(6, "threads", 64u << 20);
    assert_int_equal(kineto_trace_lost(t), 0);
    /* 8 threads of 150 all reduces, each with 2 channels */
    assert_int_equal(rows_of(t, KINETO_KIND_COLLECTIVE_COMM, "nccl:all_reduce"), 8 * 150 * 3);
    kineto_trace_release(t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_version_has_collectives_messages_and_their_parts),
        cmocka_unit_test(collectives_are_counted_while_nothing_records),
        cmocka_unit_test(calls_in_any_order_are_no_error),
        cmocka_unit_test(events_without_an_end_end_with_the_session),
        cmocka_unit_test(parents_of_another_process_are_not_followed),
        cmocka_unit_test(too_many_open_events_are_counted),
        cmocka_unit_test(a_small_buffer_counts_what_it_loses),
        cmocka_unit_test(more_communicators_than_there_is_room_are_counted),
        cmocka_unit_test(a_child_of_a_fork_may_go_on),
        cmocka_unit_test(sessions_come_and_go_while_threads_call),
        cmocka_unit_test(threads_lose_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
