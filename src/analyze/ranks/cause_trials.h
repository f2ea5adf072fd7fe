/* A window of a run as recorded, what its parts are beyond their like, and its length without that. */
#ifndef KA_CAUSE_TRIALS_H
#define KA_CAUSE_TRIALS_H

#include "analyze/ranks/rank_links.h"
#include "analyze/ranks/rank_usual.h"
#include "analyze/ranks/step_parts.h"

typedef enum ka_cause_kind {
    KA_CAUSE_DEVICE, /* a rank computes longer than its like */
    KA_CAUSE_HOST,   /* a rank launches later than its like */
    KA_CAUSE_LINK,   /* the transfers of a place take longer than those of its like */
    KA_CAUSE_STEP    /* a rank is slower in one step than in the others */
} ka_cause_kind;

/** What is tried without: of a rank what it has in all steps, or in one; of a place its slow transfers. */
typedef struct ka_trial_of {
    ka_cause_kind kind;
    bool of_host;   /* of a step: of the host, not of the device */
    uint32_t index; /* of a rank, or of a place */
    uint32_t step;  /* of a step: its number */
} ka_trial_of;

typedef struct ka_trials {
    const ka_rank_model *m;
    const ka_link_places *places;
    ka_replay replay;
    ka_usual usual;
    double *slow;              /* by instance: how much its transfer is beyond its like */
    double *part[2];           /* of device and host, by row: of its excess what is of its step only; NULL: no step is set apart */
    double *noise[2];          /* of device and host, by rank: parts that are beyond by no more than this are taken for usual */
    ka_link_use *use;          /* by group */
    int64_t replayed_ns;       /* its length, computed again */
    bool has_usual;            /* `usual`, `slow` and `use` are known; else there was no memory */
} ka_trials;

/** @param m, places  must outlive it. @param t  all 0, but for `replay`, which may be that of another window of the run; to be
 *  closed, also on failure. False: out of memory. */
bool ka_open_trials(const ka_rank_model *m, const ka_link_places *places, ka_trials *t);
void ka_close_trials(ka_trials *t);
/** What a row is beyond its like, but for what is of its step only. */
double ka_row_excess(const ka_trials *t, uint32_t row, bool of_host);
/** Sets apart what a rank has in single steps, if that is `least_ns` or more in one of them.
 *  @param steps  set to their numbers. False: out of memory. */
bool ka_set_steps_apart(ka_trials *t, uint32_t rank, bool of_host, double least_ns, ka_step_list *steps);
/** What a rank has in a step that is set apart. */
double ka_step_excess_of(const ka_trials *t, const ka_trial_of *of);
/** By how much the window is shorter without. @param shifts  of its context, and set to those of the next window; NULL. */
int64_t ka_try_without(ka_trials *t, const ka_trial_of *of, ka_replay_shift *shifts);
#endif
