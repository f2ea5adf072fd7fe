/* The table modules: modules of a model ("nn.Module: Linear_0", functions of Python) by call
 * path, with the operators and the device work of their calls. Work of the backward pass
 * belongs to the module whose forward operator has the same sequence number. */
#include "analyze/facts/analyses.h"

#include <ckineto/record.h>

/* A module of the model: one name and id; its backward pass is an entry of its own. */
typedef struct module {
    uint32_t name;
    int64_t id, parent; /* -1: none */
    bool backward;
    uint64_t calls, operators;
    uint32_t open_until; /* index of slices: what begins before is inside of a call of it */
    int64_t host_ns, host_self_ns, device_ns, device_self_ns;
    uint32_t seen; /* work that was added last, and one */
} module;

/* Index of `calls`; KA_NONE: there is none. */
typedef uint32_t call_index;

/* A call of a module. */
typedef struct call {
    uint32_t module; /* index of `list` */
    call_index around;
} call;

/* A range inside a module that may be an operator: the attribution decides, which is made
 * later. */
typedef struct inside {
    kineto_row row;
    uint32_t module;
} inside;

typedef struct modules {
    const ka_dataset *s;
    const ka_attribution *v;
    KB_VEC(module) list;
    KB_VEC(call) calls;
    KB_VEC(inside) operators;
    kb_map by_key;
    uint8_t *is_module;  /* by name: 0 not checked yet, 1 no, 2 yes */
    call_index *call_of; /* by slice: the innermost one that it is in, or is */
    uint32_t *op_of_row; /* by row: index of ops */
    uint32_t *module_of_op;
    bool no_memory;
} modules;

static void add_module_ns(int64_t *to, int64_t ns) { *to = ka_add_ns(*to, ns); }

/* Index of the module, which is appended if it is new. KA_NONE: out of memory. */
static uint32_t find_module(modules *m, uint32_t name, int64_t id, int64_t parent, bool backward)
{
    int64_t key[] = {name, id, backward};
    bool created;
    module fresh = {.name = name, .id = id, .parent = parent, .backward = backward};
    uint64_t *at = kb_map_insert(&m->by_key, kb_hash(key, sizeof key), m->list.count, &created);
    if (!at || (created && !kb_vec_push(&m->list, fresh))) {
        m->no_memory = true;
        return KA_NONE;
    }
    return (uint32_t)*at;
}

/* PyTorch names calls of modules "nn.Module: …" and gives them a "Python module id". *id is -1
 * if there is none. Decided once for each name; only the id is read again. */
static bool is_module(modules *m, const ka_slice *slice, int64_t *id)
{
    *id = -1;
    if (slice->kind != KINETO_KIND_PYTHON_FUNCTION)
        return false;
    if (!m->is_module[slice->name])
        m->is_module[slice->name] =
            kb_string_starts_with(ka_name(m->s, slice->name), "nn.Module:") ||
                    ka_arg_int(m->s->trace, slice->row, "Python module id", id)
                ? 2
                : 1;
    if (m->is_module[slice->name] == 2)
        (void)ka_arg_int(m->s->trace, slice->row, "Python module id", id);
    return m->is_module[slice->name] == 2;
}

static uint32_t module_of(const modules *m, call_index at)
{
    return at == KA_NONE ? KA_NONE : m->calls.data[at].module;
}

/* Counts a call of module `at` inside one of `outer` (or KA_NONE), whose own time it is not. A
 * recursive call adds nothing to the time with callees. */
static void count_call(modules *m, uint32_t index, uint32_t at, uint32_t outer)
{
    const ka_slice *slice = &m->s->slices[index];
    module *to = &m->list.data[at];
    to->calls++;
    add_module_ns(&to->host_self_ns, ka_slice_ns(slice));
    if (outer != KA_NONE)
        add_module_ns(&m->list.data[outer].host_self_ns, -ka_slice_ns(slice));
    if (index < to->open_until)
        return;
    to->open_until = slice->next;
    add_module_ns(&to->host_ns, ka_slice_ns(slice));
}

static void enter_module(modules *m, uint32_t index, int64_t id, call_index around)
{
    uint32_t outer = module_of(m, around);
    int64_t parent = outer == KA_NONE ? -1 : m->list.data[outer].id;
    uint32_t at = find_module(m, m->s->slices[index].name, id, parent, false);
    if (at == KA_NONE)
        return;
    m->no_memory |= !kb_vec_push(&m->calls, (call){at, around});
    m->call_of[index] = (call_index)m->calls.count - 1;
    count_call(m, index, at, outer);
}

