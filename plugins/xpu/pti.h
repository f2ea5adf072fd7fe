/* Intel's PTI (libpti_view) as far as the XPU source uses it, in declarations of our own: the source is
 * built on every machine, and one binary serves versions 0.10 to 1.x. A record has no size of its own:
 * it ends where the next one begins. Members that later versions append are not declared. Their order
 * is that of PTI's headers, against which tests/xpu/test_layouts.py compares them. */
#ifndef XP_PTI_H
#define XP_PTI_H

#include <stddef.h>
#include <stdint.h>

typedef int xp_status; /* pti_result */
enum {
    XP_SUCCESS = 0,
    XP_END_OF_BUFFER = 1,
    XP_NOT_IMPLEMENTED = 2,
    XP_BAD_ARGUMENT = 3,
    XP_NO_CALLBACKS_SET = 4,
    XP_ERROR_DRIVER = 50,
    XP_TRACING_NOT_INITIALIZED = 51
};

/* pti_view_kind. Calls of the runtime are 6 in all versions, with another layout before 0.11. */
enum {
    XP_VIEW_KERNEL = 1,
    XP_VIEW_DRIVER = 3,
    XP_VIEW_OVERHEAD = 5,
    XP_VIEW_RUNTIME = 6,
    XP_VIEW_EXTERNAL = 7,
    XP_VIEW_COPY = 8,
    XP_VIEW_FILL = 9,
    XP_VIEW_COPY_P2P = 10,
    XP_VIEW_SYNC = 11,  /* since 0.12 */
    XP_VIEW_COMMS = 12, /* since 0.17 */
    XP_VIEW_COUNT
};
/* pti_view_external_kind, pti_api_group_id, pti_api_class */
enum { XP_EXTERNAL_CUSTOM_0 = 2 };
enum { XP_GROUP_LEVEL_ZERO = 1, XP_GROUP_SYCL = 3, XP_GROUP_ALL = 0x7fffffff };
enum { XP_CLASS_GPU_CORE = 1 };

#define XP_VERSION(major, minor) ((major) * 1000u + (minor))
#define XP_OLDEST_VERSION XP_VERSION(0u, 10u)
#define XP_VERSION_API    XP_VERSION(0u, 11u) /* calls have numbers, not names */

/* SYCL counts its queues. Larger numbers stand for none. */
#define XP_MAX_QUEUE_ID (1u << 20)

typedef struct xp_kernel_record {
    uint32_t kind;
    const void *queue, *context;
    const char *name, *source_file;
    uint64_t source_line, kernel_id;
    uint32_t correlation, thread;
    char pci_address[16];
    uint8_t uuid[16];
    uint64_t appended, start, end, submitted, task_begin, enqueue_begin, node, sycl_queue;
    uint32_t invocation;
} xp_kernel_record;

typedef struct xp_copy_record {
    uint32_t kind, type, from, to;
    const void *queue, *context;
    const char *name;
    char pci_address[16];
    uint8_t uuid[16];
    uint64_t operation;
    uint32_t correlation, thread;
    uint64_t appended, start, end, submitted, bytes, sycl_queue;
} xp_copy_record;

typedef struct xp_p2p_record {
    uint32_t kind, type, from, to;
    const void *queue, *context;
    const char *name;
    char from_pci[16], to_pci[16];
    uint8_t from_uuid[16], to_uuid[16];
    uint64_t operation;
    uint32_t correlation, thread;
    uint64_t appended, start, end, submitted, bytes, sycl_queue;
} xp_p2p_record;

typedef struct xp_fill_record {
    uint32_t kind, type;
    const void *queue, *context;
    const char *name;
    char pci_address[16];
    uint8_t uuid[16];
    uint64_t operation;
    uint32_t correlation, thread;
    uint64_t appended, start, end, submitted, bytes, value, sycl_queue;
} xp_fill_record;

typedef struct xp_sync_record {
    uint32_t kind, type;
    const void *context, *queue, *event;
    uint64_t start, end;
    uint32_t thread, correlation, wait_events, result, api, group;
} xp_sync_record;

typedef struct xp_external_record {
    uint32_t kind, correlation;
    uint64_t id;
    uint32_t external_kind;
} xp_external_record;

/* Before 0.11 `thread` has 64 bits, and there is no `api`. */
typedef struct xp_overhead_record {
    uint32_t kind;
    uint64_t start, end;
    uint32_t thread, api;
    uint64_t count, duration;
    uint32_t overhead_kind;
} xp_overhead_record;

typedef struct xp_api_record {
    uint32_t kind;
    uint64_t start, end;
    uint32_t group, api, process, thread, correlation, result;
} xp_api_record;

/* Calls of SYCL before 0.11. */
typedef struct xp_named_call_record {
    uint32_t kind;
    const char *name;
    uint64_t start, end;
    uint32_t process, thread, correlation;
} xp_named_call_record;

