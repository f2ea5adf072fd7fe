/* The ranks of a run side by side: their facts in one array of rows, joined to instances (a collective
 * with its row on each rank, or both sides of a message), on one clock.
 * docs/explanation/ranks.md has the definitions. */
#ifndef KA_RANK_MODEL_H
#define KA_RANK_MODEL_H

#include "analyze/ranks/rank_facts.h"
#include "analyze/ranks/rank_lanes.h"

enum {
    KA_INSTANCE_WHOLE = 1,    /* each member has one row, and these agree */
    KA_INSTANCE_MISMATCH = 2, /* kinds or sizes differ */
    KA_INSTANCE_DUPLICATE = 4, /* a rank has it twice */
    KA_INSTANCE_PART = 32,     /* as whole, but some members have no row */
    KA_INSTANCE_APART = 8,    /* its ranks have no common clock */
    KA_INSTANCE_TORN = 16     /* a row ends before another one begins: they are not the same collective */
};

/** A collective of all members of its group. */
typedef struct ka_instance {
    uint32_t first, count; /* of ka_rank_model.members: its rows */
    uint32_t group, size;  /* index of groups; members that it should have, 0: not known */
    uint32_t sequence, step;
    int64_t arrival_ns;    /* aligned: when the last of its rows began */
    int64_t end_ns;        /* aligned: the first end of its rows */
    uint8_t op, flags;
} ka_instance;

/** A process group over all ranks. */
typedef struct ka_rank_group {
    uint64_t id;
    uint32_t size;
    uint32_t kind; /* groups with equal descriptions and sizes have the same */
    kineto_string name, description;
} ka_rank_group;

/** Is its description more than PyTorch's for a group that got none? */
static inline bool ka_is_described(const ka_rank_group *g)
{
    return g->description.size && !kb_string_is(g->description, "undefined");
}

/** The clock of a host: what is added to its times, offset_ns + drift * (t - middle_ns). */
typedef struct ka_rank_clock {
    kineto_string host;
    double offset_ns, drift, bar_ns;
    double least_ns, most_ns; /* bounds of what is left to correct, by causality; infinite: none */
    uint32_t rank_count, row_count;
    bool is_left_out; /* nothing connects it with the other hosts: its ranks are not compared with theirs */
} ka_rank_clock;

#define KA_CONTEXT_ROWS 16u /* at most, of a rank */
/** Of a rank in a window of the run. */
typedef struct ka_window_rank {
    uint32_t first;     /* of the rank's rows: the first one that is loaded */
    uint32_t context;   /* so many first rows are of the window before, and only what others wait for */
    uint32_t nth, step; /* the number that the first row after them has in its step, if it is this one */
} ka_window_rank;

/** Numbers of a rank in a group that differ by a constant from those of the other members. */
typedef struct ka_number_shift {
    uint32_t rank, group; /* indices */
    uint32_t from, by;    /* from this number on they are larger by so much */
    uint32_t last;        /* as recorded */
} ka_number_shift;

/** Rows whose place in their step is not known, since records are absent or twice before them. */
typedef struct ka_odd_rows {
    uint32_t first, end;
} ka_odd_rows;

