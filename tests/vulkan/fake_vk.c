/* See fake_vk.h. A command buffer is a list of operations, which run when it is executed. */
#include "fake_vk.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define QUEUES      3u
#define MAX_COMMANDS 4096u
#define MAX_PENDING 4096u

/* Dispatchable objects begin with the loader's table. */
typedef struct object {
    void *table;
} object;

typedef enum operation { RESET, STAMP, RESULTS, KERNEL, EXECUTE } operation;

typedef struct command {
    operation op;
    uint64_t *queries, *to; /* RESET, STAMP, RESULTS */
    uint32_t count;
    struct buffer *secondary;
} command;

typedef struct buffer {
    object head;
    command commands[MAX_COMMANDS];
    uint32_t count;
    struct buffer *next; /* of the same pool */
} buffer;

typedef struct pool {
    buffer *first;
} pool;

typedef struct fence {
    atomic_bool is_signalled;
} fence;

typedef struct memory_object {
    uint64_t *data;
} memory_object;

typedef struct pending {
    buffer *buffer; /* NULL: signal only */
    fence *fence;
} pending;

unsigned fake_vk_faults;
uint32_t fake_vk_bits = 64;
float fake_vk_period = 1;
int64_t fake_vk_offset;
bool fake_vk_at_once = true;

static void *instance_table, *device_table;
static object the_instance = {&instance_table}, the_gpu = {&instance_table};
static object the_device = {&device_table};
static object queues[QUEUES] = {{&device_table}, {&device_table}, {&device_table}};
static pending waiting[MAX_PENDING];
static uint32_t waiting_count;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static atomic_uint kernels;
static atomic_int objects;
static uint64_t last_stamp;

static bool has(fake_fault fault) { return fake_vk_faults & fault; }

/* The device's clock. */
static uint64_t read_ticks(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC_RAW, &t);
    int64_t ns = (int64_t)t.tv_sec * 1000000000 + t.tv_nsec + fake_vk_offset;
    uint64_t ticks = (uint64_t)((double)ns / (double)fake_vk_period);
    if (fake_vk_period == 1.0f)
        ticks = (uint64_t)ns;
    return fake_vk_bits < 64 ? ticks & ((UINT64_C(1) << fake_vk_bits) - 1) : ticks;
}

/* ---- execution: the lock is held ------------------------------------------------------------- */

static void execute(const buffer *b)
{
    for (uint32_t i = 0; i < b->count; i++) {
        const command *c = &b->commands[i];
        if (c->op == RESET)
            memset(c->queries, 0, c->count * sizeof *c->queries);
        else if (c->op == STAMP)
            *c->queries = last_stamp = has(FAKE_BACKWARDS) ? last_stamp - 7 : read_ticks();
        else if (c->op == RESULTS && !has(FAKE_NO_RESULTS))
            memcpy(c->to, c->queries, c->count * sizeof *c->queries);
        else if (c->op == KERNEL)
            atomic_fetch_add(&kernels, 1);
        else if (c->op == EXECUTE)
            execute(c->secondary);
    }
}

/* In the order of submission, whatever the queue. */
static void run_waiting(void)
{
    for (uint32_t i = 0; i < waiting_count; i++) {
        if (waiting[i].buffer)
            execute(waiting[i].buffer);
        if (waiting[i].fence)
            atomic_store(&waiting[i].fence->is_signalled, true);
    }
    waiting_count = 0;
}

void fake_vk_run(void)
{
    pthread_mutex_lock(&lock);
    run_waiting();
    pthread_mutex_unlock(&lock);
}

unsigned fake_vk_kernels(void) { return atomic_load(&kernels); }
int fake_vk_objects(void) { return atomic_load(&objects); }

void fake_vk_clear(void)
{
    atomic_store(&kernels, 0);
    last_stamp = read_ticks();
}

/* More than the limit are dropped, which no test reaches. */
static void submit_one(VkCommandBuffer handle, fence *f)
{
    if (waiting_count < MAX_PENDING)
        waiting[waiting_count++] = (pending){(buffer *)handle, f};
}

