/* Building a trace and looking at it: rows, args, tables, errors. */
#include "trace/trace.h"

#include "building.h"

#define BASE INT64_C(1700000000000000000)

static uint32_t thread(kt_builder *b, int64_t tid)
{
    return kt_track(b, kt_process(b, false, 100, 0), KINETO_TRACK_THREAD, tid);
}

#define assert_text(string, text)                                                                  \
    do {                                                                                           \
        kineto_string s_ = (string);                                                               \
        assert_int_equal(s_.size, strlen(text));                                                   \
        assert_memory_equal(s_.data, text, strlen(text));                                          \
    } while (0)

static void empty_trace_has_nothing(void **state)
{
    (void)state;
    kineto_trace *t = finish(builder());
    int64_t start, end;
    kineto_activity a;
    kineto_trace_window(t, &start, &end);
    assert_int_equal(kineto_trace_count(t), 0);
    assert_int_equal(start, 0);
    assert_int_equal(end, 0);
    kineto_trace_get(t, 0, &a);
    assert_int_equal(a.name.size, 0);
    assert_non_null(kineto_trace_time_order(t));
    assert_int_equal(kineto_trace_launch(t, 0), KINETO_NO_ROW);
    kineto_trace_release(t);
}

static void a_row_comes_back_as_it_was_put(void **state)
{
    (void)state;
    kt_builder *b = builder();
    uint32_t track = thread(b, 7);
    kt_row row = {.start_ns = BASE + 5,
                  .end_ns = BASE + 9,
                  .name = kt_string(b, (kineto_string){"a\0\xff", 3}),
                  .track = track,
                  .kind = KINETO_KIND_RUNTIME,
                  .category = kt_string(b, kb_string("cuda_runtime")),
                  .form = KINETO_FORM_ASYNC,
                  .flags = KINETO_ACTIVITY_OPEN_END,
                  .correlation_id = UINT64_MAX,
                  .external_id = 1,
                  .async_id = 77};
    assert_int_equal(kt_append(b, &row), 0);
    row.category = 0;
    row.form = KINETO_FORM_SLICE;
    assert_int_equal(kt_append(b, &row), 1);
    kineto_trace *t = finish(b);
    kineto_activity a;
    kineto_trace_get(t, 0, &a);
    assert_int_equal(a.start_ns, BASE + 5);
    assert_int_equal(a.end_ns, BASE + 9);
    assert_int_equal(a.name.size, 3);
    assert_memory_equal(a.name.data, "a\0\xff", 3);
    assert_int_equal(a.track, track);
    assert_int_equal(a.kind, KINETO_KIND_RUNTIME);
    assert_text(kineto_trace_string(t, a.category), "cuda_runtime");
    assert_int_equal(a.form, KINETO_FORM_ASYNC);
    assert_int_equal(a.flags, KINETO_ACTIVITY_OPEN_END);
    assert_true(a.correlation_id == UINT64_MAX);
    assert_int_equal(a.external_id, 1);
    assert_int_equal(a.async_id, 77);
    kineto_trace_get(t, 1, &a);
    assert_int_equal(a.async_id, 0);
    assert_text(kineto_trace_string(t, a.category), "runtime");
    int64_t start, end;
    kineto_trace_window(t, &start, &end);
    assert_int_equal(start, BASE + 5);
    assert_int_equal(end, BASE + 9);
    kineto_trace_release(t);
}

static void blocks_join_seamlessly(void **state)
{
    (void)state;
    kt_builder *b = builder();
    uint32_t track = thread(b, 1), key = kt_string(b, kb_string("i"));
    const uint64_t count = 3 * KT_BLOCK_ROWS + 17;
    for (uint64_t i = 0; i < count; i++) {
        kt_args_put_uint(b, key, i * i);
        kt_append(b, &(kt_row){.start_ns = (int64_t)i, .end_ns = (int64_t)i + 1, .track = track});
    }
    kineto_trace *t = finish(b);
    assert_int_equal(kineto_trace_count(t), count);
    assert_int_equal(kt_block_count(t), 4);
    assert_int_equal(kt_block_at(t, 3)->count, 17);
    assert_int_equal(kt_block_at(t, 3)->min_start_ns, 3 * KT_BLOCK_ROWS);
    for (uint64_t i = 0; i < count; i += 4099) {
        kineto_activity a;
        kineto_arg arg;
        kineto_trace_get(t, i, &a);
        assert_int_equal(a.start_ns, i);
        assert_true(kineto_args_find(t, i, "i", &arg));
        assert_int_equal(arg.u, i * i);
    }
    kineto_trace_release(t);
}

