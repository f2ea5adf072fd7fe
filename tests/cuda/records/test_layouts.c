/* Where we take fields of CUPTI's records to be is where the vendor's headers have them, in each
 * version of each struct; and our numbers are theirs. */
#include "../../unit/unit.h"

#include <cupti.h>

/* By path: our directory has a cuda.h, too. */
#include "../../../plugins/cuda/cupti.h"
#include "../../../plugins/cuda/layouts.h"

/* ---- fields --------------------------------------------------------------------------------------- */

#define SIZE_OF(type, member) sizeof(((type *)0)->member)
#define FIELD(record, field, theirs, type, offset, since)                                          \
    assert_int_equal(offsetof(STRUCT, theirs), offset);                                            \
    assert_int_equal(SIZE_OF(STRUCT, theirs), sizeof(type));

static void kernels_are_where_we_take_them_to_be(void **state)
{
    (void)state;
#define STRUCT CUpti_ActivityKernel5
    CP_KERNEL_BASE(FIELD)
    CP_KERNEL_14(FIELD)
#undef STRUCT
#define STRUCT CUpti_ActivityKernel6
    CP_KERNEL_BASE(FIELD)
    CP_KERNEL_14(FIELD)
#undef STRUCT
#define STRUCT CUpti_ActivityKernel7
    CP_KERNEL_BASE(FIELD)
    CP_KERNEL_14(FIELD)
    CP_KERNEL_17(FIELD)
#undef STRUCT
#define STRUCT CUpti_ActivityKernel8
    CP_KERNEL_BASE(FIELD)
    CP_KERNEL_14(FIELD)
    CP_KERNEL_17(FIELD)
    CP_KERNEL_18(FIELD)
#undef STRUCT
#define STRUCT CUpti_ActivityKernel9
    CP_KERNEL_BASE(FIELD)
    CP_KERNEL_14(FIELD)
    CP_KERNEL_17(FIELD)
    CP_KERNEL_18(FIELD)
#undef STRUCT
    assert_int_equal(offsetof(CUpti_ActivityKernel9, deviceId), CP_KERNEL_PLACE_AT);
    assert_int_equal(offsetof(CUpti_ActivityKernel9, dynamicSharedMemory),
                     CP_KERNEL_PLACE_AT + 10 * sizeof(uint32_t));
#if CUPTI_API_VERSION >= 130000
#define STRUCT CUpti_ActivityKernel10
    CP_KERNEL_BASE(FIELD)
    CP_KERNEL_14(FIELD)
    CP_KERNEL_17(FIELD)
    CP_KERNEL_18(FIELD)
#undef STRUCT
#endif
#if CUPTI_API_VERSION >= 130100
#define STRUCT CUpti_ActivityKernel11
    CP_KERNEL_BASE(FIELD)
    CP_KERNEL_14(FIELD)
    CP_KERNEL_17(FIELD)
    CP_KERNEL_18(FIELD)
    CP_KERNEL_130100(FIELD)
#undef STRUCT
#endif
#if CUPTI_API_VERSION >= 130300
#define STRUCT CUpti_ActivityKernel12
    CP_KERNEL_BASE(FIELD)
    CP_KERNEL_14(FIELD)
    CP_KERNEL_17(FIELD)
    CP_KERNEL_18(FIELD)
    CP_KERNEL_130100(FIELD)
#undef STRUCT
#endif
#if CUPTI_API_VERSION >= 130400
#define STRUCT CUpti_ActivityKernel13
    CP_KERNEL_BASE(FIELD)
    CP_KERNEL_14(FIELD)
    CP_KERNEL_17(FIELD)
    CP_KERNEL_18(FIELD)
    CP_KERNEL_130100(FIELD)
#undef STRUCT
#endif
}

static void copies_are_where_we_take_them_to_be(void **state)
{
    (void)state;
#define STRUCT CUpti_ActivityMemcpy3
    CP_MEMCPY_BASE(FIELD)
#undef STRUCT
#define STRUCT CUpti_ActivityMemcpy4
    CP_MEMCPY_BASE(FIELD)
    CP_MEMCPY_14(FIELD)
#undef STRUCT
#define STRUCT CUpti_ActivityMemcpy5
    CP_MEMCPY_BASE(FIELD)
    CP_MEMCPY_14(FIELD)
    CP_MEMCPY_17(FIELD)
#undef STRUCT
#if CUPTI_API_VERSION >= 26
#define STRUCT CUpti_ActivityMemcpy6
    CP_MEMCPY_BASE(FIELD)
    CP_MEMCPY_14(FIELD)
    CP_MEMCPY_17(FIELD)
#undef STRUCT
#endif
#if CUPTI_API_VERSION >= 130400
#define STRUCT CUpti_ActivityMemcpy7
    CP_MEMCPY_BASE(FIELD)
    CP_MEMCPY_14(FIELD)
    CP_MEMCPY_17(FIELD)
#undef STRUCT
#endif
}

