/* A whole file into memory, decompressed. */
#include "trace/read.h"

#include <errno.h>
#include <fcntl.h>
#include <unistd.h>
#include <zlib.h>
#ifdef KB_WITH_ZSTD
#include <zstd.h>
#endif

typedef struct bytes {
    char *data;
    size_t count, capacity;
} bytes;

/* Room for at least `more` bytes behind what is there. */
static bool make_room(bytes *b, size_t more)
{
    return more <= SIZE_MAX - b->count &&
           (b->count + more <= b->capacity ||
            kb_vec_grow((void **)&b->data, &b->capacity, b->count + more, 1));
}

static kineto_status no_memory(kineto_error *err, const char *path)
{
    return kb_fail(err, KINETO_E_MEMORY, "no memory to read %s", path);
}

static kineto_status read_all(int fd, const char *path, bytes *out, kineto_error *err)
{
    for (;;) {
        if (!make_room(out, 1 << 16))
            return no_memory(err, path);
        ssize_t got = read(fd, out->data + out->count, out->capacity - out->count);
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            return kb_fail_os(err, errno, "cannot read %s", path);
        if (got == 0)
            return KINETO_OK;
        out->count += (size_t)got;
    }
}

static kineto_status broken(kineto_error *err, const char *path, const char *what, size_t at)
{
    kineto_status status =
        kb_fail(err, KINETO_E_FORMAT, "%s: %s (byte %zu of the compressed file)", path, what, at);
    if (err)
        err->offset = at;
    return status;
}

/* gzip: any number of members, one after the other. */
static kineto_status gunzip(const bytes *in, const char *path, bytes *out, kineto_error *err)
{
    z_stream z = {0};
    if (inflateInit2(&z, 15 + 16) != Z_OK)
        return no_memory(err, path);
    kineto_status status = KINETO_OK;
    size_t at = 0;
    int result = Z_OK;
    while (status == KINETO_OK && (at < in->count || result != Z_STREAM_END)) {
        if (!make_room(out, 1 << 18)) {
            status = no_memory(err, path);
            break;
        }
        size_t room = KB_MIN(out->capacity - out->count, (size_t)1 << 30);
        size_t rest = KB_MIN(in->count - at, (size_t)1 << 30);
        z.next_in = (Bytef *)(in->data + at);
        z.avail_in = (uInt)rest;
        z.next_out = (Bytef *)(out->data + out->count);
        z.avail_out = (uInt)room;
        result = inflate(&z, Z_NO_FLUSH);
        at += rest - z.avail_in;
        out->count += room - z.avail_out;
        if (result == Z_STREAM_END && at < in->count)
            result = inflateReset(&z);
        else if (result != Z_OK && result != Z_STREAM_END)
            status =
                broken(err, path,
                       result == Z_BUF_ERROR ? "the gzip data ends early" : "bad gzip data", at);
    }
    inflateEnd(&z);
    return status;
}

#ifdef KB_WITH_ZSTD
static kineto_status unzstd(const bytes *in, const char *path, bytes *out, kineto_error *err)
{
    ZSTD_DStream *z = ZSTD_createDStream();
    ZSTD_inBuffer input = {in->data, in->count, 0};
    kineto_status status = z ? KINETO_OK : no_memory(err, path);
    size_t left = 1; /* 0 at the end of a frame */
    while (status == KINETO_OK && (input.pos < input.size || left != 0)) {
        if (!make_room(out, 1 << 18)) {
            status = no_memory(err, path);
            break;
        }
        ZSTD_outBuffer output = {out->data + out->count, out->capacity - out->count, 0};
        size_t before = input.pos;
        left = ZSTD_decompressStream(z, &output, &input);
        out->count += output.pos;
        if (ZSTD_isError(left))
            status = broken(err, path, ZSTD_getErrorName(left), input.pos);
        else if (left && before == input.pos && output.pos == 0)
            status = broken(err, path, "the zstd data ends early", input.pos);
    }
    ZSTD_freeDStream(z);
    return status;
}
#else
static kineto_status unzstd(const bytes *in, const char *path, bytes *out, kineto_error *err)
{
    (void)in;
    (void)out;
    return kb_fail(err, KINETO_E_UNSUPPORTED,
                   "%s is compressed with zstd, which this build does not know: zstd -d it first",
                   path);
}
#endif

static bool starts_with(const bytes *b, const char *magic, size_t size)
{
    return b->count >= size && memcmp(b->data, magic, size) == 0;
}

kineto_status kt_read_file(const char *path, char **data, size_t *size, kineto_error *err)
{
    *data = NULL;
    *size = 0;
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return kb_fail_os(err, errno, "cannot open %s", path);
    bytes in = {0}, out = {0};
    kineto_status status = read_all(fd, path, &in, err);
    close(fd);
    bool gzip = starts_with(&in, "\x1f\x8b", 2);
    if (status == KINETO_OK && (gzip || starts_with(&in, "\x28\xb5\x2f\xfd", 4))) {
        status = gzip ? gunzip(&in, path, &out, err) : unzstd(&in, path, &out, err);
        free(in.data);
        in = out;
    }
    if (status != KINETO_OK) {
        free(in.data);
        return status;
    }
    *data = in.data;
    *size = in.count;
    return KINETO_OK;
}
