/* Facts for human eyes: how sound the traces are, and tables. */
#ifndef KC_FACTS_H
#define KC_FACTS_H

#include "cli/cli.h"

#include <ckineto/analyze.h>

/** What was lost and what `verify` finds, of all ranks. */
typedef struct kc_health {
    uint64_t traces, activities, lost, repaired;
    uint64_t findings[3]; /* by severity */
    KB_VEC(char) lines;   /* the worst, as text */
    uint32_t line_count;
    uint64_t lines_left_out;
} kc_health;
void kc_health_add(kc_health *h, const kineto_trace *trace, int32_t rank);
void kc_health_print(const kc_health *h, FILE *out);
void kc_health_free(kc_health *h);

/** All tables; of each at most `limit` rows (0: all). */
void kc_facts_print(const kineto_analysis *a, uint64_t limit, FILE *out);
#endif
