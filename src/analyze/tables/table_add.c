/* Merging the tables of several ranks: rows are appended, or, in tables with KA_SUMMED, rows
 * with the same keys become one by the merge of each column (tables.def).
 *
 * Texts are ids of the table's own string table: cells of another table are converted first. */
#include "analyze/tables/table.h"

#include <math.h>

/* A cell of `from` for `to`: texts get the id of the same text in to's string table. */
static ka_cell convert_cell(ka_table *to, const ka_table *from, uint32_t column, ka_cell cell)
{
    if (to->columns[column].type != KINETO_CELL_TEXT || ka_is_none(from, column, cell))
        return cell;
    uint32_t id = kb_intern_id(&to->texts, kb_intern_get(&from->texts, (uint32_t)cell.i));
    to->no_memory |= id == KB_INTERN_NONE;
    return (ka_cell){.i = id};
}

/* Rows of `from` after those of `to`, in the same order. */
static void append_table_rows(ka_table *to, const ka_table *from)
{
    if (!kb_vec_reserve(&to->cells, to->cells.count + from->cells.count)) {
        to->no_memory = true;
        return;
    }
    for (size_t i = 0; i < from->cells.count; i++)
        to->cells.data[to->cells.count++] =
            convert_cell(to, from, (uint32_t)(i % from->column_count), from->cells.data[i]);
}

/* ---- the same keys --------------------------------------------------------------------------- */

/* Cells of type TEXT are ids of one table: equal texts have equal ids. */
static uint64_t hash_row_keys(const ka_table *t, const ka_cell *row)
{
    uint64_t hash = 0;
    for (uint32_t c = 0; c < t->column_count; c++)
        if (t->columns[c].merge == KA_KEY)
            hash = kb_hash_seeded(hash, &row[c], sizeof row[c]);
    return hash;
}

/* Compares cells of the key columns, of rows in one table. */
static bool same_keys(const ka_table *t, const ka_cell *a, const ka_cell *b)
{
    for (uint32_t c = 0; c < t->column_count; c++)
        if (t->columns[c].merge == KA_KEY && memcmp(&a[c], &b[c], sizeof a[c]) != 0)
            return false;
    return true;
}

/* A cell without a value counts as 0. */
static double cell_as_number(const ka_table *t, uint32_t column, ka_cell cell)
{
    if (ka_is_none(t, column, cell))
        return 0;
    return t->columns[column].type == KINETO_CELL_NUMBER ? cell.d : (double)cell.i;
}

/* Integers are rounded to the nearest. */
static ka_cell cell_from_number(const ka_table *t, uint32_t column, double v)
{
    return t->columns[column].type == KINETO_CELL_NUMBER ? (ka_cell){.d = v}
                                                         : (ka_cell){.i = llround(v)};
}

/* Saturates. INT64_MIN is KA_NO_INT, so the smallest sum is one more. */
static ka_cell sum_cells(const ka_table *t, uint32_t column, ka_cell a, ka_cell b)
{
    int64_t sum;
    if (t->columns[column].type == KINETO_CELL_NUMBER)
        return (ka_cell){.d = a.d + b.d};
    if (__builtin_add_overflow(a.i, b.i, &sum))
        sum = b.i > 0 ? INT64_MAX : INT64_MIN + 1;
    return (ka_cell){.i = sum};
}

/* Mean of two means, weighted with the column `of`. merge_row computes all columns before it
 * stores any: both rows still have their own weights. */
static ka_cell mean_of_cells(const ka_table *t, uint32_t column, const ka_cell *a, const ka_cell *b)
{
    uint32_t of = t->columns[column].of;
    KB_ASSERT(t->columns[column].merge == KA_MEAN && of < t->column_count);
    double x = cell_as_number(t, of, a[of]), y = cell_as_number(t, of, b[of]);
    double sum =
        cell_as_number(t, column, a[column]) * x + cell_as_number(t, column, b[column]) * y;
    return cell_from_number(t, column, x + y > 0 ? sum / (x + y) : 0);
}

