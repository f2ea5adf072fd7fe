/* Device times of operators for devices that cannot be traced: a device event before each operator
 * and one after it, and at the end the time between the two, by the operator's id. The events come
 * from the stubs of <ckineto/stubs.h>, as in PyTorch's states KINETO_GPU_FALLBACK and
 * KINETO_PRIVATEUSE1_FALLBACK. */
#ifndef KP_FALLBACK_H
#define KP_FALLBACK_H

#include "profiler/stubs.h"

#include <ckineto/function.h>

typedef struct kp_fallback kp_fallback;

/** Outcomes of the operators. After kp_fallback_finish: begun = dropped + failed_record +
 * unfinished + failed_elapsed + timed. */
typedef struct kp_fallback_counts {
    uint64_t begun;
    uint64_t dropped;        /* no space was left */
    uint64_t failed_record;  /* the device gave no event for their begin or end */
    uint64_t unfinished;     /* did not end before the profiler did */
    uint64_t failed_elapsed; /* the device gave no time or a negative one */
    uint64_t timed;
} kp_fallback_counts;

/** @param max_ops operators that are stored at most, 40 bytes each; memory is allocated as needed.
 * @return errors of kp_stubs_acquire; KINETO_E_MEMORY. */
kineto_status kp_fallback_open(kineto_stubs_slot slot, uint64_t max_ops, kp_fallback **out,
                               kineto_error *err);
/** An operator begins. @return the argument of kp_fallback_end; NULL: the operator is not timed.
 * Any thread; allocates once for many operators of a thread. */
void *kp_fallback_begin(kp_fallback *f, uint64_t op_id);
/** It ends, on any thread; `begun` may be NULL. After _finish, before _close, it does nothing. */
void kp_fallback_end(kp_fallback *f, void *begun);

/** A callback that does both for operators, to be added for all threads or for one. */
kineto_function_callback kp_fallback_callback(kp_fallback *f, uint32_t scopes);

/** Get all times from the device and release its events. The caller has removed the operators'
 * callbacks. KINETO_E_MEMORY; the events are released in that case, too. A second call does
 * nothing. */
kineto_status kp_fallback_finish(kp_fallback *f, kineto_error *err);
/** After kp_fallback_finish: the device and time of an operator. False: it has none. The outputs
 * may be NULL. */
bool kp_fallback_find(const kp_fallback *f, uint64_t op_id, int64_t *elapsed_ns, int32_t *device);
kp_fallback_counts kp_fallback_count(const kp_fallback *f);
/** Finishes if needed, drops the stubs and frees. NULL is ignored. */
void kp_fallback_close(kp_fallback *f);

#endif
