/* The overview on a terminal. It is written into memory first, with fewer and fewer rows of its
 * tables until it has few enough lines. */
#include "cli/print_overview.h"
#include "cli/print_findings.h"

#include <math.h>

#define DEFAULT_WIDTH  100u
#define MIN_WIDTH      40u
#define MAX_FINDINGS   3u
#define MAX_ROWS       5u
#define MAX_COLUMNS    16u
#define MIN_NAME_WIDTH 12u

/* A page that is being written. */
typedef struct page {
    kineto_overview *overview;
    const kc_overview_page *asked;
    FILE *out, *terminal; /* the memory, and what decides about colours */
    size_t width;
    uint64_t rows; /* of each table */
} page;

static const char *paint(const page *p, kc_style style) { return kc_paint(p->terminal, style); }

/* ---- cells ----------------------------------------------------------------------------------- */

/* What a column holds, by the end of its name. */
typedef enum unit { NAME, TIME, OFFSET, PERCENT, COUNT } unit;

/* A column that is shown. */
typedef struct column {
    uint32_t index;
    unit unit;
    kb_text head;
    size_t width;
} column;

static bool ends_with(kineto_string s, const char *end)
{
    size_t size = strlen(end);
    return s.size >= size && memcmp(s.data + s.size - size, end, size) == 0;
}

static unit find_unit(const kineto_fact_column *c)
{
    if (c->type == KINETO_CELL_TEXT)
        return NAME;
    if (kb_string_equal(c->name, kb_string("at_us")))
        return OFFSET;
    if (c->type == KINETO_CELL_NS)
        return TIME;
    return ends_with(c->name, "_pct") ? PERCENT : COUNT;
}

/* The name without its unit, with spaces for underscores. */
static kb_text make_head(const kineto_fact_column *c)
{
    kb_text head;
    size_t size = c->name.size;
    if (ends_with(c->name, "_us"))
        size -= 3;
    else if (ends_with(c->name, "_pct"))
        size -= 4;
    size = KB_MIN(size, sizeof head.s - 1);
    for (size_t i = 0; i < size; i++)
        head.s[i] = c->name.data[i] == '_' ? ' ' : c->name.data[i];
    head.s[size] = 0;
    return head;
}

/* A number as text; names are printed by put_cell. */
static kb_text format_number(const kineto_fact *f, unit u)
{
    kb_text text = {"-"};
    if (f->is_none)
        return text;
    switch (u) {
    case TIME: return kb_short_duration(f->i);
    case OFFSET: snprintf(text.s, sizeof text.s, "+%.40s", kb_short_duration(f->i).s); break;
    case PERCENT: snprintf(text.s, sizeof text.s, "%.1f %%", f->d); break;
    case COUNT: snprintf(text.s, sizeof text.s, "%lld", (long long)f->i); break;
    case NAME: break;
    }
    return text;
}

/* Columns of a cell. */
static size_t measure_cell(const page *p, uint32_t table, uint64_t row, const column *c)
{
    kineto_fact f;
    kineto_overview_fact(p->overview, table, row, c->index, &f);
    return c->unit == NAME && !f.is_none ? kc_name_columns(f.text)
                                         : strlen(format_number(&f, c->unit).s);
}

/* Texts are aligned left, numbers right. */
static void put_cell(const page *p, uint32_t table, uint64_t row, const column *c)
{
    kineto_fact f;
    kineto_overview_fact(p->overview, table, row, c->index, &f);
    if (c->unit == NAME)
        kc_put_name(p->out, f.is_none ? kb_string("-") : f.text, c->width);
    else
        fprintf(p->out, "%*s", (int)c->width, format_number(&f, c->unit).s);
}

/* ---- tables ---------------------------------------------------------------------------------- */

/* Is there a number in it that is not zero? Other columns say nothing. */
static bool has_content(const page *p, uint32_t table, uint64_t rows, uint32_t index, unit u)
{
    kineto_fact f;
    bool any = u == NAME;
    for (uint64_t row = 0; row < rows && !any; row++) {
        kineto_overview_fact(p->overview, table, row, index, &f);
        any = !f.is_none && (f.type == KINETO_CELL_NUMBER ? f.d >= 0.05
                             : f.type == KINETO_CELL_TEXT ? f.text.size > 0
                                                          : f.i != 0 || u == COUNT || u == OFFSET);
    }
    return any;
}

/* The columns with content, as wide as their cells. */
static uint32_t choose_columns(const page *p, uint32_t table, const kineto_fact_table *info,
                               uint64_t rows, column *columns)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < info->column_count && count < MAX_COLUMNS; i++) {
        kineto_fact_column c;
        kineto_overview_column(p->overview, table, i, &c);
        column *to = &columns[count];
        *to = (column){.index = i, .unit = find_unit(&c), .head = make_head(&c)};
        if (!has_content(p, table, rows, i, to->unit))
            continue;
        to->width = strlen(count ? to->head.s : info->title);
        for (uint64_t row = 0; row < rows; row++)
            to->width = KB_MAX(to->width, measure_cell(p, table, row, to));
        count++;
    }
    return count;
}

/* Width of the table: two spaces before each column. */
static size_t measure_columns(const column *columns, uint32_t count)
{
    size_t width = 0;
    for (uint32_t i = 0; i < count; i++)
        width += 2 + columns[i].width;
    return width;
}

/* Makes the table as narrow as the page: the widest name is cut first; where all are short, columns
 * at the end are left out. Returns how many stay. */
