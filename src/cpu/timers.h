/* The recorder's side of --cpu-timers: memory that libckineto-timers.so, preloaded into the program,
 * puts samples into (format/timers.h). It has no name in the file system: the program opens it through
 * the recorder's descriptor, as long as the recorder lives. */
#ifndef KU_TIMERS_H
#define KU_TIMERS_H

#include "base/base.h"
#include "format/timers.h"

typedef struct ku_timers ku_timers;
/** @param hz  samples for each second of CPU time. NULL: err says why. */
ku_timers *ku_timers_create(uint32_t hz, kineto_error *err);
/** What the program opens: the value of KF_TIMERS_VARIABLE. */
const char *ku_timers_path(const ku_timers *t);
/** 0: no samples any more. */
void ku_timers_set_hz(ku_timers *t, uint32_t hz);
/** What one sample costs the program; 0: not known yet. */
uint64_t ku_timers_sample_ns(const ku_timers *t);
uint64_t ku_timers_count(const ku_timers *t, kf_timers_counter what);
/** Pass a copy of all slots that are full, in order of time. */
typedef void ku_slot_handler(void *context, const kf_slot *slot);
void ku_timers_drain(ku_timers *t, ku_slot_handler *handle, void *context);
/** Free slots that a thread which has ended was writing. Now and then. */
void ku_timers_reclaim(ku_timers *t);
void ku_timers_destroy(ku_timers *t); /* NULL is fine */
#endif
