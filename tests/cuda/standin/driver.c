/* libcuda. */
#include "standin.h"
#include "vendor.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    SUCCESS,
    INVALID_VALUE = 1,
    OUT_OF_MEMORY = 2,
    NOT_INITIALIZED = 3,
    INVALID_DEVICE = 101,
    INVALID_CONTEXT = 201
};

/* Every function: what the script wants, then the work, then the record of the call. */
#define BEGIN(detail)                                                                              \
    si_call call;                                                                                  \
    do {                                                                                           \
        int32_t code = si_call_begin(&call, SI_DRIVER, __func__, (uint64_t)(detail));              \
        if (code)                                                                                  \
            return (CUresult)code;                                                                 \
        if (!si_is_initialized() && strcmp(call.name, "cuInit") != 0 &&                            \
            strcmp(call.name, "cuDriverGetVersion") != 0)                                          \
            return (CUresult)si_call_end(&call, NOT_INITIALIZED);                                  \
    } while (0)
#define END(result) return (CUresult)si_call_end(&call, (result))

static si_context *as_context(CUcontext c) { return (si_context *)(void *)c; }
static si_stream *as_stream(CUstream s) { return si_stream_or_zero((si_stream *)(void *)s); }
static si_event *as_event(CUevent e) { return (si_event *)(void *)e; }

/* ---- the library ---------------------------------------------------------------------------- */

static pthread_once_t injected = PTHREAD_ONCE_INIT;

/* As the driver does: a tool's library is loaded when a program starts to use CUDA. */
static void inject(void)
{
    const char *path = getenv("CUDA_INJECTION64_PATH");
    void *library = path && *path ? dlopen(path, RTLD_NOW) : NULL;
    int (*initialize)(void);
    if (!library)
        return;
    void *symbol = dlsym(library, "InitializeInjection");
    memcpy(&initialize, &symbol, sizeof initialize);
    if (initialize)
        initialize();
}

CUresult cuInit(unsigned flags)
{
    si_once();
    if (!si_is_lost())
        pthread_once(&injected, inject);
    BEGIN(flags);
    si_set_initialized();
    END(SUCCESS);
}

CUresult cuDriverGetVersion(int *version)
{
    BEGIN(0);
    *version = si_plan.options.driver_version;
    END(SUCCESS);
}

/* ---- devices -------------------------------------------------------------------------------- */

CUresult cuDeviceGetCount(int *count)
{
    BEGIN(0);
    *count = si_plan.device_count;
    END(SUCCESS);
}

CUresult cuDeviceGet(CUdevice *device, int ordinal)
{
    BEGIN(ordinal);
    if (ordinal < 0 || ordinal >= si_plan.device_count)
        END(INVALID_DEVICE);
    *device = ordinal;
    END(SUCCESS);
}

static const si_device *device_of(CUdevice device)
{
    return device >= 0 && device < si_plan.device_count ? &si_plan.devices[device] : NULL;
}

CUresult cuDeviceGetName(char *name, int size, CUdevice device)
{
    BEGIN(device);
    const si_device *d = device_of(device);
    if (!d || size < 1)
        END(INVALID_DEVICE);
    snprintf(name, (size_t)size, "%s", d->name);
    END(SUCCESS);
}

static int attribute_of(const si_device *d, int attribute)
{
    const struct {
        int attribute, value;
    } list[] = {{1, d->threads_per_block},
                {8, d->shared_per_block},
                {10, d->warp_size},
                {12, d->registers_per_block},
                {16, d->sm_count},
                {39, d->threads_per_sm},
                {75, d->major},
                {76, d->minor},
                {81, d->shared_per_sm},
                {82, d->registers_per_sm},
                {97, d->shared_optin},
                {106, d->blocks_per_sm},
                {111, d->shared_reserved}};
    for (size_t i = 0; i < SI_COUNT(list); i++)
        if (list[i].attribute == attribute)
            return list[i].value;
    return 0;
}

