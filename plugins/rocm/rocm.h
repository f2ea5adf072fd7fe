/* The AMD source: a plug-in that turns rocprofiler-sdk's records of a program's use of its GPUs into
 * activities.
 *
 *   sdk.h         rocprofiler-sdk as far as we use it
 *   libs.c        finds the library; why it is not usable; other tools that use it
 *   tool.c        our place among its tools: configure, initialize, finalize
 *   tracing.c     contexts, buffers and services: set up once, when the SDK starts
 *   plugin.c      the plug-in interface
 *   source.c      the session: contexts started and stopped; the end of the program, forks
 *   idle.c        waiting for running GPU work, with a limit
 *   operators.c   operators that the host pushes, for the external id of each record
 *   options.c     the user's options
 *   records.c     one pass over a batch of records
 *   kernels.c transfers.c memory.c calls.c   one kind of record each, to activities
 *   symbols.c     kernels by number: names and registers, from code objects
 *   devices.c      GPUs as rows and properties
 *   markers.c     ranges and marks of ROCTX
 *   smi.c smi_lib.c smi_read.c   counters: power, clocks and the like, from ROCm SMI
 *   doctor.c      the check of `ckineto doctor`
 *   ../common     threads of our own, lines of the ledger, sets of values that activities share
 *
 * Data flows in one direction: SDK → records → kinds → builder. Records come in batches on a thread of
 * the SDK; each batch is read under a lock, within the SDK's callback, from the SDK's buffer.
 */
#ifndef RP_ROCM_H
#define RP_ROCM_H

#include "../common/support.h"
#include "../common/value_sets.h"
#include "sdk.h"

#include <stdatomic.h>
#include <string.h>

#define RP_MAX_DEVICES 64

/* ---- libs.c ---------------------------------------------------------------------------------- */

/* Functions of the SDK, filled once. Members that the library does not have are NULL. */
extern rp_sdk_api rp_sdk;

/** Open the SDK that `caller` is in, or (NULL) the one that the program has loaded, or an installed one.
 * False: `why` is a message with advice. threads: one. */
bool rp_libs_open(const void *caller, char why[CP_TEXT_BYTES]);
/** The SDK's version as in rocprofiler_configure, 0 before it is open. */
uint32_t rp_sdk_version(void);
/** Write what the SDK refused, and why, as far as it says. */
void rp_explain(rp_status status, const char *doing, char why[CP_TEXT_BYTES]);
/** The file name of another library in this program that is a tool of the SDK; "": there is none. */
void rp_find_other_tool(char name[128]);

/* ---- options.c ------------------------------------------------------------------------------- */
typedef struct rp_options {
    /* Bit per KINETO_PLUGIN_PROFILE_EVENT_TYPE_…. */
    uint64_t types;
    size_t buffer_bytes;    /* of a buffer, of which the SDK has two; CKINETO_ROCM only */
    bool discard;           /* a full buffer drops records instead of making the program wait */
    bool with_others;       /* record although another tool was configured first; CKINETO_ROCM only */
    bool hsa;               /* calls of HSA */
    bool memory;            /* allocations of the devices */
    bool markers;           /* ranges and marks of ROCTX */
    bool sync_at_stop;      /* wait for the device at the end, for complete records */
    uint32_t smi_interval_ms; /* interval of samples of power, clocks and the like; 0: none */
} rp_options;
/** Parse the environment variable CKINETO_ROCM and then the user's text for plug-ins. False: `why` says
 * what is wrong. */
bool rp_options_read(const char *text, rp_options *out, char why[CP_TEXT_BYTES]);

/* ---- tool.c ---------------------------------------------------------------------------------- */

/** Make this library a tool of the SDK, unless it is one. False: `why` is a message with advice. */
bool rp_tool_ensure(char why[CP_TEXT_BYTES]);
/** The SDK has ended, or a fork made it unusable: it must not be called any more. threads: any. */
bool rp_tool_is_over(void);
void rp_tool_end(void);
/** Register the profiler with the host in this program, unless a host has loaded us: plugin.c. */
void rp_register_profiler(void);

/* ---- tracing.c ------------------------------------------------------------------------------- */

/* Kinds of records, whose numbers differ between versions: X(name, the SDK's name, context, services that
 * are needed, type of the activities). */
