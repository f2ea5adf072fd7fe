/* The rows of a summary table for other programs: CSV and JSON with all numbers. Column names and
 * their order are a stable format, docs/reference/summaries.md. */
#include "analyze/summary/summary.h"

/* One row, and its event if each event is a row. */
typedef struct row_view {
    const kineto_averages *a;
    uint32_t index;
    kineto_average row;
    kineto_function_event event;
} row_view;

static void read_row_view(const ka_summary_table *t, uint32_t index, row_view *out)
{
    *out = (row_view){.a = t->averages, .index = index};
    kineto_averages_get(t->averages, index, &out->row);
    if (t->averages->options.each_event)
        kineto_function_events_get(t->averages->events, out->row.first_event, &out->event);
}

/* ---- numbers, in the order of columns -------------------------------------------------------- */

/* When a column exists. */
typedef enum number_condition {
    ALWAYS,
    WITH_DEVICE,
    WITH_MEMORY,
    WITH_FLOPS,
    WITH_EVENTS
} number_condition;

/* A numeric column: a member of kineto_average, or of kineto_function_event with WITH_EVENTS. */
typedef struct table_number {
    const char *name;
    number_condition when;
    size_t offset;                              /* in kineto_average, or kineto_function_event */
    enum { INT64, UINT64, UINT32, INDEX } type; /* INDEX: -1 for none */
} table_number;

#define AVERAGE(member) offsetof(kineto_average, member)
#define EVENT(member)   offsetof(kineto_function_event, member)

static const table_number table_numbers[] = {
    {"count", ALWAYS, AVERAGE(count), UINT64},
    {"cpu_time_total_ns", ALWAYS, AVERAGE(cpu_time_total_ns), INT64},
    {"self_cpu_time_total_ns", ALWAYS, AVERAGE(self_cpu_time_total_ns), INT64},
    {"device_time_total_ns", WITH_DEVICE, AVERAGE(device_time_total_ns), INT64},
    {"self_device_time_total_ns", WITH_DEVICE, AVERAGE(self_device_time_total_ns), INT64},
    {"cpu_memory_usage", WITH_MEMORY, AVERAGE(cpu_memory_usage), INT64},
    {"self_cpu_memory_usage", WITH_MEMORY, AVERAGE(self_cpu_memory_usage), INT64},
    {"device_memory_usage", WITH_MEMORY, AVERAGE(device_memory_usage), INT64},
    {"self_device_memory_usage", WITH_MEMORY, AVERAGE(self_device_memory_usage), INT64},
    {"flops", WITH_FLOPS, AVERAGE(flops), UINT64},
    {"row", WITH_EVENTS, EVENT(row), INDEX},
    {"track", WITH_EVENTS, EVENT(track), UINT32},
    {"parent", WITH_EVENTS, EVENT(parent), INDEX},
    {"start_ns", WITH_EVENTS, EVENT(start_ns), INT64},
    {"end_ns", WITH_EVENTS, EVENT(end_ns), INT64},
};

static bool has_number(const kineto_averages *a, const table_number *n)
{
    switch (n->when) {
    case WITH_DEVICE:
        return a->events->device_ns != NULL;
    case WITH_MEMORY:
        return a->has_memory;
    case WITH_FLOPS:
        return a->has_flops;
    case WITH_EVENTS:
        return a->options.each_event;
    case ALWAYS:
        break;
    }
    return true;
}

/* Writes the number in at most 24 bytes and returns the end. */
static char *format_table_number(char *out, const row_view *v, const table_number *n)
{
    const char *base = n->when == WITH_EVENTS ? (const char *)&v->event : (const char *)&v->row;
    uint64_t wide;
    uint32_t small;
    if (n->type == INT64 || n->type == UINT64) {
        memcpy(&wide, base + n->offset, sizeof wide);
        return n->type == INT64 ? kb_json_format_int(out, (int64_t)wide)
                                : kb_json_format_uint(out, wide);
    }
    memcpy(&small, base + n->offset, sizeof small);
    if (n->type == INDEX && small == UINT32_MAX)
        return kb_json_format_int(out, -1);
    return kb_json_format_uint(out, small);
}

static const char *get_row_device(const row_view *v)
{
    return v->row.flags & KINETO_FUNCTION_DEVICE ? v->a->events->device_name : "cpu";
}

/* The first flag that is set decides. */
static const char *get_row_type(const row_view *v)
{
    uint32_t flags = v->row.flags;
    if (flags & KINETO_FUNCTION_MEMORY)
        return "memory";
    if (flags & KINETO_FUNCTION_PYTHON)
        return "python_function";
    if (flags & KINETO_FUNCTION_ANNOTATION)
        return "annotation";
    return flags & KINETO_FUNCTION_ASYNC ? "asynchronous" : "function";
}

/* ---- CSV ------------------------------------------------------------------------------------- */

static bool needs_quotes(kineto_string s)
{
    for (size_t i = 0; i < s.size; i++)
        if (s.data[i] == ',' || s.data[i] == '"' || s.data[i] == '\n' || s.data[i] == '\r')
            return true;
    return false;
}