CUresult cuDeviceGetAttribute(int *value, CUdevice_attribute attribute, CUdevice device)
{
    BEGIN(attribute);
    const si_device *d = device_of(device);
    if (!d)
        END(INVALID_DEVICE);
    *value = attribute_of(d, (int)attribute);
    END(SUCCESS);
}

CUresult cuDeviceTotalMem_v2(size_t *bytes, CUdevice device)
{
    BEGIN(device);
    const si_device *d = device_of(device);
    if (!d)
        END(INVALID_DEVICE);
    *bytes = d->memory;
    END(SUCCESS);
}

CUresult cuDeviceGetUuid_v2(CUuuid *uuid, CUdevice device)
{
    BEGIN(device);
    if (!device_of(device))
        END(INVALID_DEVICE);
    for (int i = 0; i < 16; i++)
        uuid->bytes[i] = (char)(device * 16 + i);
    END(SUCCESS);
}

/* ---- contexts ------------------------------------------------------------------------------- */

CUresult cuCtxCreate_v2(CUcontext *context, unsigned flags, CUdevice device)
{
    BEGIN(flags);
    if (!device_of(device))
        END(INVALID_DEVICE);
    si_context *c = si_context_create(device);
    si_context_set(c);
    si_call_resource(1, c);
    *context = (CUcontext)(void *)c;
    END(SUCCESS);
}

CUresult cuCtxDestroy_v2(CUcontext context)
{
    BEGIN(0);
    if (!context)
        END(INVALID_CONTEXT);
    si_call_resource(2, as_context(context));
    si_work_wait_ns(si_context_busy_ns(as_context(context)));
    si_context_destroy(as_context(context));
    END(SUCCESS);
}

CUresult cuCtxGetCurrent(CUcontext *context)
{
    BEGIN(0);
    *context = (CUcontext)(void *)si_context_current();
    END(SUCCESS);
}

CUresult cuCtxSetCurrent(CUcontext context)
{
    BEGIN(0);
    si_context_set(as_context(context));
    END(SUCCESS);
}

CUresult cuCtxSynchronize(void)
{
    BEGIN(0);
    const si_context *c = si_context_current();
    si_work_wait_ns(si_context_busy_ns(c));
    si_call_sync(&call, 4, c, UINT32_MAX, NULL);
    END(SUCCESS);
}

CUresult cuDevicePrimaryCtxRetain(CUcontext *context, CUdevice device)
{
    BEGIN(device);
    if (!device_of(device))
        END(INVALID_DEVICE);
    *context = (CUcontext)(void *)si_context_primary(device);
    END(SUCCESS);
}

CUresult cuDevicePrimaryCtxRelease_v2(CUdevice device)
{
    BEGIN(device);
    END(SUCCESS);
}

CUresult cuDevicePrimaryCtxReset_v2(CUdevice device)
{
    BEGIN(device);
    if (!device_of(device))
        END(INVALID_DEVICE);
    si_context *c = si_context_primary(device);
    si_call_resource(2, c);
    si_work_wait_ns(si_context_busy_ns(c));
    si_context_destroy(c);
    END(SUCCESS);
}

/* ---- modules: a function is its name -------------------------------------------------------- */

CUresult cuModuleLoadData(CUmodule *module, const void *image)
{
    BEGIN(0);
    *module = (CUmodule)(uintptr_t)image;
    END(SUCCESS);
}

CUresult cuModuleUnload(CUmodule module)
{
    BEGIN((uintptr_t)module);
    END(SUCCESS);
}

/* Kept for ever: work may be recorded after its module is gone. */
static const char *kept(const char *name)
{
    static const char *names[256];
    size_t i = 0;
    pthread_mutex_lock(&si_lock);
    while (i < SI_COUNT(names) - 1 && names[i] && strcmp(names[i], name) != 0)
        i++;
    if (!names[i])
        names[i] = strdup(name);
    const char *result = names[i];
    pthread_mutex_unlock(&si_lock);
    return result;
}

