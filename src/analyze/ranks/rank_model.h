/* The ranks of a run side by side: their facts in one array of rows, joined to instances (a collective
 * with its row on each rank, or both sides of a message), on one clock.
 * docs/explanation/ranks.md has the definitions. */
#ifndef KA_RANK_MODEL_H
#define KA_RANK_MODEL_H

#include "analyze/ranks/rank_facts.h"

enum {
    KA_INSTANCE_WHOLE = 1,    /* each member has one row, and these agree */
    KA_INSTANCE_MISMATCH = 2, /* kinds or sizes differ */
    KA_INSTANCE_DUPLICATE = 4 /* a rank has it twice */
};

/** A collective of all members of its group. */
typedef struct ka_instance {
    uint32_t first, count; /* of ka_rank_model.members: its rows */
    uint32_t group, size;  /* index of groups; members that it should have, 0: not known */
    uint32_t sequence, step;
    int64_t arrival_ns;    /* aligned: when the last of its rows began */
    int64_t end_ns;        /* aligned: the first end of its rows */
    uint64_t key;
    uint8_t op, flags;
} ka_instance;

/** A process group over all ranks. */
typedef struct ka_rank_group {
    uint64_t id;
    uint32_t size;
    uint32_t kind; /* groups with equal descriptions and sizes have the same */
    kineto_string name, description;
} ka_rank_group;

/** The clock of a host: what is added to its times, offset_ns + drift * (t - middle_ns). */
typedef struct ka_rank_clock {
    kineto_string host;
    double offset_ns, drift, bar_ns;
    double least_ns, most_ns; /* bounds of what is left to correct, by causality; NaN: none */
    uint32_t rank_count, row_count;
} ka_rank_clock;

typedef struct ka_rank_model {
    uint32_t rank_count;
    const ka_rank_facts **facts; /* by rank */
    uint32_t *base;              /* by rank: its first row; and the end */
    uint32_t row_count;
    uint32_t *rank_of, *instance_of, *group_of; /* by row; index of instances or KA_NONE … */
    int64_t *start_ns, *end_ns;                 /* aligned, from origin_ns */
    uint32_t *members;                          /* rows of instances */
    uint32_t *role;                             /* by rank */
    KB_VEC(ka_instance) instances; /* by arrival */
    KB_VEC(ka_rank_group) groups;
    KB_VEC(ka_rank_clock) clocks;
    uint32_t *clock_of; /* by rank */
    int64_t origin_ns, middle_ns;
    double residual_ns;      /* of ends of instances, after the fit */
    uint32_t shared_count;   /* instances over several clocks */
    bool by_messages;        /* messages are among them */
    char refused[200];       /* why times of different hosts cannot be compared; "": they can */
    bool no_memory;
} ka_rank_model;

/** @param facts  of `count` ranks, sorted by rank; must outlive the model.
 *  @param m      to be freed, also on failure. False: out of memory. */
bool ka_rank_model_create(const ka_rank_facts *const *facts, uint32_t count, ka_rank_model *m);
void ka_rank_model_free(ka_rank_model *m);
static inline const ka_comm *ka_model_row(const ka_rank_model *m, uint32_t row)
{
    uint32_t rank = m->rank_of[row];
    return &m->facts[rank]->rows.data[row - m->base[rank]];
}
/** Does everybody leave it when the last one has come? Not so messages and broadcasts. */
static inline bool ka_is_synchronizing(uint8_t op)
{
    return op == KA_OP_ALL_REDUCE || op == KA_OP_ALL_GATHER || op == KA_OP_REDUCE_SCATTER ||
           op == KA_OP_ALL_TO_ALL || op == KA_OP_BARRIER;
}
/** What is compared of the kind of a row: whether a rank of MPI sends before it receives does not make a role. */
static inline uint8_t ka_role_op(const ka_comm *c) { return c->flags & KA_COMM_NUMBERED ? KA_OP_SEND_RECV : c->op; }
/** rank_match.c. False: out of memory. */
bool ka_match_ranks(ka_rank_model *m);
/** rank_clocks.c. False: out of memory. */
bool ka_align_clocks(ka_rank_model *m);
/** rank_roles.c. False: out of memory. */
bool ka_find_roles(ka_rank_model *m);
#endif
