/** @file
 *  Write traces in other formats, and facts, findings and reports. kineto_export_format_get lists the formats. Chrome
 *  JSON holds all of a trace; the result of an export counts what another format cannot hold, with the reason.
 */
#ifndef CKINETO_EXPORT_H
#define CKINETO_EXPORT_H

#include <ckineto/analyze.h>
#include <ckineto/overview.h>
#include <ckineto/trace.h>

#ifdef __cplusplus
extern "C" {
#endif

/** One format. Static storage. */
typedef struct kineto_export_format {
    size_t size;                /**< sizeof(kineto_export_format): set by kineto_export_format_init */
    const char *name;           /**< "chrome", "jsonl" … */
    const char *const *endings; /**< of file names, with the dot; ends with NULL */
    const char *about;          /**< a phrase that describes it */
    bool compressible;          /**< ".gz" and ".zst" may follow the endings */
    bool needs_file;            /**< cannot be written to a pipe */
} kineto_export_format;
KINETO_INIT_FUNCTION(kineto_export_format)

/** The format at an index of the table; false past its end, and for a struct without its size.
 *  threads: any. */
KINETO_API bool kineto_export_format_get(uint32_t index, kineto_export_format *out);

/** Roots of stacks, in formats that merge equal stacks. */
typedef enum kineto_export_roots {
    KINETO_EXPORT_BY_TRACK = 0, /**< process or device, then thread or stream */
    KINETO_EXPORT_BY_KIND = 1,  /**< kind of the outermost activity; tracks are merged */
    KINETO_EXPORT_MERGED = 2    /**< nothing: the outermost activity */
} kineto_export_roots;

/** Weight of stacks: folded, flame, pprof. Activities without it are omitted. */
typedef enum kineto_export_weight {
    /** CPU time of CPU samples; own time of ranges if the trace has no samples; pprof: both */
    KINETO_EXPORT_WEIGHT_TIME = 0,
    KINETO_EXPORT_WEIGHT_CPU = 1,  /**< CPU samples only, by their CPU time */
    KINETO_EXPORT_WEIGHT_SAMPLES = 2, /**< CPU samples only, by their number */
    KINETO_EXPORT_WEIGHT_OFF_CPU = 3, /**< time in which threads were blocked, by its call stacks */
    KINETO_EXPORT_WEIGHT_WALL = 4     /**< ranges only, by their own time */
} kineto_export_weight;

/** All zero but the size is fine. */
typedef struct kineto_export_options {
    size_t size;        /**< sizeof(kineto_export_options) */
    const char *format; /**< name of a format, also "jsonl.gz"; NULL: as the path's ending says */
    const char *trace_name; /**< name of the trace in formats that have one; NULL: the path */
    /** Called from time to time by the writing thread; may be NULL. */
    void (*progress)(uint64_t activities_done, uint64_t activities, void *user);
    void *user;
    uint32_t roots;     /**< kineto_export_roots: folded, pprof */
    uint32_t weight_ns; /**< folded: ns in one unit of weight; 0 is 1 */
    /** chrome: activities that overlap without nesting get a thread id of their own, for viewers
     *  that drop them. False: every activity has the thread id that was recorded. */
    bool split_lanes;
    uint64_t weight; /**< kineto_export_weight: folded, flame, pprof */
} kineto_export_options;
KINETO_INIT_FUNCTION(kineto_export_options)

/** Data that the format cannot hold. Static storage. */
typedef struct kineto_export_omission {
    const char *what;   /**< "activities", "flows", "arguments" … */
    const char *reason; /**< a phrase */
    uint64_t count;     /**< never 0 */
} kineto_export_omission;

#define KINETO_EXPORT_MAX_OMISSIONS 16

/** Result of an export. Every activity of the trace is either written or omitted:
 *  the trace's count == activities + the sum of the omissions of "activities". */
typedef struct kineto_export_result {
    size_t size;             /**< sizeof(kineto_export_result): set by kineto_export_result_init */
    uint64_t activities;     /**< written */
    uint64_t bytes;          /**< before compression */
    uint64_t replaced_bytes; /**< number of invalid UTF-8 bytes replaced by U+FFFD */
    const char *format;      /**< its name */
    uint64_t slices, asyncs, instants, counters; /**< the activities by form */
    uint64_t flows;                              /**< written */
    uint64_t records;        /**< records of the format: events, lines, samples, rows */
    const char *record_noun; /**< the format's word for a record; NULL: it has none */
    uint32_t omission_count;
    kineto_export_omission omissions[KINETO_EXPORT_MAX_OMISSIONS];
} kineto_export_result;
KINETO_INIT_FUNCTION(kineto_export_result)

/** Write a trace. The file appears whole or not at all; same trace, path and options, same bytes.
 *  @param path     where to; "-" is the standard output, and needs options->format.
 *  @param options  may be NULL.
 *  @param result   may be NULL; filled on success.
 *  @return KINETO_E_UNSUPPORTED for an unknown format or ending; the message lists the known ones. Errors of writing:
 *          KINETO_E_IO, KINETO_E_PERMISSION, KINETO_E_NOT_FOUND, KINETO_E_MEMORY. threads: any. */
KINETO_API kineto_status kineto_trace_export(const kineto_trace *trace, const char *path,
                                       const kineto_export_options *options,
                                       kineto_export_result *result, kineto_error *err);

/** Write Kineto's Chrome JSON (schemaVersion 1); the ending of the path selects the compression only.
 *  @param result  may be NULL; filled on success.
 *  @return as kineto_trace_export. threads: any. */
KINETO_API kineto_status kineto_trace_export_chrome(const kineto_trace *trace, const char *path,
                                              kineto_export_result *result, kineto_error *err);

/* ---- facts (<ckineto/analyze.h>) ----------------------------------------------------------------- */

/** Write each table as DIRECTORY/NAME.csv, RFC 4180, a head line first: times in microseconds with
 *  three decimals, percentages 0 to 100, empty where a fact is not known. The directory is created if missing; each
 *  file appears whole or not at all.
 *  @return an error of writing: KINETO_E_IO, KINETO_E_PERMISSION, KINETO_E_NOT_FOUND, KINETO_E_MEMORY.
 *          threads: any. */
KINETO_API kineto_status kineto_analysis_save_csv(const kineto_analysis *analysis,
                                                  const char *directory, kineto_error *err);
/** Write all tables as one JSON object: {"tables": {NAME: {"title", "columns", "note", "rows"}}};
 *  rows are arrays in the order of the columns. @param path "-" is the standard output.
 *  @return as kineto_analysis_save_csv. threads: any. */
KINETO_API kineto_status kineto_analysis_save_json(const kineto_analysis *analysis, const char *path,
                                                   kineto_error *err);

/** Findings as JSON: docs/findings.schema.json describes it. @param path  "-": the standard output.
 *  @return an error of writing, as kineto_analysis_save_csv. threads: any. */
KINETO_API kineto_status kineto_findings_save_json(const kineto_findings *findings, const char *path,
                                                   kineto_error *err);

/** The overview as JSON: docs/overview.schema.json describes it. @param brief  at most 4096 bytes, with the line break:
 *  three rows of each table and three findings, or as many as have room; names cut. @param path  "-": the standard output.
 *  @return an error of writing, as kineto_analysis_save_csv. threads: owner of the overview. */
KINETO_API kineto_status kineto_overview_save_json(kineto_overview *overview, bool brief, const char *path,
                                                   kineto_error *err);

typedef struct kineto_report_options {
    size_t size;                     /**< sizeof(kineto_report_options): set by kineto_report_options_init */
    const char *title;               /**< NULL: "ckineto report" */
    const kineto_analysis *facts;    /**< of all ranks; NULL: no tables */
    const kineto_findings *findings; /**< NULL: none */
    const kineto_analysis *diff;     /**< comparison with another trace; NULL: none */
    uint64_t row_limit;              /**< maximum number of rows of each table; 0: 5000 */
    uint64_t activity_limit;         /**< no timeline for traces with more; 0: 2 000 000 */
    /** Called from time to time by the writing thread; may be NULL. */
    void (*progress)(uint64_t activities_done, uint64_t activities, void *user);
    void *user;
    const char *step_pattern; /**< as in kineto_analysis_options */
    kineto_overview *overview; /**< headline and key numbers, of all ranks; NULL: none */
} kineto_report_options;
KINETO_INIT_FUNCTION(kineto_report_options)

/** Write a trace, its facts and findings as one self-contained HTML page (docs/reference/report.md).
 *  @param trace    for the timeline and the summary.
 *  @param options  may be NULL.
 *  @param path     "-": the standard output.
 *  @return KINETO_E_MEMORY, or an error of writing. threads: any. */
KINETO_API kineto_status kineto_report_save(const kineto_trace *trace,
                                            const kineto_report_options *options, const char *path,
                                            kineto_error *err);

#ifdef __cplusplus
}
#endif

#define CKINETO_EXPORT_DECLARED
#include <ckineto/deprecated.h>
#endif
