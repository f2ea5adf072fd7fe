/* The table of formats and the writers of rows and stacks: what they write, read by independent
 * parsers; overlaps, extreme times, hostile names; the account of what was written. */
#include "export/export.h"
#include "trace/trace.h"

#include "building.h"

#include <sys/stat.h>

static const char *const endings[] = {".json",   ".csv",   ".jsonl",
                                      ".folded", ".pprof", ".speedscope.json"};

static uint32_t text(kt_builder *b, const char *s) { return kt_string(b, kb_string(s)); }

static uint32_t thread(kt_builder *b, int64_t tid)
{
    return kt_track(b, kt_process(b, false, 100, 0), KINETO_TRACK_THREAD, tid);
}

static uint32_t stream(kt_builder *b, int64_t id)
{
    return kt_track(b, kt_process(b, true, 0, 0), KINETO_TRACK_STREAM, id);
}

static kineto_row slice(kt_builder *b, uint32_t track, const char *name, int64_t start, int64_t end)
{
    return kt_append(b, &(kt_row){.start_ns = start,
                                  .end_ns = end,
                                  .name = text(b, name),
                                  .track = track,
                                  .kind = KINETO_KIND_CPU_OP});
}

/* ---- comparing with independent parsers --------------------------------------------------------- */

static void state_row(FILE *f, const kineto_trace *t, kineto_row row)
{
    kineto_activity a;
    kineto_trace_get(t, row, &a);
    fprintf(f, "%u %lld %lld %s %s %u %u %u %llu ", row, (long long)a.start_ns, (long long)a.end_ns,
            ke_form_name(a.form), kineto_kind_name(a.kind), a.track, kineto_trace_lane(t, row),
            kineto_trace_parent(t, row), (unsigned long long)kineto_trace_self_ns(t, row));
    for (size_t i = 0; i < a.name.size; i++)
        fprintf(f, "%02x", (unsigned char)a.name.data[i]);
    fputc('\n', f);
}

static void state_rows(const kineto_trace *t, const char *directory)
{
    char path[300];
    snprintf(path, sizeof path, "%s/expected", directory);
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    for (kineto_row row = 0; row < kineto_trace_count(t); row++)
        state_row(f, t, row);
    assert_int_equal(fclose(f), 0);
}

static uint64_t accounted(const kineto_export_result *r)
{
    uint64_t known = r->activities;
    for (uint32_t i = 0; i < r->omission_count; i++)
        if (strcmp(r->omissions[i].what, "activities") == 0)
            known += r->omissions[i].count;
    return known;
}

static void remove_files(const char *directory)
{
    char path[300];
    for (size_t i = 0; i < KB_COUNT(endings); i++) {
        snprintf(path, sizeof path, "%s/t%s", directory, endings[i]);
        unlink(path);
    }
    snprintf(path, sizeof path, "%s/expected", directory);
    unlink(path);
    assert_int_equal(rmdir(directory), 0);
}

/* Write a trace in all formats, and have parsers compare; releases it. */
static void check(kineto_trace *t)
{
    char directory[200], path[300], command[800];
    kineto_export_result r = {.size = sizeof r};
    kineto_error err = {.message = ""};
    assert_non_null(make_directory(directory, sizeof directory));
    state_rows(t, directory);
    for (size_t i = 0; i < KB_COUNT(endings); i++) {
        snprintf(path, sizeof path, "%s/t%s", directory, endings[i]);
        if (kineto_trace_export(t, path, NULL, &r, &err))
            fail_msg("%s", err.message);
        assert_int_equal(accounted(&r), kineto_trace_count(t));
        assert_int_equal(r.activities, r.slices + r.asyncs + r.instants + r.counters);
    }
    snprintf(command, sizeof command,
             "python3 -B " CKINETO_SOURCE_DIR "/tests/unit/check_formats.py %s", directory);
    if (system("python3 -c '' 2>/dev/null") == 0)
        assert_int_equal(system(command), 0);
    remove_files(directory);
    kineto_trace_release(t);
}

static void nested_and_disjoint_slices_arrive(void **state)
{
    (void)state;
    kt_builder *b = builder();
    slice(b, thread(b, 1), "outer", 1000, 2000);
    slice(b, thread(b, 1), "inner", 1000, 1400);
    slice(b, thread(b, 1), "inner", 1400, 2000);
    slice(b, thread(b, 1), "deep", 1500, 2000);
    slice(b, thread(b, 1), "empty", 1500, 1500);
    slice(b, thread(b, 1), "empty", 2000, 2000);
    slice(b, thread(b, 2), "outer", 1, 5000);
    slice(b, stream(b, 7), "kernel", 100, 200);
    check(finish(b));
}

