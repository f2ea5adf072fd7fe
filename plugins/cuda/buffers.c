/* Buffers between CUPTI and us. CUPTI requests one on threads of its own and of the program, and
 * returns it when it is full or flushed. Address space for all buffers is reserved before the
 * session. The pages of a few are allocated then, so that CUPTI does not wait for page faults; the
 * reader thread allocates those of further buffers ahead of need, and a short program never pays
 * for them. When none is free CUPTI gets none, drops records, and reports how many. Versions of
 * CUPTI that cannot handle that get spare buffers, whose records are counted and dropped. Lock
 * order: reader_lock before the pool's mutex. */
#include "cuda.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

typedef struct cupti_buffer {
    uint8_t *memory;
    size_t valid;
    bool out;          /* CUPTI has it */
    bool counted_kept; /* counted as not returned */
    struct cupti_buffer *next;
} cupti_buffer;

/* A small buffer beyond the bound, which is never read. */
typedef struct spare_buffer {
    struct spare_buffer *next;
    _Alignas(8) uint8_t memory[];
} spare_buffer;

typedef struct buffer_pool {
    /* All below; held for a few instructions. */
    pthread_mutex_t mutex;
    /* A buffer was filled, or the thread must end. */
    pthread_cond_t changed;
    cupti_buffer *all, *free;
    size_t free_count;
    size_t begun; /* of `all`: the first ones, which have been free or handed out; others have no pages */
    cupti_buffer *filled, **filled_end; /* in the order in which they came */
    size_t count; /* of `all` */
    uint8_t *memory;
    spare_buffer *spares; /* those that CUPTI has */
    bool never_refuse;
    bool short_of; /* a request was refused: flush soon */
    bool open;     /* a session reads records; else they are late */
    bool running;  /* the reader thread */
    bool allocating; /* pages of the buffer `begun`, which may be handed out meanwhile */
    pthread_t thread;
    cp_buffer_stats stats;
} buffer_pool;

static buffer_pool p = {.mutex = PTHREAD_MUTEX_INITIALIZER};
/* Held by the one that reads: the thread, or a caller that drains. */
static pthread_mutex_t reader_lock = PTHREAD_MUTEX_INITIALIZER;
static cp_decoder *decoder;

/* ---- allocation ------------------------------------------------------------------------------ */

static void push_free_buffer(cupti_buffer *b)
{
    b->next = p.free;
    p.free = b;
    p.free_count++;
}

/* All buffers that have pages become free. The caller holds the mutex, or no other thread exists. */
static void reset_lists(void)
{
    p.free = NULL;
    p.free_count = 0;
    p.filled = NULL;
    p.filled_end = &p.filled;
    for (size_t i = 0; i < p.count; i++)
        p.all[i] = (cupti_buffer){.memory = p.memory + i * CP_BUFFER_BYTES};
    for (size_t i = p.begun; i-- > 0;)
        push_free_buffer(&p.all[i]);
}

#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23 /* Linux 5.14 */
#endif
#define SMALLEST_PAGE_BYTES 4096u

/* Allocates the pages of a buffer. Another thread may write to it at the same time. */
static void allocate_pages(uint8_t *memory)
{
    if (madvise(memory, CP_BUFFER_BYTES, MADV_POPULATE_WRITE) == 0)
        return;
    for (size_t at = 0; at < CP_BUFFER_BYTES; at += SMALLEST_PAGE_BYTES)
        (void)__atomic_fetch_or(memory + at, 0, __ATOMIC_RELAXED);
}

/* True if a buffer is in neither list: CUPTI has it, or its late records are being counted, or the
 * reader thread allocates its pages. The mutex is held. */
static bool has_buffers_out(void)
{
    size_t here = 0;
    for (const cupti_buffer *b = p.free; b; b = b->next)
        here++;
    for (const cupti_buffer *b = p.filled; b; b = b->next)
        here++;
    return here != p.begun || p.allocating;
}

/* Frees all buffers. False: one of them is still in use, so all stay. */
static bool free_pool(void)
{
    pthread_mutex_lock(&p.mutex);
    if (has_buffers_out()) {
        pthread_mutex_unlock(&p.mutex);
        return false;
    }
    if (p.memory)
        (void)munmap(p.memory, p.count * CP_BUFFER_BYTES);
    free(p.all);
    p.all = p.free = p.filled = NULL;
    p.filled_end = &p.filled;
    p.memory = NULL;
    p.count = p.begun = p.free_count = 0;
    pthread_mutex_unlock(&p.mutex);
    return true;
}

#define READY_BUFFERS 4u /* free ones that have pages, at least, while there are others */

