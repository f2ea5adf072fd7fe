/* Ownership of chunks: claiming, sealing, leaving, freeing. The transitions of a claim word are
 * listed at kf_descriptor in format.h. Part of libckineto-rt, so libc only and no heap. Lock-free:
 * a process may be killed between any two instructions here and the others go on.
 *
 * The claim word decides; the two bit maps (free, partial) are only hints where to look. Only the
 * owner of a LIVE or held chunk stores its claim without compare-and-swap, so the assertions below
 * check that the caller can be that owner. */
#include "format/pool.h"

/* A chunk that is left with less room than this is sealed instead of offered to other threads. */
#define PARTIAL_ROOM_WORDS (KF_CHUNK_WORDS / 4u)

/* ---- the claim word -------------------------------------------------------------------------- */

#define PID_SHIFT    (2u + KF_CLAIM_ID_BITS)
#define CHANGE_SHIFT (2u + 2u * KF_CLAIM_ID_BITS)
#define CHANGES      (~UINT64_C(0) << CHANGE_SHIFT)

static uint64_t make_claim(uint64_t changes, uint64_t owner, kf_chunk_state state)
{
    return (changes & CHANGES) | (owner >> 32 & KF_CLAIM_ID_MASK) << PID_SHIFT |
           (owner & KF_CLAIM_ID_MASK) << 2 | state;
}

bool kf_chunk_win(kf_descriptor *d, uint64_t claim, uint64_t owner)
{
    KB_ASSERT(owner != 0);
    uint64_t changes = claim + (UINT64_C(1) << CHANGE_SHIFT);
    return kb_cas_acqrel(&d->claim, &claim, make_claim(changes, owner, KF_CHUNK_LIVE));
}

/* LIVE or held → `state`, by the owner. `owner` 0: any thread may have it next. */
static void store_claim(kf_descriptor *d, uint64_t owner, kf_chunk_state state)
{
    kb_store_release(&d->claim, make_claim(kb_load_relaxed(&d->claim), owner, state));
}

static bool is_claimable(uint64_t claim)
{
    uint32_t state = kf_claim_state(claim);
    return kf_claim_owner(claim) == 0 && (state == KF_CHUNK_FREE || state == KF_CHUNK_PARTIAL);
}

/* ---- claiming -------------------------------------------------------------------------------- */

static void set_map_bit(uint64_t *map, uint32_t index)
{
    kb_or_release(&map[index / KF_MAP_BITS], UINT64_C(1) << index % KF_MAP_BITS);
}

static void clear_map_bit(uint64_t *map, uint32_t index)
{
    kb_and_acqrel(&map[index / KF_MAP_BITS], ~(UINT64_C(1) << index % KF_MAP_BITS));
}

/* Prepare a chunk that was just won from `state` for writing; *words receives the words in use.
 * False: too few are left, it is sealed. */
static bool open_won_chunk(const kf_pool *pool, uint32_t index, uint32_t state, uint32_t *words)
{
    kf_descriptor *d = &pool->descriptors[index];
    KB_ASSERT(index < pool->chunk_count);
    KB_ASSERT(state == KF_CHUNK_FREE || state == KF_CHUNK_PARTIAL);
    *words = state == KF_CHUNK_PARTIAL ? kb_load_relaxed(&d->used) : 0;
    kb_store_relaxed(&d->call.header, UINT64_C(0));
    if (state == KF_CHUNK_FREE)
        kf_contents_begin(d);
    if (*words <= KF_CHUNK_WORDS - PARTIAL_ROOM_WORDS)
        return true;
    kb_store_release(&d->claim, kf_claim_sealed(kb_load_relaxed(&d->claim)));
    return false;
}

/* Try one candidate. The bit of the map is cleared after the compare-and-swap, so that no chunk is
 * lost to other threads if this one dies in between. */
