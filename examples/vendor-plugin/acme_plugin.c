/* A small plug-in for the first revisions of the interface: it delivers everything after recording
 * has ended. Its device is imaginary: a kernel runs every millisecond, whatever the program does.
 * plugins/sim in ckineto's tree uses all features of the interface. */
#include <ckineto/plugin.h>

#include <stdio.h>
#include <stdlib.h>
#include <threads.h>
#include <time.h>

enum { DEVICE = 0, QUEUE = 1 };
#define PERIOD_NS 1000000
#define BEAT_NS   400000

struct KinetoPlugin_ProfilerHandle {
    bool wanted;
    int64_t start_ns, stop_ns; /* 0: not yet */
};

/* The first revisions of the interface have times in UTC. */
static int64_t get_utc_ns(void)
{
    struct timespec t;
    timespec_get(&t, TIME_UTC);
    return t.tv_sec * INT64_C(1000000000) + t.tv_nsec;
}

/* Called before a session exists: the plug-in's name and the kinds of activities that it
 * records. */
static int query_acme(KinetoPlugin_ProfilerQuery_Params *p)
{
    if (!KINETO_PLUGIN_HAS(p, KinetoPlugin_ProfilerQuery_Params, supportedActivityTypesMaxLen))
        return 1;
    snprintf(p->pProfilerName, p->profilerNameMaxLen + 1, "Acme");
    if (p->supportedActivityTypesMaxLen > 0)
        p->pSupportedActivityTypes[0] = KINETO_PLUGIN_PROFILE_EVENT_TYPE_CONCURRENT_KERNEL;
    return 0;
}

/* A session begins, with the enabled kinds among those of query_acme. */
static int create_acme_session(KinetoPlugin_ProfilerCreate_Params *p)
{
    if (!KINETO_PLUGIN_HAS(p, KinetoPlugin_ProfilerCreate_Params, pProfilerHandle))
        return 1;
    KinetoPlugin_ProfilerHandle *session = calloc(1, sizeof *session);
    if (!session)
        return 1;
    if (KINETO_PLUGIN_HAS(p, KinetoPlugin_ProfilerCreate_Params, enabledActivityTypesMaxLen)) {
        for (size_t i = 0; i < p->enabledActivityTypesMaxLen; i++)
            session->wanted |=
                p->pEnabledActivityTypes[i] == KINETO_PLUGIN_PROFILE_EVENT_TYPE_CONCURRENT_KERNEL;
    } else {
        session->wanted = true; /* the very first revision had no list */
    }
    p->pProfilerHandle = session;
    return 0;
}

/* From here on a real device would write its log … */
static int start_acme_session(KinetoPlugin_ProfilerStart_Params *p)
{
    if (!KINETO_PLUGIN_HAS(p, KinetoPlugin_ProfilerStart_Params, pProfilerHandle) ||
        p->pProfilerHandle->start_ns)
        return 1;
    p->pProfilerHandle->start_ns = get_utc_ns();
    return 0;
}

/* … until here. */
static int stop_acme_session(KinetoPlugin_ProfilerStop_Params *p)
{
    if (!KINETO_PLUGIN_HAS(p, KinetoPlugin_ProfilerStop_Params, pProfilerHandle) ||
        !p->pProfilerHandle->start_ns || p->pProfilerHandle->stop_ns)
        return 1;
    p->pProfilerHandle->stop_ns = get_utc_ns();
    return 0;
}

/* One activity with its name and one value, which is JSON text in this revision. */
static void deliver_beat(const KinetoPlugin_TraceBuilder *b, int64_t start_ns, int64_t number)
{
    KinetoPlugin_ProfileEvent event = {
        .unpaddedStructSize = KINETO_PLUGIN_SIZE(KinetoPlugin_ProfileEvent, resourceId),
        .eventType = KINETO_PLUGIN_PROFILE_EVENT_TYPE_CONCURRENT_KERNEL,
        .startTimeUtcNs = start_ns,
        .endTimeUtcNs = start_ns + BEAT_NS,
        .deviceId = DEVICE,
        .resourceId = QUEUE};
    char json[24];
    snprintf(json, sizeof json, "%lld", (long long)number); /* metadata is JSON text */
    if (b->addEvent(b->pTraceBuilderHandle, &event) != 0)
        return; /* the host counts what it refuses */
    b->setLastEventName(b->pTraceBuilderHandle, "heartbeat");
    b->addLastEventMetadata(b->pTraceBuilderHandle, "number", json);
}

/* Reads the log and delivers it. The host copies everything. */
static int process_acme_events(KinetoPlugin_ProfilerProcessEvents_Params *p)
{
    if (!KINETO_PLUGIN_HAS(p, KinetoPlugin_ProfilerProcessEvents_Params, pTraceBuilder))
        return 1;
    KinetoPlugin_ProfilerHandle *session = p->pProfilerHandle;
    const KinetoPlugin_TraceBuilder *b = p->pTraceBuilder;
    KinetoPlugin_ProfileDeviceInfo device = {
        KINETO_PLUGIN_SIZE(KinetoPlugin_ProfileDeviceInfo, pLabel), DEVICE, 6000, "Acme 9000",
        "acme 0"};
    KinetoPlugin_ProfileResourceInfo queue = {
        .unpaddedStructSize = KINETO_PLUGIN_SIZE(KinetoPlugin_ProfileResourceInfo, pName),
        .deviceId = DEVICE,
        .resourceId = QUEUE,
        .displayOrder = 1,
        .pName = "heart"};
    if (!session->wanted || !session->stop_ns)
        return 0;
    b->addDeviceInfo(b->pTraceBuilderHandle, &device);
    b->addResourceInfo(b->pTraceBuilderHandle, &queue);
    int64_t at = session->start_ns;
    for (int64_t n = 0; at + BEAT_NS <= session->stop_ns; n++, at += PERIOD_NS)
        deliver_beat(b, at, n);
    session->wanted = false; /* deliver once */
    return 0;
}

static int destroy_acme_session(KinetoPlugin_ProfilerDestroy_Params *p)
{
    if (!KINETO_PLUGIN_HAS(p, KinetoPlugin_ProfilerDestroy_Params, pProfilerHandle))
        return 1;
    free(p->pProfilerHandle);
    return 0;
}

static const KinetoPlugin_ProfilerInterface profiler = {
    .unpaddedStructSize = KINETO_PLUGIN_SIZE(KinetoPlugin_ProfilerInterface, profilerProcessEvents),
    .profilerCreate = create_acme_session,
    .profilerDestroy = destroy_acme_session,
    .profilerQuery = query_acme,
    .profilerStart = start_acme_session,
    .profilerStop = stop_acme_session,
    .profilerProcessEvents = process_acme_events};

__attribute__((visibility("default"))) int KinetoPlugin_register(const KinetoPlugin_Registry *r);
int KinetoPlugin_register(const KinetoPlugin_Registry *r)
{
    return r->registerProfiler(r->pRegistryHandle, &profiler);
}

/* For `ckineto plugin check`: lets the device run for at least `count` beats. */
__attribute__((visibility("default"))) int KinetoPlugin_exercise(uint32_t count);
int KinetoPlugin_exercise(uint32_t count)
{
    struct timespec t = {0, (count < 20 ? (long)count + 1 : 20) * PERIOD_NS};
    return thrd_sleep(&t, NULL);
}
