/* One pass over a buffer: each record is looked at where it lies and becomes an activity. What
 * needs to know of records that have not come yet is copied and waits, in a bounded list. */
#include "layouts.h"

#include "cuda.h"

#include <stdio.h>
#include <stdlib.h>
#include <time.h>

/* ---- kinds ---------------------------------------------------------------------------------------- */

typedef struct kind {
    void (*read)(cp_decoder *d, const uint8_t *record);
    uint32_t (*correlation)(uint32_t version, const uint8_t *record); /* NULL: needs no operator */
} kind;

static void read_external(cp_decoder *d, const uint8_t *record);

/* Known, and of no use: CUPTI sends them along. */
static void read_nothing(cp_decoder *d, const uint8_t *record)
{
    (void)d;
    (void)record;
}

static const kind kinds[CP_KIND_COUNT] = {
    [CP_KIND_MEMCPY] = {cp_read_memcpy, cp_memcpy_correlation},
    [CP_KIND_MEMSET] = {cp_read_memset, cp_memset_correlation},
    [CP_KIND_KERNEL] = {cp_read_kernel, cp_kernel_correlation},
    [CP_KIND_DRIVER] = {cp_read_call, cp_call_correlation},
    [CP_KIND_RUNTIME] = {cp_read_call, cp_call_correlation},
    [CP_KIND_DEVICE] = {read_nothing, NULL},
    [CP_KIND_CONTEXT] = {cp_read_context, NULL},
    [CP_KIND_CONCURRENT_KERNEL] = {cp_read_kernel, cp_kernel_correlation},
    [CP_KIND_OVERHEAD] = {cp_read_overhead, NULL},
    [CP_KIND_MEMCPY2] = {cp_read_memcpy2, cp_memcpy2_correlation},
    [CP_KIND_CUDA_EVENT] = {cp_read_event, NULL},
    [CP_KIND_STREAM] = {read_nothing, NULL},
    [CP_KIND_SYNCHRONIZATION] = {cp_read_sync, cp_sync_correlation},
    [CP_KIND_EXTERNAL_CORRELATION] = {read_external, NULL},
    [CP_KIND_INTERNAL_LAUNCH_API] = {cp_read_call, cp_call_correlation},
    [CP_KIND_MEMORY2] = {cp_read_memory, cp_memory_correlation},
    [CP_KIND_GRAPH_TRACE] = {cp_read_graph, cp_graph_correlation},
};

static bool is_call(uint32_t k)
{
    return k == CP_KIND_RUNTIME || k == CP_KIND_DRIVER || k == CP_KIND_INTERNAL_LAUNCH_API;
}

static void read_now(cp_decoder *d, const uint8_t *record)
{
    kinds[cp_record_kind(record)].read(d, record);
}

/* ---- what waits ---------------------------------------------------------------------------------------
 * CUPTI tells a launch's operator in a record of its own, which may come in a later buffer than the
 * launch, or even than the kernel. A call whose operator has not been told by the end of the buffer
 * that it is in has none, and so has what it launched. */

#define MOST_WAITING   16384u
#define MOST_BUFFERS   16u /* that a record waits for the call that launched it */
#define FEWEST_WAITING 256u

typedef struct waiting {
    uint8_t record[CP_RECORD_MOST_BYTES];
    uint32_t buffers; /* that have ended since it came */
} waiting;

struct cp_pending {
    waiting *list;
    uint32_t count, capacity;
};

static atomic_bool operators;

void cp_operators_expect(void)
{
    if (!atomic_load_explicit(&operators, memory_order_relaxed))
        atomic_store_explicit(&operators, true, memory_order_relaxed);
}

static bool has_operators(void) { return atomic_load_explicit(&operators, memory_order_relaxed); }

static bool is_known(cp_decoder *d, const uint8_t *record)
{
    const kind *k = &kinds[cp_record_kind(record)];
    return !has_operators() || !k->correlation ||
           cp_correlations_get(d->correlations, k->correlation(d->version, record)) != 0;
}

/* Waits of streams are of interest where the stream does something, now or later. */
static bool is_quiet(cp_decoder *d, const uint8_t *record)
{
    return cp_record_kind(record) == CP_KIND_SYNCHRONIZATION && cp_sync_is_quiet(d, record);
}

/* Recordings of events are told when the device has come to them. */
static bool is_unresolved(const cp_decoder *d, const uint8_t *record)
{
    return cp_record_kind(record) == CP_KIND_SYNCHRONIZATION && cp_sync_is_unresolved(d, record);
}

static bool make_room(struct cp_pending *p)
{
    if (p->count < p->capacity)
        return true;
    uint32_t capacity = p->capacity ? p->capacity * 2 : FEWEST_WAITING;
    waiting *list = capacity <= MOST_WAITING ? realloc(p->list, capacity * sizeof *list) : NULL;
    if (!list)
        return false;
    p->list = list;
    p->capacity = capacity;
    return true;
}

