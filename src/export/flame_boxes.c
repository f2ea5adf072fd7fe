/* Boxes of a flame graph from stacks (flame_boxes.h). */
#include "export/flame_boxes.h"

/* ---- sums ------------------------------------------------------------------------------------ */

/* Nodes are in an order in which parents precede their children. */
static void sum_box_times(ke_flame *f)
{
    const ke_node *nodes = f->stacks.nodes.data;
    for (size_t i = f->stacks.nodes.count; i-- > 0;) {
        double *to =
            nodes[i].parent == KE_NO_NODE ? &f->whole_ns : &f->boxes[nodes[i].parent].total_ns;
        f->boxes[i].total_ns += (double)ke_stacks_weight(f->job, &nodes[i]);
        *to += f->boxes[i].total_ns;
        f->boxes[i].inner += nodes[i].count ? 0 : ke_stacks_count(&nodes[i]);
        if (nodes[i].parent != KE_NO_NODE)
            f->boxes[nodes[i].parent].inner += f->boxes[i].inner;
    }
}

/* Counting sort of all nodes by their parent. */
static void list_child_boxes(ke_flame *f)
{
    const ke_node *nodes = f->stacks.nodes.data;
    size_t count = f->stacks.nodes.count;
    uint32_t at = 0;
    for (size_t i = 0; i < count; i++)
        if (nodes[i].parent != KE_NO_NODE)
            f->boxes[nodes[i].parent].count++;
    for (size_t i = 0; i < count; i++) {
        f->boxes[i].first = at;
        at += f->boxes[i].count;
        f->boxes[i].count = 0;
    }
    for (size_t i = 0; i < count; i++)
        if (nodes[i].parent != KE_NO_NODE) {
            ke_flame_box *p = &f->boxes[nodes[i].parent];
            f->children[p->first + p->count++] = (uint32_t)i;
        }
}

/* The widest box first; of equals the order of nodes. */
static int compare_boxes(const void *left, const void *right, void *context)
{
    const ke_flame_box *boxes = context;
    uint32_t a = *(const uint32_t *)left, b = *(const uint32_t *)right;
    if (boxes[a].total_ns != boxes[b].total_ns)
        return boxes[a].total_ns > boxes[b].total_ns ? -1 : 1;
    return a < b ? -1 : a > b;
}

void ke_flame_sort(const ke_flame *f, uint32_t *nodes, size_t count)
{
    if (count)
        qsort_r(nodes, count, sizeof *nodes, compare_boxes, f->boxes);
}

/* Places the boxes of one parent next to each other, from x on. */
static void lay_out_siblings(ke_flame *f, uint32_t *nodes, uint32_t count, double x, uint32_t depth)
{
    ke_flame_sort(f, nodes, count);
    for (uint32_t i = 0; i < count; i++) {
        ke_flame_box *p = &f->boxes[nodes[i]];
        p->x = x;
        p->depth = depth;
        p->width = f->whole_ns > 0 ? KE_FLAME_WIDTH * p->total_ns / f->whole_ns : 0;
        KB_ASSERT(p->width >= 0);
        x += p->width;
    }
}

/* Parents precede their children, so a box has its position before its children are placed. */
static void lay_out_boxes(ke_flame *f)
{
    const ke_node *nodes = f->stacks.nodes.data;
    size_t count = f->stacks.nodes.count;
    for (size_t i = 0; i < count; i++)
        if (nodes[i].parent == KE_NO_NODE)
            f->roots[f->root_count++] = (uint32_t)i;
    lay_out_siblings(f, f->roots, f->root_count, 0, 0);
    for (size_t i = 0; i < count; i++) {
        ke_flame_box *p = &f->boxes[i];
        lay_out_siblings(f, f->children + p->first, p->count, p->x, p->depth + 1);
    }
}

/* ---- the interface --------------------------------------------------------------------------- */

bool ke_flame_make(ke_flame *f, const ke_job *job)
{
    *f = (ke_flame){.job = job};
    bool ok = ke_stacks_make(&f->stacks, job, 0, ke_stacks_rows(job));
    f->boxes = calloc(f->stacks.nodes.count + 1, sizeof *f->boxes);
    f->children = malloc((f->stacks.nodes.count + 1) * sizeof *f->children);
    f->roots = malloc((f->stacks.nodes.count + 1) * sizeof *f->roots);
    if (!ok || !f->boxes || !f->children || !f->roots)
        return false;
    sum_box_times(f);
    list_child_boxes(f);
    lay_out_boxes(f);
    return true;
}

void ke_flame_free(ke_flame *f)
{
    free(f->boxes);
    free(f->children);
    free(f->roots);
    ke_stacks_free(&f->stacks);
}

const ke_frame *ke_flame_frame(const ke_flame *f, uint32_t node)
{
    return &f->stacks.frames.data[f->stacks.nodes.data[node].frame];
}

kineto_string ke_flame_name(const ke_frame *frame)
{
    return frame->text.size ? frame->text : kb_string("(no name)");
}

uint64_t ke_flame_count(const ke_flame *f, uint32_t node, const char **noun)
{
    uint32_t kind = ke_flame_frame(f, node)->kind;
    bool is_sampled = kind == KINETO_KIND_CPU_SAMPLE;
    *noun = is_sampled ? "sample" : "time";
    return is_sampled || kind == KINETO_KIND_THREAD_STATE ? f->boxes[node].inner
                                                          : f->stacks.nodes.data[node].count;
}

ke_flame_colour ke_flame_colour_of(const ke_frame *frame)
{
    uint64_t hash = kb_hash(frame->text.data, frame->text.size);
    bool of_device = frame->kind == KINETO_KIND_CONCURRENT_KERNEL ||
                     frame->kind == KINETO_KIND_GPU_MEMCPY || frame->kind == KINETO_KIND_GPU_MEMSET;
    bool is_root = frame->kind == KINETO_KIND_COUNT;
    return (ke_flame_colour){.hue = is_root ? 0 : (of_device ? 195 : 20) + (unsigned)(hash % 35),
                             .saturation = is_root ? 0 : 65,
                             .lightness = (unsigned)(68 + (hash >> 8) % 12)};
}
