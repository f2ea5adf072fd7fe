/* Interned texts, and sites for texts that recur. The address of a text proves nothing, because the
 * memory may have been overwritten or its library closed: it only selects a cache slot, and the
 * bytes decide. A text gets a site when the same bytes have come from the same address twice, which
 * is true for literals but not for texts that are made for one event. */
#include "annotations.h"

#include <errno.h>
#include <sched.h>
#include <sys/mman.h>

/* ---- memory ---------------------------------------------------------------------------------- */

#define PIECE_BYTES       (UINT32_C(256) << 10)
#define MAX_PIECES        128u /* 32 MiB in all */
#define MAX_LOCK_ATTEMPTS 20000u

static atomic_bool locked;
/* A signal handler must not wait for its own thread. */
static __thread bool holds_lock CN_TLS;
static char *current_piece;
static size_t piece_left;
static uint32_t piece_count;

bool cn_tables_lock(void)
{
    for (uint32_t turns = 0; turns < MAX_LOCK_ATTEMPTS && !holds_lock; turns++) {
        if (!atomic_exchange_explicit(&locked, true, memory_order_acquire)) {
            holds_lock = true;
            return true;
        }
        (void)sched_yield();
    }
    return false;
}

void cn_tables_unlock(void)
{
    holds_lock = false;
    atomic_store_explicit(&locked, false, memory_order_release);
}

/* Maps the next piece of permanent memory; errno is unchanged. False: the limit is reached. */
static bool map_piece(void)
{
    int saved = errno;
    void *map = piece_count < MAX_PIECES ? mmap(NULL, PIECE_BYTES, PROT_READ | PROT_WRITE,
                                                MAP_PRIVATE | MAP_ANONYMOUS, -1, 0)
                                         : MAP_FAILED;
    errno = saved;
    if (map == MAP_FAILED)
        return false;
    piece_count++;
    current_piece = map;
    piece_left = PIECE_BYTES;
    return true;
}

void *cn_alloc_permanent(size_t bytes)
{
    bytes = (bytes + 15) & ~(size_t)15;
    if (bytes > PIECE_BYTES || (bytes > piece_left && !map_piece()))
        return NULL;
    void *kept = current_piece;
    current_piece += bytes;
    piece_left -= bytes;
    return kept;
}

/* ---- names ----------------------------------------------------------------------------------- */

#define TABLE_SLOTS (2 * CN_MAX_NAMES)
#define SEEN_BITS   12

static _Atomic(cn_name *) names_by_index[CN_MAX_NAMES], name_table[TABLE_SLOTS];
static atomic_uint name_count;
static _Atomic(const cn_name *) by_address[1 << SEEN_BITS];
static atomic_uint seen_hashes[1 << SEEN_BITS];
static atomic_uint site_count, site_bytes;

static uint64_t load_word(const char *data)
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

/* Reads eight bytes at a time; names are hashed on the path of events. */
static uint64_t hash_name(const char *text, size_t size)
{
    uint64_t hash = UINT64_C(0x9e3779b97f4a7c15) ^ size, last = 0;
    for (; size >= 8; text += 8, size -= 8)
        hash = hash_step(hash, load_word(text));
    memcpy(&last, text, size);
    return hash_step(hash, last);
}

/* The name with these bytes; NULL: none, *slot is the free one. Names are only added, so that
 * readers need no lock. */
static const cn_name *find_text_name(const char *text, size_t size, uint64_t hash, uint32_t *slot)
{
    for (*slot = (uint32_t)hash % TABLE_SLOTS;; *slot = (*slot + 1) % TABLE_SLOTS) {
        const cn_name *name = atomic_load_explicit(&name_table[*slot], memory_order_acquire);
        if (!name ||
            (name->hash == hash && name->size == size && memcmp(name->text, text, size) == 0))
            return name;
    }
}

/* Adds a name; the caller holds the lock. Stored in the table last, which publishes it. NULL: no
 * memory or space. */
