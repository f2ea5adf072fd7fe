/* The stand-in for libamdhip64 and for AMD's library of ROCTX: calls that the client makes, and a "GPU"
 * that is a thread, which finishes work in order. */
#include "hip.h"

#include "standin.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

typedef struct work {
    struct work *next;
    si_ids ids;
    bool is_copy;
    int operation, gpu;
    uint64_t bytes, queue, kernel;
    uint32_t grid, block;
} work;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static work *first, **last = &first;
static unsigned long pending;
static pthread_once_t once = PTHREAD_ONCE_INIT;
static _Atomic(int) current_device;

static void sleep_us(long us)
{
    struct timespec t = {us / 1000000, us % 1000000 * 1000};
    if (us > 0)
        nanosleep(&t, NULL);
}

static void finish_work(const work *w)
{
    uint64_t start = si_now();
    sleep_us(si_number("kernel_us", 0));
    uint64_t end = si_now() + 1;
    if (w->is_copy) {
        si_copy_done(&w->ids, w->operation, w->gpu, w->bytes, start, end);
        return;
    }
    si_kernel k = {.start = start,
                   .end = end,
                   .kernel = w->kernel,
                   .queue = w->queue,
                   .gpu = w->gpu,
                   .grid = {w->grid, 1, 1},
                   .block = {w->block, 1, 1},
                   .local = 512};
    si_kernel_done(&w->ids, &k);
}

static void *run_gpu(void *unused)
{
    (void)unused;
    pthread_mutex_lock(&lock);
    for (;;) {
        work *w = first;
        if (!w) {
            pthread_cond_wait(&changed, &lock);
            continue;
        }
        first = w->next;
        if (!first)
            last = &first;
        pthread_mutex_unlock(&lock);
        finish_work(w);
        free(w);
        pthread_mutex_lock(&lock);
        pending--;
        pthread_cond_broadcast(&changed);
    }
    return NULL;
}

static void start_hip(void)
{
    pthread_t thread;
    si_start();
    si_load_kernel(1, "_Z3addPfS_.kd");
    si_load_kernel(2, "plain_kernel.kd");
    si_load_kernel(3, "_Z5scaleIfEvPT_f.kd");
    pthread_create(&thread, NULL, run_gpu, NULL);
    pthread_detach(thread);
}

static void enqueue(const work *from)
{
    work *w = malloc(sizeof *w);
    *w = *from;
    w->next = NULL;
    pthread_mutex_lock(&lock);
    *last = w;
    last = &w->next;
    pending++;
    pthread_cond_broadcast(&changed);
    pthread_mutex_unlock(&lock);
}

int hipLaunchKernel(int kernel, unsigned grid, unsigned block, uintptr_t stream)
{
    pthread_once(&once, start_hip);
    uint64_t start = si_now();
    si_ids ids = si_enter(SERVICE_HIP, OP_LAUNCH);
    enqueue(&(work){.ids = ids, .gpu = current_device, .queue = 0xabc0 + stream, .kernel = (uint64_t)kernel,
                    .grid = grid, .block = block});
    si_leave(SERVICE_HIP, OP_LAUNCH, &ids, start);
    return 0;
}

int hipMemcpyAsync(int direction, unsigned long bytes)
{
    pthread_once(&once, start_hip);
    uint64_t start = si_now();
    si_ids ids = si_enter(SERVICE_HIP, OP_COPY);
    enqueue(&(work){.ids = ids, .is_copy = true, .operation = direction, .gpu = current_device, .bytes = bytes});
    si_leave(SERVICE_HIP, OP_COPY, &ids, start);
    return 0;
}

int hipMalloc(void **out, size_t bytes)
{
    static _Atomic(uint64_t) address = 0x7000000;
    pthread_once(&once, start_hip);
    uint64_t start = si_now();
    si_ids ids = si_enter(SERVICE_HIP, OP_MALLOC);
    uint64_t at = address += 0x10000;
    si_memory_done(&ids, 1, current_device, at, bytes, start, si_now() + 1);
    si_leave(SERVICE_HIP, OP_MALLOC, &ids, start);
    *out = (void *)(uintptr_t)at;
    return 0;
}

