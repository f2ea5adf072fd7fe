/* The autograd graph of a recording: links each backward operator to its forward operator
 * by sequence number and thread. Also adjusts steps, so that they begin where the enclosing
 * Python function does. */
#include "trace/from_recording/build.h"

/* True for an operator of the autograd engine that evaluates a node. The node is known from
 * the first operator inside it, which ends (and is recorded) before it. */
static bool is_node_evaluation(const kf_event *e)
{
    static const char prefix[] = "autograd::engine::evaluate_function: ";
    return e->site->scope == KINETO_SCOPE_FUNCTION && e->name.size >= sizeof prefix - 1 &&
           memcmp(e->name.data, prefix, sizeof prefix - 1) == 0;
}

void kt_build_adopt_node(kt_build_state *s, const kf_event *e, kf_function *f)
{
    KB_ASSERT(s->here_thread < s->threads.count);
    kt_build_thread *t = &s->threads.data[s->here_thread];
    if (e->site->scope == KINETO_SCOPE_BACKWARD_FUNCTION && f->sequence >= 0) {
        t->node_sequence = f->sequence;
        t->node_forward = f->forward_thread;
        t->node_start = e->start;
        t->has_node = true;
    } else if (f->sequence < 0 && t->has_node && t->node_start >= e->start &&
               is_node_evaluation(e)) {
        f->sequence = t->node_sequence;
        f->forward_thread = t->node_forward;
        f->parts |= KF_FUNCTION_FORWARD;
        t->has_node = false;
    }
}

void kt_build_add_node(kt_build_state *s, const kf_function *f)
{
    bool backward = f->forward_thread != 0;
    kt_build_node node = {.sequence = (uint64_t)f->sequence,
                          .thread = backward ? f->forward_thread : f->thread,
                          .process = s->here,
                          .row = (kineto_row)s->b->trace->count,
                          .backward = backward};
    s->out_of_memory |= !kb_vec_push(&s->nodes, node);
}

/* ---- steps ----------------------------------------------------------------------------------- */

/* Moves the start of a step to 1 ns after that of the enclosing Python function. Rows of a
 * thread are in the order of their ends, so the enclosing row follows soon. */
static void move_step_start(kineto_trace *t, kineto_row step)
{
    KB_ASSERT(step < t->count);
    int64_t start = kt_start(t, step);
    for (uint64_t row = (uint64_t)step + 1; row < t->count; row++) {
        kineto_row r = (kineto_row)row;
        if (kt_row_track(t, r) != kt_row_track(t, step) ||
            kt_kind(t, r) != KINETO_KIND_PYTHON_FUNCTION || kt_start(t, r) > start ||
            kt_form(t, r) != KINETO_FORM_SLICE)
            continue;
        kt_block *block = t->blocks.data[step / KT_BLOCK_ROWS];
        int64_t adjusted = KB_MIN(kt_start(t, r) + 1, start);
        block->start_ns[step % KT_BLOCK_ROWS] = adjusted;
        block->min_start_ns = KB_MIN(block->min_start_ns, adjusted);
        return;
    }
}

void kt_build_steps(kt_build_state *s)
{
    for (size_t i = 0; i < s->steps.count; i++)
        move_step_start(s->b->trace, s->steps.data[i]);
}

/* ---- forward and backward -------------------------------------------------------------------- */

static int compare_graph_nodes(const void *a, const void *b)
{
    const kt_build_node *x = a, *y = b;
    if (x->process != y->process)
        return x->process < y->process ? -1 : 1;
    if (x->thread != y->thread)
        return x->thread < y->thread ? -1 : 1;
    if (x->sequence != y->sequence)
        return x->sequence < y->sequence ? -1 : 1;
    return x->row < y->row ? -1 : x->row > y->row; /* rows of a thread are in order of their ends */
}

static bool is_same_node(const kt_build_node *a, const kt_build_node *b)
{
    return a->process == b->process && a->thread == b->thread && a->sequence == b->sequence;
}

/* Links the operators of one sequence number. Of several forward operators the innermost,
 * which starts last, is linked, to one backward operator: the first that ends after it. */
static void link_node_group(kt_build_state *s, const kt_build_node *node, size_t count)
{
    const kineto_trace *t = s->b->trace;
    const kt_build_node *forward = NULL;
    for (size_t i = 0; i < count; i++) {
        KB_ASSERT(node[i].row < t->count);
        if (!node[i].backward) {
            if (!forward || kt_start(t, node[i].row) > kt_start(t, forward->row))
                forward = &node[i];
        } else if (forward) {
            uint64_t id = ++s->node_links;
            kt_flow(s->b, KINETO_FLOW_FWD_BWD, id, forward->row, true);
            kt_flow(s->b, KINETO_FLOW_FWD_BWD, id, node[i].row, false);
            forward = NULL;
        }
    }
}

/* Order of ends: a backward operator of another thread may have been read before its
 * forward operator. */
static int compare_node_ends(const kineto_trace *t, const kt_build_node *a, const kt_build_node *b)
{
    int64_t x = kt_end(t, a->row), y = kt_end(t, b->row);
    return x < y ? -1 : x > y;
}

static void sort_nodes_by_end(const kineto_trace *t, kt_build_node *node, size_t count)
{
    for (size_t i = 1; i < count; i++) {
        kt_build_node moved = node[i];
        size_t k = i;
        for (; k > 0 && compare_node_ends(t, &node[k - 1], &moved) > 0; k--)
            node[k] = node[k - 1];
        node[k] = moved;
    }
}

void kt_build_nodes(kt_build_state *s)
{
    if (!s->nodes.count)
        return;
    qsort(s->nodes.data, s->nodes.count, sizeof *s->nodes.data, compare_graph_nodes);
    for (size_t first = 0, next; first < s->nodes.count; first = next) {
        kt_build_node *group = &s->nodes.data[first];
        for (next = first + 1; next < s->nodes.count && is_same_node(group, &s->nodes.data[next]);)
            next++;
        sort_nodes_by_end(s->b->trace, group, next - first);
        link_node_group(s, group, next - first);
    }
    kb_vec_free(&s->nodes);
}
