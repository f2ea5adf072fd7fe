/* A stand-in for CUPTI, the CUDA driver and the CUDA runtime, for tests without a GPU. README.md
 * says what its script can ask for.
 *
 *   layouts.c   records' layouts, of the real headers or frozen.def; values by name of the field
 *   script.c    the script: what is reported, what fails, what is slow, what is replayed
 *   calls.c     what every call does first: log, fail, wait
 *   writer.c    records → buffers that the tool gives, and the thread that hands them back
 *   work.c      simulated work on streams, and the thread's turn when some is complete
 *   replay.c    records of the script
 *   state.c     contexts, streams, events, devices
 *   record.c    calls, synchronisations, operators, callbacks
 *   cupti.c driver.c runtime.c    the libraries' functions; each is a library
 *
 * Locks: si_lock guards all state; a writer's lock its buffer. The tool is called with no lock but
 * the writer's (to ask for a buffer), or with none. */
#ifndef SI_STANDIN_H
#define SI_STANDIN_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define SI_COUNT(array) (sizeof(array) / sizeof((array)[0]))
#define SI_MAX_RECORD   512

/* ---- layouts.c ------------------------------------------------------------------------------ */
typedef struct si_field {
    char name[48];
    uint16_t offset, size;
    bool is_text;
} si_field;
typedef struct si_layout {
    char name[32];
    uint32_t size, field_count;
    si_field fields[56];
} si_layout;

void si_layouts_init(void);
uint32_t si_layouts_version(void); /* of the headers */
/** NULL: there is none of this name ("Kernel9"). */
const si_layout *si_layout_of(const char *name);
/** How records of a kind are laid out by a version of CUPTI; NULL: not a kind that is known here.
 */
const si_layout *si_layout_for(uint32_t kind, uint32_t version);
const si_field *si_field_of(const si_layout *layout, const char *name);
/** Fields that a layout does not have are passed over: old versions have fewer. */
void si_set(uint8_t *record, const si_layout *layout, const char *field, uint64_t value);
uint64_t si_get(const void *record, const si_layout *layout, const char *field);
/** "cudaLaunchKernel_v7000"; NULL: unknown. */
const char *si_callback_name(uint32_t domain, uint32_t id);
/** By name with or without the version; 0: unknown. */
uint32_t si_callback_id(uint32_t domain, const char *name);
void si_callback_add(uint32_t domain, uint32_t id, const char *name);

/* ---- script.c ------------------------------------------------------------------------------- */
typedef struct si_device {
    char name[128];
    uint64_t memory;
    int32_t major, minor, sm_count, warp_size;
    int32_t threads_per_sm, blocks_per_sm, registers_per_sm, registers_per_block;
    int32_t shared_per_sm, shared_per_block, shared_optin, shared_reserved, threads_per_block;
} si_device;
#define SI_MAX_DEVICES 16

typedef struct si_rule { /* fail, slow */
    char function[64];
    uint32_t first, last; /* of its calls, from 1 */
    int32_t code;
    uint32_t slow_us;
} si_rule;

enum { SI_ITEM_RECORD, SI_ITEM_BYTES, SI_ITEM_BUFFER, SI_ITEM_EMPTY, SI_ITEM_DROP };
typedef struct si_item { /* of a replay */
    int what;
    uint32_t size;  /* bytes, or records dropped */
    uint64_t times; /* bit per 8 bytes of the record: moved to the recording's time */
    uint8_t *bytes;
} si_item;

typedef struct si_options {
    uint32_t version;
    int32_t driver_version, runtime_version;
    uint32_t correlation; /* of the first live call */
    uint64_t latency_ns, kernel_ns, copy_ns, skew_ns;
    uint32_t own_clock;    /* clockid_t of CUPTI's own clock */
    uint32_t fill;         /* records per buffer at most; 0: as many as fit */
    uint32_t empty_every;  /* every n-th buffer comes back without a record */
    uint32_t shuffle_seed; /* 0: in the order of completion */
    uint32_t hand_back_us; /* buffers that are not full come back by themselves after; 0: never */
    uint32_t complete_slow_us; /* between two buffers that come back */
    uint32_t overhead_every;   /* every n-th call costs an overhead record */
    char replay_at[64];
    uint32_t replay_call;
    int replay_anchor; /* SI_ANCHOR_… */
    uint32_t replay_times;
} si_options;
enum { SI_ANCHOR_END, SI_ANCHOR_BEGIN, SI_ANCHOR_NONE };

