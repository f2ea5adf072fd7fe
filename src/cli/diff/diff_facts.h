/* The comparison of facts of two runs. */
#ifndef KC_DIFF_FACTS_H
#define KC_DIFF_FACTS_H

#include "cli/open_many.h"

/** Are any of the operands facts? */
bool kc_diff_is_of_facts(char *const *paths, int count);
/** Print what differs between two runs, and name damaged files. @param paths  two. */
kineto_status kc_diff_facts(char *const *paths, uint64_t row_limit, FILE *out, kineto_error *err);
#endif
