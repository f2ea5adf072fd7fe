/* Activities on the host: calls of SYCL and of Level Zero, synchronisation, communication of oneCCL, and
 * PTI's own overhead. */
#include "xpu.h"

#include <stdio.h>

/* ---- calls ----------------------------------------------------------------------------------- */

/* Names are PTI's, which keeps them; the group of a hybrid call has the numbers of another one. */
static const xp_text *get_api_name(xp_decoder *d, uint32_t group, uint32_t api)
{
    size_t i = (group * 521u + api) % XP_API_SLOTS;
    const char *name = NULL;
    if (d->apis[i].name.data && d->apis[i].group == group && d->apis[i].api == api)
        return &d->apis[i].name;
    if (!xp_pti.api_name || xp_pti.api_name((int)group, api, &name) != XP_SUCCESS || !name)
        name = "";
    d->apis[i].group = group;
    d->apis[i].api = api;
    d->apis[i].name = (xp_text){name, (uint32_t)strlen(name)};
    return &d->apis[i].name;
}

/* The name of a call that PTI does not name. */
static void name_api_call(xp_decoder *d, KinetoPlugin_Activity *a, uint32_t group, uint32_t api,
                          char text[40])
{
    const xp_text *name = get_api_name(d, group, api);
    snprintf(text, 40, "(call %u of group %u)", api, group);
    xp_name_activity(d, a, name->size ? name->data : NULL, text);
}

/* A call of SYCL and the calls of Level Zero within it have one id: work is connected to the former. A
 * program without SYCL has the latter alone. */
void xp_read_call(xp_decoder *d, const xp_api_record *r)
{
    KinetoPlugin_Activity a;
    cp_values v = {.count = 0};
    char text[40];
    bool is_driver = r->kind == XP_VIEW_DRIVER;
    int32_t type = is_driver ? KINETO_PLUGIN_PROFILE_EVENT_TYPE_DRIVER
                             : KINETO_PLUGIN_PROFILE_EVENT_TYPE_RUNTIME;
    if (!xp_begin_activity(d, &a, type, r->start, r->end))
        return;
    d->has_sycl = d->has_sycl || !is_driver;
    name_api_call(d, &a, r->group, r->api, text);
    xp_place_on_thread(d, &a, r->thread, r->correlation);
    if (is_driver && d->has_sycl)
        a.event.eventId = 0;
    if (is_driver && r->result)
        cp_value_uint(&v, "return_code", r->result);
    xp_deliver_activity(d, &a, &v);
}

void xp_read_named_call(xp_decoder *d, const xp_named_call_record *r)
{
    KinetoPlugin_Activity a;
    cp_values v = {.count = 0};
    if (r->kind != XP_VIEW_RUNTIME ||
        !xp_begin_activity(d, &a, KINETO_PLUGIN_PROFILE_EVENT_TYPE_RUNTIME, r->start, r->end))
        return;
    xp_name_activity(d, &a, r->name, "(unknown call)");
    xp_place_on_thread(d, &a, r->thread, r->correlation);
    xp_deliver_activity(d, &a, &v);
}

/* ---- communication --------------------------------------------------------------------------- */

void xp_read_comms(xp_decoder *d, const xp_comms_record *r)
{
    KinetoPlugin_Activity a;
    cp_values v = {.count = 0};
    char name[128];
    if (!xp_begin_activity(d, &a, KINETO_PLUGIN_PROFILE_EVENT_TYPE_COLLECTIVE_COMM, r->start, r->end))
        return;
    snprintf(name, sizeof name, "xccl::%.100s", r->name ? r->name : "(unknown)");
    xp_name_activity(d, &a, name, name);
    xp_place_on_thread(d, &a, r->thread, 0);
    cp_value_uint(&v, "Communicator_id", r->communicator);
    cp_value_uint(&v, "send_size", r->sent_bytes);
    cp_value_uint(&v, "recv_size", r->received_bytes);
    xp_deliver_activity(d, &a, &v);
}

/* ---- rows of no device ----------------------------------------------------------------------- */

/* Kineto shows waits and overhead on device -1, in rows for threads. */
static void announce_host_row(xp_decoder *d)
{
    KinetoPlugin_ProfileDeviceInfo info = {
        .unpaddedStructSize = KINETO_PLUGIN_SIZE(KinetoPlugin_ProfileDeviceInfo, pLabel),
        .deviceId = -1,
        .sortIndex = 0x100000a,
        .pName = "PTI: waits and overhead",
        .pLabel = "PTI"};
    if (!d->overheads)
        (void)d->builder->addDeviceInfo(d->builder->pTraceBuilderHandle, &info);
    d->overheads = true;
}

static const char *get_sync_name(uint32_t type)
{
    static const char *const names[] = {
        "UNKNOWN",    "GPU_BARRIER_EXECUTION", "GPU_BARRIER_MEMORY", "HOST_FENCE",
        "HOST_EVENT", "HOST_COMMAND_LIST",     "HOST_COMMAND_QUEUE", "HOST_DEVICE"};
    return type < CP_COUNT(names) ? names[type] : names[0];
}

void xp_read_sync(xp_decoder *d, const xp_sync_record *r)
{
    KinetoPlugin_Activity a;
    cp_values v = {.count = 0};
    char context[24], queue[24], event[24], text[40];
    const char *type = get_sync_name(r->type);
    if (!xp_begin_activity(d, &a, KINETO_PLUGIN_PROFILE_EVENT_TYPE_CUDA_SYNC, r->start, r->end))
        return;
    announce_host_row(d);
    name_api_call(d, &a, r->group, r->api, text);
    xp_place_on_thread(d, &a, r->thread, r->correlation);
    a.event.deviceId = -1;
    cp_value_bytes(&v, "Type", KINETO_PLUGIN_VALUE_STRING, type, strlen(type));
    xp_value_handle(&v, "Context_handle", (uintptr_t)r->context, context);
    xp_value_handle(&v, "Queue_handle", (uintptr_t)r->queue, queue);
    xp_value_handle(&v, "Event_handle", (uintptr_t)r->event, event);
    cp_value_uint(&v, "Number_wait_events", r->wait_events);
    cp_value_uint(&v, "Return_code", r->result);
    xp_deliver_activity(d, &a, &v);
}

/* Kineto's names, which are those of CUPTI. */
static const char *get_overhead_kind_name(uint32_t kind)
{
    static const char *const names[] = {"Unknown",      "Unknown", "Resource",
                                        "Buffer Flush", "Driver",  "Instrumentation"};
    return kind < CP_COUNT(names) ? names[kind] : names[0];
}

void xp_read_overhead(xp_decoder *d, const xp_overhead_record *r)
{
    KinetoPlugin_Activity a;
    cp_values v = {.count = 0};
    if (!xp_begin_activity(d, &a, KINETO_PLUGIN_PROFILE_EVENT_TYPE_OVERHEAD, r->start, r->end))
        return;
    announce_host_row(d);
    xp_name_activity(d, &a, get_overhead_kind_name(r->overhead_kind), "Unknown");
    xp_place_on_thread(d, &a, r->thread, 0);
    a.event.deviceId = -1;
    cp_value_uint(&v, "overhead cost", r->duration);
    cp_value_uint(&v, "overhead count", r->count);
    xp_deliver_activity(d, &a, &v);
}
