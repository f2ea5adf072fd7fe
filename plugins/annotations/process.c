/* Ranges with ids, which may end on any thread. The id contains the number of the event's shape, so
 * that its end finds the same site; a table of open ids detects ends without a begin. */
#include "annotations.h"

/* Bits of an id: shape + 1 : 15, not in the table : 1, number : 48. */
#define NUMBER_BITS   48
#define IS_UNTRACKED  (UINT64_C(1) << NUMBER_BITS)
#define SHAPE_SHIFT   (NUMBER_BITS + 1)
#define OPEN_SLOTS    4096u
#define MAX_TRIES     8u
#define MAX_KEY_TRIES 32u

static atomic_uint_fast64_t next_range_number = 1;
static atomic_uint_fast64_t open_ids[OPEN_SLOTS];

/* A new id whose slot in the table is free; after MAX_TRIES one that is not tracked. */
static uint64_t allocate_range_id(uint64_t shape_bits)
{
    uint64_t number = 0;
    for (uint32_t i = 0; i < MAX_TRIES; i++) {
        uint_fast64_t none = 0;
        number = atomic_fetch_add_explicit(&next_range_number, 1, memory_order_relaxed) &
                 (IS_UNTRACKED - 1);
        if (atomic_compare_exchange_strong(&open_ids[number % OPEN_SLOTS], &none,
                                           shape_bits | number))
            return shape_bits | number;
    }
    return shape_bits | IS_UNTRACKED | number;
}

uint64_t cn_start(const cn_event *e)
{
    uint64_t id = allocate_range_id((uint64_t)(e->shape->index + 1) << SHAPE_SHIFT);
    kineto_props props = cn_event_props(e);
    kineto_async_begin(cn_shape_site(e->shape), id, &props);
    return id;
}

/* Takes an id out of the table. False: it is not open. Untracked ids are always accepted. */
static bool release_range_id(uint64_t id)
{
    uint_fast64_t expected = id;
    if (id & IS_UNTRACKED)
        return true;
    return atomic_compare_exchange_strong(&open_ids[id % OPEN_SLOTS], &expected, 0);
}

/* Ranges that were recorded at their begin are ended even if recording has stopped: else their
 * slots would never become free. */
void cn_end(uint64_t id)
{
    const cn_shape *shape =
        id >> SHAPE_SHIFT ? cn_shape_at((uint32_t)(id >> SHAPE_SHIFT) - 1) : NULL;
    if (CN_LIKELY(shape && release_range_id(id)))
        kineto_async_end(cn_shape_site(shape), id);
    else if (id != CN_NOT_RECORDED && cn_recording())
        cn_count(CN_TALLY_END_ALONE);
}

/* ---- ranges by a key of the source ----------------------------------------------------------- */

/* A slot is free if its key is 0. It is claimed by its key; `id` is stored afterwards, so an end that
 * comes at the same time as its begin may find 0 and is then ignored. */
typedef struct keyed_range {
    atomic_uint_fast64_t key, id;
} keyed_range;
static keyed_range keyed_ranges[OPEN_SLOTS];

/* The range is not recorded if there is no slot: its end would be lost. */
void cn_start_keyed(uint64_t key, const cn_event *e)
{
    for (uint32_t i = 0; i < MAX_KEY_TRIES; i++) {
        keyed_range *slot = &keyed_ranges[(key + i) % OPEN_SLOTS];
        uint_fast64_t none = 0;
        if (!atomic_compare_exchange_strong(&slot->key, &none, key))
            continue;
        atomic_store_explicit(&slot->id, cn_start(e), memory_order_release);
        return;
    }
    cn_count(CN_TALLY_KEYED);
}

/* Two that are open with one key are the program's mistake, or have no ids: either may end. */
void cn_end_keyed(uint64_t key)
{
    for (uint32_t i = 0; i < MAX_KEY_TRIES; i++) {
        keyed_range *slot = &keyed_ranges[(key + i) % OPEN_SLOTS];
        uint64_t id = atomic_load_explicit(&slot->key, memory_order_acquire) == key
                          ? atomic_exchange(&slot->id, 0)
                          : 0;
        if (!id)
            continue;
        atomic_store_explicit(&slot->key, 0, memory_order_release);
        cn_end(id);
        return;
    }
    if (cn_recording())
        cn_count(CN_TALLY_END_ALONE);
}

void cn_process_forked(void)
{
    for (uint32_t i = 0; i < OPEN_SLOTS; i++) {
        atomic_store_explicit(&open_ids[i], 0, memory_order_relaxed);
        atomic_store_explicit(&keyed_ranges[i].key, 0, memory_order_relaxed);
        atomic_store_explicit(&keyed_ranges[i].id, 0, memory_order_relaxed);
    }
}
