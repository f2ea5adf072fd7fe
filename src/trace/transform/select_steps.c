/* Selection by steps: the times of the selected steps, and which rows belong to them. Steps
 * themselves are found by trace/model/steps.c. */
#include "trace/transform/select.h"

#include "trace/model/steps.h"

/* ---- spans ----------------------------------------------------------------------------------- */

static int compare_step_spans(const void *left, const void *right)
{
    const kt_span *a = left, *b = right;
    if (a->process != b->process)
        return a->process < b->process ? -1 : 1;
    if (a->start_ns != b->start_ns)
        return a->start_ns < b->start_ns ? -1 : 1;
    return a->end_ns < b->end_ns ? -1 : a->end_ns > b->end_ns;
}

/* Sorts the spans and merges those of a process that overlap or touch. */
static void merge_step_spans(kt_spans *spans)
{
    size_t kept = 0;
    if (spans->count)
        qsort(spans->data, spans->count, sizeof *spans->data, compare_step_spans);
    for (size_t i = 0; i < spans->count; i++) {
        kt_span s = spans->data[i], *last = kept ? &spans->data[kept - 1] : NULL;
        if (last && last->process == s.process && s.start_ns <= last->end_ns)
            last->end_ns = KB_MAX(last->end_ns, s.end_ns);
        else
            spans->data[kept++] = s;
    }
    spans->count = kept;
}

/* Binary search in merged spans. */
static bool spans_contain(const kt_spans *spans, uint32_t process, int64_t at_ns)
{
    size_t after = 0; /* → first span after (process, at) */
    KB_LOWER_BOUND(after, spans->count,
                   spans->data[after].process < process ||
                       (spans->data[after].process == process &&
                        spans->data[after].start_ns <= at_ns));
    KB_ASSERT(after <= spans->count);
    const kt_span *last = after ? &spans->data[after - 1] : NULL;
    return last && last->process == process && at_ns < last->end_ns;
}

/* ---- collecting steps ------------------------------------------------------------------------ */

/* Counts a step of the trace, and adds its span if it is selected. False: out of memory. */
static bool add_step_span(kt_step_filter *s, const kt_step_row *step)
{
    kt_span span = {step->process, step->start_ns, step->end_ns};
    uint64_t number = step->number;
    s->lowest = s->any ? KB_MIN(s->lowest, number) : number;
    s->highest = s->any ? KB_MAX(s->highest, number) : number;
    s->any = true;
    s->has_steps[span.process] = 1;
    if (number < s->first)
        return kb_vec_push(&s->earlier, span);
    if (number > s->last)
        return true;
    if (!kb_vec_push(&s->spans, span))
        return false;
    span.process = 0;
    return kb_vec_push(&s->everywhere, span);
}

kineto_status kt_step_filter_make(kt_step_filter *s, const kineto_trace *t, const char *pattern,
                                  uint64_t first, uint64_t last, kineto_error *err)
{
    kt_step_list list;
    *s = (kt_step_filter){.first = first, .last = last};
    s->has_steps = calloc((size_t)kineto_trace_process_count(t) + 1, 1);
    bool ok = kt_step_list_make(t, pattern, true, &list) && s->has_steps;
    for (size_t i = 0; ok && i < list.rows.count; i++)
        ok = add_step_span(s, &list.rows.data[i]);
    kt_step_list_free(&list);
    if (!ok)
        return kb_fail_memory(err, "select by steps");
    if (!s->any)
        return kt_fail_no_steps(pattern, err);
    if (!s->spans.count)
        return kb_fail(err, KINETO_E_NOT_FOUND, "the trace has no %s; its steps are %llu..%llu%s",
                       kt_format_step_range(first, last).s, (unsigned long long)s->lowest,
                       (unsigned long long)s->highest,
                       kt_ledger_has(t, KT_SOURCE_STEPS, NULL)
                           ? "; 'ckineto info' lists steps that were open when it ended"
                           : "");
    merge_step_spans(&s->spans);
    merge_step_spans(&s->everywhere);
    merge_step_spans(&s->earlier);
    return KINETO_OK;
}

void kt_step_filter_free(kt_step_filter *s)
{
    kb_vec_free(&s->spans);
    kb_vec_free(&s->everywhere);
    kb_vec_free(&s->earlier);
    free(s->has_steps);
    *s = (kt_step_filter){0};
}

