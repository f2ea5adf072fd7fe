/* Tables of facts: analyses fill them, reductions and kineto_analysis_add merge those of several
 * ranks, findings and exporters read them. All tables and columns are declared in tables.def, from
 * which this header makes the ids and columns as enums. */
#ifndef KA_TABLE_H
#define KA_TABLE_H

#include "base/base.h"
#include <ckineto/analyze.h>

/** Tables, in the order they are shown in. */
typedef enum ka_table_id {
#define TABLE(id, ...) KA_TABLE_##id,
#include "analyze/tables/tables.def"
    KA_TABLE_COUNT
} ka_table_id;

/* Columns of each table: KA_COL_<table>_<column> is the index of a column, KA_COLUMNS_OF_<table>
 * how many there are. A misspelt column does not compile. */
#define TABLE(id, ...)             enum {
#define COLUMN(table, column, ...) KA_COL_##table##_##column,
#define END_TABLE(id)              KA_COLUMNS_OF_##id };
#include "analyze/tables/tables.def"

/** A set of tables: a bit for each ka_table_id. */
__extension__ typedef unsigned __int128 ka_table_set;
#define KA_TABLE_BIT(id) ((ka_table_set)1 << (id))
_Static_assert(KA_TABLE_COUNT <= 128, "ka_table_set has a bit for each table");

/** Flags of tables.def. */
enum {
    KA_PER_EVENT = 1, /* a row for each event: only on request (--series, --csv, --json) */
    KA_HIDDEN = 2,    /* input of reductions when all ranks are there; never shown */
    KA_SUMMED = 4,    /* several ranks: rows with the same keys are merged, there is no rank */
    KA_DIFF = 8,      /* of two traces: only kineto_diff_run fills it */
    KA_SHOWN_BY_DEFAULT = 16,  /* `ckineto analyze` prints it without options */
    KA_SILENT = 64,   /* no word is said of it when it is empty */
    KA_RUN_FIRST = 32 /* its analysis needs the most memory: it runs before all others */
};

/** Sections of the report. */
#define KA_SECTIONS(X)                                                                             \
    X(overview) X(operators) X(kernels) X(memory) X(modules) X(collectives) X(critical) X(cpu)
typedef enum ka_section {
    KA_SECTION_NONE,
#define X(id) KA_SECTION_##id,
    KA_SECTIONS(X)
#undef X
        KA_SECTION_COUNT
} ka_section;

/* What becomes of a column when rows with the same keys are merged. Means need the weights of
 * both rows (ka_column.of), and percentages are computed again from their sum. */
typedef enum ka_merge { KA_KEY, KA_SUM, KA_MIN, KA_MAX, KA_MEAN, KA_PERCENT, KA_FIRST } ka_merge;

/* Units of columns, for heads of reports and for readers of JSON. Columns of type NS hold
 * nanoseconds, but are written as microseconds, hence KA_UNIT_US. */
typedef enum ka_unit {
    KA_UNIT_TEXT,
    KA_UNIT_NONE,
    KA_UNIT_US,
    KA_UNIT_PERCENT,
    KA_UNIT_GBPS,
    KA_UNIT_TFLOPS,
    KA_UNIT_FLOP,
    KA_UNIT_BYTES,
    KA_UNIT_JOULES,
    KA_UNIT_WATTS
} ka_unit;

/** A column as tables.def declares it. */
typedef struct ka_column {
    kineto_string name;
    uint8_t type;   /* kineto_cell */
    uint8_t unit;   /* ka_unit */
    uint8_t merge;  /* ka_merge */
    uint8_t of;     /* KA_MEAN: the column with the weights; KA_PERCENT: the column of the sum */
    uint8_t weight; /* 1: rows of several ranks are printed by this column; 2: then by this one */
    bool is_moment; /* a time, not a length: people read it from the begin of the trace */
    bool is_whole_first; /* rows with -1 here are printed before all others */
} ka_column;

/** A table as tables.def declares it. */
typedef struct ka_table_spec {
    const char *name, *title, *definition;
    const char *page; /* of docs/, with its anchor */
    uint32_t flags;
    uint8_t section, place; /* of the report: ka_section, and the place in it, from 1 */
    uint8_t column_count;
    const ka_column *columns;
} ka_table_spec;
#define KA_MAX_COLUMNS 24u

/* A cell; the type of its column says which member counts. Without a value: KA_NO_INT, or NaN. */
typedef union ka_cell {
    int64_t i; /* TEXT: id in `texts` */
    double d;
} ka_cell;
#define KA_NO_INT INT64_MIN

/** Of a row of two traces: how far its steps moved by their ranks, or its typical calls; 0: nothing is proven. */
typedef struct ka_shift {
    double delta, pct;
    bool by_calls;
    bool has_calls; /* typical calls were compared, whatever they prove: their difference and its 95 % interval */
    double calls_pct, calls_low_pct, calls_high_pct;
    double gap_pct; /* by so much at least each run after differs from each run before; 0: by nothing, or too few runs */
} ka_shift;

/** The rows of one table. One analysis, on one thread, fills it, cell by cell. */
typedef struct ka_table {
    ka_table_id id;
    bool wanted; /* by the user, or as input of a reduction */
    bool shown;
    uint32_t column_count;
    const ka_column *columns; /* of its ka_table_spec */
    KB_VEC(ka_cell) cells;    /* row by row; complete rows only where `at` is 0 */
    uint32_t at;              /* next column of the row that is being written */
    kb_intern texts;          /* cells of type TEXT are ids of these */
    KB_VEC(ka_shift) shifts; /* of two traces, row by row, for gates; else empty */
    char note[400];
    const char *no_streams; /* the analysis's */
    bool no_memory;         /* sticks */
} ka_table;

