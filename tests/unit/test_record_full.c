/* A buffer that is full: what is dropped or overwritten is known exactly, and what is kept is
 * whole. */
#include "unit.h"

#include "../helpers/recording.h"

KINETO_SITE_ARGS(site_numbered, KINETO_KIND_CPU_OP, "numbered", {"n", KINETO_ARG_INT});
KINETO_SITE(site_outer, KINETO_KIND_USER_ANNOTATION, "outer");
KINETO_SITE(site_mark, KINETO_KIND_CPU_OP, "mark");

enum { SMALL = 65536 };

static bool record_number(int64_t n)
{
    kineto_value v = {.i = n};
    kineto_range r = kineto_range_begin_args(&site_numbered, &v);
    kineto_range_end(r);
    return r != 0;
}

static void the_oldest_are_kept_and_every_drop_is_counted(void **state)
{
    (void)state;
    HAS_ONE_THREAD();
    enum { CALLS = 20000 };
    for (int round = 0; round < 3; round++) { /* the same each time: what a session left is free */
        kineto_session *s = session_of(KINETO_KINDS_ALL, SMALL, KINETO_RETAIN_OLDEST);
        int64_t kept = 0;
        while (kept < CALLS && record_number(kept))
            kept++;
        uint64_t later = 0;
        for (int64_t n = kept + 1; n < CALLS; n++)
            later += record_number(n);
        kineto_trace *t = finish(s);
        verify(t);
        assert_true(kept > 1000);
        assert_int_equal(later, 0);
        assert_int_equal(kineto_trace_count(t), kept);
        assert_int_equal(ledger(t, "program", "buffer full"), CALLS - kept);
        assert_int_equal(kineto_trace_lost(t), CALLS - kept);
        for (kineto_row row = 0; row < (uint64_t)kept; row++)
            assert_int_equal(arg_of(t, row, "n").i, row);
        kineto_trace_release(t);
    }
}

/* Records that did not fit leave nothing that could be taken for one. */
static void what_found_no_room_leaves_no_trace(void **state)
{
    (void)state;
    KINETO_SITE_ARGS(list, KINETO_KIND_CPU_OP, "list", {"a", KINETO_ARG_INT}, {"b", KINETO_ARG_INT},
                     {"list", KINETO_ARG_INTS});
    static int64_t looks_like_instants[600];
    for (size_t i = 0; i < COUNT_OF(looks_like_instants); i++)
        looks_like_instants[i] = 6 | 2 << 6;
    kineto_session *s = session_of(KINETO_KINDS_ALL, SMALL, KINETO_RETAIN_OLDEST);
    uint64_t marks = 0, lists = 0, tries = 0;
    for (int i = 0; i < 200; i++, tries++) {
        kineto_ints ints = {looks_like_instants, (size_t)(600 - i)};
        kineto_value v[] = {{.i = 6 | 2 << 6}, {.i = 6 | 2 << 6}, {.ints = &ints}};
        kineto_range r = kineto_range_begin_args(&list, v);
        kineto_range_end(r);
        lists += r != 0;
    }
    for (int i = 0; i < 1000; i++, tries++) { /* small ones still fit in front of the leftovers */
        kineto_range r = kineto_range_begin(&site_mark);
        kineto_range_end(r);
        marks += r != 0;
        if (i > 20)
            continue;
        kineto_trace *t = snapshot(s);
        verify(t);
        assert_int_equal(kineto_trace_count(t), lists + marks);
        kineto_trace_release(t);
    }
    kineto_trace *t = finish(s);
    verify(t);
    assert_true(marks > 0 && lists > 0);
    assert_int_equal(count_named(t, "list"), lists);
    assert_int_equal(count_named(t, "mark"), marks);
    assert_int_equal(kineto_trace_count(t) + ledger(t, "program", "buffer full"), tries);
    kineto_trace_release(t);
}

static pthread_barrier_t all_have_recorded;

static void *record_most_of_a_chunk(void *argument)
{
    pthread_barrier_wait(&all_have_recorded);
    for (int n = 0; n < 300; n++)
        (void)record_number(n);
    pthread_barrier_wait(&all_have_recorded);
    return argument;
}

