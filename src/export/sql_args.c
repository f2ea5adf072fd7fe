/* The SQL table "args" and the SQL values of arguments. The table has a module of its own, because
 * its rows have no numbers: a cursor walks the activities and loads the args of one at a time. */
#include "export/sql_impl.h"

enum { R_ROW, R_KEY, R_TYPE, R_VALUE, R_COUNT };

static const ke_sql_column args_columns[] = {
    [R_ROW] = {"row", "INTEGER", "activities.row", KE_SQL_ROW, false},
    [R_KEY] = {"key", "TEXT", "its name", KE_SQL_SCAN, false},
    [R_TYPE] = {"type", "TEXT", "int, uint, double, bool, string; lists and objects are JSON text",
                KE_SQL_SCAN, false},
    [R_VALUE] = {"value", "", "numbers as numbers; a number beyond 64 bits with sign is text",
                 KE_SQL_SCAN, false},
};

/* A copy of an argument: the trace's own are valid only until the next one is read. */
typedef struct kept_arg {
    /* Offsets and sizes in args_cursor.bytes. */
    size_t key, key_size, text, text_size;
    uint32_t type;
    uint64_t value;
} kept_arg;

typedef struct args_cursor {
    sqlite3_vtab_cursor base;
    uint64_t row, end;     /* activities to visit: [row, end) */
    char *wanted;          /* the key that is searched for; NULL: all keys */
    KB_VEC(kept_arg) args; /* of `row` */
    KB_VEC(char) bytes;
    size_t at;
} args_cursor;

enum { PLAN_ROW = 1, PLAN_KEY = 2 };
#define ARGS_PER_ROW 8 /* estimate for SQLite's planner: operators and kernels have 5 to 20 */

/* ---- values ---------------------------------------------------------------------------------- */

static const char *arg_type_name(uint32_t type)
{
    static const char *const names[] = {"none",   "int",  "uint",    "double", "bool",
                                        "string", "ints", "strings", "json",   "shapes"};
    return type < KB_COUNT(names) ? names[type] : "unknown";
}

/* SQLite has no unsigned numbers of 64 bits: one beyond INT64_MAX becomes decimal text. */
static void put_uint_or_text(sqlite3_context *out, uint64_t value)
{
    char text[24];
    if (value <= INT64_MAX) {
        sqlite3_result_int64(out, (int64_t)value);
        return;
    }
    char *end = kb_json_format_uint(text, value);
    sqlite3_result_text(out, text, (int)(end - text), SQLITE_TRANSIENT);
}

void ke_sql_put_arg(sqlite3_context *out, const kineto_arg *arg)
{
    switch (arg->type) {
    case KINETO_ARG_INT:
        sqlite3_result_int64(out, arg->i);
        break;
    case KINETO_ARG_UINT:
    case KINETO_ARG_BOOL:
        put_uint_or_text(out, arg->u);
        break;
    case KINETO_ARG_DOUBLE:
        sqlite3_result_double(out, arg->d);
        break;
    default:
        if (arg->type == KINETO_ARG_JSON && kb_string_equal(arg->text, kb_string("null")))
            break;
        sqlite3_result_text64(out, arg->text.size ? arg->text.data : "", arg->text.size,
                              SQLITE_TRANSIENT, SQLITE_UTF8);
    }
}

/* ---- the cursor ------------------------------------------------------------------------------ */

static int open_args_cursor(sqlite3_vtab *vtab, sqlite3_vtab_cursor **out)
{
    args_cursor *c = calloc(1, sizeof *c);
    (void)vtab;
    *out = c ? &c->base : NULL;
    return c ? SQLITE_OK : SQLITE_NOMEM;
}

static int close_args_cursor(sqlite3_vtab_cursor *base)
{
    args_cursor *c = (args_cursor *)base;
    kb_vec_free(&c->args);
    kb_vec_free(&c->bytes);
    free(c->wanted);
    free(c);
    return SQLITE_OK;
}

