/* The pool: its layout, chunks, windows, clock snapshots and dictionary. Part of libckineto-rt, so
 * libc only and no heap. Everything that writers call is lock-free: a process may be killed between
 * any two instructions here and the others go on. */
#include "format/format.h"

#include <errno.h>
#include <sched.h>
#include <signal.h>

#define POOL_ALIGN 4096u
#define MAP_BITS   64u
/* A chunk that is left with less room than this is not worth going on in. */
#define PARTIAL_ROOM_WORDS (KF_CHUNK_WORDS / 4u)

_Static_assert(sizeof(kf_descriptor) == 32, "layout");
_Static_assert(KF_REASON_COUNT <= KF_REASON_SLOTS, "counters have a fixed number of slots");

/* ---- layout ---------------------------------------------------------------------------------- */

typedef struct layout {
    size_t chunk_count, dictionary_bytes, map_bytes;
    size_t descriptors, maps, dictionary, chunks, end;
} layout;

static layout layout_of(size_t chunk_count, size_t dictionary_bytes)
{
    layout l = {.chunk_count = chunk_count, .dictionary_bytes = dictionary_bytes};
    l.map_bytes = kb_align((chunk_count + MAP_BITS - 1) / MAP_BITS * 8, 64);
    l.descriptors = kb_align(sizeof(kf_control), 64);
    l.maps = kb_align(l.descriptors + chunk_count * sizeof(kf_descriptor), 64);
    l.dictionary = kb_align(l.maps + 2 * l.map_bytes, 64);
    l.chunks = kb_align(l.dictionary + dictionary_bytes, POOL_ALIGN);
    l.end = l.chunks + chunk_count * KF_CHUNK_BYTES;
    return l;
}

static layout layout_for(size_t buffer_bytes, size_t dictionary_bytes)
{
    size_t count = KB_MAX(buffer_bytes / KF_CHUNK_BYTES, 1u);
    size_t dictionary = KB_MIN(KB_MAX(dictionary_bytes, 64u), (size_t)UINT32_MAX - 7u);
    return layout_of(KB_MIN(count, KF_MAX_CHUNKS), dictionary / 8 * 8);
}

size_t kf_pool_size(size_t buffer_bytes, size_t dictionary_bytes)
{
    return layout_for(buffer_bytes, dictionary_bytes).end;
}

static void fill_free_map(uint64_t *map, size_t chunk_count)
{
    for (size_t i = 0; i < chunk_count; i += MAP_BITS) {
        size_t rest = chunk_count - i;
        map[i / MAP_BITS] = rest >= MAP_BITS ? UINT64_MAX : (UINT64_C(1) << rest) - 1;
    }
}

void kf_pool_format(void *map, size_t buffer_bytes, size_t dictionary_bytes)
{
    layout l = layout_for(buffer_bytes, dictionary_bytes);
    kf_control *c = map;
    c->version = KF_VERSION;
    c->header_bytes = (uint32_t)sizeof(kf_control);
    c->pool_bytes = l.end;
    c->descriptors_offset = l.descriptors;
    c->maps_offset = l.maps;
    c->dictionary_offset = l.dictionary;
    c->chunks_offset = l.chunks;
    c->chunk_bytes = KF_CHUNK_BYTES;
    c->chunk_count = (uint32_t)l.chunk_count;
    c->chunk_limit = (uint32_t)l.chunk_count;
    c->dictionary_bytes = (uint32_t)l.dictionary_bytes;
    c->dictionary_used = 1; /* id 0 means "none", so word 0 stays unused */
    c->source_count = 1;    /* the program itself */
    c->ticks_clock = kb_ticks_clock();
    kb_os_boot_id((char *)c->boot_id, sizeof c->boot_id);
    fill_free_map((uint64_t *)(void *)((char *)map + l.maps), l.chunk_count);
    kb_store_release(&c->magic, KF_MAGIC);
}