CUresult cuModuleGetFunction(CUfunction *function, CUmodule module, const char *name)
{
    BEGIN((uintptr_t)module);
    *function = (CUfunction)(uintptr_t)kept(name);
    END(SUCCESS);
}

CUresult cuLaunchKernel(CUfunction function, unsigned grid_x, unsigned grid_y, unsigned grid_z,
                        unsigned block_x, unsigned block_y, unsigned block_z, unsigned shared_bytes,
                        CUstream stream, void **arguments, void **extra)
{
    BEGIN((uintptr_t)function);
    (void)arguments, (void)extra;
    const si_work work = {.what = SI_WORK_KERNEL,
                          .name = (const char *)(uintptr_t)function,
                          .grid = {grid_x, grid_y, grid_z},
                          .block = {block_x, block_y, block_z},
                          .shared_bytes = shared_bytes};
    si_work_add(as_stream(stream), &work, call.correlation);
    END(SUCCESS);
}

/* ---- memory: of the host, so that copies are real ------------------------------------------- */

CUresult cuMemAlloc_v2(CUdeviceptr *pointer, size_t size)
{
    BEGIN(size);
    void *memory = calloc(1, size ? size : 1);
    *pointer = (CUdeviceptr)(uintptr_t)memory;
    si_call_memory(&call, 1, *pointer, size);
    END(memory ? SUCCESS : OUT_OF_MEMORY);
}

CUresult cuMemFree_v2(CUdeviceptr pointer)
{
    BEGIN(pointer);
    si_call_memory(&call, 2, pointer, 0);
    free((void *)(uintptr_t)pointer);
    END(SUCCESS);
}

static void copy(const si_call *call, CUdeviceptr to, CUdeviceptr from, size_t size,
                 uint32_t copy_kind, CUstream stream)
{
    /* CUpti_ActivityMemcpyKind: HtoD 1, DtoH 2, DtoD 8; memory: pageable 1, device 3 */
    const si_work work = {.what = SI_WORK_COPY,
                          .bytes = size,
                          .copy_kind = copy_kind,
                          .from_kind = copy_kind == 1 ? 1 : 3,
                          .to_kind = copy_kind == 2 ? 1 : 3};
    memmove((void *)(uintptr_t)to, (const void *)(uintptr_t)from, size);
    si_work_add(as_stream(stream), &work, call->correlation);
}

CUresult cuMemcpyHtoDAsync_v2(CUdeviceptr to, const void *from, size_t size, CUstream stream)
{
    BEGIN(size);
    copy(&call, to, (CUdeviceptr)(uintptr_t)from, size, 1, stream);
    END(SUCCESS);
}

CUresult cuMemcpyDtoHAsync_v2(void *to, CUdeviceptr from, size_t size, CUstream stream)
{
    BEGIN(size);
    copy(&call, (CUdeviceptr)(uintptr_t)to, from, size, 2, stream);
    END(SUCCESS);
}

CUresult cuMemcpyDtoDAsync_v2(CUdeviceptr to, CUdeviceptr from, size_t size, CUstream stream)
{
    BEGIN(size);
    copy(&call, to, from, size, 8, stream);
    END(SUCCESS);
}

CUresult cuMemsetD8Async(CUdeviceptr to, unsigned char value, size_t count, CUstream stream)
{
    BEGIN(count);
    const si_work work = {.what = SI_WORK_SET, .bytes = count, .value = value, .to_kind = 3};
    memset((void *)(uintptr_t)to, value, count);
    si_work_add(as_stream(stream), &work, call.correlation);
    END(SUCCESS);
}

/* ---- streams, events ------------------------------------------------------------------------ */

CUresult cuStreamCreate(CUstream *stream, unsigned flags)
{
    BEGIN(flags);
    *stream = (CUstream)(void *)si_stream_create(si_context_current());
    END(SUCCESS);
}

