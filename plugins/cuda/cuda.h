/* The NVIDIA source: what CUPTI saw of a program's use of its GPUs, as activities of a plug-in.
 *
 *   cupti.h       CUPTI, CUDA and NVML as far as we use them: own declarations, checked by tests
 *                 against the vendor's headers of several versions
 *   libs.c        finds and opens their libraries; why one cannot be had
 *   plugin.c      the plug-in interface
 *   source.c      what is switched on in CUPTI, when, and off again; forks, teardown
 *   driver_calls.c   which calls of the driver are recorded
 *   options.c     what the user asked for
 *   reasons.c     what an error of CUPTI means for the user, and who else uses it
 *   buffers.c     buffers between CUPTI and us, and the thread that empties them
 *   records.c     one pass over a buffer
 *   kernels.c transfers.c calls.c syncs.c memory.c   a record of each kind → an activity
 *   sets.c        values that many activities share
 *   layouts.c     which record is laid out how, by CUPTI's version
 *   occupancy.c   how many blocks of a kernel fit a multiprocessor
 *   names.c       names: of kernels demangled, of calls without version
 *   correlate.c   launch → operator
 *   devices.c     devices, contexts and streams as rows and properties
 *   nvml.c pm.c   counters: power and such, and those of the multiprocessors
 *   threads.c notes.c   threads of our own; lines of the ledger
 *   waiting.c     for work that is under way, with a limit
 *
 * Data flows one way: CUPTI → buffers → records → kinds → builder. Everything from records.c on is
 * done by one thread at a time (cp_decoder is its), outside of CUPTI's callbacks.
 */
#ifndef CP_CUDA_H
#define CP_CUDA_H

#include "cupti.h"

#include <ckineto/plugin.h>

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define CP_COUNT(array) (sizeof(array) / sizeof((array)[0]))
#define CP_MAX_DEVICES  64

/* ---- libs.c ----------------------------------------------------------------------------------- */
#define CP_TEXT_BYTES 320 /* a sentence for the user, with its NUL */

/* Function tables; NULL members are not in the library that was found. Filled once. */
extern cp_cupti_api cp_cupti;
extern cp_driver_api cp_driver;
extern cp_runtime_api cp_runtime;

/** Open what is needed for recording. False: `why` is a sentence that says what to do. threads:
 * one. */
bool cp_libs_open(char why[CP_TEXT_BYTES]);
/** CUPTI's API version (130202, 22 …), 0 before it is open. */
uint32_t cp_cupti_version(void);
/** Of the runtime that the program uses (12040), which may be loaded later than we are; 0: of none.
 *  threads: one. */
int cp_runtime_version(void);
/** CUPTI's own text for a result, or "CUPTI error 35". */
const char *cp_result_text(cp_result result);

/* ---- threads.c, notes.c ----------------------------------------------------------------------- */

/** A thread that takes none of the program's signals; `name` has up to 15 bytes. Else: errno's
 * number. */
int cp_thread_start(pthread_t *thread, const char *name, void *(*run)(void *), void *argument);
/** One that waits by cp_monotonic_ns: a clock that nobody sets. */
void cp_condition_init(pthread_cond_t *condition);
/** ETIMEDOUT: nothing happened until then. */
int cp_condition_wait(pthread_cond_t *condition, pthread_mutex_t *mutex, int64_t until_ns);
int64_t cp_monotonic_ns(void);

/** A line of the ledger, where the host has one. */
__attribute__((format(printf, 5, 6))) void cp_note(const KinetoPlugin_TraceBuilder *builder,
                                                   const char *reason, uint64_t count, bool is_loss,
                                                   const char *format, ...);

/* ---- correlate.c: launches by CUPTI's correlation id -------------------------------------------- */
typedef struct cp_correlations cp_correlations;
#define CP_NO_OPERATOR UINT64_MAX
cp_correlations *cp_correlations_create(void); /* NULL: out of memory */
void cp_correlations_destroy(cp_correlations *c);
/** The launch with this correlation id was made inside operator `external_id`; CP_NO_OPERATOR: in
 * none that is known, which a later put corrects. */
void cp_correlations_put(cp_correlations *c, uint32_t correlation_id, uint64_t external_id);
/** 0: nothing is known (yet), or not any more. */
uint64_t cp_correlations_get(cp_correlations *c, uint32_t correlation_id);
/** How often a launch was asked for that is so long ago that its place was given to a later one. */
uint64_t cp_correlations_forgotten(const cp_correlations *c);

