/* What operators are given is what the trace says, as PyTorch writes it: through the arguments of
 * the trace, in the JSON file as Python reads it, and in the trace that is read from that file. */
#include "unit/unit.h"

#include "helpers/recording.h"

#include "function.h"

#include <math.h>

KINETO_OPERATOR(plain_site, "test::plain");
KINETO_OPERATOR(mm_site, "aten::mm");
KINETO_FUNCTION_SITE(user_site, KINETO_SCOPE_USER_SCOPE, "step");
KINETO_FUNCTION_SITE(backward_site, KINETO_SCOPE_BACKWARD_FUNCTION, "MmBackward0");

static kineto_tensor tensor_of(uint8_t dtype, const int64_t *sizes, uint32_t rank,
                               const int64_t *strides)
{
    return (kineto_tensor){
        .sizes = sizes, .strides = strides, .rank = rank, .dtype = dtype, .device_index = -1};
}

/* A session, one operator, its trace; the only row. */
static kineto_trace *one(uint32_t what, const kineto_input *inputs, size_t count)
{
    kineto_session *s = operators(what);
    run(&plain_site, inputs, count);
    kineto_trace *t = finish(s);
    verify(t);
    assert_nothing_lost(t);
    assert_int_equal(kineto_trace_count(t), 1);
    return t;
}

static kineto_trace *one_info(uint32_t what, const kineto_function_info *info)
{
    kineto_session *s = operators(what);
    run_info(&plain_site, info);
    kineto_trace *t = finish(s);
    verify(t);
    assert_nothing_lost(t);
    assert_int_equal(kineto_trace_count(t), 1);
    return t;
}

static void check_one(const kineto_input *inputs, size_t count, const char *dims,
                      const char *strides, const char *types, const char *values)
{
    kineto_trace *t = one(ALL_INPUTS, inputs, count);
    expect_inputs(t, 0, dims, strides, types, values);
    assert_false(row_at(t, 0).flags & KINETO_ACTIVITY_ARGS_LOST);
    kineto_trace_release(t);
}

/* ---- types of inputs ------------------------------------------------------------------------- */

static void each_type_of_input_reads_as_pytorch_writes_it(void **state)
{
    (void)state;
    const int64_t sizes[] = {2, 3}, ints[] = {1, -2};
    const double doubles[] = {0.5, 1};
    const bool bools[] = {true, false};
    kineto_tensor a = tensor_of(KINETO_DTYPE_FLOAT, sizes, 2, NULL);
    kineto_tensor list[] = {a, tensor_of(KINETO_DTYPE_INT64, sizes, 1, NULL)};
    kineto_input in[] = {kineto_input_of(KINETO_INPUT_NONE, 0),
                         kineto_input_tensor(&a),
                         kineto_input_tensors(list, 2),
                         kineto_input_int(-7),
                         kineto_input_double(0.5),
                         kineto_input_bool(true),
                         kineto_input_ints(ints, 2),
                         kineto_input_of(KINETO_INPUT_DOUBLES, 2),
                         kineto_input_of(KINETO_INPUT_BOOLS, 2),
                         kineto_input_string("text"),
                         kineto_input_of(KINETO_INPUT_OTHER, 0)};
    in[7].doubles = doubles;
    in[8].bools = bools;
    check_one(in, COUNT_OF(in), "[[],[2,3],[[2,3],[2]],[],[],[],[],[],[],[],[]]",
              "[[],[3,1],[[3,1],[1]],[],[],[],[],[],[],[],[]]",
              "[\"\",\"float\",\"TensorList\",\"Scalar\",\"Scalar\",\"Scalar\",\"ScalarList\","
              "\"ScalarList\",\"ScalarList\",\"\",\"\"]",
              "[\"\",\"\",\"\",\"-7\",\"0.5\",\"True\",\"[1, -2]\",\"[0.5, 1.]\",\"[True, "
              "False]\",\"\",\"\"]");
}

static void a_type_that_there_is_not_is_nothing_and_the_rest_stays(void **state)
{
    (void)state;
    const int64_t sizes[] = {4};
    kineto_tensor a = tensor_of(KINETO_DTYPE_INT8, sizes, 1, NULL);
    kineto_tensor odd = tensor_of(200, sizes, 1, NULL);
    kineto_input in[] = {kineto_input_of(11, 0), kineto_input_of(UINT32_MAX, 9),
                         kineto_input_tensor(&a), kineto_input_tensor(&odd)};
    check_one(in, 4, "[[],[],[4],[4]]", "[[],[],[1],[1]]", "[\"\",\"\",\"signed char\",\"\"]",
              "[\"\",\"\",\"\",\"\"]");
}

static void undefined_tensors_are_empty(void **state)
{
    (void)state;
    const int64_t sizes[] = {5, 1, 2};
    kineto_tensor a = tensor_of(KINETO_DTYPE_BOOL, sizes, 3, NULL);
    kineto_input in[] = {kineto_input_tensor(NULL), kineto_input_tensor(&a),
                         kineto_input_tensor(NULL), kineto_input_tensors(NULL, 0)};
    check_one(in, 4, "[[],[5,1,2],[],[]]", "[[],[2,2,1],[],[]]",
              "[\"\",\"bool\",\"\",\"TensorList\"]", "[\"\",\"\",\"\",\"\"]");
}

