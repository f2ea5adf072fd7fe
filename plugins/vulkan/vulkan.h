/* The Vulkan source: a layer that the Vulkan loader inserts below a program's calls, and a profiler
 * plug-in that delivers the devices' activities.
 *
 *   layer.c        entry points, instances, the functions that the layer replaces
 *   devices.c      logical devices, their functions, queues and command pools
 *   gpus.c         physical devices: numbers, properties, rows of the trace
 *   record.c       command buffers and the timestamps that are recorded into them
 *   commands.c     the wrapped vkCmd… functions
 *   results.c      query pools, and the memory that their results are copied to
 *   submit.c       submissions, from vkQueueSubmit until their results have been read
 *   waits.c        the wrapped calls after which submissions may have ended
 *   links.c        semaphores between queues
 *   shaders.c      names and sizes of work groups, from SPIR-V
 *   pipelines.c    shader modules, pipelines, and names that the program gives
 *   clocks.c       the clock of a device's timestamps
 *   deliver.c      turning results into activities
 *   map.c          tables keyed by handles, texts that stay
 *   profiler.c     the plug-in interface, the recording session, counts of losses
 */
#ifndef VL_VULKAN_H
#define VL_VULKAN_H

#define VK_NO_PROTOTYPES
#include <vulkan/vulkan.h>
/* After it: */
#include <vulkan/vk_layer.h>

#include <ckineto/plugin.h>
#include <ckineto/record.h>

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#define VL_COUNT(array) (sizeof(array) / sizeof((array)[0]))

/* ---- map.c ----------------------------------------------------------------------------------- */

/* A table keyed by handles, with a lock of its own. Zero-initialised but for the lock. */
typedef struct vl_map {
    pthread_mutex_t lock;
    struct vl_map_slot *slots;
    uint32_t capacity, used; /* used: also removed ones */
} vl_map;

/** A handle of any type as a key. Non-dispatchable handles are pointers on 64-bit platforms. */
#define VL_KEY(handle) ((uint64_t)(uintptr_t)(handle))

void vl_map_init(vl_map *map);
/** @return the value that the key had before, NULL: none. False in *ok: out of memory. */
void *vl_map_put(vl_map *map, uint64_t key, void *value, bool *ok);
void *vl_map_get(vl_map *map, uint64_t key);
/** @return the removed value, NULL: none. */
void *vl_map_remove(vl_map *map, uint64_t key);
/** Calls `visit` for all values and empties the table. */
void vl_map_clear(vl_map *map, void (*visit)(void *value));
/** A copy of a text that stays valid forever; equal texts have one copy. "" if out of memory. */
const char *vl_intern_text(const char *text, size_t size);

/* ---- shaders.c ------------------------------------------------------------------------------- */

#define VL_MAX_ENTRIES 16u

/* A word of a work group's size: a number, or a specialisation constant with a default. */
typedef struct vl_size_word {
    uint32_t value, spec_id;
    bool is_spec;
} vl_size_word;

/* An entry point of a shader module. */
typedef struct vl_entry {
    const char *name; /* interned */
    bool has_size;
    vl_size_word size[3];
} vl_entry;

/* What is known about a shader module. */
typedef struct vl_shader {
    uint32_t entry_count, hash;
    const char *label; /* interned; set by the program; NULL: none */
    vl_entry entries[VL_MAX_ENTRIES];
} vl_shader;

/** Reads entry points and sizes. Malformed code is read as far as it is well-formed. */
void vl_shader_parse(vl_shader *shader, const uint32_t *code, size_t bytes);

/* ---- gpus.c ---------------------------------------------------------------------------------- */

#define VL_MAX_GPUS 64

typedef enum vl_clock_state { VL_CLOCK_UNKNOWN, VL_CLOCK_HOST, VL_CLOCK_DEVICE } vl_clock_state;

