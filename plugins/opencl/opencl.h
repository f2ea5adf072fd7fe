/* The OpenCL source: a layer that the OpenCL loader inserts below a program's calls, and a profiler
 * plug-in that delivers the devices' activities.
 *
 *   layer.c     entry points, the dispatch table
 *   calls.c     the wrapped calls, generated from calls.def
 *   extensions.c       functions that programs request by name, from extensions.def
 *   command_buffers.c  command buffers: their queues, and how many kernels they launch
 *   queues.c    queues and events, and how the program sees them
 *   devices.c   devices: numbers, properties, rows of the trace
 *   commands.c  commands between enqueue and completion
 *   deliver.c   turning finished commands into activities
 *   clocks.c    finding the clock of a device's timestamps
 *   names.c     names of kernels
 *   profiler.c  the plug-in interface, the recording session, counts of losses
 */
#ifndef CO_OPENCL_H
#define CO_OPENCL_H

#define CL_TARGET_OPENCL_VERSION 300
#define CL_USE_DEPRECATED_OPENCL_1_0_APIS
#define CL_USE_DEPRECATED_OPENCL_1_1_APIS
#define CL_USE_DEPRECATED_OPENCL_1_2_APIS
#define CL_USE_DEPRECATED_OPENCL_2_0_APIS
#define CL_USE_DEPRECATED_OPENCL_2_1_APIS
#define CL_USE_DEPRECATED_OPENCL_2_2_APIS
#include <CL/cl_layer.h>

#include <ckineto/plugin.h>
#include <ckineto/record.h>

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

/** The functions below this layer; set once, before any wrapper can run. */
extern cl_icd_dispatch co_next;

#define CO_COUNT(array) (sizeof(array) / sizeof((array)[0]))

/* ---- clocks.c -------------------------------------------------------------------------------- */

/* Host clocks that a device may use for its timestamps, in order of preference. */
typedef enum co_host_clock {
    CO_CLOCK_RAW,
    CO_CLOCK_MONOTONIC,
    CO_CLOCK_BOOTTIME,
    CO_CLOCK_REALTIME,
    CO_CLOCK_COUNT
} co_host_clock;

/* Readings of the host's clocks before and after a moment at which the device reads its own. */
typedef struct co_bracket {
    bool used;
    int64_t before_ns[CO_CLOCK_COUNT], after_ns[CO_CLOCK_COUNT];
    /* The host's recording clock, 0 if unknown. */
    uint64_t before_ticks, after_ticks;
} co_bracket;

typedef enum co_clock_state { CO_CLOCK_UNDECIDED, CO_CLOCK_HOST, CO_CLOCK_DEVICE } co_clock_state;

/* The state of finding one device's clock: UNDECIDED until enough brackets were seen, then HOST or
 * DEVICE for good. Guarded by the device's lock. */
typedef struct co_clock {
    co_clock_state state;
    co_host_clock host;  /* state HOST */
    uint32_t candidates; /* bit per co_host_clock that no bracket has excluded */
    uint32_t votes;      /* narrow brackets seen */
    uint32_t brackets;   /* brackets seen */
} co_clock;

void co_clock_init(co_clock *clock);
/** Count a bracket: device_ns was read inside it, with an error of up to slack_ns. */
void co_clock_vote(co_clock *clock, const co_bracket *bracket, int64_t device_ns, int64_t slack_ns);
/** Decide if the votes suffice, or (force) as well as they allow. True once decided. */
bool co_clock_decide(co_clock *clock, bool force);
/** KINETO_PLUGIN_CLOCK_… of a host clock. */
int32_t co_clock_number(co_host_clock host);
int64_t co_now_ns(int clock_id);
void co_bracket_open(co_bracket *bracket, const KinetoPlugin_TraceBuilder *builder);
void co_bracket_close(co_bracket *bracket, const KinetoPlugin_TraceBuilder *builder);

/* ---- devices.c ------------------------------------------------------------------------------- */
#define CO_MAX_DEVICES 64

struct co_work;

