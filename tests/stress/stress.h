/* What the stress test's files share. */
#ifndef TESTS_STRESS_H
#define TESTS_STRESS_H

#include <ckineto/record.h>
#include <ckineto/session.h>
#include <ckineto/trace.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define CHECK(condition)                                                                           \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            fprintf(stderr, "%s:%d: does not hold: %s\n", __FILE__, __LINE__, #condition);         \
            abort();                                                                               \
        }                                                                                          \
    } while (0)

/* In memory that all processes share. */
typedef struct shared {
    uint64_t calls; /* each is one row of the trace, or one count of the ledger's losses */
    uint64_t forks, threads, sessions;
} shared;
extern shared *totals;

static inline uint64_t next_random(uint64_t *state)
{
    uint64_t z = (*state += UINT64_C(0x9e3779b97f4a7c15));
    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    return z ^ (z >> 31);
}

/* Record about `amount` things of every sort; counts the calls. */
void work(uint64_t *random, uint64_t amount, bool leave_open);
/* Several threads that work, start others and fork (if they may), and sessions at the same time.
 * Returns when all have ended. */
void round_of_work(uint64_t seed, bool may_fork, bool with_sessions);
/* Print the ledger and give up unless rows + losses are the calls since `calls_before`, and every
 * row is sound. */
void check_trace(const kineto_trace *trace, uint64_t calls_before);
#endif
