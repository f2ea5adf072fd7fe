/* Makes the model of ranks of their facts: loads rows, joins them to instances (rank_match.c), corrects numbers
 * (rank_numbers.c), aligns clocks (rank_clocks.c), finds roles (rank_roles.c), and sorts instances by arrival. Times of
 * the model are in ns from origin_ns, on the common clock. */
#include "analyze/ranks/rank_model.h"

static void free_rows(ka_rank_model *m)
{
    free(m->rank_of);
    free(m->instance_of);
    free(m->group_of);
    free(m->start_ns);
    free(m->end_ns);
    free(m->members);
    m->rank_of = m->instance_of = m->group_of = m->members = NULL;
    m->start_ns = m->end_ns = NULL;
    m->row_capacity = 0;
}

/* As many as the largest window so far has. */
static bool allocate_rows(ka_rank_model *m)
{
    size_t n = (size_t)m->row_count + 1;
    if (n <= m->row_capacity)
        return true;
    free_rows(m);
    m->row_capacity = n;
    m->rank_of = malloc(n * sizeof *m->rank_of);
    m->instance_of = malloc(n * sizeof *m->instance_of);
    m->group_of = malloc(n * sizeof *m->group_of);
    m->start_ns = malloc(n * sizeof *m->start_ns);
    m->end_ns = malloc(n * sizeof *m->end_ns);
    m->members = malloc(n * sizeof *m->members);
    return m->rank_of && m->instance_of && m->group_of && m->start_ns && m->end_ns && m->members;
}

/* A ka_lane_work by ranks. Context rows of a window, and those of strangers, have no group, so that they join no
 * instance. */
static void list_rows(void *model, uint32_t lane, uint32_t first, uint32_t end)
{
    ka_rank_model *m = model;
    (void)lane;
    for (uint32_t r = first; r < end; r++)
        for (uint32_t row = m->base[r]; row < m->base[r + 1]; row++) {
            const ka_comm *c = &m->facts[r]->rows.data[row - m->base[r]];
            uint32_t context = m->window ? m->window[r].context : 0;
            bool has_group = !m->is_stranger[r] && row - m->base[r] >= context && c->group < m->facts[r]->groups.count;
            m->rank_of[row] = r;
            m->group_of[row] = has_group ? m->global[m->global_base[r] + c->group] : KA_NONE;
        }
}

/* The begin of the first work of all ranks that are compared, ns of the trace; 0: none has a collective. */
static void find_origin(ka_rank_model *m)
{
    m->origin_ns = INT64_MAX;
    for (uint32_t r = 0; r < m->rank_count; r++)
        if (m->facts[r]->rows.count > 1 && m->domain[r] != KA_NONE)
            m->origin_ns = KB_MIN(m->origin_ns, m->facts[r]->start_ns);
    m->origin_ns = m->origin_ns == INT64_MAX ? 0 : m->origin_ns;
}

