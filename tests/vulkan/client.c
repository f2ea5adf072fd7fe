/* A program that uses Vulkan in the way its first argument says, and prints what the device computed: the
 * same text, byte for byte, with and without layers. */
#include "client.h"

#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static int rounds = 20;
/* Each item is changed so many times, in no order: for measurements. */
static uint32_t height = 1;

VkCommandBuffer client_begin(const client *c, VkCommandPool pool, bool secondary,
                             VkCommandBufferUsageFlags flags)
{
    VkCommandBufferAllocateInfo allocate = {
        .sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_ALLOCATE_INFO,
        .commandPool = pool,
        .level = secondary ? VK_COMMAND_BUFFER_LEVEL_SECONDARY : VK_COMMAND_BUFFER_LEVEL_PRIMARY,
        .commandBufferCount = 1};
    VkCommandBufferInheritanceInfo inherit = {
        .sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_INHERITANCE_INFO};
    VkCommandBufferBeginInfo begin = {.sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_BEGIN_INFO,
                                      .flags = flags,
                                      .pInheritanceInfo = &inherit};
    VkCommandBuffer cb;

    client_check(vkAllocateCommandBuffers(c->device, &allocate, &cb), "allocate");
    client_check(vkBeginCommandBuffer(cb, &begin), "vkBeginCommandBuffer");
    return cb;
}

/* Between commands, so that each sees what the one before it wrote. */
void client_barrier(VkCommandBuffer cb)
{
    VkMemoryBarrier barrier = {.sType = VK_STRUCTURE_TYPE_MEMORY_BARRIER,
                               .srcAccessMask = VK_ACCESS_MEMORY_WRITE_BIT,
                               .dstAccessMask = VK_ACCESS_MEMORY_READ_BIT |
                                                VK_ACCESS_MEMORY_WRITE_BIT};

    vkCmdPipelineBarrier(cb, VK_PIPELINE_STAGE_ALL_COMMANDS_BIT, VK_PIPELINE_STAGE_ALL_COMMANDS_BIT,
                         0, 1, &barrier, 0, NULL, 0, NULL);
}

static void bind(const client *c, VkCommandBuffer cb)
{
    vkCmdBindPipeline(cb, VK_PIPELINE_BIND_POINT_COMPUTE, c->pipeline);
    vkCmdBindDescriptorSets(cb, VK_PIPELINE_BIND_POINT_COMPUTE, c->layout, 0, 1, &c->set, 0, NULL);
}

void client_dispatch(const client *c, VkCommandBuffer cb, int n)
{
    bind(c, cb);
    for (int i = 0; i < n; i++) {
        vkCmdDispatch(cb, CLIENT_GROUPS, height, 1);
        client_barrier(cb);
    }
}

void client_end(VkCommandBuffer cb) { client_check(vkEndCommandBuffer(cb), "vkEndCommandBuffer"); }

void client_submit(const client *c, VkCommandBuffer cb, VkFence fence)
{
    VkSubmitInfo submit = {.sType = VK_STRUCTURE_TYPE_SUBMIT_INFO,
                           .commandBufferCount = 1,
                           .pCommandBuffers = &cb};

    client_check(vkQueueSubmit(c->queue, 1, &submit, fence), "vkQueueSubmit");
}

VkFence client_fence(const client *c)
{
    VkFenceCreateInfo info = {.sType = VK_STRUCTURE_TYPE_FENCE_CREATE_INFO};
    VkFence fence;

    client_check(vkCreateFence(c->device, &info, NULL, &fence), "vkCreateFence");
    return fence;
}

void client_wait(const client *c, VkFence fence)
{
    client_check(vkWaitForFences(c->device, 1, &fence, VK_TRUE, UINT64_MAX), "vkWaitForFences");
    client_check(vkResetFences(c->device, 1, &fence), "vkResetFences");
}

void client_print_sum(const client *c)
{
    uint64_t sum = 0;

    for (uint32_t i = 0; i < CLIENT_ITEMS; i++)
        sum = sum * 31 + c->items[i];
    printf("sum %llx\n", (unsigned long long)sum);
}

/* ---- the ways -------------------------------------------------------------------------------- */

