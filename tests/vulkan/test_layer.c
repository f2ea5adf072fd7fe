/* The layer against a scripted driver and a scripted host: what a real driver does not do on request. Also
 * built with the sanitizers. */
#include "fake_host.h"
#include "fake_vk.h"
#include "shader.h"
#include "vulkan.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#define KERNEL KINETO_PLUGIN_PROFILE_EVENT_TYPE_CONCURRENT_KERNEL
#define SYNC   KINETO_PLUGIN_PROFILE_EVENT_TYPE_CUDA_SYNC

static PFN_vkGetInstanceProcAddr get_instance;
static PFN_vkGetDeviceProcAddr get_device;
static VkInstance instance;
static VkDevice device;
static VkQueue queues[3];
static VkCommandPool pool;
static VkPipeline pipeline;
static VkShaderModule module;

VKAPI_ATTR VkResult VKAPI_CALL
vkNegotiateLoaderLayerInterfaceVersion(VkNegotiateLayerInterface *interface);

#define CALL(name) ((PFN_##name)get_device(device, #name))

/* The layer's functions are obtained as a loader obtains them. */
static void make_instance(void)
{
    VkNegotiateLayerInterface interface = {LAYER_NEGOTIATE_INTERFACE_STRUCT, NULL, 2, NULL, NULL,
                                           NULL};
    VkLayerInstanceLink below = {NULL, fake_vk_get_instance_proc, NULL};
    VkLayerInstanceCreateInfo link = {.sType = VK_STRUCTURE_TYPE_LOADER_INSTANCE_CREATE_INFO,
                                      .function = VK_LAYER_LINK_INFO,
                                      .u.pLayerInfo = &below};
    VkInstanceCreateInfo info = {.pNext = &link};

    assert_int_equal(vkNegotiateLoaderLayerInterfaceVersion(&interface), VK_SUCCESS);
    get_instance = interface.pfnGetInstanceProcAddr;
    get_device = interface.pfnGetDeviceProcAddr;
    PFN_vkCreateInstance create = (PFN_vkCreateInstance)get_instance(NULL, "vkCreateInstance");
    assert_int_equal(create(&info, NULL, &instance), VK_SUCCESS);
}

static void make_pipeline(void)
{
    uint32_t code[SHADER_WORDS];
    VkShaderModuleCreateInfo shader = {.codeSize = shader_assemble(code, "scale_items") * 4,
                                       .pCode = code};
    VkComputePipelineCreateInfo info = {.stage.pName = "scale_items"};

    assert_int_equal(CALL(vkCreateShaderModule)(device, &shader, NULL, &module), VK_SUCCESS);
    info.stage.module = module;
    assert_int_equal(
        CALL(vkCreateComputePipelines)(device, VK_NULL_HANDLE, 1, &info, NULL, &pipeline),
        VK_SUCCESS);
}

/* With three queues of one family, a pool, and a pipeline. */
static void make_device(void)
{
    VkLayerDeviceLink below = {NULL, fake_vk_get_instance_proc, fake_vk_get_device_proc};
    VkLayerDeviceCreateInfo link = {.sType = VK_STRUCTURE_TYPE_LOADER_DEVICE_CREATE_INFO,
                                    .function = VK_LAYER_LINK_INFO,
                                    .u.pLayerInfo = &below};
    VkDeviceCreateInfo info = {.pNext = &link};
    VkCommandPoolCreateInfo pool_info = {.queueFamilyIndex = 0};
    VkPhysicalDevice gpu;
    uint32_t count = 1;

    make_instance();
    ((PFN_vkEnumeratePhysicalDevices)get_instance(instance, "vkEnumeratePhysicalDevices"))(
        instance, &count, &gpu);
    PFN_vkCreateDevice create = (PFN_vkCreateDevice)get_instance(instance, "vkCreateDevice");
    assert_int_equal(create(gpu, &info, NULL, &device), VK_SUCCESS);
    for (uint32_t i = 0; i < 3; i++)
        CALL(vkGetDeviceQueue)(device, 0, i, &queues[i]);
    assert_int_equal(CALL(vkCreateCommandPool)(device, &pool_info, NULL, &pool), VK_SUCCESS);
    make_pipeline();
}