/* ---- devices.c --------------------------------------------------------------------------------- */
typedef struct cp_device {
    int32_t id; /* as CUDA counts them; MIG instances and MPS clients count theirs */
    char name[256], uuid[48];
    int32_t major, minor, sm_count, warp_size;
    int32_t threads_per_sm, blocks_per_sm, registers_per_sm, registers_per_block;
    int32_t shared_per_sm, shared_per_block, shared_per_block_optin, shared_reserved_per_block;
    int32_t threads_per_block;
    uint64_t memory_bytes;
} cp_device;
/** Asks the driver on first sight; NULL: no such device, or the table is full. */
const cp_device *cp_device_of(uint32_t id);
/** Rows, properties and versions of all devices. False: the driver knows none (yet: while it loads
 * us it is not ready). */
bool cp_devices_announce(const KinetoPlugin_TraceBuilder *builder);
void cp_devices_forget(void);

/* ---- names.c ------------------------------------------------------------------------------------ */
typedef struct cp_names cp_names;
typedef struct cp_text {
    const char *data; /* stays as long as cp_names; NUL behind it */
    uint32_t size;
} cp_text;
cp_names *cp_names_create(void);
void cp_names_destroy(cp_names *n);
/** Readable name of a kernel. CUPTI keeps `mangled` where it is: known by place, compared by bytes.
 */
cp_text cp_names_kernel(cp_names *n, const char *mangled);
/** From here on what is at a place may be another name than before. */
void cp_names_look(cp_names *n);
/** Name of a call of CP_DOMAIN_RUNTIME or _DRIVER: "cudaLaunchKernel". */
cp_text cp_names_call(cp_names *n, uint32_t domain, uint32_t cbid);
/** The same for a text that does not stay. */
cp_text cp_names_copy(cp_names *n, const char *text);
/** A place to keep a name that is made of few numbers; nobody's at first (data NULL). */
#define CP_NAMES_PLACES 1040u
cp_text *cp_names_place(cp_names *n, uint32_t i);

/* ---- occupancy.c --------------------------------------------------------------------------------- */
typedef struct cp_launch { /* what occupancy depends on */
    uint32_t device;
    uint32_t registers_per_thread, threads_per_block;
    uint32_t shared_static_bytes, shared_dynamic_bytes;
    uint64_t block_count;
} cp_launch;
typedef struct cp_occupancy {
    uint32_t blocks_per_sm;                                            /* that fit */
    uint32_t limit_registers, limit_shared, limit_warps, limit_blocks; /* by each resource alone */
    uint32_t registers_per_block, shared_per_block;                    /* as allocated */
    bool by_warps, by_registers, by_shared, by_blocks;                 /* what the limit is */
    double blocks_each, warps_each; /* of this launch, per multiprocessor */
    uint32_t estimated_percent;     /* "est. achieved occupancy %" */
} cp_occupancy;
/** Computed as NVIDIA's occupancy calculator does (CUDA programming guide, "Hardware
 *  multithreading" and the table of compute capabilities). False: not for this device. */
bool cp_occupancy_of(const cp_device *device, const cp_launch *launch, cp_occupancy *out);

/* ---- records.c ------------------------------------------------------------------------------------ */

/* What did not become an activity, or not as it should; in the ledger at the end: X(name, is a loss
 * that nothing else counts, text; NULL: the host says it). */
#define CP_TALLY_MAP(X)                                                                            \
    X(UNKNOWN_KIND, 1, "records of a kind that is not known here")                                 \
    X(CUT_SHORT, 1, "records that a buffer ends in")                                               \
    X(NO_TIME, 0, "activities without a time of the device")                                       \
    X(NOT_DELIVERED, 0, NULL)                                                                      \
    X(EVENT_NO_TIME, 0, "CUDA events without a time of the device")                                \
    X(NO_OPERATOR, 0, "activities whose operator was not told in time")                            \
    X(QUIET_WAITS, 0, "waits of streams that nothing ran on")
typedef enum cp_tally {
#define CP_X(name, loss, text) CP_TALLY_##name,
    CP_TALLY_MAP(CP_X)
#undef CP_X
        CP_TALLY_COUNT
} cp_tally;

