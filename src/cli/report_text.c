/* The report on a terminal: findings, then the numbers that say most, with bars. */
#include "cli/facts.h"
#include "analyze/tables/table.h"
#include "cli/findings.h"
#include "cli/report.h"

#include <unistd.h>

typedef struct screen {
    FILE *out;
    size_t width;
    bool colours, several; /* ranks */
    const kineto_analysis *facts;
} screen;

static const char *paint(const screen *s, const char *code) { return s->colours ? code : ""; }

/* ---- facts ---------------------------------------------------------------------------------- */

static uint32_t column_of(const screen *s, uint32_t table, const char *name)
{
    return kc_fact_column_of(s->facts, table, name);
}

static double number_at(const screen *s, uint32_t table, uint64_t row, uint32_t column)
{
    return kc_fact_number_at(s->facts, table, row, column);
}

static kineto_string text_at(const screen *s, uint32_t table, uint64_t row, uint32_t column)
{
    kineto_fact f;
    bool is_text = kineto_analysis_fact(s->facts, table, row, column, &f) && !f.is_none &&
                   f.type == KINETO_CELL_TEXT;
    return is_text ? f.text : (kineto_string){"", 0};
}

/* ---- bars ----------------------------------------------------------------------------------- */

/* So many of `cells` as `part` is of `whole`: traces may say anything. */
static size_t cells_of(double part, double whole, size_t cells)
{
    double share = part / whole;
    return share > 0 ? (size_t)((double)cells * KB_MIN(share, 1) + 0.5) : 0; /* NaN too */
}

static kb_text duration_of(double ns)
{
    return kb_duration(ns >= 0x1p63 ? INT64_MAX : ns > -0x1p63 ? (int64_t)ns : INT64_MIN);
}

/* Eighths of a cell. */
static void put_bar(const screen *s, double part, size_t cells, const char *colour)
{
    static const char *const eighths[] = {"", "▏", "▎", "▍", "▌", "▋", "▊", "▉"};
    size_t all = cells_of(part, 1, cells * 8);
    fputs(paint(s, colour), s->out);
    for (size_t i = 0; i < all / 8; i++)
        fputs("█", s->out);
    fputs(eighths[all % 8], s->out);
    fputs(paint(s, "\033[0m"), s->out);
}

static void put_title(const screen *s, const char *title)
{
    fprintf(s->out, "\n%s%s%s\n", paint(s, "\033[1m"), title, paint(s, "\033[0m"));
}

/* A table as bars: which rows, what is beside them, and how long they are. */
typedef struct chart {
    const char *table, *title;
    const char *name;           /* column */
    const char *value;          /* column, nanoseconds */
    const char *only, *only_is; /* column and number of the rows that are shown; NULL: all */
    uint64_t rows;
} chart;

static bool is_shown(const screen *s, const chart *c, uint32_t table, uint64_t row)
{
    if (!c->only)
        return true;
    double number = number_at(s, table, row, column_of(s, table, c->only));
    return number == strtod(c->only_is, NULL);
}

static double sum_of(const screen *s, const chart *c, uint32_t table, uint64_t rows, double *most)
{
    double sum = 0;
    uint32_t value = column_of(s, table, c->value);
    for (uint64_t r = 0; r < rows; r++) {
        double v = is_shown(s, c, table, r) ? number_at(s, table, r, value) : 0;
        sum += v;
        *most = KB_MAX(*most, v);
    }
    return sum;
}

#define RANK_COLUMNS 10u

static void put_rank(const screen *s, uint32_t table, uint64_t row)
{
    fprintf(s->out, "rank %3.0f  ", number_at(s, table, row, column_of(s, table, "rank")));
}

static void put_chart_row(const screen *s, size_t label, kineto_string name, double ns, double sum,
                          double most)
{
    size_t cells = s->width - KB_MIN(s->width / 2, (size_t)60) - 24;
    kc_put_name(s->out, name.size ? name : kb_string("(no name)"), label);
    fprintf(s->out, " %10s %5.1f %% ", duration_of(ns).s, sum > 0 ? 100 * ns / sum : 0);
    put_bar(s, most > 0 ? ns / most : 0, cells, "\033[36m");
    fputc('\n', s->out);
}

/* The rows in the order they are shown in; NULL: in that of the table. */
static uint64_t *order_of(const screen *s, uint32_t table, uint32_t value)
{
    return s->several ? ka_rows_by_column(ka_shown_table(s->facts, table), value) : NULL;
}

static void put_chart_rows(const screen *s, const chart *c, uint32_t table, uint64_t rows,
                           double sum, double most)
{
    uint32_t name = column_of(s, table, c->name), value = column_of(s, table, c->value);
    uint64_t shown = 0, *order = order_of(s, table, value);
    bool has_rank = s->several && column_of(s, table, "rank") != UINT32_MAX;
    size_t label = KB_MIN(s->width / 2, (size_t)60) - (has_rank ? RANK_COLUMNS : 0);
    for (uint64_t i = 0; i < rows && shown < c->rows; i++) {
        uint64_t r = order ? order[i] : i;
        double v = number_at(s, table, r, value);
        if (!is_shown(s, c, table, r) || !(v > 0))
            continue;
        fputs("  ", s->out);
        if (has_rank)
            put_rank(s, table, r);
        put_chart_row(s, label, text_at(s, table, r, name), v, sum, most);
        shown++;
    }
    free(order);
}

