/* Chunks of this process' own pool as decoder input, for building a trace. Threads may record
 * meanwhile: chunks that they may change are copied, and read as empty if they were overwritten
 * during the copy (the serial in the descriptor changes with the owner). */
#include "session/session.h"

#include <sys/mman.h>

#define SPAN_MAX 64u /* one madvise call for many chunks is faster */

/* Consecutive chunks, owned by the reader, whose memory can be given back to the system. */
typedef struct span {
    uint32_t first, count;
    uint64_t last_ticks[SPAN_MAX];
} span;

struct ks_pool_reader {
    const kf_pool *pool;
    bool last;         /* no thread writes any more, and no other process reads */
    uint32_t *serials; /* of the chunks, + 1, as first seen; 0: not read yet */
    kf_open_call *calls; /* open calls by chunk, when the reader was created */
    uint64_t calls_until;
    uint32_t chunks;
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

/* kf_input.done: the decoder does not need this chunk again. */
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
    KB_ASSERT(s->count < SPAN_MAX && index == s->first + s->count);
    s->last_ticks[s->count++] = last_ticks;
}

/* ---- reading --------------------------------------------------------------------------------- */

/* kf_input.peek: a sealed chunk in place, for scanning headers, which are checked again when the
 * chunk is read. NULL in a ring, whose writers overwrite sealed chunks: there only a copy can be
 * validated. */
static const uint64_t *peek_pool_chunk(void *context, uint32_t index, uint32_t *words)
{
    ks_pool_reader *r = context;
    bool stays =
        is_sealed(r, index) && kb_load_relaxed(&r->pool->control->full_policy) != KF_FULL_RING;
    *words = KF_CHUNK_WORDS;
    return stays ? kf_pool_chunk(r->pool, index) : NULL;
}

/* No thread writes into a sealed chunk, so plain memcpy will do. */
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

/* Lists the calls that are open now. Chunks are read twice, and must have the same records both
 * times: what such a thread records from here on is for another reader. */
static void read_open_calls(ks_pool_reader *r)
{
    for (uint32_t i = 0; i < r->chunks; i++) {
        const kf_descriptor *d = &r->pool->descriptors[i];
        if (kf_chunk_state_of(d) != KF_CHUNK_LIVE)
            continue;
        r->calls[i] = kf_open_call_read(d);
        if (r->calls[i].header && kf_committed_words(kf_pool_chunk(r->pool, i), KF_CHUNK_WORDS) !=
                                      kf_open_call_at(&r->calls[i]))
            r->calls[i].header = 0;
    }
    r->calls_until = ks_newest_snapshot(r->pool);
}

/* Appends the open call of the chunk, if it has one, instead of later records. */
static uint32_t append_open_call(const ks_pool_reader *r, uint32_t index, uint64_t *chunk,
                                 uint32_t words)
{
    const kf_open_call *call = &r->calls[index];
    if (!call->header)
        return words;
    words = kb_min_u32(words, kf_open_call_at(call));
    return kf_open_call_append(call, r->calls_until, 0, chunk, words);
}

/* kf_input.get: in place if nothing can change it, else a copy in r->buffer, valid until the next
 * call. *words is 0 if the chunk is free or changed hands since it was first read. */
static const uint64_t *get_pool_chunk(void *context, uint32_t index, uint32_t *words,
                                      kineto_error *err)
{
    ks_pool_reader *r = context;
    const kf_descriptor *d = &r->pool->descriptors[index];
    const uint64_t *chunk = kf_pool_chunk(r->pool, index);
    (void)err;
    *words = 0;
    KB_ASSERT(index < r->chunks);
    uint32_t serial = kb_load_acquire(&d->serial);
    bool sealed = is_sealed(r, index);
    if (kf_chunk_state_of(d) == KF_CHUNK_FREE)
        return r->buffer;
    if (sealed && r->last && !r->calls[index].header) {
        *words = kb_min_u32(kb_load_relaxed(&d->used), KF_CHUNK_WORDS);
        return chunk;
    }
    if (!r->serials[index])
        r->serials[index] = serial + 1;
    uint32_t count = sealed ? copy_sealed_chunk(r->buffer, chunk, kb_load_relaxed(&d->used))
                            : ks_chunk_copy(r->buffer, chunk);
    count = append_open_call(r, index, r->buffer, count);
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
    kf_open_call *calls = calloc(KB_MAX(chunks, 1u), sizeof *calls);
    if (!r || !serials || !calls) {
        free(r);
        free(serials);
        free(calls);
        return NULL;
    }
    r->calls = calls;
    r->pool = pool;
    r->last = last;
    r->serials = serials;
    r->chunks = chunks;
    read_open_calls(r);
    *input = (kf_input){.dictionary = pool->dictionary,
                        .dictionary_words = kb_min_u32(kb_load_acquire(&pool->control->dictionary_used),
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
    free(r->calls);
    free(r->serials);
    free(r);
}