typedef struct co_device {
    cl_device_id handle;
    /* Over all platforms, in the order of first use. */
    int32_t index;
    cl_device_type type;
    int64_t slack_ns; /* resolution of its profiling timer */
    bool has_timer;   /* clGetDeviceAndHostTimer works */
    char name[256], vendor[128], driver[128], version[128], platform[192];
    uint64_t memory_bytes, max_alloc_bytes, local_bytes, work_group;
    uint32_t units, clock_mhz;

    /* Copy of clock.state for readers without the lock. */
    atomic_int clock_state;
    atomic_llong next_sample_ns; /* CLOCK_MONOTONIC; state DEVICE */
    pthread_mutex_t lock;        /* guards all below */
    co_clock clock;
    /* Session in which clock_number was registered. */
    uint32_t clock_session;
    int32_t clock_number;
    /* Commands that finished before the clock was known. */
    struct co_work *held;
    uint32_t held_count;
    int32_t next_queue;
} co_device;

/** The device of a handle, added at its first use; NULL: the table is full. */
co_device *co_device_of(cl_device_id handle);
uint32_t co_device_count(void);
co_device *co_device_at(uint32_t index);
/** Describe a device to the host. */
void co_device_announce(const KinetoPlugin_TraceBuilder *builder, const co_device *device);
void co_devices_after_fork(void);

/* ---- queues.c -------------------------------------------------------------------------------- */

/* A slot of the table of queues. The handle is written last. */
typedef struct co_queue {
    /* NULL: slot never used. Slots never become free again. */
    _Atomic(cl_command_queue) handle;
    co_device *device;
    int32_t number;  /* per device */
    int32_t context; /* number in the order of first use; -1: too many contexts */
    bool timed;      /* its events have timestamps */
    bool out_of_order;
    /* The program itself asked for profiling. */
    atomic_bool asked;
    /* Created by clCreateCommandQueueWithProperties with properties. */
    bool has_array;
    cl_queue_properties *array; /* the program's own properties */
    uint32_t array_count;
    /* The program's; 0: released, although events may keep it alive. */
    atomic_int references;
} co_queue;

/** The queue of a handle; a queue that was created past the layer is added now. NULL: unknown. */
co_queue *co_queue_of(cl_command_queue handle);
/** Describe all queues of all devices to the host. */
void co_queues_announce(const KinetoPlugin_TraceBuilder *builder);
void co_queues_after_fork(void);

/* ---- names.c --------------------------------------------------------------------------------- */

typedef struct co_name {
    uint64_t hash;
    uint32_t key_size, size;
    const char *text; /* what is shown: the key, or the key demangled; of `size` bytes */
    char key[];       /* what the driver says */
} co_name;

/** Name of a kernel, valid forever; never NULL. Not cached by handle, because drivers reuse
 * handles. */
const co_name *co_kernel_name(cl_kernel kernel);

/* ---- commands.c ------------------------------------------------------------------------------ */

/* A command, and all that its activity needs. */
typedef struct co_work {
    int32_t type; /* KinetoPlugin_ProfileEventType */
    uint32_t correlation_id;
    uint32_t session;
    int32_t queue, context;
    co_device *device;
    const char *name;
    uint32_t name_size;
    uint32_t dims;    /* 0: no sizes */
    uint32_t kernels; /* of a command buffer; 0: unknown, or no command buffer */
    bool has_local, has_offset;
    uint64_t bytes; /* 0: unknown */
    int64_t global[3], local[3], offset[3];
    cl_ulong queued, submitted, start, end; /* device time */
    co_bracket bracket;
} co_work;

/* Reasons why a command is missing from the trace: X(NAME, text). */
#define CO_LOSS_MAP(X)                                                                             \
    X(UNTIMED_QUEUE, "queue without profiling")                                                    \
    X(TOO_MANY, "too many commands in flight")                                                     \
    X(FAILED, "command failed")                                                                    \
    X(NO_TIMES, "no timestamps")                                                                   \
    X(NO_CALLBACK, "no completion callback")                                                       \
    X(NO_CLOCK, "no clock for the device")                                                         \
    X(UNFINISHED, "unfinished at the end")

typedef enum co_loss {
#define CO_X(name, text) CO_LOSS_##name,
    CO_LOSS_MAP(CO_X)
#undef CO_X
        CO_LOSS_COUNT
} co_loss;

typedef struct co_command co_command;

