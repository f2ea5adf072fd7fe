/* Nesting: the parent of each row, and its self time (its duration without that of its
 * children).
 *
 * Rows of a track may cross: a range that begins in one function and ends in another
 * crosses both. One definition holds for all of them: - A row lies inside every row of its
 * track that precedes it in the total order and ends no earlier. Its parent is the
 * innermost of these: the one that began last. - A thread does one thing at a time: each
 * moment belongs to the row that began last of those that are open. The own time of a row
 * is what belongs to it, so own times add up to the time in which the track has anything
 * open. - A queue of a device may do several things at a time. There a row only gives up
 * the moments of what it is the ancestor of, and rows that overlap keep all of their time.
 *
 * Rows come in the total order. Where a row ends no earlier than an open one that began
 * before it, the latter encloses nothing more that the former does not enclose too, and
 * owns no later moment. So it leaves the stack, on which ends therefore fall from the
 * bottom to the top. Every row is pushed and popped once. The stack is the chain of
 * parents. */
#include "trace/model/model.h"

/* True if the range has ended when the row [start, end) begins. A moment that the writer of
 * the range recorded before it is inside the range, also where a coarse clock gives both
 * the same time. */
static bool has_ended_before(const kineto_trace *t, kineto_row range, kineto_row row, int64_t start,
                             int64_t end)
{
    int64_t range_end = kt_end(t, range);
    if (range_end != start || start != end || !t->has_writers)
        return range_end <= start;
    uint32_t writer = kt_writer(t, row);
    return !(writer && writer == kt_writer(t, range) && row < range);
}

/* Subtracts [start, end) from the self time of a row. Unsigned arithmetic, because a
 * duration from a file may overflow: sums are right modulo 2^64. */
static void subtract_self_time(kt_derived *d, kineto_row from, int64_t start, int64_t end)
{
    d->self_ns[from] =
        (int64_t)((uint64_t)d->self_ns[from] - ((uint64_t)end - (uint64_t)start));
}

/* Pops the rows that do not enclose [start, end) off the stack. If overlapping rows share
 * their time (threads), each popped row gives the time that it overlaps with to the new
 * row. @return the enclosing row, KINETO_NO_ROW: none. */
static kineto_row find_parent_row(const kineto_trace *t, kineto_row top, kineto_row row,
                                  bool shared, int64_t start, int64_t end)
{
    kt_derived *d = (kt_derived *)(uintptr_t)&t->derived;
    int64_t owned = start; /* time before it is subtracted already */
    while (top != KINETO_NO_ROW &&
           (has_ended_before(t, top, row, start, end) || kt_end(t, top) < end)) {
        if (kt_end(t, top) > owned) {
            if (shared)
                subtract_self_time(d, top, owned, kt_end(t, top));
            owned = kt_end(t, top);
        }
        top = d->parent[top];
    }
    if (top != KINETO_NO_ROW && end > owned)
        subtract_self_time(d, top, owned, end);
    return top;
}

/* Sets parents and self times of one track; the chain of parents from `top` is the stack. */
static void nest_track(kineto_trace *t, uint32_t track)
{
    kt_derived *d = &t->derived;
    const kineto_row *rows = d->order + d->track_first[track];
    uint64_t count = t->tracks.data[track].count;
    bool shared = t->tracks.data[track].type != KINETO_TRACK_STREAM;
    kineto_row top = KINETO_NO_ROW;
    for (uint64_t i = 0; i < count; i++) {
        kineto_row row = rows[i];
        int64_t start = kt_start(t, row), end = kt_end(t, row);
        KB_ASSERT(!i || start >= kt_start(t, rows[i - 1]));
        top = find_parent_row(t, top, row, shared, start, end);
        d->parent[row] = top;
        d->self_ns[row] = (int64_t)((uint64_t)end - (uint64_t)start);
        if (end > start)
            top = row;
    }
}

bool kt_build_nesting(kineto_trace *t)
{
    kt_derived *d = &t->derived;
    KB_ASSERT(d->order && !d->parent); /* needs KT_STAGE_ORDER; built once */
    kineto_row *parent = kt_store_alloc(t->store, (t->count + 1) * sizeof *parent);
    int64_t *self_ns = kt_store_alloc(t->store, (t->count + 1) * sizeof *self_ns);
    if (!parent || !self_ns) {
        kt_store_free(t->store, parent);
        kt_store_free(t->store, self_ns);
        return false;
    }
    d->parent = parent;
    d->self_ns = self_ns;
    for (uint32_t i = 0; i < t->tracks.count; i++)
        nest_track(t, i);
    return true;
}
