/* Stacks that the trace does not contain: from the Python functions around an event, and for
 * backward operators the stacks of their forward ones, which have the same sequence number. Used by
 * function_args.c after all arguments are read. */
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

/* Matches backward operators with forward ones. "Fwd thread id" is a number of PyTorch's own: the
 * flows from forward to backward show which track it stands for. */
typedef struct backward_matcher {
    const kineto_function_events *e;
    ka_event_arguments *a;
    /* By event: the backward function that it is or runs in; KINETO_NO_EVENT: none. */
    uint32_t *inside;
    kb_map track_of; /* number of a forward thread */
    /* Stacks of forward operators: by sequence number and track; by sequence number alone. */
    kb_map on_track, any;
} backward_matcher;

static kineto_string get_engine_frame_name(const kineto_function_events *e, uint32_t i)
{
    return ka_engine_frame_name(kineto_trace_string(e->trace, e->name[i]));
}

static bool is_in_engine_frame(const kineto_function_events *e, uint32_t i)
{
    uint32_t parent = e->parent[i];
    return parent != KINETO_NO_EVENT && !(e->flags[i] & KINETO_FUNCTION_DEVICE) &&
           kb_string_equal(get_engine_frame_name(e, parent),
                           kineto_trace_string(e->trace, e->name[i]));
}

/* Traces do not have the scope of an operator, but backward ones have a forward thread. Those
 * without a sequence number, which accumulate gradients, have no forward operator; PyTorch
 * nevertheless removes their stacks, which as_torch imitates. */
static bool is_backward_operator(const kineto_function_events *e, const ka_event_arguments *a,
                                 uint32_t i)
{
    if (a->forward[i] && a->sequence[i] >= 0)
        return get_engine_frame_name(e, i).data == NULL;
    return e->as_torch && is_in_engine_frame(e, i);
}

static uint64_t make_sequence_key(const backward_matcher *p, uint64_t sequence, uint64_t track)
{
    return sequence * kineto_trace_track_count(p->e->trace) + track;
}

/* Learns the track of one forward thread from a flow. False: out of memory. */
static bool learn_track_of_flow(backward_matcher *p, const uint32_t *event_of,
                                const kineto_flow *flow)
{
    if (flow->type != KINETO_FLOW_FWD_BWD || flow->from == KINETO_NO_ROW ||
        flow->to == KINETO_NO_ROW)
        return true;
    uint32_t from = event_of[flow->from], to = event_of[flow->to];
    if (from == KINETO_NO_EVENT || to == KINETO_NO_EVENT || !p->a->forward[to])
        return true;
    return kb_map_insert(&p->track_of, p->a->forward[to], p->e->track[from], NULL) != NULL;
}

static bool learn_forward_tracks(backward_matcher *p)
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
        ok = learn_track_of_flow(p, event_of, &flow);
    }
    free(event_of);
    return ok;
}

/* Finds the backward function around each event and indexes the stacks of forward operators. The
 * first operator of a sequence number counts, as it is the outermost. False: out of memory. */
static bool index_forward_stacks(backward_matcher *p)
{
    const kineto_function_events *e = p->e;
    for (uint32_t i = 0; i < e->count; i++) {
        uint32_t parent = e->parent[i];
        bool device = e->flags[i] & KINETO_FUNCTION_DEVICE;
        KB_ASSERT(device || parent == KINETO_NO_EVENT || parent < i);
        if (is_backward_operator(e, p->a, i))
            p->inside[i] = i;
        else if (parent == KINETO_NO_EVENT || device)
            p->inside[i] = KINETO_NO_EVENT;
        else
            p->inside[i] = p->inside[parent];
        if (p->inside[i] != KINETO_NO_EVENT || p->a->sequence[i] < 0)
            continue;
        uint64_t sequence = (uint64_t)p->a->sequence[i];
        if (!kb_map_insert(&p->on_track, make_sequence_key(p, sequence, e->track[i]),
                           p->a->stack[i], NULL) ||
            !kb_map_insert(&p->any, sequence, p->a->stack[i], NULL))
            return false;
    }
    return true;
}

/* Replaces the stacks of backward functions and of all that runs in them. Without a match the stack
 * stays; PyTorch clears it. */
static void assign_forward_stacks(backward_matcher *p)
{
    for (uint32_t i = 0; i < p->e->count; i++) {
        uint32_t backward = p->inside[i];
        if (backward == KINETO_NO_EVENT)
            continue;
        uint64_t sequence = (uint64_t)p->a->sequence[backward];
        const uint64_t *track = kb_map_find(&p->track_of, p->a->forward[backward]);
        const uint64_t *stack =
            track ? kb_map_find(&p->on_track, make_sequence_key(p, sequence, *track))
                  : kb_map_find(&p->any, sequence);
        if (stack || p->e->as_torch)
            p->a->stack[i] = stack ? (uint32_t)*stack : 0;
    }
}

bool ka_stacks_from_forward(const kineto_function_events *e, ka_event_arguments *a)
{
    backward_matcher p = {
        .e = e, .a = a, .inside = malloc(ka_column_bytes(e->count, sizeof *p.inside))};
    bool ok = p.inside && learn_forward_tracks(&p) && index_forward_stacks(&p);
    if (ok)
        assign_forward_stacks(&p);
    free(p.inside);
    kb_map_free(&p.track_of);
    kb_map_free(&p.on_track);
    kb_map_free(&p.any);
    return ok;
}
