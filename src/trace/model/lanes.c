/* Assigns lanes, for output formats that can only draw nested rows: each row of a track
 * goes into the first lane where it nests or is disjoint. Parents of rows do not depend on
 * lanes, see nesting.c.
 *
 * Rows come in the total order. A lane is a stack of rows that enclose each other; its
 * `ceiling` is the end of the innermost row that still runs. A row fits if the lane is
 * empty or the row ends at or before the ceiling. A segment tree over the lanes holds the
 * lowest and highest ceiling of each subtree: the lowest finds lanes whose top has ended,
 * the highest the first lane that fits. Every row is pushed and popped once, so a track
 * costs O(n log lanes). */
#include "trace/model/model.h"

#define NO_POSITION SIZE_MAX
#define EMPTY       INT64_MAX /* ceiling of an empty lane */

/* State for one track: a segment tree over lanes, and the stack of each lane. */
typedef struct lanes {
    uint32_t capacity;         /* leaves, a power of two */
    int64_t *lowest, *highest; /* 2 * capacity nodes, the root is 1 */
    size_t *top;               /* by lane: position of the innermost running row */
    size_t *below;             /* by position: what it was pushed onto */
    const int64_t *ends;       /* by position */
} lanes;

/* Recomputes the ceiling of a lane, and the minima and maxima above it in the tree. */
static void update_lane(lanes *l, uint32_t lane)
{
    uint32_t node = l->capacity + lane;
    int64_t ceiling = l->top[lane] == NO_POSITION ? EMPTY : l->ends[l->top[lane]];
    l->lowest[node] = l->highest[node] = ceiling;
    for (node /= 2; node; node /= 2) {
        l->lowest[node] = KB_MIN(l->lowest[2 * node], l->lowest[2 * node + 1]);
        l->highest[node] = KB_MAX(l->highest[2 * node], l->highest[2 * node + 1]);
    }
}

/* Doubles the number of lanes, new ones are empty; false: out of memory. */
static bool grow_lanes(lanes *l)
{
    uint32_t old = l->capacity, capacity = old ? 2 * old : 4;
    if (capacity > UINT32_MAX / 4)
        return false;
    int64_t *lowest = malloc(4 * (size_t)capacity * sizeof *lowest);
    size_t *top = realloc(l->top, capacity * sizeof *top);
    l->top = top ? top : l->top;
    if (!lowest || !top) {
        free(lowest);
        return false;
    }
    free(l->lowest);
    l->lowest = lowest;
    l->highest = lowest + 2 * (size_t)capacity;
    l->capacity = capacity;
    for (uint32_t i = 0; i < 2 * capacity; i++)
        l->lowest[i] = l->highest[i] = EMPTY;
    for (uint32_t lane = 0; lane < capacity; lane++) {
        top[lane] = lane < old ? top[lane] : NO_POSITION;
        update_lane(l, lane);
    }
    return true;
}

/* Pops the rows that have ended at `now` off their lanes. */
static void pop_ended_rows(lanes *l, int64_t now)
{
    while (l->lowest[1] <= now && l->lowest[1] != EMPTY) {
        uint32_t node = 1;
        while (node < l->capacity)
            node = l->lowest[2 * node] == l->lowest[node] ? 2 * node : 2 * node + 1;
        uint32_t lane = node - l->capacity;
        size_t top = l->top[lane];
        while (top != NO_POSITION && l->ends[top] <= now)
            top = l->below[top];
        l->top[lane] = top;
        update_lane(l, lane);
    }
}

/* Puts a row on the first lane where it fits; false: out of memory. */
static bool place_in_lane(lanes *l, size_t position, int64_t start, uint32_t *lane)
{
    int64_t end = l->ends[position];
    pop_ended_rows(l, start);
    while (l->highest[1] < end)
        if (!grow_lanes(l))
            return false;
    uint32_t node = 1;
    while (node < l->capacity)
        node = l->highest[2 * node] >= end ? 2 * node : 2 * node + 1;
    *lane = node - l->capacity;
    KB_ASSERT(l->top[*lane] == NO_POSITION || l->ends[l->top[*lane]] >= end);
    if (end > start) {
        l->below[position] = l->top[*lane];
        l->top[*lane] = position;
        update_lane(l, *lane);
    }
    return true;
}

/* True if all rows nest in one lane, as on most tracks. `stack` has room for `count` ends. */
static bool fits_one_lane(const kineto_trace *t, const kineto_row *rows, size_t count,
                          int64_t *stack)
{
    size_t depth = 0;
    for (size_t i = 0; i < count; i++) {
        int64_t start = kt_start(t, rows[i]), end = kt_end(t, rows[i]);
        while (depth && stack[depth - 1] <= start)
            depth--;
        if (depth && stack[depth - 1] < end)
            return false;
        if (end > start)
            stack[depth++] = end;
    }
    return true;
}

/* Assigns the rows of one track; `ends` has room for `count` ends. *lane_count is raised as
 * needed. */
static bool assign_track_lanes(kineto_trace *t, const kineto_row *rows, size_t count, int64_t *ends,
                               uint32_t *lane_count)
{
    kt_derived *d = &t->derived;
    if (!d->lane)
        d->lane = kt_store_zeroed(t->store, t->count * sizeof *d->lane);
    lanes l = {.ends = ends, .below = kt_store_alloc(t->store, count * sizeof *l.below)};
    bool ok = d->lane && l.below && grow_lanes(&l);
    for (size_t i = 0; ok && i < count; i++)
        ends[i] = kt_end(t, rows[i]);
    for (size_t i = 0; ok && i < count; i++) {
        uint32_t *lane = &d->lane[rows[i]];
        ok = place_in_lane(&l, i, kt_start(t, rows[i]), lane);
        *lane_count = KB_MAX(*lane_count, *lane + 1);
    }
    kt_store_free(t->store, l.below);
    free(l.top);
    free(l.lowest);
    return ok;
}

bool kt_build_lanes(kineto_trace *t)
{
    kt_derived *d = &t->derived;
    KB_ASSERT(d->order && !d->lane_count); /* needs KT_STAGE_ORDER; built once */
    uint64_t longest = 0;
    for (size_t i = 0; i < t->tracks.count; i++)
        longest = KB_MAX(longest, t->tracks.data[i].count);
    int64_t *ends = kt_store_alloc(t->store, (longest + 1) * sizeof *ends);
    d->lane_count = calloc(t->tracks.count + 1, sizeof *d->lane_count);
    bool ok = ends && d->lane_count;
    for (size_t i = 0; ok && i < t->tracks.count; i++) {
        const kineto_row *rows = d->order + d->track_first[i];
        size_t count = t->tracks.data[i].count;
        d->lane_count[i] = 1;
        if (!fits_one_lane(t, rows, count, ends))
            ok = assign_track_lanes(t, rows, count, ends, &d->lane_count[i]);
    }
    kt_store_free(t->store, ends);
    if (!ok) {
        free(d->lane_count);
        kt_store_free(t->store, d->lane);
        d->lane_count = NULL;
        d->lane = NULL;
    }
    return ok;
}
