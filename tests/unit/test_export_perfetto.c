/* Perfetto's format, as a decoder of its own reads it: nothing hidden, nothing lost. */
#include "export/export.h"
#include "trace/trace.h"

#include "pftrace.h"

#define BASE INT64_C(1700000000000000000)

static kt_builder *builder(void)
{
    kt_builder *b;
    assert_int_equal(kt_builder_create(&b, NULL), KINETO_OK);
    return b;
}

static uint32_t thread(kt_builder *b, int64_t tid)
{
    return kt_track(b, kt_process(b, false, 100, 0), KINETO_TRACK_THREAD, tid);
}

static kineto_row add(kt_builder *b, uint32_t track, const char *name, int64_t start, int64_t end)
{
    kt_row row = {.start_ns = start,
                  .end_ns = end,
                  .name = kt_string(b, kb_string(name)),
                  .track = track,
                  .kind = KINETO_KIND_CPU_OP};
    return kt_append(b, &row);
}

static kineto_row add_form(kt_builder *b, uint32_t track, const char *name, int64_t start,
                           kineto_form form)
{
    kt_row row = {.start_ns = start,
                  .end_ns = start,
                  .name = kt_string(b, kb_string(name)),
                  .track = track,
                  .kind = form == KINETO_FORM_COUNTER ? KINETO_KIND_COUNTER : KINETO_KIND_CPU_OP,
                  .form = form};
    return kt_append(b, &row);
}

static void write_trace(const kineto_trace *t, char **data, size_t *size,
                        kineto_export_result *result)
{
    kb_sink *sink;
    assert_int_equal(kb_sink_open_memory(KB_COMPRESS_NONE, &sink, NULL), KINETO_OK);
    result->size = sizeof *result;
    assert_int_equal(ke_perfetto_write(t, sink, "test", result, NULL), KINETO_OK);
    assert_int_equal(kb_sink_take(sink, data, size, NULL), KINETO_OK);
    assert_int_equal(kb_sink_close(sink, NULL), KINETO_OK);
}

static pf_file *finish(kt_builder *b, kineto_export_result *result)
{
    kineto_trace *t;
    char *data;
    size_t size;
    assert_int_equal(kt_builder_finish(b, &t, NULL), KINETO_OK);
    kt_builder_destroy(b);
    write_trace(t, &data, &size, result);
    assert_int_equal(result->bytes, size);
    assert_int_equal(result->activities, kineto_trace_count(t));
    pf_file *file = pf_read(data, size);
    free(data);
    kineto_trace_release(t);
    return file;
}

static uint64_t omitted(const kineto_export_result *r, const char *what)
{
    for (uint32_t i = 0; i < r->omission_count; i++)
        if (strcmp(r->omissions[i].what, what) == 0)
            return r->omissions[i].count;
    return 0;
}

static void an_empty_trace_is_a_file_without_events(void **state)
{
    (void)state;
    kineto_export_result r;
    pf_file *file = finish(builder(), &r);
    assert_int_equal(file->event_count, 0);
    assert_int_equal(file->primary_clock, 1);
    pf_free(file);
}

static void slices_nest_and_keep_their_times(void **state)
{
    (void)state;
    kt_builder *b = builder();
    kineto_export_result r;
    uint32_t track = thread(b, 7);
    add(b, track, "inner", BASE + 20, BASE + 100); /* ends with what it lies in */
    add(b, track, "outer", BASE + 10, BASE + 100);
    add(b, track, "point", BASE + 100, BASE + 100);
    add(b, track, "next", BASE + 100, BASE + 130);
    add_form(b, track, "moment", BASE + 120, KINETO_FORM_INSTANT);
    pf_file *file = finish(b, &r);
    const pf_event *inner = pf_find(file, "inner", 0), *outer = pf_find(file, "outer", 0);
    const pf_event *point = pf_find(file, "point", 0), *next = pf_find(file, "next", 0);
    assert_int_equal(outer->ns, BASE + 10);
    assert_int_equal(outer->end_ns, BASE + 100);
    assert_int_equal(outer->depth, 0);
    assert_int_equal(inner->ns, BASE + 20);
    assert_int_equal(inner->end_ns, BASE + 100);
    assert_int_equal(inner->depth, 1);
    assert_int_equal(point->ns, BASE + 100);
    assert_int_equal(point->end_ns, BASE + 100);
    assert_int_equal(point->depth, 1);
    assert_int_equal(next->ns, BASE + 100);
    assert_int_equal(next->end_ns, BASE + 130);
    assert_int_equal(next->depth, 0);
    assert_int_equal(pf_find(file, "moment", 0)->ns, BASE + 120);
    assert_int_equal(pf_find(file, "moment", 0)->type, 3);
    assert_string_equal(outer->category, "cpu_op");
    assert_int_equal(r.slices, 4);
    assert_int_equal(r.instants, 1);
    const pf_track *on = pf_track_of(file, outer->track);
    assert_int_equal(on->pid, 100);
    assert_int_equal(on->tid, 7);
    pf_free(file);
}

