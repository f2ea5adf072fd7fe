/* The text of one input file (see input.h): a mapped file, or reserved addresses that a
 * producer thread fills by inflate.c, read ahead of the parsers. Parsed text is released
 * here, and the producer is stopped when it is too far ahead. All fields that both sides
 * change are under `mutex`; `ready_bytes` and `complete` are published with release stores,
 * so that readers load them without the mutex. */
#include "trace/bytes/input.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

/* The producer publishes steps of this size, small enough that parsing begins early. */
#ifndef KT_STEP_BYTES /* fuzzing sets smaller ones; a chunk is a whole number of steps */
#define KT_STEP_BYTES (1 << 20)
#endif
enum { STEP_BYTES = KT_STEP_BYTES };
/* Limit of the text: an offset in a block of rows has 40 bits (kt_block.args). */
#define MAX_TEXT_BYTES ((size_t)1 << 40)
/* The compression ratio of deflate is at most 1032:1. */
#define MAX_DEFLATE_RATIO 1032u

/* ---- addresses ------------------------------------------------------------------------------- */

/* Reserves address space without memory: *bytes, or less where the limit of the process is
 * lower (then *bytes is adjusted). Aligned to KT_GIVE_BYTES, so that huge pages are
 * possible. NULL: none. */
static char *reserve_addresses(size_t *bytes)
{
    for (size_t size = *bytes; size >= STEP_BYTES; size /= 4) {
        size = kb_align(size, kb_os_page_bytes());
        char *base = mmap(NULL, size + KT_GIVE_BYTES, PROT_READ | PROT_WRITE,
                          MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (base == MAP_FAILED)
            continue;
        size_t before = (0 - (uintptr_t)base) % KT_GIVE_BYTES;
        if (before)
            munmap(base, before);
        munmap(base + before + size, KT_GIVE_BYTES - before);
        *bytes = size;
        if (size > KT_GIVE_BYTES) /* advice only; short texts would waste most of a huge page */
            madvise(base + before + KT_GIVE_BYTES, size - KT_GIVE_BYTES, MADV_HUGEPAGE);
        return base + before;
    }
    return NULL;
}

/* Maps the file over the beginning of anonymous memory, so that at least a page of zeros
 * follows it. */
static kineto_status map_input_file(kt_input *in, int fd, size_t bytes, const char *path,
                                    kineto_error *err)
{
    size_t reserved = kb_align(bytes, kb_os_page_bytes()) + kb_os_page_bytes();
    char *base =
        mmap(NULL, reserved, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (base == MAP_FAILED)
        return kb_fail_os(err, errno, "no address space for %s", path);
    in->base = base;
    in->reserved_bytes = reserved;
    if (mmap(base, bytes, PROT_READ, MAP_PRIVATE | MAP_FIXED, fd, 0) == MAP_FAILED)
        return kb_fail_os(err, errno, "cannot map %s", path);
    madvise(base, bytes, MADV_SEQUENTIAL);
    /* Whole pages: parsers read the last one to its end. */
    kt_guard_begin(in, reserved - kb_os_page_bytes());
    in->ready_bytes = bytes;
    in->mapped = true;
    in->complete = 1;
    return KINETO_OK;
}

/* ---- the producer ---------------------------------------------------------------------------- */

/* Makes `ready` bytes of text visible to readers. Only the producer calls it, with growing
 * values. */
static void publish_ready_bytes(kt_input *in, size_t ready, bool complete)
{
    pthread_mutex_lock(&in->mutex);
    KB_ASSERT(ready >= in->ready_bytes && ready < in->reserved_bytes && !in->complete);
    kb_store_release(&in->ready_bytes, ready);
    if (complete)
        kb_store_release(&in->complete, 1u);
    pthread_cond_broadcast(&in->changed);
    pthread_mutex_unlock(&in->mutex);
}

/* The producer waits until readers want more text than is ready; false: it is to stop. */
static bool wait_for_demand(kt_input *in, size_t ready)
{
    pthread_mutex_lock(&in->mutex);
    while (!in->stop && !in->all_passed && ready >= in->wanted &&
           ready - KB_MIN(ready, in->passed) >= KT_AHEAD_BYTES)
        pthread_cond_wait(&in->changed, &in->mutex);
    bool stop = in->stop;
    pthread_mutex_unlock(&in->mutex);
    return !stop;
}

/* Moves a released piece of memory to the producer's next addresses at `to`. Fresh pages
 * would have to be cleared by the kernel; these need not be. */
static void reuse_spare_memory(kt_input *in, size_t to)
{
#if defined(MREMAP_DONTUNMAP)
    const int how = MREMAP_MAYMOVE | MREMAP_FIXED | MREMAP_DONTUNMAP;
    char *base = (char *)(uintptr_t)in->base, *from = NULL;
    pthread_mutex_lock(&in->mutex);
    if (in->spare_count && to + KT_GIVE_BYTES < in->reserved_bytes)
        from = base + in->spares[--in->spare_count];
    pthread_mutex_unlock(&in->mutex);
    if (!from)
        return;
    if (mremap(from, KT_GIVE_BYTES, KT_GIVE_BYTES, how, base + to) == MAP_FAILED) {
        madvise(from, KT_GIVE_BYTES, MADV_DONTNEED);
        return;
    }
    /* Same flags as the mapping before it, so that the kernel merges them: their number is
     * limited. */
    (void)mmap(from, KT_GIVE_BYTES, PROT_READ,
               MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
#else
    (void)in;
    (void)to;
#endif
}

/* True if the text that no reader has passed exceeds the limit; *most receives the limit
 * (0: none). */
static bool exceeds_limit(kt_input *in, size_t ready, size_t *most)
{
    pthread_mutex_lock(&in->mutex);
    *most = in->most_ahead;
    bool exceeds = *most && ready - KB_MIN(ready, in->passed) >= *most;
    pthread_mutex_unlock(&in->mutex);
    return exceeds;
}

static kineto_status fail_item_limit(const kt_input *in, size_t most, kineto_error *err)
{
    return kb_fail(err, KINETO_E_LIMIT,
                   "%s: one event, text or run of blanks is longer than the %zu MiB that the "
                   "memory limit allows; read the file with a higher limit, or without one",
                   in->path, most >> 20);
}

/* Records why the text ends. The first error stays: a reader may set one while the producer
 * does. */
static void set_input_status(kt_input *in, kineto_status status, const kineto_error *error)
{
    pthread_mutex_lock(&in->mutex);
    if (in->status == KINETO_OK && status != KINETO_OK) {
        in->error = *error;
        kb_store_release(&in->status, status);
    }
    pthread_mutex_unlock(&in->mutex);
}

/* Reads the next step from the source into the text at `ready`. A step never crosses a boundary of
 * chunks, so that a seek point can be taken exactly at the beginning of each chunk. */
static kineto_status read_step(kt_input *in, size_t ready, size_t *got, kineto_error *err)
{
    size_t most = in->reserved_bytes - kb_os_page_bytes(), limit;
    if (exceeds_limit(in, ready, &limit))
        return fail_item_limit(in, limit, err);
    size_t room = KB_MIN((size_t)STEP_BYTES - ready % STEP_BYTES, most - ready);
    if (!room)
        return kb_fail(err, KINETO_E_LIMIT, "the text is longer than there is address space for");
    if (in->index.by_points && ready % in->index.chunk_bytes == 0)
        kt_seek_index_add_point(&in->index, in->source);
    if (ready % KT_GIVE_BYTES == 0)
        reuse_spare_memory(in, ready);
    /* No reader reads here: it is after ready_bytes, which only this thread moves. */
    char *to = (char *)(uintptr_t)in->base + ready;
    return kt_inflate_read(in->source, to, room, got, err);
}

/* The producer thread: brings steps until the end, an error, or a stop, then clears the
 * page after the text, which may be reused memory. */
static void *run_producer(void *input)
{
    kt_input *in = input;
    size_t ready = 0, got = 1;
    while (kt_input_status(in) == KINETO_OK && got && wait_for_demand(in, ready)) {
        kineto_error error = {0};
        got = 0;
        set_input_status(in, read_step(in, ready, &got, &error), &error);
        ready += got;
        publish_ready_bytes(in, ready, false);
        if (kb_load_relaxed(&in->all_passed))
            kt_input_mark_passed(in, SIZE_MAX);
    }
    size_t rest = KT_GIVE_BYTES - ready % KT_GIVE_BYTES;
    memset((char *)(uintptr_t)in->base + ready, 0, KB_MIN(rest, kb_os_page_bytes()));
    publish_ready_bytes(in, ready, true);
    return NULL;
}

static kineto_status start_producer(kt_input *in, kineto_error *err)
{
    int failed = kb_thread_start(&in->producer, run_producer, in);
    in->has_producer = !failed;
    return failed ? kb_fail_os(err, failed, "cannot start a thread to read") : KINETO_OK;
}

size_t kt_input_wait(kt_input *in, size_t bytes)
{
    if (kb_load_acquire(&in->complete))
        return kb_load_acquire(&in->ready_bytes);
    pthread_mutex_lock(&in->mutex);
    if (in->ready_bytes < bytes && bytes > in->wanted) {
        in->wanted = bytes;
        pthread_cond_broadcast(&in->changed);
    }
    while (in->ready_bytes < bytes && !in->complete)
        pthread_cond_wait(&in->changed, &in->mutex);
    size_t ready = in->ready_bytes;
    pthread_mutex_unlock(&in->mutex);
    return ready;
}

/* ---- release of parsed text ------------------------------------------------------------------ */

/* Moves `passed` forward, never back, and wakes the producer. */
static void advance_passed(kt_input *in, size_t offset)
{
    pthread_mutex_lock(&in->mutex);
    if (offset == SIZE_MAX)
        kb_store_relaxed(&in->all_passed, true);
    offset = KB_MIN(offset, in->ready_bytes);
    kb_store_relaxed(&in->passed, KB_MAX(in->passed, offset));
    if (in->has_producer)
        pthread_cond_broadcast(&in->changed);
    pthread_mutex_unlock(&in->mutex);
}

/* Claims the text before `most` that is not released yet, in whole units. The caller releases the
 * returned number of bytes from *from on; each byte is claimed once. 0: none. */
static size_t claim_release(kt_input *in, size_t most, size_t *from)
{
    pthread_mutex_lock(&in->mutex);
    *from = in->given;
    most -= KB_MIN(most, KT_BACK_BYTES);
    size_t end = most / KT_GIVE_BYTES * KT_GIVE_BYTES;
    size_t bytes = end > *from ? end - *from : 0;
    in->given += bytes;
    KB_ASSERT(in->given <= in->ready_bytes);
    pthread_mutex_unlock(&in->mutex);
    return bytes;
}

/* Releases memory: to the producer as spare pieces, as long as it runs and has room for
 * them, the rest to the system. */
static void release_text(kt_input *in, size_t from, size_t bytes)
{
    pthread_mutex_lock(&in->mutex);
    while (!in->mapped && !in->complete && bytes && in->spare_count < KB_COUNT(in->spares)) {
        in->spares[in->spare_count++] = from;
        from += KT_GIVE_BYTES;
        bytes -= KT_GIVE_BYTES;
    }
    pthread_mutex_unlock(&in->mutex);
    if (bytes)
        madvise((char *)(uintptr_t)in->base + from, bytes, MADV_DONTNEED);
}

void kt_input_mark_passed(kt_input *in, size_t offset)
{
    if (!in->mapped && !in->index.chunk_bytes)
        return;
    advance_passed(in, offset);
    pthread_mutex_lock(&in->mutex);
    size_t passed = in->passed, from;
    pthread_mutex_unlock(&in->mutex);
    if (!in->mapped && !in->index.by_points)
        kt_seek_index_pack(&in->index, in->base, passed);
    if (!in->mapped)
        passed = kt_seek_index_bytes(&in->index, passed);
    size_t bytes = claim_release(in, passed, &from);
    if (bytes)
        release_text(in, from, bytes);
}

kineto_status kt_input_seal(kt_input *in, kineto_error *err)
{
    KB_ASSERT(!in->has_producer && in->complete); /* after kt_input_finish, by one thread */
    kineto_status status = KINETO_OK;
    kt_input_trim(in);
    kt_resident_parts_begin(in);
    /* A text of one chunk stays mapped: its chunk would not take less memory. */
    if (in->index.chunk_bytes && in->ready_bytes > in->index.chunk_bytes) {
        status = kt_seek_index_close(&in->index, in->base, in->ready_bytes, in->status != KINETO_OK,
                                     err);
        in->away = true;
    } else {
        kt_seek_index_free(&in->index);
        kt_seek_index_init(&in->index);
    }
    size_t stays = in->mapped ? in->reserved_bytes : 0;
    if (!in->mapped && !in->away)
        stays = kb_align(in->ready_bytes, kb_os_page_bytes()) + kb_os_page_bytes();
    if (stays < in->reserved_bytes)
        munmap((char *)(uintptr_t)in->base + stays, in->reserved_bytes - stays);
    in->reserved_bytes = KB_MIN(stays, in->reserved_bytes);
    return status;
}

void kt_input_trim(kt_input *in)
{
    if (in->mapped)
        madvise((void *)(uintptr_t)in->base, in->ready_bytes, MADV_DONTNEED);
    else if (in->away)
        kt_chunk_cache_drop(in);
}

bool kt_input_has_lost_text(kt_input *in)
{
    return kb_load_relaxed(&in->cut) || (in->away && kt_seek_index_has_lost(&in->index));
}

kineto_status kt_input_check(kt_input *in, kineto_error *err)
{
    if (in->mapped && in->source && kt_inflate_is_shorter(in->source, in->ready_bytes))
        kb_store_relaxed(&in->cut, 1u);
    if (!kb_load_relaxed(&in->cut))
        return KINETO_OK;
    return kb_fail(err, KINETO_E_IO,
                   "%s: the file was truncated while it was read; read it again when its writer "
                   "has finished",
                   in->path);
}

/* ---- the limit for one item ------------------------------------------------------------------ */

void kt_input_set_item_limit(kt_input *in, size_t most_ahead)
{
    pthread_mutex_lock(&in->mutex);
    kb_store_relaxed(&in->most_ahead, most_ahead);
    pthread_mutex_unlock(&in->mutex);
}

void kt_input_fail_item_limit(kt_input *in)
{
    kineto_error error = {0};
    set_input_status(in, fail_item_limit(in, kb_load_relaxed(&in->most_ahead), &error), &error);
}

/* ---- life ------------------------------------------------------------------------------------ */

/* A new input with one reference and no text; NULL: out of memory. */
static kt_input *create_input(const char *path)
{
    kt_input *in = calloc(1, sizeof *in);
    char *copy = strdup(path);
    if (!in || !copy) {
        free(in);
        free(copy);
        return NULL;
    }
    in->path = copy;
    static uint64_t numbers;
    in->references = 1;
    in->number = kb_add_relaxed(&numbers, 1) + 1;
    kt_seek_index_init(&in->index);
    pthread_mutex_init(&in->mutex, NULL);
    pthread_cond_init(&in->changed, NULL);
    return in;
}

kt_input *kt_input_retain(kt_input *in)
{
    kb_add_relaxed(&in->references, 1);
    return in;
}

void kt_input_finish(kt_input *in)
{
    if (in->has_producer) {
        pthread_mutex_lock(&in->mutex);
        in->stop = true;
        pthread_cond_broadcast(&in->changed);
        pthread_mutex_unlock(&in->mutex);
        pthread_join(in->producer, NULL);
        in->has_producer = false;
        if (in->index.by_points)
            in->index.fd = kt_inflate_take_file(in->source);
    }
    kt_inflate_close(in->source);
    in->source = NULL;
}

void kt_input_release(kt_input *in)
{
    if (!in || kb_add_acqrel(&in->references, UINT32_MAX) != 1)
        return;
    kt_input_finish(in);
    if (in->away)
        kt_chunk_cache_drop(in);
    kt_resident_parts_end(in);
    if (in->mapped)
        kt_guard_end(in);
    if (in->base && in->reserved_bytes)
        munmap((void *)(uintptr_t)in->base, in->reserved_bytes);
    kt_seek_index_free(&in->index);
    free(in->path);
    pthread_mutex_destroy(&in->mutex);
    pthread_cond_destroy(&in->changed);
    free(in);
}

/* Reads a pipe or compressed file into reserved addresses. A gzip file that can be read
 * again gets seek points; of anything else the seek index holds the text itself,
 * compressed. */
static kineto_status start_streaming(kt_input *in, size_t file_bytes, kineto_error *err)
{
    bool known = file_bytes && file_bytes < MAX_TEXT_BYTES / MAX_DEFLATE_RATIO;
    in->reserved_bytes =
        known ? file_bytes * MAX_DEFLATE_RATIO + 2 * (size_t)STEP_BYTES : MAX_TEXT_BYTES;
    char *base = reserve_addresses(&in->reserved_bytes);
    in->base = base;
    if (!base)
        return kb_fail(err, KINETO_E_MEMORY, "no address space to read into");
    in->index.by_points = kt_inflate_can_resume(in->source);
    in->index.chunk_bytes = in->index.by_points ? KT_SEEK_POINT_BYTES : KT_PACKED_CHUNK_BYTES;
    return start_producer(in, err);
}

/* Maps the file, or starts the producer. Takes ownership of the descriptor. */
static kineto_status open_input_descriptor(kt_input *in, int fd, const char *path,
                                           kineto_error *err)
{
    struct stat st;
    size_t bytes = 0;
    if (fstat(fd, &st) == 0 && S_ISREG(st.st_mode))
        bytes = (size_t)st.st_size;
    in->file_bytes = bytes;
    kineto_status status = kt_inflate_open(fd, path, &in->source, err);
    if (status != KINETO_OK)
        return status;
    if (!bytes || kt_inflate_is_compressed(in->source) || lseek(fd, 0, SEEK_CUR) < 0)
        return start_streaming(in, bytes, err);
    if (bytes >= MAX_TEXT_BYTES)
        return kb_fail(err, KINETO_E_LIMIT, "%s: files over 1 TiB cannot be read", path);
    return map_input_file(in, fd, bytes, path, err);
}

kineto_status kt_input_open(const char *path, kt_input **out, kineto_error *err)
{
    *out = NULL;
    bool is_stdin = strcmp(path, "-") == 0;
    int fd = is_stdin ? fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, 3) : open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return kb_fail_os(err, errno, "cannot open %s", is_stdin ? "standard input" : path);
    kt_input *in = create_input(path);
    if (!in) {
        close(fd);
        return kb_fail(err, KINETO_E_MEMORY, "read %s: out of memory", path);
    }
    kineto_status status = open_input_descriptor(in, fd, path, err);
    if (status != KINETO_OK)
        kt_input_release(in);
    else
        *out = in;
    return status;
}
