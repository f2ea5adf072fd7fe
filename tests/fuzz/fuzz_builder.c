/* What a plug-in delivers: any calls of the builder in any order, with structs of any size,
 * numbers, texts and values that are none. It is refused or taken, and the trace of the session is
 * sound.
 *
 * A list of commands: a byte for the call, then its operands; every byte that is missing is 0. What
 * a pointer stands for is there, as in C it must be. */
#include "export/export.h"
#include "read.h"
#include "../helpers/sessions.h"

#include <ckineto/host.h>
#include <ckineto/record.h>
#include <ckineto/session.h>

#include <string.h>

#define MOST_COMMANDS 64
#define MOST_TEXT     24u
#define MOST_VALUES   4u

typedef KinetoPlugin_TraceBuilder builder;
typedef struct input {
    const uint8_t *at, *end;
} input;

static input commands;
static const int32_t types[] = {KINETO_PLUGIN_PROFILE_EVENT_TYPE_CONCURRENT_KERNEL,
                                KINETO_PLUGIN_PROFILE_EVENT_TYPE_GPU_MEMCPY,
                                KINETO_PLUGIN_PROFILE_EVENT_TYPE_GPU_PM_COUNTER,
                                KINETO_PLUGIN_PROFILE_EVENT_TYPE_PRIVATEUSE1_RUNTIME};

/* ---- operands -------------------------------------------------------------------------------- */

static uint8_t take_byte(input *in) { return in->at < in->end ? *in->at++ : 0; }

/* Small ones, those at ends, and any. */
static uint64_t take_number(input *in)
{
    static const uint64_t ends[] = {0,          INT32_MAX, UINT32_MAX,        INT64_MAX,
                                    UINT64_MAX, 1u << 31,  UINT64_C(1) << 63, 1000000000};
    uint8_t first = take_byte(in);
    uint64_t any = 0;
    if (first < 128)
        return first;
    if (first < 192)
        return ends[first % KB_COUNT(ends)] + first / 64 - 2;
    for (int i = 0; i < 8; i++)
        any = any << 8 | take_byte(in);
    return any;
}

/* Mostly right, else any. */
static size_t take_size(input *in, size_t right)
{
    uint8_t first = take_byte(in);
    return first < 200 ? right : first < 228 ? right + first - 214 : (size_t)take_number(in);
}

static const int64_t *take_times(input *in, int64_t times[MOST_VALUES])
{
    for (size_t i = 0; i < MOST_VALUES; i++)
        times[i] = (int64_t)take_number(in);
    return times;
}

typedef struct text {
    char bytes[MOST_TEXT + 1];
} text;

static const char *take_text(input *in, text *t)
{
    uint8_t size = take_byte(in);
    if (size == 255)
        return NULL;
    for (unsigned i = 0; i < size % (MOST_TEXT + 1); i++)
        t->bytes[i] = (char)take_byte(in);
    t->bytes[size % (MOST_TEXT + 1)] = 0;
    return t->bytes;
}

typedef struct values {
    KinetoPlugin_Metadata list[MOST_VALUES];
    text keys[MOST_VALUES], texts[MOST_VALUES];
    int64_t ints[MOST_VALUES];
    const char *strings[MOST_VALUES];
    uint32_t count;
} values;

static void take_value(input *in, values *v, uint32_t i)
{
    KinetoPlugin_Metadata *m = &v->list[i];
    m->pKey = take_text(in, &v->keys[i]);
    m->valueType = (int32_t)(take_byte(in) % 11) - 1;
    m->count = 0;
    m->u = take_number(in);
    if (m->valueType < KINETO_PLUGIN_VALUE_STRING || m->valueType > KINETO_PLUGIN_VALUE_JSON)
        return;
    const char *string = take_text(in, &v->texts[i]);
    bool is_text =
        m->valueType == KINETO_PLUGIN_VALUE_STRING || m->valueType == KINETO_PLUGIN_VALUE_JSON;
    m->count =
        is_text ? (string ? (uint32_t)strlen(string) : 0) : take_byte(in) % (MOST_VALUES + 1);
    m->pointer = is_text                                    ? string
                 : m->valueType == KINETO_PLUGIN_VALUE_INTS ? (const void *)v->ints
                                                            : v->strings;
}

static void take_values(input *in, values *v)
{
    memset(v, 0, sizeof *v);
    v->count = take_byte(in) % (MOST_VALUES + 1);
    for (uint32_t i = 0; i < MOST_VALUES; i++)
        v->strings[i] = i ? v->texts[i].bytes : NULL;
    for (uint32_t i = 0; i < v->count; i++)
        take_value(in, v, i);
}

static KinetoPlugin_ProfileEvent take_event(input *in)
{
    KinetoPlugin_ProfileEvent e = {
        .unpaddedStructSize =
            take_size(in, KINETO_PLUGIN_SIZE(KinetoPlugin_ProfileEvent, resourceId))};
    uint8_t type = take_byte(in);
    e.eventType = type < 200 ? types[type % KB_COUNT(types)] : (int32_t)take_number(in);
    e.startTimeUtcNs = (int64_t)take_number(in);
    e.endTimeUtcNs = (int64_t)take_number(in);
    e.eventId = (int64_t)take_number(in);
    e.deviceId = (int32_t)take_number(in);
    e.resourceId = (int32_t)take_number(in);
    return e;
}

