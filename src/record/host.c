/* The host of plug-in profilers: registration, and one session per profiler while anybody records
 * a kind it supports. A profiler that fails costs its own data and leaves a count in the ledger. */
#include "record/host.h"

#define KR_MAX_PROFILERS (KF_MAX_SOURCES - 1u)
#define KR_NAME_MAX      31u /* what hosts of this interface have always passed, without the NUL */

typedef struct kr_profiler {
    const KinetoPlugin_ProfilerInterface *calls; /* NULL: free slot */
    char name[KR_NAME_MAX + 1];
    uint64_t supported; /* kinds */
    int32_t types[KR_MAX_TYPES];
    uint32_t type_count;
    uint32_t source; /* 0: not announced in the pool yet */
    bool created, started;
    uint32_t session_pid; /* a fork's child inherits sessions that are not its own to end */
    uint64_t enabled;
    KinetoPlugin_ProfilerHandle *handle;
    kr_builder builder;
} kr_profiler;

static kr_profiler kr_profilers[KR_MAX_PROFILERS];
static kb_lock kr_host_lock;

static int failed(kr_profiler *p, const char *what, int code)
{
    if (code == 0)
        return 0;
    kb_log(KINETO_LOG_WARNING, "plug-in '%s': %s failed with %d", p->name, what, code);
    kr_count(p->source, KF_REASON_PLUGIN_ERROR, 1);
    return code;
}

/* ---- sources
 * ------------------------------------------------------------------------------------- Processes
 * of one recording share the counters of a source with the same name. */

static uint32_t source_find(const kf_pool *pool, kineto_string name)
{
    uint32_t used = kb_load_acquire(&pool->control->dictionary_used);
    for (uint32_t at = 1; at < used && at < pool->dictionary_words;) {
        uint64_t h = kb_load_acquire(&pool->dictionary[at]);
        uint32_t words = kf_entry_header_words(h);
        if (words == 0)
            break;
        const char *payload = (const char *)(pool->dictionary + at + 1);
        kf_source_entry entry;
        if (kf_entry_header_type(h) == KF_ENTRY_SOURCE && h >> 32 == sizeof entry + 4 + name.size &&
            memcmp(payload + sizeof entry + 4, name.data, name.size) == 0) {
            memcpy(&entry, payload, sizeof entry);
            return entry.source;
        }
        at += words;
    }
    return 0;
}

static uint32_t source_announce(const char *text)
{
    const kf_pool *pool = kr_pool_get();
    if (!pool)
        return 0;
    kineto_string name = kb_string(text);
    uint32_t source = source_find(pool, name);
    if (source)
        return source < KF_MAX_SOURCES ? source : 0;
    source = kb_add_relaxed(&pool->control->source_count, 1) + 1;
    if (source >= KF_MAX_SOURCES)
        return 0; /* booked with the program's own */
    kf_source_entry entry = {kineto_rt_process(), source};
    uint32_t size = (uint32_t)name.size;
    kf_part parts[] = {{&entry, sizeof entry}, {&size, sizeof size}, {name.data, name.size}};
    (void)kf_dictionary_add(pool, KF_ENTRY_SOURCE, parts, KB_COUNT(parts));
    return source;
}

/* ---- sessions -------------------------------------------------------------------------------- */

static int profiler_create(kr_profiler *p)
{
    int32_t enabled[KR_MAX_TYPES];
    size_t n = 0;
    for (uint32_t i = 0; i < p->type_count; i++) {
        int kind = kb_kind_from_plugin(p->types[i]);
        if (kind >= 0 && (p->enabled & KINETO_KIND_BIT(kind)))
            enabled[n++] = p->types[i];
    }
    KinetoPlugin_ProfilerCreate_Params params = {
        .unpaddedStructSize =
            KINETO_PLUGIN_SIZE(KinetoPlugin_ProfilerCreate_Params, enabledActivityTypesMaxLen),
        .pEnabledActivityTypes = enabled,
        .enabledActivityTypesMaxLen = n};
    int result = failed(p, "create", p->calls->profilerCreate(&params));
    p->handle = params.pProfilerHandle;
    p->created = result == 0;
    return result;
}

