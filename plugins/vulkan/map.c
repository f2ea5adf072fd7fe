/* Tables keyed by handles, and texts that stay. Open addressing; removed slots are marked, and swept
 * when the table is rebuilt. Names of kernels are kept forever, because activities that were not delivered yet
 * may outlive the pipeline; there are as many as the program has different names. */
#include "vulkan.h"

#include <stdlib.h>
#include <string.h>

#define MIN_CAPACITY 64u
#define TEXT_BUCKETS 4096u

typedef struct vl_map_slot {
    uint64_t key; /* 0: never used */
    void *value;  /* NULL: removed */
} vl_map_slot;

typedef struct interned_text {
    struct interned_text *next;
    uint64_t hash;
    size_t size;
    char text[];
} interned_text;

static interned_text *text_buckets[TEXT_BUCKETS];
static pthread_mutex_t texts_lock = PTHREAD_MUTEX_INITIALIZER;

void vl_map_init(vl_map *map)
{
    *map = (vl_map){.capacity = 0};
    pthread_mutex_init(&map->lock, NULL);
}

/* The slot of a key, or the free slot where it belongs. The table has free slots. */
static vl_map_slot *find_map_slot(const vl_map *map, uint64_t key)
{
    uint32_t i = (uint32_t)(key * UINT64_C(0x9e3779b97f4a7c15) >> 32) & (map->capacity - 1);

    while (map->slots[i].key && map->slots[i].key != key)
        i = (i + 1) & (map->capacity - 1);
    return &map->slots[i];
}

/* Makes space for one more key. False: out of memory. */
static bool grow_map(vl_map *map)
{
    vl_map old = *map;
    uint32_t live = 0;

    if ((map->used + 1) * 2 <= map->capacity)
        return true;
    for (uint32_t i = 0; i < old.capacity; i++)
        live += old.slots[i].value != NULL;
    uint32_t capacity = old.capacity ? old.capacity : MIN_CAPACITY;
    while ((live + 1) * 4 > capacity)
        capacity *= 2;
    vl_map_slot *fresh = calloc(capacity, sizeof *fresh);
    if (!fresh)
        return false;
    map->slots = fresh;
    map->capacity = capacity;
    map->used = live;
    for (uint32_t i = 0; i < old.capacity; i++)
        if (old.slots[i].value)
            *find_map_slot(map, old.slots[i].key) = old.slots[i];
    free(old.slots);
    return true;
}

void *vl_map_put(vl_map *map, uint64_t key, void *value, bool *ok)
{
    void *before = NULL;

    pthread_mutex_lock(&map->lock);
    *ok = key != 0 && grow_map(map);
    if (*ok) {
        vl_map_slot *slot = find_map_slot(map, key);
        map->used += slot->key == 0;
        before = slot->value;
        *slot = (vl_map_slot){key, value};
    }
    pthread_mutex_unlock(&map->lock);
    return before;
}

/* The value stays valid as long as the handle does, by the rules of Vulkan. */
void *vl_map_get(vl_map *map, uint64_t key)
{
    void *value = NULL;

    pthread_mutex_lock(&map->lock);
    if (map->capacity && key)
        value = find_map_slot(map, key)->value;
    pthread_mutex_unlock(&map->lock);
    return value;
}

void *vl_map_remove(vl_map *map, uint64_t key)
{
    void *value = NULL;

    pthread_mutex_lock(&map->lock);
    if (map->capacity && key) {
        vl_map_slot *slot = find_map_slot(map, key);
        value = slot->value;
        slot->value = NULL;
    }
    pthread_mutex_unlock(&map->lock);
    return value;
}

void vl_map_clear(vl_map *map, void (*visit)(void *value))
{
    pthread_mutex_lock(&map->lock);
    for (uint32_t i = 0; i < map->capacity; i++)
        if (map->slots[i].value)
            visit(map->slots[i].value);
    free(map->slots);
    map->slots = NULL;
    map->capacity = map->used = 0;
    pthread_mutex_unlock(&map->lock);
}

/* FNV-1a */
/* The high bits are mixed into those that choose the bucket. */
static uint64_t hash_text_bytes(const char *text, size_t size)
{
    uint64_t h = UINT64_C(0xcbf29ce484222325);

    for (size_t i = 0; i < size; i++)
        h = (h ^ (uint8_t)text[i]) * UINT64_C(0x100000001b3);
    return h ^ h >> 29;
}

/* NULL: out of memory. */
static interned_text *create_interned_text(const char *text, size_t size, uint64_t hash)
{
    interned_text *fresh = malloc(sizeof *fresh + size + 1);

    if (!fresh)
        return NULL;
    fresh->hash = hash;
    fresh->size = size;
    memcpy(fresh->text, text, size);
    fresh->text[size] = '\0';
    return fresh;
}

const char *vl_intern_text(const char *text, size_t size)
{
    uint64_t hash = hash_text_bytes(text, size);
    interned_text **bucket = &text_buckets[hash % TEXT_BUCKETS];

    pthread_mutex_lock(&texts_lock);
    interned_text *t = *bucket;
    while (t && (t->hash != hash || t->size != size || memcmp(t->text, text, size) != 0))
        t = t->next;
    if (!t && (t = create_interned_text(text, size, hash)) != NULL) {
        t->next = *bucket;
        *bucket = t;
    }
    pthread_mutex_unlock(&texts_lock);
    return t ? t->text : "";
}
