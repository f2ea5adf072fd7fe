/* The exact attribution, derived from a dataset. One walk over the slices with a stack of what
 * encloses the current one fills the operators, the roles and the communication of the host;
 * work of devices follows the slice that launched it. Windows of steps come first, as
 * communication refers to them. */
#include "analyze/dataset/attribution.h"

#include "trace/model/steps.h"

enum { NOT_READ, OPERATOR, MARK, DATALOADER, HOST_COMMUNICATION };

/* A slice around the current one. */
typedef struct enclosing {
    uint32_t slice;
    uint32_t op;       /* the operator it is, or is in; KA_NONE */
    uint32_t taker;    /* whose own time ends where a slice inside it begins; KA_NONE */
    bool covers_inner; /* its role, or that of a slice around it, counts for all inside */
} enclosing;

typedef struct making {
    const ka_dataset *s;
    ka_attribution *v;
    uint32_t parts;
    uint8_t *hints;         /* by name: what operators and annotations of that name are */
    uint32_t *op_of;        /* by work: the operator that launched it; KA_NONE */
    uint32_t *window_of;    /* by step */
    uint32_t window_only;   /* of what is in no step: without steps there is one for all */
    uint32_t *of_process;   /* by process: its last window so far, then its team; KA_NONE */
    KB_VEC(enclosing) open; /* what encloses the slice under way */
    bool ok;
} making;

/* ---- names -------------------------------------------------------------------------------------------- */

/* Old traces have steps, data loaders and optimizers among the operators. */
static uint8_t role_hint(kineto_string name)
{
    uint64_t number;
    if (ka_is_dataloader(name))
        return DATALOADER;
    if (kb_string_starts_with(name, "gloo:"))
        return HOST_COMMUNICATION;
    if (kt_step_number(name, &number) || kb_string_starts_with(name, "Optimizer.") ||
        kb_string_equal(name, kb_string("DataParallel.forward")) ||
        kb_string_equal(name, kb_string("DistributedDataParallel.forward")))
        return MARK;
    return OPERATOR;
}

/* The hint of a name, computed once. */
static uint8_t role_hint_of_name(making *m, uint32_t name)
{
    if (m->hints[name] == NOT_READ)
        m->hints[name] = role_hint(ka_name(m->s, name));
    return m->hints[name];
}

/* ---- steps ---------------------------------------------------------------------------------------------- */

/* Appends the window of a selected step; its end is extended by its work later. */
static void add_window(making *m, const ka_step *step)
{
    ka_window w = {step->start_ns, step->end_ns, step->number, step->process};
    m->ok &= kb_vec_push(&m->v->windows, w);
}

/* A window lasts until its last work has ended, and begins no earlier than the window before it
 * in its process ended, or than that of the trace: a slice of some steps begins where the step before
 * them ended. Steps are in the order of starts. */
static void end_with_devices(making *m)
{
    for (uint32_t i = 0; i < m->s->work_count; i++) {
        const ka_work *w = &m->s->work[i];
        uint32_t window = w->step < 0 ? KA_NONE : m->window_of[w->step];
        if (window != KA_NONE)
            m->v->windows.data[window].end_ns =
                KB_MAX(m->v->windows.data[window].end_ns, w->end_ns);
    }
    int64_t trace_start_ns;
    kineto_trace_window(m->s->trace, &trace_start_ns, NULL);
    for (uint32_t i = 0; i < m->v->windows.count; i++) {
        ka_window *w = &m->v->windows.data[i];
        if (w->start_ns < trace_start_ns && trace_start_ns < w->end_ns)
            w->start_ns = trace_start_ns;
        uint32_t before = m->of_process[w->process];
        if (before != KA_NONE)
            w->start_ns = KB_MAX(w->start_ns, m->v->windows.data[before].end_ns);
        w->end_ns = KB_MAX(w->start_ns, w->end_ns);
        m->of_process[w->process] = i;
    }
}

