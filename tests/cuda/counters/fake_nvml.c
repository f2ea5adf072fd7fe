/* See fake_nvml.h. A handle is the GPU's number and one, an instance's 100 more. */
#include "fake_nvml.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define EXPORT __attribute__((visibility("default")))

EXPORT fake_nvml fake_nvml_control;
static fake_nvml *const f = &fake_nvml_control;

/* Prototypes as NVML has them. */
#define CP_X(member, symbol, parameters, needed) EXPORT cp_nvml_result symbol parameters;
CP_NVML_MAP(CP_X)
#undef CP_X
EXPORT const char *nvmlErrorString(cp_nvml_result result);

static cp_nvml_result called(int call)
{
    int n = ++f->calls[call];
    return n > f->fails_from[call] ? f->fails[call] : CP_NVML_SUCCESS;
}

/* Number of the GPU, or -1. */
static int number_of(cp_nvml_device device)
{
    int n = (int)(uintptr_t)device - 1;
    return n >= 0 && n < f->gpus ? n : -1;
}

#define BEGIN(call, device)                                                                        \
    int n = number_of(device);                                                                     \
    cp_nvml_result result = called(FAKE_NVML_##call);                                              \
    if (f->users <= 0)                                                                             \
        return 1; /* not initialized */                                                            \
    if (n < 0)                                                                                     \
        return 2; /* no such GPU */                                                                \
    if (result)                                                                                    \
    return result

cp_nvml_result nvmlInit_v2(void)
{
    cp_nvml_result result = called(FAKE_NVML_init);
    if (!f->gpus && getenv(FAKE_NVML_FIRST_UUID))
        f->gpus = 1;
    f->users += result == CP_NVML_SUCCESS;
    return result;
}

cp_nvml_result nvmlShutdown(void)
{
    f->users--;
    return called(FAKE_NVML_shutdown);
}

const char *nvmlErrorString(cp_nvml_result result)
{
    return result == CP_NVML_UNKNOWN ? "Unknown Error" : "Some Error";
}

cp_nvml_result nvmlDeviceGetCount_v2(unsigned *count)
{
    *count = (unsigned)f->gpus;
    return called(FAKE_NVML_device_count);
}

cp_nvml_result nvmlDeviceGetHandleByIndex_v2(unsigned index, cp_nvml_device *device)
{
    *device = (cp_nvml_device)(uintptr_t)(index + 1);
    return called(FAKE_NVML_device_at);
}

cp_nvml_result nvmlDeviceGetUUID(cp_nvml_device device, char *text, unsigned size)
{
    BEGIN(uuid, device);
    const char *first = n == 0 ? getenv(FAKE_NVML_FIRST_UUID) : NULL;
    if (first)
        snprintf(text, size, "%s", first);
    else
        snprintf(text, size, FAKE_UUID_FORMAT, (unsigned)n);
    return result;
}

cp_nvml_result nvmlDeviceGetHandleByUUID(const char *uuid, cp_nvml_device *device)
{
    char text[CP_NVML_UUID_BYTES];
    cp_nvml_result result = called(FAKE_NVML_device_of_uuid);
    for (int i = 0; i < f->gpus && !result; i++) {
        snprintf(text, sizeof text, FAKE_INSTANCE_FORMAT, (unsigned)i);
        *device = (cp_nvml_device)(uintptr_t)(i + 101);
        if (strcmp(text, uuid) == 0)
            return CP_NVML_SUCCESS;
    }
    return result ? result : CP_NVML_NOT_FOUND;
}

cp_nvml_result nvmlDeviceGetDeviceHandleFromMigDeviceHandle(cp_nvml_device instance,
                                                            cp_nvml_device *device)
{
    *device = (cp_nvml_device)((uintptr_t)instance - 100);
    return called(FAKE_NVML_gpu_of_instance);
}

/* Values tell GPU and function: tests look for them. */
cp_nvml_result nvmlDeviceGetPowerUsage(cp_nvml_device device, unsigned *milliwatts)
{
    BEGIN(power, device);
    if (f->delay_us)
        usleep((useconds_t)f->delay_us);
    *milliwatts = 100500 + 1000 * (unsigned)n;
    return result;
}

cp_nvml_result nvmlDeviceGetEnforcedPowerLimit(cp_nvml_device device, unsigned *milliwatts)
{
    BEGIN(power_limit, device);
    *milliwatts = 700000;
    return result;
}

cp_nvml_result nvmlDeviceGetTotalEnergyConsumption(cp_nvml_device device,
                                                   unsigned long long *millijoules)
{
    BEGIN(energy, device);
    *millijoules = 1000000ull * (unsigned)n + 500ull * (unsigned)f->calls[FAKE_NVML_energy];
    return result;
}

cp_nvml_result nvmlDeviceGetClockInfo(cp_nvml_device device, int which, unsigned *megahertz)
{
    BEGIN(clock, device);
    *megahertz = 1000 + 10 * (unsigned)which + (unsigned)n;
    return result;
}

cp_nvml_result nvmlDeviceGetUtilizationRates(cp_nvml_device device, cp_nvml_utilization *u)
{
    BEGIN(utilization, device);
    *u = (cp_nvml_utilization){90 + (unsigned)n, 40};
    return result;
}

cp_nvml_result nvmlDeviceGetMemoryInfo(cp_nvml_device device, cp_nvml_memory *memory)
{
    BEGIN(memory, device);
    *memory = (cp_nvml_memory){80ull << 30, 79ull << 30, 1ull << 30};
    return result;
}

cp_nvml_result nvmlDeviceGetTemperature(cp_nvml_device device, int sensor, unsigned *celsius)
{
    BEGIN(temperature, device);
    *celsius = sensor ? 0 : 55 + (unsigned)n;
    return result;
}

cp_nvml_result nvmlDeviceGetCurrentClocksThrottleReasons(cp_nvml_device device,
                                                         unsigned long long *mask)
{
    BEGIN(slow_reasons, device);
    *mask = CP_NVML_SLOW_POWER_CAP | 1;
    return result;
}
