/* Physical devices: a number for each, its properties, and its row in the trace. A program may create several
 * instances, each of which has handles of its own for the same devices: they are told apart by their UUIDs, which
 * Vulkan 1.1 has, else by name and handle. */
#include "vulkan.h"

#include <stdio.h>
#include <string.h>

/* After all host processes, as viewers of such traces expect. */
#define SORT_BASE 5000000

/* The table only grows. Entries below gpu_count are complete and read without a lock; gpus_lock is
 * held to add one. */
static vl_gpu gpus[VL_MAX_GPUS];
static atomic_uint gpu_count;
static pthread_mutex_t gpus_lock = PTHREAD_MUTEX_INITIALIZER;

/* The identity of a physical device, which has another handle in another instance. */
static void read_gpu_uuid(const vl_instance *instance, vl_gpu *gpu, VkPhysicalDevice physical)
{
    PFN_vkGetPhysicalDeviceProperties2 get = instance->GetPhysicalDeviceProperties2
                                                 ? instance->GetPhysicalDeviceProperties2
                                                 : instance->GetPhysicalDeviceProperties2KHR;
    VkPhysicalDeviceIDProperties id = {.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_ID_PROPERTIES};
    VkPhysicalDeviceProperties2 all = {.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_PROPERTIES_2,
                                       .pNext = &id};

    if (!get || gpu->properties.apiVersion < VK_API_VERSION_1_1)
        return;
    get(physical, &all);
    memcpy(gpu->uuid, id.deviceUUID, sizeof gpu->uuid);
    for (size_t i = 0; i < sizeof gpu->uuid; i++)
        gpu->has_uuid |= gpu->uuid[i] != 0;
}

/* Into an entry that is not in the table yet. */
static void read_gpu_properties(const vl_instance *instance, vl_gpu *gpu, VkPhysicalDevice physical)
{
    VkPhysicalDeviceMemoryProperties memory = {.memoryHeapCount = 0};

    *gpu = (vl_gpu){.handle = physical, .clock_number = -1};
    instance->GetPhysicalDeviceProperties(physical, &gpu->properties);
    instance->GetPhysicalDeviceMemoryProperties(physical, &memory);
    for (uint32_t i = 0; i < memory.memoryHeapCount; i++)
        if (memory.memoryHeaps[i].flags & VK_MEMORY_HEAP_DEVICE_LOCAL_BIT)
            gpu->memory_bytes += memory.memoryHeaps[i].size;
    read_gpu_uuid(instance, gpu, physical);
}

/* Two equal cards differ in their UUIDs. */
static bool is_same_gpu(const vl_gpu *a, const vl_gpu *b)
{
    if (a->has_uuid != b->has_uuid || strcmp(a->properties.deviceName, b->properties.deviceName))
        return false;
    return a->has_uuid ? memcmp(a->uuid, b->uuid, sizeof a->uuid) == 0 : a->handle == b->handle;
}

/* The caller holds gpus_lock. */
static vl_gpu *add_gpu(const vl_gpu *read)
{
    uint32_t index = atomic_load(&gpu_count);

    for (uint32_t i = 0; i < index; i++)
        if (is_same_gpu(&gpus[i], read))
            return &gpus[i];
    if (index == VL_MAX_GPUS)
        return NULL;
    gpus[index] = *read;
    gpus[index].index = (int32_t)index;
    pthread_mutex_init(&gpus[index].lock, NULL);
    atomic_store_explicit(&gpu_count, index + 1, memory_order_release);
    const KinetoPlugin_TraceBuilder *builder = vl_builder_enter();
    if (builder) {
        vl_gpu_announce(builder, &gpus[index]);
        vl_builder_leave();
    }
    return &gpus[index];
}

vl_gpu *vl_gpu_of(vl_instance *instance, VkPhysicalDevice physical)
{
    vl_gpu read;

    read_gpu_properties(instance, &read, physical);
    pthread_mutex_lock(&gpus_lock);
    vl_gpu *gpu = add_gpu(&read);
    pthread_mutex_unlock(&gpus_lock);
    return gpu;
}

