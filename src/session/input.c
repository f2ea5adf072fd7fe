/* A recording as input of the decoder: the frames of a spool, and the chunks that are still in the
 * pool. Both are untrusted. The spool is read with pread, never mapped: it may be truncated under a
 * reader. The pool is copied first and the spool read afterwards, so that a chunk on its way from
 * one to the other is seen at least once; of two copies, the one with more words is used.
 */
#include "session/self_cost.h"
#include "session/session.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#define MAX_DICTIONARY_BYTES (1u << 30)

typedef struct chunk_place {
    uint64_t at; /* in the spool: byte offset; in memory: word offset */
    uint32_t words;
    bool in_memory, in_spool; /* where its words are: copied from the pool, in the spool, or both */
} chunk_place;

/* A full chunk of the pool, as it was found. */
typedef struct full_chunk {
    uint64_t last_ticks;
    uint32_t index, serial;
    bool is_copied;
} full_chunk;

struct ks_input_state {
    int fd;
    uint64_t *dictionary;
    uint32_t dictionary_words; /* room */
    KB_VEC(chunk_place) places;
    KB_VEC(uint64_t) memory; /* chunks copied from the pool */
    KB_VEC(full_chunk) full;
    uint64_t evicted_before, evicted_after; /* evicted events before and after copying `full` */
    kb_map known;                           /* index:32|serial:32 → place */
    bool out_of_memory;
    uint64_t buffer[KF_CHUNK_WORDS];
    char path[KS_PATH_BYTES];
};
typedef struct ks_input_state state;

/* A chunk is identified by index and serial. The longer copy of the same chunk wins. */
static void add_chunk_place(state *s, uint32_t index, uint32_t serial, chunk_place place)
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
    if (at && *at < s->places.count)
        s->places.data[*at].in_spool |= place.in_spool;
}

/* ---- from the pool --------------------------------------------------------------------------- */

/* Memory that other threads may be writing is read only here and in the next function. Whether the
 * words belong together is validated afterwards by the serial of the chunk, which the thread
 * sanitizer cannot know. */
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

/* Copies a sealed chunk. No thread writes to it until it is freed, which changes its serial. */
static uint32_t copy_full(uint64_t *to, const uint64_t *chunk, uint32_t used)
{
#if defined(__SANITIZE_THREAD__)
    (void)used;
    return ks_chunk_copy(to, chunk);
#else
    used = KB_MIN(used, KF_CHUNK_WORDS);
    memcpy(to, chunk, used * sizeof *to);
    return kf_committed_words(to, used);
#endif
}

uint64_t ks_newest_snapshot(const kf_pool *pool)
{
    uint32_t count = kb_load_acquire(&pool->control->snapshot_count);
    return count && count <= KF_MAX_SNAPSHOTS ? pool->control->snapshots[count - 1].ticks : 0;
}

/* Copies a chunk into s->memory. False: it was freed or reclaimed meanwhile. */
static bool copy_chunk(state *s, const kf_pool *pool, uint32_t index, uint32_t serial, bool is_full)
{
    const kf_descriptor *d = &pool->descriptors[index];
    size_t at = s->memory.count;
    if (!kb_vec_reserve(&s->memory, at + KF_CHUNK_WORDS)) {
        s->out_of_memory = true;
        return true;
    }
    uint64_t *to = s->memory.data + at;
    const uint64_t *chunk = kf_pool_chunk(pool, index);
    kf_open_call call = is_full ? (kf_open_call){0} : kf_open_call_read(d);
    uint32_t words =
        is_full ? copy_full(to, chunk, kb_load_relaxed(&d->used)) : ks_chunk_copy(to, chunk);
    words = kf_open_call_append(&call, ks_newest_snapshot(pool), 0, to, words);
    kb_fence_seqcst();
    if (kb_load_acquire(&d->serial) != serial)
        return false;
    KB_ASSERT(words <= KF_CHUNK_WORDS);
    s->memory.count = at + words;
    if (words)
        add_chunk_place(s, index, serial, (chunk_place){at, words, true, false});
    return true;
}

/* Chunks in use by threads are copied at once, sealed ones are listed first: copy_listed copies
 * them newest first, since ring writers reclaim the oldest. */
static void visit_chunk(state *s, const kf_pool *pool, uint32_t index)
{
    const kf_descriptor *d = &pool->descriptors[index];
    full_chunk full = {.index = index, .serial = kb_load_acquire(&d->serial)};
    uint32_t chunk_state = kf_chunk_state_of(d);
    full.last_ticks = kb_load_relaxed(&d->last_ticks);
    if (chunk_state == KF_CHUNK_SEALED)
        s->out_of_memory |= !kb_vec_push(&s->full, full);
    else if (chunk_state != KF_CHUNK_FREE)
        (void)copy_chunk(s, pool, index, full.serial, false);
}

