/* Encodings of values in pages of Parquet: PLAIN, DELTA_BINARY_PACKED, and the hybrid of runs and
 * bit-packed groups that levels and indices of dictionaries have. */
#include "export/parquet_impl.h"

uint32_t ke_bit_width(uint64_t largest)
{
    return largest ? 64 - (uint32_t)__builtin_clzll(largest) : 1;
}

/* Values of `width` bits, the lowest bits first; the last byte is filled with zeros. */
static void pack_bits(ke_bytes *out, const uint64_t *values, size_t count, uint32_t width)
{
    __extension__ typedef unsigned __int128 wide;
    size_t bytes = (count * width + 7) / 8;
    char *at = ke_bytes_reserve(out, bytes + 8);
    wide bits = 0;
    uint32_t used = 0;
    if (!at)
        return;
    for (size_t i = 0; i < count; i++) {
        bits |= (wide)values[i] << used;
        used += width;
        if (used < 64)
            continue;
        uint64_t low = (uint64_t)bits;
        memcpy(at, &low, 8);
        at += 8;
        bits >>= 64;
        used -= 64;
    }
    uint64_t low = (uint64_t)bits;
    memcpy(at, &low, 8);
    out->count += bytes;
}

/* ---- runs and groups -------------------------------------------------------------------------- */

/* Whole groups of 8 values; the last group of all may be filled with zeros. */
static void put_groups(ke_bytes *out, const int64_t *values, size_t count, uint32_t width)
{
    uint64_t piece[512];
    size_t groups = (count + 7) / 8;
    if (!count)
        return;
    ke_bytes_put_varint(out, groups << 1 | 1);
    for (size_t i = 0; i < 8 * groups; i += KB_COUNT(piece)) {
        size_t n = KB_MIN(8 * groups - i, KB_COUNT(piece));
        for (size_t k = 0; k < n; k++)
            piece[k] = i + k < count ? (uint64_t)values[i + k] : 0;
        pack_bits(out, piece, n, width);
    }
}

void ke_encode_hybrid(ke_bytes *out, const int64_t *values, size_t count, uint32_t width)
{
    size_t packed = 0; /* values from here to i are of a group */
    KB_ASSERT(width > 0 && width <= 32);
    for (size_t i = 0; i < count;) {
        size_t run = 1;
        while (i + run < count && values[i + run] == values[i])
            run++;
        if (run < 8) {
            i += KB_MIN((size_t)8, count - i);
            continue;
        }
        put_groups(out, values + packed, i - packed, width);
        ke_bytes_put_varint(out, run << 1);
        ke_bytes_put_low(out, (uint64_t)values[i], (width + 7) / 8);
        i += run;
        packed = i;
    }
    put_groups(out, values + packed, count - packed, width);
}

/* ---- differences ------------------------------------------------------------------------------ */

enum { BLOCK_VALUES = 128, MINIBLOCK_VALUES = 32, MINIBLOCKS = BLOCK_VALUES / MINIBLOCK_VALUES };

/* Differences wrap around, in as many bits as the values have. */
static int64_t subtract_wrapping(int64_t a, int64_t b, bool is_narrow)
{
    uint64_t difference = (uint64_t)a - (uint64_t)b;
    return is_narrow ? (int32_t)(uint32_t)difference : (int64_t)difference;
}

/* At most 128 differences: their minimum, the widths of four miniblocks, and what exceeds the minimum.
 * @return the largest width. */
static uint32_t put_delta_block(ke_bytes *out, const int64_t *deltas, size_t count, bool is_narrow)
{
    uint64_t above[BLOCK_VALUES] = {0};
    int64_t least = deltas[0];
    for (size_t i = 1; i < count; i++)
        least = KB_MIN(least, deltas[i]);
    ke_bytes_put_varint(out, ke_zigzag(least));
    uint8_t widths[MINIBLOCKS] = {0};
    for (size_t i = 0; i < count; i++) {
        above[i] = (uint64_t)deltas[i] - (uint64_t)least;
        if (is_narrow)
            above[i] &= UINT32_MAX;
        uint8_t width = above[i] ? (uint8_t)ke_bit_width(above[i]) : 0;
        widths[i / MINIBLOCK_VALUES] = KB_MAX(widths[i / MINIBLOCK_VALUES], width);
    }
    ke_bytes_put(out, widths, sizeof widths);
    for (size_t i = 0; i < count; i += MINIBLOCK_VALUES)
        if (widths[i / MINIBLOCK_VALUES])
            pack_bits(out, above + i, MINIBLOCK_VALUES, widths[i / MINIBLOCK_VALUES]);
    return KB_MAX(KB_MAX(widths[0], widths[1]), KB_MAX(widths[2], widths[3]));
}

uint32_t ke_encode_delta(ke_bytes *out, const int64_t *values, size_t count, bool is_narrow)
{
    int64_t deltas[BLOCK_VALUES];
    uint32_t widest = 0;
    ke_bytes_put_varint(out, BLOCK_VALUES);
    ke_bytes_put_varint(out, MINIBLOCKS);
    ke_bytes_put_varint(out, count);
    ke_bytes_put_varint(out, count ? ke_zigzag(values[0]) : 0);
    for (size_t i = 1; i < count; i += BLOCK_VALUES) {
        size_t n = KB_MIN(count - i, (size_t)BLOCK_VALUES);
        for (size_t k = 0; k < n; k++)
            deltas[k] = subtract_wrapping(values[i + k], values[i + k - 1], is_narrow);
        widest = kb_max_u32(widest, put_delta_block(out, deltas, n, is_narrow));
    }
    return widest;
}

/* ---- plain ------------------------------------------------------------------------------------ */

static void put_plain_bits(ke_bytes *out, const int64_t *values, size_t count)
{
    for (size_t i = 0; i < count; i += 8) {
        uint8_t byte = 0;
        for (size_t k = 0; k < 8 && i + k < count; k++)
            byte = (uint8_t)(byte | (values[i + k] != 0) << k);
        ke_bytes_put_byte(out, byte);
    }
}

void ke_encode_plain(ke_bytes *out, const int64_t *values, size_t count, size_t bytes)
{
    if (!bytes) {
        put_plain_bits(out, values, count);
        return;
    }
    char *at = ke_bytes_reserve(out, count * bytes);
    for (size_t i = 0; at && i < count; i++, at += bytes)
        memcpy(at, &values[i], bytes); /* the lowest bytes are the first */
    if (at)
        out->count += count * bytes;
}