static int profiler_start(kr_profiler *p)
{
    KinetoPlugin_ProfilerStart_Params params = {
        .unpaddedStructSize = KINETO_PLUGIN_SIZE(KinetoPlugin_ProfilerStart_Params, pLiveBuilder),
        .pProfilerHandle = p->handle,
        .pProfilerHandleAgain = p->handle,
        .pLiveBuilder = &p->builder.table};
    kr_builder_open(&p->builder, p->enabled);
    int result = failed(p, "start", p->calls->profilerStart(&params));
    p->started = result == 0;
    return result;
}

static void profiler_destroy(kr_profiler *p)
{
    KinetoPlugin_ProfilerDestroy_Params params = {
        KINETO_PLUGIN_SIZE(KinetoPlugin_ProfilerDestroy_Params, pProfilerHandle), p->handle};
    if (p->created)
        (void)failed(p, "destroy", p->calls->profilerDestroy(&params));
    kr_builder_close(&p->builder);
    p->created = p->started = false;
    p->handle = NULL;
    p->enabled = 0;
}

static void session_open(kr_profiler *p, uint64_t kinds)
{
    if (!p->source) {
        p->source = source_announce(p->name);
        kr_builder_init(&p->builder, p->source);
    }
    p->enabled = kinds;
    p->session_pid = kb_os_pid();
    if (profiler_create(p) || profiler_start(p))
        profiler_destroy(p);
}

static void process_events(kr_profiler *p)
{
    KinetoPlugin_ProfilerProcessEvents_Params params = {
        KINETO_PLUGIN_SIZE(KinetoPlugin_ProfilerProcessEvents_Params, pTraceBuilder), p->handle,
        &p->builder.table};
    (void)failed(p, "processEvents", p->calls->profilerProcessEvents(&params));
}

/* stop → processEvents → destroy, whatever fails on the way. */
static void session_close(kr_profiler *p)
{
    KinetoPlugin_ProfilerStop_Params stop = {
        KINETO_PLUGIN_SIZE(KinetoPlugin_ProfilerStop_Params, pProfilerHandle), p->handle};
    (void)failed(p, "stop", p->calls->profilerStop(&stop));
    process_events(p);
    profiler_destroy(p);
}

static bool session_is_ours(const kr_profiler *p)
{
    return p->created && p->session_pid == kb_os_pid();
}

static void profiler_update(kr_profiler *p, uint64_t kinds, bool collect)
{
    uint64_t wanted = kinds & p->supported;
    if (p->created && !session_is_ours(p))
        return; /* the parent's: its builder goes on working here, ending it is not our business */
    if (p->created && collect && p->builder.live && wanted == p->enabled)
        process_events(p); /* delivers as it goes: no need to interrupt it */
    else if (p->created && (collect || wanted != p->enabled))
        session_close(p);
    if (!p->created && wanted)
        session_open(p, wanted);
}

static void update_all(bool collect)
{
    const kf_pool *pool = kr_pool_get();
    uint64_t kinds = pool ? kb_load_acquire(&pool->control->gate) : 0;
    if (!kr_lock_take(&kr_host_lock))
        return;
    for (uint32_t i = 0; i < KR_MAX_PROFILERS; i++)
        if (kr_profilers[i].calls)
            profiler_update(&kr_profilers[i], kinds, collect);
    kb_lock_drop(&kr_host_lock);
}

KINETO_API void kineto_rt_profilers_update(void) { update_all(false); }
KINETO_API void kineto_rt_profilers_collect(void) { update_all(true); }

