/* What waits for what: synchronisation, and the events that streams and threads wait for. */
#include "layouts.h"

#include "cuda.h"

#include <stdio.h>
#include <stdlib.h>

#define NONE        UINT32_MAX /* CUPTI's word for no stream, no event */
#define CONTEXTS    256u
#define STREAMS     4096u
#define ROWS        256u
#define EVENT_SETS  2048u
#define EVENT_WAYS  4u
#define EVENT_TIMES 64u /* that an event was recorded, of which we know */

/* CUpti_ActivitySynchronizationType */
enum { SYNC_UNKNOWN, SYNC_EVENT, SYNC_STREAM_WAIT, SYNC_STREAM, SYNC_CONTEXT };

typedef struct recorded {
    uint32_t correlation, stream;
    uint64_t sync_id; /* CUPTI's, of this recording alone; 0: it has none */
} recorded;

typedef struct event {
    uint32_t context, id;
    uint32_t count;             /* recordings; 0: free */
    recorded last[EVENT_TIMES]; /* the newest of them, by count */
} event;

typedef struct pair {
    uint32_t a, b;
    bool used;
} pair;

struct cp_syncs {
    pair contexts[CONTEXTS]; /* → device */
    pair streams[STREAMS];   /* (context, stream) that did something */
    uint32_t stream_count, last_context, last_device, last_stream;
    pair rows[ROWS];             /* (device, row) that have been announced */
    event (*events)[EVENT_WAYS]; /* [EVENT_SETS], made with the first event */
};

bool cp_syncs_create(cp_decoder *d)
{
    d->syncs = calloc(1, sizeof *d->syncs);
    if (d->syncs)
        d->syncs->last_stream = NONE;
    return d->syncs != NULL;
}

void cp_syncs_free(cp_decoder *d)
{
    if (d->syncs)
        free(d->syncs->events);
    free(d->syncs);
    d->syncs = NULL;
}

static uint32_t mix(uint32_t a, uint32_t b)
{
    uint64_t h = ((uint64_t)a << 32 | b) * UINT64_C(0x9e3779b97f4a7c15);
    return (uint32_t)(h >> 32);
}

/* ---- contexts and streams --------------------------------------------------------------------------- */

static void learn_context(struct cp_syncs *s, uint32_t context, uint32_t device)
{
    s->contexts[context % CONTEXTS] = (pair){context, device, true};
}

/* That of the context; work on it tells, which comes before anybody waits for it. */
static uint32_t device_of(const struct cp_syncs *s, uint32_t context)
{
    const pair *p = &s->contexts[context % CONTEXTS];
    return p->used && p->a == context ? p->b : 0;
}

static pair *stream_place(struct cp_syncs *s, uint32_t context, uint32_t stream)
{
    uint32_t i = mix(context, stream) % STREAMS;
    while (s->streams[i].used && (s->streams[i].a != context || s->streams[i].b != stream))
        i = (i + 1) % STREAMS;
    return &s->streams[i];
}

void cp_syncs_saw(cp_decoder *d, uint32_t context, uint32_t device, uint32_t stream)
{
    struct cp_syncs *s = d->syncs;
    if (s->last_context == context && s->last_device == device && s->last_stream == stream)
        return;
    s->last_context = context;
    s->last_device = device;
    s->last_stream = stream;
    learn_context(s, context, device);
    pair *p = stream_place(s, context, stream);
    if (p->used || s->stream_count >= STREAMS / 4 * 3)
        return;
    *p = (pair){context, stream, true};
    s->stream_count++;
}

void cp_read_context(cp_decoder *d, const uint8_t *record)
{
    learn_context(d->syncs, cp_context_context(d->version, record),
                  cp_context_device(d->version, record));
}

/* With more streams than can be kept, each is taken for one that did something. */
bool cp_sync_is_quiet(cp_decoder *d, const uint8_t *record)
{
    struct cp_syncs *s = d->syncs;
    return cp_sync_type(d->version, record) == SYNC_STREAM_WAIT && d->show_waits &&
           s->stream_count < STREAMS / 4 * 3 &&
           !stream_place(s, cp_sync_context(d->version, record), cp_sync_stream(d->version, record))
                ->used;
}

/* ---- recorded events ------------------------------------------------------------------------------------- */

