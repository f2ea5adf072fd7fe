/* A plug-in as a vendor ships one: a library that knows the interface's header and nothing else. It
 * writes its life down for the tests, and delivers a launch, a kernel and a copy per session. */
#include <ckineto/plugin.h>

#include <string.h>
#include <time.h>
#include <unistd.h>

#define EXPORTED         __attribute__((visibility("default")))
#define SIZE(type, last) KINETO_PLUGIN_SIZE(KinetoPlugin_##type, last)

EXPORTED int KinetoPlugin_register(const KinetoPlugin_Registry *registry);
EXPORTED const char *dynamic_life(void);
EXPORTED int64_t dynamic_start(void);

static char life[512]; /* a letter per call */
static int64_t start_ns;
static int32_t enabled[8];
static size_t enabled_count;

const char *dynamic_life(void) { return life; }
int64_t dynamic_start(void) { return start_ns; }

static void note(char letter)
{
    size_t n = strlen(life);
    if (n + 1 < sizeof life)
        life[n] = letter;
}

static KinetoPlugin_ProfilerHandle *self(void)
{
    return (KinetoPlugin_ProfilerHandle *)(void *)life;
}

/* Notes a call; refuses one that comes with another handle. */
static int call(char letter, const KinetoPlugin_ProfilerHandle *handle)
{
    note(handle == self() ? letter : '?');
    return handle != self();
}

static int query(KinetoPlugin_ProfilerQuery_Params *p)
{
    static const int32_t types[] = {KINETO_PLUGIN_PROFILE_EVENT_TYPE_RUNTIME,
                                    KINETO_PLUGIN_PROFILE_EVENT_TYPE_CONCURRENT_KERNEL,
                                    KINETO_PLUGIN_PROFILE_EVENT_TYPE_GPU_MEMCPY};
    note(p->pProfilerHandle ? '?' : 'q');
    strncpy(p->pProfilerName, "dynamic", p->profilerNameMaxLen);
    for (size_t i = 0; i < 3 && i < p->supportedActivityTypesMaxLen; i++)
        p->pSupportedActivityTypes[i] = types[i];
    return 0;
}

static int create(KinetoPlugin_ProfilerCreate_Params *p)
{
    note('c');
    enabled_count = 0;
    for (size_t i = 0; i < p->enabledActivityTypesMaxLen && i < 8; i++)
        enabled[enabled_count++] = p->pEnabledActivityTypes[i];
    p->pProfilerHandle = self();
    return 0;
}

