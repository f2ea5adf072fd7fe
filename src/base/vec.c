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