/* A ka_lane_work by rows: times of the trace from the origin, before clocks are aligned. */
static void place_rows(void *model, uint32_t lane, uint32_t first, uint32_t end)
{
    ka_rank_model *m = model;
    (void)lane;
    for (uint32_t row = first; row < end; row++) {
        const ka_comm *c = ka_model_row(m, row);
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

#define LATE_NS 20000 /* beyond what clocks and ends differ by */
/* When its last row begins and its first one ends, on the common clock. Sets APART if its ranks have no common one, and
 * TORN if a rank left before the last one came, where none can. An arrival after the first end is moved to it, but for
 * messages and broadcasts of hosts, which may end before another row begins (ka_leaves_early). */
static void time_instance(const ka_rank_model *m, ka_instance *x)
{
    uint32_t domain = m->domain[m->rank_of[m->members[x->first]]];
    x->arrival_ns = INT64_MIN;
    x->end_ns = INT64_MAX;
    for (uint32_t k = 0; k < x->count; k++) {
        uint32_t row = m->members[x->first + k];
        x->arrival_ns = KB_MAX(x->arrival_ns, m->start_ns[row]);
        x->end_ns = KB_MIN(x->end_ns, m->end_ns[row]);
        x->flags |= m->domain[m->rank_of[row]] != domain ? KA_INSTANCE_APART : 0;
    }
    if (ka_is_synchronizing(x->op) && x->arrival_ns > ka_add_ns(x->end_ns, LATE_NS))
        x->flags |= KA_INSTANCE_TORN;
    if (ka_is_synchronizing(x->op) || !m->facts[m->rank_of[m->members[x->first]]]->on_host)
        x->arrival_ns = KB_MIN(x->arrival_ns, x->end_ns);
}

/* Instances by lane: the parts that are sorted. */
typedef struct ordering {
    ka_rank_model *m;
    size_t sorted; /* as many of the first ones are sorted by themselves */
} ordering;

/* A ka_lane_work by instances. */
static void time_instances(void *context, uint32_t lane, uint32_t first, uint32_t end)
{
    ordering *o = context;
    ka_instance *list = o->m->instances.data;
    for (uint32_t i = first; i < end; i++)
        time_instance(o->m, &list[i]);
    if (end > first)
        qsort(list + first, end - first, sizeof *list, compare_arrivals);
    if (!lane)
        o->sorted = end;
}

/* Two sorted parts. */
static bool merge_instances(ka_rank_model *m, size_t split)
{
    ka_instance *list = m->instances.data, *first = malloc((split + 1) * sizeof *first);
    size_t at = 0, count = m->instances.count;
    if (!first)
        return false;
    memcpy(first, list, split * sizeof *first);
    for (size_t i = 0, k = split; i < split;) {
        bool is_second = k < count && compare_arrivals(&list[k], &first[i]) < 0;
        list[at++] = is_second ? list[k++] : first[i++];
    }
    free(first);
    return true;
}

/* A ka_lane_work by instances. */
static void name_instances(void *model, uint32_t lane, uint32_t first, uint32_t end)
{
    ka_rank_model *m = model;
    (void)lane;
    for (uint32_t i = first; i < end; i++)
        for (uint32_t k = 0; k < m->instances.data[i].count; k++)
            m->instance_of[m->members[m->instances.data[i].first + k]] = i;
}

/* Instances in the order of arrival, which no wait goes against. */
static bool order_instances(ka_rank_model *m)
{
    ordering o = {.m = m};
    uint32_t count = (uint32_t)m->instances.count;
    ka_run_lanes(time_instances, &o, count, m->row_count);
    if (o.sorted < count && !merge_instances(m, o.sorted))
        return false;
    ka_run_lanes(name_instances, m, count, m->row_count);
    return true;
}

int64_t ka_recorded_length(const ka_rank_model *m)
{
    int64_t sum = 0;
    int64_t *last = calloc((size_t)m->domain_count + 1, sizeof *last);
    for (uint32_t row = 0; last && row < m->row_count; row++) {
        uint32_t rank = m->rank_of[row], domain = m->domain[rank];
        bool is_end = row + 1 == m->base[rank + 1];
        if (domain != KA_NONE && !(is_end && m->ends_early[rank]))
            last[domain] = KB_MAX(last[domain], m->end_ns[row]);
    }
    for (uint32_t i = 0; last && i < m->domain_count; i++)
        sum += last[i];
    free(last);
    return sum;
}

int64_t ka_run_begin(const ka_rank_model *m)
{
    int64_t sum = 0;
    int64_t *first = malloc(((size_t)m->domain_count + 1) * sizeof *first);
    for (uint32_t i = 0; first && i < m->domain_count; i++)
        first[i] = INT64_MAX;
    for (uint32_t r = 0; first && r < m->rank_count; r++) {
        const ka_rank_facts *f = m->facts[r];
        if (m->domain[r] != KA_NONE)
            first[m->domain[r]] = KB_MIN(first[m->domain[r]], ka_align_time(m, r, f->step_count ? f->begin_ns : f->start_ns));
    }
    for (uint32_t i = 0; first && i < m->domain_count; i++)
        sum += first[i] == INT64_MAX ? 0 : first[i];
    free(first);
    return sum;
}

bool ka_rank_model_open(const ka_rank_facts *const *facts, uint32_t count, ka_rank_model *m)
{
    size_t n = (size_t)count + 2;
    *m = (ka_rank_model){.rank_count = count, .domain_count = 1};
    m->facts = malloc(n * sizeof *m->facts);
    m->base = calloc(n, sizeof *m->base);
    m->role = calloc(n, sizeof *m->role);
    m->clock_of = calloc(n, sizeof *m->clock_of);
    m->domain = calloc(n, sizeof *m->domain);
    m->is_stranger = calloc(n, sizeof *m->is_stranger);
    m->ends_early = calloc(n, sizeof *m->ends_early);
    m->late_step = malloc(n * sizeof *m->late_step);
    if (m->late_step)
        memset(m->late_step, 0xff, n * sizeof *m->late_step);
    if (!m->facts || !m->base || !m->role || !m->clock_of || !m->domain || !m->is_stranger || !m->ends_early || !m->late_step)
        return false;
    if (count)
        memcpy(m->facts, facts, count * sizeof *m->facts);
    return ka_join_groups(m);
}

/* Numbers are corrected, clocks and roles found by the first rows that are loaded; later windows of the run use them.
 * Rows are joined again if the correction has changed groups or numbers. */
bool ka_rank_model_load(ka_rank_model *m)
{
    for (uint32_t r = 0; r < m->rank_count; r++)
        m->base[r + 1] = m->base[r] + (uint32_t)m->facts[r]->rows.count;
    m->row_count = m->base[m->rank_count];
    if (!allocate_rows(m))
        return false;
    ka_run_lanes(list_rows, m, m->rank_count, m->row_count);
    bool changed = false;
    if (!ka_match_ranks(m) || (!m->is_aligned && !ka_correct_numbers(m, &changed)))
        return false;
    m->instances.count = changed ? 0 : m->instances.count;
    if ((changed && !ka_match_ranks(m)) || (m->is_whole && !ka_list_odd_rows(m)))
        return false;
    if (!m->is_placed)
        find_origin(m);
    m->is_placed = true;
    ka_run_lanes(place_rows, m, m->row_count, m->row_count);
    if (m->is_aligned)
        ka_move_rows(m);
    else if (!ka_align_clocks(m))
        return false;
    m->is_aligned = true;
    if (!m->has_roles && !ka_find_roles(m))
        return false;
    m->has_roles = true;
    return order_instances(m);
}

void ka_rank_model_unload(ka_rank_model *m)
{
    m->row_count = 0;
    m->instances.count = 0;
}

void ka_rank_model_free(ka_rank_model *m)
{
    free_rows(m);
    free(m->facts);
    free(m->base);
    free(m->global);
    free(m->global_base);
    free(m->role);
    free(m->clock_of);
    free(m->domain);
    free(m->is_stranger);
    free(m->ends_early);
    free(m->late_step);
    kb_vec_free(&m->shifts);
    kb_vec_free(&m->odd);
    kb_vec_free(&m->instances);
    kb_vec_free(&m->groups);
    kb_vec_free(&m->clocks);
    *m = (ka_rank_model){0};
}

uint32_t ka_find_rank_index(const ka_rank_model *m, int32_t rank)
{
    uint32_t first = 0, end = m->rank_count;
    while (first < end) {
        uint32_t middle = first + (end - first) / 2;
        if (m->facts[middle]->rank < rank)
            first = middle + 1;
        else
            end = middle;
    }
    return first < m->rank_count && m->facts[first]->rank == rank ? first : KA_NONE;
}