/* However many chunks threads left with too little room for a record: free ones have it. */
static void what_ended_threads_left_keeps_no_record_out(void **state)
{
    (void)state;
    enum { THREADS = 12, LISTS = 10 };
    KINETO_SITE_ARGS(list, KINETO_KIND_CPU_OP, "list", {"list", KINETO_ARG_INTS});
    static const int64_t items[900];
    kineto_ints ints = {items, COUNT_OF(items)};
    kineto_value v = {.ints = &ints};
    pthread_t threads[THREADS];
    pthread_barrier_init(&all_have_recorded, NULL, THREADS);
    kineto_session *s = record();
    for (int i = 0; i < THREADS; i++)
        threads[i] = start_thread(record_most_of_a_chunk, NULL);
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    for (int i = 0; i < LISTS; i++)
        kineto_range_end(kineto_range_begin_args(&list, &v));
    kineto_trace *t = finish(s);
    verify(t);
    assert_nothing_lost(t);
    assert_int_equal(count_named(t, "list"), LISTS);
    assert_int_equal(count_named(t, "numbered"), THREADS * 300);
    kineto_trace_release(t);
    pthread_barrier_destroy(&all_have_recorded);
}

/* ---- the ring ---------------------------------------------------------------------------------- */

/* Rows with this name are n, n + 1, … last. Returns their number. */
static uint64_t check_newest(const kineto_trace *t, int64_t last)
{
    uint64_t count = count_named(t, "numbered");
    int64_t expected = last - (int64_t)count + 1;
    for (kineto_row row = 0; row < kineto_trace_count(t); row++)
        if (text_is(row_at(t, row).name, "numbered"))
            assert_int_equal(arg_of(t, row, "n").i, expected++);
    return count;
}

static void the_newest_are_kept_and_every_overwritten_one_is_counted(void **state)
{
    (void)state;
    HAS_ONE_THREAD();
    for (int64_t calls = 1; calls < 60000; calls = calls * 3 + 1) {
        kineto_session *s = session_of(KINETO_KINDS_ALL, SMALL, KINETO_RETAIN_NEWEST);
        for (int64_t n = 0; n < calls; n++)
            assert_true(record_number(n));
        kineto_trace *t = finish(s);
        verify(t);
        uint64_t kept = check_newest(t, calls - 1);
        assert_true(kept == (uint64_t)calls || kept > 1000);
        assert_int_equal(kept + ledger(t, "program", "overwritten in the ring"), calls);
        assert_int_equal(kineto_trace_lost(t), (uint64_t)calls - kept);
        kineto_trace_release(t);
    }
}

/* Wherever the ring stood when the session before ended, the oldest chunk goes first. */
static void the_ring_overwrites_the_oldest_first(void **state)
{
    (void)state;
    HAS_ONE_THREAD();
    enum { CHUNKS = 16, PER_CHUNK = 500 };
    for (int64_t calls = PER_CHUNK * CHUNKS / 2; calls < 3 * PER_CHUNK * CHUNKS;
         calls += FEWER(777, 2777)) {
        kineto_session *s = session_of(KINETO_KINDS_ALL, CHUNKS * 16384, KINETO_RETAIN_NEWEST);
        for (int64_t n = 0; n < calls; n++)
            assert_true(record_number(n));
        kineto_trace *t = finish(s);
        uint64_t kept = check_newest(t, calls - 1);
        assert_true(kept == (uint64_t)calls || kept > (CHUNKS - 2) * 400);
        assert_int_equal(kept + kineto_trace_lost(t), calls);
        kineto_trace_release(t);
    }
}

/* A range that is open while the chunk it began in is overwritten is still there, whole. */
static void ranges_open_across_overwritten_chunks_are_kept_once(void **state)
{
    (void)state;
    HAS_ONE_THREAD();
    enum { CALLS = 50000 };
    kineto_session *s = session_of(KINETO_KINDS_ALL, SMALL, KINETO_RETAIN_NEWEST);
    kineto_range a = kineto_range_begin(&site_outer), b = kineto_range_begin(&site_outer);
    for (int64_t n = 0; n < CALLS; n++)
        assert_true(record_number(n));
    kineto_range_end(b);
    kineto_range_end(a);
    kineto_trace *t = finish(s);
    verify(t);
    uint64_t kept = check_newest(t, CALLS - 1);
    assert_int_equal(count_named(t, "outer"), 2);
    assert_int_equal(kept + ledger(t, "program", "overwritten in the ring"), CALLS);
    kineto_activity inner = find_nth(t, "outer", 0), outer = find_nth(t, "outer", 1);
    assert_int_equal(inner.flags, 0);
    assert_int_equal(kineto_trace_parent(t, inner.row), outer.row);
    assert_int_equal(kineto_trace_parent(t, find_nth(t, "numbered", 0).row), inner.row);
    kineto_trace_release(t);
}

