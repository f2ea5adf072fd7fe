/* A software accelerator: its interface for programs, then that for profilers. */
#ifndef SIM_H
#define SIM_H
#include <ckineto/plugin.h>

#define SIM_API __attribute__((visibility("default")))
/* Work of a queue is done in order; queues work in parallel, and calls return at once. What the
 * work uses, its name included, must stay valid until sim_synchronize. -1: it cannot be started. */
enum { SIM_COMPUTE_0, SIM_COMPUTE_1, SIM_COPIES, SIM_DMA_ENGINE, SIM_QUEUES };
typedef void (*sim_kernel)(void *args, uint32_t item); /* once for each item of the grid */
SIM_API int sim_launch(uint32_t queue, const char *name, uint32_t grid, sim_kernel, void *args);
SIM_API int sim_copy(uint32_t queue, void *to, const void *from, uint32_t bytes);
SIM_API void sim_synchronize(uint32_t queue);

/* ---- for profilers ----------------------------------------------------------------------------- */
typedef struct sim_span {
    const char *name;
    int64_t start, end; /* of a call: CLOCK_MONOTONIC_RAW; on the device: sim_time */
    int32_t dev, row;   /* device and queue, or process and thread */
} sim_span;
typedef struct sim_work {
    enum { SIM_KERNEL, SIM_COPY, SIM_DMA } operation;
    uint32_t size; /* the grid of a kernel, else bytes */
    sim_kernel kernel;
    void *to; /* a kernel's arguments */
    const void *from;
    int64_t id;              /* from 1 */
    sim_span call, work;     /* the program's call, the device's work */
    uint64_t session, owner; /* the profiler's, 0 until it sets them */
} sim_work;
/* Called on the caller's thread before work is queued, and on the queue's when it is finished. */
void sim_hook(void (*hook)(sim_work *work, bool finished));
uint64_t sim_watts(void);
int64_t sim_time(void); /* ns since an unknown moment, 40 ppm too fast */
void sim_time_jump(int64_t ns);
const KinetoPlugin_TraceBuilder *sim_faults(const KinetoPlugin_TraceBuilder *host);
#endif
