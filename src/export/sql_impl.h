/* The SQL tables: how they provide rows to SQLite, and the state of a connection. Only for the
 * files that need SQLite. */
#ifndef KE_SQL_TABLES_H
#define KE_SQL_TABLES_H

#include "export/sql.h"
#include "trace/trace.h"

#include <sqlite3.h>

enum { KE_SQL_TABLES = 10 };

/* ---- tables whose rows have numbers (sql_module.c) ------------------------------------------- */

/* The operations of a table. Rows are 0 … rows-1. */
typedef struct ke_sql_ops {
    /** Called before all others, each time a statement is planned; false: out of memory. May be
     *  NULL. */
    bool (*prepare)(ke_sql *sql);
    uint64_t (*rows)(const ke_sql *sql);
    void (*cell)(ke_sql *sql, uint32_t row, int column, sqlite3_context *out);
    /** Maps the value of an indexed column to a number; false: NULL. Numbers are equal exactly if
     *  the values are. */
    bool (*key)(const ke_sql *sql, uint32_t row, int column, uint64_t *key);
    /** The same for a text that is searched for; false: no row has it. NULL: all values are
     *  numbers. */
    bool (*key_of_text)(ke_sql *sql, int column, kineto_string text, uint64_t *key);
    int time_column; /* rows can be read in the order of this column; -1: none */
    /** Rows in the order of time; returns NULL: out of memory. The pointer is NULL if the rows are
     *  in this order already. */
    const uint32_t *(*order)(const ke_sql *sql);
    int64_t (*time)(const ke_sql *sql, uint32_t row);
    /** Prefetches a row that will be read soon, for lists of rows in random order. May be NULL. */
    void (*prefetch)(const ke_sql *sql, uint32_t row);
    const sqlite3_module *module; /* a module of its own, instead of all above */
} ke_sql_ops;

extern const ke_sql_table ke_sql_activities, ke_sql_args, ke_sql_tracks, ke_sql_processes,
    ke_sql_devices, ke_sql_flows, ke_sql_counters, ke_sql_steps, ke_sql_metadata, ke_sql_ledger;

/* Rows grouped by the value of a column; rows of a group are in the order of time. */
typedef struct ke_sql_index {
    kb_map groups; /* key → group; group 0 has the rows without a value */
    /* By group: its first entry in rows; one entry more than groups. */
    uint64_t *first;
    uint32_t *rows;
} ke_sql_index;

/* A table of a connection: the argument of SQLite's module. */
typedef struct ke_sql_source {
    ke_sql *sql;
    const ke_sql_table *table;
    ke_sql_index **indexes; /* by column; NULL: not made yet */
} ke_sql_source;

extern const sqlite3_module ke_sql_module;
/** "CREATE TABLE name(columns)"; free it with sqlite3_free. `hidden`: including hidden columns. */
char *ke_sql_declaration(const ke_sql_table *table, const char *name, bool hidden);
/** xConnect and xDisconnect of both modules: argument is a ke_sql_source. */
typedef struct ke_sql_vtab {
    sqlite3_vtab base;
    ke_sql_source *source;
} ke_sql_vtab;
int ke_sql_connect(sqlite3 *db, void *source, int argc, const char *const *argv, sqlite3_vtab **out,
                   char **message);
int ke_sql_disconnect(sqlite3_vtab *vtab);

/* ---- sql_index.c ----------------------------------------------------------------------------- */
/** The index of a column, made at first use; NULL: out of memory. */
const ke_sql_index *ke_sql_index_of(ke_sql_source *source, int column);
void ke_sql_index_free(ke_sql_index *index);
/** Rows with this key in the order of time; *count is 0 if there are none. */
const uint32_t *ke_sql_rows_of(const ke_sql_index *index, uint64_t key, uint64_t *count);
/** Id of a string of the trace; false: the trace does not have it. */
bool ke_sql_find_string(ke_sql *sql, kineto_string text, uint32_t *id);

/* ---- the connection (sql.c) ------------------------------------------------------------------ */

/* One sample of one series of a counter, and a step: sql_samples.c. */
typedef struct ke_sql_sample {
    int64_t time_ns;
    kineto_row row;
    uint32_t number; /* position before sorting */
    uint32_t series; /* id in sample_texts */
    uint32_t type;   /* kineto_arg_type; types without a number use `text` */
    union {
        int64_t i;
        uint64_t u;
        double d;
        uint32_t text; /* id in sample_texts */
    };
} ke_sql_sample;
typedef struct ke_sql_step_row {
    int64_t start_ns, number;
    kineto_row row;
} ke_sql_step_row;

struct ke_sql {
    kineto_trace *trace;
    sqlite3 *db;
    ke_sql_source sources[KE_SQL_TABLES];
    /* Hash of a text → id + 1 of the last string that has it. */
    kb_map strings;
    uint32_t *next_string; /* id → id + 1 of the previous one with the same hash */
    /* Our own tables are being declared: nothing is refused. */
    bool declaring;
    bool has_samples, has_steps, has_devices;
    KB_VEC(ke_sql_sample) samples;
    kb_intern sample_texts;
    KB_VEC(ke_sql_step_row) steps;
    uint32_t *depths;            /* by row; NULL: not computed yet */
    KB_VEC(uint32_t) devices;    /* processes that are devices */
    char denied[160];            /* the action that was refused; "": none */
    bool (*may_continue)(void *context); /* watch callback; NULL: none */
    void *watch_context;
};

/** Opens the database at `path` with the tables of the trace, named prefix + name. */
kineto_status ke_sql_open_at(const kineto_trace *trace, const char *path, const char *prefix,
                             ke_sql **out, kineto_error *err);
/** Fills err with the last error of the connection. */
kineto_status ke_sql_fail(ke_sql *sql, kineto_error *err, int code, const char *what);
/** Registers arg(), us() and the others (sql_functions.c). SQLITE_OK or an error code of SQLite. */
int ke_sql_add_functions(ke_sql *sql);

/* ---- values ---------------------------------------------------------------------------------- */
static inline bool ke_sql_is_number(sqlite3_value *value)
{
    int type = sqlite3_value_type(value);
    return type == SQLITE_INTEGER || type == SQLITE_FLOAT;
}
void ke_sql_samples_free(ke_sql *sql);
/** Returns a text of the trace, which lives as long as the connection, to SQLite. */
static inline void ke_sql_put(sqlite3_context *out, kineto_string text)
{
    sqlite3_result_text64(out, text.size ? text.data : "", text.size, SQLITE_STATIC, SQLITE_UTF8);
}
/** Text, or NULL if it is empty. */
static inline void ke_sql_put_text(sqlite3_context *out, kineto_string text)
{
    if (text.size)
        ke_sql_put(out, text);
}
static inline void ke_sql_put_int(sqlite3_context *out, int64_t value)
{
    sqlite3_result_int64(out, value);
}
/** A row, or NULL. */
static inline void ke_sql_put_row(sqlite3_context *out, kineto_row row)
{
    if (row != KINETO_NO_ROW)
        sqlite3_result_int64(out, row);
}
/** Returns the value of an argument to SQLite; texts are copied. */
void ke_sql_put_arg(sqlite3_context *out, const kineto_arg *arg);
#endif
