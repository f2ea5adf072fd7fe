/* Buffers between CUPTI and us. CUPTI asks for one on threads of its own and of the program, and
 * hands it back when it is full, or when somebody flushes. All that are read are made before the
 * window: when none is free CUPTI gets none, drops, and says how many. One that cannot do without
 * gets spare ones, whose records are counted and thrown away. */
#include "cuda.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

typedef struct buffer {
    uint8_t *memory;
    size_t valid;
    bool out;  /* CUPTI has it */
    bool told; /* and should have given it back */
    struct buffer *next;
} buffer;

/* A buffer that is not read. */
typedef struct spare {
    struct spare *next;
    _Alignas(8) uint8_t memory[];
} spare;

typedef struct pool {
    pthread_mutex_t mutex;  /* all below; held for a few instructions */
    pthread_cond_t changed; /* something was filled, or the thread is to end */
    buffer *all, *free;
    buffer *filled, **filled_end; /* in the order in which they came */
    size_t count;
    uint8_t *memory;
    spare *spares; /* that CUPTI has */
    bool never_refuse;
    bool short_of; /* there was none to give */
    bool open;     /* what comes is wanted */
    bool running;  /* the thread */
    pthread_t thread;
    cp_buffer_stats stats;
} pool;

static pool p = {.mutex = PTHREAD_MUTEX_INITIALIZER};
/* One reader at a time: the thread, or who drains. Taken before the pool's. */
static pthread_mutex_t reading = PTHREAD_MUTEX_INITIALIZER;
static cp_decoder *decoder;

/* ---- making them ---------------------------------------------------------------------------------- */

static void list_all(void)
{
    p.free = NULL;
    p.filled = NULL;
    p.filled_end = &p.filled;
    for (size_t i = 0; i < p.count; i++) {
        p.all[i] = (buffer){.memory = p.memory + i * CP_BUFFER_BYTES, .next = p.free};
        p.free = &p.all[i];
    }
}

/* The mutex is held. Who has what is in neither list: CUPTI, or who counts what came late. */
static bool some_are_out(void)
{
    size_t here = 0;
    for (const buffer *b = p.free; b; b = b->next)
        here++;
    for (const buffer *b = p.filled; b; b = b->next)
        here++;
    return here != p.count;
}

/* False: somebody still has one of them, so they stay. */
static bool give_back(void)
{
    pthread_mutex_lock(&p.mutex);
    if (some_are_out()) {
        pthread_mutex_unlock(&p.mutex);
        return false;
    }
    if (p.memory)
        (void)munmap(p.memory, p.count * CP_BUFFER_BYTES);
    free(p.all);
    p.all = p.free = p.filled = NULL;
    p.filled_end = &p.filled;
    p.memory = NULL;
    p.count = 0;
    pthread_mutex_unlock(&p.mutex);
    return true;
}

bool cp_buffers_create(size_t bound_bytes, char why[CP_TEXT_BYTES])
{
    size_t count = bound_bytes / CP_BUFFER_BYTES;
    count = count < 2 ? 2 : count;
    if (p.all && (p.count == count || !give_back()))
        return true;
    size_t bytes = count * CP_BUFFER_BYTES;
    buffer *all = calloc(count, sizeof *all);
    /* Touched now: a page fault in the window would be the program's time. */
    void *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
    if (!all || memory == MAP_FAILED) {
        snprintf(why, CP_TEXT_BYTES,
                 "no memory for %zu MiB of buffers: ask for less with "
                 "cuda.buffer_bytes",
                 bytes >> 20);
        free(all);
        if (memory != MAP_FAILED)
            (void)munmap(memory, bytes);
        return false;
    }
    cp_condition_init(&p.changed); /* nobody waits: there is no thread */
    pthread_mutex_lock(&p.mutex);
    p.all = all;
    p.memory = memory;
    p.count = count;
    p.stats = (cp_buffer_stats){.peak_bytes = bytes};
    list_all();
    pthread_mutex_unlock(&p.mutex);
    return true;
}

/* ---- CUPTI's callbacks ------------------------------------------------------------------------------ */

void cp_buffers_never_refuse(bool never)
{
    pthread_mutex_lock(&p.mutex);
    p.never_refuse = never;
    pthread_mutex_unlock(&p.mutex);
}