/* A command buffer for each dispatch. */
static void way_once(client *c)
{
    VkFence fence = client_fence(c);

    for (int i = 0; i < rounds; i++) {
        VkCommandBuffer cb =
            client_begin(c, c->pool, false, VK_COMMAND_BUFFER_USAGE_ONE_TIME_SUBMIT_BIT);
        client_dispatch(c, cb, 1);
        client_end(cb);
        client_submit(c, cb, fence);
        client_wait(c, fence);
        vkFreeCommandBuffers(c->device, c->pool, 1, &cb);
    }
    vkDestroyFence(c->device, fence, NULL);
}

/* Three dispatches, a copy, a fill. */
static void record_all_kinds(const client *c, VkCommandBuffer cb)
{
    VkBufferCopy region = {.size = CLIENT_BYTES};

    client_dispatch(c, cb, 3);
    vkCmdCopyBuffer(cb, c->buffer, c->other, 1, &region);
    client_barrier(cb);
    vkCmdFillBuffer(cb, c->other, 0, 64, 7);
    client_barrier(cb);
}

/* One command buffer, submitted again and again. */
static void way_reuse(client *c)
{
    VkCommandBuffer cb = client_begin(c, c->pool, false, 0);
    VkFence fence = client_fence(c);

    record_all_kinds(c, cb);
    client_end(cb);
    for (int i = 0; i < rounds; i++) {
        client_submit(c, cb, fence);
        client_wait(c, fence);
    }
    vkDestroyFence(c->device, fence, NULL);
}

/* Recorded again in place, and never waited for by a fence. */
static void way_idle(client *c)
{
    VkCommandBufferBeginInfo begin = {.sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_BEGIN_INFO};
    VkCommandBuffer cb = client_begin(c, c->pool, false, 0);

    for (int i = 0; i < rounds; i++) {
        if (i)
            client_check(vkBeginCommandBuffer(cb, &begin), "vkBeginCommandBuffer");
        record_all_kinds(c, cb);
        client_end(cb);
        client_submit(c, cb, VK_NULL_HANDLE);
        client_check(i % 2 ? vkQueueWaitIdle(c->queue) : vkDeviceWaitIdle(c->device), "idle");
    }
}

/* Many submissions at once, one of them long. */
static void way_pipelined(client *c)
{
    for (int i = 0; i < rounds; i++) {
        VkCommandBuffer cb = client_begin(c, c->pool, false, 0);
        client_dispatch(c, cb, i % 300 == 7 ? 300 : 2);
        client_end(cb);
        client_submit(c, cb, VK_NULL_HANDLE);
    }
    client_check(vkQueueWaitIdle(c->queue), "vkQueueWaitIdle");
}

/* In flight several times at once. */
static void way_simultaneous(client *c)
{
    VkCommandBuffer cb =
        client_begin(c, c->pool, false, VK_COMMAND_BUFFER_USAGE_SIMULTANEOUS_USE_BIT);

    client_dispatch(c, cb, 2);
    client_end(cb);
    for (int i = 0; i < rounds; i++)
        client_submit(c, cb, VK_NULL_HANDLE);
    client_check(vkQueueWaitIdle(c->queue), "vkQueueWaitIdle");
}

/* One that is executed twice, one that is executed once. */
static void way_secondary(client *c)
{
    VkCommandBuffer often =
        client_begin(c, c->pool, true, VK_COMMAND_BUFFER_USAGE_SIMULTANEOUS_USE_BIT);
    client_dispatch(c, often, 2);
    client_end(often);
    VkCommandBuffer once = client_begin(c, c->pool, true, 0);
    client_dispatch(c, once, 1);
    client_end(once);
    VkCommandBuffer list[] = {often, once, often};
    VkCommandBuffer cb = client_begin(c, c->pool, false, 0);
    client_dispatch(c, cb, 1);
    vkCmdExecuteCommands(cb, 3, list);
    client_dispatch(c, cb, 1);
    client_end(cb);
    for (int i = 0; i < rounds; i++) {
        client_submit(c, cb, VK_NULL_HANDLE);
        client_check(vkQueueWaitIdle(c->queue), "vkQueueWaitIdle");
    }
}

