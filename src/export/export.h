/* The export room: writers of formats into sinks, and the helpers that they share. formats.c
 * selects the writer; writers report in the job's result how much they wrote and which parts of the
 * trace the format cannot hold. */
#ifndef KE_EXPORT_H
#define KE_EXPORT_H

#include "analyze/overview/coverage.h"
#include "base/base.h"
#include "trace/trace.h"
#include <ckineto/export.h>

/* ---- formats.c: the table of formats --------------------------------------------------------- */

/* Counts of a trace, for the account of an export. */
typedef struct ke_census {
    uint64_t activities, forms[4]; /* forms: activities by kineto_form */
    uint64_t with_args;            /* activities */
    uint64_t flows;                /* with both ends */
    uint64_t half_flows;           /* one end was not recorded */
    /* Of the window or the first activity, whichever is earlier. */
    int64_t start_ns;
    /* Of the window or the last activity, whichever is later. */
    int64_t end_ns;
} ke_census;

/* One export of one trace. */
typedef struct ke_job {
    const kineto_trace *trace;
    /* The caller's, not closed by writers; NULL if the format needs a path. */
    kb_sink *sink;
    const char *path, *trace_name;
    const kineto_export_options *options; /* of full size, never NULL */
    kineto_export_result *result;         /* of full size */
    ke_census census;
} ke_job;

/** Checks that the path selects a format: by its ending, or Chrome JSON for a device or FIFO.
 *  @return KINETO_E_UNSUPPORTED, listing the known endings. */
kineto_status ke_check_path(const char *path, kineto_error *err);
/** The same for a path with the format `name`. */
kineto_status ke_check_format(const char *path, const char *name, kineto_error *err);
/** The format by a name's ending, Chrome JSON if it has none. Does not access the file. */
const char *ke_format_by_ending(const char *name, kb_compression *compression, bool *needs_file);
/** kineto_trace_export into a sink, which stays open; format and trace_name in the options. */
kineto_status ke_export_to_sink(const kineto_trace *trace, kb_sink *sink,
                                const kineto_export_options *options, kineto_export_result *result,
                                kineto_error *err);

/* ---- job.c: the account ---------------------------------------------------------------------- */
/** Counts the activities and flows of a trace. */
void ke_census_count(const kineto_trace *trace, ke_census *out);
/** Records what the format cannot hold, unless count is 0. The texts must be static. */
void ke_omit(kineto_export_result *result, const char *what, const char *reason, uint64_t count);
/** Sets the result for a writer that writes all activities and flows. */
void ke_result_count_all(const ke_job *job);
/** Copies the result to the caller, whose structure may be of an older version. */
void ke_result_copy_out(const kineto_export_result *all, kineto_export_result *to);
/** Calls the progress callback, if there is one. */
void ke_progress(const ke_job *job, uint64_t done);
kineto_status ke_fail_memory(const ke_job *job, kineto_error *err);

/* ---- labels.c: names for rows that may have none, units -------------------------------------- */
typedef struct ke_label {
    char text[256]; /* cut to this size; not necessarily UTF-8, no NUL */
    size_t size;
} ke_label;
ke_label ke_process_label(const kineto_trace *trace, uint32_t process);
ke_label ke_track_label(const kineto_trace *trace, uint32_t track);
const char *ke_track_type_name(uint32_t type);
const char *ke_form_name(uint32_t form);
const char *ke_flow_type_name(uint32_t type);
/** Splits "path/file.py(12): function". False: the name has another form. */
bool ke_parse_python_name(kineto_string name, kineto_string *file, uint32_t *line,
                          kineto_string *function);

/** "power [W]" is series "power" in "W"; unit is empty if there is none. Both are parts of the key.
 */
void ke_split_unit(kineto_string key, kineto_string *series, kineto_string *unit);

/* ---- trace_csv.c ----------------------------------------------------------------------------------- */
/** Writes a field of CSV, quoted if necessary. */
void ke_csv_text(kb_sink *sink, kineto_string s);

/* ---- args_json.c: arguments as JSON text ----------------------------------------------------- */
typedef KB_VEC(char) ke_text;
/** The arguments of a row as one JSON object on one line; `out` is cleared first, and stays empty
 *  if there are none. A repeated key becomes "key (2)". Invalid UTF-8 becomes U+FFFD and is
 *  counted. @return false: out of memory. */
bool ke_args_json(const kineto_trace *trace, kineto_row row, ke_text *out, uint64_t *replaced);
/** Write the members of an object that the caller has opened. */
void ke_put_snapshot(kb_json *j, const kineto_clock_snapshot *snapshot);
/** The value of a cell; null without one. */
void ke_put_fact(kb_json *j, const kineto_fact *f);
/** The overview as JSON, with all of its rows. */
void ke_put_overview(kb_json *j, kineto_overview *o);
/** The brief form: at most 4095 bytes. @param trace  the name of the trace in the commands of "next". */
kineto_status ke_put_brief_overview(kb_sink *sink, kineto_overview *o, const char *trace, kineto_error *err);
/** One of them and a line break to a file ("-": the standard output). */
kineto_status ke_save_overview(kineto_overview *o, bool brief, const char *trace, const char *path,
                               kineto_error *err);
