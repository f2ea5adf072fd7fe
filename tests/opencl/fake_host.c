/* See fake_host.h. As a library it is steered by the environment:
 *   FAKE_HOST_OUT       file that gets one JSON object per line for everything seen
 *   FAKE_HOST_WINDOW    "no": no window is opened; N: a window is opened and closed every N ms */
#include "fake_host.h"

#include <fcntl.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define MAX_ACTIVITIES 65536u
#define MAX_SAMPLES    4096u
#define MAX_OPEN       64

static uint64_t gate;
KINETO_API const uint64_t *kineto_gate = &gate;

static int out = -1;
static fake_activity activities[MAX_ACTIVITIES];
static fake_sample samples[MAX_SAMPLES];
static atomic_uint activity_count, sample_count;
static atomic_ullong requested, dropped, late_calls;
static atomic_bool open_now;
static atomic_int next_clock = KINETO_PLUGIN_CLOCK_DEVICE;
static const KinetoPlugin_ProfilerInterface *profiler;
static KinetoPlugin_ProfilerHandle *handle;
static pthread_mutex_t window_lock = PTHREAD_MUTEX_INITIALIZER;

static int64_t raw_ns(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC_RAW, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

KINETO_PRINTF(1, 2) static void line(const char *format, ...)
{
    char text[2048];
    va_list list;
    int n;

    if (out < 0)
        return;
    va_start(list, format);
    n = vsnprintf(text, sizeof text - 1, format, list);
    va_end(list);
    if (n < 0 || (size_t)n >= sizeof text - 1)
        n = (int)sizeof text - 2;
    text[n] = '\n';
    if (write(out, text, (size_t)n + 1) < 0)
        out = -1;
}

/* ---- recording ------------------------------------------------------------------------------- */

static _Thread_local struct {
    const char *name;
    int64_t start;
    uint64_t correlation;
} open_ranges[MAX_OPEN];
static _Thread_local uint32_t depth;

KINETO_API kineto_range kineto_record_begin_props(kineto_site *site, const kineto_props *props)
{
    if (depth >= MAX_OPEN)
        return 0;
    open_ranges[depth].name = site->name;
    open_ranges[depth].start = raw_ns();
    open_ranges[depth].correlation = props ? props->correlation_id : 0;
    return ++depth;
}

KINETO_API kineto_range kineto_record_begin(kineto_site *site)
{
    return kineto_record_begin_props(site, NULL);
}

KINETO_API void kineto_record_end(kineto_range range)
{
    int64_t end = raw_ns();

    if (range == 0 || range > depth)
        return;
    depth = range - 1;
    line("{\"host\": \"%s\", \"tid\": %ld, \"start\": %lld, \"end\": %lld, \"correlation\": %llu}",
         open_ranges[depth].name, syscall(SYS_gettid), (long long)open_ranges[depth].start,
         (long long)end, (unsigned long long)open_ranges[depth].correlation);
}

/* ---- builder --------------------------------------------------------------------------------- */

static void check_open(void)
{
    if (!atomic_load(&open_now))
        atomic_fetch_add(&late_calls, 1);
}

static void take_metadata(fake_activity *a, const KinetoPlugin_Metadata *m)
{
    if (strcmp(m->pKey, "bad timestamps") == 0)
        a->bad_timestamps = true;
    else if (strcmp(m->pKey, "bytes") == 0)
        a->bytes = m->u;
    else if (strcmp(m->pKey, "kernels") == 0)
        a->kernels = m->i;
    else if (strcmp(m->pKey, "memory bandwidth (GB/s)") == 0)
        a->has_bandwidth = true;
    else if (strcmp(m->pKey, "block") == 0)
        a->has_block = true;
    else if (strcmp(m->pKey, "grid") == 0)
        memcpy(a->grid, m->pointer, sizeof a->grid);
}

static int emit(KinetoPlugin_TraceBuilderHandle *h, const KinetoPlugin_Activity *activity)
{
    uint32_t index = atomic_fetch_add(&activity_count, 1);
    const KinetoPlugin_ProfileEvent *e = &activity->event;
    fake_activity scratch, *a = index < MAX_ACTIVITIES ? &activities[index] : &scratch;

    (void)h;
    check_open();
    *a = (fake_activity){.type = e->eventType,
                         .device = e->deviceId,
                         .queue = e->resourceId,
                         .clock = activity->clock,
                         .start = e->startTimeUtcNs,
                         .end = e->endTimeUtcNs,
                         .correlation = e->eventId,
                         .flow = activity->flowId};
    snprintf(a->name, sizeof a->name, "%.*s", (int)activity->nameSize, activity->pName);
    for (uint32_t i = 0; i < activity->metadataCount; i++)
        take_metadata(a, &activity->pMetadata[i]);
    line("{\"device\": %d, \"queue\": %d, \"type\": %d, \"clock\": %d, \"name\": \"%s\", "
         "\"start\": %lld, \"end\": %lld, \"correlation\": %lld, \"bytes\": %llu}",
         a->device, a->queue, a->type, a->clock, a->name, (long long)a->start, (long long)a->end,
         (long long)a->correlation, (unsigned long long)a->bytes);
    return 0;
}

static int add_counts(KinetoPlugin_TraceBuilderHandle *h, const KinetoPlugin_Counts *counts)
{
    (void)h;
    check_open();
    atomic_fetch_add(&requested, counts->requested);
    atomic_fetch_add(&dropped, counts->dropped);
    if (counts->dropped)
        line("{\"dropped\": %llu}", (unsigned long long)counts->dropped);
    return 0;
}

static int add_device(KinetoPlugin_TraceBuilderHandle *h, const KinetoPlugin_ProfileDeviceInfo *i)
{
    (void)h;
    check_open();
    line("{\"device_info\": %lld, \"name\": \"%s\", \"label\": \"%s\"}", (long long)i->deviceId,
         i->pName, i->pLabel);
    return 0;
}

static int add_resource(KinetoPlugin_TraceBuilderHandle *h,
                        const KinetoPlugin_ProfileResourceInfo *i)
{
    (void)h;
    check_open();
    line("{\"resource_info\": %d, \"device\": %d, \"name\": \"%s\"}", i->resourceId, i->deviceId,
         i->pName);
    return 0;
}

static int add_properties(KinetoPlugin_TraceBuilderHandle *h, int64_t device,
                          const KinetoPlugin_Metadata *properties, size_t count)
{
    (void)h;
    (void)properties;
    check_open();
    line("{\"device_properties\": %lld, \"count\": %zu}", (long long)device, count);
    return 0;
}

static int register_clock(KinetoPlugin_TraceBuilderHandle *h, const char *name, int32_t *clock)
{
    (void)h;
    check_open();
    *clock = atomic_fetch_add(&next_clock, 1);
    line("{\"clock\": %d, \"name\": \"%s\"}", *clock, name);
    return *clock > 15 ? -1 : 0;
}

static int add_sample(KinetoPlugin_TraceBuilderHandle *h, int32_t clock, int64_t device_ns,
                      uint64_t before, uint64_t after)
{
    uint32_t index = atomic_fetch_add(&sample_count, 1);

    (void)h;
    check_open();
    if (index < MAX_SAMPLES)
        samples[index] = (fake_sample){clock, device_ns, before, after};
    return 0;
}

static uint64_t host_ticks(KinetoPlugin_TraceBuilderHandle *h)
{
    (void)h;
    return (uint64_t)raw_ns();
}

static int add_header(KinetoPlugin_TraceBuilderHandle *h, const char *key, const char *value)
{
    (void)h;
    check_open();
    line("{\"header\": \"%s\", \"value\": %s}", key, value);
    return 0;
}

static const KinetoPlugin_TraceBuilder builder = {
    .unpaddedStructSize = KINETO_PLUGIN_SIZE(KinetoPlugin_TraceBuilder, addHeaderMetadata),
    .addDeviceInfo = add_device,
    .addResourceInfo = add_resource,
    .emit = emit,
    .addDeviceProperties = add_properties,
    .registerClock = register_clock,
    .addClockSample = add_sample,
    .hostTicks = host_ticks,
    .addCounts = add_counts,
    .addHeaderMetadata = add_header,
};

/* ---- windows --------------------------------------------------------------------------------- */

static bool start_profiler(void)
{
    static const int32_t kinds[] = {KINETO_PLUGIN_PROFILE_EVENT_TYPE_RUNTIME,
                                    KINETO_PLUGIN_PROFILE_EVENT_TYPE_CONCURRENT_KERNEL,
                                    KINETO_PLUGIN_PROFILE_EVENT_TYPE_GPU_MEMCPY,
                                    KINETO_PLUGIN_PROFILE_EVENT_TYPE_GPU_MEMSET,
                                    KINETO_PLUGIN_PROFILE_EVENT_TYPE_CUDA_SYNC};
    KinetoPlugin_ProfilerCreate_Params create = {
        .unpaddedStructSize =
            KINETO_PLUGIN_SIZE(KinetoPlugin_ProfilerCreate_Params, enabledActivityTypesMaxLen),
        .pEnabledActivityTypes = kinds,
        .enabledActivityTypesMaxLen = sizeof kinds / sizeof kinds[0],
    };

    if (profiler->profilerCreate(&create) != 0)
        return false;
    handle = create.pProfilerHandle;
    KinetoPlugin_ProfilerStart_Params start = {
        .unpaddedStructSize = KINETO_PLUGIN_SIZE(KinetoPlugin_ProfilerStart_Params, pLiveBuilder),
        .pProfilerHandle = handle,
        .pProfilerHandleAgain = handle,
        .pLiveBuilder = &builder,
    };
    return profiler->profilerStart(&start) == 0;
}

bool fake_host_open(void)
{
    bool good = true;

    pthread_mutex_lock(&window_lock);
    atomic_store(&open_now, true);
    if (profiler)
        good = start_profiler();
    __atomic_store_n(&gate, KINETO_KINDS_ALL, __ATOMIC_RELAXED);
    pthread_mutex_unlock(&window_lock);
    return good;
}

void fake_host_collect(void)
{
    KinetoPlugin_ProfilerProcessEvents_Params process = {
        KINETO_PLUGIN_SIZE(KinetoPlugin_ProfilerProcessEvents_Params, pTraceBuilder), handle,
        &builder};

    pthread_mutex_lock(&window_lock);
    if (profiler && handle)
        profiler->profilerProcessEvents(&process);
    pthread_mutex_unlock(&window_lock);
}

void fake_host_close(void)
{
    pthread_mutex_lock(&window_lock);
    __atomic_store_n(&gate, 0, __ATOMIC_RELAXED);
    if (profiler && handle) {
        KinetoPlugin_ProfilerStop_Params stop = {
            KINETO_PLUGIN_SIZE(KinetoPlugin_ProfilerStop_Params, pProfilerHandle), handle};
        KinetoPlugin_ProfilerProcessEvents_Params process = {
            KINETO_PLUGIN_SIZE(KinetoPlugin_ProfilerProcessEvents_Params, pTraceBuilder), handle,
            &builder};
        KinetoPlugin_ProfilerDestroy_Params destroy = {
            KINETO_PLUGIN_SIZE(KinetoPlugin_ProfilerDestroy_Params, pProfilerHandle), handle};
        profiler->profilerStop(&stop);
        atomic_store(&open_now, false);
        profiler->profilerProcessEvents(&process);
        profiler->profilerDestroy(&destroy);
        handle = NULL;
    }
    atomic_store(&open_now, false);
    pthread_mutex_unlock(&window_lock);
}

static int register_profiler(KinetoPlugin_RegistryHandle *registry,
                             const KinetoPlugin_ProfilerInterface *interface)
{
    (void)registry;
    pthread_mutex_lock(&window_lock);
    profiler = interface;
    if (atomic_load(&open_now))
        (void)start_profiler();
    pthread_mutex_unlock(&window_lock);
    return 0;
}

static const KinetoPlugin_Registry registry = {
    .unpaddedStructSize = KINETO_PLUGIN_SIZE(KinetoPlugin_Registry, registerProfiler),
    .registerProfiler = register_profiler,
};
const KinetoPlugin_Registry *kineto_plugin_registry(void) { return &registry; }

static void *toggle(void *argument)
{
    struct timespec pause = {0, (long)(intptr_t)argument * 1000000};

    for (;;) {
        nanosleep(&pause, NULL);
        fake_host_close();
        nanosleep(&pause, NULL);
        fake_host_open();
    }
    return NULL;
}

static void at_exit(void)
{
    line("{\"requested\": %llu, \"delivered\": %u, \"lost\": %llu, \"late\": %llu}",
         (unsigned long long)atomic_load(&requested), atomic_load(&activity_count),
         (unsigned long long)atomic_load(&dropped), (unsigned long long)atomic_load(&late_calls));
}

__attribute__((constructor)) static void begin(void)
{
    const char *path = getenv("FAKE_HOST_OUT"), *window = getenv("FAKE_HOST_WINDOW");
    pthread_t thread;

    if (!path)
        return;
    out = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    if (window && strcmp(window, "no") == 0)
        return;
    fake_host_open();
    atexit(at_exit);
    if (window && atoi(window) > 0)
        pthread_create(&thread, NULL, toggle, (void *)(intptr_t)atoi(window));
}

/* ---- for tests that link it ------------------------------------------------------------------ */

void fake_host_clear(void)
{
    atomic_store(&activity_count, 0);
    atomic_store(&sample_count, 0);
    atomic_store(&requested, 0);
    atomic_store(&dropped, 0);
    atomic_store(&next_clock, KINETO_PLUGIN_CLOCK_DEVICE);
}
uint32_t fake_host_activities(void) { return atomic_load(&activity_count); }
const fake_activity *fake_host_activity(uint32_t index) { return &activities[index]; }
uint32_t fake_host_samples(void) { return atomic_load(&sample_count); }
const fake_sample *fake_host_sample(uint32_t index) { return &samples[index]; }
uint64_t fake_host_requested(void) { return atomic_load(&requested); }
uint64_t fake_host_dropped(void) { return atomic_load(&dropped); }
uint64_t fake_host_late_calls(void) { return atomic_load(&late_calls); }

/* The cost of the source is not tested here. */
uint64_t kineto_overhead_begin(void) { return 0; }
void kineto_overhead_end(uint64_t begun) { (void)begun; }

kineto_status kineto_ledger_add(const char *source, const char *reason, uint64_t count, bool is_loss,
                                const char *detail)
{
    (void)source, (void)reason, (void)count, (void)is_loss, (void)detail;
    return KINETO_OK;
}
