/* Text to read: a mapped file, or what a thread of its own puts into reserved addresses. */
#include "trace/input.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

/* At once from the source, so that scanning begins early. */
enum { STEP_BYTES = 1 << 20 };
#define MOST_BYTES ((size_t)1 << 40) /* of text: what places in it have room for */
/* deflate makes at most 1032 bytes of one */
#define MOST_GROWTH 1032u

/* ---- addresses ------------------------------------------------------------------------------- */

/* Address space without memory, as much as is wanted or there is. */
static char *reserve(size_t *bytes)
{
    for (size_t size = *bytes; size >= STEP_BYTES; size /= 4) {
        size = kb_align(size, kb_os_page_bytes());
        char *base = mmap(NULL, size, PROT_READ | PROT_WRITE,
                          MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (base != MAP_FAILED) {
            *bytes = size;
            madvise(base, size, MADV_HUGEPAGE); /* a wish */
            return base;
        }
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

static bool stopped(kt_input *in)
{
    pthread_mutex_lock(&in->mutex);
    bool stop = in->stop;
    pthread_mutex_unlock(&in->mutex);
    return stop;
}

static void *produce(void *input)
{
    kt_input *in = input;
    char *base = (char *)(uintptr_t)in->base; /* written here only, ahead of what is ready */
    size_t ready = 0, got = 1, most = in->reserved_bytes - kb_os_page_bytes();
    while (in->status == KINETO_OK && got && !stopped(in)) {
        size_t room = KB_MIN((size_t)STEP_BYTES, most - ready);
        if (!room) {
            in->status = kb_fail(&in->error, KINETO_E_LIMIT,
                                 "the text is longer than there is address space for");
            break;
        }
        in->status = kt_source_read(in->source, base + ready, room, &got, &in->error);
        ready += got;
        publish(in, ready, false);
    }
    publish(in, ready, true);
    return NULL;
}

/* Signals are for the program's own threads. */
static kineto_status start_producer(kt_input *in, kineto_error *err)
{
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int failed = pthread_create(&in->producer, NULL, produce, in);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    in->has_producer = !failed;
    return failed ? kb_fail_os(err, failed, "cannot start a thread to read") : KINETO_OK;
}

size_t kt_input_wait(kt_input *in, size_t bytes)
{
    if (kb_load_acquire(&in->complete))
        return kb_load_acquire(&in->ready_bytes);
    pthread_mutex_lock(&in->mutex);
    while (in->ready_bytes < bytes && !in->complete)
        pthread_cond_wait(&in->changed, &in->mutex);
    size_t ready = in->ready_bytes;
    pthread_mutex_unlock(&in->mutex);
    return ready;
}

/* ---- life ------------------------------------------------------------------------------------ */

static kt_input *create(void)
{
    kt_input *in = calloc(1, sizeof *in);
    if (!in)
        return NULL;
    in->references = 1;
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
        pthread_mutex_unlock(&in->mutex);
        pthread_join(in->producer, NULL);
        in->has_producer = false;
    }
    kt_source_close(in->source);
    in->source = NULL;
}

void kt_input_release(kt_input *in)
{
    if (!in || kb_add_acqrel(&in->references, UINT32_MAX) != 1)
        return;
    kt_input_finish(in);
    if (in->base)
        munmap((void *)(uintptr_t)in->base, in->reserved_bytes);
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
    kt_input *in = create();
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

kineto_status kt_input_of_text(kineto_string text, kt_input **out, kineto_error *err)
{
    kt_input *in = create();
    *out = in;
    size_t bytes = kb_align(text.size, kb_os_page_bytes()) + kb_os_page_bytes();
    char *base = in ? mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0)
                    : MAP_FAILED;
    if (base == MAP_FAILED) {
        *out = NULL;
        kt_input_release(in);
        return kb_fail(err, KINETO_E_MEMORY, "no memory for a text of %zu bytes", text.size);
    }
    if (text.size)
        memcpy(base, text.data, text.size);
    in->base = base;
    in->reserved_bytes = bytes;
    in->ready_bytes = text.size;
    in->complete = 1;
    return KINETO_OK;
}