bool cp_buffers_create(size_t bound_bytes, char why[CP_TEXT_BYTES])
{
    size_t count = bound_bytes / CP_BUFFER_BYTES;
    count = count < 2 ? 2 : count;
    if (p.all && (p.count == count || !free_pool()))
        return true;
    size_t bytes = count * CP_BUFFER_BYTES;
    cupti_buffer *all = calloc(count, sizeof *all);
    void *memory =
        mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (!all || memory == MAP_FAILED) {
        snprintf(why, CP_TEXT_BYTES,
                 "out of memory: %zu MiB of buffers; reduce "
                 "cuda.buffer_bytes",
                 bytes >> 20);
        free(all);
        if (memory != MAP_FAILED)
            (void)munmap(memory, bytes);
        return false;
    }
    size_t ready = count < READY_BUFFERS ? count : READY_BUFFERS;
    for (size_t i = 0; i < ready; i++)
        allocate_pages((uint8_t *)memory + i * CP_BUFFER_BYTES);
    cp_condition_init(&p.changed); /* no thread waits for it yet */
    pthread_mutex_lock(&p.mutex);
    p.all = all;
    p.memory = memory;
    p.count = count;
    p.begun = ready;
    p.stats = (cp_buffer_stats){.peak_bytes = bytes};
    reset_lists();
    pthread_mutex_unlock(&p.mutex);
    return true;
}

/* ---- CUPTI's callbacks ----------------------------------------------------------------------- */

void cp_buffers_never_refuse(bool never)
{
    pthread_mutex_lock(&p.mutex);
    p.never_refuse = never;
    pthread_mutex_unlock(&p.mutex);
}

/* A spare buffer for CUPTI; NULL: the request may be refused, or out of memory. The mutex is
 * held. */
static uint8_t *allocate_spare(void)
{
    spare_buffer *s = p.never_refuse ? malloc(sizeof *s + CP_SPARE_BYTES) : NULL;
    if (!s)
        return NULL;
    s->next = p.spares;
    p.spares = s;
    return s->memory;
}

/* A buffer for CUPTI, without a record: a free one, else one whose pages are allocated as they are
 * written. NULL: all are in use. The reader thread is woken when few are ready. The mutex is held. */
static cupti_buffer *take_buffer(void)
{
    cupti_buffer *b = p.free;
    if (b) {
        p.free = b->next;
        p.free_count--;
        memset(b->memory, 0, sizeof(uint32_t)); /* the kind of its first record: none */
    } else if (p.begun < p.count) {
        b = &p.all[p.begun++]; /* new pages are 0 */
    }
    if (p.free_count < READY_BUFFERS && p.begun < p.count)
        pthread_cond_signal(&p.changed);
    return b;
}

/* CUPTI requests a buffer, on any thread. Nothing is allocated here except spare buffers. */
void CP_CUPTI_CALL cp_buffers_request(uint8_t **memory, size_t *size, size_t *max_records)
{
    pthread_mutex_lock(&p.mutex);
    cupti_buffer *b = take_buffer();
    uint8_t *other = b ? NULL : allocate_spare();
    if (b) {
        b->out = true;
        b->counted_kept = false;
    } else {
        p.stats.refused++;
        p.short_of = true;
        pthread_cond_signal(&p.changed);
    }
    pthread_mutex_unlock(&p.mutex);
    *memory = b ? b->memory : other;
    *size = b ? CP_BUFFER_BYTES : other ? CP_SPARE_BYTES : 0;
    *max_records = 0; /* as many as fit */
}

/* Takes a spare buffer out of the list; NULL: the memory is not a spare. */
static spare_buffer *remove_spare(const uint8_t *memory)
{
    pthread_mutex_lock(&p.mutex);
    spare_buffer **at = &p.spares, *found;
    while (*at && (*at)->memory != memory)
        at = &(*at)->next;
    found = *at;
    if (found)
        *at = found->next;
    pthread_mutex_unlock(&p.mutex);
    return found;
}

/* The buffer with this memory; NULL: it is unknown, or of a pool that was freed. The mutex is
 * held. */
static cupti_buffer *find_buffer(const uint8_t *memory)
{
    size_t offset = (size_t)(memory - p.memory);
    if (!p.memory || memory < p.memory || offset / CP_BUFFER_BYTES >= p.count)
        return NULL;
    return &p.all[offset / CP_BUFFER_BYTES];
}

/* Queues a buffer for the reader. CUPTI's size is not trusted. The mutex is held. */
static void append_filled_buffer(cupti_buffer *b, size_t valid)
{
    b->valid = valid > CP_BUFFER_BYTES ? CP_BUFFER_BYTES : valid;
    b->next = NULL;
    *p.filled_end = b;
    p.filled_end = &b->next;
    p.stats.filled++;
}

