/** @file
 *  Judging a trace: is what it says possible, complete and consistent (docs/reference/verify.md)? And measuring
 *  it: where did the time go (docs/reference/analyze.md)? Pure functions of a trace.
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
 *  trace need not be there any more when its facts are. docs/reference/analyze.md defines every number. */

typedef struct kineto_analysis kineto_analysis;

/** Which definitions numbers follow. */
typedef enum kineto_definitions {
    KINETO_DEFINITIONS_EXACT = 0, /**< nanoseconds, all of the trace, corrected definitions */
    /** as HolisticTraceAnalysis 0.6.1 counts, to compare with it: whole microseconds, without the
     *  last step, its names for kernels. Mistakes that docs/reference/analyze.md lists are left out */
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
    /** names with commas between; NULL: all but those that list every event, and those that a file
     *  is named for below */
    const char *tables;
    bool series;          /**< with tables NULL: those too */
    uint32_t definitions; /**< kineto_definitions */
    uint32_t steps;       /**< kineto_steps_choice */
    uint64_t first_step, last_step; /**< with KINETO_STEPS_RANGE */
    const char *streams;  /**< ids with commas between; NULL: all */
    /** path of a file with rules for names of kernels, looked at before the built-in ones; NULL */
    const char *rules;
    uint32_t threads;     /**< 0: as many as there are processors; the facts are the same */
    /** of a trace of one rank, for the column "rank"; NULL: as the trace says, else 0. A trace of several
     *  ranks is measured rank by rank */
    const int32_t *rank;
    /** the critical path is that of a range of the host whose name holds this: the instance-th one by
     *  start, from 0; NULL: of everything that is looked at */
    const char *annotation;
    uint32_t instance;
    /** sequences: of the outermost ranges whose name holds this; NULL: of the outermost operators */
    const char *sequence_operator;
    uint64_t sequence_min; /**< sequences of at least so many kernels; 0: 3 */
    uint64_t sequence_top; /**< so many of them; 0: 5 */
    /** path of an execution trace of PyTorch of the same run, for the table execution_trace; NULL */
    const char *execution_trace;
    /** path of what PyTorch's export_memory_timeline writes as .raw.json.gz, for the table
     *  memory_timeline; NULL */
    const char *memory_timeline;
    /** names of ranges that are steps: alternatives with | between, a * stands for any text, anything may
     *  follow ("step[DECODE|train step "); NULL: ProfilerStep#N, and without any those that SGLang, vLLM
     *  and ATOM mark. docs/reference/analyze.md says how they are numbered */
    const char *step_pattern;
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
 *  for the same tables, and be two. @return KINETO_E_ARGUMENT if not, KINETO_E_MEMORY: `to` is then
 *  of no use.
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
    const char *name, *title; /**< static: "kernels", "Kernels" */
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

/** Names of all tables there are: 0 … count-1, static storage. NULL past the end. threads: hot. */
KINETO_API uint32_t kineto_fact_table_count(void);
KINETO_API const char *kineto_fact_table_name(uint32_t index);
/** Has it a row for each event? Then it must be asked for. threads: hot. */
KINETO_API bool kineto_fact_table_is_series(uint32_t index);

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

/** A new trace with facts drawn into it: queue lengths and bandwidths as counters, operators that launch
 *  sequences of kernels that come back as rows of a process of their own, and the critical path.
 *  @param options  as for kineto_analyze, with exact definitions; of `tables`, queue_length_series,
 *                  bandwidth_series, sequences and critical_path_edges are drawn. NULL, or tables NULL:
 *                  the first three.
 *  @param out      receives a trace to release.
 *  @return KINETO_E_ARGUMENT if there is nothing of this to draw, else as kineto_analyze. threads: any. */
KINETO_API kineto_status kineto_analyze_overlay(const kineto_trace *trace,
                                                const kineto_analyze_options *options,
                                                kineto_trace **out, kineto_error *err);

/* ---- critical path -----------------------------------------------------------------------------
 *
 *      kineto_critical_path *path;
 *      kineto_critical_path_create(trace, &(kineto_analyze_options){.size = sizeof(kineto_analyze_options),
 *                                  .annotation = "ProfilerStep", .instance = 1}, &path, &err);
 *      kineto_what_if_scale half = {KINETO_WHAT_IF_KERNEL, "gemm", 0.5};
 *      kineto_what_if_result result = {.size = sizeof result};
 *      kineto_what_if(path, &half, 1, &result, &err);
 *
 *  What a rank had to wait for: moments (a range or work begins or ends) are nodes of a graph, edges
 *  say that a moment comes at least so much later than another one. docs/reference/critical-path.md has the
 *  rules. */

typedef struct kineto_critical_path kineto_critical_path;

/** Find what made a part of a trace as long as it was.
 *  @param options  definitions, steps, rules, rank, annotation and instance count; may be NULL.
 *  @param out      receives a path to release; it keeps the trace.
 *  @return KINETO_E_NOT_FOUND if the trace has no such range or steps, or nothing in them;
 *          KINETO_E_ARGUMENT, KINETO_E_MEMORY. threads: any. */
KINETO_API kineto_status kineto_critical_path_create(const kineto_trace *trace,
                                                     const kineto_analyze_options *options,
                                                     kineto_critical_path **out, kineto_error *err);
/** NULL is fine. threads: owner. */
KINETO_API void kineto_critical_path_release(kineto_critical_path *path);

/** Nanoseconds from the beginning of the window to the last moment. threads: any. */
KINETO_API int64_t kineto_critical_path_length_ns(const kineto_critical_path *path);
/** What the path consists of: classes 0 … count-1, those without time too; their names are borrowed
 *  from the path. @return false past the end. threads: any. */
KINETO_API bool kineto_critical_path_class(const kineto_critical_path *path, uint32_t index,
                                           const char **name, int64_t *ns);

typedef struct kineto_critical_node {
    kineto_row row; /**< KINETO_NO_ROW: the beginning of the window, node 0 */
    bool is_end;    /**< the row ends there, else it begins */
    bool on_path;
    int64_t at_ns;    /**< since the beginning of the window */
    int64_t slack_ns; /**< how much later it might be without anything ending later than the last */
} kineto_critical_node;
typedef struct kineto_critical_edge {
    uint32_t from, to;       /**< nodes; from < to */
    const char *type;        /**< what made it: "launch" */
    const char *class_name;  /**< what its time is: "launch_delay" */
    int64_t ns;              /**< `to` comes at least so much later */
    kineto_row row;          /**< whose time it is; KINETO_NO_ROW: nobody's */
    bool on_path;
} kineto_critical_edge;
/** Nodes come after those they wait for, edges by `to`. All-zero past the end. threads: any. */
KINETO_API uint32_t kineto_critical_path_node_count(const kineto_critical_path *path);
KINETO_API bool kineto_critical_path_node(const kineto_critical_path *path, uint32_t index,
                                          kineto_critical_node *out);
KINETO_API uint32_t kineto_critical_path_edge_count(const kineto_critical_path *path);
KINETO_API bool kineto_critical_path_edge(const kineto_critical_path *path, uint32_t index,
                                          kineto_critical_edge *out);

/** What to give another time. */
typedef enum kineto_what_if_kind {
    KINETO_WHAT_IF_KERNEL = 0,   /**< kernels by name */
    KINETO_WHAT_IF_COPY = 1,     /**< copies and memsets by name */
    KINETO_WHAT_IF_OPERATOR = 2, /**< ranges of the host by name: themselves, what is in them, and
                                      the work they launched */
    KINETO_WHAT_IF_CLASS = 3,    /**< edges of a class */
    KINETO_WHAT_IF_LAUNCH = 4    /**< the host's time in calls that launch work of this name */
} kineto_what_if_kind;
typedef struct kineto_what_if_scale {
    uint32_t kind; /**< kineto_what_if_kind */
    /** found anywhere in the name; a * stands for anything; "" is in every name. A class's whole name */
    const char *pattern;
    double factor; /**< of the time: 0.5 is twice as fast. Several that match are multiplied */
} kineto_what_if_scale;
typedef struct kineto_what_if_result {
    size_t size;               /**< sizeof(kineto_what_if_result), set by the caller */
    int64_t before_ns, after_ns; /**< length of the path, and of the longest one then */
    uint64_t scaled;           /**< how many edges have another time */
    uint32_t step_count;       /**< whole steps in the window */
    int64_t step_before_ns, step_after_ns; /**< median of their times on the host; 0: none */
} kineto_what_if_result;
/** How long it would have taken. What waits for other ranks is taken to wait as long as it did.
 *  @return KINETO_E_ARGUMENT for an unknown kind or class, or a factor that is not 0 … 1e6;
 *          KINETO_E_UNSUPPORTED for a path of HTA's definitions; KINETO_E_MEMORY. threads: any. */
KINETO_API kineto_status kineto_what_if(const kineto_critical_path *path,
                                        const kineto_what_if_scale *scales, size_t count,
                                        kineto_what_if_result *result, kineto_error *err);

/** A new trace with a process more that shows the path: what it consists of, one after the other.
 *  @param out  receives a trace to release. NULL on failure.
 *  @return KINETO_E_MEMORY. threads: any. */
KINETO_API kineto_status kineto_critical_path_overlay(const kineto_critical_path *path,
                                                      kineto_trace **out, kineto_error *err);

#ifdef __cplusplus
}
#endif
#endif
