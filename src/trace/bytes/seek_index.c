/* The seek index of a text (see seek_index.h): chunks are added while the text is read, by
 * the producer (seek points) or by the parsers that have passed them (compressed text), and
 * loaded by decompressed_cache.c. The mutex protects the list of chunks and the idle packers;
 * compression itself runs outside it. */
#include "trace/bytes/seek_index.h"
#include "trace/bytes/input.h"

#include <sys/stat.h>
#include <unistd.h>

void kt_seek_index_init(kt_seek_index *k)
{
    memset(k, 0, sizeof *k);
    pthread_mutex_init(&k->mutex, NULL);
    k->fd = -1;
}

static void free_idle_packers(kt_seek_index *k)
{
    while (k->idle_count)
        kt_packer_free(k->idle[--k->idle_count]);
}

void kt_seek_index_free(kt_seek_index *k)
{
    for (size_t i = 0; i < k->chunks.count; i++) {
        kt_seek_point_free(k->chunks.data[i].point);
        free(k->chunks.data[i].packed.data);
    }
    kb_vec_free(&k->chunks);
    free_idle_packers(k);
    if (k->fd >= 0)
        close(k->fd);
    k->fd = -1;
    pthread_mutex_destroy(&k->mutex);
}

/* ---- while the text is read ------------------------------------------------------------------ */

/* An idle packer, or a new one; NULL: out of memory. Packers are large and are reused. */
static kt_packer *take_packer(kt_seek_index *k)
{
    pthread_mutex_lock(&k->mutex);
    kt_packer *p = k->idle_count ? k->idle[--k->idle_count] : NULL;
    pthread_mutex_unlock(&k->mutex);
    return p ? p : kt_packer_create();
}

/* Returns a packer to the idle ones, or frees it when there are enough; p may be NULL. */
static void return_packer(kt_seek_index *k, kt_packer *p)
{
    pthread_mutex_lock(&k->mutex);
    if (p && k->idle_count < KT_IDLE_PACKERS) {
        k->idle[k->idle_count++] = p;
        p = NULL;
    }
    pthread_mutex_unlock(&k->mutex);
    kt_packer_free(p);
}

void kt_seek_index_add_point(kt_seek_index *k, kt_inflate *source)
{
    kt_packer *p = take_packer(k);
    kt_chunk chunk = {.point = p ? kt_inflate_mark(source, p) : NULL};
    return_packer(k, p);
    pthread_mutex_lock(&k->mutex);
    if (!chunk.point || !kb_vec_push(&k->chunks, chunk)) {
        kt_seek_point_free(chunk.point);
        k->out_of_memory = true;
    }
    pthread_mutex_unlock(&k->mutex);
}

/* Claims the next chunk that ends at or before `end` for this thread; SIZE_MAX: none. */
static size_t claim_chunk(kt_seek_index *k, size_t end)
{
    size_t chunk = SIZE_MAX;
    pthread_mutex_lock(&k->mutex);
    KB_ASSERT(k->claimed == k->chunks.count);
    if (!k->out_of_memory && (k->claimed + 1) * k->chunk_bytes <= end) {
        if (kb_vec_push(&k->chunks, (kt_chunk){.point = NULL}))
            chunk = k->claimed++;
        else
            k->out_of_memory = true;
    }
    pthread_mutex_unlock(&k->mutex);
    return chunk;
}

/* Stores the text of a claimed chunk, and advances `packed` over all that are complete. */
static void store_packed_chunk(kt_seek_index *k, size_t chunk, kt_packed packed)
{
    pthread_mutex_lock(&k->mutex);
    KB_ASSERT(chunk < k->claimed && chunk >= k->packed && !k->chunks.data[chunk].packed.data);
    k->chunks.data[chunk].packed = packed;
    k->out_of_memory = k->out_of_memory || !packed.data;
    while (k->packed < k->claimed && k->chunks.data[k->packed].packed.data)
        k->packed++;
    pthread_mutex_unlock(&k->mutex);
}

