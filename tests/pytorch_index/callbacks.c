/* The callbacks of PyTorch's index of its profiler, and the way of data through it. */
#include "unit/unit.h"

#include "base/base.h"

#include "profiler/profiling.h"

/* onFunctionEnter → what kineto_function_begin writes while a profiler runs: the name, a new id,
 * the sequence number, the inputs; the start is after all that. */
static void onFunctionEnter(void **state)
{
    (void)state;
    int64_t sizes[] = {2, 3};
    kineto_tensor t = {.sizes = sizes, .rank = 2, .dtype = KINETO_DTYPE_FLOAT};
    kineto_input in[] = {kineto_input_tensor(&t), kineto_input_int(5)};
    kineto_profiler_config c = config_of(KINETO_STATE_KINETO);
    c.report_input_shapes = true;
    enable_with(&c, ONLY(CPU));
    kineto_function_info info;
    kineto_function_info_init(&info);
    info.inputs = in;
    info.input_count = 2;
    info.sequence_number = 9;
    run_op_with("aten::add", &info);
    sizes[0] = 1000; /* what was recorded is a copy */
    kineto_profiler_result *r = disabled();
    kineto_event e = event_named(r, "aten::add");
    assert_text(kineto_event_shapes(&e), "[[2,3],[]]");
    assert_text(kineto_event_concrete_inputs(&e), "[\"\",\"5\"]");
    assert_int_equal(kineto_event_sequence_nr(&e), 9);
    assert_true(kineto_event_external_id(&e) != 0);
    kineto_profiler_result_release(r);
}

/* onFunctionExit → kineto_function_end: end, thread of the end; once. */
static void *end_it(void *f)
{
    assert_int_equal(kineto_profiler_enable_in_child_thread(NULL), KINETO_OK);
    run_op("aten::elsewhere");
    kineto_function_end(f);
    return NULL;
}

static void onFunctionExit(void **state)
{
    (void)state;
    kineto_function f, open, hopping;
    kineto_function_info async;
    kineto_function_info_init(&async);
    async.is_async = true;
    KINETO_OPERATOR(site, "aten::op");
    KINETO_OPERATOR(site_open, "aten::open");
    KINETO_OPERATOR(site_async, "aten::async");
    enable_plain();
    kineto_function_begin_info(&hopping, &site_async, &async);
    kineto_function_begin(&open, &site_open, NULL, 0);
    kineto_function_begin(&f, &site, NULL, 0);
    kineto_function_end(&f);
    kineto_function_end(&f);
    on_thread(end_it, &hopping);
    kineto_profiler_result *r = disabled();
    kineto_function_end(&open); /* too late, harmless */
    kineto_event e = event_named(r, "aten::op"), o = event_named(r, "aten::open");
    kineto_event a = event_named(r, "aten::async");
    assert_true(kineto_event_end_ns(&e) >= kineto_event_start_ns(&e));
    assert_true(kineto_event_end_ns(&o) >= kineto_event_end_ns(&e));
    assert_true(o.activity.flags & KINETO_ACTIVITY_OPEN_END);
    assert_false(e.activity.flags & KINETO_ACTIVITY_OPEN_END);
    assert_true(kineto_event_is_async(&a));
    assert_int_equal(kineto_event_start_thread_id(&a), kineto_function_thread_id());
    assert_int_not_equal(kineto_event_end_thread_id(&a), 0);
    assert_int_not_equal(kineto_event_end_thread_id(&a), kineto_event_start_thread_id(&a));
    kineto_profiler_result_release(r);
}

/* pushProfilingCallbacks → kineto_function_add_local and _add_global, which a profiler does by
 * itself: they see every operator, each exit has the context of its enter. */
typedef struct seen {
    int enters, exits;
    uint32_t inputs;
    char last[32];
} seen;

static void *enter(const kineto_function_view *f, void *user)
{
    seen *s = user;
    s->enters++;
    s->inputs = f->input_count;
    (void)snprintf(s->last, sizeof s->last, "%s", f->name);
    return (void *)(uintptr_t)s->enters;
}
static void leave(const kineto_function_view *f, void *context, void *user)
{
    seen *s = user;
    (void)f;
    s->exits++;
    assert_ptr_equal(context, (void *)(uintptr_t)s->enters);
}
static void *other_op(void *unused)
{
    run_op("aten::other");
    return unused;
}

