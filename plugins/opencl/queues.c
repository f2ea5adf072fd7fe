/* Queues and events. Every queue is created with profiling, so that its commands have timestamps.
 * The program sees the properties that it requested itself, and none of our references to its
 * events. The table is read without a lock and written under queues_lock. */
#include "opencl.h"

#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SLOTS        4096u
#define MAX_PROBES   128u
#define MAX_PAIRS    32u
#define MAX_CONTEXTS 256u
/* From this number on, those of released queues are reused. */
#define FRESH_NUMBERS 64

static co_queue queues[SLOTS];
static cl_context contexts[MAX_CONTEXTS];
static uint32_t context_count;
static pthread_mutex_t queues_lock = PTHREAD_MUTEX_INITIALIZER;

/* ---- table ----------------------------------------------------------------------------------- */

static uint32_t hash_queue_slot(cl_command_queue handle)
{
    return (uint32_t)((uint64_t)(uintptr_t)handle * UINT64_C(0x9e3779b97f4a7c15) >> 40) % SLOTS;
}

/* The slot of a handle; if there is none, with `room` the free slot where it belongs, else NULL. */
static co_queue *find_queue_slot(cl_command_queue handle, bool room)
{
    uint32_t slot = hash_queue_slot(handle);

    for (uint32_t i = 0; i < MAX_PROBES; i++, slot = (slot + 1) % SLOTS) {
        cl_command_queue there = atomic_load_explicit(&queues[slot].handle, memory_order_acquire);
        if (there == handle)
            return &queues[slot];
        if (!there)
            return room ? &queues[slot] : NULL;
    }
    return NULL;
}

/* The slot for a new queue; if all probed ones are taken, that of a released queue. Slots never
 * become free, so that later ones in the probe sequence are still found. */
static co_queue *choose_queue_slot(cl_command_queue handle)
{
    co_queue *q = find_queue_slot(handle, true);
    uint32_t slot = hash_queue_slot(handle);

    for (uint32_t i = 0; !q && i < MAX_PROBES; i++, slot = (slot + 1) % SLOTS)
        if (atomic_load(&queues[slot].references) <= 0)
            q = &queues[slot];
    return q;
}

/* A small number for a context; -1: too many. The caller holds queues_lock. */
static int32_t get_context_number(cl_context context)
{
    for (uint32_t i = 0; i < context_count; i++) {
        if (contexts[i] == context)
            return (int32_t)i;
    }
    if (context_count == MAX_CONTEXTS)
        return -1;
    contexts[context_count] = context;
    return (int32_t)context_count++;
}

/* The number of a queue, which is its row in the trace. Programs that create a queue per task must
 * not create a row per task: the smallest number of a released queue is reused. The caller holds
 * queues_lock. */
static int32_t choose_queue_number(co_device *device, const co_queue *self)
{
    int32_t best = -1;
    co_queue *from = NULL;

    if (device->next_queue < FRESH_NUMBERS)
        return device->next_queue++;
    for (uint32_t i = 0; i < SLOTS; i++) {
        co_queue *q = &queues[i];
        if (atomic_load_explicit(&q->handle, memory_order_relaxed) && q != self &&
            q->device == device && q->number >= 0 && atomic_load(&q->references) <= 0 &&
            (best < 0 || q->number < best)) {
            best = q->number;
            from = q;
        }
    }
    if (!from)
        return device->next_queue++;
    from->number = -1;
    return best;
}

/* The row of a queue in the trace. */
static void announce_queue(const KinetoPlugin_TraceBuilder *builder, const co_queue *q)
{
    char name[64];
    KinetoPlugin_ProfileResourceInfo info = {
        .unpaddedStructSize = KINETO_PLUGIN_SIZE(KinetoPlugin_ProfileResourceInfo, pName),
        .deviceId = q->device->index,
        .resourceId = q->number,
        .displayOrder = q->number,
        .pName = name,
    };

    if (q->number < 0)
        return;
    snprintf(name, sizeof name, "queue %d (%s)", q->number,
             q->out_of_order ? "out-of-order" : "in-order");
    (void)builder->addResourceInfo(builder->pTraceBuilderHandle, &info);
}

void co_queues_announce(const KinetoPlugin_TraceBuilder *builder)
{
    uint32_t devices = co_device_count();

    for (uint32_t i = 0; i < devices; i++)
        co_device_announce(builder, co_device_at(i));
    pthread_mutex_lock(&queues_lock);
    for (uint32_t i = 0; i < SLOTS; i++) {
        if (atomic_load_explicit(&queues[i].handle, memory_order_relaxed))
            announce_queue(builder, &queues[i]);
    }
    pthread_mutex_unlock(&queues_lock);
}

