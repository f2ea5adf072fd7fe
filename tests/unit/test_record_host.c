/* The host of plug-ins, driven by fake profilers that are part of this program: their life, what
 * they deliver and how, and everything they may do wrong. */
#include "unit.h"

#include "../helpers/recording.h"

#include <ckineto/plugin.h>

#include "base/base.h"

typedef KinetoPlugin_TraceBuilder builder;
typedef KinetoPlugin_TraceBuilderHandle handle;

/* ---- fakes: two, so that two can be there at once --------------------------------------------------- */

typedef struct fake {
    const char *name;
    int32_t types[8];
    char calls[256]; /* the life so far, a letter per call: c s t p d */
    int32_t enabled[8];
    size_t enabled_count;
    int fail_create, fail_start, fail_stop, fail_process, fail_query;
    const builder *live;
    void (*at_start)(const builder *), (*at_process)(const builder *), (*at_stop)(const builder *);
} fake;
static fake fakes[2];
static KinetoPlugin_ProfilerHandle *const handles[2] = {(void *)&fakes[0], (void *)&fakes[1]};

static void call(fake *f, char letter)
{
    size_t n = strlen(f->calls);
    if (n + 1 < sizeof f->calls)
        f->calls[n] = letter;
}

static int fake_query(fake *f, KinetoPlugin_ProfilerQuery_Params *p)
{
    assert_null(p->pProfilerHandle);
    strncpy(p->pProfilerName, f->name, p->profilerNameMaxLen);
    for (size_t i = 0; i < COUNT_OF(f->types) && i < p->supportedActivityTypesMaxLen; i++)
        p->pSupportedActivityTypes[i] = f->types[i];
    return f->fail_query;
}

static int fake_create(fake *f, KinetoPlugin_ProfilerCreate_Params *p)
{
    call(f, 'c');
    f->enabled_count = p->enabledActivityTypesMaxLen;
    for (size_t i = 0; i < f->enabled_count && i < COUNT_OF(f->enabled); i++)
        f->enabled[i] = p->pEnabledActivityTypes[i];
    p->pProfilerHandle = handles[f - fakes];
    return f->fail_create;
}

static int fake_start(fake *f, KinetoPlugin_ProfilerStart_Params *p)
{
    call(f, 's');
    assert_ptr_equal(p->pProfilerHandle, handles[f - fakes]);
    assert_ptr_equal(p->pProfilerHandleAgain, handles[f - fakes]);
    assert_int_equal(p->reservedZero, 0);
    assert_true(KINETO_PLUGIN_HAS(p, KinetoPlugin_ProfilerStart_Params, pLiveBuilder));
    f->live = p->pLiveBuilder;
    if (f->at_start)
        f->at_start(f->live);
    return f->fail_start;
}

static int fake_stop(fake *f, KinetoPlugin_ProfilerStop_Params *p)
{
    call(f, 't');
    assert_ptr_equal(p->pProfilerHandle, handles[f - fakes]);
    if (f->at_stop)
        f->at_stop(f->live);
    return f->fail_stop;
}

static int fake_process(fake *f, KinetoPlugin_ProfilerProcessEvents_Params *p)
{
    call(f, 'p');
    assert_ptr_equal(p->pProfilerHandle, handles[f - fakes]);
    if (f->at_process)
        f->at_process(p->pTraceBuilder);
    return f->fail_process;
}

static int fake_destroy(fake *f, KinetoPlugin_ProfilerDestroy_Params *p)
{
    call(f, 'd');
    assert_ptr_equal(p->pProfilerHandle, handles[f - fakes]);
    return 0;
}

#define TRAMPOLINE(what, Params, n)                                                                \
    static int fake_##what##_##n(KinetoPlugin_Profiler##Params##_Params *p)                        \
    {                                                                                              \
        return fake_##what(&fakes[n], p);                                                          \
    }
#define FAKE(n)                                                                                    \
    TRAMPOLINE(query, Query, n)                                                                    \
    TRAMPOLINE(create, Create, n)                                                                  \
    TRAMPOLINE(start, Start, n)                                                                    \
    TRAMPOLINE(stop, Stop, n)                                                                      \
    TRAMPOLINE(process, ProcessEvents, n)                                                          \
    TRAMPOLINE(destroy, Destroy, n)
FAKE(0)
FAKE(1)
#define FAKE_INTERFACE(n)                                                                          \
    {                                                                                              \
        .unpaddedStructSize =                                                                      \
            KINETO_PLUGIN_SIZE(KinetoPlugin_ProfilerInterface, profilerProcessEvents),             \
        .profilerCreate = fake_create_##n, .profilerDestroy = fake_destroy_##n,                    \
        .profilerQuery = fake_query_##n, .profilerStart = fake_start_##n,                          \
        .profilerStop = fake_stop_##n, .profilerProcessEvents = fake_process_##n                   \
    }
