/* A flame graph as SVG: the width of a box is the time of its stack; callees are drawn below their
 * callers. The script for zoom and search is part of the file (report/flame_graph.js); it reads places
 * and names of the boxes from what is written here. */
#include "export/report.h"
#include "export/stacks.h"

#define WIDTH     1200.0
#define LINE      18u
#define MIN_WIDTH 0.3  /* narrower boxes cannot be seen: they are not written */
#define MAX_DEPTH 400u /* deeper boxes are not written */
#define LETTER    7.0  /* width of a letter of the font */

typedef struct flame_box {
    double total_ns; /* a double: sums of arbitrary times may not fit an integer */
    uint64_t inner;  /* samples, or blocked states, of it and the boxes below */
    double x, width;
    uint32_t depth;
    uint32_t first, count; /* its range of flame.children */
} flame_box;

typedef struct flame {
    const ke_job *job;
    const ke_stacks *stacks;
    flame_box *boxes;   /* by node */
    uint32_t *children; /* nodes, by parent */
    double whole_ns;
    uint64_t dropped; /* boxes that were not written */
    uint32_t deepest;
} flame;

/* ---- sums ------------------------------------------------------------------------------------ */

/* Nodes are in an order in which parents precede their children. */
static void sum_box_times(flame *f)
{
    const ke_node *nodes = f->stacks->nodes.data;
    for (size_t i = f->stacks->nodes.count; i-- > 0;) {
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
static void list_child_boxes(flame *f)
{
    const ke_node *nodes = f->stacks->nodes.data;
    size_t count = f->stacks->nodes.count;
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
            flame_box *p = &f->boxes[nodes[i].parent];
            f->children[p->first + p->count++] = (uint32_t)i;
        }
}

/* The widest box first; of equals the order of nodes. */
static int compare_boxes(const void *left, const void *right, void *context)
{
    const flame_box *boxes = context;
    uint32_t a = *(const uint32_t *)left, b = *(const uint32_t *)right;
    if (boxes[a].total_ns != boxes[b].total_ns)
        return boxes[a].total_ns > boxes[b].total_ns ? -1 : 1;
    return a < b ? -1 : a > b;
}

/* Places the boxes of one parent next to each other, from x on. */
static void lay_out_siblings(flame *f, uint32_t *nodes, uint32_t count, double x, uint32_t depth)
{
    if (count)
        qsort_r(nodes, count, sizeof *nodes, compare_boxes, f->boxes);
    for (uint32_t i = 0; i < count; i++) {
        flame_box *p = &f->boxes[nodes[i]];
        p->x = x;
        p->depth = depth;
        p->width = f->whole_ns > 0 ? WIDTH * p->total_ns / f->whole_ns : 0;
        KB_ASSERT(p->width >= 0);
        x += p->width;
    }
}

/* Parents precede their children, so a box has its position before its children are placed. False:
 * out of memory. */
static bool lay_out_boxes(flame *f)
{
    const ke_node *nodes = f->stacks->nodes.data;
    size_t count = f->stacks->nodes.count;
    uint32_t *roots = malloc((count + 1) * sizeof *roots), root_count = 0;
    for (size_t i = 0; roots && i < count; i++)
        if (nodes[i].parent == KE_NO_NODE)
            roots[root_count++] = (uint32_t)i;
    if (!roots)
        return false;
    lay_out_siblings(f, roots, root_count, 0, 0);
    for (size_t i = 0; i < count; i++) {
        flame_box *p = &f->boxes[i];
        lay_out_siblings(f, f->children + p->first, p->count, p->x, p->depth + 1);
        if (p->width >= MIN_WIDTH && p->depth < MAX_DEPTH)
            f->deepest = KB_MAX(f->deepest, p->depth);
    }
    free(roots);
    return true;
}

/* ---- text ------------------------------------------------------------------------------------ */

/* As much of the name as the box has room for: viewers may not run the script. */
static void write_box_label(kb_sink *sink, kineto_string name, double width)
{
    size_t letters = (size_t)(width / LETTER), size = 0;
    if (letters < 3)
        return;
    for (size_t left = letters; size < name.size; size++)
        if (((unsigned char)name.data[size] & 0xc0) != 0x80 && left-- == 0)
            break;
    if (size == name.size) {
        kb_sink_write_xml(sink, name);
        return;
    }
    while (size && ((unsigned char)name.data[size - 1] & 0xc0) == 0x80)
        size--;
    kb_sink_write_xml(sink, (kineto_string){name.data, size - (size > 0)});
    kb_sink_write_z(sink, "…");
}

/* Formats one piece of SVG; pieces are shorter than the buffer by construction. */
KINETO_PRINTF(2, 3) static void write_svg(kb_sink *sink, const char *fmt, ...)
{
    char text[1024];
    va_list args;
    va_start(args, fmt);
    int n = kb_vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    kb_sink_write(sink, text, KB_MIN((size_t)KB_MAX(n, 0), sizeof text - 1));
}

/* A sum of weights: a duration, or a number of samples. */
static kb_text box_weight(const flame *f, double weight)
{
    kb_text text;
    if (f->job->options->weight != KINETO_EXPORT_WEIGHT_SAMPLES)
        return kb_duration(weight < 0x1p63 ? (int64_t)weight : INT64_MAX);
    snprintf(text.s, sizeof text.s, "%.0f samples", weight);
    return text;
}

/* How often a box was recorded: activities, samples within it, or how often threads were blocked. */
static void write_box_count(flame *f, uint32_t node)
{
    const ke_frame *frame = &f->stacks->frames.data[f->stacks->nodes.data[node].frame];
    bool is_sampled = frame->kind == KINETO_KIND_CPU_SAMPLE;
    uint64_t count = is_sampled || frame->kind == KINETO_KIND_THREAD_STATE
                         ? f->boxes[node].inner
                         : f->stacks->nodes.data[node].count;
    write_svg(f->job->sink, "%llu %s", (unsigned long long)count, is_sampled ? "samples" : "times");
}

/* Warm hues for the host, cool ones for devices; a name always has the same shade. */
static void write_box_colour(kb_sink *sink, const ke_frame *frame)
{
    uint64_t hash = kb_hash(frame->text.data, frame->text.size);
    bool of_device = frame->kind == KINETO_KIND_CONCURRENT_KERNEL ||
                     frame->kind == KINETO_KIND_GPU_MEMCPY || frame->kind == KINETO_KIND_GPU_MEMSET;
    unsigned shade = (unsigned)(hash % 35);
    unsigned hue = frame->kind == KINETO_KIND_COUNT ? 0 : (of_device ? 195 : 20) + shade;
    write_svg(sink, "hsl(%u,%u%%,%u%%)", hue, frame->kind == KINETO_KIND_COUNT ? 0 : 65,
              (unsigned)(68 + (hash >> 8) % 12));
}

/* Writes a box with its title, unless it is too narrow or too deep to be seen. */
static void write_box(flame *f, uint32_t node)
{
    kb_sink *sink = f->job->sink;
    const flame_box *p = &f->boxes[node];
    const ke_frame *frame = &f->stacks->frames.data[f->stacks->nodes.data[node].frame];
    kineto_string name = frame->text.size ? frame->text : kb_string("(no name)");
    if (p->width < MIN_WIDTH || p->depth >= MAX_DEPTH) {
        f->dropped++;
        return;
    }
    write_svg(
        sink,
        "<g data-x=\"%.3f\" data-w=\"%.3f\"><rect x=\"%.2f\" y=\"%u\" width=\"%.2f\" height=\"%u\" "
        "fill=\"",
        p->x, p->width, p->x, 30 + p->depth * LINE, p->width, LINE - 1);
    write_box_colour(sink, frame);
    kb_sink_write_z(sink, "\"/><title>");
    kb_sink_write_xml(sink, name);
    write_svg(sink, "\n%s, %.2f %%, ", box_weight(f, p->total_ns).s, p->width * 100 / WIDTH);
    write_box_count(f, node);
    write_svg(sink, "</title><text x=\"%.2f\" y=\"%u\">", p->x + 3, 43 + p->depth * LINE);
    write_box_label(sink, name, p->width);
    kb_sink_write_z(sink, "</text></g>\n");
}

static const char flame_style[] =
    "rect{stroke:#fff;stroke-width:.5}.back{fill:#fff}g{cursor:pointer}"
    "g:hover rect{stroke:#000;stroke-width:1}"
    "g.outer{opacity:.5}g.match rect{fill:#d14fd8}text{pointer-events:none}.head{font-size:13px}"
    ".bar{display:flex;gap:6px;justify-content:flex-end;align-items:center;background:#fff;height:26px}"
    ".bar *{font:12px system-ui,sans-serif}.bar input{width:160px}";

/* The height follows from the deepest box that is visible. */
static void write_flame_graph(flame *f)
{
    kb_sink *sink = f->job->sink;
    unsigned height = 40 + (f->deepest + 1) * LINE;
    write_svg(sink,
              "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n"
              "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"100%%\" viewBox=\"0 0 1200 %u\" "
              "preserveAspectRatio=\"xMidYMin meet\" font-family=\"ui-monospace,monospace\" "
              "font-size=\"11\">\n"
              "<style>%s</style>\n"
              "<rect class=\"back\" width=\"1200\" height=\"%u\"/><text class=\"head\" x=\"3\" "
              "y=\"19\">",
              height, flame_style, height);
    kb_sink_write_xml(sink, kb_string(f->job->trace_name ? f->job->trace_name : "trace"));
    write_svg(sink, ": %s in stacks</text>\n", box_weight(f, f->whole_ns).s);
    for (size_t i = 0; i < f->stacks->nodes.count && !kb_sink_failed(sink); i++)
        write_box(f, (uint32_t)i);
    kb_sink_write_z(sink, "<script><![CDATA[\n");
    kb_sink_write(sink, ke_report_flame_script.data, ke_report_flame_script.size);
    kb_sink_write_z(sink, "]]></script>\n");
    kb_sink_write_z(sink, "</svg>\n");
}

kineto_status ke_flame_write(ke_job *job, kineto_error *err)
{
    ke_stacks stacks;
    bool ok = ke_stacks_make(&stacks, job, 0, ke_stacks_rows(job));
    flame f = {.job = job, .stacks = &stacks};
    f.boxes = calloc(stacks.nodes.count + 1, sizeof *f.boxes);
    f.children = malloc((stacks.nodes.count + 1) * sizeof *f.children);
    ok = ok && f.boxes && f.children;
    if (ok) {
        sum_box_times(&f);
        list_child_boxes(&f);
        ok = lay_out_boxes(&f);
    }
    if (ok)
        write_flame_graph(&f);
    ke_stacks_account(job, &stacks);
    job->result->records = stacks.nodes.count - f.dropped;
    job->result->record_noun = "boxes";
    free(f.boxes);
    free(f.children);
    ke_stacks_free(&stacks);
    return ok ? KINETO_OK : ke_fail_memory(job, err);
}
