/* The table of recorded blocks: a lock-free hash table in memory of its own.
 *
 * A bucket is a cache line of four blocks, and a block has two buckets to choose from. An address
 * belongs to one thread from the moment the allocator returns it until it is released, so that no
 * other thread searches for it meanwhile; threads only compete for free slots. There are up to
 * LEVELS tables, each eight times the size of the one before: the next is mapped when the last one
 * is full, so that few blocks occupy few pages. A filter of counters, which fits into the L1 cache,
 * is checked before the table.
 */
#include "memory.h"

#include <errno.h>
#include <sys/mman.h>

#define LEVELS 4u
/* Buckets of the first: 4096 blocks in 64 KiB. */
#define LEVEL_0_BITS 10u
#define LEVEL_STEP   3u
#define WAYS         4u
#define FILTER_FULL  60000u

typedef struct followed_slot {
    _Atomic(uint64_t) block; /* 0: free */
    uint64_t bytes;          /* written and read by the thread that owns the block */
} followed_slot;
typedef struct slot_bucket {
    followed_slot slots[WAYS];
} slot_bucket;

_Atomic(uint16_t) cm_filter[1 << CM_FILTER_BITS];
static _Atomic(slot_bucket *) levels[LEVELS];
static atomic_uint level_count;

/* Buckets of a level. */
static uint64_t count_level_buckets(uint32_t level)
{
    return UINT64_C(1) << (LEVEL_0_BITS + LEVEL_STEP * level);
}

uint64_t cm_track_capacity(void)
{
    uint64_t count = 0;
    for (uint32_t i = 0; i < LEVELS; i++)
        count += count_level_buckets(i) * WAYS;
    return count;
}

static _Atomic(uint16_t) *get_filter_cell(uint64_t hash)
{
    return &cm_filter[hash & (CM_COUNT(cm_filter) - 1)];
}

/* The first or second bucket of a block. The two are independent of each other and of the filter's
 * cell. */
static slot_bucket *get_bucket(slot_bucket *table, uint32_t level, uint64_t hash, uint32_t which)
{
    uint64_t h = which ? (hash ^ hash >> 29) * UINT64_C(0xbf58476d1ce4e5b9) : hash;
    return &table[h >> (64 - LEVEL_0_BITS - LEVEL_STEP * level)];
}

/* Maps a level if it is the next one. Another thread may do the same: one mapping stays. False:
 * there are LEVELS already, or the mapping failed. errno is unchanged. */
static CM_COLD bool map_next_level(uint32_t level)
{
    slot_bucket *none = NULL;
    size_t bytes = (size_t)count_level_buckets(level) * sizeof(slot_bucket);
    int saved = errno, populate = level < 2 ? MAP_POPULATE : 0;
    if (level >= LEVELS)
        return false;
    void *map = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
                     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | populate, -1, 0);
    errno = saved;
    if (map == MAP_FAILED)
        return false;
    if (!atomic_compare_exchange_strong(&levels[level], &none, map))
        (void)munmap(map, bytes);
    uint32_t count = level;
    (void)atomic_compare_exchange_strong(&level_count, &count, level + 1);
    errno = saved;
    return true;
}

void cm_track_prepare(void)
{
    if (!atomic_load(&level_count))
        (void)map_next_level(0);
}

/* Takes a free slot by compare-and-swap. False: the bucket is full. */
static bool put_into_bucket(slot_bucket *b, uint64_t block, uint64_t bytes)
{
    for (uint32_t i = 0; i < WAYS; i++) {
        uint64_t none = 0;
        followed_slot *s = &b->slots[i];
        if (!atomic_load_explicit(&s->block, memory_order_relaxed) &&
            atomic_compare_exchange_strong(&s->block, &none, block)) {
            s->bytes = bytes;
            return true;
        }
    }
    return false;
}

static bool put_into_level(uint32_t level, uint64_t hash, uint64_t block, uint64_t bytes)
{
    slot_bucket *table = atomic_load_explicit(&levels[level], memory_order_acquire);
    return put_into_bucket(get_bucket(table, level, hash, 0), block, bytes) ||
           put_into_bucket(get_bucket(table, level, hash, 1), block, bytes);
}

/* The newest level first, which has most free slots; then a new one. False: everything is full. */
static bool put_into_any_level(uint64_t hash, uint64_t block, uint64_t bytes)
{
    for (;;) {
        uint32_t count = atomic_load_explicit(&level_count, memory_order_acquire);
        if (count && put_into_level(count - 1, hash, block, bytes))
            return true;
        if (!map_next_level(count))
            break;
    }
    /* No level can be added: use slots that were freed in the others. */
    uint32_t count = atomic_load_explicit(&level_count, memory_order_acquire);
    for (uint32_t level = 0; level + 1 < count; level++)
        if (put_into_level(level, hash, block, bytes))
            return true;
    return false;
}

/* The filter cell is counted down again if no slot is free. */
bool cm_track_block(const void *block, uint64_t bytes)
{
    uint64_t hash = cm_hash(block);
    _Atomic(uint16_t) *cell = get_filter_cell(hash);
    /* The filter counts the block before it is in the table, so that a release never misses it. */
    if (atomic_fetch_add_explicit(cell, 1, memory_order_relaxed) < FILTER_FULL &&
        put_into_any_level(hash, (uint64_t)(uintptr_t)block, bytes))
        return true;
    atomic_fetch_sub_explicit(cell, 1, memory_order_relaxed);
    return false;
}

/* Frees the slot of a block and returns its size; 0: it is not in this bucket. The size is read
 * before the release of the slot hands it to another thread. */
static uint64_t take_from_bucket(slot_bucket *b, uint64_t block)
{
    for (uint32_t i = 0; i < WAYS; i++) {
        followed_slot *s = &b->slots[i];
        if (atomic_load_explicit(&s->block, memory_order_relaxed) == block) {
            uint64_t bytes = s->bytes;
            atomic_store_explicit(&s->block, 0, memory_order_release);
            return bytes;
        }
    }
    return 0;
}

/* The newest level first, which has most blocks. */
uint64_t cm_untrack_block(const void *block)
{
    uint64_t hash = cm_hash(block), bytes = 0;
    uint32_t level = atomic_load_explicit(&level_count, memory_order_acquire);
    while (!bytes && level-- > 0) {
        slot_bucket *table = atomic_load_explicit(&levels[level], memory_order_acquire);
        for (uint32_t which = 0; which < 2 && !bytes; which++)
            bytes =
                take_from_bucket(get_bucket(table, level, hash, which), (uint64_t)(uintptr_t)block);
    }
    if (bytes)
        atomic_fetch_sub_explicit(get_filter_cell(hash), 1, memory_order_relaxed);
    return bytes;
}
