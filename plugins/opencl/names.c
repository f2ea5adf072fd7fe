/* Names of kernels: an append-only lock-free hash table of texts, so that a name outlives its
 * kernel. Keyed by the text, not by the handle, because drivers reuse handles. */
#include "opencl.h"

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
    static co_name none;

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

/* NULL: out of memory. */
static co_name *create_kernel_name(const char *s, uint32_t size, uint64_t hash)
{
    co_name *name = malloc(sizeof *name + size + 1);

    if (!name)
        return NULL;
    name->hash = hash;
    name->size = size;
    memcpy(name->bytes, s, size);
    name->bytes[size] = '\0';
    return name;
}

static bool is_kernel_name(const co_name *name, const char *s, uint32_t size, uint64_t hash)
{
    return name->hash == hash && name->size == size && memcmp(name->bytes, s, size) == 0;
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
            free(fresh);
            return there;
        }
    }
    free(fresh);
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
