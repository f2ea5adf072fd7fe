/* Threads that come and go: nothing is lost with them, and nothing is counted twice. */
#include "unit.h"

#include "../helpers/recording.h"
#include "record/cursor.h"

#include <sched.h>
#include <semaphore.h>
#include <signal.h>

KINETO_SITE_ARGS(site_work, KINETO_KIND_CPU_OP, "work", {"thread", KINETO_ARG_INT},
                 {"n", KINETO_ARG_INT});
KINETO_SITE(site_open, KINETO_KIND_USER_ANNOTATION, "open");
KINETO_SITE(site_late, KINETO_KIND_CPU_OP, "late");

typedef struct job {
    int number, count;
} job;

static void *work(void *argument)
{
    const job *j = argument;
    for (int n = 0; n < j->count; n++) {
        kineto_value v[] = {{.i = j->number}, {.i = n}};
        kineto_range r = kineto_range_begin_args(&site_work, v);
        if (n % 50 == 0)
            sched_yield();
        kineto_range_end(r);
    }
    return NULL;
}

/* Per thread: 0, 1, 2 … in the order of the track, each on one track only. */
static void check_order(const kineto_trace *t, int threads, int count)
{
    int *next = calloc((size_t)threads, sizeof *next);
    for (uint32_t i = 0; i < kineto_trace_track_count(t); i++) {
        kineto_track track;
        kineto_trace_track(t, i, &track);
        const kineto_row *rows = kineto_trace_track_rows(t, i);
        for (uint64_t k = 0; k < track.count; k++) {
            if (!text_is(row_at(t, rows[k]).name, "work"))
                continue;
            int64_t thread = arg_of(t, rows[k], "thread").i;
            assert_true(thread >= 0 && thread < threads);
            assert_int_equal(arg_of(t, rows[k], "n").i, next[thread]++);
        }
    }
    for (int i = 0; i < threads; i++)
        assert_int_equal(next[i], count);
    free(next);
}

static void waves_of_threads_lose_nothing(void **state)
{
    (void)state;
    enum { WAVES = 6, THREADS = 64, COUNT = 100 };
    static job jobs[WAVES * THREADS];
    /* Half of what a chunk per thread would take: threads go on in what others left. */
    kineto_session *s =
        session_of(KINETO_KINDS_ALL, (size_t)WAVES * THREADS * 16384 / 2, KINETO_RETAIN_OLDEST);
    for (int w = 0; w < WAVES; w++) {
        pthread_t threads[THREADS];
        for (int i = 0; i < THREADS; i++) {
            int number = w * THREADS + i;
            jobs[number] = (job){number, COUNT};
            threads[i] = start_thread(work, &jobs[number]);
        }
        for (int i = 0; i < THREADS; i++)
            pthread_join(threads[i], NULL);
    }
    kineto_trace *t = finish(s);
    verify(t);
    assert_nothing_lost(t);
    assert_int_equal(kineto_trace_count(t), WAVES * THREADS * COUNT);
    check_order(t, WAVES * THREADS, COUNT);
    kineto_trace_release(t);
}

static void short_threads_share_chunks(void **state)
{
    (void)state;
    enum { THREADS = 1000 };
    kineto_session *s = session_of(KINETO_KINDS_ALL, 16 * 16384, KINETO_RETAIN_OLDEST);
    for (int i = 0; i < THREADS; i++) {
        job j = {i, 1};
        pthread_join(start_thread(work, &j), NULL);
    }
    kineto_trace *t = finish(s);
    verify(t);
    assert_nothing_lost(t);
    check_order(t, THREADS, 1);
    kineto_trace_release(t);
}

static void threads_in_a_full_buffer_account_for_every_call(void **state)
{
    (void)state;
    enum { THREADS = 16, COUNT = 5000 };
    job jobs[THREADS];
    pthread_t threads[THREADS];
    kineto_session *s = session_of(KINETO_KINDS_ALL, 32 * 16384, KINETO_RETAIN_OLDEST);
    for (int i = 0; i < THREADS; i++) {
        jobs[i] = (job){i, COUNT};
        threads[i] = start_thread(work, &jobs[i]);
    }
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    kineto_trace *t = finish(s);
    verify(t);
    assert_true(kineto_trace_lost(t) > 0);
    assert_int_equal(kineto_trace_count(t) + kineto_trace_lost(t), THREADS * COUNT);
    assert_int_equal(ledger(t, "program", "buffer full"), kineto_trace_lost(t));
    kineto_trace_release(t);
}

