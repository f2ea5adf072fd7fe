// A HIP program whose work is known: tests/gpu/rocm_counts.py has the counts.
#include <hip/hip_runtime.h>

#include <cstdio>
#include <cstdlib>

#define CHECK(call)                                                                                \
    do {                                                                                           \
        hipError_t status = call;                                                                  \
        if (status != hipSuccess) {                                                                \
            std::fprintf(stderr, "%s: %s\n", #call, hipGetErrorString(status));                    \
            std::exit(1);                                                                          \
        }                                                                                          \
    } while (0)

// Busy for about this many ticks of the GPU's constant clock (100 MHz).
__global__ void spin(long long ticks)
{
    long long start = wall_clock64();
    while (wall_clock64() - start < ticks)
        ;
}
template <typename T> __global__ void scale(T *data, T factor)
{
    data[blockIdx.x * blockDim.x + threadIdx.x] *= factor;
}

int main()
{
    const size_t count = 1 << 20, bytes = count * sizeof(float);
    float *host, *device;
    hipStream_t streams[2];
    CHECK(hipHostMalloc(reinterpret_cast<void **>(&host), bytes, hipHostMallocDefault));
    CHECK(hipMalloc(reinterpret_cast<void **>(&device), bytes));
    for (auto &stream : streams)
        CHECK(hipStreamCreate(&stream));
    CHECK(hipMemcpy(device, host, bytes, hipMemcpyHostToDevice));
    for (int i = 0; i < 100; i++)
        scale<float><<<count / 256, 256, 0, streams[i % 2]>>>(device, 1.5f);
    CHECK(hipDeviceSynchronize());
    for (int i = 0; i < 10; i++)
        spin<<<1, 64>>>(100000); // 1 ms
    CHECK(hipMemcpy(host, device, bytes, hipMemcpyDeviceToHost));
    CHECK(hipDeviceSynchronize());

    hipGraph_t graph;
    hipGraphExec_t executable;
    CHECK(hipStreamBeginCapture(streams[0], hipStreamCaptureModeThreadLocal));
    for (int i = 0; i < 5; i++)
        scale<double><<<4, 64, 0, streams[0]>>>(reinterpret_cast<double *>(device), 1.0);
    CHECK(hipStreamEndCapture(streams[0], &graph));
    CHECK(hipGraphInstantiate(&executable, graph, nullptr, nullptr, 0));
    for (int i = 0; i < 3; i++)
        CHECK(hipGraphLaunch(executable, streams[0]));
    CHECK(hipDeviceSynchronize());
    CHECK(hipFree(device));
    std::puts("done");
    return 0;
}
