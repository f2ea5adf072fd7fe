/* Ranks in the report on a terminal: waiting by time, and the critical path across them. */
#ifndef KC_REPORT_RANKS_H
#define KC_REPORT_RANKS_H

#include "cli/cli.h"

#include <ckineto/analyze.h>

/** Nothing for facts of one rank. @param bold  the terminal can show the path in bold. */
void kc_report_print_ranks(const kineto_analysis *facts, size_t width, bool bold, FILE *out);
#endif
