/* SipHash-2-4 against the values that its authors published for the key 00 01 … 0f. */
#include "base/base.h"

#include "unit.h"

static const uint64_t key[2] = {UINT64_C(0x0706050403020100), UINT64_C(0x0f0e0d0c0b0a0908)};

static void published_values(void **state)
{
    (void)state;
    static const struct {
        size_t bytes;
        uint64_t hash;
    } rows[] = {{0, UINT64_C(0x726fdb47dd0e0e31)},  {1, UINT64_C(0x74f839c593dc67fd)},
                {7, UINT64_C(0xab0200f58b01d137)},  {8, UINT64_C(0x93f5f5799a932462)},
                {15, UINT64_C(0xa129ca6149be45e5)}, {63, UINT64_C(0x958a324ceb064572)}};
    uint8_t input[64];
    for (size_t i = 0; i < sizeof input; i++)
        input[i] = (uint8_t)i;
    for (size_t i = 0; i < KB_COUNT(rows); i++)
        assert_true(kb_siphash(key, input, rows[i].bytes) == rows[i].hash);
}

static void every_bit_of_key_and_text_matters(void **state)
{
    (void)state;
    uint8_t text[20] = "a text to be hidden";
    uint64_t hash = kb_siphash(key, text, sizeof text);
    for (size_t bit = 0; bit < 8 * sizeof text; bit++) {
        text[bit / 8] ^= (uint8_t)(1u << bit % 8);
        assert_true(kb_siphash(key, text, sizeof text) != hash);
        text[bit / 8] ^= (uint8_t)(1u << bit % 8);
    }
    for (size_t bit = 0; bit < 128; bit++) {
        uint64_t other[2] = {key[0], key[1]};
        other[bit / 64] ^= UINT64_C(1) << bit % 64;
        assert_true(kb_siphash(other, text, sizeof text) != hash);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(published_values),
        cmocka_unit_test(every_bit_of_key_and_text_matters),
    };
    return RUN_TESTS(tests);
}
