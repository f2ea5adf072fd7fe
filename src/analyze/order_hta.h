/* The order in which numpy's argsort leaves equal moments: for HTA's running sums. */
#ifndef KA_ORDER_HTA_H
#define KA_ORDER_HTA_H

#include "analyze/scope.h"

/** Fill `order` with indexes of ns[0 … count-1], sorted. */
void ka_order_as_hta(const int64_t *ns, uint32_t *order, size_t count);
#endif
