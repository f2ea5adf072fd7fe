/* Growing arrays: see KB_VEC in base.h. */
#include "base/base.h"

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
