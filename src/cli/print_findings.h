/* Findings for human eyes, and gates. */
#ifndef KC_FINDINGS_H
#define KC_FINDINGS_H

#include "cli/cli.h"

#include <ckineto/findings.h>

#define KC_FINDINGS_WIDTH ((size_t)96)

/** @param width  columns to write in; 0: KC_FINDINGS_WIDTH. */
void kc_findings_print(const kineto_findings *found, size_t width, FILE *out);
/** The first `limit` ones with two lines of advice each, and how many rules were skipped; `verbose`:
 *  all of the skipped rules. @param terminal  where the text goes in the end: decides about
 *  colours. */
void kc_findings_print_top(const kineto_findings *found, uint32_t limit, size_t width, bool verbose,
                           FILE *terminal, FILE *out);
/** The first `limit` ones, with what to do, below the summary of a recording. Nothing without any. */
void kc_findings_print_brief(const kineto_findings *found, uint32_t limit, size_t width, FILE *out);
/** The rules there are, on the standard output. @return the exit status. */
int kc_finding_rules_print(void);
/** Checks the gates as far as that is possible before traces are read. A mistake is explained on
 * stderr. */
kineto_status kc_gates_check(const kc_texts *gates);
/** Says on stderr which gates do not pass. @param status  receives why a gate could not be asked.
 */
bool kc_gates_pass(const kineto_findings *found, const kc_texts *gates, kineto_status *status,
                   kineto_error *err);
#endif
