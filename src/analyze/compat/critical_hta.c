/* The critical path as HTA has it: its nodes, its edges in the order in which it makes them (of
 * equally long paths the one made first wins), and its weights. Works on the dataset of
 * dataset_hta.c, in which rows of kind cuda_sync are among the work or the slices. */
#include "analyze/compat/compat.h"
#include "analyze/compat/order.h"

#include "analyze/critical/critical.h"

/* Classes and types of edges, in the order of ka_hta_path_classes and ka_hta_edge_types. */
enum {
    HTA_CLASS_NONE = KA_PATH_CLASS_COUNT,
    HTA_CLASS_CPU,
    HTA_CLASS_COMPUTE,
    HTA_CLASS_COMMUNICATION,
    HTA_CLASS_GAP,
    HTA_CLASS_LAUNCH,
    HTA_CLASS_END
};
enum {
    HTA_EDGE_OPERATOR = KA_EDGE_TYPE_COUNT,
    HTA_EDGE_DEPENDENCY,
    HTA_EDGE_LAUNCH,
    HTA_EDGE_GAP,
    HTA_EDGE_SYNC,
    HTA_EDGE_END
};
const char *const ka_hta_path_classes[] = {"",
                                           "cpu_bound",
                                           "gpu_compute_bound",
                                           "gpu_communication_bound",
                                           "gpu_kernel_kernel_overhead",
                                           "gpu_kernel_launch_overhead"};
const char *const ka_hta_edge_types[] = {"OPERATOR_KERNEL", "DEPENDENCY", "KERNEL_LAUNCH_DELAY",
                                         "KERNEL_KERNEL_DELAY", "SYNC_DEPENDENCY"};
_Static_assert(KA_PATH_CLASS_COUNT + KA_HTA_PATH_CLASS_COUNT == HTA_CLASS_END &&
                   KB_COUNT(ka_hta_path_classes) == KA_HTA_PATH_CLASS_COUNT,
               "a name for each class");
_Static_assert(KA_EDGE_TYPE_COUNT + KA_HTA_EDGE_TYPE_COUNT == HTA_EDGE_END &&
                   KB_COUNT(ka_hta_edge_types) == KA_HTA_EDGE_TYPE_COUNT,
               "a name for each type");

#define MAX_GAP_NS INT64_C(1500000) /* work after a longer gap did not wait for the previous work */

/* The state of building the graph; arrays are by index of slices, work or streams. */
typedef struct hta {
    ka_path *p;
    const ka_dataset *s;
    uint8_t *names;                           /* by name: bits, below */
    uint8_t *is_in;                           /* by slice: in the window */
    int64_t *queue_at_launch, *queue_at_work; /* by slice, by work; INT64_MIN: none */
    uint32_t *work_end;                       /* by work: its last node; KA_NONE */
    uint32_t *parent;                         /* by slice, as HTA nests; KA_NONE */
    uint32_t *last_work;                      /* by slice */
    uint32_t *last_of;                        /* by stream: node its last work ended at */
    KB_VEC(uint32_t) streams;                 /* in the order they were met */
    kb_map places;                            /* src and dst of edges → place + 1 */
    kb_map calls;                             /* rows of calls of sync rows → slice + 1 */
    ka_syncs syncs;
    bool no_memory;
} hta;

enum {
    NAME_KNOWN = 1,
    NAME_BLOCKING = 2,
    NAME_LOCKS = 4,
    NAME_LAUNCHES = 8,
    NAME_FORWARD = 16,
    NAME_AUTOGRAD = 32
};

/* ---- names ------------------------------------------------------------------------------------------------ */