static bool keep_arg_bytes(args_cursor *c, kineto_string s, size_t *at)
{
    *at = c->bytes.count;
    if (!kb_vec_reserve(&c->bytes, c->bytes.count + s.size + 1))
        return false;
    if (s.size)
        memcpy(c->bytes.data + c->bytes.count, s.data, s.size);
    c->bytes.count += s.size;
    return true;
}

static bool keep_arg(args_cursor *c, const kineto_arg *arg)
{
    kept_arg k = {.type = arg->type, .key_size = arg->key.size};
    bool has_text = arg->type >= KINETO_ARG_STRING;
    if (has_text)
        k.text_size = arg->text.size;
    else
        k.value = arg->u;
    return keep_arg_bytes(c, arg->key, &k.key) &&
           (!has_text || keep_arg_bytes(c, arg->text, &k.text)) && kb_vec_push(&c->args, k);
}

static bool load_args_of_row(args_cursor *c, const kineto_trace *trace, kineto_row row)
{
    kineto_args_iterator it;
    kineto_arg arg;
    kineto_string wanted = kb_string(c->wanted);
    bool ok = true;
    c->at = c->args.count = c->bytes.count = 0;
    kineto_args_begin(trace, row, &it);
    while (ok && kineto_args_next(&it, &arg))
        if (!c->wanted || kb_string_equal(arg.key, wanted))
            ok = keep_arg(c, &arg);
    return ok;
}

/* Moves to the next row that has args, unless the current one has more. */
static int skip_rows_without_args(args_cursor *c)
{
    const kineto_trace *trace = ((ke_sql_vtab *)c->base.pVtab)->source->sql->trace;
    while (c->at == c->args.count && c->row < c->end) {
        if (++c->row == c->end)
            break;
        if (!load_args_of_row(c, trace, (kineto_row)c->row))
            return SQLITE_NOMEM;
    }
    return SQLITE_OK;
}

static int next_arg(sqlite3_vtab_cursor *base)
{
    args_cursor *c = (args_cursor *)base;
    c->at++;
    return skip_rows_without_args(c);
}

static int is_at_last_arg(sqlite3_vtab_cursor *base)
{
    args_cursor *c = (args_cursor *)base;
    return c->row >= c->end;
}

static int put_args_table_cell(sqlite3_vtab_cursor *base, sqlite3_context *out, int column)
{
    args_cursor *c = (args_cursor *)base;
    const kept_arg *k = &c->args.data[c->at];
    KB_ASSERT(c->at < c->args.count);
    kineto_arg arg = {.type = k->type};
    switch (column) {
    case R_ROW:
        sqlite3_result_int64(out, (sqlite3_int64)c->row);
        break;
    case R_KEY:
        sqlite3_result_text64(out, c->bytes.data + k->key, k->key_size, SQLITE_TRANSIENT,
                              SQLITE_UTF8);
        break;
    case R_TYPE:
        sqlite3_result_text(out, arg_type_name(k->type), -1, SQLITE_STATIC);
        break;
    default:
        if (k->type >= KINETO_ARG_STRING)
            arg.text = (kineto_string){c->bytes.data + k->text, k->text_size};
        else
            arg.u = k->value;
        ke_sql_put_arg(out, &arg);
    }
    return SQLITE_OK;
}

/* The args of a row fit into 2^24 bytes, so there are fewer than 2^24 of them. */
static int arg_row_id(sqlite3_vtab_cursor *base, sqlite3_int64 *out)
{
    args_cursor *c = (args_cursor *)base;
    *out = (sqlite3_int64)(c->row << 24 | c->at);
    return SQLITE_OK;
}

/* ---- planning -------------------------------------------------------------------------------- */

