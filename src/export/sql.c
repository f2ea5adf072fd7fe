/* A connection of SQLite over a trace: what statements may do, and stepping through their results.
 * Everything but reading is refused: by the authorizer, by SQLite's defensive mode, and by the
 * check that a statement is read-only. */
#include "export/sql_impl.h"

struct ke_sql_query {
    ke_sql *sql;
    sqlite3_stmt *statement;
};

/* ---- errors ---------------------------------------------------------------------------------- */

static kineto_status status_of_sqlite_code(int code)
{
    switch (code & 0xff) {
    case SQLITE_OK:
        return KINETO_OK;
    case SQLITE_NOMEM:
        return KINETO_E_MEMORY;
    case SQLITE_INTERRUPT:
        return KINETO_E_STATE;
    case SQLITE_AUTH:
    case SQLITE_READONLY:
    case SQLITE_PERM:
        return KINETO_E_PERMISSION;
    case SQLITE_TOOBIG:
        return KINETO_E_LIMIT;
    case SQLITE_FULL:
    case SQLITE_IOERR:
    case SQLITE_CANTOPEN:
        return KINETO_E_IO;
    default:
        return KINETO_E_ARGUMENT;
    }
}

kineto_status ke_sql_fail(ke_sql *sql, kineto_error *err, int code, const char *what)
{
    /* The refused action is more precise than SQLite's message about it. */
    kineto_status status = sql->denied[0] ? KINETO_E_PERMISSION : status_of_sqlite_code(code);
    int place = sqlite3_error_offset(sql->db);
    switch (status) {
    case KINETO_E_PERMISSION:
        kb_fail(err, status, "a query only reads: %s is not allowed",
                sql->denied[0] ? sql->denied : "this statement");
        break;
    case KINETO_E_STATE:
        kb_fail(err, status, "the query was interrupted");
        break;
    case KINETO_E_MEMORY:
        kb_fail(err, status, "no memory for the query");
        break;
    default:
        kb_fail(err, status, "%s%s%s", what ? what : "", what ? ": " : "", sqlite3_errmsg(sql->db));
    }
    if (err)
        err->offset = place < 0 ? UINT64_MAX : (uint64_t)place;
    return status;
}

/* ---- reading only ---------------------------------------------------------------------------- */

/* The first word of a statement, after blanks and comments. */
static kineto_string first_word(kineto_string s)
{
    const char *at = s.data, *end = s.data + s.size;
    while (at < end) {
        bool line = end - at > 1 && at[0] == '-' && at[1] == '-';
        bool block = end - at > 1 && at[0] == '/' && at[1] == '*';
        const char *close = line    ? memchr(at, '\n', (size_t)(end - at))
                            : block ? memmem(at + 2, (size_t)(end - at) - 2, "*/", 2)
                                    : at;
        if (!close)
            return (kineto_string){"", 0};
        if (!line && !block && !strchr(" \t\r\n\f;", *at))
            break;
        at = close + (block ? 2 : 1);
    }
    size_t size = 0;
    while (at + size < end && kb_is_letter(at[size]))
        size++;
    return (kineto_string){at, size};
}

/* SQLite's callback for every action of a statement. Allows reading, and our own declarations;
 * remembers the first action that is denied for the message. */
static int authorize_action(void *context, int action, const char *first, const char *second,
                            const char *database, const char *trigger)
{
    ke_sql *sql = context;
    (void)first, (void)database, (void)trigger;
    /* Functions that load code and that expose addresses. */
    bool is_unsafe = action == SQLITE_FUNCTION && (sqlite3_stricmp(second, "load_extension") == 0 ||
                                                   sqlite3_stricmp(second, "fts3_tokenizer") == 0);
    bool reading = action == SQLITE_SELECT || action == SQLITE_READ || action == SQLITE_RECURSIVE ||
                   action == SQLITE_FUNCTION;
    if (sql->declaring || (reading && !is_unsafe))
        return SQLITE_OK;
    snprintf(sql->denied, sizeof sql->denied, "%s", is_unsafe ? second : "writing");
    return SQLITE_DENY;
}

