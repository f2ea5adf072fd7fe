/* The part of a trace that HolisticTraceAnalysis keeps, with its whole microseconds.
 *
 * HTA reads ranges with a category. Those with a stream count as work (even operators, if a
 * source gave them one), all others as the host's (even a device's annotations). Work is tied to
 * the last host range with its correlation id. What the host began before the last of several steps
 * stays, and the work with its ids. */
#include "analyze/compat/compat.h"

#include "trace/model/steps.h"

#include <math.h>

#define NO_ID (-1)

/* What HTA keeps of a row. */
typedef struct range {
    int64_t start_ns, end_ns;    /* in whole microseconds, if the trace has finer ones */
    int64_t stream, correlation; /* NO_ID */
    uint32_t partner;            /* range with the same correlation, on the other side; KA_NONE */
    int32_t step;
    bool device; /* it takes part in the correlation as a device's */
    bool kept;
} range;

/* A range by an id: correlation or stream. */
typedef struct keyed {
    int64_t id;
    uint32_t range;
} keyed;
typedef KB_VEC(keyed) keyed_list;

/* Working state; `ranges` has an entry for each row of the trace. */
typedef struct filling {
    ka_dataset *s;
    ka_dataset_memory *m;
    const kineto_trace *t;
    const kineto_analysis_options *options;
    range *ranges;    /* by row; stream NOT_SEEN: HTA drops the row */
    uint32_t *index;  /* by row: of slices: it, or what is around it; KA_NONE */
    int64_t least_ns; /* first start of all ranges */
    bool fine;        /* times have fractions of a microsecond */
    bool no_memory;
} filling;

#define NOT_SEEN INT64_MIN

/* ---- ranges that HTA reads -------------------------------------------------------------------------------- */

/* A whole number among the arguments; NO_ID: there is none. */
static int64_t number_arg(const filling *f, kineto_row row, const char *key)
{
    kineto_arg arg;
    int64_t number;
    return kineto_args_find(f->t, row, key, &arg) && kt_arg_whole(&arg, &number) ? number : NO_ID;
}

/* The correlation id of a row: the column's, or for work the argument's. */
static int64_t correlation_of(const filling *f, const kt_block *b, uint32_t i, kineto_row row,
                              int64_t stream)
{
    uint64_t id = b->correlation_id[i];
    if (id)
        return id <= INT64_MAX ? (int64_t)id : NO_ID;
    return stream >= 0 ? number_arg(f, row, "correlation") : NO_ID;
}

/* Names of waits that HTA counts as device rows. */
static bool is_sync(kineto_string name)
{
    return kb_string_equal(name, kb_string("Event Sync")) ||
           kb_string_equal(name, kb_string("Context Sync"));
}

/* Fills the range of a row; stream NOT_SEEN: HTA drops the row. */
static void read_range(filling *f, const kt_block *b, uint32_t i, kineto_row row)
{
    range *r = &f->ranges[row];
    kineto_string category = kt_category_string(f->t, b->category[i]);
    *r = (range){.stream = NOT_SEEN, .partner = KA_NONE, .step = -1};
    if (b->form[i] != KINETO_FORM_SLICE || !category.size ||
        kb_string_equal(category, kb_string("Trace")))
        return;
    r->start_ns = b->start_ns[i];
    r->end_ns = b->end_ns[i];
    r->stream = KB_MAX(number_arg(f, row, "stream"), (int64_t)NO_ID);
    r->correlation = correlation_of(f, b, i, row, r->stream);
    r->device =
        r->correlation >= 0 && (r->stream >= 0 || is_sync(kineto_trace_string(f->t, b->name[i])));
    r->kept = true;
    f->fine |= r->start_ns % 1000 != 0;
    f->least_ns = KB_MIN(f->least_ns, r->start_ns);
}

/* Microseconds as HTA has them: the float64 nearest to the number in the file. From 1970 on that is a quarter of a
 * microsecond off at most. */
static double float_us(int64_t ns) { return (double)(ns / 1000) + (double)(ns % 1000) / 1000; }

/* Nanoseconds of a rounded number of microseconds since the base time; saturates. */
static int64_t whole_us(double us, int64_t base_ns)
{
    bool fits = us > -9e15 && us < 9e15;
    return ka_add_ns(base_ns, (int64_t)(fits ? us : us < 0 ? -9e15 : 9e15) * 1000);
}

/* Starts go up and ends, which are sums of float64, go down, so that short ranges end before they start. */
static void round_all(filling *f, uint32_t rows)
{
    int64_t base = kt_file_base_ns(f->t);
    for (uint32_t i = 0; i < rows; i++) {
        range *r = &f->ranges[i];
        double start = float_us(kb_length_ns(base, r->start_ns)),
               end = start + float_us(kb_length_ns(r->start_ns, r->end_ns));
        r->start_ns = whole_us(ceil(start), base);
        r->end_ns = whole_us(floor(end), base);
    }
    f->least_ns = whole_us(ceil(float_us(kb_length_ns(base, f->least_ns))), base);
}