static void each_dtype_has_pytorchs_spelling(void **state)
{
    (void)state;
    static const char *const names[] = {
#define KINETO_X(name, value, text, bytes) [value] = (text),
        KINETO_DTYPE_MAP(KINETO_X)
#undef KINETO_X
    };
    const int64_t sizes[] = {1};
    for (uint8_t i = 0; i < KINETO_DTYPE_COUNT; i++) {
        kineto_tensor a = tensor_of(i, sizes, 1, NULL);
        kineto_input in = kineto_input_tensor(&a);
        char types[64];
        snprintf(types, sizeof types, "[\"%s\"]", names[i]);
        check_one(&in, 1, "[[1]]", "[[1]]", types, "[\"\"]");
    }
}

static void doubles_have_pytorchs_texts(void **state)
{
    (void)state;
    static const struct {
        double value;
        const char *text;
    } table[] = {{0, "[\"0.\"]"},           {1, "[\"1.\"]"},        {-3, "[\"-3.\"]"},
                 {0.5, "[\"0.5\"]"},        {-0.01, "[\"-0.01\"]"}, {INFINITY, "[\"inf\"]"},
                 {-INFINITY, "[\"-inf\"]"}, {NAN, "[\"nan\"]"}};
    for (size_t i = 0; i < COUNT_OF(table); i++) {
        kineto_input in = kineto_input_double(table[i].value);
        check_one(&in, 1, "[[]]", "[[]]", "[\"Scalar\"]", table[i].text);
    }
    static const double exact[] = {1e300, -1e-300, 0.1, 1.0 / 3, 123456789012345.0, 5e-324};
    for (size_t i = 0; i < COUNT_OF(exact); i++) {
        kineto_input in = kineto_input_double(exact[i]);
        kineto_trace *t = one(ALL_INPUTS, &in, 1);
        kineto_arg a = arg_of(t, 0, "Concrete Inputs");
        assert_true(a.text.size > 4 && a.text.size < 60);
        assert_true(strtod(a.text.data + 2, NULL) == exact[i]);
        kineto_trace_release(t);
    }
}

static void integers_keep_all_their_digits(void **state)
{
    (void)state;
    const int64_t ints[] = {INT64_MIN, INT64_MAX, 0, -1};
    kineto_input in[] = {kineto_input_int(INT64_MIN), kineto_input_int(INT64_MAX),
                         kineto_input_ints(ints, 4), kineto_input_bool(false)};
    check_one(in, 4, "[[],[],[],[]]", "[[],[],[],[]]",
              "[\"Scalar\",\"Scalar\",\"ScalarList\",\"Scalar\"]",
              "[\"-9223372036854775808\",\"9223372036854775807\",\"[-9223372036854775808, "
              "9223372036854775807, 0, -1]\",\"False\"]");
}

/* ---- sizes and strides ----------------------------------------------------------------------- */

static void check_tensor(const int64_t *sizes, uint32_t rank, const int64_t *strides,
                         const int64_t *expected_strides)
{
    static growing dims, steps;
    kineto_tensor a = tensor_of(KINETO_DTYPE_FLOAT, sizes, rank, strides);
    kineto_input in = kineto_input_tensor(&a);
    clear_text(&dims);
    clear_text(&steps);
    put_text(&dims, "[");
    put_ints(&dims, sizes, rank, ",");
    put_text(&dims, "]");
    put_text(&steps, "[");
    put_ints(&steps, expected_strides, rank, ",");
    put_text(&steps, "]");
    check_one(&in, 1, dims.s, steps.s, "[\"float\"]", "[\"\"]");
}

static void all_ranks_up_to_64_have_their_sizes_and_strides(void **state)
{
    (void)state;
    int64_t sizes[64], strides[64], contiguous[64];
    for (uint32_t rank = 0; rank <= 64; rank++) {
        for (int big = 0; big < 2; big++) {
            int64_t step = 1;
            for (uint32_t i = rank; i-- > 0;) {
                sizes[i] = big && i == 0 ? 70000 : i < 20 ? 2 : 1;
                strides[i] = 3 + (int64_t)i * (big ? 100000 : 5);
                contiguous[i] = step;
                step *= sizes[i];
            }
            check_tensor(sizes, rank, NULL, contiguous);
            check_tensor(sizes, rank, contiguous, contiguous);
            check_tensor(sizes, rank, strides, strides);
        }
    }
}

static void more_than_64_dimensions_are_left_out_and_said(void **state)
{
    (void)state;
    int64_t sizes[65];
    for (int i = 0; i < 65; i++)
        sizes[i] = 1;
    kineto_tensor a = tensor_of(KINETO_DTYPE_FLOAT, sizes, 65, NULL);
    kineto_input in = kineto_input_tensor(&a);
    kineto_trace *t = one(ALL_INPUTS, &in, 1);
    assert_true(row_at(t, 0).flags & KINETO_ACTIVITY_ARGS_LOST);
    assert_int_equal(ledger(t, "program", "arguments too large, left out"), 1);
    expect_no_arg(t, 0, "Input Dims");
    kineto_trace_release(t);
}