static const KinetoPlugin_ProfilerInterface interfaces[2] = {FAKE_INTERFACE(0), FAKE_INTERFACE(1)};

static int register_interface(const KinetoPlugin_ProfilerInterface *i)
{
    const KinetoPlugin_Registry *registry = kineto_plugin_registry();
    return registry->registerProfiler(registry->pRegistryHandle, i);
}

/* A fresh fake, registered. Kernels, copies and launches unless it says otherwise. */
static fake *enter(int n, const char *name)
{
    fakes[n] = (fake){.name = name,
                      .types = {KINETO_PLUGIN_PROFILE_EVENT_TYPE_CONCURRENT_KERNEL,
                                KINETO_PLUGIN_PROFILE_EVENT_TYPE_GPU_MEMCPY,
                                KINETO_PLUGIN_PROFILE_EVENT_TYPE_PRIVATEUSE1_RUNTIME}};
    assert_int_equal(register_interface(&interfaces[n]), 0);
    return &fakes[n];
}

static void leave(int n) { assert_int_equal(kineto_plugin_unregister(&interfaces[n]), 0); }

/* ---- events ------------------------------------------------------------------------------------------- */

static int64_t now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_REALTIME, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

static KinetoPlugin_ProfileEvent event_at(int64_t start, int64_t end, int64_t id)
{
    return (KinetoPlugin_ProfileEvent){
        .unpaddedStructSize = KINETO_PLUGIN_SIZE(KinetoPlugin_ProfileEvent, resourceId),
        .eventType = KINETO_PLUGIN_PROFILE_EVENT_TYPE_CONCURRENT_KERNEL,
        .startTimeUtcNs = start,
        .endTimeUtcNs = end,
        .eventId = id,
        .deviceId = 3,
        .resourceId = 7};
}

static KinetoPlugin_Activity activity_at(int64_t start, int64_t end, const char *name)
{
    return (KinetoPlugin_Activity){.unpaddedStructSize =
                                       KINETO_PLUGIN_SIZE(KinetoPlugin_Activity, pMetadata),
                                   .event = event_at(start, end, 0),
                                   .nameSize = (uint32_t)strlen(name),
                                   .pName = name};
}

/* ---- life --------------------------------------------------------------------------------------------- */

static void a_profiler_lives_once_per_session(void **state)
{
    (void)state;
    fake *f = enter(0, "life");
    assert_string_equal(f->calls, ""); /* no session records */
    for (int i = 0; i < 3; i++) {
        memset(f->calls, 0, sizeof f->calls);
        kineto_session *s = record();
        assert_string_equal(f->calls, "cs");
        kineto_trace_release(finish(s));
        assert_string_equal(f->calls, "cstpd");
    }
    leave(0);
    assert_int_equal(kineto_plugin_unregister(&interfaces[0]), 1);
    assert_int_equal(kineto_plugin_unregister(NULL), 1);
}

static void a_profiler_receives_what_is_both_enabled_and_supported(void **state)
{
    (void)state;
    fake *f = enter(0, "kinds");
    kineto_session *s = session_of(KINETO_KIND_BIT(KINETO_KIND_CONCURRENT_KERNEL) |
                                       KINETO_KIND_BIT(KINETO_KIND_CPU_OP),
                                   1 << 20, 0);
    assert_int_equal(f->enabled_count, 1);
    assert_int_equal(f->enabled[0], KINETO_PLUGIN_PROFILE_EVENT_TYPE_CONCURRENT_KERNEL);
    kineto_trace_release(finish(s));
    memset(f->calls, 0, sizeof f->calls);
    s = session_of(KINETO_KIND_BIT(KINETO_KIND_CPU_OP), 1 << 20, 0); /* none of its kinds */
    kineto_trace_release(finish(s));
    assert_string_equal(f->calls, "");
    leave(0);
}

static void a_profiler_that_comes_or_goes_during_a_session_takes_part(void **state)
{
    (void)state;
    kineto_session *s = record();
    fake *f = enter(0, "late");
    assert_string_equal(f->calls, "cs");
    leave(0);
    assert_string_equal(f->calls, "cstpd");
    f = enter(0, "late");
    assert_string_equal(f->calls, "cs");
    kineto_trace_release(finish(s));
    assert_string_equal(f->calls, "cstpd");
    leave(0);
}

static void interfaces_that_are_not_whole_are_refused(void **state)
{
    (void)state;
    KinetoPlugin_ProfilerInterface broken = interfaces[0];
    broken.profilerStop = NULL;
    assert_int_not_equal(register_interface(&broken), 0);
    broken = interfaces[0];
    broken.unpaddedStructSize -= 8;
    assert_int_not_equal(register_interface(&broken), 0);
    assert_int_not_equal(register_interface(NULL), 0);
    fakes[0] = (fake){.name = "twice"};
    fakes[0].fail_query = 5;
    assert_int_not_equal(register_interface(&interfaces[0]), 0);
    enter(0, "twice");
    assert_int_not_equal(register_interface(&interfaces[0]), 0);
    leave(0);
}

