/* A trace of a training loop on an accelerator that does not exist, for other people's tools:
 * nested ranges on two threads, kernels and copies on two queues, a kind of the plug-in's own, and
 * counters of the program and of the device, delivered in the old way and as a set with units.
 * peer_trace OUT.json [STEPS]; peer_trace again IN OUT.json reads a trace and writes it. */
#include <ckineto/ckineto.h>
#include "../helpers/sessions.h"

#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define MOST_STEPS 10000
#define STEP_NS    2000000

static int steps = 50;
static int64_t step_start_ns[MOST_STEPS], launch_ns[4 * MOST_STEPS];

static int64_t now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_REALTIME, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

/* ---- the device's plug-in: hands everything over at the end ---------------------------------- */

static int32_t dma_type;
static struct KinetoPlugin_ProfilerHandle {
    int unused;
} the_profiler;

static int create(KinetoPlugin_ProfilerCreate_Params *p)
{
    p->pProfilerHandle = &the_profiler;
    return 0;
}
static int destroy(KinetoPlugin_ProfilerDestroy_Params *p) { return p->pProfilerHandle == NULL; }
static int start(KinetoPlugin_ProfilerStart_Params *p) { return p->pProfilerHandle == NULL; }
static int stop(KinetoPlugin_ProfilerStop_Params *p) { return p->pProfilerHandle == NULL; }

static int query(KinetoPlugin_ProfilerQuery_Params *p)
{
    const int32_t types[] = {KINETO_PLUGIN_PROFILE_EVENT_TYPE_CONCURRENT_KERNEL,
                             KINETO_PLUGIN_PROFILE_EVENT_TYPE_GPU_MEMCPY,
                             KINETO_PLUGIN_PROFILE_EVENT_TYPE_GPU_PM_COUNTER, dma_type};
    for (size_t i = 0; i < sizeof types / sizeof types[0]; i++)
        if (p->pSupportedActivityTypes && i < p->supportedActivityTypesMaxLen)
            p->pSupportedActivityTypes[i] = types[i];
    if (p->pProfilerName)
        snprintf(p->pProfilerName, p->profilerNameMaxLen + 1, "peer");
    return 0;
}

static void event(const KinetoPlugin_TraceBuilder *b, int32_t type, const char *name, int queue,
                  int64_t launch, int64_t begin_ns, int64_t end_ns)
{
    KinetoPlugin_ProfileEvent e = {.unpaddedStructSize =
                                       KINETO_PLUGIN_SIZE(KinetoPlugin_ProfileEvent, resourceId),
                                   .eventType = type,
                                   .startTimeUtcNs = begin_ns,
                                   .endTimeUtcNs = end_ns,
                                   .eventId = launch,
                                   .resourceId = queue};
    b->addEvent(b->pTraceBuilderHandle, &e);
    b->setLastEventName(b->pTraceBuilderHandle, name);
}

/* Work of queue 0 is done in order, some time after its launch. */
static void device_step(const KinetoPlugin_TraceBuilder *b, int step)
{
    static const char *const kernels[] = {"gemm", "softmax", "gemm_backward", "adam"};
    static int64_t free_ns;
    int64_t at = step_start_ns[step];
    char value[32];
    event(b, KINETO_PLUGIN_PROFILE_EVENT_TYPE_GPU_MEMCPY, "copy to device", 1, 0, at, at + 150001);
    event(b, dma_type, "gather rows", 1, 0, at + 160003, at + 300000);
    for (int i = 4 * step; i < 4 * step + 4; i++) {
        int64_t begin = launch_ns[i] + 50003;
        begin = begin > free_ns ? begin : free_ns;
        free_ns = begin + 300000 + 7 * step;
        event(b, KINETO_PLUGIN_PROFILE_EVENT_TYPE_CONCURRENT_KERNEL, kernels[i % 4], 0, i + 1,
              begin, free_ns);
    }
    event(b, KINETO_PLUGIN_PROFILE_EVENT_TYPE_GPU_PM_COUNTER, "ctr", 0, 0, at, at);
    snprintf(value, sizeof value, "%d", 42 + step % 5);
    b->addLastEventMetadata(b->pTraceBuilderHandle, "my_counter", value);
}

