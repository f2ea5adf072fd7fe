/* Who called whom: nesting of function events on each track, functions that only pass on to one of
 * the same name, device work and whose it is. */
#include "analyze/summary/summary.h"

/* ---- nesting --------------------------------------------------------------------------------- */

static bool nests(const kineto_function_events *e, uint32_t i)
{
    return !(e->flags[i] & (KINETO_FUNCTION_DEVICE | KINETO_FUNCTION_ASYNC));
}

/* Own times are lengths less those of callees. Where an event crosses an open one, it has the
 * moments at which both are open (as in nesting.c), from *owned_ns on, which moves to the end of
 * the open one. */
static bool share_time(kineto_function_events *e, uint32_t open, int64_t *owned_ns)
{
    int64_t ns = ka_subtract_saturated(e->end_ns[open], *owned_ns);
    if (ns <= 0)
        return true;
    if (!e->shared_ns)
        e->shared_ns = calloc(KB_MAX(e->count, 1u), sizeof *e->shared_ns);
    if (!e->shared_ns)
        return false;
    e->shared_ns[open] = ka_subtract_saturated(e->shared_ns[open], ns);
    *owned_ns = e->end_ns[open];
    return true;
}

/* Who ends later than the innermost open event is no callee of it, nor is anything after that. What
 * encloses two events that cross loses the moments of both once. */
static bool find_caller(kineto_function_events *e, uint32_t i, uint32_t *caller)
{
    int64_t owned_ns = e->start_ns[i];
    while (*caller != KINETO_NO_EVENT &&
           (e->start_ns[i] >= e->end_ns[*caller] || e->end_ns[i] > e->end_ns[*caller])) {
        if (!share_time(e, *caller, &owned_ns))
            return false;
        *caller = e->parent[*caller];
    }
    if (*caller != KINETO_NO_EVENT && owned_ns > e->start_ns[i])
        e->shared_ns[*caller] = ka_add_saturated(e->shared_ns[*caller],
                                                 ka_subtract_saturated(owned_ns, e->start_ns[i]));
    return true;
}

/* Events come by start, the longer first: what is open on a track hangs together by parents. */
static bool nest(kineto_function_events *e)
{
    size_t tracks = KB_MAX(kineto_trace_track_count(e->trace), 1u);
    uint32_t *open = malloc(tracks * sizeof *open);
    bool ok = open != NULL;
    if (ok)
        memset(open, 0xff, tracks * sizeof *open);
    for (uint32_t i = 0; ok && i < e->count; i++) {
        uint32_t parent = KINETO_NO_EVENT;
        if (nests(e, i)) {
            parent = open[e->track[i]];
            ok = find_caller(e, i, &parent);
            open[e->track[i]] = i;
        }
        e->parent[i] = parent;
    }
    free(open);
    return ok;
}

/* Children in order: by walking backwards, each is put before those that are there. */
static void list_children(kineto_function_events *e)
{
    memset(e->first_child, 0xff, ka_column_bytes(e->count, sizeof *e->first_child));
    memset(e->next_sibling, 0xff, ka_column_bytes(e->count, sizeof *e->next_sibling));
    for (uint32_t i = e->count; i-- > 0;) {
        uint32_t parent = e->parent[i];
        if (parent == KINETO_NO_EVENT)
            continue;
        e->next_sibling[i] = e->first_child[parent];
        e->first_child[parent] = i;
    }
}

/* ---- double names ---------------------------------------------------------------------------- */

/* A child that is the only one and has its parent's name stands for the same call: the parent takes
 * its children. Callers come first, so chains fall together in one pass. */
static uint32_t fold_doubles(kineto_function_events *e, uint32_t *into)
{
    uint32_t folded = 0;
    for (uint32_t i = 0; i < e->count; i++) {
        uint32_t parent = e->parent[i];
        into[i] = KINETO_NO_EVENT;
        if (parent == KINETO_NO_EVENT || e->first_child[parent] != i ||
            e->next_sibling[i] != KINETO_NO_EVENT ||
            e->names.key[e->name[i]] != e->names.key[e->name[parent]])
            continue;
        into[i] = parent;
        folded++;
        if (e->shared_ns)
            e->shared_ns[parent] = ka_add_saturated(e->shared_ns[parent], e->shared_ns[i]);
        e->first_child[parent] = e->first_child[i];
        for (uint32_t c = e->first_child[i]; c != KINETO_NO_EVENT; c = e->next_sibling[c])
            e->parent[c] = parent;
    }
    return folded;
}