/* Adds the records that CUPTI dropped. It counts them per context and stream, and from 0 again
 * after each query. */
static void add_dropped_records(cp_context context, uint32_t stream)
{
    size_t dropped = 0;
    if (cp_cupti.dropped && cp_cupti.dropped(context, stream, &dropped) == CP_SUCCESS && dropped) {
        pthread_mutex_lock(&p.mutex);
        p.stats.dropped += dropped;
        pthread_mutex_unlock(&p.mutex);
    }
}

/* Counts the records in a buffer that will not be read. */
static uint64_t count_records(uint8_t *memory, size_t valid)
{
    uint64_t count = 0;
    uint8_t *record = NULL, *last = NULL;
    while (cp_cupti.next_record && cp_cupti.next_record(memory, valid, &record) == CP_SUCCESS &&
           record > last) { /* else it would not advance */
        last = record;
        count++;
    }
    return count;
}

/* Counts the records of a spare buffer and frees it. */
static void drop_spare_records(spare_buffer *s, size_t valid)
{
    uint64_t lost = valid ? count_records(s->memory, valid) : 0;
    free(s);
    pthread_mutex_lock(&p.mutex);
    if (p.open)
        p.stats.dropped += lost;
    else
        p.stats.late += lost;
    pthread_mutex_unlock(&p.mutex);
}

/* CUPTI returns a buffer, on any thread: it is queued if a session wants it, else its records are
 * counted as late and it becomes free. */
void CP_CUPTI_CALL cp_buffers_complete(cp_context context, uint32_t stream, uint8_t *memory,
                                       size_t size, size_t valid)
{
    (void)size;
    add_dropped_records(context, stream);
    spare_buffer *other = remove_spare(memory);
    if (other) {
        drop_spare_records(other, valid);
        return;
    }
    pthread_mutex_lock(&p.mutex);
    cupti_buffer *b = find_buffer(memory);
    bool wanted = b && p.open && valid; /* else its records are late */
    if (b)
        b->out = false;
    if (wanted) {
        append_filled_buffer(b, valid);
        pthread_cond_signal(&p.changed);
    }
    pthread_mutex_unlock(&p.mutex);
    if (wanted || !b)
        return;
    uint64_t late = valid ? count_records(memory, valid) : 0;
    pthread_mutex_lock(&p.mutex);
    p.stats.late += late;
    push_free_buffer(b);
    pthread_mutex_unlock(&p.mutex);
}

/* ---- reading --------------------------------------------------------------------------------- */

/* The oldest filled buffer; NULL: none. The mutex is held. */
static cupti_buffer *pop_filled_buffer(void)
{
    cupti_buffer *b = p.filled;
    if (b) {
        p.filled = b->next;
        if (!p.filled)
            p.filled_end = &p.filled;
    }
    return b;
}

/* Reads all filled buffers in their order. The reader lock is held; the mutex is released while one
 * is read. */
static void read_filled_buffers(void)
{
    pthread_mutex_lock(&p.mutex);
    for (cupti_buffer *b = pop_filled_buffer(); b; b = pop_filled_buffer()) {
        pthread_mutex_unlock(&p.mutex);
        if (decoder) {
            cp_devices_announce_once(decoder); /* not at the end alone: programs may be killed */
            cp_decoder_read(decoder, b->memory, b->valid);
        }
        pthread_mutex_lock(&p.mutex);
        push_free_buffer(b);
    }
    pthread_mutex_unlock(&p.mutex);
}

void cp_buffers_drain(void)
{
    pthread_mutex_lock(&reader_lock);
    read_filled_buffers();
    pthread_mutex_unlock(&reader_lock);
}

#define FLUSH_NS INT64_C(500000000)
#define SOON_NS  INT64_C(2000000) /* while no buffer is free */

static int64_t next_flush_ns(int64_t flushed_ns)
{
    return flushed_ns + (p.short_of ? SOON_NS : FLUSH_NS);
}

/* Allocates the pages of further buffers, until enough are ready. The mutex is held, and released
 * meanwhile: if CUPTI asks for the buffer then, it gets it as it is. */
static void make_buffers_ready(void)
{
    while (p.running && !p.filled && p.free_count < READY_BUFFERS && p.begun < p.count) {
        size_t index = p.begun;
        p.allocating = true;
        pthread_mutex_unlock(&p.mutex);
        allocate_pages(p.all[index].memory);
        pthread_mutex_lock(&p.mutex);
        p.allocating = false;
        if (p.begun == index)
            push_free_buffer(&p.all[p.begun++]);
    }
}

