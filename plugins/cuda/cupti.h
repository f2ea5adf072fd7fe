/* Own declarations of CUPTI, the CUDA driver and runtime, as far as the source uses them, so that
 * it is built without NVIDIA's headers and works with the libraries of several CUDA releases.
 * Numbers and layouts are those of NVIDIA's headers (CUDA 11.0 to 13.5); tests/cuda compares them
 * with the real ones if installed. */
#ifndef CP_CUPTI_H
#define CP_CUPTI_H

#include <stddef.h>
#include <stdint.h>

#define CP_CUPTI_CALL /* the platform's usual convention */

/* ---- CUPTI ----------------------------------------------------------------------------------- */

typedef int32_t cp_result; /* CUptiResult */
enum {
    CP_SUCCESS = 0,
    CP_ERROR_INVALID_PARAMETER = 1,
    CP_ERROR_INVALID_OPERATION = 7,
    CP_ERROR_OUT_OF_MEMORY = 8,
    CP_ERROR_MAX_LIMIT_REACHED = 12, /* the buffer has no more records */
    CP_ERROR_NOT_READY = 13,
    /* Another tool has switched something on. */
    CP_ERROR_NOT_COMPATIBLE = 14,
    CP_ERROR_NOT_INITIALIZED = 15,
    CP_ERROR_QUEUE_EMPTY = 18,
    CP_ERROR_HARDWARE_BUSY = 26,
    CP_ERROR_NOT_SUPPORTED = 27,
    CP_ERROR_VIRTUALIZED_DEVICE_NOT_SUPPORTED = 33,
    CP_ERROR_INSUFFICIENT_PRIVILEGES = 35,
    CP_ERROR_OLD_PROFILER_API_INITIALIZED = 36,
    CP_ERROR_LEGACY_PROFILER_NOT_SUPPORTED = 38,
    CP_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED = 39,
    CP_ERROR_VIRTUALIZED_DEVICE_INSUFFICIENT_PRIVILEGES = 40,
    CP_ERROR_CONFIDENTIAL_COMPUTING_NOT_SUPPORTED = 41,
    CP_ERROR_MIG_DEVICE_NOT_SUPPORTED = 43,
    CP_ERROR_WSL_DEVICE_NOT_SUPPORTED = 45,
    CP_ERROR_UNKNOWN = 999 /* no driver, most of the time */
};

/* CUpti_ActivityKind */
enum {
    CP_KIND_INVALID = 0,
    CP_KIND_MEMCPY = 1,
    CP_KIND_MEMSET = 2,
    CP_KIND_KERNEL = 3,
    CP_KIND_DRIVER = 4,
    CP_KIND_RUNTIME = 5,
    CP_KIND_DEVICE = 8,
    CP_KIND_CONTEXT = 9,
    CP_KIND_CONCURRENT_KERNEL = 10,
    CP_KIND_OVERHEAD = 17,
    CP_KIND_CDP_KERNEL = 18,
    CP_KIND_MEMCPY2 = 22,
    CP_KIND_CUDA_EVENT = 36,
    CP_KIND_STREAM = 37,
    CP_KIND_SYNCHRONIZATION = 38,
    CP_KIND_EXTERNAL_CORRELATION = 39,
    CP_KIND_INTERNAL_LAUNCH_API = 48,
    CP_KIND_MEMORY2 = 49,
    CP_KIND_MEMORY_POOL = 50,
    CP_KIND_GRAPH_TRACE = 51,
    CP_KIND_GRAPH_HOST_NODE = 56,
    CP_KIND_HOST_LAUNCH = 58,
    CP_KIND_GREEN_CONTEXT = 59,
    CP_KIND_COUNT = 64 /* larger than all kinds */
};

enum { CP_EXTERNAL_CUSTOM0 = 3, CP_EXTERNAL_CUSTOM1 = 4 }; /* CUpti_ExternalCorrelationKind */
enum { CP_ATTRIBUTE_PER_THREAD_BUFFER = 9 };               /* CUpti_ActivityAttribute */
enum { CP_THREAD_ID_SYSTEM = 1 };                          /* CUpti_ActivityThreadIdType */
enum { CP_FLUSH_FORCED = 1 };                              /* CUpti_ActivityFlag */
enum { CP_DOMAIN_DRIVER = 1, CP_DOMAIN_RUNTIME = 2, CP_DOMAIN_RESOURCE = 3 };

