/* Logical devices: their functions, queue families, queues. The table is read without a lock: a
 * thread that uses a handle keeps its device alive, by the rules of Vulkan. */
#include "vulkan.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MAX_DEVICES    256u
#define CALIBRATED     VK_EXT_CALIBRATED_TIMESTAMPS_EXTENSION_NAME
#define NUMBERED_QUEUES 64

/* A slot's key is written last, and cleared first. */
static _Atomic(void *) device_keys[MAX_DEVICES];
static _Atomic(vl_device *) devices[MAX_DEVICES];
static atomic_uint device_slots; /* that were ever used */
static pthread_mutex_t devices_lock = PTHREAD_MUTEX_INITIALIZER;

vl_device *vl_device_of(const void *handle)
{
    void *key = *(void *const *)handle;
    uint32_t count = atomic_load_explicit(&device_slots, memory_order_acquire);

    for (uint32_t i = 0; i < count; i++)
        if (atomic_load_explicit(&device_keys[i], memory_order_acquire) == key)
            return atomic_load_explicit(&devices[i], memory_order_relaxed);
    return NULL;
}

/* False: the table is full. */
static bool add_device(vl_device *device)
{
    bool added = false;

    pthread_mutex_lock(&devices_lock);
    for (uint32_t i = 0; i < MAX_DEVICES && !added; i++) {
        if (atomic_load(&device_keys[i]))
            continue;
        atomic_store(&devices[i], device);
        atomic_store_explicit(&device_keys[i], *(void **)device->handle, memory_order_release);
        if (i >= atomic_load(&device_slots))
            atomic_store_explicit(&device_slots, i + 1, memory_order_release);
        added = true;
    }
    pthread_mutex_unlock(&devices_lock);
    return added;
}

/* Until this returns the end of a session may be using the device (vl_devices_visit). */
static void remove_device(const vl_device *device)
{
    pthread_mutex_lock(&devices_lock);
    for (uint32_t i = 0; i < MAX_DEVICES; i++) {
        if (atomic_load(&devices[i]) != device)
            continue;
        atomic_store(&device_keys[i], NULL);
        atomic_store(&devices[i], NULL);
    }
    pthread_mutex_unlock(&devices_lock);
}

void vl_devices_visit(void (*visit)(vl_device *, void *), void *context)
{
    pthread_mutex_lock(&devices_lock);
    for (uint32_t i = 0; i < MAX_DEVICES; i++) {
        vl_device *device = atomic_load(&devices[i]);
        if (device)
            visit(device, context);
    }
    pthread_mutex_unlock(&devices_lock);
}

/* ---- queues ---------------------------------------------------------------------------------- */

uint32_t vl_family_bits(const vl_device *device, uint32_t family)
{
    const VkQueueFlags can_copy_results = VK_QUEUE_COMPUTE_BIT | VK_QUEUE_GRAPHICS_BIT;

    if (family >= device->family_count ||
        !(device->families[family].queueFlags & can_copy_results))
        return 0;
    return device->families[family].timestampValidBits;
}

/* A row of its own for each queue; numbers of destroyed devices' queues are reused. */
static int32_t take_queue_number(vl_gpu *gpu)
{
    int32_t number = 0;

    pthread_mutex_lock(&gpu->lock);
    while (number < NUMBERED_QUEUES && gpu->used_queues >> number & 1)
        number++;
    if (number < NUMBERED_QUEUES)
        gpu->used_queues |= UINT64_C(1) << number;
    else
        number += gpu->next_queue++;
    pthread_mutex_unlock(&gpu->lock);
    return number;
}

