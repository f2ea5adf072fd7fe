/* What the files of `ckineto query` share: writing results (query_output.c, query_table.c),
 * interrupting long queries (query_watch.c) and explaining mistakes (query_explain.c). */
#ifndef KC_QUERY_H
#define KC_QUERY_H

#include "analyze/overview/coverage.h"
#include "cli/options.h"
#include "cli/print.h"
#include "export/sql.h"

typedef enum kc_query_format {
    KC_QUERY_TABLE,
    KC_QUERY_CSV,
    KC_QUERY_JSON,
    KC_QUERY_JSONL,
    KC_QUERY_MARKDOWN,
    KC_QUERY_OBJECT, /* JSON with its schema: columns, and rows as lists */
    KC_QUERY_FORMATS
} kc_query_format;
extern const char *const kc_query_format_names[KC_QUERY_FORMATS];

/* Destination and form of the results. */
typedef struct kc_query_output {
    kb_sink *sink;
    kc_query_format format;
    /* max columns of a text in a table; 0: unlimited */
    size_t width;
    const ka_coverage *coverage; /* of the ranks; NULL: not known */
    /* written before this one */
    uint64_t results;
    /* invalid UTF-8 in JSON */
    uint64_t replaced;
} kc_query_output;

/* ---- query_output.c -------------------------------------------------------------------------- */
/** Run a query to its end and write what it yields. Stops early when the sink has failed. */
kineto_status kc_query_write(ke_sql_query *query, kc_query_output *out, kineto_error *err);

/** One value of a result as JSON. */
void kc_query_put_cell(kb_json *json, const ke_sql_cell *cell);

/* ---- query_table.c: for human eyes ----------------------------------------------------------- */
kineto_status kc_query_write_table(ke_sql_query *query, kc_query_output *out, kineto_error *err);

/* ---- query_watch.c --------------------------------------------------------------------------- */
/** From here on Ctrl-C ends the running statement, and a terminal shows that a query takes long. */
void kc_query_watch_begin(ke_sql *sql, const kc_query_output *out, bool to_stdout);
/** A statement begins; or it has ended, and its result follows. */
void kc_query_watch_statement(bool begins);
bool kc_query_interrupted(void);
/** Before the connection is closed. */
void kc_query_watch_end(void);
/** If Ctrl-C was pressed, end the process by SIGINT; else return `exit`. */
int kc_query_end_as_interrupted(int exit);

/* ---- query_explain.c ------------------------------------------------------------------------- */
void kc_query_print_schema(FILE *out);
/** The names that exist, if the error is an unknown name: tables, columns of the tables that the statement names,
 *  functions. */
void kc_query_print_known_names(FILE *out, kineto_string statement, const kineto_error *err);
/** The message with those names as one text, to be freed; NULL: out of memory. */
char *kc_query_explanation(kineto_string statement, const kineto_error *err);
/** Print on stderr where in `text` a mistake is, and the names that exist.
 *  @param statement  the part that was not understood; err->offset is relative to it. */
void kc_query_explain(kineto_string text, kineto_string statement, const kineto_error *err);
#endif
