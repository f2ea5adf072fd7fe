/* Rows of memory: what they say, and what a recorded block stands for where only a sample was
 * recorded. docs/reference/memory.md has the formula. */
#include "analyze/summary/summary.h"

void kp_memory_args_read(const kineto_trace *t, kineto_row row, kp_memory_args *out)
{
    kineto_args_iterator it;
    kineto_arg arg;
    *out = (kp_memory_args){.device_index = -1};
    kineto_args_begin(t, row, &it);
    while (kineto_args_next(&it, &arg)) {
        bool is_large = arg.type == KINETO_ARG_UINT && arg.u > INT64_MAX;
        int64_t value = INT64_MAX;
        if (arg.type == KINETO_ARG_BOOL || (!is_large && !kt_arg_whole(&arg, &value)))
            continue;
        if (kb_string_equal(arg.key, kb_string("Addr"))) {
            out->address = is_large ? arg.u : (uint64_t)value;
        } else if (kb_string_equal(arg.key, kb_string("Bytes"))) {
            out->bytes = value;
            out->has_bytes = true;
        } else if (kb_string_equal(arg.key, kb_string("Device Type"))) {
            out->device_type = value;
        } else if (kb_string_equal(arg.key, kb_string("Device Id"))) {
            out->device_index = value;
        } else if (kb_string_equal(arg.key, kb_string("Total Allocated"))) {
            out->total_bytes = value;
            out->has_total = true;
        }
    }
}

uint64_t kp_memory_sampling(const kineto_trace *t)
{
    uint32_t count = kineto_trace_metadata_count(t);
    for (uint32_t i = 0; i < count; i++) {
        kineto_string key, value;
        char text[24];
        kineto_trace_metadata(t, i, &key, &value);
        if (!kb_string_equal(key, kb_string("ckineto_memory_sampling_bytes")) ||
            value.size >= sizeof text)
            continue;
        memcpy(text, value.data, value.size);
        text[value.size] = '\0';
        return strtoull(text, NULL, 10);
    }
    return 0;
}

/* 1 - exp(-x) for 0 <= x: of a small part of it by the series, then doubled as often as it was
 * halved. */
static double chance(double x)
{
    int halved = 0;
    if (x > 40)
        return 1;
    for (; x > 1.0 / 1024; x /= 2)
        halved++;
    double part = x * (1 - x / 2 * (1 - x / 3));
    for (; halved > 0; halved--)
        part = part * (2 - part); /* 1 - (1 - p)^2 */
    return part;
}

double kp_memory_weight(uint64_t sampling_bytes, uint64_t bytes)
{
    return sampling_bytes <= 1 || bytes == 0 ? 1
                                             : 1 / chance((double)bytes / (double)sampling_bytes);
}

int64_t kp_memory_scaled(uint64_t sampling_bytes, int64_t bytes)
{
    if (sampling_bytes <= 1 || bytes == 0)
        return bytes;
    uint64_t size = bytes < 0 ? 0 - (uint64_t)bytes : (uint64_t)bytes;
    double scaled = (double)size * kp_memory_weight(sampling_bytes, size);
    int64_t whole = scaled < 9e18 ? (int64_t)(scaled + 0.5) : INT64_MAX;
    return bytes < 0 ? -whole : whole;
}
