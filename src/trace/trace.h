/* The internal interface of src/trace for other folders: building a trace, and reading it
 * block by block. The public interface is include/ckineto/trace.h.
 *
 * A trace is a list of immutable blocks with reference counts (KT_BLOCK_ROWS rows in
 * columns, with a zone map: minimum and maximum of times, and the kinds), and tables of
 * strings, processes, tracks and flows. A slice, merge or overlay is a new trace that
 * shares blocks. Rows keep their order of arrival. */
#ifndef KT_TRACE_H
#define KT_TRACE_H

#include "base/base.h"
#include "format/format.h"
#include <ckineto/trace.h>

#define KT_BLOCK_ROWS 65536u

/* The storage form of the args of a row. */
typedef enum kt_args_form {
    KT_ARGS_NONE = 0,
    KT_ARGS_PACKED = 1, /* packed stream, see KT_ARG_HEAD */
    KT_ARGS_JSON = 2,   /* verbatim JSON object */
    KT_ARGS_IN_FILE = 3 /* the same, in the block's `text`; kt_args_form_of returns KT_ARGS_JSON */
} kt_args_form;

/* From row `first` of the block on, args lie in this text. */
typedef struct kt_text_run {
    uint32_t first;
    struct kt_input *text;
} kt_text_run;

/* Columns of one block. Immutable once the builder has sealed it. */
typedef struct kt_block {
    uint32_t references;
    struct kt_store *store;                   /* that it was allocated from; NULL: the heap */
    struct kt_slab *columns_slab, *args_slab; /* that hold columns and args; NULL: none */
    uint32_t count;
    int64_t *start_ns, *end_ns;
    uint32_t *name, *track;
    uint8_t *kind, *form;
    uint16_t *category; /* index into the trace's category table */
    uint16_t *flags;    /* KINETO_ACTIVITY_… in the low byte, kt_args_form << 8, KT_WRITER */
    uint64_t *correlation_id, *external_id;
    uint64_t *args; /* offset << 24 | bytes, in the block's args heap or in `text` */
    uint8_t *args_heap;
    size_t args_bytes, args_capacity;
    struct kt_input *text;   /* text of the file that contains verbatim args; NULL: none */
    kt_text_run *more_texts; /* for rows from other files: see kt_block_text */
    uint32_t more_text_count;
    int64_t min_start_ns, max_end_ns; /* zone map */
    uint64_t kinds;
} kt_block;

/* ---- building -------------------------------------------------------------------------------- */
typedef struct kt_builder kt_builder;

#define KT_NO_CATEGORY UINT32_MAX
/* Number (1 to 3) of the recorder that wrote the row when it ended; 0: not written so. If a
 * coarse clock gives rows of one writer the same times, the later row encloses the earlier
 * one. */
#define KT_WRITER(n) ((uint32_t)(n) << 14)
#define KT_WRITER_OF(flags) ((uint32_t)(flags) >> 14 & 3u)
/* One row to append. Correlation ids, external ids and flow ids must be unique in the
 * trace: a caller that combines several processes makes them so, because the written
 * formats have no other scope. */
typedef struct kt_row {
    int64_t start_ns, end_ns;
    uint32_t name;     /* kt_string id */
    uint32_t track;    /* kt_track id */
    uint32_t kind;     /* kineto_kind */
    uint32_t category; /* kt_string id; 0: the kind's own name; KT_NO_CATEGORY: "" */
    uint32_t form;     /* kineto_form */
    uint32_t flags;    /* KINETO_ACTIVITY_…, KT_WRITER */
    uint64_t correlation_id, external_id;
    uint64_t async_id; /* ASYNC only */
} kt_row;

kineto_status kt_builder_create(kt_builder **out, kineto_error *err);
/* NULL is ignored; a finished builder holds nothing of the trace. */
void kt_builder_destroy(kt_builder *b);

/* Interned id of bytes; 0 is "". Out of memory is reported by kt_builder_finish. */
uint32_t kt_string(kt_builder *b, kineto_string s);

