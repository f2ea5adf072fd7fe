/* Nodes of a rank and the program order of host threads as edges; then, once all edges are
 * there, the order of nodes, their times and the longest path. Edge n - 1 of the host leads to
 * node n until ka_path_finish reorders both, which other files rely on. */
#include "analyze/critical/critical.h"

/* Names of `own` numbers, then of those that definitions add. */
static const char *name_of_number(const char *const *own, uint32_t own_count,
                                  const char *const *added, uint32_t added_count, uint32_t number)
{
    if (number < own_count)
        return own[number];
    return number - own_count < added_count ? added[number - own_count] : "";
}

uint32_t ka_path_class_count(const ka_path *path)
{
    return KA_PATH_CLASS_COUNT + path->s->definitions->path_class_count;
}

const char *ka_path_class_name(const ka_path *path, uint32_t class)
{
    static const char *const names[] = {
#define X(name, word) word,
        KA_PATH_CLASSES(X)
#undef X
    };
    const ka_definitions *d = path->s->definitions;
    return name_of_number(names, KB_COUNT(names), d->path_classes, d->path_class_count, class);
}

const char *ka_edge_type_name(const ka_path *path, uint32_t type)
{
    static const char *const names[] = {
#define X(name, word) word,
        KA_EDGE_TYPES(X)
#undef X
    };
    const ka_definitions *d = path->s->definitions;
    return name_of_number(names, KB_COUNT(names), d->edge_types, d->edge_type_count, type);
}

/* ---- nodes of the host -------------------------------------------------------------------------------- */

/* The walk over one thread: open slices as a heap by end and as a chain of the innermost. */
typedef struct walk {
    ka_path *p;
    const ka_dataset *s;
    uint8_t *class_of; /* by name of a slice: 2: a data loader, 1: not, 0: not known yet */
    KB_VEC(uint32_t)
    ends;               /* open slices of the window, a heap: the one that ends next is the first */
    uint32_t innermost; /* the open slice that began last; KA_NONE */
    uint32_t *around;   /* by slice: what was innermost when it began */
    uint32_t loading;   /* how many open slices are data loaders */
    uint32_t last;      /* node; 0: none of the thread yet */
    bool ends_path;     /* any moment of the thread may be the last one of the path */
} walk;

/* The class of host time by what the thread is in. */
static ka_path_class class_of_kind(uint32_t kind)
{
    switch (kind) {
    case KINETO_KIND_RUNTIME:
    case KINETO_KIND_DRIVER:
        return KA_PATH_CALL;
    case KINETO_KIND_PYTHON_FUNCTION:
        return KA_PATH_PYTHON;
    case KINETO_KIND_OVERHEAD:
        return KA_PATH_OVERHEAD;
    case KINETO_KIND_USER_ANNOTATION:
        return KA_PATH_BETWEEN;
    default:
        return KA_PATH_OPERATOR;
    }
}

/* Is the slice a wait of the data loader? Computed once per name. */
static bool is_loading(walk *w, const ka_slice *slice)
{
    if (slice->kind != KINETO_KIND_CPU_OP && slice->kind != KINETO_KIND_USER_ANNOTATION)
        return false;
    uint8_t *known = &w->class_of[slice->name];
    if (!*known)
        *known = ka_is_dataloader(ka_name(w->s, slice->name)) ? 2 : 1;
    return *known == 2;
}

/* Of the open slices the one that began last, as own times have it (nesting.c). One that ended while
 * another went on has left the chain by then, or leaves it now. */
static uint32_t find_innermost(walk *w, int64_t now)
{
    while (w->innermost != KA_NONE && w->s->slices[w->innermost].end_ns <= now)
        w->innermost = w->around[w->innermost];
    return w->innermost;
}

/* Annotations say what the time is for, not what the thread does: that says what is around them. */
static ka_path_class class_inside(const walk *w, uint32_t slice)
{
    while (slice != KA_NONE && w->s->slices[slice].kind == KINETO_KIND_USER_ANNOTATION)
        slice = w->around[slice];
    return slice == KA_NONE ? KA_PATH_BETWEEN : class_of_kind(w->s->slices[slice].kind);
}