static void overlapping_slices_get_tracks_of_their_own(void **state)
{
    (void)state;
    kt_builder *b = builder();
    kineto_export_result r;
    uint64_t random = 1;
    int64_t total = 0, written = 0;
    uint32_t gpu = kt_process(b, true, 0, 0), stream = kt_track(b, gpu, KINETO_TRACK_STREAM, 7);
    for (int i = 0; i < 300; i++) {
        int64_t start = BASE + (int64_t)(next_random(&random) % 2000);
        int64_t length = (int64_t)(next_random(&random) % 60);
        add(b, stream, "kernel", start, start + length);
        total += length;
    }
    pf_file *file = finish(b, &r);
    uint64_t root = pf_track_named(file, "stream 7")->uuid;
    for (uint32_t i = 0; i < file->event_count; i++) {
        const pf_event *e = &file->events[i];
        if (e->type != 1)
            continue;
        written += e->end_ns - e->ns;
        if (e->track != root)
            assert_int_equal(pf_track_of(file, e->track)->parent, root);
    }
    assert_int_equal(pf_count(file, 1), 300);
    assert_int_equal(written, total);
    assert_int_equal(pf_track_named(file, "stream 7 (lane 2)")->parent, root);
    assert_int_equal(pf_track_of(file, root)->parent, pf_track_named(file, "device 0")->uuid);
    pf_free(file);
}

static void put_all_types(kt_builder *b)
{
    kt_args_put_int(b, kt_string(b, kb_string("int")), -5);
    kt_args_put_uint(b, kt_string(b, kb_string("uint")), UINT64_MAX);
    kt_args_put_double(b, kt_string(b, kb_string("double")), 1.5);
    kt_args_put_bool(b, kt_string(b, kb_string("bool")), true);
    kt_args_put_string(b, kt_string(b, kb_string("string")), kb_string("a\"b"));
    kt_args_put_json(b, kt_string(b, kb_string("ints")), KINETO_ARG_INTS, kb_string("[1,-2]"));
}

/* The first row of a sequence takes the careful way, which interns; the second the fast one. */
static void check_all(const pf_file *file, const char *args)
{
    for (uint32_t n = 0; n < 3; n++)
        assert_string_equal(pf_find(file, "op", n)->args, args);
}

static void packed_arguments_keep_their_types(void **state)
{
    (void)state;
    kt_builder *b = builder();
    kineto_export_result r;
    for (int i = 0; i < 3; i++) {
        put_all_types(b);
        add(b, thread(b, 7), "op", BASE + i, BASE + i);
    }
    for (int i = 0; i < 3; i++) {
        kt_args_put_double(b, kt_string(b, kb_string("only")), -0.25);
        add(b, thread(b, 7), "plain", BASE + 10 + i, BASE + 10 + i);
    }
    pf_file *file = finish(b, &r);
    check_all(file, "int=i-5;uint=u18446744073709551615;double=d1.5;bool=b1;string=sa\"b;"
                    "ints=[i1,i-2];");
    for (uint32_t n = 0; n < 3; n++)
        assert_string_equal(pf_find(file, "plain", n)->args, "only=d-0.25;");
    pf_free(file);
}

static pf_file *verbatim(const char *json)
{
    kt_builder *b = builder();
    kineto_export_result r;
    for (int i = 0; i < 3; i++) {
        kt_args_verbatim(b, kb_string(json));
        kt_row row = {.start_ns = BASE + i,
                      .end_ns = BASE + i,
                      .name = kt_string(b, kb_string("op")),
                      .track = thread(b, 7),
                      .kind = KINETO_KIND_RUNTIME,
                      .correlation_id = 12,
                      .external_id = 13};
        kt_append(b, &row);
    }
    return finish(b, &r);
}

#define COLUMNS "External id=u13;correlation=u12;"

