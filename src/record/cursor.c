/* Cursors: attaching threads, changing chunks, keyframes, thread exit. The slow half of recording;
 * the hot half is in cursor.h and record.c.
 *
 * Cursors lie in slabs that are never freed, since a cursor may still be the `kr_me` of a thread
 * that has not recorded since a fork. A slot is claimed by the compare-and-swap of `in_use`, and
 * released as the last step of thread exit. A chunk changes hands in the order claim new, publish
 * new, seal old: a thread that is killed or cancelled in between leaves two LIVE chunks in its
 * name, which thread exit (release_stray_chunks) or the collector puts right. */
#include "record/function.h"

#include <dlfcn.h>
#include <pthread.h>

#ifdef __GLIBC__
extern int __register_atfork(void (*)(void), void (*)(void), void (*)(void), void *)
    __attribute__((weak));
extern void *__dso_handle __attribute__((visibility("hidden")));
#endif

kr_cursor kr_unattached = {.busy = 1, .in_use = 1, .chunk = KR_NO_CHUNK};
kr_cursor kr_attaching = {.busy = 1, .in_use = 1, .chunk = KR_NO_CHUNK};
__thread kr_cursor *kr_me KR_TLS_MODEL = &kr_unattached;

/* glibc keeps the first 32 keys of a thread inline: setting one allocates nothing. */
#define KR_INLINE_KEYS 32u
static pthread_key_t kr_key;
static uint32_t kr_key_usable;

void kr_count(uint32_t source, kf_reason reason, uint64_t n)
{
    const kf_pool *pool = kr_pool_get();
    if (pool)
        kb_add_relaxed(&pool->control->counters[source][reason], n);
}

/* ---- slots ----------------------------------------------------------------------------------- */

#define KR_SLAB_BYTES 65536u
#define KR_SLAB_MAGIC UINT64_C(0x62616c736b72)

typedef struct kr_slot {
    kr_cursor first, second;
} kr_slot;

/* Zeroed in a fork's child: a slab without magic is dead, because a cursor in it may still be the
 * `kr_me` of a thread that has not recorded since. */
typedef struct kr_slab {
    uint64_t magic;
    struct kr_slab *next;
    kr_slot slots[(KR_SLAB_BYTES - 16) / sizeof(kr_slot)];
} kr_slab;

static kr_slab *kr_slabs;

static kr_slot *claim_slab_slot(kr_slab *slab)
{
    for (size_t i = 0; i < KB_COUNT(slab->slots); i++) {
        uint8_t free_slot = 0;
        if (!kb_load_acquire(&slab->slots[i].first.in_use) &&
            kb_cas_acqrel(&slab->slots[i].first.in_use, &free_slot, 1))
            return &slab->slots[i];
    }
    return NULL;
}

static kr_slot *claim_cursor_slot(void)
{
    kr_slab *head = kb_load_acquire(&kr_slabs);
    for (kr_slab *slab = head; slab && slab->magic == KR_SLAB_MAGIC; slab = slab->next) {
        kr_slot *slot = claim_slab_slot(slab);
        if (slot)
            return slot;
    }
    kr_slab *slab = kb_os_map_wiped_on_fork(sizeof *slab);
    if (!slab)
        return NULL;
    slab->magic = KR_SLAB_MAGIC;
    slab->slots[0].first.in_use = 1;
    do {
        slab->next = head && head->magic == KR_SLAB_MAGIC ? head : NULL;
    } while (!kb_cas_acqrel(&kr_slabs, &head, slab));
    return &slab->slots[0];
}

/* A cursor without chunk, name or identity in the pool. `in_use`, `busy` and `second` are the
 * caller's to set. */
