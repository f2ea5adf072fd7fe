/* Reads a file or pipe and decompresses it: plain, gzip (RFC 1952) or zstd (RFC 8878),
 * detected by the magic number. Decompression of gzip can continue in the middle of a file
 * from a stored state of the decoder (kt_seek_point). Used by the producer of read_ahead.c, one
 * thread per source; kt_inflate_resume by any thread. */
#include "trace/bytes/input.h"

#include <errno.h>
#include <sys/stat.h>
#include <unistd.h>
#if defined(KB_WITH_ISAL)
#include <isa-l/igzip_lib.h>
#else
#include <zlib.h>
#endif
#if defined(KB_WITH_ZSTD)
#include <zstd.h>
#endif

/* Input is read in pieces of IN_BYTES. One call decodes at most MAX_OUT_BYTES: the counters
 * of zlib and ISA-L have 32 bits. */
enum { IN_BYTES = 256 * 1024, MAX_OUT_BYTES = 1 << 30 };

typedef enum coding { PLAIN, GZIP, ZSTD } coding;

struct kt_inflate {
    int fd;
    bool by_place;  /* a regular file, read by pread without moving its position */
    uint64_t begin; /* offset in the file where reading began */
    coding coding;
    const char *path;  /* borrowed */
    char *in;          /* IN_BYTES of compressed input */
    size_t at, filled; /* consumed and valid bytes of `in`: at <= filled <= IN_BYTES */
    uint64_t taken;    /* bytes of the file before in[0], counted from `begin` */
    bool at_end;       /* the file has no more input */
    bool fresh;        /* between two gzip members or zstd frames */
#if defined(KB_WITH_ISAL)
    struct inflate_state *gzip;
#else
    z_stream gzip;
#endif
#if defined(KB_WITH_ZSTD)
    ZSTD_DStream *zstd;
    /* Input that the decoder asks for: one block at a time, so that damage costs one block. */
    size_t wanted;
#endif
};

struct kt_seek_point {
    uint64_t place; /* offset in the file of the next input byte */
    bool fresh;     /* as in kt_inflate */
#if defined(KB_WITH_ISAL)
    kt_packed state;
#else
    z_stream state;
#endif
};

static kineto_status fail_source_memory(const kt_inflate *s, kineto_error *err)
{
    return kb_fail(err, KINETO_E_MEMORY, "read %s: out of memory", s->path);
}

/* Fails with `what` and the position in the compressed file. */
static kineto_status fail_damaged_source(const kt_inflate *s, const char *what, kineto_error *err)
{
    uint64_t at = s->taken + s->at;
    kineto_status status =
        kb_fail(err, KINETO_E_FORMAT, "%s: %s (byte %llu of the compressed file)", s->path, what,
                (unsigned long long)at);
    if (err)
        err->offset = at;
    return status;
}

/* ---- the file -------------------------------------------------------------------------------- */

/* Reads the input that follows the buffer into `to`; the result is that of read(2). */
static ssize_t read_source_bytes(const kt_inflate *s, char *to, size_t room)
{
    uint64_t place = s->begin + s->taken + s->filled;
    ssize_t got;
    do
        got = s->by_place ? pread(s->fd, to, room, (off_t)place) : read(s->fd, to, room);
    while (got < 0 && errno == EINTR);
    return got;
}

/* Refills an empty buffer; sets at_end if the file has no more input. */
static kineto_status refill_source(kt_inflate *s, kineto_error *err)
{
    if (s->at < s->filled || s->at_end)
        return KINETO_OK;
    KB_ASSERT(s->at == s->filled);
    ssize_t got = read_source_bytes(s, s->in, IN_BYTES);
    if (got < 0)
        return kb_fail_os(err, errno, "cannot read %s", s->path);
    s->taken += s->filled;
    s->at = 0;
    s->filled = (size_t)got;
    s->at_end = got == 0;
    return KINETO_OK;
}

static bool source_starts_with(const kt_inflate *s, const char *magic, size_t size)
{
    return s->filled - s->at >= size && memcmp(s->in + s->at, magic, size) == 0;
}

/* A skippable frame of zstd, with one of 16 magic numbers from 0x184D2A50 on: pzstd begins
 * with one. */