static void restrict_to_reading(ke_sql *sql)
{
    sqlite3_db_config(sql->db, SQLITE_DBCONFIG_DEFENSIVE, 1, NULL);
    sqlite3_db_config(sql->db, SQLITE_DBCONFIG_ENABLE_LOAD_EXTENSION, 0, NULL);
    sqlite3_limit(sql->db, SQLITE_LIMIT_ATTACHED, 0);
    sqlite3_limit(sql->db, SQLITE_LIMIT_LIKE_PATTERN_LENGTH, 4096);
    sqlite3_set_authorizer(sql->db, authorize_action, sql);
}

/* ---- the connection -------------------------------------------------------------------------- */

static int add_sql_table(ke_sql *sql, ke_sql_source *source, const ke_sql_table *table,
                         const char *prefix)
{
    const sqlite3_module *module = table->ops->module;
    char name[64];
    *source = (ke_sql_source){sql, table, NULL};
    snprintf(name, sizeof name, "%s%s", prefix, table->name);
    return sqlite3_create_module_v2(sql->db, name, module ? module : &ke_sql_module, source, NULL);
}

static int add_sql_tables(ke_sql *sql, const char *prefix)
{
    size_t count;
    const ke_sql_table *const *tables = ke_sql_schema(&count);
    int rc = SQLITE_OK;
    for (size_t i = 0; i < count && rc == SQLITE_OK; i++)
        rc = add_sql_table(sql, &sql->sources[i], tables[i], prefix);
    return rc ? rc : ke_sql_add_functions(sql);
}

/* The tables in the order in which the help lists them. */
static const ke_sql_table *const sql_tables[KE_SQL_TABLES] = {
    &ke_sql_activities, &ke_sql_args,     &ke_sql_tracks, &ke_sql_processes, &ke_sql_devices,
    &ke_sql_flows,      &ke_sql_counters, &ke_sql_steps,  &ke_sql_metadata,  &ke_sql_ledger,
};

const ke_sql_table *const *ke_sql_schema(size_t *count)
{
    *count = KE_SQL_TABLES;
    return sql_tables;
}

kineto_status ke_sql_open_at(const kineto_trace *trace, const char *path, const char *prefix,
                             ke_sql **out, kineto_error *err)
{
    *out = NULL;
    ke_sql *sql = calloc(1, sizeof *sql);
    if (!sql)
        return kb_fail_memory(err, "open SQLite");
    /* Only the count of references changes, so the cast away from const is safe. */
    sql->trace = kineto_trace_retain(trace);
    KB_ASSERT(trace && path && prefix);
    int rc = sqlite3_open_v2(
        path, &sql->db, SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_NOMUTEX, NULL);
    if (rc == SQLITE_OK)
        rc = add_sql_tables(sql, prefix);
    kineto_status status = KINETO_OK;
    if (rc && !sql->db)
        status = kb_fail_memory(err, "open SQLite");
    else if (rc)
        status = ke_sql_fail(sql, err, rc, "cannot open SQLite");
    if (status)
        ke_sql_close(sql);
    else
        *out = sql;
    return status;
}

kineto_status ke_sql_open(const kineto_trace *trace, ke_sql **out, kineto_error *err)
{
    kineto_status status = ke_sql_open_at(trace, ":memory:", "", out, err);
    if (status == KINETO_OK)
        /* SQLite's own tables are declared at first use: later that would count as writing. */
        sqlite3_exec((*out)->db, "SELECT 1 FROM json_each('[]'), json_tree('[]')", NULL, NULL,
                     NULL);
    if (status == KINETO_OK)
        restrict_to_reading(*out);
    return status;
}

void ke_sql_close(ke_sql *sql)
{
    if (!sql)
        return;
    sqlite3_close(sql->db);
    for (size_t i = 0; i < KE_SQL_TABLES; i++) {
        ke_sql_source *s = &sql->sources[i];
        for (size_t k = 0; s->indexes && k < s->table->count; k++)
            ke_sql_index_free(s->indexes[k]);
        free(s->indexes);
    }
    ke_sql_samples_free(sql);
    kb_vec_free(&sql->devices);
    free(sql->depths);
    kb_map_free(&sql->strings);
    free(sql->next_string);
    kineto_trace_release(sql->trace);
    free(sql);
}

void ke_sql_interrupt(ke_sql *sql) { sqlite3_interrupt(sql->db); }

static int call_progress_watch(void *context)
{
    ke_sql *sql = context;
    return !sql->may_continue(sql->watch_context);
}

