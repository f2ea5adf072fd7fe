/* Signal handlers that record, wherever they interrupt the program. */
#include "unit.h"

#include "../helpers/recording.h"

#include <ckineto/function.h>

#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <sys/time.h>
#include <ucontext.h>

KINETO_SITE_ARGS(site_main, KINETO_KIND_CPU_OP, "main", {"n", KINETO_ARG_INT});
KINETO_SITE_ARGS(site_handler, KINETO_KIND_USER_ANNOTATION, "handler", {"n", KINETO_ARG_INT},
                 {"text", KINETO_ARG_STRING});
KINETO_SITE(site_inner, KINETO_KIND_CPU_OP, "handler inner");
KINETO_SITE(site_outer, KINETO_KIND_USER_ANNOTATION, "outer");

static int handled_count; /* in handlers of any thread */

static int handled(void) { return __atomic_load_n(&handled_count, __ATOMIC_SEQ_CST); }

static void record_in_handler(int sig)
{
    int saved = errno;
    (void)sig;
    kineto_value v[] = {{.i = handled()}, {.s = "in a handler"}};
    kineto_range r = kineto_range_begin_args(&site_handler, v);
    kineto_range_end(kineto_range_begin(&site_inner));
    kineto_range_end(r);
    __atomic_fetch_add(&handled_count, 1, __ATOMIC_SEQ_CST);
    errno = saved;
}

static void on_signal(int sig, void (*handler)(int), int flags)
{
    struct sigaction action = {.sa_handler = handler, .sa_flags = flags | SA_RESTART};
    sigfillset(&action.sa_mask);
    assert_int_equal(sigaction(sig, &action, NULL), 0);
}

static void set_timer(int which, int microseconds)
{
    struct itimerval timer = {{0, microseconds}, {0, microseconds}};
    assert_int_equal(setitimer(which, &timer, NULL), 0);
}

static int64_t work_until(int signals)
{
    int64_t n = 0;
    while (handled() < signals) {
        kineto_value v = {.i = n++};
        kineto_range_end(kineto_range_begin_args(&site_main, &v));
    }
    return n;
}

/* Numbers of the rows with this name, in the order of the track: 0, 1, 2 … */
static void check_numbers(const kineto_trace *t, const char *name, int64_t count)
{
    int64_t next = 0;
    const kineto_row *order = kineto_trace_time_order(t);
    for (uint64_t i = 0; i < kineto_trace_count(t); i++)
        if (text_is(row_at(t, order[i]).name, name))
            assert_int_equal(arg_of(t, order[i], "n").i, next++);
    assert_int_equal(next, count);
}

static void check_handler_rows(const kineto_trace *t)
{
    check_numbers(t, "handler", handled());
    assert_int_equal(count_named(t, "handler inner"), handled());
    for (kineto_row r = 0; r < kineto_trace_count(t); r++) {
        kineto_activity a = row_at(t, r);
        if (text_is(a.name, "handler")) {
            assert_text(arg_of(t, r, "text").text, "in a handler");
            assert_int_equal(a.flags, 0);
        } else if (text_is(a.name, "handler inner")) {
            kineto_row parent = kineto_trace_parent(t, r);
            assert_true(parent != KINETO_NO_ROW);
            assert_text(row_at(t, parent).name, "handler");
        }
    }
}

static void a_timer_that_records_loses_and_breaks_nothing(void **state)
{
    (void)state;
    const int which[] = {ITIMER_REAL, ITIMER_PROF}, signals[] = {SIGALRM, SIGPROF};
    for (size_t i = 0; i < COUNT_OF(which); i++) {
        __atomic_store_n(&handled_count, 0, __ATOMIC_SEQ_CST);
        on_signal(signals[i], record_in_handler, 0);
        kineto_session *s = session_of(KINETO_KINDS_ALL, 64u << 20, KINETO_RETAIN_OLDEST);
        set_timer(which[i], 1000);
        int64_t calls = work_until(FEWER(100, 25));
        set_timer(which[i], 0);
        kineto_trace *t = finish(s);
        verify(t);
        assert_int_equal(kineto_trace_count(t) + kineto_trace_lost(t), calls + 2 * handled());
        if (kineto_trace_lost(t) == 0) { /* a machine too slow fills the buffer */
            check_numbers(t, "main", calls);
            check_handler_rows(t);
        }
        kineto_trace_release(t);
    }
}

