/** @file
 *  Verify a trace: is it possible, complete and consistent (docs/reference/verify.md)? Analyse it: tables of facts
 *  about where the time went (docs/reference/analyze.md), and the critical path. Pure functions of a trace.
 */
#ifndef CKINETO_ANALYZE_H
#define CKINETO_ANALYZE_H

#include <ckineto/trace.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef enum kineto_severity {
    KINETO_SEVERITY_NOTE = 0,    /**< information; the trace is sound */
    KINETO_SEVERITY_WARNING = 1, /**< data is missing or doubtful */
    KINETO_SEVERITY_ERROR = 2    /**< impossible, or results will be wrong */
} kineto_severity;

/** "note", "warning", "error". Static storage. threads: hot. */
KINETO_API const char *kineto_severity_name(uint32_t severity);

/** One rule. Texts are static. */
typedef struct kineto_verify_rule {
    const char *id;      /**< "launch.order"; ids do not change */
    uint32_t severity;   /**< kineto_severity; findings may have a lower one */
    const char *meaning; /**< what a finding of this rule means */
    const char *why;     /**< why it matters */
    const char *remedy;  /**< what to do */
} kineto_verify_rule;

/** Rules are numbered 0 … count-1. threads: hot. */
KINETO_API uint32_t kineto_verify_rule_count(void);
/** @return false for an index out of range, and an all-zero *out. threads: hot. */
KINETO_API bool kineto_verify_rule_get(uint32_t index, kineto_verify_rule *out);

typedef struct kineto_verify_options {
    size_t size;       /**< sizeof(kineto_verify_options): set by kineto_verify_options_init */
    const char *rules; /**< ids with commas between; "flow" stands for all "flow.…"; NULL: all */
    uint32_t places;   /**< places to keep for each finding, at most 1000; 0: 3 */
} kineto_verify_options;
KINETO_INIT_FUNCTION(kineto_verify_options)

typedef struct kineto_verify_report kineto_verify_report;

/** Verify a trace with all rules, or those selected.
 *  @param options  may be NULL.
 *  @param out      receives a report to destroy, also when it is empty. It does not refer to the trace. NULL on
 *                  failure.
 *  @return KINETO_OK, KINETO_E_ARGUMENT for an unknown rule, KINETO_E_MEMORY. threads: any. */
KINETO_API kineto_status kineto_verify_run(const kineto_trace *trace,
                                       const kineto_verify_options *options,
                                       kineto_verify_report **out, kineto_error *err);
/** NULL is fine. threads: owner. */
KINETO_API void kineto_verify_report_destroy(kineto_verify_report *report);

/** One finding, as a view that borrows from the report. */
typedef struct kineto_verify_finding {
    uint32_t rule;          /**< index of a rule */
    uint32_t severity;      /**< kineto_severity */
    uint64_t count;         /**< number of occurrences */
    kineto_string sentence; /**< the finding in this trace; may contain names from the trace */
    uint32_t place_count;   /**< number of places that were kept */
} kineto_verify_finding;

#define KINETO_NO_OFFSET UINT64_MAX

/** A place of a finding. */
typedef struct kineto_verify_place {
    kineto_row row; /**< KINETO_NO_ROW: none, see text */
    uint32_t track; /**< of the row */
    int64_t start_ns, end_ns;
    kineto_string name;  /**< of the row */
    kineto_string where; /**< the track, in words */
    kineto_string text;  /**< details such as a ledger line; may be empty */
    uint64_t offset;     /**< byte in the text of the file; KINETO_NO_OFFSET: unknown */
} kineto_verify_place;

/** Number of findings, and one of them, by severity, then in the order of the rules. threads: any. */
KINETO_API uint32_t kineto_verify_report_count(const kineto_verify_report *report);
KINETO_API bool kineto_verify_report_finding(const kineto_verify_report *report, uint32_t index,
                                             kineto_verify_finding *out);
KINETO_API bool kineto_verify_report_place(const kineto_verify_report *report, uint32_t finding,
                                           uint32_t index, kineto_verify_place *out);
/** Number of findings of a severity. A trace is sound if it has neither errors nor warnings. threads: any. */
KINETO_API uint32_t kineto_verify_report_severity_count(const kineto_verify_report *report,
                                                        uint32_t severity);

