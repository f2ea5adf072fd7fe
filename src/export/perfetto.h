/* The writer of Perfetto's trace format. Each lane is a sequence of packets: its track is the
 * default of its events, so events need not name it; its clock counts from one packet to the next;
 * its interned names have small numbers. Packets of a lane come in the order of time, and lanes one
 * after the other; nothing is sorted. Times are those of CLOCK_REALTIME, which the file declares as
 * the clock of the trace. Field numbers are those of Perfetto's .proto files. */
#ifndef KE_PERFETTO_H
#define KE_PERFETTO_H

#include "export/cpu_rows.h"
#include "export/proto.h"
#include "trace/trace.h"

/* Fields of Perfetto's messages: KE_PF_<message>_<field>. */
enum {
    KE_PF_TRACE_PACKET = 1,

    KE_PF_PACKET_FTRACE = 1,
    KE_PF_PACKET_CHROME_EVENTS = 5,
    KE_PF_PACKET_CLOCK_SNAPSHOT = 6,
    KE_PF_PACKET_TIMESTAMP = 8,
    KE_PF_PACKET_SEQUENCE = 10,
    KE_PF_PACKET_TRACK_EVENT = 11,
    KE_PF_PACKET_INTERNED = 12,
    KE_PF_PACKET_FLAGS = 13,
    KE_PF_PACKET_DEFAULTS = 59,
    KE_PF_PACKET_TRACK = 60,
    KE_PF_PACKET_SAMPLE = 66,

    KE_PF_DEFAULTS_EVENT = 11,
    KE_PF_DEFAULTS_SAMPLE = 12,
    KE_PF_DEFAULTS_CLOCK = 58,

    KE_PF_CLOCKS_CLOCK = 1,
    KE_PF_CLOCKS_PRIMARY = 2,
    KE_PF_CLOCK_ID = 1,
    KE_PF_CLOCK_TIME = 2,
    KE_PF_CLOCK_INCREMENTAL = 3,

    KE_PF_INTERNED_CATEGORY = 1,
    KE_PF_INTERNED_NAME = 2,
    KE_PF_INTERNED_KEY = 3,
    KE_PF_INTERNED_FUNCTION = 5,
    KE_PF_INTERNED_FRAME = 6,
    KE_PF_INTERNED_CALLSTACK = 7,
    KE_PF_INTERNED_PATH = 17,
    KE_PF_INTERNED_MAPPING = 19,
    KE_PF_INTERNED_IID = 1,
    KE_PF_INTERNED_TEXT = 2,

    KE_PF_TRACK_UUID = 1,
    KE_PF_TRACK_NAME = 2,
    KE_PF_TRACK_PROCESS = 3,
    KE_PF_TRACK_THREAD = 4,
    KE_PF_TRACK_PARENT = 5,
    KE_PF_TRACK_COUNTER = 8,
    KE_PF_TRACK_CHILD_ORDER = 11,
    KE_PF_TRACK_RANK = 12,
    KE_PF_TRACK_DESCRIPTION = 14,
    KE_PF_TRACK_MERGING = 15,

    KE_PF_PROCESS_PID = 1,
    KE_PF_PROCESS_SORT_INDEX = 3,
    KE_PF_PROCESS_NAME = 6,
    KE_PF_PROCESS_LABEL = 8,
    KE_PF_THREAD_PID = 1,
    KE_PF_THREAD_TID = 2,
    KE_PF_THREAD_SORT_INDEX = 3,
    KE_PF_THREAD_NAME = 5,
    KE_PF_COUNTER_UNIT_NAME = 6,

    KE_PF_EVENT_CATEGORY = 3,
    KE_PF_EVENT_ANNOTATION = 4,
    KE_PF_EVENT_TYPE = 9,
    KE_PF_EVENT_NAME = 10,
    KE_PF_EVENT_TRACK = 11,
    KE_PF_EVENT_INTEGER = 30,
    KE_PF_EVENT_DOUBLE = 44,
    KE_PF_EVENT_FLOW = 47,
    KE_PF_EVENT_FLOW_END = 48,
    KE_PF_EVENT_KIND = 1001, /* of ckineto, which others skip: a kind that the category does not tell */

    KE_PF_VALUE_KEY = 1, /* interned */
    KE_PF_VALUE_BOOL = 2,
    KE_PF_VALUE_UINT = 3,
    KE_PF_VALUE_INT = 4,
    KE_PF_VALUE_DOUBLE = 5,
    KE_PF_VALUE_STRING = 6,
    KE_PF_VALUE_KEY_TEXT = 10,
    KE_PF_VALUE_ENTRY = 11,
    KE_PF_VALUE_ITEM = 12,
    KE_PF_VALUE_IS_TEXT = 1000, /* of ckineto, which others skip: "[]" is a text, and not an empty list */

