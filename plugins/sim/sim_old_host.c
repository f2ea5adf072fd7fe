/* Stands in for the live builder that hosts of the interface's first revisions do not have: keeps
 * what the plug-in delivers, and when such a host asks, hands it over in the steps that it knows,
 * with times in UTC and values as JSON text. A plug-in that shall load into those can take it as it
 * is. */
#include "sim_plugin.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

#define SIZE       KINETO_PLUGIN_SIZE
#define MAX_KEPT   16384u
#define MAX_ROWS   64u
#define MAX_SETS   8
#define MAX_VALUES 4u

typedef KinetoPlugin_TraceBuilderHandle handle;
typedef const KinetoPlugin_TraceBuilder builder;

typedef struct value {
    char key[40], json[40];
} value;
typedef struct kept {
    KinetoPlugin_Activity activity;
    char name[64];
    value values[MAX_VALUES];
} kept;
/* One clock at two moments, the first and the last that are known. */
typedef struct line {
    int64_t time[2], utc[2];
    bool known;
} line;

static struct KinetoPlugin_TraceBuilderHandle {
    bool begun;
    uint32_t kept_count, row_count;
    int32_t set_count;
    line device, raw, monotonic;
    KinetoPlugin_ProfileDeviceInfo info;
    KinetoPlugin_ProfileResourceInfo rows[MAX_ROWS]; /* names are the plug-in's own constants */
    KinetoPlugin_CounterSet sets[MAX_SETS];          /* as are these */
    kept kept[MAX_KEPT];
} k;

/* ---- clocks ------------------------------------------------------------------------------------ */

static int64_t now_ns(clockid_t clock)
{
    struct timespec t;
    clock_gettime(clock, &t);
    return t.tv_sec * INT64_C(1000000000) + t.tv_nsec;
}

static void line_add(line *l, int64_t time, int64_t utc)
{
    if (!l->known) {
        l->time[0] = time;
        l->utc[0] = utc;
    }
    l->time[1] = time;
    l->utc[1] = utc;
    l->known = true;
}

static int64_t line_utc(const line *l, int64_t time)
{
    double elapsed = (double)(l->time[1] - l->time[0]);
    double rate = elapsed > 1e6 ? (double)(l->utc[1] - l->utc[0]) / elapsed : 1;
    return l->utc[0] + (int64_t)((double)(time - l->time[0]) * rate);
}

static int64_t to_utc(int64_t time, int32_t clock)
{
    switch (clock) {
    case KINETO_PLUGIN_CLOCK_UTC:
        return time;
    case KINETO_PLUGIN_CLOCK_MONOTONIC:
        return line_utc(&k.monotonic, time);
    case KINETO_PLUGIN_CLOCK_MONOTONIC_RAW:
        return line_utc(&k.raw, time);
    default:
        return line_utc(&k.device, time);
    }
}

/* This host's recording clock is UTC. */
static uint64_t host_ticks(handle *h)
{
    (void)h;
    return (uint64_t)now_ns(CLOCK_REALTIME);
}

static int register_clock(handle *h, const char *name, int32_t *clock)
{
    (void)h, (void)name;
    *clock = KINETO_PLUGIN_CLOCK_DEVICE;
    return 0;
}

static int add_clock_sample(handle *h, int32_t clock, int64_t time, uint64_t before, uint64_t after)
{
    (void)h, (void)clock;
    line_add(&k.device, time, (int64_t)(before + (after - before) / 2));
    line_add(&k.raw, now_ns(CLOCK_MONOTONIC_RAW), now_ns(CLOCK_REALTIME));
    line_add(&k.monotonic, now_ns(CLOCK_MONOTONIC), now_ns(CLOCK_REALTIME));
    return 0;
}

/* ---- keeping ----------------------------------------------------------------------------------- */

static void keep_value(value *v, const KinetoPlugin_Metadata *m)
{
    snprintf(v->key, sizeof v->key, "%s", m->pKey);
    if (m->valueType == KINETO_PLUGIN_VALUE_JSON || m->valueType == KINETO_PLUGIN_VALUE_STRING)
        snprintf(v->json, sizeof v->json, "%.*s", (int)m->count, (const char *)m->pointer);
    else if (m->valueType == KINETO_PLUGIN_VALUE_INT)
        snprintf(v->json, sizeof v->json, "%lld", (long long)m->i);
    else
        snprintf(v->json, sizeof v->json, "%llu", (unsigned long long)m->u);
}

static int emit(handle *h, const KinetoPlugin_Activity *a)
{
    (void)h;
    if (k.kept_count == MAX_KEPT)
        return -1; /* these hosts have no ledger to say so */
    kept *e = &k.kept[k.kept_count++];
    e->activity = *a;
    snprintf(e->name, sizeof e->name, "%.*s", (int)a->nameSize, a->pName);
    e->activity.metadataCount = 0;
    for (uint32_t i = 0; i < a->metadataCount && i < MAX_VALUES - 1; i++)
        keep_value(&e->values[e->activity.metadataCount++], &a->pMetadata[i]);
    KinetoPlugin_Metadata id = {.pKey = "External id", .u = a->externalId};
    if (a->externalId)
        keep_value(&e->values[e->activity.metadataCount++], &id);
    return 0;
}