/* ---- calls ----------------------------------------------------------------------------------- */

static void add_in_steps(const builder *b, input *in)
{
    KinetoPlugin_ProfileEvent e = take_event(in);
    (void)b->addEvent(b->pTraceBuilderHandle, take_byte(in) == 255 ? NULL : &e);
}

static void name_last(const builder *b, input *in)
{
    text t;
    (void)b->setLastEventName(b->pTraceBuilderHandle, take_text(in, &t));
}

static void flow_last(const builder *b, input *in)
{
    KinetoPlugin_ProfileEventFlow f = {
        take_size(in, KINETO_PLUGIN_SIZE(KinetoPlugin_ProfileEventFlow, isStartPoint)),
        (int32_t)take_number(in), (uint32_t)take_number(in), take_byte(in) & 1};
    (void)b->setLastEventFlow(b->pTraceBuilderHandle, &f);
}

static void describe_last(const builder *b, input *in)
{
    text key, value;
    values v;
    const char *k = take_text(in, &key);
    (void)b->addLastEventMetadata(b->pTraceBuilderHandle, k, take_text(in, &value));
    take_values(in, &v);
    (void)b->addLastEventValues(b->pTraceBuilderHandle, v.list, v.count);
    uint64_t correlation = take_number(in);
    (void)b->setLastEventIds(b->pTraceBuilderHandle, correlation, take_number(in));
}

static void add_places(const builder *b, input *in)
{
    text name, label;
    values v;
    KinetoPlugin_ProfileDeviceInfo d = {
        take_size(in, KINETO_PLUGIN_SIZE(KinetoPlugin_ProfileDeviceInfo, pLabel)),
        (int64_t)take_number(in), (int64_t)take_number(in), take_text(in, &name),
        take_text(in, &label)};
    (void)b->addDeviceInfo(b->pTraceBuilderHandle, &d);
    KinetoPlugin_ProfileResourceInfo r = {
        .unpaddedStructSize =
            take_size(in, KINETO_PLUGIN_SIZE(KinetoPlugin_ProfileResourceInfo, pName)),
        .deviceId = (int32_t)take_number(in),
        .resourceId = (int32_t)take_number(in),
        .displayOrder = (int32_t)take_number(in),
        .pName = take_text(in, &name)};
    (void)b->addResourceInfo(b->pTraceBuilderHandle, &r);
    take_values(in, &v);
    (void)b->addDeviceProperties(b->pTraceBuilderHandle, d.deviceId, v.list, v.count);
}

static void emit(const builder *b, input *in)
{
    text name;
    values v;
    KinetoPlugin_Activity a = {
        .unpaddedStructSize = take_size(in, KINETO_PLUGIN_SIZE(KinetoPlugin_Activity, metadataSet)),
        .event = take_event(in),
        .clock = (int32_t)take_number(in),
        .pName = take_text(in, &name)};
    a.nameSize = a.pName ? (uint32_t)strlen(a.pName) : 0;
    a.externalId = take_number(in);
    a.flowType = (int32_t)take_number(in);
    a.flowId = (uint32_t)take_number(in);
    a.flowIsStart = (uint32_t)take_number(in);
    take_values(in, &v);
    a.metadataCount = v.count;
    a.pMetadata = v.list;
    a.metadataSet = (uint32_t)take_number(in);
    (void)b->emit(b->pTraceBuilderHandle, &a);
}

static void sample_clock(const builder *b, input *in)
{
    text name;
    int32_t clock = (int32_t)take_number(in);
    (void)b->registerClock(b->pTraceBuilderHandle, take_text(in, &name), &clock);
    int64_t device = (int64_t)take_number(in);
    uint64_t before = take_number(in), now = b->hostTicks(b->pTraceBuilderHandle);
    if (take_byte(in) & 1)
        before = now - before;
    (void)b->addClockSample(b->pTraceBuilderHandle, clock, device, before,
                            take_byte(in) & 1 ? now : take_number(in));
}

static void count_up(const builder *b, input *in)
{
    text word, more;
    KinetoPlugin_Counts c = {take_size(in, KINETO_PLUGIN_SIZE(KinetoPlugin_Counts, dropped)),
                             take_number(in), take_number(in)};
    (void)b->addCounts(b->pTraceBuilderHandle, &c);
    const char *reason = take_text(in, &word);
    uint64_t count = take_number(in);
    int32_t loss = (int32_t)take_number(in);
    (void)b->addLedgerLine(b->pTraceBuilderHandle, reason, count, loss, take_text(in, &more));
    const char *key = take_text(in, &word);
    (void)b->addHeaderMetadata(b->pTraceBuilderHandle, key, take_text(in, &more));
}

