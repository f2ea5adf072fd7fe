/* The fake Level Zero: one driver, its GPUs, and a processor that is none. */
#include "standin.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static uint32_t count_gpus(void)
{
    const char *text = getenv("CKINETO_XPU_STANDIN"), *word = text ? strstr(text, "gpus=") : NULL;
    return word ? (uint32_t)strtoul(word + 5, NULL, 10) : 2;
}

API int zeDriverGet(uint32_t *count, void **drivers);
int zeDriverGet(uint32_t *count, void **drivers)
{
    if (*count && drivers)
        drivers[0] = count;
    *count = 1;
    return 0;
}

API int zeDeviceGet(void *driver, uint32_t *count, void **devices);
int zeDeviceGet(void *driver, uint32_t *count, void **devices)
{
    (void)driver;
    for (uint32_t i = 0; i <= count_gpus() && i < *count; i++)
        devices[i] = (void *)(uintptr_t)(i + 1);
    *count = count_gpus() + 1;
    return 0;
}

/* Offsets of ze_device_properties_t. */
API int zeDeviceGetProperties(void *device, unsigned char *p);
int zeDeviceGetProperties(void *device, unsigned char *p)
{
    uint32_t i = (uint32_t)(uintptr_t)device, gpu = i <= count_gpus() ? 1 : 2;
    uint32_t clock = 1550, units = 8, subslices = 16, slices = 4;
    uint64_t memory = UINT64_C(48) << 30;
    memcpy(p + 16, &gpu, 4);
    memcpy(p + 36, &clock, 4);
    memcpy(p + 40, &memory, 8);
    memcpy(p + 64, &units, 4);
    memcpy(p + 68, &subslices, 4);
    memcpy(p + 72, &slices, 4);
    memset(p + 96, 0, 16);
    p[96] = (unsigned char)i;
    snprintf((char *)p + 112, 256, "Intel(R) Data Center GPU Max 1550");
    return 0;
}