static int set_up(void **state)
{
    (void)state;
    fake_vk_faults = 0;
    fake_vk_bits = 64;
    fake_vk_period = 1;
    fake_vk_offset = 0;
    fake_vk_at_once = true;
    fake_host_clear();
    fake_vk_clear();
    return 0;
}

/* Everything but command buffers, which the pool frees. */
static void destroy_device(void)
{
    CALL(vkDestroyPipeline)(device, pipeline, NULL);
    CALL(vkDestroyShaderModule)(device, module, NULL);
    CALL(vkDestroyCommandPool)(device, pool, NULL);
    CALL(vkDestroyDevice)(device, NULL);
    ((PFN_vkDestroyInstance)get_instance(instance, "vkDestroyInstance"))(instance, NULL);
}

/* ---- recording and submission ---------------------------------------------------------------- */

static VkCommandBuffer allocate(VkCommandPool from, bool secondary)
{
    VkCommandBufferAllocateInfo info = {.commandPool = from,
                                        .level = secondary ? VK_COMMAND_BUFFER_LEVEL_SECONDARY
                                                           : VK_COMMAND_BUFFER_LEVEL_PRIMARY,
                                        .commandBufferCount = 1};
    VkCommandBuffer cb;

    assert_int_equal(CALL(vkAllocateCommandBuffers)(device, &info, &cb), VK_SUCCESS);
    return cb;
}

static void release(VkCommandPool from, VkCommandBuffer cb)
{
    CALL(vkFreeCommandBuffers)(device, from, 1, &cb);
}

/* Dispatches of the pipeline, without barriers. */
static void dispatch_in(VkCommandBuffer cb, uint32_t kernels)
{
    CALL(vkCmdBindPipeline)(cb, VK_PIPELINE_BIND_POINT_COMPUTE, pipeline);
    for (uint32_t i = 0; i < kernels; i++)
        CALL(vkCmdDispatch)(cb, 4, 2, 1);
}

/* A command buffer with some dispatches, ready to be submitted. */
static void record(VkCommandBuffer cb, VkCommandBufferUsageFlags flags, uint32_t kernels)
{
    VkCommandBufferBeginInfo begin = {.flags = flags};

    CALL(vkBeginCommandBuffer)(cb, &begin);
    dispatch_in(cb, kernels);
    CALL(vkEndCommandBuffer)(cb);
}

static VkResult submit(VkQueue queue, VkCommandBuffer cb, VkFence fence)
{
    VkSubmitInfo info = {.commandBufferCount = 1, .pCommandBuffers = &cb};

    return CALL(vkQueueSubmit)(queue, 1, &info, fence);
}

/* Activities of a kind. */
static uint32_t count_type(int32_t type)
{
    uint32_t found = 0;

    for (uint32_t i = 0; i < fake_host_activities(); i++)
        found += fake_host_activity(i)->type == type;
    return found;
}

/* Kernels that activities report, one each or several. */
static uint32_t count_kernels(void)
{
    uint32_t found = 0;

    for (uint32_t i = 0; i < fake_host_activities(); i++) {
        const fake_activity *a = fake_host_activity(i);
        if (a->type == KERNEL)
            found += a->kernels ? (uint32_t)a->kernels : 1;
    }
    return found;
}

/* Each requested activity was delivered or is counted as lost, and none came after the end. */
static void check_ledger(void)
{
    assert_int_equal(fake_host_requested(), fake_host_activities() + fake_host_dropped());
    assert_int_equal(fake_host_late_calls(), 0);
}

/* ---- tests ----------------------------------------------------------------------------------- */

