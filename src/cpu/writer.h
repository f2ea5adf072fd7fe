/* Writes records about threads of other processes into a pool: one cursor, which belongs to the thread
 * that watches the program. */
#ifndef KU_WRITER_H
#define KU_WRITER_H

#include "format/format.h"

typedef struct ku_writer {
    const kf_pool *pool;
    uint32_t source; /* whose counters count */
    uint32_t serial, seq;
    uint32_t chunk; /* UINT32_MAX: none */
    uint32_t used;  /* words of it */
    uint32_t pid, tid, ticks_clock;
    /* CLOCK_MONOTONIC_RAW to ticks: a line through the first reading of both and the last one */
    kb_clock_snapshot first, last;
    double ticks_per_ns;
} ku_writer;

/** @param source_name  for the ledger. threads: the one that calls the other functions. */
void ku_writer_init(ku_writer *w, const kf_pool *pool, const char *source_name);
/** Read the clocks again: conversions stay exact. */
void ku_writer_read_clocks(ku_writer *w);
/** Of a moment that is not long ago. */
uint64_t ku_writer_ticks(const ku_writer *w, uint64_t raw_ns);
/** Room for a record of that many words, to be completed by ku_writer_commit with its header. NULL:
 *  the pool is full, which is counted. */
uint64_t *ku_writer_begin(ku_writer *w, uint32_t words);
void ku_writer_commit(ku_writer *w, uint64_t *record, uint64_t header);
/** Count what the recording cost the program. */
void ku_writer_add_cost(ku_writer *w, kf_cost what, uint64_t ns, uint64_t calls);
void ku_writer_count(ku_writer *w, kf_reason reason, uint64_t count);
/** Give up the chunk. */
void ku_writer_finish(ku_writer *w);
#endif