/* All that this file needs to know of a name, as NAME_ bits. */
static uint8_t bits_of(kineto_string name)
{
    static const char *const blocking[] = {"cudaDeviceSynchronize",
                                           "cudaStreamSynchronize",
                                           "cudaEventQuery",
                                           "cudaEventSynchronize",
                                           "cudaMemcpy",
                                           "cudaMemcpyAsync"};
    static const char *const locks[] = {"cudaHostAlloc", "cudaLaunchKernel", "cudaMemcpyAsync"};
    return (uint8_t)(NAME_KNOWN |
                     (kb_string_is_one_of(name, blocking, KB_COUNT(blocking)) ? NAME_BLOCKING : 0) |
                     (kb_string_is_one_of(name, locks, KB_COUNT(locks)) ? NAME_LOCKS : 0) |
                     (ka_hta_counts_launch(name) ? NAME_LAUNCHES : 0) |
                     (kb_string_contains(name, "forward") ? NAME_FORWARD : 0) |
                     (kb_string_contains(name, "autograd") ? NAME_AUTOGRAD : 0));
}

/* Has the name of the slice this bit? Computed once per name. */
static bool name_is(hta *h, uint32_t slice, uint8_t bit)
{
    uint32_t name = h->s->slices[slice].name;
    if (!h->names[name])
        h->names[name] = bits_of(ka_name(h->s, name));
    return h->names[name] & bit;
}

/* ---- nodes ------------------------------------------------------------------------------------------------ */

/* HTA keeps what begins in the window and takes time. */
static bool in_window(const ka_path *p, const ka_slice *s)
{
    return s->start_ns >= p->start_ns && s->start_ns <= p->end_ns && ka_slice_ns(s) > 0;
}

/* Of several works of a call HTA knows the last. */
static void find_last_work(hta *h)
{
    for (uint32_t i = 0; i < h->s->work_count; i++) {
        uint32_t call = h->s->work[i].call;
        if (call == KA_NONE)
            continue;
        uint32_t *last = &h->last_work[call];
        if (*last == KA_NONE || h->s->work[i].row > h->s->work[*last].row)
            *last = i;
    }
}

/* Slices that become nodes: by category, as HTA selects them. */
static bool is_path_operator(const hta *h, const ka_slice *slice)
{
    if (slice->kind != KINETO_KIND_CPU_OP && slice->kind != KINETO_KIND_RUNTIME &&
        slice->kind != KINETO_KIND_DRIVER)
        return false;
    const kt_block *b = kt_block_at(h->s->trace, (uint32_t)(slice->row / KT_BLOCK_ROWS));
    kineto_string category =
        kt_category_string(h->s->trace, b->category[slice->row % KT_BLOCK_ROWS]);
    static const char *const known[] = {"cpu_op", "cuda_runtime", "cuda_driver"};
    return kb_string_is_one_of(category, known, KB_COUNT(known));
}

/* The row of the work or slice of a node. */
static kineto_row row_of_node(const hta *h, const ka_node *n)
{
    return n->of == KA_OF_WORK ? h->s->work[n->index].row : h->s->slices[n->index].row;
}

/* By time, then row, starts before ends. */
static int compare_path_nodes(const void *left, const void *right, void *context)
{
    const ka_node *a = left, *b = right;
    if (a->ns != b->ns)
        return a->ns < b->ns ? -1 : 1;
    kineto_row ra = row_of_node(context, a), rb = row_of_node(context, b);
    if (ra != rb)
        return ra < rb ? -1 : 1;
    return a->is_end - b->is_end;
}

/* Appends start and end of a slice or work. */
static void put_nodes(hta *h, int64_t start_ns, int64_t end_ns, uint32_t index, uint8_t of)
{
    h->no_memory |= !kb_vec_push(&h->p->nodes, (ka_node){start_ns, index, of, false, true}) ||
                    !kb_vec_push(&h->p->nodes, (ka_node){end_ns, index, of, true, true});
}

/* Nodes of operators and of the last work of each call, sorted by time; then the indexes from
 * slices and work to nodes. */
