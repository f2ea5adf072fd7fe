/* The host of plug-in profilers: registration, and one session per profiler while a window records
 * a kind that it supports. A profiler that fails loses its own data and leaves lines in the ledger.
 *
 * One lock guards the table and is held while a profiler's functions are called, so that create,
 * start, stop, processEvents and destroy of one profiler never overlap. A thread that comes back to
 * the host from inside such a call finds the lock its own and is refused. The states of a session:
 *
 *   none → created (profilerCreate) → started (profilerStart) → none (stop, processEvents, destroy)
 */
#include "record/host.h"

#define KR_REGISTER_MS 2000u
#define KR_MAX_NOTES   8u /* of one profiler: the counter goes on */
#define KR_ERROR_TEXT  255u

typedef struct kr_profiler {
    const KinetoPlugin_ProfilerInterface *calls; /* NULL: free slot */
    uint64_t freed; /* serial of withdrawal: the slot that was freed first is used first */
    char name[KR_NAME_MAX + 1], vendor[KR_NAME_MAX + 1];
    kr_revision revision;
    uint32_t file;
    int32_t types[KR_MAX_TYPES];   /* supported, in its numbers */
    uint8_t indexes[KR_MAX_TYPES]; /* the same as indexes */
    uint32_t type_count;
    uint32_t source; /* 0: not announced in the pool yet */
    uint32_t notes;
    char logged[96]; /* beginning of the last failure that was logged */
    bool created, started, paused;
    uint32_t session_pid; /* a fork's child inherits sessions that are not its own to end */
    uint64_t enabled;     /* a bit per type */
    KinetoPlugin_ProfilerHandle *handle;
    kr_builder builder;
} kr_profiler;

static kr_profiler kr_profilers[KR_MAX_PROFILERS];
static kb_lock kr_host_lock;
static KinetoPlugin_RegistryHandle kr_program;
static bool kr_host_over; /* the process ends, no session begins any more; under the lock */

/* ---- failures -------------------------------------------------------------------------------- */

/* The plug-in's own text for its last error, "" if it has none; `text` holds KR_ERROR_TEXT + 1. */
static void get_error_text(const kr_profiler *p, char *text)
{
    KinetoPlugin_ProfilerErrorText_Params params = {
        .unpaddedStructSize = KINETO_PLUGIN_SIZE(KinetoPlugin_ProfilerErrorText_Params, textMaxLen),
        .pProfilerHandle = p->handle,
        .pText = text,
        .textMaxLen = KR_ERROR_TEXT};
    memset(text, 0, KR_ERROR_TEXT + 1); /* guarantees NUL termination */
    if (KINETO_PLUGIN_HAS(p->calls, KinetoPlugin_ProfilerInterface, profilerErrorText) &&
        p->calls->profilerErrorText && p->calls->profilerErrorText(&params) != 0)
        text[0] = 0;
    text[KR_ERROR_TEXT] = 0;
}

/* Each session may fail for the same reason: the ledger of each has a line, the log only one. */
static void log_profiler_failure(kr_profiler *p, const char *what, const char *detail)
{
    if (strncmp(p->logged, detail, sizeof p->logged - 1) == 0)
        return;
    snprintf(p->logged, sizeof p->logged, "%.95s", detail);
    kb_log(KINETO_LOG_WARNING, "plug-in '%s': %s %s", p->name, what, detail);
}

/* Log, count and note a call of the profiler that returned a code other than 0. @return the
 * code. */
static int report_failed_call(kr_profiler *p, const char *what, int code)
{
    char reason[64], text[KR_ERROR_TEXT + 1], detail[sizeof text + 64];
    if (code == 0)
        return 0;
    get_error_text(p, text);
    snprintf(detail, sizeof detail, "returned %d%s%s", code, text[0] ? ": " : "", text);
    log_profiler_failure(p, what, detail);
    kr_count(p->source, KF_REASON_PLUGIN_ERROR, 1);
    snprintf(reason, sizeof reason, "%s failed", what);
    if (p->notes++ < KR_MAX_NOTES)
        (void)kr_note(p->name, reason, 1, false, detail, kb_ticks(kb_ticks_clock()));
    return code;
}