static void failures_cost_the_profilers_own_data_and_are_counted(void **state)
{
    (void)state;
    const char *const lives[] = {"c", "csd", "cstpd", "cstpd"};
    for (int which = 0; which < 4; which++) {
        fake *f = enter(0, "fails");
        f->fail_create = which == 0;
        f->fail_start = which == 1;
        f->fail_stop = which == 2;
        f->fail_process = which == 3;
        kineto_session *s = record();
        kineto_trace *t = finish(s);
        /* a start that fails is not tried again in this session; the session goes on */
        assert_string_equal(f->calls, lives[which]);
        assert_int_equal(ledger(t, "fails", "plug-in call failed"), 1);
        assert_int_equal(kineto_trace_lost(t), 0);
        kineto_trace_release(t);
        leave(0);
    }
}

/* ---- delivery at the end: the proposal's way --------------------------------------------------------- */

static int64_t t0;

static void add_old_style(const builder *b)
{
    handle *h = b->pTraceBuilderHandle;
    for (int i = 0; i < 3; i++) {
        KinetoPlugin_ProfileEvent e = event_at(t0 + i * 1000, t0 + i * 1000 + 500, 100 + i);
        assert_int_equal(b->addEvent(h, &e), 0);
        char name[] = "kernel \xff 0";
        name[9] = (char)('0' + i);
        assert_int_equal(b->setLastEventName(h, name), 0);
        memset(name, 0, sizeof name); /* everything was copied */
        KinetoPlugin_ProfileEventFlow flow = {
            .unpaddedStructSize = KINETO_PLUGIN_SIZE(KinetoPlugin_ProfileEventFlow, isStartPoint),
            .flowType = KINETO_PLUGIN_PROFILE_EVENT_FLOW_TYPE_ASYNC_CPU_GPU,
            .flowId = 9,
            .isStartPoint = i == 0};
        if (i < 2)
            assert_int_equal(b->setLastEventFlow(h, &flow), 0);
        assert_int_equal(b->addLastEventMetadata(h, "int", "42"), 0);
        assert_int_equal(b->addLastEventMetadata(h, "leading zero", "042"), 0);
        assert_int_equal(b->addLastEventMetadata(h, "list", "[1, 2]"), 0);
        assert_int_equal(b->addLastEventMetadata(h, "string", "\"x\""), 0);
        assert_int_equal(b->addLastEventMetadata(h, "bad", "{\"oops\""), 0);
    }
    KinetoPlugin_ProfileDeviceInfo device = {
        .unpaddedStructSize = KINETO_PLUGIN_SIZE(KinetoPlugin_ProfileDeviceInfo, pLabel),
        .deviceId = 3,
        .sortIndex = 77,
        .pName = "Fake device",
        .pLabel = "FAKE 3"};
    assert_int_equal(b->addDeviceInfo(h, &device), 0);
    KinetoPlugin_ProfileResourceInfo resource = {
        .unpaddedStructSize = KINETO_PLUGIN_SIZE(KinetoPlugin_ProfileResourceInfo, pName),
        .deviceId = 3,
        .resourceId = 7,
        .displayOrder = 70,
        .pName = "queue seven"};
    assert_int_equal(b->addResourceInfo(h, &resource), 0);
}