static void sizes_of_any_magnitude_and_sign_are_kept(void **state)
{
    (void)state;
    static const int64_t odd[] = {0,         1,         65535,      65536,     -1,
                                  INT64_MIN, INT64_MAX, UINT32_MAX, INT32_MIN, 40000};
    for (size_t i = 0; i < COUNT_OF(odd); i++)
        for (size_t k = 0; k < COUNT_OF(odd); k++)
            for (uint32_t rank = 2; rank <= 6; rank++) {
                int64_t sizes[6], strides[6];
                for (uint32_t d = 0; d + 1 < rank; d++) {
                    sizes[d] = d % 2 ? odd[k] : odd[i];
                    strides[d] = d % 2 ? odd[i] : odd[k];
                }
                sizes[rank - 1] = 3; /* not contiguous */
                strides[rank - 1] = 5;
                check_tensor(sizes, rank, strides, strides);
            }
}

/* The program's strides are what is written, whatever the sizes; without, PyTorch's contiguous
 * ones, in which no size counts less than 1. */
static void strides_are_those_given_or_contiguous_ones(void **state)
{
    (void)state;
    static const struct {
        uint32_t rank;
        int64_t sizes[4], strides[4];
    } given[] = {
        {2, {3, 2}, {1, 3}},               /* transposed */
        {2, {3, 2}, {0, 0}},               /* expanded */
        {2, {3, 2}, {-2, 1}},              /* backwards */
        {1, {5}, {2}},                     /* every other */
        {4, {2, 3, 4, 5}, {60, 1, 15, 3}}, /* channels last */
        {2, {1, 7}, {7, 1}},               /* contiguous with a size of 1 */
        {2, {0, 3}, {3, 1}},               /* zero sizes as PyTorch has them */
        {2, {2, 0}, {1, 1}},
        {3, {2, 0, 3}, {3, 3, 1}},
        {4, {0, 0, 0, 0}, {1, 1, 1, 1}},
    };
    static const struct {
        uint32_t rank;
        int64_t sizes[4], strides[4];
    } made[] = {
        {2, {2, 0}, {1, 1}},       {3, {2, 0, 3}, {3, 3, 1}},
        {2, {0, 0}, {1, 1}},       {4, {2, 3, 4, 5}, {60, 20, 5, 1}},
        {3, {1, 1, 1}, {1, 1, 1}}, {3, {70000, 70000, 2}, {140000, 2, 1}},
    };
    for (size_t i = 0; i < COUNT_OF(given); i++)
        check_tensor(given[i].sizes, given[i].rank, given[i].strides, given[i].strides);
    for (size_t i = 0; i < COUNT_OF(made); i++)
        check_tensor(made[i].sizes, made[i].rank, NULL, made[i].strides);
}

/* PyTorch writes what the tensor has, also where a stride has no effect. */
static void strides_without_effect_are_those_given(void **state)
{
    (void)state;
    static const struct {
        uint32_t rank;
        int64_t sizes[4], strides[4];
    } given[] = {
        {2, {3, 1}, {1, 99}},
        {2, {1, 3}, {99, 1}},
        {3, {3, 1, 2}, {2, 5, 1}},
        {1, {1}, {12}},
        {4, {1, 1, 1, 1}, {4, 3, 2, 1}},
        {2, {2, 0}, {0, 1}},
        {3, {2, 0, 3}, {0, 3, 1}},
        {1, {0}, {7}},
    };
    for (size_t i = 0; i < COUNT_OF(given); i++)
        check_tensor(given[i].sizes, given[i].rank, given[i].strides, given[i].strides);
}

/* ---- lists and counts ------------------------------------------------------------------------ */

static void lists_of_tensors_are_written_up_to_30(void **state)
{
    (void)state;
    static const uint32_t counts[] = {0, 1, 2, 29, 30, 31, 255, 256, 300, 70000};
    static kineto_tensor list[70000];
    const int64_t sizes[] = {2, 5};
    growing dims = {0}, strides = {0};
    for (size_t i = 0; i < COUNT_OF(list); i++)
        list[i] = tensor_of(KINETO_DTYPE_HALF, sizes, i % 3, NULL);
    for (size_t i = 0; i < COUNT_OF(counts); i++) {
        static const char *const each[] = {"[]", "[2]", "[2,5]"};
        static const char *const steps[] = {"[]", "[1]", "[5,1]"};
        kineto_tensor last = tensor_of(KINETO_DTYPE_INT32, sizes, 1, NULL);
        kineto_input in[] = {kineto_input_tensors(list, counts[i]), kineto_input_tensor(&last)};
        clear_text(&dims);
        clear_text(&strides);
        put_text(&dims, "[[");
        put_text(&strides, "[[");
        for (uint32_t k = 0; k < counts[i] && counts[i] <= 30; k++) {
            put_text(&dims, k ? "," : "");
            put_text(&dims, each[k % 3]);
            put_text(&strides, k ? "," : "");
            put_text(&strides, steps[k % 3]);
        }
        put_text(&dims, "],[2]]");
        put_text(&strides, "],[1]]");
        check_one(in, 2, dims.s, strides.s, "[\"TensorList\",\"int\"]", "[\"\",\"\"]");
    }
    free(dims.s);
    free(strides.s);
}

