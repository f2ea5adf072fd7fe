/* The clock of a device's timestamps. If the device can be read together with the host's clock
 * (VK_EXT_calibrated_timestamps), its readings either agree with a clock of the host, which is used
 * then, or they are samples for the host's fit. Without that extension, what is known of a
 * timestamp is that it was written after the submission and before its end was seen. */
#include "vulkan.h"

#include <stdio.h>
#include <time.h>

#define VOTES               3
#define SAMPLE_INTERVAL_NS  INT64_C(50000000)

int64_t vl_now_ns(int clock_id)
{
    struct timespec t = {0, 0};

    (void)clock_gettime(clock_id, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

/* To ns. The period is a float of Vulkan's. */
static int64_t scale_ticks(const vl_gpu *gpu, uint64_t ticks)
{
    double period = (double)gpu->properties.limits.timestampPeriod;

    if (period == 1.0)
        return (int64_t)ticks;
    /* In two steps, so that the product keeps its last digits. */
    return (int64_t)((double)(ticks >> 32) * 4294967296.0 * period) +
           (int64_t)((double)(ticks & UINT32_MAX) * period);
}

/* Timestamps of fewer than 64 bits wrap: continues from the last one, which is at most half the
 * range away. */
static uint64_t unwrap_ticks(vl_gpu *gpu, uint64_t ticks, uint32_t bits)
{
    if (bits >= 64 || bits == 0)
        return ticks;
    uint64_t mask = (UINT64_C(1) << bits) - 1, half = UINT64_C(1) << (bits - 1);
    ticks &= mask;
    if (!gpu->has_last) {
        gpu->has_last = true;
        /* Space for a step back. */
        gpu->last_ticks = ticks + mask + 1;
    } else {
        uint64_t step = (ticks - gpu->last_ticks) & mask;
        gpu->last_ticks += step < half ? step : step - mask - 1;
    }
    return gpu->last_ticks;
}

int64_t vl_clock_ns(vl_gpu *gpu, uint64_t ticks, uint32_t bits)
{
    return scale_ticks(gpu, unwrap_ticks(gpu, ticks, bits));
}

/* False: the driver refuses. */
static bool read_device_ticks(const vl_device *device, uint64_t *ticks)
{
    const VkCalibratedTimestampInfoEXT info = {
        .sType = VK_STRUCTURE_TYPE_CALIBRATED_TIMESTAMP_INFO_EXT,
        .timeDomain = VK_TIME_DOMAIN_DEVICE_EXT,
    };
    uint64_t deviation = 0;

    return device->GetCalibratedTimestampsEXT(device->handle, 1, &info, ticks, &deviation) ==
           VK_SUCCESS;
}

/* Is the device's reading between two of this clock of the host, each time? */
static bool is_host_clock(vl_device *device, int clock_id)
{
    for (int i = 0; i < VOTES; i++) {
        uint64_t ticks = 0;
        int64_t before = vl_now_ns(clock_id);
        if (!read_device_ticks(device, &ticks))
            return false;
        int64_t now = scale_ticks(device->gpu, ticks), after = vl_now_ns(clock_id);
        if (now < before || now > after)
            return false;
    }
    return true;
}

/* Decided once for each physical device, and kept for all sessions. */
void vl_clock_find(vl_device *device)
{
    vl_gpu *gpu = device->gpu;

    if (!device->is_calibrated)
        return;
    pthread_mutex_lock(&gpu->lock);
    if (gpu->clock_state == VL_CLOCK_UNKNOWN) {
        gpu->clock_state = VL_CLOCK_HOST;
        if (is_host_clock(device, CLOCK_MONOTONIC_RAW))
            gpu->host_clock = KINETO_PLUGIN_CLOCK_MONOTONIC_RAW;
        else if (is_host_clock(device, CLOCK_MONOTONIC))
            gpu->host_clock = KINETO_PLUGIN_CLOCK_MONOTONIC;
        else
            gpu->clock_state = VL_CLOCK_DEVICE;
    }
    pthread_mutex_unlock(&gpu->lock);
}

int32_t vl_clock_number(const KinetoPlugin_TraceBuilder *builder, vl_device *device)
{
    vl_gpu *gpu = device->gpu;
    uint32_t session = vl_session_current();
    char name[VK_MAX_PHYSICAL_DEVICE_NAME_SIZE + 32];

    if (gpu->clock_state == VL_CLOCK_HOST)
        return gpu->host_clock;
    if (gpu->clock_session != session) {
        gpu->clock_session = session;
        gpu->next_sample_ns = 0;
        snprintf(name, sizeof name, "Vulkan %d %s", gpu->index, gpu->properties.deviceName);
        if (builder->registerClock(builder->pTraceBuilderHandle, name, &gpu->clock_number) != 0)
            gpu->clock_number = -1;
    }
    return gpu->clock_number;
}

/* Reads both clocks. False: the driver cannot. */
static bool sample_calibrated(const KinetoPlugin_TraceBuilder *builder, vl_device *device,
                              uint32_t bits)
{
    vl_gpu *gpu = device->gpu;
    uint64_t ticks = 0, before = builder->hostTicks(builder->pTraceBuilderHandle);

    if (!device->is_calibrated || !read_device_ticks(device, &ticks))
        return false;
    uint64_t after = builder->hostTicks(builder->pTraceBuilderHandle);
    (void)builder->addClockSample(builder->pTraceBuilderHandle, gpu->clock_number,
                                  vl_clock_ns(gpu, ticks, bits), before, after);
    return true;
}

void vl_clock_sample(const KinetoPlugin_TraceBuilder *builder, vl_device *device, int64_t device_ns,
                     uint64_t ticks_before, uint32_t bits)
{
    vl_gpu *gpu = device->gpu;
    int64_t now = vl_now_ns(CLOCK_MONOTONIC);

    if (gpu->clock_state == VL_CLOCK_HOST || gpu->clock_number < 0 || now < gpu->next_sample_ns)
        return;
    gpu->next_sample_ns = now + SAMPLE_INTERVAL_NS;
    if (sample_calibrated(builder, device, bits) || !ticks_before)
        return;
    (void)builder->addClockSample(builder->pTraceBuilderHandle, gpu->clock_number, device_ns,
                                  ticks_before, builder->hostTicks(builder->pTraceBuilderHandle));
}
