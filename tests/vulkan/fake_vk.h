/* A scripted Vulkan driver with one device, several queues, and a clock that the test moves. Submissions are
 * executed by fake_vk_run, or at once. It is a layer's end of the chain: fake_vk_get_instance_proc. */
#ifndef FAKE_VK_H
#define FAKE_VK_H

#define VK_NO_PROTOTYPES
#include <vulkan/vulkan.h>

#include <stdbool.h>

/* What the driver does not have, refuses, or does wrong. */
typedef enum fake_fault {
    FAKE_NO_BITS = 1,          /* queues without timestamps */
    FAKE_NO_POOL = 2,          /* vkCreateQueryPool fails */
    FAKE_NO_FENCE = 4,         /* vkCreateFence fails */
    FAKE_NO_RESULTS = 8,       /* results are not copied */
    FAKE_NO_CALIBRATION = 16,  /* no extension for clocks */
    FAKE_NO_EXTENSIONS = 32,   /* devices with extensions are refused */
    FAKE_SUBMIT_FAILS = 64,    /* vkQueueSubmit returns an error */
    FAKE_NO_MEMORY = 128,      /* no memory that the host can read */
    FAKE_BACKWARDS = 256,      /* ends before starts */
    FAKE_CALIBRATION_FAILS = 512,
    FAKE_LOST = 1024           /* fences report a lost device */
} fake_fault;

extern unsigned fake_vk_faults;
/** Timestamps: valid bits, ns per tick, an offset to CLOCK_MONOTONIC_RAW. */
extern uint32_t fake_vk_bits;
extern float fake_vk_period;
extern int64_t fake_vk_offset;
/** Execute submissions when they are made. */
extern bool fake_vk_at_once;

PFN_vkVoidFunction fake_vk_get_instance_proc(VkInstance instance, const char *name);
PFN_vkVoidFunction fake_vk_get_device_proc(VkDevice device, const char *name);
/** Execute everything that was submitted. */
void fake_vk_run(void);
/** Commands that were executed, as an independent count. */
unsigned fake_vk_kernels(void);
void fake_vk_clear(void);
/** Query pools, buffers, memories and fences that exist. */
int fake_vk_objects(void);
#endif