/* Recorded again and again, of several sizes, on three queues. */
static void test_each_dispatch_once(void **state)
{
    (void)state;
    make_device();
    assert_true(fake_host_open());
    VkCommandBuffer cb = allocate(pool, false);
    for (uint32_t round = 1; round <= 40; round++) {
        record(cb, 0, round * 7);
        for (int again = 0; again < 3; again++)
            assert_int_equal(submit(queues[again], cb, VK_NULL_HANDLE), VK_SUCCESS);
    }
    CALL(vkQueueWaitIdle)(queues[0]);
    fake_host_close();
    assert_int_equal(count_kernels(), fake_vk_kernels());
    assert_int_equal(fake_host_dropped(), 0);
    for (uint32_t i = 0; i < fake_host_activities(); i++) {
        const fake_activity *a = fake_host_activity(i);
        assert_string_equal(a->name, "scale_items");
        assert_int_equal(a->clock, KINETO_PLUGIN_CLOCK_MONOTONIC_RAW);
        assert_true(a->start > 0 && a->end >= a->start && a->has_block);
        assert_int_equal(a->grid[0] * 10 + a->grid[1], 42);
        assert_int_equal(a->flow, a->correlation);
    }
    check_ledger();
    destroy_device();
    assert_int_equal(fake_vk_objects(), 0);
}

/* Each run of a secondary command buffer has its own times. */
static void test_secondaries_that_run_often(void **state)
{
    (void)state;
    make_device();
    assert_true(fake_host_open());
    VkCommandBuffer twice = allocate(pool, true), cb = allocate(pool, false);
    VkCommandBufferBeginInfo begin = {.flags = 0};
    VkCommandBuffer list[] = {twice, twice};

    record(twice, VK_COMMAND_BUFFER_USAGE_SIMULTANEOUS_USE_BIT, 20);
    CALL(vkBeginCommandBuffer)(cb, &begin);
    dispatch_in(cb, 1);
    CALL(vkCmdExecuteCommands)(cb, 2, list);
    dispatch_in(cb, 1);
    CALL(vkEndCommandBuffer)(cb);
    for (int i = 0; i < 5; i++)
        submit(queues[0], cb, VK_NULL_HANDLE);
    CALL(vkDeviceWaitIdle)(device);
    fake_host_close();
    assert_int_equal(fake_vk_kernels(), 5 * 42);
    assert_int_equal(count_type(KERNEL), 5 * 42);
    for (uint32_t i = 1; i < 42; i++)
        assert_int_not_equal(fake_host_activity(i)->start, fake_host_activity(0)->start);
    check_ledger();
    destroy_device();
}

/* Twice in flight: the first results are overwritten, and its kernels have the host's times. */
static void test_simultaneous_use(void **state)
{
    (void)state;
    make_device();
    assert_true(fake_host_open());
    VkCommandBuffer cb = allocate(pool, false);
    fake_vk_at_once = false;
    record(cb, VK_COMMAND_BUFFER_USAGE_SIMULTANEOUS_USE_BIT, 3);
    for (int i = 0; i < 4; i++)
        submit(queues[0], cb, VK_NULL_HANDLE);
    CALL(vkQueueWaitIdle)(queues[0]);
    fake_host_close();
    assert_int_equal(fake_vk_kernels(), 12);
    assert_int_equal(count_kernels(), 12);
    assert_int_equal(fake_host_activities(), 3 + 3);
    check_ledger();
    destroy_device();
}

/* Work that was recorded before the session, and work that outlives it. */
static void test_sessions_that_begin_late_and_end_early(void **state)
{
    (void)state;
    make_device();
    VkCommandBuffer before = allocate(pool, false), during = allocate(pool, false);
    record(before, 0, 5);
    assert_true(fake_host_open());
    submit(queues[0], before, VK_NULL_HANDLE);
    CALL(vkQueueWaitIdle)(queues[0]);
    assert_int_equal(fake_host_activities(), 1);
    assert_int_equal(fake_host_activity(0)->kernels, 5);
    assert_int_equal(fake_host_activity(0)->clock, KINETO_PLUGIN_CLOCK_MONOTONIC);
    fake_vk_at_once = false;
    record(during, 0, 9);
    submit(queues[0], during, VK_NULL_HANDLE);
    fake_host_close();
    assert_int_equal(fake_host_dropped(), 9);
    CALL(vkQueueWaitIdle)(queues[0]);
    assert_int_equal(fake_host_activities(), 1);
    check_ledger();
    /* The next session has nothing of the one before. */
    assert_true(fake_host_open());
    submit(queues[0], during, VK_NULL_HANDLE);
    CALL(vkQueueWaitIdle)(queues[0]);
    fake_host_close();
    assert_int_equal(fake_host_activities(), 10);
    check_ledger();
    destroy_device();
}

