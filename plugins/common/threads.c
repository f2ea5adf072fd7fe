/* Threads of our own within the program: they handle none of its signals, and wait by a clock that
 * cannot be set. */
#include "support.h"

#include <signal.h>
#include <time.h>

#define SECOND_NS INT64_C(1000000000)

int64_t cp_monotonic_ns(void)
{
    struct timespec t = {0, 0};
    (void)clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * SECOND_NS + t.tv_nsec;
}

/* All signals are blocked in the new thread, so that the program's are delivered to its own
 * threads. */
int cp_thread_start(pthread_t *thread, const char *name, void *(*run)(void *), void *argument)
{
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int error = pthread_create(thread, NULL, run, argument);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (!error)
        (void)pthread_setname_np(*thread, name);
    return error;
}

void cp_condition_init(pthread_cond_t *condition)
{
    pthread_condattr_t monotonic;
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_cond_init(condition, &monotonic);
    pthread_condattr_destroy(&monotonic);
}

int cp_condition_wait(pthread_cond_t *condition, pthread_mutex_t *mutex, int64_t until_ns)
{
    const struct timespec until = {.tv_sec = until_ns / SECOND_NS, .tv_nsec = until_ns % SECOND_NS};
    return pthread_cond_timedwait(condition, mutex, &until);
}
