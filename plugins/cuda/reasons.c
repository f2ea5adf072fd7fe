/* Why CUPTI refuses, in words that say what to do. */
#include "cuda.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Tools that use CUPTI in the process they look at, by a library that they bring along. */
static const struct {
    const char *library, *tool;
} tools[] = {
    {"libToolsInjection", "Nsight Systems"},
    {"libcuda-injection", "Nsight Compute"},
    {"libnvperf_grfx", "Nsight"},
    {"libdcgm", "DCGM"},
    {"libparcagpucupti", "Parca"},
    {"libscorep_adapter_cuda", "Score-P"},
    {"libtau", "TAU"},
    {"libhpcrun", "HPCToolkit"},
    {"libkineto.so", "libkineto"},
    {"libtorch_cuda.so", "PyTorch's profiler, if it is on"},
};

/* Another tool in this process that may hold CUPTI; "" if none is known. */
static const char *other_tool(void)
{
    char line[1024];
    const char *found = "";
    FILE *maps = fopen("/proc/self/maps", "re");
    while (maps && !*found && fgets(line, sizeof line, maps))
        for (size_t i = 0; i < CP_COUNT(tools) && !*found; i++)
            if (strstr(line, tools[i].library))
                found = tools[i].tool;
    if (maps)
        (void)fclose(maps);
    return found;
}

static void explain_taken(const char *doing, char why[CP_TEXT_BYTES])
{
    const char *tool = other_tool();
    snprintf(why, CP_TEXT_BYTES,
             "%s: another tool uses CUPTI in this program%s%s, and only one can: end it, or record "
             "without one of them",
             doing, *tool ? ", perhaps " : "", tool);
}

static const char *advice(cp_result result)
{
    switch (result) {
    case CP_ERROR_INSUFFICIENT_PRIVILEGES:
    case CP_ERROR_VIRTUALIZED_DEVICE_INSUFFICIENT_PRIVILEGES:
        return "the driver lets administrators only profile: run as root or with CAP_SYS_ADMIN, or "
               "have the option NVreg_RestrictProfilingToAdminUsers=0 set for the nvidia module";
    case CP_ERROR_VIRTUALIZED_DEVICE_NOT_SUPPORTED:
        return "this virtual GPU cannot be profiled: have profiling enabled for it in the "
               "hypervisor";
    case CP_ERROR_MIG_DEVICE_NOT_SUPPORTED:
        return "this part of a GPU (MIG) cannot be profiled like that";
    case CP_ERROR_CONFIDENTIAL_COMPUTING_NOT_SUPPORTED:
        return "GPUs in confidential computing mode cannot be profiled";
    case CP_ERROR_WSL_DEVICE_NOT_SUPPORTED:
        return "GPUs cannot be profiled here: enable that in the Windows driver";
    case CP_ERROR_OUT_OF_MEMORY:
        return "CUPTI has no memory";
    case CP_ERROR_HARDWARE_BUSY:
        return "another process profiles this GPU";
    case CP_ERROR_NOT_SUPPORTED:
        return "this CUPTI, driver or GPU does not support it";
    case CP_ERROR_NOT_INITIALIZED:
    case CP_ERROR_UNKNOWN:
        return "there is no NVIDIA driver that works, or it does not fit this CUPTI: see "
               "nvidia-smi";
    default:
        return NULL;
    }
}

void cp_explain(cp_result result, const char *doing, char why[CP_TEXT_BYTES])
{
    if (result == CP_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED ||
        result == CP_ERROR_NOT_COMPATIBLE || result == CP_ERROR_OLD_PROFILER_API_INITIALIZED) {
        explain_taken(doing, why);
        return;
    }
    const char *text = advice(result);
    if (text)
        snprintf(why, CP_TEXT_BYTES, "%s: %s (%s)", doing, text, cp_result_text(result));
    else
        snprintf(why, CP_TEXT_BYTES, "%s: %s", doing, cp_result_text(result));
}