static void report_stuck_thread(kr_profiler *p, const char *where)
{
    kb_log(KINETO_LOG_WARNING, "plug-in '%s': a thread does not return from %s", p->name, where);
    kr_count(p->source, KF_REASON_PLUGIN_ERROR, 1);
    if (p->notes++ < KR_MAX_NOTES)
        (void)kr_note(p->name, "a thread did not return", 1, false, where,
                      kb_ticks(kb_ticks_clock()));
}

/* ---- sources ---------------------------------------------------------------------------------
 * Processes of one recording share the counters of a source with the same name. */

/* The counters of a source that was announced with this name; 0: it was not. */
static uint32_t find_source_entry(const kf_pool *pool, kineto_string name)
{
    uint32_t used = kb_load_acquire(&pool->control->dictionary_used);
    for (uint32_t at = 1; at < used && at < pool->dictionary_words;) {
        uint64_t h = kb_load_acquire(&pool->dictionary[at]);
        uint32_t words = kf_entry_header_words(h);
        if (words == 0)
            break;
        const char *payload = (const char *)(pool->dictionary + at + 1);
        kf_source_entry entry;
        if (kf_entry_header_type(h) == KF_ENTRY_SOURCE &&
            kf_entry_header_size(h) == sizeof entry + 4 + name.size &&
            memcmp(payload + sizeof entry + 4, name.data, name.size) == 0) {
            memcpy(&entry, payload, sizeof entry);
            return entry.source;
        }
        at += words;
    }
    return 0;
}

static uint32_t announce_source(const char *text)
{
    const kf_pool *pool = kr_pool_get();
    if (!pool)
        return 0;
    kineto_string name = kb_string(text);
    uint32_t source = find_source_entry(pool, name);
    if (source)
        return source < KF_MAX_SOURCES ? source : 0;
    return kf_source_add(pool, kineto_rt_process(), name);
}

/* ---- kinds ----------------------------------------------------------------------------------- */

/* The types of a profiler whose kinds are in the mask: a bit per type. */
static uint64_t wanted_types(const kr_profiler *p, uint64_t kinds)
{
    const kf_own_kind *own = kineto_rt_own_kinds();
    uint64_t wanted = 0;
    for (uint32_t i = 0; i < p->type_count; i++) {
        uint8_t kind = kr_type_kind(p->indexes[i]);
        if (kind != 0xff && kf_kind_wanted(own, kinds, kind))
            wanted |= UINT64_C(1) << i;
    }
    return wanted;
}

/* Which kinds the builder accepts in the session that begins, and how each is spelled. */
static void set_builder_kinds(kr_profiler *p)
{
    kr_builder *b = &p->builder;
    for (uint32_t i = 0; i < KR_MAX_TYPES; i++) {
        b->kind_of[i] = 0;
        b->known[i] = kr_type_kind(i) == 0xff ? 0 : (uint8_t)(kr_type_kind(i) + 1);
    }
    for (uint32_t i = 0; i < p->type_count; i++) {
        uint32_t index = p->indexes[i];
        b->spelling_of[index] = kr_type_spelling(index, p->vendor);
        if (p->enabled & UINT64_C(1) << i)
            b->kind_of[index] = (uint8_t)(kr_type_kind(index) + 1);
    }
}

/* ---- sessions -------------------------------------------------------------------------------- */

static int create_profiler(kr_profiler *p)
{
    const kf_pool *pool = kr_pool_get();
    char config[sizeof pool->control->custom_config] = "";
    int32_t enabled[KR_MAX_TYPES];
    size_t n = 0;
    for (uint32_t i = 0; i < p->type_count; i++)
        if (p->enabled & UINT64_C(1) << i)
            enabled[n++] = p->types[i];
    if (pool)
        memcpy(config, pool->control->custom_config, sizeof config - 1);
    KinetoPlugin_ProfilerCreate_Params params = {
        .unpaddedStructSize = KINETO_PLUGIN_SIZE(KinetoPlugin_ProfilerCreate_Params, pCustomConfig),
        .pEnabledActivityTypes = enabled,
        .enabledActivityTypesMaxLen = n,
        .pCustomConfig = config};
    if (p->revision == KR_REVISION_A) /* its struct ends with the handle */
        params.unpaddedStructSize =
            KINETO_PLUGIN_SIZE(KinetoPlugin_ProfilerCreate_Params, pProfilerHandle);
    KB_ASSERT(!p->created && !p->started && !p->handle);
    int result = p->calls->profilerCreate(&params);
    p->handle = params.pProfilerHandle;
    p->created = result == 0;
    if (result)
        p->handle = NULL;
    return report_failed_call(p, "create", result);
}

