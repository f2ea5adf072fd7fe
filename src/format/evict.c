/* The flight recorder (policy RING): which chunk a writer overwrites when none is free, and
 * counting the events that are lost with it. Lock-free like the rest of the pool. The writer that
 * finds the list of oldest chunks used up searches all descriptors and publishes a new list for all
 * writers; they take from it in turn (ring_hand). Part of libckineto-rt. */
#include "format/pool.h"

static bool is_event_type(uint32_t type)
{
    const uint32_t events = 1u << KF_INSTANT | 1u << KF_ASYNC_BEGIN | 1u << KF_COUNTER |
                            1u << KF_MEMORY | 1u << KF_RANGE |
                            1u << KF_THREAD_RUN | 1u << KF_STACK_SAMPLE;
    return type < KF_TYPE_COUNT && (events >> type & 1);
}

/* The ranges that are open at one position of a chunk: a bit per depth. */
typedef struct open_set {
    uint32_t top; /* one more than the deepest */
    uint64_t bits[KF_MAX_DEPTH / 64];
} open_set;

static void mark_depth_open(open_set *open, uint32_t depth)
{
    KB_ASSERT(depth < KF_MAX_DEPTH);
    open->bits[depth / 64] |= UINT64_C(1) << depth % 64;
    open->top = depth + 1;
}

/* Close the ranges from `depth` inwards. @return how many were open. */
static uint32_t close_depths_from(open_set *open, uint32_t depth)
{
    uint32_t closed = 0;
    while (open->top > depth) {
        uint32_t at = --open->top;
        closed += (uint32_t)(open->bits[at / 64] >> at % 64 & 1);
        open->bits[at / 64] &= ~(UINT64_C(1) << at % 64);
    }
    return closed;
}

/* Ticks of a record, in the bits that an END has; of a RANGE those of its end. The header is passed
 * as it was read once, because other processes may change the memory. */
static uint64_t end_ticks_of(const uint64_t *record, uint64_t header)
{
    uint32_t type = kf_header_type(header);
    if (type == KF_END)
        return header >> 16;
    bool is_range = (type == KF_RANGE || type == KF_THREAD_RUN) && kf_header_words(header) > 2;
    return record[is_range ? 2 : 1] & KF_END_TICK_MASK;
}

/* The number of events that are lost with a record. A range is lost with its END: until then its
 * BEGIN is also in the next chunk, as a REOPEN copy. Events that ended before `from` do not count,
 * since no window includes them. */
static uint32_t count_record_events(open_set *open, const uint64_t *record, uint64_t header,
                                    uint64_t from)
{
    uint32_t type = kf_header_type(header), depth = kf_header_aux(header) & 0xff, events;
    switch (type) {
    case KF_KEYFRAME:
        *open = (open_set){0, {0}};
        return 0;
    case KF_DEVICE: /* its times are of another clock */
        return 1;
    case KF_BEGIN:
    case KF_REOPEN:
        events = close_depths_from(open, depth);
        mark_depth_open(open, depth);
        break;
    case KF_END:
        events = close_depths_from(open, (uint32_t)(header >> 6 & 1023));
        break;
    case KF_THREAD_EXIT:
        events = close_depths_from(open, 0);
        break;
    default:
        events = is_event_type(type);
    }
    bool before = ((end_ticks_of(record, header) - from) & KF_END_TICK_MASK) > KF_END_TICK_MASK / 2;
    return before ? 0 : events;
}

/* ---- end times of overwritten events ---- */

#define PERIOD_MASK UINT64_C(0xffffff)
#define COUNT_BITS  40u
#define COUNT_MASK  ((UINT64_C(1) << COUNT_BITS) - 1)

static uint64_t period_of(uint64_t ticks, uint32_t shift) { return ticks >> shift & PERIOD_MASK; }

void kf_evicted_prepare(kf_control *control, uint64_t length_ticks)
{
    uint32_t shift = 1, known = kb_load_relaxed(&control->evicted_shift);
    while (shift < 48 && (uint64_t)(KF_EVICTED_SLOTS / 2) << shift < length_ticks)
        shift++;
    if (shift <= known)
        return;
    for (uint32_t i = 0; i < KF_EVICTED_SLOTS; i++)
        kb_store_relaxed(&control->evicted[i], 0);
    kb_store_release(&control->evicted_shift, shift);
}

