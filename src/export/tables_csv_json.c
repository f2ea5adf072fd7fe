/* Tables of an analysis as CSV files and as JSON (kineto_analysis_save_csv,
 * kineto_analysis_save_json). */
#include "export/export.h"
#include "analyze/tables/table.h"

#include <errno.h>
#include <sys/stat.h>

/* ---- CSV ------------------------------------------------------------------------------------- */

/* Times are microseconds with three decimals; no value is an empty cell. */
static void write_csv_cell(kb_sink *sink, const kineto_fact *f)
{
    char number[32], *end;
    if (f->is_none)
        return;
    if (f->type == KINETO_CELL_TEXT) {
        ke_csv_text(sink, f->text);
        return;
    }
    if (f->type == KINETO_CELL_INT)
        end = kb_json_format_int(number, f->i);
    else if (f->type == KINETO_CELL_NS)
        end = kb_json_format_us(number, f->i);
    else
        end = kb_json_format_double(number, f->d);
    kb_sink_write(sink, number, (size_t)(end - number));
}

/* Names of the columns, as RFC 4180 wants in the first line. */
static void write_csv_header(kb_sink *sink, const kineto_analysis *a, uint32_t table,
                             uint32_t columns)
{
    for (uint32_t c = 0; c < columns; c++) {
        kineto_fact_column column;
        kineto_analysis_column(a, table, c, &column);
        if (c)
            kb_sink_write(sink, ",", 1);
        kb_sink_write(sink, column.name.data, column.name.size);
    }
    kb_sink_write(sink, "\r\n", 2);
}

static void write_csv_rows(kb_sink *sink, const kineto_analysis *a, uint32_t table,
                           const kineto_fact_table *info)
{
    kineto_fact fact;
    for (uint64_t r = 0; r < info->row_count && !kb_sink_failed(sink); r++) {
        for (uint32_t c = 0; c < info->column_count; c++) {
            kineto_analysis_fact(a, table, r, c, &fact);
            if (c)
                kb_sink_write(sink, ",", 1);
            write_csv_cell(sink, &fact);
        }
        kb_sink_write(sink, "\r\n", 2);
    }
}

/* Writes DIRECTORY/NAME.csv. */
static kineto_status save_csv_table(const kineto_analysis *a, uint32_t table, const char *directory,
                                    kineto_error *err)
{
    kineto_fact_table info;
    kb_sink *sink;
    char path[4096];
    kineto_analysis_table(a, table, &info);
    int size = snprintf(path, sizeof path, "%s/%s.csv", directory, info.name);
    if (size < 0 || (size_t)size >= sizeof path)
        return kb_fail(err, KINETO_E_ARGUMENT, "%s: path too long", directory);
    kineto_status status = kb_sink_open_file(path, KB_COMPRESS_NONE, &sink, err);
    if (status)
        return status;
    write_csv_header(sink, a, table, info.column_count);
    write_csv_rows(sink, a, table, &info);
    return kb_sink_close(sink, err);
}

/* Creates the directory if necessary; files of other tables in it stay. */
kineto_status kineto_analysis_save_csv(const kineto_analysis *a, const char *directory,
                                       kineto_error *err)
{
    if (!a || !directory)
        return kb_fail_null(err, __func__, "analysis, directory", a, directory);
    if (!*directory)
        return kb_fail(err, KINETO_E_ARGUMENT,
                       "kineto_analysis_save_csv: directory must not be empty");
    if (mkdir(directory, 0777) && errno != EEXIST)
        return kb_fail_os(err, errno, "cannot create directory %s", directory);
    for (uint32_t i = 0; i < kineto_analysis_table_count(a); i++) {
        kineto_status status = save_csv_table(a, i, directory, err);
        if (status)
            return status;
    }
    return KINETO_OK;
}

/* ---- JSON ------------------------------------------------------------------------------------ */

/* Times are microseconds with three decimals, exact to the nanosecond. */
void ke_put_fact(kb_json *j, const kineto_fact *f)
{
    if (f->is_none)
        kb_json_null(j);
    else if (f->type == KINETO_CELL_TEXT)
        kb_json_string(j, f->text);
    else if (f->type == KINETO_CELL_INT)
        kb_json_int(j, f->i);
    else if (f->type == KINETO_CELL_NS)
        kb_json_us(j, f->i);
    else
        kb_json_double(j, f->d);
}

static void put_json_columns(kb_json *j, const kineto_analysis *a, uint32_t table)
{
    kineto_fact_column column;
    kb_json_key_z(j, "columns");
    kb_json_array_begin(j);
    for (uint32_t c = 0; kineto_analysis_column(a, table, c, &column); c++)
        kb_json_string(j, column.name);
    kb_json_array_end(j);
}

uint64_t *ke_shown_order(const kineto_analysis *a, uint32_t table)
{
    const ka_table *t = ka_shown_table(a, table);
    bool by_weight = a->seen.count > 1 && a->definitions == KINETO_DEFINITIONS_EXACT && ka_has_weight(t);
    return by_weight ? ka_rows_by_weight(t) : NULL;
}