/* Revision a of profilerStart's parameters, which was published for a few days, before the kinds
 * moved to profilerCreate. */
typedef struct kr_start_a {
    size_t unpaddedStructSize;
    const int32_t *pEnabledActivityTypes;
    size_t enabledActivityTypesMaxLen;
    KinetoPlugin_ProfilerHandle *pProfilerHandle;
} kr_start_a;

static int start_revision_a(kr_profiler *p)
{
    int32_t enabled[KR_MAX_TYPES];
    size_t n = 0;
    for (uint32_t i = 0; i < p->type_count; i++)
        if (p->enabled & UINT64_C(1) << i)
            enabled[n++] = p->types[i];
    kr_start_a params = {KINETO_PLUGIN_SIZE(kr_start_a, pProfilerHandle), enabled, n, p->handle};
    return p->calls->profilerStart((KinetoPlugin_ProfilerStart_Params *)(void *)&params);
}

static int start_profiler(kr_profiler *p)
{
    KinetoPlugin_ProfilerStart_Params params = {
        .unpaddedStructSize = KINETO_PLUGIN_SIZE(KinetoPlugin_ProfilerStart_Params, pLiveBuilder),
        .pProfilerHandle = p->handle,
        .pProfilerHandleAgain = p->handle,
        .pLiveBuilder = &p->builder.table};
    KB_ASSERT(p->created && !p->started);
    set_builder_kinds(p);
    kr_builder_open(&p->builder);
    int result =
        p->revision == KR_REVISION_A ? start_revision_a(p) : p->calls->profilerStart(&params);
    p->started = result == 0;
    return report_failed_call(p, "start", result);
}

static void destroy_profiler(kr_profiler *p)
{
    KinetoPlugin_ProfilerDestroy_Params params = {
        KINETO_PLUGIN_SIZE(KinetoPlugin_ProfilerDestroy_Params, pProfilerHandle), p->handle};
    if (!kr_builder_close(&p->builder))
        report_stuck_thread(p, "a call of the builder");
    KB_ASSERT(p->created || !p->started);
    if (p->created)
        (void)report_failed_call(p, "destroy", p->calls->profilerDestroy(&params));
    p->created = p->started = false;
    p->handle = NULL;
    p->enabled = 0;
}

static void open_profiler_session(kr_profiler *p, uint64_t types)
{
    if (!p->source) {
        p->source = announce_source(p->name);
        kb_store_relaxed(&p->builder.source, p->source);
    }
    KB_ASSERT(!p->created && types);
    p->enabled = types;
    p->paused = false;
    p->session_pid = kb_os_pid();
    if (create_profiler(p) || start_profiler(p))
        destroy_profiler(p);
    else {
        kr_listen(p->calls, p->handle, p->source);
        kr_count(p->source, KF_REASON_NOT_ENDED, 1);
    }
}

static void process_profiler_events(kr_profiler *p)
{
    KinetoPlugin_ProfilerProcessEvents_Params params = {
        KINETO_PLUGIN_SIZE(KinetoPlugin_ProfilerProcessEvents_Params, pTraceBuilder), p->handle,
        &p->builder.table};
    (void)report_failed_call(p, "processEvents", p->calls->profilerProcessEvents(&params));
}

/* False in a fork's child, whose copy of the session is the parent's to end. */
static bool is_own_session(const kr_profiler *p)
{
    return p->created && p->session_pid == kb_os_pid();
}

/* stop → processEvents → destroy; a step that fails does not stop the others. */
static void close_profiler_session(kr_profiler *p)
{
    KinetoPlugin_ProfilerStop_Params stop = {
        KINETO_PLUGIN_SIZE(KinetoPlugin_ProfilerStop_Params, pProfilerHandle), p->handle};
    KB_ASSERT(p->created && p->started && is_own_session(p));
    if (!kr_unlisten(p->calls))
        report_stuck_thread(p, "push or pop of a correlation id");
    (void)report_failed_call(p, "stop", p->calls->profilerStop(&stop));
    process_profiler_events(p);
    destroy_profiler(p);
    kr_count(p->source, KF_REASON_NOT_ENDED, UINT64_MAX); /* one less */
}

