/* An independent witness: a layer that only counts what a program submits, and writes the count to
 * the file of COUNT_LAYER_OUT when the program ends. On request it breaks the driver: COUNT_LAYER_FAULT
 * has words of the list in faults[]. One device at a time. */
#define VK_NO_PROTOTYPES
#include <vulkan/vulkan.h>
#include <vulkan/vk_layer.h>

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define EXPORT      __attribute__((visibility("default")))
#define MAX_BUFFERS 65536u

typedef struct counts {
    unsigned long kernels, copies, fills;
} counts;

typedef struct entry {
    VkCommandBuffer handle;
    counts recorded;
} entry;

static PFN_vkGetInstanceProcAddr next_instance;
static PFN_vkGetDeviceProcAddr next_device;
static PFN_vkGetPhysicalDeviceQueueFamilyProperties next_families;
static VkInstance instance;
static VkDevice device;
static entry buffers[MAX_BUFFERS];
static counts submitted;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

/* Is this fault requested? */
static int has_fault(const char *word)
{
    const char *list = getenv("COUNT_LAYER_FAULT");

    return list && strstr(list, word) != NULL;
}

#define NEXT(name) PFN_##name next_##name = (PFN_##name)next_device(device, #name)

/* The lock is held. */
static counts *find(VkCommandBuffer handle)
{
    size_t i = (size_t)handle / 16 % MAX_BUFFERS;

    while (buffers[i].handle && buffers[i].handle != handle)
        i = (i + 1) % MAX_BUFFERS;
    buffers[i].handle = handle;
    return &buffers[i].recorded;
}

static void add(counts *to, const counts *from)
{
    to->kernels += from->kernels;
    to->copies += from->copies;
    to->fills += from->fills;
}

/* Counts one command of a command buffer. */
static void count(VkCommandBuffer handle, counts one)
{
    pthread_mutex_lock(&lock);
    add(find(handle), &one);
    pthread_mutex_unlock(&lock);
}

static VKAPI_ATTR VkResult VKAPI_CALL begin(VkCommandBuffer cb, const VkCommandBufferBeginInfo *i)
{
    NEXT(vkBeginCommandBuffer);
    pthread_mutex_lock(&lock);
    *find(cb) = (counts){0, 0, 0};
    pthread_mutex_unlock(&lock);
    return next_vkBeginCommandBuffer(cb, i);
}

static VKAPI_ATTR void VKAPI_CALL dispatch(VkCommandBuffer cb, uint32_t x, uint32_t y, uint32_t z)
{
    NEXT(vkCmdDispatch);
    count(cb, (counts){.kernels = 1});
    next_vkCmdDispatch(cb, x, y, z);
}

static VKAPI_ATTR void VKAPI_CALL dispatch_base(VkCommandBuffer cb, uint32_t a, uint32_t b,
                                                uint32_t c, uint32_t x, uint32_t y, uint32_t z)
{
    NEXT(vkCmdDispatchBase);
    count(cb, (counts){.kernels = 1});
    next_vkCmdDispatchBase(cb, a, b, c, x, y, z);
}

static VKAPI_ATTR void VKAPI_CALL dispatch_indirect(VkCommandBuffer cb, VkBuffer b, VkDeviceSize o)
{
    NEXT(vkCmdDispatchIndirect);
    count(cb, (counts){.kernels = 1});
    next_vkCmdDispatchIndirect(cb, b, o);
}

static VKAPI_ATTR void VKAPI_CALL copy(VkCommandBuffer cb, VkBuffer a, VkBuffer b, uint32_t n,
                                       const VkBufferCopy *r)
{
    NEXT(vkCmdCopyBuffer);
    count(cb, (counts){.copies = 1});
    next_vkCmdCopyBuffer(cb, a, b, n, r);
}

