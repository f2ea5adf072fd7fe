/* Searches the spans of a thread within a time in which it held a lock. The spans are calls, which facts/waits.c
 * collects, or functions from CPU samples, which are nested slices: of these each moment counts for the
 * innermost one. */
#include "analyze/facts/lock_holders.h"

#include "analyze/dataset/watched_threads.h"

static int compare_spans(const void *left, const void *right)
{
    const ka_thread_span *a = left, *b = right;
    if (a->thread != b->thread)
        return KB_COMPARE(a->thread, b->thread);
    return a->start_ns != b->start_ns ? KB_COMPARE(a->start_ns, b->start_ns)
                                      : KB_COMPARE(a->end_ns, b->end_ns);
}

void ka_thread_spans_sort(ka_thread_spans *spans)
{
    if (spans->list.count)
        qsort(spans->list.data, spans->list.count, sizeof *spans->list.data, compare_spans);
}

/* ---- samples --------------------------------------------------------------------------------- */

/* Slices of one track that began and have not ended, the innermost last. */
typedef struct open_slices {
    KB_VEC(ka_thread_span) list;
    int64_t until_ns; /* spans up to here were added */
} open_slices;

/* Adds the time of the innermost slice up to a moment, and closes slices that end before it. */
static bool close_slices(ka_thread_spans *spans, open_slices *open, int64_t ns)
{
    bool ok = true;
    while (ok && open->list.count) {
        ka_thread_span *top = &open->list.data[open->list.count - 1];
        ka_thread_span span = *top;
        span.start_ns = open->until_ns;
        span.end_ns = KB_MIN(top->end_ns, ns);
        if (span.end_ns > span.start_ns) {
            ok = kb_vec_push(&spans->list, span);
            open->until_ns = span.end_ns;
        }
        if (top->end_ns > ns)
            return ok;
        open->list.count--;
    }
    return ok;
}

static bool add_track_samples(ka_thread_spans *spans, const kineto_trace *t, uint32_t index,
                              const kineto_track *track)
{
    const kineto_row *rows = kineto_trace_track_rows(t, index);
    int64_t id = ka_watched_track_id(t, index);
    open_slices open = {0};
    bool ok = rows != NULL;
    for (uint64_t i = 0; ok && i < track->count; i++) {
        const kt_block *block = kt_block_at(t, rows[i] / KT_BLOCK_ROWS);
        uint32_t at = rows[i] % KT_BLOCK_ROWS;
        if (block->kind[at] != KINETO_KIND_CPU_SAMPLE || block->form[at] != KINETO_FORM_SLICE)
            continue;
        ka_thread_span slice = {ka_thread_key(track->process, id), block->start_ns[at], block->end_ns[at],
                                block->name[at], 0};
        ok = close_slices(spans, &open, slice.start_ns) && kb_vec_push(&open.list, slice);
        open.until_ns = KB_MAX(open.until_ns, slice.start_ns);
    }
    ok = ok && close_slices(spans, &open, INT64_MAX);
    kb_vec_free(&open.list);
    return ok;
}

bool ka_thread_spans_add_samples(ka_thread_spans *spans, const kineto_trace *trace)
{
    bool any = false, ok = true;
    for (uint32_t b = 0; b < kt_block_count(trace) && !any; b++)
        any = kt_block_at(trace, b)->kinds & KINETO_KIND_BIT(KINETO_KIND_CPU_SAMPLE);
    for (uint32_t i = 0; any && ok && i < kineto_trace_track_count(trace); i++) {
        kineto_track track;
        kineto_trace_track(trace, i, &track);
        ok = !track.count || add_track_samples(spans, trace, i, &track);
    }
    ka_thread_spans_sort(spans);
    return ok;
}

/* ---- holds ----------------------------------------------------------------------------------- */

/* The first span of the thread that ends after `ns`. */
static size_t find_first_span(const ka_thread_spans *spans, uint64_t thread, int64_t ns)
{
    const ka_thread_span *list = spans->list.data;
    size_t at = 0;
    KB_LOWER_BOUND(at, spans->list.count,
                   list[at].thread < thread || (list[at].thread == thread && list[at].end_ns <= ns));
    return at;
}

static bool is_span_in_hold(const ka_thread_spans *spans, size_t at, const ka_lock_hold *hold)
{
    return at < spans->list.count && spans->list.data[at].thread == hold->thread &&
           spans->list.data[at].start_ns < hold->end_ns;
}

void ka_lock_hold_cut(ka_lock_hold *hold, const ka_thread_spans *calls)
{
    for (size_t i = find_first_span(calls, hold->thread, hold->start_ns); is_span_in_hold(calls, i, hold); i++)
        if (calls->list.data[i].object == hold->object)
            hold->end_ns = KB_MAX(calls->list.data[i].start_ns, hold->start_ns);
}

bool ka_name_times_add(ka_name_times *times, const ka_thread_spans *spans, const ka_lock_hold *hold)
{
    for (size_t i = find_first_span(spans, hold->thread, hold->start_ns); is_span_in_hold(spans, i, hold); i++) {
        const ka_thread_span *span = &spans->list.data[i];
        int64_t from_ns = KB_MAX(span->start_ns, hold->start_ns), until_ns = KB_MIN(span->end_ns, hold->end_ns);
        uint64_t *sum = kb_map_insert(&times->sums, span->name + UINT64_C(1), 0, NULL);
        if (!sum)
            return false;
        if (until_ns > from_ns)
            *sum += (uint64_t)(until_ns - from_ns);
        if ((int64_t)*sum > times->most.ns)
            times->most = (ka_name_time){span->name, (int64_t)*sum};
    }
    return true;
}