static void make_nodes(hta *h)
{
    ka_path *p = h->p;
    for (uint32_t i = 0; i < h->s->slice_count && !h->no_memory; i++) {
        const ka_slice *s = &h->s->slices[i];
        h->is_in[i] = in_window(p, s);
        if (h->is_in[i] && is_path_operator(h, s))
            put_nodes(h, s->start_ns, s->end_ns, i, KA_OF_SLICE);
    }
    for (uint32_t i = 0; i < h->s->work_count && !h->no_memory; i++) {
        const ka_work *w = &h->s->work[i];
        if (w->call != KA_NONE && h->is_in[w->call] && h->last_work[w->call] == i)
            put_nodes(h, w->start_ns, w->end_ns, i, KA_OF_WORK);
    }
    if (!p->nodes.count || h->no_memory)
        return;
    qsort_r(p->nodes.data, p->nodes.count, sizeof *p->nodes.data, compare_path_nodes, h);
    for (uint32_t i = 0; i < p->nodes.count; i++) {
        const ka_node *n = &p->nodes.data[i];
        if (n->of == KA_OF_SLICE)
            (n->is_end ? p->end_of : p->start_of)[n->index] = i;
        else if (!n->is_end)
            p->work_start[n->index] = i;
        else
            h->work_end[n->index] = i;
    }
}

/* ---- edges ------------------------------------------------------------------------------------------------ */

/* The class of an edge by its type and, of operators, by what it belongs to. */
static uint8_t class_of(const hta *h, const ka_edge *e)
{
    if (e->type == HTA_EDGE_GAP)
        return HTA_CLASS_GAP;
    if (e->type == HTA_EDGE_LAUNCH)
        return HTA_CLASS_LAUNCH;
    if (e->type != HTA_EDGE_OPERATOR)
        return HTA_CLASS_NONE;
    if (e->of != KA_OF_WORK)
        return HTA_CLASS_CPU;
    return kb_string_contains(ka_name(h->s, h->s->work[e->owner].name), "ncclKernel") ||
                   kb_string_contains(ka_name(h->s, h->s->work[e->owner].name), "ncclDevKernel")
               ? HTA_CLASS_COMMUNICATION
               : HTA_CLASS_COMPUTE;
}

/* Whose time the edge is: of what it is inside of. */
static void attribute_edge(const hta *h, ka_edge *e, uint32_t parent)
{
    const ka_node *src = &h->p->nodes.data[e->src], *dst = &h->p->nodes.data[e->dst];
    e->of = src->of;
    e->owner = src->index;
    if (e->type != HTA_EDGE_OPERATOR || !src->is_end)
        return;
    if (dst->is_end) {
        e->of = dst->of;
        e->owner = dst->index;
    } else {
        e->of = parent == KA_NONE ? KA_OF_NOTHING : KA_OF_SLICE;
        e->owner = parent;
    }
}

/* The last of several edges from one node to another counts, in the place of the first. */
static void put_edge(hta *h, uint32_t src, uint32_t dst, uint8_t type, bool zero, uint32_t parent)
{
    if (src == KA_NONE || dst == KA_NONE || src == dst)
        return;
    const ka_node *nodes = h->p->nodes.data;
    KB_ASSERT(src < h->p->nodes.count && dst < h->p->nodes.count);
    KB_ASSERT(type >= HTA_EDGE_OPERATOR && type < HTA_EDGE_END);
    ka_edge e = {.src = src, .dst = dst, .type = type, .owner = KA_NONE};
    if (type != HTA_EDGE_DEPENDENCY && type != HTA_EDGE_SYNC && !zero)
        e.ns = kb_length_ns(nodes[src].ns, nodes[dst].ns);
    if (type == HTA_EDGE_OPERATOR || type == HTA_EDGE_GAP)
        attribute_edge(h, &e, parent);
    e.class = class_of(h, &e);
    bool created = false;
    uint64_t *place =
        kb_map_insert(&h->places, (uint64_t)(src + 1) << 32 | dst, h->p->edges.count, &created);
    if (!place)
        h->no_memory = true;
    else if (created)
        h->no_memory |= !kb_vec_push(&h->p->edges, e);
    else
        h->p->edges.data[*place] = e;
}

/* ---- calls that share a lock -------------------------------------------------------------------------------- */

