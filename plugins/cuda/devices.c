/* Devices as the driver reports them: their properties and their rows in the trace. Properties are
 * queried once per process, at the first use of a device. */
#include "cuda.h"

#include <stdio.h>
#include <string.h>

/* By CUDA's number of the device; an entry is valid if device_known is set. device_lock protects
 * both, but a valid entry does not change, so pointers to it are used without the lock. */
static cp_device device_table[CP_MAX_DEVICES];
static bool device_known[CP_MAX_DEVICES];
static pthread_mutex_t device_lock = PTHREAD_MUTEX_INITIALIZER;

/* ---- queries --------------------------------------------------------------------------------- */

/* 0: the driver does not know the attribute. */
static int32_t query_attribute(int handle, int which)
{
    int value = 0;
    return cp_driver.device_attribute(&value, which, handle) == 0 ? value : 0;
}

/* The UUID in the format of nvidia-smi; empty if the driver does not report it. */
static void query_uuid(cp_device *d, int handle)
{
    cp_uuid u;
    size_t n = 0;
    if (!cp_driver.device_uuid || cp_driver.device_uuid(&u, handle) != 0)
        return;
    n += (size_t)snprintf(d->uuid, sizeof d->uuid, "GPU-");
    for (size_t i = 0; i < sizeof u.bytes; i++)
        n += (size_t)snprintf(d->uuid + n, sizeof d->uuid - n, "%s%02x",
                              i == 4 || i == 6 || i == 8 || i == 10 ? "-" : "", u.bytes[i]);
}

/* Limits that the driver does not know stay 0. */
static void query_limits(cp_device *d, int handle)
{
    const struct {
        int32_t *to;
        int which;
    } limits[] = {
        {&d->major, CP_DEVICE_MAJOR},
        {&d->minor, CP_DEVICE_MINOR},
        {&d->sm_count, CP_DEVICE_SM_COUNT},
        {&d->warp_size, CP_DEVICE_WARP_SIZE},
        {&d->threads_per_sm, CP_DEVICE_MAX_THREADS_PER_SM},
        {&d->threads_per_block, CP_DEVICE_MAX_THREADS_PER_BLOCK},
        {&d->blocks_per_sm, CP_DEVICE_MAX_BLOCKS_PER_SM},
        {&d->registers_per_sm, CP_DEVICE_MAX_REGISTERS_PER_SM},
        {&d->registers_per_block, CP_DEVICE_MAX_REGISTERS_PER_BLOCK},
        {&d->shared_per_sm, CP_DEVICE_MAX_SHARED_PER_SM},
        {&d->shared_per_block, CP_DEVICE_MAX_SHARED_PER_BLOCK},
        {&d->shared_per_block_optin, CP_DEVICE_MAX_SHARED_PER_BLOCK_OPTIN},
        {&d->shared_reserved_per_block, CP_DEVICE_RESERVED_SHARED_PER_BLOCK},
    };
    for (size_t i = 0; i < CP_COUNT(limits); i++)
        *limits[i].to = query_attribute(handle, limits[i].which);
}

/* False: CUDA has no device with this number. */
static bool query_cuda_device(uint32_t id, cp_device *d)
{
    int handle = 0;
    size_t bytes = 0;
    memset(d, 0, sizeof *d);
    d->id = (int32_t)id;
    if (!cp_driver.device_get || cp_driver.device_get(&handle, (int)id) != 0)
        return false;
    if (cp_driver.device_name(d->name, sizeof d->name, handle) != 0)
        d->name[0] = '\0';
    d->name[sizeof d->name - 1] = '\0';
    if (cp_driver.device_memory && cp_driver.device_memory(&bytes, handle) == 0)
        d->memory_bytes = bytes;
    query_limits(d, handle);
    query_uuid(d, handle);
    return true;
}

const cp_device *cp_device_of(uint32_t id)
{
    if (id >= CP_MAX_DEVICES)
        return NULL;
    pthread_mutex_lock(&device_lock);
    if (!device_known[id])
        device_known[id] = query_cuda_device(id, &device_table[id]);
    const cp_device *found = device_known[id] ? &device_table[id] : NULL;
    pthread_mutex_unlock(&device_lock);
    return found;
}

