/* Orders that sorts of other tools leave where moments are equal, or contradict one another. */
#ifndef KA_ORDER_H
#define KA_ORDER_H

#include "base/base.h"

#include <ckineto/trace.h>

/* ---- order_hta.c: numpy's argsort, for HTA's running sums ---- */
/** Fill `order` with indexes of ns[0 … count-1], sorted. */
void ka_order_numpy(const int64_t *ns, uint32_t *order, size_t count);

/** What makes a queue longer, a launch, or shorter, work that begins. */
typedef struct ka_hta_queue_change {
    kineto_row row;
    int64_t ns;
    uint32_t index, stream; /* index: the caller's */
    int32_t by;             /* 1, -1 */
} ka_hta_queue_change;
typedef KB_VEC(ka_hta_queue_change) ka_hta_queue_changes;
/** Put them into the order in which HTA counts: launches as in the file, then work as in the file
 * is what it sorts by time. False: out of memory. */
bool ka_hta_order_queue(ka_hta_queue_changes *changes);

/* ---- order_python.c: Python's list.sort ---- */
typedef bool ka_less(const void *context, uint32_t a, uint32_t b);

/** Sort in place; `less` may contradict itself, but what comes out depends on it alone.
 *  @return false: out of memory. */
bool ka_order_python(uint32_t *items, size_t count, ka_less *less, const void *context);
#endif
