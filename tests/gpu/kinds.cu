/* The cost of a launch on the host with different kinds of CUPTI's records switched on, in one
 * process: which kinds cost what, and what no profiler with CUPTI can be cheaper than. Usage:
 * kinds LIBCUPTI [ROUNDS]. The thread stays on one CPU. Prints a table: ns per launch, median and least
 * over the rounds, and median, quartiles of the differences to no recording in the same round. */
#include <cuda_runtime.h>

#include "../../plugins/cuda/cupti.h"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <dlfcn.h>
#include <mutex>
#include <sched.h>
#include <vector>
#include <x86intrin.h>

static const int launches_per_batch = 500, batches_per_round = 10;
static const size_t buffer_bytes = (size_t)4 << 20;

static cp_cupti_api cupti;
static cp_subscriber subscriber;
static std::mutex pool_lock;
static std::vector<uint8_t *> pool;
static size_t bytes_received;
static uint64_t callbacks, ticks_in_callbacks;

__global__ void empty() {}

static void fail(const char *what, int code)
{
    std::fprintf(stderr, "kinds: %s: error %d\n", what, code);
    std::exit(2);
}

/* ---- CUPTI ----------------------------------------------------------------------------------- */

static void open_cupti(const char *path)
{
    void *handle = dlopen(path, RTLD_NOW);
    if (!handle) {
        std::fprintf(stderr, "kinds: %s\n", dlerror());
        std::exit(2);
    }
#define FILL(member, symbol, result, parameters, needed)                                           \
    *(void **)&cupti.member = dlsym(handle, #symbol);
    CP_CUPTI_MAP(FILL)
#undef FILL
}

static void request_buffer(uint8_t **buffer, size_t *size, size_t *max_records)
{
    std::lock_guard<std::mutex> guard(pool_lock);
    if (pool.empty())
        pool.push_back((uint8_t *)std::malloc(buffer_bytes));
    *buffer = pool.back();
    pool.pop_back();
    *size = buffer_bytes;
    *max_records = 0;
}

static void complete_buffer(cp_context, uint32_t, uint8_t *buffer, size_t, size_t valid)
{
    std::lock_guard<std::mutex> guard(pool_lock);
    pool.push_back(buffer);
    bytes_received += valid;
}

static uint64_t read_ticks(void) { return __rdtsc(); }

static void on_call(void *, uint32_t, uint32_t, const void *)
{
    callbacks++;
    ticks_in_callbacks += __rdtsc();
}

/* ---- what is switched on --------------------------------------------------------------------- */

struct Way {
    const char *name;
    std::vector<uint32_t> kinds;
    bool driver_calls; /* launches through the driver, by id */
    bool callback;     /* a callback at begin and end of each cudaLaunchKernel */
    bool external;     /* an id of an operator around each launch */
};

#define EVERYTHING                                                                                 \
    CP_KIND_CONCURRENT_KERNEL, CP_KIND_RUNTIME, CP_KIND_EXTERNAL_CORRELATION, CP_KIND_MEMCPY,      \
        CP_KIND_MEMCPY2, CP_KIND_MEMSET, CP_KIND_OVERHEAD
static const std::vector<Way> ways = {
    {"nothing", {}, false, false, false},
    {"nothing, again", {}, false, false, false},
    {"a callback per call", {}, false, true, false},
    {"runtime", {CP_KIND_RUNTIME}, false, false, false},
    {"driver launches by id", {}, true, false, false},
    {"kernels", {CP_KIND_CONCURRENT_KERNEL}, false, false, false},
    {"kernels, callback", {CP_KIND_CONCURRENT_KERNEL}, false, true, false},
    {"kernels, runtime", {CP_KIND_CONCURRENT_KERNEL, CP_KIND_RUNTIME}, false, false, false},
    {"kernels, driver by id", {CP_KIND_CONCURRENT_KERNEL}, true, false, false},
    {"kernels, runtime, operators",
     {CP_KIND_CONCURRENT_KERNEL, CP_KIND_RUNTIME, CP_KIND_EXTERNAL_CORRELATION},
     false, false, true},
    {"copies, memsets, overhead too", {EVERYTHING}, false, false, false},
    {"that and driver by id", {EVERYTHING}, true, false, false},
    {"that and synchronisation", {EVERYTHING, CP_KIND_SYNCHRONIZATION}, true, false, false},
    {"that and CUDA events",
     {EVERYTHING, CP_KIND_SYNCHRONIZATION, CP_KIND_CUDA_EVENT},
     true, false, false},
    {"that with operators",
     {EVERYTHING, CP_KIND_SYNCHRONIZATION, CP_KIND_CUDA_EVENT},
     true, false, true},
};

static void switch_way(const Way &way, bool on)
{
    for (uint32_t kind : way.kinds) {
        cp_result result = on ? cupti.enable(kind) : cupti.disable(kind);
        if (result != CP_SUCCESS)
            fail(way.name, result);
    }
    if (way.driver_calls)
        for (uint32_t id : {307u, 442u, 652u, 653u})
            (void)cupti.enable_driver_api(id, on);
    if (way.callback)
        for (uint32_t id : {211u, 214u, 430u, 431u})
            (void)cupti.enable_callback(on, subscriber, CP_DOMAIN_RUNTIME, id);
}

/* ---- timing ---------------------------------------------------------------------------------- */

static void wait_for_device()
{
    cudaError_t status = cudaDeviceSynchronize();
    if (status != cudaSuccess)
        fail(cudaGetErrorString(status), status);
}

static double run_batch(const Way &way)
{
    uint64_t last;
    auto begin = std::chrono::steady_clock::now();
    for (int i = 0; i < launches_per_batch; i++) {
        if (way.external)
            (void)cupti.push_external(CP_EXTERNAL_CUSTOM0, i + 1);
        empty<<<1, 1>>>();
        if (way.external)
            (void)cupti.pop_external(CP_EXTERNAL_CUSTOM0, &last);
    }
    auto end = std::chrono::steady_clock::now();
    wait_for_device();
    return std::chrono::duration<double, std::nano>(end - begin).count() / launches_per_batch;
}

/* The value below which `part` of the values lie: 0.5 for the median. */
static double quantile(std::vector<double> values, double part)
{
    std::sort(values.begin(), values.end());
    return values[(size_t)(part * (values.size() - 1) + 0.5)];
}

static double run_way(const Way &way)
{
    std::vector<double> times;
    switch_way(way, true);
    for (int i = -2; i < batches_per_round; i++) {
        double time = run_batch(way);
        if (i >= 0)
            times.push_back(time);
    }
    switch_way(way, false);
    (void)cupti.flush_all(1);
    return quantile(times, 0.5);
}

static void compare_ways(const char *clock, int rounds)
{
    std::vector<std::vector<double>> times(ways.size());
    for (int round = -1; round < rounds; round++)
        for (size_t i = 0; i < ways.size(); i++) {
            size_t way = (i + round + 1) % ways.size();
            double time = run_way(ways[way]);
            if (round >= 0)
                times[way].push_back(time);
        }
    std::printf("%-32s %9s %9s %9s %9s %9s   times by %s, %d rounds\n", "", "median", "least",
                "more", "quarter", "3 quarter", clock, rounds);
    for (size_t way = 0; way < ways.size(); way++) {
        std::vector<double> more;
        for (int round = 0; round < rounds; round++)
            more.push_back(times[way][round] - times[0][round]);
        std::printf("%-32s %9.0f %9.0f %9.0f %9.0f %9.0f\n", ways[way].name,
                    quantile(times[way], 0.5), quantile(times[way], 0), quantile(more, 0.5),
                    quantile(more, 0.25), quantile(more, 0.75));
    }
}

static void stay_on_this_cpu()
{
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(sched_getcpu(), &one);
    if (sched_setaffinity(0, sizeof one, &one) != 0)
        std::perror("kinds: sched_setaffinity");
}

int main(int argc, char **argv)
{
    int rounds = argc > 2 ? std::atoi(argv[2]) : 5;
    if (argc < 2) {
        std::fprintf(stderr, "usage: kinds LIBCUPTI [ROUNDS]\n");
        return 2;
    }
    open_cupti(argv[1]);
    wait_for_device();
    uint8_t on = getenv("SHARED_BUFFERS") == NULL;
    size_t size = sizeof on;
    (void)cupti.set_attribute(CP_ATTRIBUTE_PER_THREAD_BUFFER, &size, &on);
    cp_result result = cupti.register_callbacks(request_buffer, complete_buffer);
    if (result != CP_SUCCESS)
        fail("cuptiActivityRegisterCallbacks", result);
    (void)cupti.set_thread_id_type(CP_THREAD_ID_SYSTEM);
    if (cupti.subscribe(&subscriber, on_call, NULL) != CP_SUCCESS)
        fail("cuptiSubscribe", 0);
    (void)run_way(ways.back()); /* CUPTI starts threads, which are not to stay on our CPU */
    stay_on_this_cpu();
    compare_ways("CUPTI", rounds);
    (void)cupti.timestamp_callback(read_ticks);
    compare_ways("rdtsc", rounds);
    std::printf("%zu bytes of records, %llu callbacks\n", bytes_received,
                (unsigned long long)callbacks);
    return 0;
}
