/* A finished command becomes an activity. Until it is known which clock its device uses, it waits
 * with the others of the device. */
#include "opencl.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

#define MAX_HELD     256u
#define MAX_METADATA 16u

/* ---- one activity ---------------------------------------------------------------------------- */

typedef struct metadata {
    KinetoPlugin_Metadata items[MAX_METADATA];
    uint32_t count;
} metadata;

static KinetoPlugin_Metadata *add(metadata *m, const char *key, int32_t type)
{
    KinetoPlugin_Metadata *item = &m->items[m->count++];

    *item = (KinetoPlugin_Metadata){.pKey = key, .valueType = type, .count = 1};
    return item;
}

static void add_int(metadata *m, const char *key, int64_t value)
{
    add(m, key, KINETO_PLUGIN_VALUE_INT)->i = value;
}

static void add_ints(metadata *m, const char *key, const int64_t *values, uint32_t count)
{
    KinetoPlugin_Metadata *item = add(m, key, KINETO_PLUGIN_VALUE_INTS);

    item->pointer = values;
    item->count = count;
}

static void describe(metadata *m, const co_work *work, int64_t duration_ns, bool bad)
{
    add_int(m, "device", work->device->index);
    if (work->context >= 0)
        add_int(m, "context", work->context);
    add_int(m, "stream", work->queue);
    add_int(m, "queued", (int64_t)work->queued);
    add_int(m, "submitted", (int64_t)work->submitted);
    if (work->dims) {
        add_ints(m, "grid", work->global, work->dims);
        if (work->has_local)
            add_ints(m, "block", work->local, work->dims);
        if (work->has_offset)
            add_ints(m, "global offset", work->offset, work->dims);
    }
    if (work->bytes) {
        add(m, "bytes", KINETO_PLUGIN_VALUE_UINT)->u = work->bytes;
        if (duration_ns > 0)
            add(m, "memory bandwidth (GB/s)", KINETO_PLUGIN_VALUE_DOUBLE)->d =
                (double)work->bytes / (double)duration_ns;
    }
    if (bad)
        add(m, "bad timestamps", KINETO_PLUGIN_VALUE_BOOL)->u = 1;
}

static void emit(const KinetoPlugin_TraceBuilder *builder, const co_work *work, int32_t clock)
{
    int64_t start = (int64_t)work->start, end = (int64_t)work->end;
    bool bad = end < start;
    metadata m = {.count = 0};

    if (bad)
        end = start;
    describe(&m, work, end - start, bad);
    KinetoPlugin_Activity activity = {
        .unpaddedStructSize = KINETO_PLUGIN_SIZE(KinetoPlugin_Activity, pMetadata),
        .event = {.unpaddedStructSize = KINETO_PLUGIN_SIZE(KinetoPlugin_ProfileEvent, resourceId),
                  .eventType = work->type,
                  .startTimeUtcNs = start,
                  .endTimeUtcNs = end,
                  .eventId = work->correlation_id,
                  .deviceId = work->device->index,
                  .resourceId = work->queue},
        .clock = clock,
        .nameSize = work->name_size,
        .pName = work->name,
        .flowType = KINETO_PLUGIN_PROFILE_EVENT_FLOW_TYPE_ASYNC_CPU_GPU,
        .flowId = work->correlation_id,
        .metadataCount = m.count,
        .pMetadata = m.items,
    };
    /* A refusal is counted by the host. */
    (void)builder->emit(builder->pTraceBuilderHandle, &activity);
}

/* ---- the device's clock ---------------------------------------------------------------------- */

static void sample_timer(const KinetoPlugin_TraceBuilder *builder, co_device *device)
{
    KinetoPlugin_TraceBuilderHandle *host = builder->pTraceBuilderHandle;
    cl_ulong device_ns = 0, host_ns = 0;
    uint64_t before = builder->hostTicks(host);

    if (co_next.clGetDeviceAndHostTimer(device->handle, &device_ns, &host_ns) != CL_SUCCESS) {
        device->has_timer = false;
        return;
    }
    (void)builder->addClockSample(host, device->clock_number, (int64_t)device_ns, before,
                                  builder->hostTicks(host));
}

/* Number of the device's clock in this session, -1 if there is none. Under the device's lock. */
static int32_t clock_of(const KinetoPlugin_TraceBuilder *builder, co_device *device)
{
    uint32_t session = co_session_current();

    if (device->clock.state == CO_CLOCK_HOST)
        return co_clock_number(device->clock.host);
    if (device->clock_session != session) {
        device->clock_session = session;
        device->clock_number = -1;
        if (builder->registerClock(builder->pTraceBuilderHandle, device->name,
                                   &device->clock_number) != 0)
            device->clock_number = -1;
        else if (device->has_timer)
            sample_timer(builder, device);
    }
    return device->clock_number;
}

