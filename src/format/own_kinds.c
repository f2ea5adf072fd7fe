/* Kinds that plug-ins announce: the table of the control page. Part of libckineto-rt. Lock-free,
 * since processes that share it may be killed anywhere; and each entry is checked when it is read,
 * since every recorded process can write there. An entry goes FREE → WRITING → VALID and never
 * changes again. */
#include "format/format.h"

#include <sched.h>

enum { OWN_FREE = 0, OWN_WRITING = 1, OWN_VALID = 2 };
enum { MAX_YIELDS = 1000 }; /* while another thread or process is writing an entry */

static bool is_own_kind_name(const char *name, size_t size)
{
    for (size_t i = 0; i < size; i++) {
        char c = name[i];
        if (!kb_is_lower(c) && !kb_is_digit(c) && c != '_')
            return false;
    }
    return size > 0 && size < KF_OWN_NAME;
}

const kf_own_kind *kf_own_kind_at(const kf_own_kind *table, uint32_t kind)
{
    if (!table || kind - KINETO_KIND_OWN_FIRST >= KINETO_KIND_OWN_COUNT)
        return NULL;
    const kf_own_kind *k = &table[kind - KINETO_KIND_OWN_FIRST];
    if (kb_load_acquire(&k->state) != OWN_VALID || k->like >= KINETO_KIND_COUNT)
        return NULL;
    return is_own_kind_name(k->name, strnlen(k->name, KF_OWN_NAME)) ? k : NULL;
}

static bool has_own_kind_name(const kf_own_kind *k, kineto_string name)
{
    return strnlen(k->name, KF_OWN_NAME) == name.size && memcmp(k->name, name.data, name.size) == 0;
}

/* The state of an entry, after waiting for another writer. It stays WRITING if that writer has
 * died. */
static uint32_t wait_settled_state(const kf_own_kind *k)
{
    uint32_t state = kb_load_acquire(&k->state);
    for (int i = 0; state == OWN_WRITING && i < MAX_YIELDS; i++) {
        (void)sched_yield();
        state = kb_load_acquire(&k->state);
    }
    return state;
}

/* FREE → WRITING → VALID. False: another writer was faster. */
static bool write_own_kind(kf_own_kind *k, kineto_string name, uint32_t like, bool by_default)
{
    uint32_t state = OWN_FREE;
    KB_ASSERT(name.size > 0 && name.size < KF_OWN_NAME && like < KINETO_KIND_COUNT);
    if (!kb_cas_acqrel(&k->state, &state, OWN_WRITING))
        return false;
    k->like = (uint8_t)like;
    k->by_default = by_default;
    memset(k->name, 0, sizeof k->name);
    memcpy(k->name, name.data, name.size);
    kb_store_release(&k->state, (uint32_t)OWN_VALID);
    return true;
}

uint32_t kf_own_kind_add(kf_own_kind *table, kineto_string name, uint32_t like, bool by_default)
{
    if (!table || like >= KINETO_KIND_COUNT || !is_own_kind_name(name.data, name.size))
        return 0;
    for (uint32_t i = 0; i < KINETO_KIND_OWN_COUNT; i++) {
        kf_own_kind *k = &table[i];
        if (kb_load_acquire(&k->state) == OWN_FREE && write_own_kind(k, name, like, by_default))
            return KINETO_KIND_OWN_FIRST + i;
        if (wait_settled_state(k) == OWN_VALID && has_own_kind_name(k, name))
            return KINETO_KIND_OWN_FIRST + i;
    }
    return 0;
}

uint32_t kf_own_kind_find(const kf_own_kind *table, kineto_string name)
{
    char lower[KF_OWN_NAME];
    if (name.size == 0 || name.size >= sizeof lower)
        return 0;
    for (size_t i = 0; i < name.size; i++)
        lower[i] = kb_lower(name.data[i]);
    kineto_string wanted = {lower, name.size};
    const uint32_t end = KINETO_KIND_OWN_FIRST + KINETO_KIND_OWN_COUNT;
    for (uint32_t kind = KINETO_KIND_OWN_FIRST; kind < end; kind++) {
        const kf_own_kind *k = kf_own_kind_at(table, kind);
        if (k && has_own_kind_name(k, wanted))
            return kind;
    }
    return 0;
}

bool kf_kind_wanted(const kf_own_kind *table, uint64_t mask, uint32_t kind)
{
    if (kind < KINETO_KIND_COUNT)
        return (mask & KINETO_KIND_BIT(kind)) != 0;
    if (kind - KINETO_KIND_OWN_FIRST >= KINETO_KIND_OWN_COUNT)
        return false;
    if (mask & KINETO_KIND_BIT(kind))
        return true;
    const kf_own_kind *k = kf_own_kind_at(table, kind);
    return k && k->by_default && (mask & KINETO_KIND_BIT(KINETO_KIND_OWN_DEFAULT));
}
