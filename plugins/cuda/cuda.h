/* The NVIDIA source: a plug-in that turns CUPTI's records of a program's use of its GPUs into
 * activities.
 *
 *   cupti.h       CUPTI, CUDA and NVML as far as we use them: own declarations, checked by tests
 *                 against the vendor's headers of several versions
 *   libs.c        finds and opens their libraries; why one is not usable
 *   wheels.c      finds CUPTI in Python packages
 *   plugin.c      the plug-in interface
 *   source.c      the session: switching CUPTI on and off; forks, teardown
 *   driver_calls.c   which calls of the driver are recorded
 *   options.c     the user's options
 *   reasons.c     what an error of CUPTI means for the user; other tools that use CUPTI
 *   buffers.c     buffers between CUPTI and us, and the thread that reads them
 *   records.c     one pass over a buffer
 *   kernels.c transfers.c calls.c syncs.c memory.c   one kind of record each, to activities
 *   layouts.c     sizes of records by CUPTI's version
 *   occupancy.c   how many blocks of a kernel fit on a multiprocessor
 *   names.c       names: of kernels demangled, of calls without version
 *   correlate.c   from a launch to its operator
 *   devices.c     devices, contexts and streams as rows and properties
 *   nvml.c pm.c   counters: power, clocks and the like; those of the multiprocessors
 *   ../common     threads of our own, lines of the ledger, sets of values that activities share
 *   device_wait.c     waiting for running GPU work, with a limit
 *
 * Data flows in one direction: CUPTI → buffers → records → kinds → builder. Everything from
 * records.c on runs on one thread at a time, which owns the cp_decoder, outside of CUPTI's
 * callbacks.
 */
#ifndef CP_CUDA_H
#define CP_CUDA_H

#include "../common/support.h"
#include "../common/value_sets.h"
#include "cupti.h"

#include <limits.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define CP_MAX_DEVICES  64

/* ---- libs.c ---------------------------------------------------------------------------------- */
/* Function tables, filled once. Members that the opened library does not have are NULL. */
extern cp_cupti_api cp_cupti;
extern cp_driver_api cp_driver;
extern cp_runtime_api cp_runtime;

/** Open the libraries that recording needs. False: `why` is a message with advice. threads: one. */
bool cp_libs_open(char why[CP_TEXT_BYTES]);
/** CUPTI's API version (130202, 22 …), 0 before it is open. */
uint32_t cp_cupti_version(void);
/** Version of the runtime that the program uses (12040), which may be loaded later than we are; 0:
 * it uses none. threads: one. */
int cp_runtime_version(void);
/** CUPTI's own text for a result, or "CUPTI error 35". */
const char *cp_result_text(cp_result result);

/* ---- wheels.c -------------------------------------------------------------------------------- */
/** Find the newest CUPTI in the packages of the Python installations in use that works with a driver of
 * `driver_release` (13 for CUDA 13.x). False: there is none. threads: any. */
bool cp_find_wheel_cupti(int driver_release, char path[PATH_MAX]);

/* ---- correlate.c: launches by CUPTI's correlation id ----------------------------------------- */
typedef struct cp_correlations cp_correlations;
#define CP_NO_OPERATOR UINT64_MAX
cp_correlations *cp_correlations_create(void); /* NULL: out of memory */
void cp_correlations_destroy(cp_correlations *c);
/** Note that the launch with this correlation id was made inside operator `external_id`;
 * CP_NO_OPERATOR: in none that is known, which a later put may correct. */
void cp_correlations_put(cp_correlations *c, uint32_t correlation_id, uint64_t external_id);
/** The operator of a launch; 0: unknown yet, or forgotten. */
uint64_t cp_correlations_get(cp_correlations *c, uint32_t correlation_id);
/** Lookups of launches that are so long ago that their slots were reused. */
uint64_t cp_correlations_forgotten(const cp_correlations *c);

/* ---- devices.c ------------------------------------------------------------------------------- */
typedef struct cp_device {
    /* CUDA's number in this process; with MIG or MPS these differ between processes. */
    int32_t id;
    char name[256], uuid[48];
    int32_t major, minor, sm_count, warp_size;
    int32_t threads_per_sm, blocks_per_sm, registers_per_sm, registers_per_block;
    int32_t shared_per_sm, shared_per_block, shared_per_block_optin, shared_reserved_per_block;
    int32_t threads_per_block;
    uint64_t memory_bytes;
} cp_device;
/** The device with this number, read from the driver at its first use; NULL: unknown, or the table
 * is full. */
