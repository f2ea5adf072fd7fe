/* SQL table args, and the values of arguments. */
#include "export/sql_tables.h"

enum { R_ROW, R_KEY, R_TYPE, R_VALUE, R_COUNT };

static const ke_sql_column columns[] = {
    [R_ROW] = {"row", "INTEGER", "activities.row", KE_SQL_ROW, false},
    [R_KEY] = {"key", "TEXT", "its name", KE_SQL_SCAN, false},
    [R_TYPE] = {"type", "TEXT", "int, uint, double, bool, string; lists and objects are JSON text",
                KE_SQL_SCAN, false},
    [R_VALUE] = {"value", "", "numbers as numbers; a number beyond 64 bits with sign is text",
                 KE_SQL_SCAN, false},
};

/* An argument that a cursor keeps: what the trace hands out is gone when others are looked at. */
typedef struct kept {
    size_t key, key_size, text, text_size; /* in bytes */
    uint32_t type;
    uint64_t value;
} kept;

typedef struct cursor {
    sqlite3_vtab_cursor base;
    uint64_t row, end; /* rows to go through */
    char *wanted;      /* key; NULL: all */
    KB_VEC(kept) args; /* of `row` */
    KB_VEC(char) bytes;
    size_t at;
} cursor;

enum { PLAN_ROW = 1, PLAN_KEY = 2 };

/* ---- values ---------------------------------------------------------------------------------------- */

static const char *type_name(uint32_t type)
{
    static const char *const names[] = {"none",   "int",  "uint",    "double", "bool",
                                        "string", "ints", "strings", "json",   "shapes"};
    return type < KB_COUNT(names) ? names[type] : "unknown";
}

/* SQLite has no numbers of 64 bits without a sign: one beyond INT64_MAX becomes decimal text. */
static void put_uint(sqlite3_context *out, uint64_t value)
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
        put_uint(out, arg->u);
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

/* ---- the cursor ------------------------------------------------------------------------------------ */

static int open_cursor(sqlite3_vtab *vtab, sqlite3_vtab_cursor **out)
{
    cursor *c = calloc(1, sizeof *c);
    (void)vtab;
    *out = c ? &c->base : NULL;
    return c ? SQLITE_OK : SQLITE_NOMEM;
}

static int close_cursor(sqlite3_vtab_cursor *base)
{
    cursor *c = (cursor *)base;
    kb_vec_free(&c->args);
    kb_vec_free(&c->bytes);
    free(c->wanted);
    free(c);
    return SQLITE_OK;
}

static bool keep_bytes(cursor *c, kineto_string s, size_t *at)
{
    *at = c->bytes.count;
    if (!kb_vec_reserve(&c->bytes, c->bytes.count + s.size + 1))
        return false;
    if (s.size)
        memcpy(c->bytes.data + c->bytes.count, s.data, s.size);
    c->bytes.count += s.size;
    return true;
}

static bool keep(cursor *c, const kineto_arg *arg)
{
    kept k = {.type = arg->type, .key_size = arg->key.size};
    bool has_text = arg->type >= KINETO_ARG_STRING;
    if (has_text)
        k.text_size = arg->text.size;
    else
        k.value = arg->u;
    return keep_bytes(c, arg->key, &k.key) && (!has_text || keep_bytes(c, arg->text, &k.text)) &&
           kb_vec_push(&c->args, k);
}

static bool load_row(cursor *c, const kineto_trace *trace, kineto_row row)
{
    kineto_args_iterator it;
    kineto_arg arg;
    kineto_string wanted = kb_string(c->wanted);
    bool ok = true;
    c->at = c->args.count = c->bytes.count = 0;
    kineto_args_begin(trace, row, &it);
    while (ok && kineto_args_next(&it, &arg))
        if (!c->wanted || kb_string_equal(arg.key, wanted))
            ok = keep(c, &arg);
    return ok;
}

