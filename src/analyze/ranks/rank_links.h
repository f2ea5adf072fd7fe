/* Which transfers are slow. */
#ifndef KA_RANK_LINKS_H
#define KA_RANK_LINKS_H

#include "analyze/ranks/link_places.h"
#include "analyze/ranks/rank_replay.h"

/** @param r     with the lengths of the trace.
 *  @param places  of the model.
 *  @param slow  by instance, zeros: set to how much longer its transfer takes than those of its like.
 *  @param use   by group: added to. False: out of memory. */
bool ka_find_slow_transfers(const ka_replay *r, const ka_link_places *places, double *slow, ka_link_use *use);
#endif
