/* The summary table as PyTorch prints it (torch/autograd/profiler_util.py): the same columns,
 * widths, units and footers, so that programs which parse PyTorch's output can read ours. */
#include "analyze/summary/summary.h"

#define DEFAULT_WIDTH  12u
#define COLUMN_SPACING 2u

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
    COLUMN_KINDS
} column_kind;

typedef struct table_column {
    column_kind kind;
    size_t width;
    char header[40];
} table_column;

/* The state while a table is written: what all rows have decides columns and widths. */
typedef struct table_writer {
    const ka_summary_table *t;
    kb_sink *sink;
    table_column columns[COLUMN_KINDS];
    size_t count;
    char device[16]; /* upper case, as in "CUDA total" */
    bool has_overloads, has_device_time, has_device_memory, has_shapes, has_stacks;
    size_t longest_name, longest_shapes, longest_frame; /* characters */
    uint64_t smallest_flops; /* of rows that have any: it decides the unit; 0: none has */
    int64_t self_cpu_ns, self_device_ns; /* sums over all rows: the base of percentages */
    ka_text_cell cell;
} table_writer;

/* ---- measuring all rows ---------------------------------------------------------------------- */

static void measure_stack(table_writer *w, uint32_t index, uint32_t depth)
{
    w->has_stacks |= depth > 0;
    for (uint32_t i = 0; i < depth; i++)
        w->longest_frame = kb_max_u64(w->longest_frame,
                                  ka_text_columns(kineto_averages_frame(w->t->averages, index, i)));
}

/* Collects the widths and totals of one row. As in PyTorch, device annotations do not count for the
 * total: their kernels do. */
static void measure_row(table_writer *w, uint32_t index)
{
    kineto_average row;
    kineto_averages_get(w->t->averages, index, &row);
    bool is_device = row.flags & KINETO_FUNCTION_DEVICE;
    w->has_overloads |= row.overload.size > 0;
    w->has_shapes |= row.input_shapes.size > 2; /* longer than "[]" */
    w->has_device_time |= row.self_device_time_total_ns > 0;
    w->has_device_memory |= row.self_device_memory_usage > 0;
    w->longest_name = kb_max_u64(w->longest_name, ka_text_columns(row.name));
    w->longest_shapes = kb_max_u64(w->longest_shapes, ka_text_columns(row.input_shapes));
    measure_stack(w, index, row.stack_depth);
    if (row.flops && (!w->smallest_flops || row.flops < w->smallest_flops))
        w->smallest_flops = row.flops;
    w->self_cpu_ns = ka_add_saturated(w->self_cpu_ns, row.self_cpu_time_total_ns);
    if (is_device ? !(row.flags & KINETO_FUNCTION_ANNOTATION)
                  : (row.flags & KINETO_FUNCTION_LEGACY) != 0)
        w->self_device_ns = ka_add_saturated(w->self_device_ns, row.self_device_time_total_ns);
}

/* ---- columns --------------------------------------------------------------------------------- */

static void add_column(table_writer *w, column_kind kind, size_t width, const char *before,
                       const char *device, const char *after)
{
    KB_ASSERT(w->count < COLUMN_KINDS);
    table_column *c = &w->columns[w->count++];
    c->kind = kind;
    c->width = width;
    snprintf(c->header, sizeof c->header, "%s%s%s", before, device, after);
}

static void add_default_column(table_writer *w, column_kind kind, const char *header)
{
    add_column(w, kind, DEFAULT_WIDTH, header, "", "");
}

static void add_device_time_columns(table_writer *w)
{
    add_column(w, SELF_DEVICE, DEFAULT_WIDTH, "Self ", w->device, "");
    add_column(w, SELF_DEVICE_SHARE, DEFAULT_WIDTH, "Self ", w->device, " %");
    add_column(w, DEVICE, DEFAULT_WIDTH, "", w->device, " total");
    add_column(w, DEVICE_AVERAGE, DEFAULT_WIDTH, "", w->device, " time avg");
}