static int start(KinetoPlugin_ProfilerStart_Params *p)
{
    struct timespec t;
    clock_gettime(CLOCK_REALTIME, &t);
    start_ns = (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
    return call('s', p->pProfilerHandle);
}

static int stop(KinetoPlugin_ProfilerStop_Params *p) { return call('t', p->pProfilerHandle); }
static int destroy(KinetoPlugin_ProfilerDestroy_Params *p) { return call('d', p->pProfilerHandle); }
static int push(KinetoPlugin_ProfilerPushCorrelationId_Params *p)
{
    return call(p->correlationId == 11 ? '(' : '?', p->pProfilerHandle);
}
static int pop(KinetoPlugin_ProfilerPopCorrelationId_Params *p)
{
    return call(')', p->pProfilerHandle);
}
static int push_user(KinetoPlugin_ProfilerPushUserCorrelationId_Params *p)
{
    return call(p->userCorrelationId == 22 ? '[' : '?', p->pProfilerHandle);
}
static int pop_user(KinetoPlugin_ProfilerPopUserCorrelationId_Params *p)
{
    return call(']', p->pProfilerHandle);
}

/* ---- delivery ----------------------------------------------------------------------------------- */

static int is_enabled(int32_t type)
{
    for (size_t i = 0; i < enabled_count; i++)
        if (enabled[i] == type)
            return 1;
    return 0;
}

static int add(const KinetoPlugin_TraceBuilder *b, int32_t type, const char *name, int64_t id,
               int32_t device, int32_t resource, int64_t from, int64_t to)
{
    KinetoPlugin_ProfileEvent e = {.unpaddedStructSize = SIZE(ProfileEvent, resourceId),
                                   .eventType = type,
                                   .startTimeUtcNs = start_ns + from,
                                   .endTimeUtcNs = start_ns + to,
                                   .eventId = id,
                                   .deviceId = device,
                                   .resourceId = resource};
    return !is_enabled(type) || b->addEvent(b->pTraceBuilderHandle, &e) ||
           b->setLastEventName(b->pTraceBuilderHandle, name);
}

static int flow(const KinetoPlugin_TraceBuilder *b, bool is_start)
{
    KinetoPlugin_ProfileEventFlow f = {.unpaddedStructSize = SIZE(ProfileEventFlow, isStartPoint),
                                       .flowType =
                                           KINETO_PLUGIN_PROFILE_EVENT_FLOW_TYPE_ASYNC_CPU_GPU,
                                       .flowId = 70,
                                       .isStartPoint = is_start};
    return b->setLastEventFlow(b->pTraceBuilderHandle, &f);
}

static int metadata(const KinetoPlugin_TraceBuilder *b)
{
    static const char *const pairs[][2] = {{"grid", "[64,1,1]"}, {"registers per thread", "32"},
                                           {"occupancy", "0.5"},   {"kind", "\"matrix\""},
                                           {"cached", "true"},     {"unquoted", "as it comes"}};
    int failed = 0;
    for (size_t i = 0; i < sizeof pairs / sizeof pairs[0]; i++)
        failed |= b->addLastEventMetadata(b->pTraceBuilderHandle, pairs[i][0], pairs[i][1]);
    return failed;
}

static int places(const KinetoPlugin_TraceBuilder *b)
{
    KinetoPlugin_ProfileDeviceInfo device = {.unpaddedStructSize = SIZE(ProfileDeviceInfo, pLabel),
                                             .deviceId = 5,
                                             .sortIndex = 105,
                                             .pName = "Dynamic accelerator",
                                             .pLabel = "DYN 5"};
    char name[] = "queue 3";
    KinetoPlugin_ProfileResourceInfo queue = {.unpaddedStructSize =
                                                  SIZE(ProfileResourceInfo, pName),
                                              .deviceId = 5,
                                              .resourceId = 3,
                                              .displayOrder = 33,
                                              .pName = name};
    int failed = b->addDeviceInfo(b->pTraceBuilderHandle, &device) ||
                 b->addResourceInfo(b->pTraceBuilderHandle, &queue);
    memset(name, 'x', sizeof name - 1); /* names are ephemeral */
    return failed;
}

static int process(KinetoPlugin_ProfilerProcessEvents_Params *p)
{
    const KinetoPlugin_TraceBuilder *b = p->pTraceBuilder;
    int32_t pid = (int32_t)getpid(); /* a launch is the host's: process and thread */
    int failed = add(b, KINETO_PLUGIN_PROFILE_EVENT_TYPE_RUNTIME, "dynLaunch", 7, pid, pid, 0, 100);
    failed |= flow(b, true);
    failed |= add(b, KINETO_PLUGIN_PROFILE_EVENT_TYPE_CONCURRENT_KERNEL, "matmul<float>", 7, 5, 3,
                  200, 900);
    failed |= flow(b, false) | metadata(b);
    failed |= add(b, KINETO_PLUGIN_PROFILE_EVENT_TYPE_GPU_MEMCPY, "copy", 8, 5, 3, 1000, 1000);
    failed |= places(b);
    return call('p', p->pProfilerHandle) | failed;
}

int KinetoPlugin_register(const KinetoPlugin_Registry *registry)
{
    static const KinetoPlugin_ProfilerInterface profiler = {
        .unpaddedStructSize = SIZE(ProfilerInterface, profilerProcessEvents),
        .profilerCreate = create,
        .profilerDestroy = destroy,
        .profilerQuery = query,
        .profilerStart = start,
        .profilerStop = stop,
        .profilerPushCorrelationId = push,
        .profilerPopCorrelationId = pop,
        .profilerPushUserCorrelationId = push_user,
        .profilerPopUserCorrelationId = pop_user,
        .profilerProcessEvents = process};
    note('r');
    return registry->registerProfiler(registry->pRegistryHandle, &profiler);
}
