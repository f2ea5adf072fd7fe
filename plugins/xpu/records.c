/* Reads a buffer of PTI's records in one pass. Records are found one after the other by PTI itself; the
 * distance between two is the size of the first, which tells its version. Records that connect a launch
 * with an operator are read before the others of a batch, since PTI may write them after the call. */
#include "xpu.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

/* ---- operators ------------------------------------------------------------------------------- */

/* Of several operators around a launch the innermost one is reported last. */
static void store_operator(xp_decoder *d, const xp_external_record *r)
{
    size_t i = r->correlation % XP_OPERATOR_SLOTS;
    d->operators[i].correlation = r->correlation;
    d->operators[i].id = r->id;
}

static uint64_t find_operator(const xp_decoder *d, uint32_t correlation)
{
    size_t i = correlation % XP_OPERATOR_SLOTS;
    return correlation && d->operators[i].correlation == correlation ? d->operators[i].id : 0;
}

/* ---- activities ------------------------------------------------------------------------------ */

bool xp_begin_activity(xp_decoder *d, KinetoPlugin_Activity *a, int32_t type, uint64_t start,
                       uint64_t end)
{
    if (!xp_wants(d, type))
        return false;
    if (start == 0 || end < start) {
        d->tally[XP_TALLY_NO_TIME]++;
        return false;
    }
    *a = (KinetoPlugin_Activity){
        .unpaddedStructSize = KINETO_PLUGIN_SIZE(KinetoPlugin_Activity, metadataSet),
        .event = {.unpaddedStructSize = KINETO_PLUGIN_SIZE(KinetoPlugin_ProfileEvent, resourceId),
                  .eventType = type,
                  .startTimeUtcNs = (int64_t)start,
                  .endTimeUtcNs = (int64_t)end},
        .clock = d->clock};
    return true;
}

void xp_name_activity(xp_decoder *d, KinetoPlugin_Activity *a, const char *name, const char *otherwise)
{
    bool has_name = name && *name;
    d->tally[XP_TALLY_NO_NAME] += !has_name;
    a->pName = has_name ? name : otherwise;
    a->nameSize = (uint32_t)strlen(a->pName);
}

/* The host draws the flow from the call with the same id. */
void xp_place_on_device(xp_decoder *d, KinetoPlugin_Activity *a, int32_t device, uint32_t stream,
                        uint32_t correlation)
{
    a->event.deviceId = device;
    a->event.resourceId = (int32_t)stream;
    a->event.eventId = correlation;
    a->externalId = find_operator(d, correlation);
    a->flowType = KINETO_PLUGIN_PROFILE_EVENT_FLOW_TYPE_ASYNC_CPU_GPU;
    a->flowId = correlation;
}

void xp_place_on_thread(xp_decoder *d, KinetoPlugin_Activity *a, uint32_t thread, uint32_t correlation)
{
    a->event.processId = (int32_t)d->pid;
    a->event.threadId = (int32_t)thread;
    a->event.eventId = correlation;
    a->externalId = find_operator(d, correlation);
}

void xp_deliver_activity(xp_decoder *d, KinetoPlugin_Activity *a, const cp_values *values)
{
    a->pMetadata = values->items;
    a->metadataCount = values->count;
    if (d->builder->emit(d->builder->pTraceBuilderHandle, a) == 0)
        d->delivered++;
    else
        d->tally[XP_TALLY_NOT_DELIVERED]++;
}

/* Queues of the driver are few: the last ones are found first. -1: unknown. */
static int32_t find_driver_queue(const xp_decoder *d, const void *queue)
{
    for (uint32_t i = d->queue_count; i-- > 0;)
        if (d->queues[i].queue == queue)
            return (int32_t)i;
    return -1;
}

/* Further queues than the table has share the last number. */
static uint32_t number_driver_queue(xp_decoder *d, const void *queue, uint32_t stream)
{
    int32_t i = find_driver_queue(d, queue);
    if (i >= 0)
        return d->queues[i].stream;
    if (d->queue_count == XP_QUEUES)
        return d->queues[XP_QUEUES - 1].stream;
    d->queues[d->queue_count].queue = queue;
    d->queues[d->queue_count++].stream = stream;
    return stream;
}

