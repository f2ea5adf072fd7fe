/* Inside of building a trace from a recording: what the build_*.c files share. */
#ifndef KT_BUILD_H
#define KT_BUILD_H

#include "base/clock_line.h"
#include "trace/from_recording/symbols.h"
#include "trace/model/model.h"
#include <ckineto/plugin.h>

/* The first of this many (or fewer) processes with ids of their own keeps them as they are; those
 * of the others get the process' number in the upper bits: correlation ids, external ids and flow
 * ids are one name space in a trace. */
#define KT_ID_PROCESS_SHIFT 48

/* A process of the operating system; several producers may have announced it. */
typedef struct kt_build_process {
    uint32_t pid;
    uint64_t start_time, exec_id;
    uint32_t row;    /* in the trace; KT_NONE until it has an event */
    uint32_t number; /* of its ids; KT_NONE until it has one */
    int64_t ppid;
    uint32_t writers[2]; /* entries of those that write for it, the first ones */
    uint32_t below; /* options.root_pid: 0 not looked at, 1 it or below it, 2 not */
    kt_symbols *symbols; /* of its modules; NULL: none were told */
    kineto_string name, command, given_name;
    kineto_string rank; /* what it said of its place among others: {"rank":1,"world_size":2} */
} kt_build_process;
#define KT_NONE UINT32_MAX

/* Streams and names that are remembered; powers of two. */
#define KT_BUILD_STREAMS 16
#define KT_BUILD_NAMES   1024

/* Sets of args that are found at once: two to the power of so many. */
#define KT_BUILD_SET_BITS  12
#define KT_BUILD_SET_HINTS (1u << KT_BUILD_SET_BITS)

/* A set of args that was met. */
typedef struct kt_build_set {
    uint32_t number;               /* in the trace; 0: it is empty */
    uint32_t flags;                /* KINETO_ACTIVITY_… of its rows */
    uint32_t first_key, key_count; /* in set_keys */
} kt_build_set;

/* Vendors' spellings whose string id is remembered. */
#define KT_BUILD_SPELLINGS 64

/* A thread that was named or has events. */
typedef struct kt_build_thread {
    uint32_t process, tid; /* process: index of kt_build_process */
    uint32_t track;        /* KT_NONE until it has an event */
    int32_t order;         /* that a source gave it, 0: none */
    kineto_string name, system_name; /* as the program gave it; as the system has it */
    uint32_t number; /* as operators know it; 0: none */
    bool has_node;   /* of the autograd graph, that its last backward operator told */
    int64_t node_sequence;
    uint64_t node_forward, node_start;
} kt_build_thread;

/* A packed arg with a shared text. */
#define KT_SHARED_BYTES (KT_ARG_HEAD + sizeof(uint32_t))

/* A set of inputs of operators, and the texts of it: sizes, strides, types, values. */
typedef struct kt_build_inputs {
    const uint64_t *words;
    uint32_t word_count;
    uint32_t what;                       /* number of inputs, and whether they are outputs */
    uint32_t next;                       /* the set that came after this one the last time */
    bool broken;                         /* the words are not what they should be */
    uint8_t packed[4 * KT_SHARED_BYTES]; /* args of a row: sizes, strides, types, values */
} kt_build_inputs;

/* An operator with a number in the autograd graph; thread: of the forward one. */
typedef struct kt_build_node {
    uint64_t sequence, thread;
    uint32_t process;
    kineto_row row;
    bool backward;
} kt_build_node;

/* An operator or annotation that says what a collective is about; its kernels have its external id.
 */
typedef struct kt_build_collective {
    uint64_t external_id;
    kineto_row row;
    bool is_operator; /* else an annotation */
} kt_build_collective;

/* String ids of keys; 0: not met yet. */
typedef struct kt_build_keys {
    uint32_t function_id, sequence, forward_thread, event, call_stack, native_stack, modules;
} kt_build_keys;