void kt_seek_index_pack(kt_seek_index *k, const char *base, size_t end)
{
    size_t chunk = claim_chunk(k, end);
    kt_packer *p = chunk == SIZE_MAX ? NULL : take_packer(k);
    for (; chunk != SIZE_MAX; chunk = claim_chunk(k, end)) {
        kt_packed packed = {NULL, 0, 0};
        if (p)
            (void)kt_pack(p, base + chunk * k->chunk_bytes, k->chunk_bytes, &packed);
        store_packed_chunk(k, chunk, packed);
    }
    return_packer(k, p);
}

size_t kt_seek_index_bytes(kt_seek_index *k, size_t ready)
{
    pthread_mutex_lock(&k->mutex);
    size_t chunks = k->by_points ? k->chunks.count : k->packed;
    size_t bytes = k->out_of_memory ? 0 : KB_MIN(ready, chunks * k->chunk_bytes);
    pthread_mutex_unlock(&k->mutex);
    return bytes;
}

/* Stores the last chunk, which may be shorter, as compressed text, also in an index of seek
 * points. */
static bool pack_last_chunk(kt_seek_index *k, const char *base, size_t size)
{
    size_t chunk = (size - 1) / k->chunk_bytes, from = chunk * k->chunk_bytes;
    if (chunk > k->chunks.count ||
        (chunk == k->chunks.count && !kb_vec_push(&k->chunks, (kt_chunk){.point = NULL})))
        return false;
    kt_chunk *last = &k->chunks.data[chunk];
    kt_packer *p = take_packer(k);
    bool ok = p && kt_pack(p, base + from, size - from, &last->packed);
    return_packer(k, p);
    kt_seek_point_free(last->point);
    last->point = NULL;
    return ok;
}

/* Records size and modification time of the compressed file, by which a later change is
 * recognised. */
static void record_file_state(kt_seek_index *k)
{
    struct stat st;
    if (k->fd < 0 || fstat(k->fd, &st) != 0)
        return;
    k->file_bytes = st.st_size;
    k->changed_s = st.st_mtim.tv_sec;
    k->changed_ns = st.st_mtim.tv_nsec;
}

kineto_status kt_seek_index_close(kt_seek_index *k, const char *base, size_t size, bool damaged,
                                  kineto_error *err)
{
    bool ok = !k->out_of_memory;
    if (ok && !k->by_points)
        kt_seek_index_pack(k, base, size);
    bool whole = size % k->chunk_bytes == 0;
    if (ok && size && (k->by_points ? damaged : !whole))
        ok = pack_last_chunk(k, base, size);
    record_file_state(k);
    free_idle_packers(k);
    if (ok && !k->out_of_memory)
        return KINETO_OK;
    return kb_fail_memory(err, "keep the arguments of a trace");
}

/* ---- after the text was read ----------------------------------------------------------------- */

static bool is_file_unchanged(const kt_seek_index *k)
{
    kt_seek_index now = {.fd = k->fd, .file_bytes = -1};
    record_file_state(&now);
    return now.file_bytes == k->file_bytes && now.changed_s == k->changed_s &&
           now.changed_ns == k->changed_ns;
}

bool kt_seek_index_has_lost(kt_seek_index *k)
{
    for (size_t i = 0; i < k->chunks.count; i++)
        if (kb_load_relaxed(&k->chunks.data[i].lost))
            return true;
    return false;
}

bool kt_seek_index_load(kt_seek_index *k, size_t index, char *out, size_t size)
{
    if (index >= k->chunks.count)
        return false;
    kt_chunk *chunk = &k->chunks.data[index];
    if (kb_load_relaxed(&chunk->lost))
        return false;
    bool ok = false;
    if (!chunk->point)
        ok = chunk->packed.size == size && kt_unpack(&chunk->packed, out);
    else if (is_file_unchanged(k))
        ok = kt_inflate_resume(k->fd, chunk->point, out, size);
    if (!ok)
        kb_store_relaxed(&chunk->lost, 1u);
    return ok;
}
