/* Sessions: windows over one recorder, in any number and order, and their manners when misused. */
#include "unit.h"

#include "../helpers/recording.h"
#include "base/strings.h"

#include <sched.h>

KINETO_SITE_ARGS(site_op, KINETO_KIND_CPU_OP, "op", {"n", KINETO_ARG_INT});
KINETO_SITE(site_note, KINETO_KIND_USER_ANNOTATION, "note");
KINETO_SITE(site_marker, KINETO_KIND_CPU_INSTANT_EVENT, "marker");

static void record_ops(int from, int to)
{
    for (int n = from; n < to; n++) {
        kineto_value v = {.i = n};
        kineto_range_end(kineto_range_begin_args(&site_op, &v));
    }
}

/* ---- misuse -------------------------------------------------------------------------------------- */

#define assert_refused(call, expected)                                                             \
    do {                                                                                           \
        kineto_error err = {0};                                                                    \
        assert_int_equal((call), (expected));                                                      \
        assert_int_equal(err.code, (expected));                                                    \
        assert_true(strlen(err.message) > 8);                                                      \
    } while (0)

static void calls_in_the_wrong_order_say_so(void **state)
{
    (void)state;
    kineto_session *s;
    kineto_trace *t;
    assert_int_equal(kineto_session_create(NULL, &s, NULL), KINETO_OK);
    assert_refused(kineto_session_stop(s, &t, &err), KINETO_E_STATE);
    assert_null(t);
    assert_refused(kineto_session_snapshot(s, &t, &err), KINETO_E_STATE);
    assert_int_equal(kineto_session_start(s, NULL), KINETO_OK);
    assert_refused(kineto_session_start(s, &err), KINETO_E_STATE);
    assert_int_equal(kineto_session_stop(s, NULL, NULL), KINETO_OK); /* discard */
    assert_refused(kineto_session_stop(s, &t, &err), KINETO_E_STATE);
    assert_int_equal(kineto_session_start(s, NULL), KINETO_OK); /* once more is fine */
    kineto_session_destroy(s);                                  /* while it records */
    assert_false(kineto_enabled(KINETO_KIND_CPU_OP));
}

static void a_session_that_warms_up_has_not_started(void **state)
{
    (void)state;
    kineto_session *s;
    kineto_trace *t;
    assert_int_equal(kineto_session_create(NULL, &s, NULL), KINETO_OK);
    assert_refused(kineto_session_warm_up(NULL, &err), KINETO_E_ARGUMENT);
    assert_int_equal(kineto_session_warm_up(s, NULL), KINETO_OK);
    assert_true(kineto_enabled(KINETO_KIND_CPU_OP));
    assert_refused(kineto_session_warm_up(s, &err), KINETO_E_STATE);
    assert_refused(kineto_session_stop(s, &t, &err), KINETO_E_STATE);
    assert_refused(kineto_session_snapshot(s, &t, &err), KINETO_E_STATE);
    assert_int_equal(kineto_session_start(s, NULL), KINETO_OK);
    assert_refused(kineto_session_start(s, &err), KINETO_E_STATE);
    assert_refused(kineto_session_warm_up(s, &err), KINETO_E_STATE);
    assert_int_equal(kineto_session_stop(s, NULL, NULL), KINETO_OK);
    assert_int_equal(kineto_session_start(s, NULL), KINETO_OK); /* also without a warm-up */
    assert_int_equal(kineto_session_stop(s, NULL, NULL), KINETO_OK);
    assert_int_equal(kineto_session_warm_up(s, NULL), KINETO_OK);
    kineto_session_destroy(s); /* while it warms up */
    assert_false(kineto_enabled(KINETO_KIND_CPU_OP));
}