static void events_added_at_the_end_arrive_as_delivered(void **state)
{
    (void)state;
    fake *f = enter(0, "old style");
    f->at_process = add_old_style;
    kineto_session *s = record();
    t0 = now_ns();
    usleep(2000);
    kineto_trace *t = finish(s);
    verify(t);
    assert_nothing_lost(t);
    assert_int_equal(kineto_trace_count(t), 3);
    assert_int_equal(ledger(t, "old style", "delivered"), 3);
    for (int i = 0; i < 3; i++) {
        kineto_activity a = row_at(t, (kineto_row)i);
        char name[] = "kernel \xff 0";
        name[9] = (char)('0' + i);
        assert_text(a.name, name);
        assert_int_equal(a.kind, KINETO_KIND_CONCURRENT_KERNEL);
        assert_int_equal(a.start_ns, t0 + i * 1000); /* exactly: the times were Unix ns */
        assert_int_equal(a.end_ns, t0 + i * 1000 + 500);
        assert_int_equal(a.correlation_id, 100 + i);
        assert_int_equal(arg_of(t, a.row, "int").i, 42);
        assert_int_equal(arg_of(t, a.row, "int").type, KINETO_ARG_INT);
        assert_text(arg_of(t, a.row, "leading zero").text, "042");
        assert_int_equal(arg_of(t, a.row, "leading zero").type, KINETO_ARG_STRING);
        assert_text(arg_of(t, a.row, "list").text, "[1, 2]");
        assert_text(arg_of(t, a.row, "string").text, "\"x\"");
        assert_text(arg_of(t, a.row, "bad").text, "{\"oops\"");
        kineto_track track = track_of(t, a.row);
        assert_int_equal(track.type, KINETO_TRACK_STREAM);
        assert_int_equal(track.id, 7);
        assert_text(track.name, "queue seven");
        assert_int_equal(track.sort_index, 70);
        kineto_process p = process_of(t, a.row);
        assert_true(p.is_device);
        assert_int_equal(p.pid, 3);
        assert_text(p.name, "Fake device");
        assert_text(p.label, "FAKE 3");
        assert_int_equal(p.sort_index, 77);
    }
    assert_int_equal(ledger(t, "old style", "metadata was not JSON, quoted"), 6);
    kineto_flow flow;
    assert_int_equal(kineto_trace_flow_count(t), 1);
    kineto_trace_flow(t, 0, &flow);
    assert_int_equal(flow.id, 9);
    assert_int_equal(flow.from, 0);
    assert_int_equal(flow.to, 1);
    kineto_trace_release(t);
    leave(0);
}

static void add_wrongly(const builder *b)
{
    handle *h = b->pTraceBuilderHandle;
    KinetoPlugin_ProfileEvent e = event_at(t0, t0 + 1, 0);
    KinetoPlugin_ProfileEventFlow flow = {.unpaddedStructSize = 16};
    KinetoPlugin_ProfileDeviceInfo device = {.unpaddedStructSize = 39};
    KinetoPlugin_ProfileResourceInfo resource = {.unpaddedStructSize = 31};
    KinetoPlugin_Activity activity = activity_at(t0, t0 + 1, "bad clock");
    assert_int_not_equal(b->setLastEventName(h, "of nothing"), 0); /* 1: no event yet */
    assert_int_not_equal(b->addEvent(h, NULL), 0);                 /* 2 */
    e.unpaddedStructSize -= 1;
    assert_int_not_equal(b->addEvent(h, &e), 0); /* 3 */
    e.unpaddedStructSize += 1;
    e.eventType = KINETO_PLUGIN_PROFILE_EVENT_TYPE_COUNT;
    assert_int_not_equal(b->addEvent(h, &e), 0); /* 4 */
    e.eventType = KINETO_PLUGIN_PROFILE_EVENT_TYPE_INVALID;
    assert_int_not_equal(b->addEvent(h, &e), 0);                          /* 5 */
    assert_int_equal(b->setLastEventName(h, "of a refused one"), 0);      /* goes nowhere */
    assert_int_equal(b->addLastEventMetadata(h, "of a refused", "1"), 0); /* so does this */
    assert_int_not_equal(b->addDeviceInfo(h, &device), 0);                /* 6 */
    assert_int_not_equal(b->addDeviceInfo(h, NULL), 0);                   /* 7 */
    assert_int_not_equal(b->addResourceInfo(h, &resource), 0);            /* 8 */
    assert_int_not_equal(b->addResourceInfo(h, NULL), 0);                 /* 9 */
    assert_int_not_equal(b->emit(h, NULL), 0);                            /* 10 */
    activity.clock = 16;
    assert_int_not_equal(b->emit(h, &activity), 0); /* 11 */
    activity.clock = -1;
    assert_int_not_equal(b->emit(h, &activity), 0); /* 12 */
    activity.clock = 0;
    activity.unpaddedStructSize -= 1;
    assert_int_not_equal(b->emit(h, &activity), 0);                 /* 13 */
    assert_int_not_equal(b->addDeviceProperties(h, 3, NULL, 2), 0); /* 14 */
    e.eventType = KINETO_PLUGIN_PROFILE_EVENT_TYPE_CONCURRENT_KERNEL;
    assert_int_equal(b->addEvent(h, &e), 0);
    assert_int_not_equal(b->setLastEventFlow(h, &flow), 0);           /* 15 */
    assert_int_not_equal(b->addLastEventMetadata(h, "key", NULL), 0); /* 16 */
    assert_int_not_equal(b->setLastEventFlow(h, NULL), 0);            /* 17 */
    assert_int_not_equal(b->setLastEventName(h, NULL), 0);            /* 18 */
    assert_int_not_equal(b->addLastEventMetadata(h, NULL, "1"), 0);   /* 19 */
    assert_int_not_equal(b->addEvent(NULL, &e), 0);
    assert_int_not_equal(b->emit(NULL, &activity), 0);
    assert_int_not_equal(b->addCounts(h, NULL), 0);
    assert_int_not_equal(b->registerClock(h, "c", NULL), 0);
    assert_int_not_equal(b->addClockSample(h, 4, 0, 0, 0), 0);   /* 20 */
    assert_int_not_equal(b->addClockSample(h, 16, 0, 0, 0), 0);  /* 21 */
    assert_int_not_equal(b->addHeaderMetadata(h, NULL, "1"), 0); /* 22 */
    assert_int_not_equal(b->addHeaderMetadata(h, "k", NULL), 0); /* 23 */
    /* of a kind that it did not say it supports */
    e.eventType = KINETO_PLUGIN_PROFILE_EVENT_TYPE_GPU_MEMSET;
    assert_int_not_equal(b->addEvent(h, &e), 0);
    /* back in time: the event stays, without a length */
    e = event_at(t0 + 10, t0 - 10, 0);
    assert_int_equal(b->addEvent(h, &e), 0);
    assert_int_equal(b->setLastEventName(h, "backwards"), 0);
}

