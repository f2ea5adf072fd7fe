/* Texts, arena, growing arrays, hash, map and interning. */
#include "unit.h"

#include "base/base.h"

static void an_arena_keeps_every_piece_intact_and_aligned(void **state)
{
    (void)state;
    enum { PIECES = 5000 };
    static unsigned char *pieces[PIECES];
    static size_t sizes[PIECES];
    uint64_t seed = 1;
    kb_arena a = {0};
    for (int i = 0; i < PIECES; i++) {
        size_t align = (size_t)1 << (next_random(&seed) % 7);
        sizes[i] = i % 500 == 0 ? 100000 : next_random(&seed) % 200;
        pieces[i] = kb_arena_alloc(&a, sizes[i], align);
        assert_non_null(pieces[i]);
        assert_int_equal((uintptr_t)pieces[i] % align, 0);
        memset(pieces[i], i & 255, sizes[i]);
    }
    for (int i = 0; i < PIECES; i++) {
        for (size_t k = 0; k < sizes[i]; k++)
            assert_int_equal(pieces[i][k], i & 255);
    }
    assert_null(kb_arena_alloc(&a, SIZE_MAX - 4, 8));
    kb_arena_free(&a);
    assert_null(a.head);
}

static void an_arena_copies_bytes_with_an_end(void **state)
{
    (void)state;
    kb_arena a = {0};
    char *copy = kb_arena_copy(&a, "a\0b", 3);
    assert_memory_equal(copy, "a\0b\0", 4);
    assert_string_equal(kb_arena_copy(&a, NULL, 0), "");
    kb_arena_free(&a);
}

static void an_array_grows_and_keeps_its_items(void **state)
{
    (void)state;
    KB_VEC(uint32_t) v = {0};
    for (uint32_t i = 0; i < 10000; i++)
        assert_true(kb_vec_push(&v, i * 3));
    for (uint32_t i = 0; i < 10000; i++)
        assert_int_equal(v.data[i], i * 3);
    assert_false(kb_vec_reserve(&v, SIZE_MAX / 2));
    assert_int_equal(v.count, 10000);
    assert_int_equal(v.data[9999], 29997);
    kb_vec_free(&v);
    assert_null(v.data);
}

static void a_hash_is_the_same_on_every_machine_and_run(void **state)
{
    (void)state;
    const char text[] = "0123456789abcdefghijklmnopqrstuvwxyz";
    uint64_t seen[37];
    for (size_t n = 0; n <= 36; n++) {
        seen[n] = kb_hash(text, n);
        assert_int_equal(seen[n], kb_hash(text, n));
        for (size_t k = 0; k < n; k++)
            assert_int_not_equal(seen[n], seen[k]);
    }
    /* Fixed values: they may be stored. */
    assert_int_equal(seen[0], UINT64_C(0xf9f4f2c7cb150c8a));
    assert_int_equal(seen[36], UINT64_C(0xa7dff541c0143387));
    assert_int_not_equal(kb_hash_seeded(1, text, 36), kb_hash_seeded(2, text, 36));
}

static void a_map_finds_what_was_put_and_nothing_else(void **state)
{
    (void)state;
    enum { COUNT = 20000 };
    kb_map m = {0};
    bool created = false;
    assert_null(kb_map_find(&m, 0));
    for (uint64_t i = 0; i < COUNT; i++) {
        uint64_t key = i * UINT64_C(0x1000000000000001);
        assert_null(kb_map_find(&m, key));
        *kb_map_insert(&m, key, 0, &created) += i;
        assert_true(created);
    }
    assert_int_equal(m.count, COUNT);
    for (uint64_t i = 0; i < COUNT; i++) {
        uint64_t key = i * UINT64_C(0x1000000000000001);
        assert_int_equal(*kb_map_insert(&m, key, 99, &created), i);
        assert_false(created);
    }
    assert_null(kb_map_find(&m, 5));
    assert_non_null(kb_map_insert(&m, UINT64_MAX, 4, NULL));
    assert_int_equal(*kb_map_find(&m, UINT64_MAX), 4);
    assert_int_equal(*kb_map_find(&m, 0), 0);
    kb_map_free(&m);
    assert_null(kb_map_find(&m, UINT64_MAX));
}