uint32_t xp_stream_of(xp_decoder *d, uint64_t sycl_queue, const void *queue)
{
    if (sycl_queue > XP_MAX_QUEUE_ID)
        return number_driver_queue(d, queue, d->queue_count);
    (void)number_driver_queue(d, queue, (uint32_t)sycl_queue);
    return (uint32_t)sycl_queue;
}

uint32_t xp_stream_of_fill(xp_decoder *d, uint64_t sycl_queue, const void *queue)
{
    int32_t i = find_driver_queue(d, queue);
    return i >= 0 ? d->queues[i].stream : xp_stream_of(d, sycl_queue, queue);
}

void xp_value_handle(cp_values *v, const char *key, uint64_t handle, char text[24])
{
    snprintf(text, 24, "0x%016llx", (unsigned long long)handle);
    cp_value_bytes(v, key, KINETO_PLUGIN_VALUE_STRING, text, strlen(text));
}

/* ---- one record ------------------------------------------------------------------------------ */

typedef struct record_place {
    const unsigned char *at;
    size_t size;
} record_place;

static size_t get_needed_size(uint32_t kind)
{
    static const size_t sizes[XP_VIEW_COUNT] = {
        [XP_VIEW_KERNEL] = sizeof(xp_kernel_record),     [XP_VIEW_DRIVER] = sizeof(xp_api_record),
        [XP_VIEW_OVERHEAD] = sizeof(xp_overhead_record), [XP_VIEW_RUNTIME] = sizeof(xp_api_record),
        [XP_VIEW_EXTERNAL] = sizeof(xp_external_record), [XP_VIEW_COPY] = sizeof(xp_copy_record),
        [XP_VIEW_FILL] = sizeof(xp_fill_record),         [XP_VIEW_COPY_P2P] = sizeof(xp_p2p_record),
        [XP_VIEW_SYNC] = sizeof(xp_sync_record),         [XP_VIEW_COMMS] = sizeof(xp_comms_record)};
    return kind < XP_VIEW_COUNT ? sizes[kind] : 0;
}

/* The kind of a record; 0: it must not be read, and was counted. */
static uint32_t check_record(xp_decoder *d, const record_place *r)
{
    uint32_t kind = 0;
    d->records++;
    if (r->size >= sizeof kind)
        memcpy(&kind, r->at, sizeof kind);
    size_t needed = get_needed_size(kind);
    if (needed && r->size >= needed)
        return kind;
    d->tally[needed || r->size < sizeof kind ? XP_TALLY_CUT_SHORT : XP_TALLY_UNKNOWN_KIND]++;
    return 0;
}

static void read_view_record(xp_decoder *d, uint32_t kind, const void *r)
{
    switch (kind) {
    case XP_VIEW_KERNEL:
        xp_read_kernel(d, r);
        break;
    case XP_VIEW_COPY:
        xp_read_copy(d, r);
        break;
    case XP_VIEW_COPY_P2P:
        xp_read_p2p(d, r);
        break;
    case XP_VIEW_FILL:
        xp_read_fill(d, r);
        break;
    case XP_VIEW_SYNC:
        xp_read_sync(d, r);
        break;
    case XP_VIEW_COMMS:
        xp_read_comms(d, r);
        break;
    case XP_VIEW_OVERHEAD:
        xp_read_overhead(d, r);
        break;
    case XP_VIEW_RUNTIME:
    case XP_VIEW_DRIVER:
        if (d->version >= XP_VERSION_API)
            xp_read_call(d, r);
        else
            xp_read_named_call(d, r);
        break;
    default:
        break;
    }
}

/* ---- one buffer ------------------------------------------------------------------------------ */

