/* Attribution as the TensorBoard plug-in 0.4.3 reads a trace, for the tables that HTA does not have, with
 * those of its mistakes that are choices of definition.
 *
 * It reads the rows of the trace, not the dataset: all of them, in nanoseconds, whichever steps are
 * selected. Calls of the runtime belong to the operator with their external id, work of devices to the
 * call with its correlation id; of operators that only call one of the same name the inner one's calls
 * count; ranges that overlap others of their thread are left out; calls of drivers are not known. Steps
 * end with the device, and the last ones are left out if they launched little.
 *
 * Passes over `events` (by start) in this order: collect, link, nest, merge; then times, work, roles and
 * steps, and communication, which refers to the windows of steps. */
#include "analyze/compat/compat.h"

#include "trace/model/steps.h"

/* Sorts of events that the plug-in reads; device work comes last. */
typedef enum sort_of {
    SKIPPED,
    OPERATOR,
    PYTHON,
    ANNOTATION,
    STEP,
    MODULE,
    RUNTIME,
    KERNEL,
    MEMCPY,
    MEMSET
} sort_of;

/* An event, by start; links are indexes of events. */
typedef struct event {
    int64_t start_ns, end_ns;
    uint64_t external, correlation;
    kineto_row row;
    uint32_t name, tree, track;
    uint32_t link;  /* device: its call (index of events); call: its operator */
    uint32_t order; /* operators: place in the tree of their thread; KA_NONE: in none */
    uint8_t sort;
} event;

/* A step and the extent of the work that it launched. */
typedef struct step {
    int64_t start_ns, end_ns;
    int64_t device_start_ns, device_end_ns;
    uint64_t number, launched;
} step;

/* The state of reading a trace as the plug-in does. */
typedef struct reading {
    ka_attribution *v;
    const kineto_trace *t;
    KB_VEC(event) events; /* by start, as in the file where that is the same */
    KB_VEC(step) steps;
    uint8_t *of_category; /* by category: sort and one more; 0: not read yet */
    bool *is_matched;     /* by event: work that a step launched */
    kb_map collective_of; /* external id → the last range of a collective that has it */
    bool has_nccl;        /* one of them is of NCCL */
    int64_t host_start_ns, host_end_ns;
    bool has_main; /* some thread has steps: work without a call is put at its root */
    bool no_memory;
} reading;

/* ---- events ------------------------------------------------------------------------------------------ */

/* Which events the plug-in reads, by category. */
static sort_of sort_of_category(kineto_string category)
{
    static const struct {
        const char *category;
        sort_of sort;
    } known[] = {{"cpu_op", OPERATOR},
                 {"operator", OPERATOR},
                 {"runtime", RUNTIME},
                 {"cuda_runtime", RUNTIME},
                 {"mtia_runtime", RUNTIME},
                 {"glow_runtime", RUNTIME},
                 {"xpu_runtime", RUNTIME},
                 {"privateuse1_runtime", RUNTIME},
                 {"kernel", KERNEL},
                 {"memcpy", MEMCPY},
                 {"gpu_memcpy", MEMCPY},
                 {"memset", MEMSET},
                 {"gpu_memset", MEMSET},
                 {"python", PYTHON},
                 {"python_function", MODULE},
                 {"user_annotation", ANNOTATION},
                 {"gpu_user_annotation", ANNOTATION}};
    for (size_t i = 0; i < KB_COUNT(known); i++)
        if (kb_string_is_ignoring_case(category, known[i].category))
            return known[i].sort;
    return SKIPPED;
}

/* The plug-in goes by names, and takes what a device did for a step for one as well. */
static bool is_step_event(const reading *r, kineto_row row, uint32_t name, uint64_t *number)
{
    const kt_step_row *known = kt_step_list_find(&r->v->dataset->memory->step_rows, row, name);
    *number = known ? known->number : 0;
    return known || kt_step_number(kineto_trace_string(r->t, name), number);
}

