/** @file
 *  Compare two traces with confidence intervals and evaluate regression gates (docs/reference/diff.md). Pure
 *  functions of traces.
 *
 *      kineto_analysis *diff;
 *      kineto_diff_run(before, after, NULL, &diff, &err);
 *      kineto_diff_verdict verdict;
 *      kineto_diff_verdict_init(&verdict);
 *      kineto_diff_gate(diff, "step>3%", false, &verdict, &err);
 */
#ifndef CKINETO_DIFF_H
#define CKINETO_DIFF_H

#include <ckineto/analyze.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef enum kineto_diff_devices {
    KINETO_DIFF_ALL = 0,
    KINETO_DIFF_HOST = 1,
    KINETO_DIFF_DEVICE = 2
} kineto_diff_devices;

/** All zero but the size is fine. */
typedef struct kineto_diff_options {
    size_t size; /**< sizeof(kineto_diff_options): set by kineto_diff_options_init */
    /** steps, streams and rules for both; definitions: EXACT, or HTA for the table diff_hta alone;
     *  tables and rank are ignored. NULL: defaults */
    const kineto_analysis_options *analyze;
    bool shapes;      /**< operators with different input shapes are different ones */
    bool medians;     /**< of steps, instead of means */
    bool findings;    /**< also compare the findings of both: the table diff_findings */
    uint32_t draws;   /**< bootstrap samples for the intervals; 0: 2000 */
    uint64_t seed;    /**< of the bootstrap: the same seed gives the same intervals */
    uint32_t devices; /**< kineto_diff_devices; of diff_hta */
    bool short_names; /**< diff_hta: names without template arguments, as HTA shortens them */
} kineto_diff_options;
KINETO_INIT_FUNCTION(kineto_diff_options)

/** Compare two traces.
 *  @param options  may be NULL.
 *  @param out      receives tables of facts to destroy: diff_runs, diff_calls, diff_summary, diff_findings, diff_steps,
 *                  diff_categories, diff_kernels, diff_operators, diff_threads, diff_memory,
 *                  diff_counters; or
 *                  diff_hta.
 *  @return as kineto_analysis_run; KINETO_E_NOT_FOUND with definitions of HTA if a trace has no steps.
 *          threads: any. */
KINETO_API kineto_status kineto_diff_run(const kineto_trace *before, const kineto_trace *after,
                                     const kineto_diff_options *options, kineto_analysis **out,
                                     kineto_error *err);

/** Compare several runs of each side: all values are those of runs in place of those of steps (the mean of the
 *  steps of a run, with `medians` the median), so that noise between runs counts. Findings are those of the run with
 *  the median step of each side. One run a side is kineto_diff_run.
 *  @param before  1 to 32 traces; 3 a side are needed for intervals (5 for medians, and for the rank test).
 *  @param options  may be NULL.
 *  @param out     receives tables of facts to destroy, as kineto_diff_run makes them.
 *  @return as kineto_diff_run; KINETO_E_ARGUMENT also if only some runs of a side have steps. threads: any. */
KINETO_API kineto_status kineto_diff_runs(const kineto_trace *const *before, size_t before_count,
                                          const kineto_trace *const *after, size_t after_count,
                                          const kineto_diff_options *options, kineto_analysis **out,
                                          kineto_error *err);

typedef enum kineto_diff_outcome {
    KINETO_DIFF_PASSED = 0,
    KINETO_DIFF_FAILED = 1,    /**< beyond the limit, and significant */
    KINETO_DIFF_SKIPPED = 2, /**< insufficient data: beyond the limit, but too few steps for an interval;
                                  or neither trace has anything of that name */
    KINETO_DIFF_INCONCLUSIVE = 3 /**< beyond the limit, but within the noise: these runs can show larger changes only */
} kineto_diff_outcome;

/** The criterion that decided a gate. */
typedef enum kineto_diff_decider {
    KINETO_DIFF_BY_LIMIT = 0,      /**< the difference is within it: passed */
    KINETO_DIFF_BY_INTERVAL = 1,   /**< the interval excludes zero: failed; it includes zero: inconclusive */
    KINETO_DIFF_BY_RANKS = 2,      /**< rank test: the shift is beyond the limit: failed; within it: passed */
    KINETO_DIFF_BY_DIFFERENCE = 3, /**< the difference alone, as requested: failed */
    KINETO_DIFF_BY_NOTHING = 4,    /**< skipped */
    KINETO_DIFF_BY_CALLS = 5       /**< typical calls of all runs: their shift is beyond the limit: failed; within it: passed */
} kineto_diff_decider;

/** Numbers that are not known are NAN. */
typedef struct kineto_diff_verdict {
    size_t size;        /**< sizeof(kineto_diff_verdict): set by kineto_diff_verdict_init */
    KINETO_OLD_MEMBER(uint32_t, outcome, judgement); /**< kineto_diff_outcome */
    double value;       /**< the difference that was compared with the limit, in the unit of the limit */
    double limit;
    char sentence[600];       /**< the comparison and the reason of the outcome; UTF-8 */
    uint32_t decided_by;      /**< kineto_diff_decider */
    kineto_string subject;    /**< the name that decided, of several; valid as long as the diff */
    double before, after;     /**< us, bytes, or the unit of the counter */
    double low_pct, high_pct; /**< 95 % interval of the difference in percent of `before` */
    double shift;             /**< the shift that the rank test or typical calls prove, in the unit of the limit */
} kineto_diff_verdict;
KINETO_INIT_FUNCTION(kineto_diff_verdict)

/** Evaluate a gate.
 *  @param gate   "WHAT>LIMIT" fails if the value rises by more than LIMIT, "WHAT<LIMIT" if it falls by more. WHAT
 *                is step, memory, kernel:NAME, op:NAME, function:NAME, category:NAME or counter:NAME; if several names
 *                contain
 *                NAME, each is evaluated. LIMIT is a percentage (3%), a time per step (2ms), bytes (100MB, 1GiB),
 *                or a plain number for counters.
 *  @param without_noise  decide by the difference alone where there is no interval.
 *  @return KINETO_E_ARGUMENT for a malformed gate. threads: any. */
KINETO_API kineto_status kineto_diff_gate(const kineto_analysis *diff, const char *gate,
                                          bool without_noise, kineto_diff_verdict *out,
                                          kineto_error *err);
/** "passed", "failed", "skipped", "inconclusive". Static storage. threads: hot. */
KINETO_API const char *kineto_diff_outcome_name(uint32_t outcome);
/** "limit", "interval", "ranks", "difference", "nothing", "calls". Static storage. threads: hot. */
KINETO_API const char *kineto_diff_decider_name(uint32_t decider);

#ifdef __cplusplus
}
#endif

#define CKINETO_DIFF_DECLARED
#include <ckineto/deprecated.h>
#endif
