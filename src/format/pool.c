/* The pool: its layout, windows, clock snapshots and dictionary. Chunks are in chunks.c and evict.c.
 * Part of libckineto-rt, so libc only and no heap. Everything that writers call is lock-free: a
 * process may be killed between any two instructions here and the others go on. */
#include "format/pool.h"

#include <errno.h>
#include <sched.h>
#include <signal.h>

#define POOL_ALIGN 4096u

_Static_assert(sizeof(kf_descriptor) == 64, "layout");
_Static_assert(KF_REASON_COUNT <= KF_REASON_SLOTS, "counters have a fixed number of slots");

/* ---- layout ---------------------------------------------------------------------------------- */

typedef struct layout {
    size_t chunk_count, dictionary_bytes, map_bytes;
    size_t descriptors, maps, dictionary, chunks, end;
} layout;

static layout compute_layout(size_t chunk_count, size_t dictionary_bytes)
{
    layout l = {.chunk_count = chunk_count, .dictionary_bytes = dictionary_bytes};
    l.map_bytes = kb_align((chunk_count + KF_MAP_BITS - 1) / KF_MAP_BITS * 8, 64);
    l.descriptors = kb_align(sizeof(kf_control), 64);
    l.maps = kb_align(l.descriptors + chunk_count * sizeof(kf_descriptor), 64);
    l.dictionary = kb_align(l.maps + 2 * l.map_bytes, 64);
    l.chunks = kb_align(l.dictionary + dictionary_bytes, POOL_ALIGN);
    l.end = l.chunks + chunk_count * KF_CHUNK_BYTES;
    return l;
}

/* The layout for a new pool: at least one chunk, a dictionary of at least 64 bytes. */
static layout choose_layout(size_t buffer_bytes, size_t dictionary_bytes)
{
    size_t count = KB_MAX(buffer_bytes / KF_CHUNK_BYTES, 1u);
    size_t dictionary = KB_MIN(KB_MAX(dictionary_bytes, 64u), (size_t)UINT32_MAX - 7u);
    return compute_layout(KB_MIN(count, KF_MAX_CHUNKS), dictionary / 8 * 8);
}

size_t kf_pool_size(size_t buffer_bytes, size_t dictionary_bytes)
{
    return choose_layout(buffer_bytes, dictionary_bytes).end;
}

static void fill_free_map(uint64_t *map, size_t chunk_count)
{
    for (size_t i = 0; i < chunk_count; i += KF_MAP_BITS) {
        size_t rest = chunk_count - i;
        map[i / KF_MAP_BITS] = rest >= KF_MAP_BITS ? UINT64_MAX : (UINT64_C(1) << rest) - 1;
    }
}

static void store_layout(kf_control *c, const layout *l)
{
    c->pool_bytes = l->end;
    c->descriptors_offset = l->descriptors;
    c->maps_offset = l->maps;
    c->dictionary_offset = l->dictionary;
    c->chunks_offset = l->chunks;
    c->chunk_count = (uint32_t)l->chunk_count;
    c->chunk_limit = (uint32_t)l->chunk_count;
}

void kf_pool_shorten(kf_control *copy, uint32_t chunk_count)
{
    layout l = compute_layout(KB_MAX(KB_MIN(chunk_count, copy->chunk_count), 1u),
                              copy->dictionary_bytes / 8 * 8);
    store_layout(copy, &l);
    copy->chunk_high = copy->chunk_limit;
}

void kf_pool_format(void *map, size_t buffer_bytes, size_t dictionary_bytes)
{
    layout l = choose_layout(buffer_bytes, dictionary_bytes);
    kf_control *c = map;
    c->version = KF_VERSION;
    c->header_bytes = (uint32_t)sizeof(kf_control);
    store_layout(c, &l);
    c->chunk_bytes = KF_CHUNK_BYTES;
    c->dictionary_bytes = (uint32_t)l.dictionary_bytes;
    c->dictionary_used = 1; /* id 0 means "none", so word 0 stays unused */
    c->source_count = 1;    /* the program itself */
    c->ticks_clock = kb_ticks_clock();
    kb_os_boot_id((char *)c->boot_id, sizeof c->boot_id);
    fill_free_map((uint64_t *)(void *)((char *)map + l.maps), l.chunk_count);
    kb_store_release(&c->magic, KF_MAGIC);
}

