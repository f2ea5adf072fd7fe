/* A walk over all rows, for writers with one record per activity (CSV, JSON lines): it loads each
 * row with its args, and keeps the text of each track, which is formatted once. */
#ifndef KE_ROWS_H
#define KE_ROWS_H

#include "export/export.h"

/* A track and its process, as a writer needs them for every row. */
typedef struct ke_place_view {
    kineto_track track;
    kineto_process process;
    /* Instead of pid and id; data NULL: none. */
    kineto_string process_text, track_text;
    /* Formatted by the writer; freed with the walk. */
    kineto_string text;
} ke_place_view;

typedef struct ke_rows {
    const ke_job *job;
    ke_place_view *places; /* by track */
    uint32_t place_count;
    ke_text args;
    uint64_t replaced; /* invalid UTF-8 in arguments */

    /* the current row */
    kineto_activity activity;
    const ke_place_view *place;
} ke_rows;

/** Starts a walk. False: out of memory; call ke_rows_end in any case. */
bool ke_rows_begin(ke_rows *rows, const ke_job *job);
/** Loads a row and its args. False: out of memory. */
bool ke_rows_load(ke_rows *rows, kineto_row row);
void ke_rows_end(ke_rows *rows);

/* Words for the flags of an activity: bit i of the flags is word i. */
extern const char *const ke_flag_names[4];
#endif
