/* Fake plug-ins that are part of the test: four profilers whose calls, kinds and failures a test
 * chooses, and what it needs to deliver events. Include after recording.h. */
#ifndef TESTS_PLUGINS_H
#define TESTS_PLUGINS_H

#include <ckineto/host.h>

#include <time.h>

typedef KinetoPlugin_TraceBuilder builder;
typedef KinetoPlugin_TraceBuilderHandle handle;

#define TYPE(name)              KINETO_PLUGIN_PROFILE_EVENT_TYPE_##name
#define BIT(name)               KINETO_KIND_BIT(KINETO_KIND_##name)
#define SIZE_TO(Struct, member) KINETO_PLUGIN_SIZE(KinetoPlugin_##Struct, member)

static inline int64_t now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_REALTIME, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

/* ---- fakes --------------------------------------------------------------------------------------- */

enum { FAKES = 4 };
enum { LISTENS = 1, LISTENS_USER = 2, TOGGLES = 4, SPEAKS = 8 }; /* optional functions */

/* A call of the life cycle is a letter: q(uery) c(reate) s(tart) t(= stop) p(rocess) d(estroy),
 * + and - for toggle. */
typedef struct fake fake;
struct fake {
    const char *name, *vendor;
    int32_t types[40];
    char calls[256];
    int32_t enabled[40];
    size_t enabled_count;
    char config[1100];
    char fails;      /* the letter of the call that fails, with -7 */
    const char *why; /* error text */
    const builder *live;
    int64_t started_ns; /* a time inside the session, for what is delivered at its end */
    void (*at)(fake *f, char letter, const builder *b); /* inside every call but query */
    void (*at_push)(fake *f, uint64_t id), (*at_pop)(fake *f);
    char heard[512]; /* "3 u4 ." of pushes and pops: u for the user's stack, . for a pop */
    uint64_t pushes, pops;
};
static fake fakes[FAKES];
static KinetoPlugin_ProfilerInterface interfaces[FAKES];
static char all_calls[512]; /* of all fakes in order: "0c0s1c1s" */

static void append_text(char *to, size_t size, const char *text)
{
    size_t n = strlen(to);
    snprintf(to + n, size - n, "%s", text);
}

static KinetoPlugin_ProfilerHandle *handle_of(const fake *f) { return (void *)(uintptr_t)f; }

static int call(fake *f, char letter, const builder *b)
{
    const char mine[] = {letter, 0}, all[] = {(char)('0' + (f - fakes)), letter, 0};
    append_text(f->calls, sizeof f->calls, mine);
    append_text(all_calls, sizeof all_calls, all);
    if (f->at && letter != 'q')
        f->at(f, letter, b);
    return f->fails == letter ? -7 : 0;
}

static int fake_query(fake *f, KinetoPlugin_ProfilerQuery_Params *p)
{
    assert_null(p->pProfilerHandle);
    /* as many do: no NUL if it is too long */
    memcpy(p->pProfilerName, f->name, KB_MIN(strlen(f->name), p->profilerNameMaxLen));
    if (f->vendor && KINETO_PLUGIN_HAS(p, KinetoPlugin_ProfilerQuery_Params, vendorNameMaxLen))
        memcpy(p->pVendorName, f->vendor, KB_MIN(strlen(f->vendor), p->vendorNameMaxLen));
    for (size_t i = 0; i < COUNT_OF(f->types) && i < p->supportedActivityTypesMaxLen; i++) {
        assert_int_equal(p->pSupportedActivityTypes[i], TYPE(INVALID));
        p->pSupportedActivityTypes[i] = f->types[i];
    }
    return call(f, 'q', NULL);
}

static int fake_create(fake *f, KinetoPlugin_ProfilerCreate_Params *p)
{
    f->enabled_count = p->enabledActivityTypesMaxLen;
    memcpy(f->enabled, p->pEnabledActivityTypes,
           KB_MIN(f->enabled_count, COUNT_OF(f->enabled)) * sizeof *f->enabled);
    assert_true(KINETO_PLUGIN_HAS(p, KinetoPlugin_ProfilerCreate_Params, pCustomConfig));
    assert_non_null(p->pCustomConfig);
    snprintf(f->config, sizeof f->config, "%s", p->pCustomConfig);
    p->pProfilerHandle = handle_of(f);
    return call(f, 'c', NULL);
}

static int fake_start(fake *f, KinetoPlugin_ProfilerStart_Params *p)
{
    assert_ptr_equal(p->pProfilerHandle, handle_of(f));
    assert_true(KINETO_PLUGIN_HAS(p, KinetoPlugin_ProfilerStart_Params, pLiveBuilder));
    kb_store_relaxed(&f->started_ns, now_ns());
    kb_store_release(&f->live, p->pLiveBuilder); /* threads of some tests wait for it */
    return call(f, 's', f->live);
}