/* Is the node of a call that holds the runtime's lock? */
static bool takes_lock(hta *h, uint32_t node)
{
    const ka_node *n = &h->p->nodes.data[node];
    return n->of == KA_OF_SLICE && name_is(h, n->index, NAME_LOCKS);
}

/* Calls of any thread that hold the runtime's lock wait for each other. */
static void link_locks(hta *h)
{
    KB_VEC(uint32_t) started = {0};
    uint32_t last = KA_NONE;
    const ka_node *nodes = h->p->nodes.data;
    for (uint32_t i = 0; i < h->p->nodes.count && !h->no_memory; i++) {
        if (!takes_lock(h, i))
            continue;
        if (!nodes[i].is_end)
            h->no_memory |= !kb_vec_push(&started, i);
        while (nodes[i].is_end && started.count) {
            uint32_t from = started.data[--started.count];
            bool own = nodes[from].index == nodes[i].index;
            put_edge(h, from, i, own ? HTA_EDGE_OPERATOR : HTA_EDGE_DEPENDENCY, false, KA_NONE);
        }
        if (nodes[i].is_end && last != KA_NONE && nodes[last].is_end)
            put_edge(h, last, i, HTA_EDGE_DEPENDENCY, false, KA_NONE);
        last = i;
    }
    kb_vec_free(&started);
}

/* link_locks has an edge between such nodes already. */
static bool share_lock(hta *h, uint32_t first, uint32_t second)
{
    return takes_lock(h, first) && takes_lock(h, second) &&
           (!h->p->nodes.data[first].is_end || h->p->nodes.data[second].is_end);
}

/* ---- threads ------------------------------------------------------------------------------------------------ */

/* A thread as HTA sees it: by process and thread id. */
typedef struct group {
    int64_t pid, tid;
    uint32_t thread;
} group;

/* Start or end of a slice, with its length, by which ties are broken. */
typedef struct moment {
    int64_t ns, dur_ns;
    uint32_t slice;
    bool is_end;
} moment;

/* The walk over one group: open slices and the last node. */
typedef struct threads {
    KB_VEC(group) groups;   /* by process and thread */
    KB_VEC(moment) moments; /* of a group */
    KB_VEC(uint32_t) stack;
    uint32_t last, last_parent, depth;
} threads;

/* By process, thread, then index of threads. */
static int compare_thread_groups(const void *left, const void *right)
{
    const group *a = left, *b = right;
    if (a->pid != b->pid)
        return a->pid < b->pid ? -1 : 1;
    if (a->tid != b->tid)
        return a->tid < b->tid ? -1 : 1;
    return a->thread < b->thread ? -1 : a->thread > b->thread;
}

/* HTA's order of moments of a thread. */
static int compare_thread_moments(const void *left, const void *right, void *context)
{
    const hta *h = context;
    const moment *a = left, *b = right;
    kineto_row ra = h->s->slices[a->slice].row, rb = h->s->slices[b->slice].row;
    if (ra == rb)
        return a->is_end - b->is_end;
    if (a->ns != b->ns)
        return a->ns < b->ns ? -1 : 1;
    if (a->is_end != b->is_end)
        return a->is_end ? -1 : 1;
    if (a->dur_ns != b->dur_ns)
        return (a->dur_ns > b->dur_ns) != a->is_end ? -1 : 1;
    return (ra < rb) != a->is_end ? -1 : 1;
}

/* The only thread with operators or annotations of such names; 0: none, or several. */
static int64_t only_thread(hta *h, uint8_t bit)
{
    int64_t tid = 0;
    for (uint32_t i = 0; i < h->s->slice_count; i++) {
        const ka_slice *s = &h->s->slices[i];
        if (!h->is_in[i] ||
            (s->kind != KINETO_KIND_CPU_OP && s->kind != KINETO_KIND_USER_ANNOTATION) ||
            !name_is(h, i, bit))
            continue;
        if (tid && tid != h->s->threads[s->thread].id)
            return 0;
        tid = h->s->threads[s->thread].id;
    }
    return tid;
}

