/* A stand-in for Intel's libraries: libpti_view (versions 0.10 to 1.2 by choice), libze_loader, and a
 * "SYCL" whose work is only written down. Nothing here uses declarations of plugins/xpu: records are
 * those of PTI's headers, written down once more.
 *
 * CKINETO_XPU_STANDIN="name=value …":
 *   version=10|12|17|1002     major times 1000 plus minor: 0.10, 0.12, 0.17, 1.2
 *   gpus=N                    GPUs; 0: PTI finds none
 *   fail=FUNCTION:STATUS[:N]  the function (ptiViewEnable, with a view: ptiViewEnable_8) returns this; only
 *                             its Nth call
 *   unknown=N short=N timeless=N nameless=N   every Nth kernel's record is of an unknown kind, is cut,
 *                             has no time, has no name
 *   keep=1                    buffers are not given back by a flush
 *   plain=1                   no SYCL: records have no queue of SYCL
 *   utc=1                     no function for another clock
 */
#ifndef XPU_STANDIN_H
#define XPU_STANDIN_H

#include <stddef.h>
#include <stdint.h>

#define API __attribute__((visibility("default")))

enum { VIEW_KERNEL = 1, VIEW_CPU = 2, VIEW_DRIVER = 3, VIEW_OVERHEAD = 5, VIEW_RUNTIME = 6, VIEW_EXTERNAL = 7,
       VIEW_COPY = 8, VIEW_FILL = 9, VIEW_P2P = 10, VIEW_SYNC = 11, VIEW_COMMS = 12, VIEWS };

typedef struct si_kernel_v2 {
    uint32_t kind, pad;
    void *queue, *context;
    const char *name, *source_file;
    uint64_t line, id;
    uint32_t correlation, thread;
    char pci[16];
    uint8_t uuid[16];
    uint64_t append, start, end, submit, task_begin, enqk_begin, node, sycl_queue;
    uint32_t invocation, pad_end;
    void *device; /* since 1.0 */
    uint32_t engine_ordinal, engine_index;
} si_kernel_v2;
typedef struct si_copy_v2 {
    uint32_t kind, type, src, dst;
    void *queue, *context;
    const char *name;
    char pci[16];
    uint8_t uuid[16];
    uint64_t op;
    uint32_t correlation, thread;
    uint64_t append, start, end, submit, bytes, sycl_queue;
    void *device;
    uint32_t engine_ordinal, engine_index;
} si_copy_v2;
typedef struct si_p2p_v2 {
    uint32_t kind, type, src, dst;
    void *queue, *context;
    const char *name;
    char src_pci[16], dst_pci[16];
    uint8_t src_uuid[16], dst_uuid[16];
    uint64_t op;
    uint32_t correlation, thread;
    uint64_t append, start, end, submit, bytes, sycl_queue;
    void *src_device, *dst_device;
    uint32_t engine_ordinal, engine_index;
} si_p2p_v2;
typedef struct si_fill_v2 {
    uint32_t kind, type;
    void *queue, *context;
    const char *name;
    char pci[16];
    uint8_t uuid[16];
    uint64_t op;
    uint32_t correlation, thread;
    uint64_t append, start, end, submit, bytes, value, sycl_queue;
    void *device;
    uint32_t engine_ordinal, engine_index;
} si_fill_v2;
typedef struct si_sync {
    uint32_t kind, type;
    void *context, *queue, *event;
    uint64_t start, end;
    uint32_t thread, correlation, waits, result, api, group;
} si_sync;
typedef struct si_external {
    uint32_t kind, correlation;
    uint64_t id;
    uint32_t external_kind, pad;
} si_external;
typedef struct si_overhead {
    uint32_t kind, pad;
    uint64_t start, end;
    uint32_t thread, api;
    uint64_t count, duration;
    uint32_t overhead_kind, pad_end;
} si_overhead;
typedef struct si_api {
    uint32_t kind, pad;
    uint64_t start, end;
    uint32_t group, api, process, thread, correlation, result;
} si_api;
typedef struct si_named_call { /* before 0.11 */
    uint32_t kind, pad;
    const char *name;
    uint64_t start, end;
    uint32_t process, thread, correlation, pad_end;
} si_named_call;
typedef struct si_comms { /* since 0.17 */
    uint32_t kind, pad;
    uint64_t start, end;
    uint32_t process, thread;
    uint64_t send, receive, communicator;
    const char *name;
} si_comms;

/* ---- pti.c, for the fake SYCL, which finds these functions if PTI is loaded --------------------- */
typedef enum si_call { CALL_LAUNCH, CALL_COPY, CALL_FILL, CALL_WAIT, CALL_ALLOCATE, CALLS } si_call;

/** A call begins: its correlation id. */
API uint32_t si_begin_call(uint64_t *start);
/** A call of SYCL, and the one of Level Zero in it, has ended. */
API void si_end_call(si_call call, uint32_t correlation, uint64_t start);
typedef struct si_work {
    uint32_t view, correlation, thread, gpu, queue;
    uint64_t value, bytes, duration;
    const char *name;
} si_work;
/** Work that is done when the program waits. */
API void si_add_work(const si_work *work);
API void si_finish_work(void);
API void si_communicate(const char *name, uint64_t bytes);

/* ---- sycl.c, for programs ----------------------------------------------------------------------- */
API void xs_launch(uint32_t gpu, uint32_t queue, uint32_t kernel);
API void xs_copy(uint32_t gpu, uint64_t bytes);
API void xs_copy_to_gpu(uint32_t from, uint32_t to, uint64_t bytes);
API void xs_fill(uint32_t gpu, uint64_t bytes, uint64_t value);
API void xs_wait(void);
API void xs_allreduce(uint64_t bytes);

/* ---- kineto.c: another user of PTI ---------------------------------------------------------------- */
API int xk_start(void);
API unsigned xk_stop(void);

#endif
