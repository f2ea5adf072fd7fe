/* Members of collectives that have no row: ranks without a trace, of another run, or whose trace begins late or ends early. */
#ifndef KA_RANK_ABSENT_H
#define KA_RANK_ABSENT_H

#include "analyze/ranks/rank_model.h"

/** The others waited for an absent member if a transfer takes longer than is usual. It came when its own groups let it: as
 *  much earlier in a replay as the collective before it, of those that it was to take part in, ends earlier. */
typedef struct ka_absences {
    uint32_t *first;       /* by instance: of `list`; and the end; NULL: no member is absent */
    KB_VEC(uint32_t) list; /* absent members: indices of ranks, or the number of ranks and their number in the world */
    int64_t *arrival_ns;   /* by instance: when the last absent member came, as recorded; INT64_MIN: it was not the last */
    int64_t *shift_ns;     /* by member, of a replay: how much earlier its last collective ended */
    uint32_t member_count;
} ka_absences;

/** @param m  of a whole run; else nothing is found. @param a  to be freed, also on failure. False: out of memory. */
bool ka_find_absences(const ka_rank_model *m, ka_absences *a);
void ka_absences_free(ka_absences *a);
/** A replay begins. */
void ka_reset_absences(ka_absences *a);
/** When the last absent member of an instance comes in a replay; INT64_MIN: it is not known to be the last. */
int64_t ka_absent_arrival(const ka_absences *a, uint32_t instance);
/** An instance, or the row of a rank, has ended `by` earlier than recorded. */
void ka_shift_absent(ka_absences *a, uint32_t instance, int64_t by_ns);
static inline void ka_shift_member(ka_absences *a, uint32_t rank, int64_t by_ns)
{
    if (a->first)
        a->shift_ns[rank] = by_ns;
}
/** How much earlier a rank begins whose trace begins late: as its collectives before that end. */
static inline int64_t ka_member_shift(const ka_absences *a, uint32_t rank) { return a->first ? a->shift_ns[rank] : 0; }
#endif
