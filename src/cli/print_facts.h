/* Facts for human eyes: how sound the traces are, and tables. */
#ifndef KC_FACTS_H
#define KC_FACTS_H

#include "analyze/saved/trace_health.h"
#include "cli/cli.h"

#include <ckineto/analyze.h>

/** What was lost and what `verify` finds, of all ranks. */
typedef struct kc_health {
    ka_coverage coverage; /* which ranks there are */
    uint64_t activities, lost;
    /* the end of one of their files is missing */
    bool is_cut;
    uint64_t findings[3]; /* by severity */
    KB_VEC(char) lines;   /* the worst, as text */
    uint32_t line_count;
    uint64_t lines_left_out;
} kc_health;
/** `rank` names the trace in the lines; -1: it is the only one. */
void kc_health_add(kc_health *h, const kineto_trace *trace, int32_t rank);
/** The same of a trace that was measured before. */
void kc_health_add_measured(kc_health *h, const ka_trace_health *one, int32_t rank);
void kc_health_print(const kc_health *h, FILE *out);
void kc_health_free(kc_health *h);
/** After it: clocks that cannot be aligned, and collectives that differ between ranks. NULL: ranks were not compared. */
void kc_print_rank_warnings(const kineto_analysis *a, FILE *out);

/** All tables; of each at most `limit` rows (0: all): the first ones; of several ranks the
 * heaviest. */
void kc_facts_print(const kineto_analysis *a, uint64_t limit, bool several, FILE *out);

/** Index of a column; UINT32_MAX: there is none. */
uint32_t kc_fact_column_index(const kineto_analysis *a, uint32_t table, const char *name);
/** 0 where there is no value. */
double kc_fact_number_at(const kineto_analysis *a, uint32_t table, uint64_t row, uint32_t column);
#endif
