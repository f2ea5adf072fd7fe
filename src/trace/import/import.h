/* Recordings of other tools as traces: perf.data files, the text of `perf script`, uftrace's dump. The
 * result has the rows that ckineto's own sources make: sampled functions, states of threads, ranges.
 *
 * import.c recognises the format by the beginning of the file (read/open.c asks it for files that are
 * no JSON); each format has one file with one function. Files are untrusted. */
#ifndef KT_IMPORT_H
#define KT_IMPORT_H

#include "trace/trace.h"

typedef struct kt_importer {
    const char *name; /* of the format, for messages */
    bool (*recognise)(kineto_string head);
    kineto_status (*read)(kineto_string bytes, kineto_trace **out, kineto_error *err);
} kt_importer;

/* Bytes of the beginning that are enough to recognise every format. */
#define KT_IMPORT_HEAD_BYTES ((size_t)64 << 10)

/** The importer for a file that begins with `head`; NULL: none. */
const kt_importer *kt_importer_find(kineto_string head);

/* ---- perf_data.c ---- */
bool kt_is_perf_data(kineto_string head);
kineto_status kt_import_perf_data(kineto_string bytes, kineto_trace **out, kineto_error *err);

/* ---- perf_script.c ---- */
bool kt_is_perf_script(kineto_string head);
kineto_status kt_import_perf_script(kineto_string bytes, kineto_trace **out, kineto_error *err);

/* ---- uftrace.c ---- */
bool kt_is_uftrace_dump(kineto_string head);
kineto_status kt_import_uftrace_dump(kineto_string bytes, kineto_trace **out, kineto_error *err);
#endif
