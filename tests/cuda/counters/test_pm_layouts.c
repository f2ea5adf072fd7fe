/* Our declarations of PM sampling are those of the vendor's headers. */
#include "../../unit/unit.h"

/* By path: our directory has a cuda.h, too. */
#include "../../../plugins/cuda/pm_api.h"

#include <stdbool.h> /* which headers of CUDA 13.1 rely on */

#include <cupti_pmsampling.h>
#include <cupti_profiler_host.h>
#include <cupti_profiler_target.h>
#include <cupti_target.h>
#include <cupti_version.h>

#define SIZE_OF(type, member) sizeof(((type *)0)->member)
#define SAME(ours, member, theirs, name)                                                           \
    do {                                                                                           \
        assert_int_equal(offsetof(ours, member), offsetof(theirs, name));                          \
        assert_int_equal(SIZE_OF(ours, member), SIZE_OF(theirs, name));                            \
    } while (0)
/* What every struct begins with, and how large we say it is. */
#define HEAD(ours, last, theirs, size)                                                             \
    do {                                                                                           \
        SAME(ours, struct_size, theirs, structSize);                                               \
        SAME(ours, reserved, theirs, pPriv);                                                       \
        assert_int_equal(CP_PM_SIZE(ours, last), size);                                            \
    } while (0)

static void structs_of_the_host_part_are_the_same(void **state)
{
    (void)state;
    HEAD(cp_pm_initialize, reserved, CUpti_Profiler_Initialize_Params,
         CUpti_Profiler_Initialize_Params_STRUCT_SIZE);
    HEAD(cp_pm_chip_name, name, CUpti_Device_GetChipName_Params,
         CUpti_Device_GetChipName_Params_STRUCT_SIZE);
    SAME(cp_pm_chip_name, device, CUpti_Device_GetChipName_Params, deviceIndex);
    SAME(cp_pm_chip_name, name, CUpti_Device_GetChipName_Params, pChipName);
    /* Later releases have a member after the ones that we fill. */
    SAME(cp_pm_host_initialize, struct_size, CUpti_Profiler_Host_Initialize_Params, structSize);
    SAME(cp_pm_host_initialize, profiler_type, CUpti_Profiler_Host_Initialize_Params, profilerType);
    SAME(cp_pm_host_initialize, chip_name, CUpti_Profiler_Host_Initialize_Params, pChipName);
    SAME(cp_pm_host_initialize, availability, CUpti_Profiler_Host_Initialize_Params,
         pCounterAvailabilityImage);
    SAME(cp_pm_host_initialize, host, CUpti_Profiler_Host_Initialize_Params, pHostObject);
    HEAD(cp_pm_host_deinitialize, host, CUpti_Profiler_Host_Deinitialize_Params,
         CUpti_Profiler_Host_Deinitialize_Params_STRUCT_SIZE);
    SAME(cp_pm_host_deinitialize, host, CUpti_Profiler_Host_Deinitialize_Params, pHostObject);
    HEAD(cp_pm_add_metrics, count, CUpti_Profiler_Host_ConfigAddMetrics_Params,
         CUpti_Profiler_Host_ConfigAddMetrics_Params_STRUCT_SIZE);
    SAME(cp_pm_add_metrics, host, CUpti_Profiler_Host_ConfigAddMetrics_Params, pHostObject);
    SAME(cp_pm_add_metrics, names, CUpti_Profiler_Host_ConfigAddMetrics_Params, ppMetricNames);
    SAME(cp_pm_add_metrics, count, CUpti_Profiler_Host_ConfigAddMetrics_Params, numMetrics);
    HEAD(cp_pm_config_size, size, CUpti_Profiler_Host_GetConfigImageSize_Params,
         CUpti_Profiler_Host_GetConfigImageSize_Params_STRUCT_SIZE);
    SAME(cp_pm_config_size, size, CUpti_Profiler_Host_GetConfigImageSize_Params, configImageSize);
    HEAD(cp_pm_config, image, CUpti_Profiler_Host_GetConfigImage_Params,
         CUpti_Profiler_Host_GetConfigImage_Params_STRUCT_SIZE);
    SAME(cp_pm_config, size, CUpti_Profiler_Host_GetConfigImage_Params, configImageSize);
    SAME(cp_pm_config, image, CUpti_Profiler_Host_GetConfigImage_Params, pConfigImage);
    HEAD(cp_pm_passes, passes, CUpti_Profiler_Host_GetNumOfPasses_Params,
         CUpti_Profiler_Host_GetNumOfPasses_Params_STRUCT_SIZE);
    SAME(cp_pm_passes, config_size, CUpti_Profiler_Host_GetNumOfPasses_Params, configImageSize);
    SAME(cp_pm_passes, config, CUpti_Profiler_Host_GetNumOfPasses_Params, pConfigImage);
    SAME(cp_pm_passes, passes, CUpti_Profiler_Host_GetNumOfPasses_Params, numOfPasses);
    /* From CUDA 13 on there is a member after the ones that we give. */
    SAME(cp_pm_metric, struct_size, CUpti_Profiler_Host_GetMetricProperties_Params, structSize);
    SAME(cp_pm_metric, type, CUpti_Profiler_Host_GetMetricProperties_Params, metricType);
    SAME(cp_pm_metric, name, CUpti_Profiler_Host_GetMetricProperties_Params, pMetricName);
    SAME(cp_pm_metric, unit, CUpti_Profiler_Host_GetMetricProperties_Params, pDimUnit);
    HEAD(cp_pm_evaluate, values, CUpti_Profiler_Host_EvaluateToGpuValues_Params,
         CUpti_Profiler_Host_EvaluateToGpuValues_Params_STRUCT_SIZE);
    SAME(cp_pm_evaluate, image, CUpti_Profiler_Host_EvaluateToGpuValues_Params, pCounterDataImage);
    SAME(cp_pm_evaluate, image_size, CUpti_Profiler_Host_EvaluateToGpuValues_Params,
         counterDataImageSize);
    SAME(cp_pm_evaluate, sample, CUpti_Profiler_Host_EvaluateToGpuValues_Params, rangeIndex);
    SAME(cp_pm_evaluate, names, CUpti_Profiler_Host_EvaluateToGpuValues_Params, ppMetricNames);
    SAME(cp_pm_evaluate, count, CUpti_Profiler_Host_EvaluateToGpuValues_Params, numMetrics);
    SAME(cp_pm_evaluate, values, CUpti_Profiler_Host_EvaluateToGpuValues_Params, pMetricValues);
}

