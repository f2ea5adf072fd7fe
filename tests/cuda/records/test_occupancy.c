/* How much of a GPU launches occupy: what Kineto wrote into real traces of PyTorch programs, and
 * the edges. */
#include "../../unit/unit.h"

#include "../../helpers/cuda_records.h"

/* As deviceProperties of the traces have them; what the driver keeps of a block's shared memory is
 * not among them. */
static const cp_device v100 = {.major = 7,
                               .minor = 0,
                               .sm_count = 80,
                               .warp_size = 32,
                               .threads_per_sm = 2048,
                               .threads_per_block = 1024,
                               .registers_per_sm = 65536,
                               .registers_per_block = 65536,
                               .shared_per_sm = 98304,
                               .shared_per_block = 49152,
                               .shared_per_block_optin = 98304};
#define V100 &v100
#define A100 &cuda_a100
typedef struct traced {
    const cp_device *device;
    uint32_t registers, shared, grid[3], block[3];
    double blocks_per_sm, warps_per_sm;
    uint32_t percent; /* "est. achieved occupancy %" */
} traced;

static const traced kernels[] = {
    {A100, 122, 12544, {41, 16, 1}, {128, 1, 1}, 6.0740743, 24.296297, 25},
    {A100, 16, 0, {1475, 1, 1}, {128, 1, 1}, 13.657408, 54.62963, 85},
    {A100, 16, 0, {512, 1, 1}, {128, 1, 1}, 4.740741, 18.962963, 30},
    {A100, 160, 16384, {3136, 1, 1}, {128, 1, 1}, 29.037037, 116.148148, 19},
    {A100, 165, 640, {163, 1, 1}, {32, 4, 1}, 1.5092592, 6.037037, 9},
    {A100, 190, 1024, {4096, 1, 1}, {256, 1, 1}, 37.925926, 303.4074, 13},
    {A100, 20, 0, {1216, 1, 1}, {128, 1, 1}, 11.259259, 45.037037, 70},
    {A100, 20, 0, {1440, 1, 1}, {128, 1, 1}, 13.333333, 53.333332, 83},
    {A100, 20, 0, {200, 1, 1}, {128, 1, 1}, 1.8518518, 7.4074073, 12},
    {A100, 20, 0, {4, 1, 1}, {128, 1, 1}, 0.037037037, 0.14814815, 0},
    {A100, 20, 0, {784, 1, 1}, {128, 1, 1}, 7.259259, 29.037037, 45},
    {A100, 20, 0, {98, 1, 1}, {128, 1, 1}, 0.9074074, 3.6296296, 6},
    {A100, 22, 0, {1568, 1, 1}, {128, 1, 1}, 14.518518, 58.074074, 91},
    {A100, 23, 0, {32, 8, 1}, {32, 16, 1}, 2.3703704, 37.925926, 59},
    {A100, 28, 2064, {293, 1, 1}, {32, 16, 1}, 2.7129629, 43.407406, 68},
    {A100, 30, 0, {4, 106, 1}, {128, 1, 1}, 3.925926, 15.703704, 25},
    {A100, 32, 0, {30872, 1, 1}, {128, 1, 1}, 285.85184, 1143.4073, 100},
    {A100, 32, 4112, {1, 123, 1}, {512, 1, 1}, 1.1388888, 18.222221, 28},
    {A100, 32, 4224, {1, 32, 2048}, {256, 1, 1}, 606.814819, 4854.518555, 100},
    {A100, 34, 2064, {2, 192, 1}, {8, 32, 1}, 3.5555556, 28.444445, 44},
    {A100, 39, 0, {8192, 1, 1}, {128, 1, 1}, 75.85185, 303.4074, 75},
    {A100, 40, 0, {12, 8, 1}, {32, 16, 1}, 0.8888889, 14.222222, 22},
    {A100, 40, 0, {14, 12, 1}, {32, 16, 1}, 1.5555556, 24.88889, 39},
    {A100, 40, 400, {256, 1, 1}, {512, 1, 1}, 2.37037, 37.925926, 59},
    {A100, 40, 400, {64, 1, 1}, {512, 1, 1}, 0.592593, 9.481482, 15},
    {A100, 40, 8336, {2048, 1, 1}, {512, 1, 1}, 18.962963, 303.40741, 75},
    {A100, 46, 0, {303, 1, 1}, {512, 1, 1}, 2.8055556, 44.88889, 50},
    {A100, 46, 12304, {20581, 1, 1}, {128, 1, 1}, 190.56482, 762.2593, 63},
    {A100, 47, 0, {864, 1, 1}, {256, 1, 1}, 8, 64, 63},
    {A100, 48, 7696, {32, 1, 1}, {128, 1, 1}, 0.2962963, 1.1851852, 2},
    {A100, 48, 7696, {521, 1, 1}, {128, 1, 1}, 4.8240743, 19.296297, 30},
    {A100, 50, 16384, {34, 1, 1}, {16, 32, 1}, 0.3148148, 5.037037, 8},
    {A100, 50, 2064, {23, 16, 1}, {32, 4, 1}, 3.4074075, 13.62963, 21},
    {A100, 57, 16384, {1, 768, 1}, {256, 1, 1}, 7.111111, 56.88889, 50},
    {A100, 64, 35904, {768, 1, 1}, {512, 1, 1}, 7.111111, 113.77778, 50},
    {A100, 80, 0, {8, 1, 1}, {32, 4, 1}, 0.074074, 0.296296, 0},
    {A100, 90, 49152, {1, 1, 32}, {128, 1, 1}, 0.296296, 1.185185, 2},
    {A100, 90, 49152, {16, 1, 32}, {128, 1, 1}, 4.740741, 18.962963, 19},
    {A100, 90, 49152, {8, 1, 32}, {128, 1, 1}, 2.37037, 9.481482, 15},
    {A100, 96, 42024, {24, 1, 1}, {544, 1, 1}, 0.22222222, 3.777778, 6},
    {V100, 109, 0, {8, 1, 1}, {32, 4, 1}, 0.1, 0.4, 1},
    {V100, 122, 12288, {74, 8, 1}, {128, 1, 1}, 7.4, 29.6, 25},
    {V100, 122, 12544, {14, 16, 1}, {128, 1, 1}, 2.8, 11.2, 17},
    {V100, 128, 32768, {4, 8, 14}, {256, 1, 1}, 5.6, 44.8, 25},
    {V100, 134, 40960, {11, 6, 1}, {256, 1, 1}, 0.825, 6.6, 10},
    {V100, 16, 0, {2304, 1, 1}, {64, 1, 1}, 28.8, 57.6, 90},
    {V100, 16, 0, {367, 1, 1}, {128, 1, 1}, 4.5875, 18.35, 29},
    {V100, 160, 32768, {36, 8, 7}, {128, 1, 1}, 25.2, 100.8, 19},
    {V100, 163, 33856, {1, 1, 1}, {256, 1, 1}, 0.0125, 0.1, 0},
    {V100, 20, 0, {2640, 1, 1}, {128, 1, 1}, 33, 132, 100},
    {V100, 20, 0, {880, 1, 1}, {128, 1, 1}, 11, 44, 69},
    {V100, 20, 0, {98, 1, 1}, {128, 1, 1}, 1.225, 4.9, 8},
    {V100, 21, 0, {256, 1, 1}, {128, 1, 1}, 3.2, 12.8, 20},
    {V100, 21, 0, {512, 1, 1}, {128, 1, 1}, 6.4, 25.6, 40},
    {V100, 23, 0, {1024, 1, 1}, {128, 1, 1}, 12.8, 51.2, 80},
    {V100, 23, 0, {2, 1, 1}, {128, 1, 1}, 0.025, 0.1, 0},
    {V100, 28, 2064, {293, 1, 1}, {32, 16, 1}, 3.6625, 58.6, 92},
    {V100, 28, 2064, {54, 1, 1}, {32, 16, 1}, 0.675, 10.8, 17},
    {V100, 32, 16384, {10233, 1, 1}, {32, 16, 1}, 127.9125, 2046.6, 100},
    {V100, 32, 400, {256, 1, 1}, {512, 1, 1}, 3.2, 51.2, 80},
    {V100, 32, 4112, {2, 62, 1}, {256, 2, 1}, 1.55, 24.8, 39},
    {V100, 36, 0, {732, 1, 1}, {128, 1, 1}, 9.15, 36.6, 57},
    {V100, 38, 26768, {512, 1, 1}, {512, 1, 1}, 6.4, 102.4, 75},
    {V100, 40, 0, {12, 12, 1}, {32, 16, 1}, 1.8, 28.8, 45},
    {V100, 40, 0, {248448, 1, 1}, {128, 1, 1}, 3105.6, 12422.4, 75},
    {V100, 40, 0, {8, 14, 1}, {32, 16, 1}, 1.4, 22.4, 35},
    {V100, 40, 0, {8, 25, 1}, {32, 16, 1}, 2.5, 40, 63},
    {V100, 47, 40960, {962837, 1, 1}, {32, 16, 1}, 12035.463, 192567.4, 50},
    {V100, 48, 7696, {7991, 1, 1}, {128, 1, 1}, 99.8875, 399.55, 63},
    {V100, 50, 0, {303, 1, 1}, {512, 1, 1}, 3.7875, 60.6, 50},
    {V100, 50, 0, {40, 1, 1}, {512, 1, 1}, 0.5, 8, 13},
    {V100, 50, 1536, {4, 1, 1024}, {128, 1, 1}, 51.2, 204.8, 56},
    {V100, 57, 16384, {1, 2, 36}, {256, 1, 1}, 0.9, 7.2, 11},
    {V100, 57, 16384, {1, 293, 1}, {256, 1, 1}, 3.6625, 29.3, 46},
    {V100, 57, 16384, {13, 8, 2}, {256, 1, 1}, 2.6, 20.8, 32},
    {V100, 57, 16384, {2, 4, 1}, {256, 1, 1}, 0.1, 0.8, 1},
    {V100, 57, 16384, {38, 4, 1}, {256, 1, 1}, 1.9, 15.2, 24},
    {V100, 57, 16384, {4, 32, 1}, {256, 1, 1}, 1.6, 12.8, 20},
    {V100, 64, 12304, {20060, 1, 1}, {128, 1, 1}, 250.75, 1003, 44},
    {V100, 64, 16896, {32, 32, 1}, {256, 1, 1}, 12.8, 102.4, 50},
    {V100, 64, 24704, {32, 32, 1}, {256, 1, 1}, 12.8, 102.4, 38},
    {V100, 82, 25600, {2, 32, 1}, {256, 1, 1}, 0.8, 6.4, 10},
    {V100, 86, 32768, {8, 32, 1}, {128, 1, 1}, 3.2, 12.8, 19},
    {V100, 88, 3328, {32, 2, 32}, {8, 8, 1}, 25.6, 51.2, 31},
    {V100, 96, 42024, {2, 1, 1}, {544, 1, 1}, 0.025, 0.425, 1},
};

