/* What a range is called. */
#include "unit/unit.h"

#include "profiler/emit.h"

static const char *text_of(const kp_range_info *info)
{
    static char text[4096];
    size_t n = kp_range_text(text, sizeof text, info);
    assert_int_equal(n, strlen(text));
    return text;
}

static void parts_appear_only_if_they_are_there(void **state)
{
    (void)state;
    const int64_t sizes[] = {64, 3, 7};
    kineto_tensor t = {.sizes = sizes, .rank = 3}, scalar = {.rank = 0};
    kineto_input in[] = {kineto_input_tensor(&t), kineto_input_tensor(&scalar)};
    kp_producer by[] = {{7, 0}, {0, -1}};
    kp_range_info info = {.name = "aten::mm", .sequence_number = -1};
    assert_string_equal(text_of(&info), "aten::mm");
    info.sequence_number = 0;
    assert_string_equal(text_of(&info), "aten::mm, seq = 0");
    info.sequence_number = -2; /* PyTorch loses the name here */
    info.inputs = in;
    info.input_count = 2;
    assert_string_equal(text_of(&info), "aten::mm, sizes = [[64, 3, 7], []]");
    info.op_id = UINT64_MAX;
    info.sequence_number = INT64_MAX;
    info.producers = by;
    info.producer_count = 2;
    assert_string_equal(text_of(&info),
                        "aten::mm, seq = 9223372036854775807, op_id = 18446744073709551615, "
                        "sizes = [[64, 3, 7], []], input_op_ids = [(7,0), (0,-1)]");
}

static void inputs_that_are_no_tensors_have_no_sizes(void **state)
{
    (void)state;
    const int64_t sizes[] = {-1};
    const int64_t ints[] = {1, 2};
    kineto_tensor t[2] = {{.sizes = sizes, .rank = 1}, {.sizes = NULL, .rank = 5}};
    kineto_input in[] = {kineto_input_int(3),        kineto_input_tensors(t, 2),
                         kineto_input_tensor(NULL),  kineto_input_tensors(t, 0),
                         kineto_input_ints(ints, 2), kineto_input_tensors(NULL, 3)};
    kp_range_info info = {.name = "", .sequence_number = -1, .inputs = in, .input_count = 6};
    assert_string_equal(text_of(&info), ", sizes = [[], [-1], [], [], [], [], []]");
    info.name = NULL;
    info.input_count = 0;
    assert_string_equal(text_of(&info), "");
}

/* Whatever the room, the text is the beginning of the whole one, valid, and ends with a NUL inside.
 */
static void any_room_gives_a_valid_beginning(void **state)
{
    (void)state;
    const int64_t sizes[] = {123456, 7};
    kineto_tensor t = {.sizes = sizes, .rank = 2};
    kineto_input in[] = {kineto_input_tensor(&t)};
    kp_producer by[] = {{70000, 12}};
    kp_range_info info = {.name = "\xc3\xa4\xe2\x82\xac\xf0\x9f\x98\x80x",
                          .sequence_number = 12345,
                          .op_id = 99,
                          .inputs = in,
                          .input_count = 1,
                          .producers = by,
                          .producer_count = 1};
    char whole[256], part[256];
    size_t size = kp_range_text(whole, sizeof whole, &info);
    assert_int_equal(kp_range_text(NULL, 0, &info), 0);
    for (size_t room = 1; room <= size + 2; room++) {
        memset(part, 'Z', sizeof part);
        size_t n = kp_range_text(part, room, &info);
        assert_true(n < room);
        assert_int_equal(part[n], '\0');
        assert_int_equal(part[n + 1 > room ? n + 1 : room], 'Z');
        assert_memory_equal(part, whole, n);
        assert_int_equal(kb_utf8_valid_prefix(part, n), n);
        if (room > size)
            assert_int_equal(n, size);
    }
    (void)kp_range_text(part, 21, &info); /* would end within 12345 */
    assert_string_equal(part, "\xc3\xa4\xe2\x82\xac\xf0\x9f\x98\x80x, seq = ");
}

static void bytes_that_are_no_text_are_left_alone(void **state)
{
    (void)state;
    char text[5];
    kp_range_info info = {.name = "\x80\x80\x80\x80\x80\x80\x80", .sequence_number = -1};
    assert_int_equal(kp_range_text(text, sizeof text, &info), 0);
    assert_string_equal(text_of(&info), info.name);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(parts_appear_only_if_they_are_there),
        cmocka_unit_test(inputs_that_are_no_tensors_have_no_sizes),
        cmocka_unit_test(any_room_gives_a_valid_beginning),
        cmocka_unit_test(bytes_that_are_no_text_are_left_alone),
    };
    return RUN_TESTS(tests);
}
