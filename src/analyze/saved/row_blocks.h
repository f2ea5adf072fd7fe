/* The rows of a rank's facts as blocks of bytes, each of which can be decoded alone.
 *
 * A block is columns of differences between values and what rank_facts.h's equations predict of them, which are
 * 0 nearly everywhere for when the host, the computation and the collective were ready. docs/reference/facts-files.md
 * describes the bytes. */
#ifndef KA_ROW_BLOCKS_H
#define KA_ROW_BLOCKS_H

#include "analyze/ranks/rank_facts.h"
#include "analyze/saved/byte_coding.h"

#define KA_BLOCK_ROWS 256u

/** Of a rank: what its rows are predicted by. */
typedef struct ka_row_coding {
    int64_t latency_ns;
    bool on_host;
} ka_row_coding;

/** Append the rows [first, first + count), at most KA_BLOCK_ROWS. */
void ka_encode_rows(const ka_rank_facts *f, uint32_t first, uint32_t count, ka_byte_writer *w);
/** The same back. @param rows  room for `count` rows. False: these are no such bytes.
 *  References to other rows are as they were written: the caller checks them. */
bool ka_decode_rows(const void *bytes, size_t size, ka_row_coding of, uint32_t first, uint32_t count, ka_comm *rows);
/** Only flags, op, group, step, sequence and elements of the rows, which is much faster; their other members are 0. */
bool ka_decode_calls(const void *bytes, size_t size, uint32_t count, ka_comm *rows);
#endif