static int compare_newest_first(const void *left, const void *right)
{
    uint64_t a = ((const full_chunk *)left)->last_ticks,
             b = ((const full_chunk *)right)->last_ticks;
    return (a < b) - (a > b);
}

/* Chunks that were reclaimed before they could be copied stay in the list with is_copied false. */
static void copy_listed(state *s, const kf_pool *pool)
{
    if (s->full.count)
        qsort(s->full.data, s->full.count, sizeof *s->full.data, compare_newest_first);
    for (size_t i = 0; i < s->full.count; i++)
        s->full.data[i].is_copied =
            copy_chunk(s, pool, s->full.data[i].index, s->full.data[i].serial, true);
}

/* All events that ring writers have overwritten so far, by their own counters. */
static uint64_t sum_evicted_events(const kf_control *c)
{
    uint64_t sum = 0;
    for (uint32_t i = 0; i < KF_MAX_SOURCES; i++)
        sum += kb_load_relaxed(&c->counters[i][KF_REASON_EVICTED]);
    return sum;
}

/* Events of a chunk that was reclaimed after it had been copied: the writer counted them as
 * evicted, but this copy still has them. */
static uint64_t count_saved(const state *s, const kf_pool *pool, const full_chunk *full)
{
    uint64_t key = (uint64_t)full->index << 32 | full->serial, *at = kb_map_find(&s->known, key);
    ks_tally tally = {.chunks = 0};
    if (!full->is_copied || !at ||
        full->last_ticks < kb_load_relaxed(&pool->control->window_ticks) ||
        kb_load_relaxed(&pool->descriptors[full->index].serial) == full->serial)
        return 0;
    const chunk_place *p = &s->places.data[*at];
    if (p->in_memory)
        ks_tally_chunk(&tally, s->memory.data + p->at, p->words, NULL);
    return ks_tally_events(&tally);
}

/* Accounts for sealed chunks that were reclaimed while the others were copied. The copy of the
 * control page is older than that, so it is corrected: chunks that are neither in the copy nor in
 * the spool move forgotten_ticks (the input is complete from then on) and count as evicted events.
 */
static void settle_lapped(ks_input *in, const kf_pool *pool, uint64_t evicted_since)
{
    state *s = in->state;
    uint64_t saved = 0, lost_chunks = 0;
    for (size_t i = 0; i < s->full.count; i++) {
        const full_chunk *full = &s->full.data[i];
        uint64_t key = (uint64_t)full->index << 32 | full->serial;
        saved += count_saved(s, pool, full);
        if (full->is_copied || kb_map_find(&s->known, key))
            continue;
        lost_chunks++;
        in->control->forgotten_ticks = KB_MAX(in->control->forgotten_ticks, full->last_ticks);
    }
    in->lapped = lost_chunks && evicted_since > saved ? evicted_since - saved : 0;
    in->control->counters[KF_SOURCE_API][KF_REASON_EVICTED] += in->lapped;
}

/* Copies the entries in order. One that is not committed yet keeps its length, its contents stay
 * zero.
 *  @return words copied. */
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

/* Order matters: control page before sealed chunks, dictionary after them; see settle_lapped. */
static kineto_status read_pool(ks_input *in, const kf_pool *pool, kineto_error *err)
{
    state *s = in->state;
    s->dictionary_words = pool->dictionary_words;
    s->dictionary = calloc(pool->dictionary_words, sizeof *s->dictionary);
    if (!s->dictionary)
        return kb_fail_memory(err, "names of the recording");
    for (uint32_t i = 0; i < pool->chunk_count; i++)
        visit_chunk(s, pool, i);
    ks_words_copy(in->control, pool->control, sizeof *in->control);
    s->evicted_before = sum_evicted_events(in->control);
    copy_listed(s, pool);
    s->evicted_after = sum_evicted_events(pool->control);
    /* After the chunks: every entry that they refer to was written before. */
    in->input.dictionary_words = copy_dictionary(s->dictionary, pool);
    return KINETO_OK;
}

/* ---- from the spool -------------------------------------------------------------------------- */

/* @return bytes read, fewer only at the end of the file; or a negative errno. */
static ssize_t read_spool_at(int fd, void *data, size_t bytes, uint64_t at)
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

/* Also refuses spools of other versions. */
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

