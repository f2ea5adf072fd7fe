/* The plug-in interface of the NVIDIA source: checks the host's parameters and order of calls, and
 * passes them to source.c. The library is loaded by the driver (CUDA_INJECTION64_PATH) or by a
 * host. */
#include "cuda.h"

#include "../common/profiler.h"

#include <string.h>

static const int32_t supported_types[] = {
    KINETO_PLUGIN_PROFILE_EVENT_TYPE_RUNTIME,           KINETO_PLUGIN_PROFILE_EVENT_TYPE_DRIVER,
    KINETO_PLUGIN_PROFILE_EVENT_TYPE_CONCURRENT_KERNEL, KINETO_PLUGIN_PROFILE_EVENT_TYPE_GPU_MEMCPY,
    KINETO_PLUGIN_PROFILE_EVENT_TYPE_GPU_MEMSET,        KINETO_PLUGIN_PROFILE_EVENT_TYPE_CUDA_SYNC,
    KINETO_PLUGIN_PROFILE_EVENT_TYPE_CUDA_EVENT,        KINETO_PLUGIN_PROFILE_EVENT_TYPE_OVERHEAD,
    KINETO_PLUGIN_PROFILE_EVENT_TYPE_GPU_PM_COUNTER,
};

/* The one session: created between create and destroy, live between start and stop. `created` is
 * atomic because two hosts may try to create a session at the same time. */
struct KinetoPlugin_ProfilerHandle {
    atomic_bool created;
    bool live;
};

static KinetoPlugin_ProfilerHandle profiler;
enum registered { REGISTERED_BY_NONE, REGISTERED_BY_DRIVER, REGISTERED_BY_HOST };
static _Atomic(enum registered) registered;
static char reason[CP_TEXT_BYTES]; /* why the last call failed */

/* The parameters reach to the member `last` and belong to our session. */
#define IS_OURS(params, Type, last)                                                                \
    (PLUGIN_IS_WHOLE(params, Type, last) && (params)->pProfilerHandle == &profiler)

static int fail_with_reason(const char *text)
{
    snprintf(reason, sizeof reason, "%s", text);
    return -1;
}

/* Reads the options and prepares CUPTI; one session at a time. */
static int create_cuda_session(KinetoPlugin_ProfilerCreate_Params *params)
{
    bool free_now = false;
    cp_options options;
    if (!PLUGIN_IS_WHOLE(params, KinetoPlugin_ProfilerCreate_Params, pProfilerHandle))
        return fail_with_reason("the host's parameters are too short");
    if (!atomic_compare_exchange_strong(&profiler.created, &free_now, true))
        return fail_with_reason("another session records this program's GPUs already");
    bool has_text = KINETO_PLUGIN_HAS(params, KinetoPlugin_ProfilerCreate_Params, pCustomConfig);
    reason[0] = '\0';
    if (!cp_options_read(has_text ? params->pCustomConfig : NULL, &options, reason)) {
        atomic_store(&profiler.created, false);
        return -1;
    }
    options.types = plugin_types_wanted(params);
    if (!cp_source_prepare(&options, reason)) {
        atomic_store(&profiler.created, false);
        return -1;
    }
    params->pProfilerHandle = &profiler;
    return 0;
}

/* Ends the session in any state, and lets the next one be created. */
static int destroy_cuda_session(KinetoPlugin_ProfilerDestroy_Params *params)
{
    if (!IS_OURS(params, KinetoPlugin_ProfilerDestroy_Params, pProfilerHandle))
        return -1;
    cp_source_end();
    profiler.live = false;
    atomic_store(&profiler.created, false);
    return 0;
}

/* Reports the supported types, with "gpu_memory" if the host has registered that kind. */
static int query_cuda(KinetoPlugin_ProfilerQuery_Params *params)
{
    enum { COUNT = CP_COUNT(supported_types) };
    int32_t types[COUNT + 1];
    memcpy(types, supported_types, sizeof supported_types);
    types[COUNT] = cp_memory_type;
    return plugin_query(params, "CUDA", "cuda", types, COUNT + (cp_memory_type != 0));
}