static void check_numbers(uint32_t type, uint32_t count, const void *values, const char *item)
{
    growing text = {0};
    kineto_input in[] = {kineto_input_of(type, count), kineto_input_int(4)};
    in[0].ints = values;
    put_text(&text, "[\"");
    put_text(&text, count <= 30 ? "[" : "");
    for (uint32_t i = 0; i < count && count <= 30; i++) {
        put_text(&text, i ? ", " : "");
        put_text(&text, item);
    }
    put_text(&text, count <= 30 ? "]" : "");
    put_text(&text, "\",\"4\"]");
    check_one(in, 2, "[[],[]]", "[[],[]]", "[\"ScalarList\",\"Scalar\"]", text.s);
    free(text.s);
}

static void lists_of_numbers_have_values_up_to_30(void **state)
{
    (void)state;
    static const uint32_t counts[] = {0, 1, 29, 30, 31, 300, 1u << 20, UINT32_MAX};
    int64_t ints[31];
    double doubles[31];
    bool bools[31];
    for (int i = 0; i < 31; i++)
        ints[i] = -5, doubles[i] = 1.5, bools[i] = true;
    for (size_t i = 0; i < COUNT_OF(counts); i++) {
        check_numbers(KINETO_INPUT_INTS, counts[i], ints, "-5");
        check_numbers(KINETO_INPUT_DOUBLES, counts[i], doubles, "1.5");
        check_numbers(KINETO_INPUT_BOOLS, counts[i], bools, "True");
    }
}

static void a_list_that_is_null_is_not_an_error(void **state)
{
    (void)state;
    kineto_input in[] = {kineto_input_ints(NULL, 5), kineto_input_tensors(NULL, 5),
                         kineto_input_string(NULL)};
    kineto_trace *t = one(ALL_INPUTS, in, 3);
    expect_text(t, 0, "Input type", "[\"ScalarList\",\"TensorList\",\"\"]");
    expect_text(t, 0, "Input Dims", "[[],[],[]]");
    kineto_trace_release(t);
}

static void up_to_255_inputs_are_recorded_and_more_are_said_to_be_lost(void **state)
{
    (void)state;
    static const uint32_t counts[] = {1, 7, 8, 9, 100, 254, 255, 256, 300};
    const int64_t sizes[] = {2, 3};
    kineto_tensor a = tensor_of(KINETO_DTYPE_FLOAT, sizes, 2, NULL);
    static kineto_input in[300];
    for (int tensors = 0; tensors < 2; tensors++) {
        for (size_t i = 0; i < COUNT_OF(in); i++)
            in[i] = tensors ? kineto_input_tensor(&a) : kineto_input_int((int64_t)i);
        for (size_t i = 0; i < COUNT_OF(counts); i++) {
            growing dims = {0};
            put_text(&dims, "[");
            for (uint32_t k = 0; k < counts[i] && k < 255; k++) {
                put_text(&dims, k ? "," : "");
                put_text(&dims, tensors ? "[2,3]" : "[]");
            }
            put_text(&dims, "]");
            kineto_trace *t = one(ALL_INPUTS, in, counts[i]);
            expect_text(t, 0, "Input Dims", dims.s);
            assert_int_equal((row_at(t, 0).flags & KINETO_ACTIVITY_ARGS_LOST) != 0,
                             counts[i] > 255);
            kineto_trace_release(t);
            free(dims.s);
        }
    }
}

static void no_inputs_are_none_or_an_empty_list(void **state)
{
    (void)state;
    kineto_trace *t = one(ALL_INPUTS, NULL, 0);
    kineto_arg a;
    if (kineto_args_find(t, 0, "Input Dims", &a))
        assert_text(a.text, "[]");
    kineto_trace_release(t);
    t = one(ALL_INPUTS, NULL, 9); /* says 9, has none */
    assert_text(row_at(t, 0).name, "test::plain");
    kineto_trace_release(t);
}

