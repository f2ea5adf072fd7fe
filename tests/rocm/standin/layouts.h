/* Records of rocprofiler-sdk by version: offsets as in its headers of 0.5.0 and 1.0.0. */
#ifndef ROCM_STANDIN_LAYOUTS_H
#define ROCM_STANDIN_LAYOUTS_H

#include <stdint.h>
#include <string.h>

static inline void put4(uint8_t *r, size_t at, uint32_t v) { memcpy(r + at, &v, 4); }
static inline void put8(uint8_t *r, size_t at, uint64_t v) { memcpy(r + at, &v, 8); }
static inline void put_pointer(uint8_t *r, size_t at, const void *v) { memcpy(r + at, &v, 8); }

#define MAX_RECORD 256u

/* The begin: size, kind, operation, ids; long ids have a third word. Returns where the rest begins. */
static inline size_t put_head(uint8_t *r, size_t size, uint32_t kind, int32_t operation,
                              uint64_t internal, uint64_t external, int is_long)
{
    memset(r, 0, MAX_RECORD);
    put8(r, 0, size);
    put4(r, 8, kind);
    put4(r, 12, (uint32_t)operation);
    put8(r, 16, internal);
    put8(r, 24, external);
    return is_long ? 40 : 32;
}

/* Kinds of buffer tracing, by their numbers. */
static const char *const kinds_0_5[] = {
    NULL, "HSA_CORE_API", "HSA_AMD_EXT_API", "HSA_IMAGE_EXT_API", "HSA_FINALIZE_EXT_API",
    "HIP_RUNTIME_API", "HIP_COMPILER_API", "MARKER_CORE_API", "MARKER_CONTROL_API", "MARKER_NAME_API",
    "MEMORY_COPY", "KERNEL_DISPATCH", "PAGE_MIGRATION", "SCRATCH_MEMORY",
    "CORRELATION_ID_RETIREMENT", "RCCL_API"};
static const char *const kinds_1_0[] = {
    NULL, "HSA_CORE_API", "HSA_AMD_EXT_API", "HSA_IMAGE_EXT_API", "HSA_FINALIZE_EXT_API",
    "HIP_RUNTIME_API", "HIP_COMPILER_API", "MARKER_CORE_API", "MARKER_CONTROL_API", "MARKER_NAME_API",
    "MEMORY_COPY", "KERNEL_DISPATCH", "SCRATCH_MEMORY", "CORRELATION_ID_RETIREMENT", "RCCL_API",
    "OMPT", "MEMORY_ALLOCATION", "RUNTIME_INITIALIZATION", "ROCDECODE_API", "ROCJPEG_API",
    "HIP_STREAM", "HIP_RUNTIME_API_EXT", "HIP_COMPILER_API_EXT", "ROCDECODE_API_EXT",
    "KFD_EVENT_PAGE_MIGRATE", "KFD_EVENT_PAGE_FAULT", "KFD_EVENT_QUEUE", "KFD_EVENT_UNMAP_FROM_GPU",
    "KFD_EVENT_DROPPED_EVENTS", "KFD_PAGE_MIGRATE", "KFD_PAGE_FAULT", "KFD_QUEUE",
    "MARKER_CORE_RANGE_API"};
/* Of callback tracing: the same begin, then other ones. */
static const char *const callback_kinds[] = {
    NULL, "HSA_CORE_API", "HSA_AMD_EXT_API", "HSA_IMAGE_EXT_API", "HSA_FINALIZE_EXT_API",
    "HIP_RUNTIME_API", "HIP_COMPILER_API", "MARKER_CORE_API", "MARKER_CONTROL_API", "MARKER_NAME_API",
    "CODE_OBJECT", "SCRATCH_MEMORY", "KERNEL_DISPATCH", "MEMORY_COPY"};

#endif
