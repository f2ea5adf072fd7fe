/* What a program with CUDA does: each way prints what it computed, so that a test sees whether it
 * was disturbed. Results of calls are part of that. */
#include "client.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { ELEMENTS = 1024, BYTES = ELEMENTS * sizeof(float) };
enum { TO_DEVICE = 1, TO_HOST = 2, ON_DEVICE = 3 };

unsigned long client_sum;
static pthread_mutex_t sum_lock = PTHREAD_MUTEX_INITIALIZER;

static void add_to_sum(unsigned long n)
{
    pthread_mutex_lock(&sum_lock);
    client_sum += n;
    pthread_mutex_unlock(&sum_lock);
}

/* A call that fails changes what the program prints. */
static void note(int result)
{
    if (result)
        add_to_sum(1000000u * (unsigned)result);
}

/* What the compiler makes of __global__ functions. */
static void add_float(void) {}
static void scale(void) {}

__attribute__((constructor)) static void register_kernels(void)
{
    __cudaRegisterFunction(NULL, (const char *)(uintptr_t)add_float, NULL, KERNEL_ADD, -1, NULL,
                           NULL, NULL, NULL, NULL);
    __cudaRegisterFunction(NULL, (const char *)(uintptr_t)scale, NULL, KERNEL_SCALE, -1, NULL, NULL,
                           NULL, NULL, NULL);
}

static void launch(void (*kernel)(void), unsigned blocks, cudaStream_t stream)
{
    note(cudaLaunchKernel((const void *)(uintptr_t)kernel, (dim3){blocks, 1, 1}, (dim3){256, 1, 1},
                          NULL, 0, stream));
}

/* ---- vector add: in, in, add, out ----------------------------------------------------------- */

static void vector_add(cudaStream_t stream, unsigned times)
{
    unsigned char in[BYTES], out[BYTES] = {0};
    void *a, *b;
    memset(in, 3, sizeof in);
    note(cudaMalloc(&a, BYTES));
    note(cudaMalloc(&b, BYTES));
    for (unsigned i = 0; i < times; i++) {
        note(cudaMemcpyAsync(a, in, BYTES, (enum cudaMemcpyKind)TO_DEVICE, stream));
        note(cudaMemsetAsync(b, 1, BYTES, stream));
        launch(add_float, 4, stream);
        note(cudaMemcpyAsync(b, a, BYTES, (enum cudaMemcpyKind)ON_DEVICE, stream));
        note(cudaMemcpyAsync(out, b, BYTES, (enum cudaMemcpyKind)TO_HOST, stream));
        note(cudaStreamSynchronize(stream));
        add_to_sum(out[0] + out[BYTES - 1]);
    }
    note(cudaFree(a));
    note(cudaFree(b));
}

static int way_add(unsigned n)
{
    vector_add(NULL, n);
    note(cudaDeviceSynchronize());
    return 0;
}

/* ---- threads with streams of their own ------------------------------------------------------ */

static void *one_thread(void *times)
{
    cudaStream_t stream;
    note(cudaStreamCreate(&stream));
    vector_add(stream, *(unsigned *)times);
    note(cudaStreamDestroy(stream));
    return NULL;
}

static int way_threads(unsigned n)
{
    pthread_t threads[4];
    for (int i = 0; i < 4; i++)
        if (pthread_create(&threads[i], NULL, one_thread, &n) != 0)
            return 9;
    for (int i = 0; i < 4; i++)
        pthread_join(threads[i], NULL);
    note(cudaDeviceSynchronize());
    return 0;
}

/* Many threads at once: none ends before all have worked. */
enum { CROWD = 40 };
static pthread_barrier_t crowd_is_done;

static void *one_of_many(void *times)
{
    one_thread(times);
    pthread_barrier_wait(&crowd_is_done);
    return NULL;
}

static int way_crowd(unsigned n)
{
    pthread_t threads[CROWD];
    pthread_barrier_init(&crowd_is_done, NULL, CROWD);
    for (int i = 0; i < CROWD; i++)
        if (pthread_create(&threads[i], NULL, one_of_many, &n) != 0)
            return 9;
    for (int i = 0; i < CROWD; i++)
        pthread_join(threads[i], NULL);
    note(cudaDeviceSynchronize());
    return 0;
}