static int register_counters(handle *h, const KinetoPlugin_CounterSet *set, int32_t *number)
{
    (void)h;
    if (k.set_count == MAX_SETS || set->seriesCount >= MAX_VALUES ||
        set->valueType == KINETO_PLUGIN_VALUE_DOUBLE)
        return -1;
    *number = k.set_count;
    k.sets[k.set_count++] = *set;
    return 0;
}

/* A sample is an event of the counters' kind, the series its metadata. */
static int add_counter_samples(handle *h, const KinetoPlugin_CounterSamples *samples)
{
    const KinetoPlugin_CounterSet *set = &k.sets[samples->set];
    KinetoPlugin_Metadata values[MAX_VALUES];
    char keys[MAX_VALUES][40];
    int result = samples->set >= k.set_count;
    for (size_t i = 0; !result && i < samples->count; i++) {
        for (uint32_t n = 0; n < set->seriesCount; n++) {
            const char *unit = set->pUnits && set->pUnits[n] ? set->pUnits[n] : "";
            snprintf(keys[n], sizeof keys[n], *unit ? "%s [%s]" : "%s", set->pSeriesNames[n], unit);
            values[n] = (KinetoPlugin_Metadata){
                .pKey = keys[n],
                .valueType = set->valueType,
                .u = ((const uint64_t *)samples->pValues)[i * set->seriesCount + n]};
        }
        KinetoPlugin_Activity a = {
            .event = {.unpaddedStructSize = SIZE(KinetoPlugin_ProfileEvent, resourceId),
                      .eventType = set->eventType,
                      .startTimeUtcNs = samples->pTimes[i],
                      .endTimeUtcNs = samples->pTimes[i],
                      .deviceId = set->deviceId},
            .clock = samples->clock,
            .nameSize = (uint32_t)strlen(set->pName),
            .pName = set->pName,
            .metadataCount = set->seriesCount,
            .pMetadata = values};
        result = emit(h, &a);
    }
    return result;
}

static int add_device_info(handle *h, const KinetoPlugin_ProfileDeviceInfo *info)
{
    (void)h;
    k.info = *info;
    return 0;
}

static int add_resource_info(handle *h, const KinetoPlugin_ProfileResourceInfo *info)
{
    (void)h;
    if (k.row_count == MAX_ROWS)
        return -1;
    k.rows[k.row_count++] = *info;
    return 0;
}

/* Nothing of an old host's could hold these. */
static int add_device_properties(handle *h, int64_t device, const KinetoPlugin_Metadata *list,
                                 size_t count)
{
    (void)h, (void)device, (void)list, (void)count;
    return 0;
}

static int add_counts(handle *h, const KinetoPlugin_Counts *counts)
{
    (void)h, (void)counts;
    return 0;
}

builder *sim_old_host_begin(void)
{
    static builder table = {.unpaddedStructSize =
                                SIZE(KinetoPlugin_TraceBuilder, addCounterSamples),
                            .pTraceBuilderHandle = &k,
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
    k.kept_count = k.row_count = 0;
    k.set_count = 0;
    k.device.known = k.raw.known = k.monotonic.known = false;
    k.begun = true;
    return &table;
}

/* ---- handing over ------------------------------------------------------------------------------ */

static void hand_over(builder *host, kept *e)
{
    handle *h = host->pTraceBuilderHandle;
    KinetoPlugin_Activity *a = &e->activity;
    KinetoPlugin_ProfileEventFlow flow = {SIZE(KinetoPlugin_ProfileEventFlow, isStartPoint),
                                          a->flowType, a->flowId, a->flowIsStart != 0};
    a->event.startTimeUtcNs = to_utc(a->event.startTimeUtcNs, a->clock);
    a->event.endTimeUtcNs = to_utc(a->event.endTimeUtcNs, a->clock);
    if (host->addEvent(h, &a->event) != 0)
        return;
    host->setLastEventName(h, e->name);
    if (flow.flowType)
        host->setLastEventFlow(h, &flow);
    for (uint32_t i = 0; i < a->metadataCount; i++)
        host->addLastEventMetadata(h, e->values[i].key, e->values[i].json);
}

void sim_old_host_end(builder *host)
{
    if (!k.begun)
        return;
    k.begun = false;
    host->addDeviceInfo(host->pTraceBuilderHandle, &k.info);
    for (uint32_t i = 0; i < k.row_count; i++)
        host->addResourceInfo(host->pTraceBuilderHandle, &k.rows[i]);
    for (uint32_t i = 0; i < k.kept_count; i++)
        hand_over(host, &k.kept[i]);
    k.kept_count = 0;
}
