/* The state of building a trace from a recording, and the functions that the files of this
 * folder share.
 *
 * build.c runs the passes; the other files implement them and the parts of a row. All texts
 * of the recording (kineto_string) are borrowed from its dictionary, which stays in place
 * until the trace is built. */
#ifndef KT_BUILD_H
#define KT_BUILD_H

#include "base/device_clock_line.h"
#include "trace/from_recording/symbols.h"
#include "trace/model/model.h"
#include <ckineto/plugin.h>

/* Correlation ids, external ids and flow ids are unique in a trace: the ids of each process
 * after the first get the number of the process in the bits from here on. */
#define KT_ID_PROCESS_SHIFT 48

/* A process of the operating system; several producers may have announced it. */
typedef struct kt_build_process {
    uint32_t pid;
    uint64_t start_time, exec_id;
    uint32_t row;    /* process row of the trace; KT_NONE until it has an event */
    uint32_t number; /* see KT_ID_PROCESS_SHIFT; KT_NONE until it has an id */
    int64_t ppid;
    uint32_t writers[2]; /* dictionary entries of its first two recorders, see KT_WRITER */
    uint32_t below;      /* options.root_pid: 0 unknown, 1 it or a descendant of it, 2 neither */
    kt_symbols *symbols; /* of its modules; NULL: none were recorded */
    kineto_string name, command, given_name;
    kineto_string rank; /* its recorded place in a job: {"rank":1,"world_size":2} */
} kt_build_process;
#define KT_NONE UINT32_MAX

/* Sizes of the caches of streams and names; powers of two. */
#define KT_BUILD_STREAMS 16
#define KT_BUILD_NAMES   1024

/* Size of the cache of sets of args, as a power of two. */
#define KT_BUILD_SET_BITS  12
#define KT_BUILD_SET_HINTS (1u << KT_BUILD_SET_BITS)

/* A set of args of the recording in the trace. */
typedef struct kt_build_set {
    uint32_t number;               /* in the trace; 0: it is empty */
    uint32_t flags;                /* KINETO_ACTIVITY_… of its rows */
    uint32_t first_key, key_count; /* in set_keys */
} kt_build_set;

/* Vendors' spellings of kinds whose string id is cached. */
#define KT_BUILD_SPELLINGS 64

/* A thread that was named or has events. */
typedef struct kt_build_thread {
    uint32_t process, tid; /* process: index of kt_build_process */
    uint32_t track;        /* KT_NONE until it has an event */
    int32_t order;         /* sort index by a source, 0: none */
    kineto_string name, system_name; /* by the program, and by the system */
    uint32_t number; /* the number that operators use for it; 0: none */
    bool has_node;   /* the node_… members hold the node of its last backward operator */
    int64_t node_sequence;
    uint64_t node_forward, node_start;
} kt_build_thread;

/* A packed arg with a shared text. */
#define KT_SHARED_BYTES (KT_ARG_HEAD + sizeof(uint32_t))

/* Inputs (or outputs) that operators had, and the args made of them: sizes, strides, types,
 * values. */
typedef struct kt_build_inputs {
    const uint64_t *words;
    uint32_t word_count;
    uint32_t what;                       /* number of inputs << 1 | they are outputs */
    uint32_t next;                       /* index of the inputs that followed these last time */
    bool broken;                         /* the words are malformed */
    uint8_t packed[4 * KT_SHARED_BYTES]; /* args of a row: sizes, strides, types, values */
} kt_build_inputs;

/* An operator with a sequence number in the autograd graph; `thread` is that of the forward
 * operator. */
typedef struct kt_build_node {
    uint64_t sequence, thread;
    uint32_t process;
    kineto_row row;
    bool backward;
} kt_build_node;

/* An operator or annotation that describes a collective; the kernels of the collective have
 * its external id. */
typedef struct kt_build_collective {
    uint64_t external_id;
    kineto_row row;
    bool is_operator; /* else an annotation */
} kt_build_collective;

/* String ids of keys; 0: not interned yet. */
typedef struct kt_build_keys {
    uint32_t function_id, sequence, forward_thread, event, call_stack, native_stack, modules;
} kt_build_keys;