/* One window for each selected step; without steps one for all, unless the dataset is empty. */
static void make_windows(making *m)
{
    const ka_dataset *s = m->s;
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
        m->ok &= kb_vec_push(&m->v->windows, (ka_window){s->start_ns, s->end_ns, 0, 0});
    }
}

/* Index of windows for a step index; KA_NONE: the step is not selected. */
static uint32_t window_of(const making *m, int32_t step)
{
    return step < 0 ? m->window_only : m->window_of[step];
}

/* ---- roles ---------------------------------------------------------------------------------------------- */

/* A team for each process with steps, if there are several. Work on a stream whose process has
 * no steps counts for the process that launched it. */
static void make_teams(making *m)
{
    const ka_dataset *s = m->s;
    memset(m->of_process, 0xff,
           ((size_t)kineto_trace_process_count(s->trace) + 1) * sizeof *m->of_process);
    for (size_t i = 0; i < m->v->windows.count && m->v->has_steps && m->ok; i++) {
        uint32_t process = m->v->windows.data[i].process;
        if (m->of_process[process] != KA_NONE)
            continue;
        m->of_process[process] = (uint32_t)m->v->teams.count;
        m->ok &= kb_vec_push(&m->v->teams, (ka_team){.process = process});
    }
    if (m->v->teams.count < 2)
        m->v->teams.count = 0;
    for (uint32_t i = 0; i < s->work_count && m->v->teams.count; i++) {
        const ka_work *w = &s->work[i];
        uint32_t *team = &m->of_process[s->streams[w->stream].process];
        if (*team == KA_NONE && w->call != KA_NONE)
            *team = m->of_process[s->threads[s->slices[w->call].thread].process];
    }
}

/* The process that launched the work, else the one of its stream. */
static uint32_t process_of_work(const ka_dataset *s, const ka_work *w)
{
    return w->call == KA_NONE ? s->streams[w->stream].process
                              : s->threads[s->slices[w->call].thread].process;
}

/* Adds a busy span to a role of all, and of the team of the process. */
static void add_busy_span(making *m, ka_role role, uint32_t process, int64_t start_ns,
                          int64_t end_ns)
{
    uint32_t team = m->v->teams.count ? m->of_process[process] : KA_NONE;
    m->ok &= kb_vec_push(&m->v->roles[role], (ka_span){start_ns, end_ns});
    if (team != KA_NONE)
        m->ok &= kb_vec_push(&m->v->teams.data[team].roles[role], (ka_span){start_ns, end_ns});
}

static ka_role role_of_work(const ka_work *w)
{
    if (w->type == KA_TYPE_COMMUNICATION)
        return KA_ROLE_COMMUNICATION;
    return w->kind == KINETO_KIND_GPU_MEMCPY   ? KA_ROLE_MEMCPY
           : w->kind == KINETO_KIND_GPU_MEMSET ? KA_ROLE_MEMSET
                                               : KA_ROLE_KERNEL;
}

/* KA_ROLE_COUNT: the slice says nothing about what its thread is busy with. */
static ka_role role_of_slice(making *m, const ka_slice *s)
{
    if (s->kind == KINETO_KIND_MPI || s->kind == KINETO_KIND_COLLECTIVE_COMM)
        return ka_is_mpi_call(m->s, (uint32_t)(s - m->s->slices)) ? KA_ROLE_COMMUNICATION
                                                                  : KA_ROLE_RUNTIME;
    bool named = s->kind == KINETO_KIND_CPU_OP || s->kind == KINETO_KIND_USER_ANNOTATION;
    uint8_t is = named ? role_hint_of_name(m, s->name) : MARK;
    if (kt_kind_is_launch(s->kind))
        return KA_ROLE_RUNTIME;
    if (is == DATALOADER)
        return KA_ROLE_DATALOADER;
    if (is == HOST_COMMUNICATION)
        return KA_ROLE_COMMUNICATION;
    return s->kind == KINETO_KIND_CPU_OP && is == OPERATOR ? KA_ROLE_CPU : KA_ROLE_COUNT;
}