void cp_devices_reset(void)
{
    static const pthread_mutex_t fresh = PTHREAD_MUTEX_INITIALIZER;
    device_lock = fresh; /* after a fork its owner may not exist */
    memset(device_known, 0, sizeof device_known);
}

/* ---- announcements --------------------------------------------------------------------------- */

static KinetoPlugin_Metadata make_number(const char *key, int64_t value)
{
    return (KinetoPlugin_Metadata){.pKey = key, .valueType = KINETO_PLUGIN_VALUE_INT, .i = value};
}

static KinetoPlugin_Metadata make_text(const char *key, const char *value)
{
    return (KinetoPlugin_Metadata){.pKey = key,
                                   .valueType = KINETO_PLUGIN_VALUE_STRING,
                                   .count = (uint32_t)strlen(value),
                                   .pointer = value};
}

/* The keys of Kineto's deviceProperties. */
static void announce_gpu_properties(const KinetoPlugin_TraceBuilder *b, const cp_device *d)
{
    const KinetoPlugin_Metadata properties[] = {
        make_text("name", d->name),
        make_number("totalGlobalMem", (int64_t)d->memory_bytes),
        make_number("computeMajor", d->major),
        make_number("computeMinor", d->minor),
        make_number("maxThreadsPerBlock", d->threads_per_block),
        make_number("maxThreadsPerMultiprocessor", d->threads_per_sm),
        make_number("regsPerBlock", d->registers_per_block),
        make_number("warpSize", d->warp_size),
        make_number("sharedMemPerBlock", d->shared_per_block),
        make_number("numSms", d->sm_count),
        make_number("regsPerMultiprocessor", d->registers_per_sm),
        make_number("sharedMemPerBlockOptin", d->shared_per_block_optin),
        make_number("sharedMemPerMultiprocessor", d->shared_per_sm),
        make_text("uuid", d->uuid),
    };
    size_t count = CP_COUNT(properties) - (d->uuid[0] ? 0 : 1);
    (void)b->addDeviceProperties(b->pTraceBuilderHandle, d->id, properties, count);
}

/* The row of a GPU; sorted after all host processes, as viewers of such traces expect. */
static void announce_gpu_row(const KinetoPlugin_TraceBuilder *b, const cp_device *d)
{
    char label[32];
    snprintf(label, sizeof label, "GPU %d", d->id);
    KinetoPlugin_ProfileDeviceInfo info = {
        .unpaddedStructSize = KINETO_PLUGIN_SIZE(KinetoPlugin_ProfileDeviceInfo, pLabel),
        .deviceId = d->id,
        .sortIndex = 5000000 + d->id,
        .pName = d->name,
        .pLabel = label};
    (void)b->addDeviceInfo(b->pTraceBuilderHandle, &info);
}

/* A version in the header of the trace; unknown ones (0) are left out. */
static void announce_version_number(const KinetoPlugin_TraceBuilder *b, const char *key,
                                    int version)
{
    char json[16];
    snprintf(json, sizeof json, "%d", version);
    if (version > 0)
        (void)b->addHeaderMetadata(b->pTraceBuilderHandle, key, json);
}

/* Announces the devices. False: the driver is not ready yet, as while it loads the plug-in. */
static bool announce_all_devices(const KinetoPlugin_TraceBuilder *b)
{
    int count = 0, driver = 0;
    if (cp_driver.device_count && cp_driver.device_count(&count) != 0)
        count = 0;
    if (!count)
        return false;
    for (int i = 0; i < count && i < CP_MAX_DEVICES; i++) {
        const cp_device *d = cp_device_of((uint32_t)i);
        if (!d)
            continue;
        announce_gpu_row(b, d);
        announce_gpu_properties(b, d);
    }
    if (cp_driver.driver_version && cp_driver.driver_version(&driver) == 0)
        announce_version_number(b, "cuda_driver_version", driver);
    announce_version_number(b, "cuda_runtime_version", cp_runtime_version());
    announce_version_number(b, "cupti_version", (int)cp_cupti_version());
    return true;
}

void cp_devices_announce_once(cp_decoder *d)
{
    if (atomic_exchange(&d->devices_announced, true))
        return;
    if (!announce_all_devices(d->builder))
        atomic_store(&d->devices_announced, false);
}
