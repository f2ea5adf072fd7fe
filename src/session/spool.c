/* The spool: the file to which chunks of the pool are copied out (layout: format/format.h). One
 * thread, the collector's, writes it; readers use pread.
 *
 * Written with pwrite only: a full disk is an error here, never a signal. At any moment the file is
 * a valid sequence of frames, also when the writer is killed: where a frame replaces old contents,
 * its header is written after its payload, and a partial append is truncated again.
 */
#include "session/session.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#define SLOT_BYTES (sizeof(kf_frame) + KF_CHUNK_BYTES)
#define MAX_BATCH  64u

struct ks_spool {
    int fd;
    uint64_t end;           /* bytes that hold complete frames */
    uint64_t head;          /* of them: header and the two control pages */
    uint64_t control_at[2]; /* the two places of the control page */
    uint32_t control_serial;
    uint64_t ring_chunks; /* 0: grow */
    uint64_t *ring_at;    /* offset of each slot */
    uint64_t ring_count, ring_next;
    uint64_t *scratch; /* one chunk: staging for a ring slot, old or new contents */
    char path[KS_PATH_BYTES];
};

/* pwritev until all is written. Modifies `iov`. */
static kineto_status write_vectors(ks_spool *s, struct iovec *iov, int count, uint64_t at,
                                   kineto_error *err)
{
    while (count > 0) {
        ssize_t n = pwritev(s->fd, iov, count, (off_t)at);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return kb_fail_os(err, errno, "cannot write '%s'", s->path);
        at += (uint64_t)n;
        size_t done = (size_t)n;
        for (; count > 0 && done >= iov->iov_len; iov++, count--)
            done -= iov->iov_len;
        if (count > 0) {
            iov->iov_base = (char *)iov->iov_base + done;
            iov->iov_len -= done;
        }
    }
    return KINETO_OK;
}

static kineto_status write_spool_at(ks_spool *s, const void *data, size_t bytes, uint64_t at,
                                    kineto_error *err)
{
    struct iovec iov = {(void *)(uintptr_t)data, bytes};
    return write_vectors(s, &iov, 1, at, err);
}

/* Appends all of it, or leaves the file as it was. */
static kineto_status append_to_spool(ks_spool *s, struct iovec *iov, int count, kineto_error *err)
{
    uint64_t bytes = 0;
    for (int i = 0; i < count; i++)
        bytes += iov[i].iov_len;
    kineto_status status = write_vectors(s, iov, count, s->end, err);
    if (status == KINETO_OK)
        s->end += bytes;
    else if (ftruncate(s->fd, (off_t)s->end) != 0)
        kb_log(KINETO_LOG_WARNING, "'%s' could not be cut to %llu bytes", s->path,
               (unsigned long long)s->end);
    return status;
}

static kineto_status append_spool_frame(ks_spool *s, kf_frame frame, const void *payload,
                                        kineto_error *err)
{
    struct iovec iov[2] = {{&frame, sizeof frame}, {(void *)(uintptr_t)payload, frame.bytes}};
    return append_to_spool(s, iov, 2, err);
}

/* ---- creating and closing -------------------------------------------------------------------- */

static kineto_status write_spool_head(ks_spool *s, const kf_pool *pool, const char *pool_path,
                                      kineto_error *err)
{
    const kf_control *c = pool->control;
    kf_spool_header header = {.magic = KF_SPOOL_MAGIC,
                              .version = KF_VERSION,
                              .header_bytes = (uint32_t)sizeof header,
                              .control_bytes = (uint32_t)sizeof(kf_control),
                              .chunk_bytes = KF_CHUNK_BYTES,
                              .dictionary_bytes = pool->dictionary_words * 8u,
                              .collector_pid = c->collector_pid,
                              .collector_start_time = c->collector_start_time};
    memcpy(header.boot_id, c->boot_id, sizeof header.boot_id);
    snprintf(header.pool_path, sizeof header.pool_path, "%s", pool_path);
    struct iovec iov = {&header, sizeof header};
    kineto_status status = append_to_spool(s, &iov, 1, err);
    for (int i = 0; i < 2 && status == KINETO_OK; i++) {
        s->control_at[i] = s->end;
        kf_frame frame = {KF_FRAME_CONTROL, (uint32_t)sizeof(kf_control), 0, s->control_serial++};
        status = append_spool_frame(s, frame, c, err);
    }
    s->head = s->end;
    return status;
}