/** A trace that the facts are of. */
typedef struct ka_seen {
    int64_t rank;
    int64_t start_ns; /* of its window */
    bool device;      /* something ran on one */
} ka_seen;

/* The facts of one or more traces. All tables exist; those that are not wanted stay empty.
 * Analyses of one trace write disjoint tables from several threads; adding and reductions run
 * on one. */
struct kineto_analysis {
    uint32_t definitions;
    uint64_t sequence_top; /* how many sequences to show */
    uint32_t shown_count;
    uint8_t shown[KA_TABLE_COUNT]; /* ids, in order */
    KB_VEC(ka_seen) seen;          /* the traces, in the order in which they were added */
    char no_streams[288]; /* why there is no device work, if the requested streams do not exist */
    bool deferred;        /* reductions run only in ka_facts_complete */
    struct ka_rank_set *ranks; /* what comparing ranks needs; NULL: no table needs it */
    ka_table tables[KA_TABLE_COUNT];
};

/* ---- table.c --------------------------------------------------------------------------------- */
/** The table, if it is to be filled, else NULL. */
ka_table *ka_table_of(kineto_analysis *a, ka_table_id id);
/** The shown table with this index; NULL: there are not as many. */
const ka_table *ka_shown_table(const kineto_analysis *a, uint32_t index);
uint64_t ka_table_rows(const ka_table *t);
const ka_table_spec *ka_table_spec_of(ka_table_id id);
uint32_t ka_table_flags(ka_table_id id);
const char *ka_table_name(ka_table_id id);
/** Tables with any of these flags. */
ka_table_set ka_tables_with(uint32_t flags);
/** "us", "%", ...; "number" where there is no unit. */
const char *ka_unit_name(ka_unit unit);
const char *ka_section_name(ka_section section);
/** Index of a column that must exist: for tables that are chosen at run time. Where the table is
 * known, KA_COL_<table>_<column> costs nothing. */
uint32_t ka_fact_column(const ka_table *t, const char *name);
bool ka_is_none(const ka_table *t, uint32_t column, ka_cell cell);

/** Append the cells of a row, from left to right; the last one ends it. The types must be the
 * columns'. */
void ka_put_int(ka_table *t, int64_t v);
void ka_put_ns(ka_table *t, int64_t ns);
void ka_put_number(ka_table *t, double v);
void ka_put_text(ka_table *t, kineto_string s);
void ka_put_none(ka_table *t);
/** A note for the reader of the table; an empty table says in it why it is empty. The first note
 * stays. */
void ka_note(ka_table *t, const char *fmt, ...) KINETO_PRINTF(2, 3);
/** The same, after the notes that are there already. */
void ka_note_also(ka_table *t, const char *fmt, ...) KINETO_PRINTF(2, 3);

static inline ka_cell ka_cell_at(const ka_table *t, uint64_t row, uint32_t column)
{
    KB_ASSERT(column < t->column_count && row * t->column_count + column < t->cells.count);
    return t->cells.data[row * t->column_count + column];
}
static inline kineto_string ka_text_at(const ka_table *t, uint64_t row, uint32_t column)
{
    return kb_intern_get(&t->texts, (uint32_t)ka_cell_at(t, row, column).i);
}
/** When the trace of a rank began; INT64_MIN: there is none of that rank. */
int64_t ka_trace_begin(const kineto_analysis *a, int64_t rank);
/** A cell as callers of the library see it. False: there is none. */
bool ka_fact_get(const ka_table *t, uint64_t row, uint32_t column, kineto_fact *out);
/** Note "no device activity ..." and what to do. NULL is fine. */
void ka_note_no_device(ka_table *t);

/* ---- table_sort.c ---------------------------------------------------------------------------- */
/** Orders of ka_sort: KA_UP(kernels, name) ascending, KA_DOWN(kernels, sum_us) descending. */
#define KA_UP(table, column)   ((int)KA_COL_##table##_##column + 1)
#define KA_DOWN(table, column) (-((int)KA_COL_##table##_##column + 1))
/** Sort rows by columns, the first order first. Rows that are equal there keep their order. */
#define KA_SORT(t, ...) ka_sort(t, (const int[]){__VA_ARGS__, 0})
/** @param by  1-based columns, positive ascending, negative descending; 0 ends the list. */
void ka_sort(ka_table *t, const int *by);

/* ---- table_weight.c -------------------------------------------------------------------------- */
/** Has the table a WEIGHT? Without, the order of its rows says more. */
bool ka_has_weight(const ka_table *t);
/** Row numbers, the largest weight first, to free; NULL: out of memory. */
uint64_t *ka_rows_by_weight(const ka_table *t);
/** The same by one column; UINT32_MAX: in the order of the table. */
uint64_t *ka_rows_by_column(const ka_table *t, uint32_t column);

/* ---- table_add.c ----------------------------------------------------------------------------- */
/** Append the rows of another rank, or merge them (KA_SUMMED). to->no_memory stays set once it is.
 */
void ka_table_add(ka_table *to, const ka_table *from);
#endif
