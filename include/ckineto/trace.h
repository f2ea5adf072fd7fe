/** @file
 *  The trace: one immutable model for everything recorded or read.
 *
 *  A trace is a table of *activities* (rows) on *tracks* (threads, streams, counters), plus
 *  processes and devices, flows, header metadata, clock snapshots and the ledger. Names are raw
 *  bytes. Times are int64 nanoseconds since the Unix epoch.
 *
 *  A trace is immutable once made: share it freely between threads. threads: any, unless said
 *  otherwise. Derived columns (order, parent, self time, lanes, links) are built on first
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

/** One more owner, also of a trace that was lent as const; returns its argument, to be released.
 *  threads: any. */
KINETO_API kineto_trace *kineto_trace_retain(const kineto_trace *trace);
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

/** How many activities there are. */
KINETO_API uint64_t kineto_trace_count(const kineto_trace *trace);
/** Fill a view of a row; a row out of range gives an all-zero view. */
KINETO_API void kineto_trace_get(const kineto_trace *trace, kineto_row row, kineto_activity *out);

/** Interned string by id; empty for an unknown id. */
KINETO_API kineto_string kineto_trace_string(const kineto_trace *trace, uint32_t id);
KINETO_API uint32_t kineto_trace_string_count(const kineto_trace *trace);

/** A process, or a device (a process row of its own in the viewers). */
typedef struct kineto_process {
    bool is_device;
    /** process id, or device id; of a row that a file knows by a text instead ("[TP00] 251") the number in
     *  it, -1: there is none */
    int64_t pid;
    int64_t ppid;         /**< 0 unknown */
    kineto_string name, label;
    int64_t sort_index;
    int32_t rank;         /**< -1 unknown */
    kineto_string host;
    kineto_string properties_json; /**< device: a JSON object, or empty */
} kineto_process;
/** How many there are, and one of them. */
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
/** How many there are, and one of them. */
KINETO_API uint32_t kineto_trace_track_count(const kineto_trace *trace);
KINETO_API void kineto_trace_track(const kineto_trace *trace, uint32_t index, kineto_track *out);

/** Rows of a track ordered by (start, longer first, row); of recorded ranges that a coarse clock gave
 *  the same times, what encloses comes first. Borrowed array of track.count rows; NULL when out of
 *  memory. */
KINETO_API const kineto_row *kineto_trace_track_rows(const kineto_trace *trace, uint32_t track);

/** All rows ordered by (start, longer first, row). Borrowed array of count rows; NULL when out of
 *  memory. */
KINETO_API const kineto_row *kineto_trace_time_order(const kineto_trace *trace);

/** The innermost activity of the track that encloses this one: of those that begin no later and end no
 *  earlier the one that began last; KINETO_NO_ROW at the top. Activities that only overlap do not
 *  enclose each other. */
KINETO_API kineto_row kineto_trace_parent(const kineto_trace *trace, kineto_row row);
/** Own time in ns. On a thread: the moments at which it is the activity that began last of those that are
 *  open. On a queue of a device: its duration less the time of what it is the ancestor of. For activities
 *  that nest both are the duration less that of its children. */
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
 *  the next call. Keys "correlation" and "External id" are not repeated here: they are columns.
 *  Arguments of traces that were read from compressed files or pipes are loaded when they are looked
 *  at: an iterator belongs to the thread that began it, which may have begun iterators over the
 *  arguments of 7 other rows since. There are none if the file was changed meanwhile. */
typedef struct kineto_args_iterator {
    const kineto_trace *trace;
    kineto_row row;
    const void *position, *end;
    uint64_t state[4];
} kineto_args_iterator;
/** Begin; the next argument, false after the last one. threads: owner (of the iterator). */
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
/** How many there are, and one of them. */
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
/** How many there are, and one of them. */
KINETO_API uint32_t kineto_trace_ledger_count(const kineto_trace *trace);
KINETO_API void kineto_trace_ledger(const kineto_trace *trace, uint32_t index,
                                    kineto_ledger_line *out);
/** How many events are missing: the sum of all losses. Lines of the sources "processes" and "processes not
 *  recorded" count processes, and are left out. */
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
/** How many there are, and one of them. */
KINETO_API uint32_t kineto_trace_snapshot_count(const kineto_trace *trace);
KINETO_API void kineto_trace_snapshot(const kineto_trace *trace, uint32_t index,
                                      kineto_clock_snapshot *out);

