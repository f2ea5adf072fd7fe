/* Plug-ins that deliver from many threads: step by step at once, threads that end half-way, calls
 * that race with the end of a session, and sessions that come and go on several threads. */
#include "unit.h"

#include "../helpers/recording.h"

#include "base/base.h"

#include "../helpers/plugins.h"

#define LATE "delivered when the session was over"

/* ---- step by step ------------------------------------------------------------------------------------- */

typedef struct worker {
    fake *f;
    int number;
    pthread_barrier_t *together;
    uint64_t taken, refused, random;
} worker;

static void *add_in_steps_together(void *argument)
{
    worker *w = argument;
    const builder *b = live_of(w->f);
    handle *h = b->pTraceBuilderHandle;
    char text[32];
    for (int i = 0; i < 20; i++) {
        KinetoPlugin_ProfileEvent e =
            event_of(TYPE(CONCURRENT_KERNEL), in_session(w->f), in_session(w->f) + 1);
        e.resourceId = w->number;
        snprintf(text, sizeof text, "thread %d", w->number);
        pthread_barrier_wait(w->together); /* all have one under way */
        w->taken += b->addEvent(h, &e) == 0;
        pthread_barrier_wait(w->together);
        w->refused += b->setLastEventName(h, text) != 0;
        pthread_barrier_wait(w->together);
        snprintf(text, sizeof text, "%d", w->number * 1000 + i);
        w->refused += b->addLastEventMetadata(h, "n", text) != 0;
        w->refused += b->setLastEventIds(h, (uint64_t)w->number, (uint64_t)i + 1) != 0;
    }
    return NULL;
}

static void many_threads_have_an_event_under_way_at_once(void **state)
{
    (void)state;
    enum { THREADS = 80 };
    static worker workers[THREADS];
    pthread_t threads[THREADS];
    pthread_barrier_t together;
    pthread_barrier_init(&together, NULL, THREADS);
    fake *f = enter(0, "steps");
    for (int round = 0; round < 2; round++) {
        kineto_session *s = session_of(KINETO_KINDS_ALL, 16u << 20, KINETO_RETAIN_OLDEST);
        for (int i = 0; i < THREADS; i++) {
            workers[i] = (worker){.f = f, .number = i, .together = &together};
            threads[i] = start_thread(add_in_steps_together, &workers[i]);
        }
        for (int i = 0; i < THREADS; i++) {
            assert_int_equal(pthread_join(threads[i], NULL), 0);
            assert_int_equal(workers[i].taken, 20);
            assert_int_equal(workers[i].refused, 0);
        }
        kineto_trace *t = finish(s);
        verify(t);
        assert_nothing_lost(t);
        assert_int_equal(kineto_trace_count(t), THREADS * 20);
        for (kineto_row r = 0; r < kineto_trace_count(t); r++) {
            char name[32];
            int64_t number = track_of(t, r).id;
            snprintf(name, sizeof name, "thread %d", (int)number);
            assert_text(row_at(t, r).name, name);
            assert_int_equal(arg_of(t, r, "n").i / 1000, number);
            assert_int_equal(row_at(t, r).external_id, arg_of(t, r, "n").i % 1000 + 1);
        }
        kineto_trace_release(t);
    }
    leave(0);
    pthread_barrier_destroy(&together);
}

static void *add_without_an_end(void *argument)
{
    worker *w = argument;
    w->taken += add_named(live_of(w->f), in_session(w->f), "whole") == 0;
    KinetoPlugin_ProfileEvent e =
        event_of(TYPE(CONCURRENT_KERNEL), in_session(w->f), in_session(w->f) + 1);
    w->taken += live_of(w->f)->addEvent(live_of(w->f)->pTraceBuilderHandle, &e) == 0;
    return NULL;
}