/* Waits for a filled buffer, and makes CUPTI return partly filled ones regularly: a program that is
 * killed loses little, and many threads do not hold back all buffers. The mutex is held, and
 * released meanwhile. */
static void wait_for_buffers(int64_t *flushed_ns)
{
    if (!p.filled)
        (void)cp_condition_wait(&p.changed, &p.mutex, next_flush_ns(*flushed_ns));
    if (!p.running || cp_monotonic_ns() < next_flush_ns(*flushed_ns))
        return;
    p.short_of = false;
    pthread_mutex_unlock(&p.mutex);
    (void)cp_cupti.flush_all(0);
    pthread_mutex_lock(&p.mutex);
    *flushed_ns = cp_monotonic_ns();
}

/* The reader thread: reads filled buffers until it is stopped. */
static void *run_reader(void *unused)
{
    int64_t flushed_ns = cp_monotonic_ns();
    (void)unused;
    pthread_mutex_lock(&p.mutex);
    while (p.running) {
        make_buffers_ready();
        wait_for_buffers(&flushed_ns);
        if (!p.filled)
            continue;
        pthread_mutex_unlock(&p.mutex);
        cp_buffers_drain();
        pthread_mutex_lock(&p.mutex);
    }
    pthread_mutex_unlock(&p.mutex);
    return NULL;
}

/* Undoes cp_buffers_attach without a thread. CUPTI may call meanwhile; the decoder must not be used
 * any more. */
static void detach_after_failure(void)
{
    pthread_mutex_lock(&p.mutex);
    p.running = p.open = false;
    pthread_mutex_unlock(&p.mutex);
    pthread_mutex_lock(&reader_lock);
    decoder = NULL;
    pthread_mutex_unlock(&reader_lock);
}

bool cp_buffers_attach(cp_decoder *to, char why[CP_TEXT_BYTES])
{
    pthread_mutex_lock(&reader_lock);
    decoder = to;
    pthread_mutex_unlock(&reader_lock);
    pthread_mutex_lock(&p.mutex);
    p.stats = (cp_buffer_stats){.peak_bytes = p.stats.peak_bytes};
    p.open = p.running = true;
    pthread_mutex_unlock(&p.mutex);
    int failed = cp_thread_start(&p.thread, "ckineto-cupti", run_reader, NULL);
    if (!failed)
        return true;
    detach_after_failure();
    snprintf(why, CP_TEXT_BYTES, "cannot start the thread that reads CUPTI's records: %s",
             strerror(failed));
    return false;
}

static bool has_buffer_records(const cupti_buffer *b)
{
    return __atomic_load_n((const uint32_t *)(const void *)b->memory, __ATOMIC_RELAXED) != 0;
}

/* Buffers with records that CUPTI did not return although all were flushed; each is counted once.
 * The mutex is held. */
static uint64_t count_kept_buffers(void)
{
    uint64_t kept = 0;
    for (cupti_buffer *b = p.all; b < p.all + p.count; b++) {
        if (!b->out || b->counted_kept || !has_buffer_records(b))
            continue;
        b->counted_kept = true;
        kept++;
    }
    return kept;
}

/* Order: stop the thread first, then refuse further buffers, then read what was filled before
 * that. */
void cp_buffers_detach(void)
{
    pthread_mutex_lock(&p.mutex);
    bool running = p.running;
    p.running = false;
    pthread_cond_broadcast(&p.changed);
    pthread_mutex_unlock(&p.mutex);
    if (running)
        (void)pthread_join(p.thread, NULL); /* buffers that it is flushing still count */
    pthread_mutex_lock(&p.mutex);
    p.open = false;
    p.stats.kept = count_kept_buffers();
    pthread_mutex_unlock(&p.mutex);
    pthread_mutex_lock(&reader_lock);
    read_filled_buffers();
    decoder = NULL;
    pthread_mutex_unlock(&reader_lock);
}

cp_buffer_stats cp_buffers_stats(void)
{
    pthread_mutex_lock(&p.mutex);
    cp_buffer_stats stats = p.stats;
    pthread_mutex_unlock(&p.mutex);
    return stats;
}

/* The child has no reader thread, and CUPTI does not work there. */
void cp_buffers_after_fork(void)
{
    static const pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
    p.mutex = reader_lock = mutex;
    cp_condition_init(&p.changed);
    p.running = p.open = false;
    p.stats = (cp_buffer_stats){0};
    p.spares = NULL;
    decoder = NULL;
    if (p.all)
        reset_lists();
}
