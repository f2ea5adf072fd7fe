/* Calls of the driver and the runtime as CUPTI sees them: their records, the operators that they
 * were made in, synchronisations, and callbacks of one subscriber. */
#include "standin.h"

#include <unistd.h>

enum { KINDS = 8, DEPTH = 1024, IDS = 2048, DOMAINS = 4 };

/* ---- operators: a stack per thread and kind ------------------------------------------------- */

static _Thread_local struct {
    uint64_t ids[DEPTH];
    uint32_t depth;
} stacks[KINDS];

bool si_external_push(uint32_t kind, uint64_t id)
{
    if (kind == 0 || kind >= KINDS || stacks[kind].depth == DEPTH)
        return false;
    stacks[kind].ids[stacks[kind].depth++] = id;
    return true;
}

bool si_external_pop(uint32_t kind, uint64_t *id)
{
    if (kind == 0 || kind >= KINDS || !stacks[kind].depth)
        return false;
    *id = stacks[kind].ids[--stacks[kind].depth];
    return true;
}

static void write_external(uint32_t correlation)
{
    const si_layout *layout = si_layout_of("ExternalCorrelation");
    for (uint32_t kind = 1; kind < KINDS; kind++) {
        uint8_t record[SI_MAX_RECORD] = {0};
        if (!stacks[kind].depth)
            continue;
        si_set(record, layout, "kind", 39);
        si_set(record, layout, "externalKind", kind);
        si_set(record, layout, "externalId", stacks[kind].ids[stacks[kind].depth - 1]);
        si_set(record, layout, "correlationId", correlation);
        si_write(record, layout->size, true);
    }
}

/* ---- callbacks ------------------------------------------------------------------------------ */

static atomic_bool listened[DOMAINS][IDS];
static _Atomic(si_listener) listener;
static _Atomic(void *) listener_user;

bool si_listen(si_listener function, void *user)
{
    si_listener none = NULL;
    if (!atomic_compare_exchange_strong(&listener, &none, function))
        return false;
    listener_user = user;
    return true;
}

bool si_listen_to(uint32_t domain, uint32_t id, bool on)
{
    if (domain >= DOMAINS || id >= IDS)
        return false;
    listened[domain][id] = on;
    return true;
}

void si_listen_end(void)
{
    listener = NULL;
    for (uint32_t domain = 0; domain < DOMAINS; domain++)
        for (uint32_t id = 0; id < IDS; id++)
            listened[domain][id] = false;
}

static void call_back(const si_call *call, bool enters)
{
    si_listener function = listener;
    uint8_t data[SI_MAX_RECORD] = {0};
    const si_layout *layout = si_layout_of("CallbackData");
    if (!function || call->id >= IDS || !listened[call->domain][call->id])
        return;
    si_set(data, layout, "callbackSite", !enters);
    si_set(data, layout, "functionName", (uint64_t)(uintptr_t)call->name);
    si_set(data, layout, "correlationId", call->correlation);
    function(listener_user, call->domain, call->id, data);
}

void si_call_resource(uint32_t id, si_context *context)
{
    si_listener function = listener;
    const void *data[4] = {context, NULL, NULL, NULL}; /* CUpti_ResourceData: context, handle … */
    if (function && listened[SI_RESOURCE][id])
        function(listener_user, SI_RESOURCE, id, data);
}

/* ---- switches ------------------------------------------------------------------------------- */

enum { AS_KIND, ALWAYS, NEVER };
static atomic_uchar singled[DOMAINS][IDS]; /* calls that were switched by themselves */
static atomic_bool system_thread_ids;

bool si_call_single(uint32_t domain, uint32_t id, bool on)
{
    if (domain >= DOMAINS || id >= IDS)
        return false;
    singled[domain][id] = on ? ALWAYS : NEVER;
    return true;
}

void si_call_kind(uint32_t kind)
{
    uint32_t domain = kind == 4 ? SI_DRIVER : kind == 5 ? SI_RUNTIME : 0;
    for (uint32_t id = 0; domain && id < IDS; id++)
        singled[domain][id] = AS_KIND;
}

void si_call_thread_ids(bool of_system) { system_thread_ids = of_system; }

static uint32_t thread_id(void)
{
    return system_thread_ids ? (uint32_t)gettid() : (uint32_t)(uintptr_t)pthread_self();
}

/* ---- a call of the driver or the runtime ---------------------------------------------------- */

