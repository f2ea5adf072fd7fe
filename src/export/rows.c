/* The walk over rows of rows.h. */
#include "export/rows.h"

const char *const ke_flag_names[4] = {"open_start", "open_end", "args_lost", "global"};

bool ke_rows_begin(ke_rows *rows, const ke_job *job)
{
    const kineto_trace *t = job->trace;
    *rows = (ke_rows){.job = job, .place_count = kineto_trace_track_count(t)};
    rows->places = calloc((size_t)rows->place_count + 1, sizeof *rows->places);
    if (!rows->places)
        return false;
    for (uint32_t i = 0; i < rows->place_count; i++) {
        ke_place_view *p = &rows->places[i];
        kineto_trace_track(t, i, &p->track);
        kineto_trace_process(t, p->track.process, &p->process);
        p->process_text = kt_process_text_of(t, p->track.process);
        p->track_text = kt_track_text_of(t, i);
    }
    return true;
}

bool ke_rows_load(ke_rows *rows, kineto_row row)
{
    kineto_trace_get(rows->job->trace, row, &rows->activity);
    KB_ASSERT(rows->activity.track <= rows->place_count);
    rows->place = &rows->places[KB_MIN(rows->activity.track, rows->place_count)];
    if (row % KT_BLOCK_ROWS == 0)
        ke_progress(rows->job, row);
    return ke_args_json(rows->job->trace, row, &rows->args, &rows->replaced);
}

void ke_rows_end(ke_rows *rows)
{
    for (uint32_t i = 0; rows->places && i < rows->place_count; i++)
        free((void *)(uintptr_t)rows->places[i].text.data);
    free(rows->places);
    kb_vec_free(&rows->args);
}
