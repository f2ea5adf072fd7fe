/* Adds up the spans in which ranks wait, by slices of the run. */
#include "analyze/ranks/rank_cells.h"
#include "analyze/ranks/rank_path.h"
#include "analyze/ranks/rank_skew.h"

#include <math.h>

typedef struct cell_writer {
    const ka_rank_model *m;
    ka_rank_cells *cells;
    double slice_ns;
} cell_writer;

/* A span counts in all slices that it has a part of: from and to are in slices from the begin of the run. */
static void add_span(const cell_writer *w, ka_cell_kind kind, uint32_t rank, int64_t from_ns, int64_t to_ns)
{
    ka_rank_cells *c = w->cells;
    double *row = c->shares[kind] + (size_t)(rank / c->ranks_per_row) * c->column_count;
    double from = (double)(KB_MAX(from_ns, c->start_ns) - c->start_ns) / w->slice_ns;
    double to = (double)(KB_MIN(to_ns, c->end_ns) - c->start_ns) / w->slice_ns;
    for (uint32_t i = (uint32_t)fmax(from, 0); i < c->column_count && (double)i < to; i++)
        row[i] += fmin(to, i + 1) - fmax(from, i);
}

/* A visitor of rows of collectives: waiting is from their begin on, lateness before it. */
static bool add_row(void *context, const ka_row_skew *s)
{
    const cell_writer *w = context;
    uint32_t rank = w->m->rank_of[s->row];
    add_span(w, KA_CELLS_WAITING, rank, s->start_ns, s->arrival_ns);
    add_span(w, KA_CELLS_LATE, rank, ka_add_ns(s->start_ns, -s->times.late_ns), s->start_ns);
    return true;
}

/* Sums become means. The last row may have fewer ranks. */
static void average_rows(const ka_rank_model *m, ka_rank_cells *c)
{
    for (uint32_t kind = 0; kind < KA_CELL_KINDS; kind++)
        for (uint32_t row = 0; row < c->row_count; row++) {
            uint32_t ranks = KB_MIN(c->ranks_per_row, m->rank_count - row * c->ranks_per_row);
            double *at = c->shares[kind] + (size_t)row * c->column_count;
            for (uint32_t i = 0; i < c->column_count; i++)
                at[i] = fmin(at[i] / ranks, 1);
        }
}

bool ka_make_rank_cells(const ka_rank_model *m, uint32_t max_rows, uint32_t columns, ka_rank_cells *out)
{
    *out = (ka_rank_cells){.column_count = columns, .ranks_per_row = (m->rank_count - 1) / max_rows + 1};
    if (m->refused[0] || !m->rank_count || !ka_find_run_window(m, &out->start_ns, &out->end_ns))
        return true;
    out->row_count = (m->rank_count - 1) / out->ranks_per_row + 1;
    cell_writer w = {m, out, (double)(out->end_ns - out->start_ns) / columns};
    for (uint32_t kind = 0; kind < KA_CELL_KINDS; kind++)
        if (!(out->shares[kind] = calloc((size_t)out->row_count * columns, sizeof(double))))
            return false;
    if (!ka_visit_row_skews(m, add_row, &w))
        return false;
    average_rows(m, out);
    return true;
}

void ka_rank_cells_free(ka_rank_cells *c)
{
    for (uint32_t kind = 0; kind < KA_CELL_KINDS; kind++)
        free(c->shares[kind]);
    *c = (ka_rank_cells){0};
}
