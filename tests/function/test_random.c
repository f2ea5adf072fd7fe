/* 100 000 operators with inputs made at random, compared with a second statement of what PyTorch
 * writes: in the trace, in its JSON file as Python reads it, and in the trace read from that file.
 * And what a buffer that is too small loses: it is counted, and nothing else is wrong. */
#include "unit/unit.h"

#include "helpers/recording.h"

#include "function.h"

#define MOST_INPUTS 12
#define MOST_DIMS   8

/* An operator: what it is given, and the texts that it must become. */
typedef struct model {
    kineto_input inputs[MOST_INPUTS];
    uint32_t count;
    kineto_tensor tensors[64];
    int64_t dims[64][2 * MOST_DIMS];
    uint32_t tensor_count;
    int64_t ints[31];
    double doubles[31];
    bool bools[31];
    kineto_keyword keywords[2];
    kineto_function_info info;
    char name[64];
    growing texts[4]; /* dims, strides, types, values */
} model;

enum { DIMS, STRIDES, TYPES, VALUES };

static uint64_t below(uint64_t *random, uint64_t n) { return next_random(random) % n; }

static int64_t some_size(uint64_t *random)
{
    switch (below(random, 8)) {
    case 0:
        return 0;
    case 1:
        return 1;
    case 2:
        return 65535 + (int64_t)below(random, 3);
    case 3:
        return (int64_t)(next_random(random) >> 20);
    default:
        return 2 + (int64_t)below(random, 500);
    }
}

/* Contiguous as PyTorch has it; a size of 0 counts as 1. */
static void make_tensor(model *m, uint64_t *random, uint32_t most_dims)
{
    kineto_tensor *t = &m->tensors[m->tensor_count];
    int64_t *sizes = m->dims[m->tensor_count++], *strides = sizes + MOST_DIMS;
    uint64_t step = 1;
    memset(t, 0, sizeof *t);
    t->rank = (uint32_t)below(random, most_dims + 1);
    t->dtype = (uint8_t)below(random, KINETO_DTYPE_COUNT);
    t->sizes = sizes;
    for (uint32_t i = t->rank; i-- > 0;) {
        sizes[i] = some_size(random);
        strides[i] = (int64_t)step;
        step *= sizes[i] > 1 ? (uint64_t)sizes[i] : 1;
    }
    uint64_t how = below(random, 3);
    if (how == 1)
        t->strides = strides;
    if (how != 2 || t->rank == 0)
        return;
    t->strides = strides; /* no dimension without effect, so that these are odd */
    for (uint32_t i = 0; i < t->rank; i++) {
        sizes[i] = sizes[i] < 2 ? 2 : sizes[i];
        strides[i] = (int64_t)below(random, 3) + (below(random, 2) ? 7 : 100000);
    }
}

static void say_tensor(model *m, const kineto_tensor *t)
{
    put_ints(&m->texts[DIMS], t->sizes, t->rank, ",");
    put_ints(&m->texts[STRIDES], t->sizes + MOST_DIMS, t->rank, ",");
}

static void say(model *m, const char *dims, const char *type, const char *value)
{
    put_text(&m->texts[DIMS], dims);
    put_text(&m->texts[STRIDES], dims);
    put_text(&m->texts[TYPES], "\"");
    put_text(&m->texts[TYPES], type);
    put_text(&m->texts[TYPES], "\"");
    put_text(&m->texts[VALUES], "\"");
    put_text(&m->texts[VALUES], value);
    put_text(&m->texts[VALUES], "\"");
}

static const char *const dtypes[] = {
#define KINETO_X(name, value, text, bytes) [value] = (text),
    KINETO_DTYPE_MAP(KINETO_X)
#undef KINETO_X
};

static kineto_input make_list(model *m, uint64_t *random)
{
    uint32_t count = (uint32_t)below(random, 5), first = m->tensor_count;
    put_text(&m->texts[DIMS], "[");
    put_text(&m->texts[STRIDES], "[");
    for (uint32_t i = 0; i < count; i++) {
        put_text(&m->texts[DIMS], i ? "," : "");
        put_text(&m->texts[STRIDES], i ? "," : "");
        make_tensor(m, random, 3);
        say_tensor(m, &m->tensors[first + i]);
    }
    say(m, "]", "TensorList", "");
    return kineto_input_tensors(&m->tensors[first], count);
}

