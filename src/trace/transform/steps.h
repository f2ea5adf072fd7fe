/* Which ranges are steps, decided in one place for analyses, selections, tables, SQL and the report. */
#ifndef KT_STEPS_H
#define KT_STEPS_H

#include "trace/trace.h"

typedef struct kt_step_row {
    kineto_row row;
    uint32_t process;
    int64_t start_ns, end_ns;
    uint64_t number; /* of ProfilerStep#N its N; else see docs/reference/analyze.md */
} kt_step_row;

typedef struct kt_step_list {
    KB_VEC(kt_step_row) rows; /* by row */
    uint8_t *is_name;         /* by string id: may a row of this name be one? */
} kt_step_list;

/** The number of a step's name, "ProfilerStep#12"; false if it is none. */
bool kt_step_number(kineto_string name, uint64_t *number);
/** Does a name match a pattern of --step-pattern: alternatives with '|' between, '*' stands for any text,
 *  and anything may follow. */
bool kt_step_matches(kineto_string name, const char *pattern);

/** Make the list of a trace.
 *  @param pattern  names of steps; NULL: ProfilerStep#N.
 *  @param known    with pattern NULL: without the rest of a step that a profiler left when it was stopped; where
 *                  there is no ProfilerStep#N, the annotations that inference servers (SGLang, vLLM, ATOM) put
 *                  around each step.
 *  @return false: out of memory; free it in any case. */
bool kt_step_list_make(const kineto_trace *t, const char *pattern, bool known, kt_step_list *out);
void kt_step_list_free(kt_step_list *list);
/** The step that a row of this name is; NULL: it is none. */
const kt_step_row *kt_step_list_find(const kt_step_list *list, kineto_row row, uint32_t name);
#endif
