/* Results of queries for human eyes: aligned tables, and the tables of Markdown. Nothing of what is
 * in a trace reaches a terminal as a control character. */
#include "cli/query/query.h"

/* Widths are taken from so many lines; later ones that are wider stick out. */
#define LINES_AHEAD 1000u

/* Texts of a table, one behind the other. */
typedef struct piece {
    size_t at, size;
    uint32_t columns; /* that it takes on a terminal */
    bool right;
} piece;

typedef struct table {
    kc_query_output *out;
    size_t width; /* columns */
    KB_VEC(piece) cells;
    KB_VEC(char) text;
    uint32_t *columns; /* by column: the widest */
    bool *left;        /* by column: does it have anything but numbers? */
    bool failed;       /* out of memory */
} table;

/* ---- text ------------------------------------------------------------------------------------ */

static void append(table *t, const char *text, size_t size)
{
    if (!kb_vec_reserve(&t->text, t->text.count + size)) {
        t->failed = true;
        return;
    }
    memcpy(t->text.data + t->text.count, text, size);
    t->text.count += size;
}

static void append_escape(table *t, unsigned char c)
{
    char escape[8];
    int n = c == '\n'   ? snprintf(escape, sizeof escape, "\\n")
            : c == '\t' ? snprintf(escape, sizeof escape, "\\t")
                        : snprintf(escape, sizeof escape, "\\x%02x", c);
    append(t, escape, (size_t)n);
}

/* Append what may be shown of a text; more than `limit` columns are cut. Returns the columns. */
static uint32_t append_text(table *t, kineto_string s, size_t limit)
{
    size_t used = 0, cut_at = t->text.count, cut_used = 0;
    for (size_t at = 0; at < s.size;) {
        size_t size = kc_printable(s, at), before = t->text.count;
        size_t columns = size ? kc_character_columns(s.data + at, size) : 0;
        if (size)
            append(t, s.data + at, size);
        else
            append_escape(t, (unsigned char)s.data[at]);
        used += size ? columns : t->text.count - before;
        if (t->out->format == KC_QUERY_MARKDOWN && s.data[at] == '|') {
            t->text.count = before;
            append(t, "\\|", 2);
        }
        at += size ? size : 1;
        if (limit && used > limit) {
            t->text.count = cut_at;
            append(t, "…", strlen("…"));
            return (uint32_t)cut_used + 1;
        }
        if (!limit || used < limit) {
            cut_at = t->text.count;
            cut_used = used;
        }
    }
    return (uint32_t)KB_MIN(used, (size_t)UINT32_MAX);
}

static uint32_t append_number(table *t, const ke_sql_cell *cell)
{
    char text[64];
    int n = cell->type == KE_SQL_INT ? snprintf(text, sizeof text, "%lld", (long long)cell->i)
                                     : snprintf(text, sizeof text, "%.10g", cell->d);
    append(t, text, (size_t)n);
    return (uint32_t)n;
}

static void add_cell(table *t, const ke_sql_cell *from)
{
    piece c = {.at = t->text.count};
    static const char digits[] = "0123456789abcdef";
    switch (from->type) {
    case KE_SQL_INT:
    case KE_SQL_REAL:
        c.columns = append_number(t, from);
        c.right = true;
        break;
    case KE_SQL_TEXT:
        c.columns = append_text(t, from->text, t->out->width);
        break;
    case KE_SQL_BLOB: {
        size_t most = t->out->width ? KB_MIN(t->out->width / 2, from->text.size) : from->text.size;
        for (size_t i = 0; i < most; i++) {
            unsigned char byte = (unsigned char)from->text.data[i];
            append(t, (char[]){digits[byte >> 4], digits[byte & 15]}, 2);
        }
        c.columns = (uint32_t)(2 * most);
        break;
    }
    default:
        c.right = true;
    }
    c.size = t->text.count - c.at;
    if (!kb_vec_push(&t->cells, c))
        t->failed = true;
}

/* ---- lines ----------------------------------------------------------------------------------- */

static void pad(kb_sink *sink, size_t count, char with)
{
    for (; count > 0; count--)
        kb_sink_write(sink, &with, 1);
}

