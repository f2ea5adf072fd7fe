/* Work on many ranks by two threads, each of which takes a half of them: results do not depend on how many there are.
 *
 * The work of a lane may write what belongs to its ranks (their rows, their buffers), and what it has for each lane. It
 * reads everything else. Failures are kept for each lane, and returned by the caller in the order of lanes. */
#ifndef KA_RANK_LANES_H
#define KA_RANK_LANES_H

#include "base/base.h"

#define KA_LANES 2u

/** @param lane  0 … KA_LANES - 1: calls at the same time have different ones. */
typedef void (*ka_lane_work)(void *context, uint32_t lane, uint32_t first, uint32_t end);
/** Call `work` for all of 0 … count - 1, in consecutive parts, and return when all are done. @param rows  how much it is:
 *  little, or a machine with one CPU, is done by the calling thread, as lane 0. */
void ka_run_lanes(ka_lane_work work, void *context, uint32_t count, size_t rows);

/** Does both, at the same time if it is much: they write nothing in common, and neither reads what the other one writes. */
typedef void (*ka_side_work)(void *context);
void ka_run_both(ka_side_work first, ka_side_work second, void *context, size_t rows);

/** Memory that is accessed in no order: in large pages where the system has them. To be freed. NULL: out of memory. */
void *ka_allocate_large(size_t bytes);
#endif
