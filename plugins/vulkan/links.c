/* Semaphores between queues: a submission that waits for a semaphore depends on the one that signals
 * it. Both become activities of kind cuda_sync with an arrow between them, like waits for events of CUDA's
 * streams. A ring of the last ones is kept; whichever side ends last delivers both.
 *
 * A wait for a timeline's value is matched with the first signal that reaches it, also if that is submitted
 * later; several waits may be for one signal. A wait for a binary semaphore is matched with the last signal
 * that no wait has used. Semaphores within one queue are matched, too, and deliver nothing. */
#include "vulkan.h"

#include <string.h>

/* Overwrites the oldest one. */
static vl_link *add_link(vl_device *device, VkSemaphore semaphore, uint64_t value)
{
    vl_link *link = &device->links[device->next_link++ % VL_MAX_LINKS];

    *link = (vl_link){.semaphore = semaphore, .value = value};
    device->has_links = true;
    return link;
}

static void set_signal(vl_link *link, const vl_queue *queue, vl_submission *s)
{
    link->from_serial = s->serial;
    link->from_queue = queue->number;
    link->from_correlation = s->correlation_id;
    s->has_links = true;
}

void vl_link_signal(vl_device *device, const vl_queue *queue, vl_submission *s,
                    VkSemaphore semaphore, uint64_t value)
{
    /* Waits that were submitted before. */
    for (uint32_t i = 0; i < VL_MAX_LINKS && value; i++) {
        vl_link *l = &device->links[i];
        if (l->semaphore == semaphore && !l->from_serial && l->value && l->value <= value)
            set_signal(l, queue, s);
    }
    set_signal(add_link(device, semaphore, value), queue, s);
}

/* The signal that ends a wait: of a timeline the first that reaches the value. */
static vl_link *find_signal(vl_device *device, VkSemaphore semaphore, uint64_t value)
{
    vl_link *best = NULL;

    for (uint32_t i = 0; i < VL_MAX_LINKS; i++) {
        vl_link *l = &device->links[i];
        bool fits = l->semaphore == semaphore && l->from_serial &&
                    (value ? l->value >= value : l->value == 0 && !l->to_serial);
        if (fits && (!best || (value ? l->value < best->value
                                     : l->from_serial > best->from_serial)))
            best = l;
    }
    return best;
}

void vl_link_wait(vl_device *device, const vl_queue *queue, vl_submission *s,
                  VkSemaphore semaphore, uint64_t value)
{
    vl_link *link = find_signal(device, semaphore, value);

    if (!link) {
        if (!value)
            return;
        link = add_link(device, semaphore, value);
    } else if (link->to_serial) { /* another wait for the same value */
        vl_link copy = *link;
        link = add_link(device, semaphore, value);
        *link = copy;
        link->has_start = false;
    }
    link->to_serial = s->serial;
    link->to_queue = queue->number;
    link->to_correlation = s->correlation_id;
    s->has_links = true;
}

void vl_links_forget(vl_device *device, uint64_t serial, VkSemaphore semaphore)
{
    for (uint32_t i = 0; i < VL_MAX_LINKS; i++) {
        vl_link *l = &device->links[i];
        if (semaphore ? l->semaphore == semaphore
                      : l->from_serial == serial || l->to_serial == serial)
            *l = (vl_link){.value = 0};
    }
}

static KinetoPlugin_Metadata make_int(const char *key, int64_t value)
{
    return (KinetoPlugin_Metadata){
        .pKey = key, .valueType = KINETO_PLUGIN_VALUE_INT, .count = 1, .i = value};
}

/* One of the two activities, on the row of its queue. */
static void emit_side(const KinetoPlugin_TraceBuilder *builder, const vl_device *device,
                      const vl_link *l, uint32_t flow, bool is_signal, int32_t clock)
{
    static const char kind[] = "Stream Wait Event";
    const char *name = is_signal ? "Semaphore Signal" : "Semaphore Wait";
    int32_t queue = is_signal ? l->from_queue : l->to_queue;
    /* From the signal to the first command after it; overlapping clocks give a moment. */
    int64_t start = is_signal || l->end_ns <= l->start_ns ? l->end_ns : l->start_ns;
    const KinetoPlugin_Metadata items[] = {
        make_int("device", device->gpu->index),
        make_int("stream", queue),
        {.pKey = "cuda_sync_kind",
         .valueType = KINETO_PLUGIN_VALUE_STRING,
         .count = sizeof kind - 1,
         .pointer = kind},
        make_int("wait_on_stream", l->from_queue),
        make_int("wait_on_cuda_event_record_corr_id", l->from_correlation),
    };
    KinetoPlugin_Activity activity = {
        .unpaddedStructSize = KINETO_PLUGIN_SIZE(KinetoPlugin_Activity, pMetadata),
        .event = {.unpaddedStructSize = KINETO_PLUGIN_SIZE(KinetoPlugin_ProfileEvent, resourceId),
                  .eventType = KINETO_PLUGIN_PROFILE_EVENT_TYPE_CUDA_SYNC,
                  .startTimeUtcNs = start,
                  .endTimeUtcNs = is_signal ? start : l->start_ns,
                  .eventId = is_signal ? l->from_correlation : l->to_correlation,
                  .deviceId = device->gpu->index,
                  .resourceId = queue},
        .clock = clock,
        .nameSize = (uint32_t)strlen(name),
        .pName = name,
        .flowType = KINETO_PLUGIN_PROFILE_EVENT_FLOW_TYPE_ASYNC_CPU_GPU,
        .flowId = flow,
        .flowIsStart = is_signal,
        .metadataCount = is_signal ? 2 : VL_COUNT(items),
        .pMetadata = items,
    };
    vl_emit(builder, &activity);
}

void vl_links_resolve(const KinetoPlugin_TraceBuilder *builder, vl_device *device,
                      const vl_submission *s, int64_t start_ns, int64_t end_ns, int32_t clock)
{
    for (uint32_t i = 0; i < VL_MAX_LINKS; i++) {
        vl_link *l = &device->links[i];
        if (!l->semaphore)
            continue;
        if (l->from_serial == s->serial) {
            l->end_ns = end_ns;
            l->has_end = true;
        }
        if (l->to_serial == s->serial) {
            l->start_ns = start_ns;
            l->has_start = true;
        }
        if (!l->has_end || !l->has_start)
            continue;
        if (l->from_queue != l->to_queue &&
            vl_session_wants(KINETO_PLUGIN_PROFILE_EVENT_TYPE_CUDA_SYNC)) {
            uint32_t flow = vl_next_correlation();
            vl_count_requested(builder, 2);
            emit_side(builder, device, l, flow, true, clock);
            emit_side(builder, device, l, flow, false, clock);
        }
        /* Another wait may be for the same value of a timeline. */
        if (l->value) {
            l->to_serial = 0;
            l->has_start = false;
        } else {
            *l = (vl_link){.value = 0};
        }
    }
}
