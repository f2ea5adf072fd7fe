/* Power, energy, clocks and other sensors, read with ROCm SMI (librocm_smi64):
 *
 *   smi_lib.c   opens the library; maps its GPUs to HIP's
 *   smi_read.c  the sets of series, and how each is read
 *   smi.c       the session: a thread reads; samples go to the host in batches
 */
#ifndef RP_SMI_H
#define RP_SMI_H

#include "rocm.h"

typedef int rp_smi_status;
enum {
    RP_SMI_SUCCESS = 0,
    RP_SMI_NOT_SUPPORTED = 2,
    RP_SMI_FILE_ERROR = 3,
    RP_SMI_PERMISSION = 4,
    RP_SMI_MISSING = -1 /* ours: this version has no such function */
};
enum { RP_SMI_CLOCK_SYSTEM = 0, RP_SMI_CLOCK_MEMORY = 4 };
enum { RP_SMI_MEMORY_DEVICE = 0 };
enum { RP_SMI_JUNCTION = 1, RP_SMI_TEMPERATURE_NOW = 0 };

/* Clocks of a kind; the current one is frequency[current]. Since ROCm 5.5. */
typedef struct rp_smi_frequencies {
    bool has_deep_sleep;
    uint32_t count, current;
    uint64_t frequency[33];
} rp_smi_frequencies;
RP_ASSERT_AT(rp_smi_frequencies, count, 4);
RP_ASSERT_AT(rp_smi_frequencies, current, 8);
RP_ASSERT_AT(rp_smi_frequencies, frequency, 16);

/* X(member, function without "rsmi_", parameters, 1 if it is needed) */
#define RP_SMI_MAP(X)                                                                              \
    X(init, init, (uint64_t), 1)                                                                   \
    X(shut_down, shut_down, (void), 1)                                                             \
    X(device_count, num_monitor_devices, (uint32_t *), 1)                                          \
    X(pci_place, dev_pci_id_get, (uint32_t, uint64_t *), 1)                                        \
    X(socket_power, dev_current_socket_power_get, (uint32_t, uint64_t *), 0)                       \
    X(mean_power, dev_power_ave_get, (uint32_t, uint32_t, uint64_t *), 0)                          \
    X(power_cap, dev_power_cap_get, (uint32_t, uint32_t, uint64_t *), 0)                           \
    X(energy, dev_energy_count_get, (uint32_t, uint64_t *, float *, uint64_t *), 0)                \
    X(clocks, dev_gpu_clk_freq_get, (uint32_t, uint32_t, rp_smi_frequencies *), 0)                 \
    X(busy, dev_busy_percent_get, (uint32_t, uint32_t *), 0)                                       \
    X(memory_busy, dev_memory_busy_percent_get, (uint32_t, uint32_t *), 0)                         \
    X(memory_used, dev_memory_usage_get, (uint32_t, uint32_t, uint64_t *), 0)                      \
    X(memory_total, dev_memory_total_get, (uint32_t, uint32_t, uint64_t *), 0)                     \
    X(temperature, dev_temp_metric_get, (uint32_t, uint32_t, uint32_t, int64_t *), 0)              \
    X(throttle, dev_metrics_throttle_status_get, (uint32_t, uint32_t *), 0)

typedef struct rp_smi_api {
#define RP_X(member, function, parameters, needed) rp_smi_status(*member) parameters;
    RP_SMI_MAP(RP_X)
#undef RP_X
} rp_smi_api;
extern rp_smi_api rp_smi;

/** Open the library (once) and initialise it; each success needs an rp_smi_close. */
bool rp_smi_open(char why[CP_TEXT_BYTES]);
void rp_smi_close(void);
/** Problem and advice for a status, as the end of a sentence; valid until the thread's next call. */
const char *rp_smi_problem(rp_smi_status status);
/** The library's number of a GPU of the program; -1: it does not have it. */
int64_t rp_smi_find(const rp_device *device);

#define RP_SMI_SETS       7
#define RP_SMI_MAX_SERIES 2
typedef union rp_smi_value {
    double d;
    uint64_t u;
} rp_smi_value;
/* Series that are read together and share one row of the trace. */
typedef struct rp_smi_set {
    const char *name;
    int32_t value_type; /* KINETO_PLUGIN_VALUE_… */
    uint32_t series_count;
    const char *series[RP_SMI_MAX_SERIES], *units[RP_SMI_MAX_SERIES];
    /** Bit per series that was read; `problem` is set if one was not. */
    uint32_t (*read)(uint32_t gpu, rp_smi_value *values, rp_smi_status *problem);
} rp_smi_set;
extern const rp_smi_set rp_smi_sets[RP_SMI_SETS];

#endif
