/** @file
 *  The trace: one immutable model for everything recorded or read.
 *
 *  A trace is a table of *activities* (rows) on *tracks* (threads, streams, counters), plus
 *  processes and devices, flows, header metadata, clock snapshots and the ledger. Names are raw
 *  bytes. Times are int64 nanoseconds since the Unix epoch.
 *
 *  A trace is immutable once made: share it freely between threads; every function that takes a
 *  const trace is `any`. Derived columns (order, parent, self time, lanes, links) are built on first
 *  use, once. Views (kineto_string, kineto_args…) borrow from the trace.
 *
 *  A row, track, index or id out of range gives an all-zero view (KINETO_NO_ROW for rows); so does
 *  lack of memory for a derived column. An iterator belongs to one thread at a time.
 */
#ifndef CKINETO_TRACE_H
#define CKINETO_TRACE_H

#include <ckineto/base.h>
#include <ckineto/record.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct kineto_trace kineto_trace;

/** One more owner; returns its argument. threads: any. */
KINETO_API kineto_trace *kineto_trace_retain(kineto_trace *trace);
/** One owner less; the last frees, and with it all that was borrowed. NULL is fine. threads: any. */
KINETO_API void kineto_trace_release(kineto_trace *trace);

/** Row number of an activity: arrival order, 0 … count-1. A trace has at most 2^32 - 1 of them. */
typedef uint32_t kineto_row;
#define KINETO_NO_ROW UINT32_MAX

/** How an activity is drawn; the Chrome phase it came from or goes to. */
typedef enum kineto_form {
    KINETO_FORM_SLICE = 0,   /**< start..end, "X" */
    KINETO_FORM_ASYNC = 1,   /**< start..end with an id, may overlap anything, "b"/"e" */
    KINETO_FORM_INSTANT = 2, /**< a moment, "i" */
    KINETO_FORM_COUNTER = 3  /**< a sample; the args are the series, "C" */
} kineto_form;

#define KINETO_ACTIVITY_OPEN_START 1u /**< began before the window: start is the window's */
#define KINETO_ACTIVITY_OPEN_END 2u   /**< had not ended: end is the last known moment */
#define KINETO_ACTIVITY_ARGS_LOST 4u  /**< arguments were dropped */
#define KINETO_ACTIVITY_GLOBAL 8u     /**< instant that concerns all tracks */

/** One row, as a view. */
typedef struct kineto_activity {
    kineto_row row;
    int64_t start_ns, end_ns; /**< end == start for instants and counters; end >= start */
    kineto_string name;
    uint32_t name_id;  /**< dense id of the name in this trace */
    uint32_t track;    /**< index into tracks */
    uint32_t kind;     /**< kineto_kind */
    uint32_t category; /**< string id of the Chrome "cat" it came with, or of the kind's name */
    uint32_t form;     /**< kineto_form */
    uint32_t flags;    /**< KINETO_ACTIVITY_… */
    uint64_t correlation_id; /**< 0: none */
    uint64_t external_id;    /**< 0: none */
    uint64_t async_id;       /**< ASYNC only */
} kineto_activity;

KINETO_API uint64_t kineto_trace_count(const kineto_trace *trace);
/** Fill a view of a row; a row out of range gives an all-zero view. */
KINETO_API void kineto_trace_get(const kineto_trace *trace, kineto_row row, kineto_activity *out);

/** Interned string by id; empty for an unknown id. */
KINETO_API kineto_string kineto_trace_string(const kineto_trace *trace, uint32_t id);
KINETO_API uint32_t kineto_trace_string_count(const kineto_trace *trace);

/** A process, or a device (a process row of its own in the viewers). */
typedef struct kineto_process {
    bool is_device;
    int64_t pid;          /**< process id, or device id */
    int64_t ppid;         /**< 0 unknown */
    kineto_string name, label;
    int64_t sort_index;
    int32_t rank;         /**< -1 unknown */
    kineto_string host;
    kineto_string properties_json; /**< device: a JSON object, or empty */
} kineto_process;
KINETO_API uint32_t kineto_trace_process_count(const kineto_trace *trace);
KINETO_API void kineto_trace_process(const kineto_trace *trace, uint32_t index,
                                     kineto_process *out);

typedef enum kineto_track_type {
    KINETO_TRACK_THREAD = 0,  /**< id: tid */
    KINETO_TRACK_STREAM = 1,  /**< id: stream or queue of a device */
    KINETO_TRACK_COUNTER = 2, /**< counters of a process or device */
    KINETO_TRACK_ASYNC = 3,   /**< asynchronous ranges of a process */
    KINETO_TRACK_OTHER = 4    /**< rows of other tools: spans, overhead … */
} kineto_track_type;

/** A row of the timeline. Its activities may overlap: see lanes. */
typedef struct kineto_track {
    uint32_t process; /**< index */
    uint32_t type;    /**< kineto_track_type */
    int64_t id;
    kineto_string name;
    int64_t sort_index;
    uint64_t count;   /**< activities */
    uint32_t lane_count; /**< how many non-overlapping lanes it needs */
} kineto_track;
KINETO_API uint32_t kineto_trace_track_count(const kineto_trace *trace);
KINETO_API void kineto_trace_track(const kineto_trace *trace, uint32_t index, kineto_track *out);

/** Rows of a track ordered by (start, longer first, row). Borrowed array of track.count rows; NULL
 *  when out of memory. */
KINETO_API const kineto_row *kineto_trace_track_rows(const kineto_trace *trace, uint32_t track);

