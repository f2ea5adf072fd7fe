/* Helpers that the profiler plug-ins of this repository share for answering a host. Like the
 * plug-ins themselves this header sees public headers only. */
#ifndef PLUGINS_PROFILER_H
#define PLUGINS_PROFILER_H

#include <ckineto/plugin.h>

#include <stdatomic.h>
#include <stdio.h>

/* True if parameters have all members up to `last`, the last one of the first version of the
 * interface. Later members are checked where they are used. */
#define PLUGIN_IS_WHOLE(params, Type, last) ((params) && KINETO_PLUGIN_HAS(params, Type, last))

/** One bit for each activity type that a session wants; a host that is too old to say gets all
 * types. Types that plug-ins registered themselves have no bit. */
static inline uint64_t plugin_types_wanted(const KinetoPlugin_ProfilerCreate_Params *params)
{
    uint64_t types = 0;
    if (!KINETO_PLUGIN_HAS(params, KinetoPlugin_ProfilerCreate_Params, enabledActivityTypesMaxLen))
        return UINT64_MAX;
    for (size_t i = 0; i < params->enabledActivityTypesMaxLen; i++) {
        int32_t type = params->pEnabledActivityTypes[i];
        if (type > 0 && type < KINETO_PLUGIN_PROFILE_EVENT_TYPE_COUNT)
            types |= UINT64_C(1) << type;
    }
    return types;
}

/** Answer profilerQuery: the texts and types that the host requests, cut to the size of its
 * buffers. */
static inline int plugin_query(KinetoPlugin_ProfilerQuery_Params *params, const char *name,
                               const char *vendor, const int32_t *types, size_t count)
{
    if (!PLUGIN_IS_WHOLE(params, KinetoPlugin_ProfilerQuery_Params, supportedActivityTypesMaxLen))
        return -1;
    if (params->pProfilerName)
        snprintf(params->pProfilerName, params->profilerNameMaxLen + 1, "%s", name);
    if (KINETO_PLUGIN_HAS(params, KinetoPlugin_ProfilerQuery_Params, vendorNameMaxLen) &&
        params->pVendorName)
        snprintf(params->pVendorName, params->vendorNameMaxLen + 1, "%s", vendor);
    for (size_t i = 0; i < count && i < params->supportedActivityTypesMaxLen; i++)
        params->pSupportedActivityTypes[i] = types[i];
    return 0;
}

/** The builder to deliver to while the program runs; NULL: the host is too old and has none. */
static inline const KinetoPlugin_TraceBuilder *
plugin_live_builder(const KinetoPlugin_ProfilerStart_Params *params)
{
    if (!PLUGIN_IS_WHOLE(params, KinetoPlugin_ProfilerStart_Params, pLiveBuilder))
        return NULL;
    const KinetoPlugin_TraceBuilder *builder = params->pLiveBuilder;
    bool has_all =
        builder && KINETO_PLUGIN_HAS(builder, KinetoPlugin_TraceBuilder, addHeaderMetadata);
    return has_all ? builder : NULL;
}

/** Register with the first host of several that load the library; others get 0 and nothing.
 * @param announce  called before, with what the profiler needs of this host; may be NULL.
 * @return what KinetoPlugin_register does. */
static inline int plugin_register_once(const KinetoPlugin_Registry *registry,
                                       const KinetoPlugin_ProfilerInterface *profiler,
                                       atomic_bool *registered,
                                       void (*announce)(const KinetoPlugin_Registry *registry))
{
    bool before = false;
    if (!registry || !KINETO_PLUGIN_HAS(registry, KinetoPlugin_Registry, registerProfiler))
        return -1;
    if (!atomic_compare_exchange_strong(registered, &before, true))
        return 0;
    if (announce)
        announce(registry);
    int status = registry->registerProfiler(registry->pRegistryHandle, profiler);
    if (status != 0)
        atomic_store(registered, false);
    return status;
}

#endif
