/* Names of kernels as people wrote them, and of calls. Each is worked out once and stays until the
 * end of the session. */
#include "cuda.h"

#include <ctype.h>
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LONGEST_MANGLED 8192u /* longer ones stay as they are, as in Kineto */
#define LONGEST_TEXT    (UINT32_C(1) << 20)
#define BLOCK_BYTES     (UINT32_C(1) << 16)
#define MOST_BYTES      (UINT64_C(64) << 20)
#define CALL_NAMES      1024u /* per domain; there are some 800 */
#define FEWEST_PLACES   256u

typedef struct block {
    struct block *next;
    size_t used, size;
    char bytes[];
} block;

/* A name as it came, and as it is shown. */
typedef struct entry {
    struct entry *next; /* of the same bucket */
    uint64_t hash;
    bool is_kernel;
    cp_text given, shown;
} entry;

typedef struct place {
    const char *at; /* where CUPTI has the name */
    const entry *entry;
    uint64_t checked; /* in which look at CUPTI's names, see cp_names_look */
} place;

struct cp_names {
    block *blocks;
    uint64_t bytes;
    entry *buckets[4096];
    place *places; /* open addressing */
    uint32_t place_count, place_capacity;
    uint64_t look;
    cp_text calls[2][CALL_NAMES], kept[CP_NAMES_PLACES];
};

cp_names *cp_names_create(void)
{
    cp_names *n = calloc(1, sizeof *n);
    if (!n)
        return NULL;
    n->place_capacity = FEWEST_PLACES;
    n->places = calloc(n->place_capacity, sizeof *n->places);
    if (!n->places) {
        free(n);
        return NULL;
    }
    return n;
}

void cp_names_destroy(cp_names *n)
{
    if (!n)
        return;
    for (block *b = n->blocks, *next; b; b = next) {
        next = b->next;
        free(b);
    }
    free(n->places);
    free(n);
}

/* ---- memory ---------------------------------------------------------------------------------------- */

static void *take(cp_names *n, size_t bytes)
{
    bytes = (bytes + 7) & ~(size_t)7;
    if (!n->blocks || n->blocks->size - n->blocks->used < bytes) {
        size_t size = bytes > BLOCK_BYTES ? bytes : BLOCK_BYTES;
        if (n->bytes + size > MOST_BYTES)
            return NULL;
        block *b = malloc(sizeof *b + size);
        if (!b)
            return NULL;
        *b = (block){.next = n->blocks, .size = size};
        n->blocks = b;
        n->bytes += size;
    }
    void *p = n->blocks->bytes + n->blocks->used;
    n->blocks->used += bytes;
    return p;
}

static bool copy(cp_names *n, const char *data, size_t size, cp_text *out)
{
    char *p = take(n, size + 1);
    if (!p)
        return false;
    memcpy(p, data, size);
    p[size] = '\0';
    *out = (cp_text){p, (uint32_t)size};
    return true;
}

/* ---- demangling -------------------------------------------------------------------------------------- */

typedef char *(*demangle_fn)(const char *mangled, char *buffer, size_t *size, int *status);

/* Of the C++ runtime that the program has; a program without one gets it when a name needs it. */
static demangle_fn find_demangle(void)
{
    void *symbol = dlsym(RTLD_DEFAULT, "__cxa_demangle");
    if (!symbol) {
        void *library = dlopen("libstdc++.so.6", RTLD_LAZY | RTLD_LOCAL);
        symbol = library ? dlsym(library, "__cxa_demangle") : NULL;
    }
    demangle_fn found;
    memcpy(&found, &symbol, sizeof found);
    return found;
}

static demangle_fn demangler(void)
{
    static _Atomic(demangle_fn) known;
    static atomic_bool looked;
    if (!atomic_load_explicit(&looked, memory_order_acquire)) {
        atomic_store(&known, find_demangle());
        atomic_store_explicit(&looked, true, memory_order_release);
    }
    return atomic_load(&known);
}

/* False: there is nothing better than what it is called. */
static bool demangled(cp_names *n, const cp_text *mangled, cp_text *out)
{
    bool is_mangled = mangled->size > 2 && memcmp(mangled->data, "_Z", 2) == 0;
    if (!is_mangled || mangled->size > LONGEST_MANGLED || !demangler())
        return false;
    int status = -1;
    char *text = demangler()(mangled->data, NULL, NULL, &status);
    size_t size = text && status == 0 ? strnlen(text, LONGEST_TEXT) : 0;
    bool done = size && size < LONGEST_TEXT && copy(n, text, size, out);
    free(text);
    return done;
}

/* ---- by content -------------------------------------------------------------------------------------- */

static uint64_t hash_of(const char *data, size_t size)
{
    uint64_t h = UINT64_C(0xcbf29ce484222325);
    for (size_t i = 0; i < size; i++)
        h = (h ^ (uint8_t)data[i]) * UINT64_C(0x100000001b3);
    return h ^ h >> 32;
}

static bool is_same(const entry *e, uint64_t hash, bool is_kernel, const char *data, size_t size)
{
    return e->hash == hash && e->is_kernel == is_kernel && e->given.size == size &&
           memcmp(e->given.data, data, size) == 0;
}

