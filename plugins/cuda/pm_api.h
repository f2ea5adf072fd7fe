/* Own declarations of CUPTI's PM sampling (CUDA 12.6 and later) as far as the source uses it. Each
 * call takes one struct that begins with its size, beyond which CUPTI reads nothing. Our sizes end
 * with the last member of the first release, so that every release accepts them. */
#ifndef CP_PM_API_H
#define CP_PM_API_H

#include "cupti.h"

/* What CUPTI expects in struct_size: the end of the last member, without padding. */
#define CP_PM_SIZE(type, last) (offsetof(type, last) + sizeof(((type *)0)->last))

enum { /* results that only these calls give */
       CP_ERROR_INVALID_DEVICE = 2,
       CP_ERROR_INVALID_METRIC_NAME = 17,
       CP_ERROR_CMP_DEVICE_NOT_SUPPORTED = 42,
       CP_ERROR_SLI_DEVICE_NOT_SUPPORTED = 44,
       CP_ERROR_INVALID_CHIP_NAME = 46
};
enum { CP_PROFILER_PM_SAMPLING = 1 };                            /* CUpti_ProfilerType */
enum { CP_PM_TRIGGER_SYSTEM_CLOCK = 0, CP_PM_TRIGGER_TIME = 1 }; /* …_TriggerMode */
enum { CP_PM_KEEP_OLDEST = 0, CP_PM_KEEP_LATEST = 1 };           /* …_AppendMode */
enum { CP_PM_STOPPED_FULL = 1, CP_PM_STOPPED_END = 2 };          /* …_DecodeStopReason */

/* CUPTI's handles: the sampler of a device, and the host part, which plans the metrics and computes
 * their values. Both are opaque. */
typedef struct cp_pm_sampler cp_pm_sampler;
typedef struct cp_pm_host cp_pm_host;

/* ---- parameters of the host part, in the order in which setup calls it ------------------------ */

typedef struct cp_pm_initialize {
    size_t struct_size;
    void *reserved;
} cp_pm_initialize;

typedef struct cp_pm_chip_name {
    size_t struct_size;
    void *reserved;
    size_t device;
    const char *name; /* out */
} cp_pm_chip_name;

/* Called twice: with image NULL for the size, then with memory of that size. */
typedef struct cp_pm_availability {
    size_t struct_size;
    void *reserved;
    size_t device;
    size_t image_size; /* out if image is NULL */
    uint8_t *image;
} cp_pm_availability;

typedef struct cp_pm_host_initialize {
    size_t struct_size;
    void *reserved;
    int32_t profiler_type;
    const char *chip_name;
    const uint8_t *availability;
    cp_pm_host *host; /* out */
} cp_pm_host_initialize;

typedef struct cp_pm_host_deinitialize {
    size_t struct_size;
    void *reserved;
    cp_pm_host *host;
} cp_pm_host_deinitialize;

typedef struct cp_pm_add_metrics {
    size_t struct_size;
    void *reserved;
    cp_pm_host *host;
    const char **names;
    size_t count;
} cp_pm_add_metrics;

/* The configuration image: its size, its contents, and the number of passes that it needs. Sampling
 * works with a single pass only. */
typedef struct cp_pm_config_size {
    size_t struct_size;
    void *reserved;
    cp_pm_host *host;
    size_t size; /* out */
} cp_pm_config_size;

typedef struct cp_pm_config {
    size_t struct_size;
    void *reserved;
    cp_pm_host *host;
    size_t size;
    uint8_t *image;
} cp_pm_config;

typedef struct cp_pm_passes {
    size_t struct_size;
    void *reserved;
    size_t config_size;
    uint8_t *config;
    size_t passes; /* out */
} cp_pm_passes;

typedef struct cp_pm_metric {
    size_t struct_size;
    void *reserved;
    cp_pm_host *host;
    const char *name;
    const char *description, *hardware_unit, *unit; /* out */
    int32_t type;                                   /* out; later releases have a member after it */
} cp_pm_metric;

/* Computes the values of one sample of a counter data image. */
typedef struct cp_pm_evaluate {
    size_t struct_size;
    void *reserved;
    cp_pm_host *host;
    const uint8_t *image;
    size_t image_size;
    size_t sample;
    const char **names;
    size_t count;
    double *values; /* to be filled */
} cp_pm_evaluate;

/* ---- parameters of the sampler ----------------------------------------------------------------- */

