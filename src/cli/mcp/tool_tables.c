/* The tools `analyze`, tables of facts about one trace, and `diff`, those about two. */
#include "cli/mcp/mcp.h"
#include "cli/open_many.h"
#include "export/export.h"

#include <ckineto/diff.h>

/* ---- one table ------------------------------------------------------------------------------- */

typedef struct table_page {
    const kineto_analysis *facts;
    uint32_t table;
    const uint64_t *order; /* of the rows; NULL: as they are */
} table_page;

static kineto_status put_row(kb_json *j, void *context, uint64_t row, uint64_t limit, kineto_error *err)
{
    const table_page *p = context;
    kineto_fact fact;
    (void)err;
    kb_json_array_begin(j);
    row = p->order ? p->order[row] : row;
    for (uint32_t c = 0; kineto_analysis_fact(p->facts, p->table, row, c, &fact); c++)
        if (fact.type == KINETO_CELL_TEXT && !fact.is_none)
            kc_mcp_put_text(j, fact.text, limit);
        else if (fact.type == KINETO_CELL_NUMBER && !fact.is_none)
            kc_mcp_put_number(j, fact.d);
        else
            ke_put_fact(j, &fact);
    kb_json_array_end(j);
    return KINETO_OK;
}

static void put_columns(kb_json *j, const kineto_analysis *facts, uint32_t table)
{
    kineto_fact_column column;
    kb_json_key_z(j, "columns");
    kb_json_array_begin(j);
    for (uint32_t c = 0; kineto_analysis_column(facts, table, c, &column); c++)
        kb_json_string(j, column.name);
    kb_json_array_end(j);
}

/* The answer of a call that names a table. */
static kineto_status answer_table(kc_mcp_call *call, const kineto_analysis *facts, uint32_t table, kineto_error *err)
{
    enum { MAX_NOTE_BYTES = 600 };
    kineto_fact_table info;
    uint64_t *order = ke_shown_order(facts, table);
    table_page p = {facts, table, order};
    kb_json *j = kc_mcp_begin(call, "ckineto.mcp_table/1", err);
    if (!j) {
        free(order);
        return err->code;
    }
    kineto_analysis_table(facts, table, &info);
    kb_json_put_string(j, "table", kb_string(info.name));
    kb_json_put_string(j, "title", kb_string(info.title));
    if (info.note.size)
        kc_mcp_put_member(j, "note", info.note, MAX_NOTE_BYTES);
    put_columns(j, facts, table);
    kc_mcp_page page = kc_mcp_page_of(call, "rows", info.row_count, put_row, &p);
    kineto_status status = kc_mcp_put_page(call, &page, err);
    kb_json_object_end(j);
    free(order);
    return status;
}

/* ---- analyze --------------------------------------------------------------------------------- */

/* Known tables; those with a row for each event have no number of rows, since they are made on request. */
static kineto_status put_table_name(kb_json *j, void *context, uint64_t index, uint64_t limit, kineto_error *err)
{
    const kineto_analysis *facts = context;
    const char *name = kineto_fact_table_name((uint32_t)index);
    kineto_fact_table info;
    (void)limit;
    (void)err;
    kb_json_object_begin(j);
    kb_json_put_string(j, "table", kb_string(name));
    if (kineto_analysis_table(facts, kineto_analysis_find_table(facts, name), &info)) {
        kb_json_put_uint(j, "rows", info.row_count);
        kb_json_put_string(j, "title", kb_string(info.title));
    } else {
        kb_json_put_bool(j, "per_event", true);
    }
    kb_json_object_end(j);
    return KINETO_OK;
}

/* A table that facts files have. */
static kineto_status put_kept_table(kb_json *j, void *context, uint64_t index, uint64_t limit, kineto_error *err)
{
    kineto_fact_table info;
    (void)limit;
    (void)err;
    if (!kineto_analysis_table(context, (uint32_t)index, &info))
        return KINETO_E_NOT_FOUND;
    kb_json_object_begin(j);
    kb_json_put_string(j, "table", kb_string(info.name));
    kb_json_put_uint(j, "rows", info.row_count);
    kb_json_put_string(j, "title", kb_string(info.title));
    kb_json_object_end(j);
    return KINETO_OK;
}

