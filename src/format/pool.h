/* What the files of the pool share: the contents of a chunk change hands. */
#ifndef KF_POOL_H
#define KF_POOL_H

#include "format/format.h"

static inline uint32_t kf_chunk_limit(const kf_pool *pool)
{
    return KB_MIN(kb_load_relaxed(&pool->control->chunk_limit), pool->chunk_count);
}

/* The chunk gets other contents from here on: who copies it sees that and throws the copy away. */
static inline void kf_contents_begin(kf_descriptor *d)
{
    kb_store_relaxed(&d->serial, d->serial + 1);
    kb_fence_seqcst();
}

static inline void kf_contents_clear(const kf_pool *pool, uint32_t index, uint32_t words)
{
    memset(kf_pool_chunk(pool, index), 0, KB_MIN(words, KF_CHUNK_WORDS) * sizeof(uint64_t));
}

/* What a chunk held is gone: who reads the rest knows from when on it is complete. */
static inline void kf_contents_forget(const kf_pool *pool, uint64_t last_ticks)
{
    uint64_t *forgotten = &pool->control->forgotten_ticks, known = kb_load_relaxed(forgotten);
    while (known < last_ticks && !kb_cas_acqrel(forgotten, &known, last_ticks))
        ;
}

#define KF_MAP_BITS 64u /* of a word of the maps of chunks */

/* ---- chunks.c [rt] ---- */
/** Take a chunk as it was when `claim` was read, for writing or freeing; false: somebody was faster. It is
 *  LIVE then. */
bool kf_chunk_win(kf_descriptor *d, uint64_t claim, uint64_t owner);

/* ---- pool.c [rt] ---- */
/** What the open windows want has changed: say so to all writers. */
void kf_gate_update(kf_control *control);

/* ---- ring.c [rt]: policy RING ---- */
/** Take over the oldest sealed chunk that no one protects, zeroed. UINT32_MAX: there is none. */
uint32_t kf_ring_claim(const kf_pool *pool, uint64_t owner);
#endif