/* A physical device; the same one for all instances of the program. */
typedef struct vl_gpu {
    int32_t index;
    VkPhysicalDevice handle; /* the first one */
    uint8_t uuid[VK_UUID_SIZE];
    bool has_uuid;
    VkPhysicalDeviceProperties properties;
    uint64_t memory_bytes;

    pthread_mutex_t lock; /* guards all below */
    uint64_t used_queues; /* a bit for each number that a queue has */
    int32_t next_queue;   /* the next number after those */
    vl_clock_state clock_state;
    int32_t host_clock; /* state HOST: KINETO_PLUGIN_CLOCK_… */
    uint32_t clock_session;
    int32_t clock_number; /* state DEVICE; -1: none */
    int64_t next_sample_ns;
    bool has_last;
    uint64_t last_ticks; /* of the device, without wrapping */
} vl_gpu;

struct vl_instance;

vl_gpu *vl_gpu_of(struct vl_instance *instance, VkPhysicalDevice physical);
void vl_gpu_announce(const KinetoPlugin_TraceBuilder *builder, const vl_gpu *gpu);
void vl_gpus_announce(const KinetoPlugin_TraceBuilder *builder);
void vl_gpus_after_fork(void);

/* ---- layer.c --------------------------------------------------------------------------------- */

#define VL_INSTANCE_FUNCTIONS(X)                                                                   \
    X(DestroyInstance)                                                                             \
    X(EnumerateDeviceExtensionProperties)                                                          \
    X(GetPhysicalDeviceProperties)                                                                 \
    X(GetPhysicalDeviceProperties2)                                                                \
    X(GetPhysicalDeviceProperties2KHR)                                                             \
    X(GetPhysicalDeviceQueueFamilyProperties)                                                      \
    X(GetPhysicalDeviceMemoryProperties)                                                           \
    X(GetPhysicalDeviceCalibrateableTimeDomainsEXT)

/* An instance, and the functions of the layers below. */
typedef struct vl_instance {
    VkInstance handle;
    PFN_vkGetInstanceProcAddr get_proc;
#define VL_X(name) PFN_vk##name name;
    VL_INSTANCE_FUNCTIONS(VL_X)
#undef VL_X
} vl_instance;

/** The instance of a dispatchable handle; NULL: unknown. */
vl_instance *vl_instance_of(void *handle);

/* ---- devices.c ------------------------------------------------------------------------------- */

/* Commands of command buffers that are timed, or tell which work is. */
#define VL_RECORDED_COMMAND_MAP(X)                                                                 \
    X(CmdExecuteCommands)                                                                          \
    X(CmdBindPipeline)                                                                             \
    X(CmdDispatch)                                                                                 \
    X(CmdDispatchBase)                                                                             \
    X(CmdDispatchBaseKHR)                                                                          \
    X(CmdDispatchIndirect)                                                                         \
    X(CmdCopyBuffer)                                                                               \
    X(CmdCopyBuffer2)                                                                              \
    X(CmdCopyBuffer2KHR)                                                                           \
    X(CmdCopyImage)                                                                                \
    X(CmdCopyImage2)                                                                               \
    X(CmdCopyImage2KHR)                                                                            \
    X(CmdCopyBufferToImage)                                                                        \
    X(CmdCopyBufferToImage2)                                                                       \
    X(CmdCopyBufferToImage2KHR)                                                                    \
    X(CmdCopyImageToBuffer)                                                                        \
    X(CmdCopyImageToBuffer2)                                                                       \
    X(CmdCopyImageToBuffer2KHR)                                                                    \
    X(CmdFillBuffer)                                                                               \
    X(CmdUpdateBuffer)                                                                             \
    X(CmdClearColorImage)

