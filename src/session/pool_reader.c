/* Chunks of this process' own pool, for building a trace. Others may write meanwhile: what they may
 * change is copied, and reads as empty if it was overwritten. */
#include "session/session.h"

#include <sys/mman.h>

#define SPAN_MAX 64u /* the system does many at a time faster */

/* A row of our chunks whose memory can go back to the system. */
typedef struct span {
    uint32_t first, count;
    uint64_t last_ticks[SPAN_MAX];
} span;

struct ks_pool_reader {
    const kf_pool *pool;
    bool last;         /* nobody writes any more, or wants to read after us */
    uint32_t *serials; /* of the chunks, + 1, as first seen */
    span spent;
    uint64_t buffer[KF_CHUNK_WORDS];
};

static bool is_sealed(const ks_pool_reader *r, uint32_t index)
{
    return kf_chunk_state_of(&r->pool->descriptors[index]) == KF_CHUNK_SEALED;
}

/* ---- giving back ----------------------------------------------------------------------------- */

static void return_span(const kf_pool *pool, const span *s)
{
    (void)madvise(kf_pool_chunk(pool, s->first), (size_t)s->count * KF_CHUNK_BYTES, MADV_REMOVE);
    for (uint32_t i = 0; i < s->count; i++)
        kf_chunk_return(pool, s->first + i, 0, s->last_ticks[i]); /* zero already */
}

static void return_spent_chunks(ks_pool_reader *r)
{
    if (r->spent.count)
        return_span(r->pool, &r->spent);
    r->spent.count = 0;
}

static void release_chunk(void *context, uint32_t index)
{
    ks_pool_reader *r = context;
    uint64_t claim = kf_chunk_claim_of(r->pool, index);
    uint64_t last_ticks = kb_load_relaxed(&r->pool->descriptors[index].last_ticks);
    if (kf_claim_state(claim) != KF_CHUNK_SEALED || !kf_chunk_inherit(r->pool, index, claim))
        return;
    span *s = &r->spent;
    if (s->count == SPAN_MAX || (s->count && index != s->first + s->count))
        return_spent_chunks(r);
    if (!s->count)
        s->first = index;
    s->last_ticks[s->count++] = last_ticks;
}

/* ---- reading --------------------------------------------------------------------------------- */

/* A full chunk where it lies, to look at headers; what is seen there is checked when it is read. A
 * flight recorder overwrites full chunks: there, a copy is needed to see whether it did. */
static const uint64_t *peek_pool_chunk(void *context, uint32_t index, uint32_t *words)
{
    ks_pool_reader *r = context;
    bool stays =
        is_sealed(r, index) && kb_load_relaxed(&r->pool->control->full_policy) != KF_FULL_RING;
    *words = KF_CHUNK_WORDS;
    return stays ? kf_pool_chunk(r->pool, index) : NULL;
}

/* Nobody writes into a chunk that is full. */
static uint32_t copy_sealed_chunk(uint64_t *to, const uint64_t *chunk, uint32_t used)
{
#if defined(__SANITIZE_THREAD__)
    (void)used;
    return ks_chunk_copy(to, chunk);
#else
    used = KB_MIN(used, KF_CHUNK_WORDS);
    memcpy(to, chunk, used * sizeof *to);
    return used;
#endif
}

static const uint64_t *get_pool_chunk(void *context, uint32_t index, uint32_t *words,
                                      kineto_error *err)
{
    ks_pool_reader *r = context;
    const kf_descriptor *d = &r->pool->descriptors[index];
    const uint64_t *chunk = kf_pool_chunk(r->pool, index);
    (void)err;
    *words = 0;
    uint32_t serial = kb_load_acquire(&d->serial);
    bool sealed = is_sealed(r, index);
    if (kf_chunk_state_of(d) == KF_CHUNK_FREE)
        return r->buffer;
    if (sealed && r->last) {
        *words = KB_MIN(kb_load_relaxed(&d->used), KF_CHUNK_WORDS);
        return chunk;
    }
    if (!r->serials[index])
        r->serials[index] = serial + 1;
    uint32_t count = sealed ? copy_sealed_chunk(r->buffer, chunk, kb_load_relaxed(&d->used))
                            : ks_chunk_copy(r->buffer, chunk);
    kb_fence_seqcst();
    if (kb_load_relaxed(&d->serial) + 1 == r->serials[index])
        *words = count;
    return r->buffer;
}

/* ---- life ------------------------------------------------------------------------------------ */

ks_pool_reader *ks_pool_reader_create(const kf_pool *pool, uint32_t chunks, bool last,
                                      kf_input *input)
{
    ks_pool_reader *r = calloc(1, sizeof *r);
    uint32_t *serials = calloc(KB_MAX(chunks, 1u), sizeof *serials);
    if (!r || !serials) {
        free(r);
        free(serials);
        return NULL;
    }
    r->pool = pool;
    r->last = last;
    r->serials = serials;
    *input = (kf_input){.dictionary = pool->dictionary,
                        .dictionary_words = KB_MIN(kb_load_acquire(&pool->control->dictionary_used),
                                                   pool->dictionary_words),
                        .chunk_count = chunks,
                        .get = get_pool_chunk,
                        .peek = peek_pool_chunk,
                        .context = r,
                        .done = last ? release_chunk : NULL};
    return r;
}

void ks_pool_reader_destroy(ks_pool_reader *r)
{
    if (!r)
        return;
    return_spent_chunks(r);
    free(r->serials);
    free(r);
}
