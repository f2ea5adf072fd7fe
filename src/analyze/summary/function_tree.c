/* The call tree of function events: nesting on each track, functions that only forward to one of
 * the same name, and device work with the function that launched it. Events are sorted by start,
 * the longer one first, so that a parent always precedes its children; each pass relies on that
 * order. */
#include "analyze/summary/summary.h"

/* ---- nesting --------------------------------------------------------------------------------- */

/* Asynchronous events and device work are on no call stack. */
static bool can_nest(const kineto_function_events *e, uint32_t i)
{
    return !(e->flags[i] & (KINETO_FUNCTION_DEVICE | KINETO_FUNCTION_ASYNC));
}

/* Self time is the duration less those of the callees. Where an event crosses an open one, the time
 * in which both are open counts for the later one (as in nesting.c): it is subtracted from `open`,
 * from *owned_ns on, which moves to the end of `open`. False: out of memory. */
static bool subtract_shared_time(kineto_function_events *e, uint32_t open, int64_t *owned_ns)
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

/* The caller of event i, from the innermost open one outwards: an event that ends earlier than i
 * cannot be its caller, nor that of any later event. An event that encloses two crossing ones would
 * lose their common time twice, so it gets it back once. False: out of memory. */
static bool find_caller(kineto_function_events *e, uint32_t i, uint32_t *caller)
{
    int64_t owned_ns = e->start_ns[i];
    while (*caller != KINETO_NO_EVENT &&
           (e->start_ns[i] >= e->end_ns[*caller] || e->end_ns[i] > e->end_ns[*caller])) {
        if (!subtract_shared_time(e, *caller, &owned_ns))
            return false;
        *caller = e->parent[*caller];
    }
    if (*caller != KINETO_NO_EVENT && owned_ns > e->start_ns[i])
        e->shared_ns[*caller] = ka_add_saturated(e->shared_ns[*caller],
                                                 ka_subtract_saturated(owned_ns, e->start_ns[i]));
    return true;
}

/* Sets `parent` of host events. The open events of a track are a chain of parents, whose innermost
 * is in `open`. False: out of memory. */
static bool nest_events(kineto_function_events *e)
{
    size_t tracks = KB_MAX(kineto_trace_track_count(e->trace), 1u);
    uint32_t *open = malloc(tracks * sizeof *open);
    bool ok = open != NULL;
    if (ok)
        memset(open, 0xff, tracks * sizeof *open);
    for (uint32_t i = 0; ok && i < e->count; i++) {
        uint32_t parent = KINETO_NO_EVENT;
        if (can_nest(e, i)) {
            parent = open[e->track[i]];
            ok = find_caller(e, i, &parent);
            open[e->track[i]] = i;
        }
        e->parent[i] = parent;
    }
    free(open);
    return ok;
}

/* Links the children of each event. From the last to the first event, so that prepending keeps the
 * order of time. */
static void list_children(kineto_function_events *e)
{
    memset(e->first_child, 0xff, ka_column_bytes(e->count, sizeof *e->first_child));
    memset(e->next_sibling, 0xff, ka_column_bytes(e->count, sizeof *e->next_sibling));
    for (uint32_t i = e->count; i-- > 0;) {
        uint32_t parent = e->parent[i];
        if (parent == KINETO_NO_EVENT)
            continue;
        KB_ASSERT(parent < i);
        e->next_sibling[i] = e->first_child[parent];
        e->first_child[parent] = i;
    }
}

/* ---- calls with the name of their caller ----------------------------------------------------- */

/* An only child with its parent's name stands for the same call: it is folded into the parent,
 * which gets its children (PyTorch does the same). Parents come first, so that chains fold in one
 * pass. into[i] is the event that i was folded into, or KINETO_NO_EVENT; returns how many were
 * folded. */
static uint32_t fold_same_names(kineto_function_events *e, uint32_t *into)
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