#define DRIVER(result, name) static VKAPI_ATTR result VKAPI_CALL fake_##name

DRIVER(VkResult, vkQueueSubmit)(VkQueue q, uint32_t n, const VkSubmitInfo *s, VkFence f)
{
    (void)q;
    if (has(FAKE_SUBMIT_FAILS))
        return VK_ERROR_OUT_OF_HOST_MEMORY;
    pthread_mutex_lock(&lock);
    for (uint32_t i = 0; i < n; i++)
        for (uint32_t k = 0; k < s[i].commandBufferCount; k++)
            submit_one(s[i].pCommandBuffers[k], NULL);
    submit_one(NULL, (fence *)f);
    if (fake_vk_at_once)
        run_waiting();
    pthread_mutex_unlock(&lock);
    return VK_SUCCESS;
}

DRIVER(VkResult, vkQueueSubmit2)(VkQueue q, uint32_t n, const VkSubmitInfo2 *s, VkFence f)
{
    VkSubmitInfo none = {.commandBufferCount = 0};

    pthread_mutex_lock(&lock);
    for (uint32_t i = 0; i < n; i++)
        for (uint32_t k = 0; k < s[i].commandBufferInfoCount; k++)
            submit_one(s[i].pCommandBufferInfos[k].commandBuffer, NULL);
    pthread_mutex_unlock(&lock);
    return fake_vkQueueSubmit(q, 1, &none, f);
}

DRIVER(VkResult, vkQueueWaitIdle)(VkQueue q)
{
    (void)q;
    fake_vk_run();
    return VK_SUCCESS;
}

DRIVER(VkResult, vkDeviceWaitIdle)(VkDevice d)
{
    (void)d;
    fake_vk_run();
    return VK_SUCCESS;
}

/* ---- recording ------------------------------------------------------------------------------- */

/* More than the limit overwrite the last one, which no test reaches. */
static command *append(VkCommandBuffer handle, operation op)
{
    buffer *b = (buffer *)handle;
    command *c = &b->commands[b->count < MAX_COMMANDS - 1 ? b->count++ : b->count];

    *c = (command){.op = op};
    return c;
}

DRIVER(VkResult, vkBeginCommandBuffer)(VkCommandBuffer cb, const VkCommandBufferBeginInfo *i)
{
    (void)i;
    ((buffer *)cb)->count = 0;
    return VK_SUCCESS;
}

DRIVER(VkResult, vkEndCommandBuffer)(VkCommandBuffer cb)
{
    (void)cb;
    return VK_SUCCESS;
}

DRIVER(VkResult, vkResetCommandBuffer)(VkCommandBuffer cb, VkCommandBufferResetFlags f)
{
    (void)f;
    ((buffer *)cb)->count = 0;
    return VK_SUCCESS;
}

DRIVER(void, vkCmdResetQueryPool)(VkCommandBuffer cb, VkQueryPool p, uint32_t first, uint32_t n)
{
    command *c = append(cb, RESET);
    c->queries = (uint64_t *)p + first;
    c->count = n;
}

DRIVER(void, vkCmdWriteTimestamp)
(VkCommandBuffer cb, VkPipelineStageFlagBits s, VkQueryPool p, uint32_t query)
{
    (void)s;
    append(cb, STAMP)->queries = (uint64_t *)p + query;
}

DRIVER(void, vkCmdCopyQueryPoolResults)
(VkCommandBuffer cb, VkQueryPool p, uint32_t first, uint32_t n, VkBuffer b, VkDeviceSize o,
 VkDeviceSize stride, VkQueryResultFlags f)
{
    command *c = append(cb, RESULTS);
    (void)stride, (void)f;
    c->queries = (uint64_t *)p + first;
    c->count = n;
    c->to = ((memory_object *)b)->data + o / 8;
}

DRIVER(void, vkCmdDispatch)(VkCommandBuffer cb, uint32_t x, uint32_t y, uint32_t z)
{
    (void)x, (void)y, (void)z;
    append(cb, KERNEL);
}

