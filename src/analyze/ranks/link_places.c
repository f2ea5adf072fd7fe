/* Lists where slow transfers may have their cause, and finds the fewest places that explain them.
 *
 * Places overlap: a group is a place, and it is part of those of its process group, of the links between its hosts, and
 * of the hosts themselves. "Where a link is slow" in ranks.md has the rules by which one is named. */
#include "analyze/ranks/link_places.h"

typedef struct place_pair {
    uint32_t place, group;
} place_pair;

typedef struct listing {
    const ka_rank_model *m;
    ka_link_places *p;
    kb_map at;               /* kind and ends → index of the list */
    KB_VEC(place_pair) pairs;
    uint32_t *rank_first, *ranks; /* by group: its ranks */
    uint32_t *stamp;         /* by clock: the group that was last found to have it, and 1 */
    uint32_t used;           /* of p->hosts */
} listing;

/* ---- ranks and hosts of groups --------------------------------------------------------------- */

/* Sorts memberships by group, so that the ranks of a group lie side by side, ascending. */
static bool list_group_ranks(listing *l)
{
    const ka_rank_model *m = l->m;
    size_t groups = m->groups.count;
    l->rank_first = calloc(groups + 3, sizeof *l->rank_first);
    l->ranks = malloc(((size_t)m->global_base[m->rank_count] + 1) * sizeof *l->ranks);
    if (!l->rank_first || !l->ranks)
        return false;
    for (uint32_t i = 0; i < m->global_base[m->rank_count]; i++)
        l->rank_first[m->global[i] + 2]++;
    for (size_t i = 2; i < groups + 2; i++)
        l->rank_first[i] += l->rank_first[i - 1];
    for (uint32_t r = 0; r < m->rank_count; r++)
        for (uint32_t i = m->global_base[r]; i < m->global_base[r + 1]; i++)
            l->ranks[l->rank_first[m->global[i] + 1]++] = r;
    return true;
}

/* The hosts of each group, once each, in the order of its ranks. */
static bool list_group_hosts(listing *l)
{
    const ka_rank_model *m = l->m;
    size_t groups = m->groups.count;
    l->p->host_first = malloc((groups + 1) * sizeof *l->p->host_first);
    l->p->hosts = malloc(((size_t)m->global_base[m->rank_count] + 1) * sizeof *l->p->hosts);
    l->stamp = calloc(m->clocks.count + 1, sizeof *l->stamp);
    if (!l->p->host_first || !l->p->hosts || !l->stamp)
        return false;
    for (uint32_t g = 0; g <= groups; g++) {
        l->p->host_first[g] = l->used;
        for (uint32_t i = l->rank_first[g]; g < groups && i < l->rank_first[g + 1]; i++) {
            uint32_t clock = m->clock_of[l->ranks[i]];
            if (l->stamp[clock] != g + 1)
                l->p->hosts[l->used++] = clock;
            l->stamp[clock] = g + 1;
        }
    }
    return true;
}

/* ---- places ---------------------------------------------------------------------------------- */

/* Adds a group to a place, which is made if it is new. Groups come in ascending order, so that those of a place do, too.
 * False: out of memory. */
static bool add_place(listing *l, ka_place_kind kind, uint32_t a, uint32_t b, uint32_t group)
{
    uint64_t key[] = {kind, a, b};
    bool created;
    uint64_t *at = kb_map_insert(&l->at, kb_hash(key, sizeof key), l->p->list.count, &created);
    if (!at || (created && !kb_vec_push(&l->p->list, (ka_link_place){.kind = kind, .a = a, .b = b})))
        return false;
    ka_link_place *place = &l->p->list.data[*at];
    if (place->count && l->pairs.count && place->first == group + 1)
        return true; /* it has this group already: a ring may join two hosts twice */
    place->first = group + 1;
    place->count++;
    return kb_vec_push(&l->pairs, (place_pair){(uint32_t)*at, group});
}

/* Messages have a group of the model for each pair and direction; their process group is known by its name. Traces without
 * names have no such places. @param names  name → its first group. */
