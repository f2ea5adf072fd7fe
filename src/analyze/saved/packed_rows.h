/* Rows in little memory, one after the other: of each number only the bytes that differ from what the row before says.
 * For rows that were decoded with their block and are needed later. The bytes are for this process only. */
#ifndef KA_PACKED_ROWS_H
#define KA_PACKED_ROWS_H

#include "analyze/ranks/rank_facts.h"

typedef struct ka_packed_rows {
    uint8_t *bytes;        /* NULL: none */
    size_t at;             /* of `bytes`: the row `first` */
    uint32_t first, count; /* rows that are left */
    ka_comm before;        /* the one before `first`; of the first packed row all 0 */
} ka_packed_rows;

/** Bytes that `count` rows take at most. */
size_t ka_packed_rows_room(uint32_t count);
/** Replaces what `p` has by rows with the numbers from `first` on. @param room  ka_packed_rows_room(count) bytes, for the
 *  time of the call. False: out of memory; `p` is empty then. */
bool ka_pack_rows(ka_packed_rows *p, const ka_comm *rows, uint32_t first, uint32_t count, uint8_t *room);
/** Takes out the next rows, at most `p->count`. */
void ka_unpack_rows(ka_packed_rows *p, uint32_t count, ka_comm *out);
void ka_packed_rows_free(ka_packed_rows *p);
#endif