DRIVER(void, vkCmdExecuteCommands)(VkCommandBuffer cb, uint32_t n, const VkCommandBuffer *list)
{
    for (uint32_t i = 0; i < n; i++)
        append(cb, EXECUTE)->secondary = (buffer *)list[i];
}

DRIVER(void, vkCmdPipelineBarrier)
(VkCommandBuffer cb, VkPipelineStageFlags a, VkPipelineStageFlags b, VkDependencyFlags f,
 uint32_t mn, const VkMemoryBarrier *m, uint32_t bn, const VkBufferMemoryBarrier *bb, uint32_t in,
 const VkImageMemoryBarrier *i)
{
    (void)cb, (void)a, (void)b, (void)f, (void)mn, (void)m, (void)bn, (void)bb, (void)in, (void)i;
}

DRIVER(void, vkCmdBindPipeline)(VkCommandBuffer cb, VkPipelineBindPoint p, VkPipeline l)
{
    (void)cb, (void)p, (void)l;
}

/* ---- objects --------------------------------------------------------------------------------- */

/* Counted, so that tests find what is not destroyed. */
static void *create(size_t size)
{
    atomic_fetch_add(&objects, 1);
    return calloc(1, size);
}

static void destroy(void *p)
{
    if (p)
        atomic_fetch_sub(&objects, 1);
    free(p);
}

DRIVER(VkResult, vkCreateQueryPool)
(VkDevice d, const VkQueryPoolCreateInfo *i, const VkAllocationCallbacks *a, VkQueryPool *p)
{
    (void)d, (void)a;
    if (has(FAKE_NO_POOL))
        return VK_ERROR_OUT_OF_DEVICE_MEMORY;
    *p = (VkQueryPool)create(i->queryCount * sizeof(uint64_t));
    return VK_SUCCESS;
}

DRIVER(VkResult, vkCreateBuffer)
(VkDevice d, const VkBufferCreateInfo *i, const VkAllocationCallbacks *a, VkBuffer *b)
{
    (void)d, (void)i, (void)a;
    *b = (VkBuffer)create(sizeof(memory_object));
    return VK_SUCCESS;
}

DRIVER(void, vkGetBufferMemoryRequirements)(VkDevice d, VkBuffer b, VkMemoryRequirements *r)
{
    (void)d, (void)b;
    *r = (VkMemoryRequirements){.size = 65536, .alignment = 8, .memoryTypeBits = 1};
}

DRIVER(VkResult, vkAllocateMemory)
(VkDevice d, const VkMemoryAllocateInfo *i, const VkAllocationCallbacks *a, VkDeviceMemory *m)
{
    (void)d, (void)a;
    *m = (VkDeviceMemory)create(i->allocationSize);
    return VK_SUCCESS;
}

DRIVER(VkResult, vkBindBufferMemory)(VkDevice d, VkBuffer b, VkDeviceMemory m, VkDeviceSize o)
{
    (void)d, (void)o;
    ((memory_object *)b)->data = (uint64_t *)m;
    return VK_SUCCESS;
}

DRIVER(VkResult, vkMapMemory)
(VkDevice d, VkDeviceMemory m, VkDeviceSize o, VkDeviceSize s, VkMemoryMapFlags f, void **data)
{
    (void)d, (void)o, (void)s, (void)f;
    *data = (void *)m;
    return VK_SUCCESS;
}

DRIVER(VkResult, vkCreateFence)
(VkDevice d, const VkFenceCreateInfo *i, const VkAllocationCallbacks *a, VkFence *f)
{
    (void)d, (void)i, (void)a;
    if (has(FAKE_NO_FENCE))
        return VK_ERROR_OUT_OF_HOST_MEMORY;
    *f = (VkFence)create(sizeof(fence));
    return VK_SUCCESS;
}

#define DESTROY(name, Type)                                                                        \
    DRIVER(void, name)(VkDevice d, Type handle, const VkAllocationCallbacks *a)                    \
    {                                                                                              \
        (void)d, (void)a;                                                                          \
        destroy((void *)handle);                                                                   \
    }
