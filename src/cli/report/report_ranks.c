/* A line for each rank (or for some together), a column for each slice of the run: the darker the sign, the longer it waits
 * for others; letters are the critical path. Then what the path consists of. */
#include "cli/report/report_ranks.h"
#include "analyze/ranks/rank_cells.h"
#include "analyze/ranks/rank_names.h"
#include "analyze/ranks/rank_path.h"
#include "analyze/ranks/rank_set.h"
#include "analyze/tables/table.h"
#include "cli/print.h"

#define MAX_LINES 16u
#define MAX_SLICES 200u
#define LABEL_COLUMNS 13u
#define RANGE_COLUMNS 17u /* of several ranks */
#define MAX_SHARES 6u

static const char shades[] = " .:-=+*#";
static const char kind_letters[KA_PATH_KINDS] = {'D', 'H', 'T', 'Q', '?'};

typedef struct rank_screen {
    FILE *out;
    const ka_rank_view *view;
    const ka_rank_cells *cells;
    const ka_rank_path *path;
    size_t width, label_columns;
    bool bold;
} rank_screen;

/* The part of the path that has the middle of a slice. `*at` only grows. */
static const ka_path_part *part_of_slice(const rank_screen *s, uint32_t slice, size_t *at)
{
    const ka_rank_path *p = s->path;
    double middle = (double)p->start_ns +
                    ((double)slice + 0.5) * (double)(p->end_ns - p->start_ns) / (double)s->cells->column_count;
    while (*at + 1 < p->parts.count && (double)p->parts.data[*at].end_ns < middle)
        ++*at;
    return *at < p->parts.count ? &p->parts.data[*at] : NULL;
}

/* "rank 20", "ranks 20-21", or "ranks 6, 8": 7 is missing. */
static kb_text name_row(const ka_rank_model *m, const ka_rank_cells *c, uint32_t row)
{
    kb_text text;
    uint32_t first = row * c->ranks_per_row, last = KB_MIN(first + c->ranks_per_row, m->rank_count) - 1;
    long long from = m->facts[first]->rank, to = m->facts[last]->rank;
    if (first == last)
        kb_snprintf(text.s, sizeof text.s, "rank %lld", from);
    else
        kb_snprintf(text.s, sizeof text.s, "ranks %lld%s%lld", from, last == first + 1 && to > from + 1 ? ", " : "-", to);
    return text;
}

static void print_line(const rank_screen *s, uint32_t row)
{
    const ka_rank_cells *c = s->cells;
    const ka_rank_model *m = &s->view->model;
    size_t at = 0;
    fprintf(s->out, "  %-*s", (int)s->label_columns, name_row(m, c, row).s);
    for (uint32_t i = 0; i < c->column_count; i++) {
        const ka_path_part *part = part_of_slice(s, i, &at);
        double share = c->shares[KA_CELLS_WAITING][(size_t)row * c->column_count + i];
        if (!part || part->rank / c->ranks_per_row != row)
            fputc(shades[(size_t)(share * (sizeof shades - 2) + 0.5)], s->out);
        else if (s->bold)
            fprintf(s->out, "\033[1;31m%c\033[0m", kind_letters[part->kind]);
        else
            fputc(kind_letters[part->kind], s->out);
    }
    fputc('\n', s->out);
}

/* What the path consists of. */
typedef struct share_line {
    kb_text name;
    int64_t ns;
} share_line;

static int compare_lines(const void *left, const void *right)
{
    const share_line *a = left, *b = right;
    return a->ns != b->ns ? (a->ns < b->ns ? 1 : -1) : strcmp(a->name.s, b->name.s);
}

