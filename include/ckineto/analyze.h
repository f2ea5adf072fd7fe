/** @file
 *  Judging a trace: is what it says possible, complete and consistent? Pure functions of a trace.
 *  docs/verify.md has the rules.
 */
#ifndef CKINETO_ANALYZE_H
#define CKINETO_ANALYZE_H

#include <ckineto/trace.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef enum kineto_severity {
    KINETO_SEVERITY_NOTE = 0,    /**< good to know; the trace is sound */
    KINETO_SEVERITY_WARNING = 1, /**< something is missing or doubtful */
    KINETO_SEVERITY_ERROR = 2    /**< it cannot have been like this, or numbers will be wrong */
} kineto_severity;

/** "note", "warning", "error". Static storage. threads: hot. */
KINETO_API const char *kineto_severity_name(uint32_t severity);

/** One rule. Texts are static. */
typedef struct kineto_verify_rule {
    const char *id;      /**< "launch.order"; ids stay */
    uint32_t severity;   /**< kineto_severity, at most: a finding may be milder */
    const char *meaning; /**< what was found */
    const char *why;     /**< why it matters */
    const char *remedy;  /**< what to do */
} kineto_verify_rule;

/** Rules are numbered 0 … count-1. threads: hot. */
KINETO_API uint32_t kineto_verify_rule_count(void);
/** @return false for an index out of range, and an all-zero *out. threads: hot. */
KINETO_API bool kineto_verify_rule_get(uint32_t index, kineto_verify_rule *out);

typedef struct kineto_verify_options {
    size_t size;       /**< sizeof(kineto_verify_options), set by the caller */
    const char *rules; /**< ids with commas between; "flow" stands for all "flow.…"; NULL: all */
    uint32_t places;   /**< how many places to keep for each finding, at most 1000; 0: 3 */
} kineto_verify_options;

typedef struct kineto_verify_report kineto_verify_report;

/** Look at a trace by all rules, or some.
 *  @param options  may be NULL.
 *  @param out      receives a report to release, also when there is nothing to report. It does not
 *                  need the trace any more. NULL on failure.
 *  @return KINETO_OK, KINETO_E_ARGUMENT for an unknown rule, KINETO_E_MEMORY. threads: any. */
KINETO_API kineto_status kineto_verify(const kineto_trace *trace,
                                       const kineto_verify_options *options,
                                       kineto_verify_report **out, kineto_error *err);
/** NULL is fine. threads: owner. */
KINETO_API void kineto_verify_report_release(kineto_verify_report *report);

/** One finding, as a view that borrows from the report. */
typedef struct kineto_verify_finding {
    uint32_t rule;          /**< index of a rule */
    uint32_t severity;      /**< kineto_severity */
    uint64_t count;         /**< how often */
    kineto_string sentence; /**< what was found in this trace; may hold names of its making */
    uint32_t place_count;   /**< the first ones are kept */
} kineto_verify_finding;

#define KINETO_NO_OFFSET UINT64_MAX

/** Where a finding is. */
typedef struct kineto_verify_place {
    kineto_row row; /**< KINETO_NO_ROW: no row, see text */
    uint32_t track; /**< of the row */
    int64_t start_ns, end_ns;
    kineto_string name;  /**< of the row */
    kineto_string where; /**< its track, in words */
    kineto_string text;  /**< more, may be empty: a ledger line, say */
    uint64_t offset;     /**< byte in the text of the file, KINETO_NO_OFFSET: not known */
} kineto_verify_place;

/** Findings, the worst first, then in the order of the rules. threads: any. */
KINETO_API uint32_t kineto_verify_report_count(const kineto_verify_report *report);
KINETO_API bool kineto_verify_report_finding(const kineto_verify_report *report, uint32_t index,
                                             kineto_verify_finding *out);
KINETO_API bool kineto_verify_report_place(const kineto_verify_report *report, uint32_t finding,
                                           uint32_t index, kineto_verify_place *out);
/** How many findings have this severity. A trace is sound if it has neither errors nor warnings.
 *  threads: any. */
KINETO_API uint32_t kineto_verify_report_severity_count(const kineto_verify_report *report,
                                                        uint32_t severity);

#ifdef __cplusplus
}
#endif
#endif