DESTROY(vkDestroyQueryPool, VkQueryPool)
DESTROY(vkDestroyBuffer, VkBuffer)
DESTROY(vkFreeMemory, VkDeviceMemory)
DESTROY(vkDestroyFence, VkFence)
DESTROY(vkDestroyShaderModule, VkShaderModule)
DESTROY(vkDestroyPipeline, VkPipeline)
DESTROY(vkDestroySemaphore, VkSemaphore)

DRIVER(VkResult, vkGetFenceStatus)(VkDevice d, VkFence f)
{
    (void)d;
    if (has(FAKE_LOST))
        return VK_ERROR_DEVICE_LOST;
    return atomic_load(&((fence *)f)->is_signalled) ? VK_SUCCESS : VK_NOT_READY;
}

DRIVER(VkResult, vkResetFences)(VkDevice d, uint32_t n, const VkFence *f)
{
    (void)d;
    for (uint32_t i = 0; i < n; i++)
        atomic_store(&((fence *)f[i])->is_signalled, false);
    return VK_SUCCESS;
}

DRIVER(VkResult, vkWaitForFences)
(VkDevice d, uint32_t n, const VkFence *f, VkBool32 all, uint64_t timeout)
{
    (void)d, (void)n, (void)f, (void)all, (void)timeout;
    fake_vk_run();
    return has(FAKE_LOST) ? VK_ERROR_DEVICE_LOST : VK_SUCCESS;
}

DRIVER(VkResult, vkCreateCommandPool)
(VkDevice d, const VkCommandPoolCreateInfo *i, const VkAllocationCallbacks *a, VkCommandPool *p)
{
    (void)d, (void)i, (void)a;
    *p = (VkCommandPool)create(sizeof(pool));
    return VK_SUCCESS;
}

DRIVER(VkResult, vkResetCommandPool)(VkDevice d, VkCommandPool p, VkCommandPoolResetFlags f)
{
    (void)d, (void)p, (void)f;
    return VK_SUCCESS;
}

DRIVER(VkResult, vkAllocateCommandBuffers)
(VkDevice d, const VkCommandBufferAllocateInfo *i, VkCommandBuffer *list)
{
    pool *p = (pool *)i->commandPool;

    (void)d;
    for (uint32_t k = 0; k < i->commandBufferCount; k++) {
        buffer *b = create(sizeof *b);
        b->next = p->first;
        p->first = b;
        b->head.table = &device_table;
        list[k] = (VkCommandBuffer)b;
    }
    return VK_SUCCESS;
}

DRIVER(void, vkFreeCommandBuffers)
(VkDevice d, VkCommandPool p, uint32_t n, const VkCommandBuffer *list)
{
    (void)d;
    for (uint32_t i = 0; i < n; i++) {
        buffer **at = &((pool *)p)->first;
        while (*at != (buffer *)list[i])
            at = &(*at)->next;
        *at = (*at)->next;
        destroy((void *)list[i]);
    }
}

DRIVER(void, vkDestroyCommandPool)(VkDevice d, VkCommandPool p, const VkAllocationCallbacks *a)
{
    (void)d, (void)a;
    while (((pool *)p)->first) {
        buffer *b = ((pool *)p)->first;
        ((pool *)p)->first = b->next;
        destroy(b);
    }
    destroy((void *)p);
}

DRIVER(VkResult, vkCreateShaderModule)
(VkDevice d, const VkShaderModuleCreateInfo *i, const VkAllocationCallbacks *a, VkShaderModule *m)
{
    (void)d, (void)i, (void)a;
    *m = (VkShaderModule)create(8);
    return VK_SUCCESS;
}

DRIVER(VkResult, vkCreateComputePipelines)
(VkDevice d, VkPipelineCache c, uint32_t n, const VkComputePipelineCreateInfo *i,
 const VkAllocationCallbacks *a, VkPipeline *list)
{
    (void)d, (void)c, (void)i, (void)a;
    for (uint32_t k = 0; k < n; k++)
        list[k] = (VkPipeline)create(8);
    return VK_SUCCESS;
}

