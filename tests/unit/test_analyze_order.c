/* Order as Python's list.sort leaves it: what is expected is what CPython 3.11's sorted() answered,
 * with a key of functools.cmp_to_key that says -1 where `less` is true, else 1. */
#include "unit.h"

#include "analyze/compat/order.h"

#define GROUP 40

static uint32_t mix(uint32_t a, uint32_t b)
{
    uint32_t x = a * 2654435761u + b * 2246822519u;
    x ^= x >> 15;
    x *= 0x85ebca6bu;
    return x ^ x >> 13;
}

static bool toss(const void *context, uint32_t a, uint32_t b)
{
    (void)context;
    return mix(a, b) & 1;
}

/* Three groups of a circle: each is less than the next. */
static bool circle(const void *context, uint32_t a, uint32_t b)
{
    (void)context;
    return a / GROUP != b / GROUP ? a < b : (b + 3 - a % 3) % 3 == 1;
}

static bool toss_in_groups(const void *context, uint32_t a, uint32_t b)
{
    return a / GROUP != b / GROUP ? a < b : toss(context, a, b);
}

static bool often_right(const void *context, uint32_t a, uint32_t b)
{
    (void)context;
    return (a < b) != (mix(a, b) % 64 == 0);
}

static bool never(const void *context, uint32_t a, uint32_t b)
{
    (void)context;
    (void)a;
    (void)b;
    return false;
}

static bool by_tens(const void *context, uint32_t a, uint32_t b)
{
    (void)context;
    return a / 10 < b / 10;
}

enum { SHUFFLED, TWO_RUNS, FALLING, TURNED, HOWS };

static uint32_t item_of(int how, uint32_t i, uint32_t n)
{
    uint32_t even = (n + 1) / 2;
    const uint32_t of[HOWS] = {mix(i, 7) % n, i < even ? 2 * i : 2 * (i - even) + 1, n - 1 - i,
                               (i + n / 3) % n};
    return of[how];
}

/* Anything that compares any two things has an answer; this one depends on each comparison. */
static void few_things_come_out_as_in_python(void **state)
{
    (void)state;
    uint32_t items[] = {0, 5, 3, 9, 1, 7, 2, 11, 4, 10, 8, 6};
    const uint32_t expected[] = {7, 9, 4, 8, 0, 3, 2, 6, 1, 5, 10, 11};
    assert_true(ka_order_python(items, KB_COUNT(items), toss, NULL));
    assert_memory_equal(items, expected, sizeof expected);
}

static void many_things_that_contradict_each_other_come_out_as_in_python(void **state)
{
    (void)state;
    ka_less *const less[] = {toss_in_groups, circle, often_right};
    const uint32_t counts[] = {63, 1000, 5000};
    /* FNV-1a of the items, one step for each. */
    const uint32_t expected[HOWS][KB_COUNT(less)][KB_COUNT(counts)] = {
        {{0x8e39c86b, 0x9144fbe6, 0xca9079a3},
         {0x944df9ab, 0x73f9a55c, 0x0fa2128f},
         {0x31d3e20b, 0xec47312a, 0x97a6a6f7}},
        {{0x0fb39208, 0x25fda31d, 0xcec858bf},
         {0xce959c7c, 0xadabc46d, 0xb13b2d21},
         {0xa19514d2, 0x35334763, 0x3298326b}},
        {{0x149059ac, 0x47a012cf, 0x6d4ed4f1},
         {0x1494ca38, 0xa06ae7fd, 0x8c7ca59d},
         {0x54f91cbc, 0xa2748cab, 0x8b004df5}},
        {{0x9b3d888a, 0x9371de21, 0x314cce3f},
         {0xb48962d2, 0xf73acfe7, 0x19cc3ab7},
         {0x448c07a8, 0x1b89f3f5, 0x63b3d0bd}},
    };
    static uint32_t items[5000];
    for (int how = 0; how < HOWS; how++)
        for (size_t k = 0; k < KB_COUNT(less) * KB_COUNT(counts); k++) {
            size_t which = k / KB_COUNT(counts), size = k % KB_COUNT(counts);
            uint32_t digest = 2166136261u;
            for (uint32_t i = 0; i < counts[size]; i++)
                items[i] = item_of(how, i, counts[size]);
            assert_true(ka_order_python(items, counts[size], less[which], NULL));
            for (uint32_t i = 0; i < counts[size]; i++)
                digest = (digest ^ items[i]) * 16777619u;
            assert_int_equal(digest, expected[how][which][size]);
        }
}

static void what_is_equal_stays_in_its_order(void **state)
{
    (void)state;
    static uint32_t items[3000];
    for (uint32_t i = 0; i < 3000; i++)
        items[i] = (i * 7) % 3000;
    assert_true(ka_order_python(items, 3000, by_tens, NULL));
    static uint32_t place[3000];
    for (uint32_t i = 0; i < 3000; i++)
        place[(i * 7) % 3000] = i;
    for (uint32_t i = 1; i < 3000; i++) {
        assert_true(items[i - 1] / 10 <= items[i] / 10);
        if (items[i - 1] / 10 == items[i] / 10)
            assert_true(place[items[i - 1]] < place[items[i]]);
    }
}

static void nothing_and_one_are_in_order(void **state)
{
    (void)state;
    uint32_t item = 4;
    assert_true(ka_order_python(NULL, 0, never, NULL));
    assert_true(ka_order_python(&item, 1, never, NULL));
    assert_int_equal(item, 4);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(few_things_come_out_as_in_python),
        cmocka_unit_test(many_things_that_contradict_each_other_come_out_as_in_python),
        cmocka_unit_test(what_is_equal_stays_in_its_order),
        cmocka_unit_test(nothing_and_one_are_in_order),
    };
    return RUN_TESTS(tests);
}
