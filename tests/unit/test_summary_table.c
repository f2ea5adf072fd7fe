/* The table: its columns, widths, units and order, and the same rows as CSV and JSON. */
#include "building.h"
#include "decimal_comma.h"

#include <ckineto/summary.h>

typedef struct fixture {
    kt_builder *b;
    uint32_t thread, stream;
    kineto_function_events *events;
    kineto_averages *averages;
} fixture;

static fixture make_fixture(void)
{
    fixture f = {.b = builder()};
    f.thread = kt_track(f.b, kt_process(f.b, false, 100, 0), KINETO_TRACK_THREAD, 1);
    f.stream = kt_track(f.b, kt_process(f.b, true, 0, 0), KINETO_TRACK_STREAM, 7);
    return f;
}

static void put_json(fixture *f, const char *key, const char *json)
{
    kt_args_put_json(f->b, kt_string(f->b, kb_string(key)), KINETO_ARG_JSON, kb_string(json));
}

static void put_text(fixture *f, const char *key, const char *text)
{
    kt_args_put_string(f->b, kt_string(f->b, kb_string(key)), kb_string(text));
}

static void add(fixture *f, const char *name, uint32_t track, int64_t start_us, int64_t end_us,
                uint32_t kind, const char *category)
{
    kt_row row = {.start_ns = start_us * 1000,
                  .end_ns = end_us * 1000,
                  .name = kt_string(f->b, kb_string(name)),
                  .track = track,
                  .kind = kind,
                  .category = category ? kt_string(f->b, kb_string(category)) : 0,
                  .external_id = (uint64_t)start_us + 1,
                  .form = KINETO_FORM_SLICE};
    kt_append(f->b, &row);
}

static void add_op(fixture *f, const char *name, int64_t start_us, int64_t end_us)
{
    add(f, name, f->thread, start_us, end_us, KINETO_KIND_CPU_OP, NULL);
}

static void group(fixture *f, const kineto_averages_options *options)
{
    kineto_trace *t = finish(f->b);
    assert_int_equal(kineto_function_events_create(t, NULL, &f->events, NULL), KINETO_OK);
    assert_int_equal(kineto_averages_create(f->events, options, &f->averages, NULL), KINETO_OK);
    kineto_trace_release(t);
}

static void done(fixture *f)
{
    kineto_averages_destroy(f->averages);
    kineto_function_events_destroy(f->events);
}

static void text_is(const fixture *f, const kineto_table_options *options, const char *expected)
{
    char *text;
    size_t bytes;
    kineto_error err = {.message = ""};
    if (kineto_averages_text(f->averages, options, &text, &bytes, &err) != KINETO_OK)
        fail_msg("%s", err.message);
    assert_int_equal(strlen(text), bytes);
    assert_string_equal(text, expected);
    free(text);
}

/* ---- the text ---------------------------------------------------------------------------------- */

#define RULE12 "------------  "
#define RULES6 RULE12 RULE12 RULE12 RULE12 RULE12 RULE12

static void columns_are_those_of_pytorch(void **state)
{
    (void)state;
    fixture f = make_fixture();
    add_op(&f, "outer", 0, 2000);
    add_op(&f, "inner", 10, 510);
    add_op(&f, "inner", 600, 1100);
    add_op(&f, "long", 3000, 4003000);
    group(&f, NULL);
    text_is(
        &f, &(kineto_table_options){.size = sizeof(kineto_table_options)},
        "---------  " RULES6 "\n"
        "     Name    Self CPU %      Self CPU   CPU total %     CPU total  CPU time avg    # of "
        "Calls  \n"
        "---------  " RULES6 "\n"
        "    outer         0.02%       1.000ms         0.05%       2.000ms       2.000ms        "
        "     1  \n"
        "    inner         0.02%       1.000ms         0.02%       1.000ms     500.000us        "
        "     2  \n"
        "     long        99.95%        4.000s        99.95%        4.000s        4.000s        "
        "     1  \n"
        "---------  " RULES6 "\n"
        "Self CPU time total: 4.002s\n");
    done(&f);
}

