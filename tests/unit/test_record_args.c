/* Arguments of every type and size, on begin, on instants and added later. */
#include "unit.h"

#include "../helpers/recording.h"
#include "record/cursor.h"

#include <ckineto/function.h>

#include <math.h>

KINETO_SITE_ARGS(site_all, KINETO_KIND_CPU_OP, "all", {"int", KINETO_ARG_INT},
                 {"uint", KINETO_ARG_UINT}, {"double", KINETO_ARG_DOUBLE},
                 {"bool", KINETO_ARG_BOOL}, {"string", KINETO_ARG_STRING},
                 {"ints", KINETO_ARG_INTS}, {"strings", KINETO_ARG_STRINGS},
                 {"json", KINETO_ARG_JSON}, {"shapes", KINETO_ARG_SHAPES});

static const int64_t some_ints[] = {INT64_MIN, -1, 0, INT64_MAX};
static const char *const some_strings[] = {"a", "", "b\"c", NULL};
static const int64_t dims[] = {2, 3, 4};
static const kineto_shape some_shapes[] = {{dims, 3}, {NULL, 0}, {dims, 1}};

static void check_all(const kineto_trace *t, kineto_row row)
{
    assert_true(arg_of(t, row, "int").i == INT64_MIN);
    assert_true(arg_of(t, row, "uint").u == UINT64_MAX);
    assert_true(arg_of(t, row, "double").d == -0.1);
    assert_int_equal(arg_of(t, row, "bool").u, 1);
    assert_int_equal(arg_of(t, row, "bool").type, KINETO_ARG_BOOL);
    assert_text(arg_of(t, row, "string").text, "\x01 bytes \xff");
    assert_text(arg_of(t, row, "ints").text, "[-9223372036854775808,-1,0,9223372036854775807]");
    assert_text(arg_of(t, row, "strings").text, "[\"a\",\"\",\"b\\\"c\",\"\"]");
    assert_text(arg_of(t, row, "json").text, "{\"k\":[null,true]}");
    assert_text(arg_of(t, row, "shapes").text, "[[2,3,4],[],[2]]");
    assert_int_equal(arg_of(t, row, "shapes").type, KINETO_ARG_SHAPES);
}

static void every_type_arrives_on_ranges_instants_and_async(void **state)
{
    (void)state;
    kineto_ints ints = {some_ints, COUNT_OF(some_ints)};
    kineto_strings strings = {some_strings, COUNT_OF(some_strings)};
    kineto_shapes shapes = {some_shapes, COUNT_OF(some_shapes)};
    const kineto_value v[] = {{.i = INT64_MIN},
                              {.u = UINT64_MAX},
                              {.d = -0.1},
                              {.u = 255},
                              {.s = "\x01 bytes \xff"},
                              {.ints = &ints},
                              {.strings = &strings},
                              {.s = "{\"k\":[null,true]}"},
                              {.shapes = &shapes}};
    kineto_session *s = record();
    kineto_range_end(kineto_range_begin_args(&site_all, v));
    kineto_props props = {.size = sizeof props, .correlation_id = 3, .values = v};
    kineto_range_end(kineto_range_begin_props(&site_all, &props));
    kineto_instant_mark(&site_all, v);
    kineto_async_begin(&site_all, 1, &props);
    kineto_async_end(&site_all, 1);
    kineto_trace *t = finish(s);
    verify(t);
    assert_nothing_lost(t);
    assert_int_equal(kineto_trace_count(t), 4);
    for (kineto_row r = 0; r < 4; r++)
        check_all(t, r);
    kineto_trace_release(t);
}

static void null_and_empty_values_read_as_empty(void **state)
{
    (void)state;
    kineto_ints no_ints = {NULL, 0};
    kineto_strings no_strings = {NULL, 0};
    kineto_shapes no_shapes = {NULL, 0};
    kineto_value v[2][9] = {{{0}}};
    v[1][4].s = "";
    v[1][5].ints = &no_ints;
    v[1][6].strings = &no_strings;
    v[1][7].s = "0";
    v[1][8].shapes = &no_shapes;
    kineto_session *s = record();
    for (int i = 0; i < 2; i++)
        kineto_range_end(kineto_range_begin_args(&site_all, v[i]));
    kineto_range_end(kineto_range_begin_args(&site_all, NULL));
    kineto_trace *t = finish(s);
    verify(t);
    assert_nothing_lost(t);
    for (kineto_row r = 0; r < 2; r++) {
        assert_int_equal(arg_of(t, r, "int").i, 0);
        assert_int_equal(arg_of(t, r, "string").text.size, 0);
        assert_text(arg_of(t, r, "ints").text, "[]");
        assert_text(arg_of(t, r, "strings").text, "[]");
        assert_text(arg_of(t, r, "shapes").text, "[]");
    }
    kineto_arg none;
    assert_false(kineto_args_find(t, 2, "int", &none));
    kineto_trace_release(t);
}

