/* Texts and places of a reading thread: raw bytes of the file → numbers, by hash. */
#include "trace/read/batch.h"

struct kt_text_slot {
    uint64_t hash;
    const char *data;
    uint32_t size;
    uint32_t number; /* + 1; 0: free */
};

/* ---- hashing --------------------------------------------------------------------------------- */

KB_INLINE uint64_t mix(uint64_t a, uint64_t b)
{
#if defined(__SIZEOF_INT128__)
    __extension__ typedef unsigned __int128 wide;
    wide product = (wide)a * b;
    return (uint64_t)product ^ (uint64_t)(product >> 64);
#else
    uint64_t h = (a ^ b >> 29) * UINT64_C(0x9e3779b97f4a7c15);
    return h ^ h >> 31;
#endif
}

/* The first `size` (< 8) bytes; eight may be read. */
KB_INLINE uint64_t part_of_word(const char *p, size_t size)
{
#if defined(__BYTE_ORDER__) && __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
    return size ? kt_word(p) >> (64 - 8 * size) : 0;
#else
    return size ? kt_word(p) << (64 - 8 * size) : 0;
#endif
}

/* At least 8 bytes behind the text may be read: more of the file, or the zeros behind it. */
KB_INLINE uint64_t hash_of(uint64_t seed, const char *p, size_t size)
{
    uint64_t h = seed ^ size * UINT64_C(0xa0761d6478bd642f);
    for (; size >= 16; p += 16, size -= 16)
        h = mix(kt_word(p) ^ h, kt_word(p + 8) ^ UINT64_C(0xe7037ed1a0b428db));
    if (size >= 8) {
        h = mix(kt_word(p) ^ h, UINT64_C(0x8ebc6af09c88c6e3));
        p += 8;
        size -= 8;
    }
    return mix(part_of_word(p, size) ^ h, UINT64_C(0x589965cc75374cc3));
}

/* ---- texts ----------------------------------------------------------------------------------- */

bool kt_texts_init(kt_batch *p, uint64_t seed)
{
    kt_texts *t = &p->texts;
    t->seed = seed;
    t->size = 4096;
    t->slots = calloc(t->size, sizeof *t->slots);
    p->place_slots_size = 64;
    p->place_slots = calloc(p->place_slots_size, sizeof *p->place_slots);
    return t->slots && p->place_slots;
}

void kt_texts_free(kt_batch *p)
{
    free(p->texts.slots);
    kb_vec_free(&p->texts.list);
    kb_arena_free(&p->texts.arena);
    kb_vec_free(&p->uses);
    kb_vec_free(&p->new_names);
    kb_vec_free(&p->new_categories);
    kb_vec_free(&p->new_places);
    kb_vec_free(&p->blocks);
    kb_vec_free(&p->places);
    free(p->place_slots);
}

static bool texts_grow(kt_texts *t)
{
    size_t size = t->size * 2;
    struct kt_text_slot *slots = calloc(size, sizeof *slots);
    if (!slots)
        return false;
    for (size_t i = 0; i < t->size; i++) {
        if (!t->slots[i].number)
            continue;
        size_t at = t->slots[i].hash & (size - 1);
        while (slots[at].number)
            at = (at + 1) & (size - 1);
        slots[at] = t->slots[i];
    }
    free(t->slots);
    t->slots = slots;
    t->size = size;
    return true;
}

static KB_NOINLINE uint32_t text_add(kt_batch *p, kineto_string raw, uint64_t hash)
{
    kt_texts *t = &p->texts;
    uint32_t number = (uint32_t)t->list.count;
    char *copy = kb_arena_alloc(&t->arena, raw.size + 8, 1); /* 8: for hashing */
    if (!copy || number >= KT_UNKNOWN - 1 || raw.size > UINT32_MAX ||
        (t->list.count + 1 > t->size / 2 && !texts_grow(t)) ||
        !kb_vec_push(&p->uses, (kt_text_use){KT_UNKNOWN, KT_UNKNOWN, -2, false, false}) ||
        !kb_vec_push(&t->list, (kineto_string){copy, raw.size})) {
        p->out_of_memory = true;
        return KT_UNKNOWN;
    }
    memcpy(copy, raw.data, raw.size);
    memset(copy + raw.size, 0, 8);
    size_t at = hash & (t->size - 1);
    while (t->slots[at].number)
        at = (at + 1) & (t->size - 1);
    t->slots[at] = (struct kt_text_slot){hash, copy, (uint32_t)raw.size, number + 1};
    return number;
}