static void structs_of_the_sampler_are_the_same(void **state)
{
    (void)state;
    HEAD(cp_pm_availability, image, CUpti_PmSampling_GetCounterAvailability_Params,
         CUpti_PmSampling_GetCounterAvailability_Params_STRUCT_SIZE);
    SAME(cp_pm_availability, device, CUpti_PmSampling_GetCounterAvailability_Params, deviceIndex);
    SAME(cp_pm_availability, image_size, CUpti_PmSampling_GetCounterAvailability_Params,
         counterAvailabilityImageSize);
    HEAD(cp_pm_enable, sampler, CUpti_PmSampling_Enable_Params,
         CUpti_PmSampling_Enable_Params_STRUCT_SIZE);
    SAME(cp_pm_enable, device, CUpti_PmSampling_Enable_Params, deviceIndex);
    SAME(cp_pm_enable, sampler, CUpti_PmSampling_Enable_Params, pPmSamplingObject);
    HEAD(cp_pm_plain, sampler, CUpti_PmSampling_Start_Params,
         CUpti_PmSampling_Start_Params_STRUCT_SIZE);
    HEAD(cp_pm_plain, sampler, CUpti_PmSampling_Stop_Params,
         CUpti_PmSampling_Stop_Params_STRUCT_SIZE);
    HEAD(cp_pm_plain, sampler, CUpti_PmSampling_Disable_Params,
         CUpti_PmSampling_Disable_Params_STRUCT_SIZE);
    HEAD(cp_pm_configure, append, CUpti_PmSampling_SetConfig_Params,
         CUpti_PmSampling_SetConfig_Params_STRUCT_SIZE);
    SAME(cp_pm_configure, config_size, CUpti_PmSampling_SetConfig_Params, configSize);
    SAME(cp_pm_configure, config, CUpti_PmSampling_SetConfig_Params, pConfig);
    SAME(cp_pm_configure, buffer_size, CUpti_PmSampling_SetConfig_Params, hardwareBufferSize);
    SAME(cp_pm_configure, interval, CUpti_PmSampling_SetConfig_Params, samplingInterval);
    SAME(cp_pm_configure, trigger, CUpti_PmSampling_SetConfig_Params, triggerMode);
    HEAD(cp_pm_image_size, size, CUpti_PmSampling_GetCounterDataSize_Params,
         CUpti_PmSampling_GetCounterDataSize_Params_STRUCT_SIZE);
    SAME(cp_pm_image_size, names, CUpti_PmSampling_GetCounterDataSize_Params, pMetricNames);
    SAME(cp_pm_image_size, count, CUpti_PmSampling_GetCounterDataSize_Params, numMetrics);
    SAME(cp_pm_image_size, max_samples, CUpti_PmSampling_GetCounterDataSize_Params, maxSamples);
    HEAD(cp_pm_image, image, CUpti_PmSampling_CounterDataImage_Initialize_Params,
         CUpti_PmSampling_CounterDataImage_Initialize_Params_STRUCT_SIZE);
    SAME(cp_pm_image, size, CUpti_PmSampling_CounterDataImage_Initialize_Params, counterDataSize);
    HEAD(cp_pm_decode, overflow, CUpti_PmSampling_DecodeData_Params,
         CUpti_PmSampling_DecodeData_Params_STRUCT_SIZE);
    SAME(cp_pm_decode, image, CUpti_PmSampling_DecodeData_Params, pCounterDataImage);
    SAME(cp_pm_decode, image_size, CUpti_PmSampling_DecodeData_Params, counterDataImageSize);
    SAME(cp_pm_decode, stopped, CUpti_PmSampling_DecodeData_Params, decodeStopReason);
    HEAD(cp_pm_image_info, completed, CUpti_PmSampling_GetCounterDataInfo_Params,
         CUpti_PmSampling_GetCounterDataInfo_Params_STRUCT_SIZE);
    SAME(cp_pm_image_info, image, CUpti_PmSampling_GetCounterDataInfo_Params, pCounterDataImage);
    SAME(cp_pm_image_info, total, CUpti_PmSampling_GetCounterDataInfo_Params, numTotalSamples);
    HEAD(cp_pm_sample, end, CUpti_PmSampling_CounterData_GetSampleInfo_Params,
         CUpti_PmSampling_CounterData_GetSampleInfo_Params_STRUCT_SIZE);
    SAME(cp_pm_sample, image, CUpti_PmSampling_CounterData_GetSampleInfo_Params, pCounterDataImage);
    SAME(cp_pm_sample, index, CUpti_PmSampling_CounterData_GetSampleInfo_Params, sampleIndex);
    SAME(cp_pm_sample, start, CUpti_PmSampling_CounterData_GetSampleInfo_Params, startTimestamp);
}