static void doubles_that_json_cannot_say_stay_what_they_are(void **state)
{
    (void)state;
    KINETO_SITE_ARGS(site, KINETO_KIND_CPU_OP, "double", {"d", KINETO_ARG_DOUBLE});
    const double values[] = {NAN, INFINITY, -INFINITY, -0.0, 5e-324, 1.7976931348623157e308};
    kineto_session *s = record();
    for (size_t i = 0; i < COUNT_OF(values); i++) {
        kineto_value v = {.d = values[i]};
        kineto_instant_mark(&site, &v);
    }
    kineto_trace *t = finish(s);
    for (size_t i = 0; i < COUNT_OF(values); i++) {
        double d = arg_of(t, i, "d").d;
        assert_memory_equal(&d, &values[i], sizeof d);
    }
    kineto_trace_release(t);
}

static void strings_of_every_length_arrive_whole(void **state)
{
    (void)state;
    KINETO_SITE_ARGS(site, KINETO_KIND_CPU_OP, "string", {"s", KINETO_ARG_STRING},
                     {"n", KINETO_ARG_INT});
    static char text[100001];
    const size_t sizes[] = {0, 1, 8, 2047, 2048, 2049, 8000, 20000, 100000};
    kineto_session *s = record();
    for (size_t i = 0; i < COUNT_OF(sizes); i++) {
        memset(text, 'a' + (int)i, sizes[i]);
        text[sizes[i]] = 0;
        kineto_value v[] = {{.s = text}, {.i = (int64_t)i}};
        kineto_range_end(kineto_range_begin_args(&site, v));
    }
    kineto_trace *t = finish(s);
    verify(t);
    assert_nothing_lost(t);
    for (size_t i = 0; i < COUNT_OF(sizes); i++) {
        kineto_string got = arg_of(t, i, "s").text;
        assert_int_equal(got.size, sizes[i]);
        memset(text, 'a' + (int)i, sizes[i]);
        if (got.size)
            assert_memory_equal(got.data, text, got.size);
        assert_int_equal(arg_of(t, i, "n").i, i);
    }
    kineto_trace_release(t);
}

#define TEN(n, t)                                                                                  \
    {n "0", t}, {n "1", t}, {n "2", t}, {n "3", t}, {n "4", t}, {n "5", t}, {n "6", t},            \
        {n "7", t}, {n "8", t},                                                                    \
    {                                                                                              \
        n "9", t                                                                                   \
    }

static void sixty_arguments_keep_their_order(void **state)
{
    (void)state;
    KINETO_SITE_ARGS(site, KINETO_KIND_CPU_OP, "sixty", TEN("a", KINETO_ARG_INT),
                     TEN("b", KINETO_ARG_INT), TEN("c", KINETO_ARG_INT), TEN("d", KINETO_ARG_INT),
                     TEN("e", KINETO_ARG_INT), TEN("f", KINETO_ARG_INT));
    assert_int_equal(site.arg_count, 60);
    kineto_value v[60];
    kineto_session *s = record();
    for (int round = 0; round < 100; round++) { /* across many chunks */
        for (int i = 0; i < 60; i++)
            v[i].i = round * 1000 + i;
        kineto_range_end(kineto_range_begin_args(&site, v));
    }
    kineto_trace *t = finish(s);
    verify(t);
    assert_nothing_lost(t);
    assert_int_equal(kineto_trace_count(t), 100);
    for (kineto_row r = 0; r < 100; r++) {
        kineto_args_iterator it;
        kineto_arg arg;
        int n = 0;
        kineto_args_begin(t, r, &it);
        for (; kineto_args_next(&it, &arg); n++) {
            char key[] = {(char)('a' + n / 10), (char)('0' + n % 10), 0};
            assert_text(arg.key, key);
            assert_int_equal(arg.i, (int)r * 1000 + n);
        }
        assert_int_equal(n, 60);
    }
    kineto_trace_release(t);
}

