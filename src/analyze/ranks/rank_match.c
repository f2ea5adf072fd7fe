/* Joins the rows of ranks to instances: by group and sequence number. */
#include "analyze/ranks/rank_model.h"

/* ---- groups of all ranks --------------------------------------------------------------------- */

/* Groups of one kind are compared with one another: those with the same description and size. */
static uint32_t kind_of(const ka_rank_facts *f, const ka_comm_group *g, kb_map *kinds, ka_rank_model *m)
{
    kineto_string text = kb_intern_get(&f->texts, g->description);
    uint64_t key = kb_hash_seeded(g->size, text.data, text.size);
    uint64_t *kind = kb_map_insert(kinds, key, kinds->count, NULL);
    m->no_memory |= !kind;
    return kind ? (uint32_t)*kind : 0;
}

static uint32_t join_group(ka_rank_model *m, const ka_rank_facts *f, const ka_comm_group *g, kb_map *ids,
                           kb_map *kinds)
{
    bool created;
    uint64_t *at = kb_map_insert(ids, g->id, m->groups.count, &created);
    ka_rank_group fresh = {.id = g->id,
                           .size = g->size,
                           .name = kb_intern_get(&f->texts, g->name),
                           .description = kb_intern_get(&f->texts, g->description)};
    if (created)
        fresh.kind = kind_of(f, g, kinds, m);
    if (!at || (created && !kb_vec_push(&m->groups, fresh))) {
        m->no_memory = true;
        return 0;
    }
    return (uint32_t)*at;
}

static bool join_groups(ka_rank_model *m)
{
    kb_map ids = {0}, kinds = {0};
    for (uint32_t r = 0; r < m->rank_count && !m->no_memory; r++) {
        const ka_rank_facts *f = m->facts[r];
        uint32_t *global = malloc((f->groups.count + 1) * sizeof *global);
        m->no_memory |= !global;
        for (size_t i = 0; i < f->groups.count && !m->no_memory; i++)
            global[i] = join_group(m, f, &f->groups.data[i], &ids, &kinds);
        for (size_t i = 0; i < f->rows.count && !m->no_memory; i++) {
            uint32_t of = f->rows.data[i].group;
            m->group_of[m->base[r] + i] = of < f->groups.count ? global[of] : KA_NONE;
        }
        free(global);
    }
    kb_map_free(&ids);
    kb_map_free(&kinds);
    return !m->no_memory;
}

/* ---- instances ------------------------------------------------------------------------------- */

static uint64_t key_of(const ka_rank_model *m, uint32_t row)
{
    const ka_comm *c = ka_model_row(m, row);
    bool is_counted = (ka_is_message(c->op) && !(c->flags & KA_COMM_NUMBERED)) || (c->flags & KA_COMM_BY_ORDER);
    /* what was counted begins anew in each step */
    uint64_t key[] = {m->group_of[row], c->sequence, is_counted ? c->step : UINT64_MAX};
    return kb_hash(key, sizeof key);
}

static bool open_instance(ka_rank_model *m, uint32_t row)
{
    const ka_comm *c = ka_model_row(m, row);
    uint32_t group = m->group_of[row];
    ka_instance fresh = {.group = group,
                         .size = m->groups.data[group].size,
                         .sequence = c->sequence,
                         .step = c->step,
                         .op = c->op};
    return kb_vec_push(&m->instances, fresh);
}

/* By key: how many rows each has, and which it is of each row. */
static bool count_rows(ka_rank_model *m)
{
    kb_map keys = {0};
    for (uint32_t row = 0; row < m->row_count && !m->no_memory; row++) {
        m->instance_of[row] = KA_NONE;
        if (m->group_of[row] == KA_NONE)
            continue;
        bool created;
        uint64_t *at = kb_map_insert(&keys, key_of(m, row), m->instances.count, &created);
        m->no_memory |= !at || (created && !open_instance(m, row));
        if (m->no_memory)
            break;
        m->instance_of[row] = (uint32_t)*at;
        m->instances.data[*at].count++;
    }
    kb_map_free(&keys);
    return !m->no_memory;
}

static void list_members(ka_rank_model *m)
{
    uint32_t first = 0;
    for (size_t i = 0; i < m->instances.count; i++) {
        m->instances.data[i].first = first;
        first += m->instances.data[i].count;
        m->instances.data[i].count = 0;
    }
    for (uint32_t row = 0; row < m->row_count; row++)
        if (m->instance_of[row] != KA_NONE) {
            ka_instance *x = &m->instances.data[m->instance_of[row]];
            m->members[x->first + x->count++] = row;
        }
}

/* Sizes of an all-to-all differ by what each rank has to send. */
static bool must_agree(uint8_t op) { return op != KA_OP_ALL_TO_ALL && op != KA_OP_OTHER; }

static bool are_alike(const ka_comm *a, const ka_comm *b)
{
    if (a->op != b->op && !(ka_is_message(a->op) && ka_is_message(b->op)))
        return false;
    return !must_agree(a->op) || a->elements == b->elements;
}

static void check_instance(ka_rank_model *m, ka_instance *x)
{
    const ka_comm *first = ka_model_row(m, m->members[x->first]);
    for (uint32_t i = 1; i < x->count; i++) {
        uint32_t row = m->members[x->first + i];
        x->flags |= are_alike(first, ka_model_row(m, row)) ? 0 : KA_INSTANCE_MISMATCH;
        x->flags |= m->rank_of[row] == m->rank_of[m->members[x->first + i - 1]] ? KA_INSTANCE_DUPLICATE : 0;
    }
    if (!x->flags && x->count > 1 && x->count == x->size)
        x->flags = KA_INSTANCE_WHOLE;
}

/* Groups that do not say how large they are: as many as have it. */
static bool count_members(ka_rank_model *m)
{
    uint32_t *last = calloc(m->groups.count + 1, sizeof *last), *count = calloc(m->groups.count + 1, sizeof *count);
    bool ok = last && count;
    for (uint32_t row = 0; ok && row < m->row_count; row++) {
        uint32_t group = m->group_of[row];
        if (group == KA_NONE || last[group] == m->rank_of[row] + 1)
            continue;
        last[group] = m->rank_of[row] + 1;
        count[group]++;
    }
    for (size_t i = 0; ok && i < m->groups.count; i++)
        if (!m->groups.data[i].size)
            m->groups.data[i].size = count[i];
    free(last);
    free(count);
    return ok;
}

bool ka_match_ranks(ka_rank_model *m)
{
    if (!join_groups(m) || !count_members(m) || !count_rows(m))
        return false;
    m->members = malloc(((size_t)m->row_count + 1) * sizeof *m->members);
    if (!m->members)
        return false;
    list_members(m);
    for (size_t i = 0; i < m->instances.count; i++)
        check_instance(m, &m->instances.data[i]);
    return true;
}
