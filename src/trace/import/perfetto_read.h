/* Reading Perfetto's trace format (.pftrace): what the files of this reader share.
 *
 * perfetto.c walks over the packets, twice: first for what packets may refer to before it comes (descriptions of
 * tracks, clocks, the tables of ckineto's own files), then for the events. perfetto_clocks.c converts times,
 * perfetto_state.c follows the incremental state of each sequence of packets, perfetto_tracks.c finds the track of
 * an event, perfetto_events.c makes rows of track events, perfetto_args.c their arguments, perfetto_sched.c rows of
 * the scheduler's events, perfetto_gpu.c those of GPUs, perfetto_own.c reads the tables of files that ckineto wrote. */
#ifndef KT_PERFETTO_READ_H
#define KT_PERFETTO_READ_H

#include "trace/import/activities.h"
#include "trace/import/wire.h"

/* Fields of messages: PF_<message>_<field>. */
enum {
    PF_TRACE_PACKET = 1,

    /* A packet: times and state of its sequence, and one payload. */
    PF_PACKET_FTRACE = 1,
    PF_PACKET_PROCESS_TREE = 2,
    PF_PACKET_UID = 3,
    PF_PACKET_CHROME_EVENTS = 5,
    PF_PACKET_CLOCKS = 6,
    PF_PACKET_TIMESTAMP = 8,
    PF_PACKET_SEQUENCE = 10,
    PF_PACKET_TRACK_EVENT = 11,
    PF_PACKET_INTERNED = 12,
    PF_PACKET_FLAGS = 13,
    PF_PACKET_STATE_CLEARED = 41,
    PF_PACKET_DROPPED = 42,
    PF_PACKET_PROCESS = 43,
    PF_PACKET_THREAD = 44,
    PF_PACKET_COMPRESSED = 50,
    PF_PACKET_GPU_COUNTER = 52,
    PF_PACKET_GPU_STAGE = 53,
    PF_PACKET_CLOCK_ID = 58,
    PF_PACKET_DEFAULTS = 59,
    PF_PACKET_TRACK = 60,
    PF_PACKET_SAMPLE = 66,
    PF_PACKET_ZSTD = 133,

    /* What packets of a sequence have in common. */
    PF_DEFAULTS_EVENT = 11,
    PF_DEFAULTS_CLOCK = 58,
    PF_EVENT_DEFAULTS_TRACK = 11,
    PF_EVENT_DEFAULTS_COUNTERS = 31,

    /* Tables of a sequence: texts by their numbers. */
    PF_INTERNED_CATEGORY = 1,
    PF_INTERNED_NAME = 2,
    PF_INTERNED_KEY = 3,
    PF_INTERNED_CONTEXT = 23,
    PF_INTERNED_GPU_STAGE = 24,
    PF_INTERNED_TEXT = 29,
    PF_INTERNED_LAST = 64, /* of fields that may hold interned texts */
    PF_INTERNED_IID = 1,
    PF_INTERNED_STRING = 2,

    /* A track, and what makes it a process, a thread or a counter. */
    PF_TRACK_UUID = 1,
    PF_TRACK_NAME = 2,
    PF_TRACK_PROCESS = 3,
    PF_TRACK_THREAD = 4,
    PF_TRACK_PARENT = 5,
    PF_TRACK_COUNTER = 8,
    PF_TRACK_STATIC_NAME = 10,
    PF_TRACK_RANK = 12,
    PF_TRACK_ATRACE_NAME = 13,

    PF_PROCESS_PID = 1,
    PF_PROCESS_SORT = 3,
    PF_PROCESS_NAME = 6,
    PF_PROCESS_LABEL = 8,
    PF_THREAD_PID = 1,
    PF_THREAD_TID = 2,
    PF_THREAD_SORT = 3,
    PF_THREAD_NAME = 5,
    PF_COUNTER_UNIT = 3,
    PF_COUNTER_MULTIPLIER = 4,
    PF_COUNTER_INCREMENTAL = 5,
    PF_COUNTER_UNIT_NAME = 6,

