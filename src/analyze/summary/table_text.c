/* The table as PyTorch prints it: the same columns, widths, units and footers. */
#include "analyze/summary/summary.h"

#define USUAL_WIDTH 12u
#define SPACING     2u

typedef enum column_kind {
    NAME,
    OVERLOAD,
    SELF_CPU_SHARE,
    SELF_CPU,
    CPU_SHARE,
    CPU,
    CPU_AVERAGE,
    SELF_DEVICE,
    SELF_DEVICE_SHARE,
    DEVICE,
    DEVICE_AVERAGE,
    CPU_MEMORY,
    SELF_CPU_MEMORY,
    DEVICE_MEMORY,
    SELF_DEVICE_MEMORY,
    CALLS,
    SHAPES,
    SOURCE,
    FLOPS,
    KINDS
} column_kind;

typedef struct column {
    column_kind kind;
    size_t width;
    char header[40];
} column;

typedef struct writing {
    const ka_summary_table *t;
    kb_sink *sink;
    column columns[KINDS];
    size_t count;
    char device[16]; /* in capitals */
    bool has_overloads, has_device_time, has_device_memory, has_shapes, has_stacks;
    size_t longest_name, longest_shapes, longest_frame; /* characters */
    uint64_t least_flops;
    int64_t self_cpu_ns, self_device_ns; /* of all rows: what shares are of */
    ka_text_cell cell;
} writing;

/* ---- what there is --------------------------------------------------------------------------- */

static void look_at_stack(writing *w, uint32_t index, uint32_t depth)
{
    w->has_stacks |= depth > 0;
    for (uint32_t i = 0; i < depth; i++)
        w->longest_frame = KB_MAX(w->longest_frame,
                                  ka_text_columns(kineto_averages_frame(w->t->averages, index, i)));
}

static void look_at(writing *w, uint32_t index)
{
    kineto_average row;
    kineto_averages_get(w->t->averages, index, &row);
    bool is_device = row.flags & KINETO_FUNCTION_DEVICE;
    w->has_overloads |= row.overload.size > 0;
    w->has_shapes |= row.input_shapes.size > 2; /* "[]" is none */
    w->has_device_time |= row.self_device_time_total_ns > 0;
    w->has_device_memory |= row.self_device_memory_usage > 0;
    w->longest_name = KB_MAX(w->longest_name, ka_text_columns(row.name));
    w->longest_shapes = KB_MAX(w->longest_shapes, ka_text_columns(row.input_shapes));
    look_at_stack(w, index, row.stack_depth);
    if (row.flops && (!w->least_flops || row.flops < w->least_flops))
        w->least_flops = row.flops;
    w->self_cpu_ns = ka_add_saturated(w->self_cpu_ns, row.self_cpu_time_total_ns);
    if (is_device ? !(row.flags & KINETO_FUNCTION_ANNOTATION)
                  : (row.flags & KINETO_FUNCTION_LEGACY) != 0)
        w->self_device_ns = ka_add_saturated(w->self_device_ns, row.self_device_time_total_ns);
}

/* ---- columns --------------------------------------------------------------------------------- */

static void add_column(writing *w, column_kind kind, size_t width, const char *before,
                       const char *device, const char *after)
{
    column *c = &w->columns[w->count++];
    c->kind = kind;
    c->width = width;
    snprintf(c->header, sizeof c->header, "%s%s%s", before, device, after);
}

static void add_usual(writing *w, column_kind kind, const char *header)
{
    add_column(w, kind, USUAL_WIDTH, header, "", "");
}

static void add_device_times(writing *w)
{
    add_column(w, SELF_DEVICE, USUAL_WIDTH, "Self ", w->device, "");
    add_column(w, SELF_DEVICE_SHARE, USUAL_WIDTH, "Self ", w->device, " %");
    add_column(w, DEVICE, USUAL_WIDTH, "", w->device, " total");
    add_column(w, DEVICE_AVERAGE, USUAL_WIDTH, "", w->device, " time avg");
}

static void add_memory(writing *w)
{
    add_usual(w, CPU_MEMORY, "CPU Mem");
    add_usual(w, SELF_CPU_MEMORY, "Self CPU Mem");
    if (w->has_device_memory) {
        add_column(w, DEVICE_MEMORY, USUAL_WIDTH, "", w->device, " Mem");
        add_column(w, SELF_DEVICE_MEMORY, USUAL_WIDTH, "Self ", w->device, " Mem");
    }
}

