/* The dictionary from the writer's side: registering sites, and interning strings. An entry, once
 * added, never changes or moves (format.h), so ids may be cached for the life of the pool. */
#include "record/cursor.h"

/* ---- sites ----------------------------------------------------------------------------------- */

#define KR_SITE_PARTS (2u + 2u * (KINETO_SITE_MAX_ARGS + 2u))

static bool is_single_word(uint32_t type)
{
    return type >= KINETO_ARG_INT && type <= KINETO_ARG_BOOL;
}

/* KR_SITE_… flags that choose the fast path for the site's args. */
static uint8_t flags_of_site(const kineto_site *site)
{
    if (kb_load_relaxed(&site->flags) & KR_SITE_OVERLOAD) /* set when the site was made */
        return KR_SITE_OVERLOAD;
    if (site->arg_count == 1 && site->args[0].type == KINETO_ARG_SHAPES)
        return KR_SITE_SHAPES;
    for (uint32_t i = 0; i < site->arg_count; i++)
        if (!is_single_word(site->args[i].type))
            return 0;
    return KR_SITE_FIXED;
}

uint32_t kr_site_id_slow(kr_cursor *c, kineto_site *site)
{
    uint32_t id = kb_load_acquire(&site->id);
    if (!id && (kb_load_relaxed(&site->flags) & KR_SITE_MUTED))
        id = kr_throttle_site(site);
    if (!id)
        id = kr_site_register(site);
    return c->inspect && id < KR_SITE_THROTTLED ? kr_throttle_inspect(c, site, id) : id;
}

uint32_t kr_site_register(kineto_site *site)
{
    const kf_pool *pool = kr_pool_get();
    if (!pool)
        return UINT32_MAX;
    uint32_t muted = kb_load_relaxed(&site->flags) & KR_SITE_MUTED ? kr_throttle_site_id(site) : 0;
    if (muted)
        return muted;
    uint32_t args = site->args ? KB_MIN(site->arg_count, KINETO_SITE_MAX_ARGS) : 0;
    if (args < site->arg_count) /* records must have the args of the entry, not more */
        kb_store_relaxed(&site->arg_count, (uint8_t)args);
    kf_site_entry entry = {site->kind, site->scope, (uint8_t)args, 0};
    uint8_t types[KINETO_SITE_MAX_ARGS] = {0};
    uint32_t sizes[KINETO_SITE_MAX_ARGS + 2];
    kf_part parts[KR_SITE_PARTS] = {{&entry, sizeof entry}, {types, args}};
    uint32_t n = 2;
    for (uint32_t i = 0; i <= args; i++) {
        const char *text = i == 0 ? site->name : site->args[i - 1].name;
        if (i > 0)
            types[i - 1] = (uint8_t)site->args[i - 1].type;
        sizes[i] = text ? (uint32_t)strlen(text) : 0;
        parts[n++] = (kf_part){&sizes[i], sizeof sizes[i]};
        parts[n++] = (kf_part){text, sizes[i]};
    }
    if (kb_load_relaxed(&site->flags) & KR_SITE_OVERLOAD) {
        sizes[args + 1] = (uint32_t)strlen(site->args[0].name);
        parts[n++] = (kf_part){&sizes[args + 1], sizeof sizes[0]};
        parts[n++] = (kf_part){site->args[0].name, sizes[args + 1]};
    }
    uint32_t id = kf_dictionary_add(pool, KF_ENTRY_SITE, parts, n), first = 0;
    KB_ASSERT(n <= KR_SITE_PARTS);
    if (!id) { /* its events are recorded without a name from now on */
        kr_count(KF_SOURCE_API, KF_REASON_DICTIONARY_FULL, 1);
        id = UINT32_MAX;
    }
    uint8_t flags = flags_of_site(site);
    if (kb_load_relaxed(&site->flags) != flags)
        kb_store_relaxed(&site->flags, flags);
    /* Another thread may have registered it meanwhile: the first id is used by all threads, since
     * the two ends of an asynchronous range are joined by it. */
    return kb_cas_acqrel(&site->id, &first, id) ? id : first;
}

/* ---- strings ----------------------------------------------------------------------------------
 * A cache from content to id: hash:32|id:32 per slot; when a bucket is full, a slot chosen by the
 * hash is replaced. The content decides, never the address. A string that fell out of the cache is
 * added to the dictionary again. Ids stay valid for the life of the pool, so a fork's child keeps the
 * cache. */

#define KR_INTERN_SLOTS  16384u
#define KR_INTERN_BUCKET 8u
static uint64_t kr_intern_slots[KR_INTERN_SLOTS];

static uint64_t load_word_at(const char *data)
{
    uint64_t w;
    memcpy(&w, data, sizeof w);
    return w;
}