static const cn_name *add_text_name(const char *text, size_t size, uint64_t hash)
{
    uint32_t slot, count = atomic_load(&name_count);
    const cn_name *there = find_text_name(text, size, hash, &slot);
    if (there || count == CN_MAX_NAMES)
        return there;
    cn_name *name = cn_alloc_permanent(sizeof *name + size + 1);
    if (!name)
        return NULL;
    name->hash = hash;
    name->size = (uint32_t)size;
    name->index = count;
    memcpy(name->text, text, size);
    name->text[size] = 0;
    atomic_store(&name->places, NULL);
    atomic_store_explicit(&names_by_index[count], name, memory_order_release);
    atomic_store_explicit(&name_count, count + 1, memory_order_release);
    atomic_store_explicit(&name_table[slot], name, memory_order_release);
    return name;
}

const cn_name *cn_name_intern(const char *text, size_t size)
{
    uint32_t slot;
    size = CN_MIN(size, CN_MAX_TEXT);
    uint64_t hash = hash_name(text, size);
    const cn_name *name = find_text_name(text, size, hash, &slot);
    if (name || !cn_tables_lock())
        return name;
    name = add_text_name(text, size, hash);
    cn_tables_unlock();
    return name;
}

const cn_name *cn_name_from_handle(cn_handle handle)
{
    uintptr_t number = (uintptr_t)handle;
    if (!number)
        return NULL;
    if (number <= atomic_load_explicit(&name_count, memory_order_acquire))
        return atomic_load_explicit(&names_by_index[number - 1], memory_order_acquire);
    cn_count(CN_TALLY_HANDLE);
    return NULL;
}

static bool are_sites_full(void)
{
    return atomic_load_explicit(&site_count, memory_order_relaxed) >= CN_MAX_NAMED_SITES ||
           atomic_load_explicit(&site_bytes, memory_order_relaxed) >= CN_MAX_SITE_BYTES - 4096;
}

/* Called when the cache slot of an address has another text. Interns the text if the slot saw the
 * same hash before; else remembers the hash. */
static CN_NOINLINE const cn_name *intern_recurring_text(const char *text, size_t slot)
{
    size_t size = strlen(text);
    uint32_t at;
    uint64_t hash = hash_name(text, size);
    const cn_name *name = find_text_name(text, size, hash, &at);
    unsigned short_hash = (unsigned)(hash >> 32) | 1;
    if (!name) {
        if (atomic_load_explicit(&seen_hashes[slot], memory_order_relaxed) != short_hash) {
            atomic_store_explicit(&seen_hashes[slot], short_hash, memory_order_relaxed);
            return NULL;
        }
        if (size > 255 || are_sites_full())
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
    return intern_recurring_text(text, slot);
}

/* ---- sites ----------------------------------------------------------------------------------- */

/* A name has few shapes: a list suffices. */
static cn_named_site *find_named_site(const cn_name *name, const cn_shape *shape)
{
    cn_named_site *place = atomic_load_explicit(&name->places, memory_order_acquire);
    while (place && place->shape != shape)
        place = place->next;
    return place;
}

/* Adds a site; the caller holds the lock. NULL: a limit is reached, or the name contains a NUL,
 * which sites cannot. */
static cn_named_site *add_named_site(cn_name *name, const cn_shape *shape)
{
    cn_named_site *place = find_named_site(name, shape);
    if (place || strlen(name->text) != name->size)
        return place;
    uint32_t bytes = 32 + name->size + shape->bytes;
    place = atomic_load(&site_bytes) + bytes <= CN_MAX_SITE_BYTES
                ? cn_alloc_permanent(sizeof *place)
                : NULL;
    if (!place)
        return NULL;
    atomic_fetch_add(&site_bytes, bytes);
    *place = (cn_named_site){shape,
                             atomic_load(&name->places),
                             {.kind = KINETO_KIND_USER_ANNOTATION,
                              .arg_count = shape->site.arg_count,
                              .name = name->text,
                              .args = shape->args}};
    atomic_store_explicit(&name->places, place, memory_order_release);
    atomic_fetch_add(&site_count, 1);
    return place;
}

/* add_named_site under the lock. */
static CN_NOINLINE kineto_site *create_named_site(const cn_name *name, const cn_shape *shape)
{
    if (are_sites_full() || !cn_tables_lock())
        return NULL;
    cn_named_site *place = add_named_site((cn_name *)(uintptr_t)name, shape);
    cn_tables_unlock();
    return place ? &place->site : NULL;
}

kineto_site *cn_get_named_site(const cn_name *name, const cn_shape *shape)
{
    cn_named_site *place = find_named_site(name, shape);
    return CN_LIKELY(place != NULL) ? &place->site : create_named_site(name, shape);
}
