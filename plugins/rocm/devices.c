/* GPUs as the SDK lists them: their rows and properties in the trace. HIP numbers GPUs in the order of
 * their nodes; what ROCR_VISIBLE_DEVICES hides is not listed. */
#include "rocm.h"

#include <stdio.h>
#include <stdlib.h>

static rp_device devices[RP_MAX_DEVICES];
static uint32_t device_count;

/* ---- queries --------------------------------------------------------------------------------- */

/* The text, else another one; never empty. */
static void copy_agent_text(char *to, size_t size, const char *text, const char *other)
{
    snprintf(to, size, "%s", text && *text ? text : other && *other ? other : "AMD GPU");
}

/* The memory of the GPU's own, of which only the first banks are of interest. */
static uint64_t sum_device_memory(const rp_agent *a)
{
    uint64_t bytes = 0;
    for (uint32_t i = 0; a->memory_banks && i < a->memory_bank_count; i++) {
        uint32_t heap = a->memory_banks[i].heap;
        bytes += heap == RP_HEAP_PUBLIC || heap == RP_HEAP_PRIVATE ? a->memory_banks[i].bytes : 0;
    }
    return bytes;
}

/* 90402 is gfx942: the last two digits are hexadecimal. */
static void describe_architecture(rp_device *d, uint32_t version)
{
    d->major = (int32_t)(version / 10000 % 100);
    d->minor = (int32_t)(version / 100 % 100);
    snprintf(d->arch, sizeof d->arch, "gfx%d%x%x", d->major, (unsigned)d->minor, version % 100);
}

/* Copies what is needed: what the SDK lists stays only until its end. */
static void add_device(const rp_agent *a)
{
    rp_device *d = &devices[device_count++];
    *d = (rp_device){.agent_id = a->id,
                     .node = a->node,
                     .unit_count = (int32_t)a->unit_count,
                     .wave_size = (int32_t)a->wave_size,
                     .block_items = (int32_t)a->block_items,
                     .items_per_unit = (int32_t)(a->waves_per_unit * a->wave_size),
                     .local_bytes = (int32_t)(a->local_kib << 10),
                     .memory_bytes = sum_device_memory(a),
                     .pci_domain = a->pci_domain,
                     .pci_place = a->pci_place};
    copy_agent_text(d->name, sizeof d->name, a->product_name, a->name);
    describe_architecture(d, a->gfx_version);
}

static int compare_nodes(const void *a, const void *b)
{
    uint32_t x = ((const rp_device *)a)->node, y = ((const rp_device *)b)->node;
    return (x > y) - (x < y);
}

/* The SDK's callback with all processors and GPUs. */
static rp_status list_agents(int version, const void **list, size_t count, void *data)
{
    (void)data;
    for (size_t i = 0; version == RP_AGENT_VERSION && i < count; i++) {
        const rp_agent *a = list[i];
        if (a && a->size >= RP_AGENT_BYTES && a->type == RP_AGENT_GPU &&
            device_count < RP_MAX_DEVICES)
            add_device(a);
    }
    qsort(devices, device_count, sizeof devices[0], compare_nodes);
    for (uint32_t i = 0; i < device_count; i++)
        devices[i].id = (int32_t)i;
    return RP_SUCCESS;
}

void rp_agents_load(void)
{
    if (!device_count)
        (void)rp_sdk.query_agents(RP_AGENT_VERSION, list_agents, RP_AGENT_BYTES, NULL);
}

const rp_device *rp_device_of(uint64_t agent_id)
{
    for (uint32_t i = 0; i < device_count; i++)
        if (devices[i].agent_id == agent_id)
            return &devices[i];
    return NULL;
}

const rp_device *rp_device_at(uint32_t i) { return i < device_count ? &devices[i] : NULL; }

/* ---- announcements --------------------------------------------------------------------------- */

/* The keys of Kineto's deviceProperties. */
static void announce_device_properties(const KinetoPlugin_TraceBuilder *b, const rp_device *d)
{
    cp_values v = {.count = 0};
    cp_value_bytes(&v, "name", KINETO_PLUGIN_VALUE_STRING, d->name, strlen(d->name));
    cp_value_uint(&v, "totalGlobalMem", d->memory_bytes);
    cp_value_int(&v, "computeMajor", d->major);
    cp_value_int(&v, "computeMinor", d->minor);
    cp_value_int(&v, "maxThreadsPerBlock", d->block_items);
    cp_value_int(&v, "maxThreadsPerMultiprocessor", d->items_per_unit);
    cp_value_int(&v, "warpSize", d->wave_size);
    cp_value_int(&v, "sharedMemPerBlock", d->local_bytes);
    cp_value_int(&v, "numSms", d->unit_count);
    cp_value_bytes(&v, "gcnArchName", KINETO_PLUGIN_VALUE_STRING, d->arch, strlen(d->arch));
    (void)b->addDeviceProperties(b->pTraceBuilderHandle, d->id, v.items, v.count);
}

/* Sorted after all host processes, as viewers of such traces expect. */
static void announce_device_row(const KinetoPlugin_TraceBuilder *b, const rp_device *d)
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

void rp_agents_announce(const KinetoPlugin_TraceBuilder *builder)
{
    char version[40];
    uint32_t v = rp_sdk_version();
    for (uint32_t i = 0; i < device_count; i++) {
        announce_device_row(builder, &devices[i]);
        announce_device_properties(builder, &devices[i]);
    }
    snprintf(version, sizeof version, "\"%u.%u.%u\"", v / 10000, v / 100 % 100, v % 100);
    (void)builder->addHeaderMetadata(builder->pTraceBuilderHandle, "rocprofiler_sdk_version", version);
}
