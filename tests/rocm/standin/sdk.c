/* The stand-in for librocprofiler-sdk: contexts, buffers, a callback thread, and the tools. */
#include "standin.h"

#include "layouts.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define MAX_CONTEXTS 16
#define MAX_BUFFERS  16
#define COUNT(a)     (sizeof(a) / sizeof((a)[0]))

typedef struct handle {
    uint64_t handle;
} handle;
typedef struct header {
    uint32_t category, kind;
    void *payload;
} header;
typedef void (*buffer_fn)(handle, handle, header **, size_t, void *, uint64_t);
typedef int (*external_fn)(uint64_t, handle, uint32_t, int32_t, uint64_t, uint64_t *, void *);

/* ---- the script -------------------------------------------------------------------------------- */

static const char *find_value(const char *name)
{
    const char *at = getenv("CKINETO_ROCM_STANDIN");
    size_t size = strlen(name);
    while (at && *at) {
        if (strncmp(at, name, size) == 0 && at[size] == '=')
            return at + size + 1;
        at = strchr(at, ' ');
        at = at ? at + 1 : NULL;
    }
    return NULL;
}

long si_number(const char *name, long otherwise)
{
    const char *value = find_value(name);
    return value ? strtol(value, NULL, 10) : otherwise;
}

int si_version(void) { return (int)si_number("version", 10000); }
static bool has_long_ids(void) { return si_version() >= 10000; }

