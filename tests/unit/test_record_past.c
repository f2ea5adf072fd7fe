/* kineto_record_past: ranges that are recorded after their end. */
#include "unit.h"

#include "../helpers/recording.h"
#include "record/cursor.h"

KINETO_SITE(site_open, KINETO_KIND_USER_ANNOTATION, "open");
KINETO_SITE(site_plain, KINETO_KIND_PYTHON_FUNCTION, "plain");
KINETO_SITE_ARGS(site_words, KINETO_KIND_PYTHON_FUNCTION, "words", {"a", KINETO_ARG_INT},
                 {"b", KINETO_ARG_DOUBLE}, {"c", KINETO_ARG_BOOL});
KINETO_SITE_ARGS(site_text, KINETO_KIND_PYTHON_FUNCTION, "text", {"s", KINETO_ARG_STRING});

static const char text_value[] = "caf\xc3\xa9 \"\x01";
static kineto_value word_values[3] = {{.i = -7}, {.d = 0.5}, {.u = 1}};

/* A past range lies where its begin was read, also across the begin of a range that is still open. */
static void a_past_range_has_the_times_that_were_read(void **state)
{
    (void)state;
    kineto_session *s = record();
    kineto_range_end(kineto_range_begin(&site_open));
    for (int round = 0; round < 2; round++) { /* first use of a site, and later ones */
        uint64_t began = kineto_record_ticks();
        kineto_range inner = kineto_range_begin(&site_open);
        kineto_range_end(inner);
        inner = kineto_range_begin(&site_open);
        kineto_record_past(&site_plain, began, NULL);
        kineto_range_end(inner);
    }
    kineto_trace *t = finish(s);
    verify(t);
    assert_nothing_lost(t);
    assert_int_equal(kineto_trace_count(t), 7);
    for (uint64_t round = 0; round < 2; round++) {
        kineto_activity past = find_nth(t, "plain", round);
        kineto_activity before = find_nth(t, "open", 2 * round);
        kineto_activity inside = find_nth(t, "open", 2 * round + 1);
        kineto_activity after = find_nth(t, "open", 2 * round + 2);
        assert_int_equal(past.kind, KINETO_KIND_PYTHON_FUNCTION);
        assert_int_equal(past.form, KINETO_FORM_SLICE);
        assert_int_equal(past.flags, 0);
        assert_true(before.end_ns <= past.start_ns && past.start_ns <= inside.start_ns);
        assert_true(after.start_ns <= past.end_ns && past.end_ns <= after.end_ns);
        assert_int_equal(kineto_trace_parent(t, inside.row), past.row);
        assert_int_equal(track_of(t, past.row).id, getpid());
    }
    assert_int_equal(ledger(t, "program", "delivered"), 7);
    kineto_trace_release(t);
}

static void a_past_range_has_its_arguments(void **state)
{
    (void)state;
    kineto_value text = {.s = text_value};
    kineto_session *s = record();
    for (int round = 0; round < 2; round++) {
        kineto_record_past(&site_words, kineto_record_ticks(), word_values);
        kineto_record_past(&site_words, kineto_record_ticks(), NULL);
        kineto_record_past(&site_text, kineto_record_ticks(), &text);
    }
    kineto_trace *t = finish(s);
    verify(t);
    assert_nothing_lost(t);
    for (uint64_t round = 0; round < 2; round++) {
        kineto_row row = find_nth(t, "words", 2 * round).row;
        assert_int_equal(arg_of(t, row, "a").i, -7);
        assert_true(arg_of(t, row, "b").d == 0.5);
        assert_int_equal(arg_of(t, row, "c").u, 1);
        kineto_arg none;
        assert_false(kineto_args_find(t, find_nth(t, "words", 2 * round + 1).row, "a", &none));
        assert_text(arg_of(t, find_nth(t, "text", round).row, "s").text, text_value);
    }
    kineto_trace_release(t);
}

/* A span has both times from its caller, also where a later range has begun since. */
static void a_span_ends_when_its_caller_says(void **state)
{
    (void)state;
    kineto_session *s = record();
    for (int round = 0; round < 2; round++) { /* first use of a site, and later ones */
        kineto_range_end(kineto_range_begin(&site_open));
        uint64_t began = kineto_record_ticks(), ended = kineto_record_ticks();
        kineto_range_end(kineto_range_begin(&site_open));
        kineto_record_span(&site_words, began, ended, word_values);
    }
    kineto_trace *t = finish(s);
    verify(t);
    assert_nothing_lost(t);
    for (uint64_t round = 0; round < 2; round++) {
        kineto_activity span = find_nth(t, "words", round);
        assert_true(find_nth(t, "open", 2 * round).end_ns <= span.start_ns);
        assert_true(span.start_ns <= span.end_ns);
        assert_true(span.end_ns <= find_nth(t, "open", 2 * round + 1).start_ns);
        assert_int_equal(arg_of(t, span.row, "a").i, -7);
    }
    kineto_trace_release(t);
}

