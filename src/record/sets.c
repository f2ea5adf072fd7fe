/* Metadata sets: values that many events share. A set is one ARGS entry of the dictionary, and the
 * record of an event holds its id. Plug-ins refer to a set by a number, 1 + its slot in a table of
 * the builder, so that the number given with an event can be checked. */
#include "record/announce.h"

typedef KinetoPlugin_TraceBuilderHandle handle;

#define SLOTS     8192u /* a power of two */
#define MAX_SETS  (SLOTS / 4 * 3)

struct kr_value_sets {
    uint32_t count;
    uint64_t
        slots[SLOTS];   /* hash:32 | id:32, 0: free; the number is 1 + the place. Never changes */
    kr_pending scratch; /* where a set is put together */
};

uint32_t kr_set_id(const kr_builder *b, uint32_t number)
{
    const kr_value_sets *sets = kb_load_acquire(&b->value_sets);
    return sets && number - 1 < SLOTS ? (uint32_t)kb_load_acquire(&sets->slots[number - 1]) : 0;
}

void kr_value_sets_free(kr_value_sets *sets)
{
    if (sets)
        kb_os_unmap(sets, sizeof *sets);
}

static uint32_t hash_set_words(const uint64_t *words, uint32_t count)
{
    uint64_t hash = UINT64_C(0x9e3779b97f4a7c15) ^ count;
    for (uint32_t i = 0; i < count; i++) {
        hash = (hash ^ words[i]) * UINT64_C(0xff51afd7ed558ccd);
        hash ^= hash >> 32;
    }
    return (uint32_t)hash;
}

/* Number of the set in `scratch`, which is registered if it is new; 0: no room (counted). With the
 * builder's lock; kr_set_id reads the slots without it. */
static uint32_t find_or_add_set(const kr_builder *b, kr_value_sets *sets)
{
    const uint64_t *words = sets->scratch.loose;
    uint32_t count = sets->scratch.loose_words, hash = hash_set_words(words, count), at = hash;
    for (uint64_t slot; (slot = sets->slots[at % SLOTS]) != 0; at++)
        if (slot >> 32 == hash &&
            kr_bytes_are((uint32_t)slot, (const char *)words, count * sizeof *words))
            return at % SLOTS + 1;
    kf_part part = {words, count * sizeof *words};
    uint32_t id =
        sets->count < MAX_SETS ? kf_dictionary_add(kr_pool_get(), KF_ENTRY_ARGS, &part, 1) : 0;
    if (!id) {
        (void)kr_refuse(b, KF_REASON_DICTIONARY_FULL);
        return 0;
    }
    KB_ASSERT(sets->count < MAX_SETS && !sets->slots[at % SLOTS]);
    sets->count++;
    kb_store_release(&sets->slots[at % SLOTS], (uint64_t)hash << 32 | id);
    return at % SLOTS + 1;
}

/* Pack all values or none: a plug-in whose set is refused gives the values with each event. */
static bool collect_set_values(const kr_builder *b, kr_pending *p,
                               const KinetoPlugin_Metadata *list, size_t count)
{
    p->loose_words = p->loose_count = 0;
    for (size_t i = 0; i < count; i++)
        if (!kr_loose_add(b, p, &list[i]))
            return false;
    return true;
}

/* Mapped with the first set: most sources have none. NULL: out of memory, or no pool. */
static kr_value_sets *get_value_sets(kr_builder *b)
{
    if (!b->value_sets)
        kb_store_release(&b->value_sets, (kr_value_sets *)kb_os_map(sizeof(kr_value_sets)));
    return kr_pool_get() ? b->value_sets : NULL;
}

static int register_value_set(kr_builder *b, const KinetoPlugin_Metadata *list, size_t count,
                              uint32_t *number)
{
    if (!list || !count || !number)
        return kr_refuse(b, KF_REASON_BAD_EVENT);
    if (!kr_lock_take(&b->lock))
        return 1;
    kr_value_sets *sets = get_value_sets(b);
    uint32_t found =
        sets && collect_set_values(b, &sets->scratch, list, count) ? find_or_add_set(b, sets) : 0;
    kb_lock_drop(&b->lock);
    if (found)
        *number = found;
    return found == 0;
}

int kr_register_metadata_set(handle *b, const KinetoPlugin_Metadata *list, size_t count,
                             uint32_t *number)
{
    kr_cursor *c = kr_builder_enter(b, KF_REASON_PLUGIN_ERROR);
    if (!c)
        return 1;
    int result = register_value_set(b, list, count, number);
    kr_plugin_exit(c);
    return result;
}