/* Text of what was passed, made independently. */
static size_t shapes_text(char *out, const kineto_shape *shapes, size_t count)
{
    char *at = out;
    *at++ = '[';
    for (size_t i = 0; i < count; i++) {
        at += sprintf(at, "%s[", i ? "," : "");
        for (uint32_t k = 0; k < shapes[i].rank; k++)
            at += sprintf(at, "%s%lld", k ? "," : "", (long long)shapes[i].dims[k]);
        *at++ = ']';
    }
    *at++ = ']';
    return (size_t)(at - out);
}

KINETO_SITE_ARGS(site_shapes, KINETO_KIND_CPU_OP, "shapes", {"shapes", KINETO_ARG_SHAPES});
KINETO_SITE_ARGS(site_shapes_more, KINETO_KIND_CPU_OP, "shapes+", {"n", KINETO_ARG_INT},
                 {"shapes", KINETO_ARG_SHAPES}, {"after", KINETO_ARG_UINT});

static void shapes_of_any_count_and_rank_arrive(void **state)
{
    (void)state;
    int64_t values[41];
    for (int i = 0; i < 41; i++)
        values[i] = i % 3 ? i * 1000003 : -i;
    kineto_session *s = record();
    uint64_t random = 1;
    for (uint32_t count = 0; count <= 20; count++)
        for (uint32_t rank = 0; rank <= 40; rank += count < 6 ? 1 : 8) {
            kineto_shape shapes[20];
            for (uint32_t i = 0; i < count; i++) /* the first, the last and others differ */
                shapes[i] = (kineto_shape){values, i % 3 == 1 ? (uint32_t)next_random(&random) % 41
                                                              : (rank + i) % 41};
            kineto_shapes list = {shapes, count};
            kineto_value v[] = {{.i = rank}, {.shapes = &list}, {.u = count}};
            kineto_range_end(kineto_range_begin_args(&site_shapes, &v[1]));
            kineto_range_end(kineto_range_begin_args(&site_shapes_more, v));
        }
    kineto_trace *t = finish(s);
    verify(t);
    assert_nothing_lost(t);
    kineto_row row = 0;
    random = 1;
    for (uint32_t count = 0; count <= 20; count++)
        for (uint32_t rank = 0; rank <= 40; rank += count < 6 ? 1 : 8, row += 2) {
            kineto_shape shapes[20];
            static char text[20000];
            for (uint32_t i = 0; i < count; i++)
                shapes[i] = (kineto_shape){values, i % 3 == 1 ? (uint32_t)next_random(&random) % 41
                                                              : (rank + i) % 41};
            size_t size = shapes_text(text, shapes, count);
            for (kineto_row r = row; r < row + 2; r++) {
                kineto_string got = arg_of(t, r, "shapes").text;
                assert_int_equal(got.size, size);
                assert_memory_equal(got.data, text, size);
            }
            assert_int_equal(arg_of(t, row + 1, "n").i, rank);
            assert_int_equal(arg_of(t, row + 1, "after").u, count);
        }
    assert_int_equal(kineto_trace_count(t), row);
    kineto_trace_release(t);
}

static void arguments_added_later_join_their_range(void **state)
{
    (void)state;
    KINETO_SITE(outer, KINETO_KIND_USER_ANNOTATION, "outer");
    KINETO_SITE_ARGS(inner, KINETO_KIND_CPU_OP, "inner", {"first", KINETO_ARG_INT});
    KINETO_SITE_ARGS(result, KINETO_KIND_CPU_OP, "result", {"result", KINETO_ARG_STRING},
                     {"first", KINETO_ARG_INT});
    kineto_value first = {.i = 1}, later[] = {{.s = "done"}, {.i = 99}};
    kineto_session *s = record();
    kineto_range a = kineto_range_begin(&outer), b = kineto_range_begin_args(&inner, &first);
    kineto_range_args(a, &result, later); /* of the outer one, while the inner one is open */
    kineto_range_args(b, &result, later);
    kineto_range_end(b);
    kineto_range_args(b, &result, later); /* closed: nothing */
    kineto_range_args(a, &result, NULL);
    kineto_range_end(a);
    kineto_trace *t = finish(s);
    verify(t);
    assert_nothing_lost(t);
    kineto_activity row = find_only(t, "inner");
    assert_int_equal(arg_of(t, row.row, "first").i, 1); /* what was said first stays */
    assert_text(arg_of(t, row.row, "result").text, "done");
    row = find_only(t, "outer");
    assert_int_equal(arg_of(t, row.row, "first").i, 99);
    assert_text(arg_of(t, row.row, "result").text, "done");
    kineto_trace_release(t);
}

