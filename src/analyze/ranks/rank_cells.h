/* Ranks by time, for pictures: how much of each slice of the run a rank waits for others, or is late. */
#ifndef KA_RANK_CELLS_H
#define KA_RANK_CELLS_H

#include "analyze/ranks/rank_model.h"

typedef enum ka_cell_kind {
    KA_CELLS_WAITING, /* in a collective, for the last rank */
    KA_CELLS_LATE,    /* until a launch, before a collective */
    KA_CELL_KINDS
} ka_cell_kind;

typedef struct ka_rank_cells {
    uint32_t row_count, column_count; /* no rows if the clocks of hosts cannot be aligned */
    uint32_t ranks_per_row;           /* row i begins with rank i * ranks_per_row (an index) */
    int64_t start_ns, end_ns;         /* of the run, aligned */
    double *shares[KA_CELL_KINDS];    /* 0 … 1, the mean of the ranks of the row; by row, then column */
} ka_rank_cells;

/** @param max_rows  more ranks share rows. To be freed, also on failure. False: out of memory. */
bool ka_make_rank_cells(const ka_rank_model *m, uint32_t max_rows, uint32_t columns, ka_rank_cells *out);
void ka_rank_cells_free(ka_rank_cells *c);
#endif