static void overlaps_are_in_lanes_and_none_is_hidden(void **state)
{
    (void)state;
    kt_builder *b = builder();
    uint64_t seed = 7;
    for (int i = 0; i < 2000; i++) {
        int64_t start = (int64_t)(next_random(&seed) % 10000);
        char name[32];
        snprintf(name, sizeof name, "k%d", (int)(next_random(&seed) % 5));
        slice(b, i % 3 ? stream(b, 7) : thread(b, 1), name, start,
              start + (int64_t)(next_random(&seed) % 500));
    }
    check(finish(b));
}

static void other_forms_are_counted(void **state)
{
    (void)state;
    kt_builder *b = builder();
    slice(b, thread(b, 1), "slice", 10, 20);
    for (uint32_t i = 0; i < 3; i++)
        kt_append(b, &(kt_row){.start_ns = 5 + i,
                               .end_ns = 5 + i,
                               .name = text(b, "moment"),
                               .track = thread(b, 1),
                               .form = KINETO_FORM_INSTANT,
                               .kind = KINETO_KIND_CPU_INSTANT_EVENT});
    kt_args_put_double(b, text(b, "power [W]"), 1.5);
    kt_append(b, &(kt_row){.start_ns = 12,
                           .end_ns = 12,
                           .name = text(b, "board"),
                           .track = kt_track(b, 0, KINETO_TRACK_COUNTER, 0),
                           .form = KINETO_FORM_COUNTER,
                           .kind = KINETO_KIND_COUNTER});
    for (uint32_t i = 0; i < 4; i++)
        kt_append(b, &(kt_row){.start_ns = 10 + i,
                               .end_ns = 30 + i,
                               .name = text(b, "request"),
                               .track = kt_track(b, 0, KINETO_TRACK_ASYNC, 0),
                               .form = KINETO_FORM_ASYNC,
                               .kind = KINETO_KIND_USER_ANNOTATION,
                               .async_id = i});
    check(finish(b));
}

static void names_of_any_bytes_arrive(void **state)
{
    (void)state;
    static const kineto_string names[] = {{"comma, \"quote\"", 14},
                                          {"line\nbreak\r\n", 12},
                                          {"semi;colon;", 11},
                                          {"back\\slash \\x3b", 15},
                                          {"\0nul\0", 5},
                                          {"bad \xff\xfe utf \xc3", 12},
                                          {"caf\xc3\xa9 \xf0\x9f\x98\x80", 10},
                                          {" blanks ", 8},
                                          {"", 0},
                                          {"\x01\x1f\x7f", 3},
                                          {"123 456", 7},
                                          {"=cmd()", 6},
                                          {"\"", 1},
                                          {",", 1},
                                          {"\xe2\x80\xa8", 3},
                                          {"f.py(12): g", 11}};
    kt_builder *b = builder();
    for (size_t i = 0; i < KB_COUNT(names); i++)
        for (int64_t k = 0; k < 2; k++)
            kt_append(b, &(kt_row){.start_ns = (int64_t)i * 10 + k,
                                   .end_ns = (int64_t)i * 10 + 9 - k,
                                   .name = kt_string(b, names[i]),
                                   .track = thread(b, 1),
                                   .kind = KINETO_KIND_PYTHON_FUNCTION});
    check(finish(b));
}

static void names_of_any_length_arrive(void **state)
{
    (void)state;
    size_t size = 1u << 20;
    char *name = malloc(size);
    assert_non_null(name);
    for (size_t i = 0; i < size; i++)
        name[i] = "ab\";\\,\n\xc3\xa9\xff"[i % 10];
    kt_builder *b = builder();
    uint32_t track = thread(b, 1);
    kt_track_set(b, track, (kineto_string){name, 100000}, 0);
    kt_append(
        b,
        &(kt_row){.end_ns = 5, .name = kt_string(b, (kineto_string){name, size}), .track = track});
    check(finish(b));
    free(name);
}

static void extreme_times_arrive(void **state)
{
    (void)state;
    kt_builder *b = builder();
    slice(b, thread(b, 1), "all", INT64_MIN, INT64_MAX);
    slice(b, thread(b, 1), "low", INT64_MIN, INT64_MIN);
    slice(b, thread(b, 1), "middle", -5, 5);
    slice(b, thread(b, 2), "late", INT64_MAX - 1, INT64_MAX);
    check(finish(b));
}

