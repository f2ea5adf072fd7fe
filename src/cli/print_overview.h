/* The overview of traces on a terminal: a headline, findings, small tables, and what comes next, in
 * at most KC_OVERVIEW_LINES lines of the terminal's width. */
#ifndef KC_PRINT_OVERVIEW_H
#define KC_PRINT_OVERVIEW_H

#include "cli/print_facts.h"
#include "cli/style.h"

#include <ckineto/overview.h>

#define KC_OVERVIEW_LINES 40u

typedef struct kc_overview_page {
    const kc_health *health;
    const char *path; /* for the commands at the end */
    size_t width;     /* 0: of the terminal, else 100 */
    bool verbose;     /* also which rules were skipped, and what is doubtful in the trace */
} kc_overview_page;

void kc_overview_print(kineto_overview *o, const kc_overview_page *page, FILE *out);
#endif
