/* Memory that may lie in a file: regions of an unlinked one, and the thread that keeps the limit.
 */
#include "trace/model/store.h"

#include "trace/bytes/input.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#define SMALLEST_BYTES ((size_t)256 << 10) /* less stays in the heap */
#define WATCH_NS       2000000           /* between two looks at the resident size */
#define STEP_BYTES     ((size_t)8 << 20) /* that must have come before more is given back */

typedef struct region {
    void *memory;
    size_t bytes;
    off_t offset;
} region;

struct kt_store {
    uint32_t references;
    pid_t process; /* that the file belongs to: a fork's child only reads its pages */
    int fd, statm;
    uint64_t limit_bytes, least_bytes; /* resident after the last time */
    size_t page_bytes;
    pthread_mutex_t mutex; /* of all below */
    pthread_cond_t stopping;
    KB_VEC(region) regions; /* by address */
    KB_VEC(kt_input *) inputs;
    off_t end; /* of the file */
    bool told; /* that the file has no room */
    bool stop;
    pthread_t watcher;
};

/* ---- the file -------------------------------------------------------------------------------- */

static int open_unnamed(const char *directory)
{
    char path[4096];
#ifdef O_TMPFILE
    int fd = open(directory, O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
    if (fd >= 0)
        return fd;
#endif
    if (snprintf(path, sizeof path, "%s/ckineto-XXXXXX", directory) >= (int)sizeof path)
        return -1;
    int named = mkostemp(path, O_CLOEXEC);
    if (named >= 0)
        unlink(path);
    return named;
}

/* $TMPDIR if it is set; else where large files may be, on a disk. */
static int open_file(kineto_error *err)
{
    const char *wanted = kb_setting("TMPDIR");
    if (wanted && *wanted) {
        int fd = open_unnamed(wanted);
        if (fd < 0)
            kb_fail_os(err, errno, "a file for what exceeds the limit of memory, in TMPDIR '%s'",
                       wanted);
        return fd;
    }
    int fd = open_unnamed("/var/tmp");
    fd = fd < 0 ? open_unnamed("/tmp") : fd;
    if (fd < 0)
        kb_fail_os(err, errno,
                   "a file for what exceeds the limit of memory, in /var/tmp and /tmp; TMPDIR can "
                   "name another directory");
    return fd;
}

/* A child has the regions too, and shares their pages; neither the thread, nor the file's space. */
static bool is_ours(const kt_store *s) { return s->process == getpid(); }

/* ---- regions --------------------------------------------------------------------------------- */

/* Where the region at this address is, or would be put. */
static size_t find(const kt_store *s, const void *memory)
{
    size_t low = 0, high = s->regions.count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if ((uintptr_t)s->regions.data[middle].memory < (uintptr_t)memory)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static bool is_region(const kt_store *s, size_t at, const void *memory)
{
    return at < s->regions.count && s->regions.data[at].memory == memory;
}

static void tell_full(kt_store *s, size_t bytes, int why)
{
    if (!s->told)
        kb_log(KINETO_LOG_WARNING,
               "no room in the temporary file for %zu bytes (%s): the limit of memory is not kept; "
               "TMPDIR can name another directory",
               bytes, strerror(why));
    s->told = true;
}

/* Under the lock. The blocks of the file are taken now: else a full disk would be a signal later.
 */
static void *map_region(kt_store *s, size_t bytes)
{
    region new = {.bytes = (bytes + s->page_bytes - 1) / s->page_bytes * s->page_bytes,
                  .offset = s->end};
    if (!kb_vec_reserve(&s->regions, s->regions.count + 1))
        return NULL;
    int why = kb_os_reserve(s->fd, new.offset, new.bytes);
    if (why) {
        tell_full(s, bytes, why);
        return NULL;
    }
    new.memory = mmap(NULL, new.bytes, PROT_READ | PROT_WRITE, MAP_SHARED, s->fd, new.offset);
    if (new.memory == MAP_FAILED)
        return NULL;
    size_t at = find(s, new.memory);
    memmove(&s->regions.data[at + 1], &s->regions.data[at], (s->regions.count++ - at) * sizeof new);
    s->regions.data[at] = new;
    s->end += (off_t) new.bytes;
    return new.memory;
}

static void *from_heap(size_t bytes) { return kb_array(bytes, 1); }

void *kt_store_alloc(kt_store *s, size_t bytes)
{
    if (!s || bytes < SMALLEST_BYTES || !is_ours(s))
        return from_heap(bytes);
    pthread_mutex_lock(&s->mutex);
    void *memory = map_region(s, bytes);
    pthread_mutex_unlock(&s->mutex);
    return memory ? memory : from_heap(bytes);
}

void *kt_store_zeroed(kt_store *s, size_t bytes)
{
    if (!s || bytes < SMALLEST_BYTES)
        return calloc(1, bytes ? bytes : 1);
    void *memory = kt_store_alloc(s, bytes);
    if (memory)
        memset(memory, 0, bytes); /* space of the file may have been used before */
    return memory;
}

static void give_back_space(const kt_store *s, const region *r)
{
#ifdef FALLOC_FL_PUNCH_HOLE
    if (fallocate(s->fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, r->offset, (off_t)r->bytes) !=
        0)
        kb_log(KINETO_LOG_INFO, "space of the temporary file is not given back: %s",
               strerror(errno));
#else
    (void)s;
    (void)r;
#endif
}

/* False: no region. */
static bool unmap_region(kt_store *s, void *memory)
{
    if (!is_ours(s)) /* stays mapped as long as the child lives; the lock may be its parent's */
        return is_region(s, find(s, memory), memory);
    pthread_mutex_lock(&s->mutex);
    size_t at = find(s, memory);
    bool found = is_region(s, at, memory);
    if (found) {
        region old = s->regions.data[at];
        memmove(&s->regions.data[at], &s->regions.data[at + 1],
                (--s->regions.count - at) * sizeof old);
        munmap(old.memory, old.bytes);
        give_back_space(s, &old);
    }
    pthread_mutex_unlock(&s->mutex);
    return found;
}

void kt_store_free(kt_store *s, void *memory)
{
    if (memory && (!s || !unmap_region(s, memory)))
        free(memory);
}

void *kt_store_resize(kt_store *s, void *memory, size_t old_bytes, size_t bytes)
{
    if (!s || (old_bytes < SMALLEST_BYTES && bytes < SMALLEST_BYTES))
        return realloc(memory, bytes ? bytes : 1);
    void *resized = kt_store_alloc(s, bytes);
    if (resized && memory)
        memcpy(resized, memory, KB_MIN(old_bytes, bytes));
    if (resized)
        kt_store_free(s, memory);
    return resized;
}

bool kt_store_grow(kt_store *s, void **data, size_t *capacity, size_t need, size_t item_bytes)
{
    size_t items = KB_MAX(*capacity, (size_t)16);
    while (items < need && items <= SIZE_MAX / 2)
        items *= 2;
    if (items < need || items > SIZE_MAX / item_bytes)
        return false;
    void *old, *grown; /* the caller's pointer has another type: copied as bytes */
    memcpy(&old, data, sizeof old);
    grown = kt_store_resize(s, old, *capacity * item_bytes, items * item_bytes);
    if (!grown)
        return false;
    memcpy(data, &grown, sizeof grown);
    *capacity = items;
    return true;
}

/* ---- the limit ------------------------------------------------------------------------------- */

/* The second number of /proc/self/statm, in pages. 0: not known. */
static uint64_t resident_bytes(const kt_store *s)
{
    char text[128];
    ssize_t got = pread(s->statm, text, sizeof text - 1, 0);
    if (got <= 0)
        return 0;
    text[got] = '\0';
    char *end;
    (void)strtoull(text, &end, 10);
    return strtoull(end, NULL, 10) * s->page_bytes;
}

/* Under the lock. What was written stays in the system's cache until it is on the disk. */
static void trim(kt_store *s)
{
    for (size_t i = 0; i < s->regions.count; i++)
        (void)madvise(s->regions.data[i].memory, s->regions.data[i].bytes, MADV_DONTNEED);
    for (size_t i = 0; i < s->inputs.count; i++)
        kt_input_trim(s->inputs.data[i]);
}

/* Under the lock. What is left after giving back may still be too much: then it is not tried again
 * until there is more. */
static void keep_limit(kt_store *s)
{
    if (resident_bytes(s) <= KB_MAX(s->limit_bytes, s->least_bytes + STEP_BYTES))
        return;
    trim(s);
    s->least_bytes = resident_bytes(s);
}

void kt_store_check(kt_store *s)
{
    if (!s || !is_ours(s))
        return;
    pthread_mutex_lock(&s->mutex);
    keep_limit(s);
    pthread_mutex_unlock(&s->mutex);
}

static struct timespec after_ns(int64_t ns)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    ns += t.tv_nsec;
    return (struct timespec){t.tv_sec + ns / 1000000000, ns % 1000000000};
}

static void *watch(void *argument)
{
    kt_store *s = argument;
    pthread_mutex_lock(&s->mutex);
    while (!s->stop) {
        keep_limit(s);
        struct timespec next = after_ns(WATCH_NS);
        (void)pthread_cond_timedwait(&s->stopping, &s->mutex, &next);
    }
    pthread_mutex_unlock(&s->mutex);
    return NULL;
}

void kt_store_watch(kt_store *s, kt_input *input)
{
    if (!s || !is_ours(s))
        return;
    pthread_mutex_lock(&s->mutex);
    bool known = false;
    for (size_t i = s->inputs.count; i-- > 0 && !known;)
        known = s->inputs.data[i] == input;
    if (!known && kb_vec_push(&s->inputs, input))
        kt_input_retain(input);
    else if (!known)
        kb_log(KINETO_LOG_WARNING, "out of memory: pages of the text are not given back");
    pthread_mutex_unlock(&s->mutex);
}

/* ---- life ------------------------------------------------------------------------------------ */

static kineto_status start_watching(kt_store *s, kineto_error *err)
{
    int why = kb_thread_start(&s->watcher, watch, s);
    return why ? kb_fail_os(err, why, "a thread that keeps the limit of memory") : KINETO_OK;
}

static void destroy(kt_store *s)
{
    if (s->fd >= 0)
        close(s->fd);
    if (s->statm >= 0)
        close(s->statm);
    if (is_ours(s)) { /* else the thread that waits on them is in another process */
        pthread_mutex_destroy(&s->mutex);
        pthread_cond_destroy(&s->stopping);
    }
    kb_vec_free(&s->regions);
    for (size_t i = 0; i < s->inputs.count; i++)
        kt_input_release(s->inputs.data[i]);
    kb_vec_free(&s->inputs);
    free(s);
}

kineto_status kt_store_create(uint64_t limit_bytes, kt_store **out, kineto_error *err)
{
    *out = NULL;
    kt_store *s = calloc(1, sizeof *s);
    if (!s)
        return kb_fail(err, KINETO_E_MEMORY, "out of memory");
    pthread_condattr_t monotonic;
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_cond_init(&s->stopping, &monotonic);
    pthread_condattr_destroy(&monotonic);
    pthread_mutex_init(&s->mutex, NULL);
    s->references = 1;
    s->process = getpid();
    s->limit_bytes = limit_bytes;
    s->page_bytes = (size_t)sysconf(_SC_PAGESIZE);
    s->statm = open("/proc/self/statm", O_RDONLY | O_CLOEXEC);
    s->fd = open_file(err);
    kineto_status status = s->fd >= 0 ? start_watching(s, err) : KINETO_E_IO;
    if (status != KINETO_OK)
        destroy(s);
    else
        *out = s;
    return status;
}

kt_store *kt_store_retain(kt_store *s)
{
    if (s)
        kb_add_relaxed(&s->references, 1);
    return s;
}

void kt_store_release(kt_store *s)
{
    if (!s || kb_add_acqrel(&s->references, UINT32_MAX) != 1)
        return;
    if (is_ours(s)) {
        pthread_mutex_lock(&s->mutex);
        s->stop = true;
        pthread_cond_signal(&s->stopping);
        pthread_mutex_unlock(&s->mutex);
        pthread_join(s->watcher, NULL);
    }
    destroy(s);
}
