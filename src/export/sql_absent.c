/* Replaces everything that needs SQLite in a build without it: there are no tables, and opening
 * fails. */
#include "export/export.h"
#include "export/sql.h"

static kineto_status fail_without_sqlite(kineto_error *err)
{
    return kb_fail(
        err, KINETO_E_UNSUPPORTED,
        "this ckineto was built without SQLite; install libsqlite3-dev and build it again");
}

const ke_sql_table *const *ke_sql_schema(size_t *count)
{
    *count = 0;
    return NULL;
}

const ke_sql_function *ke_sql_functions(size_t *count)
{
    *count = 0;
    return NULL;
}

kineto_status ke_sql_open(const kineto_trace *trace, ke_sql **out, kineto_error *err)
{
    (void)trace;
    *out = NULL;
    return fail_without_sqlite(err);
}

void ke_sql_close(ke_sql *sql) { (void)sql; }

void ke_sql_interrupt(ke_sql *sql) { (void)sql; }

void ke_sql_watch(ke_sql *sql, bool (*may_continue)(void *context), void *context)
{
    (void)sql;
    (void)may_continue;
    (void)context;
}

kineto_status ke_sql_prepare(ke_sql *sql, kineto_string text, size_t *used, ke_sql_query **out,
                             kineto_error *err)
{
    (void)sql;
    *used = text.size;
    *out = NULL;
    return fail_without_sqlite(err);
}

void ke_sql_finish(ke_sql_query *query) { (void)query; }

size_t ke_sql_width(const ke_sql_query *query)
{
    (void)query;
    return 0;
}

const char *ke_sql_name(const ke_sql_query *query, size_t column)
{
    (void)query, (void)column;
    return "";
}

kineto_status ke_sql_step(ke_sql_query *query, bool *there, kineto_error *err)
{
    (void)query;
    *there = false;
    return fail_without_sqlite(err);
}

ke_sql_cell ke_sql_cell_at(const ke_sql_query *query, size_t column)
{
    (void)query, (void)column;
    return (ke_sql_cell){.type = KE_SQL_NULL};
}

kineto_status ke_sqlite_write_path(const kineto_trace *trace, const char *path,
                                   kineto_export_result *result, kineto_error *err)
{
    (void)trace, (void)path, (void)result;
    return fail_without_sqlite(err);
}