/* Functions of the device below this layer. */
#define VL_DEVICE_FUNCTIONS(X)                                                                     \
    X(DestroyDevice)                                                                               \
    X(GetDeviceQueue)                                                                              \
    X(GetDeviceQueue2)                                                                             \
    X(CreateCommandPool)                                                                           \
    X(DestroyCommandPool)                                                                          \
    X(ResetCommandPool)                                                                            \
    X(AllocateCommandBuffers)                                                                      \
    X(FreeCommandBuffers)                                                                          \
    X(BeginCommandBuffer)                                                                          \
    X(EndCommandBuffer)                                                                            \
    X(ResetCommandBuffer)                                                                          \
    X(QueueSubmit)                                                                                 \
    X(QueueSubmit2)                                                                                \
    X(QueueSubmit2KHR)                                                                             \
    X(QueueWaitIdle)                                                                               \
    X(DeviceWaitIdle)                                                                              \
    X(WaitForFences)                                                                               \
    X(GetFenceStatus)                                                                              \
    X(ResetFences)                                                                                 \
    X(CreateFence)                                                                                 \
    X(DestroyFence)                                                                                \
    X(DestroySemaphore)                                                                            \
    X(WaitSemaphores)                                                                              \
    X(WaitSemaphoresKHR)                                                                           \
    X(CreateShaderModule)                                                                          \
    X(DestroyShaderModule)                                                                         \
    X(CreateComputePipelines)                                                                      \
    X(DestroyPipeline)                                                                             \
    X(SetDebugUtilsObjectNameEXT)                                                                  \
    X(AllocateMemory)                                                                              \
    X(FreeMemory)                                                                                  \
    X(MapMemory)                                                                                   \
    X(UnmapMemory)                                                                                 \
    X(CreateBuffer)                                                                                \
    X(DestroyBuffer)                                                                               \
    X(GetBufferMemoryRequirements)                                                                 \
    X(BindBufferMemory)                                                                            \
    X(CreateQueryPool)                                                                             \
    X(DestroyQueryPool)                                                                            \
    X(CmdResetQueryPool)                                                                           \
    X(CmdWriteTimestamp)                                                                           \
    X(CmdCopyQueryPoolResults)                                                                     \
    X(CmdPipelineBarrier)                                                                          \
    VL_RECORDED_COMMAND_MAP(X)                                                                     \
    X(GetCalibratedTimestampsEXT)

#define VL_MAX_FAMILIES 16u
#define VL_MAX_QUEUES   64u
#define VL_MAX_LINKS    256u
#define VL_SET_SLOTS    1024u

/* A queue and its submissions. Entries of the device's table never move. */
typedef struct vl_queue {
    VkQueue handle;
    uint32_t family;
    int32_t number; /* the row in the trace */
    struct vl_submission *first, **last;
} vl_queue;

/* A set of values that activities share: see deliver.c. */
typedef struct vl_set_key {
    int32_t queue;
    uint32_t grid[3], block[3];
    uint16_t has_grid, has_block;
} vl_set_key;

typedef struct vl_set_slot {
    vl_set_key key;
    uint32_t session, set;
} vl_set_slot;

/* A signal of a semaphore on one queue, and the wait for it on another: see links.c. */
typedef struct vl_link {
    VkSemaphore semaphore; /* VK_NULL_HANDLE: free */
    uint64_t value;        /* 0: a binary semaphore */
    uint64_t from_serial, to_serial; /* submissions; 0: not seen yet */
    int32_t from_queue, to_queue;
    uint32_t from_correlation, to_correlation;
    bool has_end, has_start;
    int64_t end_ns, start_ns; /* in the device's clock */
} vl_link;

/* A logical device. */
typedef struct vl_device {
    VkDevice handle;
    vl_instance *instance;
    vl_gpu *gpu;
    uint32_t family_count;
    VkQueueFamilyProperties families[VL_MAX_FAMILIES];
    VkPhysicalDeviceMemoryProperties memory;
    bool is_calibrated;
    VkTimeDomainEXT host_domain; /* is_calibrated */
#define VL_X(name) PFN_vk##name name;
    VL_DEVICE_FUNCTIONS(VL_X)
#undef VL_X
    PFN_vkGetDeviceProcAddr get_proc;

    /* Own locks. */
    vl_map buffers, pools, shaders, pipelines;

    atomic_uint in_flight; /* submissions in the lists */
    pthread_mutex_t lock;  /* guards all below */
    vl_queue queues[VL_MAX_QUEUES];
    uint32_t queue_count;
    uint64_t last_serial;
    struct vl_block *blocks;
    struct vl_chunk *free_chunks[2]; /* by size */
    bool no_results;                 /* query pools or memory were refused */
    VkFence *free_fences;
    uint32_t free_fence_count, free_fence_room;
    vl_link links[VL_MAX_LINKS];
    uint32_t next_link;
    bool has_links;
    vl_set_slot sets[VL_SET_SLOTS];
} vl_device;