/* Go on to the next row that has arguments, unless the current one has more. */
static int settle(cursor *c)
{
    const kineto_trace *trace = ((ke_sql_vtab *)c->base.pVtab)->source->sql->trace;
    while (c->at == c->args.count && c->row < c->end) {
        if (++c->row == c->end)
            break;
        if (!load_row(c, trace, (kineto_row)c->row))
            return SQLITE_NOMEM;
    }
    return SQLITE_OK;
}

static int next(sqlite3_vtab_cursor *base)
{
    cursor *c = (cursor *)base;
    c->at++;
    return settle(c);
}

static int at_end(sqlite3_vtab_cursor *base)
{
    cursor *c = (cursor *)base;
    return c->row >= c->end;
}

static int cell(sqlite3_vtab_cursor *base, sqlite3_context *out, int column)
{
    cursor *c = (cursor *)base;
    const kept *k = &c->args.data[c->at];
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
        sqlite3_result_text(out, type_name(k->type), -1, SQLITE_STATIC);
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

/* Arguments of a row fit into 2^24 bytes, so there are fewer of them. */
static int rowid(sqlite3_vtab_cursor *base, sqlite3_int64 *out)
{
    cursor *c = (cursor *)base;
    *out = (sqlite3_int64)(c->row << 24 | c->at);
    return SQLITE_OK;
}

/* ---- planning -------------------------------------------------------------------------------------- */

static int best_index(sqlite3_vtab *vtab, sqlite3_index_info *info)
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
    info->estimatedRows = (sqlite3_int64)((row >= 0 ? 1 : rows) * (key >= 0 ? 1 : 8));
    info->estimatedCost = (row >= 0 ? 1 : rows) * 8;
    info->orderByConsumed =
        info->nOrderBy == 1 && info->aOrderBy[0].iColumn == R_ROW && !info->aOrderBy[0].desc;
    return SQLITE_OK;
}

/* One row: *from, or none. */
static void choose_row(sqlite3_value *value, uint64_t *from, uint64_t *end)
{
    bool is = sqlite3_value_numeric_type(value) == SQLITE_INTEGER ||
              sqlite3_value_type(value) == SQLITE_FLOAT;
    sqlite3_int64 row = is ? sqlite3_value_int64(value) : -1;
    *from = row >= 0 && (uint64_t)row < *end ? (uint64_t)row : *end;
    *end = KB_MIN(*from + 1, *end);
}

static int filter(sqlite3_vtab_cursor *base, int plan, const char *text, int argc,
                  sqlite3_value **argv)
{
    cursor *c = (cursor *)base;
    const kineto_trace *trace = ((ke_sql_vtab *)base->pVtab)->source->sql->trace;
    uint64_t from = 0, end = kineto_trace_count(trace);
    (void)text, (void)argc;
    free(c->wanted);
    c->wanted = NULL;
    if (plan & PLAN_ROW)
        choose_row(*argv++, &from, &end);
    if (plan & PLAN_KEY && !ke_sql_is_number(*argv)) { /* else see select_key in sql_module.c */
        const char *key = (const char *)sqlite3_value_text(*argv);
        size_t size = (size_t)sqlite3_value_bytes(*argv);
        /* A NUL inside: SQLite compares all that we let through. */
        c->wanted = key && strlen(key) == size ? strdup(key) : NULL;
        if (!key)
            end = 0;
        else if (!c->wanted && strlen(key) == size)
            return SQLITE_NOMEM;
    }
    c->at = c->args.count = 0;
    c->row = from;
    c->end = KB_MAX(end, from);
    if (c->row < c->end && !load_row(c, trace, (kineto_row)from))
        return SQLITE_NOMEM;
    return settle(c);
}

static const sqlite3_module module = {
    .xConnect = ke_sql_connect,
    .xBestIndex = best_index,
    .xDisconnect = ke_sql_disconnect,
    .xOpen = open_cursor,
    .xClose = close_cursor,
    .xFilter = filter,
    .xNext = next,
    .xEof = at_end,
    .xColumn = cell,
    .xRowid = rowid,
};

static const ke_sql_ops ops = {.module = &module, .time_column = -1};
const ke_sql_table ke_sql_args = {"args", "arguments: one line for each of each activity", columns,
                                  R_COUNT, &ops};
