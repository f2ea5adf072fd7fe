/* Reads a buffer of CUPTI's records in one pass: each record is read in place and becomes an
 * activity. Records that depend on others which have not come yet are copied to a bounded waiting
 * list. */
#include "layouts.h"

#include "cuda.h"

#include <stdio.h>
#include <stdlib.h>
#include <time.h>

/* ---- kinds ----------------------------------------------------------------------------------- */

typedef struct record_kind {
    void (*read)(cp_decoder *d, const uint8_t *record);               /* NULL: unknown kind */
    uint32_t (*correlation)(uint32_t version, const uint8_t *record); /* NULL: needs no operator */
} record_kind;

static void read_external_correlation(cp_decoder *d, const uint8_t *record);

/* For kinds that CUPTI sends unrequested and that hold nothing of use. */
static void ignore_record(cp_decoder *d, const uint8_t *record)
{
    (void)d;
    (void)record;
}

static const record_kind record_kinds[CP_KIND_COUNT] = {
    [CP_KIND_MEMCPY] = {cp_read_memcpy, cp_memcpy_correlation},
    [CP_KIND_MEMSET] = {cp_read_memset, cp_memset_correlation},
    [CP_KIND_KERNEL] = {cp_read_kernel, cp_kernel_correlation},
    [CP_KIND_DRIVER] = {cp_read_call, cp_call_correlation},
    [CP_KIND_RUNTIME] = {cp_read_call, cp_call_correlation},
    [CP_KIND_DEVICE] = {ignore_record, NULL},
    [CP_KIND_CONTEXT] = {cp_read_context, NULL},
    [CP_KIND_CONCURRENT_KERNEL] = {cp_read_kernel, cp_kernel_correlation},
    [CP_KIND_OVERHEAD] = {cp_read_overhead, NULL},
    [CP_KIND_MEMCPY2] = {cp_read_memcpy2, cp_memcpy2_correlation},
    [CP_KIND_CUDA_EVENT] = {cp_read_event, NULL},
    [CP_KIND_STREAM] = {ignore_record, NULL},
    [CP_KIND_SYNCHRONIZATION] = {cp_read_sync, cp_sync_correlation},
    [CP_KIND_EXTERNAL_CORRELATION] = {read_external_correlation, NULL},
    [CP_KIND_INTERNAL_LAUNCH_API] = {cp_read_call, cp_call_correlation},
    [CP_KIND_MEMORY2] = {cp_read_memory, cp_memory_correlation},
    [CP_KIND_GRAPH_TRACE] = {cp_read_graph, cp_graph_correlation},
    [CP_KIND_GRAPH_HOST_NODE] = {cp_read_host_node, cp_host_node_correlation},
    [CP_KIND_HOST_LAUNCH] = {cp_read_host_launch, cp_host_launch_correlation},
    [CP_KIND_GREEN_CONTEXT] = {cp_read_green_context, NULL},
};

static bool is_call_kind(uint32_t k)
{
    return k == CP_KIND_RUNTIME || k == CP_KIND_DRIVER || k == CP_KIND_INTERNAL_LAUNCH_API;
}

static void read_record_now(cp_decoder *d, const uint8_t *record)
{
    record_kinds[cp_record_kind(record)].read(d, record);
}

/* ---- waiting records ------------------------------------------------------------------------- */

/* CUPTI reports the operator of a launch in a record of its own, which may come in a later buffer
 * than the launch or even than the kernel. A call whose operator has not come by the end of its own
 * buffer has none, and neither has the work that it launched. */

#define MAX_WAITING 16384u
/* Buffers for which a record waits for the call that launched it. */
#define MAX_WAIT_BUFFERS 16u
#define MIN_WAITING      256u

typedef struct waiting_record {
    uint8_t record[CP_RECORD_MAX_BYTES];
    /* Buffers that have ended since it came. */
    uint32_t buffers;
} waiting_record;

struct cp_pending {
    waiting_record *list;
    uint32_t count, capacity;
};

static atomic_bool operators_pushed;

void cp_operators_pushed(void)
{
    if (!atomic_load_explicit(&operators_pushed, memory_order_relaxed))
        atomic_store_explicit(&operators_pushed, true, memory_order_relaxed);
}

static bool has_operators(void)
{
    return atomic_load_explicit(&operators_pushed, memory_order_relaxed);
}