    /* An event of a track. */
    PF_EVENT_CATEGORY_IID = 3,
    PF_EVENT_ANNOTATION = 4,
    PF_EVENT_LEGACY = 6,
    PF_EVENT_TYPE = 9,
    PF_EVENT_NAME_IID = 10,
    PF_EVENT_TRACK = 11,
    PF_EVENT_EXTRA_VALUES = 12,
    PF_EVENT_CATEGORY = 22,
    PF_EVENT_NAME = 23,
    PF_EVENT_INTEGER = 30,
    PF_EVENT_EXTRA_TRACKS = 31,
    PF_EVENT_FLOW_OLD = 36,
    PF_EVENT_FLOW_END_OLD = 42,
    PF_EVENT_DOUBLE = 44,
    PF_EVENT_FLOW = 47,
    PF_EVENT_FLOW_END = 48,
    PF_EVENT_KIND = 1001, /* of ckineto */

    /* The part of an event that older programs wrote. */
    PF_LEGACY_NAME_IID = 1,
    PF_LEGACY_PHASE = 2,
    PF_LEGACY_DURATION = 3,
    PF_LEGACY_ID = 6,
    PF_LEGACY_SCOPE = 7,
    PF_LEGACY_BIND_ID = 8,
    PF_LEGACY_LOCAL_ID = 10,
    PF_LEGACY_GLOBAL_ID = 11,
    PF_LEGACY_FLOW_DIRECTION = 13,

    /* An annotation, or a value in one. */
    PF_VALUE_KEY_IID = 1,
    PF_VALUE_BOOL = 2,
    PF_VALUE_UINT = 3,
    PF_VALUE_INT = 4,
    PF_VALUE_DOUBLE = 5,
    PF_VALUE_STRING = 6,
    PF_VALUE_POINTER = 7,
    PF_VALUE_NESTED = 8,
    PF_VALUE_JSON = 9,
    PF_VALUE_KEY = 10,
    PF_VALUE_ENTRY = 11,
    PF_VALUE_ITEM = 12,
    PF_VALUE_PROTO = 14,
    PF_VALUE_STRING_IID = 17,
    PF_VALUE_IS_TEXT = 1000 /* of ckineto */
};
/* Types of events. */
enum { PF_TYPE_BEGIN = 1, PF_TYPE_END = 2, PF_TYPE_INSTANT = 3, PF_TYPE_COUNTER = 4 };
/* Clocks of the system that matter here; ids of a sequence's own clocks are between the last two. */
enum { PF_CLOCK_REALTIME = 1, PF_CLOCK_MONOTONIC = 3, PF_CLOCK_BOOTTIME = 6, PF_FIRST_OWN_CLOCK = 64, PF_LAST_OWN_CLOCK = 127 };

#define PF_NONE UINT32_MAX /* no index */

/* ---- clocks ----------------------------------------------------------------------------------- */

typedef struct pf_reading {
    int64_t clock, common; /* the same moment on this clock and on the common one */
} pf_reading;

typedef struct pf_clock {
    /* How many nanoseconds a unit of its times has. */
    uint64_t unit_ns;
    bool is_incremental;
    int64_t last; /* of an incremental one: its time at the packet before */
    KB_VEC(pf_reading) readings;
} pf_clock;

/* A packet with readings, of the first pass. */
typedef struct pf_snapshot {
    kineto_string bytes;
    uint32_t sequence;
} pf_snapshot;

typedef struct pf_clocks {
    /* All snapshots of the file, in its order. */
    KB_VEC(pf_snapshot) snapshots;
    KB_VEC(pf_clock) clocks;
    kb_map numbers;          /* sequence << 32 | id (0 << 32: of all sequences) → index in clocks */
    uint32_t common;         /* id of the clock that all others are converted to */
    /* Of the first snapshot that has both clocks: one offset for the whole trace, so that times do not jump where
     * the time of day was set. */
    int64_t common_to_unix;  /* ns to add */
    bool has_unix;
    uint64_t unknown;        /* packets with a clock without readings */
} pf_clocks;

/* ---- sequences -------------------------------------------------------------------------------- */

