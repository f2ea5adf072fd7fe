/* The user's options "xpu.name=value", separated by blanks: from the environment variable CKINETO_XPU
 * and then from the text for plug-ins, which overrides it. */
#include "xpu.h"

#include <stdlib.h>

#define MIN_BUFFER_BYTES ((uint64_t)4 << 10)
#define MAX_BUFFER_BYTES ((uint64_t)64 << 20)

static bool set_record_buffer(void *options, const char *value)
{
    uint64_t bytes;
    if (!cp_parse_number(value, MAX_BUFFER_BYTES, &bytes) || bytes < MIN_BUFFER_BYTES)
        return false;
    ((xp_options *)options)->buffer_bytes = (size_t)bytes;
    return true;
}

static bool set_buffer_bound(void *options, const char *value)
{
    uint64_t bytes;
    if (!cp_parse_number(value, UINT64_C(64) << 30, &bytes) || bytes < MIN_BUFFER_BYTES)
        return false;
    ((xp_options *)options)->bound_bytes = (size_t)bytes;
    return true;
}

static bool set_driver_calls(void *options, const char *value)
{
    return cp_parse_switch(value, &((xp_options *)options)->driver);
}

/* The calls that submit work, or all. */
static bool set_runtime_calls(void *options, const char *value)
{
    bool all = strcmp(value, "all") == 0;
    ((xp_options *)options)->all_runtime_calls = all;
    return all || strcmp(value, "work") == 0;
}

static bool set_launch_times(void *options, const char *value)
{
    return cp_parse_switch(value, &((xp_options *)options)->times);
}

static const cp_option xpu_options[] = {
    {"buffer_bytes", set_record_buffer, "a size from 4KiB to 64MiB"},
    {"max_bytes", set_buffer_bound, "a size from 4KiB to 64GiB"},
    {"driver", set_driver_calls, "on or off"},
    {"runtime", set_runtime_calls, "work or all"},
    {"times", set_launch_times, "on or off"},
};
static const cp_option_table xpu_table = {"xpu.", xpu_options, CP_COUNT(xpu_options)};

bool xp_options_read(const char *text, xp_options *out, char why[CP_TEXT_BYTES])
{
    *out = (xp_options){.buffer_bytes = (size_t)64 << 10, .bound_bytes = (size_t)64 << 20};
    const char *own = secure_getenv("CKINETO_XPU");
    return (!own || cp_parse_options(own, &xpu_table, out, why)) &&
           (!text || cp_parse_options(text, &xpu_table, out, why));
}
