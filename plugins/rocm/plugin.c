/* The plug-in interface of the AMD source: checks the host's parameters and order of calls, and passes
 * them to source.c. The library is loaded by rocprofiler-sdk (ROCP_TOOL_LIBRARIES) or by a host. */
#include "rocm.h"

#include "../common/profiler.h"

#include <stdio.h>

static const int32_t supported_types[] = {
    KINETO_PLUGIN_PROFILE_EVENT_TYPE_RUNTIME,           KINETO_PLUGIN_PROFILE_EVENT_TYPE_DRIVER,
    KINETO_PLUGIN_PROFILE_EVENT_TYPE_CONCURRENT_KERNEL, KINETO_PLUGIN_PROFILE_EVENT_TYPE_GPU_MEMCPY,
    KINETO_PLUGIN_PROFILE_EVENT_TYPE_OVERHEAD,          KINETO_PLUGIN_PROFILE_EVENT_TYPE_GPU_PM_COUNTER,
};

/* The one session: created between create and destroy, live between start and stop. */
struct KinetoPlugin_ProfilerHandle {
    atomic_bool created;
    bool live;
};

static KinetoPlugin_ProfilerHandle profiler;
enum registered { REGISTERED_BY_NONE, REGISTERED_BY_SDK, REGISTERED_BY_HOST };
static _Atomic(enum registered) registered;
static char reason[CP_TEXT_BYTES]; /* why the last call failed */

#define IS_OURS(params, Type, last)                                                                \
    (PLUGIN_IS_WHOLE(params, Type, last) && (params)->pProfilerHandle == &profiler)

/* Keeps the reason for profilerErrorText. */
static int fail_session(const char *text)
{
    snprintf(reason, sizeof reason, "%s", text);
    return -1;
}

/* Reads the options and makes this library a tool of the SDK, unless it is one. One session at a time. */
static int create_rocm_session(KinetoPlugin_ProfilerCreate_Params *params)
{
    bool free_now = false;
    rp_options options;
    if (!PLUGIN_IS_WHOLE(params, KinetoPlugin_ProfilerCreate_Params, pProfilerHandle))
        return fail_session("the host's parameters are too short");
    if (!atomic_compare_exchange_strong(&profiler.created, &free_now, true))
        return fail_session("another session records this program's GPUs already");
    bool has_text = KINETO_PLUGIN_HAS(params, KinetoPlugin_ProfilerCreate_Params, pCustomConfig);
    reason[0] = '\0';
    bool ready = rp_options_read(has_text ? params->pCustomConfig : NULL, &options, reason);
    options.types = plugin_types_wanted(params);
    if (!ready || !rp_source_prepare(&options, reason)) {
        atomic_store(&profiler.created, false);
        return -1;
    }
    params->pProfilerHandle = &profiler;
    return 0;
}

/* Ends the session in any state, and lets the next one be created. */
static int destroy_rocm_session(KinetoPlugin_ProfilerDestroy_Params *params)
{
    if (!IS_OURS(params, KinetoPlugin_ProfilerDestroy_Params, pProfilerHandle))
        return -1;
    rp_source_end();
    profiler.live = false;
    atomic_store(&profiler.created, false);
    return 0;
}

/* Traces of AMD GPUs have the names of CUDA's kinds, as those of PyTorch do: the vendor's name decides
 * how calls are spelled ("cuda_runtime"). */
static int query_rocm(KinetoPlugin_ProfilerQuery_Params *params)
{
    enum { COUNT = CP_COUNT(supported_types) };
    int32_t types[COUNT + 1];
    memcpy(types, supported_types, sizeof supported_types);
    types[COUNT] = rp_memory_type;
    return plugin_query(params, "ROCm", "cuda", types, COUNT + (rp_memory_type != 0));
}

/* Starts delivery through the host's live builder; without one the host is too old. */
static int start_rocm_session(KinetoPlugin_ProfilerStart_Params *params)
{
    if (!IS_OURS(params, KinetoPlugin_ProfilerStart_Params, pProfilerHandle) || profiler.live)
        return fail_session("start without create");
    const KinetoPlugin_TraceBuilder *builder = plugin_live_builder(params);
    if (!builder)
        return fail_session("the host is too old: it has no live delivery");
    profiler.live = rp_source_start(builder, reason);
    return profiler.live ? 0 : -1;
}

