/* What is wrong with the collectives of a run: calls that differ between ranks, records that are absent. */
#ifndef KA_RANK_DAMAGE_H
#define KA_RANK_DAMAGE_H

#include "analyze/ranks/rank_model.h"

typedef enum ka_damage_kind {
    KA_DAMAGE_MISSING,    /* there is no trace of the rank */
    KA_DAMAGE_OTHER_RUN,  /* it has no collective in common with the others, which have some */
    KA_DAMAGE_TRUNCATED,  /* its trace ends before those of the others */
    KA_DAMAGE_RING_CUT,   /* its trace begins after those of the others */
    KA_DAMAGE_WRONG_OP,   /* another collective than the other members call */
    KA_DAMAGE_WRONG_SIZE, /* another size */
    KA_DAMAGE_HOLE,       /* no record between two others */
    KA_DAMAGE_DUPLICATE,  /* one number twice */
    KA_DAMAGE_SHIFT       /* its numbers are ahead or behind from some number on */
} ka_damage_kind;

typedef struct ka_rank_damage {
    ka_damage_kind kind;
    int64_t rank;      /* in the world */
    uint32_t group;    /* index; KA_NONE: of all */
    uint32_t sequence; /* the first one; KA_NO_SEQUENCE */
    uint32_t count;    /* of collectives */
} ka_rank_damage;
typedef KB_VEC(ka_rank_damage) ka_rank_damages;

/** @param out  to be freed, also on failure; by kind, rank, group. False: out of memory. */
bool ka_find_rank_damage(const ka_rank_model *m, ka_rank_damages *out);
const char *ka_damage_name(ka_damage_kind kind);
#endif
