/* The order in which rows of several ranks are printed. Tables have the rows of one rank after
 * those of the other, or, where ranks are merged, in the order of the first rank: on a terminal,
 * which shows only some rows, the largest of all ranks come first. The columns that decide are
 * those with a WEIGHT in tables.def. */
#include "analyze/tables/table.h"

#include <math.h>

#define MAX_WEIGHTS 2u

/* Numbers by which a row is ordered, so that cells are read once. */
typedef struct weighted_row {
    double weights[MAX_WEIGHTS];
    uint64_t row;
    bool is_part; /* of a whole device, whose rows come first */
} weighted_row;

typedef struct row_weights {
    uint32_t columns[MAX_WEIGHTS], count;
    uint32_t whole; /* the column with WHOLE_DEVICE_FIRST; UINT32_MAX: none */
} row_weights;

/* Columns with WEIGHT(1) and WEIGHT(2), and the one with WHOLE_DEVICE_FIRST, of a table's
 * declaration. */
static row_weights find_weights(const ka_table *t)
{
    row_weights w = {.whole = UINT32_MAX};
    for (uint32_t c = 0; c < t->column_count; c++) {
        const ka_column *column = &t->columns[c];
        KB_ASSERT(column->weight <= MAX_WEIGHTS);
        if (column->weight) {
            w.columns[column->weight - 1] = c;
            w.count = KB_MAX(w.count, column->weight);
        }
        if (column->is_whole_first)
            w.whole = c;
    }
    return w;
}

bool ka_has_weight(const ka_table *t) { return find_weights(t).count > 0; }

static int compare_weights(const void *left, const void *right)
{
    const weighted_row *a = left, *b = right;
    if (a->is_part != b->is_part)
        return a->is_part ? 1 : -1;
    for (size_t i = 0; i < MAX_WEIGHTS; i++)
        if (a->weights[i] != b->weights[i])
            return a->weights[i] > b->weights[i] ? -1 : 1;
    return (a->row > b->row) - (a->row < b->row);
}

/* Cells without a value weigh nothing. */
static double weight_at(const ka_table *t, uint64_t row, uint32_t column)
{
    ka_cell cell = ka_cell_at(t, row, column);
    if (ka_is_none(t, column, cell))
        return 0;
    return t->columns[column].type == KINETO_CELL_NUMBER ? cell.d : (double)cell.i;
}

/* Reads the weights of one row; is_part for rows that are not of a whole device. */
static weighted_row weigh_row(const ka_table *t, uint64_t row, const row_weights *w)
{
    weighted_row r = {.row = row};
    for (uint32_t i = 0; i < w->count; i++)
        r.weights[i] = weight_at(t, row, w->columns[i]);
    r.is_part = w->whole != UINT32_MAX && ka_cell_at(t, row, w->whole).i >= 0;
    return r;
}

/* Row numbers, the largest weight first; the caller frees them. NULL: out of memory. */
static uint64_t *sort_rows(const ka_table *t, const row_weights *w)
{
    uint64_t count = ka_table_rows(t);
    weighted_row *weighted = malloc(count * sizeof *weighted + 1);
    uint64_t *rows = malloc(count * sizeof *rows + 1);
    if (!weighted || !rows) {
        free(weighted);
        free(rows);
        return NULL;
    }
    for (uint64_t r = 0; r < count; r++)
        weighted[r] = weigh_row(t, r, w);
    if (count)
        qsort(weighted, count, sizeof *weighted, compare_weights);
    for (uint64_t r = 0; r < count; r++)
        rows[r] = weighted[r].row;
    free(weighted);
    return rows;
}

uint64_t *ka_rows_by_weight(const ka_table *t)
{
    row_weights w = find_weights(t);
    return sort_rows(t, &w);
}

uint64_t *ka_rows_by_column(const ka_table *t, uint32_t column)
{
    KB_ASSERT(column < t->column_count || column == UINT32_MAX);
    row_weights w = {.columns = {column}, .count = column != UINT32_MAX, .whole = UINT32_MAX};
    return sort_rows(t, &w);
}