/* At most `limit` rows (0: all); "more" is the number of rows that are left out. */
static void put_json_table(kb_json *j, const kineto_analysis *a, uint32_t table, uint64_t limit)
{
    kineto_fact_table info;
    kineto_fact fact;
    kineto_analysis_table(a, table, &info);
    kb_json_key_z(j, info.name);
    kb_json_object_begin(j);
    kb_json_put_string(j, "title", kb_string(info.title));
    kb_json_put_string(j, "note", info.note);
    put_json_columns(j, a, table);
    kb_json_key_z(j, "rows");
    kb_json_array_begin(j);
    uint64_t rows = limit ? KB_MIN(info.row_count, limit) : info.row_count;
    uint64_t *order = rows < info.row_count ? ke_shown_order(a, table) : NULL;
    for (uint64_t r = 0; r < rows; r++) {
        kb_json_newline(j);
        kb_json_array_begin(j);
        for (uint32_t c = 0; kineto_analysis_fact(a, table, order ? order[r] : r, c, &fact); c++)
            ke_put_fact(j, &fact);
        kb_json_array_end(j);
    }
    kb_json_array_end(j);
    free(order);
    if (rows < info.row_count)
        kb_json_put_uint(j, "more", info.row_count - rows);
    kb_json_object_end(j);
}

void ke_put_analysis(kb_json *j, const kineto_analysis *a, uint64_t row_limit, const ka_coverage *coverage)
{
    kb_json_document_begin(j, "ckineto.analysis/1");
    ke_put_coverage(j, coverage);
    kb_json_key_z(j, "tables");
    kb_json_object_begin(j);
    for (uint32_t i = 0; i < kineto_analysis_table_count(a); i++)
        put_json_table(j, a, i, row_limit);
    kb_json_object_end(j);
    kb_json_object_end(j);
}

kineto_status kineto_analysis_save_json(const kineto_analysis *a, const char *path,
                                        kineto_error *err)
{
    kb_sink *sink;
    kb_json j;
    if (!a || !path)
        return kb_fail_null(err, __func__, "analysis, path", a, path);
    kineto_status status = kb_sink_open_file(path, kb_compression_of(path), &sink, err);
    if (status)
        return status;
    kb_json_init(&j, sink);
    ke_put_analysis(&j, a, 0, NULL);
    kb_json_newline(&j);
    return kb_sink_close(sink, err);
}

/* ---- descriptors -------------------------------------------------------------------------------- */

static void put_column_spec(kb_json *j, const ka_column *column)
{
    static const char *const types[] = {[KINETO_CELL_TEXT] = "text",
                                        [KINETO_CELL_INT] = "integer",
                                        [KINETO_CELL_NS] = "us",
                                        [KINETO_CELL_NUMBER] = "number"};
    kb_json_object_begin(j);
    kb_json_put_string(j, "name", column->name);
    kb_json_put_string(j, "type", kb_string(types[column->type]));
    kb_json_put_string(j, "unit", kb_string(ka_unit_name((ka_unit)column->unit)));
    kb_json_object_end(j);
}

static void put_table_spec(kb_json *j, const ka_table_spec *spec)
{
    kb_json_object_begin(j);
    kb_json_put_string(j, "name", kb_string(spec->name));
    kb_json_put_string(j, "title", kb_string(spec->title));
    kb_json_put_string(j, "definition", kb_string(spec->definition));
    kb_json_put_string(j, "page", kb_string(spec->page));
    kb_json_put_bool(j, "default", spec->flags & KA_SHOWN_BY_DEFAULT);
    kb_json_put_bool(j, "per_event", spec->flags & KA_PER_EVENT);
    kb_json_put_bool(j, "merged", spec->flags & KA_SUMMED);
    kb_json_put_bool(j, "diff", spec->flags & KA_DIFF);
    kb_json_key_z(j, "columns");
    kb_json_array_begin(j);
    for (uint32_t c = 0; c < spec->column_count; c++)
        put_column_spec(j, &spec->columns[c]);
    kb_json_array_end(j);
    kb_json_object_end(j);
}

kineto_status ke_save_table_list(const char *path, kineto_error *err)
{
    kb_sink *sink;
    kb_json j;
    kineto_status status = kb_sink_open_file(path, kb_compression_of(path), &sink, err);
    if (status)
        return status;
    kb_json_init(&j, sink);
    kb_json_document_begin(&j, "ckineto.tables/1");
    kb_json_key_z(&j, "tables");
    kb_json_array_begin(&j);
    for (uint32_t i = 0; i < KA_TABLE_COUNT; i++)
        if (!(ka_table_flags((ka_table_id)i) & KA_HIDDEN)) {
            kb_json_newline(&j);
            put_table_spec(&j, ka_table_spec_of((ka_table_id)i));
        }
    kb_json_array_end(&j);
    kb_json_object_end(&j);
    kb_json_newline(&j);
    return kb_sink_close(sink, err);
}
