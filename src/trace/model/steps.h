/* The steps of a program, decided in one place for analyses, selections, tables, SQL and the
 * report: which ranges are steps, the number of each, and how messages name them. Ranges of
 * PyTorch's profiler are called "ProfilerStep#N"; docs/reference/analyze.md says how other steps are found
 * and numbered. */
#ifndef KT_STEPS_H
#define KT_STEPS_H

#include "trace/trace.h"

typedef struct kt_step_row {
    kineto_row row;
    /* Index of the process whose track has the row. */
    uint32_t process;
    int64_t start_ns, end_ns;
    uint64_t number; /* N of ProfilerStep#N; of other steps see docs/reference/analyze.md */
} kt_step_row;

typedef struct kt_step_list {
    KB_VEC(kt_step_row) rows; /* ascending by row */
    /* By string id: 1 if a row of this name can be a step. */
    uint8_t *is_name;
    /* String id of the ranges that repeat like steps, if the steps are those; else KB_INTERN_NONE. */
    uint32_t repeated_name;
} kt_step_list;

/** Parses "ProfilerStep#12". False: the name has another form; *number is unspecified. */
bool kt_step_number(kineto_string name, uint64_t *number);
/** True if a name matches a pattern of --step-pattern: alternatives separated by '|'; '*' matches
 *  any text; any text may follow the match. */
bool kt_step_matches(kineto_string name, const char *pattern);

/** Finds the steps of a trace.
 *  @param pattern  names of steps; NULL: ProfilerStep#N.
 *  @param known    with pattern NULL: drop the empty remainder of a step that PyTorch's profiler
 *                  leaves when it is stopped; and if the trace has no ProfilerStep#N, use the
 *                  annotations of inference servers (SGLang, vLLM, ATOM) instead, else ranges that
 *                  repeat like steps (repeated_ranges.h).
 *  @return false: out of memory. Free the list in any case. */
bool kt_step_list_make(const kineto_trace *t, const char *pattern, bool known, kt_step_list *out);
void kt_step_list_free(kt_step_list *list);
/** The step of a row with this name; NULL: the row is not a step. */
const kt_step_row *kt_step_list_find(const kt_step_list *list, kineto_row row, uint32_t name);

/** Reports KINETO_E_NOT_FOUND: the trace has no steps at all. `pattern` as above. */
kineto_status kt_fail_no_steps(const char *pattern, kineto_error *err);
/** "step 3" or "steps 3..5", for messages. */
kb_text kt_format_step_range(uint64_t first, uint64_t last);
#endif