/* The sort of a row; SKIPPED: the plug-in does not read it. */
static sort_of sort_of_row(reading *r, const kt_block *block, uint32_t i, kineto_row row)
{
    uint8_t *known = &r->of_category[block->category[i]];
    uint64_t number;
    int64_t id;
    if (block->form[i] != KINETO_FORM_SLICE)
        return SKIPPED;
    if (!*known)
        *known = (uint8_t)(1 + sort_of_category(kt_category_string(r->t, block->category[i])));
    sort_of sort = (sort_of)(*known - 1);
    if ((sort == OPERATOR || sort == ANNOTATION) && is_step_event(r, row, block->name[i], &number))
        return STEP;
    if (sort == MODULE && !ka_arg_int(r->t, row, "Python module id", &id))
        return SKIPPED;
    return sort;
}

/* By start, then row. */
static int compare_events(const void *left, const void *right)
{
    const event *a = left, *b = right;
    if (a->start_ns != b->start_ns)
        return a->start_ns < b->start_ns ? -1 : 1;
    return a->row < b->row ? -1 : a->row > b->row;
}

/* Reads all rows that the plug-in keeps, sorted by start. */
static void collect_events(reading *r)
{
    kineto_row row = 0;
    for (uint32_t b = 0; b < kt_block_count(r->t) && !r->no_memory; b++) {
        const kt_block *block = kt_block_at(r->t, b);
        for (uint32_t i = 0; i < block->count; i++, row++) {
            sort_of sort = sort_of_row(r, block, i, row);
            event e = {.start_ns = block->start_ns[i],
                       .end_ns = block->end_ns[i],
                       .external = block->external_id[i],
                       .correlation = block->correlation_id[i],
                       .row = row,
                       .name = block->name[i],
                       .track = block->track[i],
                       .link = KA_NONE,
                       .order = KA_NONE,
                       .sort = (uint8_t)sort};
            if (sort != SKIPPED)
                r->no_memory |= !kb_vec_push(&r->events, e);
        }
    }
    for (size_t i = 0; i < r->events.count; i++)
        r->has_main |= r->events.data[i].sort == STEP;
    if (r->events.count)
        qsort(r->events.data, r->events.count, sizeof *r->events.data, compare_events);
}

/* Kernels, copies and memsets are the last sorts. */
static bool is_device(uint8_t sort) { return sort >= KERNEL; }
/* "nccl:all_reduce" and the like; it does not know others. */
static bool is_collective(kineto_string name)
{
    static const char *const names[] = {"broadcast", "reduce", "all_reduce", "all_gather",
                                        "reduce_scatter"};
    if (!kb_string_starts_with(name, "nccl:") && !kb_string_starts_with(name, "gloo:"))
        return false;
    for (size_t i = 0; i < KB_COUNT(names); i++)
        if (kb_string_equal((kineto_string){name.data + 5, name.size - 5}, kb_string(names[i])))
            return true;
    return false;
}

/* Annotations are none, but for those of collectives. */
static bool is_node(const reading *r, const event *e)
{
    return e->sort == OPERATOR || e->sort == PYTHON || e->sort == STEP || e->sort == MODULE ||
           (e->sort == ANNOTATION && is_collective(kineto_trace_string(r->t, e->name)));
}

/* ---- links --------------------------------------------------------------------------------------------- */

/* Work goes to the last call of its correlation id before it, else to the first one after it. */
static void link_devices(reading *r)
{
    kb_map calls = {0};
    for (uint32_t pass = 0; pass < 2 && !r->no_memory; pass++) {
        for (size_t n = 0; n < r->events.count && !r->no_memory; n++) {
            uint32_t i = (uint32_t)(pass ? r->events.count - 1 - n : n);
            event *e = &r->events.data[i];
            if (e->sort == RUNTIME) {
                uint64_t *at = kb_map_insert(&calls, e->correlation, 0, NULL);
                r->no_memory |= !at;
                if (at)
                    *at = i;
            } else if (is_device(e->sort) && e->link == KA_NONE) {
                const uint64_t *at = kb_map_find(&calls, e->correlation);
                e->link = at ? (uint32_t)*at : KA_NONE;
            }
        }
        kb_map_free(&calls);
        calls = (kb_map){0};
    }
}

/* Calls go to the first operator that has their external id. */
static void link_calls(reading *r)
{
    kb_map nodes = {0};
    for (uint32_t i = 0; i < r->events.count && !r->no_memory; i++) {
        const event *e = &r->events.data[i];
        if (is_node(r, e) && e->external)
            r->no_memory |= !kb_map_insert(&nodes, e->external, i, NULL);
    }
    for (uint32_t i = 0; i < r->events.count; i++) {
        event *e = &r->events.data[i];
        const uint64_t *at =
            e->sort == RUNTIME && e->external ? kb_map_find(&nodes, e->external) : NULL;
        if (at)
            e->link = (uint32_t)*at;
    }
    kb_map_free(&nodes);
}

