/* The plug-in half: what the driver tells becomes activities. It has everything of its host through
 * the registry, and so loads into any host of this interface. docs/writing-a-plugin.md walks
 * through this file. */
#include "sim_plugin.h"
#include "sim.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define SIZE      KINETO_PLUGIN_SIZE
#define HAS       KINETO_PLUGIN_HAS
#define EXPORT    __attribute__((visibility("default")))
#define MAX_DEPTH 32u
/* Fail unless the parameters are as long as they have always been, and it is the right moment. */
#define EXPECT(p, type, member, condition, text)                                                   \
    if (!(p) || !HAS(p, KinetoPlugin_##type, member) || !(condition))                              \
    return fail(text)

/* What is delivered: the operations of the device (DMA is a kind of our own, where the host takes
 * such), then two things more. */
enum { CALLS = SIM_WAIT, COUNTERS, KINDS };
static int32_t types[KINDS] = {[SIM_KERNEL] = KINETO_PLUGIN_PROFILE_EVENT_TYPE_CONCURRENT_KERNEL,
                               [SIM_COPY] = KINETO_PLUGIN_PROFILE_EVENT_TYPE_GPU_MEMCPY,
                               [CALLS] = KINETO_PLUGIN_PROFILE_EVENT_TYPE_RUNTIME,
                               [COUNTERS] = KINETO_PLUGIN_PROFILE_EVENT_TYPE_GPU_PM_COUNTER};
static const char *const calls[] = {"simLaunch", "simCopy", "simDma", "simSynchronize"};
static const char *const queues[SIM_QUEUES] = {"compute 0", "compute 1", "copy", "dma"};
static const char *const sensors[] = {"power", "memory used"}, *const units[] = {"W", "bytes"};

/* The one session. */
static struct KinetoPlugin_ProfilerHandle {
    enum { NONE, CREATED, STARTED, STOPPED } state;
    bool wanted[KINDS], no_power;
    atomic_uint number;
    int32_t pid;
    const KinetoPlugin_TraceBuilder *host;
    KinetoPlugin_TraceBuilderHandle *handle; /* of that */
    int32_t clock, sets[SIM_SENSORS];
    pthread_mutex_t lock; /* of what follows; a busy driver would have a buffer for each thread */
    bool running;
    int64_t sampled;
    uint64_t requested, delivered;
} s = {.lock = PTHREAD_MUTEX_INITIALIZER};
static char why[96]; /* the last call failed */

static int fail(const char *text)
{
    snprintf(why, sizeof why, "%s", text);
    return -1;
}

/* ---- what the host is told at the beginning ---------------------------------------------------- */

static void announce_rows(void)
{
    KinetoPlugin_ProfileDeviceInfo device = {SIZE(KinetoPlugin_ProfileDeviceInfo, pLabel), 0, 7000,
                                             "Sim accelerator", "sim 0"};
    KinetoPlugin_Metadata property = {
        .pKey = "queues", .valueType = KINETO_PLUGIN_VALUE_INT, .i = SIM_QUEUES};
    s.host->addDeviceInfo(s.handle, &device);
    s.host->addDeviceProperties(s.handle, 0, &property, 1);
    for (int32_t q = 0; q < (int32_t)SIM_QUEUES; q++) {
        KinetoPlugin_ProfileResourceInfo row = {
            SIZE(KinetoPlugin_ProfileResourceInfo, pName), {0}, {q}, 10 + q, queues[q]};
        s.host->addResourceInfo(s.handle, &row);
    }
}

static int register_counters(void)
{
    int failures = 0;
    for (int i = 0; i < SIM_SENSORS; i++) {
        KinetoPlugin_CounterSet set = {.unpaddedStructSize = SIZE(KinetoPlugin_CounterSet, pUnits),
                                       .pName = sensors[i],
                                       .eventType = types[COUNTERS],
                                       .valueType = KINETO_PLUGIN_VALUE_UINT,
                                       .seriesCount = 1,
                                       .pSeriesNames = &sensors[i],
                                       .pUnits = &units[i]};
        failures += s.host->registerCounters(s.handle, &set, &s.sets[i]) != 0;
    }
    return failures;
}

/* What the device's clock says between two readings of the host's. The host does the rest. */
static void sample_clock(void)
{
    uint64_t before = s.host->hostTicks(s.handle);
    s.sampled = sim_time();
    s.host->addClockSample(s.handle, s.clock, s.sampled, before, s.host->hostTicks(s.handle));
}

/* ---- delivering -------------------------------------------------------------------------------- */

static void count(uint64_t requested, uint64_t dropped)
{
    KinetoPlugin_Counts counts = {SIZE(KinetoPlugin_Counts, dropped), requested, dropped};
    s.requested += requested;
    s.host->addCounts(s.handle, &counts);
}

/* A call of the program, or what the device did for it; an arrow leads from one to the other. */
static void deliver_work(const sim_work *w, bool call)
{
    bool kernel = w->operation == SIM_KERNEL;
    KinetoPlugin_Metadata value = {.pKey = kernel ? "grid" : "bytes",
                                   .valueType = KINETO_PLUGIN_VALUE_UINT,
                                   .u = w->rows * (kernel ? 1 : w->row_bytes)};
    KinetoPlugin_Activity a = {
        .unpaddedStructSize = SIZE(KinetoPlugin_Activity, pMetadata),
        .event = {.unpaddedStructSize = SIZE(KinetoPlugin_ProfileEvent, resourceId),
                  .eventType = types[call ? CALLS : (int)w->operation],
                  .startTimeUtcNs = call ? w->call_start : w->start,
                  .endTimeUtcNs = call ? w->call_end : w->end,
                  .eventId = (int64_t)w->id,
                  .deviceId = call ? s.pid : 0,
                  .resourceId = (int32_t)(call ? w->thread : w->queue)},
        .clock = call ? KINETO_PLUGIN_CLOCK_MONOTONIC_RAW : s.clock,
        .pName = call ? calls[w->operation] : w->name,
        .externalId = w->operator_id,
        .flowId = (uint32_t)w->id,
        .flowIsStart = call,
        .metadataCount = !call,
        .pMetadata = &value};
    a.nameSize = (uint32_t)strlen(a.pName);
    if (s.wanted[CALLS] && w->operation != SIM_WAIT && s.wanted[w->operation])
        a.flowType = KINETO_PLUGIN_PROFILE_EVENT_FLOW_TYPE_ASYNC_CPU_GPU;
    s.host->emit(s.handle, &a); /* what it refuses, it counts */
    s.delivered++;
}

static void deliver_sensors(void)
{
    int64_t time = sim_time();
    for (int i = s.no_power; i < SIM_SENSORS; i++) {
        uint64_t value = sim_sensor(i);
        KinetoPlugin_CounterSamples samples = {
            SIZE(KinetoPlugin_CounterSamples, pValues), s.sets[i], s.clock, 1, &time, &value};
        count(1, 0);
        s.delivered++;
        s.host->addCounterSamples(s.handle, &samples);
    }
}

/* ---- what the driver tells --------------------------------------------------------------------- */

/* Of each thread: its operators, the innermost last. */
static _Thread_local struct {
    uint32_t session, thread, depth;
    uint64_t ids[MAX_DEPTH];
} mine;

static uint32_t my_depth(void)
{
    if (mine.session != s.number) {
        mine.session = s.number;
        mine.thread = (uint32_t)gettid();
        mine.depth = 0;
    }
    return mine.depth < MAX_DEPTH ? mine.depth : MAX_DEPTH;
}

/* Before the work begins: whose it is, and how much there will be to deliver. */
static void take_up(sim_work *w)
{
    uint32_t depth = my_depth();
    w->session = s.number;
    w->thread = mine.thread;
    w->operator_id = depth ? mine.ids[depth - 1] : 0;
    count((w->operation != SIM_WAIT && s.wanted[w->operation]) + (s.wanted[CALLS] ? 1u : 0u), 0);
}

static void finish(const sim_work *w)
{
    if (s.wanted[w->operation])
        deliver_work(w, false);
    if (s.wanted[COUNTERS])
        deliver_sensors();
    if (w->end > s.sampled + 10000000)
        sample_clock();
}

static void on_work(sim_phase phase, sim_work *w)
{
    pthread_mutex_lock(&s.lock);
    if (s.running && phase == SIM_LAUNCH)
        take_up(w);
    else if (s.running && w->session == s.number && phase == SIM_FINISH)
        finish(w);
    else if (s.running && w->session == s.number && s.wanted[CALLS])
        deliver_work(w, true);
    pthread_mutex_unlock(&s.lock);
}

/* Off: when it returns, nobody is delivering any more. */
static void run(bool on)
{
    pthread_mutex_lock(&s.lock);
    s.running = on;
    pthread_mutex_unlock(&s.lock);
}

/* ---- what the host calls ----------------------------------------------------------------------- */

static int query(KinetoPlugin_ProfilerQuery_Params *p)
{
    EXPECT(p, ProfilerQuery_Params, supportedActivityTypesMaxLen, true, "parameters too short");
    if (p->pProfilerName)
        snprintf(p->pProfilerName, p->profilerNameMaxLen + 1, "Sim");
    if (HAS(p, KinetoPlugin_ProfilerQuery_Params, vendorNameMaxLen) && p->pVendorName)
        snprintf(p->pVendorName, p->vendorNameMaxLen + 1, "sim");
    for (size_t i = 0, n = 0; i < KINDS && n < p->supportedActivityTypesMaxLen; i++)
        if (i != SIM_DMA || types[SIM_DMA] != types[SIM_COPY])
            p->pSupportedActivityTypes[n++] = types[i];
    return 0;
}

static int create(KinetoPlugin_ProfilerCreate_Params *p)
{
    EXPECT(p, ProfilerCreate_Params, pProfilerHandle, s.state == NONE,
           "there is a session already");
    bool listed = HAS(p, KinetoPlugin_ProfilerCreate_Params, enabledActivityTypesMaxLen);
    for (int kind = 0; kind < KINDS; kind++) {
        s.wanted[kind] = !listed; /* the first revision had no list */
        for (size_t i = 0; listed && i < p->enabledActivityTypesMaxLen; i++)
            s.wanted[kind] |= p->pEnabledActivityTypes[i] == types[kind];
    }
    s.no_power = HAS(p, KinetoPlugin_ProfilerCreate_Params, pCustomConfig) && p->pCustomConfig &&
                 strstr(p->pCustomConfig, "sim.power=0");
    s.state = CREATED;
    p->pProfilerHandle = &s;
    return 0;
}

static int start(KinetoPlugin_ProfilerStart_Params *p)
{
    EXPECT(p, ProfilerStart_Params, pProfilerHandle, p->pProfilerHandle == &s, "no such session");
    EXPECT(p, ProfilerStart_Params, pProfilerHandle, s.state == CREATED, "not after create");
    EXPECT(p, ProfilerStart_Params, pProfilerHandle, sim_faults_begin(), "the device is busy");
    s.host = HAS(p, KinetoPlugin_ProfilerStart_Params, pLiveBuilder) ? p->pLiveBuilder : NULL;
    if (!s.host || !HAS(s.host, KinetoPlugin_TraceBuilder, addCounterSamples))
        s.host = sim_old_host_begin();
    s.host = sim_faults_between(s.host);
    s.handle = s.host->pTraceBuilderHandle;
    s.requested = s.delivered = 0;
    s.number++;
    s.pid = getpid();
    if (s.host->registerClock(s.handle, "sim clock", &s.clock) != 0)
        return fail("the host has no room for a clock");
    if (s.wanted[COUNTERS] && register_counters() != 0)
        return fail("the host has no room for counters");
    announce_rows();
    sample_clock();
    s.state = STARTED;
    run(true);
    return 0;
}

static int toggle(KinetoPlugin_ProfilerToggleCollection_Params *p)
{
    EXPECT(p, ProfilerToggleCollection_Params, enable, s.state == STARTED, "not started");
    run(p->enable != 0);
    return 0;
}

static int stop(KinetoPlugin_ProfilerStop_Params *p)
{
    EXPECT(p, ProfilerStop_Params, pProfilerHandle, s.state == STARTED, "not started");
    run(false);
    sample_clock();
    count(0, s.requested - s.delivered); /* what the device has not finished */
    s.state = STOPPED;
    return 0;
}

/* All has been delivered already, except to an old host. */
static int process_events(KinetoPlugin_ProfilerProcessEvents_Params *p)
{
    EXPECT(p, ProfilerProcessEvents_Params, pTraceBuilder, p->pTraceBuilder, "no builder");
    if (s.state == STOPPED)
        sim_old_host_end(p->pTraceBuilder);
    return 0;
}

static int destroy(KinetoPlugin_ProfilerDestroy_Params *p)
{
    EXPECT(p, ProfilerDestroy_Params, pProfilerHandle, s.state != NONE, "no such session");
    run(false);
    s.state = NONE;
    sim_faults_end();
    return 0;
}

/* From here to the pop, what the thread launches belongs to this operator. */
static int push(KinetoPlugin_ProfilerPushCorrelationId_Params *p)
{
    EXPECT(p, ProfilerPushCorrelationId_Params, pProfilerHandle, true, "parameters too short");
    if (my_depth() < MAX_DEPTH)
        mine.ids[mine.depth] = p->correlationId;
    mine.depth++;
    return 0;
}

static int pop(KinetoPlugin_ProfilerPopCorrelationId_Params *p)
{
    EXPECT(p, ProfilerPopCorrelationId_Params, pProfilerHandle, my_depth(), "nothing was pushed");
    mine.depth--;
    return 0;
}

static int error_text(KinetoPlugin_ProfilerErrorText_Params *p)
{
    EXPECT(p, ProfilerErrorText_Params, textMaxLen, p->pText, "no room for a text");
    snprintf(p->pText, p->textMaxLen + 1, "%s", why);
    return 0;
}

static const KinetoPlugin_ProfilerInterface profiler = {
    .unpaddedStructSize = SIZE(KinetoPlugin_ProfilerInterface, profilerErrorText),
    .profilerCreate = create,
    .profilerDestroy = destroy,
    .profilerQuery = query,
    .profilerStart = start,
    .profilerStop = stop,
    .profilerPushCorrelationId = push,
    .profilerPopCorrelationId = pop,
    .profilerProcessEvents = process_events,
    .profilerToggleCollection = toggle,
    .profilerErrorText = error_text};

EXPORT int KinetoPlugin_register(const KinetoPlugin_Registry *registry);
int KinetoPlugin_register(const KinetoPlugin_Registry *registry)
{
    KinetoPlugin_ActivityTypeInfo own = {"sim_dma", types[SIM_COPY], 1};
    KinetoPlugin_RegisterActivityTypes_Params params = {
        SIZE(KinetoPlugin_RegisterActivityTypes_Params, firstEventType), &own, 1, 0};
    EXPECT(registry, Registry, registerProfiler, true, "parameters too short");
    bool taken = HAS(registry, KinetoPlugin_Registry, registerActivityTypes) &&
                 registry->registerActivityTypes(registry->pRegistryHandle, &params) == 0;
    types[SIM_DMA] = taken ? params.firstEventType : types[SIM_COPY];
    sim_hook(on_work);
    return registry->registerProfiler(registry->pRegistryHandle, &profiler);
}

/* For `ckineto plugin check`: work of all kinds. */
static void no_work(void *arguments, uint32_t item) { (void)arguments, (void)item; }

EXPORT int KinetoPlugin_exercise(uint32_t n);
int KinetoPlugin_exercise(uint32_t n)
{
    static char from[256], to[SIM_QUEUES][64];
    for (uint32_t i = 0, q = 0; i < n; i++, q = i % SIM_QUEUES) {
        if (i % 3 == SIM_KERNEL)
            sim_launch(q, "no_work", 8, no_work, NULL);
        else if (i % 3 == SIM_COPY)
            sim_copy(q, to[q], from, sizeof to[q]);
        else
            sim_dma(q, to[q], from, 64, 16, 4);
    }
    for (uint32_t q = 0; q < SIM_QUEUES; q++)
        sim_synchronize(q);
    return 0;
}
