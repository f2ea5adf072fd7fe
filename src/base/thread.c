/* The library's own threads, and the CPU time that they have used. A running thread has a slot
 * whose `runs` is 1 while its clock may be read; the time of ended threads is summed up. [rt] */
#include "base/base.h"

#include <signal.h>
#include <time.h>

/* Threads at the same time whose CPU time is counted; further ones run uncounted. */
#define MAX_COUNTED 32u

typedef struct counted {
    uint32_t
        pid; /* 0: free. A fork's child has none of its parent's threads, and reuses their slots */
    uint32_t runs;
    clockid_t clock;
    void *(*run)(void *);
    void *argument;
} counted;
static counted counted_threads[MAX_COUNTED];
static uint64_t ended_ns;

static counted *claim_counted_slot(void)
{
    uint32_t self = kb_os_pid();
    for (uint32_t i = 0; i < MAX_COUNTED; i++) {
        uint32_t pid = kb_load_relaxed(&counted_threads[i].pid);
        if (pid != self && kb_cas_acqrel(&counted_threads[i].pid, &pid, self)) {
            kb_store_relaxed(&counted_threads[i].runs, 0u);
            return &counted_threads[i];
        }
    }
    return NULL;
}

static void release_counted_slot(counted *c)
{
    kb_store_relaxed(&c->runs, 0u);
    kb_store_release(&c->pid, 0u);
}

static void *run_counted_thread(void *argument)
{
    counted *c = argument;
    if (pthread_getcpuclockid(pthread_self(), &c->clock) == 0)
        kb_store_release(&c->runs, 1u);
    void *result = c->run(c->argument);
    kb_store_release(&c->runs, 0u);
    kb_add_relaxed(&ended_ns, kb_clock_ns(CLOCK_THREAD_CPUTIME_ID));
    release_counted_slot(c);
    return result;
}

/* The default stack size is that of `ulimit -s`, which may be too small: use at least 1 MiB. */
static int create_thread_with_stack(pthread_t *thread, void *(*run)(void *), void *argument)
{
    const size_t least = (size_t)1 << 20;
    pthread_attr_t with;
    size_t size = 0;
    bool usual = pthread_attr_init(&with) != 0;
    bool small = !usual && pthread_attr_getstacksize(&with, &size) == 0 && size < least &&
                 pthread_attr_setstacksize(&with, least) == 0;
    int failed = pthread_create(thread, small ? &with : NULL, run, argument);
    if (!usual)
        (void)pthread_attr_destroy(&with);
    return failed;
}

int kb_thread_start(pthread_t *thread, void *(*run)(void *), void *argument)
{
    sigset_t all, before;
    counted *c = claim_counted_slot();
    if (c) {
        c->run = run;
        c->argument = argument;
    }
    sigfillset(&all);
    sigdelset(&all, SIGBUS); /* raised by the thread itself, for a page past the end of a file */
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int failed =
        create_thread_with_stack(thread, c ? run_counted_thread : run, c ? (void *)c : argument);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (failed && c)
        release_counted_slot(c);
    return failed;
}

uint64_t kb_threads_cpu_ns(void)
{
    uint64_t sum = kb_load_relaxed(&ended_ns);
    uint32_t self = kb_os_pid();
    for (uint32_t i = 0; i < MAX_COUNTED; i++)
        if (kb_load_relaxed(&counted_threads[i].pid) == self &&
            kb_load_acquire(&counted_threads[i].runs))
            sum += kb_clock_ns(counted_threads[i].clock);
    return sum;
}