static int fake_stop(fake *f, KinetoPlugin_ProfilerStop_Params *p)
{
    assert_ptr_equal(p->pProfilerHandle, handle_of(f));
    return call(f, 't', f->live);
}

static int fake_process(fake *f, KinetoPlugin_ProfilerProcessEvents_Params *p)
{
    assert_ptr_equal(p->pProfilerHandle, handle_of(f));
    return call(f, 'p', p->pTraceBuilder);
}

static int fake_destroy(fake *f, KinetoPlugin_ProfilerDestroy_Params *p)
{
    assert_ptr_equal(p->pProfilerHandle, handle_of(f));
    return call(f, 'd', f->live);
}

static int fake_toggle(fake *f, KinetoPlugin_ProfilerToggleCollection_Params *p)
{
    assert_ptr_equal(p->pProfilerHandle, handle_of(f));
    return call(f, p->enable ? '+' : '-', f->live);
}

static int fake_error(fake *f, KinetoPlugin_ProfilerErrorText_Params *p)
{
    if (!f->why)
        return 1;
    memcpy(p->pText, f->why, KB_MIN(strlen(f->why), p->textMaxLen));
    return 0;
}

/* ---- listening: of one thread at a time unless only the numbers are looked at ---------------------- */

static int heard_push(fake *f, const char *prefix, uint64_t id)
{
    char text[32];
    kb_add_relaxed(&f->pushes, 1);
    if (f->at_push) {
        f->at_push(f, id);
    } else {
        snprintf(text, sizeof text, "%s%llu ", prefix, (unsigned long long)id);
        append_text(f->heard, sizeof f->heard, text);
    }
    return f->fails == 'x' ? -7 : 0;
}

static int heard_pop(fake *f, const char *text)
{
    kb_add_relaxed(&f->pops, 1);
    if (f->at_pop)
        f->at_pop(f);
    else
        append_text(f->heard, sizeof f->heard, text);
    return f->fails == 'y' ? -7 : 0;
}

static int fake_push(fake *f, KinetoPlugin_ProfilerPushCorrelationId_Params *p)
{
    assert_ptr_equal(p->pProfilerHandle, handle_of(f));
    return heard_push(f, "", p->correlationId);
}
static int fake_push_user(fake *f, KinetoPlugin_ProfilerPushUserCorrelationId_Params *p)
{
    assert_ptr_equal(p->pProfilerHandle, handle_of(f));
    return heard_push(f, "u", p->userCorrelationId);
}
static int fake_pop(fake *f, KinetoPlugin_ProfilerPopCorrelationId_Params *p)
{
    assert_ptr_equal(p->pProfilerHandle, handle_of(f));
    return heard_pop(f, ". ");
}
static int fake_pop_user(fake *f, KinetoPlugin_ProfilerPopUserCorrelationId_Params *p)
{
    assert_ptr_equal(p->pProfilerHandle, handle_of(f));
    return heard_pop(f, "u. ");
}

/* ---- one function per fake, since the interface tells them apart by address ------------------------- */

#define FAKE_CALL(what, Params, n)                                                                 \
    static int fake_##what##_##n(KinetoPlugin_Profiler##Params##_Params *p)                        \
    {                                                                                              \
        return fake_##what(&fakes[n], p);                                                          \
    }
#define FAKE_CALLS(n)                                                                              \
    FAKE_CALL(query, Query, n)                                                                     \
    FAKE_CALL(create, Create, n)                                                                   \
    FAKE_CALL(start, Start, n)                                                                     \
    FAKE_CALL(stop, Stop, n)                                                                       \
    FAKE_CALL(process, ProcessEvents, n)                                                           \
    FAKE_CALL(destroy, Destroy, n)                                                                 \
    FAKE_CALL(toggle, ToggleCollection, n)                                                         \
    FAKE_CALL(error, ErrorText, n)                                                                 \
    FAKE_CALL(push, PushCorrelationId, n)                                                          \
    FAKE_CALL(pop, PopCorrelationId, n)                                                            \
    FAKE_CALL(push_user, PushUserCorrelationId, n)                                                 \
    FAKE_CALL(pop_user, PopUserCorrelationId, n)
FAKE_CALLS(0)
FAKE_CALLS(1)
FAKE_CALLS(2)
FAKE_CALLS(3)
#define FAKE_INTERFACE(n)                                                                          \
    {                                                                                              \
        SIZE_TO(ProfilerInterface, profilerErrorText), fake_create_##n, fake_destroy_##n,          \
            fake_query_##n, fake_start_##n, fake_stop_##n, fake_push_##n, fake_pop_##n,            \
            fake_push_user_##n, fake_pop_user_##n, fake_process_##n, fake_toggle_##n,              \
            fake_error_##n                                                                         \
    }

