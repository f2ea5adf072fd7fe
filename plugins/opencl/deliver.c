/* Turns finished commands into activities. Until the clock of a device is known, its commands wait
 * in the device's list. All work on a device's clock happens under its lock; once it has a host
 * clock, delivery needs no lock. */
#include "opencl.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

#define MAX_HELD     256u
#define MAX_METADATA 16u

/* ---- one activity ---------------------------------------------------------------------------- */

typedef struct activity_metadata {
    KinetoPlugin_Metadata items[MAX_METADATA];
    uint32_t count;
    int64_t groups[3];
} activity_metadata;

/* The next item, to be filled; MAX_METADATA covers all that describe_work adds. */
static KinetoPlugin_Metadata *add_metadata(activity_metadata *m, const char *key, int32_t type)
{
    KinetoPlugin_Metadata *item = &m->items[m->count++];

    *item = (KinetoPlugin_Metadata){.pKey = key, .valueType = type, .count = 1};
    return item;
}

static void add_int_metadata(activity_metadata *m, const char *key, int64_t value)
{
    add_metadata(m, key, KINETO_PLUGIN_VALUE_INT)->i = value;
}

static void add_ints_metadata(activity_metadata *m, const char *key, const int64_t *values,
                              uint32_t count)
{
    KinetoPlugin_Metadata *item = add_metadata(m, key, KINETO_PLUGIN_VALUE_INTS);

    item->pointer = values;
    item->count = count;
}

static int64_t divide_up(int64_t items, int64_t group)
{
    return items > 0 && group > 0 ? (items - 1) / group + 1 : items;
}

/* A grid counts groups, as those of all sources. Where the driver chose the size of a group only the number of
 * items is known. */
static void describe_sizes(activity_metadata *m, const co_work *work)
{
    for (uint32_t i = 0; i < work->dims; i++)
        m->groups[i] = divide_up(work->global[i], work->local[i]);
    if (work->has_local) {
        add_ints_metadata(m, "grid", m->groups, work->dims);
        add_ints_metadata(m, "block", work->local, work->dims);
    } else {
        add_ints_metadata(m, "global size", work->global, work->dims);
    }
    if (work->has_offset)
        add_ints_metadata(m, "global offset", work->offset, work->dims);
}

/* Microseconds from the start of the work, as Kineto has them of Level Zero; 0: the driver does not know. */
static void add_time_before(activity_metadata *m, const char *key, cl_ulong time, cl_ulong start)
{
    if (time)
        add_metadata(m, key, KINETO_PLUGIN_VALUE_DOUBLE)->d = (double)(int64_t)(time - start) / 1000.0;
}

/* The arguments of the activity, under the keys of Kineto's GPU activities. */
static void describe_work(activity_metadata *m, const co_work *work, int64_t duration_ns, bool bad)
{
    add_int_metadata(m, "device", work->device->index);
    if (work->context >= 0)
        add_int_metadata(m, "context", work->context);
    add_int_metadata(m, "stream", work->queue);
    add_time_before(m, "queued_rel_to_start", work->queued, work->start);
    add_time_before(m, "submitted_rel_to_start", work->submitted, work->start);
    if (work->dims)
        describe_sizes(m, work);
    if (work->kernels)
        add_int_metadata(m, "kernels", work->kernels);
    if (work->bytes) {
        add_metadata(m, "bytes", KINETO_PLUGIN_VALUE_UINT)->u = work->bytes;
        if (duration_ns > 0)
            add_metadata(m, "memory bandwidth (GB/s)", KINETO_PLUGIN_VALUE_DOUBLE)->d =
                (double)work->bytes / (double)duration_ns;
    }
    if (bad)
        add_metadata(m, "bad timestamps", KINETO_PLUGIN_VALUE_BOOL)->u = 1;
}

