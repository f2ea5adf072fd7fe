/* A program that uses OpenCL in the way its first argument says, and prints what OpenCL returned:
 * the same text, byte for byte, with and without a layer underneath. */
#include "client.h"

#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static const char source[] =
    "__kernel void scale(__global float *a, __global float *b)\n"
    "{ size_t i = get_global_id(0); b[i] = a[i] * 2.0f + 1.0f; }\n"
    "__kernel void spin(__global float *a, __global float *b)\n"
    "{ size_t i = get_global_id(0); float x = a[i];\n"
    "  for (int k = 0; k < 400000; k++) x = x * 0.999f + 1.0f; b[i] = x; }\n"
    "__kernel void "
    "with_a_rather_long_name_0123456789_0123456789_0123456789_0123456789_0123456789_0123456789"
    "(__global float *a, __global float *b)\n"
    "{ size_t i = get_global_id(0); b[i] = a[i]; }\n";

void client_check(cl_int status, const char *what)
{
    if (status != CL_SUCCESS) {
        fprintf(stderr, "%s: %d\n", what, status);
        exit(1);
    }
}

void client_open(client *c)
{
    cl_int status;
    const char *text = source;

    if (clGetPlatformIDs(1, &c->platform, NULL) != CL_SUCCESS ||
        clGetDeviceIDs(c->platform, CL_DEVICE_TYPE_ALL, 1, &c->device, NULL) != CL_SUCCESS) {
        fprintf(stderr, "no OpenCL device here\n");
        exit(77);
    }
    c->context = clCreateContext(NULL, 1, &c->device, NULL, NULL, &status);
    client_check(status, "clCreateContext");
    c->program = clCreateProgramWithSource(c->context, 1, &text, NULL, &status);
    client_check(status, "clCreateProgramWithSource");
    client_check(clBuildProgram(c->program, 1, &c->device, "", NULL, NULL), "clBuildProgram");
    c->a = clCreateBuffer(c->context, CL_MEM_READ_WRITE, N * sizeof(float), NULL, &status);
    client_check(status, "clCreateBuffer");
    c->b = clCreateBuffer(c->context, CL_MEM_READ_WRITE, N * sizeof(float), NULL, &status);
    client_check(status, "clCreateBuffer");
}

void client_close(client *c)
{
    clReleaseMemObject(c->a);
    clReleaseMemObject(c->b);
    clReleaseProgram(c->program);
    clReleaseContext(c->context);
}

cl_kernel client_kernel(const client *c, const char *name)
{
    cl_int status;
    cl_kernel kernel = clCreateKernel(c->program, name, &status);

    client_check(status, "clCreateKernel");
    client_check(clSetKernelArg(kernel, 0, sizeof c->a, &c->a), "clSetKernelArg");
    client_check(clSetKernelArg(kernel, 1, sizeof c->b, &c->b), "clSetKernelArg");
    return kernel;
}

void client_launch(cl_command_queue queue, cl_kernel kernel, cl_event *event)
{
    size_t n = N;

    client_check(clEnqueueNDRangeKernel(queue, kernel, 1, NULL, &n, NULL, 0, NULL, event),
                 "clEnqueueNDRangeKernel");
}

cl_command_queue client_queue(const client *c, cl_command_queue_properties properties)
{
    cl_int status;
    cl_command_queue queue = clCreateCommandQueue(c->context, c->device, properties, &status);

    client_check(status, "clCreateCommandQueue");
    return queue;
}

/* ---- the ways -------------------------------------------------------------------------------- */

static int launches = 200;

static void many(const client *c, cl_command_queue queue)
{
    cl_kernel kernel = client_kernel(c, "scale");
    cl_kernel other = client_kernel(c, "with_a_rather_long_name_0123456789_0123456789_0123456789_"
                                       "0123456789_0123456789_0123456789");

    for (int i = 0; i < launches; i++)
        client_launch(queue, i % 10 ? kernel : other, NULL);
    client_check(clFinish(queue), "clFinish");
    clReleaseKernel(kernel);
    clReleaseKernel(other);
}

static void way_props0(const client *c)
{
    cl_command_queue queue = client_queue(c, 0);

    many(c, queue);
    clReleaseCommandQueue(queue);
}

