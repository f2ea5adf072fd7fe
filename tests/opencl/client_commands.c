/* One command of every sort that enqueues work. What a device cannot do is skipped with a word. */
#include "client.h"

#include <stdio.h>
#include <string.h>

static const cl_image_format format = {CL_RGBA, CL_UNSIGNED_INT8};

static void say(const char *name, cl_int status) { printf("%s %d\n", name, status); }

static void buffers(const client *c, cl_command_queue queue)
{
    float values[N];
    float zero = 0.0f;
    size_t origin[3] = {0, 0, 0}, region[3] = {16, 4, 1};
    cl_int status = 77;
    cl_event event = NULL;

    memset(values, 0, sizeof values);
    say("write",
        clEnqueueWriteBuffer(queue, c->a, CL_TRUE, 0, sizeof values, values, 0, NULL, NULL));
    say("read",
        clEnqueueReadBuffer(queue, c->a, CL_FALSE, 0, sizeof values, values, 0, NULL, &event));
    say("wait", clWaitForEvents(1, &event));
    clReleaseEvent(event);
    say("copy", clEnqueueCopyBuffer(queue, c->a, c->b, 0, 0, sizeof values, 0, NULL, NULL));
    say("fill",
        clEnqueueFillBuffer(queue, c->b, &zero, sizeof zero, 0, sizeof values, 0, NULL, NULL));
    say("write rect", clEnqueueWriteBufferRect(queue, c->a, CL_TRUE, origin, origin, region, 64, 0,
                                               64, 0, values, 0, NULL, NULL));
    say("read rect", clEnqueueReadBufferRect(queue, c->a, CL_TRUE, origin, origin, region, 64, 0,
                                             64, 0, values, 0, NULL, NULL));
    say("copy rect", clEnqueueCopyBufferRect(queue, c->a, c->b, origin, origin, region, 64, 0, 64,
                                             0, 0, NULL, NULL));
    void *mapped =
        clEnqueueMapBuffer(queue, c->a, CL_TRUE, CL_MAP_READ, 0, 256, 0, NULL, NULL, &status);
    say("map", status);
    say("unmap", clEnqueueUnmapMemObject(queue, c->a, mapped, 0, NULL, NULL));
    say("migrate", clEnqueueMigrateMemObjects(queue, 1, &c->a, 0, 0, NULL, NULL));
    say("finish", clFinish(queue));
}

static void images(const client *c, cl_command_queue queue)
{
    cl_image_desc desc = {
        .image_type = CL_MEM_OBJECT_IMAGE2D, .image_width = 16, .image_height = 8};
    size_t origin[3] = {0, 0, 0}, region[3] = {16, 8, 1}, row = 0;
    unsigned char pixels[16 * 8 * 4] = {0};
    cl_uint color[4] = {1, 2, 3, 4};
    cl_int status = 77;
    cl_mem one = clCreateImage(c->context, CL_MEM_READ_WRITE, &format, &desc, NULL, &status);

    say("image", status);
    if (status != CL_SUCCESS)
        return;
    cl_mem two = clCreateImage(c->context, CL_MEM_READ_WRITE, &format, &desc, NULL, &status);
    say("write image",
        clEnqueueWriteImage(queue, one, CL_TRUE, origin, region, 0, 0, pixels, 0, NULL, NULL));
    say("copy image", clEnqueueCopyImage(queue, one, two, origin, origin, region, 0, NULL, NULL));
    say("fill image", clEnqueueFillImage(queue, two, color, origin, region, 0, NULL, NULL));
    say("image to buffer",
        clEnqueueCopyImageToBuffer(queue, one, c->a, origin, region, 0, 0, NULL, NULL));
    say("buffer to image",
        clEnqueueCopyBufferToImage(queue, c->a, two, 0, origin, region, 0, NULL, NULL));
    say("read image",
        clEnqueueReadImage(queue, two, CL_TRUE, origin, region, 0, 0, pixels, 0, NULL, NULL));
    void *mapped = clEnqueueMapImage(queue, two, CL_TRUE, CL_MAP_READ, origin, region, &row, NULL,
                                     0, NULL, NULL, &status);
    say("map image", status);
    if (mapped)
        say("unmap image", clEnqueueUnmapMemObject(queue, two, mapped, 0, NULL, NULL));
    clFinish(queue);
    clReleaseMemObject(one);
    clReleaseMemObject(two);
}

static void shared_memory(const client *c, cl_command_queue queue)
{
    char *memory = clSVMAlloc(c->context, CL_MEM_READ_WRITE, 4096, 0);
    char pattern = 7;

    printf("shared memory %d\n", memory != NULL);
    if (!memory)
        return;
    say("svm fill", clEnqueueSVMMemFill(queue, memory, &pattern, 1, 4096, 0, NULL, NULL));
    say("svm copy", clEnqueueSVMMemcpy(queue, CL_TRUE, memory, memory + 2048, 2048, 0, NULL, NULL));
    say("svm map", clEnqueueSVMMap(queue, CL_TRUE, CL_MAP_READ, memory, 4096, 0, NULL, NULL));
    say("svm unmap", clEnqueueSVMUnmap(queue, memory, 0, NULL, NULL));
    say("finish", clFinish(queue));
    printf("byte %d\n", memory[100]);
    clSVMFree(c->context, memory);
}

static void kernels(const client *c, cl_command_queue queue)
{
    cl_kernel kernel = client_kernel(c, "scale");
    size_t global[3] = {32, 4, 2}, local[3] = {8, 1, 1}, offset[3] = {16, 0, 0};

    say("kernel 3d", clEnqueueNDRangeKernel(queue, kernel, 3, NULL, global, local, 0, NULL, NULL));
    say("kernel offset",
        clEnqueueNDRangeKernel(queue, kernel, 1, offset, global, NULL, 0, NULL, NULL));
    say("task", clEnqueueTask(queue, kernel, 0, NULL, NULL));
    say("marker", clEnqueueMarkerWithWaitList(queue, 0, NULL, NULL));
    say("barrier", clEnqueueBarrierWithWaitList(queue, 0, NULL, NULL));
    say("finish", clFinish(queue));
    clReleaseKernel(kernel);
}

void client_all_commands(const client *c)
{
    cl_command_queue queue = client_queue(c, 0);

    buffers(c, queue);
    images(c, queue);
    shared_memory(c, queue);
    kernels(c, queue);
    clReleaseCommandQueue(queue);
}