typedef struct cp_decoder {
    const KinetoPlugin_TraceBuilder *builder;
    uint32_t version;               /* CUPTI's; layouts.h */
    int32_t clock;                  /* KINETO_PLUGIN_CLOCK_…, that records' times are in */
    double ns_each;                 /* unit of that clock */
    uint64_t first_ticks, first_ns; /* when decoding began */
    uint64_t types; /* bit per KINETO_PLUGIN_PROFILE_EVENT_TYPE_… to be delivered */
    uint32_t pid;
    bool show_waits; /* "Stream Wait Event" records are wanted */
    bool settling;   /* what has waited is delivered now, come what may */
    bool overheads;  /* their row has been announced */
    cp_correlations *correlations;
    cp_names *names;
    struct cp_sets *sets;              /* sets of values that have numbers: sets.c */
    struct cp_calls *calls;            /* what is known of each call: calls.c */
    struct cp_syncs *syncs;            /* event records by context and event: syncs.c */
    struct cp_pending *pending;        /* records that wait for others: records.c */
    uint16_t bytes[CP_KIND_COUNT];     /* of a record */
    int64_t allocated[CP_MAX_DEVICES]; /* bytes, as far as was seen */
    uint64_t delivered[CP_KIND_COUNT];
    uint64_t tally[CP_TALLY_COUNT];
    uint64_t unread_bytes;       /* behind records that a buffer ended in */
    uint64_t told, told_dropped; /* of these, to the host */
} cp_decoder;

/** @param cupti_version  cp_cupti_version(). False: out of memory. */
bool cp_decoder_init(cp_decoder *d, const KinetoPlugin_TraceBuilder *builder, uint64_t types,
                     uint32_t cupti_version, int32_t clock);
/** All records of a buffer that CUPTI has filled, in one pass. */
void cp_decoder_read(cp_decoder *d, uint8_t *buffer, size_t valid_bytes);
/** Operators are being pushed: launches may be inside of them, and their records have to wait until
 *  that is told. threads: any; until the next cp_decoder_init. */
void cp_operators_expect(void);
/** Nothing more comes: deliver what waited for its operator, and the ledger's lines. */
void cp_decoder_finish(cp_decoder *d);
void cp_decoder_free(cp_decoder *d);

/* For the readers of each kind. */
static inline bool cp_wants(const cp_decoder *d, int32_t type) { return d->types >> type & 1; }
/** Operator that a launch belongs to; 0: none. */
uint64_t cp_operator_of(cp_decoder *d, uint32_t correlation_id);
/** An activity of a record: its times are checked. False: counted, and not to be delivered. */
static inline bool cp_activity_begin(cp_decoder *d, KinetoPlugin_Activity *a, int32_t type,
                                     uint64_t start, uint64_t end)
{
    if (start == 0 || end == 0) {
        d->tally[CP_TALLY_NO_TIME]++;
        return false;
    }
    *a = (KinetoPlugin_Activity){
        .unpaddedStructSize = KINETO_PLUGIN_SIZE(KinetoPlugin_Activity, metadataSet),
        .event = {.unpaddedStructSize = KINETO_PLUGIN_SIZE(KinetoPlugin_ProfileEvent, resourceId),
                  .eventType = type,
                  .startTimeUtcNs = (int64_t)start,
                  .endTimeUtcNs = (int64_t)end},
        .clock = d->clock};
    return true;
}
/** Of a device's work: where it ran, what launched it, and the operator of that. */
void cp_activity_place(cp_decoder *d, KinetoPlugin_Activity *a, uint32_t device, uint32_t stream,
                       uint32_t correlation_id);
/** Deliver; counts what finds no room. */
void cp_deliver(cp_decoder *d, uint32_t kind, KinetoPlugin_Activity *a);
/** Keep a record until more is known; false: there is no room, or the end has come. */
bool cp_keep(cp_decoder *d, const uint8_t *record);

/* Metadata of one activity. */
#define CP_MOST_VALUES 24
typedef struct cp_values {
    KinetoPlugin_Metadata items[CP_MOST_VALUES];
    uint32_t count;
} cp_values;
static inline KinetoPlugin_Metadata *cp_value(cp_values *v, const char *key, int32_t type)
{
    KinetoPlugin_Metadata *item = &v->items[v->count++];
    *item = (KinetoPlugin_Metadata){.pKey = key, .valueType = type, .count = 1};
    return item;
}
static inline void cp_value_int(cp_values *v, const char *key, int64_t value)
{
    cp_value(v, key, KINETO_PLUGIN_VALUE_INT)->i = value;
}
static inline void cp_value_uint(cp_values *v, const char *key, uint64_t value)
{
    cp_value(v, key, KINETO_PLUGIN_VALUE_UINT)->u = value;
}
static inline void cp_value_double(cp_values *v, const char *key, double value)
{
    cp_value(v, key, KINETO_PLUGIN_VALUE_DOUBLE)->d = value;
}
static inline void cp_value_bytes(cp_values *v, const char *key, int32_t type, const void *data,
                                  size_t count)
{
    KinetoPlugin_Metadata *item = cp_value(v, key, type);
    item->pointer = data;
    item->count = (uint32_t)count;
}