static bool add_process_group(listing *l, uint32_t group, kb_map *names)
{
    const ka_rank_group *g = &l->m->groups.data[group];
    uint64_t key = kb_hash_seeded(kb_hash(g->name.data, g->name.size), g->description.data, g->description.size);
    uint64_t *first = kb_map_insert(names, key, group, NULL);
    return first && (!g->name.size || add_place(l, KA_PLACE_PROCESS_GROUP, (uint32_t)*first, KA_NONE, group));
}

/* Equal for groups of the same hosts, in any order, since hashes are added. */
static uint64_t hash_hosts(const ka_link_places *p, uint32_t group)
{
    uint64_t sum = 0;
    for (uint32_t i = p->host_first[group]; i < p->host_first[group + 1]; i++)
        sum += kb_hash(&p->hosts[i], sizeof p->hosts[i]);
    return sum;
}

/* The link of each pair of hosts that are neighbours in the ring of its ranks, each of its hosts, and all of them. */
static bool add_host_places(listing *l, uint32_t group)
{
    const ka_rank_model *m = l->m;
    uint32_t first = l->rank_first[group], end = l->rank_first[group + 1];
    uint32_t hosts = l->p->host_first[group + 1] - l->p->host_first[group];
    uint64_t set = hash_hosts(l->p, group);
    bool ok = true;
    if (hosts < 2)
        return true;
    if (hosts > 2 && !add_place(l, KA_PLACE_HOST_SET, (uint32_t)set, (uint32_t)(set >> 32), group))
        return false;
    for (uint32_t i = first; i < end && ok; i++) {
        uint32_t a = m->clock_of[l->ranks[i]], b = m->clock_of[l->ranks[i + 1 < end ? i + 1 : first]];
        ok = a == b || add_place(l, KA_PLACE_HOST_PAIR, KB_MIN(a, b), KB_MAX(a, b), group);
    }
    for (uint32_t i = l->p->host_first[group]; i < l->p->host_first[group + 1] && ok; i++)
        ok = add_place(l, KA_PLACE_HOST, l->p->hosts[i], KA_NONE, group);
    return ok;
}

static bool add_places(listing *l)
{
    kb_map names = {0};
    uint32_t groups = (uint32_t)l->m->groups.count;
    bool ok = true;
    for (uint32_t g = 0; g < groups && ok; g++)
        ok = add_place(l, KA_PLACE_GROUP, g, KA_NONE, g);
    for (uint32_t g = 0; g < groups && ok; g++)
        ok = add_process_group(l, g, &names) && add_host_places(l, g);
    kb_map_free(&names);
    return ok;
}

/* Moves groups to their places: `first` and `count` of a place were used for counting until here. */
static bool sort_place_groups(listing *l)
{
    ka_link_places *p = l->p;
    uint32_t before = 0;
    for (size_t i = 0; i < p->list.count; i++) {
        p->list.data[i].first = before;
        before += p->list.data[i].count;
        p->list.data[i].count = 0;
    }
    for (size_t i = 0; i < l->pairs.count; i++)
        if (!kb_vec_push(&p->groups, 0))
            return false;
    for (size_t i = 0; i < l->pairs.count; i++) {
        ka_link_place *place = &p->list.data[l->pairs.data[i].place];
        p->groups.data[place->first + place->count++] = l->pairs.data[i].group;
    }
    return true;
}

bool ka_list_link_places(const ka_rank_model *m, ka_link_places *p)
{
    listing l = {.m = m, .p = p};
    *p = (ka_link_places){0};
    bool ok = list_group_ranks(&l) && list_group_hosts(&l) && add_places(&l) && sort_place_groups(&l);
    p->is_made = ok;
    kb_map_free(&l.at);
    kb_vec_free(&l.pairs);
    free(l.rank_first);
    free(l.ranks);
    free(l.stamp);
    return ok;
}

void ka_link_places_free(ka_link_places *p)
{
    kb_vec_free(&p->list);
    kb_vec_free(&p->groups);
    free(p->host_first);
    free(p->hosts);
    *p = (ka_link_places){0};
}

bool ka_place_has_group(const ka_link_places *p, uint32_t place, uint32_t group)
{
    const uint32_t *groups = ka_place_groups(p, place);
    size_t at = 0, end = p->list.data[place].count;
    KB_LOWER_BOUND(at, end, groups[at] < group);
    return at < p->list.data[place].count && groups[at] == group;
}

