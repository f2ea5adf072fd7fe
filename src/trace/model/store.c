/* Memory in a mapped temporary file, and the thread that enforces the memory limit (see
 * store.h).
 *
 * Each allocation of SMALLEST_BYTES or more is a region of its own: a range of an unlinked
 * file, mapped shared. Smaller ones are in the heap. The mutex protects the list of regions
 * and the file's end. After a fork, the child keeps its mappings, but allocates from the
 * heap and never locks the mutex. */
#include "trace/model/store.h"

#include "trace/bytes/input.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#define MIN_REGION_BYTES ((size_t)256 << 10) /* smaller allocations are in the heap */
#define WATCH_NS         2000000             /* interval between checks of the resident size */
#define STEP_BYTES       ((size_t)8 << 20)   /* growth after a release before the next one */

typedef struct region {
    void *memory;
    size_t bytes;
    off_t offset;
} region;

struct kt_store {
    uint32_t references;
    pid_t process; /* the process that created the store; a fork's child only uses its pages */
    int fd, statm; /* the temporary file, and /proc/self/statm */
    uint64_t limit_bytes;
    uint64_t least_bytes; /* resident size after the last release */
    size_t page_bytes;
    pthread_mutex_t mutex; /* protects the members below */
    pthread_cond_t stopping;
    KB_VEC(region) regions;    /* sorted by address */
    KB_VEC(kt_input *) inputs; /* retained */
    off_t end;                 /* of the used part of the file */
    bool warned_full;          /* the warning about a full file was logged */
    bool stop;                 /* ends the watcher */
    pthread_t watcher;
};

/* ---- the file -------------------------------------------------------------------------------- */

/* Opens a file without a name in the directory; -1 with errno. */
static int open_unnamed_file(const char *directory)
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

/* Creates the file in $TMPDIR if it is set, else in /var/tmp, which is usually on a disk,
 * or /tmp. */
static int open_store_file(kineto_error *err)
{
    const char *wanted = kb_setting("TMPDIR");
    if (wanted && *wanted) {
        int fd = open_unnamed_file(wanted);
        if (fd < 0)
            kb_fail_os(err, errno,
                       "cannot create a temporary file in TMPDIR '%s' for the memory limit",
                       wanted);
        return fd;
    }
    int fd = open_unnamed_file("/var/tmp");
    fd = fd < 0 ? open_unnamed_file("/tmp") : fd;
    if (fd < 0)
        kb_fail_os(err, errno,
                   "cannot create a temporary file for the memory limit in /var/tmp or /tmp; set "
                   "TMPDIR to another directory");
    return fd;
}

/* False in the child of a fork: it shares the pages of the regions, but has no watcher, and
 * must not change the file. */
static bool is_store_process(const kt_store *s) { return s->process == getpid(); }

/* ---- regions --------------------------------------------------------------------------------- */

/* Index of the region at this address, or where it would be inserted. */
static size_t find_region(const kt_store *s, const void *memory)
{
    size_t i = 0;
    KB_LOWER_BOUND(i, s->regions.count, (uintptr_t)s->regions.data[i].memory < (uintptr_t)memory);
    return i;
}

static bool is_region_at(const kt_store *s, size_t at, const void *memory)
{
    return at < s->regions.count && s->regions.data[at].memory == memory;
}

/* Logs once that the limit cannot be kept. */
static void warn_file_full(kt_store *s, size_t bytes, int why)
{
    if (!s->warned_full)
        kb_log(KINETO_LOG_WARNING,
               "no room in the temporary file for %zu bytes (%s): the memory limit will be "
               "exceeded; set TMPDIR to another directory",
               bytes, strerror(why));
    s->warned_full = true;
}

/* With the mutex held: maps a new region at the end of the file. Its disk blocks are
 * allocated now, because a full disk would raise SIGBUS on a later write. NULL: no room. */
static void *map_region(kt_store *s, size_t bytes)
{
    region new = {.bytes = (bytes + s->page_bytes - 1) / s->page_bytes * s->page_bytes,
                  .offset = s->end};
    if (!kb_vec_reserve(&s->regions, s->regions.count + 1))
        return NULL;
    int why = kb_os_reserve(s->fd, new.offset, new.bytes);
    if (why) {
        warn_file_full(s, bytes, why);
        return NULL;
    }
    new.memory = mmap(NULL, new.bytes, PROT_READ | PROT_WRITE, MAP_SHARED, s->fd, new.offset);
    if (new.memory == MAP_FAILED)
        return NULL;
    size_t at = find_region(s, new.memory);
    KB_ASSERT(!is_region_at(s, at, new.memory));
    memmove(&s->regions.data[at + 1], &s->regions.data[at], (s->regions.count++ - at) * sizeof new);
    s->regions.data[at] = new;
    s->end += (off_t) new.bytes;
    return new.memory;
}

static void *allocate_from_heap(size_t bytes) { return kb_array(bytes, 1); }

void *kt_store_alloc(kt_store *s, size_t bytes)
{
    if (!s || bytes < MIN_REGION_BYTES || !is_store_process(s))
        return allocate_from_heap(bytes);
    pthread_mutex_lock(&s->mutex);
    void *memory = map_region(s, bytes);
    pthread_mutex_unlock(&s->mutex);
    return memory ? memory : allocate_from_heap(bytes);
}