/** The device of a device, queue or command buffer; NULL: unknown. */
vl_device *vl_device_of(const void *handle);
/** Calls `visit` for all devices. They are not destroyed meanwhile. */
void vl_devices_visit(void (*visit)(vl_device *, void *), void *context);
/** Timestamp bits of a queue family; 0: no timestamps. */
uint32_t vl_family_bits(const vl_device *device, uint32_t family);
/** The queue of a handle, added if it is new; NULL: the table is full. The caller holds the lock. */
vl_queue *vl_queue_of(vl_device *device, VkQueue handle);
void vl_queues_announce(const KinetoPlugin_TraceBuilder *builder);
void vl_devices_after_fork(void);

/* ---- results.c ------------------------------------------------------------------------------- */

/* A command that was recorded, and all that its activity needs. */
typedef struct vl_command {
    const char *name; /* stays valid */
    uint64_t bytes;   /* 0: unknown */
    uint32_t grid[3], block[3];
    uint8_t type; /* KinetoPlugin_ProfileEventType */
    bool has_grid, has_block;
} vl_command;

/* Two queries per command, and the memory that their results are copied to. */
typedef struct vl_chunk {
    struct vl_chunk *next;
    /* Not own commands, but the copied results of a secondary command buffer that was executed. */
    bool is_copy;
    VkQueryPool pool;
    VkBuffer buffer;
    VkDeviceSize offset;        /* in `buffer` */
    volatile uint64_t *results; /* [2 * capacity], mapped */
    uint32_t first_query, capacity, used;
    vl_command commands[];
} vl_chunk;

/** A chunk for a few commands, or many; NULL: none can be had. */
vl_chunk *vl_chunk_take(vl_device *device, bool large);
/** Return a list of chunks. */
void vl_chunks_return(vl_device *device, vl_chunk *list);
/** Destroy all blocks. */
void vl_results_destroy(vl_device *device);

/* ---- record.c -------------------------------------------------------------------------------- */

/* Commands without timestamps. */
typedef struct vl_untimed {
    uint32_t kernels, copies, fills;
    const char *name; /* of the last one */
} vl_untimed;

/* A command buffer. While it is being recorded one thread at a time uses it, by the rules of
 * Vulkan; afterwards it does not change until its submissions have ended. */
typedef struct vl_buffer {
    VkCommandBuffer handle;
    vl_device *device;
    struct vl_pool *pool;
    struct vl_buffer *pool_next, **pool_link;
    bool is_secondary, is_simultaneous, is_timed;
    const struct vl_pipeline *pipeline;
    vl_chunk *chunks, **last_chunk; /* executed secondaries' chunks among them */
    vl_chunk *open;                 /* the chunk that has space */
    uint32_t timed;
    vl_untimed untimed;
    atomic_uint pending; /* submissions whose results were not read */
} vl_buffer;

/* A command pool. One thread at a time uses it and its command buffers, by the rules of Vulkan. */
typedef struct vl_pool {
    uint32_t family;
    vl_buffer *first;
} vl_pool;

vl_buffer *vl_buffer_of(vl_device *device, VkCommandBuffer handle);
/** Write the timestamp before a command. @return where to describe it; NULL: it has none, and is
 * counted. `buffer` may be NULL. */
vl_command *vl_command_begin(vl_buffer *buffer, int32_t type, const char *name);
/** Write the timestamp after it. */
void vl_command_end(vl_buffer *buffer, const vl_command *command);
void vl_untimed_add(vl_untimed *to, const vl_untimed *from);
/** Free what belongs to the device's command buffers and pools. */
void vl_buffers_destroy(vl_device *device);

/* ---- submit.c -------------------------------------------------------------------------------- */

/* PREPARED → SUBMITTED → freed, if its end is seen after vkQueueSubmit has returned.
 * PREPARED → DONE → freed, if another thread sees it before: then the thread inside vkQueueSubmit, which
 * still holds the pointer, frees it. All transitions happen under the device's lock. A PREPARED submission's
 * fence is not polled, because the driver may be changing it. */