static void null_arguments_are_refused_or_fine(void **state)
{
    (void)state;
    kineto_session *s = record();
    kineto_trace *t;
    assert_refused(kineto_session_create(NULL, NULL, &err), KINETO_E_ARGUMENT);
    assert_refused(begin_session(NULL, NULL, &err), KINETO_E_ARGUMENT);
    assert_refused(kineto_session_start(NULL, &err), KINETO_E_ARGUMENT);
    assert_refused(kineto_session_stop(NULL, &t, &err), KINETO_E_ARGUMENT);
    assert_refused(end_session(NULL, &t, &err), KINETO_E_ARGUMENT);
    assert_refused(kineto_session_snapshot(NULL, &t, &err), KINETO_E_ARGUMENT);
    assert_refused(kineto_session_snapshot(s, NULL, &err), KINETO_E_ARGUMENT);
    kineto_session_destroy(NULL);
    kineto_trace_release(finish(s));
}

static void options_that_make_no_sense_are_refused(void **state)
{
    (void)state;
    kineto_session *s = (kineto_session *)&s;
    struct {
        kineto_session_options known;
        uint64_t newer[2];
    } wide = {.newer = {0, 0}};
    kineto_session_options *options = &wide.known;
    kineto_session_options_init(options);
    options->size = 1;
    assert_refused(kineto_session_create(options, &s, &err), KINETO_E_ARGUMENT);
    assert_null(s);
    kineto_session_options_init(options);
    options->retention = 2;
    assert_refused(kineto_session_create(options, &s, &err), KINETO_E_ARGUMENT);
    kineto_session_options_init(options);
    options->threads = 7;
    assert_refused(kineto_session_create(options, &s, &err), KINETO_E_ARGUMENT);
    kineto_session_options_init(options);
    options->buffer_bytes = SIZE_MAX / 2;
    kineto_error why = {0};
    kineto_status status = kineto_session_create(options, &s, &why);
    assert_true(status == KINETO_E_LIMIT || status == KINETO_E_MEMORY ||
                status == KINETO_E_ARGUMENT);
    assert_true(strlen(why.message) > 8);
    /* of a newer version: zeros are fine, anything else is not understood */
    kineto_session_options_init(options);
    options->size = sizeof wide;
    assert_int_equal(kineto_session_create(options, &s, NULL), KINETO_OK);
    kineto_session_destroy(s);
    wide.newer[1] = 1;
    assert_refused(kineto_session_create(options, &s, &err), KINETO_E_UNSUPPORTED);
    /* of an older version: shorter */
    kineto_session_options_init(options);
    options->size = offsetof(kineto_session_options, retention);
    options->retention = 99;
    assert_int_equal(kineto_session_create(options, &s, NULL), KINETO_OK);
    kineto_session_destroy(s);
}

static void too_many_sessions_are_refused(void **state)
{
    (void)state;
    kineto_session *s[40];
    kineto_session_options options;
    kineto_error err = {0};
    kineto_session_options_init(&options);
    options.buffer_bytes = 65536;
    int n = 0;
    while (n < 40 && begin_session(&options, &s[n], &err) == KINETO_OK)
        n++;
    assert_int_equal(n, 32);
    assert_int_equal(err.code, KINETO_E_LIMIT);
    assert_null(s[n]);
    record_ops(0, 10);
    for (int i = 0; i < n; i++) {
        kineto_trace *t = finish(s[i]);
        assert_int_equal(count_named(t, "op"), 10);
        kineto_trace_release(t);
    }
}

/* ---- windows --------------------------------------------------------------------------------------- */

static void each_session_sees_its_own_kinds(void **state)
{
    (void)state;
    kineto_session *ops = session_of(KINETO_KIND_BIT(KINETO_KIND_CPU_OP), 1 << 20, 0);
    kineto_session *notes = session_of(KINETO_KIND_BIT(KINETO_KIND_USER_ANNOTATION), 1 << 20, 0);
    for (int i = 0; i < 100; i++) {
        kineto_range r = kineto_range_begin(&site_note);
        record_ops(i, i + 1);
        kineto_range_end(r);
        kineto_instant_mark(&site_marker, NULL); /* of a kind that no session records */
    }
    kineto_trace *a = finish(ops), *b = finish(notes);
    verify(a);
    verify(b);
    assert_int_equal(kineto_trace_count(a), 100);
    assert_int_equal(count_named(a, "op"), 100);
    assert_int_equal(kineto_trace_count(b), 100);
    assert_int_equal(count_named(b, "note"), 100);
    kineto_trace_release(a);
    kineto_trace_release(b);
}

