/** @file
 *  Functions of a device that has no profiling interface of its own: events in its queues and the time between two
 *  of them, marks, synchronisation. A program, or the runtime of a backend, registers them; profilers that time
 *  operators by events (the states KINETO_GPU_FALLBACK and KINETO_PRIVATEUSE1_FALLBACK) call them. PyTorch calls
 *  this ProfilerStubs. Also here: the observer of profilers of state PRIVATEUSE1.
 *
 *      kineto_stubs stubs;
 *      kineto_stubs_init(&stubs);
 *      stubs.record = my_record;
 *      stubs.elapsed_ns = my_elapsed_ns;
 *      stubs.release_event = my_release;
 *      kineto_stubs_register(KINETO_STUBS_PRIVATEUSE1, &stubs, NULL);
 */
#ifndef CKINETO_STUBS_H
#define CKINETO_STUBS_H

#include <ckineto/base.h>

#ifdef __cplusplus
extern "C" {
#endif

/** Places for stubs: X(NAME, number, text). */
#define KINETO_STUBS_MAP(X)                                                                        \
    X(CUDA, 0, "CUDA")                                                                             \
    X(ITT, 1, "ITT")                                                                               \
    X(PRIVATEUSE1, 2, "PrivateUse1")

typedef enum kineto_stubs_slot {
#define KINETO_X(name, value, text) KINETO_STUBS_##name = (value),
    KINETO_STUBS_MAP(KINETO_X)
#undef KINETO_X
        KINETO_STUBS_SLOT_COUNT = 3
} kineto_stubs_slot;

/** Functions of a device. Start from kineto_stubs_init; any may be NULL, but `record` needs `elapsed_ns`. They are
 *  called by any thread, several at once. Failures of functions that are called for each operator are counted;
 *  those of the others are returned to the caller. `err` may be NULL. */
typedef struct kineto_stubs {
    size_t size;   /**< sizeof(kineto_stubs) */
    void *context; /**< passed to every function */
    /** Put an event into the current queue of the calling thread. *device receives the number of
     *  the device (-1: none), *event what release_event takes back, *cpu_ns the time in ns since
     *  the Unix epoch; device and cpu_ns may be NULL. */
    kineto_status (*record)(void *context, int32_t *device, void **event, int64_t *cpu_ns,
                            kineto_error *err);
    /** Nanoseconds between two events of one device; waits until the device has reached both. (PyTorch's function
     *  returns microseconds.) */
    kineto_status (*elapsed_ns)(void *context, void *start, void *end, int64_t *elapsed_ns,
                                kineto_error *err);
    /** Called once for every event that was recorded. */
    void (*release_event)(void *context, void *event);
    /** A mark, the begin and the end of a range of the calling thread, in the tool of the device. */
    kineto_status (*mark)(void *context, const char *name, kineto_error *err);
    kineto_status (*range_push)(void *context, const char *name, kineto_error *err);
    kineto_status (*range_pop)(void *context, kineto_error *err);
    /** True if the device is usable. NULL: it is. */
    bool (*enabled)(void *context);
    /** Call `visit` for each device in turn, with that device as the current one. */
    kineto_status (*on_each_device)(void *context, void (*visit)(int32_t device, void *argument),
                                    void *argument, kineto_error *err);
    /** Wait until the current device has finished its work. */
    kineto_status (*synchronize)(void *context, kineto_error *err);
} kineto_stubs;
KINETO_INIT_FUNCTION(kineto_stubs)

/** "CUDA", "ITT", "PrivateUse1"; "unknown". Static storage. threads: hot. */
KINETO_API const char *kineto_stubs_name(kineto_stubs_slot slot);

/** Register the functions of a device; the struct is copied, its context is not.
 *  @return KINETO_E_ARGUMENT: unknown slot, or `record` without `elapsed_ns`; KINETO_E_BUSY: the slot is in use.
 *          threads: any; works before main. */
KINETO_API kineto_status kineto_stubs_register(kineto_stubs_slot slot, const kineto_stubs *stubs,
                                               kineto_error *err);
/** Remove the functions of a slot. On return no profiler is calling them.
 *  @return KINETO_E_NOT_FOUND: the slot is empty; KINETO_E_BUSY: a profiler uses them, stop it first.
 *          threads: any. */
KINETO_API kineto_status kineto_stubs_unregister(kineto_stubs_slot slot, kineto_error *err);

/** Copy the registered functions into *out, whose `size` the caller has set. No member is NULL: a function that is
 *  not registered returns KINETO_E_UNSUPPORTED with a message ("CUDA used in profiler but not enabled." if the
 *  slot is empty; `enabled` then returns false). The functions may be called until they are unregistered.
 *  @return false for an unknown slot, for a size that is not set, and in a signal handler that interrupted a
 *          registration. threads: any. */
KINETO_API bool kineto_stubs_slot_get(kineto_stubs_slot slot, kineto_stubs *out);

/* ---- PrivateUse1 as a marker ----------------------------------------------------------------- */

struct kineto_profiler_config; /* <ckineto/profiler.h> */

/** Observer of profilers of state PRIVATEUSE1: a backend that marks operators itself. */
typedef struct kineto_privateuse1_observer {
    size_t size; /**< sizeof(kineto_privateuse1_observer) */
    void *context;
    /** A profiler starts on the calling thread. `scopes` is a mask of 1 << kineto_scope, 0: all. Enabling the
     *  profiler returns its status. */
    kineto_status (*enable)(void *context, const struct kineto_profiler_config *config,
                            uint32_t scopes, kineto_error *err);
    /** The profiler stops; called once for each enable that succeeded. May be NULL. */
    kineto_status (*disable)(void *context, kineto_error *err);
} kineto_privateuse1_observer;
KINETO_INIT_FUNCTION(kineto_privateuse1_observer)

/** Register the observer; it is copied.
 *  @return KINETO_E_ARGUMENT: `enable` is NULL; KINETO_E_BUSY: an observer is registered. threads: any; works
 *          before main. */
KINETO_API kineto_status kineto_privateuse1_observer_register(
    const kineto_privateuse1_observer *observer, kineto_error *err);
/** Remove the observer, and query whether there is one.
 *  @return KINETO_E_NOT_FOUND: none is registered; KINETO_E_BUSY: a profiler that it observes has not stopped.
 *          threads: any. */
KINETO_API kineto_status kineto_privateuse1_observer_unregister(kineto_error *err);
KINETO_API bool kineto_privateuse1_observer_is_registered(void);

#ifdef __cplusplus
}
#endif

#define CKINETO_STUBS_DECLARED
#include <ckineto/deprecated.h>
#endif
