/* Entry points of the layer: the OpenCL loader calls these inside the program's first OpenCL call.
 */
#include "opencl.h"

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

KINETO_API CL_API_ENTRY cl_int CL_API_CALL clInitLayer(cl_uint num_entries,
                                                       const cl_icd_dispatch *target_dispatch,
                                                       cl_uint *num_entries_ret,
                                                       const cl_icd_dispatch **layer_dispatch_ret)
{
    static bool once;
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
    if (!once) {
        once = true;
        (void)pthread_atfork(NULL, NULL, after_fork);
        /* Not a destructor: those run when the drivers' own may already have run. */
        (void)atexit(co_profiler_at_exit);
        co_profiler_register();
    }
    return CL_SUCCESS;
}