typedef struct ka_rank_model {
    uint32_t rank_count;
    const ka_rank_facts **facts; /* by rank; their rows: those that are loaded */
    const ka_window_rank *window; /* by rank; NULL: the rows are the whole run */
    uint32_t *global;            /* by rank and group of it: index of groups */
    uint32_t *global_base;       /* by rank: its first one in `global` */
    uint32_t *base;              /* by rank: its first row; and the end */
    uint32_t row_count;
    size_t row_capacity; /* of the arrays by row */
    uint32_t *rank_of, *instance_of, *group_of; /* by row; index of instances or KA_NONE … */
    int64_t *start_ns, *end_ns;                 /* aligned, from origin_ns */
    uint32_t *members;                          /* rows of instances */
    uint32_t *role;                             /* by rank */
    KB_VEC(ka_instance) instances; /* by arrival */
    KB_VEC(ka_rank_group) groups;
    KB_VEC(ka_rank_clock) clocks;
    uint32_t *clock_of; /* by rank */
    uint32_t *domain;   /* by rank: those with the same have a common clock; KA_NONE: left out of comparisons */
    uint32_t domain_count;
    bool is_placed, is_aligned, has_roles; /* by what was loaded first */
    bool is_whole;               /* all rows are loaded at once: set by the caller before */
    bool *is_stranger;           /* by rank: of another run; its rows are of no group */
    bool *ends_early;            /* by rank, of a whole run: it lacks the last numbers of a group, so that its end says nothing */
    uint32_t *late_step;         /* by rank, of a whole run: where its trace begins late, steps up to this one lack rows; else UINT32_MAX */
    KB_VEC(ka_odd_rows) odd;     /* of a whole run, in the order of rows; may overlap */
    KB_VEC(ka_number_shift) shifts; /* of a whole run; the rows are joined all the same */
    int64_t origin_ns, middle_ns;
    double residual_ns;      /* of ends of instances, after the fit */
    uint32_t shared_count;   /* instances over several clocks */
    uint32_t odd_clock;      /* whose ends differ much more than those of the other hosts; KA_NONE */
    bool by_messages;        /* messages are among them */
    char refused[200];       /* why times of different hosts cannot be compared; "": they can */
    bool is_no_defect;       /* refused as hosts have too little in common, or ends differ on all of them: no trace is at fault */
    bool no_memory;
} ka_rank_model;

/** @param facts  of `count` ranks, sorted by rank; must outlive the model. Rows are not read.
 *  @param m      to be freed, also on failure. False: out of memory. */
bool ka_rank_model_open(const ka_rank_facts *const *facts, uint32_t count, ka_rank_model *m);
/** Takes in the rows that facts have now. Clocks and roles are those of the rows that are loaded first.
 *  False: out of memory. */
bool ka_rank_model_load(ka_rank_model *m);
/** Forgets rows and instances; their memory is kept for the next ones. */
void ka_rank_model_unload(ka_rank_model *m);
void ka_rank_model_free(ka_rank_model *m);
/** Index of a rank among the facts, which are in the order of ranks; KA_NONE: it has none. */
uint32_t ka_find_rank_index(const ka_rank_model *m, int32_t rank);
/** When the last row ends, from the origin; the latest of the ranks of each domain, added up. */
int64_t ka_recorded_length(const ka_rank_model *m);
/** When the first step begins on any rank, without steps the first work; from the origin, which clocks that differ move; the
 *  earliest of the ranks of each domain, added up. */
int64_t ka_run_begin(const ka_rank_model *m);
static inline const ka_comm *ka_model_row(const ka_rank_model *m, uint32_t row)
{
    uint32_t rank = m->rank_of[row];
    return &m->facts[rank]->rows.data[row - m->base[rank]];
}
/** A moment of the trace of a row's rank, on the clock of the model. */
static inline int64_t ka_align_moment(const ka_rank_model *m, uint32_t row, int64_t ns)
{
    return m->start_ns[row] + (ns - ka_model_row(m, row)->start_ns);
}
/** Has it a number of its own that is the same on all ranks? */
static inline bool ka_is_numbered(const ka_comm *c)
{
    return !(c->flags & KA_COMM_BY_ORDER) && !ka_is_message(c->op);
}
/** The number of a row in its step, which windows of a run go on with. */
typedef struct ka_numbering {
    uint32_t nth, step;
} ka_numbering;
static inline ka_numbering ka_first_number(const ka_rank_model *m, uint32_t rank)
{
    return m->window ? (ka_numbering){m->window[rank].nth - 1, m->window[rank].step} : (ka_numbering){UINT32_MAX, 0};
}
static inline uint32_t ka_next_number(ka_numbering *n, const ka_comm *c)
{
    n->nth = n->nth == UINT32_MAX || c->step == n->step ? n->nth + 1 : 0;
    n->step = c->step;
    return n->nth;
}
/** Is the row compared with those of other ranks? Not so the context of a window, and ranks that are left out. */
static inline bool ka_is_compared(const ka_rank_model *m, uint32_t rank, uint32_t row)
{
    return m->domain[rank] != KA_NONE && (!m->window || row - m->base[rank] >= m->window[rank].context);
}
/** Do its rows belong together, on one clock? */
static inline bool ka_is_joined(const ka_instance *x)
{
    return (x->flags & (KA_INSTANCE_WHOLE | KA_INSTANCE_PART)) && !(x->flags & (KA_INSTANCE_APART | KA_INSTANCE_TORN));
}
/** Do all leave it when the last one has come? Not so messages and broadcasts. */
static inline bool ka_is_synchronizing(uint8_t op)
{
    return op == KA_OP_ALL_REDUCE || op == KA_OP_ALL_GATHER || op == KA_OP_REDUCE_SCATTER ||
           op == KA_OP_ALL_TO_ALL || op == KA_OP_BARRIER;
}
/** Do its rows wait for one another? Also calls that differ, if their times are those of one collective. */
static inline bool ka_is_replayed(const ka_instance *x)
{
    enum { APART = KA_INSTANCE_APART | KA_INSTANCE_TORN | KA_INSTANCE_DUPLICATE };
    bool differ_only = (x->flags & KA_INSTANCE_MISMATCH) && !(x->flags & APART) && x->count > 1 && ka_is_synchronizing(x->op);
    return ka_is_joined(x) || differ_only;
}
/** Has a row of a host ended before the last one of its instance began? A message can be on its way, or a part of a
 *  broadcast done, by then. */
