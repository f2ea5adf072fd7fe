/* The module of SQLite for tables whose rows have numbers: how a query gets at rows, and the cursor
 * over them. */
#include "export/sql_tables.h"

/* How a cursor finds its rows: in the low bits of idxNum; the column of a key is above the flags.
 */
enum {
    PLAN_SCAN,  /* all, by number */
    PLAN_ROW,   /* one, by number */
    PLAN_KEY,   /* those with a value, by time */
    PLAN_GROUP, /* all, equal values of a column together */
    PLAN_TIME,  /* all, by time */
    PLAN_MASK = 7,
    PLAN_LOW = 8, /* a bound of the time: > or >= */
    PLAN_HIGH = 16,
    PLAN_BACKWARDS = 32,
    PLAN_COLUMN_SHIFT = 8
};

typedef struct cursor {
    sqlite3_vtab_cursor base;
    const uint32_t *list; /* NULL: rows are numbers from `at` */
    uint64_t at, left;
    int step; /* 1 or -1 */
} cursor;

static ke_sql_source *source_of(sqlite3_vtab *vtab) { return ((ke_sql_vtab *)vtab)->source; }

/* ---- the table ------------------------------------------------------------------------------------- */

char *ke_sql_declaration(const ke_sql_table *table, const char *name, bool hidden)
{
    sqlite3_str *text = sqlite3_str_new(NULL);
    sqlite3_str_appendf(text, "CREATE TABLE %s(", name);
    const char *separator = "";
    for (size_t i = 0; i < table->count; i++) {
        const ke_sql_column *c = &table->columns[i];
        if (c->hidden && !hidden)
            continue;
        /* A key word as a name has to be quoted. */
        sqlite3_str_appendf(text, "%s\"%w\"%s%s%s", separator, c->name, c->type[0] ? " " : "",
                            c->type, c->hidden ? " HIDDEN" : "");
        separator = ", ";
    }
    sqlite3_str_appendall(text, ")");
    return sqlite3_str_finish(text);
}

int ke_sql_connect(sqlite3 *db, void *source, int argc, const char *const *argv, sqlite3_vtab **out,
                   char **message)
{
    ke_sql_source *s = source;
    (void)argc, (void)argv;
    char *declaration = ke_sql_declaration(s->table, "x", true);
    if (!declaration)
        return SQLITE_NOMEM;
    s->sql->declaring = true;
    int rc = sqlite3_declare_vtab(db, declaration);
    s->sql->declaring = false;
    sqlite3_free(declaration);
    if (rc)
        *message = sqlite3_mprintf("%s", sqlite3_errmsg(db));
    ke_sql_vtab *vtab = rc ? NULL : sqlite3_malloc64(sizeof *vtab);
    if (!vtab)
        return rc ? rc : SQLITE_NOMEM;
    *vtab = (ke_sql_vtab){.source = s};
    *out = &vtab->base;
    return sqlite3_vtab_config(db, SQLITE_VTAB_INNOCUOUS);
}

int ke_sql_disconnect(sqlite3_vtab *vtab)
{
    sqlite3_free(vtab);
    return SQLITE_OK;
}

/* ---- planning -------------------------------------------------------------------------------------- */

typedef struct plan {
    int kind, column, key, low, high; /* constraints by number; -1: none */
    double rows;
} plan;

/* Does the constraint compare as we do: byte by byte? */
static bool is_exact(sqlite3_index_info *info, int constraint)
{
    return sqlite3_stricmp(sqlite3_vtab_collation(info, constraint), "BINARY") == 0;
}