/* ---- storms from other threads ------------------------------------------------------------------- */

static uint32_t storm_over;
static int storm_signals[] = {SIGUSR1, SIGUSR1};

static void *storm(void *argument)
{
    pthread_t target = *(const pthread_t *)argument;
    for (int i = 0; !__atomic_load_n(&storm_over, __ATOMIC_RELAXED); i++) {
        pthread_kill(target, storm_signals[i & 1]);
        sched_yield();
    }
    return NULL;
}

/* Chunks change, open ranges are carried over, names are copied, while signals come in between. */
static void a_storm_of_signals_loses_and_breaks_nothing(void **state)
{
    (void)state;
    enum { LEAVES = 30000 };
    char name[200];
    __atomic_store_n(&handled_count, 0, __ATOMIC_SEQ_CST);
    storm_over = 0;
    on_signal(SIGUSR1, record_in_handler, 0);
    kineto_session *s = session_of(KINETO_KINDS_ALL, 64u << 20, KINETO_RETAIN_OLDEST);
    pthread_t self = pthread_self(), stormers[2];
    for (int i = 0; i < 2; i++)
        stormers[i] = start_thread(storm, &self);
    kineto_range outer[20];
    for (int i = 0; i < 20; i++)
        outer[i] = kineto_range_begin(&site_outer);
    for (int n = 0; n < LEAVES; n++) {
        kineto_value v = {.i = n};
        if (n % 16 == 0) {
            snprintf(name, sizeof name, "%0*d", 8 + n % 150, n);
            kineto_props props = {.size = sizeof props, .name = name, .values = &v};
            kineto_range_end(kineto_range_begin_props(&site_main, &props));
        } else {
            kineto_range_end(kineto_range_begin_args(&site_main, &v));
        }
    }
    for (int i = 20; i > 0; i--)
        kineto_range_end(outer[i - 1]);
    __atomic_store_n(&storm_over, 1, __ATOMIC_RELAXED);
    for (int i = 0; i < 2; i++)
        pthread_join(stormers[i], NULL);
    kineto_trace *t = finish(s);
    verify(t);
    assert_nothing_lost(t);
    assert_int_equal(count_named(t, "outer"), 20);
    assert_int_equal(kineto_trace_count(t), LEAVES + 20 + 2 * (uint64_t)handled());
    check_handler_rows(t);
    int next = 0;
    const kineto_row *order = kineto_trace_time_order(t);
    for (uint64_t i = 0; i < kineto_trace_count(t); i++) {
        kineto_activity a = row_at(t, order[i]);
        kineto_arg arg;
        if (a.kind != KINETO_KIND_CPU_OP || !kineto_args_find(t, a.row, "n", &arg))
            continue;
        assert_int_equal(arg.i, next);
        assert_int_equal(a.flags, 0);
        if (next % 16 == 0) {
            snprintf(name, sizeof name, "%0*d", 8 + next % 150, next);
            assert_text(a.name, name);
        }
        next++;
    }
    assert_int_equal(next, LEAVES);
    kineto_trace_release(t);
}

/* A handler that interrupts a handler that interrupts a call: there are two places to write to, the
 * third call is counted. */
