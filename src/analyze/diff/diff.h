/* Two traces side by side: what a step of each is made of, which things of one are which of the
 * other, and how sure a difference is. docs/reference/diff.md has the definitions. */
#ifndef KA_DIFF_INTERNAL_H
#define KA_DIFF_INTERNAL_H

#include "analyze/findings/finding.h"

#include <ckineto/diff.h>
#include <math.h>

/* ---- diff_bootstrap.c: is a difference more than noise? ---- */

#define KA_MAX_BLOCKS 32u /* more steps than this are grouped into this many blocks */

/** Draws of steps with replacement, the same for all things that are compared. */
typedef struct ka_chance {
    uint64_t seed;
    uint32_t draws;
    bool medians;
    uint8_t *times[2][KA_MAX_BLOCKS + 1]; /* by side and number of values: how often each */
    uint16_t wrong[KA_MAX_BLOCKS + 1][KA_MAX_BLOCKS + 1]; /* ka_wrong_pairs + 1; 0: not yet */
    double *room;                                         /* of each draw */
    bool no_memory;
} ka_chance;

typedef struct ka_estimate {
    double before, after, delta; /* means, or medians, and after - before */
    double pct;                  /* delta in percent of before; NAN: there is nothing before */
    double low_pct, high_pct;    /* 95 % interval of pct; NAN: unknown, or unbounded */
    int8_t sure;                 /* 1: the interval excludes 0; 0: it holds 0; -1: there is none */
    ka_shift shift;              /* if it is not sure: what ranks prove the way of delta */
} ka_estimate;

/** @param draws  0: as many as are usual. False: out of memory; to be freed in any case. */
bool ka_chance_make(ka_chance *c, uint64_t seed, uint32_t draws, bool medians);
void ka_chance_free(ka_chance *c);
/** Values are one for each step, or block; at most KA_MAX_BLOCKS a side. */
ka_estimate ka_compare(ka_chance *c, const double *before, uint32_t before_count,
                       const double *after, uint32_t after_count);
/** The same of means, also if `c` is of medians. */
ka_estimate ka_compare_means(ka_chance *c, const double *before, uint32_t before_count, const double *after,
                             uint32_t after_count);
/** The same of one sum a side, whose variance is known from what it is the sum of; NAN: it is not.
 *  @param chance  so much of the difference may be by chance, besides. */
ka_estimate ka_compare_sums(double before, double before_variance, double after,
                            double after_variance, double chance);

/** Is the difference more than noise: by its interval, or by the ranks of steps? Gates and tables ask the same. */
static inline bool ka_is_proven(int sure, ka_shift shift) { return sure > 0 || shift.delta != 0; }

/** Mean or median of at most KA_MAX_BLOCKS values; 0 of none. */
double ka_middle_of(const double *values, uint32_t n, bool median);
/** The k-th smallest, from 0; `room` is put into another order. */
double ka_select_kth(double *room, uint32_t count, uint32_t k);

/* ---- diff_ranks.c: are steps longer as a whole, whatever a few of them do to the middle? ---- */
/** Of n and m steps, fewer pairs than that are the wrong way round by chance, with a probability of at most `level`. */
uint32_t ka_wrong_pairs(uint32_t n, uint32_t m, double level);
/** In how many orders n values can stand among n + m. */
double ka_count_orders(uint32_t n, uint32_t m);
/** The usual difference of a step, if ranks prove that there is one; at most KA_MAX_BLOCKS. */
ka_shift ka_shift_by_ranks(ka_chance *c, const double *before, uint32_t n, const double *after,
                           uint32_t m, bool falls);

/** One step in a block. */
typedef struct ka_step_time {
    double us;
    uint32_t block;
} ka_step_time;
typedef KB_VEC(ka_step_time) ka_step_times;

/** Medians of all steps and their interval, in place of those of blocks: draws are of blocks, with all steps of each.
 *  @param before  sorted, as `after`. @param e  of ka_compare of the blocks. */
void ka_compare_step_medians(ka_chance *c, const ka_step_times *before, uint32_t n, const ka_step_times *after,
                             uint32_t m, ka_estimate *e);
double ka_median_of_times(const ka_step_times *sorted);

/* ---- diff_names.c: names of kernels without what changes from build to build ---- */
typedef struct ka_text {
    char s[1024];
    size_t size;
} ka_text;
/** Without return type, parameters, spaces and clones. Mangled names become what they nest in. */
void ka_spell_kernel(kineto_string name, ka_text *out);
/** … and without template arguments; its last component only; with '#' for each number. */
void ka_skeleton_of(kineto_string name, ka_text *out);
void ka_last_component_of(kineto_string name, ka_text *out);
void ka_numberless(kineto_string name, ka_text *out);

/* ---- diff_side.c: what is in the steps of one trace ---- */
typedef enum ka_thing_kind {
    KA_THING_STEP,
    KA_THING_PART, /* of a step: they add up to it */
    KA_THING_TYPE,
    KA_THING_FAMILY,
    KA_THING_KERNEL,
    KA_THING_OPERATOR,
    KA_THING_THREADS, /* what threads did: its family is a ka_threads_family */
    KA_THING_MEMORY,
    KA_THING_COUNTER,
    KA_THING_KINDS
} ka_thing_kind;

