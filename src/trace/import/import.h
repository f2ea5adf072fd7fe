/* Recordings of other tools as traces: files and directories of perf record, the text of `perf script`,
 * directories of uftrace and the text of its dump. The result has the rows that ckineto's own sources
 * make: sampled functions, states of threads, ranges.
 *
 * import.c recognises the format by the beginning of the file, or of a file in the directory (read/open.c
 * asks it for everything that is no JSON); each format has one file with one function. Files are
 * untrusted. */
#ifndef KT_IMPORT_H
#define KT_IMPORT_H

#include "trace/trace.h"

/* The file that a reader gets. */
typedef struct kt_import_source {
    kineto_string bytes; /* all of it, decompressed; empty for a reader with `streams` */
    const char *path;    /* as the user named it, "-": stdin; NULL: none */
    struct kt_input *input; /* of `bytes` (bytes/input.h): for a reader with `streams`, which waits for text
                               with kt_input_wait and gives it back with kt_input_mark_passed; NULL: none */
    struct kt_store *store; /* the memory limit of the trace (model/store.h); NULL: none */
} kt_import_source;

typedef struct kt_importer {
    const char *name; /* of the format, for messages */
    bool is_json;     /* begins with { or [: only such files are offered to it, no others */
    bool streams;     /* reads source->input */
    bool (*recognise)(kineto_string head);
    kineto_status (*read)(const kt_import_source *source, kineto_trace **out, kineto_error *err);
} kt_importer;

/* Bytes of the beginning that are enough to recognise every format. */
#define KT_IMPORT_HEAD_BYTES ((size_t)64 << 10)

/** The importer for a file that begins with `head`; NULL: none. */
const kt_importer *kt_importer_find(kineto_string head);

typedef struct kt_directory_importer {
    const char *file, *begin; /* a file of such a directory, and its first bytes */
    kineto_status (*read)(const char *path, kineto_trace **out, kineto_error *err);
} kt_directory_importer;

/** The importer for a directory; NULL: it is none, or of no format that is read. */
const kt_directory_importer *kt_directory_importer_find(const char *path);

/* ---- flight_recorder.c ---- */
/** A dump of PyTorch's flight recorder, pickled or as JSON. */
bool kt_is_flight_recorder_pickle(kineto_string head);
bool kt_is_flight_recorder_json(kineto_string head);
kineto_status kt_import_flight_recorder(const kt_import_source *source, kineto_trace **out, kineto_error *err);
/** Was this trace made of such a dump? */
bool kt_is_of_flight_recorder(const kineto_trace *trace);

/* ---- database.c, or database_absent.c in a build without SQLite ---- */
/** An export of Nsight Systems, or a database of rocprofv3. */
bool kt_is_database(kineto_string head);
kineto_status kt_import_database(const kt_import_source *source, kineto_trace **out, kineto_error *err);

/* ---- perf_data.c ---- */
bool kt_is_perf_data(kineto_string head);
kineto_status kt_import_perf_data(const kt_import_source *source, kineto_trace **out, kineto_error *err);
kineto_status kt_import_perf_directory(const char *path, kineto_trace **out, kineto_error *err);

/* ---- perfetto.c ---- */
/** A trace of Perfetto, by the fields of its first packet: the format has no magic number. Profiles of XLA begin with the
 *  same byte and are asked for first. */
bool kt_is_perfetto(kineto_string head);
/** Packets that are damaged are left out and counted; only memory can make it fail. */
kineto_status kt_import_perfetto(const kt_import_source *source, kineto_trace **out, kineto_error *err);

/* ---- xplane.c ---- */
/** A profile of XLA, by the name of its first plane. */
bool kt_is_xplane(kineto_string head);
/** Messages that are damaged are left out and counted; only memory can make it fail. */
kineto_status kt_import_xplane(const kt_import_source *source, kineto_trace **out, kineto_error *err);

/* ---- nccl_inspector.c ---- */
/** A log of NCCL's inspector, by the keys of its first record. */
bool kt_is_nccl_inspector(kineto_string head);
/** Lines that are no record are left out and counted; only memory can make it fail. */
kineto_status kt_import_nccl_inspector(const kt_import_source *source, kineto_trace **out, kineto_error *err);

/* ---- perf_script.c ---- */
bool kt_is_perf_script(kineto_string head);
kineto_status kt_import_perf_script(const kt_import_source *source, kineto_trace **out, kineto_error *err);

/* ---- rocprof_json.c ---- */
bool kt_is_rocprof_json(kineto_string head);
kineto_status kt_import_rocprof_json(const kt_import_source *source, kineto_trace **out, kineto_error *err);

/* ---- uftrace_dump.c ---- */
bool kt_is_uftrace_dump(kineto_string head);
kineto_status kt_import_uftrace_dump(const kt_import_source *source, kineto_trace **out, kineto_error *err);

/* ---- uftrace_directory.c ---- */
kineto_status kt_import_uftrace_directory(const char *path, kineto_trace **out, kineto_error *err);
#endif
