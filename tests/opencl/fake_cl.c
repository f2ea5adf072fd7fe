/* See fake_cl.h. */
#include "fake_cl.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

struct _cl_event {
    atomic_int references;
    atomic_int status;
    cl_ulong times[4];
    cl_command_queue queue;
    void(CL_CALLBACK *callback)(cl_event, cl_int, void *);
    void *user;
};
struct _cl_command_queue {
    cl_command_queue_properties properties;
};
struct _cl_device_id {
    int dummy;
};

#define MAX_EVENTS 262144
#define MAX_QUEUES 16384

static fake_cl_behaviour behaviour;
static struct _cl_event *events;
static int event_count;
static atomic_int alive, misuses;
static struct _cl_device_id devices[64];
static int device_number = -1;
static struct _cl_command_queue queues[MAX_QUEUES];
static int queue_count;
static bool reuse_queue;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

int64_t fake_cl_now(void)
{
    struct timespec t;

    clock_gettime(behaviour.clock < 0 ? CLOCK_MONOTONIC_RAW : behaviour.clock, &t);
    int64_t ns = (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
    return behaviour.clock < 0 ? ns + ns / 10000 + 77000000000 : ns;
}

/* ---- information ----------------------------------------------------------------------------- */

static cl_int answer(const void *value, size_t size, size_t room, void *out, size_t *size_ret)
{
    if (out && room < size)
        return CL_INVALID_VALUE;
    if (out)
        memcpy(out, value, size);
    if (size_ret)
        *size_ret = size;
    return CL_SUCCESS;
}

static cl_int CL_API_CALL device_info(cl_device_id device, cl_device_info what, size_t room,
                                      void *out, size_t *size)
{
    static const char name[] = "Fake", version[] = "OpenCL 3.0 fake";
    cl_ulong number = 1;
    cl_device_type type = CL_DEVICE_TYPE_GPU;

    (void)device;
    if (what == CL_DEVICE_NAME)
        return answer(name, sizeof name, room, out, size);
    if (what == CL_DEVICE_VERSION)
        return answer(version, sizeof version, room, out, size);
    if (what == CL_DEVICE_TYPE)
        return answer(&type, sizeof type, room, out, size);
    if (what == CL_DEVICE_PLATFORM)
        return CL_INVALID_VALUE;
    return answer(&number, room < sizeof number ? room : sizeof number, room, out, size);
}

static cl_int CL_API_CALL kernel_info(cl_kernel kernel, cl_kernel_info what, size_t room, void *out,
                                      size_t *size)
{
    const char *name = (const char *)(uintptr_t)kernel;

    (void)what;
    return answer(name, strlen(name) + 1, room, out, size);
}

static cl_int CL_API_CALL queue_info(cl_command_queue queue, cl_command_queue_info what,
                                     size_t room, void *out, size_t *size)
{
    if (what == CL_QUEUE_PROPERTIES)
        return answer(&queue->properties, sizeof queue->properties, room, out, size);
    if (what == CL_QUEUE_PROPERTIES_ARRAY)
        return answer("", 0, room, out, size);
    if (what == CL_QUEUE_CONTEXT) {
        cl_context context = fake_cl_context();
        return answer(&context, sizeof context, room, out, size);
    }
    return CL_INVALID_VALUE;
}

static cl_int CL_API_CALL timers(cl_device_id device, cl_ulong *device_ns, cl_ulong *host_ns)
{
    (void)device;
    *device_ns = *host_ns = (cl_ulong)fake_cl_now();
    return behaviour.has_timer ? CL_SUCCESS : CL_INVALID_OPERATION;
}

/* ---- queues ---------------------------------------------------------------------------------- */

static cl_command_queue CL_API_CALL make_queue(cl_context context, cl_device_id device,
                                               cl_command_queue_properties properties,
                                               cl_int *status)
{
    bool good = !(behaviour.refuse_profiling && (properties & CL_QUEUE_PROFILING_ENABLE));

    (void)context;
    (void)device;
    if (status)
        *status = good ? CL_SUCCESS : CL_INVALID_QUEUE_PROPERTIES;
    if (!good)
        return NULL;
    pthread_mutex_lock(&lock);
    if (!reuse_queue)
        queue_count++;
    reuse_queue = false;
    cl_command_queue queue = &queues[queue_count % MAX_QUEUES];
    queue->properties = properties;
    pthread_mutex_unlock(&lock);
    return queue;
}

static cl_command_queue CL_API_CALL make_queue_with(cl_context context, cl_device_id device,
                                                    const cl_queue_properties *list, cl_int *status)
{
    cl_command_queue_properties properties = 0;

    for (; list && list[0]; list += 2) {
        if (list[0] == CL_QUEUE_PROPERTIES)
            properties = list[1];
    }
    return make_queue(context, device, properties, status);
}

static cl_int CL_API_CALL keep_queue(cl_command_queue queue)
{
    return queue ? CL_SUCCESS : CL_INVALID_COMMAND_QUEUE;
}

/* ---- events ---------------------------------------------------------------------------------- */

static bool usable(cl_event event)
{
    bool good = event && atomic_load(&event->references) > 0;

    if (!good)
        atomic_fetch_add(&misuses, 1);
    return good;
}

static void end(cl_event event)
{
    int64_t now = fake_cl_now();

    event->times[2] = (cl_ulong)(behaviour.reversed_times ? now + 5000 : now - 10);
    event->times[3] = (cl_ulong)now;
    atomic_store(&event->status, behaviour.end_status);
}

static void call(cl_event event)
{
    pthread_mutex_lock(&lock);
    void(CL_CALLBACK * callback)(cl_event, cl_int, void *) = event->callback;
    event->callback = NULL;
    pthread_mutex_unlock(&lock);
    if (callback)
        callback(event, atomic_load(&event->status), event->user);
}

static cl_event make_event(cl_command_queue queue)
{
    pthread_mutex_lock(&lock);
    cl_event event = event_count < MAX_EVENTS ? &events[event_count++] : NULL;
    pthread_mutex_unlock(&lock);
    if (!event)
        abort();
    event->queue = queue;
    atomic_store(&event->references, 1);
    atomic_store(&event->status, CL_QUEUED);
    atomic_fetch_add(&alive, 1);
    event->times[0] = event->times[1] = (cl_ulong)fake_cl_now();
    return event;
}

/* Every enqueue ends here. Without an event of the program there is nothing to keep. */
static cl_int enqueue(cl_command_queue queue, cl_event *event)
{
    if (!queue)
        return CL_INVALID_COMMAND_QUEUE;
    if (!event)
        return CL_SUCCESS;
    *event = make_event(queue);
    if (!behaviour.deferred)
        end(*event);
    return CL_SUCCESS;
}

static cl_int CL_API_CALL nd_range(cl_command_queue queue, cl_kernel kernel, cl_uint dims,
                                   const size_t *offset, const size_t *global, const size_t *local,
                                   cl_uint n, const cl_event *list, cl_event *event)
{
    (void)offset, (void)global, (void)local, (void)n, (void)list, (void)dims;
    return kernel ? enqueue(queue, event) : CL_INVALID_KERNEL;
}

static cl_int CL_API_CALL write_buffer(cl_command_queue queue, cl_mem buffer, cl_bool blocking,
                                       size_t offset, size_t size, const void *host, cl_uint n,
                                       const cl_event *list, cl_event *event)
{
    (void)buffer, (void)blocking, (void)offset, (void)size, (void)host, (void)n, (void)list;
    return enqueue(queue, event);
}

static cl_int CL_API_CALL retain(cl_event event)
{
    if (!usable(event))
        return CL_INVALID_EVENT;
    atomic_fetch_add(&event->references, 1);
    return CL_SUCCESS;
}

static cl_int CL_API_CALL release(cl_event event)
{
    if (!usable(event))
        return CL_INVALID_EVENT;
    if (atomic_fetch_sub(&event->references, 1) == 1)
        atomic_fetch_sub(&alive, 1);
    return CL_SUCCESS;
}

static cl_int CL_API_CALL set_callback(cl_event event, cl_int type,
                                       void(CL_CALLBACK *callback)(cl_event, cl_int, void *),
                                       void *user)
{
    (void)type;
    if (!usable(event) || behaviour.refuse_callbacks)
        return CL_OUT_OF_RESOURCES;
    pthread_mutex_lock(&lock);
    event->user = user;
    event->callback = callback;
    pthread_mutex_unlock(&lock);
    if (atomic_load(&event->status) <= CL_COMPLETE && !behaviour.late_callbacks)
        call(event);
    return CL_SUCCESS;
}

static cl_int CL_API_CALL event_info(cl_event event, cl_event_info what, size_t room, void *out,
                                     size_t *size)
{
    if (!usable(event))
        return CL_INVALID_EVENT;
    cl_int status = atomic_load(&event->status);
    cl_uint references = (cl_uint)atomic_load(&event->references);
    if (what == CL_EVENT_COMMAND_EXECUTION_STATUS)
        return answer(&status, sizeof status, room, out, size);
    if (what == CL_EVENT_REFERENCE_COUNT)
        return answer(&references, sizeof references, room, out, size);
    return answer(&event->queue, sizeof event->queue, room, out, size);
}

static cl_int CL_API_CALL event_times(cl_event event, cl_profiling_info what, size_t room,
                                      void *out, size_t *size)
{
    if (!usable(event))
        return CL_INVALID_EVENT;
    if (behaviour.no_times || !(event->queue->properties & CL_QUEUE_PROFILING_ENABLE))
        return CL_PROFILING_INFO_NOT_AVAILABLE;
    return answer(&event->times[what - CL_PROFILING_COMMAND_QUEUED], sizeof(cl_ulong), room, out,
                  size);
}

/* ---- extensions ------------------------------------------------------------------------------ */

static atomic_int extension_calls[2];
char fake_cl_device_memory[64], fake_cl_shared_memory[64];

static cl_int CL_API_CALL get_memory_info(cl_context context, const void *memory, cl_uint what,
                                          size_t room, void *out, size_t *size)
{
    cl_uint type = memory == fake_cl_device_memory   ? 0x4198
                   : memory == fake_cl_shared_memory ? 0x4199
                                                     : 0x4196;
    (void)what;
    if (context != fake_cl_context())
        return CL_INVALID_CONTEXT;
    return answer(&type, sizeof type, room, out, size);
}

/* The functions of both platforms. */
#define PLATFORM(p)                                                                                \
    static void *CL_API_CALL allocate_##p(cl_context context, cl_device_id device,                 \
                                          const cl_ulong *properties, size_t size,                 \
                                          cl_uint alignment, cl_int *error)                        \
    {                                                                                              \
        (void)context, (void)device, (void)properties, (void)size, (void)alignment;                \
        atomic_fetch_add(&extension_calls[p], 1);                                                  \
        if (error)                                                                                 \
            *error = CL_SUCCESS;                                                                   \
        return fake_cl_device_memory;                                                              \
    }                                                                                              \
    static cl_int CL_API_CALL copy_##p(cl_command_queue queue, cl_bool blocking, void *to,         \
                                       const void *from, size_t size, cl_uint n,                   \
                                       const cl_event *list, cl_event *event)                      \
    {                                                                                              \
        (void)blocking, (void)to, (void)from, (void)size, (void)n, (void)list;                     \
        atomic_fetch_add(&extension_calls[p], 1);                                                  \
        return enqueue(queue, event);                                                              \
    }                                                                                              \
    static cl_int CL_API_CALL fill_##p(cl_command_queue queue, void *memory, const void *pattern,  \
                                       size_t pattern_size, size_t size, cl_uint n,                \
                                       const cl_event *list, cl_event *event)                      \
    {                                                                                              \
        (void)memory, (void)pattern, (void)pattern_size, (void)size, (void)n, (void)list;          \
        atomic_fetch_add(&extension_calls[p], 1);                                                  \
        return enqueue(queue, event);                                                              \
    }
