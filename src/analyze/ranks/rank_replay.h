/* What if: all ranks once more, with some of their parts shorter. */
#ifndef KA_RANK_REPLAY_H
#define KA_RANK_REPLAY_H

#include "analyze/ranks/rank_model.h"

/** The lengths of all rows; those of the trace after ka_replay_create, to be changed by the caller. */
typedef struct ka_replay {
    const ka_rank_model *m;
    int64_t *work_ns, *late_ns, *late_rest_ns, *host_ns, *sync_ns, *wait_ns, *transfer_ns; /* by row */
    int64_t *gap_ns;                       /* by row: from all that it waited for to its begin */
    int64_t *host, *ready, *begin, *end;   /* by row: the times that follow */
    int64_t *waited;                       /* by row: the latest end that it waits for */
    bool *is_ended;                        /* by row: `end` has one of its messages */
    uint32_t *next;                        /* by rank: the first row without `host` and `ready` */
} ka_replay;

/** @param r  to be freed, also on failure. False: out of memory. */
bool ka_replay_create(ka_replay *r, const ka_rank_model *m);
void ka_replay_free(ka_replay *r);
/** The lengths of the trace again. */
void ka_replay_reset(ka_replay *r);
/** When the last rank is done, from the model's origin. */
int64_t ka_replay_run(ka_replay *r);
#endif
