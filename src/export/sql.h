/* SQL over a trace: tables that SQLite reads directly from the trace's columns, without a copy.
 * Callers need no SQLite header; in a build without SQLite (sql_absent.c) ke_sql_open reports
 * that. */
#ifndef KE_SQL_H
#define KE_SQL_H

#include "base/base.h"
#include <ckineto/trace.h>

/* ---- the schema ------------------------------------------------------------------------------ */

/* How rows with a given value are found: by a scan, because the value is the number of the row, or
 * through an index that is made when it is first needed. */
typedef enum ke_sql_lookup {
    KE_SQL_SCAN,
    KE_SQL_ROW,
    KE_SQL_INDEX_FEW, /* few rows have the same value */
    KE_SQL_INDEX_MANY /* many rows have the same value */
} ke_sql_lookup;

typedef struct ke_sql_column {
    const char *name, *type, *about;
    ke_sql_lookup lookup;
    bool hidden; /* not part of "*" */
} ke_sql_column;

typedef struct ke_sql_table {
    const char *name, *about;
    const ke_sql_column *columns;
    size_t count;
    const struct ke_sql_ops *ops; /* sql_impl.h; NULL without SQLite */
} ke_sql_table;

/** All tables, and the functions besides SQLite's own. */
const ke_sql_table *const *ke_sql_schema(size_t *count);
typedef struct ke_sql_function {
    const char *call, *about;
} ke_sql_function;
const ke_sql_function *ke_sql_functions(size_t *count);

/* ---- queries --------------------------------------------------------------------------------- */
typedef struct ke_sql ke_sql;
typedef struct ke_sql_query ke_sql_query;

/** Opens a read-only connection, which holds a reference to the trace. One thread at a time.
 *  @return KINETO_E_UNSUPPORTED in a build without SQLite. */
kineto_status ke_sql_open(const kineto_trace *trace, ke_sql **out, kineto_error *err);
/** Closes a connection, or does nothing for NULL. All queries must be finished. */
void ke_sql_close(ke_sql *sql);
/** Makes the running statement fail with KINETO_E_STATE. May be called from any thread and from
 *  signal handlers while `sql` is open. */
void ke_sql_interrupt(ke_sql *sql);
/** Sets a callback that runs every few milliseconds while a statement runs, in its thread; NULL:
 *  none. If it returns false, the statement fails with KINETO_E_STATE. */
void ke_sql_watch(ke_sql *sql, bool (*may_continue)(void *context), void *context);

/** Prepares the first statement of `text`.
 *  @param used  receives how many bytes of it were consumed.
 *  @param out   receives the query; NULL, with KINETO_OK, if there are only blanks and comments.
 *  @return KINETO_E_ARGUMENT for invalid SQL and unknown names, with err->offset in `text`
 *  (UINT64_MAX: unknown); KINETO_E_PERMISSION for statements that would not only read. */
kineto_status ke_sql_prepare(ke_sql *sql, kineto_string text, size_t *used, ke_sql_query **out,
                             kineto_error *err);
void ke_sql_finish(ke_sql_query *query);
/** Number of columns of the result, and their names. */
size_t ke_sql_width(const ke_sql_query *query);
/** Valid until the query is finished. */
const char *ke_sql_name(const ke_sql_query *query, size_t column);
/** Moves to the next row of the result; *there is false after the last one. */
kineto_status ke_sql_step(ke_sql_query *query, bool *there, kineto_error *err);

typedef enum ke_sql_type {
    KE_SQL_NULL,
    KE_SQL_INT,
    KE_SQL_REAL,
    KE_SQL_TEXT,
    KE_SQL_BLOB
} ke_sql_type;
typedef struct ke_sql_cell {
    ke_sql_type type;
    int64_t i;
    double d;
    /* TEXT: the bytes of the trace; BLOB. Valid until the next step. */
    kineto_string text;
} ke_sql_cell;
ke_sql_cell ke_sql_cell_at(const ke_sql_query *query, size_t column);
#endif