static kineto_status check_pool_header(const kf_control *c, size_t bytes, kineto_error *err)
{
    uint64_t magic = kb_load_acquire(&c->magic);
    if (magic == __builtin_bswap64(KF_MAGIC))
        return kb_fail(err, KINETO_E_FORMAT, "the pool was made on a machine of other endianness");
    if (magic != KF_MAGIC)
        return kb_fail(err, KINETO_E_FORMAT, "not a recording pool: no magic number at its start");
    if (c->version != KF_VERSION || c->header_bytes != sizeof(kf_control))
        return kb_fail(err, KINETO_E_FORMAT,
                       "the pool has layout version %u with a header of %u bytes, this library "
                       "reads version %u with %zu: use the same ckineto version on both sides",
                       c->version, c->header_bytes, KF_VERSION, sizeof(kf_control));
    if (c->chunk_bytes != KF_CHUNK_BYTES || c->dictionary_bytes < 64 || c->dictionary_bytes % 8)
        return kb_fail(err, KINETO_E_FORMAT, "the pool's header has impossible sizes");
    if (c->pool_bytes > bytes)
        return kb_fail(err, KINETO_E_FORMAT, "the pool is cut short: %zu bytes of %llu", bytes,
                       (unsigned long long)c->pool_bytes);
    return KINETO_OK;
}

kineto_status kf_pool_open(void *map, size_t bytes, kf_pool *pool, kineto_error *err)
{
    kf_control *c = map;
    if (!map || !pool || (uintptr_t)map % 64)
        return kb_fail(err, KINETO_E_ARGUMENT, "a pool must be mapped at a multiple of 64 bytes");
    if (bytes < sizeof(kf_control))
        return kb_fail(err, KINETO_E_FORMAT, "too small for a recording pool: %zu bytes", bytes);
    kineto_status status = check_pool_header(c, bytes, err);
    if (status)
        return status;
    /* Read each bound once: a hostile peer may change them at any time. */
    uint32_t chunk_count = kb_load_relaxed(&c->chunk_count);
    uint32_t dictionary_bytes = kb_load_relaxed(&c->dictionary_bytes) / 8 * 8;
    layout l = compute_layout(chunk_count, dictionary_bytes);
    if (chunk_count == 0 || chunk_count > KF_MAX_CHUNKS || l.end > bytes ||
        c->descriptors_offset != l.descriptors || c->maps_offset != l.maps ||
        c->dictionary_offset != l.dictionary || c->chunks_offset != l.chunks)
        return kb_fail(err, KINETO_E_FORMAT, "the pool's header has impossible offsets");
    char *base = map;
    *pool = (kf_pool){
        .control = c,
        .descriptors = (kf_descriptor *)(void *)(base + l.descriptors),
        .free_map = (uint64_t *)(void *)(base + l.maps),
        .partial_map = (uint64_t *)(void *)(base + l.maps + l.map_bytes),
        .dictionary = (uint64_t *)(void *)(base + l.dictionary),
        .chunks = (uint64_t *)(void *)(base + l.chunks),
        .bytes = l.end,
        .chunk_count = chunk_count,
        .dictionary_words = dictionary_bytes / 8,
    };
    return KINETO_OK;
}

/* ---- windows --------------------------------------------------------------------------------- */

/* Editors of windows and snapshots exclude each other; the lock of a dead process is taken over.
 * False: the holder does not release it, for example because it is stopped; the caller goes on
 * without it. */
static bool lock_windows(kf_control *control)
{
    uint32_t self = kb_os_pid();
    for (int tries = 0; tries < 1000; tries++) {
        uint32_t holder = 0;
        if (kb_cas_acqrel(&control->window_lock, &holder, self))
            return true;
        bool dead = tries % 100 == 99 && holder != self && kb_os_start_time(holder) == 0;
        if (dead && kb_cas_acqrel(&control->window_lock, &holder, self))
            return true;
        sched_yield();
    }
    return false;
}