/* Kineto took the default for the most shared memory of a block, found that such kernels cannot be
 * launched, and wrote 0. They had asked for more. */
static const traced large_kernels[] = {
    {A100, 254, 98304, {32, 2, 3}, {128, 1, 1}, 1.7777778, 7.111111, 0},
    {A100, 231, 163840, {64, 2, 1}, {128, 1, 1}, 1.1851852, 4.740741, 0},
    {A100, 226, 73728, {64, 1, 1}, {256, 1, 1}, 0.5925926, 4.740741, 0},
    {A100, 166, 73728, {2, 1, 54}, {128, 1, 1}, 1.0, 4.0, 0},
    {A100, 98, 98304, {128, 1, 1}, {128, 1, 1}, 1.1851852, 4.740741, 0},
    {A100, 144, 73728, {128, 2, 1}, {128, 1, 1}, 2.3703704, 9.481482, 0},
};

static cp_launch launch_of(const traced *k)
{
    return (cp_launch){.registers_per_thread = k->registers,
                       .threads_per_block = k->block[0] * k->block[1] * k->block[2],
                       .shared_static_bytes = k->shared,
                       .block_count = (uint64_t)k->grid[0] * k->grid[1] * k->grid[2]};
}

static void assert_near(double a, double b)
{
    double apart = a > b ? a - b : b - a;
    assert_true(apart <= 1e-5 * b + 1e-6); /* traces have six digits, or single precision */
}

