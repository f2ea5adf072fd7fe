/** @file
 *  A trace as tables in memory, for consumers of Arrow's C stream: pyarrow, polars, DuckDB, pandas.
 *
 *  The structs are those of Arrow's C data interface and C stream interface; they are ABI, and the
 *  guards let them be defined by any header that needs them.
 */
#ifndef CKINETO_ARROW_H
#define CKINETO_ARROW_H

#include <ckineto/trace.h>

#ifdef __cplusplus
extern "C" {
#endif

#ifndef ARROW_C_DATA_INTERFACE
#define ARROW_C_DATA_INTERFACE

#define ARROW_FLAG_DICTIONARY_ORDERED 1
#define ARROW_FLAG_NULLABLE           2
#define ARROW_FLAG_MAP_KEYS_SORTED    4

struct ArrowSchema {
    const char *format;
    const char *name;
    const char *metadata;
    int64_t flags;
    int64_t n_children;
    struct ArrowSchema **children;
    struct ArrowSchema *dictionary;
    void (*release)(struct ArrowSchema *);
    void *private_data;
};

struct ArrowArray {
    int64_t length;
    int64_t null_count;
    int64_t offset;
    int64_t n_buffers;
    int64_t n_children;
    const void **buffers;
    struct ArrowArray **children;
    struct ArrowArray *dictionary;
    void (*release)(struct ArrowArray *);
    void *private_data;
};
#endif

#ifndef ARROW_C_STREAM_INTERFACE
#define ARROW_C_STREAM_INTERFACE

struct ArrowArrayStream {
    int (*get_schema)(struct ArrowArrayStream *, struct ArrowSchema *out);
    int (*get_next)(struct ArrowArrayStream *, struct ArrowArray *out);
    const char *(*get_last_error)(struct ArrowArrayStream *);
    void (*release)(struct ArrowArrayStream *);
    void *private_data;
};
#endif

/** A table of a trace as a stream of record batches.
 *
 *    - "activities": row, start_ns, dur_ns, name, category, kind, form, track, process,
 *      correlation, external_id, async_id, flags, args (a JSON object; null: none)
 *    - "events": the same without args, which cost most
 *    - "counters": row, track, process, time_ns, name, series, unit, value: one row for each number
 *    - "tracks": track, process, type, id, name, label, sort_index, count, lanes
 *    - "processes": process, is_device, pid, ppid, name, label, sort_index, rank, host, properties
 *    - "flows": flow, type, id, from_row, to_row (null: that end was not recorded)
 *    - "ledger": source, reason, count, is_loss, detail
 *    - "metadata": key, value (JSON)
 *
 *  Times are int64 nanoseconds since the Unix epoch; row, track, process are the numbers of
 *  trace.h; an id of 0 is none; flags are KINETO_ACTIVITY_…. name, category, kind and form are
 *  dictionary-encoded. A duration that does not fit is INT64_MAX. Text is UTF-8; invalid bytes become U+FFFD. A batch
 *  of "activities" and "events" is a block of the trace; start_ns, name, category, kind, form, track, correlation and
 *  external_id are not copied.
 *
 *  @param trace  need not outlive the call: the stream and every batch retain it.
 *  @param out    receives a stream; call its release. Each batch, and each array moved out of it, has its own release
 *                and may outlive the stream. Zeroed on failure.
 *  @return KINETO_OK, KINETO_E_ARGUMENT for an unknown table (the message lists the tables), KINETO_E_MEMORY. The
 *          functions of the stream return 0 or an errno, with a sentence from get_last_error. threads: any; the stream:
 *          owner; its batches: any, one at a time. */
KINETO_API kineto_status kineto_trace_arrow_stream(const kineto_trace *trace, const char *table,
                                                   struct ArrowArrayStream *out, kineto_error *err);

#ifdef __cplusplus
}
#endif
#endif