/* Without steps all threads count that run operators or make calls, each as far as it does. */
static bool is_work_of_host(const walk *w, const ka_slice *slice)
{
    return !w->p->has_steps &&
           (slice->kind == KINETO_KIND_CPU_OP || kt_kind_is_launch(slice->kind));
}

/* The edge from the last moment of the thread to a new one. It belongs to the slice that was innermost
 * in between. */
static void put_moment(walk *w, uint32_t slice, bool is_end)
{
    ka_path *p = w->p;
    const ka_slice *s = &w->s->slices[slice];
    int64_t ns = is_end ? s->end_ns : s->start_ns, from_ns = p->nodes.data[w->last].ns;
    ka_edge edge = {.src = w->last, .dst = (uint32_t)p->nodes.count, .owner = KA_NONE};
    uint32_t owner = w->last ? find_innermost(w, from_ns) : KA_NONE;
    ns = KB_MAX(ns, from_ns);
    edge.ns = kb_length_ns(from_ns, ns);
    edge.type = w->last ? KA_EDGE_HOST : KA_EDGE_START;
    edge.class = (uint8_t)(w->last ? class_inside(w, owner) : KA_PATH_START);
    KB_ASSERT(p->edges.count + 1 == p->nodes.count ||
              p->no_memory); /* edge n - 1 leads to node n */
    if (owner != KA_NONE) {
        edge.owner = owner;
        edge.of = KA_OF_SLICE;
    }
    if (w->last && w->loading)
        edge.class = KA_PATH_DATA;
    ka_path_edge(p, edge);
    (is_end ? p->end_of : p->start_of)[slice] = edge.dst;
    p->no_memory |=
        !kb_vec_push(&p->nodes, (ka_node){.ns = ns,
                                          .index = slice,
                                          .of = KA_OF_SLICE,
                                          .is_end = is_end,
                                          .may_be_last = w->ends_path || is_work_of_host(w, s)});
    w->last = edge.dst;
}

/* ---- open slices by their ends ---- */

/* Of slices that end together the inner one ends first. */
static bool ends_before(const walk *w, uint32_t a, uint32_t b)
{
    int64_t a_ns = w->s->slices[a].end_ns, b_ns = w->s->slices[b].end_ns;
    return a_ns != b_ns ? a_ns < b_ns : a > b;
}

/* Inserts into the heap of open slices, ordered by ends_before. */
static void push_end(walk *w, uint32_t slice)
{
    if (!kb_vec_push(&w->ends, slice)) {
        w->p->no_memory = true;
        return;
    }
    size_t at = w->ends.count - 1;
    for (; at && ends_before(w, slice, w->ends.data[(at - 1) / 2]); at = (at - 1) / 2)
        w->ends.data[at] = w->ends.data[(at - 1) / 2];
    w->ends.data[at] = slice;
}

/* Removes the open slice that ends first. */
static uint32_t pop_end(walk *w)
{
    uint32_t first = w->ends.data[0], moved = w->ends.data[--w->ends.count];
    size_t at = 0, count = w->ends.count;
    for (size_t child; (child = 2 * at + 1) < count; at = child) {
        child += child + 1 < count && ends_before(w, w->ends.data[child + 1], w->ends.data[child]);
        if (!ends_before(w, w->ends.data[child], moved))
            break;
        w->ends.data[at] = w->ends.data[child];
    }
    if (count)
        w->ends.data[at] = moved;
    return first;
}

/* ---- one thread ---- */

/* Ends the open slice that ends first; ends past the window have no node. */
static void leave_slice(walk *w)
{
    uint32_t slice = pop_end(w);
    if (w->s->slices[slice].end_ns <= w->p->end_ns)
        put_moment(w, slice, true);
    w->loading -= is_loading(w, &w->s->slices[slice]);
}

