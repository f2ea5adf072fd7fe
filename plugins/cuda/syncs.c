/* Activities of synchronisation and of CUDA events. For each wait on an event the recording that it
 * waits for is found among the recordings seen so far. All tables have fixed sizes: old entries are
 * overwritten. */
#include "layouts.h"

#include "cuda.h"

#include <stdio.h>
#include <stdlib.h>

/* CUPTI's number for no stream and no event. */
#define CP_NONE       UINT32_MAX
#define CONTEXT_SLOTS 256u
#define STREAM_SLOTS  4096u
#define ROW_SLOTS     256u
#define EVENT_SETS    2048u
#define EVENT_WAYS    4u
/* The last recordings of an event that are kept. */
#define EVENT_TIMES 64u

/* CUpti_ActivitySynchronizationType */
enum { SYNC_UNKNOWN, SYNC_EVENT, SYNC_STREAM_WAIT, SYNC_STREAM, SYNC_CONTEXT };

typedef struct event_recording {
    uint32_t correlation, stream;
    /* CUPTI's id of this recording; 0: it has none. */
    uint64_t sync_id;
} event_recording;

typedef struct cuda_event {
    uint32_t context, id;
    uint32_t count;                    /* recordings; 0: free */
    event_recording last[EVENT_TIMES]; /* the newest of them, by count */
} cuda_event;

typedef struct key_pair {
    uint32_t a, b;
    bool used;
} key_pair;

struct cp_syncs {
    key_pair contexts[CONTEXT_SLOTS]; /* → device */
    key_pair streams[STREAM_SLOTS];   /* (context, stream) that have done work */
    uint32_t stream_count, last_context, last_device, last_stream;
    /* (device, row) that have been announced. */
    key_pair rows[ROW_SLOTS];
    /* [EVENT_SETS], allocated with the first event. */
    cuda_event (*events)[EVENT_WAYS];
};

bool cp_syncs_create(cp_decoder *d)
{
    d->syncs = calloc(1, sizeof *d->syncs);
    if (d->syncs)
        d->syncs->last_stream = CP_NONE;
    return d->syncs != NULL;
}

void cp_syncs_free(cp_decoder *d)
{
    if (d->syncs)
        free(d->syncs->events);
    free(d->syncs);
    d->syncs = NULL;
}

static uint32_t hash_pair(uint32_t a, uint32_t b)
{
    uint64_t h = ((uint64_t)a << 32 | b) * UINT64_C(0x9e3779b97f4a7c15);
    return (uint32_t)(h >> 32);
}

/* ---- contexts and streams -------------------------------------------------------------------- */

static void note_context_device(struct cp_syncs *s, uint32_t context, uint32_t device)
{
    s->contexts[context % CONTEXT_SLOTS] = (key_pair){context, device, true};
}

/* The device of a context, learnt from work on it, which precedes any wait for it; 0: unknown. */
static uint32_t get_context_device(const struct cp_syncs *s, uint32_t context)
{
    const key_pair *p = &s->contexts[context % CONTEXT_SLOTS];
    return p->used && p->a == context ? p->b : 0;
}

static key_pair *find_stream_slot(struct cp_syncs *s, uint32_t context, uint32_t stream)
{
    uint32_t i = hash_pair(context, stream) % STREAM_SLOTS;
    while (s->streams[i].used && (s->streams[i].a != context || s->streams[i].b != stream))
        i = (i + 1) % STREAM_SLOTS;
    return &s->streams[i];
}

void cp_syncs_note_work(cp_decoder *d, uint32_t context, uint32_t device, uint32_t stream)
{
    struct cp_syncs *s = d->syncs;
    if (s->last_context == context && s->last_device == device && s->last_stream == stream)
        return;
    s->last_context = context;
    s->last_device = device;
    s->last_stream = stream;
    note_context_device(s, context, device);
    key_pair *p = find_stream_slot(s, context, stream);
    if (p->used || s->stream_count >= STREAM_SLOTS / 4 * 3)
        return;
    *p = (key_pair){context, stream, true};
    s->stream_count++;
}

void cp_syncs_note_context(cp_decoder *d, uint32_t context, uint32_t device)
{
    note_context_device(d->syncs, context, device);
}

void cp_read_context(cp_decoder *d, const uint8_t *record)
{
    cp_syncs_note_context(d, cp_context_context(d->version, record),
                          cp_context_device(d->version, record));
}

