/* A plug-in that uses every member of the interface of version 0.1. Its binary beside it was built
 * once from the header of that day and is loaded ever after: neither is edited again. A later
 * header gets a later plug-in. See README.md. */
#include <ckineto/plugin.h>

#include <time.h>

#define COUNT(array)       (sizeof(array) / sizeof((array)[0]))
#define HAS(p, Type, last) KINETO_PLUGIN_HAS(p, KinetoPlugin_##Type, last)
#define SIZE(Type, last)   KINETO_PLUGIN_SIZE(KinetoPlugin_##Type, last)
#define EXPORT             __attribute__((visibility("default")))

enum { DEVICE = 1, QUEUE = 2, CORRELATION = 501, FLOW = 9 };

typedef struct session {
    const KinetoPlugin_TraceBuilder *live; /* NULL: the host takes events at the end only */
    int32_t clock, set, running, toggles;
    int32_t enabled[8];
    size_t enabled_count;
    int told; /* what is enabled */
    int64_t base_ns;
    uint64_t start_ticks, pushed, pushed_user;
} session;

static session the_session;
static int32_t own_type; /* 0: the host knows no kinds of our own */
static const char *error = "";

static session *session_of(KinetoPlugin_ProfilerHandle *handle)
{
    return (session *)(void *)handle;
}

static int wants(const session *s, int32_t type)
{
    for (size_t i = 0; i < s->enabled_count; i++)
        if (s->enabled[i] == type)
            return 1;
    return !s->told;
}

static int64_t utc_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_REALTIME, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

static int fails(const char *why)
{
    error = why;
    return 1;
}

static void copy(char *to, size_t most, const char *from)
{
    size_t i = 0;
    for (; from[i] && i < most; i++)
        to[i] = from[i];
    to[i] = 0;
}

/* ---- what it delivers ----------------------------------------------------------------------- */

static KinetoPlugin_ProfileEvent event_of(int32_t type, int64_t start, int64_t end)
{
    KinetoPlugin_ProfileEvent e = {.unpaddedStructSize = SIZE(ProfileEvent, resourceId),
                                   .eventType = type,
                                   .startTimeUtcNs = start,
                                   .endTimeUtcNs = end,
                                   .eventId = CORRELATION};
    e.deviceId = DEVICE;
    e.resourceId = QUEUE;
    return e;
}

static const int64_t a_list[] = {1, -2, 3};
static const char *const some_texts[] = {"one", "two \"quoted\""};
static const KinetoPlugin_Metadata values[] = {
    {"int", KINETO_PLUGIN_VALUE_INT, 0, {.i = -5}},
    {"uint", KINETO_PLUGIN_VALUE_UINT, 0, {.u = UINT64_MAX}},
    {"double", KINETO_PLUGIN_VALUE_DOUBLE, 0, {.d = 0.5}},
    {"bool", KINETO_PLUGIN_VALUE_BOOL, 0, {.u = 1}},
    {"string", KINETO_PLUGIN_VALUE_STRING, 5, {.pointer = "bytes"}},
    {"ints", KINETO_PLUGIN_VALUE_INTS, 3, {.pointer = a_list}},
    {"strings", KINETO_PLUGIN_VALUE_STRINGS, 2, {.pointer = some_texts}},
    {"json", KINETO_PLUGIN_VALUE_JSON, 7, {.pointer = "{\"a\":1}"}}};

static int emit(const session *s, int32_t type, int32_t clock, int64_t start, int64_t end,
                const char *name)
{
    KinetoPlugin_Activity a = {.unpaddedStructSize = SIZE(Activity, pMetadata),
                               .event = event_of(type, start, end),
                               .clock = clock,
                               .pName = name,
                               .externalId = s->pushed};
    if (!wants(s, type))
        return 0;
    while (name[a.nameSize])
        a.nameSize++;
    if (type == KINETO_PLUGIN_PROFILE_EVENT_TYPE_CONCURRENT_KERNEL) {
        a.flowType = KINETO_PLUGIN_PROFILE_EVENT_FLOW_TYPE_ASYNC_CPU_GPU;
        a.flowId = FLOW;
        a.metadataCount = COUNT(values);
        a.pMetadata = values;
    } else if (type == KINETO_PLUGIN_PROFILE_EVENT_TYPE_RUNTIME) {
        a.flowType = KINETO_PLUGIN_PROFILE_EVENT_FLOW_TYPE_ASYNC_CPU_GPU;
        a.flowId = FLOW;
        a.flowIsStart = 1;
        a.event.processId = a.event.threadId = 0; /* here */
    }
    return s->live->emit(s->live->pTraceBuilderHandle, &a);
}

