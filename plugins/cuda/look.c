/* What `ckineto doctor` says: would recording work here? */
#include "cuda.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CP_API __attribute__((visibility("default")))

enum { FINE = 0, ABSENT = 1, BROKEN = 2 };

static const char *why_not(cp_cuda_result result)
{
    switch (result) {
    case 802: /* CUDA_ERROR_SYSTEM_NOT_READY */
        return ", it is not ready: GPUs that are joined by NVSwitch need nvidia-fabricmanager to "
               "run";
    case 803: /* CUDA_ERROR_SYSTEM_DRIVER_MISMATCH */
        return ", libcuda and the kernel's module are of different versions, as after an update: "
               "load the module anew, or restart the machine";
    case 804: /* CUDA_ERROR_COMPAT_NOT_SUPPORTED_ON_DEVICE */
        return ", this libcuda is one for compatibility, which this GPU does not support: use the "
               "driver's own";
    default:
        return "; see nvidia-smi";
    }
}

static int look_at_driver(char *text, size_t size, int *count)
{
    int driver = 0;
    cp_cuda_result result = cp_driver.init(0);
    if (result == 0)
        result = cp_driver.device_count(count);
    if (result == 100 || (result == 0 && *count == 0)) { /* CUDA_ERROR_NO_DEVICE */
        snprintf(text, size, "there is a driver, but no GPU");
        return ABSENT;
    }
    if (result != 0) {
        (void)cp_driver.driver_version(&driver);
        snprintf(text, size, "the CUDA driver does not work: cuInit says error %d%s", result,
                 why_not(result));
        return BROKEN;
    }
    return FINE;
}

/* Does CUPTI let us? What is switched on is switched off again. */
static int look_at_cupti(char *text, size_t size)
{
    char why[CP_TEXT_BYTES];
    cp_result result = cp_cupti.register_callbacks(cp_buffers_request, cp_buffers_complete);
    if (result == CP_SUCCESS)
        result = cp_cupti.enable(CP_KIND_CONCURRENT_KERNEL);
    if (result == CP_SUCCESS) {
        (void)cp_cupti.disable(CP_KIND_CONCURRENT_KERNEL);
        return FINE;
    }
    cp_explain(result, "kernels cannot be recorded", why);
    snprintf(text, size, "%s", why);
    return BROKEN;
}

CP_API int ckineto_cuda_look(char *text, size_t size);

/** For the command: 0 fine, 1 not here, 2 broken; `text` says it in a sentence. */
int ckineto_cuda_look(char *text, size_t size)
{
    char why[CP_TEXT_BYTES];
    int count = 0, driver = 0;
    if (secure_getenv("KINETO_DISABLE_CUPTI")) {
        snprintf(text, size, "KINETO_DISABLE_CUPTI is set: CUPTI is left alone");
        return ABSENT;
    }
    if (!cp_libs_open(why)) {
        snprintf(text, size, "%s", why);
        return ABSENT;
    }
    int state = look_at_driver(text, size, &count);
    if (state == FINE)
        state = look_at_cupti(text, size);
    if (state != FINE)
        return state;
    (void)cp_driver.driver_version(&driver);
    const cp_device *first = cp_device_of(0);
    snprintf(text, size, "%d GPU%s (%s), driver for CUDA %d.%d, CUPTI %u", count,
             count == 1 ? "" : "s", first ? first->name : "without a name", driver / 1000,
             driver % 1000 / 10, cp_cupti_version());
    return FINE;
}
