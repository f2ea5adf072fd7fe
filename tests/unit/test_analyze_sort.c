/* Rows of tables in order: what is expected is what comparing row with row says. */
#include "analyze/facts/analyses.h"
#include "unit.h"

#include "analyze/tables/table.h"

/* Texts that begin alike, end early, and hold zeros. */
static kineto_string random_text(uint64_t *state, char *buf)
{
    static const char front[] = "torch/nn/modules/module.py(1099): _call_impl;nn.Module: ";
    size_t size = next_random(state) % 3 ? sizeof front - 1 : next_random(state) % sizeof front;
    memcpy(buf, front, size);
    for (uint64_t n = next_random(state) % 12; n > 0; n--)
        buf[size++] = "\0ab\xff"[next_random(state) % 4];
    return (kineto_string){buf, size};
}

/* Any table: its columns are given anew. */
static ka_table *table_of(kineto_analysis *a)
{
    static const ka_column columns[] = {{.type = KINETO_CELL_INT},
                                        {.type = KINETO_CELL_TEXT},
                                        {.type = KINETO_CELL_NUMBER},
                                        {.type = KINETO_CELL_TEXT},
                                        {.type = KINETO_CELL_INT}};
    ka_table *t = &a->tables[0];
    t->wanted = true;
    t->column_count = KB_COUNT(columns);
    t->columns = columns;
    return t;
}

static void fill(ka_table *t, uint32_t rows, uint64_t state, bool with_none)
{
    static const double numbers[] = {-0.0, 0.0, -1.5, 1e300, -1e300, 0.25};
    char buf[200];
    for (uint32_t i = 0; i < rows; i++) {
        ka_put_int(t, (int64_t)(next_random(&state) % 4) - 2);
        ka_put_text(t, random_text(&state, buf));
        if (with_none && i % 7 == 0)
            ka_put_none(t);
        else
            ka_put_number(t, numbers[next_random(&state) % KB_COUNT(numbers)]);
        ka_put_text(t, random_text(&state, buf));
        ka_put_int(t, i);
    }
}

static int compare_texts(kineto_string a, kineto_string b)
{
    int c = memcmp(a.data, b.data, KB_MIN(a.size, b.size));
    return c ? c : (a.size > b.size) - (a.size < b.size);
}

static int compare_cells(const ka_table *t, uint64_t a, uint64_t b, uint32_t column)
{
    ka_cell x = ka_cell_at(t, a, column), y = ka_cell_at(t, b, column);
    if (t->columns[column].type == KINETO_CELL_TEXT)
        return compare_texts(ka_text_at(t, a, column), ka_text_at(t, b, column));
    if (t->columns[column].type == KINETO_CELL_NUMBER)
        return (x.d > y.d) - (x.d < y.d);
    return (x.i > y.i) - (x.i < y.i);
}

static void assert_in_order(const ka_table *t, const int *by)
{
    for (uint64_t i = 1; i < ka_table_rows(t); i++) {
        int c = 0;
        for (const int *b = by; *b && !c; b++)
            c = compare_cells(t, i - 1, i, (uint32_t)(abs(*b) - 1)) * (*b > 0 ? 1 : -1);
        assert_true(c < 0 || (c == 0 && ka_cell_at(t, i - 1, 4).i < ka_cell_at(t, i, 4).i));
    }
}

static void sort_and_check(uint32_t rows, uint64_t seed, const int *by)
{
    kineto_analysis *a;
    assert_int_equal(ka_facts_create(&a, NULL), KINETO_OK);
    ka_table *t = table_of(a);
    fill(t, rows, seed + 1, false);
    ka_sort(t, by);
    assert_int_equal(ka_table_rows(t), rows);
    assert_in_order(t, by);
    kineto_analysis_destroy(a);
}

static void rows_come_in_the_order_of_their_columns(void **state)
{
    static const int orders[][5] = {{1, 2, 0},  {-1, -2, 0},   {2, -4, 1, 0},
                                    {-4, 3, 0}, {-3, 4, 2, 0}, {0}};
    (void)state;
    for (uint32_t seed = 0; seed < 20; seed++)
        for (size_t i = 0; i < KB_COUNT(orders); i++) {
            sort_and_check(seed, seed, orders[i]);
            sort_and_check(500 + 37 * seed, seed, orders[i]);
        }
}

/* Each text is the beginning of the next one. */
static void texts_that_grow_are_in_order(void **state)
{
    kineto_analysis *a;
    char text[3000];
    (void)state;
    memset(text, 'x', sizeof text);
    assert_int_equal(ka_facts_create(&a, NULL), KINETO_OK);
    ka_table *t = table_of(a);
    for (uint32_t i = 0; i < sizeof text; i++) {
        ka_put_int(t, 0);
        ka_put_text(t, (kineto_string){text, (i * 1009) % sizeof text});
        ka_put_number(t, 0);
        ka_put_text(t, (kineto_string){text, i});
        ka_put_int(t, i);
    }
    ka_sort(t, (const int[]){2, 4, 0});
    assert_in_order(t, (const int[]){2, 4, 0});
    kineto_analysis_destroy(a);
}

static void cells_without_a_number_lose_no_row(void **state)
{
    kineto_analysis *a;
    uint64_t sum = 0;
    (void)state;
    assert_int_equal(ka_facts_create(&a, NULL), KINETO_OK);
    ka_table *t = table_of(a);
    fill(t, 700, 3, true);
    ka_sort(t, (const int[]){-3, 2, 0});
    for (uint64_t i = 0; i < ka_table_rows(t); i++)
        sum += (uint64_t)ka_cell_at(t, i, 4).i;
    assert_int_equal(sum, 699 * 700 / 2);
    kineto_analysis_destroy(a);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rows_come_in_the_order_of_their_columns),
        cmocka_unit_test(texts_that_grow_are_in_order),
        cmocka_unit_test(cells_without_a_number_lose_no_row),
    };
    return RUN_TESTS(tests);
}