static void kernels_of_real_traces_occupy_what_the_traces_say(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof kernels / sizeof kernels[0]; i++) {
        const traced *k = &kernels[i];
        cp_launch l = launch_of(k);
        cp_occupancy o;
        assert_true(cp_occupancy_of(k->device, &l, &o));
        assert_int_equal(o.estimated_percent, k->percent);
        assert_near(o.blocks_each, k->blocks_per_sm);
        assert_near(o.warps_each, k->warps_per_sm);
    }
}

static void kernels_with_much_shared_memory_have_an_occupancy(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof large_kernels / sizeof large_kernels[0]; i++) {
        const traced *k = &large_kernels[i];
        cp_launch l = launch_of(k);
        cp_occupancy o;
        assert_true(cp_occupancy_of(k->device, &l, &o));
        assert_int_equal(k->percent, 0);
        assert_true(o.blocks_per_sm >= 1);
        assert_true(o.estimated_percent >= 1);
        assert_near(o.blocks_each, k->blocks_per_sm);
    }
}

static void a_launch_that_cannot_be_has_no_blocks(void **state)
{
    (void)state;
    cp_occupancy o;
    const cp_launch too_many_threads = {.threads_per_block = 1025, .block_count = 1};
    const cp_launch too_many_registers = {
        .threads_per_block = 1024, .registers_per_thread = 128, .block_count = 1};
    const cp_launch too_much_shared = {
        .threads_per_block = 32, .shared_dynamic_bytes = 200000, .block_count = 1};
    assert_true(cp_occupancy_of(A100, &too_many_threads, &o));
    assert_int_equal(o.blocks_per_sm, 0);
    assert_true(o.by_warps);
    assert_true(cp_occupancy_of(A100, &too_many_registers, &o));
    assert_int_equal(o.blocks_per_sm, 0);
    assert_true(o.by_registers && !o.by_warps);
    assert_true(cp_occupancy_of(A100, &too_much_shared, &o));
    assert_int_equal(o.blocks_per_sm, 0);
    assert_int_equal(o.estimated_percent, 0);
    assert_true(o.by_shared);
}

