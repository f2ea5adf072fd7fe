/* Activities of calls of the runtime and the driver, and of CUPTI's own overhead. */
#include "layouts.h"

#include "cuda.h"

#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

/* ---- threads --------------------------------------------------------------------------------- */

/* Versions of CUPTI that cannot use the system's thread ids use the low half of pthread_self. */

#define THREAD_SLOTS      8192u
#define MAX_THREAD_PROBES 16u

static atomic_ullong thread_ids[THREAD_SLOTS]; /* CUPTI's id << 32 | the system's */

static uint32_t hash_thread_slot(uint32_t id, uint32_t probe)
{
    return ((id * UINT32_C(0x9e3779b1) >> 16) + probe) % THREAD_SLOTS;
}

/* The slot of an id, or a free one; if all probed ones are taken, the first, whose owner has
 * probably ended. */
static atomic_ullong *find_thread_slot(uint32_t id)
{
    for (uint32_t i = 0; i < MAX_THREAD_PROBES; i++) {
        atomic_ullong *place = &thread_ids[hash_thread_slot(id, i)];
        unsigned long long there = atomic_load_explicit(place, memory_order_relaxed);
        if (there == 0 || there >> 32 == id)
            return place;
    }
    return &thread_ids[hash_thread_slot(id, 0)];
}

void cp_threads_register(void)
{
    static _Thread_local bool noted;
    if (noted)
        return;
    noted = true;
    uint32_t id = (uint32_t)(uintptr_t)pthread_self(), tid = (uint32_t)syscall(SYS_gettid);
    atomic_store(find_thread_slot(id), (unsigned long long)id << 32 | tid);
}

static int32_t get_system_thread(uint32_t id)
{
    unsigned long long there = atomic_load(find_thread_slot(id));
    return there >> 32 == id ? (int32_t)there : (int32_t)(id & INT32_MAX);
}

/* ---- selection of calls ---------------------------------------------------------------------- */

#define MAX_CALL_IDS 1024u /* per domain; there are some 800 */

typedef struct api_call {
    bool known;    /* the other members are set */
    bool unwanted; /* not to be delivered */
    cp_text name;
} api_call;

struct cp_calls {
    api_call table[2][MAX_CALL_IDS];
};

bool cp_calls_create(cp_decoder *d)
{
    d->calls = calloc(1, sizeof *d->calls);
    return d->calls != NULL;
}

void cp_calls_free(cp_decoder *d)
{
    free(d->calls);
    d->calls = NULL;
}

/* True if a name, without its variant ("_ptsz", "_v2"), is in the list. An entry that ends in '*'
 * stands for all names that begin with it. */
static bool is_listed_call(const char *name, const char *const *list, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        size_t size = strcspn(list[i], "*");
        if (strncmp(name, list[i], size) != 0)
            continue;
        if (list[i][size] == '*' || name[size] == '\0' || name[size] == '_')
            return true;
    }
    return false;
}

/* Frequent calls without information. */
static const char *const unwanted_calls[] = {"cudaGetDevice",    "cudaSetDevice",
                                             "cudaGetLastError", "cudaPeekAtLastError",
                                             "cudaEventCreate",  "cudaEventCreateWithFlags",
                                             "cudaEventDestroy"};
/* Driver calls that launch, wait, copy or map memory. The same selection as in driver_calls.c, for
 * versions of CUPTI that cannot select single calls. */
static const char *const wanted_driver_calls[] = {"cuLaunch*",
                                                  "cuGraphLaunch",
                                                  "cuMemcpy*",
                                                  "cuMemset*",
                                                  "cuStreamSynchronize",
                                                  "cuStreamWaitEvent",
                                                  "cuEventRecord",
                                                  "cuEventRecordWithFlags",
                                                  "cuEventSynchronize",
                                                  "cuCtxSynchronize",
                                                  "cuMemCreate",
                                                  "cuMemMap",
                                                  "cuMemUnmap",
                                                  "cuMemRelease",
                                                  "cuMemExportToShareableHandle",
                                                  "cuMemImportFromShareableHandle"};

/* Finds the name of a call and whether it is wanted. Calls of the runtime are excluded by name,
 * calls of the driver included. */
static api_call classify_call(cp_decoder *d, uint32_t domain, uint32_t cbid)
{
    api_call c = {.known = true, .name = cp_names_call(d->names, domain, cbid)};
    if (domain == CP_DOMAIN_RUNTIME)
        c.unwanted = is_listed_call(c.name.data, unwanted_calls, CP_COUNT(unwanted_calls));
    else if (strncmp(c.name.data, "cu", 2) == 0) /* calls without a name are kept */
        c.unwanted =
            !is_listed_call(c.name.data, wanted_driver_calls, CP_COUNT(wanted_driver_calls));
    return c;
}