static void verbatim_arguments_keep_their_types_and_columns_come_once(void **state)
{
    (void)state;
    static const char *const pairs[][2] = {
        {"{}", ""},
        {"{\"correlation\":12,\"External id\": 13 }", ""},
        {"{\"correlation\" : \"x\"}", "correlation=sx;"},
        {"{ \"a\" : 1 , \"b\" : -2.5 }", "a=i1;b=d-2.5;"},
        {"{\"a\":18446744073709551615,\"b\":1e3,\"c\":0.1}", "a=u18446744073709551615;b=d1000;"
                                                             "c=d0.10000000000000001;"},
        {"{\"a\":true,\"b\":false,\"c\":null}", "a=b1;b=b0;c=snull;"},
        {"{\"a\":\"x\\n\\u00e9\",\"\\u0062\":\"\"}", "a=sx\n\xc3\xa9;b=s;"},
        {"{\"a\":[],\"b\":{},\"c\":[ [1, 2], [] ]}", "a=s[];b=s{};c=[[i1,i2],s[]];"},
        {"{\"a\":{\"b\":{\"c\":\"d\"},\"e\":1}}", "a={b={c=sd},e=i1};"},
        {"{\"a\":[[[[[[[[7]]]]]]]]}", "a=[[[[[[[[i7]]]]]]]];"},
        {"{\"\":1}", "=i1;"},
        {"{\"finished\":false}", "finished=b0;"},
    };
    for (size_t i = 0; i < KB_COUNT(pairs); i++) {
        char expected[512];
        pf_file *file = verbatim(pairs[i][0]);
        snprintf(expected, sizeof expected, COLUMNS "%s", pairs[i][1]);
        check_all(file, expected);
        pf_free(file);
    }
}

static void long_arguments_are_whole(void **state)
{
    (void)state;
    static char json[20000];
    strcpy(json, "{\"list\":[0");
    for (int i = 1; i < 150; i++)
        pf_append(json, sizeof json, ",%d", i);
    strcat(json, "]}");
    pf_file *file = verbatim(json);
    const char *args = pf_find(file, "op", 2)->args;
    assert_string_equal(args, pf_find(file, "op", 0)->args);
    assert_string_equal(args + strlen(args) - 12, ",i148,i149];");
    pf_free(file);
}

static void flags_and_async_ids_are_said(void **state)
{
    (void)state;
    kt_builder *b = builder();
    kineto_export_result r;
    kt_row row = {.start_ns = BASE,
                  .end_ns = BASE + 5,
                  .name = kt_string(b, kb_string("open")),
                  .track = kt_track(b, kt_process(b, false, 100, 0), KINETO_TRACK_ASYNC, 0),
                  .form = KINETO_FORM_ASYNC,
                  .flags = KINETO_ACTIVITY_OPEN_END | KINETO_ACTIVITY_OPEN_START |
                           KINETO_ACTIVITY_ARGS_LOST,
                  .async_id = 77};
    kt_append(b, &row);
    row.start_ns += 2;
    row.end_ns += 9;
    row.flags = 0;
    row.async_id = 78;
    row.name = kt_string(b, kb_string("other"));
    kt_append(b, &row);
    pf_file *file = finish(b, &r);
    assert_string_equal(pf_find(file, "open", 0)->args,
                        "async id=u77;finished=b0;started=b0;arguments lost=b1;");
    assert_string_equal(pf_find(file, "other", 0)->args, "async id=u78;");
    assert_int_not_equal(pf_find(file, "open", 0)->track, pf_find(file, "other", 0)->track);
    assert_int_equal(r.asyncs, 2);
    pf_free(file);
}

static void arrows_join_their_slices(void **state)
{
    (void)state;
    kt_builder *b = builder();
    kineto_export_result r;
    kineto_row from = add(b, thread(b, 7), "launch", BASE, BASE + 10);
    uint32_t stream = kt_track(b, kt_process(b, true, 0, 0), KINETO_TRACK_STREAM, 7);
    kineto_row one = add(b, stream, "one", BASE + 20, BASE + 30);
    kineto_row two = add(b, stream, "two", BASE + 30, BASE + 40);
    kineto_row early = add(b, stream, "early", BASE - 9, BASE - 8);
    kt_flow(b, KINETO_FLOW_ASYNC_CPU_GPU, 5, from, true);
    kt_flow(b, KINETO_FLOW_ASYNC_CPU_GPU, 5, one, false);
    kt_flow(b, KINETO_FLOW_ASYNC_CPU_GPU, 5, two, false);
    kt_flow(b, KINETO_FLOW_FWD_BWD, 5, from, true);
    kt_flow(b, KINETO_FLOW_FWD_BWD, 5, early, false);
    kt_flow(b, KINETO_FLOW_USER, 9, one, true);
    pf_file *file = finish(b, &r);
    const pf_event *launch = pf_find(file, "launch", 0), *a = pf_find(file, "one", 0);
    const pf_event *c = pf_find(file, "two", 0), *d = pf_find(file, "early", 0);
    assert_int_equal(launch->flow_count, 2);
    assert_int_equal(launch->flow_end_count, 1); /* from what began before it */
    assert_int_equal(a->flow_end_count, 1);
    assert_int_equal(a->flow_count, 0); /* its arrow has no end */
    assert_int_equal(c->flow_end_count, 1);
    assert_int_equal(d->flow_count, 1);
    assert_int_not_equal(a->flow_ends[0], c->flow_ends[0]);
    assert_int_equal(launch->flow_ends[0], d->flows[0]);
    assert_int_equal(r.flows, 3);
    assert_int_equal(omitted(&r, "flows"), 1);
    assert_int_equal(omitted(&r, "flow directions"), 1);
    pf_free(file);
}