static void every_type_of_argument_comes_back(void **state)
{
    (void)state;
    kt_builder *b = builder();
    uint32_t track = thread(b, 1);
    kt_args_put_int(b, kt_string(b, kb_string("int")), INT64_MIN);
    kt_args_put_uint(b, kt_string(b, kb_string("uint")), UINT64_MAX);
    kt_args_put_double(b, kt_string(b, kb_string("double")), 0.1);
    kt_args_put_bool(b, kt_string(b, kb_string("bool")), true);
    kt_args_put_string(b, kt_string(b, kb_string("string")), (kineto_string){"\"\0\\", 3});
    kt_args_put_json(b, kt_string(b, kb_string("ints")), KINETO_ARG_INTS, kb_string("[1,2]"));
    kt_args_put_json(b, kt_string(b, kb_string("json")), KINETO_ARG_JSON, kb_string("{\"a\":[]}"));
    kt_args_put_json(b, kt_string(b, kb_string("bad")), KINETO_ARG_JSON, kb_string("{\"a\":"));
    kt_args_put_string(b, kt_string(b, kb_string("")), kb_string(""));
    kt_append(b, &(kt_row){.track = track});
    kt_append(b, &(kt_row){.track = track});
    kineto_trace *t = finish(b);
    static const uint32_t types[] = {KINETO_ARG_INT,  KINETO_ARG_UINT,   KINETO_ARG_DOUBLE,
                                     KINETO_ARG_BOOL, KINETO_ARG_STRING, KINETO_ARG_INTS,
                                     KINETO_ARG_JSON, KINETO_ARG_STRING, KINETO_ARG_STRING};
    kineto_args_iterator it;
    kineto_arg arg;
    kineto_args_begin(t, 0, &it);
    for (size_t i = 0; i < KB_COUNT(types); i++) {
        assert_true(kineto_args_next(&it, &arg));
        assert_int_equal(arg.type, types[i]);
        if (i == 0)
            assert_true(arg.i == INT64_MIN);
        if (i == 1)
            assert_true(arg.u == UINT64_MAX);
        if (i == 2)
            assert_true(arg.d == 0.1);
        if (i == 4)
            assert_int_equal(arg.text.size, 3);
    }
    assert_false(kineto_args_next(&it, &arg));
    assert_true(kineto_args_find(t, 0, "bad", &arg));
    assert_text(arg.text, "{\"a\":");
    kineto_args_begin(t, 1, &it);
    assert_false(kineto_args_next(&it, &arg));
    assert_false(kineto_args_find(t, 99, "int", &arg));
    kineto_trace_release(t);
}

static void verbatim_arguments_are_typed_and_unescaped(void **state)
{
    (void)state;
    kt_builder *b = builder();
    uint32_t track = thread(b, 1);
    kt_args_verbatim(b, kb_string("{ \"i\" : -5, \"u\":18446744073709551615,\"d\":1.5e3,"
                                  "\"s\\n\":\"a\\u00e9\\ud83d\\ude00\\\"\", \"l\":[1, 2],"
                                  "\"n\":null,\"t\":true,\"correlation\":4,\"External id\":5}"));
    kt_append(b, &(kt_row){.track = track, .correlation_id = 4, .external_id = 5});
    kineto_trace *t = finish(b);
    kineto_args_iterator it;
    kineto_arg arg;
    uint32_t count = 0;
    for (kineto_args_begin(t, 0, &it); kineto_args_next(&it, &arg);)
        count++;
    assert_int_equal(count, 7);
    assert_true(kineto_args_find(t, 0, "i", &arg) && arg.type == KINETO_ARG_INT && arg.i == -5);
    assert_true(kineto_args_find(t, 0, "u", &arg) && arg.type == KINETO_ARG_UINT);
    assert_true(arg.u == UINT64_MAX);
    assert_true(kineto_args_find(t, 0, "d", &arg) && arg.type == KINETO_ARG_DOUBLE);
    assert_true(arg.d == 1500);
    assert_true(kineto_args_find(t, 0, "s\n", &arg) && arg.type == KINETO_ARG_STRING);
    assert_text(arg.text, "a\xc3\xa9\xf0\x9f\x98\x80\"");
    assert_true(kineto_args_find(t, 0, "l", &arg) && arg.type == KINETO_ARG_JSON);
    assert_text(arg.text, "[1, 2]");
    assert_true(kineto_args_find(t, 0, "t", &arg) && arg.type == KINETO_ARG_BOOL && arg.u);
    assert_false(kineto_args_find(t, 0, "correlation", &arg));
    kineto_trace_release(t);
}