    KE_PF_FRAME_FUNCTION = 2,
    KE_PF_FRAME_MAPPING = 3,
    KE_PF_FRAME_PC = 4,
    KE_PF_CALLSTACK_FRAME = 2, /* the outermost first */
    KE_PF_MAPPING_PATH = 7,

    KE_PF_SAMPLE_CPU = 1,
    KE_PF_SAMPLE_PID = 2,
    KE_PF_SAMPLE_TID = 3,
    KE_PF_SAMPLE_CALLSTACK = 4,
    KE_PF_SAMPLE_MODE = 5,
    KE_PF_SAMPLE_COUNT = 6, /* of the timebase: of the CPU, from its first sample on */
    KE_PF_SAMPLE_DEFAULTS_TIMEBASE = 1,
    KE_PF_TIMEBASE_PERIOD = 1,
    KE_PF_TIMEBASE_COUNTER = 4,

    KE_PF_FTRACE_CPU = 1,
    KE_PF_FTRACE_EVENT = 2,
    KE_PF_FTRACE_TIMESTAMP = 1,
    KE_PF_FTRACE_PID = 2,
    KE_PF_FTRACE_SWITCH = 4,
    KE_PF_SWITCH_PREV_COMM = 1,
    KE_PF_SWITCH_PREV_PID = 2,
    KE_PF_SWITCH_PREV_PRIO = 3,
    KE_PF_SWITCH_PREV_STATE = 4,
    KE_PF_SWITCH_NEXT_COMM = 5,
    KE_PF_SWITCH_NEXT_PID = 6,
    KE_PF_SWITCH_NEXT_PRIO = 7,

    KE_PF_BUNDLE_METADATA = 2,
    KE_PF_METADATA_NAME = 1,
    KE_PF_METADATA_STRING = 2,
    KE_PF_METADATA_INT = 4,
    KE_PF_METADATA_JSON = 5
};

/* Values of enumerations. */
enum {
    KE_PF_STATE_CLEARED = 1, /* flags of a packet */
    KE_PF_STATE_NEEDED = 2,
    KE_PF_CLOCK_REALTIME = 1,
    KE_PF_CLOCK_MONOTONIC = 3,
    KE_PF_CLOCK_BOOTTIME = 6,
    KE_PF_CLOCK_OWN = 64, /* a clock of the sequence */
    KE_PF_CHILDREN_EXPLICIT = 3,
    KE_PF_MERGING_NONE = 2,
    KE_PF_TYPE_BEGIN = 1,
    KE_PF_TYPE_END = 2,
    KE_PF_TYPE_INSTANT = 3,
    KE_PF_TYPE_COUNTER = 4,
    KE_PF_MODE_KERNEL = 1, /* of a sample */
    KE_PF_MODE_USER = 2,
    KE_PF_COUNTER_TASK_CLOCK = 3,
    /* States of a thread that leaves a CPU, as Linux 4.4 reports them: Perfetto assumes it where a
     * trace does not name the kernel. */
    KE_PF_LEFT_BLOCKED = 0x1,
    KE_PF_LEFT_ENDED = 0x10,
    KE_PF_LEFT_PREEMPTED = 0x800
};

/* Interned numbers of texts, by an index of the caller; assigned at the first use in a sequence. */
typedef struct ke_pf_ids {
    /* By index: sequence << 32 | number; other sequences do not count. */
    KB_VEC(uint64_t) given;
    uint32_t next;
} ke_pf_ids;

/* Whether a key of verbatim args can repeat a column, see kt_args_member_is_column. */
enum { KE_PF_NO_COLUMN, KE_PF_ID_COLUMN, KE_PF_FLAG_COLUMN };

/* A key of verbatim args. */
typedef struct ke_pf_key {
    kineto_string text; /* unescaped */
    uint32_t column;
} ke_pf_key;

/* The same for the fast path, in a table indexed by a cheap hash of the key's bytes. */
typedef struct ke_pf_slot {
    kineto_string raw; /* as written in the source */
    uint32_t index;    /* into ke_perfetto.keys; 0: free slot */
    uint32_t column;
} ke_pf_slot;
#define KE_PF_SLOTS 256u

/* Keys of columns and flags: they are interned first, in this order. */
enum {
    KE_PF_OWN_CORRELATION = 1,
    KE_PF_OWN_EXTERNAL,
    KE_PF_OWN_FINISHED,
    KE_PF_OWN_STARTED,
    KE_PF_OWN_LOST,
    KE_PF_OWN_ASYNC,
    KE_PF_OWN_END
};
/* Keys share one index space: ids of packed args have even indices, ids of raw texts odd ones. */
#define KE_PF_OWN_INDEX(id) (2 * (id) + 1)

