/* The total order of rows: (start, longer first, row), over all and per track. */
#include "trace/model/model.h"

/* Signed numbers in the order of unsigned ones. */
static uint64_t ordered(int64_t value) { return (uint64_t)value ^ UINT64_C(1) << 63; }

/* Rows that start at one moment: the longer first. Sorting keeps the order of equal keys. */
static bool settle_ties(const kineto_trace *t, kt_keyed *items, size_t count)
{
    for (size_t i = 0, end; i < count; i = end) {
        for (end = i + 1; end < count && items[end].key == items[i].key;)
            end++;
        if (end - i == 1)
            continue;
        for (size_t k = i; k < end; k++)
            items[k].key = ~ordered(kt_end(t, items[k].value));
        if (!kt_sort_keyed(t->store, items + i, end - i))
            return false;
    }
    return true;
}

static void key_by_start(const kineto_trace *t, kt_keyed *items)
{
    kineto_row row = 0;
    for (size_t b = 0; b < t->blocks.count; b++) {
        const kt_block *block = t->blocks.data[b];
        for (uint32_t i = 0; i < block->count; i++, row++)
            items[row] = (kt_keyed){ordered(block->start_ns[i]), row};
    }
}

bool kt_build_time_order(kineto_trace *t)
{
    if (t->count >= SIZE_MAX / sizeof(kt_keyed))
        return false;
    kineto_row *order = kt_store_alloc(t->store, (t->count + 1) * sizeof *order);
    kt_keyed *items = kt_store_alloc(t->store, (t->count + 1) * sizeof *items);
    bool ok = order && items;
    if (ok) {
        key_by_start(t, items);
        ok = kt_sort_keyed(t->store, items, t->count) && settle_ties(t, items, t->count);
    }
    for (size_t i = 0; ok && i < t->count; i++)
        order[i] = items[i].value;
    kt_store_free(t->store, items);
    if (!ok) {
        kt_store_free(t->store, order);
        return false;
    }
    t->derived.time_order = order;
    return true;
}

/* The rows of each track are those of all, in the same order: a counting sort. */
bool kt_build_order(kineto_trace *t)
{
    size_t tracks = t->tracks.count;
    uint64_t *first = calloc(2 * tracks + 1, sizeof *first);
    kineto_row *order = kt_store_alloc(t->store, (t->count + 1) * sizeof *order);
    if (!first || !order) {
        free(first);
        kt_store_free(t->store, order);
        return false;
    }
    uint64_t *next = first + tracks + 1; /* room for the next row of each track */
    for (size_t i = 0; i < tracks; i++)
        first[i + 1] = first[i] + t->tracks.data[i].count;
    memcpy(next, first, tracks * sizeof *next);
    const kineto_row *by_time = t->derived.time_order;
    for (size_t i = 0; i < t->count; i++)
        order[next[kt_row_track(t, by_time[i])]++] = by_time[i];
    t->derived.track_first = first;
    t->derived.order = order;
    return true;
}
