/* Interning: stores each distinct byte string once, and gives it an id, dense from 0 in the order
 * of arrival. A hash table with open addressing, at most three quarters full, maps contents to ids;
 * the bytes lie in an arena, so that they never move. */
#include "base/base.h"

enum { FIRST_TABLE = 64 };

static uint64_t hash_interned(kineto_string s)
{
    return kb_hash_seeded(kb_hash_secret(), s.data, s.size);
}

/* An entry keeps half of the hash, so that most mismatches never touch the string and growing never
 * hashes again. */
static uint64_t make_entry(uint64_t hash, uint32_t id) { return hash << 32 | ((uint64_t)id + 1); }
static uint32_t entry_hash(uint64_t entry) { return (uint32_t)(entry >> 32); }
static uint32_t entry_id(uint64_t entry) { return (uint32_t)entry - 1; }

static bool grow_intern_table(kb_intern *in)
{
    size_t size = in->table_size ? in->table_size * 2 : FIRST_TABLE;
    if (size > SIZE_MAX / 2 / sizeof(uint64_t))
        return false;
    uint64_t *table = calloc(size, sizeof(*table));
    if (!table)
        return false;
    for (size_t i = 0; i < in->table_size; i++) {
        if (in->table[i] == 0)
            continue;
        size_t at = entry_hash(in->table[i]) & (size - 1);
        while (table[at] != 0)
            at = (at + 1) & (size - 1);
        table[at] = in->table[i];
    }
    free(in->table);
    in->table = table;
    in->table_size = size;
    return true;
}

/* The slot that holds the string, or the free one where it belongs. */
static uint64_t *find_intern_slot(const kb_intern *in, kineto_string s, uint32_t hash)
{
    KB_ASSERT(in->strings.count < in->table_size);
    size_t mask = in->table_size - 1, at = hash & mask;
    for (; in->table[at] != 0; at = (at + 1) & mask) {
        if (entry_hash(in->table[at]) == hash &&
            kb_string_equal(in->strings.data[entry_id(in->table[at])], s))
            break;
    }
    return &in->table[at];
}

static uint32_t add_interned_string(kb_intern *in, kineto_string s, uint32_t hash)
{
    uint32_t id = (uint32_t)in->strings.count;
    if (in->strings.count >= KB_INTERN_NONE - 1 || !kb_vec_reserve(&in->strings, (size_t)id + 1))
        return KB_INTERN_NONE;
    if (in->strings.count + 1 > in->table_size / 4 * 3 && !grow_intern_table(in))
        return KB_INTERN_NONE;
    char *copy = kb_arena_copy(&in->arena, s.data, s.size);
    if (!copy)
        return KB_INTERN_NONE;
    in->strings.data[in->strings.count++] = (kineto_string){copy, s.size};
    *find_intern_slot(in, (kineto_string){copy, s.size}, hash) = make_entry(hash, id);
    return id;
}

uint32_t kb_intern_id(kb_intern *in, kineto_string s)
{
    const kineto_string empty = {"", 0};
    if (in->strings.count == 0 &&
        add_interned_string(in, empty, (uint32_t)hash_interned(empty)) == KB_INTERN_NONE)
        return KB_INTERN_NONE;
    if (s.size == 0)
        return 0;
    uint32_t hash = (uint32_t)hash_interned(s);
    uint64_t entry = *find_intern_slot(in, s, hash);
    return entry != 0 ? entry_id(entry) : add_interned_string(in, s, hash);
}

void kb_intern_free(kb_intern *in)
{
    kb_arena_free(&in->arena);
    kb_vec_free(&in->strings);
    free(in->table);
    in->table = NULL;
    in->table_size = 0;
}
