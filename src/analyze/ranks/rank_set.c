/* Keeps the facts of ranks until they are compared.
 *
 * Ranks are added as traces are read; the first request makes the view of all of them, and adding another rank drops
 * it. */
#include "analyze/ranks/rank_set.h"

static void forget_view(ka_rank_set *set)
{
    if (!set->view)
        return;
    ka_rank_view_free(set->view);
    free(set->view);
    set->view = NULL;
}

static bool push_rank(ka_rank_set **set, ka_rank_facts *facts, const ka_rank_source *source)
{
    if (!*set)
        *set = calloc(1, sizeof **set);
    if (!*set)
        return false;
    forget_view(*set);
    return kb_vec_push(&(*set)->ranks, ((ka_set_rank){facts, *source}));
}

bool ka_rank_set_put_source(ka_rank_set **set, ka_rank_facts *facts, const ka_rank_source *source)
{
    if (push_rank(set, facts, source))
        return true;
    ka_rank_facts_release(facts);
    return false;
}

bool ka_rank_set_put(ka_rank_set **set, ka_rank_facts *facts)
{
    ka_rank_source source = ka_rank_source_of(facts);
    return ka_rank_set_put_source(set, facts, &source);
}

bool ka_rank_set_add(ka_rank_set **to, const ka_rank_set *from)
{
    for (size_t i = 0; from && i < from->ranks.count; i++)
        if (!ka_rank_set_put_source(to, ka_rank_facts_retain(from->ranks.data[i].facts), &from->ranks.data[i].source))
            return false;
    return true;
}

void ka_rank_set_destroy(ka_rank_set *set)
{
    if (!set)
        return;
    forget_view(set);
    for (size_t i = 0; i < set->ranks.count; i++)
        ka_rank_facts_release(set->ranks.data[i].facts);
    kb_vec_free(&set->ranks);
    free(set);
}

/* Traces, then dumps; by rank; a rank whose traces came apart by time. */
static int compare_facts(const void *left, const void *right)
{
    const ka_rank_facts *a = ((const ka_set_rank *)left)->facts, *b = ((const ka_set_rank *)right)->facts;
    if (a->is_dump != b->is_dump)
        return a->is_dump ? 1 : -1;
    if (a->rank != b->rank)
        return a->rank < b->rank ? -1 : 1;
    return (a->start_ns > b->start_ns) - (a->start_ns < b->start_ns);
}

/* A second source: dumps know the last collectives of each rank, also those that never began. */
static kineto_status compare_dumps(const ka_rank_source *sources, uint32_t count, ka_rank_view *v, kineto_error *err)
{
    ka_rank_view dumps;
    kineto_status status = ka_compare_ranks(sources, count, 0, &dumps, err);
    v->dumps = dumps.model;
    v->in_dumps.data = dumps.damage.data;
    v->in_dumps.count = dumps.damage.count;
    v->in_dumps.capacity = dumps.damage.capacity;
    ka_rank_causes_free(&dumps.causes);
    return status;
}

#define SET_BYTES ((size_t)1 << 30) /* the rows are in memory already: it need not be bounded as tightly */

/* Traces are compared with traces; without traces, dumps are. With both, dumps are compared by themselves. */
static kineto_status compare_set(ka_rank_set *set, ka_rank_source *sources)
{
    uint32_t count = (uint32_t)set->ranks.count, traces = 0;
    ka_rank_view *v = set->view;
    for (uint32_t i = 0; i < count; i++) {
        sources[i] = set->ranks.data[i].source;
        traces += !set->ranks.data[i].facts->is_dump;
    }
    kineto_status status = ka_compare_ranks(sources, traces ? traces : count,
                                            set->memory_bytes ? set->memory_bytes : SET_BYTES, v, &set->error);
    v->is_of_dumps = !traces;
    return status || !traces || traces == count ? status : compare_dumps(sources + traces, count - traces, v, &set->error);
}

const ka_rank_view *ka_rank_set_view(ka_rank_set *set)
{
    if (set->view)
        return set->view;
    if (set->ranks.count)
        qsort(set->ranks.data, set->ranks.count, sizeof *set->ranks.data, compare_facts);
    ka_rank_source *sources = malloc((set->ranks.count + 1) * sizeof *sources);
    set->view = sources ? calloc(1, sizeof *set->view) : NULL;
    if (set->view && compare_set(set, sources))
        forget_view(set);
    free(sources);
    return set->view;
}

const ka_rank_view *ka_view_several_ranks(ka_rank_set *set)
{
    return set && set->ranks.count > 1 ? ka_rank_set_view(set) : NULL;
}