/* Index of the process (device) with this identity, created on first use. `exec`
 * distinguishes images of one pid and may be 0. */
uint32_t kt_process(kt_builder *b, bool is_device, int64_t pid, uint64_t exec);
/* Sets properties; empty strings and negative ranks change nothing. */
void kt_process_set(kt_builder *b, uint32_t process, const kineto_process *properties);
/* A process row that has a text instead of a pid in files ("Spans"). */
uint32_t kt_process_text(kt_builder *b, kineto_string text);
/* Index of the track, created on first use. */
uint32_t kt_track(kt_builder *b, uint32_t process, kineto_track_type type, int64_t id);
void kt_track_set(kt_builder *b, uint32_t track, kineto_string name, int64_t sort_index);
/* A track of type OTHER that has a text instead of an id. */
uint32_t kt_track_text(kt_builder *b, uint32_t process, kineto_string text);

/* Args of the next row: stage them, in order, then append the row. Keys are kt_string ids. */
void kt_args_put_int(kt_builder *b, uint32_t key, int64_t v);
void kt_args_put_uint(kt_builder *b, uint32_t key, uint64_t v);
/* The same, in four bytes if the value is below 2^32. */
void kt_args_put_number(kt_builder *b, uint32_t key, uint64_t v);
void kt_args_put_double(kt_builder *b, uint32_t key, double v);
void kt_args_put_bool(kt_builder *b, uint32_t key, bool v);
void kt_args_put_string(kt_builder *b, uint32_t key, kineto_string raw_bytes);
/* INTS, STRINGS, SHAPES, JSON: text must be valid JSON. */
void kt_args_put_json(kt_builder *b, uint32_t key, kineto_arg_type type, kineto_string json);
/* The same for a text that many rows share: by its kt_string id. */
void kt_args_put_shared(kt_builder *b, uint32_t key, kineto_arg_type type, uint32_t text);
/* Turns the staged args into a set that many rows can share; then nothing is staged.
 * @return its number; 0: it is empty, or longer than the args of a row may be. */
uint32_t kt_args_make_set(kt_builder *b);
/* Stages a set, before all other args of the row, which follow those of the set. Set 0 is none. */
void kt_args_put_set(kt_builder *b, uint32_t set);
/* Stages the whole args object as verbatim valid JSON, instead of single args. The caller
 * copies "correlation" and "External id" into the columns; iteration skips them. */
void kt_args_verbatim(kt_builder *b, kineto_string json_object);

/* Append; returns the row number. */
kineto_row kt_append(kt_builder *b, const kt_row *row);

/* States one end of a flow. kt_builder_finish joins ends with the same (type, id) in the
 * order of the starts of their rows: each finish with the last start before it, or if there
 * is none with the first one (device clocks are not exact). Unmatched ends have
 * KINETO_NO_ROW. */
void kt_flow(kt_builder *b, uint32_t type, uint64_t id, kineto_row row, bool start);

void kt_ledger_add(kt_builder *b, kineto_string source, kineto_string reason, uint64_t count,
                   bool is_loss, kineto_string detail);
/* Later values of a key win. An invalid JSON value is stored as a JSON string. */
void kt_metadata(kt_builder *b, kineto_string key, kineto_string json_value);
void kt_snapshot(kt_builder *b, const kb_clock_snapshot *snapshot);
/* Defines a category of a plug-in and the kind of its rows. The first definition of a
 * category counts. */
void kt_own_kind(kt_builder *b, kineto_string category, uint32_t kind);
/* Kind of such a category; -1: not defined. */
int kt_own_kind_find(const kt_builder *b, kineto_string category);
void kt_window(kt_builder *b, int64_t start_ns, int64_t end_ns);

/* Appends GPU annotations: for every user annotation and device track one
 * GPU_USER_ANNOTATION slice over the activities that were launched inside the annotation.
 * Call once, before finish. */
void kt_project_user_annotations(kt_builder *b);

