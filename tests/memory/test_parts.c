/* The parts of the memory source by themselves: chance, the table of followed blocks, early memory.
 */
#include "memory.h"

#include <errno.h>
#include <math.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "../helpers/sanitizers.h"

static unsigned missed[CM_MISS_COUNT];
void cm_count_miss(cm_miss what) { __atomic_add_fetch(&missed[what], 1, __ATOMIC_RELAXED); }
void cm_thread_init(cm_thread *me) { me->begun = 1; }

/* ---- chance ------------------------------------------------------------------------------------ */

static void logarithm_is_that_of_libm(void **state)
{
    (void)state;
    for (double u = 1; u > 1e-17; u *= 0.99937)
        assert_true(fabs(cm_minus_ln(u) + log(u)) <= 1e-12 * (1 - log(u)));
    assert_true(cm_minus_ln(1) == 0);
    assert_true(fabs(cm_minus_ln(0x1p-53) - 53 * log(2)) < 1e-12);
}

static void every_allocation_is_sampled_at_rates_0_and_1(void **state)
{
    (void)state;
    uint64_t random = 7;
    for (int i = 0; i < 100; i++) {
        assert_true(cm_draw_gap(&random, 0) == 0);
        assert_true(cm_draw_gap(&random, 1) == 0);
    }
}

static void gaps_are_bounded_at_the_largest_rate(void **state)
{
    (void)state;
    HAS_ONE_THREAD();
    uint64_t random = 3;
    for (int i = 0; i < 100000; i++) {
        int64_t gap = cm_draw_gap(&random, UINT64_C(1) << 50);
        assert_true(gap >= 0 && gap < INT64_MAX / 8);
    }
}

/* Blocks of s bytes are sampled with the chance 1 - exp(-s / R), also after others. Seeds are
 * fixed: 5 sigma, and the same result each time. */
static void chance_of_a_block_depends_on_its_size_alone(void **state)
{
    (void)state;
    HAS_ONE_THREAD();
    enum { BLOCKS = 1000000 };
    static const uint64_t sizes[] = {24, 1000, 30000, 65536, 200000};
    const uint64_t rate = 65536;
    uint64_t counts[5] = {0}, hits[5] = {0}, random = 12345, order = 99;
    int64_t countdown = cm_draw_gap(&random, rate);
    for (int i = 0; i < BLOCKS; i++) {
        order = order * UINT64_C(6364136223846793005) + 1442695040888963407;
        unsigned s = (unsigned)(order >> 40) % 5;
        counts[s]++;
        if ((countdown -= (int64_t)sizes[s]) < 0) {
            hits[s]++;
            countdown = cm_draw_gap(&random, rate);
        }
    }
    for (int s = 0; s < 5; s++) {
        double p = 1 - exp(-(double)sizes[s] / (double)rate), n = (double)counts[s];
        assert_true(fabs((double)hits[s] - n * p) < 5 * sqrt(n * p * (1 - p)));
    }
}

/* ---- followed blocks ----------------------------------------------------------------------------- */

static const void *block_of(uint64_t number)
{
    return (const void *)(uintptr_t)(number * 16 + 4096);
}

static void a_block_is_found_once(void **state)
{
    (void)state;
    assert_true(cm_untrack_block(block_of(1)) == 0);
    assert_true(cm_track_block(block_of(1), 100));
    assert_true(cm_is_maybe_tracked(block_of(1)));
    assert_true(cm_untrack_block(block_of(2)) == 0);
    assert_true(cm_untrack_block(block_of(1)) == 100);
    assert_true(cm_untrack_block(block_of(1)) == 0);
    assert_false(cm_is_maybe_tracked(block_of(1)));
}

static void a_full_table_refuses_and_forgets_nothing(void **state)
{
    (void)state;
    HAS_ONE_THREAD();
    uint64_t capacity = cm_track_capacity(), stored = 0;
    bool *is_stored = calloc(2 * capacity, 1);
    assert_non_null(is_stored);
    for (uint64_t i = 0; i < 2 * capacity; i++)
        stored += is_stored[i] = cm_track_block(block_of(i), i + 1);
    assert_true(stored > capacity * 6 / 10 && stored <= capacity);
    for (uint64_t i = 0; i < 2 * capacity; i++)
        assert_true(cm_untrack_block(block_of(i)) == (is_stored[i] ? i + 1 : 0));
    for (size_t i = 0; i < CM_COUNT(cm_filter); i++)
        assert_true(cm_filter[i] == 0);
    assert_true(cm_track_block(block_of(5), 5)); /* there is room again */
    assert_true(cm_untrack_block(block_of(5)) == 5);
    free(is_stored);
}

