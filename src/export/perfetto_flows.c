/* Arrows between slices: each gets a number of its own, stated at both slices. Perfetto draws an
 * arrow from the slice that it meets first to the other one, and forgets an end that has no begin
 * yet; so the one that it meets first gets the begin, and arrows against time are counted. */
#include "export/perfetto.h"

static const kt_block *block_of(const ke_perfetto *w, kineto_row row)
{
    return kt_block_at(w->trace, row / KT_BLOCK_ROWS);
}

/* Does Perfetto meet row a before row b? By time; of one time, as the file has them. */
static bool meets_first(const ke_perfetto *w, kineto_row a, kineto_row b)
{
    const kt_block *block_a = block_of(w, a), *block_b = block_of(w, b);
    uint32_t i = a % KT_BLOCK_ROWS, k = b % KT_BLOCK_ROWS;
    int64_t start_a = block_a->start_ns[i], start_b = block_b->start_ns[k];
    if (ke_pf_time(start_a) != ke_pf_time(start_b))
        return start_a < start_b;
    if (block_a->track[i] != block_b->track[k])
        return block_a->track[i] < block_b->track[k];
    uint32_t lane_a = kineto_trace_lane(w->trace, a), lane_b = kineto_trace_lane(w->trace, b);
    if (lane_a != lane_b)
        return lane_a < lane_b;
    if (start_a != start_b)
        return start_a < start_b;
    if (block_a->end_ns[i] != block_b->end_ns[k])
        return block_a->end_ns[i] > block_b->end_ns[k];
    return a <= b;
}

static bool is_whole(const ke_perfetto *w, uint64_t index, kineto_flow *f)
{
    uint64_t rows = kineto_trace_count(w->trace);
    kineto_trace_flow(w->trace, index, f);
    return f->from < rows && f->to < rows;
}

/* How many ends each row has, as sums: then first[row + 1] is where those of the row begin. */
static void count_ends(ke_perfetto *w, uint64_t flows, uint64_t rows)
{
    kineto_flow f;
    for (uint64_t i = 0; i < flows; i++)
        if (is_whole(w, i, &f)) {
            w->flow_first[f.from + 2]++;
            w->flow_first[f.to + 2]++;
            w->all.flows++;
        }
    for (uint64_t row = 0; row < rows; row++)
        w->flow_first[row + 2] += w->flow_first[row + 1];
}

/* Moves first[row + 1] on to where those of the row end, which is where those of row + 1 begin. */
static void place_ends(ke_perfetto *w, uint64_t flows)
{
    kineto_flow f;
    for (uint64_t i = 0; i < flows; i++) {
        if (!is_whole(w, i, &f))
            continue;
        bool forward = meets_first(w, f.from, f.to);
        w->flow_ends[w->flow_first[f.from + 1]++] = i << 1 | !forward;
        w->flow_ends[w->flow_first[f.to + 1]++] = i << 1 | forward;
        w->backward_flows += !forward;
    }
}

bool ke_pf_plan_flows(ke_perfetto *w)
{
    uint64_t flows = kineto_trace_flow_count(w->trace), rows = kineto_trace_count(w->trace);
    if (!flows)
        return true;
    if (flows > UINT32_MAX / 2)
        return false;
    w->flow_first = calloc(rows + 2, sizeof *w->flow_first);
    w->flow_ends = malloc(2 * flows * sizeof *w->flow_ends);
    if (!w->flow_first || !w->flow_ends)
        return false;
    count_ends(w, flows, rows);
    place_ends(w, flows);
    return true;
}

void ke_pf_put_flows(ke_perfetto *w, kineto_row row)
{
    for (uint32_t i = w->flow_first[row]; i < w->flow_first[row + 1]; i++) {
        uint64_t end = w->flow_ends[i];
        ke_proto_fixed64(&w->packets, end & 1 ? KE_PF_EVENT_FLOW_END : KE_PF_EVENT_FLOW,
                         (end >> 1) + 1);
    }
}