/* Add to the slot of the period; a slot that still counts an earlier period is reset. */
static void add_evicted_events(kf_control *control, uint64_t ticks, uint64_t count)
{
    uint32_t shift = kb_load_acquire(&control->evicted_shift) & 63;
    uint64_t period = period_of(ticks, shift);
    uint64_t *slot = &control->evicted[period % KF_EVICTED_SLOTS], was = kb_load_relaxed(slot), now;
    if (!shift || !count)
        return;
    do {
        uint64_t before = was >> COUNT_BITS == period ? was & COUNT_MASK : 0;
        now = period << COUNT_BITS | KB_MIN(before + count, COUNT_MASK);
    } while (!kb_cas_acqrel(slot, &was, now));
}

uint64_t kf_evicted_since(const kf_control *control, uint64_t ticks)
{
    uint32_t shift = kb_load_acquire(&control->evicted_shift) & 63;
    uint64_t from = period_of(ticks, shift), count = 0;
    for (uint32_t i = 0; shift && i < KF_EVICTED_SLOTS; i++) {
        uint64_t slot = kb_load_relaxed(&control->evicted[i]);
        if ((((slot >> COUNT_BITS) - from) & PERIOD_MASK) < KF_EVICTED_SLOTS)
            count += slot & COUNT_MASK;
    }
    return count;
}

/* Count the events of a chunk that is about to be overwritten in the ledger, by source. */
static void count_evicted_chunk(const kf_pool *pool, uint32_t index, uint32_t used,
                                uint64_t last_ticks)
{
    const uint64_t *chunk = kf_pool_chunk(pool, index);
    uint64_t evicted[KF_MAX_SOURCES] = {0}, all = 0, from = kb_load_relaxed(&pool->control->window_ticks);
    open_set open = {0, {0}};
    uint32_t end = KB_MIN(used, KF_CHUNK_WORDS);
    for (uint32_t at = 0; at < end;) {
        uint64_t header = kb_load_relaxed(&chunk[at]);
        uint32_t type = kf_header_type(header), words = kf_header_words(header);
        if (type == KF_NONE || words == 0 || words > end - at || (words < 2 && type != KF_END))
            break;
        bool device = type == KF_DEVICE && words > 5;
        uint32_t source = device ? (uint32_t)(chunk[at + 5] >> 48 & 0xff) : KF_SOURCE_API;
        evicted[source < KF_MAX_SOURCES ? source : KF_SOURCE_API] +=
            count_record_events(&open, chunk + at, header, from);
        at += words;
    }
    for (uint32_t s = 0; s < KF_MAX_SOURCES; s++) {
        all += evicted[s];
        if (evicted[s])
            kb_add_relaxed(&pool->control->counters[s][KF_REASON_EVICTED], evicted[s]);
    }
    add_evicted_events(pool->control, last_ticks, all);
}

static uint64_t protected_from(const kf_pool *pool)
{
    return kb_load_relaxed(&pool->control->ring_protect_ticks);
}

/* May a chunk be overwritten? */
static bool is_overwritable(uint64_t claim, uint64_t last_ticks, uint64_t protect)
{
    return kf_claim_state(claim) == KF_CHUNK_SEALED && (!protect || last_ticks < protect);
}

typedef struct aged {
    uint64_t ticks;
    uint32_t index;
} aged;

/* Make a chunk LIVE for `owner` and zero it, if it is unchanged since the search. */
static bool steal_chunk(const kf_pool *pool, aged which, uint64_t owner)
{
    KB_ASSERT(which.index < pool->chunk_count);
    kf_descriptor *d = &pool->descriptors[which.index];
    uint64_t claim = kb_load_acquire(&d->claim), ticks = kb_load_relaxed(&d->last_ticks);
    if (ticks != which.ticks || !is_overwritable(claim, ticks, protected_from(pool)) ||
        !kf_chunk_win(d, claim, owner))
        return false;
    uint32_t used = kb_load_relaxed(&d->used);
    if (which.ticks >= kb_load_relaxed(&pool->control->window_ticks)) /* a window includes it */
        count_evicted_chunk(pool, which.index, used, which.ticks);
    kf_contents_forget(pool, which.ticks);
    kf_contents_begin(d);
    kf_contents_clear(pool, which.index, used);
    kb_store_relaxed(&d->used, 0u);
    kb_store_relaxed(&d->call.header, UINT64_C(0));
    return true;
}

