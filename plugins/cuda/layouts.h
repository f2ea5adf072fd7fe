/* Offsets of the fields of CUPTI's activity records.
 *
 * Since CUDA 11.0 (API version 13) records have only grown at their end or used former padding: a
 * field keeps its offset and exists from some API version on. So offsets are compile-time
 * constants, and a field reads as 0 in records of versions that do not have it. tests/cuda compares
 * every struct of the vendor's headers, old ones included, with these lists.
 */
#ifndef CP_LAYOUTS_H
#define CP_LAYOUTS_H

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

/* X(record, field, CUPTI's name, type, offset, API version that introduced it; 0: all have it) */

#define CP_KERNEL_BASE(X)                                                                          \
    X(kernel, registers, registersPerThread, uint16_t, 6, 0)                                       \
    X(kernel, start, start, uint64_t, 16, 0)                                                       \
    X(kernel, end, end, uint64_t, 24, 0)                                                           \
    X(kernel, device, deviceId, uint32_t, 40, 0)                                                   \
    X(kernel, context, contextId, uint32_t, 44, 0)                                                 \
    X(kernel, stream, streamId, uint32_t, 48, 0)                                                   \
    X(kernel, grid_x, gridX, int32_t, 52, 0)                                                       \
    X(kernel, grid_y, gridY, int32_t, 56, 0)                                                       \
    X(kernel, grid_z, gridZ, int32_t, 60, 0)                                                       \
    X(kernel, block_x, blockX, int32_t, 64, 0)                                                     \
    X(kernel, block_y, blockY, int32_t, 68, 0)                                                     \
    X(kernel, block_z, blockZ, int32_t, 72, 0)                                                     \
    X(kernel, shared_static, staticSharedMemory, int32_t, 76, 0)                                   \
    X(kernel, shared_dynamic, dynamicSharedMemory, int32_t, 80, 0)                                 \
    X(kernel, correlation, correlationId, uint32_t, 92, 0)                                         \
    X(kernel, name, name, const char *, 104, 0)                                                    \
    X(kernel, queued, queued, uint64_t, 120, 0)                                                    \
    X(kernel, graph_node, graphNodeId, uint64_t, 144, 0)
#define CP_KERNEL_14(X) X(kernel, graph, graphId, uint32_t, 156, 14)
#define CP_KERNEL_17(X)                                                                            \
    X(kernel, channel, channelID, uint32_t, 168, 17)                                               \
    X(kernel, channel_type, channelType, uint32_t, 172, 17)
#define CP_KERNEL_18(X)                                                                            \
    X(kernel, cluster_x, clusterX, uint32_t, 176, 18)                                              \
    X(kernel, cluster_y, clusterY, uint32_t, 180, 18)                                              \
    X(kernel, cluster_z, clusterZ, uint32_t, 184, 18)
#define CP_KERNEL_130100(X) X(kernel, priority, priority, int32_t, 216, 130100)

/* Copies, and copies between devices: the same names at other offsets. */
#define CP_MEMCPY_BASE(X)                                                                          \
    X(memcpy, copy_kind, copyKind, uint8_t, 4, 0)                                                  \
    X(memcpy, from_kind, srcKind, uint8_t, 5, 0)                                                   \
    X(memcpy, to_kind, dstKind, uint8_t, 6, 0)                                                     \
    X(memcpy, bytes, bytes, uint64_t, 8, 0)                                                        \
    X(memcpy, start, start, uint64_t, 16, 0)                                                       \
    X(memcpy, end, end, uint64_t, 24, 0)                                                           \
    X(memcpy, device, deviceId, uint32_t, 32, 0)                                                   \
    X(memcpy, context, contextId, uint32_t, 36, 0)                                                 \
    X(memcpy, stream, streamId, uint32_t, 40, 0)                                                   \
    X(memcpy, correlation, correlationId, uint32_t, 44, 0)                                         \
    X(memcpy, graph_node, graphNodeId, uint64_t, 64, 0)