static void same_identity_is_the_same_row(void **state)
{
    (void)state;
    kt_builder *b = builder();
    uint32_t host = kt_process(b, false, 5, 0);
    assert_int_equal(kt_process(b, false, 5, 0), host);
    assert_int_not_equal(kt_process(b, true, 5, 0), host);
    assert_int_not_equal(kt_process(b, false, 5, 1), host);
    uint32_t text = kt_process_text(b, kb_string("Spans"));
    assert_int_equal(kt_process_text(b, kb_string("Spans")), text);
    assert_int_not_equal(kt_process_text(b, kb_string("")), text);
    uint32_t track = kt_track(b, host, KINETO_TRACK_THREAD, 5);
    assert_int_equal(kt_track(b, host, KINETO_TRACK_THREAD, 5), track);
    assert_int_not_equal(kt_track(b, host, KINETO_TRACK_ASYNC, 5), track);
    uint32_t named = kt_track_text(b, text, kb_string("x"));
    assert_int_equal(kt_track_text(b, text, kb_string("x")), named);
    kineto_process p = {.rank = 3, .name = kb_string("n"), .sort_index = 9};
    kt_process_set(b, host, &p);
    kt_process_set(b, host, &(kineto_process){.rank = -1, .label = kb_string("l")});
    kineto_trace *t = finish(b);
    kineto_trace_process(t, host, &p);
    assert_text(p.name, "n");
    assert_text(p.label, "l");
    assert_int_equal(p.rank, 3);
    assert_int_equal(p.sort_index, 9);
    assert_text(kt_process_text_of(t, text), "Spans");
    assert_null(kt_process_text_of(t, host).data);
    assert_text(kt_track_text_of(t, named), "x");
    kineto_trace_release(t);
}

static void metadata_is_sorted_and_the_last_value_wins(void **state)
{
    (void)state;
    kt_builder *b = builder();
    kt_metadata(b, kb_string("b"), kb_string("1"));
    kt_metadata(b, kb_string("a"), kb_string("not \"json"));
    kt_metadata(b, kb_string("ab"), kb_string("[]"));
    kt_metadata(b, kb_string("b"), kb_string("2"));
    kineto_trace *t = finish(b);
    kineto_string key, value;
    assert_int_equal(kineto_trace_metadata_count(t), 3);
    kineto_trace_metadata(t, 0, &key, &value);
    assert_text(key, "a");
    assert_text(value, "\"not \\\"json\"");
    kineto_trace_metadata(t, 1, &key, &value);
    assert_text(key, "ab");
    kineto_trace_metadata(t, 2, &key, &value);
    assert_text(value, "2");
    kineto_trace_metadata(t, 3, &key, &value);
    assert_int_equal(key.size, 0);
    kineto_trace_release(t);
}

static void what_cannot_be_kept_is_in_the_ledger(void **state)
{
    (void)state;
    kt_builder *b = builder();
    uint32_t track = thread(b, 1);
    size_t size = (size_t)17 << 20;
    char *big = calloc(1, size);
    kt_ledger_add(b, kb_string("program"), kb_string("buffer full"), 12, true, kb_string("x"));
    kt_append(b, &(kt_row){.start_ns = 10, .end_ns = 5, .track = track});
    kt_append(b, &(kt_row){.track = track, .kind = 99});
    kt_args_put_string(b, 1, (kineto_string){big, size});
    kt_append(b, &(kt_row){.track = track});
    free(big);
    kineto_trace *t = finish(b);
    kineto_activity a;
    kineto_trace_get(t, 0, &a);
    assert_int_equal(a.end_ns, 10);
    kineto_trace_get(t, 2, &a);
    assert_int_equal(a.flags, KINETO_ACTIVITY_ARGS_LOST);
    assert_int_equal(kineto_trace_ledger_count(t), 4);
    assert_int_equal(kineto_trace_lost(t), 12);
    kineto_trace_release(t);
}