static bool starts_with_skippable(const kt_inflate *s)
{
    return s->filled - s->at >= 4 && ((unsigned char)s->in[s->at] & 0xf0) == 0x50 &&
           memcmp(s->in + s->at + 1, "\x2a\x4d\x18", 3) == 0;
}

/* Fills the buffer with at least the 4 bytes of a magic number: a pipe may deliver them one
 * by one. */
static kineto_status fill_magic_bytes(kt_inflate *s, kineto_error *err)
{
    while (s->filled < 4 && !s->at_end) {
        ssize_t got = read_source_bytes(s, s->in + s->filled, IN_BYTES - s->filled);
        if (got < 0)
            return kb_fail_os(err, errno, "cannot read %s", s->path);
        s->filled += (size_t)got;
        s->at_end = got == 0;
    }
    return KINETO_OK;
}

/* ---- gzip ------------------------------------------------------------------------------------ */

/* For each library: gzip_init, gzip_free and gzip_reset (for the next member) handle the
 * decoder's state. gzip_step makes one call of the decoder, *done: the member is complete;
 * false: bad data. gzip_save_state stores the state in a point, and gzip_init_at_point
 * continues from it. */
#if defined(KB_WITH_ISAL)
static bool gzip_init(kt_inflate *s)
{
    /* Cleared, because gzip_save_state copies also the bytes that are never set. */
    s->gzip = calloc(1, sizeof *s->gzip);
    if (!s->gzip)
        return false;
    isal_inflate_init(s->gzip);
    s->gzip->crc_flag = ISAL_GZIP;
    return true;
}
static void gzip_free(kt_inflate *s) { free(s->gzip); }
static void gzip_reset(kt_inflate *s)
{
    isal_inflate_reset(s->gzip);
    s->gzip->crc_flag = ISAL_GZIP;
}
static bool gzip_step(kt_inflate *s, char *out, size_t room, size_t *got, bool *done)
{
    struct inflate_state *z = s->gzip;
    z->next_in = (uint8_t *)s->in + s->at;
    z->avail_in = (uint32_t)(s->filled - s->at);
    z->next_out = (uint8_t *)out;
    z->avail_out = (uint32_t)room;
    int result = isal_inflate(z);
    s->at = s->filled - z->avail_in;
    *got = room - z->avail_out;
    *done = z->block_state == ISAL_BLOCK_FINISH;
    return result == ISAL_DECOMP_OK || result == ISAL_END_INPUT;
}
/* The state includes the window of text that the decoder needs. Compressed, it is a tenth
 * of its size. */
static bool gzip_save_state(kt_inflate *s, kt_seek_point *point, kt_packer *packer)
{
    s->gzip->next_in = s->gzip->next_out = NULL;
    return kt_pack(packer, s->gzip, sizeof *s->gzip, &point->state);
}
static bool gzip_init_at_point(kt_inflate *s, const kt_seek_point *point)
{
    return gzip_init(s) && kt_unpack(&point->state, s->gzip);
}
static void free_point_state(kt_seek_point *point) { free(point->state.data); }
#else
static bool gzip_init(kt_inflate *s) { return inflateInit2(&s->gzip, 15 + 16) == Z_OK; }
static void gzip_free(kt_inflate *s) { inflateEnd(&s->gzip); }
static void gzip_reset(kt_inflate *s) { inflateReset(&s->gzip); }
static bool gzip_step(kt_inflate *s, char *out, size_t room, size_t *got, bool *done)
{
    s->gzip.next_in = (Bytef *)(s->in + s->at);
    s->gzip.avail_in = (uInt)(s->filled - s->at);
    s->gzip.next_out = (Bytef *)out;
    s->gzip.avail_out = (uInt)room;
    int result = inflate(&s->gzip, Z_NO_FLUSH);
    s->at = s->filled - s->gzip.avail_in;
    *got = room - s->gzip.avail_out;
    *done = result == Z_STREAM_END;
    return result == Z_OK || result == Z_STREAM_END || result == Z_BUF_ERROR;
}
static bool gzip_save_state(kt_inflate *s, kt_seek_point *point, kt_packer *packer)
{
    (void)packer; /* a z_stream has pointers, and cannot be compressed as memory */
    return inflateCopy(&point->state, &s->gzip) == Z_OK;
}
static bool gzip_init_at_point(kt_inflate *s, const kt_seek_point *point)
{
    return inflateCopy(&s->gzip, (z_stream *)(uintptr_t)&point->state) == Z_OK;
}
static void free_point_state(kt_seek_point *point) { inflateEnd(&point->state); }
#endif