static void choose_columns(writing *w)
{
    const kineto_table_options *o = &w->t->options;
    size_t name_width = KB_MIN(w->longest_name + 4, (size_t)o->max_name_width);
    bool memory =
        o->memory == KINETO_YES || (o->memory == KINETO_AUTO && w->t->averages->has_memory);
    add_column(w, NAME, name_width, "Name", "", "");
    if (w->has_overloads)
        add_column(w, OVERLOAD, name_width, "Overload Name", "", "");
    add_usual(w, SELF_CPU_SHARE, "Self CPU %");
    add_usual(w, SELF_CPU, "Self CPU");
    add_usual(w, CPU_SHARE, "CPU total %");
    add_usual(w, CPU, "CPU total");
    add_usual(w, CPU_AVERAGE, "CPU time avg");
    if (w->has_device_time)
        add_device_times(w);
    if (memory)
        add_memory(w);
    add_usual(w, CALLS, "# of Calls");
    if (w->has_shapes)
        add_column(w, SHAPES, KB_MIN(w->longest_shapes + 4, (size_t)o->max_shapes_width),
                   "Input Shapes", "", "");
    if (w->has_stacks)
        add_column(w, SOURCE, KB_MIN(w->longest_frame + 4, (size_t)o->max_source_width),
                   "Source Location", "", "");
    if (w->least_flops)
        add_column(w, FLOPS, USUAL_WIDTH, "Total ",
                   ka_flops_units[ka_flops_thousands(w->least_flops)], "");
}

/* ---- lines ----------------------------------------------------------------------------------- */

static void fill(writing *w, char c, size_t count)
{
    while (count) {
        size_t some = KB_MIN(count, (size_t)4096);
        memset(kb_sink_reserve(w->sink, some), c, some);
        kb_sink_advance(w->sink, some);
        count -= some;
    }
}

/* The cell at hand, to the right but for source lines. */
static void put_cell(writing *w, const column *c)
{
    size_t pad = c->width > w->cell.columns ? c->width - w->cell.columns : 0;
    bool left = c->kind == SOURCE;
    fill(w, ' ', left ? 0 : pad);
    kb_sink_write(w->sink, w->cell.text.data, w->cell.text.count);
    fill(w, ' ', (left ? pad : 0) + SPACING);
}

static void put_rule(writing *w)
{
    for (size_t i = 0; i < w->count; i++) {
        fill(w, '-', w->columns[i].width);
        fill(w, ' ', SPACING);
    }
    kb_sink_write_z(w->sink, "\n");
}

static void put_heading(writing *w)
{
    const kineto_table_options *o = &w->t->options;
    size_t length = 0;
    for (size_t i = 0; i < w->count; i++)
        length += w->columns[i].width + (i ? SPACING : 0);
    if (o->header) {
        fill(w, '=', length);
        kb_sink_write_z(w->sink, "\n");
        kb_sink_write_z(w->sink, o->header);
        kb_sink_write_z(w->sink, "\n");
    }
    if (o->top_level_events_only) {
        fill(w, '=', length);
        kb_sink_write_z(w->sink, "\nThis report only display top-level ops statistics\n");
    }
    put_rule(w);
    for (size_t i = 0; i < w->count; i++) {
        ka_text_cell_set(&w->cell, kb_string(w->columns[i].header));
        put_cell(w, &w->columns[i]);
    }
    kb_sink_write_z(w->sink, "\n");
    put_rule(w);
}

/* ---- rows ------------------------------------------------------------------------------------ */

static void set_number(writing *w, kb_text text) { ka_text_cell_set(&w->cell, kb_string(text.s)); }

static void set_name(writing *w, kineto_string name)
{
    size_t most = w->t->options.max_name_width, front = most > 3 ? most - 3 : 0;
    ka_text_cell_set(&w->cell, name);
    if (w->cell.columns >= front) {
        ka_text_cell_keep_front(&w->cell, front);
        ka_text_cell_append(&w->cell, "...", 3, 3);
    }
}

/* The end of a path says more than its beginning. */
static void set_source(writing *w, const column *c, kineto_string frame)
{
    ka_text_cell_set(&w->cell, frame);
    if (w->cell.columns <= c->width)
        return;
    bool dots = c->width > 3;
    ka_text_cell_keep_back(&w->cell, dots ? c->width - 3 : c->width);
    for (int i = 0; dots && i < 3; i++)
        ka_text_cell_append(&w->cell, ".", 1, 1);
    if (dots && !w->cell.no_memory) { /* from the end to the front */
        memmove(w->cell.text.data + 3, w->cell.text.data, w->cell.text.count - 3);
        memcpy(w->cell.text.data, "...", 3);
    }
}

static void set_time(writing *w, double us)
{
    set_number(w, ka_time_text(us, w->t->options.time_unit));
}

static void set_share(writing *w, int64_t part_ns, int64_t whole_ns)
{
    set_number(w, ka_share_text((double)part_ns / 1e3, (double)whole_ns / 1e3));
}

static void set_count(writing *w, uint64_t count)
{
    kb_text text;
    snprintf(text.s, sizeof text.s, "%llu", (unsigned long long)count);
    set_number(w, text);
}

