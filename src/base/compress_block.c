/* Compression of single blocks: each becomes one zstd frame of its own, for file formats whose pages
 * are compressed one by one. Without zstd there is no such compressor, and callers store blocks as
 * they are. */
#include "base/base.h"

#if defined(KB_WITH_ZSTD)
#include <zstd.h>

struct kb_block_compressor {
    ZSTD_CCtx *zstd;
};

kb_block_compressor *kb_block_compressor_open(void)
{
    kb_block_compressor *c = calloc(1, sizeof *c);
    if (c && !(c->zstd = ZSTD_createCCtx())) {
        free(c);
        return NULL;
    }
    return c;
}

size_t kb_block_bound(size_t bytes) { return ZSTD_compressBound(bytes); }

size_t kb_block_compress(kb_block_compressor *c, char *out, size_t room, const char *data, size_t bytes)
{
    size_t size = ZSTD_compressCCtx(c->zstd, out, room, data, bytes, 1);
    return ZSTD_isError(size) ? 0 : size;
}

void kb_block_compressor_close(kb_block_compressor *c)
{
    if (c)
        ZSTD_freeCCtx(c->zstd);
    free(c);
}

bool kb_has_block_compressor(void) { return true; }
#else
kb_block_compressor *kb_block_compressor_open(void) { return NULL; }
size_t kb_block_bound(size_t bytes) { return bytes; }

size_t kb_block_compress(kb_block_compressor *c, char *out, size_t room, const char *data, size_t bytes)
{
    (void)c, (void)out, (void)room, (void)data, (void)bytes;
    return 0;
}

void kb_block_compressor_close(kb_block_compressor *c) { (void)c; }
bool kb_has_block_compressor(void) { return false; }
#endif