/* CUPTI asks for a buffer when it needs one (request) and returns it with records (complete). Both
 * are called on threads of CUPTI or of the program. */
typedef uint8_t cp_record; /* CUpti_Activity, treated as bytes */
typedef struct CUctx_st *cp_context;
typedef struct CUpti_Subscriber_st *cp_subscriber;
typedef void(CP_CUPTI_CALL *cp_request_fn)(uint8_t **buffer, size_t *size, size_t *max_records);
typedef void(CP_CUPTI_CALL *cp_complete_fn)(cp_context context, uint32_t stream, uint8_t *buffer,
                                            size_t size, size_t valid);
typedef uint64_t(CP_CUPTI_CALL *cp_timestamp_fn)(void);
typedef void(CP_CUPTI_CALL *cp_callback_fn)(void *user, uint32_t domain, uint32_t cbid,
                                            const void *data);

/* X(member, symbol, result type, parameters, 1 if needed): a library without a needed function is
 * too old. */
#define CP_CUPTI_MAP(X)                                                                            \
    X(get_version, cuptiGetVersion, cp_result, (uint32_t *version), 1)                             \
    X(result_string, cuptiGetResultString, cp_result, (cp_result result, const char **text), 0)    \
    X(register_callbacks, cuptiActivityRegisterCallbacks, cp_result,                               \
      (cp_request_fn request, cp_complete_fn complete), 1)                                         \
    X(enable, cuptiActivityEnable, cp_result, (uint32_t kind), 1)                                  \
    X(disable, cuptiActivityDisable, cp_result, (uint32_t kind), 1)                                \
    X(next_record, cuptiActivityGetNextRecord, cp_result,                                          \
      (uint8_t *buffer, size_t valid, cp_record **record), 1)                                      \
    X(dropped, cuptiActivityGetNumDroppedRecords, cp_result,                                       \
      (cp_context context, uint32_t stream, size_t *dropped), 1)                                   \
    X(flush_all, cuptiActivityFlushAll, cp_result, (uint32_t flags), 1)                            \
    X(push_external, cuptiActivityPushExternalCorrelationId, cp_result,                            \
      (uint32_t kind, uint64_t id), 1)                                                             \
    X(pop_external, cuptiActivityPopExternalCorrelationId, cp_result,                              \
      (uint32_t kind, uint64_t *last), 1)                                                          \
    X(set_attribute, cuptiActivitySetAttribute, cp_result,                                         \
      (uint32_t attribute, size_t *size, void *value), 0)                                          \
    X(timestamp_callback, cuptiActivityRegisterTimestampCallback, cp_result,                       \
      (cp_timestamp_fn now), 0)                                                                    \
    X(timestamp, cuptiGetTimestamp, cp_result, (uint64_t *now), 0)                                 \
    X(enable_runtime_api, cuptiActivityEnableRuntimeApi, cp_result,                                \
      (uint32_t cbid, uint8_t enable), 0)                                                          \
    X(enable_driver_api, cuptiActivityEnableDriverApi, cp_result, (uint32_t cbid, uint8_t enable), \
      0)                                                                                           \
    X(event_timestamps, cuptiActivityEnableCudaEventDeviceTimestamps, cp_result, (uint8_t enable), \
      0)                                                                                           \
    X(latency_timestamps, cuptiActivityEnableLatencyTimestamps, cp_result, (uint8_t enable), 0)    \
    X(set_thread_id_type, cuptiSetThreadIdType, cp_result, (uint32_t type), 0)                     \
    X(callback_name, cuptiGetCallbackName, cp_result,                                              \
      (uint32_t domain, uint32_t cbid, const char **name), 0)                                      \
    X(subscribe, cuptiSubscribe, cp_result,                                                        \
      (cp_subscriber * subscriber, cp_callback_fn callback, void *user), 0)                        \
    X(unsubscribe, cuptiUnsubscribe, cp_result, (cp_subscriber subscriber), 0)                     \
    X(enable_callback, cuptiEnableCallback, cp_result,                                             \
      (uint32_t enable, cp_subscriber subscriber, uint32_t domain, uint32_t cbid), 0)              \
    X(finalize, cuptiFinalize, cp_result, (void), 0)

