/* The plug-in interface: one session at a time, which delivers commands as they finish. Callbacks
 * of drivers may run at any moment, so that the builder is entered and left by count
 * (co_builder_enter), and stop waits until no thread is inside. */
#include "opencl.h"

#include "../common/profiler.h"

#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#define DRAIN_AT_STOP_MS 100

static const int32_t supported_types[] = {
    KINETO_PLUGIN_PROFILE_EVENT_TYPE_RUNTIME,
    KINETO_PLUGIN_PROFILE_EVENT_TYPE_CONCURRENT_KERNEL,
    KINETO_PLUGIN_PROFILE_EVENT_TYPE_GPU_MEMCPY,
    KINETO_PLUGIN_PROFILE_EVENT_TYPE_GPU_MEMSET,
};

struct KinetoPlugin_ProfilerHandle {
    atomic_bool created;
    uint32_t types; /* bit per enabled type */
};

static KinetoPlugin_ProfilerHandle profiler;
static atomic_bool registered;
static atomic_bool begun;     /* a loader has started the layer */
static atomic_uint sessions;  /* number of the current one, from 1 */
static atomic_bool accepting; /* commands that were taken up may still be submitted */
static atomic_bool ending;    /* the process is past its exit handlers */
static _Atomic(const KinetoPlugin_TraceBuilder *) live_builder;
/* Threads that may be inside the builder. */
static atomic_uint builder_users;
/* Bits of the types that are taken up now. */
static atomic_uint types;
static atomic_ullong losses[CO_LOSS_COUNT];

atomic_bool co_active;

/* ---- the builder ----------------------------------------------------------------------------- */

const KinetoPlugin_TraceBuilder *co_builder_enter(void)
{
    if (!atomic_load_explicit(&live_builder, memory_order_relaxed))
        return NULL;
    atomic_fetch_add(&builder_users, 1);
    const KinetoPlugin_TraceBuilder *builder = atomic_load(&live_builder);
    if (!builder)
        atomic_fetch_sub(&builder_users, 1);
    return builder;
}

void co_builder_leave(void) { atomic_fetch_sub_explicit(&builder_users, 1, memory_order_release); }

/* Waits until no thread is inside the builder. Nothing blocks in there, but a thread may be
 * descheduled: after a second it is given up. */
static void wait_for_builder_users(void)
{
    int64_t limit = co_now_ns(CLOCK_MONOTONIC) + INT64_C(1000000000);

    while (atomic_load(&builder_users) && co_now_ns(CLOCK_MONOTONIC) < limit)
        sched_yield();
}

uint32_t co_session_current(void) { return atomic_load(&sessions); }

bool co_session_accepts(uint32_t session)
{
    return atomic_load(&accepting) && atomic_load(&sessions) == session;
}