static void what_a_thread_leaves_half_done_is_delivered_as_it_is(void **state)
{
    (void)state;
    fake *f = enter(0, "half");
    worker w = {.f = f};
    kineto_session *s = record();
    for (int i = 0; i < 50; i++) /* ids of threads are used again */
        assert_int_equal(pthread_join(start_thread(add_without_an_end, &w), NULL), 0);
    assert_int_equal(w.taken, 100);
    kineto_trace *t = snapshot(s); /* what is left is there before the session ends */
    assert_int_equal(count_named(t, "whole"), 50);
    assert_int_equal(count_named(t, ""), 50);
    kineto_trace_release(t);
    (void)add_without_an_end(&w); /* this thread goes on */
    t = finish(s);
    verify(t);
    assert_nothing_lost(t);
    assert_int_equal(count_named(t, "whole"), 51);
    assert_int_equal(count_named(t, ""), 51);
    kineto_trace_release(t);
    /* what was under way is not in the next session, nor can it be changed there */
    s = record();
    assert_int_not_equal(f->live->setLastEventName(f->live->pTraceBuilderHandle, "old"), 0);
    t = finish(s);
    assert_int_equal(kineto_trace_count(t), 0);
    kineto_trace_release(t);
    leave(0);
}

static void two_builders_of_a_thread_have_an_event_each(void **state)
{
    (void)state;
    fake *a = enter(0, "first"), *b = enter(1, "second");
    kineto_session *s = record();
    KinetoPlugin_ProfileEvent e = event_of(TYPE(CONCURRENT_KERNEL), a->started_ns, a->started_ns);
    handle *ha = a->live->pTraceBuilderHandle, *hb = b->live->pTraceBuilderHandle;
    for (int i = 0; i < 10; i++) {
        assert_int_equal(a->live->addEvent(ha, &e), 0);
        assert_int_equal(b->live->addEvent(hb, &e), 0);
        assert_int_equal(a->live->setLastEventName(ha, "of a"), 0);
        assert_int_equal(b->live->setLastEventName(hb, "of b"), 0);
        assert_int_equal(emit_named(a->live, "live"), 0); /* ends the event of a, not of b */
        assert_int_not_equal(a->live->setLastEventName(ha, "nothing"), 0);
        assert_int_equal(b->live->addLastEventMetadata(hb, "n", "1"), 0);
    }
    kineto_trace *t = finish(s);
    verify(t);
    assert_int_equal(ledger(t, "first", "delivered"), 20);
    assert_int_equal(ledger(t, "second", "delivered"), 10);
    assert_int_equal(count_named(t, "of a"), 10);
    assert_int_equal(count_named(t, "of b"), 10);
    assert_int_equal(arg_of(t, find_nth(t, "of b", 9).row, "n").i, 1);
    assert_int_equal(ledger(t, "first", "invalid event from a plug-in"), 10);
    kineto_trace_release(t);
    leave(0);
    leave(1);
}

/* ---- against the end of a session ------------------------------------------------------------------------ */

static uint32_t stop_delivering;

static void *deliver_until_signalled(void *argument)
{
    worker *w = argument;
    while (!kb_load_acquire(&stop_delivering)) {
        bool steps = w->number & 1;
        int result = steps ? add_named(live_of(w->f), in_session(w->f), "steps")
                           : emit_named(live_of(w->f), "whole");
        kb_add_relaxed(result ? &w->refused : &w->taken, 1);
    }
    return NULL;
}

static void calls_that_race_with_the_end_are_taken_or_refused(void **state)
{
    (void)state;
    enum { THREADS = 4, ROUNDS = 40 };
    worker workers[THREADS];
    pthread_t threads[THREADS];
    fake *f = enter(0, "races");
    kineto_trace_release(finish(record())); /* there is a builder to call */
    stop_delivering = 0;
    for (int i = 0; i < THREADS; i++) {
        workers[i] = (worker){.f = f, .number = i};
        threads[i] = start_thread(deliver_until_signalled, &workers[i]);
    }
    uint64_t rows = 0, late = 0;
    for (int round = 0; round < ROUNDS; round++) {
        kineto_session *s = session_of(KINETO_KINDS_ALL, 1 << 20, KINETO_RETAIN_OLDEST);
        usleep(500);
        kineto_trace *t = finish(s);
        verify(t);
        /* each that was delivered is a row, or was at a time outside */
        assert_true(kineto_trace_count(t) <= ledger(t, "races", "delivered"));
        for (kineto_row r = 0; r < kineto_trace_count(t); r++)
            assert_true(text_is(row_at(t, r).name, "whole") ||
                        text_is(row_at(t, r).name, "steps") ||
                        text_is(row_at(t, r).name, "")); /* its name came too late */
        rows += kineto_trace_count(t);
        late += ledger(t, "races", LATE);
        kineto_trace_release(t);
    }
    kb_store_release(&stop_delivering, 1);
    for (int i = 0; i < THREADS; i++)
        assert_int_equal(pthread_join(threads[i], NULL), 0);
    assert_true(rows > 0);
    print_message("%llu rows, %llu late\n", (unsigned long long)rows, (unsigned long long)late);
    leave(0);
}