static void deep_stacks_arrive(void **state)
{
    (void)state;
    kt_builder *b = builder();
    for (int64_t i = 0; i < 600; i++)
        slice(b, thread(b, 1), i % 2 ? "odd" : "even", i, 2000 - i);
    check(finish(b));
}

static void an_empty_trace_is_a_file_in_all_formats(void **state)
{
    (void)state;
    check(finish(builder()));
}

static void arguments_of_all_types_arrive(void **state)
{
    (void)state;
    kt_builder *b = builder();
    kt_args_put_int(b, text(b, "i"), INT64_MIN);
    kt_args_put_uint(b, text(b, "u"), UINT64_MAX);
    kt_args_put_double(b, text(b, "d"), 0.1);
    kt_args_put_bool(b, text(b, "b"), true);
    kt_args_put_string(b, text(b, "a,\"b\""), (kineto_string){"x\0\xff\n", 4});
    kt_args_put_json(b, text(b, "j"), KINETO_ARG_JSON, kb_string("{\"k\" :\n [1, \" 2 \" ]}"));
    kt_args_put_int(b, text(b, "i"), 2);
    kt_args_put_int(b, text(b, "i (2)"), 3);
    slice(b, thread(b, 1), "packed", 1, 2);
    kt_args_verbatim(b,
                     kb_string("{\"a\": 1.50, \"correlation\": 7, \"a\": 2, \"\\u0061\": [ 3 ]}"));
    kineto_row row = slice(b, thread(b, 1), "verbatim", 3, 4);
    kineto_trace *t = finish(b);
    ke_text out = {NULL, 0, 0};
    uint64_t replaced = 0;
    assert_true(ke_args_json(t, row - 1, &out, &replaced));
    assert_int_equal(replaced, 1);
    assert_true(kb_vec_push(&out, '\0'));
    assert_string_equal(
        out.data, "{\"i\":-9223372036854775808,\"u\":18446744073709551615,\"d\":0.1,\"b\":true,"
                  "\"a,\\\"b\\\"\":\"x\\u0000\xef\xbf\xbd\\n\",\"j\":{\"k\":[1,\" 2 \"]},"
                  "\"i (2)\":2,\"i (2) (2)\":3}");
    assert_true(ke_args_json(t, row, &out, &replaced));
    assert_true(kb_vec_push(&out, '\0'));
    assert_string_equal(out.data, "{\"a\":1.50,\"a (2)\":2,\"a (3)\":[3]}");
    assert_true(ke_args_json(t, 99, &out, &replaced));
    assert_int_equal(out.count, 0);
    kb_vec_free(&out);
    check(t);
}

static void many_repeated_keys_cost_little(void **state)
{
    (void)state;
    kt_builder *b = builder();
    for (int i = 0; i < 100000; i++)
        kt_args_put_bool(b, text(b, "k"), i % 2);
    slice(b, thread(b, 1), "x", 1, 2);
    kineto_trace *t = finish(b);
    ke_text out = {NULL, 0, 0};
    uint64_t replaced = 0;
    assert_true(ke_args_json(t, 0, &out, &replaced));
    assert_true(kb_json_valid((kineto_string){out.data, out.count}));
    assert_true(kb_vec_push(&out, '\0'));
    assert_non_null(strstr(out.data, "\"k (100000)\":"));
    kb_vec_free(&out);
    kineto_trace_release(t);
}

/* ---- options and results ------------------------------------------------------------------------ */

/* In a named format; the caller frees. */
static char *written(const kineto_trace *t, const kineto_export_options *options,
                     kineto_export_result *result)
{
    kb_sink *sink;
    char *data;
    size_t bytes;
    assert_int_equal(kb_sink_open_memory(KB_COMPRESS_NONE, &sink, NULL), KINETO_OK);
    assert_int_equal(ke_export_to_sink(t, sink, options, result, NULL), KINETO_OK);
    assert_int_equal(kb_sink_take(sink, &data, &bytes, NULL), KINETO_OK);
    assert_int_equal(kb_sink_close(sink, NULL), KINETO_OK);
    return data;
}