/* The status that the script has for this call; 0: it succeeds. */
static int scripted_status(const char *function)
{
    static _Atomic(int) calls;
    const char *at = getenv("CKINETO_ROCM_STANDIN");
    size_t size = strlen(function);
    for (at = at ? strstr(at, "fail=") : NULL; at; at = strstr(at + 1, "fail=")) {
        if (strncmp(at + 5, function, size) != 0 || at[5 + size] != ':')
            continue;
        char *rest;
        int status = (int)strtol(at + 6 + size, &rest, 10);
        long only = *rest == ':' ? strtol(rest + 1, NULL, 10) : 0;
        return !only || ++calls == only ? status : 0;
    }
    return 0;
}
#define SCRIPTED(function)                                                                         \
    do {                                                                                           \
        int scripted = scripted_status(#function);                                                 \
        if (scripted)                                                                              \
            return scripted;                                                                       \
    } while (0)

uint64_t si_now(void)
{
    const char *clock = find_value("clock");
    struct timespec t;
    clock_gettime(CLOCK_BOOTTIME, &t);
    uint64_t ns = (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
    return clock && strncmp(clock, "odd", 3) == 0 ? ns / 2 + 1000 : ns;
}

/* ---- state ------------------------------------------------------------------------------------- */

typedef struct context {
    bool active;
    external_fn external;
    void *external_data;
} context;
typedef struct batch {
    uint8_t *bytes;
    header *headers;
    size_t count;
} batch;
typedef struct buffer {
    size_t limit, watermark; /* records */
    bool lossless, busy;
    buffer_fn callback;
    void *data;
    uint64_t context, dropped;
    batch front;
} buffer;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static context contexts[MAX_CONTEXTS];
static buffer buffers[MAX_BUFFERS];
static int context_count = 1, buffer_count = 1;
static struct {
    uint32_t kind;
    int context, buffer;
    uint64_t operations; /* bit per operation; 0: all */
} services[SERVICES];
typedef struct callback_record {
    uint64_t words[8];
} callback_record;
typedef void (*callback_fn)(callback_record, uint64_t *, void *);
static struct {
    int context;
    callback_fn callback;
} code_service, marker_service;
static bool locked, over;
static pthread_t thread;
static bool thread_runs;

/* ---- buffers ----------------------------------------------------------------------------------- */

/* Hands one buffer over, on the callback thread. The lock is held, and released meanwhile. */
static void hand_over(buffer *b)
{
    batch out = b->front;
    header **list = calloc(out.count + 1, sizeof *list);
    b->front = (batch){0};
    b->busy = true;
    pthread_mutex_unlock(&lock);
    for (size_t i = 0; i < out.count; i++) {
        out.headers[i].payload = out.bytes + i * MAX_RECORD;
        list[i] = &out.headers[i];
    }
    if (out.count)
        b->callback((handle){b->context}, (handle){(uint64_t)(b - buffers)}, list, out.count, b->data,
                    b->dropped);
    free(list);
    free(out.bytes);
    free(out.headers);
    pthread_mutex_lock(&lock);
    b->busy = false;
    pthread_cond_broadcast(&changed);
}

static uint64_t flush_wanted; /* bit per buffer */

static void *run_callbacks(void *unused)
{
    (void)unused;
    pthread_mutex_lock(&lock);
    while (!over || flush_wanted) {
        if (!flush_wanted) {
            pthread_cond_wait(&changed, &lock);
            continue;
        }
        for (int i = 1; i < buffer_count; i++)
            if (flush_wanted >> i & 1) {
                flush_wanted &= ~(UINT64_C(1) << i);
                hand_over(&buffers[i]);
            }
    }
    pthread_mutex_unlock(&lock);
    return NULL;
}

/* The lock is held. */
static void flush_and_wait(int i)
{
    flush_wanted |= UINT64_C(1) << i;
    pthread_cond_broadcast(&changed);
    while (thread_runs && (flush_wanted >> i & 1 || buffers[i].busy))
        pthread_cond_wait(&changed, &lock);
}

static void append_record(buffer *b, uint32_t kind, const uint8_t *record)
{
    size_t n = b->front.count;
    b->front.bytes = realloc(b->front.bytes, (n + 1) * MAX_RECORD);
    b->front.headers = realloc(b->front.headers, (n + 1) * sizeof(header));
    memcpy(b->front.bytes + n * MAX_RECORD, record, MAX_RECORD);
    b->front.headers[n] = (header){1, kind, NULL};
    b->front.count = n + 1;
}

static void emit(uint32_t service, uint32_t kind, const uint8_t *record)
{
    int i = services[service].buffer;
    buffer *b = &buffers[i];
    pthread_mutex_lock(&lock);
    if (b->front.count >= b->limit && b->lossless)
        flush_and_wait(i);
    if (b->front.count >= b->limit)
        b->dropped++;
    else
        append_record(b, kind, record);
    if (b->front.count >= b->watermark && !(flush_wanted >> i & 1)) {
        flush_wanted |= UINT64_C(1) << i;
        pthread_cond_broadcast(&changed);
    }
    pthread_mutex_unlock(&lock);
}

/* ---- the API of rocprofiler-sdk ---------------------------------------------------------------- */

#define SDK(name) API int rocprofiler_##name
SDK(get_version)(uint32_t *major, uint32_t *minor, uint32_t *patch);
SDK(get_version)(uint32_t *major, uint32_t *minor, uint32_t *patch)
{
    int v = si_version();
    SCRIPTED(get_version);
    *major = (uint32_t)v / 10000;
    *minor = (uint32_t)v / 100 % 100;
    *patch = (uint32_t)v % 100;
    return 0;
}

SDK(get_timestamp)(uint64_t *out);
SDK(get_timestamp)(uint64_t *out)
{
    SCRIPTED(get_timestamp);
    *out = si_now();
    return 0;
}

API const char *rocprofiler_get_status_string(int status);
const char *rocprofiler_get_status_string(int status)
{
    return status == 16 ? "ROCPROFILER_STATUS_ERROR_CONFIGURATION_LOCKED" : "some status";
}

SDK(create_context)(handle *out);
SDK(create_context)(handle *out)
{
    SCRIPTED(create_context);
    if (locked)
        return 16;
    if (out->handle)
        return 13;
    out->handle = (uint64_t)context_count++;
    return 0;
}

SDK(start_context)(handle c);
SDK(start_context)(handle c)
{
    SCRIPTED(start_context);
    if (over)
        return 21;
    pthread_mutex_lock(&lock);
    contexts[c.handle].active = true;
    pthread_mutex_unlock(&lock);
    return 0;
}

SDK(stop_context)(handle c);
SDK(stop_context)(handle c)
{
    SCRIPTED(stop_context);
    pthread_mutex_lock(&lock);
    contexts[c.handle].active = false;
    pthread_mutex_unlock(&lock);
    return 0;
}

SDK(create_buffer)(handle c, size_t size, size_t watermark, int policy, buffer_fn fn, void *data,
                   handle *out);
SDK(create_buffer)(handle c, size_t size, size_t watermark, int policy, buffer_fn fn, void *data,
                   handle *out)
{
    SCRIPTED(create_buffer);
    if (locked)
        return 16;
    size_t limit = (size_t)si_number("full", (long)(size / 184));
    size_t mark = watermark / 184 < limit ? watermark / 184 : limit;
    buffers[buffer_count] = (buffer){.limit = limit,
                                     .watermark = mark ? mark : 1,
                                     .lossless = policy == 2,
                                     .callback = fn,
                                     .data = data,
                                     .context = c.handle};
    if (find_value("full") && policy == 1)
        buffers[buffer_count].watermark = limit + 1; /* handed over by a flush alone */
    out->handle = (uint64_t)buffer_count++;
    return 0;
}

SDK(flush_buffer)(handle b);
SDK(flush_buffer)(handle b)
{
    SCRIPTED(flush_buffer);
    if (over)
        return 21;
    pthread_mutex_lock(&lock);
    flush_and_wait((int)b.handle);
    pthread_mutex_unlock(&lock);
    return 0;
}

SDK(create_callback_thread)(handle *out);
SDK(create_callback_thread)(handle *out)
{
    SCRIPTED(create_callback_thread);
    out->handle = 1;
    return 0;
}

SDK(assign_callback_thread)(handle b, handle t);
SDK(assign_callback_thread)(handle b, handle t)
{
    SCRIPTED(assign_callback_thread);
    return b.handle && t.handle ? 0 : 1;
}

/* ---- kinds and operations ---------------------------------------------------------------------- */

static const char *buffer_kind(uint32_t n)
{
    if (si_version() >= 10300 && n == 33)
        return "HIP_GRAPH";
    if (has_long_ids())
        return n < COUNT(kinds_1_0) ? kinds_1_0[n] : NULL;
    return n < COUNT(kinds_0_5) ? kinds_0_5[n] : NULL;
}

static int give_name(const char *name, const char **out, uint64_t *size)
{
    if (!name)
        return 4;
    if (out)
        *out = name;
    if (size)
        *size = strlen(name);
    return 0;
}

SDK(query_buffer_tracing_kind_name)(uint32_t n, const char **name, uint64_t *size);
SDK(query_buffer_tracing_kind_name)(uint32_t n, const char **name, uint64_t *size)
{
    SCRIPTED(query_buffer_tracing_kind_name);
    return give_name(buffer_kind(n), name, size);
}

SDK(query_callback_tracing_kind_name)(uint32_t n, const char **name, uint64_t *size);
SDK(query_callback_tracing_kind_name)(uint32_t n, const char **name, uint64_t *size)
{
    SCRIPTED(query_callback_tracing_kind_name);
    return give_name(n < COUNT(callback_kinds) ? callback_kinds[n] : NULL, name, size);
}

static const char *const hip_names[HIP_OPS] = {"hipLaunchKernel", "hipMemcpyAsync", "hipMalloc", "hipFree",
                                               "hipGraphLaunch", "hipDeviceSynchronize", "hipGetDevice"};
static const char *const marker_names[] = {"roctxMarkA", "roctxRangePushA", "roctxRangePop",
                                           "roctxRangeStartA", "roctxRangeStop"};

SDK(query_buffer_tracing_kind_operation_name)(uint32_t k, int32_t op, const char **name, uint64_t *n);
SDK(query_buffer_tracing_kind_operation_name)(uint32_t k, int32_t op, const char **name, uint64_t *n)
{
    const char *kind = buffer_kind(k);
    SCRIPTED(query_buffer_tracing_kind_operation_name);
    if (!kind)
        return 4;
    if (strcmp(kind, "HIP_RUNTIME_API") == 0)
        return give_name(op >= 0 && op < HIP_OPS ? hip_names[op] : NULL, name, n);
    return give_name(strcmp(kind, "RCCL_API") == 0    ? "ncclAllReduce"
                     : strcmp(kind, "HSA_CORE_API") == 0 ? "hsa_signal_store_relaxed"
                                                         : NULL,
                     name, n);
}

SDK(query_callback_tracing_kind_operation_name)(uint32_t k, int32_t op, const char **name, uint64_t *n);
SDK(query_callback_tracing_kind_operation_name)(uint32_t k, int32_t op, const char **name, uint64_t *n)
{
    SCRIPTED(query_callback_tracing_kind_operation_name);
    return k == 7 && op >= 0 && op < 5 ? give_name(marker_names[op], name, n) : 4;
}

SDK(iterate_buffer_tracing_kind_operations)(uint32_t k, int (*fn)(uint32_t, int32_t, void *), void *data);
SDK(iterate_buffer_tracing_kind_operations)(uint32_t k, int (*fn)(uint32_t, int32_t, void *), void *data)
{
    SCRIPTED(iterate_buffer_tracing_kind_operations);
    for (int32_t i = 0; i < HIP_OPS; i++)
        if (fn(k, i, data))
            break;
    return 0;
}

/* ---- services ---------------------------------------------------------------------------------- */

static int service_of(const char *kind)
{
    static const char *const names[SERVICES] = {"HIP_RUNTIME_API", "KERNEL_DISPATCH", "MEMORY_COPY",
                                                "MEMORY_ALLOCATION", "SCRATCH_MEMORY", "RCCL_API",
                                                "HIP_GRAPH", "HSA_CORE_API"};
    for (int i = 0; kind && i < SERVICES; i++)
        if (strcmp(kind, names[i]) == 0)
            return i;
    return -1;
}

SDK(configure_buffer_tracing_service)(handle c, uint32_t kind, const int32_t *ops, size_t n, handle b);
SDK(configure_buffer_tracing_service)(handle c, uint32_t kind, const int32_t *ops, size_t n, handle b)
{
    int service = service_of(buffer_kind(kind));
    char function[64];
    SCRIPTED(configure_buffer_tracing_service);
    snprintf(function, sizeof function, "service_%s", buffer_kind(kind) ? buffer_kind(kind) : "");
    int scripted = scripted_status(function);
    if (scripted)
        return scripted;
    if (locked)
        return 16;
    if (service < 0)
        return 0;
    services[service].kind = kind;
    services[service].context = (int)c.handle;
    services[service].buffer = (int)b.handle;
    for (size_t i = 0; i < n; i++)
        services[service].operations |= UINT64_C(1) << ops[i];
    return 0;
}

SDK(configure_callback_tracing_service)(handle c, uint32_t kind, const int32_t *ops, size_t n,
                                        callback_fn fn, void *data);
SDK(configure_callback_tracing_service)(handle c, uint32_t kind, const int32_t *ops, size_t n,
                                        callback_fn fn, void *data)
{
    (void)ops;
    (void)n;
    (void)data;
    SCRIPTED(configure_callback_tracing_service);
    if (kind == 10) {
        code_service.context = (int)c.handle;
        code_service.callback = fn;
    } else {
        marker_service.context = (int)c.handle;
        marker_service.callback = fn;
    }
    return 0;
}

SDK(configure_external_correlation_id_request_service)(handle c, const uint32_t *kinds, size_t n,
                                                       external_fn fn, void *data);
SDK(configure_external_correlation_id_request_service)(handle c, const uint32_t *kinds, size_t n,
                                                       external_fn fn, void *data)
{
    (void)kinds;
    (void)n;
    SCRIPTED(configure_external_correlation_id_request_service);
    contexts[c.handle].external = fn;
    contexts[c.handle].external_data = data;
    return 0;
}

/* Stacks of this thread, per context. */
static _Thread_local struct {
    uint64_t ids[64];
    int depth;
} pushed[MAX_CONTEXTS];

SDK(push_external_correlation_id)(handle c, uint64_t tid, uint64_t id);
SDK(push_external_correlation_id)(handle c, uint64_t tid, uint64_t id)
{
    (void)tid;
    SCRIPTED(push_external_correlation_id);
    pushed[c.handle].ids[pushed[c.handle].depth++ % 64] = id;
    return 0;
}

SDK(pop_external_correlation_id)(handle c, uint64_t tid, uint64_t *id);
SDK(pop_external_correlation_id)(handle c, uint64_t tid, uint64_t *id)
{
    (void)tid;
    SCRIPTED(pop_external_correlation_id);
    if (!pushed[c.handle].depth)
        return 1;
    *id = pushed[c.handle].ids[--pushed[c.handle].depth % 64];
    return 0;
}

/* ---- processors and GPUs--------------------------------------------------------------------------- */

static void make_agent(uint8_t *a, uint32_t i, bool is_gpu)
{
    static uint8_t bank[24];
    put4(bank, 0, 1);
    put8(bank, 16, UINT64_C(192) << 30);
    memset(a, 0, 312);
    put8(a, 0, has_long_ids() ? 312 : 296);
    put8(a, 8, 7000 + i); /* id */
    put4(a, 16, is_gpu ? 2 : 1);
    put4(a, 28, 1);
    put4(a, 52, 64);
    put4(a, 64, 64);
    put4(a, 72, 304);
    put4(a, 92, 4);
    put4(a, 100, 90402);
    put4(a, 108, 0x100 * (i + 1));
    put4(a, 112, 0);
    put4(a, 160, 32);
    put4(a, 168, 1024);
    put_pointer(a, 224, bank);
    put_pointer(a, 248, is_gpu ? "gfx942" : "some CPU");
    put_pointer(a, 264, is_gpu ? "AMD Instinct MI300X" : "some CPU");
    put4(a, 280, i);
    put4(a, 284, i);
}

SDK(query_available_agents)(int version, int (*fn)(int, const void **, size_t, void *), size_t size,
                            void *data);
SDK(query_available_agents)(int version, int (*fn)(int, const void **, size_t, void *), size_t size,
                            void *data)
{
    static uint8_t structs[9][320];
    const void *list[9];
    size_t gpus = (size_t)si_number("gpus", 2);
    SCRIPTED(query_available_agents);
    if (version != 1)
        return 19;
    if (size > (has_long_ids() ? 312u : 296u))
        return 18;
    for (size_t i = 0; i <= gpus && i < 9; i++) {
        make_agent(structs[i], (uint32_t)i, i > 0);
        list[gpus - i] = structs[i]; /* in another order than that of the nodes */
    }
    return fn(1, list, gpus + 1, data);
}

/* ---- tools ------------------------------------------------------------------------------------- */

typedef struct configuration {
    size_t size;
    int (*initialize)(void (*)(void), void *);
    void (*finalize)(void *);
    void *data;
} configuration;
typedef configuration *(*configure_fn)(uint32_t, const char *, uint32_t, void *);

static configuration *tools[16];
static uint32_t tool_count, asked;
static pthread_once_t started = PTHREAD_ONCE_INIT;
static configure_fn forced;

static void configure_tool(configure_fn fn)
{
    struct {
        size_t size;
        const char *name;
        uint32_t handle;
    } client = {sizeof client, NULL, tool_count};
    static configure_fn known[16];
    for (uint32_t i = 0; i < asked; i++)
        if (known[i] == fn)
            return;
    known[asked++ % 16] = fn;
    configuration *c = fn((uint32_t)si_version(), "stand-in", tool_count, &client);
    if (c && tool_count < 16)
        tools[tool_count++] = c;
}

static configure_fn entry_of(void *library)
{
    void *address = library ? dlsym(library, "rocprofiler_configure") : NULL;
    configure_fn fn;
    memcpy(&fn, &address, sizeof fn);
    return fn;
}

static void configure_named_tools(void)
{
    char list[4096];
    snprintf(list, sizeof list, "%s", getenv("ROCP_TOOL_LIBRARIES") ? getenv("ROCP_TOOL_LIBRARIES") : "");
    for (char *rest = NULL, *at = strtok_r(list, ":, ", &rest); at; at = strtok_r(NULL, ":, ", &rest)) {
        void *library = dlopen(at, RTLD_NOW | RTLD_GLOBAL);
        configure_fn fn = entry_of(library);
        if (fn)
            configure_tool(fn);
    }
}

/* At exit: contexts end, buffers are handed over, tools end. */
static void finalize_tools(void)
{
    pthread_mutex_lock(&lock);
    for (int i = 1; i < context_count; i++)
        contexts[i].active = false;
    for (int i = 1; i < buffer_count; i++)
        flush_and_wait(i);
    pthread_mutex_unlock(&lock);
    for (uint32_t i = 0; i < tool_count; i++)
        if (tools[i]->finalize)
            tools[i]->finalize(tools[i]->data);
    pthread_mutex_lock(&lock);
    over = true;
    pthread_cond_broadcast(&changed);
    pthread_mutex_unlock(&lock);
    pthread_join(thread, NULL);
}

static void start_tools(void)
{
    pthread_create(&thread, NULL, run_callbacks, NULL);
    thread_runs = true;
    if (si_number("first", 0))
        tool_count = 1, tools[0] = calloc(1, sizeof *tools[0]);
    if (forced)
        configure_tool(forced);
    configure_named_tools();
    configure_fn fn = entry_of(RTLD_DEFAULT);
    if (fn)
        configure_tool(fn);
    for (uint32_t i = 0; i < tool_count; i++)
        if (tools[i]->initialize && tools[i]->initialize(NULL, tools[i]->data) != 0)
            tools[i]->finalize = NULL;
    locked = true;
    atexit(finalize_tools);
}

void si_start(void) { (void)pthread_once(&started, start_tools); }

SDK(force_configure)(configure_fn fn);
SDK(force_configure)(configure_fn fn)
{
    SCRIPTED(force_configure);
    if (locked)
        return 16;
    forced = fn;
    si_start();
    return 0;
}

/* ---- for the fake HIP -------------------------------------------------------------------------- */

static void find_external(si_ids *ids, uint32_t service, int32_t operation)
{
    int c = services[service].context;
    uint64_t external = 0;
    if (contexts[c].external)
        (void)contexts[c].external((uint64_t)syscall(SYS_gettid), (handle){(uint64_t)c}, 0, operation,
                                   ids->internal, &external, contexts[c].external_data);
    else if (pushed[c].depth)
        external = pushed[c].ids[(pushed[c].depth - 1) % 64];
    ids->external[service] = external;
}

si_ids si_enter(uint32_t service, int32_t operation)
{
    static _Atomic(uint64_t) last;
    si_ids ids = {.internal = ++last};
    (void)service;
    pthread_mutex_lock(&lock);
    for (uint32_t i = 0; i < SERVICES; i++)
        if (services[i].kind && contexts[services[i].context].active)
            ids.active |= 1u << i;
    pthread_mutex_unlock(&lock);
    for (uint32_t i = 0; i < SERVICES; i++)
        if (ids.active >> i & 1)
            find_external(&ids, i, operation);
    return ids;
}

void si_leave(uint32_t service, int32_t operation, const si_ids *ids, uint64_t start)
{
    uint8_t r[MAX_RECORD];
    int is_long = has_long_ids();
    uint64_t wanted = services[service].operations;
    if (!(ids->active >> service & 1) || (wanted && !(wanted >> operation & 1)))
        return;
    size_t at = put_head(r, is_long ? 64 : 56, services[service].kind, operation, ids->internal,
                         ids->external[service], is_long);
    put8(r, at, start);
    put8(r, at + 8, si_now());
    put8(r, at + 16, (uint64_t)syscall(SYS_gettid));
    emit(service, services[service].kind, r);
}

static bool is_nth(const char *name)
{
    static _Atomic(long) counts[4];
    static const char *const names[] = {"unknown", "short", "timeless", "nameless"};
    long every = si_number(name, 0);
    for (size_t i = 0; every && i < COUNT(names); i++)
        if (strcmp(names[i], name) == 0)
            return ++counts[i] % every == 0;
    return false;
}

void si_kernel_done(const si_ids *ids, const si_kernel *k)
{
    uint8_t r[MAX_RECORD];
    uint32_t kind = services[SERVICE_KERNEL].kind;
    if (!(ids->active >> SERVICE_KERNEL & 1))
        return;
    put_head(r, is_nth("short") ? 100 : 184, kind, 2, ids->internal, ids->external[SERVICE_KERNEL], 0);
    put8(r, 32, 1);
    put8(r, 40, is_nth("timeless") ? 0 : k->start);
    put8(r, 48, k->end);
    put8(r, 56, 128);
    put8(r, 64, 7001 + (uint64_t)k->gpu);
    put8(r, 72, k->queue);
    put8(r, 80, k->kernel);
    put8(r, 88, ids->internal);
    put4(r, 100, k->local);
    for (size_t i = 0; i < 3; i++) {
        put4(r, 104 + 4 * i, k->block[i]);
        put4(r, 116 + 4 * i, k->grid[i] * k->block[i]);
    }
    emit(SERVICE_KERNEL, is_nth("unknown") ? 60 : kind, r);
}

void si_copy_done(const si_ids *ids, int operation, int gpu, uint64_t bytes, uint64_t start,
                  uint64_t end)
{
    uint8_t r[MAX_RECORD];
    if (!(ids->active >> SERVICE_COPY & 1))
        return;
    put_head(r, has_long_ids() ? 96 : 80, services[SERVICE_COPY].kind, operation, ids->internal,
             ids->external[SERVICE_COPY], 0);
    put8(r, 40, start);
    put8(r, 48, end);
    int source = si_number("peer", 0) ? 1 - gpu : gpu;
    put8(r, 56, operation == 3 ? 7000 : 7001 + (uint64_t)gpu);
    put8(r, 64, operation == 2 ? 7000 : 7001 + (uint64_t)source);
    put8(r, 72, bytes);
    emit(SERVICE_COPY, services[SERVICE_COPY].kind, r);
}

void si_memory_done(const si_ids *ids, int operation, int gpu, uint64_t address, uint64_t bytes,
                    uint64_t start, uint64_t end)
{
    uint8_t r[MAX_RECORD];
    if (!(ids->active >> SERVICE_MEMORY & 1))
        return;
    size_t at = put_head(r, 88, services[SERVICE_MEMORY].kind, operation, ids->internal,
                         ids->external[SERVICE_MEMORY], 1);
    put8(r, at + 8, start);
    put8(r, at + 16, end);
    put8(r, at + 24, operation == 1 ? 7001 + (uint64_t)gpu : 0);
    put8(r, at + 32, address);
    put8(r, at + 40, operation == 1 ? bytes : 0);
    emit(SERVICE_MEMORY, services[SERVICE_MEMORY].kind, r);
}

void si_scratch_done(const si_ids *ids, int gpu, uint64_t start, uint64_t end)
{
    uint8_t r[MAX_RECORD];
    int is_long = has_long_ids();
    if (!(ids->active >> SERVICE_SCRATCH & 1))
        return;
    size_t at = put_head(r, is_long ? 96 : 80, services[SERVICE_SCRATCH].kind, 1, ids->internal,
                         ids->external[SERVICE_SCRATCH], is_long);
    put8(r, at, 7001 + (uint64_t)gpu);
    put8(r, at + 8, 0xabc0);
    put8(r, at + 24, start);
    put8(r, at + 32, end);
    if (is_long)
        put8(r, at + 48, 65536);
    emit(SERVICE_SCRATCH, services[SERVICE_SCRATCH].kind, r);
}

void si_graph_done(const si_ids *ids, uint64_t graph, uint64_t kernels, uint64_t start, uint64_t end)
{
    uint8_t r[MAX_RECORD];
    if (!(ids->active >> SERVICE_GRAPH & 1))
        return;
    size_t at = put_head(r, 96, services[SERVICE_GRAPH].kind, 3, ids->internal,
                         ids->external[SERVICE_GRAPH], 1);
    put8(r, at + 8, start);
    put8(r, at + 16, end);
    put8(r, at + 40, graph);
    put8(r, at + 48, kernels);
    emit(SERVICE_GRAPH, services[SERVICE_GRAPH].kind, r);
}

/* The record of a callback: with long ids what follows them is 8 bytes later. */
static callback_record make_callback(uint32_t kind, int32_t operation, uint32_t phase, void *payload)
{
    callback_record r = {{0}};
    uint8_t *bytes = (uint8_t *)r.words;
    size_t at = has_long_ids() ? 40 : 32;
    put4(bytes, at, kind);
    put4(bytes, at + 4, (uint32_t)operation);
    put4(bytes, at + 8, phase);
    put_pointer(bytes, at + 16, payload);
    return r;
}

void si_load_kernel(uint64_t kernel, const char *name)
{
    uint8_t symbol[88] = {0};
    uint64_t user = 0;
    if (!code_service.callback || is_nth("nameless"))
        return;
    put8(symbol, 0, has_long_ids() ? 88 : 72);
    put8(symbol, 8, kernel);
    put_pointer(symbol, 24, name);
    put4(symbol, 48, 512);
    put4(symbol, 56, 48);
    put4(symbol, 60, 64);
    code_service.callback(make_callback(10, 2, 1, symbol), &user, NULL);
}

void si_marker(int32_t operation, int phase, const char *text, uint64_t id, uint64_t result)
{
    uint8_t call[32] = {0};
    uint64_t user = 0;
    if (!marker_service.callback || !contexts[marker_service.context].active)
        return;
    put8(call, 0, sizeof call);
    if (text)
        put_pointer(call, 8, text);
    else
        put8(call, 8, id);
    put8(call, 24, result);
    marker_service.callback(make_callback(7, operation, (uint32_t)phase, call), &user, NULL);
}
