/* The clock of a GPU: NCCL's kernels stamp channels with globaltimer, whose zero and rate are its own. The host fits it from
 * samples: a kernel's first stamp lies between its launch and the moment at which NCCL reports it. Also: which GPU, process
 * and thread this is. */
#include "nccl.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#define MAX_GPUS 64

typedef struct gpu_clock {
    atomic_uint session; /* in which `number` was registered */
    atomic_int number;
    atomic_uint_fast64_t samples, narrowest; /* ticks between the two readings */
} gpu_clock;

static gpu_clock clocks[MAX_GPUS + 1]; /* the last: of GPUs that are not known */
static pthread_mutex_t clocks_lock = PTHREAD_MUTEX_INITIALIZER;

static gpu_clock *clock_of(int32_t gpu) { return &clocks[gpu >= 0 && gpu < MAX_GPUS ? gpu : MAX_GPUS]; }

/* Once in a session; a clock that the host refuses is not asked for again. */
NC_COLD static void register_clock(const KinetoPlugin_TraceBuilder *builder, gpu_clock *clock, uint32_t session)
{
    char name[48];
    int32_t number = -1;
    (void)pthread_mutex_lock(&clocks_lock);
    if (atomic_load(&clock->session) != session) {
        if (clock == &clocks[MAX_GPUS])
            snprintf(name, sizeof name, "globaltimer");
        else
            snprintf(name, sizeof name, "globaltimer of GPU %d", (int)(clock - clocks));
        if (builder->registerClock(builder->pTraceBuilderHandle, name, &number) != 0)
            number = -1;
        atomic_store(&clock->number, number);
        nc_set(&clock->samples, 0);
        nc_set(&clock->narrowest, UINT64_MAX);
        atomic_store_explicit(&clock->session, session, memory_order_release);
    }
    (void)pthread_mutex_unlock(&clocks_lock);
}

/* Only a clock with a sample may be used. */
int32_t nc_gpu_clock(int32_t gpu)
{
    gpu_clock *clock = clock_of(gpu);
    bool is_known = atomic_load_explicit(&clock->session, memory_order_acquire) == nc_session();
    return is_known && nc_get(&clock->samples) ? atomic_load_explicit(&clock->number, memory_order_relaxed) : -1;
}

/* The first samples, those that are nearly as narrow as the best, and a few of the others. */
static bool is_useful(gpu_clock *clock, uint64_t width)
{
    uint64_t n = nc_get(&clock->samples), best = nc_get(&clock->narrowest);
    nc_set(&clock->samples, n + 1); /* a lost count changes nothing */
    if (width < best)
        nc_set(&clock->narrowest, width);
    return n < 16 || width <= best + best / 4 || n % 64 == 0;
}

void nc_gpu_clock_sample(int32_t gpu, uint64_t timer, uint64_t before, uint64_t after)
{
    gpu_clock *clock = clock_of(gpu);
    uint32_t session = nc_session();
    bool is_known = atomic_load_explicit(&clock->session, memory_order_acquire) == session;
    if (after <= before || (is_known && !is_useful(clock, after - before)))
        return;
    const KinetoPlugin_TraceBuilder *builder = nc_builder_enter();
    if (!builder)
        return;
    if (!is_known)
        register_clock(builder, clock, session);
    int32_t number = atomic_load(&clock->number);
    if (number >= 0 && (is_known || is_useful(clock, after - before)))
        (void)builder->addClockSample(builder->pTraceBuilderHandle, number, (int64_t)timer, before, after);
    nc_builder_leave();
}

/* ---- GPU, process, thread --------------------------------------------------------------------- */

/* NCCL makes a communicator with its GPU's context current. The driver is loaded then; ROCm's has another interface. */
int32_t nc_current_gpu(void)
{
    int device = -1, hip = -1;
    void *cuda = dlopen("libcuda.so.1", RTLD_LAZY | RTLD_NOLOAD);
    void *address = cuda ? dlsym(cuda, "cuCtxGetDevice") : dlsym(RTLD_DEFAULT, "hipGetDevice");
    int (*get_device)(int *);
    memcpy(&get_device, &address, sizeof get_device);
    if (address && get_device(&hip) == 0)
        device = hip;
    if (cuda)
        (void)dlclose(cuda);
    return device;
}

static __thread uint32_t this_thread;
static atomic_uint this_process;

uint32_t nc_thread_id(void)
{
    if (!this_thread)
        this_thread = (uint32_t)syscall(SYS_gettid);
    return this_thread;
}

uint32_t nc_process_id(void)
{
    uint32_t pid = atomic_load_explicit(&this_process, memory_order_relaxed);
    if (!pid) {
        pid = (uint32_t)getpid();
        atomic_store(&this_process, pid);
    }
    return pid;
}

void nc_clocks_after_fork(void)
{
    (void)pthread_mutex_init(&clocks_lock, NULL);
    this_thread = 0;
    atomic_store(&this_process, 0);
}
