/* A bump allocator for the columns and arguments of blocks, out of large pieces of memory
 * in huge pages where the system has them: a page fault for each small page would cost more
 * than writing it. Two released slabs (64 MiB) stay mapped for the next trace, with
 * MADV_FREE, so that the kernel may reclaim their pages when memory is short. */
#ifndef KT_SLAB_H
#define KT_SLAB_H

#include "base/base.h"

typedef struct kt_slab kt_slab;

/** Allocates `bytes`, aligned to 64, from *slab, which is replaced by a new slab if it has
 *  no room (NULL at first). Each allocation holds a reference to its slab until
 *  kt_slab_release, and *slab holds one. One thread at a time. @return NULL: out of memory. */
void *kt_slab_take(kt_slab **slab, size_t bytes);
/** Allocates the whole rest of the slab, at least least_bytes; *bytes receives its size. */
void *kt_slab_take_rest(kt_slab **slab, size_t least_bytes, size_t *bytes);
/** Shrinks the last allocation to `bytes`; the rest is available again. */
void kt_slab_trim(kt_slab *slab, const void *memory, size_t bytes);
/** Drops a reference, from any thread; the last one releases the slab. NULL is ignored. */
void kt_slab_release(kt_slab *slab);
#endif
