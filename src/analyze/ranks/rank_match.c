/* Joins the rows of ranks to instances: by group and sequence number.
 *
 * Each lane joins the rows of its ranks; then the instances of both lanes are joined by their keys. Instances are
 * in the order of their first rows, until rank_model.c sorts them by arrival, and the rows of one in that of
 * ranks, whatever the number of lanes. */
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

/* The index of a group over all ranks, by its id. The rank that has it first gives name, description and size. */
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

/* Groups that do not say how large they are: as many as have it. */
static bool count_members(ka_rank_model *m)
{
    uint32_t *last = calloc(m->groups.count + 1, sizeof *last), *count = calloc(m->groups.count + 1, sizeof *count);
    bool ok = last && count;
    for (uint32_t r = 0; ok && r < m->rank_count; r++)
        for (uint32_t i = m->global_base[r]; i < m->global_base[r + 1]; i++) {
            uint32_t group = m->global[i];
            count[group] += last[group] != r + 1;
            last[group] = r + 1;
        }
    for (size_t i = 0; ok && i < m->groups.count; i++)
        if (!m->groups.data[i].size)
            m->groups.data[i].size = count[i];
    free(last);
    free(count);
    return ok;
}

bool ka_join_groups(ka_rank_model *m)
{
    kb_map ids = {0}, kinds = {0};
    m->global_base = calloc((size_t)m->rank_count + 2, sizeof *m->global_base);
    for (uint32_t r = 0; m->global_base && r < m->rank_count; r++)
        m->global_base[r + 1] = m->global_base[r] + (uint32_t)m->facts[r]->groups.count;
    m->global = m->global_base ? malloc(((size_t)m->global_base[m->rank_count] + 1) * sizeof *m->global) : NULL;
    m->no_memory |= !m->global;
    for (uint32_t r = 0; r < m->rank_count && !m->no_memory; r++)
        for (size_t i = 0; i < m->facts[r]->groups.count && !m->no_memory; i++)
            m->global[m->global_base[r] + i] = join_group(m, m->facts[r], &m->facts[r]->groups.data[i], &ids, &kinds);
    kb_map_free(&ids);
    kb_map_free(&kinds);
    return !m->no_memory && count_members(m);
}

/* ---- instances ------------------------------------------------------------------------------- */

/* What was counted begins anew in each step. Numbers of the trace occur once in their group. */
uint64_t ka_instance_key(uint32_t group, uint32_t sequence, const ka_comm *c)
{
    uint64_t key[] = {group, sequence, ka_is_counted(c) ? c->step : UINT64_MAX};
    return kb_hash(key, sizeof key);
}

static bool open_instance(ka_rank_model *m, uint32_t row)
{
    const ka_comm *c = ka_model_row(m, row);
    uint32_t group = m->group_of[row];
    ka_instance fresh = {.group = group,
                         .size = m->groups.data[group].size,
                         .sequence = ka_number_of(m, row),
                         .step = c->step,
                         .op = c->op};
    return kb_vec_push(&m->instances, fresh);
}

/* The rows of an instance that are of the ranks of one lane. */
typedef struct lane_instance {
    uint64_t key;
    uint32_t row, count; /* row: the first one */
    uint32_t of, next;   /* of: index of instances. next: where its next row goes */
} lane_instance;

typedef struct match_lane {
    kb_map keys; /* → index of list */
    KB_VEC(lane_instance) list;
    uint32_t first_rank;
    bool no_memory;
} match_lane;

typedef struct matching {
    ka_rank_model *m;
    match_lane lanes[KA_LANES];
} matching;

static bool match_row(ka_rank_model *m, match_lane *l, uint32_t row)
{
    bool created;
    uint64_t key = ka_instance_key(m->group_of[row], ka_number_of(m, row), ka_model_row(m, row));
    uint64_t *at = kb_map_insert(&l->keys, key, l->list.count, &created);
    if (!at || (created && !kb_vec_push(&l->list, (lane_instance){.key = key, .row = row})))
        return false;
    m->instance_of[row] = (uint32_t)*at; /* of the list, for now */
    l->list.data[*at].count++;
    return true;
}

/* A ka_lane_work by ranks. */
static void match_lane_rows(void *context, uint32_t lane, uint32_t first, uint32_t end)
{
    matching *w = context;
    ka_rank_model *m = w->m;
    match_lane *l = &w->lanes[lane];
    l->first_rank = first;
    for (uint32_t row = m->base[first]; row < m->base[end] && !l->no_memory; row++) {
        m->instance_of[row] = KA_NONE;
        if (m->group_of[row] != KA_NONE)
            l->no_memory = !match_row(m, l, row);
    }
}

/* Instances in the order of their first rows, with the number of their rows. */
static bool join_instances(matching *w)
{
    ka_rank_model *m = w->m;
    for (uint32_t lane = 0; lane < KA_LANES; lane++)
        for (size_t i = 0; i < w->lanes[lane].list.count; i++) {
            lane_instance *x = &w->lanes[lane].list.data[i];
            uint64_t *at = kb_map_insert(&w->lanes[0].keys, x->key, m->instances.count, NULL);
            if (!at || (*at == m->instances.count && !open_instance(m, x->row)))
                return false;
            x->of = (uint32_t)*at;
            m->instances.data[x->of].count += x->count;
        }
    return true;
}