typedef struct xp_comms_record {
    uint32_t kind;
    uint64_t start, end;
    uint32_t process, thread;
    uint64_t sent_bytes, received_bytes, communicator;
    const char *name;
} xp_comms_record;

_Static_assert(sizeof(xp_kernel_record) == 168 && offsetof(xp_kernel_record, start) == 104, "kernel");
_Static_assert(sizeof(xp_copy_record) == 136 && offsetof(xp_copy_record, start) == 96, "copy");
_Static_assert(sizeof(xp_p2p_record) == 168 && offsetof(xp_p2p_record, start) == 128, "copy p2p");
_Static_assert(sizeof(xp_fill_record) == 136 && offsetof(xp_fill_record, start) == 88, "fill");
_Static_assert(sizeof(xp_sync_record) == 72 && offsetof(xp_sync_record, start) == 32, "sync");
_Static_assert(sizeof(xp_external_record) == 24 && offsetof(xp_external_record, id) == 8, "external");
_Static_assert(sizeof(xp_overhead_record) == 56 && offsetof(xp_overhead_record, count) == 32, "overhead");
_Static_assert(sizeof(xp_api_record) == 48 && offsetof(xp_api_record, correlation) == 40, "api");
_Static_assert(sizeof(xp_named_call_record) == 48, "named call");
_Static_assert(sizeof(xp_comms_record) == 64 && offsetof(xp_comms_record, name) == 56, "comms");

/* The longest record of known versions, 192 bytes, with room for more. PTI writes without asking for
 * the size if it fits once. */
#define XP_MAX_RECORD_BYTES 512u

typedef struct xp_version {
    uint32_t major, minor, patch;
} xp_version;
typedef void xp_request_fn(unsigned char **buffer, size_t *size);
typedef void xp_complete_fn(unsigned char *buffer, size_t size, size_t used);
typedef uint64_t xp_timestamp_fn(void);

/* Functions of PTI: X(member, symbol, result, parameters, 1 if it is needed). */
#define XP_PTI_MAP(X)                                                                              \
    X(version, ptiVersion, xp_version, (void), 1)                                                  \
    X(set_callbacks, ptiViewSetCallbacks, xp_status, (xp_request_fn *, xp_complete_fn *), 1)       \
    X(enable, ptiViewEnable, xp_status, (int kind), 1)                                             \
    X(disable, ptiViewDisable, xp_status, (int kind), 1)                                           \
    X(flush, ptiFlushAllViews, xp_status, (void), 1)                                               \
    X(next_record, ptiViewGetNextRecord, xp_status,                                                \
      (unsigned char *buffer, size_t used, unsigned char **record), 1)                             \
    X(push_external, ptiViewPushExternalCorrelationId, xp_status, (int kind, uint64_t id), 0)      \
    X(pop_external, ptiViewPopExternalCorrelationId, xp_status, (int kind, uint64_t *id), 0)       \
    X(set_timestamp, ptiViewSetTimestampCallback, xp_status, (xp_timestamp_fn *), 0)               \
    X(api_name, ptiViewGetApiIdName, xp_status, (int group, uint32_t api, const char **name), 0)   \
    X(enable_runtime_class, ptiViewEnableRuntimeApiClass, xp_status,                               \
      (uint32_t enable, int api_class, int group), 0)                                              \
    X(local_available, ptiViewGPULocalAvailable, xp_status, (void), 0)                             \
    X(result_text, ptiResultTypeToString, const char *, (xp_status), 0)

typedef struct xp_pti_api {
#define XP_X(member, symbol, result, parameters, needed) result(*member) parameters;
    XP_PTI_MAP(XP_X)
#undef XP_X
} xp_pti_api;

/* ---- Level Zero: what its devices are -------------------------------------------------------- */

enum { XP_ZE_DEVICE_PROPERTIES = 3, XP_ZE_GPU = 1 };
typedef struct xp_ze_device_properties {
    uint32_t structure; /* XP_ZE_DEVICE_PROPERTIES */
    void *next;
    uint32_t type, vendor, device, flags, subdevice, clock_mhz;
    uint64_t max_allocation;
    uint32_t contexts, priorities, threads_per_unit, simd_width, units_per_subslice, subslices_per_slice,
        slices;
    uint64_t timer_resolution;
    uint32_t timestamp_bits, kernel_timestamp_bits;
    uint8_t uuid[16];
    char name[256];
} xp_ze_device_properties;
_Static_assert(sizeof(xp_ze_device_properties) == 368 && offsetof(xp_ze_device_properties, uuid) == 96,
               "device properties");

#define XP_ZE_MAP(X)                                                                               \
    X(drivers, zeDriverGet, (uint32_t * count, void **drivers))                                    \
    X(devices, zeDeviceGet, (void *driver, uint32_t *count, void **devices))                       \
    X(properties, zeDeviceGetProperties, (void *device, xp_ze_device_properties *properties))
#endif
