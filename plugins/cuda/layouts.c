/* Sizes of CUPTI's records, by its API version. A buffer is only valid up to the end of its last
 * complete record, which these sizes decide. */
#include "layouts.h"

#include "cuda.h"

/* Oldest first. CUDA 11.8 and 12.0 have the same version 18 although kernels of 12.0 are longer;
 * the additional bytes are not read here. */
static const struct record_length {
    uint16_t kind, bytes;
    uint32_t since;
} record_lengths[] = {
    {CP_KIND_CONCURRENT_KERNEL, 160, 0},
    {CP_KIND_CONCURRENT_KERNEL, 168, 15},
    {CP_KIND_CONCURRENT_KERNEL, 176, 17},
    {CP_KIND_CONCURRENT_KERNEL, 200, 18},
    {CP_KIND_CONCURRENT_KERNEL, 208, 19},
    {CP_KIND_CONCURRENT_KERNEL, 216, 130000},
    {CP_KIND_CONCURRENT_KERNEL, 224, 130100},
    {CP_KIND_CONCURRENT_KERNEL, 232, 130300},
    {CP_KIND_CONCURRENT_KERNEL, 248, 130400},
    {CP_KIND_MEMCPY, 72, 0},
    {CP_KIND_MEMCPY, 80, 14},
    {CP_KIND_MEMCPY, 88, 17},
    {CP_KIND_MEMCPY, 96, 26},
    {CP_KIND_MEMCPY, 112, 130400},
    {CP_KIND_MEMCPY2, 80, 0},
    {CP_KIND_MEMCPY2, 88, 14},
    {CP_KIND_MEMCPY2, 96, 17},
    {CP_KIND_MEMSET, 72, 0},
    {CP_KIND_MEMSET, 80, 14},
    {CP_KIND_MEMSET, 88, 17},
    {CP_KIND_MEMSET, 104, 130400},
    {CP_KIND_MEMORY2, 112, 0},
    {CP_KIND_MEMORY2, 120, 17},
    {CP_KIND_MEMORY2, 128, 24},
    {CP_KIND_RUNTIME, 40, 0},
    {CP_KIND_SYNCHRONIZATION, 40, 0},
    {CP_KIND_SYNCHRONIZATION, 56, 26},
    {CP_KIND_CUDA_EVENT, 24, 0},
    {CP_KIND_CUDA_EVENT, 56, 26},
    {CP_KIND_CUDA_EVENT, 80, 130500},
    {CP_KIND_OVERHEAD, 40, 0},
    {CP_KIND_OVERHEAD, 48, 21},
    {CP_KIND_OVERHEAD, 56, 22},
    {CP_KIND_GRAPH_TRACE, 48, 0},
    {CP_KIND_GRAPH_TRACE, 56, 21},
    {CP_KIND_EXTERNAL_CORRELATION, 24, 0},
    {CP_KIND_CONTEXT, 16, 0},
    {CP_KIND_CONTEXT, 24, 22},
    {CP_KIND_CONTEXT, 32, 23},
    {CP_KIND_CONTEXT, 40, 130100},
    {CP_KIND_GRAPH_HOST_NODE, 56, 130100},
    {CP_KIND_HOST_LAUNCH, 48, 130100},
    {CP_KIND_GREEN_CONTEXT, 168, 130200},
    {CP_KIND_GREEN_CONTEXT, 304, 130400},
};

/* Kinds that share a struct. */
static uint32_t find_struct_kind(uint32_t kind)
{
    switch (kind) {
    case CP_KIND_KERNEL:
        return CP_KIND_CONCURRENT_KERNEL;
    case CP_KIND_DRIVER:
    case CP_KIND_INTERNAL_LAUNCH_API:
        return CP_KIND_RUNTIME;
    default:
        return kind;
    }
}

uint32_t cp_record_bytes(uint32_t kind, uint32_t version)
{
    uint32_t bytes = 0, wanted = find_struct_kind(kind);
    for (size_t i = 0; i < CP_COUNT(record_lengths); i++)
        if (record_lengths[i].kind == wanted && version >= record_lengths[i].since)
            bytes = record_lengths[i].bytes;
    return bytes;
}