#define CP_MEMCPY_14(X) X(memcpy, graph, graphId, uint32_t, 72, 14)
#define CP_MEMCPY_17(X)                                                                            \
    X(memcpy, channel, channelID, uint32_t, 76, 17)                                                \
    X(memcpy, channel_type, channelType, uint32_t, 80, 17)

#define CP_MEMCPY2_BASE(X)                                                                         \
    X(memcpy2, copy_kind, copyKind, uint8_t, 4, 0)                                                 \
    X(memcpy2, from_kind, srcKind, uint8_t, 5, 0)                                                  \
    X(memcpy2, to_kind, dstKind, uint8_t, 6, 0)                                                    \
    X(memcpy2, bytes, bytes, uint64_t, 8, 0)                                                       \
    X(memcpy2, start, start, uint64_t, 16, 0)                                                      \
    X(memcpy2, end, end, uint64_t, 24, 0)                                                          \
    X(memcpy2, device, deviceId, uint32_t, 32, 0)                                                  \
    X(memcpy2, context, contextId, uint32_t, 36, 0)                                                \
    X(memcpy2, stream, streamId, uint32_t, 40, 0)                                                  \
    X(memcpy2, from_device, srcDeviceId, uint32_t, 44, 0)                                          \
    X(memcpy2, from_context, srcContextId, uint32_t, 48, 0)                                        \
    X(memcpy2, to_device, dstDeviceId, uint32_t, 52, 0)                                            \
    X(memcpy2, to_context, dstContextId, uint32_t, 56, 0)                                          \
    X(memcpy2, correlation, correlationId, uint32_t, 60, 0)                                        \
    X(memcpy2, graph_node, graphNodeId, uint64_t, 72, 0)
#define CP_MEMCPY2_14(X) X(memcpy2, graph, graphId, uint32_t, 80, 14)
#define CP_MEMCPY2_17(X)                                                                           \
    X(memcpy2, channel, channelID, uint32_t, 84, 17)                                               \
    X(memcpy2, channel_type, channelType, uint32_t, 88, 17)

#define CP_MEMSET_BASE(X)                                                                          \
    X(memset, bytes, bytes, uint64_t, 8, 0)                                                        \
    X(memset, start, start, uint64_t, 16, 0)                                                       \
    X(memset, end, end, uint64_t, 24, 0)                                                           \
    X(memset, device, deviceId, uint32_t, 32, 0)                                                   \
    X(memset, context, contextId, uint32_t, 36, 0)                                                 \
    X(memset, stream, streamId, uint32_t, 40, 0)                                                   \
    X(memset, correlation, correlationId, uint32_t, 44, 0)                                         \
    X(memset, memory_kind, memoryKind, uint16_t, 50, 0)                                            \
    X(memset, graph_node, graphNodeId, uint64_t, 64, 0)
#define CP_MEMSET_14(X) X(memset, graph, graphId, uint32_t, 72, 14)
#define CP_MEMSET_17(X)                                                                            \
    X(memset, channel, channelID, uint32_t, 76, 17)                                                \
    X(memset, channel_type, channelType, uint32_t, 80, 17)

/* An allocation or a release: records of this kind exist from 15 on. */
#define CP_MEMORY_BASE(X)                                                                          \
    X(memory, operation, memoryOperationType, uint32_t, 4, 0)                                      \
    X(memory, memory_kind, memoryKind, uint32_t, 8, 0)                                             \
    X(memory, correlation, correlationId, uint32_t, 12, 0)                                         \
    X(memory, address, address, uint64_t, 16, 0)                                                   \
    X(memory, bytes, bytes, uint64_t, 24, 0)                                                       \
    X(memory, time, timestamp, uint64_t, 32, 0)                                                    \
    X(memory, device, deviceId, uint32_t, 52, 0)                                                   \
    X(memory, context, contextId, uint32_t, 56, 0)                                                 \
    X(memory, stream, streamId, uint32_t, 60, 0)                                                   \
    X(memory, is_async, isAsync, uint32_t, 72, 0)                                                  \
    X(memory, pool_type, memoryPoolConfig.memoryPoolType, uint32_t, 80, 0)                         \
    X(memory, pool, memoryPoolConfig.address, uint64_t, 88, 0)