static void add_memory_columns(table_writer *w)
{
    add_default_column(w, CPU_MEMORY, "CPU Mem");
    add_default_column(w, SELF_CPU_MEMORY, "Self CPU Mem");
    if (w->has_device_memory) {
        add_column(w, DEVICE_MEMORY, DEFAULT_WIDTH, "", w->device, " Mem");
        add_column(w, SELF_DEVICE_MEMORY, DEFAULT_WIDTH, "Self ", w->device, " Mem");
    }
}

/* The columns in PyTorch's order, as far as the rows have values for them. */
static void choose_columns(table_writer *w)
{
    const kineto_table_options *o = &w->t->options;
    size_t name_width = KB_MIN(w->longest_name + 4, (size_t)o->max_name_width);
    bool memory =
        o->memory == KINETO_YES || (o->memory == KINETO_AUTO && w->t->averages->has_memory);
    add_column(w, NAME, name_width, "Name", "", "");
    if (w->has_overloads)
        add_column(w, OVERLOAD, name_width, "Overload Name", "", "");
    add_default_column(w, SELF_CPU_SHARE, "Self CPU %");
    add_default_column(w, SELF_CPU, "Self CPU");
    add_default_column(w, CPU_SHARE, "CPU total %");
    add_default_column(w, CPU, "CPU total");
    add_default_column(w, CPU_AVERAGE, "CPU time avg");
    if (w->has_device_time)
        add_device_time_columns(w);
    if (memory)
        add_memory_columns(w);
    add_default_column(w, CALLS, "# of Calls");
    if (w->has_shapes)
        add_column(w, SHAPES, KB_MIN(w->longest_shapes + 4, (size_t)o->max_shapes_width),
                   "Input Shapes", "", "");
    if (w->has_stacks)
        add_column(w, SOURCE, KB_MIN(w->longest_frame + 4, (size_t)o->max_source_width),
                   "Source Location", "", "");
    if (w->smallest_flops)
        add_column(w, FLOPS, DEFAULT_WIDTH, "Total ",
                   ka_flops_units[ka_flops_thousands(w->smallest_flops)], "");
}

/* ---- lines ----------------------------------------------------------------------------------- */

/* Writes a character `count` times. */
static void write_repeated(table_writer *w, char c, size_t count)
{
    while (count) {
        size_t some = KB_MIN(count, (size_t)4096);
        memset(kb_sink_reserve(w->sink, some), c, some);
        kb_sink_advance(w->sink, some);
        count -= some;
    }
}

/* Writes w->cell, aligned to the right; source locations are aligned to the left. */
static void write_cell(table_writer *w, const table_column *c)
{
    size_t pad = c->width > w->cell.columns ? c->width - w->cell.columns : 0;
    bool left = c->kind == SOURCE;
    write_repeated(w, ' ', left ? 0 : pad);
    kb_sink_write(w->sink, w->cell.text.data, w->cell.text.count);
    write_repeated(w, ' ', (left ? pad : 0) + COLUMN_SPACING);
}

static void write_table_rule(table_writer *w)
{
    for (size_t i = 0; i < w->count; i++) {
        write_repeated(w, '-', w->columns[i].width);
        write_repeated(w, ' ', COLUMN_SPACING);
    }
    kb_sink_write_z(w->sink, "\n");
}

static void write_table_heading(table_writer *w)
{
    const kineto_table_options *o = &w->t->options;
    size_t length = 0;
    for (size_t i = 0; i < w->count; i++)
        length += w->columns[i].width + (i ? COLUMN_SPACING : 0);
    if (o->header) {
        write_repeated(w, '=', length);
        kb_sink_write_z(w->sink, "\n");
        kb_sink_write_z(w->sink, o->header);
        kb_sink_write_z(w->sink, "\n");
    }
    if (o->top_level_events_only) {
        write_repeated(w, '=', length);
        kb_sink_write_z(w->sink, "\nThis report only display top-level ops statistics\n");
    }
    write_table_rule(w);
    for (size_t i = 0; i < w->count; i++) {
        ka_text_cell_set(&w->cell, kb_string(w->columns[i].header));
        write_cell(w, &w->columns[i]);
    }
    kb_sink_write_z(w->sink, "\n");
    write_table_rule(w);
}

