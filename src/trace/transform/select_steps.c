/* Rows of the chosen steps: which rows belong to which. */
#include "trace/transform/select.h"

/* ---- spans ----------------------------------------------------------------------------------- */

static int compare_spans(const void *left, const void *right)
{
    const kt_span *a = left, *b = right;
    if (a->process != b->process)
        return a->process < b->process ? -1 : 1;
    if (a->start_ns != b->start_ns)
        return a->start_ns < b->start_ns ? -1 : 1;
    return a->end_ns < b->end_ns ? -1 : a->end_ns > b->end_ns;
}

/* Sort, and make those that overlap or touch one. */
static void merge(kt_spans *spans)
{
    size_t kept = 0;
    if (spans->count)
        qsort(spans->data, spans->count, sizeof *spans->data, compare_spans);
    for (size_t i = 0; i < spans->count; i++) {
        kt_span s = spans->data[i], *last = kept ? &spans->data[kept - 1] : NULL;
        if (last && last->process == s.process && s.start_ns <= last->end_ns)
            last->end_ns = KB_MAX(last->end_ns, s.end_ns);
        else
            spans->data[kept++] = s;
    }
    spans->count = kept;
}

static bool contains(const kt_spans *spans, uint32_t process, int64_t at_ns)
{
    size_t low = 0, high = spans->count; /* → first span behind (process, at) */
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        const kt_span *s = &spans->data[middle];
        if (s->process < process || (s->process == process && s->start_ns <= at_ns))
            low = middle + 1;
        else
            high = middle;
    }
    return low && spans->data[low - 1].process == process && at_ns < spans->data[low - 1].end_ns;
}

/* ---- finding --------------------------------------------------------------------------------- */

static bool note(kt_steps *s, const kt_step_row *step)
{
    kt_span span = {step->process, step->start_ns, step->end_ns};
    uint64_t number = step->number;
    s->least = s->any ? KB_MIN(s->least, number) : number;
    s->most = s->any ? KB_MAX(s->most, number) : number;
    s->any = true;
    s->has_steps[span.process] = 1;
    if (number < s->first || number > s->last)
        return true;
    if (!kb_vec_push(&s->spans, span))
        return false;
    span.process = 0;
    return kb_vec_push(&s->everywhere, span);
}

kineto_status kt_no_steps(const char *pattern, kineto_error *err)
{
    if (pattern)
        return kb_fail(err, KINETO_E_NOT_FOUND,
                       "the trace has no steps (ranges with names like '%s')", pattern);
    return kb_fail(err, KINETO_E_NOT_FOUND,
                   "the trace has no steps (ranges with names like ProfilerStep#3); --step-pattern "
                   "names others");
}

kb_text kt_steps_text(uint64_t first, uint64_t last)
{
    kb_text text;
    if (first == last)
        (void)snprintf(text.s, sizeof text.s, "step %llu", (unsigned long long)first);
    else
        (void)snprintf(text.s, sizeof text.s, "step of %llu..%llu", (unsigned long long)first,
                       (unsigned long long)last);
    return text;
}

kineto_status kt_steps_find(kt_steps *s, const kineto_trace *t, const char *pattern,
                            uint64_t first, uint64_t last, kineto_error *err)
{
    kt_step_list list;
    *s = (kt_steps){.first = first, .last = last};
    s->has_steps = calloc((size_t)kineto_trace_process_count(t) + 1, 1);
    bool ok = kt_step_list_make(t, pattern, true, &list) && s->has_steps;
    for (size_t i = 0; ok && i < list.rows.count; i++)
        ok = note(s, &list.rows.data[i]);
    kt_step_list_free(&list);
    if (!ok)
        return kb_fail(err, KINETO_E_MEMORY, "no memory to find the steps of a trace");
    if (!s->any)
        return kt_no_steps(pattern, err);
    if (!s->spans.count)
        return kb_fail(err, KINETO_E_NOT_FOUND, "no %s is in the trace, which has steps %llu..%llu%s",
                       kt_steps_text(first, last).s, (unsigned long long)s->least,
                       (unsigned long long)s->most,
                       kt_ledger_has(t, KT_SOURCE_STEPS, NULL)
                           ? "; 'ckineto info' names those that had begun when it ended"
                           : "");
    merge(&s->spans);
    merge(&s->everywhere);
    return KINETO_OK;
}

void kt_steps_free(kt_steps *s)
{
    kb_vec_free(&s->spans);
    kb_vec_free(&s->everywhere);
    free(s->has_steps);
    *s = (kt_steps){0};
}

/* ---- asking ---------------------------------------------------------------------------------- */

static bool starts_inside(const kt_steps *s, const kineto_trace *t, kineto_row row)
{
    uint32_t process = t->tracks.data[kt_row_track(t, row)].process;
    return s->has_steps[process] ? contains(&s->spans, process, kt_start(t, row))
                                 : contains(&s->everywhere, 0, kt_start(t, row));
}

kt_in_steps kt_steps_have(const kt_steps *s, const kineto_trace *t, kineto_row row)
{
    uint32_t kind = kt_kind(t, row);
    uint64_t number;
    kineto_row launch = KINETO_NO_ROW;
    if (kind == KINETO_KIND_GPU_USER_ANNOTATION) {
        uint32_t name = kt_block_of(t, row)->name[row % KT_BLOCK_ROWS];
        if (!kt_step_number(kineto_trace_string(t, name), &number))
            return KT_LATER;
        return number >= s->first && number <= s->last ? KT_INSIDE : KT_OUTSIDE;
    }
    if (kt_kind_is_device(kind))
        launch = kineto_trace_launch(t, row);
    return starts_inside(s, t, launch != KINETO_NO_ROW ? launch : row) ? KT_INSIDE : KT_OUTSIDE;
}

/* Starts of what the device did for the chosen steps; rows of a track come in order of starts. */
static bool collect_starts(const kt_steps *s, const kineto_trace *t, uint32_t track,
                           int64_t *starts, size_t *count)
{
    const kineto_row *rows = kineto_trace_track_rows(t, track);
    *count = 0;
    if (!rows)
        return false;
    for (uint64_t i = 0; i < t->tracks.data[track].count; i++)
        if (kt_kind_is_device(kt_kind(t, rows[i])) && kt_steps_have(s, t, rows[i]) == KT_INSIDE)
            starts[(*count)++] = kt_start(t, rows[i]);
    return true;
}

static bool any_within(const int64_t *starts, size_t count, int64_t from_ns, int64_t to_ns)
{
    size_t low = 0, high = count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (starts[middle] < from_ns)
            low = middle + 1;
        else
            high = middle;
    }
    return low < count && starts[low] < to_ns;
}

bool kt_steps_settle(const kt_steps *s, const kineto_trace *t, uint32_t track, uint32_t *marks,
                     uint32_t later)
{
    const kineto_row *rows = kineto_trace_track_rows(t, track);
    uint64_t rows_count = t->tracks.data[track].count;
    int64_t *starts = malloc((rows_count + 1) * sizeof *starts);
    size_t count;
    bool ok = rows && starts && collect_starts(s, t, track, starts, &count);
    for (uint64_t i = 0; ok && i < rows_count; i++)
        if (marks[rows[i]] == later)
            marks[rows[i]] = any_within(starts, count, kt_start(t, rows[i]), kt_end(t, rows[i]))
                                 ? 0
                                 : KINETO_NO_ROW;
    free(starts);
    return ok;
}
