/* Entry points of the layer, instances, and the table of functions that the layer replaces. A function
 * is only replaced where the layers below have it, so that a program finds the same functions as without the
 * layer.
 *
 * Instances and devices are found by the loader's table of functions that their handles begin with. Handles are
 * not wrapped: they are the driver's, and other layers may come before and after this one. */
#include "vulkan.h"

#include <stdlib.h>
#include <string.h>

#define MAX_INSTANCES 64u

static vl_instance *instances[MAX_INSTANCES];
static pthread_mutex_t instances_lock = PTHREAD_MUTEX_INITIALIZER;

/* The loader's table of functions, which a dispatchable handle begins with: equal for an instance and
 * its physical devices. */
static void *get_dispatch_key(const void *handle) { return *(void *const *)handle; }

vl_instance *vl_instance_of(void *handle)
{
    vl_instance *found = NULL;

    pthread_mutex_lock(&instances_lock);
    for (uint32_t i = 0; i < MAX_INSTANCES && !found; i++)
        if (instances[i] && get_dispatch_key(instances[i]->handle) == get_dispatch_key(handle))
            found = instances[i];
    pthread_mutex_unlock(&instances_lock);
    return found;
}

/* False: the table is full, and the instance cannot be used through this layer. */
static bool add_instance(vl_instance *instance)
{
    bool added = false;

    pthread_mutex_lock(&instances_lock);
    for (uint32_t i = 0; i < MAX_INSTANCES && !added; i++) {
        if (instances[i])
            continue;
        instances[i] = instance;
        added = true;
    }
    pthread_mutex_unlock(&instances_lock);
    return added;
}

/* Before the driver destroys it, because another instance may get its table then. */
static void remove_instance(const vl_instance *instance)
{
    pthread_mutex_lock(&instances_lock);
    for (uint32_t i = 0; i < MAX_INSTANCES; i++)
        if (instances[i] == instance)
            instances[i] = NULL;
    pthread_mutex_unlock(&instances_lock);
}

/* ---- creation of instances ------------------------------------------------------------------- */

/* The loader's element of the chain, which names the layer below. It is advanced for that layer. */
static VkLayerInstanceCreateInfo *find_instance_link(const VkInstanceCreateInfo *info)
{
    VkLayerInstanceCreateInfo *link = (VkLayerInstanceCreateInfo *)(uintptr_t)info->pNext;

    while (link && !(link->sType == VK_STRUCTURE_TYPE_LOADER_INSTANCE_CREATE_INFO &&
                     link->function == VK_LAYER_LINK_INFO))
        link = (VkLayerInstanceCreateInfo *)(uintptr_t)link->pNext;
    return link;
}

/* Functions are resolved now: later the loader's table has those of the layers above. NULL: out of
 * memory or space. */
static vl_instance *create_instance_entry(VkInstance handle, PFN_vkGetInstanceProcAddr get_proc)
{
    vl_instance *entry = calloc(1, sizeof *entry);

    if (!entry)
        return NULL;
    entry->handle = handle;
    entry->get_proc = get_proc;
#define VL_X(name) entry->name = (PFN_vk##name)get_proc(handle, "vk" #name);
    VL_INSTANCE_FUNCTIONS(VL_X)
#undef VL_X
    if (!entry->GetPhysicalDeviceProperties || !add_instance(entry)) {
        free(entry);
        return NULL;
    }
    return entry;
}

static VKAPI_ATTR VkResult VKAPI_CALL vl_CreateInstance(const VkInstanceCreateInfo *info,
                                                        const VkAllocationCallbacks *allocator,
                                                        VkInstance *instance)
{
    VkLayerInstanceCreateInfo *link = find_instance_link(info);

    if (!link || !link->u.pLayerInfo)
        return VK_ERROR_INITIALIZATION_FAILED;
    PFN_vkGetInstanceProcAddr get_proc = link->u.pLayerInfo->pfnNextGetInstanceProcAddr;
    PFN_vkCreateInstance create = (PFN_vkCreateInstance)get_proc(NULL, "vkCreateInstance");
    if (!create)
        return VK_ERROR_INITIALIZATION_FAILED;
    link->u.pLayerInfo = link->u.pLayerInfo->pNext;
    VkResult result = create(info, allocator, instance);
    if (result != VK_SUCCESS)
        return result;
    if (!create_instance_entry(*instance, get_proc)) {
        PFN_vkDestroyInstance destroy =
            (PFN_vkDestroyInstance)get_proc(*instance, "vkDestroyInstance");
        if (destroy)
            destroy(*instance, allocator);
        return VK_ERROR_OUT_OF_HOST_MEMORY;
    }
    vl_profiler_begin();
    return VK_SUCCESS;
}