static void windows_overlap_freely(void **state)
{
    (void)state;
    kineto_session *a = record();
    record_ops(0, 10);
    kineto_session *b = record();
    record_ops(10, 20);
    kineto_trace *ta = finish(a);
    record_ops(20, 30);
    kineto_session *c = record();
    record_ops(30, 40);
    kineto_trace *tb = finish(b), *tc = finish(c);
    const struct {
        const kineto_trace *trace;
        int from, to;
    } expected[] = {{ta, 0, 20}, {tb, 10, 40}, {tc, 30, 40}};
    for (size_t i = 0; i < COUNT_OF(expected); i++) {
        const kineto_trace *t = expected[i].trace;
        verify(t);
        assert_nothing_lost(t);
        assert_int_equal(kineto_trace_count(t), expected[i].to - expected[i].from);
        for (kineto_row r = 0; r < kineto_trace_count(t); r++)
            assert_int_equal(arg_of(t, r, "n").i, expected[i].from + (int)r);
    }
    kineto_trace_release(ta);
    kineto_trace_release(tb);
    kineto_trace_release(tc);
}

static void ranges_across_a_windows_edges_are_cut_and_flagged(void **state)
{
    (void)state;
    kineto_session *always = record(); /* so that there is something to record */
    kineto_range a = kineto_range_begin(&site_note);
    kineto_async_begin(&site_note, 1, NULL);
    kineto_session *s = record();
    record_ops(0, 1);
    kineto_range b = kineto_range_begin(&site_note);
    record_ops(1, 2);
    kineto_trace *t = finish(s);
    verify(t);
    assert_int_equal(count_named(t, "op"), 2);
    assert_int_equal(count_named(t, "note"), 3);
    int64_t start, end;
    kineto_trace_window(t, &start, &end);
    for (uint64_t i = 0; i < 3; i++) {
        kineto_activity note = find_nth(t, "note", i);
        assert_true(note.end_ns == end);
        assert_true(note.flags & KINETO_ACTIVITY_OPEN_END);
        bool before = note.flags & KINETO_ACTIVITY_OPEN_START;
        assert_int_equal(note.start_ns == start, before);
        assert_int_equal(before, kineto_trace_parent(t, note.row) == KINETO_NO_ROW);
    }
    kineto_trace_release(t);
    kineto_range_end(b); /* works whatever is recorded now */
    kineto_range_end(a);
    kineto_async_end(&site_note, 1);
    t = finish(always);
    verify(t);
    assert_int_equal(count_named(t, "note"), 3);
    for (uint64_t i = 0; i < 3; i++)
        assert_int_equal(find_nth(t, "note", i).flags, 0);
    kineto_trace_release(t);
    kineto_range_end(b); /* long closed, no session records */
}