static int emit_counters(const session *s)
{
    const int64_t times[] = {s->base_ns + 100, s->base_ns + 200, s->base_ns + 300};
    const double samples[] = {10.5, 40, 20.5, 41, 30.5, 42};
    KinetoPlugin_CounterSamples c = {.unpaddedStructSize = SIZE(CounterSamples, pValues),
                                     .set = s->set,
                                     .clock = KINETO_PLUGIN_CLOCK_UTC,
                                     .count = COUNT(times),
                                     .pTimes = times,
                                     .pValues = samples};
    if (!wants(s, KINETO_PLUGIN_PROFILE_EVENT_TYPE_GPU_PM_COUNTER))
        return 0;
    return s->live->addCounterSamples(s->live->pTraceBuilderHandle, &c);
}

static int clock_sample(const session *s)
{
    const KinetoPlugin_TraceBuilder *b = s->live;
    uint64_t before = b->hostTicks(b->pTraceBuilderHandle);
    uint64_t after = b->hostTicks(b->pTraceBuilderHandle);
    return b->addClockSample(b->pTraceBuilderHandle, s->clock,
                             (int64_t)(before + (after - before) / 2), before, after);
}

static int announce(session *s)
{
    static const char *const series[] = {"power", "heat"}, *const units[] = {"W", NULL};
    const KinetoPlugin_TraceBuilder *b = s->live;
    KinetoPlugin_CounterSet set = {.unpaddedStructSize = SIZE(CounterSet, pUnits),
                                   .pName = "frozen sensors",
                                   .eventType = KINETO_PLUGIN_PROFILE_EVENT_TYPE_GPU_PM_COUNTER,
                                   .deviceId = DEVICE,
                                   .valueType = KINETO_PLUGIN_VALUE_DOUBLE,
                                   .seriesCount = COUNT(series),
                                   .pSeriesNames = series,
                                   .pUnits = units};
    s->start_ticks = b->hostTicks(b->pTraceBuilderHandle);
    if (wants(s, set.eventType) && b->registerCounters(b->pTraceBuilderHandle, &set, &s->set))
        return 1;
    return b->registerClock(b->pTraceBuilderHandle, "frozen clock", &s->clock) || clock_sample(s) ||
           b->addDeviceProperties(b->pTraceBuilderHandle, DEVICE, values, 1) ||
           b->addHeaderMetadata(b->pTraceBuilderHandle, "frozen_version", "\"0.1\"");
}

static int deliver_live(session *s)
{
    const KinetoPlugin_TraceBuilder *b = s->live;
    KinetoPlugin_Counts counts = {SIZE(Counts, dropped), 8, 1};
    int64_t ticks = (int64_t)b->hostTicks(b->pTraceBuilderHandle);
    return clock_sample(s) ||
           emit(s, KINETO_PLUGIN_PROFILE_EVENT_TYPE_CONCURRENT_KERNEL, KINETO_PLUGIN_CLOCK_UTC,
                s->base_ns + 200, s->base_ns + 300, "frozen kernel") ||
           emit(s, KINETO_PLUGIN_PROFILE_EVENT_TYPE_GPU_MEMCPY, KINETO_PLUGIN_CLOCK_TICKS,
                (int64_t)s->start_ticks, ticks, "frozen copy") ||
           emit(s, own_type, s->clock, (int64_t)s->start_ticks, ticks, "frozen step") ||
           emit(s, KINETO_PLUGIN_PROFILE_EVENT_TYPE_RUNTIME, KINETO_PLUGIN_CLOCK_UTC,
                s->base_ns + 100, s->base_ns + 150, "frozenLaunch") ||
           emit_counters(s) || b->addCounts(b->pTraceBuilderHandle, &counts);
}

