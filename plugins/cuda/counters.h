/* Common parts of the counter samplers: nvml.c (power, clocks and the like) and pm.c
 * (multiprocessors). Each has a thread that reads at a fixed rate and delivers to the host. */
#ifndef CP_COUNTERS_H
#define CP_COUNTERS_H

#include "cuda.h"

#include <sys/types.h>

/** Has the program not started CUDA yet? The program does that, not we: one that forked after us
 * could not use it. */
bool cp_is_cuda_uninitialized(void);

#endif
