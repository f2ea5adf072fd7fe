/* Parts of binary recordings that are compressed inside of the file. */
#ifndef KT_PERFETTO_UNPACK_H
#define KT_PERFETTO_UNPACK_H

#include "base/base.h"

/** The bytes of zlib, gzip or zstd data, in the arena; of damaged ones those before the damage.
 *  @param limit  how many bytes are unpacked at most, rounded up to a piece. */
kineto_string kt_decompress_part(kineto_string packed, bool is_zstd, size_t limit, kb_arena *arena, bool *is_whole,
                        bool *no_memory);
#endif
