/* A program with many short OpenCL calls: prints how long its loop took, in nanoseconds. */
#define CL_TARGET_OPENCL_VERSION 120
#include <CL/cl.h>

#include <stdio.h>
#include <stdlib.h>
#include <time.h>

static const char *const source = "kernel void tick(global int *x) { x[get_global_id(0)] += 1; }";

static double now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

static void check_code(cl_int code, const char *what)
{
    if (code == CL_SUCCESS)
        return;
    fprintf(stderr, "ocl_calls: %s failed with %d\n", what, code);
    exit(77);
}

static void run_kernel(cl_command_queue queue, cl_kernel kernel, cl_mem buffer, long calls)
{
    size_t one = 1;
    int value = 0;
    for (long i = 0; i < calls; i++) {
        check_code(clEnqueueNDRangeKernel(queue, kernel, 1, NULL, &one, &one, 0, NULL, NULL),
                   "enqueue");
        if (i % 16 == 15)
            check_code(
                clEnqueueReadBuffer(queue, buffer, CL_TRUE, 0, sizeof value, &value, 0, NULL, NULL),
                "read");
    }
    check_code(clFinish(queue), "finish");
}

int main(int argc, char **argv)
{
    long calls = argc > 1 ? atol(argv[1]) : 20000;
    cl_platform_id platform;
    cl_device_id device;
    cl_int code;
    check_code(clGetPlatformIDs(1, &platform, NULL), "platforms");
    check_code(clGetDeviceIDs(platform, CL_DEVICE_TYPE_ALL, 1, &device, NULL), "devices");
    cl_context context = clCreateContext(NULL, 1, &device, NULL, NULL, &code);
    check_code(code, "context");
    cl_command_queue queue = clCreateCommandQueue(context, device, 0, &code);
    check_code(code, "queue");
    cl_program program = clCreateProgramWithSource(context, 1, (const char **)&source, NULL, &code);
    check_code(code, "program");
    check_code(clBuildProgram(program, 1, &device, NULL, NULL, NULL), "build");
    cl_kernel kernel = clCreateKernel(program, "tick", &code);
    check_code(code, "kernel");
    cl_mem buffer = clCreateBuffer(context, CL_MEM_READ_WRITE, sizeof(int), NULL, &code);
    check_code(code, "buffer");
    check_code(clSetKernelArg(kernel, 0, sizeof buffer, &buffer), "arg");
    run_kernel(queue, kernel, buffer, 100);
    double start = now_ns();
    run_kernel(queue, kernel, buffer, calls);
    printf("%.0f\n", now_ns() - start);
    return 0;
}