static void plan_equal(plan *p, const ke_sql_table *table, sqlite3_index_info *info, int i,
                       double total)
{
    int column = info->aConstraint[i].iColumn;
    ke_sql_lookup lookup = column < 0 ? KE_SQL_ROW : table->columns[column].lookup;
    double rows = lookup == KE_SQL_ROW         ? 1
                  : lookup == KE_SQL_INDEX_FEW ? KB_MIN(4, total)
                                               : total / 10 + 1;
    if (lookup == KE_SQL_SCAN || rows >= p->rows || !is_exact(info, i))
        return;
    p->kind = lookup == KE_SQL_ROW ? PLAN_ROW : PLAN_KEY;
    p->key = i;
    p->column = column < 0 ? 0 : column;
    p->rows = rows;
}

static void plan_constraint(plan *p, const ke_sql_table *table, sqlite3_index_info *info, int i,
                            double total)
{
    int time = table->ops->time_column, column = info->aConstraint[i].iColumn;
    switch (info->aConstraint[i].op) {
    case SQLITE_INDEX_CONSTRAINT_EQ:
        plan_equal(p, table, info, i, total);
        break;
    case SQLITE_INDEX_CONSTRAINT_GT:
    case SQLITE_INDEX_CONSTRAINT_GE:
        if (column == time && column >= 0)
            p->low = i;
        break;
    case SQLITE_INDEX_CONSTRAINT_LT:
    case SQLITE_INDEX_CONSTRAINT_LE:
        if (column == time && column >= 0)
            p->high = i;
        break;
    default:
        break;
    }
}

/* What the query wants in which order, if that is one column. */
static bool plan_order(plan *p, const ke_sql_table *table, sqlite3_index_info *info)
{
    if (info->nOrderBy != 1)
        return false;
    int column = info->aOrderBy[0].iColumn, grouping = sqlite3_vtab_distinct(info);
    bool backwards = info->aOrderBy[0].desc;
    bool by_row = column < 0 || table->columns[column].lookup == KE_SQL_ROW;
    if (by_row && (p->kind == PLAN_SCAN || p->kind == PLAN_ROW))
        return true;
    if (column == table->ops->time_column && p->kind == PLAN_SCAN)
        p->kind = PLAN_TIME;
    if (column == table->ops->time_column && !by_row)
        return true;
    bool indexed = !by_row && table->columns[column].lookup != KE_SQL_SCAN;
    if (p->kind != PLAN_SCAN || !indexed || (grouping != 1 && grouping != 2) || backwards)
        return false;
    p->kind = PLAN_GROUP;
    p->column = column;
    return true;
}

static void use(sqlite3_index_info *info, int constraint, int *arguments)
{
    if (constraint >= 0)
        info->aConstraintUsage[constraint].argvIndex = ++*arguments;
}

static int best_index(sqlite3_vtab *vtab, sqlite3_index_info *info)
{
    const ke_sql_source *s = source_of(vtab);
    if (s->table->ops->prepare && !s->table->ops->prepare(s->sql))
        return SQLITE_NOMEM;
    double total = (double)s->table->ops->rows(s->sql);
    plan p = {PLAN_SCAN, 0, -1, -1, -1, total + 1};
    for (int i = 0; i < info->nConstraint; i++)
        if (info->aConstraint[i].usable)
            plan_constraint(&p, s->table, info, i, total);
    if (p.kind == PLAN_ROW)
        p.low = p.high = -1;
    else if (p.kind == PLAN_SCAN && (p.low >= 0 || p.high >= 0))
        p.kind = PLAN_TIME;
    p.rows /= p.low >= 0 && p.high >= 0 ? 50 : p.low >= 0 || p.high >= 0 ? 4 : 1;
    info->orderByConsumed = plan_order(&p, s->table, info);
    bool backwards = info->orderByConsumed && info->aOrderBy[0].desc;
    int arguments = 0;
    use(info, p.key, &arguments);
    use(info, p.low, &arguments);
    use(info, p.high, &arguments);
    info->idxNum = p.kind | (p.low >= 0 ? PLAN_LOW : 0) | (p.high >= 0 ? PLAN_HIGH : 0) |
                   (backwards ? PLAN_BACKWARDS : 0) | p.column << PLAN_COLUMN_SHIFT;
    info->estimatedRows = (sqlite3_int64)p.rows + 1;
    info->estimatedCost = p.rows * (p.kind == PLAN_SCAN ? 1 : 1.3) + 5;
    info->idxFlags = p.kind == PLAN_ROW ? SQLITE_INDEX_SCAN_UNIQUE : 0;
    return SQLITE_OK;
}

