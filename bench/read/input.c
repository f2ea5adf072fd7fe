/* The input of a peer: mapped, or inflated as a whole, with readable bytes after it, which simdjson
 * needs. */
#include "read/input.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>

#ifdef KB_WITH_ISAL
#include <isa-l/igzip_lib.h>
#else
#include <zlib.h>
#endif

/* Map the file, and a page of zeros after its last page. */
static bool map_file(const char *path, read_input *in)
{
    struct stat st;
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0 || fstat(fd, &st) || st.st_size == 0) {
        fprintf(stderr, "%s: %s\n", path, errno ? strerror(errno) : "empty");
        if (fd >= 0)
            close(fd);
        return false;
    }
    in->size = (size_t)st.st_size;
    in->mapped = in->size + 2 * READ_PADDING;
    char *place =
        mmap(NULL, in->mapped, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (place != MAP_FAILED &&
        mmap(place, in->size, PROT_READ, MAP_PRIVATE | MAP_FIXED, fd, 0) == MAP_FAILED)
        place = MAP_FAILED;
    close(fd);
    in->text = place;
    if (place == MAP_FAILED)
        fprintf(stderr, "%s: cannot be mapped: %s\n", path, strerror(errno));
    return place != MAP_FAILED;
}

/* Inflate all members into the target; a target that keeps nothing has the same room again. */
typedef struct target {
    char *data;
    size_t size, used, total;
    bool keep;
} target;

static bool ensure_room(target *t)
{
    if (t->used < t->size)
        return true;
    if (!t->keep) {
        t->used = 0;
        return true;
    }
    size_t wanted = t->size * 2;
    char *more = realloc(t->data, wanted);
    if (!more)
        return false;
    t->data = more;
    t->size = wanted;
    return true;
}

#ifdef KB_WITH_ISAL
static bool inflate_all(const read_input *packed, target *t)
{
    static struct inflate_state state;
    isal_inflate_init(&state);
    state.crc_flag = IGZIP_GZIP;
    state.next_in = (uint8_t *)(uintptr_t)packed->text;
    state.avail_in = (uint32_t)packed->size;
    for (;;) {
        if (!ensure_room(t))
            return false;
        size_t free_bytes = t->size - t->used;
        uint32_t take = free_bytes < (1u << 30) ? (uint32_t)free_bytes : 1u << 30;
        state.next_out = (uint8_t *)t->data + t->used;
        state.avail_out = take;
        if (isal_inflate(&state) != ISAL_DECOMP_OK)
            return false;
        t->used += take - state.avail_out;
        t->total += take - state.avail_out;
        if (state.block_state != ISAL_BLOCK_FINISH && state.avail_in == 0 &&
            state.avail_out == take)
            return false; /* truncated */
        if (state.block_state != ISAL_BLOCK_FINISH)
            continue;
        if (state.avail_in == 0)
            return true;
        isal_inflate_reset(&state);
        state.crc_flag = IGZIP_GZIP;
    }
}
#else
static bool inflate_all(const read_input *packed, target *t)
{
    z_stream z = {.next_in = (Bytef *)(uintptr_t)packed->text, .avail_in = (uInt)packed->size};
    int status = inflateInit2(&z, 15 + 16);
    while (status == Z_OK && ensure_room(t)) {
        size_t free_bytes = t->size - t->used;
        uInt take = free_bytes < (1u << 30) ? (uInt)free_bytes : 1u << 30;
        z.next_out = (Bytef *)t->data + t->used;
        z.avail_out = take;
        status = inflate(&z, Z_NO_FLUSH);
        t->used += take - z.avail_out;
        t->total += take - z.avail_out;
        if (status == Z_STREAM_END && z.avail_in)
            status = inflateReset(&z);
    }
    inflateEnd(&z);
    return status == Z_STREAM_END;
}
#endif

static bool is_gzip(const read_input *in)
{
    return in->size > 18 && (unsigned char)in->text[0] == 0x1f &&
           (unsigned char)in->text[1] == 0x8b;
}

/* The last four bytes of a gzip file are the size of its last member, mod 2^32: a first guess. */
static size_t guess_text_size(const read_input *packed)
{
    const unsigned char *tail = (const unsigned char *)packed->text + packed->size - 4;
    size_t size =
        (size_t)tail[0] | (size_t)tail[1] << 8 | (size_t)tail[2] << 16 | (size_t)tail[3] << 24;
    return (size > packed->size ? size : packed->size * 8) + 2 * READ_PADDING;
}

static bool inflate_file(const char *path, const read_input *packed, target *t)
{
    bool fits = packed->size < UINT32_MAX;
    t->data = fits ? malloc(t->size) : NULL;
    if (t->data && inflate_all(packed, t))
        return true;
    fprintf(stderr, "%s: cannot be inflated\n", path);
    free(t->data);
    t->data = NULL;
    return false;
}

bool read_input_open(const char *path, read_input *input)
{
    if (!map_file(path, input))
        return false;
    if (!is_gzip(input))
        return true;
    read_input packed = *input;
    target t = {.size = guess_text_size(&packed), .keep = true};
    if (!inflate_file(path, &packed, &t))
        return false;
    munmap((void *)(uintptr_t)packed.text, packed.mapped);
    while (t.size - t.used < READ_PADDING) {
        char *more = realloc(t.data, t.size += READ_PADDING);
        if (!more)
            return false;
        t.data = more;
    }
    memset(t.data + t.used, 0, READ_PADDING);
    *input = (read_input){t.data, t.used, t.size};
    return true;
}

uint64_t read_input_inflate_only(const char *path)
{
    read_input packed;
    target t = {.size = 256u << 10, .keep = false};
    if (!map_file(path, &packed) || !inflate_file(path, &packed, &t))
        return 0;
    free(t.data);
    return t.total;
}
