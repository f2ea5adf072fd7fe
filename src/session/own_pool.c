/* The pool of a process without a collector: anonymous shared memory, created by the first session
 * and kept for the life of the process. It reserves address space for the largest buffer, and
 * memory only for the buffers of the open sessions (chunk_limit). Shared, so that children after a
 * fork record into it as well. */
#include "session/own_pool.h"
#include "record/record.h"

#include <sys/mman.h>

#define RESERVE_BYTES ((size_t)4 << 30)

/* rt adopts the pool: its threads record into it from then on. It is never unmapped. */
static kineto_status create_own_pool(size_t buffer_bytes, kineto_error *err)
{
    size_t reserve = KB_MAX(buffer_bytes, RESERVE_BYTES);
    size_t bytes = kf_pool_size(reserve, KS_DICTIONARY_BYTES);
    void *map = kb_os_map_shared(bytes, NULL);
    if (!map) { /* address space is limited: only what is needed */
        reserve = buffer_bytes;
        bytes = kf_pool_size(reserve, KS_DICTIONARY_BYTES);
        map = kb_os_map_shared(bytes, err);
    }
    if (!map)
        return err ? err->code : KINETO_E_MEMORY;
    kf_pool_format(map, reserve, KS_DICTIONARY_BYTES);
    kf_control *control = map;
    control->ticks_clock = kb_ticks_clock();
    control->collector_pid = kb_os_pid();
    control->collector_start_time = kb_os_start_time(control->collector_pid);
    control->chunk_limit = 0;
    (void)kb_os_boot_id((char *)control->boot_id, sizeof control->boot_id);
    (void)madvise(map, bytes, MADV_DONTDUMP);
    kineto_status status = kineto_rt_adopt(map, bytes, err);
    if (status)
        kb_os_unmap(map, bytes);
    else
        ks_pool_put_job(kineto_rt_pool());
    return status;
}

kineto_status ks_own_pool_grow(const kf_pool *pool, size_t buffer_bytes, kineto_error *err)
{
    kf_control *control = pool->control;
    size_t want = KB_MAX(buffer_bytes / KF_CHUNK_BYTES, 4u);
    if (want > pool->chunk_count)
        return kb_fail(err, KINETO_E_LIMIT,
                       "a buffer of %zu bytes is more than this process reserved (%zu): start the "
                       "largest session first",
                       buffer_bytes, (size_t)pool->chunk_count * KF_CHUNK_BYTES);
    uint32_t have = kb_load_acquire(&control->chunk_limit);
    KB_ASSERT(have <= pool->chunk_count);
    if (want > have) {
        kb_os_prefault(kf_pool_chunk(pool, have), (want - have) * KF_CHUNK_BYTES);
        if (want > kb_load_relaxed(&control->chunk_high))
            kb_store_release(&control->chunk_high, (uint32_t)want);
        kb_store_release(&control->chunk_limit, (uint32_t)want);
    }
    return KINETO_OK;
}

kineto_status ks_own_pool_ready(size_t buffer_bytes, kineto_error *err)
{
    kineto_status status = KINETO_OK;
    if (!kineto_rt_pool())
        status = create_own_pool(buffer_bytes, err);
    const kf_pool *pool = kineto_rt_pool();
    if (status == KINETO_OK && !pool->control->external)
        status = ks_own_pool_grow(pool, buffer_bytes, err);
    return status;
}

uint32_t ks_own_chunks_in_use(const kf_pool *pool)
{
    return kb_min_u32(kb_load_acquire(&pool->control->chunk_high), pool->chunk_count);
}

/* ---- giving chunks back ---------------------------------------------------------------------- */

static bool chunk_is_spent(const kf_descriptor *d, uint64_t claim, uint64_t from)
{
    uint32_t state = kf_claim_state(claim);
    return (state == KF_CHUNK_SEALED || state == KF_CHUNK_PARTIAL) &&
           kb_load_relaxed(&d->last_ticks) < from;
}

bool ks_has_foreign_windows(const kf_control *control)
{
    uint32_t self = kb_os_pid();
    for (uint32_t i = 0; i < KF_MAX_WINDOWS; i++)
        if (kb_load_acquire(&control->windows[i].state) == KF_WINDOW_OPEN &&
            kb_load_relaxed(&control->windows[i].owner_pid) != self)
            return true;
    return false;
}