/* Walks over ranges in the order in which what encloses comes first: the innermost call around
 * a range is that of its parent. */
static void find_modules(modules *m)
{
    int64_t id;
    for (uint32_t i = 0; i < m->s->slice_count && !m->no_memory; i++) {
        const ka_slice *slice = &m->s->slices[i];
        call_index around = slice->parent == KA_NONE ? KA_NONE : m->call_of[slice->parent];
        m->call_of[i] = around;
        if (is_module(m, slice, &id))
            enter_module(m, i, id, around);
        else if (around != KA_NONE && slice->kind == KINETO_KIND_CPU_OP)
            m->no_memory |= !kb_vec_push(&m->operators, (inside){slice->row, module_of(m, around)});
    }
}

/* ---- operators inside ------------------------------------------------------------------------ */

/* Operators of the attribution that are directly inside a module's call, by row. */
static void give_operators(modules *m)
{
    for (size_t i = 0; i < m->operators.count; i++) {
        const inside *at = &m->operators.data[i];
        uint32_t op = m->op_of_row[at->row];
        if (op == KA_NONE)
            continue;
        m->module_of_op[op] = at->module;
        m->list.data[at->module].operators++;
    }
}

/* Device time counts once for each module around the launch: `seen` keeps recursive calls from
 * adding the same work twice. */
static void give_device_time(modules *m)
{
    for (uint32_t i = 0; i < m->s->work_count; i++) {
        const ka_work *w = &m->s->work[i];
        call_index inner = w->call == KA_NONE ? KA_NONE : m->call_of[w->call];
        if (inner == KA_NONE)
            continue;
        add_module_ns(&m->list.data[module_of(m, inner)].device_self_ns, ka_work_ns(w));
        for (call_index c = inner; c != KA_NONE; c = m->calls.data[c].around) {
            module *of = &m->list.data[module_of(m, c)];
            if (of->seen == i + 1)
                continue;
            of->seen = i + 1;
            add_module_ns(&of->device_ns, ka_work_ns(w));
        }
    }
}

/* ---- backward -------------------------------------------------------------------------------- */

/* The outermost operator around a backward one that no other module's forward follows: the
 * engine's frame "autograd::engine::evaluate_function: …" around it, if there is one. */
static uint32_t frame_of(const modules *m, uint32_t op)
{
    uint32_t parent = m->v->ops.data[op].parent;
    if (parent != KA_NONE && kb_string_starts_with(ka_name(m->s, m->v->ops.data[parent].name),
                                              "autograd::engine::evaluate_function"))
        return parent;
    return op;
}

/* Adds the backward operator `op` of a module's forward operator, with its callees [op, next). */
static void give_backward(modules *m, uint32_t at, uint32_t op)
{
    const module from = m->list.data[at];
    const ka_op *o = &m->v->ops.data[op];
    uint32_t back = find_module(m, from.name, from.id, from.parent, true);
    if (back == KA_NONE)
        return;
    module *to = &m->list.data[back];
    to->calls++;
    to->operators += o->next - op;
    add_module_ns(&to->host_ns, kb_length_ns(o->start_ns, o->end_ns));
    add_module_ns(&to->host_self_ns, o->host_self_ns);
    add_module_ns(&to->device_ns, o->device_ns);
    add_module_ns(&to->device_self_ns, o->device_self_ns);
}

/* Follows the links from forward to backward operators. Several links may lead into one frame,
 * which counts once, for the first module. False: out of memory. */
static bool fold_backward(modules *m)
{
    const kineto_trace *t = m->s->trace;
    uint8_t *folded = calloc(m->v->ops.count + 1, 1);
    for (uint64_t i = 0; folded && i < kineto_trace_flow_count(t) && !m->no_memory; i++) {
        kineto_flow flow;
        kineto_trace_flow(t, i, &flow);
        if (flow.type != KINETO_FLOW_FWD_BWD || flow.from == KINETO_NO_ROW ||
            flow.to == KINETO_NO_ROW)
            continue;
        uint32_t forward = m->op_of_row[flow.from], backward = m->op_of_row[flow.to];
        if (forward == KA_NONE || backward == KA_NONE || m->module_of_op[forward] == KA_NONE)
            continue;
        uint32_t frame = frame_of(m, backward);
        if (!folded[frame])
            give_backward(m, m->module_of_op[forward], frame);
        folded[frame] = 1;
    }
    free(folded);
    return folded != NULL && !m->no_memory;
}