DRIVER(VkResult, vkGetCalibratedTimestampsEXT)
(VkDevice d, uint32_t n, const VkCalibratedTimestampInfoEXT *i, uint64_t *t, uint64_t *deviation)
{
    (void)d, (void)n, (void)i;
    if (has(FAKE_CALIBRATION_FAILS))
        return VK_ERROR_OUT_OF_HOST_MEMORY;
    *t = read_ticks();
    *deviation = 1;
    return VK_SUCCESS;
}

/* ---- device and instance --------------------------------------------------------------------- */

DRIVER(void, vkGetDeviceQueue)(VkDevice d, uint32_t family, uint32_t index, VkQueue *q)
{
    (void)d, (void)family;
    *q = (VkQueue)&queues[index];
}

DRIVER(void, vkDestroyDevice)(VkDevice d, const VkAllocationCallbacks *a) { (void)d, (void)a; }

DRIVER(VkResult, vkCreateDevice)
(VkPhysicalDevice p, const VkDeviceCreateInfo *i, const VkAllocationCallbacks *a, VkDevice *d)
{
    (void)p, (void)a;
    if (has(FAKE_NO_EXTENSIONS) && i->enabledExtensionCount)
        return VK_ERROR_EXTENSION_NOT_PRESENT;
    *d = (VkDevice)&the_device;
    return VK_SUCCESS;
}

DRIVER(VkResult, vkCreateInstance)
(const VkInstanceCreateInfo *i, const VkAllocationCallbacks *a, VkInstance *out)
{
    (void)i, (void)a;
    *out = (VkInstance)&the_instance;
    return VK_SUCCESS;
}

DRIVER(void, vkDestroyInstance)(VkInstance i, const VkAllocationCallbacks *a) { (void)i, (void)a; }

DRIVER(VkResult, vkEnumeratePhysicalDevices)(VkInstance i, uint32_t *n, VkPhysicalDevice *list)
{
    (void)i;
    *n = 1;
    if (list)
        *list = (VkPhysicalDevice)&the_gpu;
    return VK_SUCCESS;
}

DRIVER(void, vkGetPhysicalDeviceProperties)(VkPhysicalDevice p, VkPhysicalDeviceProperties *out)
{
    (void)p;
    *out = (VkPhysicalDeviceProperties){.apiVersion = VK_API_VERSION_1_0,
                                        .limits.timestampPeriod = fake_vk_period};
    /* Devices that differ have names that differ. */
    snprintf(out->deviceName, sizeof out->deviceName, "scripted %u %g %u", fake_vk_bits,
             (double)fake_vk_period,
             fake_vk_faults & (FAKE_NO_CALIBRATION | FAKE_CALIBRATION_FAILS));
}

DRIVER(void, vkGetPhysicalDeviceQueueFamilyProperties)
(VkPhysicalDevice p, uint32_t *n, VkQueueFamilyProperties *list)
{
    (void)p;
    *n = 1;
    if (list)
        *list = (VkQueueFamilyProperties){VK_QUEUE_COMPUTE_BIT, QUEUES,
                                          has(FAKE_NO_BITS) ? 0 : fake_vk_bits, {1, 1, 1}};
}

DRIVER(void, vkGetPhysicalDeviceMemoryProperties)
(VkPhysicalDevice p, VkPhysicalDeviceMemoryProperties *out)
{
    (void)p;
    *out = (VkPhysicalDeviceMemoryProperties){.memoryTypeCount = 1, .memoryHeapCount = 1};
    if (!has(FAKE_NO_MEMORY))
        out->memoryTypes[0].propertyFlags =
            VK_MEMORY_PROPERTY_HOST_VISIBLE_BIT | VK_MEMORY_PROPERTY_HOST_COHERENT_BIT;
}