/* ---- trees ----------------------------------------------------------------------------------------------- */

/* Trees are numbered by thread id alone: the plug-in ignores processes. */
static int64_t thread_id(const reading *r, uint32_t track)
{
    kineto_track info;
    kineto_trace_track(r->t, track, &info);
    return info.id;
}

/* By tree, then start, the longer first, then index of events. */
static int compare_tree_nodes(const void *left, const void *right, void *context)
{
    const event *events = context, *a = &events[*(const uint32_t *)left],
                *b = &events[*(const uint32_t *)right];
    if (a->tree != b->tree)
        return a->tree < b->tree ? -1 : 1;
    if (a->start_ns != b->start_ns)
        return a->start_ns < b->start_ns ? -1 : 1;
    if (a->end_ns != b->end_ns)
        return a->end_ns > b->end_ns ? -1 : 1;
    return *(const uint32_t *)left < *(const uint32_t *)right ? -1 : 1;
}

typedef KB_VEC(uint32_t) index_list;

/* Collects the nodes of all trees, in the order in which they nest. False: out of memory. */
static bool number_trees(reading *r, index_list *nodes)
{
    kb_map trees = {0};
    bool ok = true;
    for (uint32_t i = 0; i < r->events.count && ok; i++) {
        event *e = &r->events.data[i];
        if (!is_node(r, e))
            continue;
        uint64_t *at = kb_map_insert(&trees, (uint64_t)thread_id(r, e->track), trees.count, NULL);
        ok = at && kb_vec_push(nodes, i);
        e->tree = at ? (uint32_t)*at : 0;
    }
    kb_map_free(&trees);
    if (nodes->count)
        qsort_r(nodes->data, nodes->count, sizeof *nodes->data, compare_tree_nodes, r->events.data);
    return ok;
}

/* The plug-in does not list data loaders, optimizers and wrappers as operators. */
static bool is_listed_operator(const reading *r, const event *e)
{
    kineto_string name = kineto_trace_string(r->t, e->name);
    return e->sort == OPERATOR && !ka_is_dataloader(name) &&
           !kb_string_starts_with(name, "Optimizer.") &&
           !kb_string_equal(name, kb_string("DataParallel.forward")) &&
           !kb_string_equal(name, kb_string("DistributedDataParallel.forward"));
}

/* Appends an operator below its parent; the event remembers where it is. */
static void add_node(reading *r, event *e, uint32_t parent)
{
    ka_op op = {.start_ns = e->start_ns,
                .end_ns = e->end_ns,
                .host_self_ns = kb_length_ns(e->start_ns, e->end_ns),
                .row = e->row,
                .name = e->name,
                .track = e->track,
                .thread = e->tree,
                .parent = parent,
                .shown = is_listed_operator(r, e)};
    e->order = (uint32_t)r->v->ops.count;
    r->no_memory |= !kb_vec_push(&r->v->ops, op);
}

/* Nests nodes by time. `tail` is the innermost node that has not ended. */
static void build_trees(reading *r)
{
    index_list nodes = {0};
    ka_op_list *ops = &r->v->ops;
    uint32_t tail = KA_NONE;
    r->no_memory |= !number_trees(r, &nodes);
    for (size_t i = 0; i < nodes.count && !r->no_memory; i++) {
        event *e = &r->events.data[nodes.data[i]];
        if (tail != KA_NONE && ops->data[tail].thread != e->tree)
            tail = KA_NONE;
        while (tail != KA_NONE && e->start_ns >= ops->data[tail].end_ns)
            tail = ops->data[tail].parent;
        if (tail != KA_NONE && e->end_ns > ops->data[tail].end_ns)
            continue; /* it overlaps another one */
        add_node(r, e, tail);
        tail = (uint32_t)ops->count - 1;
    }
    kb_vec_free(&nodes);
}

/* ---- an operator that only calls itself --------------------------------------------------------------- */

/* Callees of an operator, to find those that call only one. */
typedef struct family {
    uint32_t children, only; /* how many, and the last of them */
} family;

