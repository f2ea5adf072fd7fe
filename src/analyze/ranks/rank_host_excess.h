/* Which ranks of those that compute on hosts have more to do than others, beyond what the hosts' schedulers add. */
#ifndef KA_RANK_HOST_EXCESS_H
#define KA_RANK_HOST_EXCESS_H

#include "analyze/ranks/rank_model.h"

/** @param work_ns  by row
 *  @param usual    by row, the median of its role in its step. Of rows of hosts it is changed to what remains without
 *                  what the rank has more in all steps, or in one; to work_ns where that is not certain.
 *  @return false: out of memory. threads: any. */
bool ka_find_host_excess(const ka_rank_model *m, const int64_t *work_ns, double *usual);
#endif
