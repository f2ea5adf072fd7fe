/* Files in memory, and their compressed forms; by zlib, which is not what the library reads with
 * where it has ISA-L. */
#include "damage.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>
#if defined(KB_WITH_ZSTD)
#include <zstd.h>
#endif

bytes load_file(const char *path)
{
    bytes b = {NULL, 0};
    FILE *f = fopen(path, "rb");
    if (!f)
        return b;
    if (fseek(f, 0, SEEK_END) == 0 && ftell(f) >= 0) {
        b.size = (size_t)ftell(f);
        rewind(f);
        b.data = malloc(b.size + 1);
    }
    if (b.data && fread(b.data, 1, b.size, f) != b.size) {
        free(b.data);
        b.data = NULL;
    }
    fclose(f);
    return b;
}

/* Room for more text. */
static bool grow(bytes *out, size_t *room)
{
    size_t wanted = *room ? *room * 2 : 65536;
    char *data = realloc(out->data, wanted);
    if (!data)
        return false;
    out->data = data;
    *room = wanted;
    return true;
}

bytes inflate_all(bytes file)
{
    bytes out = {NULL, 0};
    size_t room = 0;
    z_stream z = {.next_in = (Bytef *)file.data, .avail_in = (uInt)file.size};
    if (file.size < 2 || memcmp(file.data, "\x1f\x8b", 2) != 0) {
        out.data = malloc(file.size + 1);
        out.size = out.data ? file.size : 0;
        if (out.data)
            memcpy(out.data, file.data, file.size);
        return out;
    }
    if (inflateInit2(&z, 15 + 16) != Z_OK)
        return out;
    int result = Z_OK;
    while (result == Z_OK || (result == Z_STREAM_END && z.avail_in)) {
        if (result == Z_STREAM_END)
            inflateReset(&z);
        if (out.size == room && !grow(&out, &room))
            break;
        z.next_out = (Bytef *)out.data + out.size;
        z.avail_out = (uInt)(room - out.size);
        result = inflate(&z, Z_NO_FLUSH);
        out.size = room - z.avail_out;
    }
    inflateEnd(&z);
    return out;
}

bytes deflate_all(bytes text)
{
    bytes out = {NULL, 0};
    z_stream z = {.next_in = (Bytef *)text.data, .avail_in = (uInt)text.size};
    if (deflateInit2(&z, 1, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY) != Z_OK)
        return out;
    size_t room = deflateBound(&z, text.size);
    out.data = malloc(room);
    z.next_out = (Bytef *)out.data;
    z.avail_out = (uInt)room;
    if (out.data && deflate(&z, Z_FINISH) == Z_STREAM_END)
        out.size = room - z.avail_out;
    deflateEnd(&z);
    return out;
}

bytes zstd_all(bytes text)
{
    bytes out = {NULL, 0};
#if defined(KB_WITH_ZSTD)
    size_t room = ZSTD_compressBound(text.size);
    out.data = malloc(room);
    out.size = out.data ? ZSTD_compress(out.data, room, text.data, text.size, 1) : 0;
    if (ZSTD_isError(out.size))
        out.size = 0;
#else
    (void)text;
#endif
    return out;
}