/* Waits for one value of a timeline and signals another; 0: does not. */
static void submit_linked(VkQueue queue, VkCommandBuffer cb, VkSemaphore semaphore, uint64_t wait,
                          uint64_t signal)
{
    VkTimelineSemaphoreSubmitInfo values = {
        .sType = VK_STRUCTURE_TYPE_TIMELINE_SEMAPHORE_SUBMIT_INFO,
        .waitSemaphoreValueCount = wait != 0,
        .pWaitSemaphoreValues = &wait,
        .signalSemaphoreValueCount = signal != 0,
        .pSignalSemaphoreValues = &signal};
    VkSubmitInfo info = {.pNext = &values,
                         .waitSemaphoreCount = wait != 0,
                         .pWaitSemaphores = &semaphore,
                         .commandBufferCount = 1,
                         .pCommandBuffers = &cb,
                         .signalSemaphoreCount = signal != 0,
                         .pSignalSemaphores = &semaphore};

    assert_int_equal(CALL(vkQueueSubmit)(queue, 1, &info, VK_NULL_HANDLE), VK_SUCCESS);
}

/* Each wait on another queue is a pair of activities with one arrow. */
static void test_semaphores_between_queues(void **state)
{
    VkSemaphore semaphore = (VkSemaphore)(uintptr_t)0x77;

    (void)state;
    make_device();
    assert_true(fake_host_open());
    VkCommandBuffer a = allocate(pool, false), b = allocate(pool, false), c = allocate(pool, false);
    fake_vk_at_once = false;
    record(a, 0, 1);
    record(b, 0, 1);
    record(c, 0, 1);
    submit_linked(queues[1], b, semaphore, 5, 0); /* before its signal is submitted */
    submit_linked(queues[0], a, semaphore, 0, 7);
    submit_linked(queues[2], c, semaphore, 7, 0);
    CALL(vkDeviceWaitIdle)(device);
    fake_host_close();
    assert_int_equal(count_type(KERNEL), 3);
    assert_int_equal(count_type(SYNC), 4);
    for (uint32_t i = 0, first = UINT32_MAX; i < fake_host_activities(); i++) {
        const fake_activity *s = fake_host_activity(i);
        if (s->type != SYNC)
            continue;
        if (first == UINT32_MAX) {
            first = i;
            assert_string_equal(s->name, "Semaphore Signal");
        } else {
            assert_string_equal(s->name, "Semaphore Wait");
            assert_int_equal(s->flow, fake_host_activity(first)->flow);
            assert_int_not_equal(s->queue, fake_host_activity(first)->queue);
            first = UINT32_MAX;
        }
    }
    check_ledger();
    destroy_device();
}

