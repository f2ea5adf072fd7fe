/* The total order of rows: (start, longer first, rank), for each track and over all tracks.
 * The rank is the row number in traces from files, whose writers put enclosing rows first;
 * see kt_sort_rank.
 *
 * The rows of a track come in runs that are in order already, often one for each kind of
 * row. All runs of all tracks are merged by a heap; only tracks with too many short runs
 * are sorted first. Built under the mutex of derived.c. */
#include "trace/model/model.h"

/* Minimum average length of a run, in rows, for merging; with shorter runs, sorting is faster. */
enum { MIN_RUN = 64 };

/* The rest of a run: rows that are not merged yet. */
typedef struct run {
    kt_sort_item first;           /* sort key of the first row of the rest */
    const kineto_row *next, *end; /* the rows after the first one */
    kineto_row **place; /* where its track's next row goes; NULL: the track is in order already */
} run;

typedef struct ordering {
    const kineto_trace *t;
    kineto_row **places; /* by track: where the next merged row goes */
    kineto_row *copy;    /* copy of kt_derived.order for tracks that are not in order */
    KB_VEC(run) runs;    /* for merging a binary heap, the least row first */
} ordering;

/* ---- rows of a track ------------------------------------------------------------------------- */

/* Maps signed numbers to unsigned ones of the same order. */
static uint64_t signed_to_ordered(int64_t value) { return (uint64_t)value ^ UINT64_C(1) << 63; }

/* Sort key by which rows that end later come first. */
static uint64_t end_sort_key(const kineto_trace *t, kineto_row row)
{
    return ~signed_to_ordered(kt_end(t, row));
}

/* Sorts each group of items with equal keys by `key`, and groups that are equal again by
 * `next` (may be NULL). False: out of memory. */
static bool sort_ties(const kineto_trace *t, kt_keyed *items, size_t count,
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
            (next && !sort_ties(t, items + i, end - i, next, NULL)))
            return false;
    }
    return true;
}

/* Sorts the rows of one track. False: out of memory. */
static bool sort_track_rows(const kineto_trace *t, kineto_row *rows, size_t count)
{
    kt_keyed *items = kt_store_alloc(t->store, (count + 1) * sizeof *items);
    if (!items)
        return false;
    for (size_t i = 0; i < count; i++)
        items[i] = (kt_keyed){signed_to_ordered(kt_start(t, rows[i])), rows[i]};
    bool ok =
        kt_sort_keyed(t->store, items, count) && sort_ties(t, items, count, end_sort_key,
                                                           kt_sort_rank);
    for (size_t i = 0; ok && i < count; i++)
        rows[i] = items[i].value;
    kt_store_free(t->store, items);
    return ok;
}

/* Number of leading rows that are in order. */
static size_t measure_run(const kineto_trace *t, const kineto_row *rows, size_t count)
{
    int64_t start = INT64_MIN, end = INT64_MAX;
    for (size_t i = 0; i < count; i++) {
        int64_t next_start = kt_start(t, rows[i]), next_end = kt_end(t, rows[i]);
        if (next_start < start || (next_start == start && next_end > end))
            return i;
        if (i && next_start == start && next_end == end &&
            kt_sort_rank(t, rows[i]) < kt_sort_rank(t, rows[i - 1]))
            return i;
        start = next_start;
        end = next_end;
    }
    return count;
}

/* Distributes all rows to their tracks: a counting sort, by row number within a track. */
static void distribute_to_tracks(ordering *o)
{
    const kineto_trace *t = o->t;
    kineto_row row = 0;
    for (size_t b = 0; b < t->blocks.count; b++) {
        const kt_block *block = t->blocks.data[b];
        for (uint32_t i = 0; i < block->count; i++, row++)
            *o->places[block->track[i]]++ = row;
    }
}

/* ---- runs ------------------------------------------------------------------------------------ */

/* Moves the next row of a run, which must not be empty, into r->first. */
static void advance_run(const kineto_trace *t, run *r)
{
    KB_ASSERT(r->next < r->end);
    kineto_row row = *r->next++;
    r->first = kt_sort_key(t, row);
}