static void counters_have_units_and_what_is_not_a_number_is_kept(void **state)
{
    (void)state;
    kt_builder *b = builder();
    kineto_export_result r;
    uint32_t track = kt_track(b, kt_process(b, true, 3, 0), KINETO_TRACK_COUNTER, 0);
    uint32_t power = kt_string(b, kb_string("power [W]")), t = kt_string(b, kb_string("hot"));
    for (int i = 0; i < 3; i++) {
        kt_args_put_double(b, power, i + 0.5);
        kt_args_put_int(b, t, 40 - i);
        add_form(b, track, "board", BASE + i, KINETO_FORM_COUNTER);
    }
    kt_args_put_string(b, t, kb_string("unknown"));
    add_form(b, track, "board", BASE + 9, KINETO_FORM_COUNTER);
    pf_file *file = finish(b, &r);
    const pf_track *watts = pf_track_named(file, "board power [W]");
    assert_true(watts->counter);
    assert_string_equal(watts->unit, "W");
    assert_int_equal(watts->parent, pf_track_named(file, "device 3")->uuid);
    assert_int_equal(pf_count(file, 4), 6);
    const pf_event *last = &file->events[file->event_count - 2];
    assert_int_equal(last->ns, BASE + 2);
    assert_int_equal(last->integer, 38);
    assert_int_equal(last->track, pf_track_named(file, "board hot")->uuid);
    assert_string_equal(pf_find(file, "board", 0)->args, "hot=sunknown;");
    assert_int_equal(pf_find(file, "board", 0)->type, 3);
    assert_int_equal(r.counters, 4);
    pf_free(file);
}

static void absurd_times_corrupt_nothing(void **state)
{
    (void)state;
    kt_builder *b = builder();
    kineto_export_result r;
    add(b, thread(b, 7), "min", INT64_MIN, INT64_MAX); /* the model makes it fit: ends at -1 */
    add(b, thread(b, 7), "long", 1, INT64_MAX);
    add(b, thread(b, 7), "before", INT64_MIN, -1);
    add(b, thread(b, 7), "across", -5, 5);
    add(b, thread(b, 7), "max", INT64_MAX, INT64_MAX);
    add(b, thread(b, 7), "sane", BASE, BASE + 1);
    pf_file *file = finish(b, &r);
    assert_int_equal(pf_find(file, "min", 0)->ns, 0);
    assert_int_equal(pf_find(file, "min", 0)->end_ns, 0);
    assert_int_equal(pf_find(file, "long", 0)->ns, 1);
    assert_int_equal(pf_find(file, "long", 0)->end_ns, INT64_MAX);
    assert_int_equal(pf_find(file, "before", 0)->end_ns, 0);
    assert_int_equal(pf_find(file, "across", 0)->end_ns, 5);
    assert_int_equal(pf_find(file, "max", 0)->ns, INT64_MAX);
    assert_int_equal(pf_find(file, "sane", 0)->ns, BASE);
    assert_int_equal(omitted(&r, "times"), 3);
    pf_free(file);
}

static void bytes_that_are_no_text_are_replaced_and_counted(void **state)
{
    (void)state;
    kt_builder *b = builder();
    kineto_export_result r;
    for (int i = 0; i < 2; i++) {
        kt_args_put_string(b, kt_string(b, kb_string("k\xfe")), kb_string("v\xff\xff"));
        add(b, thread(b, 7), "n\xff", BASE + i, BASE + i);
    }
    pf_file *file = finish(b, &r);
    for (uint32_t i = 0; i < 2; i++)
        assert_string_equal(pf_find(file, "n\xef\xbf\xbd", i)->args,
                            "k\xef\xbf\xbd=sv\xef\xbf\xbd\xef\xbf\xbd;");
    assert_int_equal(r.replaced_bytes, 2 + 4);
    pf_free(file);
}