static void equal_bytes_get_one_id_in_order_of_arrival(void **state)
{
    (void)state;
    enum { COUNT = 5000 };
    kb_intern in = {0};
    char text[32];
    assert_int_equal(kb_intern_get(&in, 0).size, 0);
    assert_int_equal(kb_intern_id(&in, (kineto_string){NULL, 0}), 0);
    for (int round = 0; round < 2; round++) {
        for (uint32_t i = 0; i < COUNT; i++) {
            int n = snprintf(text, sizeof(text), "name %u", i);
            assert_int_equal(kb_intern_id(&in, (kineto_string){text, (size_t)n}), i + 1);
        }
    }
    assert_int_equal(in.strings.count, COUNT + 1);
    for (uint32_t i = 0; i < COUNT; i++) {
        snprintf(text, sizeof(text), "name %u", i);
        assert_string_equal(kb_intern_get(&in, i + 1).data, text);
    }
    kb_intern_free(&in);
}

static void any_bytes_can_be_interned(void **state)
{
    (void)state;
    kb_intern in = {0};
    uint32_t a = kb_intern_id(&in, (kineto_string){"\0", 1});
    uint32_t b = kb_intern_id(&in, (kineto_string){"\0\0", 2});
    uint32_t c = kb_intern_id(&in, (kineto_string){"\xff\xfe", 2});
    assert_int_equal(a, 1);
    assert_int_equal(b, 2);
    assert_int_equal(c, 3);
    assert_memory_equal(kb_intern_get(&in, c).data, "\xff\xfe", 3);
    assert_int_equal(kb_intern_get(&in, 77).size, 0);
    kb_intern_free(&in);
}

static void words_are_found_in_small_and_capital_letters(void **state)
{
    (void)state;
    static const char *const known[] = {"one", "two"};
    assert_true(kb_string_is_ignoring_case(kb_string("SocKet"), "socket"));
    assert_false(kb_string_is_ignoring_case(kb_string("socke"), "socket"));
    assert_false(kb_string_is_ignoring_case(kb_string("sockets"), "socket"));
    assert_false(kb_string_is_ignoring_case((kineto_string){"a\0", 2}, "a"));
    assert_true(kb_string_is_ignoring_case((kineto_string){NULL, 0}, ""));
    assert_true(kb_string_contains_ignoring_case(kb_string("hipMemcpyAsync"), "memcpy"));
    assert_true(kb_string_contains_ignoring_case(kb_string("aMEMCPY"), "memcpy"));
    assert_false(kb_string_contains_ignoring_case(kb_string("memcp"), "memcpy"));
    assert_true(kb_string_is_one_of(kb_string("two"), known, KB_COUNT(known)));
    assert_false(kb_string_is_one_of(kb_string("Two"), known, KB_COUNT(known)));
}

static void blanks_around_a_text_are_left_out(void **state)
{
    (void)state;
    assert_string_equal(kb_string_trimmed(kb_string(" \t a b")).data, "a b");
    assert_int_equal(kb_string_trimmed(kb_string("a b \t\r")).size, 3);
    assert_int_equal(kb_string_trimmed(kb_string(" \r\t ")).size, 0);
    assert_int_equal(kb_string_trimmed((kineto_string){NULL, 0}).size, 0);
    assert_string_equal(kb_string_skip(kb_string("kernel:gemm"), 7).data, "gemm");
}

static void characters_are_classified_as_ascii_whatever_their_sign(void **state)
{
    (void)state;
    static const char digits[] = "0123456789", hex[] = "0123456789abcdef", capitals[] = "ABCDEF";
    for (int c = -128; c < 128; c++) {
        bool upper = c >= 'A' && c <= 'Z', lower = c >= 'a' && c <= 'z';
        const char *as_hex = c ? strchr(hex, c) : NULL, *as_capital = c ? strchr(capitals, c) : NULL;
        int value = as_hex ? (int)(as_hex - hex) : as_capital ? (int)(as_capital - capitals) + 10 : -1;
        assert_int_equal(kb_is_digit((char)c), c && strchr(digits, c) != NULL);
        assert_int_equal(kb_is_upper((char)c), upper);
        assert_int_equal(kb_is_lower((char)c), lower);
        assert_int_equal(kb_is_letter((char)c), upper || lower);
        assert_int_equal(kb_is_letter_or_digit((char)c), upper || lower || kb_is_digit((char)c));
        assert_int_equal(kb_lower((char)c), upper ? c + 32 : c);
        assert_int_equal(kb_hex_value((char)c), value);
        assert_int_equal(kb_is_hex_digit((char)c), value >= 0);
    }
}