static uint32_t fit_columns(const page *p, column *columns, uint32_t count)
{
    for (;;) {
        size_t width = measure_columns(columns, count);
        column *widest = NULL;
        for (uint32_t i = 0; i < count; i++)
            if (columns[i].unit == NAME && (!widest || columns[i].width > widest->width))
                widest = &columns[i];
        if (width <= p->width || (count == 1 && !widest))
            return count;
        if (widest && widest->width > MIN_NAME_WIDTH)
            widest->width -= KB_MIN(width - p->width, widest->width - MIN_NAME_WIDTH);
        else if (count > 1)
            count--;
        else
            return count;
    }
}

/* The title is the head of the first column, so that a table needs one line less. */
static void print_heads(const page *p, const kineto_fact_table *info, const column *columns,
                        uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        const column *c = &columns[i];
        fputs("  ", p->out);
        fputs(paint(p, i ? KC_DIM : KC_BOLD), p->out);
        if (i == 0)
            kc_put_name(p->out, kb_string(info->title), c->unit == NAME ? c->width : 0);
        else if (c->unit == NAME)
            kc_put_name(p->out, kb_string(c->head.s), c->width);
        else
            fprintf(p->out, "%*s", (int)c->width, c->head.s);
        fputs(paint(p, KC_PLAIN), p->out);
    }
    fputc('\n', p->out);
}

static void print_table(const page *p, uint32_t table, const kineto_fact_table *info)
{
    column columns[MAX_COLUMNS];
    uint64_t rows = KB_MIN(info->row_count, p->rows);
    uint32_t count = choose_columns(p, table, info, rows, columns);
    count = fit_columns(p, columns, count);
    fputc('\n', p->out);
    print_heads(p, info, columns, count);
    for (uint64_t row = 0; row < rows; row++) {
        for (uint32_t i = 0; i < count; i++) {
            fputs("  ", p->out);
            put_cell(p, table, row, &columns[i]);
        }
        fputc('\n', p->out);
    }
}

/* ---- the page -------------------------------------------------------------------------------- */

/* How sound the trace is: a line, and with -v all that verify finds. */
static void print_health(const page *p)
{
    const kc_health *h = p->asked->health;
    bool bad = h->lost || h->is_cut || h->findings[KINETO_SEVERITY_ERROR];
    fprintf(p->out, "\n%s%s %s; %s lost", paint(p, bad ? KC_YELLOW : KC_DIM),
            kc_count(h->activities).s, kc_noun(h->activities, "activity", "activities"),
            kc_lost_text(h->lost, h->is_cut).s);
    if (h->findings[KINETO_SEVERITY_ERROR] || h->findings[KINETO_SEVERITY_WARNING])
        fprintf(p->out, "; 'ckineto verify' has %s %s and %s %s",
                kc_count(h->findings[KINETO_SEVERITY_ERROR]).s,
                kc_noun(h->findings[KINETO_SEVERITY_ERROR], "error", "errors"),
                kc_count(h->findings[KINETO_SEVERITY_WARNING]).s,
                kc_noun(h->findings[KINETO_SEVERITY_WARNING], "warning", "warnings"));
    fprintf(p->out, "%s\n", paint(p, KC_PLAIN));
    if (p->asked->verbose && h->lines.count)
        fwrite(h->lines.data, 1, h->lines.count, p->out);
}

/* What to type next: names that a shell would split are left to the reader. */
static void print_next(const page *p)
{
    const char *path = p->asked->path;
    if (!path || strpbrk(path, " '\"$`\\*?;&|<>()\n") || strlen(path) + 40 > p->width)
        path = "TRACE";
    fprintf(p->out,
            "%sMore: ckineto report %s; ckineto analyze --findings, --all%s\n",
            paint(p, KC_DIM), path, paint(p, KC_PLAIN));
}

static void print_page(const page *p)
{
    kineto_fact_table info;
    fputs(paint(p, KC_BOLD), p->out);
    kc_put_wrapped(p->out, p->width, "", "", 0,
                   kb_string(kineto_overview_headline(p->overview)));
    fputs(paint(p, KC_PLAIN), p->out);
    kc_findings_print_top(kineto_overview_findings(p->overview), MAX_FINDINGS, p->width,
                          p->asked->verbose, p->terminal, p->out);
    for (uint32_t i = 0; kineto_overview_table(p->overview, i, &info); i++)
        print_table(p, i, &info);
    print_health(p);
    print_next(p);
}

static size_t count_lines(const char *text, size_t size)
{
    size_t lines = 0;
    for (size_t i = 0; i < size; i++)
        lines += text[i] == '\n';
    return lines;
}

void kc_overview_print(kineto_overview *o, const kc_overview_page *asked, FILE *out)
{
    size_t width = asked->width ? asked->width : kc_terminal_columns(out);
    page p = {o, asked, NULL, out, KB_MAX(width ? width : DEFAULT_WIDTH, (size_t)MIN_WIDTH), 0};
    for (p.rows = MAX_ROWS; p.rows; p.rows--) {
        char *text = NULL;
        size_t size = 0;
        p.out = open_memstream(&text, &size);
        if (!p.out)
            return;
        print_page(&p);
        bool is_complete = fclose(p.out) == 0;
        if (p.rows == 1 || asked->verbose || count_lines(text, size) <= KC_OVERVIEW_LINES) {
            if (is_complete)
                fwrite(text, 1, size, out);
            p.rows = 1;
        }
        free(text);
    }
}
