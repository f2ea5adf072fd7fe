/* Which ranks of those that compute on hosts have more to do than others, beyond what the hosts' schedulers add. */
#ifndef KA_RANK_HOST_EXCESS_H
#define KA_RANK_HOST_EXCESS_H

#include "analyze/ranks/rank_usual.h"

/** @param r  with the lengths of the trace.
 *  @param u  of it. The usual work of rows of hosts is set to what remains without what the rank has more in all steps,
 *            or in one; to that of the trace where that is not certain.
 *  @return false: out of memory. threads: any. */
bool ka_find_host_excess(const ka_replay *r, ka_usual *u);
#endif