/* Reads all rows; then rounds if any time has a fraction of a microsecond. */
static void read_ranges(filling *f)
{
    kineto_row row = 0;
    f->least_ns = INT64_MAX;
    for (uint32_t b = 0; b < kt_block_count(f->t); b++) {
        const kt_block *block = kt_block_at(f->t, b);
        for (uint32_t i = 0; i < block->count; i++)
            read_range(f, block, i, row++);
    }
    if (f->least_ns == INT64_MAX)
        f->least_ns = 0;
    if (f->fine)
        round_all(f, row);
}

/* ---- correlation -------------------------------------------------------------------------------------- */

/* By id, then row. */
static int compare_keyed(const void *left, const void *right)
{
    const keyed *a = left, *b = right;
    if (a->id != b->id)
        return a->id < b->id ? -1 : 1;
    return a->range < b->range ? -1 : a->range > b->range;
}

/* Ranges with a correlation id of one side, sorted by id and row. With `kept` only those still
 * selected. False: out of memory. */
static bool collect_correlated(const filling *f, uint32_t rows, bool device, bool kept,
                               keyed_list *out)
{
    for (uint32_t i = 0; i < rows; i++) {
        const range *r = &f->ranges[i];
        if (r->stream != NOT_SEEN && r->correlation >= 0 && r->device == device &&
            (!kept || r->kept) && !kb_vec_push(out, ((keyed){r->correlation, i})))
            return false;
    }
    if (out->count)
        qsort(out->data, out->count, sizeof *out->data, compare_keyed);
    return true;
}

/* The last one with this id, KA_NONE. */
static uint32_t find_last(const keyed_list *list, int64_t id)
{
    size_t after = 0;
    KB_LOWER_BOUND(after, list->count, list->data[after].id <= id);
    return after && list->data[after - 1].id == id ? list->data[after - 1].range : KA_NONE;
}

/* Ties each range to the last one of the other side with its id. */
static void join_correlations(filling *f, uint32_t rows)
{
    keyed_list host = {0}, device = {0};
    if (collect_correlated(f, rows, false, false, &host) &&
        collect_correlated(f, rows, true, false, &device)) {
        for (size_t i = 0; i < host.count; i++)
            f->ranges[host.data[i].range].partner = find_last(&device, host.data[i].id);
        for (size_t i = 0; i < device.count; i++)
            f->ranges[device.data[i].range].partner = find_last(&host, device.data[i].id);
    } else {
        f->no_memory = true;
    }
    kb_vec_free(&host);
    kb_vec_free(&device);
}

/* ---- steps ---------------------------------------------------------------------------------------------- */

/* The step that a row is; NULL: none. */
static const kt_step_row *step_of(const filling *f, kineto_row row)
{
    uint32_t name = kt_block_at(f->t, row / KT_BLOCK_ROWS)->name[row % KT_BLOCK_ROWS];
    return kt_step_list_find(&f->m->step_rows, row, name);
}

/* `slice` is the row, until slices are there. */
static void find_step_ranges(filling *f, uint32_t rows)
{
    for (uint32_t i = 0; i < rows; i++) {
        const range *r = &f->ranges[i];
        const kt_step_row *found = step_of(f, i);
        if (r->stream != NO_ID || r->device || !found)
            continue;
        kineto_track track;
        kineto_activity activity;
        kineto_trace_get(f->t, i, &activity);
        kineto_trace_track(f->t, activity.track, &track);
        ka_step step = {r->start_ns, r->end_ns, found->number, i, track.process};
        f->no_memory |= !kb_vec_push(&f->m->steps, step);
    }
    if (f->m->steps.count)
        qsort(f->m->steps.data, f->m->steps.count, sizeof *f->m->steps.data, ka_compare_steps);
}

/* The last one, of any process, that began before and has not ended. */
static int32_t step_of_any_process(const filling *f, int64_t ns)
{
    const ka_step *steps = f->m->steps.data;
    size_t after = 0;
    KB_LOWER_BOUND(after, f->m->steps.count, steps[after].start_ns <= ns);
    for (size_t i = after; i-- > 0 && after - i < 64;)
        if (ns < steps[i].end_ns)
            return (int32_t)i;
    return -1;
}

