/* Results of queries for people: aligned tables, and the tables of Markdown. Rows are collected
 * until MEASURED_LINES or the end, to find the widths of the columns. Control characters of a trace
 * never reach a terminal. */
#include "cli/query/query.h"

/* Widths are those of the first lines, so that the output begins before the query ends; later
 * lines that are wider are not aligned. */
#define MEASURED_LINES 1000u

/* A cell: its text is at [at, at + size) in result_table.text. */
typedef struct cell_text {
    size_t at, size;
    uint32_t columns; /* on a terminal */
    bool right;
} cell_text;

/* Rows that were collected and not written yet. After the first block the widths are fixed,
 * and rows are written as soon as a block is full. */
typedef struct result_table {
    kc_query_output *out;
    /* number of columns */
    size_t width;
    KB_VEC(cell_text) cells;
    KB_VEC(char) text;
    /* by column: the widest */
    uint32_t *columns;
    /* by column: it contains texts, not only numbers */
    bool *left;
    bool failed; /* out of memory */
} result_table;

/* ---- text ------------------------------------------------------------------------------------ */

/* Out of memory sets `failed`, which is checked once per line. */
static void append_bytes_of(result_table *t, const char *text, size_t size)
{
    if (!kb_vec_reserve(&t->text, t->text.count + size)) {
        t->failed = true;
        return;
    }
    memcpy(t->text.data + t->text.count, text, size);
    t->text.count += size;
}

/* \n, \t, or \xNN. */
static void append_escaped_byte(result_table *t, unsigned char c)
{
    char escape[8];
    int n = c == '\n'   ? snprintf(escape, sizeof escape, "\\n")
            : c == '\t' ? snprintf(escape, sizeof escape, "\\t")
                        : snprintf(escape, sizeof escape, "\\x%02x", c);
    append_bytes_of(t, escape, (size_t)n);
}

/* Append the text, control characters escaped, cut at `limit` columns (0: unlimited). Returns its
 * columns. */
static uint32_t append_visible_text(result_table *t, kineto_string s, size_t limit)
{
    size_t used = 0, cut_at = t->text.count, cut_used = 0;
    for (size_t at = 0; at < s.size;) {
        size_t size = kc_printable_bytes(s, at), before = t->text.count;
        size_t columns = size ? kc_character_columns(s.data + at, size) : 0;
        if (size)
            append_bytes_of(t, s.data + at, size);
        else
            append_escaped_byte(t, (unsigned char)s.data[at]);
        used += size ? columns : t->text.count - before;
        if (t->out->format == KC_QUERY_MARKDOWN && s.data[at] == '|') {
            t->text.count = before;
            append_bytes_of(t, "\\|", 2);
        }
        at += size ? size : 1;
        if (limit && used > limit) {
            t->text.count = cut_at;
            append_bytes_of(t, "…", strlen("…"));
            return (uint32_t)cut_used + 1;
        }
        if (!limit || used < limit) {
            cut_at = t->text.count;
            cut_used = used;
        }
    }
    return (uint32_t)KB_MIN(used, (size_t)UINT32_MAX);
}

/* Integers exactly, others with ten digits. Returns the columns. */
static uint32_t append_number_cell(result_table *t, const ke_sql_cell *cell)
{
    char text[64];
    int n = cell->type == KE_SQL_INT ? snprintf(text, sizeof text, "%lld", (long long)cell->i)
                                     : snprintf(text, sizeof text, "%.10g", cell->d);
    append_bytes_of(t, text, (size_t)n);
    return (uint32_t)n;
}