static void *follow_and_forget(void *argument)
{
    enum { ROUNDS = FEWER(200000, 40000), ALIVE = 512 };
    uint64_t base = (uint64_t)(uintptr_t)argument << 32, random = base + 1;
    uint64_t bytes[ALIVE] = {0};
    uintptr_t wrong = 0;
    for (int i = 0; i < ROUNDS; i++) {
        random = random * UINT64_C(6364136223846793005) + 1442695040888963407;
        uint64_t slot = random >> 55;
        const void *block = block_of(base + slot * 17);
        if (bytes[slot]) {
            wrong += cm_untrack_block(block) != bytes[slot];
            bytes[slot] = 0;
        } else if (cm_track_block(block, bytes[slot] = random >> 40 | 1)) {
            wrong += !cm_is_maybe_tracked(block);
        } else {
            wrong++;
        }
    }
    for (uint64_t slot = 0; slot < ALIVE; slot++)
        if (bytes[slot])
            wrong += cm_untrack_block(block_of(base + slot * 17)) != bytes[slot];
    return (void *)wrong;
}

static void threads_do_not_disturb_each_other(void **state)
{
    (void)state;
    enum { THREADS = 8 };
    pthread_t threads[THREADS];
    for (uintptr_t i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, follow_and_forget, (void *)(i + 1)), 0);
    for (int i = 0; i < THREADS; i++) {
        void *wrong;
        assert_int_equal(pthread_join(threads[i], &wrong), 0);
        assert_null(wrong);
    }
}

/* ---- memory for those who come too early --------------------------------------------------------- */

static void early_memory_is_aligned_zeroed_and_bounded(void **state)
{
    (void)state;
    char *last = NULL;
    size_t count = 0;
    for (size_t bytes = 0;; bytes = bytes * 5 % 301, count++) {
        size_t align = (size_t)16 << count % 7;
        char *block = cm_early_alloc(bytes, align);
        if (!block)
            break;
        assert_true(cm_is_early(block) && (uintptr_t)block % align == 0);
        assert_true(cm_early_size(block) == bytes && block > last);
        for (size_t i = 0; i < bytes; i++)
            assert_int_equal(block[i], 0);
        memset(block, 0xaa, bytes);
        last = block;
        bytes += 3;
    }
    assert_int_equal(errno, ENOMEM);
    assert_true(count > 50 && missed[CM_MISS_EARLY] == count);
    assert_null(cm_early_alloc(SIZE_MAX, 16));
    assert_null(cm_early_alloc(SIZE_MAX - 4096, 4096));
    assert_null(cm_early_alloc(16, 48));
    assert_null(cm_early_alloc(16, 8192));
    assert_false(cm_is_early(NULL) || cm_is_early(&count) ||
                 cm_is_early(cm_early_memory + CM_EARLY_BYTES));
}

static void a_setting_is_a_number_of_bytes_or_the_default(void **state)
{
    static const struct {
        const char *text;
        uint64_t bytes;
    } settings[] = {
        {"1", 1},
        {"0", 1},
        {"65536", 65536},
        {"64K", 65536},
        {"3M", UINT64_C(3) << 20},
        {"1G", UINT64_C(1) << 30},
        {"99999999999999999999999999", UINT64_C(1) << 50},
        {"9999999999999G", UINT64_C(1) << 50},
        {"", CM_INTERVAL_BYTES},
        {"K", CM_INTERVAL_BYTES},
        {"64k", 65536},
        {"64KiB", 65536},
        {"64B", 64},
        {"64Kb", CM_INTERVAL_BYTES},
        {"64KiBx", CM_INTERVAL_BYTES},
        {"1.5M", CM_INTERVAL_BYTES},
        {"1e6", CM_INTERVAL_BYTES},
        {"-5", CM_INTERVAL_BYTES},
    };
    (void)state;
    for (size_t i = 0; i < CM_COUNT(settings); i++)
        assert_int_equal(cm_parse_interval(settings[i].text), settings[i].bytes);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_setting_is_a_number_of_bytes_or_the_default),
        cmocka_unit_test(logarithm_is_that_of_libm),
        cmocka_unit_test(every_allocation_is_sampled_at_rates_0_and_1),
        cmocka_unit_test(gaps_are_bounded_at_the_largest_rate),
        cmocka_unit_test(chance_of_a_block_depends_on_its_size_alone),
        cmocka_unit_test(a_block_is_found_once),
        cmocka_unit_test(a_full_table_refuses_and_forgets_nothing),
        cmocka_unit_test(threads_do_not_disturb_each_other),
        cmocka_unit_test(early_memory_is_aligned_zeroed_and_bounded),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