PLATFORM(0)
PLATFORM(1)

/* A command buffer is its queue with a number of references; one at a time is enough. */
static struct {
    cl_command_queue queue;
    int references;
} command_buffer;

static void *CL_API_CALL make_command_buffer(cl_uint n, const cl_command_queue *list,
                                             const cl_ulong *properties, cl_int *error)
{
    (void)properties;
    if (error)
        *error = n ? CL_SUCCESS : CL_INVALID_VALUE;
    command_buffer.queue = n ? list[0] : NULL;
    command_buffer.references = 1;
    return n ? &command_buffer : NULL;
}

static cl_int CL_API_CALL release_command_buffer(void *buffer)
{
    return buffer == &command_buffer && command_buffer.references-- > 0 ? CL_SUCCESS
                                                                        : CL_INVALID_VALUE;
}

static cl_int CL_API_CALL add_kernel(void *buffer, cl_command_queue queue,
                                     const cl_ulong *properties, cl_kernel kernel, cl_uint dims,
                                     const size_t *offset, const size_t *global,
                                     const size_t *local, cl_uint n, const cl_uint *list,
                                     cl_uint *point, void **handle)
{
    (void)queue, (void)properties, (void)dims, (void)offset, (void)global, (void)local, (void)n;
    (void)list, (void)point, (void)handle;
    return buffer == &command_buffer && kernel ? CL_SUCCESS : CL_INVALID_VALUE;
}