static void options_shape_the_text(void **state)
{
    (void)state;
    fixture f = make_fixture();
    add_op(&f, "a function with a long name", 0, 2000);
    add_op(&f, "inner", 10, 510);
    group(&f, NULL);
    text_is(
        &f,
        &(kineto_table_options){.size = sizeof(kineto_table_options),
                                .sort_by = "cpu_time_total",
                                .time_unit = KINETO_TIME_US,
                                .max_name_width = 10,
                                .row_limit = 1,
                                .top_level_events_only = true,
                                .header = "A heading"},
        "==============================================================================="
        "===============\n"
        "A heading\n"
        "==============================================================================="
        "===============\n"
        "This report only display top-level ops statistics\n"
        "----------  " RULES6 "\n"
        "      Name    Self CPU %      Self CPU   CPU total %     CPU total  CPU time avg    # of "
        "Calls  \n"
        "----------  " RULES6 "\n"
        "a funct...        75.00%    1500.000us       100.00%    2000.000us    2000.000us        "
        "     1  \n"
        "----------  " RULES6 "\n"
        "Self CPU time total: 2000.000us\n");
    done(&f);
}

static void stack_and_flops_stand_below_their_headings(void **state)
{
    (void)state;
    fixture f = make_fixture();
    put_text(&f, "Call stack", "a/path/that/is/long.py(3): inner;main.py(1): <module>;");
    put_json(&f, "Input Dims", "[[2,3],[3,4]]");
    put_json(&f, "Input type", "[\"float\",\"float\"]");
    add_op(&f, "aten::mm", 0, 10);
    add_op(&f, "other", 20, 30);
    group(&f, &(kineto_averages_options){.size = sizeof(kineto_averages_options),
                                         .group_by_stack = 5,
                                         .flops = KINETO_YES});
    char *text;
    kineto_table_options o = {.size = sizeof o, .max_source_width = 16};
    assert_int_equal(kineto_averages_text(f.averages, &o, &text, NULL, NULL), KINETO_OK);
    static const char *const lines[] = {
        "  # of Calls  Source Location    Total FLOPs  \n", /* as in the heading … */
        "           1  ....py(3): inner        48.000  \n", /* … so in the rows */
        "              ...(1): <module>                \n",
        "                                              \n",
        "           1                              --  \n"};
    const char *at = text;
    for (size_t i = 0; i < KB_COUNT(lines); i++) {
        at = strstr(at, lines[i]);
        assert_non_null(at);
    }
    free(text);
    done(&f);
}

static void a_device_has_columns_and_a_line(void **state)
{
    (void)state;
    fixture f = make_fixture();
    add(&f, "op", f.thread, 0, 100, KINETO_KIND_CPU_OP, NULL);
    add(&f, "xpuLaunch", f.thread, 10, 20, KINETO_KIND_RUNTIME, "xpu_runtime");
    kt_row kernel = {.start_ns = 30000,
                     .end_ns = 60000,
                     .name = kt_string(f.b, kb_string("kernel")),
                     .track = f.stream,
                     .kind = KINETO_KIND_CONCURRENT_KERNEL,
                     .external_id = 1};
    kt_append(f.b, &kernel);
    group(&f, NULL);
    assert_string_equal(kineto_function_events_device(f.events), "xpu");
    char *text;
    kineto_table_options o = {.size = sizeof o, .sort_by = "self_xpu_time_total"};
    assert_int_equal(kineto_averages_text(f.averages, &o, &text, NULL, NULL), KINETO_OK);
    assert_non_null(strstr(text, "    Self XPU    Self XPU %     XPU total  XPU time avg  "));
    assert_non_null(
        strstr(text, "Self CPU time total: 100.000us\nSelf XPU time total: 30.000us\n"));
    assert_non_null(strstr(text,
                           "        op        90.00%      90.000us       100.00%     100.000us     "
                           "100.000us      30.000us       100.00%      30.000us      30.000us"));
    free(text);
    done(&f);
}

static void nothing_makes_no_text(void **state)
{
    (void)state;
    fixture f = make_fixture();
    group(&f, NULL);
    kineto_table_options o = {.size = sizeof o};
    text_is(&f, &o, "");
    o.format = KINETO_TABLE_JSON;
    text_is(&f, &o, "[]\n");
    done(&f);
}

static void names_do_not_disturb_a_terminal(void **state)
{
    (void)state;
    fixture f = make_fixture();
    add_op(&f, "red\x1b[31m\n\xff \xc3\xa9", 0, 10);
    group(&f, NULL);
    char *text;
    assert_int_equal(kineto_averages_text(f.averages, NULL, &text, NULL, NULL), KINETO_OK);
    assert_non_null(strstr(text, "    red\\x1b[31m\\x0a\\xff \xc3\xa9  "));
    assert_non_null(strstr(text, "\n-------------------------  ---"));
    free(text);
    done(&f);
}