static void unlock_windows(kf_control *control) { kb_store_release(&control->window_lock, 0u); }

/* OR of what the open windows record now, without throttled kinds. */
static uint64_t union_open_kinds(kf_control *control)
{
    uint64_t kinds = 0;
    for (uint32_t i = 0; i < KF_MAX_WINDOWS; i++)
        if (kb_load_acquire(&control->windows[i].state) == KF_WINDOW_OPEN)
            kinds |= kb_load_relaxed(&control->windows[i].kinds);
    return kinds & ~kb_load_relaxed(&control->throttled.kinds);
}

uint64_t kf_held_kinds(kf_control *control)
{
    uint64_t kinds = 0;
    for (uint32_t i = 0; i < KF_MAX_WINDOWS; i++)
        if (kb_load_acquire(&control->windows[i].state) == KF_WINDOW_OPEN)
            kinds |= kb_load_relaxed(&control->windows[i].held);
    return kinds;
}

static uint64_t union_open_wants(kf_control *control)
{
    uint64_t wants = 0;
    for (uint32_t i = 0; i < KF_MAX_WINDOWS; i++)
        if (kb_load_acquire(&control->windows[i].state) == KF_WINDOW_OPEN &&
            kb_load_relaxed(&control->windows[i].kinds))
            wants |= kb_load_relaxed(&control->windows[i].wants);
    return wants & ~kb_load_relaxed(&control->throttled.wants);
}

/* With the lock no process stores an older union over a newer one. Without it that may happen for a
 * moment only: the exchange makes the last process to store see what the others stored before,
 * hence also their windows, and its loop repeats; so when all loops have ended the gate is
 * right. */
void kf_gate_update(kf_control *control)
{
    bool locked = lock_windows(control);
    uint64_t kinds, wants;
    do {
        kinds = union_open_kinds(control);
        wants = union_open_wants(control);
        kb_exchange_acqrel(&control->wants, wants); /* first: the gate lets operators in */
        kb_exchange_acqrel(&control->gate, kinds);
    } while (kinds != union_open_kinds(control) || wants != union_open_wants(control));
    if (locked)
        unlock_windows(control);
    kf_windows_changed(control);
}

void kf_throttle_set(kf_control *control, const kf_throttle *throttled)
{
    static const kf_throttle nothing;
    const kf_throttle *s = throttled ? throttled : &nothing;
    kb_store_relaxed(&control->throttled.kinds, s->kinds);
    kb_store_relaxed(&control->throttled.wants, s->wants);
    kb_store_relaxed(&control->throttled.mute, s->mute);
    kb_store_relaxed(&control->throttled.epoch, s->epoch);
    kb_store_relaxed(&control->throttled.short_ticks, s->short_ticks);
    kf_gate_update(control);
}

/* CLAIMED or OPEN → FREE, by the owner, or by the sweeper that took away a dead owner's pid. */
static void release_window(kf_window *w)
{
    KB_ASSERT(kb_load_relaxed(&w->state) != KF_WINDOW_FREE);
    kb_store_relaxed(&w->kinds, 0);
    kb_store_relaxed(&w->held, 0);
    kb_store_relaxed(&w->owner_pid, 0);
    kb_store_relaxed(&w->keep_newest, 0);
    kb_store_relaxed(&w->step_state, KF_STEPS_NONE);
    kb_store_release(&w->state, KF_WINDOW_FREE);
}

bool kf_owner_is_dead(uint32_t pid, uint64_t start_time)
{
    if (pid == 0 || pid == kb_os_pid() || kb_os_alive(pid, start_time))
        return false;
    return kb_os_start_time(pid) != 0 || (kill((pid_t)pid, 0) != 0 && errno == ESRCH);
}

/* The compare-and-swap of the dead owner's pid decides between sweepers, and fails for a slot that
 * was claimed by another process meanwhile. */