/* Groups threads as HTA nests them: forward and backward threads count as one if each is the
 * only one of its kind. */
static void find_groups(hta *h, threads *t)
{
    int64_t forward = only_thread(h, NAME_FORWARD), backward = only_thread(h, NAME_AUTOGRAD);
    for (uint32_t i = 0; i < h->s->thread_count && !h->no_memory; i++) {
        kineto_process process;
        kineto_trace_process(h->s->trace, h->s->threads[i].process, &process);
        group g = {process.pid, h->s->threads[i].id, i};
        if (forward && backward && g.tid == backward)
            g.tid = forward;
        h->no_memory |= !kb_vec_push(&t->groups, g);
    }
    if (t->groups.count)
        qsort(t->groups.data, t->groups.count, sizeof *t->groups.data, compare_thread_groups);
}

/* A slice begins: an edge from the last node of the group, and it becomes the innermost. */
static void enter_slice(hta *h, threads *t, uint32_t slice)
{
    uint32_t node = h->p->start_of[slice];
    h->parent[slice] = t->stack.count ? t->stack.data[t->stack.count - 1] : KA_NONE;
    h->no_memory |= !kb_vec_push(&t->stack, slice);
    if (node == KA_NONE)
        return;
    if (t->last != KA_NONE && !share_lock(h, t->last, node))
        put_edge(h, t->last, node, t->depth ? HTA_EDGE_OPERATOR : HTA_EDGE_DEPENDENCY, false,
                 t->last_parent);
    t->last = node;
    t->last_parent = h->parent[slice];
    t->depth++;
}

/* The innermost slice ends: an edge from the last node; blocking calls take no time of their
 * own. */
static void leave_slice(hta *h, threads *t)
{
    if (!t->stack.count)
        return;
    uint32_t slice = t->stack.data[--t->stack.count], node = h->p->end_of[slice];
    if (node == KA_NONE)
        return;
    if (t->last != KA_NONE && !share_lock(h, t->last, node))
        put_edge(h, t->last, node, HTA_EDGE_OPERATOR, name_is(h, slice, NAME_BLOCKING),
                 t->last_parent);
    t->last = node;
    t->last_parent = h->parent[slice];
    t->depth--;
}

/* Starts and ends of the slices of a thread that are in the window. */
static void collect_moments(hta *h, threads *t, const ka_thread *thread)
{
    for (uint32_t i = thread->first; i < thread->first + thread->count && !h->no_memory; i++) {
        const ka_slice *s = &h->s->slices[i];
        if (h->is_in[i])
            h->no_memory |=
                !kb_vec_push(&t->moments, (moment){s->start_ns, ka_slice_ns(s), i, false}) ||
                !kb_vec_push(&t->moments, (moment){s->end_ns, ka_slice_ns(s), i, true});
    }
}

/* Walks the moments of a group in HTA's order. */
static void link_group(hta *h, threads *t)
{
    t->stack.count = 0;
    t->last = t->last_parent = KA_NONE;
    t->depth = 0;
    if (t->moments.count)
        qsort_r(t->moments.data, t->moments.count, sizeof *t->moments.data, compare_thread_moments,
                h);
    for (size_t i = 0; i < t->moments.count && !h->no_memory; i++)
        if (t->moments.data[i].is_end)
            leave_slice(h, t);
        else
            enter_slice(h, t, t->moments.data[i].slice);
    while (t->stack.count && !h->no_memory)
        leave_slice(h, t);
    t->moments.count = 0;
}

/* Threads of one process and id are a group, walked together. */
static void link_threads(hta *h)
{
    threads t = {.last = KA_NONE};
    find_groups(h, &t);
    for (size_t i = 0; i < t.groups.count && !h->no_memory; i++) {
        const group *g = &t.groups.data[i];
        collect_moments(h, &t, &h->s->threads[g->thread]);
        if (i + 1 == t.groups.count || g[1].pid != g->pid || g[1].tid != g->tid)
            link_group(h, &t);
    }
    kb_vec_free(&t.groups);
    kb_vec_free(&t.moments);
    kb_vec_free(&t.stack);
}

