/* Benchmark of the plug-in interface: device events through the builder, and correlation ids.
 *
 * An event has a flow, a name (200 distinct ones of 24 to 128 bytes) and three metadata pairs: a
 * number, a list of integers, a short string. In steps it takes six calls of the builder; as a
 * whole it takes one. The floor is two reads of the clock. */
#include "bench.h"
#include "null_plugin.h"

#include "record/record.h"
#include "session/session.h"
#include "../tests/helpers/sessions.h"

#include <ckineto/host.h>

#define EVENTS     100000L /* of one round; ten rounds of warm ones make the million */
#define ROUNDS     60
#define COLD       1000000L
#define NAMES      200
#define NAME_BYTES 128
#define PUSHES     100000L

static char names[NAMES][NAME_BYTES + 1];
static int name_sizes[NAMES];

static void names_make(void)
{
    for (int i = 0; i < NAMES; i++) {
        name_sizes[i] = 24 + i * 7 % (NAME_BYTES - 24 + 1);
        memset(names[i], 'a' + i % 26, (size_t)name_sizes[i]);
        int n = snprintf(names[i], NAME_BYTES, "void gemm_kernel_%d<", i);
        names[i][n] = 'T';
    }
}

/* ---- a plug-in that is part of this program ---------------------------------------------------- */

static uint64_t pushed[2], popped[2];

#define LISTENER(n)                                                                                \
    static int push_##n(KinetoPlugin_ProfilerPushCorrelationId_Params *p)                          \
    {                                                                                              \
        pushed[n] += p->correlationId;                                                             \
        return 0;                                                                                  \
    }                                                                                              \
    static int pop_##n(KinetoPlugin_ProfilerPopCorrelationId_Params *p)                            \
    {                                                                                              \
        popped[n] += p->pProfilerHandle != NULL;                                                   \
        return 0;                                                                                  \
    }
LISTENER(0)
LISTENER(1)
#define INTERFACE(n)                                                                               \
    {                                                                                              \
        NULL_PLUGIN, .profilerPushCorrelationId = push_##n, .profilerPopCorrelationId = pop_##n    \
    }
static const KinetoPlugin_ProfilerInterface interfaces[2] = {INTERFACE(0), INTERFACE(1)};

static void plugin_register(int n)
{
    const KinetoPlugin_Registry *r = kineto_plugin_registry();
    if (r->registerProfiler(r->pRegistryHandle, &interfaces[n]))
        exit(1);
}

/* ---- events ------------------------------------------------------------------------------------ */

static KinetoPlugin_ProfileEvent event_at(long i)
{
    KinetoPlugin_ProfileEvent e = {.unpaddedStructSize =
                                       KINETO_PLUGIN_SIZE(KinetoPlugin_ProfileEvent, resourceId),
                                   .eventType = KINETO_PLUGIN_PROFILE_EVENT_TYPE_CONCURRENT_KERNEL,
                                   .startTimeUtcNs = 1700000000000000000 + i * 1000,
                                   .endTimeUtcNs = 1700000000000000500 + i * 1000,
                                   .eventId = i + 1,
                                   .resourceId = 7};
    return e;
}

static void add_in_steps(long i)
{
    KinetoPlugin_ProfileEvent e = event_at(i);
    KinetoPlugin_ProfileEventFlow flow = {
        KINETO_PLUGIN_SIZE(KinetoPlugin_ProfileEventFlow, isStartPoint),
        KINETO_PLUGIN_PROFILE_EVENT_FLOW_TYPE_ASYNC_CPU_GPU, (uint32_t)i + 1, false};
    builder->addEvent(builder->pTraceBuilderHandle, &e);
    builder->setLastEventName(builder->pTraceBuilderHandle, names[i % NAMES]);
    builder->setLastEventFlow(builder->pTraceBuilderHandle, &flow);
    builder->addLastEventMetadata(builder->pTraceBuilderHandle, "registers per thread", "128");
    builder->addLastEventMetadata(builder->pTraceBuilderHandle, "grid", "[128,4,1]");
    builder->addLastEventMetadata(builder->pTraceBuilderHandle, "memory kind", "\"Pinned\"");
}

static void add_whole(long i)
{
    static const int64_t grid[] = {128, 4, 1};
    static const KinetoPlugin_Metadata metadata[] = {
        {"registers per thread", KINETO_PLUGIN_VALUE_INT, 0, {.i = 128}},
        {"grid", KINETO_PLUGIN_VALUE_INTS, 3, {.pointer = grid}},
        {"memory kind", KINETO_PLUGIN_VALUE_STRING, 6, {.pointer = "Pinned"}}};
    KinetoPlugin_Activity a = {.unpaddedStructSize =
                                   KINETO_PLUGIN_SIZE(KinetoPlugin_Activity, pMetadata),
                               .event = event_at(i),
                               .nameSize = (uint32_t)name_sizes[i % NAMES],
                               .pName = names[i % NAMES],
                               .flowType = KINETO_PLUGIN_PROFILE_EVENT_FLOW_TYPE_ASYNC_CPU_GPU,
                               .flowId = (uint32_t)i + 1,
                               .metadataCount = 3,
                               .pMetadata = metadata};
    builder->emit(builder->pTraceBuilderHandle, &a);
}

static double time_events(void (*add)(long), long count)
{
    double begin = bench_thread_ns();
    for (long i = 0; i < count; i++)
        add(i);
    return (bench_thread_ns() - begin) / (double)count;
}

