/* Checks flows (the arrows of a trace): those with one end only, those that reuse an id, and
 * those that end before they start. What Kineto itself writes for calls without device work is
 * only a note. */
#include "analyze/verify/verify.h"

/* The pass over all flows, with a tally for each finding. */
typedef struct pass {
    ka_verify *v;
    kb_map last; /* (type, id) → rows of the last one: start << 32 | end */
    ka_tally lost, habit, user, duplicate, backwards;
    int64_t worst_ns;
} pass;

/* KINETO_KIND_COUNT past the end of the trace. */
static uint32_t kind_of_row(const pass *p, kineto_row row)
{
    ka_row r = ka_row_at(p->v, row);
    return r.block ? r.block->kind[r.index] : KINETO_KIND_COUNT;
}

/* Correlation id of a row; 0: none. */
static uint64_t id_of(const pass *p, kineto_row row)
{
    ka_row r = ka_row_at(p->v, row);
    return r.block ? r.block->correlation_id[r.index] : 0;
}

/* A flow with one end. Kineto writes such flows for calls that launch nothing, which is only a
 * note. If the launch of device work is missing, too, correlation.dangling reports it. */
static void check_dangling(pass *p, const kineto_flow *flow)
{
    kineto_row end = flow->from == KINETO_NO_ROW ? flow->to : flow->from;
    if (end == KINETO_NO_ROW)
        return;
    if (flow->type == KINETO_FLOW_USER) {
        ka_tally_add(p->v, &p->user, end);
        return;
    }
    if (flow->type == KINETO_FLOW_ASYNC_CPU_GPU) {
        bool work = kt_kind_is_work(kind_of_row(p, end));
        kineto_row other =
            work ? kineto_trace_launch(p->v->t, end) : kineto_trace_launched(p->v->t, end);
        bool pair = other != KINETO_NO_ROW && (work || kt_kind_is_work(kind_of_row(p, other)));
        if (!pair) {
            if (!work)
                ka_tally_add(p->v, &p->habit, end);
            return;
        }
    }
    ka_tally_add(p->v, &p->lost, end);
}

/* Launches are checked by launch.order, which knows the clocks. */
static void check_direction(pass *p, const kineto_flow *flow)
{
    ka_row from = ka_row_at(p->v, flow->from), to = ka_row_at(p->v, flow->to);
    uint64_t id = id_of(p, flow->to);
    if (ka_is_implausible(p->v, flow->from) || ka_is_implausible(p->v, flow->to) ||
        (flow->type == KINETO_FLOW_ASYNC_CPU_GPU && id && id == id_of(p, flow->from)))
        return; /* times.implausible, launch.order */
    /* Who waits for a message is there before it. */
    bool waits = to.block->kind[to.index] == KINETO_KIND_MPI;
    int64_t ns = kb_length_ns(from.block->start_ns[from.index],
                              waits ? to.block->end_ns[to.index] : to.block->start_ns[to.index]);
    if (ns >= -KA_ROUNDING_NS)
        return;
    ka_tally_add(p->v, &p->backwards, flow->to);
    p->worst_ns = KB_MIN(p->worst_ns, ns);
}

/* An id may start again from the same row, or go on from the row where it ended (a chain of
 * steps); from any other row it is a duplicate. */
static void check_start(pass *p, const kineto_flow *flow)
{
    uint64_t key[2] = {flow->type, flow->id}, rows = (uint64_t)flow->from << 32 | flow->to;
    bool created = false;
    uint64_t *last = kb_map_insert(&p->last, kb_hash(key, sizeof key), rows, &created);
    if (!last) {
        p->v->no_memory = true;
        return;
    }
    if (!created && *last >> 32 != flow->from && (uint32_t)*last != flow->from)
        ka_tally_add(p->v, &p->duplicate, flow->from);
    *last = rows;
}

/* Flows without both ends are dangling. */
static void check_flow(pass *p, const kineto_flow *flow)
{
    uint64_t count = kineto_trace_count(p->v->t);
    bool from = flow->from < count, to = flow->to < count;
    if (from != to)
        check_dangling(p, flow);
    else if (from)
        check_direction(p, flow);
    if (from)
        check_start(p, flow);
}

/* Flows with an offset below a microsecond are not backward: clocks were rounded. */
void ka_verify_flows(ka_verify *v)
{
    pass p = {.v = v};
    uint64_t count = kineto_trace_flow_count(v->t);
    for (uint64_t i = 0; i < count && !v->no_memory; i++) {
        kineto_flow flow;
        kineto_trace_flow(v->t, i, &flow);
        check_flow(&p, &flow);
    }
    ka_find(v, KA_RULE_FLOW_DANGLING, KINETO_SEVERITY_WARNING, &p.lost,
            "arrows lost one end, of activities that are there");
    ka_find(v, KA_RULE_FLOW_DANGLING, KINETO_SEVERITY_NOTE, &p.habit,
            "arrows of calls that have no device work, as Kineto writes them");
    ka_find(v, KA_RULE_FLOW_DANGLING, KINETO_SEVERITY_NOTE, &p.user,
            "arrows of the program have one end only; the other may lie outside the window");
    ka_find(v, KA_RULE_FLOW_DUPLICATE, KINETO_SEVERITY_WARNING, &p.duplicate,
            "arrows repeat the id of an earlier one");
    ka_find(v, KA_RULE_FLOW_BACKWARDS, KINETO_SEVERITY_ERROR, &p.backwards,
            "arrows end up to %s before they start",
            kb_duration(p.worst_ns == INT64_MIN ? INT64_MAX : -p.worst_ns).s);
    kb_map_free(&p.last);
    ka_tally *const all[] = {&p.lost, &p.habit, &p.user, &p.duplicate, &p.backwards};
    for (size_t i = 0; i < KB_COUNT(all); i++)
        kb_vec_free(&all[i]->rows);
}
