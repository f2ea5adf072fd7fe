/* Tables of facts and the health of traces on a terminal. Widths are computed from the rows
 * that are shown; all texts of traces are printed through kc_put_name, which escapes control
 * characters. */
#include "cli/print_facts.h"
#include "analyze/ranks/rank_set.h"
#include "analyze/ranks/rank_warnings.h"
#include "analyze/tables/table.h"
#include "cli/print_table.h"
#include "cli/style.h"
#include "trace/trace.h"

#include <ckineto/files.h>

/* ---- health ---------------------------------------------------------------------------------- */

/* Lines of health that are shown; the others are only counted. */
#define MAX_LINES 12u

/* Appends a complete line, including its line break. Out of memory counts as a line that is
 * left out. */
static void add_health_line(kc_health *h, const char *text, size_t size)
{
    if (h->line_count == MAX_LINES || !kb_vec_reserve(&h->lines, h->lines.count + size)) {
        h->lines_left_out++;
        return;
    }
    memcpy(h->lines.data + h->lines.count, text, size);
    h->lines.count += size;
    h->line_count++;
}

/* One line for a finding of `verify`; `rank` < 0: the trace is the only one. */
static void add_finding(kc_health *h, const ka_health_line *line, int32_t rank)
{
    char *text = NULL;
    size_t size = 0;
    FILE *out = open_memstream(&text, &size);
    if (!out)
        return;
    fprintf(out, "  %-7s ", kineto_severity_name(line->severity));
    if (rank >= 0)
        fprintf(out, "rank %d: ", rank);
    fprintf(out, "%.*s: ", (int)line->rule.size, line->rule.data);
    kc_put_name(out, line->sentence, 0);
    fputc('\n', out);
    if (fclose(out) == 0)
        add_health_line(h, text, size);
    free(text);
}

void kc_health_add_measured(kc_health *h, const ka_trace_health *one, int32_t rank)
{
    if (ka_coverage_merge(&h->coverage, &one->coverage) && one->coverage.traces.count)
        rank = KB_MIN(rank, (int32_t)h->coverage.traces.data[h->coverage.traces.count - 1].rank);
    h->activities += one->activities;
    h->lost += one->lost;
    h->is_cut = h->is_cut || one->is_cut;
    for (uint32_t i = 0; i < 3; i++)
        h->findings[i] += one->findings[i];
    for (uint32_t i = 0; i < one->line_count; i++)
        add_finding(h, &one->lines[i], rank);
    h->lines_left_out += one->warnings - one->line_count;
}

void kc_health_add(kc_health *h, const kineto_trace *trace, int32_t rank)
{
    ka_trace_health one;
    (void)ka_measure_health(trace, rank >= 0 ? &rank : NULL, &one);
    kc_health_add_measured(h, &one, rank);
    ka_trace_health_free(&one);
}

void kc_health_print(const kc_health *h, FILE *out)
{
    char coverage[400];
    uint64_t traces = h->coverage.traces.count;
    ka_coverage_describe(&h->coverage, coverage, sizeof coverage);
    if (*coverage)
        kc_put_wrapped(out, kc_page_width(out), "", "", 0, kb_string(coverage));
    fprintf(out, "%s %s, %s %s", kc_count(traces).s, kc_noun(traces, "trace", "traces"), kc_count(h->activities).s,
            kc_noun(h->activities, "activity", "activities"));
    fprintf(out, ", %s lost.\n", kc_lost_text(h->lost, h->is_cut).s);
    for (size_t at = 0; at < h->lines.count;) {
        size_t size = strcspn(h->lines.data + at, "\n");
        kc_put_wrapped(out, kc_page_width(out), "  ", "          ", 0,
                       (kineto_string){h->lines.data + at + 2, size - KB_MIN(size, (size_t)2)});
        at += size + 1;
    }
    if (h->lines_left_out)
        fprintf(out, "  %s… and %s more: 'ckineto verify' has them%s\n", kc_paint(out, KC_DIM),
                kc_count(h->lines_left_out).s, kc_paint(out, KC_PLAIN));
}