kineto_status ks_spool_reset(ks_spool *s, kineto_error *err)
{
    KB_ASSERT(s->head > 0 && s->head <= s->end);
    if (ftruncate(s->fd, (off_t)s->head) != 0)
        return kb_fail_os(err, errno, "cannot empty '%s'", s->path);
    s->end = s->head;
    s->ring_count = s->ring_next = 0;
    return KINETO_OK;
}

/* Allocates the index of ring slots. False: out of memory. */
static bool ring_prepare(ks_spool *s, uint64_t ring_chunks)
{
    s->ring_chunks = ring_chunks;
    if (ring_chunks == 0)
        return true;
    s->ring_at = calloc(ring_chunks, sizeof *s->ring_at);
    s->scratch = malloc(KF_CHUNK_BYTES);
    return s->ring_at && s->scratch;
}

kineto_status ks_spool_create(const char *path, const kf_pool *pool, const char *pool_path,
                              uint64_t ring_chunks, ks_spool **out, kineto_error *err)
{
    *out = NULL;
    ks_spool *s = calloc(1, sizeof *s);
    if (!s)
        return kb_fail_memory(err, NULL);
    kineto_status status;
    snprintf(s->path, sizeof s->path, "%s", path);
    s->fd = kb_os_clear_of_standard(kb_os_create(AT_FDCWD, path, O_RDWR, 0600));
    if (s->fd < 0) {
        status = kb_fail_os(err, errno, "cannot create '%s'", path);
        goto failed;
    }
    if (ring_prepare(s, ring_chunks))
        status = write_spool_head(s, pool, pool_path, err);
    else
        status = kb_fail(err, KINETO_E_MEMORY, "ring of %llu chunks: out of memory",
                         (unsigned long long)ring_chunks);
    if (status)
        unlink(path);
failed:
    if (status)
        ks_spool_close(s);
    else
        *out = s;
    return status;
}

void ks_spool_close(ks_spool *s)
{
    if (!s)
        return;
    if (s->fd >= 0)
        close(s->fd);
    free(s->ring_at);
    free(s->scratch);
    free(s);
}

uint64_t ks_spool_bytes(const ks_spool *s) { return s->end; }
int ks_spool_descriptor(const ks_spool *s) { return s->fd; }
const char *ks_spool_path(const ks_spool *s) { return s->path; }

/* Is the file at this path the one that is open? */
static bool is_spool_at(const ks_spool *s, const char *path)
{
    struct stat ours, there;
    return fstat(s->fd, &ours) == 0 && lstat(path, &there) == 0 && ours.st_dev == there.st_dev &&
           ours.st_ino == there.st_ino;
}

bool ks_spool_find(ks_spool *s, char path[KS_PATH_BYTES])
{
    char link[64], found[KS_PATH_BYTES];
    if (is_spool_at(s, s->path))
        return true;
    snprintf(link, sizeof link, "/proc/self/fd/%d", s->fd);
    ssize_t n = readlink(link, found, sizeof found - 1);
    found[KB_MAX(n, 0)] = 0;
    if (n <= 0 || !is_spool_at(s, found))
        return false;
    memcpy(s->path, found, sizeof s->path);
    memcpy(path, found, sizeof s->path);
    return true;
}

/* ---- frames ---------------------------------------------------------------------------------- */

static kineto_status append_chunks(ks_spool *s, const ks_spool_chunk *chunks, uint32_t count,
                                   kineto_error *err)
{
    KB_ASSERT(count <= MAX_BATCH);
    kf_frame frames[MAX_BATCH];
    struct iovec iov[2 * MAX_BATCH];
    for (uint32_t i = 0; i < count; i++) {
        frames[i] =
            (kf_frame){KF_FRAME_CHUNK, chunks[i].count * 8u, chunks[i].index, chunks[i].serial};
        iov[2 * i] = (struct iovec){&frames[i], sizeof frames[i]};
        iov[2 * i + 1] = (struct iovec){(void *)(uintptr_t)chunks[i].words, frames[i].bytes};
    }
    return append_to_spool(s, iov, (int)(2 * count), err);
}

