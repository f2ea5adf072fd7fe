/* A plug-in of a few lines, compiled many times: SMALL_NAME is its profiler's name; it delivers one
 * kernel of that name. SMALL_REFUSES: register says no; SMALL_FAILS: so does query, with a reason;
 * SMALL_NONE: registers nothing; SMALL_TWO: a second profiler; SMALL_NESTED: its constructor loads
 * the plug-in of that path; SMALL_PART: it is not a plug-in, but brings a profiler into the
 * program; SMALL_LIBRARY: it is nothing of the kind; SMALL_UNLOADS: its stop unloads the library of
 * that path and keeps the answer. */
#include <ckineto/host.h>

#include <stdio.h>
#include <string.h>
#include <time.h>

#define EXPORT __attribute__((visibility("default")))

static int64_t start_ns;

static int64_t now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_REALTIME, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

static int query(KinetoPlugin_ProfilerQuery_Params *p)
{
    (void)snprintf(p->pProfilerName, p->profilerNameMaxLen + 1, "%s", SMALL_NAME);
    if (p->supportedActivityTypesMaxLen > 0)
        p->pSupportedActivityTypes[0] = KINETO_PLUGIN_PROFILE_EVENT_TYPE_CONCURRENT_KERNEL;
#ifdef SMALL_FAILS
    return 9;
#else
    return 0;
#endif
}

static int create(KinetoPlugin_ProfilerCreate_Params *p)
{
    p->pProfilerHandle = (KinetoPlugin_ProfilerHandle *)(void *)&start_ns;
    return 0;
}

static int start(KinetoPlugin_ProfilerStart_Params *p)
{
    (void)p;
    start_ns = now_ns();
    return 0;
}

#ifdef SMALL_UNLOADS
static int answer = -1;
EXPORT int small_answer(void);
EXPORT int small_answer(void) { return answer; }
#endif

static int stop(KinetoPlugin_ProfilerStop_Params *p)
{
    (void)p;
#ifdef SMALL_UNLOADS
    answer = (int)kineto_plugin_unload(SMALL_UNLOADS, NULL);
#endif
    return 0;
}

static int destroy(KinetoPlugin_ProfilerDestroy_Params *p)
{
    (void)p;
    return 0;
}

static int process(KinetoPlugin_ProfilerProcessEvents_Params *p)
{
    const KinetoPlugin_TraceBuilder *b = p->pTraceBuilder;
    KinetoPlugin_ProfileEvent e = {.unpaddedStructSize =
                                       KINETO_PLUGIN_SIZE(KinetoPlugin_ProfileEvent, resourceId),
                                   .eventType = KINETO_PLUGIN_PROFILE_EVENT_TYPE_CONCURRENT_KERNEL,
                                   .startTimeUtcNs = start_ns,
                                   .endTimeUtcNs = start_ns + 1};
    return b->addEvent(b->pTraceBuilderHandle, &e) ||
           b->setLastEventName(b->pTraceBuilderHandle, SMALL_NAME);
}

static int error_text(KinetoPlugin_ProfilerErrorText_Params *p)
{
    (void)snprintf(p->pText, p->textMaxLen + 1, "no device is there");
    return 0;
}

#define INTERFACE                                                                                  \
    {                                                                                              \
        .unpaddedStructSize =                                                                      \
            KINETO_PLUGIN_SIZE(KinetoPlugin_ProfilerInterface, profilerErrorText),                 \
        .profilerCreate = create, .profilerDestroy = destroy, .profilerQuery = query,              \
        .profilerStart = start, .profilerStop = stop, .profilerProcessEvents = process,            \
        .profilerErrorText = error_text                                                            \
    }
static const KinetoPlugin_ProfilerInterface interface = INTERFACE;

#ifdef SMALL_TWO
static const KinetoPlugin_ProfilerInterface second = INTERFACE;
#endif

#ifdef SMALL_NESTED
__attribute__((constructor)) static void load_another(void)
{
    (void)kineto_plugin_load(SMALL_NESTED, NULL, NULL);
}
#endif

#if defined(SMALL_LIBRARY)
EXPORT const void *small_something(void);
EXPORT const void *small_something(void) { return &interface; }
#elif defined(SMALL_PART)
__attribute__((constructor)) static void take_part(void)
{
    const KinetoPlugin_Registry *r = kineto_plugin_registry();
    (void)r->registerProfiler(r->pRegistryHandle, &interface);
}

EXPORT void small_withdraw(void);
EXPORT void small_withdraw(void) { (void)kineto_plugin_unregister(&interface); }
#else
EXPORT int KinetoPlugin_register(const KinetoPlugin_Registry *registry);
EXPORT int KinetoPlugin_register(const KinetoPlugin_Registry *registry)
{
    KinetoPlugin_RegistryHandle *h = registry->pRegistryHandle;
#ifdef SMALL_NONE
    (void)h;
    (void)interface;
    return 0;
#else
    int result = registry->registerProfiler(h, &interface);
#ifdef SMALL_TWO
    result |= registry->registerProfiler(h, &second);
#endif
#ifdef SMALL_REFUSES
    result = 7;
#endif
    return result;
#endif
}
#endif
