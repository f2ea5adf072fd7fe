/* Results of queries for programs: CSV, JSON and JSON lines. CSV follows RFC 4180; NULL is an empty
 * field, and an empty text is "". Rows are written as they come, so that a result may be larger
 * than memory. */
#include "cli/query/query.h"
#include "export/export.h"
#include "export/export.h"

const char *const kc_query_format_names[KC_QUERY_FORMATS] = {"table", "csv",      "json",
                                                             "jsonl", "markdown", "object"};

/* ---- CSV ------------------------------------------------------------------------------------- */

/* An empty text is "", to distinguish it from NULL. */
static void write_csv_text(kb_sink *sink, kineto_string s)
{
    if (s.size)
        ke_csv_text(sink, s);
    else
        kb_sink_write(sink, "\"\"", 2);
}

/* Two digits per byte, to be freed; NULL: out of memory. */
static char *format_hex_bytes(kineto_string bytes)
{
    static const char digits[] = "0123456789abcdef";
    char *text = malloc(2 * bytes.size + 1), *end = text;
    for (size_t i = 0; i < bytes.size && text; i++) {
        unsigned char c = (unsigned char)bytes.data[i];
        *end++ = digits[c >> 4];
        *end++ = digits[c & 15];
    }
    if (text)
        *end = '\0';
    return text;
}

/* False: the cell is not a number. */
static bool write_number_cell(kb_sink *sink, const ke_sql_cell *cell)
{
    char text[40], *end;
    if (cell->type == KE_SQL_INT)
        end = kb_json_format_int(text, cell->i);
    else if (cell->type == KE_SQL_REAL)
        end = kb_json_format_double(text, cell->d);
    else
        return false;
    kb_sink_write(sink, text, (size_t)(end - text));
    return true;
}

/* Numbers as they are, blobs in hexadecimal, texts quoted if needed. */
static void write_csv_cell(kb_sink *sink, const ke_sql_cell *cell)
{
    if (write_number_cell(sink, cell) || cell->type == KE_SQL_NULL)
        return;
    if (cell->type != KE_SQL_BLOB) {
        write_csv_text(sink, cell->text);
        return;
    }
    char *hex = format_hex_bytes(cell->text);
    if (hex)
        kb_sink_write_z(sink, hex);
    else
        kb_sink_fail(sink, KINETO_E_MEMORY, "out of memory: writing a blob");
    free(hex);
}

/* A line with the names, then the rows, until the output fails. */
static kineto_status write_csv_result(ke_sql_query *query, kc_query_output *out, kineto_error *err)
{
    size_t width = ke_sql_width(query);
    bool there = true;
    for (size_t i = 0; i < width; i++) {
        kb_sink_write(out->sink, ",", i > 0);
        write_csv_text(out->sink, kb_string(ke_sql_name(query, i)));
    }
    kb_sink_write(out->sink, "\r\n", 2);
    while (!kb_sink_failed(out->sink)) {
        kineto_status status = ke_sql_step(query, &there, err);
        if (status || !there)
            return status;
        for (size_t i = 0; i < width; i++) {
            ke_sql_cell cell = ke_sql_cell_at(query, i);
            kb_sink_write(out->sink, ",", i > 0);
            write_csv_cell(out->sink, &cell);
        }
        kb_sink_write(out->sink, "\r\n", 2);
    }
    return KINETO_OK;
}

/* ---- JSON ------------------------------------------------------------------------------------ */

/* Names of columns may be equal; keys of an object should not: the second becomes "name (2)". */
typedef KB_VEC(char *) column_names;

/* Linear: results have few columns. */
static bool is_column_name_taken(const column_names *n, const char *name)
{
    for (size_t i = 0; i < n->count; i++)
        if (strcmp(n->data[i], name) == 0)
            return true;
    return false;
}

/* Made unique with a number. False: out of memory. */
static bool append_column_name(column_names *n, const char *name)
{
    char *unique = strdup(name);
    for (unsigned number = 2; unique && is_column_name_taken(n, unique); number++) {
        free(unique);
        if (asprintf(&unique, "%s (%u)", name, number) < 0)
            unique = NULL;
    }
    if (unique && kb_vec_push(n, unique))
        return true;
    free(unique);
    return false;
}

/* Names are copies, since they may be changed to be unique. */
static void free_column_names(column_names *n)
{
    for (size_t i = 0; i < n->count; i++)
        free(n->data[i]);
    kb_vec_free(n);
}

/* A blob is a string of hexadecimal digits. */
void kc_query_put_cell(kb_json *json, const ke_sql_cell *cell)
{
    char *hex = cell->type == KE_SQL_BLOB ? format_hex_bytes(cell->text) : NULL;
    switch (cell->type) {
    case KE_SQL_INT:
        kb_json_int(json, cell->i);
        break;
    case KE_SQL_REAL:
        kb_json_double(json, cell->d);
        break;
    case KE_SQL_TEXT:
        kb_json_string(json, cell->text);
        break;
    case KE_SQL_BLOB:
        kb_json_string_z(json, hex ? hex : "");
        if (!hex)
            kb_sink_fail(json->sink, KINETO_E_MEMORY, "out of memory: writing a blob");
        break;
    default:
        kb_json_null(json);
    }
    free(hex);
}

