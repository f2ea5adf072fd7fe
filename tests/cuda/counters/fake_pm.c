/* See fake_pm.h. Nothing here depends on the rest of a stand-in for CUPTI. */
#include "fake_pm.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define EXPORT   __attribute__((visibility("default")))
#define CAPACITY 1024

EXPORT fake_pm fake_pm_control;
static fake_pm *const f = &fake_pm_control;

struct cp_pm_host {
    int used;
};
struct cp_pm_sampler {
    long long decoded; /* samples that left the buffer */
};
static struct cp_pm_host the_host;
static struct cp_pm_sampler the_sampler;

/* What lies in an image. */
typedef struct image {
    uint64_t magic;
    long long first, count;
} image;
#define MAGIC UINT64_C(0x6b696e65746f)

#define CP_X(member, symbol, type, last, needed) EXPORT cp_result symbol(type *p);
CP_PM_MAP(CP_X)
#undef CP_X

/* As a library in C++ whose objects end when the program exits. */
static atomic_bool has_ended;
static void end_library(void) { has_ended = true; }

/* Takes FAKE_PM_SETUP_MS milliseconds, and makes an object in the middle. */
static void set_up_slowly(void)
{
    const char *text = getenv("FAKE_PM_SETUP_MS");
    const struct timespec step = {.tv_nsec = 1000000};
    for (int ms = 0, all = text ? atoi(text) : 0; ms < all; ms++) {
        if (ms == all / 2)
            (void)atexit(end_library);
        (void)nanosleep(&step, NULL);
        if (has_ended)
            abort();
    }
}

static cp_result called(int call, size_t size, size_t expected)
{
    if (has_ended)
        abort();
    f->calls[call]++;
    if (size != expected) {
        f->wrong++;
        return CP_ERROR_INVALID_PARAMETER;
    }
    return f->fails[call];
}