/* ---- sessions on several threads --------------------------------------------------------------------------- */

static void be_live(fake *f, char letter, const builder *b)
{
    (void)f;
    if (letter == 's')
        assert_int_equal(emit_named(b, "started"), 0);
    usleep(100); /* so that others queue */
}

/* While a session of this thread is open, the plug-in has one. */
static void *record_and_deliver(void *argument)
{
    worker *w = argument;
    for (int i = 0; i < 60; i++) {
        kineto_session *s = NULL;
        kineto_trace *t = NULL;
        kineto_session_options o;
        kineto_session_options_init(&o);
        o.buffer_bytes = 8u << 20;
        if (begin_session(&o, &s, NULL))
            break;
        for (int n = 0; n < 5; n++) {
            int result = emit_named(live_of(w->f), "asked for");
            *(result ? &w->refused : &w->taken) += 1;
        }
        if (end_session(s, (i + w->number) % 7 ? NULL : &t, NULL))
            break;
        kineto_trace_release(t);
        usleep((unsigned)(next_random(&w->random) % 300)); /* sometimes no session records */
    }
    return NULL;
}

static void sessions_of_several_threads_have_the_plug_in_all_the_time(void **state)
{
    (void)state;
    enum { THREADS = 3 };
    worker workers[THREADS];
    pthread_t threads[THREADS];
    fake *f = enter(0, "asked");
    f->at = be_live;
    for (int i = 0; i < THREADS; i++) {
        workers[i] = (worker){.f = f, .number = i, .random = (uint64_t)i};
        threads[i] = start_thread(record_and_deliver, &workers[i]);
    }
    for (int i = 0; i < THREADS; i++) {
        assert_int_equal(pthread_join(threads[i], NULL), 0);
        assert_int_equal(workers[i].taken, 300);
        assert_int_equal(workers[i].refused, 0);
    }
    leave(0);
}

/* Threads end while the plug-in that they delivered for is withdrawn. */
static void *add_and_end(void *argument)
{
    const worker *w = argument;
    const builder *b = live_of(w->f);
    for (int i = 0; b && i < w->number % 40; i++)
        (void)add_named(b, in_session(w->f), "added");
    return NULL;
}

static void threads_may_end_while_a_plug_in_is_withdrawn(void **state)
{
    (void)state;
    enum { THREADS = 8, ROUNDS = 150 };
    kineto_session *s = record();
    for (int round = 0; round < ROUNDS; round++) {
        worker workers[THREADS];
        pthread_t threads[THREADS];
        fake *f = enter(0, "withdrawn");
        for (int i = 0; i < THREADS; i++) {
            workers[i] = (worker){.f = f, .number = round * 7 + i * 5};
            threads[i] = start_thread(add_and_end, &workers[i]);
        }
        leave(0);
        for (int i = 0; i < THREADS; i++)
            assert_int_equal(pthread_join(threads[i], NULL), 0);
    }
    kineto_trace *t = finish(s);
    verify(t);
    kineto_trace_release(t);
}

int main(int count, char **arguments)
{
    (void)kb_log_configure(KINETO_LOG_OFF, NULL, NULL); /* refusals are what is tested here */
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(many_threads_have_an_event_under_way_at_once),
        cmocka_unit_test(what_a_thread_leaves_half_done_is_delivered_as_it_is),
        cmocka_unit_test(two_builders_of_a_thread_have_an_event_each),
        cmocka_unit_test(calls_that_race_with_the_end_are_taken_or_refused),
        cmocka_unit_test(sessions_of_several_threads_have_the_plug_in_all_the_time),
        cmocka_unit_test(threads_may_end_while_a_plug_in_is_withdrawn),
    };
    if (count > 1)
        cmocka_set_test_filter(arguments[1]);
    return RUN_TESTS(tests);
}
