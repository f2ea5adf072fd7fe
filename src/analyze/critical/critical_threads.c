/* Threads that wait for another one. A program that calls backward() has nothing to do until the
 * threads of the autograd engine have done it: in a gap of its thread lies all of a burst of
 * theirs. */
#include "analyze/critical/critical.h"

#define MIN_GAP_NS 20000

/* Outermost range of a thread, by its nodes. */
typedef struct burst_part {
    uint32_t start, end;
} burst_part;

/* Nodes by thread, and the outermost ranges of the worker under way. */
typedef struct handing {
    ka_path *p;
    const ka_dataset *s;
    uint32_t *first_node; /* by thread, and one past the last; the nodes of a thread are adjacent */
    uint8_t *is_worker;   /* by thread */
    KB_VEC(burst_part) parts;
} handing;

/* ---- which threads -------------------------------------------------------------------------------------- */

/* The first node of each thread. Nodes of threads follow each other in the order of threads. */
static void find_nodes(handing *h)
{
    uint32_t thread = 0;
    for (uint32_t i = 1; i < h->p->host_nodes; i++) {
        uint32_t now = h->s->slices[h->p->nodes.data[i].index].thread;
        while (thread <= now)
            h->first_node[thread++] = i;
    }
    while (thread <= h->s->thread_count)
        h->first_node[thread++] = h->p->host_nodes;
}

/* Threads with outermost operators of the autograd engine; each name is matched once. False: none. */
static bool find_workers(handing *h)
{
    uint8_t *known = calloc((size_t)h->s->name_count + 1, 1);
    bool any = false;
    for (uint32_t i = 0; known && i < h->s->slice_count; i++) {
        const ka_slice *slice = &h->s->slices[i];
        if (slice->kind != KINETO_KIND_CPU_OP || slice->depth)
            continue;
        if (!known[slice->name]) {
            kineto_string name = ka_name(h->s, slice->name);
            known[slice->name] =
                kb_string_contains(name, "autograd::engine::") || kb_string_contains(name, "Backward")
                    ? 2
                    : 1;
        }
        if (known[slice->name] == 2) {
            h->is_worker[slice->thread] = 1;
            any = true;
        }
    }
    h->p->no_memory |= !known;
    free(known);
    return any;
}

/* The thread that hands over: the one with the steps, else the busiest. */
static uint32_t giver_of(const handing *h, uint32_t worker)
{
    uint32_t best = KA_NONE;
    for (uint32_t i = 0; i < h->s->step_count; i++)
        if (h->s->steps[i].slice != KA_NONE) {
            uint32_t thread = h->s->slices[h->s->steps[i].slice].thread;
            if (h->s->threads[thread].process == h->s->threads[worker].process)
                return thread == worker ? KA_NONE : thread;
        }
    for (uint32_t i = 0; i < h->s->thread_count; i++)
        if (!h->is_worker[i] && h->s->threads[i].process == h->s->threads[worker].process &&
            (best == KA_NONE || h->s->threads[i].count > h->s->threads[best].count))
            best = i;
    return best;
}

/* ---- bursts in gaps --------------------------------------------------------------------------------------- */

/* The outermost ranges of a worker, as pairs of nodes. */
static void find_parts(handing *h, uint32_t thread)
{
    uint32_t depth = 0, start = 0;
    h->parts.count = 0;
    for (uint32_t i = h->first_node[thread]; i < h->first_node[thread + 1]; i++) {
        if (!h->p->nodes.data[i].is_end && depth++ == 0)
            start = i;
        if (h->p->nodes.data[i].is_end && depth && --depth == 0)
            h->p->no_memory |= !kb_vec_push(&h->parts, (burst_part){start, i});
    }
}

static int64_t ns_of(const handing *h, uint32_t node) { return h->p->nodes.data[node].ns; }

/* An edge from one thread to another. The thread of `to` was idle before it, so its own edge
 * takes no time. */
static void add_hand_over_edge(handing *h, uint32_t from, uint32_t to)
{
    int64_t ns = kb_length_ns(ns_of(h, from), ns_of(h, to));
    if (ns < 0)
        return;
    ka_path_edge(h->p, (ka_edge){.src = from,
                                 .dst = to,
                                 .ns = ns,
                                 .owner = KA_NONE,
                                 .type = KA_EDGE_HAND_OVER,
                                 .class = KA_PATH_HAND_OVER});
    KB_ASSERT(h->p->edges.data[to - 1].dst == to);
    h->p->edges.data[to - 1].ns = 0; /* it waited in between */
}

/* The last node of the thread that is not later. */
static uint32_t find_last_node_until(const handing *h, uint32_t thread, int64_t ns)
{
    uint32_t after = h->first_node[thread];
    KB_LOWER_BOUND(after, h->first_node[thread + 1], ns_of(h, after) <= ns);
    return after - 1;
}

/* What the worker did in the gap before `node`, its parts from *at on; *at moves past them. It
 * began there if it had nothing to do before; and what ended the gap is the last that it did in it,
 * the end of all, or a task for the thread that waits. */
static void link_gap(handing *h, uint32_t worker, uint32_t node, size_t *at)
{
    int64_t from = ns_of(h, node - 1), to = ns_of(h, node);
    const burst_part *parts = h->parts.data;
    while (*at < h->parts.count && ns_of(h, parts[*at].end) <= from)
        ++*at;
    size_t first = *at, end = first;
    while (end < h->parts.count && ns_of(h, parts[end].start) < to)
        end++;
    *at = end > first ? end - 1 : end;
    if (end == first || kb_length_ns(from, to) < MIN_GAP_NS)
        return;
    int64_t began = KB_MAX(from, ns_of(h, parts[first].start)),
            ended = KB_MIN(to, ns_of(h, parts[end - 1].end));
    if (kb_length_ns(began, ended) < kb_length_ns(from, to) / 2)
        return;
    if (ns_of(h, parts[first].start) >= from)
        add_hand_over_edge(h, node - 1, parts[first].start);
    add_hand_over_edge(h, find_last_node_until(h, worker, to), node);
}

/* Looks for bursts of the worker in every gap of the thread that hands over. */
static void link_worker(handing *h, uint32_t worker)
{
    uint32_t giver = giver_of(h, worker);
    size_t at = 0;
    if (giver == KA_NONE)
        return;
    find_parts(h, worker);
    for (uint32_t i = h->first_node[giver] + 1; i < h->first_node[giver + 1]; i++)
        link_gap(h, worker, i, &at);
}

void ka_path_add_hand_over(ka_path *p)
{
    handing h = {.p = p, .s = p->s};
    h.first_node = calloc((size_t)p->s->thread_count + 1, sizeof *h.first_node);
    h.is_worker = calloc((size_t)p->s->thread_count + 1, 1);
    p->no_memory |= !h.first_node || !h.is_worker;
    if (!p->no_memory && p->host_nodes > 1 && find_workers(&h)) {
        find_nodes(&h);
        for (uint32_t i = 0; i < p->s->thread_count && !p->no_memory; i++)
            if (h.is_worker[i])
                link_worker(&h, i);
    }
    kb_vec_free(&h.parts);
    free(h.first_node);
    free(h.is_worker);
}