static void what_no_source_recorded_is_a_gap(void **state)
{
    static const struct {
        const char *source, *reason;
        uint64_t count;
        bool is_loss, is_gap;
    } lines[] = {{"opencl", "plug-in not found", 1, false, true},
                 {"PyTorch", "operators are not recorded", 1, false, true},
                 {"python", "Python programs cannot be recorded", 1, false, true},
                 {"cpu", KT_REASON_COUNTERS " [ms], no samples", 10, false, true},
                 {"cpu", "no stacks of blocked threads", 1, false, true},
                 {KT_SOURCE_UNRECORDED, KT_REASON_STATIC, 1, false, true},
                 {KT_SOURCE_UNRECORDED, "CPU time of children that ended, at most [us]", 9, false, false},
                 {"self-cost", KT_REASON_RECORDING_COST, 9, false, false},
                 {"program", "delivered", 9, false, false},
                 {"program", "ranges not recorded", 9, true, false}, /* a loss has a number */
                 {"opencl", "plug-in not found", 0, false, false}};
    (void)state;
    for (size_t i = 0; i < KB_COUNT(lines); i++) {
        kineto_ledger_line line = {kb_string(lines[i].source), kb_string(lines[i].reason), lines[i].count,
                                   lines[i].is_loss, kb_string("")};
        assert_int_equal(kt_ledger_line_is_gap(&line), lines[i].is_gap);
    }
}

/* What a program says that it lost may be anything. */
static void losses_stop_at_what_a_number_holds(void **state)
{
    (void)state;
    kt_builder *b = builder();
    kt_ledger_add(b, kb_string("a"), kb_string("x"), UINT64_MAX, true, kb_string(""));
    kt_ledger_add(b, kb_string("b"), kb_string("x"), 5, true, kb_string(""));
    kineto_trace *t = finish(b);
    assert_true(kineto_trace_lost(t) == UINT64_MAX);
    kineto_trace_release(t);
}

static void wrong_rows_make_finish_fail_and_nothing_leaks(void **state)
{
    (void)state;
    kt_builder *b = builder();
    kineto_trace *t;
    kineto_error err;
    assert_true(kt_append(b, &(kt_row){.track = 5}) == KINETO_NO_ROW);
    assert_int_equal(kt_builder_finish(b, &t, &err), KINETO_E_ARGUMENT);
    assert_null(t);
    kt_builder_destroy(b);
    kt_builder_destroy(NULL);
    b = builder();
    assert_int_equal(kt_builder_finish(b, &t, NULL), KINETO_OK);
    kineto_trace *second;
    assert_int_equal(kt_builder_finish(b, &second, &err), KINETO_E_STATE);
    kt_builder_destroy(b);
    kineto_trace_release(kineto_trace_retain(t));
    kineto_trace_release(t);
    kineto_trace_release(NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(empty_trace_has_nothing),
        cmocka_unit_test(a_row_comes_back_as_it_was_put),
        cmocka_unit_test(blocks_join_seamlessly),
        cmocka_unit_test(every_type_of_argument_comes_back),
        cmocka_unit_test(verbatim_arguments_are_typed_and_unescaped),
        cmocka_unit_test(same_identity_is_the_same_row),
        cmocka_unit_test(metadata_is_sorted_and_the_last_value_wins),
        cmocka_unit_test(what_cannot_be_kept_is_in_the_ledger),
        cmocka_unit_test(what_no_source_recorded_is_a_gap),
        cmocka_unit_test(losses_stop_at_what_a_number_holds),
        cmocka_unit_test(wrong_rows_make_finish_fail_and_nothing_leaks),
    };
    return RUN_TESTS(tests);
}
