/* The rows of a rank, read in parts: from memory, or from a facts file of which only a part fits. */
#ifndef KA_RANK_SOURCE_H
#define KA_RANK_SOURCE_H

#include "analyze/ranks/rank_facts.h"
#include "analyze/ranks/rank_lanes.h"

typedef struct ka_rank_source {
    const ka_rank_facts *head; /* all but rows; must outlive what is made of the source */
    uint32_t row_count;        /* with the end; at least 1 */
    /** Rows `first` to `first + count`, which the rank has. Called with growing `first` in each of several passes
     *  over the run. threads: one for each source and for each lane. @return a failure ends the comparison, with the
     *  source's error. */
    kineto_status (*read)(void *context, uint32_t lane, uint32_t first, uint32_t count, ka_comm *out, kineto_error *err);
    /** The same, but only step, group, sequence, op, elements and flags of each row; NULL: `read` is as fast. */
    kineto_status (*read_calls)(void *context, uint32_t lane, uint32_t first, uint32_t count, ka_comm *out, kineto_error *err);
    void *context;
} ka_rank_source;

/** Reads the rows of facts in memory, which must outlive the source. */
ka_rank_source ka_rank_source_of(const ka_rank_facts *facts);
/** The rows where they lie, if the source is of facts in memory; NULL: they have to be read. */
const ka_comm *ka_rank_source_rows(const ka_rank_source *s);
#endif