/* ---- rows of a plan -------------------------------------------------------------------------------- */

static int open_cursor(sqlite3_vtab *vtab, sqlite3_vtab_cursor **out)
{
    cursor *c = sqlite3_malloc64(sizeof *c);
    (void)vtab;
    if (!c)
        return SQLITE_NOMEM;
    *c = (cursor){.step = 1};
    *out = &c->base;
    return SQLITE_OK;
}

static int close_cursor(sqlite3_vtab_cursor *base)
{
    sqlite3_free(base);
    return SQLITE_OK;
}

/* The integer that a value equals; false: none, it cannot equal any. */
static bool integer_of(sqlite3_value *value, int64_t *out)
{
    switch (sqlite3_value_numeric_type(value)) {
    case SQLITE_INTEGER:
        *out = sqlite3_value_int64(value);
        return true;
    case SQLITE_FLOAT: {
        double d = sqlite3_value_double(value);
        if (!(d >= -9223372036854775808.0 && d < 9223372036854775808.0))
            return false;
        *out = (int64_t)d;
        return (double)*out == d;
    }
    default:
        return false;
    }
}

/* A bound that lets through at least what the comparison would. */
static int64_t bound_of(sqlite3_value *value, int64_t open)
{
    switch (sqlite3_value_numeric_type(value)) {
    case SQLITE_INTEGER:
        return sqlite3_value_int64(value);
    case SQLITE_FLOAT: {
        /* Times are beyond what a double holds exactly: leave room around it. */
        double d = sqlite3_value_double(value), room = open > 0 ? 2048 : -2048;
        d += room;
        return d >= -9223372036854775808.0 && d < 9223372036854775808.0 ? (int64_t)d : open;
    }
    default:
        return open;
    }
}

static bool is_text_column(const ke_sql_source *s, int column)
{
    return s->table->columns[column].type[0] == 'T';
}

static bool key_of(ke_sql_source *s, int column, sqlite3_value *value, uint64_t *key)
{
    int64_t number;
    if (is_text_column(s, column)) {
        kineto_string text = {(const char *)sqlite3_value_text(value), 0};
        text.size = (size_t)sqlite3_value_bytes(value);
        return text.data && s->table->ops->key_of_text(s->sql, column, text, key);
    }
    if (!integer_of(value, &number))
        return false;
    *key = (uint64_t)number;
    return true;
}

static int64_t time_at(const ke_sql_source *s, const cursor *c, uint64_t at)
{
    return s->table->ops->time(s->sql, c->list ? c->list[at] : (uint32_t)at);
}

