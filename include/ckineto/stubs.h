/** @file
 *  What a profiler asks of a device that it cannot see into: events in its queues and the time
 *  between two of them, marks, and waiting for it. A program, or the runtime of a backend,
 *  registers the functions of its device; profilers that time operators on it by events (the states
 *  KINETO_GPU_FALLBACK and KINETO_PRIVATEUSE1_FALLBACK) call them. Also who is told when a profiler
 *  of state PRIVATEUSE1 begins and ends. PyTorch calls the first ProfilerStubs.
 *
 *      kineto_stubs stubs = KINETO_STUBS_INIT;
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

/** Functions of a device. Start from KINETO_STUBS_INIT; any may be NULL, except that who records
 *  events must also tell the time between them. They are called by any thread, several at once.
 *  What they return other than KINETO_OK is counted where many are asked, and handed on elsewhere;
 *  `err` may be NULL. */
typedef struct kineto_stubs {
    size_t size;   /**< sizeof(kineto_stubs) */
    void *context; /**< handed to every function */
    /** Put an event into the current queue of the calling thread. *device receives the number of
     *  the device (-1: none), *event what release_event takes back, *cpu_ns the time in ns since
     *  the Unix epoch; device and cpu_ns may be NULL. */
    kineto_status (*record)(void *context, int32_t *device, void **event, int64_t *cpu_ns,
                            kineto_error *err);
    /** Time between two events in nanoseconds, waiting until the device has come to both. They are
     *  of one device. (PyTorch's tells microseconds.) */
    kineto_status (*elapsed_ns)(void *context, void *start, void *end, int64_t *elapsed_ns,
                                kineto_error *err);
    /** Called once for every event that was recorded. */
    void (*release_event)(void *context, void *event);
    /** A moment, a range of the calling thread, its end: in the device's own tool. */
    kineto_status (*mark)(void *context, const char *name, kineto_error *err);
    kineto_status (*range_push)(void *context, const char *name, kineto_error *err);
    kineto_status (*range_pop)(void *context, kineto_error *err);
    /** Does the device work? NULL: yes. */
    bool (*enabled)(void *context);
    /** Call visit for each device in turn, which is made the current one for that long. */
    kineto_status (*on_each_device)(void *context, void (*visit)(int32_t device, void *argument),
                                    void *argument, kineto_error *err);
    /** Wait until the current device has done all it was given. */
    kineto_status (*synchronize)(void *context, kineto_error *err);
} kineto_stubs;
#define KINETO_STUBS_INIT                                                                          \
    {                                                                                              \
        sizeof(kineto_stubs), NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL           \
    }

/** "CUDA", "ITT", "PrivateUse1"; "unknown". Static storage. threads: hot. */
KINETO_API const char *kineto_stubs_name(kineto_stubs_slot slot);

/** Register functions of a device; they are copied, their context is not.
 *  @return KINETO_E_ARGUMENT: no such slot, or functions that do not go together;
 *          KINETO_E_BUSY: others are registered there. threads: any; works before main. */
KINETO_API kineto_status kineto_stubs_register(kineto_stubs_slot slot, const kineto_stubs *stubs,
                                               kineto_error *err);
/** Afterwards no thread is inside of them by way of a profiler.
 *  @return KINETO_E_NOT_FOUND: there are none; KINETO_E_BUSY: a profiler uses them, to be stopped
 *          first. threads: any. */
KINETO_API kineto_status kineto_stubs_unregister(kineto_stubs_slot slot, kineto_error *err);

/** Copy what is registered into *out, whose `size` the caller has set. Nothing in it is NULL: a
 *  function that was not registered is one that returns KINETO_E_UNSUPPORTED with a text, as all do
 *  where nothing is registered: "CUDA used in profiler but not enabled."; there `enabled` says no.
 *  What was registered may be called until it is unregistered.
 *  @return KINETO_E_ARGUMENT. threads: any. */
KINETO_API kineto_status kineto_stubs_get(kineto_stubs_slot slot, kineto_stubs *out,
                                          kineto_error *err);

/* ---- PrivateUse1 as a marker ----------------------------------------------------------------- */

struct kineto_profiler_config; /* <ckineto/profiler.h> */

/** Who is told of profilers of state PRIVATEUSE1: a backend that marks operators by itself. */
typedef struct kineto_privateuse1_observer {
    size_t size; /**< sizeof(kineto_privateuse1_observer) */
    void *context;
    /** A profiler begins, on the calling thread. `scopes` is a mask of 1 << kineto_scope, 0: all.
     *  What it returns is what enabling the profiler returns. */
    kineto_status (*enable)(void *context, const struct kineto_profiler_config *config,
                            uint32_t scopes, kineto_error *err);
    /** It ends; called once for each enable that succeeded. May be NULL. */
    kineto_status (*disable)(void *context, kineto_error *err);
} kineto_privateuse1_observer;
#define KINETO_PRIVATEUSE1_OBSERVER_INIT                                                           \
    {                                                                                              \
        sizeof(kineto_privateuse1_observer), NULL, NULL, NULL                                      \
    }

/** Register the observer; it is copied.
 *  @return KINETO_E_ARGUMENT: it lacks enable; KINETO_E_BUSY: there is one. threads: any; works
 *  before main. */
KINETO_API kineto_status kineto_privateuse1_observer_register(
    const kineto_privateuse1_observer *observer, kineto_error *err);
/** @return KINETO_E_NOT_FOUND: there is none; KINETO_E_BUSY: a profiler that it was told of has not
 *          ended. threads: any. */
KINETO_API kineto_status kineto_privateuse1_observer_unregister(kineto_error *err);
KINETO_API bool kineto_privateuse1_observer_is_registered(void);

#ifdef __cplusplus
}
#endif
#endif
