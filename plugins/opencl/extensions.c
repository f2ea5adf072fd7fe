/* Functions of extensions. A program gets their addresses by name, from
 * clGetExtensionFunctionAddress(ForPlatform), which is in the layer's table: for the functions of
 * extensions.def the answer is a wrapper of this file. While no session is active a wrapper is one
 * test and a jump, as those of calls.c are.
 *
 * Drivers have functions of their own under the same name, so each function has a few wrappers, and
 * each wrapper belongs to one driver's function for good. The functions of one extension are all
 * from the same driver if their slots have the same number; helpers such as clGetMemAllocInfoINTEL
 * are looked up in the driver when a slot is assigned. */
#include "opencl.h"

#include <string.h>

#define DRIVERS 4u

/* Of cl_intel_unified_shared_memory. */
#define MEM_ALLOC_TYPE 0x419a
enum { MEM_TYPE_UNKNOWN = 0x4196, MEM_TYPE_HOST, MEM_TYPE_DEVICE, MEM_TYPE_SHARED };

typedef void any_function(void);
typedef cl_int CL_API_CALL get_memory_info(cl_context context, const void *memory, cl_uint what,
                                           size_t room, void *out, size_t *size);

static pthread_mutex_t extensions_lock = PTHREAD_MUTEX_INITIALIZER;

/* By slot of clEnqueueMemcpyINTEL; written before its wrapper is given to the program. */
static get_memory_info *memory_info[DRIVERS];

/* ---- descriptions of commands ---------------------------------------------------------------- */

static void describe_memory(co_work *work, const char *name, size_t size)
{
    work->name = name;
    work->name_size = (uint32_t)strlen(name);
    work->bytes = size;
}

/* Where memory is: MEM_TYPE_…; UNKNOWN is memory of the host that the driver does not manage. */
static cl_uint get_memory_type(get_memory_info *get, cl_context context, const void *memory)
{
    cl_uint type = MEM_TYPE_UNKNOWN;

    if (get(context, memory, MEM_ALLOC_TYPE, sizeof type, &type, NULL) != CL_SUCCESS)
        return MEM_TYPE_UNKNOWN;
    return type;
}

/* A copy is named by its direction, unless one end is shared memory, which may be anywhere. */
static const char *name_copy(uint32_t slot, cl_command_queue queue, const void *to,
                             const void *from)
{
    static const char *const names[2][2] = {
        {"Memcpy HtoH (clEnqueueMemcpyINTEL)", "Memcpy HtoD (clEnqueueMemcpyINTEL)"},
        {"Memcpy DtoH (clEnqueueMemcpyINTEL)", "Memcpy DtoD (clEnqueueMemcpyINTEL)"}};
    cl_context context = NULL;

    if (!memory_info[slot] || co_next.clGetCommandQueueInfo(queue, CL_QUEUE_CONTEXT, sizeof context,
                                                            &context, NULL) != CL_SUCCESS)
        return "Memcpy (clEnqueueMemcpyINTEL)";
    cl_uint source = get_memory_type(memory_info[slot], context, from);
    cl_uint target = get_memory_type(memory_info[slot], context, to);
    if (source == MEM_TYPE_SHARED || target == MEM_TYPE_SHARED)
        return "Memcpy (clEnqueueMemcpyINTEL)";
    return names[source == MEM_TYPE_DEVICE][target == MEM_TYPE_DEVICE];
}

static void describe_copy(co_work *work, uint32_t slot, cl_command_queue queue, const void *to,
                          const void *from, size_t size)
{
    describe_memory(work, name_copy(slot, queue, to, from), size);
}

static void describe_command_buffer(co_work *work, void *buffer)
{
    describe_memory(work, "Command buffer (clEnqueueCommandBufferKHR)", 0);
    work->kernels = co_command_buffer_kernels(buffer);
}

/* ---- the wrappers ---------------------------------------------------------------------------- */