static void stacks_begin_with_what_was_asked_for(void **state)
{
    (void)state;
    kt_builder *b = builder();
    slice(b, thread(b, 1), "op", 0, 3000);
    slice(b, thread(b, 2), "op", 0, 1600);
    slice(b, thread(b, 2), "part", 0, 499);
    kineto_trace *t = finish(b);
    kineto_export_options o = {.size = sizeof o, .format = "folded"};
    char *data = written(t, &o, NULL);
    assert_string_equal(data, "process 100;thread 1;op 3000\n"
                              "process 100;thread 2;op 1101\n"
                              "process 100;thread 2;op;part 499\n");
    free(data);
    o.roots = KINETO_EXPORT_BY_KIND;
    data = written(t, &o, NULL);
    assert_string_equal(data, "cpu_op;op 4101\ncpu_op;op;part 499\n");
    free(data);
    o.roots = KINETO_EXPORT_MERGED;
    o.weight_ns = 1000;
    data = written(t, &o, NULL);
    assert_string_equal(data, "op 4\nop;part 0\n");
    free(data);
    o.roots = 3;
    assert_int_equal(ke_export_to_sink(t, NULL, &o, NULL, NULL), KINETO_E_ARGUMENT);
    kineto_trace_release(t);
}

static void results_fit_callers_of_any_age(void **state)
{
    (void)state;
    kt_builder *b = builder();
    slice(b, thread(b, 1), "op", 0, 3000);
    kineto_trace *t = finish(b);
    struct {
        size_t size;
        uint64_t activities, untouched;
    } old = {16, 0, 77};
    kineto_export_options o = {.size = sizeof o, .format = "csv"};
    free(written(t, &o, (kineto_export_result *)&old));
    assert_int_equal(old.activities, 1);
    assert_int_equal(old.untouched, 77);
    kineto_export_result r = {.size = sizeof r};
    free(written(t, &o, &r));
    assert_string_equal(r.format, "csv");
    assert_int_equal(r.records, 1);
    o.size = 3;
    assert_int_equal(kineto_trace_export(t, "/dev/null", &o, NULL, NULL), KINETO_E_ARGUMENT);
    kineto_trace_release(t);
}

static void the_table_lists_every_format_once(void **state)
{
    (void)state;
    kineto_export_format f = {.size = sizeof f};
    uint32_t count = 0;
    for (; kineto_export_format_get(count, &f); count++) {
        assert_true(f.name[0] && f.about[0] && f.endings[0]);
        for (size_t i = 0; f.endings[i]; i++) {
            char path[100];
            snprintf(path, sizeof path, "/tmp/x%s", f.endings[i]);
            assert_int_equal(ke_check_path(path, NULL), KINETO_OK);
            snprintf(path, sizeof path, "/tmp/x%s.zst", f.endings[i]);
            assert_int_equal(ke_check_path(path, NULL) == KINETO_OK, f.compressible);
        }
    }
    assert_in_range(count, 6, 100);
    assert_false(kineto_export_format_get(count, &f));
}

static void the_longest_ending_decides(void **state)
{
    (void)state;
    char directory[200], path[300];
    kineto_export_result r = {.size = sizeof r};
    kineto_trace *t = finish(builder());
    static const struct {
        const char *name, *format;
    } files[] = {{"t.json", "chrome"},
                 {"t.pt.trace.json.gz", "chrome"},
                 {"t.speedscope.json", "speedscope"},
                 {"t.speedscope.json.gz", "speedscope"},
                 {"t.ndjson", "jsonl"},
                 {"t.pb.gz", "pprof"},
                 {"t.csv.gz", "csv"},
                 {"t.folded", "folded"}};
    assert_non_null(make_directory(directory, sizeof directory));
    for (size_t i = 0; i < KB_COUNT(files); i++) {
        snprintf(path, sizeof path, "%s/%s", directory, files[i].name);
        assert_int_equal(kineto_trace_export(t, path, NULL, &r, NULL), KINETO_OK);
        assert_string_equal(r.format, files[i].format);
        assert_int_equal(unlink(path), 0);
    }
    assert_int_equal(rmdir(directory), 0);
    kineto_trace_release(t);
}