/* Where the rows of each instance go: those of the first lane come first. */
static void place_instances(matching *w)
{
    ka_rank_model *m = w->m;
    uint32_t first = 0;
    for (size_t i = 0; i < m->instances.count; i++) {
        m->instances.data[i].first = first;
        first += m->instances.data[i].count;
        m->instances.data[i].count = 0;
    }
    for (uint32_t lane = 0; lane < KA_LANES; lane++)
        for (size_t i = 0; i < w->lanes[lane].list.count; i++) {
            lane_instance *x = &w->lanes[lane].list.data[i];
            ka_instance *all = &m->instances.data[x->of];
            x->next = all->first + all->count;
            all->count += x->count;
        }
}

static match_lane *lane_of_rank(matching *w, uint32_t rank)
{
    uint32_t lane = 0;
    while (lane + 1 < KA_LANES && rank >= w->lanes[lane + 1].first_rank)
        lane++;
    return &w->lanes[lane];
}

/* A ka_lane_work by ranks. */
static void list_members(void *context, uint32_t lane, uint32_t first, uint32_t end)
{
    matching *w = context;
    ka_rank_model *m = w->m;
    (void)lane;
    for (uint32_t r = first; r < end; r++) {
        lane_instance *list = lane_of_rank(w, r)->list.data;
        for (uint32_t row = m->base[r]; row < m->base[r + 1]; row++)
            if (m->instance_of[row] != KA_NONE) {
                lane_instance *x = &list[m->instance_of[row]];
                m->members[x->next++] = row;
                m->instance_of[row] = x->of;
            }
    }
}

static bool make_instances(matching *w)
{
    ka_rank_model *m = w->m;
    bool ok = true;
    for (uint32_t lane = 1; lane < KA_LANES; lane++)
        w->lanes[lane].first_rank = UINT32_MAX; /* if one lane does it all */
    ka_run_lanes(match_lane_rows, w, m->rank_count, m->row_count);
    for (uint32_t lane = 0; lane < KA_LANES; lane++)
        ok &= !w->lanes[lane].no_memory;
    if (!ok || !join_instances(w))
        return false;
    place_instances(w);
    bool is_split = w->lanes[KA_LANES - 1].first_rank != UINT32_MAX;
    ka_run_lanes(list_members, w, m->rank_count, is_split ? m->row_count : 0);
    return true;
}

/* Sizes of an all-to-all differ by what each rank has to send. */
static bool must_agree(uint8_t op) { return op != KA_OP_ALL_TO_ALL && op != KA_OP_OTHER; }

/* Two rows of an instance: the same operation, and the same size where it must be. Send and receive are alike:
 * they are sides of one message. */
static bool are_alike(const ka_comm *a, const ka_comm *b)
{
    if (a->op != b->op && !(ka_is_message(a->op) && ka_is_message(b->op)))
        return false;
    return !must_agree(a->op) || a->elements == b->elements;
}

/* Sets what is known of an instance by its rows: that calls differ, that a rank has it twice, or else whether all
 * members have a row. One row alone has no flag: nothing confirms it. */
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
    else if (!x->flags && x->count > 1)
        x->flags = KA_INSTANCE_PART;
}

void ka_count_shared(const ka_rank_model *m, ka_shared *of)
{
    for (size_t i = 0; i < m->instances.count; i++) {
        const ka_instance *x = &m->instances.data[i];
        if (!ka_is_numbered(ka_model_row(m, m->members[x->first])))
            continue;
        for (uint32_t k = 0; k < x->count; k++) {
            uint32_t rank = m->rank_of[m->members[x->first + k]];
            of[rank].count++;
            of[rank].shared += x->count > 1;
        }
    }
}

/* If no rank shares a number with another one, all may be of one run: then none is a stranger. */
bool ka_find_strangers(const ka_shared *of, uint32_t count, bool *is_stranger)
{
    bool some_share = false, some_do_not = false;
    for (uint32_t r = 0; r < count; r++)
        some_share |= of[r].shared > 0;
    for (uint32_t r = 0; r < count; r++) {
        is_stranger[r] = some_share && of[r].count && !of[r].shared;
        some_do_not |= is_stranger[r];
    }
    return some_do_not;
}

/* A ka_lane_work by instances. */
static void check_instances(void *model, uint32_t lane, uint32_t first, uint32_t end)
{
    ka_rank_model *m = model;
    (void)lane;
    for (uint32_t i = first; i < end; i++)
        check_instance(m, &m->instances.data[i]);
}

bool ka_match_ranks(ka_rank_model *m)
{
    matching w = {.m = m};
    bool ok = make_instances(&w);
    for (uint32_t lane = 0; lane < KA_LANES; lane++) {
        kb_map_free(&w.lanes[lane].keys);
        kb_vec_free(&w.lanes[lane].list);
    }
    if (ok)
        ka_run_lanes(check_instances, m, (uint32_t)m->instances.count, m->row_count);
    return ok;
}