static void what_does_not_fit_a_record_is_left_out_and_the_operator_stays(void **state)
{
    (void)state;
    int64_t sizes[64];
    for (int i = 0; i < 64; i++)
        sizes[i] = 100000 + i;
    kineto_tensor a = tensor_of(KINETO_DTYPE_FLOAT, sizes, 64, NULL);
    kineto_input in[100];
    for (size_t i = 0; i < COUNT_OF(in); i++)
        in[i] = kineto_input_tensor(&a);
    kineto_session *s = operators(ALL_INPUTS);
    run(&plain_site, in, 100);
    run(&mm_site, in, 1);
    kineto_trace *t = finish(s);
    verify(t);
    kineto_activity big = find_only(t, "test::plain"), small = find_only(t, "aten::mm");
    assert_true(big.flags & KINETO_ACTIVITY_ARGS_LOST);
    expect_no_arg(t, big.row, "Input Dims");
    expect_int(t, big.row, "Record function id", big.external_id);
    assert_false(small.flags & KINETO_ACTIVITY_ARGS_LOST);
    assert_true(has_arg(t, small.row, "Input Dims"));
    assert_int_equal(ledger(t, "program", "arguments too large, left out"), 1);
    kineto_trace_release(t);
}

/* ---- what is asked for ----------------------------------------------------------------------- */

static void only_what_the_session_wants_is_there(void **state)
{
    (void)state;
    const int64_t sizes[] = {2, 3};
    kineto_tensor a = tensor_of(KINETO_DTYPE_FLOAT, sizes, 2, NULL);
    kineto_input in[] = {kineto_input_tensor(&a), kineto_input_int(5), kineto_input_ints(sizes, 2)};
    kineto_trace *t = one(0, in, 3);
    expect_inputs(t, 0, NULL, NULL, NULL, NULL);
    kineto_trace_release(t);
    t = one(KINETO_OPERATORS_VALUES, in, 3); /* only with INPUTS */
    expect_inputs(t, 0, NULL, NULL, NULL, NULL);
    kineto_trace_release(t);
    t = one(KINETO_OPERATORS_INPUTS, in, 3);
    expect_inputs(t, 0, "[[2,3],[],[]]", "[[3,1],[],[]]", "[\"float\",\"Scalar\",\"ScalarList\"]",
                  NULL);
    expect_no_arg(t, 0, "Input Tensors");
    kineto_trace_release(t);
    t = one(ALL_INPUTS, in, 3);
    expect_inputs(t, 0, "[[2,3],[],[]]", "[[3,1],[],[]]", "[\"float\",\"Scalar\",\"ScalarList\"]",
                  "[\"\",\"5\",\"[2, 3]\"]");
    kineto_trace_release(t);
}

static void keywords_are_arguments_under_their_names(void **state)
{
    (void)state;
    const int64_t ints[] = {1, -2, 3};
    kineto_tensor a = tensor_of(KINETO_DTYPE_FLOAT, ints, 1, NULL);
    char *name = strdup("made at run time"); /* copied: freed before the trace is made */
    kineto_keyword k[] = {{"i", kineto_input_int(-9)},
                          {"d", kineto_input_double(0.25)},
                          {"b", kineto_input_bool(true)},
                          {"s", kineto_input_string("te\"xt\\")},
                          {"l", kineto_input_ints(ints, 3)},
                          {"t", kineto_input_tensor(&a)},
                          {"o", kineto_input_of(KINETO_INPUT_OTHER, 0)},
                          {"x", kineto_input_of(99, 0)},
                          {NULL, kineto_input_int(1)},
                          {"n", kineto_input_string(NULL)},
                          {"e", kineto_input_ints(NULL, 0)},
                          {name, kineto_input_int(77)}};
    kineto_function_info info;
    kineto_function_info_init(&info);
    info.keywords = k;
    info.keyword_count = COUNT_OF(k);
    kineto_session *s = operators(ALL_INPUTS);
    run_info(&plain_site, &info);
    memset(name, '#', strlen(name));
    free(name);
    kineto_trace *t = finish(s);
    expect_int(t, 0, "i", -9);
    assert_true(arg_of(t, 0, "d").d == 0.25);
    assert_int_equal(arg_of(t, 0, "b").type, KINETO_ARG_BOOL);
    assert_int_equal(arg_of(t, 0, "b").u, 1);
    expect_text(t, 0, "s", "te\"xt\\");
    expect_text(t, 0, "l", "[1,-2,3]");
    expect_no_arg(t, 0, "t");
    expect_no_arg(t, 0, "o");
    expect_no_arg(t, 0, "x");
    expect_int(t, 0, "made at run time", 77);
    kineto_trace_release(t);
    t = one_info(0, &(kineto_function_info){.size = sizeof info,
                                            .keywords = k,
                                            .keyword_count = 5,
                                            .sequence_number = -1,
                                            .debug_handle = -1});
    expect_no_arg(t, 0, "i"); /* inputs are not requested */
    kineto_trace_release(t);
}

static void stacks_and_modules_of_the_program_are_there_unless_refused(void **state)
{
    (void)state;
    kineto_function_info info;
    kineto_function_info_init(&info);
    growing deep = {0};
    for (int i = 0; i < 300; i++)
        put_text(&deep, "frame of a file.c(123): function;");
    info.stack = "inner;outer;";
    info.modules = "Net.Layer.";
    kineto_trace *t = one_info(0, &info);
    expect_text(t, 0, "Call stack", "inner;outer;");
    expect_text(t, 0, "Module Hierarchy", "Net.Layer.");
    kineto_trace_release(t);
    t = one_info(KINETO_OPERATORS_NO_TEXTS | ALL_INPUTS, &info);
    expect_no_arg(t, 0, "Call stack");
    expect_no_arg(t, 0, "Module Hierarchy");
    kineto_trace_release(t);
    info.stack = deep.s;
    info.modules = "";
    t = one_info(0, &info);
    expect_text(t, 0, "Call stack", deep.s);
    expect_no_arg(t, 0, "Module Hierarchy"); /* empty values are left out */
    kineto_trace_release(t);
    free(deep.s);
}

