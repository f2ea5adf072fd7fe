/* Entry points of the layer: the OpenCL loader calls these inside the program's first OpenCL call.
 */
#include "opencl.h"

#include <limits.h>
#include <link.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

cl_icd_dispatch co_next;

static cl_icd_dispatch layer_table;

/* In the child the threads are gone, and with them who would have finished our work. */
static void after_fork(void)
{
    co_profiler_after_fork();
    co_devices_after_fork();
    co_queues_after_fork();
    co_commands_after_fork();
}

static cl_int answer(const void *value, size_t size, size_t room, void *out, size_t *size_ret)
{
    if (out && room < size)
        return CL_INVALID_VALUE;
    if (out)
        memcpy(out, value, size);
    if (size_ret)
        *size_ret = size;
    return CL_SUCCESS;
}

KINETO_API CL_API_ENTRY cl_int CL_API_CALL clGetLayerInfo(cl_layer_info param_name,
                                                          size_t param_value_size,
                                                          void *param_value,
                                                          size_t *param_value_size_ret)
{
    static const char name[] = "ckineto";
    const cl_layer_api_version version = CL_LAYER_API_VERSION_100;

    switch (param_name) {
    case CL_LAYER_API_VERSION:
        return answer(&version, sizeof version, param_value_size, param_value,
                      param_value_size_ret);
    case CL_LAYER_NAME:
        return answer(name, sizeof name, param_value_size, param_value, param_value_size_ret);
    default:
        return CL_INVALID_VALUE;
    }
}

/* Calls of the program go through our table from here on. A loader may close itself and start the
 * layer again. */
static void start_layer(void)
{
    if (!co_profiler_begin())
        return;
    (void)pthread_atfork(NULL, NULL, after_fork);
    /* Not a destructor: those run when the drivers' own may already have run. */
    (void)atexit(co_profiler_at_exit);
    co_profiler_register();
}

KINETO_API CL_API_ENTRY cl_int CL_API_CALL clInitLayer(cl_uint num_entries,
                                                       const cl_icd_dispatch *target_dispatch,
                                                       cl_uint *num_entries_ret,
                                                       const cl_icd_dispatch **layer_dispatch_ret)
{
    const size_t ours = sizeof(cl_icd_dispatch) / sizeof(void *);
    size_t entries = num_entries < ours ? num_entries : ours;

    if (!target_dispatch || !num_entries_ret || !layer_dispatch_ret)
        return CL_INVALID_VALUE;
    /* A loader older than our headers has a shorter table: what it lacks stays NULL, and is not
     * wrapped. */
    memset(&co_next, 0, sizeof co_next);
    memcpy(&co_next, target_dispatch, entries * sizeof(void *));
    layer_table = co_next;
    co_calls_install(&layer_table);
    co_queues_install(&layer_table);
    *num_entries_ret = (cl_uint)entries;
    *layer_dispatch_ret = &layer_table;
    start_layer();
    return CL_SUCCESS;
}

/* Khronos' loader since v2026.05.29 looks up these two, which headers of OpenCL 3.0 do not declare.
 * It has no property that concerns this layer. */
KINETO_API CL_API_ENTRY cl_int CL_API_CALL clInitLayerWithProperties(
    cl_uint num_entries, const cl_icd_dispatch *target_dispatch, cl_uint *num_entries_ret,
    const cl_icd_dispatch **layer_dispatch_ret, const cl_properties *properties);
KINETO_API CL_API_ENTRY cl_int CL_API_CALL clDeinitLayer(void);

CL_API_ENTRY cl_int CL_API_CALL clInitLayerWithProperties(
    cl_uint num_entries, const cl_icd_dispatch *target_dispatch, cl_uint *num_entries_ret,
    const cl_icd_dispatch **layer_dispatch_ret, const cl_properties *properties)
{
    (void)properties;
    return clInitLayer(num_entries, target_dispatch, num_entries_ret, layer_dispatch_ret);
}

/* The loader closes the drivers next: what has completed is delivered while they are still there. */
CL_API_ENTRY cl_int CL_API_CALL clDeinitLayer(void)
{
    co_profiler_at_exit();
    return CL_SUCCESS;
}

/* ---- a layer that was asked for and never started ------------------------------------------------ */

/** Has a loader started the layer in this process? For `ckineto doctor`. */
KINETO_API int ckineto_opencl_started(void);
int ckineto_opencl_started(void) { return co_profiler_has_begun(); }

static int find_loader(struct dl_phdr_info *info, size_t size, void *path)
{
    (void)size;
    if (!info->dlpi_name || !strstr(info->dlpi_name, "/libOpenCL.so"))
        return 0;
    snprintf(path, PATH_MAX, "%s", info->dlpi_name);
    return 1;
}

/* A loader that opens layers does so in the program's first call of OpenCL, and keeps only those that
 * have the entry points it wants: then nothing of OpenCL was recorded. */
__attribute__((destructor)) static void report_never_started(void)
{
    char path[PATH_MAX] = "the OpenCL loader", detail[PATH_MAX + 128];

    if (co_profiler_is_known())
        return;
    (void)dl_iterate_phdr(find_loader, path);
    snprintf(detail, sizeof detail,
             "%s opened ckineto's layer and did not start it: 'ckineto doctor' tries it", path);
    (void)kineto_ledger_add("OpenCL", "a layer that was asked for and never started", 1, true,
                            detail);
}