/* Deliver what need not wait any longer: what is known, what has waited for long, or everything. */
static void settle(cp_decoder *d, bool all)
{
    struct cp_pending *p = d->pending;
    uint32_t count = p->count, kept = 0;
    d->settling = true;
    for (uint32_t i = 0; i < count; i++) {
        waiting *w = &p->list[i];
        bool known = is_known(d, w->record), late = w->buffers < MOST_BUFFERS;
        if (known)
            late = is_quiet(d, w->record) || (late && is_unresolved(d, w->record));
        if (late && !all) {
            if (kept != i)
                p->list[kept] = *w;
            kept++;
            continue;
        }
        d->tally[CP_TALLY_NO_OPERATOR] += !known;
        read_now(d, w->record);
    }
    d->settling = false;
    p->count = kept;
}

bool cp_keep(cp_decoder *d, const uint8_t *record)
{
    struct cp_pending *p = d->pending;
    uint32_t bytes = d->bytes[cp_record_kind(record)];
    if (d->settling)
        return false;
    if (!make_room(p))
        settle(d, true);
    if (!make_room(p))
        return false;
    waiting *w = &p->list[p->count++];
    memcpy(w->record, record, bytes < sizeof w->record ? bytes : sizeof w->record);
    w->buffers = 0;
    return true;
}

static void buffer_ends(cp_decoder *d)
{
    struct cp_pending *p = d->pending;
    for (uint32_t i = 0; i < p->count; i++) {
        const uint8_t *record = p->list[i].record;
        p->list[i].buffers++;
        if (is_call(cp_record_kind(record)))
            cp_correlations_put(d->correlations, cp_call_correlation(d->version, record),
                                CP_NO_OPERATOR);
    }
    if (p->count)
        settle(d, false);
}

/* ---- operators ------------------------------------------------------------------------------------------- */

static void read_external(cp_decoder *d, const uint8_t *record)
{
    uint64_t id = cp_external_id(d->version, record);
    if (cp_external_kind(d->version, record) != CP_EXTERNAL_CUSTOM0 || id == 0 ||
        id == CP_NO_OPERATOR)
        return;
    cp_operators_expect();
    cp_correlations_put(d->correlations, cp_external_correlation(d->version, record), id);
}

uint64_t cp_operator_of(cp_decoder *d, uint32_t correlation_id)
{
    uint64_t id = has_operators() ? cp_correlations_get(d->correlations, correlation_id) : 0;
    return id == CP_NO_OPERATOR ? 0 : id;
}

/* ---- activities -------------------------------------------------------------------------------------------- */

/* The host draws the arrow from the call that has the same id. */
void cp_activity_place(cp_decoder *d, KinetoPlugin_Activity *a, uint32_t device, uint32_t stream,
                       uint32_t correlation_id)
{
    a->event.deviceId = (int32_t)device;
    a->event.resourceId = (int32_t)stream;
    a->event.eventId = correlation_id;
    a->externalId = cp_operator_of(d, correlation_id);
    a->flowType = KINETO_PLUGIN_PROFILE_EVENT_FLOW_TYPE_ASYNC_CPU_GPU;
    a->flowId = correlation_id;
}

void cp_deliver(cp_decoder *d, uint32_t k, KinetoPlugin_Activity *a)
{
    if (d->builder->emit(d->builder->pTraceBuilderHandle, a) == 0)
        d->delivered[k]++;
    else
        d->tally[CP_TALLY_NOT_DELIVERED]++;
}

/* What there was, and what of it has no time; what the host refuses, it counts itself. */
static void tell_counts(cp_decoder *d)
{
    uint64_t dropped = d->tally[CP_TALLY_NO_TIME], all = dropped + d->tally[CP_TALLY_NOT_DELIVERED];
    for (uint32_t k = 0; k < CP_KIND_COUNT; k++)
        all += d->delivered[k];
    KinetoPlugin_Counts counts = {.unpaddedStructSize =
                                      KINETO_PLUGIN_SIZE(KinetoPlugin_Counts, dropped),
                                  .requested = all - d->told,
                                  .dropped = dropped - d->told_dropped};
    if (!counts.requested || !KINETO_PLUGIN_HAS(d->builder, KinetoPlugin_TraceBuilder, addCounts))
        return;
    (void)d->builder->addCounts(d->builder->pTraceBuilderHandle, &counts);
    d->told = all;
    d->told_dropped = dropped;
}

/* ---- time ---------------------------------------------------------------------------------------------------
 * Durations in ns, for what is computed of them. The unit of the host's clock is measured, from the
 * beginning to now. */

#define LEAST_NS  100000u /* from the beginning */
#define NARROW_NS 2000u   /* between two readings that belong together */

static uint64_t now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC_RAW, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

/* Both clocks at one moment; again if the thread had to wait in between. */
static void read_clocks(const cp_decoder *d, uint64_t *ns, uint64_t *ticks)
{
    uint64_t narrowest = UINT64_MAX;
    for (int i = 0; i < 16 && narrowest > NARROW_NS; i++) {
        uint64_t before = now_ns(), read = d->builder->hostTicks(d->builder->pTraceBuilderHandle),
                 width = now_ns() - before;
        if (width >= narrowest)
            continue;
        narrowest = width;
        *ns = before + width / 2;
        *ticks = read;
    }
}

