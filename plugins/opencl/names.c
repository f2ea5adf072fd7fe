/* Names of kernels: a table of bytes that only grows, so that a name outlives its kernel. Keyed by
 * the bytes, never by the handle: drivers give handles out again. */
#include "opencl.h"

#include <stdlib.h>
#include <string.h>

#define SLOTS          16384u
#define MAX_PROBES     64u
#define STACK_BYTES    512u
#define MAX_NAME_BYTES (UINT32_C(1) << 20)

static _Atomic(co_name *) slots[SLOTS];

static const co_name *nameless(void)
{
    static co_name none;

    return &none;
}

static uint64_t hash_of(const char *s, size_t size)
{
    uint64_t h = UINT64_C(0xcbf29ce484222325);

    for (size_t i = 0; i < size; i++)
        h = (h ^ (uint8_t)s[i]) * UINT64_C(0x100000001b3);
    return h ^ h >> 29;
}

static co_name *make(const char *s, uint32_t size, uint64_t hash)
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

static bool is(const co_name *name, const char *s, uint32_t size, uint64_t hash)
{
    return name->hash == hash && name->size == size && memcmp(name->bytes, s, size) == 0;
}

static const co_name *intern(const char *s, uint32_t size)
{
    uint64_t hash = hash_of(s, size);
    co_name *fresh = NULL;

    for (uint32_t probe = 0; probe < MAX_PROBES; probe++) {
        _Atomic(co_name *) *slot = &slots[(hash + probe) % SLOTS];
        co_name *there = atomic_load_explicit(slot, memory_order_acquire);
        if (!there) {
            if (!fresh && !(fresh = make(s, size, hash)))
                break;
            if (atomic_compare_exchange_strong(slot, &there, fresh))
                return fresh;
        }
        if (is(there, s, size, hash)) {
            free(fresh);
            return there;
        }
    }
    free(fresh);
    return nameless();
}

static const co_name *long_name(cl_kernel kernel)
{
    const co_name *name = nameless();
    size_t size = 0;
    char *text;

    if (co_next.clGetKernelInfo(kernel, CL_KERNEL_FUNCTION_NAME, 0, NULL, &size) != CL_SUCCESS ||
        size == 0 || size > MAX_NAME_BYTES || !(text = calloc(1, size)))
        return name;
    if (co_next.clGetKernelInfo(kernel, CL_KERNEL_FUNCTION_NAME, size, text, NULL) == CL_SUCCESS)
        name = intern(text, (uint32_t)strnlen(text, size));
    free(text);
    return name;
}

const co_name *co_kernel_name(cl_kernel kernel)
{
    char text[STACK_BYTES];

    text[0] = '\0';
    if (co_next.clGetKernelInfo(kernel, CL_KERNEL_FUNCTION_NAME, sizeof text, text, NULL) !=
        CL_SUCCESS)
        return long_name(kernel);
    return intern(text, (uint32_t)strnlen(text, sizeof text));
}
