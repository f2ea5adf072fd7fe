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
    KA_DAMAGE_SHIFT,      /* its numbers differ by a constant from some number on */
    KA_DAMAGE_SHUFFLE     /* its numbers are not in the order of its calls */
} ka_damage_kind;

typedef struct ka_rank_damage {
    ka_damage_kind kind;
    int64_t rank;      /* in the world */
    uint32_t group;    /* index; KA_NONE: of all */
    uint32_t sequence; /* the first one; KA_NO_SEQUENCE */
    uint32_t count;    /* of collectives */
} ka_rank_damage;
typedef KB_VEC(ka_rank_damage) ka_rank_damages;

/** What one rank has of one group. */
typedef struct ka_membership {
    uint32_t rank, group;
    uint32_t first, last;           /* sequence numbers */
    uint32_t first_here, last_here; /* of the rows that are loaded */
    uint32_t previous, count, descents, first_descent; /* numbers below the one before */
    uint32_t holes, first_hole;
    uint32_t contradictions, first_contradiction;
} ka_membership;

/** The search over the windows of a run. */
typedef struct ka_damage_search {
    const ka_rank_model *m;
    KB_VEC(ka_membership) members;
    kb_map at;                      /* group and rank → index of members */
    uint32_t *of_slot;              /* by rank and its group, as ka_rank_model.global: index of members; KA_NONE */
    kb_map reported;                /* kind, rank and group → index of list */
    uint32_t *group_first;          /* by group: the first of its members in by_group; and the end */
    uint32_t *by_group;             /* index of members */
    uint32_t *stamp;                /* by rank: the instance that was last found to have it */
    uint32_t stamps;
    ka_shared *shared;              /* by rank */
    ka_rank_damages list;
    bool no_memory;
} ka_damage_search;

/** @param m  ranks and groups. @param s  to be freed, also on failure. False: out of memory. */
bool ka_damage_search_create(ka_damage_search *s, const ka_rank_model *m);
void ka_damage_search_free(ka_damage_search *s);
/** Windows in the order of time. False: out of memory. */
bool ka_damage_search_add(ka_damage_search *s);
/** @param out  to be freed, also on failure; by kind, rank, group. False: out of memory. */
bool ka_damage_search_finish(ka_damage_search *s, ka_rank_damages *out);
const char *ka_damage_name(ka_damage_kind kind);

/** damage_calls.c: calls of the loaded rows that differ between ranks. */
void ka_find_wrong_calls(ka_damage_search *s);
/** The same again is only counted. */
void ka_report_damage(ka_damage_search *s, ka_rank_damage d);
ka_membership *ka_find_member(const ka_damage_search *s, uint32_t group, uint32_t rank);
#endif