/* ---- analysis ----------------------------------------------------------------------------------
 *
 *      kineto_analysis *facts;
 *      kineto_analysis_options options;
 *      kineto_analysis_options_init(&options);
 *      options.tables = "temporal_breakdown,kernels";
 *      kineto_analysis_run(trace, &options, &facts, &err);
 *
 *  The result is a set of tables of facts, which does not refer to the trace. kineto_analysis_add combines those of
 *  several ranks. docs/reference/analyze.md defines every number. */

typedef struct kineto_analysis kineto_analysis;

/** Definitions of the numbers. */
typedef enum kineto_definitions {
    KINETO_DEFINITIONS_EXACT = 0, /**< nanoseconds, all of the trace, corrected definitions */
    /** those of HolisticTraceAnalysis 0.6.1, for comparison: whole microseconds, without the last step, its names for
     *  kernels, except for the errors that docs/reference/analyze.md lists */
    KINETO_DEFINITIONS_HTA = 1
} kineto_definitions;

typedef enum kineto_steps_choice {
    KINETO_STEPS_USUAL = 0,     /**< ALL; with DEFINITIONS_HTA: DROP_LAST */
    KINETO_STEPS_ALL = 1,       /**< the whole trace, also outside of steps */
    KINETO_STEPS_DROP_LAST = 2, /**< host activities that began before the last of several steps, and their device
                                     work: a profiler often stops within the last one */
    KINETO_STEPS_RANGE = 3      /**< first_step … last_step */
} kineto_steps_choice;

typedef struct kineto_analysis_options {
    size_t size;          /**< sizeof(kineto_analysis_options): set by kineto_analysis_options_init */
    /** comma-separated names; NULL: all but per-event tables, and tables that need one of the files below */
    const char *tables;
    bool series;          /**< with tables NULL: also per-event tables */
    uint32_t definitions; /**< kineto_definitions */
    uint32_t steps;       /**< kineto_steps_choice */
    uint64_t first_step, last_step; /**< with KINETO_STEPS_RANGE */
    const char *streams;  /**< comma-separated ids; NULL: all */
    /** path of a file with kernel rules, which are applied before the built-in ones; NULL: none */
    const char *rules;
    uint32_t threads;     /**< 0: one per processor; the facts do not depend on it */
    /** does not select: value of the column "rank" for a trace of one rank; NULL: from the trace, else 0. A trace of several ranks is
     *  analysed rank by rank */
    const int32_t *rank;
    /** critical path: of a host range whose name contains this text, the instance-th one by start, from 0; NULL: of
     *  the whole selection */
    const char *annotation;
    uint32_t instance;
    /** sequences: of the outermost ranges whose name contains this text; NULL: of the outermost operators */
    const char *sequence_operator;
    uint64_t sequence_min; /**< minimum number of kernels of a sequence; 0: 3 */
    uint64_t sequence_top; /**< number of sequences to report; 0: 5 */
    /** path of an execution trace of PyTorch of the same run, for the table execution_trace; NULL */
    const char *execution_trace;
    /** path of a .raw.json.gz file of PyTorch's export_memory_timeline, for the table memory_timeline; NULL */
    const char *memory_timeline;
    /** names of step ranges: prefixes separated by |, where * stands for any text ("step[DECODE|train step "); NULL:
     *  ProfilerStep#N, or if there are none the steps that SGLang, vLLM and ATOM mark, else ranges that
     *  repeat and cover the time of their thread. docs/reference/analyze.md
     *  describes the numbering */
    const char *step_pattern;
} kineto_analysis_options;
KINETO_INIT_FUNCTION(kineto_analysis_options)

/** Compute tables of facts.
 *  @param options  may be NULL.
 *  @param out      receives facts to destroy. A table without data is present, empty, with a note that says why.
 *  @return KINETO_E_ARGUMENT for an unknown table or stream list, KINETO_E_NOT_FOUND if the trace has
 *          none of the steps, KINETO_E_MEMORY; for rules: an error of reading the file, KINETO_E_FORMAT with the
 *          line. threads: any. */
KINETO_API kineto_status kineto_analysis_run(const kineto_trace *trace,
                                        const kineto_analysis_options *options,
                                        kineto_analysis **out, kineto_error *err);
/** NULL is fine. threads: owner. */
KINETO_API void kineto_analysis_destroy(kineto_analysis *analysis);
/** Add the facts of another rank: rows of tables with a rank column are appended, those of other tables are summed by
 *  key; numbers that compare ranks are recomputed. `to` and `from` must differ and have the same tables.
 *  @return KINETO_E_ARGUMENT if not; KINETO_E_MEMORY: `to` is then unusable but for destroying it.
 *          threads: owner of `to`. */
