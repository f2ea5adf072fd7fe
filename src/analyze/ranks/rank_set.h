/* The facts of the ranks that were added so far, and what was found by comparing them. */
#ifndef KA_RANK_SET_H
#define KA_RANK_SET_H

#include "analyze/ranks/rank_windows.h"

typedef struct ka_rank_set {
    KB_VEC(ka_rank_facts *) ranks; /* sorted by rank when they are compared */
    size_t memory_bytes;           /* for the comparison, besides the rows; 0: 1 GiB */
    ka_rank_view *view;            /* made when first needed */
} ka_rank_set;

/** Takes over `facts`, also on failure. False: out of memory. */
bool ka_rank_set_put(ka_rank_set **set, ka_rank_facts *facts);
/** Add those of another set; NULL: none. False: out of memory. */
bool ka_rank_set_add(ka_rank_set **to, const ka_rank_set *from);
void ka_rank_set_destroy(ka_rank_set *set);
/** The comparison of the ranks, kept until more are added. NULL: out of memory. */
const ka_rank_view *ka_rank_set_view(ka_rank_set *set);
#endif