uint32_t kt_text_number(kt_batch *p, kineto_string raw)
{
    const kt_texts *t = &p->texts;
    uint64_t hash = hash_of(t->seed, raw.data, raw.size);
    for (size_t at = hash & (t->size - 1); t->slots[at].number; at = (at + 1) & (t->size - 1)) {
        const struct kt_text_slot *s = &t->slots[at];
        if (s->hash == hash && s->size == raw.size && kt_same_bytes(s->data, raw.data, raw.size))
            return s->number - 1;
    }
    return text_add(p, raw, hash);
}

/* Does a text need escapes? */
static bool needs_escapes(kineto_string s)
{
    for (size_t i = 0; i < s.size; i++)
        if (s.data[i] == '\\' || s.data[i] == '"' || (unsigned char)s.data[i] < 0x20)
            return true;
    return false;
}

static KB_COLD kineto_string plain_copy(kt_batch *p, kineto_string raw)
{
    uint64_t replaced = 0;
    char *copy = kb_arena_alloc(&p->texts.arena, raw.size + 8, 1); /* 8: for hashing */
    if (!copy)
        return raw;
    char *end = kt_json_unescape(copy, raw, &replaced);
    memset(end, 0, 8);
    kineto_string plain = {copy, (size_t)(end - copy)};
    bool quoted = kt_json_is_string(raw) && plain.size > 1;
    return replaced || needs_escapes(quoted ? kt_json_inside(plain) : plain) ? raw : plain;
}

kineto_string kt_plain(kt_batch *p, kineto_string raw)
{
    return raw.size && memchr(raw.data, '\\', raw.size) ? plain_copy(p, raw) : raw;
}

/* ---- places ---------------------------------------------------------------------------------- */

KB_INLINE bool same_place(const kt_place *a, kineto_string pid, kineto_string tid, uint32_t type)
{
    return a->type == type && a->pid.size == pid.size && a->tid.size == tid.size &&
           kt_same_bytes(a->pid.data, pid.data, pid.size) &&
           kt_same_bytes(a->tid.data, tid.data, tid.size);
}

static uint64_t place_hash(const kt_batch *p, kineto_string pid, kineto_string tid, uint32_t type)
{
    uint64_t h = hash_of(p->texts.seed + type, pid.data, pid.size);
    return hash_of(h, tid.data, tid.size);
}

static bool places_grow(kt_batch *p)
{
    size_t size = p->place_slots_size * 2;
    uint32_t *slots = calloc(size, sizeof *slots);
    if (!slots)
        return false;
    for (uint32_t i = 0; i < p->places.count; i++) {
        const kt_place *place = &p->places.data[i];
        size_t at = place_hash(p, place->pid, place->tid, place->type) & (size - 1);
        while (slots[at])
            at = (at + 1) & (size - 1);
        slots[at] = i + 1;
    }
    free(p->place_slots);
    p->place_slots = slots;
    p->place_slots_size = size;
    return true;
}

static kineto_string keep(kt_batch *p, kineto_string raw)
{
    char *copy = kb_arena_alloc(&p->texts.arena, raw.size + 8, 1);
    if (!copy)
        return (kineto_string){NULL, 0};
    memcpy(copy, raw.data, raw.size);
    memset(copy + raw.size, 0, 8);
    return (kineto_string){copy, raw.size};
}

static KB_NOINLINE uint32_t place_add(kt_batch *p, kineto_string pid, kineto_string tid,
                                      uint32_t type)
{
    kt_place place = {.pid = keep(p, pid),
                      .tid = keep(p, tid),
                      .type = type,
                      .process = KT_UNKNOWN,
                      .track = KT_UNKNOWN};
    if (!place.pid.data || !place.tid.data ||
        (p->places.count + 1 > p->place_slots_size / 2 && !places_grow(p)) ||
        !kb_vec_push(&p->places, place)) {
        p->out_of_memory = true;
        return KT_UNKNOWN;
    }
    size_t mask = p->place_slots_size - 1, at = place_hash(p, pid, tid, type) & mask;
    while (p->place_slots[at])
        at = (at + 1) & mask;
    p->place_slots[at] = (uint32_t)p->places.count;
    return (uint32_t)p->places.count - 1;
}

uint32_t kt_place_number(kt_batch *p, kineto_string pid, kineto_string tid, uint32_t type)
{
    if (p->last_place < p->places.count &&
        same_place(&p->places.data[p->last_place], pid, tid, type))
        return p->last_place;
    size_t mask = p->place_slots_size - 1;
    for (size_t at = place_hash(p, pid, tid, type) & mask; p->place_slots[at];
         at = (at + 1) & mask) {
        uint32_t number = p->place_slots[at] - 1;
        if (same_place(&p->places.data[number], pid, tid, type))
            return p->last_place = number;
    }
    return p->last_place = place_add(p, pid, tid, type);
}