typedef struct si_script {
    si_options options;
    si_device devices[SI_MAX_DEVICES];
    int device_count;
    si_rule *rules;
    size_t rule_count;
    si_item *items;
    size_t item_count;
    uint64_t first_ns, last_ns; /* of the replay's times */
} si_script;
extern si_script si_plan;
/** Reads the file that CKINETO_STANDIN names; a mistake in it ends the program with a word. */
void si_script_load(void);

/* ---- calls.c -------------------------------------------------------------------------------- */
extern pthread_mutex_t si_lock;
/** Everything once: script, layouts, fork handlers. */
void si_once(void);
/** Is this a child of a process that used us? Nothing works there, as with CUDA. */
bool si_is_lost(void);
/** Have CUPTI's exit handlers run? It does nothing any more. */
bool si_is_over(void);
void si_set_over(void);
/** Has cuInit been called? */
bool si_is_initialized(void);
void si_set_initialized(void);
/** Start of every function: logs it, waits, replays. 0, or the error code that the script wants.
 *  @param detail  an argument that tests look for */
int32_t si_enter(const char *function, uint64_t detail);
uint64_t si_now_ns(void); /* CLOCK_MONOTONIC */

/* ---- writer.c ------------------------------------------------------------------------------- */
typedef void (*si_request)(uint8_t **buffer, size_t *size, size_t *max_records);
typedef void (*si_complete)(void *context, uint32_t stream, uint8_t *buffer, size_t size,
                            size_t valid);
void si_writer_callbacks(si_request request, si_complete complete);
bool si_writer_has_callbacks(void);
void si_writer_per_thread(bool on);
bool si_kind_on(uint32_t kind);
void si_kind_set(uint32_t kind, bool on);
void si_kinds_off(void);
/** One record. Of the calling thread's own buffer where these are on and `of_thread` is true. */
void si_write(const void *record, uint32_t size, bool of_thread);
void si_drop(uint32_t count);
size_t si_take_dropped(void);
/** The buffers being filled come back although they are not full. */
void si_writer_seal(void);
/** The same, an empty one included. */
void si_writer_seal_empty(void);
/** Wait until the thread has handed back what is sealed; on that thread itself: nothing. */
void si_writer_settle(void);
/** In a child whose parent had not called cuInit: there is no thread any more. */
void si_writer_after_fork(void);
/** The next record of a buffer; false: no more. */
bool si_next_record(uint8_t *buffer, size_t valid, uint8_t **record);

/* ---- work.c --------------------------------------------------------------------------------- */
typedef struct si_context si_context;
typedef struct si_stream si_stream;
typedef struct si_event si_event;
enum { SI_WORK_KERNEL, SI_WORK_COPY, SI_WORK_PEER_COPY, SI_WORK_SET, SI_WORK_EVENT, SI_WORK_GRAPH };
typedef struct si_work {
    int what;
    const char *name; /* of the kernel, stays */
    uint32_t grid[3], block[3], shared_bytes;
    uint64_t bytes;
    uint32_t copy_kind, from_kind, to_kind, value;
    si_context *peer;
    uint32_t event_id, graph_id;
    uint64_t node_id;
    uint64_t duration_ns; /* 0: as the script says */
    /* from here on filled by si_work_add */
    uint32_t device, context, stream, correlation;
    uint64_t start_ns, end_ns;
    uint32_t kind;
    struct si_work *next;
} si_work;
/** Queue a copy of `work` on a stream, or into its capture. */
void si_work_add(si_stream *stream, const si_work *work, uint32_t correlation);
void si_work_wait_ns(uint64_t end_ns);
/** The clock of records against ours, as it is now. */
typedef struct si_clock {
    uint64_t (*now)(void); /* the tool's; NULL: nanoseconds since the epoch */
    uint64_t first_ns, first, last_ns, last;
} si_clock;
si_clock si_clock_read(void);
/** Nanoseconds of si_now_ns → a time as records have it. */
uint64_t si_stamp(const si_clock *clock, uint64_t ns);
/** Now, as records have it. */
uint64_t si_stamp_now(void);
void si_stamp_callback(uint64_t (*now)(void));
/** Work that is complete becomes records. */
void si_work_collect(void);
/** When work next completes; UINT64_MAX: none is queued. */
uint64_t si_work_next_ns(void);