static int deliver_rows(const KinetoPlugin_TraceBuilder *b)
{
    KinetoPlugin_ProfileDeviceInfo d = {.unpaddedStructSize = SIZE(ProfileDeviceInfo, pLabel),
                                        .deviceId = DEVICE,
                                        .sortIndex = 31,
                                        .pName = "Frozen device",
                                        .pLabel = "FROZEN 1"};
    KinetoPlugin_ProfileResourceInfo r = {.unpaddedStructSize = SIZE(ProfileResourceInfo, pName),
                                          .displayOrder = 32,
                                          .pName = "frozen queue"};
    r.deviceId = DEVICE;
    r.resourceId = QUEUE;
    return b->addDeviceInfo(b->pTraceBuilderHandle, &d) ||
           b->addResourceInfo(b->pTraceBuilderHandle, &r);
}

/* The way that every host knows. */
static int deliver_stepwise(const session *s, const KinetoPlugin_TraceBuilder *b)
{
    KinetoPlugin_TraceBuilderHandle *h = b->pTraceBuilderHandle;
    KinetoPlugin_ProfileEvent e = event_of(KINETO_PLUGIN_PROFILE_EVENT_TYPE_CONCURRENT_KERNEL,
                                           s->base_ns + 400, s->base_ns + 500);
    KinetoPlugin_ProfileEventFlow f = {.unpaddedStructSize = SIZE(ProfileEventFlow, isStartPoint),
                                       .flowType = KINETO_PLUGIN_PROFILE_EVENT_FLOW_TYPE_FWD_BWD,
                                       .flowId = 10,
                                       .isStartPoint = true};
    if (!wants(s, e.eventType))
        return 0;
    if (b->addEvent(h, &e) || b->setLastEventName(h, "frozen stepwise") ||
        b->setLastEventFlow(h, &f) || b->addLastEventMetadata(h, "text", "\"json\""))
        return 1;
    if (!HAS(b, TraceBuilder, addLastEventValues))
        return 0;
    return b->setLastEventIds(h, CORRELATION + 1, s->pushed_user) ||
           b->addLastEventValues(h, values, 2);
}

/* ---- its life ------------------------------------------------------------------------------- */

static int query(KinetoPlugin_ProfilerQuery_Params *p)
{
    const int32_t types[] = {KINETO_PLUGIN_PROFILE_EVENT_TYPE_CONCURRENT_KERNEL,
                             KINETO_PLUGIN_PROFILE_EVENT_TYPE_GPU_MEMCPY,
                             KINETO_PLUGIN_PROFILE_EVENT_TYPE_RUNTIME,
                             KINETO_PLUGIN_PROFILE_EVENT_TYPE_GPU_PM_COUNTER, own_type};
    copy(p->pProfilerName, p->profilerNameMaxLen, "frozen");
    for (size_t i = 0; i < COUNT(types) && i < p->supportedActivityTypesMaxLen; i++)
        p->pSupportedActivityTypes[i] = types[i];
    if (HAS(p, ProfilerQuery_Params, vendorNameMaxLen))
        copy(p->pVendorName, p->vendorNameMaxLen, "xpu");
    return 0;
}

static int create(KinetoPlugin_ProfilerCreate_Params *p)
{
    const session fresh = {0};
    if (HAS(p, ProfilerCreate_Params, pCustomConfig) && p->pCustomConfig[0] == '!')
        return fails("told to fail");
    the_session = fresh;
    the_session.told = HAS(p, ProfilerCreate_Params, enabledActivityTypesMaxLen);
    for (size_t i = 0; the_session.told && i < p->enabledActivityTypesMaxLen; i++)
        if (i < COUNT(the_session.enabled))
            the_session.enabled[the_session.enabled_count++] = p->pEnabledActivityTypes[i];
    p->pProfilerHandle = (KinetoPlugin_ProfilerHandle *)(void *)&the_session;
    return 0;
}