static void wrong_calls_are_refused_counted_and_harmless(void **state)
{
    (void)state;
    fake *f = enter(0, "wrong");
    f->at_process = add_wrongly;
    kineto_session *s = record();
    t0 = now_ns();
    kineto_trace *t = finish(s);
    verify(t);
    assert_int_equal(kineto_trace_count(t), 2); /* the one without a name, and the backward one */
    assert_int_equal(ledger(t, "wrong", "invalid event from a plug-in"), 23);
    assert_int_equal(ledger(t, "wrong", "kind not enabled"), 1);
    assert_int_equal(ledger(t, "wrong", "delivered"), 2);
    kineto_activity a = find_only(t, "backwards");
    assert_true(a.start_ns == a.end_ns);
    kineto_trace_release(t);
    /* after its time everything is refused, and nothing happens */
    const builder *late = f->live;
    KinetoPlugin_ProfileEvent e = event_at(t0, t0 + 1, 0);
    KinetoPlugin_Activity activity = activity_at(t0, t0 + 1, "late");
    assert_int_not_equal(late->addEvent(late->pTraceBuilderHandle, &e), 0);
    assert_int_not_equal(late->emit(late->pTraceBuilderHandle, &activity), 0);
    assert_int_not_equal(late->setLastEventName(late->pTraceBuilderHandle, "late"), 0);
    leave(0);
}

/* ---- live delivery ------------------------------------------------------------------------------------ */

static void typed_metadata_and_properties_arrive_as_delivered(void **state)
{
    (void)state;
    static char long_text[5000];
    memset(long_text, 'x', sizeof long_text);
    fake *f = enter(0, "typed");
    kineto_session *s = record();
    const builder *b = f->live;
    handle *h = b->pTraceBuilderHandle;
    const int64_t ints[] = {1, -2};
    const char *const strings[] = {"a\"", NULL, "b"};
    const KinetoPlugin_Metadata metadata[] = {
        {"int", KINETO_PLUGIN_VALUE_INT, 0, {.i = INT64_MIN}},
        {"uint", KINETO_PLUGIN_VALUE_UINT, 0, {.u = UINT64_MAX}},
        {"double", KINETO_PLUGIN_VALUE_DOUBLE, 0, {.d = 0.25}},
        {"bool", KINETO_PLUGIN_VALUE_BOOL, 0, {.u = 1}},
        {"string", KINETO_PLUGIN_VALUE_STRING, 4, {.pointer = "a\0b\xff"}},
        {"empty", KINETO_PLUGIN_VALUE_STRING, 0, {.pointer = NULL}},
        {"long", KINETO_PLUGIN_VALUE_STRING, sizeof long_text, {.pointer = long_text}},
        {"ints", KINETO_PLUGIN_VALUE_INTS, 2, {.pointer = ints}},
        {"strings", KINETO_PLUGIN_VALUE_STRINGS, 3, {.pointer = strings}},
        {"json", KINETO_PLUGIN_VALUE_JSON, 9, {.pointer = "{\"a\":[1]}"}},
        {NULL, KINETO_PLUGIN_VALUE_INT, 0, {.i = 1}}, /* no key */
        {"type 0", 0, 0, {.i = 1}},                   /* no such types */
        {"type 9", 9, 0, {.i = 1}},
        {"null", KINETO_PLUGIN_VALUE_STRING, 3, {.pointer = NULL}}};
    int64_t now = now_ns();
    KinetoPlugin_Activity a = activity_at(now, now + 100, "typed event");
    a.externalId = 55;
    a.metadataCount = COUNT_OF(metadata);
    a.pMetadata = metadata;
    assert_int_equal(b->emit(h, &a), 0);
    a = activity_at(now, now + 100, "");
    a.pName = NULL;
    assert_int_equal(b->emit(h, &a), 0);
    assert_int_equal(b->addDeviceProperties(h, 3, metadata, 10), 0);
    assert_int_equal(b->addHeaderMetadata(h, "from plug-in", "[true]"), 0);
    KinetoPlugin_Counts counts = {KINETO_PLUGIN_SIZE(KinetoPlugin_Counts, dropped), 12, 10};
    assert_int_equal(b->addCounts(h, &counts), 0);
    usleep(1000);
    kineto_trace *t = finish(s);
    verify(t);
    kineto_row row = find_only(t, "typed event").row;
    assert_true(arg_of(t, row, "int").i == INT64_MIN);
    assert_true(arg_of(t, row, "uint").u == UINT64_MAX);
    assert_true(arg_of(t, row, "double").d == 0.25);
    assert_int_equal(arg_of(t, row, "bool").type, KINETO_ARG_BOOL);
    assert_int_equal(arg_of(t, row, "string").text.size, 4);
    assert_memory_equal(arg_of(t, row, "string").text.data, "a\0b\xff", 4);
    assert_int_equal(arg_of(t, row, "empty").text.size, 0);
    assert_int_equal(arg_of(t, row, "long").text.size, sizeof long_text);
    assert_text(arg_of(t, row, "ints").text, "[1,-2]");
    assert_text(arg_of(t, row, "strings").text, "[\"a\\\"\",\"\",\"b\"]");
    assert_text(arg_of(t, row, "json").text, "{\"a\":[1]}");
    kineto_arg none;
    assert_false(kineto_args_find(t, row, "type 9", &none));
    assert_int_equal(row_at(t, row).external_id, 55);
    assert_int_equal(count_named(t, ""), 1);
    kineto_process p = process_of(t, row);
    assert_non_null(memmem(p.properties_json.data, p.properties_json.size, "\"id\":3", 6));
    assert_non_null(memmem(p.properties_json.data, p.properties_json.size, "\"ints\":[1,-2]", 13));
    assert_int_equal(ledger(t, "typed", "requested"), 12);
    assert_int_equal(ledger(t, "typed", "delivered"), 2);
    assert_int_equal(ledger(t, "typed", "lost by the device or driver"), 10);
    assert_int_equal(kineto_trace_lost(t), 10 + 4); /* and four bad values */
    assert_string_equal(f->calls, "cstpd");
    kineto_trace_release(t);
    leave(0);
}

