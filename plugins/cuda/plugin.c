/* The plug-in interface. */
#include "cuda.h"

#include "../common/profiler.h"

#include <string.h>

static const int32_t supported[] = {
    KINETO_PLUGIN_PROFILE_EVENT_TYPE_RUNTIME,           KINETO_PLUGIN_PROFILE_EVENT_TYPE_DRIVER,
    KINETO_PLUGIN_PROFILE_EVENT_TYPE_CONCURRENT_KERNEL, KINETO_PLUGIN_PROFILE_EVENT_TYPE_GPU_MEMCPY,
    KINETO_PLUGIN_PROFILE_EVENT_TYPE_GPU_MEMSET,        KINETO_PLUGIN_PROFILE_EVENT_TYPE_CUDA_SYNC,
    KINETO_PLUGIN_PROFILE_EVENT_TYPE_CUDA_EVENT,        KINETO_PLUGIN_PROFILE_EVENT_TYPE_OVERHEAD,
    KINETO_PLUGIN_PROFILE_EVENT_TYPE_GPU_PM_COUNTER,
};

struct KinetoPlugin_ProfilerHandle {
    atomic_bool created;
    bool live;
};

static KinetoPlugin_ProfilerHandle profiler;
enum registered { NOBODY, BY_DRIVER, BY_HOST };
static _Atomic(enum registered) registered;
static char reason[CP_TEXT_BYTES]; /* why the last call failed */

#define IS_OURS(params, Type, last)                                                                \
    (PLUGIN_IS_WHOLE(params, Type, last) && (params)->pProfilerHandle == &profiler)

static int fail(const char *text)
{
    snprintf(reason, sizeof reason, "%s", text);
    return -1;
}

static int create(KinetoPlugin_ProfilerCreate_Params *params)
{
    bool free_now = false;
    cp_options options;
    if (!PLUGIN_IS_WHOLE(params, KinetoPlugin_ProfilerCreate_Params, pProfilerHandle))
        return fail("the host's parameters are too short");
    if (!atomic_compare_exchange_strong(&profiler.created, &free_now, true))
        return fail("a session records this program's GPUs already");
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

static int destroy(KinetoPlugin_ProfilerDestroy_Params *params)
{
    if (!IS_OURS(params, KinetoPlugin_ProfilerDestroy_Params, pProfilerHandle))
        return -1;
    cp_source_end();
    profiler.live = false;
    atomic_store(&profiler.created, false);
    return 0;
}

static int query(KinetoPlugin_ProfilerQuery_Params *params)
{
    enum { COUNT = CP_COUNT(supported) };
    int32_t types[COUNT + 1];
    memcpy(types, supported, sizeof supported);
    types[COUNT] = cp_memory_type;
    return plugin_query(params, "CUDA", "cuda", types, COUNT + (cp_memory_type != 0));
}

static int start(KinetoPlugin_ProfilerStart_Params *params)
{
    if (!IS_OURS(params, KinetoPlugin_ProfilerStart_Params, pProfilerHandle) || profiler.live)
        return fail("start without create");
    const KinetoPlugin_TraceBuilder *builder = plugin_live_builder(params);
    if (!builder)
        return fail("the host is too old: it cannot be delivered to while a program runs");
    profiler.live = cp_source_start(builder, reason);
    return profiler.live ? 0 : -1;
}

static int stop(KinetoPlugin_ProfilerStop_Params *params)
{
    if (!IS_OURS(params, KinetoPlugin_ProfilerStop_Params, pProfilerHandle) || !profiler.live)
        return fail("stop without start");
    cp_source_stop();
    profiler.live = false;
    return 0;
}

/* Everything is delivered as CUPTI hands it over; somebody wants what there is now. */
static int process_events(KinetoPlugin_ProfilerProcessEvents_Params *params)
{
    if (!IS_OURS(params, KinetoPlugin_ProfilerProcessEvents_Params, pTraceBuilder))
        return -1;
    cp_source_drain();
    return 0;
}

static int push(KinetoPlugin_ProfilerPushCorrelationId_Params *params)
{
    cp_source_push(params->correlationId);
    return 0;
}

static int pop(KinetoPlugin_ProfilerPopCorrelationId_Params *params)
{
    (void)params;
    cp_source_pop();
    return 0;
}

static int toggle(KinetoPlugin_ProfilerToggleCollection_Params *params)
{
    if (!IS_OURS(params, KinetoPlugin_ProfilerToggleCollection_Params, enable) || !profiler.live)
        return -1;
    cp_source_toggle(params->enable != 0);
    return 0;
}

static int error_text(KinetoPlugin_ProfilerErrorText_Params *params)
{
    if (!PLUGIN_IS_WHOLE(params, KinetoPlugin_ProfilerErrorText_Params, textMaxLen) ||
        !params->pText)
        return -1;
    snprintf(params->pText, params->textMaxLen + 1, "%s", reason);
    return 0;
}

static const KinetoPlugin_ProfilerInterface interface = {
    .unpaddedStructSize = KINETO_PLUGIN_SIZE(KinetoPlugin_ProfilerInterface, profilerErrorText),
    .profilerCreate = create,
    .profilerDestroy = destroy,
    .profilerQuery = query,
    .profilerStart = start,
    .profilerStop = stop,
    .profilerPushCorrelationId = push,
    .profilerPopCorrelationId = pop,
    .profilerProcessEvents = process_events,
    .profilerToggleCollection = toggle,
    .profilerErrorText = error_text,
};

#define CP_API __attribute__((visibility("default")))

CP_API int KinetoPlugin_register(const KinetoPlugin_Registry *registry);
CP_API int InitializeInjection(void);

/* Called by ourselves when the driver loads us, or by a host that was told to; either may come
 * first, and one profiler is enough. A host that comes again has unloaded us meanwhile. */
int KinetoPlugin_register(const KinetoPlugin_Registry *registry)
{
    if (!registry || !KINETO_PLUGIN_HAS(registry, KinetoPlugin_Registry, registerProfiler))
        return -1;
    enum registered by = registry == kineto_plugin_registry() ? BY_DRIVER : BY_HOST,
                    before = NOBODY;
    if (!atomic_compare_exchange_strong(&registered, &before, by) &&
        !(before == BY_HOST && by == BY_HOST))
        return 0;
    cp_memory_announce(registry);
    int status = registry->registerProfiler(registry->pRegistryHandle, &interface);
    if (status != 0)
        atomic_store(&registered, before);
    return status;
}

/* The driver calls this inside cuInit of any program when CUDA_INJECTION64_PATH names us. */
int InitializeInjection(void)
{
    const KinetoPlugin_Registry *registry = kineto_plugin_registry();
    if (registry)
        (void)KinetoPlugin_register(registry);
    return 1;
}
