/* What comparing ranks needs of one rank's trace: its collectives, and for each what had to be done
 * before it could begin. docs/explanation/ranks.md has the definitions.
 *
 * A rank is three chains that wait for one another:
 *   device   computation, in the order in which it was launched
 *   streams  collectives: each begins after the one before it on its stream
 *   host     launches, and calls that wait for the device
 * The chains are cut at the collectives. Row i says when its part of each chain was done, and how long
 * the parts are by themselves, so that a replay can change one part and see what follows from it:
 *
 *   host_i    = max(host_(i-1) + host_ns, end of sync_row + sync_ns)
 *   ready_i   = max(ready_(i-1) + work_ns, host_(i-1) + late_ns + late_rest_ns (or host_i: KA_COMM_LATE_OWN),
 *                   end of j + wait_ns of j, for each j whose wait_row is i)
 *   arrival_i = max(ready_i (but for KA_COMM_FREE), end of previous and of after, host_i + launch latency)
 *
 * Of a rank without a device, host_ns is what work_ns typically is (host_pieces.c), 0 if that is not known, and no
 * part of these equations.
 *
 * late_ns is until the launch that held up the device, late_rest_ns and wait_ns are computation from
 * there on. With the times of the trace both sides are equal. */
#ifndef KA_RANK_FACTS_H
#define KA_RANK_FACTS_H

#include "analyze/dataset/collective_args.h"

#include <stdatomic.h>

/** No row. */
#define KA_NO_COMM (-1)
#define KA_NO_SEQUENCE UINT32_MAX

enum {
    KA_COMM_WAITED = 1,   /* wait_row was idle until this one ended: it did wait for it */
    KA_COMM_BY_ORDER = 2, /* `sequence` is a count by order: the trace has no numbers */
    KA_COMM_NUMBERED = 4, /* a message whose `sequence` is equal on both sides, in all steps */
    KA_COMM_LAST = 8,     /* no collective: the end of the rank's work */
    KA_COMM_NO_LAUNCH = 16, /* host_… are not known */
    KA_COMM_LATE_OWN = 32,  /* late_ns is from this row's launch, not from the one before */
    KA_COMM_FREE = 128,     /* it began before the computation that was launched before it was done */
    KA_COMM_PART = 64       /* a further message of the kernel of the row before: it begins and ends with it */
};

/** A collective of a rank, or one direction of a message. Times are of the trace. */
typedef struct ka_comm {
    int64_t start_ns, end_ns, ready_ns, host_at_ns;
    int64_t work_ns, late_ns, late_rest_ns; /* late_ns: KA_UNKNOWN_NUMBER: no launch held it up */
    int64_t host_ns, sync_ns, wait_ns;
    uint64_t elements, received; /* received: by this rank */
    uint32_t group, sequence; /* index of groups */
    int32_t previous, after, wait_row, sync_row; /* after: of another stream */
    uint32_t step;            /* its number; UINT32_MAX: none */
    uint8_t op, flags;
} ka_comm;

/** A process group as a rank names it; of a message: the pair in its direction. */
typedef struct ka_comm_group {
    uint64_t id; /* equal on all ranks */
    uint32_t name, description, members; /* of texts; members: "[0, 1]", perhaps abbreviated */
    uint32_t size; /* 0: not known */
} ka_comm_group;

/** Why calls of a rank could not be matched with those of others. */
typedef enum ka_unmatched {
    KA_UNMATCHED_NONE,
    KA_UNMATCHED_GROUP, /* several groups may be the one of a collective */
    KA_UNMATCHED_PEER   /* the trace does not say to whom messages go */
} ka_unmatched;

typedef struct ka_rank_facts {
    atomic_uint references;
    int32_t rank, world_size;
    uint32_t host; /* of texts */
    int64_t device; /* the only one that its work ran on; -1: not known, or several */
    int64_t start_ns, end_ns; /* first and last work */
    int64_t begin_ns;         /* of the first step, or of the first activity */
    int64_t latency_ns;       /* from a launch to its start, at least */
    uint32_t step_count;
    bool on_host;             /* its computation is that of the host: it communicates without a device */
    uint8_t unmatched;        /* ka_unmatched: why rows have no group */
    bool is_dump;             /* of the flight recorder: no trace */
    KB_VEC(ka_comm_group) groups;
    KB_VEC(ka_comm) rows; /* in the order of launch; the last one is the end */
    kb_intern texts;
} ka_rank_facts;

/** Is its `sequence` a count that begins anew in each step? */
static inline bool ka_is_counted(const ka_comm *c)
{
    return (ka_is_message(c->op) && !(c->flags & KA_COMM_NUMBERED)) || (c->flags & KA_COMM_BY_ORDER);
}

/** @param out  to be released. Has no rows but the end if nothing communicated. threads: any. */
kineto_status ka_rank_facts_create(const ka_dataset *s, ka_rank_facts **out, kineto_error *err);
ka_rank_facts *ka_rank_facts_retain(ka_rank_facts *f);
void ka_rank_facts_release(ka_rank_facts *f);
#endif