typedef struct emitter {
    const builder *b;
    int number, count;
} emitter;

static void *emit_many(void *argument)
{
    const emitter *e = argument;
    for (int i = 0; i < e->count; i++) {
        int64_t now = now_ns();
        KinetoPlugin_Metadata m = {"n", KINETO_PLUGIN_VALUE_INT, 0, {.i = i}};
        KinetoPlugin_Activity a = activity_at(now, now + 1, "live");
        a.event.resourceId = e->number;
        a.metadataCount = 1;
        a.pMetadata = &m;
        if (e->b->emit(e->b->pTraceBuilderHandle, &a))
            break;
    }
    return NULL;
}

static void *add_many(void *argument)
{
    const emitter *e = argument;
    handle *h = e->b->pTraceBuilderHandle;
    for (int i = 0; i < e->count; i++) {
        char name[32];
        int64_t now = now_ns();
        KinetoPlugin_ProfileEvent event = event_at(now, now + 1, 0);
        event.resourceId = e->number;
        snprintf(name, sizeof name, "stepwise %d", e->number);
        e->b->addEvent(h, &event);
        e->b->setLastEventName(h, name);
        snprintf(name, sizeof name, "%d", i);
        e->b->addLastEventMetadata(h, "n", name);
    }
    return NULL;
}

static void several_threads_deliver_at_once(void **state)
{
    (void)state;
    enum { THREADS = 8, COUNT = 1000 };
    emitter all[THREADS];
    pthread_t threads[THREADS];
    fake *f = enter(0, "threads");
    kineto_session *s = session_of(KINETO_KINDS_ALL, 16u << 20, 0);
    for (int i = 0; i < THREADS; i++) {
        all[i] = (emitter){f->live, i, COUNT};
        threads[i] = start_thread(i & 1 ? add_many : emit_many, &all[i]);
    }
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    usleep(100);
    kineto_trace *t = finish(s);
    verify(t);
    assert_nothing_lost(t);
    assert_int_equal(kineto_trace_count(t), THREADS * COUNT);
    assert_int_equal(ledger(t, "threads", "delivered"), THREADS * COUNT);
    int64_t next[THREADS] = {0};
    const kineto_row *order =
        kineto_trace_time_order(t); /* each thread's last came in at the end */
    for (uint64_t i = 0; i < kineto_trace_count(t); i++) {
        int64_t thread = track_of(t, order[i]).id;
        char name[32] = "live";
        if (thread & 1)
            snprintf(name, sizeof name, "stepwise %d", (int)thread);
        assert_text(row_at(t, order[i]).name, name);
        assert_int_equal(arg_of(t, order[i], "n").i, next[thread]++);
    }
    kineto_trace_release(t);
    leave(0);
}