static void nested_handlers_are_counted_when_they_cannot_be_recorded(void **state)
{
    (void)state;
    __atomic_store_n(&handled_count, 0, __ATOMIC_SEQ_CST);
    storm_over = 0;
    struct sigaction action = {.sa_handler = record_in_handler, .sa_flags = SA_RESTART};
    sigemptyset(&action.sa_mask); /* each may interrupt the others */
    sigaction(SIGUSR1, &action, NULL);
    sigaction(SIGUSR2, &action, NULL);
    sigaction(SIGALRM, &action, NULL);
    storm_signals[1] = SIGUSR2;
    kineto_session *s = session_of(KINETO_KINDS_ALL, 64u << 20, KINETO_RETAIN_OLDEST);
    pthread_t self = pthread_self(), stormers[2];
    for (int i = 0; i < 2; i++)
        stormers[i] = start_thread(storm, &self);
    set_timer(ITIMER_REAL, 1000);
    uint64_t calls = 0;
    for (; calls < 30000; calls++)
        kineto_range_end(kineto_range_begin(&site_outer));
    set_timer(ITIMER_REAL, 0);
    __atomic_store_n(&storm_over, 1, __ATOMIC_RELAXED);
    for (int i = 0; i < 2; i++)
        pthread_join(stormers[i], NULL);
    kineto_trace *t = finish(s);
    verify(t);
    assert_int_equal(kineto_trace_count(t) + kineto_trace_lost(t), calls + 2 * (uint64_t)handled());
    assert_int_equal(count_named(t, "outer"), calls);
    assert_int_equal(kineto_trace_lost(t), ledger(t, "program", "inside a nested signal handler"));
    kineto_trace_release(t);
}

static void handlers_on_their_own_stack_record(void **state)
{
    (void)state;
    __atomic_store_n(&handled_count, 0, __ATOMIC_SEQ_CST);
    stack_t stack = {.ss_size = 64 * 1024};
    stack.ss_sp = malloc(stack.ss_size);
    assert_int_equal(sigaltstack(&stack, NULL), 0);
    on_signal(SIGUSR2, record_in_handler, SA_ONSTACK);
    kineto_session *s = record();
    for (int i = 0; i < 1000; i++)
        raise(SIGUSR2);
    stack.ss_flags = SS_DISABLE;
    sigaltstack(&stack, NULL);
    free(stack.ss_sp);
    kineto_trace *t = finish(s);
    verify(t);
    assert_nothing_lost(t);
    assert_int_equal(handled(), 1000);
    check_handler_rows(t);
    kineto_trace_release(t);
}

/* The first thing that a thread records may be in a handler. */
static void *handle_first(void *argument)
{
    (void)argument;
    raise(SIGUSR2);
    return NULL;
}

static void a_thread_may_attach_in_a_handler(void **state)
{
    (void)state;
    __atomic_store_n(&handled_count, 0, __ATOMIC_SEQ_CST);
    on_signal(SIGUSR2, record_in_handler, 0);
    kineto_session *s = record();
    for (int i = 0; i < 50; i++)
        pthread_join(start_thread(handle_first, NULL), NULL);
    kineto_trace *t = finish(s);
    verify(t);
    assert_nothing_lost(t);
    check_handler_rows(t);
    kineto_trace_release(t);
}

/* ---- a handler after every single instruction -------------------------------------------------- */

#if defined(__x86_64__) && !defined(__SANITIZE_THREAD__) && !defined(__SANITIZE_ADDRESS__)
#define CAN_STEP 1
#else
#define CAN_STEP 0
#endif

enum { MOST_IDS = 1 << 16 };
static uint64_t ids[MOST_IDS];
static volatile size_t id_count;

static void step_by_step(bool on)
{
#if CAN_STEP
    uint64_t trap = 0x100, flags = __builtin_ia32_readeflags_u64();
    __builtin_ia32_writeeflags_u64(on ? flags | trap : flags & ~trap);
#else
    (void)on;
#endif
}

static uint64_t run_operator(void)
{
    KINETO_OPERATOR(site, "operator");
    kineto_function f;
    kineto_function_begin(&f, &site, NULL, 0);
    uint64_t id = kineto_function_id(&f);
    kineto_function_end(&f);
    return id;
}