KINETO_API kineto_status kineto_analysis_add(kineto_analysis *to, const kineto_analysis *from,
                                             kineto_error *err);

typedef enum kineto_cell {
    KINETO_CELL_TEXT = 0,
    KINETO_CELL_INT = 1,   /**< i */
    KINETO_CELL_NS = 2,    /**< i: nanoseconds; written as us with three decimals */
    KINETO_CELL_NUMBER = 3 /**< d: the unit is in the name of the column */
} kineto_cell;

typedef struct kineto_fact_table {
    const char *name, *title; /**< static: "kernels", "Kernels" */
    uint32_t column_count;
    uint64_t row_count;
    kineto_string note; /**< a sentence: why the table is empty, or a remark; may be empty */
} kineto_fact_table;
typedef struct kineto_fact_column {
    kineto_string name; /**< as in CSV: "idle_us"; static */
    uint32_t type;      /**< kineto_cell */
} kineto_fact_column;
/** One cell of a table. */
typedef struct kineto_fact {
    bool is_none;  /**< unknown */
    uint32_t type; /**< kineto_cell */
    int64_t i;
    double d;
    kineto_string text; /**< borrowed from the analysis */
} kineto_fact;

/** Number and names of all known tables; static storage. NULL past the end. threads: hot. */
KINETO_API uint32_t kineto_fact_table_count(void);
KINETO_API const char *kineto_fact_table_name(uint32_t index);
/** True for per-event tables, which are omitted unless requested. threads: hot. */
KINETO_API bool kineto_fact_table_is_series(uint32_t index);

/** The requested tables in a fixed order, their columns and cells; false and all-zero for an index out of range.
 *  threads: any. */
KINETO_API uint32_t kineto_analysis_table_count(const kineto_analysis *analysis);
KINETO_API bool kineto_analysis_table(const kineto_analysis *analysis, uint32_t table,
                                      kineto_fact_table *out);
KINETO_API bool kineto_analysis_column(const kineto_analysis *analysis, uint32_t table,
                                       uint32_t column, kineto_fact_column *out);
KINETO_API bool kineto_analysis_fact(const kineto_analysis *analysis, uint32_t table, uint64_t row,
                                     uint32_t column, kineto_fact *out);
/** Index of a table by name; UINT32_MAX if it was not requested. threads: any. */
KINETO_API uint32_t kineto_analysis_find_table(const kineto_analysis *analysis, const char *name);

/** A new trace with facts added to the timeline: queue lengths and bandwidths as counters, repeated kernel sequences
 *  as rows of a separate process, and the critical path.
 *  @param options  as for kineto_analysis_run, with exact definitions; of `tables`, queue_length_series,
 *                  bandwidth_series, sequences and critical_path_edges are added. NULL, or tables NULL: the first
 *                  three.
 *  @param out      receives a trace to release.
 *  @return KINETO_E_ARGUMENT if none of these tables is selected, else as kineto_analysis_run. threads: any. */
KINETO_API kineto_status kineto_analysis_overlay(const kineto_trace *trace,
                                                const kineto_analysis_options *options,
                                                kineto_trace **out, kineto_error *err);

/* ---- critical path -----------------------------------------------------------------------------
 *
 *      kineto_critical_path *path;
 *      kineto_analysis_options options;
 *      kineto_analysis_options_init(&options);
 *      options.annotation = "ProfilerStep";
 *      kineto_critical_path_create(trace, &options, &path, &err);
 *      kineto_what_if_scale half = {KINETO_WHAT_IF_KERNEL, "gemm", 0.5};
 *      kineto_what_if_result result;
 *      kineto_what_if_result_init(&result);
 *      kineto_critical_path_what_if(path, &half, 1, &result, &err);
 *
 *  The longest chain of dependencies of a rank: nodes of the graph are the begins and ends of ranges and device work,
 *  an edge gives the minimum time from one to another. docs/reference/critical-path.md has the rules. */

typedef struct kineto_critical_path kineto_critical_path;

/** Compute the critical path of a part of a trace.
 *  @param options  definitions, steps, rules, rank, annotation and instance apply; may be NULL.
 *  @param out      receives a path to destroy; it retains the trace.
 *  @return KINETO_E_NOT_FOUND if the trace has no such range or steps, or they are empty;
 *          KINETO_E_ARGUMENT, KINETO_E_MEMORY. threads: any. */
KINETO_API kineto_status kineto_critical_path_create(const kineto_trace *trace,
                                                     const kineto_analysis_options *options,
                                                     kineto_critical_path **out, kineto_error *err);
