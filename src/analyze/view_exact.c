/* A view with exact definitions, of a scope. */
#include "analyze/view.h"

#include "trace/change/select.h"

enum { NOT_LOOKED_AT, OPERATOR, MARK, DATALOADER, HOST_COMMUNICATION };

typedef struct making {
    const ka_scope *s;
    ka_view *v;
    uint8_t *says; /* by name: what operators and annotations of that name are */
    /* By slice: the operator it is, or is in. While roles are found: is one there? */
    uint32_t *op_of;
    uint32_t *taker;      /* by slice: whose own time ends where a slice inside it begins */
    uint32_t *window_of;  /* by step */
    uint32_t window_only; /* of what is in no step: without steps there is one for all */
    bool ok;
} making;

/* ---- names -------------------------------------------------------------------------------------------- */

/* Old traces have steps, data loaders and optimizers among the operators. */
static uint8_t what_is(kineto_string name)
{
    uint64_t number;
    if (ka_is_dataloader(name))
        return DATALOADER;
    if (kb_string_begins(name, "gloo:"))
        return HOST_COMMUNICATION;
    if (kt_step_number(name, &number) || kb_string_begins(name, "Optimizer.") ||
        kb_string_equal(name, kb_string("DataParallel.forward")) ||
        kb_string_equal(name, kb_string("DistributedDataParallel.forward")))
        return MARK;
    return OPERATOR;
}

static uint8_t says(making *m, uint32_t name)
{
    if (m->says[name] == NOT_LOOKED_AT)
        m->says[name] = what_is(ka_name(m->s, name));
    return m->says[name];
}

/* ---- steps ---------------------------------------------------------------------------------------------- */

static void add_window(making *m, const ka_step *step)
{
    ka_window w = {step->start_ns, step->end_ns, step->number};
    m->ok &= kb_vec_push(&m->v->windows, w);
}

static void end_with_devices(making *m)
{
    for (uint32_t i = 0; i < m->s->work_count; i++) {
        const ka_work *w = &m->s->work[i];
        uint32_t window = w->step < 0 ? KA_NONE : m->window_of[w->step];
        if (window != KA_NONE)
            m->v->windows.data[window].end_ns =
                KB_MAX(m->v->windows.data[window].end_ns, w->end_ns);
    }
    for (size_t i = 1; i < m->v->windows.count; i++) {
        ka_window *w = &m->v->windows.data[i];
        w->start_ns = KB_MAX(w->start_ns, w[-1].end_ns);
        w->end_ns = KB_MAX(w->start_ns, w->end_ns);
    }
}

static void make_windows(making *m)
{
    const ka_scope *s = m->s;
    m->window_only = KA_NONE;
    for (uint32_t i = 0; i < s->step_count; i++) {
        m->window_of[i] = s->steps[i].slice == KA_NONE ? KA_NONE : (uint32_t)m->v->windows.count;
        if (m->window_of[i] != KA_NONE)
            add_window(m, &s->steps[i]);
    }
    m->v->has_steps = m->v->windows.count > 0;
    if (m->v->has_steps) {
        if (m->ok)
            end_with_devices(m);
    } else if (s->start_ns < s->end_ns) {
        m->window_only = 0;
        m->ok &= kb_vec_push(&m->v->windows, (ka_window){s->start_ns, s->end_ns, 0});
    }
}

static uint32_t window_of(const making *m, int32_t step)
{
    return step < 0 ? m->window_only : m->window_of[step];
}

/* ---- roles ---------------------------------------------------------------------------------------------- */

static void busy(making *m, ka_role role, int64_t start_ns, int64_t end_ns)
{
    m->ok &= kb_vec_push(&m->v->roles[role], (ka_span){start_ns, end_ns});
}

static ka_role role_of_work(const ka_work *w)
{
    if (w->type == KA_TYPE_COMMUNICATION)
        return KA_ROLE_COMMUNICATION;
    return w->kind == KINETO_KIND_GPU_MEMCPY   ? KA_ROLE_MEMCPY
           : w->kind == KINETO_KIND_GPU_MEMSET ? KA_ROLE_MEMSET
                                               : KA_ROLE_KERNEL;
}