/* ---- rows ------------------------------------------------------------------------------------ */

static void set_number_cell(table_writer *w, kb_text text)
{
    ka_text_cell_set(&w->cell, kb_string(text.s));
}

/* Cuts long names to three characters less than the limit and appends dots, as PyTorch does. */
static void set_name_cell(table_writer *w, kineto_string name)
{
    size_t limit = w->t->options.max_name_width, front = limit > 3 ? limit - 3 : 0;
    ka_text_cell_set(&w->cell, name);
    if (w->cell.columns >= front) {
        ka_text_cell_keep_front(&w->cell, front);
        ka_text_cell_append(&w->cell, "...", 3, 3);
    }
}

/* Long source locations lose their beginning: the end of a path is more specific. */
static void set_source_cell(table_writer *w, const table_column *c, kineto_string frame)
{
    ka_text_cell_set(&w->cell, frame);
    if (w->cell.columns <= c->width)
        return;
    bool dots = c->width > 3;
    ka_text_cell_keep_back(&w->cell, dots ? c->width - 3 : c->width);
    for (int i = 0; dots && i < 3; i++)
        ka_text_cell_append(&w->cell, ".", 1, 1);
    if (dots && !w->cell.no_memory) { /* move the appended dots to the front */
        memmove(w->cell.text.data + 3, w->cell.text.data, w->cell.text.count - 3);
        memcpy(w->cell.text.data, "...", 3);
    }
}

static void set_time_cell(table_writer *w, double us)
{
    set_number_cell(w, ka_time_text(us, w->t->options.time_unit));
}

static void set_share_cell(table_writer *w, int64_t part_ns, int64_t whole_ns)
{
    set_number_cell(w, ka_share_text((double)part_ns / 1e3, (double)whole_ns / 1e3));
}

static void set_count_cell(table_writer *w, uint64_t count)
{
    kb_text text;
    snprintf(text.s, sizeof text.s, "%llu", (unsigned long long)count);
    set_number_cell(w, text);
}

/* Times and their shares of the totals. */
static void set_time_column(table_writer *w, column_kind kind, const kineto_average *row)
{
    static const ka_metric metrics[COLUMN_KINDS] = {
        [SELF_CPU] = KA_METRIC_SELF_CPU_TIME_TOTAL,
        [CPU] = KA_METRIC_CPU_TIME_TOTAL,
        [CPU_AVERAGE] = KA_METRIC_CPU_TIME,
        [SELF_DEVICE] = KA_METRIC_SELF_DEVICE_TIME_TOTAL,
        [DEVICE] = KA_METRIC_DEVICE_TIME_TOTAL,
        [DEVICE_AVERAGE] = KA_METRIC_DEVICE_TIME};
    if (kind == SELF_CPU_SHARE)
        set_share_cell(w, row->self_cpu_time_total_ns, w->self_cpu_ns);
    else if (kind == CPU_SHARE && row->flags & KINETO_FUNCTION_ASYNC)
        ka_text_cell_set(&w->cell, kb_string("0")); /* not part of the total */
    else if (kind == CPU_SHARE)
        set_share_cell(w, row->cpu_time_total_ns, w->self_cpu_ns);
    else if (kind == SELF_DEVICE_SHARE)
        set_share_cell(w, row->self_device_time_total_ns, w->self_device_ns);
    else
        set_time_cell(w, ka_metric_value(row, metrics[kind]));
}

