/* The trace room for the other rooms: building a trace, and looking at it by blocks.
 *
 * A trace is a list of reference-counted immutable blocks (KT_BLOCK_ROWS rows in columns, with a
 * zone map) + tables, seen only through block spans, so that a slice, merge or overlay is a new
 * trace that shares blocks. Rows keep arrival order.
 */
#ifndef KT_TRACE_H
#define KT_TRACE_H

#include "base/base.h"
#include "format/format.h"
#include <ckineto/trace.h>

#define KT_BLOCK_ROWS 65536u

/* Where the args of a row live and how they are packed. */
typedef enum kt_args_form {
    KT_ARGS_NONE = 0,
    KT_ARGS_PACKED = 1, /* kt packed stream, see kt_args_put_… */
    KT_ARGS_JSON = 2,   /* verbatim JSON object text */
    KT_ARGS_IN_FILE = 3 /* the same, in the block's `text`; kt_args_form_of says KT_ARGS_JSON */
} kt_args_form;

/* Rows from `first` on have their args in another text than those before. */
typedef struct kt_text_run {
    uint32_t first;
    struct kt_input *text;
} kt_text_run;

/* Columns of one block. Immutable once the builder has sealed it. */
typedef struct kt_block {
    uint32_t references;
    struct kt_store *store; /* that it is from; NULL: the heap */
    struct kt_slab *columns_slab, *args_slab; /* that they are in; NULL: in none */
    uint32_t count;
    int64_t *start_ns, *end_ns;
    uint32_t *name, *track;
    uint8_t *kind, *form;
    uint16_t *category; /* index into the trace's category table */
    uint16_t *flags;    /* KINETO_ACTIVITY_… in the low byte, kt_args_form << 8, KT_WRITER */
    uint64_t *correlation_id, *external_id;
    uint64_t *args; /* offset:40 | bytes:24 into the block's args heap, or `text` */
    uint8_t *args_heap;
    size_t args_bytes, args_capacity;
    struct kt_input *text; /* of the file that verbatim args stand in; NULL: they are in the heap */
    kt_text_run *more_texts; /* of rows that came from other files: see kt_block_text */
    uint32_t more_text_count;
    int64_t min_start_ns, max_end_ns; /* zone map */
    uint64_t kinds;
} kt_block;

/* ---- building ---------------------------------------------------------------------------------- */
typedef struct kt_builder kt_builder;

#define KT_NO_CATEGORY UINT32_MAX
/* A row that was put down when it ended, as recorders do: who of its process did, 1 to 3. Where a
 * clock of coarse steps gives rows of one writer the same times, the later encloses. */
#define KT_WRITER(n) ((uint32_t)(n) << 14)
#define KT_WRITER_OF(flags) ((uint32_t)(flags) >> 14 & 3u)
/* One row to append. Strings are interned, args copied, by the call.
 * Correlation ids, external ids and flow ids are unique in a trace: whoever builds a trace of
 * several processes makes them so (as the written formats know no other scope). */
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
/* NULL is fine; a finished builder holds nothing of the trace. */
void kt_builder_destroy(kt_builder *b);

/* Interned id of bytes; 0 is "". Out of memory sticks in the builder and shows at finish. */
uint32_t kt_string(kt_builder *b, kineto_string s);

/* Index of the process (device) with this identity, created on first use. `exec` tells images of
 * one pid apart and may be 0. */
uint32_t kt_process(kt_builder *b, bool is_device, int64_t pid, uint64_t exec);
/* Set properties; empty strings and negative ranks leave what is there. */
void kt_process_set(kt_builder *b, uint32_t process, const kineto_process *properties);
/* A process row that other tools know by a text instead of a number ("Spans"). */
uint32_t kt_process_text(kt_builder *b, kineto_string text);
/* Index of the track, created on first use. */
uint32_t kt_track(kt_builder *b, uint32_t process, kineto_track_type type, int64_t id);
void kt_track_set(kt_builder *b, uint32_t track, kineto_string name, int64_t sort_index);
/* A track of type OTHER that is known by a text. */
uint32_t kt_track_text(kt_builder *b, uint32_t process, kineto_string text);

