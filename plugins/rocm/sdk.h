/* AMD's rocprofiler-sdk as far as we use it: own declarations of its binary interface, versions 0.5
 * (ROCm 6.2) to 1.x (ROCm 7). tests/rocm compares them with the vendor's headers where a directory with
 * these is named.
 *
 * A record begins with its own size. Versions before 1.0 have ids of 16 bytes in it, later ones of 24 in
 * records of calls, allocations and scratch memory: what follows the ids is a "tail" here, the same in
 * all versions (rp_tail). Records grow at their end only.
 */
#ifndef RP_SDK_H
#define RP_SDK_H

#include <stddef.h>
#include <stdint.h>

#define RP_VERSION_LONG_IDS 10000u /* 1.0.0: 10000 major + 100 minor + patch */

typedef int rp_status;
enum {
    RP_SUCCESS = 0,
    RP_ERROR_CONTEXT_NOT_STARTED = 11,
    RP_ERROR_CONTEXT_CONFLICT = 12,
    RP_ERROR_BUFFER_BUSY = 14,
    RP_ERROR_ALREADY_CONFIGURED = 15,
    RP_ERROR_CONFIGURATION_LOCKED = 16,
    RP_ERROR_INCOMPATIBLE_ABI = 18,
    RP_ERROR_FINALIZED = 21,
    RP_ERROR_INCOMPATIBLE_KERNEL = 28,
};

/* Handles, passed by value. */
typedef struct rp_context {
    uint64_t handle;
} rp_context;
typedef struct rp_buffer {
    uint64_t handle;
} rp_buffer;
typedef struct rp_callback_thread {
    uint64_t handle;
} rp_callback_thread;
typedef union rp_user_data {
    uint64_t value;
    void *pointer;
} rp_user_data;

/* ---- records --------------------------------------------------------------------------------- */

enum { RP_CATEGORY_TRACING = 1 };
typedef struct rp_header {
    uint32_t category, kind;
    void *payload;
} rp_header;

/* The begin of each record, with ids of 16 bytes: the launch or call, and what a tool pushed. */
typedef struct rp_record {
    uint64_t size;
    uint32_t kind;
    int32_t operation;
    uint64_t internal, external;
} rp_record;

typedef struct rp_kernel_record {
    rp_record head;
    uint64_t thread, start, end;
    uint64_t info_size, agent_id, queue, kernel, dispatch;
    uint32_t private_bytes, group_bytes;
    uint32_t block[3], grid[3]; /* work-items: of a group, and of the whole launch */
} rp_kernel_record;

enum { RP_COPY_HTOH = 1, RP_COPY_HTOD, RP_COPY_DTOH, RP_COPY_DTOD };
typedef struct rp_copy_record {
    rp_record head;
    uint64_t thread, start, end, to_agent, from_agent, bytes;
} rp_copy_record;

/* Tails: after the ids. */
typedef struct rp_call_tail {
    uint64_t start, end, thread;
} rp_call_tail;

enum { RP_MEMORY_ALLOCATE = 1, RP_MEMORY_MAP, RP_MEMORY_FREE, RP_MEMORY_UNMAP };
typedef struct rp_memory_tail {
    uint64_t thread, start, end, agent_id, address, bytes;
} rp_memory_tail;

enum { RP_SCRATCH_ALLOCATE = 1, RP_SCRATCH_FREE, RP_SCRATCH_RECLAIM };
typedef struct rp_scratch_tail {
    uint64_t agent_id, queue, thread, start, end;
    uint32_t flags, reserved;
    uint64_t bytes; /* since 1.0 */
} rp_scratch_tail;
#define RP_SCRATCH_SHORT_BYTES offsetof(rp_scratch_tail, bytes)

/* One launch of a graph; versions that report it have long ids. */
typedef struct rp_graph_tail {
    uint64_t thread, start, end, agent_id, queue, graph, kernel_count;
} rp_graph_tail;

#define RP_SHORT_IDS 16u
#define RP_LONG_IDS  24u
#define RP_IDS_AT    16u