static kineto_input make_numbers(model *m, uint64_t *random, uint32_t type)
{
    kineto_input input = kineto_input_of(type, (uint32_t)below(random, 8) ? 3 : 31);
    growing text = {0};
    bool has_list = input.count <= 30;
    put_text(&text, has_list ? "[" : "");
    for (uint32_t i = 0; has_list && i < input.count; i++) {
        put_text(&text, i ? ", " : "");
        if (type == KINETO_INPUT_INTS)
            put_int(&text, m->ints[i]);
        else if (type == KINETO_INPUT_DOUBLES)
            put_text(&text, m->doubles[i] == 0.5 ? "0.5" : "-2.");
        else
            put_text(&text, m->bools[i] ? "True" : "False");
    }
    put_text(&text, has_list ? "]" : "");
    say(m, "[]", "ScalarList", text.s);
    free(text.s);
    if (type == KINETO_INPUT_INTS)
        input.ints = m->ints;
    else if (type == KINETO_INPUT_DOUBLES)
        input.doubles = m->doubles;
    else
        input.bools = m->bools;
    return input;
}

static kineto_input make_input(model *m, uint64_t *random)
{
    uint64_t r = below(random, 20);
    char text[32];
    if (r < 10) {
        kineto_tensor *t = &m->tensors[m->tensor_count];
        make_tensor(m, random, r < 5 ? 2 : MOST_DIMS);
        say_tensor(m, t);
        say(m, "", dtypes[t->dtype], "");
        return kineto_input_tensor(t);
    }
    switch (r) {
    case 10:
        say(m, "[]", "", "");
        return kineto_input_tensor(NULL);
    case 11:
        return make_list(m, random);
    case 12:
    case 13:
        snprintf(text, sizeof text, "%lld", (long long)m->ints[r]);
        say(m, "[]", "Scalar", text);
        return kineto_input_int(m->ints[r]);
    case 14:
        say(m, "[]", "Scalar", m->doubles[1] == 0.5 ? "0.5" : "-2.");
        return kineto_input_double(m->doubles[1]);
    case 15:
        say(m, "[]", "Scalar", m->bools[1] ? "True" : "False");
        return kineto_input_bool(m->bools[1]);
    case 16:
    case 17:
    case 18:
        return make_numbers(m, random, KINETO_INPUT_INTS + (uint32_t)(r - 16));
    default:
        say(m, "[]", "", "");
        return r & 1 ? kineto_input_string("not recorded") : kineto_input_of(KINETO_INPUT_OTHER, 0);
    }
}

static void make_info(model *m, uint64_t *random)
{
    kineto_function_info_init(&m->info);
    m->info.inputs = m->inputs;
    m->info.input_count = m->count;
    if (below(random, 2)) {
        m->info.sequence_number = (int64_t)(next_random(random) >> (1 + below(random, 62)));
        m->info.forward_thread_id = below(random, 2) ? next_random(random) >> 40 : 0;
    }
    if (below(random, 4) == 0)
        m->info.debug_handle = (int64_t)below(random, 1000);
    if (below(random, 4) == 0) {
        snprintf(m->name, sizeof m->name, "name \"%llu\"\n\x7f",
                 (unsigned long long)below(random, 50));
        m->info.name = m->name;
    }
    m->info.stack = below(random, 4) ? NULL : "inner \xc3\xa9;outer \"q\";";
    m->info.modules = below(random, 4) ? NULL : "A.B.";
    m->keywords[0] = (kineto_keyword){"alpha", kineto_input_int(m->ints[0])};
    m->keywords[1] = (kineto_keyword){"mode", kineto_input_string("sum\\")};
    m->info.keywords = m->keywords;
    m->info.keyword_count = (uint32_t)below(random, 3);
}

static void make_model(model *m, uint64_t seed)
{
    uint64_t random = seed;
    m->tensor_count = 0;
    for (int i = 0; i < 31; i++) {
        m->ints[i] = (int64_t)next_random(&random) >> below(&random, 64);
        m->doubles[i] = below(&random, 2) ? 0.5 : -2;
        m->bools[i] = below(&random, 2);
    }
    for (int i = 0; i < 4; i++) {
        clear_text(&m->texts[i]);
        put_text(&m->texts[i], "[");
    }
    m->count = (uint32_t)below(&random, MOST_INPUTS) + 1;
    for (uint32_t k = 0; k < m->count; k++) {
        for (int i = 0; i < 4 && k; i++)
            put_text(&m->texts[i], ",");
        m->inputs[k] = make_input(m, &random);
    }
    for (int i = 0; i < 4; i++)
        put_text(&m->texts[i], "]");
    make_info(m, &random);
}

