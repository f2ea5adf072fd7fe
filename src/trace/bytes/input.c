/* Text to read: a mapped file, or what a thread of its own puts into reserved addresses. What has
 * been read is given back. */
#include "trace/bytes/input.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

/* At once from the source, so that scanning begins early. */
#ifndef KT_STEP_BYTES /* fuzzing has smaller ones; chunks that are kept hold whole steps */
#define KT_STEP_BYTES (1 << 20)
#endif
enum { STEP_BYTES = KT_STEP_BYTES };
#define MOST_BYTES ((size_t)1 << 40) /* of text: what places in it have room for */
/* deflate makes at most 1032 bytes of one */
#define MOST_GROWTH 1032u

/* ---- addresses ------------------------------------------------------------------------------- */

/* Address space without memory, as much as is wanted or there is. Begins where a huge page does. */
static char *reserve(size_t *bytes)
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
        if (size > KT_GIVE_BYTES) /* a wish; of short texts most of a huge page would be wasted */
            madvise(base + before + KT_GIVE_BYTES, size - KT_GIVE_BYTES, MADV_HUGEPAGE);
        return base + before;
    }
    return NULL;
}

/* The file, and behind it at least a page of zeros. */
static kineto_status map_file(kt_input *in, int fd, size_t bytes, const char *path,
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
    kt_guard_begin(in, reserved - kb_os_page_bytes()); /* whole pages: the last one is read to its end */
    in->ready_bytes = bytes;
    in->mapped = true;
    in->complete = 1;
    return KINETO_OK;
}

/* ---- the producer ---------------------------------------------------------------------------- */

static void publish(kt_input *in, size_t ready, bool complete)
{
    pthread_mutex_lock(&in->mutex);
    kb_store_release(&in->ready_bytes, ready);
    if (complete)
        kb_store_release(&in->complete, 1u);
    pthread_cond_broadcast(&in->changed);
    pthread_mutex_unlock(&in->mutex);
}

/* Wait until more is wanted than there is; false: nobody needs more. */
static bool is_wanted(kt_input *in, size_t ready)
{
    pthread_mutex_lock(&in->mutex);
    while (!in->stop && !in->all_passed && ready >= in->wanted &&
           ready - KB_MIN(ready, in->passed) >= KT_AHEAD_BYTES)
        pthread_cond_wait(&in->changed, &in->mutex);
    bool stop = in->stop;
    pthread_mutex_unlock(&in->mutex);
    return !stop;
}

/* Memory that has been given back is used again: the system would clear it first. */
static void reuse_memory(kt_input *in, size_t to)
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
    /* One mapping with what lies before it: their number is limited. */
    (void)mmap(from, KT_GIVE_BYTES, PROT_READ,
               MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
#else
    (void)in;
    (void)to;
#endif
}

/* Does what no reader has passed take more than the limit? */
static bool exceeds_limit(kt_input *in, size_t ready, size_t *most)
{
    pthread_mutex_lock(&in->mutex);
    *most = in->most_ahead;
    bool exceeds = *most && ready - KB_MIN(ready, in->passed) >= *most;
    pthread_mutex_unlock(&in->mutex);
    return exceeds;
}

static kineto_status fail_by_limit(const kt_input *in, size_t most, kineto_error *err)
{
    return kb_fail(err, KINETO_E_LIMIT,
                   "%s: one event, text or run of blanks is longer than %zu MiB, which is as much as the "
                   "limit of memory leaves for it; read it with a larger limit, or without one",
                   in->path, most >> 20);
}

/* The first reason why the text ends stays; a reader may give one while the producer does. */
static void set_status(kt_input *in, kineto_status status, const kineto_error *error)
{
    pthread_mutex_lock(&in->mutex);
    if (in->status == KINETO_OK && status != KINETO_OK) {
        in->error = *error;
        kb_store_release(&in->status, status);
    }
    pthread_mutex_unlock(&in->mutex);
}