/* Writes a ring slot at `at`. The slot is marked free first and becomes a chunk with its header,
 * which is written last: readers never see a header with another chunk's payload. */
static kineto_status write_slot(ks_spool *s, const ks_spool_chunk *chunk, uint64_t at,
                                kineto_error *err)
{
    kf_frame hole = {KF_FRAME_FREE, KF_CHUNK_BYTES, 0, 0};
    kf_frame frame = {KF_FRAME_CHUNK, KF_CHUNK_BYTES, chunk->index, chunk->serial};
    uint32_t bytes = chunk->count * 8u;
    KB_ASSERT(bytes <= KF_CHUNK_BYTES && at >= s->head);
    memset(s->scratch, 0, KF_CHUNK_BYTES);
    memcpy(s->scratch, chunk->words, bytes);
    kineto_status status = write_spool_at(s, &hole, sizeof hole, at, err);
    if (status == KINETO_OK)
        status = write_spool_at(s, s->scratch, KF_CHUNK_BYTES, at + sizeof hole, err);
    if (status == KINETO_OK)
        status = write_spool_at(s, &frame, sizeof frame, at, err);
    return status;
}

/* Passes the words of a slot to `evict` before they are overwritten. */
static void report_eviction(ks_spool *s, uint64_t at, ks_spool_evict *evict, void *context)
{
    ssize_t n = pread(s->fd, s->scratch, KF_CHUNK_BYTES, (off_t)(at + sizeof(kf_frame)));
    if (n > 0 && evict)
        evict(context, s->scratch, (uint32_t)((size_t)n / 8));
}

/* New slots are appended; when the ring is full, the oldest slot is overwritten. */
static kineto_status write_ring_chunk(ks_spool *s, const ks_spool_chunk *chunk,
                                      ks_spool_evict *evict, void *context, kineto_error *err)
{
    if (s->ring_count < s->ring_chunks) {
        kineto_status status = write_slot(s, chunk, s->end, err);
        if (status == KINETO_OK) {
            s->ring_at[s->ring_count++] = s->end;
            s->end += SLOT_BYTES;
        } else if (ftruncate(s->fd, (off_t)s->end) != 0) {
            kb_log(KINETO_LOG_WARNING, "'%s' has a damaged end", s->path);
        }
        return status;
    }
    KB_ASSERT(s->ring_count == s->ring_chunks && s->ring_next < s->ring_chunks);
    uint64_t at = s->ring_at[s->ring_next];
    report_eviction(s, at, evict, context);
    s->ring_next = (s->ring_next + 1) % s->ring_chunks;
    return write_slot(s, chunk, at, err);
}

kineto_status ks_spool_chunks(ks_spool *s, const ks_spool_chunk *chunks, uint32_t count,
                              ks_spool_evict *evict, void *context, kineto_error *err)
{
    kineto_status status = KINETO_OK;
    if (s->ring_chunks) {
        for (uint32_t i = 0; i < count && status == KINETO_OK; i++)
            status = write_ring_chunk(s, &chunks[i], evict, context, err);
        return status;
    }
    for (uint32_t i = 0; i < count && status == KINETO_OK; i += MAX_BATCH)
        status = append_chunks(s, chunks + i, KB_MIN(count - i, MAX_BATCH), err);
    return status;
}

kineto_status ks_spool_dictionary(ks_spool *s, const uint64_t *dictionary, uint32_t first,
                                  uint32_t words, kineto_error *err)
{
    kf_frame frame = {KF_FRAME_DICTIONARY, words * 8u, first, 0};
    return words ? append_spool_frame(s, frame, dictionary + first, err) : KINETO_OK;
}

/* The two places alternate, so that one of them is complete at any moment; the frame with the
 * higher serial is the newer one. */
kineto_status ks_spool_control(ks_spool *s, const kf_control *control, kineto_error *err)
{
    uint64_t at = s->control_at[s->control_serial % 2];
    kf_frame frame = {KF_FRAME_CONTROL, (uint32_t)sizeof *control, 0, s->control_serial};
    kineto_status status = write_spool_at(s, control, sizeof *control, at + sizeof frame, err);
    if (status == KINETO_OK)
        status = write_spool_at(s, &frame, sizeof frame, at, err);
    if (status == KINETO_OK)
        s->control_serial++;
    return status;
}