static void move_event(kineto_function_events *e, uint32_t to, uint32_t from)
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

/* Replaces old event numbers by new ones. */
static void renumber_column(uint32_t *column, uint32_t count, const uint32_t *number)
{
    for (uint32_t i = 0; i < count; i++)
        if (column[i] != KINETO_NO_EVENT)
            column[i] = number[column[i]];
}

/* Removes folded events; the numbers of later events change. */
static void remove_folded_events(kineto_function_events *e, uint32_t *into)
{
    uint32_t kept = 0;
    for (uint32_t i = 0; i < e->count; i++) {
        bool gone = into[i] != KINETO_NO_EVENT;
        into[i] = kept; /* from here on: its new number */
        if (!gone)
            move_event(e, kept++, i);
    }
    e->count = kept;
    renumber_column(e->parent, kept, into);
    renumber_column(e->first_child, kept, into);
    renumber_column(e->next_sibling, kept, into);
    renumber_column(e->kernel, kept, into);
}

/* ---- device work ----------------------------------------------------------------------------- */

/* Indexes for finding the function that launched device work. */
typedef struct device_linker {
    kineto_function_events *e;
    uint32_t
        *by_id; /* operators and annotations by external id less first_id; NULL: see by_far_id */
    uint64_t first_id, ids;
    /* Used instead of by_id where ids are far apart. */
    kb_map by_far_id;
    uint32_t *event_of;   /* by row; built at its first use */
    const uint32_t *into; /* see fold_same_names */
} device_linker;

static bool is_host_operator(const kineto_function_events *e, uint32_t i)
{
    return can_nest(e, i) &&
           (e->kind[i] == KINETO_KIND_CPU_OP || e->kind[i] == KINETO_KIND_USER_ANNOTATION);
}

static uint64_t get_external_id(const kineto_function_events *e, uint32_t i)
{
    kineto_activity a;
    kineto_trace_get(e->trace, e->row[i], &a);
    return a.external_id;
}

/* Ids are usually consecutive: an array is then faster than a hash table. Leaves by_id NULL if they
 * are not. False: out of memory. */
static bool choose_id_index(device_linker *l)
{
    uint64_t smallest = UINT64_MAX, largest = 0;
    for (uint32_t i = 0; i < l->e->count; i++) {
        uint64_t id = is_host_operator(l->e, i) ? get_external_id(l->e, i) : 0;
        if (id) {
            smallest = KB_MIN(smallest, id);
            largest = KB_MAX(largest, id);
        }
    }
    if (largest < smallest || largest - smallest > 4 * (uint64_t)l->e->count)
        return true;
    l->first_id = smallest;
    l->ids = largest - smallest + 1;
    l->by_id = malloc(l->ids * sizeof *l->by_id);
    if (l->by_id)
        memset(l->by_id, 0xff, l->ids * sizeof *l->by_id);
    return l->by_id != NULL;
}

/* Indexes operators by their external id; of several with one id, the first. False: out of
 * memory. */
static bool index_host_operators(device_linker *l)
{
    if (!choose_id_index(l))
        return false;
    for (uint32_t i = 0; i < l->e->count; i++) {
        uint64_t id = is_host_operator(l->e, i) ? get_external_id(l->e, i) : 0;
        if (!id)
            continue;
        if (!l->by_id && !kb_map_insert(&l->by_far_id, id, i, NULL))
            return false;
        if (l->by_id && l->by_id[id - l->first_id] == KINETO_NO_EVENT)
            l->by_id[id - l->first_id] = i;
    }
    return true;
}

static uint32_t find_operator_by_id(const device_linker *l, uint64_t id)
{
    if (!id)
        return KINETO_NO_EVENT;
    if (l->by_id)
        return id - l->first_id < l->ids ? l->by_id[id - l->first_id] : KINETO_NO_EVENT;
    const uint64_t *found = kb_map_find(&l->by_far_id, id);
    return found ? (uint32_t)*found : KINETO_NO_EVENT;
}

