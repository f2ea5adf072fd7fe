/* A trace of several ranks, one rank after the other: merged files, and recordings of several processes
 * of a job. What is measured of one rank never mixes with another's. */
#ifndef KA_EACH_RANK_H
#define KA_EACH_RANK_H

#include "base/base.h"

#include <ckineto/trace.h>

/** Does the trace have processes of more than one rank? */
bool ka_has_ranks(const kineto_trace *t);

/** What is done with a rank: its part of the trace, and by row of the part the row of the trace. */
typedef kineto_status ka_rank_visitor(void *context, const kineto_trace *part, int32_t rank,
                                      const kineto_row *rows, kineto_error *err);
/** Visit the ranks that have activities, in their order, until one fails. *without: activities that are
 *  of no rank; only then is it set. */
kineto_status ka_visit_ranks(const kineto_trace *t, ka_rank_visitor *visit, void *context,
                             uint64_t *without, kineto_error *err);
#endif