/* ---- work in queues --------------------------------------------------------------------------------------- */

/* Launches make queues longer, their work makes them shorter. */
static void collect_changes(hta *h, ka_hta_queue_changes *list)
{
    for (uint32_t i = 0; i < h->s->work_count && !h->no_memory; i++) {
        const ka_work *w = &h->s->work[i];
        if (w->call == KA_NONE || !name_is(h, w->call, NAME_LAUNCHES) || h->last_work[w->call] != i)
            continue;
        const ka_slice *c = &h->s->slices[w->call];
        h->no_memory |=
            !kb_vec_push(list, (ka_hta_queue_change){c->row, c->start_ns, w->call, w->stream, 1}) ||
            !kb_vec_push(list, (ka_hta_queue_change){w->row, w->start_ns, i, w->stream, -1});
    }
}

/* `index` of a change is a slice if it makes the queue longer, else work. */
static void count_queues(hta *h)
{
    ka_hta_queue_changes list = {0};
    collect_changes(h, &list);
    int64_t *length = calloc((size_t)h->s->stream_count + 1, sizeof *length);
    h->no_memory |= !length || !ka_hta_order_queue(&list);
    for (size_t i = 0; !h->no_memory && i < list.count; i++) {
        const ka_hta_queue_change *c = &list.data[i];
        length[c->stream] += c->by;
        (c->by > 0 ? h->queue_at_launch : h->queue_at_work)[c->index] = length[c->stream];
    }
    free(length);
    kb_vec_free(&list);
}

/* ---- devices ---------------------------------------------------------------------------------------------- */

/* A row of a device in HTA's order; sync rows sort by their ends. */
typedef struct device_row {
    kineto_row row;
    int64_t sort_ns;
    uint32_t work; /* KA_NONE: a range, of which `row` waited */
} device_row;
typedef KB_VEC(device_row) device_rows;

/* In the order of the file; numpy's sort by time follows. */
static int compare_device_rows(const void *left, const void *right)
{
    const device_row *a = left, *b = right;
    return a->row < b->row ? -1 : a->row > b->row;
}

/* Work with nodes, and sync rows of either kind, which sort by their ends. */
static void collect_rows(hta *h, device_rows *rows)
{
    for (uint32_t i = 0; i < h->s->work_count && !h->no_memory; i++) {
        const ka_work *w = &h->s->work[i];
        bool sync = w->kind == KINETO_KIND_CUDA_SYNC;
        if (h->p->work_start[i] != KA_NONE)
            h->no_memory |=
                !kb_vec_push(rows, (device_row){w->row, sync ? w->end_ns : w->start_ns, i});
    }
    for (uint32_t i = 0; i < h->s->slice_count && !h->no_memory; i++) {
        const ka_slice *s = &h->s->slices[i];
        if (s->kind == KINETO_KIND_CUDA_SYNC && h->is_in[i])
            h->no_memory |= !kb_vec_push(rows, (device_row){s->row, s->end_ns, KA_NONE});
    }
    if (rows->count)
        qsort(rows->data, rows->count, sizeof *rows->data, compare_device_rows);
}

/* The call ends when the work, or the last work of its stream (of all streams), has ended. */
static void link_waiting(hta *h, const ka_sync_call *c)
{
    uint32_t end = h->p->end_of[c->call];
    if (c->source != KA_NONE)
        put_edge(h, h->work_end[c->source], end, HTA_EDGE_SYNC, true, KA_NONE);
    for (size_t k = 0; c->source == KA_NONE && k < h->streams.count; k++)
        if (c->stream == KA_NONE || c->stream == h->streams.data[k])
            put_edge(h, h->last_of[h->streams.data[k]], end, HTA_EDGE_SYNC, true, KA_NONE);
}

