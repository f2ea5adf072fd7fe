/* Command buffers, and what is recorded into them: a timestamp before and after each command, and at
 * the end a copy of all timestamps to memory that the host reads. Queries are reset by the command
 * buffer itself, where they are first used, so that it may be submitted again and again. The results of a
 * secondary command buffer are copied by each primary one that executes it, after each execution.
 *
 * A lock is only taken for a new chunk: by the rules of Vulkan one thread at a time uses a command pool and
 * what was allocated from it. Which command buffer a handle means is remembered by each thread, since the
 * next command is mostly for the same one.
 *
 * The first timestamp of a command is written at the top of the pipe, so that it does not wait for earlier
 * commands, which the program may let overlap; the last one at the bottom, when the command and all before
 * it have ended. Queries are not reset inside a render pass, because none of the recorded commands is
 * allowed there. */
#include "vulkan.h"

#include <stdlib.h>
#include <string.h>

/* Changes whenever a command buffer is freed: what threads remember is invalid then. */
static atomic_ullong generation;

static _Thread_local struct {
    VkCommandBuffer handle;
    vl_buffer *buffer;
    unsigned long long generation;
} last_used;

vl_buffer *vl_buffer_of(vl_device *device, VkCommandBuffer handle)
{
    unsigned long long now = atomic_load_explicit(&generation, memory_order_acquire);

    if (last_used.handle != handle || last_used.generation != now) {
        last_used.buffer = vl_map_get(&device->buffers, VL_KEY(handle));
        last_used.handle = handle;
        last_used.generation = now;
    }
    return last_used.buffer;
}

/* ---- pools and their command buffers --------------------------------------------------------- */

/* Forgets what was recorded. */
static void clear_buffer(vl_buffer *buffer)
{
    if (atomic_load_explicit(&buffer->pending, memory_order_acquire))
        vl_collect_buffer(buffer);
    vl_chunks_return(buffer->device, buffer->chunks);
    buffer->chunks = buffer->open = NULL;
    buffer->last_chunk = &buffer->chunks;
    buffer->timed = 0;
    buffer->untimed = (vl_untimed){0};
    buffer->pipeline = NULL;
    buffer->is_timed = false;
}

/* Without memory the command buffer works, and is not recorded. */
static void add_buffer(vl_device *device, vl_pool *pool, VkCommandBuffer handle, bool is_secondary)
{
    vl_buffer *buffer = calloc(1, sizeof *buffer);
    bool ok;

    if (!buffer)
        return;
    *buffer = (vl_buffer){.handle = handle,
                          .device = device,
                          .pool = pool,
                          .is_secondary = is_secondary,
                          .pool_next = pool->first,
                          .pool_link = &pool->first};
    buffer->last_chunk = &buffer->chunks;
    (void)vl_map_put(&device->buffers, VL_KEY(handle), buffer, &ok);
    if (!ok) {
        free(buffer);
        return;
    }
    if (pool->first)
        pool->first->pool_link = &buffer->pool_next;
    pool->first = buffer;
    atomic_fetch_add_explicit(&generation, 1, memory_order_release);
}

/* Before the driver frees it: another thread may get the same handle then. */
static void free_buffer(vl_buffer *buffer)
{
    clear_buffer(buffer);
    (void)vl_map_remove(&buffer->device->buffers, VL_KEY(buffer->handle));
    atomic_fetch_add_explicit(&generation, 1, memory_order_release);
    *buffer->pool_link = buffer->pool_next;
    if (buffer->pool_next)
        buffer->pool_next->pool_link = buffer->pool_link;
    free(buffer);
}

VKAPI_ATTR VkResult VKAPI_CALL vl_CreateCommandPool(VkDevice handle,
                                                    const VkCommandPoolCreateInfo *info,
                                                    const VkAllocationCallbacks *allocator,
                                                    VkCommandPool *pool)
{
    vl_device *device = vl_device_of(handle);
    VkResult result = device->CreateCommandPool(handle, info, allocator, pool);
    vl_pool *entry = result == VK_SUCCESS ? calloc(1, sizeof *entry) : NULL;
    bool ok;

    if (!entry)
        return result;
    entry->family = info->queueFamilyIndex;
    (void)vl_map_put(&device->pools, VL_KEY(*pool), entry, &ok);
    if (!ok)
        free(entry);
    return result;
}

/* With its command buffers, as vkDestroyCommandPool does. */
static void free_pool(vl_pool *pool)
{
    while (pool && pool->first)
        free_buffer(pool->first);
    free(pool);
}

VKAPI_ATTR void VKAPI_CALL vl_DestroyCommandPool(VkDevice handle, VkCommandPool pool,
                                                 const VkAllocationCallbacks *allocator)
{
    vl_device *device = vl_device_of(handle);

    free_pool(vl_map_remove(&device->pools, VL_KEY(pool)));
    device->DestroyCommandPool(handle, pool, allocator);
}

