/* The plug-in interface: one session at a time, which delivers submissions as they end. Threads of
 * the program may deliver at any moment, so that the builder is entered and left by count
 * (vl_builder_enter), and stop waits until no thread is inside. */
#include "vulkan.h"

#include "../common/profiler.h"

#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#define DRAIN_AT_STOP_MS 100

static const int32_t supported_types[] = {
    KINETO_PLUGIN_PROFILE_EVENT_TYPE_RUNTIME,    KINETO_PLUGIN_PROFILE_EVENT_TYPE_CONCURRENT_KERNEL,
    KINETO_PLUGIN_PROFILE_EVENT_TYPE_GPU_MEMCPY, KINETO_PLUGIN_PROFILE_EVENT_TYPE_GPU_MEMSET,
    KINETO_PLUGIN_PROFILE_EVENT_TYPE_CUDA_SYNC,
};

struct KinetoPlugin_ProfilerHandle {
    atomic_bool created;
    uint64_t types; /* bit per enabled type */
};

static KinetoPlugin_ProfilerHandle profiler;
static atomic_bool registered, begun, exit_handled;
static atomic_bool ending;   /* the process is past its exit handlers */
static atomic_uint sessions; /* number of the current one, from 1 */
static _Atomic(const KinetoPlugin_TraceBuilder *) live_builder;
static atomic_uint builder_users; /* threads that may be inside the builder */
static atomic_ullong types;       /* bits of the types that the session wants */
static atomic_ullong losses[VL_LOSS_COUNT], host_times;
static atomic_uint last_correlation;

atomic_bool vl_active;

/* ---- the builder ----------------------------------------------------------------------------- */

const KinetoPlugin_TraceBuilder *vl_builder_enter(void)
{
    if (!atomic_load_explicit(&live_builder, memory_order_relaxed))
        return NULL;
    atomic_fetch_add(&builder_users, 1);
    const KinetoPlugin_TraceBuilder *builder = atomic_load(&live_builder);
    if (!builder)
        atomic_fetch_sub(&builder_users, 1);
    return builder;
}

void vl_builder_leave(void) { atomic_fetch_sub_explicit(&builder_users, 1, memory_order_release); }

/* Nothing blocks inside, but a thread may be descheduled: after a second it is given up. */
static void wait_for_builder_users(void)
{
    int64_t limit = vl_now_ns(CLOCK_MONOTONIC) + INT64_C(1000000000);

    while (atomic_load_explicit(&builder_users, memory_order_acquire) &&
           vl_now_ns(CLOCK_MONOTONIC) < limit)
        sched_yield();
}

uint32_t vl_session_current(void) { return atomic_load(&sessions); }

uint32_t vl_session_taking(void) { return vl_is_active() ? atomic_load(&sessions) : 0; }

bool vl_session_wants(int32_t type)
{
    return atomic_load_explicit(&types, memory_order_relaxed) >> type & 1;
}

uint32_t vl_next_correlation(void)
{
    uint32_t id;

    do
        id = atomic_fetch_add_explicit(&last_correlation, 1, memory_order_relaxed) + 1;
    while (id == 0);
    return id;
}

/* Tells the host how many activities were requested or dropped. */
static void add_activity_counts(const KinetoPlugin_TraceBuilder *builder, uint64_t requested,
                                uint64_t dropped)
{
    KinetoPlugin_Counts counts = {
        .unpaddedStructSize = KINETO_PLUGIN_SIZE(KinetoPlugin_Counts, dropped),
        .requested = requested,
        .dropped = dropped,
    };

    (void)builder->addCounts(builder->pTraceBuilderHandle, &counts);
}

void vl_count_requested(const KinetoPlugin_TraceBuilder *builder, uint64_t count)
{
    if (count)
        add_activity_counts(builder, count, 0);
}

