/* Compressed traces and pipes: what is read is what the plain text gives, args that are had again
 * from the compressed file included; compressed data that is damaged is read as far as it goes, or
 * refused.
 *
 * Input: how it is compressed (u8), where and with what it is damaged (u16, u8), the text. Or bytes
 * that begin as gzip or zstd do, as they are. */
#include "read.h"

#include <string.h>
#include <zlib.h>
#if defined(KB_WITH_ZSTD)
#include <zstd.h>
#endif

enum { HEADER_BYTES = 4, MOST_MEMBERS = 3 };

typedef struct packed {
    uint8_t *data;
    size_t size, room;
} packed;

static bool append_gzip(packed *p, const uint8_t *text, size_t size, int level, int strategy)
{
    z_stream z = {.next_in = (Bytef *)(uintptr_t)text, .avail_in = (uInt)size};
    if (deflateInit2(&z, level, Z_DEFLATED, 15 + 16, 8, strategy) != Z_OK)
        return false;
    z.next_out = p->data + p->size;
    z.avail_out = (uInt)(p->room - p->size);
    z.avail_in = (uInt)(size / 2); /* an empty block in the middle */
    (void)deflate(&z, level == 9 ? Z_FULL_FLUSH : Z_NO_FLUSH);
    z.avail_in += (uInt)(size - size / 2);
    bool whole = deflate(&z, Z_FINISH) == Z_STREAM_END;
    p->size = p->room - z.avail_out;
    deflateEnd(&z);
    return whole;
}

static bool append_zstd(packed *p, const uint8_t *text, size_t size)
{
#if defined(KB_WITH_ZSTD)
    size_t got = ZSTD_compress(p->data + p->size, p->room - p->size, text, size, 1);
    p->size += ZSTD_isError(got) ? 0 : got;
    return !ZSTD_isError(got);
#else
    return append_gzip(p, text, size, 1, Z_DEFAULT_STRATEGY);
#endif
}

/* In one to three members, or frames. */
static bool pack(packed *p, uint8_t how, const uint8_t *text, size_t size)
{
    static const int levels[] = {0, 1, 6, 9};
    size_t members = how / 16 % MOST_MEMBERS + 1, done = 0;
    p->room = size * 2 + 4096;
    p->data = malloc(p->room);
    p->size = 0;
    for (size_t i = 0; p->data && i < members; i++) {
        size_t part = i + 1 == members ? size - done : size / members;
        bool ok = how % 4 == 3 ? append_zstd(p, text + done, part)
                               : append_gzip(p, text + done, part, levels[how / 4 % 4],
                                             how % 4 == 2 ? Z_FIXED : Z_DEFAULT_STRATEGY);
        if (!ok)
            return false;
        done += part;
    }
    return p->data != NULL;
}

/* The expected result is unknown, but it must be in order. */
static void read_damaged(const uint8_t *data, size_t size)
{
    kineto_error err, other;
    const char *path = fuzz_file(FUZZ_IN, data, size);
    kineto_trace *one = fuzz_open(path, 1, false, &err), *three = fuzz_open(path, 3, false, &other);
    fuzz_check((one == NULL) == (three == NULL), "one thread reads what three do not, or they do");
    if (one) {
        fuzz_visit(one);
        fuzz_same(one, three);
    } else {
        fuzz_check(err.offset == other.offset, "refused in different ways");
    }
    kineto_trace_release(one);
    kineto_trace_release(three);
}

static void read_packed(const uint8_t *text, size_t size, const packed *p)
{
    kineto_error err, other;
    kineto_trace *plain = fuzz_open(fuzz_file(FUZZ_PLAIN, text, size), 1, false, &err);
    const char *path = fuzz_file(FUZZ_IN, p->data, p->size);
    kineto_trace *got = fuzz_open(path, (uint32_t)(1 + size % 3), false, &other);
    fuzz_check((plain == NULL) == (got == NULL), "compressed, the text is read in another way");
    if (plain) {
        fuzz_same(got, plain);
        fuzz_visit(got);
        fuzz_write_again(got);
    } else {
        fuzz_check(err.offset == other.offset, "refused in different ways");
    }
    kineto_trace_release(plain);
    kineto_trace_release(got);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    packed p = {NULL, 0, 0};
    if (size < HEADER_BYTES + 1)
        return 0;
    if (memcmp(data, "\x1f\x8b", 2) == 0 || memcmp(data, "\x28\xb5\x2f\xfd", 4) == 0) {
        read_damaged(data, size);
        return 0;
    }
    const uint8_t *text = data + HEADER_BYTES;
    size_t text_size = size - HEADER_BYTES;
    if (pack(&p, data[0], text, text_size) && data[3] == 0) {
        read_packed(text, text_size, &p);
    } else if (p.size) {
        size_t place = (size_t)(data[1] | data[2] << 8) % p.size;
        p.data[place] ^= data[3];
        read_damaged(p.data, data[0] & 128 ? p.size : place);
    }
    free(p.data);
    return 0;
}

#if defined(WITH_FUZZER)
size_t LLVMFuzzerMutate(uint8_t *data, size_t size, size_t most);
size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t most, unsigned seed);

size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t most, unsigned seed)
{
    if (size <= HEADER_BYTES || seed % 8 == 0)
        return LLVMFuzzerMutate(data, size, most);
    if (seed % 8 == 1)
        (void)LLVMFuzzerMutate(data, HEADER_BYTES, HEADER_BYTES);
    if (seed % 2)
        data[3] = 0;
    return HEADER_BYTES +
           fuzz_mutate_json(data + HEADER_BYTES, size - HEADER_BYTES, most - HEADER_BYTES, seed);
}
#endif
