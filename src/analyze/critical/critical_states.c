/* Host time of the critical path by the states of its threads: a thread that is in an operator may have no
 * CPU, or be blocked. Only edges whose recorded time is all theirs are divided. */
#include "analyze/critical/critical.h"

bool ka_path_find_watched(ka_path *p)
{
    const ka_watched *w = ka_dataset_watched(p->s);
    if (!w || !w->states.count)
        return w != NULL;
    p->watched_of = malloc(((size_t)p->s->thread_count + 1) * sizeof *p->watched_of);
    for (uint32_t i = 0; p->watched_of && i < p->s->thread_count; i++)
        p->watched_of[i] = ka_watched_find(w, p->s->threads[i].process, p->s->threads[i].id);
    return p->watched_of != NULL;
}

/* The watched thread that an edge leads along; KA_NONE: none. */
static uint32_t thread_of_edge(const ka_path *p, const ka_edge *e)
{
    const ka_node *from = &p->nodes.data[e->src], *to = &p->nodes.data[e->dst];
    if (!p->watched_of || e->type != KA_EDGE_HOST || from->of != KA_OF_SLICE ||
        to->of != KA_OF_SLICE || kb_length_ns(from->ns, to->ns) != e->ns)
        return KA_NONE;
    uint32_t thread = p->s->slices[to->index].thread;
    return p->s->slices[from->index].thread == thread ? p->watched_of[thread] : KA_NONE;
}

bool ka_path_split(const ka_path *p, const ka_edge *e, int64_t ns[KA_STATE_COUNT])
{
    uint32_t thread = thread_of_edge(p, e);
    if (thread == KA_NONE)
        return false;
    const ka_watched *w = ka_dataset_watched(p->s);
    const ka_watched_thread *t = &w->threads.data[thread];
    int64_t start_ns = p->nodes.data[e->src].ns, end_ns = p->nodes.data[e->dst].ns;
    memset(ns, 0, KA_STATE_COUNT * sizeof *ns);
    for (uint32_t i = ka_watched_state_after(w, thread, start_ns);
         i < t->first + t->count && w->states.data[i].start_ns < end_ns; i++) {
        const ka_state *s = &w->states.data[i];
        if (s->state != KA_STATE_RUNNING)
            ns[s->state] = ka_add_ns(ns[s->state], kb_length_ns(KB_MAX(s->start_ns, start_ns),
                                                                KB_MIN(s->end_ns, end_ns)));
    }
    ns[KA_STATE_WAITING] = KB_MIN(ns[KA_STATE_WAITING], e->ns);
    ns[KA_STATE_BLOCKED] = KB_MIN(ns[KA_STATE_BLOCKED], e->ns - ns[KA_STATE_WAITING]);
    ns[KA_STATE_RUNNING] = e->ns - ns[KA_STATE_WAITING] - ns[KA_STATE_BLOCKED];
    return true;
}

void ka_path_class_sums(const ka_path *p, int64_t sums[KA_MAX_PATH_CLASSES])
{
    KB_ASSERT(ka_path_class_count(p) <= KA_MAX_PATH_CLASSES);
    memset(sums, 0, KA_MAX_PATH_CLASSES * sizeof *sums);
    for (size_t i = 0; i < p->edges.count; i++) {
        const ka_edge *e = &p->edges.data[i];
        int64_t ns[KA_STATE_COUNT] = {e->ns};
        if (!e->on_path)
            continue;
        (void)ka_path_split(p, e, ns);
        sums[e->class] = ka_add_ns(sums[e->class], ns[KA_STATE_RUNNING]);
        sums[KA_PATH_NO_CPU] = ka_add_ns(sums[KA_PATH_NO_CPU], ns[KA_STATE_WAITING]);
        sums[KA_PATH_BLOCKED] = ka_add_ns(sums[KA_PATH_BLOCKED], ns[KA_STATE_BLOCKED]);
    }
}
