/* From the names of metrics to a sampler that is ready to start. Every step can be refused, and for
 * the user each refusal means something else. */
#include "pm.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

cp_pm_api cp_pm;

/* ---- sentences ------------------------------------------------------------------------------------ */

/* What means something of its own here; cp_explain knows the rest. */
static const struct {
    cp_result result;
    const char *text;
} refusals[] = {
    {CP_ERROR_INVALID_OPERATION,
     "another tool samples this GPU in this process: switch one of them off"},
    {CP_ERROR_HARDWARE_BUSY,
     "another profiler or monitor holds the GPU's counters: stop it (dcgmi profiling, Nsight)"},
    {CP_ERROR_OUT_OF_MEMORY, "CUPTI has no memory for it: use fewer metrics"},
    {CP_ERROR_NOT_SUPPORTED, "CUPTI cannot sample these metrics on this GPU: try fewer or others"},
    {CP_ERROR_INVALID_DEVICE, "there is no such device: see cuda.pm_device"},
    {CP_ERROR_INVALID_CHIP_NAME,
     "this CUPTI does not know the GPU's chip: use the CUPTI of a newer CUDA"},
    {CP_ERROR_CMP_DEVICE_NOT_SUPPORTED, "CUPTI cannot on a processor for mining"},
    {CP_ERROR_SLI_DEVICE_NOT_SUPPORTED, "CUPTI cannot on GPUs joined by SLI"},
};

void cp_pm_explain(const char *call, cp_result result, int32_t device, char why[CP_TEXT_BYTES])
{
    char doing[64];
    const char *text = NULL;
    for (size_t i = 0; i < CP_COUNT(refusals) && !text; i++) {
        if (refusals[i].result == result)
            text = refusals[i].text;
    }
    snprintf(doing, sizeof doing, "PM sampling of GPU %d (%s)", device, call);
    if (text)
        snprintf(why, CP_TEXT_BYTES, "%s: %s", doing, text);
    else
        cp_explain(result, doing, why);
}

const char *cp_pm_unit(const char *metric)
{
    bool bytes = strstr(metric, "bytes") != NULL;
    if (strstr(metric, ".pct"))
        return "%";
    if (strstr(metric, ".per_second"))
        return bytes ? "bytes/s" : strstr(metric, "cycles_elapsed") ? "Hz" : "1/s";
    return bytes && !strstr(metric, ".ratio") && !strstr(metric, ".per_") ? "bytes" : NULL;
}