static void set_time_column(writing *w, column_kind kind, const kineto_average *row)
{
    static const ka_metric metrics[KINDS] = {[SELF_CPU] = KA_METRIC_SELF_CPU_TIME_TOTAL,
                                             [CPU] = KA_METRIC_CPU_TIME_TOTAL,
                                             [CPU_AVERAGE] = KA_METRIC_CPU_TIME,
                                             [SELF_DEVICE] = KA_METRIC_SELF_DEVICE_TIME_TOTAL,
                                             [DEVICE] = KA_METRIC_DEVICE_TIME_TOTAL,
                                             [DEVICE_AVERAGE] = KA_METRIC_DEVICE_TIME};
    if (kind == SELF_CPU_SHARE)
        set_share(w, row->self_cpu_time_total_ns, w->self_cpu_ns);
    else if (kind == CPU_SHARE && row->flags & KINETO_FUNCTION_ASYNC)
        ka_text_cell_set(&w->cell, kb_string("0")); /* it is no part of the whole */
    else if (kind == CPU_SHARE)
        set_share(w, row->cpu_time_total_ns, w->self_cpu_ns);
    else if (kind == SELF_DEVICE_SHARE)
        set_share(w, row->self_device_time_total_ns, w->self_device_ns);
    else
        set_time(w, ka_metric_value(row, metrics[kind]));
}

static void set_cell(writing *w, const column *c, const kineto_average *row, uint32_t index)
{
    switch (c->kind) {
    case NAME:
        set_name(w, row->name);
        break;
    case OVERLOAD:
        set_name(w, row->overload);
        break;
    case CPU_MEMORY:
        set_number(w, ka_memory_text(row->cpu_memory_usage));
        break;
    case SELF_CPU_MEMORY:
        set_number(w, ka_memory_text(row->self_cpu_memory_usage));
        break;
    case DEVICE_MEMORY:
        set_number(w, ka_memory_text(row->device_memory_usage));
        break;
    case SELF_DEVICE_MEMORY:
        set_number(w, ka_memory_text(row->self_device_memory_usage));
        break;
    case CALLS:
        set_count(w, row->count);
        break;
    case SHAPES:
        ka_text_cell_set(&w->cell, row->input_shapes);
        ka_text_cell_keep_front(&w->cell, c->width);
        break;
    case SOURCE:
        set_source(w, c, kineto_averages_frame(w->t->averages, index, 0));
        break;
    case FLOPS:
        set_number(w, ka_flops_text(row->flops, ka_flops_thousands(w->least_flops)));
        break;
    default:
        set_time_column(w, c->kind, row);
    }
}

/* Further frames have lines of their own, and an empty one behind them. */
static void put_frames(writing *w, uint32_t index, uint32_t depth)
{
    for (uint32_t frame = 1; frame <= KB_MAX(depth, 1u); frame++) {
        for (size_t i = 0; i < w->count; i++) {
            ka_text_cell_set(&w->cell, kb_string(""));
            if (w->columns[i].kind == SOURCE)
                set_source(w, &w->columns[i], kineto_averages_frame(w->t->averages, index, frame));
            put_cell(w, &w->columns[i]);
        }
        kb_sink_write_z(w->sink, "\n");
    }
}

static void put_row(writing *w, uint32_t index)
{
    kineto_average row;
    kineto_averages_get(w->t->averages, index, &row);
    for (size_t i = 0; i < w->count; i++) {
        set_cell(w, &w->columns[i], &row, index);
        put_cell(w, &w->columns[i]);
    }
    kb_sink_write_z(w->sink, "\n");
    if (w->has_stacks)
        put_frames(w, index, row.stack_depth);
}

static void put_footer(writing *w, const char *device, int64_t ns)
{
    kb_sink_write_z(w->sink, "Self ");
    kb_sink_write_z(w->sink, device);
    kb_sink_write_z(w->sink, " time total: ");
    kb_sink_write_z(w->sink, ka_time_text((double)ns / 1e3, w->t->options.time_unit).s);
    kb_sink_write_z(w->sink, "\n");
}

bool ka_summary_table_write_text(const ka_summary_table *t, kb_sink *sink)
{
    writing w = {.t = t, .sink = sink};
    uint32_t count = kineto_averages_count(t->averages);
    if (!count)
        return true;
    const char *device = t->averages->events->device_name;
    for (size_t i = 0; device[i] && i < sizeof w.device - 1; i++)
        w.device[i] = (char)(device[i] >= 'a' && device[i] <= 'z' ? device[i] - 32 : device[i]);
    for (uint32_t i = 0; i < count; i++)
        look_at(&w, i);
    choose_columns(&w);
    put_heading(&w);
    for (uint32_t i = 0; i < t->count; i++)
        put_row(&w, t->order[i]);
    put_rule(&w);
    put_footer(&w, "CPU", w.self_cpu_ns);
    if (w.has_device_time)
        put_footer(&w, w.device, w.self_device_ns);
    bool ok = !w.cell.no_memory;
    kb_vec_free(&w.cell.text);
    return ok;
}
