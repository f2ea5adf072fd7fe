/* The tree of calls of a scope. */
#ifndef KA_CALLS_H
#define KA_CALLS_H

#include "analyze/scope.h"

/** Exact: what encloses a range on its lane. HTA's: on its thread, in whole microseconds; and
 * ranges of the thread that computes backward belong to the range of the main thread that waits for
 * it. Arrays are by index of slices. */
typedef struct ka_calls {
    uint32_t count;   /* of `order` */
    uint32_t *order;  /* slices; what encloses another one on its thread comes before it */
    uint32_t *behind; /* by place in `order`: first place behind what it encloses on its thread */
    uint32_t *parent; /* slice; KA_NONE */
    uint32_t *depth, *height, *kernels;
    int64_t *kernel_ns;
} ka_calls;

/** False: out of memory. To be freed in any case. */
bool ka_calls_create(const ka_scope *s, ka_calls *c);
void ka_calls_free(ka_calls *c);
/** Does it count as launched by its call? */
static inline bool ka_calls_have(const ka_scope *s, const ka_work *w)
{
    return w->call != KA_NONE && (!s->hta || s->streams[w->stream].id > 0);
}
#endif
