/* Whether the fit of the clocks can be trusted: otherwise it is refused, with the reason. */
#ifndef KA_CLOCK_CHECKS_H
#define KA_CLOCK_CHECKS_H

#include "analyze/ranks/rank_model.h"

#define KA_MIN_SHARED 5u /* instances over several clocks */

/** By rank: ends that count for the fit, and those of them that are far from the ends of other ranks. */
typedef struct ka_far_ends {
    uint32_t *count, *far;
} ka_far_ends;

/** Does it span several clocks, and do its ends say something about them? */
bool ka_is_shared(const ka_rank_model *m, const ka_instance *x);
/** The clock that the others are compared with: the first one with ends in common. */
uint32_t ka_first_clock(const ka_rank_model *m);
/** After the fit: bounds by causality, refusals, hosts that are left out. False: out of memory. */
bool ka_judge_clocks(ka_rank_model *m, const ka_far_ends *far);
/** Refuses if numbers of a group are out of order on a rank. False: out of memory. */
bool ka_check_numbers(ka_rank_model *m);
#endif