static bool add_run(ordering *o, const kineto_row *rows, size_t count, kineto_row **place)
{
    run r = {.next = rows, .end = rows + count, .place = place};
    advance_run(o->t, &r);
    return kb_vec_push(&o->runs, r);
}

/* Adds the runs of a track, the first of which has `length` rows. Runs are copied, because
 * merging writes the rows of the track to their old place. A track with too many runs is
 * sorted into one run. */
static bool add_runs(ordering *o, kineto_row *rows, size_t count, size_t length, kineto_row **place)
{
    size_t before = o->runs.count, most = before + count / MIN_RUN + 2;
    kineto_row *copy = o->copy + (rows - o->t->derived.order);
    for (size_t at = 0; at < count; at += length) {
        length = at ? measure_run(o->t, rows + at, count - at) : length;
        if (o->runs.count == most) {
            o->runs.count = before;
            return sort_track_rows(o->t, rows, count) && add_run(o, rows, count, NULL);
        }
        memcpy(copy + at, rows + at, length * sizeof *rows);
        if (!add_run(o, copy + at, length, place))
            return false;
    }
    *place = rows;
    return true;
}

/* Finds the runs of all tracks; a track that is in order is one run, and stays in place. */
static bool find_track_runs(ordering *o)
{
    const kineto_trace *t = o->t;
    for (size_t i = 0; i < t->tracks.count; i++) {
        kineto_row *rows = t->derived.order + t->derived.track_first[i];
        size_t count = t->tracks.data[i].count, length = measure_run(t, rows, count);
        if (!count)
            continue;
        if (length == count ? !add_run(o, rows, count, NULL)
                            : !add_runs(o, rows, count, length, &o->places[i]))
            return false;
    }
    return true;
}

/* ---- all rows -------------------------------------------------------------------------------- */

/* Restores the heap property for runs[at], which may have to move down. */
static void sift_run_down(run *runs, size_t count, size_t at)
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

/* Merges all runs into `out`, and the rows of each track into its place. */
static void merge_order_runs(ordering *o, kineto_row *out)
{
    run *runs = o->runs.data;
    size_t count = o->runs.count;
    for (size_t i = count / 2; i-- > 0;)
        sift_run_down(runs, count, i);
    while (count) {
        *out++ = runs->first.row;
        if (runs->place)
            *(*runs->place)++ = runs->first.row;
        if (runs->next < runs->end)
            advance_run(o->t, runs);
        else
            *runs = runs[--count];
        sift_run_down(runs, count, 0);
    }
    KB_ASSERT(out == o->t->derived.time_order + o->t->count);
}

static bool order_all_rows(ordering *o)
{
    distribute_to_tracks(o);
    bool ok = find_track_runs(o);
    if (ok)
        merge_order_runs(o, o->t->derived.time_order);
    kb_vec_free(&o->runs);
    return ok;
}

/* ---- memory ---------------------------------------------------------------------------------- */

/* Allocates the columns of the stage, and sets track_first. False: out of memory. */
static bool allocate_order(kineto_trace *t)
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
    KB_ASSERT(d->track_first[tracks] == t->count); /* each row is counted on one track */
    return true;
}

/* Frees the columns of the stage after a failure, so that it can be built again. */
static void free_order(kineto_trace *t)
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
    KB_ASSERT(!t->derived.order);
    ordering o = {.t = t};
    bool ok = t->count < SIZE_MAX / sizeof(kt_keyed) && allocate_order(t);
    if (ok) {
        o.places = malloc((t->tracks.count + 1) * sizeof *o.places);
        o.copy = kt_store_alloc(t->store, (t->count + 1) * sizeof *o.copy);
        ok = o.places && o.copy;
    }
    for (size_t i = 0; ok && i < t->tracks.count; i++)
        o.places[i] = t->derived.order + t->derived.track_first[i];
    ok = ok && order_all_rows(&o);
    if (!ok)
        free_order(t);
    kt_store_free(t->store, o.copy);
    free(o.places);
    return ok;
}