/* More than a record can hold: the range stays, its arguments go, and that is said. */
static void arguments_too_large_cost_the_arguments_only(void **state)
{
    (void)state;
    KINETO_SITE_ARGS(list, KINETO_KIND_CPU_OP, "list", {"n", KINETO_ARG_INT},
                     {"list", KINETO_ARG_INTS});
    KINETO_SITE(plain, KINETO_KIND_CPU_OP, "plain");
    static int64_t many[5000];
    /* each word looks like a record: a decoder that takes a leftover for one will show it */
    for (size_t i = 0; i < COUNT_OF(many); i++)
        many[i] = 6 | 2 << 6; /* an INSTANT of two words */
    kineto_session *s = record();
    for (size_t n = 900; n <= 1100; n += 10) {
        kineto_ints ints = {many, n};
        kineto_value v[] = {{.i = 6 | 2 << 6}, {.ints = &ints}};
        kineto_range_end(kineto_range_begin_args(&list, v));
        kineto_trace *t = snapshot(s); /* nothing follows what was given up */
        verify(t);
        assert_int_equal(count_named(t, "?"), 0);
        kineto_trace_release(t);
        kineto_range_end(kineto_range_begin(&plain));
    }
    kineto_ints ints = {many, 5000};
    kineto_value v[] = {{.i = 1}, {.ints = &ints}};
    kineto_range r = kineto_range_begin(&plain);
    kineto_range_args(r, &list, v);
    kineto_range_end(r);
    kineto_trace *t = finish(s);
    verify(t);
    assert_int_equal(count_named(t, "list"), 21);
    assert_int_equal(count_named(t, "plain"), 22);
    assert_int_equal(kineto_trace_count(t), 43);
    uint64_t lost = 0;
    for (uint64_t i = 0; i < 21; i++) {
        kineto_activity a = find_nth(t, "list", i);
        size_t n = 900 + i * 10;
        kineto_arg arg;
        bool has = kineto_args_find(t, a.row, "list", &arg);
        assert_int_equal(has, !(a.flags & KINETO_ACTIVITY_ARGS_LOST));
        assert_int_equal(has, n + 4 <= 1023); /* header, ticks, n, count */
        lost += !has;
    }
    /* nothing is missing from the trace but arguments: no loss of events */
    assert_int_equal(kineto_trace_lost(t), 0);
    assert_int_equal(ledger(t, "program", "arguments too large, left out"), lost + 1);
    kineto_trace_release(t);
}

static void a_counter_too_large_is_lost_and_counted(void **state)
{
    (void)state;
    KINETO_SITE_ARGS(list, KINETO_KIND_COUNTER, "list", {"list", KINETO_ARG_INTS});
    static int64_t many[2000];
    kineto_ints ints = {many, 2000};
    kineto_value v = {.ints = &ints};
    kineto_session *s = record();
    kineto_counter_sample(&list, &v);
    kineto_trace *t = finish(s);
    verify(t);
    assert_int_equal(kineto_trace_count(t), 0);
    assert_int_equal(ledger(t, "program", "record too large"), 1);
    kineto_trace_release(t);
}

/* Who shares the memory may say that an entry is longer than the dictionary. */
static void entries_are_read_no_further_than_the_dictionary(void **state)
{
    (void)state;
    kineto_session *s = record();
    const kf_pool *pool = kr_pool_get();
    uint32_t id = kr_intern("an entry", 8);
    assert_true(id && kr_bytes_are(id, "an entry", 8) && kr_string_is(id, "an entry"));
    uint64_t header = pool->dictionary[id];
    size_t left = (pool->dictionary_words - id - 1) * (size_t)8;
    char *same = malloc(left + 9);
    memcpy(same, pool->dictionary + id + 1, left + 8); /* and the first word of the chunks */
    pool->dictionary[id] = (header & UINT32_MAX) | (uint64_t)(left + 8) << 32;
    assert_false(kr_bytes_are(id, same, left + 8));
    pool->dictionary[id] = (header & UINT32_MAX) | (uint64_t)left << 32;
    assert_true(kr_bytes_are(id, same, left));
    pool->dictionary[id] = header;
    free(same);
    kineto_trace_release(finish(s));
}