/* 36 bits of 52 ns, which wrap after the first command, and the device's clock is its own. */
static void check_clock(void)
{
    int64_t range_ns = (int64_t)((double)(UINT64_C(1) << fake_vk_bits) * (double)fake_vk_period);
    struct timespec pause = {0, 3000000};

    make_device();
    assert_true(fake_host_open());
    VkCommandBuffer cb = allocate(pool, false);
    record(cb, 0, 1);
    int64_t begun = vl_now_ns(CLOCK_MONOTONIC_RAW);
    for (int i = 0; i < 20; i++) {
        if (i == 1) /* 2 ms later it wraps */
            fake_vk_offset = range_ns - 2000000 - vl_now_ns(CLOCK_MONOTONIC_RAW);
        submit(queues[0], cb, VK_NULL_HANDLE);
        CALL(vkQueueWaitIdle)(queues[0]);
        nanosleep(&pause, NULL);
    }
    int64_t ended = vl_now_ns(CLOCK_MONOTONIC_RAW);
    fake_host_close();
    assert_int_equal(fake_host_activities(), 20);
    int64_t span = fake_host_activity(19)->start - fake_host_activity(1)->start;
    assert_true(span > 18 * 3000000 - 1000 && span < ended - begun + 1000);
    assert_true(fake_host_samples() >= 1);
    for (uint32_t i = 0; i < fake_host_samples(); i++)
        assert_true(fake_host_sample(i)->before <= fake_host_sample(i)->after);
    assert_int_equal(fake_host_activity(0)->clock, fake_host_sample(0)->clock);
    check_ledger();
    destroy_device();
}

static void test_clock_of_the_device(void **state)
{
    (void)state;
    fake_vk_bits = 36;
    fake_vk_period = 52.0833f;
    for (int calibrated = 0; calibrated < 2; calibrated++) {
        fake_host_clear();
        fake_vk_offset = 123456789;
        fake_vk_faults = calibrated ? 0 : FAKE_NO_CALIBRATION;
        check_clock();
    }
}

/* One run with a driver that does these things wrong. */
static void run_with_faults(unsigned faults, bool at_once)
{
    VkCommandBuffer list[4];

    fake_host_clear();
    fake_vk_clear();
    fake_vk_faults = faults;
    fake_vk_at_once = at_once;
    make_device();
    assert_true(fake_host_open());
    for (uint32_t i = 0; i < 4; i++) {
        list[i] = allocate(pool, false);
        record(list[i], 0, i * 5);
    }
    for (uint32_t i = 0; i < 12; i++) {
        VkResult result = submit(queues[i % 3], list[i % 4], VK_NULL_HANDLE);
        assert_int_equal(result, faults & FAKE_SUBMIT_FAILS ? VK_ERROR_OUT_OF_HOST_MEMORY
                                                            : VK_SUCCESS);
        if (i % 4 == 3)
            CALL(vkDeviceWaitIdle)(device);
    }
    fake_host_close();
    check_ledger();
    assert_int_equal(count_kernels() + fake_host_dropped(), fake_vk_kernels());
    for (uint32_t i = 0; i < 4; i++)
        release(pool, list[i]);
    destroy_device();
}

static void test_faults(void **state)
{
    int before = fake_vk_objects();

    (void)state;
    for (unsigned faults = 0; faults < 2048; faults++) {
        /* One, two or three faults at a time. */
        if (__builtin_popcount(faults) > 3)
            continue;
        run_with_faults(faults, true);
        run_with_faults(faults, false);
        assert_int_equal(fake_vk_objects(), before);
    }
}

/* Uses a queue in all the ways in which ends are seen. */
static void *use_queue(void *argument)
{
    VkQueue queue = argument;
    VkCommandPoolCreateInfo info = {.queueFamilyIndex = 0};
    VkFenceCreateInfo fence_info = {.flags = 0};
    VkCommandPool own;
    VkFence fence;

    CALL(vkCreateCommandPool)(device, &info, NULL, &own);
    PFN_vkCreateFence create = (PFN_vkCreateFence)get_device(device, "vkCreateFence");
    create(device, &fence_info, NULL, &fence);
    for (int i = 0; i < 200; i++) {
        VkCommandBuffer cb = allocate(own, false);
        record(cb, 0, (uint32_t)i % 13);
        submit(queue, cb, i % 2 ? fence : VK_NULL_HANDLE);
        if (i % 2) {
            CALL(vkWaitForFences)(device, 1, &fence, 1, UINT64_MAX);
            CALL(vkResetFences)(device, 1, &fence);
        } else {
            CALL(vkQueueWaitIdle)(queue);
        }
        release(own, cb);
    }
    CALL(vkDestroyFence)(device, fence, NULL);
    CALL(vkDestroyCommandPool)(device, own, NULL);
    return NULL;
}