typedef enum vl_submission_state {
    VL_PREPARED, /* vkQueueSubmit has not returned */
    VL_SUBMITTED,
    VL_DONE /* delivered while vkQueueSubmit had not returned */
} vl_submission_state;

/* A command buffer of a submission. It stays valid while its `pending` is not 0: the function that frees or
 * changes it calls vl_collect_buffer first. */
typedef struct vl_item {
    vl_buffer *buffer;
    bool is_overwritten; /* submitted again before this one had ended: its times are lost */
} vl_item;

/* One call of vkQueueSubmit, with those of its command buffers that have work. A submission whose session has
 * ended stays listed until its end is seen, so that its fence is returned, and is not delivered. */
typedef struct vl_submission {
    struct vl_submission *next; /* of the same queue, in the order of submission */
    uint64_t serial;
    uint32_t session, correlation_id;
    vl_submission_state state;
    bool is_own_fence, has_links;
    VkFence fence; /* VK_NULL_HANDLE: none */
    int64_t submit_ns;
    uint64_t submit_ticks;
    uint32_t count;
    vl_item items[];
} vl_submission;

/** Deliver what has ended. Cheap if nothing is in flight. */
void vl_collect(vl_device *device);
/** A command buffer is about to be changed, so its submissions have ended. */
void vl_collect_buffer(vl_buffer *buffer);
/** The number of the last submission. */
uint64_t vl_last_serial(vl_device *device);
/** Submissions of the queue (NULL: of all queues) up to this one have ended. */
void vl_collect_queue(vl_device *device, VkQueue queue, uint64_t serial);
/** A fence is about to be reset or destroyed. */
void vl_release_fence(vl_device *device, VkFence fence);
/** Deliver what has ended; wait up to wait_ms for the rest, then count it as lost. */
void vl_drain(int wait_ms);

/* ---- links.c: the device's lock is held -------------------------------------------------------- */

void vl_link_signal(vl_device *device, const vl_queue *queue, vl_submission *s,
                    VkSemaphore semaphore, uint64_t value);
void vl_link_wait(vl_device *device, const vl_queue *queue, vl_submission *s,
                  VkSemaphore semaphore, uint64_t value);
/** The submission was refused, or its semaphore is about to be destroyed. */
void vl_links_forget(vl_device *device, uint64_t serial, VkSemaphore semaphore);
/** The submission's first and last times are known. */
void vl_links_resolve(const KinetoPlugin_TraceBuilder *builder, vl_device *device,
                      const vl_submission *s, int64_t start_ns, int64_t end_ns, int32_t clock);

/* ---- pipelines.c ----------------------------------------------------------------------------- */

/* What a dispatch takes from the pipeline that is bound. */
typedef struct vl_pipeline {
    const char *name; /* stays valid */
    bool has_block;
    uint32_t block[3];
} vl_pipeline;

const vl_pipeline *vl_pipeline_of(vl_device *device, VkPipeline handle);

/* ---- clocks.c -------------------------------------------------------------------------------- */

int64_t vl_now_ns(int clock_id);
/** Use a host clock for the device, if its timestamps are in one. */
void vl_clock_find(vl_device *device);
/** The number of the device's clock in this session; -1: none. The gpu's lock is held. */
int32_t vl_clock_number(const KinetoPlugin_TraceBuilder *builder, vl_device *device);
/** A timestamp of a queue with that many valid bits, in ns. The gpu's lock is held. */
int64_t vl_clock_ns(vl_gpu *gpu, uint64_t ticks, uint32_t bits);
/** State when the device wrote a timestamp, for a clock that cannot be read. */
void vl_clock_sample(const KinetoPlugin_TraceBuilder *builder, vl_device *device, int64_t device_ns,
                     uint64_t ticks_before, uint32_t bits);

/* ---- deliver.c ------------------------------------------------------------------------------- */

/** Deliver a submission that has ended. The device's lock is held. */
void vl_deliver(const KinetoPlugin_TraceBuilder *builder, vl_device *device, const vl_queue *queue,
                const vl_submission *s);
/** Deliver an activity; the host counts what it refuses. */
void vl_emit(const KinetoPlugin_TraceBuilder *builder, const KinetoPlugin_Activity *activity);

