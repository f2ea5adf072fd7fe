/* Names of kernels, demangled, and of calls. Each is computed once and stays until the end of the
 * session. Kernels are found by the address of their mangled name, which CUPTI keeps; the bytes are
 * compared, because other code may be loaded at the same address later. */
#include "cuda.h"

#include "../common/demangle.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Longer ones are not demangled, as in Kineto. */
#define MAX_MANGLED_BYTES 8192u
#define MAX_NAME_BYTES    (UINT32_C(1) << 20)
#define BLOCK_BYTES       (UINT32_C(1) << 16)
#define MAX_BYTES         (UINT64_C(64) << 20)
#define CALL_NAMES        1024u /* per domain; there are some 800 */
#define MIN_ADDRESS_SLOTS 256u

typedef struct name_block {
    struct name_block *next;
    size_t used, size;
    char bytes[];
} name_block;

/* A name as CUPTI gave it, and as it is shown. */
typedef struct name_entry {
    struct name_entry *next; /* of the same bucket */
    uint64_t hash;
    bool is_kernel;
    cp_text given, shown;
} name_entry;

typedef struct address_slot {
    /* Address of CUPTI's mangled name; NULL: free. */
    const char *at;
    const name_entry *entry;
    /* Value of `buffer_number` when the bytes were compared last. */
    uint64_t checked;
} address_slot;

struct cp_names {
    name_block *blocks;
    uint64_t bytes;
    name_entry *buckets[4096];
    address_slot *places; /* open addressing */
    uint32_t place_count, place_capacity;
    /* Number of the current buffer, see cp_names_begin_buffer. */
    uint64_t buffer_number;
    cp_text calls[2][CALL_NAMES], kept[CP_NAME_SLOTS];
};

cp_names *cp_names_create(void)
{
    cp_names *n = calloc(1, sizeof *n);
    if (!n)
        return NULL;
    n->place_capacity = MIN_ADDRESS_SLOTS;
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
    for (name_block *b = n->blocks, *next; b; b = next) {
        next = b->next;
        free(b);
    }
    free(n->places);
    free(n);
}

/* ---- memory ---------------------------------------------------------------------------------- */

/* Memory that is freed with `n`; NULL: the limit is reached or out of memory. */
static void *alloc_name_bytes(cp_names *n, size_t bytes)
{
    bytes = (bytes + 7) & ~(size_t)7;
    if (!n->blocks || n->blocks->size - n->blocks->used < bytes) {
        size_t size = bytes > BLOCK_BYTES ? bytes : BLOCK_BYTES;
        if (n->bytes + size > MAX_BYTES)
            return NULL;
        name_block *b = malloc(sizeof *b + size);
        if (!b)
            return NULL;
        *b = (name_block){.next = n->blocks, .size = size};
        n->blocks = b;
        n->bytes += size;
    }
    void *p = n->blocks->bytes + n->blocks->used;
    n->blocks->used += bytes;
    return p;
}

/* False: no memory. */
static bool copy_name_text(cp_names *n, const char *data, size_t size, cp_text *out)
{
    char *p = alloc_name_bytes(n, size + 1);
    if (!p)
        return false;
    memcpy(p, data, size);
    p[size] = '\0';
    *out = (cp_text){p, (uint32_t)size};
    return true;
}

/* ---- demangling ------------------------------------------------------------------------------ */

/* False: the name is not mangled, or cannot be demangled. */
static bool demangle_name(cp_names *n, const cp_text *mangled, cp_text *out)
{
    bool is_mangled = mangled->size > 2 && memcmp(mangled->data, "_Z", 2) == 0;
    if (!is_mangled || mangled->size > MAX_MANGLED_BYTES || !plugin_get_demangler())
        return false;
    int status = -1;
    char *text = plugin_get_demangler()(mangled->data, NULL, NULL, &status);
    size_t size = text && status == 0 ? strnlen(text, MAX_NAME_BYTES) : 0;
    bool done = size && size < MAX_NAME_BYTES && copy_name_text(n, text, size, out);
    free(text);
    return done;
}

/* ---- lookup by content ----------------------------------------------------------------------- */

static uint64_t hash_kernel_name(const char *data, size_t size)
{
    uint64_t h = UINT64_C(0xcbf29ce484222325);
    for (size_t i = 0; i < size; i++)
        h = (h ^ (uint8_t)data[i]) * UINT64_C(0x100000001b3);
    return h ^ h >> 32;
}

static bool is_same_entry(const name_entry *e, uint64_t hash, bool is_kernel, const char *data,
                          size_t size)
{
    return e->hash == hash && e->is_kernel == is_kernel && e->given.size == size &&
           memcmp(e->given.data, data, size) == 0;
}

/* The entry of a text, demangled if it is a kernel's; NULL: no memory. */
static const name_entry *find_or_add_entry(cp_names *n, const char *data, size_t size,
                                           bool is_kernel)
{
    uint64_t hash = hash_kernel_name(data, size);
    name_entry **bucket = &n->buckets[hash % CP_COUNT(n->buckets)];
    for (name_entry *e = *bucket; e; e = e->next)
        if (is_same_entry(e, hash, is_kernel, data, size))
            return e;
    name_entry *e = alloc_name_bytes(n, sizeof *e);
    if (!e)
        return NULL;
    *e = (name_entry){.hash = hash, .is_kernel = is_kernel};
    if (!copy_name_text(n, data, size, &e->given))
        return NULL;
    e->shown = e->given;
    if (is_kernel && strcmp(e->given.data, "kernel") == 0)
        (void)copy_name_text(n, "Kernel", 6, &e->shown);
    else if (is_kernel)
        (void)demangle_name(n, &e->given, &e->shown);
    e->next = *bucket;
    *bucket = e;
    return e;
}