/* 0 to 8 bytes as a number: from four on two overlapping halves. */
static uint64_t load_few_bytes(const char *data, size_t bytes)
{
    uint32_t low = 0, high = 0;
    KB_ASSERT(bytes <= 8);
    if (bytes == 8)
        return load_word_at(data);
    if (bytes >= 4) {
        memcpy(&low, data, 4);
        memcpy(&high, data + bytes - 4, 4);
    } else if (bytes) {
        low = (uint8_t)data[0];
        high = (uint32_t)(uint8_t)data[bytes / 2] << 8 | (uint8_t)data[bytes - 1];
    }
    return low | (uint64_t)high << 32;
}

static uint64_t mix_hash_word(uint64_t hash, uint64_t word)
{
    hash = (hash ^ word) * UINT64_C(0xff51afd7ed558ccd);
    return hash ^ hash >> 32;
}

static uint32_t finish_text_hash(uint64_t a, uint64_t b)
{
    return (uint32_t)(mix_hash_word(mix_hash_word(a, b), b >> 29) * UINT64_C(0xc4ceb9fe1a85ec53) >>
                      32);
}

static uint32_t hash_text_bytes(const char *data, size_t bytes)
{
    uint64_t a = UINT64_C(0x9e3779b97f4a7c15) ^ bytes, b = UINT64_C(0xd6e8feb86659fd93);
    const char *end = data + bytes;
    if (bytes < 16)
        return finish_text_hash(a ^ load_few_bytes(data, bytes > 8 ? 8 : bytes),
                                b ^ (bytes > 8 ? load_word_at(end - 8) : 0));
    for (; end - data > 16; data += 16) { /* two independent chains, which run in parallel */
        a = mix_hash_word(a, load_word_at(data));
        b = mix_hash_word(b, load_word_at(data + 8));
    }
    return finish_text_hash(mix_hash_word(a, load_word_at(end - 16)),
                            mix_hash_word(b, load_word_at(end - 8)));
}

/* Does an entry of this size end within the dictionary? Other processes can write its header. */
static bool is_entry_in_bounds(const kf_pool *pool, uint32_t id, size_t bytes)
{
    return id < pool->dictionary_words && bytes <= (pool->dictionary_words - id - 1) * (size_t)8;
}

static bool is_entry_equal(const kf_pool *pool, uint32_t id, const char *data, size_t bytes)
{
    const uint64_t *entry = pool->dictionary + id;
    return is_entry_in_bounds(pool, id, bytes) && kb_load_acquire(entry) >> 32 == bytes &&
           memcmp(entry + 1, data, bytes) == 0;
}

uint32_t kr_intern_quiet(const char *data, size_t bytes)
{
    const kf_pool *pool = kr_pool_get();
    if (!pool || bytes > UINT32_MAX)
        return 0;
    uint32_t hash = hash_text_bytes(data, bytes);
    uint64_t *bucket =
        &kr_intern_slots[hash % (KR_INTERN_SLOTS / KR_INTERN_BUCKET) * KR_INTERN_BUCKET];
    uint32_t place = hash >> 29; /* victim when all are taken */
    for (uint32_t i = 0; i < KR_INTERN_BUCKET; i++) {
        uint64_t slot = kb_load_acquire(&bucket[i]);
        if (!slot) {
            place = i;
            break;
        }
        if (slot >> 32 == hash && is_entry_equal(pool, (uint32_t)slot, data, bytes))
            return (uint32_t)slot;
    }
    kf_part part = {data, bytes};
    uint32_t id = kf_dictionary_add(pool, KF_ENTRY_STRING, &part, 1);
    if (id)
        kb_store_release(&bucket[place], (uint64_t)hash << 32 | id);
    return id;
}

uint32_t kr_intern(const char *data, size_t bytes)
{
    uint32_t id = kr_intern_quiet(data, bytes);
    if (!id)
        kr_count(KF_SOURCE_API, KF_REASON_DICTIONARY_FULL, 1);
    return id;
}

bool kr_bytes_are(uint32_t id, const char *data, size_t bytes)
{
    const kf_pool *pool = kr_pool_get();
    return id && pool && is_entry_equal(pool, id, data, bytes);
}

bool kr_string_is(uint32_t id, const char *s)
{
    const kf_pool *pool = kr_pool_get();
    if (!id || !pool)
        return false;
    const uint64_t *entry = pool->dictionary + id;
    size_t size = kf_entry_header_size(kb_load_acquire(entry));
    /* The entry may contain a NUL, so its size is no bound for reading `s`. */
    return is_entry_in_bounds(pool, id, size) && strnlen(s, size + 1) == size &&
           memcmp(entry + 1, s, size) == 0;
}