static void rows_without_a_usable_number_are_plain_tracks(void **state)
{
    (void)state;
    kt_builder *b = builder();
    kineto_export_result r;
    uint32_t first = kt_process(b, false, 100, 1), second = kt_process(b, false, 100, 2);
    uint32_t text = kt_process_text(b, kb_string("Spans"));
    add(b, kt_track(b, first, KINETO_TRACK_THREAD, 5), "a", BASE, BASE);
    add(b, kt_track(b, second, KINETO_TRACK_THREAD, 5), "b", BASE, BASE);
    add(b, kt_track(b, first, KINETO_TRACK_THREAD, -5), "c", BASE, BASE);
    add(b, kt_track(b, first, KINETO_TRACK_THREAD, INT64_MAX), "d", BASE, BASE);
    add(b, kt_track_text(b, text, kb_string("row")), "e", BASE, BASE);
    pf_file *file = finish(b, &r);
    uint32_t processes = 0, threads = 0;
    for (uint32_t i = 0; i < file->track_count; i++) {
        processes += file->tracks[i].pid && !file->tracks[i].tid;
        threads += file->tracks[i].tid != 0;
    }
    assert_int_equal(processes, 1);
    assert_int_equal(threads, 1);
    assert_int_equal(pf_count(file, 1), 5);
    const pf_track *row = pf_track_named(file, "row");
    assert_int_equal(row->parent, pf_track_named(file, "Spans")->uuid);
    assert_int_equal(pf_find(file, "e", 0)->track, row->uuid);
    pf_free(file);
}

static void header_and_ledger_are_metadata(void **state)
{
    (void)state;
    kt_builder *b = builder();
    kineto_export_result r;
    uint32_t host = kt_process(b, false, 100, 0);
    kineto_process properties = {.name = kb_string("train"),
                                 .label = kb_string("CPU"),
                                 .host = kb_string("node1"),
                                 .sort_index = 4,
                                 .rank = 3};
    kt_process_set(b, host, &properties);
    kt_metadata(b, kb_string("world"), kb_string("{\"size\":8}"));
    kt_ledger_add(b, kb_string("program"), kb_string("buffer full"), 7, true, kb_string("why"));
    pf_file *file = finish(b, &r);
    assert_non_null(strstr(file->metadata, "world={\"size\":8}\n"));
    assert_non_null(strstr(file->metadata, "ledger: program: buffer full=7 lost, why\n"));
    assert_string_equal(file->tracks[0].process_name, "train");
    assert_string_equal(file->tracks[0].label, "rank 3");
    pf_free(file);
}

static void the_same_trace_gives_the_same_bytes(void **state)
{
    (void)state;
    kt_builder *b = builder();
    kineto_trace *t;
    kineto_export_result r;
    char *one, *two;
    size_t size_one, size_two;
    for (int i = 0; i < 100; i++)
        add(b, thread(b, i % 5), i % 2 ? "a" : "b", BASE + i, BASE + 3 * i);
    assert_int_equal(kt_builder_finish(b, &t, NULL), KINETO_OK);
    kt_builder_destroy(b);
    write_trace(t, &one, &size_one, &r);
    write_trace(t, &two, &size_two, &r);
    assert_int_equal(size_one, size_two);
    assert_memory_equal(one, two, size_one);
    free(one);
    free(two);
    kineto_trace_release(t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_empty_trace_is_a_file_without_events),
        cmocka_unit_test(slices_nest_and_keep_their_times),
        cmocka_unit_test(overlapping_slices_get_tracks_of_their_own),
        cmocka_unit_test(packed_arguments_keep_their_types),
        cmocka_unit_test(verbatim_arguments_keep_their_types_and_columns_come_once),
        cmocka_unit_test(long_arguments_are_whole),
        cmocka_unit_test(flags_and_async_ids_are_said),
        cmocka_unit_test(arrows_join_their_slices),
        cmocka_unit_test(counters_have_units_and_what_is_not_a_number_is_kept),
        cmocka_unit_test(absurd_times_corrupt_nothing),
        cmocka_unit_test(bytes_that_are_no_text_are_replaced_and_counted),
        cmocka_unit_test(rows_without_a_usable_number_are_plain_tracks),
        cmocka_unit_test(header_and_ledger_are_metadata),
        cmocka_unit_test(the_same_trace_gives_the_same_bytes),
    };
    return RUN_TESTS(tests);
}
