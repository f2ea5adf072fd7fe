/* What threads did while they held a lock that others waited for: in which recorded calls they were, and
 * which sampled functions they ran. */
#ifndef KA_LOCK_HOLDERS_H
#define KA_LOCK_HOLDERS_H

#include "trace/trace.h"

/* A call, or a sampled function without those that it called. Spans of one thread do not overlap, but for
 * calls of signal handlers, which are within another one. */
typedef struct ka_thread_span {
    uint64_t thread; /* ka_thread_key */
    int64_t start_ns, end_ns;
    uint32_t name;   /* of the function */
    uint32_t object; /* what a call is about; 0: nothing, and all samples */
} ka_thread_span;

typedef struct ka_thread_spans {
    KB_VEC(ka_thread_span) list; /* by thread and start, once sorted */
} ka_thread_spans;

/* A time in which a thread held a lock. */
typedef struct ka_lock_hold {
    uint64_t thread;
    int64_t start_ns, end_ns;
    uint32_t object; /* the lock, as in calls */
} ka_lock_hold;

/* A function by name, and how long threads were in it. */
typedef struct ka_name_time {
    uint32_t name;
    int64_t ns;
} ka_name_time;

typedef struct ka_name_times {
    kb_map sums;       /* ns by name */
    ka_name_time most; /* ns 0: none */
} ka_name_times;

static inline uint64_t ka_thread_key(uint32_t process, int64_t id)
{
    return (uint64_t)process << 32 | (uint32_t)id;
}
void ka_thread_spans_sort(ka_thread_spans *spans);
/** Adds the functions of all threads that CPU samples of the trace show, sorted. False: out of memory. */
bool ka_thread_spans_add_samples(ka_thread_spans *spans, const kineto_trace *trace);
/** Ends the hold where the thread called for the same lock again: it had released it before. */
void ka_lock_hold_cut(ka_lock_hold *hold, const ka_thread_spans *calls);
/** Adds the time of spans within the hold, by name. False: out of memory. */
bool ka_name_times_add(ka_name_times *times, const ka_thread_spans *spans, const ka_lock_hold *hold);
#endif
