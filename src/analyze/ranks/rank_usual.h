/* How long the parts of ranks usually take: by the ranks of a role at the same place of the same step. */
#ifndef KA_RANK_USUAL_H
#define KA_RANK_USUAL_H

#include "analyze/ranks/rank_replay.h"

#include <math.h>

typedef struct ka_usual {
    const ka_rank_model *m;
    uint32_t *place;             /* by row: rows with the same are alike; KA_NONE: it is not compared */
    uint32_t place_count;
    double *work, *late, *host, *sync; /* by place */
    double *row_work;           /* by row: work by what was received, or that of hosts; NaN: by place; NULL: of all */
} ka_usual;

static inline double ka_usual_work(const ka_usual *u, uint32_t row)
{
    return u->row_work && !isnan(u->row_work[row]) ? u->row_work[row] : u->work[u->place[row]];
}

/** @param r  with the lengths of the trace.
 *  @param u  to be freed, also on failure. False: out of memory. */
bool ka_find_usual(const ka_replay *r, ka_usual *u);
void ka_usual_free(ka_usual *u);
/** Makes row_work, if there is none. False: out of memory. */
bool ka_allocate_row_work(ka_usual *u);

/** What takes as long as it is large. */
typedef struct ka_sized {
    uint64_t pool;  /* those with the same are of one line */
    uint32_t index; /* of the caller */
    double size, value;
} ka_sized;
/** value = rest + slope * size, by the median of the slopes of all pairs. False: sizes do not differ enough. */
bool ka_fit_sizes(const ka_sized *list, size_t count, double *slope, double *rest);

typedef struct ka_valued {
    uint32_t like;
    double value;
} ka_valued;
/** The median of each group of like values; of two, the smaller. @param out  by `like`. Sorts. */
void ka_find_middles(ka_valued *list, size_t count, double *out);
#endif
