/* A plug-in for the tests of the command, compiled once for each way to behave:
 *   GOOD     records two kernels, named after the custom config, in processEvents
 *   OWN      the same as activities of a kind of its own, "test_dma", which is like gpu_memcpy
 *   REFUSE, CRASH, EXIT, HANG  what its register function does
 *   NONE     no plug-in: a library that some plug-in needs
 */
#include <ckineto/plugin.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define GOOD   0
#define OWN    1
#define REFUSE 2
#define CRASH  3
#define EXIT   4
#define HANG   5
#define NONE   6
#ifndef BEHAVIOUR
#define BEHAVIOUR GOOD
#endif
#define EXPORT __attribute__((visibility("default")))

#if BEHAVIOUR == NONE
EXPORT int test_plugin_helper(void);
int test_plugin_helper(void) { return 0; }
#else

static int32_t event_type = KINETO_PLUGIN_PROFILE_EVENT_TYPE_CONCURRENT_KERNEL;
static char config[64] = "kernel";
static int session;

static int create(KinetoPlugin_ProfilerCreate_Params *p)
{
    if (KINETO_PLUGIN_HAS(p, KinetoPlugin_ProfilerCreate_Params, pCustomConfig) &&
        p->pCustomConfig[0])
        snprintf(config, sizeof config, "%s", p->pCustomConfig);
    p->pProfilerHandle = (KinetoPlugin_ProfilerHandle *)(void *)&session;
    return 0;
}

static int destroy(KinetoPlugin_ProfilerDestroy_Params *p) { return p == NULL; }
static int start(KinetoPlugin_ProfilerStart_Params *p) { return p == NULL; }
static int stop(KinetoPlugin_ProfilerStop_Params *p) { return p == NULL; }

static int query(KinetoPlugin_ProfilerQuery_Params *p)
{
    snprintf(p->pProfilerName, p->profilerNameMaxLen + 1, "%s",
             BEHAVIOUR == OWN ? "own\x1b[31m" : "tester");
    if (p->supportedActivityTypesMaxLen > 0)
        p->pSupportedActivityTypes[0] = event_type;
    if (p->supportedActivityTypesMaxLen > 1 && BEHAVIOUR == GOOD)
        p->pSupportedActivityTypes[1] = KINETO_PLUGIN_PROFILE_EVENT_TYPE_RUNTIME;
    if (KINETO_PLUGIN_HAS(p, KinetoPlugin_ProfilerQuery_Params, vendorNameMaxLen))
        snprintf(p->pVendorName, p->vendorNameMaxLen + 1, "acme");
    return 0;
}

static int process(KinetoPlugin_ProfilerProcessEvents_Params *p)
{
    const KinetoPlugin_TraceBuilder *b = p->pTraceBuilder;
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    for (int i = 1; i <= 2; i++) {
        KinetoPlugin_ProfileEvent event = {
            .unpaddedStructSize = KINETO_PLUGIN_SIZE(KinetoPlugin_ProfileEvent, resourceId)};
        event.eventType = event_type;
        event.endTimeUtcNs = now.tv_sec * INT64_C(1000000000) + now.tv_nsec - i * 1000;
        event.startTimeUtcNs = event.endTimeUtcNs - 500;
        event.eventId = i;
        if (b->addEvent(b->pTraceBuilderHandle, &event) == 0)
            b->setLastEventName(b->pTraceBuilderHandle, config);
    }
    return 0;
}

static const KinetoPlugin_ProfilerInterface interface = {
    .unpaddedStructSize = KINETO_PLUGIN_SIZE(KinetoPlugin_ProfilerInterface, profilerProcessEvents),
    .profilerCreate = create,
    .profilerDestroy = destroy,
    .profilerQuery = query,
    .profilerStart = start,
    .profilerStop = stop,
    .profilerProcessEvents = process,
};

static int announce(const KinetoPlugin_Registry *registry)
{
    static const KinetoPlugin_ActivityTypeInfo own = {
        "test_dma", KINETO_PLUGIN_PROFILE_EVENT_TYPE_GPU_MEMCPY, 0};
    KinetoPlugin_RegisterActivityTypes_Params params = {
        .unpaddedStructSize =
            KINETO_PLUGIN_SIZE(KinetoPlugin_RegisterActivityTypes_Params, firstEventType),
        .pTypes = &own,
        .count = 1};
    int status = registry->registerActivityTypes(registry->pRegistryHandle, &params);
    event_type = params.firstEventType;
    return status;
}

/* So that the compiler cannot know what becomes of it. */
static volatile int *volatile nowhere;

static void misbehave(void)
{
    if (BEHAVIOUR == CRASH)
        *nowhere = 1;
    if (BEHAVIOUR == EXIT)
        exit(0);
    while (BEHAVIOUR == HANG)
        sleep(1);
}

EXPORT int KinetoPlugin_register(const KinetoPlugin_Registry *registry);
int KinetoPlugin_register(const KinetoPlugin_Registry *registry)
{
    misbehave();
    if (BEHAVIOUR == REFUSE)
        return 7;
    if (BEHAVIOUR == OWN && announce(registry) != 0)
        return 1;
    return registry->registerProfiler(registry->pRegistryHandle, &interface);
}
#endif