/* Steps end where chunks do. */
static kineto_status bring_step(kt_input *in, size_t ready, size_t *got, kineto_error *err)
{
    size_t most = in->reserved_bytes - kb_os_page_bytes(), limit;
    if (exceeds_limit(in, ready, &limit))
        return fail_by_limit(in, limit, err);
    size_t room = KB_MIN((size_t)STEP_BYTES - ready % STEP_BYTES, most - ready);
    if (!room)
        return kb_fail(err, KINETO_E_LIMIT, "the text is longer than there is address space for");
    if (in->keep.by_points && ready % in->keep.chunk_bytes == 0)
        kt_keep_point(&in->keep, in->source);
    if (ready % KT_GIVE_BYTES == 0)
        reuse_memory(in, ready);
    char *to = (char *)(uintptr_t)in->base + ready; /* written here only, ahead of what is ready */
    return kt_source_read(in->source, to, room, got, err);
}

static void *produce(void *input)
{
    kt_input *in = input;
    size_t ready = 0, got = 1;
    while (kt_input_status(in) == KINETO_OK && got && is_wanted(in, ready)) {
        kineto_error error = {0};
        got = 0;
        set_status(in, bring_step(in, ready, &got, &error), &error);
        ready += got;
        publish(in, ready, false);
        if (kb_load_relaxed(&in->all_passed))
            kt_input_passed(in, SIZE_MAX);
    }
    size_t behind = KT_GIVE_BYTES - ready % KT_GIVE_BYTES; /* memory that may have been used */
    memset((char *)(uintptr_t)in->base + ready, 0, KB_MIN(behind, kb_os_page_bytes()));
    publish(in, ready, true);
    return NULL;
}

static kineto_status start_producer(kt_input *in, kineto_error *err)
{
    int failed = kb_thread_start(&in->producer, produce, in);
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

/* ---- giving back ----------------------------------------------------------------------------- */

static void note_passed(kt_input *in, size_t offset)
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

/* Whole pages from *from on that can be given back; 0: none. */
static size_t take_given(kt_input *in, size_t most, size_t *from)
{
    pthread_mutex_lock(&in->mutex);
    *from = in->given;
    most -= KB_MIN(most, KT_BEHIND_BYTES);
    size_t end = most / KT_GIVE_BYTES * KT_GIVE_BYTES;
    size_t bytes = end > *from ? end - *from : 0;
    in->given += bytes;
    pthread_mutex_unlock(&in->mutex);
    return bytes;
}

/* To whoever brings more text, as long as there is somebody; else to the system. */
static void give_back(kt_input *in, size_t from, size_t bytes)
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

void kt_input_passed(kt_input *in, size_t offset)
{
    if (!in->mapped && !in->keep.chunk_bytes)
        return;
    note_passed(in, offset);
    pthread_mutex_lock(&in->mutex);
    size_t passed = in->passed, from;
    pthread_mutex_unlock(&in->mutex);
    if (!in->mapped && !in->keep.by_points)
        kt_keep_pack(&in->keep, in->base, passed);
    if (!in->mapped)
        passed = kt_keep_bytes(&in->keep, passed);
    size_t bytes = take_given(in, passed, &from);
    if (bytes)
        give_back(in, from, bytes);
}

kineto_status kt_input_settle(kt_input *in, kineto_error *err)
{
    kineto_status status = KINETO_OK;
    kt_input_trim(in);
    kt_parts_begin(in);
    /* What fits into one chunk stays: it would not be smaller in another form. */
    if (in->keep.chunk_bytes && in->ready_bytes > in->keep.chunk_bytes) {
        status = kt_keep_close(&in->keep, in->base, in->ready_bytes, in->status != KINETO_OK, err);
        in->away = true;
    } else {
        kt_keep_free(&in->keep);
        kt_keep_init(&in->keep);
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
        kt_recall_forget(in);
}

bool kt_input_has_lost(kt_input *in)
{
    return kb_load_relaxed(&in->cut) || (in->away && kt_keep_has_lost(&in->keep));
}

kineto_status kt_input_check(kt_input *in, kineto_error *err)
{
    if (in->mapped && in->source && kt_source_is_shorter(in->source, in->ready_bytes))
        kb_store_relaxed(&in->cut, 1u);
    if (!kb_load_relaxed(&in->cut))
        return KINETO_OK;
    return kb_fail(err, KINETO_E_IO,
                   "%s: the file became shorter while it was read; read it again when it is written",
                   in->path);
}

/* ---- a limit --------------------------------------------------------------------------------- */

void kt_input_limit(kt_input *in, size_t most_ahead)
{
    pthread_mutex_lock(&in->mutex);
    kb_store_relaxed(&in->most_ahead, most_ahead);
    pthread_mutex_unlock(&in->mutex);
}

void kt_input_exceed(kt_input *in)
{
    kineto_error error = {0};
    set_status(in, fail_by_limit(in, kb_load_relaxed(&in->most_ahead), &error), &error);
}

/* ---- life ------------------------------------------------------------------------------------ */

static kt_input *create(const char *path)
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
    kt_keep_init(&in->keep);
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
        if (in->keep.by_points)
            in->keep.fd = kt_source_take_file(in->source);
    }
    kt_source_close(in->source);
    in->source = NULL;
}