static void events_without_room_are_the_plug_ins_loss(void **state)
{
    (void)state;
    fake *f = enter(0, "no room");
    kineto_session *s = session_of(KINETO_KINDS_ALL, 65536, 0);
    emitter e = {f->live, 0, 20000};
    emit_many(&e); /* stops at the first that was refused */
    usleep(100);
    kineto_trace *t = finish(s);
    verify(t);
    assert_int_equal(ledger(t, "no room", "buffer full"), 1);
    assert_int_equal(ledger(t, "program", "buffer full"), 0);
    assert_int_equal(ledger(t, "no room", "delivered"), kineto_trace_count(t));
    assert_true(kineto_trace_count(t) > 1000);
    kineto_trace_release(t);
    leave(0);
}

/* A profiler that delivers as it goes is not stopped when one of two sessions ends; one that does
 * not is stopped, read and started again, so that the session gets its events. */
static void two_sessions_share_a_profiler(void **state)
{
    (void)state;
    fake *f = enter(0, "shared");
    kineto_session *a = record(), *b = record();
    emitter e = {f->live, 0, 10};
    emit_many(&e);
    usleep(100);
    kineto_trace *ta = finish(a);
    assert_string_equal(f->calls, "csp");
    emit_many(&e);
    usleep(100);
    kineto_trace *tb = finish(b);
    assert_string_equal(f->calls, "csptpd");
    assert_int_equal(count_named(ta, "live"), 10);
    assert_int_equal(count_named(tb, "live"), 20);
    kineto_trace_release(ta);
    kineto_trace_release(tb);
    memset(f->calls, 0, sizeof f->calls);
    f->at_process = add_old_style;
    a = record();
    b = record();
    t0 = now_ns();
    usleep(3000);
    ta = finish(a);
    assert_string_equal(f->calls, "cstpdcs");
    assert_int_equal(kineto_trace_count(ta), 3);
    kineto_trace_release(ta);
    kineto_trace_release(finish(b));
    assert_string_equal(f->calls, "cstpdcstpd");
    leave(0);
}

static void two_profilers_are_two_sources(void **state)
{
    (void)state;
    fake *a = enter(0, "first"), *b = enter(1, "second");
    kineto_session *s = record();
    emitter ea = {a->live, 1, 10}, eb = {b->live, 1, 20};
    emit_many(&ea);
    emit_many(&eb);
    usleep(100);
    kineto_trace *t = finish(s);
    verify(t);
    assert_nothing_lost(t);
    assert_int_equal(ledger(t, "first", "delivered"), 10);
    assert_int_equal(ledger(t, "second", "delivered"), 20);
    /* device 3 of one is not device 3 of the other */
    assert_int_equal(kineto_trace_count(t), 30);
    assert_int_not_equal(track_of(t, 0).process, track_of(t, 29).process);
    assert_int_equal(process_of(t, 0).pid, 3);
    assert_int_equal(process_of(t, 29).pid, 3);
    kineto_trace_release(t);
    leave(0);
    leave(1);
}

/* ---- clocks --------------------------------------------------------------------------------------------- */

/* A device clock of 25 MHz, 300 ppm fast, that started at some other time. */
static int64_t device_clock(int64_t utc_ns, int64_t origin_ns)
{
    return (int64_t)((double)(utc_ns - origin_ns) * 0.025 * 1.0003) + 123456789;
}

