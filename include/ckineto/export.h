/** @file
 *  Writers: a trace in other people's formats.
 *
 *  The formats stand in one table, which kineto_export_format_at lists: Chrome JSON is the one that
 *  holds all of a trace; what another one cannot hold is in the result, with its count and reason.
 */
#ifndef CKINETO_EXPORT_H
#define CKINETO_EXPORT_H

#include <ckineto/analyze.h>
#include <ckineto/findings.h>
#include <ckineto/trace.h>

#ifdef __cplusplus
extern "C" {
#endif

/** One format. Static storage. */
typedef struct kineto_export_format {
    size_t size;                /**< sizeof(kineto_export_format), set by the caller */
    const char *name;           /**< "chrome", "jsonl" … */
    const char *const *endings; /**< of file names, with the dot; ends with NULL */
    const char *about;          /**< half a sentence */
    bool compressible;          /**< ".gz" and ".zst" may follow the endings */
    bool needs_file;            /**< cannot be written to a pipe */
} kineto_export_format;

/** The format at an index of the table; false past its end, and for a struct without its size.
 *  threads: any. */
KINETO_API bool kineto_export_format_at(uint32_t index, kineto_export_format *out);

/** What stacks begin with, in formats that add up equal ones. */
typedef enum kineto_export_roots {
    KINETO_EXPORT_BY_TRACK = 0, /**< process or device, then thread or stream */
    KINETO_EXPORT_BY_KIND = 1,  /**< kind of the outermost activity; tracks are merged */
    KINETO_EXPORT_MERGED = 2    /**< nothing: the outermost activity */
} kineto_export_roots;

/** All zero but the size is fine. */
typedef struct kineto_export_options {
    size_t size;        /**< sizeof(kineto_export_options) */
    const char *format; /**< name of a format, also "jsonl.gz"; NULL: as the path's ending says */
    const char *trace_name; /**< what the file calls the trace where it can; NULL: the path */
    /** Called now and then by the thread that writes; may be NULL. */
    void (*progress)(uint64_t activities_done, uint64_t activities, void *user);
    void *user;
    uint32_t roots;     /**< kineto_export_roots: folded, pprof */
    uint32_t weight_ns; /**< folded: ns in one unit of weight; 0 is 1 */
    /** chrome: activities that overlap without nesting get a thread id of their own, for viewers
     *  that drop them. False: every activity has the thread id that was recorded. */
    bool split_lanes;
} kineto_export_options;

/** Something that the format cannot hold. Static storage. */
typedef struct kineto_export_omission {
    const char *what;   /**< "activities", "flows", "arguments" … */
    const char *reason; /**< half a sentence */
    uint64_t count;     /**< never 0 */
} kineto_export_omission;

#define KINETO_EXPORT_MAX_OMISSIONS 16

/** What a writer did. Every activity of the trace is either written or omitted:
 *  the trace's count == activities + the sum of the omissions of "activities". */
typedef struct kineto_export_result {
    size_t size;             /**< sizeof(kineto_export_result), set by the caller */
    uint64_t activities;     /**< written */
    uint64_t bytes;          /**< before compression */
    uint64_t replaced_bytes; /**< how often invalid UTF-8 became U+FFFD */
    const char *format;      /**< its name */
    uint64_t slices, asyncs, instants, counters; /**< the activities by form */
    uint64_t flows;                              /**< written */
    uint64_t records;        /**< what the activities became: events, lines, samples, rows */
    const char *record_noun; /**< the word for them; NULL: records says nothing */
    uint32_t omission_count;
    kineto_export_omission omissions[KINETO_EXPORT_MAX_OMISSIONS];
} kineto_export_result;

/** Write a trace. The file appears whole or not at all; same trace, path and options, same bytes.
 *  @param path     where to; "-" is the standard output, and needs options->format.
 *  @param options  may be NULL.
 *  @param result   may be NULL; filled on success.
 *  @return KINETO_E_UNSUPPORTED for a format or an ending that nobody knows, naming those that
 *          are known, or what writing the file met: KINETO_E_IO, KINETO_E_PERMISSION,
 *          KINETO_E_NOT_FOUND, KINETO_E_MEMORY. threads: any. */
KINETO_API kineto_status kineto_export(const kineto_trace *trace, const char *path,
                                       const kineto_export_options *options,
                                       kineto_export_result *result, kineto_error *err);

/** Write Kineto's Chrome JSON (schemaVersion 1), whatever the path ends in, but for compression.
 *  @param result  may be NULL; filled on success.
 *  @return as kineto_export. threads: any. */
KINETO_API kineto_status kineto_export_chrome(const kineto_trace *trace, const char *path,
                                              kineto_export_result *result, kineto_error *err);

/* ---- facts (<ckineto/analyze.h>) ----------------------------------------------------------------- */

/** Write each table as DIRECTORY/NAME.csv, RFC 4180, a head line first: times in microseconds with
 *  three digits behind the point, percentages 0 to 100, empty where a fact is not known. The
 *  directory is made if it is not there; each file appears whole or not at all.
 *  @return what writing met: KINETO_E_IO, KINETO_E_PERMISSION, KINETO_E_NOT_FOUND, KINETO_E_MEMORY.
 *          threads: any. */
KINETO_API kineto_status kineto_analysis_save_csv(const kineto_analysis *analysis,
                                                  const char *directory, kineto_error *err);
/** Write all tables as one JSON object: {"tables": {NAME: {"title", "columns", "note", "rows"}}};
 *  rows are arrays in the order of the columns. @param path "-" is the standard output.
 *  @return as kineto_analysis_save_csv. threads: any. */
KINETO_API kineto_status kineto_analysis_save_json(const kineto_analysis *analysis, const char *path,
                                                   kineto_error *err);

/** Findings as JSON: docs/findings.schema.json describes it. @param path  "-": the standard output.
 *  @return what writing met. threads: any. */
KINETO_API kineto_status kineto_findings_save_json(const kineto_findings *findings, const char *path,
                                                   kineto_error *err);

typedef struct kineto_report_options {
    size_t size;                     /**< sizeof(kineto_report_options), set by the caller */
    const char *title;               /**< NULL: "ckineto report" */
    const kineto_analysis *facts;    /**< of all ranks; NULL: no tables */
    const kineto_findings *findings; /**< NULL: none */
    const kineto_analysis *diff;     /**< what changed since another trace; NULL */
    uint64_t row_limit;              /**< rows of each table, the first ones; 0: 5000 */
    uint64_t activity_limit;         /**< without a timeline if there are more; 0: 2 000 000 */
    /** Called now and then by the thread that writes; may be NULL. */
    void (*progress)(uint64_t activities_done, uint64_t activities, void *user);
    void *user;
    const char *step_pattern; /**< as in kineto_analyze_options */
} kineto_report_options;

/** Write a trace and what was found in it as one HTML page that needs nothing else (docs/reference/report.md).
 *  @param trace  for the timeline and the account of what it has.
 *  @param path   "-": the standard output.
 *  @return KINETO_E_MEMORY, or what writing met. threads: any. */
KINETO_API kineto_status kineto_report_save(const kineto_trace *trace,
                                            const kineto_report_options *options, const char *path,
                                            kineto_error *err);

#ifdef __cplusplus
}
#endif
#endif