static bool claim_candidate(const kf_pool *pool, uint64_t *map, uint32_t index, uint64_t owner,
                            uint32_t *words)
{
    kf_descriptor *d = &pool->descriptors[index];
    uint64_t claim = kb_load_acquire(&d->claim);
    bool won = is_claimable(claim) && kf_chunk_win(d, claim, owner);
    clear_map_bit(map, index);
    if (won)
        return open_won_chunk(pool, index, kf_claim_state(claim), words);
    /* The chunk may have been released meanwhile, and the bit just cleared be the one that its
     * owner set. Clearing (acquire) after setting (release) makes the owner's claim visible: set it
     * again. */
    if (is_claimable(kb_load_acquire(&d->claim)))
        set_map_bit(map, index);
    return false;
}

static uint32_t claim_from_map(const kf_pool *pool, uint64_t *map, uint64_t owner, uint32_t *words)
{
    uint32_t limit = kf_chunk_limit(pool);
    KB_ASSERT(limit <= pool->chunk_count);
    for (uint32_t base = 0; base < limit; base += KF_MAP_BITS) {
        uint64_t bits = kb_load_acquire(&map[base / KF_MAP_BITS]);
        for (; bits; bits &= bits - 1) {
            uint32_t index = base + (uint32_t)__builtin_ctzll(bits);
            if (index < limit && claim_candidate(pool, map, index, owner, words))
                return index;
        }
    }
    return UINT32_MAX;
}

uint32_t kf_chunk_claim(const kf_pool *pool, uint64_t owner, uint32_t *words)
{
    *words = 0;
    uint32_t index = claim_from_map(pool, pool->partial_map, owner, words);
    if (index == UINT32_MAX)
        index = claim_from_map(pool, pool->free_map, owner, words);
    if (index != UINT32_MAX)
        return index;
    *words = 0;
    return kb_load_relaxed(&pool->control->full_policy) == KF_FULL_RING ? kf_ring_claim(pool, owner)
                                                                        : UINT32_MAX;
}

bool kf_chunk_inherit(const kf_pool *pool, uint32_t index, uint64_t claim)
{
    KB_ASSERT(index < pool->chunk_count);
    bool is_free = kf_claim_state(claim) == KF_CHUNK_FREE && kf_claim_owner(claim) == 0;
    return !is_free && kf_chunk_win(&pool->descriptors[index], claim, kb_os_self());
}

/* ---- sealing and leaving --------------------------------------------------------------------- */

static void store_chunk_end(kf_descriptor *d, uint32_t words, uint64_t last_ticks)
{
    kb_store_relaxed(&d->used, words);
    kb_store_relaxed(&d->last_ticks, last_ticks);
}

void kf_chunk_seal(const kf_pool *pool, uint32_t index, uint32_t words, uint64_t last_ticks)
{
    kf_descriptor *d = &pool->descriptors[index];
    KB_ASSERT(index < pool->chunk_count && words <= KF_CHUNK_WORDS);
    KB_ASSERT(kf_chunk_state_of(d) == KF_CHUNK_LIVE);
    store_chunk_end(d, words, last_ticks);
    kb_store_release(&d->claim, kf_claim_sealed(kb_load_relaxed(&d->claim)));
}

void kf_chunk_leave(const kf_pool *pool, uint32_t index, uint32_t words, uint64_t last_ticks)
{
    if (words > KF_CHUNK_WORDS - PARTIAL_ROOM_WORDS) {
        kf_chunk_seal(pool, index, words, last_ticks);
        return;
    }
    kf_descriptor *d = &pool->descriptors[index];
    KB_ASSERT(index < pool->chunk_count && kf_chunk_state_of(d) == KF_CHUNK_LIVE);
    store_chunk_end(d, words, last_ticks);
    store_claim(d, 0, KF_CHUNK_PARTIAL);
    set_map_bit(pool->partial_map, index);
}

uint32_t kf_committed_words(const uint64_t *chunk, uint32_t limit)
{
    uint32_t at = 0;
    limit = KB_MIN(limit, KF_CHUNK_WORDS);
    while (at < limit) {
        uint64_t header = kb_load_acquire(&chunk[at]);
        uint32_t words = kf_header_words(header);
        if (header == 0 || words == 0 || words > limit - at)
            break;
        at += words;
    }
    return at;
}

/* ---- open calls ------------------------------------------------------------------------------ */

