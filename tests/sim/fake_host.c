/* The scripted host. What it gives a plug-in has exactly the size of the revision that it plays, so
 * that a sanitizer sees who looks further. */
#include "fake_host.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define SIZE KINETO_PLUGIN_SIZE

typedef KinetoPlugin_TraceBuilderHandle handle;

fake_seen seen;

static fake_revision revision;
static const KinetoPlugin_ProfilerInterface *profiler;
static KinetoPlugin_ProfilerHandle *session;
static KinetoPlugin_TraceBuilder *builder;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static bool open;
static KinetoPlugin_CounterSet sets[8];
static size_t set_count;

static int64_t now_ns(clockid_t clock)
{
    struct timespec t;
    clock_gettime(clock, &t);
    return t.tv_sec * INT64_C(1000000000) + t.tv_nsec;
}

/* Zeroed, on the heap, and no byte longer than it says. */
static void *exactly(size_t bytes)
{
    volatile size_t hidden = bytes; /* compilers warn of structs that are cut short */
    size_t *p = calloc(1, hidden);
    if (!p)
        abort();
    *p = bytes;
    return p;
}

/* ---- the builder ----------------------------------------------------------------------------------- */

static fake_event *event_add(const KinetoPlugin_ProfileEvent *e)
{
    if (!open) {
        seen.late_count++;
        return NULL;
    }
    if (seen.event_count == FAKE_MAX_EVENTS)
        abort();
    fake_event *to = &seen.events[seen.event_count++];
    *to = (fake_event){.event = *e};
    return to;
}

static int emit(handle *h, const KinetoPlugin_Activity *a)
{
    (void)h;
    pthread_mutex_lock(&lock);
    fake_event *to = event_add(&a->event);
    if (to) {
        to->emitted = true;
        to->clock = a->clock;
        to->flow_type = a->flowType;
        to->flow_id = a->flowId;
        to->flow_start = a->flowIsStart != 0;
        to->external_id = a->externalId;
        snprintf(to->name, sizeof to->name, "%.*s", (int)a->nameSize, a->pName);
    }
    if (to && a->metadataCount) {
        const KinetoPlugin_Metadata *m = &a->pMetadata[0];
        snprintf(to->key, sizeof to->key, "%s", m->pKey);
        if (m->valueType == KINETO_PLUGIN_VALUE_UINT)
            snprintf(to->json, sizeof to->json, "%llu", (unsigned long long)m->u);
        else
            snprintf(to->json, sizeof to->json, "%.*s", (int)m->count, (const char *)m->pointer);
    }
    pthread_mutex_unlock(&lock);
    return to ? 0 : 1;
}

static int add_event(handle *h, const KinetoPlugin_ProfileEvent *e)
{
    (void)h;
    return event_add(e) ? 0 : 1;
}

static fake_event *last(void) { return &seen.events[seen.event_count - 1]; }

static int set_last_name(handle *h, const char *name)
{
    (void)h;
    snprintf(last()->name, sizeof last()->name, "%s", name);
    return 0;
}

static int set_last_flow(handle *h, const KinetoPlugin_ProfileEventFlow *flow)
{
    (void)h;
    last()->flow_type = flow->flowType;
    last()->flow_id = flow->flowId;
    last()->flow_start = flow->isStartPoint;
    return 0;
}

static int add_last_metadata(handle *h, const char *key, const char *value)
{
    (void)h;
    if (strcmp(key, "External id") == 0) {
        last()->external_id = strtoull(value, NULL, 10);
        return 0;
    }
    snprintf(last()->key, sizeof last()->key, "%s", key);
    snprintf(last()->json, sizeof last()->json, "%s", value);
    return 0;
}

static int add_device_info(handle *h, const KinetoPlugin_ProfileDeviceInfo *info)
{
    (void)h;
    seen.device_count++;
    seen.sort_index = info->sortIndex;
    snprintf(seen.device_name, sizeof seen.device_name, "%s", info->pName);
    snprintf(seen.device_label, sizeof seen.device_label, "%s", info->pLabel);
    return 0;
}

static int add_resource_info(handle *h, const KinetoPlugin_ProfileResourceInfo *info)
{
    (void)h;
    size_t n = seen.row_count++;
    if (info->resourceId != (int32_t)n || n >= COUNT_OF(seen.row_names))
        abort();
    seen.display_order[n] = info->displayOrder;
    snprintf(seen.row_names[n], sizeof seen.row_names[n], "%s", info->pName);
    return 0;
}

static int add_device_properties(handle *h, int64_t device, const KinetoPlugin_Metadata *list,
                                 size_t count)
{
    (void)h, (void)list;
    seen.property_count += device == 0 ? count : 0;
    return 0;
}

static int register_clock(handle *h, const char *name, int32_t *clock)
{
    (void)h, (void)name;
    *clock = FAKE_DEVICE_CLOCK;
    return 0;
}

static uint64_t host_ticks(handle *h)
{
    (void)h;
    return (uint64_t)now_ns(CLOCK_MONOTONIC_RAW);
}

