/* A program that uses the CUDA driver alone, in two contexts: copies, memsets and launches of a
 * kernel whose name and number are known. Prints lines for tests/gpu/compare.py as matrix.cu does.
 * Usage: driver [FILE [exit]], which gets the lines instead of the standard output; with `exit` the
 * program ends by _exit, without exit handlers. */
#include <cuda.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <unistd.h>
#include <vector>

#define CHECK(call)                                                                                \
    do {                                                                                           \
        CUresult status = (call);                                                                  \
        const char *text = NULL;                                                                   \
        if (status != CUDA_SUCCESS) {                                                              \
            (void)cuGetErrorString(status, &text);                                                 \
            std::fprintf(stderr, "%s: %s\n", #call, text ? text : "unknown error");                \
            std::exit(2);                                                                          \
        }                                                                                          \
    } while (0)

static const char ptx[] = ".version 7.0\n.target sm_70\n.address_size 64\n"
                          ".visible .entry driver_kernel() { ret; }\n";
static const size_t bytes = (size_t)1 << 20;
static const int contexts = 2, launches = 50;

static void say(const char *what, const char *name, int count, size_t size)
{
    std::printf("{\"what\":\"%s\",\"name\":\"%s\",\"count\":%d,\"ns\":0,\"bytes\":%zu}\n", what, name,
                count, size);
}

static CUcontext create_context(CUdevice device)
{
    CUcontext context;
#if CUDA_VERSION >= 13000
    CHECK(cuCtxCreate(&context, NULL, 0, device));
#else
    CHECK(cuCtxCreate(&context, 0, device));
#endif
    return context;
}

static void use_context(CUcontext context)
{
    CUmodule module;
    CUfunction kernel;
    CUdeviceptr a, b;
    std::vector<char> host(bytes, 1);
    CHECK(cuCtxSetCurrent(context));
    CHECK(cuModuleLoadData(&module, ptx));
    CHECK(cuModuleGetFunction(&kernel, module, "driver_kernel"));
    CHECK(cuMemAlloc(&a, bytes));
    CHECK(cuMemAlloc(&b, bytes));
    CHECK(cuMemcpyHtoD(a, host.data(), bytes));
    CHECK(cuMemcpyDtoD(b, a, bytes));
    CHECK(cuMemsetD32(a, 0, bytes / 4));
    for (int i = 0; i < launches; i++)
        CHECK(cuLaunchKernel(kernel, 1, 1, 1, 32, 1, 1, 0, NULL, NULL, NULL));
    CHECK(cuCtxSynchronize());
    CHECK(cuMemcpyDtoH(host.data(), b, bytes));
}

int main(int argc, char **argv)
{
    CUdevice device;
    if (argc > 1 && !std::freopen(argv[1], "w", stdout)) {
        std::perror(argv[1]);
        return 2;
    }
    CHECK(cuInit(0));
    CHECK(cuDeviceGet(&device, 0));
    for (int i = 0; i < contexts; i++)
        use_context(create_context(device));
    say("kernel", "driver_kernel", contexts * launches, 0);
    say("memcpy", "Memcpy HtoD (Pageable -> Device)", contexts, bytes);
    say("memcpy", "Memcpy DtoD (Device -> Device)", contexts, bytes);
    say("memcpy", "Memcpy DtoH (Device -> Pageable)", contexts, bytes);
    say("memset", "Memset (Device)", contexts, bytes);
    std::fflush(stdout);
    if (argc > 2 && std::strcmp(argv[2], "exit") == 0) {
        sleep(1); /* longer than a recorder leaves records in CUPTI's buffers */
        _exit(0);
    }
    return 0;
}
