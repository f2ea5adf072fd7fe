/* libcudart. */
#include "standin.h"
#include "vendor.h"

#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

#ifndef SI_REAL_HEADERS
CUresult cuInit(unsigned flags);
#endif

enum { SUCCESS, INVALID_VALUE = 1, OUT_OF_MEMORY = 2, INVALID_DEVICE = 101, INVALID_FUNCTION = 98 };

static pthread_once_t initialized = PTHREAD_ONCE_INIT;
static void initialize(void) { cuInit(0); }

#define BEGIN_UNINITIALIZED(detail)                                                                \
    si_call call;                                                                                  \
    do {                                                                                           \
        int32_t code = si_call_begin(&call, SI_RUNTIME, __func__, (uint64_t)(detail));             \
        if (code)                                                                                  \
            return (cudaError_t)code;                                                              \
    } while (0)
/* Almost every function initializes CUDA. */
#define BEGIN(detail)                                                                              \
    si_once();                                                                                     \
    if (!si_is_lost())                                                                             \
        pthread_once(&initialized, initialize);                                                    \
    BEGIN_UNINITIALIZED(detail)
#define END(result) return (cudaError_t)si_call_end(&call, (result))

static si_stream *as_stream(cudaStream_t s) { return si_stream_or_zero((si_stream *)(void *)s); }
static si_event *as_event(cudaEvent_t e) { return (si_event *)(void *)e; }

/* ---- versions, devices ---------------------------------------------------------------------- */

cudaError_t cudaRuntimeGetVersion(int *version)
{
    BEGIN_UNINITIALIZED(0);
    *version = si_plan.options.runtime_version;
    END(SUCCESS);
}

cudaError_t cudaDriverGetVersion(int *version)
{
    BEGIN_UNINITIALIZED(0);
    *version = si_plan.options.driver_version;
    END(SUCCESS);
}

cudaError_t cudaGetDeviceCount(int *count)
{
    BEGIN(0);
    *count = si_plan.device_count;
    END(SUCCESS);
}

cudaError_t cudaSetDevice(int device)
{
    BEGIN(device);
    if (device < 0 || device >= si_plan.device_count)
        END(INVALID_DEVICE);
    si_device_set(device);
    END(SUCCESS);
}

cudaError_t cudaGetDevice(int *device)
{
    BEGIN(0);
    *device = si_device_current();
    END(SUCCESS);
}

cudaError_t cudaGetLastError(void)
{
    BEGIN(0);
    END(SUCCESS);
}

cudaError_t cudaDeviceSynchronize(void)
{
    BEGIN(0);
    const si_context *c = si_context_current();
    si_work_wait_ns(si_context_busy_ns(c));
    si_call_sync(&call, 4, c, UINT32_MAX, NULL);
    END(SUCCESS);
}

cudaError_t cudaDeviceReset(void)
{
    BEGIN(0);
    si_context *c = si_context_current();
    si_call_resource(2, c);
    si_work_wait_ns(si_context_busy_ns(c));
    si_context_destroy(c);
    END(SUCCESS);
}

/* ---- kernels: what the compiler's code registers before main -------------------------------- */

static struct {
    const void *host;
    const char *name;
} functions[256];
static size_t function_count;

void **__cudaRegisterFatBinary(void *binary);
void __cudaRegisterFatBinaryEnd(void **handle);
void __cudaUnregisterFatBinary(void **handle);
void __cudaRegisterFunction(void **handle, const char *host, char *device, const char *name,
                            int limit, void *a, void *b, void *c, void *d, int *e);

void **__cudaRegisterFatBinary(void *binary)
{
    static void *handle;
    handle = binary;
    return &handle;
}
void __cudaRegisterFatBinaryEnd(void **handle) { (void)handle; }
void __cudaUnregisterFatBinary(void **handle) { (void)handle; }

void __cudaRegisterFunction(void **handle, const char *host, char *device, const char *name,
                            int limit, void *a, void *b, void *c, void *d, int *e)
{
    (void)handle, (void)device, (void)limit, (void)a, (void)b, (void)c, (void)d, (void)e;
    pthread_mutex_lock(&si_lock);
    if (function_count < SI_COUNT(functions)) {
        functions[function_count].host = host;
        functions[function_count++].name = name;
    }
    pthread_mutex_unlock(&si_lock);
}

static const char *name_of(const void *host)
{
    const char *name = NULL;
    pthread_mutex_lock(&si_lock);
    for (size_t i = 0; i < function_count && !name; i++)
        if (functions[i].host == host)
            name = functions[i].name;
    pthread_mutex_unlock(&si_lock);
    return name;
}

cudaError_t cudaLaunchKernel(const void *function, dim3 grid, dim3 block, void **arguments,
                             size_t shared_bytes, cudaStream_t stream)
{
    BEGIN((uintptr_t)function);
    (void)arguments;
    const si_work work = {.what = SI_WORK_KERNEL,
                          .name = name_of(function),
                          .grid = {grid.x, grid.y, grid.z},
                          .block = {block.x, block.y, block.z},
                          .shared_bytes = (uint32_t)shared_bytes};
    if (!work.name)
        END(INVALID_FUNCTION);
    si_work_add(as_stream(stream), &work, call.correlation);
    END(SUCCESS);
}

/* ---- memory --------------------------------------------------------------------------------- */