/* Args of the next row: put them, in order, then append the row. Keys are kt_string ids. */
void kt_args_put_int(kt_builder *b, uint32_t key, int64_t v);
void kt_args_put_uint(kt_builder *b, uint32_t key, uint64_t v);
/* The same, in less room if it is below 2^32. */
void kt_args_put_number(kt_builder *b, uint32_t key, uint64_t v);
void kt_args_put_double(kt_builder *b, uint32_t key, double v);
void kt_args_put_bool(kt_builder *b, uint32_t key, bool v);
void kt_args_put_string(kt_builder *b, uint32_t key, kineto_string raw_bytes);
/* INTS, STRINGS, SHAPES, JSON: text must be valid JSON. */
void kt_args_put_json(kt_builder *b, uint32_t key, kineto_arg_type type, kineto_string json);
/* The same for a text that many rows share: by its kt_string id. */
void kt_args_put_shared(kt_builder *b, uint32_t key, kineto_arg_type type, uint32_t text);
/* What was put becomes a set that many rows share; nothing is put any more. @return its number; 0: it
 * is empty, or longer than the args of a row may be. */
uint32_t kt_args_make_set(kt_builder *b);
/* The first thing that is put of a row, if it has one: its args are those of the set, and then its own.
 * Set 0 is none. */
void kt_args_put_set(kt_builder *b, uint32_t set);
/* Instead of put: the whole args object, verbatim valid JSON. "correlation" and "External id" in
 * it are the caller's to copy into columns; iteration leaves them out. */
void kt_args_verbatim(kt_builder *b, kineto_string json_object);

/* Append; returns the row number. */
kineto_row kt_append(kt_builder *b, const kt_row *row);

/* State one end of a flow; ends with the same (type, id) are joined at finish, in the order of
 * their rows' starts: each finish with the last start before it, or with the first one if none is
 * (device clocks are never exact); unmatched ends keep KINETO_NO_ROW. */
void kt_flow(kt_builder *b, uint32_t type, uint64_t id, kineto_row row, bool start);

void kt_ledger_add(kt_builder *b, kineto_string source, kineto_string reason, uint64_t count,
                   bool is_loss, kineto_string detail);
/* Later values of a key win. Value must be valid JSON; what is not is stored as a JSON string. */
void kt_metadata(kt_builder *b, kineto_string key, kineto_string json_value);
void kt_snapshot(kt_builder *b, const kb_clock_snapshot *snapshot);
/* A category of a plug-in's own, and the neutral kind that its rows have. The first word counts. */
void kt_own_kind(kt_builder *b, kineto_string category, uint32_t kind);
/* Kind of such a category; -1 if it is none. */
int kt_own_kind_find(const kt_builder *b, kineto_string category);
void kt_window(kt_builder *b, int64_t start_ns, int64_t end_ns);

/* Append what the device did for each user annotation: for every (annotation, device track) one
 * GPU_USER_ANNOTATION slice over the activities launched inside. Call once, before finish. */
void kt_project_user_annotations(kt_builder *b);

/* Seal into a trace. The builder is empty afterwards, destroy it. */
kineto_status kt_builder_finish(kt_builder *b, kineto_trace **out, kineto_error *err);

/* ---- from recorded chunks (build.c) ------------------------------------------------------------ */
/* Which part of a recording becomes the trace. */
/* What somebody says of an operator when the trace is built: "frame;frame;", "Module.Module." */
typedef struct kt_build_post {
    KB_VEC(char) stack, modules;
    bool out_of_memory;
} kt_build_post;
typedef struct kt_build_thread_span {
    uint32_t tid;
    uint64_t from_ticks, to_ticks; /* to 0: to the end */
} kt_build_thread_span;
/* What whoever asks for the trace adds to its header, and to its ledger. */
typedef struct kt_build_header {
    const char *key, *json_value;
} kt_build_header;
typedef struct kt_build_note {
    const char *source, *reason, *detail;
    uint64_t count;
    bool is_loss;
} kt_build_note;
typedef struct kt_build_options {
    uint64_t kinds;                  /* mask */
    uint64_t start_ticks, end_ticks; /* window; end 0: to the end */
    /* The window exactly, in place of ticks, by the clock that is found; 0: ticks hold. Clock snapshots
     * from `epoch_ticks` on count only, so that times are those of the wall clock then, and not of the
     * wall clock when the process began, however long ago that was. */
    int64_t from_ns, until_ns;
    uint64_t epoch_ticks;
    uint64_t from_ticks, until_ticks; /* of these times, if they are known better; 0: they are not */
    const kt_build_thread_span *threads; /* what begins on these, at these times; NULL: all */
    size_t thread_count;
    const kt_build_thread_span *pauses; /* what begins in these is left out; tid is 0 */
    size_t pause_count;
    uint32_t wants;                  /* KF_WANT_… of operators; 0: all that was recorded */
    bool overloads;                  /* names are "name.overload" */
    bool adjust_steps;               /* "ProfilerStep#…" begin where what encloses them does */
    bool no_links;                   /* none from forward to backward operators */
    /* Asked of each operator and backend event; may add to its stack and modules. NULL: nobody. */
    void (*post)(void *context, int64_t debug_handle, kt_build_post *post);
    void *post_context;
    const char *const *metadata; /* keys of the header with the value 1 */
    uint32_t metadata_count;
    const kt_build_header *header; /* more keys */
    uint32_t header_count;
    const kt_build_note *notes; /* lines of the ledger besides */
    uint32_t note_count;
    /* Called when everything has been read: may add to the ledger and the header. NULL: nobody. */
    void (*sign)(void *context, kt_builder *b);
    void *sign_context;
    uint32_t root_pid;               /* 0: all; else this process and those below it */
    const char *broken_off; /* why the recording is not whole, for the ledger; NULL: it is */
    bool is_over;           /* sessions of plug-ins that have not ended never will */
    bool clip_open;         /* ranges still open end at the window's end, flagged */
    uint64_t asked_from;    /* ticks: a ring was to reach back to there; 0: it begins at start_ticks */
    uint64_t complete_from; /* ticks: of what was recorded before, parts may be gone */
    /* What the program says of its own accord counts from `said_from` on (0: of the header all, of the
     * ledger what is inside the window), and up to `said_until` (0: to the window's end). */
    uint64_t said_from, said_until;
} kt_build_options;

