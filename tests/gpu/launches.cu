/* What a launch costs the host: empty kernels, many of them, in batches that the device keeps up
 * with. Prints nanoseconds per launch, the median of the batches. */
#include <cuda_runtime.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <vector>

__global__ void empty() {}

int main(int argc, char **argv)
{
    int batches = argc > 1 ? std::atoi(argv[1]) : 200;
    const int each = 500;
    std::vector<double> ns;
    empty<<<1, 1>>>();
    if (cudaDeviceSynchronize() != cudaSuccess)
        return 2;
    for (int b = 0; b < batches; b++) {
        auto begin = std::chrono::steady_clock::now();
        for (int i = 0; i < each; i++)
            empty<<<1, 1>>>();
        auto end = std::chrono::steady_clock::now();
        if (cudaDeviceSynchronize() != cudaSuccess)
            return 2;
        ns.push_back(std::chrono::duration<double, std::nano>(end - begin).count() / each);
    }
    std::sort(ns.begin(), ns.end());
    std::printf("{\"launches\":%d,\"median_ns\":%.1f,\"fastest_ns\":%.1f}\n", batches * each,
                ns[ns.size() / 2], ns[0]);
    return 0;
}