static int way_streams(unsigned n)
{
    cudaStream_t streams[3];
    cudaEvent_t event;
    for (int i = 0; i < 3; i++)
        note(cudaStreamCreate(&streams[i]));
    note(cudaEventCreate(&event));
    for (unsigned i = 0; i < n; i++) {
        launch(add_float, 8, streams[i % 3]);
        note(cudaEventRecord(event, streams[i % 3]));
        note(cudaStreamWaitEvent(streams[(i + 1) % 3], event, 0));
        launch(scale, 2, streams[(i + 1) % 3]);
    }
    note(cudaEventSynchronize(event));
    note(cudaDeviceSynchronize());
    note(cudaEventDestroy(event));
    for (int i = 0; i < 3; i++)
        note(cudaStreamDestroy(streams[i]));
    return 0;
}

static int way_graph(unsigned n)
{
    cudaStream_t stream;
    cudaGraph_t graph;
    cudaGraphExec_t exec;
    note(cudaStreamCreate(&stream));
    note(cudaStreamBeginCapture(stream, (enum cudaStreamCaptureMode)0));
    launch(add_float, 16, stream);
    launch(scale, 1, stream);
    launch(add_float, 16, stream);
    note(cudaStreamEndCapture(stream, &graph));
    note(cudaGraphInstantiate(&exec, graph, 0));
    for (unsigned i = 0; i < n; i++)
        note(cudaGraphLaunch(exec, stream));
    note(cudaStreamSynchronize(stream));
    note(cudaGraphExecDestroy(exec));
    note(cudaGraphDestroy(graph));
    return 0;
}

/* ---- the driver interface; contexts that come and go ---------------------------------------- */

static int way_driver(unsigned n)
{
    unsigned char in[BYTES] = {7}, out[BYTES] = {0};
    CUcontext context;
    CUstream stream;
    CUmodule module;
    CUfunction function;
    CUdeviceptr memory;
    CUevent event;
    note(cuInit(0));
    note(cuCtxCreate_v2(&context, 0, 0));
    note(cuStreamCreate(&stream, 1));
    note(cuModuleLoadData(&module, "module"));
    note(cuModuleGetFunction(&function, module, KERNEL_SCALE));
    note(cuMemAlloc_v2(&memory, BYTES));
    note(cuEventCreate(&event, 0));
    for (unsigned i = 0; i < n; i++) {
        note(cuMemsetD8Async(memory, 0, BYTES, stream));
        note(cuMemcpyHtoDAsync_v2(memory, in, BYTES, stream));
        note(cuLaunchKernel(function, 2, 3, 4, 32, 2, 1, 512, stream, NULL, NULL));
        note(cuMemcpyDtoDAsync_v2(memory + BYTES / 2, memory, BYTES / 2, stream));
        note(cuEventRecord(event, stream));
        note(cuStreamWaitEvent(stream, event, 0));
        note(cuMemcpyDtoHAsync_v2(out, memory, BYTES, stream));
        note(cuStreamSynchronize(stream));
        add_to_sum(out[0]);
    }
    note(cuEventSynchronize(event));
    note(cuEventDestroy_v2(event));
    note(cuMemFree_v2(memory));
    note(cuStreamDestroy_v2(stream));
    note(cuCtxSynchronize());
    note(cuCtxDestroy_v2(context));
    return 0;
}

static int way_contexts(unsigned n)
{
    for (unsigned i = 0; i < n; i++)
        way_driver(1);
    return 0;
}

static int way_devices(unsigned n)
{
    int count = 0;
    note(cudaGetDeviceCount(&count));
    for (unsigned i = 0; i < n; i++) {
        void *here, *there;
        note(cudaSetDevice((int)i % count));
        note(cudaMalloc(&here, BYTES));
        note(cudaMalloc(&there, BYTES));
        launch(add_float, i + 1, NULL);
        note(cudaMemcpyPeerAsync(there, ((int)i + 1) % count, here, (int)i % count, BYTES, NULL));
        note(cudaDeviceSynchronize());
        note(cudaFree(here));
        note(cudaFree(there));
    }
    return 0;
}

static int way_reset(unsigned n)
{
    for (unsigned i = 0; i < n; i++) {
        vector_add(NULL, 1);
        note(cudaDeviceReset());
    }
    return 0;
}

/* ---- forks and ends ------------------------------------------------------------------------- */

static int in_child(int (*work)(void))
{
    int status = 0;
    fflush(stdout);
    pid_t pid = fork();
    if (pid == 0)
        exit(work());
    if (pid < 0 || waitpid(pid, &status, 0) != pid || !WIFEXITED(status))
        return 9;
    return WEXITSTATUS(status);
}