/* A queue to be put into the table: `asked` are the program's properties, `got` those that it was
 * created with. */
typedef struct new_queue {
    cl_command_queue handle;
    cl_context context;
    co_device *device;
    cl_command_queue_properties asked, got;
    const cl_queue_properties *array; /* NULL: none */
    uint32_t array_count;
    int references;
} new_queue;

/* Keeps the program's property list for clGetCommandQueueInfo. */
static void set_property_array(co_queue *q, const new_queue *created)
{
    free(q->array);
    q->array = NULL;
    q->array_count = 0;
    q->has_array = created->array != NULL;
    if (created->array && (q->array = calloc(created->array_count, sizeof *q->array)) != NULL) {
        memcpy(q->array, created->array, created->array_count * sizeof *q->array);
        q->array_count = created->array_count;
    }
}

/* Adds a queue. If its handle is in the table already, the driver has reused it: the old queue was
 * released. The handle is stored last, which publishes the slot. */
static co_queue *put_queue(const new_queue *created)
{
    pthread_mutex_lock(&queues_lock);
    co_queue *q = choose_queue_slot(created->handle);
    if (q) {
        bool again = atomic_load_explicit(&q->handle, memory_order_relaxed) != NULL;
        if (!again || q->device != created->device || q->number < 0)
            q->number = choose_queue_number(created->device, q);
        q->device = created->device;
        q->context = get_context_number(created->context);
        q->timed = (created->got & CL_QUEUE_PROFILING_ENABLE) != 0;
        q->out_of_order = (created->got & CL_QUEUE_OUT_OF_ORDER_EXEC_MODE_ENABLE) != 0;
        atomic_store(&q->asked, (created->asked & CL_QUEUE_PROFILING_ENABLE) != 0);
        set_property_array(q, created);
        atomic_store(&q->references, created->references);
        atomic_store_explicit(&q->handle, created->handle, memory_order_release);
        const KinetoPlugin_TraceBuilder *builder = co_builder_enter();
        if (builder) {
            announce_queue(builder, q);
            co_builder_leave();
        }
    }
    pthread_mutex_unlock(&queues_lock);
    return q;
}

/* Adds a queue that was not created through this layer, for example by a function of an
 * extension. */
static co_queue *add_unknown_queue(cl_command_queue handle)
{
    cl_device_id device = NULL;
    new_queue created = {.handle = handle, .references = 1};

    if (co_next.clGetCommandQueueInfo(handle, CL_QUEUE_DEVICE, sizeof device, &device, NULL) !=
            CL_SUCCESS ||
        co_next.clGetCommandQueueInfo(handle, CL_QUEUE_CONTEXT, sizeof created.context,
                                      &created.context, NULL) != CL_SUCCESS ||
        co_next.clGetCommandQueueInfo(handle, CL_QUEUE_PROPERTIES, sizeof created.got, &created.got,
                                      NULL) != CL_SUCCESS)
        return NULL;
    created.asked = created.got;
    created.device = co_device_of(device);
    return created.device ? put_queue(&created) : NULL;
}

co_queue *co_queue_of(cl_command_queue handle)
{
    co_queue *q = handle ? find_queue_slot(handle, false) : NULL;

    if (handle && (!q || atomic_load_explicit(&q->references, memory_order_relaxed) <= 0))
        q = add_unknown_queue(handle);
    return q;
}

void co_queues_after_fork(void) { pthread_mutex_init(&queues_lock, NULL); }

/* ---- creation of queues ---------------------------------------------------------------------- */

/* Falls back to the program's own properties if the driver refuses profiling. */
static cl_command_queue CL_API_CALL create_queue(cl_context context, cl_device_id device,
                                                 cl_command_queue_properties properties,
                                                 cl_int *errcode_ret)
{
    KINETO_SITE(site, KINETO_KIND_RUNTIME, "clCreateCommandQueue");
    kineto_range range = kineto_range_begin(&site);
    cl_command_queue_properties got = properties | CL_QUEUE_PROFILING_ENABLE;
    cl_command_queue queue = co_next.clCreateCommandQueue(context, device, got, errcode_ret);

    if (!queue && got != properties) {
        got = properties;
        queue = co_next.clCreateCommandQueue(context, device, got, errcode_ret);
    }
    kineto_range_end(range);
    new_queue created = {.handle = queue,
                         .context = context,
                         .device = queue ? co_device_of(device) : NULL,
                         .asked = properties,
                         .got = got,
                         .references = 1};
    if (created.device)
        (void)put_queue(&created);
    return queue;
}