void *kt_store_zeroed(kt_store *s, size_t bytes)
{
    if (!s || bytes < MIN_REGION_BYTES)
        return calloc(1, bytes ? bytes : 1);
    void *memory = kt_store_alloc(s, bytes);
    if (memory)
        memset(memory, 0, bytes); /* the memory may come from the heap */
    return memory;
}

/* Frees the disk blocks of a region. */
static void free_file_space(const kt_store *s, const region *r)
{
#ifdef FALLOC_FL_PUNCH_HOLE
    if (fallocate(s->fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, r->offset, (off_t)r->bytes) !=
        0)
        kb_log(KINETO_LOG_INFO, "cannot free space of the temporary file: %s", strerror(errno));
#else
    (void)s;
    (void)r;
#endif
}

/* Unmaps the region that begins at `memory`; false: it is not a region. */
static bool unmap_region(kt_store *s, void *memory)
{
    if (!is_store_process(s)) /* the child keeps it mapped, and must not lock the mutex */
        return is_region_at(s, find_region(s, memory), memory);
    pthread_mutex_lock(&s->mutex);
    size_t at = find_region(s, memory);
    bool found = is_region_at(s, at, memory);
    if (found) {
        region old = s->regions.data[at];
        memmove(&s->regions.data[at], &s->regions.data[at + 1],
                (--s->regions.count - at) * sizeof old);
        munmap(old.memory, old.bytes);
        free_file_space(s, &old);
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
    if (!s || (old_bytes < MIN_REGION_BYTES && bytes < MIN_REGION_BYTES))
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
    void *old, *grown; /* copied as bytes, because the caller's pointer has another type */
    memcpy(&old, data, sizeof old);
    grown = kt_store_resize(s, old, *capacity * item_bytes, items * item_bytes);
    if (!grown)
        return false;
    memcpy(data, &grown, sizeof grown);
    *capacity = items;
    return true;
}

/* ---- the limit ------------------------------------------------------------------------------- */

/* Resident size of the process: the second number of /proc/self/statm is in pages. 0: unknown. */
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

/* With the mutex held: releases the pages of all regions and texts. Written pages stay in
 * the page cache, which does not count as resident, until they are on the disk. */
static void release_store_pages(kt_store *s)
{
    for (size_t i = 0; i < s->regions.count; i++)
        (void)madvise(s->regions.data[i].memory, s->regions.data[i].bytes, MADV_DONTNEED);
    for (size_t i = 0; i < s->inputs.count; i++)
        kt_input_trim(s->inputs.data[i]);
}

/* With the mutex held: releases pages if the process is above the limit. The rest may still
 * be above it; the next release waits until the process has grown by STEP_BYTES. */
static void enforce_limit(kt_store *s)
{
    if (resident_bytes(s) <= KB_MAX(s->limit_bytes, s->least_bytes + STEP_BYTES))
        return;
    release_store_pages(s);
    s->least_bytes = resident_bytes(s);
}

void kt_store_check(kt_store *s)
{
    if (!s || !is_store_process(s))
        return;
    pthread_mutex_lock(&s->mutex);
    enforce_limit(s);
    pthread_mutex_unlock(&s->mutex);
}

/* The time `ns` nanoseconds from now, on the monotonic clock. */
static struct timespec monotonic_after(int64_t ns)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    ns += t.tv_nsec;
    return (struct timespec){t.tv_sec + ns / 1000000000, ns % 1000000000};
}

/* The watcher thread. */
static void *run_watcher(void *argument)
{
    kt_store *s = argument;
    pthread_mutex_lock(&s->mutex);
    while (!s->stop) {
        enforce_limit(s);
        struct timespec next = monotonic_after(WATCH_NS);
        (void)pthread_cond_timedwait(&s->stopping, &s->mutex, &next);
    }
    pthread_mutex_unlock(&s->mutex);
    return NULL;
}

void kt_store_watch(kt_store *s, kt_input *input)
{
    if (!s || !is_store_process(s))
        return;
    pthread_mutex_lock(&s->mutex);
    bool known = false;
    for (size_t i = s->inputs.count; i-- > 0 && !known;)
        known = s->inputs.data[i] == input;
    if (!known && kb_vec_push(&s->inputs, input))
        kt_input_retain(input);
    else if (!known)
        kb_log(KINETO_LOG_WARNING, "out of memory: the memory limit does not cover the text "
               "of a file");
    pthread_mutex_unlock(&s->mutex);
}

/* ---- life ------------------------------------------------------------------------------------ */

static kineto_status start_watcher(kt_store *s, kineto_error *err)
{
    int why = kb_thread_start(&s->watcher, run_watcher, s);
    return why ? kb_fail_os(err, why, "cannot start the thread of the memory limit") : KINETO_OK;
}

static void destroy_store(kt_store *s)
{
    if (s->fd >= 0)
        close(s->fd);
    if (s->statm >= 0)
        close(s->statm);
    if (is_store_process(s)) { /* in a child, the watcher of the parent process may wait on them */
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
        return kb_fail_memory(err, NULL);
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
    s->fd = open_store_file(err);
    kineto_status status = s->fd >= 0 ? start_watcher(s, err) : KINETO_E_IO;
    if (status != KINETO_OK)
        destroy_store(s);
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
    if (is_store_process(s)) {
        pthread_mutex_lock(&s->mutex);
        s->stop = true;
        pthread_cond_signal(&s->stopping);
        pthread_mutex_unlock(&s->mutex);
        pthread_join(s->watcher, NULL);
    }
    destroy_store(s);
}