extern const double ke_pf_powers[16];
/** Is the text one that also stands for a value without a type in Perfetto? */
static inline bool ke_pf_is_word(kineto_string text)
{
    return text.size <= 4 && (kb_string_is(text, "[]") || kb_string_is(text, "{}") || kb_string_is(text, "null"));
}

typedef struct ke_pf_track {
    kineto_track view;
    uint64_t uuid;
    int64_t tid; /* 0: a plain track, not a thread */
    bool described;
    uint32_t watched; /* index of its thread in `watched`, + 1; 0: not a row of the source "cpu" */
    bool is_sched;    /* its states are written as events of the scheduler */
} ke_pf_track;

/* A thread with rows of the source "cpu". */
typedef struct ke_pf_watched {
    uint32_t process;
    int64_t tid;
    uint64_t uuid; /* of its track */
    ke_label label;
    bool described; /* it has a track of its own in the trace */
} ke_pf_watched;

/* A time on a CPU. */
typedef struct ke_pf_run {
    int64_t start_ns, end_ns;
    uint32_t watched; /* index of the thread */
    uint16_t cpu, left; /* KE_PF_LEFT_…; 0: it still runs */
} ke_pf_run;

typedef struct ke_pf_process {
    kineto_process view;
    uint64_t uuid;
    int64_t pid; /* 0: a plain track, not a process */
} ke_pf_process;

/* A series of a counter: the track of its samples. */
typedef struct ke_pf_series {
    uint64_t uuid;
    uint32_t track;
    kineto_string name, key;
    uint8_t kind;
    uint16_t category;
} ke_pf_series;

typedef struct ke_perfetto {
    const kineto_trace *trace;
    kb_sink *sink;
    kb_arena arena;
    ke_proto packets;  /* packets that are not in the sink yet */
    ke_proto interned; /* interned texts of the current packet */
    bool out_of_memory;

    /* last_ns: time of the previous packet of the sequence. */
    int64_t base_ns, last_ns;
    uint32_t sequence;
    uint64_t next_uuid;
    ke_pf_process *processes;
    ke_pf_track *tracks;
    KB_VEC(ke_pf_watched) watched;
    KB_VEC(ke_pf_run) runs;   /* by thread and time */
    int64_t realtime_minus_boottime_ns; /* 0: not known, the clock is declared to be the same */
    uint64_t dropped_samples;
    uint64_t first_states; /* states of threads before they ran, which the scheduler's events lack */
    kb_map series; /* hash of (track, name, key) → uuid */
    KB_VEC(ke_pf_series) series_list;
    uint8_t counter_kind; /* of the row whose samples are written */
    uint16_t counter_category;

    ke_pf_ids names, categories, keys;
    KB_VEC(int16_t) category_kinds; /* + 1, by category; 0: not known yet, -1: of none */
    kb_intern raw_keys;         /* keys of verbatim args as written in the source */
    KB_VEC(ke_pf_key) raw_info; /* by id of raw_keys */
    KB_VEC(char) unescaped;
    ke_pf_slot slots[KE_PF_SLOTS];
    /* Prediction of the next key: by kind and slot, the slot of the key that followed last
     * time; entry KE_PF_SLOTS is the first key. Keys of one kind nearly always come in the
     * same order. */
    uint8_t slot_after[KINETO_KIND_COUNT][KE_PF_SLOTS + 1];

    /* By row: first of its entries in flow_ends; NULL: there are no flows. */
    uint32_t *flow_first;
    uint64_t *flow_ends; /* flow << 1 | is the end of the arrow */

    /* Ends of the open slices of the lane, the innermost last. */
    KB_VEC(int64_t) open;
    KB_VEC(kineto_row) sorted; /* rows of a track by lane */
    kineto_export_result all;
    uint64_t clamped, backward_flows;
} ke_perfetto;

/* ---- perfetto.c ------------------------------------------------------------------------------ */
/** Begins a packet of the current sequence; ke_pf_end_packet ends it. */
size_t ke_pf_begin_packet(ke_perfetto *w);
void ke_pf_end_packet(ke_perfetto *w, size_t mark);
/** Clamps times before 1970, which the format cannot express. */
static inline int64_t ke_pf_time(int64_t ns) { return KB_MAX(ns, INT64_C(0)); }
/** The interned number of a text; *fresh: the text has to be written in this packet. 0: out of
 *  memory. */
uint32_t ke_pf_intern_id(ke_perfetto *w, ke_pf_ids *ids, uint32_t index, bool *fresh);
/** Writes a text under its number into the current packet. */
void ke_pf_intern_text(ke_perfetto *w, uint32_t field, uint32_t number, kineto_string text);

/** True if the kind of a row is that of its category; else its packet has it. */
bool ke_pf_has_usual_kind(ke_perfetto *w, const kt_block *b, uint32_t i);