/* Ten samples of each step: the board warms up. */
static void device_samples(const KinetoPlugin_TraceBuilder *b)
{
    static const char *const series[] = {"power", "temperature"};
    static const char *const units[] = {"W", "°C"};
    KinetoPlugin_CounterSet set = {.unpaddedStructSize =
                                       KINETO_PLUGIN_SIZE(KinetoPlugin_CounterSet, pUnits),
                                   .pName = "board",
                                   .eventType = KINETO_PLUGIN_PROFILE_EVENT_TYPE_GPU_PM_COUNTER,
                                   .valueType = KINETO_PLUGIN_VALUE_DOUBLE,
                                   .seriesCount = 2,
                                   .pSeriesNames = series,
                                   .pUnits = units};
    int64_t times[10];
    double values[20];
    KinetoPlugin_CounterSamples samples = {
        .unpaddedStructSize = KINETO_PLUGIN_SIZE(KinetoPlugin_CounterSamples, pValues),
        .clock = KINETO_PLUGIN_CLOCK_UTC,
        .count = 10,
        .pTimes = times,
        .pValues = values};
    b->registerCounters(b->pTraceBuilderHandle, &set, &samples.set);
    for (int step = 0; step < steps; step++) {
        for (int i = 0; i < 10; i++) {
            double x = step + i / 10.0;
            times[i] = step_start_ns[step] + i * (STEP_NS / 10);
            values[2 * i] = 180 + 90 * sin(x / 2) + 30 * (i % 3);
            values[2 * i + 1] = 85 - 50 * exp(-x / 12);
        }
        b->addCounterSamples(b->pTraceBuilderHandle, &samples);
    }
}

static int process(KinetoPlugin_ProfilerProcessEvents_Params *p)
{
    const KinetoPlugin_TraceBuilder *b = p->pTraceBuilder;
    KinetoPlugin_ProfileDeviceInfo device = {
        .unpaddedStructSize = KINETO_PLUGIN_SIZE(KinetoPlugin_ProfileDeviceInfo, pLabel),
        .pName = "Peer accelerator",
        .pLabel = "device 0"};
    b->addDeviceInfo(b->pTraceBuilderHandle, &device);
    for (int step = 0; step < steps; step++)
        device_step(b, step);
    device_samples(b);
    return 0;
}

static const KinetoPlugin_ProfilerInterface profiler = {
    .unpaddedStructSize = KINETO_PLUGIN_SIZE(KinetoPlugin_ProfilerInterface, profilerProcessEvents),
    .profilerCreate = create,
    .profilerDestroy = destroy,
    .profilerQuery = query,
    .profilerStart = start,
    .profilerStop = stop,
    .profilerProcessEvents = process};

static int register_plugin(void)
{
    const KinetoPlugin_Registry *r = kineto_plugin_registry();
    const KinetoPlugin_ActivityTypeInfo own = {"peer_dma",
                                               KINETO_PLUGIN_PROFILE_EVENT_TYPE_GPU_MEMCPY, 1};
    KinetoPlugin_RegisterActivityTypes_Params types = {
        .unpaddedStructSize =
            KINETO_PLUGIN_SIZE(KinetoPlugin_RegisterActivityTypes_Params, firstEventType),
        .pTypes = &own,
        .count = 1};
    if (r->registerActivityTypes(r->pRegistryHandle, &types))
        return 1;
    dma_type = types.firstEventType;
    return r->registerProfiler(r->pRegistryHandle, &profiler);
}

/* ---- the program ----------------------------------------------------------------------------- */

