/* Sets of values that many activities share: each is sent to the host once and referred to by a
 * number from then on. A training step launches the same kernels with the same configuration again
 * and again. */
#ifndef PLUGINS_VALUE_SETS_H
#define PLUGINS_VALUE_SETS_H

#include "support.h"

/* The values that determine a set; the first word says of which kind, and is not 0. */
typedef struct cp_set_key {
    uint32_t words[20];
} cp_set_key;
typedef struct cp_sets cp_sets;

cp_sets *cp_sets_create(void); /* NULL: out of memory */
void cp_sets_free(cp_sets *s);
/** The host's number of the set; 0: unknown, or the host refused it. */
uint32_t cp_sets_find(const cp_sets *s, const cp_set_key *key);
/** Register the values for a key that cp_sets_find does not have. @return the number, and `values` is
 * empty; 0: the host has no sets, no space for more, or has refused this one already. */
uint32_t cp_sets_add(cp_sets *s, const KinetoPlugin_TraceBuilder *builder, const cp_set_key *key,
                     cp_values *values);

#endif