static ka_role role_of_slice(making *m, const ka_slice *s)
{
    bool named = s->kind == KINETO_KIND_CPU_OP || s->kind == KINETO_KIND_USER_ANNOTATION;
    uint8_t is = named ? says(m, s->name) : MARK;
    if (s->kind == KINETO_KIND_RUNTIME || s->kind == KINETO_KIND_DRIVER)
        return KA_ROLE_RUNTIME;
    if (is == DATALOADER)
        return KA_ROLE_DATALOADER;
    if (is == HOST_COMMUNICATION)
        return KA_ROLE_COMMUNICATION;
    return s->kind == KINETO_KIND_CPU_OP && is == OPERATOR ? KA_ROLE_CPU : KA_ROLE_COUNT;
}

static void make_roles(making *m)
{
    const ka_scope *s = m->s;
    for (uint32_t i = 0; i < s->work_count && m->ok; i++) {
        const ka_work *w = &s->work[s->by_time[i]];
        busy(m, role_of_work(w), w->start_ns, w->end_ns);
    }
    for (uint32_t i = 0; i < s->slice_count && m->ok; i++) {
        const ka_slice *slice = &s->slices[i];
        ka_role role = role_of_slice(m, slice);
        bool inside =
            slice->parent != KA_NONE && m->op_of[slice->parent]; /* its caller says it all */
        m->op_of[i] = role == KA_ROLE_CPU || inside;
        inside &= role == KA_ROLE_CPU;
        if (role != KA_ROLE_COUNT && !inside)
            busy(m, role, slice->start_ns, slice->end_ns);
    }
    for (uint32_t i = 0; i < KA_ROLE_COUNT; i++)
        ka_spans_unite(&m->v->roles[i]);
}

/* ---- operators ------------------------------------------------------------------------------------------ */

static uint32_t add_op(making *m, const ka_slice *slice, uint32_t parent)
{
    ka_op op = {.start_ns = slice->start_ns,
                .end_ns = slice->end_ns,
                .host_self_ns = ka_slice_ns(slice),
                .row = slice->row,
                .name = slice->name,
                .track = m->s->threads[slice->thread].track,
                .thread = slice->thread,
                .parent = parent,
                .shown = true};
    m->ok &= kb_vec_push(&m->v->ops, op);
    return (uint32_t)m->v->ops.count - 1;
}

static void make_ops(making *m)
{
    const ka_scope *s = m->s;
    size_t count = 1;
    for (uint32_t i = 0; i < s->slice_count; i++)
        count += s->slices[i].kind == KINETO_KIND_CPU_OP;
    m->ok &= kb_vec_reserve(&m->v->ops, count);
    for (uint32_t i = 0; i < s->slice_count && m->ok; i++) {
        const ka_slice *slice = &s->slices[i];
        bool is_call = slice->kind == KINETO_KIND_RUNTIME || slice->kind == KINETO_KIND_DRIVER;
        bool is_op = slice->kind == KINETO_KIND_CPU_OP && says(m, slice->name) != MARK &&
                     says(m, slice->name) != DATALOADER;
        uint32_t in = slice->parent == KA_NONE ? KA_NONE : m->op_of[slice->parent];
        uint32_t taker = slice->parent == KA_NONE ? KA_NONE : m->taker[slice->parent];
        if ((is_call || is_op) && taker != KA_NONE) {
            ka_op *op = &m->v->ops.data[taker];
            op->host_self_ns = ka_add_ns(op->host_self_ns, -ka_slice_ns(slice));
        }
        m->op_of[i] = is_op ? add_op(m, slice, in) : in;
        m->taker[i] = is_op ? m->op_of[i] : is_call ? KA_NONE : taker;
    }
}

static void give_work(making *m)
{
    for (uint32_t i = 0; i < m->s->work_count; i++) {
        const ka_work *w = &m->s->work[i];
        uint32_t op = w->call == KA_NONE ? KA_NONE : m->op_of[w->call];
        if (op == KA_NONE)
            continue;
        ka_op *o = &m->v->ops.data[op];
        o->device_self_ns = ka_add_ns(o->device_self_ns, ka_work_ns(w));
        if (m->s->class_of[w->name].tensor == KA_TENSOR_YES)
            o->tensor_self_ns = ka_add_ns(o->tensor_self_ns, ka_work_ns(w));
    }
    ka_ops_add_up(&m->v->ops);
}

static void make_done(making *m, bool with_ops)
{
    const ka_scope *s = m->s;
    m->ok &= kb_vec_reserve(&m->v->done, (size_t)s->work_count + 1);
    for (uint32_t i = 0; i < s->work_count && m->ok; i++) {
        const ka_work *w = &s->work[s->by_time[i]];
        ka_done d = {.start_ns = w->start_ns,
                     .end_ns = w->end_ns,
                     .row = w->row,
                     .name = w->name,
                     .op = with_ops && w->call != KA_NONE ? m->op_of[w->call] : KA_NONE,
                     .device = s->streams[w->stream].device,
                     .kind = w->kind,
                     .tensor = s->class_of[w->name].tensor == KA_TENSOR_YES};
        m->v->done.data[m->v->done.count++] = d;
    }
}