/* ---- sets.c: values that many activities share -------------------------------------------------------- */
/* What they follow from; the first word says of what. */
typedef struct cp_set_key {
    uint32_t words[20];
} cp_set_key;
enum { CP_SET_KERNEL = 1, CP_SET_GRAPH, CP_SET_MEMCPY, CP_SET_MEMCPY2, CP_SET_MEMSET, CP_SET_CALL };
/* Where values that are not numbers lie while they are handed over. */
typedef struct cp_set_scratch {
    int64_t grid[3], block[3], cluster[3];
    char json[448];
} cp_set_scratch;
typedef void cp_describe_fn(const cp_decoder *d, const cp_set_key *key, cp_values *out,
                            cp_set_scratch *scratch);
bool cp_sets_create(cp_decoder *d);
void cp_sets_free(cp_decoder *d);
/** Number of the set for `key`; 0: the host keeps none, and `out` and `scratch` have got the
 * values. */
uint32_t cp_set_of(cp_decoder *d, const cp_set_key *key, cp_describe_fn *describe, cp_values *out,
                   cp_set_scratch *scratch);

/* ---- kernels.c transfers.c calls.c syncs.c memory.c: one record each -------------------------------- */
void cp_read_kernel(cp_decoder *d, const uint8_t *record);
void cp_read_graph(cp_decoder *d, const uint8_t *record);

void cp_read_memcpy(cp_decoder *d, const uint8_t *record);
void cp_read_memcpy2(cp_decoder *d, const uint8_t *record);
void cp_read_memset(cp_decoder *d, const uint8_t *record);
/** "Pinned" …, of CUpti_ActivityMemoryKind. */
const char *cp_memory_kind(uint32_t kind);

void cp_read_call(cp_decoder *d, const uint8_t *record);
void cp_read_overhead(cp_decoder *d, const uint8_t *record);
bool cp_calls_create(cp_decoder *d);
void cp_calls_free(cp_decoder *d);
/** The calling thread's system id goes with what CUPTI calls it, where it cannot be told to use
 *  system ids. threads: any. */
void cp_threads_note(void);

void cp_read_sync(cp_decoder *d, const uint8_t *record);
void cp_read_event(cp_decoder *d, const uint8_t *record);
void cp_read_context(cp_decoder *d, const uint8_t *record);
/** Is it a wait of a stream that has done nothing so far? */
bool cp_sync_is_quiet(cp_decoder *d, const uint8_t *record);
/** Does it wait for an event whose recording has not been seen? */
bool cp_sync_is_unresolved(const cp_decoder *d, const uint8_t *record);
bool cp_syncs_create(cp_decoder *d);
void cp_syncs_free(cp_decoder *d);
/** Work of a device was seen: its context belongs to the device, its stream does something. */
void cp_syncs_saw(cp_decoder *d, uint32_t context, uint32_t device, uint32_t stream);

void cp_read_memory(cp_decoder *d, const uint8_t *record);
/** Number of the kind "gpu_memory", which the host gives; 0: allocations are not delivered. */
extern int32_t cp_memory_type;
/** Announce it; call before the profiler is registered. */
void cp_memory_announce(const KinetoPlugin_Registry *registry);

/* ---- buffers.c ------------------------------------------------------------------------------------- */
#define CP_BUFFER_BYTES ((size_t)1 << 20) /* each thread of the program may have one */

typedef struct cp_buffer_stats {
    uint64_t filled;  /* buffers handed over by CUPTI */
    uint64_t refused; /* asked for when the bound was reached */
    uint64_t dropped; /* records that CUPTI says it dropped, or wrote to spare buffers */
    uint64_t late;    /* records that came after the end */
    uint64_t kept;    /* buffers with records that CUPTI did not hand over at the end */
    size_t peak_bytes;
} cp_buffer_stats;