/* Its one callee of the same name goes away, and its calls take the place of its own: then the same
 * again. `moved` has for each operator the one it is now; KA_NONE: its work is not
 * seen. */
static void merge_one(reading *r, family *of, uint32_t i, uint32_t *moved)
{
    ka_op_list *ops = &r->v->ops;
    while (of[i].children == 1) {
        uint32_t child = of[i].only;
        bool same = ops->data[child].name == ops->data[i].name && ops->data[child].shown &&
                    ops->data[i].shown;
        if (!same)
            return;
        for (uint32_t j = i; j < child; j++)
            if (moved[j] == i)
                moved[j] = KA_NONE;
        moved[child] = i;
        of[i] = of[child];
        ops->data[child].shown = false;
        ops->data[child].merged = true;
        ops->data[child].next = i;             /* kept there until all are merged */
        ops->data[child].parent = KA_NONE - 1; /* gone */
        for (uint32_t j = child + 1;
             j < ops->count && ops->data[j].start_ns < ops->data[child].end_ns &&
             ops->data[j].thread == ops->data[child].thread;
             j++)
            if (ops->data[j].parent == child)
                ops->data[j].parent = i;
    }
}

/* Returns `moved` of all operators, to be freed; NULL: out of memory. */
static uint32_t *merge_doubles(reading *r)
{
    ka_op_list *ops = &r->v->ops;
    uint32_t *moved = malloc((ops->count + 1) * sizeof *moved);
    family *of = calloc(ops->count + 1, sizeof *of);
    for (uint32_t i = 0; moved && of && i < ops->count; i++) {
        moved[i] = i;
        if (ops->data[i].parent != KA_NONE) {
            of[ops->data[i].parent].children++;
            of[ops->data[i].parent].only = i;
        }
    }
    for (uint32_t i = 0; moved && of && i < ops->count; i++)
        if (ops->data[i].parent != KA_NONE - 1)
            merge_one(r, of, i, moved);
    r->no_memory |= !moved || !of;
    free(of);
    return moved;
}

/* ---- times of operators ------------------------------------------------------------------------------------ */

/* Subtracts, saturating. */
static void subtract_ns(int64_t *from, int64_t ns) { *from = ka_add_ns(*from, -ns); }

/* Exclusive host time: without callees and calls. Device time by the call that launched the
 * work. Merged operators then get a parent again, and inclusive times follow. */
static void give_times(reading *r, const uint32_t *moved)
{
    ka_op_list *ops = &r->v->ops;
    for (uint32_t i = 0; i < ops->count; i++) {
        const ka_op *op = &ops->data[i];
        if (op->parent < KA_NONE - 1)
            subtract_ns(&ops->data[op->parent].host_self_ns,
                        kb_length_ns(op->start_ns, op->end_ns));
    }
    for (uint32_t i = 0; i < r->events.count; i++) {
        const event *e = &r->events.data[i], *call = e;
        if (is_device(e->sort))
            call = e->link == KA_NONE ? NULL : &r->events.data[e->link];
        if (!call || call->sort != RUNTIME || call->link == KA_NONE)
            continue;
        uint32_t op = r->events.data[call->link].order;
        op = op == KA_NONE ? KA_NONE : moved[op];
        if (op == KA_NONE)
            continue;
        int64_t ns = kb_length_ns(e->start_ns, e->end_ns);
        if (e->sort == RUNTIME) {
            subtract_ns(&ops->data[op].host_self_ns, ns);
            continue;
        }
        ops->data[op].device_self_ns = ka_add_ns(ops->data[op].device_self_ns, ns);
        if (ka_plugin_tensor(kineto_trace_string(r->t, e->name)))
            ops->data[op].tensor_self_ns = ka_add_ns(ops->data[op].tensor_self_ns, ns);
    }
    for (uint32_t i = 0; i < ops->count; i++)
        if (ops->data[i].merged)
            ops->data[i].parent = ops->data[i].next;
    ka_ops_add_up(ops);
}

/* The kind of device work by its category. */
static uint8_t kind_of_sort(uint8_t sort)
{
    if (sort == KERNEL)
        return KINETO_KIND_CONCURRENT_KERNEL;
    return sort == MEMCPY ? KINETO_KIND_GPU_MEMCPY : KINETO_KIND_GPU_MEMSET;
}

