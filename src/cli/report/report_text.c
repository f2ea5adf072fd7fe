/* The report on a terminal: findings, then the most informative tables as bars. Without colours,
 * letters distinguish the parts of a step. */
#include "analyze/tables/table.h"
#include "cli/print_facts.h"
#include "cli/print_findings.h"
#include "cli/report/report.h"
#include "cli/report/report_ranks.h"
#include "cli/style.h"

#include <unistd.h>

/* Where the report is written, how wide, and from which facts. */
typedef struct screen {
    FILE *out;
    size_t width;
    bool colours, several; /* ranks */
    const kineto_analysis *facts;
} screen;

static const char *get_paint(const screen *s, const char *code) { return s->colours ? code : ""; }

/* ---- facts ----------------------------------------------------------------------------------- */

static uint32_t find_fact_column(const screen *s, uint32_t table, const char *name)
{
    return kc_fact_column_index(s->facts, table, name);
}

/* 0 where the cell has no value, or the table lacks the column. */
static double get_fact_number(const screen *s, uint32_t table, uint64_t row, uint32_t column)
{
    return kc_fact_number_at(s->facts, table, row, column);
}

static kineto_string get_fact_text(const screen *s, uint32_t table, uint64_t row, uint32_t column)
{
    kineto_fact f;
    bool is_text = kineto_analysis_fact(s->facts, table, row, column, &f) && !f.is_none &&
                   f.type == KINETO_CELL_TEXT;
    return is_text ? f.text : (kineto_string){"", 0};
}

/* ---- bars ------------------------------------------------------------------------------------ */

/* part / whole of `cells`, rounded; 0 for values that are negative or not finite, since traces may
 * contain any number. */
static size_t count_filled_cells(double part, double whole, size_t cells)
{
    double share = part / whole;
    return share > 0 ? (size_t)((double)cells * KB_MIN(share, 1) + 0.5) : 0; /* NaN too */
}

/* Saturates: tables may contain any number. */
static kb_text format_duration(double ns)
{
    return kb_duration(ns >= 0x1p63 ? INT64_MAX : ns > -0x1p63 ? (int64_t)ns : INT64_MIN);
}

/* In eighths of a cell. @param part from 0 to 1. */
static void draw_bar_of(const screen *s, double part, size_t cells, const char *colour)
{
    static const char *const eighths[] = {"", "▏", "▎", "▍", "▌", "▋", "▊", "▉"};
    size_t all = count_filled_cells(part, 1, cells * 8);
    fputs(get_paint(s, colour), s->out);
    for (size_t i = 0; i < all / 8; i++)
        fputs("█", s->out);
    fputs(eighths[all % 8], s->out);
    fputs(get_paint(s, "\033[0m"), s->out);
}

/* After an empty line, in bold if colours are allowed. */
static void print_chart_title(const screen *s, const char *title)
{
    fprintf(s->out, "\n%s%s%s\n", get_paint(s, "\033[1m"), title, get_paint(s, "\033[0m"));
}

/* A table as bars: which rows, their labels, and their lengths. */
typedef struct chart {
    const char *table, *title;
    const char *name; /* column */
    /* column, nanoseconds */
    const char *value;
    /* show only rows with this number in this column; NULL: all */
    const char *only, *only_is;
    uint64_t rows;
} chart;

static bool is_row_shown(const screen *s, const chart *c, uint32_t table, uint64_t row)
{
    if (!c->only)
        return true;
    double number = get_fact_number(s, table, row, find_fact_column(s, table, c->only));
    return number == strtod(c->only_is, NULL);
}

/* The sum of the shown values; *max receives the largest. */
static double sum_chart_rows(const screen *s, const chart *c, uint32_t table, uint64_t rows,
                             double *max)
{
    double sum = 0;
    uint32_t value = find_fact_column(s, table, c->value);
    for (uint64_t r = 0; r < rows; r++) {
        double v = is_row_shown(s, c, table, r) ? get_fact_number(s, table, r, value) : 0;
        sum += v;
        *max = KB_MAX(*max, v);
    }
    return sum;
}

#define RANK_COLUMNS 10u