/* Interned texts of one field: string ids by number. */
typedef struct pf_texts {
    KB_VEC(uint32_t) low; /* + 1; 0: not interned */
    kb_map high;
} pf_texts;

/* The tables of a sequence that are kept. Contexts of graphics have a pid in place of a text. */
enum { PF_TEXT_CATEGORY, PF_TEXT_NAME, PF_TEXT_KEY, PF_TEXT_VALUE, PF_TEXT_GPU_STAGE, PF_TEXT_CONTEXT, PF_TEXT_KINDS };

typedef struct pf_sequence {
    uint32_t id;
    bool has_packets;
    /* What packets of this sequence have interned since its state was cleared. */
    pf_texts texts[PF_TEXT_KINDS];
    uint64_t track; /* default of its events */
    bool has_track;
    uint32_t clock; /* default of its packets; 0: none */
    int64_t pid, tid; /* of a thread descriptor without a track; tid 0: none */
    uint64_t counters[8]; /* default tracks of extra counter values */
    uint32_t counter_count;
} pf_sequence;

/* ---- tracks ----------------------------------------------------------------------------------- */

typedef struct pf_track {
    uint64_t uuid, parent;
    /* Texts of the file, which stay until the trace is finished. */
    kineto_string name, unit;
    kineto_string thread_name;
    int64_t pid, tid, rank; /* pid, tid 0: none */
    /* Of a counter: its values are in units of this many. */
    int64_t multiplier;
    bool has_children, is_counter, is_incremental, is_described;
    int64_t sum; /* of an incremental counter */
    /* Once it is placed: */
    bool is_placed;
    uint32_t track;      /* of the trace */
    uint32_t series;     /* of an own file: index + 1 */
    uint32_t name_id, key_id; /* of a counter */
} pf_track;

/* A begin or end of a slice, to be joined. Slots of asynchronous ranges have the highest bit, so that they differ from
 * those of tracks. */
typedef struct pf_edge {
    int64_t ns;
    uint32_t slot; /* what ends match begins: index of a pf_track, or of an asynchronous range */
    uint32_t value; /* of a begin: its row; of an end: its set of arguments, or 0 */
    bool is_end;
} pf_edge;

/* An event with a flow id. Ends of slices have no row of their own until they are joined. */
typedef struct pf_flow_end {
    uint64_t id;
    int64_t ns;
    uint32_t row;  /* or, of the end of a slice, the index of its edge */
    uint8_t is_end, of_edge;
} pf_flow_end;

/* A counter row of an own file that waits for its other series. */
typedef struct pf_counter_row {
    bool is_open;
    uint32_t track, name, kind, category;
    int64_t ns;
} pf_counter_row;

/* A series of a counter in a file of ckineto. */
typedef struct pf_series {
    uint32_t track, name, key, kind, category;
} pf_series;

/* ---- the scheduler ---------------------------------------------------------------------------- */

/* A thread that the scheduler knows. Its process is known only if a description or the tree of processes has it. */
typedef struct pf_thread {
    uint32_t track; /* of its states; PF_NONE: not made */
    int64_t tid;
    int64_t out_ns, wake_ns; /* when it left its CPU last and was woken since; INT64_MIN: unknown */
    bool is_runnable;        /* it left its CPU as such */
    int64_t waker;
    uint32_t name; /* string id of its last name */
} pf_thread;

/* Who runs on a CPU, and since when. since_ns is INT64_MIN before its first event. */
typedef struct pf_cpu {
    int64_t since_ns;
    uint32_t thread; /* index; PF_NONE: idle, or not known */
} pf_cpu;

/* An event of the scheduler: a switch of a CPU, or a wake. They are sorted by time before states are made of them, since
 * each CPU has bundles of its own. */
typedef struct pf_switch {
    int64_t ns;
    int64_t prev, next, prev_state; /* of a wake: next is the woken thread, prev the waker */
    uint32_t cpu, prev_name, next_name;
    uint8_t is_wake, is_compact; /* is_compact: prev is the thread that is on the CPU */
    uint32_t order;
} pf_switch;