#define CP_CALL_BASE(X)                                                                            \
    X(call, cbid, cbid, uint32_t, 4, 0)                                                            \
    X(call, start, start, uint64_t, 8, 0)                                                          \
    X(call, end, end, uint64_t, 16, 0)                                                             \
    X(call, process, processId, uint32_t, 24, 0)                                                   \
    X(call, thread, threadId, uint32_t, 28, 0)                                                     \
    X(call, correlation, correlationId, uint32_t, 32, 0)

#define CP_SYNC_BASE(X)                                                                            \
    X(sync, type, type, uint32_t, 4, 0)                                                            \
    X(sync, start, start, uint64_t, 8, 0)                                                          \
    X(sync, end, end, uint64_t, 16, 0)                                                             \
    X(sync, correlation, correlationId, uint32_t, 24, 0)                                           \
    X(sync, context, contextId, uint32_t, 28, 0)                                                   \
    X(sync, stream, streamId, uint32_t, 32, 0)                                                     \
    X(sync, event, cudaEventId, uint32_t, 36, 0)
#define CP_SYNC_26(X) X(sync, event_sync, cudaEventSyncId, uint64_t, 40, 26)

#define CP_EVENT_BASE(X)                                                                           \
    X(event, correlation, correlationId, uint32_t, 4, 0)                                           \
    X(event, context, contextId, uint32_t, 8, 0)                                                   \
    X(event, stream, streamId, uint32_t, 12, 0)                                                    \
    X(event, event, eventId, uint32_t, 16, 0)
#define CP_EVENT_26(X)                                                                             \
    X(event, device, deviceId, uint32_t, 24, 26)                                                   \
    X(event, time, deviceTimestamp, uint64_t, 40, 26)                                              \
    X(event, event_sync, cudaEventSyncId, uint64_t, 48, 26)

#define CP_OVERHEAD_BASE(X)                                                                        \
    X(overhead, kind, overheadKind, uint32_t, 4, 0)                                                \
    X(overhead, start, start, uint64_t, 24, 0)                                                     \
    X(overhead, end, end, uint64_t, 32, 0)

/* Records of this kind exist from 17 on. */
#define CP_GRAPH_BASE(X)                                                                           \
    X(graph, correlation, correlationId, uint32_t, 4, 0)                                           \
    X(graph, start, start, uint64_t, 8, 0)                                                         \
    X(graph, end, end, uint64_t, 16, 0)                                                            \
    X(graph, device, deviceId, uint32_t, 24, 0)                                                    \
    X(graph, graph, graphId, uint32_t, 28, 0)                                                      \
    X(graph, context, contextId, uint32_t, 32, 0)                                                  \
    X(graph, stream, streamId, uint32_t, 36, 0)
#define CP_GRAPH_21(X) X(graph, end_device, endDeviceId, uint32_t, 48, 21)

#define CP_EXTERNAL_BASE(X)                                                                        \
    X(external, kind, externalKind, uint32_t, 4, 0)                                                \
    X(external, id, externalId, uint64_t, 8, 0)                                                    \
    X(external, correlation, correlationId, uint32_t, 16, 0)

#define CP_CONTEXT_BASE(X)                                                                         \
    X(context, context, contextId, uint32_t, 4, 0)                                                 \
    X(context, device, deviceId, uint32_t, 8, 0)

