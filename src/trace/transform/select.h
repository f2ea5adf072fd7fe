/* Choosing rows of a trace: what the parts of a selection share. */
#ifndef KT_SELECT_H
#define KT_SELECT_H

#include "trace/transform/copy.h"
#include "trace/transform/merged_part.h"
#include "trace/transform/steps.h"

/* A span of time of one process, [start, end). */
typedef struct kt_span {
    uint32_t process;
    int64_t start_ns, end_ns;
} kt_span;
typedef KB_VEC(kt_span) kt_spans;

/* Which times belong to the chosen steps. */
typedef struct kt_steps {
    uint64_t first, last; /* chosen */
    uint64_t least, most; /* that are there */
    bool any;             /* is one there? */
    kt_spans spans;       /* chosen, by (process, start), disjoint within a process */
    kt_spans everywhere;  /* the same of all processes together */
    uint8_t *has_steps;   /* by process */
} kt_steps;

/* Is a row in the chosen steps? LATER: a device's annotation, which is where its work is. */
typedef enum kt_in_steps { KT_OUTSIDE, KT_INSIDE, KT_LATER } kt_in_steps;

/* ---- select.c ---- */
/** What kineto_trace_select does for one rank. *rows: by row of the new trace its row in the old one; to
 *  be freed, NULL on failure. */
kineto_status kt_select_rank(const kineto_trace *t, int32_t rank, kineto_trace **out,
                             kineto_row **rows, kineto_error *err);

/* ---- select_calls.c ---- */
bool kt_selects_calls(const kineto_selection *how);
/** What is under, around, after and before ranges as the selection wants: 0 or 1 by row. `keep` is
 *  the caller's to free, also on failure. *under: from the first start to the last end of the ranges of
 *  `how->under`. KINETO_E_ARGUMENT names a bad regular expression. */
kineto_status kt_select_calls(const kineto_trace *t, const kineto_selection *how, uint8_t **keep,
                              kt_span *under, kineto_error *err);

/* ---- select_rank.c ---- */
/** Give a new trace the header's "distributedInfo" with the rank that was chosen and all else that it had.
 *  `part`: the rank's own trace, whose header it gets; NULL: the trace is no merged one. False: out of memory. */
bool kt_select_put_rank(const kineto_trace *t, int32_t rank, const kt_merged_part *part, kt_builder *b);

/* ---- select_steps.c ---- */
/** "step 3", "step of 3..5": what there is none of. */
kb_text kt_steps_text(uint64_t first, uint64_t last);
/** KINETO_E_NOT_FOUND: there is no step at all. */
kineto_status kt_no_steps(const char *pattern, kineto_error *err);
/** Find the steps first..last, of a pattern or NULL. KINETO_E_NOT_FOUND names those that are there. */
kineto_status kt_steps_find(kt_steps *s, const kineto_trace *t, const char *pattern,
                            uint64_t first, uint64_t last, kineto_error *err);
void kt_steps_free(kt_steps *s);
/** Host rows belong to the step that they start in, device work to that of its launch, and to the
 *  one that it starts in if it has none. */
kt_in_steps kt_steps_have(const kt_steps *s, const kineto_trace *t, kineto_row row);
/** For rows that are LATER: does work of the chosen steps start within them? `rows` of one track,
 *  in its order; clears those marks that are not. False: out of memory. */
bool kt_steps_settle(const kt_steps *s, const kineto_trace *t, uint32_t track, uint32_t *marks,
                     uint32_t later);
#endif