/* Three queues in three threads, while sessions come and go. */
static void test_threads(void **state)
{
    pthread_t threads[3];
    struct timespec pause = {0, 1000000};

    (void)state;
    make_device();
    for (int i = 0; i < 3; i++)
        pthread_create(&threads[i], NULL, use_queue, queues[i]);
    for (int i = 0; i < 30; i++) {
        assert_true(fake_host_open());
        nanosleep(&pause, NULL);
        fake_host_collect();
        fake_host_close();
    }
    for (int i = 0; i < 3; i++)
        pthread_join(threads[i], NULL);
    check_ledger();
    destroy_device();
}

/* Code that is cut, or has a changed word, is read without harm. */
static void test_malformed_shaders(void **state)
{
    uint32_t code[SHADER_WORDS];
    size_t words = shader_assemble(code, "scale_items");

    (void)state;
    for (size_t n = 0; n <= words; n++) {
        uint32_t *cut = malloc(n * 4 + 1);
        vl_shader shader = {.entry_count = 0};
        memcpy(cut, code, n * 4);
        vl_shader_parse(&shader, cut, n * 4);
        free(cut);
    }
    for (size_t i = 0; i < words; i++) {
        static const uint32_t bad[] = {0, 1, 0xffff, 0x00050000, 0xffffffff, 0x0003000f};
        for (size_t k = 0; k < sizeof bad / sizeof bad[0]; k++) {
            uint32_t *changed = malloc(words * 4);
            vl_shader shader = {.entry_count = 0};
            memcpy(changed, code, words * 4);
            changed[i] = bad[k];
            vl_shader_parse(&shader, changed, words * 4);
            free(changed);
        }
    }
    vl_shader good = {.entry_count = 0};
    vl_shader_parse(&good, code, words * 4);
    assert_int_equal(good.entry_count, 1);
    assert_string_equal(good.entries[0].name, "scale_items");
    assert_true(good.entries[0].has_size && good.entries[0].size[0].value == SHADER_GROUP);
}

/* The cost of the layer for a dispatch, from recording to delivery, without the driver's. */
static void test_cost(void **state)
{
    enum { COMMANDS = 1000, ROUNDS = 60 };

    (void)state;
    make_device();
    assert_true(fake_host_open());
    VkCommandBuffer cb = allocate(pool, false);
    double best = 1e9;
    for (int i = 0; i < ROUNDS; i++) {
        fake_host_clear();
        int64_t from = vl_now_ns(CLOCK_THREAD_CPUTIME_ID);
        record(cb, 0, COMMANDS);
        submit(queues[0], cb, VK_NULL_HANDLE);
        CALL(vkQueueWaitIdle)(queues[0]);
        double ns = (double)(vl_now_ns(CLOCK_THREAD_CPUTIME_ID) - from) / COMMANDS;
        best = ns < best ? ns : best;
    }
    print_message("%.0f ns for each dispatch, with the scripted driver and host\n", best);
    fake_host_close();
    destroy_device();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(test_each_dispatch_once, set_up),
        cmocka_unit_test_setup(test_secondaries_that_run_often, set_up),
        cmocka_unit_test_setup(test_simultaneous_use, set_up),
        cmocka_unit_test_setup(test_sessions_that_begin_late_and_end_early, set_up),
        cmocka_unit_test_setup(test_semaphores_between_queues, set_up),
        cmocka_unit_test_setup(test_clock_of_the_device, set_up),
        cmocka_unit_test_setup(test_faults, set_up),
        cmocka_unit_test_setup(test_threads, set_up),
        cmocka_unit_test_setup(test_malformed_shaders, set_up),
        cmocka_unit_test_setup(test_cost, set_up),
    };

    return cmocka_run_group_tests_name("vulkan layer", tests, NULL, NULL);
}