/* Count, and leave the function if the call is to fail. */
#define BEGIN(call, type, last)                                                                    \
    cp_result result = called(FAKE_PM_##call, p->struct_size, CP_PM_SIZE(type, last));             \
    if (result)                                                                                    \
    return result
/* What a caller must have seen to before. */
#define MUST(condition)                                                                            \
    if (!(condition)) {                                                                            \
        f->wrong++;                                                                                \
        return CP_ERROR_INVALID_PARAMETER;                                                         \
    }

cp_result cuptiProfilerInitialize(cp_pm_initialize *p)
{
    BEGIN(initialize, cp_pm_initialize, reserved);
    return CP_SUCCESS;
}

cp_result cuptiDeviceGetChipName(cp_pm_chip_name *p)
{
    BEGIN(chip_name, cp_pm_chip_name, name);
    p->name = "FAKE100";
    return CP_SUCCESS;
}

cp_result cuptiPmSamplingGetCounterAvailability(cp_pm_availability *p)
{
    BEGIN(availability, cp_pm_availability, image);
    if (!p->image) {
        p->image_size = 24;
        return CP_SUCCESS;
    }
    MUST(p->image_size == 24);
    memset(p->image, 7, 24);
    return CP_SUCCESS;
}

cp_result cuptiProfilerHostInitialize(cp_pm_host_initialize *p)
{
    BEGIN(host_initialize, cp_pm_host_initialize, host);
    set_up_slowly();
    MUST(strcmp(p->chip_name, "FAKE100") == 0 && p->profiler_type == CP_PROFILER_PM_SAMPLING &&
         p->availability[23] == 7);
    f->hosts++;
    p->host = &the_host;
    return CP_SUCCESS;
}

cp_result cuptiProfilerHostDeinitialize(cp_pm_host_deinitialize *p)
{
    f->hosts--;
    BEGIN(host_deinitialize, cp_pm_host_deinitialize, host);
    return CP_SUCCESS;
}

static int unknown(const char *name) { return strncmp(name, FAKE_PM_UNKNOWN, 4) == 0; }

cp_result cuptiProfilerHostConfigAddMetrics(cp_pm_add_metrics *p)
{
    BEGIN(add_metrics, cp_pm_add_metrics, count);
    MUST(p->host == &the_host && p->count);
    for (size_t i = 0; i < p->count; i++) {
        if (unknown(p->names[i]))
            return CP_ERROR_INVALID_METRIC_NAME;
    }
    return CP_SUCCESS;
}

cp_result cuptiProfilerHostGetMetricProperties(cp_pm_metric *p)
{
    BEGIN(metric, cp_pm_metric, type);
    return unknown(p->name) ? CP_ERROR_INVALID_METRIC_NAME : CP_SUCCESS;
}

cp_result cuptiProfilerHostGetConfigImageSize(cp_pm_config_size *p)
{
    BEGIN(config_size, cp_pm_config_size, size);
    p->size = 48;
    return CP_SUCCESS;
}

cp_result cuptiProfilerHostGetConfigImage(cp_pm_config *p)
{
    BEGIN(config, cp_pm_config, image);
    MUST(p->size == 48);
    memset(p->image, 5, p->size);
    return CP_SUCCESS;
}

cp_result cuptiProfilerHostGetNumOfPasses(cp_pm_passes *p)
{
    BEGIN(passes, cp_pm_passes, passes);
    MUST(p->config_size == 48 && p->config[47] == 5);
    p->passes = f->passes ? (size_t)f->passes : 1;
    return CP_SUCCESS;
}

cp_result cuptiPmSamplingEnable(cp_pm_enable *p)
{
    BEGIN(enable, cp_pm_enable, sampler);
    f->samplers++;
    f->device = (int)p->device;
    the_sampler.decoded = 0;
    p->sampler = &the_sampler;
    return CP_SUCCESS;
}

cp_result cuptiPmSamplingDisable(cp_pm_plain *p)
{
    MUST(p->sampler == &the_sampler && !f->running);
    f->samplers--;
    BEGIN(disable, cp_pm_plain, sampler);
    return CP_SUCCESS;
}

cp_result cuptiPmSamplingSetConfig(cp_pm_configure *p)
{
    BEGIN(configure, cp_pm_configure, append);
    MUST(p->sampler == &the_sampler && p->config_size == 48 && p->config[47] == 5 &&
         p->buffer_size);
    f->interval = p->interval;
    f->trigger = p->trigger;
    f->append = p->append;
    return CP_SUCCESS;
}

cp_result cuptiPmSamplingGetCounterDataSize(cp_pm_image_size *p)
{
    BEGIN(image_size, cp_pm_image_size, size);
    MUST(p->sampler == &the_sampler && p->count && p->max_samples == CAPACITY);
    p->size = sizeof(image);
    return CP_SUCCESS;
}

cp_result cuptiPmSamplingCounterDataImageInitialize(cp_pm_image *p)
{
    BEGIN(image, cp_pm_image, image);
    MUST(p->sampler == &the_sampler && p->size == sizeof(image));
    memcpy(p->image, &(image){MAGIC, 0, 0}, sizeof(image));
    return CP_SUCCESS;
}

cp_result cuptiPmSamplingStart(cp_pm_plain *p)
{
    BEGIN(start, cp_pm_plain, sampler);
    MUST(p->sampler == &the_sampler && !f->running);
    f->running = 1;
    return CP_SUCCESS;
}

cp_result cuptiPmSamplingStop(cp_pm_plain *p)
{
    MUST(p->sampler == &the_sampler && f->running);
    f->running = 0;
    BEGIN(stop, cp_pm_plain, sampler);
    return CP_SUCCESS;
}

cp_result cuptiPmSamplingDecodeData(cp_pm_decode *p)
{
    BEGIN(decode, cp_pm_decode, overflow);
    image in;
    memcpy(&in, p->image, sizeof in);
    MUST(in.magic == MAGIC && in.count == 0 && p->image_size == sizeof in);
    long long waiting = f->available;
    in.first = the_sampler.decoded;
    in.count = waiting < CAPACITY ? waiting : CAPACITY;
    the_sampler.decoded += in.count;
    f->available -= f->endless ? 0 : in.count;
    memcpy(p->image, &in, sizeof in);
    p->overflow = (uint8_t)f->overflow;
    p->stopped = f->available ? CP_PM_STOPPED_FULL : CP_PM_STOPPED_END;
    return CP_SUCCESS;
}

cp_result cuptiPmSamplingGetCounterDataInfo(cp_pm_image_info *p)
{
    BEGIN(image_info, cp_pm_image_info, completed);
    image in;
    memcpy(&in, p->image, sizeof in);
    p->total = CAPACITY;
    p->populated = p->completed = (size_t)in.count;
    return CP_SUCCESS;
}

cp_result cuptiPmSamplingCounterDataGetSampleInfo(cp_pm_sample *p)
{
    BEGIN(sample, cp_pm_sample, end);
    image in;
    memcpy(&in, p->image, sizeof in);
    MUST((long long)p->index < in.count);
    p->start = (uint64_t)(f->first_ns + (in.first + (long long)p->index) * f->step_ns);
    p->end = p->start + (uint64_t)f->step_ns;
    return CP_SUCCESS;
}

cp_result cuptiProfilerHostEvaluateToGpuValues(cp_pm_evaluate *p)
{
    BEGIN(evaluate, cp_pm_evaluate, values);
    image in;
    memcpy(&in, p->image, sizeof in);
    MUST(p->host == &the_host && (long long)p->sample < in.count);
    for (size_t m = 0; m < p->count; m++)
        p->values[m] = (double)(100 * (in.first + (long long)p->sample) + (long long)m);
    return CP_SUCCESS;
}
