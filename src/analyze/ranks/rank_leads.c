/* Finds the rank with the largest excess of each step, and the group with the slowest transfers. A cause that leads in
 * few steps is not one of the whole run: reports say in how many it leads ("What makes the run longer" in ranks.md). */
#include "analyze/ranks/rank_leads.h"

/* NULL: out of memory. */
static ka_step_leader *find_leader(ka_leads *l, int kind, uint32_t step)
{
    bool created;
    uint64_t *at = kb_map_insert(&l->steps, step, l->steps.count, &created);
    for (int i = 0; at && created && i < KA_LEADS_COUNT; i++)
        if (!kb_vec_push(&l->of_kind[i], (ka_step_leader){.of = KA_NONE}))
            return NULL;
    return at ? &l->of_kind[kind].data[*at] : NULL;
}

bool ka_leads_offer(ka_leads *l, int kind, uint32_t step, double excess, uint32_t rank)
{
    ka_step_leader *leader = find_leader(l, kind, step);
    if (leader && excess > leader->excess)
        *leader = (ka_step_leader){excess, rank};
    return leader != NULL;
}

bool ka_leads_add_transfer(ka_leads *l, uint32_t step, double slow, uint32_t group)
{
    uint64_t key[] = {group, step};
    bool created;
    uint64_t *at = kb_map_insert(&l->places, kb_hash(key, sizeof key), l->sums.count, &created);
    if (!at || (created && !kb_vec_push(&l->sums, 0)))
        return false;
    return ka_leads_offer(l, KA_LEADS_LINK, step, l->sums.data[*at] += slow, group);
}

uint32_t ka_leads_of(const ka_leads *l, int kind, uint32_t of)
{
    uint32_t count = 0;
    for (size_t i = 0; i < l->of_kind[kind].count; i++)
        count += l->of_kind[kind].data[i].of == of;
    return count;
}

uint32_t ka_leads_step_count(const ka_leads *l) { return (uint32_t)l->steps.count; }

void ka_leads_free(ka_leads *l)
{
    kb_map_free(&l->steps);
    for (int i = 0; i < KA_LEADS_COUNT; i++)
        kb_vec_free(&l->of_kind[i]);
    kb_map_free(&l->places);
    kb_vec_free(&l->sums);
    *l = (ka_leads){0};
}