/* True if the record's operator is known or irrelevant, so that the record need not wait for it. */
static bool is_operator_known(cp_decoder *d, const uint8_t *record)
{
    const record_kind *k = &record_kinds[cp_record_kind(record)];
    return !has_operators() || !k->correlation ||
           cp_correlations_get(d->correlations, k->correlation(d->version, record)) != 0;
}

/* True for the wait of a stream that has done nothing yet: it is of interest only if the stream
 * does something later. */
static bool is_quiet_wait(cp_decoder *d, const uint8_t *record)
{
    return cp_record_kind(record) == CP_KIND_SYNCHRONIZATION && cp_sync_is_quiet(d, record);
}

/* True for the wait for an event whose recording CUPTI has not reported: it does so when the device
 * has reached it. */
static bool is_unresolved_wait(const cp_decoder *d, const uint8_t *record)
{
    return cp_record_kind(record) == CP_KIND_SYNCHRONIZATION && cp_sync_is_unresolved(d, record);
}

/* Makes space for one more; false: the limit is reached or out of memory. */
static bool grow_waiting_list(struct cp_pending *p)
{
    if (p->count < p->capacity)
        return true;
    uint32_t capacity = p->capacity ? p->capacity * 2 : MIN_WAITING;
    waiting_record *list =
        capacity <= MAX_WAITING ? realloc(p->list, capacity * sizeof *list) : NULL;
    if (!list)
        return false;
    p->list = list;
    p->capacity = capacity;
    return true;
}

/* Delivers records that need not wait any longer: those whose operator is known, those that have
 * waited too long, or `all`. */
static void deliver_waiting(cp_decoder *d, bool all)
{
    struct cp_pending *p = d->pending;
    uint32_t count = p->count, kept = 0;
    d->settling = true;
    for (uint32_t i = 0; i < count; i++) {
        waiting_record *w = &p->list[i];
        bool known = is_operator_known(d, w->record), must_wait = w->buffers < MAX_WAIT_BUFFERS;
        if (known)
            must_wait =
                is_quiet_wait(d, w->record) || (must_wait && is_unresolved_wait(d, w->record));
        if (must_wait && !all) {
            if (kept != i)
                p->list[kept] = *w;
            kept++;
            continue;
        }
        d->tally[CP_TALLY_NO_OPERATOR] += !known;
        read_record_now(d, w->record);
    }
    d->settling = false;
    p->count = kept;
}

bool cp_keep_record(cp_decoder *d, const uint8_t *record)
{
    struct cp_pending *p = d->pending;
    uint32_t bytes = d->bytes[cp_record_kind(record)];
    if (d->settling)
        return false;
    if (!grow_waiting_list(p))
        deliver_waiting(d, true);
    if (!grow_waiting_list(p))
        return false;
    waiting_record *w = &p->list[p->count++];
    memcpy(w->record, record, bytes < sizeof w->record ? bytes : sizeof w->record);
    w->buffers = 0;
    return true;
}

/* At the end of a buffer: waiting calls without an operator have none. Delivers what that
 * decides. */
static void end_buffer(cp_decoder *d)
{
    struct cp_pending *p = d->pending;
    for (uint32_t i = 0; i < p->count; i++) {
        const uint8_t *record = p->list[i].record;
        p->list[i].buffers++;
        if (is_call_kind(cp_record_kind(record)))
            cp_correlations_put(d->correlations, cp_call_correlation(d->version, record),
                                CP_NO_OPERATOR);
    }
    if (p->count)
        deliver_waiting(d, false);
}

/* ---- operators ------------------------------------------------------------------------------- */

/* A record that connects a launch with the operator that was innermost. Other kinds of ids belong
 * to other tools. */
static void read_external_correlation(cp_decoder *d, const uint8_t *record)
{
    uint64_t id = cp_external_id(d->version, record);
    if (cp_external_kind(d->version, record) != CP_EXTERNAL_CUSTOM0 || id == 0 ||
        id == CP_NO_OPERATOR)
        return;
    cp_operators_pushed();
    cp_correlations_put(d->correlations, cp_external_correlation(d->version, record), id);
}