static kineto_status check_header(const kf_control *c, size_t bytes, kineto_error *err)
{
    uint64_t magic = kb_load_acquire(&c->magic);
    if (magic == __builtin_bswap64(KF_MAGIC))
        return kb_fail(err, KINETO_E_FORMAT, "the pool was made by a machine of other endianness");
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
    kineto_status status = check_header(c, bytes, err);
    if (status)
        return status;
    /* Read each bound once: a hostile peer may change them at any time. */
    uint32_t chunk_count = kb_load_relaxed(&c->chunk_count);
    uint32_t dictionary_bytes = kb_load_relaxed(&c->dictionary_bytes) / 8 * 8;
    layout l = layout_of(chunk_count, dictionary_bytes);
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

/* ---- chunks ---------------------------------------------------------------------------------- */

static void map_set(uint64_t *map, uint32_t index)
{
    kb_or_release(&map[index / MAP_BITS], UINT64_C(1) << index % MAP_BITS);
}

static void map_clear(uint64_t *map, uint32_t index)
{
    kb_and_acqrel(&map[index / MAP_BITS], ~(UINT64_C(1) << index % MAP_BITS));
}

static uint32_t limit_of(const kf_pool *pool)
{
    return KB_MIN(kb_load_relaxed(&pool->control->chunk_limit), pool->chunk_count);
}

/* The chunk gets other contents from here on: who copies it sees that and throws the copy away. */
static void begin_contents(kf_descriptor *d)
{
    kb_store_relaxed(&d->serial, d->serial + 1);
    kb_fence_seqcst();
}

static void clear_words(const kf_pool *pool, uint32_t index, uint32_t words)
{
    memset(kf_pool_chunk(pool, index), 0, KB_MIN(words, KF_CHUNK_WORDS) * sizeof(uint64_t));
}

/* Make a chunk whose owner word was just won ready for writing; false if it is of no use. */
static bool take(const kf_pool *pool, uint32_t index, uint32_t *words)
{
    kf_descriptor *d = &pool->descriptors[index];
    uint32_t state = kb_load_acquire(&d->state);
    uint32_t used = kb_load_relaxed(&d->used);
    if (state == KF_CHUNK_FREE) {
        begin_contents(d);
        *words = 0;
    } else if (state == KF_CHUNK_PARTIAL && used <= KF_CHUNK_WORDS - PARTIAL_ROOM_WORDS) {
        *words = used;
    } else {
        kb_store_release(&d->state, KF_CHUNK_SEALED);
        return false;
    }
    kb_store_release(&d->state, KF_CHUNK_LIVE);
    return true;
}

/* Try one candidate. Bits of the maps are hints, winning the owner word decides. The bit goes away
 * only after that, so that a claimer that dies here loses no chunk. */
static bool claim_one(const kf_pool *pool, uint64_t *map, uint32_t index, uint64_t owner,
                      uint32_t *words)
{
    kf_descriptor *d = &pool->descriptors[index];
    uint64_t nobody = 0;
    bool won = kb_cas_acqrel(&d->owner, &nobody, owner);
    map_clear(map, index);
    if (won)
        return take(pool, index, words);
    /* Clearing and setting are ordered: whose bit was cleared here, its release is seen here. */
    if (kb_load_acquire(&d->owner) == 0) /* released meanwhile: its bit was the one just cleared */
        map_set(map, index);
    return false;
}

static uint32_t claim_from_map(const kf_pool *pool, uint64_t *map, uint64_t owner, uint32_t *words)
{
    uint32_t limit = limit_of(pool);
    for (uint32_t base = 0; base < limit; base += MAP_BITS) {
        uint64_t bits = kb_load_acquire(&map[base / MAP_BITS]);
        for (; bits; bits &= bits - 1) {
            uint32_t index = base + (uint32_t)__builtin_ctzll(bits);
            if (index < limit && claim_one(pool, map, index, owner, words))
                return index;
        }
    }
    return UINT32_MAX;
}

static bool is_event(uint32_t type)
{
    const uint32_t events =
        1u << KF_INSTANT | 1u << KF_ASYNC_BEGIN | 1u << KF_COUNTER | 1u << KF_MEMORY;
    return type < KF_TYPE_COUNT && (events >> type & 1);
}

/* Ranges that are open at one place of a chunk: a bit per depth. */
typedef struct open_set {
    uint64_t bits[KF_MAX_DEPTH / 64];
} open_set;

/* Close what is open from `depth` inwards. Returns how many that were. */
static uint32_t open_set_close(open_set *open, uint32_t depth)
{
    uint32_t closed = 0;
    for (uint32_t i = depth / 64; i < KB_COUNT(open->bits); i++) {
        uint64_t mask = i == depth / 64 ? ~UINT64_C(0) << depth % 64 : ~UINT64_C(0);
        closed += (uint32_t)__builtin_popcountll(open->bits[i] & mask);
        open->bits[i] &= ~mask;
    }
    return closed;
}

/* Ticks of a record, in the bits that an END has. */
static uint64_t end_ticks_of(const uint64_t *record)
{
    bool is_end = kf_header_type(record[0]) == KF_END;
    return (is_end ? record[0] >> 16 : record[1]) & KF_END_TICK_MASK;
}

/* Events that go with a record of `words` (at least 2 but for an END). A range goes where it ends:
 * until then it lives on as a copy in the next chunk. What was over before `from` is wanted by
 * nobody. */
static uint32_t events_of(open_set *open, const uint64_t *record, uint64_t from)
{
    uint32_t type = kf_header_type(record[0]), depth = kf_header_aux(record[0]) & 0xff, events;
    switch (type) {
    case KF_KEYFRAME:
        *open = (open_set){{0}};
        return 0;
    case KF_DEVICE: /* its times are of another clock */
        return 1;
    case KF_BEGIN:
    case KF_REOPEN:
        events = open_set_close(open, depth);
        open->bits[depth / 64] |= UINT64_C(1) << depth % 64;
        break;
    case KF_END:
        events = open_set_close(open, (uint32_t)(record[0] >> 6 & 1023));
        break;
    case KF_THREAD_EXIT:
        events = open_set_close(open, 0);
        break;
    default:
        events = is_event(type);
    }
    bool before = ((end_ticks_of(record) - from) & KF_END_TICK_MASK) > KF_END_TICK_MASK / 2;
    return before ? 0 : events;
}

/* Nothing is lost silently: what is about to be overwritten goes into the ledger. */
static void count_evicted(const kf_pool *pool, uint32_t index, uint32_t used)
{
    const uint64_t *chunk = kf_pool_chunk(pool, index);
    uint64_t evicted[KF_MAX_SOURCES] = {0}, from = kb_load_relaxed(&pool->control->window_ticks);
    open_set open = {{0}};
    uint32_t end = KB_MIN(used, KF_CHUNK_WORDS);
    for (uint32_t at = 0; at < end;) {
        uint32_t type = kf_header_type(chunk[at]), words = kf_header_words(chunk[at]);
        if (type == KF_NONE || words == 0 || words > end - at || (words < 2 && type != KF_END))
            break;
        bool device = type == KF_DEVICE && words > 5;
        uint32_t source = device ? (uint32_t)(chunk[at + 5] >> 48 & 0xff) : KF_SOURCE_API;
        evicted[source < KF_MAX_SOURCES ? source : KF_SOURCE_API] +=
            events_of(&open, chunk + at, from);
        at += words;
    }
    for (uint32_t s = 0; s < KF_MAX_SOURCES; s++)
        if (evicted[s])
            kb_add_relaxed(&pool->control->counters[s][KF_REASON_EVICTED], evicted[s]);
}

/* What a chunk held is gone: who reads the rest knows from when on it is complete. */
static void forget(const kf_pool *pool, uint64_t last_ticks)
{
    uint64_t *forgotten = &pool->control->forgotten_ticks, known = kb_load_relaxed(forgotten);
    while (known < last_ticks && !kb_cas_acqrel(forgotten, &known, last_ticks))
        ;
}

static uint64_t protected_from(const kf_pool *pool)
{
    return kb_load_relaxed(&pool->control->ring_protect_ticks);
}

/* May this chunk be overwritten? */
static bool is_spent(const kf_descriptor *d, uint64_t protect)
{
    return kb_load_acquire(&d->state) == KF_CHUNK_SEALED &&
           (!protect || kb_load_relaxed(&d->last_ticks) < protect);
}

typedef struct aged {
    uint64_t ticks;
    uint32_t index;
} aged;

/* Only what is still as it was when it was looked at. */
static bool steal(const kf_pool *pool, aged which, uint64_t owner)
{
    kf_descriptor *d = &pool->descriptors[which.index];
    uint32_t sealed = KF_CHUNK_SEALED;
    if (!is_spent(d, protected_from(pool)) || !kb_cas_acqrel(&d->state, &sealed, KF_CHUNK_LIVE))
        return false;
    if (kb_load_relaxed(&d->last_ticks) != which.ticks) {
        kb_store_release(&d->state, KF_CHUNK_SEALED);
        return false;
    }
    kb_exchange_acqrel(&d->owner, owner);
    uint32_t used = kb_load_relaxed(&d->used);
    count_evicted(pool, which.index, used);
    forget(pool, which.ticks);
    begin_contents(d);
    clear_words(pool, which.index, used);
    return true;
}

/* Threads that record on when the limit has sunk keep what they have. */
static uint32_t highest_of(const kf_pool *pool)
{
    uint32_t high = kb_load_relaxed(&pool->control->chunk_high);
    return KB_MIN(KB_MAX(high, limit_of(pool)), pool->chunk_count);
}

/* Insert into a list of the KF_RING_BATCH oldest, sorted by age. */
static uint32_t insert_by_age(aged *list, uint32_t count, aged item)
{
    uint32_t at = count < KF_RING_BATCH ? count++ : KF_RING_BATCH - 1;
    for (; at > 0 && list[at - 1].ticks > item.ticks; at--)
        list[at] = list[at - 1];
    list[at] = item;
    return count;
}

/* Look at all chunks, all by the same rule; returns how many may be overwritten, at most
 * KF_RING_BATCH. */
static uint32_t find_oldest(const kf_pool *pool, aged *oldest)
{
    uint32_t count = 0, limit = highest_of(pool);
    uint64_t protect = protected_from(pool);
    for (uint32_t i = 0; i < limit; i++) {
        const kf_descriptor *d = &pool->descriptors[i];
        aged item = {kb_load_relaxed(&d->last_ticks), i};
        bool older = count < KF_RING_BATCH || item.ticks < oldest[KF_RING_BATCH - 1].ticks;
        if (older && is_spent(d, protect))
            count = insert_by_age(oldest, count, item);
    }
    return count;
}

/* ring_hand: the next turn in the low bits, the number of the list above; or RING_BUSY while
 * somebody looks for the oldest. */
#define RING_BUSY UINT32_MAX
#define TURN_BITS 8u
#define LIST_MASK 0x7fffffu
static uint32_t turn_of(uint32_t hand) { return hand & ((1u << TURN_BITS) - 1); }

/* For the next turns of all writers. `hand` is what it was before RING_BUSY. */
static void publish_oldest(kf_control *c, const aged *oldest, uint32_t count, uint32_t hand)
{
    for (uint32_t i = 0; i < KF_RING_BATCH; i++) {
        kb_store_release(&c->ring_oldest_ticks[i], i < count ? oldest[i].ticks : 0);
        kb_store_release(&c->ring_oldest[i], i < count ? oldest[i].index + UINT64_C(1) : 0);
    }
    uint32_t list = ((hand >> TURN_BITS) + 1) & LIST_MASK;
    kb_store_release(&c->ring_hand, list << TURN_BITS | (count ? 0 : KF_RING_BATCH));
}

/* The next of the oldest. Returns UINT32_MAX when the list is used up; *hand is where it stood. */
static uint32_t steal_next(const kf_pool *pool, uint64_t owner, uint32_t *hand)
{
    kf_control *c = pool->control;
    *hand = kb_load_acquire(&c->ring_hand);
    while (turn_of(*hand) < KF_RING_BATCH) {
        uint32_t turn = turn_of(*hand), list = *hand >> TURN_BITS;
        if (!kb_cas_acqrel(&c->ring_hand, hand, *hand + 1))
            continue;
        uint64_t index = kb_load_acquire(&c->ring_oldest[turn]) - 1;
        aged which = {kb_load_acquire(&c->ring_oldest_ticks[turn]), (uint32_t)index};
        *hand = kb_load_acquire(&c->ring_hand);
        bool same_list = *hand >> TURN_BITS == list; /* else it was another list's entry */
        if (same_list && index < highest_of(pool) && steal(pool, which, owner))
            return which.index;
    }
    return UINT32_MAX;
}

/* One writer at a time looks for all; the others, meanwhile or if that one died over it, look for
 * themselves. */
static uint32_t steal_oldest(const kf_pool *pool, uint64_t owner)
{
    aged oldest[KF_RING_BATCH];
    uint32_t hand, index = steal_next(pool, owner, &hand);
    if (index != UINT32_MAX)
        return index;
    bool for_all = hand != RING_BUSY && kb_cas_acqrel(&pool->control->ring_hand, &hand, RING_BUSY);
    uint32_t count = find_oldest(pool, oldest);
    for (uint32_t i = 0; i < count && index == UINT32_MAX; i++)
        if (steal(pool, oldest[i], owner))
            index = oldest[i].index;
    if (for_all)
        publish_oldest(pool->control, oldest, count, hand);
    return index;
}

uint32_t kf_chunk_claim(const kf_pool *pool, uint64_t owner, uint32_t *words)
{
    *words = 0;
    uint32_t index = claim_from_map(pool, pool->partial_map, owner, words);
    if (index == UINT32_MAX)
        index = claim_from_map(pool, pool->free_map, owner, words);
    if (index == UINT32_MAX && kb_load_relaxed(&pool->control->full_policy) == KF_FULL_RING)
        index = steal_oldest(pool, owner);
    return index;
}

/* A sealed chunk keeps its owner word, so that no claimer can win it by a stale bit. */
void kf_chunk_seal(const kf_pool *pool, uint32_t index, uint32_t words, uint64_t last_ticks)
{
    kf_descriptor *d = &pool->descriptors[index];
    kb_store_relaxed(&d->used, words);
    kb_store_relaxed(&d->last_ticks, last_ticks);
    kb_store_release(&d->state, KF_CHUNK_SEALED);
}

void kf_chunk_leave(const kf_pool *pool, uint32_t index, uint32_t words, uint64_t last_ticks)
{
    if (words > KF_CHUNK_WORDS - PARTIAL_ROOM_WORDS) {
        kf_chunk_seal(pool, index, words, last_ticks);
        return;
    }
    kf_descriptor *d = &pool->descriptors[index];
    kb_store_relaxed(&d->used, words);
    kb_store_relaxed(&d->last_ticks, last_ticks);
    kb_store_release(&d->state, KF_CHUNK_PARTIAL);
    kb_store_release(&d->owner, 0);
    map_set(pool->partial_map, index);
}

/* Win a chunk for freeing it, against other freers, claimers and thieves. */
static bool seize(kf_descriptor *d, uint32_t *state)
{
    uint64_t self = (uint64_t)kb_os_pid() << 32 | kb_os_tid();
    uint64_t owner = kb_load_acquire(&d->owner);
    *state = kb_load_acquire(&d->state);
    if (*state == KF_CHUNK_FREE && owner == 0)
        return false;
    if (*state != KF_CHUNK_SEALED)
        return kb_cas_acqrel(&d->owner, &owner, self);
    uint32_t expected = KF_CHUNK_SEALED;
    if (!kb_cas_acqrel(&d->state, &expected, KF_CHUNK_LIVE))
        return false;
    kb_exchange_acqrel(&d->owner, self);
    return true;
}

void kf_chunk_free(const kf_pool *pool, uint32_t index)
{
    kf_descriptor *d = &pool->descriptors[index];
    uint32_t state;
    if (!seize(d, &state))
        return;
    /* The one who wrote a LIVE chunk died without saying how far it came. */
    bool known = state == KF_CHUNK_SEALED || state == KF_CHUNK_PARTIAL;
    forget(pool, known ? kb_load_relaxed(&d->last_ticks) : kb_ticks(pool->control->ticks_clock));
    begin_contents(d);
    clear_words(pool, index, known ? kb_load_relaxed(&d->used) : KF_CHUNK_WORDS);
    kb_store_relaxed(&d->used, 0);
    kb_store_release(&d->state, KF_CHUNK_FREE);
    kb_store_release(&d->owner, 0);
    map_set(pool->free_map, index);
}

bool kf_chunk_hold(const kf_pool *pool, uint32_t index)
{
    kf_descriptor *d = &pool->descriptors[index];
    uint64_t nobody = 0, self = (uint64_t)kb_os_pid() << 32 | kb_os_tid();
    if (kb_load_acquire(&d->state) != KF_CHUNK_FREE || !kb_cas_acqrel(&d->owner, &nobody, self))
        return false;
    if (kb_load_acquire(&d->state) == KF_CHUNK_FREE)
        return true;
    kb_store_release(&d->owner, 0);
    return false;
}

void kf_chunk_unhold(const kf_pool *pool, uint32_t index)
{
    kb_store_release(&pool->descriptors[index].owner, 0);
    map_set(pool->free_map, index);
}

/* ---- windows --------------------------------------------------------------------------------- */

/* Editors of windows and snapshots exclude each other; a lock of a dead process is taken over. Who
 * does not get it (its holder is stopped, say) goes on without. */
static bool lock_edit(kf_control *control)
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

static void unlock_edit(kf_control *control) { kb_store_release(&control->window_lock, 0u); }

static uint64_t open_kinds(kf_control *control)
{
    uint64_t kinds = 0;
    for (uint32_t i = 0; i < KF_MAX_WINDOWS; i++)
        if (kb_load_acquire(&control->windows[i].state) == KF_WINDOW_OPEN)
            kinds |= kb_load_relaxed(&control->windows[i].kinds);
    return kinds;
}

/* With the lock nobody stores an older union over a newer one. Without it that may happen for a
 * moment only: the last one to store has read what the others stored before (exchange), hence also
 * their windows; so when the loop has ended everywhere the gate is right. */
static void recompute_gate(kf_control *control)
{
    bool locked = lock_edit(control);
    uint64_t kinds = open_kinds(control), again;
    for (;; kinds = again) {
        kb_exchange_acqrel(&control->gate, kinds);
        again = open_kinds(control);
        if (again == kinds)
            break;
    }
    if (locked)
        unlock_edit(control);
}

static void release_window(kf_window *w)
{
    kb_store_relaxed(&w->kinds, 0);
    kb_store_relaxed(&w->owner_pid, 0);
    kb_store_relaxed(&w->keep_newest, 0);
    kb_store_release(&w->state, KF_WINDOW_FREE);
}

/* Certainly dead: what cannot be looked up (no file descriptor left, say) counts as alive. */
static bool owner_is_dead(uint32_t pid, uint64_t start_time)
{
    if (pid == 0 || pid == kb_os_pid() || kb_os_alive(pid, start_time))
        return false;
    return kb_os_start_time(pid) != 0 || (kill((pid_t)pid, 0) != 0 && errno == ESRCH);
}

/* Windows whose owner died would keep recording on for ever. Taking away the dead owner's pid is
 * what decides: a slot that was given to someone else meanwhile bears another one. */
static void sweep_windows(kf_control *control)
{
    for (uint32_t i = 0; i < KF_MAX_WINDOWS; i++) {
        kf_window *w = &control->windows[i];
        if (kb_load_acquire(&w->state) == KF_WINDOW_FREE)
            continue;
        uint32_t pid = kb_load_acquire(&w->owner_pid);
        uint64_t start_time = kb_load_relaxed(&w->owner_start_time);
        if (owner_is_dead(pid, start_time) && kb_cas_acqrel(&w->owner_pid, &pid, 0))
            release_window(w);
    }
}

uint32_t kf_window_open(kf_control *control, uint64_t kinds, uint64_t start_ticks)
{
    sweep_windows(control);
    for (uint32_t i = 0; i < KF_MAX_WINDOWS; i++) {
        kf_window *w = &control->windows[i];
        uint32_t expected = KF_WINDOW_FREE;
        if (!kb_cas_acqrel(&w->state, &expected, KF_WINDOW_CLAIMED))
            continue;
        kb_store_relaxed(&w->owner_start_time, kb_os_start_time(kb_os_pid()));
        kb_store_release(&w->owner_pid, kb_os_pid());
        kb_store_relaxed(&w->kinds, kinds);
        w->start_ticks = start_ticks;
        w->end_ticks = 0;
        kb_store_release(&w->state, KF_WINDOW_OPEN);
        recompute_gate(control);
        return i;
    }
    recompute_gate(control);
    return UINT32_MAX;
}

void kf_window_set_kinds(kf_control *control, uint32_t slot, uint64_t kinds)
{
    if (slot >= KF_MAX_WINDOWS)
        return;
    kb_store_relaxed(&control->windows[slot].kinds, kinds);
    recompute_gate(control);
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
    recompute_gate(control);
}

/* ---- clock snapshots --------------------------------------------------------------------------
 */

/* Drop every second one between the first and the last. */
static uint32_t thin_snapshots(kb_clock_snapshot *s, uint32_t count)
{
    uint32_t kept = 1;
    for (uint32_t i = 2; i + 1 < count; i += 2)
        s[kept++] = s[i];
    s[kept++] = s[count - 1];
    return kept;
}

void kf_snapshot_add(kf_control *control, const kb_clock_snapshot *snapshot)
{
    if (!lock_edit(control))
        return;
    uint32_t count = KB_MIN(kb_load_relaxed(&control->snapshot_count), KF_MAX_SNAPSHOTS);
    if (count == KF_MAX_SNAPSHOTS)
        count = thin_snapshots(control->snapshots, count);
    control->snapshots[count] = *snapshot;
    kb_store_release(&control->snapshot_count, count + 1);
    unlock_edit(control);
}

/* ---- dictionary ------------------------------------------------------------------------------ */

static uint32_t entry_words(uint64_t header) { return (uint32_t)(header >> 8 & 0xffffff); }

static void raise_used(kf_control *control, uint32_t to)
{
    uint32_t used = kb_load_relaxed(&control->dictionary_used);
    while (used < to && !kb_cas_acqrel(&control->dictionary_used, &used, to))
        ;
}

/* Reserving writes the entry's length, so that readers and the next adder can step over an entry
 * whose adder died. dictionary_used is an entry's end, perhaps not the last one's. */
static uint32_t reserve_entry(const kf_pool *pool, uint32_t words)
{
    uint32_t at = KB_MAX(kb_load_acquire(&pool->control->dictionary_used), 1u);
    uint64_t reserved = kf_entry_header(KF_ENTRY_NONE, words, 0);
    while (at < pool->dictionary_words && words <= pool->dictionary_words - at) {
        uint64_t header = 0;
        if (kb_cas_acqrel(&pool->dictionary[at], &header, reserved)) {
            raise_used(pool->control, at + words);
            return at;
        }
        if (entry_words(header) == 0)
            return 0; /* damaged: it has no end */
        at += entry_words(header);
    }
    return 0;
}

uint32_t kf_dictionary_add(const kf_pool *pool, kf_entry_type type, const kf_part *parts,
                           uint32_t part_count)
{
    uint64_t bytes = 0;
    for (uint32_t i = 0; i < part_count; i++)
        bytes += parts[i].bytes;
    if (bytes >= (uint64_t)0xfffffe * 8)
        return 0;
    uint32_t words = (uint32_t)(1 + (bytes + 7) / 8);
    uint32_t id = reserve_entry(pool, words);
    if (id == 0)
        return 0;
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
#define KF_X(name, reason, drop) {reason, drop},
    KF_REASON_MAP(KF_X)
#undef KF_X
};

const char *kf_reason_text(uint32_t reason)
{
    return reason < KF_REASON_COUNT ? reasons[reason].text : "unknown";
}

bool kf_reason_is_drop(uint32_t reason)
{
    return reason < KF_REASON_COUNT && reasons[reason].is_drop;
}