static void init_cursor(kr_cursor *c, uint32_t pid, uint32_t tid)
{
    c->at = c->limit = c->base = NULL;
    c->depth = 0;
    c->chunk = c->leaving = KR_NO_CHUNK;
    c->serial = c->seq = c->skip = c->source = c->epoch = 0;
    c->name_id = 0;
    kb_store_relaxed(&c->system_name, 0u);
    c->name[0] = 0;
    kb_store_relaxed(&c->in_plugin, 0);
    c->in_plugin_nested = 0;
    c->pushed_depth[0] = c->pushed_depth[1] = 0;
    c->function_next = c->function_end = 0;
    c->number = 0;
    c->joined = 0;
    c->functions_off = c->functions_fast = 0;
    c->callbacks = c->extras = NULL;
    c->inspect = c->stacks = 0;
    c->throttled_at = NULL;
    kb_store_relaxed(&c->tid, tid);
    kb_store_relaxed(&c->pid, pid);
    c->ticks_clock = kb_ticks_clock();
    c->tsc = c->ticks_clock != KB_TICKS_MONOTONIC_RAW;
}

/* `was`: the value of kr_me that the caller saw. A signal handler may have attached the thread
 * since, or be the one that interrupts an attach: then the compare-and-swap fails. */
static kr_cursor *attach_thread(kr_cursor *was)
{
    if (!kb_cas_acqrel(&kr_me, &was, &kr_attaching))
        return was == &kr_unattached ? NULL : was;
    kr_slot *slot = claim_cursor_slot();
    if (!slot) {
        kr_me = &kr_unattached;
        return NULL;
    }
    KB_ASSERT(kb_load_relaxed(&slot->first.in_use) == 1); /* others try to claim it, too */
    uint32_t pid = kb_os_pid(), tid = kb_os_tid();
    init_cursor(&slot->first, pid, tid);
    init_cursor(&slot->second, pid, tid);
    slot->second.is_second = slot->second.in_use = 1;
    slot->first.second = &slot->second;
    slot->first.busy = slot->second.busy = 0;
    if (kb_load_relaxed(&kr_key_usable))
        (void)pthread_setspecific(kr_key, slot);
    kb_signal_fence();
    kr_me = &slot->first;
    return &slot->first;
}

kr_cursor *kr_cursor_slow(void)
{
    kr_cursor *c = kr_me;
    if (c == &kr_unattached || !KR_IN_USE(c)) { /* new, or zeroed by a fork */
        if (kr_process_is_foreign())
            return NULL; /* the ledger names the process */
        c = attach_thread(c);
        if (!c)
            kr_count(KF_SOURCE_API, KF_REASON_NO_MEMORY, 1);
        return c;
    }
    if (c->second && !c->second->busy)
        return c->second;
    kr_count(KF_SOURCE_API, KF_REASON_REENTRANT, 1);
    return NULL;
}

static bool is_slot_in_plugin(const kr_slot *s, uint32_t pid, uint32_t tid)
{
    return kb_load_acquire(&s->first.in_use) && kb_load_relaxed(&s->first.pid) == pid &&
           kb_load_relaxed(&s->first.tid) != tid &&
           (kb_load_acquire(&s->first.in_plugin) || kb_load_acquire(&s->second.in_plugin));
}

bool kr_cursors_wait_outside(bool (*wait)(uint32_t *turns, uint32_t limit_ms), uint32_t limit_ms)
{
    uint64_t self = kr_identity();
    uint32_t turns = 0;
    for (const kr_slab *s = kb_load_acquire(&kr_slabs); s && s->magic == KR_SLAB_MAGIC; s = s->next)
        for (size_t i = 0; i < KB_COUNT(s->slots); i++)
            while (is_slot_in_plugin(&s->slots[i], (uint32_t)(self >> 32), (uint32_t)self))
                if (!wait(&turns, limit_ms))
                    return false;
    return true;
}

void kr_cursors_each(void (*visit)(kr_cursor *c, void *context), void *context)
{
    uint32_t pid = kb_os_pid();
    for (kr_slab *s = kb_load_acquire(&kr_slabs); s && s->magic == KR_SLAB_MAGIC; s = s->next)
        for (size_t i = 0; i < KB_COUNT(s->slots); i++) {
            kr_cursor *c = &s->slots[i].first;
            if (kb_load_acquire(&c->in_use) && kb_load_relaxed(&c->pid) == pid)
                visit(c, context);
        }
}

