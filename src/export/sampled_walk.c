/* Stacks from nested ranges of samples (sampled_walk.h). */
#include "export/sampled_walk.h"

static ke_sampled_range *find_innermost(const ke_sampled_walk *w)
{
    return w->open.count ? &w->ranges.data[w->open.data[w->open.count - 1]] : NULL;
}

static void subtract_sampled(int64_t *from, int64_t n)
{
    if (__builtin_sub_overflow(*from, n, from))
        *from = INT64_MIN;
}

/* Reports a part of the own samples of the innermost range. */
static bool report_piece(ke_sampled_walk *w, ke_sampled_range *r, int64_t end_ns, int64_t samples,
                         int64_t cpu_ns)
{
    ke_sampled_piece p = {w->open.data, w->open.count, r->from_ns, end_ns, samples, cpu_ns};
    r->own.samples -= samples;
    r->own.cpu_ns -= cpu_ns;
    return (samples == 0 && cpu_ns == 0) || w->piece(w->context, &p);
}

/* A share of a number, rounded; share 1 is all of it. */
static int64_t take_share(int64_t n, double share)
{
    double part = (double)n * share + 0.5;
    return part >= (double)n ? n : (int64_t)part;
}

/* The gap of the innermost range until the next one in it: whole samples, and their CPU time. */
static bool report_gap(ke_sampled_walk *w, ke_sampled_range *r, int64_t end_ns)
{
    int64_t gap = kb_length_ns(r->from_ns, end_ns), all = KB_MAX(r->own.samples, INT64_C(0));
    if (gap <= 0 || all == 0 || r->gaps_ns <= 0)
        return true;
    int64_t samples = take_share(all, (double)gap / (double)r->gaps_ns);
    int64_t cpu_ns =
        take_share(KB_MAX(r->own.cpu_ns, INT64_C(0)), (double)samples / (double)all);
    r->gaps_ns -= gap;
    return report_piece(w, r, end_ns, samples, cpu_ns);
}

/* The rest of a range, when it ends. */
static bool report_rest(ke_sampled_walk *w, ke_sampled_range *r)
{
    const kt_block *b = kt_block_at(w->trace, r->row / KT_BLOCK_ROWS);
    return report_piece(w, r, b->end_ns[r->row % KT_BLOCK_ROWS],
                        KB_MAX(r->own.samples, INT64_C(0)), KB_MAX(r->own.cpu_ns, INT64_C(0)));
}

/* Closes the open ranges that do not enclose the next one. */
static bool close_until(ke_sampled_walk *w, kineto_row enclosing, bool report)
{
    for (ke_sampled_range *r; (r = find_innermost(w)) && r->row != enclosing; w->open.count--)
        if (report && !report_rest(w, r))
            return false;
    return true;
}

/* Reads all ranges, and takes what each has from the one around it. */
static bool load_ranges(ke_sampled_walk *w)
{
    w->ranges.count = w->open.count = 0;
    if (w->count > UINT32_MAX || !kb_vec_reserve(&w->ranges, w->count))
        return false;
    for (uint32_t i = 0; i < w->count; i++) {
        kineto_row row = w->rows[i];
        ke_sampled own = ke_sampled_of(w->trace, row);
        (void)close_until(w, kineto_trace_parent(w->trace, row), false);
        ke_sampled_range *around = find_innermost(w);
        if (around) {
            subtract_sampled(&around->own.samples, own.samples);
            subtract_sampled(&around->own.cpu_ns, own.cpu_ns);
        }
        w->ranges.data[w->ranges.count++] = (ke_sampled_range){
            .row = row,
            .own = own,
            .gaps_ns = kineto_trace_self_ns(w->trace, row),
            .from_ns = kt_block_at(w->trace, row / KT_BLOCK_ROWS)->start_ns[row % KT_BLOCK_ROWS]};
        if (!kb_vec_push(&w->open, i))
            return false;
    }
    return true;
}

/* Opens a range: the gap before it belongs to the one around it. */
static bool open_range(ke_sampled_walk *w, uint32_t i)
{
    const ke_sampled_range *r = &w->ranges.data[i];
    const kt_block *b = kt_block_at(w->trace, r->row / KT_BLOCK_ROWS);
    if (!close_until(w, kineto_trace_parent(w->trace, r->row), true))
        return false;
    ke_sampled_range *around = find_innermost(w);
    if (around && !report_gap(w, around, r->from_ns))
        return false;
    if (around)
        around->from_ns = KB_MAX(around->from_ns, b->end_ns[r->row % KT_BLOCK_ROWS]);
    return kb_vec_push(&w->open, i);
}

bool ke_sampled_walk_run(ke_sampled_walk *w)
{
    if (!load_ranges(w))
        return false;
    w->open.count = 0;
    for (uint32_t i = 0; i < w->count; i++)
        if (!open_range(w, i))
            return false;
    return close_until(w, KINETO_NO_ROW, true);
}

void ke_sampled_walk_free(ke_sampled_walk *w)
{
    kb_vec_free(&w->ranges);
    kb_vec_free(&w->open);
}