static VKAPI_ATTR void VKAPI_CALL copy_up(VkCommandBuffer cb, VkBuffer a, VkImage b,
                                          VkImageLayout l, uint32_t n, const VkBufferImageCopy *r)
{
    NEXT(vkCmdCopyBufferToImage);
    count(cb, (counts){.copies = 1});
    next_vkCmdCopyBufferToImage(cb, a, b, l, n, r);
}

static VKAPI_ATTR void VKAPI_CALL copy_down(VkCommandBuffer cb, VkImage a, VkImageLayout l,
                                            VkBuffer b, uint32_t n, const VkBufferImageCopy *r)
{
    NEXT(vkCmdCopyImageToBuffer);
    count(cb, (counts){.copies = 1});
    next_vkCmdCopyImageToBuffer(cb, a, l, b, n, r);
}

static VKAPI_ATTR void VKAPI_CALL update(VkCommandBuffer cb, VkBuffer b, VkDeviceSize o,
                                         VkDeviceSize s, const void *d)
{
    NEXT(vkCmdUpdateBuffer);
    count(cb, (counts){.copies = 1});
    next_vkCmdUpdateBuffer(cb, b, o, s, d);
}

static VKAPI_ATTR void VKAPI_CALL fill(VkCommandBuffer cb, VkBuffer b, VkDeviceSize o,
                                       VkDeviceSize s, uint32_t d)
{
    NEXT(vkCmdFillBuffer);
    count(cb, (counts){.fills = 1});
    next_vkCmdFillBuffer(cb, b, o, s, d);
}

static VKAPI_ATTR void VKAPI_CALL execute(VkCommandBuffer cb, uint32_t n,
                                          const VkCommandBuffer *list)
{
    NEXT(vkCmdExecuteCommands);
    pthread_mutex_lock(&lock);
    for (uint32_t i = 0; i < n; i++)
        add(find(cb), find(list[i]));
    pthread_mutex_unlock(&lock);
    next_vkCmdExecuteCommands(cb, n, list);
}

static VKAPI_ATTR VkResult VKAPI_CALL submit(VkQueue q, uint32_t n, const VkSubmitInfo *s, VkFence f)
{
    NEXT(vkQueueSubmit);
    pthread_mutex_lock(&lock);
    for (uint32_t i = 0; i < n; i++)
        for (uint32_t k = 0; k < s[i].commandBufferCount; k++)
            add(&submitted, find(s[i].pCommandBuffers[k]));
    pthread_mutex_unlock(&lock);
    return next_vkQueueSubmit(q, n, s, f);
}

static VKAPI_ATTR VkResult VKAPI_CALL submit2(VkQueue q, uint32_t n, const VkSubmitInfo2 *s,
                                              VkFence f)
{
    NEXT(vkQueueSubmit2);
    pthread_mutex_lock(&lock);
    for (uint32_t i = 0; i < n; i++)
        for (uint32_t k = 0; k < s[i].commandBufferInfoCount; k++)
            add(&submitted, find(s[i].pCommandBufferInfos[k].commandBuffer));
    pthread_mutex_unlock(&lock);
    return next_vkQueueSubmit2(q, n, s, f);
}

/* ---- faults ---------------------------------------------------------------------------------- */

static VKAPI_ATTR VkResult VKAPI_CALL refuse_pool(VkDevice d, const VkQueryPoolCreateInfo *i,
                                                  const VkAllocationCallbacks *a, VkQueryPool *p)
{
    (void)d, (void)i, (void)a, (void)p;
    return VK_ERROR_OUT_OF_DEVICE_MEMORY;
}

static VKAPI_ATTR VkResult VKAPI_CALL refuse_fence(VkDevice d, const VkFenceCreateInfo *i,
                                                   const VkAllocationCallbacks *a, VkFence *f)
{
    NEXT(vkCreateFence);
    static atomic_int calls;
    return atomic_fetch_add(&calls, 1) > 2 ? VK_ERROR_OUT_OF_HOST_MEMORY
                                           : next_vkCreateFence(d, i, a, f);
}

