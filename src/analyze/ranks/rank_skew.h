/* Where the time of collectives goes: waiting for the last rank, or the transfer; and why a rank came late. */
#ifndef KA_RANK_SKEW_H
#define KA_RANK_SKEW_H

#include "analyze/ranks/rank_model.h"

/** Times of a row, or sums of several. wait_ns + transfer_ns = from begin to end. */
typedef struct ka_skew {
    int64_t wait_ns;     /* from its begin until the last rank arrived */
    int64_t transfer_ns; /* from then to its end */
    int64_t late_ns;     /* by which it would have begun earlier if it had been launched in time */
    int64_t queued_ns;   /* by which it would have begun earlier if its stream had been free */
} ka_skew;

/** A row of an instance. */
typedef struct ka_row_skew {
    uint32_t row, instance;
    int64_t start_ns, arrival_ns, end_ns; /* aligned; arrival_ns: of the last rank, at most end_ns */
    ka_skew times;
    int64_t error_ns; /* of arrival_ns - start_ns, by the clocks */
    bool is_last;     /* it is the one that arrived last */
    bool is_ambiguous; /* which one arrived last is within the error of the clocks */
} ka_row_skew;

/** A group, a rank of one, or all groups of a kind. */
typedef struct ka_skew_sum {
    uint32_t group, rank; /* indexes; of a kind the first group; rank: KA_NONE: of all */
    uint32_t instances, last, ambiguous;
    uint32_t rows, steps;
    uint32_t last_rank, last_count; /* not of a rank: the rank that came last most often in a group, and how often */
    uint32_t groups, ranks;         /* of a kind: how many groups; not of a rank: ranks of it that are there */
    int64_t error_ns;
    ka_skew times; /* of a group: the mean of its ranks */
} ka_skew_sum;

typedef struct ka_rank_skews {
    KB_VEC(ka_skew_sum) kinds;  /* of groups, as ka_rank_group.kind; times are means of all their ranks */
    KB_VEC(ka_skew_sum) groups; /* that have instances which can be compared */
    KB_VEC(ka_skew_sum) ranks;  /* of these groups, in the order of groups, then of ranks */
} ka_rank_skews;

/** @param s  to be freed, also on failure. False: out of memory. */
bool ka_find_rank_skews(const ka_rank_model *m, ka_rank_skews *s);
void ka_rank_skews_free(ka_rank_skews *s);
/** Calls `visit` for each row of each joined instance, in the order of arrival; if the clocks of hosts cannot be
 *  aligned, of those within one host only. False: out of memory, or `visit` returned false. */
bool ka_visit_row_skews(const ka_rank_model *m, bool (*visit)(void *context, const ka_row_skew *s), void *context);
/** "transfer", "arrival skew", "mixed", or "inconclusive": the errors of the clocks allow two of them. */
const char *ka_name_skew(const ka_skew_sum *group);
#endif