/** All rows ordered by (start, longer first, row). Borrowed array of count rows; NULL when out of
 *  memory. */
KINETO_API const kineto_row *kineto_trace_time_order(const kineto_trace *trace);

/** The smallest activity on the same lane that encloses this one; KINETO_NO_ROW at the top. */
KINETO_API kineto_row kineto_trace_parent(const kineto_trace *trace, kineto_row row);
/** Duration less the children's, in ns. */
KINETO_API int64_t kineto_trace_self_ns(const kineto_trace *trace, kineto_row row);
/** Lane inside the track; activities of a lane nest or are disjoint. */
KINETO_API uint32_t kineto_trace_lane(const kineto_trace *trace, kineto_row row);
/** Launch of a device activity (the runtime or driver call with the same correlation id), or
 *  KINETO_NO_ROW; and the first device activity of a launch. */
KINETO_API kineto_row kineto_trace_launch(const kineto_trace *trace, kineto_row device_row);
KINETO_API kineto_row kineto_trace_launched(const kineto_trace *trace, kineto_row host_row);

/** One argument of an activity, as a view. Numbers are given directly, everything else as JSON. */
typedef struct kineto_arg {
    kineto_string key;
    uint32_t type; /**< kineto_arg_type */
    union {
        int64_t i;
        uint64_t u; /**< UINT, BOOL */
        double d;
    };
    kineto_string text; /**< STRING: raw bytes. INTS, STRINGS, SHAPES, JSON: JSON text */
} kineto_arg;

/** Iterator over arguments; owned by the caller, no heap. text of the last argument is valid until
 *  the next call. Keys "correlation" and "External id" are not repeated here: they are columns. */
typedef struct kineto_args_iterator {
    const kineto_trace *trace;
    kineto_row row;
    const void *position, *end;
    uint64_t state[4];
} kineto_args_iterator;
KINETO_API void kineto_args_begin(const kineto_trace *trace, kineto_row row,
                                  kineto_args_iterator *it);
KINETO_API bool kineto_args_next(kineto_args_iterator *it, kineto_arg *arg);
/** First argument with this key; false if absent. */
KINETO_API bool kineto_args_find(const kineto_trace *trace, kineto_row row, const char *key,
                                 kineto_arg *arg);

/** An arrow between two activities. */
typedef struct kineto_flow {
    uint32_t type;      /**< KINETO_FLOW_… */
    uint64_t id;
    kineto_row from, to; /**< KINETO_NO_ROW: that end was not recorded */
} kineto_flow;
KINETO_API uint64_t kineto_trace_flow_count(const kineto_trace *trace);
KINETO_API void kineto_trace_flow(const kineto_trace *trace, uint64_t index, kineto_flow *out);

/** One line of the ledger: what happened to the events of a source. */
typedef struct kineto_ledger_line {
    kineto_string source; /**< "program", a plug-in's name, "reader", "clock" … */
    kineto_string reason; /**< "delivered", "buffer full", … */
    uint64_t count;
    bool is_loss;         /**< events that are missing from the trace */
    kineto_string detail; /**< sentence, may be empty */
} kineto_ledger_line;
KINETO_API uint32_t kineto_trace_ledger_count(const kineto_trace *trace);
KINETO_API void kineto_trace_ledger(const kineto_trace *trace, uint32_t index,
                                    kineto_ledger_line *out);
/** Sum of all losses. */
KINETO_API uint64_t kineto_trace_lost(const kineto_trace *trace);

/** Header metadata: key and JSON value, in key order. */
KINETO_API uint32_t kineto_trace_metadata_count(const kineto_trace *trace);
KINETO_API void kineto_trace_metadata(const kineto_trace *trace, uint32_t index,
                                      kineto_string *key, kineto_string *json_value);

/** The window that was recorded, ns; of a trace without one, the span of its activities. */
KINETO_API void kineto_trace_window(const kineto_trace *trace, int64_t *start_ns, int64_t *end_ns);

/** Simultaneous readings of the clocks; `ticks` is the recorder's. */
typedef struct kineto_clock_snapshot {
    uint64_t ticks;
    int64_t monotonic_ns, monotonic_raw_ns, realtime_ns, boottime_ns;
    uint64_t width_ticks; /**< uncertainty */
} kineto_clock_snapshot;
KINETO_API uint32_t kineto_trace_snapshot_count(const kineto_trace *trace);
KINETO_API void kineto_trace_snapshot(const kineto_trace *trace, uint32_t index,
                                      kineto_clock_snapshot *out);

/** Read a Kineto/Chrome trace: ".json", ".json.gz", ".json.zst".
 *  @param out  receives a trace to release. NULL on failure.
 *  @return KINETO_E_IO, KINETO_E_NOT_FOUND, KINETO_E_PERMISSION, KINETO_E_MEMORY, or KINETO_E_FORMAT
 *          with the byte offset (of the decompressed text). threads: any. */
KINETO_API kineto_status kineto_trace_open(const char *path, kineto_trace **out,
                                           kineto_error *err);

/** Write a trace; the format follows the extension (".json", ".json.gz", ".json.zst"). The file
 *  appears whole or not at all. Same trace and path, same bytes.
 *  @return KINETO_E_UNSUPPORTED for another extension, or what writing the file met: KINETO_E_IO,
 *          KINETO_E_PERMISSION, KINETO_E_NOT_FOUND, KINETO_E_MEMORY. threads: any. */
KINETO_API kineto_status kineto_trace_save(const kineto_trace *trace, const char *path,
                                           kineto_error *err);

#ifdef __cplusplus
}
#endif
#endif
