/* Creation of what client.h describes. */
#include "client.h"
#include "shader.h"

#include <stdio.h>
#include <stdlib.h>

void client_check(VkResult result, const char *what)
{
    if (result != VK_SUCCESS) {
        fprintf(stderr, "%s: %d\n", what, result);
        exit(1);
    }
}

/* Ends with 77 if there is no device. */
void client_open(client *c)
{
    VkApplicationInfo app = {.sType = VK_STRUCTURE_TYPE_APPLICATION_INFO,
                             .apiVersion = VK_API_VERSION_1_3};
    const char *extensions[] = {VK_EXT_DEBUG_UTILS_EXTENSION_NAME};
    VkInstanceCreateInfo info = {.sType = VK_STRUCTURE_TYPE_INSTANCE_CREATE_INFO,
                                 .pApplicationInfo = &app,
                                 .enabledExtensionCount = 1,
                                 .ppEnabledExtensionNames = extensions};
    uint32_t count = 1;

    if (vkCreateInstance(&info, NULL, &c->instance) != VK_SUCCESS ||
        vkEnumeratePhysicalDevices(c->instance, &count, &c->physical) < VK_SUCCESS || count == 0) {
        fprintf(stderr, "no Vulkan device here\n");
        exit(77);
    }
    client_open_device(c);
}

/* With the features that the ways need. */
static void open_queue(client *c)
{
    float priority = 1;
    VkDeviceQueueCreateInfo queue = {.sType = VK_STRUCTURE_TYPE_DEVICE_QUEUE_CREATE_INFO,
                                     .queueCount = 1,
                                     .pQueuePriorities = &priority};
    VkPhysicalDeviceVulkan12Features old = {
        .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_2_FEATURES, .timelineSemaphore = 1};
    VkPhysicalDeviceVulkan13Features features = {
        .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_3_FEATURES,
        .pNext = &old,
        .synchronization2 = 1};
    VkDeviceCreateInfo info = {.sType = VK_STRUCTURE_TYPE_DEVICE_CREATE_INFO,
                               .pNext = &features,
                               .queueCreateInfoCount = 1,
                               .pQueueCreateInfos = &queue};
    VkCommandPoolCreateInfo pool = {.sType = VK_STRUCTURE_TYPE_COMMAND_POOL_CREATE_INFO,
                                    .flags = VK_COMMAND_POOL_CREATE_RESET_COMMAND_BUFFER_BIT};

    client_check(vkCreateDevice(c->physical, &info, NULL, &c->device), "vkCreateDevice");
    vkGetDeviceQueue(c->device, 0, 0, &c->queue);
    client_check(vkCreateCommandPool(c->device, &pool, NULL, &c->pool), "vkCreateCommandPool");
}

static VkBuffer create_buffer(const client *c, VkDeviceSize size)
{
    VkBufferCreateInfo info = {.sType = VK_STRUCTURE_TYPE_BUFFER_CREATE_INFO,
                               .size = size,
                               .usage = VK_BUFFER_USAGE_STORAGE_BUFFER_BIT |
                                        VK_BUFFER_USAGE_TRANSFER_DST_BIT |
                                        VK_BUFFER_USAGE_TRANSFER_SRC_BIT |
                                        VK_BUFFER_USAGE_INDIRECT_BUFFER_BIT};
    VkBuffer buffer;

    client_check(vkCreateBuffer(c->device, &info, NULL, &buffer), "vkCreateBuffer");
    return buffer;
}

static uint32_t find_host_memory(const client *c, uint32_t allowed)
{
    const VkMemoryPropertyFlags need =
        VK_MEMORY_PROPERTY_HOST_VISIBLE_BIT | VK_MEMORY_PROPERTY_HOST_COHERENT_BIT;
    VkPhysicalDeviceMemoryProperties memory;

    vkGetPhysicalDeviceMemoryProperties(c->physical, &memory);
    for (uint32_t i = 0; i < memory.memoryTypeCount; i++)
        if ((allowed >> i & 1) && (memory.memoryTypes[i].propertyFlags & need) == need)
            return i;
    return 0;
}

/* One allocation for all buffers, mapped. */
static void open_memory(client *c)
{
    VkMemoryRequirements needs;
    VkMemoryAllocateInfo info = {.sType = VK_STRUCTURE_TYPE_MEMORY_ALLOCATE_INFO};
    void *mapped;

    c->buffer = create_buffer(c, CLIENT_BYTES);
    c->other = create_buffer(c, CLIENT_BYTES);
    c->sizes = create_buffer(c, 4096);
    vkGetBufferMemoryRequirements(c->device, c->buffer, &needs);
    info.allocationSize = 65536;
    info.memoryTypeIndex = find_host_memory(c, needs.memoryTypeBits);
    client_check(vkAllocateMemory(c->device, &info, NULL, &c->memory), "vkAllocateMemory");
    client_check(vkBindBufferMemory(c->device, c->buffer, c->memory, 0), "bind");
    client_check(vkBindBufferMemory(c->device, c->other, c->memory, 16384), "bind");
    client_check(vkBindBufferMemory(c->device, c->sizes, c->memory, 32768), "bind");
    client_check(vkMapMemory(c->device, c->memory, 0, VK_WHOLE_SIZE, 0, &mapped), "vkMapMemory");
    c->items = mapped;
    for (uint32_t i = 0; i < CLIENT_ITEMS; i++)
        c->items[i] = i;
    for (uint32_t i = 0; i < 3; i++)
        c->items[8192 + i] = i ? 1 : CLIENT_GROUPS;
}