CUresult cuStreamDestroy_v2(CUstream stream)
{
    BEGIN(0);
    si_stream_destroy(as_stream(stream));
    END(SUCCESS);
}

CUresult cuStreamSynchronize(CUstream stream)
{
    BEGIN(0);
    const si_stream *s = as_stream(stream);
    pthread_mutex_lock(&si_lock);
    uint64_t busy_ns = s->busy_ns;
    pthread_mutex_unlock(&si_lock);
    si_work_wait_ns(busy_ns);
    si_call_sync(&call, 3, s->context, s->id, NULL);
    END(SUCCESS);
}

CUresult cuStreamWaitEvent(CUstream stream, CUevent event, unsigned flags)
{
    BEGIN(flags);
    si_stream *s = as_stream(stream);
    pthread_mutex_lock(&si_lock);
    if (as_event(event)->time_ns > s->busy_ns)
        s->busy_ns = as_event(event)->time_ns;
    pthread_mutex_unlock(&si_lock);
    si_call_sync(&call, 2, s->context, s->id, as_event(event));
    END(SUCCESS);
}

CUresult cuEventCreate(CUevent *event, unsigned flags)
{
    BEGIN(flags);
    si_event *e = calloc(1, sizeof *e);
    if (!e)
        END(OUT_OF_MEMORY);
    e->id = si_number();
    *event = (CUevent)(void *)e;
    END(SUCCESS);
}

CUresult cuEventDestroy_v2(CUevent event)
{
    BEGIN(0);
    free(as_event(event));
    END(SUCCESS);
}

CUresult cuEventRecord(CUevent event, CUstream stream)
{
    BEGIN(0);
    si_stream *s = as_stream(stream);
    const si_work work = {.what = SI_WORK_EVENT, .event_id = as_event(event)->id};
    si_work_add(s, &work, call.correlation);
    pthread_mutex_lock(&si_lock);
    as_event(event)->time_ns = s->busy_ns;
    as_event(event)->stream_id = s->id;
    pthread_mutex_unlock(&si_lock);
    END(SUCCESS);
}

CUresult cuEventSynchronize(CUevent event)
{
    BEGIN(0);
    pthread_mutex_lock(&si_lock);
    uint64_t time_ns = as_event(event)->time_ns;
    uint32_t stream_id = as_event(event)->stream_id;
    pthread_mutex_unlock(&si_lock);
    si_work_wait_ns(time_ns);
    si_call_sync(&call, 1, si_context_current(), stream_id, as_event(event));
    END(SUCCESS);
}

/* ---- graphs: what is queued on a stream between begin and end ------------------------------- */

CUresult cuStreamBeginCapture_v2(CUstream stream, CUstreamCaptureMode mode)
{
    BEGIN(mode);
    END(si_graph_begin(as_stream(stream)) ? SUCCESS : OUT_OF_MEMORY);
}

CUresult cuStreamEndCapture(CUstream stream, CUgraph *graph)
{
    BEGIN(0);
    *graph = (CUgraph)(void *)si_graph_end(as_stream(stream));
    END(*graph ? SUCCESS : INVALID_VALUE);
}

CUresult cuGraphInstantiateWithFlags(CUgraphExec *exec, CUgraph graph, unsigned long long flags)
{
    BEGIN(flags);
    *exec = (CUgraphExec)(void *)si_graph_instantiate((const si_graph *)(const void *)graph);
    END(*exec ? SUCCESS : OUT_OF_MEMORY);
}

CUresult cuGraphLaunch(CUgraphExec exec, CUstream stream)
{
    BEGIN(0);
    si_graph_launch((const si_graph *)(const void *)exec, as_stream(stream), call.correlation);
    END(SUCCESS);
}

CUresult cuGraphExecDestroy(CUgraphExec exec)
{
    BEGIN(0);
    free((void *)exec);
    END(SUCCESS);
}

CUresult cuGraphDestroy(CUgraph graph)
{
    BEGIN(0);
    free((void *)graph);
    END(SUCCESS);
}