/* ---- perfetto_tracks.c ----------------------------------------------------------------------- */
/** Assigns uuids, pids and tids. False: out of memory. */
bool ke_pf_plan(ke_perfetto *w);
/** Writes the first sequence: clocks, processes, tracks. */
void ke_pf_write_tables(ke_perfetto *w);
/** Writes the description of a track, once. */
void ke_pf_describe_track(ke_perfetto *w, uint32_t track);
/** Writes the description of a lane's track. @return its uuid. */
uint64_t ke_pf_describe_lane(ke_perfetto *w, uint32_t track, uint32_t lane);
/** Writes the description of a watched thread that has no track in the trace. */
void ke_pf_describe_watched(ke_perfetto *w, uint32_t watched);
/** Begins the next sequence, with this track as the default of its events. */
void ke_pf_begin_sequence(ke_perfetto *w, uint64_t uuid);
/** Begins the sequence of samples, one for each `period_ns` of CPU time. */
void ke_pf_begin_samples(ke_perfetto *w, uint64_t period_ns);
/** The track of a counter's series, described at its first use. 0: out of memory. */
uint64_t ke_pf_series_track(ke_perfetto *w, uint32_t track, kineto_string name, kineto_string key);

/* ---- perfetto_sched.c ------------------------------------------------------------------------ */
/** Finds the threads that the source "cpu" watched, and when they ran on which CPU; after
 *  ke_pf_plan_flows. */
bool ke_pf_plan_sched(ke_perfetto *w);
/** Writes the threads that have no other track, and the scheduler's events. */
void ke_pf_write_sched(ke_perfetto *w);
/** True if a state has args or arrows that the scheduler's events do not hold, so that it is also a
 *  slice. After ke_pf_plan_flows. */
bool ke_pf_state_is_slice(const ke_perfetto *w, kineto_row row);
/** The CPU on which a thread ran at this time; false: not known. */
bool ke_pf_cpu_at(const ke_perfetto *w, uint32_t watched, int64_t ns, uint32_t *cpu);

/* ---- perfetto_samples.c ---------------------------------------------------------------------- */
/** Writes CPU samples with their stacks. */
void ke_pf_write_samples(ke_perfetto *w);

/* ---- perfetto_args.c ------------------------------------------------------------------------- */
bool ke_pf_plan_args(ke_perfetto *w);
/** Writes the annotations of an event: columns and args. */
void ke_pf_put_args(ke_perfetto *w, const kt_block *b, uint32_t i, kineto_row row);

/* ---- perfetto_fast.c ------------------------------------------------------------------------- */
/** Writes the begin of a slice, or an instant. False: nothing was written; use the general path. */
bool ke_pf_put_fast(ke_perfetto *w, const kt_block *b, uint32_t i, kineto_row row, uint32_t type);
/** The slot that a key belongs to; it may hold another key. */
static inline ke_pf_slot *ke_pf_slot_of(const ke_perfetto *w, kineto_string key)
{
    uint64_t first = 0, last = 0;
    if (key.size >= sizeof first) {
        memcpy(&first, key.data, sizeof first);
        memcpy(&last, key.data + key.size - sizeof last, sizeof last);
    } else {
        for (size_t i = 0; i < key.size; i++)
            first = first << 8 | (unsigned char)key.data[i];
    }
    uint64_t hash = (first ^ last * 31 ^ key.size) * UINT64_C(0x9e3779b97f4a7c15);
    return (ke_pf_slot *)&w->slots[hash >> 56];
}

/* ---- perfetto_flows.c ------------------------------------------------------------------------ */
bool ke_pf_plan_flows(ke_perfetto *w);
void ke_pf_put_flows(ke_perfetto *w, kineto_row row);
/** The number of an arrow, of an item of flow_ends: its type is in the highest byte, for readers of ckineto's files. */
static inline uint64_t ke_pf_flow_number(const ke_perfetto *w, uint64_t end)
{
    kineto_flow f = {0};
    kineto_trace_flow(w->trace, end >> 1, &f);
    return (uint64_t)(f.type & 0xff) << 56 | ((end >> 1) + 1);
}

/* ---- perfetto_meta.c ------------------------------------------------------------------------- */
/** Writes the last sequence: header, properties of devices, ledger. */
void ke_pf_write_metadata(ke_perfetto *w, const char *trace_name);
/** Writes an entry of the metadata: a JSON value. */
void ke_pf_write_json_entry(ke_perfetto *w, kineto_string name, kineto_string value);

/* ---- perfetto_own.c -------------------------------------------------------------------------- */
/** Writes the table by which ckineto reads the file back, after all events. */
void ke_pf_write_own(ke_perfetto *w);
#endif
