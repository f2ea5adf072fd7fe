/* Reads a batch of the SDK's records in one pass: each is read in place and becomes an activity. A record
 * has the id of its launch and that of the operator in itself, so that none has to wait for another. */
#include "rocm.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

/* ---- layouts --------------------------------------------------------------------------------- */

/* Bytes of the ids in a record that has `tail` bytes after short ones, or more in later versions. The
 * two sizes that are known decide; a longer record is of a later version. */
static size_t find_ids_size(const rp_decoder *d, const rp_record *record, size_t tail)
{
    if (record->size == RP_IDS_AT + RP_SHORT_IDS + tail)
        return RP_SHORT_IDS;
    if (record->size == RP_IDS_AT + RP_LONG_IDS + tail)
        return RP_LONG_IDS;
    return d->version >= RP_VERSION_LONG_IDS ? RP_LONG_IDS : RP_SHORT_IDS;
}

const void *rp_tail(rp_decoder *d, const rp_record *record, size_t bytes)
{
    size_t at = RP_IDS_AT + find_ids_size(d, record, bytes);
    if (record->size < at + bytes) {
        d->tally[RP_TALLY_CUT_SHORT]++;
        return NULL;
    }
    return (const uint8_t *)record + at;
}

/* ---- activities ------------------------------------------------------------------------------ */

bool rp_begin_activity(rp_decoder *d, KinetoPlugin_Activity *a, int32_t type, uint64_t start,
                       uint64_t end)
{
    if (start == 0 || end < start) {
        d->tally[RP_TALLY_NO_TIME]++;
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

/* The host draws the flow from the call with the same id. */
void rp_place_activity(KinetoPlugin_Activity *a, int32_t device, uint32_t stream,
                       const rp_record *record)
{
    a->event.deviceId = device;
    a->event.resourceId = (int32_t)stream;
    a->event.eventId = (int64_t)record->internal;
    a->externalId = record->external;
    a->flowType = KINETO_PLUGIN_PROFILE_EVENT_FLOW_TYPE_ASYNC_CPU_GPU;
    a->flowId = (uint32_t)record->internal;
}

void rp_deliver_activity(rp_decoder *d, KinetoPlugin_Activity *a, const cp_values *values)
{
    a->pMetadata = values->items;
    a->metadataCount = values->count;
    if (d->builder->emit(d->builder->pTraceBuilderHandle, a) == 0)
        d->delivered++;
    else
        d->tally[RP_TALLY_NOT_DELIVERED]++;
}

/* Queues are few: the last ones are found first. Further ones than the table has share the last. */
uint32_t rp_stream_of(rp_decoder *d, uint64_t queue)
{
    for (uint32_t i = d->queue_count; i-- > 0;)
        if (d->queues[i] == queue)
            return i + 1;
    if (d->queue_count == RP_QUEUES)
        return RP_QUEUES;
    d->queues[d->queue_count++] = queue;
    return d->queue_count;
}

/* ---- one batch ------------------------------------------------------------------------------- */

/* One record, by our number of its kind. The first bytes are read only if the record says that it has them. */
static void read_record(rp_decoder *d, const rp_header *header)
{
    const rp_record *record = header->payload;
    rp_kind kind = rp_kind_of(header->kind);
    d->records++;
    if (header->category != RP_CATEGORY_TRACING || kind == RP_KIND_NONE) {
        d->tally[RP_TALLY_UNKNOWN_KIND]++;
        return;
    }
    if (!record || record->size < sizeof *record) {
        d->tally[RP_TALLY_CUT_SHORT]++;
        return;
    }
    switch (kind) {
    case RP_KIND_KERNEL:
        rp_read_kernel(d, record);
        break;
    case RP_KIND_COPY:
        rp_read_copy(d, record);
        break;
    case RP_KIND_SCRATCH:
        rp_read_scratch(d, record);
        break;
    case RP_KIND_MEMORY:
        rp_read_memory(d, record);
        break;
    case RP_KIND_GRAPH:
        rp_read_graph(d, record);
        break;
    default:
        rp_read_call(d, kind, record);
    }
}

/* Reports to the host how many activities there were and how many had no time. The host counts those
 * that it refuses itself. */
static void report_activities(rp_decoder *d)
{
    uint64_t dropped = d->tally[RP_TALLY_NO_TIME],
             all = dropped + d->tally[RP_TALLY_NOT_DELIVERED] + d->delivered;
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

/* Other threads wrote the records, so they are in no cache here. */
#define READ_AHEAD 4u

void rp_decoder_read(rp_decoder *d, rp_header **headers, size_t count)
{
    d->batches++;
    for (size_t i = 0; i < count; i++) {
        if (i + READ_AHEAD < count && headers[i + READ_AHEAD])
            __builtin_prefetch(headers[i + READ_AHEAD]->payload);
        if (headers[i])
            read_record(d, headers[i]);
    }
    report_activities(d);
}

/* ---- life ------------------------------------------------------------------------------------ */

bool rp_decoder_init(rp_decoder *d, const KinetoPlugin_TraceBuilder *builder, const rp_options *options,
                     uint32_t version, int32_t clock)
{
    memset(d, 0, sizeof *d);
    d->builder = builder;
    d->types = options->types;
    d->memory = options->memory;
    d->version = version;
    d->clock = clock;
    d->pid = (uint32_t)getpid();
    d->sets = cp_sets_create();
    return d->sets != NULL;
}

void rp_decoder_finish(rp_decoder *d)
{
    static const cp_reason reasons[] = {
#define RP_X(name, loss, text) {text, loss},
        RP_TALLY_MAP(RP_X)
#undef RP_X
    };
    report_activities(d);
    cp_note_counts(d->builder, reasons, d->tally, CP_COUNT(reasons));
}

void rp_decoder_free(rp_decoder *d)
{
    rp_memory_free(d);
    cp_sets_free(d->sets);
    d->sets = NULL;
}