typedef struct cp_pm_enable {
    size_t struct_size;
    void *reserved;
    size_t device;
    cp_pm_sampler *sampler; /* out */
} cp_pm_enable;
/* start, stop, disable */
typedef struct cp_pm_plain {
    size_t struct_size;
    void *reserved;
    cp_pm_sampler *sampler;
} cp_pm_plain;

typedef struct cp_pm_configure {
    size_t struct_size;
    void *reserved;
    cp_pm_sampler *sampler;
    size_t config_size;
    const uint8_t *config;
    size_t buffer_size;
    uint64_t interval; /* ns, or cycles of the system clock */
    int32_t trigger, append;
} cp_pm_configure;

/* The counter data image: CUPTI decodes samples from the hardware buffer into it. */
typedef struct cp_pm_image_size {
    size_t struct_size;
    void *reserved;
    cp_pm_sampler *sampler;
    const char **names;
    size_t count;
    uint32_t max_samples;
    size_t size; /* out */
} cp_pm_image_size;

typedef struct cp_pm_image {
    size_t struct_size;
    void *reserved;
    cp_pm_sampler *sampler;
    size_t size;
    uint8_t *image;
} cp_pm_image;

typedef struct cp_pm_decode {
    size_t struct_size;
    void *reserved;
    cp_pm_sampler *sampler;
    uint8_t *image;
    size_t image_size;
    int32_t stopped;  /* out */
    uint8_t overflow; /* out */
} cp_pm_decode;

typedef struct cp_pm_image_info {
    size_t struct_size;
    void *reserved;
    const uint8_t *image;
    size_t image_size;
    size_t total, populated, completed; /* out: samples */
} cp_pm_image_info;

typedef struct cp_pm_sample {
    size_t struct_size;
    void *reserved;
    cp_pm_sampler *sampler;
    const uint8_t *image;
    size_t image_size;
    size_t index;
    uint64_t start, end; /* out: ns */
} cp_pm_sample;

/* CUPTI's functions: X(member, symbol, struct, its last member, needed). Without a needed one there
 * is no PM sampling. */
#define CP_PM_MAP(X)                                                                               \
    X(initialize, cuptiProfilerInitialize, cp_pm_initialize, reserved, 1)                          \
    X(chip_name, cuptiDeviceGetChipName, cp_pm_chip_name, name, 1)                                 \
    X(availability, cuptiPmSamplingGetCounterAvailability, cp_pm_availability, image, 1)           \
    X(host_initialize, cuptiProfilerHostInitialize, cp_pm_host_initialize, host, 1)                \
    X(host_deinitialize, cuptiProfilerHostDeinitialize, cp_pm_host_deinitialize, host, 1)          \
    X(add_metrics, cuptiProfilerHostConfigAddMetrics, cp_pm_add_metrics, count, 1)                 \
    X(config_size, cuptiProfilerHostGetConfigImageSize, cp_pm_config_size, size, 1)                \
    X(config, cuptiProfilerHostGetConfigImage, cp_pm_config, image, 1)                             \
    X(passes, cuptiProfilerHostGetNumOfPasses, cp_pm_passes, passes, 1)                            \
    X(metric, cuptiProfilerHostGetMetricProperties, cp_pm_metric, type, 0)                         \
    X(evaluate, cuptiProfilerHostEvaluateToGpuValues, cp_pm_evaluate, values, 1)                   \
    X(enable, cuptiPmSamplingEnable, cp_pm_enable, sampler, 1)                                     \
    X(configure, cuptiPmSamplingSetConfig, cp_pm_configure, append, 1)                             \
    X(image_size, cuptiPmSamplingGetCounterDataSize, cp_pm_image_size, size, 1)                    \
    X(image, cuptiPmSamplingCounterDataImageInitialize, cp_pm_image, image, 1)                     \
    X(start, cuptiPmSamplingStart, cp_pm_plain, sampler, 1)                                        \
    X(stop, cuptiPmSamplingStop, cp_pm_plain, sampler, 1)                                          \
    X(disable, cuptiPmSamplingDisable, cp_pm_plain, sampler, 1)                                    \
    X(decode, cuptiPmSamplingDecodeData, cp_pm_decode, overflow, 1)                                \
    X(image_info, cuptiPmSamplingGetCounterDataInfo, cp_pm_image_info, completed, 1)               \
    X(sample, cuptiPmSamplingCounterDataGetSampleInfo, cp_pm_sample, end, 1)

typedef struct cp_pm_api {
#define CP_X(member, symbol, type, last, needed) cp_result(CP_CUPTI_CALL *member)(type *);
    CP_PM_MAP(CP_X)
#undef CP_X
} cp_pm_api;

#endif
