/* An allocator of another maker: blocks of powers of two with their size in front, from an arena
 * that never shrinks. Preloaded, or part of a program. Without WITH_SIZES it tells no sizes. With
 * CALLS_MALLOC its calloc calls malloc by its name, as simple ones do. */
#include <errno.h>
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define EXPORT __attribute__((visibility("default")))
#define HEAD   16u

typedef struct head {
    uint64_t bytes;
    struct head *next;
} head;
_Static_assert(sizeof(head) == HEAD, "in front of every block");

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static head *unused[64];
static char *at, *end;

EXPORT int arena_is_there(void);
EXPORT int arena_is_there(void) { return 1; }

static void *take(size_t bytes)
{
    unsigned class = 5;
    while (class < 40 && ((size_t)1 << class) - HEAD < bytes)
        class ++;
    if (class == 40) {
        errno = ENOMEM;
        return NULL;
    }
    size_t whole = (size_t)1 << class;
    pthread_mutex_lock(&lock);
    head *h = unused[class];
    if (h) {
        unused[class] = h->next;
    } else {
        if ((size_t)(end - at) < whole) {
            size_t more = whole > 64u << 20 ? whole : 64u << 20;
            at = mmap(NULL, more, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
            end = at + more;
        }
        h = (head *)(void *)at;
        at += whole;
    }
    h->bytes = whole - HEAD;
    h->next = h; /* while it is in use: where the block really begins */
    pthread_mutex_unlock(&lock);
    return h + 1;
}

EXPORT void *malloc(size_t bytes) { return take(bytes); }

static void *take_aligned(size_t align, size_t bytes)
{
    if (align <= HEAD)
        return take(bytes);
    char *block = bytes + align < bytes ? NULL : take(bytes + align);
    uintptr_t odd = (uintptr_t)block % align;
    if (!block || !odd)
        return block;
    head *from = (head *)(void *)block - 1, *h = (head *)(void *)(block + align - odd) - 1;
    h->bytes = from->bytes - (align - odd);
    h->next = from;
    return h + 1;
}

EXPORT void free(void *block)
{
    if (!block)
        return;
    head *h = ((head *)block - 1)->next;
    unsigned class = (unsigned)__builtin_ctzll(h->bytes + HEAD);
    pthread_mutex_lock(&lock);
    h->next = unused[class];
    unused[class] = h;
    pthread_mutex_unlock(&lock);
}

EXPORT void *calloc(size_t count, size_t each)
{
    size_t bytes;
    if (__builtin_mul_overflow(count, each, &bytes)) {
        errno = ENOMEM;
        return NULL;
    }
#ifdef CALLS_MALLOC
    void *block = malloc(bytes);
#else
    void *block = take(bytes);
#endif
    return block ? memset(block, 0, bytes) : NULL;
}

EXPORT void *realloc(void *block, size_t bytes)
{
    void *moved = take(bytes);
    if (moved && block) {
        size_t old = ((head *)block - 1)->bytes;
        memcpy(moved, block, old < bytes ? old : bytes);
        free(block);
    }
    return moved;
}

#ifdef WITH_SIZES
EXPORT size_t malloc_usable_size(void *block);
EXPORT size_t malloc_usable_size(void *block)
{
    return block ? (size_t)((head *)block - 1)->bytes : 0;
}
#endif

EXPORT int posix_memalign(void **out, size_t align, size_t bytes)
{
    void *block = take_aligned(align, bytes);
    if (block)
        *out = block;
    return block ? 0 : ENOMEM;
}
EXPORT void *aligned_alloc(size_t align, size_t bytes) { return take_aligned(align, bytes); }
EXPORT void *memalign(size_t align, size_t bytes);
EXPORT void *memalign(size_t align, size_t bytes) { return take_aligned(align, bytes); }