void ks_own_chunks_release(const kf_pool *pool, uint64_t from)
{
    /* Chunks that end later may belong to a session that another process begins meanwhile. */
    uint64_t now = kb_ticks(pool->control->ticks_clock);
    if (pool->control->external || ks_has_foreign_windows(pool->control))
        return;
    for (uint32_t i = 0; i < ks_own_chunks_in_use(pool); i++) {
        uint64_t claim = kf_chunk_claim_of(pool, i);
        if (chunk_is_spent(&pool->descriptors[i], claim, KB_MIN(from, now)))
            (void)kf_chunk_free(pool, i, claim);
    }
}

/* Holds rows of free chunks, gives their pages back and releases them again. Chunks that threads
 * still own keep their pages; chunk_high then covers exactly those. */
void ks_own_memory_release(const kf_pool *pool)
{
    kf_control *control = pool->control;
    if (control->external || control->collector_pid != kb_os_pid() ||
        ks_has_foreign_windows(control))
        return;
    kb_store_release(&control->chunk_limit, 0u);
    uint32_t count = ks_own_chunks_in_use(pool), high = 0;
    for (uint32_t first = 0, i = 0; first < count; first = ++i) {
        while (i < count && kf_chunk_hold(pool, i))
            i++;
        if (i > first)
            (void)madvise(kf_pool_chunk(pool, first), (size_t)(i - first) * KF_CHUNK_BYTES,
                          MADV_REMOVE);
        for (uint32_t held = first; held < i; held++)
            kf_chunk_unhold(pool, held);
        if (i < count)
            high = i + 1;
    }
    KB_ASSERT(high <= count);
    kb_store_release(&control->chunk_high, high);
}

/* Is it owned by a dead process: while writing, or held while its memory was being given back? */
static bool is_held_by_dead(uint64_t claim)
{
    uint32_t state = kf_claim_state(claim), pid = (uint32_t)(kf_claim_owner(claim) >> 32);
    return (state == KF_CHUNK_LIVE || state == KF_CHUNK_FREE) && pid != 0 && pid != kb_os_pid() &&
           kf_owner_is_dead(pid, kb_os_start_time(pid));
}

/* kf_chunk_inherit decides by compare-and-swap which process seals the chunk, should several try.
 */
void ks_chunks_inherit_from_dead(const kf_pool *pool)
{
    if (pool->control->external)
        return;
    for (uint32_t i = 0; i < ks_own_chunks_in_use(pool); i++) {
        uint64_t claim = kf_chunk_claim_of(pool, i);
        if (!is_held_by_dead(claim) || !kf_chunk_inherit(pool, i, claim))
            continue;
        uint32_t words = kf_committed_words(kf_pool_chunk(pool, i), KF_CHUNK_WORDS);
        if (words)
            kf_chunk_seal(pool, i, words, kb_ticks(pool->control->ticks_clock));
        else
            (void)kf_chunk_free(pool, i, kf_chunk_claim_of(pool, i));
    }
}

/* A ring (retention NEWEST) overwrites its oldest chunks, but none that a session with retention
 * OLDEST may need. Considers the windows of all processes that share the pool. */
void ks_retention_update(kf_control *control)
{
    uint64_t protect = 0, earliest = UINT64_MAX;
    uint32_t policy = KF_FULL_DROP;
    for (uint32_t i = 0; i < KF_MAX_WINDOWS; i++) {
        const kf_window *w = &control->windows[i];
        if (kb_load_acquire(&w->state) != KF_WINDOW_OPEN)
            continue;
        uint64_t start = kb_load_relaxed(&w->start_ticks);
        earliest = KB_MIN(earliest, start);
        uint32_t keep = kb_load_relaxed(&w->keep_newest);
        if (keep != KS_KEEP_OLDEST)
            policy = KF_FULL_RING;
        if (keep != KS_KEEP_NEWEST && (!protect || start < protect))
            protect = start;
    }
    if (control->external)
        return;
    kb_store_relaxed(&control->window_ticks, earliest);
    kb_store_relaxed(&control->ring_protect_ticks, protect);
    kb_store_relaxed(&control->full_policy, policy);
}