static void make_roles(making *m)
{
    const ka_dataset *s = m->s;
    for (uint32_t i = 0; i < s->work_count && m->ok; i++) {
        const ka_work *w = &s->work[s->by_time[i]];
        add_busy_span(m, role_of_work(w), process_of_work(s, w), w->start_ns, w->end_ns);
    }
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
    KB_ASSERT(parent == KA_NONE || parent < m->v->ops.count);
    m->ok &= kb_vec_push(&m->v->ops, op);
    return (uint32_t)m->v->ops.count - 1;
}

/* Is the slice an operator, not a step or data loader that old traces record as one? */
static bool is_op(making *m, const ka_slice *s)
{
    if (s->kind != KINETO_KIND_CPU_OP)
        return false;
    uint8_t is = role_hint_of_name(m, s->name);
    return is != MARK && is != DATALOADER;
}

/* Work that the slice launched belongs to this operator. */
static void remember_op(making *m, const ka_slice *slice, uint32_t op)
{
    for (uint32_t k = 0; k < slice->work_count; k++)
        m->op_of[m->s->launched[slice->first_work + k]] = op;
}

/* An operator or call takes its time away from the operator it began in (exclusive time), unless
 * a call is in between. `self` receives what slices inside it see. */
static void add_to_ops(making *m, const ka_slice *slice, const enclosing *in, enclosing *self)
{
    bool call = kt_kind_is_launch(slice->kind), op = is_op(m, slice);
    if ((call || op) && in->taker != KA_NONE) {
        ka_op *taker = &m->v->ops.data[in->taker];
        taker->host_self_ns = ka_add_ns(taker->host_self_ns, -ka_slice_ns(slice));
    }
    self->op = op ? add_op(m, slice, in->op) : in->op;
    self->taker = op ? self->op : call ? KA_NONE : in->taker;
    remember_op(m, slice, self->op);
}

/* ---- slices --------------------------------------------------------------------------------------------- */

/* An operator inside another one adds nothing: its caller covers the time. */
static void add_to_roles(making *m, const ka_slice *slice, ka_role role, const enclosing *in)
{
    bool counted = in->covers_inner && role == KA_ROLE_CPU; /* with its caller */
    if (role != KA_ROLE_COUNT && !counted)
        add_busy_span(m, role, m->s->threads[slice->thread].process, slice->start_ns,
                      slice->end_ns);
}

/* Communication that the host itself does (gloo). */
static void add_host_communication(making *m, const ka_slice *slice)
{
    ka_communication c = {.start_ns = slice->start_ns,
                          .end_ns = slice->end_ns,
                          .bytes = ka_input_bytes(m->s->trace, slice->row, false),
                          .name = ka_name(m->s, slice->name),
                          .window = window_of(m, slice->step)};
    m->ok &= kb_vec_push(&m->v->communication, c);
}

/* A collective of MPI. Other calls of MPI are no communication of all ranks. */
static void add_mpi_collective(making *m, const ka_slice *slice)
{
    uint32_t index = (uint32_t)(slice - m->s->slices);
    ka_communication c = {.start_ns = slice->start_ns,
                          .end_ns = slice->end_ns,
                          .bytes = kb_max_i64(ka_message_bytes(m->s->trace, slice->row), 0),
                          .name = ka_name(m->s, slice->name),
                          .group = ka_mpi_group(m->s, index),
                          .window = window_of(m, slice->step)};
    if (c.group.size && !ka_arg_int(m->s->trace, slice->row, "Group size", &c.ranks))
        c.ranks = 0;
    if (ka_is_mpi_collective(m->s, index) && c.ranks != 1)
        m->ok &= kb_vec_push(&m->v->communication, c);
}

/* What is around a slice, of what was around the one before. */
static enclosing enclosing_of(making *m, const ka_slice *slice)
{
    while (m->open.count && m->open.data[m->open.count - 1].slice != slice->parent)
        m->open.count--;
    return m->open.count ? m->open.data[m->open.count - 1]
                         : (enclosing){.slice = KA_NONE, .op = KA_NONE, .taker = KA_NONE};
}

