/* The order of rows: by one column after the other, those that are the same so far together. Cells
 * become numbers that are in their order, eight bytes of a text at a time: what is compared lies
 * side by side, and beginnings that texts share are passed over once. */
#include "analyze/tables/table.h"

#include <math.h>

/* A row and the number by which it is compared at the moment. */
typedef struct keyed {
    uint64_t key, row;
} keyed;

/* `rows` is sorted in place; `room` is scratch memory for merging. */
typedef struct sorting {
    const ka_table *t;
    keyed *rows, *room; /* as many */
} sorting;

/* ---- comparing, where it is the simplest ----------------------------------------------------- */

typedef struct order {
    const ka_table *t;
    const int *by;
} order;

/* By bytes; a text that is the beginning of another one comes first. */
static int compare_texts(kineto_string a, kineto_string b)
{
    int c = memcmp(a.data, b.data, KB_MIN(a.size, b.size));
    return c ? c : (a.size > b.size) - (a.size < b.size);
}

static int compare_cells(const ka_table *t, uint32_t column, uint64_t a, uint64_t b)
{
    ka_cell x = ka_cell_at(t, a, column), y = ka_cell_at(t, b, column);
    switch (t->columns[column].type) {
    case KINETO_CELL_TEXT:
        return x.i == y.i ? 0 : compare_texts(ka_text_at(t, a, column), ka_text_at(t, b, column));
    case KINETO_CELL_NUMBER:
        return (x.d > y.d) - (x.d < y.d);
    default:
        return (x.i > y.i) - (x.i < y.i);
    }
}

/* Rows that are equal in all columns keep their order. */
static int compare_table_rows(const void *left, const void *right, void *context)
{
    const order *o = context;
    const keyed *a = left, *b = right;
    for (const int *by = o->by; *by; by++) {
        int c = compare_cells(o->t, (uint32_t)(abs(*by) - 1), a->row, b->row);
        if (c)
            return *by > 0 ? c : -c;
    }
    return (a->row > b->row) - (a->row < b->row);
}

/* For few rows, deep groups, and columns with NaN. */
static void sort_by_comparing(const sorting *s, keyed *rows, size_t count, const int *by)
{
    qsort_r(rows, count, sizeof *rows, compare_table_rows, &(order){s->t, by});
}

/* ---- by key ---------------------------------------------------------------------------------- */

/* Runs of this length are sorted by insertion, then merged: faster than merging from single
 * rows. */
#define RUN 8u

static void sort_run(keyed *rows, size_t count)
{
    for (size_t i = 1; i < count; i++) {
        keyed k = rows[i];
        size_t j = i;
        for (; j > 0 && rows[j - 1].key > k.key; j--)
            rows[j] = rows[j - 1];
        rows[j] = k;
    }
}

/* Merges two sorted neighbours, [0, middle) and [middle, count). Stable: equal keys keep their
 * order. */
static void merge_runs(keyed *rows, size_t middle, size_t count, keyed *room)
{
    size_t i = 0, j = middle, at = 0;
    if (rows[middle - 1].key <= rows[middle].key)
        return;
    memcpy(room, rows, middle * sizeof *rows);
    while (i < middle)
        rows[at++] = j < count && rows[j].key < room[i].key ? rows[j++] : room[i++];
}

/* Merge sort: stable, with `room` for as many rows. */
static void sort_keys(keyed *rows, size_t count, keyed *room)
{
    for (size_t at = 0; at < count; at += RUN)
        sort_run(rows + at, KB_MIN(count - at, (size_t)RUN));
    for (size_t width = RUN; width < count; width *= 2)
        for (size_t at = 0; at + width < count; at += 2 * width)
            merge_runs(rows + at, width, KB_MIN(count - at, 2 * width), room);
}

/* A number that orders as the double does: the sign bit of positive ones is set, negative ones
 * are inverted. NaN has no place (all_have_keys). */
static uint64_t number_key(double d)
{
    uint64_t bits;
    d = d == 0 ? 0 : d; /* both zeros are one */
    memcpy(&bits, &d, sizeof bits);
    return bits >> 63 ? ~bits : bits | UINT64_C(1) << 63;
}

/* From `from` on, with zeros after the end. */
static uint64_t text_key(kineto_string s, size_t from)
{
    uint64_t key = 0;
    size_t left = from < s.size ? KB_MIN(s.size - from, sizeof key) : 0;
    for (size_t i = 0; i < left; i++)
        key |= (uint64_t)(unsigned char)s.data[from + i] << (56 - 8 * i);
    return key;
}

/* ---- groups ---------------------------------------------------------------------------------- */

/* Rows that are the same in all columns before `by`. */
typedef struct group {
    keyed *rows;
    size_t count;
    const int *by;
    size_t from; /* texts: where they begin to differ */
    bool ended;  /* texts: but for their sizes they are the same */
    uint32_t depth;
} group;

/* Groups of few rows are compared directly; so are deep ones, which bounds the recursion for
 * long common texts. */
#define FEW       6u
#define MAX_DEEP 100u
static void sort_group(const sorting *s, group g);

static kineto_string sort_text_of(const sorting *s, const group *g, size_t i)
{
    return ka_text_at(s->t, g->rows[i].row, (uint32_t)(abs(*g->by) - 1));
}

/* Length of the beginning that all texts of the group share, at least g->from. */
static size_t first_difference(const sorting *s, const group *g)
{
    kineto_string first = sort_text_of(s, g, 0);
    size_t same = KB_MAX(first.size, g->from);
    for (size_t i = 1; i < g->count && same > g->from; i++) {
        kineto_string text = sort_text_of(s, g, i);
        size_t end = KB_MAX(KB_MIN(same, text.size), g->from), at = g->from;
        while (at < end && text.data[at] == first.data[at])
            at++;
        same = at;
    }
    return same;
}

