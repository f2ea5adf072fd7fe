/* How sound a trace is, as the first lines of commands show it: which rank it is, what was lost, and what verify finds. */
#ifndef KA_TRACE_HEALTH_H
#define KA_TRACE_HEALTH_H

#include "analyze/overview/coverage.h"
#include "analyze/saved/byte_coding.h"

#include <ckineto/analyze.h>

/** Findings of verify that are kept, the worst first; the others are only counted. */
#define KA_MAX_HEALTH_LINES 12u

typedef struct ka_health_line {
    uint8_t severity;        /* kineto_severity */
    kineto_string rule, sentence; /* in the arena */
} ka_health_line;

typedef struct ka_trace_health {
    ka_coverage coverage;
    uint64_t activities, lost;
    bool is_cut;          /* the end of its file is missing */
    uint64_t findings[3]; /* of verify, by severity */
    uint64_t warnings;    /* more severe than notes: those of `lines`, and the others */
    uint32_t line_count;
    ka_health_line lines[KA_MAX_HEALTH_LINES];
    kb_arena arena;
} ka_trace_health;

/** @param rank  of the trace; NULL: as it says. @param h  to be freed, also on failure. False: out of memory. */
bool ka_measure_health(const kineto_trace *trace, const int32_t *rank, ka_trace_health *h);
void ka_trace_health_free(ka_trace_health *h);
/** As bytes of a section, and back. False: out of memory, or r->is_bad. */
void ka_write_health(ka_byte_writer *w, const ka_trace_health *h);
bool ka_read_health(ka_byte_reader *r, ka_trace_health *h);
#endif
