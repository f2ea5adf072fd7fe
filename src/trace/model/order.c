/* The total order of rows: (start, longer first, rank), per track and over all. The rank is
 * the row where a trace was read, whose writers put first what encloses; see kt_rank.
 *
 * Writers put down the rows of a track in runs that have that order already, often one for each
 * kind of row. All runs of all tracks are merged; only tracks with hardly any order are sorted. */
#include "trace/model/model.h"

enum { LEAST_RUN = 64 }; /* rows, on average: of shorter ones there are too many to be merged */

/* What is left of a run. */
typedef struct run {
    kt_sort_item first;
    const kineto_row *next, *end;
    kineto_row **place; /* of its track's next row; NULL: the track is in place */
} run;

typedef struct ordering {
    const kineto_trace *t;
    kineto_row **places; /* by track */
    kineto_row *copy;    /* as order of kt_derived, of tracks that are not in place */
    KB_VEC(run) runs;    /* a heap in the end */
} ordering;

/* ---- rows of a track --------------------------------------------------------------------------- */

/* Signed numbers in the order of unsigned ones. */
static uint64_t ordered(int64_t value) { return (uint64_t)value ^ UINT64_C(1) << 63; }

static uint64_t by_end(const kineto_trace *t, kineto_row row) { return ~ordered(kt_end(t, row)); }

/* Items with equal keys, once more by another key. */
static bool settle_ties(const kineto_trace *t, kt_keyed *items, size_t count,
                        uint64_t (*key)(const kineto_trace *t, kineto_row row),
                        uint64_t (*next)(const kineto_trace *t, kineto_row row))
{
    for (size_t i = 0, end; i < count; i = end) {
        for (end = i + 1; end < count && items[end].key == items[i].key;)
            end++;
        if (end - i == 1)
            continue;
        for (size_t k = i; k < end; k++)
            items[k].key = key(t, items[k].value);
        if (!kt_sort_keyed(t->store, items + i, end - i) ||
            (next && !settle_ties(t, items + i, end - i, next, NULL)))
            return false;
    }
    return true;
}

static bool sort_rows(const kineto_trace *t, kineto_row *rows, size_t count)
{
    kt_keyed *items = kt_store_alloc(t->store, (count + 1) * sizeof *items);
    if (!items)
        return false;
    for (size_t i = 0; i < count; i++)
        items[i] = (kt_keyed){ordered(kt_start(t, rows[i])), rows[i]};
    bool ok =
        kt_sort_keyed(t->store, items, count) && settle_ties(t, items, count, by_end, kt_rank);
    for (size_t i = 0; ok && i < count; i++)
        rows[i] = items[i].value;
    kt_store_free(t->store, items);
    return ok;
}

/* How many of these rows, which come by their numbers, are in order. */
static size_t run_length(const kineto_trace *t, const kineto_row *rows, size_t count)
{
    int64_t start = INT64_MIN, end = INT64_MAX;
    for (size_t i = 0; i < count; i++) {
        int64_t next_start = kt_start(t, rows[i]), next_end = kt_end(t, rows[i]);
        if (next_start < start || (next_start == start && next_end > end))
            return i;
        if (i && next_start == start && next_end == end &&
            kt_rank(t, rows[i]) < kt_rank(t, rows[i - 1]))
            return i;
        start = next_start;
        end = next_end;
    }
    return count;
}

/* To their tracks, a counting sort. */
static void spread(ordering *o)
{
    const kineto_trace *t = o->t;
    kineto_row row = 0;
    for (size_t b = 0; b < t->blocks.count; b++) {
        const kt_block *block = t->blocks.data[b];
        for (uint32_t i = 0; i < block->count; i++, row++)
            *o->places[block->track[i]]++ = row;
    }
}

/* ---- runs -------------------------------------------------------------------------------------- */

static void read_first(const kineto_trace *t, run *r)
{
    kineto_row row = *r->next++;
    r->first = kt_sort_key(t, row);
}

static bool add_run(ordering *o, const kineto_row *rows, size_t count, kineto_row **place)
{
    run r = {.next = rows, .end = rows + count, .place = place};
    read_first(o->t, &r);
    return kb_vec_push(&o->runs, r);
}

/* The rows of a track, the first `length` of which are a run. Merged runs are read elsewhere than
 * where their rows go. */
static bool add_runs(ordering *o, kineto_row *rows, size_t count, size_t length, kineto_row **place)
{
    size_t before = o->runs.count, most = before + count / LEAST_RUN + 2;
    kineto_row *copy = o->copy + (rows - o->t->derived.order);
    for (size_t at = 0; at < count; at += length) {
        length = at ? run_length(o->t, rows + at, count - at) : length;
        if (o->runs.count == most) {
            o->runs.count = before;
            return sort_rows(o->t, rows, count) && add_run(o, rows, count, NULL);
        }
        memcpy(copy + at, rows + at, length * sizeof *rows);
        if (!add_run(o, copy + at, length, place))
            return false;
    }
    *place = rows;
    return true;
}

static bool find_runs(ordering *o)
{
    const kineto_trace *t = o->t;
    for (size_t i = 0; i < t->tracks.count; i++) {
        kineto_row *rows = t->derived.order + t->derived.track_first[i];
        size_t count = t->tracks.data[i].count, length = run_length(t, rows, count);
        bool ok = !count || (length == count ? add_run(o, rows, count, NULL)
                                             : add_runs(o, rows, count, length, &o->places[i]));
        if (!ok)
            return false;
    }
    return true;
}

/* ---- all rows ---------------------------------------------------------------------------------- */

/* Put runs[at] where it belongs in the heap, which is there or below. */
static void sift(run *runs, size_t count, size_t at)
{
    run moved = runs[at];
    for (size_t child; (child = 2 * at + 1) < count; at = child) {
        if (child + 1 < count && kt_before(&runs[child + 1].first, &runs[child].first))
            child++;
        if (kt_before(&moved.first, &runs[child].first))
            break;
        runs[at] = runs[child];
    }
    runs[at] = moved;
}

static void merge(ordering *o, kineto_row *out)
{
    run *runs = o->runs.data;
    size_t count = o->runs.count;
    for (size_t i = count / 2; i-- > 0;)
        sift(runs, count, i);
    while (count) {
        *out++ = runs->first.row;
        if (runs->place)
            *(*runs->place)++ = runs->first.row;
        if (runs->next < runs->end)
            read_first(o->t, runs);
        else
            *runs = runs[--count];
        sift(runs, count, 0);
    }
}

static bool order_all(ordering *o)
{
    spread(o);
    bool ok = find_runs(o);
    if (ok)
        merge(o, o->t->derived.time_order);
    kb_vec_free(&o->runs);
    return ok;
}

/* ---- memory ------------------------------------------------------------------------------------ */

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
    ordering o = {.t = t};
    bool ok = t->count < SIZE_MAX / sizeof(kt_keyed) && allocate(t);
    if (ok) {
        o.places = malloc((t->tracks.count + 1) * sizeof *o.places);
        o.copy = kt_store_alloc(t->store, (t->count + 1) * sizeof *o.copy);
        ok = o.places && o.copy;
    }
    for (size_t i = 0; ok && i < t->tracks.count; i++)
        o.places[i] = t->derived.order + t->derived.track_first[i];
    ok = ok && order_all(&o);
    if (!ok)
        give_up(t);
    kt_store_free(t->store, o.copy);
    free(o.places);
    return ok;
}