static void copies_between_devices_are_where_we_take_them_to_be(void **state)
{
    (void)state;
#define STRUCT CUpti_ActivityMemcpyPtoP2
    CP_MEMCPY2_BASE(FIELD)
#undef STRUCT
#define STRUCT CUpti_ActivityMemcpyPtoP3
    CP_MEMCPY2_BASE(FIELD)
    CP_MEMCPY2_14(FIELD)
#undef STRUCT
#define STRUCT CUpti_ActivityMemcpyPtoP4
    CP_MEMCPY2_BASE(FIELD)
    CP_MEMCPY2_14(FIELD)
    CP_MEMCPY2_17(FIELD)
#undef STRUCT
}

static void memsets_are_where_we_take_them_to_be(void **state)
{
    (void)state;
#define STRUCT CUpti_ActivityMemset2
    CP_MEMSET_BASE(FIELD)
#undef STRUCT
#define STRUCT CUpti_ActivityMemset3
    CP_MEMSET_BASE(FIELD)
    CP_MEMSET_14(FIELD)
#undef STRUCT
#define STRUCT CUpti_ActivityMemset4
    CP_MEMSET_BASE(FIELD)
    CP_MEMSET_14(FIELD)
    CP_MEMSET_17(FIELD)
#undef STRUCT
#if CUPTI_API_VERSION >= 130400
#define STRUCT CUpti_ActivityMemset5
    CP_MEMSET_BASE(FIELD)
    CP_MEMSET_14(FIELD)
    CP_MEMSET_17(FIELD)
#undef STRUCT
#endif
}

static void allocations_are_where_we_take_them_to_be(void **state)
{
    (void)state;
#define STRUCT CUpti_ActivityMemory2
    CP_MEMORY_BASE(FIELD)
#undef STRUCT
#define STRUCT CUpti_ActivityMemory3
    CP_MEMORY_BASE(FIELD)
#undef STRUCT
#if CUPTI_API_VERSION >= 24
#define STRUCT CUpti_ActivityMemory4
    CP_MEMORY_BASE(FIELD)
#undef STRUCT
#endif
}

static void synchronisation_is_where_we_take_it_to_be(void **state)
{
    (void)state;
#define STRUCT CUpti_ActivitySynchronization
    CP_SYNC_BASE(FIELD)
#undef STRUCT
#define STRUCT CUpti_ActivityCudaEvent
    CP_EVENT_BASE(FIELD)
#undef STRUCT
#if CUPTI_API_VERSION >= 26
#define STRUCT CUpti_ActivitySynchronization2
    CP_SYNC_BASE(FIELD)
    CP_SYNC_26(FIELD)
#undef STRUCT
#define STRUCT CUpti_ActivityCudaEvent2
    CP_EVENT_BASE(FIELD)
    CP_EVENT_26(FIELD)
#undef STRUCT
#endif
#if CUPTI_API_VERSION >= 130500
#define STRUCT CUpti_ActivityCudaEvent3
    CP_EVENT_BASE(FIELD)
    CP_EVENT_26(FIELD)
#undef STRUCT
#endif
}

static void other_records_are_where_we_take_them_to_be(void **state)
{
    (void)state;
#define STRUCT CUpti_ActivityAPI
    CP_CALL_BASE(FIELD)
#undef STRUCT
#define STRUCT CUpti_ActivityOverhead
    CP_OVERHEAD_BASE(FIELD)
#undef STRUCT
#define STRUCT CUpti_ActivityGraphTrace
    CP_GRAPH_BASE(FIELD)
#undef STRUCT
#if CUPTI_API_VERSION >= 21
#define STRUCT CUpti_ActivityGraphTrace2
    CP_GRAPH_BASE(FIELD)
    CP_GRAPH_21(FIELD)
#undef STRUCT
#define STRUCT CUpti_ActivityOverhead2
    CP_OVERHEAD_BASE(FIELD)
#undef STRUCT
#endif
#if CUPTI_API_VERSION >= 22
#define STRUCT CUpti_ActivityOverhead3
    CP_OVERHEAD_BASE(FIELD)
#undef STRUCT
#endif
#if CUPTI_API_VERSION >= 130100
#define STRUCT CUpti_ActivityGraphHostNode
    CP_HOST_NODE_BASE(FIELD)
#undef STRUCT
#define STRUCT CUpti_ActivityHostLaunch
    CP_HOST_LAUNCH_BASE(FIELD)
#undef STRUCT
#endif
#if CUPTI_API_VERSION >= 130200
#define STRUCT CUpti_ActivityGreenContext2
    CP_GREEN_BASE(FIELD)
#undef STRUCT
#endif
#if CUPTI_API_VERSION >= 130400
#define STRUCT CUpti_ActivityGreenContext3
    CP_GREEN_BASE(FIELD)
#undef STRUCT
#endif
#define STRUCT CUpti_ActivityExternalCorrelation
    CP_EXTERNAL_BASE(FIELD)
#undef STRUCT
#define STRUCT CUpti_ActivityContext
    CP_CONTEXT_BASE(FIELD)
#undef STRUCT
}