/* Format a value into the collected text. Numbers and NULL are aligned right. */
static void append_cell(result_table *t, const ke_sql_cell *from)
{
    cell_text c = {.at = t->text.count};
    static const char digits[] = "0123456789abcdef";
    switch (from->type) {
    case KE_SQL_INT:
    case KE_SQL_REAL:
        c.columns = append_number_cell(t, from);
        c.right = true;
        break;
    case KE_SQL_TEXT:
        c.columns = append_visible_text(t, from->text, t->out->width);
        break;
    case KE_SQL_BLOB: {
        size_t max = t->out->width ? KB_MIN(t->out->width / 2, from->text.size) : from->text.size;
        for (size_t i = 0; i < max; i++) {
            unsigned char byte = (unsigned char)from->text.data[i];
            append_bytes_of(t, (char[]){digits[byte >> 4], digits[byte & 15]}, 2);
        }
        c.columns = (uint32_t)(2 * max);
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

/* `count` times the character. */
static void write_padding(kb_sink *sink, size_t count, char with)
{
    for (; count > 0; count--)
        kb_sink_write(sink, &with, 1);
}

/* With its separator and padding; the last column has no trailing blanks. */
static void write_cell(result_table *t, const cell_text *c, size_t column)
{
    KB_ASSERT(column < t->width);
    bool last = column + 1 == t->width, right = !t->left[column];
    bool markdown = t->out->format == KC_QUERY_MARKDOWN;
    size_t room = t->columns[column] > c->columns ? t->columns[column] - c->columns : 0;
    if (markdown)
        kb_sink_write(t->out->sink, column ? " | " : "| ", column ? 3 : 2);
    else if (column)
        kb_sink_write(t->out->sink, "  ", 2);
    if (right)
        write_padding(t->out->sink, room, ' ');
    kb_sink_write(t->out->sink, t->text.data + c->at, c->size);
    if (!right && (!last || markdown))
        write_padding(t->out->sink, room, ' ');
    if (last)
        kb_sink_write(t->out->sink, markdown ? " |\n" : "\n", markdown ? 3 : 1);
}

/* Dashes below the head; Markdown marks columns of numbers with a colon. */
static void write_rule_line(result_table *t)
{
    bool markdown = t->out->format == KC_QUERY_MARKDOWN;
    for (size_t i = 0; i < t->width; i++) {
        size_t dashes = KB_MAX(t->columns[i], markdown ? 3u : 1u);
        if (markdown)
            kb_sink_write(t->out->sink, i ? " | " : "| ", i ? 3 : 2);
        else if (i)
            kb_sink_write(t->out->sink, "  ", 2);
        write_padding(t->out->sink, dashes - (markdown && !t->left[i]), '-');
        if (markdown && !t->left[i])
            kb_sink_write(t->out->sink, ":", 1);
    }
    kb_sink_write(t->out->sink, markdown ? " |\n" : "\n", markdown ? 3 : 1);
}

/* Write and discard the collected rows. @param head they begin with the column names. */
static void write_collected_lines(result_table *t, bool head)
{
    KB_ASSERT(t->width > 0 && t->cells.count % t->width == 0);
    for (size_t i = 0; i < t->cells.count; i++) {
        write_cell(t, &t->cells.data[i], i % t->width);
        if (head && i + 1 == t->width)
            write_rule_line(t);
    }
    t->cells.count = t->text.count = 0;
}

/* Find the widths of the collected rows, including the column names. */
static void measure_columns(result_table *t)
{
    for (size_t i = 0; i < t->cells.count; i++) {
        const cell_text *c = &t->cells.data[i];
        size_t column = i % t->width;
        t->columns[column] = KB_MAX(t->columns[column], c->columns);
        if (i >= t->width && !c->right)
            t->left[column] = true;
    }
    for (size_t i = 0; i < t->width && t->out->format == KC_QUERY_MARKDOWN; i++)
        t->columns[i] = KB_MAX(t->columns[i], 3u);
}

/* The head is a row like any other, so that it takes part in the widths. */
static void append_column_names(result_table *t, const ke_sql_query *query)
{
    for (size_t i = 0; i < t->width; i++) {
        ke_sql_cell name = {.type = KE_SQL_TEXT, .text = kb_string(ke_sql_name(query, i))};
        append_cell(t, &name);
    }
}

/* Collect, measure once, and write in blocks. */
static kineto_status write_all_lines(result_table *t, ke_sql_query *query, kineto_error *err)
{
    bool head = true, there = true;
    kineto_status status = KINETO_OK;
    for (uint64_t line = 1; !t->failed && !kb_sink_failed(t->out->sink); line++) {
        status = ke_sql_step(query, &there, err);
        if (status || !there)
            break;
        for (size_t i = 0; i < t->width; i++) {
            ke_sql_cell cell = ke_sql_cell_at(query, i);
            append_cell(t, &cell);
        }
        if (line % MEASURED_LINES || t->failed)
            continue;
        if (head)
            measure_columns(t);
        write_collected_lines(t, head);
        head = false;
    }
    if (head && !t->failed)
        measure_columns(t);
    if (!t->failed)
        write_collected_lines(t, head);
    return status;
}

/* A statement without columns (not a query) prints nothing. */
kineto_status kc_query_write_table(ke_sql_query *query, kc_query_output *out, kineto_error *err)
{
    result_table t = {.out = out, .width = ke_sql_width(query)};
    if (!t.width)
        return KINETO_OK;
    t.columns = calloc(t.width, sizeof *t.columns);
    t.left = calloc(t.width, sizeof *t.left);
    t.failed = !t.columns || !t.left;
    if (!t.failed)
        append_column_names(&t, query);
    kineto_status status = t.failed ? KINETO_OK : write_all_lines(&t, query, err);
    if (t.failed && status == KINETO_OK)
        status = kb_fail_memory(err, "result");
    kb_vec_free(&t.cells);
    kb_vec_free(&t.text);
    free(t.columns);
    free(t.left);
    return status;
}
