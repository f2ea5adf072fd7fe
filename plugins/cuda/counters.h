/* Common parts of the counter samplers: nvml.c (power, clocks and the like) and pm.c
 * (multiprocessors). Each has a thread that reads at a fixed rate and delivers to the host. */
#ifndef CP_COUNTERS_H
#define CP_COUNTERS_H

#include "cuda.h"

#include <sys/types.h>

/* A thread that calls `tick` at a fixed rate. It handles no signals and ends at once when it is
 * stopped. A forked child does not have the thread and finds the ticker stopped. */
typedef struct cp_ticker {
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t wake;
    bool ending;
    /* Process that has the thread; 0: none. */
    pid_t owner;
    int64_t interval_ns;
    /* Ticks that were skipped because the one before took too long. */
    uint64_t skipped;
    void (*tick)(void);
} cp_ticker;

/** The first tick comes at once. `name` is the thread's, up to 15 bytes. */
bool cp_ticker_start(cp_ticker *t, const char *name, int64_t interval_ns, void (*tick)(void),
                     char why[CP_TEXT_BYTES]);
/** Stop and wait for the thread. False: it was not running in this process. */
bool cp_ticker_stop(cp_ticker *t);
/** True if the thread runs in this process. */
bool cp_ticker_runs(const cp_ticker *t);

/** Has the program not started CUDA yet? The program does that, not we: one that forked after us
 * could not use it. */
bool cp_is_cuda_uninitialized(void);
/** True if the host supports counters. */
bool cp_check_counters(const KinetoPlugin_TraceBuilder *builder, char why[CP_TEXT_BYTES]);
/** The moment halfway between two readings of the host's clock. */
static inline int64_t cp_midpoint(uint64_t before, uint64_t after)
{
    return (int64_t)(before + (after - before) / 2);
}

#endif