/* ---- chunks ---------------------------------------------------------------------------------- */

static uint64_t owner_of_cursor(const kr_cursor *c) { return (uint64_t)c->pid << 32 | c->tid; }

/* Words of the record that opened range d, from its header. Another process may have overwritten
 * the header in the shared memory: the result is 2 if the chunk cannot hold that many. */
static uint32_t words_of_open_range(const kr_cursor *c, uint32_t d, uint64_t header)
{
    uint32_t words = kf_header_words(header);
    return words < 2 || words > KF_CHUNK_WORDS - c->open[d] ? 2 : words;
}

/* Words that complete copies of all open ranges take. */
static uint32_t count_reopen_words(const kr_cursor *c)
{
    uint32_t words = 0;
    for (uint32_t d = 0; d < c->depth; d++)
        words += words_of_open_range(c, d, kb_load_relaxed(&c->base[c->open[d]]));
    return words;
}

/* Copy open range d to `at`, shortened to header and ticks if it is longer than `most` words. The
 * old chunk is still this cursor's, so that its record is stable unless another process
 * misbehaves. */
static uint64_t *copy_open_range(kr_cursor *c, uint64_t *at, uint64_t *base, uint32_t d,
                                 size_t most)
{
    KB_ASSERT(d < c->depth && c->open[d] < KF_CHUNK_WORDS && most >= 2);
    const uint64_t *from = c->base + c->open[d];
    uint64_t h = kb_load_relaxed(from);
    uint32_t words = words_of_open_range(c, d, h), props = kf_header_aux(h) >> 8;
    if (words > 2 && words > most) {
        words = 2;
        props = KF_PROP_ARGS_LOST;
    }
    for (uint32_t i = 1; i < words; i++)
        at[i] = from[i];
    kb_store_release(at, kf_header(KF_REOPEN, words, d | props << 8, kf_header_id(h)));
    c->open[d] = (uint16_t)(at - base);
    return at + words;
}

static uint64_t *write_keyframe(kr_cursor *c, uint64_t *at)
{
    uint64_t ticks = kr_ticks(c);
    c->epoch = kr_epoch_of(ticks);
    at[1] = ticks;
    at[2] = c->pid | (uint64_t)c->tid << 32;
    at[3] = kineto_rt_process() | (uint64_t)c->seq++ << 32;
    at[4] = (c->is_second ? KF_CURSOR_SIGNAL : 0) | (uint64_t)c->depth << 32;
    kb_store_release(at, kf_header(KF_KEYFRAME, KF_KEYFRAME_WORDS, 0, c->serial));
    return at + KF_KEYFRAME_WORDS;
}

/* Switch the cursor to a new chunk. The thread may end between any two of these stores (a signal
 * handler that does not return): while `at` is NULL, the cursor stands where the records of `chunk`
 * end, see discard_unfinished_record. */
static void publish_segment(kr_cursor *c, uint64_t *base, uint64_t *at, uint32_t index)
{
    KB_ASSERT(c->depth <= KF_MAX_DEPTH && at > base);
    KB_ASSERT(at + c->depth <= base + KF_CHUNK_WORDS);
    c->at = NULL;
    c->leaving = c->chunk;
    kb_signal_fence();
    c->chunk = index;
    kb_signal_fence();
    c->base = base;
    c->throttled_at = NULL;
    c->limit = base + KF_CHUNK_WORDS - c->depth;
    kb_signal_fence();
    c->at = at;
}

/* Begin a segment in chunk `index`, in which `used` words are written: a keyframe, then a REOPEN
 * copy of each open range. False: too little room for these, for `words` and for the ENDs. */