/* A site of the recording: string ids of its name and arg names. */
typedef struct kt_build_site {
    uint32_t name;   /* string id + 1 */
    uint32_t *keys;  /* string ids of the arg names; KT_NONE: a repeated name */
    bool collective; /* kt_build_is_collective of its name */
} kt_build_site;

typedef struct kt_build_device {
    uint32_t source;
    int64_t device, sort_index;
    kineto_string name, label;
    const uint64_t *props; /* loose args */
    uint32_t prop_words;
} kt_build_device;

typedef struct kt_build_resource {
    uint32_t source, process; /* process: index of kt_build_process */
    int32_t device, resource, order;
    kineto_string name;
} kt_build_resource;

/* The conversion from the time of a device clock to Unix ns, for one recorder. */
typedef struct kt_device_clock {
    uint32_t process, clock;
    kineto_string name;
    bool usable;
    kb_clock_line line;
    double residual_ns;
    KB_VEC(kf_clock_sample) samples;
} kt_device_clock;

/* Records about threads that were watched from outside; `thread` is an index of kt_build_thread. */
typedef struct kt_build_run {
    uint64_t start, end; /* ticks */
    uint32_t thread, cpu, flags; /* KF_RUN_…, KT_BUILD_RUN_UNSEEN */
} kt_build_run;
/* Only its end was seen: `start` is the same, and what was before is not known to be waiting. */
#define KT_BUILD_RUN_UNSEEN (UINT32_C(1) << 30)
typedef struct kt_build_life {
    uint64_t start, end;
    uint32_t thread, flags; /* KF_LIFE_… */
} kt_build_life;
/* The moment from which a blocked thread could run again, where it was seen. */
typedef struct kt_build_wake {
    uint64_t ticks;
    uint32_t thread;
    bool has_waker;
    uint32_t waker_tid; /* 0: an interrupt */
} kt_build_wake;
typedef struct kt_build_sample {
    uint64_t ticks, cpu_ns;
    const uint64_t *addresses; /* innermost first; the first kernel_count are of the kernel */
    uint32_t thread;
    uint16_t count, kernel_count, flags; /* KF_SAMPLE_… */
} kt_build_sample;

/* A frame of a stack that was recorded by name: string ids. */
typedef struct kt_build_frame {
    uint32_t name, module;
} kt_build_frame;

/* Launches, or device activities, by correlation id. */
typedef KB_VEC(kt_correlated) kt_correlated_list;

