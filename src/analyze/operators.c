/* Operators by name, shapes of their inputs and the stack they were called from: their time on the
 * host and on devices, FLOPs, and whether tensor cores could help and do. */
#include "analyze/view.h"

#include "profiler/flops.h"
#include "trace/text/json_text.h"

#define STACK_FRAMES 8u /* of Python's functions, where the trace has no text of a stack */

typedef struct group {
    uint32_t name, shapes, stack; /* string of the trace; ids in `texts` */
    uint32_t open_until;          /* index of ops: what begins before is inside of a call of it */
    uint64_t calls, flops, flops_each;
    bool has_each; /* all calls have the same FLOPs */
    int64_t host_ns, host_self_ns, device_ns, device_self_ns, tensor_ns, tensor_self_ns;
} group;

typedef struct grouping {
    const ka_view *v;
    kb_intern texts;      /* as the file has them */
    uint32_t *cell_of;    /* by id in them: id of the table's text; KA_NONE: it is not there yet */
    uint32_t *name_cells; /* the same, by name */
    kb_map by_key, flops, frames;
    KB_VEC(group) groups;
    uint32_t *group_of;     /* by op */
    uint64_t *flops_of;     /* by op */
    uint8_t *counts;        /* by name: how FLOPs are counted */
    uint8_t *eligible;      /* by name: 0 not looked at, 1 no, 2 yes */
    kineto_row last_python; /* … and its stack */
    uint32_t last_stack;
    bool has_python, has_dims;
    bool no_memory;
} grouping;

/* ---- shapes and stacks ------------------------------------------------------------------------------ */

/* A list with one space behind each comma, whatever the file has. */
static void put_shapes(ka_table *t, kineto_string raw)
{
    char small[1024], *text = raw.size * 2 <= sizeof small ? small : malloc(raw.size * 2);
    size_t n = 0;
    t->no_memory |= !text;
    for (size_t i = 0; text && i < raw.size; i++) {
        char c = raw.data[i];
        if (c == ' ' || c == '\n' || c == '\t' || c == '\r')
            continue;
        text[n++] = c;
        if (c == ',')
            text[n++] = ' ';
    }
    ka_put_text(t, (kineto_string){text, n});
    if (text != small)
        free(text);
}

static void put_stack(ka_table *t, kineto_string raw)
{
    kineto_string inside = kt_json_is_string(raw) ? kt_json_inside(raw) : raw;
    uint64_t replaced = 0;
    if (!inside.size || !kt_json_is_string(raw) || !memchr(inside.data, '\\', inside.size)) {
        ka_put_text(t, inside);
        return;
    }
    char *text = malloc(inside.size);
    t->no_memory |= !text;
    size_t size = text ? (size_t)(kt_json_unescape(text, inside, &replaced) - text) : 0;
    ka_put_text(t, (kineto_string){text, size});
    free(text);
}

/* A text that the table may have already. */
static void put_once(ka_table *t, uint32_t *cell, kineto_string text,
                     void (*put)(ka_table *t, kineto_string text))
{
    if (*cell != KA_NONE) {
        ka_put_int(t, *cell);
        return;
    }
    put(t, text);
    if (!t->no_memory)
        *cell = (uint32_t)t->cells.data[t->cells.count - 1].i;
}

static uint32_t text_of(grouping *g, kineto_string raw)
{
    uint32_t id = raw.size ? kb_intern_id(&g->texts, raw) : 0;
    g->no_memory |= id == KB_INTERN_NONE;
    return id;
}

/* The innermost function of Python around a row. */
static kineto_row python_around(const kineto_trace *t, kineto_row row)
{
    kineto_row p = kineto_trace_parent(t, row);
    while (p != KINETO_NO_ROW && kt_block_at(t, p / KT_BLOCK_ROWS)->kind[p % KT_BLOCK_ROWS] !=
                                     KINETO_KIND_PYTHON_FUNCTION)
        p = kineto_trace_parent(t, p);
    return p;
}