static void numbers_of_the_graph_come_out_as_they_went_in(void **state)
{
    (void)state;
    static const int64_t sequences[] = {0, 1, 4294967296, INT64_MAX};
    kineto_function_info info;
    kineto_function_info_init(&info);
    kineto_trace *t = one_info(0, &info);
    expect_no_arg(t, 0, "Sequence number");
    expect_no_arg(t, 0, "Fwd thread id");
    expect_no_arg(t, 0, "Debug handle");
    kineto_trace_release(t);
    for (size_t i = 0; i < COUNT_OF(sequences); i++) {
        info.sequence_number = sequences[i];
        info.forward_thread_id = i * 7;
        info.debug_handle = i ? -sequences[i] - 1 : 0;
        t = one_info(0, &info);
        expect_int(t, 0, "Sequence number", sequences[i]);
        expect_int(t, 0, "Fwd thread id", i * 7);
        if (info.debug_handle != -1)
            expect_int(t, 0, "Debug handle", info.debug_handle);
        kineto_trace_release(t);
    }
    kineto_function_info_init(&info);
    info.forward_thread_id = 4; /* both only with a sequence number */
    t = one_info(0, &info);
    expect_no_arg(t, 0, "Fwd thread id");
    expect_no_arg(t, 0, "Sequence number");
    kineto_trace_release(t);
}

/* ---- names, scopes, ids ---------------------------------------------------------------------- */

static void names_of_the_moment_are_kept_byte_for_byte(void **state)
{
    (void)state;
    static char longest[70001], odd[256];
    memset(longest, 'n', 70000);
    for (int i = 0; i < 255; i++)
        odd[i] = (char)(i + 1);
    const char *names[] = {"",
                           "a",
                           "caf\xc3\xa9",
                           "\xff\xfe\x80 bad",
                           odd,
                           longest,
                           longest + 65000,
                           longest + 70000 - 1024,
                           longest + 70000 - 1025};
    for (size_t i = 0; i < COUNT_OF(names); i++) {
        kineto_function_info info;
        kineto_function_info_init(&info);
        char *copy = strdup(names[i]);
        info.name = copy;
        kineto_session *s = operators(ALL_INPUTS);
        kineto_function f;
        kineto_function_begin_info(&f, &plain_site, &info);
        memset(copy, '#', strlen(copy)); /* it is the caller's again */
        free(copy);
        kineto_function_end(&f);
        kineto_trace *t = finish(s);
        assert_nothing_lost(t);
        assert_int_equal(kineto_trace_count(t), 1);
        kineto_string name = row_at(t, 0).name;
        if (i < 5 || i == 6) {
            assert_text(name, names[i]);
        } else { /* if it is shortened, that is said */
            assert_true(name.size <= strlen(names[i]));
            assert_memory_equal(name.data, names[i], name.size);
            if (name.size < strlen(names[i]))
                assert_int_equal(ledger(t, "program", "text shortened"), 1);
        }
        kineto_trace_release(t);
    }
}

static void scopes_decide_the_kind(void **state)
{
    (void)state;
    kineto_session *s = operators(0);
    for (int scope = 0; scope < KINETO_NUM_SCOPES; scope++) {
        char name[32];
        snprintf(name, sizeof name, "scope %d", scope);
        run(kineto_function_site(name, NULL, (kineto_scope)scope), NULL, 0);
    }
    kineto_trace *t = finish(s);
    assert_int_equal(kineto_trace_count(t), KINETO_NUM_SCOPES);
    for (int scope = 0; scope < KINETO_NUM_SCOPES; scope++) {
        char name[32];
        snprintf(name, sizeof name, "scope %d", scope);
        kineto_activity a = find_only(t, name);
        assert_int_equal(KINETO_ACTIVITY_SCOPE(a.flags), scope);
        assert_int_equal(a.kind, scope == KINETO_SCOPE_USER_SCOPE ? KINETO_KIND_USER_ANNOTATION
                                                                  : KINETO_KIND_CPU_OP);
        assert_int_equal(a.form, KINETO_FORM_SLICE);
    }
    kineto_trace_release(t);
}

