/* Sets of time spans: sorted, disjoint arrays. They are collected unsorted and united once;
 * inputs are sorted in runs (by thread or stream), so a natural merge sort is cheaper than
 * qsort. */
#include "analyze/dataset/dataset.h"

/* By start, then end. */
static int compare_span_starts(const void *left, const void *right)
{
    const ka_span *a = left, *b = right;
    if (a->start_ns != b->start_ns)
        return a->start_ns < b->start_ns ? -1 : 1;
    return a->end_ns < b->end_ns ? -1 : a->end_ns > b->end_ns;
}

/* Behind the last one that is in order with those before it. */
static size_t run_end(const ka_spans *spans, size_t from)
{
    size_t i = from + 1;
    while (i < spans->count && compare_span_starts(&spans->data[i - 1], &spans->data[i]) <= 0)
        i++;
    return KB_MIN(i, spans->count);
}

/* Two runs that follow one another. */
static void merge_span_runs(const ka_span *from, size_t middle, size_t count, ka_span *to)
{
    for (size_t i = 0, j = middle, at = 0; at < count; at++)
        to[at] = j == count || (i < middle && compare_span_starts(&from[i], &from[j]) <= 0)
                     ? from[i++]
                     : from[j++];
}

/* Runs, two and two. */
static void merge_runs(ka_spans *spans, ka_span *to)
{
    for (size_t at = 0, middle, end; at < spans->count; at = end) {
        middle = run_end(spans, at);
        end = middle < spans->count ? run_end(spans, middle) : middle;
        merge_span_runs(spans->data + at, middle - at, end - at, to + at);
    }
    memcpy(spans->data, to, spans->count * sizeof *to);
}

/* They come in order, or are of a few threads or streams that each do. */
static void sort_spans(ka_spans *spans)
{
    ka_span *room = NULL;
    if (spans->count < 2 || run_end(spans, 0) == spans->count)
        return;
    room = malloc(spans->count * sizeof *room);
    while (room && run_end(spans, 0) < spans->count)
        merge_runs(spans, room);
    if (!room)
        qsort(spans->data, spans->count, sizeof *spans->data, compare_span_starts);
    free(room);
}

void ka_spans_unite(ka_spans *spans)
{
    size_t kept = 0;
    sort_spans(spans);
    for (size_t i = 0; i < spans->count; i++) {
        ka_span s = spans->data[i], *last = kept ? &spans->data[kept - 1] : NULL;
        if (last && s.start_ns <= last->end_ns)
            last->end_ns = KB_MAX(last->end_ns, s.end_ns);
        else
            spans->data[kept++] = s;
    }
    KB_ASSERT(kept <= spans->count);
    spans->count = kept;
}

int64_t ka_spans_ns(const ka_spans *spans)
{
    int64_t sum = 0;
    for (size_t i = 0; i < spans->count; i++)
        sum = ka_add_ns(sum, kb_length_ns(spans->data[i].start_ns, spans->data[i].end_ns));
    return sum;
}

bool ka_spans_both(const ka_spans *a, const ka_spans *b, ka_spans *out)
{
    out->count = 0;
    for (size_t i = 0, j = 0; i < a->count && j < b->count;) {
        ka_span both = {KB_MAX(a->data[i].start_ns, b->data[j].start_ns),
                        KB_MIN(a->data[i].end_ns, b->data[j].end_ns)};
        if (both.start_ns < both.end_ns && !kb_vec_push(out, both))
            return false;
        if (a->data[i].end_ns < b->data[j].end_ns)
            i++;
        else
            j++;
    }
    return true;
}

bool ka_spans_without(const ka_spans *a, const ka_spans *b, ka_spans *out)
{
    out->count = 0;
    size_t j = 0;
    for (size_t i = 0; i < a->count; i++) {
        int64_t from = a->data[i].start_ns, end = a->data[i].end_ns;
        while (j < b->count && b->data[j].end_ns <= from)
            j++;
        for (size_t k = j; k < b->count && b->data[k].start_ns < end && from < end; k++) {
            if (b->data[k].start_ns > from &&
                !kb_vec_push(out, (ka_span){from, b->data[k].start_ns}))
                return false;
            from = KB_MAX(from, b->data[k].end_ns);
        }
        if (from < end && !kb_vec_push(out, (ka_span){from, end}))
            return false;
    }
    return true;
}

int64_t ka_spans_within(const ka_spans *spans, int64_t start_ns, int64_t end_ns, size_t *cursor)
{
    int64_t sum = 0;
    while (*cursor < spans->count && spans->data[*cursor].end_ns <= start_ns)
        ++*cursor;
    for (size_t i = *cursor; i < spans->count && spans->data[i].start_ns < end_ns; i++)
        sum = ka_add_ns(sum, kb_length_ns(KB_MAX(spans->data[i].start_ns, start_ns),
                                          KB_MIN(spans->data[i].end_ns, end_ns)));
    return sum;
}