/* ---- profiler.c ------------------------------------------------------------------------------ */

/* Reasons why a command is missing from the trace: X(NAME, text). */
#define VL_LOSS_MAP(X)                                                                             \
    X(NO_TIMES, "no timestamps")                                                                   \
    X(NO_CLOCK, "no clock for the device")                                                         \
    X(NO_MEMORY, "out of memory")                                                                  \
    X(UNFINISHED, "unfinished at the end")

typedef enum vl_loss {
#define VL_X(name, text) VL_LOSS_##name,
    VL_LOSS_MAP(VL_X)
#undef VL_X
        VL_LOSS_COUNT
} vl_loss;

extern atomic_bool vl_active;
/** True while a session takes up commands. */
static inline bool vl_is_active(void)
{
    return atomic_load_explicit(&vl_active, memory_order_relaxed);
}

/** The host's builder, or NULL. If not NULL, call vl_builder_leave soon and do not block before. */
const KinetoPlugin_TraceBuilder *vl_builder_enter(void);
void vl_builder_leave(void);
/** The number of the session that takes up submissions now; 0: none does. */
uint32_t vl_session_taking(void);
/** The session that takes them up or is being drained. */
uint32_t vl_session_current(void);
bool vl_session_wants(int32_t type);
void vl_count_requested(const KinetoPlugin_TraceBuilder *builder, uint64_t count);
void vl_count_lost(const KinetoPlugin_TraceBuilder *builder, vl_loss why, uint64_t count);
/** Commands whose times are those of the host around their submission. */
void vl_count_host_times(uint64_t count);
uint32_t vl_next_correlation(void);

void vl_profiler_begin(void);
void vl_profiler_at_device(void);
bool vl_profiler_has_begun(void);

/* ---- the wrapped functions: X(name without vk) ------------------------------------------------- */

#define VL_WRAPPED_DEVICE_FUNCTIONS(X)                                                             \
    X(DestroyDevice)                                                                               \
    X(GetDeviceQueue)                                                                              \
    X(GetDeviceQueue2)                                                                             \
    X(CreateCommandPool)                                                                           \
    X(DestroyCommandPool)                                                                          \
    X(ResetCommandPool)                                                                            \
    X(AllocateCommandBuffers)                                                                      \
    X(FreeCommandBuffers)                                                                          \
    X(BeginCommandBuffer)                                                                          \
    X(EndCommandBuffer)                                                                            \
    X(ResetCommandBuffer)                                                                          \
    X(QueueSubmit)                                                                                 \
    X(QueueSubmit2)                                                                                \
    X(QueueSubmit2KHR)                                                                             \
    X(QueueWaitIdle)                                                                               \
    X(DeviceWaitIdle)                                                                              \
    X(WaitForFences)                                                                               \
    X(GetFenceStatus)                                                                              \
    X(ResetFences)                                                                                 \
    X(DestroyFence)                                                                                \
    X(DestroySemaphore)                                                                            \
    X(WaitSemaphores)                                                                              \
    X(WaitSemaphoresKHR)                                                                           \
    X(CreateShaderModule)                                                                          \
    X(DestroyShaderModule)                                                                         \
    X(CreateComputePipelines)                                                                      \
    X(DestroyPipeline)                                                                             \
    X(SetDebugUtilsObjectNameEXT)                                                                  \
    X(AllocateMemory)                                                                              \
    X(FreeMemory)                                                                                  \
    X(MapMemory)                                                                                   \
    VL_RECORDED_COMMAND_MAP(X)

/* The function type that a pointer type of Vulkan points to. */
#define VL_TYPE_OF(pointer) __typeof__(*(pointer)0)
#define VL_X(name)          VKAPI_ATTR VL_TYPE_OF(PFN_vk##name) vl_##name;
VL_WRAPPED_DEVICE_FUNCTIONS(VL_X)
#undef VL_X
VKAPI_ATTR VkResult VKAPI_CALL vl_CreateDevice(VkPhysicalDevice physical,
                                               const VkDeviceCreateInfo *info,
                                               const VkAllocationCallbacks *allocator,
                                               VkDevice *device);
#endif