/* The operator that work belongs to, by the call that launched it; KA_NONE: none is known. */
static uint32_t operator_of_work(const reading *r, const event *work, const uint32_t *moved)
{
    const event *call = work->link == KA_NONE ? NULL : &r->events.data[work->link];
    if (!call || call->link == KA_NONE)
        return KA_NONE;
    uint32_t op = r->events.data[call->link].order;
    return op == KA_NONE ? KA_NONE : moved[op];
}

/* Work without an operator is the root's: work without a call if some thread has steps, other work if
 * its call names no operator. What is left is in no table of operators. */
static bool is_at_root(const reading *r, const event *work)
{
    return work->link == KA_NONE ? r->has_main : !r->events.data[work->link].external;
}

static void append_device_work(reading *r, const event *e, const uint32_t *moved)
{
    ka_attributed_work work = {.row = e->row,
                               .device = -1,
                               .op = operator_of_work(r, e, moved),
                               .kind = kind_of_sort(e->sort),
                               .tensor = ka_plugin_tensor(kineto_trace_string(r->t, e->name))};
    work.unlisted = work.op == KA_NONE && !is_at_root(r, e);
    if (!ka_arg_int(r->t, e->row, "device", &work.device))
        work.device = -1;
    r->no_memory |= !kb_vec_push(&r->v->work, work);
}

static void collect_device_work(reading *r, const uint32_t *moved)
{
    for (uint32_t i = 0; i < r->events.count && !r->no_memory; i++)
        if (is_device(r->events.data[i].sort))
            append_device_work(r, &r->events.data[i], moved);
}

/* ---- roles and steps ---------------------------------------------------------------------------------------- */

/* Ranges named like collectives, of operators, annotations or Python. */
static bool is_range_of_collective(const reading *r, const event *e)
{
    return (e->sort == OPERATOR || e->sort == ANNOTATION || e->sort == PYTHON) &&
           is_collective(kineto_trace_string(r->t, e->name));
}

/* Maps external ids to the last range of a collective that has them. */
static void find_collectives(reading *r)
{
    for (uint32_t i = 0; i < r->events.count && !r->no_memory; i++) {
        const event *e = &r->events.data[i];
        if (!is_range_of_collective(r, e))
            continue;
        uint64_t *last = kb_map_insert(&r->collective_of, e->external, i, NULL);
        r->has_nccl |= kb_string_starts_with(kineto_trace_string(r->t, e->name), "nccl:");
        r->no_memory |= !last;
        if (last)
            *last = i;
    }
}

/* The range of the collective that a kernel belongs to: the one with its external id, whatever launched it. */
static const uint64_t *collective_of_kernel(const reading *r, const event *e)
{
    return e->sort == KERNEL ? kb_map_find(&r->collective_of, e->external) : NULL;
}

/* KA_ROLE_COUNT: the event is in no role. */
static ka_role role_of_event(const reading *r, const event *e)
{
    kineto_string name = kineto_trace_string(r->t, e->name);
    bool named = e->sort == OPERATOR || e->sort == ANNOTATION;
    if (is_range_of_collective(r, e) || collective_of_kernel(r, e))
        return KA_ROLE_COMMUNICATION;
    if (named && ka_is_dataloader(name))
        return KA_ROLE_DATALOADER;
    switch (e->sort) {
    case KERNEL:
        return KA_ROLE_KERNEL;
    case MEMCPY:
        return KA_ROLE_MEMCPY;
    case MEMSET:
        return KA_ROLE_MEMSET;
    case RUNTIME:
        return KA_ROLE_RUNTIME;
    case OPERATOR:
    case PYTHON:
    case ANNOTATION:
        return KA_ROLE_CPU;
    default:
        return KA_ROLE_COUNT;
    }
}

