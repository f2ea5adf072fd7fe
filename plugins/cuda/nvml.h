/* Power, energy, clocks and such through NVML:
 *
 *   nvml_lib.c   opens the library; which of its GPUs is which of CUDA's
 *   nvml_read.c  what can be measured: sets of series, and one reading of each
 *   nvml.c       the session: a thread reads, samples go to the host in batches
 */
#ifndef CP_NVML_H
#define CP_NVML_H

#include "counters.h"
#include "nvml_api.h"

/* ---- nvml_lib.c ---------------------------------------------------------------------------------- */
extern cp_nvml_api cp_nvml;

/** Open the library (once) and begin to use it; each success needs a cp_nvml_close. */
bool cp_nvml_open(char why[CP_TEXT_BYTES]);
void cp_nvml_close(void);
/** What went wrong and what to do, as the end of a sentence; stays valid. */
const char *cp_nvml_problem(cp_nvml_result result);

typedef struct cp_nvml_gpu {
    cp_nvml_device handle;
    int32_t id;       /* CUDA's number, or NVML's where CUDA does not tell */
    bool of_instance; /* CUDA's device is a part of this GPU */
    bool is_nvml_number;
} cp_nvml_gpu;
/** The GPUs that the program can use, or all, if there is no CUDA to ask. False: CUDA has not been
 *  started yet, ask again later. */
bool cp_nvml_find(cp_nvml_gpu gpus[CP_MAX_DEVICES], uint32_t *count);

/* ---- nvml_read.c --------------------------------------------------------------------------------- */
#define CP_NVML_SETS       7
#define CP_NVML_MAX_SERIES 3

typedef union cp_nvml_value {
    double d;
    uint64_t u;
} cp_nvml_value;

/* Series that stand in one row of the trace, and are read together. */
typedef struct cp_nvml_set {
    const char *name;
    int32_t value_type; /* KINETO_PLUGIN_VALUE_… */
    uint32_t series_count;
    const char *series[CP_NVML_MAX_SERIES], *units[CP_NVML_MAX_SERIES];
    /** Bit per series that was read; `problem` is set if one was not. */
    uint32_t (*read)(cp_nvml_device device, cp_nvml_value *values, cp_nvml_result *problem);
} cp_nvml_set;
extern const cp_nvml_set cp_nvml_sets[CP_NVML_SETS];

#endif
