/* How the device of device.h delivers: in steps through processEvents, or at once. */
#include "device.h"

#include <math.h>
#include <unistd.h>

typedef const KinetoPlugin_TraceBuilder builder;

int64_t now_ns(clockid_t clock)
{
    struct timespec t;
    clock_gettime(clock, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

void announce_rows(builder *b)
{
    KinetoPlugin_ProfileDeviceInfo device = {SIZE(ProfileDeviceInfo, pLabel), 3, 1, "device", NULL};
    KinetoPlugin_ProfileResourceInfo queue = {
        SIZE(ProfileResourceInfo, pName), {3}, {7}, 0, "queue"};
    if (IS(NO_ROWS))
        return;
    if (IS(BAD_HANDLE))
        (void)b->addDeviceInfo(NULL, &device);
    (void)b->addDeviceInfo(b->pTraceBuilderHandle, &device);
    (void)b->addResourceInfo(b->pTraceBuilderHandle, &queue);
}

/* ---- in steps ------------------------------------------------------------------------------------- */

static void *name_elsewhere(void *context)
{
    builder *b = context;
    (void)b->setLastEventName(b->pTraceBuilderHandle, "named on another thread");
    return NULL;
}

static void set_name(builder *b, const char *name)
{
    pthread_t thread;
    if (IS(NO_NAME))
        return;
    if (IS(BAD_NAME_POINTER))
        name = (const char *)0x10;
    if (IS(OTHER_THREAD) &&
        pthread_create(&thread, NULL, name_elsewhere, (void *)(uintptr_t)b) == 0)
        pthread_join(thread, NULL);
    (void)b->setLastEventName(b->pTraceBuilderHandle, name);
}

static void set_flow(builder *b, const session *s, const piece *p, bool start)
{
    KinetoPlugin_ProfileEventFlow flow = {SIZE(ProfileEventFlow, isStartPoint),
                                          KINETO_PLUGIN_PROFILE_EVENT_FLOW_TYPE_ASYNC_CPU_GPU,
                                          p->id, start};
    if (IS(FLOW_WITHOUT_END) && !start)
        return;
    if (s->calls && s->kernels)
        (void)b->setLastEventFlow(b->pTraceBuilderHandle, &flow);
}

static void set_metadata(builder *b)
{
    KinetoPlugin_TraceBuilderHandle *h = b->pTraceBuilderHandle;
    (void)b->addLastEventMetadata(h, "grid", "[1, 2, 3]");
    (void)b->addLastEventMetadata(h, IS(META_KEY_TWICE) ? "grid" : "state",
                                  IS(META_NO_JSON) ? "running" : "\"running\"");
}

static int add_event(builder *b, KinetoPlugin_ProfileEvent *e)
{
    int64_t offset = now_ns(CLOCK_REALTIME) - now_ns(CLOCK_MONOTONIC);
    e->unpaddedStructSize = IS(NO_SIZE) ? 0 : SIZE(ProfileEvent, resourceId);
    if (IS(WRONG_CLOCK)) {
        e->startTimeUtcNs -= offset;
        e->endTimeUtcNs -= offset;
    }
    if (IS(ENDS_BEFORE))
        e->endTimeUtcNs = e->startTimeUtcNs - 1;
    return b->addEvent(b->pTraceBuilderHandle, e);
}

static int deliver_kernel(builder *b, const session *s, const piece *p)
{
    KinetoPlugin_ProfileEvent e = {.eventType = KERNEL,
                                   .startTimeUtcNs = p->start_ns,
                                   .endTimeUtcNs = p->end_ns,
                                   .eventId = p->id,
                                   .deviceId = 3,
                                   .resourceId = 7};
    uint64_t operator_id = IS(STRANGE_ID) ? 4242 : p->operator_id;
    int result = add_event(b, &e);
    set_name(b, "kernel");
    set_flow(b, s, p, false);
    set_metadata(b);
    if (HAS(b, TraceBuilder, setLastEventIds))
        (void)b->setLastEventIds(b->pTraceBuilderHandle, p->id, operator_id);
    return result;
}

static int deliver_call(builder *b, const session *s, const piece *p)
{
    KinetoPlugin_ProfileEvent e = {.eventType = CALL,
                                   .startTimeUtcNs = p->call_ns,
                                   .endTimeUtcNs = p->start_ns,
                                   .eventId = p->id,
                                   .processId = getpid(),
                                   .threadId = 1};
    int result = add_event(b, &e);
    set_name(b, "launch");
    set_flow(b, s, p, true);
    return result;
}

int deliver_in_steps(session *s, builder *b)
{
    uint32_t first = IS(DELIVERS_TWICE) ? 0 : s->delivered;
    uint32_t last = IS(LONG_LOSES) && s->count > 300 ? 300 : s->count;
    uint64_t events = s->calls + s->kernels;
    KinetoPlugin_Counts counts = {SIZE(Counts, dropped), (s->count - s->delivered) * events, 0};
    int result = IS(EMPTY_FAILS) && !s->count;
    announce_rows(b);
    for (uint32_t i = first; i < last; i++) {
        if (s->calls)
            result |= deliver_call(b, s, &s->pieces[i]);
        if (s->kernels || IS(DISABLED_KIND))
            result |= deliver_kernel(b, s, &s->pieces[i]);
    }
    counts.requested += IS(MISCOUNTS) && s->count;
    if (HAS(b, TraceBuilder, addCounts) && !IS(LONG_LOSES) && !IS(DISABLED_KIND) &&
        !IS(DELIVERS_TWICE))
        (void)b->addCounts(b->pTraceBuilderHandle, &counts);
    s->delivered = s->count;
    return IS(DISABLED_KIND) || IS(NO_SIZE) ? 0 : result;
}

/* ---- at once -------------------------------------------------------------------------------------- */

/* The device's clock counts half nanoseconds from somewhere. */
static int64_t device_time(int64_t utc_ns) { return (utc_ns - 1000000000) * 2; }

static void sample_clock(session *s)
{
    static int64_t last;
    KinetoPlugin_TraceBuilderHandle *h = s->live->pTraceBuilderHandle;
    uint64_t before = s->live->hostTicks(h);
    int64_t time = device_time(now_ns(CLOCK_REALTIME));
    if (IS(CLOCK_GOES_BACK))
        time = last ? last - 1000 : time;
    last = time;
    (void)s->live->addClockSample(h, s->clock, time, before, s->live->hostTicks(h));
}

void announce_live(session *s)
{
    static const char *const series[] = {"power", "load"};
    KinetoPlugin_CounterSet set = {SIZE(CounterSet, pUnits),   "sensors", COUNTER, 3,
                                   KINETO_PLUGIN_VALUE_DOUBLE, 2,         series,  NULL};
    KinetoPlugin_TraceBuilderHandle *h = s->live->pTraceBuilderHandle;
    announce_rows(s->live);
    (void)s->live->registerClock(h, "clock of the device", &s->clock);
    if (s->counters)
        (void)s->live->registerCounters(h, &set, &s->set);
    sample_clock(s);
}

static void sample_counters(session *s, int64_t time)
{
    double values[] = {17.5, IS(COUNTER_NAN) ? NAN : 0.25};
    KinetoPlugin_CounterSamples samples = {
        SIZE(CounterSamples, pValues), s->set, s->clock, 1, &time, values};
    (void)s->live->addCounterSamples(s->live->pTraceBuilderHandle, &samples);
}

static void emit_kernel(session *s, const piece *p)
{
    static const int64_t grid[] = {1, 2, 3};
    const KinetoPlugin_Metadata values[] = {
        {.pKey = "grid", .valueType = KINETO_PLUGIN_VALUE_INTS, .count = 3, {.pointer = grid}},
        {.pKey = "warps", .valueType = KINETO_PLUGIN_VALUE_UINT, .count = 0, {.u = 8}}};
    uint32_t set = 0; /* asked for each time: the same values, the same number */
    if (HAS(s->live, TraceBuilder, registerMetadataSet))
        (void)s->live->registerMetadataSet(s->live->pTraceBuilderHandle, &values[1], 1, &set);
    KinetoPlugin_Activity a = {.unpaddedStructSize = SIZE(Activity, metadataSet),
                               .event = {.unpaddedStructSize = SIZE(ProfileEvent, resourceId),
                                         .eventType = KERNEL,
                                         .startTimeUtcNs = device_time(p->start_ns),
                                         .endTimeUtcNs = device_time(p->end_ns),
                                         .eventId = p->id,
                                         .deviceId = 3,
                                         .resourceId = 7},
                               .clock = s->clock,
                               .nameSize = 6,
                               .pName = "kernel",
                               .externalId = p->operator_id,
                               .metadataCount = set && !IS(SET_REPEATED) ? 1 : 2,
                               .pMetadata = values,
                               .metadataSet = IS(SET_UNKNOWN) ? 999 : set};
    if (HAS(s->live, TraceBuilder, addLedgerLine))
        (void)s->live->addLedgerLine(s->live->pTraceBuilderHandle, "kernels", 1, 0, NULL);
    (void)s->live->emit(s->live->pTraceBuilderHandle, &a);
}

void deliver_live(session *s, const piece *p)
{
    KinetoPlugin_Counts counts = {SIZE(Counts, dropped), s->kernels, 0};
    if (s->kernels)
        emit_kernel(s, p);
    if (s->counters)
        sample_counters(s, device_time(p->end_ns));
    (void)s->live->addCounts(s->live->pTraceBuilderHandle, &counts);
    sample_clock(s);
}