static event *event_find(const struct cp_syncs *s, uint32_t context, uint32_t id)
{
    event *set = s->events ? s->events[mix(context, id) % EVENT_SETS] : NULL;
    for (uint32_t i = 0; set && i < EVENT_WAYS; i++)
        if (set[i].count && set[i].context == context && set[i].id == id)
            return &set[i];
    return NULL;
}

static uint32_t newest(const event *e) { return e->last[(e->count - 1) % EVENT_TIMES].correlation; }

/* A place for an event: a free one, or that of the one not recorded for the longest time. */
static event *event_make(struct cp_syncs *s, uint32_t context, uint32_t id)
{
    event *set, *victim;
    if (!s->events)
        s->events = calloc(EVENT_SETS, sizeof *s->events);
    if (!s->events)
        return NULL;
    set = victim = s->events[mix(context, id) % EVENT_SETS];
    for (uint32_t i = 0; i < EVENT_WAYS && victim->count; i++)
        if (!set[i].count || newest(&set[i]) < newest(victim))
            victim = &set[i];
    *victim = (event){.context = context, .id = id};
    return victim;
}

static void remember(cp_decoder *d, const uint8_t *record)
{
    uint32_t version = d->version, context = cp_event_context(version, record),
             id = cp_event_event(version, record);
    event *e = event_find(d->syncs, context, id);
    if (!e)
        e = event_make(d->syncs, context, id);
    if (!e)
        return;
    uint64_t sync_id = cp_event_event_sync(version, record);
    e->last[e->count % EVENT_TIMES] =
        (recorded){cp_event_correlation(version, record), cp_event_stream(version, record),
                   sync_id == NONE ? 0 : sync_id};
    if (++e->count == UINT32_MAX / EVENT_TIMES * EVENT_TIMES)
        e->count = EVENT_TIMES; /* all places are still filled */
}

/* The recording that is waited for: the one CUPTI names, else the last before the wait. */
static const recorded *waited_for(const cp_decoder *d, const uint8_t *record)
{
    uint32_t version = d->version, correlation = cp_sync_correlation(version, record);
    uint64_t sync_id = cp_sync_event_sync(version, record);
    const event *e =
        event_find(d->syncs, cp_sync_context(version, record), cp_sync_event(version, record));
    const recorded *best = NULL;
    uint32_t known = !e ? 0 : e->count < EVENT_TIMES ? e->count : EVENT_TIMES;
    for (uint32_t i = 0; i < known; i++) {
        const recorded *r = &e->last[i];
        if (sync_id && sync_id != NONE && r->sync_id == sync_id)
            return r;
        if (r->correlation <= correlation && (!best || r->correlation >= best->correlation))
            best = r;
    }
    return best;
}

/* ---- rows -------------------------------------------------------------------------------------------------- */

#define SYNC_ROW 1000000u /* rows beside those of streams, as in Kineto */

static void announce(cp_decoder *d, uint32_t device, uint32_t row, uint32_t stream)
{
    char name[48];
    pair *p = &d->syncs->rows[mix(device, row) % ROWS];
    if (p->used && p->a == device && p->b == row)
        return;
    *p = (pair){device, row, true};
    if (stream == NONE)
        snprintf(name, sizeof name, "Device %u", device);
    else
        snprintf(name, sizeof name, "stream %u (sync)", stream);
    KinetoPlugin_ProfileResourceInfo info = {
        .unpaddedStructSize = KINETO_PLUGIN_SIZE(KinetoPlugin_ProfileResourceInfo, pName),
        .deviceId = (int32_t)device,
        .resourceId = (int32_t)row,
        .displayOrder = (int32_t)stream,
        .pName = name};
    (void)d->builder->addResourceInfo(d->builder->pTraceBuilderHandle, &info);
}

/* ---- synchronisation ------------------------------------------------------------------------------------------ */

static const char *sync_name(uint32_t type)
{
    static const char *const words[] = {"Unknown Sync", "Event Sync", "Stream Wait Event",
                                        "Stream Sync", "Context Sync"};
    return words[type < CP_COUNT(words) ? type : 0];
}

static bool is_for_event(uint32_t type) { return type == SYNC_EVENT || type == SYNC_STREAM_WAIT; }

bool cp_sync_is_unresolved(const cp_decoder *d, const uint8_t *record)
{
    return is_for_event(cp_sync_type(d->version, record)) && !waited_for(d, record);
}

