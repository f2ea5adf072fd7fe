/* The allocator behind us: the next one that the dynamic linker knows, whoever wrote it. */
#include "memory.h"

#include <dlfcn.h>
#include <errno.h>
#include <string.h>

cm_functions cm_next;
_Atomic(cm_mode) cm_state;

/* ---- memory for whoever allocates while we look ------------------------------------------------ */

_Alignas(64) char cm_early_memory[CM_EARLY_BYTES];
static atomic_size_t early_used;

#define EARLY_HEAD sizeof(uint64_t) /* the size, before the block */

void *cm_early_alloc(size_t bytes, size_t align)
{
    if (align < 16)
        align = 16;
    if (bytes > CM_EARLY_BYTES || align > 4096 || (align & (align - 1))) {
        errno = ENOMEM;
        return NULL;
    }
    size_t from = atomic_load(&early_used), at;
    do {
        /* The array itself is aligned to 64; beyond that by address. */
        uintptr_t start = (uintptr_t)cm_early_memory + from + EARLY_HEAD;
        at = ((start + align - 1) & ~(uintptr_t)(align - 1)) - (uintptr_t)cm_early_memory;
        if (at + bytes > CM_EARLY_BYTES) {
            errno = ENOMEM;
            return NULL;
        }
    } while (!atomic_compare_exchange_weak(&early_used, &from, at + bytes));
    uint64_t size = bytes;
    memcpy(cm_early_memory + at - EARLY_HEAD, &size, sizeof size);
    cm_missed(CM_MISS_EARLY);
    return cm_early_memory + at; /* zeroed: it was never used */
}

size_t cm_early_size(const void *block)
{
    uint64_t size;
    memcpy(&size, (const char *)block - EARLY_HEAD, sizeof size);
    return (size_t)size;
}

/* ---- those that nobody has ---------------------------------------------------------------------- */

static void *no_memory(size_t bytes)
{
    (void)bytes;
    errno = ENOMEM;
    return NULL;
}
static void *no_memory_2(size_t a, size_t b)
{
    (void)a;
    return no_memory(b);
}
static void *no_realloc(void *block, size_t bytes)
{
    (void)block;
    return no_memory(bytes);
}
static int no_memalign(void **out, size_t align, size_t bytes)
{
    (void)out, (void)align, (void)bytes;
    return ENOMEM;
}
static void no_free(void *block) { (void)block; }
static size_t no_size(void *block)
{
    (void)block;
    return 0;
}

/* ---- looking for them --------------------------------------------------------------------------- */

/* A function's address through memcpy: ISO C converts no object pointer to a function's. */
static void find(const char *name, void *function, void *otherwise)
{
    void *found = dlsym(RTLD_NEXT, name);
    if (!found)
        found = otherwise;
    memcpy(function, &found, sizeof found);
}

static const void *owner_of(const void *function)
{
    Dl_info info;
    void *address;
    memcpy(&address, function, sizeof address);
    return dladdr(address, &info) ? info.dli_fbase : NULL;
}

/* Asking one allocator for the size of another one's block reads what is not there. */
static bool sizes_are_the_allocators(const cm_functions *f)
{
    const void *of_sizes = owner_of(&f->malloc_usable_size);
    return f->malloc_usable_size != no_size && of_sizes && of_sizes == owner_of(&f->malloc) &&
           of_sizes == owner_of(&f->free) && of_sizes == owner_of(&f->calloc) &&
           of_sizes == owner_of(&f->realloc) && of_sizes == owner_of(&f->posix_memalign) &&
           of_sizes == owner_of(&f->aligned_alloc) && of_sizes == owner_of(&f->memalign);
}

bool cm_sizes_known(void) { return cm_next.size_of != no_size; }

/* Several threads may do this at a time, with the same result. */
void cm_resolve(void)
{
    cm_functions f = {.size_of = no_size};
    int saved = errno;
#define FIND(member, otherwise)                                                                    \
    do {                                                                                           \
        __typeof__(&*f.member) missing = (otherwise);                                              \
        void *address;                                                                             \
        memcpy(&address, &missing, sizeof address);                                                \
        find(#member, &f.member, address);                                                         \
    } while (0)
    FIND(malloc, no_memory);
    FIND(free, no_free);
    FIND(calloc, no_memory_2);
    FIND(realloc, no_realloc);
    FIND(posix_memalign, no_memalign);
    FIND(aligned_alloc, no_memory_2);
    FIND(memalign, no_memory_2);
    FIND(valloc, no_memory);
    FIND(pvalloc, no_memory);
    FIND(malloc_usable_size, no_size);
#undef FIND
    if (sizes_are_the_allocators(&f))
        f.size_of = f.malloc_usable_size;
    cm_mode unresolved = CM_UNRESOLVED;
    if (atomic_load_explicit(&cm_state, memory_order_acquire) == CM_UNRESOLVED) {
        cm_next = f;
        (void)atomic_compare_exchange_strong(&cm_state, &unresolved, CM_STARTING);
    }
    errno = saved;
}
