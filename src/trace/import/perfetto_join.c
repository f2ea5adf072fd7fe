/* Joins the begins and ends of slices of a Perfetto trace, and its flows, when all packets have been read.
 *
 * Rows exist from their begins on, in the order of the file; here they get their ends. Files of ckineto need this for what
 * is damaged only: there each lane is in order. */
#include "trace/import/perfetto_read.h"

/* ---- slices ----------------------------------------------------------------------------------- */

/* By slot, time and order in the file: events at one moment keep their order, as Perfetto keeps it. */
static int compare_edges(const void *left, const void *right, void *all)
{
    const pf_edge *edges = all;
    uint32_t a = *(const uint32_t *)left, b = *(const uint32_t *)right;
    if (edges[a].slot != edges[b].slot)
        return edges[a].slot < edges[b].slot ? -1 : 1;
    if (edges[a].ns != edges[b].ns)
        return edges[a].ns < edges[b].ns ? -1 : 1;
    return KB_COMPARE(a, b);
}

/* Indices of edges by slot, time and order in the file; NULL: out of memory. */
static uint32_t *sort_edges(const kt_perfetto *p)
{
    uint32_t *order = kb_array(p->edges.count + 1, sizeof *order);
    bool is_sorted = true;
    for (size_t i = 0; order && i < p->edges.count; i++) {
        order[i] = (uint32_t)i;
        is_sorted &= !i || compare_edges(&order[i - 1], &order[i], p->edges.data) < 0;
    }
    if (order && !is_sorted)
        qsort_r(order, p->edges.count, sizeof *order, compare_edges, p->edges.data);
    return order;
}

/* The state of joining slices. */
typedef struct join {
    kt_perfetto *p;
    KB_VEC(uint32_t) open; /* rows of the slot */
    uint32_t *row_of_edge; /* of ends that have flows; NULL: none has */
    int64_t last_ns;       /* of the trace */
} join;

/* What had not ended lasts to the last known time. */
static void close_open_rows(join *j)
{
    for (size_t i = 0; i < j->open.count; i++)
        kt_row_close(j->p->m.b, j->open.data[i], KB_MAX(j->last_ns, kt_start(j->p->m.b->trace, j->open.data[i])), true);
    j->p->open_slices += j->open.count;
    j->open.count = 0;
}

/* A row that the writer flagged as open stays so, with the end that is stated. */
static void close_row(join *j, uint32_t edge)
{
    const pf_edge *e = &j->p->edges.data[edge];
    if (!j->open.count) {
        j->p->unmatched_ends++;
        return;
    }
    kineto_row row = j->open.data[--j->open.count];
    const kt_block *block = kt_block_of(j->p->m.b->trace, row);
    bool is_open = (block->flags[row % KT_BLOCK_ROWS] & KINETO_ACTIVITY_OPEN_END) != 0;
    kt_row_close(j->p->m.b, row, e->ns, is_open);
    if (e->value)
        kt_row_add_set(j->p->m.b, row, e->value);
    if (j->row_of_edge)
        j->row_of_edge[edge] = (uint32_t)row;
}

/* Each end closes the innermost open slice of its slot. */
static void join_slices(join *j, const uint32_t *order)
{
    kt_perfetto *p = j->p;
    for (size_t i = 0; i < p->edges.count && !p->no_memory; i++) {
        const pf_edge *e = &p->edges.data[order[i]];
        if (i && p->edges.data[order[i - 1]].slot != e->slot)
            close_open_rows(j);
        if (e->is_end)
            close_row(j, order[i]);
        else
            p->no_memory |= !kb_vec_push(&j->open, e->value);
    }
    close_open_rows(j);
}

/* Of a file of ckineto that was damaged. */
static void close_own_rows(join *j)
{
    kt_perfetto *p = j->p;
    for (size_t i = 0; i < p->open_edges.count && !p->no_memory; i++)
        p->no_memory |= !kb_vec_push(&j->open, p->open_edges.data[i].value);
    close_open_rows(j);
}

/* The end of what has none: the last time of all events, of ends as well. */
static int64_t find_last_time(const kt_perfetto *p)
{
    const kineto_trace *t = p->m.b->trace;
    int64_t last = INT64_MIN;
    for (size_t i = 0; i < t->blocks.count; i++)
        last = KB_MAX(last, t->blocks.data[i]->max_end_ns);
    for (size_t i = 0; i < p->edges.count; i++)
        last = KB_MAX(last, p->edges.data[i].ns);
    return last;
}

