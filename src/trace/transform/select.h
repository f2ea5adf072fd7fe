/* Selecting rows of a trace: what the parts of a selection share. */
#ifndef KT_SELECT_H
#define KT_SELECT_H

#include "trace/model/steps.h"
#include "trace/transform/copy.h"
#include "trace/transform/merged_part.h"

/* A span of time of one process, [start, end). */
typedef struct kt_span {
    uint32_t process;
    int64_t start_ns, end_ns;
} kt_span;
typedef KB_VEC(kt_span) kt_spans;

/* The times of the selected steps. Rows of processes without steps of their own (loaders, devices)
 * are selected by the steps of all processes. */
typedef struct kt_step_filter {
    uint64_t first, last;     /* numbers of the selected steps */
    uint64_t lowest, highest; /* numbers that the trace has */
    bool any;                 /* the trace has steps */
    /* Selected, by (process, start), disjoint within a process. */
    kt_spans spans;
    kt_spans everywhere; /* the same of all processes, as one process 0 */
    kt_spans earlier;    /* of steps with smaller numbers than the selected ones */
    uint8_t *has_steps;  /* by process */
} kt_step_filter;

/* Whether a row is in the selected steps. UNDECIDED: an annotation of a device, which is selected
 * if device work inside it is; kt_step_filter_settle decides. */
typedef enum kt_in_steps { KT_OUTSIDE, KT_INSIDE, KT_UNDECIDED } kt_in_steps;

/* ---- select.c -------------------------------------------------------------------------------- */
/** kineto_trace_select for one rank. *rows: by row of the new trace the row in the old one; the
 *  caller frees it; NULL on failure. */
kineto_status kt_select_rank(const kineto_trace *t, int32_t rank, kineto_trace **out,
                             kineto_row **rows, kineto_error *err);

/* ---- select_calls.c -------------------------------------------------------------------------- */
/** True if the selection has a criterion of kt_select_calls. */
bool kt_selects_calls(const kineto_selection *how);
/** Evaluates how->under, around, after and before. *keep: 0 or 1 by row; the caller frees it, also
 *  on failure. *under: from the first start to the last end of the ranges that match how->under.
 *  KINETO_E_ARGUMENT names a bad regular expression. */
kineto_status kt_select_calls(const kineto_trace *t, const kineto_selection *how, uint8_t **keep,
                              kt_span *under, kineto_error *err);

/* ---- select_steps.c -------------------------------------------------------------------------- */
/** Collects the steps first..last, named by a pattern or NULL (trace/model/steps.h).
 *  KINETO_E_NOT_FOUND lists the steps of the trace. */
kineto_status kt_step_filter_make(kt_step_filter *s, const kineto_trace *t, const char *pattern,
                                  uint64_t first, uint64_t last, kineto_error *err);
void kt_step_filter_free(kt_step_filter *s);
/** Host rows belong to the step that they start in, device work to the step of its launch, or, if
 *  that is unknown, to the step that it starts in. */
kt_in_steps kt_step_filter_check(const kt_step_filter *s, const kineto_trace *t, kineto_row row);
/** When the work of devices that earlier steps launched has ended: a step lasts until then, and the next one
 *  begins there. INT64_MIN: there is none, or several processes have steps. */
int64_t kt_step_filter_border(const kt_step_filter *s, const kineto_trace *t);
/** Decides the rows of a track whose mark is `undecided`: 0 if work of the selected steps starts
 *  within them, else KINETO_NO_ROW. Other marks stay. False: out of memory. */
bool kt_step_filter_settle(const kt_step_filter *s, const kineto_trace *t, uint32_t track,
                           uint32_t *marks, uint32_t undecided);
#endif
