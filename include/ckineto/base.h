/** @file
 *  What every other header needs: export macro, version, status codes, the error a caller owns,
 *  strings with a length, and the table of activity kinds.
 *
 *  Thread rule words used on every function of this project:
 *      hot    any thread, also in a signal handler; never blocks, locks, allocates;
 *      any    any thread, may lock or allocate;
 *      owner  one thread at a time per handle.
 *
 *  Functions that can fail return a kineto_status. Getters return false if there is no such thing, and fill in an
 *  all-zero result; a getter returns a status only if its caller needs the reason, because the name of what is wanted
 *  was typed by a user (kineto_averages_value).
 *
 *  Pointers must not be NULL unless it is said. A function that returns a status refuses NULL ("FUNCTION: ARGUMENT
 *  must not be NULL"); for other functions a handle that is NULL is an empty one: they return false, NULL or 0, or do
 *  nothing. Only functions that record (<ckineto/record.h>, <ckineto/function.h>) do not check, for speed.
 */
#ifndef CKINETO_BASE_H
#define CKINETO_BASE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define KINETO_VERSION_MAJOR 0
#define KINETO_VERSION_MINOR 1
#define KINETO_VERSION_PATCH 0
#define KINETO_VERSION "0.1.0"

#if defined(__GNUC__)
#define KINETO_API __attribute__((visibility("default")))
#define KINETO_LIKELY(x) __builtin_expect(!!(x), 1)
#define KINETO_UNLIKELY(x) __builtin_expect(!!(x), 0)
#define KINETO_PRINTF(fmt, args) __attribute__((format(printf, fmt, args)))
#define KINETO_DEPRECATED(text) __attribute__((deprecated(text)))
#else
#define KINETO_API
#define KINETO_LIKELY(x) (x)
#define KINETO_UNLIKELY(x) (x)
#define KINETO_PRINTF(fmt, args)
#define KINETO_DEPRECATED(text)
#endif

