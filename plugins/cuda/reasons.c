/* Explains errors of CUPTI to the user: what was refused, why, and what to do. NVIDIA's own texts
 * rarely say more than the name of the error. */
#include "cuda.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Tools that use CUPTI in the process that they observe, and a library by which they are
 * recognised. */
static const struct {
    const char *library, *tool;
} known_tools[] = {
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

/* A tool that is loaded in this process and may use CUPTI; "": none is known. */
static const char *find_other_tool(void)
{
    char line[1024];
    const char *found = "";
    FILE *maps = fopen("/proc/self/maps", "re");
    while (maps && !*found && fgets(line, sizeof line, maps))
        for (size_t i = 0; i < CP_COUNT(known_tools) && !*found; i++)
            if (strstr(line, known_tools[i].library))
                found = known_tools[i].tool;
    if (maps)
        (void)fclose(maps);
    return found;
}

static void explain_cupti_taken(const char *doing, char why[CP_TEXT_BYTES])
{
    const char *tool = find_other_tool();
    snprintf(why, CP_TEXT_BYTES,
             "%s: another tool uses CUPTI in this program%s%s, and only one can; end it, or record "
             "without one of them",
             doing, *tool ? ", perhaps " : "", tool);
}

/* What to do about an error; NULL: CUPTI's own text must suffice. */
static const char *get_advice(cp_result result)
{
    switch (result) {
    case CP_ERROR_INSUFFICIENT_PRIVILEGES:
    case CP_ERROR_VIRTUALIZED_DEVICE_INSUFFICIENT_PRIVILEGES:
        return "only administrators may profile; run as root or with CAP_SYS_ADMIN, or "
               "set the option NVreg_RestrictProfilingToAdminUsers=0 of the nvidia module";
    case CP_ERROR_VIRTUALIZED_DEVICE_NOT_SUPPORTED:
        return "this virtual GPU cannot be profiled; enable profiling for it in the "
               "hypervisor";
    case CP_ERROR_MIG_DEVICE_NOT_SUPPORTED:
        return "this GPU instance (MIG) does not support it";
    case CP_ERROR_CONFIDENTIAL_COMPUTING_NOT_SUPPORTED:
        return "GPUs in confidential computing mode cannot be profiled";
    case CP_ERROR_WSL_DEVICE_NOT_SUPPORTED:
        return "GPUs cannot be profiled here; enable profiling in the Windows driver";
    case CP_ERROR_OUT_OF_MEMORY:
        return "CUPTI is out of memory";
    case CP_ERROR_HARDWARE_BUSY:
        return "another process profiles this GPU";
    case CP_ERROR_NOT_SUPPORTED:
        return "this CUPTI, driver or GPU does not support it";
    case CP_ERROR_NOT_INITIALIZED:
    case CP_ERROR_UNKNOWN:
        return "no working NVIDIA driver, or one that does not fit this CUPTI; see "
               "nvidia-smi";
    default:
        return NULL;
    }
}

void cp_explain(cp_result result, const char *doing, char why[CP_TEXT_BYTES])
{
    if (result == CP_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED ||
        result == CP_ERROR_NOT_COMPATIBLE || result == CP_ERROR_OLD_PROFILER_API_INITIALIZED) {
        explain_cupti_taken(doing, why);
        return;
    }
    const char *text = get_advice(result);
    if (text)
        snprintf(why, CP_TEXT_BYTES, "%s: %s (%s)", doing, text, cp_result_text(result));
    else
        snprintf(why, CP_TEXT_BYTES, "%s: %s", doing, cp_result_text(result));
}