static kineto_status list_kept_tables(kc_mcp_call *call, kc_mcp_trace *t, kineto_error *err)
{
    const kineto_analysis *facts;
    kineto_status status = kc_mcp_kept_tables(t, &facts, err);
    kb_json *j = status ? NULL : kc_mcp_begin(call, "ckineto.mcp_tables/1", err);
    if (!j)
        return err->code;
    uint32_t count = kineto_analysis_table_count(facts);
    kc_mcp_page page = kc_mcp_page_of(call, "tables", count, put_kept_table, (void *)(uintptr_t)facts);
    page.limit = KB_MAX(page.limit, (uint64_t)count);
    status = kc_mcp_put_page(call, &page, err);
    kb_json_object_end(j);
    return status;
}

static kineto_status list_tables(kc_mcp_call *call, kc_mcp_trace *t, kineto_error *err)
{
    kineto_overview *overview;
    if (!t->trace)
        return list_kept_tables(call, t, err);
    kineto_status status = kc_mcp_overview(t, &overview, err);
    kb_json *j = status ? NULL : kc_mcp_begin(call, "ckineto.mcp_tables/1", err);
    if (!j)
        return err->code;
    void *facts = (void *)(uintptr_t)kineto_overview_facts(overview);
    kc_mcp_page page = kc_mcp_page_of(call, "tables", kineto_fact_table_count(), put_table_name, facts);
    page.limit = KB_MAX(page.limit, (uint64_t)kineto_fact_table_count());
    status = kc_mcp_put_page(call, &page, err);
    kb_json_object_end(j);
    return status;
}

static kineto_status run_analyze(kc_mcp_call *call, kineto_error *err)
{
    kc_mcp_trace *t;
    const kineto_analysis *facts;
    uint32_t table;
    const char *name = kc_mcp_text(call, "table");
    kineto_status status = kc_mcp_open(call->server, kc_mcp_text(call, "path"), 0, &t, err);
    if (status || !name)
        return status ? status : list_tables(call, t, err);
    status = kc_mcp_find_table(t, name, &facts, &table, err);
    return status ? status : answer_table(call, facts, table, err);
}

static const kc_mcp_argument analyze_arguments[] = {
    KC_MCP_TRACE,
    {"table", KC_MCP_TEXT, false, 0, 0, 0, NULL, "name of a table; without it: the list of tables"},
    KC_MCP_TEXT_LIMIT,
    KC_MCP_OFFSET,
    KC_MCP_LIMIT(20),
};
const kc_mcp_tool kc_mcp_analyze_tool = {
    "analyze", "Tables of facts",
    "Rows of a table of facts about a trace: where time went by kernel, operator, step, cause of idleness and so on "
    "(kernels, operators, temporal_breakdown, idle_named, critical_path_summary, steps). Units end the names of columns.",
    false, analyze_arguments, KB_COUNT(analyze_arguments), run_analyze};

/* ---- diff ------------------------------------------------------------------------------------ */

/* The comparison of the two traces of a call, which is kept for the next call. */
static kineto_status compare_traces(kc_mcp_call *call, const kineto_analysis **out, kineto_error *err)
{
    kc_mcp_server *server = call->server;
    kc_mcp_trace *t[2];
    kineto_analysis_options analyze = {.size = sizeof analyze, .threads = kc_reading.memory_bytes ? 1 : 0};
    kineto_diff_options options = {.size = sizeof options, .analyze = &analyze, .findings = true};
    kineto_status status = kc_mcp_open(server, kc_mcp_text(call, "before"), 0, &t[0], err);
    if (!status)
        status = kc_mcp_open(server, kc_mcp_text(call, "after"), t[0]->serial, &t[1], err);
    if (status)
        return status;
    *out = server->diff;
    if (server->diff && server->diff_of[0] == t[0]->serial && server->diff_of[1] == t[1]->serial)
        return KINETO_OK;
    kineto_analysis_destroy(server->diff);
    server->diff = NULL;
    if (!t[0]->trace != !t[1]->trace)
        return kb_fail(err, KINETO_E_ARGUMENT, "%s: facts can only be compared with facts; 'ckineto facts' makes them of traces",
                       t[t[0]->trace != NULL]->path);
    status = t[0]->trace ? kineto_diff_run(t[0]->trace, t[1]->trace, &options, &server->diff, err)
                         : kineto_facts_diff(t[0]->run, t[1]->run, &server->diff, err);
    for (size_t i = 0; i < 2; i++)
        server->diff_of[i] = t[i]->serial;
    *out = server->diff;
    return status;
}

