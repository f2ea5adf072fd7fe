/* Who or what makes a run slower than it would be if all ranks of a role were alike. */
#ifndef KA_RANK_CAUSES_H
#define KA_RANK_CAUSES_H

#include "analyze/ranks/rank_replay.h"

typedef enum ka_cause_kind {
    KA_CAUSE_DEVICE, /* a rank computes longer than its like */
    KA_CAUSE_HOST,   /* a rank launches later than its like */
    KA_CAUSE_LINK,   /* a group's transfers take longer than those of its like */
    KA_CAUSE_STEP    /* ranks are slower in one step than in the others */
} ka_cause_kind;

typedef struct ka_rank_cause {
    ka_cause_kind kind;
    uint32_t rank;     /* index; KA_NONE: of a group */
    uint32_t group;    /* index; KA_NONE: of a rank */
    uint32_t step;     /* its number; UINT32_MAX: of all */
    int64_t excess_ns; /* beyond its like, of all its parts */
    int64_t saved_ns;  /* by which the run is shorter without */
    uint32_t leads;    /* steps in which no other rank (or group) has more excess of this kind */
} ka_rank_cause;

typedef struct ka_rank_causes {
    KB_VEC(ka_rank_cause) list; /* those that save something beyond noise, most first */
    uint32_t steps;             /* that the run has; 0: not known */
    int64_t length_ns;          /* of the run, as recorded */
    int64_t replayed_ns;        /* and as the model has it */
    int64_t noise_ns;           /* what is saved where nothing is wrong */
    char refused[200];          /* why no rank is blamed; "": causes were looked for */
} ka_rank_causes;

/** @param c  to be freed, also on failure. False: out of memory. */
bool ka_find_rank_causes(const ka_rank_model *m, ka_rank_causes *c);
void ka_rank_causes_free(ka_rank_causes *c);
#endif
