/* A picture as SVG: no scripts, no references. Runs of cells with the same name are one box. */
#include "cli/mcp/picture.h"

#define PLOT_WIDTH  1000.0
#define LEFT        10.0
#define LINE_HEIGHT 14u
#define LABEL_BYTES 100u

static void write_format(kb_sink *sink, const char *fmt, ...) KINETO_PRINTF(2, 3);
static void write_format(kb_sink *sink, const char *fmt, ...)
{
    char text[512];
    va_list args;
    va_start(args, fmt);
    int n = kb_vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    if (n > 0)
        kb_sink_write(sink, text, KB_MIN((size_t)n, sizeof text - 1));
}

static void write_svg_text(kb_sink *sink, double x, double y, kineto_string text)
{
    write_format(sink, "<text x=\"%.0f\" y=\"%.0f\">", x, y);
    kb_sink_write_xml(sink, kb_utf8_cut(text, LABEL_BYTES));
    kb_sink_write_z(sink, "</text>\n");
}

/* Boxes of one colour in one path: short, however many there are. */
static void write_boxes_of(const kc_picture *p, uint32_t name, const uint32_t *tops, kb_sink *sink)
{
    double cell = PLOT_WIDTH / p->width;
    bool is_begun = false;
    for (uint32_t row = 0; row < p->row_count; row++)
        for (uint32_t x = 0; x < p->width;) {
            uint32_t from = x;
            while (x < p->width && kc_picture_name_at(p, row, x) == name)
                x++;
            if (x > from && !is_begun)
                write_format(sink, "<path fill=\"%s\" d=\"", kc_picture_colour(name));
            if (x > from)
                write_format(sink, "M%.5g %uh%.5gv%uh-%.5gz", LEFT + from * cell, tops[row], (x - from) * cell,
                             LINE_HEIGHT - 2, (x - from) * cell);
            is_begun |= x > from;
            x += x == from;
        }
    if (is_begun)
        kb_sink_write_z(sink, "\"/>\n");
}

/* Five times along the top, relative to the start of the trace. */
static void write_axis(const kc_picture *p, kb_sink *sink)
{
    enum { TICKS = 5 };
    for (int i = 0; i < TICKS; i++) {
        double share = (double)i / TICKS, x = LEFT + PLOT_WIDTH * share;
        int64_t at = p->from_ns + (int64_t)((double)(p->to_ns - p->from_ns) * share) - p->start_ns;
        write_format(sink, "<path stroke=\"#ccc\" d=\"M%.0f 20V9999\"/>", x);
        write_svg_text(sink, x + 2, 14, kb_string(kb_short_duration(at).s));
    }
}

/* A colour and a name on each line. */
static void write_legend(const kc_picture *p, double y, kb_sink *sink)
{
    for (uint32_t i = 0; i < p->name_count; i++) {
        ke_label name = kc_picture_name_of(p, i);
        write_format(sink, "<path fill=\"%s\" d=\"M10 %.0fh12v10h-12z\"/>", kc_picture_colour(i), y - 10);
        write_svg_text(sink, 28, y, kb_string(kb_short_duration((int64_t)p->names[i].ns).s));
        write_svg_text(sink, 110, y, (kineto_string){name.text, name.size});
        y += LINE_HEIGHT;
    }
}

void kc_picture_write_svg(const kc_picture *p, kb_sink *sink)
{
    uint32_t tops[KC_PICTURE_LANES * KC_PICTURE_LEVELS], y = 24, labels[KC_PICTURE_LANES];
    for (uint32_t i = 0; i < p->lane_count; i++) {
        labels[i] = y + LINE_HEIGHT - 3;
        y += LINE_HEIGHT;
        for (uint32_t k = 0; k < p->lanes[i].levels; k++, y += LINE_HEIGHT)
            tops[p->lanes[i].row + k] = y;
    }
    uint32_t height = y + 12 + LINE_HEIGHT * (p->name_count + 1);
    write_format(sink,
                 "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"1020\" height=\"%u\" font-family=\"sans-serif\" "
                 "font-size=\"11\">\n<rect width=\"1020\" height=\"%u\" fill=\"#fff\"/>\n",
                 height, height);
    write_axis(p, sink);
    for (uint32_t i = 0; i < p->lane_count; i++) {
        ke_label l = kc_picture_label(p, i);
        write_svg_text(sink, LEFT, labels[i], (kineto_string){l.text, l.size});
    }
    for (uint32_t name = 0; name <= KC_PICTURE_NAMES; name++)
        write_boxes_of(p, name, tops, sink);
    write_legend(p, y + 12.0 + LINE_HEIGHT, sink);
    kb_sink_write_z(sink, "</svg>\n");
}