/* Sets the keys of a group of texts: eight bytes from the first difference on, or their sizes
 * if one text is the beginning of the other. */
static void key_texts(const sorting *s, group *g)
{
    if (!g->ended)
        g->from = first_difference(s, g);
    for (size_t i = 0; i < g->count; i++)
        g->rows[i].key =
            g->ended ? sort_text_of(s, g, i).size : text_key(sort_text_of(s, g, i), g->from);
}

/* Integers order as unsigned numbers once their sign bit is flipped. */
static void key_cells(const sorting *s, group *g)
{
    uint32_t column = (uint32_t)(abs(*g->by) - 1);
    bool numbers = s->t->columns[column].type == KINETO_CELL_NUMBER;
    for (size_t i = 0; i < g->count; i++) {
        ka_cell c = ka_cell_at(s->t, g->rows[i].row, column);
        g->rows[i].key = numbers ? number_key(c.d) : (uint64_t)c.i ^ UINT64_C(1) << 63;
    }
}

/* The group of rows [at, end), which have the same key: it goes on with the next eight bytes
 * of the text, with its size, or with the next column. */
static group rest_of(const sorting *s, const group *g, bool texts, size_t at, size_t end)
{
    group rest = {.rows = g->rows + at, .count = end - at, .by = g->by + 1, .depth = g->depth + 1};
    bool longer = false;
    if (!texts || g->ended)
        return rest;
    for (size_t i = at; i < end && !longer; i++)
        longer = sort_text_of(s, g, i).size > g->from + sizeof g->rows->key;
    rest.by = g->by;
    rest.from = g->from + sizeof g->rows->key;
    rest.ended = !longer;
    return rest;
}

/* Equal ids are equal texts: no text is read. */
static bool same_texts(const sorting *s, const group *g)
{
    uint32_t column = (uint32_t)(abs(*g->by) - 1);
    size_t i = 1;
    while (i < g->count &&
           ka_cell_at(s->t, g->rows[i].row, column).i == ka_cell_at(s->t, g->rows[0].row, column).i)
        i++;
    return i == g->count;
}

static void sort_group(const sorting *s, group g)
{
    while (*g.by && s->t->columns[abs(*g.by) - 1].type == KINETO_CELL_TEXT && same_texts(s, &g))
        g = (group){g.rows, g.count, g.by + 1, 0, false, g.depth};
    if (!*g.by || g.count < 2)
        return;
    if (g.count <= FEW || g.depth > MAX_DEEP) {
        sort_by_comparing(s, g.rows, g.count, g.by);
        return;
    }
    bool texts = s->t->columns[abs(*g.by) - 1].type == KINETO_CELL_TEXT;
    if (texts)
        key_texts(s, &g);
    else
        key_cells(s, &g);
    for (size_t i = 0; i < g.count && *g.by < 0; i++)
        g.rows[i].key = ~g.rows[i].key;
    sort_keys(g.rows, g.count, s->room);
    for (size_t at = 0, end; at < g.count; at = end) {
        for (end = at + 1; end < g.count && g.rows[end].key == g.rows[at].key; end++)
            ;
        if (end - at > 1)
            sort_group(s, rest_of(s, &g, texts, at, end));
    }
}

/* ---- rows ------------------------------------------------------------------------------------ */

/* Numbers that are none have no place in an order: comparing leaves them where they are. */
static bool all_have_keys(const ka_table *t, const int *by)
{
    uint64_t count = ka_table_rows(t);
    for (; *by; by++) {
        uint32_t column = (uint32_t)(abs(*by) - 1);
        for (uint64_t i = 0; t->columns[column].type == KINETO_CELL_NUMBER && i < count; i++)
            if (isnan(ka_cell_at(t, i, column).d))
                return false;
    }
    return true;
}

/* Replaces the cells of the table by `sorted`, filled in the order of `rows`. */
static void take_in_order(ka_table *t, const keyed *rows, ka_cell *sorted)
{
    uint64_t count = ka_table_rows(t);
    size_t row_bytes = t->column_count * sizeof *sorted;
    for (uint64_t i = 0; i < count; i++)
        memcpy(sorted + i * t->column_count, t->cells.data + rows[i].row * t->column_count,
               row_bytes);
    free(t->cells.data);
    t->cells.data = sorted;
    t->cells.capacity = (size_t)count * t->column_count;
}

void ka_sort(ka_table *t, const int *by)
{
    size_t count = (size_t)ka_table_rows(t);
    KB_ASSERT(t->at == 0 && t->shifts.count == 0);
    for (const int *b = by; *b; b++)
        KB_ASSERT((uint32_t)abs(*b) <= t->column_count);
    keyed *rows = malloc(2 * count * sizeof *rows + 1);
    ka_cell *sorted = malloc(count * t->column_count * sizeof *sorted + 1);
    if (!rows || !sorted) {
        t->no_memory = true;
        free(rows);
        free(sorted);
        return;
    }
    for (size_t i = 0; i < count; i++)
        rows[i].row = i;
    sorting s = {t, rows, rows + count};
    if (all_have_keys(t, by))
        sort_group(&s, (group){.rows = rows, .count = count, .by = by});
    else
        sort_by_comparing(&s, rows, count, by);
    take_in_order(t, rows, sorted);
    free(rows);
}