static int add_clock_sample(handle *h, int32_t clock, int64_t time, uint64_t before, uint64_t after)
{
    (void)h;
    if (clock != FAKE_DEVICE_CLOCK || before > after)
        abort();
    if (seen.clock_sample_count < COUNT_OF(seen.clock_samples))
        seen.clock_samples[seen.clock_sample_count++] = time;
    return 0;
}

static int add_counts(handle *h, const KinetoPlugin_Counts *counts)
{
    (void)h;
    pthread_mutex_lock(&lock);
    seen.requested += counts->requested;
    seen.dropped += counts->dropped;
    pthread_mutex_unlock(&lock);
    return 0;
}

static int register_counters(handle *h, const KinetoPlugin_CounterSet *set, int32_t *number)
{
    (void)h;
    if (set_count == COUNT_OF(sets) || set->seriesCount != 1)
        abort();
    sets[set_count] = *set;
    *number = (int32_t)set_count++;
    return 0;
}

static int add_counter_samples(handle *h, const KinetoPlugin_CounterSamples *s)
{
    (void)h;
    pthread_mutex_lock(&lock);
    for (size_t i = 0; i < s->count && seen.sample_count < FAKE_MAX_EVENTS; i++) {
        fake_sample *to = &seen.samples[seen.sample_count++];
        to->time = s->pTimes[i];
        to->value = ((const uint64_t *)s->pValues)[i];
        snprintf(to->name, sizeof to->name, "%s", sets[s->set].pName);
        snprintf(to->unit, sizeof to->unit, "%s", sets[s->set].pUnits[0]);
    }
    pthread_mutex_unlock(&lock);
    return 0;
}

static KinetoPlugin_TraceBuilder *builder_new(void)
{
    static const KinetoPlugin_TraceBuilder all = {.addEvent = add_event,
                                                  .setLastEventName = set_last_name,
                                                  .setLastEventFlow = set_last_flow,
                                                  .addLastEventMetadata = add_last_metadata,
                                                  .addDeviceInfo = add_device_info,
                                                  .addResourceInfo = add_resource_info,
                                                  .emit = emit,
                                                  .addDeviceProperties = add_device_properties,
                                                  .registerClock = register_clock,
                                                  .addClockSample = add_clock_sample,
                                                  .hostTicks = host_ticks,
                                                  .addCounts = add_counts,
                                                  .registerCounters = register_counters,
                                                  .addCounterSamples = add_counter_samples};
    size_t bytes = revision == FAKE_TODAY ? SIZE(KinetoPlugin_TraceBuilder, addCounterSamples)
                                          : SIZE(KinetoPlugin_TraceBuilder, addResourceInfo);
    KinetoPlugin_TraceBuilder *b = exactly(bytes);
    memcpy((char *)b + sizeof(size_t), (const char *)&all + sizeof(size_t), bytes - sizeof(size_t));
    return b;
}

/* ---- registering ----------------------------------------------------------------------------------- */

static int register_profiler(KinetoPlugin_RegistryHandle *h,
                             const KinetoPlugin_ProfilerInterface *i)
{
    (void)h;
    profiler = i;
    return 0;
}

static int register_types(KinetoPlugin_RegistryHandle *h,
                          KinetoPlugin_RegisterActivityTypes_Params *params)
{
    (void)h;
    if (params->count != 1 || strcmp(params->pTypes[0].pName, "sim_dma") != 0)
        return 1;
    params->firstEventType = FAKE_OWN_TYPE;
    return 0;
}

const KinetoPlugin_ProfilerInterface *fake_register(fake_revision which,
                                                    KinetoPlugin_registerFn function)
{
    KinetoPlugin_Registry *r =
        exactly(which == FAKE_TODAY ? SIZE(KinetoPlugin_Registry, pHostVersion)
                                    : SIZE(KinetoPlugin_Registry, registerProfiler));
    r->registerProfiler = register_profiler;
    if (which == FAKE_TODAY) {
        r->registerActivityTypes = register_types;
        r->pHostVersion = "fake 1";
    }
    revision = which;
    profiler = NULL;
    int result = function(r);
    free(r);
    return result == 0 ? profiler : NULL;
}

/* ---- a session ------------------------------------------------------------------------------------- */

static size_t supported(int32_t *types, size_t room)
{
    char name[32] = "", vendor[32] = "";
    KinetoPlugin_ProfilerQuery_Params *p =
        exactly(SIZE(KinetoPlugin_ProfilerQuery_Params, vendorNameMaxLen));
    size_t n = 0;
    p->pProfilerName = name;
    p->profilerNameMaxLen = sizeof name - 1;
    p->pVendorName = vendor;
    p->vendorNameMaxLen = sizeof vendor - 1;
    p->pSupportedActivityTypes = types;
    p->supportedActivityTypesMaxLen = room;
    (void)profiler->profilerQuery(p);
    while (n < room && types[n])
        n++;
    free(p);
    return n;
}