static bool sweep_window(kf_window *w)
{
    if (kb_load_acquire(&w->state) == KF_WINDOW_FREE)
        return false;
    uint32_t pid = kb_load_acquire(&w->owner_pid);
    uint64_t start_time = kb_load_relaxed(&w->owner_start_time);
    if (!kf_owner_is_dead(pid, start_time) || !kb_cas_acqrel(&w->owner_pid, &pid, 0))
        return false;
    release_window(w);
    return true;
}

static bool sweep_all_windows(kf_control *control)
{
    bool found = false;
    for (uint32_t i = 0; i < KF_MAX_WINDOWS; i++)
        found |= sweep_window(&control->windows[i]);
    return found;
}

void kf_windows_sweep(kf_control *control)
{
    if (sweep_all_windows(control))
        kf_gate_update(control);
}

uint32_t kf_window_open(kf_control *control, uint64_t kinds, uint64_t start_ticks)
{
    (void)sweep_all_windows(control);
    for (uint32_t i = 0; i < KF_MAX_WINDOWS; i++) {
        kf_window *w = &control->windows[i];
        uint32_t expected = KF_WINDOW_FREE;
        if (!kb_cas_acqrel(&w->state, &expected, KF_WINDOW_CLAIMED))
            continue;
        KB_ASSERT(kb_load_relaxed(&w->kinds) == 0);
        kb_store_relaxed(&w->owner_start_time, kb_os_start_time(kb_os_pid()));
        kb_store_release(&w->owner_pid, kb_os_pid());
        kb_store_relaxed(&w->kinds, kinds);
        kb_store_relaxed(&w->held, kinds);
        kb_store_relaxed(&w->wants, KF_WANT_USUAL);
        w->start_ticks = start_ticks;
        w->end_ticks = 0;
        kb_store_release(&w->state, KF_WINDOW_OPEN);
        kf_gate_update(control);
        return i;
    }
    kf_gate_update(control);
    return UINT32_MAX;
}

void kf_window_set_kinds(kf_control *control, uint32_t slot, uint64_t kinds)
{
    if (slot >= KF_MAX_WINDOWS)
        return;
    kb_store_relaxed(&control->windows[slot].held, kinds);
    kb_store_relaxed(&control->windows[slot].kinds, kinds);
    kf_gate_update(control);
}

void kf_window_want(kf_control *control, uint32_t slot, uint32_t wants)
{
    if (slot >= KF_MAX_WINDOWS)
        return;
    kb_store_relaxed(&control->windows[slot].wants, wants);
    kf_gate_update(control);
}

void kf_window_pause(kf_control *control, uint32_t slot, bool paused)
{
    if (slot >= KF_MAX_WINDOWS)
        return;
    kf_window *w = &control->windows[slot];
    kb_store_relaxed(&w->kinds, paused ? 0 : kb_load_relaxed(&w->held));
    kf_gate_update(control);
}

void kf_window_close(kf_control *control, uint32_t slot, uint64_t end_ticks)
{
    if (slot >= KF_MAX_WINDOWS)
        return;
    kf_window *w = &control->windows[slot];
    uint32_t open = KF_WINDOW_OPEN;
    if (kb_cas_acqrel(&w->state, &open, KF_WINDOW_CLAIMED)) {
        w->end_ticks = end_ticks;
        release_window(w);
    }
    kf_gate_update(control);
}

/* ---- clock snapshots --------------------------------------------------------------------------
 */

/* Drop every second one between the first and the last, which bound the clock fit. @return how many
 * are left. */
static uint32_t thin_snapshots(kb_clock_snapshot *s, uint32_t count)
{
    KB_ASSERT(count >= 2);
    uint32_t kept = 1;
    for (uint32_t i = 2; i + 1 < count; i += 2)
        s[kept++] = s[i];
    s[kept++] = s[count - 1];
    return kept;
}

