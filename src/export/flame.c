/* A flame graph as SVG: each stack's time as width, callers below or above as a browser likes it. A
 * click makes what was clicked as wide as the picture; the script for it is in the file. */
#include "export/stacks.h"

#define WIDTH       1200.0
#define LINE        18u
#define LEAST_WIDTH 0.3 /* narrower ones cannot be seen */
#define DEEPEST     400u
#define LETTER      7.0 /* the width of one */

typedef struct place {
    double total_ns; /* sums of hostile times do not fit an integer */
    double x, width;
    uint32_t depth;
    uint32_t first, count; /* of `children` */
} place;

typedef struct flame {
    const ke_job *job;
    const ke_stacks *stacks;
    place *places;      /* by node */
    uint32_t *children; /* nodes, by parent */
    double whole_ns;
    uint64_t left_out;
    uint32_t deepest;
} flame;

/* ---- sums ----------------------------------------------------------------------------------- */

/* Parents stand before their children. */
static void add_up(flame *f)
{
    const ke_node *nodes = f->stacks->nodes.data;
    for (size_t i = f->stacks->nodes.count; i-- > 0;) {
        double *to =
            nodes[i].parent == KE_NO_NODE ? &f->whole_ns : &f->places[nodes[i].parent].total_ns;
        f->places[i].total_ns += (double)nodes[i].self_ns;
        *to += f->places[i].total_ns;
    }
}

static void list_children(flame *f)
{
    const ke_node *nodes = f->stacks->nodes.data;
    size_t count = f->stacks->nodes.count;
    uint32_t at = 0;
    for (size_t i = 0; i < count; i++)
        if (nodes[i].parent != KE_NO_NODE)
            f->places[nodes[i].parent].count++;
    for (size_t i = 0; i < count; i++) {
        f->places[i].first = at;
        at += f->places[i].count;
        f->places[i].count = 0;
    }
    for (size_t i = 0; i < count; i++)
        if (nodes[i].parent != KE_NO_NODE) {
            place *p = &f->places[nodes[i].parent];
            f->children[p->first + p->count++] = (uint32_t)i;
        }
}

/* The widest first, then in the order they came. */
static int compare(const void *left, const void *right, void *context)
{
    const place *places = context;
    uint32_t a = *(const uint32_t *)left, b = *(const uint32_t *)right;
    if (places[a].total_ns != places[b].total_ns)
        return places[a].total_ns > places[b].total_ns ? -1 : 1;
    return a < b ? -1 : a > b;
}

static void lay_out(flame *f, uint32_t *nodes, uint32_t count, double x, uint32_t depth)
{
    if (count)
        qsort_r(nodes, count, sizeof *nodes, compare, f->places);
    for (uint32_t i = 0; i < count; i++) {
        place *p = &f->places[nodes[i]];
        p->x = x;
        p->depth = depth;
        p->width = f->whole_ns > 0 ? WIDTH * p->total_ns / f->whole_ns : 0;
        x += p->width;
    }
}

/* Parents are laid out before their children. */
static bool lay_out_all(flame *f)
{
    const ke_node *nodes = f->stacks->nodes.data;
    size_t count = f->stacks->nodes.count;
    uint32_t *roots = malloc((count + 1) * sizeof *roots), root_count = 0;
    for (size_t i = 0; roots && i < count; i++)
        if (nodes[i].parent == KE_NO_NODE)
            roots[root_count++] = (uint32_t)i;
    if (!roots)
        return false;
    lay_out(f, roots, root_count, 0, 0);
    for (size_t i = 0; i < count; i++) {
        place *p = &f->places[i];
        lay_out(f, f->children + p->first, p->count, p->x, p->depth + 1);
        if (p->width >= LEAST_WIDTH && p->depth < DEEPEST)
            f->deepest = KB_MAX(f->deepest, p->depth);
    }
    free(roots);
    return true;
}

/* ---- text ----------------------------------------------------------------------------------- */

/* As much of a name as a box has room for, for those who draw without the script. */
static void put_label(kb_sink *sink, kineto_string name, double width)
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

KINETO_PRINTF(2, 3) static void put(kb_sink *sink, const char *fmt, ...)
{
    char text[1024];
    va_list args;
    va_start(args, fmt);
    int n = kb_vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    kb_sink_write(sink, text, KB_MIN((size_t)KB_MAX(n, 0), sizeof text - 1));
}

static kb_text duration_of(double ns) { return kb_duration(ns < 0x1p63 ? (int64_t)ns : INT64_MAX); }

/* Warm for the host, cool for devices; names keep their shade. */
static void put_colour(kb_sink *sink, const ke_frame *frame)
{
    uint64_t hash = kb_hash(frame->text.data, frame->text.size);
    bool of_device = frame->kind == KINETO_KIND_CONCURRENT_KERNEL ||
                     frame->kind == KINETO_KIND_GPU_MEMCPY || frame->kind == KINETO_KIND_GPU_MEMSET;
    unsigned shade = (unsigned)(hash % 35);
    unsigned hue = frame->kind == KINETO_KIND_COUNT ? 0 : (of_device ? 195 : 20) + shade;
    put(sink, "hsl(%u,%u%%,%u%%)", hue, frame->kind == KINETO_KIND_COUNT ? 0 : 65,
        (unsigned)(68 + (hash >> 8) % 12));
}