/* Both ways of writing see the end of each of many chunks. */
static void past_ranges_fill_chunk_after_chunk(void **state)
{
    (void)state;
    kineto_value text = {.s = "0123456789012345678901234567890123456789"};
    kineto_session *s = record();
    enum { COUNT = 20000 };
    for (int i = 0; i < COUNT; i++) {
        kineto_value values[3] = {{.i = i}, {.d = i / 2.0}, {.u = i % 2}};
        kineto_record_past(&site_words, kineto_record_ticks(), values);
        if (i % 3 == 0)
            kineto_record_past(&site_text, kineto_record_ticks(), &text);
    }
    kineto_trace *t = finish(s);
    verify(t);
    assert_nothing_lost(t);
    assert_int_equal(count_named(t, "words"), COUNT);
    assert_int_equal(count_named(t, "text"), (COUNT + 2) / 3);
    int64_t next = 0;
    for (kineto_row r = 0; r < kineto_trace_count(t); r++) {
        if (text_is(row_at(t, r).name, "words"))
            assert_int_equal(arg_of(t, r, "a").i, next++);
    }
    kineto_trace_release(t);
}

static void a_full_buffer_counts_past_ranges_as_lost(void **state)
{
    (void)state;
    kineto_session *s = session_of(KINETO_KINDS_ALL, 1u << 20, KINETO_RETAIN_OLDEST);
    enum { COUNT = 100000 };
    for (int i = 0; i < COUNT; i++)
        kineto_record_past(&site_words, kineto_record_ticks(), word_values);
    kineto_trace *t = finish(s);
    verify(t);
    assert_true(kineto_trace_lost(t) > 0);
    assert_int_equal(kineto_trace_count(t) + kineto_trace_lost(t), COUNT);
    kineto_trace_release(t);
}

/* A caller that passes a wrong begin gets a range that can be read, and harms no other. */
static void a_begin_that_was_never_read_is_harmless(void **state)
{
    (void)state;
    kineto_session *s = record();
    kineto_record_past(&site_plain, 0, NULL);
    kineto_record_past(&site_plain, UINT64_MAX, NULL);
    kineto_record_past(&site_plain, kineto_record_ticks() + (1u << 20), NULL);
    kineto_range_end(kineto_range_begin(&site_open));
    kineto_trace *t = finish(s);
    verify(t);
    assert_int_equal(count_named(t, "open"), 1);
    for (kineto_row r = 0; r < kineto_trace_count(t); r++)
        assert_true(row_at(t, r).start_ns <= row_at(t, r).end_ns);
    kineto_trace_release(t);
}

static void nothing_is_recorded_without_a_session(void **state)
{
    (void)state;
    uint64_t began = kineto_record_ticks();
    kineto_record_past(&site_plain, began, NULL);
    kineto_record_past(&site_words, began, word_values);
    kineto_session *s = record();
    kineto_trace *t = finish(s);
    assert_int_equal(kineto_trace_count(t), 0);
    assert_true(kineto_record_ticks() >= began);
    kineto_trace_release(t);
}

static void *record_some(void *arg)
{
    for (int i = 0; i < 1000; i++)
        kineto_record_past(&site_words, kineto_record_ticks(), arg);
    return NULL;
}

static void each_thread_has_its_past_ranges(void **state)
{
    (void)state;
    pthread_t threads[4];
    kineto_session *s = record();
    for (size_t i = 0; i < COUNT_OF(threads); i++)
        assert_int_equal(pthread_create(&threads[i], NULL, record_some, word_values), 0);
    for (size_t i = 0; i < COUNT_OF(threads); i++)
        assert_int_equal(pthread_join(threads[i], NULL), 0);
    kineto_trace *t = finish(s);
    verify(t);
    assert_nothing_lost(t);
    assert_int_equal(kineto_trace_count(t), 4000);
    kineto_trace_release(t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nothing_is_recorded_without_a_session),
        cmocka_unit_test(a_past_range_has_the_times_that_were_read),
        cmocka_unit_test(a_past_range_has_its_arguments),
        cmocka_unit_test(a_span_ends_when_its_caller_says),
        cmocka_unit_test(past_ranges_fill_chunk_after_chunk),
        cmocka_unit_test(a_full_buffer_counts_past_ranges_as_lost),
        cmocka_unit_test(a_begin_that_was_never_read_is_harmless),
        cmocka_unit_test(each_thread_has_its_past_ranges),
    };
    return RUN_TESTS(tests);
}