/* Where the driver reads both clocks at once, that is the better sample. */
static void sample(const KinetoPlugin_TraceBuilder *builder, const co_work *work, int32_t clock)
{
    if (!work->bracket.used || !work->bracket.before_ticks || !work->bracket.after_ticks)
        return;
    if (work->device->has_timer)
        sample_timer(builder, work->device);
    else
        (void)builder->addClockSample(builder->pTraceBuilderHandle, clock, (int64_t)work->queued,
                                      work->bracket.before_ticks, work->bracket.after_ticks);
}

static void hand_over(const KinetoPlugin_TraceBuilder *builder, const co_work *work)
{
    co_device *device = work->device;
    int32_t clock = clock_of(builder, device);

    if (clock < 0) {
        co_count_lost(builder, CO_LOSS_NO_CLOCK);
        return;
    }
    if (device->clock.state == CO_CLOCK_DEVICE)
        sample(builder, work, clock);
    emit(builder, work, clock);
}

static void flush_held(const KinetoPlugin_TraceBuilder *builder, co_device *device)
{
    for (uint32_t i = 0; i < device->held_count; i++) {
        if (device->held[i].session == co_session_current())
            hand_over(builder, &device->held[i]);
    }
    device->held_count = 0;
    free(device->held);
    device->held = NULL;
}

static bool decide(const KinetoPlugin_TraceBuilder *builder, co_device *device, bool force)
{
    if (!co_clock_decide(&device->clock, force))
        return false;
    atomic_store(&device->clock_state, (int)device->clock.state);
    flush_held(builder, device);
    return true;
}

static bool hold(co_device *device, const co_work *work)
{
    if (!device->held)
        device->held = calloc(MAX_HELD, sizeof *device->held);
    if (!device->held || device->held_count == MAX_HELD)
        return false;
    device->held[device->held_count++] = *work;
    return true;
}

/* First commands of a device: their times tell which clock it has. */
static void decide_or_hold(const KinetoPlugin_TraceBuilder *builder, const co_work *work)
{
    co_device *device = work->device;

    co_clock_vote(&device->clock, &work->bracket, (int64_t)work->queued, device->slack_ns);
    if (decide(builder, device, false) || !hold(device, work)) {
        (void)decide(builder, device, true);
        hand_over(builder, work);
    }
}

/* ---- delivery -------------------------------------------------------------------------------- */

static bool read_times(co_work *work, cl_event event)
{
    static const cl_profiling_info what[] = {CL_PROFILING_COMMAND_QUEUED,
                                             CL_PROFILING_COMMAND_SUBMIT,
                                             CL_PROFILING_COMMAND_START, CL_PROFILING_COMMAND_END};
    cl_ulong *times[] = {&work->queued, &work->submitted, &work->start, &work->end};

    for (size_t i = 0; i < CO_COUNT(what); i++) {
        *times[i] = 0;
        if (co_next.clGetEventProfilingInfo(event, what[i], sizeof(cl_ulong), times[i], NULL) !=
            CL_SUCCESS)
            return false;
    }
    return work->start != 0 || work->end != 0;
}

static void deliver(const KinetoPlugin_TraceBuilder *builder, co_work *work)
{
    co_device *device = work->device;

    if (atomic_load(&device->clock_state) == CO_CLOCK_HOST) {
        emit(builder, work, co_clock_number(device->clock.host));
        return;
    }
    pthread_mutex_lock(&device->lock);
    if (device->clock.state == CO_CLOCK_UNDECIDED)
        decide_or_hold(builder, work);
    else
        hand_over(builder, work);
    pthread_mutex_unlock(&device->lock);
}

void co_deliver(const KinetoPlugin_TraceBuilder *builder, co_work *work, cl_event event,
                cl_int status)
{
    if (work->session != co_session_current())
        return;
    if (status == CO_STATUS_NO_CALLBACK)
        co_count_lost(builder, CO_LOSS_NO_CALLBACK);
    else if (status < 0)
        co_count_lost(builder, CO_LOSS_FAILED);
    else if (status > CL_COMPLETE)
        co_count_lost(builder, CO_LOSS_UNFINISHED);
    else if (!read_times(work, event))
        co_count_lost(builder, CO_LOSS_NO_TIMES);
    else
        deliver(builder, work);
}

void co_deliver_held(void)
{
    const KinetoPlugin_TraceBuilder *builder = co_builder_enter();
    uint32_t devices = co_device_count();

    if (!builder)
        return;
    for (uint32_t i = 0; i < devices; i++) {
        co_device *device = co_device_at(i);
        pthread_mutex_lock(&device->lock);
        if (device->held_count)
            (void)decide(builder, device, true);
        pthread_mutex_unlock(&device->lock);
    }
    co_builder_leave();
}