static bool start_segment(kr_cursor *c, const kf_pool *pool, uint32_t index, uint32_t used,
                          uint32_t words)
{
    KB_ASSERT(index != c->chunk && used + KF_KEYFRAME_WORDS + c->depth <= KF_CHUNK_WORDS);
    uint64_t *base = kf_pool_chunk(pool, index);
    uint32_t room = KF_CHUNK_WORDS - used - KF_KEYFRAME_WORDS - c->depth;
    uint32_t copies = count_reopen_words(c);
    bool whole = copies <= room / 2 && copies + words + 2 <= room;
    if ((whole ? copies : 2 * c->depth) + words + 2 > room)
        return false;
    uint64_t *at = write_keyframe(c, base + used);
    const uint64_t *end = at + (whole ? copies : 2 * c->depth);
    for (uint32_t d = 0; d < c->depth; d++) /* leave 2 words for each range that follows */
        at = copy_open_range(c, at, base, d, (size_t)(end - at) - 2u * (c->depth - 1 - d));
    publish_segment(c, base, at, index);
    kr_cursor_put_name(c);
    return true;
}

static bool change_chunk(kr_cursor *c, const kf_pool *pool, uint32_t words)
{
    uint32_t old = c->chunk, old_used = (uint32_t)(c->at - c->base), used;
    KB_ASSERT(!KR_IN_USE(c) || c->leaving == KR_NO_CHUNK);
    KB_ASSERT(old == KR_NO_CHUNK || old_used <= KF_CHUNK_WORDS);
    uint64_t begun = kr_ticks(c);
    if (kb_load_relaxed(&pool->control->throttled.short_ticks) && old != KR_NO_CHUNK)
        kr_throttle_scan_chunk(c);
    /* kf_chunk_claim offers partial chunks first, also ones with too little room for this cursor:
     * try as many as there are chunks. */
    for (uint32_t tries = 0; tries <= pool->chunk_count; tries++) {
        uint32_t index = kf_chunk_claim(pool, owner_of_cursor(c), &used);
        if (index == UINT32_MAX)
            return false;
        if (start_segment(c, pool, index, used, words)) {
            if (old != KR_NO_CHUNK)
                kf_chunk_seal(pool, old, old_used, kr_ticks(c));
            c->leaving = KR_NO_CHUNK;
            kr_cost_add(KF_COST_CHUNK, kr_ticks(c) - begun, 1);
            return true;
        }
        kf_chunk_seal(pool, index, used, kr_ticks(c)); /* a partial one with too little room */
    }
    return false;
}

/* Changes when chunks are freed, or when the size or the policy of the buffer changes: then
 * claiming a chunk may succeed again. */
static uint64_t make_room_key(const kf_control *control)
{
    return kb_load_relaxed(&control->forgotten_ticks) + kb_load_relaxed(&control->chunk_limit) +
           ((uint64_t)kb_load_relaxed(&control->full_policy) << 63);
}

bool kr_cursor_try_refill(kr_cursor *c, uint32_t words)
{
    const kf_pool *pool = kr_pool_get();
    if (!pool)
        return false;
    if (c->serial == 0)
        c->serial = kb_add_relaxed(&pool->control->cursor_serial, 1) + 1;
    uint64_t key = make_room_key(pool->control);
    if (c->skip && c->skip_while == key) {
        c->skip--;
    } else {
        if (change_chunk(c, pool, words))
            return true;
        c->skip = 16;
        c->skip_while = key;
    }
    return false;
}

bool kr_cursor_refill(kr_cursor *c, uint32_t words)
{
    if (kr_cursor_try_refill(c, words))
        return true;
    kr_count(c->source, KF_REASON_NO_ROOM, 1);
    return false;
}

/* Re-anchors the clock for the END that follows: writes an ARGS record without args for the range
 * that is about to end, or moves to a new chunk, which begins with a keyframe, if the chunk is
 * full. */
KB_COLD void kr_epoch_begin(kr_cursor *c, uint64_t ticks)
{
    c->epoch = kr_epoch_of(ticks);
    if (!kr_room_for(c, 2)) {
        (void)kr_cursor_refill(c, 2);
        return;
    }
    c->at[1] = ticks;
    kr_commit(c, c->at, kf_header(KF_ARGS, 2, c->depth - 1, 0), 2);
}

void kr_cursor_put_name(kr_cursor *c)
{
    if (!c->name[0] || !c->at || c->limit - c->at < 2)
        return;
    if (!c->name_id)
        c->name_id = kr_intern(c->name, strlen(c->name));
    c->at[1] = kr_ticks(c);
    kr_commit(c, c->at, kf_header(KF_THREAD_NAME, 2, 0, c->name_id), 2);
}