static void sites_made_at_run_time_are_one_per_name_overload_and_scope(void **state)
{
    (void)state;
    char name[] = "run time name", over[] = "out";
    kineto_site *a = kineto_function_site(name, NULL, KINETO_SCOPE_FUNCTION);
    kineto_site *b = kineto_function_site(name, over, KINETO_SCOPE_FUNCTION);
    assert_non_null(a);
    assert_non_null(b);
    assert_ptr_equal(a, kineto_function_site("run time name", "", KINETO_SCOPE_FUNCTION));
    assert_ptr_not_equal(a, b);
    assert_ptr_equal(b, kineto_function_site("run time name", "out", KINETO_SCOPE_FUNCTION));
    assert_ptr_not_equal(a, kineto_function_site(name, NULL, KINETO_SCOPE_USER_SCOPE));
    /* "a" + "bc" is not "ab" + "c" */
    assert_ptr_not_equal(kineto_function_site("a", "bc", KINETO_SCOPE_FUNCTION),
                         kineto_function_site("ab", "c", KINETO_SCOPE_FUNCTION));
    assert_null(kineto_function_site(NULL, NULL, KINETO_SCOPE_FUNCTION));
    assert_null(kineto_function_site("x", NULL, KINETO_NUM_SCOPES));
    assert_null(kineto_function_site("x", NULL, (kineto_scope)-1));
    memset(name, '#', sizeof name - 1); /* copied */
    memset(over, '#', sizeof over - 1);
    kineto_session *plain = operators(0), *with = operators(KINETO_OPERATORS_OVERLOADS);
    run(a, NULL, 0);
    run(b, NULL, 0);
    kineto_trace *t = finish(with), *u = finish(plain);
    assert_int_equal(count_named(t, "run time name"), 1);
    assert_int_equal(count_named(t, "run time name.out"), 1);
    assert_int_equal(count_named(u, "run time name"), 2);
    kineto_trace_release(t);
    kineto_trace_release(u);
    for (int i = 0; i < 5000; i++) { /* many of them, and all are found again */
        char text[32];
        snprintf(text, sizeof text, "number %d", i % 2500);
        kineto_site *site = kineto_function_site(text, i % 2 ? "o" : NULL, KINETO_SCOPE_FUNCTION);
        assert_non_null(site);
        assert_string_equal(site->name, text);
    }
}

static void ids_are_the_activitys_and_differ(void **state)
{
    (void)state;
    enum { MANY = 5000 };
    static uint64_t ids[MANY];
    for (int round = 0; round < 3; round++) {
        kineto_session *s = operators(ALL_INPUTS);
        for (int i = 0; i < MANY; i++) {
            kineto_function f;
            kineto_function_begin(&f, &mm_site, NULL, 0);
            ids[i] = kineto_function_id(&f);
            assert_true(ids[i] != 0);
            kineto_function_end(&f);
            assert_int_equal(kineto_function_id(&f), 0);
        }
        kineto_trace *t = finish(s);
        assert_int_equal(kineto_trace_count(t), MANY);
        for (kineto_row r = 0; r < MANY; r++) {
            kineto_activity a = row_at(t, r);
            assert_int_equal(a.external_id, ids[r]);
            expect_int(t, r, "Record function id", ids[r]);
            expect_int(t, r, "Ev Idx", r);
            assert_true(r == 0 || ids[r] > ids[r - 1]);
        }
        kineto_trace_release(t);
    }
    kineto_function f;
    kineto_function_begin(&f, &mm_site, NULL, 0); /* no callback is registered */
    assert_int_equal(kineto_function_id(&f), 0);
    kineto_function_end(&f);
}

static void ids_of_tensors_and_outputs_are_reported_on_request(void **state)
{
    (void)state;
    const int64_t sizes[] = {2, 3};
    kineto_tensor a = tensor_of(KINETO_DTYPE_FLOAT, sizes, 2, NULL), b = a, c = a;
    a.id = 11, a.storage_id = INT64_MAX, a.storage_offset = -4;
    b.id = 12, b.storage_id = 99;
    c.id = 13, c.storage_id = 100, c.storage_offset = 6;
    kineto_tensor list[] = {b, c};
    kineto_input in[] = {kineto_input_tensor(&a), kineto_input_int(3),
                         kineto_input_tensors(list, 2)};
    kineto_input out[] = {kineto_input_tensor(&c), kineto_input_double(2)};
    for (int want = 0; want < 2; want++) {
        kineto_session *s = operators(ALL_INPUTS | (want ? KINETO_OPERATORS_IDS : 0));
        kineto_function f;
        kineto_function_begin(&f, &mm_site, in, 3);
        run(&plain_site, NULL, 0); /* one inside changes nothing */
        kineto_function_set_outputs(&f, out, 2);
        kineto_function_end(&f);
        kineto_function_set_outputs(&f, out, 2); /* too late, harmless */
        kineto_trace *t = finish(s);
        kineto_row row = find_only(t, "aten::mm").row;
        expect_text(t, row, "Input Dims", "[[2,3],[],[[2,3],[2,3]]]");
        if (want) {
            expect_text(t, row, "Input Tensors",
                        "[[11,9223372036854775807,-4],[12,99,0],[13,100,6]]");
            expect_text(t, row, "Output Tensors", "[[13,100,6]]");
            expect_text(t, row, "Output Dims", "[[2,3],[]]");
            expect_text(t, row, "Output type", "[\"float\",\"Scalar\"]");
        } else {
            expect_no_arg(t, row, "Input Tensors");
            expect_no_arg(t, row, "Output Dims");
        }
        expect_no_arg(t, find_only(t, "test::plain").row, "Output Dims");
        kineto_trace_release(t);
    }
}

