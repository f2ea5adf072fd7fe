/* A client of the stand-in loader: loader_client KERNELS [MILLISECONDS OF CPU TIME, then until its input
 * ends]. It needs no device. */
#define CL_TARGET_OPENCL_VERSION 120
#include <CL/cl.h>

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

static void compute(long ms)
{
    struct timespec t;
    do {
        clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    } while (t.tv_sec * 1000 + t.tv_nsec / 1000000 < ms);
}

int main(int argc, char **argv)
{
    static const char name[] = "scale";
    int kernels = argc > 1 ? atoi(argv[1]) : 1;
    size_t global = 64;
    cl_platform_id platform;
    cl_device_id device;
    cl_int status;

    if (clGetPlatformIDs(1, &platform, NULL) != CL_SUCCESS ||
        clGetDeviceIDs(platform, CL_DEVICE_TYPE_ALL, 1, &device, NULL) != CL_SUCCESS)
        return 2;
    cl_context context = (cl_context)(uintptr_t)4096;
    cl_command_queue queue = clCreateCommandQueue(context, device, 0, &status);
    for (int i = 0; i < kernels && status == CL_SUCCESS; i++)
        status = clEnqueueNDRangeKernel(queue, (cl_kernel)(uintptr_t)name, 1, NULL, &global, NULL, 0,
                                        NULL, NULL);
    (void)clReleaseCommandQueue(queue);
    if (argc > 2) {
        compute(atol(argv[2]));
        while (getchar() != EOF)
            ;
    }
    return status == CL_SUCCESS ? 0 : 1;
}
