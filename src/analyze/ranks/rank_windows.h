/* Compares the ranks of a run, in as many windows of consecutive rows as the memory asks for. */
#ifndef KA_RANK_WINDOWS_H
#define KA_RANK_WINDOWS_H

#include "analyze/ranks/rank_causes.h"
#include "analyze/ranks/rank_damage.h"
#include "analyze/ranks/rank_source.h"

/** What was found by comparing ranks. */
typedef struct ka_rank_view {
    ka_rank_model model; /* without rows if there were several windows */
    ka_rank_causes causes;
    ka_rank_damages damage;
    uint32_t window_count;
    bool is_compared; /* some collectives could be joined */
    bool is_by_order; /* some have no numbers */
    bool is_of_dumps;         /* of the flight recorder: there are no traces */
    ka_rank_model dumps;      /* of dumps, if there are also traces; else empty */
    ka_rank_damages in_dumps; /* what these show */
} ka_rank_view;

#define KA_COMPARE_BYTES ((size_t)256 << 20)
/** Of a row, with all that is made of it. */
#define KA_COMPARE_ROW_BYTES 400u

/** @param sources  of `count` ranks, by rank, then by time; must outlive the view.
 *  @param bytes    of memory, about; 0: KA_COMPARE_BYTES. Rows that are in memory already do not count.
 *  @param v        to be freed, also on failure. threads: one. @return KINETO_E_MEMORY, or what a source returned. */
kineto_status ka_compare_ranks(const ka_rank_source *sources, uint32_t count, size_t bytes, ka_rank_view *v, kineto_error *err);
void ka_rank_view_free(ka_rank_view *v);

/** rank_survey.c: roles and clocks of a run that does not fit into memory, from all rows and an even sample of them.
 *  @param m      opened. @param rows  of the sample, at most. */
kineto_status ka_survey_ranks(const ka_rank_source *sources, ka_rank_model *m, size_t rows, kineto_error *err);
#endif
