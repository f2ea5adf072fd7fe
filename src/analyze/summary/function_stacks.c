/* Stacks that the trace does not spell out: functions of Python around an event, and the stacks of
 * forward operators for the backward ones. */
#include "analyze/summary/summary.h"

bool ka_stacks_from_python(const kineto_function_events *e, ka_event_arguments *a)
{
    for (uint32_t i = 0; i < e->count; i++) {
        uint32_t parent = e->parent[i];
        if (parent == KINETO_NO_EVENT || e->flags[i] & KINETO_FUNCTION_DEVICE)
            continue;
        a->stack[i] = a->stack[parent];
        kineto_string name = kineto_trace_string(e->trace, e->name[parent]);
        if (!(e->flags[parent] & KINETO_FUNCTION_PYTHON) || !ka_is_shown_frame(name))
            continue;
        uint32_t text = kb_intern_id(&a->stacks.texts, name);
        a->stack[i] = text == KB_INTERN_NONE ? UINT32_MAX
                                             : ka_stacks_push(&a->stacks, a->stack[parent], text);
        if (a->stack[i] == UINT32_MAX)
            return false;
    }
    return true;
}

/* ---- backward -------------------------------------------------------------------------------- */

/* Traces number forward threads in their own way: flows show which track a number is. */
typedef struct pairing {
    const kineto_function_events *e;
    ka_event_arguments *a;
    uint32_t *inside; /* by event: the backward function it is, or runs in; or KINETO_NO_EVENT */
    kb_map track_of;  /* number of a forward thread */
    kb_map on_track, any; /* frames of forward operators by sequence number and track, or without */
} pairing;

static kineto_string framed_name(const kineto_function_events *e, uint32_t i)
{
    return ka_engine_frame_name(kineto_trace_string(e->trace, e->name[i]));
}

static bool is_framed(const kineto_function_events *e, uint32_t i)
{
    uint32_t parent = e->parent[i];
    return parent != KINETO_NO_EVENT && !(e->flags[i] & KINETO_FUNCTION_DEVICE) &&
           kb_string_equal(framed_name(e, parent), kineto_trace_string(e->trace, e->name[i]));
}

/* Traces do not tell the scope of an operator. Those without sequence number, which gather
 * gradients, have no forward operator; only PyTorch takes their stacks away. */
static bool is_backward(const kineto_function_events *e, const ka_event_arguments *a, uint32_t i)
{
    if (a->forward[i] && a->sequence[i] >= 0)
        return framed_name(e, i).data == NULL;
    return e->as_torch && is_framed(e, i);
}

static uint64_t sequence_key(const pairing *p, uint64_t sequence, uint64_t track)
{
    return sequence * kineto_trace_track_count(p->e->trace) + track;
}

static bool learn_track(pairing *p, const uint32_t *event_of, const kineto_flow *flow)
{
    if (flow->type != KINETO_FLOW_FWD_BWD || flow->from == KINETO_NO_ROW ||
        flow->to == KINETO_NO_ROW)
        return true;
    uint32_t from = event_of[flow->from], to = event_of[flow->to];
    if (from == KINETO_NO_EVENT || to == KINETO_NO_EVENT || !p->a->forward[to])
        return true;
    return kb_map_insert(&p->track_of, p->a->forward[to], p->e->track[from], NULL) != NULL;
}

static bool learn_tracks(pairing *p)
{
    uint64_t rows = kineto_trace_count(p->e->trace), flows = kineto_trace_flow_count(p->e->trace);
    uint32_t *event_of = malloc(ka_column_bytes(rows, sizeof *event_of));
    if (!event_of)
        return false;
    memset(event_of, 0xff, ka_column_bytes(rows, sizeof *event_of));
    for (uint32_t i = 0; i < p->e->count; i++)
        event_of[p->e->row[i]] = i;
    bool ok = true;
    for (uint64_t i = 0; ok && i < flows; i++) {
        kineto_flow flow;
        kineto_trace_flow(p->e->trace, i, &flow);
        ok = learn_track(p, event_of, &flow);
    }
    free(event_of);
    return ok;
}

/* The first operator of a sequence number counts, as it is the outermost. */
static bool learn_forward(pairing *p)
{
    const kineto_function_events *e = p->e;
    for (uint32_t i = 0; i < e->count; i++) {
        uint32_t parent = e->parent[i];
        bool device = e->flags[i] & KINETO_FUNCTION_DEVICE;
        p->inside[i] = is_backward(e, p->a, i)               ? i
                       : parent == KINETO_NO_EVENT || device ? KINETO_NO_EVENT
                                                             : p->inside[parent];
        if (p->inside[i] != KINETO_NO_EVENT || p->a->sequence[i] < 0)
            continue;
        uint64_t sequence = (uint64_t)p->a->sequence[i];
        if (!kb_map_insert(&p->on_track, sequence_key(p, sequence, e->track[i]), p->a->stack[i],
                           NULL) ||
            !kb_map_insert(&p->any, sequence, p->a->stack[i], NULL))
            return false;
    }
    return true;
}

static void give_stacks(pairing *p)
{
    for (uint32_t i = 0; i < p->e->count; i++) {
        uint32_t backward = p->inside[i];
        if (backward == KINETO_NO_EVENT)
            continue;
        uint64_t sequence = (uint64_t)p->a->sequence[backward];
        const uint64_t *track = kb_map_find(&p->track_of, p->a->forward[backward]);
        const uint64_t *stack = track ? kb_map_find(&p->on_track, sequence_key(p, sequence, *track))
                                      : kb_map_find(&p->any, sequence);
        if (stack || p->e->as_torch)
            p->a->stack[i] = stack ? (uint32_t)*stack : 0;
    }
}

bool ka_stacks_from_forward(const kineto_function_events *e, ka_event_arguments *a)
{
    pairing p = {.e = e, .a = a, .inside = malloc(ka_column_bytes(e->count, sizeof *p.inside))};
    bool ok = p.inside && learn_tracks(&p) && learn_forward(&p);
    if (ok)
        give_stacks(&p);
    free(p.inside);
    kb_map_free(&p.track_of);
    kb_map_free(&p.on_track);
    kb_map_free(&p.any);
    return ok;
}
