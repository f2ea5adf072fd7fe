/* NVML's library, and the mapping of its GPUs to CUDA's numbers. NVML counts the GPUs of the
 * machine; CUDA counts those that CUDA_VISIBLE_DEVICES leaves, in an order of its own, or instances
 * of them (MIG). Both report UUIDs, by which they are matched. */
#include "nvml.h"

#include <ctype.h>
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define VARIABLE "CKINETO_NVML_LIBRARY"

cp_nvml_api cp_nvml;

/* ---- the program ----------------------------------------------------------------------------- */

bool cp_is_cuda_uninitialized(void)
{
    enum { NOT_INITIALIZED = 3, DEINITIALIZED = 4 };
    int count = 0;
    cp_cuda_result result = cp_driver.device_count ? cp_driver.device_count(&count) : 0;
    return result == NOT_INITIALIZED || result == DEINITIALIZED;
}

/* ---- the library ----------------------------------------------------------------------------- */

/* The functions of CP_NVML_MAP by symbol, with their places in cp_nvml. */
static const struct nvml_symbol {
    const char *name;
    size_t offset;
    bool needed;
} nvml_symbols[] = {
#define CP_X(member, nvml_symbol, parameters, needed)                                              \
    {#nvml_symbol, offsetof(cp_nvml_api, member), (needed) != 0},
    CP_NVML_MAP(CP_X)
#undef CP_X
        {"nvmlErrorString", offsetof(cp_nvml_api, error_text), false}};

/* Opens the library that the user names, else the driver's. */
static void *open_nvml_library(char why[CP_TEXT_BYTES])
{
    static const char *const names[] = {"libnvidia-ml.so.1", "libnvidia-ml.so"};
    const char *wanted = secure_getenv(VARIABLE), *text;
    void *handle = NULL;
    if (wanted && *wanted) {
        handle = dlopen(wanted, RTLD_NOW | RTLD_LOCAL);
        text = handle ? NULL : dlerror();
        if (!handle)
            snprintf(why, CP_TEXT_BYTES, "NVML: cannot open the library that %s names: %.200s",
                     VARIABLE, text ? text : "no reason given");
        return handle;
    }
    for (size_t i = 0; i < CP_COUNT(names) && !handle; i++)
        handle = dlopen(names[i], RTLD_NOW | RTLD_LOCAL);
    if (!handle)
        snprintf(why, CP_TEXT_BYTES,
                 "NVML was not found (%s); install NVIDIA's driver, or name the library in %s",
                 names[0], VARIABLE);
    return handle;
}

/* Fills the table of functions. Returns a needed symbol that is missing; NULL: none is. */
static const char *fill_nvml_table(void *handle, cp_nvml_api *api)
{
    for (size_t i = 0; i < CP_COUNT(nvml_symbols); i++) {
        void *address = dlsym(handle, nvml_symbols[i].name);
        if (!address && nvml_symbols[i].needed)
            return nvml_symbols[i].name;
        memcpy((char *)api + nvml_symbols[i].offset, &address, sizeof address);
    }
    return NULL;
}

/* Opens the library once; it stays open for later sessions. */
static bool load_nvml(char why[CP_TEXT_BYTES])
{
    cp_nvml_api api;
    void *handle = cp_nvml.init ? NULL : open_nvml_library(why);
    if (cp_nvml.init)
        return true;
    if (!handle)
        return false;
    const char *missing = fill_nvml_table(handle, &api);
    if (missing) {
        snprintf(why, CP_TEXT_BYTES, "NVML is too old: %s is missing; install a newer driver",
                 missing);
        dlclose(handle);
        return false;
    }
    cp_nvml = api;
    return true;
}

const char *cp_nvml_problem(cp_nvml_result result)
{
    static const struct {
        cp_nvml_result result;
        const char *text;
    } problems[] = {
        {CP_NVML_NOT_SUPPORTED, "not supported by this GPU (3)"},
        {CP_NVML_NO_PERMISSION, "no permission (4); an administrator has restricted it"},
        {CP_NVML_DRIVER_NOT_LOADED, "NVIDIA's driver is not loaded (9); load it"},
        {CP_NVML_LIBRARY_NOT_FOUND, "a library of NVIDIA's driver is missing (12); reinstall it"},
        {CP_NVML_GPU_IS_LOST, "the GPU does not answer any more (15); see the system's log"},
        {CP_NVML_OPERATING_SYSTEM,
         "the system denies this process the GPU (17); give the container its devices"},
        {CP_NVML_VERSION_MISMATCH, "driver and library have different versions (18), as after an "
                                   "update; reload the driver, or restart the machine"},
    };
    static _Thread_local char number[128];
    for (size_t i = 0; i < CP_COUNT(problems); i++) {
        if (problems[i].result == result)
            return problems[i].text;
    }
    const char *text = cp_nvml.error_text ? cp_nvml.error_text(result) : NULL;
    snprintf(number, sizeof number, "%.100s (%d)", text ? text : "NVML error", result);
    return number;
}

bool cp_nvml_open(char why[CP_TEXT_BYTES])
{
    if (!load_nvml(why))
        return false;
    cp_nvml_result result = cp_nvml.init();
    if (result != CP_NVML_SUCCESS)
        snprintf(why, CP_TEXT_BYTES, "NVML cannot be used: %s", cp_nvml_problem(result));
    return result == CP_NVML_SUCCESS;
}

void cp_nvml_close(void) { (void)cp_nvml.shutdown(); }

/* ---- mapping of GPUs ------------------------------------------------------------------------- */

/* Skips "GPU-" or "MIG-". */
static const char *skip_uuid_prefix(const char *uuid)
{
    bool named = strncmp(uuid, "GPU-", 4) == 0 || strncmp(uuid, "MIG-", 4) == 0;
    return named ? uuid + 4 : uuid;
}

/* Compares two UUIDs, with or without prefix and dashes, in any case. */
static bool is_same_uuid(const char *a, const char *b)
{
    for (a = skip_uuid_prefix(a), b = skip_uuid_prefix(b);; a++, b++) {
        a += strspn(a, "-");
        b += strspn(b, "-");
        if (tolower((unsigned char)*a) != tolower((unsigned char)*b))
            return false;
        if (!*a)
            return true;
    }
}

/* NVML's number of GPUs; 0 also if it fails. */
static unsigned count_gpus(void)
{
    unsigned count = 0;
    return cp_nvml.device_count(&count) == CP_NVML_SUCCESS ? count : 0;
}

static cp_nvml_device get_gpu(unsigned index)
{
    cp_nvml_device device = NULL;
    return cp_nvml.device_at(index, &device) == CP_NVML_SUCCESS ? device : NULL;
}

/* The GPU whose UUID is that of a CUDA device; NULL: none, as for MIG instances. */
static cp_nvml_device find_gpu_by_uuid(const char *uuid)
{
    char text[CP_NVML_UUID_BYTES + 1];
    for (unsigned i = 0, count = count_gpus(); i < count && cp_nvml.uuid; i++) {
        cp_nvml_device device = get_gpu(i);
        memset(text, 0, sizeof text);
        if (device && cp_nvml.uuid(device, text, CP_NVML_UUID_BYTES) == CP_NVML_SUCCESS &&
            is_same_uuid(text, uuid))
            return device;
    }
    return NULL;
}

/* The GPU that contains a MIG instance. The driver reports the UUID of the instance, but sensors
 * belong to the GPU. */
static cp_nvml_device find_gpu_of_instance(const char *uuid)
{
    char text[CP_NVML_UUID_BYTES];
    cp_nvml_device instance = NULL, device = NULL;
    snprintf(text, sizeof text, "MIG-%s", skip_uuid_prefix(uuid));
    if (!cp_nvml.device_of_uuid || !cp_nvml.gpu_of_instance ||
        cp_nvml.device_of_uuid(text, &instance) != CP_NVML_SUCCESS ||
        cp_nvml.gpu_of_instance(instance, &device) != CP_NVML_SUCCESS)
        return NULL;
    return device;
}

/* True if the GPU is in the list already. */
static bool has_gpu(const cp_nvml_gpu *gpus, uint32_t count, cp_nvml_device device)
{
    for (uint32_t i = 0; i < count; i++) {
        if (gpus[i].handle == device)
            return true;
    }
    return false;
}

/* The GPUs of CUDA's devices. Several instances of one GPU share its sensors: it is listed once. */
static uint32_t find_cuda_gpus(cp_nvml_gpu *gpus, int devices)
{
    uint32_t count = 0;
    for (int id = 0; id < devices && count < CP_MAX_DEVICES; id++) {
        const cp_device *d = cp_device_of((uint32_t)id);
        if (!d || !d->uuid[0])
            continue;
        cp_nvml_gpu gpu = {.handle = find_gpu_by_uuid(d->uuid), .id = id};
        if (!gpu.handle) {
            gpu.handle = find_gpu_of_instance(d->uuid);
            gpu.of_instance = gpu.handle != NULL;
        }
        if (gpu.handle && !has_gpu(gpus, count, gpu.handle)) /* energy counts once */
            gpus[count++] = gpu;
    }
    return count;
}

/* All GPUs of the machine by NVML's numbers, for programs without CUDA's devices. */
static uint32_t find_all_gpus(cp_nvml_gpu *gpus)
{
    uint32_t count = 0;
    for (unsigned i = 0, all = count_gpus(); i < all && count < CP_MAX_DEVICES; i++) {
        cp_nvml_gpu gpu = {.handle = get_gpu(i), .id = (int32_t)i, .is_nvml_number = true};
        if (gpu.handle)
            gpus[count++] = gpu;
    }
    return count;
}

bool cp_nvml_find(cp_nvml_gpu gpus[CP_MAX_DEVICES], uint32_t *count)
{
    int devices = 0;
    *count = 0;
    if (cp_is_cuda_uninitialized())
        return false;
    cp_cuda_result result = cp_driver.device_count ? cp_driver.device_count(&devices) : -1;
    *count = result == 0 ? find_cuda_gpus(gpus, devices) : find_all_gpus(gpus);
    return true;
}
