/* How many blocks of a kernel fit a multiprocessor, by what the CUDA programming guide publishes
 * about each compute capability: how registers and shared memory are handed out, and how much of
 * everything there is. */
#include "cuda.h"

#define REGISTER_UNIT 256u /* per warp */
#define NO_LIMIT      ((uint32_t)INT32_MAX)

#define FAMILY_PARTITIONS 4u

typedef struct rules {
    uint32_t shared_unit_bytes;
    uint32_t registers_per_thread; /* that a kernel can have */
    uint32_t partitions;           /* that a multiprocessor's registers are in */
    uint32_t blocks_per_sm;
} rules;

static uint32_t blocks_of(int32_t major, int32_t minor)
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

static bool rules_of(const cp_device *d, rules *r)
{
    if (d->major < 3 || d->major == 4 || d->major > 12)
        return false;
    r->shared_unit_bytes = d->major < 8 ? 256 : 128;
    r->registers_per_thread = d->major < 7 ? 255 : 256;
    r->partitions = d->major == 6 && d->minor == 0 ? 2 : FAMILY_PARTITIONS;
    r->blocks_per_sm =
        d->blocks_per_sm > 0 ? (uint32_t)d->blocks_per_sm : blocks_of(d->major, d->minor);
    return true;
}

static bool is_complete(const cp_device *d)
{
    return d->sm_count > 0 && d->warp_size > 0 && d->threads_per_sm > 0 &&
           d->threads_per_block > 0 && d->registers_per_sm > 0 && d->registers_per_block > 0 &&
           d->shared_per_sm > 0 && d->shared_per_block > 0;
}

static uint64_t round_up(uint64_t n, uint64_t unit) { return (n + unit - 1) / unit * unit; }

/* ---- by one resource alone ----------------------------------------------------------------------- */

static uint32_t limit_of_warps(const cp_device *d, uint32_t threads, uint32_t warps)
{
    if (threads > (uint32_t)d->threads_per_block)
        return 0;
    return (uint32_t)(d->threads_per_sm / d->warp_size) / warps;
}

/* A warp's registers are in one partition. That a block can be launched at all is checked as if its
 * warps were spread over all of them. */
static uint32_t blocks_in_partitions(const cp_device *d, uint32_t partitions, uint64_t per_warp,
                                     uint32_t warps)
{
    if (per_warp * round_up(warps, partitions) > (uint64_t)d->registers_per_block)
        return 0;
    uint64_t warps_each = (uint32_t)d->registers_per_sm / partitions / per_warp;
    return (uint32_t)(warps_each * partitions / warps);
}

/* 6.0 takes nothing that the rest of its family, which has four partitions, could not run. */
static uint32_t limit_of_registers(const cp_device *d, const rules *r, const cp_launch *l,
                                   uint32_t warps, cp_occupancy *out)
{
    uint64_t per_warp =
        round_up((uint64_t)l->registers_per_thread * (uint32_t)d->warp_size, REGISTER_UNIT);
    out->registers_per_block = (uint32_t)(per_warp * warps);
    if (l->registers_per_thread > r->registers_per_thread)
        return 0;
    if (!per_warp)
        return NO_LIMIT;
    uint32_t blocks = blocks_in_partitions(d, r->partitions, per_warp, warps);
    return blocks_in_partitions(d, FAMILY_PARTITIONS, per_warp, warps) ? blocks : 0;
}

/* From 8.0 on, the driver has some shared memory of each block for itself; and kernels may ask for
 * more than they get by default, which those that need it have done. */
static uint32_t limit_of_shared(const cp_device *d, const rules *r, const cp_launch *l,
                                cp_occupancy *out)
{
    uint64_t reserved = d->major >= 8 ? (uint32_t)d->shared_reserved_per_block : 0;
    uint64_t bytes =
        round_up(reserved + l->shared_static_bytes + l->shared_dynamic_bytes, r->shared_unit_bytes);
    int32_t most = d->major >= 7 && d->shared_per_block_optin > d->shared_per_block
                       ? d->shared_per_block_optin
                       : d->shared_per_block;
    out->shared_per_block = (uint32_t)bytes;
    if (bytes > reserved + (uint32_t)most)
        return 0;
    return bytes ? (uint32_t)((uint32_t)d->shared_per_sm / bytes) : NO_LIMIT;
}

/* ---- together -------------------------------------------------------------------------------------- */

static uint32_t least(uint32_t a, uint32_t b) { return a < b ? a : b; }

static void find_limit(cp_occupancy *o)
{
    o->blocks_per_sm =
        least(least(o->limit_registers, o->limit_shared), least(o->limit_warps, o->limit_blocks));
    o->by_registers = o->limit_registers == o->blocks_per_sm;
    o->by_shared = o->limit_shared == o->blocks_per_sm;
    o->by_warps = o->limit_warps == o->blocks_per_sm;
    o->by_blocks = o->limit_blocks == o->blocks_per_sm;
}

/* As if the launch were spread evenly. Single precision and this order of steps: what Kineto
 * rounds. */
static void estimate(const cp_device *d, const cp_launch *l, cp_occupancy *o)
{
    o->blocks_each = (double)l->block_count / d->sm_count;
    o->warps_each = o->blocks_each * l->threads_per_block / d->warp_size;
    float there = (float)l->block_count / (float)d->sm_count;
    if ((float)o->blocks_per_sm < there)
        there = (float)o->blocks_per_sm;
    float used = there * (float)l->threads_per_block / (float)d->threads_per_sm;
    o->estimated_percent = (uint32_t)(0.5 + (double)used * 100.0);
}

bool cp_occupancy_of(const cp_device *d, const cp_launch *l, cp_occupancy *out)
{
    rules r;
    *out = (cp_occupancy){0};
    if (!d || !is_complete(d) || !rules_of(d, &r) || l->threads_per_block == 0)
        return false;
    uint32_t warp = (uint32_t)d->warp_size,
             warps = (uint32_t)(round_up(l->threads_per_block, warp) / warp);
    out->limit_warps = limit_of_warps(d, l->threads_per_block, warps);
    out->limit_registers = limit_of_registers(d, &r, l, warps, out);
    out->limit_shared = limit_of_shared(d, &r, l, out);
    out->limit_blocks = r.blocks_per_sm;
    find_limit(out);
    estimate(d, l, out);
    return true;
}
