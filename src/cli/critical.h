/* What `analyze` does with the critical path of a rank, besides its tables. */
#ifndef KC_CRITICAL_H
#define KC_CRITICAL_H

#include "cli/options.h"

#include <ckineto/analyze.h>

/** Print how long it would have taken with each of `texts` (kernel:PATTERN=FACTOR, and op:, class:,
 * launch:, copy:) alone and, if there are several, with all of them. */
kineto_status kc_what_if(const kineto_trace *trace, const kineto_analyze_options *options,
                         const kc_texts *texts, FILE *out, kineto_error *err);
#endif