bool ka_group_has_host(const ka_link_places *p, uint32_t group, uint32_t clock)
{
    for (uint32_t i = p->host_first[group]; i < p->host_first[group + 1]; i++)
        if (p->hosts[i] == clock)
            return true;
    return false;
}

double ka_place_excess(const ka_link_places *p, uint32_t place, const ka_link_use *use)
{
    double sum = 0;
    for (uint32_t i = 0; i < p->list.data[place].count; i++)
        sum += use[ka_place_groups(p, place)[i]].slow_ns;
    return sum;
}

/* ---- the fewest that explain ----------------------------------------------------------------- */

#define SLOW_SHARE    0.25 /* a group is as slow as the others of its place if it is slower by so much of what is typical */
#define EXCEPT_SHARE  10u  /* one of so many may be not */

/* How much longer the transfers of a group take, as a share of what is usual; 0: they could not be compared. */
static double slowness_of(const ka_link_use *u) { return u->usual_ns > 0 ? u->slow_ns / u->usual_ns : 0; }

/* Are the transfers of all groups of the place slow, as far as they can be compared? The measure is the median slowness
 * of its groups: a group below a fourth of it is as fast as usual, and one in EXCEPT_SHARE groups may be. So a host
 * whose card is slow is a slow place, and a host with one slow group of many is none.
 * @param room for as many values as there are groups. */
static bool is_slow_place(const ka_link_places *p, uint32_t place, const ka_link_use *use, double *room)
{
    const uint32_t *groups = ka_place_groups(p, place);
    size_t count = 0, slow = 0;
    if (p->list.data[place].kind == KA_PLACE_GROUP)
        return use[groups[0]].slow_ns > 0;
    for (uint32_t i = 0; i < p->list.data[place].count; i++)
        if (use[groups[i]].usual_ns > 0)
            room[count++] = slowness_of(&use[groups[i]]);
    if (!count)
        return false;
    qsort(room, count, sizeof *room, kb_compare_doubles);
    double typical = room[count / 2];
    for (size_t i = 0; i < count; i++)
        slow += room[i] >= SLOW_SHARE * typical;
    return typical > 0 && slow >= count - count / EXCEPT_SHARE;
}

/* What a place would explain of what is left, ns. */
static double uncovered_excess(const ka_link_places *p, uint32_t place, const ka_link_use *use, const bool *is_covered)
{
    double sum = 0;
    for (uint32_t i = 0; i < p->list.data[place].count; i++) {
        uint32_t group = ka_place_groups(p, place)[i];
        sum += is_covered[group] ? 0 : use[group].slow_ns;
    }
    return sum;
}

/* KA_NONE: nothing is left. Of places that explain as much, the narrowest. */
static uint32_t find_best_place(const ka_link_places *p, const ka_link_use *use, const bool *is_covered, const bool *is_slow)
{
    uint32_t best = KA_NONE;
    double most = 0;
    for (uint32_t i = 0; i < p->list.count; i++) {
        double excess = is_slow[i] ? uncovered_excess(p, i, use, is_covered) : 0;
        bool is_narrower = best != KA_NONE && excess >= most && p->list.data[i].kind < p->list.data[best].kind;
        if (excess > most || (is_narrower && excess > 0)) {
            most = excess;
            best = i;
        }
    }
    return best;
}

uint32_t ka_explain_slow_links(const ka_link_places *p, const ka_link_use *use, uint32_t group_count, uint32_t *out, uint32_t most)
{
    bool *is_covered = calloc((size_t)group_count + 1, sizeof *is_covered);
    bool *is_slow = calloc(p->list.count + 1, sizeof *is_slow);
    double *room = malloc(((size_t)group_count + 1) * sizeof *room);
    uint32_t count = is_covered && is_slow && room ? 0 : UINT32_MAX;
    for (uint32_t i = 0; !count && i < p->list.count; i++)
        is_slow[i] = is_slow_place(p, i, use, room);
    while (count < most) {
        uint32_t place = find_best_place(p, use, is_covered, is_slow);
        if (place == KA_NONE)
            break;
        for (uint32_t i = 0; i < p->list.data[place].count; i++)
            is_covered[ka_place_groups(p, place)[i]] = true;
        is_slow[place] = false;
        out[count++] = place;
    }
    free(is_covered);
    free(is_slow);
    free(room);
    return count;
}
