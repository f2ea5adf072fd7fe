/* The user's options "rocm.name=value", separated by blanks: from the environment variable CKINETO_ROCM
 * and then from the text for plug-ins, which overrides it. What the SDK only accepts while it starts is
 * read from the variable alone. */
#include "rocm.h"

#include <stdio.h>
#include <stdlib.h>

#define MIN_BUFFER_BYTES ((size_t)64 << 10)
#define MAX_BUFFER_BYTES (UINT64_C(1) << 30)

static bool set_record_buffer(void *options, const char *value)
{
    rp_options *o = options;
    uint64_t bytes;
    if (!cp_parse_number(value, MAX_BUFFER_BYTES, &bytes) || bytes < MIN_BUFFER_BYTES)
        return false;
    o->buffer_bytes = (size_t)bytes;
    return true;
}

static bool set_when_full(void *options, const char *value)
{
    rp_options *o = options;
    o->discard = strcmp(value, "drop") == 0;
    return o->discard || strcmp(value, "wait") == 0;
}

static bool set_smi_interval(void *options, const char *value)
{
    rp_options *o = options;
    uint64_t n;
    if (!cp_parse_number(value, 3600000, &n))
        return false;
    o->smi_interval_ms = (uint32_t)n;
    return true;
}

/* Options that are on or off: X(function, member). */
#define SWITCH_MAP(X)                                                                              \
    X(set_with_others, with_others)                                                                \
    X(set_hsa_calls, hsa)                                                                          \
    X(set_allocations, memory)                                                                     \
    X(set_roctx_ranges, markers)                                                                   \
    X(set_device_wait, sync_at_stop)
#define DEFINE_SWITCH(function, member)                                                            \
    static bool function(void *options, const char *value)                                         \
    {                                                                                              \
        return cp_parse_switch(value, &((rp_options *)options)->member);                           \
    }
SWITCH_MAP(DEFINE_SWITCH)

static const cp_option rocm_options[] = {
    {"buffer_bytes", set_record_buffer, "a size from 64KiB to 1GiB"},
    {"full", set_when_full, "wait or drop"},
    {"others", set_with_others, "on or off"},
    {"hsa", set_hsa_calls, "on or off"},
    {"memory", set_allocations, "on or off"},
    {"roctx", set_roctx_ranges, "on or off"},
    {"sync", set_device_wait, "on or off"},
    {"smi_ms", set_smi_interval, "milliseconds, 0: none"},
};
static const cp_option_table rocm_table = {"rocm.", rocm_options, CP_COUNT(rocm_options)};

bool rp_options_read(const char *text, rp_options *out, char why[CP_TEXT_BYTES])
{
    *out = (rp_options){.buffer_bytes = (size_t)4 << 20, .markers = true, .sync_at_stop = true};
    const char *own = secure_getenv("CKINETO_ROCM");
    return (!own || cp_parse_options(own, &rocm_table, out, why)) &&
           (!text || cp_parse_options(text, &rocm_table, out, why));
}