/* The other kinds of dispatches. */
static void way_dispatches(client *c)
{
    VkCommandBuffer cb = client_begin(c, c->pool, false, 0);

    bind(c, cb);
    vkCmdDispatchBase(cb, 1, 0, 0, 2, 1, 1);
    client_barrier(cb);
    vkCmdDispatchIndirect(cb, c->sizes, 0);
    client_barrier(cb);
    vkCmdUpdateBuffer(cb, c->other, 0, 4, c->items);
    client_end(cb);
    client_submit(c, cb, VK_NULL_HANDLE);
    client_check(vkQueueWaitIdle(c->queue), "vkQueueWaitIdle");
}

static pthread_mutex_t queue_lock = PTHREAD_MUTEX_INITIALIZER;

static void *thread_main(void *argument)
{
    const client *c = argument;
    VkCommandPoolCreateInfo info = {.sType = VK_STRUCTURE_TYPE_COMMAND_POOL_CREATE_INFO};
    VkFence fence = client_fence(c);
    VkCommandPool pool;

    client_check(vkCreateCommandPool(c->device, &info, NULL, &pool), "vkCreateCommandPool");
    for (int i = 0; i < rounds; i++) {
        VkCommandBuffer cb = client_begin(c, pool, false, 0);
        client_dispatch(c, cb, 3);
        client_end(cb);
        pthread_mutex_lock(&queue_lock);
        client_submit(c, cb, fence);
        pthread_mutex_unlock(&queue_lock);
        client_wait(c, fence);
        if (i % 4 == 0)
            client_check(vkResetCommandPool(c->device, pool, 0), "vkResetCommandPool");
    }
    vkDestroyCommandPool(c->device, pool, NULL);
    vkDestroyFence(c->device, fence, NULL);
    return NULL;
}

/* Pools of their own, one queue. */
static void way_threads(client *c)
{
    pthread_t threads[4];

    for (int i = 0; i < 4; i++)
        pthread_create(&threads[i], NULL, thread_main, c);
    for (int i = 0; i < 4; i++)
        pthread_join(threads[i], NULL);
}

/* vkQueueSubmit2, and the end is learnt from a timeline semaphore only. */
static void way_timeline(client *c)
{
    VkSemaphoreTypeCreateInfo type = {.sType = VK_STRUCTURE_TYPE_SEMAPHORE_TYPE_CREATE_INFO,
                                      .semaphoreType = VK_SEMAPHORE_TYPE_TIMELINE};
    VkSemaphoreCreateInfo info = {.sType = VK_STRUCTURE_TYPE_SEMAPHORE_CREATE_INFO, .pNext = &type};
    VkSemaphore timeline;
    VkCommandBuffer cb = client_begin(c, c->pool, false, 0);

    client_check(vkCreateSemaphore(c->device, &info, NULL, &timeline), "vkCreateSemaphore");
    client_dispatch(c, cb, 2);
    client_end(cb);
    for (int i = 0; i < rounds; i++) {
        uint64_t value = (uint64_t)i + 1;
        VkCommandBufferSubmitInfo buffer = {.sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_SUBMIT_INFO,
                                            .commandBuffer = cb};
        VkSemaphoreSubmitInfo signal = {.sType = VK_STRUCTURE_TYPE_SEMAPHORE_SUBMIT_INFO,
                                        .semaphore = timeline,
                                        .value = value,
                                        .stageMask = VK_PIPELINE_STAGE_2_ALL_COMMANDS_BIT};
        VkSubmitInfo2 submit = {.sType = VK_STRUCTURE_TYPE_SUBMIT_INFO_2,
                                .commandBufferInfoCount = 1,
                                .pCommandBufferInfos = &buffer,
                                .signalSemaphoreInfoCount = 1,
                                .pSignalSemaphoreInfos = &signal};
        VkSemaphoreWaitInfo wait = {.sType = VK_STRUCTURE_TYPE_SEMAPHORE_WAIT_INFO,
                                    .semaphoreCount = 1,
                                    .pSemaphores = &timeline,
                                    .pValues = &value};
        client_check(vkQueueSubmit2(c->queue, 1, &submit, VK_NULL_HANDLE), "vkQueueSubmit2");
        client_check(vkWaitSemaphores(c->device, &wait, UINT64_MAX), "vkWaitSemaphores");
    }
    vkDestroySemaphore(c->device, timeline, NULL);
}

