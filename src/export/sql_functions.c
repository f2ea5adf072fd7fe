/* SQL functions beside SQLite's own. */
#include "export/sql_tables.h"

#include <regex.h>

static const ke_sql_function functions[] = {
    {"arg(row, key)", "value of an argument of an activity; NULL: it has none like this"},
    {"us(ns)", "microseconds, as a number with a fraction"},
    {"ms(ns)", "milliseconds, as a number with a fraction"},
    {"text REGEXP pattern", "does a POSIX extended regular expression match in the text?"},
    {"percentile(value, p)", "aggregate: the value that p percent (0 … 100) do not exceed"},
};

const ke_sql_function *ke_sql_functions(size_t *count)
{
    *count = KB_COUNT(functions);
    return functions;
}

/* ---- arguments -------------------------------------------------------------------------------------- */

/* What is a column is no argument of the trace, but is one in the file. */
static bool put_column(const ke_sql *sql, sqlite3_context *out, kineto_row row, const char *key)
{
    kineto_activity a;
    bool correlation = strcmp(key, "correlation") == 0;
    if (!correlation && strcmp(key, "External id") != 0)
        return false;
    kineto_trace_get(sql->trace, row, &a);
    uint64_t id = correlation ? a.correlation_id : a.external_id;
    if (id)
        ke_sql_put_int(out, (int64_t)id);
    return id != 0;
}

static void arg(sqlite3_context *out, int argc, sqlite3_value **argv)
{
    const ke_sql *sql = sqlite3_user_data(out);
    (void)argc;
    if (sqlite3_value_type(argv[0]) != SQLITE_INTEGER)
        return;
    sqlite3_int64 row = sqlite3_value_int64(argv[0]);
    const char *key = (const char *)sqlite3_value_text(argv[1]);
    kineto_arg found;
    if (!key || row < 0 || (uint64_t)row >= kineto_trace_count(sql->trace))
        return;
    if (!put_column(sql, out, (kineto_row)row, key) &&
        kineto_args_find(sql->trace, (kineto_row)row, key, &found))
        ke_sql_put_arg(out, &found);
}

/* ---- units ------------------------------------------------------------------------------------------ */

static void divide(sqlite3_context *out, sqlite3_value *ns, double by)
{
    int type = sqlite3_value_numeric_type(ns);
    if (type == SQLITE_INTEGER || type == SQLITE_FLOAT)
        sqlite3_result_double(out, sqlite3_value_double(ns) / by);
}

static void us(sqlite3_context *out, int argc, sqlite3_value **argv)
{
    (void)argc;
    divide(out, argv[0], 1e3);
}

static void ms(sqlite3_context *out, int argc, sqlite3_value **argv)
{
    (void)argc;
    divide(out, argv[0], 1e6);
}

/* ---- regular expressions ---------------------------------------------------------------------------- */

static void free_regex(void *p)
{
    regfree(p);
    free(p);
}

/* NULL after the reason went to `out`. */
static regex_t *compile(sqlite3_context *out, const char *pattern)
{
    char reason[160];
    regex_t *r = malloc(sizeof *r);
    int code = r ? regcomp(r, pattern, REG_EXTENDED | REG_NOSUB) : REG_ESPACE;
    if (code == 0)
        return r;
    if (code == REG_ESPACE) {
        sqlite3_result_error_nomem(out);
    } else {
        regerror(code, r, reason, sizeof reason);
        char *text = sqlite3_mprintf("the regular expression '%s' is wrong: %s", pattern, reason);
        sqlite3_result_error(out, text ? text : reason, -1);
        sqlite3_free(text);
    }
    free(r);
    return NULL;
}