/* ---- checking rows --------------------------------------------------------------------------- */

static bool starts_in_steps(const kt_step_filter *s, const kineto_trace *t, kineto_row row)
{
    uint32_t process = t->tracks.data[kt_row_track(t, row)].process;
    return s->has_steps[process] ? spans_contain(&s->spans, process, kt_start(t, row))
                                 : spans_contain(&s->everywhere, 0, kt_start(t, row));
}

/* The projection of a step onto a device carries the step's number; its times are those of the
 * work. */
kt_in_steps kt_step_filter_check(const kt_step_filter *s, const kineto_trace *t, kineto_row row)
{
    uint32_t kind = kt_kind(t, row);
    uint64_t number;
    kineto_row launch = KINETO_NO_ROW;
    if (kind == KINETO_KIND_GPU_USER_ANNOTATION) {
        uint32_t name = kt_block_of(t, row)->name[row % KT_BLOCK_ROWS];
        if (!kt_step_number(kineto_trace_string(t, name), &number))
            return KT_UNDECIDED;
        return number >= s->first && number <= s->last ? KT_INSIDE : KT_OUTSIDE;
    }
    if (kt_kind_is_device(kind))
        launch = kineto_trace_launch(t, row);
    return starts_in_steps(s, t, launch != KINETO_NO_ROW ? launch : row) ? KT_INSIDE : KT_OUTSIDE;
}

/* The only process that has steps; UINT32_MAX: several have. */
static uint32_t find_process_of_steps(const kt_step_filter *s, const kineto_trace *t)
{
    uint32_t only = UINT32_MAX, count = 0;
    for (uint32_t i = 0; i < kineto_trace_process_count(t); i++)
        if (s->has_steps[i]) {
            only = i;
            count++;
        }
    return count == 1 ? only : UINT32_MAX;
}

int64_t kt_step_filter_border(const kt_step_filter *s, const kineto_trace *t)
{
    uint32_t process = find_process_of_steps(s, t);
    int64_t end_ns = INT64_MIN;
    for (kineto_row row = 0; process != UINT32_MAX && s->earlier.count && row < t->count; row++) {
        if (!kt_kind_is_work(kt_kind(t, row)))
            continue;
        kineto_row launch = kineto_trace_launch(t, row);
        if (spans_contain(&s->earlier, process, kt_start(t, launch != KINETO_NO_ROW ? launch : row)))
            end_ns = KB_MAX(end_ns, kt_end(t, row));
    }
    return end_ns;
}

/* Starts of the device work of the selected steps on one track, ascending because the rows of a
 * track are in the order of their starts. `starts` has room for all rows of the track. */
static bool collect_work_starts(const kt_step_filter *s, const kineto_trace *t, uint32_t track,
                                int64_t *starts, size_t *count)
{
    const kineto_row *rows = kineto_trace_track_rows(t, track);
    *count = 0;
    if (!rows)
        return false;
    for (uint64_t i = 0; i < t->tracks.data[track].count; i++)
        if (kt_kind_is_device(kt_kind(t, rows[i])) &&
            kt_step_filter_check(s, t, rows[i]) == KT_INSIDE)
            starts[(*count)++] = kt_start(t, rows[i]);
    return true;
}

/* `starts` ascending: the first one at or after from_ns decides. */
static bool has_start_within(const int64_t *starts, size_t count, int64_t from_ns, int64_t to_ns)
{
    size_t i = 0;
    KB_LOWER_BOUND(i, count, starts[i] < from_ns);
    return i < count && starts[i] < to_ns;
}

bool kt_step_filter_settle(const kt_step_filter *s, const kineto_trace *t, uint32_t track,
                           uint32_t *marks, uint32_t undecided)
{
    const kineto_row *rows = kineto_trace_track_rows(t, track);
    uint64_t rows_count = t->tracks.data[track].count;
    int64_t *starts = malloc((rows_count + 1) * sizeof *starts);
    size_t count;
    bool ok = rows && starts && collect_work_starts(s, t, track, starts, &count);
    for (uint64_t i = 0; ok && i < rows_count; i++)
        if (marks[rows[i]] == undecided)
            marks[rows[i]] =
                has_start_within(starts, count, kt_start(t, rows[i]), kt_end(t, rows[i]))
                    ? 0
                    : KINETO_NO_ROW;
    free(starts);
    return ok;
}