/* Reads from any number of concatenated members. Zeros after a member are padding of tape
 * blocks. */
static kineto_status read_gzip(kt_inflate *s, char *out, size_t room, size_t *got,
                               kineto_error *err)
{
    for (;;) {
        kineto_status status = refill_source(s, err);
        if (status != KINETO_OK)
            return status;
        if (s->fresh) {
            while (s->at < s->filled && s->in[s->at] == 0)
                s->at++;
            if (s->at == s->filled && !s->at_end)
                continue;
            if (s->at_end)
                return KINETO_OK;
            if (s->in[s->at] != 0x1f)
                return fail_damaged_source(s, "data after the last gzip member is not gzip", err);
            s->fresh = false;
        }
        bool done = false;
        if (!gzip_step(s, out, room, got, &done))
            return fail_damaged_source(s, "bad gzip data", err);
        if (done) {
            gzip_reset(s);
            s->fresh = true;
        } else if (*got == 0 && s->at_end) {
            return fail_damaged_source(s, "the gzip data ends early", err);
        }
        if (*got)
            return KINETO_OK;
    }
}

/* ---- zstd ------------------------------------------------------------------------------------ */

#if defined(KB_WITH_ZSTD)
#define MAX_ZSTD_HEADER ((size_t)18) /* magic number and largest frame header of RFC 8878 */
static bool zstd_init(kt_inflate *s) { return (s->zstd = ZSTD_createDStream()) != NULL; }
static void zstd_free(kt_inflate *s) { ZSTD_freeDStream(s->zstd); }
static kineto_status read_zstd(kt_inflate *s, char *out, size_t room, size_t *got,
                               kineto_error *err)
{
    for (;;) {
        kineto_status status = refill_source(s, err);
        if (status != KINETO_OK || (s->fresh && s->at_end))
            return status;
        size_t part = KB_MIN(s->filled - s->at, s->fresh ? MAX_ZSTD_HEADER : s->wanted);
        ZSTD_inBuffer input = {s->in, s->at + part, s->at};
        ZSTD_outBuffer output = {out, room, 0};
        size_t left = ZSTD_decompressStream(s->zstd, &output, &input);
        s->at = input.pos;
        if (ZSTD_isError(left))
            return fail_damaged_source(s, ZSTD_getErrorName(left), err);
        s->fresh = left == 0;
        s->wanted = left;
        *got = output.pos;
        if (*got)
            return KINETO_OK;
        if (left && s->at_end)
            return fail_damaged_source(s, "the zstd data ends early", err);
    }
}
#else
static bool zstd_init(kt_inflate *s) { return s != NULL; }
static void zstd_free(kt_inflate *s) { (void)s; }
static kineto_status read_zstd(kt_inflate *s, char *out, size_t room, size_t *got,
                               kineto_error *err)
{
    (void)out;
    (void)room;
    (void)got;
    return kb_fail(err, KINETO_E_UNSUPPORTED,
                   "%s: compressed with zstd, which this build does not support; decompress it "
                   "with 'zstd -d'",
                   s->path);
}
#endif

/* ---- life ------------------------------------------------------------------------------------ */

/* Detects the format by the first bytes and creates its decoder. */
static kineto_status detect_coding(kt_inflate *s, kineto_error *err)
{
    kineto_status status = fill_magic_bytes(s, err);
    if (status != KINETO_OK)
        return status;
    s->fresh = true;
    if (source_starts_with(s, "\x1f\x8b", 2))
        s->coding = gzip_init(s) ? GZIP : PLAIN;
    else if (source_starts_with(s, "\x28\xb5\x2f\xfd", 4) || starts_with_skippable(s))
        s->coding = zstd_init(s) ? ZSTD : PLAIN;
    else
        return KINETO_OK;
    return s->coding == PLAIN ? fail_source_memory(s, err) : KINETO_OK;
}