/* NULL: it may be refused, or there is no memory at all. The mutex is held. */
static uint8_t *take_spare(void)
{
    spare *s = p.never_refuse ? malloc(sizeof *s + CP_SPARE_BYTES) : NULL;
    if (!s)
        return NULL;
    s->next = p.spares;
    p.spares = s;
    return s->memory;
}

void CP_CUPTI_CALL cp_buffers_request(uint8_t **memory, size_t *size, size_t *max_records)
{
    pthread_mutex_lock(&p.mutex);
    buffer *b = p.free;
    uint8_t *other = b ? NULL : take_spare();
    if (b) {
        p.free = b->next;
        b->out = true;
        b->told = false;
        memset(b->memory, 0, sizeof(uint32_t)); /* the kind of its first record: none */
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

/* Ours no more; NULL: none of ours. */
static spare *spare_of(const uint8_t *memory)
{
    pthread_mutex_lock(&p.mutex);
    spare **at = &p.spares, *found;
    while (*at && (*at)->memory != memory)
        at = &(*at)->next;
    found = *at;
    if (found)
        *at = found->next;
    pthread_mutex_unlock(&p.mutex);
    return found;
}

/* Whose memory is it? NULL: none of ours, or one of a pool that is gone. */
static buffer *buffer_of(const uint8_t *memory)
{
    size_t offset = (size_t)(memory - p.memory);
    if (!p.memory || memory < p.memory || offset / CP_BUFFER_BYTES >= p.count)
        return NULL;
    return &p.all[offset / CP_BUFFER_BYTES];
}

static void append_filled(buffer *b, size_t valid)
{
    b->valid = valid > CP_BUFFER_BYTES ? CP_BUFFER_BYTES : valid;
    b->next = NULL;
    *p.filled_end = b;
    p.filled_end = &b->next;
    p.stats.filled++;
}

static void give_free(buffer *b)
{
    b->next = p.free;
    p.free = b;
}

/* CUPTI counts what it drops by context and stream, and starts again at 0 when it was asked. */
static void ask_dropped(cp_context context, uint32_t stream)
{
    size_t dropped = 0;
    if (cp_cupti.dropped && cp_cupti.dropped(context, stream, &dropped) == CP_SUCCESS && dropped) {
        pthread_mutex_lock(&p.mutex);
        p.stats.dropped += dropped;
        pthread_mutex_unlock(&p.mutex);
    }
}

static uint64_t count_records(uint8_t *memory, size_t valid)
{
    uint64_t count = 0;
    uint8_t *record = NULL, *last = NULL;
    while (cp_cupti.next_record && cp_cupti.next_record(memory, valid, &record) == CP_SUCCESS &&
           record > last) { /* else it does not get on */
        last = record;
        count++;
    }
    return count;
}

static void throw_away(spare *s, size_t valid)
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

void CP_CUPTI_CALL cp_buffers_complete(cp_context context, uint32_t stream, uint8_t *memory,
                                       size_t size, size_t valid)
{
    (void)size;
    ask_dropped(context, stream);
    spare *other = spare_of(memory);
    if (other) {
        throw_away(other, valid);
        return;
    }
    pthread_mutex_lock(&p.mutex);
    buffer *b = buffer_of(memory);
    bool wanted = b && p.open && valid;
    if (b)
        b->out = false;
    if (wanted) {
        append_filled(b, valid);
        pthread_cond_signal(&p.changed);
    }
    pthread_mutex_unlock(&p.mutex);
    if (wanted || !b)
        return;
    uint64_t late = valid ? count_records(memory, valid) : 0;
    pthread_mutex_lock(&p.mutex);
    p.stats.late += late;
    give_free(b);
    pthread_mutex_unlock(&p.mutex);
}

/* ---- reading ----------------------------------------------------------------------------------------- */

static buffer *take_filled(void)
{
    buffer *b = p.filled;
    if (b) {
        p.filled = b->next;
        if (!p.filled)
            p.filled_end = &p.filled;
    }
    return b;
}

/* All that is filled. The reading lock is held. */
static void read_all(void)
{
    pthread_mutex_lock(&p.mutex);
    for (buffer *b = take_filled(); b; b = take_filled()) {
        pthread_mutex_unlock(&p.mutex);
        if (decoder)
            cp_decoder_read(decoder, b->memory, b->valid);
        pthread_mutex_lock(&p.mutex);
        give_free(b);
    }
    pthread_mutex_unlock(&p.mutex);
}

void cp_buffers_drain(void)
{
    pthread_mutex_lock(&reading);
    read_all();
    pthread_mutex_unlock(&reading);
}

#define FLUSH_NS INT64_C(500000000)
#define SOON_NS  INT64_C(2000000) /* when none is left */

static int64_t due_ns(int64_t flushed_ns) { return flushed_ns + (p.short_of ? SOON_NS : FLUSH_NS); }

/* Buffers that fill slowly are asked for, whatever others do: a program that is killed loses little,
 * and one with many threads gets back what they hold. The mutex is held. */
static void wait_for_buffers(int64_t *flushed_ns)
{
    if (!p.filled)
        (void)cp_condition_wait(&p.changed, &p.mutex, due_ns(*flushed_ns));
    if (!p.running || cp_monotonic_ns() < due_ns(*flushed_ns))
        return;
    p.short_of = false;
    pthread_mutex_unlock(&p.mutex);
    (void)cp_cupti.flush_all(0);
    pthread_mutex_lock(&p.mutex);
    *flushed_ns = cp_monotonic_ns();
}

static void *empty_them(void *unused)
{
    int64_t flushed_ns = cp_monotonic_ns();
    (void)unused;
    pthread_mutex_lock(&p.mutex);
    while (p.running) {
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

/* CUPTI may be calling meanwhile; the decoder goes. */
static void take_back(void)
{
    pthread_mutex_lock(&p.mutex);
    p.running = p.open = false;
    pthread_mutex_unlock(&p.mutex);
    pthread_mutex_lock(&reading);
    decoder = NULL;
    pthread_mutex_unlock(&reading);
}

bool cp_buffers_attach(cp_decoder *to, char why[CP_TEXT_BYTES])
{
    pthread_mutex_lock(&reading);
    decoder = to;
    pthread_mutex_unlock(&reading);
    pthread_mutex_lock(&p.mutex);
    p.stats = (cp_buffer_stats){.peak_bytes = p.stats.peak_bytes};
    p.open = p.running = true;
    pthread_mutex_unlock(&p.mutex);
    int failed = cp_thread_start(&p.thread, "ckineto-cupti", empty_them, NULL);
    if (!failed)
        return true;
    take_back();
    snprintf(why, CP_TEXT_BYTES, "no thread to read what CUPTI records: %s", strerror(failed));
    return false;
}

static bool has_records(const buffer *b)
{
    return __atomic_load_n((const uint32_t *)(const void *)b->memory, __ATOMIC_RELAXED) != 0;
}

/* Buffers that have records and did not come back, though all were asked for: each is told once.
 * The mutex is held. */
static uint64_t count_kept(void)
{
    uint64_t kept = 0;
    for (buffer *b = p.all; b < p.all + p.count; b++) {
        if (!b->out || b->told || !has_records(b))
            continue;
        b->told = true;
        kept++;
    }
    return kept;
}

void cp_buffers_detach(void)
{
    pthread_mutex_lock(&p.mutex);
    bool running = p.running;
    p.running = false;
    pthread_cond_broadcast(&p.changed);
    pthread_mutex_unlock(&p.mutex);
    if (running)
        (void)pthread_join(p.thread, NULL); /* it may be getting some: they count */
    pthread_mutex_lock(&p.mutex);
    p.open = false;
    p.stats.kept = count_kept();
    pthread_mutex_unlock(&p.mutex);
    pthread_mutex_lock(&reading);
    read_all();
    decoder = NULL;
    pthread_mutex_unlock(&reading);
}

cp_buffer_stats cp_buffers_stats(void)
{
    pthread_mutex_lock(&p.mutex);
    cp_buffer_stats stats = p.stats;
    pthread_mutex_unlock(&p.mutex);
    return stats;
}

/* The child has no thread, and CUPTI does not work there if it did in the parent. */
void cp_buffers_after_fork(void)
{
    static const pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
    p.mutex = reading = mutex;
    cp_condition_init(&p.changed);
    p.running = p.open = false;
    p.stats = (cp_buffer_stats){0};
    p.spares = NULL;
    decoder = NULL;
    if (p.all)
        list_all();
}
