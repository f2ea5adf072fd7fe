/* What the ways of the client share: a device, a pipeline, a buffer that the shader changes. */
#ifndef TEST_VULKAN_CLIENT_H
#define TEST_VULKAN_CLIENT_H

#include <vulkan/vulkan.h>

#include <stdbool.h>
#include <stdint.h>

#define CLIENT_GROUPS 4u
#define CLIENT_ITEMS  (CLIENT_GROUPS * 64u)
#define CLIENT_BYTES  (CLIENT_ITEMS * sizeof(uint32_t))

typedef struct client {
    VkInstance instance;
    VkPhysicalDevice physical;
    VkDevice device;
    VkQueue queue;
    VkCommandPool pool;
    VkPipelineLayout layout;
    VkDescriptorSetLayout set_layout;
    VkDescriptorPool sets;
    VkDescriptorSet set;
    VkShaderModule module;
    VkPipeline pipeline;
    VkBuffer buffer, other, sizes;
    VkDeviceMemory memory;
    uint32_t *items;
} client;

void client_check(VkResult result, const char *what);
void client_open(client *c);
void client_open_device(client *c);
void client_close_device(client *c);
void client_close(client *c);
VkCommandBuffer client_begin(const client *c, VkCommandPool pool, bool secondary,
                             VkCommandBufferUsageFlags flags);
/** Record n dispatches, with barriers. */
void client_dispatch(const client *c, VkCommandBuffer cb, int n);
void client_barrier(VkCommandBuffer cb);
void client_end(VkCommandBuffer cb);
void client_submit(const client *c, VkCommandBuffer cb, VkFence fence);
VkFence client_fence(const client *c);
void client_wait(const client *c, VkFence fence);
void client_print_sum(const client *c);
#endif
