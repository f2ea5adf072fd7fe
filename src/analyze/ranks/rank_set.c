/* Keeps the facts of ranks until they are compared. */
#include "analyze/ranks/rank_set.h"

static void forget_view(ka_rank_set *set)
{
    if (!set->view)
        return;
    ka_rank_view_free(set->view);
    free(set->view);
    set->view = NULL;
}

static bool push_rank(ka_rank_set **set, ka_rank_facts *facts)
{
    if (!*set)
        *set = calloc(1, sizeof **set);
    if (!*set)
        return false;
    forget_view(*set);
    return kb_vec_push(&(*set)->ranks, facts);
}

bool ka_rank_set_put(ka_rank_set **set, ka_rank_facts *facts)
{
    if (push_rank(set, facts))
        return true;
    ka_rank_facts_release(facts);
    return false;
}

bool ka_rank_set_add(ka_rank_set **to, const ka_rank_set *from)
{
    for (size_t i = 0; from && i < from->ranks.count; i++)
        if (!ka_rank_set_put(to, ka_rank_facts_retain(from->ranks.data[i])))
            return false;
    return true;
}

void ka_rank_set_destroy(ka_rank_set *set)
{
    if (!set)
        return;
    forget_view(set);
    for (size_t i = 0; i < set->ranks.count; i++)
        ka_rank_facts_release(set->ranks.data[i]);
    kb_vec_free(&set->ranks);
    free(set);
}

/* By rank; a rank whose traces came apart by time. */
static int compare_facts(const void *left, const void *right)
{
    const ka_rank_facts *a = *(ka_rank_facts *const *)left, *b = *(ka_rank_facts *const *)right;
    if (a->rank != b->rank)
        return a->rank < b->rank ? -1 : 1;
    return (a->start_ns > b->start_ns) - (a->start_ns < b->start_ns);
}

const ka_rank_view *ka_rank_set_view(ka_rank_set *set)
{
    if (set->view)
        return set->view;
    if (set->ranks.count)
        qsort(set->ranks.data, set->ranks.count, sizeof *set->ranks.data, compare_facts);
    ka_rank_source *sources = malloc((set->ranks.count + 1) * sizeof *sources);
    set->view = sources ? calloc(1, sizeof *set->view) : NULL;
    for (size_t i = 0; set->view && i < set->ranks.count; i++)
        sources[i] = ka_rank_source_of(set->ranks.data[i]);
    if (set->view && ka_compare_ranks(sources, (uint32_t)set->ranks.count, set->memory_bytes, set->view, NULL))
        forget_view(set);
    free(sources);
    return set->view;
}