/* What ends no later than the new slice, and began before it, is innermost no more. */
static void enter_slice(walk *w, uint32_t slice)
{
    const ka_slice *slices = w->s->slices;
    put_moment(w, slice, false);
    while (w->innermost != KA_NONE && slices[w->innermost].end_ns < slices[slice].end_ns)
        w->innermost = w->around[w->innermost];
    w->around[slice] = w->innermost;
    w->innermost = slice;
    w->loading += is_loading(w, &slices[slice]);
    push_end(w, slice);
}

/* Nodes of one thread in the order of time: starts from the array, ends from the heap. */
static void walk_thread(walk *w, const ka_thread *thread)
{
    const ka_slice *slices = w->s->slices;
    w->last = 0;
    w->loading = 0;
    w->innermost = KA_NONE;
    for (uint32_t i = thread->first; i < thread->first + thread->count && !w->p->no_memory; i++) {
        if (slices[i].start_ns > w->p->end_ns)
            break;
        if (slices[i].start_ns < w->p->start_ns)
            continue;
        while (w->ends.count && slices[w->ends.data[0]].end_ns <= slices[i].start_ns &&
               slices[i].parent != w->ends.data[0])
            leave_slice(w);
        enter_slice(w, i);
    }
    while (w->ends.count && !w->p->no_memory)
        leave_slice(w);
}

/* ---- which threads ---- */

/* What a thread has done for the program. Annotations and functions of Python do not count: threads
 * that wait have these, too. */
typedef struct thread_use {
    uint32_t operators, calls, launches;
    bool has_steps;
} thread_use;

/* Counts by thread. NULL: out of memory. */
static thread_use *find_uses(const ka_dataset *s)
{
    thread_use *uses = calloc((size_t)s->thread_count + 1, sizeof *uses);
    for (uint32_t i = 0; uses && i < s->slice_count; i++) {
        const ka_slice *slice = &s->slices[i];
        thread_use *use = &uses[slice->thread];
        use->operators += slice->kind == KINETO_KIND_CPU_OP;
        use->calls += kt_kind_is_launch(slice->kind);
        use->launches += slice->work_count > 0;
    }
    for (uint32_t i = 0; uses && i < s->step_count; i++)
        if (s->steps[i].slice != KA_NONE)
            uses[s->slices[s->steps[i].slice].thread].has_steps = true;
    return uses;
}

/* Threads that only make calls and launch nothing are watchdogs, for example, that poll events. Where
 * nothing runs on a device, calls are all that some programs have. */
static bool does_work(const ka_dataset *s, const thread_use *use)
{
    return use->has_steps || use->operators || use->launches || (use->calls && !s->work_count);
}

/* How much a thread does, to compare threads. */
static uint64_t count_uses(const thread_use *use) { return (uint64_t)use->operators + use->calls; }

/* The thread of the process that does most. */
static bool is_main(const ka_dataset *s, const thread_use *uses, uint32_t thread)
{
    for (uint32_t i = 0; i < s->thread_count; i++) {
        uint64_t other = count_uses(&uses[i]), own = count_uses(&uses[thread]);
        if (s->threads[i].process == s->threads[thread].process &&
            (other > own || (other == own && i < thread)))
            return false;
    }
    return true;
}

/* With steps the path ends with them, or with work of a device; of a window that is a range, also with
 * the thread of this range. */
static bool ends_path(const ka_path *p, const thread_use *uses, uint32_t thread)
{
    return uses[thread].has_steps || thread == p->window_thread ||
           (!p->has_steps && is_main(p->s, uses, thread));
}

/* Threads without operators, launches and steps (monitors, watchdogs, threads that wait) neither begin
 * nor end a path, unless all are such. */
static bool choose_threads(const ka_path *p, const thread_use *uses, uint8_t *chosen)
{
    bool any = false;
    for (uint32_t i = 0; i < p->s->thread_count; i++) {
        chosen[i] = does_work(p->s, &uses[i]) || i == p->window_thread;
        any |= chosen[i];
    }
    return any;
}

