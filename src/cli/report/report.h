/* The report of one or several traces: as an HTML page, as text, or as a flame graph. Used by
 * `report` and `view`. */
#ifndef KC_REPORT_H
#define KC_REPORT_H

#include "cli/open_many.h"
#include "cli/print_facts.h"

#include <ckineto/findings.h>

typedef struct kc_report_page {
    char *const *paths;
    int count;
    /* NULL: the name of the first trace */
    const char *title;
    /* trace to compare the first one with; NULL: none */
    const char *before;
    uint64_t row_limit, activity_limit; /* 0: the default */
    kineto_analysis_options analyze;
    /* receives whether all traces could be read; may be NULL */
    bool *is_read;
} kc_report_page;

/** Read each trace, then write the page; a terminal shows the progress. */
kineto_status kc_report_save_page(const kc_report_page *page, const char *output,
                                  kineto_error *err);
/** The same as text. @param width  0: that of the terminal. */
kineto_status kc_report_print_text(const kc_report_page *page, uint64_t width, FILE *out,
                                   kineto_error *err);
/** All traces as one flame graph. */
kineto_status kc_report_save_flame(const kc_report_page *page, const char *output,
                                   kineto_error *err);

/* ---- report_text.c --------------------------------------------------------------------------- */
enum { KC_MIN_WIDTH = 60, KC_MAX_WIDTH = 400 };
void kc_report_print(const kc_health *health, const kineto_analysis *facts,
                     const kineto_findings *found, uint64_t width, FILE *out);
#endif
