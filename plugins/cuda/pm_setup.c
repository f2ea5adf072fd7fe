/* From the names of metrics to a sampler that is ready to start. Every step can be refused, and
 * each refusal means something else for the user. */
#include "pm.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

cp_pm_api cp_pm;

/* ---- messages -------------------------------------------------------------------------------- */

/* Results with a special meaning for PM sampling; cp_explain has the others. */
static const struct {
    cp_result result;
    const char *text;
} known_refusals[] = {
    {CP_ERROR_INVALID_OPERATION,
     "another tool samples this GPU in this process; switch one of them off"},
    {CP_ERROR_HARDWARE_BUSY,
     "another profiler or monitor uses the GPU's counters; stop it (dcgmi profiling, Nsight)"},
    {CP_ERROR_OUT_OF_MEMORY, "CUPTI is out of memory; use fewer metrics"},
    {CP_ERROR_NOT_SUPPORTED, "CUPTI cannot sample these metrics on this GPU; try fewer or others"},
    {CP_ERROR_INVALID_DEVICE, "unknown device; see cuda.pm_device"},
    {CP_ERROR_INVALID_CHIP_NAME,
     "this CUPTI does not support the GPU's chip; use the CUPTI of a newer CUDA"},
    {CP_ERROR_CMP_DEVICE_NOT_SUPPORTED, "not supported on mining processors"},
    {CP_ERROR_SLI_DEVICE_NOT_SUPPORTED, "not supported on GPUs joined by SLI"},
};

void cp_pm_explain(const char *call, cp_result result, int32_t device, char why[CP_TEXT_BYTES])
{
    char doing[64];
    const char *text = NULL;
    for (size_t i = 0; i < CP_COUNT(known_refusals) && !text; i++) {
        if (known_refusals[i].result == result)
            text = known_refusals[i].text;
    }
    snprintf(doing, sizeof doing, "PM sampling of GPU %d (%s)", device, call);
    if (text)
        snprintf(why, CP_TEXT_BYTES, "%s: %s", doing, text);
    else
        cp_explain(result, doing, why);
}

/* The unit follows from the parts of a metric's name, "dram__bytes_read.sum.per_second". */
const char *cp_pm_unit(const char *metric)
{
    bool bytes = strstr(metric, "bytes") != NULL;
    if (strstr(metric, ".pct"))
        return "%";
    if (strstr(metric, ".per_second"))
        return bytes ? "bytes/s" : strstr(metric, "cycles_elapsed") ? "Hz" : "1/s";
    return bytes && !strstr(metric, ".ratio") && !strstr(metric, ".per_") ? "bytes" : NULL;
}