/* A session that keeps the oldest is not overwritten by one that keeps the newest. */
static void a_ring_does_not_overwrite_what_another_session_keeps(void **state)
{
    (void)state;
    kineto_session *oldest = session_of(KINETO_KINDS_ALL, SMALL, KINETO_RETAIN_OLDEST);
    kineto_session *newest = session_of(KINETO_KINDS_ALL, SMALL, KINETO_RETAIN_NEWEST);
    int64_t kept = 0;
    while (record_number(kept))
        kept++;
    kineto_trace *t = finish(oldest);
    assert_int_equal(kineto_trace_count(t), kept);
    assert_int_equal(arg_of(t, 0, "n").i, 0);
    kineto_trace_release(t);
    for (int64_t n = 0; n < 20000; n++) /* from now on the ring is free to turn */
        record_number(n);
    t = finish(newest);
    verify(t);
    assert_true(check_newest(t, 19999) > 1000);
    kineto_trace_release(t);
}

/* ---- looking while others record ------------------------------------------------------------------ */

typedef struct runner {
    uint32_t stop;
    int64_t calls;
} runner;

static void *run(void *argument)
{
    runner *r = argument;
    for (; !__atomic_load_n(&r->stop, __ATOMIC_RELAXED); r->calls++)
        record_number(r->calls);
    return NULL;
}

/* The rows of each thread are consecutive numbers, whenever one looks. */
static void check_consecutive(const kineto_trace *t)
{
    for (uint32_t i = 0; i < kineto_trace_track_count(t); i++) {
        kineto_track track;
        kineto_trace_track(t, i, &track);
        const kineto_row *rows = kineto_trace_track_rows(t, i);
        for (uint64_t k = 1; k < track.count; k++)
            assert_int_equal(arg_of(t, rows[k], "n").i, arg_of(t, rows[k - 1], "n").i + 1);
    }
}

static void snapshots_are_whole_while_others_record(void **state)
{
    (void)state;
    const uint32_t retentions[] = {KINETO_RETAIN_OLDEST, KINETO_RETAIN_NEWEST};
    for (size_t i = 0; i < COUNT_OF(retentions); i++) {
        runner runners[3] = {{0}};
        pthread_t threads[3];
        kineto_session *s = session_of(KINETO_KINDS_ALL, 1u << 20, retentions[i]);
        for (int k = 0; k < 3; k++)
            threads[k] = start_thread(run, &runners[k]);
        uint64_t before = 0;
        for (int k = 0; k < FEWER(30, THREAD_SANITIZED ? 5 : 10); k++) {
            kineto_trace *t = snapshot(s);
            verify(t);
            if (retentions[i] == KINETO_RETAIN_OLDEST) {
                assert_true(kineto_trace_count(t) >= before);
                before = kineto_trace_count(t);
                check_consecutive(t);
            }
            kineto_trace_release(t);
        }
        int64_t calls = 0;
        for (int k = 0; k < 3; k++)
            __atomic_store_n(&runners[k].stop, 1, __ATOMIC_RELAXED);
        for (int k = 0; k < 3; k++) {
            pthread_join(threads[k], NULL);
            calls += runners[k].calls;
        }
        kineto_trace *t = finish(s);
        verify(t);
        check_consecutive(t);
        assert_int_equal(kineto_trace_count(t) + kineto_trace_lost(t), calls);
        kineto_trace_release(t);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_oldest_are_kept_and_every_drop_is_counted),
        cmocka_unit_test(what_found_no_room_leaves_no_trace),
        cmocka_unit_test(what_ended_threads_left_keeps_no_record_out),
        cmocka_unit_test(the_newest_are_kept_and_every_overwritten_one_is_counted),
        cmocka_unit_test(the_ring_overwrites_the_oldest_first),
        cmocka_unit_test(ranges_open_across_overwritten_chunks_are_kept_once),
        cmocka_unit_test(a_ring_does_not_overwrite_what_another_session_keeps),
        cmocka_unit_test(snapshots_are_whole_while_others_record),
    };
    return RUN_TESTS(tests);
}