static void pushProfilingCallbacks(void **state)
{
    (void)state;
    seen global = {0}, local = {0};
    kineto_callback handles[2];
    kineto_function_callback c;
    kineto_function_callback_init(&c);
    c.enter = enter;
    c.exit = leave;
    c.user = &global;
    assert_int_equal(kineto_function_add_global(&c, &handles[0], NULL), KINETO_OK);
    c.user = &local;
    c.needs_inputs = true;
    assert_int_equal(kineto_function_add_local(&c, &handles[1], NULL), KINETO_OK);
    enable_plain(); /* in addition */
    kineto_input in = kineto_input_int(1);
    kineto_function_info info;
    kineto_function_info_init(&info);
    info.inputs = &in;
    info.input_count = 1;
    run_op_with("aten::relu", &info);
    on_thread(other_op, NULL);
    kineto_profiler_result *r = disabled();
    run_op("aten::after");
    assert_int_equal(global.enters, 3);
    assert_int_equal(global.exits, 3);
    assert_int_equal(local.enters, 2);
    assert_int_equal(local.exits, 2);
    assert_string_equal(local.last, "aten::after");
    assert_int_equal(kineto_profiler_result_event_count(r), 1);
    assert_int_equal(kineto_function_remove(handles[0]), KINETO_OK);
    assert_int_equal(kineto_function_remove(handles[1]), KINETO_OK);
    assert_int_equal(kineto_function_remove(handles[1]), KINETO_E_NOT_FOUND);
    run_op("aten::nobody");
    assert_int_equal(global.enters + local.enters, 5);
    kineto_profiler_result_release(r);
}

/* The way of data: config → enable → collect → disable → events → tree → save → Chrome JSON. */
static void data_goes_from_the_config_to_the_file(void **state)
{
    (void)state;
    kineto_profiler_config c = config_of(KINETO_STATE_KINETO), is = c;
    c.report_input_shapes = true;
    enable_with(&c, ONLY(CPU));
    assert_true(kineto_profiler_config_get(&is));
    assert_true(is.report_input_shapes && is.state == KINETO_STATE_KINETO);
    kineto_function outer, inner;
    KINETO_OPERATOR(linear, "aten::linear");
    KINETO_OPERATOR(addmm, "aten::addmm");
    kineto_function_begin(&outer, &linear, NULL, 0);
    for (int i = 0; i < 2; i++) {
        kineto_function_begin(&inner, &addmm, NULL, 0);
        kineto_function_end(&inner);
    }
    kineto_function_end(&outer);
    kineto_profiler_result *r = disabled();

    assert_int_equal(kineto_profiler_result_event_count(r), 3);
    assert_int_equal(kineto_profiler_result_tree_root_count(r), 1);
    kineto_event root = event_named(r, "aten::linear"), child = event_nth(r, "aten::addmm", 0);
    assert_int_equal(kineto_profiler_result_tree_root(r, 0), root.row);
    assert_int_equal(kineto_profiler_result_tree_first_child(r, root.row), child.row);
    assert_int_equal(kineto_profiler_result_tree_parent(r, child.row), root.row);
    kineto_row next = kineto_profiler_result_tree_next_sibling(r, child.row);
    assert_int_equal(next, event_nth(r, "aten::addmm", 1).row);
    assert_int_equal(kineto_profiler_result_tree_next_sibling(r, next), KINETO_NO_ROW);

    char folder[256], path[300], text[16384];
    assert_non_null(make_directory(folder, sizeof folder));
    (void)snprintf(path, sizeof path, "%s/trace.json", folder);
    assert_int_equal(kineto_profiler_result_save(r, path, NULL), KINETO_OK);
    assert_true(read_whole(path, text, sizeof text) > 0);
    assert_non_null(strstr(text, "\"traceEvents\""));
    assert_non_null(strstr(text, "\"aten::linear\""));
    assert_non_null(strstr(text, "\"record_shapes\""));
    kineto_trace *again = NULL; /* and back */
    assert_int_equal(kineto_trace_open(path, &again, NULL), KINETO_OK);
    kineto_event read;
    assert_true(kineto_event_of(again, find_only(again, "aten::linear").row, &read));
    assert_int_equal(kineto_event_duration_ns(&read), kineto_event_duration_ns(&root));
    assert_int_equal(kineto_event_external_id(&read), kineto_event_external_id(&root));
    kineto_trace_release(again);
    kineto_profiler_result_release(r);
    (void)unlink(path);
    (void)rmdir(folder);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        ROW(onFunctionEnter),
        ROW(onFunctionExit),
        ROW(pushProfilingCallbacks),
        ROW(data_goes_from_the_config_to_the_file),
    };
    return RUN_TESTS(tests);
}