static void a_program_that_speaks_german_gets_the_same(void **state)
{
    (void)state;
    char *first, *second;
    fixture f = make_fixture();
    add_op(&f, "op", 0, 1234);
    group(&f, NULL);
    assert_int_equal(kineto_averages_text(f.averages, NULL, &first, NULL, NULL), KINETO_OK);
    if (begin_decimal_comma()) {
        assert_int_equal(kineto_averages_text(f.averages, NULL, &second, NULL, NULL), KINETO_OK);
        assert_string_equal(first, second);
        free(second);
        end_decimal_comma();
    }
    free(first);
    done(&f);
}

/* ---- groups -------------------------------------------------------------------------------------- */

static void shapes_are_grouped_as_pytorch_writes_them(void **state)
{
    (void)state;
    static const char *const dims[] = {"[[2,3],[]]", "[[2, 3], []]", "[[[1,2],[3]],[4]]", NULL,
                                       "[[[7]], [4]]"};
    fixture f = make_fixture();
    for (int i = 0; i < 5; i++) {
        if (dims[i])
            put_json(&f, "Input Dims", dims[i]);
        add_op(&f, "op", i * 10, i * 10 + 5);
    }
    group(&f, &(kineto_averages_options){.size = sizeof(kineto_averages_options),
                                         .group_by_shape = true});
    static const char *const shapes[] = {"[[2, 3], []]", "[[], [4]]", "[]"};
    static const uint64_t counts[] = {2, 2, 1};
    assert_int_equal(kineto_averages_count(f.averages), 3);
    for (uint32_t i = 0; i < 3; i++) {
        kineto_average row;
        kineto_averages_get(f.averages, i, &row);
        assert_true(kb_string_equal(row.input_shapes, kb_string(shapes[i])));
        assert_int_equal(row.count, counts[i]);
    }
    done(&f);
}

static void broken_shapes_are_taken_as_they_are(void **state)
{
    (void)state;
    static const char *const dims[] = {"[",    "[[",      "[[[",   "[[[1", "]",
                                       ",,,,", "[[1],[[", "\"x\"", ""};
    for (size_t i = 0; i < KB_COUNT(dims); i++) {
        char args[64];
        fixture f = make_fixture();
        snprintf(args, sizeof args, "%s", dims[i]);
        put_text(&f, "Input Dims", args);
        add_op(&f, "op", 0, 5);
        group(&f, &(kineto_averages_options){.size = sizeof(kineto_averages_options),
                                             .group_by_shape = true});
        assert_int_equal(kineto_averages_count(f.averages), 1);
        done(&f);
    }
}

static void stacks_are_grouped_by_their_innermost_frames(void **state)
{
    (void)state;
    static const char *const stack[] = {"a;b;main;", "a;b;other;", "a;c;main;", ";;a;b", "a"};
    fixture f = make_fixture();
    for (int i = 0; i < 5; i++) {
        put_text(&f, "Call stack", stack[i]);
        add_op(&f, "op", i * 10, i * 10 + 5);
    }
    group(&f,
          &(kineto_averages_options){.size = sizeof(kineto_averages_options), .group_by_stack = 2});
    kineto_average row;
    assert_int_equal(kineto_averages_count(f.averages), 3);
    kineto_averages_get(f.averages, 0, &row);
    assert_int_equal(row.count, 3);
    assert_int_equal(row.stack_depth, 2);
    assert_true(kb_string_equal(kineto_averages_frame(f.averages, 0, 1), kb_string("b")));
    assert_true(kb_string_equal(kineto_averages_frame(f.averages, 1, 1), kb_string("c")));
    assert_int_equal(kineto_averages_frame(f.averages, 2, 1).size, 0);
    assert_int_equal(kineto_averages_frame(f.averages, 0, UINT32_MAX).size, 0);
    done(&f);
}

static void functions_of_python_are_the_stack_where_there_is_no_text(void **state)
{
    (void)state;
    fixture f = make_fixture();
    add(&f, "main.py(1): <module>", f.thread, 0, 100, KINETO_KIND_PYTHON_FUNCTION, NULL);
    add(&f, "main.py(7): step", f.thread, 10, 90, KINETO_KIND_PYTHON_FUNCTION, NULL);
    add_op(&f, "op", 20, 30);
    group(&f,
          &(kineto_averages_options){.size = sizeof(kineto_averages_options), .group_by_stack = 9});
    assert_int_equal(kineto_averages_count(f.averages), 1); /* Python itself is not listed */
    assert_true(
        kb_string_equal(kineto_averages_frame(f.averages, 0, 0), kb_string("main.py(7): step")));
    assert_true(kb_string_equal(kineto_averages_frame(f.averages, 0, 1),
                                kb_string("main.py(1): <module>")));
    done(&f);
}