/* Seals the trace. The builder is empty afterwards; destroy it. */
kineto_status kt_builder_finish(kt_builder *b, kineto_trace **out, kineto_error *err);

/* ---- from recorded chunks (build.c) ---------------------------------------------------------- */
/* Stack and modules of an operator that the program provides when the trace is built:
 * "frame;frame;", "Module.Module." */
typedef struct kt_build_post {
    KB_VEC(char) stack, modules;
    bool out_of_memory;
} kt_build_post;
typedef struct kt_build_thread_span {
    uint32_t tid;
    uint64_t from_ticks, to_ticks; /* to 0: to the end */
} kt_build_thread_span;
/* A key for the header, and a line for the ledger, from the caller. */
typedef struct kt_build_header {
    const char *key, *json_value;
} kt_build_header;
typedef struct kt_build_note {
    const char *source, *reason, *detail;
    uint64_t count;
    bool is_loss;
} kt_build_note;
/* The part of a recording that becomes the trace. Times in ticks are those of the
 * recording's clock. */
typedef struct kt_build_options {
    uint64_t kinds;                  /* mask */
    uint64_t start_ticks, end_ticks; /* window; end 0: to the end */
    /* The window in ns, instead of ticks; 0: ticks count. Only clock snapshots from
     * `epoch_ticks` on are used, so that times follow the wall clock as it was then, and
     * not when the process began. */
    int64_t from_ns, until_ns;
    uint64_t epoch_ticks;
    uint64_t from_ticks, until_ticks;    /* ticks at from_ns and until_ns; 0: unknown */
    const kt_build_thread_span *threads; /* selects events by thread and time; NULL: all */
    size_t thread_count;
    const kt_build_thread_span *pauses; /* events that begin in these are skipped; tid is 0 */
    size_t pause_count;
    uint32_t wants;    /* KF_WANT_… of operators; 0: everything that was recorded */
    bool overloads;    /* names are "name.overload" */
    bool adjust_steps; /* "ProfilerStep#…" begin where the enclosing row does */
    bool no_links;     /* no flows from forward to backward operators */
    bool no_inlined;   /* no frames of inlined functions, which take time to find */
    /* Called for each operator and backend event; may add stack and modules. NULL: none. */
    void (*post)(void *context, int64_t debug_handle, kt_build_post *post);
    void *post_context;
    const char *const *metadata; /* keys of the header with the value 1 */
    uint32_t metadata_count;
    const kt_build_header *header; /* more keys */
    uint32_t header_count;
    const kt_build_note *notes; /* more lines for the ledger */
    uint32_t note_count;
    /* Called when everything has been read: may add to the ledger and the header. NULL: none. */
    void (*sign)(void *context, kt_builder *b);
    void *sign_context;
    uint32_t root_pid;      /* 0: all; else this process and its descendants */
    const char *incomplete_reason; /* why the recording is incomplete, for the ledger; NULL: complete */
    bool is_over;           /* sessions of plug-ins that have not ended will not end any more */
    bool clip_open;         /* ranges still open end at the window's end, flagged */
    bool drop_early_devices; /* device work that began before the window is left out */
    uint64_t requested_from;    /* ticks that a ring was requested to reach back to; 0: start_ticks */
    uint64_t complete_from; /* ticks: parts of the recording before may be gone */
    /* Header and ledger entries of the program count if they were recorded from `stated_from`
     * (0: all of the header, and the ledger inside the window) to `stated_until` (0: the end
     * of the window). */
    uint64_t stated_from, stated_until;
} kt_build_options;

/* Decode the chunks of `input` with the control page's clocks and counters into a trace. */
kineto_status kt_build(const kf_input *input, const kf_control *control,
                       const kt_build_options *options, kineto_trace **out, kineto_error *err);

/* ---- kinds ----------------------------------------------------------------------------------- */