static int register_interface(const KinetoPlugin_ProfilerInterface *i)
{
    const KinetoPlugin_Registry *registry = kineto_plugin_registry();
    return registry->registerProfiler(registry->pRegistryHandle, i);
}

/* A fresh fake, not yet registered: kernels, copies and launches unless the test says otherwise. */
static fake *make_fake(int n, const char *name, unsigned functions)
{
    static const KinetoPlugin_ProfilerInterface whole[FAKES] = {
        FAKE_INTERFACE(0), FAKE_INTERFACE(1), FAKE_INTERFACE(2), FAKE_INTERFACE(3)};
    KinetoPlugin_ProfilerInterface *i = &interfaces[n];
    (void)kineto_plugin_unregister(i); /* a test that failed left it */
    *i = whole[n];
    if (!(functions & LISTENS))
        i->profilerPushCorrelationId = NULL, i->profilerPopCorrelationId = NULL;
    if (!(functions & LISTENS_USER))
        i->profilerPushUserCorrelationId = NULL, i->profilerPopUserCorrelationId = NULL;
    if (!(functions & TOGGLES))
        i->profilerToggleCollection = NULL;
    if (!(functions & SPEAKS))
        i->profilerErrorText = NULL;
    fakes[n] =
        (fake){.name = name,
               .types = {TYPE(CONCURRENT_KERNEL), TYPE(GPU_MEMCPY), TYPE(PRIVATEUSE1_RUNTIME)}};
    return &fakes[n];
}

static fake *enter_with(int n, const char *name, unsigned functions)
{
    fake *f = make_fake(n, name, functions);
    assert_int_equal(register_interface(&interfaces[n]), 0);
    memset(f->calls, 0, sizeof f->calls); /* the query */
    memset(all_calls, 0, sizeof all_calls);
    return f;
}

static inline fake *enter(int n, const char *name) { return enter_with(n, name, 0); }

static void leave(int n) { assert_int_equal(kineto_plugin_unregister(&interfaces[n]), 0); }

static inline void forget_calls(void)
{
    memset(all_calls, 0, sizeof all_calls);
    for (int n = 0; n < FAKES; n++)
        memset(fakes[n].calls, 0, sizeof fakes[n].calls);
}

/* ---- events ---------------------------------------------------------------------------------------- */

static inline KinetoPlugin_ProfileEvent event_of(int32_t type, int64_t start, int64_t end)
{
    return (KinetoPlugin_ProfileEvent){.unpaddedStructSize = SIZE_TO(ProfileEvent, resourceId),
                                       .eventType = type,
                                       .startTimeUtcNs = start,
                                       .endTimeUtcNs = end,
                                       .deviceId = 3,
                                       .resourceId = 7};
}

static inline KinetoPlugin_Activity activity_of(int32_t type, const char *name)
{
    int64_t now = now_ns();
    return (KinetoPlugin_Activity){.unpaddedStructSize = SIZE_TO(Activity, pMetadata),
                                   .event = event_of(type, now, now + 10),
                                   .nameSize = (uint32_t)strlen(name),
                                   .pName = name};
}

/* A kernel in one call, now. */
static inline int emit_named(const builder *b, const char *name)
{
    KinetoPlugin_Activity a = activity_of(TYPE(CONCURRENT_KERNEL), name);
    return b->emit(b->pTraceBuilderHandle, &a);
}

/* The same in steps, at a time. */
static inline int add_named(const builder *b, int64_t ns, const char *name)
{
    KinetoPlugin_ProfileEvent e = event_of(TYPE(CONCURRENT_KERNEL), ns, ns + 10);
    int result = b->addEvent(b->pTraceBuilderHandle, &e);
    return result | b->setLastEventName(b->pTraceBuilderHandle, name);
}

/* For threads that race with the host. */
static inline const builder *live_of(const fake *f) { return kb_load_acquire(&f->live); }
static inline int64_t in_session(const fake *f) { return kb_load_relaxed(&f->started_ns); }

/* Count and detail of the first line of the ledger with this source and reason; -1: there is none.
 */
static inline int64_t ledger_line(const kineto_trace *trace, const char *source, const char *reason,
                                  char *detail, size_t size)
{
    for (uint32_t i = 0; i < kineto_trace_ledger_count(trace); i++) {
        kineto_ledger_line line;
        kineto_trace_ledger(trace, i, &line);
        if (!text_is(line.source, source) || !text_is(line.reason, reason))
            continue;
        if (detail)
            snprintf(detail, size, "%.*s", (int)line.detail.size, line.detail.data);
        return (int64_t)line.count;
    }
    return -1;
}

#endif
