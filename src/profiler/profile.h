/* Inside of profiles: what profile.c and profile_export.c share. */
#ifndef KP_PROFILE_H
#define KP_PROFILE_H

#include "profiler/profiler.h"
#include <ckineto/profile.h>

/* A key of the header; both texts are the profile's. */
typedef struct kp_header_line {
    char *key, *json_value;
    bool preset; /* of all cycles, not only of one */
} kp_header_line;

/* An annotation whose step was over while another thread called. */
typedef struct kp_orphan {
    kineto_function function;
    uint32_t thread;
} kp_orphan;

struct kineto_profile {
    kp_config config;
    kineto_profile_options options; /* config is the copy above, schedule the one below */
    kineto_schedule schedule;
    kineto_profiler *profiler; /* of the cycle that is prepared or recorded; NULL */
    uint64_t step;
    kineto_action current; /* what was last passed to */
    bool running;
    bool busy,
        doomed; /* functions of the program are called; they destroyed it: once they return */
    uint64_t first_step,
        base_step; /* the process' count of steps when this one was at first_step */
    kineto_function annotation;
    uint32_t annotation_thread; /* 0: none is open */
    KB_VEC(kp_orphan) orphans;
    char trace_id[KINETO_TRACE_ID_BYTES], next_id[KINETO_TRACE_ID_BYTES];
    kineto_profiler_result *stopped; /* not handed over yet */
    KB_VEC(kineto_profiler_result *) cycles;
    KB_VEC(kp_header_line) header;
    uint64_t discarded, told_discarded;
    uint32_t warned, untold; /* bits by kineto_call: in the log; not in a ledger yet */
};

#endif
