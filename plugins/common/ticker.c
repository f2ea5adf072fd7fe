/* The thread of a sampler, and what samplers check before they start. */
#include "support.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* ---- the thread ------------------------------------------------------------------------------ */

/* Waits for the time of the next tick. False: the thread must end. */
static bool wait_for_tick(cp_ticker *t, int64_t due_ns)
{
    pthread_mutex_lock(&t->lock);
    while (!t->ending && cp_monotonic_ns() < due_ns)
        (void)cp_condition_wait(&t->wake, &t->lock, due_ns);
    bool ending = t->ending;
    pthread_mutex_unlock(&t->lock);
    return !ending;
}

/* Ticks stay on the grid of the first one: a late tick does not shift the following ones. */
static void *run_ticker(void *ticker)
{
    cp_ticker *t = ticker;
    int64_t due = cp_monotonic_ns();
    while (wait_for_tick(t, due)) {
        t->tick();
        due += t->interval_ns;
        int64_t late = cp_monotonic_ns() - due;
        if (late >= t->interval_ns) {
            t->skipped += (uint64_t)(late / t->interval_ns);
            due += late / t->interval_ns * t->interval_ns;
        }
    }
    return NULL;
}

/* Only after the thread has ended, or was not started. */
static void destroy_ticker_lock(cp_ticker *t)
{
    pthread_cond_destroy(&t->wake);
    pthread_mutex_destroy(&t->lock);
}

bool cp_ticker_start(cp_ticker *t, const char *name, int64_t interval_ns, void (*tick)(void),
                     char why[CP_TEXT_BYTES])
{
    memset(t, 0, sizeof *t);
    t->interval_ns = interval_ns > 0 ? interval_ns : 1;
    t->tick = tick;
    pthread_mutex_init(&t->lock, NULL);
    cp_condition_init(&t->wake);
    int error = cp_thread_start(&t->thread, name, run_ticker, t);
    if (error) {
        destroy_ticker_lock(t);
        snprintf(why, CP_TEXT_BYTES, "cannot start the thread that samples counters: %s",
                 strerror(error));
        return false;
    }
    t->owner = getpid();
    return true;
}

bool cp_ticker_runs(const cp_ticker *t) { return t->owner && t->owner == getpid(); }

bool cp_ticker_stop(cp_ticker *t)
{
    bool mine = cp_ticker_runs(t);
    t->owner = 0;
    if (!mine)
        return false;
    pthread_mutex_lock(&t->lock);
    t->ending = true;
    pthread_cond_signal(&t->wake);
    pthread_mutex_unlock(&t->lock);
    pthread_join(t->thread, NULL);
    destroy_ticker_lock(t);
    return true;
}

/* ---- the host -------------------------------------------------------------------------------- */

bool cp_check_counters(const KinetoPlugin_TraceBuilder *b, char why[CP_TEXT_BYTES])
{
    if (KINETO_PLUGIN_HAS(b, KinetoPlugin_TraceBuilder, addCounterSamples) &&
        b->addCounterSamples && b->registerCounters && b->hostTicks)
        return true;
    snprintf(why, CP_TEXT_BYTES, "this host is too old: it does not support counters");
    return false;
}