static void a_site_with_too_many_arguments_keeps_the_first_ones(void **state)
{
    (void)state;
    static kineto_arg_desc descs[100];
    static kineto_site site = {0, KINETO_KIND_CPU_OP, 0, 100, 0, "hundred", descs};
    kineto_value v[100];
    for (int i = 0; i < 100; i++) {
        static char names[100][16];
        snprintf(names[i], sizeof names[i], "k%d", i);
        descs[i] = (kineto_arg_desc){names[i], KINETO_ARG_INT};
        v[i].i = i;
    }
    kineto_session *s = record();
    for (int i = 0; i < 10; i++)
        kineto_range_end(kineto_range_begin_args(&site, v));
    kineto_trace *t = finish(s);
    verify(t);
    assert_nothing_lost(t);
    assert_int_equal(kineto_trace_count(t), 10);
    assert_int_equal(arg_of(t, 9, "k0").i, 0);
    assert_int_equal(arg_of(t, 9, "k63").i, 63);
    kineto_trace_release(t);
}

/* What is longer than any record is not looked for room for in another chunk. */
static void arguments_too_large_cost_no_chunk_each(void **state)
{
    (void)state;
    enum { EVENTS = 1000 };
    KINETO_SITE_ARGS(list, KINETO_KIND_CPU_OP, "list", {"list", KINETO_ARG_INTS});
    KINETO_SITE_ARGS(series, KINETO_KIND_COUNTER, "series", {"list", KINETO_ARG_INTS});
    static const int64_t many[1100];
    kineto_ints ints = {many, COUNT_OF(many)};
    kineto_value v = {.ints = &ints};
    kineto_session *s = record(); /* 256 chunks */
    for (int i = 0; i < EVENTS; i++) {
        kineto_range_end(kineto_range_begin_args(&list, &v));
        kineto_counter_sample(&series, &v);
    }
    kineto_trace *t = finish(s);
    verify(t);
    assert_int_equal(count_named(t, "list"), EVENTS);
    assert_int_equal(ledger(t, "program", "buffer full"), 0);
    assert_int_equal(ledger(t, "program", "record too large"), EVENTS);
    kineto_trace_release(t);
}

static void fill_the_dictionary(void)
{
    static const char zeros[4096];
    for (size_t bytes = sizeof zeros; bytes > 0; bytes /= 2) {
        kf_part part = {zeros, bytes};
        while (kf_dictionary_add(kr_pool_get(), KF_ENTRY_STRING, &part, 1))
            ;
    }
}

/* Another chunk has no more room for names than this one. */
static void a_full_dictionary_costs_arguments_their_names_and_no_chunks(void **state)
{
    (void)state;
    enum { OPERATORS = 1000 };
    KINETO_OPERATOR(site, "operator");
    kineto_function_info info;
    kineto_function_info_init(&info);
    kineto_function f;
    info.stack = "frame;";
    info.modules = "module.";
    kineto_session *s = record(); /* 256 chunks */
    kineto_function_begin(&f, &site, NULL, 0);
    kineto_function_end(&f);
    fill_the_dictionary();
    for (int i = 0; i < OPERATORS; i++) {
        kineto_function_begin_info(&f, &site, &info);
        kineto_function_end(&f);
    }
    kineto_trace *t = finish(s);
    verify(t);
    assert_int_equal(count_named(t, "operator"), OPERATORS + 1);
    assert_int_equal(ledger(t, "program", "buffer full"), 0);
    assert_true(ledger(t, "program", "name table full") >= 2 * OPERATORS);
    kineto_trace_release(t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_type_arrives_on_ranges_instants_and_async),
        cmocka_unit_test(null_and_empty_values_read_as_empty),
        cmocka_unit_test(doubles_that_json_cannot_say_stay_what_they_are),
        cmocka_unit_test(strings_of_every_length_arrive_whole),
        cmocka_unit_test(sixty_arguments_keep_their_order),
        cmocka_unit_test(shapes_of_any_count_and_rank_arrive),
        cmocka_unit_test(arguments_added_later_join_their_range),
        cmocka_unit_test(arguments_too_large_cost_the_arguments_only),
        cmocka_unit_test(a_counter_too_large_is_lost_and_counted),
        cmocka_unit_test(entries_are_read_no_further_than_the_dictionary),
        cmocka_unit_test(a_site_with_too_many_arguments_keeps_the_first_ones),
        cmocka_unit_test(arguments_too_large_cost_no_chunk_each),
        /* last: no names are kept from here on */
        cmocka_unit_test(a_full_dictionary_costs_arguments_their_names_and_no_chunks),
    };
    return RUN_TESTS(tests);
}