static atomic_uint calls;
static _Thread_local uint32_t depth; /* calls that calls make are not recorded, as with CUPTI */

static bool is_wanted(const si_call *call)
{
    unsigned char single = call->id < IDS ? singled[call->domain][call->id] : AS_KIND;
    return single == ALWAYS || (single == AS_KIND && si_kind_on(call->domain == SI_DRIVER ? 4 : 5));
}

int32_t si_call_begin(si_call *call, uint32_t domain, const char *name, uint64_t detail)
{
    *call = (si_call){.domain = domain, .name = name};
    int32_t code = si_enter(name, detail);
    if (si_is_lost())
        return 3; /* CUDA_ERROR_NOT_INITIALIZED, cudaErrorInitializationError */
    if (code)
        return code;
    call->id = si_callback_id(domain, name);
    call->correlation = si_plan.options.correlation + atomic_fetch_add(&calls, 1);
    call->recorded = depth++ == 0 && is_wanted(call);
    call_back(call, true);
    call->start = si_stamp_now();
    if (si_kind_on(39))
        write_external(call->correlation);
    return 0;
}

static void write_overhead(const si_call *call, uint64_t start, uint64_t end)
{
    const si_layout *layout = si_layout_for(17, si_plan.options.version);
    uint8_t record[SI_MAX_RECORD] = {0};
    si_set(record, layout, "kind", 17);
    si_set(record, layout, "overheadKind", 1u << 16);
    si_set(record, layout, "objectKind", 2);
    si_set(record, layout, "start", start);
    si_set(record, layout, "end", end);
    si_set(record, layout, "correlationId", call->correlation);
    si_write(record, layout->size, true);
}

static void write_call(const si_call *call, int32_t result)
{
    const si_layout *layout = si_layout_of("API");
    uint8_t record[SI_MAX_RECORD] = {0};
    uint64_t end = si_stamp_now();
    si_set(record, layout, "kind", call->domain == SI_DRIVER ? 4 : 5);
    si_set(record, layout, "cbid", call->id);
    si_set(record, layout, "start", call->start);
    si_set(record, layout, "end", end);
    si_set(record, layout, "processId", (uint64_t)getpid());
    si_set(record, layout, "threadId", thread_id());
    si_set(record, layout, "correlationId", call->correlation);
    si_set(record, layout, "returnValue", (uint64_t)(uint32_t)result);
    si_write(record, layout->size, true);
    uint32_t every = si_plan.options.overhead_every;
    if (every && si_kind_on(17) && call->correlation % every == 0)
        write_overhead(call, call->start, end);
}

int32_t si_call_end(si_call *call, int32_t result)
{
    depth--;
    if (call->recorded)
        write_call(call, result);
    call_back(call, false);
    return result;
}

void si_call_sync(const si_call *call, uint32_t type, const si_context *context, uint32_t stream,
                  const si_event *event)
{
    const si_layout *layout = si_layout_for(38, si_plan.options.version);
    uint8_t record[SI_MAX_RECORD] = {0};
    if (!si_kind_on(38))
        return;
    si_set(record, layout, "kind", 38);
    si_set(record, layout, "type", type);
    si_set(record, layout, "start", call->start);
    si_set(record, layout, "end", si_stamp_now());
    si_set(record, layout, "correlationId", call->correlation);
    si_set(record, layout, "contextId", context->id);
    si_set(record, layout, "streamId", stream);
    si_set(record, layout, "cudaEventId", event ? event->id : UINT32_MAX);
    si_write(record, layout->size, true);
}

void si_call_memory(const si_call *call, uint32_t operation, uint64_t address, uint64_t bytes)
{
    const si_layout *layout = si_layout_for(49, si_plan.options.version);
    uint8_t record[SI_MAX_RECORD] = {0};
    const si_context *context = si_context_current();
    if (!si_kind_on(49))
        return;
    si_set(record, layout, "kind", 49);
    si_set(record, layout, "memoryOperationType", operation);
    si_set(record, layout, "memoryKind", 3); /* device */
    si_set(record, layout, "correlationId", call->correlation);
    si_set(record, layout, "address", address);
    si_set(record, layout, "bytes", bytes);
    si_set(record, layout, "timestamp", si_stamp_now());
    si_set(record, layout, "processId", (uint64_t)getpid());
    si_set(record, layout, "deviceId", (uint64_t)context->device);
    si_set(record, layout, "contextId", context->id);
    si_set(record, layout, "streamId", 7);
    si_write(record, layout->size, true);
}