const cp_device *cp_device_of(uint32_t id);
struct cp_decoder;
/** Announce rows, properties and versions of all devices to the decoder's builder, unless that has
 * been done. While the driver loads us it is not ready, so this is called again later. threads: any.
 */
void cp_devices_announce_once(struct cp_decoder *d);
void cp_devices_reset(void);

/* ---- names.c --------------------------------------------------------------------------------- */
typedef struct cp_names cp_names;
typedef struct cp_text {
    /* Valid as long as cp_names; followed by a NUL. */
    const char *data;
    uint32_t size;
} cp_text;
cp_names *cp_names_create(void);
void cp_names_destroy(cp_names *n);
/** Demangled name of a kernel. CUPTI keeps `mangled` at one address, by which it is cached; the
 * bytes are compared. */
cp_text cp_names_kernel(cp_names *n, const char *mangled);
/** From here on other names may be at the same addresses: the bytes must be compared again. */
void cp_names_begin_buffer(cp_names *n);
/** Name of a call of CP_DOMAIN_RUNTIME or _DRIVER: "cudaLaunchKernel". */
cp_text cp_names_call(cp_names *n, uint32_t domain, uint32_t cbid);
/** Interned copy of a temporary text. */
cp_text cp_names_copy(cp_names *n, const char *text);
/** Slots for names that are made of small numbers, for the caller to fill; data is NULL at
 * first. */
#define CP_NAME_SLOTS 1040u
cp_text *cp_get_name_slot(cp_names *n, uint32_t i);

/* ---- occupancy.c ----------------------------------------------------------------------------- */
typedef struct cp_launch { /* the inputs of the computation */
    uint32_t device;
    uint32_t registers_per_thread, threads_per_block;
    uint32_t shared_static_bytes, shared_dynamic_bytes;
    uint64_t block_count;
    uint32_t sm_count; /* that the launch may use; 0: all */
} cp_launch;
typedef struct cp_occupancy {
    uint32_t blocks_per_sm; /* blocks that fit at the same time */
    uint32_t limit_registers, limit_shared, limit_warps, limit_blocks; /* by each resource alone */
    uint32_t registers_per_block, shared_per_block;                    /* as allocated */
    bool by_warps, by_registers, by_shared, by_blocks;                 /* the limiting resources */
    double blocks_each, warps_each; /* of this launch, per multiprocessor */
    uint32_t estimated_percent;     /* "est. achieved occupancy %" */
} cp_occupancy;
/** Computed as NVIDIA's occupancy calculator does (CUDA programming guide, "Hardware
 * multithreading" and the table of compute capabilities). False: the device is not supported. */
bool cp_occupancy_of(const cp_device *device, const cp_launch *launch, cp_occupancy *out);

/* ---- records.c ------------------------------------------------------------------------------- */

/* Records that became no activity or an incomplete one, for the ledger at the end: X(name, 1 if it
 * is a loss that is not counted elsewhere, text; NULL: the host reports it). */
#define CP_TALLY_MAP(X)                                                                            \
    X(UNKNOWN_KIND, 1, "records of a kind that is not known here")                                 \
    X(CUT_SHORT, 1, "records that a buffer ends in")                                               \
    X(NO_TIME, 0, "activities without a time of the device")                                       \
    X(NOT_DELIVERED, 0, NULL)                                                                      \
    X(EVENT_NO_TIME, 0, "CUDA events without a time of the device")                                \
    X(NO_OPERATOR, 0, "activities whose operator was reported too late")                           \
    X(QUIET_WAITS, 0, "waits of streams that nothing ran on")
typedef enum cp_tally {
#define CP_X(name, loss, text) CP_TALLY_##name,
    CP_TALLY_MAP(CP_X)
#undef CP_X
        CP_TALLY_COUNT
} cp_tally;

