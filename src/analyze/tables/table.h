/* Tables of facts: what analyses fill, and what is added up of several ranks. */
#ifndef KA_TABLE_H
#define KA_TABLE_H

#include "base/base.h"
#include <ckineto/analyze.h>

/** Tables, in the order they are shown in. */
typedef enum ka_table_id {
#define X(name, title, flags, columns) KA_TABLE_##name,
#include "analyze/tables/tables.def"
#undef X
    KA_TABLE_COUNT
} ka_table_id;

enum {
    KA_SERIES = 1, /* a row for each event: only if asked for */
    KA_HIDDEN = 2, /* facts from which others are made when all ranks are there; never shown */
    KA_SUMMED = 4, /* without a rank: rows with the same keys become one */
    KA_DIFF = 8,   /* of two traces: only kineto_diff fills it */
};

/** What becomes of a column when rows with the same keys do. */
typedef enum ka_merge { KA_KEY, KA_SUM, KA_MIN, KA_MAX, KA_MEAN, KA_PERCENT, KA_FIRST } ka_merge;

#define KA_MOST_COLUMNS 24u
typedef struct ka_column {
    kineto_string name;
    uint8_t type;  /* kineto_cell */
    uint8_t merge; /* ka_merge */
    uint8_t of;    /* MEAN: the column with the weights; PERCENT: the one whose share it is */
} ka_column;

typedef union ka_cell {
    int64_t i; /* TEXT: id in `texts` */
    double d;
} ka_cell;
#define KA_NO_INT INT64_MIN

/** Of a row of two traces: how far its steps moved by their ranks; 0: nothing is proven. */
typedef struct ka_shift {
    double delta, pct;
} ka_shift;

/** One table under way or done. One thread fills it. */
typedef struct ka_table {
    ka_table_id id;
    bool wanted; /* by the user, or for another table */
    bool shown;
    uint32_t column_count;
    ka_column columns[KA_MOST_COLUMNS];
    KB_VEC(ka_cell) cells; /* row by row */
    uint32_t at;           /* next column of the row under way */
    kb_intern texts;
    KB_VEC(ka_shift) shifts; /* of two traces, row by row, for gates; else empty */
    char note[400];
    const char *no_streams; /* the analysis's */
    bool no_memory;         /* sticks */
} ka_table;

/** A trace that the facts are of. */
typedef struct ka_seen {
    int64_t rank;
    bool device; /* something ran on one */
} ka_seen;

struct kineto_analysis {
    uint32_t definitions;
    uint64_t sequence_top; /* sequences to show */
    uint32_t shown_count;
    uint8_t shown[KA_TABLE_COUNT]; /* ids, in order */
    KB_VEC(ka_seen) seen;          /* one after the other as they were added */
    char no_streams[288];          /* of those that were asked for; why there is no work */
    bool deferred;                 /* see ka_facts_defer */
    ka_table tables[KA_TABLE_COUNT];
};

/* ---- table.c ---- */
kineto_status ka_facts_create(kineto_analysis **out, kineto_error *err);
/** The table, if it is to be filled, else NULL. */
ka_table *ka_table_of(kineto_analysis *a, ka_table_id id);
uint64_t ka_table_rows(const ka_table *t);
uint32_t ka_table_flags(ka_table_id id);
const char *ka_table_name(ka_table_id id);
bool ka_is_none(const ka_table *t, uint32_t column, ka_cell cell);

/** Put the cells of a row, from left to right; the last one ends it. The types must be the
 * columns'. */
void ka_put_int(ka_table *t, int64_t v);
void ka_put_ns(ka_table *t, int64_t ns);
void ka_put_number(ka_table *t, double v);
void ka_put_text(ka_table *t, kineto_string s);
void ka_put_none(ka_table *t);
/** What is to be known of the table; an empty table says why it is. The first note stays. */
void ka_note(ka_table *t, const char *fmt, ...) KINETO_PRINTF(2, 3);
/** The same, behind the notes that there are. */
void ka_note_also(ka_table *t, const char *fmt, ...) KINETO_PRINTF(2, 3);

static inline ka_cell ka_cell_at(const ka_table *t, uint64_t row, uint32_t column)
{
    return t->cells.data[row * t->column_count + column];
}
static inline kineto_string ka_text_at(const ka_table *t, uint64_t row, uint32_t column)
{
    return kb_intern_get(&t->texts, (uint32_t)ka_cell_at(t, row, column).i);
}
/** "no device activity …", with what to do. NULL is fine. */
void ka_note_no_device(ka_table *t);

/* ---- table_sort.c ---- */
/** Order rows by columns: positive numbers up, negative down, 1-based; 0 ends the list. Rows that
 * are the same there keep their order. */
void ka_sort(ka_table *t, const int *by);

/* ---- table_add.c ---- */
/** Append the rows of another rank; of a table without ranks, sum. Sticks in to->no_memory. */
void ka_table_add(ka_table *to, const ka_table *from);
#endif
