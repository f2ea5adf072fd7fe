/* What `ckineto record` says about a recording when it has ended. */
#ifndef KC_RECORD_SUMMARY_H
#define KC_RECORD_SUMMARY_H

#include "cli/launch/record_result.h"

/** The headline, tables, what recording took, what is missing and how to get it, and what to change. About
 *  KC_SUMMARY_LINES lines; with `verbose` of the report all rows and the whole ledger. */
#define KC_SUMMARY_LINES 25u
void kc_record_summary_print(const kc_record_report *r, const kineto_trace *trace, FILE *out);
#endif
