/* SQL over a trace: tables that SQLite reads straight from the columns, without a copy. What needs
 * SQLite stays behind this file; without it ke_sql_open says so. */
#ifndef KE_SQL_H
#define KE_SQL_H

#include "base/base.h"
#include <ckineto/trace.h>

/* ---- the schema ---------------------------------------------------------------------------------- */

/* How the rows that have a value are found: by going through all, because the value is the number
 * of the row, or through an index that is made when it is first needed. */
typedef enum ke_sql_lookup {
    KE_SQL_SCAN,
    KE_SQL_ROW,
    KE_SQL_INDEX_FEW, /* few rows have the same value */
    KE_SQL_INDEX_MANY
} ke_sql_lookup;

typedef struct ke_sql_column {
    const char *name, *type, *about;
    ke_sql_lookup lookup;
    bool hidden; /* not in "*" */
} ke_sql_column;

typedef struct ke_sql_table {
    const char *name, *about;
    const ke_sql_column *columns;
    size_t count;
    const struct ke_sql_ops *ops; /* sql_tables.h; NULL without SQLite */
} ke_sql_table;

/** Every table, and the functions that are there beside SQLite's own. */
const ke_sql_table *const *ke_sql_schema(size_t *count);
typedef struct ke_sql_function {
    const char *call, *about;
} ke_sql_function;
const ke_sql_function *ke_sql_functions(size_t *count);

/* ---- queries --------------------------------------------------------------------------------------- */
typedef struct ke_sql ke_sql;
typedef struct ke_sql_query ke_sql_query;

/** A connection that only reads. It holds the trace. One thread at a time.
 *  @return KINETO_E_UNSUPPORTED where SQLite was not there when this was built. */
kineto_status ke_sql_open(const kineto_trace *trace, ke_sql **out, kineto_error *err);
/** NULL is fine. Queries have to be finished before. */
void ke_sql_close(ke_sql *sql);
/** Make what is running fail with KINETO_E_STATE. From any thread or a signal handler, while `sql`
 * is open. */
void ke_sql_interrupt(ke_sql *sql);
/** Call `look` now and then while something runs, from the thread that runs it; NULL: no more. It
 * says whether to go on: if not, what runs fails with KINETO_E_STATE. */
void ke_sql_watch(ke_sql *sql, bool (*look)(void *context), void *context);

/** The first statement of `text`.
 *  @param used  receives how many bytes of it were taken.
 *  @param out   receives the query; NULL, with KINETO_OK, if there is none but blanks and comments.
 *  @return KINETO_E_ARGUMENT for what is no SQL or names what is not there, with err->offset in
 * `text` (UINT64_MAX: unknown); KINETO_E_PERMISSION for what would not only read. */
kineto_status ke_sql_prepare(ke_sql *sql, kineto_string text, size_t *used, ke_sql_query **out,
                             kineto_error *err);
void ke_sql_finish(ke_sql_query *query);
size_t ke_sql_width(const ke_sql_query *query);
/** Borrowed until the query is finished. */
const char *ke_sql_name(const ke_sql_query *query, size_t column);
/** Go to the next line of the result; *there is false behind the last. */
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
    kineto_string text; /* TEXT: bytes as they are in the trace; BLOB. Valid until the next step. */
} ke_sql_cell;
ke_sql_cell ke_sql_cell_at(const ke_sql_query *query, size_t column);
#endif