static void print_shares(const rank_screen *s, const ka_path_shares *shares)
{
    const ka_rank_model *m = &s->view->model;
    share_line *lines = calloc((size_t)m->rank_count + m->groups.count + 1, sizeof *lines);
    size_t count = 0;
    for (uint32_t r = 0; lines && r < m->rank_count; r++)
        if ((lines[count].ns = ka_sum_path(&shares->rank[r])))
            kb_snprintf(lines[count++].name.s, sizeof lines->name.s, "rank %lld", (long long)m->facts[r]->rank);
    for (uint32_t i = 0; lines && i < m->groups.count; i++)
        if ((lines[count].ns = ka_sum_path(&shares->group[i])))
            kb_snprintf(lines[count++].name.s, sizeof lines->name.s, "transfers of group %.*s",
                        (int)KB_MIN(m->groups.data[i].name.size, 30u), m->groups.data[i].name.data);
    if (count)
        qsort(lines, count, sizeof *lines, compare_lines);
    double length = (double)(s->path->end_ns - s->path->start_ns);
    for (size_t i = 0; i < count && i < MAX_SHARES; i++) {
        fputs("  ", s->out);
        kc_put_name(s->out, kb_string(lines[i].name.s), 40);
        fprintf(s->out, " %10s %5.1f %%\n", kb_duration(lines[i].ns).s, 100 * (double)lines[i].ns / length);
    }
    if (count > MAX_SHARES)
        fprintf(s->out, "  … and %zu more: ckineto analyze --only rank_path\n", count - MAX_SHARES);
    free(lines);
}

static void print_clocks(const rank_screen *s)
{
    const ka_rank_model *m = &s->view->model;
    double most = 0;
    for (size_t i = 0; i < m->clocks.count; i++)
        most = kb_max_double(most, m->clocks.data[i].bar_ns);
    if (m->clocks.count > 1)
        fprintf(s->out, "  clocks of %zu hosts: aligned, ± %s at most\n", m->clocks.count, kb_duration((int64_t)most).s);
}

static void print_map(const rank_screen *s)
{
    char absent[200];
    ka_path_shares shares = {0};
    kc_put_wrapped(s->out, s->width, "  ", "  ", 0,
                   kb_string("waiting for the last rank, from none of the time to all of it: blank . : - = + * #; critical path: D "
                             "computation, H launches, T transfer, Q queue, ? not recorded"));
    if (s->cells->ranks_per_row > 1)
        fputs("  lines of several ranks are their mean\n", s->out);
    for (uint32_t row = 0; row < s->cells->row_count; row++)
        print_line(s, row);
    if (ka_share_rank_path(&s->view->model, s->path, &shares))
        print_shares(s, &shares);
    ka_path_shares_free(&shares);
    print_clocks(s);
    if (ka_say_absent(s->view, absent, sizeof absent))
        kc_put_wrapped(s->out, s->width, "  ", "  ", 0, kb_string(absent));
}

static void print_refusal(const char *why, size_t width, FILE *out)
{
    char text[320];
    kb_snprintf(text, sizeof text, "clocks are not aligned: %s; times of different hosts cannot be compared", why);
    kc_put_wrapped(out, width, "  ", "  ", 0, kb_string(text));
}

void kc_report_print_ranks(const kineto_analysis *facts, size_t width, bool bold, FILE *out)
{
    const ka_rank_view *v = facts ? ka_view_several_ranks(facts->ranks) : NULL;
    ka_rank_cells cells = {0};
    ka_rank_path path = {0};
    if (!v || !v->model.instances.count)
        return;
    fprintf(out, "\n%sRanks by time%s\n", bold ? "\033[1m" : "", bold ? "\033[0m" : "");
    size_t label = v->model.rank_count > MAX_LINES ? RANGE_COLUMNS : LABEL_COLUMNS;
    uint32_t columns = (uint32_t)KB_MIN(width - label - 5, (size_t)MAX_SLICES);
    if (v->model.refused[0])
        print_refusal(v->model.refused, width, out);
    else if (ka_make_rank_cells(&v->model, MAX_LINES, columns, &cells) && ka_find_rank_path(&v->model, &path) &&
             path.parts.count)
        print_map(&(rank_screen){out, v, &cells, &path, width, label, bold});
    ka_rank_path_free(&path);
    ka_rank_cells_free(&cells);
}