/* When the table is full every stream counts as active. */
bool cp_sync_is_quiet(cp_decoder *d, const uint8_t *record)
{
    struct cp_syncs *s = d->syncs;
    return cp_sync_type(d->version, record) == SYNC_STREAM_WAIT && d->show_waits &&
           s->stream_count < STREAM_SLOTS / 4 * 3 &&
           !find_stream_slot(s, cp_sync_context(d->version, record),
                             cp_sync_stream(d->version, record))
                ->used;
}

/* ---- recorded events ------------------------------------------------------------------------- */

/* The entry of an event; NULL: no recording of it was seen, or it was overwritten. */
static cuda_event *find_event(const struct cp_syncs *s, uint32_t context, uint32_t id)
{
    cuda_event *set = s->events ? s->events[hash_pair(context, id) % EVENT_SETS] : NULL;
    for (uint32_t i = 0; set && i < EVENT_WAYS; i++)
        if (set[i].count && set[i].context == context && set[i].id == id)
            return &set[i];
    return NULL;
}

static uint32_t get_newest_recording(const cuda_event *e)
{
    return e->last[(e->count - 1) % EVENT_TIMES].correlation;
}

/* A slot for a new event: a free one of its set, or that of the event that was not recorded for the
 * longest time. */
static cuda_event *add_cuda_event(struct cp_syncs *s, uint32_t context, uint32_t id)
{
    cuda_event *set, *victim;
    if (!s->events)
        s->events = calloc(EVENT_SETS, sizeof *s->events);
    if (!s->events)
        return NULL;
    set = victim = s->events[hash_pair(context, id) % EVENT_SETS];
    for (uint32_t i = 0; i < EVENT_WAYS && victim->count; i++)
        if (!set[i].count || get_newest_recording(&set[i]) < get_newest_recording(victim))
            victim = &set[i];
    *victim = (cuda_event){.context = context, .id = id};
    return victim;
}

/* Stores a recording of an event. */
static void remember_recording(cp_decoder *d, const uint8_t *record)
{
    uint32_t version = d->version, context = cp_event_context(version, record),
             id = cp_event_event(version, record);
    cuda_event *e = find_event(d->syncs, context, id);
    if (!e)
        e = add_cuda_event(d->syncs, context, id);
    if (!e)
        return;
    uint64_t sync_id = cp_event_event_sync(version, record);
    e->last[e->count % EVENT_TIMES] =
        (event_recording){cp_event_correlation(version, record), cp_event_stream(version, record),
                          sync_id == CP_NONE ? 0 : sync_id};
    if (++e->count == UINT32_MAX / EVENT_TIMES * EVENT_TIMES)
        e->count = EVENT_TIMES; /* before it overflows; all entries stay valid */
}

/* The recording that a wait is for: the one that CUPTI names, else the last one before the wait;
 * NULL: none is known. */
static const event_recording *find_awaited_recording(const cp_decoder *d, const uint8_t *record)
{
    uint32_t version = d->version, correlation = cp_sync_correlation(version, record);
    uint64_t sync_id = cp_sync_event_sync(version, record);
    const cuda_event *e =
        find_event(d->syncs, cp_sync_context(version, record), cp_sync_event(version, record));
    const event_recording *best = NULL;
    uint32_t known = 0;
    if (e)
        known = e->count < EVENT_TIMES ? e->count : EVENT_TIMES;
    for (uint32_t i = 0; i < known; i++) {
        const event_recording *r = &e->last[i];
        if (sync_id && sync_id != CP_NONE && r->sync_id == sync_id)
            return r;
        if (r->correlation <= correlation && (!best || r->correlation >= best->correlation))
            best = r;
    }
    return best;
}

/* ---- rows ------------------------------------------------------------------------------------ */

/* Offset of rows for synchronisation of streams, as in Kineto. */
#define SYNC_ROW 1000000u