/** NULL is fine. threads: owner. */
KINETO_API void kineto_critical_path_destroy(kineto_critical_path *path);

/** Nanoseconds from the begin of the window to the last node. threads: any. */
KINETO_API int64_t kineto_critical_path_length_ns(const kineto_critical_path *path);
/** Time on the path by class, including classes without time; names are borrowed from the path.
 *  @return false past the end. threads: any. */
KINETO_API bool kineto_critical_path_class(const kineto_critical_path *path, uint32_t index,
                                           const char **name, int64_t *ns);

typedef struct kineto_critical_node {
    kineto_row row; /**< KINETO_NO_ROW: the begin of the window, node 0 */
    bool is_end;    /**< the end of the row, else its begin */
    bool on_path;
    int64_t at_ns;    /**< since the begin of the window */
    int64_t slack_ns; /**< possible delay of the node that does not delay the last node */
} kineto_critical_node;
typedef struct kineto_critical_edge {
    uint32_t from, to;       /**< nodes; from < to */
    const char *type;        /**< the dependency: "launch" */
    const char *class_name;  /**< the class of its time: "launch_delay" */
    int64_t ns;              /**< minimum time from `from` to `to` */
    kineto_row row;          /**< the activity that takes this time; KINETO_NO_ROW: none */
    bool on_path;
} kineto_critical_edge;
/** Nodes in topological order, edges by `to`; false and all-zero past the end. threads: any. */
KINETO_API uint32_t kineto_critical_path_node_count(const kineto_critical_path *path);
KINETO_API bool kineto_critical_path_node(const kineto_critical_path *path, uint32_t index,
                                          kineto_critical_node *out);
KINETO_API uint32_t kineto_critical_path_edge_count(const kineto_critical_path *path);
KINETO_API bool kineto_critical_path_edge(const kineto_critical_path *path, uint32_t index,
                                          kineto_critical_edge *out);

/** Activities whose time a what-if changes. */
typedef enum kineto_what_if_kind {
    KINETO_WHAT_IF_KERNEL = 0,   /**< kernels by name */
    KINETO_WHAT_IF_COPY = 1,     /**< copies and memsets by name */
    KINETO_WHAT_IF_OPERATOR = 2, /**< host ranges by name: the ranges, their children and the device work that they
                                      launched */
    KINETO_WHAT_IF_CLASS = 3,    /**< edges of a class */
    KINETO_WHAT_IF_LAUNCH = 4    /**< the host's time in calls that launch work of this name */
} kineto_what_if_kind;
typedef struct kineto_what_if_scale {
    uint32_t kind; /**< kineto_what_if_kind */
    /** matches anywhere in the name; * stands for any text; "" matches every name. For CLASS the whole name */
    const char *pattern;
    double factor; /**< of the time: 0.5 is twice as fast. Factors of several matches are multiplied */
} kineto_what_if_scale;
typedef struct kineto_what_if_result {
    size_t size;               /**< sizeof(kineto_what_if_result): set by kineto_what_if_result_init */
    int64_t before_ns, after_ns; /**< length of the critical path before and after the change */
    uint64_t scaled;           /**< number of edges whose time has changed */
    uint32_t step_count;       /**< whole steps in the window */
    int64_t step_before_ns, step_after_ns; /**< median of their durations on the host; 0: none */
} kineto_what_if_result;
KINETO_INIT_FUNCTION(kineto_what_if_result)
/** Estimate the duration with changed times. Waits for other ranks are taken to last as long as recorded.
 *  @return KINETO_E_ARGUMENT for an unknown kind or class, or a factor that is not 0 … 1e6;
 *          KINETO_E_UNSUPPORTED for a path of HTA's definitions; KINETO_E_MEMORY. threads: any. */
KINETO_API kineto_status kineto_critical_path_what_if(const kineto_critical_path *path,
                                        const kineto_what_if_scale *scales, size_t count,
                                        kineto_what_if_result *result, kineto_error *err);

/** A new trace with an additional process that shows the activities of the path in order.
 *  @param out  receives a trace to release. NULL on failure.
 *  @return KINETO_E_MEMORY. threads: any. */
KINETO_API kineto_status kineto_critical_path_overlay(const kineto_critical_path *path,
                                                      kineto_trace **out, kineto_error *err);

#ifdef __cplusplus
}
#endif

#define CKINETO_ANALYZE_DECLARED
#include <ckineto/deprecated.h>
#endif
