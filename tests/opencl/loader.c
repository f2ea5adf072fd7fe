/* A stand-in for an OpenCL loader, over the scripted driver: it starts layers as Khronos' loader does
 * since v2026.05.29, or as FAKE_LOADER says:
 *
 *   (not set)  layers need clInitLayerWithProperties, which is called; clDeinitLayer at the end
 *   old        layers need clInitLayer, as in loaders before that
 *   next       layers need a function that no layer has: each is opened and closed again
 *   deaf       OPENCL_LAYERS is not read
 *
 * It has the calls that loader_client.c and `ckineto doctor` make. */
#include "fake_cl.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define EXPORT __attribute__((visibility("default")))

typedef cl_int(CL_API_CALL *init_layer)(cl_uint, const cl_icd_dispatch *, cl_uint *,
                                        const cl_icd_dispatch **, const void *);

#define MAX_LAYERS 8

static const cl_icd_dispatch *top;
static void *layers[MAX_LAYERS];
static int layer_count;

static const char *mode(void)
{
    const char *text = getenv("FAKE_LOADER");
    return text ? text : "";
}

static const char *init_name(void)
{
    if (strcmp(mode(), "old") == 0)
        return "clInitLayer";
    return strcmp(mode(), "next") == 0 ? "clInitLayerOfTheNextInterface"
                                       : "clInitLayerWithProperties";
}

static bool has_version_100(void *library)
{
    cl_uint version = 0;
    pfn_clGetLayerInfo info;
    void *symbol = dlsym(library, "clGetLayerInfo");

    memcpy(&info, &symbol, sizeof info);
    return symbol && info(CL_LAYER_API_VERSION, sizeof version, &version, NULL) == CL_SUCCESS &&
           version == 100;
}

static void start_layer(const char *path)
{
    const size_t entries = sizeof(cl_icd_dispatch) / sizeof(void *);
    static cl_icd_dispatch tables[MAX_LAYERS];
    const cl_icd_dispatch *table;
    cl_uint count = 0;
    init_layer init;
    void *library = dlopen(path, RTLD_NOW);
    void *symbol = library && has_version_100(library) ? dlsym(library, init_name()) : NULL;

    memcpy(&init, &symbol, sizeof init);
    if (!symbol || layer_count == MAX_LAYERS ||
        init((cl_uint)entries, top, &count, &table, NULL) != CL_SUCCESS) {
        fprintf(stderr, "loader: %s lacks %s\n", path, init_name());
        if (library)
            dlclose(library);
        return;
    }
    tables[layer_count] = *top;
    memcpy(&tables[layer_count], table, count * sizeof(void *));
    layers[layer_count] = library;
    top = &tables[layer_count++];
}

static void start_all(void)
{
    static bool once;
    char *list = getenv("OPENCL_LAYERS"), *copy, *at;

    if (once)
        return;
    once = true;
    fake_cl_reset(&(fake_cl_behaviour){.clock = 4 /* CLOCK_MONOTONIC_RAW */});
    top = fake_cl_table();
    copy = list && strcmp(mode(), "deaf") ? strdup(list) : NULL;
    for (char *path = copy ? strtok_r(copy, ":", &at) : NULL; path; path = strtok_r(NULL, ":", &at))
        start_layer(path);
    free(copy);
}

__attribute__((destructor)) static void stop_all(void)
{
    while (layer_count > 0) {
        void *library = layers[--layer_count], *symbol = dlsym(library, "clDeinitLayer");
        cl_int (*deinit)(void);

        memcpy(&deinit, &symbol, sizeof deinit);
        if (symbol)
            (void)deinit();
        dlclose(library);
    }
}

/* ---- the calls ------------------------------------------------------------------------------- */

EXPORT cl_int CL_API_CALL clGetPlatformIDs(cl_uint room, cl_platform_id *platforms, cl_uint *count)
{
    start_all();
    if (platforms && room)
        platforms[0] = (cl_platform_id)(uintptr_t)8192;
    if (count)
        *count = 1;
    return CL_SUCCESS;
}

EXPORT cl_int CL_API_CALL clGetPlatformInfo(cl_platform_id platform, cl_platform_info what,
                                            size_t room, void *out, size_t *size)
{
    static const char name[] = "Fake";

    (void)platform;
    (void)what;
    if (size)
        *size = sizeof name;
    if (out && room >= sizeof name)
        memcpy(out, name, sizeof name);
    return CL_SUCCESS;
}

EXPORT cl_int CL_API_CALL clGetDeviceIDs(cl_platform_id platform, cl_device_type type, cl_uint room,
                                         cl_device_id *devices, cl_uint *count)
{
    (void)platform;
    (void)type;
    if (devices && room)
        devices[0] = fake_cl_device();
    if (count)
        *count = 1;
    return CL_SUCCESS;
}

EXPORT cl_command_queue CL_API_CALL clCreateCommandQueue(cl_context context, cl_device_id device,
                                                         cl_command_queue_properties properties,
                                                         cl_int *status)
{
    return top->clCreateCommandQueue(context, device, properties, status);
}

EXPORT cl_int CL_API_CALL clReleaseCommandQueue(cl_command_queue queue)
{
    return top->clReleaseCommandQueue(queue);
}

EXPORT cl_int CL_API_CALL clEnqueueNDRangeKernel(cl_command_queue queue, cl_kernel kernel,
                                                 cl_uint dims, const size_t *offset,
                                                 const size_t *global, const size_t *local,
                                                 cl_uint waits, const cl_event *list, cl_event *event)
{
    return top->clEnqueueNDRangeKernel(queue, kernel, dims, offset, global, local, waits, list,
                                       event);
}
