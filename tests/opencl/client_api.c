/* What the OpenCL API tells a program about its queues, events and mistakes. Nothing printed here
 * may depend on time. */
#include "client.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static void say_array(cl_command_queue queue)
{
    cl_queue_properties array[16] = {0};
    size_t size = 99;
    cl_int status =
        clGetCommandQueueInfo(queue, CL_QUEUE_PROPERTIES_ARRAY, sizeof array, array, &size);

    printf("  array: status %d size %zu:", status, size);
    for (size_t i = 0; status == CL_SUCCESS && i < size / sizeof array[0]; i++)
        printf(" %llx", (unsigned long long)array[i]);
    printf("\n  array into one byte: %d\n",
           clGetCommandQueueInfo(queue, CL_QUEUE_PROPERTIES_ARRAY, 1, array, NULL));
}

static void say_queue(const char *words, cl_command_queue queue, cl_int status)
{
    cl_command_queue_properties properties = 77;
    cl_uint references = 77;
    size_t size = 77;

    printf("%s: status %d\n", words, status);
    if (status != CL_SUCCESS)
        return;
    status =
        clGetCommandQueueInfo(queue, CL_QUEUE_PROPERTIES, sizeof properties, &properties, &size);
    printf("  properties: status %d value %llx size %zu\n", status, (unsigned long long)properties,
           size);
    printf("  properties into one byte: %d\n",
           clGetCommandQueueInfo(queue, CL_QUEUE_PROPERTIES, 1, &properties, &size));
    size = 77;
    status = clGetCommandQueueInfo(queue, CL_QUEUE_PROPERTIES, 0, NULL, &size);
    printf("  size only: status %d size %zu\n", status, size);
    say_array(queue);
    clGetCommandQueueInfo(queue, CL_QUEUE_REFERENCE_COUNT, sizeof references, &references, NULL);
    printf("  references %u\n", references);
    printf("  unknown question: %d\n", clGetCommandQueueInfo(queue, 0x9999, 0, NULL, NULL));
}

static void say_made(const client *c, const char *words, const cl_queue_properties *list)
{
    cl_int status = 77;
    cl_command_queue queue =
        clCreateCommandQueueWithProperties(c->context, c->device, list, &status);

    say_queue(words, queue, status);
    if (queue)
        clReleaseCommandQueue(queue);
}

static void say_old(const client *c, const char *words, cl_command_queue_properties properties)
{
    cl_int status = 77;
    cl_command_queue queue = clCreateCommandQueue(c->context, c->device, properties, &status);

    say_queue(words, queue, status);
    if (queue)
        clReleaseCommandQueue(queue);
}

void client_say_queues(const client *c)
{
    const cl_queue_properties nothing[] = {0};
    const cl_queue_properties zero[] = {CL_QUEUE_PROPERTIES, 0, 0};
    const cl_queue_properties profiling[] = {CL_QUEUE_PROPERTIES, CL_QUEUE_PROFILING_ENABLE, 0};
    const cl_queue_properties unordered[] = {CL_QUEUE_PROPERTIES,
                                             CL_QUEUE_OUT_OF_ORDER_EXEC_MODE_ENABLE, 0};
    const cl_queue_properties wrong[] = {0x9999, 1, 0};
    const cl_queue_properties bad[] = {CL_QUEUE_PROPERTIES, 1 << 20, 0};
    cl_int status = 77;

    say_old(c, "old, 0", 0);
    say_old(c, "old, profiling", CL_QUEUE_PROFILING_ENABLE);
    say_old(c, "old, out of order", CL_QUEUE_OUT_OF_ORDER_EXEC_MODE_ENABLE);
    say_old(c, "old, nonsense", 1 << 20);
    say_made(c, "no list", NULL);
    say_made(c, "empty list", nothing);
    say_made(c, "list, 0", zero);
    say_made(c, "list, profiling", profiling);
    say_made(c, "list, out of order", unordered);
    say_made(c, "list, unknown property", wrong);
    say_made(c, "list, nonsense", bad);
    printf("no context: %d\n", (clCreateCommandQueue(NULL, c->device, 0, &status), status));
    printf("no device: %d\n",
           (clCreateCommandQueueWithProperties(c->context, NULL, NULL, &status), status));
}

/* ---- events ---------------------------------------------------------------------------------- */

static void say_event(const char *words, cl_event event, cl_command_queue queue)
{
    static const cl_profiling_info what[] = {
        CL_PROFILING_COMMAND_QUEUED, CL_PROFILING_COMMAND_SUBMIT, CL_PROFILING_COMMAND_START,
        CL_PROFILING_COMMAND_END, 0x9999};
    cl_ulong times[5] = {0};
    cl_uint references = 77;
    cl_command_queue its = NULL;
    cl_command_type type = 77;
    cl_int status = 77, rising = 1;
    size_t size = 77;

    clGetEventInfo(event, CL_EVENT_REFERENCE_COUNT, sizeof references, &references, NULL);
    clGetEventInfo(event, CL_EVENT_COMMAND_QUEUE, sizeof its, &its, NULL);
    clGetEventInfo(event, CL_EVENT_COMMAND_TYPE, sizeof type, &type, NULL);
    clGetEventInfo(event, CL_EVENT_COMMAND_EXECUTION_STATUS, sizeof status, &status, &size);
    printf("%s: references %u own queue %d type %x status %d size %zu\n", words, references,
           its == queue, type, status, size);
    for (int i = 0; i < 5; i++) {
        size = 77;
        status = clGetEventProfilingInfo(event, what[i], sizeof times[i], &times[i], &size);
        printf("  time %d: status %d size %zu given %d\n", i, status, size, times[i] != 0);
        rising &= i == 0 || i == 4 || times[i] >= times[i - 1];
    }
    printf("  times rise: %d, into one byte: %d\n", rising,
           clGetEventProfilingInfo(event, what[0], 1, &times[0], NULL));
}

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t called = PTHREAD_COND_INITIALIZER;
static int calls, last_status;

