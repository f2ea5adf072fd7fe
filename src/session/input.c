/* What was recorded, as the decoder takes it: the frames of a spool, and the chunks that are still
 * in the pool. Both are untrusted. The spool is read with pread, never mapped: it may shrink under
 * a reader. The pool is copied first and the spool read afterwards, so that a chunk on its way
 * from one to the other is seen at least once; the copy with more words wins.
 */
#include "session/session.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#define MAX_DICTIONARY_BYTES (1u << 30)

typedef struct chunk_place {
    uint64_t at; /* in the spool: byte offset; in memory: word offset */
    uint32_t words;
    bool in_memory;
} chunk_place;

struct ks_input_state {
    int fd;
    uint64_t *dictionary;
    uint32_t dictionary_words; /* room */
    KB_VEC(chunk_place) places;
    KB_VEC(uint64_t) memory; /* chunks copied from the pool */
    kb_map known;            /* index:32|serial:32 → place */
    bool out_of_memory;
    uint64_t buffer[KF_CHUNK_WORDS];
    char path[KS_PATH_BYTES];
};
typedef struct ks_input_state state;

static void place_add(state *s, uint32_t index, uint32_t serial, chunk_place place)
{
    bool created = false;
    uint64_t key = (uint64_t)index << 32 | serial;
    uint64_t *at = kb_map_insert(&s->known, key, s->places.count, &created);
    if (!at)
        s->out_of_memory = true;
    else if (created)
        s->out_of_memory |= !kb_vec_push(&s->places, place);
    else if (s->places.data[*at].words < place.words)
        s->places.data[*at] = place;
}

/* ---- from the pool ------------------------------------------------------------------------------ */

/* What others may be writing is read here and in the next function only. Whether the words belong
 * together is found out afterwards, by the serial of the chunk; the thread sanitizer cannot know
 * that. */
#if defined(__SANITIZE_THREAD__)
#define READS_SHARED __attribute__((no_sanitize("thread")))
#else
#define READS_SHARED
#endif

READS_SHARED uint32_t ks_chunk_copy(uint64_t *to, const uint64_t *chunk)
{
    uint32_t at = 0;
    while (at < KF_CHUNK_WORDS) {
        uint64_t header = kb_load_acquire(&chunk[at]);
        uint32_t words = kf_header_words(header);
        if (header == 0 || words == 0 || words > KF_CHUNK_WORDS - at)
            break;
        to[at] = header;
        for (uint32_t i = 1; i < words; i++)
            to[at + i] = kb_load_relaxed(&chunk[at + i]);
        at += words;
    }
    return at;
}

READS_SHARED void ks_words_copy(void *to, const void *from, size_t bytes)
{
    uint64_t *out = to;
    const uint64_t *in = from;
    for (size_t i = 0; i < bytes / sizeof *out; i++)
        out[i] = kb_load_relaxed(&in[i]);
}

static bool chunk_in_use(const kf_descriptor *d, uint32_t *serial)
{
    *serial = kb_load_acquire(&d->serial);
    return kf_chunk_state_of(d) != KF_CHUNK_FREE;
}

/* A chunk that got other contents meanwhile was copied out by the collector: not needed. */
static void copy_chunk(state *s, const kf_pool *pool, uint32_t index)
{
    uint32_t serial, again;
    const kf_descriptor *d = &pool->descriptors[index];
    if (!chunk_in_use(d, &serial))
        return;
    size_t at = s->memory.count;
    if (!kb_vec_reserve(&s->memory, at + KF_CHUNK_WORDS)) {
        s->out_of_memory = true;
        return;
    }
    uint32_t words = ks_chunk_copy(s->memory.data + at, kf_pool_chunk(pool, index));
    kb_fence_seqcst();
    if (words == 0 || !chunk_in_use(d, &again) || again != serial)
        return;
    s->memory.count = at + words;
    place_add(s, index, serial, (chunk_place){at, words, true});
}

/* Entries in order; one that is not committed yet keeps its length and loses its contents. */
static uint32_t copy_dictionary(uint64_t *to, const kf_pool *pool)
{
    uint32_t at = 1;
    while (at < pool->dictionary_words) {
        uint64_t header = kb_load_acquire(&pool->dictionary[at]);
        uint32_t words = kf_entry_header_words(header);
        if (words == 0 || words > pool->dictionary_words - at)
            break;
        to[at] = header;
        if ((header & 0xff) != KF_ENTRY_NONE)
            memcpy(to + at + 1, pool->dictionary + at + 1, (words - 1) * sizeof *to);
        at += words;
    }
    return at;
}

