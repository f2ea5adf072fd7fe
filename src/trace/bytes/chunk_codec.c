/* Compression of chunks of text that are rarely read again: the fastest codec that the
 * build has, zstd, ISA-L or zlib. seek_index.c stores texts with it that cannot be
 * decompressed again from their file, and inflate.c the states of its decoder. A packer is
 * used by one thread at a time. */
#include "trace/bytes/seek_index.h"

#if defined(KB_WITH_ZSTD)
#include <zstd.h>
#elif defined(KB_WITH_ISAL)
#include <isa-l/igzip_lib.h>
#else
#include <zlib.h>
#endif

/* For each codec: max_compressed_bytes(size) is the largest compressed size, begin/end
 * create and free the state of a packer, squeeze returns the compressed bytes in p->out, 0:
 * it failed; expand is its inverse. */
#if defined(KB_WITH_ZSTD)

enum { LEVEL = -3 }; /* 10 to 1 on traces, as fast as -5 */

struct kt_packer {
    ZSTD_CCtx *zstd;
    size_t room;
    char out[];
};

static size_t max_compressed_bytes(size_t size) { return ZSTD_compressBound(size); }
static bool init_codec(kt_packer *p)
{
    p->zstd = ZSTD_createCCtx();
    return p->zstd &&
           !ZSTD_isError(ZSTD_CCtx_setParameter(p->zstd, ZSTD_c_compressionLevel, LEVEL));
}
static void free_codec(kt_packer *p) { ZSTD_freeCCtx(p->zstd); }
static size_t compress_chunk(kt_packer *p, const void *bytes, size_t size)
{
    size_t made = ZSTD_compress2(p->zstd, p->out, p->room, bytes, size);
    return ZSTD_isError(made) ? 0 : made;
}
static bool decompress_chunk(const kt_packed *packed, void *out)
{
    return ZSTD_decompress(out, packed->size, packed->data, packed->bytes) == packed->size;
}

#elif defined(KB_WITH_ISAL)

struct kt_packer {
    struct isal_zstream z;
    uint8_t level_buffer[ISAL_DEF_LVL1_DEFAULT];
    size_t room;
    char out[];
};

static size_t max_compressed_bytes(size_t size) { return size + size / 8 + 4096; }
static bool init_codec(kt_packer *p) { return p != NULL; }
static void free_codec(kt_packer *p) { (void)p; }
static size_t compress_chunk(kt_packer *p, const void *bytes, size_t size)
{
    struct isal_zstream *z = &p->z;
    isal_deflate_stateless_init(z);
    z->level = 1;
    z->level_buf = p->level_buffer;
    z->level_buf_size = sizeof p->level_buffer;
    z->next_in = (uint8_t *)(uintptr_t)bytes;
    z->avail_in = (uint32_t)size;
    z->next_out = (uint8_t *)p->out;
    z->avail_out = (uint32_t)p->room;
    z->end_of_stream = 1;
    z->flush = NO_FLUSH;
    return isal_deflate_stateless(z) == COMP_OK ? z->total_out : 0;
}
static bool decompress_chunk(const kt_packed *packed, void *out)
{
    struct inflate_state *z = malloc(sizeof *z);
    if (!z)
        return false;
    isal_inflate_init(z);
    z->next_in = (uint8_t *)packed->data;
    z->avail_in = (uint32_t)packed->bytes;
    z->next_out = out;
    z->avail_out = (uint32_t)packed->size;
    bool ok = isal_inflate_stateless(z) == ISAL_DECOMP_OK && z->total_out == packed->size;
    free(z);
    return ok;
}

#else

struct kt_packer {
    size_t room;
    char out[];
};

static size_t max_compressed_bytes(size_t size) { return compressBound(size); }
static bool init_codec(kt_packer *p) { return p != NULL; }
static void free_codec(kt_packer *p) { (void)p; }
static size_t compress_chunk(kt_packer *p, const void *bytes, size_t size)
{
    uLongf made = p->room;
    return compress2((Bytef *)p->out, &made, bytes, size, 1) == Z_OK ? made : 0;
}
static bool decompress_chunk(const kt_packed *packed, void *out)
{
    uLongf made = packed->size;
    return uncompress(out, &made, (const Bytef *)packed->data, packed->bytes) == Z_OK &&
           made == packed->size;
}

#endif

kt_packer *kt_packer_create(void)
{
    size_t room = max_compressed_bytes(KT_SEEK_POINT_BYTES);
    kt_packer *p = malloc(sizeof *p + room);
    if (!p)
        return NULL;
    memset(p, 0, sizeof *p);
    p->room = room;
    if (init_codec(p))
        return p;
    kt_packer_free(p);
    return NULL;
}

void kt_packer_free(kt_packer *p)
{
    if (p)
        free_codec(p);
    free(p);
}

bool kt_pack(kt_packer *p, const void *bytes, size_t size, kt_packed *out)
{
    KB_ASSERT(max_compressed_bytes(size) <= p->room);
    size_t made = compress_chunk(p, bytes, size);
    bool smaller = made && made < size;
    *out = (kt_packed){NULL, smaller ? made : size, size};
    out->data = malloc(out->bytes ? out->bytes : 1);
    if (!out->data)
        return false;
    memcpy(out->data, smaller ? (const void *)p->out : bytes, out->bytes);
    return true;
}

bool kt_unpack(const kt_packed *packed, void *out)
{
    if (!packed->data)
        return false;
    if (packed->bytes < packed->size)
        return decompress_chunk(packed, out);
    memcpy(out, packed->data, packed->size);
    return true;
}
