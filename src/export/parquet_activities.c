/* The activities of a trace as a Parquet file: a row for each, in the order of the trace. */
#include "export/export.h"
#include "export/parquet_run.h"
#include "trace/model/steps.h"

enum {
    ACTIVITY_ROW,
    ACTIVITY_NAME,
    ACTIVITY_CATEGORY,
    ACTIVITY_KIND,
    ACTIVITY_FORM,
    ACTIVITY_START,
    ACTIVITY_DURATION,
    ACTIVITY_PID,
    ACTIVITY_TID,
    ACTIVITY_DEVICE,
    ACTIVITY_STREAM,
    ACTIVITY_TRACK,
    ACTIVITY_CORRELATION,
    ACTIVITY_EXTERNAL,
    ACTIVITY_STEP,
    ACTIVITY_ARGS
};
static const ke_parquet_spec activity_specs[] = {
    [ACTIVITY_ROW] = {"row", KE_PARQUET_INT64, false, NULL, "number of the activity in its trace, from 0"},
    [ACTIVITY_NAME] = {"name", KE_PARQUET_TEXT, false, NULL, NULL},
    [ACTIVITY_CATEGORY] = {"category", KE_PARQUET_TEXT, false, NULL, "\"cat\" of the file"},
    [ACTIVITY_KIND] = {"kind", KE_PARQUET_TEXT, false, NULL, "cpu_op, kernel, runtime …: the same for all vendors"},
    [ACTIVITY_FORM] = {"form", KE_PARQUET_TEXT, false, NULL, "slice, async, instant, counter"},
    [ACTIVITY_START] = {"start_ns", KE_PARQUET_INT64, false, "ns", "since the Unix epoch"},
    [ACTIVITY_DURATION] = {"dur_ns", KE_PARQUET_INT64, false, "ns", "0 for instants and counters"},
    [ACTIVITY_PID] = {"pid", KE_PARQUET_INT64, true, NULL, "process; null: a device"},
    [ACTIVITY_TID] = {"tid", KE_PARQUET_INT64, true, NULL, "thread; null: not on a thread"},
    [ACTIVITY_DEVICE] = {"device", KE_PARQUET_INT64, true, NULL, "null: on the host"},
    [ACTIVITY_STREAM] = {"stream", KE_PARQUET_INT64, true, NULL, "queue of the device"},
    [ACTIVITY_TRACK] = {"track", KE_PARQUET_TEXT, true, NULL, "name of the thread or queue"},
    [ACTIVITY_CORRELATION] = {"correlation", KE_PARQUET_INT64, true, NULL, "joins launches with device work"},
    [ACTIVITY_EXTERNAL] = {"external_id", KE_PARQUET_INT64, true, NULL, "joins operators with launches and device work"},
    [ACTIVITY_STEP] = {"step", KE_PARQUET_INT64, true, NULL,
                       "the step that it starts in, of device work that its launch starts in"},
    [ACTIVITY_ARGS] = {"args", KE_PARQUET_JSON, true, NULL, "all arguments as a JSON object"},
};

/* Steps by start, and the one that was found last: activities come nearly in the order of time. */
typedef struct step_lookup {
    kt_step_list list;
    size_t last;
} step_lookup;

static int compare_step_starts(const void *left, const void *right)
{
    const kt_step_row *a = left, *b = right;
    int order = KB_COMPARE(a->process, b->process);
    return order ? order : KB_COMPARE(a->start_ns, b->start_ns);
}

/* The last step of the process that begins no later and ends after the moment; NULL: none. */
static const kt_step_row *find_step(step_lookup *steps, uint32_t process, int64_t at_ns)
{
    const kt_step_row *rows = steps->list.rows.data;
    size_t count = steps->list.rows.count, i = 0;
    const kt_step_row *last = steps->last < count ? &rows[steps->last] : NULL;
    if (last && last->process == process && last->start_ns <= at_ns && at_ns < last->end_ns)
        return last;
    KB_LOWER_BOUND(i, count, rows[i].process < process || (rows[i].process == process && rows[i].start_ns <= at_ns));
    if (i == 0 || rows[i - 1].process != process || rows[i - 1].end_ns <= at_ns)
        return NULL;
    steps->last = i - 1;
    return &rows[i - 1];
}

/* By the launch, if there is one. Work of a device without a launch is of no step. */
static const kt_step_row *find_step_of_row(step_lookup *steps, const ke_rows *rows)
{
    const kineto_trace *t = rows->job->trace;
    kineto_activity launch;
    kineto_track track;
    if (!steps->list.rows.count)
        return NULL;
    if (!rows->place->process.is_device)
        return find_step(steps, rows->place->track.process, rows->activity.start_ns);
    if (!kineto_trace_get(t, kineto_trace_launch(t, rows->activity.row), &launch) ||
        !kineto_trace_track(t, launch.track, &track))
        return NULL;
    return find_step(steps, track.process, launch.start_ns);
}