/* A cell without a value leaves the other one as it is. */
static ka_cell merge_cells(const ka_table *t, uint32_t c, const ka_cell *a, const ka_cell *b)
{
    if (ka_is_none(t, c, a[c]) || ka_is_none(t, c, b[c]))
        return ka_is_none(t, c, a[c]) ? b[c] : a[c];
    double x = cell_as_number(t, c, a[c]), y = cell_as_number(t, c, b[c]);
    switch (t->columns[c].merge) {
    case KA_SUM:
        return sum_cells(t, c, a[c], b[c]);
    case KA_MIN:
        return x <= y ? a[c] : b[c];
    case KA_MAX:
        return x >= y ? a[c] : b[c];
    case KA_MEAN:
        return mean_of_cells(t, c, a, b);
    default:
        return a[c];
    }
}

/* Merges row `b` into row `a`, column by column. */
static void merge_row(const ka_table *t, ka_cell *a, const ka_cell *b)
{
    ka_cell fresh[KA_MAX_COLUMNS];
    for (uint32_t c = 0; c < t->column_count; c++)
        fresh[c] = merge_cells(t, c, a, b);
    memcpy(a, fresh, t->column_count * sizeof *a);
}

/* Row with the same keys as `row`; UINT64_MAX if there is none, and `number` was entered as
 * this row. A hash that belongs to other keys is resolved by the next one. */
static uint64_t find_or_claim(ka_table *t, kb_map *rows, const ka_cell *row, uint64_t number)
{
    for (uint64_t hash = hash_row_keys(t, row);; hash++) {
        bool created = false;
        uint64_t *at = kb_map_insert(rows, hash, number, &created);
        t->no_memory |= !at;
        if (!at || created)
            return UINT64_MAX;
        if (same_keys(t, t->cells.data + *at * t->column_count, row))
            return *at;
    }
}

/* `row` has ids of t's own texts already. */
static void merge_or_append_row(ka_table *t, kb_map *rows, const ka_cell *row)
{
    uint64_t at = find_or_claim(t, rows, row, ka_table_rows(t));
    if (at != UINT64_MAX) {
        merge_row(t, t->cells.data + at * t->column_count, row);
        return;
    }
    for (uint32_t c = 0; c < t->column_count; c++)
        t->no_memory |= !kb_vec_push(&t->cells, row[c]);
}

/* Shares cannot be merged: they are computed again from the merged column `of`. */
static void recompute_percent(ka_table *t, uint32_t column)
{
    uint32_t of = t->columns[column].of;
    KB_ASSERT(of < t->column_count && of != column);
    double sum = 0;
    for (uint64_t r = 0; r < ka_table_rows(t); r++)
        sum += cell_as_number(t, of, ka_cell_at(t, r, of));
    for (uint64_t r = 0; r < ka_table_rows(t); r++)
        t->cells.data[r * t->column_count + column] = cell_from_number(
            t, column, sum > 0 ? 100 * cell_as_number(t, of, ka_cell_at(t, r, of)) / sum : 0);
}

/* Linear in the rows of both tables: the rows of `to` are entered into a map first. */
static void sum_tables(ka_table *to, const ka_table *from)
{
    kb_map rows = {0};
    ka_cell row[KA_MAX_COLUMNS];
    for (uint64_t r = 0; r < ka_table_rows(to); r++)
        (void)find_or_claim(to, &rows, to->cells.data + r * to->column_count, r);
    for (uint64_t r = 0; r < ka_table_rows(from) && !to->no_memory; r++) {
        for (uint32_t c = 0; c < from->column_count; c++)
            row[c] = convert_cell(to, from, c, ka_cell_at(from, r, c));
        merge_or_append_row(to, &rows, row);
    }
    kb_map_free(&rows);
    for (uint32_t c = 0; c < to->column_count && !to->no_memory; c++)
        if (to->columns[c].merge == KA_PERCENT)
            recompute_percent(to, c);
}

void ka_table_add(ka_table *to, const ka_table *from)
{
    KB_ASSERT(to != from && to->id == from->id && to->at == 0 && from->at == 0);
    if (ka_table_flags(to->id) & KA_SUMMED)
        sum_tables(to, from);
    else
        append_table_rows(to, from);
    if (!to->note[0])
        memcpy(to->note, from->note, sizeof to->note);
}