static void wait_until(int64_t ns)
{
    struct timespec pause = {0, 50000};
    while (now_ns() < ns)
        nanosleep(&pause, NULL);
}

static void *load_batches(void *unused)
{
    KINETO_SITE(batch, KINETO_KIND_CPU_OP, "load batch");
    KINETO_SITE(decode, KINETO_KIND_CPU_OP, "decode");
    (void)unused;
    kineto_thread_set_name("loader");
    for (int i = 0; i < 2 * steps; i++) {
        kineto_range outer = kineto_range_begin(&batch);
        kineto_range inner = kineto_range_begin(&decode);
        wait_until(now_ns() + STEP_NS / 4);
        kineto_range_end(inner);
        kineto_range_end(outer);
    }
    return NULL;
}

static void launch(int number)
{
    KINETO_SITE(call, KINETO_KIND_RUNTIME, "launch");
    kineto_props props = {.size = sizeof props, .correlation_id = (uint64_t)number};
    kineto_range_end(kineto_range_begin_props(&call, &props));
    launch_ns[number - 1] = now_ns();
}

static void train(void)
{
    KINETO_SITE(step, KINETO_KIND_USER_ANNOTATION, "step");
    KINETO_SITE(forward, KINETO_KIND_CPU_OP, "forward");
    KINETO_SITE(backward, KINETO_KIND_CPU_OP, "backward");
    KINETO_SITE_ARGS(memory, KINETO_KIND_COUNTER, "memory", {"used [MiB]", KINETO_ARG_INT},
                     {"reserved [MiB]", KINETO_ARG_INT});
    for (int i = 0; i < steps; i++) {
        kineto_range outer = kineto_range_begin(&step);
        step_start_ns[i] = now_ns();
        for (int part = 0; part < 2; part++) {
            kineto_value values[] = {{.i = 300 + 20 * (i % 7) + 400 * part}, {.i = 1024}};
            kineto_range inner = kineto_range_begin(part ? &backward : &forward);
            launch(4 * i + 2 * part + 1);
            launch(4 * i + 2 * part + 2);
            wait_until(step_start_ns[i] + (part + 1) * (STEP_NS / 2));
            kineto_counter_sample(&memory, values);
            kineto_range_end(inner);
        }
        kineto_range_end(outer);
    }
}

static int complain(const kineto_error *err)
{
    fprintf(stderr, "peer_trace: %s\n", err->message);
    return 1;
}

static int again(const char *in, const char *out)
{
    kineto_trace *trace;
    kineto_error err;
    if (kineto_trace_open(in, &trace, &err) != KINETO_OK)
        return complain(&err);
    kineto_status status = kineto_trace_save(trace, out, &err);
    kineto_trace_release(trace);
    return status == KINETO_OK ? 0 : complain(&err);
}

static int record(const char *out)
{
    kineto_session_options options;
    kineto_session *session;
    kineto_trace *trace;
    kineto_error err;
    pthread_t loader;
    kineto_session_options_init(&options);
    options.kinds = KINETO_KINDS_ALL;
    if (begin_session(&options, &session, &err) != KINETO_OK)
        return complain(&err);
    pthread_create(&loader, NULL, load_batches, NULL);
    train();
    pthread_join(loader, NULL);
    wait_until(now_ns() + STEP_NS);
    if (end_session(session, &trace, &err) != KINETO_OK)
        return complain(&err);
    kineto_status status = kineto_trace_save(trace, out, &err);
    kineto_trace_release(trace);
    return status == KINETO_OK ? 0 : complain(&err);
}

int main(int argc, char **argv)
{
    if (argc == 4 && strcmp(argv[1], "again") == 0)
        return again(argv[2], argv[3]);
    if (argc > 2)
        steps = atoi(argv[2]);
    if (argc < 2 || steps < 1 || steps > MOST_STEPS || register_plugin())
        return 2;
    return record(argv[1]);
}
