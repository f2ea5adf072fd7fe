/* A flame graph as SVG: the width of a box is the time of its stack; callees are drawn below their
 * callers. The script for zoom and search is part of the file (report/flame_graph.js, report/flame_file.js); it reads places
 * and names of the boxes from what is written here. */
#include "export/flame_boxes.h"
#include "export/report.h"

#define LINE      18u
#define MIN_WIDTH 0.3 /* narrower boxes cannot be seen: they are not written */
#define LETTER    7.0 /* width of a letter of the font */

/* A graph, and what was written of it. */
typedef struct flame_writer {
    ke_flame flame;
    const ke_job *job;
    uint64_t dropped; /* boxes that were not written */
    uint32_t deepest;
} flame_writer;

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
static kb_text box_weight(const ke_job *job, double weight)
{
    kb_text text;
    if (job->options->weight != KINETO_EXPORT_WEIGHT_SAMPLES)
        return kb_duration(weight < 0x1p63 ? (int64_t)weight : INT64_MAX);
    snprintf(text.s, sizeof text.s, "%.0f samples", weight);
    return text;
}

static bool is_box_visible(const ke_flame_box *box)
{
    return box->width >= MIN_WIDTH && box->depth < KE_FLAME_DEPTH;
}

/* Writes a box with its title. */
static void write_box(const flame_writer *w, uint32_t node)
{
    kb_sink *sink = w->job->sink;
    const ke_flame_box *p = &w->flame.boxes[node];
    const ke_frame *frame = ke_flame_frame(&w->flame, node);
    ke_flame_colour c = ke_flame_colour_of(frame);
    kineto_string name = ke_flame_name(frame);
    const char *noun;
    uint64_t count = ke_flame_count(&w->flame, node, &noun);
    write_svg(
        sink,
        "<g data-x=\"%.3f\" data-w=\"%.3f\"><rect x=\"%.2f\" y=\"%u\" width=\"%.2f\" height=\"%u\" "
        "fill=\"hsl(%u,%u%%,%u%%)\"/><title>",
        p->x, p->width, p->x, 30 + p->depth * LINE, p->width, LINE - 1, c.hue, c.saturation, c.lightness);
    kb_sink_write_xml(sink, name);
    write_svg(sink, "\n%s, %.2f %%, %llu %s%s</title><text x=\"%.2f\" y=\"%u\">",
              box_weight(w->job, p->total_ns).s, p->width * 100 / KE_FLAME_WIDTH,
              (unsigned long long)count, noun, count == 1 ? "" : "s", p->x + 3, 43 + p->depth * LINE);
    write_box_label(sink, name, p->width);
    kb_sink_write_z(sink, "</text></g>\n");
}

static const char flame_style[] =
    "rect{stroke:#fff;stroke-width:.5}.back{fill:#fff}g{cursor:pointer}"
    "g:hover rect{stroke:#000;stroke-width:1}"
    "g.outer{filter:saturate(.25)}g.match rect{fill:#d14fd8}"
    "g.current rect{stroke:#000;stroke-width:1.5}text{pointer-events:none}.head{font-size:13px}"
    ".flame-tools{display:flex;gap:6px;justify-content:flex-end;align-items:center;background:#fff;height:26px}"
    ".flame-tools *{font:12px system-ui,sans-serif}.flame-tools input{width:160px;flex:none}"
    ".flame-tools output{overflow:hidden;text-overflow:ellipsis;white-space:nowrap}";

/* The height follows from the deepest box that is visible. */
static void write_flame_graph(flame_writer *w)
{
    kb_sink *sink = w->job->sink;
    size_t count = w->flame.stacks.nodes.count;
    for (size_t i = 0; i < count; i++)
        if (is_box_visible(&w->flame.boxes[i]))
            w->deepest = KB_MAX(w->deepest, w->flame.boxes[i].depth);
        else
            w->dropped++;
    unsigned height = 40 + (w->deepest + 1) * LINE;
    write_svg(sink,
              "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n"
              "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"100%%\" viewBox=\"0 0 1200 %u\" "
              "preserveAspectRatio=\"xMidYMin meet\" font-family=\"ui-monospace,monospace\" "
              "font-size=\"11\">\n"
              "<style>%s</style>\n"
              "<rect class=\"back\" width=\"1200\" height=\"%u\"/><text class=\"head\" x=\"3\" "
              "y=\"19\">",
              height, flame_style, height);
    kb_sink_write_xml(sink, kb_string(w->job->trace_name ? w->job->trace_name : "trace"));
    write_svg(sink, ": %s in stacks</text>\n", box_weight(w->job, w->flame.whole_ns).s);
    for (size_t i = 0; i < count && !kb_sink_failed(sink); i++)
        if (is_box_visible(&w->flame.boxes[i]))
            write_box(w, (uint32_t)i);
    kb_sink_write_z(sink, "<script><![CDATA[\n");
    kb_sink_write(sink, ke_report_flame_script.data, ke_report_flame_script.size);
    kb_sink_write_z(sink, "]]></script>\n");
    kb_sink_write_z(sink, "</svg>\n");
}

kineto_status ke_flame_write(ke_job *job, kineto_error *err)
{
    flame_writer w = {.job = job};
    bool ok = ke_flame_make(&w.flame, job);
    if (ok)
        write_flame_graph(&w);
    ke_stacks_account(job, &w.flame.stacks);
    job->result->records = w.flame.stacks.nodes.count - w.dropped;
    job->result->record_noun = "boxes";
    ke_flame_free(&w.flame);
    return ok ? KINETO_OK : ke_fail_memory(job, err);
}
