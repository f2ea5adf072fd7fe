/* Finds the next allocator in the order of the dynamic linker, whichever library provides it, and
 * serves allocations that arrive while it is being found (dlsym itself may allocate). */
#include "memory.h"

#include <dlfcn.h>
#include <errno.h>
#include <string.h>

cm_functions cm_next;
_Atomic(cm_mode) cm_state;

/* ---- early memory ---------------------------------------------------------------------------- */

_Alignas(64) char cm_early_memory[CM_EARLY_BYTES];
static atomic_size_t early_used;

#define EARLY_HEAD sizeof(uint64_t) /* the size, before the block */

/* A bump allocator; the size is stored before the block for realloc. */
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
        /* The array is aligned to 64 only: larger alignments need the address. */
        uintptr_t start = (uintptr_t)cm_early_memory + from + EARLY_HEAD;
        at = ((start + align - 1) & ~(uintptr_t)(align - 1)) - (uintptr_t)cm_early_memory;
        if (at + bytes > CM_EARLY_BYTES) {
            errno = ENOMEM;
            return NULL;
        }
    } while (!atomic_compare_exchange_weak(&early_used, &from, at + bytes));
    uint64_t size = bytes;
    memcpy(cm_early_memory + at - EARLY_HEAD, &size, sizeof size);
    cm_count_miss(CM_MISS_EARLY);
    return cm_early_memory + at; /* zeroed, as it was never used */
}

size_t cm_early_size(const void *block)
{
    uint64_t size;
    memcpy(&size, (const char *)block - EARLY_HEAD, sizeof size);
    return (size_t)size;
}

/* ---- substitutes for missing functions ------------------------------------------------------- */

static void *fail_malloc(size_t bytes)
{
    (void)bytes;
    errno = ENOMEM;
    return NULL;
}
static void *fail_malloc_2(size_t a, size_t b)
{
    (void)a;
    return fail_malloc(b);
}
static void *fail_realloc(void *block, size_t bytes)
{
    (void)block;
    return fail_malloc(bytes);
}
static int fail_memalign(void **out, size_t align, size_t bytes)
{
    (void)out, (void)align, (void)bytes;
    return ENOMEM;
}
static void ignore_free(void *block) { (void)block; }
static size_t unknown_size(void *block)
{
    (void)block;
    return 0;
}

/* ---- resolution ------------------------------------------------------------------------------ */

/* Stores the next definition of a function, or a substitute. Through memcpy, because ISO C does not
 * convert object pointers to function pointers. */
static void find_next_function(const char *name, void *function, void *otherwise)
{
    void *found = dlsym(RTLD_NEXT, name);
    if (!found)
        found = otherwise;
    memcpy(function, &found, sizeof found);
}

/* Base address of the library that contains a function. */
static const void *find_owner_library(const void *function)
{
    Dl_info info;
    void *address;
    memcpy(&address, function, sizeof address);
    return dladdr(address, &info) ? info.dli_fbase : NULL;
}

/* True if malloc_usable_size belongs to the same library as all other functions. Passing a block to
 * the size function of another allocator would read foreign memory. */
static bool is_size_function_of_allocator(const cm_functions *f)
{
    const void *of_sizes = find_owner_library(&f->malloc_usable_size);
    return f->malloc_usable_size != unknown_size && of_sizes &&
           of_sizes == find_owner_library(&f->malloc) && of_sizes == find_owner_library(&f->free) &&
           of_sizes == find_owner_library(&f->calloc) &&
           of_sizes == find_owner_library(&f->realloc) &&
           of_sizes == find_owner_library(&f->posix_memalign) &&
           of_sizes == find_owner_library(&f->aligned_alloc) &&
           of_sizes == find_owner_library(&f->memalign);
}

bool cm_has_block_sizes(void) { return cm_next.size_of != unknown_size; }

/* Several threads may do this at once, with the same result. cm_next is written before the mode
 * changes, which releases it to other threads. */
void cm_resolve(void)
{
    cm_functions f = {.size_of = unknown_size};
    int saved = errno;
#define FIND(member, otherwise)                                                                    \
    do {                                                                                           \
        __typeof__(&*f.member) missing = (otherwise);                                              \
        void *address;                                                                             \
        memcpy(&address, &missing, sizeof address);                                                \
        find_next_function(#member, &f.member, address);                                           \
    } while (0)
    FIND(malloc, fail_malloc);
    FIND(free, ignore_free);
    FIND(calloc, fail_malloc_2);
    FIND(realloc, fail_realloc);
    FIND(posix_memalign, fail_memalign);
    FIND(aligned_alloc, fail_malloc_2);
    FIND(memalign, fail_malloc_2);
    FIND(valloc, fail_malloc);
    FIND(pvalloc, fail_malloc);
    FIND(malloc_usable_size, unknown_size);
#undef FIND
    if (is_size_function_of_allocator(&f))
        f.size_of = f.malloc_usable_size;
    cm_mode unresolved = CM_UNRESOLVED;
    if (atomic_load_explicit(&cm_state, memory_order_acquire) == CM_UNRESOLVED) {
        cm_next = f;
        (void)atomic_compare_exchange_strong(&cm_state, &unresolved, CM_STARTING);
    }
    errno = saved;
}