/* Work on stream 0 belongs to no step: HTA searches launches from stream 1 on. */
static void give_steps(filling *f, uint32_t rows)
{
    for (uint32_t i = 0; f->m->steps.count && i < rows; i++) {
        range *r = &f->ranges[i];
        if (r->stream == NO_ID || (r->stream == 0 && !r->device))
            r->step = step_of_any_process(f, r->start_ns);
    }
    for (uint32_t i = 0; f->m->steps.count && i < rows; i++) {
        range *r = &f->ranges[i];
        if (r->stream > 0 && r->partner != KA_NONE)
            r->step = f->ranges[r->partner].step;
    }
}

/* ---- the chosen ones ---------------------------------------------------------------------------------- */

/* Does the selection of steps keep a range of the host? */
static bool is_selected(const filling *f, const range *r)
{
    const ka_step *steps = f->m->steps.data;
    size_t count = f->m->steps.count;
    if (f->options->steps == KINETO_STEPS_DROP_LAST)
        return !count || steps[0].number == steps[count - 1].number ||
               r->start_ns < steps[count - 1].start_ns;
    if (f->options->steps != KINETO_STEPS_RANGE)
        return true;
    return r->step >= 0 && steps[r->step].number >= f->options->first_step &&
           steps[r->step].number <= f->options->last_step;
}

/* KINETO_E_NOT_FOUND if a range of steps was selected that the trace does not have. */
static kineto_status check_range(const filling *f, kineto_error *err)
{
    for (size_t i = 0; i < f->m->steps.count; i++)
        if (f->m->steps.data[i].number >= f->options->first_step &&
            f->m->steps.data[i].number <= f->options->last_step)
            return KINETO_OK;
    if (f->options->steps != KINETO_STEPS_RANGE)
        return KINETO_OK;
    return kb_fail(err, KINETO_E_NOT_FOUND, "the trace has no %s",
                   kt_format_step_range(f->options->first_step, f->options->last_step).s);
}

/* Drops host ranges outside of the selected steps, then device ranges whose launch was dropped,
 * then streams that were not selected. */
static void select_ranges(filling *f, uint32_t rows)
{
    keyed_list host = {0};
    for (uint32_t i = 0; i < rows; i++)
        if (f->ranges[i].kept && !f->ranges[i].device)
            f->ranges[i].kept = is_selected(f, &f->ranges[i]);
    bool all = f->options->steps != KINETO_STEPS_RANGE &&
               (!f->m->steps.count ||
                f->m->steps.data[0].number == f->m->steps.data[f->m->steps.count - 1].number);
    if (f->options->steps == KINETO_STEPS_ALL)
        all = true;
    if (!all && !collect_correlated(f, rows, false, true, &host))
        f->no_memory = true;
    for (uint32_t i = 0; i < rows; i++) {
        range *r = &f->ranges[i];
        if (r->kept && r->device && !all)
            r->kept = find_last(&host, r->correlation) != KA_NONE;
        if (r->kept && r->stream >= 0)
            r->kept = ka_stream_wanted(f->options, r->stream);
    }
    kb_vec_free(&host);
}

/* ---- the host's ---------------------------------------------------------------------------------------- */

/* Appends a slice of the thread. */
static void put_slice(filling *f, uint32_t thread, kineto_row row, uint32_t parent)
{
    const range *r = &f->ranges[row];
    ka_slice s = {.start_ns = r->start_ns,
                  .end_ns = r->end_ns,
                  .row = row,
                  .thread = thread,
                  .parent = parent,
                  .step = r->step};
    f->index[row] = (uint32_t)f->m->slices.count;
    f->no_memory |= !ka_dataset_put_slice(f->m, f->t, s);
}

/* What is left out stands for what is around it. */
static void add_host_row(filling *f, uint32_t thread, kineto_row row)
{
    const range *r = &f->ranges[row];
    kineto_row around = kineto_trace_parent(f->t, row);
    uint32_t parent = around == KINETO_NO_ROW ? KA_NONE : f->index[around];
    if (r->kept && r->stream == NO_ID)
        put_slice(f, thread, row, parent);
    else
        f->index[row] = parent;
}

/* Slice of a host range; KA_NONE: it was left out. */
static uint32_t slice_of(const filling *f, uint32_t row)
{
    const range *r = &f->ranges[row];
    return r->kept && r->stream == NO_ID ? f->index[row] : KA_NONE;
}

/* Appends the slices of a track; any track with host ranges is a thread. */
static void add_thread(filling *f, uint32_t track, const kineto_track *info, const kineto_row *rows)
{
    ka_thread thread = {.track = track,
                        .process = info->process,
                        .id = info->id,
                        .first = (uint32_t)f->m->slices.count};
    for (uint64_t i = 0; i < info->count && !f->no_memory; i++)
        add_host_row(f, (uint32_t)f->m->threads.count, rows[i]);
    thread.count = (uint32_t)f->m->slices.count - thread.first;
    if (thread.count)
        f->no_memory |= !kb_vec_push(&f->m->threads, thread);
}