/* What an earlier session recorded does not come back, whatever its chunks still hold. */
/* A warm-up may be long: what is recorded meanwhile takes no room in the buffer. */
static void a_warm_up_is_not_in_the_trace(void **state)
{
    (void)state;
    kineto_session_options options;
    kineto_session *s;
    kineto_session_options_init(&options);
    options.buffer_bytes = (size_t)1 << 20;
    assert_int_equal(kineto_session_create(&options, &s, NULL), KINETO_OK);
    for (int round = 0; round < 3; round++) {
        assert_int_equal(kineto_session_warm_up(s, NULL), KINETO_OK);
        record_ops(0, 200000);
        kineto_range open = kineto_range_begin(&site_note);
        assert_int_equal(kineto_session_start(s, NULL), KINETO_OK);
        record_ops(0, 1000);
        kineto_range_end(open);
        kineto_trace *t;
        assert_int_equal(kineto_session_stop(s, &t, NULL), KINETO_OK);
        verify(t);
        assert_nothing_lost(t);
        assert_int_equal(count_named(t, "op"), 1000);
        int64_t start, end;
        kineto_trace_window(t, &start, &end);
        kineto_activity note = find_only(t, "note");
        assert_true(note.start_ns == start && note.flags & KINETO_ACTIVITY_OPEN_START);
        kineto_trace_release(t);
    }
    kineto_session_destroy(s);
}

static void sessions_begin_with_nothing(void **state)
{
    (void)state;
    kineto_session *s = record();
    for (uint64_t id = 0; id < 50; id++) /* halves and open ends of every sort */
        kineto_async_begin(&site_note, id, NULL);
    for (uint64_t id = 50; id < 60; id++)
        kineto_async_end(&site_note, id);
    kineto_range r = kineto_range_begin(&site_note);
    record_ops(0, 100);
    kineto_range_end(r);
    kineto_trace_release(finish(s));
    for (int i = 0; i < 5; i++) {
        kineto_trace *t = finish(record());
        verify(t);
        assert_int_equal(kineto_trace_count(t), 0);
        assert_int_equal(kineto_trace_lost(t), 0);
        kineto_trace_release(t);
    }
}

static void *other_thread(void *argument)
{
    (void)argument;
    record_ops(0, 50);
    kineto_instant_mark(&site_marker, NULL);
    return NULL;
}

static void a_session_may_be_about_its_own_thread(void **state)
{
    (void)state;
    kineto_session_options options;
    kineto_session *own, *all = record();
    kineto_session_options_init(&options);
    options.threads = KINETO_THREADS_CALLER;
    assert_int_equal(begin_session(&options, &own, NULL), KINETO_OK);
    pthread_t thread = start_thread(other_thread, NULL);
    record_ops(0, 7);
    pthread_join(thread, NULL);
    kineto_trace *a = finish(own), *b = finish(all);
    assert_int_equal(kineto_trace_count(a), 7);
    assert_int_equal(kineto_trace_count(b), 7 + 51);
    kineto_trace_release(a);
    kineto_trace_release(b);
}

typedef struct mine {
    kineto_trace *trace;
    int number;
} mine;

static void *record_own(void *argument)
{
    mine *m = argument;
    kineto_session_options options;
    kineto_session *s;
    kineto_session_options_init(&options);
    options.threads = KINETO_THREADS_CALLER;
    options.buffer_bytes = 1 << 20;
    if (begin_session(&options, &s, NULL))
        return NULL;
    record_ops(0, 100 + m->number);
    end_session(s, &m->trace, NULL);
    return NULL;
}

static void threads_profile_themselves_side_by_side(void **state)
{
    (void)state;
    mine all[16];
    pthread_t threads[16];
    for (int round = 0; round < 5; round++) {
        for (int i = 0; i < 16; i++) {
            all[i] = (mine){NULL, i};
            threads[i] = start_thread(record_own, &all[i]);
        }
        for (int i = 0; i < 16; i++) {
            pthread_join(threads[i], NULL);
            assert_non_null(all[i].trace);
            verify(all[i].trace);
            assert_int_equal(kineto_trace_count(all[i].trace), 100 + i);
            assert_int_equal(kineto_trace_lost(all[i].trace), 0);
            kineto_trace_release(all[i].trace);
        }
    }
}

/* ---- start and stop under way -------------------------------------------------------------------------- */

static uint32_t over;