/* Determines whether the descriptor is a regular file that pread can read. */
static void detect_regular_file(kt_inflate *s)
{
    struct stat st;
    off_t at = lseek(s->fd, 0, SEEK_CUR);
    s->by_place = at >= 0 && fstat(s->fd, &st) == 0 && S_ISREG(st.st_mode) && st.st_size > 0;
    s->begin = s->by_place ? (uint64_t)at : 0;
}

kineto_status kt_inflate_open(int fd, const char *path, kt_inflate **out, kineto_error *err)
{
    kt_inflate *s = calloc(1, sizeof *s);
    *out = NULL;
    if (!s) {
        close(fd);
        return kb_fail(err, KINETO_E_MEMORY, "read %s: out of memory", path);
    }
    s->fd = fd;
    s->path = path;
    detect_regular_file(s);
    s->in = malloc(IN_BYTES);
    kineto_status status = s->in ? detect_coding(s, err) : fail_source_memory(s, err);
    if (status != KINETO_OK) {
        kt_inflate_close(s);
        return status;
    }
    *out = s;
    return KINETO_OK;
}

void kt_inflate_close(kt_inflate *s)
{
    if (!s)
        return;
    if (s->coding == GZIP)
        gzip_free(s);
    if (s->coding == ZSTD)
        zstd_free(s);
    if (s->fd >= 0)
        close(s->fd);
    free(s->in);
    free(s);
}

bool kt_inflate_is_compressed(const kt_inflate *s) { return s->coding != PLAIN; }

bool kt_inflate_is_shorter(const kt_inflate *s, size_t bytes)
{
    struct stat st;
    return fstat(s->fd, &st) == 0 && S_ISREG(st.st_mode) && (uint64_t)st.st_size < bytes;
}

kineto_status kt_inflate_read(kt_inflate *s, char *out, size_t room, size_t *got, kineto_error *err)
{
    *got = 0;
    room = KB_MIN(room, (size_t)MAX_OUT_BYTES);
    if (s->coding == GZIP)
        return read_gzip(s, out, room, got, err);
    if (s->coding == ZSTD)
        return read_zstd(s, out, room, got, err);
    kineto_status status = refill_source(s, err);
    *got = KB_MIN(room, s->filled - s->at);
    memcpy(out, s->in + s->at, *got);
    s->at += *got;
    return status;
}

/* ---- seek points ----------------------------------------------------------------------------- */

bool kt_inflate_can_resume(const kt_inflate *s) { return s->coding == GZIP && s->by_place; }

int kt_inflate_take_file(kt_inflate *s)
{
    int fd = s->fd;
    s->fd = -1;
    return fd;
}

kt_seek_point *kt_inflate_mark(kt_inflate *s, kt_packer *packer)
{
    KB_ASSERT(kt_inflate_can_resume(s));
    kt_seek_point *point = calloc(1, sizeof *point);
    if (!point)
        return NULL;
    point->place = s->begin + s->taken + s->at;
    point->fresh = s->fresh;
    if (gzip_save_state(s, point, packer))
        return point;
    free(point);
    return NULL;
}

void kt_seek_point_free(kt_seek_point *point)
{
    if (point)
        free_point_state(point);
    free(point);
}

/* Decompresses exactly `bytes`; false: the data end early or are damaged. */
static bool inflate_exactly(kt_inflate *s, char *out, size_t bytes)
{
    kineto_status status = KINETO_OK;
    for (size_t got = 1; bytes && got && status == KINETO_OK; out += got, bytes -= got) {
        got = 0;
        status = read_gzip(s, out, bytes, &got, NULL);
    }
    return !bytes;
}

bool kt_inflate_resume(int fd, const kt_seek_point *point, char *out, size_t bytes)
{
    kt_inflate s = {.fd = fd,
                   .by_place = true,
                   .begin = point->place,
                   .coding = GZIP,
                   .path = "the file",
                   .fresh = point->fresh};
    s.in = malloc(IN_BYTES);
    bool ok = s.in && gzip_init_at_point(&s, point) && inflate_exactly(&s, out, bytes);
    gzip_free(&s);
    free(s.in);
    return ok;
}