/* The first of at … at+left-1 whose time is not before `bound` (`after`: is after it). */
static uint64_t find_time(const ke_sql_source *s, const cursor *c, int64_t bound, bool after)
{
    uint64_t low = c->at, high = c->at + c->left;
    while (low < high) {
        uint64_t middle = low + (high - low) / 2;
        int64_t time = time_at(s, c, middle);
        if (after ? time <= bound : time < bound)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static void narrow(const ke_sql_source *s, cursor *c, int how, sqlite3_value **bounds)
{
    if (how & PLAN_LOW) {
        uint64_t from = find_time(s, c, bound_of(*bounds++, INT64_MIN), false);
        c->left -= from - c->at;
        c->at = from;
    }
    if (how & PLAN_HIGH)
        c->left = find_time(s, c, bound_of(*bounds, INT64_MAX), true) - c->at;
}

/* All, by time. */
static bool select_by_time(const ke_sql_source *s, cursor *c)
{
    const ke_sql_ops *ops = s->table->ops;
    c->list = ops->order ? ops->order(s->sql) : NULL;
    return c->list || !ops->order || !c->left;
}

static bool select_key(ke_sql_source *s, cursor *c, int column, sqlite3_value *value)
{
    uint64_t key;
    /* Next to a column of numbers, SQLite compares texts as numbers: '05' is 5 then. */
    if (is_text_column(s, column) && ke_sql_is_number(value))
        return select_by_time(s, c);
    c->at = c->left = 0;
    if (!key_of(s, column, value, &key))
        return true;
    const ke_sql_index *index = ke_sql_index_of(s, column);
    if (index)
        c->list = ke_sql_rows_of(index, key, &c->left);
    return index != NULL;
}

static void select_row(cursor *c, uint64_t rows, sqlite3_value *value)
{
    int64_t row;
    bool there = integer_of(value, &row) && row >= 0 && (uint64_t)row < rows;
    c->at = there ? (uint64_t)row : 0;
    c->left = there;
}

/* False: out of memory. */
static bool select_rows(ke_sql_source *s, cursor *c, int how, sqlite3_value **argv)
{
    const ke_sql_ops *ops = s->table->ops;
    uint64_t rows = ops->rows(s->sql);
    *c = (cursor){.base = c->base, .left = rows, .step = 1};
    switch (how & PLAN_MASK) {
    case PLAN_ROW:
        select_row(c, rows, argv[0]);
        return true;
    case PLAN_KEY:
        return select_key(s, c, how >> PLAN_COLUMN_SHIFT, argv[0]);
    case PLAN_GROUP: {
        const ke_sql_index *index = ke_sql_index_of(s, how >> PLAN_COLUMN_SHIFT);
        c->list = index ? index->rows : NULL;
        return index != NULL;
    }
    case PLAN_TIME:
        return select_by_time(s, c);
    default:
        return true;
    }
}

static int filter(sqlite3_vtab_cursor *base, int how, const char *text, int argc,
                  sqlite3_value **argv)
{
    cursor *c = (cursor *)base;
    ke_sql_source *s = source_of(base->pVtab);
    (void)text, (void)argc;
    if (!select_rows(s, c, how, argv))
        return SQLITE_NOMEM;
    narrow(s, c, how, argv + ((how & PLAN_MASK) == PLAN_KEY));
    if (how & PLAN_BACKWARDS) {
        c->step = -1;
        c->at += c->left ? c->left - 1 : 0;
    }
    return SQLITE_OK;
}

static uint32_t row_of(const cursor *c) { return c->list ? c->list[c->at] : (uint32_t)c->at; }

static int next(sqlite3_vtab_cursor *base)
{
    enum { AHEAD = 16 };
    cursor *c = (cursor *)base;
    c->at += (uint64_t)(int64_t)c->step;
    c->left--;
    if (c->list && c->left > AHEAD && c->step > 0) {
        const ke_sql_source *s = source_of(base->pVtab);
        if (s->table->ops->prefetch)
            s->table->ops->prefetch(s->sql, c->list[c->at + AHEAD]);
    }
    return SQLITE_OK;
}

static int at_end(sqlite3_vtab_cursor *base) { return ((cursor *)base)->left == 0; }

static int cell(sqlite3_vtab_cursor *base, sqlite3_context *out, int column)
{
    const ke_sql_source *s = source_of(base->pVtab);
    s->table->ops->cell(s->sql, row_of((cursor *)base), column, out);
    return SQLITE_OK;
}

static int rowid(sqlite3_vtab_cursor *base, sqlite3_int64 *out)
{
    *out = row_of((cursor *)base);
    return SQLITE_OK;
}

/* Without xCreate a table is there by itself, and nobody can make another. */
const sqlite3_module ke_sql_module = {
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