static const entry *find(cp_names *n, const char *data, size_t size, bool is_kernel)
{
    uint64_t hash = hash_of(data, size);
    entry **bucket = &n->buckets[hash % CP_COUNT(n->buckets)];
    for (entry *e = *bucket; e; e = e->next)
        if (is_same(e, hash, is_kernel, data, size))
            return e;
    entry *e = take(n, sizeof *e);
    if (!e)
        return NULL;
    *e = (entry){.hash = hash, .is_kernel = is_kernel};
    if (!copy(n, data, size, &e->given))
        return NULL;
    e->shown = e->given;
    if (is_kernel && strcmp(e->given.data, "kernel") == 0)
        (void)copy(n, "Kernel", 6, &e->shown);
    else if (is_kernel)
        (void)demangled(n, &e->given, &e->shown);
    e->next = *bucket;
    *bucket = e;
    return e;
}

/* A text that is met often, and stays where it is. */
static cp_text other(cp_names *n, const char *text)
{
    size_t size = strnlen(text, LONGEST_TEXT);
    const entry *e = find(n, text, size, false);
    return e ? e->shown : (cp_text){text, (uint32_t)size};
}

cp_text cp_names_copy(cp_names *n, const char *text)
{
    cp_text known = other(n, text);
    return known.data != text ? known : (cp_text){"CUDA", 4};
}

cp_text *cp_names_place(cp_names *n, uint32_t i) { return &n->kept[i]; }

/* ---- by place ------------------------------------------------------------------------------------------ */

static uint32_t slot_of(const cp_names *n, const char *at)
{
    uint64_t h = (uint64_t)(uintptr_t)at * UINT64_C(0x9e3779b97f4a7c15);
    return (uint32_t)(h >> 32) & (n->place_capacity - 1);
}

static place *place_of(const cp_names *n, const char *at)
{
    uint32_t i = slot_of(n, at);
    while (n->places[i].at && n->places[i].at != at)
        i = (i + 1) & (n->place_capacity - 1);
    return &n->places[i];
}

static bool grow_places(cp_names *n)
{
    place *old = n->places;
    uint32_t capacity = n->place_capacity;
    place *fresh = calloc((size_t)capacity * 2, sizeof *fresh);
    if (!fresh)
        return false;
    n->places = fresh;
    n->place_capacity = capacity * 2;
    for (uint32_t i = 0; i < capacity; i++)
        if (old[i].at)
            *place_of(n, old[i].at) = old[i];
    free(old);
    return true;
}

/* A name that has not been at this place before. */
static const entry *learn(cp_names *n, const char *at, size_t size)
{
    const entry *e = find(n, at, size, true);
    if (!e || (n->place_count * 2 >= n->place_capacity && !grow_places(n)))
        return e;
    place *p = place_of(n, at);
    n->place_count += !p->at;
    *p = (place){at, e, n->look};
    return e;
}

void cp_names_look(cp_names *n) { n->look++; }

/* Code may be unloaded and other code be loaded in its place: the bytes decide. All records of a
 * buffer are read at one time, so that once for all of them is enough. */
cp_text cp_names_kernel(cp_names *n, const char *mangled)
{
    if (!mangled || !*mangled)
        return (cp_text){"Kernel", 6};
    place *p = place_of(n, mangled);
    if (p->at && (p->checked == n->look || strcmp(p->entry->given.data, mangled) == 0)) {
        p->checked = n->look;
        return p->entry->shown;
    }
    size_t size = strnlen(mangled, LONGEST_TEXT);
    const entry *e = learn(n, mangled, size);
    return e ? e->shown : (cp_text){mangled, (uint32_t)size};
}

/* ---- calls --------------------------------------------------------------------------------------------- */

/* "cudaLaunchKernel_v7000" is known as cudaLaunchKernel; "cuMemFree_v2" is another call. */
static size_t without_version(const char *name, size_t size)
{
    size_t digits = 0;
    while (digits < size && isdigit((unsigned char)name[size - 1 - digits]))
        digits++;
    bool has_version =
        digits >= 4 && size > digits + 2 && memcmp(name + size - digits - 2, "_v", 2) == 0;
    return has_version ? size - digits - 2 : size;
}

static cp_text make_call(cp_names *n, uint32_t domain, uint32_t cbid)
{
    const char *name = NULL;
    char made[64];
    if (cp_cupti.callback_name && cp_cupti.callback_name(domain, cbid, &name) == CP_SUCCESS &&
        name && *name) {
        snprintf(made, sizeof made, "%s", name);
        size_t size = strlen(name) < sizeof made ? without_version(made, strlen(made)) : 0;
        if (size)
            made[size] = '\0';
        return size ? cp_names_copy(n, made) : other(n, name);
    }
    snprintf(made, sizeof made, "CUDA %s call %u",
             domain == CP_DOMAIN_DRIVER ? "driver" : "runtime", cbid);
    return cp_names_copy(n, made);
}

cp_text cp_names_call(cp_names *n, uint32_t domain, uint32_t cbid)
{
    bool kept = cbid < CALL_NAMES && (domain == CP_DOMAIN_RUNTIME || domain == CP_DOMAIN_DRIVER);
    cp_text *known = kept ? &n->calls[domain - CP_DOMAIN_DRIVER][cbid] : NULL;
    if (known && known->data)
        return *known;
    cp_text text = make_call(n, domain, cbid);
    if (known)
        *known = text;
    return text;
}