static void numbers_are_the_same(void **state)
{
    (void)state;
    assert_int_equal(CP_PROFILER_PM_SAMPLING, CUPTI_PROFILER_TYPE_PM_SAMPLING);
    assert_int_equal(CP_PM_TRIGGER_SYSTEM_CLOCK,
                     CUPTI_PM_SAMPLING_TRIGGER_MODE_GPU_SYSCLK_INTERVAL);
    assert_int_equal(CP_PM_TRIGGER_TIME, CUPTI_PM_SAMPLING_TRIGGER_MODE_GPU_TIME_INTERVAL);
    assert_int_equal(CP_PM_KEEP_OLDEST, CUPTI_PM_SAMPLING_HARDWARE_BUFFER_APPEND_MODE_KEEP_OLDEST);
    assert_int_equal(CP_PM_KEEP_LATEST, CUPTI_PM_SAMPLING_HARDWARE_BUFFER_APPEND_MODE_KEEP_LATEST);
    assert_int_equal(CP_PM_STOPPED_FULL, CUPTI_PM_SAMPLING_DECODE_STOP_REASON_COUNTER_DATA_FULL);
    assert_int_equal(CP_PM_STOPPED_END, CUPTI_PM_SAMPLING_DECODE_STOP_REASON_END_OF_RECORDS);
    assert_int_equal(CP_ERROR_INVALID_METRIC_NAME, CUPTI_ERROR_INVALID_METRIC_NAME);
    assert_int_equal(CP_ERROR_INVALID_DEVICE, CUPTI_ERROR_INVALID_DEVICE);
#if CUPTI_API_VERSION >= 130000
    assert_int_equal(CP_ERROR_INVALID_CHIP_NAME, CUPTI_ERROR_INVALID_CHIP_NAME);
#endif
    assert_int_equal(CP_ERROR_CMP_DEVICE_NOT_SUPPORTED, CUPTI_ERROR_CMP_DEVICE_NOT_SUPPORTED);
    assert_int_equal(CP_ERROR_SLI_DEVICE_NOT_SUPPORTED, CUPTI_ERROR_SLI_DEVICE_NOT_SUPPORTED);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(structs_of_the_host_part_are_the_same),
        cmocka_unit_test(structs_of_the_sampler_are_the_same),
        cmocka_unit_test(numbers_are_the_same),
    };
    return RUN_TESTS(tests);
}
