/* Occupancy: how many blocks of a kernel fit on a multiprocessor, computed from the tables of
 * compute capabilities in the CUDA programming guide: allocation units of registers and shared
 * memory, and the size of each resource. The results match those of Kineto. */
#include "cuda.h"

#define REGISTER_UNIT 256u /* per warp */
#define NO_LIMIT      ((uint32_t)INT32_MAX)

#define FAMILY_PARTITIONS 4u

typedef struct occupancy_rules {
    uint32_t shared_unit_bytes;
    uint32_t registers_per_thread; /* maximum of a kernel */
    uint32_t partitions;           /* of a multiprocessor's registers */
    uint32_t blocks_per_sm;
} occupancy_rules;

/* Maximum of resident blocks by compute capability, for drivers that do not report it. */
static uint32_t get_max_blocks(int32_t major, int32_t minor)
{
    switch (major) {
    case 3:
        return 16;
    case 7:
        return minor == 5 ? 16 : 32;
    case 8:
        return minor == 0 ? 32 : minor == 9 ? 24 : 16;
    case 10:
        return minor == 1 ? 24 : 32;
    case 11:
        return minor == 0 ? 24 : 32;
    case 12:
        return 24;
    default:
        return 32;
    }
}

/* The allocation rules of a device; false: its compute capability is unknown. */
static bool get_occupancy_rules(const cp_device *d, occupancy_rules *r)
{
    if (d->major < 3 || d->major == 4 || d->major > 12)
        return false;
    r->shared_unit_bytes = d->major < 8 ? 256 : 128;
    r->registers_per_thread = d->major < 7 ? 255 : 256;
    r->partitions = d->major == 6 && d->minor == 0 ? 2 : FAMILY_PARTITIONS;
    r->blocks_per_sm =
        d->blocks_per_sm > 0 ? (uint32_t)d->blocks_per_sm : get_max_blocks(d->major, d->minor);
    return true;
}

static bool is_complete_device(const cp_device *d)
{
    return d->sm_count > 0 && d->warp_size > 0 && d->threads_per_sm > 0 &&
           d->threads_per_block > 0 && d->registers_per_sm > 0 && d->registers_per_block > 0 &&
           d->shared_per_sm > 0 && d->shared_per_block > 0;
}

static uint64_t round_up_to(uint64_t n, uint64_t unit) { return (n + unit - 1) / unit * unit; }

/* ---- limits by one resource ------------------------------------------------------------------ */

static uint32_t limit_by_warps(const cp_device *d, uint32_t threads, uint32_t warps)
{
    if (threads > (uint32_t)d->threads_per_block)
        return 0;
    return (uint32_t)(d->threads_per_sm / d->warp_size) / warps;
}

/* The registers of a warp are in one partition. Whether a block can be launched at all is checked
 * as if its warps were spread evenly over all partitions. */
static uint32_t count_blocks_in_partitions(const cp_device *d, uint32_t partitions,
                                           uint64_t per_warp, uint32_t warps)
{
    if (per_warp * round_up_to(warps, partitions) > (uint64_t)d->registers_per_block)
        return 0;
    uint64_t warps_each = (uint32_t)d->registers_per_sm / partitions / per_warp;
    return (uint32_t)(warps_each * partitions / warps);
}

/* Devices of capability 6.0 reject kernels that the rest of the family, with its four partitions,
 * could not run. */
static uint32_t limit_by_registers(const cp_device *d, const occupancy_rules *r, const cp_launch *l,
                                   uint32_t warps, cp_occupancy *out)
{
    uint64_t per_warp =
        round_up_to((uint64_t)l->registers_per_thread * (uint32_t)d->warp_size, REGISTER_UNIT);
    out->registers_per_block = (uint32_t)(per_warp * warps);
    if (l->registers_per_thread > r->registers_per_thread)
        return 0;
    if (!per_warp)
        return NO_LIMIT;
    uint32_t blocks = count_blocks_in_partitions(d, r->partitions, per_warp, warps);
    return count_blocks_in_partitions(d, FAMILY_PARTITIONS, per_warp, warps) ? blocks : 0;
}

/* From 8.0 on the driver reserves some shared memory of each block. Kernels may opt in to more than
 * the default maximum; those that need it have done so. */
static uint32_t limit_by_shared(const cp_device *d, const occupancy_rules *r, const cp_launch *l,
                                cp_occupancy *out)
{
    uint64_t reserved = d->major >= 8 ? (uint32_t)d->shared_reserved_per_block : 0;
    uint64_t bytes = round_up_to(reserved + l->shared_static_bytes + l->shared_dynamic_bytes,
                                 r->shared_unit_bytes);
    int32_t limit = d->major >= 7 && d->shared_per_block_optin > d->shared_per_block
                        ? d->shared_per_block_optin
                        : d->shared_per_block;
    out->shared_per_block = (uint32_t)bytes;
    if (bytes > reserved + (uint32_t)limit)
        return 0;
    return bytes ? (uint32_t)((uint32_t)d->shared_per_sm / bytes) : NO_LIMIT;
}

/* ---- together -------------------------------------------------------------------------------- */

static uint32_t min_u32(uint32_t a, uint32_t b) { return a < b ? a : b; }

/* Several resources may limit at the same time. */
static void find_limiting_resources(cp_occupancy *o)
{
    o->blocks_per_sm = min_u32(min_u32(o->limit_registers, o->limit_shared),
                               min_u32(o->limit_warps, o->limit_blocks));
    o->by_registers = o->limit_registers == o->blocks_per_sm;
    o->by_shared = o->limit_shared == o->blocks_per_sm;
    o->by_warps = o->limit_warps == o->blocks_per_sm;
    o->by_blocks = o->limit_blocks == o->blocks_per_sm;
}

/* Assumes that the launch is spread evenly. Single precision and this order of operations give the
 * same rounding as Kineto. */
static void estimate_achieved(const cp_device *d, const cp_launch *l, cp_occupancy *o)
{
    uint32_t sm_count = l->sm_count ? l->sm_count : (uint32_t)d->sm_count;
    o->blocks_each = (double)l->block_count / sm_count;
    o->warps_each = o->blocks_each * l->threads_per_block / d->warp_size;
    float there = (float)l->block_count / (float)sm_count;
    if ((float)o->blocks_per_sm < there)
        there = (float)o->blocks_per_sm;
    float used = there * (float)l->threads_per_block / (float)d->threads_per_sm;
    o->estimated_percent = (uint32_t)(0.5 + (double)used * 100.0);
}

bool cp_occupancy_of(const cp_device *d, const cp_launch *l, cp_occupancy *out)
{
    occupancy_rules r;
    *out = (cp_occupancy){0};
    if (!d || !is_complete_device(d) || !get_occupancy_rules(d, &r) || l->threads_per_block == 0)
        return false;
    uint32_t warp = (uint32_t)d->warp_size,
             warps = (uint32_t)(round_up_to(l->threads_per_block, warp) / warp);
    out->limit_warps = limit_by_warps(d, l->threads_per_block, warps);
    out->limit_registers = limit_by_registers(d, &r, l, warps, out);
    out->limit_shared = limit_by_shared(d, &r, l, out);
    out->limit_blocks = r.blocks_per_sm;
    find_limiting_resources(out);
    estimate_achieved(d, l, out);
    return true;
}