/** Rows in the order in which a part of a table is shown: of several ranks the heaviest of all first. To be freed;
 *  NULL: in the order of the table. */
uint64_t *ke_shown_order(const kineto_analysis *a, uint32_t table);
/** Write tables (tables_csv_json.c; at most row_limit rows of each, 0: all) or findings (findings_json.c) as a
 *  JSON object. */
/** @param coverage  of the ranks; NULL: not known. */
void ke_put_analysis(kb_json *j, const kineto_analysis *a, uint64_t row_limit, const ka_coverage *coverage);
void ke_put_findings(kb_json *j, const kineto_findings *findings, const ka_coverage *coverage);
/** The member "coverage"; nothing for a single file of one rank. */
void ke_put_coverage(kb_json *j, const ka_coverage *coverage);
/** The descriptors of all tables (tables.def), as JSON; "-" is the standard output (tables_csv_json.c). */
kineto_status ke_save_table_list(const char *path, kineto_error *err);
/** The same of the rules of findings (findings_json.c). */
kineto_status ke_save_rule_list(const char *path, kineto_error *err);
void ke_put_ledger_line(kb_json *j, const kineto_ledger_line *line); /* without the detail */
void ke_put_ledger(kb_json *j, const kineto_trace *trace); /* the member "ledger", with details */
/** The next piece of JSON text without white space between its tokens; empty at the end. */
kineto_string ke_compact_next(kineto_string *json);
/** Appends JSON text without white space between tokens, and with invalid UTF-8 replaced. */
bool ke_text_compact(ke_text *out, kineto_string json, uint64_t *replaced);

/* ---- job.c: a walk over all rows ------------------------------------------------------------- */

/* A walk over all rows, for writers with one record per activity (CSV, JSON lines): it loads each
 * row with its args, and keeps the text of each track, which is formatted once. */
/* A track and its process, as a writer needs them for every row. */
typedef struct ke_place_view {
    kineto_track track;
    kineto_process process;
    /* Instead of pid and id; data NULL: none. */
    kineto_string process_text, track_text;
    /* Formatted by the writer; freed with the walk. */
    kineto_string text;
} ke_place_view;

typedef struct ke_rows {
    const ke_job *job;
    ke_place_view *places; /* by track */
    uint32_t place_count;
    ke_text args;
    uint64_t replaced; /* invalid UTF-8 in arguments */

    /* the current row */
    kineto_activity activity;
    const ke_place_view *place;
} ke_rows;

/** Starts a walk. False: out of memory; call ke_rows_end in any case. */
bool ke_rows_begin(ke_rows *rows, const ke_job *job);
/** Loads a row and its args. False: out of memory. */
bool ke_rows_load(ke_rows *rows, kineto_row row);
void ke_rows_end(ke_rows *rows);

/* Words for the flags of an activity: bit i of the flags is word i. */
extern const char *const ke_flag_names[4];

/* ---- writers --------------------------------------------------------------------------------- */
kineto_status ke_csv_write(ke_job *job, kineto_error *err);
kineto_status ke_jsonl_write(ke_job *job, kineto_error *err);
kineto_status ke_folded_write(ke_job *job, kineto_error *err);
kineto_status ke_flame_write(ke_job *job, kineto_error *err);
kineto_status ke_pprof_write(ke_job *job, kineto_error *err);
kineto_status ke_speedscope_write(ke_job *job, kineto_error *err);
kineto_status ke_chrome_write_job(ke_job *job, kineto_error *err);

/** Chrome JSON into any sink (which stays open). `trace_name` becomes "traceName". */
kineto_status ke_chrome_write(const kineto_trace *trace, kb_sink *sink, const char *trace_name,
                              kineto_export_result *result, kineto_error *err);

/** A database of SQLite with the tables of export/sql.h. The file appears
 *  complete or not at all. @return KINETO_E_UNSUPPORTED if this was built without SQLite, or for a
 *  pipe or device; else errors of writing. `replaced_bytes` is 0: names keep their bytes. */
kineto_status ke_sqlite_write_path(const kineto_trace *trace, const char *path,
                                   kineto_export_result *result, kineto_error *err);

/** Perfetto's trace format (protocol buffers; ".pftrace", ".perfetto-trace") into any sink,
 *  which stays open. `trace_name` may be NULL. Texts become UTF-8: other bytes are replaced and
 *  counted. */
kineto_status ke_perfetto_write(const kineto_trace *trace, kb_sink *sink, const char *trace_name,
                                kineto_export_result *result, kineto_error *err);
#endif
