/* The locks that threads waited for, of a recording with --waits: the table locks in short. */
#include "cli/style.h"
#include "cli/print_facts.h"
#include "cli/summary/summary.h"

/* The text of a cell; of a cell without a value "". */
static kineto_string get_text_fact(const kineto_analysis *a, uint64_t row, const char *column)
{
    kineto_fact f;
    if (!kineto_analysis_fact(a, 0, row, kc_fact_column_index(a, 0, column), &f) || f.is_none)
        return kb_string("");
    return f.text;
}

static void print_lock_row(const kineto_analysis *a, uint64_t row, FILE *out)
{
    double waits = kc_fact_number_at(a, 0, row, kc_fact_column_index(a, 0, "waits"));
    double ns = kc_fact_number_at(a, 0, row, kc_fact_column_index(a, 0, "sum_us"));
    bool ran = kc_fact_number_at(a, 0, row, kc_fact_column_index(a, 0, "runs_us")) >
               kc_fact_number_at(a, 0, row, kc_fact_column_index(a, 0, "in_us"));
    kineto_string in = get_text_fact(a, row, ran ? "holder_runs" : "holder_in");
    fputs("  ", out);
    kc_put_name(out, get_text_fact(a, row, "lock"), 40);
    fprintf(out, " %10s %12s   ", kc_count((uint64_t)waits).s, kb_duration((int64_t)ns).s);
    kc_put_name(out, get_text_fact(a, row, "holder"), 0);
    if (in.size) {
        fputs(", in ", out);
        kc_put_name(out, in, 0);
    }
    fputc('\n', out);
}

void kc_locks_print(const kineto_trace *trace, FILE *out)
{
    kineto_analysis_options options;
    kineto_analysis *a = NULL;
    kineto_fact_table table;
    kineto_analysis_options_init(&options);
    options.tables = "locks";
    if (kineto_analysis_run(trace, &options, &a, NULL) == KINETO_OK &&
        kineto_analysis_table(a, 0, &table) && table.row_count) {
        fputs("\n  ", out);
        kc_put_styled(out, KC_BOLD, "%-40s %10s %12s   %s", "locks, by waiting time", "waits", "total", "held by");
        fputc('\n', out);
        uint64_t shown = kc_count_shown(table.row_count, kc_shown_rows);
        for (uint64_t row = 0; row < shown; row++)
            print_lock_row(a, row, out);
        if (table.row_count > shown)
            kc_put_more(out, table.row_count - shown);
    }
    kineto_analysis_destroy(a);
}
