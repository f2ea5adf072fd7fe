/* Parts of a mapped file that are looked at after it has been read: see input.h. Who looks for
 * arguments of rows comes through the whole file, often more than once; its pages would all count
 * as memory of the program. */
#include "trace/bytes/input.h"

#include <sys/mman.h>

/* With a page the system maps those around it, in blocks of this size that may begin before the
 * part. */
#define AROUND_BYTES ((size_t)64 << 10)

static uint32_t files; /* that give back */

static uint32_t most_parts(void)
{
    uint32_t count = kb_load_relaxed(&files);
    return KB_MAX(KT_PARTS / KB_MAX(count, 1u), 4u);
}

void kt_parts_begin(kt_input *in)
{
    if (!in->mapped || in->ready_bytes < KT_LARGE_BYTES)
        return;
    in->parts.here = calloc(in->ready_bytes / KT_PART_BYTES + 1, 1);
    if (in->parts.here)
        kb_add_relaxed(&files, 1);
}

void kt_parts_end(kt_input *in)
{
    if (in->parts.here)
        kb_add_relaxed(&files, UINT32_MAX);
    free(in->parts.here);
}

/* Whoever still looks at it faults its pages in again. */
static void give_oldest(kt_input *in)
{
    kt_parts *p = &in->parts;
    size_t part = p->last[p->first];
    p->first = (p->first + 1) % KT_PARTS;
    p->count--;
    kb_store_relaxed(&p->here[part], (uint8_t)0);
    size_t from = part * KT_PART_BYTES, end = from + KT_PART_BYTES + AROUND_BYTES;
    from -= KB_MIN(from, AROUND_BYTES);
    end = KB_MIN(end, in->ready_bytes);
    (void)madvise((char *)(uintptr_t)in->base + from, end - from, MADV_DONTNEED);
}

/* If somebody else is at it, the next look does it: nobody waits, nor does the child of a fork. */
void kt_parts_enter(kt_input *in, size_t part)
{
    kt_parts *p = &in->parts;
    if (pthread_mutex_trylock(&in->mutex) != 0)
        return;
    if (!kb_load_relaxed(&p->here[part])) {
        for (uint32_t most = most_parts(); p->count >= most;)
            give_oldest(in);
        p->last[(p->first + p->count++) % KT_PARTS] = (uint32_t)part;
        kb_store_relaxed(&p->here[part], (uint8_t)1);
    }
    pthread_mutex_unlock(&in->mutex);
}
