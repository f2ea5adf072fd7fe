/* The provider of lttng_pair.h, as LTTng's macros make it, and a loop over its two events. */
#define LTTNG_UST_TRACEPOINT_CREATE_PROBES
#define LTTNG_UST_TRACEPOINT_DEFINE
#include "lttng_pair.h"

#include <stdbool.h>

bool lttng_pair_enabled(void);
void lttng_pairs(long count);

bool lttng_pair_enabled(void) { return lttng_ust_tracepoint_enabled(ckineto_peers, pair_begin); }

void lttng_pairs(long count)
{
    for (long i = 0; i < count; i++) {
        lttng_ust_tracepoint(ckineto_peers, pair_begin, (uint64_t)i);
        __asm__ volatile("" ::: "memory");
        lttng_ust_tracepoint(ckineto_peers, pair_end);
        __asm__ volatile("" ::: "memory");
    }
}
