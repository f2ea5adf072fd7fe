/* SQLite's virtual table module for tables whose rows have numbers: it plans how a query finds its
 * rows (choose_row_plan), and walks them with a cursor. https://sqlite.org/vtab.html describes the
 * interface. */
#include "export/sql_impl.h"

/* How a cursor finds its rows, passed from planning to filter_rows in the low bits of idxNum; the
 * column of a key is above the flags. */
enum {
    PLAN_SCAN,  /* all rows, by number */
    PLAN_ROW,   /* one row, by number */
    PLAN_KEY,   /* the rows with a value, by time */
    PLAN_GROUP, /* all rows, grouped by the values of a column */
    PLAN_TIME,  /* all rows, by time */
    PLAN_MASK = 7,
    PLAN_LOW = 8,   /* with a lower bound of the time: > or >= */
    PLAN_HIGH = 16, /* with an upper bound */
    PLAN_BACKWARDS = 32,
    PLAN_COLUMN_SHIFT = 8
};

typedef struct row_cursor {
    sqlite3_vtab_cursor base;
    const uint32_t *list; /* rows; NULL: the rows are the numbers from `at` on */
    uint64_t at, left;
    int step; /* 1 or -1: direction */
} row_cursor;

static ke_sql_source *source_of_vtab(sqlite3_vtab *vtab) { return ((ke_sql_vtab *)vtab)->source; }

/* ---- the table ------------------------------------------------------------------------------- */