/* ---- the table ------------------------------------------------------------------------------- */

static void put_module(const modules *m, const module *of, ka_table *t)
{
    kineto_string name = ka_name(m->s, of->name);
    char text[512];
    int size = snprintf(text, sizeof text, "%.*s.backward", (int)KB_MIN(name.size, (size_t)480),
                        name.data);
    ka_put_int(t, m->s->rank);
    ka_put_text(t, of->backward ? (kineto_string){text, (size_t)size} : name);
    ka_put_int(t, of->id);
    ka_put_int(t, of->parent);
    ka_put_int(t, (int64_t)of->calls);
    ka_put_int(t, (int64_t)of->operators);
    ka_put_ns(t, of->host_ns);
    ka_put_ns(t, of->host_self_ns);
    ka_put_ns(t, of->device_ns);
    ka_put_ns(t, of->device_self_ns);
    ka_put_number(t, of->calls ? ka_us(of->host_ns) / (double)of->calls : 0);
}

/* Makes the index of operators by row. False: out of memory. */
static bool number_operators(modules *m)
{
    size_t rows = (size_t)kineto_trace_count(m->s->trace) + 1;
    m->op_of_row = kb_array(rows, sizeof *m->op_of_row);
    m->module_of_op = kb_array(m->v->ops.count + 1, sizeof *m->module_of_op);
    if (!m->op_of_row || !m->module_of_op)
        return false;
    memset(m->op_of_row, 0xff, rows * sizeof *m->op_of_row);
    memset(m->module_of_op, 0xff, (m->v->ops.count + 1) * sizeof *m->module_of_op);
    for (uint32_t i = 0; i < m->v->ops.count; i++)
        m->op_of_row[m->v->ops.data[i].row] = i;
    return true;
}

static bool has_python(const ka_dataset *s)
{
    for (uint32_t i = 0; i < s->slice_count; i++)
        if (s->slices[i].kind == KINETO_KIND_PYTHON_FUNCTION)
            return true;
    return false;
}

/* The attribution is expensive: it is made only if the trace has modules. */
static kineto_status make_module_list(modules *m, ka_attribution *v, kineto_error *err)
{
    m->is_module = calloc((size_t)m->s->name_count + 1, 1);
    m->call_of = kb_array((size_t)m->s->slice_count + 1, sizeof *m->call_of);
    m->no_memory = !m->is_module || !m->call_of;
    if (!m->no_memory)
        find_modules(m);
    if (m->no_memory)
        return kb_fail_memory(err, NULL);
    if (!m->list.count)
        return KINETO_OK;
    kineto_status status = ka_attribution_get(m->s, KA_ATTRIBUTION_OPERATORS, v, err);
    if (status)
        return status;
    if (!number_operators(m))
        return kb_fail_memory(err, NULL);
    give_operators(m);
    give_device_time(m);
    return fold_backward(m) ? KINETO_OK : kb_fail_memory(err, NULL);
}

/* Table modules. Makes the part KA_ATTRIBUTION_OPERATORS of the view only if the trace has
 * modules. */
kineto_status ka_analyze_modules(const ka_dataset *s, kineto_analysis *a, kineto_error *err)
{
    ka_table *t = ka_table_of(a, KA_TABLE_modules);
    ka_attribution v = {0};
    modules m = {.s = s, .v = &v};
    kineto_status status = has_python(s) ? make_module_list(&m, &v, err) : KINETO_OK;
    for (size_t i = 0; i < m.list.count && !status; i++)
        put_module(&m, &m.list.data[i], t);
    if (!m.list.count)
        ka_note(t, "no modules in the trace%s",
                ka_is_torch(s->trace) ? " (with_modules and with_stack=True record them)" : "");
    KA_SORT(t, KA_DOWN(modules, host_total_us), KA_UP(modules, module), KA_UP(modules, id));
    kb_vec_free(&m.list);
    kb_vec_free(&m.calls);
    kb_vec_free(&m.operators);
    kb_map_free(&m.by_key);
    free(m.is_module);
    free(m.call_of);
    free(m.op_of_row);
    free(m.module_of_op);
    return status;
}