void ke_sql_watch(ke_sql *sql, bool (*may_continue)(void *context), void *context)
{
    /* Instructions of SQLite's machine: a few milliseconds. */
    enum { STEPS = 100000 };
    sql->may_continue = may_continue;
    sql->watch_context = context;
    sqlite3_progress_handler(sql->db, may_continue ? STEPS : 0,
                             may_continue ? call_progress_watch : NULL, sql);
}

/* ---- queries --------------------------------------------------------------------------------- */

/* Names the statement that would do more than read. */
static kineto_status fail_refused_statement(ke_sql *sql, kineto_string text, int code,
                                            kineto_error *err)
{
    kineto_string word = first_word(text);
    bool is_query = word.size == 0 ||
                    (word.size == 6 && strncasecmp(word.data, "SELECT", 6) == 0) ||
                    (word.size == 4 && strncasecmp(word.data, "WITH", 4) == 0);
    if ((code == SQLITE_AUTH || sql->denied[0]) && !is_query)
        snprintf(sql->denied, sizeof sql->denied, "%.*s", (int)KB_MIN(word.size, 40u), word.data);
    return ke_sql_fail(sql, err, code, NULL);
}

kineto_status ke_sql_prepare(ke_sql *sql, kineto_string text, size_t *used, ke_sql_query **out,
                             kineto_error *err)
{
    const char *rest = text.data;
    sqlite3_stmt *statement = NULL;
    *out = NULL;
    *used = text.size;
    sql->denied[0] = '\0';
    if (text.size >= INT32_MAX)
        return kb_fail(err, KINETO_E_LIMIT, "the query is longer than 2 GB");
    int rc = sqlite3_prepare_v3(sql->db, text.data, (int)text.size, 0, &statement, &rest);
    if (rc)
        return fail_refused_statement(sql, text, rc, err);
    *used = (size_t)(rest - text.data);
    if (!statement)
        return KINETO_OK;
    if (!sqlite3_stmt_readonly(
            statement)) { /* statements without an authorizer call, like VACUUM */
        sqlite3_finalize(statement);
        return fail_refused_statement(sql, text, SQLITE_AUTH, err);
    }
    ke_sql_query *query = calloc(1, sizeof *query);
    if (!query) {
        sqlite3_finalize(statement);
        return kb_fail_memory(err, "query");
    }
    *query = (ke_sql_query){sql, statement};
    *out = query;
    return KINETO_OK;
}

void ke_sql_finish(ke_sql_query *query)
{
    if (!query)
        return;
    sqlite3_finalize(query->statement);
    free(query);
}

size_t ke_sql_width(const ke_sql_query *query)
{
    return (size_t)sqlite3_column_count(query->statement);
}

const char *ke_sql_name(const ke_sql_query *query, size_t column)
{
    const char *name = sqlite3_column_name(query->statement, (int)column);
    return name ? name : "";
}

kineto_status ke_sql_step(ke_sql_query *query, bool *there, kineto_error *err)
{
    int rc = sqlite3_step(query->statement);
    *there = rc == SQLITE_ROW;
    return rc == SQLITE_ROW || rc == SQLITE_DONE ? KINETO_OK
                                                 : ke_sql_fail(query->sql, err, rc, NULL);
}

ke_sql_cell ke_sql_cell_at(const ke_sql_query *query, size_t column)
{
    sqlite3_stmt *s = query->statement;
    int c = (int)column;
    ke_sql_cell cell = {.type = KE_SQL_NULL};
    switch (sqlite3_column_type(s, c)) {
    case SQLITE_INTEGER:
        cell.type = KE_SQL_INT;
        cell.i = sqlite3_column_int64(s, c);
        break;
    case SQLITE_FLOAT:
        cell.type = KE_SQL_REAL;
        cell.d = sqlite3_column_double(s, c);
        break;
    case SQLITE_TEXT:
        cell.type = KE_SQL_TEXT;
        cell.text.data = (const char *)sqlite3_column_text(s, c);
        cell.text.size = (size_t)sqlite3_column_bytes(s, c);
        break;
    case SQLITE_BLOB:
        cell.type = KE_SQL_BLOB;
        cell.text.data = sqlite3_column_blob(s, c);
        cell.text.size = (size_t)sqlite3_column_bytes(s, c);
        break;
    default:
        break;
    }
    if (!cell.text.data)
        cell.text = (kineto_string){"", 0};
    return cell;
}