/* What is remembered per site: its strings in the trace. */
typedef struct kt_build_site {
    uint32_t name;   /* string id + 1 */
    uint32_t *keys;  /* string ids of the arg names; KT_NONE: its name is there already */
    bool collective; /* its name is one of those that tell of collectives */
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

/* device time → Unix ns, of one device clock of one producer */
typedef struct kt_device_clock {
    uint32_t process, clock;
    kineto_string name;
    bool usable;
    kb_clock_line line;
    double residual_ns;
    KB_VEC(kf_clock_sample) samples;
} kt_device_clock;

/* A flow to derive: the launch or the device activity of a correlation id. */
typedef KB_VEC(kt_correlated) kt_correlated_list;

typedef struct kt_build_state {
    const kf_input *input;
    kf_input input_kept; /* the same; passes over it leave its chunks where they are */
    const kf_control *control;
    kt_build_options options;
    kt_builder *b;
    kb_clock_fit fit;
    kb_clock_snapshot snapshots[KF_MAX_SNAPSHOTS];
    uint32_t snapshot_count;
    uint64_t first_ticks;     /* of the recording, also where earlier snapshots do not count */
    int64_t start_ns, end_ns; /* of the window; INT64_MIN / MAX when open */
    bool out_of_memory;

    KB_VEC(kt_build_process) processes;
    kb_map process_of_entry; /* dictionary id → index */
    KB_VEC(kt_build_device) devices;
    KB_VEC(kt_build_resource) resources;
    KB_VEC(kt_device_clock) clocks;
    KB_VEC(kt_build_site) sites;
    kineto_string source_names[KF_MAX_SOURCES];
    kf_own_kind own_kinds[KINETO_KIND_OWN_COUNT]; /* of the control page, as of the beginning */
    uint32_t own_category[KINETO_KIND_OWN_COUNT]; /* string ids; 0: not met yet */
    uint32_t spelling_category[KT_BUILD_SPELLINGS];
    uint32_t number_count; /* processes with ids so far */
    KB_VEC(kt_build_thread) threads;
    kb_map thread_of_key; /* process << 32 | tid → index */

    /* the thread of the last event */
    uint32_t last_process, last_pid, last_tid;
    uint32_t here, here_thread; /* index of its process, of itself */
    uint32_t here_writer;       /* for KT_WRITER */
    bool here_valid;

    kt_correlated_list launches, launched;
    KB_VEC(kt_build_inputs) inputs;
    kb_map inputs_of_hash;
    uint32_t last_inputs;   /* the set that was met last */
    KB_VEC(uint64_t) words; /* of inputs, without ids */
    KB_VEC(kt_build_node) nodes;
    KB_VEC(kineto_row) steps; /* whose starts are to be adjusted */
    /* What the last rows of devices needed: most are on a few streams, with a few names. */
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
    kb_map ledger_of_text; /* hash of a ledger entry's texts → index of its line */
    uint64_t node_links;
    kt_build_keys function_keys;
    kt_build_post post;          /* what was said of the last operator */
    KB_VEC(char) text;           /* JSON being put together */
    KB_VEC(uint32_t) keys;       /* of the row being put together */
    KB_VEC(uint32_t) key_places; /* by key: where in `keys` it may stand, if that is far behind */
    size_t shared_bytes;         /* of the row's own texts that are stored apart */
    uint32_t args_source;        /* whose args these are */
    /* Of loose args those that nobody wants; NULL: none. */
    bool (*leave_out)(const struct kt_build_state *s, uint32_t key);
    kb_arena arena;
    uint32_t key_correlation, key_external;
    uint64_t out_of_window[KF_MAX_SOURCES], bad_time[KF_MAX_SOURCES], cut_time[KF_MAX_SOURCES];
    uint64_t bad_json[KF_MAX_SOURCES], delivered;
    uint64_t shed; /* ranges */
    uint64_t bad_json_meta, long_args, no_clock, bad_entries;
} kt_build_state;

/* ---- build_rows.c: processes, threads, devices, tracks ---- */
kineto_status kt_build_entry(void *state, uint32_t id, kf_entry_type type, const uint8_t *payload,
                             size_t size);
kineto_status kt_build_thread_name(void *state, uint32_t process, uint32_t pid, uint32_t tid,
                                   kineto_string name, bool of_system);
void kt_build_move(kt_build_state *s, uint32_t process, uint32_t pid, uint32_t tid);
/** Make the process and thread of an event the current one: state->here, here_thread. */
KB_INLINE void kt_build_locate(kt_build_state *s, uint32_t process, uint32_t pid, uint32_t tid)
{
    if (KINETO_UNLIKELY(!s->here_valid || s->last_process != process || s->last_pid != pid ||
                        s->last_tid != tid))
        kt_build_move(s, process, pid, tid);
}
/** Is the current process options.root_pid, which is not 0, or below it? */
bool kt_build_below_root(kt_build_state *s);
/** Row of a process in the trace, made when first needed. */
uint32_t kt_build_process_row(kt_build_state *s, uint32_t process);
uint32_t kt_build_new_thread_track(kt_build_state *s);
/** Track of the current thread, made when first needed. */
KB_INLINE uint32_t kt_build_thread_track(kt_build_state *s)
{
    uint32_t track = s->threads.data[s->here_thread].track;
    return KINETO_LIKELY(track != KT_NONE) ? track : kt_build_new_thread_track(s);
}
void kt_build_name_threads(kt_build_state *s);
uint32_t kt_build_device_row(kt_build_state *s, uint32_t source, int64_t device);
uint32_t kt_build_stream_track(kt_build_state *s, uint32_t source, int32_t device,
                               int32_t resource);
/** Number of the current process among those with ids, given when first asked for. */
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
/** Properties of all announced devices. */
void kt_build_devices(kt_build_state *s);

/* ---- build_kinds.c ---- */
/** Take over the recording's table of plug-ins' own kinds. */
void kt_build_own_kinds(kt_build_state *s);
void kt_build_special_kind(kt_build_state *s, const kf_event *event, kt_row *row);
/** Kind and category of a row; an own kind becomes what it is like, and is told to the trace. */
KB_INLINE void kt_build_kind(kt_build_state *s, const kf_event *event, kt_row *row)
{
    row->kind = event->kind;
    if (KINETO_UNLIKELY(event->kind >= KINETO_KIND_COUNT || event->spelling))
        kt_build_special_kind(s, event, row);
}

/* ---- build_args.c ---- */
void kt_build_put_args(kt_build_state *s, const kf_event *event, uint32_t *flags);
/** The same of loose args alone. */
void kt_build_put_loose(kt_build_state *s, const kf_event *e, const kf_args *args, uint32_t *flags);
/** Was an arg of this key put of the row that is being put together? */
bool kt_build_has_key(const kt_build_state *s, uint32_t key);
/** The row being put together has this key, which it had not. */
void kt_build_key_add(kt_build_state *s, uint32_t key);
/** A JSON object of loose args into s->text, with "id" and "name" first. */
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
/** The set of args that an event names: before all else that is put of its row. */
void kt_build_put_set(kt_build_state *s, const kf_event *e, uint32_t *flags);

/* ---- build_collectives.c ---- */
/** Is it the name of what tells of a collective? */
bool kt_build_is_collective(kineto_string name);
/** Remember a row with such a name that was just appended. */
void kt_build_keep_collective(kt_build_state *s, const kf_event *e, const kt_row *row);
/** Give the kernels of collectives what their operators know, and the header "distributedInfo". */
void kt_build_collectives(kt_build_state *s);
/** Does the header have this key? */
bool kt_build_header_has(const kt_build_state *s, const char *key);
/** The header's distributedInfo, if collectives did not state it: what all ranks have alike. */
void kt_build_rank(kt_build_state *s);

/* ---- build_text.c: into state->text ---- */
/** Room for so many bytes at its end; NULL: out of memory. */
char *kt_build_room(kt_build_state *s, size_t bytes);
/** What was written there ends here. */
void kt_build_advance(kt_build_state *s, const char *end);
void kt_build_put(kt_build_state *s, const char *chars);
void kt_build_put_text(kt_build_state *s, kineto_string text);
void kt_build_put_int(kt_build_state *s, int64_t number);

/* ---- build_inputs.c ---- */
/** Args of an operator's row for its inputs, or outputs. */
void kt_build_inputs_put(kt_build_state *s, const kf_function *f, bool outputs, uint32_t *flags);

/* ---- build_nodes.c ---- */
/** An operator that evaluates a node learns which; one that has a number is kept for linking. */
void kt_build_node_adopt(kt_build_state *s, const kf_event *e, kf_function *f);
void kt_build_node_keep(kt_build_state *s, const kf_function *f);
/** options.adjust_steps: let them begin where the function of Python around them does. */
void kt_build_steps(kt_build_state *s);
/** Link forward and backward operators by their numbers. */
void kt_build_nodes(kt_build_state *s);

/* ---- build_function.c ---- */
/** Args and flags of an operator's row, which is about to be appended. */
void kt_build_function(kt_build_state *s, const kf_event *e, kt_row *row);
/** What the program's tables say of an operator that a backend ran, whose row is about to be
 *  appended. */
void kt_build_backend(kt_build_state *s, const kf_event *e);
/** Say in the header which thread has which number: "ckineto_threads". */
void kt_build_thread_numbers(kt_build_state *s);

/* ---- build_clock.c ---- */
void kt_build_add_clock(kt_build_state *s, uint32_t process, uint32_t clock, kineto_string name);
/** Read all samples and fit every device clock. */
kineto_status kt_build_device_clocks(kt_build_state *s, kineto_error *err);
/** Time of an event in any clock → Unix ns; false if that clock is unknown. */
bool kt_build_ns(const kt_build_state *s, uint32_t process, uint32_t clock, uint64_t time,
                 int64_t *ns);

/* ---- build_ledger.c ---- */
void kt_build_ledger(kt_build_state *s, const kf_decode_result *result);
#endif