/* Decode the chunks of `input` with the control page's clocks and counters into a trace. */
kineto_status kt_build(const kf_input *input, const kf_control *control,
                       const kt_build_options *options, kineto_trace **out, kineto_error *err);

/* ---- kinds --------------------------------------------------------------------------------------- */

/** A call of the host's that may launch work. */
static inline bool kt_kind_is_launch(uint32_t kind)
{
    return kind == KINETO_KIND_RUNTIME || kind == KINETO_KIND_DRIVER;
}
/** Does a queue of a device run it, and is busy with it? */
static inline bool kt_kind_is_work(uint32_t kind)
{
    return kind == KINETO_KIND_CONCURRENT_KERNEL || kind == KINETO_KIND_GPU_MEMCPY ||
           kind == KINETO_KIND_GPU_MEMSET;
}
/** Does it stand on a device, after a call of the host? */
static inline bool kt_kind_is_device(uint32_t kind)
{
    return kt_kind_is_work(kind) || kind == KINETO_KIND_COLLECTIVE_COMM ||
           kind == KINETO_KIND_CUDA_SYNC || kind == KINETO_KIND_CUDA_EVENT;
}

/** The process row that stands for a device: of an NPU, whose rows several processes hold, the one with
 *  its streams. */
uint32_t kt_device_process(const kineto_trace *t, uint32_t process);
/** Is it about other rows and not a thing that the program did? So are spans of recorders ("Trace"), and
 *  lists that repeat the work of a device ("Overlap Analysis", XLA's "Steps"). */
bool kt_row_is_summary(const kineto_trace *t, kineto_row row);

/* ---- looking by blocks, for writers and analysis ------------------------------------------------ */
uint32_t kt_block_count(const kineto_trace *t);
const kt_block *kt_block_at(const kineto_trace *t, uint32_t index);
kineto_string kt_category_string(const kineto_trace *t, uint16_t category);
uint64_t kt_async_id(const kineto_trace *t, kineto_row row);
/* Does the trace come from a file? Then writers add no names of rows and no arguments of their own. */
bool kt_was_read(const kineto_trace *t);
/* What the times of its file counted from; 0: from 1970, or it is of no file. */
int64_t kt_file_base_ns(const kineto_trace *t);
/* Categories of plug-ins' own, as stated by kt_own_kind; empty past the end. */
uint32_t kt_own_kind_count(const kineto_trace *t);
kineto_string kt_own_kind_at(const kineto_trace *t, uint32_t index, uint32_t *kind);

/* What the file says of a flow of the program's own: string ids, 0: nothing. Args are JSON objects. */
typedef struct kt_flow_about {
    uint32_t category, name, from_args, to_args;
} kt_flow_about;
kt_flow_about kt_flow_about_of(const kineto_trace *t, uint64_t flow);
/* Where a device's properties stand in the list of the file that was read, from 1 on; 0: in none. */
uint32_t kt_process_place(const kineto_trace *t, uint32_t process);
/* Is the id of a track what the file that was read has for its "tid"? */
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
    bool shared;        /* text is a string of the trace: `text_id`; it may be longer than the span */
    uint32_t text_id;
} kt_arg;
typedef struct kt_args {
    const uint8_t *at, *end;
    const kineto_trace *trace;
    const uint8_t *rest, *rest_end; /* the row's own, behind those of its set */
    uint32_t set;                   /* number of its set; 0: none */
} kt_args;
/* Packed args only; form NONE gives an empty walk. */
kt_args kt_args_of(const kineto_trace *t, const kt_block *block, uint32_t index);
kt_args_form kt_args_form_of(const kt_block *block, uint32_t index);
/* Args of a set; empty if there is none of this number. */
kt_args kt_args_of_set(const kineto_trace *t, uint32_t set);
/* Bytes still to walk. */
KB_INLINE size_t kt_args_bytes(const kt_args *args)
{
    return (size_t)(args->end - args->at) + (size_t)(args->rest_end - args->rest);
}
/* Go on with the row's own args; false: there are none, or this was done. */
KB_INLINE bool kt_args_skip_set(kt_args *args)
{
    if (args->rest == args->rest_end)
        return false;
    args->at = args->rest;
    args->end = args->rest = args->rest_end;
    return true;
}
/* Verbatim args of a row, a JSON object; empty if it has none of that form. Valid until this thread
 * has looked at the args of KT_TEXT_VIEWS other rows. */
