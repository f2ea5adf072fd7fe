/* A stand-in for libckineto-rt: the same exports that a source uses, with only a log inside.
 * As a shared library in its place it proves that a source needs only the public interface; linked
 * into a test it lets the test open and close windows. */
#ifndef FAKE_HOST_H
#define FAKE_HOST_H

#include <ckineto/plugin.h>
#include <ckineto/record.h>

typedef struct fake_activity {
    int32_t type, device, queue, clock;
    int64_t start, end, correlation;
    uint32_t flow;
    char name[96];
    bool bad_timestamps, has_bandwidth, has_block;
    uint64_t bytes;
    int64_t kernels; /* of a command buffer */
    int64_t grid[3];
} fake_activity;

typedef struct fake_sample {
    int32_t clock;
    int64_t device_ns;
    uint64_t before, after;
} fake_sample;

/** Open a window: create and start the registered profiler. false: the profiler refused. */
bool fake_host_open(void);
/** Ask for what there is; the window stays open. */
void fake_host_collect(void);
/** Close it: stop, collect, destroy. */
void fake_host_close(void);
/** Forget what was logged. */
void fake_host_clear(void);

uint32_t fake_host_activities(void);
const fake_activity *fake_host_activity(uint32_t index);
uint32_t fake_host_samples(void);
const fake_sample *fake_host_sample(uint32_t index);
uint64_t fake_host_requested(void);
uint64_t fake_host_dropped(void);
/** Calls of the builder that came when no window was open. */
uint64_t fake_host_late_calls(void);
#endif