static kineto_status read_pool(ks_input *in, const kf_pool *pool, kineto_error *err)
{
    state *s = in->state;
    s->dictionary_words = pool->dictionary_words;
    s->dictionary = calloc(pool->dictionary_words, sizeof *s->dictionary);
    if (!s->dictionary)
        return kb_fail(err, KINETO_E_MEMORY, "no memory for the names of the recording");
    for (uint32_t i = 0; i < pool->chunk_count; i++)
        copy_chunk(s, pool, i);
    /* After the chunks: what they refer to is there by now. */
    in->input.dictionary_words = copy_dictionary(s->dictionary, pool);
    ks_words_copy(in->control, pool->control, sizeof *in->control);
    return KINETO_OK;
}

/* ---- from the spool ------------------------------------------------------------------------------ */

/* Bytes read, short only at the end of the file; negative errno. */
static ssize_t read_at(int fd, void *data, size_t bytes, uint64_t at)
{
    size_t done = 0;
    while (done < bytes) {
        ssize_t n = pread(fd, (char *)data + done, bytes - done, (off_t)(at + done));
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return -errno;
        if (n == 0)
            break;
        done += (size_t)n;
    }
    return (ssize_t)done;
}

static kineto_status check_spool_header(const char *path, const kf_spool_header *h, ssize_t n,
                                        kineto_error *err)
{
    if (n < 0)
        return kb_fail_os(err, (int)-n, "cannot read '%s'", path);
    if (n < (ssize_t)sizeof *h || h->magic != KF_SPOOL_MAGIC)
        return kb_fail(err, KINETO_E_FORMAT, "'%s' is not a ckineto spool", path);
    if (h->version != KF_VERSION || h->header_bytes != sizeof *h ||
        h->control_bytes != sizeof(kf_control) || h->chunk_bytes != KF_CHUNK_BYTES)
        return kb_fail(err, KINETO_E_FORMAT,
                       "'%s' was written by another version of ckineto (layout %u, this one reads "
                       "%u): use the version that recorded it",
                       path, h->version, KF_VERSION);
    if (h->dictionary_bytes % 8 || h->dictionary_bytes > MAX_DICTIONARY_BYTES)
        return kb_fail(err, KINETO_E_FORMAT, "'%s': impossible size of its names", path);
    return KINETO_OK;
}

static kineto_status open_spool(const char *path, int *out, kf_spool_header *header,
                                kineto_error *err)
{
    struct stat st;
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY);
    if (fd < 0)
        return kb_fail_os(err, errno, "cannot open '%s'", path);
    kineto_status status = KINETO_OK;
    if (fstat(fd, &st) != 0 || !S_ISREG(st.st_mode))
        status = kb_fail(err, KINETO_E_FORMAT, "'%s' is not a regular file", path);
    else if (st.st_uid != geteuid())
        status = kb_fail(err, KINETO_E_PERMISSION, "'%s' belongs to another user", path);
    else
        status = check_spool_header(path, header, read_at(fd, header, sizeof *header, 0), err);
    if (status == KINETO_OK)
        *out = fd;
    else
        close(fd);
    header->boot_id[sizeof header->boot_id - 1] = 0;
    header->pool_path[sizeof header->pool_path - 1] = 0;
    return status;
}

kineto_status ks_spool_header(const char *path, kf_spool_header *header, kineto_error *err)
{
    int fd = -1;
    kineto_status status = open_spool(path, &fd, header, err);
    if (status == KINETO_OK)
        close(fd);
    return status;
}

/* Take one frame at `at`; false: not a frame, which is where the contents end. */
static bool take_frame(ks_input *in, const kf_frame *f, uint64_t at, uint32_t *control_serial,
                       bool have_pool)
{
    state *s = in->state;
    uint64_t payload = at + sizeof *f;
    if (f->bytes % 8)
        return false;
    if (f->type == KF_FRAME_CHUNK) {
        if (f->bytes > KF_CHUNK_BYTES)
            return false;
        place_add(s, f->first, f->serial, (chunk_place){payload, f->bytes / 8, false});
        return true;
    }
    if (f->type == KF_FRAME_DICTIONARY) {
        uint32_t words = f->bytes / 8;
        if (f->first > s->dictionary_words || words > s->dictionary_words - f->first)
            return false;
        if (have_pool)
            return true;
        in->input.dictionary_words = KB_MAX(in->input.dictionary_words, f->first + words);
        return read_at(s->fd, s->dictionary + f->first, f->bytes, payload) == (ssize_t)f->bytes;
    }
    if (f->type != KF_FRAME_CONTROL)
        return f->type == KF_FRAME_FREE && f->bytes <= KF_CHUNK_BYTES;
    if (f->bytes != sizeof(kf_control))
        return false;
    if (have_pool || f->serial < *control_serial)
        return true;
    *control_serial = f->serial;
    return read_at(s->fd, in->control, f->bytes, payload) == (ssize_t)f->bytes;
}

