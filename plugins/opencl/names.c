/* Names of kernels: an append-only lock-free hash table of texts, so that a name outlives its
 * kernel. Keyed by the text, not by the handle, because drivers reuse handles. Kernels of SYCL are
 * called after types, by names of their typeinfo (_ZTS…), which are demangled. */
#include "opencl.h"

#include "../common/demangle.h"

#include <stdlib.h>
#include <string.h>

#define SLOTS          16384u
#define MAX_PROBES     64u
#define STACK_BYTES    512u
#define MAX_NAME_BYTES (UINT32_C(1) << 20)

/* Invariant: a slot changes once, from NULL to a name, and a name never changes; so a reader needs
 * no lock. A text is within MAX_PROBES slots after its hash, or in none. */
static _Atomic(co_name *) name_slots[SLOTS];

/* The name of kernels whose name is unknown. */
static const co_name *get_empty_name(void)
{
    static co_name none = {.text = ""};

    return &none;
}

/* FNV-1a; the last shift mixes high bits into those that choose the slot. */
static uint64_t hash_name_bytes(const char *s, size_t size)
{
    uint64_t h = UINT64_C(0xcbf29ce484222325);

    for (size_t i = 0; i < size; i++)
        h = (h ^ (uint8_t)s[i]) * UINT64_C(0x100000001b3);
    return h ^ h >> 29;
}

/* The type that a kernel of SYCL is called after; NULL: it is no such kernel, or cannot be told. The
 * caller owns it. */
static char *demangle_typeinfo_name(const char *name)
{
    static const char prefix[] = "typeinfo name for ";
    plugin_demangler demangle = strncmp(name, "_ZTS", 4) == 0 ? plugin_get_demangler() : NULL;
    int status = -1;
    char *text = demangle ? demangle(name, NULL, NULL, &status) : NULL;

    if (!text || status != 0 || strncmp(text, prefix, sizeof prefix - 1) != 0) {
        free(text);
        return NULL;
    }
    memmove(text, text + sizeof prefix - 1, strlen(text) - (sizeof prefix - 1) + 1);
    return text;
}

static void free_kernel_name(co_name *name)
{
    if (name && name->text != name->key)
        free((char *)(uintptr_t)name->text);
    free(name);
}

/* NULL: out of memory. */
static co_name *create_kernel_name(const char *s, uint32_t size, uint64_t hash)
{
    co_name *name = malloc(sizeof *name + size + 1);

    if (!name)
        return NULL;
    name->hash = hash;
    name->key_size = size;
    memcpy(name->key, s, size);
    name->key[size] = '\0';
    name->text = demangle_typeinfo_name(name->key);
    if (!name->text)
        name->text = name->key;
    name->size = (uint32_t)strlen(name->text);
    return name;
}

static bool is_kernel_name(const co_name *name, const char *s, uint32_t size, uint64_t hash)
{
    return name->hash == hash && name->key_size == size && memcmp(name->key, s, size) == 0;
}

/* The entry of a text, added if there is none; the empty name if out of memory or slots. */
static const co_name *intern_kernel_name(const char *s, uint32_t size)
{
    uint64_t hash = hash_name_bytes(s, size);
    co_name *fresh = NULL;

    for (uint32_t probe = 0; probe < MAX_PROBES; probe++) {
        _Atomic(co_name *) *slot = &name_slots[(hash + probe) % SLOTS];
        co_name *there = atomic_load_explicit(slot, memory_order_acquire);
        if (!there) {
            if (!fresh && !(fresh = create_kernel_name(s, size, hash)))
                break;
            if (atomic_compare_exchange_strong(slot, &there, fresh))
                return fresh;
        }
        if (is_kernel_name(there, s, size, hash)) {
            free_kernel_name(fresh);
            return there;
        }
    }
    free_kernel_name(fresh);
    return get_empty_name();
}

/* For names that do not fit on the stack: asks for the size first. */
static const co_name *get_long_kernel_name(cl_kernel kernel)
{
    const co_name *name = get_empty_name();
    size_t size = 0;
    char *text;

    if (co_next.clGetKernelInfo(kernel, CL_KERNEL_FUNCTION_NAME, 0, NULL, &size) != CL_SUCCESS ||
        size == 0 || size > MAX_NAME_BYTES || !(text = calloc(1, size)))
        return name;
    if (co_next.clGetKernelInfo(kernel, CL_KERNEL_FUNCTION_NAME, size, text, NULL) == CL_SUCCESS)
        name = intern_kernel_name(text, (uint32_t)strnlen(text, size));
    free(text);
    return name;
}

const co_name *co_kernel_name(cl_kernel kernel)
{
    char text[STACK_BYTES];

    text[0] = '\0';
    if (co_next.clGetKernelInfo(kernel, CL_KERNEL_FUNCTION_NAME, sizeof text, text, NULL) !=
        CL_SUCCESS)
        return get_long_kernel_name(kernel);
    return intern_kernel_name(text, (uint32_t)strnlen(text, sizeof text));
}