static cl_int CL_API_CALL run_command_buffer(cl_uint n, cl_command_queue *list, void *buffer,
                                             cl_uint waits, const cl_event *wait_list,
                                             cl_event *event)
{
    (void)waits, (void)wait_list;
    if (buffer != &command_buffer || command_buffer.references == 0)
        return CL_INVALID_VALUE;
    return enqueue(n && list ? list[0] : command_buffer.queue, event);
}

static void *CL_API_CALL extension_address(cl_platform_id platform, const char *name)
{
    bool second = platform == fake_cl_platform(1);
    const struct {
        const char *name;
        void (*function)(void);
    } known[] = {
        {"clGetMemAllocInfoINTEL", (void (*)(void))get_memory_info},
        {"clDeviceMemAllocINTEL", (void (*)(void))(second ? allocate_1 : allocate_0)},
        {"clEnqueueMemcpyINTEL", (void (*)(void))(second ? copy_1 : copy_0)},
        {"clEnqueueMemFillINTEL", (void (*)(void))(second ? fill_1 : fill_0)},
        {"clCreateCommandBufferKHR", (void (*)(void))make_command_buffer},
        {"clReleaseCommandBufferKHR", (void (*)(void))release_command_buffer},
        {"clCommandNDRangeKernelKHR", (void (*)(void))add_kernel},
        {"clEnqueueCommandBufferKHR", (void (*)(void))run_command_buffer},
        {"clUnwrappedVENDOR", (void (*)(void))make_command_buffer}};
    void *address = NULL;

    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (strcmp(known[i].name, name) == 0)
            memcpy(&address, &known[i].function, sizeof address);
    return address;
}

