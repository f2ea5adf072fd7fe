/* Tables of an analysis as Parquet files. Columns have the names that they have in CSV; lengths are
 * microseconds as there, and moments, which are timestamps here, lose their "_us". */
#include "export/parquet_run.h"

typedef struct table_columns {
    ke_parquet_spec specs[KA_MAX_COLUMNS];
    uint8_t of[KA_MAX_COLUMNS]; /* column of the table */
    char names[KA_MAX_COLUMNS][48];
    uint32_t count;
} table_columns;

static uint8_t choose_type(const ka_column *column)
{
    if (column->is_moment)
        return KE_PARQUET_TIME_NS;
    if (column->type == KINETO_CELL_TEXT)
        return KE_PARQUET_TEXT;
    return column->type == KINETO_CELL_INT ? KE_PARQUET_INT64 : KE_PARQUET_DOUBLE;
}

static void describe_columns(const ka_table *t, bool without_rank, table_columns *out)
{
    out->count = 0;
    for (uint32_t c = 0; c < t->column_count; c++) {
        const ka_column *column = &t->columns[c];
        kineto_string name = column->name;
        if (without_rank && kb_string_equal(name, kb_string("rank")))
            continue;
        if (column->is_moment && kb_string_ends_with(name, "_us"))
            name.size -= 3;
        snprintf(out->names[out->count], sizeof out->names[0], "%.*s", (int)name.size, name.data);
        out->of[out->count] = (uint8_t)c;
        out->specs[out->count] = (ke_parquet_spec){
            .name = out->names[out->count], .type = choose_type(column), .is_optional = true,
            .unit = column->is_moment ? "ns" : ka_unit_name((ka_unit)column->unit)};
        out->count++;
    }
}

static void put_table_cell(ke_parquet *w, uint32_t column, const kineto_fact *f, uint8_t type)
{
    if (f->is_none)
        return;
    if (f->type == KINETO_CELL_TEXT)
        ke_parquet_put_text(w, column, f->text);
    else if (f->type == KINETO_CELL_NUMBER)
        ke_parquet_put_double(w, column, f->d);
    else if (type == KE_PARQUET_DOUBLE) /* of ns */
        ke_parquet_put_double(w, column, (double)f->i / 1000);
    else
        ke_parquet_put_int(w, column, f->i);
}

kineto_status ke_parquet_save_table(const ka_table *t, const char *path, bool without_rank, ke_parquet_account *account,
                                    kineto_error *err)
{
    table_columns columns;
    ke_parquet *w = NULL;
    uint64_t rows = ka_table_rows(t), written = 0;
    describe_columns(t, without_rank, &columns);
    kineto_status status = ke_parquet_open(path, columns.specs, columns.count, NULL, &w, err);
    if (status)
        return status;
    const ka_table_spec *spec = ka_table_spec_of(t->id);
    ke_parquet_describe(w, spec->name, spec->definition, columns.specs, columns.count);
    for (uint64_t r = 0; r < rows && !ke_parquet_failed(w); r++) {
        for (uint32_t c = 0; c < columns.count; c++) {
            kineto_fact fact = {0};
            if (ka_fact_get(t, r, columns.of[c], &fact))
                put_table_cell(w, c, &fact, columns.specs[c].type);
        }
        ke_parquet_end_row(w);
    }
    status = ke_parquet_close(w, &rows, &written, err);
    account->files += !status;
    account->rows += status ? 0 : rows;
    account->bytes += status ? 0 : written;
    return status;
}

/* [{"name": "sum_us", "unit": "us"}, …] */
static kineto_status format_columns(const ke_parquet_spec *specs, uint32_t count, char **text, size_t *size)
{
    kb_sink *sink;
    kb_json j;
    kineto_status status = kb_sink_open_memory(KB_COMPRESS_NONE, &sink, NULL);
    if (status)
        return status;
    kb_json_init(&j, sink);
    kb_json_array_begin(&j);
    for (uint32_t i = 0; i < count; i++) {
        kb_json_object_begin(&j);
        kb_json_put_string(&j, "name", kb_string(specs[i].name));
        if (specs[i].unit)
            kb_json_put_string(&j, "unit", kb_string(specs[i].unit));
        if (specs[i].about)
            kb_json_put_string(&j, "about", kb_string(specs[i].about));
        kb_json_object_end(&j);
    }
    kb_json_array_end(&j);
    status = kb_sink_take(sink, text, size, NULL);
    kineto_status closed = kb_sink_close(sink, NULL);
    return status ? status : closed;
}

void ke_parquet_describe(ke_parquet *w, const char *table, const char *definition, const ke_parquet_spec *specs,
                         uint32_t count)
{
    char *text = NULL;
    size_t size = 0;
    ke_parquet_add_metadata(w, "ckineto.version", kb_string(kineto_version()));
    ke_parquet_add_metadata(w, "ckineto.table", kb_string(table));
    ke_parquet_add_metadata(w, "ckineto.definition", kb_string(definition));
    if (!format_columns(specs, count, &text, &size))
        ke_parquet_add_metadata(w, "ckineto.columns", (kineto_string){text, size});
    free(text);
}
