/* Packets that a recorder compressed, several in one packet. */
#include "trace/import/perfetto_unpack.h"

#include <zlib.h>

#if defined(KB_WITH_ZSTD)
#include <zstd.h>
#endif

#define PIECE_BYTES ((size_t)64 << 10)

typedef KB_VEC(char) unpacked_bytes;

/* Makes room for a piece. False: over the limit, or out of memory. */
static bool reserve_unpacked_piece(unpacked_bytes *out, size_t limit, bool *no_memory)
{
    if (out->count >= limit)
        return false;
    bool ok = kb_vec_reserve(out, out->count + PIECE_BYTES);
    *no_memory |= !ok;
    return ok;
}

/* zlib or gzip. True: the end was reached; what was unpacked before counts in any case. */
static bool unpack_zlib(kineto_string packed, size_t limit, unpacked_bytes *out, bool *no_memory)
{
    z_stream z = {.next_in = (Bytef *)(uintptr_t)packed.data, .avail_in = (uInt)KB_MIN(packed.size, UINT32_MAX)};
    int result = Z_OK;
    if (inflateInit2(&z, 15 + 32) != Z_OK) {
        *no_memory = true;
        return false;
    }
    while (result == Z_OK && reserve_unpacked_piece(out, limit, no_memory)) {
        z.next_out = (Bytef *)out->data + out->count;
        z.avail_out = PIECE_BYTES;
        result = inflate(&z, Z_NO_FLUSH);
        out->count += PIECE_BYTES - z.avail_out;
        if (result == Z_OK && z.avail_out && !z.avail_in)
            break;
    }
    inflateEnd(&z);
    return result == Z_STREAM_END;
}

#if defined(KB_WITH_ZSTD)
/* Frames one after the other; the end of the last one is the end. */
static bool unpack_zstd(kineto_string packed, size_t limit, unpacked_bytes *out, bool *no_memory)
{
    ZSTD_DStream *z = ZSTD_createDStream();
    ZSTD_inBuffer in = {packed.data, packed.size, 0};
    size_t left = 1;
    *no_memory |= !z;
    while (z && left && !ZSTD_isError(left) && reserve_unpacked_piece(out, limit, no_memory)) {
        ZSTD_outBuffer to = {out->data + out->count, PIECE_BYTES, 0};
        left = ZSTD_decompressStream(z, &to, &in);
        out->count += to.pos;
        if (left && in.pos == in.size && to.pos < to.size)
            break;
    }
    ZSTD_freeDStream(z);
    return left == 0;
}
#endif

/* Decompressed in pieces, as neither format states how much it will be. The copy in the arena has the exact size. */
kineto_string kt_decompress_part(kineto_string packed, bool is_zstd, size_t limit, kb_arena *arena, bool *is_whole, bool *no_memory)
{
    unpacked_bytes out = {0};
    *is_whole = false;
#if defined(KB_WITH_ZSTD)
    if (is_zstd)
        *is_whole = unpack_zstd(packed, limit, &out, no_memory);
#endif
    if (!is_zstd)
        *is_whole = unpack_zlib(packed, limit, &out, no_memory);
    char *copy = out.count ? kb_arena_copy(arena, out.data, out.count) : NULL;
    *no_memory |= out.count && !copy;
    kineto_string bytes = {copy ? copy : "", copy ? out.count : 0};
    kb_vec_free(&out);
    return bytes;
}
