/* The wrapped vkCmd… functions that do work: dispatches, copies and fills. They are not calls of the
 * host in the trace: the call that launches them is the submission. */
#include "vulkan.h"

#define KERNEL KINETO_PLUGIN_PROFILE_EVENT_TYPE_CONCURRENT_KERNEL
#define COPY   KINETO_PLUGIN_PROFILE_EVENT_TYPE_GPU_MEMCPY
#define FILL   KINETO_PLUGIN_PROFILE_EVENT_TYPE_GPU_MEMSET

/* The device and the command buffer of a call. */
#define VL_FIND                                                                                    \
    vl_device *device = vl_device_of(handle);                                                      \
    vl_buffer *buffer = vl_buffer_of(device, handle)

/* ---- dispatches ------------------------------------------------------------------------------ */

/* The pipeline names the dispatches that follow. */
VKAPI_ATTR void VKAPI_CALL vl_CmdBindPipeline(VkCommandBuffer handle, VkPipelineBindPoint point,
                                              VkPipeline pipeline)
{
    VL_FIND;

    if (buffer && point == VK_PIPELINE_BIND_POINT_COMPUTE)
        buffer->pipeline = vl_pipeline_of(device, pipeline);
    device->CmdBindPipeline(handle, point, pipeline);
}

/* A dispatch without a known pipeline, such as one of a shader object, has a general name. */
static vl_command *begin_dispatch(vl_buffer *buffer)
{
    const vl_pipeline *pipeline = buffer ? buffer->pipeline : NULL;
    vl_command *command =
        vl_command_begin(buffer, KERNEL, pipeline ? pipeline->name : "compute shader");

    if (command && pipeline && pipeline->has_block) {
        command->has_block = true;
        for (uint32_t i = 0; i < 3; i++)
            command->block[i] = pipeline->block[i];
    }
    return command;
}

/* In work groups, as CUDA counts a grid in blocks. */
static void set_grid(vl_command *command, uint32_t x, uint32_t y, uint32_t z)
{
    if (!command)
        return;
    command->has_grid = true;
    command->grid[0] = x;
    command->grid[1] = y;
    command->grid[2] = z;
}

VKAPI_ATTR void VKAPI_CALL vl_CmdDispatch(VkCommandBuffer handle, uint32_t x, uint32_t y,
                                          uint32_t z)
{
    VL_FIND;
    vl_command *command = begin_dispatch(buffer);

    device->CmdDispatch(handle, x, y, z);
    set_grid(command, x, y, z);
    vl_command_end(buffer, command);
}

#define VL_DISPATCH_BASE(name)                                                                     \
    VKAPI_ATTR void VKAPI_CALL vl_##name(VkCommandBuffer handle, uint32_t base_x, uint32_t base_y, \
                                         uint32_t base_z, uint32_t x, uint32_t y, uint32_t z)      \
    {                                                                                              \
        VL_FIND;                                                                                   \
        vl_command *command = begin_dispatch(buffer);                                              \
        device->name(handle, base_x, base_y, base_z, x, y, z);                                     \
        set_grid(command, x, y, z);                                                                \
        vl_command_end(buffer, command);                                                           \
    }
VL_DISPATCH_BASE(CmdDispatchBase)
VL_DISPATCH_BASE(CmdDispatchBaseKHR)

/* The device reads the sizes, so that the activity has none. */
VKAPI_ATTR void VKAPI_CALL vl_CmdDispatchIndirect(VkCommandBuffer handle, VkBuffer sizes,
                                                  VkDeviceSize offset)
{
    VL_FIND;
    const vl_command *command = begin_dispatch(buffer);

    device->CmdDispatchIndirect(handle, sizes, offset);
    vl_command_end(buffer, command);
}

/* ---- copies and fills ------------------------------------------------------------------------ */

/* Of images the bytes are not known without their formats. */
static uint64_t sum_copies(uint32_t count, const VkBufferCopy *regions)
{
    uint64_t bytes = 0;

    for (uint32_t i = 0; i < count; i++)
        bytes += regions[i].size;
    return bytes;
}

