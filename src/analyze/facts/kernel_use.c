/* The tables kernel_use and kernel_operators: kernels by name, and by operator and launch
 * sizes, with means of blocks per multiprocessor and occupancy that are weighted with time. */
#include "analyze/facts/analyses.h"

#include "trace/bytes/json_text.h"

typedef struct group {
    uint32_t name, op, launch; /* strings of the trace (KA_NONE), id of launches */
    uint64_t count;
    int64_t sum_ns, max_ns, min_ns;
    double blocks, occupancy; /* times ns */
    bool tensor;
} group;

typedef struct groups {
    KB_VEC(group) list;
    kb_map by_key;
} groups;

/* The group, which is appended if it is new; valid until the next call. A hash that another
 * group has is resolved by the next one. NULL: out of memory. */
static group *find_kernel_group(groups *g, uint32_t name, uint32_t op, uint32_t launch)
{
    uint32_t key[] = {name, op, launch};
    for (uint64_t hash = kb_hash(key, sizeof key);; hash++) {
        bool created;
        uint64_t *at = kb_map_insert(&g->by_key, hash, g->list.count, &created);
        group fresh = {.name = name, .op = op, .launch = launch, .min_ns = INT64_MAX};
        if (!at || (created && !kb_vec_push(&g->list, fresh)))
            return NULL;
        KB_ASSERT(*at < g->list.count);
        group *found = &g->list.data[*at];
        if (found->name == name && found->op == op && found->launch == launch)
            return found;
    }
}

static void add_kernel_to_group(group *g, const ka_kernel *k, ka_span span)
{
    int64_t ns = kb_length_ns(span.start_ns, span.end_ns);
    g->count++;
    g->sum_ns = ka_add_ns(g->sum_ns, ns);
    g->max_ns = KB_MAX(g->max_ns, ns);
    g->min_ns = KB_MIN(g->min_ns, ns);
    g->blocks += KB_MAX(k->blocks, 0) * (double)ns;
    g->occupancy += KB_MAX(k->occupancy, 0) * (double)ns;
    g->tensor = k->work->tensor;
}

static bool collect_kernel_uses(const ka_attribution *v, const ka_kernels *kernels,
                                bool by_operator, groups *g)
{
    for (size_t i = 0; i < kernels->list.count; i++) {
        const ka_kernel *k = &kernels->list.data[i];
        uint32_t op = k->work->op == KA_NONE ? KA_NONE : v->ops.data[k->work->op].name;
        if (by_operator && k->work->unlisted)
            continue;
        uint32_t name = ka_row_name(v->dataset->trace, k->work->row);
        group *to = by_operator ? find_kernel_group(g, name, op, k->launch)
                                : find_kernel_group(g, name, KA_NONE, 0);
        if (!to)
            return false;
        add_kernel_to_group(to, k, ka_row_span(v->dataset->trace, k->work->row));
    }
    return true;
}

static void groups_free(groups *g)
{
    kb_vec_free(&g->list);
    kb_map_free(&g->by_key);
}

static void put_kernel_times(ka_table *t, const ka_kernels *kernels, const group *g)
{
    double ns = (double)g->sum_ns;
    ka_put_int(t, (int64_t)g->count);
    ka_put_ns(t, g->sum_ns);
    ka_put_number(t, ns / (double)g->count / 1000);
    ka_put_ns(t, g->max_ns);
    ka_put_ns(t, g->min_ns);
    if (kernels->any_blocks)
        ka_put_number(t, ns > 0 ? g->blocks / ns : 0);
    else
        ka_put_none(t);
    if (kernels->any_occupancy)
        ka_put_number(t, ns > 0 ? g->occupancy / ns : 0);
    else
        ka_put_none(t);
}

bool ka_put_kernel_use(const ka_attribution *v, const ka_kernels *kernels, ka_table *t)
{
    groups g = {0};
    bool ok = collect_kernel_uses(v, kernels, false, &g);
    for (size_t i = 0; i < g.list.count && ok; i++) {
        ka_put_int(t, v->dataset->rank);
        ka_put_text(t, ka_name(v->dataset, g.list.data[i].name));
        ka_put_int(t, g.list.data[i].tensor);
        put_kernel_times(t, kernels, &g.list.data[i]);
    }
    groups_free(&g);
    KA_SORT(t, KA_DOWN(kernel_use, sum_us), KA_UP(kernel_use, name));
    return ok;
}

/* The pieces of "grid|block|registers|shared memory". */
static void put_launch(ka_table *t, kineto_string text)
{
    for (int i = 0; i < 4; i++) {
        const char *bar = text.size ? memchr(text.data, '|', text.size) : NULL;
        kineto_string piece = {text.data, bar ? (size_t)(bar - text.data) : text.size};
        int64_t number;
        if (i < 2)
            ka_put_text(t, piece);
        else if (kt_json_int(piece, &number))
            ka_put_int(t, number);
        else
            ka_put_none(t);
        size_t used = KB_MIN(piece.size + 1, text.size);
        text = (kineto_string){text.data + used, text.size - used};
    }
}

bool ka_put_kernel_operators(const ka_attribution *v, const ka_kernels *kernels, ka_table *t)
{
    groups g = {0};
    bool ok = collect_kernel_uses(v, kernels, true, &g);
    for (size_t i = 0; i < g.list.count && ok; i++) {
        const group *of = &g.list.data[i];
        kineto_string op = kb_string(v->dataset->definitions->no_operator_name);
        if (of->op != KA_NONE)
            op = ka_name(v->dataset, of->op);
        ka_put_int(t, v->dataset->rank);
        ka_put_text(t, ka_name(v->dataset, of->name));
        ka_put_text(t, op);
        put_launch(t, kb_intern_get(&kernels->launches, of->launch));
        ka_put_int(t, of->tensor);
        ka_put_int(t, v->dataset->definitions->is_eligible(op));
        put_kernel_times(t, kernels, of);
    }
    groups_free(&g);
    KA_SORT(t, KA_DOWN(kernel_operators, sum_us), KA_UP(kernel_operators, name),
               KA_UP(kernel_operators, operator), KA_UP(kernel_operators, grid),
               KA_UP(kernel_operators, block));
    return ok;
}
