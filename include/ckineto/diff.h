/** @file
 *  What changed between two traces, how sure that is, and whether it may pass (docs/reference/diff.md). Pure
 *  functions of traces.
 *
 *      kineto_analysis *diff;
 *      kineto_diff(before, after, NULL, &diff, &err);
 *      kineto_diff_verdict verdict = {.size = sizeof verdict};
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
    size_t size; /**< sizeof(kineto_diff_options), set by the caller */
    /** steps, streams and rules for both; definitions: EXACT, or HTA for the table diff_hta alone;
     *  tables and rank are not looked at. NULL */
    const kineto_analyze_options *analyze;
    bool shapes;      /**< operators with different input shapes are different ones */
    bool medians;     /**< of steps, instead of means */
    bool findings;    /**< judge both by kineto_find: the table diff_findings */
    uint32_t draws;   /**< of steps, for intervals; 0: 2000 */
    uint64_t seed;    /**< of these draws: the same seed, the same intervals */
    uint32_t devices; /**< kineto_diff_devices; of diff_hta */
    bool short_names; /**< diff_hta: without template arguments, as HTA shortens them */
} kineto_diff_options;

/** Compare two traces.
 *  @param options  may be NULL.
 *  @param out      receives tables of facts to release: diff_summary, diff_findings, diff_steps,
 *                  diff_categories, diff_kernels, diff_operators, diff_memory, diff_counters; or
 *                  diff_hta.
 *  @return as kineto_analyze; KINETO_E_NOT_FOUND with definitions of HTA if a trace has no steps.
 *          threads: any. */
KINETO_API kineto_status kineto_diff(const kineto_trace *before, const kineto_trace *after,
                                     const kineto_diff_options *options, kineto_analysis **out,
                                     kineto_error *err);

typedef enum kineto_diff_judgement {
    KINETO_DIFF_PASSED = 0,
    KINETO_DIFF_FAILED = 1,    /**< beyond the limit, and no noise */
    KINETO_DIFF_NOT_JUDGED = 2 /**< beyond the limit, but too few steps to tell it from noise; or
                                    there is nothing of that name */
} kineto_diff_judgement;

/** What made the answer of a gate. */
typedef enum kineto_diff_decider {
    KINETO_DIFF_BY_LIMIT = 0,      /**< the difference is within it: passed */
    KINETO_DIFF_BY_INTERVAL = 1,   /**< excludes zero: failed; holds it: passed */
    KINETO_DIFF_BY_RANKS = 2,      /**< the shift that they prove is beyond the limit: failed; or
                                        within: passed */
    KINETO_DIFF_BY_DIFFERENCE = 3, /**< alone, as was asked for: failed */
    KINETO_DIFF_BY_NOTHING = 4     /**< not judged */
} kineto_diff_decider;

/** Numbers that are not known are NAN. */
typedef struct kineto_diff_verdict {
    size_t size;        /**< sizeof(kineto_diff_verdict), set by the caller */
    uint32_t judgement; /**< kineto_diff_judgement */
    double value;       /**< the difference it was judged by, in the unit of the limit */
    double limit;
    char sentence[600];       /**< what was compared, and why this is the answer; UTF-8 */
    uint32_t decided_by;      /**< kineto_diff_decider */
    kineto_string subject;    /**< of several the one that decided; valid as long as the diff */
    double before, after;     /**< us, bytes, or as they are */
    double low_pct, high_pct; /**< 95 % interval of the difference in percent of before */
    double shift;             /**< what ranks prove, in the unit of the limit */
} kineto_diff_verdict;

/** May this difference pass?
 *  @param gate   "WHAT>LIMIT": fails if it rises by more than LIMIT, "WHAT<LIMIT" if it falls by
 *                more. WHAT is step, memory, kernel:NAME, op:NAME, category:NAME or counter:NAME
 * (of several with that in their names, each is judged); LIMIT is a percentage (3%), a time of a
 * step (2ms), bytes (100MB, 1GiB), or a plain number for counters.
 *  @param without_noise  judge by the difference alone where there is no interval.
 *  @return KINETO_E_ARGUMENT for a gate that cannot be understood. threads: any. */
KINETO_API kineto_status kineto_diff_gate(const kineto_analysis *diff, const char *gate,
                                          bool without_noise, kineto_diff_verdict *out,
                                          kineto_error *err);
/** "passed", "failed", "not judged". Static storage. threads: hot. */
KINETO_API const char *kineto_diff_judgement_name(uint32_t judgement);
/** "limit", "interval", "ranks", "difference", "nothing". Static storage. threads: hot. */
KINETO_API const char *kineto_diff_decider_name(uint32_t decider);

#ifdef __cplusplus
}
#endif
#endif