/* A context that has a part of the multiprocessors of its device. */
#define CP_MAX_GREEN 32u
typedef struct cp_green {
    uint32_t context, sm_count;
} cp_green;

typedef struct cp_decoder {
    const KinetoPlugin_TraceBuilder *builder;
    uint32_t version;               /* CUPTI's; layouts.h */
    int32_t clock;                  /* KINETO_PLUGIN_CLOCK_… of the records' times */
    double ns_each;                 /* ns per unit of that clock */
    uint64_t first_ticks, first_ns; /* when decoding began */
    uint64_t types;                 /* bit per KINETO_PLUGIN_PROFILE_EVENT_TYPE_… to be delivered */
    uint32_t pid;
    /* "Stream Wait Event" records are wanted. */
    bool show_waits;
    /* Waiting records are being delivered: none may wait again. */
    bool settling;
    /* The devices have been announced, see cp_devices_announce_once. */
    atomic_bool devices_announced;
    /* The row of overheads has been announced. */
    bool overheads;
    cp_correlations *correlations;
    cp_names *names;
    struct cp_sets *sets;              /* registered sets of values */
    struct cp_calls *calls;            /* names of calls and whether they are wanted: calls.c */
    struct cp_syncs *syncs;            /* event records by context and event: syncs.c */
    struct cp_pending *pending;        /* records that wait for others: records.c */
    uint16_t bytes[CP_KIND_COUNT];     /* of a record */
    int64_t allocated[CP_MAX_DEVICES]; /* bytes, since the start */
    cp_green green[CP_MAX_GREEN];
    uint32_t green_count; /* seen so far; the last CP_MAX_GREEN are kept */
    uint64_t delivered[CP_KIND_COUNT];
    uint64_t tally[CP_TALLY_COUNT];
    /* After records that a buffer ended in. */
    uint64_t unread_bytes;
    /* Counts that the host has got already. */
    uint64_t reported, reported_dropped;
} cp_decoder;

/** @param cupti_version  cp_cupti_version(). False: out of memory. */
bool cp_decoder_init(cp_decoder *d, const KinetoPlugin_TraceBuilder *builder, uint64_t types,
                     uint32_t cupti_version, int32_t clock);
/** All records of a buffer that CUPTI has filled, in one pass. */
void cp_decoder_read(cp_decoder *d, uint8_t *buffer, size_t valid_bytes);
/** Operators are being pushed, so that launches may be inside of them and their records must wait
 * for the operator's record. Holds until the next cp_decoder_init. threads: any. */
void cp_operators_pushed(void);
/** The last record has come: deliver those that wait for their operator, and write the ledger. */
void cp_decoder_finish(cp_decoder *d);
void cp_decoder_free(cp_decoder *d);