/* A table with its first rows. */
static kineto_status put_diff_table(kb_json *j, void *context, uint64_t index, uint64_t limit, kineto_error *err)
{
    enum { FIRST_ROWS = 3 };
    kineto_fact_table info;
    table_page p = {context, (uint32_t)index, NULL};
    if (!kineto_analysis_table(p.facts, p.table, &info))
        return KINETO_E_NOT_FOUND;
    uint64_t shown = KB_MIN(info.row_count, (uint64_t)FIRST_ROWS);
    kb_json_object_begin(j);
    kb_json_put_string(j, "table", kb_string(info.name));
    kb_json_put_string(j, "title", kb_string(info.title));
    put_columns(j, p.facts, p.table);
    kb_json_key_z(j, "rows");
    kb_json_array_begin(j);
    for (uint64_t r = 0; r < shown; r++)
        (void)put_row(j, &p, r, limit, err);
    kb_json_array_end(j);
    if (shown < info.row_count)
        kb_json_put_uint(j, "rows_left", info.row_count - shown);
    kb_json_object_end(j);
    return KINETO_OK;
}

/* A table by name, with or without "diff_". UINT32_MAX: there is none. */
static uint32_t find_diff_table(const kineto_analysis *facts, const char *name)
{
    char full[80];
    uint32_t table = kineto_analysis_find_table(facts, name);
    snprintf(full, sizeof full, "diff_%s", name);
    return table != UINT32_MAX ? table : kineto_analysis_find_table(facts, full);
}

static kineto_status run_diff(kc_mcp_call *call, kineto_error *err)
{
    const kineto_analysis *facts;
    const char *name = kc_mcp_text(call, "table");
    kineto_status status = compare_traces(call, &facts, err);
    if (status)
        return status;
    if (name) {
        uint32_t table = find_diff_table(facts, name);
        return table != UINT32_MAX
                   ? answer_table(call, facts, table, err)
                   : kb_fail(err, KINETO_E_ARGUMENT, "unknown table '%.80s'; diff without a table lists all", name);
    }
    kb_json *j = kc_mcp_begin(call, "ckineto.mcp_diff/1", err);
    if (!j)
        return err->code;
    kc_mcp_page page = kc_mcp_page_of(call, "tables", kineto_analysis_table_count(facts), put_diff_table,
                                      (void *)(uintptr_t)facts);
    status = kc_mcp_put_page(call, &page, err);
    kb_json_object_end(j);
    return status;
}

static const kc_mcp_argument diff_arguments[] = {
    KC_MCP_PATH("before", "trace before the change"),
    KC_MCP_PATH("after", "trace after the change"),
    {"table", KC_MCP_TEXT, false, 0, 0, 0, NULL,
     "rows of one table: diff_summary, diff_steps, diff_kernels …; without it: the first rows of each"},
    KC_MCP_TEXT_LIMIT,
    KC_MCP_OFFSET,
    KC_MCP_LIMIT(20),
};
const kc_mcp_tool kc_mcp_diff_tool = {
    "diff", "Compare two traces",
    "Compare two traces of the same program with confidence intervals: what became slower or faster, by step, category, "
    "kernel and operator. Positive differences are slower.",
    false, diff_arguments, KB_COUNT(diff_arguments), run_diff};
