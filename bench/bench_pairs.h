/* Pairs of begin and end of several recorders, compared in the same rounds, against the floor of two reads of
 * the clock and a 32-byte store. For the benchmarks of NVTX and of ITT. */
#ifndef BENCH_PAIRS_H
#define BENCH_PAIRS_H

#include "bench.h"

#include "record/record.h"
#include "session/session.h"

#include <string.h>

#define PAIRS  20000L
#define ROUNDS 200

static uint64_t buffer[4];

static void run_floor(void)
{
    for (long i = 0; i < PAIRS; i++) {
        buffer[0] = kb_ticks_hw();
        buffer[1] = (uint64_t)i;
        BENCH_BARRIER();
        buffer[2] = kb_ticks_hw();
        buffer[3] = (uint64_t)i;
        BENCH_BARRIER();
    }
}

static double time_ns(void (*run)(void))
{
    double start = bench_thread_ns();
    run();
    return (bench_thread_ns() - start) / (double)PAIRS;
}

typedef struct contender {
    const char *name;
    void (*run)(void);
} contender;

/* Empty the pool between two turns, so that each finds warm chunks. */
static void drain_pool(void)
{
    const kf_pool *pool = kineto_rt_pool();
    for (uint32_t i = 0; pool && i < pool->chunk_count; i++)
        if (kf_chunk_state_of(&pool->descriptors[i]) == KF_CHUNK_SEALED)
            (void)kf_chunk_free(pool, i, kf_chunk_claim_of(pool, i));
}

/* All in the same rounds. @param to_first  also each one as a ratio to the first. */
static void compare_contenders(const contender *subjects, int count, bool to_first)
{
    static bench_series own[8], floor;
    memset(own, 0, sizeof own);
    memset(&floor, 0, sizeof floor);
    for (int round = 0; round < ROUNDS; round++) {
        bench_add(&floor, time_ns(run_floor));
        for (int i = 0; i < count; i++) {
            bench_add(&own[i], time_ns(subjects[i].run));
            drain_pool();
        }
    }
    for (int i = 0; i < count; i++)
        bench_print(subjects[i].name, "ns/pair", &own[i], &floor);
    for (int i = 1; i < count && to_first; i++) {
        char versus[64];
        (void)snprintf(versus, sizeof versus, "%s_to_own", subjects[i].name);
        bench_print(versus, "ns/pair", &own[i], &own[0]);
    }
}
#endif
