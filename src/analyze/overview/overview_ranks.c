/* Orders ranks by what they make others wait for. Of ranks that wait for one another, durations differ by the errors of
 * clocks only, and say nothing about which of them is slow. */
#include "analyze/overview/overview.h"
#include "analyze/ranks/rank_set.h"
#include "analyze/ranks/rank_skew.h"

/* What a rank costs the others, and its place among all ranks by that. */
typedef struct ka_rank_weight {
    int64_t rank, saved_ns, wait_ns;
    uint32_t place;
} ka_rank_weight;

/* The largest savings first, then those that wait least: the others wait for them. */
static int compare_weights(const void *left, const void *right)
{
    const ka_rank_weight *a = left, *b = right;
    if (a->saved_ns != b->saved_ns)
        return a->saved_ns < b->saved_ns ? 1 : -1;
    if (a->wait_ns != b->wait_ns)
        return a->wait_ns < b->wait_ns ? -1 : 1;
    return (a->rank > b->rank) - (a->rank < b->rank);
}

/* For the search by number. */
static int compare_ranks(const void *left, const void *right)
{
    const ka_rank_weight *a = left, *b = right;
    return (a->rank > b->rank) - (a->rank < b->rank);
}

/* Adds up waiting over groups, and savings over causes. False: out of memory. */
static bool weigh_ranks(const ka_rank_view *v, ka_rank_weight *ranks)
{
    ka_rank_skews skews;
    bool ok = ka_find_rank_skews(&v->model, &skews);
    for (uint32_t r = 0; r < v->model.rank_count; r++)
        ranks[r] = (ka_rank_weight){.rank = v->model.facts[r]->rank};
    for (size_t i = 0; ok && i < skews.ranks.count; i++)
        ranks[skews.ranks.data[i].rank].wait_ns += skews.ranks.data[i].times.wait_ns;
    for (size_t i = 0; i < v->causes.list.count; i++)
        if (v->causes.list.data[i].rank != KA_NONE)
            ranks[v->causes.list.data[i].rank].saved_ns += v->causes.list.data[i].saved_ns;
    ka_rank_skews_free(&skews);
    return ok;
}

bool ka_find_rank_places(const kineto_overview *o, ka_rank_places *out)
{
    const kineto_analysis *across = o->found->across;
    const ka_rank_view *v = across ? ka_view_several_ranks(across->ranks) : NULL;
    *out = (ka_rank_places){0};
    if (!v || !v->is_compared)
        return true;
    out->ranks = malloc((v->model.rank_count + 1) * sizeof *out->ranks);
    if (!out->ranks || !weigh_ranks(v, out->ranks))
        return false;
    out->count = v->model.rank_count;
    qsort(out->ranks, out->count, sizeof *out->ranks, compare_weights);
    for (uint32_t i = 0; i < out->count; i++)
        out->ranks[i].place = i;
    qsort(out->ranks, out->count, sizeof *out->ranks, compare_ranks);
    return true;
}

void ka_rank_places_free(ka_rank_places *p)
{
    free(p->ranks);
    *p = (ka_rank_places){0};
}

uint32_t ka_place_of_rank(const ka_rank_places *p, int64_t rank)
{
    ka_rank_weight key = {.rank = rank};
    const ka_rank_weight *found = p->count ? bsearch(&key, p->ranks, p->count, sizeof key, compare_ranks) : NULL;
    return found ? found->place : UINT32_MAX;
}
