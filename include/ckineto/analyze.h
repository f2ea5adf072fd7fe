/** @file
 *  Judging a trace: is what it says possible, complete and consistent (docs/verify.md)? And measuring
 *  it: where did the time go (docs/analyze.md)? Pure functions of a trace.
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

/* ---- measuring ---------------------------------------------------------------------------------
 *
 *      kineto_analysis *facts;
 *      kineto_analyze(trace, &(kineto_analyze_options){.size = sizeof(kineto_analyze_options),
 *                     .tables = "temporal_breakdown,kernels"}, &facts, &err);
 *
 *  What is found are tables of facts. Those of several ranks become one by kineto_analysis_add; a
 *  trace need not be there any more when its facts are. docs/analyze.md defines every number. */

typedef struct kineto_analysis kineto_analysis;

/** Which definitions numbers follow. */
typedef enum kineto_definitions {
    KINETO_DEFINITIONS_EXACT = 0, /**< nanoseconds, all of the trace, corrected definitions */
    /** as HolisticTraceAnalysis 0.6.1 counts, to compare with it: whole microseconds, without the
     *  last step, its names for kernels. Mistakes that docs/analyze.md lists are left out */
    KINETO_DEFINITIONS_HTA = 1
} kineto_definitions;

typedef enum kineto_steps_choice {
    KINETO_STEPS_USUAL = 0,     /**< ALL; with DEFINITIONS_HTA: DROP_LAST */
    KINETO_STEPS_ALL = 1,       /**< the whole trace, also what is in no step */
    KINETO_STEPS_DROP_LAST = 2, /**< what the host began before the last of several steps, and what it
                                     launched: a profiler often stops inside of the last one */
    KINETO_STEPS_RANGE = 3      /**< first_step … last_step */
} kineto_steps_choice;

typedef struct kineto_analyze_options {
    size_t size;          /**< sizeof(kineto_analyze_options), set by the caller */
    const char *tables;   /**< names with commas between; NULL: all but those that list every event */
    bool series;          /**< with tables NULL: those too */
    uint32_t definitions; /**< kineto_definitions */
    uint32_t steps;       /**< kineto_steps_choice */
    uint64_t first_step, last_step; /**< with KINETO_STEPS_RANGE */
    const char *streams;  /**< ids with commas between; NULL: all */
    /** path of a file with rules for names of kernels, looked at before the built-in ones; NULL */
    const char *rules;
    uint32_t threads;     /**< 0: as many as there are processors; the facts are the same */
    /** of the trace, for the column "rank"; NULL: as the trace says, else 0 */
    const int32_t *rank;
} kineto_analyze_options;

/** Compute tables of facts.
 *  @param options  may be NULL.
 *  @param out      receives facts to release. A table that the trace has nothing for is there, empty,
 *                  with a note that says why.
 *  @return KINETO_E_ARGUMENT for an unknown table or stream list, KINETO_E_NOT_FOUND if the trace has
 *          none of the steps, KINETO_E_MEMORY; for rules: what reading the file met, KINETO_E_FORMAT
 *          with its line. threads: any. */
KINETO_API kineto_status kineto_analyze(const kineto_trace *trace,
                                        const kineto_analyze_options *options,
                                        kineto_analysis **out, kineto_error *err);
/** NULL is fine. threads: owner. */
KINETO_API void kineto_analysis_release(kineto_analysis *analysis);
/** Add the facts of another rank: rows of tables with a rank follow, those of other tables are summed
 *  by what they are about; numbers that compare ranks are computed anew. Both must have been asked
 *  for the same tables. @return KINETO_E_ARGUMENT if not, KINETO_E_MEMORY: `to` is then of no use.
 *  threads: owner of `to`. */
KINETO_API kineto_status kineto_analysis_add(kineto_analysis *to, const kineto_analysis *from,
                                             kineto_error *err);

typedef enum kineto_cell {
    KINETO_CELL_TEXT = 0,
    KINETO_CELL_INT = 1,   /**< i */
    KINETO_CELL_NS = 2,    /**< i: nanoseconds; written as us with three digits behind the point */
    KINETO_CELL_NUMBER = 3 /**< d: the unit is in the column's name */
} kineto_cell;

typedef struct kineto_fact_table {
    const char *name, *title; /**< static: "temporal_breakdown", "Where device time went" */
    uint32_t column_count;
    uint64_t row_count;
    kineto_string note; /**< a sentence: why it is empty, or what to know of it; may be empty */
} kineto_fact_table;
typedef struct kineto_fact_column {
    kineto_string name; /**< as in CSV: "idle_us"; static */
    uint32_t type;      /**< kineto_cell */
} kineto_fact_column;
typedef struct kineto_fact {
    bool is_none;  /**< not known */
    uint32_t type; /**< kineto_cell */
    int64_t i;
    double d;
    kineto_string text; /**< borrowed from the analysis */
} kineto_fact;

/** Names of all tables there are: 0 … count-1. NULL past the end. threads: hot. */
KINETO_API uint32_t kineto_fact_table_count(void);
KINETO_API const char *kineto_fact_table_name(uint32_t index);

/** Tables that were asked for, in a fixed order. All-zero for an index out of range. threads: any. */
KINETO_API uint32_t kineto_analysis_count(const kineto_analysis *analysis);
KINETO_API bool kineto_analysis_table(const kineto_analysis *analysis, uint32_t table,
                                      kineto_fact_table *out);
KINETO_API bool kineto_analysis_column(const kineto_analysis *analysis, uint32_t table,
                                       uint32_t column, kineto_fact_column *out);
KINETO_API bool kineto_analysis_fact(const kineto_analysis *analysis, uint32_t table, uint64_t row,
                                     uint32_t column, kineto_fact *out);
/** Index of a table by name; UINT32_MAX if it was not asked for. threads: any. */
KINETO_API uint32_t kineto_analysis_find(const kineto_analysis *analysis, const char *name);

#ifdef __cplusplus
}
#endif
#endif