static const char *get_gpu_type_name(VkPhysicalDeviceType type)
{
    switch (type) {
    case VK_PHYSICAL_DEVICE_TYPE_INTEGRATED_GPU:
    case VK_PHYSICAL_DEVICE_TYPE_DISCRETE_GPU:
    case VK_PHYSICAL_DEVICE_TYPE_VIRTUAL_GPU:
        return "GPU";
    case VK_PHYSICAL_DEVICE_TYPE_CPU:
        return "CPU";
    default:
        return "other";
    }
}

/* The row of the device; sorted after all host processes. */
static void announce_gpu_row(const KinetoPlugin_TraceBuilder *builder, const vl_gpu *gpu)
{
    const char *type = get_gpu_type_name(gpu->properties.deviceType);
    char label[48];
    KinetoPlugin_ProfileDeviceInfo info = {
        .unpaddedStructSize = KINETO_PLUGIN_SIZE(KinetoPlugin_ProfileDeviceInfo, pLabel),
        .deviceId = gpu->index,
        .sortIndex = SORT_BASE + gpu->index,
        .pName = gpu->properties.deviceName,
        .pLabel = label,
    };

    snprintf(label, sizeof label, "%s%s %d", type, strcmp(type, "GPU") == 0 ? "" : " device",
             gpu->index);
    (void)builder->addDeviceInfo(builder->pTraceBuilderHandle, &info);
}

static KinetoPlugin_Metadata make_text(const char *key, const char *value)
{
    return (KinetoPlugin_Metadata){.pKey = key,
                                   .valueType = KINETO_PLUGIN_VALUE_STRING,
                                   .count = (uint32_t)strlen(value),
                                   .pointer = value};
}

static KinetoPlugin_Metadata make_number(const char *key, uint64_t value)
{
    return (KinetoPlugin_Metadata){
        .pKey = key, .valueType = KINETO_PLUGIN_VALUE_UINT, .count = 1, .u = value};
}

/* Announces row and properties of a device. */
void vl_gpu_announce(const KinetoPlugin_TraceBuilder *builder, const vl_gpu *gpu)
{
    const VkPhysicalDeviceProperties *p = &gpu->properties;
    char version[32], driver[32];

    snprintf(version, sizeof version, "Vulkan %u.%u.%u", VK_API_VERSION_MAJOR(p->apiVersion),
             VK_API_VERSION_MINOR(p->apiVersion), VK_API_VERSION_PATCH(p->apiVersion));
    snprintf(driver, sizeof driver, "0x%x", p->driverVersion);
    const KinetoPlugin_Metadata properties[] = {
        make_text("name", p->deviceName),
        make_text("type", get_gpu_type_name(p->deviceType)),
        make_text("platform", "Vulkan"),
        make_text("driverVersion", driver),
        make_text("deviceVersion", version),
        make_number("vendorID", p->vendorID),
        make_number("totalGlobalMem", gpu->memory_bytes),
        make_number("maxWorkGroupSize", p->limits.maxComputeWorkGroupInvocations),
        make_number("localMemSize", p->limits.maxComputeSharedMemorySize),
    };
    announce_gpu_row(builder, gpu);
    (void)builder->addDeviceProperties(builder->pTraceBuilderHandle, gpu->index, properties,
                                       VL_COUNT(properties));
}

void vl_gpus_announce(const KinetoPlugin_TraceBuilder *builder)
{
    uint32_t count = atomic_load(&gpu_count);

    for (uint32_t i = 0; i < count; i++)
        vl_gpu_announce(builder, &gpus[i]);
}

void vl_gpus_after_fork(void)
{
    uint32_t count = atomic_load(&gpu_count);

    pthread_mutex_init(&gpus_lock, NULL);
    for (uint32_t i = 0; i < count; i++)
        pthread_mutex_init(&gpus[i].lock, NULL);
}
