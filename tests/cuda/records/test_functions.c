/* The functions of CUPTI, the driver and the runtime that are looked up by name have the parameters
 * that the vendor's headers say; and what else we take from the driver's. */
#include "../../unit/unit.h"

#include <cuda.h>
#include <cuda_runtime_api.h>
#include <cupti.h>

/* By path: our directory has a cuda.h, too. */
#include "../../../plugins/cuda/cupti.h"

/* Older headers do not have them; where they do, it is the same. */
CUptiResult cuptiActivityEnableRuntimeApi(CUpti_CallbackId cbid, uint8_t enable);
CUptiResult cuptiActivityEnableDriverApi(CUpti_CallbackId cbid, uint8_t enable);
CUptiResult cuptiActivityEnableCudaEventDeviceTimestamps(uint8_t enable);

static void types_are_as_wide_as_theirs(void **state)
{
    (void)state;
    assert_int_equal(sizeof(cp_result), sizeof(CUptiResult));
    assert_int_equal(sizeof(cp_cuda_result), sizeof(CUresult));
    assert_int_equal(sizeof(cp_cuda_result), sizeof(cudaError_t));
    assert_int_equal(sizeof(cp_attribute), sizeof(CUdevice_attribute));
    assert_int_equal(sizeof(cp_uuid), sizeof(CUuuid));
    assert_int_equal(CUDA_SUCCESS, 0);
    assert_int_equal(cudaSuccess, 0);
    assert_int_equal(CUDA_ERROR_NOT_INITIALIZED, 3);
    assert_int_equal(CUDA_ERROR_DEINITIALIZED, 4);
}

static void types_of_channels_are_numbers_that_kineto_writes(void **state)
{
    (void)state;
    assert_int_equal(CUPTI_CHANNEL_TYPE_INVALID, 0);
    assert_int_equal(CUPTI_CHANNEL_TYPE_COMPUTE, 1);
    assert_int_equal(CUPTI_CHANNEL_TYPE_ASYNC_MEMCPY, 2);
#if CUPTI_API_VERSION >= 24
    assert_int_equal(CUPTI_CHANNEL_TYPE_DECOMP, 3);
#endif
}

/* Words of ours for types of theirs, from here on: functions are compared as a whole. Numbers that
 * are enums to them are unsigned to the compiler, as they are to us. */
#define cp_result    CUptiResult
#define cp_record    CUpti_Activity
#define cp_attribute CUdevice_attribute
#define cp_uuid      CUuuid
#define SAME(member, symbol, result, parameters, needed)                                           \
    if (!__builtin_types_compatible_p(__typeof__(symbol), result parameters))                      \
        fail_msg("%s has other parameters", #symbol);

static void functions_of_cupti_are_the_same(void **state)
{
    (void)state;
    CP_CUPTI_MAP(SAME)
}

static void functions_of_the_driver_are_the_same(void **state)
{
    (void)state;
#define cp_cuda_result CUresult
    CP_DRIVER_MAP(SAME)
#undef cp_cuda_result
}

static void functions_of_the_runtime_are_the_same(void **state)
{
    (void)state;
#define cp_cuda_result cudaError_t
    CP_RUNTIME_MAP(SAME)
#undef cp_cuda_result
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(types_are_as_wide_as_theirs),
        cmocka_unit_test(types_of_channels_are_numbers_that_kineto_writes),
        cmocka_unit_test(functions_of_cupti_are_the_same),
        cmocka_unit_test(functions_of_the_driver_are_the_same),
        cmocka_unit_test(functions_of_the_runtime_are_the_same),
    };
    return RUN_TESTS(tests);
}