int fake_create(const int32_t *kinds, size_t count, const char *custom_config)
{
    static const size_t sizes[] = {
        SIZE(KinetoPlugin_ProfilerCreate_Params, pProfilerHandle),
        SIZE(KinetoPlugin_ProfilerCreate_Params, enabledActivityTypesMaxLen),
        SIZE(KinetoPlugin_ProfilerCreate_Params, pCustomConfig)};
    int32_t types[32] = {0};
    KinetoPlugin_ProfilerCreate_Params *p = exactly(sizes[revision]);
    if (revision != FAKE_REVISION_0) {
        p->enabledActivityTypesMaxLen = kinds ? count : supported(types, COUNT_OF(types));
        p->pEnabledActivityTypes = kinds ? kinds : types;
    }
    if (revision == FAKE_TODAY)
        p->pCustomConfig = custom_config ? custom_config : "";
    int result = profiler->profilerCreate(p);
    session = p->pProfilerHandle;
    free(p);
    return result;
}

int fake_start(void)
{
    KinetoPlugin_ProfilerStart_Params *p =
        exactly(revision == FAKE_TODAY ? SIZE(KinetoPlugin_ProfilerStart_Params, pLiveBuilder)
                                       : SIZE(KinetoPlugin_ProfilerStart_Params, pProfilerHandle));
    p->pProfilerHandle = session;
    if (revision == FAKE_TODAY) {
        p->pProfilerHandleAgain = session;
        p->pLiveBuilder = builder;
    }
    seen.began_utc_ns = now_ns(CLOCK_REALTIME);
    open = revision == FAKE_TODAY;
    int result = profiler->profilerStart(p);
    free(p);
    return result;
}

int fake_stop(void)
{
    KinetoPlugin_ProfilerStop_Params p = {SIZE(KinetoPlugin_ProfilerStop_Params, pProfilerHandle),
                                          session};
    int result = profiler->profilerStop(&p);
    seen.ended_utc_ns = now_ns(CLOCK_REALTIME);
    return result;
}

int fake_process(void)
{
    KinetoPlugin_ProfilerProcessEvents_Params p = {
        SIZE(KinetoPlugin_ProfilerProcessEvents_Params, pTraceBuilder), session, builder};
    open = true;
    int result = profiler->profilerProcessEvents(&p);
    open = false;
    return result;
}

int fake_destroy(void)
{
    KinetoPlugin_ProfilerDestroy_Params p = {
        SIZE(KinetoPlugin_ProfilerDestroy_Params, pProfilerHandle), session};
    int result = profiler->profilerDestroy(&p);
    free(builder);
    builder = NULL;
    return result;
}

int fake_begin(const int32_t *kinds, size_t count, const char *custom_config)
{
    memset(&seen, 0, sizeof seen);
    set_count = 0;
    builder = builder_new();
    int result = fake_create(kinds, count, custom_config);
    return result ? result : fake_start();
}

int fake_begin_with_start_of(fake_revision old)
{
    memset(&seen, 0, sizeof seen);
    builder = builder_new();
    int result = fake_create(NULL, 0, NULL);
    revision = old;
    result = result ? result : fake_start();
    revision = FAKE_TODAY;
    return result;
}

int fake_end(void)
{
    int stopped = fake_stop(), processed = fake_process(), destroyed = fake_destroy();
    return stopped ? stopped : processed ? processed : destroyed;
}

int fake_toggle(bool on)
{
    KinetoPlugin_ProfilerToggleCollection_Params p = {
        SIZE(KinetoPlugin_ProfilerToggleCollection_Params, enable), session, on};
    return profiler->profilerToggleCollection(&p);
}

int fake_push(uint64_t id)
{
    KinetoPlugin_ProfilerPushCorrelationId_Params p = {
        SIZE(KinetoPlugin_ProfilerPushCorrelationId_Params, pProfilerHandle), id, session};
    return profiler->profilerPushCorrelationId(&p);
}

int fake_pop(void)
{
    KinetoPlugin_ProfilerPopCorrelationId_Params p = {
        SIZE(KinetoPlugin_ProfilerPopCorrelationId_Params, pProfilerHandle), session};
    return profiler->profilerPopCorrelationId(&p);
}

const char *fake_error_text(void)
{
    static char text[128];
    KinetoPlugin_ProfilerErrorText_Params p = {
        SIZE(KinetoPlugin_ProfilerErrorText_Params, textMaxLen), session, text, sizeof text - 1};
    text[0] = 0;
    (void)profiler->profilerErrorText(&p);
    return text;
}

/* ---- looking --------------------------------------------------------------------------------------- */

const fake_event *fake_find(int32_t type, size_t n)
{
    for (size_t i = 0; i < seen.event_count; i++)
        if (seen.events[i].event.eventType == type && n-- == 0)
            return &seen.events[i];
    return NULL;
}

size_t fake_count(int32_t type)
{
    size_t n = 0;
    while (fake_find(type, n))
        n++;
    return n;
}