DRIVER(VkResult, vkEnumerateDeviceExtensionProperties)
(VkPhysicalDevice p, const char *layer, uint32_t *n, VkExtensionProperties *list)
{
    (void)p, (void)layer;
    *n = has(FAKE_NO_CALIBRATION) ? 0 : 1;
    if (list && *n)
        *list = (VkExtensionProperties){VK_EXT_CALIBRATED_TIMESTAMPS_EXTENSION_NAME, 1};
    return VK_SUCCESS;
}

DRIVER(VkResult, vkGetPhysicalDeviceCalibrateableTimeDomainsEXT)
(VkPhysicalDevice p, uint32_t *n, VkTimeDomainEXT *list)
{
    (void)p;
    *n = 1;
    if (list)
        *list = VK_TIME_DOMAIN_DEVICE_EXT;
    return VK_SUCCESS;
}

#define ENTRY(name) {#name, (PFN_vkVoidFunction)fake_##name}
static const struct {
    const char *name;
    PFN_vkVoidFunction function;
} table[] = {
    ENTRY(vkQueueSubmit), ENTRY(vkQueueSubmit2), ENTRY(vkQueueWaitIdle), ENTRY(vkDeviceWaitIdle),
    ENTRY(vkBeginCommandBuffer), ENTRY(vkEndCommandBuffer), ENTRY(vkResetCommandBuffer),
    ENTRY(vkCmdResetQueryPool), ENTRY(vkCmdWriteTimestamp), ENTRY(vkCmdCopyQueryPoolResults),
    ENTRY(vkCmdDispatch), ENTRY(vkCmdExecuteCommands), ENTRY(vkCmdPipelineBarrier),
    ENTRY(vkCmdBindPipeline), ENTRY(vkCreateQueryPool), ENTRY(vkCreateBuffer),
    ENTRY(vkGetBufferMemoryRequirements), ENTRY(vkAllocateMemory), ENTRY(vkBindBufferMemory),
    ENTRY(vkMapMemory), ENTRY(vkCreateFence), ENTRY(vkDestroyQueryPool), ENTRY(vkDestroyBuffer),
    ENTRY(vkFreeMemory), ENTRY(vkDestroyFence), ENTRY(vkDestroyCommandPool),
    ENTRY(vkDestroyShaderModule), ENTRY(vkDestroyPipeline), ENTRY(vkDestroySemaphore),
    ENTRY(vkGetFenceStatus), ENTRY(vkResetFences), ENTRY(vkWaitForFences),
    ENTRY(vkCreateCommandPool), ENTRY(vkResetCommandPool), ENTRY(vkAllocateCommandBuffers),
    ENTRY(vkFreeCommandBuffers), ENTRY(vkCreateShaderModule), ENTRY(vkCreateComputePipelines),
    ENTRY(vkGetCalibratedTimestampsEXT), ENTRY(vkGetDeviceQueue), ENTRY(vkDestroyDevice),
    ENTRY(vkCreateDevice), ENTRY(vkCreateInstance), ENTRY(vkDestroyInstance),
    ENTRY(vkEnumeratePhysicalDevices), ENTRY(vkGetPhysicalDeviceProperties),
    ENTRY(vkGetPhysicalDeviceQueueFamilyProperties), ENTRY(vkGetPhysicalDeviceMemoryProperties),
    ENTRY(vkEnumerateDeviceExtensionProperties),
    ENTRY(vkGetPhysicalDeviceCalibrateableTimeDomainsEXT),
};

PFN_vkVoidFunction fake_vk_get_instance_proc(VkInstance instance, const char *name)
{
    (void)instance;
    if (has(FAKE_NO_CALIBRATION) && strcmp(name, "vkGetCalibratedTimestampsEXT") == 0)
        return NULL;
    for (size_t i = 0; i < sizeof table / sizeof table[0]; i++)
        if (strcmp(table[i].name, name) == 0)
            return table[i].function;
    return NULL;
}

PFN_vkVoidFunction fake_vk_get_device_proc(VkDevice device, const char *name)
{
    (void)device;
    return fake_vk_get_instance_proc(NULL, name);
}