static void print_rank_label(const screen *s, uint32_t table, uint64_t row)
{
    fprintf(s->out, "rank %3.0f  ",
            get_fact_number(s, table, row, find_fact_column(s, table, "rank")));
}

/* Name, duration, share of the sum, and a bar relative to the largest row. */
static void print_chart_row(const screen *s, size_t label, kineto_string name, double ns,
                            double sum, double max)
{
    size_t cells = s->width - KB_MIN(s->width / 2, (size_t)60) - 24;
    kc_put_name(s->out, name.size ? name : kb_string("(no name)"), label);
    fprintf(s->out, " %10s %5.1f %% ", format_duration(ns).s, sum > 0 ? 100 * ns / sum : 0);
    draw_bar_of(s, max > 0 ? ns / max : 0, cells, "\033[36m");
    fputc('\n', s->out);
}

/* Numbers of the rows, the largest value first, to be freed; NULL: in the order of the table. */
static uint64_t *sort_rows_by(const screen *s, uint32_t table, uint32_t value)
{
    return s->several ? ka_rows_by_column(ka_shown_table(s->facts, table), value) : NULL;
}

/* At most c->rows rows with values above 0. */
static void print_chart_rows(const screen *s, const chart *c, uint32_t table, uint64_t rows,
                             double sum, double max)
{
    uint32_t name = find_fact_column(s, table, c->name),
             value = find_fact_column(s, table, c->value);
    uint64_t shown = 0, *order = sort_rows_by(s, table, value);
    bool has_rank = s->several && find_fact_column(s, table, "rank") != UINT32_MAX;
    size_t label = KB_MIN(s->width / 2, (size_t)60) - (has_rank ? RANK_COLUMNS : 0);
    for (uint64_t i = 0; i < rows && shown < c->rows; i++) {
        uint64_t r = order ? order[i] : i;
        double v = get_fact_number(s, table, r, value);
        if (!is_row_shown(s, c, table, r) || !(v > 0))
            continue;
        fputs("  ", s->out);
        if (has_rank)
            print_rank_label(s, table, r);
        print_chart_row(s, label, get_fact_text(s, table, r, name), v, sum, max);
        shown++;
    }
    free(order);
}

/* Nothing if the table is missing or has only zeros. */
static void print_chart(const screen *s, const chart *c)
{
    uint32_t table = kineto_analysis_find_table(s->facts, c->table);
    kineto_fact_table info;
    double max = 0;
    if (!kineto_analysis_table(s->facts, table, &info))
        return;
    double sum = sum_chart_rows(s, c, table, info.row_count, &max);
    if (!(max > 0))
        return;
    print_chart_title(s, c->title);
    print_chart_rows(s, c, table, info.row_count, sum, max);
}

/* ---- steps ----------------------------------------------------------------------------------- */

/* Each part of a step has a colour and, without colours, a letter. */
static const struct {
    const char *column, *word, *colour;
    char letter;
} parts[] = {{"kernel_us", "kernels", "\033[32m", 'K'},
             {"memcpy_us", "copies", "\033[33m", 'C'},
             {"memset_us", "memsets", "\033[33m", 'S'},
             {"communication_us", "communication", "\033[35m", 'N'},
             {"runtime_us", "runtime calls", "\033[34m", 'R'},
             {"dataloader_us", "data loader", "\033[31m", 'D'},
             {"cpu_us", "host", "\033[36m", 'H'},
             {"other_us", "other", "\033[90m", '.'}};

/* Parts of a step, scaled to the longest step. */
static void draw_step_bar(const screen *s, uint32_t table, uint64_t row, double longest,
                          size_t cells)
{
    double at = 0;
    size_t drawn = 0;
    for (size_t p = 0; p < KB_COUNT(parts); p++) {
        at += get_fact_number(s, table, row, find_fact_column(s, table, parts[p].column));
        size_t until = count_filled_cells(at, longest, cells);
        fputs(get_paint(s, parts[p].colour), s->out);
        for (; drawn < until; drawn++)
            if (s->colours)
                fputs("█", s->out);
            else
                fputc(parts[p].letter, s->out);
    }
    fprintf(s->out, "%s\n", get_paint(s, "\033[0m"));
}