/* Flows of ends of slices get the row of the slice; PF_NONE: it has none. */
static bool make_edge_rows(join *j)
{
    kt_perfetto *p = j->p;
    bool is_needed = false;
    for (size_t i = 0; i < p->flow_ends.count; i++)
        is_needed |= p->flow_ends.data[i].of_edge;
    if (!is_needed)
        return true;
    j->row_of_edge = kb_array(p->edges.count + 1, sizeof *j->row_of_edge);
    for (size_t i = 0; j->row_of_edge && i < p->edges.count; i++)
        j->row_of_edge[i] = PF_NONE;
    return j->row_of_edge != NULL;
}

/* ---- flows ------------------------------------------------------------------------------------ */

/* By id and time; rows are in the order of the file, which decides between equal times. */
static int compare_flow_ends(const void *left, const void *right)
{
    const pf_flow_end *a = left, *b = right;
    if (a->id != b->id)
        return a->id < b->id ? -1 : 1;
    if (a->ns != b->ns)
        return a->ns < b->ns ? -1 : 1;
    return KB_COMPARE(a->row, b->row);
}

/* An end of a slice may have flows, which belong to the slice. */
static void resolve_flow_ends(const join *j)
{
    for (size_t i = 0; i < j->p->flow_ends.count; i++) {
        pf_flow_end *end = &j->p->flow_ends.data[i];
        if (end->of_edge)
            end->row = end->row < j->p->edges.count ? j->row_of_edge[end->row] : PF_NONE;
    }
}

/* ckineto puts the type of an arrow above its number. */
static uint32_t type_of_flow(const kt_perfetto *p, uint64_t id)
{
    uint64_t type = id >> 56;
    return p->is_own && type >= KINETO_FLOW_FWD_BWD && type <= KINETO_FLOW_USER ? (uint32_t)type : KINETO_FLOW_USER;
}

/* The call that launched this work, by the id that both have. */
static bool is_launch_of(const kineto_trace *t, kineto_row from, kineto_row to)
{
    uint64_t id = kt_correlation(t, from);
    return id && id == kt_correlation(t, to) && kt_kind_is_launch(kt_kind(t, from)) && kt_kind_is_device(kt_kind(t, to));
}

/* An arrow. Launches of other writers become arrows by their correlation ids (kt_import_finish). */
static void add_arrow(kt_perfetto *p, const pf_flow_end *from, const pf_flow_end *to, uint64_t number)
{
    const kineto_trace *t = p->m.b->trace;
    uint32_t type = type_of_flow(p, from->id);
    bool is_turned = p->is_own && kt_kind_is_launch(kt_kind(t, to->row)) && is_launch_of(t, to->row, from->row);
    kineto_row start = is_turned ? to->row : from->row, end = is_turned ? from->row : to->row;
    if (!p->is_own && is_launch_of(t, start, end))
        return;
    if (type == KINETO_FLOW_ASYNC_CPU_GPU && is_launch_of(t, start, end)) {
        bool created = false;
        number = kt_correlation(t, start);
        p->no_memory |= !kb_map_insert(&p->launch_flows, start, 1, &created);
        if (created)
            kt_flow(p->m.b, type, number, start, true);
    } else {
        kt_flow(p->m.b, type, number, start, true);
    }
    kt_flow(p->m.b, type, number, end, false);
}

/* Events with one id are joined in the order of time, up to one that ends the flow. */
static void join_flows(kt_perfetto *p)
{
    uint64_t number = 0;
    const pf_flow_end *before = NULL;
    bool is_joined = true;
    if (p->flow_ends.count)
        qsort(p->flow_ends.data, p->flow_ends.count, sizeof *p->flow_ends.data, compare_flow_ends);
    for (size_t i = 0; i < p->flow_ends.count; i++) {
        const pf_flow_end *e = &p->flow_ends.data[i];
        if (before && before->id != e->id) {
            p->lone_flows += !is_joined;
            before = NULL;
        }
        if (e->row == PF_NONE || (before && before->row == e->row)) {
            p->lone_flows += e->row == PF_NONE;
            continue;
        }
        if (before)
            add_arrow(p, before, e, ++number);
        p->lone_flows += !before && e->is_end;
        is_joined = before != NULL;
        before = e->is_end ? NULL : e;
        is_joined |= e->is_end;
    }
    p->lone_flows += before && !is_joined;
}

/* Slices first: flows of their ends need the rows. */
void pf_join_events(kt_perfetto *p)
{
    join j = {.p = p, .last_ns = find_last_time(p)};
    uint32_t *order = p->no_memory ? NULL : sort_edges(p);
    p->no_memory |= !order || !make_edge_rows(&j);
    if (!p->no_memory) {
        join_slices(&j, order);
        close_own_rows(&j);
        resolve_flow_ends(&j);
        join_flows(p);
    }
    free(order);
    free(j.row_of_edge);
    kb_vec_free(&j.open);
}