static void regexp(sqlite3_context *out, int argc, sqlite3_value **argv)
{
    const char *pattern = (const char *)sqlite3_value_text(argv[0]);
    const char *text = (const char *)sqlite3_value_text(argv[1]);
    regex_t *compiled = sqlite3_get_auxdata(out, 0);
    (void)argc;
    if (!pattern || !text)
        return;
    bool is_new = !compiled;
    if (is_new && !(compiled = compile(out, pattern)))
        return;
    sqlite3_result_int(out, regexec(compiled, text, 0, NULL, 0) == 0);
    if (is_new) /* may free it at once */
        sqlite3_set_auxdata(out, 0, compiled, free_regex);
}

/* ---- percentile --------------------------------------------------------------------------------------- */

/* Times are integers beyond what a double holds. */
typedef struct number {
    sqlite3_int64 i;
    double d; /* the same, or else what it is */
    bool is_integer;
} number;

typedef struct numbers {
    KB_VEC(number) list;
    double percent;
    bool failed;
} numbers;

static void percentile_add(sqlite3_context *out, int argc, sqlite3_value **argv)
{
    numbers *n = sqlite3_aggregate_context(out, sizeof *n);
    int type = sqlite3_value_numeric_type(argv[0]);
    (void)argc;
    if (!n || n->failed || (type != SQLITE_INTEGER && type != SQLITE_FLOAT))
        return;
    double percent = sqlite3_value_double(argv[1]);
    number value = {sqlite3_value_int64(argv[0]), sqlite3_value_double(argv[0]),
                    type == SQLITE_INTEGER};
    if (!n->list.count)
        n->percent = percent;
    if (!(percent >= 0 && percent <= 100) || percent != n->percent) {
        sqlite3_result_error(out, "percentile() needs one percentage of 0 to 100", -1);
        n->failed = true;
    } else if (!kb_vec_push(&n->list, value)) {
        sqlite3_result_error_nomem(out);
        n->failed = true;
    }
}

static int by_value(const void *left, const void *right)
{
    const number *a = left, *b = right;
    if (a->d != b->d)
        return a->d < b->d ? -1 : 1;
    return a->is_integer && b->is_integer ? (a->i > b->i) - (a->i < b->i) : 0;
}

/* The nearest rank, from 0: a value that is there, not one between two. Multiplied first: 7 / 100 * 100
 * is more than 7. */
static size_t nearest_rank(double percent, size_t count)
{
    double exact = percent * (double)count / 100;
    size_t rank = (size_t)exact + ((double)(size_t)exact < exact); /* rounded up */
    return KB_MIN(rank ? rank - 1 : 0, count - 1);
}

static void percentile_end(sqlite3_context *out)
{
    numbers *n = sqlite3_aggregate_context(out, 0);
    if (!n)
        return;
    if (!n->failed && n->list.count) {
        qsort(n->list.data, n->list.count, sizeof *n->list.data, by_value);
        number value = n->list.data[nearest_rank(n->percent, n->list.count)];
        if (value.is_integer)
            sqlite3_result_int64(out, value.i);
        else
            sqlite3_result_double(out, value.d);
    }
    kb_vec_free(&n->list);
}

int ke_sql_add_functions(ke_sql *sql)
{
    static const struct {
        const char *name;
        int arguments;
        void (*run)(sqlite3_context *, int, sqlite3_value **);
        void (*end)(sqlite3_context *);
    } list[] = {{"arg", 2, arg, NULL},
                {"us", 1, us, NULL},
                {"ms", 1, ms, NULL},
                {"regexp", 2, regexp, NULL},
                {"percentile", 2, percentile_add, percentile_end}};
    int rc = SQLITE_OK;
    for (size_t i = 0; i < KB_COUNT(list) && rc == SQLITE_OK; i++)
        rc = sqlite3_create_function_v2(sql->db, list[i].name, list[i].arguments,
                                        SQLITE_UTF8 | SQLITE_DETERMINISTIC | SQLITE_INNOCUOUS, sql,
                                        list[i].end ? NULL : list[i].run,
                                        list[i].end ? list[i].run : NULL, list[i].end, NULL);
    return rc;
}
