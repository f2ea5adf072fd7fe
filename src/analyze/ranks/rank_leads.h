/* Whether a cause is one in all steps, or in a few: in how many it is the largest of its kind. */
#ifndef KA_RANK_LEADS_H
#define KA_RANK_LEADS_H

#include "analyze/ranks/rank_causes.h"

typedef struct ka_lead_input {
    const ka_rank_model *m;
    uint32_t first_step, step_count; /* numbers of steps are in this range */
    double (*excess_of)(const void *context, ka_cause_kind kind, uint32_t row); /* KA_CAUSE_DEVICE or KA_CAUSE_HOST */
    const void *context;
    const double *slow; /* by instance: how much its transfer is beyond its like */
} ka_lead_input;

/** Sets c->steps, and `leads` of all causes. False: out of memory. */
bool ka_count_leads(const ka_lead_input *in, ka_rank_causes *c);
#endif
