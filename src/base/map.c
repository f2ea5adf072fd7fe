/* Hashing of byte strings, and a hash table from 64-bit keys to 64-bit values by linear probing, at
 * most three quarters full. kb_hash gives the same result on every machine; tables are seeded with
 * a secret of the process, so that files cannot be made to collide. */
#include "base/base.h"

/* ---- hash -------------------------------------------------------------------------------------
 */

#define K0 UINT64_C(0x9fb21c651e98df25)
#define K1 UINT64_C(0xa0761d6478bd642f)
#define K2 UINT64_C(0xe7037ed1a0b428db)

/* Both halves of the product, so that every input bit reaches every output bit. */
static inline uint64_t fold_product(uint64_t a, uint64_t b)
{
    unsigned __int128 product = (unsigned __int128)a * b;
    return (uint64_t)product ^ (uint64_t)(product >> 64);
}

/* Little-endian on every machine, so that a hash may be stored. */
static inline uint64_t load_hash_word(const unsigned char *p)
{
    uint64_t w;
    memcpy(&w, p, sizeof(w));
#if __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
    w = __builtin_bswap64(w);
#endif
    return w;
}

static inline uint64_t load_hash_tail(const unsigned char *p, size_t bytes)
{
    uint64_t w = 0;
    for (size_t i = 0; i < bytes; i++)
        w |= (uint64_t)p[i] << (8 * i);
    return w;
}

uint64_t kb_hash_seeded(uint64_t seed, const void *data, size_t bytes)
{
    const unsigned char *p = data;
    uint64_t h = seed ^ fold_product((uint64_t)bytes ^ K0, K1);
    size_t left = bytes;
    for (; left >= 16; left -= 16, p += 16)
        h = fold_product(load_hash_word(p) ^ K1 ^ h, load_hash_word(p + 8) ^ K2) ^ (h >> 29);
    if (left >= 8) {
        h = fold_product(load_hash_word(p) ^ K1 ^ h, K2) ^ (h >> 29);
        left -= 8;
        p += 8;
    }
    if (left > 0)
        h = fold_product(load_hash_tail(p, left) ^ K2 ^ h, K1);
    return fold_product(h ^ K0, K2);
}

uint64_t kb_hash_secret(void)
{
    static uint64_t cached; /* threads that race compute the same value */
    uint64_t seed = kb_load_relaxed(&cached);
    if (seed == 0) {
        seed = kb_os_exec_id();
        kb_store_relaxed(&cached, seed);
    }
    return seed;
}

uint64_t kb_hash(const void *data, size_t bytes) { return kb_hash_seeded(0, data, bytes); }

/* ---- map --------------------------------------------------------------------------------------
 */

/* A slot with key 0 is free. The key 0 itself has an extra slot after the table, which is taken if
 * its stored key is not 0. */
struct kb_map_slot {
    uint64_t key, value;
};

enum { FIRST_CAPACITY = 16 };

/* The slot of a key, or the free one where it belongs. */
static struct kb_map_slot *probe_map_slot(struct kb_map_slot *slots, size_t capacity, uint64_t key)
{
    if (key == 0)
        return &slots[capacity];
    size_t mask = capacity - 1;
    size_t at = (size_t)fold_product(key ^ K1, kb_hash_secret() ^ K2) & mask;
    while (slots[at].key != 0 && slots[at].key != key)
        at = (at + 1) & mask;
    return &slots[at];
}

static bool grow_map(kb_map *m)
{
    size_t capacity = m->capacity ? m->capacity * 2 : FIRST_CAPACITY;
    if (capacity > SIZE_MAX / 2 / sizeof(struct kb_map_slot))
        return false;
    struct kb_map_slot *slots = calloc(capacity + 1, sizeof(*slots));
    if (!slots)
        return false;
    for (size_t i = 0; i < m->capacity; i++) {
        if (m->slots[i].key != 0)
            *probe_map_slot(slots, capacity, m->slots[i].key) = m->slots[i];
    }
    if (m->slots)
        slots[capacity] = m->slots[m->capacity];
    free(m->slots);
    m->slots = slots;
    m->capacity = capacity;
    return true;
}

uint64_t *kb_map_find(const kb_map *m, uint64_t key)
{
    if (m->count == 0)
        return NULL;
    struct kb_map_slot *slot = probe_map_slot(m->slots, m->capacity, key);
    return slot->key != 0 ? &slot->value : NULL;
}

uint64_t *kb_map_insert(kb_map *m, uint64_t key, uint64_t initial, bool *created)
{
    uint64_t *found = kb_map_find(m, key);
    if (created)
        *created = !found;
    if (found)
        return found;
    if (m->count + 1 > m->capacity / 4 * 3 && !grow_map(m))
        return NULL;
    struct kb_map_slot *slot = probe_map_slot(m->slots, m->capacity, key);
    slot->key = key != 0 ? key : 1;
    slot->value = initial;
    m->count++;
    return &slot->value;
}

void kb_map_free(kb_map *m)
{
    free(m->slots);
    *m = (kb_map){0};
}
