/* Limits the resident memory of large mapped files after they were parsed (see kt_resident_parts in
 * input.h). An analysis of arguments reads through the whole file, often more than once,
 * and all pages that it touches would count as memory of the program. The ring of resident
 * parts is under the mutex of the input; the flags `here` are also read without it. */
#include "trace/bytes/input.h"

#include <sys/mman.h>

/* The kernel maps the pages around a faulting one as well, in aligned blocks of this size,
 * which may begin before the part and end after it. */
#define AROUND_BYTES ((size_t)64 << 10)

static uint32_t releasing_files; /* number of inputs that release parts */

/* The share of KT_PARTS for one file, at least 4. */
static uint32_t max_resident_parts(void)
{
    uint32_t count = kb_load_relaxed(&releasing_files);
    return KB_MAX(KT_PARTS / KB_MAX(count, 1u), 4u);
}

void kt_resident_parts_begin(kt_input *in)
{
    if (!in->mapped || in->ready_bytes < KT_LARGE_BYTES)
        return;
    in->parts.here = calloc(in->ready_bytes / KT_PART_BYTES + 1, 1);
    if (in->parts.here)
        kb_add_relaxed(&releasing_files, 1);
}

void kt_resident_parts_end(kt_input *in)
{
    if (in->parts.here)
        kb_add_relaxed(&releasing_files, UINT32_MAX);
    free(in->parts.here);
}

/* Releases the oldest part. A thread that still reads from it faults its pages in again. */
static void release_oldest_part(kt_input *in)
{
    kt_resident_parts *p = &in->parts;
    size_t part = p->last[p->first];
    KB_ASSERT(p->count && kb_load_relaxed(&p->here[part]) == 1);
    p->first = (p->first + 1) % KT_PARTS;
    p->count--;
    kb_store_relaxed(&p->here[part], (uint8_t)0);
    size_t from = part * KT_PART_BYTES, end = from + KT_PART_BYTES + AROUND_BYTES;
    from -= KB_MIN(from, AROUND_BYTES);
    end = KB_MIN(end, in->ready_bytes);
    (void)madvise((char *)(uintptr_t)in->base + from, end - from, MADV_DONTNEED);
}

/* If another thread has the mutex, the next read of the part enters it: no thread waits
 * here, and the child of a fork never blocks on a mutex that another thread held. */
void kt_resident_parts_enter(kt_input *in, size_t part)
{
    kt_resident_parts *p = &in->parts;
    if (pthread_mutex_trylock(&in->mutex) != 0)
        return;
    if (!kb_load_relaxed(&p->here[part])) {
        for (uint32_t most = max_resident_parts(); p->count >= most;)
            release_oldest_part(in);
        KB_ASSERT(p->count < KT_PARTS);
        p->last[(p->first + p->count++) % KT_PARTS] = (uint32_t)part;
        kb_store_relaxed(&p->here[part], (uint8_t)1);
    }
    pthread_mutex_unlock(&in->mutex);
}
