/* Flows of the Perfetto writer: arrows between slices, each with a number that both slices carry.
 * Perfetto draws an arrow from the slice that it reads first to the other one, and drops an end
 * whose begin it has not read; so the slice that it reads first gets the begin, and arrows that
 * point back in time are counted. */
#include "export/perfetto.h"

static const kt_block *block_of_flow_row(const ke_perfetto *w, kineto_row row)
{
    return kt_block_at(w->trace, row / KT_BLOCK_ROWS);
}

/* True if Perfetto reads row a before row b: by time, for equal times in the order of the file. */
static bool is_met_first(const ke_perfetto *w, kineto_row a, kineto_row b)
{
    const kt_block *block_a = block_of_flow_row(w, a), *block_b = block_of_flow_row(w, b);
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

/* Loads a flow; false: one of its ends was not recorded. */
static bool get_complete_flow(const ke_perfetto *w, uint64_t index, kineto_flow *f)
{
    uint64_t rows = kineto_trace_count(w->trace);
    kineto_trace_flow(w->trace, index, f);
    return f->from < rows && f->to < rows;
}

/* Counting sort, first pass: afterwards flow_first[row + 1] is where the ends of `row` begin. */
static void count_flow_ends(ke_perfetto *w, uint64_t flows, uint64_t rows)
{
    kineto_flow f;
    for (uint64_t i = 0; i < flows; i++)
        if (get_complete_flow(w, i, &f)) {
            w->flow_first[f.from + 2]++;
            w->flow_first[f.to + 2]++;
            w->all.flows++;
        }
    for (uint64_t row = 0; row < rows; row++)
        w->flow_first[row + 2] += w->flow_first[row + 1];
}

/* Second pass: moves flow_first[row + 1] to where the ends of `row` end, which is where those of
 * row + 1 begin. */
static void place_flow_ends(ke_perfetto *w, uint64_t flows)
{
    kineto_flow f;
    for (uint64_t i = 0; i < flows; i++) {
        if (!get_complete_flow(w, i, &f))
            continue;
        bool forward = is_met_first(w, f.from, f.to);
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
    count_flow_ends(w, flows, rows);
    place_flow_ends(w, flows);
    return true;
}

void ke_pf_put_flows(ke_perfetto *w, kineto_row row)
{
    KB_ASSERT(w->flow_first[row] <= w->flow_first[row + 1]);
    for (uint32_t i = w->flow_first[row]; i < w->flow_first[row + 1]; i++) {
        uint64_t end = w->flow_ends[i];
        ke_proto_fixed64(&w->packets, end & 1 ? KE_PF_EVENT_FLOW_END : KE_PF_EVENT_FLOW,
                         ke_pf_flow_number(w, end));
    }
}