static void strings_are_compared_with_literals(void **state)
{
    (void)state;
    kineto_string none = {NULL, 0}, name = kb_string("trace.json.gz");
    assert_true(kb_string_is(name, "trace.json.gz"));
    assert_false(kb_string_is(name, "trace.json"));
    assert_false(kb_string_is((kineto_string){"a\0", 2}, "a"));
    assert_true(kb_string_starts_with(name, "trace."));
    assert_false(kb_string_starts_with(name, "trace.json.gz2"));
    assert_true(kb_string_ends_with(name, ".gz"));
    assert_false(kb_string_ends_with(name, ".json"));
    assert_false(kb_string_ends_with(kb_string("gz"), ".gz"));
    assert_true(kb_string_is(none, "") && kb_string_starts_with(none, "") && kb_string_ends_with(none, ""));
    assert_true(kb_string_contains(name, "json") && kb_string_contains(none, ""));
}

static void a_lower_bound_is_the_first_that_does_not_precede(void **state)
{
    (void)state;
    static const int keys[] = {1, 3, 3, 3, 5, 9};
    for (int key = 0; key <= 10; key++) {
        for (uint32_t count = 0; count <= KB_COUNT(keys); count++) {
            uint32_t lower = 0, upper = 0, i = 0, k = 0;
            while (lower < count && keys[lower] < key)
                lower++;
            while (upper < count && keys[upper] <= key)
                upper++;
            KB_LOWER_BOUND(i, count, keys[i] < key);
            KB_LOWER_BOUND(k, count, keys[k] <= key);
            assert_int_equal(i, lower);
            assert_int_equal(k, upper);
        }
    }
    size_t from = 4;
    KB_LOWER_BOUND(from, KB_COUNT(keys), keys[from] < 2);
    assert_int_equal(from, 4);
    size_t huge = 0;
    KB_LOWER_BOUND(huge, SIZE_MAX, huge < SIZE_MAX - 7);
    assert_int_equal(huge, SIZE_MAX - 7);
}

static void comparisons_and_units_of_time_have_their_values(void **state)
{
    (void)state;
    assert_int_equal(KB_COMPARE(1, 2), -1);
    assert_int_equal(KB_COMPARE(2, 2), 0);
    assert_int_equal(KB_COMPARE(UINT64_MAX, UINT64_C(1)), 1);
    assert_int_equal(KB_SECOND_NS, 1000 * KB_MILLISECOND_NS);
    assert_int_equal(KB_MILLISECOND_NS, 1000 * KB_MICROSECOND_NS);
    assert_int_equal(KB_DAY_NS, INT64_C(86400000000000));
    uint64_t before = kb_monotonic_ns();
    assert_true(before > 0 && kb_monotonic_ns() >= before);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_arena_keeps_every_piece_intact_and_aligned),
        cmocka_unit_test(an_arena_copies_bytes_with_an_end),
        cmocka_unit_test(an_array_grows_and_keeps_its_items),
        cmocka_unit_test(a_hash_is_the_same_on_every_machine_and_run),
        cmocka_unit_test(a_map_finds_what_was_put_and_nothing_else),
        cmocka_unit_test(equal_bytes_get_one_id_in_order_of_arrival),
        cmocka_unit_test(any_bytes_can_be_interned),
        cmocka_unit_test(words_are_found_in_small_and_capital_letters),
        cmocka_unit_test(characters_are_classified_as_ascii_whatever_their_sign),
        cmocka_unit_test(strings_are_compared_with_literals),
        cmocka_unit_test(a_lower_bound_is_the_first_that_does_not_precede),
        cmocka_unit_test(comparisons_and_units_of_time_have_their_values),
        cmocka_unit_test(blanks_around_a_text_are_left_out),
    };
    return RUN_TESTS(tests);
}