/* Builds event_of. False: out of memory. */
static bool index_rows(device_linker *l)
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

/* host: the operator around the call that launched the work, or the call itself if there is none;
 * unchanged if the launch is unknown. False: out of memory. */
static bool find_operator_by_launch(device_linker *l, uint32_t device, uint32_t *host)
{
    const kineto_function_events *e = l->e;
    kineto_row launch = kineto_trace_launch(e->trace, e->row[device]);
    if (launch == KINETO_NO_ROW)
        return true;
    if (!l->event_of && !index_rows(l))
        return false;
    uint32_t call = l->event_of[launch];
    if (call == KINETO_NO_EVENT || !can_nest(e, call))
        return true;
    *host = call;
    while (*host != KINETO_NO_EVENT && !is_host_operator(e, *host))
        *host = e->parent[*host];
    if (*host == KINETO_NO_EVENT)
        *host = call;
    return true;
}

/* host: the function that the work belongs to, or KINETO_NO_EVENT. False: out of memory. */
static bool find_host_of_device_work(device_linker *l, uint32_t device, uint32_t *host)
{
    const kineto_function_events *e = l->e;
    *host = KINETO_NO_EVENT;
    /* The kernels of an annotation are events of their own: its device range would count them
     * twice. */
    if (e->kind[device] == KINETO_KIND_GPU_USER_ANNOTATION && !e->as_torch)
        return true;
    *host = find_operator_by_id(l, get_external_id(e, device));
    if (*host == KINETO_NO_EVENT && !e->as_torch && !find_operator_by_launch(l, device, host))
        return false;
    while (*host != KINETO_NO_EVENT && l->into[*host] != KINETO_NO_EVENT)
        *host = l->into[*host];
    return true;
}

/* Links device work to its functions and adds its time to them. From the last to the first event,
 * so that prepending keeps the kernels of a function in order. False: out of memory. */
static bool link_device_work(device_linker *l)
{
    kineto_function_events *e = l->e;
    memset(e->kernel, 0xff, ka_column_bytes(e->count, sizeof *e->kernel));
    if (!e->device_ns)
        return true;
    if (!index_host_operators(l))
        return false;
    for (uint32_t i = e->count; i-- > 0;) {
        uint32_t host;
        if (!(e->flags[i] & KINETO_FUNCTION_DEVICE))
            continue;
        if (!find_host_of_device_work(l, i, &host))
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

/* Adds device times that a fallback measured around whole operators (profiler/fallback.h). */
static void add_elapsed_times(kineto_function_events *e,
                              const kineto_function_events_options *options)
{
    for (uint32_t i = 0; options->device_elapsed && i < e->count; i++) {
        uint64_t id = is_host_operator(e, i) ? get_external_id(e, i) : 0;
        int64_t ns = 0;
        if (!id || !options->device_elapsed(id, &ns, options->user) || ns <= 0)
            continue;
        e->device_ns[i] = ka_add_saturated(e->device_ns[i], ns);
        e->flags[i] |= KINETO_FUNCTION_LEGACY;
    }
}

/* Adds device times of callees to their callers, from the last event to the first. A time that was
 * measured around the caller contains them already. */
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
    device_linker l = {.e = e};
    uint32_t *into = malloc(ka_column_bytes(e->count, sizeof *into));
    bool ok = into && nest_events(e);
    if (ok) {
        list_children(e);
        uint32_t folded = fold_same_names(e, into);
        KB_ASSERT(folded <= e->count);
        l.into = into;
        ok = link_device_work(&l);
        if (ok && folded)
            remove_folded_events(e, into);
        add_elapsed_times(e, options);
        sum_device_times(e);
    }
    free(l.by_id);
    kb_map_free(&l.by_far_id);
    free(l.event_of);
    free(into);
    return ok;
}
