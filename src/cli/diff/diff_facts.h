/* The comparison of facts of two runs. */
#ifndef KC_DIFF_FACTS_H
#define KC_DIFF_FACTS_H

#include "cli/open_many.h"

/** Are any of the operands facts? Then, and with --ranks, runs are compared by their ranks. */
bool kc_diff_is_of_facts(char *const *paths, int count);
/** Where the comparison goes: to `json` and `csv` if they are not NULL; else, and unless `json` is "-", it is printed. */
typedef struct kc_diff_facts_output {
    uint64_t row_limit; /* of what is printed; 0: all */
    const char *json, *csv;
} kc_diff_facts_output;
/** Compare the facts of two runs, and name damaged files. A run may also be traces: of these facts are made, one trace after
 *  the other, in a temporary file. @param paths  two. */
kineto_status kc_diff_facts(char *const *paths, const kc_diff_facts_output *to, kineto_error *err);
#endif
