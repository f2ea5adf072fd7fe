/* Query pools, and the memory that their results are copied to by the device. Reading that memory
 * calls no function of the driver: vkGetQueryPoolResults may wait for other work (Mesa's llvmpipe
 * waits until the device is idle, which may be never if the program itself has to signal something).
 *
 * Both are made in blocks, which chunks are cut from: query N of a block's pool has its result in word N of the
 * block's memory. A chunk belongs to one command buffer from the first command that needs it until the
 * command buffer is changed or freed; then it goes to a list of free chunks of its size. Blocks live as
 * long as their device.
 *
 * Memory is coherent, so that no range has to be invalidated before it is read: the command buffer's last
 * barrier makes the copy visible to the host, and the fence orders it before the reading. */
#include "vulkan.h"

#include <stdlib.h>

#define BLOCK_QUERIES  8192u
#define SMALL_COMMANDS 8u
#define LARGE_COMMANDS 128u
#define RESULT_BYTES   8u

typedef struct vl_block {
    struct vl_block *next;
    VkQueryPool pool;
    VkBuffer buffer;
    VkDeviceMemory memory;
    uint64_t *mapped;
    uint32_t used; /* queries */
} vl_block;

/* The memory type that the host reads best: coherent, and cached if there is one. */
static bool choose_memory_type(const vl_device *device, uint32_t allowed, uint32_t *type)
{
    const VkMemoryPropertyFlags need =
        VK_MEMORY_PROPERTY_HOST_VISIBLE_BIT | VK_MEMORY_PROPERTY_HOST_COHERENT_BIT;
    bool found = false;

    for (uint32_t i = device->memory.memoryTypeCount; i-- > 0;) {
        VkMemoryPropertyFlags flags = device->memory.memoryTypes[i].propertyFlags;
        bool cached = flags & VK_MEMORY_PROPERTY_HOST_CACHED_BIT;
        if (!(allowed >> i & 1) || (flags & need) != need || (found && !cached))
            continue;
        *type = i;
        found = true;
        if (cached)
            return true;
    }
    return found;
}

/* Also of a block that is only half made. */
static void destroy_block(vl_device *device, vl_block *block)
{
    if (block->pool)
        device->DestroyQueryPool(device->handle, block->pool, NULL);
    if (block->buffer)
        device->DestroyBuffer(device->handle, block->buffer, NULL);
    if (block->memory)
        device->FreeMemory(device->handle, block->memory, NULL);
    free(block);
}

/* Memory for the results, mapped. */
static bool bind_block_memory(vl_device *device, vl_block *block)
{
    VkMemoryRequirements needs;
    VkMemoryAllocateInfo allocate = {.sType = VK_STRUCTURE_TYPE_MEMORY_ALLOCATE_INFO};
    void *mapped = NULL;

    device->GetBufferMemoryRequirements(device->handle, block->buffer, &needs);
    allocate.allocationSize = needs.size;
    if (!choose_memory_type(device, needs.memoryTypeBits, &allocate.memoryTypeIndex) ||
        device->AllocateMemory(device->handle, &allocate, NULL, &block->memory) != VK_SUCCESS ||
        device->BindBufferMemory(device->handle, block->buffer, block->memory, 0) != VK_SUCCESS ||
        device->MapMemory(device->handle, block->memory, 0, VK_WHOLE_SIZE, 0, &mapped) !=
            VK_SUCCESS)
        return false;
    block->mapped = mapped;
    return true;
}

/* NULL: the driver refuses a part of it. */
static vl_block *create_block(vl_device *device)
{
    vl_block *block = calloc(1, sizeof *block);
    VkQueryPoolCreateInfo pool = {.sType = VK_STRUCTURE_TYPE_QUERY_POOL_CREATE_INFO,
                                  .queryType = VK_QUERY_TYPE_TIMESTAMP,
                                  .queryCount = BLOCK_QUERIES};
    VkBufferCreateInfo buffer = {.sType = VK_STRUCTURE_TYPE_BUFFER_CREATE_INFO,
                                 .size = BLOCK_QUERIES * RESULT_BYTES,
                                 .usage = VK_BUFFER_USAGE_TRANSFER_DST_BIT};

    if (!block)
        return NULL;
    if (device->CreateQueryPool(device->handle, &pool, NULL, &block->pool) != VK_SUCCESS ||
        device->CreateBuffer(device->handle, &buffer, NULL, &block->buffer) != VK_SUCCESS ||
        !bind_block_memory(device, block)) {
        destroy_block(device, block);
        return NULL;
    }
    return block;
}

/* A new chunk from a block with space. The device's lock is held. */
static vl_chunk *cut_chunk(vl_device *device, uint32_t capacity)
{
    vl_block *block = device->blocks;
    vl_chunk *chunk;

    if (!block || block->used + 2 * capacity > BLOCK_QUERIES) {
        block = device->no_results ? NULL : create_block(device);
        device->no_results |= block == NULL;
        if (!block)
            return NULL;
        block->next = device->blocks;
        device->blocks = block;
    }
    chunk = calloc(1, sizeof *chunk + capacity * sizeof *chunk->commands);
    if (!chunk)
        return NULL;
    chunk->pool = block->pool;
    chunk->buffer = block->buffer;
    chunk->first_query = block->used;
    chunk->offset = (VkDeviceSize)block->used * RESULT_BYTES;
    chunk->results = block->mapped + block->used;
    chunk->capacity = capacity;
    block->used += 2 * capacity;
    return chunk;
}

/* A command buffer's first chunk is small, the others are large. */
vl_chunk *vl_chunk_take(vl_device *device, bool large)
{
    pthread_mutex_lock(&device->lock);
    vl_chunk *chunk = device->free_chunks[large];
    if (chunk)
        device->free_chunks[large] = chunk->next;
    else
        chunk = cut_chunk(device, large ? LARGE_COMMANDS : SMALL_COMMANDS);
    pthread_mutex_unlock(&device->lock);
    if (chunk) {
        chunk->next = NULL;
        chunk->used = 0;
        chunk->is_copy = false;
    }
    return chunk;
}

void vl_chunks_return(vl_device *device, vl_chunk *list)
{
    if (!list)
        return;
    pthread_mutex_lock(&device->lock);
    while (list) {
        vl_chunk *chunk = list;
        bool large = chunk->capacity == LARGE_COMMANDS;
        list = chunk->next;
        chunk->next = device->free_chunks[large];
        device->free_chunks[large] = chunk;
    }
    pthread_mutex_unlock(&device->lock);
}

void vl_results_destroy(vl_device *device)
{
    for (int large = 0; large < 2; large++) {
        while (device->free_chunks[large]) {
            vl_chunk *chunk = device->free_chunks[large];
            device->free_chunks[large] = chunk->next;
            free(chunk);
        }
    }
    while (device->blocks) {
        vl_block *block = device->blocks;
        device->blocks = block->next;
        destroy_block(device, block);
    }
}