void kt_input_release(kt_input *in)
{
    if (!in || kb_add_acqrel(&in->references, UINT32_MAX) != 1)
        return;
    kt_input_finish(in);
    if (in->away)
        kt_recall_forget(in);
    kt_parts_end(in);
    if (in->mapped)
        kt_guard_end(in);
    if (in->base && in->reserved_bytes)
        munmap((void *)(uintptr_t)in->base, in->reserved_bytes);
    kt_keep_free(&in->keep);
    free(in->path);
    pthread_mutex_destroy(&in->mutex);
    pthread_cond_destroy(&in->changed);
    free(in);
}

/* A pipe or compressed file: into reserved addresses. */
static kineto_status stream(kt_input *in, size_t file_bytes, kineto_error *err)
{
    bool known = file_bytes && file_bytes < MOST_BYTES / MOST_GROWTH;
    in->reserved_bytes = known ? file_bytes * MOST_GROWTH + 2 * (size_t)STEP_BYTES : MOST_BYTES;
    char *base = reserve(&in->reserved_bytes);
    in->base = base;
    if (!base)
        return kb_fail(err, KINETO_E_MEMORY, "no address space to read into");
    in->keep.by_points = kt_source_can_resume(in->source);
    in->keep.chunk_bytes = in->keep.by_points ? KT_POINT_BYTES : KT_PACK_BYTES;
    return start_producer(in, err);
}

static kineto_status open_descriptor(kt_input *in, int fd, const char *path, kineto_error *err)
{
    struct stat st;
    size_t bytes = 0;
    if (fstat(fd, &st) == 0 && S_ISREG(st.st_mode))
        bytes = (size_t)st.st_size;
    in->file_bytes = bytes;
    kineto_status status = kt_source_open(fd, path, &in->source, err);
    if (status != KINETO_OK)
        return status;
    if (!bytes || kt_source_is_compressed(in->source) || lseek(fd, 0, SEEK_CUR) < 0)
        return stream(in, bytes, err);
    if (bytes >= MOST_BYTES)
        return kb_fail(err, KINETO_E_LIMIT, "%s: files over 1 TiB cannot be read", path);
    return map_file(in, fd, bytes, path, err);
}

kineto_status kt_input_open(const char *path, kt_input **out, kineto_error *err)
{
    *out = NULL;
    bool is_stdin = strcmp(path, "-") == 0;
    int fd = is_stdin ? fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, 3) : open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return kb_fail_os(err, errno, "cannot open %s", is_stdin ? "standard input" : path);
    kt_input *in = create(path);
    if (!in) {
        close(fd);
        return kb_fail(err, KINETO_E_MEMORY, "no memory to read %s", path);
    }
    kineto_status status = open_descriptor(in, fd, path, err);
    if (status != KINETO_OK)
        kt_input_release(in);
    else
        *out = in;
    return status;
}