/* Wrapped at the width. */
static void print_step_legend(const screen *s)
{
    size_t column = 0;
    for (size_t p = 0; p < KB_COUNT(parts); p++) {
        size_t columns = strlen(parts[p].word) + 4;
        if (!column || column + columns > s->width) {
            fputs(column ? "\n  " : "  ", s->out);
            column = 2;
        }
        column += columns;
        if (s->colours)
            fprintf(s->out, "%s█\033[0m %s  ", parts[p].colour, parts[p].word);
        else
            fprintf(s->out, "%c %s  ", parts[p].letter, parts[p].word);
    }
    fputc('\n', s->out);
}

#define MAX_STEPS 12u

/* Rank, number and duration, then the bar. */
static void print_step(const screen *s, uint32_t table, uint64_t row, double longest)
{
    fputs("  ", s->out);
    print_rank_label(s, table, row);
    kc_put_name(s->out, get_fact_text(s, table, row, find_fact_column(s, table, "step")), 8);
    fprintf(
        s->out, " %10s ",
        format_duration(get_fact_number(s, table, row, find_fact_column(s, table, "dur_us"))).s);
    draw_step_bar(s, table, row, longest, s->width - 34);
}

/* The first steps; of several ranks the longest ones. */
static void print_steps(const screen *s)
{
    uint32_t table = kineto_analysis_find_table(s->facts, "steps");
    kineto_fact_table info;
    double longest = 0;
    if (!kineto_analysis_table(s->facts, table, &info) || !info.row_count)
        return;
    for (uint64_t r = 0; r < info.row_count; r++)
        longest =
            kb_max_double(longest, get_fact_number(s, table, r, find_fact_column(s, table, "dur_us")));
    uint64_t shown = kc_count_shown(info.row_count, MAX_STEPS);
    uint64_t *order = info.row_count > shown
                          ? sort_rows_by(s, table, find_fact_column(s, table, "dur_us"))
                          : NULL;
    print_chart_title(s, "Steps");
    for (uint64_t r = 0; longest > 0 && r < shown; r++)
        print_step(s, table, order ? order[r] : r, longest);
    if (info.row_count > shown)
        fprintf(s->out, "  … and %s more\n", kc_count(info.row_count - shown).s);
    free(order);
    print_step_legend(s);
}

/* ---- the report ------------------------------------------------------------------------------ */

/* Columns to write; at least KC_MIN_WIDTH, so that labels fit. */
static size_t choose_width(uint64_t asked, FILE *out)
{
    uint64_t width = asked ? asked : kc_page_width(out);
    return (size_t)KB_MIN(KB_MAX(width, (uint64_t)KC_MIN_WIDTH), (uint64_t)KC_MAX_WIDTH);
}

/* Health, findings, steps, then one chart for each table. */
void kc_report_print(const kc_health *health, const kineto_analysis *facts,
                     const kineto_findings *found, uint64_t width, FILE *out)
{
    static const chart charts[] = {
        {"idle_named", "Host activity while devices were idle", "reason", "idle_us", "stream", "-1",
         8},
        {"critical_path_summary", "Critical path", "class", "us", NULL, NULL, 8},
        {"kernel_types", "Kinds of device work", "kernel_type", "sum_us", NULL, NULL, 8},
        {"kernels", "Kernels", "name", "sum_us", NULL, NULL, 10},
        {"operators", "Operators, by shapes and stack, by device time", "name", "device_self_us",
         NULL, NULL, 10},
        {"modules", "Modules", "module", "device_total_us", NULL, NULL, 10},
        {"collective_groups", "Collectives", "name", "sum_us", NULL, NULL, 8}};
    screen s = {out, choose_width(width, out), kc_has_colors(out), health->coverage.traces.count > 1, facts};
    kc_health_print(health, out);
    kc_print_rank_warnings(facts, out);
    kc_findings_print(found, s.width, out);
    print_steps(&s);
    kc_report_print_ranks(facts, s.width, s.colours, out);
    for (size_t i = 0; i < KB_COUNT(charts); i++)
        print_chart(&s, &charts[i]);
}
