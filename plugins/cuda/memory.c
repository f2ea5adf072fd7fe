/* Allocations and releases of device memory, as moments on the stream that orders them. They have a
 * kind of their own, "gpu_memory", for hosts that let plug-ins register kinds. */
#include "layouts.h"

#include "cuda.h"

/* The number of the kind "gpu_memory"; 0: the host has not registered it, and nothing is
 * recorded. */
int32_t cp_memory_type;

void cp_memory_announce(const KinetoPlugin_Registry *registry)
{
    static const KinetoPlugin_ActivityTypeInfo type = {
        .pName = "gpu_memory",
        .likeEventType = KINETO_PLUGIN_PROFILE_EVENT_TYPE_CUDA_EVENT,
        .enabledByDefault = 1};
    KinetoPlugin_RegisterActivityTypes_Params params = {
        .unpaddedStructSize =
            KINETO_PLUGIN_SIZE(KinetoPlugin_RegisterActivityTypes_Params, firstEventType),
        .pTypes = &type,
        .count = 1};
    if (KINETO_PLUGIN_HAS(registry, KinetoPlugin_Registry, registerActivityTypes) &&
        registry->registerActivityTypes &&
        registry->registerActivityTypes(registry->pRegistryHandle, &params) == 0)
        cp_memory_type = params.firstEventType;
}

enum { OPERATION_ALLOCATION = 1, OPERATION_RELEASE = 2 }; /* CUpti_ActivityMemoryOperationType */
enum { MEMORY_PINNED = 2 }; /* CUpti_ActivityMemoryKind: up to this one it is host memory */

static const char *get_operation_name(uint32_t operation)
{
    switch (operation) {
    case OPERATION_ALLOCATION:
        return "Memory allocation";
    case OPERATION_RELEASE:
        return "Memory release";
    default:
        return "Memory operation";
    }
}

/* The change of the memory in use; negative for a release. */
static int64_t get_size_change(const cp_decoder *d, const uint8_t *record)
{
    int64_t bytes = (int64_t)cp_memory_bytes(d->version, record);
    return cp_memory_operation(d->version, record) == OPERATION_RELEASE
               ? (int64_t)(0 - (uint64_t)bytes)
               : bytes;
}

/* The values of one change. Host memory is not added to the total of the device. */
static void describe_allocation(cp_decoder *d, const uint8_t *record, int64_t change, cp_values *v)
{
    uint32_t version = d->version, device = cp_memory_device(version, record),
             kind = cp_memory_memory_kind(version, record);
    const char *word = cp_memory_kind(kind);
    cp_value_uint(v, "Addr", cp_memory_address(version, record));
    cp_value_int(v, "Bytes", change);
    cp_value_bytes(v, "kind", KINETO_PLUGIN_VALUE_STRING, word, strlen(word));
    if (kind > MEMORY_PINNED && device < CP_MAX_DEVICES) {
        d->allocated[device] = (int64_t)((uint64_t)d->allocated[device] + (uint64_t)change);
        cp_value_int(v, "allocated since start", d->allocated[device]);
    }
    cp_value_uint(v, "device", device);
    cp_value_uint(v, "context", cp_memory_context(version, record));
    if (cp_memory_is_async(version, record))
        cp_value_uint(v, "stream", cp_memory_stream(version, record));
    if (cp_memory_pool_type(version, record))
        cp_value_uint(v, "pool", cp_memory_pool(version, record));
}

/* Delivers one allocation or release. An asynchronous one is ordered by its stream; others belong
 * to the device as a whole (stream UINT32_MAX). */
void cp_read_memory(cp_decoder *d, const uint8_t *record)
{
    uint32_t version = d->version;
    uint64_t time = cp_memory_time(version, record);
    KinetoPlugin_Activity a;
    cp_values v = {.count = 0};
    if (!cp_memory_type || !cp_begin_activity(d, &a, cp_memory_type, time, time))
        return;
    bool ordered = cp_memory_is_async(version, record) != 0;
    describe_allocation(d, record, get_size_change(d, record), &v);
    cp_place_activity(d, &a, cp_memory_device(version, record),
                      ordered ? cp_memory_stream(version, record) : UINT32_MAX,
                      cp_memory_correlation(version, record));
    a.pName = get_operation_name(cp_memory_operation(version, record));
    a.nameSize = (uint32_t)strlen(a.pName);
    a.pMetadata = v.items;
    a.metadataCount = v.count;
    cp_deliver_activity(d, CP_KIND_MEMORY2, &a);
}