/* The window begins with the first activity of a chosen thread or device. */
static void begin_with_chosen(ka_path *p, const uint8_t *chosen)
{
    int64_t start = p->s->work_count ? p->s->work[p->s->by_time[0]].start_ns : INT64_MAX;
    for (uint32_t i = 0; i < p->s->thread_count; i++)
        if (chosen[i])
            start = KB_MIN(start, p->s->slices[p->s->threads[i].first].start_ns);
    p->start_ns = KB_MAX(p->start_ns, start == INT64_MAX ? p->start_ns : start);
}

/* Node 0 is the beginning of the window; the nodes of chosen threads follow, thread by thread. */
static void walk_threads(walk *w, const thread_use *uses, uint8_t *chosen)
{
    ka_path *p = w->p;
    bool any = choose_threads(p, uses, chosen);
    for (uint32_t i = 0; i < p->s->thread_count; i++)
        p->has_steps |= uses[i].has_steps;
    if (any)
        begin_with_chosen(p, chosen);
    p->no_memory |= !kb_vec_push(&p->nodes, (ka_node){.ns = p->start_ns});
    for (uint32_t i = 0; i < p->s->thread_count && !p->no_memory; i++) {
        w->ends_path = !any || ends_path(p, uses, i);
        if (!any || chosen[i])
            walk_thread(w, &p->s->threads[i]);
    }
}

/* ---- nodes of devices ----------------------------------------------------------------------------------- */

/* Work in the window has nodes: by its launch, or by its time if that is not known. */
static bool has_work(const ka_path *p, const ka_work *w)
{
    if (w->call != KA_NONE)
        return p->start_of[w->call] != KA_NONE && w->start_ns >= p->start_ns;
    return w->start_ns >= p->start_ns && w->start_ns <= p->end_ns;
}

/* The end of a work is the node after its start. */
static void add_work_nodes(ka_path *p)
{
    for (uint32_t i = 0; i < p->s->work_count && !p->no_memory; i++) {
        const ka_work *w = &p->s->work[i];
        if (!has_work(p, w))
            continue;
        p->work_start[i] = (uint32_t)p->nodes.count;
        p->no_memory |=
            !kb_vec_push(&p->nodes, (ka_node){w->start_ns, i, KA_OF_WORK, false, true}) ||
            !kb_vec_push(&p->nodes, (ka_node){w->end_ns, i, KA_OF_WORK, true, true});
    }
}

/* All entries are KA_NONE. False: out of memory. */
bool ka_path_reserve(ka_path *p)
{
    size_t slices = p->s->slice_count, work = p->s->work_count;
    p->start_of = malloc((slices + 1) * sizeof *p->start_of);
    p->end_of = malloc((slices + 1) * sizeof *p->end_of);
    p->work_start = malloc((work + 1) * sizeof *p->work_start);
    if (!p->start_of || !p->end_of || !p->work_start)
        return false;
    memset(p->start_of, 0xff, (slices + 1) * sizeof *p->start_of);
    memset(p->end_of, 0xff, (slices + 1) * sizeof *p->end_of);
    memset(p->work_start, 0xff, (work + 1) * sizeof *p->work_start);
    return true;
}

/* Threads first, so that their edges are adjacent to their nodes. */
void ka_path_add_nodes(ka_path *p)
{
    const ka_dataset *s = p->s;
    walk w = {.p = p,
              .s = s,
              .class_of = calloc((size_t)s->name_count + 1, 1),
              .around = malloc(((size_t)s->slice_count + 1) * sizeof *w.around)};
    thread_use *uses = find_uses(s);
    uint8_t *chosen = malloc((size_t)s->thread_count + 1);
    p->no_memory |= !w.class_of || !w.around || !uses || !chosen || !ka_path_reserve(p);
    if (!p->no_memory)
        walk_threads(&w, uses, chosen);
    p->host_nodes = (uint32_t)p->nodes.count;
    if (!p->no_memory)
        add_work_nodes(p);
    kb_vec_free(&w.ends);
    free(w.class_of);
    free(w.around);
    free(uses);
    free(chosen);
}

