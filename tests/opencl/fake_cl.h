/* A driver that does nothing, as scripted: what lies below the layer in test_layer. It checks how
 * it is used: an event that is touched after its last release is a misuse. */
#ifndef FAKE_CL_H
#define FAKE_CL_H

#define CL_TARGET_OPENCL_VERSION 300
#define CL_USE_DEPRECATED_OPENCL_1_0_APIS
#define CL_USE_DEPRECATED_OPENCL_1_1_APIS
#define CL_USE_DEPRECATED_OPENCL_1_2_APIS
#define CL_USE_DEPRECATED_OPENCL_2_0_APIS
#define CL_USE_DEPRECATED_OPENCL_2_1_APIS
#define CL_USE_DEPRECATED_OPENCL_2_2_APIS
#include <CL/cl_layer.h>

#include <stdbool.h>
#include <stdint.h>

typedef struct fake_cl_behaviour {
    int clock;           /* CLOCK_…; -1: a clock of its own, 1.0001 times as fast */
    bool deferred;       /* commands end when fake_cl_finish says so, not at once */
    bool late_callbacks; /* they end at once, but callbacks wait for fake_cl_finish */
    bool refuse_profiling;
    bool refuse_callbacks;
    bool no_times;
    bool reversed_times;
    bool has_timer;    /* clGetDeviceAndHostTimer */
    cl_int end_status; /* of commands; CL_COMPLETE or negative */
} fake_cl_behaviour;

/** Forget everything and behave like this from now on. Devices are new ones. */
void fake_cl_reset(const fake_cl_behaviour *behaviour);
const cl_icd_dispatch *fake_cl_table(void);
cl_device_id fake_cl_device(void);
cl_context fake_cl_context(void);
/** A kernel with this name: the handle is the name. */
cl_kernel fake_cl_kernel(const char *name);
/** End what runs and call what waits. */
void fake_cl_finish(void);
/** Events alive, uses of dead ones. */
int fake_cl_events(void);
int fake_cl_misuses(void);
/** Events made since the reset, and properties of the last queue as the driver saw them. */
int fake_cl_events_made(void);
cl_command_queue_properties fake_cl_queue_properties(void);
/** The next queue gets the handle of the last one. */
void fake_cl_reuse_queue(void);
/** The device's time now. */
int64_t fake_cl_now(void);

/* Two platforms, each with functions of its own under the names of extensions. */
cl_platform_id fake_cl_platform(int number);
/** Calls that the extension functions of a platform have got since the reset. */
int fake_cl_extension_calls(int platform);
/** Addresses that are memory of the device, and shared memory; others are unknown. */
extern char fake_cl_device_memory[64], fake_cl_shared_memory[64];
#endif