static void note_id(uint64_t id)
{
    if (id_count < MOST_IDS)
        ids[id_count++] = id;
}

static void run_operator_in_handler(int sig)
{
    (void)sig;
    note_id(run_operator());
}

static int compare_ids(const void *left, const void *right)
{
    const uint64_t *a = left, *b = right;
    return (*a > *b) - (*a < *b);
}

/* Whatever instruction of an operator's begin and end it interrupts. */
static void operators_of_handlers_have_ids_of_their_own(void **state)
{
    (void)state;
    if (!CAN_STEP)
        skip();
    struct sigaction before, stepping = {.sa_handler = run_operator_in_handler};
    kineto_session *s = session_of(KINETO_KINDS_ALL, 64u << 20, KINETO_RETAIN_OLDEST);
    note_id(run_operator());
    sigaction(SIGTRAP, &stepping, &before);
    for (int i = 0; i < 10; i++) {
        step_by_step(true);
        uint64_t id = run_operator();
        step_by_step(false);
        note_id(id);
    }
    sigaction(SIGTRAP, &before, NULL);
    kineto_trace *t = finish(s);
    verify(t);
    assert_nothing_lost(t);
    assert_in_range(id_count, 100, MOST_IDS - 1);
    assert_int_equal(count_named(t, "operator"), id_count);
    qsort(ids, id_count, sizeof *ids, compare_ids);
    for (size_t i = 1; i < id_count; i++)
        assert_true(ids[i - 1] && ids[i] != ids[i - 1]);
    kineto_trace_release(t);
}

static int steps_until_handled; /* of the thread that is being stepped through */

static void record_in_time(int sig, siginfo_t *info, void *context)
{
    (void)info;
    if (steps_until_handled-- > 0)
        return;
#if CAN_STEP
    ((ucontext_t *)context)->uc_mcontext.gregs[REG_EFL] &= ~0x100; /* on at full speed */
#endif
    (void)context;
    record_in_handler(sig);
    (void)run_operator();
}

static void *attach_step_by_step(void *argument)
{
    steps_until_handled = *(const int *)argument;
    step_by_step(true);
    kineto_range_end(kineto_range_begin(&site_outer));
    step_by_step(false);
    return NULL;
}

/* Whichever instruction of a thread's first record it interrupts: the thread attaches once, and takes
 * no more than a chunk, which it leaves. */
static void a_thread_attaches_once_whatever_a_handler_interrupts(void **state)
{
    (void)state;
    enum { STEPS = 500 }; /* it has attached by then */
    if (!CAN_STEP)
        skip();
    struct sigaction before, stepping = {.sa_sigaction = record_in_time, .sa_flags = SA_SIGINFO};
    __atomic_store_n(&handled_count, 0, __ATOMIC_SEQ_CST);
    kineto_session *s = session_of(KINETO_KINDS_ALL, 16 * 16384, KINETO_RETAIN_OLDEST);
    sigaction(SIGTRAP, &stepping, &before);
    for (int i = 0; i < STEPS; i++)
        pthread_join(start_thread(attach_step_by_step, &i), NULL);
    sigaction(SIGTRAP, &before, NULL);
    assert_int_equal(handled(), STEPS);
    kineto_trace *t = finish(s);
    verify(t);
    assert_int_equal(count_named(t, "outer"), STEPS);
    assert_int_equal(kineto_trace_lost(t), ledger(t, "program", "inside a nested signal handler"));
    assert_int_equal(kineto_trace_count(t) + kineto_trace_lost(t), 4 * STEPS);
    kineto_trace_release(t);
}

/* ---- leaving a handler by a jump ------------------------------------------------------------------- */

static sigjmp_buf home;

static void jump_out(int sig)
{
    (void)sig;
    kineto_range_end(kineto_range_begin(&site_inner));
    (void)kineto_range_begin(&site_handler); /* left open */
    __atomic_fetch_add(&handled_count, 1, __ATOMIC_SEQ_CST);
    siglongjmp(home, 1);
}

