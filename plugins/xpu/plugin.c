/* The plug-in interface of the Intel source: checks the host's parameters and order of calls, and passes
 * them to source.c. The library is loaded by a host, or preloaded by `ckineto record`, since PTI must be
 * set up before the program uses its devices. Preloaded, it also learns when another user takes PTI. */
#include "xpu.h"

#include "../common/profiler.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static const int32_t supported_types[] = {
    KINETO_PLUGIN_PROFILE_EVENT_TYPE_RUNTIME,    KINETO_PLUGIN_PROFILE_EVENT_TYPE_DRIVER,
    KINETO_PLUGIN_PROFILE_EVENT_TYPE_GPU_MEMCPY, KINETO_PLUGIN_PROFILE_EVENT_TYPE_GPU_MEMSET,
    KINETO_PLUGIN_PROFILE_EVENT_TYPE_CUDA_SYNC,  KINETO_PLUGIN_PROFILE_EVENT_TYPE_CONCURRENT_KERNEL,
    KINETO_PLUGIN_PROFILE_EVENT_TYPE_OVERHEAD,   KINETO_PLUGIN_PROFILE_EVENT_TYPE_COLLECTIVE_COMM,
};

/* The one session: created between create and destroy, live between start and stop. */
struct KinetoPlugin_ProfilerHandle {
    atomic_bool created;
    bool live;
};

static KinetoPlugin_ProfilerHandle profiler;
enum registered { REGISTERED_BY_NONE, REGISTERED_BY_PRELOAD, REGISTERED_BY_HOST };
static _Atomic(enum registered) registered;
static char reason[CP_TEXT_BYTES]; /* why the last call failed */

#define IS_OURS(params, Type, last)                                                                \
    (PLUGIN_IS_WHOLE(params, Type, last) && (params)->pProfilerHandle == &profiler)

/* Keeps the reason for profilerErrorText. */
static int fail_xpu_call(const char *text)
{
    snprintf(reason, sizeof reason, "%s", text);
    return -1;
}

/* Reads the options and opens PTI. One session at a time. */
static int create_xpu_session(KinetoPlugin_ProfilerCreate_Params *params)
{
    bool free_now = false;
    xp_options options;
    if (!PLUGIN_IS_WHOLE(params, KinetoPlugin_ProfilerCreate_Params, pProfilerHandle))
        return fail_xpu_call("the host's parameters are too short");
    if (!atomic_compare_exchange_strong(&profiler.created, &free_now, true))
        return fail_xpu_call("another session records this program's GPUs already");
    bool has_text = KINETO_PLUGIN_HAS(params, KinetoPlugin_ProfilerCreate_Params, pCustomConfig);
    reason[0] = '\0';
    bool ready = xp_options_read(has_text ? params->pCustomConfig : NULL, &options, reason);
    options.types = plugin_types_wanted(params);
    if (!ready || !xp_source_prepare(&options, reason)) {
        atomic_store(&profiler.created, false);
        return -1;
    }
    params->pProfilerHandle = &profiler;
    return 0;
}

/* Ends the session in any state, and lets the next one be created. */
static int destroy_xpu_session(KinetoPlugin_ProfilerDestroy_Params *params)
{
    if (!IS_OURS(params, KinetoPlugin_ProfilerDestroy_Params, pProfilerHandle))
        return -1;
    xp_source_end();
    profiler.live = false;
    atomic_store(&profiler.created, false);
    return 0;
}

static int query_xpu(KinetoPlugin_ProfilerQuery_Params *params)
{
    return plugin_query(params, "XPU", "xpu", supported_types, CP_COUNT(supported_types));
}

/* Starts delivery through the host's live builder; without one the host is too old. */
static int start_xpu_session(KinetoPlugin_ProfilerStart_Params *params)
{
    if (!IS_OURS(params, KinetoPlugin_ProfilerStart_Params, pProfilerHandle) || profiler.live)
        return fail_xpu_call("start without create");
    const KinetoPlugin_TraceBuilder *builder = plugin_live_builder(params);
    if (!builder)
        return fail_xpu_call("the host is too old: it has no live delivery");
    profiler.live = xp_source_start(builder, reason);
    return profiler.live ? 0 : -1;
}

/* Succeeds also if the program's exit has ended the session before. */
static int stop_xpu_session(KinetoPlugin_ProfilerStop_Params *params)
{
    if (!IS_OURS(params, KinetoPlugin_ProfilerStop_Params, pProfilerHandle) || !profiler.live)
        return fail_xpu_call("stop without start");
    xp_source_stop();
    profiler.live = false;
    return 0;
}

static int process_xpu_events(KinetoPlugin_ProfilerProcessEvents_Params *params)
{
    if (!IS_OURS(params, KinetoPlugin_ProfilerProcessEvents_Params, pTraceBuilder))
        return -1;
    xp_source_drain();
    return 0;
}