/* One wrapped enqueue call. */
typedef struct co_launch {
    kineto_range range;
    co_command *command; /* NULL: not timed */
    co_loss lost;        /* why not, counted if the call succeeds; CO_LOSS_COUNT: not a loss */
    cl_event own;        /* the event, if the program requested none */
} co_launch;

/** To be called right before the enqueue call. Replaces *event by the launch's own if the program
 * requested none. */
void co_launch_begin(co_launch *launch, kineto_site *site, cl_command_queue queue, int32_t type,
                     cl_event **event);
/** To be called right after the enqueue call. @return the work to describe, followed by
 * co_launch_submit; NULL: nothing to do. */
co_work *co_launch_end(co_launch *launch, cl_int status, cl_event *event);
void co_launch_submit(co_launch *launch);

/* The drivers may be unloaded: count everything as lost. */
#define CO_DRAIN_BLIND (-1)

/** Deliver finished commands; wait up to wait_ms for the others, then count them as lost. */
void co_commands_drain(int wait_ms);
/** Deliver finished commands, leave the others. */
void co_commands_collect(void);
/** The number of references to an event of the program that this layer holds. */
uint32_t co_commands_hold(cl_event event);
void co_commands_after_fork(void);

/* ---- deliver.c ------------------------------------------------------------------------------- */

/* Not a status of OpenCL: no callback could be set. */
#define CO_STATUS_NO_CALLBACK (-9999)

/** A command has ended: read its times and deliver it, or keep it until the clock is known. */
void co_deliver(const KinetoPlugin_TraceBuilder *builder, co_work *work, cl_event event,
                cl_int status);
/** Decide all clocks now and deliver the commands that wait for them. */
void co_deliver_held(void);

/* ---- profiler.c ------------------------------------------------------------------------------ */

/** True while a session takes up commands: with kineto_enabled the only test of an idle wrapper. */
extern atomic_bool co_active;
static inline bool co_watching(void)
{
    return kineto_enabled(KINETO_KIND_RUNTIME) ||
           atomic_load_explicit(&co_active, memory_order_relaxed);
}

/** The host's builder, or NULL. If not NULL, call co_builder_leave soon and do not block before. */
const KinetoPlugin_TraceBuilder *co_builder_enter(void);
void co_builder_leave(void);
/** The number of the session that takes up commands of this type now; 0: none does. */
uint32_t co_session_wants(int32_t type);
/** The session that takes commands up or is being drained; call inside enter and leave. */
uint32_t co_session_current(void);
bool co_session_accepts(uint32_t session);

void co_count_requested(const KinetoPlugin_TraceBuilder *builder);
void co_count_lost(const KinetoPlugin_TraceBuilder *builder, co_loss why);

/** Register with the host of this process, once. */
void co_profiler_register(void);
/** To be called when a loader starts the layer. @return true the first time in this process. */
bool co_profiler_begin(void);
bool co_profiler_has_begun(void);
/** True if a loader has started the layer or a host has opened the library as a plug-in. */
bool co_profiler_is_known(void);
/** The process ends, or the loader closes the drivers: deliver finished commands. Has an effect
 * once, until the layer begins again. */
void co_profiler_at_exit(void);
void co_profiler_after_fork(void);

/* ---- calls.c, queues.c: entries of the dispatch table ---------------------------------------- */
void co_calls_install(cl_icd_dispatch *table);
void co_queues_install(cl_icd_dispatch *table);

/* ---- extensions.c ---------------------------------------------------------------------------- */
void co_extensions_install(cl_icd_dispatch *table);
void co_extensions_after_fork(void);

/* ---- command_buffers.c -----------------------------------------------------------------------
 * A handle of NULL, or one that is unknown, has no effect and no queue. */

/** A command buffer was made for this queue. */
void co_command_buffer_add(void *handle, cl_command_queue queue);
/** It was retained (1) or released (-1). */
void co_command_buffer_refer(void *handle, int change);
/** The launch of a kernel was added to it. */
void co_command_buffer_count_kernel(void *handle);
cl_command_queue co_command_buffer_queue(void *handle);
uint32_t co_command_buffer_kernels(void *handle);
void co_command_buffers_after_fork(void);
#endif
