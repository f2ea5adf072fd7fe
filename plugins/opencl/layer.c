/* Entry points of the layer: the OpenCL loader calls them during the program's first OpenCL call
 * (cl_loader_layers extension of Khronos). */
#include "opencl.h"

#include <limits.h>
#include <link.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

cl_icd_dispatch co_next;

static cl_icd_dispatch layer_table;

/* After a fork the child has none of the driver's threads: commands of the parent never finish
 * there. */
static void reset_layer_in_child(void)
{
    co_profiler_after_fork();
    co_devices_after_fork();
    co_queues_after_fork();
    co_commands_after_fork();
    co_extensions_after_fork();
}

/* Answers an information query in the way of OpenCL: value, size, or both. */
static cl_int answer_layer_query(const void *value, size_t size, size_t room, void *out,
                                 size_t *size_ret)
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
        return answer_layer_query(&version, sizeof version, param_value_size, param_value,
                                  param_value_size_ret);
    case CL_LAYER_NAME:
        return answer_layer_query(name, sizeof name, param_value_size, param_value,
                                  param_value_size_ret);
    default:
        return CL_INVALID_VALUE;
    }
}

/* From here on the program's calls go through our table. A loader may close itself and start the
 * layer again: that has no effect. */
static void start_opencl_layer(void)
{
    if (!co_profiler_begin())
        return;
    (void)pthread_atfork(NULL, NULL, reset_layer_in_child);
    /* atexit rather than a destructor: the drivers' destructors may run before ours. */
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
    /* A loader older than our headers has a shorter table: entries beyond it stay NULL and are not
     * wrapped. */
    memset(&co_next, 0, sizeof co_next);
    memcpy(&co_next, target_dispatch, entries * sizeof(void *));
    layer_table = co_next;
    co_calls_install(&layer_table);
    co_queues_install(&layer_table);
    co_extensions_install(&layer_table);
    *num_entries_ret = (cl_uint)entries;
    *layer_dispatch_ret = &layer_table;
    start_opencl_layer();
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

/* The loader closes the drivers next: completed commands are delivered while they are still
 * loaded. */
CL_API_ENTRY cl_int CL_API_CALL clDeinitLayer(void)
{
    co_profiler_at_exit();
    return CL_SUCCESS;
}

/* ---- a layer that was requested and never started -------------------------------------------- */

/** 1 if a loader has started the layer in this process. For `ckineto doctor`. */
KINETO_API int ckineto_opencl_started(void);
int ckineto_opencl_started(void) { return co_profiler_has_begun(); }

/* Callback of dl_iterate_phdr: stores the path of the OpenCL loader. */
static int find_loader_path(struct dl_phdr_info *info, size_t size, void *path)
{
    (void)size;
    if (!info->dlpi_name || !strstr(info->dlpi_name, "/libOpenCL.so"))
        return 0;
    snprintf(path, PATH_MAX, "%s", info->dlpi_name);
    return 1;
}

/* At unload: a loader opens layers in the program's first OpenCL call and drops those without the
 * entry points that it needs. Then no OpenCL call was recorded, which the ledger must show. */
__attribute__((destructor)) static void report_never_started(void)
{
    char path[PATH_MAX] = "the OpenCL loader", detail[PATH_MAX + 128];

    if (co_profiler_is_known())
        return;
    (void)dl_iterate_phdr(find_loader_path, path);
    snprintf(detail, sizeof detail,
             "%s opened ckineto's layer and did not start it; run 'ckineto doctor' to test it",
             path);
    (void)kineto_ledger_add("OpenCL", "a layer that was asked for and never started", 1, true,
                            detail);
}
