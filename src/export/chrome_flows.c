/* Flow events of the Chrome writer: each is written right after the row that it binds to, with the
 * row's pid, tid and start. If one end of an arrow was not recorded, the other one is still
 * written. */
#include "export/chrome.h"

/* Ends that are equal here are one event in the file. */
static int compare_flow_ends(const void *left, const void *right)
{
    const ke_flow_end *a = left, *b = right;
    if (a->row != b->row)
        return a->row < b->row ? -1 : 1;
    if (a->place != b->place)
        return a->place < b->place ? -1 : 1;
    if (a->type != b->type)
        return a->type < b->type ? -1 : 1;
    return a->id < b->id ? -1 : a->id > b->id;
}

/* As compare_flow_ends, then by flow, so that of equal ends the first flow's stays. */
static int compare_planned_ends(const void *left, const void *right)
{
    const ke_flow_end *a = left, *b = right;
    int order = compare_flow_ends(a, b);
    return order ? order : (a->flow > b->flow) - (a->flow < b->flow);
}

/* One start may have many finishes; it is written once. */
static size_t drop_repeated_ends(ke_flow_end *ends, size_t count)
{
    size_t kept = 0;
    for (size_t i = 0; i < count; i++)
        if (!kept || compare_flow_ends(&ends[kept - 1], &ends[i]) != 0)
            ends[kept++] = ends[i];
    return kept;
}

/* Records an end unless its row was not recorded. */
static void plan_flow_end(ke_chrome *c, const kineto_flow *f, uint64_t flow, kineto_row row,
                          ke_flow_place place)
{
    if (row >= kineto_trace_count(c->trace))
        return;
    KB_ASSERT(c->flow_count < 2 * kineto_trace_flow_count(c->trace));
    c->flows[c->flow_count++] = (ke_flow_end){row, f->id, f->type, place, flow};
    c->flow_rows[row / 64] |= UINT64_C(1) << row % 64;
}

bool ke_plan_flows(ke_chrome *c)
{
    uint64_t flows = kineto_trace_flow_count(c->trace), rows = kineto_trace_count(c->trace);
    if (!flows)
        return true;
    c->flows = malloc(2 * flows * sizeof *c->flows);
    c->flow_rows = calloc(rows / 64 + 1, sizeof *c->flow_rows);
    if (!c->flows || !c->flow_rows)
        return false;
    for (uint64_t i = 0; i < flows; i++) {
        kineto_flow f;
        kineto_trace_flow(c->trace, i, &f);
        plan_flow_end(c, &f, i, f.from, f.from == f.to ? KE_FLOW_LOOP : KE_FLOW_START);
        plan_flow_end(c, &f, i, f.to, KE_FLOW_FINISH);
    }
    qsort(c->flows, c->flow_count, sizeof *c->flows, compare_planned_ends);
    c->flow_count = drop_repeated_ends(c->flows, c->flow_count);
    return true;
}

static char *put_flow_name(char *out, uint32_t type)
{
    if (type == KINETO_FLOW_ASYNC_CPU_GPU)
        KE_PUT(out, ",\"cat\":\"ac2g\",\"name\":\"ac2g\"");
    else if (type == KINETO_FLOW_FWD_BWD)
        KE_PUT(out, ",\"cat\":\"fwdbwd\",\"name\":\"fwdbwd\"");
    else
        KE_PUT(out, ",\"cat\":\"flow\",\"name\":\"flow\"");
    return out;
}

/* Writes category, name and args as the file had them; texts of any length go straight into the
 * sink. */
static char *put_flow_details(ke_chrome *c, char *out, const ke_flow_end *f,
                              const kt_flow_about *about)
{
    uint32_t args = f->place == KE_FLOW_FINISH ? about->to_args : about->from_args;
    KE_PUT(out, ",\"cat\":");
    ke_commit(c, out);
    ke_write_string(c, kineto_trace_string(c->trace, about->category));
    kb_sink_write(c->sink, ",\"name\":", 8);
    ke_write_string(c, kineto_trace_string(c->trace, about->name));
    if (args) {
        kb_sink_write(c->sink, ",\"args\":", 8);
        ke_write_compact(c, kineto_trace_string(c->trace, args));
    }
    return kb_sink_reserve(c->sink, c->room);
}

/* The time of an end: the start of its row. A call that waits for a message begins before the message
 * is sent: viewers drop arrows that go backwards, so that these end where the call ends. */
static int64_t time_of_flow_end(const ke_chrome *c, const ke_flow_end *f, int64_t start_ns)
{
    kineto_flow flow;
    if (f->place != KE_FLOW_FINISH || f->type != KINETO_FLOW_USER ||
        !kineto_trace_flow(c->trace, f->flow, &flow) || flow.from >= kineto_trace_count(c->trace))
        return start_ns;
    const kt_block *from = kt_block_at(c->trace, flow.from / KT_BLOCK_ROWS),
                   *to = kt_block_at(c->trace, f->row / KT_BLOCK_ROWS);
    int64_t end_ns = to->end_ns[f->row % KT_BLOCK_ROWS];
    bool waits = to->kind[f->row % KT_BLOCK_ROWS] == KINETO_KIND_MPI && end_ns > start_ns;
    return waits && from->start_ns[flow.from % KT_BLOCK_ROWS] > start_ns ? end_ns - 1 : start_ns;
}

static char *put_flow_end(ke_chrome *c, char *out, const ke_flow_end *f, const ke_place *place,
                          int64_t start_ns)
{
    kt_flow_about about = kt_flow_about_of(c->trace, f->flow);
    if (f->place != KE_FLOW_FINISH)
        KE_PUT(out, "{\"ph\":\"s\",\"id\":");
    else
        KE_PUT(out, "{\"ph\":\"f\",\"id\":");
    out = kb_json_format_uint(out, f->id);
    out = ke_copy(out, place->text, place->size);
    int64_t at_ns = time_of_flow_end(c, f, start_ns);
    out = kb_json_format_us(out, (int64_t)((uint64_t)at_ns - (uint64_t)c->base_ns));
    bool own = about.category || about.name || about.from_args || about.to_args;
    out = own ? put_flow_details(c, out, f, &about) : put_flow_name(out, f->type);
    if (f->place == KE_FLOW_FINISH)
        KE_PUT(out, ",\"bp\":\"e\"");
    KE_PUT(out, "},\n");
    return out;
}

/* The ends are sorted by row. The bit per row avoids the search for the majority of rows, which
 * have no flow. */
char *ke_put_flows(ke_chrome *c, char *out, kineto_row row, const ke_place *place, int64_t start_ns)
{
    if (!(c->flow_rows[row / 64] >> row % 64 & 1))
        return out;
    size_t i = 0;
    KB_LOWER_BOUND(i, c->flow_count, c->flows[i].row < row);
    for (; i < c->flow_count && c->flows[i].row == row; i++) {
        ke_commit(c, out);
        out = put_flow_end(c, kb_sink_reserve(c->sink, c->room), &c->flows[i], place, start_ns);
    }
    return out;
}
