/* The check of `ckineto doctor`: would recording work on this machine? The command finds
 * ckineto_cuda_look by name in the plug-in. */
#include "cuda.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CP_API __attribute__((visibility("default")))

enum { LOOK_FINE = 0, LOOK_ABSENT = 1, LOOK_BROKEN = 2 };

/* Advice for errors of cuInit whose text does not say what to do. */
static const char *get_init_advice(cp_cuda_result result)
{
    switch (result) {
    case 802: /* CUDA_ERROR_SYSTEM_NOT_READY */
        return ", the system is not ready; GPUs that are joined by NVSwitch need a running "
               "nvidia-fabricmanager";
    case 803: /* CUDA_ERROR_SYSTEM_DRIVER_MISMATCH */
        return ", libcuda and the kernel module have different versions, as after an update; "
               "reload the module, or restart the machine";
    case 804: /* CUDA_ERROR_COMPAT_NOT_SUPPORTED_ON_DEVICE */
        return ", this GPU does not support libcuda of the compatibility package; use the "
               "driver's own";
    default:
        return "; see nvidia-smi";
    }
}

/* Counts the GPUs; `text` gets the reason if there are none or the driver fails. */
static int check_driver_works(char *text, size_t size, int *count)
{
    int driver = 0;
    cp_cuda_result result = cp_driver.init(0);
    if (result == 0)
        result = cp_driver.device_count(count);
    if (result == 100 || (result == 0 && *count == 0)) { /* CUDA_ERROR_NO_DEVICE */
        snprintf(text, size, "a driver is installed, but no GPU was found");
        return LOOK_ABSENT;
    }
    if (result != 0) {
        (void)cp_driver.driver_version(&driver);
        snprintf(text, size, "the CUDA driver does not work: cuInit returned error %d%s", result,
                 get_init_advice(result));
        return LOOK_BROKEN;
    }
    return LOOK_FINE;
}

/* Checks that CUPTI can record kernels; switches them off again. */
static int check_cupti_works(char *text, size_t size)
{
    char why[CP_TEXT_BYTES];
    cp_result result = cp_cupti.register_callbacks(cp_buffers_request, cp_buffers_complete);
    if (result == CP_SUCCESS)
        result = cp_cupti.enable(CP_KIND_CONCURRENT_KERNEL);
    if (result == CP_SUCCESS) {
        (void)cp_cupti.disable(CP_KIND_CONCURRENT_KERNEL);
        return LOOK_FINE;
    }
    cp_explain(result, "kernels cannot be recorded", why);
    snprintf(text, size, "%s", why);
    return LOOK_BROKEN;
}

CP_API int ckineto_cuda_look(char *text, size_t size);

/** @return 0: it works, 1: not installed, 2: broken; `text` gets a message for the user. */
int ckineto_cuda_look(char *text, size_t size)
{
    char why[CP_TEXT_BYTES];
    int count = 0, driver = 0;
    if (secure_getenv("KINETO_DISABLE_CUPTI")) {
        snprintf(text, size, "KINETO_DISABLE_CUPTI is set; CUPTI is not used");
        return LOOK_ABSENT;
    }
    if (!cp_libs_open(why)) {
        snprintf(text, size, "%s", why);
        return LOOK_ABSENT;
    }
    int state = check_driver_works(text, size, &count);
    if (state == LOOK_FINE)
        state = check_cupti_works(text, size);
    if (state != LOOK_FINE)
        return state;
    (void)cp_driver.driver_version(&driver);
    const cp_device *first = cp_device_of(0);
    snprintf(text, size, "%d GPU%s (%s), driver for CUDA %d.%d, CUPTI %u", count,
             count == 1 ? "" : "s", first ? first->name : "without a name", driver / 1000,
             driver % 1000 / 10, cp_cupti_version());
    return LOOK_FINE;
}