static VKAPI_ATTR void VKAPI_CALL vl_DestroyInstance(VkInstance instance,
                                                     const VkAllocationCallbacks *allocator)
{
    vl_instance *entry = instance ? vl_instance_of(instance) : NULL;

    if (!entry)
        return;
    PFN_vkDestroyInstance destroy = entry->DestroyInstance;
    remove_instance(entry);
    free(entry);
    destroy(instance, allocator);
}

/* ---- the loader's queries -------------------------------------------------------------------- */

typedef struct wrapper {
    const char *name;
    PFN_vkVoidFunction function;
} wrapper;

static const wrapper device_wrappers[] = {
#define VL_X(name) {"vk" #name, (PFN_vkVoidFunction)vl_##name},
    VL_WRAPPED_DEVICE_FUNCTIONS(VL_X)
#undef VL_X
};

/* Linear: loaders and programs resolve each function once. */
static PFN_vkVoidFunction find_wrapper(const wrapper *list, size_t count, const char *name)
{
    for (size_t i = 0; i < count; i++)
        if (strcmp(list[i].name, name) == 0)
            return list[i].function;
    return NULL;
}

static PFN_vkVoidFunction find_device_wrapper(const char *name)
{
    return find_wrapper(device_wrappers, VL_COUNT(device_wrappers), name);
}

KINETO_API VKAPI_ATTR PFN_vkVoidFunction VKAPI_CALL ckineto_vkGetDeviceProcAddr(VkDevice device,
                                                                                const char *name);
KINETO_API VKAPI_ATTR PFN_vkVoidFunction VKAPI_CALL
ckineto_vkGetInstanceProcAddr(VkInstance instance, const char *name);

VKAPI_ATTR PFN_vkVoidFunction VKAPI_CALL ckineto_vkGetDeviceProcAddr(VkDevice device,
                                                                     const char *name)
{
    const vl_device *entry = vl_device_of(device);

    if (!entry)
        return NULL;
    if (strcmp(name, "vkGetDeviceProcAddr") == 0)
        return (PFN_vkVoidFunction)ckineto_vkGetDeviceProcAddr;
    PFN_vkVoidFunction next = entry->get_proc(entry->handle, name);
    PFN_vkVoidFunction ours = next ? find_device_wrapper(name) : NULL;
    return ours ? ours : next;
}

VKAPI_ATTR PFN_vkVoidFunction VKAPI_CALL ckineto_vkGetInstanceProcAddr(VkInstance instance,
                                                                       const char *name)
{
    static const wrapper own[] = {
        {"vkGetInstanceProcAddr", (PFN_vkVoidFunction)ckineto_vkGetInstanceProcAddr},
        {"vkGetDeviceProcAddr", (PFN_vkVoidFunction)ckineto_vkGetDeviceProcAddr},
        {"vkCreateInstance", (PFN_vkVoidFunction)vl_CreateInstance},
        {"vkDestroyInstance", (PFN_vkVoidFunction)vl_DestroyInstance},
        {"vkCreateDevice", (PFN_vkVoidFunction)vl_CreateDevice},
    };
    PFN_vkVoidFunction ours = find_wrapper(own, VL_COUNT(own), name);
    const vl_instance *entry = instance ? vl_instance_of(instance) : NULL;

    if (ours || !entry)
        return ours;
    PFN_vkVoidFunction next = entry->get_proc(entry->handle, name);
    ours = next ? find_device_wrapper(name) : NULL;
    return ours ? ours : next;
}

KINETO_API VKAPI_ATTR VkResult VKAPI_CALL
vkNegotiateLoaderLayerInterfaceVersion(VkNegotiateLayerInterface *interface)
{
    if (!interface || interface->sType != LAYER_NEGOTIATE_INTERFACE_STRUCT ||
        interface->loaderLayerInterfaceVersion < 2)
        return VK_ERROR_INITIALIZATION_FAILED;
    interface->loaderLayerInterfaceVersion = 2;
    interface->pfnGetInstanceProcAddr = ckineto_vkGetInstanceProcAddr;
    interface->pfnGetDeviceProcAddr = ckineto_vkGetDeviceProcAddr;
    interface->pfnGetPhysicalDeviceProcAddr = NULL;
    return VK_SUCCESS;
}

/** 1 if an instance was created through the layer in this process. For `ckineto doctor`. */
KINETO_API int ckineto_vulkan_started(void);
int ckineto_vulkan_started(void) { return vl_profiler_has_begun(); }