/* The row of the queue, with what its family can do. */
static void announce_queue_row(const KinetoPlugin_TraceBuilder *builder, const vl_device *device,
                               const vl_queue *queue)
{
    char name[96];
    VkQueueFlags flags =
        queue->family < device->family_count ? device->families[queue->family].queueFlags : 0;
    KinetoPlugin_ProfileResourceInfo info = {
        .unpaddedStructSize = KINETO_PLUGIN_SIZE(KinetoPlugin_ProfileResourceInfo, pName),
        .deviceId = device->gpu->index,
        .resourceId = queue->number,
        .displayOrder = queue->number,
        .pName = name,
    };

    snprintf(name, sizeof name, "queue %d (family %u%s%s%s)", queue->number, queue->family,
             flags & VK_QUEUE_GRAPHICS_BIT ? ", graphics" : "",
             flags & VK_QUEUE_COMPUTE_BIT ? ", compute" : "",
             flags & (VK_QUEUE_GRAPHICS_BIT | VK_QUEUE_COMPUTE_BIT) ? "" : ", transfer");
    (void)builder->addResourceInfo(builder->pTraceBuilderHandle, &info);
}

static void announce_device_queues(vl_device *device, void *builder)
{
    pthread_mutex_lock(&device->lock);
    for (uint32_t i = 0; i < device->queue_count; i++)
        announce_queue_row(builder, device, &device->queues[i]);
    pthread_mutex_unlock(&device->lock);
}

void vl_queues_announce(const KinetoPlugin_TraceBuilder *builder)
{
    vl_devices_visit(announce_device_queues, (void *)(uintptr_t)builder);
}

vl_queue *vl_queue_of(vl_device *device, VkQueue handle)
{
    for (uint32_t i = 0; i < device->queue_count; i++)
        if (device->queues[i].handle == handle)
            return &device->queues[i];
    return NULL;
}

/* A program may request the same queue again and again. */
static void add_queue(vl_device *device, VkQueue handle, uint32_t family)
{
    pthread_mutex_lock(&device->lock);
    if (handle && !vl_queue_of(device, handle) && device->queue_count < VL_MAX_QUEUES) {
        vl_queue *queue = &device->queues[device->queue_count++];
        *queue = (vl_queue){.handle = handle,
                            .family = family,
                            .number = take_queue_number(device->gpu)};
        queue->last = &queue->first;
        const KinetoPlugin_TraceBuilder *builder = vl_builder_enter();
        if (builder) {
            announce_queue_row(builder, device, queue);
            vl_builder_leave();
        }
    }
    pthread_mutex_unlock(&device->lock);
}

VKAPI_ATTR void VKAPI_CALL vl_GetDeviceQueue(VkDevice handle, uint32_t family, uint32_t index,
                                             VkQueue *queue)
{
    vl_device *device = vl_device_of(handle);

    device->GetDeviceQueue(handle, family, index, queue);
    add_queue(device, *queue, family);
}

VKAPI_ATTR void VKAPI_CALL vl_GetDeviceQueue2(VkDevice handle, const VkDeviceQueueInfo2 *info,
                                              VkQueue *queue)
{
    vl_device *device = vl_device_of(handle);

    device->GetDeviceQueue2(handle, info, queue);
    add_queue(device, *queue, info->queueFamilyIndex);
}

/* ---- creation -------------------------------------------------------------------------------- */

static VkLayerDeviceCreateInfo *find_device_link(const VkDeviceCreateInfo *info)
{
    VkLayerDeviceCreateInfo *link = (VkLayerDeviceCreateInfo *)(uintptr_t)info->pNext;

    while (link && !(link->sType == VK_STRUCTURE_TYPE_LOADER_DEVICE_CREATE_INFO &&
                     link->function == VK_LAYER_LINK_INFO))
        link = (VkLayerDeviceCreateInfo *)(uintptr_t)link->pNext;
    return link;
}

/* False also if the driver's list cannot be read. */
static bool has_extension(const vl_instance *instance, VkPhysicalDevice physical, const char *name)
{
    uint32_t count = 0;
    bool found = false;
    VkExtensionProperties *list = NULL;

    if (!instance->EnumerateDeviceExtensionProperties ||
        instance->EnumerateDeviceExtensionProperties(physical, NULL, &count, NULL) != VK_SUCCESS ||
        !(list = calloc(count + 1, sizeof *list)))
        return false;
    if (instance->EnumerateDeviceExtensionProperties(physical, NULL, &count, list) >= VK_SUCCESS)
        for (uint32_t i = 0; i < count && !found; i++)
            found = strcmp(list[i].extensionName, name) == 0;
    free(list);
    return found;
}

