/* The bump allocator of slab.h, and the cache of released slabs. A slab is filled by one
 * thread; references and the cache are atomic, because traces are released by any thread. */
#include "trace/model/slab.h"

#include <sys/mman.h>

#define SLAB_BYTES ((size_t)32 << 20) /* of address space; unused pages take no memory */
#define ALIGN      ((size_t)64)

struct kt_slab {
    uint32_t references;
    uint8_t *memory;
    size_t used, bytes; /* used <= bytes */
};

/* Maps memory aligned to huge pages: maps more, and unmaps the parts before and after.
 * NULL: none. */
static uint8_t *map_aligned(size_t bytes)
{
    uint8_t *all =
        mmap(NULL, bytes + KB_HUGE_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1,
             0);
    if (all == MAP_FAILED)
        return NULL;
    size_t before = (size_t)(kb_align((uintptr_t)all, KB_HUGE_BYTES) - (uintptr_t)all);
    if (before)
        (void)munmap(all, before);
    (void)munmap(all + before + bytes, KB_HUGE_BYTES - before);
    (void)madvise(all + before, bytes, MADV_HUGEPAGE);
    return all + before;
}

/* ---- slabs cached for the next trace --------------------------------------------------------- */

#define MAX_CACHED 2u

/* Memory of SLAB_BYTES each; NULL: none. A program that profiles step after step builds a
 * trace of the same size each time, and takes this memory again without page faults. */
static void *kept[MAX_CACHED];

/* Puts memory into the cache; false: it has another size, or the cache is full. */
static bool cache_slab_memory(void *memory, size_t bytes)
{
    if (bytes != SLAB_BYTES || madvise(memory, bytes, MADV_FREE))
        return false;
    for (uint32_t i = 0; i < MAX_CACHED; i++) {
        void *none = NULL;
        if (kb_cas_acqrel(&kept[i], &none, memory))
            return true;
    }
    return false;
}

/* Takes memory of this size out of the cache; NULL: none. */
static uint8_t *take_cached_memory(size_t bytes)
{
    uint8_t *memory = NULL;
    for (uint32_t i = 0; i < MAX_CACHED && bytes == SLAB_BYTES && !memory; i++)
        memory = kb_exchange_acqrel(&kept[i], NULL);
    return memory;
}

/* ---- slabs ----------------------------------------------------------------------------------- */

/* A slab with room for at least twice least_bytes, and one reference. NULL: out of memory. */
static kt_slab *create_slab(size_t least_bytes)
{
    if (least_bytes > SIZE_MAX / 2)
        return NULL;
    kt_slab *s = calloc(1, sizeof *s);
    size_t bytes = KB_MAX(SLAB_BYTES, kb_align(2 * least_bytes, KB_HUGE_BYTES));
    uint8_t *memory = s ? take_cached_memory(bytes) : NULL;
    if (s && !memory)
        memory = map_aligned(bytes);
    if (!memory) {
        free(s);
        return NULL;
    }
    *s = (kt_slab){.references = 1, .memory = memory, .bytes = bytes};
    return s;
}

/* Replaces *slab by a new one unless it has room for `bytes`. False: out of memory. */
static bool reserve_slab(kt_slab **slab, size_t bytes)
{
    if (*slab && (*slab)->bytes - (*slab)->used >= bytes)
        return true;
    kt_slab *fresh = create_slab(bytes);
    if (!fresh)
        return false;
    kt_slab_release(*slab);
    *slab = fresh;
    return true;
}

/* Allocates from a slab that has room; the allocation holds a reference. */
static void *allocate_from_slab(kt_slab *s, size_t bytes)
{
    KB_ASSERT(s->used % ALIGN == 0 && bytes <= s->bytes - s->used);
    void *memory = s->memory + s->used;
    s->used = KB_MIN(s->bytes, (s->used + bytes + ALIGN - 1) / ALIGN * ALIGN);
    kb_add_relaxed(&s->references, 1);
    return memory;
}

void *kt_slab_take(kt_slab **slab, size_t bytes)
{
    return reserve_slab(slab, bytes) ? allocate_from_slab(*slab, bytes) : NULL;
}

void *kt_slab_take_rest(kt_slab **slab, size_t least_bytes, size_t *bytes)
{
    if (!reserve_slab(slab, least_bytes))
        return NULL;
    *bytes = (*slab)->bytes - (*slab)->used;
    return allocate_from_slab(*slab, *bytes);
}

void kt_slab_trim(kt_slab *slab, const void *memory, size_t bytes)
{
    size_t end = (size_t)((const uint8_t *)memory - slab->memory) + bytes;
    KB_ASSERT(end <= slab->used); /* `memory` is the last allocation */
    slab->used = (end + ALIGN - 1) / ALIGN * ALIGN;
}

void kt_slab_release(kt_slab *slab)
{
    if (!slab || kb_add_acqrel(&slab->references, UINT32_MAX) != 1)
        return;
    if (!cache_slab_memory(slab->memory, slab->bytes))
        (void)munmap(slab->memory, slab->bytes);
    free(slab);
}
