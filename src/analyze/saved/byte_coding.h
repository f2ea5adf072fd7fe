/* Numbers and texts as bytes, little-endian, for sections of facts files. Writers collect an error
 * (no memory), readers another one (the bytes end early, or make no sense); both are checked once, at the end. */
#ifndef KA_BYTE_CODING_H
#define KA_BYTE_CODING_H

#include "base/base.h"

/** Bytes that are being written. */
typedef struct ka_byte_writer {
    KB_VEC(uint8_t) bytes;
    bool no_memory;
} ka_byte_writer;

void ka_write_bytes(ka_byte_writer *w, const void *data, size_t size);
void ka_write_fixed(ka_byte_writer *w, uint64_t v, uint32_t bytes);
/** 7 bits in each byte, the lowest first. */
void ka_write_varint(ka_byte_writer *w, uint64_t v);
void ka_write_signed(ka_byte_writer *w, int64_t v);
/** Its size, and its bytes. */
void ka_write_text(ka_byte_writer *w, kineto_string s);
void ka_byte_writer_free(ka_byte_writer *w);

/** Bytes that are being read. After the first fault all values are 0. */
typedef struct ka_byte_reader {
    const uint8_t *at, *end;
    bool is_bad;
} ka_byte_reader;

static inline ka_byte_reader ka_read_from(const void *data, size_t size)
{
    return (ka_byte_reader){data, (const uint8_t *)data + size, false};
}
/** NULL: there are not as many. */
const uint8_t *ka_read_bytes(ka_byte_reader *r, size_t size);
uint64_t ka_read_fixed(ka_byte_reader *r, uint32_t bytes);
uint64_t ka_read_varint_slow(ka_byte_reader *r);
#if defined(__GNUC__) && defined(__BYTE_ORDER__) && __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
#define KA_READS_WORDS 1
/** The number of the bytes of a varint, in a word up to its end. @param end  the high bit of its last byte. */
static inline uint64_t ka_join_varint(uint64_t word, uint64_t end)
{
    word &= (end ^ (end - 1)) & 0x7f7f7f7f7f7f7f7fu;
    word = (word & 0x7f007f007f007f00u) >> 1 | (word & 0x007f007f007f007fu);
    word = (word & 0x3fff00003fff0000u) >> 2 | (word & 0x00003fff00003fffu);
    return (word & 0x0fffffff00000000u) >> 4 | (word & 0x000000000fffffffu);
}
/** Eight bytes of varints: `ends` has the high bit of each byte that is the last one of a varint. */
static inline uint64_t ka_load_varints(const uint8_t *at, uint64_t *ends)
{
    uint64_t word;
    memcpy(&word, at, sizeof word);
    *ends = ~word & 0x8080808080808080u;
    return word;
}
/** How many bytes up to the first end. */
static inline size_t ka_varint_bytes(uint64_t ends) { return ((size_t)__builtin_ctzll(ends) >> 3) + 1; }
/** A varint of which eight bytes can be read, without a branch for each byte. */
static inline uint64_t ka_read_varint_word(ka_byte_reader *r)
{
    uint64_t ends, word = ka_load_varints(r->at, &ends);
    if (!ends)
        return ka_read_varint_slow(r);
    r->at += ka_varint_bytes(ends);
    return ka_join_varint(word, ends & (0 - ends));
}
#else
#define KA_READS_WORDS 0
#define ka_read_varint_word ka_read_varint_slow
#endif
static inline uint64_t ka_read_varint(ka_byte_reader *r)
{
    return r->at < r->end && *r->at < 0x80 ? *r->at++ : ka_read_varint_slow(r);
}
int64_t ka_read_signed(ka_byte_reader *r);
/** A view of the bytes. */
kineto_string ka_read_text(ka_byte_reader *r);
/** A number of things of which each takes at least `least_bytes` of what is left; more is a fault. */
uint64_t ka_read_count(ka_byte_reader *r, size_t least_bytes);

/** Small numbers of both signs as small numbers. */
static inline uint64_t ka_zigzag(int64_t v) { return (uint64_t)v << 1 ^ (v < 0 ? UINT64_MAX : 0); }
static inline int64_t ka_unzigzag(uint64_t v) { return (int64_t)(v >> 1 ^ (0 - (v & 1))); }

/** CRC-32C of some bytes; `before` is that of the bytes before them, 0: there are none. */
uint32_t ka_crc32c(uint32_t before, const void *data, size_t size);
/** The same on any processor. */
uint32_t ka_crc32c_portable(uint32_t before, const void *data, size_t size);
#endif