/* Devices that come and go. */
static void way_devices(client *c)
{
    for (int i = 0; i < 5; i++) {
        way_idle(c);
        client_print_sum(c);
        client_close_device(c);
        client_open_device(c);
    }
}

/* The program gives the pipeline a name. */
static void way_named(client *c)
{
    PFN_vkSetDebugUtilsObjectNameEXT set_name = (PFN_vkSetDebugUtilsObjectNameEXT)(
        void (*)(void))vkGetDeviceProcAddr(c->device, "vkSetDebugUtilsObjectNameEXT");
    VkDebugUtilsObjectNameInfoEXT info = {
        .sType = VK_STRUCTURE_TYPE_DEBUG_UTILS_OBJECT_NAME_INFO_EXT,
        .objectType = VK_OBJECT_TYPE_PIPELINE,
        .objectHandle = (uint64_t)(uintptr_t)c->pipeline,
        .pObjectName = "a name of the program"};

    if (set_name)
        client_check(set_name(c->device, &info), "vkSetDebugUtilsObjectNameEXT");
    way_reuse(c);
}

/* Work that takes longer than the program lives. */
static void leave_running(client *c)
{
    VkCommandBuffer cb = client_begin(c, c->pool, false, 0);

    client_dispatch(c, cb, 2000);
    client_end(cb);
    client_submit(c, cb, VK_NULL_HANDLE);
    printf("going\n");
    fflush(stdout);
}

static void way_exit_running(client *c)
{
    way_once(c);
    leave_running(c);
    _exit(6);
}

static void way_killed(client *c)
{
    way_once(c);
    leave_running(c);
    kill(getpid(), SIGKILL);
}

/* Ends without destroying anything. */
static void way_exit(client *c)
{
    way_reuse(c);
    client_print_sum(c);
    exit(5);
}

static double read_ns(clockid_t clock)
{
    struct timespec t;

    clock_gettime(clock, &t);
    return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

/* Print the time and the CPU time of a loop, in ns, for measurements. */
static void print_times(double wall, double cpu)
{
    printf("%.0f %.0f\n", read_ns(CLOCK_MONOTONIC) - wall, read_ns(CLOCK_PROCESS_CPUTIME_ID) - cpu);
    exit(0);
}

static void way_time(client *c)
{
    way_once(c);
    double wall = read_ns(CLOCK_MONOTONIC), cpu = read_ns(CLOCK_PROCESS_CPUTIME_ID);
    way_once(c);
    print_times(wall, cpu);
}

static void way_time_batch(client *c)
{
    double wall = 0, cpu = 0;
    VkCommandBuffer cb = client_begin(c, c->pool, false, 0);
    VkFence fence = client_fence(c);

    client_dispatch(c, cb, 200);
    client_end(cb);
    for (int i = 0; i <= rounds; i++) {
        if (i == 1) {
            wall = read_ns(CLOCK_MONOTONIC);
            cpu = read_ns(CLOCK_PROCESS_CPUTIME_ID);
        }
        client_submit(c, cb, fence);
        client_wait(c, fence);
    }
    print_times(wall, cpu);
}

static const struct way {
    const char *name;
    void (*run)(client *);
} ways[] = {
    {"once", way_once},
    {"reuse", way_reuse},
    {"idle", way_idle},
    {"pipelined", way_pipelined},
    {"simultaneous", way_simultaneous},
    {"secondary", way_secondary},
    {"dispatches", way_dispatches},
    {"threads", way_threads},
    {"timeline", way_timeline},
    {"devices", way_devices},
    {"named", way_named},
    {"exit_running", way_exit_running},
    {"killed", way_killed},
    {"exit", way_exit},
    {"time", way_time},
    {"time_batch", way_time_batch},
};

int main(int argc, char **argv)
{
    client c;

    if (argc > 2)
        rounds = atoi(argv[2]);
    if (argc > 3)
        height = (uint32_t)atoi(argv[3]);
    for (size_t i = 0; argc > 1 && i < sizeof ways / sizeof ways[0]; i++) {
        if (strcmp(ways[i].name, argv[1]) != 0)
            continue;
        client_open(&c);
        ways[i].run(&c);
        client_print_sum(&c);
        client_close(&c);
        printf("done\n");
        return 0;
    }
    fprintf(stderr, "usage: client WAY [ROUNDS [HEIGHT]]\n");
    return 2;
}