/* ---- order ------------------------------------------------------------------------------------------------ */

/* The state of the topological sort. */
typedef struct ordering {
    uint32_t *first_out, *out; /* edges by src */
    uint32_t *waits;           /* by node: edges of which the src has no place yet */
    uint32_t *order, *place;
    uint32_t done;
} ordering;

/* False: out of memory. */
static bool ordering_create(ordering *o, size_t nodes, size_t edges)
{
    o->first_out = calloc(nodes + 2, sizeof *o->first_out);
    o->out = malloc((edges + 1) * sizeof *o->out);
    o->waits = calloc(nodes + 1, sizeof *o->waits);
    o->order = malloc((nodes + 1) * sizeof *o->order);
    o->place = malloc((nodes + 1) * sizeof *o->place);
    return o->first_out && o->out && o->waits && o->order && o->place;
}

/* All but the places. */
static void ordering_shrink(ordering *o)
{
    free(o->first_out);
    free(o->out);
    free(o->waits);
    free(o->order);
    o->first_out = o->out = o->waits = o->order = NULL;
}

/* Lists the edges by their source, and counts what each node waits for. */
static void group_by_src(const ka_path *p, ordering *o)
{
    for (size_t i = 0; i < p->edges.count; i++) {
        o->first_out[p->edges.data[i].src + 2]++;
        o->waits[p->edges.data[i].dst]++;
    }
    for (size_t i = 2; i < p->nodes.count + 2; i++)
        o->first_out[i] += o->first_out[i - 1];
    for (uint32_t i = 0; i < p->edges.count; i++)
        o->out[o->first_out[p->edges.data[i].src + 1]++] = i;
}

/* The next place in the order belongs to this node. */
static void place_node(ordering *o, uint32_t node)
{
    KB_ASSERT(o->place[node] == KA_NONE);
    o->place[node] = o->done;
    o->order[o->done++] = node;
}

/* By time, then index. */
static int compare_node_times(const void *left, const void *right, void *context)
{
    const ka_node *nodes = context;
    uint32_t a = *(const uint32_t *)left, b = *(const uint32_t *)right;
    if (nodes[a].ns != nodes[b].ns)
        return nodes[a].ns < nodes[b].ns ? -1 : 1;
    return a < b ? -1 : a > b;
}

/* Edges between moments at the same time may go in a circle: these come as they are, and some of
 * their edges are dropped. */
static void place_circles(const ka_path *p, ordering *o)
{
    uint32_t first = o->done;
    for (uint32_t i = 0; i < p->nodes.count; i++)
        if (o->place[i] == KA_NONE)
            o->order[o->done++] = i;
    qsort_r(o->order + first, o->done - first, sizeof *o->order, compare_node_times, p->nodes.data);
    for (uint32_t i = first; i < o->done; i++)
        o->place[o->order[i]] = i;
}

/* Kahn's topological sort. */
static void find_order(const ka_path *p, ordering *o)
{
    group_by_src(p, o);
    memset(o->place, 0xff, p->nodes.count * sizeof *o->place);
    for (uint32_t i = 0; i < p->nodes.count; i++)
        if (!o->waits[i])
            place_node(o, i);
    for (uint32_t i = 0; i < o->done; i++) {
        uint32_t node = o->order[i];
        for (uint32_t e = o->first_out[node]; e < o->first_out[node + 1]; e++) {
            uint32_t dst = p->edges.data[o->out[e]].dst;
            if (--o->waits[dst] == 0)
                place_node(o, dst);
        }
    }
    if (o->done < p->nodes.count)
        place_circles(p, o);
}

