/* Allocations and releases of device memory, as moments of their device. They have a kind of their own,
 * "gpu_memory", for hosts that let plug-ins register kinds. A release has no size: it is that of the
 * allocation at its address. */
#include "rocm.h"

#include <stdlib.h>

int32_t rp_memory_type;

void rp_memory_announce(const KinetoPlugin_Registry *registry)
{
    static const KinetoPlugin_ActivityTypeInfo type = {
        .pName = "gpu_memory",
        .likeEventType = KINETO_PLUGIN_PROFILE_EVENT_TYPE_CUDA_EVENT,
        .enabledByDefault = 1};
    KinetoPlugin_RegisterActivityTypes_Params params = {
        .unpaddedStructSize =
            KINETO_PLUGIN_SIZE(KinetoPlugin_RegisterActivityTypes_Params, firstEventType),
        .pTypes = &type,
        .count = 1};
    if (KINETO_PLUGIN_HAS(registry, KinetoPlugin_Registry, registerActivityTypes) &&
        registry->registerActivityTypes &&
        registry->registerActivityTypes(registry->pRegistryHandle, &params) == 0)
        rp_memory_type = params.firstEventType;
}

/* ---- live allocations ------------------------------------------------------------------------ */

#define BLOCK_SLOTS 65536u
#define MAX_BLOCKS  49152u
typedef struct live_block {
    uint64_t address, bytes; /* 0: free */
    int32_t device;
} live_block;
struct rp_live_blocks {
    live_block slots[BLOCK_SLOTS]; /* open addressing */
    uint32_t count;
};

static uint32_t hash_block_address(uint64_t address)
{
    return (uint32_t)(address * UINT64_C(0x9e3779b97f4a7c15) >> 48) % BLOCK_SLOTS;
}

static uint32_t find_block(const struct rp_live_blocks *b, uint64_t address)
{
    uint32_t i = hash_block_address(address);
    while (b->slots[i].address && b->slots[i].address != address)
        i = (i + 1) % BLOCK_SLOTS;
    return i;
}

/* A full table forgets: the release of such a block has no size. */
static void store_block(rp_decoder *d, uint64_t address, uint64_t bytes, int32_t device)
{
    if (!d->blocks)
        d->blocks = calloc(1, sizeof *d->blocks);
    if (!d->blocks || !address || d->blocks->count >= MAX_BLOCKS)
        return;
    live_block *slot = &d->blocks->slots[find_block(d->blocks, address)];
    d->blocks->count += slot->address == 0;
    *slot = (live_block){address, bytes, device};
}

/* Takes an allocation out of the table, and closes the gap. False: it is unknown. */
static bool remove_block(rp_decoder *d, uint64_t address, live_block *out)
{
    struct rp_live_blocks *b = d->blocks;
    if (!b || !address)
        return false;
    uint32_t gap = find_block(b, address);
    if (!b->slots[gap].address)
        return false;
    *out = b->slots[gap];
    b->count--;
    for (uint32_t i = (gap + 1) % BLOCK_SLOTS; b->slots[i].address; i = (i + 1) % BLOCK_SLOTS) {
        uint32_t home = hash_block_address(b->slots[i].address);
        if ((i - home) % BLOCK_SLOTS < (i - gap) % BLOCK_SLOTS)
            continue;
        b->slots[gap] = b->slots[i];
        gap = i;
    }
    b->slots[gap] = (live_block){0};
    return true;
}

void rp_memory_free(rp_decoder *d)
{
    free(d->blocks);
    d->blocks = NULL;
}

/* ---- one allocation or release --------------------------------------------------------------- */

static bool is_release(int32_t operation)
{
    return operation == RP_MEMORY_FREE || operation == RP_MEMORY_UNMAP;
}

/* What the record changes: its size, negative for a release, and its device. */
static live_block find_change(rp_decoder *d, const rp_record *record, const rp_memory_tail *t)
{
    const rp_device *device = rp_device_of(t->agent_id);
    live_block found = {t->address, t->bytes, device ? device->id : -1};
    live_block before = found;
    if (!is_release(record->operation)) {
        store_block(d, t->address, t->bytes, found.device);
        return found;
    }
    if (remove_block(d, t->address, &before))
        found = before;
    return found;
}

/* The values of one change, with the sum of all since the session began. */
static void describe_change(rp_decoder *d, const live_block *b, int64_t change, cp_values *v)
{
    cp_value_uint(v, "Addr", b->address);
    cp_value_int(v, "Bytes", change);
    d->allocated[b->device] = (int64_t)((uint64_t)d->allocated[b->device] + (uint64_t)change);
    cp_value_int(v, "allocated since start", d->allocated[b->device]);
    cp_value_int(v, "device", b->device);
}

/* Memory of the host is not recorded. */
void rp_read_memory(rp_decoder *d, const rp_record *record)
{
    const rp_memory_tail *t = rp_memory_type && d->memory ? rp_tail(d, record, sizeof *t) : NULL;
    KinetoPlugin_Activity a;
    cp_values v = {.count = 0};
    if (!t)
        return;
    live_block b = find_change(d, record, t);
    if (b.device < 0 || !rp_begin_activity(d, &a, rp_memory_type, t->end, t->end))
        return;
    bool releases = is_release(record->operation);
    describe_change(d, &b, releases ? -(int64_t)b.bytes : (int64_t)b.bytes, &v);
    rp_place_activity(&a, b.device, UINT32_MAX, record);
    a.pName = releases ? "Memory release" : "Memory allocation";
    a.nameSize = (uint32_t)strlen(a.pName);
    rp_deliver_activity(d, &a, &v);
}
