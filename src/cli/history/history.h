/* The history of a program: one small file of facts for each run, in a data set. Runs are added one by
 * one, also at the same time, and compared over time. docs/reference/parquet.md describes the files. */
#ifndef KC_HISTORY_H
#define KC_HISTORY_H

#include "cli/cli.h"

#include <ckineto/trace.h>

/** A part of the step time. */
typedef struct kc_history_part {
    char *kind; /* "communication", "idle", "input", "kernel family", "kernel", "operator"; KC_STRAGGLER, KC_SLOW_LINK */
    char *name;
    double ns; /* of a step and rank, on average */
} kc_history_part;

typedef struct kc_history_run {
    char *name, *commit, *label; /* "": not given */
    int64_t time_ns; /* when the run began, since the Unix epoch */
    uint64_t ranks, steps;
    double step_ns;           /* median over ranks and steps */
    KB_VEC(kc_history_part) parts;
} kc_history_run;

typedef struct kc_history {
    KB_VEC(kc_history_run) runs; /* by time, then by name */
    uint32_t bad;                /* files that cannot be read; each was reported */
} kc_history;

/* ---- history_facts.c: facts of a run from its traces ------------------------------------------ */
/** Kinds of parts that are causes: what a step would be shorter by if a rank, or a link, were like the others. */
#define KC_STRAGGLER "straggler"
#define KC_SLOW_LINK "slow link"
/** What was added up; zero-initialised. */
typedef struct kc_history_sums {
    KB_VEC(double) steps; /* durations */
    double exposed_ns, idle_ns, input_ns;
    kb_intern names; /* "KIND\nNAME" */
    KB_VEC(double) sums; /* by its id */
    struct ka_rank_set *compared; /* what ranks are compared by; NULL: nothing yet */
    uint64_t ranks;
    int64_t first_ns; /* INT64_MAX: none yet */
} kc_history_sums;

kineto_status kc_history_add_trace(kc_history_sums *sums, const kineto_trace *trace, int32_t rank, kineto_error *err);
/** The facts, of which `run` owns the texts. @return KINETO_E_NOT_FOUND: no trace has a step. */
kineto_status kc_history_finish(kc_history_sums *sums, kc_history_run *run, kineto_error *err);
void kc_history_sums_free(kc_history_sums *sums);

/* ---- history_files.c -------------------------------------------------------------------------- */
/** Write the files of a run. @param replace  also if a run of this name is there.
 *  @return KINETO_E_BUSY: it is there. */
kineto_status kc_history_save(const char *data_set, const kc_history_run *run, bool replace, kineto_error *err);
/** What runs are ordered by, as outputs say it. */
#define KC_HISTORY_ORDER "by the begin of their traces"
/** All runs. A file that cannot be read is a line on stderr, and so is that runs begin at the same time. */
kineto_status kc_history_load(const char *data_set, kc_history *out, kineto_error *err);
void kc_history_free(kc_history *history);
/** The options of a verb that reads a history: they name the data set, and there are no operands.
 *  @return KINETO_E_NOT_FOUND: help was printed; other errors were printed. */
kineto_status kc_history_parse(const char *verb, const kc_options *options, int argc, char **argv, const char *const *data_set);
void kc_history_run_free(kc_history_run *run);

/* ---- change_point.c --------------------------------------------------------------------------- */
/** A change of the level of a series. */
typedef struct kc_change {
    size_t at;            /* the first value after it */
    size_t from, end;     /* the values that it was found in */
    double before, after; /* medians of [from, at) and [at, end) */
    double noise;         /* standard deviation of single values about these */
    double score;         /* the difference in standard errors of it */
} kc_change;

#define KC_MIN_HISTORY 6u /* values */
/** The clearest change in values[from, end). False: there is none that noise does not explain (1 in 1000). */
bool kc_find_change(const double *values, size_t from, size_t end, kc_change *out);
/** The same, whether noise explains it or not, where the change is from `first` to `last`. */
void kc_place_change(const double *values, size_t from, size_t end, size_t first, size_t last, kc_change *out);

/* ---- verbs ------------------------------------------------------------------------------------ */
int kc_history_add(int argc, char **argv);
int kc_history_list(int argc, char **argv);
int kc_history_regress(int argc, char **argv);
#endif
