/* Hash tables of a reading thread: raw texts and places (pid, tid) of the file to numbers.
 * A number stays valid for the life of the thread's kt_batch, so a text that occurs in many
 * batches is mapped to the trace once. The hash is seeded with a secret, because texts come
 * from files. */
#include "trace/read/batch.h"

struct kt_text_slot {
    uint64_t hash;
    const char *data;
    uint32_t size;
    uint32_t number; /* + 1; 0: free */
};

/* ---- hashing --------------------------------------------------------------------------------- */

/* One step of wyhash: the 128-bit product, folded. */
KB_INLINE uint64_t fold_product(uint64_t a, uint64_t b)
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

/* The first `size` (< 8) bytes of a word; eight are read. */
KB_INLINE uint64_t first_word_bytes(const char *p, size_t size)
{
#if defined(__BYTE_ORDER__) && __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
    return size ? kt_word(p) >> (64 - 8 * size) : 0;
#else
    return size ? kt_word(p) << (64 - 8 * size) : 0;
#endif
}

/* Reads at least 8 bytes after the text: more of the file, or the zeros after it. */
KB_INLINE uint64_t hash_text(uint64_t seed, const char *p, size_t size)
{
    uint64_t h = seed ^ size * UINT64_C(0xa0761d6478bd642f);
    for (; size >= 16; p += 16, size -= 16)
        h = fold_product(kt_word(p) ^ h, kt_word(p + 8) ^ UINT64_C(0xe7037ed1a0b428db));
    if (size >= 8) {
        h = fold_product(kt_word(p) ^ h, UINT64_C(0x8ebc6af09c88c6e3));
        p += 8;
        size -= 8;
    }
    return fold_product(first_word_bytes(p, size) ^ h, UINT64_C(0x589965cc75374cc3));
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

/* Doubles the table; false: out of memory. */
static bool grow_texts(kt_texts *t)
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

/* Adds a text that is not in the table; KT_UNKNOWN: out of memory. */
static KB_NOINLINE uint32_t add_text(kt_batch *p, kineto_string raw, uint64_t hash)
{
    kt_texts *t = &p->texts;
    uint32_t number = (uint32_t)t->list.count;
    char *copy = kb_arena_alloc(&t->arena, raw.size + 8, 1); /* hashing reads 8 bytes more */
    if (!copy || number >= KT_UNKNOWN - 1 || raw.size > UINT32_MAX ||
        (t->list.count + 1 > t->size / 2 && !grow_texts(t)) ||
        !kb_vec_push(&p->uses, (kt_text_use){KT_UNKNOWN, KT_UNKNOWN, -2, false, false}) ||
        !kb_vec_push(&t->list, (kineto_string){copy, raw.size})) {
        p->out_of_memory = true;
        return KT_UNKNOWN;
    }
    KB_ASSERT(p->uses.count == t->list.count && t->list.count <= t->size / 2 + 1);
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
    uint64_t hash = hash_text(t->seed, raw.data, raw.size);
    for (size_t at = hash & (t->size - 1); t->slots[at].number; at = (at + 1) & (t->size - 1)) {
        const struct kt_text_slot *s = &t->slots[at];
        if (s->hash == hash && s->size == raw.size && kt_same_bytes(s->data, raw.data, raw.size))
            return s->number - 1;
    }
    return add_text(p, raw, hash);
}

/* True if a text cannot be written without escapes. */
static bool text_needs_escapes(kineto_string s)
{
    for (size_t i = 0; i < s.size; i++)
        if (s.data[i] == '\\' || s.data[i] == '"' || (unsigned char)s.data[i] < 0x20)
            return true;
    return false;
}

/* A copy without escapes, or the text itself if it needs them. */
static KB_COLD kineto_string copy_without_escapes(kt_batch *p, kineto_string raw)
{
    uint64_t replaced = 0;
    char *copy = kb_arena_alloc(&p->texts.arena, raw.size + 8, 1); /* hashing reads 8 bytes more */
    if (!copy)
        return raw;
    char *end = kt_json_unescape(copy, raw, &replaced);
    memset(end, 0, 8);
    kineto_string plain = {copy, (size_t)(end - copy)};
    bool quoted = kt_json_is_string(raw) && plain.size > 1;
    return replaced || text_needs_escapes(quoted ? kt_json_inside(plain) : plain) ? raw : plain;
}

kineto_string kt_batch_plain_text(kt_batch *p, kineto_string raw)
{
    return raw.size && memchr(raw.data, '\\', raw.size) ? copy_without_escapes(p, raw) : raw;
}

/* ---- places ---------------------------------------------------------------------------------- */

KB_INLINE bool is_same_place(const kt_place *a, kineto_string pid, kineto_string tid, uint32_t type)
{
    return a->type == type && a->pid.size == pid.size && a->tid.size == tid.size &&
           kt_same_bytes(a->pid.data, pid.data, pid.size) &&
           kt_same_bytes(a->tid.data, tid.data, tid.size);
}

static uint64_t hash_place(const kt_batch *p, kineto_string pid, kineto_string tid, uint32_t type)
{
    uint64_t h = hash_text(p->texts.seed + type, pid.data, pid.size);
    return hash_text(h, tid.data, tid.size);
}

/* Doubles the table; false: out of memory. */
static bool grow_places(kt_batch *p)
{
    size_t size = p->place_slots_size * 2;
    uint32_t *slots = calloc(size, sizeof *slots);
    if (!slots)
        return false;
    for (uint32_t i = 0; i < p->places.count; i++) {
        const kt_place *place = &p->places.data[i];
        size_t at = hash_place(p, place->pid, place->tid, place->type) & (size - 1);
        while (slots[at])
            at = (at + 1) & (size - 1);
        slots[at] = i + 1;
    }
    free(p->place_slots);
    p->place_slots = slots;
    p->place_slots_size = size;
    return true;
}

/* A copy with 8 zeros after it, for hashing; data NULL: out of memory. */
static kineto_string copy_place_text(kt_batch *p, kineto_string raw)
{
    char *copy = kb_arena_alloc(&p->texts.arena, raw.size + 8, 1);
    if (!copy)
        return (kineto_string){NULL, 0};
    memcpy(copy, raw.data, raw.size);
    memset(copy + raw.size, 0, 8);
    return (kineto_string){copy, raw.size};
}

/* Adds a place that is not in the table; KT_UNKNOWN: out of memory. */
static KB_NOINLINE uint32_t add_place(kt_batch *p, kineto_string pid, kineto_string tid,
                                      uint32_t type)
{
    kt_place place = {.pid = copy_place_text(p, pid),
                      .tid = copy_place_text(p, tid),
                      .type = type,
                      .process = KT_UNKNOWN,
                      .track = KT_UNKNOWN};
    if (!place.pid.data || !place.tid.data ||
        (p->places.count + 1 > p->place_slots_size / 2 && !grow_places(p)) ||
        !kb_vec_push(&p->places, place)) {
        p->out_of_memory = true;
        return KT_UNKNOWN;
    }
    size_t mask = p->place_slots_size - 1, at = hash_place(p, pid, tid, type) & mask;
    while (p->place_slots[at])
        at = (at + 1) & mask;
    p->place_slots[at] = (uint32_t)p->places.count;
    return (uint32_t)p->places.count - 1;
}

uint32_t kt_place_number(kt_batch *p, kineto_string pid, kineto_string tid, uint32_t type)
{
    if (p->last_place < p->places.count &&
        is_same_place(&p->places.data[p->last_place], pid, tid, type))
        return p->last_place;
    size_t mask = p->place_slots_size - 1;
    for (size_t at = hash_place(p, pid, tid, type) & mask; p->place_slots[at];
         at = (at + 1) & mask) {
        uint32_t number = p->place_slots[at] - 1;
        if (is_same_place(&p->places.data[number], pid, tid, type))
            return p->last_place = number;
    }
    return p->last_place = add_place(p, pid, tid, type);
}
