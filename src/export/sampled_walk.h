/* A walk over ranges of samples (kind cpu_sample) that gives back stacks: a range and those around
 * it, with the samples and the CPU time that are its own. What a range has apart from the ranges in
 * it is spread over the gaps between them, in proportion to their length. */
#ifndef KE_SAMPLED_WALK_H
#define KE_SAMPLED_WALK_H

#include "export/cpu_rows.h"

typedef struct ke_sampled_range {
    kineto_row row;
    ke_sampled own;  /* that no piece has had yet; may be negative if inner ranges have more */
    int64_t gaps_ns; /* length of the gaps that are left */
    int64_t from_ns; /* where the next gap begins */
} ke_sampled_range;

/* A stack that was sampled. */
typedef struct ke_sampled_piece {
    const uint32_t *stack; /* indices of rows, the outermost first */
    size_t depth;
    int64_t start_ns, end_ns;
    int64_t samples, cpu_ns; /* not negative, and not both 0 */
} ke_sampled_piece;

typedef struct ke_sampled_walk {
    const kineto_trace *trace;
    const kineto_row *rows; /* of one lane, in its order */
    uint64_t count;
    bool (*piece)(void *context, const ke_sampled_piece *piece); /* false: out of memory */
    void *context;
    /* private */
    KB_VEC(ke_sampled_range) ranges; /* by index of rows */
    KB_VEC(uint32_t) open;           /* indices, the innermost last */
} ke_sampled_walk;

/** Calls `piece` for every stack, in the order of time. The sums of samples and of CPU time are those
 *  of the outermost ranges. @return false: out of memory, or `piece` returned false. Free in any
 *  case; a walk can be used again, for other rows. */
bool ke_sampled_walk_run(ke_sampled_walk *walk);
void ke_sampled_walk_free(ke_sampled_walk *walk);
#endif