/* Starts delivery through the host's live builder; without one the host is too old. */
static int start_cuda_session(KinetoPlugin_ProfilerStart_Params *params)
{
    if (!IS_OURS(params, KinetoPlugin_ProfilerStart_Params, pProfilerHandle) || profiler.live)
        return fail_with_reason("start without create");
    const KinetoPlugin_TraceBuilder *builder = plugin_live_builder(params);
    if (!builder)
        return fail_with_reason("the host is too old: it has no live delivery");
    profiler.live = cp_source_start(builder, reason);
    return profiler.live ? 0 : -1;
}

static int stop_cuda_session(KinetoPlugin_ProfilerStop_Params *params)
{
    if (!IS_OURS(params, KinetoPlugin_ProfilerStop_Params, pProfilerHandle) || !profiler.live)
        return fail_with_reason("stop without start");
    cp_source_stop();
    profiler.live = false;
    return 0;
}

/* Records are delivered as CUPTI returns buffers, but the host wants all of them now. */
static int process_cuda_events(KinetoPlugin_ProfilerProcessEvents_Params *params)
{
    if (!IS_OURS(params, KinetoPlugin_ProfilerProcessEvents_Params, pTraceBuilder))
        return -1;
    cp_source_drain();
    return 0;
}

/* Operators are pushed and popped per thread and often, so the parameters are not checked. */
static int push_cuda_operator(KinetoPlugin_ProfilerPushCorrelationId_Params *params)
{
    cp_source_push(params->correlationId);
    return 0;
}

static int pop_cuda_operator(KinetoPlugin_ProfilerPopCorrelationId_Params *params)
{
    (void)params;
    cp_source_pop();
    return 0;
}

static int toggle_cuda_session(KinetoPlugin_ProfilerToggleCollection_Params *params)
{
    if (!IS_OURS(params, KinetoPlugin_ProfilerToggleCollection_Params, enable) || !profiler.live)
        return -1;
    cp_source_toggle(params->enable != 0);
    return 0;
}

static int write_error_text(KinetoPlugin_ProfilerErrorText_Params *params)
{
    if (!PLUGIN_IS_WHOLE(params, KinetoPlugin_ProfilerErrorText_Params, textMaxLen) ||
        !params->pText)
        return -1;
    snprintf(params->pText, params->textMaxLen + 1, "%s", reason);
    return 0;
}

static const KinetoPlugin_ProfilerInterface cuda_interface = {
    .unpaddedStructSize = KINETO_PLUGIN_SIZE(KinetoPlugin_ProfilerInterface, profilerErrorText),
    .profilerCreate = create_cuda_session,
    .profilerDestroy = destroy_cuda_session,
    .profilerQuery = query_cuda,
    .profilerStart = start_cuda_session,
    .profilerStop = stop_cuda_session,
    .profilerPushCorrelationId = push_cuda_operator,
    .profilerPopCorrelationId = pop_cuda_operator,
    .profilerProcessEvents = process_cuda_events,
    .profilerToggleCollection = toggle_cuda_session,
    .profilerErrorText = write_error_text,
};

#define CP_API __attribute__((visibility("default")))

CP_API int KinetoPlugin_register(const KinetoPlugin_Registry *registry);
CP_API int InitializeInjection(void);

/* Called by this library when the driver loads it, or by a host; either may come first, and only
 * the first one registers. A host that calls again has unloaded its profilers meanwhile. */
int KinetoPlugin_register(const KinetoPlugin_Registry *registry)
{
    if (!registry || !KINETO_PLUGIN_HAS(registry, KinetoPlugin_Registry, registerProfiler))
        return -1;
    enum registered by = registry == kineto_plugin_registry() ? REGISTERED_BY_DRIVER
                                                              : REGISTERED_BY_HOST,
                    before = REGISTERED_BY_NONE;
    if (!atomic_compare_exchange_strong(&registered, &before, by) &&
        !(before == REGISTERED_BY_HOST && by == REGISTERED_BY_HOST))
        return 0;
    cp_memory_announce(registry);
    int status = registry->registerProfiler(registry->pRegistryHandle, &cuda_interface);
    if (status != 0)
        atomic_store(&registered, before);
    return status;
}

/* The driver calls this within cuInit if CUDA_INJECTION64_PATH names this library. */
int InitializeInjection(void)
{
    const KinetoPlugin_Registry *registry = kineto_plugin_registry();
    if (registry)
        (void)KinetoPlugin_register(registry);
    return 1;
}
