/* Plug-ins, sessions and threads all at once for some seconds: `stress_plugins SECONDS [SEED]`.
 * Profilers are registered, paused, withdrawn and restarted while threads push, deliver and end. No
 * call may reach a profiler that was destroyed, and the order of its calls must hold throughout. */
#include "stress.h"

#include "base/base.h"
#include "../helpers/sessions.h"

#include <ckineto/plugin.h>

#include <pthread.h>
#include <time.h>

#define SIZE_TO(Struct, member) KINETO_PLUGIN_SIZE(KinetoPlugin_##Struct, member)
#define LOAD(p)                 __atomic_load_n((p), __ATOMIC_ACQUIRE)
#define STORE(p, v)             __atomic_store_n((p), (v), __ATOMIC_RELEASE)
#define ADD(p, v)               __atomic_fetch_add((p), (v), __ATOMIC_ACQ_REL)

enum { PLUGINS = 3, PUSHERS = 3, DELIVERERS = 2, RECORDERS = 2 };

static uint32_t over;
static uint64_t numbers[8]; /* what happened, for the last line */
enum { SESSIONS, TRACES, PUSHES, DELIVERED, REFUSED, REGISTERED, THREADS_ENDED };

/* ---- plug-ins ------------------------------------------------------------------------------------------ */

/* One per session: freed by destroy, so that sanitizers see who comes late. */
struct KinetoPlugin_ProfilerHandle {
    int state; /* letter of the last call of the life cycle */
    int32_t inside;
    uint64_t pushed, popped;
};
typedef struct KinetoPlugin_ProfilerHandle profiler;

static const KinetoPlugin_TraceBuilder *live[PLUGINS];
static uint32_t has_session[PLUGINS];

static void step(profiler *p, int from, int to)
{
    CHECK(p->state == from);
    p->state = to;
}

static int query(KinetoPlugin_ProfilerQuery_Params *p, int n)
{
    p->pProfilerName[0] = (char)('a' + n);
    p->pSupportedActivityTypes[0] = KINETO_PLUGIN_PROFILE_EVENT_TYPE_CONCURRENT_KERNEL;
    p->pSupportedActivityTypes[1] = KINETO_PLUGIN_PROFILE_EVENT_TYPE_GPU_MEMCPY + n;
    return 0;
}

static int create(KinetoPlugin_ProfilerCreate_Params *p, int n)
{
    CHECK(ADD(&has_session[n], 1) == 0);
    p->pProfilerHandle = calloc(1, sizeof(profiler));
    CHECK(p->pProfilerHandle && p->enabledActivityTypesMaxLen > 0);
    p->pProfilerHandle->state = 'c';
    return 0;
}

static int start(KinetoPlugin_ProfilerStart_Params *p, int n)
{
    step(p->pProfilerHandle, 'c', 's');
    STORE(&live[n], p->pLiveBuilder);
    return 0;
}

static int stop(KinetoPlugin_ProfilerStop_Params *p, int n)
{
    (void)n;
    step(p->pProfilerHandle, 's', 't');
    return 0;
}

static int process(KinetoPlugin_ProfilerProcessEvents_Params *p, int n)
{
    (void)n;
    CHECK(p->pProfilerHandle->state == 's' || p->pProfilerHandle->state == 't');
    return 0;
}

static int destroy(KinetoPlugin_ProfilerDestroy_Params *p, int n)
{
    step(p->pProfilerHandle, 't', 'd');
    CHECK(LOAD(&p->pProfilerHandle->inside) == 0);
    CHECK(p->pProfilerHandle->popped <= p->pProfilerHandle->pushed);
    free(p->pProfilerHandle);
    CHECK(ADD(&has_session[n], -1u) == 1);
    return 0;
}

static int toggle(KinetoPlugin_ProfilerToggleCollection_Params *p, int n)
{
    (void)n;
    CHECK(p->pProfilerHandle->state == 's');
    return 0;
}

static int deliver(int n, bool in_steps);

static int push(KinetoPlugin_ProfilerPushCorrelationId_Params *p, int n)
{
    ADD(&p->pProfilerHandle->inside, 1);
    ADD(&p->pProfilerHandle->pushed, 1);
    ADD(&numbers[PUSHES], 1);
    if (p->correlationId % 4 == 0)
        (void)deliver(n, p->correlationId % 8 == 0);
    ADD(&p->pProfilerHandle->inside, -1);
    return 0;
}