static void CL_CALLBACK on_event(cl_event event, cl_int status, void *user)
{
    (void)event;
    pthread_mutex_lock(&lock);
    calls += *(int *)user;
    last_status = status;
    pthread_cond_signal(&called);
    pthread_mutex_unlock(&lock);
}

static void say_callback(const client *c, cl_command_queue queue)
{
    cl_kernel kernel = client_kernel(c, "scale");
    cl_int status;
    cl_event gate = clCreateUserEvent(c->context, &status), event = NULL;
    size_t n = N;
    static int weight = 1;

    clEnqueueNDRangeKernel(queue, kernel, 1, NULL, &n, NULL, 1, &gate, &event);
    clSetEventCallback(event, CL_COMPLETE, on_event, &weight);
    printf("before the gate: %d calls\n", calls);
    clSetUserEventStatus(gate, CL_COMPLETE);
    clWaitForEvents(1, &event);
    pthread_mutex_lock(&lock);
    while (calls == 0)
        pthread_cond_wait(&called, &lock);
    printf("after the gate: %d calls, status %d\n", calls, last_status);
    pthread_mutex_unlock(&lock);
    calls = 0;
    say_event("user event", gate, NULL);
    clReleaseEvent(gate);
    clReleaseEvent(event);
    clReleaseKernel(kernel);
}

static void say_queue_events(const client *c, const char *words,
                             cl_command_queue_properties properties)
{
    cl_command_queue queue = client_queue(c, properties);
    cl_kernel kernel = client_kernel(c, "scale");
    cl_event event = NULL, marker = NULL;

    printf("events of a queue, %s\n", words);
    client_launch(queue, kernel, &event);
    clFinish(queue);
    usleep(20000); /* the driver itself holds the event a moment longer */
    say_event("finished kernel", event, queue);
    clRetainEvent(event);
    say_event("retained once", event, queue);
    clReleaseEvent(event);
    clReleaseEvent(event);
    clEnqueueMarker(queue, &marker);
    clWaitForEvents(1, &marker);
    usleep(20000);
    say_event("marker", marker, queue);
    clReleaseEvent(marker);
    say_callback(c, queue);
    clReleaseKernel(kernel);
    clReleaseCommandQueue(queue);
}

void client_say_events(const client *c)
{
    say_queue_events(c, "0", 0);
    say_queue_events(c, "profiling", CL_QUEUE_PROFILING_ENABLE);
    say_queue_events(c, "out of order", CL_QUEUE_OUT_OF_ORDER_EXEC_MODE_ENABLE);
}

/* ---- mistakes -------------------------------------------------------------------------------- */

void client_say_errors(const client *c)
{
    cl_command_queue queue = client_queue(c, 0);
    cl_kernel kernel = client_kernel(c, "scale");
    cl_event untouched = (cl_event)(uintptr_t)16, event = untouched;
    size_t n = N;
    float values[4] = {0};
    cl_int status = 77;

    printf("queue NULL: %d\n",
           clEnqueueNDRangeKernel(NULL, kernel, 1, NULL, &n, NULL, 0, NULL, &event));
    printf("no dimensions: %d\n",
           clEnqueueNDRangeKernel(queue, kernel, 0, NULL, &n, NULL, 0, NULL, &event));
    printf("five dimensions: %d\n",
           clEnqueueNDRangeKernel(queue, kernel, 5, NULL, &n, NULL, 0, NULL, NULL));
    printf("read out of bounds: %d\n",
           clEnqueueReadBuffer(queue, c->a, CL_TRUE, N * 100, 16, values, 0, NULL, &event));
    printf("map out of bounds: %d\n", clEnqueueMapBuffer(queue, c->a, CL_TRUE, CL_MAP_READ, N * 100,
                                                         16, 0, NULL, &event, &status) == NULL);
    printf("status %d\n", status);
    printf("event untouched: %d\n", event == untouched);
    printf("release NULL: %d %d\n", clReleaseEvent(NULL), clReleaseCommandQueue(NULL));
    printf("finish NULL: %d\n", clFinish(NULL));
    printf("event info of NULL: %d %d\n",
           clGetEventInfo(NULL, CL_EVENT_REFERENCE_COUNT, sizeof status, &status, NULL),
           clGetEventProfilingInfo(NULL, CL_PROFILING_COMMAND_END, 0, NULL, NULL));
    clReleaseKernel(kernel);
    clReleaseCommandQueue(queue);
}