/* ---- lengths ----------------------------------------------------------------------------------------- */

#define LENGTH(kind, version, type)                                                                \
    do {                                                                                           \
        assert_int_equal(cp_record_bytes(CP_KIND_##kind, version), sizeof(type));                  \
        assert_true(sizeof(type) <= CP_RECORD_MAX_BYTES);                                         \
    } while (0)

static void kernels_are_as_long_as_their_version_says(void **state)
{
    (void)state;
    LENGTH(CONCURRENT_KERNEL, 13, CUpti_ActivityKernel5);
    LENGTH(CONCURRENT_KERNEL, 14, CUpti_ActivityKernel5);
    LENGTH(CONCURRENT_KERNEL, 15, CUpti_ActivityKernel6);
    LENGTH(CONCURRENT_KERNEL, 16, CUpti_ActivityKernel6);
    LENGTH(CONCURRENT_KERNEL, 17, CUpti_ActivityKernel7);
    LENGTH(CONCURRENT_KERNEL, 18, CUpti_ActivityKernel8);
    LENGTH(CONCURRENT_KERNEL, 19, CUpti_ActivityKernel9);
    LENGTH(KERNEL, 28, CUpti_ActivityKernel9);
#if CUPTI_API_VERSION >= 130100
    LENGTH(CONCURRENT_KERNEL, 130000, CUpti_ActivityKernel10);
    LENGTH(CONCURRENT_KERNEL, 130100, CUpti_ActivityKernel11);
#endif
#if CUPTI_API_VERSION >= 130300
    LENGTH(CONCURRENT_KERNEL, 130301, CUpti_ActivityKernel12);
#endif
#if CUPTI_API_VERSION >= 130400
    LENGTH(CONCURRENT_KERNEL, CUPTI_API_VERSION, CUpti_ActivityKernel13);
#endif
}

static void transfers_are_as_long_as_their_version_says(void **state)
{
    (void)state;
    LENGTH(MEMCPY, 13, CUpti_ActivityMemcpy3);
    LENGTH(MEMCPY, 14, CUpti_ActivityMemcpy4);
    LENGTH(MEMCPY, 17, CUpti_ActivityMemcpy5);
    LENGTH(MEMCPY2, 13, CUpti_ActivityMemcpyPtoP2);
    LENGTH(MEMCPY2, 14, CUpti_ActivityMemcpyPtoP3);
    LENGTH(MEMCPY2, CUPTI_API_VERSION, CUpti_ActivityMemcpyPtoP4);
    LENGTH(MEMSET, 13, CUpti_ActivityMemset2);
    LENGTH(MEMSET, 14, CUpti_ActivityMemset3);
    LENGTH(MEMSET, 130300, CUpti_ActivityMemset4);
    LENGTH(MEMORY2, 15, CUpti_ActivityMemory2);
    LENGTH(MEMORY2, 22, CUpti_ActivityMemory3);
#if CUPTI_API_VERSION >= 26
    LENGTH(MEMCPY, 130300, CUpti_ActivityMemcpy6);
    LENGTH(MEMORY2, CUPTI_API_VERSION, CUpti_ActivityMemory4);
#endif
#if CUPTI_API_VERSION >= 130400
    LENGTH(MEMCPY, CUPTI_API_VERSION, CUpti_ActivityMemcpy7);
    LENGTH(MEMSET, CUPTI_API_VERSION, CUpti_ActivityMemset5);
#endif
}

static void other_records_are_as_long_as_their_version_says(void **state)
{
    (void)state;
    LENGTH(RUNTIME, CUPTI_API_VERSION, CUpti_ActivityAPI);
    LENGTH(DRIVER, CUPTI_API_VERSION, CUpti_ActivityAPI);
    LENGTH(INTERNAL_LAUNCH_API, CUPTI_API_VERSION, CUpti_ActivityAPI);
    LENGTH(EXTERNAL_CORRELATION, CUPTI_API_VERSION, CUpti_ActivityExternalCorrelation);
    LENGTH(SYNCHRONIZATION, 22, CUpti_ActivitySynchronization);
    LENGTH(CUDA_EVENT, 22, CUpti_ActivityCudaEvent);
    LENGTH(OVERHEAD, 20, CUpti_ActivityOverhead);
    LENGTH(GRAPH_TRACE, 17, CUpti_ActivityGraphTrace);
    LENGTH(CONTEXT, 21, CUpti_ActivityContext);
#if CUPTI_API_VERSION >= 22
    LENGTH(OVERHEAD, 21, CUpti_ActivityOverhead2);
    LENGTH(OVERHEAD, CUPTI_API_VERSION, CUpti_ActivityOverhead3);
    LENGTH(GRAPH_TRACE, CUPTI_API_VERSION, CUpti_ActivityGraphTrace2);
#endif
#if CUPTI_API_VERSION >= 26
    LENGTH(SYNCHRONIZATION, CUPTI_API_VERSION, CUpti_ActivitySynchronization2);
    LENGTH(CUDA_EVENT, 130400, CUpti_ActivityCudaEvent2);
#endif
#if CUPTI_API_VERSION >= 130100
    LENGTH(GRAPH_HOST_NODE, CUPTI_API_VERSION, CUpti_ActivityGraphHostNode);
    LENGTH(HOST_LAUNCH, CUPTI_API_VERSION, CUpti_ActivityHostLaunch);
#endif
#if CUPTI_API_VERSION >= 130200
    LENGTH(GREEN_CONTEXT, 130200, CUpti_ActivityGreenContext2);
#endif
#if CUPTI_API_VERSION >= 130400
    LENGTH(GREEN_CONTEXT, CUPTI_API_VERSION, CUpti_ActivityGreenContext3);
#endif
#if CUPTI_API_VERSION >= 130500
    LENGTH(CUDA_EVENT, CUPTI_API_VERSION, CUpti_ActivityCudaEvent3);
#endif
}

/* ---- numbers -------------------------------------------------------------------------------------------- */

#define SAME(ours, theirs) assert_int_equal(ours, theirs)

static void numbers_of_kinds_are_theirs(void **state)
{
    (void)state;
#define KIND(name) SAME(CP_KIND_##name, CUPTI_ACTIVITY_KIND_##name)
    KIND(INVALID);
    KIND(MEMCPY);
    KIND(MEMSET);
    KIND(KERNEL);
    KIND(DRIVER);
    KIND(RUNTIME);
    KIND(DEVICE);
    KIND(CONTEXT);
    KIND(CONCURRENT_KERNEL);
    KIND(OVERHEAD);
    KIND(CDP_KERNEL);
    KIND(MEMCPY2);
    KIND(CUDA_EVENT);
    KIND(STREAM);
    KIND(SYNCHRONIZATION);
    KIND(EXTERNAL_CORRELATION);
    KIND(INTERNAL_LAUNCH_API);
    KIND(MEMORY2);
    KIND(MEMORY_POOL);
    KIND(GRAPH_TRACE);
#if CUPTI_API_VERSION >= 130100
    KIND(GRAPH_HOST_NODE);
    KIND(HOST_LAUNCH);
#endif
#if CUPTI_API_VERSION >= 130200
    KIND(GREEN_CONTEXT);
#endif
    assert_in_range(CUPTI_ACTIVITY_KIND_COUNT, 1, CP_KIND_COUNT);
}

static void numbers_of_results_are_theirs(void **state)
{
    (void)state;
#define RESULT(name) SAME(CP_ERROR_##name, CUPTI_ERROR_##name)
    SAME(CP_SUCCESS, CUPTI_SUCCESS);
    RESULT(INVALID_PARAMETER);
    RESULT(INVALID_OPERATION);
    RESULT(OUT_OF_MEMORY);
    RESULT(MAX_LIMIT_REACHED);
    RESULT(NOT_READY);
    RESULT(NOT_COMPATIBLE);
    RESULT(NOT_INITIALIZED);
    RESULT(QUEUE_EMPTY);
    RESULT(HARDWARE_BUSY);
    RESULT(NOT_SUPPORTED);
    RESULT(VIRTUALIZED_DEVICE_NOT_SUPPORTED);
    RESULT(INSUFFICIENT_PRIVILEGES);
    RESULT(OLD_PROFILER_API_INITIALIZED);
    RESULT(LEGACY_PROFILER_NOT_SUPPORTED);
    RESULT(MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED);
    RESULT(VIRTUALIZED_DEVICE_INSUFFICIENT_PRIVILEGES);
    RESULT(CONFIDENTIAL_COMPUTING_NOT_SUPPORTED);
#if CUPTI_API_VERSION >= 130000
    RESULT(MIG_DEVICE_NOT_SUPPORTED);
    RESULT(WSL_DEVICE_NOT_SUPPORTED);
#endif
    RESULT(UNKNOWN);
}

static void other_numbers_are_theirs(void **state)
{
    (void)state;
    SAME(CP_EXTERNAL_CUSTOM0, CUPTI_EXTERNAL_CORRELATION_KIND_CUSTOM0);
    SAME(CP_EXTERNAL_CUSTOM1, CUPTI_EXTERNAL_CORRELATION_KIND_CUSTOM1);
    SAME(CP_ATTRIBUTE_PER_THREAD_BUFFER, CUPTI_ACTIVITY_ATTR_PER_THREAD_ACTIVITY_BUFFER);
    SAME(CP_THREAD_ID_SYSTEM, CUPTI_ACTIVITY_THREAD_ID_TYPE_SYSTEM);
    SAME(CP_FLUSH_FORCED, CUPTI_ACTIVITY_FLAG_FLUSH_FORCED);
    SAME(CP_DOMAIN_DRIVER, CUPTI_CB_DOMAIN_DRIVER_API);
    SAME(CP_DOMAIN_RUNTIME, CUPTI_CB_DOMAIN_RUNTIME_API);
    SAME(CP_DOMAIN_RESOURCE, CUPTI_CB_DOMAIN_RESOURCE);
#define ATTRIBUTE(ours, theirs) SAME(CP_DEVICE_##ours, CU_DEVICE_ATTRIBUTE_##theirs)
    ATTRIBUTE(MAX_THREADS_PER_BLOCK, MAX_THREADS_PER_BLOCK);
    ATTRIBUTE(MAX_SHARED_PER_BLOCK, MAX_SHARED_MEMORY_PER_BLOCK);
    ATTRIBUTE(WARP_SIZE, WARP_SIZE);
    ATTRIBUTE(MAX_REGISTERS_PER_BLOCK, MAX_REGISTERS_PER_BLOCK);
    ATTRIBUTE(SM_COUNT, MULTIPROCESSOR_COUNT);
    ATTRIBUTE(MAX_THREADS_PER_SM, MAX_THREADS_PER_MULTIPROCESSOR);
    ATTRIBUTE(MAJOR, COMPUTE_CAPABILITY_MAJOR);
    ATTRIBUTE(MINOR, COMPUTE_CAPABILITY_MINOR);
    ATTRIBUTE(MAX_SHARED_PER_SM, MAX_SHARED_MEMORY_PER_MULTIPROCESSOR);
    ATTRIBUTE(MAX_REGISTERS_PER_SM, MAX_REGISTERS_PER_MULTIPROCESSOR);
    ATTRIBUTE(MAX_SHARED_PER_BLOCK_OPTIN, MAX_SHARED_MEMORY_PER_BLOCK_OPTIN);
    ATTRIBUTE(MAX_BLOCKS_PER_SM, MAX_BLOCKS_PER_MULTIPROCESSOR);
    ATTRIBUTE(RESERVED_SHARED_PER_BLOCK, RESERVED_SHARED_MEMORY_PER_BLOCK);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(kernels_are_where_we_take_them_to_be),
        cmocka_unit_test(copies_are_where_we_take_them_to_be),
        cmocka_unit_test(copies_between_devices_are_where_we_take_them_to_be),
        cmocka_unit_test(memsets_are_where_we_take_them_to_be),
        cmocka_unit_test(allocations_are_where_we_take_them_to_be),
        cmocka_unit_test(synchronisation_is_where_we_take_it_to_be),
        cmocka_unit_test(other_records_are_where_we_take_them_to_be),
        cmocka_unit_test(kernels_are_as_long_as_their_version_says),
        cmocka_unit_test(transfers_are_as_long_as_their_version_says),
        cmocka_unit_test(other_records_are_as_long_as_their_version_says),
        cmocka_unit_test(numbers_of_kinds_are_theirs),
        cmocka_unit_test(numbers_of_results_are_theirs),
        cmocka_unit_test(other_numbers_are_theirs),
    };
    return RUN_TESTS(tests);
}