static void *keep_busy(void *argument)
{
    (void)argument;
    for (int n = 0; !__atomic_load_n(&over, __ATOMIC_RELAXED); n++) {
        kineto_range a = kineto_range_begin(&site_note);
        record_ops(n, n + 3);
        kineto_async_begin(&site_note, (uint64_t)n, NULL);
        kineto_range_end(a);
        kineto_async_end(&site_note, (uint64_t)n);
        if (n % 16 == 0)
            sched_yield();
    }
    return NULL;
}

static int begun; /* threads that have recorded something */

/* Numbers from `first` on, as fast as it goes. */
static void *overwrite(void *first)
{
    record_ops(*(const int *)first, *(const int *)first + 64);
    __atomic_add_fetch(&begun, 1, __ATOMIC_RELEASE);
    for (int n = *(const int *)first + 64; !__atomic_load_n(&over, __ATOMIC_RELAXED); n += 64)
        record_ops(n, n + 64);
    return NULL;
}

/* Rows of a thread are numbered without a gap. */
static void check_without_gaps(const kineto_trace *t)
{
    int64_t last[64] = {0};
    uint64_t gaps = 0;
    for (kineto_row r = 0; r < kineto_trace_count(t); r++) {
        kineto_activity a = row_at(t, r);
        assert_true(a.track < COUNT_OF(last));
        int64_t n = arg_of(t, r, "n").i;
        gaps += last[a.track] && n != last[a.track] + 1;
        last[a.track] = n;
    }
    assert_int_equal(gaps, 0);
}

static void snapshots_of_a_busy_ring_are_whole(void **state)
{
    (void)state;
    pthread_t threads[2];
    int first[2] = {1, 1000000000};
    kineto_session *s = session_of(KINETO_KIND_BIT(KINETO_KIND_CPU_OP), FEWER(4u, 1u) << 20, KINETO_RETAIN_NEWEST);
    over = begun = 0;
    for (int i = 0; i < 2; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, overwrite, &first[i]), 0);
    while (__atomic_load_n(&begun, __ATOMIC_ACQUIRE) < 2)
        usleep(1000);
    for (int i = 0; i < FEWER(12, 3); i++) {
        usleep(20000);
        kineto_trace *t = snapshot(s);
        verify(t);
        assert_true(kineto_trace_count(t) >= 64);
        check_without_gaps(t);
        kineto_trace_release(t);
    }
    __atomic_store_n(&over, 1, __ATOMIC_RELAXED);
    for (int i = 0; i < 2; i++)
        pthread_join(threads[i], NULL);
    kineto_trace_release(finish(s));
}

static void *session_after_session(void *argument)
{
    int count = *(const int *)argument;
    for (int i = 0; i < count; i++) {
        kineto_session *s = session_of(KINETO_KINDS_ALL, 1 << 20, (uint32_t)i & 1);
        if (i % 3 == 0)
            kineto_trace_release(snapshot(s));
        kineto_trace *t = finish(s);
        verify(t);
        kineto_trace_release(t);
    }
    return NULL;
}

static void a_thousand_sessions_while_threads_are_inside_ranges(void **state)
{
    (void)state;
#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
    int alone = 60, together = 30;
#else
    int alone = 600, together = 200;
#endif
    pthread_t busy[3], runners[2];
    __atomic_store_n(&over, 0, __ATOMIC_RELAXED);
    for (int i = 0; i < 3; i++)
        busy[i] = start_thread(keep_busy, NULL);
    session_after_session(&alone);
    for (int i = 0; i < 2; i++) /* overlapping windows of several threads */
        runners[i] = start_thread(session_after_session, &together);
    for (int i = 0; i < 2; i++)
        pthread_join(runners[i], NULL);
    __atomic_store_n(&over, 1, __ATOMIC_RELAXED);
    for (int i = 0; i < 3; i++)
        pthread_join(busy[i], NULL);
    assert_false(kineto_enabled_any());
    sessions_begin_with_nothing(state);
}

/* Threads keep their chunks when sessions end; a later, smaller session sees what they go on to
 * record in them. */