/* ---- numbers ------------------------------------------------------------------------------------- */

static void every_spelling_of_a_number_is_known(void **state)
{
    (void)state;
    static const char *const good[] = {"count",
                                       "flops",
                                       "cpu_time",
                                       "cpu_time_total",
                                       "self_cpu_time_total",
                                       "cuda_time",
                                       "xpu_time_total",
                                       "self_cuda_time_total",
                                       "self_privateuse1_time_total",
                                       "device_time_total",
                                       "cpu_memory_usage",
                                       "self_cpu_memory_usage",
                                       "cuda_memory_usage",
                                       "self_mtia_memory_usage",
                                       "self_device_memory_usage"};
    static const char *const bad[] = {"",
                                      "cpu",
                                      "self_count",
                                      "name",
                                      "cpu_time_total ",
                                      "cudacudacudacudacudacudacudacudacudacudacudacuda"};
    fixture f = make_fixture();
    double value;
    kineto_error err;
    add_op(&f, "op", 0, 5);
    group(&f, NULL);
    for (size_t i = 0; i < KB_COUNT(good); i++)
        assert_int_equal(kineto_averages_value(f.averages, 0, good[i], &value, NULL), KINETO_OK);
    for (size_t i = 0; i < KB_COUNT(bad); i++)
        assert_int_equal(kineto_averages_value(f.averages, 0, bad[i], &value, &err),
                         KINETO_E_ARGUMENT);
    assert_non_null(strstr(err.message, "cpu_time_total"));
    assert_int_equal(kineto_averages_value(f.averages, 0, "cpu_time", &value, NULL), KINETO_OK);
    assert_true(value == 5.0);
    assert_int_equal(kineto_averages_value(f.averages, 1, "cpu_time", &value, NULL),
                     KINETO_E_NOT_FOUND);
    kineto_table_options o = {.size = sizeof o, .sort_by = "nonsense"};
    char *text;
    assert_int_equal(kineto_averages_text(f.averages, &o, &text, NULL, &err), KINETO_E_ARGUMENT);
    assert_null(text);
    done(&f);
}

static void equal_rows_stay_in_order(void **state)
{
    (void)state;
    fixture f = make_fixture();
    for (int i = 0; i < 40; i++) {
        char name[8];
        snprintf(name, sizeof name, "f%02d", i);
        add_op(&f, name, i * 10, i * 10 + 5);
    }
    group(&f, NULL);
    char *text;
    kineto_table_options o = {.size = sizeof o, .sort_by = "count"};
    assert_int_equal(kineto_averages_text(f.averages, &o, &text, NULL, NULL), KINETO_OK);
    const char *at = text;
    for (int i = 0; i < 40; i++) {
        char name[8];
        snprintf(name, sizeof name, "f%02d", i);
        at = strstr(at, name);
        assert_non_null(at);
    }
    free(text);
    done(&f);
}

static void totals_add_all_groups_up(void **state)
{
    (void)state;
    fixture f = make_fixture();
    add_op(&f, "a", 0, 100);
    add_op(&f, "b", 10, 40);
    add_op(&f, "b", 50, 60);
    group(&f, NULL);
    kineto_average total;
    kineto_averages_total(f.averages, &total);
    assert_int_equal(total.count, 3);
    assert_int_equal(total.cpu_time_total_ns, 140000);
    assert_int_equal(total.self_cpu_time_total_ns, 100000);
    assert_true(kb_string_equal(total.name, kb_string("Total")));
    done(&f);
}

/* ---- CSV and JSON ---------------------------------------------------------------------------------- */

static void csv_and_json_hold_all_numbers(void **state)
{
    (void)state;
    fixture f = make_fixture();
    add_op(&f, "say \"hi\", now", 0, 10);
    group(&f, &(kineto_averages_options){.size = sizeof(kineto_averages_options),
                                         .each_event = true,
                                         .group_by_shape = true,
                                         .group_by_stack = 1});
    text_is(
        &f,
        &(kineto_table_options){.size = sizeof(kineto_table_options), .format = KINETO_TABLE_CSV},
        "name,device,type,count,cpu_time_total_ns,self_cpu_time_total_ns,row,track,parent,"
        "start_ns,end_ns,input_shapes,stack\n"
        "\"say \"\"hi\"\", now\",cpu,function,1,10000,10000,0,0,-1,0,10000,[],\"\"\n");
    text_is(
        &f,
        &(kineto_table_options){.size = sizeof(kineto_table_options), .format = KINETO_TABLE_JSON},
        "[\n{\"name\":\"say \\\"hi\\\", now\",\"device\":\"cpu\",\"type\":\"function\",\"count\""
        ":1,\"cpu_time_total_ns\":10000,\"self_cpu_time_total_ns\":10000,\"row\":0,\"track\":0,"
        "\"parent\":-1,\"start_ns\":0,\"end_ns\":10000,\"input_shapes\":\"[]\",\"stack\":[]}]\n");
    done(&f);
}

