/* What the files of the pool share (pool.c, chunks.c, evict.c, steps.c, follow.c). All are part of
 * libckineto-rt. The three kf_contents_… steps run, in this order, when a chunk gets new
 * contents. */
#ifndef KF_POOL_H
#define KF_POOL_H

#include "format/format.h"

static inline uint32_t kf_chunk_limit(const kf_pool *pool)
{
    return kb_min_u32(kb_load_relaxed(&pool->control->chunk_limit), pool->chunk_count);
}

/* The chunk gets other contents from here on. A collector that copies the chunk compares the serial
 * before and after, and discards the copy if it changed. By the owner of a LIVE chunk. */
static inline void kf_contents_begin(kf_descriptor *d)
{
    kb_store_relaxed(&d->serial, d->serial + 1);
    kb_fence_seqcst();
}

/* Zero the words that were used: readers rely on zeros after the last record. */
static inline void kf_contents_clear(const kf_pool *pool, uint32_t index, uint32_t words)
{
    memset(kf_pool_chunk(pool, index), 0, KB_MIN(words, KF_CHUNK_WORDS) * sizeof(uint64_t));
}

/* The records of a chunk are discarded: readers of the rest learn from when on it is complete. */
static inline void kf_contents_forget(const kf_pool *pool, uint64_t last_ticks)
{
    uint64_t *forgotten = &pool->control->forgotten_ticks, known = kb_load_relaxed(forgotten);
    while (known < last_ticks && !kb_cas_acqrel(forgotten, &known, last_ticks))
        ;
}

#define KF_MAP_BITS 64u /* of a word of the maps of chunks */

/* ---- chunks.c [rt] ---- */
/** Make a chunk LIVE for `owner` if its claim word still is `claim`. False: another thread was
 *  faster. The caller has checked that `claim` allows it. */
bool kf_chunk_win(kf_descriptor *d, uint64_t claim, uint64_t owner);

/* ---- pool.c [rt] ---- */
/** Recompute the gate and the wants from the open windows, and wake the followers. */
void kf_gate_update(kf_control *control);

/* ---- evict.c [rt]: policy RING ---- */
/** Make the oldest sealed chunk that is not protected LIVE for `owner`, zeroed. UINT32_MAX:
 *  none. */
uint32_t kf_ring_claim(const kf_pool *pool, uint64_t owner);
#endif