typedef struct turns {
    pthread_barrier_t barrier;
} turns;

static void *record_in_turns(void *argument)
{
    turns *w = argument;
    for (int round = 0; round < 2; round++) {
        pthread_barrier_wait(&w->barrier);
        record_ops(0, 20);
        pthread_barrier_wait(&w->barrier);
    }
    return NULL;
}

static void a_smaller_session_sees_threads_of_a_larger_one(void **state)
{
    (void)state;
    enum { THREADS = 20 };
    turns w;
    pthread_t threads[THREADS];
    pthread_barrier_init(&w.barrier, NULL, THREADS + 1);
    for (int i = 0; i < THREADS; i++)
        threads[i] = start_thread(record_in_turns, &w);
    const size_t sizes[] = {8u << 20, 65536};
    for (int round = 0; round < 2; round++) {
        kineto_session *s = session_of(KINETO_KINDS_ALL, sizes[round], 0);
        pthread_barrier_wait(&w.barrier);
        pthread_barrier_wait(&w.barrier);
        kineto_trace *t = finish(s);
        verify(t);
        assert_nothing_lost(t);
        assert_int_equal(kineto_trace_count(t), THREADS * 20);
        kineto_trace_release(t);
    }
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    pthread_barrier_destroy(&w.barrier);
}

/* ---- memory -------------------------------------------------------------------------------------------- */

static size_t resident_bytes(void)
{
    char text[256];
    size_t total, resident;
    if (!read_whole("/proc/self/statm", text, sizeof text) ||
        sscanf(text, "%zu %zu", &total, &resident) != 2)
        return 0;
    return resident * (size_t)sysconf(_SC_PAGESIZE);
}

static void memory_does_not_grow_with_the_number_of_sessions(void **state)
{
    (void)state;
#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
    const int rounds = 200;
#else
    const int rounds = 2000;
#endif
    size_t before = 0;
    for (int i = 0; i < rounds; i++) {
        kineto_session *s = session_of(KINETO_KINDS_ALL, 256 << 10, (uint32_t)i & 1);
        record_ops(0, 100);
        if (i % 100 == 0)
            pthread_join(start_thread(other_thread, NULL), NULL);
        kineto_trace *t = finish(s);
        assert_true(kineto_trace_count(t) >= 100);
        kineto_trace_release(t);
        if (i == rounds / 10)
            before = resident_bytes();
    }
    size_t after = resident_bytes();
    assert_true(before > 0 && after > 0);
#if !defined(__SANITIZE_THREAD__) && !defined(__SANITIZE_ADDRESS__)
    assert_in_range(after, 0, before + (4u << 20));
#endif
}

static void memory_goes_back_when_the_last_session_ends(void **state)
{
    (void)state;
    size_t idle = resident_bytes();
    kineto_session *s = session_of(KINETO_KINDS_ALL, 128u << 20, 0);
    assert_true(resident_bytes() > idle + (100u << 20)); /* touched before, not while, recording */
    kineto_session *other = record();
    kineto_trace_release(finish(s));
    record_ops(0, 1000);
    kineto_trace *t = finish(other);
    assert_int_equal(count_named(t, "op"), 1000);
    kineto_trace_release(t);
    assert_in_range(resident_bytes(), 0, idle + (16u << 20));
    s = session_of(KINETO_KINDS_ALL, 1u << 20, 0); /* and what was given back works again */
    record_ops(0, 10000);
    t = finish(s);
    assert_nothing_lost(t);
    assert_int_equal(kineto_trace_count(t), 10000);
    kineto_trace_release(t);
}

/* How often a trace says that recording was paused, and its detail; 0: there is no such line. */
static uint64_t pauses_of(const kineto_trace *t, kineto_string *detail)
{
    kineto_ledger_line line;
    for (uint32_t i = 0; kineto_trace_ledger(t, i, &line); i++)
        if (kb_string_equal(line.reason, kb_string("times recording was paused"))) {
            assert_false(line.is_loss);
            *detail = line.detail;
            return line.count;
        }
    return 0;
}