static void put_cell(table *t, const piece *c, size_t column)
{
    bool last = column + 1 == t->width, right = !t->left[column];
    bool markdown = t->out->format == KC_QUERY_MARKDOWN;
    size_t room = t->columns[column] > c->columns ? t->columns[column] - c->columns : 0;
    if (markdown)
        kb_sink_write(t->out->sink, column ? " | " : "| ", column ? 3 : 2);
    else if (column)
        kb_sink_write(t->out->sink, "  ", 2);
    if (right)
        pad(t->out->sink, room, ' ');
    kb_sink_write(t->out->sink, t->text.data + c->at, c->size);
    if (!right && (!last || markdown))
        pad(t->out->sink, room, ' ');
    if (last)
        kb_sink_write(t->out->sink, markdown ? " |\n" : "\n", markdown ? 3 : 1);
}

static void put_rule(table *t)
{
    bool markdown = t->out->format == KC_QUERY_MARKDOWN;
    for (size_t i = 0; i < t->width; i++) {
        size_t dashes = KB_MAX(t->columns[i], markdown ? 3u : 1u);
        if (markdown)
            kb_sink_write(t->out->sink, i ? " | " : "| ", i ? 3 : 2);
        else if (i)
            kb_sink_write(t->out->sink, "  ", 2);
        pad(t->out->sink, dashes - (markdown && !t->left[i]), '-');
        if (markdown && !t->left[i])
            kb_sink_write(t->out->sink, ":", 1);
    }
    kb_sink_write(t->out->sink, markdown ? " |\n" : "\n", markdown ? 3 : 1);
}

/* Everything that was gathered, and begin anew. */
static void put_lines(table *t, bool head)
{
    for (size_t i = 0; i < t->cells.count; i++) {
        put_cell(t, &t->cells.data[i], i % t->width);
        if (head && i + 1 == t->width)
            put_rule(t);
    }
    t->cells.count = t->text.count = 0;
}

/* Widths from what is gathered, the names of the columns included. */
static void measure(table *t)
{
    for (size_t i = 0; i < t->cells.count; i++) {
        const piece *c = &t->cells.data[i];
        size_t column = i % t->width;
        t->columns[column] = KB_MAX(t->columns[column], c->columns);
        if (i >= t->width && !c->right)
            t->left[column] = true;
    }
    for (size_t i = 0; i < t->width && t->out->format == KC_QUERY_MARKDOWN; i++)
        t->columns[i] = KB_MAX(t->columns[i], 3u);
}

static void add_names(table *t, const ke_sql_query *query)
{
    for (size_t i = 0; i < t->width; i++) {
        ke_sql_cell name = {.type = KE_SQL_TEXT, .text = kb_string(ke_sql_name(query, i))};
        add_cell(t, &name);
    }
}

static kineto_status write_lines(table *t, ke_sql_query *query, kineto_error *err)
{
    bool head = true, there = true;
    kineto_status status = KINETO_OK;
    for (uint64_t line = 1; !t->failed && !kb_sink_failed(t->out->sink); line++) {
        status = ke_sql_step(query, &there, err);
        if (status || !there)
            break;
        for (size_t i = 0; i < t->width; i++) {
            ke_sql_cell cell = ke_sql_cell_at(query, i);
            add_cell(t, &cell);
        }
        if (line % LINES_AHEAD || t->failed)
            continue;
        if (head)
            measure(t);
        put_lines(t, head);
        head = false;
    }
    if (head && !t->failed)
        measure(t);
    if (!t->failed)
        put_lines(t, head);
    return status;
}

kineto_status kc_query_write_table(ke_sql_query *query, kc_query_output *out, kineto_error *err)
{
    table t = {.out = out, .width = ke_sql_width(query)};
    if (!t.width)
        return KINETO_OK;
    t.columns = calloc(t.width, sizeof *t.columns);
    t.left = calloc(t.width, sizeof *t.left);
    t.failed = !t.columns || !t.left;
    if (!t.failed)
        add_names(&t, query);
    kineto_status status = t.failed ? KINETO_OK : write_lines(&t, query, err);
    if (t.failed && status == KINETO_OK)
        status = kb_fail(err, KINETO_E_MEMORY, "no memory for the result");
    kb_vec_free(&t.cells);
    kb_vec_free(&t.text);
    free(t.columns);
    free(t.left);
    return status;
}
