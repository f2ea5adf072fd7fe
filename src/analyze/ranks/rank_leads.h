/* Whether a cause is one in all steps, or in a few: in how many it is the largest of its kind. */
#ifndef KA_RANK_LEADS_H
#define KA_RANK_LEADS_H

#include "analyze/ranks/rank_model.h"

enum { KA_LEADS_DEVICE, KA_LEADS_HOST, KA_LEADS_LINK, KA_LEADS_COUNT };

/** The largest excess of a step. */
typedef struct ka_step_leader {
    double excess;
    uint32_t of; /* index of a rank or a group; KA_NONE: none is beyond its like */
} ka_step_leader;

/** Leaders of all steps, in the order in which steps were first met. All 0: none yet. */
typedef struct ka_leads {
    kb_map steps; /* number → index */
    KB_VEC(ka_step_leader) of_kind[KA_LEADS_COUNT];
    kb_map places; /* group and step → index of sums */
    KB_VEC(double) sums; /* of slow transfers */
} ka_leads;

/** The excess of a rank in all of a step. False: out of memory. */
bool ka_leads_offer(ka_leads *l, int kind, uint32_t step, double excess, uint32_t rank);
/** A slow transfer of a group in a step. False: out of memory. */
bool ka_leads_add_transfer(ka_leads *l, uint32_t step, double slow, uint32_t group);
/** Steps that a rank or a group leads. */
uint32_t ka_leads_of(const ka_leads *l, int kind, uint32_t of);
uint32_t ka_leads_step_count(const ka_leads *l);
void ka_leads_free(ka_leads *l);
#endif
