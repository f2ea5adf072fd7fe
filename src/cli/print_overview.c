/* The overview on a terminal. It is written into memory first, with fewer and fewer rows of its
 * tables until it has few enough lines. */
#include "cli/print_overview.h"
#include "analyze/overview/overview.h"
#include "cli/print_findings.h"
#include "cli/print_table.h"

#define MIN_WIDTH    40u
#define MAX_FINDINGS 3u
#define MAX_ROWS     5u

/* A page that is being written. */
typedef struct page {
    kineto_overview *overview;
    const kc_overview_page *asked;
    FILE *out, *terminal; /* the memory, and what decides about colours */
    size_t width;
    uint64_t rows; /* of each table */
} page;

static const char *paint(const page *p, kc_style style) { return kc_paint(p->terminal, style); }

/* The title is the head of the first column, so that a table needs one line less. */
static void print_table(const page *p, uint32_t index, const kineto_fact_table *info)
{
    uint64_t rows = KB_MIN(info->row_count, p->rows), all = info->row_count + kineto_overview_rows_left_out(p->overview, index);
    char title[80];
    snprintf(title, sizeof title, all > rows ? "%s (%llu of %llu)" : "%s", info->title, (unsigned long long)rows,
             (unsigned long long)all);
    kc_table_view view = {.table = ka_overview_table(p->overview, index),
                          .title = title,
                          .rows = rows,
                          .width = p->width,
                          .fits = true,
                          .terminal = p->terminal};
    fputc('\n', p->out);
    kc_table_print(&view, p->out);
}

/* ---- Python ---------------------------------------------------------------------------------- */

/* Does the interpreter take CPU time, and are its functions not recorded? Its own C functions tell little. */
static bool lacks_python_functions(kineto_overview *o)
{
    kineto_fact_table info;
    kineto_fact cell;
    for (uint32_t i = 0; kineto_overview_table(o, i, &info); i++)
        for (uint32_t row = 0; strcmp(info.name, "cpu_functions") == 0 && row < info.row_count; row++)
            if (kineto_overview_fact(o, i, row, 1, &cell) && cell.type == KINETO_CELL_TEXT &&
                (kb_string_starts_with(cell.text, "libpython3") || kb_string_starts_with(cell.text, "python3")))
                return true;
    return false;
}

/* ---- the page -------------------------------------------------------------------------------- */

/* A sentence in a style, wrapped. */
static void print_styled(const page *p, kc_style style, const char *text)
{
    kc_put_wrapped(p->out, p->width, paint(p, style), "", 0, kb_string(text));
    fputs(paint(p, KC_PLAIN), p->out);
}

/* How sound the trace is: a line, and with -v all that verify finds. */
static void print_health(const page *p)
{
    const kc_health *h = p->asked->health;
    const uint64_t *found = h->findings;
    uint64_t errors = found[KINETO_SEVERITY_ERROR] + (h->coverage.unreadable > 0);
    uint64_t warnings = found[KINETO_SEVERITY_WARNING] + (ka_coverage_missing(&h->coverage) > 0);
    bool is_bad = h->lost || h->is_cut || errors;
    char text[400];
    int used = snprintf(text, sizeof text, "%s %s; %s lost", kc_count(h->activities).s,
                        kc_noun(h->activities, "activity", "activities"),
                        kc_lost_text(h->lost, h->is_cut).s);
    if (errors || warnings)
        snprintf(text + used, sizeof text - (size_t)used, "; 'ckineto verify' has %s %s and %s %s",
                 kc_count(errors).s, kc_noun(errors, "error", "errors"),
                 kc_count(warnings).s, kc_noun(warnings, "warning", "warnings"));
    fputc('\n', p->out);
    print_styled(p, is_bad ? KC_YELLOW : KC_DIM, text);
    if (p->asked->verbose && h->lines.count)
        fwrite(h->lines.data, 1, h->lines.count, p->out);
}

/* What to type next. */
static void print_next(const page *p)
{
    enum { MAX_PATH_COLUMNS = 40 };
    char text[200];
    snprintf(text, sizeof text, "More: ckineto report %s; ckineto analyze --findings, --all",
             kc_command_word(p->asked->path, MAX_PATH_COLUMNS));
    print_styled(p, KC_DIM, text);
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
    if (lacks_python_functions(p->overview))
        print_styled(p, KC_PLAIN, "These are functions of the interpreter: 'ckineto record --python' records those of the "
                                  "program.");
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
    size_t width = asked->width ? asked->width : kc_page_width(out);
    page p = {o, asked, NULL, out, KB_MAX(width, (size_t)MIN_WIDTH), 0};
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