uint64_t cp_operator_of(cp_decoder *d, uint32_t correlation_id)
{
    uint64_t id = has_operators() ? cp_correlations_get(d->correlations, correlation_id) : 0;
    return id == CP_NO_OPERATOR ? 0 : id;
}

/* ---- activities ------------------------------------------------------------------------------ */

/* The host draws the flow from the call with the same id. */
void cp_place_activity(cp_decoder *d, KinetoPlugin_Activity *a, uint32_t device, uint32_t stream,
                       uint32_t correlation_id)
{
    a->event.deviceId = (int32_t)device;
    a->event.resourceId = (int32_t)stream;
    a->event.eventId = correlation_id;
    a->externalId = cp_operator_of(d, correlation_id);
    a->flowType = KINETO_PLUGIN_PROFILE_EVENT_FLOW_TYPE_ASYNC_CPU_GPU;
    a->flowId = correlation_id;
}

void cp_deliver_activity(cp_decoder *d, uint32_t k, KinetoPlugin_Activity *a)
{
    if (d->builder->emit(d->builder->pTraceBuilderHandle, a) == 0)
        d->delivered[k]++;
    else
        d->tally[CP_TALLY_NOT_DELIVERED]++;
}

/* Reports to the host how many activities there were and how many had no time. The host counts
 * those that it refuses itself. */
