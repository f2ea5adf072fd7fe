/* Profilers for tests: each writes down how it is called, and delivers one kernel per session. What
 * includes this sees public headers only. */
#ifndef TESTS_UPSTREAM_MOCK_H
#define TESTS_UPSTREAM_MOCK_H

#include "../unit/unit.h"

#include "../helpers/recording.h"

#include <ckineto/host.h>

#include <time.h>

typedef struct mock {
    const char *name;
    char calls[4096];    /* a letter per call: q c s t p d */
    int32_t enabled[64]; /* of the last create */
    size_t enabled_count;
    int refuse_query;
    kineto_status in_query; /* what unregistering from inside a query gave */
    bool meddle;            /* try it */
    int64_t started_ns;
} mock;

static mock mocks[2];

static inline int64_t utc_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_REALTIME, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

static inline void mock_note(mock *m, char letter)
{
    size_t n = strlen(m->calls);
    if (n + 1 < sizeof m->calls)
        m->calls[n] = letter;
}

static inline int mock_query(mock *m, KinetoPlugin_ProfilerQuery_Params *p)
{
    mock_note(m, 'q');
    strncpy(p->pProfilerName, m->name, p->profilerNameMaxLen);
    p->pSupportedActivityTypes[0] = KINETO_PLUGIN_PROFILE_EVENT_TYPE_CONCURRENT_KERNEL;
    p->pSupportedActivityTypes[1] = KINETO_PLUGIN_PROFILE_EVENT_TYPE_PRIVATEUSE1_RUNTIME;
    if (m->meddle)
        m->in_query = kineto_privateuse1_unregister();
    return m->refuse_query;
}

static inline int mock_create(mock *m, KinetoPlugin_ProfilerCreate_Params *p)
{
    mock_note(m, 'c');
    m->enabled_count = p->enabledActivityTypesMaxLen;
    for (size_t i = 0; i < m->enabled_count && i < COUNT_OF(m->enabled); i++)
        m->enabled[i] = p->pEnabledActivityTypes[i];
    p->pProfilerHandle = (KinetoPlugin_ProfilerHandle *)(void *)m;
    return 0;
}

static inline int mock_start(mock *m, KinetoPlugin_ProfilerStart_Params *p)
{
    mock_note(m, (void *)p->pProfilerHandle == (void *)m ? 's' : '?');
    m->started_ns = utc_ns();
    return 0;
}

static inline int mock_stop(mock *m, KinetoPlugin_ProfilerStop_Params *p)
{
    mock_note(m, (void *)p->pProfilerHandle == (void *)m ? 't' : '?');
    return 0;
}

static inline int mock_process(mock *m, KinetoPlugin_ProfilerProcessEvents_Params *p)
{
    mock_note(m, 'p');
    const KinetoPlugin_TraceBuilder *b = p->pTraceBuilder;
    KinetoPlugin_ProfileEvent e = {.unpaddedStructSize =
                                       KINETO_PLUGIN_SIZE(KinetoPlugin_ProfileEvent, resourceId),
                                   .eventType = KINETO_PLUGIN_PROFILE_EVENT_TYPE_CONCURRENT_KERNEL,
                                   .startTimeUtcNs = m->started_ns,
                                   .endTimeUtcNs = m->started_ns + 1000,
                                   .eventId = 1,
                                   .deviceId = 1,
                                   .resourceId = 2};
    return b->addEvent(b->pTraceBuilderHandle, &e) ||
           b->setLastEventName(b->pTraceBuilderHandle, m->name);
}

static inline int mock_destroy(mock *m, KinetoPlugin_ProfilerDestroy_Params *p)
{
    mock_note(m, (void *)p->pProfilerHandle == (void *)m ? 'd' : '?');
    return 0;
}

#define MOCK_CALL(what, Params, n)                                                                 \
    static int mock_##what##_##n(KinetoPlugin_Profiler##Params##_Params *p)                        \
    {                                                                                              \
        return mock_##what(&mocks[n], p);                                                          \
    }
#define MOCK(n)                                                                                    \
    MOCK_CALL(query, Query, n)                                                                     \
    MOCK_CALL(create, Create, n)                                                                   \
    MOCK_CALL(start, Start, n)                                                                     \
    MOCK_CALL(stop, Stop, n)                                                                       \
    MOCK_CALL(process, ProcessEvents, n)                                                           \
    MOCK_CALL(destroy, Destroy, n)
MOCK(0)
MOCK(1)
#define MOCK_INTERFACE(n)                                                                          \
    {                                                                                              \
        .unpaddedStructSize =                                                                      \
            KINETO_PLUGIN_SIZE(KinetoPlugin_ProfilerInterface, profilerProcessEvents),             \
        .profilerCreate = mock_create_##n, .profilerDestroy = mock_destroy_##n,                    \
        .profilerQuery = mock_query_##n, .profilerStart = mock_start_##n,                          \
        .profilerStop = mock_stop_##n, .profilerProcessEvents = mock_process_##n                   \
    }
static const KinetoPlugin_ProfilerInterface interfaces[2] = {MOCK_INTERFACE(0), MOCK_INTERFACE(1)};

/* A fresh one under this name. */
static inline mock *mock_reset(int n, const char *name)
{
    mocks[n] = (mock){.name = name};
    return &mocks[n];
}

/* ---- choosing tests by name ----------------------------------------------------------------------- */

/* Run those that the command line names, in its order, in this process; all if it names none. */
static inline int run_named(const struct CMUnitTest *tests, size_t count, int argc, char **argv)
{
    struct CMUnitTest chosen[64];
    size_t n = 0;
    for (int i = 1; i < argc; i++) {
        size_t k = 0;
        while (k < count && strcmp(tests[k].name, argv[i]) != 0)
            k++;
        if (k == count || n == COUNT_OF(chosen)) {
            fprintf(stderr, "there is no test named %s\n", argv[i]);
            return 2;
        }
        chosen[n++] = tests[k];
    }
    return argc > 1 ? _cmocka_run_group_tests("chosen", chosen, n, NULL, NULL)
                    : _cmocka_run_group_tests("all", tests, count, NULL, NULL);
}

#endif