static void put_positive(ke_parquet *w, uint32_t column, uint64_t id)
{
    if (id && id <= INT64_MAX)
        ke_parquet_put_int(w, column, (int64_t)id);
}

/* Where it ran: process and thread, or device and queue. */
static void put_place(ke_parquet *w, const ke_place_view *place)
{
    const kineto_track *track = &place->track;
    bool is_device = place->process.is_device;
    bool has_pid = place->process.pid >= 0 || !place->process_text.data;
    if (has_pid)
        ke_parquet_put_int(w, is_device ? ACTIVITY_DEVICE : ACTIVITY_PID, place->process.pid);
    if (track->type == KINETO_TRACK_STREAM)
        ke_parquet_put_int(w, ACTIVITY_STREAM, track->id);
    else if (track->type == KINETO_TRACK_THREAD && !is_device && !place->track_text.data)
        ke_parquet_put_int(w, ACTIVITY_TID, track->id);
    if (track->name.size)
        ke_parquet_put_text(w, ACTIVITY_TRACK, track->name);
}

static void put_activity(ke_parquet *w, const ke_rows *rows, step_lookup *steps)
{
    const kineto_activity *a = &rows->activity;
    const kt_step_row *step = find_step_of_row(steps, rows);
    ke_parquet_put_int(w, ACTIVITY_ROW, a->row);
    ke_parquet_put_text(w, ACTIVITY_NAME, a->name);
    ke_parquet_put_text(w, ACTIVITY_CATEGORY, kineto_trace_string(rows->job->trace, a->category));
    ke_parquet_put_text(w, ACTIVITY_KIND, kb_string(kineto_kind_name(a->kind)));
    ke_parquet_put_text(w, ACTIVITY_FORM, kb_string(ke_form_name(a->form)));
    ke_parquet_put_int(w, ACTIVITY_START, a->start_ns);
    ke_parquet_put_int(w, ACTIVITY_DURATION, kb_length_ns(a->start_ns, a->end_ns));
    put_place(w, rows->place);
    put_positive(w, ACTIVITY_CORRELATION, a->correlation_id);
    put_positive(w, ACTIVITY_EXTERNAL, a->external_id);
    if (step && step->number <= INT64_MAX)
        ke_parquet_put_int(w, ACTIVITY_STEP, (int64_t)step->number);
    if (rows->args.count)
        ke_parquet_put_text(w, ACTIVITY_ARGS, (kineto_string){rows->args.data, rows->args.count});
    ke_parquet_end_row(w);
}

static bool put_activities(ke_parquet *w, const kineto_trace *trace, step_lookup *steps)
{
    static const kineto_export_options none = {.size = sizeof none};
    ke_job job = {.trace = trace, .options = &none};
    ke_rows rows;
    uint64_t count = kineto_trace_count(trace);
    bool ok = ke_rows_begin(&rows, &job);
    for (uint64_t row = 0; ok && row < count && !ke_parquet_failed(w); row++) {
        ok = ke_rows_load(&rows, (kineto_row)row);
        if (ok)
            put_activity(w, &rows, steps);
    }
    ke_rows_end(&rows);
    return ok;
}

/* Args may be read from the file that the trace came from, which may have changed meanwhile. */
static kineto_status check_activity_args(const kineto_trace *trace, kineto_error *err)
{
    const char *lost = kt_args_lost_file(trace);
    return lost ? kb_fail(err, KINETO_E_IO, "%s: the file has changed since it was opened; read it again", lost) : KINETO_OK;
}

kineto_status ke_parquet_save_activities(const kineto_trace *trace, const char *path, ke_parquet_account *account,
                                         kineto_error *err)
{
    step_lookup steps = {0};
    ke_parquet *w = NULL;
    uint64_t rows = 0, bytes = 0;
    bool ok = kt_prepare(trace, false, true) && kt_step_list_make(trace, NULL, true, &steps.list);
    kineto_status status = ok ? ke_parquet_open(path, activity_specs, KB_COUNT(activity_specs), NULL, &w, err)
                              : kb_fail_memory(err, path);
    if (!status) {
        qsort(steps.list.rows.data, steps.list.rows.count, sizeof *steps.list.rows.data, compare_step_starts);
        ke_parquet_describe(w, "activities", "All activities of the trace.", activity_specs, KB_COUNT(activity_specs));
        status = put_activities(w, trace, &steps) ? check_activity_args(trace, err) : kb_fail_memory(err, path);
        if (status)
            ke_parquet_abort(w);
        else
            status = ke_parquet_close(w, &rows, &bytes, err);
    }
    kt_step_list_free(&steps.list);
    account->files += !status;
    account->rows += rows;
    account->activities += rows;
    account->bytes += bytes;
    return status;
}
