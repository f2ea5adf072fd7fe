/* A profiler in a library of a framework's backend, registered when the library is loaded. For each
 * operator that the recording thread enters it delivers one kernel, at most MAX_KERNELS. */
#include <ckineto/host.h>

#include <stdio.h>
#include <time.h>

#define MAX_KERNELS 64

static const KinetoPlugin_TraceBuilder *host;
static int delivered;

static int64_t now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_REALTIME, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

static int query(KinetoPlugin_ProfilerQuery_Params *p)
{
    snprintf(p->pProfilerName, p->profilerNameMaxLen + 1, "backend");
    p->pSupportedActivityTypes[0] = KINETO_PLUGIN_PROFILE_EVENT_TYPE_CONCURRENT_KERNEL;
    return 0;
}

static int create(KinetoPlugin_ProfilerCreate_Params *p)
{
    p->pProfilerHandle = (KinetoPlugin_ProfilerHandle *)(void *)&delivered;
    return 0;
}

static int destroy(KinetoPlugin_ProfilerDestroy_Params *p) { return p == NULL; }
static int process(KinetoPlugin_ProfilerProcessEvents_Params *p) { return p == NULL; }
static int pop(KinetoPlugin_ProfilerPopCorrelationId_Params *p) { return p == NULL; }

static int start(KinetoPlugin_ProfilerStart_Params *p)
{
    if (!KINETO_PLUGIN_HAS(p, KinetoPlugin_ProfilerStart_Params, pLiveBuilder))
        return -1;
    host = p->pLiveBuilder;
    delivered = 0;
    return 0;
}

static int stop(KinetoPlugin_ProfilerStop_Params *p)
{
    host = NULL;
    return p == NULL;
}

static int push(KinetoPlugin_ProfilerPushCorrelationId_Params *p)
{
    static const char name[] = "backend_kernel";
    int64_t now = now_ns();
    KinetoPlugin_Activity a = {
        .unpaddedStructSize = KINETO_PLUGIN_SIZE(KinetoPlugin_Activity, pMetadata),
        .event = {.unpaddedStructSize = KINETO_PLUGIN_SIZE(KinetoPlugin_ProfileEvent, threadId),
                  .eventType = KINETO_PLUGIN_PROFILE_EVENT_TYPE_CONCURRENT_KERNEL,
                  .startTimeUtcNs = now,
                  .endTimeUtcNs = now + 1000,
                  .deviceId = 7,
                  .resourceId = 2},
        .nameSize = sizeof name - 1,
        .pName = name,
        .externalId = p->correlationId};
    if (!host || delivered++ >= MAX_KERNELS)
        return 0;
    return host->emit(host->pTraceBuilderHandle, &a);
}

static const KinetoPlugin_ProfilerInterface profiler = {
    .unpaddedStructSize = KINETO_PLUGIN_SIZE(KinetoPlugin_ProfilerInterface, profilerProcessEvents),
    .profilerCreate = create,
    .profilerDestroy = destroy,
    .profilerQuery = query,
    .profilerStart = start,
    .profilerStop = stop,
    .profilerPushCorrelationId = push,
    .profilerPopCorrelationId = pop,
    .profilerProcessEvents = process};

KINETO_REGISTER_PRIVATEUSE1_PROFILER(&profiler);