static inline bool ka_leaves_early(const ka_rank_model *m, uint32_t row)
{
    const ka_instance *x = m->instance_of[row] == KA_NONE ? NULL : &m->instances.data[m->instance_of[row]];
    return x && ka_is_joined(x) && !ka_is_synchronizing(x->op) && m->end_ns[row] < x->arrival_ns;
}
/** What is compared of the kind of a row: whether a rank of MPI sends before it receives does not make a role. */
static inline uint8_t ka_role_op(const ka_comm *c) { return c->flags & KA_COMM_NUMBERED ? KA_OP_SEND_RECV : c->op; }
/** rank_match.c: groups, of facts without rows; instances. False: out of memory. */
bool ka_join_groups(ka_rank_model *m);
bool ka_match_ranks(ka_rank_model *m);
/** Equal for the rows of an instance. @param group  index of groups of the model. @param sequence  ka_number_of. */
uint64_t ka_instance_key(uint32_t group, uint32_t sequence, const ka_comm *c);

/** Of a rank: collectives with a number, and those that another rank has, too. */
typedef struct ka_shared {
    uint32_t count, shared;
} ka_shared;
/** rank_numbers.c: the number of a row of a run with shifts. */
uint32_t ka_shift_number(const ka_rank_model *m, uint32_t row);
/** The number of a row in its group, on all members. */
static inline uint32_t ka_number_of(const ka_rank_model *m, uint32_t row)
{
    return m->shifts.count ? ka_shift_number(m, row) : ka_model_row(m, row)->sequence;
}
/** Finds ranks of another run, those that end early, and numbers that are shifted; `changed` if rows are to be joined again. False: out of memory. */
bool ka_correct_numbers(ka_rank_model *m, bool *changed);
/** Lists the rows that cannot be compared by their place. False: out of memory. */
bool ka_list_odd_rows(ka_rank_model *m);
/** Adds those of the rows that are loaded. @param of  by rank. */
void ka_count_shared(const ka_rank_model *m, ka_shared *of);
/** Ranks that share nothing, while others do: they are of another run. @return there are some. */
bool ka_find_strangers(const ka_shared *of, uint32_t count, bool *is_stranger);
/** rank_clocks.c. False: out of memory. */
bool ka_align_clocks(ka_rank_model *m);
/** Moves times of rows to the common clock. */
void ka_move_rows(ka_rank_model *m);
/** A time of a rank's trace on the common clock, from the origin. */
int64_t ka_align_time(const ka_rank_model *m, uint32_t rank, int64_t ns);
/** rank_roles.c. False: out of memory. */
bool ka_find_roles(ka_rank_model *m);

/** Makes roles of ranks whose rows come in parts. */
typedef struct ka_role_signer {
    KB_VEC(uint64_t) signs; /* of steps */
    uint32_t step;
} ka_role_signer;
bool ka_sign_row(const ka_rank_model *m, ka_role_signer *s, uint32_t rank, uint32_t group, const ka_comm *c);
/** The signature of a rank whose rows were all signed; the signer is ready for the next one. */
uint64_t ka_finish_sign(ka_role_signer *s);
/** Ranks one after the other. @param roles  signature → role. False: out of memory. */
bool ka_set_role(ka_rank_model *m, uint32_t rank, uint64_t sign, kb_map *roles);
#endif
