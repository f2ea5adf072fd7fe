/* The thread of a sampler, and how samplers talk to the host. */
#include "counters.h"

#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define SECOND_NS INT64_C(1000000000)

int64_t cp_monotonic_ns(void)
{
    struct timespec t = {0, 0};
    (void)clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * SECOND_NS + t.tv_nsec;
}

/* ---- the thread ---------------------------------------------------------------------------------- */

/* False: it is to end. */
static bool wait_until(cp_ticker *t, int64_t due_ns)
{
    struct timespec due = {.tv_sec = due_ns / SECOND_NS, .tv_nsec = due_ns % SECOND_NS};
    pthread_mutex_lock(&t->lock);
    while (!t->ending && cp_monotonic_ns() < due_ns)
        (void)pthread_cond_timedwait(&t->wake, &t->lock, &due);
    bool ending = t->ending;
    pthread_mutex_unlock(&t->lock);
    return !ending;
}

/* Ticks keep to the grid of the first: what is late does not move those that follow. */
static void *run(void *ticker)
{
    cp_ticker *t = ticker;
    int64_t due = cp_monotonic_ns();
    while (wait_until(t, due)) {
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

static int create_without_signals(cp_ticker *t)
{
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int error = pthread_create(&t->thread, NULL, run, t);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return error;
}

static void init_waiting(cp_ticker *t)
{
    pthread_condattr_t monotonic;
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_mutex_init(&t->lock, NULL);
    pthread_cond_init(&t->wake, &monotonic);
    pthread_condattr_destroy(&monotonic);
}

static void destroy_waiting(cp_ticker *t)
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
    init_waiting(t);
    int error = create_without_signals(t);
    if (error) {
        destroy_waiting(t);
        snprintf(why, CP_TEXT_BYTES, "no thread for sampling counters: %s", strerror(error));
        return false;
    }
    (void)pthread_setname_np(t->thread, name);
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
    destroy_waiting(t);
    return true;
}

/* ---- the program ----------------------------------------------------------------------------------- */

bool cp_cuda_comes_later(void)
{
    enum { NOT_INITIALIZED = 3, DEINITIALIZED = 4 };
    int count = 0;
    cp_cuda_result result = cp_driver.device_count ? cp_driver.device_count(&count) : 0;
    return result == NOT_INITIALIZED || result == DEINITIALIZED;
}

/* ---- the host ------------------------------------------------------------------------------------ */

bool cp_counters_possible(const KinetoPlugin_TraceBuilder *b, char why[CP_TEXT_BYTES])
{
    if (KINETO_PLUGIN_HAS(b, KinetoPlugin_TraceBuilder, addCounterSamples) &&
        b->addCounterSamples && b->registerCounters && b->hostTicks)
        return true;
    snprintf(why, CP_TEXT_BYTES, "this host is too old: it takes no counters");
    return false;
}

void cp_note(const KinetoPlugin_TraceBuilder *b, const char *reason, uint64_t count, bool is_loss,
             const char *format, ...)
{
    char detail[2 * CP_TEXT_BYTES];
    va_list args;
    if (!KINETO_PLUGIN_HAS(b, KinetoPlugin_TraceBuilder, addLedgerLine) || !b->addLedgerLine)
        return;
    va_start(args, format);
    (void)vsnprintf(detail, sizeof detail, format, args);
    va_end(args);
    (void)b->addLedgerLine(b->pTraceBuilderHandle, reason, count, is_loss, detail);
}