/** A call of the host that may launch work. */
static inline bool kt_kind_is_launch(uint32_t kind)
{
    return kind == KINETO_KIND_RUNTIME || kind == KINETO_KIND_DRIVER;
}
/** Work that keeps a queue of a device busy. */
static inline bool kt_kind_is_work(uint32_t kind)
{
    return kind == KINETO_KIND_CONCURRENT_KERNEL || kind == KINETO_KIND_GPU_MEMCPY ||
           kind == KINETO_KIND_GPU_MEMSET;
}
/** An activity on a device track that follows a call of the host. */
static inline bool kt_kind_is_device(uint32_t kind)
{
    return kt_kind_is_work(kind) || kind == KINETO_KIND_COLLECTIVE_COMM ||
           kind == KINETO_KIND_CUDA_SYNC || kind == KINETO_KIND_CUDA_EVENT;
}

/** Kineto's number of the row with the overheads of the profiler itself, which is no device. */
#define KT_OVERHEAD_NUMBER INT64_C(-1)
/** True for the row of a device with properties. */
static inline bool kt_is_described_device(const kineto_process *p)
{
    return p->is_device && p->pid != KT_OVERHEAD_NUMBER && p->properties_json.size > 2;
}
/** A flag for each process row: it stands for a device, which has properties or activities. Not so the row of
 *  overheads, and rows that are only labelled, as libkineto's "GPU 0" to "GPU 15". To be freed; NULL: out of memory. */
uint8_t *kt_find_devices(const kineto_trace *t);
/** The process row of a device: of an NPU, whose rows are spread over several processes,
 *  the one with its streams. */
uint32_t kt_device_process(const kineto_trace *t, uint32_t process);
/** True for a row that summarises others: spans of recorders ("Trace"), and lists that
 *  repeat the work of a device ("Overlap Analysis", XLA's "Steps"). */
bool kt_row_is_summary(const kineto_trace *t, kineto_row row);

/* ---- reading by blocks, for writers and analyses --------------------------------------------- */
uint32_t kt_block_count(const kineto_trace *t);
const kt_block *kt_block_at(const kineto_trace *t, uint32_t index);
kineto_string kt_category_string(const kineto_trace *t, uint16_t category);
uint64_t kt_async_id(const kineto_trace *t, kineto_row row);
/* True for a trace from a file: writers then add no names of rows and no args of their own. */
bool kt_is_from_file(const kineto_trace *t);
/* The time that times of the file are relative to; 0: 1970, or the trace is not from a file. */
int64_t kt_file_base_ns(const kineto_trace *t);
/* Categories of plug-ins, see kt_own_kind; empty past the end. */
uint32_t kt_own_kind_count(const kineto_trace *t);
kineto_string kt_own_kind_at(const kineto_trace *t, uint32_t index, uint32_t *kind);

/* Category, name and args of a program's own flow from a file: string ids, 0: none. Args
 * are JSON objects. */
typedef struct kt_flow_about {
    uint32_t category, name, from_args, to_args;
} kt_flow_about;
kt_flow_about kt_flow_about_of(const kineto_trace *t, uint64_t flow);
/* Index + 1 of a device's properties in the list of the file; 0: not in it. */
uint32_t kt_process_place(const kineto_trace *t, uint32_t process);
/* True if the id of a track is its "tid" in the file. */
bool kt_track_has_own_tid(const kineto_trace *t, uint32_t track);

