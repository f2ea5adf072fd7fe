/* The order in which Python's list.sort leaves things that do not compare consistently. */
#ifndef KA_ORDER_PYTHON_H
#define KA_ORDER_PYTHON_H

#include "base/base.h"

typedef bool ka_less(const void *context, uint32_t a, uint32_t b);

/** Sort in place; `less` may contradict itself, but what comes out depends on it alone.
 *  @return false: out of memory. */
bool ka_order_python(uint32_t *items, size_t count, ka_less *less, const void *context);
#endif
