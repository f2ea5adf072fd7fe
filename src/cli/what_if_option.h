/* `analyze --what-if`: scaling parts of the critical path of a rank. */
#ifndef KC_WHAT_IF_H
#define KC_WHAT_IF_H

#include "cli/options.h"

#include <ckineto/analyze.h>

/** Print the predicted duration with each of `texts` (kernel:PATTERN=FACTOR, and op:, class:,
 * launch:, copy:) and, if there are several, with all of them. */
kineto_status kc_what_if(const kineto_trace *trace, const kineto_analysis_options *options,
                         const kc_texts *texts, FILE *out, kineto_error *err);
#endif
