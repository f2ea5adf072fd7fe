/* Device times of operators where the device cannot be seen into: an event of the device's before
 * each operator and one behind it, and at the end the time between the two, by the operator's id.
 * The events come from the stubs of <ckineto/stubs.h>. */
#ifndef KP_FALLBACK_H
#define KP_FALLBACK_H

#include "profiler/stubs.h"

#include <ckineto/function.h>

typedef struct kp_fallback kp_fallback;

/** What became of the operators. begun = dropped + failed_record + unfinished + failed_elapsed +
 *  timed, after kp_fallback_finish. */
typedef struct kp_fallback_counts {
    uint64_t begun;
    uint64_t dropped;        /* there was no room */
    uint64_t failed_record;  /* the device gave no event for their begin or end */
    uint64_t unfinished;     /* did not end before the profiler did */
    uint64_t failed_elapsed; /* the device did not tell the time, or an impossible one */
    uint64_t timed;
} kp_fallback_counts;

/** @param max_ops  the operators that there is room for, 32 bytes each; taken as they come.
 *  @return what kp_stubs_hold does, KINETO_E_MEMORY. */
kineto_status kp_fallback_open(kineto_stubs_slot slot, uint64_t max_ops, kp_fallback **out,
                               kineto_error *err);
/** An operator begins. @return what _end needs; NULL: it is not timed. Any thread, no allocation
 *  but once for many operators of a thread. */
void *kp_fallback_begin(kp_fallback *f, uint64_t op_id);
/** It ends, on any thread; `begun` may be NULL. After _finish, before _close, it does nothing. */
void kp_fallback_end(kp_fallback *f, void *begun);

/** A callback that does both for operators, to be added for all threads or for one. */
kineto_function_callback kp_fallback_callback(kp_fallback *f, uint32_t scopes);

/** Ask the device for all times, and give its events back. The operators' callbacks have been
 *  removed. KINETO_E_MEMORY (the events are released nevertheless). A second call does nothing. */
kineto_status kp_fallback_finish(kp_fallback *f, kineto_error *err);
/** After _finish: the device and time of an operator. False: it has none. */
bool kp_fallback_find(const kp_fallback *f, uint64_t op_id, int64_t *elapsed_ns, int32_t *device);
kp_fallback_counts kp_fallback_count(const kp_fallback *f);
/** Finishes if that has not been done, and lets go of the stubs. NULL is fine. */
void kp_fallback_close(kp_fallback *f);

#endif
