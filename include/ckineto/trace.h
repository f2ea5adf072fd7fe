/** @file
 *  The trace: one immutable model for everything recorded or read.
 *
 *  A trace is a table of *activities* (rows) on *tracks* (threads, streams, counters), plus
 *  processes and devices, flows, header metadata, clock snapshots and the ledger. Names are raw
 *  bytes. Times are int64 nanoseconds since the Unix epoch.
 *
 *  A trace is immutable once made: share it freely between threads. threads: any, unless stated otherwise. Derived
 *  columns (order, parent, self time, lanes, links) are built once, on first use. Views (kineto_string,
 *  kineto_args…) borrow from the trace.
 *
 *  Getters that fill a struct return false, with an all-zero struct, for a row, track, index or id out of range.
 *  Functions that return a row return KINETO_NO_ROW, also if memory for a derived column is exhausted. An iterator
 *  belongs to one thread at a time.
 */
#ifndef CKINETO_TRACE_H
#define CKINETO_TRACE_H

#include <ckineto/base.h>
#include <ckineto/record.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct kineto_trace kineto_trace;

/** Add an owner, also to a borrowed const trace; returns its argument, to be released. threads: any. */
KINETO_API kineto_trace *kineto_trace_retain(const kineto_trace *trace);
/** Remove an owner; the last one frees the trace and all views of it. NULL is ignored. threads: any. */
KINETO_API void kineto_trace_release(kineto_trace *trace);

/** Row number of an activity: arrival order, 0 … count-1. A trace has at most 2^32 - 1 of them. */
typedef uint32_t kineto_row;
#define KINETO_NO_ROW UINT32_MAX

/** Form of an activity; corresponds to a phase of Chrome's format. */
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
#define KINETO_ACTIVITY_SCOPE_SHIFT 4 /**< four bits: kineto_scope of an operator */
#define KINETO_ACTIVITY_SCOPE(flags) ((kineto_scope)((flags) >> KINETO_ACTIVITY_SCOPE_SHIFT & 15u))

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

/** Number of activities. */
KINETO_API uint64_t kineto_trace_count(const kineto_trace *trace);
/** Fill a view of a row. @return false for a row out of range. */
KINETO_API bool kineto_trace_get(const kineto_trace *trace, kineto_row row, kineto_activity *out);

/** Interned string by id; empty for an unknown id. */
KINETO_API kineto_string kineto_trace_string(const kineto_trace *trace, uint32_t id);
KINETO_API uint32_t kineto_trace_string_count(const kineto_trace *trace);

/** A process, or a device (a process row of its own in the viewers). */
typedef struct kineto_process {
    bool is_device;
    /** process id, or device id; of a row with a text as id ("[TP00] 251") the number in that text, -1: none */
    int64_t pid;
    int64_t ppid;         /**< 0 unknown */
    kineto_string name, label;
    int64_t sort_index;
    int32_t rank;         /**< -1 unknown */
    kineto_string host;
    kineto_string properties_json; /**< device: a JSON object, or empty */
} kineto_process;
/** Number of processes and devices, and one of them. @return false for an index out of range. */
KINETO_API uint32_t kineto_trace_process_count(const kineto_trace *trace);
KINETO_API bool kineto_trace_process(const kineto_trace *trace, uint32_t index,
                                     kineto_process *out);

typedef enum kineto_track_type {
    KINETO_TRACK_THREAD = 0,  /**< id: tid */
    KINETO_TRACK_STREAM = 1,  /**< id: stream or queue of a device */
    KINETO_TRACK_COUNTER = 2, /**< counters of a process or device */
    KINETO_TRACK_ASYNC = 3,   /**< asynchronous ranges of a process */
    KINETO_TRACK_OTHER = 4    /**< rows of other tools: spans, overhead … */
} kineto_track_type;

/** A row of the timeline. Its activities may overlap: see kineto_trace_lane. */
typedef struct kineto_track {
    uint32_t process; /**< index */
    uint32_t type;    /**< kineto_track_type */
    int64_t id;
    kineto_string name;
    int64_t sort_index;
    uint64_t count;   /**< activities */
    uint32_t lane_count; /**< number of lanes, within which activities nest or are disjoint */
} kineto_track;
/** Number of tracks, and one of them. @return false for an index out of range. */
KINETO_API uint32_t kineto_trace_track_count(const kineto_trace *trace);
KINETO_API bool kineto_trace_track(const kineto_trace *trace, uint32_t index, kineto_track *out);

/** Rows of a track ordered by (start, longer first, row); of recorded ranges with equal times the enclosing one
 *  comes first. Borrowed array of track.count rows; NULL when out of memory. */
KINETO_API const kineto_row *kineto_trace_track_rows(const kineto_trace *trace, uint32_t track);

/** All rows ordered by (start, longer first, row). Borrowed array of count rows; NULL when out of
 *  memory. */