static bool is_enabled(const VkDeviceCreateInfo *info, const char *name)
{
    for (uint32_t i = 0; i < info->enabledExtensionCount; i++)
        if (strcmp(info->ppEnabledExtensionNames[i], name) == 0)
            return true;
    return false;
}

/* Creates the device with the extension for clocks, if there is one and the program does not enable
 * it itself; if that is refused, as the program says. */
static VkResult create_calibrated(PFN_vkCreateDevice create, VkLayerDeviceCreateInfo *link,
                                  const vl_instance *instance, VkPhysicalDevice physical,
                                  const VkDeviceCreateInfo *info,
                                  const VkAllocationCallbacks *allocator, VkDevice *device)
{
    VkLayerDeviceLink *below = link->u.pLayerInfo;
    VkDeviceCreateInfo more = *info;
    const char **names = NULL;
    VkResult result = VK_ERROR_EXTENSION_NOT_PRESENT;

    if (!is_enabled(info, CALIBRATED) && has_extension(instance, physical, CALIBRATED))
        names = calloc(info->enabledExtensionCount + 1u, sizeof *names);
    if (names) {
        for (uint32_t i = 0; i < info->enabledExtensionCount; i++)
            names[i] = info->ppEnabledExtensionNames[i];
        names[more.enabledExtensionCount++] = CALIBRATED;
        more.ppEnabledExtensionNames = names;
        result = create(physical, &more, allocator, device);
        link->u.pLayerInfo = below;
    }
    if (result != VK_SUCCESS)
        result = create(physical, info, allocator, device);
    free(names);
    return result;
}

/* Can the device's time domain be read? Also the extension's presence does not say so. */
static bool is_device_domain_readable(const vl_instance *instance, VkPhysicalDevice physical)
{
    VkTimeDomainEXT domains[16];
    uint32_t count = VL_COUNT(domains);

    if (!instance->GetPhysicalDeviceCalibrateableTimeDomainsEXT ||
        instance->GetPhysicalDeviceCalibrateableTimeDomainsEXT(physical, &count, domains) <
            VK_SUCCESS)
        return false;
    for (uint32_t i = 0; i < count; i++)
        if (domains[i] == VK_TIME_DOMAIN_DEVICE_EXT)
            return true;
    return false;
}

static void load_functions(vl_device *device, PFN_vkGetDeviceProcAddr get_proc)
{
    device->get_proc = get_proc;
#define VL_X(name) device->name = (PFN_vk##name)get_proc(device->handle, "vk" #name);
    VL_DEVICE_FUNCTIONS(VL_X)
#undef VL_X
}

/* All but its functions, which are loaded before. */
static void init_device(vl_device *device, VkPhysicalDevice physical)
{
    vl_instance *instance = device->instance;

    device->family_count = VL_MAX_FAMILIES;
    instance->GetPhysicalDeviceQueueFamilyProperties(physical, &device->family_count,
                                                     device->families);
    instance->GetPhysicalDeviceMemoryProperties(physical, &device->memory);
    device->is_calibrated = device->GetCalibratedTimestampsEXT != NULL &&
                            is_device_domain_readable(instance, physical);
    pthread_mutex_init(&device->lock, NULL);
    vl_map_init(&device->buffers);
    vl_map_init(&device->pools);
    vl_map_init(&device->shaders);
    vl_map_init(&device->pipelines);
}

/* False: out of memory or space; the caller destroys the device. */
static bool register_device(vl_instance *instance, VkPhysicalDevice physical, VkDevice handle,
                            PFN_vkGetDeviceProcAddr get_proc)
{
    vl_device *device = calloc(1, sizeof *device);

    if (!device)
        return false;
    device->handle = handle;
    device->instance = instance;
    load_functions(device, get_proc);
    device->gpu = vl_gpu_of(instance, physical);
    if (!device->gpu) {
        free(device);
        return false;
    }
    init_device(device, physical);
    if (!add_device(device)) {
        free(device);
        return false;
    }
    vl_clock_find(device);
    return true;
}

