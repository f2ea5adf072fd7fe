/* An independent witness: a layer that only counts what a program enqueued successfully, and writes
 * the count to the file of COUNT_LAYER_OUT when the program ends. */
#define CL_TARGET_OPENCL_VERSION 300
#define CL_USE_DEPRECATED_OPENCL_1_1_APIS
#define CL_USE_DEPRECATED_OPENCL_1_2_APIS
#include <CL/cl_layer.h>

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static cl_icd_dispatch next, table;
static atomic_ulong kernels, copies, fills;
static pid_t owner;

static void write_counts(void)
{
    const char *path = getenv("COUNT_LAYER_OUT");
    FILE *file = path && getpid() == owner ? fopen(path, "w") : NULL;

    if (!file)
        return;
    fprintf(file, "kernels %lu\ncopies %lu\nfills %lu\n", atomic_load(&kernels),
            atomic_load(&copies), atomic_load(&fills));
    fclose(file);
}

static cl_int count(cl_int status, atomic_ulong *counter)
{
    if (status == CL_SUCCESS)
        atomic_fetch_add(counter, 1);
    return status;
}

#define WAITS cl_uint n, const cl_event *list, cl_event *event

static cl_int CL_API_CALL nd_range(cl_command_queue q, cl_kernel k, cl_uint d, const size_t *o,
                                   const size_t *g, const size_t *l, WAITS)
{
    return count(next.clEnqueueNDRangeKernel(q, k, d, o, g, l, n, list, event), &kernels);
}

static cl_int CL_API_CALL task(cl_command_queue q, cl_kernel k, WAITS)
{
    return count(next.clEnqueueTask(q, k, n, list, event), &kernels);
}

static cl_int CL_API_CALL read_buffer(cl_command_queue q, cl_mem m, cl_bool b, size_t o, size_t s,
                                      void *p, WAITS)
{
    return count(next.clEnqueueReadBuffer(q, m, b, o, s, p, n, list, event), &copies);
}

static cl_int CL_API_CALL write_buffer(cl_command_queue q, cl_mem m, cl_bool b, size_t o, size_t s,
                                       const void *p, WAITS)
{
    return count(next.clEnqueueWriteBuffer(q, m, b, o, s, p, n, list, event), &copies);
}

static cl_int CL_API_CALL fill_buffer(cl_command_queue q, cl_mem m, const void *p, size_t ps,
                                      size_t o, size_t s, WAITS)
{
    return count(next.clEnqueueFillBuffer(q, m, p, ps, o, s, n, list, event), &fills);
}

CL_API_ENTRY cl_int CL_API_CALL clGetLayerInfo(cl_layer_info what, size_t room, void *out,
                                               size_t *size)
{
    const cl_layer_api_version version = CL_LAYER_API_VERSION_100;

    if (what != CL_LAYER_API_VERSION || (out && room < sizeof version))
        return CL_INVALID_VALUE;
    if (out)
        memcpy(out, &version, sizeof version);
    if (size)
        *size = sizeof version;
    return CL_SUCCESS;
}

CL_API_ENTRY cl_int CL_API_CALL clInitLayer(cl_uint entries, const cl_icd_dispatch *target,
                                            cl_uint *entries_ret, const cl_icd_dispatch **table_ret)
{
    size_t n = sizeof next / sizeof(void *);

    n = entries < n ? entries : n;
    memcpy(&next, target, n * sizeof(void *));
    table = next;
    table.clEnqueueNDRangeKernel = nd_range;
    table.clEnqueueTask = task;
    table.clEnqueueReadBuffer = read_buffer;
    table.clEnqueueWriteBuffer = write_buffer;
    table.clEnqueueFillBuffer = fill_buffer;
    owner = getpid();
    atexit(write_counts);
    *entries_ret = (cl_uint)n;
    *table_ret = &table;
    return CL_SUCCESS;
}

/* Loaders of Khronos since v2026.05.29 start no layer without it. */
CL_API_ENTRY cl_int CL_API_CALL clInitLayerWithProperties(cl_uint entries,
                                                          const cl_icd_dispatch *target,
                                                          cl_uint *entries_ret,
                                                          const cl_icd_dispatch **table_ret,
                                                          const cl_properties *properties);

CL_API_ENTRY cl_int CL_API_CALL clInitLayerWithProperties(cl_uint entries,
                                                          const cl_icd_dispatch *target,
                                                          cl_uint *entries_ret,
                                                          const cl_icd_dispatch **table_ret,
                                                          const cl_properties *properties)
{
    (void)properties;
    return clInitLayer(entries, target, entries_ret, table_ret);
}