static bool can_pause_collection(const kr_profiler *p)
{
    return KINETO_PLUGIN_HAS(p->calls, KinetoPlugin_ProfilerInterface, profilerToggleCollection) &&
           p->calls->profilerToggleCollection;
}

static void toggle_collection(kr_profiler *p, bool on)
{
    KinetoPlugin_ProfilerToggleCollection_Params params = {
        KINETO_PLUGIN_SIZE(KinetoPlugin_ProfilerToggleCollection_Params, enable), p->handle, on};
    if (on != p->paused)
        return;
    p->paused = !on;
    (void)report_failed_call(p, "toggleCollection", p->calls->profilerToggleCollection(&params));
}

/* `held`: the kinds that the windows want; `gate`: those that they want now, which are fewer if
 * some windows are paused. `collect`: the profiler is to deliver what it has so far. */
static void update_profiler(kr_profiler *p, uint64_t held, uint64_t gate, bool collect)
{
    uint64_t now = wanted_types(p, gate),
             wanted = can_pause_collection(p) ? wanted_types(p, held) : now;
    if (p->created && !is_own_session(p))
        return; /* the parent's session: its builder still works here, only the parent may end it */
    if (p->created && collect && kb_load_relaxed(&p->builder.live) && wanted == p->enabled)
        process_profiler_events(p); /* delivers while it runs: no need to interrupt it */
    else if (p->created && (collect || wanted != p->enabled))
        close_profiler_session(p);
    if (!p->created && wanted)
        open_profiler_session(p, wanted);
    if (p->created && can_pause_collection(p))
        toggle_collection(p, now != 0);
}

static void update_profilers_locked(bool collect)
{
    const kf_pool *pool = kr_pool_get();
    /* Read with the lock held, so that the last update acts on the latest state. */
    uint64_t gate = pool ? kb_load_acquire(&pool->control->gate) : 0;
    uint64_t held = pool ? kf_held_kinds(pool->control) : 0;
    if (gate) /* sources go on while kinds are throttled, so that no kernel is missed: accept_event */
        gate |= held & kb_load_relaxed(&pool->control->throttled.kinds);
    for (uint32_t i = 0; i < KR_MAX_PROFILERS; i++)
        if (kr_profilers[i].calls)
            update_profiler(&kr_profilers[i], held, gate, collect);
}

static void update_profilers(bool collect)
{
    if (!kr_lock_take(&kr_host_lock))
        return;
    update_profilers_locked(collect);
    kb_lock_drop(&kr_host_lock);
    kr_privateuse1_settle();
}

bool kr_host_follow(bool collect)
{
    if (!kr_lock_take(&kr_host_lock))
        return true;
    bool over = kr_host_over;
    if (!over)
        update_profilers_locked(collect);
    kb_lock_drop(&kr_host_lock);
    if (!over)
        kr_privateuse1_settle();
    return !over;
}

KINETO_API void kineto_rt_profilers_update(void) { update_profilers(false); }
KINETO_API void kineto_rt_profilers_collect(void) { update_profilers(true); }

void kr_host_exit(void)
{
    if (!kr_lock_take(&kr_host_lock))
        return;
    kr_host_over = true;
    for (uint32_t i = 0; i < KR_MAX_PROFILERS; i++)
        if (kr_profilers[i].calls && is_own_session(&kr_profilers[i]))
            close_profiler_session(&kr_profilers[i]);
    kb_lock_drop(&kr_host_lock);
}

/* Inside (quiesce.c), so that kr_builder_free waits before it frees what this visits. */
void kr_host_thread_exit(void)
{
    kr_cursor *c = kr_plugin_enter();
    if (!c)
        return;
    for (uint32_t i = 0; i < KR_MAX_PROFILERS; i++)
        if (kb_load_acquire(&kr_profilers[i].builder.pending))
            kr_builder_thread_exit(&kr_profilers[i].builder);
    kr_plugin_exit(c);
}

/* ---- registration ---------------------------------------------------------------------------- */

/* Those of the profiler's types that have a kind, each once. */
static void store_supported_types(kr_profiler *p, const int32_t *types)
{
    for (uint32_t i = 0; i < KR_MAX_TYPES; i++) {
        uint32_t index = kr_type_index(p->revision, types[i]);
        if (index >= KR_MAX_TYPES || memchr(p->indexes, (int)index, p->type_count))
            continue;
        p->types[p->type_count] = types[i];
        p->indexes[p->type_count++] = (uint8_t)index;
    }
}