/* Takes over `fd`: it is closed on failure. */
static kineto_status check_spool(const char *path, int fd, int *out, kf_spool_header *header,
                                 kineto_error *err)
{
    struct stat st;
    if (fd < 0)
        return kb_fail_os(err, errno, "cannot open '%s'", path);
    kineto_status status = KINETO_OK;
    if (fstat(fd, &st) != 0 || !S_ISREG(st.st_mode))
        status = kb_fail(err, KINETO_E_FORMAT, "'%s' is not a regular file", path);
    else if (st.st_uid != geteuid())
        status = kb_fail(err, KINETO_E_PERMISSION, "'%s' belongs to another user", path);
    else
        status =
            check_spool_header(path, header, read_spool_at(fd, header, sizeof *header, 0), err);
    if (status == KINETO_OK)
        *out = fd;
    else
        close(fd);
    header->boot_id[sizeof header->boot_id - 1] = 0;
    header->pool_path[sizeof header->pool_path - 1] = 0;
    return status;
}

static kineto_status open_spool(const char *path, int *out, kf_spool_header *header,
                                kineto_error *err)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY);
    return check_spool(path, fd, out, header, err);
}

kineto_status ks_spool_header(const char *path, kf_spool_header *header, kineto_error *err)
{
    int fd = -1;
    kineto_status status = open_spool(path, &fd, header, err);
    if (status == KINETO_OK)
        close(fd);
    return status;
}

/* Reads one frame at `at`. False: it is malformed, so the contents end here. */
static bool read_spool_frame(ks_input *in, const kf_frame *f, uint64_t at, uint32_t *control_serial,
                             bool have_pool)
{
    state *s = in->state;
    uint64_t payload = at + sizeof *f;
    if (f->bytes % 8)
        return false;
    if (f->type == KF_FRAME_CHUNK) {
        if (f->bytes > KF_CHUNK_BYTES)
            return false;
        add_chunk_place(s, f->first, f->serial, (chunk_place){payload, f->bytes / 8, false, true});
        return true;
    }
    if (f->type == KF_FRAME_DICTIONARY) {
        uint32_t words = f->bytes / 8;
        if (f->first > s->dictionary_words || words > s->dictionary_words - f->first)
            return false;
        if (have_pool)
            return true;
        in->input.dictionary_words = KB_MAX(in->input.dictionary_words, f->first + words);
        return read_spool_at(s->fd, s->dictionary + f->first, f->bytes, payload) ==
               (ssize_t)f->bytes;
    }
    if (f->type != KF_FRAME_CONTROL)
        return f->type == KF_FRAME_FREE && f->bytes <= KF_CHUNK_BYTES;
    if (f->bytes != sizeof(kf_control))
        return false;
    if (have_pool || f->serial < *control_serial)
        return true;
    *control_serial = f->serial;
    return read_spool_at(s->fd, in->control, f->bytes, payload) == (ssize_t)f->bytes;
}

/* Recorder and boot identify a recording. */
static kineto_status check_same_recording(const char *path, const kf_spool_header *h,
                                          const kf_control *c, kineto_error *err)
{
    if (h->collector_pid == c->collector_pid &&
        h->collector_start_time == c->collector_start_time &&
        strncmp((const char *)h->boot_id, (const char *)c->boot_id, sizeof h->boot_id) == 0)
        return KINETO_OK;
    return kb_fail(err, KINETO_E_FORMAT, "'%s' belongs to another recording than the pool", path);
}

/* The spool is open as s->fd. */
static kineto_status read_spool(ks_input *in, const char *path, kf_spool_header header,
                                bool have_pool, kineto_error *err)
{
    state *s = in->state;
    kf_frame frame;
    uint32_t control_serial = 0;
    if (have_pool && check_same_recording(path, &header, in->control, err))
        return KINETO_E_FORMAT;
    snprintf(s->path, sizeof s->path, "%s", path);
    if (!have_pool) {
        s->dictionary_words = header.dictionary_bytes / 8;
        s->dictionary = calloc(s->dictionary_words + 1u, sizeof *s->dictionary);
        if (!s->dictionary)
            return kb_fail(err, KINETO_E_MEMORY, "names in '%s': out of memory", path);
    }
    struct stat st;
    uint64_t size = fstat(s->fd, &st) == 0 ? (uint64_t)st.st_size : 0;
    for (uint64_t at = sizeof header; at + sizeof frame <= size;) {
        if (read_spool_at(s->fd, &frame, sizeof frame, at) != (ssize_t)sizeof frame ||
            frame.bytes > size - at - sizeof frame ||
            !read_spool_frame(in, &frame, at, &control_serial, have_pool)) {
            kb_log(KINETO_LOG_INFO, "'%s' ends at byte %llu", path, (unsigned long long)at);
            break;
        }
        at += sizeof frame + frame.bytes;
    }
    if (!have_pool && in->control->magic != KF_MAGIC)
        return kb_fail(err, KINETO_E_FORMAT, "'%s' has no whole control page", path);
    return KINETO_OK;
}

/* ---- as the decoder's input ------------------------------------------------------------------ */

/* kf_input.get: the words of chunk `index` of this input (an index into places, not of the pool).
 * From the spool they are in s->buffer, valid until the next call. */