KINETO_API const kineto_row *kineto_trace_time_order(const kineto_trace *trace);

/** The innermost enclosing activity on the same track: of those that begin no later and end no earlier, the one that
 *  began last; KINETO_NO_ROW at the top. Activities that only overlap do not enclose each other. */
KINETO_API kineto_row kineto_trace_parent(const kineto_trace *trace, kineto_row row);
/** Self time in ns. On a thread: the time during which this activity is the one that began last of all open ones. On
 *  a queue of a device: its duration minus the time of its descendants. For nested activities both are the duration
 *  minus that of the children. */
KINETO_API int64_t kineto_trace_self_ns(const kineto_trace *trace, kineto_row row);
/** Lane within the track; activities of a lane nest or are disjoint. */
KINETO_API uint32_t kineto_trace_lane(const kineto_trace *trace, kineto_row row);
/** The launch of a device activity, which is the runtime or driver call with the same correlation id, or
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
 *  the next call. Keys "correlation" and "External id" are not repeated here: they are columns.
 *  Arguments of traces that were read from compressed files or pipes are loaded on demand: an iterator belongs to
 *  the thread that began it and is valid until that thread has begun iterators for 8 other rows. There are no
 *  arguments if the file has changed since it was opened. */
typedef struct kineto_args_iterator {
    const kineto_trace *trace;
    kineto_row row;
    const void *position, *end;
    uint64_t state[4];
} kineto_args_iterator;
/** Begin an iteration; get the next argument, false after the last one. threads: owner (of the iterator). */
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
/** Number of flows, and one of them. @return false for an index out of range. */
KINETO_API uint64_t kineto_trace_flow_count(const kineto_trace *trace);
KINETO_API bool kineto_trace_flow(const kineto_trace *trace, uint64_t index, kineto_flow *out);

/** One line of the ledger: a count of events of a source, by reason. */
typedef struct kineto_ledger_line {
    kineto_string source; /**< "program", a plug-in's name, "reader", "clock" … */
    kineto_string reason; /**< "delivered", "buffer full", … */
    uint64_t count;
    bool is_loss;         /**< events that are missing from the trace */
    kineto_string detail; /**< sentence, may be empty */
} kineto_ledger_line;
/** Number of lines, and one of them. @return false for an index out of range. */
KINETO_API uint32_t kineto_trace_ledger_count(const kineto_trace *trace);
KINETO_API bool kineto_trace_ledger(const kineto_trace *trace, uint32_t index,
                                    kineto_ledger_line *out);
/** Number of missing events: the sum of all losses, without the lines of the sources "processes" and "processes not
 *  recorded", which count processes. */
KINETO_API uint64_t kineto_trace_lost(const kineto_trace *trace);

/** Header metadata: key and JSON value, in key order. @return false for an index out of range. */
KINETO_API uint32_t kineto_trace_metadata_count(const kineto_trace *trace);
KINETO_API bool kineto_trace_metadata(const kineto_trace *trace, uint32_t index,
                                      kineto_string *key, kineto_string *json_value);

/** The window that was recorded, ns; of a trace without one, the span of its activities. */
KINETO_API void kineto_trace_window(const kineto_trace *trace, int64_t *start_ns, int64_t *end_ns);

/** Simultaneous readings of the clocks; `ticks` is the recorder's. */
typedef struct kineto_clock_snapshot {
    uint64_t ticks;
    int64_t monotonic_ns, monotonic_raw_ns, realtime_ns, boottime_ns;
    uint64_t width_ticks; /**< uncertainty */
} kineto_clock_snapshot;
/** Number of snapshots, and one of them. @return false for an index out of range. */
KINETO_API uint32_t kineto_trace_snapshot_count(const kineto_trace *trace);
KINETO_API bool kineto_trace_snapshot(const kineto_trace *trace, uint32_t index,
                                      kineto_clock_snapshot *out);

/** A memory limit may be exceeded by this much for a moment. */
#define KINETO_MEMORY_SLACK_BYTES ((uint64_t)64 << 20)

/** How to read a trace. */
typedef struct kineto_open_options {
    size_t size;      /**< sizeof(kineto_open_options): set by kineto_open_options_init */
    /** 0: one per processor. The trace does not depend on it */
    uint32_t threads;
    /** Limit of resident memory of the process; 0: none. Data that grows with the trace goes to a temporary file (in
     *  $TMPDIR, else /var/tmp) when the limit is reached. Kept within KINETO_MEMORY_SLACK_BYTES, as far as names,
     *  header and other memory of the program allow */
    uint64_t memory_bytes;
    bool strict;      /**< fail on invalid JSON or malformed events; else they are repaired where the repair is
                           certain, and the ledger and kineto_trace_repair report it */
    /** Unit of "ts" and "dur" in ns: 0 or 1000 for microseconds, as the format defines; 1, 1000000 or 1000000000 for
     *  writers that use nanoseconds, milliseconds or seconds */
    uint64_t ts_unit_ns;
} kineto_open_options;
KINETO_INIT_FUNCTION(kineto_open_options)