#define RP_KIND_MAP(X)                                                                             \
    X(KERNEL, "KERNEL_DISPATCH", MAIN, 1)                                                          \
    X(COPY, "MEMORY_COPY", MAIN, 1)                                                                \
    X(HIP, "HIP_RUNTIME_API", MAIN, 1)                                                             \
    X(RCCL, "RCCL_API", MAIN, 0)                                                                   \
    X(SCRATCH, "SCRATCH_MEMORY", MAIN, 0)                                                          \
    X(MEMORY, "MEMORY_ALLOCATION", MEMORY, 0)                                                      \
    X(GRAPH, "HIP_GRAPH", MAIN, 0)                                                                 \
    X(HSA_CORE, "HSA_CORE_API", HSA, 0)                                                            \
    X(HSA_AMD, "HSA_AMD_EXT_API", HSA, 0)
typedef enum rp_kind {
    RP_KIND_NONE,
#define RP_X(name, text, context, needed) RP_KIND_##name,
    RP_KIND_MAP(RP_X)
#undef RP_X
        RP_KIND_COUNT
} rp_kind;
#define RP_SDK_KINDS 64u /* numbers of the SDK that are looked at */

typedef enum rp_part { RP_PART_MAIN, RP_PART_MEMORY, RP_PART_HSA, RP_PART_MARKERS, RP_PARTS } rp_part;

/** Within the SDK's initialize: create contexts, buffers and services. False: `why`. */
bool rp_tracing_create(const rp_options *options, char why[CP_TEXT_BYTES]);
/** Our kind for a number of the SDK. */
rp_kind rp_kind_of(uint32_t number);
/** The SDK's number; 0: it does not have the kind. */
uint32_t rp_kind_number(rp_kind kind);
/** True if the kind is recorded by this SDK. */
bool rp_kind_is_traced(rp_kind kind);
/** Start or stop the context of a part. */
rp_status rp_part_start(rp_part part);
void rp_part_stop(rp_part part);
/** Make the SDK hand over all records, and wait for it. @return the last failure. */
rp_status rp_tracing_flush(void);
/** The context whose records have operators' ids, for SDKs that do not ask for them. */
rp_context rp_tracing_context(rp_part part);

/* ---- records.c ------------------------------------------------------------------------------- */

/* Records that became no activity or an incomplete one: X(name, 1 if it is a loss that is not counted
 * elsewhere, text; NULL: the host reports it). */
#define RP_TALLY_MAP(X)                                                                            \
    X(UNKNOWN_KIND, 1, "records of a kind that is not known here")                                 \
    X(CUT_SHORT, 1, "records that are shorter than this version's")                                \
    X(NO_TIME, 0, "activities without a time of the device")                                       \
    X(NOT_DELIVERED, 0, NULL)                                                                      \
    X(NO_NAME, 0, "kernels whose code object was loaded before recording could see it")            \
    X(NO_DEVICE, 0, "activities of a device that the SDK does not list")
typedef enum rp_tally {
#define RP_X(name, loss, text) RP_TALLY_##name,
    RP_TALLY_MAP(RP_X)
#undef RP_X
        RP_TALLY_COUNT
} rp_tally;

#define RP_CALL_NAMES 1024u
#define RP_QUEUES     256u
#define RP_GRAPHS     1024u
typedef struct rp_text {
    const char *data;
    uint32_t size;
} rp_text;
typedef struct rp_decoder {
    const KinetoPlugin_TraceBuilder *builder;
    uint64_t types; /* bit per type to be delivered */
    int32_t clock;  /* of the records' times */
    uint32_t version, pid;
    bool memory;    /* allocations are delivered */
    bool overheads; /* the row of overheads has been announced */
    cp_sets *sets;
    rp_text call_names[RP_KIND_COUNT][RP_CALL_NAMES];
    uint64_t queues[RP_QUEUES]; /* handles; the index is the stream's number */
    uint32_t queue_count;
    struct {
        uint64_t launch, graph;
    } graphs[RP_GRAPHS]; /* by the id of the launch */
    struct rp_live_blocks *blocks; /* memory.c */
    int64_t allocated[RP_MAX_DEVICES];
    uint64_t delivered, tally[RP_TALLY_COUNT];
    uint64_t reported, reported_dropped;
    uint64_t batches, records;
} rp_decoder;

bool rp_decoder_init(rp_decoder *d, const KinetoPlugin_TraceBuilder *builder, const rp_options *options,
                     uint32_t version, int32_t clock);
/** All records of one batch. */
void rp_decoder_read(rp_decoder *d, rp_header **headers, size_t count);
/** Write the ledger. */
void rp_decoder_finish(rp_decoder *d);
void rp_decoder_free(rp_decoder *d);

/** What follows the ids of a record with `bytes` there; NULL: the record is too short, and was counted. */
const void *rp_tail(rp_decoder *d, const rp_record *record, size_t bytes);

static inline bool rp_wants(const rp_decoder *d, int32_t type) { return d->types >> type & 1; }
/** Initialise an activity and check its times. False: it must not be delivered, and was counted. */
bool rp_begin_activity(rp_decoder *d, KinetoPlugin_Activity *a, int32_t type, uint64_t start,
                       uint64_t end);