/* Adds all events to roles, collects the steps, and finds the extent of the host. */
static void put_roles(reading *r)
{
    for (uint32_t i = 0; i < r->events.count && !r->no_memory; i++) {
        const event *e = &r->events.data[i];
        ka_role role = role_of_event(r, e);
        if (role != KA_ROLE_COUNT)
            r->no_memory |= !kb_vec_push(&r->v->roles[role], (ka_span){e->start_ns, e->end_ns});
        if (e->sort == OPERATOR || e->sort == PYTHON || e->sort == STEP) {
            r->host_start_ns = KB_MIN(r->host_start_ns, e->start_ns);
            r->host_end_ns = KB_MAX(r->host_end_ns, e->end_ns);
        }
        step s = {e->start_ns, e->end_ns, INT64_MAX, INT64_MIN, 0, 0};
        if (e->sort != STEP)
            continue;
        (void)is_step_event(r, e->row, e->name, &s.number);
        r->no_memory |= !kb_vec_push(&r->steps, s);
    }
    for (uint32_t i = 0; i < KA_ROLE_COUNT; i++)
        ka_spans_unite(&r->v->roles[i]);
}

/* A call that is inside of a step makes its work the step's. */
static void match_steps(reading *r)
{
    size_t at = 0;
    uint32_t *step_of = malloc((r->events.count + 1) * sizeof *step_of);
    r->no_memory |= !step_of;
    for (uint32_t i = 0; step_of && i < r->events.count; i++) {
        const event *e = &r->events.data[i];
        step_of[i] = KA_NONE;
        if (e->sort != RUNTIME)
            continue;
        while (at < r->steps.count && e->start_ns >= r->steps.data[at].end_ns &&
               e->end_ns > r->steps.data[at].end_ns)
            at++;
        if (at < r->steps.count && e->start_ns >= r->steps.data[at].start_ns &&
            e->end_ns <= r->steps.data[at].end_ns)
            step_of[i] = (uint32_t)at;
    }
    for (uint32_t i = 0; step_of && i < r->events.count; i++) {
        const event *e = &r->events.data[i];
        if (!is_device(e->sort) || e->link == KA_NONE || step_of[e->link] == KA_NONE)
            continue;
        step *s = &r->steps.data[step_of[e->link]];
        s->device_start_ns = KB_MIN(s->device_start_ns, e->start_ns);
        s->device_end_ns = KB_MAX(s->device_end_ns, e->end_ns);
        s->launched++;
        r->is_matched[i] = true;
    }
    free(step_of);
}

/* When the step before the first one ended: with the last work that was launched before. */
static int64_t end_before(const reading *r)
{
    int64_t end = r->steps.data[0].start_ns, first = r->steps.data[0].device_start_ns;
    for (uint32_t i = 0; first != INT64_MAX && i < r->events.count; i++) {
        const event *e = &r->events.data[i];
        if (is_device(e->sort) && !r->is_matched[i] && e->end_ns < first)
            end = KB_MAX(end, e->end_ns);
    }
    return end;
}

/* Steps end with their last work and begin no earlier than the step before ended. */
static void extend_steps(reading *r)
{
    int64_t before = end_before(r);
    for (size_t i = 0; i < r->steps.count; i++) {
        step *s = &r->steps.data[i];
        s->start_ns = KB_MAX(before, s->start_ns);
        s->end_ns = KB_MAX(s->end_ns, s->launched ? s->device_end_ns : s->start_ns);
        before = s->end_ns;
    }
}

/* Drops the last steps that launched nothing, and one that launched less than 0.8 of the one
 * before. */
static void drop_last_steps(reading *r)
{
    size_t count = r->steps.count;
    if (count < 2)
        return;
    while (count && !r->steps.data[count - 1].launched)
        count--;
    if (count > 1 &&
        (double)r->steps.data[count - 2].launched * 0.8 > (double)r->steps.data[count - 1].launched)
        count--;
    r->steps.count = count;
}

/* Without steps the extent of the host is one. */
static void make_steps(reading *r)
{
    uint64_t launched = 0;
    r->v->has_steps = r->steps.count > 0;
    if (!r->v->has_steps && r->host_start_ns < r->host_end_ns)
        r->no_memory |= !kb_vec_push(
            &r->steps, (step){r->host_start_ns, r->host_end_ns, INT64_MAX, INT64_MIN, 0, 0});
    match_steps(r);
    for (size_t i = 0; i < r->steps.count; i++)
        launched += r->steps.data[i].launched;
    if (launched) {
        extend_steps(r);
        drop_last_steps(r);
    }
    for (size_t i = 0; i < r->steps.count && !r->no_memory; i++) {
        const step *s = &r->steps.data[i];
        r->no_memory |=
            !kb_vec_push(&r->v->windows, (ka_window){s->start_ns, s->end_ns, s->number, 0});
    }
}