/* Hands the activity to the host. An end before the start becomes a duration of 0 with a note. */
static void emit_activity(const KinetoPlugin_TraceBuilder *builder, const co_work *work,
                          int32_t clock)
{
    int64_t start = (int64_t)work->start, end = (int64_t)work->end;
    bool bad = end < start;
    activity_metadata m = {.count = 0};

    if (bad)
        end = start;
    describe_work(&m, work, end - start, bad);
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

/* A pair of device and host time from the driver, for the host's fit of the clock. */
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

/* Number of the device's clock in this session, registered at its first use; -1: none. The caller
 * holds the device's lock. */
static int32_t get_device_clock(const KinetoPlugin_TraceBuilder *builder, co_device *device)
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

/* A pair of host and device time for the clock. If the driver can read both clocks at once, that is
 * more exact than the bracket. */
static void sample_device_clock(const KinetoPlugin_TraceBuilder *builder, const co_work *work,
                                int32_t clock)
{
    if (!work->bracket.used || !work->bracket.before_ticks || !work->bracket.after_ticks)
        return;
    if (work->device->has_timer)
        sample_timer(builder, work->device);
    else
        (void)builder->addClockSample(builder->pTraceBuilderHandle, clock, (int64_t)work->queued,
                                      work->bracket.before_ticks, work->bracket.after_ticks);
}

/* Delivers a command whose device's clock is decided. The caller holds the device's lock. */
static void deliver_with_clock(const KinetoPlugin_TraceBuilder *builder, const co_work *work)
{
    co_device *device = work->device;
    int32_t clock = get_device_clock(builder, device);

    if (clock < 0) {
        co_count_lost(builder, CO_LOSS_NO_CLOCK);
        return;
    }
    if (device->clock.state == CO_CLOCK_DEVICE)
        sample_device_clock(builder, work, clock);
    emit_activity(builder, work, clock);
}

/* Delivers the commands that waited for the clock. The device's lock is held. */
static void deliver_held_works(const KinetoPlugin_TraceBuilder *builder, co_device *device)
{
    for (uint32_t i = 0; i < device->held_count; i++) {
        if (device->held[i].session == co_session_current())
            deliver_with_clock(builder, &device->held[i]);
    }
    device->held_count = 0;
    free(device->held);
    device->held = NULL;
}

/* Decides the device's clock if possible (`force`: in any case) and delivers the held commands
 * then. */
static bool decide_clock(const KinetoPlugin_TraceBuilder *builder, co_device *device, bool force)
{
    if (!co_clock_decide(&device->clock, force))
        return false;
    atomic_store(&device->clock_state, (int)device->clock.state);
    deliver_held_works(builder, device);
    return true;
}

/* Keeps a command until the clock is decided. False: the list is full. */
static bool hold_work(co_device *device, const co_work *work)
{
    if (!device->held)
        device->held = calloc(MAX_HELD, sizeof *device->held);
    if (!device->held || device->held_count == MAX_HELD)
        return false;
    device->held[device->held_count++] = *work;
    return true;
}

/* The first commands of a device: their times vote for its clock. */
static void decide_clock_or_hold(const KinetoPlugin_TraceBuilder *builder, const co_work *work)
{
    co_device *device = work->device;

    co_clock_vote(&device->clock, &work->bracket, (int64_t)work->queued, device->slack_ns);
    if (decide_clock(builder, device, false) || !hold_work(device, work)) {
        (void)decide_clock(builder, device, true);
        deliver_with_clock(builder, work);
    }
}

/* ---- delivery -------------------------------------------------------------------------------- */

/* False: the driver has no times for the event. */
static bool read_command_times(co_work *work, cl_event event)
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

/* Without the lock if the clock is a host clock, which never changes again. */
static void deliver_work(const KinetoPlugin_TraceBuilder *builder, co_work *work)
{
    co_device *device = work->device;

    if (atomic_load(&device->clock_state) == CO_CLOCK_HOST) {
        emit_activity(builder, work, co_clock_number(device->clock.host));
        return;
    }
    pthread_mutex_lock(&device->lock);
    if (device->clock.state == CO_CLOCK_UNDECIDED)
        decide_clock_or_hold(builder, work);
    else
        deliver_with_clock(builder, work);
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
    else if (!read_command_times(work, event))
        co_count_lost(builder, CO_LOSS_NO_TIMES);
    else
        deliver_work(builder, work);
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
            (void)decide_clock(builder, device, true);
        pthread_mutex_unlock(&device->lock);
    }
    co_builder_leave();
}