static void a_device_that_is_not_known_has_no_occupancy(void **state)
{
    (void)state;
    cp_occupancy o;
    const cp_launch l = {.threads_per_block = 32, .block_count = 1};
    const cp_launch nothing = {.block_count = 1};
    cp_device d = cuda_a100;
    assert_false(cp_occupancy_of(NULL, &l, &o));
    d.major = 99;
    assert_false(cp_occupancy_of(&d, &l, &o));
    d = cuda_a100;
    d.sm_count = 0;
    assert_false(cp_occupancy_of(&d, &l, &o));
    assert_false(cp_occupancy_of(A100, &nothing, &o));
}

static void numbers_without_sense_do_no_harm(void **state)
{
    uint64_t seed = 5;
    (void)state;
    for (int i = 0; i < 20000; i++) {
        cp_device d = cuda_a100;
        cp_occupancy o;
        cp_launch l = {.registers_per_thread = (uint32_t)next_random(&seed) & 0xffff,
                       .threads_per_block = (uint32_t)next_random(&seed),
                       .shared_static_bytes = (uint32_t)next_random(&seed),
                       .shared_dynamic_bytes = (uint32_t)next_random(&seed),
                       .block_count = next_random(&seed)};
        int32_t *fields = &d.major;
        for (size_t n = 0; n < (offsetof(cp_device, memory_bytes) - offsetof(cp_device, major)) / 4;
             n++)
            fields[n] = next_random(&seed) & 1 ? fields[n] : (int32_t)next_random(&seed);
        (void)cp_occupancy_of(&d, &l, &o);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(kernels_of_real_traces_occupy_what_the_traces_say),
        cmocka_unit_test(kernels_with_much_shared_memory_have_an_occupancy),
        cmocka_unit_test(a_launch_that_cannot_be_has_no_blocks),
        cmocka_unit_test(a_device_that_is_not_known_has_no_occupancy),
        cmocka_unit_test(numbers_without_sense_do_no_harm),
    };
    return RUN_TESTS(tests);
}