/** Kinds of rows about threads. */
typedef enum ka_threads_family {
    KA_THREADS_FUNCTION,
    KA_THREADS_CALL,
    KA_THREADS_LOCK,
    KA_THREADS_STATE,
    KA_THREADS_IMBALANCE,
    KA_THREADS_REGION,
    KA_THREADS_RANGE,
    KA_THREADS_PYTHON
} ka_threads_family;
const char *ka_threads_family_name(uint8_t family);

typedef struct ka_thing {
    uint8_t kind;               /* ka_thing_kind */
    uint8_t activity;           /* kineto_kind */
    uint8_t family;             /* of a kernel, or a ka_threads_family */
    bool is_effect;             /* a wait for another thread, or a range: the cause may be another thing */
    kineto_string name, detail; /* shapes, a device */
    uint64_t count;             /* in all steps that are compared */
    double sum, most;           /* of all steps */
    double squares, variance;   /* of threads: of the parts of the sum; of the sum, NAN: not known */
    double device;              /* us of what an operator launched itself */
    double typical_us;          /* the typical call of this run (diff_calls.c); NAN: it has no calls */
    double *typical;            /* the same of each run, NAN where it is not known; NULL: of none */
    uint32_t values;            /* first of its values */
    uint32_t value_count;       /* once they are means: of blocks that have any */
    uint32_t order;             /* in which things came */
    uint32_t op,
        place;       /* of a kernel that came first: slice of its operator, and which one of it */
    uint32_t other;  /* on the other side; KA_NONE */
    const char *how; /* it was matched */
} ka_thing;

/** One call of a thing, in the steps that are compared. */
typedef struct ka_call {
    uint32_t thing;
    float us;
} ka_call;

/** A run of a side that has several. */
typedef struct ka_run {
    uint64_t first_step, last_step; /* numbers of those that are compared, if has_steps */
    uint32_t steps, warm_up;
    bool has_steps;
    double step_us; /* mean or median of its steps; without steps its length */
    double mean_us, median_us; /* both */
} ka_run;

typedef struct ka_side {
    ka_measured m; /* of several runs: of the first */
    ka_durations durations;
    uint32_t step_count, warm_up; /* compared; left out */
    uint32_t span_count;          /* steps of all ranks that are compared */
    uint32_t rank_count;          /* processes that have steps; without steps, ranks */
    uint8_t *has_rank; /* by row of the trace: without steps, of several ranks; else NULL */
    uint32_t block_count;
    int32_t *block_of;     /* by index of steps; -1: left out */
    uint32_t *block_steps; /* how many steps are in each */
    ka_step_times times[2]; /* of each step, and of each with its work; of one rank only */
    bool no_steps;         /* all of the trace is one */
    bool is_empty;         /* … and that takes no time: there is nothing to compare */
    bool with_shapes;
    uint32_t known_families; /* of threads, by bit: what is absent took no time */
    double sample_us;        /* CPU time that a sample stands for */
    KB_VEC(ka_thing) things;
    KB_VEC(double) values;    /* block_count for each thing: sums, later means */
    KB_VEC(uint32_t) samples; /* as values, how many of them there were: of memory and counters */
    kb_arena texts;
    bool keeps_calls;  /* for typical calls */
    KB_VEC(ka_call) calls;
    uint32_t run_count;
    ka_run *runs;
    bool no_memory;
} ka_side;

/** @param keeps_calls  find the typical call of each thing.
 *  @param side  to be freed, also on failure. */
kineto_status ka_side_make(const kineto_trace *trace, const kineto_diff_options *options,
                           const kineto_analysis_options *how, bool keeps_calls, ka_side *side, kineto_error *err);
void ka_side_free(ka_side *side);
/** For those that fill it: a new thing. */
uint32_t ka_new_thing(ka_side *side, uint8_t kind, kineto_string name, kineto_string detail);
/** The thing of a key, made with copies of its texts when it is first met. KA_NONE: out of memory. */
uint32_t ka_find_thing(ka_side *side, kb_intern *keys, kb_map *things, kineto_string key, uint8_t kind,
                       kineto_string name, kineto_string detail);
/** The block of a row and its step; -1: it is not compared. */
int32_t ka_block_at(const ka_side *side, kineto_row row, int32_t step);
/** The numbers of the first and last step that are compared. False: it has no steps. */
bool ka_compared_steps(const ka_side *side, uint64_t *first, uint64_t *last);
/** diff_runs.c: a side of one or several runs, at most KA_MAX_BLOCKS. To be freed, also on failure.
 *  @param reduce  values are those of runs; false, for one run only: of its steps.
 *  @param keeps_calls  find the typical calls of each run. */
kineto_status ka_side_make_of_runs(const kineto_trace *const *runs, uint32_t count, bool reduce, bool keeps_calls,
                                   const kineto_diff_options *options, const kineto_analysis_options *how,
                                   ka_side *side, kineto_error *err);