/* ---- the reader ------------------------------------------------------------------------------- */

/* What is not kept, counted by number of the field. */
typedef struct pf_unread {
    uint32_t id;
    uint64_t count;
} pf_unread;
typedef KB_VEC(pf_unread) pf_unread_list;

/* An entry of the header. */
typedef struct pf_entry {
    kineto_string name, text;
    uint64_t number;
    uint32_t field; /* of a number; 0: a text */
    bool is_json;
} pf_entry;

/* A description that is read when it is known who wrote the file. */
typedef struct pf_description {
    kineto_string bytes;
    bool is_tree;
} pf_description;

typedef struct kt_perfetto {
    /* The rows that are made, and what they are made with. */
    kt_import m;
    kineto_error *err;
    /* no_memory ends all loops; it is reported once, at the end. */
    bool is_first_pass, no_memory;
    kb_arena arena; /* unpacked packets and copies */
    /* Compressed packets are unpacked once, in the first pass, and taken in the same order in the second. */
    KB_VEC(kineto_string) unpacked;
    size_t unpacked_bytes, unpacked_at, file_bytes;

    /* Clocks and sequences. A file may have a sequence for each lane of a row, so that each holds little. */
    pf_clocks clocks;
    KB_VEC(pf_sequence *) sequences;
    kb_map sequence_of_id;
    pf_sequence *sequence; /* the last one */

    /* Tracks by their uuids; those that events refer to and nothing describes are among them. */
    KB_VEC(pf_track) tracks;
    kb_map track_of_uuid;
    kb_map names_of_tracks; /* hash of process and text → 1: taken */
    kb_map async_slots;     /* hash → slot */
    kb_map launch_flows;    /* rows of launches whose arrow has begun */
    uint32_t async_count;
    KB_VEC(pf_edge) edges, open_edges; /* open_edges: of an own file, the innermost last */
    KB_VEC(pf_flow_end) flow_ends;
    /* The value that is being built; one at a time. */
    kt_json_text json;

    /* Of a file that ckineto wrote. */
    kineto_string own; /* the table; empty: another writer */
    bool is_own;
    uint32_t own_properties; /* lists of properties seen so far */
    KB_VEC(uint32_t) own_processes, own_tracks, own_described; /* rows of the trace; own_described: with properties */
    KB_VEC(pf_series) series;
    KB_VEC(pf_entry) entries;
    KB_VEC(pf_description) descriptions;
    kb_map own_states; /* hash of track and start of blocked states that are slices */
    pf_counter_row counter;

    /* The scheduler. */
    KB_VEC(pf_thread) threads;
    kb_map thread_of_tid, tgid_of_tid;
    KB_VEC(pf_cpu) cpus;
    KB_VEC(pf_switch) switches;
    kb_map gpu_names; /* specifications of old files */

    /* String ids of keys that are columns of a row, or have a meaning. */
    uint32_t correlation_key, external_key, finished_key, started_key, lost_key, async_key, value_key, corr_key;
    /* For the ledger. */
    pf_unread_list unread_gpu_fields, unread_chrome, unread_packets, unread_event_fields, unread_phases, unread_ftrace;
    uint64_t bad_packets, bad_events, unmatched_ends, open_slices, deep_values, long_values, proto_values, lone_flows, lost_state;
    uint64_t dropped_packets, extra_doubles, samples, bad_counters, overflown_times;
    /* The file ends within a packet. */
    bool is_cut;
} kt_perfetto;

/* A packet, as far as all events need it. */
typedef struct pf_packet {
    kineto_string bytes;
    pf_sequence *sequence;
    int64_t ns; /* Unix time; valid if has_time */
    bool has_time;
} pf_packet;

/** Counts something that is not read, by its number. */
void pf_count_unread(kt_perfetto *p, pf_unread_list *list, uint32_t id);

/* ---- perfetto_clocks.c ---- */
/** Keeps a snapshot. First pass. False: out of memory. */
bool pf_clocks_add(kt_perfetto *p, kineto_string snapshot, uint32_t sequence);
/** Chooses the common clock, and makes the lists of readings of all others. After the first pass.
 *  @return false: out of memory. */
