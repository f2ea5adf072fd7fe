/* The NCCL source: a profiler plug-in that NCCL and RCCL load (NCCL_PROFILER_PLUGIN), which is also a plug-in of
 * ckineto and delivers what it is told as activities.
 *
 *   abi.h         the interface of NCCL, versions 1 to 6
 *   versions.c    the six tables that NCCL looks up, and what they make of descriptors: nc_event
 *   translate.c   the reverse, for a plug-in of another version that comes after this one
 *   next.c        the plug-in that would have been loaded without ours
 *   comms.c       communicators, masks of events, the rank of the process
 *   slots.c       open events: handles, and what is known of an event until it is reused
 *   events.c      begin, states and end of events
 *   launches.c    a kernel launch and the collectives in it
 *   rows.c        events as activities
 *   values.c      values that many activities share; texts
 *   clocks.c      the clock of a GPU; which GPU, process and thread this is
 *   profiler.c    the plug-in interface of ckineto: the session
 *   options.c     the user's options
 *   exercise.c    a few collectives without NCCL, for `ckineto plugin check`
 *   doctor.c      what `ckineto doctor` reports
 *
 * NCCL calls from threads of the program, from its proxy and profiler threads, and in any order: a handle that is
 * stopped twice or after its communicator was finalized is recognised by its generation. Nothing here returns an error to
 * NCCL, blocks, or allocates memory while events are recorded. */
#ifndef NC_NCCL_H
#define NC_NCCL_H

#include "abi.h"

#include <ckineto/plugin.h>
#include <ckineto/record.h>

#include <stdatomic.h>

#define NC_COUNT(array) (sizeof(array) / sizeof((array)[0]))
#define NC_COLD         __attribute__((noinline, cold))
#define NC_EXPORT       __attribute__((visibility("default")))
#define NC_TEXT_BYTES   320u

static inline uint64_t nc_get(const atomic_uint_fast64_t *a) { return atomic_load_explicit(a, memory_order_relaxed); }
static inline void nc_set(atomic_uint_fast64_t *a, uint64_t value)
{
    atomic_store_explicit(a, value, memory_order_relaxed);
}
static inline uint64_t nc_mix(uint64_t hash, uint64_t value)
{
    hash = (hash ^ value) * UINT64_C(0x9e3779b97f4a7c15);
    return hash ^ hash >> 32;
}

/* ---- an event, independent of the version ----------------------------------------------------- */

/** Texts are NCCL's and valid during the call. Members that a type does not have are 0. */
typedef struct nc_event {
    uint32_t type;
    int rank;
    void *parent, *parent_group;
    const char *comm_name;
    uint64_t comm_id;
    const char *func, *dtype, *algorithm, *protocol, *sync_strategy;
    uint8_t func_1, dtype_1, algorithm_1, protocol_1; /* as numbers: version 1 */
    uint8_t channels, warps, channel;
    bool is_captured, is_send, is_synced;
    uint64_t sequence, count, bytes;
    const void *send;
    void *receive, *stream, *data;
    int root, peer;
    int64_t pid, net_id;
    int steps, chunk_bytes, step, depth, ranks, operations;
    uint64_t timer;
    uint32_t batch_size, batches, ce_sequence;
    const void *raw; /* the descriptor itself */
} nc_event;

/** A state with its value: bytes, appended operations, a pointer or a time. */
typedef struct nc_state {
    int number, steps;
    uint64_t value;
    const void *raw;
} nc_state;

/* ---- versions.c, translate.c ------------------------------------------------------------------ */

/** Read a descriptor. False: its type is unknown. */
bool nc_read_descriptor(unsigned version, const void *descriptor, nc_event *out);
void nc_read_state(unsigned version, int number, const void *values, nc_state *out);
/** Descriptor bytes of a version; 0: unknown. */
size_t nc_descriptor_bytes(unsigned version);

typedef union nc_descriptor {
    nc_descriptor_1 v1;
    nc_descriptor_2 v2;
    nc_descriptor_3 v3;
    nc_descriptor_4 v4;
    nc_descriptor_6 v6;
} nc_descriptor;
/** The event for a plug-in of version `to`, which is at most `from`; its parents are set from the event. False: that
 *  version does not have the type. */
bool nc_write_descriptor(const nc_event *e, unsigned from, unsigned to, nc_descriptor *out);
typedef union nc_state_values {
    nc_state_1 v1;
    nc_state_4 v4;
} nc_state_values;
/** False: a plug-in of this version does not get the state. */
bool nc_write_state(const nc_state *s, unsigned from, unsigned to, nc_state_values *out);