/* Run a step; if it fails, say why and leave the function with false. */
#define STEP(p, member, params, why)                                                               \
    do {                                                                                           \
        cp_result result_ = cp_pm.member(params);                                                  \
        if (result_ != CP_SUCCESS) {                                                               \
            cp_pm_explain(#member, result_, (p)->device, why);                                     \
            return false;                                                                          \
        }                                                                                          \
    } while (0)

static bool out_of_memory(char why[CP_TEXT_BYTES])
{
    snprintf(why, CP_TEXT_BYTES, "PM sampling: no memory");
    return false;
}

/* ---- what is asked for ---------------------------------------------------------------------------- */

static bool listed(const cp_pm_setup *p, const char *name)
{
    for (uint32_t i = 0; i < p->count; i++) {
        if (strcmp(p->names[i], name) == 0)
            return true;
    }
    return false;
}

/* "a, b,,a" is a and b. */
static bool split_names(cp_pm_setup *p, const char *text, char why[CP_TEXT_BYTES])
{
    char *rest = NULL;
    snprintf(p->text, sizeof p->text, "%s", text);
    for (char *s = strtok_r(p->text, ", \t\n", &rest); s; s = strtok_r(NULL, ", \t\n", &rest)) {
        if (listed(p, s))
            continue;
        if (p->count == CP_COUNT(p->names)) {
            snprintf(why, CP_TEXT_BYTES, "PM sampling: %zu metrics are the most", (size_t)p->count);
            return false;
        }
        p->names[p->count++] = s;
    }
    if (!p->count)
        snprintf(why, CP_TEXT_BYTES, "PM sampling: cuda.pm_metrics names no metric");
    return p->count > 0;
}

static bool look_at_device(cp_pm_setup *p, char why[CP_TEXT_BYTES])
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

/* ---- CUPTI's functions ---------------------------------------------------------------------------- */

static const struct {
    const char *name;
    size_t offset;
    bool needed;
} symbols[] = {
#define CP_X(member, symbol, type, last, needed)                                                   \
    {#symbol, offsetof(cp_pm_api, member), (needed) != 0},
    CP_PM_MAP(CP_X)
#undef CP_X
};

/* The library that libs.c has opened, and no other of its kind. */
static void *cupti_library(void)
{
    Dl_info info;
    void *address = NULL;
    memcpy(&address, &cp_cupti.get_version, sizeof address);
    if (!address || !dladdr(address, &info) || !info.dli_fname)
        return NULL;
    return dlopen(info.dli_fname, RTLD_NOW | RTLD_LOCAL | RTLD_NOLOAD);
}

static bool find_functions(char why[CP_TEXT_BYTES])
{
    void *library = cupti_library();
    const char *missing = NULL;
    for (size_t i = 0; i < CP_COUNT(symbols) && !missing; i++) {
        void *address = library ? dlsym(library, symbols[i].name) : NULL;
        memcpy((char *)&cp_pm + symbols[i].offset, &address, sizeof address);
        if (!address && symbols[i].needed)
            missing = symbols[i].name;
    }
    if (library)
        (void)dlclose(library); /* libs.c keeps it */
    if (missing)
        snprintf(why, CP_TEXT_BYTES,
                 "PM sampling needs CUPTI of CUDA 12.6 or later: the one found (API %u) has no %s",
                 (unsigned)cp_cupti_version(), missing);
    return !missing;
}

/* ---- steps ---------------------------------------------------------------------------------------- */

static bool ask_availability(cp_pm_setup *p, char why[CP_TEXT_BYTES])
{
    cp_pm_availability ask = CP_PM_PARAMS(cp_pm_availability, image, .device = (size_t)p->device);
    STEP(p, availability, &ask, why);
    p->availability = calloc(1, ask.image_size ? ask.image_size : 1);
    if (!p->availability)
        return out_of_memory(why);
    ask.image = p->availability;
    STEP(p, availability, &ask, why);
    return true;
}

static bool begin_host(cp_pm_setup *p, char why[CP_TEXT_BYTES])
{
    cp_pm_initialize initialize = CP_PM_PARAMS(cp_pm_initialize, reserved, .reserved = NULL);
    cp_pm_chip_name chip = CP_PM_PARAMS(cp_pm_chip_name, name, .device = (size_t)p->device);
    STEP(p, initialize, &initialize, why);
    STEP(p, chip_name, &chip, why);
    if (!ask_availability(p, why))
        return false;
    cp_pm_host_initialize host =
        CP_PM_PARAMS(cp_pm_host_initialize, host, .profiler_type = CP_PROFILER_PM_SAMPLING,
                     .chip_name = chip.name, .availability = p->availability);
    STEP(p, host_initialize, &host, why);
    p->host = host.host;
    return true;
}

/* The first that CUPTI does not know; NULL: it does not say. */
static const char *unknown_metric(const cp_pm_setup *p)
{
    for (uint32_t i = 0; i < p->count && cp_pm.metric; i++) {
        cp_pm_metric metric =
            CP_PM_PARAMS(cp_pm_metric, type, .host = p->host, .name = p->names[i]);
        if (cp_pm.metric(&metric) != CP_SUCCESS)
            return p->names[i];
    }
    return NULL;
}

static bool add_metrics(cp_pm_setup *p, char why[CP_TEXT_BYTES])
{
    cp_pm_add_metrics add = CP_PM_PARAMS(cp_pm_add_metrics, count, .host = p->host,
                                         .names = p->names, .count = p->count);
    cp_result result = cp_pm.add_metrics(&add);
    if (result == CP_SUCCESS)
        return true;
    const char *unknown = unknown_metric(p);
    if (result == CP_ERROR_INVALID_METRIC_NAME || unknown)
        snprintf(why, CP_TEXT_BYTES,
                 "PM sampling: GPU %d has no metric '%.160s'; CUPTI's manual and ncu "
                 "--query-metrics list them",
                 p->device, unknown ? unknown : p->names[0]);
    else
        cp_pm_explain("add_metrics", result, p->device, why);
    return false;
}

static bool make_config(cp_pm_setup *p, char why[CP_TEXT_BYTES])
{
    cp_pm_config_size size = CP_PM_PARAMS(cp_pm_config_size, size, .host = p->host);
    STEP(p, config_size, &size, why);
    p->config_size = size.size;
    p->config = calloc(1, size.size ? size.size : 1);
    if (!p->config)
        return out_of_memory(why);
    cp_pm_config config = CP_PM_PARAMS(cp_pm_config, image, .host = p->host, .size = p->config_size,
                                       .image = p->config);
    STEP(p, config, &config, why);
    cp_pm_passes passes =
        CP_PM_PARAMS(cp_pm_passes, passes, .config_size = p->config_size, .config = p->config);
    STEP(p, passes, &passes, why);
    if (passes.passes <= 1)
        return true;
    snprintf(why, CP_TEXT_BYTES,
             "PM sampling: GPU %d cannot count these metrics at the same time (%zu passes, 1 is "
             "possible): choose fewer",
             p->device, passes.passes);
    return false;
}

/* Older GPUs know no other trigger than cycles; their system clock is taken for 1 GHz. */
static bool configure(cp_pm_setup *p, char why[CP_TEXT_BYTES])
{
    const cp_device *d = cp_device_of((uint32_t)p->device);
    cp_pm_enable enable = CP_PM_PARAMS(cp_pm_enable, sampler, .device = (size_t)p->device);
    STEP(p, enable, &enable, why);
    p->sampler = enable.sampler;
    cp_pm_configure configure =
        CP_PM_PARAMS(cp_pm_configure, append, .sampler = p->sampler, .config_size = p->config_size,
                     .config = p->config, .buffer_size = CP_PM_BUFFER_BYTES,
                     .interval = (uint64_t)p->interval_us * 1000,
                     .trigger = p->by_cycles ? CP_PM_TRIGGER_SYSTEM_CLOCK : CP_PM_TRIGGER_TIME,
                     .append = d && d->major >= 8 ? CP_PM_KEEP_LATEST : CP_PM_KEEP_OLDEST);
    STEP(p, configure, &configure, why);
    return true;
}

static bool make_image(cp_pm_setup *p, char why[CP_TEXT_BYTES])
{
    cp_pm_image_size size =
        CP_PM_PARAMS(cp_pm_image_size, size, .sampler = p->sampler, .names = p->names,
                     .count = p->count, .max_samples = CP_PM_SAMPLES);
    STEP(p, image_size, &size, why);
    p->image_size = size.size;
    p->image = calloc(1, size.size ? size.size : 1);
    if (!p->image)
        return out_of_memory(why);
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

/* ---- all of it ------------------------------------------------------------------------------------ */

bool cp_pm_prepare(cp_pm_setup *p, const cp_options *options, char why[CP_TEXT_BYTES])
{
    memset(p, 0, sizeof *p);
    p->device = options->pm_device < 0 ? 0 : options->pm_device;
    p->interval_us = options->pm_interval_us ? options->pm_interval_us : 1000;
    if (split_names(p, options->pm_metrics, why) && look_at_device(p, why) && find_functions(why) &&
        begin_host(p, why) && add_metrics(p, why) && make_config(p, why) && configure(p, why) &&
        make_image(p, why))
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