void vl_count_lost(const KinetoPlugin_TraceBuilder *builder, vl_loss why, uint64_t count)
{
    if (!count)
        return;
    atomic_fetch_add(&losses[why], count);
    add_activity_counts(builder, 0, count);
}

void vl_count_host_times(uint64_t count) { atomic_fetch_add(&host_times, count); }

/* The ledger has one number for all losses of a source; the header has the reasons. */
static void write_loss_reasons(const KinetoPlugin_TraceBuilder *builder)
{
    static const char *const words[] = {
#define VL_X(name, text) text,
        VL_LOSS_MAP(VL_X)
#undef VL_X
    };
    char json[512];
    size_t n = 0;

    for (size_t i = 0; i < VL_LOSS_COUNT; i++) {
        unsigned long long lost = atomic_exchange(&losses[i], 0);
        if (lost)
            n += (size_t)snprintf(json + n, sizeof json - n, "%s\"%s\": %llu", n ? ", " : "{",
                                  words[i], lost);
    }
    if (n) {
        snprintf(json + n, sizeof json - n, "}");
        (void)builder->addHeaderMetadata(builder->pTraceBuilderHandle, "vulkan_lost", json);
    }
}

/* Commands that have the host's times. */
static void write_host_times(const KinetoPlugin_TraceBuilder *builder)
{
    static const char detail[] =
        "these commands have no timestamps of the device: the times of their submission are those "
        "at which the host submitted it and saw it ended (argument \"timing\")";
    uint64_t count = atomic_exchange(&host_times, 0);

    if (count && KINETO_PLUGIN_HAS(builder, KinetoPlugin_TraceBuilder, addLedgerLine))
        (void)builder->addLedgerLine(builder->pTraceBuilderHandle, "commands timed by the host",
                                     count, 0, detail);
}

/* Delivers what has ended and counts the rest. */
static void finish_deliveries(int wait_ms)
{
    vl_drain(wait_ms);
    const KinetoPlugin_TraceBuilder *builder = vl_builder_enter();
    if (builder) {
        write_loss_reasons(builder);
        write_host_times(builder);
        vl_builder_leave();
    }
}

/* ---- interface ------------------------------------------------------------------------------- */

/* One session at a time; several hosts may try. */
static int create_vulkan_session(KinetoPlugin_ProfilerCreate_Params *params)
{
    bool free_now = false;

    if (!PLUGIN_IS_WHOLE(params, KinetoPlugin_ProfilerCreate_Params, pProfilerHandle) ||
        !atomic_compare_exchange_strong(&profiler.created, &free_now, true))
        return -1;
    profiler.types = plugin_types_wanted(params);
    params->pProfilerHandle = &profiler;
    return 0;
}

static int destroy_vulkan_session(KinetoPlugin_ProfilerDestroy_Params *params)
{
    if (!PLUGIN_IS_WHOLE(params, KinetoPlugin_ProfilerDestroy_Params, pProfilerHandle) ||
        params->pProfilerHandle != &profiler)
        return -1;
    atomic_store(&profiler.created, false);
    return 0;
}

static int query_vulkan(KinetoPlugin_ProfilerQuery_Params *params)
{
    return plugin_query(params, "Vulkan", "vulkan", supported_types, VL_COUNT(supported_types));
}

/* The order matters: the builder is published before submissions may be taken up. */
static int start_vulkan_session(KinetoPlugin_ProfilerStart_Params *params)
{
    const KinetoPlugin_TraceBuilder *builder = plugin_live_builder(params);

    if (!builder || params->pProfilerHandle != &profiler || atomic_load(&live_builder))
        return -1;
    if (atomic_fetch_add(&sessions, 1) + 1 == 0)
        atomic_store(&sessions, 1);
    atomic_store(&live_builder, builder);
    vl_gpus_announce(builder);
    vl_queues_announce(builder);
    atomic_store(&types, profiler.types);
    atomic_store(&vl_active, true);
    return 0;
}