typedef struct kt_build_state {
    const kf_input *input;
    kf_input input_kept; /* the same without `done`: decoding does not free its chunks */
    const kf_control *control;
    kt_build_options options;
    kt_builder *b;
    kb_clock_fit fit;
    kb_clock_snapshot snapshots[KF_MAX_SNAPSHOTS];
    uint32_t snapshot_count;
    uint64_t first_ticks;     /* of the first snapshot, also if it was dropped */
    int64_t start_ns, end_ns; /* the window; INT64_MIN and INT64_MAX if it is open */
    kf_decode_result decoded; /* counts of the decoder, from PASS_EVENTS on */
    bool out_of_memory;

    KB_VEC(kt_build_process) processes;
    kt_symbols *files; /* symbols of the first process, with whose files all are opened */
    kb_map process_of_entry; /* dictionary id → index */
    KB_VEC(kt_build_device) devices;
    KB_VEC(kt_build_resource) resources;
    KB_VEC(kt_device_clock) clocks;
    KB_VEC(kt_build_site) sites;
    kineto_string source_names[KF_MAX_SOURCES];
    kf_own_kind own_kinds[KINETO_KIND_OWN_COUNT]; /* copied from the control page */
    uint32_t own_category[KINETO_KIND_OWN_COUNT]; /* string ids; 0: not used yet */
    uint32_t spelling_category[KT_BUILD_SPELLINGS];
    uint32_t number_count; /* number of processes with ids so far */
    KB_VEC(kt_build_thread) threads;
    kb_map thread_of_key; /* process << 32 | tid → index */

    /* The current thread, that of the last event. */
    uint32_t last_process, last_pid, last_tid;
    uint32_t here, here_thread; /* indices into processes and threads */
    uint32_t here_writer;       /* its KT_WRITER */
    bool here_valid;

    kt_correlated_list launches, launched;
    KB_VEC(kt_build_inputs) inputs;
    kb_map inputs_of_hash;
    uint32_t last_inputs;   /* index of the inputs of the last operator */
    KB_VEC(uint64_t) words; /* scratch: words of inputs without ids */
    KB_VEC(kt_build_node) nodes;
    KB_VEC(kineto_row) steps; /* rows whose starts PASS_STEPS adjusts */
    /* Direct-mapped caches: most device rows are on a few streams, with a few names. */
    struct {
        uint32_t source, here, track;
        int32_t device, resource;
        bool valid;
    } streams[KT_BUILD_STREAMS];
    struct {
        const char *data;
        size_t size;
        uint32_t id;
    } names[KT_BUILD_NAMES];
    KB_VEC(kt_build_set) sets;
    KB_VEC(uint32_t) set_keys;
    kb_map set_of_entry; /* dictionary id → index */
    struct {
        uint32_t entry, index;
    } set_hints[KT_BUILD_SET_HINTS];
    KB_VEC(kt_build_collective) collectives;
    KB_VEC(kt_build_run) runs;
    kb_map thread_of_tid; /* for those that woke others */
    KB_VEC(kt_build_life) lives;
    KB_VEC(kt_build_wake) wakes;
    KB_VEC(kt_build_sample) samples;
    KB_VEC(kt_build_sample) blocked; /* stacks of threads that had to wait */
    KB_VEC(kt_build_sample) faults;  /* page faults; cpu_ns: how many */
    kb_map code_names;     /* hash of process, site and address → string id, see build_code.c */
    KB_VEC(kt_build_frame) frames;   /* if there are any, addresses of samples are indices of them */
    kb_map ledger_of_text; /* hash of a ledger entry's texts → index of its line */
    uint64_t node_links;
    kt_build_keys function_keys;
    kt_build_post post;          /* answer of options.post for the current operator */
    KB_VEC(char) text;           /* scratch: JSON text under construction */
    KB_VEC(uint32_t) keys;       /* keys of the current row */
    KB_VEC(uint32_t) key_places; /* by key: its index in `keys`, from FEW_KEYS on */
    size_t shared_bytes;         /* texts of the current row that are stored as shared strings */
    uint32_t args_source;        /* the source of the current args */
    /* Filter for loose args: true drops the arg. NULL: none is dropped. */
    bool (*leave_out)(const struct kt_build_state *s, uint32_t key);
    kb_arena arena;
    uint32_t key_correlation, key_external;
    uint64_t out_of_window[KF_MAX_SOURCES], bad_time[KF_MAX_SOURCES], cut_time[KF_MAX_SOURCES];
    uint64_t bad_json[KF_MAX_SOURCES], delivered;
    uint64_t bad_json_meta, long_args, no_clock, bad_entries;
} kt_build_state;

/* ---- build.c ---- */
/** A state without a recording, for readers of other tools' files: a tick is a nanosecond, the window
 *  is open, all kinds are selected. */
kineto_status kt_build_state_create(kt_build_state **out, kineto_error *err);
/** Frees the state, and the builder with what it still owns. NULL is ignored. */
void kt_build_state_free(kt_build_state *s);
/** Sets the times of a row on the host, clipped at the window. False: outside. */
bool kt_build_place(kt_build_state *s, uint64_t start_ticks, uint64_t end_ticks, bool is_open,
                    kt_row *row);

/* ---- build_tables.c: processes, threads, devices, tracks ---- */
/** Callback of the decoder: one entry of the dictionary. */
kineto_status kt_build_entry(void *state, uint32_t id, kf_entry_type type, const uint8_t *payload,
                             size_t size);
/** Symbols of a process, which have no modules yet; has_map: also those of its perf map. NULL: out of
 *  memory. */
kt_symbols *kt_build_create_symbols(kt_build_state *s, uint32_t pid, bool has_map);
/** Adds a ledger line if inlined functions were not looked up for all addresses. */
void kt_build_inlined_line(kt_build_state *s, const char *source);
/** Callback of the decoder: the name of a thread. */
kineto_status kt_build_thread_name(void *state, uint32_t process, uint32_t pid, uint32_t tid,
                                   kineto_string name, bool of_system);