static void put_box(flame *f, uint32_t node)
{
    kb_sink *sink = f->job->sink;
    const place *p = &f->places[node];
    const ke_frame *frame = &f->stacks->frames.data[f->stacks->nodes.data[node].frame];
    kineto_string name = frame->text.size ? frame->text : kb_string("(no name)");
    if (p->width < LEAST_WIDTH || p->depth >= DEEPEST) {
        f->left_out++;
        return;
    }
    put(sink,
        "<g data-x=\"%.3f\" data-w=\"%.3f\"><rect x=\"%.2f\" y=\"%u\" width=\"%.2f\" height=\"%u\" "
        "fill=\"",
        p->x, p->width, p->x, 30 + p->depth * LINE, p->width, LINE - 1);
    put_colour(sink, frame);
    kb_sink_write_z(sink, "\"/><title>");
    kb_sink_write_xml(sink, name);
    put(sink, "\n%s, %.2f %%, %llu times</title><text x=\"%.2f\" y=\"%u\">",
        duration_of(p->total_ns).s, p->width * 100 / WIDTH,
        (unsigned long long)f->stacks->nodes.data[node].count, p->x + 3, 43 + p->depth * LINE);
    put_label(sink, name, p->width);
    kb_sink_write_z(sink, "</text></g>\n");
}

static const char script[] =
    "<script><![CDATA[\n"
    "const boxes = [...document.querySelectorAll('g[data-x]')];\n"
    "function show(from, width) {\n"
    "  for (const g of boxes) {\n"
    "    const x = (g.dataset.x - from) * 1200 / width, w = g.dataset.w * 1200 / width;\n"
    "    const left = Math.max(x, 0), right = Math.min(x + w, 1200), room = right - left;\n"
    "    g.style.display = room > 0.2 ? '' : 'none';\n"
    "    const [box, title, text] = g.children;\n"
    "    box.setAttribute('x', left); box.setAttribute('width', Math.max(room, 0));\n"
    "    const name = title.textContent.slice(0, title.textContent.lastIndexOf('\\n'));\n"
    "    const letters = Math.floor(room / 7);\n"
    "    text.setAttribute('x', left + 3);\n"
    "    text.textContent = letters < 3 ? '' : name.length <= letters ? name\n"
    "      : name.slice(0, letters - 1) + '\\u2026';\n"
    "  }\n"
    "}\n"
    "document.documentElement.addEventListener('click', e => {\n"
    "  const g = e.target.closest('g[data-x]');\n"
    "  if (g) show(+g.dataset.x, +g.dataset.w); else show(0, 1200);\n"
    "});\n"
    "show(0, 1200);\n"
    "]]></script>\n";

static void put_picture(flame *f)
{
    kb_sink *sink = f->job->sink;
    unsigned height = 40 + (f->deepest + 1) * LINE;
    put(sink,
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n"
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 1200 %u\" "
        "font-family=\"ui-monospace,monospace\" font-size=\"11\">\n"
        "<style>rect{stroke:#fff;stroke-width:.5}g:hover rect{stroke:#000;stroke-width:1}"
        "text{pointer-events:none}</style>\n"
        "<rect width=\"1200\" height=\"%u\" fill=\"#fff\"/><text x=\"3\" y=\"18\" "
        "font-size=\"13\">",
        height, height);
    kb_sink_write_xml(sink, kb_string(f->job->trace_name ? f->job->trace_name : "trace"));
    put(sink, ": %s in stacks; click to look closer, beside it to go back</text>\n",
        duration_of(f->whole_ns).s);
    for (size_t i = 0; i < f->stacks->nodes.count && !kb_sink_failed(sink); i++)
        put_box(f, (uint32_t)i);
    kb_sink_write_z(sink, script);
    kb_sink_write_z(sink, "</svg>\n");
}

kineto_status ke_flame_write(ke_job *job, kineto_error *err)
{
    ke_stacks stacks;
    bool ok = ke_stacks_make(&stacks, job, 0);
    flame f = {.job = job, .stacks = &stacks};
    f.places = calloc(stacks.nodes.count + 1, sizeof *f.places);
    f.children = malloc((stacks.nodes.count + 1) * sizeof *f.children);
    ok = ok && f.places && f.children;
    if (ok) {
        add_up(&f);
        list_children(&f);
        ok = lay_out_all(&f);
    }
    if (ok)
        put_picture(&f);
    ke_stacks_account(job, stacks.forms);
    job->result->records = stacks.nodes.count - f.left_out;
    job->result->record_noun = "boxes";
    free(f.places);
    free(f.children);
    ke_stacks_free(&stacks);
    return ok ? KINETO_OK : ke_no_memory(job, err);
}