static void move(kineto_function_events *e, uint32_t to, uint32_t from)
{
    e->row[to] = e->row[from];
    e->start_ns[to] = e->start_ns[from];
    e->end_ns[to] = e->end_ns[from];
    e->track[to] = e->track[from];
    e->name[to] = e->name[from];
    e->flags[to] = e->flags[from];
    e->kind[to] = e->kind[from];
    e->parent[to] = e->parent[from];
    e->first_child[to] = e->first_child[from];
    e->next_sibling[to] = e->next_sibling[from];
    e->kernel[to] = e->kernel[from];
    if (e->shared_ns)
        e->shared_ns[to] = e->shared_ns[from];
    if (e->device_ns)
        e->device_ns[to] = e->device_ns[from];
    if (e->cpu_bytes) {
        e->cpu_bytes[to] = e->cpu_bytes[from];
        e->device_bytes[to] = e->device_bytes[from];
    }
}

static void renumber(uint32_t *column, uint32_t count, const uint32_t *number)
{
    for (uint32_t i = 0; i < count; i++)
        if (column[i] != KINETO_NO_EVENT)
            column[i] = number[column[i]];
}

/* Take folded events out; numbers of those behind them change. */
static void take_out(kineto_function_events *e, uint32_t *into)
{
    uint32_t kept = 0;
    for (uint32_t i = 0; i < e->count; i++) {
        bool gone = into[i] != KINETO_NO_EVENT;
        into[i] = kept; /* from here on: its new number */
        if (!gone)
            move(e, kept++, i);
    }
    e->count = kept;
    renumber(e->parent, kept, into);
    renumber(e->first_child, kept, into);
    renumber(e->next_sibling, kept, into);
    renumber(e->kernel, kept, into);
}

/* ---- device work ----------------------------------------------------------------------------- */

/* What is looked up while device work is given to functions. */
typedef struct linking {
    kineto_function_events *e;
    uint32_t *by_id; /* operators and annotations by external id, from first_id on */
    uint64_t first_id, ids;
    kb_map by_far_id;   /* instead, where ids are far apart */
    uint32_t *event_of; /* by row; made when first needed */
    const uint32_t *into;
} linking;

static bool is_operator(const kineto_function_events *e, uint32_t i)
{
    return nests(e, i) &&
           (e->kind[i] == KINETO_KIND_CPU_OP || e->kind[i] == KINETO_KIND_USER_ANNOTATION);
}

static uint64_t external_id(const kineto_function_events *e, uint32_t i)
{
    kineto_activity a;
    kineto_trace_get(e->trace, e->row[i], &a);
    return a.external_id;
}

/* Ids are counted up as a rule: then a place for each of them is found faster than by hashing. */
static bool choose_index(linking *l)
{
    uint64_t least = UINT64_MAX, most = 0;
    for (uint32_t i = 0; i < l->e->count; i++) {
        uint64_t id = is_operator(l->e, i) ? external_id(l->e, i) : 0;
        if (id) {
            least = KB_MIN(least, id);
            most = KB_MAX(most, id);
        }
    }
    if (most < least || most - least > 4 * (uint64_t)l->e->count)
        return true;
    l->first_id = least;
    l->ids = most - least + 1;
    l->by_id = malloc(l->ids * sizeof *l->by_id);
    if (l->by_id)
        memset(l->by_id, 0xff, l->ids * sizeof *l->by_id);
    return l->by_id != NULL;
}

/* Of several with one id, the first. */
static bool list_operators(linking *l)
{
    if (!choose_index(l))
        return false;
    for (uint32_t i = 0; i < l->e->count; i++) {
        uint64_t id = is_operator(l->e, i) ? external_id(l->e, i) : 0;
        if (!id)
            continue;
        if (!l->by_id && !kb_map_insert(&l->by_far_id, id, i, NULL))
            return false;
        if (l->by_id && l->by_id[id - l->first_id] == KINETO_NO_EVENT)
            l->by_id[id - l->first_id] = i;
    }
    return true;
}

static uint32_t find_by_id(const linking *l, uint64_t id)
{
    if (!id)
        return KINETO_NO_EVENT;
    if (l->by_id)
        return id - l->first_id < l->ids ? l->by_id[id - l->first_id] : KINETO_NO_EVENT;
    const uint64_t *found = kb_map_find(&l->by_far_id, id);
    return found ? (uint32_t)*found : KINETO_NO_EVENT;
}