/** The name that a member had in version 0.1, until 0.3: another name for the same bytes. */
#ifndef KINETO_NO_OLD_NAMES
#define KINETO_OLD_MEMBER(type, name, old)                                                         \
    union {                                                                                        \
        type name;                                                                                 \
        type old KINETO_DEPRECATED("use " #name);                                                  \
    }
#else
#define KINETO_OLD_MEMBER(type, name, old) type name
#endif

#ifdef __cplusplus
extern "C" {
#endif

/** Every status: X(name, value, what it means). Values are part of the ABI; append only. */
#define KINETO_STATUS_MAP(X)                                                                       \
    X(OK, 0, "success")                                                                            \
    X(E_ARGUMENT, -1, "invalid argument")                                                          \
    X(E_MEMORY, -2, "out of memory")                                                               \
    X(E_IO, -3, "input/output error")                                                              \
    X(E_FORMAT, -4, "malformed data")                                                              \
    X(E_STATE, -5, "call out of order")                                                            \
    X(E_BUSY, -6, "resource is in use")                                                            \
    X(E_UNSUPPORTED, -7, "not supported here")                                                     \
    X(E_NOT_FOUND, -8, "not found")                                                                \
    X(E_PERMISSION, -9, "permission denied")                                                       \
    X(E_LIMIT, -10, "a limit was reached")                                                         \
    X(E_PLUGIN, -11, "a plug-in failed")

typedef enum kineto_status {
#define KINETO_X(name, value, text) KINETO_##name = (value),
    KINETO_STATUS_MAP(KINETO_X)
#undef KINETO_X
} kineto_status;

/** Where and why a call failed. Owned by the caller, no pointers inside, may be on the stack.
 *  Every function that takes one accepts NULL. Untouched on success. */
typedef struct kineto_error {
    kineto_status code;
    int os_error;       /**< errno of the failing system call, 0 if none */
    uint64_t offset;    /**< byte offset in the input, where that makes sense */
    char message[488];  /**< UTF-8 sentence: the failure, the file and the remedy */
} kineto_error;

/* Structs that a caller fills begin with their size, so that they can grow. Each has a function TYPE_init,
 * defined by this macro in the header of the struct: all members are zero, which is their default, and the
 * size is set. It is inline because the size has to be that of the caller's header. threads: hot. */
#define KINETO_INIT_FUNCTION(type)                                                                 \
    static inline void type##_init(type *out)                                                      \
    {                                                                                              \
        memset(out, 0, sizeof *out);                                                               \
        out->size = sizeof *out;                                                                   \
    }

/** Borrowed bytes with a length; not NUL-terminated unless stated, may contain any byte. */
typedef struct kineto_string {
    const char *data;
    size_t size;
} kineto_string;

/** Name of a status ("E_IO") and its sentence. Static storage. threads: hot. */
KINETO_API const char *kineto_status_name(kineto_status status);
KINETO_API const char *kineto_status_text(kineto_status status);

/** Version of the library that is loaded, "MAJOR.MINOR.PATCH". Static storage. threads:
 *  hot. */
KINETO_API const char *kineto_version(void);

/** Neutral activity kinds: X(NAME, value, "name", enabled by default).
 *  Numbers 0..17 follow the generic-accelerator proposal for Kineto; 18.. are ours.
 *  The vendor of an activity is a property of its device, not of its kind. */
#define KINETO_KIND_MAP(X)                                                                         \
    X(CPU_OP, 0, "cpu_op", 1)                                                                      \
    X(USER_ANNOTATION, 1, "user_annotation", 1)                                                    \
    X(GPU_USER_ANNOTATION, 2, "gpu_user_annotation", 1)                                            \
    X(GPU_MEMCPY, 3, "gpu_memcpy", 1)                                                              \
    X(GPU_MEMSET, 4, "gpu_memset", 1)                                                              \
    X(CONCURRENT_KERNEL, 5, "kernel", 1)                                                           \
    X(EXTERNAL_CORRELATION, 6, "external_correlation", 1)                                          \
    X(RUNTIME, 7, "runtime", 1)                                                                    \
    X(DRIVER, 8, "driver", 1)                                                                      \
    X(CPU_INSTANT_EVENT, 9, "cpu_instant_event", 1)                                                \
    X(PYTHON_FUNCTION, 10, "python_function", 1)                                                   \
    X(OVERHEAD, 11, "overhead", 1)                                                                 \
    X(COLLECTIVE_COMM, 12, "collective_comm", 0)                                                   \
    X(GPU_PM_COUNTER, 13, "gpu_pm_counter", 0)                                                     \
    X(MTIA_INSIGHT, 14, "mtia_insight", 1)                                                         \
    X(CUDA_SYNC, 15, "cuda_sync", 1)                                                               \
    X(CUDA_EVENT, 16, "cuda_event", 1)                                                             \
    X(CUDA_PROFILER_RANGE, 17, "cuda_profiler_range", 0)                                           \
    X(COUNTER, 18, "counter", 1)                                                                   \
    X(MEMORY, 19, "memory", 1)                                                                     \
    X(CPU_SAMPLE, 20, "cpu_sample", 1)                                                             \
    X(THREAD_STATE, 21, "thread_state", 1)                                                         \
    X(BLOCKING_CALL, 22, "blocking_call", 1)                                                       \
    X(OPENMP, 23, "openmp", 1)                                                                     \
    X(MPI, 24, "mpi", 1)

typedef enum kineto_kind {
#define KINETO_X(name, value, text, on) KINETO_KIND_##name = (value),
    KINETO_KIND_MAP(KINETO_X)
#undef KINETO_X
    KINETO_KIND_COUNT = 25
} kineto_kind;

/** Vendors' spellings of neutral kinds: X(NAME, the neutral kind). Config, traces and plug-ins may use any of them;
 *  internally there is only the neutral kind, and the spelling is a property. */
#define KINETO_KIND_ALIAS_MAP(X)                                                                   \
    X(CUDA_RUNTIME, RUNTIME)                                                                       \
    X(CUDA_DRIVER, DRIVER)                                                                         \
    X(MTIA_RUNTIME, RUNTIME)                                                                       \
    X(MTIA_CCP_EVENTS, CONCURRENT_KERNEL)                                                          \
    X(MTIA_COUNTERS, GPU_PM_COUNTER)                                                               \
    X(GLOW_RUNTIME, RUNTIME)                                                                       \
    X(HPU_OP, RUNTIME)                                                                             \
    X(XPU_RUNTIME, RUNTIME)                                                                        \
    X(XPU_DRIVER, DRIVER)                                                                          \
    X(XPU_SCOPE_PROFILER, GPU_PM_COUNTER)                                                          \
    X(XPU_SYNC, CUDA_SYNC)                                                                         \
    X(PRIVATEUSE1_RUNTIME, RUNTIME)                                                                \
    X(PRIVATEUSE1_DRIVER, DRIVER)                                                                  \
    X(HARDWARE_COUNTERS, GPU_PM_COUNTER)

/* Old names stay usable; KINETO_DEPRECATED_KINDS (opt in) makes the compiler point them out. */
#if defined(KINETO_DEPRECATED_KINDS) && defined(__GNUC__)
#define KINETO_OLD_KIND __attribute__((deprecated("use the neutral kind")))
#else
#define KINETO_OLD_KIND
#endif
typedef enum kineto_kind_alias {
#define KINETO_X(name, neutral) KINETO_KIND_##name KINETO_OLD_KIND = KINETO_KIND_##neutral,
    KINETO_KIND_ALIAS_MAP(KINETO_X)
#undef KINETO_X
} kineto_kind_alias;

/** Bits for kinds that plug-ins define; a bit is assigned when the name of a kind is announced. */
#define KINETO_KIND_OWN_FIRST 32
#define KINETO_KIND_OWN_COUNT 32
/** Bit that stands for all kinds defined by plug-ins that are enabled by default. */
#define KINETO_KIND_OWN_DEFAULT 31

/** Bit of a kind in an enabled mask. */
#define KINETO_KIND_BIT(kind) (UINT64_C(1) << (unsigned)(kind))

/** Mask of the kinds that are enabled by default; a compile-time constant. */
#define KINETO_DEFAULT_BIT(name, value, text, on) | (UINT64_C(on) << (value))
#define KINETO_KINDS_NEUTRAL_DEFAULT (UINT64_C(0) KINETO_KIND_MAP(KINETO_DEFAULT_BIT))
#define KINETO_KINDS_DEFAULT                                                                       \
    (KINETO_KINDS_NEUTRAL_DEFAULT | KINETO_KIND_BIT(KINETO_KIND_OWN_DEFAULT))
#define KINETO_KINDS_NEUTRAL (KINETO_KIND_BIT(KINETO_KIND_COUNT) - 1)
#define KINETO_KINDS_OWN (UINT64_C(0xffffffff) << KINETO_KIND_OWN_FIRST)
#define KINETO_KINDS_ALL                                                                           \
    (KINETO_KINDS_NEUTRAL | KINETO_KINDS_OWN | KINETO_KIND_BIT(KINETO_KIND_OWN_DEFAULT))

/** Neutral name of a kind ("kernel"); "unknown" for a number out of range. Static storage. threads:
 *  hot. */
KINETO_API const char *kineto_kind_name(uint32_t kind);

/** Parse a comma-separated list of kind names, neutral, any vendor's alias or announced by a plug-in
 *  of this process, any case, into a mask.
 *  @param mask  receives the union; "default" and "all" are accepted as items.
 *  @return KINETO_OK, or KINETO_E_ARGUMENT; the message names the unknown kind.
 *  threads: any. */
KINETO_API kineto_status kineto_kinds_parse(const char *list, uint64_t *mask, kineto_error *err);

/** Message levels of KINETO_LOG_LEVEL; messages below the level are dropped. */
typedef enum kineto_log_level {
    KINETO_LOG_VERBOSE = 0,
    KINETO_LOG_INFO = 1,
    KINETO_LOG_WARNING = 2,
    KINETO_LOG_STAGE = 3,
    KINETO_LOG_ERROR = 4,
    KINETO_LOG_OFF = 5
} kineto_log_level;

#ifdef __cplusplus
}
#endif
#endif
