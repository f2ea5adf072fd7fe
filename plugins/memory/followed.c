/* The blocks that were recorded: a hash table without locks, in memory of its own.
 *
 * A bucket is a cache line of four blocks, and a block has two buckets. An address belongs to one
 * thread from the moment the allocator returns it until it is given back, so that nobody else
 * looks for it meanwhile; only slots are fought for. There are up to LEVELS tables, each eight
 * times the size of the one before: the next is mapped when the last one is full, so that few
 * blocks stay on few pages. In front stands a filter of counters, which fits into the first cache.
 */
#include "memory.h"

#include <errno.h>
#include <sys/mman.h>

#define LEVELS       4u
#define LEVEL_0_BITS 10u /* buckets of the first: 4096 blocks in 64 KiB */
#define LEVEL_STEP   3u
#define WAYS         4u
#define FILTER_FULL  60000u

typedef struct slot {
    _Atomic(uint64_t) block; /* 0: free */
    uint64_t bytes;          /* the owner's alone */
} slot;
typedef struct bucket {
    slot slots[WAYS];
} bucket;

_Atomic(uint16_t) cm_filter[1 << CM_FILTER_BITS];
static _Atomic(bucket *) levels[LEVELS];
static atomic_uint level_count;

static uint64_t buckets_of(uint32_t level)
{
    return UINT64_C(1) << (LEVEL_0_BITS + LEVEL_STEP * level);
}

uint64_t cm_follow_capacity(void)
{
    uint64_t count = 0;
    for (uint32_t i = 0; i < LEVELS; i++)
        count += buckets_of(i) * WAYS;
    return count;
}

static _Atomic(uint16_t) *filter_of(uint64_t hash)
{
    return &cm_filter[hash & (CM_COUNT(cm_filter) - 1)];
}

/* Two places that have nothing to do with each other, nor with the filter's. */
static bucket *place(bucket *table, uint32_t level, uint64_t hash, uint32_t which)
{
    uint64_t h = which ? (hash ^ hash >> 29) * UINT64_C(0xbf58476d1ce4e5b9) : hash;
    return &table[h >> (64 - LEVEL_0_BITS - LEVEL_STEP * level)];
}

/* Map the next level; another thread may have been faster. */
static CM_COLD bool level_add(uint32_t level)
{
    bucket *none = NULL;
    size_t bytes = (size_t)buckets_of(level) * sizeof(bucket);
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

void cm_follow_prepare(void)
{
    if (!atomic_load(&level_count))
        (void)level_add(0);
}

static bool put(bucket *b, uint64_t block, uint64_t bytes)
{
    for (uint32_t i = 0; i < WAYS; i++) {
        uint64_t none = 0;
        slot *s = &b->slots[i];
        if (!atomic_load_explicit(&s->block, memory_order_relaxed) &&
            atomic_compare_exchange_strong(&s->block, &none, block)) {
            s->bytes = bytes;
            return true;
        }
    }
    return false;
}

static bool put_into(uint32_t level, uint64_t hash, uint64_t block, uint64_t bytes)
{
    bucket *table = atomic_load_explicit(&levels[level], memory_order_acquire);
    return put(place(table, level, hash, 0), block, bytes) ||
           put(place(table, level, hash, 1), block, bytes);
}

static bool put_anywhere(uint64_t hash, uint64_t block, uint64_t bytes)
{
    for (;;) {
        uint32_t count = atomic_load_explicit(&level_count, memory_order_acquire);
        if (count && put_into(count - 1, hash, block, bytes))
            return true;
        if (!level_add(count))
            break;
    }
    /* None can be added: what was freed in the others. */
    uint32_t count = atomic_load_explicit(&level_count, memory_order_acquire);
    for (uint32_t level = 0; level + 1 < count; level++)
        if (put_into(level, hash, block, bytes))
            return true;
    return false;
}

bool cm_follow(const void *block, uint64_t bytes)
{
    uint64_t hash = cm_hash(block);
    _Atomic(uint16_t) *cell = filter_of(hash);
    if (atomic_fetch_add_explicit(cell, 1, memory_order_relaxed) < FILTER_FULL &&
        put_anywhere(hash, (uint64_t)(uintptr_t)block, bytes))
        return true;
    atomic_fetch_sub_explicit(cell, 1, memory_order_relaxed);
    return false;
}

static uint64_t take(bucket *b, uint64_t block)
{
    for (uint32_t i = 0; i < WAYS; i++) {
        slot *s = &b->slots[i];
        if (atomic_load_explicit(&s->block, memory_order_relaxed) == block) {
            uint64_t bytes = s->bytes;
            atomic_store_explicit(&s->block, 0, memory_order_release);
            return bytes;
        }
    }
    return 0;
}

uint64_t cm_forget(const void *block)
{
    uint64_t hash = cm_hash(block), bytes = 0;
    uint32_t level = atomic_load_explicit(&level_count, memory_order_acquire);
    while (!bytes && level-- > 0) {
        bucket *table = atomic_load_explicit(&levels[level], memory_order_acquire);
        for (uint32_t which = 0; which < 2 && !bytes; which++)
            bytes = take(place(table, level, hash, which), (uint64_t)(uintptr_t)block);
    }
    if (bytes)
        atomic_fetch_sub_explicit(filter_of(hash), 1, memory_order_relaxed);
    return bytes;
}
