/** @file
 *  Findings: what is slow in a trace, the estimated savings, and advice. docs/reference/findings.md lists the
 *  rules, with a page for each. A pure function of a trace.
 *
 *      kineto_findings *found;
 *      kineto_findings_find(trace, NULL, &found, &err);
 *      for (uint32_t i = 0; kineto_findings_get(found, i, &finding); i++)
 *          …
 *      kineto_findings_destroy(found);
 */
#ifndef CKINETO_FINDINGS_H
#define CKINETO_FINDINGS_H

#include <ckineto/analyze.h>

#ifdef __cplusplus
extern "C" {
#endif

/** One rule. Texts are static. */
typedef struct kineto_finding_rule {
    const char *id;     /**< "input.data_loader"; ids stay */
    const char *title;  /**< "The device waits for the data loader" */
    const char *why;    /**< why it costs time */
    const char *remedy; /**< what to change, in general */
    const char *needs;  /**< the data that a trace must contain for this rule, in words; may be empty */
    /** the rule has been seen only in traces made for its test, in none of a real program yet */
    bool only_synthetic;
} kineto_finding_rule;

/** Rules are numbered 0 … count-1. threads: hot. */
KINETO_API uint32_t kineto_finding_rule_count(void);
/** @return false for an index out of range, and an all-zero *out. threads: hot. */
KINETO_API bool kineto_finding_rule_get(uint32_t index, kineto_finding_rule *out);

typedef enum kineto_finding_severity {
    KINETO_FINDING_LOW = 0,    /**< saves less than 2 % of a step */
    KINETO_FINDING_MEDIUM = 1, /**< less than 10 %; or the program may fail later (memory) */
    KINETO_FINDING_HIGH = 2    /**< 10 % or more; or the trace is unreliable */
} kineto_finding_severity;
/** "low", "medium", "high". Static storage. threads: hot. */
KINETO_API const char *kineto_finding_severity_name(uint32_t severity);

typedef struct kineto_findings_options {
    size_t size;       /**< sizeof(kineto_findings_options): set by kineto_findings_options_init */
    const char *rules; /**< ids with commas between; "copy" stands for all "copy.…"; NULL: all */
    uint32_t evidence; /**< pieces of evidence to keep for each finding, at most 1000; 0: 5 */
    const kineto_analysis_options *analyze; /**< steps, streams, rules for names, rank; NULL: defaults */
    /** receives tables, to be destroyed by the caller: all but those with one row per event, or, if analyze->tables is
     *  not NULL, those that it names and those that the rules read. NULL: not wanted */
    kineto_analysis **facts;
} kineto_findings_options;
KINETO_INIT_FUNCTION(kineto_findings_options)

typedef struct kineto_findings kineto_findings;

/** Evaluate all rules, or those selected, on a trace.
 *  @param options  may be NULL.
 *  @param out      receives findings to destroy, also when no rule has a finding. They do not refer to the trace.
 *  @return KINETO_E_ARGUMENT for an unknown rule, KINETO_E_MEMORY, or an error of kineto_analysis_run.
 *          threads: any. */
KINETO_API kineto_status kineto_findings_find(const kineto_trace *trace, const kineto_findings_options *options,
                                     kineto_findings **out, kineto_error *err);
/** NULL is fine. threads: owner. */
KINETO_API void kineto_findings_destroy(kineto_findings *findings);
/** Add the findings of another rank. The same finding on several ranks becomes one, that of the rank where the savings
 *  are largest. If the ranks are of one run whose collectives can be compared, its savings are those of the run: as all
 *  ranks wait for each other, those of the least affected rank of a role, and more only where the comparison of ranks says
 *  that the run waits for a rank. Rules that compare ranks are evaluated again. Both must have the same rules selected.
 *  @return KINETO_E_ARGUMENT if the rules differ; KINETO_E_MEMORY: `to` is then unusable but for destroying it.
 *          threads: owner of `to`. */
KINETO_API kineto_status kineto_findings_add(kineto_findings *to, const kineto_findings *from,
                                             kineto_error *err);

/** One finding, as a view that borrows from the findings. */
typedef struct kineto_finding {
    uint32_t rule; /**< index of a rule */
    const char *id;
    uint32_t severity;  /**< kineto_finding_severity */
    /* Estimated savings per step, or of the selected time if there are no steps; valid if has_savings. The baseline
     * is the mean step of `rank`; of several ranks that are compared: the length of the run divided by its steps. */
    KINETO_OLD_MEMBER(bool, has_savings, has_worth);
    KINETO_OLD_MEMBER(int64_t, savings_ns, worth_ns);
    KINETO_OLD_MEMBER(int64_t, baseline_ns, of_ns);
    KINETO_OLD_MEMBER(double, savings_pct, worth_pct); /**< 100 * savings_ns / baseline_ns */
    double confidence; /**< 0 … 1, of the savings; lower where the ledger reports lost events */
    int32_t rank;      /**< the rank with the largest savings of its own */
    uint32_t rank_count;    /**< number of ranks that have this finding */
    uint64_t count;         /**< number of occurrences */
    kineto_string subject;  /**< call site or kernel, for rules that can have several findings; else empty */
    kineto_string sentence; /**< the observation in this trace */
    kineto_string advice;   /**< what to change in this program */
    uint32_t evidence_count;
} kineto_finding;

typedef struct kineto_finding_evidence {
    kineto_row row; /**< KINETO_NO_ROW: no single row */
    int32_t rank;
    int64_t start_ns, end_ns; /**< both 0: no interval */
    kineto_string name;       /**< of the row */
    kineto_string where;      /**< the track, in words */
    kineto_string text;       /**< details such as a stack, shapes or a number; may be empty */
} kineto_finding_evidence;

/** Number of findings, and one of them: by savings, the largest first, then by severity and by the order of the rules. A
 *  finding that most of a device's time was not recorded comes before all others, and a cause across ranks with high
 *  confidence before the findings that it explains.
 *  @return false for an index out of range, and an all-zero *out. threads: any. */
KINETO_API uint32_t kineto_findings_count(const kineto_findings *findings);
KINETO_API bool kineto_findings_get(const kineto_findings *findings, uint32_t index,
                                    kineto_finding *out);
/** True if another finding would save some of the same time: the savings of the two do not add up.
 *  @return false for an index out of range. threads: any. */
KINETO_API bool kineto_findings_overlaps(const kineto_findings *findings, uint32_t index);
KINETO_API bool kineto_findings_evidence(const kineto_findings *findings, uint32_t finding,
                                         uint32_t index, kineto_finding_evidence *out);

typedef enum kineto_rule_outcome {
    KINETO_RULE_PASSED = 0,      /**< evaluated, without a finding */
    KINETO_RULE_FOUND = 1,
    KINETO_RULE_SKIPPED = 2,     /**< the trace lacks data that the rule needs */
    KINETO_RULE_NOT_SELECTED = 3 /**< `rules` of the options did not name it */
} kineto_rule_outcome;
/** The outcome of one rule.
 *  @param because  receives why the rule was skipped and what to do about it; else empty. May be NULL.
 *  threads: any. */
KINETO_API kineto_rule_outcome kineto_findings_outcome(const kineto_findings *findings,
                                                      uint32_t rule, kineto_string *because);

/** Baseline of the savings: the mean duration of a step in nanoseconds; without steps, the selected time. Of several
 *  ranks: the mean over all of them. The baseline of one finding is its baseline_ns.
 *  @param step_count  receives the number of steps of all ranks, 0: there are none. May be NULL. threads: any. */
KINETO_API int64_t kineto_findings_mean_step_ns(const kineto_findings *findings, uint32_t *step_count);

/** Evaluate a gate.
 *  @param gate    "ID", "ID=5%" or "ID=2ms" (ns, us, ms, s), where ID is a rule, "copy" for all "copy.…", or
 *                 "all". The gate fails for a finding with savings above the limit, or for any finding if there
 *                 is no limit. A gate for a single rule also fails if that rule was skipped.
 *  @param passed  receives the result.
 *  @param because receives the reason of a failure, cut to `because_bytes`; may be NULL.
 *  @return KINETO_E_ARGUMENT for a malformed gate or an unknown rule. threads: any. */
KINETO_API kineto_status kineto_findings_gate(const kineto_findings *findings, const char *gate,
                                              bool *passed, char *because, size_t because_bytes,
                                              kineto_error *err);

#ifdef __cplusplus
}
#endif

#define CKINETO_FINDINGS_DECLARED
#include <ckineto/deprecated.h>
#endif
