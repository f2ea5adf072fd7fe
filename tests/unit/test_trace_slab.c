/* Slabs: what one trace released the next one takes, and no more than a few are kept. */
#include "trace/model/slab.h"

#include <pthread.h>

#include "unit.h"

#define PIECE ((size_t)1 << 20)
#define SLABS 6

static void *taken(kt_slab **slab, size_t bytes)
{
    void *memory = kt_slab_take(slab, bytes);
    assert_non_null(memory);
    assert_int_equal((uintptr_t)memory % 64, 0);
    memset(memory, 0xa5, bytes);
    return memory;
}

/* Both references: what was taken and the slab itself. */
static void release(kt_slab *slab)
{
    kt_slab_release(slab);
    kt_slab_release(slab);
}

static void test_released_memory_is_taken_again(void **state)
{
    (void)state;
    kt_slab *first = NULL, *second = NULL;
    void *before = taken(&first, PIECE);
    release(first);
    assert_ptr_equal(taken(&second, PIECE), before);
    release(second);
}

static void test_two_slabs_at_once_are_two(void **state)
{
    (void)state;
    kt_slab *slabs[SLABS] = {0};
    void *at[SLABS];
    for (int round = 0; round < 3; round++) {
        for (int i = 0; i < SLABS; i++) {
            at[i] = taken(&slabs[i], PIECE);
            for (int j = 0; j < i; j++)
                assert_ptr_not_equal(at[i], at[j]);
        }
        for (int i = 0; i < SLABS; i++) {
            release(slabs[i]);
            slabs[i] = NULL;
        }
    }
}

static void test_larger_ones_are_not_kept(void **state)
{
    (void)state;
    kt_slab *large = NULL, *next = NULL;
    (void)taken(&large, (size_t)40 << 20);
    release(large);
    (void)taken(&next, (size_t)40 << 20);
    release(next);
}

static void *take_and_release(void *unused)
{
    (void)unused;
    for (int i = 0; i < 200; i++) {
        kt_slab *slab = NULL;
        uint8_t *memory = kt_slab_take(&slab, 64);
        memory[0] = (uint8_t)i;
        release(slab);
    }
    return NULL;
}

static void test_threads_never_share_one(void **state)
{
    (void)state;
    pthread_t threads[4];
    for (int i = 0; i < 4; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, take_and_release, NULL), 0);
    for (int i = 0; i < 4; i++)
        pthread_join(threads[i], NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_released_memory_is_taken_again),
        cmocka_unit_test(test_two_slabs_at_once_are_two),
        cmocka_unit_test(test_larger_ones_are_not_kept),
        cmocka_unit_test(test_threads_never_share_one),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
