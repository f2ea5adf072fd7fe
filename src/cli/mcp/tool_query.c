/* The tool `query`: SQL over a trace, read-only, with a limit of time. */
#include "cli/mcp/mcp.h"
#include "cli/query/query.h"

#define QUERY_LIMIT_NS UINT64_C(30000000000)

/* Rows come one after the other: `at` is the number of those that were stepped over or are the current one. */
typedef struct query_rows {
    ke_sql_query *query;
    uint64_t at;
    bool is_over;
} query_rows;

/* An item is asked for again with shorter texts, or the next one is. */
static kineto_status put_query_row(kb_json *j, void *context, uint64_t index, uint64_t limit, kineto_error *err)
{
    query_rows *r = context;
    while (r->at <= index && !r->is_over) {
        bool there = true;
        kineto_status status = ke_sql_step(r->query, &there, err);
        if (status)
            return status;
        r->is_over = !there;
        r->at++;
    }
    if (r->is_over)
        return KINETO_E_NOT_FOUND;
    kb_json_array_begin(j);
    for (size_t i = 0; i < ke_sql_width(r->query); i++) {
        ke_sql_cell cell = ke_sql_cell_at(r->query, i);
        if (cell.type == KE_SQL_TEXT)
            kc_mcp_put_text(j, cell.text, limit);
        else {
            cell.text.size = (size_t)KB_MIN((uint64_t)cell.text.size, limit / 2);
            kc_query_put_cell(j, &cell);
        }
    }
    kb_json_array_end(j);
    return KINETO_OK;
}

static bool is_in_time(void *context) { return kb_monotonic_ns() < *(const uint64_t *)context; }

/* More than blanks after the statement is another one, whose result would be lost. */
static kineto_status check_rest(kineto_string sql, size_t used, kineto_error *err)
{
    while (used < sql.size && strchr(" \t\r\n;", sql.data[used]))
        used++;
    return used == sql.size
               ? KINETO_OK
               : kb_fail(err, KINETO_E_ARGUMENT, "one statement at a time: the text continues after the first one");
}

static kineto_status answer_query(kc_mcp_call *call, ke_sql_query *query, kineto_error *err)
{
    query_rows rows = {.query = query};
    kb_json *j = kc_mcp_begin(call, "ckineto.query/1", err);
    if (!j)
        return err->code;
    kb_json_key_z(j, "columns");
    kb_json_array_begin(j);
    for (size_t i = 0; i < ke_sql_width(query); i++)
        kc_mcp_put_text(j, kb_string(ke_sql_name(query, i)), 60);
    kb_json_array_end(j);
    kc_mcp_page page = kc_mcp_page_of(call, "rows", UINT64_MAX, put_query_row, &rows);
    kineto_status status = kc_mcp_put_page(call, &page, err);
    kb_json_object_end(j);
    return status;
}

static kineto_status run_sql(kc_mcp_call *call, ke_sql *sql, kineto_string text, kineto_error *err)
{
    ke_sql_query *query = NULL;
    size_t used = 0;
    uint64_t end_ns = kb_monotonic_ns() + QUERY_LIMIT_NS;
    ke_sql_watch(sql, is_in_time, &end_ns);
    kineto_status status = ke_sql_prepare(sql, text, &used, &query, err);
    if (status)
        call->explanation = kc_query_explanation(text, err);
    else if (!query)
        status = kb_fail(err, KINETO_E_ARGUMENT, "the query is empty");
    else
        status = check_rest(text, used, err);
    if (!status)
        status = answer_query(call, query, err);
    if (status == KINETO_E_STATE && !is_in_time(&end_ns))
        kb_fail(err, status, "the query was stopped after %llu s: narrow it, or aggregate less",
                (unsigned long long)(QUERY_LIMIT_NS / 1000000000));
    ke_sql_finish(query);
    return status;
}

/* ---- the schema ------------------------------------------------------------------------------ */

static kineto_status put_sql_table(kb_json *j, void *context, uint64_t index, uint64_t limit, kineto_error *err)
{
    size_t count;
    const ke_sql_table *const *tables = ke_sql_schema(&count);
    (void)context;
    (void)limit;
    (void)err;
    kb_json_object_begin(j);
    kb_json_put_string(j, "table", kb_string(tables[index]->name));
    kb_json_put_string(j, "about", kb_string(tables[index]->about));
    kb_json_key_z(j, "columns");
    kb_json_object_begin(j);
    for (size_t c = 0; c < tables[index]->count; c++)
        kc_mcp_put_member(j, tables[index]->columns[c].name, kb_string(tables[index]->columns[c].about), limit);
    kb_json_object_end(j);
    kb_json_object_end(j);
    return KINETO_OK;
}

static kineto_status answer_schema(kc_mcp_call *call, kineto_error *err)
{
    size_t tables, functions;
    (void)ke_sql_schema(&tables);
    const ke_sql_function *function = ke_sql_functions(&functions);
    kb_json *j = kc_mcp_begin(call, "ckineto.mcp_sql_schema/1", err);
    if (!j)
        return err->code;
    kb_json_key_z(j, "functions");
    kb_json_array_begin(j);
    for (size_t i = 0; i < functions; i++)
        kb_json_string_z(j, function[i].call);
    kb_json_array_end(j);
    kc_mcp_page page = kc_mcp_page_of(call, "tables", tables, put_sql_table, NULL);
    kineto_status status = kc_mcp_put_page(call, &page, err);
    kb_json_object_end(j);
    return status;
}

static kineto_status run_query(kc_mcp_call *call, kineto_error *err)
{
    kc_mcp_trace *t;
    ke_sql *sql = NULL;
    const char *text = kc_mcp_text(call, "sql");
    kineto_status status = kc_mcp_open_trace(call, &t, err);
    if (!status)
        status = ke_sql_open(t->trace, &sql, err);
    if (!status)
        status = text ? run_sql(call, sql, kb_string(text), err) : answer_schema(call, err);
    ke_sql_close(sql);
    return status;
}

static const kc_mcp_argument query_arguments[] = {
    KC_MCP_TRACE,
    {"sql", KC_MCP_TEXT, false, 0, 65536, 0, NULL,
     "one SELECT in the SQL of SQLite; without it: tables, columns and functions"},
    KC_MCP_TEXT_LIMIT,
    KC_MCP_OFFSET,
    KC_MCP_LIMIT(50),
};
const kc_mcp_tool kc_mcp_query_tool = {
    "query", "SQL",
    "Run one read-only SQL statement over the tables of a trace: activities(row, start_ns, end_ns, dur_ns, self_ns, name, "
    "category, kind, track, launch, …), args, tracks, processes, flows, counters, steps and others. Times are "
    "nanoseconds. Aggregate and use LIMIT: answers hold at most 4 KB.",
    false, query_arguments, KB_COUNT(query_arguments), run_query};