static void way_with_properties(const client *c)
{
    cl_int status;
    cl_queue_properties list[] = {CL_QUEUE_PROPERTIES, CL_QUEUE_OUT_OF_ORDER_EXEC_MODE_ENABLE, 0};
    cl_command_queue first =
        clCreateCommandQueueWithProperties(c->context, c->device, NULL, &status);
    client_check(status, "clCreateCommandQueueWithProperties");
    cl_command_queue second =
        clCreateCommandQueueWithProperties(c->context, c->device, list, &status);
    client_check(status, "clCreateCommandQueueWithProperties");

    many(c, first);
    many(c, second);
    clReleaseCommandQueue(first);
    clReleaseCommandQueue(second);
}

static void *thread_main(void *argument)
{
    way_props0(argument);
    return NULL;
}

static void way_threads(const client *c)
{
    pthread_t threads[4];

    for (int i = 0; i < 4; i++)
        pthread_create(&threads[i], NULL, thread_main, (void *)(uintptr_t)c);
    for (int i = 0; i < 4; i++)
        pthread_join(threads[i], NULL);
}

/* A queue per task, many times: drivers give handles out again. */
static void way_many_queues(const client *c)
{
    launches = 2;
    for (int i = 0; i < 300; i++)
        way_props0(c);
}

static void way_fork(const client *c)
{
    cl_command_queue queue = client_queue(c, 0);
    cl_kernel kernel = client_kernel(c, "scale");
    int status = 0;

    client_launch(queue, kernel, NULL);
    fflush(stdout);
    pid_t child = fork();
    if (child == 0)
        exit(3);
    waitpid(child, &status, 0);
    printf("child ended with %d\n", WEXITSTATUS(status));
    many(c, queue);
    clReleaseKernel(kernel);
    clReleaseCommandQueue(queue);
}

/* Returns while the first of many long kernels runs: the driver is past compiling them, which it
 * does not survive during exit. */
static void leave_running(const client *c)
{
    cl_command_queue queue = client_queue(c, 0);
    cl_kernel kernel = client_kernel(c, "spin");
    cl_event first = NULL;
    cl_int status = CL_QUEUED;

    for (int i = 0; i < 20; i++)
        client_launch(queue, kernel, i ? NULL : &first);
    clFlush(queue);
    while (status > CL_RUNNING) {
        usleep(1000);
        client_check(
            clGetEventInfo(first, CL_EVENT_COMMAND_EXECUTION_STATUS, sizeof status, &status, NULL),
            "clGetEventInfo");
    }
    usleep(20000);
}

static void way_exit_running(const client *c)
{
    leave_running(c);
    printf("going\n");
    exit(5);
}

static void way_quick_exit(const client *c)
{
    way_props0(c);
    leave_running(c);
    printf("going\n");
    fflush(stdout);
    _exit(6);
}

/* Dies as if by `kill -9`, with commands done and commands under way. */
static void way_killed(const client *c)
{
    way_props0(c);
    leave_running(c);
    printf("going\n");
    fflush(stdout);
    kill(getpid(), SIGKILL);
}

static void way_all(const client *c) { client_all_commands(c); }

static void way_extensions(const client *c) { client_use_extensions(c); }

static void way_api(const client *c)
{
    client_say_queues(c);
    client_say_events(c);
    client_say_errors(c);
}

static const struct way {
    const char *name;
    void (*run)(const client *);
} ways[] = {
    {"props0", way_props0},
    {"with_properties", way_with_properties},
    {"threads", way_threads},
    {"many_queues", way_many_queues},
    {"fork", way_fork},
    {"exit_running", way_exit_running},
    {"quick_exit", way_quick_exit},
    {"killed", way_killed},
    {"all", way_all},
    {"api", way_api},
    {"extensions", way_extensions},
};

int main(int argc, char **argv)
{
    client c;

    if (argc > 2)
        launches = atoi(argv[2]);
    for (size_t i = 0; argc > 1 && i < sizeof ways / sizeof ways[0]; i++) {
        if (strcmp(ways[i].name, argv[1]) == 0) {
            client_open(&c);
            ways[i].run(&c);
            client_close(&c);
            printf("done\n");
            return 0;
        }
    }
    fprintf(stderr, "usage: client WAY [LAUNCHES]\n");
    return 2;
}