/* The number of chunks to search. When the limit is lowered, threads keep chunks above it. */
static uint32_t highest_used_chunk(const kf_pool *pool)
{
    uint32_t high = kb_load_relaxed(&pool->control->chunk_high);
    return KB_MIN(KB_MAX(high, kf_chunk_limit(pool)), pool->chunk_count);
}

/* Insert into a list of the KF_RING_BATCH oldest, sorted by age. */
static uint32_t insert_by_age(aged *list, uint32_t count, aged item)
{
    KB_ASSERT(count <= KF_RING_BATCH);
    uint32_t at = count < KF_RING_BATCH ? count++ : KF_RING_BATCH - 1;
    for (; at > 0 && list[at - 1].ticks > item.ticks; at--)
        list[at] = list[at - 1];
    list[at] = item;
    return count;
}

/* Search all chunks with one value of the protection, so that the result is consistent. @return how
 * many may be overwritten, at most KF_RING_BATCH. */
static uint32_t find_oldest_chunks(const kf_pool *pool, aged *oldest)
{
    uint32_t count = 0, limit = highest_used_chunk(pool);
    uint64_t protect = protected_from(pool);
    for (uint32_t i = 0; i < limit; i++) {
        const kf_descriptor *d = &pool->descriptors[i];
        aged item = {kb_load_relaxed(&d->last_ticks), i};
        bool older = count < KF_RING_BATCH || item.ticks < oldest[KF_RING_BATCH - 1].ticks;
        if (older && is_overwritable(kb_load_acquire(&d->claim), item.ticks, protect))
            count = insert_by_age(oldest, count, item);
    }
    return count;
}

/* ring_hand: the next index in the list in the low bits, the list's number above; or RING_BUSY
 * while a writer searches for the oldest. */
#define RING_BUSY UINT32_MAX
#define TURN_BITS 8u
#define LIST_MASK 0x7fffffu
static uint32_t turn_of(uint32_t hand) { return hand & ((1u << TURN_BITS) - 1); }

/* Publish a list for all writers: RING_BUSY → the next list's number, index 0. `hand` is the value
 * before RING_BUSY. An empty list is published as used up. */
static void publish_oldest_list(kf_control *c, const aged *oldest, uint32_t count, uint32_t hand)
{
    for (uint32_t i = 0; i < KF_RING_BATCH; i++) {
        kb_store_release(&c->ring_oldest_ticks[i], i < count ? oldest[i].ticks : 0);
        kb_store_release(&c->ring_oldest[i], i < count ? oldest[i].index + UINT64_C(1) : 0);
    }
    uint32_t list = ((hand >> TURN_BITS) + 1) & LIST_MASK;
    kb_store_release(&c->ring_hand, list << TURN_BITS | (count ? 0 : KF_RING_BATCH));
}

/* Steal the next chunk of the list. UINT32_MAX: the list is used up; *hand is ring_hand's value
 * then. */
static uint32_t steal_next_oldest(const kf_pool *pool, uint64_t owner, uint32_t *hand)
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
        if (same_list && index < highest_used_chunk(pool) && steal_chunk(pool, which, owner))
            return which.index;
    }
    return UINT32_MAX;
}

/* One writer at a time searches for all (RING_BUSY). Others that come meanwhile, or after that one
 * has died, search only for themselves. */
uint32_t kf_ring_claim(const kf_pool *pool, uint64_t owner)
{
    aged oldest[KF_RING_BATCH];
    uint32_t hand, index = steal_next_oldest(pool, owner, &hand);
    if (index != UINT32_MAX)
        return index;
    bool for_all = hand != RING_BUSY && kb_cas_acqrel(&pool->control->ring_hand, &hand, RING_BUSY);
    uint32_t count = find_oldest_chunks(pool, oldest);
    for (uint32_t i = 0; i < count && index == UINT32_MAX; i++)
        if (steal_chunk(pool, oldest[i], owner))
            index = oldest[i].index;
    if (for_all)
        publish_oldest_list(pool->control, oldest, count, hand);
    return index;
}
