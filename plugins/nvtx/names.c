/* Texts, kept once, and sites for texts that come again.
 *
 * A text's address says nothing: what stood there may have been overwritten, or its library closed.
 * So it only says where to look, and the bytes decide. A text gets a site when the same bytes came
 * from the same address twice, which literals do and texts that are made for one event do not.
 */
#include "nvtx.h"

#include <errno.h>
#include <sched.h>
#include <sys/mman.h>

/* ---- memory ------------------------------------------------------------------------------------ */

#define PIECE_BYTES (UINT32_C(256) << 10)
#define MAX_PIECES  128u /* 32 MiB */
#define PATIENCE    20000u

static atomic_bool locked;
static __thread bool mine
    CN_TLS; /* a signal handler that interrupts its own thread must not wait */
static char *piece;
static size_t piece_left;
static uint32_t pieces;

bool cn_lock_take(void)
{
    for (uint32_t turns = 0; turns < PATIENCE && !mine; turns++) {
        if (!atomic_exchange_explicit(&locked, true, memory_order_acquire)) {
            mine = true;
            return true;
        }
        (void)sched_yield();
    }
    return false;
}

void cn_lock_give(void)
{
    mine = false;
    atomic_store_explicit(&locked, false, memory_order_release);
}

static bool piece_add(void)
{
    int saved = errno;
    void *map = pieces < MAX_PIECES ? mmap(NULL, PIECE_BYTES, PROT_READ | PROT_WRITE,
                                           MAP_PRIVATE | MAP_ANONYMOUS, -1, 0)
                                    : MAP_FAILED;
    errno = saved;
    if (map == MAP_FAILED)
        return false;
    pieces++;
    piece = map;
    piece_left = PIECE_BYTES;
    return true;
}

void *cn_keep(size_t bytes)
{
    bytes = (bytes + 15) & ~(size_t)15;
    if (bytes > PIECE_BYTES || (bytes > piece_left && !piece_add()))
        return NULL;
    void *kept = piece;
    piece += bytes;
    piece_left -= bytes;
    return kept;
}

/* ---- names ------------------------------------------------------------------------------------- */

#define TABLE_SLOTS (2 * CN_MAX_NAMES)
#define SEEN_BITS   12

static _Atomic(cn_name *) names[CN_MAX_NAMES], table[TABLE_SLOTS];
static atomic_uint name_count;
static _Atomic(const cn_name *) by_address[1 << SEEN_BITS];
static atomic_uint seen[1 << SEEN_BITS];
static atomic_uint place_count, place_bytes;

static uint64_t word_at(const char *data)
{
    uint64_t w;
    memcpy(&w, data, sizeof w);
    return w;
}

static uint64_t hash_step(uint64_t hash, uint64_t word)
{
    hash = (hash ^ word) * UINT64_C(0xff51afd7ed558ccd);
    return hash ^ hash >> 32;
}

static uint64_t hash_of(const char *text, size_t size)
{
    uint64_t hash = UINT64_C(0x9e3779b97f4a7c15) ^ size, last = 0;
    for (; size >= 8; text += 8, size -= 8)
        hash = hash_step(hash, word_at(text));
    memcpy(&last, text, size);
    return hash_step(hash, last);
}

/* Names are only ever added, so that readers need no lock. */
static const cn_name *find(const char *text, size_t size, uint64_t hash, uint32_t *slot)
{
    for (*slot = (uint32_t)hash % TABLE_SLOTS;; *slot = (*slot + 1) % TABLE_SLOTS) {
        const cn_name *name = atomic_load_explicit(&table[*slot], memory_order_acquire);
        if (!name ||
            (name->hash == hash && name->size == size && memcmp(name->text, text, size) == 0))
            return name;
    }
}

static const cn_name *add(const char *text, size_t size, uint64_t hash)
{
    uint32_t slot, count = atomic_load(&name_count);
    const cn_name *there = find(text, size, hash, &slot);
    if (there || count == CN_MAX_NAMES)
        return there;
    cn_name *name = cn_keep(sizeof *name + size + 1);
    if (!name)
        return NULL;
    name->hash = hash;
    name->size = (uint32_t)size;
    name->index = count;
    memcpy(name->text, text, size);
    name->text[size] = 0;
    atomic_store(&name->places, NULL);
    atomic_store_explicit(&names[count], name, memory_order_release);
    atomic_store_explicit(&name_count, count + 1, memory_order_release);
    atomic_store_explicit(&table[slot], name, memory_order_release);
    return name;
}

const cn_name *cn_name_intern(const char *text, size_t size)
{
    uint32_t slot;
    size = CN_MIN(size, CN_MAX_TEXT);
    uint64_t hash = hash_of(text, size);
    const cn_name *name = find(text, size, hash, &slot);
    if (name || !cn_lock_take())
        return name;
    name = add(text, size, hash);
    cn_lock_give();
    return name;
}

const cn_name *cn_name_of(cn_handle handle)
{
    uintptr_t number = (uintptr_t)handle;
    if (!number)
        return NULL;
    if (number <= atomic_load_explicit(&name_count, memory_order_acquire))
        return atomic_load_explicit(&names[number - 1], memory_order_acquire);
    cn_count(CN_TALLY_HANDLE);
    return NULL;
}