#define LIST(...)        __VA_ARGS__
#define NEXT(name, slot) ((driver_##name *)next_##name[slot])

/* The driver's functions, and a function with the work of all wrappers. */
#define CO_EXTENSION(result, name, parameters, arguments)                                          \
    typedef result CL_API_CALL driver_##name parameters;                                           \
    static any_function *next_##name[DRIVERS];                                                     \
    static inline result call_##name(uint32_t slot, LIST parameters)                               \
    {                                                                                              \
        KINETO_SITE(site, KINETO_KIND_RUNTIME, #name);                                             \
        kineto_range range = kineto_range_begin(&site);                                            \
        result answer = NEXT(name, slot) arguments;                                                \
        kineto_range_end(range);                                                                   \
        return answer;                                                                             \
    }
#define CO_EXTENSION_FOLLOWED(result, name, parameters, arguments, follow)                         \
    typedef result CL_API_CALL driver_##name parameters;                                           \
    static any_function *next_##name[DRIVERS];                                                     \
    static inline result call_##name(uint32_t slot, LIST parameters)                               \
    {                                                                                              \
        KINETO_SITE(site, KINETO_KIND_RUNTIME, #name);                                             \
        kineto_range range = kineto_range_begin(&site);                                            \
        result answer = NEXT(name, slot) arguments;                                                \
        kineto_range_end(range);                                                                   \
        follow;                                                                                    \
        return answer;                                                                             \
    }
#define CO_EXTENSION_ENQUEUE(name, parameters, arguments, in_queue, type, describe)                \
    typedef cl_int CL_API_CALL driver_##name parameters;                                           \
    static any_function *next_##name[DRIVERS];                                                     \
    static inline cl_int call_##name(uint32_t slot, LIST parameters)                               \
    {                                                                                              \
        if (!co_watching())                                                                        \
            return NEXT(name, slot) arguments;                                                     \
        KINETO_SITE(site, KINETO_KIND_RUNTIME, #name);                                             \
        co_launch launch;                                                                          \
        co_launch_begin(&launch, &site, in_queue, KINETO_PLUGIN_PROFILE_EVENT_TYPE_##type,         \
                        &event);                                                                   \
        cl_int status = NEXT(name, slot) arguments;                                                \
        co_work *work = co_launch_end(&launch, status, event);                                     \
        if (work) {                                                                                \
            describe;                                                                              \
            co_launch_submit(&launch);                                                             \
        }                                                                                          \
        return status;                                                                             \
    }
#include "extensions.def"
#undef CO_EXTENSION
#undef CO_EXTENSION_FOLLOWED
#undef CO_EXTENSION_ENQUEUE

/* One wrapper for each driver. */
#define WRAPPER(slot, result, name, parameters, arguments)                                         \
    static result CL_API_CALL co_##name##_##slot parameters                                        \
    {                                                                                              \
        return call_##name(slot, LIST arguments);                                                  \
    }
#define CO_EXTENSION(result, name, parameters, arguments)                                          \
    WRAPPER(0, result, name, parameters, arguments)                                                \
    WRAPPER(1, result, name, parameters, arguments)                                                \
    WRAPPER(2, result, name, parameters, arguments)                                                \
    WRAPPER(3, result, name, parameters, arguments)
#define CO_EXTENSION_FOLLOWED(result, name, parameters, arguments, follow)                         \
    CO_EXTENSION(result, name, parameters, arguments)
#define CO_EXTENSION_ENQUEUE(name, parameters, arguments, in_queue, type, describe)                \
    CO_EXTENSION(cl_int, name, parameters, arguments)
#include "extensions.def"
#undef CO_EXTENSION
#undef CO_EXTENSION_FOLLOWED
#undef CO_EXTENSION_ENQUEUE

/* ---- answering the program ------------------------------------------------------------------- */

typedef struct extension {
    const char *name;
    any_function **next; /* DRIVERS of them; NULL: the slot is free */
    any_function *wrappers[DRIVERS];
} extension;

#define WRAPPED(name, slot) (any_function *)co_##name##_##slot
#define CO_EXTENSION(result, name, parameters, arguments)                                          \
    {#name,                                                                                        \
     next_##name,                                                                                  \
     {WRAPPED(name, 0), WRAPPED(name, 1), WRAPPED(name, 2), WRAPPED(name, 3)}},
#define CO_EXTENSION_FOLLOWED(result, name, parameters, arguments, follow)                         \
    CO_EXTENSION(result, name, parameters, arguments)
#define CO_EXTENSION_ENQUEUE(name, parameters, arguments, in_queue, type, describe)                \
    CO_EXTENSION(cl_int, name, parameters, arguments)
static const extension extensions[] = {
#include "extensions.def"
};
#undef CO_EXTENSION
#undef CO_EXTENSION_FOLLOWED
#undef CO_EXTENSION_ENQUEUE

/* NULL: not wrapped. */
static const extension *find_extension(const char *name)
{
    for (size_t i = 0; i < CO_COUNT(extensions); i++)
        if (strcmp(extensions[i].name, name) == 0)
            return &extensions[i];
    return NULL;
}

/* The driver's address of a function; without a platform, as the deprecated call looks it up. */
static void *look_up(cl_platform_id platform, const char *name)
{
    if (platform && co_next.clGetExtensionFunctionAddressForPlatform)
        return co_next.clGetExtensionFunctionAddressForPlatform(platform, name);
    return co_next.clGetExtensionFunctionAddress ? co_next.clGetExtensionFunctionAddress(name)
                                                 : NULL;
}

/* The wrapper of a driver's function; the lock is held. NULL: all belong to other drivers. */
static any_function *assign_wrapper(const extension *e, any_function *theirs,
                                    get_memory_info *helper)
{
    for (uint32_t slot = 0; slot < DRIVERS; slot++) {
        if (e->next[slot] && e->next[slot] != theirs)
            continue;
        if (!e->next[slot] && e->next == next_clEnqueueMemcpyINTEL)
            memory_info[slot] = helper;
        e->next[slot] = theirs;
        return e->wrappers[slot];
    }
    return NULL;
}

/* What the program gets for the driver's address of a function. A function of one driver too many
 * is not recorded. */
static void *answer_with_wrapper(cl_platform_id platform, const char *name, void *address)
{
    const extension *e = address && name ? find_extension(name) : NULL;
    if (!e)
        return address;
    any_function *theirs, *ours;
    get_memory_info *helper = NULL;
    void *found = look_up(platform, "clGetMemAllocInfoINTEL"), *result;
    memcpy(&theirs, &address, sizeof theirs);
    memcpy(&helper, &found, sizeof helper);
    pthread_mutex_lock(&extensions_lock);
    ours = assign_wrapper(e, theirs, helper);
    pthread_mutex_unlock(&extensions_lock);
    memcpy(&result, &ours, sizeof result);
    return result ? result : address;
}

static void *CL_API_CALL get_address(const char *name)
{
    return answer_with_wrapper(NULL, name, co_next.clGetExtensionFunctionAddress(name));
}

static void *CL_API_CALL get_address_for_platform(cl_platform_id platform, const char *name)
{
    return answer_with_wrapper(platform, name,
                               co_next.clGetExtensionFunctionAddressForPlatform(platform, name));
}

void co_extensions_after_fork(void)
{
    pthread_mutex_init(&extensions_lock, NULL);
    co_command_buffers_after_fork();
}

void co_extensions_install(cl_icd_dispatch *table)
{
    if (table->clGetExtensionFunctionAddress)
        table->clGetExtensionFunctionAddress = get_address;
    if (table->clGetExtensionFunctionAddressForPlatform)
        table->clGetExtensionFunctionAddressForPlatform = get_address_for_platform;
}