static uint32_t stack_of_names(grouping *g, const uint32_t *names, uint32_t count)
{
    char text[STACK_FRAMES * 256];
    size_t n = 0;
    bool created;
    uint64_t *id = kb_map_insert(&g->frames, kb_hash(names, count * sizeof *names), 0, &created);
    for (uint32_t i = 0; id && created && i < count; i++) {
        kineto_string name = kineto_trace_string(g->v->scope->trace, names[i]);
        size_t size = KB_MIN(name.size, (size_t)255);
        memcpy(text + n, name.data, size);
        n += size;
        text[n++] = ';';
    }
    if (id && created)
        *id = kb_intern_id(&g->texts, (kineto_string){text, n ? n - 1 : 0});
    g->no_memory |= !id || *id == KB_INTERN_NONE;
    return id ? (uint32_t)*id : 0;
}

/* As PyTorch writes stacks. Operators that follow one another are mostly called by the same
 * function. */
static uint32_t python_stack(grouping *g, kineto_row row)
{
    const kineto_trace *t = g->v->scope->trace;
    uint32_t names[STACK_FRAMES], count = 0;
    kineto_row innermost = python_around(t, row);
    if (innermost == KINETO_NO_ROW || innermost == g->last_python)
        return innermost == KINETO_NO_ROW ? 0 : g->last_stack;
    for (kineto_row p = innermost; p != KINETO_NO_ROW && count < STACK_FRAMES;
         p = python_around(t, p))
        names[count++] = kt_block_at(t, p / KT_BLOCK_ROWS)->name[p % KT_BLOCK_ROWS];
    g->last_python = innermost;
    return g->last_stack = stack_of_names(g, names, count);
}

/* ---- FLOPs ---------------------------------------------------------------------------------------------- */

enum { NOT_LOOKED_AT, NO_FLOPS, BY_SHAPES, BY_VALUES, BY_FUNCTION };

static uint8_t how_counted(grouping *g, uint32_t name, kineto_row row)
{
    uint64_t flops;
    const kp_flops_rule *rule = kp_flops_rule_find(ka_name(g->v->scope, name));
    if (kp_flops_row(g->v->scope->trace, row, &flops) == KP_FLOPS_UNKNOWN)
        return NO_FLOPS;
    if (!rule)
        return BY_FUNCTION;
    return rule->count == kp_flops_conv || rule->count == kp_flops_conv_backward ? BY_VALUES
                                                                                 : BY_SHAPES;
}

/* Formulas look at sizes, those of convolutions at values, too: what has the same ones is counted
 * once. */
static uint64_t flops_of(grouping *g, const ka_op *op, group *of)
{
    const kineto_trace *t = g->v->scope->trace;
    uint64_t flops = 0;
    uint8_t *how = &g->counts[op->name];
    if (*how == NOT_LOOKED_AT)
        *how = how_counted(g, op->name, op->row);
    if (*how == NO_FLOPS || of->has_each)
        return of->flops_each;
    uint64_t key = (uint64_t)op->name << 32 | of->shapes;
    kineto_string values = {"", 0};
    if (*how == BY_VALUES)
        values = ka_arg_text(t, op->row, "Concrete Inputs");
    if (*how == BY_FUNCTION || (*how == BY_VALUES && !values.size)) {
        (void)kp_flops_row(t, op->row, &flops);
        return flops;
    }
    if (*how == BY_VALUES)
        key = kb_hash_seeded(key, values.data, values.size);
    bool created;
    uint64_t *known = kb_map_insert(&g->flops, key, 0, &created);
    g->no_memory |= !known;
    if (known && created)
        (void)kp_flops_row(t, op->row, known);
    of->has_each = *how == BY_SHAPES;
    of->flops_each = of->has_each && known ? *known : 0;
    return known ? *known : 0;
}

/* ---- groups ------------------------------------------------------------------------------------------ */

static uint32_t find_group(grouping *g, uint32_t name, uint32_t shapes, uint32_t stack)
{
    uint32_t key[] = {name, shapes, stack};
    for (uint64_t hash = kb_hash(key, sizeof key);; hash++) {
        bool created;
        uint64_t *at = kb_map_insert(&g->by_key, hash, g->groups.count, &created);
        group fresh = {.name = name, .shapes = shapes, .stack = stack};
        if (!at || (created && !kb_vec_push(&g->groups, fresh))) {
            g->no_memory = true;
            return 0;
        }
        const group *found = &g->groups.data[*at];
        if (found->name == name && found->shapes == shapes && found->stack == stack)
            return (uint32_t)*at;
    }
}

