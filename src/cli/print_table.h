/* Tables of facts on a terminal: human units, times from the begin of the trace, at most as wide as
 * the terminal. Used by the overview and by `analyze`. */
#ifndef KC_PRINT_TABLE_H
#define KC_PRINT_TABLE_H

#include "analyze/tables/table.h"
#include "cli/cli.h"

/** Value of --absolute: moments as microseconds since the epoch, as CSV and JSON have them. */
extern bool kc_absolute;
#define KC_ABSOLUTE_OPTION                                                                         \
    {                                                                                              \
        "absolute", 0, KC_FLAG, &kc_absolute, NULL,                                                \
            "show moments in us since 1970, not from the begin of the trace"                       \
    }

/** What of a table is printed, and how. */
typedef struct kc_table_view {
    const ka_table *table;
    const kineto_analysis *facts; /* knows when traces began; NULL: moments are relative already */
    const char *title;     /* the head of the first column; NULL: its name */
    const uint64_t *order; /* numbers of rows; NULL: as they are in the table */
    uint64_t rows;
    size_t width;
    bool fits; /* what is too wide is left out; else columns at the end follow below, as another block */
    FILE *terminal; /* where the text goes in the end: decides about colours */
} kc_table_view;

/** Heads and rows, each line indented by two spaces. */
void kc_table_print(const kc_table_view *v, FILE *out);
#endif
