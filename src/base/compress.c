/* Streaming compressors for sinks: gzip by ISA-L where it is built in, otherwise by zlib; zstd. All
 * at their fastest level, since writing a trace should not delay the program. */
#include "base/sink_impl.h"

#if defined(KB_WITH_ISAL)
#include <isa-l/igzip_lib.h>
#else
#include <zlib.h>
#endif
#if defined(KB_WITH_ZSTD)
#include <zstd.h>
#endif

enum { OUT_BYTES = 128 * 1024, IN_BYTES = 1 << 30 /* at once: the counters have 32 bits */ };

struct kb_compressor {
    kb_compression kind;
#if defined(KB_WITH_ISAL)
    struct isal_zstream isal;
    uint8_t *level_buffer;
#else
    z_stream zlib;
#endif
#if defined(KB_WITH_ZSTD)
    ZSTD_CCtx *zstd;
#endif
    char out[OUT_BYTES];
};

kb_compression kb_compression_of(const char *path)
{
    kineto_string name = kb_string(path);
    if (kb_string_ends_with(name, ".gz"))
        return KB_COMPRESS_GZIP;
    return kb_string_ends_with(name, ".zst") ? KB_COMPRESS_ZSTD : KB_COMPRESS_NONE;
}

/* ---- gzip -------------------------------------------------------------------------------------
 */

#if defined(KB_WITH_ISAL)
static bool gzip_open(kb_compressor *z)
{
    z->level_buffer = malloc(ISAL_DEF_LVL1_DEFAULT);
    if (!z->level_buffer)
        return false;
    isal_deflate_init(&z->isal);
    z->isal.level = 1;
    z->isal.level_buf = z->level_buffer;
    z->isal.level_buf_size = ISAL_DEF_LVL1_DEFAULT;
    z->isal.gzip_flag = IGZIP_GZIP;
    return true;
}
static void gzip_close(kb_compressor *z) { free(z->level_buffer); }

/* One piece of at most IN_BYTES. */
static kineto_status gzip_run(kb_compressor *z, const char *data, size_t bytes, bool last,
                              kb_put_fn put, void *target, kineto_error *err)
{
    kineto_status status = KINETO_OK;
    z->isal.next_in = (uint8_t *)(uintptr_t)data;
    z->isal.avail_in = (uint32_t)bytes;
    z->isal.end_of_stream = last;
    z->isal.flush = NO_FLUSH;
    do {
        z->isal.next_out = (uint8_t *)z->out;
        z->isal.avail_out = OUT_BYTES;
        if (isal_deflate(&z->isal) != COMP_OK)
            return kb_fail(err, KINETO_E_IO, "gzip compression failed");
        size_t made = OUT_BYTES - z->isal.avail_out;
        if (made > 0)
            status = put(target, z->out, made, err);
    } while (status == KINETO_OK && z->isal.avail_out == 0);
    return status;
}
#else
static bool gzip_open(kb_compressor *z)
{
    enum { WINDOW_15_BITS_GZIP = 15 + 16, MEMORY_LEVEL = 8 };
    return deflateInit2(&z->zlib, 1, Z_DEFLATED, WINDOW_15_BITS_GZIP, MEMORY_LEVEL,
                        Z_DEFAULT_STRATEGY) == Z_OK;
}
static void gzip_close(kb_compressor *z) { deflateEnd(&z->zlib); }

static kineto_status gzip_run(kb_compressor *z, const char *data, size_t bytes, bool last,
                              kb_put_fn put, void *target, kineto_error *err)
{
    kineto_status status = KINETO_OK;
    z->zlib.next_in = (Bytef *)(uintptr_t)data;
    z->zlib.avail_in = (uInt)bytes;
    do {
        z->zlib.next_out = (Bytef *)z->out;
        z->zlib.avail_out = OUT_BYTES;
        if (deflate(&z->zlib, last ? Z_FINISH : Z_NO_FLUSH) == Z_STREAM_ERROR)
            return kb_fail(err, KINETO_E_IO, "gzip compression failed");
        size_t made = OUT_BYTES - z->zlib.avail_out;
        if (made > 0)
            status = put(target, z->out, made, err);
    } while (status == KINETO_OK && z->zlib.avail_out == 0);
    return status;
}
#endif

/* ---- zstd -------------------------------------------------------------------------------------
 */

#if defined(KB_WITH_ZSTD)
static bool zstd_open(kb_compressor *z)
{
    z->zstd = ZSTD_createCCtx();
    if (!z->zstd)
        return false;
    ZSTD_CCtx_setParameter(z->zstd, ZSTD_c_compressionLevel, 1);
    ZSTD_CCtx_setParameter(z->zstd, ZSTD_c_checksumFlag, 1);
    return true;
}
static void zstd_close(kb_compressor *z) { ZSTD_freeCCtx(z->zstd); }

static kineto_status zstd_run(kb_compressor *z, const char *data, size_t bytes, bool last,
                              kb_put_fn put, void *target, kineto_error *err)
{
    ZSTD_inBuffer in = {data, bytes, 0};
    for (bool done = false; !done;) {
        ZSTD_outBuffer out = {z->out, OUT_BYTES, 0};
        size_t left = ZSTD_compressStream2(z->zstd, &out, &in, last ? ZSTD_e_end : ZSTD_e_continue);
        if (ZSTD_isError(left))
            return kb_fail(err, KINETO_E_IO, "zstd compression failed: %s",
                           ZSTD_getErrorName(left));
        kineto_status status = out.pos > 0 ? put(target, z->out, out.pos, err) : KINETO_OK;
        if (status != KINETO_OK)
            return status;
        done = last ? left == 0 : in.pos == in.size;
    }
    return KINETO_OK;
}
#endif

/* ---- either -----------------------------------------------------------------------------------
 */

kineto_status kb_compressor_open(kb_compression c, kb_compressor **out, kineto_error *err)
{
    *out = NULL;
#if !defined(KB_WITH_ZSTD)
    if (c == KB_COMPRESS_ZSTD)
        return kb_fail(err, KINETO_E_UNSUPPORTED,
                       "built without zstd: install libzstd-dev and build again, or write .gz");
#endif
    kb_compressor *z = calloc(1, sizeof(*z));
    bool opened = false;
    if (z) {
        z->kind = c;
#if defined(KB_WITH_ZSTD)
        opened = c == KB_COMPRESS_ZSTD ? zstd_open(z) : gzip_open(z);
#else
        opened = gzip_open(z);
#endif
    }
    if (!opened) {
        free(z);
        return kb_fail_memory(err, "compressor");
    }
    *out = z;
    return KINETO_OK;
}

kineto_status kb_compressor_run(kb_compressor *z, const char *data, size_t bytes, bool last,
                                kb_put_fn put, void *target, kineto_error *err)
{
    kineto_status status = KINETO_OK;
#if defined(KB_WITH_ZSTD)
    if (z->kind == KB_COMPRESS_ZSTD)
        return zstd_run(z, data, bytes, last, put, target, err);
#endif
    while (bytes > IN_BYTES && status == KINETO_OK) {
        status = gzip_run(z, data, IN_BYTES, false, put, target, err);
        data += IN_BYTES;
        bytes -= IN_BYTES;
    }
    return status == KINETO_OK ? gzip_run(z, data, bytes, last, put, target, err) : status;
}

void kb_compressor_close(kb_compressor *z)
{
#if defined(KB_WITH_ZSTD)
    if (z->kind == KB_COMPRESS_ZSTD)
        zstd_close(z);
    else
#endif
        gzip_close(z);
    free(z);
}