void kf_snapshot_add(kf_control *control, const kb_clock_snapshot *snapshot)
{
    if (!lock_windows(control))
        return;
    uint32_t count = kb_min_u32(kb_load_relaxed(&control->snapshot_count), KF_MAX_SNAPSHOTS);
    if (count == KF_MAX_SNAPSHOTS)
        count = thin_snapshots(control->snapshots, count);
    KB_ASSERT(count < KF_MAX_SNAPSHOTS);
    control->snapshots[count] = *snapshot;
    kb_store_release(&control->snapshot_count, count + 1);
    unlock_windows(control);
}

/* ---- dictionary ------------------------------------------------------------------------------ */

static void raise_dictionary_used(kf_control *control, uint32_t to)
{
    uint32_t used = kb_load_relaxed(&control->dictionary_used);
    while (used < to && !kb_cas_acqrel(&control->dictionary_used, &used, to))
        ;
}

/* Reserve `words` at the end: the compare-and-swap of a header that has only the length. So readers
 * and later writers can step over an entry whose writer died. dictionary_used is the end of some
 * entry, perhaps not of the last one: the search goes on from there. @return the offset; 0: no
 * room. */
static uint32_t reserve_dictionary_entry(const kf_pool *pool, uint32_t words)
{
    KB_ASSERT(words > 0);
    uint32_t at = kb_max_u32(kb_load_acquire(&pool->control->dictionary_used), 1u);
    uint64_t reserved = kf_entry_header(KF_ENTRY_NONE, words, 0);
    while (at < pool->dictionary_words && words <= pool->dictionary_words - at) {
        uint64_t header = 0;
        if (kb_cas_acqrel(&pool->dictionary[at], &header, reserved)) {
            raise_dictionary_used(pool->control, at + words);
            return at;
        }
        if (kf_entry_header_words(header) == 0)
            return 0; /* damaged: an entry without length */
        at += kf_entry_header_words(header);
    }
    return 0;
}

uint32_t kf_dictionary_add(const kf_pool *pool, kf_entry_type type, const kf_part *parts,
                           uint32_t part_count)
{
    uint64_t bytes = 0;
    KB_ASSERT(type > KF_ENTRY_NONE && type < KF_ENTRY_TYPE_COUNT);
    for (uint32_t i = 0; i < part_count; i++)
        bytes += parts[i].bytes;
    if (bytes >= (uint64_t)0xfffffe * 8)
        return 0;
    uint32_t words = (uint32_t)(1 + (bytes + 7) / 8);
    uint32_t id = reserve_dictionary_entry(pool, words);
    if (id == 0)
        return 0;
    KB_ASSERT(id + (uint64_t)words <= pool->dictionary_words);
    char *out = (char *)(pool->dictionary + id + 1);
    for (uint32_t i = 0; i < part_count; i++) {
        if (parts[i].bytes)
            memcpy(out, parts[i].data, parts[i].bytes);
        out += parts[i].bytes;
    }
    kb_store_release(&pool->dictionary[id], kf_entry_header(type, words, (uint32_t)bytes));
    return id;
}

/* ---- ledger reasons ---------------------------------------------------------------------------
 */

static const struct {
    const char *text;
    bool is_drop;
} reasons[KF_REASON_COUNT] = {
#define X(name, reason, is_loss) {reason, is_loss},
#include "format/loss_reasons.def"
#undef X
};

const char *kf_reason_text(uint32_t reason)
{
    return reason < KF_REASON_COUNT ? reasons[reason].text : "unknown";
}

bool kf_reason_is_drop(uint32_t reason)
{
    return reason < KF_REASON_COUNT && reasons[reason].is_drop;
}

uint32_t kf_source_add(const kf_pool *pool, uint32_t process, kineto_string name)
{
    uint32_t source = kb_add_relaxed(&pool->control->source_count, 1u);
    if (source >= KF_MAX_SOURCES)
        return KF_SOURCE_API;
    kf_source_entry entry = {process, source};
    uint32_t size = (uint32_t)name.size;
    kf_part parts[] = {{&entry, sizeof entry}, {&size, sizeof size}, {name.data, name.size}};
    (void)kf_dictionary_add(pool, KF_ENTRY_SOURCE, parts, KB_COUNT(parts));
    return source;
}