uint32_t co_session_wants(int32_t type)
{
    return atomic_load_explicit(&types, memory_order_acquire) >> type & 1 ? atomic_load(&sessions)
                                                                          : 0;
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

void co_count_requested(const KinetoPlugin_TraceBuilder *builder)
{
    add_activity_counts(builder, 1, 0);
}

void co_count_lost(const KinetoPlugin_TraceBuilder *builder, co_loss why)
{
    atomic_fetch_add(&losses[why], 1);
    add_activity_counts(builder, 0, 1);
}

/* The ledger has one number for all losses of a source; the header has the reasons. */
static void write_loss_reasons(const KinetoPlugin_TraceBuilder *builder)
{
    static const char *const words[] = {
#define CO_X(name, text) text,
        CO_LOSS_MAP(CO_X)
#undef CO_X
    };
    char json[512];
    size_t n = 0;

    for (size_t i = 0; i < CO_LOSS_COUNT; i++) {
        unsigned long long lost = atomic_load(&losses[i]);
        if (lost)
            n += (size_t)snprintf(json + n, sizeof json - n, "%s\"%s\": %llu", n ? ", " : "{",
                                  words[i], lost);
    }
    if (n) {
        snprintf(json + n, sizeof json - n, "}");
        (void)builder->addHeaderMetadata(builder->pTraceBuilderHandle, "opencl_lost", json);
    }
}

/* Delivers all finished commands and counts the others. */
static void finish_deliveries(int wait_ms)
{
    co_commands_drain(wait_ms);
    co_deliver_held();
    const KinetoPlugin_TraceBuilder *builder = co_builder_enter();
    if (builder) {
        write_loss_reasons(builder);
        co_builder_leave();
    }
}

/* ---- interface ------------------------------------------------------------------------------- */

/* One session at a time; several hosts may try. */
static int create_opencl_session(KinetoPlugin_ProfilerCreate_Params *params)
{
    bool free_now = false;

    if (!PLUGIN_IS_WHOLE(params, KinetoPlugin_ProfilerCreate_Params, pProfilerHandle) ||
        !atomic_compare_exchange_strong(&profiler.created, &free_now, true))
        return -1;
    profiler.types = (uint32_t)plugin_types_wanted(params);
    params->pProfilerHandle = &profiler;
    return 0;
}

static int destroy_opencl_session(KinetoPlugin_ProfilerDestroy_Params *params)
{
    if (!PLUGIN_IS_WHOLE(params, KinetoPlugin_ProfilerDestroy_Params, pProfilerHandle) ||
        params->pProfilerHandle != &profiler)
        return -1;
    atomic_store(&profiler.created, false);
    return 0;
}

static int query_opencl(KinetoPlugin_ProfilerQuery_Params *params)
{
    return plugin_query(params, "OpenCL", "opencl", supported_types, CO_COUNT(supported_types));
}

/* The order matters: the builder is published before commands may be taken up. */
static int start_opencl_session(KinetoPlugin_ProfilerStart_Params *params)
{
    const KinetoPlugin_TraceBuilder *builder = plugin_live_builder(params);

    if (!builder || params->pProfilerHandle != &profiler || atomic_load(&live_builder))
        return -1;
    for (size_t i = 0; i < CO_LOSS_COUNT; i++)
        atomic_store(&losses[i], 0);
    if (atomic_fetch_add(&sessions, 1) + 1 == 0)
        atomic_store(&sessions, 1);
    atomic_store(&live_builder, builder);
    co_queues_announce(builder);
    atomic_store(&accepting, true);
    atomic_store(&types, profiler.types);
    atomic_store(&co_active, true);
    return 0;
}

/* The reverse order: no new commands, then wait for threads inside, then drain. */
static int stop_opencl_session(KinetoPlugin_ProfilerStop_Params *params)
{
    if (!PLUGIN_IS_WHOLE(params, KinetoPlugin_ProfilerStop_Params, pProfilerHandle) ||
        params->pProfilerHandle != &profiler || !atomic_load(&live_builder))
        return -1;
    atomic_store(&co_active, false);
    atomic_store(&types, 0);
    atomic_store(&accepting, false);
    /* After this every command that was taken up is in the table of commands. */
    wait_for_builder_users();
    finish_deliveries(atomic_load(&ending) ? CO_DRAIN_BLIND : DRAIN_AT_STOP_MS);
    atomic_store(&live_builder, NULL);
    wait_for_builder_users();
    return 0;
}

/* Commands are delivered as they finish, but the host wants a snapshot now: collects those whose
 * callback is late and decides the clocks. */
static int process_opencl_events(KinetoPlugin_ProfilerProcessEvents_Params *params)
{
    if (!PLUGIN_IS_WHOLE(params, KinetoPlugin_ProfilerProcessEvents_Params, pTraceBuilder) ||
        params->pProfilerHandle != &profiler)
        return -1;
    if (atomic_load(&live_builder) && !atomic_load(&ending)) {
        co_commands_collect();
        co_deliver_held();
    }
    return 0;
}

/* While paused, commands that were taken up are still delivered. */
static int toggle_opencl_session(KinetoPlugin_ProfilerToggleCollection_Params *params)
{
    if (!PLUGIN_IS_WHOLE(params, KinetoPlugin_ProfilerToggleCollection_Params, enable) ||
        params->pProfilerHandle != &profiler || !atomic_load(&live_builder))
        return -1;
    atomic_store(&types, params->enable ? profiler.types : 0);
    atomic_store(&co_active, params->enable != 0);
    return 0;
}

static const KinetoPlugin_ProfilerInterface opencl_interface = {
    .unpaddedStructSize =
        KINETO_PLUGIN_SIZE(KinetoPlugin_ProfilerInterface, profilerToggleCollection),
    .profilerCreate = create_opencl_session,
    .profilerDestroy = destroy_opencl_session,
    .profilerQuery = query_opencl,
    .profilerStart = start_opencl_session,
    .profilerStop = stop_opencl_session,
    .profilerProcessEvents = process_opencl_events,
    .profilerToggleCollection = toggle_opencl_session,
};

KINETO_API int KinetoPlugin_register(const KinetoPlugin_Registry *registry);

/* Called by this library when a loader starts the layer, or by a host that loads plug-ins from a
 * directory; either may come first, and only the first one registers. */
int KinetoPlugin_register(const KinetoPlugin_Registry *registry)
{
    return plugin_register_once(registry, &opencl_interface, &registered, NULL);
}

void co_profiler_register(void)
{
    const KinetoPlugin_Registry *registry = kineto_plugin_registry();

    if (registry)
        (void)KinetoPlugin_register(registry);
}

bool co_profiler_begin(void)
{
    atomic_store(&ending, false);
    return !atomic_exchange(&begun, true);
}

bool co_profiler_has_begun(void) { return atomic_load(&begun); }

bool co_profiler_is_known(void) { return atomic_load(&begun) || atomic_load(&registered); }

/* Does not wait, since the program is ending: commands that still run are counted as lost. */
void co_profiler_at_exit(void)
{
    if (atomic_load(&ending))
        return;
    if (atomic_load(&live_builder))
        finish_deliveries(0);
    atomic_store(&ending, true);
}

void co_profiler_after_fork(void)
{
    atomic_store(&builder_users, 0);
    for (size_t i = 0; i < CO_LOSS_COUNT; i++)
        atomic_store(&losses[i], 0);
}
