/* The plug-in of sim, to copy for another device: docs/how-to/write-a-plugin.md walks through it. */
#include "sim.h"
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#define SIZE(type, member) KINETO_PLUGIN_SIZE(KinetoPlugin_##type, member)
/* Go on only if what the host gives is as long as we need it, and the moment is right. */
#define EXPECT(p, type, member, condition, text)                                                   \
    if (!(p) || !KINETO_PLUGIN_HAS(p, KinetoPlugin_##type, member) || !(condition)) {              \
        why = text;                                                                                \
        return -1;                                                                                 \
    }
#define TOO_OLD "this host is too old: it takes no events while the program runs"

/* What is delivered: work of the device, the calls that cause it, counters. */
enum { CALLS = SIM_DMA + 1, COUNTERS, KINDS, MAX_DEPTH = 32 };
static int32_t types[KINDS] = {[SIM_KERNEL] = KINETO_PLUGIN_PROFILE_EVENT_TYPE_CONCURRENT_KERNEL,
                               [SIM_COPY] = KINETO_PLUGIN_PROFILE_EVENT_TYPE_GPU_MEMCPY,
                               [CALLS] = KINETO_PLUGIN_PROFILE_EVENT_TYPE_RUNTIME,
                               [COUNTERS] = KINETO_PLUGIN_PROFILE_EVENT_TYPE_GPU_PM_COUNTER};

static struct KinetoPlugin_ProfilerHandle { /* the one session */
    enum state { NONE, CREATED, STOPPED, PAUSED, RUNNING } state;
    bool wanted[KINDS];
    _Atomic uint32_t number;
    const KinetoPlugin_TraceBuilder *host;
    KinetoPlugin_TraceBuilderHandle *handle; /* of that */
    int32_t clock, counters;
    uint64_t pending;     /* activities that are still to come; what is at stop, is lost */
    pthread_mutex_t lock; /* a busy driver would have a buffer for each thread */
} s = {.lock = PTHREAD_MUTEX_INITIALIZER};
static _Thread_local struct { /* the operators of each thread, the innermost last */
    uint32_t session, depth;
    uint64_t ids[MAX_DEPTH];
} mine;
static const char *_Atomic why = ""; /* the last call failed */

static int announce(void)
{
    static const char *const queues[] = {"compute 0", "compute 1", "copy", "dma"};
    static const char *const name = "power", *const unit = "W";
    KinetoPlugin_Metadata property = {"queues", KINETO_PLUGIN_VALUE_INT, 1, {.i = SIM_QUEUES}};
    KinetoPlugin_ProfileDeviceInfo device = {SIZE(ProfileDeviceInfo, pLabel), 0, 7000,
                                             "Sim accelerator", "sim 0"};
    KinetoPlugin_CounterSet set = {SIZE(CounterSet, pUnits), name, types[COUNTERS], 0,
                                   KINETO_PLUGIN_VALUE_UINT, 1,    &name,           &unit};
    s.host->addDeviceInfo(s.handle, &device);
    s.host->addDeviceProperties(s.handle, 0, &property, 1);
    for (int32_t q = 0; q < SIM_QUEUES; q++) {
        KinetoPlugin_ProfileResourceInfo row = {
            SIZE(ProfileResourceInfo, pName), {0}, {q}, 10 + q, queues[q]};
        s.host->addResourceInfo(s.handle, &row);
    }
    return s.host->registerClock(s.handle, "sim clock", &s.clock) ||
           (s.wanted[COUNTERS] && s.host->registerCounters(s.handle, &set, &s.counters));
}

/* What the device's clock says between two readings of the host's, and the sensor then. */
static void sample(void)
{
    uint64_t watts = sim_watts(), before = s.host->hostTicks(s.handle);
    int64_t now = sim_time();
    s.host->addClockSample(s.handle, s.clock, now, before, s.host->hostTicks(s.handle));
    KinetoPlugin_CounterSamples samples = {
        SIZE(CounterSamples, pValues), s.counters, s.clock, 1, &now, &watts};
    if (s.wanted[COUNTERS]) {
        s.host->addCounts(s.handle, &(KinetoPlugin_Counts){SIZE(Counts, dropped), 1, 0});
        s.host->addCounterSamples(s.handle, &samples);
    }
}

/* A call of the program, or what the device did for it; an arrow leads from one to the other. */
static void deliver(const sim_work *w, int kind, const sim_span *at, int32_t clock)
{
    bool call = kind == CALLS, arrow = s.wanted[CALLS] && s.wanted[w->operation];
    uint32_t length = (uint32_t)strlen(at->name), id = (uint32_t)w->id;
    int32_t flow = arrow ? KINETO_PLUGIN_PROFILE_EVENT_FLOW_TYPE_ASYNC_CPU_GPU : 0;
    KinetoPlugin_Metadata m = {
        w->from ? "bytes" : "grid", KINETO_PLUGIN_VALUE_UINT, 1, {.u = w->size}};
    KinetoPlugin_ProfileEvent e = {
        SIZE(ProfileEvent, threadId), types[kind], at->start, at->end, w->id, {at->dev}, {at->row}};
    KinetoPlugin_Activity a = {SIZE(Activity, pMetadata), e, clock, length, at->name, w->owner,
                               flow, id, call, !call, &m, 0};
    s.pending -= s.wanted[kind];
    if (s.wanted[kind])
        s.host->emit(s.handle, &a); /* what it refuses, it counts */
}

static void on_work(sim_work *w, bool finished)
{
    pthread_mutex_lock(&s.lock);
    if (s.state == RUNNING && !finished) { /* whose it is, and how much there will be to deliver */
        uint32_t depth = mine.session == s.number ? mine.depth : 0;
        uint32_t coming = (uint32_t)s.wanted[w->operation] + s.wanted[CALLS];
        w->session = s.number;
        w->owner = depth ? mine.ids[(depth < MAX_DEPTH ? depth : MAX_DEPTH) - 1] : 0;
        s.pending += coming;
        s.host->addCounts(s.handle, &(KinetoPlugin_Counts){SIZE(Counts, dropped), coming, 0});
    } else if (s.state == RUNNING && w->session == s.number) {
        deliver(w, CALLS, &w->call, KINETO_PLUGIN_CLOCK_MONOTONIC_RAW);
        deliver(w, (int)w->operation, &w->work, s.clock);
        sample();
    }
    pthread_mutex_unlock(&s.lock);
}

/* When it returns, nobody is delivering any more, unless RUNNING. */
static int become(enum state state)
{
    pthread_mutex_lock(&s.lock);
    s.state = state;
    return pthread_mutex_unlock(&s.lock);
}

/* ---- what the host calls ----------------------------------------------------------------------- */
static int query(KinetoPlugin_ProfilerQuery_Params *p)
{
    EXPECT(p, ProfilerQuery_Params, vendorNameMaxLen, p->pProfilerName && p->pVendorName, TOO_OLD);
    snprintf(p->pProfilerName, p->profilerNameMaxLen + 1, "Sim");
    snprintf(p->pVendorName, p->vendorNameMaxLen + 1, "sim");
    for (size_t i = 0; i < KINDS && i < p->supportedActivityTypesMaxLen; i++)
        p->pSupportedActivityTypes[i] = types[i];
    return 0;
}
static int create(KinetoPlugin_ProfilerCreate_Params *p)
{
    EXPECT(p, ProfilerCreate_Params, pCustomConfig, s.state == NONE, "there is a session already");
    for (int kind = 0; kind < KINDS; kind++) {
        s.wanted[kind] = false;
        for (size_t i = 0; i < p->enabledActivityTypesMaxLen; i++)
            s.wanted[kind] |= p->pEnabledActivityTypes[i] == types[kind];
    }
    s.wanted[COUNTERS] &= !strstr(p->pCustomConfig, "sim.power=0");
    p->pProfilerHandle = &s;
    return become(CREATED);
}
static int start(KinetoPlugin_ProfilerStart_Params *p)
{
    EXPECT(p, ProfilerStart_Params, pLiveBuilder, p->pLiveBuilder, TOO_OLD);
    EXPECT(p->pLiveBuilder, TraceBuilder, addCounterSamples, true, TOO_OLD);
    EXPECT(p, ProfilerStart_Params, pLiveBuilder, s.state == CREATED, "not after create");
    s.host = sim_faults(p->pLiveBuilder);
    EXPECT(s.host, TraceBuilder, emit, true, "the device is busy");
    s.handle = s.host->pTraceBuilderHandle;
    s.pending = 0;
    s.number++;
    EXPECT(s.host, TraceBuilder, emit, announce() == 0, "the host has no more room");
    sample();
    return become(RUNNING);
}
static int toggle(KinetoPlugin_ProfilerToggleCollection_Params *p)
{
    EXPECT(p, ProfilerToggleCollection_Params, enable, s.state >= PAUSED, "not started");
    return become(p->enable ? RUNNING : PAUSED);
}
static int stop(KinetoPlugin_ProfilerStop_Params *p)
{
    EXPECT(p, ProfilerStop_Params, pProfilerHandle, s.state >= PAUSED, "not started");
    become(STOPPED);
    sample();
    s.host->addCounts(s.handle, &(KinetoPlugin_Counts){SIZE(Counts, dropped), 0, s.pending});
    return 0;
}
static int process(KinetoPlugin_ProfilerProcessEvents_Params *p)
{
    EXPECT(p, ProfilerProcessEvents_Params, pTraceBuilder, true, "parameters too short");
    return 0; /* all has been delivered */
}
static int destroy(KinetoPlugin_ProfilerDestroy_Params *p)
{
    EXPECT(p, ProfilerDestroy_Params, pProfilerHandle, s.state != NONE, "no such session");
    become(NONE);
    sim_faults(NULL);
    return 0;
}
/* From here to the pop, what the thread launches belongs to this operator. */
static int push(KinetoPlugin_ProfilerPushCorrelationId_Params *p)
{
    EXPECT(p, ProfilerPushCorrelationId_Params, pProfilerHandle, true, "parameters too short");
    mine.depth = mine.session == s.number ? mine.depth : 0;
    mine.session = s.number;
    if (mine.depth++ < MAX_DEPTH)
        mine.ids[mine.depth - 1] = p->correlationId;
    return 0;
}
static int pop(KinetoPlugin_ProfilerPopCorrelationId_Params *p)
{
    bool pushed = mine.session == s.number && mine.depth;
    EXPECT(p, ProfilerPopCorrelationId_Params, pProfilerHandle, pushed, "nothing was pushed");
    mine.depth--;
    return 0;
}
static int explain(KinetoPlugin_ProfilerErrorText_Params *p)
{
    EXPECT(p, ProfilerErrorText_Params, textMaxLen, p->pText, "no room for a text");
    snprintf(p->pText, p->textMaxLen + 1, "%s", why);
    return 0;
}

SIM_API int KinetoPlugin_register(const KinetoPlugin_Registry *registry);
int KinetoPlugin_register(const KinetoPlugin_Registry *registry)
{
    static const KinetoPlugin_ProfilerInterface profiler = {
        sizeof profiler, create, destroy, query, start, stop, push, pop, NULL, NULL,
        process,         toggle, explain};
    KinetoPlugin_ActivityTypeInfo own = {"sim_dma", types[SIM_COPY], 1};
    KinetoPlugin_RegisterActivityTypes_Params params = {
        SIZE(RegisterActivityTypes_Params, firstEventType), &own, 1, 0};
    EXPECT(registry, Registry, registerActivityTypes, true, TOO_OLD);
    if (registry->registerActivityTypes(registry->pRegistryHandle, &params) != 0)
        return -1;
    types[SIM_DMA] = params.firstEventType;
    sim_hook(on_work);
    return registry->registerProfiler(registry->pRegistryHandle, &profiler);
}
/* For `ckineto plugin check`: work of all kinds. */
SIM_API int KinetoPlugin_exercise(uint32_t n);
int KinetoPlugin_exercise(uint32_t n)
{
    static char from[64], to[2][64];
    int failures = 0;
    for (uint32_t i = 0; i < n; i += 3)
        failures += sim_launch(i % 2, "nothing", 8, NULL, NULL) +
                    sim_copy(SIM_COPIES, to[0], from, sizeof from) +
                    sim_copy(SIM_DMA_ENGINE, to[1], from, sizeof from);
    for (uint32_t q = 0; q < SIM_QUEUES; q++)
        sim_synchronize(q);
    return failures;
}