/** The run whose step is the median of all. */
uint32_t ka_middle_run(const ka_side *side);
/** diff_threads.c: functions, calls and states of threads. False: out of memory. */
bool ka_side_add_threads(ka_side *side);
/** … and the critical path through threads in place of the part `other`, a thing, of a run without steps. */
bool ka_side_add_path(ka_side *side, uint32_t other);
/** diff_samples.c: memory and counters. */
bool ka_side_take_samples(ka_side *side);

/* ---- diff_step_names.c ---- */
/** Sets the step_pattern of `how` if ranges repeat like steps in some of the traces only.
 *  @param pattern  receives memory to free that `how` refers to. @return false: out of memory. */
bool ka_agree_on_steps(const kineto_trace *const *traces[2], const size_t counts[2], kineto_analysis_options *how,
                       char **pattern);

/* ---- diff_calls.c: typical calls, run by run ---- */
#define KA_MIN_RUNS 3u /* of each side */
/** A thing's calls are compared in all runs. */
typedef struct ka_typical {
    double before_us, after_us, delta_us, pct; /* of a typical call: means of runs */
    double low_pct, high_pct;                  /* 95 % interval of pct */
    bool is_proven;                            /* the interval excludes 0, and the ranks of runs say the same */
    double before_calls, after_calls;          /* in a step */
    double effect_us;                          /* of the calls after, on a step */
    bool are_apart;                            /* each run after is longer, or each is shorter, than each before */
} ka_typical;

/** By how many percent each value after is above each before, or below (negative); 0: neither. */
double ka_gap_pct(const double *before, uint32_t n, const double *after, uint32_t m);
/** Does nothing if the side does not keep calls. */
void ka_add_call(ka_side *side, uint32_t thing, double us);
/** Sets typical_us of all things, and frees the calls. */
void ka_finish_calls(ka_side *side);
/** @param us  NAN: not known. False: out of memory. */
bool ka_set_typical(ka_side *side, ka_thing *x, uint32_t run, double us);

/* ---- diff_match.c ---- */
bool ka_match_sides(ka_side *before, ka_side *after);

/* ---- diff_tables.c, diff_summary.c ---- */
typedef struct ka_diff {
    ka_side before, after;
    ka_chance chance;
    double step_us; /* of before, with its work: the whole that savings are parts of */
    double both_us; /* the mean of that and the step after: the same for exchanged traces */
    uint32_t wrong_calls; /* ka_wrong_pairs + 1 of runs; 0: not yet */
    kineto_analysis *facts;
} ka_diff;
#define KA_MIN_PERCENT 0.2 /* of the mean of both steps: what changes less is not listed */
/** diff_runs.c: mean or median of the values of a thing of one run; of steps the median of all, not of blocks. */
double ka_middle_of_thing(const ka_side *side, uint32_t index, bool medians);
bool ka_diff_put_tables(ka_diff *d);
void ka_diff_put_runs(ka_diff *d);
/** diff_calls.c. @param a  NULL, as b: the side has no such thing. @return false: not all runs have such calls. */
bool ka_compare_calls(ka_diff *d, const ka_thing *a, const ka_thing *b, ka_typical *out);
bool ka_diff_put_calls(ka_diff *d);
bool ka_diff_put_summary(ka_diff *d);
/** diff_conditions.c: device, world size, versions and batch shape, where they differ. */
void ka_diff_put_conditions(ka_diff *d);
/** diff.c: an analysis without rows, in which these tables are wanted. */
kineto_status ka_diff_create(ka_table_set tables, kineto_analysis **out, kineto_error *err);
/** diff_of_ranks.c: causes, roles, transfers, damage and clocks across ranks. @param before  NULL, as after: not known. */
kineto_status ka_diff_put_ranks(kineto_analysis *facts, struct ka_rank_set *before, struct ka_rank_set *after,
                                kineto_error *err);
/** An analysis with this table alone. @param out  to be destroyed. */
kineto_status ka_diff_rank_sets(struct ka_rank_set *before, struct ka_rank_set *after, kineto_analysis **out, kineto_error *err);
/** The same of merged traces; nothing of traces of one rank. */
kineto_status ka_diff_ranks_of_traces(kineto_analysis *facts, const kineto_trace *before, const kineto_trace *after,
                                      const kineto_analysis_options *how, kineto_error *err);
bool ka_diff_put_findings(ka_diff *d, const kineto_findings *before, const kineto_findings *after);
/** The largest number of a column first, whatever its sign; not known last. False: out of memory.
 */
bool ka_diff_sort(ka_table *t, uint32_t column);
/** The cell `sure` of an estimate: what proves the difference. */
const char *ka_word_of_proof(const ka_estimate *e);
/** The eight cells of an estimate; a number or none where it is NAN. */
void ka_put_estimate(ka_table *t, const ka_estimate *e, double step_us);
void ka_put_known(ka_table *t, double value);
#endif
