/* Devices: a number for each, its properties, and its row in the trace. A device's properties are
 * read once, when the program creates its first queue on it; later nothing is queried. */
#include "opencl.h"

#include <stdio.h>
#include <string.h>

#define MAX_SLACK_NS 1000000
/* After all host processes, as viewers of such traces expect. */
#define SORT_BASE 5000000

/* The table only grows. Entries below device_count are complete and read without a lock;
 * devices_lock is held to add one. */
static co_device devices[CO_MAX_DEVICES];
static atomic_uint device_count;
static pthread_mutex_t devices_lock = PTHREAD_MUTEX_INITIALIZER;

/* A query that fails leaves *out as it was, so callers set a default before. */
static void query_device(cl_device_id device, cl_device_info what, size_t size, void *out)
{
    (void)co_next.clGetDeviceInfo(device, what, size, out, NULL);
}

/* A text that does not fit leaves the buffer empty. */
static void query_device_text(cl_device_id device, cl_device_info what, size_t size, char *out)
{
    out[0] = '\0';
    query_device(device, what, size, out);
    out[size - 1] = '\0';
}

static uint64_t query_device_u64(cl_device_id device, cl_device_info what)
{
    cl_ulong value = 0;

    query_device(device, what, sizeof value, &value);
    return value;
}

static uint64_t query_device_size(cl_device_id device, cl_device_info what)
{
    size_t value = 0;

    query_device(device, what, sizeof value, &value);
    return value;
}

static uint32_t query_device_u32(cl_device_id device, cl_device_info what)
{
    cl_uint value = 0;

    query_device(device, what, sizeof value, &value);
    return value;
}

/* Properties that the driver does not report stay 0 or empty. */
static void read_device_properties(co_device *d, cl_device_id handle)
{
    cl_platform_id platform = NULL;
    uint64_t resolution = query_device_size(handle, CL_DEVICE_PROFILING_TIMER_RESOLUTION);

    d->handle = handle;
    d->type = query_device_u64(handle, CL_DEVICE_TYPE);
    d->slack_ns = resolution > MAX_SLACK_NS ? MAX_SLACK_NS : (int64_t)resolution;
    query_device_text(handle, CL_DEVICE_NAME, sizeof d->name, d->name);
    query_device_text(handle, CL_DEVICE_VENDOR, sizeof d->vendor, d->vendor);
    query_device_text(handle, CL_DRIVER_VERSION, sizeof d->driver, d->driver);
    query_device_text(handle, CL_DEVICE_VERSION, sizeof d->version, d->version);
    d->memory_bytes = query_device_u64(handle, CL_DEVICE_GLOBAL_MEM_SIZE);
    d->max_alloc_bytes = query_device_u64(handle, CL_DEVICE_MAX_MEM_ALLOC_SIZE);
    d->local_bytes = query_device_u64(handle, CL_DEVICE_LOCAL_MEM_SIZE);
    d->work_group = query_device_size(handle, CL_DEVICE_MAX_WORK_GROUP_SIZE);
    d->units = query_device_u32(handle, CL_DEVICE_MAX_COMPUTE_UNITS);
    d->clock_mhz = query_device_u32(handle, CL_DEVICE_MAX_CLOCK_FREQUENCY);
    query_device(handle, CL_DEVICE_PLATFORM, sizeof platform, &platform);
    if (platform && co_next.clGetPlatformInfo)
        (void)co_next.clGetPlatformInfo(platform, CL_PLATFORM_NAME, sizeof d->platform - 1,
                                        d->platform, NULL);
}

/* If the driver can read both clocks in one call, the device's clock is voted for before any
 * command has run. Devices before OpenCL 2.1 do not have the call. */
static void try_device_timer(co_device *d)
{
    cl_ulong device_ns = 0, host_ns = 0;
    int major = 0, minor = 0;

    if (!co_next.clGetDeviceAndHostTimer ||
        sscanf(d->version, "OpenCL %d.%d", &major, &minor) != 2 || major * 10 + minor < 21)
        return;
    for (int i = 0; i < 3; i++) {
        co_bracket bracket;
        co_bracket_open(&bracket, NULL);
        cl_int status = co_next.clGetDeviceAndHostTimer(d->handle, &device_ns, &host_ns);
        co_bracket_close(&bracket, NULL);
        if (status != CL_SUCCESS)
            return;
        co_clock_vote(&d->clock, &bracket, (int64_t)device_ns, d->slack_ns);
    }
    d->has_timer = true;
    co_clock_decide(&d->clock, false);
    atomic_store(&d->clock_state, (int)d->clock.state);
}

/* The device with this handle among the published ones; NULL: none. */
static co_device *find_opencl_device(cl_device_id handle)
{
    uint32_t count = co_device_count();

    for (uint32_t i = 0; i < count; i++) {
        if (devices[i].handle == handle)
            return &devices[i];
    }
    return NULL;
}

/* Adds a device; NULL: the table is full. The count is raised last, which publishes the entry. The
 * caller holds devices_lock. */