/* For the readers of each kind. */
static inline bool cp_wants(const cp_decoder *d, int32_t type) { return d->types >> type & 1; }
/** The operator that a launch belongs to; 0: none. */
uint64_t cp_operator_of(cp_decoder *d, uint32_t correlation_id);
/** Initialise an activity and check its times. False: it must not be delivered, and was counted. */
static inline bool cp_begin_activity(cp_decoder *d, KinetoPlugin_Activity *a, int32_t type,
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
/** Set where device work ran, what launched it, and the operator of the launch. */
void cp_place_activity(cp_decoder *d, KinetoPlugin_Activity *a, uint32_t device, uint32_t stream,
                       uint32_t correlation_id);
/** Deliver an activity; refusals of the host are counted. */
void cp_deliver_activity(cp_decoder *d, uint32_t kind, KinetoPlugin_Activity *a);
/** Copy a record to the waiting list until more is known; false: the list is full, or is being
 * emptied. */
bool cp_keep_record(cp_decoder *d, const uint8_t *record);

/* ---- sets of values (common/value_sets.h) ----------------------------------------------------- */
enum { CP_SET_KERNEL = 1, CP_SET_GRAPH, CP_SET_MEMCPY, CP_SET_MEMCPY2, CP_SET_MEMSET, CP_SET_CALL };
/* Storage for values that are not numbers until the activity is delivered. */
typedef struct cp_set_scratch {
    int64_t grid[3], block[3], cluster[3];
    char json[448];
} cp_set_scratch;
typedef void cp_describe_fn(const cp_decoder *d, const cp_set_key *key, cp_values *out,
                            cp_set_scratch *scratch);
/** The number of the set for `key`, registered at its first use; 0: the host has no sets, and the
 * values are in `out` and `scratch`. */
static inline uint32_t cp_get_value_set(cp_decoder *d, const cp_set_key *key,
                                        cp_describe_fn *describe, cp_values *out,
                                        cp_set_scratch *scratch)
{
    uint32_t set = cp_sets_find(d->sets, key);
    if (set)
        return set;
    describe(d, key, out, scratch);
    return cp_sets_add(d->sets, d->builder, key, out);
}

/* ---- kernels.c host_functions.c transfers.c calls.c syncs.c memory.c ------------------------- */
void cp_read_kernel(cp_decoder *d, const uint8_t *record);
void cp_read_graph(cp_decoder *d, const uint8_t *record);

void cp_read_host_launch(cp_decoder *d, const uint8_t *record);
void cp_read_host_node(cp_decoder *d, const uint8_t *record);
void cp_read_green_context(cp_decoder *d, const uint8_t *record);
/** Multiprocessors of a green context; 0: the context is none, and has all of its device. */
uint32_t cp_green_context_sms(const cp_decoder *d, uint32_t context);

void cp_read_memcpy(cp_decoder *d, const uint8_t *record);
void cp_read_memcpy2(cp_decoder *d, const uint8_t *record);
void cp_read_memset(cp_decoder *d, const uint8_t *record);
/** "Pinned" and so on, for a CUpti_ActivityMemoryKind. */
const char *cp_memory_kind(uint32_t kind);

void cp_read_call(cp_decoder *d, const uint8_t *record);
void cp_read_overhead(cp_decoder *d, const uint8_t *record);
bool cp_calls_create(cp_decoder *d);
void cp_calls_free(cp_decoder *d);
/** Note the system id of the calling thread together with CUPTI's id, for versions of CUPTI that do
 * not use system ids. threads: any. */
void cp_threads_register(void);

void cp_read_sync(cp_decoder *d, const uint8_t *record);
void cp_read_event(cp_decoder *d, const uint8_t *record);
void cp_read_context(cp_decoder *d, const uint8_t *record);
/** Note the device of a context, for records that do not have it. */
void cp_syncs_note_context(cp_decoder *d, uint32_t context, uint32_t device);
/** True for the wait of a stream that has done no work so far. */
bool cp_sync_is_quiet(cp_decoder *d, const uint8_t *record);
/** True if it waits for an event whose recording has not been seen. */
bool cp_sync_is_unresolved(const cp_decoder *d, const uint8_t *record);
bool cp_syncs_create(cp_decoder *d);
void cp_syncs_free(cp_decoder *d);
/** Note work of a device: its context belongs to the device, its stream is active. */
void cp_syncs_note_work(cp_decoder *d, uint32_t context, uint32_t device, uint32_t stream);

void cp_read_memory(cp_decoder *d, const uint8_t *record);
/** The number that the host gave the kind "gpu_memory"; 0: allocations are not delivered. */
extern int32_t cp_memory_type;
/** Announce it; call before the profiler is registered. */
void cp_memory_announce(const KinetoPlugin_Registry *registry);

/* ---- buffers.c ------------------------------------------------------------------------------- */
#define CP_BUFFER_BYTES ((size_t)1 << 20) /* each thread of the program may have one */

typedef struct cp_buffer_stats {
    /* Buffers that CUPTI has returned with records. */
    uint64_t filled;
    uint64_t refused; /* requests when no buffer was free */
    uint64_t dropped; /* records that CUPTI says it dropped, or wrote to spare buffers */
    uint64_t late;    /* records that came after the end */
    uint64_t kept;    /* buffers with records that CUPTI did not return at the end */
    size_t peak_bytes;
} cp_buffer_stats;

/** Allocate and touch all buffers, so that nothing is allocated while the program runs. @param
 * bound_bytes the size of all buffers together. */
bool cp_buffers_create(size_t bound_bytes, char why[CP_TEXT_BYTES]);
/** Set for versions of CUPTI that may crash when they get no buffer (before CUDA 12.9): they get a
 * small one beyond the bound then, whose records are dropped and counted. */
#define CP_SPARE_BYTES ((size_t)64 << 10)
void cp_buffers_never_refuse(bool never);
/** CUPTI's callbacks. */
void CP_CUPTI_CALL cp_buffers_request(uint8_t **buffer, size_t *size, size_t *max_records);
void CP_CUPTI_CALL cp_buffers_complete(cp_context context, uint32_t stream, uint8_t *buffer,
                                       size_t size, size_t valid);
/** Start the thread that reads filled buffers into `decoder` and regularly makes CUPTI flush its
 * own. */
bool cp_buffers_attach(cp_decoder *decoder, char why[CP_TEXT_BYTES]);
/** Read all that has been filled, on the calling thread. */
void cp_buffers_drain(void);
/** Stop reading; records that come later are counted as late. */
void cp_buffers_detach(void);
cp_buffer_stats cp_buffers_stats(void);
void cp_buffers_after_fork(void);

/* ---- reasons.c ------------------------------------------------------------------------------- */
/** Write a message: what CUPTI refused, why, and what to do. */
void cp_explain(cp_result result, const char *doing, char why[CP_TEXT_BYTES]);

/* ---- device_wait.c ------------------------------------------------------------------------------- */
/** Wait for the current context, a few seconds at most. False: it is still busy. */
bool cp_wait_for_device(void);

/* ---- options.c, source.c --------------------------------------------------------------------- */
typedef struct cp_options {
    /* Bit per KINETO_PLUGIN_PROFILE_EVENT_TYPE_…. */
    uint64_t types;
    size_t buffer_bytes;       /* of all buffers; default 64 MiB */
    bool per_thread_buffers;   /* if this CUPTI has them */
    bool graph_nodes;          /* one activity per node of a graph, not per graph */
    bool memory;               /* allocations of the device */
    bool show_waits;           /* streams that wait for events, as activities */
    bool sync_at_stop;         /* wait for the current context at the end, for complete records */
    bool teardown;             /* detach CUPTI from the program when a session ends */
    uint32_t nvml_interval_ms; /* interval of samples of power, clocks and the like; 0: none */
    char pm_metrics[512];      /* comma-separated; "": none */
    int32_t pm_device;
    uint32_t pm_interval_us;
} cp_options;
/** Parse the environment variable CKINETO_CUDA and then the user's text for plug-ins,
 * "cuda.buffer_bytes=64MiB cuda.graph=graph". False: `why` says what is wrong. */
bool cp_options_read(const char *text, cp_options *out, char why[CP_TEXT_BYTES]);

/* driver_calls.c */
/** Record the selected driver calls. Other than CP_SUCCESS: CUPTI cannot select single calls, and
 * none is recorded. */
cp_result cp_driver_calls_on(void);
void cp_driver_calls_off(void);

/** Warm-up: open the libraries and allocate the buffers; nothing is recorded yet. */
bool cp_source_prepare(const cp_options *options, char why[CP_TEXT_BYTES]);
/** Switch CUPTI on; records are delivered to `builder` from here on. */
bool cp_source_start(const KinetoPlugin_TraceBuilder *builder, char why[CP_TEXT_BYTES]);
/** Switch CUPTI off and deliver the remaining records. */
void cp_source_stop(void);
/** End the session, after prepare or stop. */
void cp_source_end(void);
/** Make the program's exit end the session before what was loaded until now ends. threads: any. */
void cp_source_install_exit_handler(void);
/** Deliver the records that exist now. */
void cp_source_drain(void);
void cp_source_toggle(bool on);
void cp_source_push(uint64_t external_id);
void cp_source_pop(void);

/* ---- nvml.c, pm.c: counters ------------------------------------------------------------------ */
/** Start sampling on a thread of its own; false: the reason is in `why`. Stopping waits for the
 * thread. */
bool cp_nvml_start(const cp_options *options, const KinetoPlugin_TraceBuilder *builder,
                   char why[CP_TEXT_BYTES]);
void cp_nvml_stop(void);
bool cp_pm_start(const cp_options *options, const KinetoPlugin_TraceBuilder *builder,
                 char why[CP_TEXT_BYTES]);
void cp_pm_stop(void);
#endif