kf_open_call kf_open_call_read(const kf_descriptor *d)
{
    kf_open_call call = {.header = kb_load_acquire(&d->call.header),
                         .ticks = kb_load_relaxed(&d->call.ticks),
                         .place = kb_load_relaxed(&d->call.place)};
    for (uint32_t i = 0; i < KF_CALL_ARGS; i++)
        call.args[i] = kb_load_relaxed(&d->call.args[i]);
    kb_fence_seqcst();
    /* Another call has other ticks, which its thread stored before the rest. */
    if (call.ticks != kb_load_relaxed(&d->call.ticks) ||
        call.header != kb_load_relaxed(&d->call.header))
        call.header = 0;
    return call;
}

uint32_t kf_open_call_append(const kf_open_call *call, uint64_t until, uint32_t flags,
                             uint64_t *chunk, uint32_t words)
{
    uint32_t count = kf_header_words(call->header);
    uint64_t *at = chunk + words;
    KB_ASSERT(words <= KF_CHUNK_WORDS);
    if (kf_header_type(call->header) != KF_OPEN_CALL || words != kf_open_call_at(call) || !words ||
        count < KF_CALL_WORDS || count > KF_CALL_WORDS + KF_CALL_ARGS ||
        count > KF_CHUNK_WORDS - words)
        return words;
    at[1] = call->ticks;
    at[2] = KB_MAX(until, call->ticks);
    at[3] = (call->place >> 32) * 1000;
    for (uint32_t i = KF_CALL_WORDS; i < count; i++)
        at[i] = call->args[i - KF_CALL_WORDS];
    kb_store_release(at, call->header | kf_header(KF_NONE, 0, flags, 0));
    return words + count;
}

/* ---- freeing --------------------------------------------------------------------------------- */

void kf_chunk_return(const kf_pool *pool, uint32_t index, uint32_t words, uint64_t last_ticks)
{
    kf_descriptor *d = &pool->descriptors[index];
    KB_ASSERT(index < pool->chunk_count && kf_chunk_state_of(d) == KF_CHUNK_LIVE);
    kf_contents_forget(pool, last_ticks);
    kf_contents_begin(d);
    kf_contents_clear(pool, index, words);
    kb_store_relaxed(&d->used, 0);
    store_claim(d, 0, KF_CHUNK_FREE);
    set_map_bit(pool->free_map, index);
}

bool kf_chunk_free(const kf_pool *pool, uint32_t index, uint64_t claim)
{
    const kf_descriptor *d = &pool->descriptors[index];
    if (!kf_chunk_inherit(pool, index, claim))
        return false;
    uint32_t state = kf_claim_state(claim), words = KF_CHUNK_WORDS;
    uint64_t last_ticks = kb_load_relaxed(&d->last_ticks);
    if (state == KF_CHUNK_SEALED || state == KF_CHUNK_PARTIAL)
        words = kb_load_relaxed(&d->used);
    else if (kb_load_relaxed(kf_pool_chunk(pool, index)))
        last_ticks = kb_ticks(pool->control->ticks_clock); /* LIVE: its last ticks are unknown */
    else
        last_ticks = 0; /* nothing was written, and its earlier contents were counted before */
    kf_chunk_return(pool, index, words, last_ticks);
    return true;
}

bool kf_chunk_hold(const kf_pool *pool, uint32_t index)
{
    kf_descriptor *d = &pool->descriptors[index];
    uint64_t claim = kb_load_acquire(&d->claim);
    return is_claimable(claim) && kf_claim_state(claim) == KF_CHUNK_FREE &&
           kb_cas_acqrel(&d->claim, &claim, make_claim(claim, kb_os_self(), KF_CHUNK_FREE));
}

void kf_chunk_unhold(const kf_pool *pool, uint32_t index)
{
    KB_ASSERT(index < pool->chunk_count &&
              kf_chunk_state_of(&pool->descriptors[index]) == KF_CHUNK_FREE);
    store_claim(&pool->descriptors[index], 0, KF_CHUNK_FREE);
    set_map_bit(pool->free_map, index);
}