/* Adds one slice to all wanted parts and opens it for the slices inside it. */
static void attribute_slice(making *m, uint32_t index)
{
    const ka_slice *slice = &m->s->slices[index];
    enclosing in = enclosing_of(m, slice), self = {.slice = index, .op = KA_NONE, .taker = KA_NONE};
    ka_role role = m->parts & (KA_ATTRIBUTION_ROLES | KA_ATTRIBUTION_COMMUNICATION) ? role_of_slice(m, slice)
                                                                      : KA_ROLE_COUNT;
    self.covers_inner = in.covers_inner || role == KA_ROLE_CPU;
    if (m->parts & KA_ATTRIBUTION_OPERATORS)
        add_to_ops(m, slice, &in, &self);
    if (m->parts & KA_ATTRIBUTION_ROLES)
        add_to_roles(m, slice, role, &in);
    bool mpi = slice->kind == KINETO_KIND_MPI || slice->kind == KINETO_KIND_COLLECTIVE_COMM;
    if (m->parts & KA_ATTRIBUTION_COMMUNICATION && role == KA_ROLE_COMMUNICATION && mpi)
        add_mpi_collective(m, slice);
    else if (m->parts & KA_ATTRIBUTION_COMMUNICATION && role == KA_ROLE_COMMUNICATION)
        add_host_communication(m, slice);
    if (slice->next > index + 1)
        m->ok &= kb_vec_push(&m->open, self);
}

#define EACH_NTH 16u
/* About as many as there are: not all slices are fetched for it. */
static void reserve_ops(making *m)
{
    size_t count = EACH_NTH;
    for (size_t i = 0; i < m->s->slice_count; i += EACH_NTH)
        count += m->s->slices[i].kind == KINETO_KIND_CPU_OP ? EACH_NTH : 0;
    m->ok &= kb_vec_reserve(&m->v->ops, KB_MIN(count, (size_t)m->s->slice_count + 1));
}

/* All parts in one walk: fetching slices from memory costs more than examining them. */
static void attribute_slices(making *m)
{
    if (m->parts & KA_ATTRIBUTION_OPERATORS)
        reserve_ops(m);
    for (uint32_t i = 0; i < m->s->slice_count && m->ok; i++)
        attribute_slice(m, i);
}

static void unite_roles(making *m)
{
    for (uint32_t i = 0; i < KA_ROLE_COUNT; i++) {
        ka_spans_unite(&m->v->roles[i]);
        for (size_t team = 0; team < m->v->teams.count; team++)
            ka_spans_unite(&m->v->teams.data[team].roles[i]);
    }
}

/* ---- work of operators ---------------------------------------------------------------------------------- */

/* Device time of operators: exclusive from the work each launched, inclusive by the tree. */
static void give_work(making *m)
{
    for (uint32_t i = 0; i < m->s->work_count; i++) {
        const ka_work *w = &m->s->work[i];
        uint32_t op = m->op_of[i];
        if (op == KA_NONE)
            continue;
        ka_op *o = &m->v->ops.data[op];
        o->device_self_ns = ka_add_ns(o->device_self_ns, ka_work_ns(w));
        if (m->s->class_of[w->name].tensor == KA_TENSOR_YES)
            o->tensor_self_ns = ka_add_ns(o->tensor_self_ns, ka_work_ns(w));
    }
    ka_ops_add_up(&m->v->ops);
}

/* All work in the order of starts. */
static void append_work(making *m)
{
    const ka_dataset *s = m->s;
    m->ok &= kb_vec_reserve(&m->v->work, (size_t)s->work_count + 1);
    for (uint32_t i = 0; i < s->work_count && m->ok; i++) {
        const ka_work *w = &s->work[s->by_time[i]];
        m->v->work.data[m->v->work.count++] =
            (ka_attributed_work){.row = w->row,
                                 .device = s->streams[w->stream].device,
                                 .op = m->op_of[s->by_time[i]],
                                 .kind = w->kind,
                                 .tensor = s->class_of[w->name].tensor == KA_TENSOR_YES};
    }
}

