/* The table operators: operators by name, input shapes and stack, with their time on the host
 * and on devices, FLOPs, and whether tensor cores could be used and are. */
#include "analyze/facts/analyses.h"

#include "trace/model/model.h"

/* Calls of one operator with the same inputs and stack. */
typedef struct group {
    uint64_t calls, flops;
    int64_t host_ns, host_self_ns, device_ns, device_self_ns, tensor_ns, tensor_self_ns;
    uint32_t open_until; /* index of ops: what begins before is inside of a call of it */
} group;

typedef struct grouping {
    const ka_attribution *v;
    const ka_operator_calls *in;
    group *groups; /* by call, see ka_operator_calls */
    size_t shown;
    int64_t *stack_cells; /* by id in stacks: the table's cell; KA_NO_INT: it is not there yet */
    int64_t *name_cells;  /* the same, by name */
    uint8_t *eligible;    /* by name: 0 not checked yet, 1 no, 2 yes */
} grouping;

/* ---- shapes and stacks ----------------------------------------------------------------------- */

static int64_t text_cell(ka_table *t, kineto_string s)
{
    uint32_t id = kb_intern_id(&t->texts, s);
    t->no_memory |= id == KB_INTERN_NONE;
    return id;
}

/* A text that the table may have already. */
static int64_t intern_once(ka_table *t, int64_t *cell, kineto_string text)
{
    if (*cell == KA_NO_INT)
        *cell = text_cell(t, text);
    return *cell;
}

/* ---- groups ---------------------------------------------------------------------------------- */

static void add_group_ns(int64_t *to, int64_t ns) { *to = ka_add_ns(*to, ns); }

/* A call inside another one of the same group has its time in that one's. */
static void add_call(grouping *g, uint32_t index)
{
    const ka_op *op = &g->v->ops.data[index];
    group *to = &g->groups[g->in->call_of[op->row]];
    bool again = index < to->open_until && !g->v->dataset->definitions->count_nested_calls;
    uint64_t flops =
        g->v->dataset->definitions->operators_without_flops ? 0 : g->in->flops[op->row];
    g->shown += !to->calls;
    to->calls++;
    add_group_ns(&to->host_self_ns, op->host_self_ns);
    add_group_ns(&to->device_self_ns, op->device_self_ns);
    add_group_ns(&to->tensor_self_ns, op->tensor_self_ns);
    if (again)
        return;
    to->open_until = op->next;
    to->flops = to->flops > UINT64_MAX - flops ? UINT64_MAX : to->flops + flops;
    add_group_ns(&to->host_ns, kb_length_ns(op->start_ns, op->end_ns));
    add_group_ns(&to->device_ns, op->device_ns);
    add_group_ns(&to->tensor_ns, op->tensor_ns);
}

/* ---- the table ------------------------------------------------------------------------------- */

/* May the operator use tensor cores? Decided once for each name. */
static bool is_eligible(const grouping *g, uint32_t id)
{
    kineto_string name = ka_name(g->v->dataset, id);
    if (!g->eligible[id])
        g->eligible[id] = 1 + g->v->dataset->definitions->is_eligible(name);
    return g->eligible[id] == 2;
}

/* ---- order ----------------------------------------------------------------------------------- */

/* Sort key of a time, signed, such that longer times come first. */
static uint64_t longest_first(int64_t ns) { return ~((uint64_t)ns ^ UINT64_C(1) << 63); }

/* By device time, then host time, then the order of first calls. The values are numbers of calls.
 */
static bool sort_groups(const grouping *g, kt_keyed *places)
{
    size_t count = 0;
    for (uint32_t i = 0; count < g->shown; i++)
        if (g->groups[i].calls)
            places[count++] = (kt_keyed){longest_first(g->groups[i].host_self_ns), i};
    if (!kt_sort_keyed(NULL, places, count))
        return false;
    for (size_t i = 0; i < count; i++)
        places[i].key = longest_first(g->groups[places[i].value].device_self_ns);
    return kt_sort_keyed(NULL, places, count);
}

/* ---- rows ------------------------------------------------------------------------------------ */