/* The reverse order: no new submissions, then drain, then wait for threads inside. */
static int stop_vulkan_session(KinetoPlugin_ProfilerStop_Params *params)
{
    if (!PLUGIN_IS_WHOLE(params, KinetoPlugin_ProfilerStop_Params, pProfilerHandle) ||
        params->pProfilerHandle != &profiler || !atomic_load(&live_builder))
        return -1;
    atomic_store(&vl_active, false);
    if (!atomic_load(&ending))
        finish_deliveries(DRAIN_AT_STOP_MS);
    atomic_store(&live_builder, NULL);
    wait_for_builder_users();
    return 0;
}

static void collect_device(vl_device *device, void *context)
{
    (void)context;
    vl_collect(device);
}

static int process_vulkan_events(KinetoPlugin_ProfilerProcessEvents_Params *params)
{
    if (!PLUGIN_IS_WHOLE(params, KinetoPlugin_ProfilerProcessEvents_Params, pTraceBuilder) ||
        params->pProfilerHandle != &profiler)
        return -1;
    if (atomic_load(&live_builder) && !atomic_load(&ending))
        vl_devices_visit(collect_device, NULL);
    return 0;
}

/* While paused, submissions that were taken up are still delivered. */
static int toggle_vulkan_session(KinetoPlugin_ProfilerToggleCollection_Params *params)
{
    if (!PLUGIN_IS_WHOLE(params, KinetoPlugin_ProfilerToggleCollection_Params, enable) ||
        params->pProfilerHandle != &profiler || !atomic_load(&live_builder))
        return -1;
    atomic_store(&vl_active, params->enable != 0);
    return 0;
}

static const KinetoPlugin_ProfilerInterface vulkan_interface = {
    .unpaddedStructSize =
        KINETO_PLUGIN_SIZE(KinetoPlugin_ProfilerInterface, profilerToggleCollection),
    .profilerCreate = create_vulkan_session,
    .profilerDestroy = destroy_vulkan_session,
    .profilerQuery = query_vulkan,
    .profilerStart = start_vulkan_session,
    .profilerStop = stop_vulkan_session,
    .profilerProcessEvents = process_vulkan_events,
    .profilerToggleCollection = toggle_vulkan_session,
};

KINETO_API int KinetoPlugin_register(const KinetoPlugin_Registry *registry);

/* Called by this library when a loader starts the layer, or by a host that loads plug-ins from a
 * directory; either may come first, and only the first one registers. */
int KinetoPlugin_register(const KinetoPlugin_Registry *registry)
{
    return plugin_register_once(registry, &vulkan_interface, &registered, NULL);
}

/* After a fork the child has none of the driver's threads, and Vulkan cannot be used there: what is
 * in flight belongs to the parent. */
static void reset_in_child(void)
{
    atomic_store(&builder_users, 0);
    for (size_t i = 0; i < VL_LOSS_COUNT; i++)
        atomic_store(&losses[i], 0);
    atomic_store(&host_times, 0);
    vl_gpus_after_fork();
    vl_devices_after_fork();
}

void vl_profiler_begin(void)
{
    const KinetoPlugin_Registry *registry = kineto_plugin_registry();

    if (atomic_exchange(&begun, true))
        return;
    (void)pthread_atfork(NULL, NULL, reset_in_child);
    if (registry)
        (void)KinetoPlugin_register(registry);
}

bool vl_profiler_has_begun(void) { return atomic_load(&begun); }

/* Does not wait, since the program is ending: commands that still run are counted as lost. */
static void finish_at_exit(void)
{
    if (atomic_exchange(&ending, true))
        return;
    if (atomic_load(&live_builder))
        finish_deliveries(0);
    atomic_store(&vl_active, false);
}

/* The first device exists, so that the driver is loaded, and its own exit handlers run after this
 * one. */
void vl_profiler_at_device(void)
{
    if (!atomic_exchange(&exit_handled, true))
        (void)atexit(finish_at_exit);
}