static void open_set(client *c)
{
    VkDescriptorSetLayoutBinding binding = {.descriptorType = VK_DESCRIPTOR_TYPE_STORAGE_BUFFER,
                                            .descriptorCount = 1,
                                            .stageFlags = VK_SHADER_STAGE_COMPUTE_BIT};
    VkDescriptorSetLayoutCreateInfo layout = {
        .sType = VK_STRUCTURE_TYPE_DESCRIPTOR_SET_LAYOUT_CREATE_INFO,
        .bindingCount = 1,
        .pBindings = &binding};
    VkDescriptorPoolSize size = {VK_DESCRIPTOR_TYPE_STORAGE_BUFFER, 1};
    VkDescriptorPoolCreateInfo pool = {.sType = VK_STRUCTURE_TYPE_DESCRIPTOR_POOL_CREATE_INFO,
                                       .maxSets = 1,
                                       .poolSizeCount = 1,
                                       .pPoolSizes = &size};
    VkDescriptorBufferInfo range = {.range = VK_WHOLE_SIZE};

    client_check(vkCreateDescriptorSetLayout(c->device, &layout, NULL, &c->set_layout), "layout");
    client_check(vkCreateDescriptorPool(c->device, &pool, NULL, &c->sets), "descriptors");
    VkDescriptorSetAllocateInfo allocate = {.sType = VK_STRUCTURE_TYPE_DESCRIPTOR_SET_ALLOCATE_INFO,
                                            .descriptorPool = c->sets,
                                            .descriptorSetCount = 1,
                                            .pSetLayouts = &c->set_layout};
    client_check(vkAllocateDescriptorSets(c->device, &allocate, &c->set), "descriptor set");
    range.buffer = c->buffer;
    VkWriteDescriptorSet write = {.sType = VK_STRUCTURE_TYPE_WRITE_DESCRIPTOR_SET,
                                  .dstSet = c->set,
                                  .descriptorCount = 1,
                                  .descriptorType = VK_DESCRIPTOR_TYPE_STORAGE_BUFFER,
                                  .pBufferInfo = &range};
    vkUpdateDescriptorSets(c->device, 1, &write, 0, NULL);
}

static void open_pipeline(client *c)
{
    uint32_t code[SHADER_WORDS];
    VkShaderModuleCreateInfo module = {.sType = VK_STRUCTURE_TYPE_SHADER_MODULE_CREATE_INFO,
                                       .codeSize = shader_assemble(code, "scale_items") * 4,
                                       .pCode = code};
    VkPipelineLayoutCreateInfo layout = {.sType = VK_STRUCTURE_TYPE_PIPELINE_LAYOUT_CREATE_INFO,
                                         .setLayoutCount = 1,
                                         .pSetLayouts = &c->set_layout};
    VkComputePipelineCreateInfo info = {
        .sType = VK_STRUCTURE_TYPE_COMPUTE_PIPELINE_CREATE_INFO,
        .flags = VK_PIPELINE_CREATE_DISPATCH_BASE_BIT,
        .stage = {.sType = VK_STRUCTURE_TYPE_PIPELINE_SHADER_STAGE_CREATE_INFO,
                  .stage = VK_SHADER_STAGE_COMPUTE_BIT,
                  .pName = "scale_items"}};

    client_check(vkCreateShaderModule(c->device, &module, NULL, &c->module), "shader");
    client_check(vkCreatePipelineLayout(c->device, &layout, NULL, &c->layout), "pipeline layout");
    info.stage.module = c->module;
    info.layout = c->layout;
    client_check(vkCreateComputePipelines(c->device, VK_NULL_HANDLE, 1, &info, NULL, &c->pipeline),
                 "vkCreateComputePipelines");
}

void client_open_device(client *c)
{
    open_queue(c);
    open_memory(c);
    open_set(c);
    open_pipeline(c);
}

void client_close_device(client *c)
{
    vkDestroyPipeline(c->device, c->pipeline, NULL);
    vkDestroyPipelineLayout(c->device, c->layout, NULL);
    vkDestroyShaderModule(c->device, c->module, NULL);
    vkDestroyDescriptorPool(c->device, c->sets, NULL);
    vkDestroyDescriptorSetLayout(c->device, c->set_layout, NULL);
    vkDestroyBuffer(c->device, c->buffer, NULL);
    vkDestroyBuffer(c->device, c->other, NULL);
    vkDestroyBuffer(c->device, c->sizes, NULL);
    vkFreeMemory(c->device, c->memory, NULL);
    vkDestroyCommandPool(c->device, c->pool, NULL);
    vkDestroyDevice(c->device, NULL);
}

void client_close(client *c)
{
    client_close_device(c);
    vkDestroyInstance(c->instance, NULL);
}
