/* Roles: ranks that do the same, and are compared with one another only. The role of a rank is what it
 * communicates in a typical step: kinds of groups, collectives and sizes, in their order. */
#include "analyze/ranks/rank_model.h"

/* Sizes that differ by design do not make a role. */
static uint64_t sign_row(const ka_rank_model *m, uint64_t seed, uint32_t row)
{
    const ka_comm *c = ka_model_row(m, row);
    uint64_t key[] = {m->groups.data[m->group_of[row]].kind, ka_role_op(c),
                      c->op == KA_OP_ALL_TO_ALL ? 0 : c->elements};
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

/* Signatures of the steps of a rank, of those with rows. */
static bool sign_steps(const ka_rank_model *m, uint32_t rank, uint64_t *out)
{
    KB_VEC(uint64_t) signs = {0};
    uint32_t step = 0;
    bool ok = true;
    for (uint32_t row = m->base[rank]; row < m->base[rank + 1] && ok; row++) {
        const ka_comm *c = ka_model_row(m, row);
        if (m->group_of[row] == KA_NONE)
            continue;
        if (!signs.count || c->step != step)
            ok = kb_vec_push(&signs, 0);
        step = c->step;
        uint64_t *sign = ok ? &signs.data[signs.count - 1] : NULL;
        /* threads of hosts may begin in any order; stages of a pipeline differ by theirs */
        bool is_ordered = !m->facts[rank]->on_host || (ka_is_message(c->op) && !(c->flags & KA_COMM_NUMBERED));
        if (ok)
            *sign = is_ordered ? sign_row(m, *sign, row) : *sign + sign_row(m, 0, row);
    }
    *out = ok && signs.count ? most_frequent(signs.data, signs.count) : 0;
    kb_vec_free(&signs);
    return ok;
}

bool ka_find_roles(ka_rank_model *m)
{
    kb_map roles = {0};
    bool ok = true;
    for (uint32_t r = 0; r < m->rank_count && ok; r++) {
        uint64_t sign = 0;
        ok = sign_steps(m, r, &sign);
        uint64_t *role = ok ? kb_map_insert(&roles, sign, roles.count, NULL) : NULL;
        ok = role != NULL;
        m->role[r] = role ? (uint32_t)*role : 0;
    }
    kb_map_free(&roles);
    return ok;
}
