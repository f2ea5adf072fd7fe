/* The wrapped calls after which submissions may have ended, and calls that are recorded because they
 * take time. */
#include "vulkan.h"

/* The call has seen an end, of some fence or semaphore. */
static void collect_after(vl_device *device, VkResult result)
{
    if (result == VK_SUCCESS)
        vl_collect(device);
}

/* What was submitted before the call has ended; what another thread submits meanwhile may not
 * have. */
VKAPI_ATTR VkResult VKAPI_CALL vl_QueueWaitIdle(VkQueue queue)
{
    KINETO_SITE(site, KINETO_KIND_RUNTIME, "vkQueueWaitIdle");
    kineto_range range = kineto_range_begin(&site);
    vl_device *device = vl_device_of(queue);
    uint64_t last = vl_last_serial(device);
    VkResult result = device->QueueWaitIdle(queue);

    kineto_range_end(range);
    if (result == VK_SUCCESS)
        vl_collect_queue(device, queue, last);
    return result;
}

/* The same, for all queues. */
VKAPI_ATTR VkResult VKAPI_CALL vl_DeviceWaitIdle(VkDevice handle)
{
    KINETO_SITE(site, KINETO_KIND_RUNTIME, "vkDeviceWaitIdle");
    kineto_range range = kineto_range_begin(&site);
    vl_device *device = vl_device_of(handle);
    uint64_t last = vl_last_serial(device);
    VkResult result = device->DeviceWaitIdle(handle);

    kineto_range_end(range);
    if (result == VK_SUCCESS)
        vl_collect_queue(device, VK_NULL_HANDLE, last);
    return result;
}

VKAPI_ATTR VkResult VKAPI_CALL vl_WaitForFences(VkDevice handle, uint32_t count,
                                                const VkFence *fences, VkBool32 all,
                                                uint64_t timeout)
{
    KINETO_SITE(site, KINETO_KIND_RUNTIME, "vkWaitForFences");
    kineto_range range = kineto_range_begin(&site);
    vl_device *device = vl_device_of(handle);
    VkResult result = device->WaitForFences(handle, count, fences, all, timeout);

    kineto_range_end(range);
    collect_after(device, result);
    return result;
}

/* Not recorded: programs call it in loops. */
VKAPI_ATTR VkResult VKAPI_CALL vl_GetFenceStatus(VkDevice handle, VkFence fence)
{
    vl_device *device = vl_device_of(handle);
    VkResult result = device->GetFenceStatus(handle, fence);

    collect_after(device, result);
    return result;
}

#define VL_WAIT_SEMAPHORES(name)                                                                   \
    VKAPI_ATTR VkResult VKAPI_CALL vl_##name(VkDevice handle, const VkSemaphoreWaitInfo *info,     \
                                             uint64_t timeout)                                     \
    {                                                                                              \
        KINETO_SITE(site, KINETO_KIND_RUNTIME, "vk" #name);                                        \
        kineto_range range = kineto_range_begin(&site);                                            \
        vl_device *device = vl_device_of(handle);                                                  \
        VkResult result = device->name(handle, info, timeout);                                     \
        kineto_range_end(range);                                                                   \
        collect_after(device, result);                                                             \
        return result;                                                                             \
    }
VL_WAIT_SEMAPHORES(WaitSemaphores)
VL_WAIT_SEMAPHORES(WaitSemaphoresKHR)

/* Before the call: afterwards a signalled fence says nothing about an earlier submission. */
VKAPI_ATTR VkResult VKAPI_CALL vl_ResetFences(VkDevice handle, uint32_t count,
                                              const VkFence *fences)
{
    vl_device *device = vl_device_of(handle);

    for (uint32_t i = 0; i < count; i++)
        vl_release_fence(device, fences[i]);
    return device->ResetFences(handle, count, fences);
}

/* Before the call: the layer must not use the fence afterwards. */
VKAPI_ATTR void VKAPI_CALL vl_DestroyFence(VkDevice handle, VkFence fence,
                                           const VkAllocationCallbacks *allocator)
{
    vl_device *device = vl_device_of(handle);

    if (fence)
        vl_release_fence(device, fence);
    device->DestroyFence(handle, fence, allocator);
}

/* A new semaphore may get the same handle. */
VKAPI_ATTR void VKAPI_CALL vl_DestroySemaphore(VkDevice handle, VkSemaphore semaphore,
                                               const VkAllocationCallbacks *allocator)
{
    vl_device *device = vl_device_of(handle);

    pthread_mutex_lock(&device->lock);
    if (device->has_links && semaphore)
        vl_links_forget(device, 0, semaphore);
    pthread_mutex_unlock(&device->lock);
    device->DestroySemaphore(handle, semaphore, allocator);
}

/* ---- memory ---------------------------------------------------------------------------------- */

VKAPI_ATTR VkResult VKAPI_CALL vl_AllocateMemory(VkDevice handle, const VkMemoryAllocateInfo *info,
                                                 const VkAllocationCallbacks *allocator,
                                                 VkDeviceMemory *memory)
{
    KINETO_SITE(site, KINETO_KIND_RUNTIME, "vkAllocateMemory");
    kineto_range range = kineto_range_begin(&site);
    VkResult result = vl_device_of(handle)->AllocateMemory(handle, info, allocator, memory);

    kineto_range_end(range);
    return result;
}

VKAPI_ATTR void VKAPI_CALL vl_FreeMemory(VkDevice handle, VkDeviceMemory memory,
                                         const VkAllocationCallbacks *allocator)
{
    KINETO_SITE(site, KINETO_KIND_RUNTIME, "vkFreeMemory");
    kineto_range range = kineto_range_begin(&site);

    vl_device_of(handle)->FreeMemory(handle, memory, allocator);
    kineto_range_end(range);
}

VKAPI_ATTR VkResult VKAPI_CALL vl_MapMemory(VkDevice handle, VkDeviceMemory memory,
                                            VkDeviceSize offset, VkDeviceSize size,
                                            VkMemoryMapFlags flags, void **data)
{
    KINETO_SITE(site, KINETO_KIND_RUNTIME, "vkMapMemory");
    kineto_range range = kineto_range_begin(&site);
    VkResult result = vl_device_of(handle)->MapMemory(handle, memory, offset, size, flags, data);

    kineto_range_end(range);
    return result;
}
