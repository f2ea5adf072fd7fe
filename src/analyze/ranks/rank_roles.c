/* Roles: ranks that do the same, and are compared with one another only. The role of a rank is what it
 * communicates in a typical step: kinds of groups, collectives and sizes, in their order. */
#include "analyze/ranks/rank_model.h"

/* Sizes that differ by design do not make a role. */
static uint64_t sign_row(const ka_rank_model *m, uint64_t seed, uint32_t group, const ka_comm *c)
{
    uint64_t key[] = {m->groups.data[group].kind, ka_role_op(c), c->op == KA_OP_ALL_TO_ALL ? 0 : c->elements};
    return kb_hash_seeded(seed, key, sizeof key);
}

static int compare_signatures(const void *left, const void *right)
{
    const uint64_t *a = left, *b = right;
    return (*a > *b) - (*a < *b);
}

/* The signature that most steps have; of equally frequent ones the smallest. */
static uint64_t most_frequent(uint64_t *signs, size_t count)
{
    uint64_t best = 0;
    size_t most = 0;
    qsort(signs, count, sizeof *signs, compare_signatures);
    for (size_t i = 0, next; i < count; i = next) {
        for (next = i + 1; next < count && signs[next] == signs[i]; next++)
            ;
        if (next - i > most) {
            most = next - i;
            best = signs[i];
        }
    }
    return best;
}

bool ka_sign_row(const ka_rank_model *m, ka_role_signer *s, uint32_t rank, uint32_t group, const ka_comm *c)
{
    if (group == KA_NONE)
        return true;
    if ((!s->signs.count || c->step != s->step) && !kb_vec_push(&s->signs, 0))
        return false;
    s->step = c->step;
    uint64_t *sign = &s->signs.data[s->signs.count - 1];
    /* threads of hosts may begin in any order; stages of a pipeline differ by theirs */
    bool is_ordered = !m->facts[rank]->on_host || (ka_is_message(c->op) && !(c->flags & KA_COMM_NUMBERED));
    *sign = is_ordered ? sign_row(m, *sign, group, c) : *sign + sign_row(m, 0, group, c);
    return true;
}

uint64_t ka_finish_sign(ka_role_signer *s)
{
    uint64_t sign = s->signs.count ? most_frequent(s->signs.data, s->signs.count) : 0;
    s->signs.count = 0;
    return sign;
}

bool ka_set_role(ka_rank_model *m, uint32_t rank, uint64_t sign, kb_map *roles)
{
    uint64_t *role = kb_map_insert(roles, sign, roles->count, NULL);
    m->role[rank] = role ? (uint32_t)*role : 0;
    return role != NULL;
}

bool ka_find_roles(ka_rank_model *m)
{
    kb_map roles = {0};
    ka_role_signer s = {0};
    bool ok = true;
    for (uint32_t r = 0; r < m->rank_count && ok; r++) {
        for (uint32_t row = m->base[r]; row < m->base[r + 1] && ok; row++)
            ok = ka_sign_row(m, &s, r, m->group_of[row], ka_model_row(m, row));
        ok = ok && ka_set_role(m, r, ka_finish_sign(&s), &roles);
    }
    kb_vec_free(&s.signs);
    kb_map_free(&roles);
    return ok;
}
