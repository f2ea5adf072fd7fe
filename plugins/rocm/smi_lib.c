/* ROCm SMI's library, and the mapping of its GPUs to HIP's numbers: it counts the GPUs of the machine,
 * HIP those that are visible, and both know their places on the PCI bus. */
#include "smi.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>

#define VARIABLE "CKINETO_ROCM_SMI_LIBRARY"

rp_smi_api rp_smi;

/* The library that the user names, else an installed one. */
static void *open_smi_library(char why[CP_TEXT_BYTES])
{
    static const char *const names[] = {"librocm_smi64.so.7", "librocm_smi64.so.1", "librocm_smi64.so",
                                        "/opt/rocm/lib/librocm_smi64.so"};
    const char *wanted = secure_getenv(VARIABLE);
    void *handle = NULL;
    if (wanted && *wanted) {
        handle = dlopen(wanted, RTLD_NOW | RTLD_LOCAL);
        const char *text = handle ? NULL : dlerror();
        if (!handle)
            snprintf(why, CP_TEXT_BYTES, "ROCm SMI: cannot open the library that " VARIABLE " names: %.200s",
                     text ? text : "no reason given");
        return handle;
    }
    for (size_t i = 0; i < CP_COUNT(names) && !handle; i++)
        handle = dlopen(names[i], RTLD_NOW | RTLD_LOCAL);
    if (!handle)
        snprintf(why, CP_TEXT_BYTES,
                 "ROCm SMI was not found (%s and others); install the package rocm-smi-lib, or name the "
                 "library in " VARIABLE,
                 names[0]);
    return handle;
}

/* Returns a needed function that is missing; NULL: none is. */
static const char *fill_smi_table(void *handle, rp_smi_api *api)
{
    static const struct {
        const char *name;
        size_t offset;
        bool needed;
    } symbols[] = {
#define RP_X(member, function, parameters, needed)                                                 \
    {"rsmi_" #function, offsetof(rp_smi_api, member), needed},
        RP_SMI_MAP(RP_X)
#undef RP_X
    };
    for (size_t i = 0; i < CP_COUNT(symbols); i++) {
        void *address = dlsym(handle, symbols[i].name);
        if (!address && symbols[i].needed)
            return symbols[i].name;
        memcpy((char *)api + symbols[i].offset, &address, sizeof address);
    }
    return NULL;
}

/* Opens the library once; it stays open for later sessions. */
static bool load_smi(char why[CP_TEXT_BYTES])
{
    rp_smi_api api;
    void *handle = rp_smi.init ? NULL : open_smi_library(why);
    if (rp_smi.init)
        return true;
    if (!handle)
        return false;
    const char *missing = fill_smi_table(handle, &api);
    if (missing) {
        snprintf(why, CP_TEXT_BYTES, "ROCm SMI is too old: %s is missing; install ROCm 6.2 or later",
                 missing);
        dlclose(handle);
        return false;
    }
    rp_smi = api;
    return true;
}

const char *rp_smi_problem(rp_smi_status status)
{
    static _Thread_local char number[64];
    switch (status) {
    case RP_SMI_NOT_SUPPORTED:
        return "not supported by this GPU (2)";
    case RP_SMI_FILE_ERROR:
        return "a file of the amdgpu driver cannot be read (3)";
    case RP_SMI_PERMISSION:
        return "no permission (4); an administrator has restricted it";
    case RP_SMI_MISSING:
        return "this version of ROCm SMI has no function for it";
    default:
        snprintf(number, sizeof number, "ROCm SMI returned %d", status);
        return number;
    }
}

/* The program may use ROCm SMI itself: it counts its users. */
bool rp_smi_open(char why[CP_TEXT_BYTES])
{
    if (!load_smi(why))
        return false;
    rp_smi_status status = rp_smi.init(0);
    if (status != RP_SMI_SUCCESS)
        snprintf(why, CP_TEXT_BYTES, "ROCm SMI cannot be used: %s", rp_smi_problem(status));
    return status == RP_SMI_SUCCESS;
}

void rp_smi_close(void) { (void)rp_smi.shut_down(); }

/* ROCm SMI has the domain in the upper half, and bits of the partition among the lower ones. */
static bool is_same_place(uint64_t place, const rp_device *device)
{
    return (uint32_t)(place >> 32) == device->pci_domain &&
           (uint32_t)(place & 0xffff) == (device->pci_place & 0xffff);
}

/* Asked once for each GPU and session. */
int64_t rp_smi_find(const rp_device *device)
{
    uint32_t count = 0;
    if (rp_smi.device_count(&count) != RP_SMI_SUCCESS)
        return -1;
    for (uint32_t i = 0; i < count; i++) {
        uint64_t place = 0;
        if (rp_smi.pci_place(i, &place) == RP_SMI_SUCCESS && is_same_place(place, device))
            return i;
    }
    return -1;
}
