/* Own declarations of NVML as far as the source uses it. NVML's functions keep their parameters, so
 * that one table serves all drivers; functions that a driver does not have are NULL. */
#ifndef CP_NVML_API_H
#define CP_NVML_API_H

#include <stdint.h>

typedef int32_t cp_nvml_result; /* nvmlReturn_t */
enum {
    CP_NVML_SUCCESS = 0,
    CP_NVML_NOT_SUPPORTED = 3,
    CP_NVML_NO_PERMISSION = 4,
    CP_NVML_NOT_FOUND = 6,
    CP_NVML_DRIVER_NOT_LOADED = 9,
    CP_NVML_LIBRARY_NOT_FOUND = 12,
    CP_NVML_FUNCTION_NOT_FOUND = 13,
    CP_NVML_GPU_IS_LOST = 15,
    CP_NVML_OPERATING_SYSTEM = 17,
    CP_NVML_VERSION_MISMATCH = 18,
    CP_NVML_UNKNOWN = 999
};
enum { CP_NVML_CLOCK_GRAPHICS = 0, CP_NVML_CLOCK_SM = 1, CP_NVML_CLOCK_MEMORY = 2 };
enum { CP_NVML_SENSOR_GPU = 0 };
enum { /* why clocks are lower than they could be: a mask */
       CP_NVML_SLOW_POWER_CAP = 0x4,
       CP_NVML_SLOW_HARDWARE = 0x8,
       CP_NVML_SLOW_THERMAL = 0x20,
       CP_NVML_SLOW_HARDWARE_THERMAL = 0x40,
       CP_NVML_SLOW_POWER_BRAKE = 0x80
};
#define CP_NVML_UUID_BYTES 96

typedef int32_t cp_nvml_clock, cp_nvml_sensor;
typedef struct nvmlDevice_st *cp_nvml_device;
typedef struct cp_nvml_utilization {
    /* Percent of the time since the previous reading. */
    unsigned gpu, memory;
} cp_nvml_utilization;
typedef struct cp_nvml_memory {
    unsigned long long total, free, used; /* bytes */
} cp_nvml_memory;

/* X(member, symbol, parameters, needed) */
#define CP_NVML_MAP(X)                                                                             \
    X(init, nvmlInit_v2, (void), 1)                                                                \
    X(shutdown, nvmlShutdown, (void), 1)                                                           \
    X(device_count, nvmlDeviceGetCount_v2, (unsigned *count), 1)                                   \
    X(device_at, nvmlDeviceGetHandleByIndex_v2, (unsigned index, cp_nvml_device *device), 1)       \
    X(device_of_uuid, nvmlDeviceGetHandleByUUID, (const char *uuid, cp_nvml_device *device), 0)    \
    X(gpu_of_instance, nvmlDeviceGetDeviceHandleFromMigDeviceHandle,                               \
      (cp_nvml_device instance, cp_nvml_device * device), 0)                                       \
    X(uuid, nvmlDeviceGetUUID, (cp_nvml_device device, char *text, unsigned size), 0)              \
    X(power, nvmlDeviceGetPowerUsage, (cp_nvml_device device, unsigned *milliwatts), 0)            \
    X(power_limit, nvmlDeviceGetEnforcedPowerLimit, (cp_nvml_device device, unsigned *milliwatts), \
      0)                                                                                           \
    X(energy, nvmlDeviceGetTotalEnergyConsumption,                                                 \
      (cp_nvml_device device, unsigned long long *millijoules), 0)                                 \
    X(clock, nvmlDeviceGetClockInfo,                                                               \
      (cp_nvml_device device, cp_nvml_clock which, unsigned *megahertz), 0)                        \
    X(utilization, nvmlDeviceGetUtilizationRates,                                                  \
      (cp_nvml_device device, cp_nvml_utilization * utilization), 0)                               \
    X(memory, nvmlDeviceGetMemoryInfo, (cp_nvml_device device, cp_nvml_memory * memory), 0)        \
    X(temperature, nvmlDeviceGetTemperature,                                                       \
      (cp_nvml_device device, cp_nvml_sensor sensor, unsigned *celsius), 0)                        \
    X(slow_reasons, nvmlDeviceGetCurrentClocksThrottleReasons,                                     \
      (cp_nvml_device device, unsigned long long *mask), 0)

typedef struct cp_nvml_api {
#define CP_X(member, symbol, parameters, needed) cp_nvml_result(*member) parameters;
    CP_NVML_MAP(CP_X)
#undef CP_X
    const char *(*error_text)(cp_nvml_result result);
} cp_nvml_api;

#endif
