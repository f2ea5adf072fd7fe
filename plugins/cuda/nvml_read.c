/* The sets of series that NVML measures. Each function reads one set; a series that fails does not
 * affect the others. */
#include "nvml.h"

/* Bit `series` if the call succeeded; else 0 and the reason in *problem. */
static uint32_t result_to_bit(cp_nvml_result result, uint32_t series, cp_nvml_result *problem)
{
    if (result == CP_NVML_SUCCESS)
        return 1u << series;
    *problem = result;
    return 0;
}

/* Each reader returns a mask with bit i set if values[i] was read. *problem is the last failure,
 * which the caller reports once per set. NVML's units are converted to those in cp_nvml_sets: mW to
 * W, mJ to J. */

/* Calls a function of NVML, or fails if the driver's version does not have it. */
#define CALL_OR_MISSING(member, ...)                                                               \
    (cp_nvml.member ? cp_nvml.member(__VA_ARGS__) : CP_NVML_FUNCTION_NOT_FOUND)

static uint32_t read_power(cp_nvml_device device, cp_nvml_value *values, cp_nvml_result *problem)
{
    unsigned now = 0, limit = 0;
    uint32_t done = result_to_bit(CALL_OR_MISSING(power, device, &now), 0, problem) |
                    result_to_bit(CALL_OR_MISSING(power_limit, device, &limit), 1, problem);
    values[0].d = now / 1e3;
    values[1].d = limit / 1e3;
    return done;
}

static uint32_t read_energy(cp_nvml_device device, cp_nvml_value *values, cp_nvml_result *problem)
{
    unsigned long long millijoules = 0;
    uint32_t done = result_to_bit(CALL_OR_MISSING(energy, device, &millijoules), 0, problem);
    values[0].d = (double)millijoules / 1e3;
    return done;
}

static uint32_t read_clocks(cp_nvml_device device, cp_nvml_value *values, cp_nvml_result *problem)
{
    static const int clocks[] = {CP_NVML_CLOCK_SM, CP_NVML_CLOCK_MEMORY, CP_NVML_CLOCK_GRAPHICS};
    uint32_t done = 0;
    for (uint32_t i = 0; i < CP_COUNT(clocks); i++) {
        unsigned megahertz = 0;
        done |= result_to_bit(CALL_OR_MISSING(clock, device, clocks[i], &megahertz), i, problem);
        values[i].u = megahertz;
    }
    return done;
}

static uint32_t read_utilization(cp_nvml_device device, cp_nvml_value *values,
                                 cp_nvml_result *problem)
{
    cp_nvml_utilization now = {0, 0};
    uint32_t done = result_to_bit(CALL_OR_MISSING(utilization, device, &now), 0, problem);
    values[0].u = now.gpu;
    values[1].u = now.memory;
    return done | done << 1;
}

static uint32_t read_memory(cp_nvml_device device, cp_nvml_value *values, cp_nvml_result *problem)
{
    cp_nvml_memory now = {0, 0, 0};
    uint32_t done = result_to_bit(CALL_OR_MISSING(memory, device, &now), 0, problem);
    values[0].u = now.used;
    values[1].u = now.free;
    return done | done << 1;
}

static uint32_t read_temperature(cp_nvml_device device, cp_nvml_value *values,
                                 cp_nvml_result *problem)
{
    unsigned celsius = 0;
    uint32_t done = result_to_bit(
        CALL_OR_MISSING(temperature, device, CP_NVML_SENSOR_GPU, &celsius), 0, problem);
    values[0].u = celsius;
    return done;
}

/* Reasons for reduced clocks, as 0 or 1: the power limit, heat, and the board's protection. */
static uint32_t read_slowdown(cp_nvml_device device, cp_nvml_value *values, cp_nvml_result *problem)
{
    unsigned long long mask = 0;
    uint32_t done = result_to_bit(CALL_OR_MISSING(slow_reasons, device, &mask), 0, problem);
    values[0].u = (mask & CP_NVML_SLOW_POWER_CAP) != 0;
    values[1].u = (mask & (CP_NVML_SLOW_THERMAL | CP_NVML_SLOW_HARDWARE_THERMAL)) != 0;
    values[2].u = (mask & (CP_NVML_SLOW_HARDWARE | CP_NVML_SLOW_POWER_BRAKE)) != 0;
    return done | done << 1 | done << 2;
}

/* The most important first, because hosts limit the number of sets. */
const cp_nvml_set cp_nvml_sets[CP_NVML_SETS] = {
    {"GPU energy", KINETO_PLUGIN_VALUE_DOUBLE, 1, {"energy"}, {"J"}, read_energy},
    {"GPU power", KINETO_PLUGIN_VALUE_DOUBLE, 2, {"power", "power limit"}, {"W", "W"}, read_power},
    {"GPU clocks",
     KINETO_PLUGIN_VALUE_UINT,
     3,
     {"SM clock", "memory clock", "graphics clock"},
     {"MHz", "MHz", "MHz"},
     read_clocks},
    {"GPU utilization",
     KINETO_PLUGIN_VALUE_UINT,
     2,
     {"GPU busy", "memory busy"},
     {"%", "%"},
     read_utilization},
    {"GPU memory",
     KINETO_PLUGIN_VALUE_UINT,
     2,
     {"memory used", "memory free"},
     {"bytes", "bytes"},
     read_memory},
    {"GPU temperature", KINETO_PLUGIN_VALUE_UINT, 1, {"temperature"}, {"C"}, read_temperature},
    {"GPU slowdown",
     KINETO_PLUGIN_VALUE_UINT,
     3,
     {"slow for power", "slow for heat", "slow for hardware"},
     {NULL, NULL, NULL},
     read_slowdown},
};