static void what_is_unknown_is_refused_by_name(void **state)
{
    (void)state;
    kineto_error err;
    kineto_trace *t = finish(builder());
    kineto_export_options o = {.size = sizeof o, .format = "xml"};
    assert_int_equal(kineto_trace_export(t, "/tmp/t.json", &o, NULL, &err), KINETO_E_UNSUPPORTED);
    assert_non_null(strstr(err.message, "unknown format 'xml'; known formats are chrome, "));
    assert_int_equal(kineto_trace_export(t, "-", NULL, NULL, &err), KINETO_E_UNSUPPORTED);
    o.format = "pprof.zst"; /* it is gzip always */
    assert_int_equal(kineto_trace_export(t, "/dev/null", &o, NULL, &err), KINETO_E_UNSUPPORTED);
    o.format = "sqlite";
    assert_int_equal(kineto_trace_export(t, "/tmp/t.sqlite.gz", &o, NULL, &err), KINETO_E_UNSUPPORTED);
    assert_non_null(strstr(err.message, "drop .gz"));
    o.format = "csv.gz";
    assert_int_equal(kineto_trace_export(t, "/dev/null", &o, NULL, &err), KINETO_OK);
    assert_int_equal(kineto_trace_export(NULL, "x.csv", NULL, NULL, &err), KINETO_E_ARGUMENT);
    assert_int_equal(kineto_trace_export(t, NULL, NULL, NULL, &err), KINETO_E_ARGUMENT);
    kineto_trace_release(t);
}

static void a_full_disk_is_an_error_in_all_formats(void **state)
{
    (void)state;
    static const char *const names[] = {"chrome", "csv", "jsonl", "folded", "speedscope", "pprof"};
    kt_builder *b = builder();
    uint64_t seed = 1;
    for (int64_t i = 0; i < 3000; i++) {
        char name[40]; /* not to be compressed to nothing */
        snprintf(name, sizeof name, "%016llx", (unsigned long long)next_random(&seed));
        slice(b, thread(b, 1), name, i, i + 1);
    }
    kineto_trace *t = finish(b);
    for (size_t i = 0; i < KB_COUNT(names) && access("/dev/full", W_OK) == 0; i++) {
        kineto_error err;
        kineto_export_options o = {.size = sizeof o, .format = names[i]};
        assert_int_equal(kineto_trace_export(t, "/dev/full", &o, NULL, &err), KINETO_E_IO);
        assert_non_null(strstr(err.message, "/dev/full"));
    }
    kineto_trace_release(t);
}

static void flows_and_half_flows_are_accounted_for(void **state)
{
    (void)state;
    kt_builder *b = builder();
    kineto_row a = slice(b, thread(b, 1), "launch", 0, 1), k = slice(b, stream(b, 7), "k", 5, 6);
    kt_flow(b, KINETO_FLOW_ASYNC_CPU_GPU, 1, a, true);
    kt_flow(b, KINETO_FLOW_ASYNC_CPU_GPU, 1, k, false);
    kt_flow(b, KINETO_FLOW_ASYNC_CPU_GPU, 2, a, true);
    kineto_trace *t = finish(b);
    uint64_t flows = kineto_trace_flow_count(t);
    kineto_export_options o = {.size = sizeof o, .format = "jsonl"};
    kineto_export_result r = {.size = sizeof r};
    free(written(t, &o, &r));
    assert_int_equal(r.flows, flows);
    o.format = "csv";
    free(written(t, &o, &r));
    assert_int_equal(r.flows, 0);
    assert_string_equal(r.omissions[0].what, "flows");
    assert_int_equal(r.omissions[0].count, flows);
    kineto_trace_release(t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nested_and_disjoint_slices_arrive),
        cmocka_unit_test(overlaps_are_in_lanes_and_none_is_hidden),
        cmocka_unit_test(other_forms_are_counted),
        cmocka_unit_test(names_of_any_bytes_arrive),
        cmocka_unit_test(names_of_any_length_arrive),
        cmocka_unit_test(extreme_times_arrive),
        cmocka_unit_test(deep_stacks_arrive),
        cmocka_unit_test(an_empty_trace_is_a_file_in_all_formats),
        cmocka_unit_test(arguments_of_all_types_arrive),
        cmocka_unit_test(many_repeated_keys_cost_little),
        cmocka_unit_test(stacks_begin_with_what_was_asked_for),
        cmocka_unit_test(results_fit_callers_of_any_age),
        cmocka_unit_test(the_table_lists_every_format_once),
        cmocka_unit_test(the_longest_ending_decides),
        cmocka_unit_test(what_is_unknown_is_refused_by_name),
        cmocka_unit_test(a_full_disk_is_an_error_in_all_formats),
        cmocka_unit_test(flows_and_half_flows_are_accounted_for),
    };
    return RUN_TESTS(tests);
}
