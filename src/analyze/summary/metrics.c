/* PyTorch's names for the numbers of a group (key_averages), for all devices: "cuda_time" and
 * "xpu_time" are "device_time". */
#include "analyze/summary/summary.h"

static const struct {
    const char *name;
    ka_metric metric;
} metrics[] = {
    {"cpu_time", KA_METRIC_CPU_TIME},
    {"cpu_time_total", KA_METRIC_CPU_TIME_TOTAL},
    {"self_cpu_time_total", KA_METRIC_SELF_CPU_TIME_TOTAL},
    {"device_time", KA_METRIC_DEVICE_TIME},
    {"device_time_total", KA_METRIC_DEVICE_TIME_TOTAL},
    {"self_device_time_total", KA_METRIC_SELF_DEVICE_TIME_TOTAL},
    {"cpu_memory_usage", KA_METRIC_CPU_MEMORY},
    {"self_cpu_memory_usage", KA_METRIC_SELF_CPU_MEMORY},
    {"device_memory_usage", KA_METRIC_DEVICE_MEMORY},
    {"self_device_memory_usage", KA_METRIC_SELF_DEVICE_MEMORY},
    {"count", KA_METRIC_CALLS},
    {"flops", KA_METRIC_FLOPS},
};

/* The name with "device" in place of a vendor's name; false if it does not fit into `out`. */
static bool make_neutral_name(const char *text, char *out, size_t size)
{
    static const char *const vendors[] = {"cuda", "xpu", "privateuse1", "mtia", "hpu"};
    size_t used = 0;
    while (*text) {
        const char *put = NULL;
        for (size_t i = 0; i < KB_COUNT(vendors) && !put; i++)
            if (strncmp(text, vendors[i], strlen(vendors[i])) == 0) {
                put = "device";
                text += strlen(vendors[i]);
            }
        size_t length = put ? strlen(put) : 1;
        if (used + length >= size)
            return false;
        memcpy(out + used, put ? put : text, length);
        used += length;
        text += !put;
    }
    out[used] = '\0';
    return true;
}

const char *ka_metric_name(uint32_t index)
{
    return index < KB_COUNT(metrics) ? metrics[index].name : NULL;
}

kineto_status ka_metric_parse(const char *text, ka_metric *metric, kineto_error *err)
{
    char name[64];
    for (size_t i = 0; make_neutral_name(text, name, sizeof name) && i < KB_COUNT(metrics); i++)
        if (strcmp(name, metrics[i].name) == 0) {
            *metric = metrics[i].metric;
            return KINETO_OK;
        }
    return kb_fail(err, KINETO_E_ARGUMENT,
                   "unknown metric '%.80s'; use count, flops, [self_]cpu_time_total, "
                   "cpu_time, [self_]cpu_memory_usage, or these with the device's name for cpu",
                   text);
}

/* Microseconds per call; 0 without calls. */
static double divide_by_calls(int64_t ns, uint64_t count)
{
    return count ? (double)ns / 1e3 / (double)count : 0;
}

double ka_metric_value(const kineto_average *row, ka_metric metric)
{
    switch (metric) {
    case KA_METRIC_CPU_TIME:
        return divide_by_calls(row->cpu_time_total_ns, row->count);
    case KA_METRIC_CPU_TIME_TOTAL:
        return (double)row->cpu_time_total_ns / 1e3;
    case KA_METRIC_SELF_CPU_TIME_TOTAL:
        return (double)row->self_cpu_time_total_ns / 1e3;
    case KA_METRIC_DEVICE_TIME:
        return divide_by_calls(row->device_time_total_ns, row->count);
    case KA_METRIC_DEVICE_TIME_TOTAL:
        return (double)row->device_time_total_ns / 1e3;
    case KA_METRIC_SELF_DEVICE_TIME_TOTAL:
        return (double)row->self_device_time_total_ns / 1e3;
    case KA_METRIC_CPU_MEMORY:
        return (double)row->cpu_memory_usage;
    case KA_METRIC_SELF_CPU_MEMORY:
        return (double)row->self_cpu_memory_usage;
    case KA_METRIC_DEVICE_MEMORY:
        return (double)row->device_memory_usage;
    case KA_METRIC_SELF_DEVICE_MEMORY:
        return (double)row->self_device_memory_usage;
    case KA_METRIC_CALLS:
        return (double)row->count;
    case KA_METRIC_FLOPS:
        return (double)row->flops;
    case KA_METRIC_COUNT:
        break; /* not a metric */
    }
    return 0;
}

kineto_status kineto_averages_value(const kineto_averages *averages, uint32_t index,
                                    const char *attribute, double *value, kineto_error *err)
{
    ka_metric metric;
    if (!averages || !attribute || !value)
        return kb_fail_null(err, __func__, "averages, attribute, value",
                            averages, attribute, value);
    kineto_status status = ka_metric_parse(attribute, &metric, err);
    if (status)
        return status;
    if (index >= kineto_averages_count(averages))
        return kb_fail(err, KINETO_E_NOT_FOUND, "there are %u groups; %u is out of range",
                       kineto_averages_count(averages), index);
    kineto_average row;
    kineto_averages_get(averages, index, &row);
    *value = ka_metric_value(&row, metric);
    return KINETO_OK;
}
