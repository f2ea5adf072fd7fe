/* Submissions, from vkQueueSubmit until their results have been read. A submission has ended when its
 * fence is signalled: the program's, or one of ours if the program gives none. Fences are polled after
 * calls that suggest an end (waits.c) and at later submissions; nothing waits for one. A command
 * buffer that is changed, or submitted again, has ended as well, by the rules of Vulkan.
 *
 * A submission is listed before the program's vkQueueSubmit is passed on, because its end may be seen by
 * another thread before that call has returned. */
#include "vulkan.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

/* The two kinds of batches; one of the pointers is NULL. */
typedef struct batch_list {
    uint32_t count;
    const VkSubmitInfo *old;
    const VkSubmitInfo2 *new;
} batch_list;

/* The two kinds differ in where their command buffers are. */
static uint32_t count_batch_buffers(const batch_list *b, uint32_t i)
{
    return b->old ? b->old[i].commandBufferCount : b->new[i].commandBufferInfoCount;
}

static VkCommandBuffer get_batch_buffer(const batch_list *b, uint32_t i, uint32_t k)
{
    return b->old ? b->old[i].pCommandBuffers[k] : b->new[i].pCommandBufferInfos[k].commandBuffer;
}

/* ---- fences ---------------------------------------------------------------------------------- */

/* A fence that is not signalled: a new one, or one of an ended submission. */
static VkFence take_fence(vl_device *device)
{
    const VkFenceCreateInfo info = {.sType = VK_STRUCTURE_TYPE_FENCE_CREATE_INFO};
    VkFence fence = VK_NULL_HANDLE;

    for (uint32_t i = device->free_fence_count; i-- > 0;) {
        VkFence old = device->free_fences[i];
        if (device->GetFenceStatus(device->handle, old) != VK_SUCCESS ||
            device->ResetFences(device->handle, 1, &old) != VK_SUCCESS)
            continue;
        device->free_fences[i] = device->free_fences[--device->free_fence_count];
        return old;
    }
    if (device->CreateFence(device->handle, &info, NULL, &fence) != VK_SUCCESS)
        return VK_NULL_HANDLE;
    return fence;
}

/* The fence was submitted: it is signalled, or will soon be. Without memory for the list it stays until
 * the driver frees the device. */
static void return_fence(vl_device *device, VkFence fence)
{
    if (device->free_fence_count == device->free_fence_room) {
        uint32_t room = device->free_fence_room ? 2 * device->free_fence_room : 16;
        VkFence *list = realloc(device->free_fences, room * sizeof *list);
        if (!list)
            return;
        device->free_fences = list;
        device->free_fence_room = room;
    }
    device->free_fences[device->free_fence_count++] = fence;
}

/* ---- the end of submissions: the device's lock is held ----------------------------------------- */

/* `at` points to the link that leads to it. */
static void unlink_submission(vl_queue *queue, vl_submission **at)
{
    vl_submission *s = *at;

    *at = s->next;
    if (!s->next)
        queue->last = at;
    s->next = NULL;
}

/* From here on the command buffers may be changed without a look at the lists. */
static void release_buffers(vl_device *device, const vl_submission *s)
{
    for (uint32_t i = 0; i < s->count; i++)
        atomic_fetch_sub_explicit(&s->items[i].buffer->pending, 1, memory_order_release);
    atomic_fetch_sub(&device->in_flight, 1);
}

/* Delivers a submission and removes it. One whose vkQueueSubmit has not returned is freed there. */
static void finish_submission(vl_device *device, vl_queue *queue, vl_submission **at)
{
    vl_submission *s = *at;
    const KinetoPlugin_TraceBuilder *builder = vl_builder_enter();

    if (builder) {
        if (s->session == vl_session_current())
            vl_deliver(builder, device, queue, s);
        vl_builder_leave();
    }
    unlink_submission(queue, at);
    release_buffers(device, s);
    if (s->is_own_fence && s->fence)
        return_fence(device, s->fence);
    if (s->state == VL_PREPARED)
        s->state = VL_DONE;
    else
        free(s);
}

/* Finishes the first submissions of a queue, up to a number. */
static void finish_until(vl_device *device, vl_queue *queue, uint64_t serial)
{
    while (queue->first && queue->first->serial <= serial && queue->first->state == VL_SUBMITTED)
        finish_submission(device, queue, &queue->first);
}

/* A signalled fence means that all earlier submissions of the queue have ended, too. */
static void poll_queue(vl_device *device, vl_queue *queue)
{
    uint64_t ended = 0;

    for (const vl_submission *s = queue->first; s && s->state == VL_SUBMITTED; s = s->next) {
        if (!s->fence)
            continue;
        if (device->GetFenceStatus(device->handle, s->fence) == VK_NOT_READY)
            break;
        ended = s->serial;
    }
    finish_until(device, queue, ended);
}

