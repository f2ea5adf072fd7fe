/* Which part of what a rank takes longer comes once, in a single step, and which comes again. */
#ifndef KA_STEP_PARTS_H
#define KA_STEP_PARTS_H

#include "analyze/ranks/rank_model.h"

typedef KB_VEC(uint32_t) ka_step_list;

/** @param excess    by row of the rank, ns: beyond its like.
 *  @param least_ns  a step of less is not set apart.
 *  @param part      by row of the rank: set to what is of a step that is set apart, else to 0.
 *  @param steps     cleared, and set to the numbers of these steps. False: out of memory. */
bool ka_find_step_parts(const ka_rank_model *m, uint32_t rank, const double *excess, double least_ns, double *part,
                        ka_step_list *steps);
#endif