static bool places_are_full(void)
{
    return atomic_load_explicit(&place_count, memory_order_relaxed) >= CN_MAX_PLACES ||
           atomic_load_explicit(&place_bytes, memory_order_relaxed) >= CN_PLACE_BYTES - 4096;
}

static CN_APART const cn_name *name_second_time(const char *text, size_t slot)
{
    size_t size = strlen(text);
    uint32_t at;
    uint64_t hash = hash_of(text, size);
    const cn_name *name = find(text, size, hash, &at);
    unsigned short_hash = (unsigned)(hash >> 32) | 1;
    if (!name) {
        if (atomic_load_explicit(&seen[slot], memory_order_relaxed) != short_hash) {
            atomic_store_explicit(&seen[slot], short_hash, memory_order_relaxed);
            return NULL;
        }
        if (size > 255 || places_are_full())
            return NULL;
        name = cn_name_intern(text, size);
    }
    if (name)
        atomic_store_explicit(&by_address[slot], name, memory_order_release);
    return name;
}

const cn_name *cn_name_seen(const char *text)
{
    size_t slot = ((uint64_t)(uintptr_t)text * UINT64_C(0x9e3779b97f4a7c15)) >> (64 - SEEN_BITS);
    const cn_name *name = atomic_load_explicit(&by_address[slot], memory_order_acquire);
    if (CN_LIKELY(name && strcmp(name->text, text) == 0))
        return name;
    return name_second_time(text, slot);
}

/* ---- sites ------------------------------------------------------------------------------------- */

static cn_place *place_find(const cn_name *name, const cn_shape *shape)
{
    cn_place *place = atomic_load_explicit(&name->places, memory_order_acquire);
    while (place && place->shape != shape)
        place = place->next;
    return place;
}

static cn_place *place_add(cn_name *name, const cn_shape *shape)
{
    cn_place *place = place_find(name, shape);
    if (place || strlen(name->text) != name->size)
        return place;
    uint32_t bytes = 32 + name->size + shape->bytes;
    place = atomic_load(&place_bytes) + bytes <= CN_PLACE_BYTES ? cn_keep(sizeof *place) : NULL;
    if (!place)
        return NULL;
    atomic_fetch_add(&place_bytes, bytes);
    *place = (cn_place){shape,
                        atomic_load(&name->places),
                        {.kind = KINETO_KIND_USER_ANNOTATION,
                         .arg_count = shape->site.arg_count,
                         .name = name->text,
                         .args = shape->args}};
    atomic_store_explicit(&name->places, place, memory_order_release);
    atomic_fetch_add(&place_count, 1);
    return place;
}

static CN_APART kineto_site *place_new(const cn_name *name, const cn_shape *shape)
{
    if (places_are_full() || !cn_lock_take())
        return NULL;
    cn_place *place = place_add((cn_name *)(uintptr_t)name, shape);
    cn_lock_give();
    return place ? &place->site : NULL;
}

kineto_site *cn_place_site(const cn_name *name, const cn_shape *shape)
{
    cn_place *place = place_find(name, shape);
    return CN_LIKELY(place != NULL) ? &place->site : place_new(name, shape);
}

/* ---- wide texts -------------------------------------------------------------------------------- */

/* Returns how many bytes: at most 4. What is no character becomes U+FFFD. */
static size_t utf8_put(uint32_t c, char out[4])
{
    if (c > 0x10ffff || (c >= 0xd800 && c < 0xe000))
        c = 0xfffd;
    if (c < 0x80) {
        out[0] = (char)c;
        return 1;
    }
    size_t more = c < 0x800 ? 1 : c < 0x10000 ? 2 : 3;
    static const unsigned char first[] = {0, 0xc0, 0xe0, 0xf0};
    out[0] = (char)(first[more] | c >> (6 * more));
    for (size_t i = 1; i <= more; i++)
        out[i] = (char)(0x80 | (c >> (6 * (more - i)) & 0x3f));
    return more + 1;
}

static uint32_t unit_at(const char *from, size_t i, unsigned width)
{
    uint16_t half;
    uint32_t whole;
    if (width == 1)
        return (unsigned char)from[i];
    if (width == 2) {
        memcpy(&half, from + 2 * i, sizeof half);
        return half;
    }
    memcpy(&whole, from + 4 * i, sizeof whole);
    return whole;
}

bool cn_text_from_units(const void *from, size_t count, unsigned width, char *to, size_t room)
{
    size_t used = 0;
    for (size_t i = 0; i < count; i++) {
        char bytes[4];
        uint32_t c = unit_at(from, i, width);
        if (!c)
            break;
        if (width == 2 && c >= 0xd800 && c < 0xdc00 && i + 1 < count) {
            uint32_t low = unit_at(from, i + 1, width);
            if (low >= 0xdc00 && low < 0xe000) {
                c = 0x10000 + ((c - 0xd800) << 10) + (low - 0xdc00);
                i++;
            }
        }
        size_t size = utf8_put(c, bytes);
        if (used + size >= room) {
            to[used] = 0;
            return false;
        }
        memcpy(to + used, bytes, size);
        used += size;
    }
    to[used] = 0;
    return true;
}

bool cn_text_from_wide(const wchar_t *from, char *to, size_t room)
{
    size_t count = 0; /* no further than what can be kept */
    while (count < room && from[count])
        count++;
    return cn_text_from_units(from, count, sizeof *from, to, room);
}
