/* Steps of programs that do not mark them: ranges of one name that follow each other on one thread and cover most of
 * its time. docs/reference/analyze.md has the rule. */
#ifndef KT_REPEATED_RANGES_H
#define KT_REPEATED_RANGES_H

#include "trace/trace.h"

/** Finds the name of ranges that repeat like steps.
 *  @param name  receives the string id; KB_INTERN_NONE: no range repeats like a step.
 *  @return false: out of memory. */
bool kt_find_repeated_ranges(const kineto_trace *t, uint32_t *name);
#endif