/* ---- values.c: texts -------------------------------------------------------------------------- */

#define NC_TEXT 40u
/** A text of NCCL's with the names that are made from it. Equal texts have one; static storage. */
typedef struct nc_text {
    uint32_t size, call_size, name_size;
    char text[NC_TEXT];      /* "AllReduce" */
    char call[NC_TEXT + 8];  /* "ncclAllReduce" */
    char name[NC_TEXT + 24]; /* "nccl:all_reduce" */
} nc_text;
/** NULL, or no room, gives the empty text. */
const nc_text *nc_keep_text(const char *text);
/** "all_reduce" of it. */
static inline const char *nc_collective_name(const nc_text *t) { return t->name + 5; }

/* ---- what is known of an event ---------------------------------------------------------------- */

struct nc_comm;
#define NC_NO_SEQUENCE UINT64_MAX

/** Stored as words (slots.c). */
typedef struct nc_facts {
    struct nc_comm *comm;
    void *next;            /* the other plug-in's handle */
    void *parent;          /* NULL also if it is of another process */
    const nc_text *func;
    uint64_t begin;        /* ticks */
    uint64_t timer;        /* GPU time of its begin; 0: none */
    uint64_t sequence;     /* among all collectives of the communicator; NC_NO_SEQUENCE */
    uint64_t its_sequence; /* as NCCL counts: by function */
    uint64_t count, value;
    uint64_t launched;     /* ticks: its kernel was not launched before; 0: not known */
    uint32_t type, session, set, thread;
    int32_t peer, channel;
    uint32_t comm_number;
    uint8_t channels, is_send, is_captured, is_foreign;
} nc_facts;
#define NC_FACT_WORDS (sizeof(nc_facts) / 8)
_Static_assert(sizeof(nc_facts) % 8 == 0, "facts are copied as words");

/* ---- comms.c ---------------------------------------------------------------------------------- */

#define NC_MAX_COMMS  256u
#define NC_SETS       64u
#define NC_NAME_BYTES 64u

/** A set of values that is registered with the host. */
typedef struct nc_value_set {
    uint64_t key; /* a hash of the values */
    uint32_t session, number;
} nc_value_set;

/** A kernel launch whose operations are being reported (launches.c). */
typedef struct nc_launch {
    bool is_open;
    uint32_t operations;
    nc_facts launch, first; /* first: of its operations */
    uint64_t end;           /* ticks */
} nc_launch;

/** NCCL's mask of events: one for each copy of NCCL, shared by its communicators. */
typedef struct nc_mask {
    _Atomic(int *) at;
    atomic_int written;  /* what we stored last; is changed with the lock of comms.c, as the others are */
    atomic_int of_next;  /* what the other plug-in wants */
    uint32_t users;
} nc_mask;

typedef struct nc_comm {
    atomic_uint state; /* see comms.c */
    unsigned version, next_version;
    uint32_t number;
    atomic_uint_fast64_t id;
    int rank, ranks, nodes; /* -1: not known (until version 3) */
    int32_t gpu;            /* -1: not known */
    bool is_world;          /* its ranks are those of the job */
    char name[NC_NAME_BYTES];
    nc_mask *mask;
    const nc_table *next;
    void *next_context;
    atomic_uint_fast64_t sequence; /* collectives so far */
    atomic_uint_fast64_t last_begin, last_launch; /* ticks: of the collective before, of the last launch */
    atomic_uint rows_session;          /* in which its rows were announced */
    atomic_uint_fast64_t rows[4];      /* which ones: bits */
    atomic_flag is_busy;               /* guards `sets` and `launch`: never waited for */
    nc_value_set sets[NC_SETS];
    nc_launch launch;
} nc_comm;

/** What init says of a communicator; -1 and NULL: nothing. */
typedef struct nc_comm_facts {
    int *mask;
    const char *name;
    uint64_t id;
    int nodes, ranks, rank;
} nc_comm_facts;

/** A communicator begins. NULL: no room. */
nc_comm *nc_comm_add(unsigned version, const nc_comm_facts *facts);
/** Set the other plug-in of a new communicator; it may have changed the mask. */
void nc_comm_open(nc_comm *comm);
/** The context that NCCL hands back; NULL: it is none of ours, or was finalized. */
nc_comm *nc_comm_of(void *context);
void nc_comm_remove(nc_comm *comm);
/** Versions before 4 report only with each collective of which communicator it is. */
void nc_comm_learn(nc_comm *comm, const nc_event *e);
/** Set the masks to what the session and the other plug-in want. */
void nc_masks_update(void);
/** The other plug-in, or a tool, has stored another value: take it in. */
void nc_mask_check(nc_comm *comm);
void nc_comms_visit(void (*visit)(nc_comm *comm));
/** Announce a row below a communicator, once in a session. */
void nc_announce_row(const KinetoPlugin_TraceBuilder *builder, const nc_facts *f, int32_t row);
void nc_comms_after_fork(void);

