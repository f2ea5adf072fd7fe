/* Calls of the runtime and the driver, and what CUPTI itself costs. */
#include "layouts.h"

#include "cuda.h"

#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

/* ---- threads -----------------------------------------------------------------------------------------
 * Where CUPTI cannot be told to use the system's ids, it gives the low half of pthread_self. */

#define THREADS       8192u
#define THREAD_PROBES 16u

static atomic_ullong threads[THREADS]; /* CUPTI's id << 32 | the system's */

static uint32_t thread_slot(uint32_t id, uint32_t probe)
{
    return ((id * UINT32_C(0x9e3779b1) >> 16) + probe) % THREADS;
}

/* A place in the table that is this id's, or free; else the first, whose owner is long gone. */
static atomic_ullong *thread_place(uint32_t id)
{
    for (uint32_t i = 0; i < THREAD_PROBES; i++) {
        atomic_ullong *place = &threads[thread_slot(id, i)];
        unsigned long long there = atomic_load_explicit(place, memory_order_relaxed);
        if (there == 0 || there >> 32 == id)
            return place;
    }
    return &threads[thread_slot(id, 0)];
}

void cp_threads_note(void)
{
    static _Thread_local bool noted;
    if (noted)
        return;
    noted = true;
    uint32_t id = (uint32_t)(uintptr_t)pthread_self(), tid = (uint32_t)syscall(SYS_gettid);
    atomic_store(thread_place(id), (unsigned long long)id << 32 | tid);
}

static int32_t thread_of(uint32_t id)
{
    unsigned long long there = atomic_load(thread_place(id));
    return there >> 32 == id ? (int32_t)there : (int32_t)(id & INT32_MAX);
}

/* ---- which calls -------------------------------------------------------------------------------------- */

#define CALLS 1024u /* per domain; there are some 800 */

typedef struct call {
    bool known, unwanted;
    cp_text name;
} call;

struct cp_calls {
    call table[2][CALLS];
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

/* Is it one of these, whatever its variant? An entry that ends in '*' stands for all that begin so.
 */
static bool is_among(const char *name, const char *const *list, size_t count)
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

/* Made all the time, and of no news. */
static const char *const noise[] = {"cudaGetDevice",    "cudaSetDevice",
                                    "cudaGetLastError", "cudaPeekAtLastError",
                                    "cudaEventCreate",  "cudaEventCreateWithFlags",
                                    "cudaEventDestroy"};
/* Of the driver only what launches, waits, copies or maps memory; driver_calls.c where it can. */
static const char *const driver[] = {"cuLaunch*",
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

static call learn(cp_decoder *d, uint32_t domain, uint32_t cbid)
{
    call c = {.known = true, .name = cp_names_call(d->names, domain, cbid)};
    if (domain == CP_DOMAIN_RUNTIME)
        c.unwanted = is_among(c.name.data, noise, CP_COUNT(noise));
    else if (strncmp(c.name.data, "cu", 2) == 0) /* else it has no name, and may be anything */
        c.unwanted = !is_among(c.name.data, driver, CP_COUNT(driver));
    return c;
}

static call call_of(cp_decoder *d, uint32_t domain, uint32_t cbid)
{
    if (cbid >= CALLS)
        return learn(d, domain, cbid);
    call *c = &d->calls->table[domain - CP_DOMAIN_DRIVER][cbid];
    if (!c->known)
        *c = learn(d, domain, cbid);
    return *c;
}

/* ---- one call ------------------------------------------------------------------------------------------- */

static void describe(const cp_decoder *d, const cp_set_key *key, cp_values *out,
                     cp_set_scratch *scratch)
{
    (void)d;
    (void)scratch;
    cp_value_uint(out, "cbid", key->words[1]);
}

static void deliver(cp_decoder *d, uint32_t kind, const uint8_t *record, int32_t type, call c)
{
    uint32_t version = d->version, correlation = cp_call_correlation(version, record);
    cp_set_key key = {{CP_SET_CALL, cp_call_cbid(version, record)}};
    KinetoPlugin_Activity a;
    cp_values v = {.count = 0};
    cp_set_scratch scratch;
    if (!cp_activity_begin(d, &a, type, cp_call_start(version, record),
                           cp_call_end(version, record)))
        return;
    if (kind != CP_KIND_INTERNAL_LAUNCH_API)
        a.metadataSet = cp_set_of(d, &key, describe, &v, &scratch);
    a.event.processId = (int32_t)cp_call_process(version, record);
    a.event.threadId = thread_of(cp_call_thread(version, record));
    a.event.eventId = correlation;
    a.externalId = cp_operator_of(d, correlation);
    a.pName = c.name.data;
    a.nameSize = c.name.size;
    a.pMetadata = v.items;
    a.metadataCount = v.count;
    cp_deliver(d, kind, &a);
}

void cp_read_call(cp_decoder *d, const uint8_t *record)
{
    uint32_t kind = cp_record_kind(record);
    bool runtime = kind == CP_KIND_RUNTIME;
    int32_t type = runtime ? KINETO_PLUGIN_PROFILE_EVENT_TYPE_RUNTIME
                           : KINETO_PLUGIN_PROFILE_EVENT_TYPE_DRIVER;
    if (!cp_wants(d, type))
        return;
    call c = {.name = {"Internal launch", 15}}; /* of the driver for itself; has no id */
    if (kind != CP_KIND_INTERNAL_LAUNCH_API)
        c = call_of(d, runtime ? CP_DOMAIN_RUNTIME : CP_DOMAIN_DRIVER,
                    cp_call_cbid(d->version, record));
    if (!c.unwanted)
        deliver(d, kind, record, type, c);
}

/* ---- overheads ---------------------------------------------------------------------------------------------- */

static const char *overhead_name(uint32_t kind)
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

/* A row of their own, below all devices. */
static void announce(cp_decoder *d)
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
    const char *name = overhead_name(cp_overhead_kind(d->version, record));
    if (!cp_wants(d, KINETO_PLUGIN_PROFILE_EVENT_TYPE_OVERHEAD) ||
        !cp_activity_begin(d, &a, KINETO_PLUGIN_PROFILE_EVENT_TYPE_OVERHEAD,
                           cp_overhead_start(d->version, record),
                           cp_overhead_end(d->version, record)))
        return;
    if (!d->overheads)
        announce(d);
    a.event.deviceId = -1;
    a.pName = name;
    a.nameSize = (uint32_t)strlen(name);
    cp_deliver(d, CP_KIND_OVERHEAD, &a);
}