static void *leave_open(void *argument)
{
    (void)argument;
    (void)kineto_range_begin(&site_open);
    kineto_range r = kineto_range_begin(&site_work);
    kineto_range_end(r);
    (void)kineto_range_begin(&site_open);
    return NULL;
}

static void ranges_left_open_end_with_their_thread(void **state)
{
    (void)state;
    KINETO_SITE(afterwards, KINETO_KIND_CPU_OP, "afterwards");
    kineto_session *s = record();
    pthread_join(start_thread(leave_open, NULL), NULL);
    kineto_instant_mark(&afterwards, NULL);
    kineto_trace *t = finish(s);
    verify(t);
    assert_int_equal(kineto_trace_lost(t), 0);
    assert_int_equal(count_named(t, "open"), 2);
    int64_t end = find_only(t, "afterwards").start_ns;
    for (uint64_t i = 0; i < 2; i++) {
        kineto_activity a = find_nth(t, "open", i);
        assert_int_equal(a.flags, KINETO_ACTIVITY_OPEN_END);
        assert_true(a.end_ns <= end);
    }
    kineto_trace_release(t);
}

static sem_t inside;

static void *wait_for_cancel(void *argument)
{
    (void)argument;
    KINETO_SCOPED("cancelled");
    (void)kineto_range_begin(&site_open);
    sem_post(&inside);
    for (;;)
        pause();
    return NULL;
}

static void *spin_for_cancel(void *argument)
{
    (void)argument;
    pthread_setcanceltype(PTHREAD_CANCEL_ASYNCHRONOUS, NULL);
    sem_post(&inside);
    for (;;)
        kineto_range_end(kineto_range_begin(&site_work));
    return NULL;
}

static void cancelled_threads_leave_whole_records(void **state)
{
    (void)state;
    void *result;
    sem_init(&inside, 0, 0);
    kineto_session *s = record();
    for (int i = 0; i < 20; i++) {
        pthread_t thread = start_thread(wait_for_cancel, NULL);
        sem_wait(&inside);
        pthread_cancel(thread);
        pthread_join(thread, &result);
        assert_ptr_equal(result, PTHREAD_CANCELED);
    }
    kineto_trace *t = finish(s);
    verify(t);
    assert_int_equal(kineto_trace_lost(t), 0);
    assert_int_equal(count_named(t, "cancelled"), 20);
    assert_int_equal(count_named(t, "open"), 20);
    kineto_trace_release(t);
}

/* Cancelled anywhere, also in the middle of a call: no damage to what follows in the chunk. */
static void threads_cancelled_inside_a_call_do_no_damage(void **state)
{
    (void)state;
#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
    skip(); /* the sanitizers do not stand asynchronous cancellation */
#endif
    sem_init(&inside, 0, 0);
    kineto_session *s = session_of(KINETO_KINDS_ALL, 16u << 20, KINETO_RETAIN_NEWEST);
    for (int i = 0; i < 200; i++) {
        pthread_t thread = start_thread(spin_for_cancel, NULL);
        sem_wait(&inside);
        for (int k = 0; k < i % 7; k++)
            sched_yield();
        pthread_cancel(thread);
        pthread_join(thread, NULL);
        job j = {1, 10};
        pthread_join(start_thread(work, &j), NULL);
    }
    kineto_trace *t = finish(s);
    verify(t);
    kineto_trace_release(t);
}

static sem_t go_on;

/* As a thread that is cancelled when it has just claimed chunks that others left. */
static void *claim_and_vanish(void *argument)
{
    uint32_t used = 0;
    (void)argument;
    kineto_range_end(kineto_range_begin(&site_open));
    sem_post(&inside);
    sem_wait(&go_on);
    do {
        if (kf_chunk_claim(kr_pool_get(), kr_identity(), &used) == UINT32_MAX)
            break;
    } while (used); /* all that are partly filled, and one that is free */
    kr_me->busy = 1;
    return NULL;
}

static void a_thread_cancelled_with_a_chunk_of_others_leaves_their_records(void **state)
{
    (void)state;
    job j = {1, 10};
    sem_init(&inside, 0, 0);
    sem_init(&go_on, 0, 0);
    kineto_session *s = record();
    pthread_t thread = start_thread(claim_and_vanish, NULL);
    sem_wait(&inside);
    pthread_join(start_thread(work, &j), NULL);
    sem_post(&go_on);
    pthread_join(thread, NULL);
    kineto_trace *t = finish(s);
    verify(t);
    assert_int_equal(count_named(t, "work"), 10);
    assert_int_equal(count_named(t, "open"), 1);
    kineto_trace_release(t);
}

