/* What the samplers of counters share: nvml.c (power and such) and pm.c (multiprocessors). */
#ifndef CP_COUNTERS_H
#define CP_COUNTERS_H

#include "cuda.h"

#include <sys/types.h>

/* A thread that calls `tick` at a fixed rate. It takes no signals, ends at once when told to, and
 * is left behind by a fork: the child finds the ticker stopped. */
typedef struct cp_ticker {
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t wake;
    bool ending;
    pid_t owner; /* process that has the thread; 0: none */
    int64_t interval_ns;
    uint64_t skipped; /* ticks left out because one before took too long */
    void (*tick)(void);
} cp_ticker;

/** First tick at once. `name` is the thread's, up to 15 bytes. */
bool cp_ticker_start(cp_ticker *t, const char *name, int64_t interval_ns, void (*tick)(void),
                     char why[CP_TEXT_BYTES]);
/** After this no tick runs. False: there was none of this process. */
bool cp_ticker_stop(cp_ticker *t);
/** Is it running, in this process? */
bool cp_ticker_runs(const cp_ticker *t);

/** Has the program not started CUDA yet? The program does that, not we: one that forked after us
 * could not use it. */
bool cp_cuda_comes_later(void);
/** Can this host take counters at all? */
bool cp_counters_possible(const KinetoPlugin_TraceBuilder *builder, char why[CP_TEXT_BYTES]);
/** The moment halfway between two readings of the host's clock. */
static inline int64_t cp_middle(uint64_t before, uint64_t after)
{
    return (int64_t)(before + (after - before) / 2);
}

#endif