VKAPI_ATTR VkResult VKAPI_CALL vl_ResetCommandPool(VkDevice handle, VkCommandPool pool,
                                                   VkCommandPoolResetFlags flags)
{
    vl_device *device = vl_device_of(handle);
    vl_pool *entry = vl_map_get(&device->pools, VL_KEY(pool));

    for (vl_buffer *buffer = entry ? entry->first : NULL; buffer; buffer = buffer->pool_next)
        clear_buffer(buffer);
    return device->ResetCommandPool(handle, pool, flags);
}

VKAPI_ATTR VkResult VKAPI_CALL vl_AllocateCommandBuffers(VkDevice handle,
                                                         const VkCommandBufferAllocateInfo *info,
                                                         VkCommandBuffer *buffers)
{
    vl_device *device = vl_device_of(handle);
    VkResult result = device->AllocateCommandBuffers(handle, info, buffers);
    vl_pool *pool = vl_map_get(&device->pools, VL_KEY(info->commandPool));

    for (uint32_t i = 0; result == VK_SUCCESS && pool && i < info->commandBufferCount; i++)
        add_buffer(device, pool, buffers[i], info->level == VK_COMMAND_BUFFER_LEVEL_SECONDARY);
    return result;
}

VKAPI_ATTR void VKAPI_CALL vl_FreeCommandBuffers(VkDevice handle, VkCommandPool pool,
                                                 uint32_t count, const VkCommandBuffer *buffers)
{
    vl_device *device = vl_device_of(handle);

    for (uint32_t i = 0; i < count; i++) {
        vl_buffer *buffer =
            buffers[i] ? vl_map_get(&device->buffers, VL_KEY(buffers[i])) : NULL;
        if (buffer)
            free_buffer(buffer);
    }
    device->FreeCommandBuffers(handle, pool, count, buffers);
}

static void free_pool_value(void *pool) { free_pool(pool); }

void vl_buffers_destroy(vl_device *device)
{
    vl_map_clear(&device->pools, free_pool_value);
    free(device->buffers.slots);
}

/* ---- recording ------------------------------------------------------------------------------- */

VKAPI_ATTR VkResult VKAPI_CALL vl_BeginCommandBuffer(VkCommandBuffer handle,
                                                     const VkCommandBufferBeginInfo *info)
{
    vl_device *device = vl_device_of(handle);
    vl_buffer *buffer = vl_buffer_of(device, handle);

    if (buffer) {
        clear_buffer(buffer);
        buffer->is_simultaneous = info->flags & VK_COMMAND_BUFFER_USAGE_SIMULTANEOUS_USE_BIT;
        buffer->is_timed = vl_is_active() && vl_family_bits(device, buffer->pool->family) > 0;
    }
    return device->BeginCommandBuffer(handle, info);
}

VKAPI_ATTR VkResult VKAPI_CALL vl_ResetCommandBuffer(VkCommandBuffer handle,
                                                     VkCommandBufferResetFlags flags)
{
    vl_device *device = vl_device_of(handle);
    vl_buffer *buffer = vl_buffer_of(device, handle);

    if (buffer)
        clear_buffer(buffer);
    return device->ResetCommandBuffer(handle, flags);
}

/* The order is that of execution. */
static void append_chunk(vl_buffer *buffer, vl_chunk *chunk)
{
    *buffer->last_chunk = chunk;
    buffer->last_chunk = &chunk->next;
}

/* The chunk with space for a command; NULL: none can be had, and none is tried any more. */
static vl_chunk *open_chunk(vl_buffer *buffer)
{
    vl_chunk *chunk = buffer->open;

    if (chunk && chunk->used < chunk->capacity)
        return chunk;
    chunk = vl_chunk_take(buffer->device, buffer->open != NULL);
    buffer->open = chunk;
    buffer->is_timed = chunk != NULL;
    if (chunk) {
        append_chunk(buffer, chunk);
        buffer->device->CmdResetQueryPool(buffer->handle, chunk->pool, chunk->first_query,
                                          2 * chunk->capacity);
    }
    return chunk;
}

static void count_untimed(vl_untimed *untimed, int32_t type, const char *name)
{
    untimed->name = name;
    if (type == KINETO_PLUGIN_PROFILE_EVENT_TYPE_CONCURRENT_KERNEL)
        untimed->kernels++;
    else if (type == KINETO_PLUGIN_PROFILE_EVENT_TYPE_GPU_MEMCPY)
        untimed->copies++;
    else
        untimed->fills++;
}

void vl_untimed_add(vl_untimed *to, const vl_untimed *from)
{
    to->kernels += from->kernels;
    to->copies += from->copies;
    to->fills += from->fills;
    if (from->name)
        to->name = from->name;
}

