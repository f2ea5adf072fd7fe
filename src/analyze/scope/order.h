/* Orders that sorts of other tools leave where moments are equal, or contradict one another. */
#ifndef KA_ORDER_H
#define KA_ORDER_H

#include "base/base.h"

/* ---- order_hta.c: numpy's argsort, for HTA's running sums ---- */
/** Fill `order` with indexes of ns[0 … count-1], sorted. */
void ka_order_as_hta(const int64_t *ns, uint32_t *order, size_t count);

/* ---- order_python.c: Python's list.sort ---- */
typedef bool ka_less(const void *context, uint32_t a, uint32_t b);

/** Sort in place; `less` may contradict itself, but what comes out depends on it alone.
 *  @return false: out of memory. */
bool ka_order_python(uint32_t *items, size_t count, ka_less *less, const void *context);
#endif
