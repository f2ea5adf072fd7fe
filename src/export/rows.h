/* What writers of one record for each activity share: a walk over all rows with what is known of
 * them, text of their tracks made once. */
#ifndef KE_ROWS_H
#define KE_ROWS_H

#include "export/export.h"

/* A track and its process, as a writer needs them for every row. */
typedef struct ke_place_view {
    kineto_track track;
    kineto_process process;
    kineto_string process_text, track_text; /* instead of pid and id; data is NULL for most */
    kineto_string text;                     /* what the writer made of it; freed with the walk */
} ke_place_view;

typedef struct ke_rows {
    const ke_job *job;
    ke_place_view *places; /* by track */
    uint32_t place_count;
    ke_text args;
    uint64_t replaced; /* invalid UTF-8 in arguments */

    /* the row that is looked at */
    kineto_activity activity;
    const ke_place_view *place;
} ke_rows;

/** False: out of memory. */
bool ke_rows_begin(ke_rows *rows, const ke_job *job);
/** Look at a row; its arguments are in `args`. False: out of memory. */
bool ke_rows_load(ke_rows *rows, kineto_row row);
void ke_rows_end(ke_rows *rows);

/* Words for the flags of an activity: bit i of the flags is word i. */
extern const char *const ke_flag_names[4];
#endif
