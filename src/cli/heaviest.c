/* Of several ranks: the rows that weigh most, whichever rank they are of. Tables have those of one
 * rank after the other, or, where ranks are summed, in the order of the first one. */
#include "cli/facts.h"

#include <math.h>

/* Others are in the order of time, or have few rows. Of devices, streams are parts of the whole. */
static const kc_weight weights[] = {
    {"kernel_types", {"sum_us"}, false},
    {"kernels", {"sum_us"}, false},
    {"op_launch", {"count"}, false},
    {"sequences", {"gpu_us"}, false},
    {"annotations", {"sum_us"}, false},
    {"steps", {"dur_us"}, false},
    {"operators", {"device_self_us", "host_self_us"}, false},
    {"kernel_use", {"sum_us"}, false},
    {"kernel_operators", {"sum_us"}, false},
    {"memory_operators", {"allocation_bytes"}, false},
    {"memory_leaks", {"bytes"}, false},
    {"modules", {"host_total_us"}, false},
    {"collectives", {"dur_us"}, false},
    {"collective_groups", {"sum_us"}, false},
    {"idle_named", {"idle_us"}, true},
    {"idle_gaps", {"dur_us"}, true},
    {"idle_operators", {"idle_us"}, false},
    {"step_outliers", {"delta_us"}, false},
    {"roofline", {"device_us"}, false},
    {"mfu", {"dur_us"}, false},
    {"energy", {"joules"}, false},
    {"critical_path_summary", {"us"}, false},
    {"critical_path_operators", {"on_path_us"}, false},
    {"distributed_operators", {"latency_us"}, false},
};

const kc_weight *kc_weight_of(const char *table)
{
    for (size_t i = 0; i < KB_COUNT(weights); i++)
        if (strcmp(weights[i].table, table) == 0)
            return &weights[i];
    return NULL;
}

uint32_t kc_fact_column_of(const kineto_analysis *a, uint32_t table, const char *name)
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

typedef struct weighed {
    double by[2];
    uint64_t row;
    bool is_part;
} weighed;

static int compare_weighed(const void *left, const void *right)
{
    const weighed *a = left, *b = right;
    if (a->is_part != b->is_part)
        return a->is_part ? 1 : -1;
    for (size_t i = 0; i < KB_COUNT(a->by); i++)
        if (a->by[i] != b->by[i])
            return a->by[i] > b->by[i] ? -1 : 1;
    return (a->row > b->row) - (a->row < b->row);
}

static weighed weigh(const kineto_analysis *a, uint32_t table, uint64_t row, const kc_weight *w)
{
    weighed one = {.row = row};
    for (size_t i = 0; i < KB_COUNT(w->columns) && w->columns[i]; i++) {
        double weight =
            kc_fact_number_at(a, table, row, kc_fact_column_of(a, table, w->columns[i]));
        one.by[i] = isnan(weight) ? 0 : weight;
    }
    one.is_part = w->is_by_stream &&
                  kc_fact_number_at(a, table, row, kc_fact_column_of(a, table, "stream")) >= 0;
    return one;
}

uint64_t *kc_rows_by(const kineto_analysis *a, uint32_t table, const kc_weight *w)
{
    kineto_fact_table info;
    kineto_analysis_table(a, table, &info);
    weighed *all = malloc(info.row_count * sizeof *all + 1);
    uint64_t *rows = malloc(info.row_count * sizeof *rows + 1), count = info.row_count;
    if (!all || !rows)
        count = 0;
    for (uint64_t r = 0; r < count; r++)
        all[r] = weigh(a, table, r, w);
    if (count)
        qsort(all, count, sizeof *all, compare_weighed);
    for (uint64_t r = 0; r < count; r++)
        rows[r] = all[r].row;
    if (!all) {
        free(rows);
        rows = NULL;
    }
    free(all);
    return rows;
}