/* Quotes as in RFC 4180 if needed; invalid UTF-8 is replaced. */
static void write_csv_text(kb_sink *sink, kineto_string s)
{
    bool quotes = needs_quotes(s);
    kineto_string piece;
    if (quotes)
        kb_sink_write_z(sink, "\"");
    while ((piece = kb_utf8_next(&s, NULL)).size)
        for (size_t i = 0; i < piece.size; i++) {
            if (piece.data[i] == '"')
                kb_sink_write_z(sink, "\"");
            kb_sink_write(sink, piece.data + i, 1);
        }
    if (quotes)
        kb_sink_write_z(sink, "\"");
}

/* All frames in one quoted field, separated by semicolons, the innermost first. */
static void write_csv_stack(kb_sink *sink, const row_view *v)
{
    kb_sink_write_z(sink, ",\"");
    for (uint32_t i = 0; i < v->row.stack_depth; i++) {
        kineto_string frame = kineto_averages_frame(v->a, v->index, i), piece;
        if (i)
            kb_sink_write_z(sink, ";");
        while ((piece = kb_utf8_next(&frame, NULL)).size)
            for (size_t c = 0; c < piece.size; c++)
                kb_sink_write(sink, piece.data[c] == '"' ? "\"\"" : piece.data + c,
                              piece.data[c] == '"' ? 2 : 1);
    }
    kb_sink_write_z(sink, "\"");
}

static void write_csv_header(const kineto_averages *a, kb_sink *sink)
{
    kb_sink_write_z(sink, "name");
    if (a->options.group_by_overload)
        kb_sink_write_z(sink, ",overload");
    kb_sink_write_z(sink, ",device,type");
    for (size_t i = 0; i < KB_COUNT(table_numbers); i++)
        if (has_number(a, &table_numbers[i])) {
            kb_sink_write_z(sink, ",");
            kb_sink_write_z(sink, table_numbers[i].name);
        }
    if (a->options.group_by_shape)
        kb_sink_write_z(sink, ",input_shapes");
    if (a->options.group_by_stack)
        kb_sink_write_z(sink, ",stack");
    kb_sink_write_z(sink, "\n");
}

static void write_csv_row(const row_view *v, kb_sink *sink)
{
    char digits[32];
    write_csv_text(sink, v->row.name);
    if (v->a->options.group_by_overload) {
        kb_sink_write_z(sink, ",");
        write_csv_text(sink, v->row.overload);
    }
    kb_sink_write_z(sink, ",");
    kb_sink_write_z(sink, get_row_device(v));
    kb_sink_write_z(sink, ",");
    kb_sink_write_z(sink, get_row_type(v));
    for (size_t i = 0; i < KB_COUNT(table_numbers); i++)
        if (has_number(v->a, &table_numbers[i])) {
            kb_sink_write_z(sink, ",");
            kb_sink_write(sink, digits,
                          (size_t)(format_table_number(digits, v, &table_numbers[i]) - digits));
        }
    if (v->a->options.group_by_shape) {
        kb_sink_write_z(sink, ",");
        write_csv_text(sink, v->row.input_shapes);
    }
    if (v->a->options.group_by_stack)
        write_csv_stack(sink, v);
    kb_sink_write_z(sink, "\n");
}

void ka_summary_table_write_csv(const ka_summary_table *t, kb_sink *sink)
{
    write_csv_header(t->averages, sink);
    for (uint32_t i = 0; i < t->count; i++) {
        row_view v;
        read_row_view(t, t->order[i], &v);
        write_csv_row(&v, sink);
    }
}

/* ---- JSON ------------------------------------------------------------------------------------ */

static void write_json_row(kb_json *j, const row_view *v)
{
    char digits[32];
    kb_json_object_begin(j);
    kb_json_put_string(j, "name", v->row.name);
    if (v->a->options.group_by_overload)
        kb_json_put_string(j, "overload", v->row.overload);
    kb_json_put_string(j, "device", kb_string(get_row_device(v)));
    kb_json_put_string(j, "type", kb_string(get_row_type(v)));
    for (size_t i = 0; i < KB_COUNT(table_numbers); i++)
        if (has_number(v->a, &table_numbers[i])) {
            kb_json_key_z(j, table_numbers[i].name);
            kb_json_raw(j, (kineto_string){
                               digits, (size_t)(format_table_number(digits, v, &table_numbers[i]) -
                                                digits)});
        }
    if (v->a->options.group_by_shape)
        kb_json_put_string(j, "input_shapes", v->row.input_shapes);
    if (v->a->options.group_by_stack) {
        kb_json_key_z(j, "stack");
        kb_json_array_begin(j);
        for (uint32_t i = 0; i < v->row.stack_depth; i++)
            kb_json_string(j, kineto_averages_frame(v->a, v->index, i));
        kb_json_array_end(j);
    }
    kb_json_object_end(j);
}

void ka_summary_table_write_json(const ka_summary_table *t, kb_sink *sink)
{
    kb_json j;
    bool is_object = t->options.format == KINETO_TABLE_JSON_OBJECT;
    kb_json_init(&j, sink);
    if (is_object) {
        kb_json_document_begin(&j, "ckineto.table/1");
        kb_json_key_z(&j, "rows");
    }
    kb_json_array_begin(&j);
    for (uint32_t i = 0; i < t->count; i++) {
        row_view v;
        read_row_view(t, t->order[i], &v);
        kb_json_newline(&j);
        write_json_row(&j, &v);
    }
    kb_json_array_end(&j);
    if (is_object)
        kb_json_object_end(&j);
    kb_sink_write(sink, "\n", 1);
}