static uint64_t sum_copies2(const VkCopyBufferInfo2 *info)
{
    uint64_t bytes = 0;

    for (uint32_t i = 0; i < info->regionCount; i++)
        bytes += info->pRegions[i].size;
    return bytes;
}

/* A command of this type with this name, whose bytes are known, or 0. */
#define VL_COMMAND(function, type, label, parameters, arguments, count)                            \
    VKAPI_ATTR void VKAPI_CALL vl_##function parameters                                            \
    {                                                                                              \
        VL_FIND;                                                                                   \
        vl_command *command = vl_command_begin(buffer, type, label " (vk" #function ")");          \
        device->function arguments;                                                                \
        if (command)                                                                               \
            command->bytes = (count);                                                              \
        vl_command_end(buffer, command);                                                           \
    }
#define VL_COPY2(function, Info, count)                                                            \
    VL_COMMAND(function, COPY, "Memcpy DtoD", (VkCommandBuffer handle, const Info *info),          \
               (handle, info), count)

VL_COMMAND(CmdCopyBuffer, COPY, "Memcpy DtoD",
           (VkCommandBuffer handle, VkBuffer from, VkBuffer to, uint32_t n,
            const VkBufferCopy *regions),
           (handle, from, to, n, regions), sum_copies(n, regions))
VL_COPY2(CmdCopyBuffer2, VkCopyBufferInfo2, sum_copies2(info))
VL_COPY2(CmdCopyBuffer2KHR, VkCopyBufferInfo2, sum_copies2(info))
VL_COMMAND(CmdCopyImage, COPY, "Memcpy DtoD",
           (VkCommandBuffer handle, VkImage from, VkImageLayout from_layout, VkImage to,
            VkImageLayout to_layout, uint32_t n, const VkImageCopy *regions),
           (handle, from, from_layout, to, to_layout, n, regions), 0)
VL_COPY2(CmdCopyImage2, VkCopyImageInfo2, 0)
VL_COPY2(CmdCopyImage2KHR, VkCopyImageInfo2, 0)
VL_COMMAND(CmdCopyBufferToImage, COPY, "Memcpy DtoD",
           (VkCommandBuffer handle, VkBuffer from, VkImage to, VkImageLayout layout, uint32_t n,
            const VkBufferImageCopy *regions),
           (handle, from, to, layout, n, regions), 0)
VL_COPY2(CmdCopyBufferToImage2, VkCopyBufferToImageInfo2, 0)
VL_COPY2(CmdCopyBufferToImage2KHR, VkCopyBufferToImageInfo2, 0)
VL_COMMAND(CmdCopyImageToBuffer, COPY, "Memcpy DtoD",
           (VkCommandBuffer handle, VkImage from, VkImageLayout layout, VkBuffer to, uint32_t n,
            const VkBufferImageCopy *regions),
           (handle, from, layout, to, n, regions), 0)
VL_COPY2(CmdCopyImageToBuffer2, VkCopyImageToBufferInfo2, 0)
VL_COPY2(CmdCopyImageToBuffer2KHR, VkCopyImageToBufferInfo2, 0)
VL_COMMAND(CmdUpdateBuffer, COPY, "Memcpy HtoD",
           (VkCommandBuffer handle, VkBuffer to, VkDeviceSize offset, VkDeviceSize size,
            const void *data),
           (handle, to, offset, size, data), size)
VL_COMMAND(CmdFillBuffer, FILL, "Memset",
           (VkCommandBuffer handle, VkBuffer to, VkDeviceSize offset, VkDeviceSize size,
            uint32_t data),
           (handle, to, offset, size, data), size == VK_WHOLE_SIZE ? 0 : size)
VL_COMMAND(CmdClearColorImage, FILL, "Memset",
           (VkCommandBuffer handle, VkImage image, VkImageLayout layout,
            const VkClearColorValue *color, uint32_t n, const VkImageSubresourceRange *ranges),
           (handle, image, layout, color, n, ranges), 0)