/* Cheap: of each queue it stops at the first fence that is not signalled. */
static void poll_device(vl_device *device)
{
    for (uint32_t i = 0; i < device->queue_count; i++)
        poll_queue(device, &device->queues[i]);
}

/* Linear: a submission has few command buffers. */
static bool includes_buffer(const vl_submission *s, const vl_buffer *buffer)
{
    for (uint32_t i = 0; i < s->count; i++)
        if (s->items[i].buffer == buffer)
            return true;
    return false;
}

/* What the fences report first, so that submissions are delivered in order; then those of the
 * buffer, whatever their fences say. */
static void finish_buffer(vl_device *device, const vl_buffer *buffer)
{
    poll_device(device);
    for (uint32_t i = 0; i < device->queue_count && atomic_load(&buffer->pending); i++) {
        vl_submission **at = &device->queues[i].first;
        while (*at) {
            if (includes_buffer(*at, buffer))
                finish_submission(device, &device->queues[i], at);
            else
                at = &(*at)->next;
        }
    }
}

void vl_collect(vl_device *device)
{
    if (!atomic_load_explicit(&device->in_flight, memory_order_relaxed))
        return;
    pthread_mutex_lock(&device->lock);
    poll_device(device);
    pthread_mutex_unlock(&device->lock);
}

void vl_collect_buffer(vl_buffer *buffer)
{
    pthread_mutex_lock(&buffer->device->lock);
    finish_buffer(buffer->device, buffer);
    pthread_mutex_unlock(&buffer->device->lock);
}

uint64_t vl_last_serial(vl_device *device)
{
    pthread_mutex_lock(&device->lock);
    uint64_t serial = device->last_serial;
    pthread_mutex_unlock(&device->lock);
    return serial;
}

void vl_collect_queue(vl_device *device, VkQueue queue, uint64_t serial)
{
    pthread_mutex_lock(&device->lock);
    for (uint32_t i = 0; i < device->queue_count; i++)
        if (!queue || device->queues[i].handle == queue)
            finish_until(device, &device->queues[i], serial);
    pthread_mutex_unlock(&device->lock);
}

/* A fence that is reset while its submission runs, against the rules, is not polled any more. */
static void release_queue_fence(vl_device *device, vl_queue *queue, VkFence fence)
{
    for (vl_submission *s = queue->first; s; s = s->next) {
        if (s->fence != fence)
            continue;
        if (device->GetFenceStatus(device->handle, fence) == VK_NOT_READY) {
            s->fence = VK_NULL_HANDLE;
        } else {
            finish_until(device, queue, s->serial);
            return;
        }
    }
}

void vl_release_fence(vl_device *device, VkFence fence)
{
    if (!atomic_load_explicit(&device->in_flight, memory_order_relaxed))
        return;
    pthread_mutex_lock(&device->lock);
    for (uint32_t i = 0; i < device->queue_count; i++)
        release_queue_fence(device, &device->queues[i], fence);
    pthread_mutex_unlock(&device->lock);
}

/* ---- the end of a session -------------------------------------------------------------------- */

static void add_in_flight(vl_device *device, void *total)
{
    vl_collect(device);
    *(uint32_t *)total += atomic_load(&device->in_flight);
}

/* The submissions stay in their lists, but belong to no session any more. */
static void lose_in_flight(vl_device *device, void *context)
{
    const KinetoPlugin_TraceBuilder *builder = vl_builder_enter();

    (void)context;
    pthread_mutex_lock(&device->lock);
    for (uint32_t i = 0; i < device->queue_count; i++) {
        for (vl_submission *s = device->queues[i].first; s; s = s->next) {
            uint64_t lost = 0;
            for (uint32_t k = 0; s->session && k < s->count; k++)
                lost += s->items[k].buffer->timed;
            if (builder) {
                vl_count_requested(builder, lost);
                vl_count_lost(builder, VL_LOSS_UNFINISHED, lost);
            }
            s->session = 0;
        }
    }
    pthread_mutex_unlock(&device->lock);
    if (builder)
        vl_builder_leave();
}

void vl_drain(int wait_ms)
{
    const struct timespec pause = {0, 500000};
    int64_t limit = vl_now_ns(CLOCK_MONOTONIC) + wait_ms * INT64_C(1000000);

    for (;;) {
        uint32_t in_flight = 0;
        vl_devices_visit(add_in_flight, &in_flight);
        if (in_flight == 0 || vl_now_ns(CLOCK_MONOTONIC) >= limit)
            break;
        (void)nanosleep(&pause, NULL);
    }
    vl_devices_visit(lose_in_flight, NULL);
}

/* ---- submission: the device's lock is held ----------------------------------------------------- */

