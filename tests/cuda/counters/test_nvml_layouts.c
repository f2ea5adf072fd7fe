/* Our declarations of NVML are those of the vendor's header. */
#include "../../unit/unit.h"

#include <nvml.h>

/* By path: our directory has a cuda.h, too. */
#include "../../../plugins/cuda/nvml_api.h"

#define SIZE_OF(type, member) sizeof(((type *)0)->member)
#define SAME(ours, theirs, member)                                                                 \
    do {                                                                                           \
        assert_int_equal(offsetof(ours, member), offsetof(theirs, member));                        \
        assert_int_equal(SIZE_OF(ours, member), SIZE_OF(theirs, member));                          \
    } while (0)

static void structs_are_the_same(void **state)
{
    (void)state;
    assert_int_equal(sizeof(cp_nvml_utilization), sizeof(nvmlUtilization_t));
    SAME(cp_nvml_utilization, nvmlUtilization_t, gpu);
    SAME(cp_nvml_utilization, nvmlUtilization_t, memory);
    assert_int_equal(sizeof(cp_nvml_memory), sizeof(nvmlMemory_t));
    SAME(cp_nvml_memory, nvmlMemory_t, total);
    SAME(cp_nvml_memory, nvmlMemory_t, free);
    SAME(cp_nvml_memory, nvmlMemory_t, used);
    assert_int_equal(sizeof(cp_nvml_result), sizeof(nvmlReturn_t));
    assert_int_equal(sizeof(cp_nvml_clock), sizeof(nvmlClockType_t));
    assert_int_equal(sizeof(cp_nvml_sensor), sizeof(nvmlTemperatureSensors_t));
}

static void numbers_are_the_same(void **state)
{
    (void)state;
    assert_int_equal(CP_NVML_SUCCESS, NVML_SUCCESS);
    assert_int_equal(CP_NVML_NOT_SUPPORTED, NVML_ERROR_NOT_SUPPORTED);
    assert_int_equal(CP_NVML_NO_PERMISSION, NVML_ERROR_NO_PERMISSION);
    assert_int_equal(CP_NVML_NOT_FOUND, NVML_ERROR_NOT_FOUND);
    assert_int_equal(CP_NVML_DRIVER_NOT_LOADED, NVML_ERROR_DRIVER_NOT_LOADED);
    assert_int_equal(CP_NVML_LIBRARY_NOT_FOUND, NVML_ERROR_LIBRARY_NOT_FOUND);
    assert_int_equal(CP_NVML_FUNCTION_NOT_FOUND, NVML_ERROR_FUNCTION_NOT_FOUND);
    assert_int_equal(CP_NVML_GPU_IS_LOST, NVML_ERROR_GPU_IS_LOST);
    assert_int_equal(CP_NVML_OPERATING_SYSTEM, NVML_ERROR_OPERATING_SYSTEM);
    assert_int_equal(CP_NVML_VERSION_MISMATCH, NVML_ERROR_LIB_RM_VERSION_MISMATCH);
    assert_int_equal(CP_NVML_UNKNOWN, NVML_ERROR_UNKNOWN);
    assert_int_equal(CP_NVML_CLOCK_GRAPHICS, NVML_CLOCK_GRAPHICS);
    assert_int_equal(CP_NVML_CLOCK_SM, NVML_CLOCK_SM);
    assert_int_equal(CP_NVML_CLOCK_MEMORY, NVML_CLOCK_MEM);
    assert_int_equal(CP_NVML_SENSOR_GPU, NVML_TEMPERATURE_GPU);
    assert_int_equal(CP_NVML_UUID_BYTES, NVML_DEVICE_UUID_V2_BUFFER_SIZE);
    assert_int_equal(CP_NVML_SLOW_POWER_CAP, nvmlClocksThrottleReasonSwPowerCap);
    assert_int_equal(CP_NVML_SLOW_HARDWARE, nvmlClocksThrottleReasonHwSlowdown);
    assert_int_equal(CP_NVML_SLOW_THERMAL, nvmlClocksThrottleReasonSwThermalSlowdown);
    assert_int_equal(CP_NVML_SLOW_HARDWARE_THERMAL, nvmlClocksThrottleReasonHwThermalSlowdown);
    assert_int_equal(CP_NVML_SLOW_POWER_BRAKE, nvmlClocksThrottleReasonHwPowerBrakeSlowdown);
}

#pragma GCC diagnostic ignored "-Wdeprecated-declarations" /* old drivers have no other */

/* Words of ours for types of theirs, from here on: functions are compared as a whole. */
#define cp_nvml_result      nvmlReturn_t
#define cp_nvml_device      nvmlDevice_t
#define cp_nvml_clock       nvmlClockType_t
#define cp_nvml_sensor      nvmlTemperatureSensors_t
#define cp_nvml_utilization nvmlUtilization_t
#define cp_nvml_memory      nvmlMemory_t

static void functions_are_the_same(void **state)
{
    (void)state;
#define CP_X(member, symbol, parameters, needed)                                                   \
    assert_true(__builtin_types_compatible_p(__typeof__(symbol), nvmlReturn_t parameters));
    CP_NVML_MAP(CP_X)
#undef CP_X
    assert_true(__builtin_types_compatible_p(__typeof__(nvmlErrorString),
                                             const char *(nvmlReturn_t result)));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(structs_are_the_same),
        cmocka_unit_test(numbers_are_the_same),
        cmocka_unit_test(functions_are_the_same),
    };
    return RUN_TESTS(tests);
}