#define RP_ASSERT_AT(type, member, at)                                                             \
    _Static_assert(offsetof(type, member) == (at), #type "." #member)
RP_ASSERT_AT(rp_header, payload, 8);
RP_ASSERT_AT(rp_record, kind, 8);
RP_ASSERT_AT(rp_record, operation, 12);
RP_ASSERT_AT(rp_record, internal, RP_IDS_AT);
RP_ASSERT_AT(rp_record, external, 24);
RP_ASSERT_AT(rp_kernel_record, thread, 32);
RP_ASSERT_AT(rp_kernel_record, start, 40);
RP_ASSERT_AT(rp_kernel_record, end, 48);
RP_ASSERT_AT(rp_kernel_record, info_size, 56);
RP_ASSERT_AT(rp_kernel_record, agent_id, 64);
RP_ASSERT_AT(rp_kernel_record, queue, 72);
RP_ASSERT_AT(rp_kernel_record, kernel, 80);
RP_ASSERT_AT(rp_kernel_record, dispatch, 88);
RP_ASSERT_AT(rp_kernel_record, private_bytes, 96);
RP_ASSERT_AT(rp_kernel_record, group_bytes, 100);
RP_ASSERT_AT(rp_kernel_record, block, 104);
RP_ASSERT_AT(rp_kernel_record, grid, 116);
RP_ASSERT_AT(rp_copy_record, thread, 32);
RP_ASSERT_AT(rp_copy_record, to_agent, 56);
RP_ASSERT_AT(rp_copy_record, from_agent, 64);
RP_ASSERT_AT(rp_copy_record, bytes, 72);
RP_ASSERT_AT(rp_call_tail, thread, 16);
RP_ASSERT_AT(rp_memory_tail, agent_id, 24);
RP_ASSERT_AT(rp_memory_tail, bytes, 40);
RP_ASSERT_AT(rp_scratch_tail, end, 32);
RP_ASSERT_AT(rp_scratch_tail, flags, 40);
RP_ASSERT_AT(rp_scratch_tail, bytes, 48);
RP_ASSERT_AT(rp_graph_tail, graph, 40);

/* ---- callbacks ------------------------------------------------------------------------------- */

/* Passed by value: of 56 bytes with short ids, of 64 with long ones, which tracing.c tells apart. */
typedef struct rp_callback_record {
    uint64_t context, thread, internal, external;
    uint32_t words[8];
} rp_callback_record;
_Static_assert(sizeof(rp_callback_record) == 64, "rp_callback_record");

/* Phases of a callback. */
enum { RP_PHASE_ENTER = 1, RP_PHASE_EXIT = 2 }; /* of code: load and unload */
enum { RP_CODE_OBJECT_LOAD = 1, RP_CODE_KERNEL_SYMBOL = 2 };

/* A kernel of a code object that is being loaded; later versions append members. */
typedef struct rp_kernel_symbol {
    uint64_t size, kernel, code_object;
    const char *name; /* "_Z3addPf.kd" */
    uint64_t object;
    uint32_t argument_bytes, argument_alignment;
    uint32_t group_bytes, private_bytes;
    uint32_t scalar_registers, vector_registers, accumulation_registers;
} rp_kernel_symbol;
RP_ASSERT_AT(rp_kernel_symbol, name, 24);
RP_ASSERT_AT(rp_kernel_symbol, group_bytes, 48);
RP_ASSERT_AT(rp_kernel_symbol, scalar_registers, 56);
RP_ASSERT_AT(rp_kernel_symbol, vector_registers, 60);
#define RP_KERNEL_SYMBOL_BYTES (offsetof(rp_kernel_symbol, accumulation_registers) + 4)

/* A call of ROCTX: its first argument, and its result. */
typedef struct rp_marker_call {
    uint64_t size;
    union {
        const char *text;
        uint64_t id;
        uint64_t words[2];
    } argument;
    uint64_t result;
} rp_marker_call;
RP_ASSERT_AT(rp_marker_call, result, 24);

/* ---- processors and GPUs --------------------------------------------------------------------- */

enum { RP_AGENT_VERSION = 1, RP_AGENT_GPU = 2 };
typedef struct rp_memory_bank {
    uint32_t heap, flags, width, clock;
    uint64_t bytes;
} rp_memory_bank;
enum { RP_HEAP_PUBLIC = 1, RP_HEAP_PRIVATE = 2 }; /* of the GPU */

typedef struct rp_agent {
    uint64_t size, id;
    uint32_t type, cpu_cores, simd_count, memory_bank_count;
    uint32_t unused_1[4];
    uint32_t waves_per_simd, local_kib, unused_2[2];
    uint32_t wave_size, xcc_count, unit_count, unused_3[4], simd_per_unit;
    uint32_t unused_4, gfx_version;
    uint16_t vendor, device;
    uint32_t pci_place, pci_domain, unused_5[9];
    uint32_t unused_6[2];
    uint32_t waves_per_unit, family, block_items, unused_7;
    uint64_t local_memory, hive, gpu_id;
    uint32_t unused_8[6];
    const rp_memory_bank *memory_banks;
    const void *caches, *links;
    const char *name, *vendor_name, *product_name, *model_name;
    uint32_t node;
    int32_t logical_node;
} rp_agent;
RP_ASSERT_AT(rp_agent, type, 16);
RP_ASSERT_AT(rp_agent, memory_bank_count, 28);
RP_ASSERT_AT(rp_agent, waves_per_simd, 48);
RP_ASSERT_AT(rp_agent, local_kib, 52);
RP_ASSERT_AT(rp_agent, wave_size, 64);
RP_ASSERT_AT(rp_agent, unit_count, 72);
RP_ASSERT_AT(rp_agent, simd_per_unit, 92);
RP_ASSERT_AT(rp_agent, gfx_version, 100);
RP_ASSERT_AT(rp_agent, pci_place, 108);
RP_ASSERT_AT(rp_agent, pci_domain, 112);
RP_ASSERT_AT(rp_agent, waves_per_unit, 160);
RP_ASSERT_AT(rp_agent, block_items, 168);
RP_ASSERT_AT(rp_agent, gpu_id, 192);
RP_ASSERT_AT(rp_agent, memory_banks, 224);
RP_ASSERT_AT(rp_agent, name, 248);
RP_ASSERT_AT(rp_agent, product_name, 264);
RP_ASSERT_AT(rp_agent, node, 280);
RP_ASSERT_AT(rp_agent, logical_node, 284);
#define RP_AGENT_BYTES (offsetof(rp_agent, logical_node) + 4)

/* ---- a tool ---------------------------------------------------------------------------------- */

/* Filled by the tool in rocprofiler_configure. */
typedef struct rp_client {
    size_t size;
    const char *name;
    uint32_t handle;
} rp_client;
typedef void (*rp_finalizer)(rp_client client);
typedef struct rp_configuration {
    size_t size;
    int (*initialize)(rp_finalizer finalizer, void *data);
    void (*finalize)(void *data);
    void *data;
} rp_configuration;
_Static_assert(sizeof(rp_configuration) == 32, "rp_configuration");
typedef rp_configuration *(*rp_configure_fn)(uint32_t version, const char *version_text,
                                             uint32_t priority, rp_client *client);

/* What happens when a buffer is full: records are dropped, or the program waits. */
enum { RP_POLICY_DISCARD = 1, RP_POLICY_LOSSLESS = 2 };
typedef void (*rp_buffer_fn)(rp_context context, rp_buffer buffer, rp_header **headers, size_t count,
                             void *data, uint64_t dropped);
typedef void (*rp_callback_fn)(rp_callback_record record, rp_user_data *user, void *data);
typedef int (*rp_operation_fn)(uint32_t kind, int32_t operation, void *data);
typedef rp_status (*rp_agents_fn)(int version, const void **list, size_t count, void *data);
typedef int (*rp_external_fn)(uint64_t thread, rp_context context, uint32_t kind, int32_t operation,
                              uint64_t internal, rp_user_data *external, void *data);

/* X(member, function without "rocprofiler_", parameters, 1 if it is needed) */
#define RP_SDK_MAP(X)                                                                              \
    X(get_version, get_version, (uint32_t *, uint32_t *, uint32_t *), 1)                           \
    X(get_timestamp, get_timestamp, (uint64_t *), 1)                                               \
    X(force_configure, force_configure, (rp_configure_fn), 1)                                      \
    X(create_context, create_context, (rp_context *), 1)                                           \
    X(start_context, start_context, (rp_context), 1)                                               \
    X(stop_context, stop_context, (rp_context), 1)                                                 \
    X(create_buffer, create_buffer,                                                                \
      (rp_context, size_t, size_t, int, rp_buffer_fn, void *, rp_buffer *), 1)                     \
    X(flush_buffer, flush_buffer, (rp_buffer), 1)                                                  \
    X(create_thread, create_callback_thread, (rp_callback_thread *), 0)                            \
    X(assign_thread, assign_callback_thread, (rp_buffer, rp_callback_thread), 0)                   \
    X(buffer_service, configure_buffer_tracing_service,                                            \
      (rp_context, uint32_t, const int32_t *, size_t, rp_buffer), 1)                               \
    X(callback_service, configure_callback_tracing_service,                                        \
      (rp_context, uint32_t, const int32_t *, size_t, rp_callback_fn, void *), 1)                  \
    X(buffer_kind_name, query_buffer_tracing_kind_name, (uint32_t, const char **, uint64_t *), 1)  \
    X(callback_kind_name, query_callback_tracing_kind_name,                                        \
      (uint32_t, const char **, uint64_t *), 1)                                                    \
    X(operation_name, query_buffer_tracing_kind_operation_name,                                    \
      (uint32_t, int32_t, const char **, uint64_t *), 1)                                           \
    X(callback_operation_name, query_callback_tracing_kind_operation_name,                         \
      (uint32_t, int32_t, const char **, uint64_t *), 1)                                           \
    X(operations, iterate_buffer_tracing_kind_operations, (uint32_t, rp_operation_fn, void *), 1)  \
    X(query_agents, query_available_agents, (int, rp_agents_fn, size_t, void *), 1)                      \
    X(external_service, configure_external_correlation_id_request_service,                         \
      (rp_context, const uint32_t *, size_t, rp_external_fn, void *), 0)                           \
    X(push_external, push_external_correlation_id, (rp_context, uint64_t, rp_user_data), 1)        \
    X(pop_external, pop_external_correlation_id, (rp_context, uint64_t, rp_user_data *), 1)

typedef struct rp_sdk_api {
#define RP_X(member, function, parameters, needed) rp_status(*member) parameters;
    RP_SDK_MAP(RP_X)
#undef RP_X
    const char *(*status_text)(rp_status); /* rocprofiler_get_status_string, not needed */
} rp_sdk_api;

#endif