vl_command *vl_command_begin(vl_buffer *buffer, int32_t type, const char *name)
{
    vl_chunk *chunk = buffer && buffer->is_timed ? open_chunk(buffer) : NULL;

    if (!chunk) {
        if (buffer)
            count_untimed(&buffer->untimed, type, name);
        return NULL;
    }
    vl_command *command = &chunk->commands[chunk->used];
    command->name = name;
    command->bytes = 0;
    command->type = (uint8_t)type;
    command->has_grid = command->has_block = false;
    buffer->device->CmdWriteTimestamp(buffer->handle, VK_PIPELINE_STAGE_TOP_OF_PIPE_BIT,
                                      chunk->pool, chunk->first_query + 2 * chunk->used);
    return command;
}

void vl_command_end(vl_buffer *buffer, const vl_command *command)
{
    if (!command)
        return;
    vl_chunk *chunk = buffer->open;
    buffer->device->CmdWriteTimestamp(buffer->handle, VK_PIPELINE_STAGE_BOTTOM_OF_PIPE_BIT,
                                      chunk->pool, chunk->first_query + 2 * chunk->used + 1);
    chunk->used++;
    buffer->timed++;
}

/* Records the copy of a chunk's results into the memory of another, or the same one. */
static void copy_results(const vl_buffer *buffer, const vl_chunk *from, const vl_chunk *to)
{
    buffer->device->CmdCopyQueryPoolResults(
        buffer->handle, from->pool, from->first_query, 2 * from->used, to->buffer, to->offset,
        sizeof(uint64_t), VK_QUERY_RESULT_64_BIT | VK_QUERY_RESULT_WAIT_BIT);
}

VKAPI_ATTR VkResult VKAPI_CALL vl_EndCommandBuffer(VkCommandBuffer handle)
{
    const VkMemoryBarrier barrier = {.sType = VK_STRUCTURE_TYPE_MEMORY_BARRIER,
                                     .srcAccessMask = VK_ACCESS_TRANSFER_WRITE_BIT,
                                     .dstAccessMask = VK_ACCESS_HOST_READ_BIT};
    vl_device *device = vl_device_of(handle);
    vl_buffer *buffer = vl_buffer_of(device, handle);

    if (buffer && !buffer->is_secondary && buffer->timed) {
        for (const vl_chunk *chunk = buffer->chunks; chunk; chunk = chunk->next)
            if (chunk->used && !chunk->is_copy)
                copy_results(buffer, chunk, chunk);
        device->CmdPipelineBarrier(handle, VK_PIPELINE_STAGE_TRANSFER_BIT,
                                   VK_PIPELINE_STAGE_HOST_BIT, 0, 1, &barrier, 0, NULL, 0, NULL);
    }
    return device->EndCommandBuffer(handle);
}

/* ---- secondary command buffers --------------------------------------------------------------- */

/* Commands whose times this execution of the secondary cannot get. */
static void count_chunk_untimed(vl_buffer *buffer, const vl_chunk *chunk)
{
    for (uint32_t i = 0; i < chunk->used; i++)
        count_untimed(&buffer->untimed, chunk->commands[i].type, chunk->commands[i].name);
}

/* After an execution of the secondary: its results are copied before it may be executed again. Only
 * one level: what a secondary has executed itself is counted. */
static void adopt_secondary(vl_buffer *primary, const vl_buffer *secondary)
{
    vl_untimed_add(&primary->untimed, &secondary->untimed);
    for (const vl_chunk *from = secondary->chunks; from; from = from->next) {
        if (!from->used)
            continue;
        vl_chunk *to = from->is_copy || primary->is_secondary
                           ? NULL
                           : vl_chunk_take(primary->device, from != secondary->chunks);
        if (!to) {
            count_chunk_untimed(primary, from);
            continue;
        }
        to->is_copy = true;
        to->used = from->used;
        memcpy(to->commands, from->commands, from->used * sizeof *from->commands);
        append_chunk(primary, to);
        primary->timed += from->used;
        copy_results(primary, from, to);
    }
}

static bool has_work(const vl_buffer *buffer)
{
    const vl_untimed *u = &buffer->untimed;

    return buffer->timed || u->kernels || u->copies || u->fills;
}

/* If none has work to record, the program's call is passed on as it is. */
static bool have_work(vl_device *device, uint32_t count, const VkCommandBuffer *secondaries)
{
    for (uint32_t i = 0; i < count; i++) {
        const vl_buffer *secondary = vl_map_get(&device->buffers, VL_KEY(secondaries[i]));
        if (secondary && has_work(secondary))
            return true;
    }
    return false;
}

VKAPI_ATTR void VKAPI_CALL vl_CmdExecuteCommands(VkCommandBuffer handle, uint32_t count,
                                                 const VkCommandBuffer *secondaries)
{
    vl_device *device = vl_device_of(handle);
    vl_buffer *primary = vl_buffer_of(device, handle);

    if (!primary || !have_work(device, count, secondaries)) {
        device->CmdExecuteCommands(handle, count, secondaries);
        return;
    }
    for (uint32_t i = 0; i < count; i++) {
        const vl_buffer *secondary = vl_map_get(&device->buffers, VL_KEY(secondaries[i]));
        device->CmdExecuteCommands(handle, 1, &secondaries[i]);
        if (secondary)
            adopt_secondary(primary, secondary);
    }
}