int hipFree(void *memory)
{
    pthread_once(&once, start_hip);
    uint64_t start = si_now();
    si_ids ids = si_enter(SERVICE_HIP, OP_FREE);
    si_memory_done(&ids, 3, 0, (uintptr_t)memory, 0, start, si_now() + 1);
    si_leave(SERVICE_HIP, OP_FREE, &ids, start);
    return 0;
}

int hipGraphLaunch(unsigned graph, unsigned kernels)
{
    pthread_once(&once, start_hip);
    uint64_t start = si_now();
    si_ids ids = si_enter(SERVICE_HIP, OP_GRAPH);
    si_graph_done(&ids, graph, kernels, start, si_now() + 1);
    si_scratch_done(&ids, current_device, start, si_now() + 1);
    for (unsigned i = 0; i < kernels; i++)
        enqueue(&(work){.ids = ids, .gpu = current_device, .queue = 0xabc0, .kernel = 2, .grid = 4, .block = 64});
    si_leave(SERVICE_HIP, OP_GRAPH, &ids, start);
    return 0;
}

int hipGetDevice(int *out)
{
    pthread_once(&once, start_hip);
    uint64_t start = si_now();
    si_ids ids = si_enter(SERVICE_HIP, OP_GET_DEVICE);
    *out = current_device;
    si_leave(SERVICE_HIP, OP_GET_DEVICE, &ids, start);
    return 0;
}

int hipSetDevice(int device)
{
    pthread_once(&once, start_hip);
    current_device = device;
    return 0;
}

int hipStreamQuery(void *stream)
{
    (void)stream;
    pthread_mutex_lock(&lock);
    unsigned long left = pending;
    pthread_mutex_unlock(&lock);
    return left ? 600 : 0;
}

int hipDeviceSynchronize(void)
{
    pthread_once(&once, start_hip);
    uint64_t start = si_now();
    si_ids ids = si_enter(SERVICE_HIP, OP_SYNC);
    pthread_mutex_lock(&lock);
    while (pending)
        pthread_cond_wait(&changed, &lock);
    pthread_mutex_unlock(&lock);
    si_leave(SERVICE_HIP, OP_SYNC, &ids, start);
    return 0;
}

int ncclAllReduce(void)
{
    pthread_once(&once, start_hip);
    uint64_t start = si_now();
    si_ids ids = si_enter(SERVICE_RCCL, 0);
    si_leave(SERVICE_RCCL, 0, &ids, start);
    ids = si_enter(SERVICE_HSA, 0);
    si_leave(SERVICE_HSA, 0, &ids, start);
    return 0;
}

/* ---- ROCTX --------------------------------------------------------------------------------------- */

void roctxMarkA(const char *text)
{
    si_marker(MARKER_MARK, 1, text, 0, 0);
    si_marker(MARKER_MARK, 2, text, 0, 0);
}

int roctxRangePushA(const char *text)
{
    si_marker(MARKER_PUSH, 1, text, 0, 0);
    si_marker(MARKER_PUSH, 2, text, 0, 0);
    return 0;
}

int roctxRangePop(void)
{
    si_marker(MARKER_POP, 1, NULL, 0, 0);
    si_marker(MARKER_POP, 2, NULL, 0, 0);
    return 0;
}

uint64_t roctxRangeStartA(const char *text)
{
    static _Atomic(uint64_t) id = 40;
    uint64_t own = ++id;
    si_marker(MARKER_START, 1, text, 0, 0);
    si_marker(MARKER_START, 2, text, 0, own);
    return own;
}

void roctxRangeStop(uint64_t id)
{
    si_marker(MARKER_STOP, 1, NULL, id, 0);
    si_marker(MARKER_STOP, 2, NULL, id, 0);
}