#if defined(__x86_64__) && !defined(__SANITIZE_THREAD__) && !defined(__SANITIZE_ADDRESS__)
#define CAN_STEP 1
#else
#define CAN_STEP 0 /* the sanitizers do not stand threads that end in a handler */
#endif

enum { MOST_STEPS = 4096 };
static int stepper_done[MOST_STEPS]; /* records that came to their end, by thread */
static volatile int steps_left;
static volatile bool stepped_through;

static void end_thread_in_time(int signal)
{
    (void)signal;
    if (--steps_left == 0)
        pthread_exit(NULL);
}

/* The handler runs after every single instruction. */
static void step_by_step(bool on)
{
#if CAN_STEP
    uint64_t trap = 0x100, flags = __builtin_ia32_readeflags_u64();
    __builtin_ia32_writeeflags_u64(on ? flags | trap : flags & ~trap);
#else
    (void)on;
#endif
}

static void work_once(int number)
{
    kineto_value v[] = {{.i = number}, {.i = stepper_done[number]}};
    kineto_range_end(kineto_range_begin_args(&site_work, v));
    stepper_done[number]++;
}

/* Fills a chunk, and ends N instructions after it began to record what has no room there. */
static void *end_in_change_of_chunks(void *argument)
{
    int number = *(int *)argument;
    do
        work_once(number);
    while (kr_me->limit - kr_me->at >= 5);
    steps_left = number + 1;
    step_by_step(true);
    work_once(number);
    step_by_step(false);
    stepped_through = true;
    return NULL;
}

static void check_that_all_done_is_there(const kineto_trace *t, int from, int until)
{
    int next[MOST_STEPS] = {0};
    for (uint32_t i = 0; i < kineto_trace_track_count(t); i++) {
        kineto_track track;
        kineto_trace_track(t, i, &track);
        const kineto_row *rows = kineto_trace_track_rows(t, i);
        for (uint64_t k = 0; k < track.count; k++)
            if (text_is(row_at(t, rows[k]).name, "work"))
                assert_int_equal(arg_of(t, rows[k], "n").i, next[arg_of(t, rows[k], "thread").i]++);
    }
    for (int i = from; i < until; i++)
        assert_in_range(next[i], stepper_done[i], stepper_done[i] + 1);
}

/* In a small buffer: looking for a free chunk takes few instructions there. */
static int record_steppers(int number)
{
    enum { AT_ONCE = 40 };
    int from = number;
    kineto_session *s = session_of(KINETO_KINDS_ALL, 128 * 16384, KINETO_RETAIN_OLDEST);
    for (; number < from + AT_ONCE && !stepped_through; number++)
        pthread_join(start_thread(end_in_change_of_chunks, &number), NULL);
    kineto_trace *t = finish(s);
    verify(t);
    assert_int_equal(kineto_trace_lost(t), 0);
    check_that_all_done_is_there(t, from, number);
    kineto_trace_release(t);
    return number;
}

static void a_thread_that_ends_anywhere_in_a_change_of_chunks_keeps_its_records(void **state)
{
    (void)state;
    if (!CAN_STEP)
        skip();
    struct sigaction before, stepping = {.sa_handler = end_thread_in_time};
    sigaction(SIGTRAP, &stepping, &before);
    stepped_through = false;
    for (int number = 0; !stepped_through;) {
        assert_true(number < MOST_STEPS - 40);
        number = record_steppers(number);
    }
    sigaction(SIGTRAP, &before, NULL);
}

static sem_t finished;

static void *detached(void *argument)
{
    work(argument);
    sem_post(&finished);
    return NULL;
}

static void detached_threads_are_recorded(void **state)
{
    (void)state;
    enum { THREADS = 8, COUNT = 200 };
    job jobs[THREADS];
    sem_init(&finished, 0, 0);
    kineto_session *s = record();
    for (int i = 0; i < THREADS; i++) {
        jobs[i] = (job){i, COUNT};
        pthread_detach(start_thread(detached, &jobs[i]));
    }
    for (int i = 0; i < THREADS; i++)
        sem_wait(&finished);
    kineto_trace *t = finish(s); /* some may be exiting right now */
    verify(t);
    assert_nothing_lost(t);
    assert_int_equal(kineto_trace_count(t), THREADS * COUNT);
    check_order(t, THREADS, COUNT);
    kineto_trace_release(t);
}