/** Read a Kineto/Chrome trace, plain or compressed with gzip or zstd (detected by content).
 *  Broken text is repaired: see kineto_trace_repair. Recordings of perf and uftrace,
 *  files and directories, are read as well.
 *  @param path  "-" is standard input.
 *  @param out  receives a trace to release. NULL on failure.
 *  @return KINETO_E_IO, KINETO_E_NOT_FOUND, KINETO_E_PERMISSION, KINETO_E_MEMORY, or KINETO_E_FORMAT
 *          with the byte offset (of the decompressed text); of recordings also KINETO_E_UNSUPPORTED,
 *          KINETO_E_LIMIT. threads: any. */
KINETO_API kineto_status kineto_trace_open(const char *path, kineto_trace **out,
                                           kineto_error *err);
/** The same with options. *out is to be released.
 *  @param options  NULL: the defaults. */
KINETO_API kineto_status kineto_trace_open_with(const char *path,
                                                const kineto_open_options *options,
                                                kineto_trace **out, kineto_error *err);

/** Bytes of the decompressed text that the trace was read from; 0: it was recorded. threads: any. */
KINETO_API uint64_t kineto_trace_text_bytes(const kineto_trace *trace);

/** One repair of the text of a trace. */
typedef struct kineto_repair {
    kineto_string kind;     /**< "raw_quote" */
    kineto_string text;     /**< the fault and its repair */
    uint64_t offset, bytes; /**< in the decompressed text; 0 bytes: something was missing */
    bool is_loss;           /**< part of the text is not in the trace */
} kineto_repair;
/** Number of all repairs. threads: any. */
KINETO_API uint64_t kineto_trace_repair_total(const kineto_trace *trace);
/** The first few thousand repairs, in the order of the text. @return false for an index out of range.
 *  threads: any. */
KINETO_API uint32_t kineto_trace_repair_count(const kineto_trace *trace);
KINETO_API bool kineto_trace_repair(const kineto_trace *trace, uint32_t index, kineto_repair *out);

/* Criteria of a selection, besides the members that are set. */
#define KINETO_SELECT_TIME 1u      /**< activities that touch [start_ns, end_ns) */
#define KINETO_SELECT_STEPS 2u     /**< steps first_step … last_step */
#define KINETO_SELECT_RANK 4u      /**< processes of a rank, and device work that they launched */
#define KINETO_SELECT_PROCESS 8u   /**< the process pid, and device work that it launched */
#define KINETO_SELECT_CLIP 16u     /**< with TIME: cut at its edges, flagged as open there */
#define KINETO_SELECT_LAUNCHES 32u /**< also the launches of selected device work */
#define KINETO_SELECT_PARENTS 64u  /**< also the activities that enclose selected ones */
#define KINETO_SELECT_ALL 127u

/** Groups of which `top` keeps the longest. */
typedef enum kineto_top_per {
    KINETO_TOP_PER_TRACE = 0,
    KINETO_TOP_PER_KIND = 1,
    KINETO_TOP_PER_TRACK = 2,
    KINETO_TOP_PER_NAME = 3
} kineto_top_per;

/** A selection of activities: those that meet all criteria that are set. All zero but the size selects all. */
typedef struct kineto_selection {
    size_t size;                /**< sizeof(kineto_selection) */
    uint32_t use;               /**< KINETO_SELECT_… */
    uint32_t top_per;           /**< kineto_top_per */
    int64_t start_ns, end_ns;   /**< INT64_MIN and INT64_MAX: no limit */
    /** A host activity belongs to the step ("ProfilerStep#3" of its process) that it starts in,
     *  device work to the step of its launch. */
    uint64_t first_step, last_step;
    uint64_t kinds;             /**< mask of neutral kinds; 0: all */
    /** POSIX extended regular expression, found anywhere in the name; NULL */
    const char *name;
    /** Digits: the number of a thread or stream; else a regular expression found anywhere in the
     *  name of the track ("thread 7", "stream 7" if it has none). NULL: all. */
    const char *track;
    int64_t pid;                /**< with PROCESS */
    int32_t rank;               /**< with RANK */
    int64_t min_duration_ns;    /**< > 0: ranges of at least this; no instants and counters */
    /** > 0: the N longest of the selected ranges; no instants and counters */
    uint64_t top;
    /* Extended regular expressions, found anywhere in names of ranges; NULL: all. Device work counts at the place
     * and time of its launch. */
    const char *under;  /**< these ranges and the activities in them */
    const char *around; /**< these ranges and the activities that enclose them */
    const char *after;  /**< activities that begin after the first of these has ended */
    const char *before; /**< activities that end before the first of these begins */
    /** names of steps, with STEPS: as step_pattern of kineto_analysis_options; NULL: the default names */
    const char *step_pattern;
} kineto_selection;
KINETO_INIT_FUNCTION(kineto_selection)

