/* Allocation: arrays that grow or may be large (KB_VEC in base.h), and arenas, which are freed in one
 * call. */
#include "base/base.h"

/* ---- arrays ---------------------------------------------------------------------------------- */

bool kb_vec_grow(void **data, size_t *capacity, size_t need, size_t item_bytes)
{
    size_t n = *capacity < 8 ? 16 : *capacity;
    while (n < need) {
        if (n > SIZE_MAX / 2)
            return false;
        n *= 2;
    }
    if (n > (size_t)PTRDIFF_MAX / item_bytes)
        return false;
    /* The caller's pointer has another type: copied as bytes, so that no alias rule is broken. */
    void *old, *grown;
    memcpy(&old, data, sizeof(old));
    grown = realloc(old, n * item_bytes);
    if (!grown)
        return false;
    (void)kb_os_huge(grown, n * item_bytes); /* what was written moved as it was */
    memcpy(data, &grown, sizeof(grown));
    *capacity = n;
    return true;
}

void *kb_array(size_t count, size_t item_bytes)
{
    bool fits = !item_bytes || count <= (size_t)PTRDIFF_MAX / item_bytes;
    return fits ? kb_os_huge(malloc(KB_MAX(count * item_bytes, (size_t)1)), count * item_bytes)
                : NULL;
}

void *kb_array_zeroed(size_t count, size_t item_bytes)
{
    void *array = calloc(KB_MAX(count, (size_t)1), KB_MAX(item_bytes, (size_t)1));
    return array ? kb_os_huge(array, count * item_bytes) : NULL;
}

/* ---- arenas: blocks that double in size, never moved ----------------------------------------- */

struct kb_arena_block {
    struct kb_arena_block *next;
    size_t used, size; /* of the bytes after this header */
};

enum { FIRST_BLOCK_BYTES = 4096, LARGEST_BLOCK_BYTES = 1 << 20 };

static char *block_bytes(struct kb_arena_block *b) { return (char *)(b + 1); }

/* Room in a block for aligned bytes, or NULL. */
static void *take_from_block(struct kb_arena_block *b, size_t bytes, size_t align)
{
    uintptr_t base = (uintptr_t)block_bytes(b);
    uintptr_t at = (base + b->used + align - 1) & ~(uintptr_t)(align - 1);
    size_t skip = (size_t)(at - base);
    if (skip > b->size || bytes > b->size - skip)
        return NULL;
    b->used = skip + bytes;
    return block_bytes(b) + skip;
}

static struct kb_arena_block *alloc_arena_block(size_t bytes)
{
    struct kb_arena_block *b = malloc(sizeof(*b) + bytes);
    if (b)
        *b = (struct kb_arena_block){NULL, 0, bytes};
    return b;
}

/* Allocate in a new block. A large piece gets a block of its own, second in the list, so that the
 * first block can still be filled. */
static void *alloc_in_new_block(kb_arena *a, size_t bytes, size_t align)
{
    size_t next = a->next_block_bytes ? a->next_block_bytes : FIRST_BLOCK_BYTES;
    if (bytes > SIZE_MAX / 2 - align)
        return NULL;
    bool own = bytes + align > next / 2;
    struct kb_arena_block *b = alloc_arena_block(own ? bytes + align : next);
    if (!b)
        return NULL;
    if (own && a->head) {
        b->next = a->head->next;
        a->head->next = b;
    } else {
        b->next = a->head;
        a->head = b;
    }
    if (!own)
        a->next_block_bytes = KB_MIN(next * 2, (size_t)LARGEST_BLOCK_BYTES);
    return take_from_block(b, bytes, align);
}

void *kb_arena_alloc(kb_arena *a, size_t bytes, size_t align)
{
    KB_ASSERT(align > 0 && (align & (align - 1)) == 0);
    void *p = a->head ? take_from_block(a->head, bytes, align) : NULL;
    if (!p)
        p = alloc_in_new_block(a, bytes, align);
    if (p)
        a->used_bytes += bytes;
    return p;
}

char *kb_arena_copy(kb_arena *a, const void *data, size_t bytes)
{
    char *p = bytes < SIZE_MAX ? kb_arena_alloc(a, bytes + 1, 1) : NULL;
    if (!p)
        return NULL;
    if (bytes)
        memcpy(p, data, bytes);
    p[bytes] = '\0';
    return p;
}

void kb_arena_free(kb_arena *a)
{
    for (struct kb_arena_block *b = a->head, *next; b; b = next) {
        next = b->next;
        free(b);
    }
    *a = (kb_arena){0};
}
