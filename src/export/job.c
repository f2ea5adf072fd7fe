/* An export job: the counts of the trace, the walk over its rows, and the account of what was
 * written and what the format cannot hold. Writers use it through ke_job (export.h). */
#include "export/export.h"

static void count_block_rows(const kt_block *b, ke_census *c)
{
    for (uint32_t i = 0; i < b->count; i++) {
        c->forms[b->form[i] & 3]++;
        c->with_args += kt_args_form_of(b, i) != KT_ARGS_NONE;
        c->start_ns = KB_MIN(c->start_ns, b->start_ns[i]);
        c->end_ns = KB_MAX(c->end_ns, b->end_ns[i]);
    }
}

/* One pass over the blocks; the window counts even if it is wider than the activities. */
void ke_census_count(const kineto_trace *trace, ke_census *out)
{
    *out = (ke_census){.activities = kineto_trace_count(trace)};
    kineto_trace_window(trace, &out->start_ns, &out->end_ns);
    for (uint32_t i = 0; i < kt_block_count(trace); i++)
        count_block_rows(kt_block_at(trace, i), out);
    uint64_t flows = kineto_trace_flow_count(trace);
    for (uint64_t i = 0; i < flows; i++) {
        kineto_flow f;
        kineto_trace_flow(trace, i, &f);
        bool whole = f.from < out->activities && f.to < out->activities;
        out->flows += whole;
        out->half_flows += !whole;
    }
}

void ke_omit(kineto_export_result *result, const char *what, const char *reason, uint64_t count)
{
    if (count == 0 || result->omission_count == KINETO_EXPORT_MAX_OMISSIONS)
        return;
    KB_ASSERT(what && reason);
    result->omissions[result->omission_count++] = (kineto_export_omission){what, reason, count};
}

void ke_result_count_all(const ke_job *job)
{
    kineto_export_result *r = job->result;
    r->activities = job->census.activities;
    r->slices = job->census.forms[KINETO_FORM_SLICE];
    r->asyncs = job->census.forms[KINETO_FORM_ASYNC];
    r->instants = job->census.forms[KINETO_FORM_INSTANT];
    r->counters = job->census.forms[KINETO_FORM_COUNTER];
    r->flows = job->census.flows + job->census.half_flows;
}

/* The caller's `size` stays; it limits the copy. */
void ke_result_copy_out(const kineto_export_result *all, kineto_export_result *to)
{
    if (!to || to->size < sizeof to->size)
        return;
    size_t size = KB_MIN(to->size, sizeof *all);
    memcpy((char *)to + sizeof to->size, (const char *)all + sizeof to->size,
           size - sizeof to->size);
}

void ke_progress(const ke_job *job, uint64_t done)
{
    if (job->options->progress)
        job->options->progress(done, job->census.activities, job->options->user);
}

kineto_status ke_fail_memory(const ke_job *job, kineto_error *err)
{
    return kb_fail(err, KINETO_E_MEMORY, "write a trace of %llu activities: out of memory",
                   (unsigned long long)job->census.activities);
}

/* ---- the walk over rows ---------------------------------------------------------------------- */

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