/* Operators are pushed and popped per thread and often, so the parameters are not checked. */
static int push_xpu_operator(KinetoPlugin_ProfilerPushCorrelationId_Params *params)
{
    xp_operators_push(params->correlationId);
    return 0;
}

static int pop_xpu_operator(KinetoPlugin_ProfilerPopCorrelationId_Params *params)
{
    (void)params;
    xp_operators_pop();
    return 0;
}

static int toggle_xpu_session(KinetoPlugin_ProfilerToggleCollection_Params *params)
{
    if (!IS_OURS(params, KinetoPlugin_ProfilerToggleCollection_Params, enable) || !profiler.live)
        return -1;
    xp_source_toggle(params->enable != 0);
    return 0;
}

static int write_xpu_error(KinetoPlugin_ProfilerErrorText_Params *params)
{
    if (!PLUGIN_IS_WHOLE(params, KinetoPlugin_ProfilerErrorText_Params, textMaxLen) || !params->pText)
        return -1;
    snprintf(params->pText, params->textMaxLen + 1, "%s", reason);
    return 0;
}

static const KinetoPlugin_ProfilerInterface xpu_interface = {
    .unpaddedStructSize = KINETO_PLUGIN_SIZE(KinetoPlugin_ProfilerInterface, profilerErrorText),
    .profilerCreate = create_xpu_session,
    .profilerDestroy = destroy_xpu_session,
    .profilerQuery = query_xpu,
    .profilerStart = start_xpu_session,
    .profilerStop = stop_xpu_session,
    .profilerPushCorrelationId = push_xpu_operator,
    .profilerPopCorrelationId = pop_xpu_operator,
    .profilerProcessEvents = process_xpu_events,
    .profilerToggleCollection = toggle_xpu_session,
    .profilerErrorText = write_xpu_error,
};

__attribute__((visibility("default"))) int
KinetoPlugin_register(const KinetoPlugin_Registry *registry);

/* Called by this library when it is preloaded, or by a host; either may come first, and only the first
 * one registers. A host that calls again has unloaded its profilers meanwhile. */
int KinetoPlugin_register(const KinetoPlugin_Registry *registry)
{
    if (!registry || !KINETO_PLUGIN_HAS(registry, KinetoPlugin_Registry, registerProfiler))
        return -1;
    enum registered by = registry == kineto_plugin_registry() ? REGISTERED_BY_PRELOAD
                                                              : REGISTERED_BY_HOST,
                    before = REGISTERED_BY_NONE;
    if (!atomic_compare_exchange_strong(&registered, &before, by) &&
        !(before == REGISTERED_BY_HOST && by == REGISTERED_BY_HOST))
        return 0;
    int status = registry->registerProfiler(registry->pRegistryHandle, &xpu_interface);
    if (status != 0)
        atomic_store(&registered, before);
    return status;
}

/* ---- preloaded ------------------------------------------------------------------------------- */

/* Python opens libraries later; of other programs those count that are linked with what uses Level
 * Zero. Shells, compilers and the like do not pay for PTI. */
static bool may_use_level_zero(void)
{
    static const char *const stems[] = {"libsycl", "libze_loader", "libpti_view", "libccl"};
    char path[4096];
    ssize_t size = readlink("/proc/self/exe", path, sizeof path - 1);
    path[size > 0 ? size : 0] = '\0';
    const char *slash = strrchr(path, '/');
    if (slash && strncmp(slash + 1, "python", 6) == 0)
        return true;
    for (size_t i = 0; i < CP_COUNT(stems); i++)
        if (cp_open_loaded(stems[i]))
            return true;
    return false;
}

/* Where PTI is not installed nothing is said: `ckineto doctor` does, and a program whose work on Level
 * Zero was not recorded is told by `ckineto record`. */
__attribute__((constructor)) static void register_if_preloaded(void)
{
    char why[CP_TEXT_BYTES];
    const char *list = secure_getenv("LD_PRELOAD");
    if (!list || !strstr(list, "ckineto-xpu.so") || !may_use_level_zero() || !xp_libs_open(why))
        return;
    const KinetoPlugin_Registry *registry = kineto_plugin_registry();
    if (registry)
        (void)KinetoPlugin_register(registry);
}

__attribute__((visibility("default"))) xp_status ptiViewSetCallbacks(xp_request_fn *request,
                                                                     xp_complete_fn *complete);

/* Stands before PTI's function in programs that this library is preloaded into. PTI is the one that the
 * program has loaded, in whatever scope. */
xp_status ptiViewSetCallbacks(xp_request_fn *request, xp_complete_fn *complete)
{
    void *library = cp_open_loaded("libpti_view");
    void *address = library ? dlsym(library, "ptiViewSetCallbacks") : NULL;
    xp_status (*real)(xp_request_fn *, xp_complete_fn *);
    memcpy(&real, &address, sizeof real);
    xp_source_yield();
    return real ? real(request, complete) : XP_NOT_IMPLEMENTED;
}