/* A row that says that the host waited. */
static void link_sync(hta *h, kineto_row row)
{
    kineto_row call_row = kineto_trace_launch(h->s->trace, row);
    uint64_t *slice = call_row == KINETO_NO_ROW ? NULL : kb_map_find(&h->calls, call_row + 1);
    if (!slice)
        return;
    uint32_t call = (uint32_t)(*slice - 1);
    const ka_sync_call *calls = h->syncs.calls.data;
    size_t i = 0;
    KB_LOWER_BOUND(i, h->syncs.calls.count, calls[i].call < call);
    for (; i < h->syncs.calls.count && calls[i].call == call; i++)
        link_waiting(h, &calls[i]);
}

/* The end node of the work that this work waits for, of the last recorded wait; KA_NONE: none. */
static uint32_t waited_for(const hta *h, uint32_t work)
{
    size_t after = 0;
    KB_LOWER_BOUND(after, h->syncs.waits.count, h->syncs.waits.data[after].work <= work);
    if (!after || h->syncs.waits.data[after - 1].work != work)
        return KA_NONE;
    return h->work_end[h->syncs.waits.data[after - 1].source];
}

/* Edges of one work: itself, the work it waited for, and either its launch, if the queue was
 * empty, or the work before it in the stream. */
static void link_device_work(hta *h, uint32_t work)
{
    const ka_work *w = &h->s->work[work];
    const ka_node *nodes = h->p->nodes.data;
    uint32_t start = h->p->work_start[work], end = h->work_end[work], wait = waited_for(h, work),
             last = h->last_of[w->stream];
    int64_t launch = h->s->slices[w->call].start_ns;
    put_edge(h, start, end, HTA_EDGE_OPERATOR, false, KA_NONE);
    put_edge(h, wait, start, HTA_EDGE_SYNC, true, KA_NONE);
    if (h->queue_at_launch[w->call] == 1 && h->queue_at_work[work] == 0 &&
        (last == KA_NONE || nodes[last].ns < launch) &&
        (wait == KA_NONE || nodes[wait].ns < launch))
        put_edge(h, h->p->start_of[w->call], start, HTA_EDGE_LAUNCH, false, KA_NONE);
    else if (last != KA_NONE && (wait == KA_NONE || nodes[wait].ns < nodes[last].ns) &&
             kb_length_ns(nodes[last].ns, nodes[start].ns) < MAX_GAP_NS)
        put_edge(h, last, start, HTA_EDGE_GAP, false, KA_NONE);
    if (last == KA_NONE)
        h->no_memory |= !kb_vec_push(&h->streams, w->stream);
    h->last_of[w->stream] = end;
}

/* Walks work and sync rows in HTA's order by time. */
static void link_devices(hta *h)
{
    device_rows rows = {0};
    collect_rows(h, &rows);
    int64_t *ns = malloc((rows.count + 1) * sizeof *ns);
    uint32_t *order = malloc((rows.count + 1) * sizeof *order);
    h->no_memory |= !ns || !order;
    for (size_t i = 0; !h->no_memory && i < rows.count; i++)
        ns[i] = rows.data[i].sort_ns;
    if (!h->no_memory)
        ka_order_numpy(ns, order, rows.count);
    for (size_t i = 0; !h->no_memory && i < rows.count; i++) {
        const device_row *r = &rows.data[order[i]];
        if (r->work == KA_NONE || h->s->work[r->work].kind == KINETO_KIND_CUDA_SYNC)
            link_sync(h, r->row);
        else
            link_device_work(h, r->work);
    }
    free(ns);
    free(order);
    kb_vec_free(&rows);
}

/* Maps rows of waiting calls to their slices. */
static void find_calls(hta *h)
{
    for (size_t i = 0; i < h->syncs.calls.count && !h->no_memory; i++) {
        uint32_t call = h->syncs.calls.data[i].call;
        h->no_memory |= !kb_map_insert(&h->calls, h->s->slices[call].row + 1, call + 1, NULL);
    }
}

/* ---- all of it ---------------------------------------------------------------------------------------------- */

