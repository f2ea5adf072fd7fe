/* CUPTI's side for programs that have none: a GPU, records written field by field, and the walk
 * over a buffer of them. */
#ifndef TESTS_CUDA_RECORDS_H
#define TESTS_CUDA_RECORDS_H

#include "../../plugins/cuda/layouts.h"

#include "../../plugins/cuda/cuda.h"

#include <string.h>

/* As deviceProperties of real traces have it. */
static const cp_device cuda_a100 = {.major = 8,
                                    .sm_count = 108,
                                    .warp_size = 32,
                                    .threads_per_sm = 2048,
                                    .threads_per_block = 1024,
                                    .registers_per_sm = 65536,
                                    .registers_per_block = 65536,
                                    .shared_per_sm = 167936,
                                    .shared_per_block = 49152,
                                    .shared_per_block_optin = 166912,
                                    .shared_reserved_per_block = 1024};

/* put_kernel_start(record, 5) and so on. */
#define CP_X(record, field, theirs, type, offset, since)                                           \
    static inline void put_##record##_##field(uint8_t *at, type value)                             \
    {                                                                                              \
        memcpy(at + (offset), &value, sizeof value);                                               \
    }
CP_FIELD_MAP(CP_X)
#undef CP_X

/* A record of a kind that is not known holds nothing but its kind. */
static inline uint32_t cuda_record_bytes(uint32_t kind, uint32_t version)
{
    uint32_t bytes = cp_record_bytes(kind, version);
    return bytes ? bytes : 8;
}

/* Record by record, as cuptiActivityGetNextRecord. */
static inline cp_result cuda_next_record(uint32_t version, uint8_t *buffer, size_t valid,
                                         uint8_t **record)
{
    size_t at = 0;
    if (*record)
        at = (size_t)(*record - buffer) + cuda_record_bytes(cp_record_kind(*record), version);
    if (at + sizeof(uint32_t) > valid)
        return CP_ERROR_MAX_LIMIT_REACHED;
    *record = buffer + at;
    return CP_SUCCESS;
}

#endif
