/* Tables of facts on a terminal. Cells are formatted twice, once for the widths of columns: only few
 * rows are shown. */
#include "cli/print_table.h"
#include "cli/style.h"

#include <math.h>

#define MAX_COLUMNS    KA_MAX_COLUMNS
#define MAX_TITLE_WIDTH 24u /* titles are not cut below this */
#define MIN_NAME_WIDTH 12u /* names are not cut below this */
/* … and in blocks, where columns may follow below, not below and always to these */
#define MIN_BLOCK_NAME 24u
#define MAX_BLOCK_NAME 60u

bool kc_absolute;

/* What the cells of a column are, by its unit. */
typedef enum look { NAME, LENGTH, MOMENT, PERCENT, BYTES, COUNT, NUMBER } look;

/* A column that is shown. */
typedef struct column {
    uint32_t index;
    look look;
    char head[64];
    size_t width, least; /* least: of a name that is cut */
} column;

/* ---- cells ----------------------------------------------------------------------------------- */

static look find_look(const ka_column *c)
{
    if (c->type == KINETO_CELL_TEXT)
        return NAME;
    if (c->is_moment)
        return MOMENT;
    switch (c->unit) {
    case KA_UNIT_US: return LENGTH;
    case KA_UNIT_PERCENT: return PERCENT;
    case KA_UNIT_BYTES: return BYTES;
    default: return c->type == KINETO_CELL_INT ? COUNT : NUMBER;
    }
}

/* The end of the name that the cells say: "_us". Names without it stay as they are. */
static size_t measure_suffix(kineto_string name, look l)
{
    static const char *const suffixes[] = {[LENGTH] = "_us",
                                           [MOMENT] = "_us",
                                           [PERCENT] = "_pct",
                                           [BYTES] = "_bytes",
                                           [NUMBER] = ""};
    const char *suffix = l < KB_COUNT(suffixes) && suffixes[l] ? suffixes[l] : "";
    size_t size = strlen(suffix);
    bool has = name.size > size && memcmp(name.data + name.size - size, suffix, size) == 0;
    return has && !(l == MOMENT && kc_absolute) ? size : 0;
}

/* The name of the column in words. */
static void make_head(const ka_column *c, look l, char *head, size_t room)
{
    size_t size = KB_MIN(c->name.size - measure_suffix(c->name, l), room - 1);
    for (size_t i = 0; i < size; i++)
        head[i] = c->name.data[i] == '_' ? ' ' : c->name.data[i];
    head[size] = 0;
}

/* Microseconds; numbers beyond the range of int64_t are shown as its limits. */
static kb_text format_length(const kineto_fact *f)
{
    double ns = f->type == KINETO_CELL_NS ? (double)f->i : f->d * 1000;
    return kb_short_duration(ns >= 0x1p63 ? INT64_MAX : ns > -0x1p63 ? (int64_t)ns : INT64_MIN + 1);
}

/* The rank of a row; 0 where its table has none. */
static int64_t read_rank(const ka_table *t, uint64_t row)
{
    for (uint32_t c = 0; c < t->column_count; c++)
        if (kb_string_equal(t->columns[c].name, kb_string("rank")))
            return ka_cell_at(t, row, c).i;
    return 0;
}

/* From the begin of the trace of its rank. */
static kb_text format_moment(const kc_table_view *v, uint64_t row, int64_t ns)
{
    kb_text text;
    int64_t begin_ns = v->facts ? ka_trace_begin(v->facts, read_rank(v->table, row)) : 0;
    if (kc_absolute && v->facts)
        snprintf(text.s, sizeof text.s, "%.3f", (double)ns / 1000);
    else
        snprintf(text.s, sizeof text.s, "+%.40s",
                 kb_short_duration(begin_ns <= ns ? kb_length_ns(KB_MAX(begin_ns, 0), ns) : ns).s);
    return text;
}

/* Two decimals; none for large numbers, two significant digits for small ones. */
static kb_text format_number(double v)
{
    kb_text text;
    const char *format = fabs(v) >= 100000 ? "%.0f" : fabs(v) >= 0.01 || v == 0 ? "%.2f" : "%.2g";
    snprintf(text.s, sizeof text.s, format, v);
    return text;
}

static kb_text format_bytes(const kineto_fact *f)
{
    kb_text text;
    double bytes = f->type == KINETO_CELL_INT ? (double)f->i : f->d;
    if (bytes >= 0 && bytes < 0x1p63)
        return kb_bytes((uint64_t)bytes);
    snprintf(text.s, sizeof text.s, "-%.40s", kb_bytes((uint64_t)KB_MIN(-bytes, 0x1p63)).s);
    return text;
}