static const uint64_t *get_chunk(void *context, uint32_t index, uint32_t *words, kineto_error *err)
{
    state *s = context;
    *words = 0;
    if (index >= s->places.count) {
        kb_fail(err, KINETO_E_ARGUMENT, "no chunk with index %u", index);
        return NULL;
    }
    const chunk_place *p = &s->places.data[index];
    *words = p->words;
    if (p->in_memory)
        return s->memory.data + p->at;
    ssize_t n = read_spool_at(s->fd, s->buffer, p->words * sizeof *s->buffer, p->at);
    if (n < 0) {
        kb_fail_os(err, (int)-n, "cannot read '%s'", s->path);
        return NULL;
    }
    *words = (uint32_t)((size_t)n / sizeof *s->buffer); /* less if the file was cut meanwhile */
    return s->buffer;
}

/* kf_control needs the alignment of a cache line, which calloc does not guarantee. */
static kf_control *create_control(void)
{
    kf_control *c = aligned_alloc(_Alignof(kf_control), sizeof *c);
    if (c)
        memset(c, 0, sizeof *c);
    return c;
}

/* Reads the pool first, then the spool. `written`: an open spool, used instead of opening `path`.
 */
static kineto_status read_pool_and_spool(ks_input *in, const kf_pool *pool, const char *path,
                                         const ks_spool *written, kineto_error *err)
{
    state *s = in->state;
    kf_spool_header header;
    kineto_status status = pool ? read_pool(in, pool, err) : KINETO_OK;
    if (status == KINETO_OK && written)
        status = check_spool(path, fcntl(ks_spool_descriptor(written), F_DUPFD_CLOEXEC, 3), &s->fd,
                             &header, err);
    else if (status == KINETO_OK && path)
        status = open_spool(path, &s->fd, &header, err);
    if (status == KINETO_OK && path)
        status = read_spool(in, path, header, pool != NULL, err);
    if (status == KINETO_OK && s->out_of_memory)
        status = kb_fail_memory(err, "copy of the recording");
    if (status == KINETO_OK && pool)
        settle_lapped(in, pool, s->evicted_after - s->evicted_before);
    return status;
}

/* On failure *out is NULL and everything is freed. */
static kineto_status open_input(const kf_pool *pool, const char *path, const ks_spool *written,
                                ks_input **out, kineto_error *err)
{
    *out = NULL;
    kineto_status status = KINETO_OK;
    ks_input *in = calloc(1, sizeof *in);
    if (in) {
        in->control = create_control();
        in->state = calloc(1, sizeof *in->state);
    }
    if (!in || !in->control || !in->state) {
        status = kb_fail_memory(err, NULL);
        goto done;
    }
    in->state->fd = -1;
    status = read_pool_and_spool(in, pool, path, written, err);
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

kineto_status ks_input_open(const char *spool_path, const kf_pool *pool, ks_input **out,
                            kineto_error *err)
{
    return open_input(pool, spool_path, NULL, out, err);
}

kineto_status ks_input_open_written(const ks_spool *spool, const kf_pool *pool, ks_input **out,
                                    kineto_error *err)
{
    return open_input(pool, ks_spool_path(spool), spool, out, err);
}

#define MAX_COPIES 3u /* attempts to copy a ring that is overwritten faster than it can be copied */

kineto_status ks_input_open_ring(const char *spool_path, const ks_spool *written,
                                 const kf_pool *pool, ks_input **out, uint64_t *now,
                                 kineto_error *err)
{
    kineto_status status = KINETO_OK;
    *out = NULL;
    for (uint32_t i = 0; i < MAX_COPIES && status == KINETO_OK; i++) {
        ks_input_close(*out);
        *now = kb_ticks(pool->control->ticks_clock);
        status = open_input(pool, written ? ks_spool_path(written) : spool_path, written, out, err);
        if (status == KINETO_OK && (*out)->control->forgotten_ticks < *now)
            break;
    }
    if (status == KINETO_OK)
        (*out)->input.until_ticks = *now;
    return status;
}

uint64_t ks_input_spool_events(ks_input *input)
{
    ks_tally tally = {.chunks = 0};
    for (uint32_t i = 0; i < input->input.chunk_count; i++) {
        uint32_t words = 0;
        const uint64_t *chunk =
            input->state->places.data[i].in_spool ? get_chunk(input->state, i, &words, NULL) : NULL;
        if (chunk)
            ks_tally_chunk(&tally, chunk, words, NULL);
    }
    return ks_tally_events(&tally);
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
        kb_vec_free(&in->state->full);
        kb_map_free(&in->state->known);
        free(in->state->dictionary);
        free(in->state);
    }
    free(in->control);
    free(in);
}
