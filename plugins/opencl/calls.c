/* The wrapped OpenCL calls, generated from calls.def. While no session is active a wrapper is one
 * test and a jump. */
#include "opencl.h"

#include <string.h>

/* The global size of a task, for calls.def. */
static const size_t one[1] = {1};

/* ---- descriptions of commands ---------------------------------------------------------------- */

static void name_work(co_work *work, const char *name, uint64_t bytes)
{
    work->name = name;
    work->name_size = (uint32_t)strlen(name);
    work->bytes = bytes;
}

static uint64_t region_volume(const size_t *region)
{
    return region ? (uint64_t)region[0] * region[1] * region[2] : 0;
}

/* Bytes of a region of an image; 0: the driver does not report the element size. */
static uint64_t count_image_bytes(cl_mem image, const size_t *region)
{
    size_t element = 0;

    if (!co_next.clGetImageInfo ||
        co_next.clGetImageInfo(image, CL_IMAGE_ELEMENT_SIZE, sizeof element, &element, NULL) !=
            CL_SUCCESS)
        return 0;
    return region_volume(region) * element;
}

static uint64_t sum_sizes(cl_uint n, const size_t *sizes)
{
    uint64_t total = 0;

    for (cl_uint i = 0; sizes && i < n; i++)
        total += sizes[i];
    return total;
}

/* Name and sizes of a kernel launch. */
static void describe_kernel(co_work *work, cl_kernel kernel, cl_uint dims, const size_t *offset,
                            const size_t *global, const size_t *local)
{
    const co_name *name = co_kernel_name(kernel);

    work->name = name->text;
    work->name_size = name->size;
    if (!global || dims > 3)
        return;
    /* Always three dimensions, as readers of Kineto traces expect. */
    work->dims = 3;
    work->has_local = local != NULL;
    for (uint32_t i = 0; i < 3; i++) {
        work->global[i] = i < dims ? (int64_t)global[i] : 1;
        work->local[i] = i < dims && local ? (int64_t)local[i] : 1;
        work->offset[i] = i < dims && offset ? (int64_t)offset[i] : 0;
        work->has_offset |= work->offset[i] != 0;
    }
}

/* ---- the wrappers ---------------------------------------------------------------------------- */

#define CO_CALL(result, name, parameters, arguments)                                               \
    static result CL_API_CALL co_##name parameters                                                 \
    {                                                                                              \
        KINETO_SITE(site, KINETO_KIND_RUNTIME, #name);                                             \
        kineto_range range = kineto_range_begin(&site);                                            \
        result answer = co_next.name arguments;                                                    \
        kineto_range_end(range);                                                                   \
        return answer;                                                                             \
    }
#define CO_CALL_VOID(name, parameters, arguments)                                                  \
    static void CL_API_CALL co_##name parameters                                                   \
    {                                                                                              \
        KINETO_SITE(site, KINETO_KIND_RUNTIME, #name);                                             \
        kineto_range range = kineto_range_begin(&site);                                            \
        co_next.name arguments;                                                                    \
        kineto_range_end(range);                                                                   \
    }
#define CO_LAUNCH(name, type)                                                                      \
    KINETO_SITE(site, KINETO_KIND_RUNTIME, #name);                                                 \
    co_launch launch;                                                                              \
    co_launch_begin(&launch, &site, queue, KINETO_PLUGIN_PROFILE_EVENT_TYPE_##type, &event);
#define CO_LAUNCHED(describe)                                                                      \
    co_work *work = co_launch_end(&launch, status, event);                                         \
    if (work) {                                                                                    \
        describe;                                                                                  \
        co_launch_submit(&launch);                                                                 \
    }
#define CO_ENQUEUE(name, parameters, arguments, type, describe)                                    \
    static cl_int CL_API_CALL co_##name parameters                                                 \
    {                                                                                              \
        if (!co_watching())                                                                        \
            return co_next.name arguments;                                                         \
        CO_LAUNCH(name, type)                                                                      \
        cl_int status = co_next.name arguments;                                                    \
        CO_LAUNCHED(describe)                                                                      \
        return status;                                                                             \
    }
#define CO_ENQUEUE_MAP(name, parameters, arguments, type, describe)                                \
    static void *CL_API_CALL co_##name parameters                                                  \
    {                                                                                              \
        if (!co_watching())                                                                        \
            return co_next.name arguments;                                                         \
        CO_LAUNCH(name, type)                                                                      \
        cl_int status = CL_SUCCESS, *asked = error;                                                \
        error = &status;                                                                           \
        void *mapped = co_next.name arguments;                                                     \
        CO_LAUNCHED(describe)                                                                      \
        if (asked)                                                                                 \
            *asked = status;                                                                       \
        return mapped;                                                                             \
    }
#include "calls.def"
#undef CO_CALL
#undef CO_CALL_VOID
#undef CO_ENQUEUE
#undef CO_ENQUEUE_MAP

void co_calls_install(cl_icd_dispatch *table)
{
#define INSTALL(name)                                                                              \
    if (table->name)                                                                               \
        table->name = co_##name;
#define CO_CALL(result, name, parameters, arguments)                INSTALL(name)
#define CO_CALL_VOID(name, parameters, arguments)                   INSTALL(name)
#define CO_ENQUEUE(name, parameters, arguments, type, describe)     INSTALL(name)
#define CO_ENQUEUE_MAP(name, parameters, arguments, type, describe) INSTALL(name)
#include "calls.def"
}