/* Its results will be those of the next run. */
static void mark_overwritten(vl_submission *s, const vl_buffer *buffer)
{
    for (uint32_t i = 0; i < s->count; i++)
        s->items[i].is_overwritten |= s->items[i].buffer == buffer;
}

/* A command buffer is submitted again. Its results are read first, unless it still runs, which it may
 * for simultaneous use: then the next run overwrites them. */
static void resolve_pending(vl_device *device, vl_submission *s, vl_buffer *buffer)
{
    if (!buffer->is_simultaneous && (!s || !includes_buffer(s, buffer))) {
        finish_buffer(device, buffer);
        return;
    }
    poll_device(device);
    if (!atomic_load(&buffer->pending))
        return;
    for (uint32_t i = 0; i < device->queue_count; i++)
        for (vl_submission *old = device->queues[i].first; old; old = old->next)
            mark_overwritten(old, buffer);
    if (s)
        mark_overwritten(s, buffer);
}

/* So that results which the device does not write are seen to be missing. */
static void zero_results(const vl_buffer *buffer)
{
    for (const vl_chunk *chunk = buffer->chunks; chunk; chunk = chunk->next)
        for (uint32_t i = 0; i < 2 * chunk->used; i++)
            chunk->results[i] = 0;
}

static void add_item(vl_device *device, vl_submission *s, VkCommandBuffer handle)
{
    vl_buffer *buffer = vl_map_get(&device->buffers, VL_KEY(handle));

    if (!buffer)
        return;
    if (atomic_load_explicit(&buffer->pending, memory_order_acquire))
        resolve_pending(device, s, buffer);
    const vl_untimed *u = &buffer->untimed;
    if (!s || !(buffer->timed || u->kernels || u->copies || u->fills))
        return;
    if (!atomic_load(&buffer->pending))
        zero_results(buffer);
    s->items[s->count++] = (vl_item){.buffer = buffer};
    atomic_fetch_add(&buffer->pending, 1);
}

static void add_items(vl_device *device, vl_submission *s, const batch_list *batches)
{
    for (uint32_t i = 0; i < batches->count; i++)
        for (uint32_t k = 0; k < count_batch_buffers(batches, i); k++)
            add_item(device, s, get_batch_buffer(batches, i, k));
}

/* Values of timeline semaphores; 0 for those without one. */
static uint64_t get_timeline_value(const VkSubmitInfo *info, uint32_t i, bool is_signal)
{
    const VkBaseInStructure *next = info->pNext;

    while (next && next->sType != VK_STRUCTURE_TYPE_TIMELINE_SEMAPHORE_SUBMIT_INFO)
        next = next->pNext;
    const VkTimelineSemaphoreSubmitInfo *t = (const VkTimelineSemaphoreSubmitInfo *)next;
    if (!t)
        return 0;
    if (is_signal)
        return i < t->signalSemaphoreValueCount ? t->pSignalSemaphoreValues[i] : 0;
    return i < t->waitSemaphoreValueCount ? t->pWaitSemaphoreValues[i] : 0;
}

/* Semaphores that the batches wait for and signal. Waits come first: a batch may do both. */
static void add_links(vl_device *device, const vl_queue *queue, vl_submission *s,
                      const batch_list *b)
{
    for (uint32_t i = 0; i < b->count && b->old; i++) {
        const VkSubmitInfo *info = &b->old[i];
        for (uint32_t k = 0; k < info->waitSemaphoreCount; k++)
            vl_link_wait(device, queue, s, info->pWaitSemaphores[k],
                         get_timeline_value(info, k, false));
        for (uint32_t k = 0; k < info->signalSemaphoreCount; k++)
            vl_link_signal(device, queue, s, info->pSignalSemaphores[k],
                           get_timeline_value(info, k, true));
    }
    for (uint32_t i = 0; i < b->count && b->new; i++) {
        const VkSubmitInfo2 *info = &b->new[i];
        for (uint32_t k = 0; k < info->waitSemaphoreInfoCount; k++)
            vl_link_wait(device, queue, s, info->pWaitSemaphoreInfos[k].semaphore,
                         info->pWaitSemaphoreInfos[k].value);
        for (uint32_t k = 0; k < info->signalSemaphoreInfoCount; k++)
            vl_link_signal(device, queue, s, info->pSignalSemaphoreInfos[k].semaphore,
                           info->pSignalSemaphoreInfos[k].value);
    }
}

/* With space for all command buffers of the batches. NULL: out of memory; nothing is followed then. */
static vl_submission *create_submission(const batch_list *batches)
{
    uint32_t count = 0;
    vl_submission *s;

    for (uint32_t i = 0; i < batches->count; i++)
        count += count_batch_buffers(batches, i);
    s = malloc(sizeof *s + count * sizeof *s->items);
    if (s)
        memset(s, 0, sizeof *s);
    return s;
}

