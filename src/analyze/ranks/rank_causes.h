/* Who or what makes a run slower than it would be if all ranks of a role were alike. */
#ifndef KA_RANK_CAUSES_H
#define KA_RANK_CAUSES_H

#include "analyze/ranks/cause_trials.h"
#include "analyze/ranks/rank_leads.h"

typedef struct ka_rank_cause {
    ka_cause_kind kind;
    uint32_t rank;     /* index; KA_NONE: of a link */
    uint32_t group;    /* of a link: index of a group that it slows; KA_NONE: of a rank */
    uint32_t step;     /* its number; UINT32_MAX: of all */
    ka_place_kind place;   /* of a link: what is slow */
    uint32_t clock, other; /* of a link between hosts, or of a host's: indices of clocks; else KA_NONE */
    int64_t excess_ns; /* beyond its like, of all its parts */
    int64_t saved_ns;  /* by which the run is shorter without */
    uint32_t leads;    /* steps in which no other rank (or group) has more excess of this kind */
    ka_trial_of of;    /* what was tried */
} ka_rank_cause;

/** Groups of a kind, of which most transfers have no like on other links. */
typedef struct ka_lone_links {
    uint32_t group;      /* index: the one with most of these transfers */
    int64_t transfer_ns; /* of this group, in the run */
} ka_lone_links;

typedef struct ka_rank_causes {
    KB_VEC(ka_rank_cause) list; /* those that save something beyond noise, most first */
    uint32_t steps;             /* that the run has; 0: not known */
    int64_t length_ns;          /* of the run, as recorded, from its first step */
    KB_VEC(ka_lone_links) lone; /* kinds of groups whose links this run alone cannot evaluate, most transfers first */
    int64_t apart_ns;           /* by which the model has other times */
    int64_t noise_ns;           /* what is saved where nothing is wrong */
    char refused[200];          /* why no rank is blamed; "": causes were looked for */
    uint32_t longest_rank;      /* clocks are refused: the rank that computes longer than its like, by durations alone */
    int64_t longest_excess_ns;  /* by so much, in the whole run; what that costs is not known, but is not more. 0: none stands out */
} ka_rank_causes;

/** What a rank is beyond its like in each of its steps, one after the other. */
typedef struct ka_step_excess {
    double now, most, sum; /* of `step`; of the step with most; of all that have some */
    uint32_t step, most_step, count; /* count: of steps */
} ka_step_excess;
/** The step that is under way has ended. */
void ka_close_step(ka_step_excess *e);

#define KA_MAX_TRACKED 4u
/** A candidate that is replayed from window to window. */
typedef struct ka_tracked_cause {
    ka_trial_of of;
    int64_t saved_ns;        /* so far */
    ka_replay_shift *shifts; /* of the next window's context */
} ka_tracked_cause;

/** The search over the windows of a run. */
typedef struct ka_cause_search {
    KB_VEC(ka_rank_cause) list; /* all that was tried; saved_ns: of all windows */
    kb_map at;                  /* what was tried → index of list */
    ka_step_excess *device_steps, *host_steps;          /* by rank */
    double *device_excess, *host_excess; /* by rank */
    ka_link_places places;
    ka_leads leads;
    const ka_rank_model *m;
    uint32_t first_step, last_step;
    bool is_begun;
    bool is_whole; /* the run is one window: set by the caller */
    int64_t until_ns; /* the end of the last window, from the origin */
    int64_t length_ns, apart_ns, noise_ns;
    ka_link_use *link_use; /* by group */
    int64_t noise_length_ns; /* of the windows that noise_ns is of */
    ka_tracked_cause tracked[KA_MAX_TRACKED];
    uint32_t tracked_count;
    ka_replay replay;        /* of the last window: its memory is used again */
    bool is_sparse;          /* the next windows are searched for large causes only, to save time */
} ka_cause_search;

/** @param m  ranks and groups; must outlive the search. @param s  to be freed, also on failure. False: out of memory. */
bool ka_cause_search_create(ka_cause_search *s, const ka_rank_model *m);
void ka_cause_search_free(ka_cause_search *s);
/** Windows in the order of time. False: out of memory. */
bool ka_cause_search_add(ka_cause_search *s, const ka_rank_model *m);
/** @param out  to be freed. False: out of memory. */
bool ka_cause_search_finish(ka_cause_search *s, ka_rank_causes *out);
void ka_rank_causes_free(ka_rank_causes *c);
#endif