bool pf_clocks_settle(kt_perfetto *p);
/** Incremental clocks of a snapshot begin again. Second pass. */
void pf_clocks_restart(kt_perfetto *p, kineto_string snapshot, uint32_t sequence);
/** A time of a clock as ns since 1970; clock 0: that of the trace. False: it has no such time. */
bool pf_clocks_convert(kt_perfetto *p, uint32_t sequence, uint32_t clock, uint64_t time, int64_t *ns);
/** Frees everything but the struct. */
void pf_clocks_free(pf_clocks *c);

/* ---- perfetto_state.c ---- */
/** The sequence with this id, which is added if it is new. NULL: out of memory. */
pf_sequence *pf_sequence_find(kt_perfetto *p, uint32_t id);
/** Forgets texts and defaults, as the recorder did. */
void pf_sequence_clear(pf_sequence *s);
/** Frees a sequence. */
void pf_sequence_free(pf_sequence *s);
/** Takes the interned texts of a packet, before its event. */
void pf_intern(kt_perfetto *p, pf_sequence *s, kineto_string interned_data);
/** Takes the defaults of a packet, which count for itself and those that follow. */
void pf_set_defaults(pf_sequence *s, kineto_string defaults);
/** String id of an interned text; false: it was not interned, as in a recording that began late. */
bool pf_text(const pf_sequence *s, uint32_t kind, uint64_t iid, uint32_t *id);

/* ---- perfetto_tracks.c ---- */
/** Takes a description of a track. Several of one track add up. */
void pf_describe_track(kt_perfetto *p, kineto_string descriptor);
/** Takes processes and threads of the system. */
void pf_describe_tree(kt_perfetto *p, kineto_string process_tree);
/** Index of the track with this uuid, which is added if it was not described. PF_NONE: out of memory. */
uint32_t pf_track_find(kt_perfetto *p, uint64_t uuid);
/** Gives it its place in the trace: a row of a process, thread, device or counter. Only the first call does. */
void pf_track_place(kt_perfetto *p, uint32_t index);
/** The track of events without one. */
uint32_t pf_track_of_sequence(kt_perfetto *p, const pf_sequence *s);

/* ---- perfetto_events.c ---- */
/** Makes a row of a track event, or keeps its part of one. Second pass. */
void pf_read_event(kt_perfetto *p, const pf_packet *packet, kineto_string event);
/** Appends a counter row of an own file that is not complete yet. */
void pf_flush_counter(kt_perfetto *p);
/** The kind that a category tells, in the spelling of any vendor. */
uint32_t pf_kind_of_category(kineto_string category, uint32_t otherwise);

/* ---- perfetto_join.c ---- */
/** Joins begins with ends, and flows, at the end. */
void pf_join_events(kt_perfetto *p);

/* ---- perfetto_args.c ---- */
/** Stages an annotation, or puts it into a column of the row. */
void pf_put_annotation(kt_perfetto *p, const pf_sequence *s, kineto_string annotation, kt_row *row);

/* ---- perfetto_sched.c ---- */
/** Keeps the events of the scheduler in a bundle of one CPU. */
void pf_read_ftrace(kt_perfetto *p, const pf_packet *packet, kineto_string bundle);
/** Makes rows of states of all events that were kept. */
void pf_make_states(kt_perfetto *p);

/* ---- perfetto_gpu.c ---- */
/** Makes a row of a piece of work of a GPU. */
void pf_read_gpu_stage(kt_perfetto *p, const pf_packet *packet, kineto_string event);
/** Makes rows of samples of counters of a GPU. */
void pf_read_gpu_counter(kt_perfetto *p, const pf_packet *packet, kineto_string event);

/* ---- perfetto_own.c ---- */
/** A member of the header; the tables of ckineto's own files are kept for pf_read_own. First pass. */
void pf_read_metadata(kt_perfetto *p, kineto_string bundle);
/** Processes, tracks, series, ledger of a file that ckineto wrote. */
void pf_read_own(kt_perfetto *p);
#endif
