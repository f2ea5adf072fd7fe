/** @file
 *  What is slow in a trace, what it costs, and what to do about it: findings (docs/reference/findings.md has
 *  a page for each rule). A pure function of a trace.
 *
 *      kineto_findings *found;
 *      kineto_find(trace, NULL, &found, &err);
 *      for (uint32_t i = 0; kineto_findings_get(found, i, &finding); i++)
 *          …
 *      kineto_findings_release(found);
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
    const char *needs;  /**< what a trace must have for it, in words; may be empty */
    /** no trace of a real program has shown it yet, only those made for its test */
    bool only_synthetic;
} kineto_finding_rule;

/** Rules are numbered 0 … count-1. threads: hot. */
KINETO_API uint32_t kineto_finding_rule_count(void);
/** @return false for an index out of range, and an all-zero *out. threads: hot. */
KINETO_API bool kineto_finding_rule_get(uint32_t index, kineto_finding_rule *out);

typedef enum kineto_finding_severity {
    KINETO_FINDING_LOW = 0,    /**< worth less than 2 % of a step */
    KINETO_FINDING_MEDIUM = 1, /**< less than 10 %; or it may fail one day */
    KINETO_FINDING_HIGH = 2    /**< more; or what the trace says cannot be relied on */
} kineto_finding_severity;
/** "low", "medium", "high". Static storage. threads: hot. */
KINETO_API const char *kineto_finding_severity_name(uint32_t severity);

typedef struct kineto_find_options {
    size_t size;       /**< sizeof(kineto_find_options), set by the caller */
    const char *rules; /**< ids with commas between; "copy" stands for all "copy.…"; NULL: all */
    uint32_t evidence; /**< how many pieces to keep for each finding, at most 1000; 0: 5 */
    const kineto_analyze_options *analyze; /**< steps, streams, rules for names, rank; NULL */
    /** receives the facts that findings were made of, all tables but those with a row for each event,
     *  to release; NULL: they are not wanted */
    kineto_analysis **facts;
} kineto_find_options;

typedef struct kineto_findings kineto_findings;

/** Judge a trace by all rules, or some.
 *  @param options  may be NULL.
 *  @param out      receives findings to release, also when there is nothing to say. They do not need
 *                  the trace any more.
 *  @return KINETO_E_ARGUMENT for an unknown rule, KINETO_E_MEMORY, or what kineto_analyze met.
 *          threads: any. */
KINETO_API kineto_status kineto_find(const kineto_trace *trace, const kineto_find_options *options,
                                     kineto_findings **out, kineto_error *err);
/** NULL is fine. threads: owner. */
KINETO_API void kineto_findings_release(kineto_findings *findings);
/** Add those of another rank: the same finding on several ranks becomes one, worth what it is on the
 *  rank where it is worth most, and rules that compare ranks are asked again. Both must have been
 *  asked for the same rules. @return KINETO_E_ARGUMENT if not, KINETO_E_MEMORY: `to` is then of no
 *  use. threads: owner of `to`. */
KINETO_API kineto_status kineto_findings_add(kineto_findings *to, const kineto_findings *from,
                                             kineto_error *err);

/** One finding, as a view that borrows from the findings. */
typedef struct kineto_finding {
    uint32_t rule; /**< index of a rule */
    const char *id;
    uint32_t severity;  /**< kineto_finding_severity */
    bool has_worth;     /**< its worth is known */
    int64_t worth_ns;   /**< of a step; without steps: of all that was looked at */
    int64_t of_ns;      /**< that step: the mean one of `rank`; of a rule that compares ranks: of all */
    double worth_pct;   /**< of that */
    double confidence;  /**< 0 … 1: how sure the worth is; less where the ledger tells of loss */
    int32_t rank;       /**< where it is worth most */
    uint32_t rank_count;    /**< on how many ranks */
    uint64_t count;         /**< how often */
    kineto_string subject;  /**< which one, if a rule can find several: a call site, a kernel */
    kineto_string sentence; /**< what was seen in this trace */
    kineto_string advice;   /**< what to change here */
    uint32_t evidence_count;
} kineto_finding;

typedef struct kineto_finding_evidence {
    kineto_row row; /**< KINETO_NO_ROW: no single row */
    int32_t rank;
    int64_t start_ns, end_ns; /**< the same and 0 if it has no place in time */
    kineto_string name;       /**< of the row */
    kineto_string where;      /**< its track, in words */
    kineto_string text;       /**< more: stack, shapes, a number; may be empty */
} kineto_finding_evidence;

/** By worth, the largest first (in front of all: that most of a device's time was not recorded); then by severity and the order of the rules.
 *  @return false for an index out of range, and an all-zero *out. threads: any. */
KINETO_API uint32_t kineto_findings_count(const kineto_findings *findings);
KINETO_API bool kineto_findings_get(const kineto_findings *findings, uint32_t index,
                                    kineto_finding *out);
/** Does another finding save some of the same time? Then the two do not add up: both together save less
 *  than the sum of their worths. @return false for an index out of range. threads: any. */
KINETO_API bool kineto_findings_overlaps(const kineto_findings *findings, uint32_t index);
KINETO_API bool kineto_findings_evidence(const kineto_findings *findings, uint32_t finding,
                                         uint32_t index, kineto_finding_evidence *out);

typedef enum kineto_judgement {
    KINETO_JUDGED_QUIET = 0, /**< there is nothing to say */
    KINETO_JUDGED_FOUND = 1,
    KINETO_NOT_JUDGED = 2, /**< the trace does not have what it needs */
    KINETO_NOT_ASKED = 3
} kineto_judgement;
/** What became of a rule.
 *  @param because  receives why it could not be judged, with what to do; else empty. threads: any. */
KINETO_API kineto_judgement kineto_findings_judgement(const kineto_findings *findings,
                                                      uint32_t rule, kineto_string *because);

/** What worths are parts of: the mean time of a step in nanoseconds and how many steps; without steps
 *  the time of all and 0. Of several ranks: the mean of all, and all of their steps; what each finding is
 *  a part of is its of_ns. threads: any. */
KINETO_API int64_t kineto_findings_step(const kineto_findings *findings, uint32_t *step_count);

/** Is there anything that a gate does not let pass?
 *  @param gate    "ID", "ID=5%" or "ID=2ms" (ns, us, ms, s): a rule, or "copy" for all "copy.…", or
 *                 "all"; what is worth more than the limit does not pass, without one whatever is found.
 *                 A rule that could not be judged does not pass, either, unless it stands for several.
 *  @param passed  receives the answer.
 *  @param because receives a sentence if it does not pass, cut to `because_bytes`; may be NULL.
 *  @return KINETO_E_ARGUMENT for a gate that cannot be understood or names no rule. threads: any. */
KINETO_API kineto_status kineto_findings_gate(const kineto_findings *findings, const char *gate,
                                              bool *passed, char *because, size_t because_bytes,
                                              kineto_error *err);

#ifdef __cplusplus
}
#endif
#endif