/* Announces a row of synchronisation once. */
static void announce_sync_row(cp_decoder *d, uint32_t device, uint32_t row, uint32_t stream)
{
    char name[48];
    key_pair *p = &d->syncs->rows[hash_pair(device, row) % ROW_SLOTS];
    if (p->used && p->a == device && p->b == row)
        return;
    *p = (key_pair){device, row, true};
    if (stream == CP_NONE)
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

/* ---- synchronisation ------------------------------------------------------------------------- */

static const char *get_sync_name(uint32_t type)
{
    static const char *const words[] = {"Unknown Sync", "Event Sync", "Stream Wait Event",
                                        "Stream Sync", "Context Sync"};
    return words[type < CP_COUNT(words) ? type : 0];
}

static bool is_event_sync(uint32_t type) { return type == SYNC_EVENT || type == SYNC_STREAM_WAIT; }

bool cp_sync_is_unresolved(const cp_decoder *d, const uint8_t *record)
{
    return is_event_sync(cp_sync_type(d->version, record)) && !find_awaited_recording(d, record);
}

/* The values of a wait, under Kineto's keys. */
static void describe_sync(cp_decoder *d, const uint8_t *record, const event_recording *waited,
                          cp_values *v)
{
    uint32_t version = d->version, type = cp_sync_type(version, record),
             context = cp_sync_context(version, record);
    const char *name = get_sync_name(type);
    cp_value_bytes(v, "cuda_sync_kind", KINETO_PLUGIN_VALUE_STRING, name, strlen(name));
    if (is_event_sync(type)) {
        cp_value_int(v, "wait_on_stream", waited ? (int32_t)waited->stream : -1);
        cp_value_int(v, "wait_on_cuda_event_record_corr_id",
                     waited ? (int64_t)waited->correlation : -1);
        cp_value_uint(v, "wait_on_cuda_event_id", cp_sync_event(version, record));
    }
    cp_value_int(v, "stream", (int32_t)cp_sync_stream(version, record));
    cp_value_uint(v, "device", get_context_device(d->syncs, context));
    cp_value_uint(v, "context", context);
}

/* Delivers a wait on the row of its stream; waits for a whole stream or device have rows of their
 * own. */
static void deliver_sync(cp_decoder *d, const uint8_t *record, const event_recording *waited)
{
    uint32_t version = d->version, type = cp_sync_type(version, record),
             stream = cp_sync_stream(version, record),
             device = get_context_device(d->syncs, cp_sync_context(version, record)), row = stream;
    KinetoPlugin_Activity a;
    cp_values v;
    if (!cp_begin_activity(d, &a, KINETO_PLUGIN_PROFILE_EVENT_TYPE_CUDA_SYNC,
                           cp_sync_start(version, record), cp_sync_end(version, record)))
        return;
    if (type == SYNC_STREAM && stream < SYNC_ROW)
        row = stream + SYNC_ROW;
    if (row != stream || stream == CP_NONE)
        announce_sync_row(d, device, row, stream);
    v.count = 0;
    describe_sync(d, record, waited, &v);
    cp_place_activity(d, &a, device, row, cp_sync_correlation(version, record));
    a.pName = get_sync_name(type);
    a.nameSize = (uint32_t)strlen(a.pName);
    a.pMetadata = v.items;
    a.metadataCount = v.count;
    cp_deliver_activity(d, CP_KIND_SYNCHRONIZATION, &a);
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
    /* The record of the event may come later: keep the wait until then. */
    const event_recording *waited = is_event_sync(type) ? find_awaited_recording(d, record) : NULL;
    if (is_event_sync(type) && !waited && cp_keep_record(d, record))
        return;
    deliver_sync(d, record, waited);
}

/* ---- events ---------------------------------------------------------------------------------- */

void cp_read_event(cp_decoder *d, const uint8_t *record)
{
    uint32_t version = d->version, context = cp_event_context(version, record),
             stream = cp_event_stream(version, record);
    uint64_t time = cp_event_time(version, record);
    KinetoPlugin_Activity a;
    cp_values v = {.count = 0};
    remember_recording(d, record);
    if (!cp_wants(d, KINETO_PLUGIN_PROFILE_EVENT_TYPE_CUDA_EVENT))
        return;
    if (!time) {
        d->tally[CP_TALLY_EVENT_NO_TIME]++;
        return;
    }
    uint32_t device =
        version >= 26 ? cp_event_device(version, record) : get_context_device(d->syncs, context);
    if (!cp_begin_activity(d, &a, KINETO_PLUGIN_PROFILE_EVENT_TYPE_CUDA_EVENT, time, time + 1))
        return;
    cp_value_uint(&v, "event_id", cp_event_event(version, record));
    cp_value_uint(&v, "stream", stream);
    cp_value_uint(&v, "device", device);
    cp_value_uint(&v, "context", context);
    cp_place_activity(d, &a, device, stream, cp_event_correlation(version, record));
    a.pName = "CUDA event";
    a.nameSize = 10;
    a.pMetadata = v.items;
    a.metadataCount = v.count;
    cp_deliver_activity(d, CP_KIND_CUDA_EVENT, &a);
}
