/* What must be known before ranks are compared, in sentences for headlines and for `verify`: clocks that cannot be
 * aligned, and ranks that call other collectives than their group. */
#ifndef KA_RANK_WARNINGS_H
#define KA_RANK_WARNINGS_H

#include "analyze/ranks/rank_windows.h"

/** @param text  receives "ranks were not compared: clocks cannot be aligned: …", without a period; "" if they are aligned.
 *  @return there is something to report. */
bool ka_warn_of_clocks(const ka_rank_view *v, char *text, size_t size);
/** The same of collectives that differ between ranks, which most likely makes a run hang: "rank 10 calls another
 *  collective than its group: group 0, number 50". Files that are missing or cut off are no part of it. */
bool ka_warn_of_mismatches(const ka_rank_view *v, char *text, size_t size);
#endif
