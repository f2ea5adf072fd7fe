/* Slabs: see slab.h. */
#include "trace/model/slab.h"

#include <sys/mman.h>

#define SLAB_BYTES ((size_t)32 << 20) /* of address space; what is not written costs nothing */
#define ALIGN      ((size_t)64)

struct kt_slab {
    uint32_t references;
    uint8_t *memory;
    size_t used, bytes;
};

/* Huge pages begin at multiples of their size: what lies before and behind goes back. */
static uint8_t *map_aligned(size_t bytes)
{
    uint8_t *all =
        mmap(NULL, bytes + KB_HUGE_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (all == MAP_FAILED)
        return NULL;
    size_t before = (size_t)(kb_align((uintptr_t)all, KB_HUGE_BYTES) - (uintptr_t)all);
    if (before)
        (void)munmap(all, before);
    (void)munmap(all + before + bytes, KB_HUGE_BYTES - before);
    (void)madvise(all + before, bytes, MADV_HUGEPAGE);
    return all + before;
}

/* ---- slabs kept for the next trace --------------------------------------------------------------------
 * A program that profiles step after step builds a trace of the same size each time. What it
 * released is taken again, without a fault for each page; until then the system may have it if it
 * needs any. */

#define KEPT 2u

static void *kept[KEPT]; /* of SLAB_BYTES each; 0: none */

static bool keep(void *memory, size_t bytes)
{
    if (bytes != SLAB_BYTES || madvise(memory, bytes, MADV_FREE))
        return false;
    for (uint32_t i = 0; i < KEPT; i++) {
        void *none = NULL;
        if (kb_cas_acqrel(&kept[i], &none, memory))
            return true;
    }
    return false;
}

static uint8_t *take_kept(size_t bytes)
{
    uint8_t *memory = NULL;
    for (uint32_t i = 0; i < KEPT && bytes == SLAB_BYTES && !memory; i++)
        memory = kb_exchange_acqrel(&kept[i], NULL);
    return memory;
}

/* ---- slabs ----------------------------------------------------------------------------------------------- */

static kt_slab *slab_create(size_t least_bytes)
{
    if (least_bytes > SIZE_MAX / 2)
        return NULL;
    kt_slab *s = calloc(1, sizeof *s);
    size_t bytes = KB_MAX(SLAB_BYTES, kb_align(2 * least_bytes, KB_HUGE_BYTES));
    uint8_t *memory = s ? take_kept(bytes) : NULL;
    if (s && !memory)
        memory = map_aligned(bytes);
    if (!memory) {
        free(s);
        return NULL;
    }
    *s = (kt_slab){.references = 1, .memory = memory, .bytes = bytes};
    return s;
}

/* Room for so much in *slab. */
static bool make_room(kt_slab **slab, size_t bytes)
{
    if (*slab && (*slab)->bytes - (*slab)->used >= bytes)
        return true;
    kt_slab *fresh = slab_create(bytes);
    if (!fresh)
        return false;
    kt_slab_release(*slab);
    *slab = fresh;
    return true;
}

static void *take(kt_slab *s, size_t bytes)
{
    void *memory = s->memory + s->used;
    s->used = KB_MIN(s->bytes, (s->used + bytes + ALIGN - 1) / ALIGN * ALIGN);
    kb_add_relaxed(&s->references, 1);
    return memory;
}

void *kt_slab_take(kt_slab **slab, size_t bytes)
{
    return make_room(slab, bytes) ? take(*slab, bytes) : NULL;
}

void *kt_slab_take_rest(kt_slab **slab, size_t least_bytes, size_t *bytes)
{
    if (!make_room(slab, least_bytes))
        return NULL;
    *bytes = (*slab)->bytes - (*slab)->used;
    return take(*slab, *bytes);
}

void kt_slab_trim(kt_slab *slab, const void *memory, size_t bytes)
{
    size_t end = (size_t)((const uint8_t *)memory - slab->memory) + bytes;
    slab->used = (end + ALIGN - 1) / ALIGN * ALIGN;
}

void kt_slab_release(kt_slab *slab)
{
    if (!slab || kb_add_acqrel(&slab->references, UINT32_MAX) != 1)
        return;
    if (!keep(slab->memory, slab->bytes))
        (void)munmap(slab->memory, slab->bytes);
    free(slab);
}
