/* The HTML report: what its files share. docs/reference/report.md describes what is in the page. */
#ifndef KE_REPORT_H
#define KE_REPORT_H

#include "export/export.h"

/** A part of the page, and the SHA-256 of its bytes. */
typedef struct ke_asset {
    const char *data;
    size_t size;
    uint8_t sha256[32];
} ke_asset;
extern const ke_asset ke_report_page, ke_report_style, ke_report_script; /* made by the build */

/* ---- report_timeline.c ---- */
/** Where each activity stands in the timeline. */
typedef struct ke_timeline {
    const kineto_trace *trace;
    kineto_row *rows; /* by place */
    uint64_t count;
    const char *step_pattern; /* NULL: the usual names of steps */
} ke_timeline;
kineto_status ke_timeline_create(const kineto_trace *trace, ke_timeline *out, kineto_error *err);
void ke_timeline_free(ke_timeline *timeline);
kineto_status ke_put_timeline(const ke_timeline *timeline, kb_sink *sink, kineto_error *err);
/** Arguments of the activities from a place on, as a JSON array. */
#define KE_ARGS_ROWS 4096u
kineto_status ke_put_timeline_args(const ke_timeline *timeline, uint64_t first, kb_sink *sink,
                                   kineto_error *err);

/* ---- report_summary.c ---- */
kineto_status ke_put_summary(const kineto_trace *trace, const kineto_report_options *options,
                             uint64_t timeline_rows, kb_sink *sink, kineto_error *err);
#endif