/* The next record, which must lie after the one before. NULL: there is none. */
static unsigned char *step_record(unsigned char *buffer, size_t used, const unsigned char *before,
                                  unsigned char **place)
{
    if (xp_pti.next_record(buffer, used, place) != XP_SUCCESS)
        return NULL;
    unsigned char *r = *place;
    return r && r >= buffer && r < buffer + used && (!before || r > before) && (uintptr_t)r % 8 == 0
               ? r
               : NULL;
}

uint64_t xp_count_records(unsigned char *buffer, size_t used)
{
    uint64_t count = 0;
    unsigned char *place = NULL, *r = NULL;
    while ((r = step_record(buffer, used, r, &place)) != NULL)
        count++;
    return count;
}

#define BATCH 512u

/* A record that may be read, with its kind. */
typedef struct checked_record {
    const void *at;
    uint32_t kind;
} checked_record;

/* Operators first. */
static void read_batch(xp_decoder *d, const record_place *places, size_t count)
{
    checked_record checked[BATCH];
    for (size_t i = 0; i < count; i++) {
        checked[i] = (checked_record){places[i].at, check_record(d, &places[i])};
        if (checked[i].kind == XP_VIEW_EXTERNAL)
            store_operator(d, checked[i].at);
    }
    for (size_t i = 0; i < count; i++)
        read_view_record(d, checked[i].kind, checked[i].at);
}

/* Reports to the host how many activities there were and how many had no time. The host counts those
 * that it refuses itself. */
static void report_xpu_activities(xp_decoder *d)
{
    uint64_t dropped = d->tally[XP_TALLY_NO_TIME],
             all = dropped + d->tally[XP_TALLY_NOT_DELIVERED] + d->delivered;
    KinetoPlugin_Counts counts = {.unpaddedStructSize =
                                      KINETO_PLUGIN_SIZE(KinetoPlugin_Counts, dropped),
                                  .requested = all - d->reported,
                                  .dropped = dropped - d->reported_dropped};
    if (!counts.requested || !KINETO_PLUGIN_HAS(d->builder, KinetoPlugin_TraceBuilder, addCounts))
        return;
    (void)d->builder->addCounts(d->builder->pTraceBuilderHandle, &counts);
    d->reported = all;
    d->reported_dropped = dropped;
}

void xp_decoder_read(xp_decoder *d, unsigned char *buffer, size_t used)
{
    record_place places[BATCH];
    size_t count = 0;
    unsigned char *place = NULL, *r = NULL, *next;
    xp_devices_announce(d);
    d->buffers++;
    for (r = step_record(buffer, used, NULL, &place); r; r = next) {
        next = step_record(buffer, used, r, &place);
        places[count++] = (record_place){r, (size_t)((next ? next : buffer + used) - r)};
        if (count < BATCH && next)
            continue;
        read_batch(d, places, count);
        count = 0;
    }
    report_xpu_activities(d);
}

/* ---- life ------------------------------------------------------------------------------------ */

bool xp_decoder_init(xp_decoder *d, const KinetoPlugin_TraceBuilder *builder, const xp_options *options,
                     uint32_t version, int32_t clock)
{
    memset(d, 0, sizeof *d);
    d->builder = builder;
    d->types = options->types;
    d->times = options->times;
    d->version = version;
    d->clock = clock;
    d->pid = (uint32_t)getpid();
    d->sets = cp_sets_create();
    d->operators = calloc(XP_OPERATOR_SLOTS, sizeof *d->operators);
    d->apis = calloc(XP_API_SLOTS, sizeof *d->apis);
    if (d->sets && d->operators && d->apis)
        return true;
    xp_decoder_free(d);
    return false;
}

void xp_decoder_finish(xp_decoder *d)
{
    static const cp_reason reasons[] = {
#define XP_X(name, loss, text) {text, loss},
        XP_TALLY_MAP(XP_X)
#undef XP_X
    };
    report_xpu_activities(d);
    cp_note_counts(d->builder, reasons, d->tally, CP_COUNT(reasons));
}

void xp_decoder_free(xp_decoder *d)
{
    cp_sets_free(d->sets);
    free(d->operators);
    free(d->apis);
    d->sets = NULL;
    d->operators = NULL;
    d->apis = NULL;
}