#define KT_TEXT_VIEWS 8u
kineto_string kt_args_text(const kineto_trace *t, kineto_row row);
/* Room for a text that a reader of arguments makes. Valid until this thread has asked for KT_TEXT_ROOMS
 * others; NULL: out of memory. */
#define KT_TEXT_ROOMS 16u
char *kt_text_room(size_t bytes);
/* The number that an argument is, or that its text says, as "12" and, where JSON has no number for it,
 * "nan" and "inf" do; false: it is none. */
bool kt_arg_number(const kineto_arg *arg, double *out);
/* The same of whole numbers: fractions are cut off; false also for what does not fit. */
bool kt_arg_whole(const kineto_arg *arg, int64_t *out);
/* A file whose args were asked for and cannot be had any more, since it has changed; NULL: none. */
const char *kt_args_lost_file(const kineto_trace *t);
/* Does a member of a verbatim object repeat what a column or flag of its row says? */
bool kt_args_member_is_column(kineto_string key, kineto_string raw_value, uint32_t flags);

/* A packed argument is: key u32, type u8, then a value of 8 bytes, or u32 size + bytes; or, as bits of
 * the type say, the u32 id of a text, or a number below 2^32. In front of a row's there may stand one
 * thing of KT_ARG_HEAD bytes that is no argument: the number of a set, and KT_ARG_SET. */
#define KT_ARG_HEAD 5u
#define KT_ARG_SHARED 0x80u
#define KT_ARG_SMALL 0x40u
#define KT_ARG_SET (KT_ARG_SHARED | KT_ARG_SMALL)
/* The rest of kt_args_step: what stands in four bytes. */
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

/* Text that stands for the number in `pid` or `id`; data is NULL for ordinary rows. */
kineto_string kt_process_text_of(const kineto_trace *t, uint32_t process);
/** What a line of the ledger counts that is a loss: events that were not recorded, events of a file that
 *  its reader could not keep, processes with an unknown number of events. */
typedef enum kt_loss { KT_LOSS_NONE, KT_LOSS_RECORDING, KT_LOSS_READING, KT_LOSS_PROCESSES } kt_loss;
#define KT_SOURCE_UNRECORDED "processes not recorded"
#define KT_SOURCE_RUNNING    "processes"
#define KT_SOURCE_STEPS      "steps"
kt_loss kt_ledger_loss(const kineto_ledger_line *line);
/** Sum of the lines of one kind of loss; UINT64_MAX if it is larger. */
uint64_t kt_ledger_lost(const kineto_trace *t, kt_loss loss);
/** Is there a ledger line with a count that is not 0, of this source and reason? NULL: of any. */
bool kt_ledger_has(const kineto_trace *t, const char *source, const char *reason);
/** Is the end of the file that the trace was read from missing, with an unknown number of events? */
bool kt_ledger_is_cut(const kineto_trace *t);
bool kt_ledger_line_is_cut(const kineto_ledger_line *line); /* is this what says so? */
/** The version of ckineto that wrote the file which the trace was read from; "": another program. */
const char *kt_writer_version(const kineto_trace *t);
kineto_string kt_track_text_of(const kineto_trace *t, uint32_t track);
/* Is a track one of a device? *device receives its number, else the process'. */
bool kt_track_device(const kineto_trace *t, uint32_t track, int64_t *device);
/* Does a process row hold counters of a device? It is one, or has a name like "GPU 0 Counters". */
bool kt_process_counts_device(const kineto_trace *t, uint32_t process);

/* Build what follows from the columns now: order and lanes, parents and own times, launches. False:
 * out of memory, and views of it would be empty. */
bool kt_prepare(const kineto_trace *t, bool nesting, bool links);

/* Clock of the trace's recording, for readers of other sources; false if it had no snapshots. */
bool kt_clock_fit(const kineto_trace *t, kb_clock_fit *fit);
#endif
