/* A host that only checks: it loads a plug-in and calls its functions as hosts of several versions
 * would. Every struct that it passes has the size of that version and ends where accessible memory
 * ends, so that a plug-in which reads further crashes. */
#include "plugincheck/check_host.h"

#include <dlfcn.h>
#include <sys/mman.h>
#include <time.h>

#define REGISTRY_MAGIC   UINT64_C(0x6b632d7265676973)
#define LARGER_BYTES     32u  /* added by a later version */
#define LARGER_FILL      0xa5 /* content of the added bytes */
#define MAX_STRUCT_BYTES 4096u
#define SIZE(type, last) KINETO_PLUGIN_SIZE(KinetoPlugin_##type, last)

struct KinetoPlugin_RegistryHandle {
    uint64_t magic;
    kv_check *check;
};

bool kv_check_init(kv_check *k, const char *path, int to, kv_crash_site *site)
{
    void *seen = mmap(NULL, sizeof *k->seen, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    *k = (kv_check){.path = path, .to = to, .site = site, .seen = seen};
    return seen != MAP_FAILED && kv_guard_init(site);
}

/* ---- sizes ----------------------------------------------------------------------------------- */

/* The size of a struct for a host of this version. */
static size_t select_struct_size(kv_host_version version, size_t today, size_t revision_b,
                                 size_t revision_0)
{
    switch (version) {
    case KV_HOST_REVISION_0:
        return revision_0;
    case KV_HOST_REVISION_B:
        return revision_b;
    case KV_HOST_LARGER:
        return kb_align(today, 8) + LARGER_BYTES;
    default:
        return today;
    }
}

/* A guarded struct that begins with its own size. The bytes that only a later version has are
 * filled with a pattern. */
static void *alloc_struct(kv_host_version version, size_t today, size_t revision_b,
                          size_t revision_0, const char *what, bool keep)
{
    size_t bytes = select_struct_size(version, today, revision_b, revision_0);
    char *p = kv_guard_new(bytes, what, keep);
    memcpy(p, &bytes, sizeof bytes);
    if (version == KV_HOST_LARGER)
        memset(p + bytes - LARGER_BYTES, LARGER_FILL, LARGER_BYTES);
    return p;
}

/* After the call: an access is detected from now on. */
static void close_struct(void *p)
{
    size_t bytes;
    memcpy(&bytes, p, sizeof bytes);
    kv_guard_close(p, kb_align(bytes, 8));
}

/* ---- the registry ---------------------------------------------------------------------------- */

/* The check that a registry handle belongs to; NULL, and a fault, if the handle is wrong. */
static kv_check *find_registry_check(const KinetoPlugin_RegistryHandle *handle)
{
    /* the process has one check: faults of wrong handles go to it */
    static kv_check *only;
    KinetoPlugin_RegistryHandle copy = {0};
    bool is_right = kv_copy_in(&copy, handle, sizeof copy) && copy.magic == REGISTRY_MAGIC;
    only = is_right ? copy.check : only;
    if (!is_right && only)
        kv_fault(only, KV_RULE_BUILDER_HANDLE,
                 "the registry received a handle that is not its own");
    return is_right ? only : NULL;
}

/* A description of what is wrong with the functions of a profiler; NULL: nothing. */
static const char *find_interface_fault(const KinetoPlugin_ProfilerInterface *f)
{
    KinetoPlugin_ProfilerInterface copy = {0};
    size_t base = SIZE(ProfilerInterface, profilerProcessEvents);
    if (!kv_copy_in(&copy, f, base))
        return "its interface cannot be read";
    if (copy.unpaddedStructSize < base || copy.unpaddedStructSize > MAX_STRUCT_BYTES)
        return "the size of its interface is wrong";
    return !copy.profilerCreate          ? "profilerCreate is NULL"
           : !copy.profilerDestroy       ? "profilerDestroy is NULL"
           : !copy.profilerQuery         ? "profilerQuery is NULL"
           : !copy.profilerStart         ? "profilerStart is NULL"
           : !copy.profilerStop          ? "profilerStop is NULL"
           : !copy.profilerProcessEvents ? "profilerProcessEvents is NULL"
                                         : NULL;
}

/* registerProfiler of the registry. */
static int add_profiler(KinetoPlugin_RegistryHandle *handle,
                        const KinetoPlugin_ProfilerInterface *functions)
{
    kv_check *k = find_registry_check(handle);
    if (!k)
        return 1;
    const char *fault = find_interface_fault(functions);
    if (fault) {
        kv_fault(k, KV_RULE_LOAD_REGISTER, "%s", fault);
        k->refused_profilers++;
        return 1;
    }
    if (k->profiler_count == KV_MAX_PROFILERS)
        return 1;
    k->profilers[k->profiler_count++] = (kv_profiler){.functions = functions};
    return 0;
}

/* 1 to 39 of a-z, 0-9 and _. */
static bool is_own_name_valid(const char *name)
{
    size_t n = kv_text_size(name, 39);
    for (size_t i = 0; n != SIZE_MAX && i < n; i++)
        if (!strchr("abcdefghijklmnopqrstuvwxyz0123456789_", name[i]))
            return false;
    return n > 0 && n != SIZE_MAX;
}

/* An own kind has a valid name and resembles a published kind. @return 0, or 1 if it is refused. */
static int add_own_type(kv_check *k, const KinetoPlugin_ActivityTypeInfo *info)
{
    char text[64];
    if (!is_own_name_valid(info->pName)) {
        kv_fault(k, KV_RULE_QUERY_KINDS,
                 "its own kind \"%s\": a name has 1 to 39 characters of a-z, 0-9 and _",
                 kv_quote(info->pName, text, sizeof text));
        return 1;
    }
    if (info->likeEventType <= 0 || info->likeEventType >= KINETO_PLUGIN_PROFILE_EVENT_TYPE_COUNT ||
        (info->enabledByDefault & ~1)) {
        kv_fault(k, KV_RULE_QUERY_KINDS, "its own kind \"%s\" is like %d, default %d", info->pName,
                 info->likeEventType, info->enabledByDefault);
        return 1;
    }
    if (k->own_count == KV_MAX_KINDS)
        return 1;
    memcpy(k->own_names[k->own_count], info->pName, strlen(info->pName) + 1);
    k->own_like[k->own_count++] = info->likeEventType;
    return 0;
}

/* registerActivityTypes of the registry: the kinds get consecutive numbers. */
static int add_own_types(KinetoPlugin_RegistryHandle *handle,
                         KinetoPlugin_RegisterActivityTypes_Params *params)
{
    kv_check *k = find_registry_check(handle);
    KinetoPlugin_RegisterActivityTypes_Params copy = {0};
    int result = 0;
    if (!k)
        return 1;
    if (!kv_copy_in(&copy, params, SIZE(RegisterActivityTypes_Params, firstEventType)) ||
        copy.unpaddedStructSize < SIZE(RegisterActivityTypes_Params, firstEventType)) {
        kv_fault(k, KV_RULE_SIZE_FILLED, "RegisterActivityTypes_Params states %zu bytes",
                 copy.unpaddedStructSize);
        return 1;
    }
    params->firstEventType = KINETO_PLUGIN_PROFILE_EVENT_TYPE_OWN_FIRST + (int32_t)k->own_count;
    for (size_t i = 0; i < copy.count && !result; i++) {
        KinetoPlugin_ActivityTypeInfo info;
        result = !kv_copy_in(&info, &copy.pTypes[i], sizeof info) || add_own_type(k, &info);
    }
    return result;
}

/* Old versions have no functions for own kinds. */
static const KinetoPlugin_Registry *create_registry(kv_check *k, kv_host_version version)
{
    size_t base = SIZE(Registry, registerProfiler);
    KinetoPlugin_RegistryHandle *handle =
        kv_guard_new(sizeof *handle, "KinetoPlugin_RegistryHandle, which is opaque", true);
    *handle = (KinetoPlugin_RegistryHandle){REGISTRY_MAGIC, k};
    (void)find_registry_check(handle);
    KinetoPlugin_Registry *r = alloc_struct(version, SIZE(Registry, pHostVersion), base, base,
                                            "KinetoPlugin_Registry", true);
    r->pRegistryHandle = handle;
    r->registerProfiler = add_profiler;
    if (KINETO_PLUGIN_HAS(r, KinetoPlugin_Registry, pHostVersion)) {
        r->registerActivityTypes = add_own_types;
        r->pHostVersion = "ckineto " KINETO_VERSION;
    }
    return r;
}

/* ---- loading --------------------------------------------------------------------------------- */

/* A recorder around us may have set these; a plug-in under check runs without one. */
static void unset_recorder_variables(void)
{
    static const char *const names[] = {"CKINETO_SESSION", "CKINETO_PLUGINS",
                                        "KINETO_PLUGIN_LIB_DIR_PATH"};
    for (size_t i = 0; i < KB_COUNT(names); i++)
        unsetenv(names[i]);
}

static void *find_library_symbol(kv_check *k, const char *name)
{
    (void)dlerror();
    return dlsym(k->library, name);
}

/* @param strict resolve all symbols now, so that missing ones are found. */
static bool load_library(kv_check *k, bool strict)
{
    unset_recorder_variables();
    kv_set_call(k, "the library's constructors");
    k->library = dlopen(k->path, (strict ? RTLD_NOW : RTLD_LAZY) | RTLD_LOCAL);
    kv_set_call(k, "");
    if (!k->library) {
        const char *why = dlerror();
        kv_fault(k, KV_RULE_LOAD_OPENS, "%.200s", why ? why : "it cannot be loaded");
        return false;
    }
    void *exercise = find_library_symbol(k, KINETO_PLUGIN_EXERCISE_SYMBOL);
    memcpy(&k->exercise, &exercise, sizeof exercise);
    return true;
}

/* The registry is created for the version, and passed to the register function of the plug-in. */
bool kv_load(kv_check *k, kv_host_version version, bool strict)
{
    KinetoPlugin_registerFn function;
    if (!load_library(k, strict))
        return false;
    kv_ok(k, KV_RULE_LOAD_OPENS, "%s", "");
    void *symbol = find_library_symbol(k, KINETO_PLUGIN_REGISTER_SYMBOL);
    memcpy(&function, &symbol, sizeof function);
    if (!symbol) {
        kv_fault(k, KV_RULE_LOAD_SYMBOL, "it exports no %s", KINETO_PLUGIN_REGISTER_SYMBOL);
        return false;
    }
    kv_ok(k, KV_RULE_LOAD_SYMBOL, "%s", "");
    kv_set_crash_rule(k, strict ? KV_RULE_LOAD_REGISTER : k->site->rule);
    kv_set_call(k, KINETO_PLUGIN_REGISTER_SYMBOL);
    int result = function(create_registry(k, version));
    kv_set_call(k, "");
    if (strict && result)
        kv_fault(k, KV_RULE_LOAD_REGISTER, "%s returned %d", KINETO_PLUGIN_REGISTER_SYMBOL, result);
    else if (strict && !k->profiler_count && !k->refused_profilers)
        kv_fault(k, KV_RULE_LOAD_REGISTER, "it registered no profiler");
    return result == 0 && k->profiler_count > 0;
}

/* Buffers are guarded, and one byte shorter than the arrays, for the NUL. */
int kv_query(kv_check *k, kv_profiler *p)
{
    size_t base = SIZE(ProfilerQuery_Params, supportedActivityTypesMaxLen);
    KinetoPlugin_ProfilerQuery_Params *q =
        alloc_struct(k->version, SIZE(ProfilerQuery_Params, vendorNameMaxLen), base, base,
                     "KinetoPlugin_ProfilerQuery_Params", false);
    char *name = kv_guard_new(sizeof p->name, "the buffer for the name", false);
    char *vendor = kv_guard_new(sizeof p->vendor, "the buffer for the vendor's name", false);
    int32_t *kinds = kv_guard_new(sizeof p->kinds, "the buffer for kinds", false);
    q->pProfilerName = name;
    q->profilerNameMaxLen = sizeof p->name - 1;
    q->pSupportedActivityTypes = kinds;
    q->supportedActivityTypesMaxLen = KV_MAX_KINDS;
    if (KINETO_PLUGIN_HAS(q, KinetoPlugin_ProfilerQuery_Params, vendorNameMaxLen)) {
        q->pVendorName = vendor;
        q->vendorNameMaxLen = sizeof p->vendor - 1;
    }
    kv_set_call(k, "profilerQuery");
    int result = p->functions->profilerQuery(q);
    kv_set_call(k, "");
    close_struct(q);
    memcpy(p->name, name, sizeof p->name);
    memcpy(p->vendor, vendor, sizeof p->vendor);
    memcpy(p->kinds, kinds, sizeof p->kinds);
    p->kind_count = 0;
    while (p->kind_count < KV_MAX_KINDS && p->kinds[p->kind_count])
        p->kind_count++;
    if (k->site)
        snprintf(k->site->profiler, sizeof k->site->profiler, "%.31s", p->name);
    return result;
}

/* The plug-in rejected the host in `call`. It may reject old versions; for today's version another
 * scenario reports the failure. Returns false. */
static bool report_refusal(kv_check *k, kv_rule rule, const char *call)
{
    if (k->version == KV_HOST_REVISION_B || k->version == KV_HOST_REVISION_0)
        kv_ok(k, rule, "refused: %s does not return 0", call);
    else if (k->version == KV_HOST_LARGER)
        kv_fault(k, rule, "%s does not return 0 to a host whose structs are longer", call);
    else
        kv_untested(k, rule, "%s failed", call);
    return false;
}

/* Every profiler must answer the query. */
bool kv_load_and_query(kv_check *k, kv_host_version version, kv_rule rule)
{
    k->version = version;
    kv_set_crash_rule(k, rule);
    if (!kv_load(k, version, false))
        return report_refusal(k, rule, KINETO_PLUGIN_REGISTER_SYMBOL);
    for (size_t i = 0; i < k->profiler_count; i++)
        if (kv_query(k, &k->profilers[i]))
            return report_refusal(k, rule, "profilerQuery");
    return true;
}

/* A failure is remembered, to explain why there are no events. */
bool kv_exercise(kv_check *k, uint32_t count)
{
    if (!k->exercise)
        return false;
    kv_set_call(k, KINETO_PLUGIN_EXERCISE_SYMBOL);
    int result = k->exercise(count);
    kv_set_call(k, "");
    if (result)
        k->exercise_result = result;
    return result == 0;
}

const char *kv_why_no_events(const kv_check *k)
{
    return !k->exercise         ? "no events: it exports no " KINETO_PLUGIN_EXERCISE_SYMBOL
           : k->exercise_result ? KINETO_PLUGIN_EXERCISE_SYMBOL " failed"
                                : "no events of that sort were delivered";
}

/* ---- sessions -------------------------------------------------------------------------------- */

/* Also clears the counts of the previous session, but not the arrays. */
void kv_session_init(kv_session *s, kv_check *k, kv_profiler *p, kv_host_version version)
{
    KB_ASSERT(p->kind_count <= KV_MAX_KINDS);
    *s = (kv_session){.k = k, .p = p, .version = version, .kind_count = p->kind_count};
    memcpy(s->kinds, p->kinds, sizeof s->kinds);
    snprintf(k->site->profiler, sizeof k->site->profiler, "%.31s", p->name);
    kv_seen *seen = k->seen;
    memset(seen, 0, offsetof(kv_seen, events));
    k->session = s;
}

/* Note the function for the case of a crash, and start timing it. */
static void begin_call(kv_session *s, const char *call)
{
    kv_set_call(s->k, call);
    s->spent_ns = kb_monotonic_ns();
}

/* The call has returned: stop timing, and close its parameters. Returns `result`. */
static int end_call(kv_session *s, void *params, int result)
{
    s->spent_ns = kb_monotonic_ns() - s->spent_ns;
    kv_set_call(s->k, "");
    close_struct(params);
    return result;
}

/* Revision 0 has no list of kinds, and only today's version has a configuration. */
int kv_create(kv_session *s)
{
    KinetoPlugin_ProfilerCreate_Params *p = alloc_struct(
        s->version, SIZE(ProfilerCreate_Params, pCustomConfig),
        SIZE(ProfilerCreate_Params, enabledActivityTypesMaxLen),
        SIZE(ProfilerCreate_Params, pProfilerHandle), "KinetoPlugin_ProfilerCreate_Params", false);
    size_t bytes = s->kind_count * sizeof *s->kinds;
    int32_t *kinds = NULL;
    if (KINETO_PLUGIN_HAS(p, KinetoPlugin_ProfilerCreate_Params, enabledActivityTypesMaxLen)) {
        /* The end of the list is the end of memory, also with an odd number of kinds. */
        kinds = (int32_t *)(void *)((char *)kv_guard_new(bytes, "the list of kinds", false) +
                                    kb_align(bytes, 8) - bytes);
        memcpy(kinds, s->kinds, bytes);
        p->pEnabledActivityTypes = kinds;
        p->enabledActivityTypesMaxLen = s->kind_count;
    }
    if (KINETO_PLUGIN_HAS(p, KinetoPlugin_ProfilerCreate_Params, pCustomConfig))
        p->pCustomConfig = "";
    begin_call(s, "profilerCreate");
    int result = s->p->functions->profilerCreate(p);
    s->handle = p->pProfilerHandle;
    if (kinds && bytes)
        kv_guard_close(kinds, bytes);
    return end_call(s, p, result);
}

/* Only today's version offers a live builder. */
int kv_start(kv_session *s)
{
    size_t base = SIZE(ProfilerStart_Params, pProfilerHandle);
    KinetoPlugin_ProfilerStart_Params *p =
        alloc_struct(s->version, SIZE(ProfilerStart_Params, pLiveBuilder), base, base,
                     "KinetoPlugin_ProfilerStart_Params", false);
    p->pProfilerHandle = s->handle;
    if (KINETO_PLUGIN_HAS(p, KinetoPlugin_ProfilerStart_Params, pLiveBuilder)) {
        p->pProfilerHandleAgain = s->handle;
        if (!s->live)
            s->live = kv_builder_new(s, true, &s->live_handle);
        p->pLiveBuilder = s->live;
    }
    kb_clock_snapshot_take(kb_ticks_clock(), &s->before);
    begin_call(s, "profilerStart");
    return end_call(s, p, s->p->functions->profilerStart(p));
}

/* Afterwards the live builder must not be used any more. */
int kv_stop(kv_session *s)
{
    size_t base = SIZE(ProfilerStop_Params, pProfilerHandle);
    KinetoPlugin_ProfilerStop_Params *p =
        alloc_struct(s->version, base, base, base, "KinetoPlugin_ProfilerStop_Params", false);
    p->pProfilerHandle = s->handle;
    begin_call(s, "profilerStop");
    int result = s->p->functions->profilerStop(p);
    if (s->live_handle)
        kv_builder_end(s->live_handle);
    kb_clock_snapshot_take(kb_ticks_clock(), &s->after);
    return end_call(s, p, result);
}

/* With a builder of its own, which ends with the call. */
int kv_process(kv_session *s)
{
    size_t base = SIZE(ProfilerProcessEvents_Params, pTraceBuilder);
    KinetoPlugin_ProfilerProcessEvents_Params *p = alloc_struct(
        s->version, base, base, base, "KinetoPlugin_ProfilerProcessEvents_Params", false);
    kv_builder *handle;
    p->pProfilerHandle = s->handle;
    p->pTraceBuilder = kv_builder_new(s, false, &handle);
    begin_call(s, "profilerProcessEvents");
    int result = s->p->functions->profilerProcessEvents(p);
    kv_builder_end(handle);
    return end_call(s, p, result);
}

int kv_destroy(kv_session *s)
{
    size_t base = SIZE(ProfilerDestroy_Params, pProfilerHandle);
    KinetoPlugin_ProfilerDestroy_Params *p =
        alloc_struct(s->version, base, base, base, "KinetoPlugin_ProfilerDestroy_Params", false);
    p->pProfilerHandle = s->handle;
    begin_call(s, "profilerDestroy");
    int result = s->p->functions->profilerDestroy(p);
    s->handle = NULL;
    return end_call(s, p, result);
}

int kv_toggle(kv_session *s, bool on)
{
    size_t today = SIZE(ProfilerToggleCollection_Params, enable);
    KinetoPlugin_ProfilerToggleCollection_Params *p = alloc_struct(
        s->version, today, today, today, "KinetoPlugin_ProfilerToggleCollection_Params", false);
    p->pProfilerHandle = s->handle;
    p->enable = on;
    begin_call(s, "profilerToggleCollection");
    return end_call(s, p, s->p->functions->profilerToggleCollection(p));
}

/* push and pop run on several threads and are timed: their parameters are not guarded. */
int kv_push(kv_session *s, bool user, uint64_t id)
{
    const KinetoPlugin_ProfilerInterface *f = s->p->functions;
    KinetoPlugin_ProfilerPushCorrelationId_Params p = {
        SIZE(ProfilerPushCorrelationId_Params, pProfilerHandle), id, s->handle};
    KinetoPlugin_ProfilerPushUserCorrelationId_Params u = {
        SIZE(ProfilerPushUserCorrelationId_Params, pProfilerHandle), id, s->handle};
    if (user)
        return f->profilerPushUserCorrelationId ? f->profilerPushUserCorrelationId(&u) : 0;
    return f->profilerPushCorrelationId ? f->profilerPushCorrelationId(&p) : 0;
}

int kv_pop(kv_session *s, bool user)
{
    const KinetoPlugin_ProfilerInterface *f = s->p->functions;
    KinetoPlugin_ProfilerPopCorrelationId_Params p = {
        SIZE(ProfilerPopCorrelationId_Params, pProfilerHandle), s->handle};
    KinetoPlugin_ProfilerPopUserCorrelationId_Params u = {
        SIZE(ProfilerPopUserCorrelationId_Params, pProfilerHandle), s->handle};
    if (user)
        return f->profilerPopUserCorrelationId ? f->profilerPopUserCorrelationId(&u) : 0;
    return f->profilerPopCorrelationId ? f->profilerPopCorrelationId(&p) : 0;
}

/* Asks the plug-in for the text of the error, if it has one. */
const char *kv_failure(kv_session *s, const char *call, int result, char *buf, size_t size)
{
    const KinetoPlugin_ProfilerInterface *f = s->p->functions;
    char text[160] = "", quoted[200];
    KinetoPlugin_ProfilerErrorText_Params p = {SIZE(ProfilerErrorText_Params, textMaxLen),
                                               s->handle, text, sizeof text - 1};
    int used = snprintf(buf, size, "%s returned %d", call, result);
    bool has_text = KINETO_PLUGIN_HAS(f, KinetoPlugin_ProfilerInterface, profilerErrorText) &&
                    f->profilerErrorText && f->profilerErrorText(&p) == 0;
    text[sizeof text - 1] = 0;
    if (has_text && text[0])
        snprintf(buf + used, size - (size_t)used, ": %s", kv_quote(text, quoted, sizeof quoted));
    return buf;
}

/* ---- a session as a whole -------------------------------------------------------------------- */

/* A result other than 0 is a fault of `rule`. */
static bool check_call(kv_session *s, kv_rule rule, const char *call, int result)
{
    char text[200];
    if (result)
        kv_fault(s->k, rule, "%s", kv_failure(s, call, result, text, sizeof text));
    return result == 0;
}

/* The session is destroyed even if a call in it failed. */
bool kv_run_session(kv_session *s, kv_rule rule, uint32_t exercise, uint64_t *events)
{
    if (!check_call(s, rule, "profilerCreate", kv_create(s)))
        return false;
    bool fine = check_call(s, rule, "profilerStart", kv_start(s));
    if (fine) {
        if (exercise)
            (void)kv_exercise(s->k, exercise);
        fine = check_call(s, rule, "profilerStop", kv_stop(s));
        fine &= check_call(s, rule, "profilerProcessEvents", kv_process(s));
    }
    fine &= check_call(s, rule, "profilerDestroy", kv_destroy(s));
    kv_check_events(s);
    if (events)
        *events = s->k->seen->event_count + s->k->seen->counter_count;
    return fine;
}

/* ---- kinds ----------------------------------------------------------------------------------- */

/* The index of a kind that the plug-in announced; false: the kind is a published one, or unknown.
 */
static bool find_own_kind(const kv_check *k, int32_t type, size_t *index)
{
    *index = (size_t)((int64_t)type - KINETO_PLUGIN_PROFILE_EVENT_TYPE_OWN_FIRST);
    return type >= KINETO_PLUGIN_PROFILE_EVENT_TYPE_OWN_FIRST && *index < k->own_count;
}

int32_t kv_type_like(const kv_check *k, int32_t type)
{
    size_t index;
    return find_own_kind(k, type, &index) ? k->own_like[index] : type;
}

const char *kv_type_text(const kv_check *k, int32_t type, char *buf, size_t size)
{
    size_t index;
    const char *name = "unknown";
    if (find_own_kind(k, type, &index))
        name = k->own_names[index];
    for (size_t i = kb_kind_alias_count; i-- > 0;) /* the first alias of a number wins */
        if (kb_kind_aliases[i].plugin_number == type && type > 0)
            name = kb_kind_aliases[i].name;
    snprintf(buf, size, "%d %s", type, name);
    return buf;
}