static void report_counts(cp_decoder *d)
{
    uint64_t dropped = d->tally[CP_TALLY_NO_TIME], all = dropped + d->tally[CP_TALLY_NOT_DELIVERED];
    for (uint32_t k = 0; k < CP_KIND_COUNT; k++)
        all += d->delivered[k];
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

/* ---- time ------------------------------------------------------------------------------------ */

/* Values such as bandwidths need durations in ns. The unit of the host's clock is measured over the
 * time from the beginning to now. */

#define MIN_MEASURE_NS 100000u /* shortest time to measure over */
#define MAX_PAIR_NS    2000u   /* longest time between two readings of a pair */

static uint64_t raw_clock_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC_RAW, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

/* Reads both clocks at one moment; repeats if the thread was interrupted in between. */
static void read_clock_pair(const cp_decoder *d, uint64_t *ns, uint64_t *ticks)
{
    uint64_t narrowest = UINT64_MAX;
    for (int i = 0; i < 16 && narrowest > MAX_PAIR_NS; i++) {
        uint64_t before = raw_clock_ns(),
                 read = d->builder->hostTicks(d->builder->pTraceBuilderHandle),
                 width = raw_clock_ns() - before;
        if (width >= narrowest)
            continue;
        narrowest = width;
        *ns = before + width / 2;
        *ticks = read;
    }
}

static void begin_clock_measure(cp_decoder *d)
{
    d->ns_each = 1;
    if (d->clock == KINETO_PLUGIN_CLOCK_TICKS)
        read_clock_pair(d, &d->first_ns, &d->first_ticks);
}

/* Measures the unit of the host's clock again, over the time since begin_clock_measure. */
static void update_clock_measure(cp_decoder *d)
{
    uint64_t ns = 0, ticks = 0;
    if (d->clock != KINETO_PLUGIN_CLOCK_TICKS)
        return;
    while (raw_clock_ns() - d->first_ns < MIN_MEASURE_NS)
        ;
    read_clock_pair(d, &ns, &ticks);
    if (ticks > d->first_ticks)
        d->ns_each = (double)(ns - d->first_ns) / (double)(ticks - d->first_ticks);
}

/* ---- one buffer ------------------------------------------------------------------------------ */

/* Reads a record now, or keeps it if it must wait. */
static void read_or_keep_record(cp_decoder *d, const uint8_t *record)
{
    uint32_t k = cp_record_kind(record);
    if (k >= CP_KIND_COUNT || !record_kinds[k].read)
        d->tally[CP_TALLY_UNKNOWN_KIND]++;
    else if ((is_operator_known(d, record) && !is_quiet_wait(d, record)) ||
             !cp_keep_record(d, record))
        record_kinds[k].read(d, record);
}

/* True if a record lies completely in the buffer and after the previous one. */
static bool is_complete_record(const cp_decoder *d, const uint8_t *record, const uint8_t *before,
                               const uint8_t *buffer, size_t valid)
{
    if (!record || record < buffer || (before && record <= before) || record >= buffer + valid)
        return false;
    size_t left = valid - (size_t)(record - buffer);
    if (left < sizeof(uint32_t))
        return false;
    uint32_t k = cp_record_kind(record);
    return k >= CP_KIND_COUNT || left >= d->bytes[k];
}

/* Counts an incomplete record. Its length and the number of records after it are unknown. */
static void note_early_end(cp_decoder *d, const uint8_t *last, const uint8_t *buffer, size_t valid)
{
    uint32_t k = last ? cp_record_kind(last) : CP_KIND_COUNT;
    size_t read = last ? (size_t)(last - buffer) + (k < CP_KIND_COUNT ? d->bytes[k] : 0) : 0;
    d->tally[CP_TALLY_CUT_SHORT]++;
    d->unread_bytes += read < valid ? valid - read : 0;
}

/* Bytes to prefetch ahead: other threads wrote the buffer, so it is in no cache here. A record
 * takes about three cache lines. */
#define READ_AHEAD 512

void cp_decoder_read(cp_decoder *d, uint8_t *buffer, size_t valid)
{
    uint8_t *record = NULL, *before = NULL;
    cp_result result;
    update_clock_measure(d);
    cp_names_begin_buffer(d->names);
    while ((result = cp_cupti.next_record(buffer, valid, &record)) == CP_SUCCESS) {
        if (!is_complete_record(d, record, before, buffer, valid)) {
            note_early_end(d, before, buffer, valid);
            break;
        }
        for (uintptr_t line = 0; line < 192; line += 64)
            __builtin_prefetch((const void *)((uintptr_t)record + READ_AHEAD + line));
        read_or_keep_record(d, record);
        before = record;
    }
    if (result != CP_SUCCESS && result != CP_ERROR_MAX_LIMIT_REACHED)
        note_early_end(d, before, buffer, valid);
    end_buffer(d);
    report_counts(d);
}

/* ---- life ------------------------------------------------------------------------------------ */

bool cp_decoder_init(cp_decoder *d, const KinetoPlugin_TraceBuilder *builder, uint64_t types,
                     uint32_t cupti_version, int32_t clock)
{
    *d = (cp_decoder){.builder = builder,
                      .version = cupti_version,
                      .clock = clock,
                      .types = types,
                      .show_waits = true};
    atomic_store(&operators_pushed, false);
    for (uint32_t k = 0; k < CP_KIND_COUNT; k++)
        d->bytes[k] = (uint16_t)cp_record_bytes(k, cupti_version);
    d->correlations = cp_correlations_create();
    d->names = cp_names_create();
    d->pending = calloc(1, sizeof *d->pending);
    begin_clock_measure(d);
    d->sets = cp_sets_create();
    bool made = d->sets && cp_calls_create(d) && cp_syncs_create(d);
    if (made && d->correlations && d->names && d->pending)
        return true;
    cp_decoder_free(d);
    return false;
}

/* Writes the counts of incomplete records to the ledger. */
static void write_tally(cp_decoder *d)
{
    static const struct {
        const char *text;
        bool is_loss;
    } reasons[] = {
#define CP_X(name, loss, text) {text, loss},
        CP_TALLY_MAP(CP_X)
#undef CP_X
    };
    char detail[CP_TALLY_COUNT][80] = {{0}};
    snprintf(detail[CP_TALLY_CUT_SHORT], sizeof detail[0],
             "and what follows them in their buffers: %llu bytes were not read",
             (unsigned long long)d->unread_bytes);
    for (size_t i = 0; i < CP_TALLY_COUNT; i++)
        if (d->tally[i] && reasons[i].text)
            cp_note(d->builder, reasons[i].text, d->tally[i], reasons[i].is_loss, "%s", detail[i]);
}

void cp_decoder_finish(cp_decoder *d)
{
    deliver_waiting(d, true);
    report_counts(d);
    d->tally[CP_TALLY_NO_OPERATOR] += cp_correlations_forgotten(d->correlations);
    write_tally(d);
}

void cp_decoder_free(cp_decoder *d)
{
    if (d->pending)
        free(d->pending->list);
    free(d->pending);
    cp_correlations_destroy(d->correlations);
    cp_names_destroy(d->names);
    cp_sets_free(d->sets);
    cp_calls_free(d);
    cp_syncs_free(d);
    *d = (cp_decoder){0};
}