static void free_model(model *m)
{
    for (int i = 0; i < 4; i++)
        free(m->texts[i].s);
}

KINETO_OPERATOR(random_site, "test::random");

static uint64_t record_model(const model *m)
{
    kineto_function f;
    if (m->info.name || m->info.sequence_number >= 0 || m->info.debug_handle >= 0 ||
        m->info.stack || m->info.modules || m->info.keyword_count)
        kineto_function_begin_info(&f, &random_site, &m->info);
    else
        kineto_function_begin(&f, &random_site, m->inputs, m->count);
    uint64_t id = kineto_function_id(&f);
    kineto_function_end(&f);
    return id;
}

static void check_optional_text(const kineto_trace *t, kineto_row row, const char *key,
                                const char *expected)
{
    if (expected)
        expect_text(t, row, key, expected);
    else
        expect_no_arg(t, row, key);
}

static void check_model(const kineto_trace *t, kineto_row row, const model *m)
{
    expect_inputs(t, row, m->texts[DIMS].s, m->texts[STRIDES].s, m->texts[TYPES].s,
                  m->texts[VALUES].s);
    assert_text(row_at(t, row).name, m->info.name ? m->info.name : "test::random");
    check_optional_text(t, row, "Call stack", m->info.stack);
    check_optional_text(t, row, "Module Hierarchy", m->info.modules);
    check_optional_text(t, row, "mode", m->info.keyword_count > 1 ? "sum\\" : NULL);
    if (m->info.keyword_count)
        expect_int(t, row, "alpha", m->ints[0]);
    if (m->info.sequence_number >= 0) {
        expect_int(t, row, "Sequence number", m->info.sequence_number);
        expect_int(t, row, "Fwd thread id", m->info.forward_thread_id);
    } else {
        expect_no_arg(t, row, "Sequence number");
    }
    if (m->info.debug_handle != -1)
        expect_int(t, row, "Debug handle", m->info.debug_handle);
    assert_false(row_at(t, row).flags & KINETO_ACTIVITY_ARGS_LOST);
}

static kineto_session *session_of_bytes(size_t bytes)
{
    kineto_session_options o;
    kineto_session_options_init(&o);
    o.buffer_bytes = bytes;
    o.operators = ALL_INPUTS;
    return session_with(&o);
}

static void a_hundred_thousand_operators_equal_the_model(void **state)
{
    (void)state;
    enum { MANY = 100000 };
    static model m;
    static uint64_t ids[MANY];
    kineto_session *s = session_of_bytes(128u << 20);
    for (uint64_t i = 0; i < MANY; i++) {
        make_model(&m, i + 1);
        ids[i] = record_model(&m);
    }
    kineto_trace *t = finish(s);
    assert_nothing_lost(t);
    assert_int_equal(kineto_trace_count(t), MANY);
    for (uint64_t i = 0; i < MANY; i++) {
        make_model(&m, i + 1);
        assert_int_equal(row_at(t, (kineto_row)i).external_id, ids[i]);
        check_model(t, (kineto_row)i, &m);
    }
    kineto_trace_release(t);
    free_model(&m);
}

/* ---- the file -------------------------------------------------------------------------------- */

static void write_json_text(FILE *f, const char *text)
{
    fputc('"', f);
    for (; *text; text++) {
        if (*text == '"' || *text == '\\' || (unsigned char)*text < 0x20)
            fprintf(f, "\\u%04x", (unsigned char)*text);
        else
            fputc(*text, f);
    }
    fputc('"', f);
}