static double time_floor(void)
{
    static uint64_t reads[2];
    __asm__ volatile("" ::"r"(reads) : "memory");
    double begin = bench_thread_ns();
    for (long i = 0; i < EVENTS; i++) {
        reads[0] = kb_ticks_hw();
        BENCH_BARRIER();
        reads[1] = kb_ticks_hw();
        BENCH_BARRIER();
    }
    return (bench_thread_ns() - begin) / (double)EVENTS;
}

static void exit_with_error(const kineto_error *err)
{
    fprintf(stderr, "bench_plugin: %s\n", err->message);
    exit(1);
}

static kineto_session *session_begin(size_t buffer_bytes, uint32_t retention)
{
    kineto_session *s;
    kineto_error err = {0};
    kineto_session_options options;
    kineto_session_options_init(&options);
    options.buffer_bytes = buffer_bytes;
    options.retention = retention;
    if (begin_session(&options, &s, &err))
        exit_with_error(&err);
    return s;
}

/* A flight recorder of a few MiB: its chunks are used over and over. */
static void time_recycled(void)
{
    static bench_series steps, whole, floor;
    kineto_session *s = session_begin(4u << 20, KINETO_RETAIN_NEWEST);
    (void)time_events(add_in_steps, EVENTS);
    for (int round = 0; round < ROUNDS; round++) {
        bench_add(&floor, time_floor());
        bench_add(&steps, time_events(add_in_steps, EVENTS));
        bench_add(&whole, time_events(add_whole, EVENTS));
    }
    bench_print("plugin_event_steps", "ns/event", &steps, &floor);
    bench_print("plugin_event_whole", "ns/event", &whole, &floor);
    (void)end_session(s, NULL, NULL);
}

/* A million events into fresh pages: they are present, and in no cache. */
static void time_cold(void)
{
    kineto_session *s = session_begin(256u << 20, KINETO_RETAIN_OLDEST);
    double ns = time_events(add_in_steps, COLD);
    bench_line("plugin_event_steps_cold", ns, "ns/event", 0, 1);
    (void)end_session(s, NULL, NULL);
}

static uint64_t words_in_pool(void)
{
    const kf_pool *pool = kineto_rt_pool();
    uint64_t words = 0;
    for (uint32_t i = 0; i < pool->control->chunk_high; i++)
        words += kf_committed_words(kf_pool_chunk(pool, i), KF_CHUNK_WORDS);
    return words;
}

static void count_bytes(const char *name, void (*add)(long), double floor)
{
    kineto_session *s = session_begin(64u << 20, KINETO_RETAIN_OLDEST);
    uint64_t before = words_in_pool();
    (void)time_events(add, EVENTS);
    bench_line(name, (double)(words_in_pool() - before) * 8 / (double)EVENTS, "bytes", floor, 1);
    (void)end_session(s, NULL, NULL);
}

/* ---- correlation ids --------------------------------------------------------------------------- */

/* The floor of correlation ids: the plug-ins' own functions, called directly. */
static double time_own(void)
{
    KinetoPlugin_ProfilerHandle *h = (KinetoPlugin_ProfilerHandle *)(void *)pushed;
    const KinetoPlugin_ProfilerInterface *volatile i[2] = {&interfaces[0], &interfaces[1]};
    double begin = bench_thread_ns();
    for (long n = 0; n < PUSHES; n++) {
        for (int k = 0; k < 2; k++) {
            KinetoPlugin_ProfilerPushCorrelationId_Params p = {24, (uint64_t)n, h};
            i[k]->profilerPushCorrelationId(&p);
        }
        for (int k = 0; k < 2; k++) {
            KinetoPlugin_ProfilerPopCorrelationId_Params p = {16, h};
            i[k]->profilerPopCorrelationId(&p);
        }
    }
    return (bench_thread_ns() - begin) / (double)PUSHES;
}

static double time_push_pop(void)
{
    double begin = bench_thread_ns();
    for (long n = 0; n < PUSHES; n++) {
        kineto_correlation_push((uint64_t)n + 1);
        kineto_correlation_pop();
    }
    return (bench_thread_ns() - begin) / (double)PUSHES;
}

static void time_correlation(void)
{
    static bench_series both, own, idle;
    for (int round = 0; round < ROUNDS; round++)
        bench_add(&idle, time_push_pop());
    kineto_session *s = session_begin(4u << 20, KINETO_RETAIN_NEWEST);
    for (int round = 0; round < ROUNDS; round++) {
        bench_add(&own, time_own());
        bench_add(&both, time_push_pop());
    }
    if (popped[0] == 0 || popped[1] == 0)
        exit(1);
    bench_print("correlation_pair_two_plugins", "ns/pair", &both, &own);
    bench_line("correlation_pair_above_plugins", bench_min(&both) - bench_min(&own), "ns/pair", 15,
               bench_spread(&both));
    bench_line("correlation_pair_disabled", bench_min(&idle), "ns/pair", 0, bench_spread(&idle));
    (void)end_session(s, NULL, NULL);
}

int main(void)
{
    names_make();
    plugin_register(0);
    time_cold();
    time_recycled();
    count_bytes("plugin_event_bytes", add_in_steps, 120);
    count_bytes("plugin_event_bytes_whole", add_whole, 120);
    plugin_register(1);
    time_correlation();
    return 0;
}