static void read_op(grouping *g, uint32_t index)
{
    const ka_op *op = &g->v->ops.data[index];
    const kineto_trace *t = g->v->scope->trace;
    bool plugin = g->v->scope->hta;
    kineto_string dims = ka_arg_text(t, op->row, "Input Dims");
    g->has_dims |= dims.size > 0;
    if (!dims.size && !g->has_dims) /* old traces spell it so, and none both ways */
        dims = ka_arg_text(t, op->row, "Input dims");
    uint32_t shapes = text_of(g, dims), stack = 0;
    if (!plugin) {
        stack = text_of(g, ka_arg_text(t, op->row, "Call stack"));
        if (!stack && g->has_python)
            stack = python_stack(g, op->row);
    }
    g->group_of[index] = find_group(g, op->name, shapes, stack);
    if (!plugin && !g->no_memory)
        g->flops_of[index] = flops_of(g, op, &g->groups.data[g->group_of[index]]);
}

/* In the order of rows: so arguments in compressed files are had cheaply. */
static bool read_ops(grouping *g)
{
    size_t rows = (size_t)kineto_trace_count(g->v->scope->trace);
    uint32_t *op_of = malloc((rows + 1) * sizeof *op_of);
    if (!op_of)
        return false;
    memset(op_of, 0xff, rows * sizeof *op_of);
    for (uint32_t i = 0; i < g->v->ops.count; i++)
        if (g->v->ops.data[i].shown)
            op_of[g->v->ops.data[i].row] = i;
    for (size_t row = 0; row < rows && !g->no_memory; row++)
        if (op_of[row] != KA_NONE)
            read_op(g, op_of[row]);
    free(op_of);
    return !g->no_memory;
}

static void add(int64_t *to, int64_t ns) { *to = ka_add_ns(*to, ns); }

/* A call inside another one of the same group has its time in that one's; the plug-in adds both. */
static void add_call(grouping *g, uint32_t index)
{
    const ka_op *op = &g->v->ops.data[index];
    group *to = &g->groups.data[g->group_of[index]];
    bool again = index < to->open_until && !g->v->scope->hta;
    to->calls++;
    add(&to->host_self_ns, op->host_self_ns);
    add(&to->device_self_ns, op->device_self_ns);
    add(&to->tensor_self_ns, op->tensor_self_ns);
    if (again)
        return;
    to->open_until = op->next;
    to->flops =
        to->flops > UINT64_MAX - g->flops_of[index] ? UINT64_MAX : to->flops + g->flops_of[index];
    add(&to->host_ns, kb_length_ns(op->start_ns, op->end_ns));
    add(&to->device_ns, op->device_ns);
    add(&to->tensor_ns, op->tensor_ns);
}

/* ---- the table ---------------------------------------------------------------------------------------- */

static bool is_eligible(const grouping *g, uint32_t id)
{
    kineto_string name = ka_name(g->v->scope, id);
    if (!g->eligible[id])
        g->eligible[id] =
            g->v->scope->hta ? 1 + ka_plugin_eligible(name) : 1 + ka_is_eligible(name);
    return g->eligible[id] == 2;
}

/* What groups are shown by, beside them: there can be many. */
typedef struct place {
    int64_t device_ns, host_ns;
    uint32_t group;
} place;

static int compare_places(const void *left, const void *right)
{
    const place *a = left, *b = right;
    if (a->device_ns != b->device_ns)
        return a->device_ns > b->device_ns ? -1 : 1;
    if (a->host_ns != b->host_ns)
        return a->host_ns > b->host_ns ? -1 : 1;
    return a->group < b->group ? -1 : a->group > b->group; /* in the order of first calls */
}