static void *CL_API_CALL any_extension_address(const char *name)
{
    return extension_address(fake_cl_platform(0), name);
}

cl_platform_id fake_cl_platform(int number)
{
    return (cl_platform_id)(uintptr_t)(8192 + 8 * number);
}
int fake_cl_extension_calls(int platform) { return atomic_load(&extension_calls[platform]); }

/* ---- for the test ---------------------------------------------------------------------------- */

void fake_cl_finish(void)
{
    for (int i = 0; i < event_count; i++) {
        if (atomic_load(&events[i].status) > CL_COMPLETE)
            end(&events[i]);
        call(&events[i]);
    }
}

void fake_cl_reset(const fake_cl_behaviour *wanted)
{
    if (!events)
        events = calloc(MAX_EVENTS, sizeof *events);
    if (!events)
        abort();
    memset(events, 0, (size_t)event_count * sizeof *events);
    event_count = 0;
    atomic_store(&alive, 0);
    atomic_store(&misuses, 0);
    atomic_store(&extension_calls[0], 0);
    atomic_store(&extension_calls[1], 0);
    device_number++;
    behaviour = *wanted;
}

const cl_icd_dispatch *fake_cl_table(void)
{
    static const cl_icd_dispatch table = {
        .clGetDeviceInfo = device_info,
        .clGetKernelInfo = kernel_info,
        .clGetCommandQueueInfo = queue_info,
        .clGetDeviceAndHostTimer = timers,
        .clCreateCommandQueue = make_queue,
        .clCreateCommandQueueWithProperties = make_queue_with,
        .clRetainCommandQueue = keep_queue,
        .clReleaseCommandQueue = keep_queue,
        .clEnqueueNDRangeKernel = nd_range,
        .clEnqueueWriteBuffer = write_buffer,
        .clRetainEvent = retain,
        .clReleaseEvent = release,
        .clSetEventCallback = set_callback,
        .clGetEventInfo = event_info,
        .clGetEventProfilingInfo = event_times,
        .clGetExtensionFunctionAddress = any_extension_address,
        .clGetExtensionFunctionAddressForPlatform = extension_address,
    };

    return &table;
}

cl_device_id fake_cl_device(void) { return &devices[device_number % 64]; }
cl_context fake_cl_context(void) { return (cl_context)(uintptr_t)4096; }
cl_kernel fake_cl_kernel(const char *name) { return (cl_kernel)(uintptr_t)name; }
int fake_cl_events(void) { return atomic_load(&alive); }
int fake_cl_misuses(void) { return atomic_load(&misuses); }
int fake_cl_events_made(void) { return event_count; }
cl_command_queue_properties fake_cl_queue_properties(void)
{
    return queues[queue_count % MAX_QUEUES].properties;
}
void fake_cl_reuse_queue(void) { reuse_queue = true; }