/* ---- stacks ------------------------------------------------------------------------------------------ */

static void stacks_are(fixture *f, const kineto_stacks_options *options, const char *expected)
{
    char directory[256], path[300], text[2000];
    uint64_t lines;
    kineto_error err = {.message = ""};
    assert_non_null(make_directory(directory, sizeof directory));
    snprintf(path, sizeof path, "%s/folded", directory);
    if (kineto_stacks_save(f->events, options, path, &lines, &err) != KINETO_OK)
        fail_msg("%s", err.message);
    text[read_whole(path, text, sizeof text)] = '\0';
    assert_string_equal(text, expected);
    unlink(path);
    rmdir(directory);
}

static void stacks_are_folded(void **state)
{
    (void)state;
    fixture f = make_fixture();
    put_text(&f, "Call stack", "in ner;main\tx;");
    add_op(&f, "op", 0, 10);
    put_text(&f, "Call stack", "in ner;main\tx;");
    add_op(&f, "other", 20, 25);
    add_op(&f, "without", 30, 35);
    group(&f, NULL);
    stacks_are(&f, NULL, "main_x;in_ner 10\nmain_x;in_ner 5\n");
    stacks_are(&f, &(kineto_stacks_options){.size = sizeof(kineto_stacks_options), .merge = true},
               "main_x;in_ner 15\n");
    stacks_are(&f,
               &(kineto_stacks_options){.size = sizeof(kineto_stacks_options), .functions = true},
               "main_x;in_ner;op 10\nmain_x;in_ner;other 5\nwithout 5\n");
    stacks_are(&f,
               &(kineto_stacks_options){.size = sizeof(kineto_stacks_options),
                                        .metric = "self_cuda_time_total"},
               "");
    kineto_error err;
    kineto_stacks_options o = {.size = sizeof o, .metric = "cpu_time_total"};
    assert_int_equal(kineto_stacks_save(f.events, &o, "-", NULL, &err), KINETO_E_ARGUMENT);
    assert_non_null(strstr(err.message, "self_cpu_time_total"));
    done(&f);
}

static void backward_has_the_stack_of_forward(void **state)
{
    (void)state;
    fixture f = make_fixture();
    kt_args_put_int(f.b, kt_string(f.b, kb_string("Sequence number")), 7);
    kt_args_put_int(f.b, kt_string(f.b, kb_string("Fwd thread id")), 0);
    put_text(&f, "Call stack", "model;");
    add_op(&f, "aten::mm", 0, 10);
    kt_args_put_int(f.b, kt_string(f.b, kb_string("Sequence number")), 7);
    kt_args_put_int(f.b, kt_string(f.b, kb_string("Fwd thread id")), 1);
    put_text(&f, "Call stack", "engine;");
    add_op(&f, "MmBackward0", 20, 40);
    put_text(&f, "Call stack", "engine;");
    add_op(&f, "aten::t", 25, 30);
    group(&f, NULL);
    stacks_are(&f, NULL, "model 10\nmodel 15\nmodel 5\n");
    done(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(columns_are_those_of_pytorch),
        cmocka_unit_test(options_shape_the_text),
        cmocka_unit_test(stack_and_flops_stand_below_their_headings),
        cmocka_unit_test(a_device_has_columns_and_a_line),
        cmocka_unit_test(nothing_makes_no_text),
        cmocka_unit_test(names_do_not_disturb_a_terminal),
        cmocka_unit_test(a_program_that_speaks_german_gets_the_same),
        cmocka_unit_test(shapes_are_grouped_as_pytorch_writes_them),
        cmocka_unit_test(broken_shapes_are_taken_as_they_are),
        cmocka_unit_test(stacks_are_grouped_by_their_innermost_frames),
        cmocka_unit_test(functions_of_python_are_the_stack_where_there_is_no_text),
        cmocka_unit_test(every_spelling_of_a_number_is_known),
        cmocka_unit_test(equal_rows_stay_in_order),
        cmocka_unit_test(totals_add_all_groups_up),
        cmocka_unit_test(csv_and_json_hold_all_numbers),
        cmocka_unit_test(stacks_are_folded),
        cmocka_unit_test(backward_has_the_stack_of_forward),
    };
    return RUN_TESTS(tests);
}