/** Set where device work ran, and what launched it. */
void rp_place_activity(KinetoPlugin_Activity *a, int32_t device, uint32_t stream,
                       const rp_record *record);
void rp_deliver_activity(rp_decoder *d, KinetoPlugin_Activity *a, const cp_values *values);
/** The number of a queue as a stream: 1, 2 …; 0 is that of copies. */
uint32_t rp_stream_of(rp_decoder *d, uint64_t queue);

/* Kinds of value sets: the first word of a key. */
enum { RP_SET_KERNEL = 1, RP_SET_COPY, RP_SET_CALL };

void rp_read_kernel(rp_decoder *d, const rp_record *record);
void rp_read_graph(rp_decoder *d, const rp_record *record);
void rp_read_copy(rp_decoder *d, const rp_record *record);
void rp_read_call(rp_decoder *d, rp_kind kind, const rp_record *record);
void rp_read_scratch(rp_decoder *d, const rp_record *record);
void rp_read_memory(rp_decoder *d, const rp_record *record);
/** Announce the kind "gpu_memory"; call before the profiler is registered. */
void rp_memory_announce(const KinetoPlugin_Registry *registry);
/** The number that the host gave it; 0: allocations are not delivered. */
extern int32_t rp_memory_type;
void rp_memory_free(rp_decoder *d);

/* ---- symbols.c ------------------------------------------------------------------------------- */
typedef struct rp_symbol {
    rp_text name; /* demangled */
    uint32_t vector_registers, scalar_registers;
} rp_symbol;
/** A kernel of a code object was loaded. threads: any. */
void rp_symbols_add(const rp_kernel_symbol *symbol);
/** The kernel with this number; NULL: unknown. threads: any. */
const rp_symbol *rp_symbols_get(uint64_t kernel);

/* ---- devices.c -------------------------------------------------------------------------------- */
typedef struct rp_device {
    uint64_t agent_id;
    int32_t id; /* HIP's number: GPUs in the order of their nodes */
    uint32_t node;
    char name[128], arch[24];
    int32_t major, minor, unit_count, wave_size, block_items, items_per_unit, local_bytes;
    uint64_t memory_bytes;
    uint32_t pci_domain, pci_place;
} rp_device;
/** Read the GPUs from the SDK, once. */
void rp_agents_load(void);
/** NULL: not a GPU, or unknown. */
const rp_device *rp_device_of(uint64_t agent_id);
const rp_device *rp_device_at(uint32_t i);
/** Announce rows, properties and versions. */
void rp_agents_announce(const KinetoPlugin_TraceBuilder *builder);

/* ---- operators.c ----------------------------------------------------------------------------- */
/** A session begins (its number) or ends (0) to want ids of operators. */
void rp_operators_begin(uint32_t session);
void rp_operators_push(uint64_t id);
void rp_operators_pop(void);
/** The SDK's request for the external id of a record. */
int rp_operators_answer(uint64_t thread, rp_context context, uint32_t kind, int32_t operation,
                        uint64_t internal, rp_user_data *external, void *data);
/** The SDK does not ask: ids are pushed to it. */
void rp_operators_push_to_sdk(void);

/* ---- markers.c ------------------------------------------------------------------------------- */
/** A call of ROCTX begins or ends. */
void rp_markers_call(uint32_t kind, int32_t operation, uint32_t phase, const rp_marker_call *call);
/** True if another library of ours records ROCTX in this program. */
bool rp_markers_are_taken(void);

/* ---- source.c -------------------------------------------------------------------------------- */
bool rp_source_prepare(const rp_options *options, char why[CP_TEXT_BYTES]);
bool rp_source_start(const KinetoPlugin_TraceBuilder *builder, char why[CP_TEXT_BYTES]);
void rp_source_stop(void);
/** End the session, after prepare or stop. */
void rp_source_end(void);
/** The SDK ends: collect its last records. HIP may have ended already. */
void rp_source_finalize(void);
/** Make the program's exit end the session before HIP and the SDK end. threads: any. */
void rp_source_install_exit_handler(void);
void rp_source_drain(void);
void rp_source_toggle(bool on);
/** The SDK's callback with a batch of records, on its thread. */
void rp_source_receive(rp_context context, rp_buffer buffer, rp_header **headers, size_t count,
                       void *data, uint64_t dropped);

/* ---- smi.c: counters ------------------------------------------------------------------------- */
bool rp_smi_start(const rp_options *options, const KinetoPlugin_TraceBuilder *builder,
                  char why[CP_TEXT_BYTES]);
void rp_smi_stop(void);
#endif