void kt_build_change_thread(kt_build_state *s, uint32_t process, uint32_t pid, uint32_t tid);
/** Makes the process and thread of an event the current ones: state->here, here_thread. */
KB_INLINE void kt_build_select_thread(kt_build_state *s, uint32_t process, uint32_t pid,
                                      uint32_t tid)
{
    if (KINETO_UNLIKELY(!s->here_valid || s->last_process != process || s->last_pid != pid ||
                        s->last_tid != tid))
        kt_build_change_thread(s, process, pid, tid);
}
/** The same for a record that another process wrote about the thread. */
void kt_build_select_watcher(kt_build_state *s, uint32_t process, uint32_t pid, uint32_t tid);
/** The name to show of a thread; empty: it has none. */
kineto_string kt_build_thread_name_of(const kt_build_state *s, uint32_t thread);
/** True if the current process is options.root_pid, which is not 0, or a descendant of it. */
bool kt_build_below_root(kt_build_state *s);
/** Row of a process in the trace, created on first use. */
uint32_t kt_build_process_row(kt_build_state *s, uint32_t process);
uint32_t kt_build_new_thread_track(kt_build_state *s);
/** Track of the current thread, created on first use. */
KB_INLINE uint32_t kt_build_thread_track(kt_build_state *s)
{
    uint32_t track = s->threads.data[s->here_thread].track;
    return KINETO_LIKELY(track != KT_NONE) ? track : kt_build_new_thread_track(s);
}
void kt_build_name_threads(kt_build_state *s);
uint32_t kt_build_device_row(kt_build_state *s, uint32_t source, int64_t device);
uint32_t kt_build_stream_track(kt_build_state *s, uint32_t source, int32_t device,
                               int32_t resource);
/** Number of the current process among those with ids, assigned on first use. */
KB_INLINE uint32_t kt_build_number(kt_build_state *s)
{
    kt_build_process *p = &s->processes.data[s->here];
    if (KINETO_UNLIKELY(p->number == KT_NONE))
        p->number = s->number_count++;
    return p->number;
}
/** An id of the current process, unique in the trace. */
KB_INLINE uint64_t kt_build_id(kt_build_state *s, uint64_t id)
{
    return id ? id + ((uint64_t)kt_build_number(s) << KT_ID_PROCESS_SHIFT) : 0;
}
kineto_string kt_build_source_name(const kt_build_state *s, uint32_t source);
/** Pass: sets the properties of all announced devices. */
void kt_build_devices(kt_build_state *s);

/* ---- build_kinds.c ---- */
/** Pass: copies the recording's table of kinds of plug-ins. */
void kt_build_own_kinds(kt_build_state *s);
void kt_build_special_kind(kt_build_state *s, const kf_event *event, kt_row *row);
/** Sets kind and category of a row. A kind of a plug-in becomes the kind that it is like,
 *  and is added to the trace. */
KB_INLINE void kt_build_kind(kt_build_state *s, const kf_event *event, kt_row *row)
{
    row->kind = event->kind;
    if (KINETO_UNLIKELY(event->kind >= KINETO_KIND_COUNT || event->spelling))
        kt_build_special_kind(s, event, row);
}

/* ---- build_args.c ---- */
/** Args of an event's row. */
void kt_build_stage_args(kt_build_state *s, const kf_event *event, uint32_t *flags);
/** The same for loose args only. */
void kt_build_stage_loose_args(kt_build_state *s, const kf_event *e, const kf_args *args,
                               uint32_t *flags);
/** True if the current row has an arg with this key. */
bool kt_build_has_key(const kt_build_state *s, uint32_t key);
/** Adds a key, which is new, to those of the current row. */
void kt_build_add_key(kt_build_state *s, uint32_t key);
/** Writes a JSON object of loose args into s->text, with "id" and "name" first. */
kineto_string kt_build_object(kt_build_state *s, int64_t id, kineto_string name,
                              const kf_args *args);
