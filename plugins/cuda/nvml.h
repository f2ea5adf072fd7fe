/* Power, energy, clocks and other sensors, read with NVML:
 *
 *   nvml_lib.c   opens the library; maps its GPUs to CUDA's
 *   nvml_read.c  the sets of series, and how each is read
 *   nvml.c       the session: a thread reads; samples go to the host in batches
 */
#ifndef CP_NVML_H
#define CP_NVML_H

#include "counters.h"
#include "nvml_api.h"

/* ---- nvml_lib.c ------------------------------------------------------------------------------ */
extern cp_nvml_api cp_nvml;

/** Open the library (once) and initialise it; each success needs a cp_nvml_close. */
bool cp_nvml_open(char why[CP_TEXT_BYTES]);
void cp_nvml_close(void);
/** Problem and advice for a result, as the end of a sentence; valid until the thread's next
 * call. */
const char *cp_nvml_problem(cp_nvml_result result);

typedef struct cp_nvml_gpu {
    cp_nvml_device handle;
    /* CUDA's number, or NVML's if CUDA's is unknown. */
    int32_t id;
    /* CUDA's device is a part of this GPU. */
    bool of_instance;
    bool is_nvml_number;
} cp_nvml_gpu;
/** The GPUs that the program can use, or all GPUs if CUDA is not available. False: CUDA has not
 * been initialised yet, try again later. */
bool cp_nvml_find(cp_nvml_gpu gpus[CP_MAX_DEVICES], uint32_t *count);

/* ---- nvml_read.c ----------------------------------------------------------------------------- */
#define CP_NVML_SETS       7
#define CP_NVML_MAX_SERIES 3

typedef union cp_nvml_value {
    double d;
    uint64_t u;
} cp_nvml_value;

/* Series that are read together and share one row of the trace. */
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