/** A new trace of the selected activities, in their order. It has the tracks and processes that they need, the flows
 *  whose recorded ends are all selected, header, clock snapshots and ledger of the source, and ledger lines about the
 *  selection. Its window is cut to the time, the steps, or the ranges of `under`.
 *  @param out  receives a trace to release; the source itself if everything is selected.
 *  @return KINETO_E_ARGUMENT for an invalid selection, such as a bad regular expression; KINETO_E_NOT_FOUND if the
 *          trace has none of the steps; KINETO_E_MEMORY.
 *          threads: any. */
KINETO_API kineto_status kineto_trace_select(const kineto_trace *trace,
                                             const kineto_selection *selection, kineto_trace **out,
                                             kineto_error *err);

/* Classes of text that scrubbing replaces by pseudonyms. Other text is kept, except paths and machine names in it. */
/** functions, modules, annotations, threads, processes, categories */
#define KINETO_SCRUB_NAMES 1u
#define KINETO_SCRUB_PATHS 2u    /**< paths, in any text */
#define KINETO_SCRUB_HOSTS 4u    /**< machines: names that the trace contains, IPv4 addresses */
#define KINETO_SCRUB_STACKS 8u   /**< call stacks */
#define KINETO_SCRUB_ARGS 16u    /**< texts in arguments, and keys that are not PyTorch's or ours */
/** the same in header and device properties; sentences of the ledger */
#define KINETO_SCRUB_HEADER 32u
#define KINETO_SCRUB_SHAPES 64u  /**< sizes of tensors */
#define KINETO_SCRUB_KNOWN 128u  /**< with NAMES: also of public operators, kernels and calls */
#define KINETO_SCRUB_DROP_STACKS 256u /**< with STACKS: remove them instead */
#define KINETO_SCRUB_USUAL 63u   /**< everything that may identify people, machines and code */
#define KINETO_SCRUB_ALL 511u
#define KINETO_SCRUB_PACKAGES 512u /**< with PATHS, STACKS: also files and functions of public packages */
#define KINETO_SCRUB_IDS 1024u     /**< numbers of processes and threads: from 1 on, in the order of the trace */
#define KINETO_SCRUB_TIMES 2048u   /**< the date: times move so that the trace begins at 0 */

typedef struct kineto_scrub {
    size_t size;        /**< sizeof(kineto_scrub) */
    uint32_t what;      /**< KINETO_SCRUB_… */
    /** secret key: the same text and salt give the same pseudonym in any trace */
    const void *salt;
    size_t salt_bytes;  /**< > 0; 16 random ones are enough */
    /** POSIX extended regular expression: texts that match are kept; NULL: none */
    const char *keep;
} kineto_scrub;
KINETO_INIT_FUNCTION(kineto_scrub)

/** Numbers of replaced texts; a name that many activities share counts once. */
typedef struct kineto_scrub_result {
    size_t size;        /**< sizeof(kineto_scrub_result): set by kineto_scrub_result_init */
    uint64_t names, paths, hosts, stacks, keys, texts, shapes;
} kineto_scrub_result;
KINETO_INIT_FUNCTION(kineto_scrub_result)

/** A copy of the trace with private texts replaced by pseudonyms, which are keyed hashes. Of the selected classes
 *  only texts that are known to be public are kept: operators of PyTorch, calls and kernels of vendors' libraries,
 *  keys and words of the format. Times, numbers and structure are unchanged.
 *  @param out     receives a trace to release.
 *  @param result  may be NULL; filled on success.
 *  @return KINETO_E_ARGUMENT without a salt or for a bad regular expression, KINETO_E_MEMORY.
 *          threads: any. */
KINETO_API kineto_status kineto_trace_scrub(const kineto_trace *trace, const kineto_scrub *how,
                                            kineto_trace **out, kineto_scrub_result *result,
                                            kineto_error *err);

/** Write a trace; the format follows the extension (".json.gz", ".pftrace", ".csv": those of
 *  kineto_export_format_get in <ckineto/export.h>, which has further options). The file appears whole or not at all.
 *  Same trace and path, same bytes.
 *  @return KINETO_E_UNSUPPORTED for an unknown extension, or an error of writing: KINETO_E_IO,
 *          KINETO_E_PERMISSION, KINETO_E_NOT_FOUND, KINETO_E_MEMORY. threads: any. */
KINETO_API kineto_status kineto_trace_save(const kineto_trace *trace, const char *path,
                                           kineto_error *err);

#ifdef __cplusplus
}
#endif
#endif
