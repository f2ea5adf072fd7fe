/* Results of queries for programs: CSV and JSON. */
#include "cli/query/query.h"
#include "export/export.h"

const char *const kc_query_format_names[KC_QUERY_FORMATS] = {"table", "csv", "json", "jsonl",
                                                             "markdown"};

/* ---- CSV ------------------------------------------------------------------------------------- */

/* An empty text is "", so that it is no NULL. */
static void put_csv_text(kb_sink *sink, kineto_string s)
{
    if (s.size)
        ke_csv_text(sink, s);
    else
        kb_sink_write(sink, "\"\"", 2);
}

static void put_hex(kb_sink *sink, kineto_string bytes)
{
    static const char digits[] = "0123456789abcdef";
    for (size_t i = 0; i < bytes.size; i++) {
        unsigned char c = (unsigned char)bytes.data[i];
        char pair[2] = {digits[c >> 4], digits[c & 15]};
        kb_sink_write(sink, pair, sizeof pair);
    }
}

/* A number, if it is one. */
static bool put_number(kb_sink *sink, const ke_sql_cell *cell)
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

static void put_csv_cell(kb_sink *sink, const ke_sql_cell *cell)
{
    if (put_number(sink, cell) || cell->type == KE_SQL_NULL)
        return;
    if (cell->type == KE_SQL_BLOB)
        put_hex(sink, cell->text);
    else
        put_csv_text(sink, cell->text);
}

static kineto_status write_csv(ke_sql_query *query, kc_query_output *out, kineto_error *err)
{
    size_t width = ke_sql_width(query);
    bool there = true;
    for (size_t i = 0; i < width; i++) {
        kb_sink_write(out->sink, ",", i > 0);
        put_csv_text(out->sink, kb_string(ke_sql_name(query, i)));
    }
    kb_sink_write(out->sink, "\r\n", 2);
    while (!kb_sink_failed(out->sink)) {
        kineto_status status = ke_sql_step(query, &there, err);
        if (status || !there)
            return status;
        for (size_t i = 0; i < width; i++) {
            ke_sql_cell cell = ke_sql_cell_at(query, i);
            kb_sink_write(out->sink, ",", i > 0);
            put_csv_cell(out->sink, &cell);
        }
        kb_sink_write(out->sink, "\r\n", 2);
    }
    return KINETO_OK;
}

/* ---- JSON ------------------------------------------------------------------------------------ */

/* Columns may have the same name, members of an object should not: the second is "name (2)". */
typedef KB_VEC(char *) names;

static bool is_taken(const names *n, const char *name)
{
    for (size_t i = 0; i < n->count; i++)
        if (strcmp(n->data[i], name) == 0)
            return true;
    return false;
}

static bool add_name(names *n, const char *name)
{
    char *unique = strdup(name);
    for (unsigned number = 2; unique && is_taken(n, unique); number++) {
        free(unique);
        if (asprintf(&unique, "%s (%u)", name, number) < 0)
            unique = NULL;
    }
    if (unique && kb_vec_push(n, unique))
        return true;
    free(unique);
    return false;
}

static void free_names(names *n)
{
    for (size_t i = 0; i < n->count; i++)
        free(n->data[i]);
    kb_vec_free(n);
}

static void put_json_cell(kb_json *json, const ke_sql_cell *cell)
{
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
        kb_sink_write(json->sink, "\"", 1);
        put_hex(json->sink, cell->text);
        kb_json_raw(json, (kineto_string){"\"", 1});
        break;
    default:
        kb_json_null(json);
    }
}

static void put_object(ke_sql_query *query, kb_json *json, const names *n)
{
    kb_json_object_begin(json);
    for (size_t i = 0; i < n->count; i++) {
        ke_sql_cell cell = ke_sql_cell_at(query, i);
        kb_json_key_z(json, n->data[i]);
        put_json_cell(json, &cell);
    }
    kb_json_object_end(json);
}

/* Each object is a document of its own here: in an array, what stands between is put by hand. */
static kineto_status write_objects(ke_sql_query *query, kc_query_output *out, const names *n,
                                   kineto_error *err)
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
        put_object(query, &json, n);
        out->replaced += json.replaced_bytes;
        if (!array)
            kb_sink_write(out->sink, "\n", 1);
        if (first)
            out->results++;
    }
    return KINETO_OK;
}

static kineto_status write_json(ke_sql_query *query, kc_query_output *out, kineto_error *err)
{
    names n = {0};
    kineto_status status = KINETO_OK;
    uint64_t before = out->results;
    for (size_t i = 0; i < ke_sql_width(query) && status == KINETO_OK; i++)
        if (!add_name(&n, ke_sql_name(query, i)))
            status = kb_fail(err, KINETO_E_MEMORY, "no memory for a line of the result");
    if (status == KINETO_OK)
        status = write_objects(query, out, &n, err);
    free_names(&n);
    if (status == KINETO_OK && out->format == KC_QUERY_JSON)
        kb_sink_write(out->sink, out->results == before ? "[]\n" : "\n]\n", 3);
    out->results = before;
    return status;
}

/* ---- all ------------------------------------------------------------------------------------- */

kineto_status kc_query_write(ke_sql_query *query, kc_query_output *out, kineto_error *err)
{
    bool json = out->format == KC_QUERY_JSON || out->format == KC_QUERY_JSONL;
    if (out->results++ && !json)
        kb_sink_write(out->sink, "\n", 1);
    if (json)
        return write_json(query, out, err);
    return out->format == KC_QUERY_CSV ? write_csv(query, out, err)
                                       : kc_query_write_table(query, out, err);
}
