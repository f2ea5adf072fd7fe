/* What comparing the ranks of facts found, in a few lines. */
#ifndef KC_FACTS_ANSWER_H
#define KC_FACTS_ANSWER_H

#include "analyze/saved/facts_file.h"
#include "cli/cli.h"

/** "rank 21, device: -928.4 us a step, 11.7 %" for each cause, or that there is none; then what differs in the
 *  collectives of ranks. Facts of one rank give nothing.
 *  @param s  if it is of one file of a run, whose tables are there already, ranks are not compared again. */
kineto_status kc_print_answer(const ka_facts_set *s, FILE *out, kineto_error *err);
#endif