/* Functions of the host in a graph or a stream: records of these kinds exist from 130100 on. */
#define CP_HOST_NODE_BASE(X)                                                                       \
    X(host_node, stream, streamId, uint32_t, 4, 0)                                                 \
    X(host_node, context, contextId, uint32_t, 8, 0)                                               \
    X(host_node, device, deviceId, uint32_t, 12, 0)                                                \
    X(host_node, correlation, correlationId, uint32_t, 16, 0)                                      \
    X(host_node, graph, graphId, uint32_t, 20, 0)                                                  \
    X(host_node, node, graphNodeId, uint64_t, 24, 0)                                               \
    X(host_node, thread, threadId, uint32_t, 36, 0)                                                \
    X(host_node, start, start, uint64_t, 40, 0)                                                    \
    X(host_node, end, end, uint64_t, 48, 0)
#define CP_HOST_LAUNCH_BASE(X)                                                                     \
    X(host_launch, stream, streamId, uint32_t, 4, 0)                                               \
    X(host_launch, context, contextId, uint32_t, 8, 0)                                             \
    X(host_launch, device, deviceId, uint32_t, 12, 0)                                              \
    X(host_launch, correlation, correlationId, uint32_t, 16, 0)                                    \
    X(host_launch, thread, threadId, uint32_t, 24, 0)                                              \
    X(host_launch, start, start, uint64_t, 32, 0)                                                  \
    X(host_launch, end, end, uint64_t, 40, 0)

/* Records of this kind exist from 130200 on. */
#define CP_GREEN_BASE(X)                                                                           \
    X(green, context, contextId, uint32_t, 4, 0)                                                   \
    X(green, device, deviceId, uint32_t, 12, 0)                                                    \
    X(green, sm_count, numMultiprocessors, uint16_t, 20, 0)

#define CP_FIELD_MAP(X)                                                                            \
    CP_KERNEL_BASE(X)                                                                              \
    CP_KERNEL_14(X)                                                                                \
    CP_KERNEL_17(X)                                                                                \
    CP_KERNEL_18(X)                                                                                \
    CP_KERNEL_130100(X)                                                                            \
    CP_MEMCPY_BASE(X)                                                                              \
    CP_MEMCPY_14(X)                                                                                \
    CP_MEMCPY_17(X)                                                                                \
    CP_MEMCPY2_BASE(X)                                                                             \
    CP_MEMCPY2_14(X) CP_MEMCPY2_17(X) CP_MEMSET_BASE(X) CP_MEMSET_14(X) CP_MEMSET_17(X)            \
        CP_MEMORY_BASE(X) CP_CALL_BASE(X) CP_SYNC_BASE(X) CP_SYNC_26(X) CP_EVENT_BASE(X)           \
            CP_EVENT_26(X) CP_OVERHEAD_BASE(X) CP_GRAPH_BASE(X) CP_GRAPH_21(X) CP_EXTERNAL_BASE(X) \
                CP_CONTEXT_BASE(X) CP_HOST_NODE_BASE(X) CP_HOST_LAUNCH_BASE(X) CP_GREEN_BASE(X)

static inline bool cp_is_from(uint32_t version, uint32_t since) { return version >= since; }

/* cp_kernel_start(version, record) and so on. */
#define CP_X(record, field, theirs, type, offset, since)                                           \
    static inline type cp_##record##_##field(uint32_t version, const uint8_t *at)                  \
    {                                                                                              \
        type value = 0;                                                                            \
        if (cp_is_from(version, since))                                                            \
            memcpy(&value, at + (offset), sizeof value);                                           \
        return value;                                                                              \
    }
CP_FIELD_MAP(CP_X)
#undef CP_X

static inline uint32_t cp_record_kind(const uint8_t *record)
{
    uint32_t kind;
    memcpy(&kind, record, sizeof kind);
    return kind;
}

/* Offset of the eleven words from the device to the dynamic shared memory, which kernels.c copies
 * as one block. */
#define CP_KERNEL_PLACE_AT 40

/** Size of a record of `kind` (CP_KIND_…) in this API version; 0: the kind is not read here, or this
 * version does not have it. */
uint32_t cp_record_bytes(uint32_t kind, uint32_t version);
/** The largest result of cp_record_bytes. */
#define CP_RECORD_MAX_BYTES 304

#endif
