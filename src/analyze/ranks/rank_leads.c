/* Finds the rank with the largest excess of each step, and the group with the slowest transfers. */
#include "analyze/ranks/rank_leads.h"

typedef struct leader {
    double excess;
    uint32_t of; /* index of a rank or a group; KA_NONE: none is beyond its like */
    bool is_step; /* some rank has a row in it */
} leader;

typedef struct lead_search {
    const ka_lead_input *in;
    leader *leaders; /* by step */
    double *sums;    /* of one rank, by step */
} lead_search;

static void clear_leaders(lead_search *s)
{
    for (uint32_t i = 0; i < s->in->step_count; i++) {
        s->leaders[i].excess = 0;
        s->leaders[i].of = KA_NONE;
    }
}

static void offer_lead(lead_search *s, uint32_t step, double excess, uint32_t of)
{
    if (excess > s->leaders[step].excess) {
        s->leaders[step].excess = excess;
        s->leaders[step].of = of;
    }
}

static void find_leading_ranks(lead_search *s, ka_cause_kind kind)
{
    const ka_lead_input *in = s->in;
    const ka_rank_model *m = in->m;
    clear_leaders(s);
    for (uint32_t rank = 0; rank < m->rank_count; rank++) {
        memset(s->sums, 0, in->step_count * sizeof *s->sums);
        for (uint32_t row = m->base[rank]; row < m->base[rank + 1]; row++) {
            uint32_t step = ka_model_row(m, row)->step - in->first_step;
            if (step >= in->step_count)
                continue;
            s->sums[step] += in->excess_of(in->context, kind, row);
            s->leaders[step].is_step = true;
        }
        for (uint32_t step = 0; step < in->step_count; step++)
            offer_lead(s, step, s->sums[step], rank);
    }
}

/* Of each group and step the transfers that are slow. */
static bool find_leading_groups(lead_search *s)
{
    const ka_lead_input *in = s->in;
    KB_VEC(double) sums = {0};
    kb_map places = {0};
    bool ok = true;
    clear_leaders(s);
    for (size_t i = 0; ok && i < in->m->instances.count; i++) {
        const ka_instance *x = &in->m->instances.data[i];
        uint32_t step = x->step - in->first_step;
        if (!(in->slow[i] > 0) || step >= in->step_count)
            continue;
        uint64_t key[] = {x->group, step};
        bool created;
        uint64_t *at = kb_map_insert(&places, kb_hash(key, sizeof key), sums.count, &created);
        ok = at && (!created || kb_vec_push(&sums, 0));
        if (ok)
            offer_lead(s, step, sums.data[*at] += in->slow[i], x->group);
    }
    kb_map_free(&places);
    kb_vec_free(&sums);
    return ok;
}

static void count_kind(const lead_search *s, ka_cause_kind kind, ka_rank_causes *c)
{
    for (size_t i = 0; i < c->list.count; i++) {
        ka_rank_cause *cause = &c->list.data[i];
        uint32_t of = kind == KA_CAUSE_LINK ? cause->group : cause->rank;
        if (cause->kind == kind)
            for (uint32_t step = 0; step < s->in->step_count; step++)
                cause->leads += s->leaders[step].of == of;
    }
}

bool ka_count_leads(const ka_lead_input *in, ka_rank_causes *c)
{
    lead_search s = {.in = in, .leaders = calloc((size_t)in->step_count + 1, sizeof *s.leaders),
                     .sums = malloc(((size_t)in->step_count + 1) * sizeof *s.sums)};
    bool ok = s.leaders && s.sums;
    for (int kind = KA_CAUSE_DEVICE; ok && kind <= KA_CAUSE_HOST; kind++) {
        find_leading_ranks(&s, (ka_cause_kind)kind);
        count_kind(&s, (ka_cause_kind)kind, c);
    }
    ok = ok && find_leading_groups(&s);
    if (ok)
        count_kind(&s, KA_CAUSE_LINK, c);
    for (uint32_t step = 0; ok && step < in->step_count; step++)
        c->steps += s.leaders[step].is_step;
    free(s.leaders);
    free(s.sums);
    return ok;
}