/** Allocate and touch all buffers, so that nothing is allocated while the program runs.
 *  @param bound_bytes  all there will ever be, filled ones included. */
bool cp_buffers_create(size_t bound_bytes, char why[CP_TEXT_BYTES]);
/** Is this a CUPTI that can crash when it gets no buffer, as those before CUDA 12.9 can? It gets a
 *  small one then, beyond the bound, and what it writes there is dropped and counted. */
#define CP_SPARE_BYTES ((size_t)64 << 10)
void cp_buffers_never_refuse(bool never);
/** CUPTI's callbacks. */
void CP_CUPTI_CALL cp_buffers_request(uint8_t **buffer, size_t *size, size_t *max_records);
void CP_CUPTI_CALL cp_buffers_complete(cp_context context, uint32_t stream, uint8_t *buffer,
                                       size_t size, size_t valid);
/** Start reading what is filled into `decoder`, on a thread of its own, which also asks CUPTI now
 *  and then for what it has. */
bool cp_buffers_attach(cp_decoder *decoder, char why[CP_TEXT_BYTES]);
/** Read all that has been filled, on the calling thread. */
void cp_buffers_drain(void);
/** No more reading; what comes later is counted as late. */
void cp_buffers_detach(void);
cp_buffer_stats cp_buffers_stats(void);
void cp_buffers_after_fork(void);

/* ---- reasons.c ------------------------------------------------------------------------------------- */
/** A sentence: what CUPTI refused, why that is, what to do. */
void cp_explain(cp_result result, const char *doing, char why[CP_TEXT_BYTES]);

/* ---- waiting.c ------------------------------------------------------------------------------------- */
/** Wait for the current context, for seconds at most. False: it was still busy. */
bool cp_wait_for_device(void);

/* ---- options.c, source.c -------------------------------------------------------------------------------------- */
typedef struct cp_options {
    uint64_t types;            /* bit per KINETO_PLUGIN_PROFILE_EVENT_TYPE_… */
    size_t buffer_bytes;       /* of all buffers; default 64 MiB */
    bool per_thread_buffers;   /* where CUPTI can */
    bool graph_nodes;          /* one activity per node of a graph, not per graph */
    bool memory;               /* allocations of the device */
    bool show_waits;           /* streams that wait for events, as activities */
    bool sync_at_stop;         /* wait for the current context, so that all is complete */
    bool teardown;             /* detach CUPTI from the program when a session ends */
    uint32_t nvml_interval_ms; /* 0: no samples of power and such */
    char pm_metrics[512];      /* comma-separated; "": none */
    int32_t pm_device;
    uint32_t pm_interval_us;
} cp_options;
/** The user's text for plug-ins, "cuda.buffer_bytes=64MiB cuda.graph=graph", and environment
 *  variables of the same names. False: `why` names what is wrong. */
bool cp_options_read(const char *text, cp_options *out, char why[CP_TEXT_BYTES]);

/* driver_calls.c */
/** Not CP_SUCCESS: CUPTI cannot switch single calls, and nothing is on. */
cp_result cp_driver_calls_on(void);
void cp_driver_calls_off(void);

/** Warm-up: libraries and buffers are there, CUPTI is switched on, and what it records is thrown
 * away. */
bool cp_source_prepare(const cp_options *options, char why[CP_TEXT_BYTES]);
/** From here on it is delivered. */
bool cp_source_start(const KinetoPlugin_TraceBuilder *builder, char why[CP_TEXT_BYTES]);
/** Switch off, deliver the rest. */
void cp_source_stop(void);
/** Switch off whatever is on; after prepare or stop. */
void cp_source_end(void);
/** Deliver what there is now. */
void cp_source_drain(void);
void cp_source_toggle(bool on);
void cp_source_push(uint64_t external_id);
void cp_source_pop(void);

/* ---- nvml.c, pm.c: counters -------------------------------------------------------------------------- */
/** Start sampling on a thread of its own; false: `why`. Stop waits for it. */
bool cp_nvml_start(const cp_options *options, const KinetoPlugin_TraceBuilder *builder,
                   char why[CP_TEXT_BYTES]);
void cp_nvml_stop(void);
bool cp_pm_start(const cp_options *options, const KinetoPlugin_TraceBuilder *builder,
                 char why[CP_TEXT_BYTES]);
void cp_pm_stop(void);
#endif
