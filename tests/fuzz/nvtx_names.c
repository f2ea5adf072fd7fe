/* names.c of the annotations, whose memory can be given back. */
#include "annotations/names.c" /* NOLINT(bugprone-suspicious-include) */

#include "nvtx_parts.h"

#include <sys/mman.h>

/* Pieces are mapped one by one; only the last one is known. One is enough between two inputs. */
void fuzz_names_forget(void)
{
    for (uint32_t i = 0; i < name_count && i < CN_MAX_NAMES; i++)
        atomic_store(&names_by_index[i], NULL);
    memset((void *)name_table, 0, sizeof name_table);
    memset((void *)by_address, 0, sizeof by_address);
    atomic_store(&name_count, 0);
    if (!current_piece)
        return;
    current_piece -= PIECE_BYTES - piece_left;
    piece_left = PIECE_BYTES;
    memset(current_piece, 0, PIECE_BYTES);
}
