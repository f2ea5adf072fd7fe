/* Reads the tables of an SQLite database from an untrusted file, row by row. The bytes of the file are
 * read where they are. Views, triggers, virtual tables and functions of the file are never run: only
 * ordinary tables are read, with the columns that they have.
 *
 * A table that is damaged ends where the damage is; others are still read, and kt_database_finish tells. Other
 * problems stick: later calls find no tables and no rows. */
#ifndef KT_DATABASE_H
#define KT_DATABASE_H

#include "trace/import/activities.h"

#include <sqlite3.h>

typedef struct kt_database_table {
    const char *name;
    bool is_read;    /* by kt_rows_open, or deliberately left */
    bool is_damaged;
} kt_database_table;

typedef struct kt_database {
    sqlite3 *db;
    kb_arena arena;
    KB_VEC(kt_database_table) tables;
    uint64_t file_bytes;
    kineto_status status; /* of a problem that ends reading */
    kineto_error error;
    uint64_t damages; /* tables that could not be read to their end, and lists of tables */
    char damage[200];
} kt_database;

/** @param source  `bytes` must stay until kt_database_close. */
kineto_status kt_database_open(kt_database *d, const kt_import_source *source, kineto_error *err);
void kt_database_close(kt_database *d);

/** A table of this name; NULL: there is none. */
kt_database_table *kt_database_find(const kt_database *d, const char *name);
/** The names of some tables, for messages; "" for none. */
void kt_database_list(const kt_database *d, char *out, size_t room);
/** Rows of a table, as far as they can be read. */
uint64_t kt_database_count(kt_database *d, const char *table);
bool kt_database_has_column(kt_database *d, const char *table, const char *column);

/* ---- rows ---- */
#define KT_MAX_COLUMNS 48
/* The values of a row, by the order of the list of columns. */
typedef struct kt_rows {
    kt_database *database;
    const char *table;
    sqlite3_stmt *statement; /* NULL: no such table */
    const char *const *columns;
    uint64_t count, limit;
    uint64_t bad; /* rows that kt_rows_skip left out */
    bool is_here[KT_MAX_COLUMNS];
    bool has_ended; /* there is no further row, or none that can be read */
} kt_rows;

/** Begins to read a table. A column of the list that the table lacks has NULL in all rows.
 *  @param columns  ended by NULL; a table without one that has a leading '!' counts as damaged
 *  @return false: no such table, or a problem */
bool kt_rows_open(kt_rows *rows, kt_database *d, const char *table, const char *const *columns);
/** The next row; false: there are no more, or a problem. */
bool kt_rows_next(kt_rows *rows);
void kt_rows_close(kt_rows *rows);
/** Leaves out the row: a value is missing or has a wrong type. */
void kt_rows_skip(kt_rows *rows);

static inline bool kt_rows_has(const kt_rows *rows, int column) { return rows->is_here[column]; }
static inline bool kt_rows_is_null(const kt_rows *rows, int column)
{
    return sqlite3_column_type(rows->statement, column) == SQLITE_NULL;
}
/** False: the value is no whole number. */
bool kt_rows_int(const kt_rows *rows, int column, int64_t *value);
/** The same with a value for all others. */
int64_t kt_rows_int_or(const kt_rows *rows, int column, int64_t otherwise);
bool kt_rows_number(const kt_rows *rows, int column, double *value);
/** A text, until the next row; empty: it is none. */
kineto_string kt_rows_text(const kt_rows *rows, int column);

/* ---- texts with numbers ---- */
/* A table of texts by id, of which those that are asked for are kept. */
typedef struct kt_texts {
    kt_database *database;
    kt_builder *b;
    const char *table;
    sqlite3_stmt *find; /* by id; NULL: all are in `known` */
    kb_map known;       /* id → string id + 1; 0: there is none */
} kt_texts;

void kt_texts_open(kt_texts *texts, kt_database *d, kt_builder *b, const char *table, const char *id,
                   const char *value);
void kt_texts_close(kt_texts *texts);
/** String id; 0: no such text. */
uint32_t kt_texts_find(kt_texts *texts, int64_t id);

/* ---- the formats ---- */
bool kt_is_nsys(const kt_database *d);
kineto_status kt_import_nsys(kt_database *d, const kt_import_source *source, kineto_trace **out,
                             kineto_error *err);
bool kt_is_own_database(const kt_database *d);
kineto_status kt_import_own_database(kt_database *d, const kt_import_source *source, kineto_trace **out,
                                     kineto_error *err);
bool kt_is_rocpd(const kt_database *d);
kineto_status kt_import_rocpd(kt_database *d, const kt_import_source *source, kineto_trace **out,
                              kineto_error *err);
/** The last calls: lines in the ledger for tables that were not read, with their rows; then the trace, unless there
 *  was a problem, or damage has left no event. */
void kt_import_unread_tables(kt_import *m, kt_database *d);
kineto_status kt_database_finish(kt_database *d, kt_import *m, kineto_trace **out, kineto_error *err);
#endif
