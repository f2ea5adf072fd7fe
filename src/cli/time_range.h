/* Texts of times on the command line and in calls of tools: durations, and ranges relative to a trace. */
#ifndef KC_TIME_RANGE_H
#define KC_TIME_RANGE_H

#include "base/base.h"

#include <ckineto/trace.h>

#define KC_TIME_RANGE_FORM "A:B, for example +1.5s:+2s or 10%:20%"
/** "1.5ms" in nanoseconds, exactly; without a unit: nanoseconds. False: malformed. */
bool kc_parse_duration(kineto_string text, int64_t *ns);
/** "A:B": +1.5s from the start of the trace, -200ms from its end, 10% of it, or a time since 1970. An omitted edge,
 *  0% and 100% do not cut: INT64_MIN and INT64_MAX. False: malformed. */
bool kc_parse_time_range(const char *text, const kineto_trace *trace, int64_t *from_ns, int64_t *to_ns);
/** "3" or "3..5". False: malformed, or the last is before the first. */
bool kc_parse_number_range(const char *text, uint64_t *first, uint64_t *last);
#endif