/* An equality on the row visits one activity; an equality on the key only saves copies. */
static int choose_args_plan(sqlite3_vtab *vtab, sqlite3_index_info *info)
{
    const ke_sql *sql = ((ke_sql_vtab *)vtab)->source->sql;
    double rows = (double)kineto_trace_count(sql->trace) + 1;
    int row = -1, key = -1, arguments = 0;
    for (int i = 0; i < info->nConstraint; i++) {
        const struct sqlite3_index_constraint *k = &info->aConstraint[i];
        if (!k->usable || k->op != SQLITE_INDEX_CONSTRAINT_EQ)
            continue;
        if (k->iColumn == R_ROW)
            row = i;
        if (k->iColumn == R_KEY && !sqlite3_stricmp(sqlite3_vtab_collation(info, i), "BINARY"))
            key = i;
    }
    if (row >= 0)
        info->aConstraintUsage[row].argvIndex = ++arguments;
    if (key >= 0)
        info->aConstraintUsage[key].argvIndex = ++arguments;
    info->idxNum = (row >= 0 ? PLAN_ROW : 0) | (key >= 0 ? PLAN_KEY : 0);
    double visited = row >= 0 ? 1 : rows;
    info->estimatedRows = (sqlite3_int64)(visited * (key >= 0 ? 1 : ARGS_PER_ROW));
    info->estimatedCost = visited * ARGS_PER_ROW;
    info->orderByConsumed =
        info->nOrderBy == 1 && info->aOrderBy[0].iColumn == R_ROW && !info->aOrderBy[0].desc;
    return SQLITE_OK;
}

/* [*from, *end) becomes the row, or empty if the value is not the number of a row. */
static void choose_single_row(sqlite3_value *value, uint64_t *from, uint64_t *end)
{
    bool is = sqlite3_value_numeric_type(value) == SQLITE_INTEGER ||
              sqlite3_value_type(value) == SQLITE_FLOAT;
    sqlite3_int64 row = is ? sqlite3_value_int64(value) : -1;
    *from = row >= 0 && (uint64_t)row < *end ? (uint64_t)row : *end;
    *end = KB_MIN(*from + 1, *end);
}

static int filter_args(sqlite3_vtab_cursor *base, int plan, const char *text, int argc,
                       sqlite3_value **argv)
{
    args_cursor *c = (args_cursor *)base;
    const kineto_trace *trace = ((ke_sql_vtab *)base->pVtab)->source->sql->trace;
    uint64_t from = 0, end = kineto_trace_count(trace);
    (void)text, (void)argc;
    free(c->wanted);
    c->wanted = NULL;
    if (plan & PLAN_ROW)
        choose_single_row(*argv++, &from, &end);
    /* See select_key in sql_module.c. */
    if (plan & PLAN_KEY && !ke_sql_is_number(*argv)) {
        const char *key = (const char *)sqlite3_value_text(*argv);
        size_t size = (size_t)sqlite3_value_bytes(*argv);
        /* A key with a NUL inside is not searched for: all args pass, and SQLite compares them. */
        c->wanted = key && strlen(key) == size ? strdup(key) : NULL;
        if (!key)
            end = 0;
        else if (!c->wanted && strlen(key) == size)
            return SQLITE_NOMEM;
    }
    c->at = c->args.count = 0;
    c->row = from;
    c->end = KB_MAX(end, from);
    if (c->row < c->end && !load_args_of_row(c, trace, (kineto_row)from))
        return SQLITE_NOMEM;
    return skip_rows_without_args(c);
}

static const sqlite3_module args_module = {
    .xConnect = ke_sql_connect,
    .xBestIndex = choose_args_plan,
    .xDisconnect = ke_sql_disconnect,
    .xOpen = open_args_cursor,
    .xClose = close_args_cursor,
    .xFilter = filter_args,
    .xNext = next_arg,
    .xEof = is_at_last_arg,
    .xColumn = put_args_table_cell,
    .xRowid = arg_row_id,
};

static const ke_sql_ops args_ops = {.module = &args_module, .time_column = -1};
const ke_sql_table ke_sql_args = {"args", "arguments: one line for each of each activity",
                                  args_columns, R_COUNT, &args_ops};