static int pop(KinetoPlugin_ProfilerPopCorrelationId_Params *p, int n)
{
    (void)n;
    ADD(&p->pProfilerHandle->inside, 1);
    ADD(&p->pProfilerHandle->popped, 1);
    ADD(&p->pProfilerHandle->inside, -1);
    return 0;
}

#define CALL(what, Params, n)                                                                      \
    static int what##_##n(KinetoPlugin_Profiler##Params##_Params *p) { return what(p, n); }
#define CALLS(n)                                                                                   \
    CALL(query, Query, n)                                                                          \
    CALL(create, Create, n)                                                                        \
    CALL(start, Start, n)                                                                          \
    CALL(stop, Stop, n)                                                                            \
    CALL(process, ProcessEvents, n)                                                                \
    CALL(destroy, Destroy, n)                                                                      \
    CALL(push, PushCorrelationId, n)                                                               \
    CALL(pop, PopCorrelationId, n)
CALLS(0)
CALLS(1)
CALLS(2)
CALL(toggle, ToggleCollection, 0)
CALL(toggle, ToggleCollection, 2)
#define INTERFACE(n, toggles)                                                                      \
    {                                                                                              \
        .unpaddedStructSize = SIZE_TO(ProfilerInterface, profilerErrorText),                       \
        .profilerCreate = create_##n, .profilerDestroy = destroy_##n, .profilerQuery = query_##n,  \
        .profilerStart = start_##n, .profilerStop = stop_##n,                                      \
        .profilerPushCorrelationId = push_##n, .profilerPopCorrelationId = pop_##n,                \
        .profilerProcessEvents = process_##n, .profilerToggleCollection = toggles                  \
    }
static const KinetoPlugin_ProfilerInterface interfaces[PLUGINS] = {
    INTERFACE(0, toggle_0), INTERFACE(1, NULL), INTERFACE(2, toggle_2)};

/* ---- delivering ----------------------------------------------------------------------------------------- */

static int64_t now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_REALTIME, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

/* Maybe late: the builder that was there last is never gone. */
static int deliver(int n, bool in_steps)
{
    const KinetoPlugin_TraceBuilder *b = LOAD(&live[n]);
    if (!b)
        return 1;
    KinetoPlugin_TraceBuilderHandle *h = b->pTraceBuilderHandle;
    int64_t now = now_ns();
    KinetoPlugin_Activity a = {
        .unpaddedStructSize = SIZE_TO(Activity, pMetadata),
        .event = {.unpaddedStructSize = SIZE_TO(ProfileEvent, resourceId),
                  .eventType = KINETO_PLUGIN_PROFILE_EVENT_TYPE_CONCURRENT_KERNEL,
                  .startTimeUtcNs = now,
                  .endTimeUtcNs = now + 1},
        .nameSize = 5,
        .pName = "event"};
    int result = in_steps ? b->addEvent(h, &a.event) : b->emit(h, &a);
    if (in_steps) {
        (void)b->setLastEventName(h, "event");
        (void)b->addLastEventMetadata(h, "n", "1");
    }
    ADD(&numbers[result ? REFUSED : DELIVERED], 1);
    return result;
}

static void *deliver_and_end(void *argument)
{
    uint64_t random = (uint64_t)(uintptr_t)argument;
    for (uint64_t i = next_random(&random) % 20; i > 0; i--)
        (void)deliver((int)(next_random(&random) % PLUGINS), next_random(&random) & 1);
    ADD(&numbers[THREADS_ENDED], 1);
    return NULL;
}

static void *deliver_for_ever(void *argument)
{
    uint64_t random = (uint64_t)(uintptr_t)argument;
    while (!LOAD(&over)) {
        pthread_t thread;
        for (int i = 0; i < 50; i++)
            (void)deliver((int)(next_random(&random) % PLUGINS), next_random(&random) & 1);
        CHECK(pthread_create(&thread, NULL, deliver_and_end, (void *)(uintptr_t)random) == 0);
        CHECK(pthread_join(thread, NULL) == 0);
    }
    return NULL;
}

/* ---- pushing, recording, coming and going --------------------------------------------------------------- */

static void *push_for_ever(void *argument)
{
    uint64_t random = (uint64_t)(uintptr_t)argument;
    while (!LOAD(&over)) {
        uint64_t deep = next_random(&random) % 8;
        for (uint64_t i = 0; i < deep; i++)
            kineto_correlation_push(next_random(&random));
        for (uint64_t i = 0; i < deep; i++)
            kineto_correlation_pop();
        if (next_random(&random) % 64 == 0)
            usleep(100); /* the others want to live */
    }
    return NULL;
}