/* Nodes have numbers in the order in which edges have them. */
static void number_nodes(hta *h)
{
    ka_path *p = h->p;
    uint32_t next = 0, *number = malloc((p->nodes.count + 1) * sizeof *number);
    ka_node *nodes = malloc((p->nodes.count + 1) * sizeof *nodes);
    h->no_memory |= !number || !nodes;
    if (!h->no_memory) {
        memset(number, 0xff, p->nodes.count * sizeof *number);
        for (size_t i = 0; i < p->edges.count; i++) {
            ka_edge *e = &p->edges.data[i];
            if (number[e->src] == KA_NONE)
                number[e->src] = next++;
            if (number[e->dst] == KA_NONE)
                number[e->dst] = next++;
            e->src = number[e->src];
            e->dst = number[e->dst];
        }
        for (uint32_t i = 0; i < p->nodes.count; i++) {
            if (number[i] == KA_NONE)
                number[i] = next++;
            nodes[number[i]] = p->nodes.data[i];
        }
        memcpy(p->nodes.data, nodes, p->nodes.count * sizeof *nodes);
    }
    free(number);
    free(nodes);
}

/* Allocates all arrays and finds the recorded waits. False: out of memory; to be freed in any
 * case. */
static bool hta_graph_create(hta *h)
{
    size_t slices = (size_t)h->s->slice_count + 1, work = (size_t)h->s->work_count + 1,
           streams = (size_t)h->s->stream_count + 1;
    h->names = calloc((size_t)h->s->name_count + 1, 1);
    h->is_in = calloc(slices, 1);
    h->queue_at_launch = calloc(slices, sizeof *h->queue_at_launch);
    h->queue_at_work = calloc(work, sizeof *h->queue_at_work);
    h->work_end = malloc(work * sizeof *h->work_end);
    h->parent = calloc(slices, sizeof *h->parent);
    h->last_of = malloc(streams * sizeof *h->last_of);
    h->last_work = malloc(slices * sizeof *h->last_work);
    if (!h->names || !h->is_in || !h->queue_at_launch || !h->queue_at_work || !h->work_end ||
        !h->parent || !h->last_of || !h->last_work || !ka_path_reserve(h->p))
        return false;
    memset(h->last_work, 0xff, slices * sizeof *h->last_work);
    memset(h->last_of, 0xff, streams * sizeof *h->last_of);
    memset(h->work_end, 0xff, work * sizeof *h->work_end);
    for (size_t i = 0; i < work; i++)
        h->queue_at_work[i] = -1;
    for (size_t i = 0; i < slices; i++)
        h->queue_at_launch[i] = -1;
    return ka_syncs_find(h->s, &h->syncs);
}

static void hta_graph_free(hta *h)
{
    free(h->names);
    free(h->is_in);
    free(h->queue_at_launch);
    free(h->queue_at_work);
    free(h->work_end);
    free(h->parent);
    free(h->last_of);
    free(h->last_work);
    kb_vec_free(&h->streams);
    kb_map_free(&h->places);
    kb_map_free(&h->calls);
    ka_syncs_free(&h->syncs);
}

/* Edges are made in HTA's order: locks, threads, devices. Nodes are numbered in the order in
 * which edges meet them. */
kineto_status ka_hta_build_path(ka_path *p, kineto_error *err)
{
    hta h = {.p = p, .s = p->s};
    h.no_memory = !hta_graph_create(&h);
    if (!h.no_memory) {
        find_last_work(&h);
        make_nodes(&h);
    }
    if (!h.no_memory && !p->nodes.count) {
        hta_graph_free(&h);
        return kb_fail(err, KINETO_E_NOT_FOUND, "the window has nothing that could be on a path");
    }
    if (!h.no_memory) {
        find_calls(&h);
        count_queues(&h);
        link_locks(&h);
        link_threads(&h);
        link_devices(&h);
        number_nodes(&h);
    }
    p->no_memory |= h.no_memory;
    hta_graph_free(&h);
    return ka_path_finish(p, err);
}
