/* A profile: the profiler of a long run, driven by a schedule over steps. profile.c drives it,
 * profile_export.c writes its results. All members are guarded by the caller, which uses a profile
 * from one thread at a time. */
#ifndef KP_PROFILE_H
#define KP_PROFILE_H

#include "profiler/profiler.h"
#include <ckineto/profile_run.h>

/* A key of the header; both texts are the profile's. */
typedef struct kp_header_line {
    char *key, *json_value;
    /* For all cycles, not only for the next one. */
    bool preset;
} kp_header_line;

/* An annotation that could not be ended because its step was ended by another thread. */
typedef struct kp_orphan {
    kineto_function function;
    uint32_t thread;
} kp_orphan;

struct kineto_profile_run {
    kp_config config;
    /* Its `config` points to the copy above, its `schedule` to the one below. */
    kineto_profile_run_options options;
    kineto_schedule schedule;
    /* Of the cycle that is prepared or recorded; NULL. */
    kineto_profiler *profiler;
    uint64_t step;
    /* The action of the current step. */
    kineto_action current;
    bool running;
    /* A function of the program is being called; it destroyed the profile, which is freed once that
     * function has returned. */
    bool busy, doomed;
    /* The step at kineto_profile_run_start, and the process' count of steps then. */
    uint64_t first_step, base_step;
    kineto_function annotation;
    /* 0: none is open. */
    uint32_t annotation_thread;
    KB_VEC(kp_orphan) orphans;
    char trace_id[KINETO_TRACE_ID_BYTES], next_id[KINETO_TRACE_ID_BYTES];
    /* The result of a cycle that was stopped and is not handed over yet; NULL. */
    kineto_profiler_result *stopped;
    KB_VEC(kineto_profiler_result *) cycles;
    KB_VEC(kp_header_line) header;
    /* Events of incomplete cycles: all, and those that a ledger reports already. */
    uint64_t discarded, reported_discarded;
    /* Warnings by bits of kineto_call: given in the log; not yet in a ledger. */
    uint32_t warned, unreported;
};

#endif