static int query_profiler(kr_profiler *p)
{
    int32_t types[KR_MAX_TYPES] = {0};
    KinetoPlugin_ProfilerQuery_Params params = {
        .unpaddedStructSize =
            KINETO_PLUGIN_SIZE(KinetoPlugin_ProfilerQuery_Params, vendorNameMaxLen),
        .pProfilerName = p->name,
        .profilerNameMaxLen = KR_NAME_MAX,
        .pSupportedActivityTypes = types,
        .supportedActivityTypesMaxLen = KR_MAX_TYPES,
        .pVendorName = p->vendor,
        .vendorNameMaxLen = KR_NAME_MAX};
    int result = p->calls->profilerQuery(&params);
    p->name[KR_NAME_MAX] = p->vendor[KR_NAME_MAX] = 0;
    if (!p->name[0])
        memcpy(p->name, "unnamed plug-in", sizeof "unnamed plug-in");
    if (report_failed_call(p, "query", result))
        return result;
    store_supported_types(p, types);
    return 0;
}

static kr_profiler *find_profiler(const KinetoPlugin_ProfilerInterface *calls)
{
    for (uint32_t i = 0; i < KR_MAX_PROFILERS; i++)
        if (kr_profilers[i].calls == calls)
            return &kr_profilers[i];
    return NULL;
}

/* Late calls through the builder of a withdrawn plug-in reach its old slot, so the slot that has
 * been free for longest is used. */
static kr_profiler *find_free_profiler_slot(void)
{
    kr_profiler *best = NULL;
    for (uint32_t i = 0; i < KR_MAX_PROFILERS; i++)
        if (!kr_profilers[i].calls && (!best || kr_profilers[i].freed < best->freed))
            best = &kr_profilers[i];
    return best;
}

static int refuse_registration(KinetoPlugin_RegistryHandle *registrant, const char *why)
{
    snprintf(registrant->error, sizeof registrant->error, "%s", why);
    kb_log(KINETO_LOG_WARNING, "a plug-in was refused: %s", why);
    return 1;
}

static int add_profiler(KinetoPlugin_RegistryHandle *registrant,
                        const KinetoPlugin_ProfilerInterface *calls)
{
    if (!kr_interface_is_whole(calls))
        return refuse_registration(registrant, "its interface lacks functions");
    if (find_profiler(calls))
        return refuse_registration(registrant, "its profiler is registered already");
    kr_profiler *p = find_free_profiler_slot();
    if (!p)
        return refuse_registration(registrant, "too many profilers");
    memset(p, 0, offsetof(kr_profiler, builder));
    kr_builder_init(&p->builder, p->name, 0, registrant->revision);
    p->calls = calls;
    p->revision = registrant->revision;
    p->file = registrant->file;
    int result = query_profiler(p);
    if (result) {
        char text[KR_ERROR_TEXT + 1];
        get_error_text(p, text);
        snprintf(registrant->error, sizeof registrant->error, "query returned %d%s%s", result,
                 text[0] ? ": " : "", text);
        p->calls = NULL;
        return result;
    }
    kb_log(KINETO_LOG_INFO, "plug-in '%s' registered", p->name);
    return 0;
}

/* Sessions must end while plug-ins still work: before the destructors of plug-ins and of the
 * libraries that they use. */
static void register_exit_once(void)
{
    static uint32_t done;
    uint32_t no = 0;
    if (kb_cas_acqrel(&done, &no, 1u))
        (void)atexit(kr_host_exit);
}

static int register_profiler(KinetoPlugin_RegistryHandle *registrant,
                             const KinetoPlugin_ProfilerInterface *calls)
{
    if (!registrant)
        registrant = &kr_program;
    register_exit_once();
    /* Constructors of libraries register with the dynamic linker's lock held, and the thread that
     * holds the host's lock may be waiting for that one. */
    if (!kb_lock_take_within(&kr_host_lock, kr_identity(), KR_REGISTER_MS))
        return refuse_registration(
            registrant, "it registers from inside a call of the host, or the host is busy");
    int result = add_profiler(registrant, calls);
    kb_lock_drop(&kr_host_lock);
    if (result == 0) {
        kineto_rt_profilers_update();
        kr_follow_start();
    }
    return result;
}