/* SQLite checks the declaration when the table is connected, and copies it from there. */
char *ke_sql_declaration(const ke_sql_table *table, const char *name, bool hidden)
{
    sqlite3_str *text = sqlite3_str_new(NULL);
    sqlite3_str_appendf(text, "CREATE TABLE %s(", name);
    const char *separator = "";
    for (size_t i = 0; i < table->count; i++) {
        const ke_sql_column *c = &table->columns[i];
        if (c->hidden && !hidden)
            continue;
        /* Quoted, since a name may be a key word. */
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

/* ---- planning -------------------------------------------------------------------------------- */

/* Estimates for SQLite's planner, which compares the plans of all tables in a join. They rank the
 * plans of a trace; exact numbers would need statistics. An equality on a column of names or ids
 * selects a handful of rows; on a column of kinds or tracks, about a tenth. A closed time range is
 * typically one step out of many, a half-open one cuts off warm-up or tail. Rows that are reached
 * through a list are scattered in memory, which costs more per row than a scan; opening a cursor
 * has a small fixed cost, so that a join prefers few large lookups to many empty ones. */
#define ROWS_PER_RARE_VALUE   4.0
#define COMMON_VALUE_SHARE    10.0 /* one row in this many has a given common value */
#define CLOSED_RANGE_SHARE    50.0
#define HALF_OPEN_RANGE_SHARE 4.0
#define LISTED_ROW_COST       1.3 /* a row of a scan costs 1 */
#define OPEN_CURSOR_COST      5.0

typedef struct plan {
    int kind, column;
    int key, low, high; /* indices of the constraints that are used; -1: none */
    double rows;        /* estimate of the rows that the plan visits */
} plan;

/* True if a constraint compares byte by byte, as our indices do. */
static bool is_binary_collation(sqlite3_index_info *info, int constraint)
{
    return sqlite3_stricmp(sqlite3_vtab_collation(info, constraint), "BINARY") == 0;
}

/* How many of `total` rows have a given value. */
static double rows_with_value(ke_sql_lookup lookup, double total)
{
    if (lookup == KE_SQL_ROW)
        return 1;
    return lookup == KE_SQL_INDEX_FEW ? KB_MIN(ROWS_PER_RARE_VALUE, total)
                                      : total / COMMON_VALUE_SHARE + 1;
}

/* Uses an equality if it selects fewer rows than the plan so far. */
static void plan_equal(plan *p, const ke_sql_table *table, sqlite3_index_info *info, int i,
                       double total)
{
    int column = info->aConstraint[i].iColumn;
    ke_sql_lookup lookup = column < 0 ? KE_SQL_ROW : table->columns[column].lookup;
    if (lookup == KE_SQL_SCAN || !is_binary_collation(info, i))
        return;
    double rows = rows_with_value(lookup, total);
    if (rows >= p->rows)
        return;
    p->kind = lookup == KE_SQL_ROW ? PLAN_ROW : PLAN_KEY;
    p->key = i;
    p->column = column < 0 ? 0 : column;
    p->rows = rows;
}

/* Adds one constraint to the plan. */
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

/* True if the rows come in the order that the query wants, possibly by another plan. Only orders by
 * a single column are supported. */
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

/* Makes a constraint the next argument of filter_rows. */
static void use_constraint(sqlite3_index_info *info, int constraint, int *arguments)
{
    if (constraint >= 0)
        info->aConstraintUsage[constraint].argvIndex = ++*arguments;
}

/* Applies the bounds of the time to the plan: a row that is known by number needs none. */
static void plan_time_range(plan *p)
{
    if (p->kind == PLAN_ROW)
        p->low = p->high = -1;
    bool has_low = p->low >= 0, has_high = p->high >= 0;
    if (p->kind == PLAN_SCAN && (has_low || has_high))
        p->kind = PLAN_TIME;
    if (has_low && has_high)
        p->rows /= CLOSED_RANGE_SHARE;
    else if (has_low || has_high)
        p->rows /= HALF_OPEN_RANGE_SHARE;
}

/* Passes the plan on to filter_rows, whose arguments are the key, then the bounds. */
static void report_plan(const plan *p, sqlite3_index_info *info)
{
    KB_ASSERT(p->kind <= PLAN_TIME && p->column >= 0);
    bool backwards = info->orderByConsumed && info->aOrderBy[0].desc;
    int arguments = 0;
    use_constraint(info, p->key, &arguments);
    use_constraint(info, p->low, &arguments);
    use_constraint(info, p->high, &arguments);
    info->idxNum = p->kind | (p->low >= 0 ? PLAN_LOW : 0) | (p->high >= 0 ? PLAN_HIGH : 0) |
                   (backwards ? PLAN_BACKWARDS : 0) | p->column << PLAN_COLUMN_SHIFT;
    info->estimatedRows = (sqlite3_int64)p->rows + 1;
    info->estimatedCost = p->rows * (p->kind == PLAN_SCAN ? 1 : LISTED_ROW_COST) + OPEN_CURSOR_COST;
    info->idxFlags = p->kind == PLAN_ROW ? SQLITE_INDEX_SCAN_UNIQUE : 0;
}

/* xBestIndex: SQLite calls it for each set of constraints that a join order makes usable. */
static int choose_row_plan(sqlite3_vtab *vtab, sqlite3_index_info *info)
{
    const ke_sql_source *s = source_of_vtab(vtab);
    if (s->table->ops->prepare && !s->table->ops->prepare(s->sql))
        return SQLITE_NOMEM;
    double total = (double)s->table->ops->rows(s->sql);
    plan p = {PLAN_SCAN, 0, -1, -1, -1, total + 1};
    for (int i = 0; i < info->nConstraint; i++)
        if (info->aConstraint[i].usable)
            plan_constraint(&p, s->table, info, i, total);
    plan_time_range(&p);
    info->orderByConsumed = plan_order(&p, s->table, info);
    report_plan(&p, info);
    return SQLITE_OK;
}

/* ---- rows of a plan -------------------------------------------------------------------------- */

/* SQLite may open several cursors over a table, as in a join with itself. */
static int open_row_cursor(sqlite3_vtab *vtab, sqlite3_vtab_cursor **out)
{
    row_cursor *c = sqlite3_malloc64(sizeof *c);
    (void)vtab;
    if (!c)
        return SQLITE_NOMEM;
    *c = (row_cursor){.step = 1};
    *out = &c->base;
    return SQLITE_OK;
}

static int close_row_cursor(sqlite3_vtab_cursor *base)
{
    sqlite3_free(base);
    return SQLITE_OK;
}

/* The integer that a value equals; false: it equals no integer. */
static bool integer_of_value(sqlite3_value *value, int64_t *out)
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

/* A bound that lets through at least the rows that the comparison accepts; SQLite checks them
 * again. */
static int64_t time_bound_of_value(sqlite3_value *value, int64_t open)
{
    switch (sqlite3_value_numeric_type(value)) {
    case SQLITE_INTEGER:
        return sqlite3_value_int64(value);
    case SQLITE_FLOAT: {
        /* Doubles do not hold times exactly: widen the bound by their spacing. */
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

/* The key of a value in the column's index; false: no row has the value. */
static bool index_key_of_value(ke_sql_source *s, int column, sqlite3_value *value, uint64_t *key)
{
    int64_t number;
    if (is_text_column(s, column)) {
        kineto_string text = {(const char *)sqlite3_value_text(value), 0};
        text.size = (size_t)sqlite3_value_bytes(value);
        return text.data && s->table->ops->key_of_text(s->sql, column, text, key);
    }
    if (!integer_of_value(value, &number))
        return false;
    *key = (uint64_t)number;
    return true;
}

static int64_t time_at_position(const ke_sql_source *s, const row_cursor *c, uint64_t at)
{
    return s->table->ops->time(s->sql, c->list ? c->list[at] : (uint32_t)at);
}

/* The first position in [at, at + left) whose time is not before `bound`, or, if `after`, is after
 * it. */
static uint64_t find_time_bound(const ke_sql_source *s, const row_cursor *c, int64_t bound,
                                bool after)
{
    uint64_t at = c->at, end = c->at + c->left;
    if (after)
        KB_LOWER_BOUND(at, end, time_at_position(s, c, at) <= bound);
    else
        KB_LOWER_BOUND(at, end, time_at_position(s, c, at) < bound);
    return at;
}

/* Cuts the rows, which are in the order of time, to the bounds. */
static void narrow_to_time_range(const ke_sql_source *s, row_cursor *c, int how,
                                 sqlite3_value **bounds)
{
    if (how & PLAN_LOW) {
        uint64_t from = find_time_bound(s, c, time_bound_of_value(*bounds++, INT64_MIN), false);
        KB_ASSERT(from >= c->at && from - c->at <= c->left);
        c->left -= from - c->at;
        c->at = from;
    }
    if (how & PLAN_HIGH)
        c->left = find_time_bound(s, c, time_bound_of_value(*bounds, INT64_MAX), true) - c->at;
}

/* All rows by time. False: out of memory. */
static bool select_by_time(const ke_sql_source *s, row_cursor *c)
{
    const ke_sql_ops *ops = s->table->ops;
    c->list = ops->order ? ops->order(s->sql) : NULL;
    return c->list || !ops->order || !c->left;
}

/* The rows with a value. False: out of memory. */
static bool select_key(ke_sql_source *s, row_cursor *c, int column, sqlite3_value *value)
{
    uint64_t key;
    /* Compared with a column of numbers, SQLite converts texts: '05' equals 5. The index cannot do
     * that. */
    if (is_text_column(s, column) && ke_sql_is_number(value))
        return select_by_time(s, c);
    c->at = c->left = 0;
    if (!index_key_of_value(s, column, value, &key))
        return true;
    const ke_sql_index *index = ke_sql_index_of(s, column);
    if (index)
        c->list = ke_sql_rows_of(index, key, &c->left);
    return index != NULL;
}

static void select_row(row_cursor *c, uint64_t rows, sqlite3_value *value)
{
    int64_t row;
    bool exists = integer_of_value(value, &row) && row >= 0 && (uint64_t)row < rows;
    c->at = exists ? (uint64_t)row : 0;
    c->left = exists;
}

/* False: out of memory. */
static bool select_rows(ke_sql_source *s, row_cursor *c, int how, sqlite3_value **argv)
{
    const ke_sql_ops *ops = s->table->ops;
    uint64_t rows = ops->rows(s->sql);
    *c = (row_cursor){.base = c->base, .left = rows, .step = 1};
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

static int filter_rows(sqlite3_vtab_cursor *base, int how, const char *text, int argc,
                       sqlite3_value **argv)
{
    row_cursor *c = (row_cursor *)base;
    ke_sql_source *s = source_of_vtab(base->pVtab);
    (void)text, (void)argc;
    if (!select_rows(s, c, how, argv))
        return SQLITE_NOMEM;
    narrow_to_time_range(s, c, how, argv + ((how & PLAN_MASK) == PLAN_KEY));
    if (how & PLAN_BACKWARDS) {
        c->step = -1;
        c->at += c->left ? c->left - 1 : 0;
    }
    return SQLITE_OK;
}

static uint32_t current_row(const row_cursor *c)
{
    return c->list ? c->list[c->at] : (uint32_t)c->at;
}

static int next_row(sqlite3_vtab_cursor *base)
{
    enum { AHEAD = 16 }; /* rows: far enough to hide the latency of memory */
    row_cursor *c = (row_cursor *)base;
    c->at += (uint64_t)(int64_t)c->step;
    KB_ASSERT(c->left > 0);
    c->left--;
    if (c->list && c->left > AHEAD && c->step > 0) {
        const ke_sql_source *s = source_of_vtab(base->pVtab);
        if (s->table->ops->prefetch)
            s->table->ops->prefetch(s->sql, c->list[c->at + AHEAD]);
    }
    return SQLITE_OK;
}

static int is_at_end(sqlite3_vtab_cursor *base) { return ((row_cursor *)base)->left == 0; }

static int row_cell(sqlite3_vtab_cursor *base, sqlite3_context *out, int column)
{
    const ke_sql_source *s = source_of_vtab(base->pVtab);
    s->table->ops->cell(s->sql, current_row((row_cursor *)base), column, out);
    return SQLITE_OK;
}

static int row_id(sqlite3_vtab_cursor *base, sqlite3_int64 *out)
{
    *out = current_row((row_cursor *)base);
    return SQLITE_OK;
}

/* Without xCreate the table exists by itself (eponymous), and statements cannot create another
 * one. */
const sqlite3_module ke_sql_module = {
    .xConnect = ke_sql_connect,
    .xBestIndex = choose_row_plan,
    .xDisconnect = ke_sql_disconnect,
    .xOpen = open_row_cursor,
    .xClose = close_row_cursor,
    .xFilter = filter_rows,
    .xNext = next_row,
    .xEof = is_at_end,
    .xColumn = row_cell,
    .xRowid = row_id,
};