static void put_chart(const screen *s, const chart *c)
{
    uint32_t table = kineto_analysis_find(s->facts, c->table);
    kineto_fact_table info;
    double most = 0;
    if (!kineto_analysis_table(s->facts, table, &info))
        return;
    double sum = sum_of(s, c, table, info.row_count, &most);
    if (!(most > 0))
        return;
    put_title(s, c->title);
    put_chart_rows(s, c, table, info.row_count, sum, most);
}

/* ---- steps ---------------------------------------------------------------------------------- */

/* Each part of a step has a colour and, where there are none, a letter. */
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
             {"other_us", "nothing known", "\033[90m", '.'}};

static void put_step_bar(const screen *s, uint32_t table, uint64_t row, double longest,
                         size_t cells)
{
    double at = 0;
    size_t drawn = 0;
    for (size_t p = 0; p < KB_COUNT(parts); p++) {
        at += number_at(s, table, row, column_of(s, table, parts[p].column));
        size_t until = cells_of(at, longest, cells);
        fputs(paint(s, parts[p].colour), s->out);
        for (; drawn < until; drawn++)
            if (s->colours)
                fputs("█", s->out);
            else
                fputc(parts[p].letter, s->out);
    }
    fprintf(s->out, "%s\n", paint(s, "\033[0m"));
}

static void put_legend(const screen *s)
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

#define MOST_STEPS 12u

static void put_step(const screen *s, uint32_t table, uint64_t row, double longest)
{
    fputs("  ", s->out);
    put_rank(s, table, row);
    kc_put_name(s->out, text_at(s, table, row, column_of(s, table, "step")), 8);
    fprintf(s->out, " %10s ",
            duration_of(number_at(s, table, row, column_of(s, table, "dur_us"))).s);
    put_step_bar(s, table, row, longest, s->width - 34);
}

/* The first ones, or of several ranks the longest. */
static void put_steps(const screen *s)
{
    uint32_t table = kineto_analysis_find(s->facts, "steps");
    kineto_fact_table info;
    double longest = 0;
    if (!kineto_analysis_table(s->facts, table, &info) || !info.row_count)
        return;
    for (uint64_t r = 0; r < info.row_count; r++)
        longest = KB_MAX(longest, number_at(s, table, r, column_of(s, table, "dur_us")));
    uint64_t *order = info.row_count > MOST_STEPS ? order_of(s, table, column_of(s, table, "dur_us")) : NULL;
    put_title(s, "Steps");
    for (uint64_t r = 0; longest > 0 && r < KB_MIN(info.row_count, (uint64_t)MOST_STEPS); r++)
        put_step(s, table, order ? order[r] : r, longest);
    if (info.row_count > MOST_STEPS)
        fprintf(s->out, "  … and %s more\n", kc_count(info.row_count - MOST_STEPS).s);
    free(order);
    put_legend(s);
}

/* ---- all of it ------------------------------------------------------------------------------ */

#define USUAL_WIDTH 100u

/* Columns to write in; never so few that nothing fits. */
static size_t terminal_width(uint64_t asked, FILE *out)
{
    uint64_t width = asked ? asked : kc_terminal_columns(out);
    if (!width)
        width = USUAL_WIDTH;
    return (size_t)KB_MIN(KB_MAX(width, (uint64_t)KC_LEAST_WIDTH), (uint64_t)KC_MOST_WIDTH);
}

static bool may_colour(FILE *out) { return isatty(fileno(out)) && !kb_setting("NO_COLOR"); }

void kc_report_print(const kc_health *health, const kineto_analysis *facts,
                     const kineto_findings *found, uint64_t width, FILE *out)
{
    static const chart charts[] = {
        {"idle_named", "While devices were idle, the host was", "reason", "idle_us", "stream", "-1",
         8},
        {"critical_path_summary", "The critical path consists of", "class", "us", NULL, NULL, 8},
        {"kernel_types", "Kinds of device work", "kernel_type", "sum_us", NULL, NULL, 8},
        {"kernels", "Kernels", "name", "sum_us", NULL, NULL, 10},
        {"operators", "Operators, by shapes and stack, by time of devices", "name", "device_self_us", NULL, NULL, 10},
        {"modules", "Modules", "module", "device_total_us", NULL, NULL, 10},
        {"collective_groups", "Collectives", "name", "sum_us", NULL, NULL, 8}};
    screen s = {out, terminal_width(width, out), may_colour(out), health->traces > 1, facts};
    kc_health_print(health, out);
    kc_findings_print(found, s.width, out);
    put_steps(&s);
    for (size_t i = 0; i < KB_COUNT(charts); i++)
        put_chart(&s, &charts[i]);
}
