/* Buffers between PTI and us. PTI requests one for each thread that submits work, holds it until it is
 * full or flushed, and returns it on a thread of its own, where it is read. PTI cannot handle a refusal:
 * beyond the bound it gets small spare buffers, whose records are counted and dropped. */
#include "xpu.h"

#include <pthread.h>
#include <stdlib.h>

#define SPARE_BYTES 4096u

typedef struct view_buffer {
    struct view_buffer *next;
    size_t size;
    bool is_spare;
    _Alignas(64) unsigned char memory[];
} view_buffer;

typedef struct view_pool {
    view_buffer *free, *out; /* out: PTI has them */
    size_t size, bytes, bound; /* of new buffers; of all buffers; at most */
    uint64_t dropped;
} view_pool;

/* Held for a few instructions. */
static pthread_mutex_t pool_lock = PTHREAD_MUTEX_INITIALIZER;
static view_pool p = {.size = SPARE_BYTES};

/* Held while a buffer is read. */
static pthread_mutex_t decoder_lock = PTHREAD_MUTEX_INITIALIZER;
static xp_decoder *decoder;
static uint64_t late;

/* The last resort: several threads may write to it, one after the other, and nothing is read. */
static _Alignas(64) unsigned char emergency[SPARE_BYTES];

/* ---- PTI's requests -------------------------------------------------------------------------- */

/* A buffer for PTI, without a record. The lock is held. */
static view_buffer *take_view_buffer(void)
{
    view_buffer *b = p.free;
    bool is_spare = !b && p.bytes + p.size > p.bound;
    size_t size = is_spare ? SPARE_BYTES : p.size;
    if (b) {
        p.free = b->next;
        return b;
    }
    b = malloc(sizeof *b + size);
    if (!b)
        return NULL;
    *b = (view_buffer){.size = size, .is_spare = is_spare};
    p.bytes += is_spare ? 0 : size;
    return b;
}

void xp_buffers_request(unsigned char **buffer, size_t *size)
{
    pthread_mutex_lock(&pool_lock);
    view_buffer *b = take_view_buffer();
    if (b) {
        memset(b->memory, 0, sizeof(uint32_t)); /* the kind of its first record: none */
        b->next = p.out;
        p.out = b;
    }
    pthread_mutex_unlock(&pool_lock);
    *buffer = b ? b->memory : emergency;
    *size = b ? b->size : sizeof emergency;
}

/* ---- PTI's answers --------------------------------------------------------------------------- */

/* Takes the buffer out of the list; NULL: it is not ours. */
static view_buffer *remove_view_buffer(const unsigned char *memory)
{
    pthread_mutex_lock(&pool_lock);
    view_buffer **at = &p.out;
    while (*at && (*at)->memory != memory)
        at = &(*at)->next;
    view_buffer *b = *at;
    if (b)
        *at = b->next;
    pthread_mutex_unlock(&pool_lock);
    return b;
}

static void return_view_buffer(view_buffer *b)
{
    pthread_mutex_lock(&pool_lock);
    bool is_kept = !b->is_spare && b->size == p.size;
    if (is_kept) {
        b->next = p.free;
        p.free = b;
    } else if (!b->is_spare) {
        p.bytes -= b->size;
    }
    pthread_mutex_unlock(&pool_lock);
    if (!is_kept)
        free(b);
}

static void add_dropped_records(uint64_t count)
{
    pthread_mutex_lock(&pool_lock);
    p.dropped += count;
    pthread_mutex_unlock(&pool_lock);
}

static void read_view_buffer(view_buffer *b, size_t used)
{
    pthread_mutex_lock(&decoder_lock);
    if (decoder)
        xp_decoder_read(decoder, b->memory, used);
    else
        late += xp_count_records(b->memory, used);
    pthread_mutex_unlock(&decoder_lock);
}

/* On a thread of PTI, or on one that flushes. */
void xp_buffers_complete(unsigned char *buffer, size_t size, size_t used)
{
    view_buffer *b = remove_view_buffer(buffer);
    (void)size;
    if (!b && buffer == emergency)
        add_dropped_records(xp_count_records(buffer, used < sizeof emergency ? used : sizeof emergency));
    if (!b)
        return;
    used = used < b->size ? used : b->size;
    if (used && b->is_spare)
        add_dropped_records(xp_count_records(b->memory, used));
    else if (used)
        read_view_buffer(b, used);
    return_view_buffer(b);
}

/* ---- sessions -------------------------------------------------------------------------------- */

/* Frees what PTI does not have: the next session may want another size. The lock is held. */
static void free_view_buffers(void)
{
    while (p.free) {
        view_buffer *b = p.free;
        p.free = b->next;
        p.bytes -= b->size;
        free(b);
    }
}

void xp_buffers_attach(xp_decoder *to, const xp_options *options)
{
    pthread_mutex_lock(&pool_lock);
    free_view_buffers();
    p.size = options->buffer_bytes;
    p.bound = options->bound_bytes;
    p.dropped = 0;
    pthread_mutex_unlock(&pool_lock);
    pthread_mutex_lock(&decoder_lock);
    decoder = to;
    pthread_mutex_unlock(&decoder_lock);
}

/* Buffers with records that PTI did not return although it was flushed. The lock is held. */
static uint64_t count_kept_view_buffers(void)
{
    uint64_t kept = 0;
    for (const view_buffer *b = p.out; b; b = b->next)
        kept += __atomic_load_n((const uint32_t *)(const void *)b->memory, __ATOMIC_RELAXED) != 0;
    return kept;
}

xp_buffer_stats xp_buffers_detach(void)
{
    pthread_mutex_lock(&decoder_lock);
    xp_buffer_stats stats = {.late = late};
    decoder = NULL;
    late = 0;
    pthread_mutex_unlock(&decoder_lock);
    pthread_mutex_lock(&pool_lock);
    stats.dropped = p.dropped;
    stats.kept = count_kept_view_buffers();
    free_view_buffers();
    pthread_mutex_unlock(&pool_lock);
    return stats;
}

/* PTI does not work in the child, and its thread is missing there. What PTI had stays allocated. */
void xp_buffers_after_fork(void)
{
    static const pthread_mutex_t fresh = PTHREAD_MUTEX_INITIALIZER;
    pool_lock = decoder_lock = fresh;
    p = (view_pool){.size = SPARE_BYTES};
    decoder = NULL;
    late = 0;
}