/* One row as an object, members in the order of the columns. */
static void write_row_object(ke_sql_query *query, kb_json *json, const column_names *n)
{
    kb_json_object_begin(json);
    for (size_t i = 0; i < n->count; i++) {
        ke_sql_cell cell = ke_sql_cell_at(query, i);
        kb_json_key_z(json, n->data[i]);
        kc_query_put_cell(json, &cell);
    }
    kb_json_object_end(json);
}

/* Each object is written as a document of its own; brackets and commas between them are written
 * here. */
static kineto_status write_row_objects(ke_sql_query *query, kc_query_output *out,
                                       const column_names *n, kineto_error *err)
{
    bool array = out->format == KC_QUERY_JSON, there = true;
    for (bool first = true; !kb_sink_failed(out->sink); first = false) {
        kb_json json;
        kineto_status status = ke_sql_step(query, &there, err);
        if (status || !there)
            return status;
        if (array)
            kb_sink_write(out->sink, first ? "[\n" : ",\n", 2);
        kb_json_init(&json, out->sink);
        write_row_object(query, &json, n);
        out->replaced += json.replaced_bytes;
        if (!array)
            kb_sink_write(out->sink, "\n", 1);
        if (first)
            out->results++;
    }
    return KINETO_OK;
}

/* An array of objects, or an object on each line. */
static kineto_status write_json_result(ke_sql_query *query, kc_query_output *out, kineto_error *err)
{
    column_names n = {0};
    kineto_status status = KINETO_OK;
    uint64_t before = out->results;
    for (size_t i = 0; i < ke_sql_width(query) && status == KINETO_OK; i++)
        if (!append_column_name(&n, ke_sql_name(query, i)))
            status = kb_fail_memory(err, "line of the result");
    if (status == KINETO_OK)
        status = write_row_objects(query, out, &n, err);
    free_column_names(&n);
    if (status == KINETO_OK && out->format == KC_QUERY_JSON)
        kb_sink_write(out->sink, out->results == before ? "[]\n" : "\n]\n", 3);
    out->results = before;
    return status;
}

/* The rows of a result as lists. */
static kineto_status write_row_lists(ke_sql_query *query, kc_query_output *out, kb_json *json,
                                     kineto_error *err)
{
    bool there = true;
    while (!kb_sink_failed(out->sink)) {
        kineto_status status = ke_sql_step(query, &there, err);
        if (status || !there)
            return status;
        kb_json_array_begin(json);
        for (size_t i = 0; i < ke_sql_width(query); i++) {
            ke_sql_cell cell = ke_sql_cell_at(query, i);
            kc_query_put_cell(json, &cell);
        }
        kb_json_array_end(json);
    }
    return KINETO_OK;
}

/* One document for each statement, on a line of its own. "replaced" counts parts of texts that are not UTF-8
 * and became U+FFFD. */
static kineto_status write_result_document(ke_sql_query *query, kc_query_output *out,
                                           kineto_error *err)
{
    kb_json json;
    kb_json_init(&json, out->sink);
    kb_json_document_begin(&json, "ckineto.query/1");
    ke_put_coverage(&json, out->coverage);
    kb_json_key_z(&json, "columns");
    kb_json_array_begin(&json);
    for (size_t i = 0; i < ke_sql_width(query); i++)
        kb_json_string_z(&json, ke_sql_name(query, i));
    kb_json_array_end(&json);
    kb_json_key_z(&json, "rows");
    kb_json_array_begin(&json);
    kineto_status status = write_row_lists(query, out, &json, err);
    if (status)
        return status;
    kb_json_array_end(&json);
    if (json.replaced_bytes)
        kb_json_put_uint(&json, "replaced", json.replaced_bytes);
    kb_json_object_end(&json);
    kb_sink_write(out->sink, "\n", 1);
    return KINETO_OK;
}

/* ---- any format ------------------------------------------------------------------------------ */

/* An empty line separates the results of several statements, except in JSON. */
kineto_status kc_query_write(ke_sql_query *query, kc_query_output *out, kineto_error *err)
{
    bool json = out->format == KC_QUERY_JSON || out->format == KC_QUERY_JSONL;
    if (out->format == KC_QUERY_OBJECT)
        return write_result_document(query, out, err);
    if (out->results++ && !json)
        kb_sink_write(out->sink, "\n", 1);
    if (json)
        return write_json_result(query, out, err);
    return out->format == KC_QUERY_CSV ? write_csv_result(query, out, err)
                                       : kc_query_write_table(query, out, err);
}