/* Writes the cells of a row in place: rows come in the order of groups, not of the table. */
static void put_group(const grouping *g, uint32_t call, ka_table *t, ka_cell *row)
{
    const group *of = &g->groups[call];
    uint32_t name, stack;
    ka_call_names(g->in, call, &name, &stack);
    row++->i = intern_once(t, &g->name_cells[name], ka_name(g->v->dataset, name));
    row++->i = text_cell(t, ka_call_shapes(g->in, call));
    row++->i = intern_once(t, &g->stack_cells[stack], kb_intern_get(&g->in->stacks, stack));
    row++->i = (int64_t)of->calls;
    row++->i = of->host_ns;
    row++->i = of->host_self_ns;
    row++->i = of->device_ns;
    row++->i = of->device_self_ns;
    row++->d = (double)of->flops;
    row++->i = is_eligible(g, name);
    row++->d = ka_percent((double)of->tensor_self_ns, (double)of->device_self_ns);
    row++->d = ka_percent((double)of->tensor_ns, (double)of->device_ns);
}

/* In the order of groups, each to its place: so their texts are walked through in one direction. */
static void put_operator_rows(const grouping *g, const kt_keyed *sorted, uint32_t *row_of,
                              ka_table *t)
{
    for (uint32_t i = 0; i < g->shown; i++)
        row_of[sorted[i].value] = i;
    for (uint32_t i = 0; i < g->in->calls.strings.count; i++)
        if (g->groups[i].calls)
            put_group(g, i, t, t->cells.data + (size_t)row_of[i] * t->column_count);
    t->cells.count = g->shown * t->column_count;
}

static bool put_operator_groups(const grouping *g, ka_table *t)
{
    kt_keyed *places = kb_array(g->shown + 1, sizeof *places);
    uint32_t *row_of = kb_array(g->in->calls.strings.count, sizeof *row_of);
    bool ok = places && row_of && kb_vec_reserve(&t->cells, g->shown * t->column_count + 1) &&
              sort_groups(g, places);
    if (ok)
        put_operator_rows(g, places, row_of, t);
    free(places);
    free(row_of);
    return ok;
}

/* count + 1 cells, all KA_NO_INT; NULL: out of memory. The caller frees them. */
static int64_t *cells_of(size_t count)
{
    int64_t *cells = kb_array(count + 1, sizeof *cells);
    for (size_t i = 0; cells && i <= count; i++)
        cells[i] = KA_NO_INT;
    return cells;
}

static bool group_all(grouping *g)
{
    size_t names = g->v->dataset->name_count;
    g->in = ka_operator_calls_get(g->v);
    if (!g->in)
        return false;
    g->groups = kb_array_zeroed(g->in->calls.strings.count, sizeof *g->groups);
    g->stack_cells = cells_of(g->in->stacks.strings.count);
    g->name_cells = cells_of(names);
    g->eligible = calloc(names + 1, 1);
    if (!g->groups || !g->stack_cells || !g->name_cells || !g->eligible)
        return false;
    for (uint32_t i = 0; i < g->v->ops.count; i++)
        if (g->v->ops.data[i].shown)
            add_call(g, i);
    return true;
}

static void grouping_free(grouping *g)
{
    free(g->groups);
    free(g->stack_cells);
    free(g->name_cells);
    free(g->eligible);
}

/* Table operators. A call inside another call of the same group counts, its time does not. */
kineto_status ka_analyze_operators(const ka_dataset *s, kineto_analysis *a, kineto_error *err)
{
    ka_table *t = ka_table_of(a, KA_TABLE_operators);
    ka_attribution v;
    grouping g = {.v = &v};
    kineto_status status = ka_attribution_get(
        s, KA_ATTRIBUTION_OPERATORS | KA_ATTRIBUTION_CALLS | KA_ATTRIBUTION_FLOPS, &v, err);
    if (!status && v.ops.count && (!group_all(&g) || !put_operator_groups(&g, t)))
        status = kb_fail_memory(err, NULL);
    if (!g.shown)
        ka_note(t, "no operators in the trace");
    grouping_free(&g);
    return status;
}
