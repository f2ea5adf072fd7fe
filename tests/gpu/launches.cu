/* The cost of a launch on the host: batches of empty kernels, each shorter than the queue of
 * launches, so that no launch waits for the device. Prints one JSON line: the medians over the
 * batches in ns per launch, of the launches alone (median_ns) and with the wait for the device
 * (wall_ns), during which a profiler does deferred work. Usage: launches [BATCHES], default 200. */
#include <cuda_runtime.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <sched.h>
#include <vector>

using steady = std::chrono::steady_clock;

static const int launches_per_batch = 500, warm_up_batches = 20;

__global__ void empty() {}

static void wait_for_device()
{
    cudaError_t status = cudaDeviceSynchronize();
    if (status == cudaSuccess)
        return;
    std::fprintf(stderr, "launches: %s\n", cudaGetErrorString(status));
    std::exit(2);
}

static double ns_per_launch(steady::time_point begin, steady::time_point end)
{
    return std::chrono::duration<double, std::nano>(end - begin).count() / launches_per_batch;
}

static double median_of(std::vector<double> values)
{
    std::sort(values.begin(), values.end());
    return values[values.size() / 2];
}

/* Other CPUs have other speeds. Threads of the driver and of a profiler exist by now. */
static void stay_on_this_cpu()
{
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(sched_getcpu(), &one);
    if (sched_setaffinity(0, sizeof one, &one) != 0)
        std::perror("launches: sched_setaffinity");
}

int main(int argc, char **argv)
{
    int batches = argc > 1 ? std::atoi(argv[1]) : 200;
    std::vector<double> launch_ns, wall_ns;
    for (int b = -warm_up_batches; b < batches; b++) {
        steady::time_point begin = steady::now();
        for (int i = 0; i < launches_per_batch; i++)
            empty<<<1, 1>>>();
        steady::time_point launched = steady::now();
        wait_for_device();
        if (b == -warm_up_batches)
            stay_on_this_cpu();
        if (b < 0)
            continue;
        launch_ns.push_back(ns_per_launch(begin, launched));
        wall_ns.push_back(ns_per_launch(begin, steady::now()));
    }
    std::printf("{\"launches\":%d,\"median_ns\":%.1f,\"wall_ns\":%.1f}\n",
                (batches + warm_up_batches) * launches_per_batch, median_of(launch_ns),
                median_of(wall_ns));
    return 0;
}