static void describe(cp_decoder *d, const uint8_t *record, const recorded *waited, cp_values *v)
{
    uint32_t version = d->version, type = cp_sync_type(version, record),
             context = cp_sync_context(version, record);
    const char *name = sync_name(type);
    cp_value_bytes(v, "cuda_sync_kind", KINETO_PLUGIN_VALUE_STRING, name, strlen(name));
    if (is_for_event(type)) {
        cp_value_int(v, "wait_on_stream", waited ? (int32_t)waited->stream : -1);
        cp_value_int(v, "wait_on_cuda_event_record_corr_id",
                     waited ? (int64_t)waited->correlation : -1);
        cp_value_uint(v, "wait_on_cuda_event_id", cp_sync_event(version, record));
    }
    cp_value_int(v, "stream", (int32_t)cp_sync_stream(version, record));
    cp_value_uint(v, "device", device_of(d->syncs, context));
    cp_value_uint(v, "context", context);
}

static void deliver(cp_decoder *d, const uint8_t *record, const recorded *waited)
{
    uint32_t version = d->version, type = cp_sync_type(version, record),
             stream = cp_sync_stream(version, record),
             device = device_of(d->syncs, cp_sync_context(version, record)), row = stream;
    KinetoPlugin_Activity a;
    cp_values v;
    if (!cp_activity_begin(d, &a, KINETO_PLUGIN_PROFILE_EVENT_TYPE_CUDA_SYNC,
                           cp_sync_start(version, record), cp_sync_end(version, record)))
        return;
    if (type == SYNC_STREAM && stream < SYNC_ROW)
        row = stream + SYNC_ROW;
    if (row != stream || stream == NONE)
        announce(d, device, row, stream);
    v.count = 0;
    describe(d, record, waited, &v);
    cp_activity_place(d, &a, device, row, cp_sync_correlation(version, record));
    a.pName = sync_name(type);
    a.nameSize = (uint32_t)strlen(a.pName);
    a.pMetadata = v.items;
    a.metadataCount = v.count;
    cp_deliver(d, CP_KIND_SYNCHRONIZATION, &a);
}

void cp_read_sync(cp_decoder *d, const uint8_t *record)
{
    uint32_t type = cp_sync_type(d->version, record);
    if (!cp_wants(d, KINETO_PLUGIN_PROFILE_EVENT_TYPE_CUDA_SYNC) ||
        (type == SYNC_STREAM_WAIT && !d->show_waits))
        return;
    if (cp_sync_is_quiet(d, record)) {
        d->tally[CP_TALLY_QUIET_WAITS]++;
        return;
    }
    /* The event's record may come later. */
    const recorded *waited = is_for_event(type) ? waited_for(d, record) : NULL;
    if (is_for_event(type) && !waited && cp_keep(d, record))
        return;
    deliver(d, record, waited);
}

/* ---- events -------------------------------------------------------------------------------------------------------- */

void cp_read_event(cp_decoder *d, const uint8_t *record)
{
    uint32_t version = d->version, context = cp_event_context(version, record),
             stream = cp_event_stream(version, record);
    uint64_t time = cp_event_time(version, record);
    KinetoPlugin_Activity a;
    cp_values v = {.count = 0};
    remember(d, record);
    if (!cp_wants(d, KINETO_PLUGIN_PROFILE_EVENT_TYPE_CUDA_EVENT))
        return;
    if (!time) {
        d->tally[CP_TALLY_EVENT_NO_TIME]++;
        return;
    }
    uint32_t device =
        version >= 26 ? cp_event_device(version, record) : device_of(d->syncs, context);
    if (!cp_activity_begin(d, &a, KINETO_PLUGIN_PROFILE_EVENT_TYPE_CUDA_EVENT, time, time + 1))
        return;
    cp_value_uint(&v, "event_id", cp_event_event(version, record));
    cp_value_uint(&v, "stream", stream);
    cp_value_uint(&v, "device", device);
    cp_value_uint(&v, "context", context);
    cp_activity_place(d, &a, device, stream, cp_event_correlation(version, record));
    a.pName = "CUDA event";
    a.nameSize = 10;
    a.pMetadata = v.items;
    a.metadataCount = v.count;
    cp_deliver(d, CP_KIND_CUDA_EVENT, &a);
}