const kt_build_site *kt_build_new_site(kt_build_state *s, const kf_site *site);
/** String ids of a site's name and arg names; NULL: out of memory. */
KB_INLINE const kt_build_site *kt_build_site_of(kt_build_state *s, const kf_site *site)
{
    if (KINETO_LIKELY(site->index < s->sites.count && s->sites.data[site->index].name))
        return &s->sites.data[site->index];
    return kt_build_new_site(s, site);
}

/* ---- build_sets.c ---- */
/** Stages the set of args that an event names: before all other args of its row. */
void kt_build_stage_set(kt_build_state *s, const kf_event *e, uint32_t *flags);

/* ---- build_collectives.c ---- */
/** True for the name of an operator or annotation that describes a collective. */
bool kt_build_is_collective(kineto_string name);
/** Remembers a row with such a name that was just appended. */
void kt_build_add_collective(kt_build_state *s, const kf_event *e, const kt_row *row);
/** Pass: copies args of the operators of collectives to their kernels, and adds
 *  "distributedInfo" to the header. */
void kt_build_collectives(kt_build_state *s);
/** True if the header has this key. */
bool kt_build_header_has(const kt_build_state *s, const char *key);
/** Pass: adds an arrow for each message of MPI whose sender and receiver are in the recording. */
void kt_build_messages(kt_build_state *s);
/** Pass: adds "distributedInfo" from recorded ranks, unless the header has it: members that
 *  all ranks share. */
void kt_build_rank(kt_build_state *s);

/* ---- build_args.c: JSON text in state->text ---- */
/** Reserves bytes at the end of the text; NULL: out of memory. */
char *kt_build_reserve(kt_build_state *s, size_t bytes);
/** Sets the end of the text after writing into the reserved bytes. */
void kt_build_advance(kt_build_state *s, const char *end);
void kt_build_append(kt_build_state *s, const char *chars);
void kt_build_append_text(kt_build_state *s, kineto_string text);
void kt_build_append_int(kt_build_state *s, int64_t number);

/* ---- build_inputs.c ---- */
/** Stages the args of an operator's row for its inputs, or outputs. */
void kt_build_stage_inputs(kt_build_state *s, const kf_function *f, bool outputs, uint32_t *flags);

/* ---- build_nodes.c ---- */
/** Gives an operator that evaluates a node the sequence number of that node. */
void kt_build_adopt_node(kt_build_state *s, const kf_event *e, kf_function *f);
/** Remembers an operator with a sequence number for kt_build_nodes. */
void kt_build_add_node(kt_build_state *s, const kf_function *f);
/** Pass: options.adjust_steps: steps begin where the enclosing Python function does. */
void kt_build_steps(kt_build_state *s);
/** Pass: links forward and backward operators by their sequence numbers. */
void kt_build_nodes(kt_build_state *s);

/* ---- build_function.c ---- */
/** Stages args and flags of an operator's row, which is appended next. */
void kt_build_function(kt_build_state *s, const kf_event *e, kt_row *row);
/** Stages stack and modules of an operator that a backend ran, whose row is appended next. */
void kt_build_backend(kt_build_state *s, const kf_event *e);
/** Pass: adds the numbers of threads to the header: "ckineto_threads". */
void kt_build_thread_numbers(kt_build_state *s);

/* ---- build_code.c ---- */
/** True if the first arg of the event is an address of code that names its row. */
bool kt_build_has_code(const kf_event *e);
/** The string id of that name. */
uint32_t kt_build_code_name(kt_build_state *s, const kf_event *e);

/* ---- build_device_clocks.c ---- */
/** Adds a device clock that was announced; its samples are read by kt_build_device_clocks. */
void kt_build_add_clock(kt_build_state *s, uint32_t process, uint32_t clock, kineto_string name);
/** Reads all clock samples and fits every device clock. */
kineto_status kt_build_device_clocks(kt_build_state *s, kineto_error *err);
/** Converts a time of any clock to Unix ns; false: the clock is unknown. */
bool kt_build_ns(const kt_build_state *s, uint32_t process, uint32_t clock, uint64_t time,
                 int64_t *ns);

/* ---- recording_ledger.c ---- */
/** Pass: adds the counters of the recording and of building to the ledger. */
void kt_build_ledger(kt_build_state *s);
#endif
