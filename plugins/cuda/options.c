/* The user's options "cuda.name=value", separated by blanks: from the environment variable
 * CKINETO_CUDA and then from the text for plug-ins, which overrides it. */
#include "cuda.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MIN_BUFFER_BYTES ((size_t)8 << 20)

/* All buffers together; few small ones would make CUPTI drop records. */
static bool set_buffer_bytes(void *options, const char *value)
{
    cp_options *o = options;
    uint64_t bytes;
    if (!cp_parse_number(value, UINT64_C(64) << 30, &bytes) || bytes < MIN_BUFFER_BYTES)
        return false;
    o->buffer_bytes = (size_t)bytes;
    return true;
}

/* A CUDA graph is recorded node by node, or as one activity. */
static bool set_graph_mode(void *options, const char *value)
{
    cp_options *o = options;
    o->graph_nodes = strcmp(value, "node") == 0;
    return o->graph_nodes || strcmp(value, "graph") == 0;
}

/* A number from 0 to `most`. */
static bool set_limited_number(uint32_t *to, const char *value, uint64_t most)
{
    uint64_t n;
    if (!cp_parse_number(value, most, &n))
        return false;
    *to = (uint32_t)n;
    return true;
}

static bool set_nvml_interval(void *options, const char *value)
{
    cp_options *o = options;
    return set_limited_number(&o->nvml_interval_ms, value, 3600000);
}

/* At most a minute, and not 0: sampling is switched off by naming no metrics. */
static bool set_pm_interval(void *options, const char *value)
{
    cp_options *o = options;
    return set_limited_number(&o->pm_interval_us, value, 60000000) && o->pm_interval_us;
}

static bool set_pm_device(void *options, const char *value)
{
    cp_options *o = options;
    uint32_t n = 0;
    bool fine = set_limited_number(&n, value, CP_MAX_DEVICES - 1);
    o->pm_device = (int32_t)n;
    return fine;
}

static bool set_pm_metrics(void *options, const char *value)
{
    cp_options *o = options;
    int n = snprintf(o->pm_metrics, sizeof o->pm_metrics, "%s", value);
    return n > 0 && (size_t)n < sizeof o->pm_metrics;
}

static bool set_per_thread_buffers(void *options, const char *v)
{
    cp_options *o = options;
    return cp_parse_switch(v, &o->per_thread_buffers);
}

static bool set_memory_records(void *options, const char *v)
{
    cp_options *o = options;
    return cp_parse_switch(v, &o->memory);
}

static bool set_show_waits(void *options, const char *v)
{
    cp_options *o = options;
    return cp_parse_switch(v, &o->show_waits);
}

static bool set_sync_at_stop(void *options, const char *v)
{
    cp_options *o = options;
    return cp_parse_switch(v, &o->sync_at_stop);
}

static bool set_teardown(void *options, const char *v)
{
    cp_options *o = options;
    return cp_parse_switch(v, &o->teardown);
}

static const cp_option cuda_options[] = {
    {"buffer_bytes", set_buffer_bytes, "a size from 8MiB to 64GiB"},
    {"graph", set_graph_mode, "node or graph"},
    {"per_thread_buffers", set_per_thread_buffers, "on or off"},
    {"memory", set_memory_records, "on or off"},
    {"waits", set_show_waits, "on or off"},
    {"sync", set_sync_at_stop, "on or off"},
    {"teardown", set_teardown, "on or off"},
    {"nvml_ms", set_nvml_interval, "milliseconds, 0: none"},
    {"pm_metrics", set_pm_metrics, "names of metrics, separated by commas"},
    {"pm_device", set_pm_device, "the number of a GPU"},
    {"pm_interval_us", set_pm_interval, "microseconds, 1 to 60000000"},
};
static const cp_option_table options_table = {"cuda.", cuda_options, CP_COUNT(cuda_options)};

/* Sets the defaults, then the environment's options, then the host's. */
bool cp_options_read(const char *text, cp_options *out, char why[CP_TEXT_BYTES])
{
    *out = (cp_options){.buffer_bytes = (size_t)64 << 20,
                        .per_thread_buffers = true,
                        .graph_nodes = true,
                        .show_waits = true,
                        .sync_at_stop = true,
                        .pm_interval_us = 1000};
    const char *own = secure_getenv("CKINETO_CUDA");
    return (!own || cp_parse_options(own, &options_table, out, why)) &&
           (!text || cp_parse_options(text, &options_table, out, why));
}