static co_device *add_opencl_device(cl_device_id handle)
{
    uint32_t index = co_device_count();
    co_device *d = &devices[index];

    if (index == CO_MAX_DEVICES)
        return NULL;
    read_device_properties(d, handle);
    d->index = (int32_t)index;
    pthread_mutex_init(&d->lock, NULL);
    co_clock_init(&d->clock);
    try_device_timer(d);
    atomic_store_explicit(&device_count, index + 1, memory_order_release);
    return d;
}

/* Two threads may meet a new device at the same time: the second one finds it under the lock. It is
 * announced after the lock has been released. */
co_device *co_device_of(cl_device_id handle)
{
    co_device *d = find_opencl_device(handle);
    bool fresh = false;

    if (!d) {
        pthread_mutex_lock(&devices_lock);
        d = find_opencl_device(handle);
        if (!d) {
            d = add_opencl_device(handle);
            fresh = d != NULL;
        }
        pthread_mutex_unlock(&devices_lock);
    }
    if (fresh) {
        const KinetoPlugin_TraceBuilder *builder = co_builder_enter();
        if (builder) {
            co_device_announce(builder, d);
            co_builder_leave();
        }
    }
    return d;
}

uint32_t co_device_count(void) { return atomic_load_explicit(&device_count, memory_order_acquire); }

co_device *co_device_at(uint32_t index) { return &devices[index]; }

static const char *get_device_type_name(cl_device_type type)
{
    if (type & CL_DEVICE_TYPE_GPU)
        return "GPU";
    if (type & CL_DEVICE_TYPE_CPU)
        return "CPU";
    return type & CL_DEVICE_TYPE_ACCELERATOR ? "accelerator" : "custom";
}

/* The row of the device; sorted after all host processes. */
static void announce_device_row(const KinetoPlugin_TraceBuilder *builder, const co_device *d)
{
    char label[48];
    bool gpu = (d->type & CL_DEVICE_TYPE_GPU) != 0;
    KinetoPlugin_ProfileDeviceInfo info = {
        .unpaddedStructSize = KINETO_PLUGIN_SIZE(KinetoPlugin_ProfileDeviceInfo, pLabel),
        .deviceId = d->index,
        .sortIndex = SORT_BASE + d->index,
        .pName = d->name,
        .pLabel = label,
    };

    snprintf(label, sizeof label, "%s%s %d", get_device_type_name(d->type), gpu ? "" : " device",
             d->index);
    (void)builder->addDeviceInfo(builder->pTraceBuilderHandle, &info);
}

static KinetoPlugin_Metadata text_property(const char *key, const char *value)
{
    return (KinetoPlugin_Metadata){.pKey = key,
                                   .valueType = KINETO_PLUGIN_VALUE_STRING,
                                   .count = (uint32_t)strlen(value),
                                   .pointer = value};
}

static KinetoPlugin_Metadata number_property(const char *key, uint64_t value)
{
    return (KinetoPlugin_Metadata){
        .pKey = key, .valueType = KINETO_PLUGIN_VALUE_UINT, .count = 1, .u = value};
}

/* A text as a JSON string; control bytes become spaces. */
static void quote_json_text(char *out, size_t size, const char *s)
{
    size_t n = 0;

    out[n++] = '"';
    for (; *s && n + 4 < size; s++) {
        if (*s == '"' || *s == '\\')
            out[n++] = '\\';
        out[n++] = (unsigned char)*s < 0x20 ? ' ' : *s;
    }
    out[n++] = '"';
    out[n] = '\0';
}

/* Announces row and properties of a device; the first device also names the platform in the
 * header. */
void co_device_announce(const KinetoPlugin_TraceBuilder *builder, const co_device *d)
{
    char platform[400];
    const KinetoPlugin_Metadata properties[] = {
        text_property("name", d->name),
        text_property("type", get_device_type_name(d->type)),
        text_property("vendor", d->vendor),
        text_property("platform", d->platform),
        text_property("driverVersion", d->driver),
        text_property("deviceVersion", d->version),
        number_property("totalGlobalMem", d->memory_bytes),
        number_property("maxComputeUnits", d->units),
        number_property("maxWorkGroupSize", d->work_group),
        number_property("maxClockFrequency", d->clock_mhz),
        number_property("maxMemAllocSize", d->max_alloc_bytes),
        number_property("localMemSize", d->local_bytes),
    };

    announce_device_row(builder, d);
    (void)builder->addDeviceProperties(builder->pTraceBuilderHandle, d->index, properties,
                                       CO_COUNT(properties));
    if (d->index == 0) {
        quote_json_text(platform, sizeof platform, d->platform);
        (void)builder->addHeaderMetadata(builder->pTraceBuilderHandle, "opencl_platform", platform);
    }
}

/* In the child of a fork: threads that held a lock do not exist any more, nor do the commands that
 * the devices held back. */
void co_devices_after_fork(void)
{
    uint32_t count = co_device_count();

    pthread_mutex_init(&devices_lock, NULL);
    for (uint32_t i = 0; i < count; i++) {
        pthread_mutex_init(&devices[i].lock, NULL);
        devices[i].held_count = 0;
    }
}
