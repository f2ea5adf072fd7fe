/* The HTML report: one file with the page, its script and compressed data. docs/reference/report.md describes
 * the page; the format of the data is described where it is written (report_timeline.c) and read
 * (report/data.js). */
#ifndef KE_REPORT_H
#define KE_REPORT_H

#include "export/export.h"

/** A part of the page, and the SHA-256 of its bytes for the page's content security policy. */
typedef struct ke_asset {
    const char *data;
    size_t size;
    uint8_t sha256[32];
} ke_asset;
/* Generated */
/** In the first KiB of each page (page.html): such a file may be replaced by a new page. */
#define KE_REPORT_MARK "<meta name=\"generator\" content=\"ckineto report\">"
extern const ke_asset ke_report_page, ke_report_style, ke_report_script;
/** The script of flame graphs; it has no "]]>". */
extern const ke_asset ke_report_flame_script;

/* ---- report_timeline.c ----------------------------------------------------------------------- */
/** The order of activities in the timeline: track by track, counters left out. */
typedef struct ke_timeline {
    const kineto_trace *trace;
    kineto_row *rows; /* by position in the timeline */
    uint64_t count;
    const char *step_pattern; /* NULL: the default names of steps */
} ke_timeline;
kineto_status ke_timeline_create(const kineto_trace *trace, ke_timeline *out, kineto_error *err);
void ke_timeline_free(ke_timeline *timeline);
kineto_status ke_put_timeline(const ke_timeline *timeline, kb_sink *sink, kineto_error *err);
/** Args of KE_ARGS_ROWS activities from position `first` on, as a JSON array. The page loads such
 *  blocks when they are needed. */
#define KE_ARGS_ROWS 4096u
kineto_status ke_put_timeline_args(const ke_timeline *timeline, uint64_t first, kb_sink *sink,
                                   kineto_error *err);

/* ---- report_stacks.c ------------------------------------------------------------------------- */
/** The boxes of the flame graph: the widest ones, and how many are folded. */
kineto_status ke_put_report_stacks(const kineto_trace *trace, kb_sink *sink, kineto_error *err);

/* ---- report_ranks.c -------------------------------------------------------------------------- */
/** The member rank_map; null if there are no ranks to compare. */
void ke_put_rank_map(kb_json *j, const kineto_analysis *facts);

/* ---- report_summary.c ------------------------------------------------------------------------ */
kineto_status ke_put_summary(const kineto_trace *trace, const kineto_report_options *options,
                             uint64_t timeline_rows, kb_sink *sink, kineto_error *err);
#endif
