/* Activities of calls: of HIP and RCCL as calls of the runtime, of HSA as calls of the driver; and of the
 * SDK's scratch memory, for which kernels wait. */
#include "rocm.h"

#include <stdio.h>

/* ---- names ----------------------------------------------------------------------------------- */

/* Names are text of the SDK, which stays. */
static rp_text query_call_name(rp_kind kind, int32_t operation)
{
    static const char unknown[] = "(unknown call)";
    const char *name = NULL;
    (void)rp_sdk.operation_name(rp_kind_number(kind), operation, &name, NULL);
    return name ? (rp_text){name, (uint32_t)strlen(name)}
                : (rp_text){unknown, (uint32_t)sizeof unknown - 1};
}

static rp_text get_operation_name(rp_decoder *d, rp_kind kind, int32_t operation)
{
    if (operation < 0 || (uint32_t)operation >= RP_CALL_NAMES)
        return query_call_name(kind, operation);
    rp_text *known = &d->call_names[kind][operation];
    if (!known->data)
        *known = query_call_name(kind, operation);
    return *known;
}

/* ---- calls ----------------------------------------------------------------------------------- */

/* Kineto's key for the number of a call. */
static void add_call_set(rp_decoder *d, KinetoPlugin_Activity *a, rp_kind kind, int32_t operation,
                         cp_values *v)
{
    cp_set_key key = {{RP_SET_CALL, (uint32_t)kind, (uint32_t)operation}};
    a->metadataSet = cp_sets_find(d->sets, &key);
    if (a->metadataSet)
        return;
    cp_value_int(v, "cid", operation);
    a->metadataSet = cp_sets_add(d->sets, d->builder, &key, v);
}

/* Its id is that of the launch, to which device work refers. */
void rp_read_call(rp_decoder *d, rp_kind kind, const rp_record *record)
{
    bool is_driver = kind == RP_KIND_HSA_CORE || kind == RP_KIND_HSA_AMD;
    int32_t type = is_driver ? KINETO_PLUGIN_PROFILE_EVENT_TYPE_DRIVER
                             : KINETO_PLUGIN_PROFILE_EVENT_TYPE_RUNTIME;
    const rp_call_tail *t = rp_wants(d, type) ? rp_tail(d, record, sizeof *t) : NULL;
    KinetoPlugin_Activity a;
    cp_values v = {.count = 0};
    if (!t || !rp_begin_activity(d, &a, type, t->start, t->end))
        return;
    rp_text name = get_operation_name(d, kind, record->operation);
    add_call_set(d, &a, kind, record->operation, &v);
    a.event.processId = (int32_t)d->pid;
    a.event.threadId = (int32_t)t->thread;
    a.event.eventId = (int64_t)record->internal;
    a.externalId = record->external;
    a.pName = name.data;
    a.nameSize = name.size;
    rp_deliver_activity(d, &a, &v);
}

/* ---- scratch memory -------------------------------------------------------------------------- */

/* Overheads have a row of their own, after all devices. */
static void announce_scratch_row(rp_decoder *d)
{
    KinetoPlugin_ProfileDeviceInfo info = {
        .unpaddedStructSize = KINETO_PLUGIN_SIZE(KinetoPlugin_ProfileDeviceInfo, pLabel),
        .deviceId = -1,
        .sortIndex = 0x100000a,
        .pName = "ROCm overhead",
        .pLabel = "ROCm"};
    if (!d->overheads)
        (void)d->builder->addDeviceInfo(d->builder->pTraceBuilderHandle, &info);
    d->overheads = true;
}

static const char *get_scratch_name(int32_t operation)
{
    static const char *const names[] = {"Scratch memory", "Scratch memory allocation",
                                        "Scratch memory release", "Scratch memory reclaim"};
    return operation > 0 && (size_t)operation < CP_COUNT(names) ? names[operation] : names[0];
}

/* The tail of a scratch record, of which versions before 1.0 have no size of the memory. */
static const rp_scratch_tail *find_scratch_tail(rp_decoder *d, const rp_record *record, bool *has_bytes)
{
    *has_bytes = record->size >= RP_IDS_AT + RP_LONG_IDS + sizeof(rp_scratch_tail);
    return rp_tail(d, record, *has_bytes ? sizeof(rp_scratch_tail) : RP_SCRATCH_SHORT_BYTES);
}

void rp_read_scratch(rp_decoder *d, const rp_record *record)
{
    bool has_bytes = false;
    const rp_scratch_tail *t = rp_wants(d, KINETO_PLUGIN_PROFILE_EVENT_TYPE_OVERHEAD)
                                   ? find_scratch_tail(d, record, &has_bytes)
                                   : NULL;
    KinetoPlugin_Activity a;
    cp_values v = {.count = 0};
    if (!t || !rp_begin_activity(d, &a, KINETO_PLUGIN_PROFILE_EVENT_TYPE_OVERHEAD, t->start, t->end))
        return;
    const rp_device *device = rp_device_of(t->agent_id);
    announce_scratch_row(d);
    cp_value_int(&v, "device", device ? device->id : -1);
    cp_value_uint(&v, "stream", rp_stream_of(d, t->queue));
    if (has_bytes)
        cp_value_uint(&v, "bytes", t->bytes);
    a.event.deviceId = -1;
    a.externalId = record->external;
    a.pName = get_scratch_name(record->operation);
    a.nameSize = (uint32_t)strlen(a.pName);
    rp_deliver_activity(d, &a, &v);
}
