/* The facts of the ranks that were added so far, and what was found by comparing them. */
#ifndef KA_RANK_SET_H
#define KA_RANK_SET_H

#include "analyze/ranks/rank_windows.h"

typedef struct ka_set_rank {
    ka_rank_facts *facts;  /* without rows if these are read when they are needed */
    ka_rank_source source; /* of them */
} ka_set_rank;

typedef struct ka_rank_set {
    KB_VEC(ka_set_rank) ranks; /* sorted by rank when they are compared */
    size_t memory_bytes;       /* for the comparison, besides rows in memory; 0: 1 GiB */
    ka_rank_view *view;        /* made when first needed */
    kineto_error error;        /* why it could not be made; code KINETO_OK: it is out of memory */
} ka_rank_set;

/** Takes over `facts`, also on failure. False: out of memory. */
bool ka_rank_set_put(ka_rank_set **set, ka_rank_facts *facts);
/** The same of facts whose rows come from a source, which must outlive all comparisons. */
bool ka_rank_set_put_source(ka_rank_set **set, ka_rank_facts *facts, const ka_rank_source *source);
/** Add those of another set; NULL: none. False: out of memory. */
bool ka_rank_set_add(ka_rank_set **to, const ka_rank_set *from);
void ka_rank_set_destroy(ka_rank_set *set);
/** The comparison of the ranks, kept until more are added. NULL: see ka_rank_set.error. */
const ka_rank_view *ka_rank_set_view(ka_rank_set *set);
/** The same if there are two ranks or more; NULL also if there are not. @param set  NULL: there are none. */
const ka_rank_view *ka_view_several_ranks(ka_rank_set *set);
#endif