static void one_session(uint64_t *random)
{
    kineto_session_options o;
    kineto_session *s;
    kineto_trace *t = NULL;
    kineto_session_options_init(&o);
    o.buffer_bytes = 1 << 20;
    o.kinds = next_random(random) & KINETO_KINDS_ALL;
    o.retention = next_random(random) & 1;
    CHECK(begin_session(&o, &s, NULL) == KINETO_OK);
    for (uint64_t i = next_random(random) % 4; i > 0; i--) {
        usleep((unsigned)(next_random(random) % 300));
        switch (next_random(random) % 4) {
        case 0:
            CHECK(kineto_session_snapshot(s, &t, NULL) == KINETO_OK);
            kineto_trace_release(t);
            t = NULL;
            break;
        case 1:
            CHECK(kineto_session_pause(s, !(next_random(random) & 1), NULL) == KINETO_OK);
            break;
        default:
            break;
        }
    }
    bool discard = next_random(random) % 3 == 0;
    CHECK(end_session(s, discard ? NULL : &t, NULL) == KINETO_OK);
    for (kineto_row row = 0; t && row < kineto_trace_count(t); row++) {
        kineto_activity a;
        kineto_trace_get(t, row, &a);
        CHECK(a.name.size == 5 || a.name.size == 0); /* no name: it came too late */
    }
    ADD(&numbers[SESSIONS], 1);
    ADD(&numbers[TRACES], t ? 1 : 0);
    kineto_trace_release(t);
}

static void *record_for_ever(void *argument)
{
    uint64_t random = (uint64_t)(uintptr_t)argument;
    while (!LOAD(&over))
        one_session(&random);
    return NULL;
}

static void *come_and_go(void *argument)
{
    const KinetoPlugin_Registry *registry = kineto_plugin_registry();
    uint64_t random = (uint64_t)(uintptr_t)argument;
    while (!LOAD(&over)) {
        const KinetoPlugin_ProfilerInterface *i = &interfaces[next_random(&random) % PLUGINS];
        if (next_random(&random) & 1)
            (void)kineto_plugin_unregister(i);
        else if (registry->registerProfiler(registry->pRegistryHandle, i) == 0)
            ADD(&numbers[REGISTERED], 1);
        usleep((unsigned)(next_random(&random) % 1000));
    }
    for (int n = 0; n < PLUGINS; n++)
        (void)kineto_plugin_unregister(&interfaces[n]);
    return NULL;
}

/* ---- all of it ------------------------------------------------------------------------------------------ */

int main(int count, char **arguments)
{
    if (count < 2) {
        fprintf(stderr, "usage: stress_plugins SECONDS [SEED]\n");
        return 2;
    }
    uint64_t random = count > 2 ? strtoull(arguments[2], NULL, 0) : (uint64_t)now_ns();
    void *(*const bodies[])(void *) = {push_for_ever, deliver_for_ever, record_for_ever,
                                       come_and_go};
    const int wanted[] = {PUSHERS, DELIVERERS, RECORDERS, 1};
    pthread_t threads[PUSHERS + DELIVERERS + RECORDERS + 1];
    size_t started = 0;
    (void)kb_log_configure(KINETO_LOG_ERROR, NULL, NULL); /* refusals and late calls are meant */
    printf("seed %llu\n", (unsigned long long)random);
    fflush(stdout);
    for (size_t body = 0; body < 4; body++)
        for (int i = 0; i < wanted[body]; i++)
            CHECK(pthread_create(&threads[started++], NULL, bodies[body],
                                 (void *)(uintptr_t)next_random(&random)) == 0);
    usleep((unsigned)(1000000 * strtoul(arguments[1], NULL, 10)));
    STORE(&over, 1);
    for (size_t i = 0; i < started; i++)
        CHECK(pthread_join(threads[i], NULL) == 0);
    for (int n = 0; n < PLUGINS; n++)
        CHECK(LOAD(&has_session[n]) == 0);
    printf("%llu sessions, %llu traces, %llu pushes heard, %llu events taken, %llu refused, %llu "
           "registrations, %llu threads ended\n",
           (unsigned long long)numbers[SESSIONS], (unsigned long long)numbers[TRACES],
           (unsigned long long)numbers[PUSHES], (unsigned long long)numbers[DELIVERED],
           (unsigned long long)numbers[REFUSED], (unsigned long long)numbers[REGISTERED],
           (unsigned long long)numbers[THREADS_ENDED]);
    return 0;
}