/* ---- thread exit ----------------------------------------------------------------------------- */

/* The thread was ended inside a record call: erase what that call had written and not committed. */
static void discard_unfinished_record(kr_cursor *c)
{
    const kf_pool *pool = kr_pool_get();
    if (!pool || c->chunk == KR_NO_CHUNK || !c->busy)
        return;
    if (!c->at) { /* as publish_segment left it */
        c->base = kf_pool_chunk(pool, c->chunk);
        c->limit = c->base + KF_CHUNK_WORDS - c->depth;
        c->at = c->base + kf_committed_words(c->base, KF_CHUNK_WORDS);
    }
    memset(c->at, 0, (size_t)(c->base + KF_CHUNK_WORDS - c->at) * sizeof *c->at);
}

/* The thread ends: write THREAD_EXIT and leave the chunk to other threads. Open ranges stay open
 * and are closed by the decoder, so that the words reserved for their ENDs are free to use. */
static void retire_cursor(kr_cursor *c)
{
    const kf_pool *pool = kr_pool_get();
    if (!pool || c->chunk == KR_NO_CHUNK)
        return;
    kr_enter(c);
    uint64_t ticks = kr_ticks(c);
    KB_ASSERT(c->at >= c->base && c->at <= c->base + KF_CHUNK_WORDS);
    if (c->limit + c->depth - c->at >= 2) {
        c->at[1] = ticks;
        kr_commit(c, c->at, kf_header(KF_THREAD_EXIT, 2, 0, 0), 2);
    } else if (c->depth) { /* there is always room for one END, which closes them all */
        kr_commit(c, c->at, kf_end(0, ticks), 1);
    }
    kb_store_relaxed(&pool->descriptors[c->chunk].call.header, UINT64_C(0));
    kf_chunk_leave(pool, c->chunk, (uint32_t)(c->at - c->base), ticks);
    c->chunk = KR_NO_CHUNK;
    c->throttled_at = NULL;
    c->at = c->limit = NULL;
}

static void seal_chunk_at(const kf_pool *pool, uint32_t index, uint32_t used, uint64_t ticks)
{
    uint64_t *chunk = kf_pool_chunk(pool, index);
    memset(chunk + used, 0, (KF_CHUNK_WORDS - used) * sizeof *chunk);
    kf_chunk_seal(pool, index, used, ticks);
}

/* A chunk that was claimed and not begun by this cursor: records that other threads left in it
 * stay. */
static void release_new_chunk(const kf_pool *pool, uint32_t index)
{
    const kf_descriptor *d = &pool->descriptors[index];
    uint32_t used = kb_load_relaxed(&d->used);
    if (!used || used > KF_CHUNK_WORDS || !kb_load_relaxed(kf_pool_chunk(pool, index)))
        (void)kf_chunk_free(pool, index, kf_chunk_claim_of(pool, index));
    else
        seal_chunk_at(pool, index, used, kb_load_relaxed(&d->last_ticks));
}

static bool is_previous_chunk_of(const kr_cursor *c, uint32_t index)
{
    return c && c->leaving == index && c->chunk != index;
}

static bool is_current_chunk_of(const kr_cursor *c, uint32_t index)
{
    return c && c->chunk == index;
}

/* A LIVE chunk in the thread's name that is not the current one of its cursors: the previous chunk,
 * not sealed yet, or a new one, not begun yet. */
static void release_stray_chunk(const kf_pool *pool, const kr_cursor *c, uint32_t index)
{
    uint64_t *chunk = kf_pool_chunk(pool, index);
    if (is_current_chunk_of(c, index) || is_current_chunk_of(c->second, index))
        return;
    if (is_previous_chunk_of(c, index) || is_previous_chunk_of(c->second, index))
        seal_chunk_at(pool, index, kf_committed_words(chunk, KF_CHUNK_WORDS), kr_ticks(c));
    else
        release_new_chunk(pool, index);
}

