/* The sets of series that ROCm SMI measures, with the names that NVIDIA's GPUs have. Each function reads
 * one set; a series that fails does not affect the others. */
#include "smi.h"

/* Bit `series` if the call succeeded; else 0 and the reason in *problem. */
static uint32_t status_to_bit(rp_smi_status status, uint32_t series, rp_smi_status *problem)
{
    if (status == RP_SMI_SUCCESS)
        return 1u << series;
    *problem = status;
    return 0;
}

#define CALL_OR_LACK(member, ...) (rp_smi.member ? rp_smi.member(__VA_ARGS__) : RP_SMI_MISSING)

/* Microwatts of the moment where the GPU measures them, else of a mean. */
static rp_smi_status read_microwatts(uint32_t gpu, uint64_t *microwatts)
{
    rp_smi_status status = CALL_OR_LACK(socket_power, gpu, microwatts);
    return status == RP_SMI_SUCCESS ? status : CALL_OR_LACK(mean_power, gpu, 0, microwatts);
}

/* Each reader converts to the units of its set: microwatts to W, Hz to MHz, millidegrees to degrees. */
static uint32_t read_smi_power(uint32_t gpu, rp_smi_value *values, rp_smi_status *problem)
{
    uint64_t now = 0, limit = 0;
    uint32_t done = status_to_bit(read_microwatts(gpu, &now), 0, problem) |
                    status_to_bit(CALL_OR_LACK(power_cap, gpu, 0, &limit), 1, problem);
    values[0].d = (double)now / 1e6;
    values[1].d = (double)limit / 1e6;
    return done;
}

/* A counter and the energy of one count. */
static uint32_t read_smi_energy(uint32_t gpu, rp_smi_value *values, rp_smi_status *problem)
{
    uint64_t count = 0, time = 0;
    float microjoules = 0;
    uint32_t done =
        status_to_bit(CALL_OR_LACK(energy, gpu, &count, &microjoules, &time), 0, problem);
    values[0].d = (double)count * (double)microjoules / 1e6;
    return done;
}

/* The list of clocks has an index of the current one. */
static uint32_t read_smi_clocks(uint32_t gpu, rp_smi_value *values, rp_smi_status *problem)
{
    static const uint32_t kinds[] = {RP_SMI_CLOCK_SYSTEM, RP_SMI_CLOCK_MEMORY};
    uint32_t done = 0;
    for (uint32_t i = 0; i < CP_COUNT(kinds); i++) {
        rp_smi_frequencies f = {.count = 0};
        done |= status_to_bit(CALL_OR_LACK(clocks, gpu, kinds[i], &f), i, problem);
        values[i].u = f.current < CP_COUNT(f.frequency) ? f.frequency[f.current] / 1000000 : 0;
    }
    return done;
}

static uint32_t read_smi_use(uint32_t gpu, rp_smi_value *values, rp_smi_status *problem)
{
    uint32_t busy = 0, memory = 0;
    uint32_t done = status_to_bit(CALL_OR_LACK(busy, gpu, &busy), 0, problem) |
                    status_to_bit(CALL_OR_LACK(memory_busy, gpu, &memory), 1, problem);
    values[0].u = busy;
    values[1].u = memory;
    return done;
}

static uint32_t read_smi_memory(uint32_t gpu, rp_smi_value *values, rp_smi_status *problem)
{
    uint64_t used = 0, total = 0;
    uint32_t done =
        status_to_bit(CALL_OR_LACK(memory_used, gpu, RP_SMI_MEMORY_DEVICE, &used), 0, problem);
    if (done)
        done |= status_to_bit(CALL_OR_LACK(memory_total, gpu, RP_SMI_MEMORY_DEVICE, &total), 1, problem);
    values[0].u = used;
    values[1].u = total > used ? total - used : 0;
    return done;
}

static uint32_t read_smi_temperature(uint32_t gpu, rp_smi_value *values, rp_smi_status *problem)
{
    int64_t millidegrees = 0;
    uint32_t done = status_to_bit(
        CALL_OR_LACK(temperature, gpu, RP_SMI_JUNCTION, RP_SMI_TEMPERATURE_NOW, &millidegrees), 0,
        problem);
    values[0].u = millidegrees > 0 ? (uint64_t)millidegrees / 1000 : 0;
    return done;
}

/* What the bits mean differs between GPUs. */
static uint32_t read_smi_throttle(uint32_t gpu, rp_smi_value *values, rp_smi_status *problem)
{
    uint32_t bits = 0;
    uint32_t done = status_to_bit(CALL_OR_LACK(throttle, gpu, &bits), 0, problem);
    values[0].u = bits != 0;
    return done;
}

const rp_smi_set rp_smi_sets[RP_SMI_SETS] = {
    {"GPU energy", KINETO_PLUGIN_VALUE_DOUBLE, 1, {"energy"}, {"J"}, read_smi_energy},
    {"GPU power", KINETO_PLUGIN_VALUE_DOUBLE, 2, {"power", "power limit"}, {"W", "W"}, read_smi_power},
    {"GPU clocks",
     KINETO_PLUGIN_VALUE_UINT,
     2,
     {"SM clock", "memory clock"},
     {"MHz", "MHz"},
     read_smi_clocks},
    {"GPU utilization",
     KINETO_PLUGIN_VALUE_UINT,
     2,
     {"GPU busy", "memory busy"},
     {"%", "%"},
     read_smi_use},
    {"GPU memory",
     KINETO_PLUGIN_VALUE_UINT,
     2,
     {"memory used", "memory free"},
     {"bytes", "bytes"},
     read_smi_memory},
    {"GPU temperature", KINETO_PLUGIN_VALUE_UINT, 1, {"temperature"}, {"C"}, read_smi_temperature},
    {"GPU slowdown", KINETO_PLUGIN_VALUE_UINT, 1, {"slow"}, {NULL}, read_smi_throttle},
};