/* CUDA does not work in such a child; calls fail, and no more. */
static int use_in_child(void) { return cudaDeviceSynchronize() == 3 ? 0 : 8; }
static int add_in_child(void)
{
    way_add(3);
    return client_sum == 3 * 6 ? 0 : 7;
}

static int way_fork(unsigned n)
{
    vector_add(NULL, n);
    int status = in_child(use_in_child);
    vector_add(NULL, n);
    note(cudaDeviceSynchronize());
    return status;
}

/* The child of a process that has not used CUDA yet may. */
static int way_fork_first(unsigned n)
{
    int status = in_child(add_in_child);
    vector_add(NULL, n);
    note(cudaDeviceSynchronize());
    return status;
}

static void launch_many(unsigned n)
{
    for (unsigned i = 0; i < n; i++)
        launch(add_float, 4, NULL);
}

static int way_launch(unsigned n)
{
    launch_many(n);
    note(cudaDeviceSynchronize());
    return 0;
}

static int way_exit(unsigned n)
{
    launch_many(n);
    return 5; /* with work on the device */
}

static int way_quick_exit(unsigned n)
{
    launch_many(n);
    printf("sum %lu\n", client_sum);
    fflush(stdout);
    _exit(6);
}

static int way_killed(unsigned n)
{
    launch_many(n);
    note(cudaDeviceSynchronize());
    kill(getpid(), 9);
    return 0;
}

/* Wait n milliseconds, then let the stand-in replay its script. */
static int way_replay(unsigned n)
{
    void *memory;
    note(cudaMalloc(&memory, 16));
    usleep(n * 1000);
    note(cudaDeviceSynchronize());
    note(cudaFree(memory));
    return 0;
}

/* Another device as well: what the library in OTHER_DEVICE does to show itself to profilers. */
static int way_other(unsigned n)
{
    const char *path = getenv("OTHER_DEVICE");
    void *library = path ? dlopen(path, RTLD_NOW) : NULL;
    void *symbol = library ? dlsym(library, "KinetoPlugin_exercise") : NULL;
    int (*exercise)(uint32_t n) = NULL;
    memcpy(&exercise, &symbol, sizeof exercise);
    way_add(n);
    return exercise ? exercise(n) : 9;
}

/* Another tool registers callbacks of its own with CUPTI, if that is there. */
static void give(uint8_t **buffer, size_t *size, size_t *most)
{
    *size = 1 << 16;
    *most = 0;
    *buffer = aligned_alloc(8, *size);
}

static void take(void *context, uint32_t stream, uint8_t *buffer, size_t size, size_t valid)
{
    (void)context, (void)stream, (void)buffer, (void)size,
        (void)valid; /* may be the other tool's */
}

static int way_taken(unsigned n)
{
    int (*take_over)(void (*)(uint8_t **, size_t *, size_t *),
                     void (*)(void *, uint32_t, uint8_t *, size_t, size_t)) = NULL;
    way_add(n);
    void *cupti = dlopen("libcupti.so.12", RTLD_NOW | RTLD_NOLOAD);
    void *symbol = cupti ? dlsym(cupti, "cuptiActivityRegisterCallbacks") : NULL;
    memcpy(&take_over, &symbol, sizeof take_over);
    if (take_over)
        add_to_sum((unsigned long)take_over(give, take));
    return way_add(n);
}

static int way_nothing(unsigned n)
{
    add_to_sum(n);
    return 0;
}

static const struct {
    const char *name;
    int (*run)(unsigned n);
} ways[] = {
    {"add", way_add},         {"threads", way_threads},
    {"streams", way_streams}, {"graph", way_graph},
    {"driver", way_driver},   {"contexts", way_contexts},
    {"devices", way_devices}, {"reset", way_reset},
    {"fork", way_fork},       {"fork_first", way_fork_first},
    {"exit", way_exit},       {"quick_exit", way_quick_exit},
    {"killed", way_killed},   {"replay", way_replay},
    {"other", way_other},     {"nothing", way_nothing},
    {"launch", way_launch},   {"taken", way_taken},
    {"crowd", way_crowd},
};

int client_run(int count, char **arguments)
{
    const char *way = count > 0 ? arguments[0] : "add";
    unsigned n = count > 1 ? (unsigned)atoi(arguments[1]) : 10;
    for (size_t i = 0; i < sizeof ways / sizeof *ways; i++)
        if (strcmp(ways[i].name, way) == 0)
            return ways[i].run(n);
    fprintf(stderr, "no way is called %s\n", way);
    return 99;
}