static VKAPI_ATTR void VKAPI_CALL skip_results(VkCommandBuffer cb, VkQueryPool p, uint32_t f,
                                               uint32_t n, VkBuffer b, VkDeviceSize o,
                                               VkDeviceSize s, VkQueryResultFlags flags)
{
    (void)cb, (void)p, (void)f, (void)n, (void)b, (void)o, (void)s, (void)flags;
}

static VKAPI_ATTR void VKAPI_CALL hide_bits(VkPhysicalDevice p, uint32_t *n,
                                            VkQueueFamilyProperties *list)
{
    next_families(p, n, list);
    for (uint32_t i = 0; list && i < *n; i++)
        list[i].timestampValidBits = 0;
}

static VKAPI_ATTR VkResult VKAPI_CALL hide_extensions(VkPhysicalDevice p, const char *layer,
                                                      uint32_t *n, VkExtensionProperties *list)
{
    (void)p, (void)layer, (void)list;
    *n = 0;
    return VK_SUCCESS;
}

/* ---- the loader's interface ------------------------------------------------------------------ */

static void write_counts(void)
{
    const char *path = getenv("COUNT_LAYER_OUT");
    FILE *file = path ? fopen(path, "w") : NULL;

    if (!file)
        return;
    fprintf(file, "kernels %lu\ncopies %lu\nfills %lu\n", submitted.kernels, submitted.copies,
            submitted.fills);
    fclose(file);
}

static VKAPI_ATTR VkResult VKAPI_CALL create_instance(const VkInstanceCreateInfo *info,
                                                      const VkAllocationCallbacks *allocator,
                                                      VkInstance *out)
{
    VkLayerInstanceCreateInfo *link = (VkLayerInstanceCreateInfo *)(size_t)info->pNext;

    while (link->sType != VK_STRUCTURE_TYPE_LOADER_INSTANCE_CREATE_INFO ||
           link->function != VK_LAYER_LINK_INFO)
        link = (VkLayerInstanceCreateInfo *)(size_t)link->pNext;
    next_instance = link->u.pLayerInfo->pfnNextGetInstanceProcAddr;
    link->u.pLayerInfo = link->u.pLayerInfo->pNext;
    VkResult result =
        ((PFN_vkCreateInstance)next_instance(NULL, "vkCreateInstance"))(info, allocator, out);
    instance = *out;
    /* Now: later the loader's table has this layer's own function. */
    next_families = (PFN_vkGetPhysicalDeviceQueueFamilyProperties)next_instance(
        instance, "vkGetPhysicalDeviceQueueFamilyProperties");
    return result;
}

static VKAPI_ATTR VkResult VKAPI_CALL create_device(VkPhysicalDevice physical,
                                                    const VkDeviceCreateInfo *info,
                                                    const VkAllocationCallbacks *allocator,
                                                    VkDevice *out)
{
    VkLayerDeviceCreateInfo *link = (VkLayerDeviceCreateInfo *)(size_t)info->pNext;
    static int once;

    while (link->sType != VK_STRUCTURE_TYPE_LOADER_DEVICE_CREATE_INFO ||
           link->function != VK_LAYER_LINK_INFO)
        link = (VkLayerDeviceCreateInfo *)(size_t)link->pNext;
    next_device = link->u.pLayerInfo->pfnNextGetDeviceProcAddr;
    PFN_vkCreateDevice create = (PFN_vkCreateDevice)link->u.pLayerInfo->pfnNextGetInstanceProcAddr(
        instance, "vkCreateDevice");
    link->u.pLayerInfo = link->u.pLayerInfo->pNext;
    if (has_fault("refuse-extensions") && info->enabledExtensionCount > 0)
        return VK_ERROR_EXTENSION_NOT_PRESENT;
    VkResult result = create(physical, info, allocator, out);
    device = *out;
    if (!once++)
        atexit(write_counts);
    return result;
}