/** How far a limit of memory may be exceeded for a moment. */
#define KINETO_MEMORY_SLACK_BYTES ((uint64_t)64 << 20)

/** How to read a trace. */
typedef struct kineto_open_options {
    size_t size;      /**< sizeof(kineto_open_options), set by the caller */
    /** 0: as many as there are processors. The trace is the same with any number */
    uint32_t threads;
    /** 0: no limit. Else what grows with the trace goes to a temporary file (in $TMPDIR, else
     *  /var/tmp) as soon as more than this of the process is resident. Held within
     *  KINETO_MEMORY_SLACK_BYTES, as far as names, header and what the program itself has allow it */
    uint64_t memory_bytes;
    bool strict;      /**< refuse what is no valid JSON, or no event; else it is repaired as far as
                           that is certain, and the ledger and kineto_trace_repair tell what was done */
    /** Unit of "ts" and "dur": 0 or 1000 for microseconds, as the format has it; 1, 1000000 or
     *  1000000000 for writers that put nanoseconds, milliseconds or seconds there */
    uint64_t ts_unit_ns;
} kineto_open_options;

/** Read a Kineto/Chrome trace, plain or compressed with gzip or zstd (the content says which).
 *  Broken text is repaired: see kineto_trace_repair.
 *  @param path  "-" is standard input.
 *  @param out  receives a trace to release. NULL on failure.
 *  @return KINETO_E_IO, KINETO_E_NOT_FOUND, KINETO_E_PERMISSION, KINETO_E_MEMORY, or KINETO_E_FORMAT
 *          with the byte offset (of the decompressed text). threads: any. */
KINETO_API kineto_status kineto_trace_open(const char *path, kineto_trace **out,
                                           kineto_error *err);
/** The same with options; NULL: the defaults. *out is to be released, too. */
KINETO_API kineto_status kineto_trace_open_with(const char *path,
                                                const kineto_open_options *options,
                                                kineto_trace **out, kineto_error *err);

/** Bytes of the text that it was read from, decompressed; 0: it was not read. threads: any. */
KINETO_API uint64_t kineto_trace_text_bytes(const kineto_trace *trace);

/** One thing that was wrong with the text of a trace, and was repaired. */
typedef struct kineto_repair {
    kineto_string kind;     /**< "raw_quote" */
    kineto_string text;     /**< what was found and done */
    uint64_t offset, bytes; /**< in the text (decompressed); 0 bytes: something was missing */
    bool is_loss;           /**< something of the text is not in the trace */
} kineto_repair;
/** How many things were repaired, all together. threads: any. */
KINETO_API uint64_t kineto_trace_repair_total(const kineto_trace *trace);
/** Those whose places are known, in the order of the text: the first few thousand. threads: any. */
KINETO_API uint32_t kineto_trace_repair_count(const kineto_trace *trace);
KINETO_API void kineto_trace_repair(const kineto_trace *trace, uint32_t index, kineto_repair *out);

/* What a selection chooses by, besides members that are set. */
#define KINETO_SELECT_TIME 1u      /**< what touches [start_ns, end_ns) */
#define KINETO_SELECT_STEPS 2u     /**< steps first_step … last_step */
#define KINETO_SELECT_RANK 4u      /**< processes of a rank, and device work that they launched */
#define KINETO_SELECT_PROCESS 8u   /**< the process pid, and device work that it launched */
#define KINETO_SELECT_CLIP 16u     /**< with TIME: cut at its edges, flagged as open there */
#define KINETO_SELECT_LAUNCHES 32u /**< also the launches of chosen device work */
#define KINETO_SELECT_PARENTS 64u  /**< also what encloses the chosen ones */
#define KINETO_SELECT_ALL 127u

/** Of what `top` keeps the longest. */
typedef enum kineto_top_per {
    KINETO_TOP_PER_TRACE = 0,
    KINETO_TOP_PER_KIND = 1,
    KINETO_TOP_PER_TRACK = 2,
    KINETO_TOP_PER_NAME = 3
} kineto_top_per;

/** Which activities a selection keeps: those that meet everything that is set here. Zeroed but for
 *  `size`, it keeps all. */
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
    /** > 0: of what was chosen the longest ranges; no instants and counters */
    uint64_t top;
    /* Extended regular expressions, found anywhere in names of ranges; NULL: all. Device work is where
     * and when it was launched. */
    const char *under;  /**< these ranges and what is in them */
    const char *around; /**< these ranges and what encloses them */
    const char *after;  /**< what begins when the first of these has ended, or later */
    const char *before; /**< what has ended when the first of these begins */
    /** names of steps, with STEPS: as step_pattern of kineto_analyze_options; NULL: the usual ones */
    const char *step_pattern;
} kineto_selection;