/* ---- communication ---------------------------------------------------------------------------------------- */

/* The range that says which collective it is: "nccl:all_reduce". */
static uint32_t collective_around(const making *m, uint32_t slice)
{
    for (; slice != KA_NONE; slice = m->s->slices[slice].parent) {
        kineto_string name = ka_name(m->s, m->s->slices[slice].name);
        if (kb_string_starts_with(name, "nccl:") || kb_string_starts_with(name, "rccl:") ||
            kb_string_starts_with(name, "hccl:") || kb_string_starts_with(name, "xccl:"))
            return slice;
    }
    return KA_NONE;
}

/* Bytes of the inputs of the nearest enclosing slice that has any, at most 8 levels up. */
static int64_t bytes_around(const making *m, uint32_t slice)
{
    for (int n = 0; slice != KA_NONE && n < 8; n++, slice = m->s->slices[slice].parent) {
        int64_t bytes = ka_input_bytes(m->s->trace, m->s->slices[slice].row, false);
        if (bytes > 0)
            return bytes;
    }
    return 0;
}

/* Name and bytes are those of the collective around the launch, if there is one; the bytes that
 * the kernel itself reports go first. */
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
    if (m->s->definitions == ka_definitions_of(KINETO_DEFINITIONS_EXACT))
        c.group = ka_device_group(m->s, w->row, &c.ranks);
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
    const ka_dataset *s = m->s;
    for (uint32_t i = 0; i < s->work_count && m->ok; i++)
        if (s->work[s->by_time[i]].type == KA_TYPE_COMMUNICATION)
            add_device_communication(m, &s->work[s->by_time[i]]);
}

static void sort_communication(making *m)
{
    if (m->v->communication.count)
        qsort(m->v->communication.data, m->v->communication.count, sizeof *m->v->communication.data,
              compare_communication);
}

/* ---- all of it ---------------------------------------------------------------------------------------------- */

/* Windows first, then everything that refers to them. */
static void make_parts(making *m)
{
    make_windows(m);
    if (m->ok && m->parts & KA_ATTRIBUTION_ROLES)
        make_teams(m);
    if (m->ok && m->parts & KA_ATTRIBUTION_ROLES)
        make_roles(m);
    if (m->ok && m->parts & KA_ATTRIBUTION_COMMUNICATION)
        make_communication(m);
    if (m->ok && m->parts & (KA_ATTRIBUTION_OPERATORS | KA_ATTRIBUTION_ROLES | KA_ATTRIBUTION_COMMUNICATION))
        attribute_slices(m);
    if (m->ok && m->parts & KA_ATTRIBUTION_ROLES)
        unite_roles(m);
    if (m->ok && m->parts & KA_ATTRIBUTION_OPERATORS)
        give_work(m);
    if (m->ok && m->parts & KA_ATTRIBUTION_WORK)
        append_work(m);
    sort_communication(m);
}

bool ka_attribution_fill(ka_attribution *v, uint32_t parts)
{
    const ka_dataset *s = v->dataset;
    size_t works = (size_t)s->work_count + 1,
           processes = (size_t)kineto_trace_process_count(s->trace) + 1;
    making m = {.s = s,
                .v = v,
                .parts = parts,
                .hints = calloc((size_t)s->name_count + 1, 1),
                .op_of = malloc(works * sizeof *m.op_of),
                .window_of = malloc(((size_t)s->step_count + 1) * sizeof *m.window_of),
                .of_process = malloc(processes * sizeof *m.of_process)};
    m.ok = m.hints && m.op_of && m.window_of && m.of_process;
    if (m.ok) {
        memset(m.op_of, 0xff, works * sizeof *m.op_of);
        memset(m.of_process, 0xff, processes * sizeof *m.of_process);
        make_parts(&m);
    }
    free(m.hints);
    free(m.op_of);
    free(m.window_of);
    free(m.of_process);
    kb_vec_free(&m.open);
    return m.ok;
}
