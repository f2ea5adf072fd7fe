/* The total order of rows: (start, longer first, row), per track and over all. */
#include "trace/model.h"

enum { RUN = 16 }; /* items sorted by insertion before merging */

static void insertion_sort(kt_sort_item *items, size_t count)
{
    for (size_t i = 1; i < count; i++) {
        kt_sort_item item = items[i];
        size_t at = i;
        for (; at > 0 && kt_before(&item, &items[at - 1]); at--)
            items[at] = items[at - 1];
        items[at] = item;
    }
}

static void merge(const kt_sort_item *a, const kt_sort_item *a_end, const kt_sort_item *b,
                  const kt_sort_item *b_end, kt_sort_item *out)
{
    while (a < a_end && b < b_end)
        *out++ = kt_before(b, a) ? *b++ : *a++;
    memcpy(out, a, (size_t)(a_end - a) * sizeof *a);
    out += a_end - a;
    memcpy(out, b, (size_t)(b_end - b) * sizeof *b);
}

/* One round: pairs of sorted runs of `width` from `from` into `to`. */
static void merge_round(const kt_sort_item *from, kt_sort_item *to, size_t count, size_t width)
{
    for (size_t i = 0; i < count; i += 2 * width) {
        size_t middle = KB_MIN(i + width, count), end = KB_MIN(i + 2 * width, count);
        if (middle == end || kt_before(&from[middle - 1], &from[middle]))
            memcpy(to + i, from + i, (end - i) * sizeof *from);
        else
            merge(from + i, from + middle, from + middle, from + end, to + i);
    }
}

void kt_sort(kt_sort_item *items, kt_sort_item *scratch, size_t count)
{
    kt_sort_item *from = items, *to = scratch;
    for (size_t i = 0; i < count; i += RUN)
        insertion_sort(items + i, KB_MIN((size_t)RUN, count - i));
    for (size_t width = RUN; width < count; width *= 2) {
        merge_round(from, to, count, width);
        kt_sort_item *swap = from;
        from = to;
        to = swap;
    }
    if (from != items)
        memcpy(items, from, count * sizeof *items);
}

static kt_sort_item item_of(const kineto_trace *t, kineto_row row)
{
    return (kt_sort_item){kt_start(t, row), kt_end(t, row), row};
}

static bool is_sorted(const kineto_trace *t, const kineto_row *rows, size_t count)
{
    if (!count)
        return true;
    kt_sort_item last = item_of(t, rows[0]);
    for (size_t i = 1; i < count; i++) {
        kt_sort_item next = item_of(t, rows[i]);
        if (kt_before(&next, &last))
            return false;
        last = next;
    }
    return true;
}

/* Sort rows that are in arrival order; most tracks already are in order. */
static bool sort_rows(const kineto_trace *t, kineto_row *rows, size_t count)
{
    if (is_sorted(t, rows, count))
        return true;
    if (count > SIZE_MAX / (2 * sizeof(kt_sort_item)))
        return false;
    kt_sort_item *items = malloc(2 * count * sizeof *items);
    if (!items)
        return false;
    for (size_t i = 0; i < count; i++)
        items[i] = item_of(t, rows[i]);
    kt_sort(items, items + count, count);
    for (size_t i = 0; i < count; i++)
        rows[i] = items[i].row;
    free(items);
    return true;
}

/* Rows by track in arrival order: a counting sort. */
static void spread(const kineto_trace *t, const uint64_t *first, uint64_t *next, kineto_row *order)
{
    memcpy(next, first, t->tracks.count * sizeof *next);
    kineto_row row = 0;
    for (size_t b = 0; b < t->blocks.count; b++) {
        const kt_block *block = t->blocks.data[b];
        for (uint32_t i = 0; i < block->count; i++)
            order[next[block->track[i]]++] = row++;
    }
}

bool kt_build_order(kineto_trace *t)
{
    size_t tracks = t->tracks.count;
    uint64_t *first = calloc(2 * tracks + 1, sizeof *first);
    kineto_row *order = malloc((t->count + 1) * sizeof *order);
    bool ok = first && order;
    if (ok) {
        for (size_t i = 0; i < tracks; i++)
            first[i + 1] = first[i] + t->tracks.data[i].count;
        spread(t, first, first + tracks + 1, order);
    }
    for (size_t i = 0; ok && i < tracks; i++)
        ok = sort_rows(t, order + first[i], t->tracks.data[i].count);
    if (!ok) {
        free(first);
        free(order);
        return false;
    }
    t->derived.track_first = first;
    t->derived.order = order;
    return true;
}

bool kt_build_time_order(kineto_trace *t)
{
    kineto_row *order = malloc((t->count + 1) * sizeof *order);
    if (!order)
        return false;
    for (kineto_row row = 0; row < t->count; row++)
        order[row] = row;
    if (!sort_rows(t, order, t->count)) {
        free(order);
        return false;
    }
    t->derived.time_order = order;
    return true;
}
