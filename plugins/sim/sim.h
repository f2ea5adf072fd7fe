/* A software accelerator. Programs use the first part; the second is for a profiler of it: every
 * vendor's driver has something of the kind. */
#ifndef SIM_H
#define SIM_H

#include <stddef.h>
#include <stdint.h>

#define SIM_API __attribute__((visibility("default")))

/* The device has queues, 0 to SIM_QUEUES - 1. Work of one queue is done in order, queues work side
 * by side, and the caller goes on meanwhile: what work uses must stay until sim_synchronize. */
#define SIM_QUEUES 4u
typedef void (*sim_kernel)(void *arguments, uint32_t item); /* once for each item of the grid */

SIM_API void sim_launch(uint32_t queue, const char *name, uint32_t grid, sim_kernel kernel,
                        void *arguments);
SIM_API void sim_copy(uint32_t queue, void *to, const void *from, size_t bytes);
/** Gather rows whose beginnings are `pitch` apart. */
SIM_API void sim_dma(uint32_t queue, void *to, const void *from, size_t pitch, size_t row_bytes,
                     uint32_t rows);
SIM_API void sim_synchronize(uint32_t queue);
SIM_API void *sim_alloc(size_t bytes); /* zeroed memory of the device; NULL: there is no more */
SIM_API void sim_free(void *memory, size_t bytes);

/* ---- for profilers ----------------------------------------------------------------------------- */

typedef enum sim_operation { SIM_KERNEL, SIM_COPY, SIM_DMA, SIM_WAIT } sim_operation;

typedef struct sim_work {
    uint64_t id; /* of the call that caused it, from 1 */
    sim_operation operation;
    uint32_t queue, rows; /* rows of a kernel: its grid */
    char name[48];
    int64_t call_start, call_end; /* CLOCK_MONOTONIC_RAW */
    int64_t start, end;           /* sim_time */
    uint64_t operator_id;         /* this and the next: the profiler's, 0 until it sets them */
    uint32_t session, thread;
    sim_kernel kernel;
    void *to; /* of a kernel: its arguments */
    const void *from;
    size_t pitch, row_bytes;
} sim_work;

/** LAUNCH: on the caller's thread, before the work is queued; RETURN: there, when the call is over;
 *  FINISH: on the queue's thread, when the work is done, before those who wait for it wake up. */
typedef enum sim_phase { SIM_LAUNCH, SIM_RETURN, SIM_FINISH } sim_phase;
void sim_hook(void (*hook)(sim_phase phase, sim_work *work));
enum { SIM_WATTS, SIM_MEMORY_USED, SIM_SENSORS };
uint64_t sim_sensor(int sensor);
int64_t sim_time(void); /* ns since nobody knows when, 40 ppm too fast */
void sim_time_jump(int64_t ns);

#endif