/* The thread may have been ended while it changed chunks: then two are LIVE. */
static void release_stray_chunks(const kr_cursor *c)
{
    const kf_pool *pool = kr_pool_get();
    uint64_t owner = owner_of_cursor(c);
    uint32_t count = pool ? kb_max_u32(kb_load_relaxed(&pool->control->chunk_high),
                                   kb_load_relaxed(&pool->control->chunk_limit))
                          : 0;
    for (uint32_t i = 0; i < count && i < pool->chunk_count; i++) {
        uint64_t claim = kb_load_acquire(&pool->descriptors[i].claim);
        if (kf_claim_owner(claim) == owner && kf_claim_state(claim) == KF_CHUNK_LIVE)
            release_stray_chunk(pool, c, i);
    }
}

static void on_thread_exit(void *value)
{
    kr_slot *slot = value;
    if (kr_me == &slot->first && !slot->first.busy && !slot->first.in_plugin) {
        kr_host_thread_exit();
        kr_callbacks_thread_exit(&slot->first);
        kr_extras_thread_exit(&slot->first);
    }
    kr_me =
        &kr_attaching; /* signal handlers that interrupt this drop what they record and count it */
    if (slot->first.pid) { /* not zeroed by a fork meanwhile */
        if (slot->first.busy || slot->second.busy)
            release_stray_chunks(&slot->first);
        discard_unfinished_record(&slot->first);
        discard_unfinished_record(&slot->second);
        kr_thread_name_at_exit(&slot->first);
        retire_cursor(&slot->first);
        retire_cursor(&slot->second);
        kb_store_relaxed(&slot->first.in_plugin, 0); /* the thread may have been cancelled there */
        kb_store_relaxed(&slot->second.in_plugin, 0);
        kb_store_relaxed(&slot->first.pid, 0u);
        kb_store_release(&slot->first.in_use, 0);
    }
    kr_me = &kr_unattached;
}

/* Where the kernel cannot wipe pages on fork, libc's fork calls this in the child. */
static void forget_cursors_in_child(void)
{
    kr_slabs = NULL;
    kr_me = &kr_unattached;
    kr_process_forget();
    kr_steps_forget();
}

/* Calling glibc's pthread_atfork links a part of glibc into the library that needs symbols which
 * musl does not have; this library is loaded into programs of either libc. */
static void register_fork_handler(void (*handler)(void))
{
#ifdef __GLIBC__
    int (*of_musl)(void (*)(void), void (*)(void), void (*)(void));
    if (__register_atfork) {
        (void)__register_atfork(NULL, NULL, handler, __dso_handle);
        return;
    }
    *(void **)&of_musl = dlsym(RTLD_DEFAULT, "pthread_atfork");
    if (of_musl)
        (void)of_musl(NULL, NULL, handler);
#else
    (void)pthread_atfork(NULL, NULL, handler);
#endif
}

kineto_status kr_threads_init(void)
{
    if (pthread_key_create(&kr_key, on_thread_exit) == 0) {
        kb_store_relaxed(&kr_key_usable, (uint32_t)(kr_key < KR_INLINE_KEYS));
        if (!kb_load_relaxed(&kr_key_usable))
            (void)pthread_key_delete(kr_key);
    }
    if (!kb_os_wipe_supported())
        register_fork_handler(forget_cursors_in_child);
    return KINETO_OK;
}

/* The code may be unmapped after this (a static copy in a library that is closed). */
__attribute__((destructor)) static void on_library_unload(void)
{
    if (kb_load_relaxed(&kr_key_usable)) {
        kb_store_relaxed(&kr_key_usable, 0u);
        (void)pthread_key_delete(kr_key);
    }
    kineto_rt_thread_names(); /* names of the threads that exit() ends */
    kr_host_exit();
}

/* ---- identity -------------------------------------------------------------------------------- */

uint64_t kr_identity(void)
{
    const kr_cursor *c = kr_me;
    return KR_IN_USE(c) && c->tid ? owner_of_cursor(c) : kb_os_self();
}