void kc_print_rank_warnings(const kineto_analysis *a, FILE *out)
{
    char text[400];
    const ka_rank_view *v = a ? ka_view_several_ranks(a->ranks) : NULL;
    if (v && ka_warn_of_mismatches(v, text, sizeof text))
        kc_put_wrapped(out, kc_page_width(out), "Collectives differ: ", "  ", 0, kb_string(text));
    if (v && ka_warn_of_clocks(v, text, sizeof text))
        kc_put_wrapped(out, kc_page_width(out), "R", "  ", 0, kb_string(text + 1)); /* "Ranks …" */
}

void kc_health_free(kc_health *h)
{
    kb_vec_free(&h->lines);
    ka_coverage_free(&h->coverage);
}

/* ---- tables ---------------------------------------------------------------------------------- */

/* Title, note, and at most `limit` rows (0: all). Where only a part of the rows of several
 * ranks is shown, these are the rows with the largest weight. */
static void print_fact_table(const kineto_analysis *a, uint32_t table, uint64_t limit, bool several,
                             FILE *out)
{
    kineto_fact_table info;
    kineto_analysis_table(a, table, &info);
    const ka_table *t = ka_shown_table(a, table);
    bool by_weight = several && ka_has_weight(t);
    uint64_t rows = limit ? KB_MIN(limit, info.row_count) : info.row_count;
    bool fits = strlen(info.title) + strlen(info.name) + strlen(" ()") <= kc_page_width(out);
    fprintf(out, "\n%s%s%s%s(%s)\n", kc_paint(out, KC_BOLD), info.title, kc_paint(out, KC_PLAIN), fits ? " " : "\n  ",
            info.name);
    if (info.note.size)
        kc_put_wrapped(out, kc_page_width(out), "  ", "  ", 0, info.note);
    uint64_t *order = by_weight && rows < info.row_count ? ka_rows_by_weight(t) : NULL;
    kc_table_view view = {.table = t,
                          .facts = a,
                          .order = order,
                          .rows = rows,
                          .width = kc_page_width(out),
                          .terminal = out};
    if (rows)
        kc_table_print(&view, out);
    free(order);
    if (rows < info.row_count)
        fprintf(out, "  %s… %s more %s%s\n", kc_paint(out, KC_DIM),
                kc_count(info.row_count - rows).s,
                kc_noun(info.row_count - rows, "row: --top 0 or --csv DIR has it", "rows: --top 0 or --csv DIR has them"),
                kc_paint(out, KC_PLAIN));
}

/* Tables that most traces do not have, and that nobody asked for. */
static bool is_silent(const kineto_analysis *a, uint32_t table)
{
    return ka_shown_table(a, 1) && ka_table_flags(ka_shown_table(a, table)->id) & KA_SILENT;
}

/* What comparing ranks is for: printed before the tables that it is made of, also where it found nothing. */
static bool is_answer(const kineto_analysis *a, uint32_t table)
{
    const ka_table *t = ka_shown_table(a, table);
    return t && (t->id == KA_TABLE_rank_causes || t->id == KA_TABLE_rank_damage);
}

/* Is it an empty table of which a word is said? */
static bool is_worth_a_word(const kineto_analysis *a, bool several, uint32_t table, kineto_fact_table *info)
{
    return kineto_analysis_table(a, table, info) && !info->row_count && !is_silent(a, table) &&
           !(several && is_answer(a, table));
}

/* Is this the first empty table with its reason? */
static bool is_first_with_reason(const kineto_analysis *a, bool several, uint32_t table)
{
    kineto_fact_table info, other;
    if (!is_worth_a_word(a, several, table, &info))
        return false;
    for (uint32_t j = 0; j < table; j++)
        if (is_worth_a_word(a, several, j, &other) && kb_string_equal(other.note, info.note))
            return false;
    return true;
}

