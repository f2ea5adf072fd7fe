/* Threads of the library's own, and the CPU time that they took. */
#include "base/base.h"

#include <signal.h>
#include <time.h>

/* Threads at once whose time is counted; those beyond run uncounted. */
#define COUNTED 32u

typedef struct counted {
    uint32_t pid; /* 0: free. A fork's child has none of its parent's threads */
    uint32_t runs;
    clockid_t clock;
    void *(*run)(void *);
    void *argument;
} counted;
static counted threads[COUNTED];
static uint64_t ended_ns;

static counted *counted_take(void)
{
    uint32_t self = kb_os_pid();
    for (uint32_t i = 0; i < COUNTED; i++) {
        uint32_t pid = kb_load_relaxed(&threads[i].pid);
        if (pid != self && kb_cas_acqrel(&threads[i].pid, &pid, self)) {
            kb_store_relaxed(&threads[i].runs, 0u);
            return &threads[i];
        }
    }
    return NULL;
}

static void counted_drop(counted *c)
{
    kb_store_relaxed(&c->runs, 0u);
    kb_store_release(&c->pid, 0u);
}

static void *run_counted(void *argument)
{
    counted *c = argument;
    if (pthread_getcpuclockid(pthread_self(), &c->clock) == 0)
        kb_store_release(&c->runs, 1u);
    void *result = c->run(c->argument);
    kb_store_release(&c->runs, 0u);
    kb_add_relaxed(&ended_ns, kb_clock_ns(CLOCK_THREAD_CPUTIME_ID));
    counted_drop(c);
    return result;
}

/* The usual size of a stack is what `ulimit -s` says, and that may be too small for us. */
static int create_with_stack(pthread_t *thread, void *(*run)(void *), void *argument)
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
    counted *c = counted_take();
    if (c) {
        c->run = run;
        c->argument = argument;
    }
    sigfillset(&all);
    sigdelset(&all, SIGBUS); /* of a page that its file has lost: it is the thread's own */
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int failed = create_with_stack(thread, c ? run_counted : run, c ? (void *)c : argument);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (failed && c)
        counted_drop(c);
    return failed;
}

uint64_t kb_threads_cpu_ns(void)
{
    uint64_t sum = kb_load_relaxed(&ended_ns);
    uint32_t self = kb_os_pid();
    for (uint32_t i = 0; i < COUNTED; i++)
        if (kb_load_relaxed(&threads[i].pid) == self && kb_load_acquire(&threads[i].runs))
            sum += kb_clock_ns(threads[i].clock);
    return sum;
}
