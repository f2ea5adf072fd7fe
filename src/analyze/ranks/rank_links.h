/* Which transfers are slow. */
#ifndef KA_RANK_LINKS_H
#define KA_RANK_LINKS_H

#include "analyze/ranks/rank_replay.h"

/** Of a group: could its transfers be compared with those of another one? */
typedef struct ka_link_use {
    double lone_ns;   /* of transfers that are like those of no other group */
    bool is_compared; /* some are */
} ka_link_use;

/** @param r     with the lengths of the trace.
 *  @param slow  by instance, zeros: set to how much longer its transfer takes than those of its like.
 *  @param use   by group: added to. False: out of memory. */
bool ka_find_slow_transfers(const ka_replay *r, double *slow, ka_link_use *use);
#endif