/* ---- destructors of the threads' own data -------------------------------------------------------- */

static pthread_key_t late_key;

static void record_late(void *value)
{
    kineto_range_end(kineto_range_begin(&site_late));
    int left = (int)(intptr_t)value - 1;
    if (left > 0) /* again, after the recorder's own destructor */
        pthread_setspecific(late_key, (void *)(intptr_t)left);
}

static void *set_late(void *argument)
{
    pthread_setspecific(late_key, argument);
    kineto_range_end(kineto_range_begin(&site_work));
    return NULL;
}

static void records_of_late_destructors_are_kept(void **state)
{
    (void)state;
#if defined(__SANITIZE_THREAD__)
    enum { THREADS = 300, ROUNDS = 2 }; /* the sanitizer ends before the last round */
#else
    enum { THREADS = 300, ROUNDS = 3 };
#endif
    assert_int_equal(pthread_key_create(&late_key, record_late), 0);
    for (int rounds = 1; rounds <= ROUNDS; rounds++) {
        kineto_session *s = session_of(KINETO_KINDS_ALL, 16 * 16384, KINETO_RETAIN_OLDEST);
        for (int i = 0; i < THREADS; i++)
            pthread_join(start_thread(set_late, (void *)(intptr_t)rounds), NULL);
        kineto_trace *t = finish(s);
        verify(t);
        assert_nothing_lost(t);
        assert_int_equal(count_named(t, "work"), THREADS);
        assert_int_equal(count_named(t, "late"), (uint64_t)THREADS * (uint64_t)rounds);
        kineto_trace_release(t);
    }
    pthread_key_delete(late_key);
}

/* ---- sites --------------------------------------------------------------------------------------- */

static kineto_site race_sites[2000];
static pthread_barrier_t barrier;

static void *first_use(void *argument)
{
    uint64_t offset = *(const uint64_t *)argument;
    for (size_t i = 0; i < COUNT_OF(race_sites); i++) {
        if (i % 50 == 0)
            pthread_barrier_wait(&barrier);
        kineto_async_begin(&race_sites[i], offset + i, NULL);
    }
    pthread_barrier_wait(&barrier);
    for (size_t i = 0; i < COUNT_OF(race_sites); i++) /* the other thread's */
        kineto_async_end(&race_sites[i], (offset ^ 0x10000) + i);
    return NULL;
}

/* Two threads that use a site for the first time at once agree on what it is. */
static void a_site_used_first_by_two_threads_is_one_site(void **state)
{
    (void)state;
    uint64_t offsets[] = {0x20000, 0x30000};
    for (size_t i = 0; i < COUNT_OF(race_sites); i++)
        race_sites[i] = (kineto_site){0, KINETO_KIND_CPU_OP, 0, 0, 0, "race", NULL};
    pthread_barrier_init(&barrier, NULL, 2);
    kineto_session *s = record();
    pthread_t other = start_thread(first_use, &offsets[1]);
    first_use(&offsets[0]);
    pthread_join(other, NULL);
    kineto_trace *t = finish(s);
    verify(t);
    assert_nothing_lost(t);
    assert_int_equal(kineto_trace_count(t), 2 * COUNT_OF(race_sites));
    for (kineto_row r = 0; r < kineto_trace_count(t); r++)
        assert_int_equal(row_at(t, r).flags, 0);
    kineto_trace_release(t);
    pthread_barrier_destroy(&barrier);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(waves_of_threads_lose_nothing),
        cmocka_unit_test(short_threads_share_chunks),
        cmocka_unit_test(threads_in_a_full_buffer_account_for_every_call),
        cmocka_unit_test(ranges_left_open_end_with_their_thread),
        cmocka_unit_test(cancelled_threads_leave_whole_records),
        cmocka_unit_test(threads_cancelled_inside_a_call_do_no_damage),
        cmocka_unit_test(a_thread_cancelled_with_a_chunk_of_others_leaves_their_records),
        cmocka_unit_test(a_thread_that_ends_anywhere_in_a_change_of_chunks_keeps_its_records),
        cmocka_unit_test(detached_threads_are_recorded),
        cmocka_unit_test(records_of_late_destructors_are_kept),
        cmocka_unit_test(a_site_used_first_by_two_threads_is_one_site),
    };
    return RUN_TESTS(tests);
}
