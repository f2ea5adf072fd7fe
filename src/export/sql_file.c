/* Writes a trace as a database of SQLite: the virtual tables are copied into real ones, then
 * indexed. The file is written next to its final name and renamed at the end. */
#include "export/export.h"
#include "export/sql_impl.h"

#include <errno.h>
#include <sys/stat.h>

/* Indices for the usual queries: by time, name, track, ids and links. */
static const char index_statements[] =
    "CREATE INDEX activities_by_start ON activities(start_ns);"
    "CREATE INDEX activities_by_name ON activities(name);"
    "CREATE INDEX activities_by_track ON activities(track, start_ns);"
    "CREATE INDEX activities_by_correlation ON activities(correlation_id)"
    " WHERE correlation_id IS NOT NULL;"
    "CREATE INDEX activities_by_external ON activities(external_id)"
    " WHERE external_id IS NOT NULL;"
    "CREATE INDEX activities_by_parent ON activities(parent) WHERE parent IS NOT NULL;"
    "CREATE INDEX args_by_row ON args(row, key);"
    "CREATE INDEX args_by_key ON args(key);"
    "CREATE INDEX flows_by_from ON flows(from_row);"
    "CREATE INDEX flows_by_to ON flows(to_row);"
    "CREATE INDEX counters_by_name ON counters(name, series, time_ns);";

/* Settings for a file that is written once; it is not crash-safe, because it is renamed at the end.
 * application_id is "ckin", by which file(1) and other programs recognise it. */
static const char pragma_statements[] =
    "PRAGMA page_size=8192; PRAGMA journal_mode=OFF;"
    "PRAGMA synchronous=OFF; PRAGMA locking_mode=EXCLUSIVE;"
    "PRAGMA cache_size=-65536; PRAGMA application_id=1667983726;"
    "PRAGMA user_version=1; BEGIN";

static int run_statement(ke_sql *sql, const char *text)
{
    return sqlite3_exec(sql->db, text, NULL, NULL, NULL);
}

/* CREATE TABLE, in which the number of a row becomes its primary key. */
static char *create_statement(const ke_sql_table *table)
{
    char *text = ke_sql_declaration(table, table->name, false);
    const ke_sql_column *first = &table->columns[0];
    bool is_key = first->lookup == KE_SQL_ROW && table != &ke_sql_args;
    char *at = text && is_key ? strstr(text, "INTEGER") : NULL;
    if (!at)
        return text;
    at += strlen("INTEGER");
    char *keyed = sqlite3_mprintf("%.*s PRIMARY KEY%s", (int)(at - text), text, at);
    sqlite3_free(text);
    return keyed;
}

static int copy_table_to_file(ke_sql *sql, const ke_sql_table *table)
{
    char *create = create_statement(table);
    char *fill =
        sqlite3_mprintf("INSERT INTO main.%s SELECT * FROM trace_%s", table->name, table->name);
    int rc = create && fill ? run_statement(sql, create) : SQLITE_NOMEM;
    if (rc == SQLITE_OK)
        rc = run_statement(sql, fill);
    sqlite3_free(create);
    sqlite3_free(fill);
    return rc;
}

static int copy_trace_to_file(ke_sql *sql)
{
    size_t count;
    const ke_sql_table *const *tables = ke_sql_schema(&count);
    int rc = run_statement(sql, pragma_statements);
    for (size_t i = 0; i < count && rc == SQLITE_OK; i++)
        rc = copy_table_to_file(sql, tables[i]);
    if (rc == SQLITE_OK)
        rc = run_statement(sql, index_statements);
    return rc ? rc : run_statement(sql, "COMMIT; ANALYZE");
}

/* SQLite calls write(2) itself: it does not handle SIGXFSZ, nor report that a limit was
 * exceeded. */
static kineto_status copy_without_sigxfsz(ke_sql *sql, const char *path, kineto_error *err)
{
    kb_quiet q;
    char what[200];
    kb_os_quiet_begin(&q);
    int rc = copy_trace_to_file(sql);
    if (kb_os_quiet_end(&q, rc != SQLITE_OK) == SIGXFSZ)
        return kb_fail_os(err, EFBIG, "cannot write '%s'", path);
    snprintf(what, sizeof what, "cannot write '%s'", path);
    return rc ? ke_sql_fail(sql, err, rc, what) : KINETO_OK;
}

static kineto_status write_database(const kineto_trace *trace, const char *temporary,
                                    const char *path, kineto_error *err)
{
    ke_sql *sql;
    kineto_status status = ke_sql_open_at(trace, temporary, "trace_", &sql, err);
    if (status)
        return status;
    status = copy_without_sigxfsz(sql, path, err);
    ke_sql_close(sql);
    return status;
}

static void set_sqlite_result(const kineto_trace *trace, const char *path,
                              kineto_export_result *result)
{
    struct stat st;
    if (!result)
        return;
    result->activities = kineto_trace_count(trace);
    result->bytes = stat(path, &st) == 0 ? (uint64_t)st.st_size : 0;
    result->replaced_bytes = 0;
}

kineto_status ke_sqlite_write_path(const kineto_trace *trace, const char *path,
                                   kineto_export_result *result, kineto_error *err)
{
    kb_atomic_file *file;
    if (!trace || !path)
        return kb_fail_null(err, __func__, "trace, path", trace, path);
    kineto_status status = kb_atomic_file_open(path, &file, err);
    if (status)
        return status;
    status = write_database(trace, kb_atomic_file_path(file), path, err);
    if (status) {
        kb_atomic_file_abort(file);
        return status;
    }
    status = kb_atomic_file_commit(file, err);
    if (status == KINETO_OK)
        set_sqlite_result(trace, path, result);
    return status;
}
