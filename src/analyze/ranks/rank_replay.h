/* What if: all ranks once more, with some of their parts shorter. */
#ifndef KA_RANK_REPLAY_H
#define KA_RANK_REPLAY_H

#include "analyze/ranks/rank_absent.h"

/** A row with what is needed to compute its times, in two lines of the cache. */
typedef struct ka_replay_row {
    int64_t work_ns, late_ns, late_rest_ns, host_ns, sync_ns, wait_ns; /* as in ka_comm; to be changed by the caller */
    int64_t transfer_ns;
    int64_t gap_ns;                    /* from all that it waited for to its begin */
    int64_t host, ready, begin, end;   /* the times that follow */
    int64_t waited;                    /* the latest end that it waits for */
    uint32_t previous, after, wait_row, sync_row; /* of all rows; KA_NONE */
    uint32_t rank;
    uint8_t flags;
    bool is_ended; /* `end` has one of its messages */
    bool leaves_early, has_parts; /* before the last row of its instance begins; it is one of several messages of its call */
} ka_replay_row;

/** By how much a row of the context is earlier than recorded, if something was shorter in the windows before. */
typedef struct ka_replay_shift {
    int64_t host_ns, ready_ns, end_ns;
} ka_replay_shift;

typedef struct ka_replay {
    const ka_rank_model *m;
    ka_replay_row *rows;
    size_t capacity; /* of `rows` */
    uint32_t *next; /* by rank: the first row without `host` and `ready` */
    KB_VEC(uint32_t) alone; /* rows of instances that are not whole, by start */
    int64_t *latency_ns; /* by rank: from a launch to its start */
    const ka_replay_shift *shift; /* by rank and row of its context; NULL: as recorded */
    int64_t *last;  /* by domain: when its last rank is done */
    ka_absences absent;
} ka_replay;

/** @param r  all 0, or of other rows of the run, whose memory is used again; to be freed, also on failure. False: out of
 *  memory. */
bool ka_replay_create(ka_replay *r, const ka_rank_model *m);
void ka_replay_free(ka_replay *r);
/** The lengths of the trace again, but transfers, of the rows of a rank. */
void ka_replay_reset_rank(ka_replay *r, uint32_t rank);
/** After a run: the shifts of the rows that are the context of the next window. @param out  KA_CONTEXT_ROWS for each rank. */
void ka_replay_take_shifts(const ka_replay *r, ka_replay_shift *out);
/** When the last rank is done, from the model's origin; of several domains, added up. */
int64_t ka_replay_run(ka_replay *r);
#endif