static void device_times_are_converted_within_the_residual(void **state)
{
    (void)state;
    fake *f = enter(0, "clock");
    int64_t origin = now_ns() - 5000000000;
    for (int round = 0; round < 20; round++) { /* more often than there are clock numbers */
        kineto_session *s = record();
        const builder *b = f->live;
        handle *h = b->pTraceBuilderHandle;
        int32_t clock = 0, same = 0, other = 0;
        assert_int_equal(b->registerClock(h, "device clock", &clock), 0);
        assert_true(clock >= KINETO_PLUGIN_CLOCK_DEVICE && clock <= 15);
        assert_int_equal(b->registerClock(h, "device clock", &same), 0);
        assert_int_equal(same, clock);
        assert_int_equal(b->registerClock(h, "other clock", &other), 0);
        assert_int_not_equal(other, clock);
        if (round > 0 && round < 19) {
            kineto_trace_release(finish(s));
            continue;
        }
        int64_t utc[21];
        for (int i = 0; i <= 20; i++) {
            uint64_t before = b->hostTicks(h);
            utc[i] = now_ns();
            uint64_t after = b->hostTicks(h);
            if (i % 10 == 0)
                assert_int_equal(
                    b->addClockSample(h, clock, device_clock(utc[i], origin), before, after), 0);
            KinetoPlugin_Activity a = activity_at(device_clock(utc[i], origin),
                                                  device_clock(utc[i] + 10000, origin), "ticked");
            a.clock = clock;
            assert_int_equal(b->emit(h, &a), 0);
            usleep(1000);
        }
        KinetoPlugin_Activity a = activity_at(1, 2, "never compared");
        a.clock = other;
        if (round)
            assert_int_equal(b->emit(h, &a), 0);
        kineto_trace *t = finish(s);
        verify(t);
        assert_int_equal(count_named(t, "ticked"), 21);
        assert_int_equal(count_named(t, "never compared"), 0);
        assert_int_equal(kineto_trace_lost(t), round != 0);
        uint64_t residual = ledger(t, "device clock", "residual [ns]");
        for (uint64_t i = 0; i <= 20; i++) {
            kineto_activity row = find_nth(t, "ticked", i);
            int64_t off = row.start_ns - utc[i];
            /* 40 ns a tick, the bracket of a sample, and what the fit itself says */
            assert_true((off < 0 ? -off : off) < 100000 + 2 * (int64_t)residual);
            assert_in_range(row.end_ns - row.start_ns, 9900, 10100);
        }
        kineto_trace_release(t);
    }
    leave(0);
}

static void events_in_the_hosts_clocks_land_where_they_belong(void **state)
{
    (void)state;
    const struct {
        int32_t clock;
        int id;
    } clocks[] = {{KINETO_PLUGIN_CLOCK_MONOTONIC, CLOCK_MONOTONIC},
                  {KINETO_PLUGIN_CLOCK_MONOTONIC_RAW, CLOCK_MONOTONIC_RAW},
                  {KINETO_PLUGIN_CLOCK_BOOTTIME, CLOCK_BOOTTIME}};
    KINETO_SITE(mark, KINETO_KIND_CPU_OP, "mark");
    fake *f = enter(0, "host clocks");
    kineto_session *s = record();
    const builder *b = f->live;
    for (size_t i = 0; i < COUNT_OF(clocks); i++) {
        struct timespec t;
        kineto_range r = kineto_range_begin(&mark);
        clock_gettime(clocks[i].id, &t);
        int64_t ns = (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
        KinetoPlugin_Activity a = activity_at(ns, ns, "clocked");
        a.clock = clocks[i].clock;
        assert_int_equal(b->emit(b->pTraceBuilderHandle, &a), 0);
        kineto_range_end(r);
    }
    kineto_range r = kineto_range_begin(&mark);
    KinetoPlugin_Activity a =
        activity_at((int64_t)b->hostTicks(b->pTraceBuilderHandle), 0, "clocked");
    a.event.endTimeUtcNs = a.event.startTimeUtcNs;
    a.clock = KINETO_PLUGIN_CLOCK_TICKS;
    assert_int_equal(b->emit(b->pTraceBuilderHandle, &a), 0);
    kineto_range_end(r);
    usleep(1000);
    kineto_trace *t = finish(s);
    assert_nothing_lost(t);
    for (uint64_t i = 0; i <= COUNT_OF(clocks); i++) {
        kineto_activity m = find_nth(t, "mark", i), c = find_nth(t, "clocked", i);
        assert_true(c.start_ns >= m.start_ns - 2000 && c.start_ns <= m.end_ns + 2000);
    }
    kineto_trace_release(t);
    leave(0);
}

int main(void)
{
    (void)kb_log_configure(KINETO_LOG_OFF, NULL, NULL); /* refusals are what is tested here */
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_profiler_lives_once_per_session),
        cmocka_unit_test(a_profiler_receives_what_is_both_enabled_and_supported),
        cmocka_unit_test(a_profiler_that_comes_or_goes_during_a_session_takes_part),
        cmocka_unit_test(interfaces_that_are_not_whole_are_refused),
        cmocka_unit_test(failures_cost_the_profilers_own_data_and_are_counted),
        cmocka_unit_test(events_added_at_the_end_arrive_as_delivered),
        cmocka_unit_test(wrong_calls_are_refused_counted_and_harmless),
        cmocka_unit_test(typed_metadata_and_properties_arrive_as_delivered),
        cmocka_unit_test(several_threads_deliver_at_once),
        cmocka_unit_test(events_without_room_are_the_plug_ins_loss),
        cmocka_unit_test(two_sessions_share_a_profiler),
        cmocka_unit_test(two_profilers_are_two_sources),
        cmocka_unit_test(events_in_the_hosts_clocks_land_where_they_belong),
        /* last: what could not be placed stays in a chunk that later sessions look at */
        cmocka_unit_test(device_times_are_converted_within_the_residual),
    };
    return RUN_TESTS(tests);
}