/* Succeeds also if the program's exit has ended the session before. */
static int stop_rocm_session(KinetoPlugin_ProfilerStop_Params *params)
{
    if (!IS_OURS(params, KinetoPlugin_ProfilerStop_Params, pProfilerHandle) || !profiler.live)
        return fail_session("stop without start");
    rp_source_stop();
    profiler.live = false;
    return 0;
}

/* Records are delivered as the SDK hands them over, but the host wants all of them now. */
static int process_rocm_events(KinetoPlugin_ProfilerProcessEvents_Params *params)
{
    if (!IS_OURS(params, KinetoPlugin_ProfilerProcessEvents_Params, pTraceBuilder))
        return -1;
    rp_source_drain();
    return 0;
}

/* Operators are pushed and popped per thread and often, so the parameters are not checked. */
static int push_rocm_operator(KinetoPlugin_ProfilerPushCorrelationId_Params *params)
{
    rp_operators_push(params->correlationId);
    return 0;
}

static int pop_rocm_operator(KinetoPlugin_ProfilerPopCorrelationId_Params *params)
{
    (void)params;
    rp_operators_pop();
    return 0;
}

/* Pauses or resumes; the contexts of the SDK stay. */
static int toggle_rocm_session(KinetoPlugin_ProfilerToggleCollection_Params *params)
{
    if (!IS_OURS(params, KinetoPlugin_ProfilerToggleCollection_Params, enable) || !profiler.live)
        return -1;
    rp_source_toggle(params->enable != 0);
    return 0;
}

static int write_rocm_error(KinetoPlugin_ProfilerErrorText_Params *params)
{
    if (!PLUGIN_IS_WHOLE(params, KinetoPlugin_ProfilerErrorText_Params, textMaxLen) ||
        !params->pText)
        return -1;
    snprintf(params->pText, params->textMaxLen + 1, "%s", reason);
    return 0;
}

static const KinetoPlugin_ProfilerInterface rocm_interface = {
    .unpaddedStructSize = KINETO_PLUGIN_SIZE(KinetoPlugin_ProfilerInterface, profilerErrorText),
    .profilerCreate = create_rocm_session,
    .profilerDestroy = destroy_rocm_session,
    .profilerQuery = query_rocm,
    .profilerStart = start_rocm_session,
    .profilerStop = stop_rocm_session,
    .profilerPushCorrelationId = push_rocm_operator,
    .profilerPopCorrelationId = pop_rocm_operator,
    .profilerProcessEvents = process_rocm_events,
    .profilerToggleCollection = toggle_rocm_session,
    .profilerErrorText = write_rocm_error,
};

__attribute__((visibility("default"))) int
KinetoPlugin_register(const KinetoPlugin_Registry *registry);

/* Called by this library when the SDK loads it, or by a host; either may come first, and only the first
 * one registers. A host that calls again has unloaded its profilers meanwhile. */
int KinetoPlugin_register(const KinetoPlugin_Registry *registry)
{
    if (!registry || !KINETO_PLUGIN_HAS(registry, KinetoPlugin_Registry, registerProfiler))
        return -1;
    enum registered by = registry == kineto_plugin_registry() ? REGISTERED_BY_SDK
                                                              : REGISTERED_BY_HOST,
                    before = REGISTERED_BY_NONE;
    if (!atomic_compare_exchange_strong(&registered, &before, by) &&
        !(before == REGISTERED_BY_HOST && by == REGISTERED_BY_HOST))
        return 0;
    rp_memory_announce(registry);
    int status = registry->registerProfiler(registry->pRegistryHandle, &rocm_interface);
    if (status != 0)
        atomic_store(&registered, before);
    return status;
}

void rp_register_profiler(void)
{
    const KinetoPlugin_Registry *registry = kineto_plugin_registry();
    if (registry && atomic_load(&registered) == REGISTERED_BY_NONE)
        (void)KinetoPlugin_register(registry);
}