static int start(KinetoPlugin_ProfilerStart_Params *p)
{
    session *s = session_of(p->pProfilerHandle);
    s->base_ns = utc_ns();
    s->running = 1;
    if (HAS(p, ProfilerStart_Params, pLiveBuilder) &&
        HAS(p->pLiveBuilder, TraceBuilder, addCounterSamples))
        s->live = p->pLiveBuilder;
    return s->live && announce(s) ? fails("cannot announce") : 0;
}

static int stop(KinetoPlugin_ProfilerStop_Params *p)
{
    session *s = session_of(p->pProfilerHandle);
    s->running = 0;
    return s->live && deliver_live(s) ? fails("cannot deliver") : 0;
}

static int process(KinetoPlugin_ProfilerProcessEvents_Params *p)
{
    const session *s = session_of(p->pProfilerHandle);
    if (s->running) /* all comes at the end */
        return 0;
    return deliver_stepwise(s, p->pTraceBuilder) || deliver_rows(p->pTraceBuilder)
               ? fails("cannot deliver in steps")
               : 0;
}

static int destroy(KinetoPlugin_ProfilerDestroy_Params *p)
{
    return p->pProfilerHandle ? 0 : fails("no handle");
}

static int push(KinetoPlugin_ProfilerPushCorrelationId_Params *p)
{
    session_of(p->pProfilerHandle)->pushed = p->correlationId;
    return 0;
}

static int push_user(KinetoPlugin_ProfilerPushUserCorrelationId_Params *p)
{
    session_of(p->pProfilerHandle)->pushed_user = p->userCorrelationId;
    return 0;
}

static int pop(KinetoPlugin_ProfilerPopCorrelationId_Params *p)
{
    return p->pProfilerHandle ? 0 : fails("no handle");
}

static int pop_user(KinetoPlugin_ProfilerPopUserCorrelationId_Params *p)
{
    return p->pProfilerHandle ? 0 : fails("no handle");
}

static int toggle(KinetoPlugin_ProfilerToggleCollection_Params *p)
{
    session_of(p->pProfilerHandle)->toggles++;
    return 0;
}

static int error_text(KinetoPlugin_ProfilerErrorText_Params *p)
{
    copy(p->pText, p->textMaxLen, error);
    return 0;
}

static const KinetoPlugin_ProfilerInterface profiler = {
    .unpaddedStructSize = SIZE(ProfilerInterface, profilerErrorText),
    .profilerCreate = create,
    .profilerDestroy = destroy,
    .profilerQuery = query,
    .profilerStart = start,
    .profilerStop = stop,
    .profilerPushCorrelationId = push,
    .profilerPopCorrelationId = pop,
    .profilerPushUserCorrelationId = push_user,
    .profilerPopUserCorrelationId = pop_user,
    .profilerProcessEvents = process,
    .profilerToggleCollection = toggle,
    .profilerErrorText = error_text};

EXPORT int KinetoPlugin_register(const KinetoPlugin_Registry *registry);
EXPORT int KinetoPlugin_register(const KinetoPlugin_Registry *registry)
{
    static const KinetoPlugin_ActivityTypeInfo own[] = {
        {"frozen_step", KINETO_PLUGIN_PROFILE_EVENT_TYPE_CONCURRENT_KERNEL, 1}};
    KinetoPlugin_RegisterActivityTypes_Params params = {
        .unpaddedStructSize = SIZE(RegisterActivityTypes_Params, firstEventType),
        .pTypes = own,
        .count = COUNT(own)};
    if (HAS(registry, Registry, registerActivityTypes) &&
        registry->registerActivityTypes(registry->pRegistryHandle, &params) == 0)
        own_type = params.firstEventType;
    return registry->registerProfiler(registry->pRegistryHandle, &profiler);
}

/* How often it was told to pause or go on: all that it lets others see. */
EXPORT int frozen_toggles(void);
EXPORT int frozen_toggles(void) { return the_session.toggles; }