/* ---- communication ---------------------------------------------------------------------------------------- */

/* Part of a collective: its range on the host, or a kernel. */
typedef struct piece {
    uint32_t of; /* index of events */
    int64_t start_ns, end_ns;
} piece;
typedef KB_VEC(piece) piece_list;

/* By collective, start, the longer first. */
static int compare_pieces(const void *left, const void *right)
{
    const piece *a = left, *b = right;
    if (a->of != b->of)
        return a->of < b->of ? -1 : 1;
    if (a->start_ns != b->start_ns)
        return a->start_ns < b->start_ns ? -1 : 1;
    return (a->end_ns < b->end_ns) - (a->end_ns > b->end_ns);
}

/* Kernels count only where some range is of NCCL. Of ranges with the same external id, the last counts. */
static void find_pieces(reading *r, piece_list *pieces)
{
    for (uint32_t i = 0; i < r->events.count && !r->no_memory; i++) {
        const event *e = &r->events.data[i];
        const uint64_t *of = r->has_nccl ? collective_of_kernel(r, e) : NULL;
        if (is_range_of_collective(r, e))
            of = kb_map_find(&r->collective_of, e->external);
        bool counts = of && (e->sort == KERNEL || *of == i);
        if (counts)
            r->no_memory |= !kb_vec_push(pieces, ((piece){(uint32_t)*of, e->start_ns, e->end_ns}));
    }
    if (pieces->count)
        qsort(pieces->data, pieces->count, sizeof *pieces->data, compare_pieces);
}

/* The pieces from `first` on that are of one collective, which lies in window `window`. */
static size_t put_pieces(reading *r, const piece_list *pieces, size_t first, uint32_t window)
{
    const event *e = &r->events.data[pieces->data[first].of];
    ka_communication c = {.name = kineto_trace_string(r->t, e->name), .window = window};
    size_t i = first;
    for (; i < pieces->count && pieces->data[i].of == pieces->data[first].of; i++, c.part++) {
        c.start_ns = pieces->data[i].start_ns;
        c.end_ns = pieces->data[i].end_ns;
        c.bytes = c.part ? 0 : ka_input_bytes(r->t, e->row, true);
        if (window != KA_NONE)
            r->no_memory |= !kb_vec_push(&r->v->communication, c);
    }
    return i;
}

/* Steps and collectives are both in the order of starts; what follows the last step is dropped. */
static void put_communication(reading *r)
{
    piece_list pieces = {0};
    size_t at = 0;
    find_pieces(r, &pieces);
    for (size_t i = 0; i < pieces.count && !r->no_memory;) {
        const event *e = &r->events.data[pieces.data[i].of];
        while (at < r->v->windows.count && e->start_ns >= r->v->windows.data[at].end_ns)
            at++;
        if (at == r->v->windows.count)
            break;
        const ka_window *w = &r->v->windows.data[at];
        bool is_inside = e->start_ns >= w->start_ns && e->end_ns <= w->end_ns;
        i = put_pieces(r, &pieces, i, is_inside ? (uint32_t)at : KA_NONE);
    }
    kb_vec_free(&pieces);
}

bool ka_plugin_fill_attribution(ka_attribution *v, uint32_t parts)
{
    (void)parts; /* all of them are made together */
    reading r = {.v = v,
                 .t = v->dataset->trace,
                 .of_category = calloc(UINT16_MAX + 1, 1),
                 .host_start_ns = INT64_MAX,
                 .host_end_ns = INT64_MIN};
    uint32_t *moved = NULL;
    r.no_memory = !r.of_category;
    if (!r.no_memory)
        collect_events(&r);
    r.is_matched = calloc(r.events.count + 1, sizeof *r.is_matched);
    r.no_memory |= !r.is_matched;
    if (!r.no_memory) {
        link_devices(&r);
        link_calls(&r);
        build_trees(&r);
        moved = merge_doubles(&r);
    }
    if (!r.no_memory) {
        give_times(&r, moved);
        collect_device_work(&r, moved);
        find_collectives(&r);
        put_roles(&r);
        make_steps(&r);
        put_communication(&r);
    }
    free(moved);
    free(r.of_category);
    free(r.is_matched);
    kb_map_free(&r.collective_of);
    kb_vec_free(&r.events);
    kb_vec_free(&r.steps);
    return !r.no_memory;
}