/* One line: what the file must say of this operator. */
static void write_expected(FILE *f, const model *m, uint64_t id)
{
    fprintf(f, "{\"name\": ");
    write_json_text(f, m->info.name ? m->info.name : "test::random");
    fprintf(f,
            ", \"args\": {\"External id\": %llu, \"Record function id\": %llu, \"Input Dims\": %s, "
            "\"Input Strides\": %s, \"Input type\": %s, \"Concrete Inputs\": %s",
            (unsigned long long)id, (unsigned long long)id, m->texts[DIMS].s, m->texts[STRIDES].s,
            m->texts[TYPES].s, m->texts[VALUES].s);
    if (m->info.sequence_number >= 0)
        fprintf(f, ", \"Sequence number\": %lld, \"Fwd thread id\": %llu",
                (long long)m->info.sequence_number, (unsigned long long)m->info.forward_thread_id);
    if (m->info.debug_handle != -1)
        fprintf(f, ", \"Debug handle\": %lld", (long long)m->info.debug_handle);
    if (m->info.stack) {
        fprintf(f, ", \"Call stack\": ");
        write_json_text(f, m->info.stack);
    }
    if (m->info.modules)
        fprintf(f, ", \"Module Hierarchy\": \"A.B.\"");
    if (m->info.keyword_count)
        fprintf(f, ", \"alpha\": %lld", (long long)m->ints[0]);
    if (m->info.keyword_count > 1)
        fprintf(f, ", \"mode\": \"sum\\\\\"");
    fprintf(f, "}}\n");
}

static void the_file_says_the_same_to_python_and_to_us(void **state)
{
    (void)state;
    enum { MANY = 3000 };
    static model m;
    char directory[256], trace_path[300], expected_path[300], line[900];
    assert_non_null(make_directory(directory, sizeof directory));
    snprintf(trace_path, sizeof trace_path, "%s/trace.json", directory);
    snprintf(expected_path, sizeof expected_path, "%s/expected", directory);
    FILE *f = fopen(expected_path, "w");
    assert_non_null(f);
    kineto_session *s = session_of_bytes(16u << 20);
    for (uint64_t i = 0; i < MANY; i++) {
        make_model(&m, i + 1000001);
        write_expected(f, &m, record_model(&m));
    }
    fclose(f);
    kineto_trace *t = finish(s), *again = NULL;
    assert_nothing_lost(t);
    assert_int_equal(kineto_trace_save(t, trace_path, NULL), KINETO_OK);
    snprintf(line, sizeof line, "%s -B %s/check_operators.py %s %s", PYTHON, HERE, trace_path,
             expected_path);
    assert_int_equal(system(line), 0);
    assert_int_equal(kineto_trace_open(trace_path, &again, NULL), KINETO_OK);
    assert_int_equal(kineto_trace_count(again), MANY);
    for (uint64_t i = 0; i < MANY; i++) {
        kineto_row row = kineto_trace_time_order(again)[i];
        make_model(&m, i + 1000001);
        check_model(again, row, &m);
        assert_int_equal(row_at(again, row).external_id, row_at(t, (kineto_row)i).external_id);
    }
    kineto_trace_release(again);
    kineto_trace_release(t);
    free_model(&m);
    unlink(trace_path);
    unlink(expected_path);
    rmdir(directory);
}

/* ---- too small a buffer ------------------------------------------------------------------------ */

static void what_a_full_buffer_loses_is_counted_and_the_rest_is_right(void **state)
{
    (void)state;
    enum { MANY = 20000 };
    static model m;
    static uint64_t ids[MANY];
    for (int nested = 0; nested < 2; nested++) {
        kineto_session *s = session_of_bytes(64u << 10);
        kineto_function outer;
        for (uint64_t i = 0; i < MANY; i++) {
            make_model(&m, i + 1);
            if (nested && i % 10 == 0)
                kineto_function_begin(&outer, &random_site, NULL, 0);
            ids[i] = record_model(&m);
            if (nested && i % 10 == 9)
                kineto_function_end(&outer);
        }
        kineto_trace *t = finish(s);
        verify(t);
        uint64_t rows = kineto_trace_count(t), checked = 0;
        assert_true(rows > 20 && rows < MANY);
        assert_int_equal(rows + kineto_trace_lost(t), MANY + (nested ? MANY / 10 : 0));
        for (kineto_row r = 0; r < rows; r++)
            for (uint64_t i = 0; i < MANY; i++) {
                if (ids[i] != row_at(t, r).external_id)
                    continue;
                make_model(&m, i + 1);
                check_model(t, r, &m);
                checked++;
                break;
            }
        assert_true(nested ? checked > rows / 2 : checked == rows);
        kineto_trace_release(t);
    }
    free_model(&m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_hundred_thousand_operators_equal_the_model),
        cmocka_unit_test(the_file_says_the_same_to_python_and_to_us),
        cmocka_unit_test(what_a_full_buffer_loses_is_counted_and_the_rest_is_right),
    };
    return RUN_TESTS(tests);
}