static void pauses_are_a_line_of_the_ledger(void **state)
{
    (void)state;
    kineto_session *s = record(), *other = record();
    kineto_string detail = {"", 0};
    for (int i = 0; i < 3; i++) { /* the last one is open at the end, and one more call changes nothing */
        assert_int_equal(kineto_session_pause(s, true, NULL), KINETO_OK);
        assert_int_equal(kineto_session_pause(s, true, NULL), KINETO_OK);
        usleep(4000);
        if (i < 2)
            assert_int_equal(kineto_session_pause(s, false, NULL), KINETO_OK);
    }
    kineto_trace *a = finish(s), *b = finish(other);
    assert_int_equal(pauses_of(a, &detail), 3);
    assert_true(detail.size && strtod(detail.data, NULL) >= 12 && kb_string_contains(detail, "ms in all"));
    assert_int_equal(pauses_of(b, &detail), 0);
    kineto_trace_release(a);
    kineto_trace_release(b);
}

static void what_others_record_in_a_pause_is_theirs(void **state)
{
    (void)state;
    kineto_session *paused = record(), *other = record();
    record_ops(0, 3);
    assert_int_equal(kineto_session_pause(paused, true, NULL), KINETO_OK);
    record_ops(3, 8);
    assert_int_equal(kineto_session_pause(paused, false, NULL), KINETO_OK);
    record_ops(8, 10);
    kineto_trace *a = finish(paused), *b = finish(other);
    assert_int_equal(count_named(a, "op"), 5);
    assert_int_equal(count_named(b, "op"), 10);
    kineto_trace_release(a);
    kineto_trace_release(b);
}

/* ---- what the program says of itself --------------------------------------------------------------- */

static void say(const char *key)
{
    assert_int_equal(kineto_metadata_add(key, "1"), KINETO_OK);
    assert_int_equal(kineto_ledger_add("said", key, 1, true, NULL), KINETO_OK);
}

/* Of these keys, the trace has those with a capital letter, in its header and as losses. */
static void assert_said(kineto_trace *t, const char *const *keys, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        bool expected = keys[i][0] < 'a';
        char key[32] = {0};
        memcpy(key, keys[i], strlen(keys[i]));
        key[0] |= 0x20;
        if ((header_of(t, key).size != 0) != expected || ledger(t, "said", key) != expected)
            fail_msg("%s is %sexpected", key, expected ? "" : "not ");
    }
    kineto_trace_release(t);
}
#define assert_trace_says(trace, ...)                                                              \
    assert_said((trace), (const char *const[]){__VA_ARGS__},                                       \
                COUNT_OF(((const char *const[]){__VA_ARGS__})))

static void what_a_program_says_is_said_of_the_sessions_that_record(void **state)
{
    (void)state;
    say("before");
    kineto_session *first = record();
    say("alone");
    kineto_session *other = record();
    say("both");
    kineto_trace *t = snapshot(first);
    assert_trace_says(t, "Before", "Alone", "Both");
    assert_trace_says(finish(first), "Before", "Alone", "Both");
    say("rest");
    assert_trace_says(finish(other), "before", "alone", "Both", "Rest");
    say("between");
    kineto_session *next = record();
    say("now");
    assert_trace_says(finish(next), "before", "alone", "both", "rest", "Between", "Now");
    assert_trace_says(finish(record()), "before", "both", "between", "now");
}