static const struct function {
    const char *name, *fault; /* fault: only with that word */
    PFN_vkVoidFunction function;
} functions[] = {
    {"vkCreateInstance", NULL, (PFN_vkVoidFunction)create_instance},
    {"vkCreateDevice", NULL, (PFN_vkVoidFunction)create_device},
    {"vkBeginCommandBuffer", NULL, (PFN_vkVoidFunction)begin},
    {"vkCmdDispatch", NULL, (PFN_vkVoidFunction)dispatch},
    {"vkCmdDispatchBase", NULL, (PFN_vkVoidFunction)dispatch_base},
    {"vkCmdDispatchIndirect", NULL, (PFN_vkVoidFunction)dispatch_indirect},
    {"vkCmdCopyBuffer", NULL, (PFN_vkVoidFunction)copy},
    {"vkCmdCopyBufferToImage", NULL, (PFN_vkVoidFunction)copy_up},
    {"vkCmdCopyImageToBuffer", NULL, (PFN_vkVoidFunction)copy_down},
    {"vkCmdUpdateBuffer", NULL, (PFN_vkVoidFunction)update},
    {"vkCmdFillBuffer", NULL, (PFN_vkVoidFunction)fill},
    {"vkCmdExecuteCommands", NULL, (PFN_vkVoidFunction)execute},
    {"vkQueueSubmit", NULL, (PFN_vkVoidFunction)submit},
    {"vkQueueSubmit2", NULL, (PFN_vkVoidFunction)submit2},
    {"vkCreateQueryPool", "no-pool", (PFN_vkVoidFunction)refuse_pool},
    {"vkCreateFence", "no-fence", (PFN_vkVoidFunction)refuse_fence},
    {"vkCmdCopyQueryPoolResults", "no-results", (PFN_vkVoidFunction)skip_results},
    {"vkGetPhysicalDeviceQueueFamilyProperties", "no-bits", (PFN_vkVoidFunction)hide_bits},
    {"vkEnumerateDeviceExtensionProperties", "no-extensions", (PFN_vkVoidFunction)hide_extensions},
};

/* Our function of that name; NULL: the driver's is used. */
static PFN_vkVoidFunction find_function(const char *name)
{
    for (size_t i = 0; i < sizeof functions / sizeof functions[0]; i++)
        if (strcmp(functions[i].name, name) == 0 &&
            (!functions[i].fault || has_fault(functions[i].fault)))
            return functions[i].function;
    return NULL;
}

static VKAPI_ATTR PFN_vkVoidFunction VKAPI_CALL get_device_proc(VkDevice handle, const char *name)
{
    PFN_vkVoidFunction next = next_device(handle, name), own = find_function(name);

    if (strcmp(name, "vkGetDeviceProcAddr") == 0)
        return (PFN_vkVoidFunction)get_device_proc;
    return next && own ? own : next;
}

static VKAPI_ATTR PFN_vkVoidFunction VKAPI_CALL get_instance_proc(VkInstance handle,
                                                                  const char *name)
{
    PFN_vkVoidFunction own = find_function(name);

    if (strcmp(name, "vkGetInstanceProcAddr") == 0)
        return (PFN_vkVoidFunction)get_instance_proc;
    if (strcmp(name, "vkGetDeviceProcAddr") == 0)
        return (PFN_vkVoidFunction)get_device_proc;
    if (own || !handle)
        return own;
    return next_instance(handle, name);
}

EXPORT VKAPI_ATTR VkResult VKAPI_CALL
vkNegotiateLoaderLayerInterfaceVersion(VkNegotiateLayerInterface *interface)
{
    interface->loaderLayerInterfaceVersion = 2;
    interface->pfnGetInstanceProcAddr = get_instance_proc;
    interface->pfnGetDeviceProcAddr = get_device_proc;
    interface->pfnGetPhysicalDeviceProcAddr = NULL;
    return VK_SUCCESS;
}
