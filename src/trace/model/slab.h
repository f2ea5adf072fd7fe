/* Memory for what comes one after the other and is kept: taken from large pieces of fresh memory, in
 * huge pages where the system has them. A fault for each small page would cost more than what is
 * written into it. Two slabs that were released, 64 MiB, stay mapped for the next trace; the system
 * may take their pages whenever it is short of memory. */
#ifndef KT_SLAB_H
#define KT_SLAB_H

#include "base/base.h"

typedef struct kt_slab kt_slab;

/** Aligned to 64 bytes. Out of *slab, which is replaced by a new one if it has no room: NULL at
 *  first. What was taken holds a reference, which is let go of by kt_slab_release; *slab another.
 *  One thread at a time. @return NULL: out of memory. */
void *kt_slab_take(kt_slab **slab, size_t bytes);
/** All the room there is, at least so much: *bytes is how much. */
void *kt_slab_take_rest(kt_slab **slab, size_t least_bytes, size_t *bytes);
/** Of what was taken last only so much is needed. */
void kt_slab_trim(kt_slab *slab, const void *memory, size_t bytes);
/** From any thread. NULL is fine. */
void kt_slab_release(kt_slab *slab);
#endif
