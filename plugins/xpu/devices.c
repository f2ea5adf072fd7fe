/* Devices as Level Zero lists them: PTI names the device of a record by its UUID. PTI has loaded Level
 * Zero's library and the program has initialised it when the first record comes. */
#include "xpu.h"

#include <dlfcn.h>
#include <stdio.h>

typedef struct xpu_device {
    uint8_t uuid[16];
    bool is_listed; /* by Level Zero: `properties` is set */
    xp_ze_device_properties properties;
} xpu_device;

/* Used under the lock under which buffers are read. Devices keep their numbers for all sessions. */
static xpu_device devices[XP_MAX_DEVICES];
static uint32_t device_count;
static bool is_listed;

/* ---- queries --------------------------------------------------------------------------------- */

typedef struct ze_functions {
#define XP_X(member, symbol, parameters) int(*member) parameters;
    XP_ZE_MAP(XP_X)
#undef XP_X
} ze_functions;

/* False: the program has not loaded Level Zero, or it lacks a function. */
static bool find_level_zero(ze_functions *out)
{
    void *library = cp_open_loaded("libze_loader");
    static const struct {
        const char *name;
        size_t offset;
    } symbols[] = {
#define XP_X(member, symbol, parameters) {#symbol, offsetof(ze_functions, member)},
        XP_ZE_MAP(XP_X)
#undef XP_X
    };
    for (size_t i = 0; i < CP_COUNT(symbols) && library; i++) {
        void *address = dlsym(library, symbols[i].name);
        if (!address)
            return false;
        memcpy((char *)out + symbols[i].offset, &address, sizeof address);
    }
    return library != NULL;
}

static void add_listed_device(const ze_functions *ze, void *handle)
{
    xp_ze_device_properties p = {.structure = XP_ZE_DEVICE_PROPERTIES};
    if (device_count == XP_MAX_DEVICES || ze->properties(handle, &p) != 0 || p.type != XP_ZE_GPU)
        return;
    xpu_device *d = &devices[device_count++];
    p.name[sizeof p.name - 1] = '\0';
    *d = (xpu_device){.is_listed = true, .properties = p};
    memcpy(d->uuid, p.uuid, sizeof d->uuid);
}

/* SYCL, and Kineto, number GPUs in the order of Level Zero's drivers and their devices. */
static void list_devices(void)
{
    enum { MAX_DRIVERS = 8 };
    ze_functions ze;
    void *drivers[MAX_DRIVERS], *handles[XP_MAX_DEVICES];
    uint32_t driver_count = MAX_DRIVERS;
    is_listed = true;
    if (!find_level_zero(&ze) || ze.drivers(&driver_count, drivers) != 0)
        return;
    for (uint32_t i = 0; i < driver_count && i < MAX_DRIVERS; i++) {
        uint32_t count = XP_MAX_DEVICES;
        if (ze.devices(drivers[i], &count, handles) != 0)
            continue;
        for (uint32_t k = 0; k < count && k < XP_MAX_DEVICES; k++)
            add_listed_device(&ze, handles[k]);
    }
}

/* ---- announcements --------------------------------------------------------------------------- */

/* Keys of Kineto's deviceProperties for XPUs, as far as one query tells them. */
static void announce_xpu_properties(const KinetoPlugin_TraceBuilder *b, int32_t id, const xpu_device *d)
{
    const xp_ze_device_properties *p = &d->properties;
    cp_values v = {.count = 0};
    cp_value_bytes(&v, "name", KINETO_PLUGIN_VALUE_STRING, p->name, strlen(p->name));
    cp_value_uint(&v, "maxComputeUnits",
                  (uint64_t)p->slices * p->subslices_per_slice * p->units_per_subslice);
    cp_value_uint(&v, "maxClockFrequency", p->clock_mhz);
    cp_value_uint(&v, "maxMemAllocSize", p->max_allocation);
    cp_value_bytes(&v, "vendor", KINETO_PLUGIN_VALUE_STRING, "Intel(R) Corporation", 20);
    (void)b->addDeviceProperties(b->pTraceBuilderHandle, id, v.items, v.count);
}

/* Sorted after all host processes, as viewers of such traces expect. */
static void announce_xpu_row(const KinetoPlugin_TraceBuilder *b, int32_t id, const xpu_device *d)
{
    char label[32];
    snprintf(label, sizeof label, "GPU %d", id);
    KinetoPlugin_ProfileDeviceInfo info = {
        .unpaddedStructSize = KINETO_PLUGIN_SIZE(KinetoPlugin_ProfileDeviceInfo, pLabel),
        .deviceId = id,
        .sortIndex = 5000000 + id,
        .pName = d->is_listed ? d->properties.name : "Intel GPU",
        .pLabel = label};
    (void)b->addDeviceInfo(b->pTraceBuilderHandle, &info);
    if (d->is_listed)
        announce_xpu_properties(b, id, d);
}

void xp_devices_announce(xp_decoder *d)
{
    char version[40];
    if (d->devices)
        return;
    d->devices = true;
    if (!is_listed)
        list_devices();
    for (uint32_t i = 0; i < device_count; i++)
        announce_xpu_row(d->builder, (int32_t)i, &devices[i]);
    snprintf(version, sizeof version, "\"%u.%u\"", d->version / 1000, d->version % 1000);
    (void)d->builder->addHeaderMetadata(d->builder->pTraceBuilderHandle, "xpupti_version", version);
}

/* Devices are few, and most records are of the first ones. */
int32_t xp_device_of(xp_decoder *d, const uint8_t uuid[16])
{
    for (uint32_t i = 0; i < device_count; i++) {
        if (memcmp(devices[i].uuid, uuid, sizeof devices[i].uuid) != 0)
            continue;
        d->tally[XP_TALLY_NO_DEVICE] += !devices[i].is_listed;
        return (int32_t)i;
    }
    d->tally[XP_TALLY_NO_DEVICE]++;
    if (device_count == XP_MAX_DEVICES)
        return XP_MAX_DEVICES - 1;
    devices[device_count] = (xpu_device){.is_listed = false};
    memcpy(devices[device_count].uuid, uuid, sizeof devices[0].uuid);
    announce_xpu_row(d->builder, (int32_t)device_count, &devices[device_count]);
    return (int32_t)device_count++;
}