VKAPI_ATTR VkResult VKAPI_CALL vl_CreateDevice(VkPhysicalDevice physical,
                                               const VkDeviceCreateInfo *info,
                                               const VkAllocationCallbacks *allocator,
                                               VkDevice *device)
{
    KINETO_SITE(site, KINETO_KIND_RUNTIME, "vkCreateDevice");
    vl_instance *instance = vl_instance_of(physical);
    VkLayerDeviceCreateInfo *link = find_device_link(info);

    if (!instance || !link || !link->u.pLayerInfo)
        return VK_ERROR_INITIALIZATION_FAILED;
    PFN_vkGetDeviceProcAddr get_proc = link->u.pLayerInfo->pfnNextGetDeviceProcAddr;
    PFN_vkCreateDevice create = (PFN_vkCreateDevice)link->u.pLayerInfo->pfnNextGetInstanceProcAddr(
        instance->handle, "vkCreateDevice");
    if (!create)
        return VK_ERROR_INITIALIZATION_FAILED;
    link->u.pLayerInfo = link->u.pLayerInfo->pNext;
    kineto_range range = kineto_range_begin(&site);
    VkResult result = create_calibrated(create, link, instance, physical, info, allocator, device);
    kineto_range_end(range);
    if (result != VK_SUCCESS)
        return result;
    if (!register_device(instance, physical, *device, get_proc)) {
        PFN_vkDestroyDevice destroy = (PFN_vkDestroyDevice)get_proc(*device, "vkDestroyDevice");
        if (destroy)
            destroy(*device, allocator);
        return VK_ERROR_OUT_OF_HOST_MEMORY;
    }
    vl_profiler_at_device();
    return VK_SUCCESS;
}

/* ---- end ------------------------------------------------------------------------------------- */

/* Another device's queues get these rows next. */
static void release_queue_numbers(vl_device *device)
{
    vl_gpu *gpu = device->gpu;

    pthread_mutex_lock(&gpu->lock);
    for (uint32_t i = 0; i < device->queue_count; i++)
        if (device->queues[i].number < NUMBERED_QUEUES)
            gpu->used_queues &= ~(UINT64_C(1) << device->queues[i].number);
    pthread_mutex_unlock(&gpu->lock);
}

static void free_value(void *value) { free(value); }

/* Command buffers first: they return their chunks to the device. */
static void destroy_device_entry(vl_device *device)
{
    vl_buffers_destroy(device);
    vl_map_clear(&device->shaders, free_value);
    vl_map_clear(&device->pipelines, free_value);
    vl_results_destroy(device);
    for (uint32_t i = 0; i < device->free_fence_count; i++)
        device->DestroyFence(device->handle, device->free_fences[i], NULL);
    free(device->free_fences);
    release_queue_numbers(device);
    free(device);
}

/* All work of the device has ended, by the rules of Vulkan. */
VKAPI_ATTR void VKAPI_CALL vl_DestroyDevice(VkDevice handle, const VkAllocationCallbacks *allocator)
{
    vl_device *device = handle ? vl_device_of(handle) : NULL;

    if (!device)
        return;
    PFN_vkDestroyDevice destroy = device->DestroyDevice;
    vl_collect_queue(device, VK_NULL_HANDLE, UINT64_MAX);
    remove_device(device);
    destroy_device_entry(device);
    destroy(handle, allocator);
}

/* The parent delivers what it submitted. */
void vl_devices_after_fork(void)
{
    pthread_mutex_init(&devices_lock, NULL);
    for (uint32_t i = 0; i < MAX_DEVICES; i++) {
        vl_device *device = atomic_load(&devices[i]);
        if (!device)
            continue;
        pthread_mutex_init(&device->lock, NULL);
        atomic_store(&device->in_flight, 0);
        for (uint32_t q = 0; q < device->queue_count; q++) {
            device->queues[q].first = NULL;
            device->queues[q].last = &device->queues[q].first;
        }
    }
}
