/* The table of value sets, by the values that determine them. */
#include "value_sets.h"

#include <stdlib.h>
#include <string.h>

#define MIN_SET_SLOTS 256u
#define MAX_SET_SLOTS 65536u

typedef struct set_slot {
    cp_set_key key; /* first word 0: free */
    uint32_t set;   /* the host's number; 0: the host refused it */
} set_slot;

struct cp_sets {
    set_slot *slots; /* open addressing */
    uint32_t count, capacity;
};

cp_sets *cp_sets_create(void)
{
    cp_sets *s = calloc(1, sizeof *s);
    if (s)
        s->slots = calloc(MIN_SET_SLOTS, sizeof *s->slots);
    if (s && s->slots) {
        s->capacity = MIN_SET_SLOTS;
        return s;
    }
    free(s);
    return NULL;
}

void cp_sets_free(cp_sets *s)
{
    if (s)
        free(s->slots);
    free(s);
}

/* A sum of products with odd factors, which the processor computes in parallel. The hash is taken
 * from the high bits, to which all bits of the words contribute. */
static uint32_t hash_set_key(const cp_set_key *key)
{
    uint64_t factor = UINT64_C(0x9e3779b97f4a7c15), sum = 0, w;
    for (size_t i = 0; i < CP_COUNT(key->words); i += 2) {
        memcpy(&w, &key->words[i], sizeof w);
        sum += w * factor;
        factor += UINT64_C(0x632be59bd9b4e01a);
    }
    return (uint32_t)((sum ^ sum >> 31) * UINT64_C(0xff51afd7ed558ccd) >> 32);
}

static bool is_same_set_key(const cp_set_key *a, const cp_set_key *b)
{
    uint32_t differs = 0;
    for (size_t i = 0; i < CP_COUNT(a->words); i++)
        differs |= a->words[i] ^ b->words[i];
    return differs == 0;
}

static set_slot *find_set_slot(const struct cp_sets *s, const cp_set_key *key)
{
    uint32_t i = hash_set_key(key) & (s->capacity - 1);
    while (s->slots[i].key.words[0] && !is_same_set_key(&s->slots[i].key, key))
        i = (i + 1) & (s->capacity - 1);
    return &s->slots[i];
}

/* Doubles the table. False: the limit is reached or out of memory. */
static bool grow_set_slots(struct cp_sets *s)
{
    set_slot *old = s->slots;
    uint32_t capacity = s->capacity;
    set_slot *fresh = capacity < MAX_SET_SLOTS ? calloc((size_t)capacity * 2, sizeof *fresh) : NULL;
    if (!fresh)
        return false;
    s->slots = fresh;
    s->capacity = capacity * 2;
    for (uint32_t i = 0; i < capacity; i++)
        if (old[i].key.words[0])
            *find_set_slot(s, &old[i].key) = old[i];
    free(old);
    return true;
}

/* Registers the values with the host; 0: it has no sets, or no space for more. */
static uint32_t register_set(const KinetoPlugin_TraceBuilder *b, const cp_values *values)
{
    uint32_t set = 0;
    if (!KINETO_PLUGIN_HAS(b, KinetoPlugin_TraceBuilder, registerMetadataSet) ||
        b->registerMetadataSet(b->pTraceBuilderHandle, values->items, values->count, &set) != 0)
        return 0;
    return set;
}

uint32_t cp_sets_find(const cp_sets *s, const cp_set_key *key)
{
    return find_set_slot(s, key)->set;
}

uint32_t cp_sets_add(cp_sets *s, const KinetoPlugin_TraceBuilder *builder, const cp_set_key *key,
                     cp_values *values)
{
    set_slot *place = find_set_slot(s, key);
    if (place->key.words[0])
        return 0; /* refused before */
    if (s->count * 2 >= s->capacity) {
        if (!grow_set_slots(s))
            return 0;
        place = find_set_slot(s, key);
    }
    *place = (set_slot){*key, register_set(builder, values)};
    s->count++;
    if (place->set)
        values->count = 0;
    return place->set;
}