/* classify_call, cached by id. */
static api_call get_call(cp_decoder *d, uint32_t domain, uint32_t cbid)
{
    if (cbid >= MAX_CALL_IDS)
        return classify_call(d, domain, cbid);
    api_call *c = &d->calls->table[domain - CP_DOMAIN_DRIVER][cbid];
    if (!c->known)
        *c = classify_call(d, domain, cbid);
    return *c;
}

/* ---- one call -------------------------------------------------------------------------------- */

static void describe_call_set(const cp_decoder *d, const cp_set_key *key, cp_values *out,
                              cp_set_scratch *scratch)
{
    (void)d;
    (void)scratch;
    cp_value_uint(out, "cbid", key->words[1]);
}

/* Delivers one call. Its id is the correlation id, to which device work refers. */
static void deliver_call(cp_decoder *d, uint32_t kind, const uint8_t *record, int32_t type,
                         api_call c)
{
    uint32_t version = d->version, correlation = cp_call_correlation(version, record);
    cp_set_key key = {{CP_SET_CALL, cp_call_cbid(version, record)}};
    KinetoPlugin_Activity a;
    cp_values v = {.count = 0};
    cp_set_scratch scratch;
    if (!cp_begin_activity(d, &a, type, cp_call_start(version, record),
                           cp_call_end(version, record)))
        return;
    if (kind != CP_KIND_INTERNAL_LAUNCH_API)
        a.metadataSet = cp_get_value_set(d, &key, describe_call_set, &v, &scratch);
    a.event.processId = (int32_t)cp_call_process(version, record);
    a.event.threadId = get_system_thread(cp_call_thread(version, record));
    a.event.eventId = correlation;
    a.externalId = cp_operator_of(d, correlation);
    a.pName = c.name.data;
    a.nameSize = c.name.size;
    a.pMetadata = v.items;
    a.metadataCount = v.count;
    cp_deliver_activity(d, kind, &a);
}

void cp_read_call(cp_decoder *d, const uint8_t *record)
{
    uint32_t kind = cp_record_kind(record);
    bool runtime = kind == CP_KIND_RUNTIME;
    int32_t type = runtime ? KINETO_PLUGIN_PROFILE_EVENT_TYPE_RUNTIME
                           : KINETO_PLUGIN_PROFILE_EVENT_TYPE_DRIVER;
    if (!cp_wants(d, type))
        return;
    api_call c = {
        .name = {"Internal launch", 15}}; /* a launch of the driver's own, without an id */
    if (kind != CP_KIND_INTERNAL_LAUNCH_API)
        c = get_call(d, runtime ? CP_DOMAIN_RUNTIME : CP_DOMAIN_DRIVER,
                     cp_call_cbid(d->version, record));
    if (!c.unwanted)
        deliver_call(d, kind, record, type, c);
}

/* ---- overheads ------------------------------------------------------------------------------- */

/* The kinds of CUpti_ActivityOverheadKind: CUPTI's own have their number in the upper half. */
static const char *get_overhead_name(uint32_t kind)
{
    static const char *const of_cupti[] = {"Unknown",
                                           "Buffer Flush",
                                           "Instrumentation",
                                           "Resource",
                                           "Runtime Triggered Module Loading",
                                           "Lazy Function Loading",
                                           "Command Buffer Full",
                                           "Activity Buffer Request",
                                           "UVM Activity Init"};
    if (kind == 1)
        return "Driver Compiler";
    return kind >> 16 < CP_COUNT(of_cupti) ? of_cupti[kind >> 16] : "Unknown";
}

/* Overheads have a row of their own, after all devices. */
static void announce_overhead_row(cp_decoder *d)
{
    KinetoPlugin_ProfileDeviceInfo info = {
        .unpaddedStructSize = KINETO_PLUGIN_SIZE(KinetoPlugin_ProfileDeviceInfo, pLabel),
        .deviceId = -1,
        .sortIndex = 0x100000a,
        .pName = "CUPTI Overhead",
        .pLabel = "CUPTI"};
    d->overheads = true;
    (void)d->builder->addDeviceInfo(d->builder->pTraceBuilderHandle, &info);
}

void cp_read_overhead(cp_decoder *d, const uint8_t *record)
{
    KinetoPlugin_Activity a;
    const char *name = get_overhead_name(cp_overhead_kind(d->version, record));
    if (!cp_wants(d, KINETO_PLUGIN_PROFILE_EVENT_TYPE_OVERHEAD) ||
        !cp_begin_activity(d, &a, KINETO_PLUGIN_PROFILE_EVENT_TYPE_OVERHEAD,
                           cp_overhead_start(d->version, record),
                           cp_overhead_end(d->version, record)))
        return;
    if (!d->overheads)
        announce_overhead_row(d);
    a.event.deviceId = -1;
    a.pName = name;
    a.nameSize = (uint32_t)strlen(name);
    cp_deliver_activity(d, CP_KIND_OVERHEAD, &a);
}
