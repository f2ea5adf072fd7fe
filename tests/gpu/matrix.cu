/* Work whose truth is known: vector additions, copies of all kinds and sizes, memsets, several
 * streams, graphs, events. Prints one JSON line per piece: what it was, how often, how long by CUDA
 * events; tests/gpu/compare.py compares a trace with them. Usage: matrix [FILE], which gets the lines
 * instead of the standard output. */
#include <cuda_runtime.h>

#include <cstdio>
#include <cstdlib>
#include <vector>

#define CHECK(call)                                                                                \
    do {                                                                                           \
        cudaError_t status = (call);                                                               \
        if (status != cudaSuccess) {                                                               \
            std::fprintf(stderr, "%s: %s\n", #call, cudaGetErrorString(status));                   \
            std::exit(2);                                                                          \
        }                                                                                          \
    } while (0)

__global__ void vector_add(const float *a, const float *b, float *c, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        c[i] = a[i] + b[i];
}

__device__ void pass_time(long long length_ns)
{
    long long begin, now;
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(begin));
    do {
        asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now));
    } while (now - begin < length_ns);
}

/* Runs for about the given time, whatever the frequency of the clock. */
__global__ void spin(long long length_ns) { pass_time(length_ns); }

/* The same under another name: work before what is timed. */
__global__ void delay(long long length_ns) { pass_time(length_ns); }

static void say(const char *what, const char *name, int count, double ns, size_t bytes)
{
    std::printf("{\"what\":\"%s\",\"name\":\"%s\",\"count\":%d,\"ns\":%.0f,\"bytes\":%zu}\n", what, name,
                count, ns, bytes);
}

struct Clock {
    cudaEvent_t begin, end;
    cudaStream_t stream;
    explicit Clock(cudaStream_t s = nullptr) : stream(s)
    {
        CHECK(cudaEventCreate(&begin));
        CHECK(cudaEventCreate(&end));
    }
    ~Clock()
    {
        cudaEventDestroy(begin);
        cudaEventDestroy(end);
    }
    void start() { CHECK(cudaEventRecord(begin, stream)); }
    double stop_ns()
    {
        float ms = 0;
        CHECK(cudaEventRecord(end, stream));
        CHECK(cudaEventSynchronize(end));
        CHECK(cudaEventElapsedTime(&ms, begin, end));
        return ms * 1e6;
    }
};

static void additions(int n, int times)
{
    float *a, *b, *c;
    size_t bytes = n * sizeof(float);
    CHECK(cudaMalloc(&a, bytes));
    CHECK(cudaMalloc(&b, bytes));
    CHECK(cudaMalloc(&c, bytes));
    CHECK(cudaMemset(a, 0, bytes));
    CHECK(cudaMemset(b, 0, bytes));
    vector_add<<<(n + 255) / 256, 256>>>(a, b, c, n); /* warm */
    CHECK(cudaDeviceSynchronize());
    for (int i = 0; i < times; i++) {
        vector_add<<<(n + 255) / 256, 256>>>(a, b, c, n);
        CHECK(cudaDeviceSynchronize());
    }
    say("kernel", "vector_add", times + 1, 0, 0);
    say("memset", "Memset (Device)", 2, 0, bytes);
    CHECK(cudaFree(a));
    CHECK(cudaFree(b));
    CHECK(cudaFree(c));
}

/* Long enough that what CUDA events add to it does not matter. Events and kernels are queued while the
 * device is busy, so that a slow host does not lengthen the time between the events. */
static void spins(int times, long long length_ns)
{
    Clock clock;
    spin<<<1, 1>>>(length_ns);
    CHECK(cudaDeviceSynchronize());
    for (int i = 0; i < times; i++) {
        delay<<<1, 1>>>(200000);
        clock.start();
        spin<<<1, 1>>>(length_ns);
        say("timed", "spin", 1, clock.stop_ns(), 0);
    }
    say("kernel", "spin", times + 1, 0, 0);
    say("kernel", "delay", times, 0, 0);
}

static void copies(size_t bytes)
{
    void *device, *other, *pinned, *pageable = std::malloc(bytes);
    CHECK(cudaMalloc(&device, bytes));
    CHECK(cudaMalloc(&other, bytes));
    CHECK(cudaMallocHost(&pinned, bytes));
    CHECK(cudaMemcpy(device, pinned, bytes, cudaMemcpyHostToDevice));
    say("memcpy", "Memcpy HtoD (Pinned -> Device)", 1, 0, bytes);
    CHECK(cudaMemcpy(pinned, device, bytes, cudaMemcpyDeviceToHost));
    say("memcpy", "Memcpy DtoH (Device -> Pinned)", 1, 0, bytes);
    CHECK(cudaMemcpy(device, pageable, bytes, cudaMemcpyHostToDevice));
    say("memcpy", "Memcpy HtoD (Pageable -> Device)", 1, 0, bytes);
    CHECK(cudaMemcpy(other, device, bytes, cudaMemcpyDeviceToDevice));
    say("memcpy", "Memcpy DtoD (Device -> Device)", 1, 0, bytes);
    CHECK(cudaDeviceSynchronize());
    CHECK(cudaFree(device));
    CHECK(cudaFree(other));
    CHECK(cudaFreeHost(pinned));
    std::free(pageable);
}

static void streams(int count, int each, long long length_ns)
{
    std::vector<cudaStream_t> all(count);
    cudaEvent_t event;
    CHECK(cudaEventCreateWithFlags(&event, cudaEventDisableTiming));
    for (auto &stream : all)
        CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    for (int i = 0; i < each; i++)
        for (auto &stream : all)
            spin<<<1, 32, 0, stream>>>(length_ns);
    CHECK(cudaEventRecord(event, all[0]));
    CHECK(cudaStreamWaitEvent(all[count - 1], event, 0));
    for (auto &stream : all)
        CHECK(cudaStreamSynchronize(stream));
    for (auto &stream : all)
        CHECK(cudaStreamDestroy(stream));
    CHECK(cudaEventDestroy(event));
    say("streams", "spin", count * each, 0, (size_t)count);
}

static void graphs(int nodes, int launches)
{
    cudaStream_t stream;
    cudaGraph_t graph;
    cudaGraphExec_t exec;
    CHECK(cudaStreamCreate(&stream));
    CHECK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
    for (int i = 0; i < nodes; i++)
        spin<<<1, 64, 0, stream>>>(1000);
    CHECK(cudaStreamEndCapture(stream, &graph));
#if CUDART_VERSION >= 12000
    CHECK(cudaGraphInstantiate(&exec, graph, 0));
#else
    CHECK(cudaGraphInstantiate(&exec, graph, nullptr, nullptr, 0));
#endif
    for (int i = 0; i < launches; i++)
        CHECK(cudaGraphLaunch(exec, stream));
    CHECK(cudaStreamSynchronize(stream));
    CHECK(cudaGraphExecDestroy(exec));
    CHECK(cudaGraphDestroy(graph));
    CHECK(cudaStreamDestroy(stream));
    say("graph", "spin", nodes * launches, 0, (size_t)launches);
}

int main(int argc, char **argv)
{
    if (argc > 1 && !std::freopen(argv[1], "w", stdout)) {
        std::perror(argv[1]);
        return 2;
    }
    CHECK(cudaSetDevice(0));
    additions(1 << 20, 100);
    spins(50, 1000000);
    for (size_t bytes = 4096; bytes <= (size_t)64 << 20; bytes *= 16)
        copies(bytes);
    streams(4, 25, 25000);
    graphs(10, 20);
    CHECK(cudaDeviceSynchronize());
    return 0;
}