/* Puts nodes into their places; steps refer to places from then on. */
static bool move_nodes(ka_path *p, const ordering *o)
{
    ka_node *nodes = malloc((p->nodes.count + 1) * sizeof *nodes);
    if (!nodes)
        return false;
    for (size_t i = 0; i < p->nodes.count; i++)
        nodes[o->place[i]] = p->nodes.data[i];
    free(p->nodes.data);
    p->nodes.data = nodes;
    p->nodes.capacity = p->nodes.count + 1;
    for (size_t i = 0; i < p->steps.count; i++) {
        p->steps.data[i].start = o->place[p->steps.data[i].start];
        p->steps.data[i].end = o->place[p->steps.data[i].end];
    }
    return true;
}

/* Edges refer to places from then on. Those of circles that lead backward are dropped. */
static void rename_edges(ka_path *p, const ordering *o)
{
    size_t kept = 0;
    for (size_t i = 0; i < p->edges.count; i++) {
        ka_edge edge = p->edges.data[i];
        edge.src = o->place[edge.src];
        edge.dst = o->place[edge.dst];
        if (edge.src < edge.dst)
            p->edges.data[kept++] = edge;
    }
    p->edges.count = kept;
}

/* What is not explained comes when it came. */
static bool add_starts(ka_path *p)
{
    if (p->s->definitions->leave_unexplained)
        return !p->no_memory;
    uint8_t *explained = calloc(p->nodes.count + 1, 1);
    if (!explained)
        return false;
    for (size_t i = 0; i < p->edges.count; i++) {
        const ka_edge *e = &p->edges.data[i];
        explained[e->dst] |=
            e->ns >= kb_length_ns(p->nodes.data[e->src].ns, p->nodes.data[e->dst].ns);
    }
    for (uint32_t i = 1; i < p->nodes.count; i++)
        if (!explained[i])
            ka_path_edge(p, (ka_edge){.dst = i,
                                      .ns = kb_length_ns(p->nodes.data[0].ns, p->nodes.data[i].ns),
                                      .owner = KA_NONE,
                                      .type = KA_EDGE_START,
                                      .class = KA_PATH_START});
    free(explained);
    return !p->no_memory;
}

/* Each to its place, without room for all of them once more. */
static void move_edges(ka_edge *edges, uint32_t *places, size_t count)
{
    for (size_t i = 0; i < count; i++)
        while (places[i] != i) {
            uint32_t to = places[i];
            ka_edge edge = edges[to];
            edges[to] = edges[i];
            edges[i] = edge;
            places[i] = places[to];
            places[to] = to;
        }
}

/* A counting sort by destination, in place; fills first_edge. */
static bool sort_edges(ka_path *p)
{
    uint32_t *places = malloc((p->edges.count + 1) * sizeof *places);
    p->first_edge = calloc(p->nodes.count + 2, sizeof *p->first_edge);
    if (!places || !p->first_edge) {
        free(places);
        return false;
    }
    for (size_t i = 0; i < p->edges.count; i++)
        p->first_edge[p->edges.data[i].dst + 1]++;
    for (size_t i = 1; i <= p->nodes.count; i++)
        p->first_edge[i] += p->first_edge[i - 1];
    for (size_t i = p->edges.count; i-- > 0;)
        places[i] = --p->first_edge[p->edges.data[i].dst + 1];
    move_edges(p->edges.data, places, p->edges.count);
    free(places);
    /* Each entry now is where its node's edges begin, one place too far up. */
    memmove(p->first_edge, p->first_edge + 1, p->nodes.count * sizeof *p->first_edge);
    p->first_edge[p->nodes.count] = (uint32_t)p->edges.count;
    return true;
}

/* ---- times ------------------------------------------------------------------------------------------------ */

/* Nodes are in topological order, so one walk suffices. */
void ka_path_times(const ka_path *p, const int64_t *weights, int64_t *times)
{
    for (uint32_t i = 0; i < p->nodes.count; i++) {
        int64_t latest = i ? INT64_MIN : 0;
        for (uint32_t e = p->first_edge[i]; e < p->first_edge[i + 1]; e++) {
            const ka_edge *edge = &p->edges.data[e];
            KB_ASSERT(edge->dst == i && edge->src < i);
            int64_t weight = weights ? weights[e] : KB_MAX(edge->ns, 0);
            int64_t ns = ka_add_ns(times[edge->src], weight);
            latest = KB_MAX(latest, ns);
        }
        times[i] = KB_MAX(latest, 0);
    }
}