static void put_group(const grouping *g, const group *of, ka_table *t)
{
    put_once(t, &g->name_cells[of->name], ka_name(g->v->scope, of->name), ka_put_text);
    put_once(t, &g->cell_of[of->shapes], kb_intern_get(&g->texts, of->shapes), put_shapes);
    put_once(t, &g->cell_of[of->stack], kb_intern_get(&g->texts, of->stack), put_stack);
    ka_put_int(t, (int64_t)of->calls);
    ka_put_ns(t, of->host_ns);
    ka_put_ns(t, of->host_self_ns);
    ka_put_ns(t, of->device_ns);
    ka_put_ns(t, of->device_self_ns);
    ka_put_number(t, (double)of->flops);
    ka_put_int(t, is_eligible(g, of->name));
    ka_put_number(t, ka_percent((double)of->tensor_self_ns, (double)of->device_self_ns));
    ka_put_number(t, ka_percent((double)of->tensor_ns, (double)of->device_ns));
}

/* Rows are put in the order of groups, and moved then: both walk through memory in one direction.
 */
static bool put_groups(grouping *g, ka_table *t)
{
    size_t count = g->groups.count, columns = t->column_count;
    size_t texts = g->texts.strings.count + 1, names = (size_t)g->v->scope->name_count + 1;
    place *order = malloc((count + 1) * sizeof *order);
    g->cell_of = malloc(texts * sizeof *g->cell_of);
    g->name_cells = malloc(names * sizeof *g->name_cells);
    ka_cell *sorted = malloc((count + 1) * columns * sizeof *sorted);
    bool ok = order && sorted && g->cell_of && g->name_cells &&
              kb_vec_reserve(&t->cells, count * columns + 1);
    if (ok) {
        memset(g->cell_of, 0xff, texts * sizeof *g->cell_of);
        memset(g->name_cells, 0xff, names * sizeof *g->name_cells);
    }
    for (uint32_t i = 0; ok && i < count; i++) {
        put_group(g, &g->groups.data[i], t);
        order[i] = (place){g->groups.data[i].device_self_ns, g->groups.data[i].host_self_ns, i};
    }
    if (ok && count)
        qsort(order, count, sizeof *order, compare_places);
    for (size_t i = 0; ok && i < count; i++)
        memcpy(sorted + i * columns, t->cells.data + order[i].group * columns,
               columns * sizeof *sorted);
    if (ok && count)
        memcpy(t->cells.data, sorted, count * columns * sizeof *sorted);
    free(order);
    free(sorted);
    return ok;
}

static bool group_all(grouping *g)
{
    size_t count = g->v->ops.count + 1, names = (size_t)g->v->scope->name_count + 1;
    g->group_of = malloc(count * sizeof *g->group_of);
    g->flops_of = calloc(count, sizeof *g->flops_of);
    g->counts = calloc(names, 1);
    g->eligible = calloc(names, 1);
    if (!g->group_of || !g->flops_of || !g->counts || !g->eligible ||
        kb_intern_id(&g->texts, kb_string("")) != 0)
        return false;
    for (uint32_t i = 0; i < g->v->scope->slice_count && !g->has_python; i++)
        g->has_python = g->v->scope->slices[i].kind == KINETO_KIND_PYTHON_FUNCTION;
    if (!read_ops(g))
        return false;
    for (uint32_t i = 0; i < g->v->ops.count; i++)
        if (g->v->ops.data[i].shown)
            add_call(g, i);
    return true;
}

static void grouping_free(grouping *g)
{
    kb_intern_free(&g->texts);
    kb_map_free(&g->by_key);
    kb_map_free(&g->flops);
    kb_map_free(&g->frames);
    kb_vec_free(&g->groups);
    free(g->group_of);
    free(g->flops_of);
    free(g->cell_of);
    free(g->name_cells);
    free(g->counts);
    free(g->eligible);
}

kineto_status ka_analyze_operators(const ka_scope *s, kineto_analysis *a, kineto_error *err)
{
    ka_table *t = ka_table_of(a, KA_TABLE_operators);
    ka_view v;
    grouping g = {.v = &v, .last_python = KINETO_NO_ROW};
    kineto_status status = ka_view_get(s, KA_VIEW_OPS, &v, err);
    if (!status && v.ops.count && !group_all(&g))
        status = kb_fail(err, KINETO_E_MEMORY, "out of memory");
    if (!status && !put_groups(&g, t))
        status = kb_fail(err, KINETO_E_MEMORY, "out of memory");
    if (!g.groups.count)
        ka_note(t, "no operators in the trace");
    grouping_free(&g);
    return status;
}