static bool list_rows(linking *l)
{
    kineto_function_events *e = l->e;
    size_t bytes = ka_column_bytes(kineto_trace_count(e->trace), sizeof *l->event_of);
    if (!(l->event_of = malloc(bytes)))
        return false;
    memset(l->event_of, 0xff, bytes);
    for (uint32_t i = 0; i < e->count; i++)
        l->event_of[e->row[i]] = i;
    return true;
}

/* The operator around the call that launched it; the call itself if there is none around. */
static bool find_by_launch(linking *l, uint32_t device, uint32_t *host)
{
    const kineto_function_events *e = l->e;
    kineto_row launch = kineto_trace_launch(e->trace, e->row[device]);
    if (launch == KINETO_NO_ROW)
        return true;
    if (!l->event_of && !list_rows(l))
        return false;
    uint32_t call = l->event_of[launch];
    if (call == KINETO_NO_EVENT || !nests(e, call))
        return true;
    *host = call;
    while (*host != KINETO_NO_EVENT && !is_operator(e, *host))
        *host = e->parent[*host];
    if (*host == KINETO_NO_EVENT)
        *host = call;
    return true;
}

static bool find_host(linking *l, uint32_t device, uint32_t *host)
{
    const kineto_function_events *e = l->e;
    *host = KINETO_NO_EVENT;
    /* What the device did for an annotation is told by the kernels already. */
    if (e->kind[device] == KINETO_KIND_GPU_USER_ANNOTATION && !e->as_torch)
        return true;
    *host = find_by_id(l, external_id(e, device));
    if (*host == KINETO_NO_EVENT && !e->as_torch && !find_by_launch(l, device, host))
        return false;
    while (*host != KINETO_NO_EVENT && l->into[*host] != KINETO_NO_EVENT)
        *host = l->into[*host]; /* it was folded into its caller */
    return true;
}

/* Backwards, so that the kernels of a function hang together in their order. */
static bool link_device(linking *l)
{
    kineto_function_events *e = l->e;
    memset(e->kernel, 0xff, ka_column_bytes(e->count, sizeof *e->kernel));
    if (!e->device_ns)
        return true;
    if (!list_operators(l))
        return false;
    for (uint32_t i = e->count; i-- > 0;) {
        uint32_t host;
        if (!(e->flags[i] & KINETO_FUNCTION_DEVICE))
            continue;
        if (!find_host(l, i, &host))
            return false;
        e->device_ns[i] = ka_event_length_ns(e, i);
        e->parent[i] = host;
        if (host == KINETO_NO_EVENT)
            continue;
        e->kernel[i] = e->kernel[host];
        e->kernel[host] = i;
        e->device_ns[host] = ka_add_saturated(e->device_ns[host], e->device_ns[i]);
    }
    return true;
}

/* Times that were measured from the host, around whole operators. */
static void take_elapsed(kineto_function_events *e, const kineto_function_events_options *options)
{
    for (uint32_t i = 0; options->device_elapsed && i < e->count; i++) {
        uint64_t id = is_operator(e, i) ? external_id(e, i) : 0;
        int64_t ns = 0;
        if (!id || !options->device_elapsed(id, &ns, options->user) || ns <= 0)
            continue;
        e->device_ns[i] = ka_add_saturated(e->device_ns[i], ns);
        e->flags[i] |= KINETO_FUNCTION_LEGACY;
    }
}

/* Callees come after their callers. What was measured around a caller holds theirs. */
static void sum_device_times(kineto_function_events *e)
{
    for (uint32_t i = e->count; e->device_ns && i-- > 0;) {
        uint32_t parent = e->parent[i];
        if (parent != KINETO_NO_EVENT && !(e->flags[i] & KINETO_FUNCTION_DEVICE) &&
            !(e->flags[parent] & KINETO_FUNCTION_LEGACY))
            e->device_ns[parent] = ka_add_saturated(e->device_ns[parent], e->device_ns[i]);
    }
}

bool ka_build_call_tree(kineto_function_events *e, const kineto_function_events_options *options)
{
    linking l = {.e = e};
    uint32_t *into = malloc(ka_column_bytes(e->count, sizeof *into));
    bool ok = into && nest(e);
    if (ok) {
        list_children(e);
        uint32_t folded = fold_doubles(e, into);
        l.into = into;
        ok = link_device(&l);
        if (ok && folded)
            take_out(e, into);
        take_elapsed(e, options);
        sum_device_times(e);
    }
    free(l.by_id);
    kb_map_free(&l.by_far_id);
    free(l.event_of);
    free(into);
    return ok;
}
