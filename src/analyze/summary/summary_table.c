/* kineto_averages_save and kineto_averages_text: options of a summary table, the order of its rows,
 * and the sink that it is written to. summary_table_text.c writes PyTorch's table, summary_table_rows.c CSV and
 * JSON. */
#include "analyze/summary/summary.h"

bool kineto_time_unit_parse(const char *text, uint32_t *unit)
{
    static const char *const units[] = {"auto", "s", "ms", "us"};
    for (uint32_t i = 0; text && unit && i < KB_COUNT(units); i++)
        if (strcmp(text, units[i]) == 0) {
            *unit = i;
            return true;
        }
    return false;
}

/* ---- the order ------------------------------------------------------------------------------- */

typedef struct sorted_row {
    double value;
    uint32_t index;
} sorted_row;

/* The largest first; equal ones stay as they were. */
static int compare_sorted_rows(const void *left, const void *right)
{
    const sorted_row *a = left, *b = right;
    if (a->value != b->value)
        return a->value > b->value ? -1 : 1;
    return a->index < b->index ? -1 : 1;
}

/* False for called functions if only top-level ones are wanted; device work is always shown. */
static bool is_shown_row(const ka_summary_table *t, uint32_t index)
{
    const kineto_averages *a = t->averages;
    return !t->options.top_level_events_only ||
           a->events->parent[a->groups.data[index].first] == KINETO_NO_EVENT ||
           a->groups.data[index].flags & KINETO_FUNCTION_DEVICE;
}

/* The text table shows 100 rows by default, as in PyTorch; the other formats show all. */
static uint64_t get_row_limit(const kineto_table_options *options)
{
    if (options->row_limit > 0)
        return (uint64_t)options->row_limit;
    bool usual = options->row_limit == 0 && options->format == KINETO_TABLE_TEXT;
    return usual ? 100 : UINT64_MAX;
}

/* Fills t->order with the rows to be shown. Without sort_by they keep the order of the groups. */
static kineto_status sort_table_rows(ka_summary_table *t, kineto_error *err)
{
    uint32_t count = kineto_averages_count(t->averages);
    ka_metric metric = KA_METRIC_CALLS;
    kineto_status status =
        t->options.sort_by ? ka_metric_parse(t->options.sort_by, &metric, err) : KINETO_OK;
    if (status)
        return status;
    sorted_row *rows = malloc(ka_column_bytes(count, sizeof *rows));
    t->order = malloc(ka_column_bytes(count, sizeof *t->order));
    if (!rows || !t->order) {
        free(rows);
        return kb_fail_memory(err, "sorting the rows of a table");
    }
    for (uint32_t i = 0; i < count; i++) {
        kineto_average row;
        kineto_averages_get(t->averages, i, &row);
        rows[i] = (sorted_row){ka_metric_value(&row, metric), i};
    }
    if (t->options.sort_by)
        qsort(rows, count, sizeof *rows, compare_sorted_rows);
    uint64_t limit = get_row_limit(&t->options);
    KB_ASSERT(t->count == 0);
    for (uint32_t i = 0; i < count && t->count < limit; i++)
        if (is_shown_row(t, rows[i].index))
            t->order[t->count++] = rows[i].index;
    free(rows);
    return KINETO_OK;
}

/* ---- writing --------------------------------------------------------------------------------- */

/* Reads the options, sets PyTorch's default widths and sorts. t->order is freed by the caller. */
static kineto_status prepare_table(ka_summary_table *t, const kineto_averages *averages,
                                   const kineto_table_options *options, kineto_error *err)
{
    kineto_table_options *o = &t->options;
    kineto_status status = kb_options_read(o, sizeof *o, options, "kineto_table_options", err);
    if (status)
        return status;
    if (o->format > KINETO_TABLE_JSON_OBJECT || o->time_unit > KINETO_TIME_US || o->memory > KINETO_NO)
        return kb_fail(err, KINETO_E_ARGUMENT,
                       "kineto_table_options: unknown format, time unit or value of memory");
    o->max_name_width = o->max_name_width ? o->max_name_width : 55;
    o->max_shapes_width = o->max_shapes_width ? o->max_shapes_width : 80;
    o->max_source_width = o->max_source_width ? o->max_source_width : 75;
    t->averages = averages;
    return sort_table_rows(t, err);
}

static void write_table(const ka_summary_table *t, kb_sink *sink)
{
    if (t->options.format == KINETO_TABLE_CSV)
        ka_summary_table_write_csv(t, sink);
    else if (t->options.format != KINETO_TABLE_TEXT)
        ka_summary_table_write_json(t, sink);
    else if (!ka_summary_table_write_text(t, sink))
        kb_sink_fail(sink, KINETO_E_MEMORY, "out of memory: writing a table");
}

kineto_status kineto_averages_save(const kineto_averages *averages,
                                   const kineto_table_options *options, const char *path,
                                   kineto_error *err)
{
    ka_summary_table t = {0};
    kb_sink *sink;
    if (!averages || !path)
        return kb_fail_null(err, __func__, "averages, path", averages, path);
    kineto_status status = prepare_table(&t, averages, options, err);
    if (status == KINETO_OK)
        status = kb_sink_open_file(path, kb_compression_of(path), &sink, err);
    if (status == KINETO_OK) {
        write_table(&t, sink);
        status = kb_sink_close(sink, err);
    }
    free(t.order);
    return status;
}

kineto_status kineto_averages_text(const kineto_averages *averages,
                                   const kineto_table_options *options, char **text, size_t *bytes,
                                   kineto_error *err)
{
    ka_summary_table t = {0};
    kb_sink *sink;
    size_t ignored;
    if (text)
        *text = NULL;
    if (!averages || !text)
        return kb_fail_null(err, __func__, "averages, text", averages, text);
    kineto_status status = prepare_table(&t, averages, options, err);
    if (status == KINETO_OK)
        status = kb_sink_open_memory(KB_COMPRESS_NONE, &sink, err);
    if (status == KINETO_OK) {
        write_table(&t, sink);
        status = kb_sink_take(sink, text, bytes ? bytes : &ignored, err);
        kb_sink_abort(sink);
    }
    free(t.order);
    return status;
}