static void begin_clock(cp_decoder *d)
{
    d->ns_each = 1;
    if (d->clock == KINETO_PLUGIN_CLOCK_TICKS)
        read_clocks(d, &d->first_ns, &d->first_ticks);
}

static void measure_clock(cp_decoder *d)
{
    uint64_t ns = 0, ticks = 0;
    if (d->clock != KINETO_PLUGIN_CLOCK_TICKS)
        return;
    while (now_ns() - d->first_ns < LEAST_NS)
        ;
    read_clocks(d, &ns, &ticks);
    if (ticks > d->first_ticks)
        d->ns_each = (double)(ns - d->first_ns) / (double)(ticks - d->first_ticks);
}

/* ---- one buffer ---------------------------------------------------------------------------------------------- */

static void read_record(cp_decoder *d, const uint8_t *record)
{
    uint32_t k = cp_record_kind(record);
    if (k >= CP_KIND_COUNT || !kinds[k].read)
        d->tally[CP_TALLY_UNKNOWN_KIND]++;
    else if ((is_known(d, record) && !is_quiet(d, record)) || !cp_keep(d, record))
        kinds[k].read(d, record);
}

/* Does a record lie in the buffer, behind the one before? */
static bool is_whole(const cp_decoder *d, const uint8_t *record, const uint8_t *before,
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

/* At a record that is incomplete: how long it is, and how many follow, nobody knows. */
static void ends_early(cp_decoder *d, const uint8_t *last, const uint8_t *buffer, size_t valid)
{
    uint32_t k = last ? cp_record_kind(last) : CP_KIND_COUNT;
    size_t read = last ? (size_t)(last - buffer) + (k < CP_KIND_COUNT ? d->bytes[k] : 0) : 0;
    d->tally[CP_TALLY_CUT_SHORT]++;
    d->unread_bytes += read < valid ? valid - read : 0;
}

/* CUPTI's threads wrote the buffer: it is in no cache here. Records are some three lines each. */
#define READ_AHEAD 512

void cp_decoder_read(cp_decoder *d, uint8_t *buffer, size_t valid)
{
    uint8_t *record = NULL, *before = NULL;
    cp_result result;
    measure_clock(d);
    cp_names_look(d->names);
    while ((result = cp_cupti.next_record(buffer, valid, &record)) == CP_SUCCESS) {
        if (!is_whole(d, record, before, buffer, valid)) {
            ends_early(d, before, buffer, valid);
            break;
        }
        for (uintptr_t line = 0; line < 192; line += 64)
            __builtin_prefetch((const void *)((uintptr_t)record + READ_AHEAD + line));
        read_record(d, record);
        before = record;
    }
    if (result != CP_SUCCESS && result != CP_ERROR_MAX_LIMIT_REACHED)
        ends_early(d, before, buffer, valid);
    buffer_ends(d);
    tell_counts(d);
}

/* ---- life ------------------------------------------------------------------------------------------------------ */

bool cp_decoder_init(cp_decoder *d, const KinetoPlugin_TraceBuilder *builder, uint64_t types,
                     uint32_t cupti_version, int32_t clock)
{
    *d = (cp_decoder){.builder = builder,
                      .version = cupti_version,
                      .clock = clock,
                      .types = types,
                      .show_waits = true};
    atomic_store(&operators, false);
    for (uint32_t k = 0; k < CP_KIND_COUNT; k++)
        d->bytes[k] = (uint16_t)cp_record_bytes(k, cupti_version);
    d->correlations = cp_correlations_create();
    d->names = cp_names_create();
    d->pending = calloc(1, sizeof *d->pending);
    begin_clock(d);
    bool made = cp_sets_create(d) && cp_calls_create(d) && cp_syncs_create(d);
    if (made && d->correlations && d->names && d->pending)
        return true;
    cp_decoder_free(d);
    return false;
}

static void write_ledger(cp_decoder *d)
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
             "with what is behind them in their buffers: %llu bytes were not read",
             (unsigned long long)d->unread_bytes);
    for (size_t i = 0; i < CP_TALLY_COUNT; i++)
        if (d->tally[i] && reasons[i].text)
            cp_note(d->builder, reasons[i].text, d->tally[i], reasons[i].is_loss, "%s", detail[i]);
}

void cp_decoder_finish(cp_decoder *d)
{
    settle(d, true);
    tell_counts(d);
    d->tally[CP_TALLY_NO_OPERATOR] += cp_correlations_forgotten(d->correlations);
    write_ledger(d);
}

void cp_decoder_free(cp_decoder *d)
{
    if (d->pending)
        free(d->pending->list);
    free(d->pending);
    cp_correlations_destroy(d->correlations);
    cp_names_destroy(d->names);
    cp_sets_free(d);
    cp_calls_free(d);
    cp_syncs_free(d);
    *d = (cp_decoder){0};
}
