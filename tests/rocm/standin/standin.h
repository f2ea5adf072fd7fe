/* A stand-in for AMD's libraries: librocprofiler-sdk (versions 0.5 and 1.x by choice), and libamdhip64
 * with a "GPU" that is a thread. Nothing here uses declarations of plugins/rocm: offsets are those of the
 * vendor's headers, written down once more.
 *
 * CKINETO_ROCM_STANDIN="name=value …":
 *   version=500|10000|10300   layouts and numbers of kinds of this version
 *   gpus=N                    GPUs
 *   fail=FUNCTION:STATUS[:N]  the function (without rocprofiler_) returns this; only its Nth call
 *   kernel_us=N               how long a kernel is busy (the thread sleeps)
 *   unknown=N short=N timeless=N nameless=N   every Nth kernel's record is of an unknown kind, is cut,
 *                             has no time; symbols of every Nth kernel are not reported
 *   clock=odd                 times of a clock that is none of the system's
 *   first=1                   another tool is configured before those of the environment
 *   full=N                    a buffer holds at most N records
 */
#ifndef ROCM_STANDIN_H
#define ROCM_STANDIN_H

#include <stddef.h>
#include <stdint.h>

#define API __attribute__((visibility("default")))

/* ---- sdk.c, for the fake HIP ------------------------------------------------------------------- */
enum { SERVICE_HIP, SERVICE_KERNEL, SERVICE_COPY, SERVICE_MEMORY, SERVICE_SCRATCH, SERVICE_RCCL, SERVICE_GRAPH, SERVICE_HSA, SERVICES };

typedef struct si_ids {
    uint64_t internal, external[SERVICES];
    uint32_t active; /* bit per service whose context was active at the call */
} si_ids;

/** What rocprofiler-register does at the first call of a runtime: load the tools. */
API void si_start(void);
API long si_number(const char *name, long otherwise);
API int si_version(void);
API uint64_t si_now(void);
/** Begin a call: its ids, for the records of the call and of the work that it launches. */
API si_ids si_enter(uint32_t service, int32_t operation);
API void si_leave(uint32_t service, int32_t operation, const si_ids *ids, uint64_t start);
typedef struct si_kernel {
    uint64_t start, end, kernel, queue;
    int gpu;
    uint32_t grid[3], block[3], local;
} si_kernel;
API void si_kernel_done(const si_ids *ids, const si_kernel *k);
API void si_copy_done(const si_ids *ids, int operation, int gpu, uint64_t bytes, uint64_t start,
                      uint64_t end);
API void si_memory_done(const si_ids *ids, int operation, int gpu, uint64_t address, uint64_t bytes,
                        uint64_t start, uint64_t end);
API void si_scratch_done(const si_ids *ids, int gpu, uint64_t start, uint64_t end);
API void si_graph_done(const si_ids *ids, uint64_t graph, uint64_t kernels, uint64_t start, uint64_t end);
/** A kernel's symbol, as when its code object is loaded. */
API void si_load_kernel(uint64_t kernel, const char *name);
API void si_marker(int32_t operation, int phase, const char *text, uint64_t id, uint64_t result);

/* Operations of HIP_RUNTIME_API. */
enum { OP_LAUNCH, OP_COPY, OP_MALLOC, OP_FREE, OP_GRAPH, OP_SYNC, OP_GET_DEVICE, HIP_OPS };
enum { MARKER_MARK, MARKER_PUSH, MARKER_POP, MARKER_START, MARKER_STOP };

#endif