/* ---- next.c ----------------------------------------------------------------------------------- */

/** The table of the plug-in after ours, of the newest version that it has and that is at most `version`. NULL: none. */
const nc_table *nc_next_table(unsigned version, unsigned *out);
/** Calls it for a communicator; its errors end its part of this communicator. */
void nc_next_init(nc_comm *comm, const char *name, nc_logger log);
/** What it has to say about an event; returns its handle. */
void *nc_next_start(nc_comm *comm, const nc_event *e);
void nc_next_stop(nc_comm *comm, void *handle);
void nc_next_record(nc_comm *comm, void *handle, const nc_state *s);
void nc_next_finalize(nc_comm *comm);
/** Does it get events of this type? */
bool nc_next_wants(const nc_comm *comm, uint32_t type);
/** The handle of theirs for one of ours. */
void *nc_next_handle(void *ours);

/* ---- slots.c ---------------------------------------------------------------------------------- */

#define NC_SLOTS 16384u
/** A handle that stands for an event that is neither recorded nor passed on. */
#define NC_NO_EVENT ((void *)(uintptr_t)1)

typedef struct nc_slot {
    atomic_uint_fast64_t state; /* generation and phase */
    atomic_uint_fast64_t words[NC_FACT_WORDS];
    atomic_uint_fast64_t first_timer, last_timer;  /* of channels, GPU time; 0: none */
    atomic_uint_fast64_t value, waited, waits_from; /* bytes or state; ns in the network; since when */
    atomic_uint channels_left;
    atomic_uint delivered; /* session in which it was delivered */
    atomic_uint emitted;   /* activities of its events in this session; changed by the thread that delivers */
} nc_slot;

/** A new open event. NULL: too many are open. */
nc_slot *nc_slot_open(const nc_facts *facts, void **handle);
/** Copy what is known of an event that is open, or was stopped not long ago. NULL: it is not known. */
nc_slot *nc_slot_read(void *handle, nc_facts *out);
/** The facts that states need. `type` and `session` lie as in nc_facts. */
typedef struct nc_brief {
    nc_comm *comm;
    void *next;
    uint32_t type, session;
} nc_brief;
_Static_assert(offsetof(nc_facts, type) % 8 == 0 && offsetof(nc_facts, session) == offsetof(nc_facts, type) + 4,
               "nc_brief copies both");
nc_slot *nc_slot_peek(void *handle, nc_brief *out);
/** End an event. NULL: another caller has, or it is not known. */
nc_slot *nc_slot_stop(void *handle, nc_facts *out);
/** Leave it open for its channels, after stop. False: they have all ended: deliver it. */
bool nc_slot_await_channels(nc_slot *slot);
/** A channel ended. True: it was the last one, and the event had been stopped: deliver it. */
bool nc_slot_end_channel(nc_slot *slot);
/** It was delivered and may be reused. */
void nc_slot_close(nc_slot *slot);
/** The same, and no event has it as a parent. */
void nc_slot_recycle(nc_slot *slot);
/** Visit the events of a session that have not ended. */
void nc_slots_visit(uint32_t session, void (*visit)(nc_slot *slot, const nc_facts *facts));
/** A communicator ends: visit and close its events that have not ended. */
void nc_slots_release(const nc_comm *comm, void (*visit)(nc_slot *slot, const nc_facts *facts));
/** Activities of all slots since the last call. */
uint64_t nc_slots_take_emitted(void);
/** Is the caller the one that delivers it in this session? */
bool nc_slot_claim_delivery(nc_slot *slot, uint32_t session);

/* ---- events.c --------------------------------------------------------------------------------- */

void nc_event_start(nc_comm *comm, const nc_event *e, void **handle);
void nc_event_stop(void *handle);
void nc_event_record(unsigned version, void *handle, int number, const void *values);
/** The session ends: deliver what has not ended. */
void nc_events_flush(void);
/** A communicator ends, and its open events with it. */
void nc_events_end(nc_comm *comm);

/* ---- launches.c ------------------------------------------------------------------------------- */