/* ---- replay.c ------------------------------------------------------------------------------- */
void si_replay(void);

/* ---- state.c -------------------------------------------------------------------------------- */
struct si_event {
    uint32_t id;
    uint64_t time_ns;
    uint32_t stream_id;
};
typedef struct si_graph {
    uint32_t id;
    size_t count;
    si_work nodes[256];
} si_graph;
struct si_stream {
    uint32_t id;
    si_context *context;
    uint64_t busy_ns; /* when what is queued is complete */
    si_graph *capture;
    si_stream *next;
};
struct si_context {
    uint32_t id;
    int32_t device;
    bool gone;
    si_stream zero, *streams;
    si_context *next;
};
si_context *si_context_create(int32_t device);
void si_context_destroy(si_context *context);
/** The calling thread's, else the primary one of its device. */
si_context *si_context_current(void);
void si_context_set(si_context *context);
si_context *si_context_primary(int32_t device);
int32_t si_device_current(void);
void si_device_set(int32_t device);
si_stream *si_stream_create(si_context *context);
void si_stream_destroy(si_stream *stream);
/** NULL is the context's own. */
si_stream *si_stream_or_zero(si_stream *stream);
uint64_t si_context_busy_ns(const si_context *context);
/** What is queued on a stream from here on belongs to a graph. False: no memory. */
bool si_graph_begin(si_stream *stream);
/** … up to here. NULL: nothing was begun. */
si_graph *si_graph_end(si_stream *stream);
/** One that can be launched, to be freed. NULL: no memory. */
si_graph *si_graph_instantiate(const si_graph *graph);
/** All of a graph's work, on a stream. */
void si_graph_launch(const si_graph *graph, si_stream *stream, uint32_t correlation);
uint32_t si_number(void); /* a new id for a graph, an event, a node */

/* ---- record.c: a call of the driver or the runtime ------------------------------------------ */
bool si_external_push(uint32_t kind, uint64_t id);
bool si_external_pop(uint32_t kind, uint64_t *id);
typedef void (*si_listener)(void *user, uint32_t domain, uint32_t id, const void *data);
/** False: there is a subscriber. */
bool si_listen(si_listener listener, void *user);
bool si_listen_to(uint32_t domain, uint32_t id, bool on);
void si_listen_end(void);
/** This call is recorded, or is not, whatever is said of its kind. */
bool si_call_single(uint32_t domain, uint32_t id, bool on);
/** A kind of calls was switched: what was said of single ones before does not hold any more. */
void si_call_kind(uint32_t kind);
void si_call_thread_ids(bool of_system);

enum { SI_DRIVER = 1, SI_RUNTIME = 2, SI_RESOURCE = 3 };
typedef struct si_call {
    uint32_t domain, id, correlation;
    const char *name;
    uint64_t start;
    bool recorded;
} si_call;
/** 0, or the error that the script wants. */
int32_t si_call_begin(si_call *call, uint32_t domain, const char *name, uint64_t detail);
int32_t si_call_end(si_call *call, int32_t result);
void si_call_resource(uint32_t id, si_context *context);
/** A synchronisation, from the call's start to now. type: CUpti_ActivitySynchronizationType. */
void si_call_sync(const si_call *call, uint32_t type, const si_context *context, uint32_t stream,
                  const si_event *event);
void si_call_memory(const si_call *call, uint32_t operation, uint64_t address, uint64_t bytes);

#endif