/* A cell that is no name; "-" without a value. */
static kb_text format_cell(const kc_table_view *v, uint64_t row, const kineto_fact *f, look l)
{
    kb_text text = {"-"};
    if (f->is_none)
        return text;
    switch (l) {
    case LENGTH: return format_length(f);
    case MOMENT: return format_moment(v, row, f->i);
    case BYTES: return format_bytes(f);
    case NUMBER: return format_number(f->d);
    case PERCENT: snprintf(text.s, sizeof text.s, "%.1f %%", f->d); break;
    case COUNT: snprintf(text.s, sizeof text.s, "%lld", (long long)f->i); break;
    case NAME: break;
    }
    return text;
}

/* Values that are identifiers in JSON and CSV, in words. */
static kineto_string find_words(const kc_table_view *v, const column *c, kineto_string text)
{
    static const char *const words[][2] = {{"data_loader", "data loader"},
                                           {"between_operators", "between operators"},
                                           {"in_operator", "inside operators"},
                                           {"in_runtime", "inside runtime calls"},
                                           {"full_queue", "full launch queue"},
                                           {"profiler_overhead", "profiler"},
                                           {"other_stream", "another stream"},
                                           {"other_rank", "another rank"},
                                           {"unrecorded_work", "work that was not recorded"},
                                           {"device_latency", "latency between kernels"}};
    bool is_reason = v->fits && kb_string_equal(v->table->columns[c->index].name, kb_string("reason"));
    for (size_t i = 0; i < KB_COUNT(words) && is_reason; i++)
        if (kb_string_equal(text, kb_string(words[i][0])))
            return kb_string(words[i][1]);
    return text;
}

static uint64_t find_row(const kc_table_view *v, uint64_t i) { return v->order ? v->order[i] : i; }

static size_t measure_cell(const kc_table_view *v, uint64_t row, const column *c)
{
    kineto_fact f;
    ka_fact_get(v->table, row, c->index, &f);
    return c->look == NAME && !f.is_none ? kc_name_columns(find_words(v, c, f.text))
                                         : strlen(format_cell(v, row, &f, c->look).s);
}

/* Texts are aligned left, numbers right. The last text of a line is not padded. */
static void put_cell(const kc_table_view *v, uint64_t row, const column *c, bool is_last, FILE *out)
{
    kineto_fact f;
    ka_fact_get(v->table, row, c->index, &f);
    if (c->look != NAME || f.is_none) {
        fprintf(out, "%*s", (int)(c->look == NAME ? -(int)c->width : (int)c->width),
                format_cell(v, row, &f, c->look).s);
        return;
    }
    f.text = find_words(v, c, f.text);
    bool is_short = is_last && kc_name_columns(f.text) <= c->width;
    kc_put_name(out, f.text, is_short ? 0 : c->width);
}

/* ---- columns --------------------------------------------------------------------------------- */

/* Does the cell say something? In a narrow table zeros do not. */
static bool is_full(const kc_table_view *v, const kineto_fact *f, look l)
{
    if (f->is_none)
        return false;
    if (!v->fits || l == COUNT || l == MOMENT)
        return true;
    return f->type == KINETO_CELL_TEXT ? f->text.size > 0
           : f->type == KINETO_CELL_NUMBER ? f->d >= 0.05 : f->i != 0;
}

static bool has_content(const kc_table_view *v, uint32_t index, look l)
{
    kineto_fact f;
    for (uint64_t i = 0; i < v->rows; i++)
        if (ka_fact_get(v->table, find_row(v, i), index, &f) && is_full(v, &f, l))
            return true;
    return false;
}

/* The rank of a single trace is not worth a column. */
static bool is_only_rank(const kc_table_view *v, uint32_t index)
{
    return v->facts && v->facts->seen.count < 2 &&
           kb_string_equal(v->table->columns[index].name, kb_string("rank"));
}

/* Of a title, the words before a number of rows: "(3 of 32)". */
static size_t measure_title(const char *title)
{
    const char *rows = strstr(title, " (");
    return KB_MIN(rows ? (size_t)(rows - title) : strlen(title), (size_t)MAX_TITLE_WIDTH);
}

/* The columns with content, as wide as their heads and cells. */
static uint32_t choose_columns(const kc_table_view *v, column *columns)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < v->table->column_count; i++) {
        column *c = &columns[count];
        *c = (column){.index = i, .look = find_look(&v->table->columns[i])};
        make_head(&v->table->columns[i], c->look, c->head, sizeof c->head);
        if (!count && v->title)
            snprintf(c->head, sizeof c->head, "%s", v->title);
        if (is_only_rank(v, i) || !has_content(v, i, c->look))
            continue;
        c->width = strlen(c->head);
        c->least = !count && v->title ? measure_title(v->title) : 0;
        for (uint64_t row = 0; row < v->rows; row++)
            c->width = kb_max_u64(c->width, measure_cell(v, find_row(v, row), c));
        if (c->look == NAME && !v->fits)
            c->width = KB_MIN(c->width, (size_t)MAX_BLOCK_NAME);
        count++;
    }
    return count;
}