/* The interned copy of a text; without memory the text itself. */
static cp_text intern_plain_text(cp_names *n, const char *text)
{
    size_t size = strnlen(text, MAX_NAME_BYTES);
    const name_entry *e = find_or_add_entry(n, text, size, false);
    return e ? e->shown : (cp_text){text, (uint32_t)size};
}

cp_text cp_names_copy(cp_names *n, const char *text)
{
    cp_text known = intern_plain_text(n, text);
    return known.data != text ? known : (cp_text){"CUDA", 4};
}

cp_text *cp_get_name_slot(cp_names *n, uint32_t i) { return &n->kept[i]; }

/* ---- lookup by address ----------------------------------------------------------------------- */

static uint32_t hash_address_slot(const cp_names *n, const char *at)
{
    uint64_t h = (uint64_t)(uintptr_t)at * UINT64_C(0x9e3779b97f4a7c15);
    return (uint32_t)(h >> 32) & (n->place_capacity - 1);
}

static address_slot *find_address_slot(const cp_names *n, const char *at)
{
    uint32_t i = hash_address_slot(n, at);
    while (n->places[i].at && n->places[i].at != at)
        i = (i + 1) & (n->place_capacity - 1);
    return &n->places[i];
}

/* Doubles the table. False: out of memory; the table stays usable. */
static bool grow_address_slots(cp_names *n)
{
    address_slot *old = n->places;
    uint32_t capacity = n->place_capacity;
    address_slot *fresh = calloc((size_t)capacity * 2, sizeof *fresh);
    if (!fresh)
        return false;
    n->places = fresh;
    n->place_capacity = capacity * 2;
    for (uint32_t i = 0; i < capacity; i++)
        if (old[i].at)
            *find_address_slot(n, old[i].at) = old[i];
    free(old);
    return true;
}

/* Caches the name at an address that held another one or none. NULL: no memory. */
static const name_entry *add_address(cp_names *n, const char *at, size_t size)
{
    const name_entry *e = find_or_add_entry(n, at, size, true);
    if (!e || (n->place_count * 2 >= n->place_capacity && !grow_address_slots(n)))
        return e;
    address_slot *p = find_address_slot(n, at);
    n->place_count += !p->at;
    *p = (address_slot){at, e, n->buffer_number};
    return e;
}

void cp_names_begin_buffer(cp_names *n) { n->buffer_number++; }

/* The bytes are compared once for each buffer, which is enough: all its records existed at one
 * time. */
cp_text cp_names_kernel(cp_names *n, const char *mangled)
{
    if (!mangled || !*mangled)
        return (cp_text){"Kernel", 6};
    address_slot *p = find_address_slot(n, mangled);
    if (p->at && (p->checked == n->buffer_number || strcmp(p->entry->given.data, mangled) == 0)) {
        p->checked = n->buffer_number;
        return p->entry->shown;
    }
    size_t size = strnlen(mangled, MAX_NAME_BYTES);
    const name_entry *e = add_address(n, mangled, size);
    return e ? e->shown : (cp_text){mangled, (uint32_t)size};
}

/* ---- calls ----------------------------------------------------------------------------------- */

/* The length without a version: "cudaLaunchKernel_v7000" is cudaLaunchKernel, but "cuMemFree_v2" is
 * another call than cuMemFree. */
static size_t strip_call_version(const char *name, size_t size)
{
    size_t digits = 0;
    while (digits < size && isdigit((unsigned char)name[size - 1 - digits]))
        digits++;
    bool has_version =
        digits >= 4 && size > digits + 2 && memcmp(name + size - digits - 2, "_v", 2) == 0;
    return has_version ? size - digits - 2 : size;
}

/* CUDA 13 compiles launches to "__cudaLaunchKernel", which is cudaLaunchKernel to its users. */
static const char *skip_internal_prefix(const char *name)
{
    static const char prefix[] = "__cudaLaunchKernel";
    return strncmp(name, prefix, sizeof prefix - 1) == 0 ? name + 2 : name;
}

/* CUPTI's name of a call without its version, or one made of its number. */
static cp_text make_call_name(cp_names *n, uint32_t domain, uint32_t cbid)
{
    const char *name = NULL;
    char made[64];
    if (cp_cupti.callback_name && cp_cupti.callback_name(domain, cbid, &name) == CP_SUCCESS &&
        name && *name) {
        name = skip_internal_prefix(name);
        snprintf(made, sizeof made, "%s", name);
        size_t size = strlen(name) < sizeof made ? strip_call_version(made, strlen(made)) : 0;
        if (size)
            made[size] = '\0';
        return size ? cp_names_copy(n, made) : intern_plain_text(n, name);
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
    cp_text text = make_call_name(n, domain, cbid);
    if (known)
        *known = text;
    return text;
}
