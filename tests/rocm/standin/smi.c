/* The stand-in for librocm_smi64: two GPUs at the places that those of the fake SDK have.
 * CKINETO_SMI_STANDIN="fail=FUNCTION:STATUS missing=1 slowdown=1": as in standin.h. */
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define SMI(name) __attribute__((visibility("default"))) int rsmi_##name
static int scripted(const char *function)
{
    const char *at = getenv("CKINETO_SMI_STANDIN");
    size_t size = strlen(function);
    at = at ? strstr(at, "fail=") : NULL;
    if (!at || (strncmp(at + 5, "*", 1) != 0 && strncmp(at + 5, function, size) != 0))
        return 0;
    at = strchr(at, ':');
    return at ? (int)strtol(at + 1, NULL, 10) : 1;
}
#define FUNCTION(name, parameters, body)                                                           \
    SMI(name) parameters;                                                                          \
    SMI(name) parameters                                                                           \
    {                                                                                              \
        int status = scripted(#name);                                                              \
        if (status)                                                                                \
            return status;                                                                         \
        body;                                                                                      \
        return 0;                                                                                  \
    }

FUNCTION(init, (uint64_t flags), (void)flags)
FUNCTION(shut_down, (void), (void)0)
FUNCTION(num_monitor_devices, (uint32_t * n), *n = 2)
FUNCTION(dev_pci_id_get, (uint32_t i, uint64_t *id), *id = 0x100u * (3 - i) | UINT64_C(1) << 28)
FUNCTION(dev_current_socket_power_get, (uint32_t i, uint64_t *v), *v = 250000000u + i)
FUNCTION(dev_power_cap_get, (uint32_t i, uint32_t s, uint64_t *v), (void)i; (void)s; *v = 750000000)
FUNCTION(dev_energy_count_get, (uint32_t i, uint64_t *v, float *unit, uint64_t *t), *v = 1000 + i;
         *unit = 15.3f; *t = 5)
FUNCTION(dev_gpu_clk_freq_get, (uint32_t i, uint32_t kind, uint8_t *f), uint32_t current = 1;
         uint64_t hz = kind == 0 ? UINT64_C(2100000000) : 1300000000; (void)i; memset(f, 0, 280);
         memcpy(f + 8, &current, 4); memcpy(f + 16 + 8, &hz, 8))
FUNCTION(dev_busy_percent_get, (uint32_t i, uint32_t *v), (void)i; *v = 77)
FUNCTION(dev_memory_busy_percent_get, (uint32_t i, uint32_t *v), (void)i; *v = 33)
FUNCTION(dev_memory_usage_get, (uint32_t i, uint32_t k, uint64_t *v), (void)i; (void)k; *v = 1000)
FUNCTION(dev_memory_total_get, (uint32_t i, uint32_t k, uint64_t *v), (void)i; (void)k; *v = 5000)
FUNCTION(dev_temp_metric_get, (uint32_t i, uint32_t s, uint32_t m, int64_t *v), (void)i; (void)s; (void)m;
         *v = 56000)

/* Only with the word "slowdown": most GPUs do not tell. */
SMI(dev_metrics_throttle_status_get)(uint32_t i, uint32_t *v);
SMI(dev_metrics_throttle_status_get)(uint32_t i, uint32_t *v)
{
    const char *script = getenv("CKINETO_SMI_STANDIN");
    (void)i;
    *v = 0;
    return script && strstr(script, "slowdown") ? 0 : 2;
}