static void set_column_cell(table_writer *w, const table_column *c, const kineto_average *row,
                            uint32_t index)
{
    switch (c->kind) {
    case NAME:
        set_name_cell(w, row->name);
        break;
    case OVERLOAD:
        set_name_cell(w, row->overload);
        break;
    case CPU_MEMORY:
        set_number_cell(w, ka_memory_text(row->cpu_memory_usage));
        break;
    case SELF_CPU_MEMORY:
        set_number_cell(w, ka_memory_text(row->self_cpu_memory_usage));
        break;
    case DEVICE_MEMORY:
        set_number_cell(w, ka_memory_text(row->device_memory_usage));
        break;
    case SELF_DEVICE_MEMORY:
        set_number_cell(w, ka_memory_text(row->self_device_memory_usage));
        break;
    case CALLS:
        set_count_cell(w, row->count);
        break;
    case SHAPES:
        ka_text_cell_set(&w->cell, row->input_shapes);
        ka_text_cell_keep_front(&w->cell, c->width);
        break;
    case SOURCE:
        set_source_cell(w, c, kineto_averages_frame(w->t->averages, index, 0));
        break;
    case FLOPS:
        set_number_cell(w, ka_flops_text(row->flops, ka_flops_thousands(w->smallest_flops)));
        break;
    default:
        set_time_column(w, c->kind, row);
    }
}

/* The outer frames have rows of their own, followed by an empty one. */
static void write_frame_rows(table_writer *w, uint32_t index, uint32_t depth)
{
    for (uint32_t frame = 1; frame <= KB_MAX(depth, 1u); frame++) {
        for (size_t i = 0; i < w->count; i++) {
            ka_text_cell_set(&w->cell, kb_string(""));
            if (w->columns[i].kind == SOURCE)
                set_source_cell(w, &w->columns[i],
                                kineto_averages_frame(w->t->averages, index, frame));
            write_cell(w, &w->columns[i]);
        }
        kb_sink_write_z(w->sink, "\n");
    }
}

static void write_table_row(table_writer *w, uint32_t index)
{
    kineto_average row;
    kineto_averages_get(w->t->averages, index, &row);
    for (size_t i = 0; i < w->count; i++) {
        set_column_cell(w, &w->columns[i], &row, index);
        write_cell(w, &w->columns[i]);
    }
    kb_sink_write_z(w->sink, "\n");
    if (w->has_stacks)
        write_frame_rows(w, index, row.stack_depth);
}

static void write_table_footer(table_writer *w, const char *device, int64_t ns)
{
    kb_sink_write_z(w->sink, "Self ");
    kb_sink_write_z(w->sink, device);
    kb_sink_write_z(w->sink, " time total: ");
    kb_sink_write_z(w->sink, ka_time_text((double)ns / 1e3, w->t->options.time_unit).s);
    kb_sink_write_z(w->sink, "\n");
}

bool ka_summary_table_write_text(const ka_summary_table *t, kb_sink *sink)
{
    table_writer w = {.t = t, .sink = sink};
    uint32_t count = kineto_averages_count(t->averages);
    if (!count)
        return true;
    const char *device = t->averages->events->device_name;
    for (size_t i = 0; device[i] && i < sizeof w.device - 1; i++)
        w.device[i] = (char)(kb_is_lower(device[i]) ? device[i] - 'a' + 'A' : device[i]);
    for (uint32_t i = 0; i < count; i++)
        measure_row(&w, i);
    choose_columns(&w);
    write_table_heading(&w);
    for (uint32_t i = 0; i < t->count; i++)
        write_table_row(&w, t->order[i]);
    write_table_rule(&w);
    write_table_footer(&w, "CPU", w.self_cpu_ns);
    if (w.has_device_time)
        write_table_footer(&w, w.device, w.self_device_ns);
    bool ok = !w.cell.no_memory;
    kb_vec_free(&w.cell.text);
    return ok;
}