/* Args of a row as spans, without the iterator's conversions. */
typedef struct kt_arg {
    uint32_t key;  /* string id; UINT32_MAX for verbatim args: see key_text */
    uint32_t type; /* kineto_arg_type */
    union {
        int64_t i;
        uint64_t u;
        double d;
    };
    kineto_string text; /* STRING: raw bytes; lists and JSON: JSON text */
    bool shared;        /* text is a string of the trace, text_id; it may exceed the span */
    uint32_t text_id;
} kt_arg;
typedef struct kt_args {
    const uint8_t *at, *end;
    const kineto_trace *trace;
    const uint8_t *rest, *rest_end; /* the row's own args, which follow those of its set */
    uint32_t set;                   /* number of its set; 0: none */
} kt_args;
/* A walk over packed args; empty for other forms. */
kt_args kt_args_of(const kineto_trace *t, const kt_block *block, uint32_t index);
kt_args_form kt_args_form_of(const kt_block *block, uint32_t index);
/* Args of a set; empty for an unknown number. */
kt_args kt_args_of_set(const kineto_trace *t, uint32_t set);
/* Bytes that are left. */
KB_INLINE size_t kt_args_bytes(const kt_args *args)
{
    return (size_t)(args->end - args->at) + (size_t)(args->rest_end - args->rest);
}
/* Continues with the row's own args; false: there are none, or the walk is there already. */
KB_INLINE bool kt_args_skip_set(kt_args *args)
{
    if (args->rest == args->rest_end)
        return false;
    args->at = args->rest;
    args->end = args->rest = args->rest_end;
    return true;
}
/* Verbatim args of a row, a JSON object; empty if it has another form. Valid until this
 * thread has read the args of KT_ARGS_TEXT_VIEWS other rows. */
#define KT_ARGS_TEXT_VIEWS 8u
kineto_string kt_args_text(const kineto_trace *t, kineto_row row);
/* A buffer of the thread for a text. Valid until this thread has requested KT_TEXT_ROOMS
 * others; NULL: out of memory. */
#define KT_TEXT_ROOMS 16u
char *kt_text_room(size_t bytes);
/* The number in an argument, also as text: "12", or "nan" and "inf", for which JSON has no
 * notation. False: not a number. */
bool kt_arg_number(const kineto_arg *arg, double *out);
/* The same for 64-bit integers: fractions are truncated; false also if it does not fit. */
bool kt_arg_whole(const kineto_arg *arg, int64_t *out);
/* Path of a file whose args could not be reloaded, because it has changed; NULL: none. */
const char *kt_args_lost_file(const kineto_trace *t);
/* True if a member of a verbatim object repeats a column or flag of its row. */
bool kt_args_member_is_column(kineto_string key, kineto_string raw_value, uint32_t flags);

/* Layout of a packed argument: key u32, type u8, then a value of 8 bytes, or size u32 and
 * bytes. With KT_ARG_SHARED in the type, the value is the u32 id of a string; with
 * KT_ARG_SMALL, a u32 number. The first item of a row may be the number of a set (u32) and
 * KT_ARG_SET, KT_ARG_HEAD bytes without a value. */
#define KT_ARG_HEAD 5u
#define KT_ARG_SHARED 0x80u
#define KT_ARG_SMALL 0x40u
#define KT_ARG_SET (KT_ARG_SHARED | KT_ARG_SMALL)
/* The part of kt_args_step for values of four bytes. */
KB_INLINE bool kt_args_step_short(kt_args *args, kt_arg *arg, uint32_t bits)
{
    uint32_t value;
    memcpy(&value, args->at + KT_ARG_HEAD, sizeof value);
    args->at += KT_ARG_HEAD + sizeof value;
    arg->type &= KT_ARG_SMALL - 1;
    arg->shared = (bits & KT_ARG_SHARED) != 0;
    if (arg->shared) {
        arg->text_id = value;
        arg->text = kineto_trace_string(args->trace, value);
    } else {
        arg->u = value;
    }
    return true;
}
/* The next argument; false at the end. */
KB_INLINE bool kt_args_step(kt_args *args, kt_arg *arg)
{
    if (args->at == args->end && !kt_args_skip_set(args))
        return false;
    const uint8_t *at = args->at;
    memcpy(&arg->key, at, sizeof arg->key);
    arg->type = at[4];
    if (KINETO_UNLIKELY(arg->type & (KT_ARG_SHARED | KT_ARG_SMALL)))
        return kt_args_step_short(args, arg, arg->type);
    arg->shared = false;
    if (arg->type < KINETO_ARG_STRING) {
        memcpy(&arg->u, at + KT_ARG_HEAD, sizeof arg->u);
        args->at = at + KT_ARG_HEAD + sizeof arg->u;
    } else {
        uint32_t size;
        memcpy(&size, at + KT_ARG_HEAD, sizeof size);
        arg->text = (kineto_string){(const char *)at + KT_ARG_HEAD + sizeof size, size};
        args->at = at + KT_ARG_HEAD + sizeof size + size;
    }
    return true;
}