static int register_activity_types(KinetoPlugin_RegistryHandle *registrant,
                                   KinetoPlugin_RegisterActivityTypes_Params *params)
{
    (void)registrant;
    return kr_types_register(params);
}

void kr_registry_init(KinetoPlugin_Registry *registry, KinetoPlugin_RegistryHandle *registrant)
{
    registrant->error[0] = 0;
    *registry = (KinetoPlugin_Registry){.unpaddedStructSize =
                                            KINETO_PLUGIN_SIZE(KinetoPlugin_Registry, pHostVersion),
                                        .pRegistryHandle = registrant,
                                        .registerProfiler = register_profiler,
                                        .registerActivityTypes = register_activity_types,
                                        .pHostVersion = "ckineto " KINETO_VERSION};
}

const KinetoPlugin_Registry *kineto_plugin_registry(void)
{
    static const KinetoPlugin_Registry registry = {
        .unpaddedStructSize = KINETO_PLUGIN_SIZE(KinetoPlugin_Registry, pHostVersion),
        .pRegistryHandle = &kr_program,
        .registerProfiler = register_profiler,
        .registerActivityTypes = register_activity_types,
        .pHostVersion = "ckineto " KINETO_VERSION};
    return &registry;
}

static void withdraw_profiler(kr_profiler *p)
{
    static uint64_t serial;
    if (is_own_session(p))
        close_profiler_session(p);
    else
        (void)kr_builder_close(&p->builder); /* the parent's, or closed */
    KB_ASSERT(p->calls && !p->builder.open);
    kr_builder_free(&p->builder);
    p->calls = NULL;
    p->freed = ++serial;
}

int kineto_plugin_unregister(const KinetoPlugin_ProfilerInterface *calls)
{
    if (!kr_lock_take(&kr_host_lock))
        return 1;
    kr_profiler *p = calls ? find_profiler(calls) : NULL;
    if (p)
        withdraw_profiler(p);
    kb_lock_drop(&kr_host_lock);
    return p == NULL;
}

uint32_t kr_host_withdraw_file(uint32_t file)
{
    uint32_t count = 0;
    if (!kr_lock_take(&kr_host_lock))
        return UINT32_MAX;
    for (uint32_t i = 0; i < KR_MAX_PROFILERS; i++) {
        if (!kr_profilers[i].calls || kr_profilers[i].file != file)
            continue;
        withdraw_profiler(&kr_profilers[i]);
        count++;
    }
    kb_lock_drop(&kr_host_lock);
    return count;
}

/* ---- describing ------------------------------------------------------------------------------ */

static void describe_profiler(const kr_profiler *p, kineto_plugin_info *info)
{
    info->state = p->file ? KINETO_PLUGIN_LOADED : KINETO_PLUGIN_BUILT_IN;
    info->type_count = p->type_count;
    info->kinds = 0;
    memcpy(info->types, p->types, p->type_count * sizeof *p->types);
    for (uint32_t i = 0; i < p->type_count; i++)
        if (kr_type_kind(p->indexes[i]) != 0xff)
            info->kinds |= KINETO_KIND_BIT(kr_type_kind(p->indexes[i]));
    snprintf(info->name, sizeof info->name, "%s", p->name);
    snprintf(info->vendor, sizeof info->vendor, "%s", p->vendor);
    snprintf(info->revision, sizeof info->revision, "%s",
             p->revision == KR_REVISION_A   ? "a"
             : p->revision == KR_REVISION_B ? "b"
                                            : "early");
}

bool kr_host_profiler(uint32_t n, kineto_plugin_info *info, uint32_t *file)
{
    bool found = false;
    if (!kr_lock_take(&kr_host_lock))
        return false;
    for (uint32_t i = 0; i < KR_MAX_PROFILERS && !found; i++) {
        if (!kr_profilers[i].calls || n-- > 0)
            continue;
        describe_profiler(&kr_profilers[i], info);
        *file = kr_profilers[i].file;
        found = true;
    }
    kb_lock_drop(&kr_host_lock);
    return found;
}

bool kr_host_in_session(const KinetoPlugin_ProfilerInterface *calls)
{
    if (!kr_lock_take(&kr_host_lock))
        return false;
    const kr_profiler *p = calls ? find_profiler(calls) : NULL;
    bool in_session = p && is_own_session(p);
    kb_lock_drop(&kr_host_lock);
    return in_session;
}