/* Pairs of a property list without its end mark; more than MAX_PAIRS: the list is too long. */
static uint32_t count_property_pairs(const cl_queue_properties *properties)
{
    uint32_t n = 0;

    while (properties && properties[2 * n] != 0 && n <= MAX_PAIRS)
        n++;
    return n;
}

/* Copies a property list and adds profiling. False: the program's list must be used as it is. */
static bool copy_with_profiling(const cl_queue_properties *properties, uint32_t pairs,
                                cl_queue_properties *out, cl_command_queue_properties *asked)
{
    bool found = false;

    *asked = 0;
    for (uint32_t i = 0; i < pairs; i++) {
        out[2 * i] = properties[2 * i];
        out[2 * i + 1] = properties[2 * i + 1];
        if (properties[2 * i] == CL_QUEUE_PROPERTIES && !found) {
            found = true;
            *asked = properties[2 * i + 1];
            out[2 * i + 1] |= CL_QUEUE_PROFILING_ENABLE;
        }
    }
    if (!found) {
        out[2 * pairs] = CL_QUEUE_PROPERTIES;
        out[2 * pairs + 1] = CL_QUEUE_PROFILING_ENABLE;
        pairs++;
    }
    out[2 * pairs] = 0;
    /* Commands of queues on the device are enqueued by kernels, not by the host. */
    return !(*asked & (CL_QUEUE_ON_DEVICE | CL_QUEUE_PROFILING_ENABLE));
}

static cl_command_queue CL_API_CALL
/* Adds profiling to the property list; falls back to the program's own list if the driver
 * refuses. */
create_queue_with_properties(cl_context context, cl_device_id device,
                             const cl_queue_properties *properties, cl_int *errcode_ret)
{
    KINETO_SITE(site, KINETO_KIND_RUNTIME, "clCreateCommandQueueWithProperties");
    kineto_range range = kineto_range_begin(&site);
    cl_queue_properties list[2 * (MAX_PAIRS + 1) + 1];
    uint32_t pairs = count_property_pairs(properties);
    cl_command_queue_properties asked = 0;
    bool force = pairs <= MAX_PAIRS && copy_with_profiling(properties, pairs, list, &asked);
    cl_command_queue queue = NULL;

    if (force)
        queue = co_next.clCreateCommandQueueWithProperties(context, device, list, errcode_ret);
    bool forced = queue != NULL;
    if (!queue)
        queue =
            co_next.clCreateCommandQueueWithProperties(context, device, properties, errcode_ret);
    kineto_range_end(range);
    if (!queue || pairs > MAX_PAIRS || (asked & CL_QUEUE_ON_DEVICE))
        return queue;
    new_queue created = {.handle = queue,
                         .context = context,
                         .device = co_device_of(device),
                         .asked = asked,
                         .got = forced ? asked | CL_QUEUE_PROFILING_ENABLE : asked,
                         .array = properties,
                         .array_count = 2 * pairs + 1,
                         .references = 1};
    if (created.device)
        (void)put_queue(&created);
    return queue;
}

static cl_int CL_API_CALL retain_queue(cl_command_queue queue)
{
    cl_int status = co_next.clRetainCommandQueue(queue);
    co_queue *q = status == CL_SUCCESS ? find_queue_slot(queue, false) : NULL;

    if (q)
        atomic_fetch_add(&q->references, 1);
    return status;
}

/* The queue's slot is only marked as released; its number may be reused then. */
static cl_int CL_API_CALL release_queue(cl_command_queue queue)
{
    KINETO_SITE(site, KINETO_KIND_RUNTIME, "clReleaseCommandQueue");
    co_queue *q = queue ? find_queue_slot(queue, false) : NULL;

    /* Before the call: afterwards another thread may have got the same handle for a new queue. */
    if (q)
        atomic_fetch_sub(&q->references, 1);
    kineto_range range = kineto_range_begin(&site);
    cl_int status = co_next.clReleaseCommandQueue(queue);
    kineto_range_end(range);
    if (q && status != CL_SUCCESS)
        atomic_fetch_add(&q->references, 1);
    return status;
}

/* ---- queries of the program ------------------------------------------------------------------ */