/** A launch has ended; its operations come next. */
void nc_launch_end(const nc_facts *launch, uint64_t end);
/** An operation of the last launch of its communicator. */
void nc_launch_add(const nc_facts *operation);
/** All operations are known, or no more come: deliver it. */
void nc_launch_flush(nc_comm *comm);
/** Launches delivered since the last call. */
uint64_t nc_launches_take_emitted(void);

/* ---- rows.c, clocks.c, values.c ----------------------------------------------------------------- */

/** Rows below a communicator; those from NC_ROW_CHANNEL on are numbered by channel. */
enum {
    NC_ROW_COLLECTIVES,
    NC_ROW_GROUPS,
    NC_ROW_COPY_ENGINE,
    NC_ROW_PROXY,
    NC_ROW_NETWORK,
    NC_ROW_CHANNEL = 16,
    NC_ROW_PROXY_SEND = 96,
    NC_ROW_PROXY_RECV = 176,
    NC_ROWS = 256
};
#define NC_CHANNELS     80u /* of a kind of rows; NCCL has 64 */
#define NC_FIRST_DEVICE 100 /* number of the first communicator among the devices of a trace */

/** An event has ended, or is open at the end of the session. */
void nc_deliver(nc_slot *slot, const nc_facts *f, uint64_t end, bool is_open);
/** False: the session does not want it. */
bool nc_deliver_launch(const nc_launch *launch);
/** Before version 5 NCCL does not report launches: a range of the thread that has just launched the operation. */
void nc_deliver_task_range(nc_slot *slot, const nc_facts *f, uint64_t end);
/** Values of an operation that do not change from call to call; 0: none. */
uint32_t nc_register_values(nc_comm *comm, const nc_event *e, const nc_text *func);
/** The number of the clock of a GPU in this session; -1: it has none. */
int32_t nc_gpu_clock(int32_t gpu);
/** `timer` was read between two moments of the host. */
void nc_gpu_clock_sample(int32_t gpu, uint64_t timer, uint64_t before, uint64_t after);
/** The GPU of the calling thread's context; -1: not known. */
int32_t nc_current_gpu(void);
void nc_clocks_after_fork(void);
void nc_values_after_fork(void);
uint32_t nc_thread_id(void);
uint32_t nc_process_id(void);

/* ---- options.c -------------------------------------------------------------------------------- */

typedef struct nc_options {
    bool channels, proxy, steps, net, copies;
} nc_options;
/** From CKINETO_NCCL and the text for plug-ins. False: `why` has what to correct. */
bool nc_options_read(const char *text, nc_options *out, char why[NC_TEXT_BYTES]);

/* ---- profiler.c ------------------------------------------------------------------------------- */

/** Reasons for which events are not recorded: X(NAME, is a loss, reason, detail). */
#define NC_TALLY_MAP(X)                                                                                                \
    X(NO_SLOT, 1, "too many open events", "16384 may be open at once")                                                 \
    X(UNKNOWN_TYPE, 0, "events of a type that is not known", "NCCL is newer than this version of ckineto")             \
    X(STALE, 0, "ends of events that were not open", "ended twice, or long after their communicator")                  \
    X(OPEN, 0, "events that had not ended", "they end with the recording, or with their communicator")                 \
    X(COMMS, 0, "communicators beyond 256", "their events are not recorded")                                           \
    X(VALUES, 0, "operations without their values", "the recorder's table of sets of values is full")                   \
    X(NEXT_LOST, 0, "events that the other profiler plug-in did not get", "too many events are open")                  \
    X(NEXT_MISSING, 0, "profiler plug-ins that could not be loaded", "the one that CKINETO_NCCL_NEXT names")           \
    X(NEXT_VERSION, 0, "profiler plug-ins without a version for this NCCL",                                            \
      "the one that CKINETO_NCCL_NEXT names is newer than NCCL")

typedef enum nc_tally {
#define NC_X(name, is_loss, reason, detail) NC_TALLY_##name,
    NC_TALLY_MAP(NC_X)
#undef NC_X
        NC_TALLY_COUNT
} nc_tally;
void nc_count(nc_tally what);

/** Number of the session that records now, 0: none. */
uint32_t nc_session(void);
/** Does the session want activities of this type? */
bool nc_session_wants(int32_t type);
/** The rows below communicators, and the number of their type. */
bool nc_session_wants_rows(void);
int32_t nc_rows_type(void);
/** Events that it wants of NCCL. */
int nc_session_mask(void);
/** The host's builder, or NULL. If not NULL, call nc_builder_leave soon and do not block before. */
const KinetoPlugin_TraceBuilder *nc_builder_enter(void);
void nc_builder_leave(void);
/** Register with the host of this process, once. */
void nc_profiler_register(void);
#endif
