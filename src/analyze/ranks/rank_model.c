/* Makes the model of ranks of their facts. */
#include "analyze/ranks/rank_model.h"

static bool allocate_rows(ka_rank_model *m)
{
    size_t n = (size_t)m->row_count + 1;
    m->rank_of = malloc(n * sizeof *m->rank_of);
    m->instance_of = malloc(n * sizeof *m->instance_of);
    m->group_of = malloc(n * sizeof *m->group_of);
    m->start_ns = malloc(n * sizeof *m->start_ns);
    m->end_ns = malloc(n * sizeof *m->end_ns);
    m->role = calloc((size_t)m->rank_count + 1, sizeof *m->role);
    m->clock_of = calloc((size_t)m->rank_count + 1, sizeof *m->clock_of);
    return m->rank_of && m->instance_of && m->group_of && m->start_ns && m->end_ns && m->role && m->clock_of;
}

static void find_origin(ka_rank_model *m)
{
    m->origin_ns = INT64_MAX;
    for (uint32_t r = 0; r < m->rank_count; r++)
        if (m->facts[r]->rows.count > 1)
            m->origin_ns = KB_MIN(m->origin_ns, m->facts[r]->start_ns);
    m->origin_ns = m->origin_ns == INT64_MAX ? 0 : m->origin_ns;
}

static void place_rows(ka_rank_model *m)
{
    for (uint32_t r = 0; r < m->rank_count; r++)
        for (uint32_t row = m->base[r]; row < m->base[r + 1]; row++) {
            const ka_comm *c = &m->facts[r]->rows.data[row - m->base[r]];
            m->rank_of[row] = r;
            m->start_ns[row] = ka_add_ns(c->start_ns, -m->origin_ns);
            m->end_ns[row] = ka_add_ns(c->end_ns, -m->origin_ns);
        }
}

static int compare_arrivals(const void *left, const void *right)
{
    const ka_instance *a = left, *b = right;
    if (a->arrival_ns != b->arrival_ns)
        return a->arrival_ns < b->arrival_ns ? -1 : 1;
    if (a->end_ns != b->end_ns)
        return a->end_ns < b->end_ns ? -1 : 1;
    return (a->first > b->first) - (a->first < b->first);
}

/* Instances in the order of arrival, which no wait goes against. */
static void order_instances(ka_rank_model *m)
{
    for (size_t i = 0; i < m->instances.count; i++) {
        ka_instance *x = &m->instances.data[i];
        x->arrival_ns = INT64_MIN;
        x->end_ns = INT64_MAX;
        for (uint32_t k = 0; k < x->count; k++) {
            uint32_t row = m->members[x->first + k];
            x->arrival_ns = KB_MAX(x->arrival_ns, m->start_ns[row]);
            x->end_ns = KB_MIN(x->end_ns, m->end_ns[row]);
        }
        if (ka_is_synchronizing(x->op))
            x->arrival_ns = KB_MIN(x->arrival_ns, x->end_ns);
    }
    if (m->instances.count)
        qsort(m->instances.data, m->instances.count, sizeof *m->instances.data, compare_arrivals);
    for (size_t i = 0; i < m->instances.count; i++)
        for (uint32_t k = 0; k < m->instances.data[i].count; k++)
            m->instance_of[m->members[m->instances.data[i].first + k]] = (uint32_t)i;
}

bool ka_rank_model_create(const ka_rank_facts *const *facts, uint32_t count, ka_rank_model *m)
{
    *m = (ka_rank_model){.rank_count = count};
    m->facts = malloc(((size_t)count + 1) * sizeof *m->facts);
    m->base = calloc((size_t)count + 2, sizeof *m->base);
    if (!m->facts || !m->base)
        return false;
    for (uint32_t r = 0; r < count; r++) {
        m->facts[r] = facts[r];
        m->base[r + 1] = m->base[r] + (uint32_t)facts[r]->rows.count;
    }
    m->row_count = m->base[count];
    if (!allocate_rows(m))
        return false;
    find_origin(m);
    place_rows(m);
    if (!ka_match_ranks(m) || !ka_align_clocks(m) || !ka_find_roles(m))
        return false;
    order_instances(m);
    return true;
}

void ka_rank_model_free(ka_rank_model *m)
{
    free(m->facts);
    free(m->base);
    free(m->rank_of);
    free(m->instance_of);
    free(m->group_of);
    free(m->start_ns);
    free(m->end_ns);
    free(m->members);
    free(m->role);
    free(m->clock_of);
    kb_vec_free(&m->instances);
    kb_vec_free(&m->groups);
    kb_vec_free(&m->clocks);
    *m = (ka_rank_model){0};
}
