/* Activities of a recording of another tool as rows of a trace: the same processes, threads, devices,
 * streams, launches and arguments as those of Kineto's JSON, so that every analysis works on them.
 *
 * A reader calls kt_import_begin, appends rows through `b` (trace.h: kt_args_put_…, kt_append) on tracks
 * from kt_import_thread and kt_import_stream, states with kt_import_lost what it does not keep, and calls
 * kt_import_finish, which links launches with the work of devices by their correlation ids. Memory errors
 * stick in the builder and are reported by kt_import_finish. kt_import_free is called in any case. */
#ifndef KT_ACTIVITIES_H
#define KT_ACTIVITIES_H

#include "trace/import/import.h"
#include "trace/model/model.h"

typedef struct kt_import {
    kt_builder *b;
    const char *tool; /* the source of its lines in the ledger */
    bool has_flows;   /* launches are linked already */
    kb_map scopes;    /* scope → its number */
    kb_map streams;   /* hash of device and stream → pid + 1 of the process that had it first */
    uint32_t cuda_runtime, cuda_driver; /* categories of calls as Kineto spells them, also of HIP */
} kt_import;

/** @param tool  static storage: "nsys", "rocpd" */
kineto_status kt_import_begin(kt_import *m, const kt_import_source *source, const char *tool,
                              kineto_error *err);
void kt_import_free(kt_import *m);

/** Track of a thread; processes and threads are created on first use. Empty names change nothing. */
uint32_t kt_import_thread(kt_import *m, int64_t pid, int64_t tid);
void kt_import_name_process(kt_import *m, int64_t pid, kineto_string name);
void kt_import_name_thread(kt_import *m, int64_t pid, int64_t tid, kineto_string name);

/** Track of a stream (queue) of a device. */
uint32_t kt_import_stream(kt_import *m, int64_t device, int64_t stream);
/** The same where several processes number their streams: of a stream that another process has too, the number
 *  is a new one. */
uint32_t kt_import_stream_of(kt_import *m, int64_t pid, int64_t device, int64_t stream);
/** Track of the counters of a device; they have no stream. */
uint32_t kt_import_device_counters(kt_import *m, int64_t device);
/** Name and properties of a device, the latter a JSON object as in "deviceProperties"; either may be empty. */
void kt_import_describe_device(kt_import *m, int64_t device, kineto_string name, kineto_string properties);

/** An id that is unique in the trace, of one that is unique in its scope (a process); that of the first
 *  scope stays as it is. 0 stays 0. */
uint64_t kt_import_id(kt_import *m, uint64_t scope, uint64_t id);

/** Events that are not kept, with a reason such as "table not read: OSRT_API"; 0 adds nothing. */
void kt_import_lost(kt_import *m, const char *reason, uint64_t count, kineto_string detail);
/** The same for what is not an event, or was changed but kept. */
void kt_import_note(kt_import *m, const char *reason, uint64_t count, kineto_string detail);
/** A text for the header. */
void kt_import_header(kt_import *m, const char *key, kineto_string text);

/** Links launches and work, and seals the trace. */
kineto_status kt_import_finish(kt_import *m, kineto_trace **out, kineto_error *err);
#endif