/* The text that a process row has instead of a pid; data is NULL for ordinary rows. */
kineto_string kt_process_text_of(const kineto_trace *t, uint32_t process);
/** The kind of loss that a line of the ledger counts: events that were not recorded, events
 *  of a file that its reader could not keep, processes with an unknown number of events. */
typedef enum kt_loss {
    KT_LOSS_NONE,
    KT_LOSS_RECORDING,
    KT_LOSS_READING,
    KT_LOSS_PROCESSES
} kt_loss;
#define KT_SOURCE_UNRECORDED "processes not recorded"
#define KT_GAP_PHRASES "not recorded", "not found", "cannot be recorded", "no samples", "no stacks"
/** The line of the source "self-cost" with the sum. */
#define KT_REASON_RECORDING_COST "CPU time of recording [us]"
/** How reasons of the source "cpu" begin where the kernel refuses its events. */
#define KT_REASON_COUNTERS "states from counters"
/** … and reasons of processes that are not recorded: nothing can be loaded into the process. */
#define KT_REASON_STATIC    "statically linked: nothing can be loaded into it"
#define KT_REASON_WORD_SIZE "of another word size or architecture"
#define KT_REASON_SET_ID    "runs with raised privileges (set-uid, set-gid or file capabilities)"
#define KT_SOURCE_RUNNING    "processes"
#define KT_SOURCE_STEPS      "steps"
/* The name of all functions in sampled stacks that were generated in memory and have no names. */
#define KT_JIT_CODE "[JIT code]"
kt_loss kt_ledger_loss(const kineto_ledger_line *line);
/** Sum of the lines of one kind of loss; UINT64_MAX if it is larger. */
uint64_t kt_ledger_lost(const kineto_trace *t, kt_loss loss);
/** True if the ledger has a line with a count that is not 0, of this source and reason;
 *  NULL: any. */
bool kt_ledger_has(const kineto_trace *t, const char *source, const char *reason);
/** True if the end of the file is missing, with an unknown number of events. */
bool kt_ledger_is_cut(const kineto_trace *t);
bool kt_ledger_line_is_cut(const kineto_ledger_line *line); /* the line that states it */
/** Does the line say that something was not recorded, without a number of lost events? Programs, plug-ins and the
 *  Python module write such lines, and files have their texts only. So a phrase in the reason is the mark
 *  (KT_GAP_PHRASES): a source that could not record says "… not recorded", or one of the others. */
bool kt_ledger_line_is_gap(const kineto_ledger_line *line);
/** Events of a source that ended before they began, and so have no length. @param source  NULL: of all sources. */
uint64_t kt_ledger_bad_times(const kineto_trace *t, const char *source);
/** The version of ckineto that wrote the file; "": another program. */
const char *kt_writer_version(const kineto_trace *t);
kineto_string kt_track_text_of(const kineto_trace *t, uint32_t track);
/* True if a track belongs to a device; *device receives the number of the device, or of the
 * process. */
bool kt_track_device(const kineto_trace *t, uint32_t track, int64_t *device);
/* True if a process row holds counters of a device: it is one, or its name is like "GPU 0
 * Counters". */
bool kt_process_counts_device(const kineto_trace *t, uint32_t process);

/* Builds derived columns now: order and lanes, and if requested parents and self times, and
 * launches. False: out of memory; accessors would return nothing. */
bool kt_prepare(const kineto_trace *t, bool nesting, bool links);

/* The clock of the recording, for readers of other sources; false: it has no snapshots. */
bool kt_clock_fit(const kineto_trace *t, kb_clock_fit *fit);
#endif