/* Two spaces before each column. */
static size_t measure_columns(const column *columns, uint32_t count)
{
    size_t width = 0;
    for (uint32_t i = 0; i < count; i++)
        width += 2 + columns[i].width;
    return width;
}

/* Of those that can be cut. */
static column *find_widest_name(column *columns, uint32_t count, size_t least)
{
    column *widest = NULL;
    for (uint32_t i = 0; i < count; i++)
        if (columns[i].look == NAME && columns[i].width > KB_MAX(least, columns[i].least) && (!widest || columns[i].width > widest->width))
            widest = &columns[i];
    return widest;
}

/* Cuts names until the columns fit, the widest first. False: all are at their least width. */
static bool cut_names(column *columns, uint32_t count, size_t least, size_t room)
{
    for (;;) {
        size_t width = measure_columns(columns, count);
        column *widest = find_widest_name(columns, count, least);
        if (width <= room)
            return true;
        if (!widest)
            return false;
        /* no further than to the width of the next one, which is then cut, too */
        widest->width -= KB_MIN(KB_MAX((width - room + 1) / 2, (size_t)1), widest->width - KB_MAX(least, widest->least));
    }
}

/* How many of the first columns are in every block: those up to the first name. */
static uint32_t count_keys(const column *columns, uint32_t count)
{
    for (uint32_t i = 0; i < KB_MIN(count, 4u); i++)
        if (columns[i].look == NAME)
            return i + 1;
    return KB_MIN(count, 1u);
}

/* ---- lines ----------------------------------------------------------------------------------- */

static void print_heads(const kc_table_view *v, const column *columns, uint32_t count, FILE *out)
{
    for (uint32_t i = 0; i < count; i++) {
        const column *c = &columns[i];
        bool is_title = i == 0 && v->title;
        fprintf(out, "  %s", kc_paint(v->terminal, is_title ? KC_BOLD : KC_DIM));
        kineto_string head = kb_string(c->head);
        if (is_title && head.size > c->width)
            head.size = KB_MIN(head.size, measure_title(c->head));
        if (c->look == NAME)
            kc_put_name(out, head,
                        i + 1 == count && strlen(c->head) <= c->width ? 0 : c->width);
        else
            fprintf(out, "%*s", is_title ? -(int)c->width : (int)c->width, c->head);
        fputs(kc_paint(v->terminal, KC_PLAIN), out);
    }
    fputc('\n', out);
}

static void print_block(const kc_table_view *v, const column *columns, uint32_t count, FILE *out)
{
    print_heads(v, columns, count, out);
    for (uint64_t i = 0; i < v->rows; i++) {
        for (uint32_t c = 0; c < count; c++) {
            fputs("  ", out);
            put_cell(v, find_row(v, i), &columns[c], c + 1 == count, out);
        }
        fputc('\n', out);
    }
}

/* As many of the columns from `from` on as fit beside the keys; at least one. */
static uint32_t count_fitting(const column *columns, uint32_t keys, uint32_t from, uint32_t count,
                              size_t room)
{
    size_t used = measure_columns(columns, keys);
    uint32_t n = 0;
    while (from + n < count && (n == 0 || used + 2 + columns[from + n].width <= room))
        used += 2 + columns[from + n++].width;
    return n;
}

/* In blocks below each other, each with the keys. */
static void print_blocks(const kc_table_view *v, column *columns, uint32_t count, FILE *out)
{
    column block[MAX_COLUMNS];
    uint32_t keys = count_keys(columns, count);
    (void)cut_names(columns, keys, MIN_NAME_WIDTH, v->width / 2);
    for (uint32_t from = keys, n; from < count; from += n) {
        n = count_fitting(columns, keys, from, count, v->width);
        memcpy(block, columns, keys * sizeof *block);
        memcpy(block + keys, columns + from, n * sizeof *block);
        (void)cut_names(block, keys + n, MIN_NAME_WIDTH, v->width);
        if (from > keys)
            fputc('\n', out);
        print_block(v, block, keys + n, out);
    }
}

void kc_table_print(const kc_table_view *v, FILE *out)
{
    column columns[MAX_COLUMNS], whole[MAX_COLUMNS];
    uint32_t count = choose_columns(v, columns);
    memcpy(whole, columns, count * sizeof *whole);
    size_t least = v->fits ? MIN_NAME_WIDTH : MIN_BLOCK_NAME;
    bool fits = cut_names(columns, count, least, v->width);
    while (v->fits && !fits && count > 1)
        fits = cut_names(columns, --count, least, v->width);
    if (fits || v->fits)
        print_block(v, columns, count, out);
    else
        print_blocks(v, whole, count, out);
}