static void a_jump_out_of_a_handler_closes_with_the_outer_range(void **state)
{
    (void)state;
    __atomic_store_n(&handled_count, 0, __ATOMIC_SEQ_CST);
    on_signal(SIGUSR2, jump_out, 0);
    kineto_session *s = record();
    for (volatile int i = 0; i < 100; i++) {
        volatile kineto_range outer = kineto_range_begin(&site_outer);
        if (sigsetjmp(home, 1) == 0)
            raise(SIGUSR2);
        kineto_range_end(outer);
    }
    kineto_trace *t = finish(s);
    verify(t);
    assert_nothing_lost(t);
    assert_int_equal(count_named(t, "outer"), 100);
    assert_int_equal(count_named(t, "handler"), 100);
    for (uint64_t i = 0; i < 100; i++) {
        kineto_activity h = find_nth(t, "handler", i);
        assert_int_equal(h.flags, 0);
        assert_text(row_at(t, kineto_trace_parent(t, h.row)).name, "outer");
    }
    kineto_trace_release(t);
}

/* A jump out of a handler that interrupted a record call: the thread goes on recording, in its
 * other place, and every call is either in the trace or counted. */
static void *jump_from_anywhere(void *argument)
{
    uint64_t *calls = argument;
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGALRM);
    pthread_sigmask(SIG_UNBLOCK, &set, NULL);
    for (volatile int i = 0; i < 30; i++)
        if (sigsetjmp(home, 1) == 0) {
            if (i == 0)
                set_timer(ITIMER_REAL, 2000); /* not before there is a place to jump to */
            for (;; ++*calls)
                kineto_range_end(kineto_range_begin(&site_outer));
        }
    set_timer(ITIMER_REAL, 0);
    for (int i = 0; i < 1000; i++, ++*calls)
        kineto_range_end(kineto_range_begin(&site_outer));
    return NULL;
}

static void jumps_out_of_record_calls_do_no_damage(void **state)
{
    (void)state;
#if defined(__SANITIZE_THREAD__)
    skip(); /* it holds signals back, and for good once a handler was left by a jump */
#endif
    uint64_t calls = 0;
    sigset_t set, before;
    __atomic_store_n(&handled_count, 0, __ATOMIC_SEQ_CST);
    on_signal(SIGALRM, jump_out, 0);
    kineto_session *s = session_of(KINETO_KINDS_ALL, 64u << 20, KINETO_RETAIN_OLDEST);
    sigemptyset(&set);
    sigaddset(&set, SIGALRM);
    pthread_sigmask(SIG_BLOCK, &set, &before); /* the other thread gets them */
    pthread_t thread = start_thread(jump_from_anywhere, &calls);
    pthread_join(thread, NULL);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    kineto_trace *t = finish(s);
    verify(t);
    /* what was interrupted may or may not have been recorded: at most one call per jump */
    uint64_t seen = count_named(t, "outer") + ledger(t, "program", "buffer full") +
                    ledger(t, "program", "inside a nested signal handler");
    assert_true(seen >= calls);
    kineto_trace_release(t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_timer_that_records_loses_and_breaks_nothing),
        cmocka_unit_test(a_storm_of_signals_loses_and_breaks_nothing),
        cmocka_unit_test(nested_handlers_are_counted_when_they_cannot_be_recorded),
        cmocka_unit_test(handlers_on_their_own_stack_record),
        cmocka_unit_test(a_thread_may_attach_in_a_handler),
        cmocka_unit_test(operators_of_handlers_have_ids_of_their_own),
        cmocka_unit_test(a_thread_attaches_once_whatever_a_handler_interrupts),
        cmocka_unit_test(a_jump_out_of_a_handler_closes_with_the_outer_range),
        cmocka_unit_test(jumps_out_of_record_calls_do_no_damage),
    };
    return RUN_TESTS(tests);
}