/* Makes a call; if it fails, writes the reason and returns false from the function. */
#define TRY_STEP(p, member, params, why)                                                           \
    do {                                                                                           \
        cp_result result_ = cp_pm.member(params);                                                  \
        if (result_ != CP_SUCCESS) {                                                               \
            cp_pm_explain(#member, result_, (p)->device, why);                                     \
            return false;                                                                          \
        }                                                                                          \
    } while (0)

static bool fail_no_memory(char why[CP_TEXT_BYTES])
{
    snprintf(why, CP_TEXT_BYTES, "out of memory: PM sampling");
    return false;
}

/* ---- requested metrics ----------------------------------------------------------------------- */

/* True if the metric is in the list already. */
static bool is_listed_metric(const cp_pm_setup *p, const char *name)
{
    for (uint32_t i = 0; i < p->count; i++) {
        if (strcmp(p->names[i], name) == 0)
            return true;
    }
    return false;
}

/* Splits a list at commas and blanks and removes duplicates: "a, b,,a" is a and b. */
static bool split_metric_names(cp_pm_setup *p, const char *text, char why[CP_TEXT_BYTES])
{
    char *rest = NULL;
    snprintf(p->text, sizeof p->text, "%s", text);
    for (char *s = strtok_r(p->text, ", \t\n", &rest); s; s = strtok_r(NULL, ", \t\n", &rest)) {
        if (is_listed_metric(p, s))
            continue;
        if (p->count == CP_COUNT(p->names)) {
            snprintf(why, CP_TEXT_BYTES, "PM sampling: too many metrics; use at most %zu",
                     (size_t)p->count);
            return false;
        }
        p->names[p->count++] = s;
    }
    if (!p->count)
        snprintf(why, CP_TEXT_BYTES, "PM sampling: cuda.pm_metrics names no metric");
    return p->count > 0;
}

/* Checks that the device exists and supports PM sampling. */
static bool check_pm_device(cp_pm_setup *p, char why[CP_TEXT_BYTES])
{
    const cp_device *d = cp_device_of((uint32_t)p->device);
    if (!d) {
        snprintf(why, CP_TEXT_BYTES,
                 "PM sampling: CUDA has no device %d, or was not started; see cuda.pm_device",
                 p->device);
        return false;
    }
    int version = d->major * 10 + d->minor;
    if (version < 75) {
        snprintf(why, CP_TEXT_BYTES,
                 "PM sampling: GPU %d is too old (compute capability %d.%d, 7.5 is needed)",
                 p->device, d->major, d->minor);
        return false;
    }
    p->by_cycles = version < 86;
    return true;
}

/* ---- CUPTI's functions ----------------------------------------------------------------------- */

/* The functions of CP_PM_MAP by symbol, with their places in cp_pm. */
static const struct {
    const char *name;
    size_t offset;
    bool needed;
} pm_symbols[] = {
#define CP_X(member, symbol, type, last, needed)                                                   \
    {#symbol, offsetof(cp_pm_api, member), (needed) != 0},
    CP_PM_MAP(CP_X)
#undef CP_X
};

/* The very library that libs.c has opened. */
static void *find_cupti_library(void)
{
    Dl_info info;
    void *address = NULL;
    memcpy(&address, &cp_cupti.get_version, sizeof address);
    if (!address || !dladdr(address, &info) || !info.dli_fname)
        return NULL;
    return dlopen(info.dli_fname, RTLD_NOW | RTLD_LOCAL | RTLD_NOLOAD);
}

/* Looks up CUPTI's functions for PM sampling, which versions before CUDA 12.6 lack. */
static bool find_pm_functions(char why[CP_TEXT_BYTES])
{
    void *library = find_cupti_library();
    const char *missing = NULL;
    for (size_t i = 0; i < CP_COUNT(pm_symbols) && !missing; i++) {
        void *address = library ? dlsym(library, pm_symbols[i].name) : NULL;
        memcpy((char *)&cp_pm + pm_symbols[i].offset, &address, sizeof address);
        if (!address && pm_symbols[i].needed)
            missing = pm_symbols[i].name;
    }
    if (library)
        (void)dlclose(library); /* libs.c keeps it */
    if (missing)
        snprintf(why, CP_TEXT_BYTES,
                 "PM sampling needs CUPTI of CUDA 12.6 or later: the one found (API %u) has no %s",
                 (unsigned)cp_cupti_version(), missing);
    return !missing;
}

/* ---- steps ----------------------------------------------------------------------------------- */

/* Gets the image of available counters, which depends on the GPU. */
static bool query_availability(cp_pm_setup *p, char why[CP_TEXT_BYTES])
{
    cp_pm_availability ask = CP_PM_PARAMS(cp_pm_availability, image, .device = (size_t)p->device);
    TRY_STEP(p, availability, &ask, why);
    p->availability = calloc(1, ask.image_size ? ask.image_size : 1);
    if (!p->availability)
        return fail_no_memory(why);
    ask.image = p->availability;
    TRY_STEP(p, availability, &ask, why);
    return true;
}

/* Initialises the profiler and its host part for the GPU's chip. */
static bool initialize_host(cp_pm_setup *p, char why[CP_TEXT_BYTES])
{
    cp_pm_initialize initialize = CP_PM_PARAMS(cp_pm_initialize, reserved, .reserved = NULL);
    cp_pm_chip_name chip = CP_PM_PARAMS(cp_pm_chip_name, name, .device = (size_t)p->device);
    TRY_STEP(p, initialize, &initialize, why);
    TRY_STEP(p, chip_name, &chip, why);
    if (!query_availability(p, why))
        return false;
    cp_pm_host_initialize host =
        CP_PM_PARAMS(cp_pm_host_initialize, host, .profiler_type = CP_PROFILER_PM_SAMPLING,
                     .chip_name = chip.name, .availability = p->availability);
    TRY_STEP(p, host_initialize, &host, why);
    p->host = host.host;
    return true;
}

/* The first metric that CUPTI does not know; NULL: it cannot be found out. */
static const char *find_unknown_metric(const cp_pm_setup *p)
{
    for (uint32_t i = 0; i < p->count && cp_pm.metric; i++) {
        cp_pm_metric metric =
            CP_PM_PARAMS(cp_pm_metric, type, .host = p->host, .name = p->names[i]);
        if (cp_pm.metric(&metric) != CP_SUCCESS)
            return p->names[i];
    }
    return NULL;
}

/* Adds the metrics, or names the first unknown one. */
static bool add_pm_metrics(cp_pm_setup *p, char why[CP_TEXT_BYTES])
{
    cp_pm_add_metrics add = CP_PM_PARAMS(cp_pm_add_metrics, count, .host = p->host,
                                         .names = p->names, .count = p->count);
    cp_result result = cp_pm.add_metrics(&add);
    if (result == CP_SUCCESS)
        return true;
    const char *unknown = find_unknown_metric(p);
    if (result == CP_ERROR_INVALID_METRIC_NAME || unknown)
        snprintf(why, CP_TEXT_BYTES,
                 "PM sampling: GPU %d has no metric '%.160s'; CUPTI's manual and ncu "
                 "--query-metrics list them",
                 p->device, unknown ? unknown : p->names[0]);
    else
        cp_pm_explain("add_metrics", result, p->device, why);
    return false;
}

/* Creates the configuration image. Sampling allows only metrics that are counted in one pass. */
static bool create_config(cp_pm_setup *p, char why[CP_TEXT_BYTES])
{
    cp_pm_config_size size = CP_PM_PARAMS(cp_pm_config_size, size, .host = p->host);
    TRY_STEP(p, config_size, &size, why);
    p->config_size = size.size;
    p->config = calloc(1, size.size ? size.size : 1);
    if (!p->config)
        return fail_no_memory(why);
    cp_pm_config config = CP_PM_PARAMS(cp_pm_config, image, .host = p->host, .size = p->config_size,
                                       .image = p->config);
    TRY_STEP(p, config, &config, why);
    cp_pm_passes passes =
        CP_PM_PARAMS(cp_pm_passes, passes, .config_size = p->config_size, .config = p->config);
    TRY_STEP(p, passes, &passes, why);
    if (passes.passes <= 1)
        return true;
    snprintf(why, CP_TEXT_BYTES,
             "PM sampling: GPU %d cannot count these metrics at the same time (%zu passes, 1 is "
             "possible); choose fewer",
             p->device, passes.passes);
    return false;
}

/* Enables and configures the sampler. Older GPUs can only count intervals in cycles; their system
 * clock is assumed to run at 1 GHz. */
static bool configure_sampler(cp_pm_setup *p, char why[CP_TEXT_BYTES])
{
    const cp_device *d = cp_device_of((uint32_t)p->device);
    cp_pm_enable enable = CP_PM_PARAMS(cp_pm_enable, sampler, .device = (size_t)p->device);
    TRY_STEP(p, enable, &enable, why);
    p->sampler = enable.sampler;
    cp_pm_configure configure =
        CP_PM_PARAMS(cp_pm_configure, append, .sampler = p->sampler, .config_size = p->config_size,
                     .config = p->config, .buffer_size = CP_PM_BUFFER_BYTES,
                     .interval = (uint64_t)p->interval_us * 1000,
                     .trigger = p->by_cycles ? CP_PM_TRIGGER_SYSTEM_CLOCK : CP_PM_TRIGGER_TIME,
                     .append = d && d->major >= 8 ? CP_PM_KEEP_LATEST : CP_PM_KEEP_OLDEST);
    TRY_STEP(p, configure, &configure, why);
    return true;
}

/* Allocates the image that samples are decoded into. */
static bool create_image(cp_pm_setup *p, char why[CP_TEXT_BYTES])
{
    cp_pm_image_size size =
        CP_PM_PARAMS(cp_pm_image_size, size, .sampler = p->sampler, .names = p->names,
                     .count = p->count, .max_samples = CP_PM_SAMPLES);
    TRY_STEP(p, image_size, &size, why);
    p->image_size = size.size;
    p->image = calloc(1, size.size ? size.size : 1);
    if (!p->image)
        return fail_no_memory(why);
    cp_result result = cp_pm_clear(p);
    if (result != CP_SUCCESS)
        cp_pm_explain("image", result, p->device, why);
    return result == CP_SUCCESS;
}

cp_result cp_pm_clear(const cp_pm_setup *p)
{
    cp_pm_image image = CP_PM_PARAMS(cp_pm_image, image, .sampler = p->sampler,
                                     .size = p->image_size, .image = p->image);
    return cp_pm.image(&image);
}

/* ---- all of it ------------------------------------------------------------------------------- */

bool cp_pm_prepare(cp_pm_setup *p, const cp_options *options, char why[CP_TEXT_BYTES])
{
    memset(p, 0, sizeof *p);
    p->device = options->pm_device < 0 ? 0 : options->pm_device;
    p->interval_us = options->pm_interval_us ? options->pm_interval_us : 1000;
    if (split_metric_names(p, options->pm_metrics, why) && check_pm_device(p, why) &&
        find_pm_functions(why) && initialize_host(p, why) && add_pm_metrics(p, why) &&
        create_config(p, why) && configure_sampler(p, why) && create_image(p, why))
        return true;
    cp_pm_release(p);
    return false;
}

void cp_pm_release(cp_pm_setup *p)
{
    if (p->sampler)
        (void)cp_pm.disable(&CP_PM_PARAMS(cp_pm_plain, sampler, .sampler = p->sampler));
    if (p->host)
        (void)cp_pm.host_deinitialize(
            &CP_PM_PARAMS(cp_pm_host_deinitialize, host, .host = p->host));
    free(p->availability);
    free(p->config);
    free(p->image);
    memset(p, 0, sizeof *p);
}
