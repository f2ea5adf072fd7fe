/* The critical path across ranks: from the last end of the run backwards, always to what was waited for last. */
#ifndef KA_RANK_PATH_H
#define KA_RANK_PATH_H

#include "analyze/ranks/rank_model.h"

typedef enum ka_path_kind {
    KA_PATH_DEVICE,   /* a rank computes */
    KA_PATH_HOST,     /* it waits for a launch */
    KA_PATH_TRANSFER, /* a collective, after its last rank arrived */
    KA_PATH_QUEUE,    /* from the end of a collective to the begin of the next one on its stream */
    KA_PATH_UNKNOWN,  /* what it waited for is not recorded */
    KA_PATH_KINDS
} ka_path_kind;

/** A part of the path. Each begins where the one before it ends. */
typedef struct ka_path_part {
    int64_t start_ns, end_ns; /* aligned */
    uint32_t row;             /* of a transfer: the row that arrived last */
    uint32_t rank;            /* index */
    uint32_t group;           /* index; KA_NONE: no transfer */
    ka_path_kind kind;
    bool is_ambiguous; /* of a transfer: which rank arrived last is within the error of the clocks */
} ka_path_part;

typedef struct ka_rank_path {
    KB_VEC(ka_path_part) parts; /* by time; none if the clocks of hosts cannot be aligned */
    int64_t start_ns, end_ns;   /* of the run: first and last work of any rank, aligned */
} ka_rank_path;

/** A part of the run, by what is in it. */
typedef struct ka_path_share {
    int64_t ns[KA_PATH_KINDS];
    uint32_t hops, ambiguous; /* to this rank from another one; transfers */
} ka_path_share;

typedef struct ka_path_shares {
    ka_path_share run;
    ka_path_share *rank;  /* by rank: all but transfers */
    ka_path_share *role;  /* by role: likewise */
    ka_path_share *group; /* by group: transfers */
    uint32_t role_count;
} ka_path_shares;

/** @param p  to be freed, also on failure. False: out of memory. */
bool ka_find_rank_path(const ka_rank_model *m, ka_rank_path *p);
void ka_rank_path_free(ka_rank_path *p);
/** @param s  to be freed, also on failure. False: out of memory. */
bool ka_share_rank_path(const ka_rank_model *m, const ka_rank_path *p, ka_path_shares *s);
void ka_path_shares_free(ka_path_shares *s);
int64_t ka_sum_path(const ka_path_share *s);
const char *ka_path_kind_name(ka_path_kind kind);
/** First and last work of all ranks that are compared, aligned. False: no rank has any. */
bool ka_find_run_window(const ka_rank_model *m, int64_t *start_ns, int64_t *end_ns);
#endif
