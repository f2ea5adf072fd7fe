/* A program whose profiler registers itself before main. Ends with 0 if it was there, was notified
 * of the session, and its event is in the trace. Prints what it finds. As C and, by load_time.cc,
 * as C++. */
#include <ckineto/ckineto.h>
#include "../helpers/sessions.h"

#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static char life[64];
static int64_t started_ns;

static void note(char letter)
{
    size_t n = strlen(life);
    if (n + 1 < sizeof life)
        life[n] = letter;
}

static int query(KinetoPlugin_ProfilerQuery_Params *p)
{
    note('q');
    strncpy(p->pProfilerName, "load time", p->profilerNameMaxLen);
    p->pSupportedActivityTypes[0] = KINETO_PLUGIN_PROFILE_EVENT_TYPE_CONCURRENT_KERNEL;
    return 0;
}

static int create(KinetoPlugin_ProfilerCreate_Params *p)
{
    note('c');
    p->pProfilerHandle = (KinetoPlugin_ProfilerHandle *)(void *)life;
    return 0;
}

static int start(KinetoPlugin_ProfilerStart_Params *p)
{
    struct timespec t;
    (void)p;
    note('s');
    clock_gettime(CLOCK_REALTIME, &t);
    started_ns = (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
    return 0;
}

static int stop(KinetoPlugin_ProfilerStop_Params *p)
{
    (void)p;
    note('t');
    return 0;
}

static int process(KinetoPlugin_ProfilerProcessEvents_Params *p)
{
    const KinetoPlugin_TraceBuilder *b = p->pTraceBuilder;
    KinetoPlugin_ProfileEvent e;
    note('p');
    memset(&e, 0, sizeof e);
    e.unpaddedStructSize = KINETO_PLUGIN_SIZE(KinetoPlugin_ProfileEvent, resourceId);
    e.eventType = KINETO_PLUGIN_PROFILE_EVENT_TYPE_CONCURRENT_KERNEL;
    e.startTimeUtcNs = started_ns;
    e.endTimeUtcNs = started_ns + 100;
    return b->addEvent(b->pTraceBuilderHandle, &e) ||
           b->setLastEventName(b->pTraceBuilderHandle, "load time kernel");
}

static int destroy(KinetoPlugin_ProfilerDestroy_Params *p)
{
    (void)p;
    note('d');
    return 0;
}

/* In order: C++17 knows no member names here. */
static const KinetoPlugin_ProfilerInterface profiler = {
    KINETO_PLUGIN_SIZE(KinetoPlugin_ProfilerInterface, profilerProcessEvents),
    create,
    destroy,
    query,
    start,
    stop,
    NULL,
    NULL,
    NULL,
    NULL,
    process,
    NULL,
    NULL};

#ifdef KINETO_UPSTREAM_NAMES
REGISTER_PRIVATEUSE1_PROFILER(&profiler);
#else
KINETO_REGISTER_PRIVATEUSE1_PROFILER(&profiler);
#endif

static uint64_t events(const kineto_trace *trace)
{
    uint64_t n = 0;
    for (kineto_row r = 0; r < kineto_trace_count(trace); r++) {
        kineto_activity a;
        kineto_trace_get(trace, r, &a);
        n += a.name.size == 16 && memcmp(a.name.data, "load time kernel", 16) == 0;
    }
    return n;
}

/* A program that is recorded from outside has nothing to do with sessions. */
static int wait_recorded(void)
{
    const struct timespec pause = {0, 2000000};
    (void)nanosleep(&pause, NULL);
    printf("forwarded %d, life %s\n", kineto_privateuse1_is_registered(), life);
    return strcmp(life, "qcs") != 0;
}

int main(int argc, char **argv)
{
    if (argc > 1 && strcmp(argv[1], "recorded") == 0)
        return wait_recorded();
    kineto_session *session = NULL;
    kineto_trace *trace = NULL;
    bool there = kineto_privateuse1_has_profiler();
    bool before = kineto_privateuse1_is_registered();
    const struct timespec pause = {0, 2000000};
    if (begin_session(NULL, &session, NULL))
        return 3;
    (void)nanosleep(&pause, NULL);
    bool after = kineto_privateuse1_is_registered();
    if (end_session(session, &trace, NULL))
        return 4;
    uint64_t found = events(trace);
    kineto_trace_release(trace);
    printf("there %d, forwarded %d, then %d, life %s, events %llu\n", there, before, after, life,
           (unsigned long long)found);
    return !(there && !before && after && strncmp(life, "qcstpd", 6) == 0 && found == 1);
}