/* Lists the submission; replaces *fence if the program gave none. */
static void list_submission(vl_device *device, vl_queue *queue, vl_submission *s, VkFence *fence)
{
    const KinetoPlugin_TraceBuilder *builder = vl_builder_enter();

    s->serial = ++device->last_serial;
    s->is_own_fence = *fence == VK_NULL_HANDLE;
    if (s->is_own_fence)
        *fence = take_fence(device);
    s->fence = *fence;
    s->submit_ns = vl_now_ns(CLOCK_MONOTONIC);
    if (builder) {
        s->submit_ticks = builder->hostTicks(builder->pTraceBuilderHandle);
        vl_builder_leave();
    }
    *queue->last = s;
    queue->last = &s->next;
    atomic_fetch_add(&device->in_flight, 1);
}

/* To be called before vkQueueSubmit. @return NULL: there is nothing to follow. */
static vl_submission *begin_submission(vl_device *device, VkQueue handle, const batch_list *batches,
                                       uint32_t session, uint32_t correlation, VkFence *fence)
{
    vl_submission *s = session ? create_submission(batches) : NULL;

    pthread_mutex_lock(&device->lock);
    poll_device(device);
    vl_queue *queue = vl_queue_of(device, handle);
    if (!queue) {
        free(s);
        s = NULL;
    }
    add_items(device, s, batches);
    if (s && s->count == 0) {
        free(s);
        s = NULL;
    }
    if (s) {
        s->session = session;
        s->correlation_id = correlation;
        list_submission(device, queue, s, fence);
        if (device->queue_count > 1)
            add_links(device, queue, s, batches);
    }
    pthread_mutex_unlock(&device->lock);
    return s;
}

/* The driver has refused the submission: nothing of it runs. */
static void remove_refused(vl_device *device, vl_submission *s)
{
    for (uint32_t i = 0; i < device->queue_count; i++) {
        vl_submission **at = &device->queues[i].first;
        while (*at && *at != s)
            at = &(*at)->next;
        if (*at)
            unlink_submission(&device->queues[i], at);
    }
    if (s->has_links)
        vl_links_forget(device, s->serial, VK_NULL_HANDLE);
    release_buffers(device, s);
    if (s->is_own_fence && s->fence)
        device->DestroyFence(device->handle, s->fence, NULL);
}

/* To be called after vkQueueSubmit, with its result. */
static void end_submission(vl_device *device, vl_submission *s, VkResult result)
{
    pthread_mutex_lock(&device->lock);
    if (s->state == VL_DONE) {
        free(s);
    } else if (result != VK_SUCCESS) {
        remove_refused(device, s);
        free(s);
    } else {
        s->state = VL_SUBMITTED;
    }
    pthread_mutex_unlock(&device->lock);
}

/* True if a submission must be looked at. */
static bool is_watching(vl_device *device)
{
    return vl_is_active() || kineto_enabled(KINETO_KIND_RUNTIME) ||
           atomic_load_explicit(&device->in_flight, memory_order_relaxed);
}

/* The call that launches all commands of the submission. */
static kineto_range begin_range(kineto_site *site, uint32_t correlation)
{
    kineto_props props = {.size = sizeof props, .correlation_id = correlation};

    return kineto_range_begin_props(site, &props);
}

#define VL_SUBMIT(name, Info, list)                                                                \
    VKAPI_ATTR VkResult VKAPI_CALL vl_##name(VkQueue queue, uint32_t count, const Info *infos,     \
                                             VkFence fence)                                        \
    {                                                                                              \
        KINETO_SITE(site, KINETO_KIND_RUNTIME, "vk" #name);                                        \
        vl_device *device = vl_device_of(queue);                                                   \
        if (!is_watching(device))                                                                  \
            return device->name(queue, count, infos, fence);                                       \
        uint64_t begun = kineto_overhead_begin();                                                  \
        uint32_t session = vl_session_taking();                                                    \
        uint32_t correlation = session ? vl_next_correlation() : 0;                                \
        const batch_list batches = {.count = count, .list = infos};                                \
        vl_submission *s =                                                                         \
            begin_submission(device, queue, &batches, session, correlation, &fence);               \
        kineto_overhead_end(begun);                                                                \
        kineto_range range = begin_range(&site, s ? correlation : 0);                              \
        VkResult result = device->name(queue, count, infos, fence);                                \
        kineto_range_end(range);                                                                   \
        if (s)                                                                                     \
            end_submission(device, s, result);                                                     \
        return result;                                                                             \
    }
VL_SUBMIT(QueueSubmit, VkSubmitInfo, old)
VL_SUBMIT(QueueSubmit2, VkSubmitInfo2, new)
VL_SUBMIT(QueueSubmit2KHR, VkSubmitInfo2, new)
