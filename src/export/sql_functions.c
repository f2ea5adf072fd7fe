/* SQL functions besides SQLite's own: arguments, units, regular expressions, percentiles. */
#include "export/sql_impl.h"

#include <regex.h>

static const ke_sql_function sql_functions[] = {
    {"arg(row, key)", "value of an argument of an activity; NULL: it has none like this"},
    {"us(ns)", "microseconds, as a number with a fraction"},
    {"ms(ns)", "milliseconds, as a number with a fraction"},
    {"text REGEXP pattern",
     "1 if the POSIX extended regular expression matches anywhere in the text"},
    {"percentile(value, p)", "aggregate: the value that p percent (0 … 100) do not exceed"},
};

const ke_sql_function *ke_sql_functions(size_t *count)
{
    *count = KB_COUNT(sql_functions);
    return sql_functions;
}

/* ---- arguments ------------------------------------------------------------------------------- */

/* Ids are columns of the trace, but arguments in the file, so arg() finds them under both names. */
static bool put_id_column(const ke_sql *sql, sqlite3_context *out, kineto_row row, const char *key)
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

/* arg(row, key): NULL for rows that do not exist and for keys that the row does not have. */
static void run_arg_function(sqlite3_context *out, int argc, sqlite3_value **argv)
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
    if (!put_id_column(sql, out, (kineto_row)row, key) &&
        kineto_args_find(sql->trace, (kineto_row)row, key, &found))
        ke_sql_put_arg(out, &found);
}

/* ---- units ----------------------------------------------------------------------------------- */

/* NULL stays NULL, and so does text. */
static void put_quotient(sqlite3_context *out, sqlite3_value *ns, double by)
{
    int type = sqlite3_value_numeric_type(ns);
    if (type == SQLITE_INTEGER || type == SQLITE_FLOAT)
        sqlite3_result_double(out, sqlite3_value_double(ns) / by);
}

static void run_us_function(sqlite3_context *out, int argc, sqlite3_value **argv)
{
    (void)argc;
    put_quotient(out, argv[0], 1e3);
}

static void run_ms_function(sqlite3_context *out, int argc, sqlite3_value **argv)
{
    (void)argc;
    put_quotient(out, argv[0], 1e6);
}

/* ---- regular expressions --------------------------------------------------------------------- */

static void free_sql_regex(void *p)
{
    regfree(p);
    free(p);
}

/* NULL: the reason was returned to SQLite. */
static regex_t *compile_sql_regex(sqlite3_context *out, const char *pattern)
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
        char *text = sqlite3_mprintf("invalid regular expression '%s': %s", pattern, reason);
        sqlite3_result_error(out, text ? text : reason, -1);
        sqlite3_free(text);
    }
    free(r);
    return NULL;
}

/* SQLite calls it for "text REGEXP pattern", with the pattern first. The compiled pattern is kept
 * with the statement while the pattern stays the same. */
static void run_regexp_function(sqlite3_context *out, int argc, sqlite3_value **argv)
{
    const char *pattern = (const char *)sqlite3_value_text(argv[0]);
    const char *text = (const char *)sqlite3_value_text(argv[1]);
    regex_t *compiled = sqlite3_get_auxdata(out, 0);
    (void)argc;
    if (!pattern || !text)
        return;
    bool is_new = !compiled;
    if (is_new && !(compiled = compile_sql_regex(out, pattern)))
        return;
    sqlite3_result_int(out, regexec(compiled, text, 0, NULL, 0) == 0);
    if (is_new) /* last: SQLite may free it at once */
        sqlite3_set_auxdata(out, 0, compiled, free_sql_regex);
}

/* ---- percentile ------------------------------------------------------------------------------ */

/* A value as integer and as double: times are integers that a double cannot hold exactly. */
typedef struct number {
    sqlite3_int64 i;
    double d; /* the same, rounded; or the value if it is not an integer */
    bool is_integer;
} number;

typedef struct numbers {
    KB_VEC(number) list;
    double percent;
    bool failed;
} numbers;

/* The percentage has to be the same in all rows. Values that are not numbers are skipped. */
static void add_percentile_value(sqlite3_context *out, int argc, sqlite3_value **argv)
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

static int compare_sample_values(const void *left, const void *right)
{
    const number *a = left, *b = right;
    if (a->d != b->d)
        return a->d < b->d ? -1 : 1;
    return a->is_integer && b->is_integer ? (a->i > b->i) - (a->i < b->i) : 0;
}

/* The index of the nearest rank: an existing value, not one between two. Multiplies first, because
 * 7 / 100 * 100 is more than 7 in floating point. */
static size_t nearest_rank_of(double percent, size_t count)
{
    KB_ASSERT(count > 0 && percent >= 0 && percent <= 100);
    double exact = percent * (double)count / 100;
    size_t rank = (size_t)exact + ((double)(size_t)exact < exact); /* rounded up */
    return KB_MIN(rank ? rank - 1 : 0, count - 1);
}

/* Without values the result is NULL. */
static void finish_percentile(sqlite3_context *out)
{
    numbers *n = sqlite3_aggregate_context(out, 0);
    if (!n)
        return;
    if (!n->failed && n->list.count) {
        qsort(n->list.data, n->list.count, sizeof *n->list.data, compare_sample_values);
        number value = n->list.data[nearest_rank_of(n->percent, n->list.count)];
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
    } list[] = {{"arg", 2, run_arg_function, NULL},
                {"us", 1, run_us_function, NULL},
                {"ms", 1, run_ms_function, NULL},
                {"regexp", 2, run_regexp_function, NULL},
                {"percentile", 2, add_percentile_value, finish_percentile}};
    int rc = SQLITE_OK;
    for (size_t i = 0; i < KB_COUNT(list) && rc == SQLITE_OK; i++)
        rc = sqlite3_create_function_v2(sql->db, list[i].name, list[i].arguments,
                                        SQLITE_UTF8 | SQLITE_DETERMINISTIC | SQLITE_INNOCUOUS, sql,
                                        list[i].end ? NULL : list[i].run,
                                        list[i].end ? list[i].run : NULL, list[i].end, NULL);
    return rc;
}