/* Answers CL_QUEUE_PROPERTIES_ARRAY with the program's own list. */
static cl_int copy_property_array(const co_queue *q, size_t room, void *out, size_t *size_ret)
{
    size_t size = q->array_count * sizeof *q->array;

    if (out && room < size)
        return CL_INVALID_VALUE;
    if (out && size)
        memcpy(out, q->array, size);
    if (size_ret)
        *size_ret = size;
    return CL_SUCCESS;
}

/* Hides profiling that the program did not request. */
static cl_int CL_API_CALL get_queue_info(cl_command_queue queue, cl_command_queue_info what,
                                         size_t room, void *out, size_t *size_ret)
{
    co_queue *q = queue ? find_queue_slot(queue, false) : NULL;
    bool is_hidden = q && q->timed && !atomic_load(&q->asked);

    if (is_hidden && what == CL_QUEUE_PROPERTIES_ARRAY) {
        size_t size = 0;
        cl_int status = co_next.clGetCommandQueueInfo(queue, what, 0, NULL, &size);
        return status == CL_SUCCESS ? copy_property_array(q, room, out, size_ret) : status;
    }
    cl_int status = co_next.clGetCommandQueueInfo(queue, what, room, out, size_ret);
    if (is_hidden && status == CL_SUCCESS && what == CL_QUEUE_PROPERTIES && out)
        *(cl_command_queue_properties *)out &=
            ~(cl_command_queue_properties)CL_QUEUE_PROFILING_ENABLE;
    return status;
}

/* OpenCL 1.0 only: the program changes properties later. */
static cl_int CL_API_CALL set_queue_property(cl_command_queue queue,
                                             cl_command_queue_properties properties, cl_bool enable,
                                             cl_command_queue_properties *old)
{
    co_queue *q = queue ? find_queue_slot(queue, false) : NULL;
    bool ours = q && q->timed && !atomic_load(&q->asked);
    cl_int status = co_next.clSetCommandQueueProperty(queue, properties, enable, old);

    if (status != CL_SUCCESS || !q)
        return status;
    if (ours && old)
        *old &= ~(cl_command_queue_properties)CL_QUEUE_PROFILING_ENABLE;
    if (properties & CL_QUEUE_PROFILING_ENABLE) {
        atomic_store(&q->asked, enable != CL_FALSE);
        q->timed = enable != CL_FALSE;
    }
    return status;
}

/* Subtracts our references from the count. They may change while the driver reads it: then the
 * query is repeated. */
static cl_int CL_API_CALL get_event_info(cl_event event, cl_event_info what, size_t room, void *out,
                                         size_t *size_ret)
{
    if (what != CL_EVENT_REFERENCE_COUNT || !out)
        return co_next.clGetEventInfo(event, what, room, out, size_ret);
    for (;;) {
        uint32_t before = co_commands_hold(event);
        cl_int status = co_next.clGetEventInfo(event, what, room, out, size_ret);
        if (co_commands_hold(event) == before) {
            cl_uint *count = out;
            if (status == CL_SUCCESS && *count > before)
                *count -= before;
            return status;
        }
        sched_yield();
    }
}

/* Without profiling the program must get the error that OpenCL specifies. */
static cl_int CL_API_CALL get_event_times(cl_event event, cl_profiling_info what, size_t room,
                                          void *out, size_t *size_ret)
{
    cl_command_queue queue = NULL;
    cl_int status =
        co_next.clGetEventInfo(event, CL_EVENT_COMMAND_QUEUE, sizeof queue, &queue, NULL);
    co_queue *q = status == CL_SUCCESS && queue ? find_queue_slot(queue, false) : NULL;

    if (q && q->timed && !atomic_load(&q->asked))
        return CL_PROFILING_INFO_NOT_AVAILABLE;
    return co_next.clGetEventProfilingInfo(event, what, room, out, size_ret);
}

void co_queues_install(cl_icd_dispatch *table)
{
#define INSTALL(entry, function)                                                                   \
    if (table->entry)                                                                              \
    table->entry = function
    INSTALL(clCreateCommandQueue, create_queue);
    INSTALL(clCreateCommandQueueWithProperties, create_queue_with_properties);
    INSTALL(clRetainCommandQueue, retain_queue);
    INSTALL(clReleaseCommandQueue, release_queue);
    INSTALL(clGetCommandQueueInfo, get_queue_info);
    INSTALL(clSetCommandQueueProperty, set_queue_property);
    INSTALL(clGetEventInfo, get_event_info);
    INSTALL(clGetEventProfilingInfo, get_event_times);
#undef INSTALL
}
