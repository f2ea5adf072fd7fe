/* What a row of a rank waited for before it began: the equations of rank_facts.h with the times of the trace, on the
 * clock of the model. */
#ifndef KA_RANK_WAITS_H
#define KA_RANK_WAITS_H

#include "analyze/ranks/rank_model.h"

/** A moment that is none: nothing of this kind was waited for. */
#define KA_NO_MOMENT INT64_MIN

/** Of all rows, the collective with the latest result that the computation before it needed. */
typedef struct ka_waited_rows {
    uint32_t *of; /* by row; KA_NONE: none */
} ka_waited_rows;

/** When the computation before a row could be done, by what it waited for. */
typedef struct ka_ready_parts {
    int64_t chain_ns;  /* the computation before it was done, then its own */
    int64_t waited_ns; /* a collective had ended, then the rest of the computation */
    int64_t held_ns;   /* it was launched, then the rest of it */
    int64_t launch_ns; /* that launch; KA_NO_MOMENT: not known, as held_ns */
    uint32_t waited_row;
} ka_ready_parts;

/** When a row could begin, by what it waited for. */
typedef struct ka_begin_parts {
    int64_t ready_ns;  /* the computation before it was done */
    int64_t launch_ns; /* it was launched */
    int64_t stream_ns; /* the collectives before it on its stream had ended */
    uint32_t stream_row;
} ka_begin_parts;

/** @param w  to be freed, also on failure. False: out of memory. */
bool ka_waited_rows_create(const ka_rank_model *m, ka_waited_rows *w);
void ka_waited_rows_free(ka_waited_rows *w);
ka_ready_parts ka_find_ready_parts(const ka_rank_model *m, const ka_waited_rows *w, uint32_t row);
ka_begin_parts ka_find_begin_parts(const ka_rank_model *m, uint32_t row);
/** The row that stands for the kernel of a row: of a kernel with several messages the first. */
uint32_t ka_main_row(const ka_rank_model *m, uint32_t row);
/** By how much two rows may be ordered wrongly: the errors of their clocks; 0: they have the same one. */
int64_t ka_order_error(const ka_rank_model *m, uint32_t row, uint32_t other);
#endif