/* Walks backward: the latest time at which a node does not lengthen the whole. */
static void find_latest(ka_path *p)
{
    for (uint32_t i = 0; i < p->nodes.count; i++)
        p->latest[i] = p->length_ns;
    for (size_t e = p->edges.count; e-- > 0;) {
        const ka_edge *edge = &p->edges.data[e];
        int64_t ns = kb_length_ns(edge->ns, p->latest[edge->dst]);
        p->latest[edge->src] = KB_MIN(p->latest[edge->src], ns);
    }
}

/* Of several edges that determine the time of a node the one that begins last explains it best. */
static uint32_t edge_that_counts(const ka_path *p, uint32_t node)
{
    uint32_t best = p->first_edge[node];
    for (uint32_t e = best + 1; e < p->first_edge[node + 1]; e++) {
        const ka_edge *a = &p->edges.data[e], *b = &p->edges.data[best];
        int64_t at = ka_add_ns(p->time[a->src], KB_MAX(a->ns, 0)),
                then = ka_add_ns(p->time[b->src], KB_MAX(b->ns, 0));
        if (at > then || (at == then && !p->s->definitions->first_of_equal_paths &&
                          p->time[a->src] > p->time[b->src]))
            best = e;
    }
    return best;
}

/* Walks back from the last node, each time along the edge that determined the time. */
static void mark_path(ka_path *p)
{
    p->start = p->last;
    while (p->first_edge[p->start] < p->first_edge[p->start + 1]) {
        ka_edge *edge = &p->edges.data[edge_that_counts(p, p->start)];
        edge->on_path = true;
        p->start = edge->src;
    }
}

/* The latest moment that may be the last one. */
static uint32_t find_last(const ka_path *p)
{
    uint32_t last = 0;
    for (uint32_t i = 0; i < p->nodes.count; i++)
        if (p->nodes.data[i].may_be_last &&
            (p->time[i] > p->time[last] ||
             (p->time[i] == p->time[last] && !p->s->definitions->first_of_equal_paths)))
            last = i;
    return last;
}

int64_t ka_path_length(const ka_path *p, const int64_t *times)
{
    int64_t length = 0;
    for (size_t i = 0; i < p->nodes.count; i++)
        if (p->nodes.data[i].may_be_last)
            length = KB_MAX(length, times[i]);
    return length;
}

/* Times, the last node, latest times, and the path. */
static bool compute_path(ka_path *p)
{
    size_t nodes = p->nodes.count;
    p->time = malloc((nodes + 1) * sizeof *p->time);
    p->latest = malloc((nodes + 1) * sizeof *p->latest);
    if (!p->time || !p->latest)
        return false;
    ka_path_times(p, NULL, p->time);
    p->last = find_last(p);
    p->length_ns = p->time[p->last];
    find_latest(p);
    mark_path(p);
    return true;
}

/* Orders nodes and edges, adds edges for nodes without a cause, and computes the path. The
 * indexes of slices and work are freed: they are valid only while the graph is built. */
kineto_status ka_path_finish(ka_path *p, kineto_error *err)
{
    ordering o = {0};
    free(p->start_of);
    free(p->end_of);
    free(p->work_start);
    p->start_of = p->end_of = p->work_start = NULL;
    bool ok = !p->no_memory && add_starts(p) && ordering_create(&o, p->nodes.count, p->edges.count);
    if (ok) {
        find_order(p, &o);
        ordering_shrink(&o);
        ok = move_nodes(p, &o);
        rename_edges(p, &o);
    }
    ordering_shrink(&o);
    free(o.place);
    /* Again, for nodes of which edges were dropped. */
    ok = ok && add_starts(p) && sort_edges(p) && compute_path(p);
    return ok ? KINETO_OK : kb_fail_memory(err, NULL);
}
