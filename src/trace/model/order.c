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
            items[row] = (kt_keyed){ordered(block->start_ns[i]), row, block->track[i]};
    }
}

/* The rows of each track are those of all, in the same order: a counting sort. `next` has room for
 * each track's next place. */
static void spread(const kineto_trace *t, const kt_keyed *items, uint64_t *next)
{
    const kt_derived *d = &t->derived;
    memcpy(next, d->track_first, t->tracks.count * sizeof *next);
    for (size_t i = 0; i < t->count; i++) {
        d->time_order[i] = items[i].value;
        d->order[next[items[i].note]++] = items[i].value;
    }
}

static bool allocate(kineto_trace *t)
{
    kt_derived *d = &t->derived;
    size_t tracks = t->tracks.count;
    d->track_first = calloc(tracks + 1, sizeof *d->track_first);
    d->order = kt_store_alloc(t->store, (t->count + 1) * sizeof *d->order);
    d->time_order = kt_store_alloc(t->store, (t->count + 1) * sizeof *d->time_order);
    if (!d->track_first || !d->order || !d->time_order)
        return false;
    for (size_t i = 0; i < tracks; i++)
        d->track_first[i + 1] = d->track_first[i] + t->tracks.data[i].count;
    return true;
}

static void give_up(kineto_trace *t)
{
    kt_derived *d = &t->derived;
    free(d->track_first);
    kt_store_free(t->store, d->order);
    kt_store_free(t->store, d->time_order);
    d->track_first = NULL;
    d->order = d->time_order = NULL;
}

bool kt_build_order(kineto_trace *t)
{
    if (t->count >= SIZE_MAX / sizeof(kt_keyed))
        return false;
    uint64_t *next = malloc((t->tracks.count + 1) * sizeof *next);
    kt_keyed *items = kt_store_alloc(t->store, (t->count + 1) * sizeof *items);
    bool ok = next && items && allocate(t);
    if (ok) {
        key_by_start(t, items);
        ok = kt_sort_keyed(t->store, items, t->count) && settle_ties(t, items, t->count);
    }
    if (ok)
        spread(t, items, next);
    else
        give_up(t);
    kt_store_free(t->store, items);
    free(next);
    return ok;
}