/* Appends all slices; afterwards steps refer to slices instead of rows. */
static void add_slices(filling *f)
{
    for (uint32_t i = 0; i < kineto_trace_track_count(f->t) && !f->no_memory; i++) {
        kineto_track info;
        kineto_trace_track(f->t, i, &info);
        const kineto_row *rows = kineto_trace_track_rows(f->t, i);
        f->no_memory |= !rows && info.count;
        if (rows)
            add_thread(f, i, &info, rows);
    }
    for (size_t i = 0; i < f->m->steps.count; i++)
        f->m->steps.data[i].slice = slice_of(f, f->m->steps.data[i].slice);
}

/* ---- work ------------------------------------------------------------------------------------------------ */

/* Appends work of a stream. */
static void append_work_row(filling *f, kineto_row row, uint32_t stream)
{
    const range *r = &f->ranges[row];
    ka_work w = {.start_ns = r->start_ns,
                 .end_ns = r->end_ns,
                 .row = row,
                 .stream = stream,
                 .call = r->partner == KA_NONE ? KA_NONE : slice_of(f, r->partner),
                 .step = r->step};
    f->no_memory |= !ka_dataset_put_work(f->m, f->t, w);
}

/* By start, the longer first, then row. */
static int compare_work(const void *left, const void *right)
{
    const ka_work *a = left, *b = right;
    if (a->start_ns != b->start_ns)
        return a->start_ns < b->start_ns ? -1 : 1;
    if (a->end_ns != b->end_ns)
        return a->end_ns > b->end_ns ? -1 : 1;
    return a->row < b->row ? -1 : a->row > b->row;
}

/* A stream is identified by its number alone, whatever its device. */
static void append_stream_rows(filling *f, const keyed *rows, size_t count)
{
    kineto_activity activity;
    kineto_track track;
    kineto_trace_get(f->t, rows[0].range, &activity);
    kineto_trace_track(f->t, activity.track, &track);
    ka_stream stream = {.track = activity.track,
                        .process = track.process,
                        .device = -1,
                        .id = rows[0].id,
                        .first = (uint32_t)f->m->work.count,
                        .count = (uint32_t)count};
    (void)kt_track_device(f->t, activity.track, &stream.device);
    for (size_t i = 0; i < count; i++)
        append_work_row(f, rows[i].range, (uint32_t)f->m->streams.count);
    f->no_memory |= !kb_vec_push(&f->m->streams, stream);
    if (!f->no_memory)
        qsort(f->m->work.data + stream.first, count, sizeof *f->m->work.data, compare_work);
}

/* Groups work by stream number, in the order of numbers. */
static void append_all_work(filling *f, uint32_t rows)
{
    keyed_list list = {0};
    for (uint32_t i = 0; i < rows; i++)
        if (f->ranges[i].kept && f->ranges[i].stream >= 0)
            f->no_memory |= !kb_vec_push(&list, ((keyed){f->ranges[i].stream, i}));
    if (list.count)
        qsort(list.data, list.count, sizeof *list.data, compare_keyed);
    for (size_t i = 0, end; i < list.count; i = end) {
        for (end = i + 1; end < list.count && list.data[end].id == list.data[i].id; end++)
            ;
        append_stream_rows(f, list.data + i, end - i);
    }
    kb_vec_free(&list);
}

/* ---- all of it ------------------------------------------------------------------------------------------- */

/* The steps of HTA's own parser, in its order. */
static kineto_status fill_ranges(filling *f, uint32_t rows, kineto_error *err)
{
    read_ranges(f);
    join_correlations(f, rows);
    find_step_ranges(f, rows);
    kineto_status status = check_range(f, err);
    if (status || f->no_memory)
        return status;
    give_steps(f, rows);
    select_ranges(f, rows);
    add_slices(f);
    append_all_work(f, rows);
    f->s->series_origin_ns = f->least_ns;
    return KINETO_OK;
}

/* Rows are read first, because rounding needs the earliest time. */
kineto_status ka_hta_fill_dataset(ka_dataset *s, kineto_error *err)
{
    uint32_t rows = (uint32_t)kineto_trace_count(s->trace);
    filling f = {.s = s, .m = s->memory, .t = s->trace, .options = s->options};
    f.ranges = malloc(((size_t)rows + 1) * sizeof *f.ranges);
    f.index = malloc(((size_t)rows + 1) * sizeof *f.index);
    f.no_memory = !f.ranges || !f.index || !kt_prepare(s->trace, true, false);
    kineto_status status = KINETO_OK;
    if (!f.no_memory) {
        memset(f.index, 0xff, (size_t)rows * sizeof *f.index);
        status = fill_ranges(&f, rows, err);
    }
    free(f.ranges);
    free(f.index);
    if (!status && f.no_memory)
        status = kb_fail_memory(err, NULL);
    return status;
}