static kineto_status same_recording(const char *path, const kf_spool_header *h, const kf_control *c,
                                    kineto_error *err)
{
    if (h->collector_pid == c->collector_pid &&
        h->collector_start_time == c->collector_start_time &&
        strncmp((const char *)h->boot_id, (const char *)c->boot_id, sizeof h->boot_id) == 0)
        return KINETO_OK;
    return kb_fail(err, KINETO_E_FORMAT, "'%s' belongs to another recording than the pool", path);
}

static kineto_status read_spool(ks_input *in, const char *path, bool have_pool, kineto_error *err)
{
    state *s = in->state;
    kf_spool_header header;
    kf_frame frame;
    uint32_t control_serial = 0;
    kineto_status status = open_spool(path, &s->fd, &header, err);
    if (status == KINETO_OK && have_pool)
        status = same_recording(path, &header, in->control, err);
    if (status)
        return status;
    snprintf(s->path, sizeof s->path, "%s", path);
    if (!have_pool) {
        s->dictionary_words = header.dictionary_bytes / 8;
        s->dictionary = calloc(s->dictionary_words + 1u, sizeof *s->dictionary);
        if (!s->dictionary)
            return kb_fail(err, KINETO_E_MEMORY, "no memory for the names in '%s'", path);
    }
    struct stat st;
    uint64_t size = fstat(s->fd, &st) == 0 ? (uint64_t)st.st_size : 0;
    for (uint64_t at = sizeof header; at + sizeof frame <= size;) {
        if (read_at(s->fd, &frame, sizeof frame, at) != (ssize_t)sizeof frame ||
            frame.bytes > size - at - sizeof frame ||
            !take_frame(in, &frame, at, &control_serial, have_pool)) {
            kb_log(KINETO_LOG_INFO, "'%s' ends at byte %llu", path, (unsigned long long)at);
            break;
        }
        at += sizeof frame + frame.bytes;
    }
    if (!have_pool && in->control->magic != KF_MAGIC)
        return kb_fail(err, KINETO_E_FORMAT, "'%s' has no whole control page", path);
    return KINETO_OK;
}

/* ---- as the decoder's input ----------------------------------------------------------------------- */

static const uint64_t *get_chunk(void *context, uint32_t index, uint32_t *words, kineto_error *err)
{
    state *s = context;
    *words = 0;
    if (index >= s->places.count) {
        kb_fail(err, KINETO_E_ARGUMENT, "there is no chunk %u", index);
        return NULL;
    }
    const chunk_place *p = &s->places.data[index];
    *words = p->words;
    if (p->in_memory)
        return s->memory.data + p->at;
    ssize_t n = read_at(s->fd, s->buffer, p->words * sizeof *s->buffer, p->at);
    if (n < 0) {
        kb_fail_os(err, (int)-n, "cannot read '%s'", s->path);
        return NULL;
    }
    *words = (uint32_t)((size_t)n / sizeof *s->buffer); /* less if the file was cut meanwhile */
    return s->buffer;
}

/* It is aligned to cache lines, which calloc does not promise. */
static kf_control *control_create(void)
{
    kf_control *c = aligned_alloc(_Alignof(kf_control), sizeof *c);
    if (c)
        memset(c, 0, sizeof *c);
    return c;
}

kineto_status ks_input_open(const char *spool_path, const kf_pool *pool, ks_input **out,
                            kineto_error *err)
{
    *out = NULL;
    kineto_status status = KINETO_OK;
    ks_input *in = calloc(1, sizeof *in);
    if (in) {
        in->control = control_create();
        in->state = calloc(1, sizeof *in->state);
    }
    if (!in || !in->control || !in->state) {
        status = kb_fail(err, KINETO_E_MEMORY, "out of memory");
        goto done;
    }
    in->state->fd = -1;
    if (pool)
        status = read_pool(in, pool, err);
    if (status == KINETO_OK && spool_path)
        status = read_spool(in, spool_path, pool != NULL, err);
    if (status == KINETO_OK && in->state->out_of_memory)
        status = kb_fail(err, KINETO_E_MEMORY, "no memory for a copy of the recording");
    if (status)
        goto done;
    in->input.dictionary = in->state->dictionary;
    in->input.chunk_count = (uint32_t)KB_MIN(in->state->places.count, (size_t)UINT32_MAX);
    in->input.get = get_chunk;
    in->input.context = in->state;
    *out = in;
    in = NULL;
done:
    ks_input_close(in);
    return status;
}

void ks_input_close(ks_input *in)
{
    if (!in)
        return;
    if (in->state) {
        if (in->state->fd >= 0)
            close(in->state->fd);
        kb_vec_free(&in->state->places);
        kb_vec_free(&in->state->memory);
        kb_map_free(&in->state->known);
        free(in->state->dictionary);
        free(in->state);
    }
    free(in->control);
    free(in);
}