static void an_info_of_an_older_program_is_read_as_far_as_it_goes(void **state)
{
    (void)state;
    kineto_function_info info;
    kineto_function_info_init(&info);
    info.sequence_number = 5;
    info.name = "must not be read";
    info.size = offsetof(kineto_function_info, name);
    kineto_trace *t = one_info(0, &info);
    assert_text(row_at(t, 0).name, "test::plain");
    expect_int(t, 0, "Sequence number", 5);
    kineto_trace_release(t);
    struct {
        kineto_function_info info;
        char more[64];
    } newer;
    memset(&newer, 0, sizeof newer);
    kineto_function_info_init(&newer.info);
    newer.info.size = sizeof newer;
    newer.info.sequence_number = 6;
    t = one_info(0, &newer.info);
    expect_int(t, 0, "Sequence number", 6);
    kineto_trace_release(t);
    t = one_info(0, NULL);
    assert_text(row_at(t, 0).name, "test::plain");
    kineto_trace_release(t);
}

static void macros_record_to_the_end_of_the_block(void **state)
{
    (void)state;
    const int64_t sizes[] = {2, 3};
    kineto_tensor a = tensor_of(KINETO_DTYPE_FLOAT, sizes, 2, NULL);
    kineto_session *s = operators(ALL_INPUTS);
    {
        KINETO_USER_SCOPE("outer");
        for (int i = 0; i < 3; i++) {
            KINETO_FUNCTION("aten::mm", kineto_input_tensor(&a), kineto_input_int(i));
            if (i == 1)
                continue;
            KINETO_BACKWARD_FUNCTION("MmBackward0");
        }
    }
    run(&user_site, NULL, 0);
    run(&backward_site, NULL, 0);
    kineto_trace *t = finish(s);
    verify(t);
    kineto_activity outer = find_only(t, "outer");
    assert_int_equal(outer.kind, KINETO_KIND_USER_ANNOTATION);
    assert_int_equal(count_named(t, "aten::mm"), 3);
    assert_int_equal(count_named(t, "MmBackward0"), 3);
    for (uint64_t i = 0; i < 3; i++) {
        kineto_activity mm = find_nth(t, "aten::mm", i);
        assert_int_equal(kineto_trace_parent(t, mm.row), outer.row);
        expect_text(t, mm.row, "Input Dims", "[[2,3],[]]");
    }
    assert_int_equal(kineto_trace_parent(t, find_nth(t, "MmBackward0", 0).row),
                     find_nth(t, "aten::mm", 0).row);
    kineto_trace_release(t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_type_of_input_reads_as_pytorch_writes_it),
        cmocka_unit_test(a_type_that_there_is_not_is_nothing_and_the_rest_stays),
        cmocka_unit_test(undefined_tensors_are_empty),
        cmocka_unit_test(each_dtype_has_pytorchs_spelling),
        cmocka_unit_test(doubles_have_pytorchs_texts),
        cmocka_unit_test(integers_keep_all_their_digits),
        cmocka_unit_test(all_ranks_up_to_64_have_their_sizes_and_strides),
        cmocka_unit_test(more_than_64_dimensions_are_left_out_and_said),
        cmocka_unit_test(sizes_of_any_magnitude_and_sign_are_kept),
        cmocka_unit_test(strides_are_those_given_or_contiguous_ones),
        cmocka_unit_test(strides_without_effect_are_those_given),
        cmocka_unit_test(lists_of_tensors_are_written_up_to_30),
        cmocka_unit_test(lists_of_numbers_have_values_up_to_30),
        cmocka_unit_test(a_list_that_is_null_is_not_an_error),
        cmocka_unit_test(up_to_255_inputs_are_recorded_and_more_are_said_to_be_lost),
        cmocka_unit_test(no_inputs_are_none_or_an_empty_list),
        cmocka_unit_test(what_does_not_fit_a_record_is_left_out_and_the_operator_stays),
        cmocka_unit_test(only_what_the_session_wants_is_there),
        cmocka_unit_test(keywords_are_arguments_under_their_names),
        cmocka_unit_test(stacks_and_modules_of_the_program_are_there_unless_refused),
        cmocka_unit_test(numbers_of_the_graph_come_out_as_they_went_in),
        cmocka_unit_test(names_of_the_moment_are_kept_byte_for_byte),
        cmocka_unit_test(scopes_decide_the_kind),
        cmocka_unit_test(sites_made_at_run_time_are_one_per_name_overload_and_scope),
        cmocka_unit_test(ids_are_the_activitys_and_differ),
        cmocka_unit_test(ids_of_tensors_and_outputs_are_reported_on_request),
        cmocka_unit_test(an_info_of_an_older_program_is_read_as_far_as_it_goes),
        cmocka_unit_test(macros_record_to_the_end_of_the_block),
    };
    return RUN_TESTS(tests);
}
