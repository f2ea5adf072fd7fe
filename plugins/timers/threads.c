/* The timers: one for each thread, of its CPU time. They are made and deleted by system calls, since
 * libc's own functions may allocate. */
#include "timers.h"

#include <dlfcn.h>
#include <errno.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#ifdef __GLIBC__
extern int __register_atfork(void (*)(void), void (*)(void), void (*)(void), void *)
    __attribute__((weak));
extern void *__dso_handle __attribute__((visibility("hidden")));
#endif

__thread cs_thread cs_me CS_TLS;
static pthread_key_t key;

/* ---- the list of timers ---------------------------------------------------------------------- */

/* Ids + 1 of the kernel's timers, so that any thread can delete them all; 0: free. */
#define MAX_TIMERS 8192u
static int timers[MAX_TIMERS];

static bool enter_timer(int timer)
{
    for (uint32_t n = 0; n < MAX_TIMERS; n++) {
        uint32_t i = (cs_me.tid + n) % MAX_TIMERS;
        int none = 0;
        if (__atomic_compare_exchange_n(&timers[i], &none, timer + 1, false, __ATOMIC_ACQ_REL,
                                        __ATOMIC_RELAXED)) {
            cs_me.entry = i + 1;
            return true;
        }
    }
    return false;
}

/* One thread deletes a timer: who takes it from the list. */
static void delete_entry(uint32_t i)
{
    int timer = __atomic_exchange_n(&timers[i], 0, __ATOMIC_ACQ_REL);
    if (timer)
        (void)syscall(SYS_timer_delete, timer - 1);
}

void cs_timers_delete_all(void)
{
    for (uint32_t i = 0; i < MAX_TIMERS; i++)
        delete_entry(i);
}

/* ---- one thread ------------------------------------------------------------------------------ */

void cs_thread_set_period(uint64_t period_ns, uint64_t first_ns)
{
    const uint64_t SECOND_NS = 1000000000u;
    struct itimerspec when = {
        {(time_t)(period_ns / SECOND_NS), (long)(period_ns % SECOND_NS)},
        {(time_t)(first_ns / SECOND_NS), (long)(first_ns % SECOND_NS)}};
    cs_me.period_ns = period_ns;
    (void)syscall(SYS_timer_settime, cs_me.timer, 0, &when, NULL);
}

/* The first sample comes after a random part of a period: a thread that lives shorter than a period
 * is then sampled with the chance that its CPU time has of the period. The kernel looks at timers of
 * CPU time at its ticks only, on average half a tick late. */
static uint64_t draw_first_ns(uint64_t period_ns)
{
    struct timespec t = {0, 0}, tick = {0, 0};
    (void)clock_gettime(CLOCK_MONOTONIC, &t);
    (void)clock_getres(CLOCK_MONOTONIC_COARSE, &tick);
    uint64_t x = ((uint64_t)t.tv_nsec << 20 ^ cs_me.tid) * UINT64_C(0x9e3779b97f4a7c15);
    x = (x ^ x >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    uint64_t ns = (x ^ x >> 27) % period_ns, late_ns = (uint64_t)tick.tv_nsec / 2;
    return ns > late_ns ? ns - late_ns : 1;
}

/* False: the thread blocks our signal on purpose. All signals are blocked by threads that leave them
 * to another thread; ours is unblocked there. */
static bool is_signal_open(void)
{
    sigset_t now, ours;
    if (cs_next()->pthread_sigmask(SIG_BLOCK, NULL, &now) != 0 || !sigismember(&now, cs_signal))
        return true;
    if (!cs_is_set_of_all(&now))
        return false;
    sigemptyset(&ours);
    sigaddset(&ours, cs_signal);
    return cs_next()->pthread_sigmask(SIG_UNBLOCK, &ours, NULL) == 0;
}

static bool create_timer(void)
{
    struct sigevent event = {.sigev_notify = SIGEV_THREAD_ID, .sigev_signo = cs_signal};
#ifdef sigev_notify_thread_id
    event.sigev_notify_thread_id = (pid_t)cs_me.tid;
#else
    event._sigev_un._tid = (pid_t)cs_me.tid; /* glibc before 2.38 has no name for it */
#endif
    if (syscall(SYS_timer_create, CLOCK_THREAD_CPUTIME_ID, &event, &cs_me.timer) != 0)
        return false;
    if (enter_timer(cs_me.timer))
        return true;
    (void)syscall(SYS_timer_delete, cs_me.timer);
    return false;
}

void cs_thread_begin(void)
{
    int saved = errno;
    cs_me = (cs_thread){.tid = (uint32_t)syscall(SYS_gettid)};
    uint64_t period_ns =
        cs_is_on() ? __atomic_load_n(&cs_memory->period_ns, __ATOMIC_RELAXED) : 0;
    if (period_ns && !is_signal_open())
        cs_count(KF_TIMERS_BLOCKED, 1);
    else if (period_ns && !create_timer())
        cs_count(KF_TIMERS_REFUSED, 1);
    else if (period_ns) {
        (void)pthread_setspecific(key, &cs_me);
        cs_thread_set_period(period_ns, draw_first_ns(period_ns));
    }
    errno = saved;
}

void cs_thread_end(void)
{
    uint32_t entry = cs_me.entry;
    cs_me.entry = 0;
    if (entry)
        delete_entry(entry - 1);
}

static void on_thread_exit(void *unused)
{
    (void)unused;
    cs_thread_end();
}

/* ---- fork ------------------------------------------------------------------------------------ */

/* A child has no timers, and the memory of its parent. */
static void begin_in_child(void)
{
    memset(timers, 0, sizeof timers);
    cs_me.entry = 0;
    if (!cs_is_on())
        return;
    if (!cs_is_in_namespace_of(cs_memory)) {
        cs_memory = NULL;
        return;
    }
    cs_thread_begin();
    kf_slot *slot = cs_slot_claim(KF_SLOT_FORK);
    if (!slot)
        return;
    slot->parent_pid = (uint32_t)getppid();
    cs_slot_publish(slot);
}

/* glibc's pthread_atfork is linked statically and needs symbols that musl does not have. */
static void register_fork_handler(void (*in_child)(void))
{
#ifdef __GLIBC__
    int (*of_musl)(void (*)(void), void (*)(void), void (*)(void));
    if (__register_atfork) {
        (void)__register_atfork(NULL, NULL, in_child, __dso_handle);
        return;
    }
    *(void **)&of_musl = dlsym(RTLD_DEFAULT, "pthread_atfork");
    if (of_musl)
        (void)of_musl(NULL, NULL, in_child);
#else
    (void)pthread_atfork(NULL, NULL, in_child);
#endif
}

bool cs_threads_init(void)
{
    if (pthread_key_create(&key, on_thread_exit) != 0)
        return false;
    register_fork_handler(begin_in_child);
    return true;
}