void kr_host_exit(void)
{
    if (!kr_lock_take(&kr_host_lock))
        return;
    for (uint32_t i = 0; i < KR_MAX_PROFILERS; i++)
        if (kr_profilers[i].calls && session_is_ours(&kr_profilers[i]))
            session_close(&kr_profilers[i]);
    kb_lock_drop(&kr_host_lock);
}

/* ---- registration ---------------------------------------------------------------------------- */

static bool interface_is_whole(const KinetoPlugin_ProfilerInterface *i)
{
    return i && KINETO_PLUGIN_HAS(i, KinetoPlugin_ProfilerInterface, profilerProcessEvents) &&
           i->profilerCreate && i->profilerDestroy && i->profilerQuery && i->profilerStart &&
           i->profilerStop && i->profilerProcessEvents;
}

static int profiler_query(kr_profiler *p)
{
    int32_t types[KR_MAX_TYPES] = {0};
    KinetoPlugin_ProfilerQuery_Params params = {
        .unpaddedStructSize =
            KINETO_PLUGIN_SIZE(KinetoPlugin_ProfilerQuery_Params, supportedActivityTypesMaxLen),
        .pProfilerName = p->name,
        .profilerNameMaxLen = KR_NAME_MAX,
        .pSupportedActivityTypes = types,
        .supportedActivityTypesMaxLen = KR_MAX_TYPES};
    int result = p->calls->profilerQuery(&params);
    p->name[KR_NAME_MAX] = 0;
    if (!p->name[0])
        memcpy(p->name, "unnamed plug-in", sizeof "unnamed plug-in");
    if (failed(p, "query", result))
        return result;
    for (uint32_t i = 0; i < KR_MAX_TYPES; i++) {
        int kind = kb_kind_from_plugin(types[i]);
        if (kind < 0)
            continue;
        p->types[p->type_count++] = types[i];
        p->supported |= KINETO_KIND_BIT(kind);
    }
    return 0;
}

static kr_profiler *profiler_find(const KinetoPlugin_ProfilerInterface *calls)
{
    for (uint32_t i = 0; i < KR_MAX_PROFILERS; i++)
        if (kr_profilers[i].calls == calls)
            return &kr_profilers[i];
    return NULL;
}

static int register_profiler(KinetoPlugin_RegistryHandle *registry,
                             const KinetoPlugin_ProfilerInterface *calls)
{
    (void)registry;
    if (!interface_is_whole(calls)) {
        kb_log(KINETO_LOG_WARNING, "a plug-in was refused: its interface lacks functions");
        return 1;
    }
    int result = 1;
    if (!kr_lock_take(&kr_host_lock))
        return 1;
    kr_profiler *p = profiler_find(calls) ? NULL : profiler_find(NULL);
    if (p) {
        memset(p, 0, sizeof *p);
        p->calls = calls;
        result = profiler_query(p);
        if (result)
            p->calls = NULL;
    } else {
        kb_log(KINETO_LOG_WARNING, "a plug-in was refused: registered already, or too many");
    }
    kb_lock_drop(&kr_host_lock);
    if (result == 0) {
        kb_log(KINETO_LOG_INFO, "plug-in '%s' registered", p->name);
        kineto_rt_profilers_update();
    }
    return result;
}

const KinetoPlugin_Registry *kineto_plugin_registry(void)
{
    static KinetoPlugin_Registry registry = {
        .unpaddedStructSize = KINETO_PLUGIN_SIZE(KinetoPlugin_Registry, registerProfiler),
        .registerProfiler = register_profiler};
    return &registry;
}

int kineto_plugin_unregister(const KinetoPlugin_ProfilerInterface *calls)
{
    int result = 1;
    if (!kr_lock_take(&kr_host_lock))
        return 1;
    kr_profiler *p = calls ? profiler_find(calls) : NULL;
    if (p) {
        if (session_is_ours(p))
            session_close(p);
        kr_builder_free(&p->builder);
        p->calls = NULL;
        result = 0;
    }
    kb_lock_drop(&kr_host_lock);
    return result;
}