/* ---- communication ---------------------------------------------------------------------------------------- */

/* The range that says which collective it is: "nccl:all_reduce". */
static uint32_t collective_around(const making *m, uint32_t slice)
{
    for (; slice != KA_NONE; slice = m->s->slices[slice].parent) {
        kineto_string name = ka_name(m->s, m->s->slices[slice].name);
        if (kb_string_begins(name, "nccl:") || kb_string_begins(name, "rccl:") || kb_string_begins(name, "hccl:") ||
            kb_string_begins(name, "xccl:"))
            return slice;
    }
    return KA_NONE;
}

static int64_t bytes_around(const making *m, uint32_t slice)
{
    for (int n = 0; slice != KA_NONE && n < 8; n++, slice = m->s->slices[slice].parent) {
        int64_t bytes = ka_input_bytes(m->s->trace, m->s->slices[slice].row, false);
        if (bytes > 0)
            return bytes;
    }
    return 0;
}

static void add_device_communication(making *m, const ka_work *w)
{
    uint32_t around = w->call == KA_NONE ? KA_NONE : collective_around(m, w->call);
    int64_t bytes = ka_message_bytes(m->s->trace, w->row);
    if (bytes < 0)
        bytes = bytes_around(m, around == KA_NONE ? w->call : around);
    ka_communication c = {
        .start_ns = w->start_ns,
        .end_ns = w->end_ns,
        .bytes = bytes,
        .name = ka_name(m->s, around == KA_NONE ? w->name : m->s->slices[around].name),
        .window = window_of(m, w->step)};
    m->ok &= kb_vec_push(&m->v->communication, c);
}

static int compare_communication(const void *left, const void *right)
{
    const ka_communication *a = left, *b = right;
    if (a->start_ns != b->start_ns)
        return a->start_ns < b->start_ns ? -1 : 1;
    return a->end_ns > b->end_ns ? -1 : a->end_ns < b->end_ns;
}

static void make_communication(making *m)
{
    const ka_scope *s = m->s;
    for (uint32_t i = 0; i < s->work_count && m->ok; i++)
        if (s->work[s->by_time[i]].type == KA_TYPE_COMMUNICATION)
            add_device_communication(m, &s->work[s->by_time[i]]);
    for (uint32_t i = 0; i < s->slice_count && m->ok; i++) {
        const ka_slice *slice = &s->slices[i];
        if (role_of_slice(m, slice) != KA_ROLE_COMMUNICATION)
            continue;
        ka_communication c = {slice->start_ns, slice->end_ns,
                              ka_input_bytes(s->trace, slice->row, false), ka_name(s, slice->name),
                              window_of(m, slice->step)};
        m->ok &= kb_vec_push(&m->v->communication, c);
    }
    if (m->v->communication.count)
        qsort(m->v->communication.data, m->v->communication.count, sizeof *m->v->communication.data,
              compare_communication);
}

/* ---- all of it ---------------------------------------------------------------------------------------------- */

bool ka_view_fill_exact(ka_view *v, uint32_t parts)
{
    const ka_scope *s = v->scope;
    making m = {.s = s,
                .v = v,
                .says = calloc((size_t)s->name_count + 1, 1),
                .op_of = malloc(((size_t)s->slice_count + 1) * sizeof *m.op_of),
                .taker = malloc(((size_t)s->slice_count + 1) * sizeof *m.taker),
                .window_of = malloc(((size_t)s->step_count + 1) * sizeof *m.window_of)};
    m.ok = m.says && m.op_of && m.taker && m.window_of;
    if (m.ok)
        make_windows(&m);
    if (m.ok && parts & KA_VIEW_ROLES)
        make_roles(&m);
    if (m.ok && parts & KA_VIEW_OPS)
        make_ops(&m);
    if (m.ok && parts & KA_VIEW_OPS)
        give_work(&m);
    if (m.ok && parts & KA_VIEW_DONE)
        make_done(&m, parts & KA_VIEW_OPS);
    if (m.ok && parts & KA_VIEW_COMMUNICATION)
        make_communication(&m);
    free(m.says);
    free(m.op_of);
    free(m.taker);
    free(m.window_of);
    return m.ok;
}