static void print_reason(const kineto_analysis *a, bool several, uint32_t table, FILE *out)
{
    kineto_fact_table info, other;
    kineto_analysis_table(a, table, &info);
    char *names = NULL;
    size_t size = 0;
    FILE *list = open_memstream(&names, &size);
    if (!list)
        return;
    for (uint32_t j = table, n = 0; kineto_analysis_table(a, j, &other); j++)
        if (is_worth_a_word(a, several, j, &other) && kb_string_equal(other.note, info.note))
            fprintf(list, "%s%s", n++ ? ", " : "", other.name);
    fputc(':', list);
    if (fclose(list) == 0)
        kc_put_wrapped(out, kc_page_width(out), "\nNo ", "   ", 0, (kineto_string){names, size});
    free(names);
    kc_put_wrapped(out, kc_page_width(out), "  ", "  ", 0,
                   info.note.size ? info.note : kb_string("none in this trace"));
}

/* Only the names: for programs of quite another kind, whose reasons would fill a page. */
static void print_empty_names(const kineto_analysis *a, bool several, FILE *out)
{
    kineto_fact_table info;
    uint32_t used = 0;
    fputs("\nNothing in this trace for ('--only NAME' says why):", out);
    for (uint32_t i = 0; kineto_analysis_table(a, i, &info); i++) {
        if (!is_worth_a_word(a, several, i, &info))
            continue;
        bool is_new_line = used + strlen(info.name) + 1 > 76 || !used;
        used = is_new_line ? 1 : used + 1;
        fprintf(out, "%s%s", is_new_line ? "\n  " : " ", info.name);
        used += (uint32_t)strlen(info.name);
    }
    fputc('\n', out);
}

/* A line for each reason why tables are empty, with the names of the tables that share it. */
static void print_empty(const kineto_analysis *a, bool several, FILE *out)
{
    enum { MANY_REASONS = 8 };
    kineto_fact_table info;
    uint32_t reasons = 0;
    bool has_threads = false; /* watched from outside: there is something else to look at */
    for (uint32_t i = 0; kineto_analysis_table(a, i, &info); i++) {
        reasons += is_first_with_reason(a, several, i);
        has_threads |= ka_shown_table(a, i)->id == KA_TABLE_thread_states && info.row_count;
    }
    if (reasons > MANY_REASONS && has_threads) {
        print_empty_names(a, several, out);
        return;
    }
    for (uint32_t i = 0; kineto_analysis_table(a, i, &info); i++)
        if (is_first_with_reason(a, several, i))
            print_reason(a, several, i, out);
}

void kc_facts_print(const kineto_analysis *a, uint64_t limit, bool several, FILE *out)
{
    kineto_fact_table info;
    for (uint32_t i = 0; kineto_analysis_table(a, i, &info); i++)
        if (is_answer(a, i) && (info.row_count || several))
            print_fact_table(a, i, limit, several, out);
    for (uint32_t i = 0; kineto_analysis_table(a, i, &info); i++)
        if (!is_answer(a, i) && info.row_count)
            print_fact_table(a, i, limit, several, out);
    print_empty(a, several, out);
}

uint32_t kc_fact_column_index(const kineto_analysis *a, uint32_t table, const char *name)
{
    kineto_fact_column column;
    for (uint32_t c = 0; kineto_analysis_column(a, table, c, &column); c++)
        if (kb_string_equal(column.name, kb_string(name)))
            return c;
    return UINT32_MAX;
}

double kc_fact_number_at(const kineto_analysis *a, uint32_t table, uint64_t row, uint32_t column)
{
    kineto_fact f;
    if (!kineto_analysis_fact(a, table, row, column, &f) || f.is_none)
        return 0;
    return f.type == KINETO_CELL_NUMBER ? f.d : (double)f.i;
}