/** A new trace of the chosen activities, in their order. It has the tracks and processes that
 *  they need, the flows of which no recorded end was left out, header, clock snapshots and ledger
 *  of the source, and ledger lines that say what was selected. Its window is cut to the time, the
 *  steps, or the ranges of `under`.
 *  @param out  receives a trace to release; the source itself if everything is selected.
 *  @return KINETO_E_ARGUMENT for a selection that makes no sense, naming a bad regular
 *          expression; KINETO_E_NOT_FOUND if the trace has none of the steps; KINETO_E_MEMORY.
 *          threads: any. */
KINETO_API kineto_status kineto_trace_select(const kineto_trace *trace,
                                             const kineto_selection *selection, kineto_trace **out,
                                             kineto_error *err);

/* What to replace by pseudonyms. What is not asked for keeps its text, but for paths and
 * machines in it. */
/** functions, modules, annotations, threads, processes, categories */
#define KINETO_SCRUB_NAMES 1u
#define KINETO_SCRUB_PATHS 2u    /**< paths, wherever they stand */
#define KINETO_SCRUB_HOSTS 4u    /**< machines: names the trace states, IPv4 addresses */
#define KINETO_SCRUB_STACKS 8u   /**< call stacks */
#define KINETO_SCRUB_ARGS 16u    /**< texts in arguments, and keys that are not PyTorch's or ours */
/** the same in header and device properties; sentences of the ledger */
#define KINETO_SCRUB_HEADER 32u
#define KINETO_SCRUB_SHAPES 64u  /**< sizes of tensors */
#define KINETO_SCRUB_KNOWN 128u  /**< with NAMES: also of public operators, kernels and calls */
#define KINETO_SCRUB_DROP_STACKS 256u /**< with STACKS: take them away instead */
#define KINETO_SCRUB_USUAL 63u   /**< what may tell of people, machines and code */
#define KINETO_SCRUB_ALL 511u

typedef struct kineto_scrub {
    size_t size;        /**< sizeof(kineto_scrub) */
    uint32_t what;      /**< KINETO_SCRUB_… */
    /** the same text and salt give the same pseudonym in any trace; keep it secret */
    const void *salt;
    size_t salt_bytes;  /**< > 0; 16 random ones are enough */
    /** POSIX extended regular expression: texts in which it is found stay; NULL */
    const char *keep;
} kineto_scrub;

/** How many texts were replaced; a name that many activities share counts once. */
typedef struct kineto_scrub_result {
    size_t size;        /**< sizeof(kineto_scrub_result), set by the caller */
    uint64_t names, paths, hosts, stacks, keys, texts, shapes;
} kineto_scrub_result;

/** A copy of the trace in which pseudonyms, keyed hashes of the texts, stand for what may not be
 *  shown. Only what is known to be public survives in the classes asked for: operators of
 *  PyTorch, calls and kernels of vendors' libraries, keys and words of the format. Times, numbers
 *  and structure stay.
 *  @param out     receives a trace to release.
 *  @param result  may be NULL; filled on success.
 *  @return KINETO_E_ARGUMENT without a salt or for a bad regular expression, KINETO_E_MEMORY.
 *          threads: any. */
KINETO_API kineto_status kineto_trace_scrub(const kineto_trace *trace, const kineto_scrub *how,
                                            kineto_trace **out, kineto_scrub_result *result,
                                            kineto_error *err);

/** Write a trace; the format follows the extension (".json.gz", ".pftrace", ".csv": those of
 *  kineto_export_format_at in <ckineto/export.h>, where there is more). The file appears whole or not
 *  at all. Same trace and path, same bytes.
 *  @return KINETO_E_UNSUPPORTED for another extension, or what writing the file met: KINETO_E_IO,
 *          KINETO_E_PERMISSION, KINETO_E_NOT_FOUND, KINETO_E_MEMORY. threads: any. */
KINETO_API kineto_status kineto_trace_save(const kineto_trace *trace, const char *path,
                                           kineto_error *err);

#ifdef __cplusplus
}
#endif
#endif