static void what_a_program_says_for_good_is_in_all_that_follow(void **state)
{
    (void)state;
    kineto_session *s = record();
    assert_int_equal(kineto_process_set_metadata(NULL, "1"), KINETO_E_ARGUMENT);
    assert_int_equal(kineto_process_set_metadata("rank", NULL), KINETO_E_ARGUMENT);
    assert_int_equal(kineto_process_set_metadata("rank", "3"), KINETO_OK);
    assert_int_equal(kineto_ledger_add("said", "a statement", 2, false, NULL), KINETO_OK);
    kineto_trace_release(finish(s));
    kineto_trace *t = finish(record());
    assert_text(header_of(t, "rank"), "3");
    assert_int_equal(ledger(t, "said", "a statement"), 2);
    assert_int_equal(kineto_trace_lost(t), 0);
    kineto_trace_release(t);
}

static void counts_of_a_line_said_again_stop_at_what_a_number_holds(void **state)
{
    (void)state;
    kineto_session *s = record();
    for (int i = 0; i < 2; i++)
        assert_int_equal(kineto_ledger_add("said", "a lot", UINT64_MAX, true, NULL), KINETO_OK);
    assert_int_equal(kineto_ledger_add("said", "more", 3, true, NULL), KINETO_OK);
    kineto_trace *t = finish(s);
    assert_true(ledger(t, "said", "a lot") == UINT64_MAX && kineto_trace_lost(t) == UINT64_MAX);
    kineto_trace_release(t);
}

/* It does not begin and end as the program has something to say. */
static void a_ring_has_all_metadata_and_takes_it_from_no_other(void **state)
{
    (void)state;
    assert_int_equal(kineto_metadata_add("long ago", "1"), KINETO_OK);
    kineto_trace_release(finish(record()));
    kineto_session *ring = session_of(KINETO_KINDS_ALL, 4u << 20, KINETO_RETAIN_NEWEST);
    assert_int_equal(kineto_metadata_add("meanwhile", "1"), KINETO_OK);
    kineto_trace *t = finish(record());
    assert_int_equal(header_of(t, "long ago").size, 0);
    assert_int_equal(header_of(t, "meanwhile").size, 1);
    kineto_trace_release(t);
    t = finish(ring);
    assert_int_equal(header_of(t, "long ago").size, 1);
    assert_int_equal(header_of(t, "meanwhile").size, 1);
    kineto_trace_release(t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_a_program_says_is_said_of_the_sessions_that_record),
        cmocka_unit_test(what_a_program_says_for_good_is_in_all_that_follow),
        cmocka_unit_test(counts_of_a_line_said_again_stop_at_what_a_number_holds),
        cmocka_unit_test(a_ring_has_all_metadata_and_takes_it_from_no_other),
        cmocka_unit_test(what_others_record_in_a_pause_is_theirs),
        cmocka_unit_test(pauses_are_a_line_of_the_ledger),
        cmocka_unit_test(calls_in_the_wrong_order_say_so),
        cmocka_unit_test(a_session_that_warms_up_has_not_started),
        cmocka_unit_test(a_warm_up_is_not_in_the_trace),
        cmocka_unit_test(null_arguments_are_refused_or_fine),
        cmocka_unit_test(options_that_make_no_sense_are_refused),
        cmocka_unit_test(too_many_sessions_are_refused),
        cmocka_unit_test(each_session_sees_its_own_kinds),
        cmocka_unit_test(windows_overlap_freely),
        cmocka_unit_test(ranges_across_a_windows_edges_are_cut_and_flagged),
        cmocka_unit_test(sessions_begin_with_nothing),
        cmocka_unit_test(a_session_may_be_about_its_own_thread),
        cmocka_unit_test(threads_profile_themselves_side_by_side),
        cmocka_unit_test(a_thousand_sessions_while_threads_are_inside_ranges),
        cmocka_unit_test(snapshots_of_a_busy_ring_are_whole),
        cmocka_unit_test(a_smaller_session_sees_threads_of_a_larger_one),
        cmocka_unit_test(memory_does_not_grow_with_the_number_of_sessions),
        cmocka_unit_test(memory_goes_back_when_the_last_session_ends),
    };
    return RUN_TESTS(tests);
}
