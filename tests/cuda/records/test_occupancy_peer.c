/* Our occupancy is that of the vendor's calculator: a great many launches on every architecture
 * that its header knows. */
#include <limits.h>
#include <stddef.h>

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wunused-function"
#include <cuda_occupancy.h>
#pragma GCC diagnostic pop

#include "../../unit/unit.h"

#include "../../../plugins/cuda/cuda.h"

#define LAUNCHES 20000

/* major, minor, multiprocessors, threads and registers of one, shared memory of one, for a block by
 * default, if asked for, and kept by the driver; in KiB */
typedef struct arch {
    int major, minor, sms, threads, registers, shared, block, optin, reserved;
} arch;
static const arch archs[] = {
    {3, 5, 15, 2048, 65536, 48, 48, 48, 0},    {3, 7, 13, 2048, 131072, 112, 48, 48, 0},
    {5, 0, 5, 2048, 65536, 64, 48, 48, 0},     {5, 2, 16, 2048, 65536, 96, 48, 48, 0},
    {6, 0, 56, 2048, 65536, 64, 48, 48, 0},    {6, 1, 28, 2048, 65536, 96, 48, 48, 0},
    {7, 0, 80, 2048, 65536, 96, 48, 96, 0},    {7, 5, 40, 1024, 65536, 64, 48, 64, 0},
    {8, 0, 108, 2048, 65536, 164, 48, 163, 1}, {8, 6, 84, 1536, 65536, 100, 48, 99, 1},
    {8, 7, 16, 1536, 65536, 164, 48, 163, 1},  {8, 9, 128, 1536, 65536, 100, 48, 99, 1},
    {9, 0, 132, 2048, 65536, 228, 48, 227, 1}, {10, 0, 148, 2048, 65536, 228, 48, 227, 1},
    {10, 1, 20, 1536, 65536, 228, 48, 227, 1}, {10, 3, 160, 2048, 65536, 228, 48, 227, 1},
    {11, 0, 20, 1536, 65536, 228, 48, 227, 1}, {12, 0, 170, 1536, 65536, 100, 48, 99, 1},
    {12, 1, 48, 1536, 65536, 100, 48, 99, 1},
};

static cudaOccDeviceProp theirs_of(const arch *a)
{
    cudaOccDeviceProp p = {0};
    p.computeMajor = a->major;
    p.computeMinor = a->minor;
    p.maxThreadsPerBlock = 1024;
    p.maxThreadsPerMultiprocessor = a->threads;
    p.regsPerBlock = 65536;
    p.regsPerMultiprocessor = a->registers;
    p.warpSize = 32;
    p.sharedMemPerBlock = (size_t)a->block << 10;
    p.sharedMemPerMultiprocessor = (size_t)a->shared << 10;
    p.numSms = a->sms;
    p.sharedMemPerBlockOptin = (size_t)a->optin << 10;
    p.reservedSharedMemPerBlock = (size_t)a->reserved << 10;
    return p;
}

/* The table of blocks per multiprocessor is ours, too: the driver has not been asked. */
static cp_device ours_of(const arch *a)
{
    return (cp_device){.major = a->major,
                       .minor = a->minor,
                       .sm_count = a->sms,
                       .warp_size = 32,
                       .threads_per_sm = a->threads,
                       .threads_per_block = 1024,
                       .registers_per_sm = a->registers,
                       .registers_per_block = 65536,
                       .shared_per_sm = a->shared << 10,
                       .shared_per_block = a->block << 10,
                       .shared_per_block_optin = a->optin << 10,
                       .shared_reserved_per_block = a->reserved << 10};
}

/* What a launch could be, and now and then could not. */
static cp_launch random_launch(const arch *a, uint64_t *state)
{
    uint64_t r = next_random(state);
    uint32_t most = (uint32_t)(a->optin + 2) << 10;
    cp_launch l = {.registers_per_thread = (uint32_t)(r % 260),
                   .threads_per_block = 1 + (uint32_t)((r >> 16) % 1040),
                   .block_count = 1 + (r >> 32) % 5000};
    r = next_random(state);
    if (r & 3) {
        l.shared_static_bytes = (uint32_t)((r >> 8) % (49 << 10));
        l.shared_dynamic_bytes = r & 4 ? (uint32_t)((r >> 32) % most) : 0;
    }
    return l;
}

static bool theirs(const arch *a, const cp_launch *l, cudaOccResult *out)
{
    cudaOccDeviceProp device = theirs_of(a);
    cudaOccDeviceState state = {CACHE_PREFER_NONE, SHAREDMEM_CARVEOUT_DEFAULT};
    cudaOccFuncAttributes kernel = {0};
    kernel.maxThreadsPerBlock = INT_MAX;
    kernel.numRegs = (int)l->registers_per_thread;
    kernel.sharedSizeBytes = l->shared_static_bytes;
    kernel.maxDynamicSharedSizeBytes = l->shared_dynamic_bytes; /* has been asked for if needed */
    kernel.shmemLimitConfig = FUNC_SHMEM_LIMIT_OPTIN;
    return cudaOccMaxActiveBlocksPerMultiprocessor(out, &device, &kernel, &state,
                                                   (int)l->threads_per_block,
                                                   l->shared_dynamic_bytes) == CUDA_OCC_SUCCESS;
}

/* Headers know architectures up to their time, and not all of those. */
static bool is_known(const arch *a)
{
    cudaOccResult peer = {0};
    return theirs(a, &(cp_launch){.registers_per_thread = 32, .threads_per_block = 32}, &peer);
}

static void compare(const arch *a, const cp_launch *l)
{
    cp_device device = ours_of(a);
    cudaOccResult peer = {0};
    cp_occupancy own;
    assert_true(cp_occupancy_of(&device, l, &own));
    assert_true(theirs(a, l, &peer));
    assert_int_equal(own.blocks_per_sm, peer.activeBlocksPerMultiprocessor);
    assert_int_equal(own.limit_registers, peer.blockLimitRegs);
    assert_int_equal(own.limit_shared, peer.blockLimitSharedMem);
    assert_int_equal(own.limit_warps, peer.blockLimitWarps);
    assert_int_equal(own.limit_blocks, peer.blockLimitBlocks);
    assert_int_equal(own.registers_per_block, peer.allocatedRegistersPerBlock);
    assert_int_equal(own.shared_per_block, peer.allocatedSharedMemPerBlock);
    assert_int_equal(own.by_warps, (peer.limitingFactors & OCC_LIMIT_WARPS) != 0);
    assert_int_equal(own.by_registers, (peer.limitingFactors & OCC_LIMIT_REGISTERS) != 0);
    assert_int_equal(own.by_shared, (peer.limitingFactors & OCC_LIMIT_SHARED_MEMORY) != 0);
    assert_int_equal(own.by_blocks, (peer.limitingFactors & OCC_LIMIT_BLOCKS) != 0);
}

static void launches_occupy_as_much_as_the_vendor_says(void **state)
{
    uint64_t seed = 17;
    size_t compared = 0;
    (void)state;
    for (size_t i = 0; i < sizeof archs / sizeof archs[0]; i++) {
        if (!is_known(&archs[i])) {
            assert_true(archs[i].major > 9);
            continue;
        }
        for (int n = 0; n < LAUNCHES; n++, compared++) {
            cp_launch l = random_launch(&archs[i], &seed);
            compare(&archs[i], &l);
        }
    }
    assert_true(compared > LAUNCHES);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(launches_occupy_as_much_as_the_vendor_says)};
    return RUN_TESTS(tests);
}
