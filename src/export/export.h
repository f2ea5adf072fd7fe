/* The export room for the command line: writers into sinks, and what writers share. */
#ifndef KE_EXPORT_H
#define KE_EXPORT_H

#include "base/base.h"
#include "trace/trace.h"
#include <ckineto/export.h>

/* ---- formats.c: the table of formats ------------------------------------------------------------ */

/* What a trace has, for the account of what was written. */
typedef struct ke_census {
    uint64_t activities, forms[4]; /* by kineto_form */
    uint64_t with_args;            /* activities */
    uint64_t flows;                /* whole ones */
    uint64_t half_flows;           /* one end was not recorded */
    int64_t start_ns;              /* of the window or the first activity, what is earlier */
    int64_t end_ns;                /* of the window or the last activity, what is later */
} ke_census;

/* One writing of one trace. */
typedef struct ke_job {
    const kineto_trace *trace;
    kb_sink *sink; /* stays open; NULL for a format that needs a file */
    const char *path, *trace_name;
    const kineto_export_options *options; /* of full size, never NULL */
    kineto_export_result *result;         /* of full size */
    ke_census census;
} ke_job;

/** Does the name of this file (or its being a device or FIFO: Chrome JSON then) say how to write
 *  it? @return KINETO_E_UNSUPPORTED, naming the endings that do. */
kineto_status ke_check_path(const char *path, kineto_error *err);
/** The same for a file whose format was named. */
kineto_status ke_check_format(const char *path, const char *name, kineto_error *err);
/** The format that a name's ending says, Chrome JSON if it says none. Nothing is looked at. */
const char *ke_format_of_ending(const char *name, kb_compression *compression, bool *needs_file);
/** kineto_export into a sink, which stays open; format and trace_name in the options. */
kineto_status ke_export_to_sink(const kineto_trace *trace, kb_sink *sink,
                                const kineto_export_options *options, kineto_export_result *result,
                                kineto_error *err);

/* ---- result.c: the account ----------------------------------------------------------------------- */
void ke_census_take(const kineto_trace *trace, ke_census *out);
/** Note what cannot be held; nothing if count is 0. The texts are static. */
void ke_omit(kineto_export_result *result, const char *what, const char *reason, uint64_t count);
/** All activities and flows are written. */
void ke_result_all(const ke_job *job);
/** Copy to a caller who may know a shorter struct. */
void ke_result_give(const kineto_export_result *all, kineto_export_result *to);
void ke_progress(const ke_job *job, uint64_t done);
kineto_status ke_no_memory(const ke_job *job, kineto_error *err);

/* ---- labels.c: names for rows that may have none ---------------------------------------------------- */
typedef struct ke_label {
    char text[256]; /* cut; raw bytes */
    size_t size;
} ke_label;
ke_label ke_process_label(const kineto_trace *trace, uint32_t process);
ke_label ke_track_label(const kineto_trace *trace, uint32_t track);
const char *ke_track_type_name(uint32_t type);
const char *ke_form_name(uint32_t form);
const char *ke_flow_type_name(uint32_t type);
/** "path/file.py(12): function" of a Python function; false if a name looks otherwise. */
bool ke_python_place(kineto_string name, kineto_string *file, uint32_t *line,
                     kineto_string *function);

/* ---- units.c ------------------------------------------------------------------------------------ */
/** "power [W]" is series "power" in "W"; unit is empty if there is none. Both are parts of the key.
 */
void ke_split_unit(kineto_string key, kineto_string *series, kineto_string *unit);

/* ---- csv.c -------------------------------------------------------------------------------------- */
/** A field of CSV, in quotes where it must be. */
void ke_csv_text(kb_sink *sink, kineto_string s);

/* ---- args_json.c: arguments as JSON text -------------------------------------------------------------- */
typedef KB_VEC(char) ke_text;
/** The arguments of a row as one JSON object on one line; out is emptied first, and stays empty if
 *  there are none. Keys that come twice become "key (2)". Invalid UTF-8 becomes U+FFFD and is
 *  counted. @return false: out of memory. */
bool ke_args_json(const kineto_trace *trace, kineto_row row, ke_text *out, uint64_t *replaced);
/** Members of the objects that stand for these; the object itself is the caller's. */
void ke_put_snapshot(kb_json *j, const kineto_clock_snapshot *snapshot);
/** Facts, of each table at most so many rows (0: all), and findings, as one JSON object (facts.c,
 *  findings.c). */
void ke_put_analysis(kb_json *j, const kineto_analysis *a, uint64_t row_limit);
void ke_put_findings(kb_json *j, const kineto_findings *findings);
/** The descriptors of all tables (tables.def), as JSON; "-" is the standard output (facts.c). */
kineto_status ke_save_table_list(const char *path, kineto_error *err);
/** The same of the rules of findings (findings.c). */
kineto_status ke_save_rule_list(const char *path, kineto_error *err);
void ke_put_ledger_line(kb_json *j, const kineto_ledger_line *line); /* without the detail */
void ke_put_ledger(kb_json *j, const kineto_trace *trace); /* the member "ledger", with details */
/** The next piece of JSON text without white space between its tokens; empty at the end. */
kineto_string ke_compact_next(kineto_string *json);
/** Append JSON text that way, made valid UTF-8. */
bool ke_text_compact(ke_text *out, kineto_string json, uint64_t *replaced);

/* ---- writers ---------------------------------------------------------------------------------------- */
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

/** A database of SQLite with the tables of export/sql.h. `path` is a file: it appears whole or not
 * at all. @return KINETO_E_UNSUPPORTED where SQLite was not there when this was built, or for a
 * pipe or device; else what writing met. `replaced_bytes` is 0: names stay the bytes they are. */
kineto_status ke_sqlite_write_path(const kineto_trace *trace, const char *path,
                                   kineto_export_result *result, kineto_error *err);

/** Perfetto's trace format (protocol buffers; ".pftrace", ".perfetto-trace") into any sink, which
 * stays open. `trace_name` may be NULL. Text there is UTF-8: what is not is replaced and counted.
 */
kineto_status ke_perfetto_write(const kineto_trace *trace, kb_sink *sink, const char *trace_name,
                                kineto_export_result *result, kineto_error *err);
#endif