/* The functions of the library that libs.c has opened; those that are not needed may be NULL. */
typedef struct cp_cupti_api {
#define CP_X(member, symbol, result, parameters, needed) result(CP_CUPTI_CALL *member) parameters;
    CP_CUPTI_MAP(CP_X)
#undef CP_X
} cp_cupti_api;

/* ---- the driver ------------------------------------------------------------------------------ */
typedef int32_t cp_cuda_result; /* CUresult, cudaError_t: 0 is success */
typedef int32_t cp_attribute;   /* CUdevice_attribute */
typedef struct cp_uuid {
    uint8_t bytes[16];
} cp_uuid;

/* CUdevice_attribute */
enum {
    CP_DEVICE_MAX_THREADS_PER_BLOCK = 1,
    CP_DEVICE_MAX_SHARED_PER_BLOCK = 8,
    CP_DEVICE_WARP_SIZE = 10,
    CP_DEVICE_MAX_REGISTERS_PER_BLOCK = 12,
    CP_DEVICE_SM_COUNT = 16,
    CP_DEVICE_MAX_THREADS_PER_SM = 39,
    CP_DEVICE_MAJOR = 75,
    CP_DEVICE_MINOR = 76,
    CP_DEVICE_MAX_SHARED_PER_SM = 81,
    CP_DEVICE_MAX_REGISTERS_PER_SM = 82,
    CP_DEVICE_MAX_SHARED_PER_BLOCK_OPTIN = 97,
    CP_DEVICE_MAX_BLOCKS_PER_SM = 106,
    CP_DEVICE_RESERVED_SHARED_PER_BLOCK = 111
};

/* X(member, symbol, result type, parameters, 1 if needed), as above. */
#define CP_DRIVER_MAP(X)                                                                           \
    X(init, cuInit, cp_cuda_result, (unsigned flags), 1)                                           \
    X(driver_version, cuDriverGetVersion, cp_cuda_result, (int *version), 1)                       \
    X(device_count, cuDeviceGetCount, cp_cuda_result, (int *count), 1)                             \
    X(device_get, cuDeviceGet, cp_cuda_result, (int *device, int ordinal), 1)                      \
    X(device_name, cuDeviceGetName, cp_cuda_result, (char *name, int size, int device), 1)         \
    X(device_attribute, cuDeviceGetAttribute, cp_cuda_result,                                      \
      (int *value, cp_attribute attribute, int device), 1)                                         \
    X(device_memory, cuDeviceTotalMem_v2, cp_cuda_result, (size_t *bytes, int device), 0)          \
    X(device_uuid, cuDeviceGetUuid_v2, cp_cuda_result, (cp_uuid * uuid, int device), 0)            \
    X(context_synchronize, cuCtxSynchronize, cp_cuda_result, (void), 0)                            \
    X(context_current, cuCtxGetCurrent, cp_cuda_result, (cp_context * context), 0)                 \
    X(context_set, cuCtxSetCurrent, cp_cuda_result, (cp_context context), 0)
typedef struct cp_driver_api {
#define CP_X(member, symbol, result, parameters, needed) result(*member) parameters;
    CP_DRIVER_MAP(CP_X)
#undef CP_X
} cp_driver_api;

/* Only the version of the runtime is read: programs that use the driver alone do not have it. */
#define CP_RUNTIME_MAP(X)                                                                          \
    X(runtime_version, cudaRuntimeGetVersion, cp_cuda_result, (int *version), 0)
typedef struct cp_runtime_api {
#define CP_X(member, symbol, result, parameters, needed) result(*member) parameters;
    CP_RUNTIME_MAP(CP_X)
#undef CP_X
} cp_runtime_api;

#endif
