/* Commands of extensions, whose functions a program requests by name: unified shared memory and
 * command buffers. It prints how many of each the driver took, or that a device has none. */
#include "client.h"

#include <stdio.h>
#include <string.h>

typedef void *CL_API_CALL allocate_host(cl_context, const cl_ulong *, size_t, cl_uint, cl_int *);
typedef void *CL_API_CALL allocate_device(cl_context, cl_device_id, const cl_ulong *, size_t,
                                          cl_uint, cl_int *);
typedef cl_int CL_API_CALL copy_memory(cl_command_queue, cl_bool, void *, const void *, size_t,
                                       cl_uint, const cl_event *, cl_event *);
typedef cl_int CL_API_CALL fill_memory(cl_command_queue, void *, const void *, size_t, size_t,
                                       cl_uint, const cl_event *, cl_event *);
typedef cl_int CL_API_CALL free_memory(cl_context, void *);

typedef void *CL_API_CALL create_buffer(cl_uint, const cl_command_queue *, const cl_ulong *,
                                        cl_int *);
typedef cl_int CL_API_CALL add_kernel(void *, cl_command_queue, const cl_ulong *, cl_kernel,
                                      cl_uint, const size_t *, const size_t *, const size_t *,
                                      cl_uint, const cl_uint *, cl_uint *, void **);
typedef cl_int CL_API_CALL run_buffer(cl_uint, cl_command_queue *, void *, cl_uint,
                                      const cl_event *, cl_event *);
typedef cl_int CL_API_CALL end_buffer(void *);

/* `function` is a pointer to a pointer to a function. False: the driver has none of that name. */
static bool request(const client *c, const char *name, void *function)
{
    void *address = clGetExtensionFunctionAddressForPlatform(c->platform, name);

    memcpy(function, &address, sizeof address);
    return address != NULL;
}

static bool has_extension(const client *c, const char *name)
{
    char list[16384] = "";

    (void)clGetDeviceInfo(c->device, CL_DEVICE_EXTENSIONS, sizeof list - 1, list, NULL);
    return strstr(list, name) != NULL;
}

static void use_memory(const client *c, cl_command_queue queue)
{
    allocate_host *host;
    allocate_device *device;
    copy_memory *copy;
    fill_memory *fill;
    free_memory *release;
    char plain[4096] = {0};
    cl_int status = 0;

    if (!has_extension(c, "cl_intel_unified_shared_memory") ||
        !request(c, "clHostMemAllocINTEL", &host) ||
        !request(c, "clDeviceMemAllocINTEL", &device) ||
        !request(c, "clEnqueueMemcpyINTEL", &copy) || !request(c, "clEnqueueMemFillINTEL", &fill) ||
        !request(c, "clMemFreeINTEL", &release)) {
        printf("no USM\n");
        return;
    }
    char *one = device(c->context, c->device, NULL, sizeof plain, 0, &status);
    client_check(status, "clDeviceMemAllocINTEL");
    char *two = host(c->context, NULL, sizeof plain, 0, &status);
    client_check(status, "clHostMemAllocINTEL");
    client_check(fill(queue, one, "\5", 1, sizeof plain, 0, NULL, NULL), "clEnqueueMemFillINTEL");
    client_check(clFinish(queue), "clFinish");
    for (int n = 0; n < 3; n++)
        client_check(copy(queue, CL_TRUE, plain, one, sizeof plain, 0, NULL, NULL),
                     "clEnqueueMemcpyINTEL");
    client_check(copy(queue, CL_TRUE, one, two, sizeof plain, 0, NULL, NULL), "copy to the device");
    printf("byte %d\nUSM copies 4 fills 1 allocations 2\n", plain[100]);
    client_check(release(c->context, one), "clMemFreeINTEL");
    client_check(release(c->context, two), "clMemFreeINTEL");
}

static void use_command_buffer(const client *c, cl_command_queue queue)
{
    create_buffer *create;
    add_kernel *add;
    run_buffer *run;
    end_buffer *finalize, *release;
    cl_kernel kernel = client_kernel(c, "scale");
    const size_t n = N;
    cl_int status = 0;

    if (!has_extension(c, "cl_khr_command_buffer") ||
        !request(c, "clCreateCommandBufferKHR", &create) ||
        !request(c, "clCommandNDRangeKernelKHR", &add) ||
        !request(c, "clFinalizeCommandBufferKHR", &finalize) ||
        !request(c, "clReleaseCommandBufferKHR", &release) ||
        !request(c, "clEnqueueCommandBufferKHR", &run)) {
        printf("no command buffers\n");
        return;
    }
    void *buffer = create(1, &queue, NULL, &status);
    client_check(status, "clCreateCommandBufferKHR");
    for (int k = 0; k < 3; k++)
        client_check(add(buffer, NULL, NULL, kernel, 1, NULL, &n, NULL, 0, NULL, NULL, NULL),
                     "clCommandNDRangeKernelKHR");
    client_check(finalize(buffer), "clFinalizeCommandBufferKHR");
    for (int k = 0; k < 5; k++) {
        client_check(run(0, NULL, buffer, 0, NULL, NULL), "clEnqueueCommandBufferKHR");
        client_check(clFinish(queue), "clFinish");
    }
    printf("command buffers 5 of 3\n");
    client_check(release(buffer), "clReleaseCommandBufferKHR");
    clReleaseKernel(kernel);
}

void client_use_extensions(const client *c)
{
    cl_command_queue queue = client_queue(c, 0);

    use_memory(c, queue);
    use_command_buffer(c, queue);
    clReleaseCommandQueue(queue);
}
