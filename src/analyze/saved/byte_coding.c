/* Numbers and texts as bytes, and their checksum. */
#include "analyze/saved/byte_coding.h"

#if defined(__x86_64__) && defined(__GNUC__)
#include <nmmintrin.h>
#define WITH_CRC_INSTRUCTION __attribute__((target("sse4.2")))
#endif

/* ---- writing --------------------------------------------------------------------------------- */

void ka_write_bytes(ka_byte_writer *w, const void *data, size_t size)
{
    if (!kb_vec_reserve(&w->bytes, w->bytes.count + size)) {
        w->no_memory = true;
        return;
    }
    if (size)
        memcpy(w->bytes.data + w->bytes.count, data, size);
    w->bytes.count += size;
}

void ka_write_fixed(ka_byte_writer *w, uint64_t v, uint32_t bytes)
{
    uint8_t out[8];
    KB_ASSERT(bytes <= sizeof out);
    for (uint32_t i = 0; i < bytes; i++)
        out[i] = (uint8_t)(v >> 8 * i);
    ka_write_bytes(w, out, bytes);
}

void ka_write_varint(ka_byte_writer *w, uint64_t v)
{
    uint8_t out[10];
    size_t size = 0;
    for (; v >= 0x80; v >>= 7)
        out[size++] = (uint8_t)(v | 0x80);
    out[size++] = (uint8_t)v;
    ka_write_bytes(w, out, size);
}

void ka_write_signed(ka_byte_writer *w, int64_t v) { ka_write_varint(w, ka_zigzag(v)); }

void ka_write_text(ka_byte_writer *w, kineto_string s)
{
    ka_write_varint(w, s.size);
    ka_write_bytes(w, s.data, s.size);
}

void ka_byte_writer_free(ka_byte_writer *w) { kb_vec_free(&w->bytes); }

/* ---- reading --------------------------------------------------------------------------------- */

const uint8_t *ka_read_bytes(ka_byte_reader *r, size_t size)
{
    if (r->is_bad || size > (size_t)(r->end - r->at)) {
        r->is_bad = true;
        r->at = r->end;
        return NULL;
    }
    const uint8_t *found = r->at;
    r->at += size;
    return found;
}

uint64_t ka_read_fixed(ka_byte_reader *r, uint32_t bytes)
{
    const uint8_t *in = ka_read_bytes(r, bytes);
    uint64_t v = 0;
    for (uint32_t i = 0; in && i < bytes; i++)
        v |= (uint64_t)in[i] << 8 * i;
    return v;
}

uint64_t ka_read_varint_slow(ka_byte_reader *r)
{
    uint64_t v = 0;
    for (uint32_t shift = 0; shift < 64 && r->at < r->end; shift += 7) {
        uint8_t byte = *r->at++;
        v |= (uint64_t)(byte & 0x7f) << shift;
        if (byte < 0x80)
            return v;
    }
    r->is_bad = true;
    r->at = r->end;
    return 0;
}

int64_t ka_read_signed(ka_byte_reader *r) { return ka_unzigzag(ka_read_varint(r)); }

kineto_string ka_read_text(ka_byte_reader *r)
{
    size_t size = (size_t)ka_read_varint(r);
    const uint8_t *data = ka_read_bytes(r, size);
    return data ? (kineto_string){(const char *)data, size} : (kineto_string){"", 0};
}

uint64_t ka_read_count(ka_byte_reader *r, size_t least_bytes)
{
    uint64_t count = ka_read_varint(r);
    if (count <= (size_t)(r->end - r->at) / least_bytes)
        return count;
    r->is_bad = true;
    r->at = r->end;
    return 0;
}

/* ---- CRC-32C --------------------------------------------------------------------------------- */

static uint32_t crc_table[8][256];

static void fill_crc_table(void)
{
    const uint32_t polynomial = 0x82f63b78; /* Castagnoli's, reflected */
    for (uint32_t i = 0; i < 256; i++) {
        uint32_t crc = i;
        for (int bit = 0; bit < 8; bit++)
            crc = crc >> 1 ^ (crc & 1 ? polynomial : 0);
        crc_table[0][i] = crc;
    }
    for (uint32_t i = 0; i < 256; i++)
        for (int k = 1; k < 8; k++)
            crc_table[k][i] = crc_table[k - 1][i] >> 8 ^ crc_table[0][crc_table[k - 1][i] & 0xff];
}

static uint32_t add_bytes_portable(uint32_t crc, const uint8_t *at, size_t size)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, fill_crc_table);
    for (; size >= 8; size -= 8, at += 8) {
        uint32_t low = crc ^ ((uint32_t)at[0] | (uint32_t)at[1] << 8 | (uint32_t)at[2] << 16 | (uint32_t)at[3] << 24);
        crc = crc_table[7][low & 0xff] ^ crc_table[6][low >> 8 & 0xff] ^ crc_table[5][low >> 16 & 0xff] ^
              crc_table[4][low >> 24] ^ crc_table[3][at[4]] ^ crc_table[2][at[5]] ^ crc_table[1][at[6]] ^
              crc_table[0][at[7]];
    }
    while (size--)
        crc = crc >> 8 ^ crc_table[0][(crc ^ *at++) & 0xff];
    return crc;
}

#ifdef WITH_CRC_INSTRUCTION
WITH_CRC_INSTRUCTION static uint32_t add_bytes_by_instruction(uint32_t crc, const uint8_t *at, size_t size)
{
    uint64_t wide = crc;
    for (; size >= 8; size -= 8, at += 8) {
        uint64_t word;
        memcpy(&word, at, sizeof word);
        wide = _mm_crc32_u64(wide, word);
    }
    crc = (uint32_t)wide;
    while (size--)
        crc = _mm_crc32_u8(crc, *at++);
    return crc;
}
static bool has_crc_instruction(void) { return __builtin_cpu_supports("sse4.2"); }
#else
#define add_bytes_by_instruction add_bytes_portable
static bool has_crc_instruction(void) { return false; }
#endif

uint32_t ka_crc32c_portable(uint32_t before, const void *data, size_t size)
{
    return ~add_bytes_portable(~before, data, size);
}

uint32_t ka_crc32c(uint32_t before, const void *data, size_t size)
{
    if (!has_crc_instruction())
        return ka_crc32c_portable(before, data, size);
    return ~add_bytes_by_instruction(~before, data, size);
}
