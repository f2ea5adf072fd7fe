/* The user's options "cuda.name=value", separated by blanks: from the environment variable
 * CKINETO_CUDA and then from the text for plug-ins, which overrides it. */
#include "cuda.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- values ---------------------------------------------------------------------------------- */

/* A number with an optional unit, up to `limit`. False: it is malformed or too large. */
static bool parse_option_number(const char *value, uint64_t limit, uint64_t *out)
{
    char *end;
    errno = 0;
    unsigned long long n = strtoull(value, &end, 10);
    if (end == value || *value == '-' || errno || n > limit)
        return false;
    static const struct {
        const char *name;
        unsigned shift;
    } units[] = {{"", 0}, {"KiB", 10}, {"MiB", 20}, {"GiB", 30}};
    for (size_t i = 0; i < CP_COUNT(units); i++)
        if (strcmp(end, units[i].name) == 0 && n <= limit >> units[i].shift) {
            *out = n << units[i].shift;
            return true;
        }
    return false;
}

/* "1", "on", "yes" or "0", "off", "no". False: another word. */
static bool parse_switch(const char *value, bool *out)
{
    bool on = strcmp(value, "1") == 0 || strcmp(value, "on") == 0 || strcmp(value, "yes") == 0;
    bool off = strcmp(value, "0") == 0 || strcmp(value, "off") == 0 || strcmp(value, "no") == 0;
    *out = on;
    return on || off;
}

#define MIN_BUFFER_BYTES ((size_t)8 << 20)

/* All buffers together; few small ones would make CUPTI drop records. */
static bool set_buffer_bytes(cp_options *o, const char *value)
{
    uint64_t bytes;
    if (!parse_option_number(value, UINT64_C(64) << 30, &bytes) || bytes < MIN_BUFFER_BYTES)
        return false;
    o->buffer_bytes = (size_t)bytes;
    return true;
}

/* A CUDA graph is recorded node by node, or as one activity. */
static bool set_graph_mode(cp_options *o, const char *value)
{
    o->graph_nodes = strcmp(value, "node") == 0;
    return o->graph_nodes || strcmp(value, "graph") == 0;
}

/* A number from 0 to `most`. */
static bool set_limited_number(uint32_t *to, const char *value, uint64_t most)
{
    uint64_t n;
    if (!parse_option_number(value, most, &n))
        return false;
    *to = (uint32_t)n;
    return true;
}

static bool set_nvml_interval(cp_options *o, const char *value)
{
    return set_limited_number(&o->nvml_interval_ms, value, 3600000);
}

/* At most a minute, and not 0: sampling is switched off by naming no metrics. */
static bool set_pm_interval(cp_options *o, const char *value)
{
    return set_limited_number(&o->pm_interval_us, value, 60000000) && o->pm_interval_us;
}

static bool set_pm_device(cp_options *o, const char *value)
{
    uint32_t n = 0;
    bool fine = set_limited_number(&n, value, CP_MAX_DEVICES - 1);
    o->pm_device = (int32_t)n;
    return fine;
}

static bool set_pm_metrics(cp_options *o, const char *value)
{
    int n = snprintf(o->pm_metrics, sizeof o->pm_metrics, "%s", value);
    return n > 0 && (size_t)n < sizeof o->pm_metrics;
}

static bool set_per_thread_buffers(cp_options *o, const char *v)
{
    return parse_switch(v, &o->per_thread_buffers);
}
static bool set_memory_records(cp_options *o, const char *v) { return parse_switch(v, &o->memory); }
static bool set_show_waits(cp_options *o, const char *v) { return parse_switch(v, &o->show_waits); }
static bool set_sync_at_stop(cp_options *o, const char *v)
{
    return parse_switch(v, &o->sync_at_stop);
}
static bool set_teardown(cp_options *o, const char *v) { return parse_switch(v, &o->teardown); }

/* The options by name; `wanted` completes the message about an invalid value. */
static const struct {
    const char *name;
    bool (*set)(cp_options *, const char *);
    const char *wanted;
} cuda_options[] = {
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

/* ---- reading --------------------------------------------------------------------------------- */

/* Sets one option. False: `why` has the valid names or values. */
static bool set_option(cp_options *o, const char *name, const char *value, char why[CP_TEXT_BYTES])
{
    for (size_t i = 0; i < CP_COUNT(cuda_options); i++) {
        if (strcmp(name, cuda_options[i].name) != 0)
            continue;
        if (cuda_options[i].set(o, value))
            return true;
        snprintf(why, CP_TEXT_BYTES, "cuda.%.40s=%.60s: invalid value; use %.160s", name, value,
                 cuda_options[i].wanted);
        return false;
    }
    size_t n = (size_t)snprintf(why, CP_TEXT_BYTES, "unknown option cuda.%.40s; use one of", name);
    for (size_t i = 0; i < CP_COUNT(cuda_options) && n < CP_TEXT_BYTES; i++)
        n += (size_t)snprintf(why + n, CP_TEXT_BYTES - n, "%s cuda.%s", i ? "," : "",
                              cuda_options[i].name);
    return false;
}

/* Parses a text for all plug-ins; words that do not begin with "cuda." are not ours. */
static bool parse_options_text(const char *text, cp_options *o, char why[CP_TEXT_BYTES])
{
    static const char prefix[] = "cuda.", blanks[] = " \t\r\n;";
    char word[640];
    for (const char *at = text + strspn(text, blanks); *at; at += strspn(at, blanks)) {
        size_t size = strcspn(at, blanks);
        bool ours = strncmp(at, prefix, sizeof prefix - 1) == 0;
        if (ours && size >= sizeof word) {
            snprintf(why, CP_TEXT_BYTES, "%.40s…: longer than %zu characters", at, sizeof word - 1);
            return false;
        }
        if (ours) {
            memcpy(word, at, size);
            word[size] = '\0';
            char *value = strchr(word, '=');
            if (value)
                *value++ = '\0';
            if (!set_option(o, word + sizeof prefix - 1, value ? value : "", why))
                return false;
        }
        at += size;
    }
    return true;
}

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
    return (!own || parse_options_text(own, out, why)) &&
           (!text || parse_options_text(text, out, why));
}