static void sample_counters(const builder *b, input *in)
{
    text name, series[2], unit;
    int64_t times[MOST_VALUES], data[2 * MOST_VALUES];
    int32_t set = (int32_t)take_number(in);
    const char *const names[] = {take_text(in, &series[0]), take_text(in, &series[1])};
    const char *const units[] = {take_text(in, &unit), NULL};
    KinetoPlugin_CounterSet c = {take_size(in, KINETO_PLUGIN_SIZE(KinetoPlugin_CounterSet, pUnits)),
                                 take_text(in, &name),
                                 types[take_byte(in) % KB_COUNT(types)],
                                 (int32_t)take_number(in),
                                 (int32_t)(take_byte(in) % 6),
                                 take_byte(in) % 3u,
                                 names,
                                 take_byte(in) & 1 ? units : NULL};
    (void)b->registerCounters(b->pTraceBuilderHandle, &c, &set);
    (void)take_times(in, data);
    (void)take_times(in, data + MOST_VALUES);
    KinetoPlugin_CounterSamples s = {
        take_size(in, KINETO_PLUGIN_SIZE(KinetoPlugin_CounterSamples, pValues)),
        set,
        (int32_t)take_number(in),
        take_byte(in) % (MOST_VALUES + 1),
        take_times(in, times),
        data};
    (void)b->addCounterSamples(b->pTraceBuilderHandle, &s);
}

static void register_set(const builder *b, input *in)
{
    values v;
    uint32_t set = 0;
    take_values(in, &v);
    (void)b->registerMetadataSet(b->pTraceBuilderHandle, v.list, v.count, &set);
}

static void deliver(const builder *b)
{
    static void (*const calls[])(const builder *, input *) = {
        add_in_steps, name_last,    flow_last, describe_last,   add_places,
        emit,         sample_clock, count_up,  sample_counters, register_set};
    for (int i = 0; i < MOST_COMMANDS && commands.at < commands.end; i++)
        calls[take_byte(&commands) % KB_COUNT(calls)](b, &commands);
}

/* ---- the plug-in ----------------------------------------------------------------------------- */

static int query(KinetoPlugin_ProfilerQuery_Params *p)
{
    memcpy(p->pProfilerName, "fuzz", KB_MIN((size_t)5, p->profilerNameMaxLen));
    for (size_t i = 0; i < KB_COUNT(types) && i < p->supportedActivityTypesMaxLen; i++)
        p->pSupportedActivityTypes[i] = types[i];
    return 0;
}

static int create(KinetoPlugin_ProfilerCreate_Params *p)
{
    p->pProfilerHandle = (void *)&commands;
    return 0;
}

static int start(KinetoPlugin_ProfilerStart_Params *p)
{
    deliver(p->pLiveBuilder);
    return 0;
}

static int stop(KinetoPlugin_ProfilerStop_Params *p)
{
    (void)p;
    return 0;
}

static int destroy(KinetoPlugin_ProfilerDestroy_Params *p)
{
    (void)p;
    return 0;
}

static int process(KinetoPlugin_ProfilerProcessEvents_Params *p)
{
    deliver(p->pTraceBuilder); /* what `start` left */
    return 0;
}

static void join_host(void)
{
    static const KinetoPlugin_ProfilerInterface mine = {
        .unpaddedStructSize =
            KINETO_PLUGIN_SIZE(KinetoPlugin_ProfilerInterface, profilerProcessEvents),
        .profilerCreate = create,
        .profilerDestroy = destroy,
        .profilerQuery = query,
        .profilerStart = start,
        .profilerStop = stop,
        .profilerProcessEvents = process};
    const KinetoPlugin_Registry *r = kineto_plugin_registry();
    (void)kb_log_configure(KINETO_LOG_ERROR, NULL, NULL); /* what is wrong is warned of */
    fuzz_check(r->registerProfiler(r->pRegistryHandle, &mine) == 0, "the plug-in was refused");
}

static void look_at(const kineto_trace *t)
{
    kb_sink *sink;
    char *data;
    size_t bytes;
    fuzz_visit(t);
    fuzz_check(kb_sink_open_memory(KB_COMPRESS_NONE, &sink, NULL) == KINETO_OK, "no memory");
    fuzz_check(ke_chrome_write(t, sink, "trace", NULL, NULL) == KINETO_OK, "it cannot be written");
    fuzz_check(kb_sink_take(sink, &data, &bytes, NULL) == KINETO_OK, "no memory");
    (void)kb_sink_close(sink, NULL);
    fuzz_check(kb_json_valid((kineto_string){data, bytes}), "the output is not JSON");
    free(data);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static bool has_joined;
    kineto_session_options options;
    kineto_session *session = NULL;
    kineto_trace *trace = NULL;
    kineto_error err = {.message = ""};
    if (!has_joined)
        join_host();
    has_joined = true;
    commands = (input){data, data + size};
    kineto_session_options_init(&options);
    options.kinds = KINETO_KINDS_ALL;
    options.buffer_bytes = 1u << 20;
    fuzz_check(begin_session(&options, &session, &err) == KINETO_OK, err.message);
    fuzz_check(end_session(session, &trace, &err) == KINETO_OK, err.message);
    look_at(trace);
    kineto_trace_release(trace);
    return 0;
}
