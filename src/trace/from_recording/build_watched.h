/* Threads that were watched from outside: see build_watched.c (states), build_samples.c (stacks). */
#ifndef KT_BUILD_WATCHED_H
#define KT_BUILD_WATCHED_H

#include "trace/from_recording/build.h"

/** Callbacks of the decoder. */
kineto_status kt_build_thread_run(void *state, const kf_thread_run *run);
kineto_status kt_build_thread_life(void *state, const kf_thread_life *life);
kineto_status kt_build_stack_sample(void *state, const kf_stack_sample *sample);

/** Pass: a row of states for each watched thread. */
void kt_build_thread_states(kt_build_state *s);
/** Pass: a row of sampled functions for each watched thread; after the states, by whose order the
 *  runs are sorted. */
void kt_build_samples(kt_build_state *s);

/** Pass: a row of page faults for each watched thread that had some. */
void kt_build_faults(kt_build_state *s);

/** Order by thread and time, for qsort. */
int kt_build_compare_samples(const void *left, const void *right);

/** The track "state", "samples" or "page faults" of a thread. */
uint32_t kt_build_watched_track(kt_build_state *s, uint32_t thread, const char *what);
#endif