cudaError_t cudaMalloc(void **pointer, size_t size)
{
    BEGIN(size);
    *pointer = calloc(1, size ? size : 1);
    si_call_memory(&call, 1, (uintptr_t)*pointer, size);
    END(*pointer ? SUCCESS : OUT_OF_MEMORY);
}

cudaError_t cudaFree(void *pointer)
{
    BEGIN((uintptr_t)pointer);
    if (pointer)
        si_call_memory(&call, 2, (uintptr_t)pointer, 0);
    free(pointer);
    END(SUCCESS);
}

static void copy(const si_call *call, void *to, const void *from, size_t size, int kind,
                 cudaStream_t stream)
{
    /* cudaMemcpyKind → CUpti_ActivityMemcpyKind; memory: pageable 1, device 3 */
    static const uint32_t kinds[] = {9, 1, 2, 8, 8};
    const si_work work = {.what = SI_WORK_COPY,
                          .bytes = size,
                          .copy_kind = kinds[kind < 0 || kind > 4 ? 4 : kind],
                          .from_kind = kind < 2 ? 1 : 3,
                          .to_kind = kind == 1 || kind >= 3 ? 3 : 1};
    memmove(to, from, size);
    si_work_add(as_stream(stream), &work, call->correlation);
}

cudaError_t cudaMemcpyAsync(void *to, const void *from, size_t size, enum cudaMemcpyKind kind,
                            cudaStream_t stream)
{
    BEGIN(size);
    copy(&call, to, from, size, (int)kind, stream);
    END(SUCCESS);
}

cudaError_t cudaMemcpy(void *to, const void *from, size_t size, enum cudaMemcpyKind kind)
{
    BEGIN(size);
    copy(&call, to, from, size, (int)kind, NULL);
    si_work_wait_ns(si_context_busy_ns(si_context_current()));
    END(SUCCESS);
}

cudaError_t cudaMemcpyPeerAsync(void *to, int to_device, const void *from, int from_device,
                                size_t size, cudaStream_t stream)
{
    BEGIN(size);
    if (to_device < 0 || to_device >= si_plan.device_count || from_device < 0)
        END(INVALID_DEVICE);
    const si_work work = {.what = SI_WORK_PEER_COPY,
                          .bytes = size,
                          .copy_kind = 10,
                          .from_kind = 3,
                          .to_kind = 3,
                          .peer = si_context_primary(to_device)};
    memmove(to, from, size);
    si_work_add(as_stream(stream), &work, call.correlation);
    END(SUCCESS);
}

cudaError_t cudaMemsetAsync(void *to, int value, size_t count, cudaStream_t stream)
{
    BEGIN(count);
    const si_work work = {
        .what = SI_WORK_SET, .bytes = count, .value = (uint32_t)value, .to_kind = 3};
    memset(to, value, count);
    si_work_add(as_stream(stream), &work, call.correlation);
    END(SUCCESS);
}

/* ---- streams, events ------------------------------------------------------------------------ */

cudaError_t cudaStreamCreate(cudaStream_t *stream)
{
    BEGIN(0);
    *stream = (cudaStream_t)(void *)si_stream_create(si_context_current());
    END(SUCCESS);
}

cudaError_t cudaStreamDestroy(cudaStream_t stream)
{
    BEGIN(0);
    si_stream_destroy(as_stream(stream));
    END(SUCCESS);
}

cudaError_t cudaStreamSynchronize(cudaStream_t stream)
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

cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned flags)
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

cudaError_t cudaEventCreate(cudaEvent_t *event)
{
    BEGIN(0);
    si_event *e = calloc(1, sizeof *e);
    if (!e)
        END(OUT_OF_MEMORY);
    e->id = si_number();
    *event = (cudaEvent_t)(void *)e;
    END(SUCCESS);
}

cudaError_t cudaEventDestroy(cudaEvent_t event)
{
    BEGIN(0);
    free(as_event(event));
    END(SUCCESS);
}

cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream)
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

cudaError_t cudaEventSynchronize(cudaEvent_t event)
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

/* ---- graphs --------------------------------------------------------------------------------- */

cudaError_t cudaStreamBeginCapture(cudaStream_t stream, enum cudaStreamCaptureMode mode)
{
    BEGIN(mode);
    END(si_graph_begin(as_stream(stream)) ? SUCCESS : OUT_OF_MEMORY);
}

cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t *graph)
{
    BEGIN(0);
    *graph = (cudaGraph_t)(void *)si_graph_end(as_stream(stream));
    END(*graph ? SUCCESS : INVALID_VALUE);
}

cudaError_t cudaGraphInstantiate(cudaGraphExec_t *exec, cudaGraph_t graph, unsigned long long flags)
{
    BEGIN(flags);
    *exec = (cudaGraphExec_t)(void *)si_graph_instantiate((const si_graph *)(const void *)graph);
    END(*exec ? SUCCESS : OUT_OF_MEMORY);
}

cudaError_t cudaGraphLaunch(cudaGraphExec_t exec, cudaStream_t stream)
{
    BEGIN(0);
    si_graph_launch((const si_graph *)(const void *)exec, as_stream(stream), call.correlation);
    END(SUCCESS);
}

cudaError_t cudaGraphExecDestroy(cudaGraphExec_t exec)
{
    BEGIN(0);
    free((void *)exec);
    END(SUCCESS);
}

cudaError_t cudaGraphDestroy(cudaGraph_t graph)
{
    BEGIN(0);
    free((void *)graph);
    END(SUCCESS);
}
