/* Functions of a file by the unwinder's tables (.eh_frame): each entry has the range of a function, also in
 * files that were stripped of their symbols. Tables are untrusted. */
#include "base/cfi.h"
#include "trace/from_recording/symbols.h"

#define MAX_ENTRIES (UINT32_C(1) << 24)

static int compare_frame_functions(const void *a, const void *b)
{
    const kt_frame_function *x = a, *y = b;
    return KB_COMPARE(x->start, y->start);
}

/* Entries follow each other, each after the number of its bytes. A malformed one is skipped, a malformed
 * size ends the list. */
void kt_frames_index(const kt_frames *frames, kt_frame_index *index)
{
    const uint8_t *bytes = (const uint8_t *)frames->bytes;
    kb_cfi_bounds bounds = {bytes, bytes + frames->size};
    bool is_sorted = true;
    uint64_t last = 0;
    for (size_t at = 0; at + 8 <= frames->size && index->count < MAX_ENTRIES;) {
        uint32_t size, distance;
        memcpy(&size, bytes + at, sizeof size);
        memcpy(&distance, bytes + at + 4, sizeof distance);
        kt_frame_function f = {.entry = (uint32_t)at};
        if (size > frames->size - at - 4)
            break;
        if (size >= 8 && distance != 0 &&
            kb_cfi_range(bytes + at, bounds, frames->address + at + 8, &f.start, &f.size)) {
            is_sorted &= f.start >= last;
            last = f.start;
            if (!kb_vec_push(index, f))
                break;
        }
        at += 4 + (size_t)size;
    }
    if (!is_sorted)
        qsort(index->data, index->count, sizeof *index->data, compare_frame_functions);
}

const kt_frame_function *kt_frames_find(const kt_frame_index *index, uint64_t address)
{
    size_t next = 0;
    KB_LOWER_BOUND(next, index->count, index->data[next].start <= address);
    const kt_frame_function *f = next ? &index->data[next - 1] : NULL;
    return f && address - f->start < f->size ? f : NULL;
}
