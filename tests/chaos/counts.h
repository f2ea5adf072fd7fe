/* What a program has recorded by its own count. Python reads it, too: chaos.py, class Counts. */
#ifndef TESTS_CHAOS_COUNTS_H
#define TESTS_CHAOS_COUNTS_H

#include <stdint.h>

#define CHAOS_SLOTS 65536u

/* Of one thread; begun counts before the call, ended after it: killed in between, one may be both.
 */
typedef struct chaos_slot {
    uint64_t begun, ended;
} chaos_slot;

typedef struct chaos_counts {
    uint32_t used, done; /* done: the program came to its end */
    chaos_slot slots[CHAOS_SLOTS];
} chaos_counts;

#endif
