/* The classes of PyTorch's index of its profiler, row by row: what ours do instead. KinetoEvent is
 * in events.c. */
#include "unit/unit.h"

#include "base/base.h"

#include "profiler/profiling.h"

#include "helpers/plugins.h"

/* KinetoThreadLocalState → a kineto_profiler of the thread: each thread may have one, with a config
 * of its own, and sees its own operators only. */
static void *profile_alone(void *name)
{
    kineto_profiler_config c = config_of(KINETO_STATE_KINETO), is = c;
    c.report_input_shapes = true;
    enable_with(&c, ONLY(CPU));
    run_op(name);
    assert_true(kineto_profiler_config_get(&is));
    assert_true(is.report_input_shapes);
    return disabled();
}

static void KinetoThreadLocalState(void **state)
{
    (void)state;
    kineto_profiler_config is = config_of(KINETO_STATE_DISABLED);
    assert_false(kineto_profiler_config_get(&is));
    enable_plain();
    run_op("mine");
    kineto_profiler_result *theirs = on_thread(profile_alone, (char[]){"theirs"});
    assert_true(kineto_profiler_config_get(&is));
    assert_false(is.report_input_shapes);
    kineto_profiler_result *mine = disabled();
    assert_int_equal(kineto_profiler_result_event_count(mine), 1);
    assert_int_equal(kineto_profiler_result_event_count(theirs), 1);
    (void)event_named(mine, "mine"), (void)event_named(theirs, "theirs");
    kineto_profiler_result_release(mine);
    kineto_profiler_result_release(theirs);
}

/* ProfilerStateBase → who is meant without a handle: the one of all threads first, then one's own.
 */
static void ProfilerStateBase(void **state)
{
    (void)state;
    kineto_profiler_config all = config_of(KINETO_STATE_KINETO), is = all;
    all.experimental.profile_all_threads = true;
    all.trace_id = "all";
    enable_plain();
    run_op("early");
    enable_with(&all, ONLY(CPU)); /* in addition to it, not instead */
    run_op("both");
    assert_true(kineto_profiler_config_get(&is));
    assert_string_equal(is.trace_id, "all");
    kineto_profiler_result *first = disabled(), *second;
    assert_true(kineto_profiler_config_get(&is));
    assert_null(is.trace_id);
    run_op("late");
    second = disabled();
    assert_int_equal(kineto_profiler_result_event_count(first), 1);
    (void)event_named(first, "both");
    assert_int_equal(kineto_profiler_result_event_count(second), 3);
    kineto_profiler_result_release(first);
    kineto_profiler_result_release(second);
}

/* ---- ProfilerConfig → kineto_profiler_config: every field --------------------------------------- */

static int64_t sizes[] = {2, 3}, strides[] = {1, 2};
static const kineto_tensor tensor = {.sizes = sizes,
                                     .strides = strides,
                                     .rank = 2,
                                     .dtype = KINETO_DTYPE_FLOAT,
                                     .id = 7,
                                     .storage_id = 0x1000};

/* One of everything that a config may be about. */
static void work(void)
{
    kineto_input in[] = {kineto_input_tensor(&tensor), kineto_input_int(4)};
    kineto_function_info info;
    kineto_function_info_init(&info);
    info.inputs = in;
    info.input_count = 2;
    run_op_with("aten::mul", &info);
    kineto_function_info_init(&info);
    info.stack = "leaf;root;";
    info.modules = "Net.Linear.";
    run_op_with("aten::with_texts", &info);
    kineto_memory_event m = {.size = sizeof m, .address = 0x40, .bytes = 64, .device_index = -1};
    kineto_memory_report(&m);
}

static kineto_profiler_result *worked(const kineto_profiler_config *c)
{
    enable_with(c, ONLY(CPU));
    work();
    return disabled();
}

static bool has_header(const kineto_trace *t, const char *key)
{
    kineto_string k, v;
    for (uint32_t i = 0; i < kineto_trace_metadata_count(t); i++) {
        kineto_trace_metadata(t, i, &k, &v);
        if (text_is(k, key))
            return true;
    }
    return false;
}

static void ProfilerConfig_by_default_asks_for_nothing(void **state)
{
    (void)state;
    kineto_profiler_config c = config_of(KINETO_STATE_KINETO);
    assert_int_equal(c.state, KINETO_STATE_KINETO);
    assert_false(kineto_profiler_config_disabled(&c) || kineto_profiler_config_global(&c) ||
                 kineto_profiler_config_push_global_callbacks(&c));
    kineto_profiler_result *r = worked(&c);
    kineto_event e = event_named(r, "aten::mul"), texts = event_named(r, "aten::with_texts");
    assert_false(kineto_event_has_shapes(&e) || kineto_event_has_types(&e) ||
                 kineto_event_has_concrete_inputs(&e));
    assert_false(kineto_event_has_stack(&texts) || kineto_event_has_module_hierarchy(&texts));
    assert_int_equal(events_named(r, "[memory]"), 0);
    assert_false(has_header(trace_of(r), "record_shapes") || has_header(trace_of(r), "with_stack"));
    kineto_profiler_result_release(r);
}

static void ProfilerConfig_report_input_shapes(void **state)
{
    (void)state;
    kineto_profiler_config c = config_of(KINETO_STATE_KINETO);
    c.report_input_shapes = true;
    kineto_profiler_result *r = worked(&c);
    kineto_event e = event_named(r, "aten::mul");
    assert_text(kineto_event_shapes(&e), "[[2,3],[]]");
    assert_text(kineto_event_strides(&e), "[[1,2],[]]");
    assert_text(kineto_event_dtypes(&e), "[\"float\",\"Scalar\"]");
    assert_text(kineto_event_concrete_inputs(&e), "[\"\",\"4\"]");
    assert_true(has_header(trace_of(r), "record_shapes"));
    kineto_profiler_result_release(r);
}

static void ProfilerConfig_profile_memory(void **state)
{
    (void)state;
    kineto_profiler_config c = config_of(KINETO_STATE_KINETO);
    c.profile_memory = true;
    kineto_profiler_result *r = worked(&c);
    kineto_event e = event_named(r, "[memory]");
    assert_int_equal(kineto_event_nbytes(&e), 64);
    assert_true(has_header(trace_of(r), "profile_memory"));
    kineto_profiler_result_release(r);
}

static void ProfilerConfig_with_stack(void **state)
{
    (void)state;
    kineto_profiler_config c = config_of(KINETO_STATE_KINETO);
    c.with_stack = true;
    kineto_profiler_result *r = worked(&c);
    kineto_event e = event_named(r, "aten::with_texts"), native = event_named(r, "aten::mul");
    assert_text(kineto_event_stack(&e), "leaf;root;");
    assert_true(kineto_event_has_stack(&native)); /* of the machine */
    assert_true(has_header(trace_of(r), "with_stack"));
    kineto_profiler_result_release(r);
}

static void ProfilerConfig_with_flops(void **state)
{
    (void)state;
    kineto_profiler_config c = config_of(KINETO_STATE_KINETO);
    c.with_flops = true;
    kineto_profiler_result *r = worked(&c);
    kineto_event e = event_named(r, "aten::mul");
    assert_int_equal(kineto_event_flops(&e), 6);
    assert_true(has_header(trace_of(r), "with_flops"));
    kineto_profiler_result_release(r);
}

static void ProfilerConfig_with_modules(void **state)
{
    (void)state;
    kineto_profiler_config c = config_of(KINETO_STATE_KINETO);
    c.with_modules = true;
    kineto_profiler_result *r = worked(&c);
    kineto_event e = event_named(r, "aten::with_texts");
    assert_text(kineto_event_module_hierarchy(&e), "Net.Linear.");
    assert_true(has_header(trace_of(r), "with_modules"));
    kineto_profiler_result_release(r);
}

static void ProfilerConfig_trace_id_reaches_plug_ins(void **state)
{
    (void)state;
    fake *f = enter(0, "device");
    char id[] = "trace-17";
    kineto_profiler_config c = config_of(KINETO_STATE_KINETO);
    c.trace_id = id;
    enable_with(&c, ONLY(CPU) | ONLY(CUDA));
    memset(id, 'x', sizeof id - 1); /* borrowed no longer */
    kineto_profiler_result_release(disabled());
    assert_non_null(strstr(f->config, "REQUEST_TRACE_ID=trace-17\n"));
    assert_non_null(strstr(f->config, "REQUEST_GROUP_TRACE_ID=trace-17\n"));
    leave(0);
}

static void ProfilerConfig_buffer_and_retention(void **state)
{
    (void)state;
    kineto_profiler_config c = config_of(KINETO_STATE_KINETO);
    for (int newest = 0; newest < 2; newest++) {
        c.buffer_bytes = (size_t)1 << 20;
        c.retention = newest ? KINETO_RETAIN_NEWEST : KINETO_RETAIN_OLDEST;
        enable_with(&c, ONLY(CPU));
        run_op("first");
        for (int i = 0; i < 100000; i++)
            run_op("middle");
        run_op("last");
        kineto_profiler_result *r = disabled();
        assert_int_equal(events_named(r, "first"), newest ? 0 : 1);
        assert_int_equal(events_named(r, "last"), newest ? 1 : 0);
        assert_true(kineto_trace_lost(kineto_profiler_result_trace(r)) > 0);
        kineto_profiler_result_release(r);
    }
}

static void ProfilerConfig_record_tensor_ids(void **state)
{
    (void)state;
    kineto_profiler_config c = config_of(KINETO_STATE_KINETO);
    kineto_arg arg;
    for (int on = 0; on < 2; on++) {
        c.report_input_shapes = true;
        c.record_tensor_ids = on;
        kineto_profiler_result *r = worked(&c);
        kineto_event e = event_named(r, "aten::mul");
        assert_int_equal(kineto_event_extra_meta(&e, "Input Tensors", &arg), on);
        kineto_profiler_result_release(r);
    }
}

/* toIValue, fromIValue. */
static void ProfilerConfig_as_values_and_back(void **state)
{
    (void)state;
    int64_t values[KINETO_CONFIG_VALUES];
    kineto_profiler_config c = config_of(KINETO_STATE_KINETO), back = c;
    c.profile_memory = c.with_stack = true;
    kineto_profiler_config_to_values(&c, values);
    assert_int_equal(values[0], 6);
    assert_int_equal(values[1], 0);
    assert_int_equal(values[2], 1);
    assert_int_equal(kineto_profiler_config_from_values(values, 3, &back, NULL), KINETO_OK);
    assert_true(back.state == KINETO_STATE_KINETO && back.profile_memory);
    assert_false(back.report_input_shapes || back.with_stack);
    expect(KINETO_E_ARGUMENT, "3 values",
           kineto_profiler_config_from_values(values, 2, &back, &err));
    values[0] = -1;
    expect(KINETO_E_ARGUMENT, "unknown state",
           kineto_profiler_config_from_values(values, 3, &back, &err));
    values[0] = INT64_C(1) << 32 | 6;
    expect(KINETO_E_ARGUMENT, "unknown state",
           kineto_profiler_config_from_values(values, 3, &back, &err));
}

/* ---- ExperimentalConfig → kineto_experimental_config: every field ------------------------------ */

static const char *const metrics[] = {"sm__cycles", "dram__bytes"};

/* What a config requests from and passes to a plug-in. */
static fake *asked(const kineto_profiler_config *c)
{
    fake *f = make_fake(0, "device", LISTENS);
    static const int32_t types[] = {TYPE(CONCURRENT_KERNEL), TYPE(CUDA_SYNC),
                                    TYPE(CUDA_PROFILER_RANGE)};
    memcpy(f->types, types, sizeof types);
    memset(f->types + COUNT_OF(types), 0, sizeof f->types - sizeof types);
    assert_int_equal(register_interface(&interfaces[0]), 0);
    enable_with(c, ONLY(CPU) | ONLY(CUDA));
    run_op("aten::mm");
    kineto_profiler_result_release(disabled());
    leave(0);
    return f;
}

static bool was_asked_for(const fake *f, int32_t type)
{
    for (size_t i = 0; i < f->enabled_count; i++)
        if (f->enabled[i] == type)
            return true;
    return false;
}

static void ExperimentalConfig_profiler_metrics(void **state)
{
    (void)state;
    kineto_profiler_config c = config_of(KINETO_STATE_KINETO);
    assert_false(kineto_experimental_config_is_set(&c.experimental));
    assert_false(was_asked_for(asked(&c), TYPE(CUDA_PROFILER_RANGE)));
    c.experimental.profiler_metrics = metrics;
    c.experimental.profiler_metric_count = 2;
    c.trace_id = "kept"; /* PyTorch loses it here */
    assert_true(kineto_experimental_config_is_set(&c.experimental));
    fake *f = asked(&c);
    assert_true(was_asked_for(f, TYPE(CUDA_PROFILER_RANGE)));
    assert_non_null(strstr(f->config, "CUPTI_PROFILER_METRICS=sm__cycles,dram__bytes\n"));
    assert_non_null(strstr(f->config, "REQUEST_TRACE_ID=kept\n"));
    c.experimental.profiler_metrics = NULL;
    expect(KINETO_E_ARGUMENT, "list of names is NULL",
           kineto_profiler_enable(&c, ONLY(CPU), 0, &err));
}

static void ExperimentalConfig_profiler_measure_per_kernel(void **state)
{
    (void)state;
    kineto_profiler_config c = config_of(KINETO_STATE_KINETO);
    c.experimental.profiler_metrics = metrics;
    c.experimental.profiler_metric_count = 1;
    assert_non_null(strstr(asked(&c)->config, "CUPTI_PROFILER_ENABLE_PER_KERNEL=false\n"));
    c.experimental.profiler_measure_per_kernel = true;
    assert_non_null(strstr(asked(&c)->config, "CUPTI_PROFILER_ENABLE_PER_KERNEL=true\n"));
}

/* Some machines count nothing of the processor; software counts page faults everywhere. */
static void ExperimentalConfig_performance_events(void **state)
{
    (void)state;
    static const char *const events[] = {"page-faults"}, *const bad[] = {"no-such-event"};
    kineto_profiler_config c = config_of(KINETO_STATE_KINETO);
    kineto_string name;
    uint64_t value;
    c.experimental.performance_events = bad;
    c.experimental.performance_event_count = 1;
    expect(KINETO_E_ARGUMENT, "no-such-event", kineto_profiler_enable(&c, ONLY(CPU), 0, &err));
    expect(KINETO_E_ARGUMENT, "without CPU activities",
           kineto_profiler_enable(&c, ONLY(CUDA), 0, &err));
    c.experimental.performance_events = events;
    enable_with(&c, ONLY(CPU));
    run_op("aten::mm");
    kineto_profiler_result *r = disabled();
    kineto_event e = event_named(r, "aten::mm");
    if (kineto_event_perf_counter(&e, 0, &name, &value)) {
        assert_int_equal(strncmp(name.data, "page-faults", 11), 0);
        assert_true(value < 1000000);
        assert_false(kineto_event_perf_counter(&e, 1, &name, &value));
    } else { /* said, not silent */
        assert_true(ledger(trace_of(r), "counters", "not to be had here") > 0);
    }
    kineto_profiler_result_release(r);
}

static void ExperimentalConfig_enable_cuda_sync_events(void **state)
{
    (void)state;
    kineto_profiler_config c = config_of(KINETO_STATE_KINETO);
    assert_false(was_asked_for(asked(&c), TYPE(CUDA_SYNC)));
    c.experimental.enable_cuda_sync_events = true;
    assert_true(was_asked_for(asked(&c), TYPE(CUDA_SYNC)));
    c.experimental.enable_cuda_sync_events = false;
    kineto_profiler_set_cuda_sync(true);
    bool asked_for = was_asked_for(asked(&c), TYPE(CUDA_SYNC));
    kineto_profiler_set_cuda_sync(false);
    assert_true(asked_for);
}

static void ExperimentalConfig_disable_external_correlation(void **state)
{
    (void)state;
    kineto_profiler_config c = config_of(KINETO_STATE_KINETO);
    assert_int_equal(asked(&c)->pushes, 1);
    assert_int_equal(fakes[0].pops, 1);
    c.experimental.disable_external_correlation = true;
    assert_int_equal(asked(&c)->pushes, 0);
    assert_int_equal(fakes[0].pops, 0);
}

static void *one_op(void *name)
{
    run_op(name);
    return NULL;
}

static void ExperimentalConfig_profile_all_threads(void **state)
{
    (void)state;
    kineto_profiler_config c = config_of(KINETO_STATE_KINETO);
    for (int on = 0; on < 2; on++) {
        c.experimental.profile_all_threads = on;
        assert_int_equal(kineto_profiler_config_push_global_callbacks(&c), on);
        enable_with(&c, ONLY(CPU));
        on_thread(one_op, (char[]){"elsewhere"});
        kineto_profiler_result *r = disabled();
        assert_int_equal(events_named(r, "elsewhere"), on);
        kineto_profiler_result_release(r);
    }
}

static void ExperimentalConfig_capture_overload_names(void **state)
{
    (void)state;
    kineto_profiler_config c = config_of(KINETO_STATE_KINETO);
    kineto_site *site = kineto_function_site("aten::add", "Tensor", KINETO_SCOPE_FUNCTION);
    for (int on = 0; on < 2; on++) {
        kineto_function f;
        c.experimental.capture_overload_names = on;
        enable_with(&c, ONLY(CPU));
        kineto_function_begin(&f, site, NULL, 0);
        kineto_function_end(&f);
        kineto_profiler_result *r = disabled();
        kineto_event e = event_named(r, on ? "aten::add.Tensor" : "aten::add");
        assert_text(kineto_event_name(&e), "aten::add");
        assert_text(kineto_event_overload_name(&e), on ? "Tensor" : "");
        kineto_profiler_result_release(r);
    }
}

static void ExperimentalConfig_record_python_gc_info(void **state)
{
    (void)state;
    kineto_profiler_config c = config_of(KINETO_STATE_KINETO);
    for (int on = 0; on < 2; on++) {
        c.experimental.record_python_gc_info = on;
        enable_with(&c, ONLY(CPU));
        kineto_profiler_report_gc(true);
        kineto_profiler_report_gc(false);
        kineto_profiler_result *r = disabled();
        assert_int_equal(events_named(r, "Python GC"), on);
        kineto_profiler_result_release(r);
    }
    kineto_profiler_report_gc(false); /* without a begin */
}

static void ExperimentalConfig_expose_kineto_event_metadata(void **state)
{
    (void)state;
    kineto_profiler_config c = config_of(KINETO_STATE_KINETO);
    c.report_input_shapes = true;
    for (int on = 0; on < 2; on++) {
        c.experimental.expose_kineto_event_metadata = on;
        kineto_profiler_result *r = worked(&c);
        kineto_event e = event_named(r, "aten::mul");
        char *json = kineto_event_metadata_json(&e);
        assert_non_null(json);
        assert_int_equal(json[0], on ? '{' : '\0');
        assert_true(!on || strstr(json, "\"Input Dims\""));
        free(json);
        kineto_profiler_result_release(r);
    }
}

static void ExperimentalConfig_custom_profiler_config(void **state)
{
    (void)state;
    kineto_profiler_config c = config_of(KINETO_STATE_KINETO);
    static char large[2000];
    c.experimental.custom_profiler_config = "disable_runtime_events";
    assert_non_null(strstr(asked(&c)->config, "CUSTOM_CONFIG=disable_runtime_events\n"));
    memset(large, 'x', sizeof large - 1);
    c.experimental.custom_profiler_config = large;
    expect(KINETO_E_ARGUMENT, "bytes", kineto_profiler_enable(&c, ONLY(CPU), 0, &err));
}

static void ExperimentalConfig_adjust_timestamps_is_refused(void **state)
{
    (void)state;
    kineto_profiler_config c = config_of(KINETO_STATE_KINETO);
    c.experimental.adjust_timestamps = true;
    expect(KINETO_E_UNSUPPORTED, "Vulkan", kineto_profiler_enable(&c, ONLY(CPU), 0, &err));
}

static void ExperimentalConfig_verbose(void **state)
{
    (void)state;
    kineto_profiler_config c = config_of(KINETO_STATE_KINETO);
    kineto_arg arg;
    c.with_stack = true;
    for (int on = 0; on < 2; on++) {
        c.experimental.verbose = on;
        kineto_profiler_result *r = worked(&c);
        kineto_event e = event_named(r, "aten::with_texts");
        assert_text(kineto_event_stack(&e), "leaf;root;");
        assert_int_equal(kineto_event_extra_meta(&e, "Native stack", &arg), on);
        assert_false(kineto_event_has_kwinputs(&e));
        kineto_profiler_result_release(r);
    }
}

static void ExperimentalConfig_adjust_profiler_step(void **state)
{
    (void)state;
    kineto_profiler_config c = config_of(KINETO_STATE_KINETO);
    KINETO_SITE(python, KINETO_KIND_PYTHON_FUNCTION, "train.py(7): loop");
    for (int on = 0; on < 2; on++) {
        c.experimental.adjust_profiler_step = on;
        enable_with(&c, ONLY(CPU));
        kineto_range outer = kineto_range_begin(&python);
        usleep(1000);
        run_scoped("ProfilerStep#3", KINETO_SCOPE_USER_SCOPE);
        kineto_range_end(outer);
        kineto_profiler_result *r = disabled();
        kineto_event p = event_named(r, "train.py(7): loop"), s = event_named(r, "ProfilerStep#3");
        int64_t late_ns = kineto_event_start_ns(&s) - kineto_event_start_ns(&p);
        assert_int_equal(late_ns <= 1, on);
        assert_int_equal(kineto_profiler_result_tree_parent(r, s.row), p.row);
        (void)trace_of(r);
        kineto_profiler_result_release(r);
    }
}

static void ExperimentalConfig_trace_only(void **state)
{
    (void)state;
    kineto_profiler_config c = config_of(KINETO_STATE_KINETO);
    c.experimental.trace_only = true;
    kineto_profiler_result *r = worked(&c);
    kineto_event e;
    assert_int_equal(kineto_profiler_result_event_count(r), 0);
    assert_false(kineto_profiler_result_event(r, 0, &e));
    assert_int_equal(kineto_profiler_result_tree_root_count(r), 0);
    assert_int_equal(kineto_trace_count(trace_of(r)), 2);
    kineto_profiler_result_release(r);
}

/* ---- results ------------------------------------------------------------------------------------ */

/* ProfilerResult → kineto_profiler_result: events by their starts, the tree, when it began; any
 * number of owners; empty where nothing was recorded. */
static void ProfilerResult(void **state)
{
    (void)state;
    kineto_function outer, inner;
    KINETO_OPERATOR(a, "aten::a");
    KINETO_OPERATOR(b, "aten::b");
    int64_t before = now_ns();
    enable_plain();
    int64_t after = now_ns();
    kineto_function_begin(&outer, &a, NULL, 0);
    kineto_function_begin(&inner, &b, NULL, 0);
    kineto_function_end(&inner);
    kineto_function_end(&outer);
    run_op("aten::c");
    kineto_profiler_result *r = disabled();
    assert_in_range(kineto_profiler_result_start_ns(r), before - 1000000, after + 1000000);
    static const char *const order[] = {"aten::a", "aten::b", "aten::c"};
    assert_int_equal(kineto_profiler_result_event_count(r), 3);
    kineto_event e;
    int64_t last = kineto_profiler_result_start_ns(r);
    for (uint64_t i = 0; i < 3; i++) {
        assert_true(kineto_profiler_result_event(r, i, &e));
        assert_text(e.activity.name, order[i]);
        assert_true(kineto_event_start_ns(&e) >= last);
        last = kineto_event_start_ns(&e);
    }
    assert_false(kineto_profiler_result_event(r, 3, &e));
    assert_int_equal(kineto_profiler_result_tree_root_count(r), 2);
    assert_int_equal(kineto_profiler_result_tree_root(r, 2), KINETO_NO_ROW);
    kineto_profiler_result *second = kineto_profiler_result_retain(r);
    kineto_profiler_result_release(r);
    assert_int_equal(kineto_profiler_result_event_count(second), 3);
    kineto_profiler_result_release(second);
    kineto_profiler_result_release(NULL);
    assert_int_equal(kineto_profiler_result_event_count(NULL), 0);
    assert_int_equal(kineto_profiler_result_start_ns(NULL), 0);
    assert_int_equal(kineto_profiler_result_tree_root_count(NULL), 0);
}

static void same_bytes(const char *one, const char *other)
{
    static char a[1 << 16], b[1 << 16];
    size_t n = read_whole(one, a, sizeof a), m = read_whole(other, b, sizeof b);
    assert_true(n > 0 && n < sizeof a - 1);
    assert_int_equal(n, m);
    assert_memory_equal(a, b, n);
    (void)unlink(one);
    (void)unlink(other);
}

/* ActivityTraceWrapper → kineto_profiler_result_save, kineto_profiler_result_trace: saved as often as one likes, with
 * the same bytes; PyTorch's can be saved once. */
static void ActivityTraceWrapper(void **state)
{
    (void)state;
    static const char *const extensions[] = {"json", "json.gz", "pftrace"};
    char folder[256], one[300], other[300];
    assert_non_null(make_directory(folder, sizeof folder));
    kineto_profiler_config c = config_of(KINETO_STATE_KINETO);
    c.report_input_shapes = c.profile_memory = true;
    kineto_profiler_result *r = worked(&c);
    for (size_t i = 0; i < COUNT_OF(extensions); i++) {
        (void)snprintf(one, sizeof one, "%s/one.%s", folder, extensions[i]);
        (void)snprintf(other, sizeof other, "%s/other.%s", folder, extensions[i]);
        assert_int_equal(kineto_profiler_result_save(r, one, NULL), KINETO_OK);
        assert_int_equal(kineto_profiler_result_event_count(r), 3); /* still there */
        assert_int_equal(rename(one, other), 0);           /* its name is in the file */
        assert_int_equal(kineto_profiler_result_save(r, one, NULL), KINETO_OK);
        same_bytes(one, other);
    }
    (void)rmdir(folder);
    expect(KINETO_E_UNSUPPORTED, "", kineto_profiler_result_save(r, "/tmp/trace.nothing", &err));
    expect(KINETO_E_NOT_FOUND, "/nowhere", kineto_profiler_result_save(r, "/nowhere/t.json", &err));
    kineto_profiler_result_release(r);
    c = config_of(KINETO_STATE_KINETO_ONDEMAND);
    enable_with(&c, ONLY(CPU));
    r = disabled();
    expect(KINETO_E_STATE, "Missing trace", kineto_profiler_result_save(r, "/tmp/t.json", &err));
    kineto_profiler_result_release(r);
}

/* RecordQueue → the pool: operators of many threads all arrive, once, each thread's in its order.
 */
enum { THREADS = 6, PER_THREAD = 5000 };
static void *numbered_ops(void *which)
{
    assert_int_equal(kineto_profiler_enable_in_child_thread(NULL), KINETO_OK);
    char name[24];
    (void)snprintf(name, sizeof name, "queue %d", (int)(intptr_t)which);
    kineto_site *site = kineto_function_site(name, NULL, KINETO_SCOPE_FUNCTION);
    for (int64_t i = 0; i < PER_THREAD; i++) {
        kineto_function f;
        kineto_function_info info;
        kineto_function_info_init(&info);
        info.sequence_number = i;
        kineto_function_begin_info(&f, site, &info);
        kineto_function_end(&f);
    }
    return NULL;
}

static void RecordQueue(void **state)
{
    (void)state;
    pthread_t threads[THREADS];
    kineto_profiler_config c = config_of(KINETO_STATE_KINETO);
    c.buffer_bytes = (size_t)32 << 20;
    enable_with(&c, ONLY(CPU));
    for (intptr_t i = 0; i < THREADS; i++)
        threads[i] = start_thread(numbered_ops, (void *)i);
    for (int i = 0; i < THREADS; i++)
        assert_int_equal(pthread_join(threads[i], NULL), 0);
    kineto_profiler_result *r = disabled();
    assert_nothing_lost(trace_of(r));
    assert_int_equal(kineto_profiler_result_event_count(r), THREADS * PER_THREAD);
    int64_t next[THREADS] = {0};
    for (uint64_t i = 0; i < THREADS * PER_THREAD; i++) {
        kineto_event e;
        assert_true(kineto_profiler_result_event(r, i, &e));
        int which = e.activity.name.data[6] - '0';
        assert_int_equal(kineto_event_sequence_nr(&e), next[which]);
        next[which]++;
    }
    kineto_profiler_result_release(r);
}

/* TraceWrapper → the kineto_trace itself, which grows in no other place: it begins with the window,
 * what is in it has name, kind, process, thread, id and times. */
static void TraceWrapper(void **state)
{
    (void)state;
    enable_plain();
    uint64_t id = run_op("aten::mm");
    kineto_profiler_result *r = disabled();
    const kineto_trace *t = trace_of(r);
    int64_t start, end;
    kineto_trace_window(t, &start, &end);
    assert_int_equal(start, kineto_profiler_result_start_ns(r));
    kineto_activity a = find_only(t, "aten::mm");
    assert_true(start <= a.start_ns && a.start_ns <= a.end_ns && a.end_ns <= end);
    assert_int_equal(a.kind, KINETO_KIND_CPU_OP);
    assert_int_equal(a.external_id, id);
    assert_int_equal(process_of(t, a.row).pid, getpid());
    assert_int_equal(track_of(t, a.row).id, gettid());
    kineto_trace *kept = kineto_trace_retain((kineto_trace *)(uintptr_t)t);
    kineto_profiler_result_release(r); /* the trace outlives its result */
    assert_int_equal(kineto_trace_count(kept), 1);
    kineto_trace_release(kept);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        ROW(KinetoThreadLocalState),
        ROW(ProfilerStateBase),
        ROW(ProfilerConfig_by_default_asks_for_nothing),
        ROW(ProfilerConfig_report_input_shapes),
        ROW(ProfilerConfig_profile_memory),
        ROW(ProfilerConfig_with_stack),
        ROW(ProfilerConfig_with_flops),
        ROW(ProfilerConfig_with_modules),
        ROW(ProfilerConfig_trace_id_reaches_plug_ins),
        ROW(ProfilerConfig_buffer_and_retention),
        ROW(ProfilerConfig_record_tensor_ids),
        ROW(ProfilerConfig_as_values_and_back),
        ROW(ExperimentalConfig_profiler_metrics),
        ROW(ExperimentalConfig_profiler_measure_per_kernel),
        ROW(ExperimentalConfig_performance_events),
        ROW(ExperimentalConfig_enable_cuda_sync_events),
        ROW(ExperimentalConfig_disable_external_correlation),
        ROW(ExperimentalConfig_profile_all_threads),
        ROW(ExperimentalConfig_capture_overload_names),
        ROW(ExperimentalConfig_record_python_gc_info),
        ROW(ExperimentalConfig_expose_kineto_event_metadata),
        ROW(ExperimentalConfig_custom_profiler_config),
        ROW(ExperimentalConfig_adjust_timestamps_is_refused),
        ROW(ExperimentalConfig_verbose),
        ROW(ExperimentalConfig_adjust_profiler_step),
        ROW(ExperimentalConfig_trace_only),
        ROW(ProfilerResult),
        ROW(ActivityTraceWrapper),
        ROW(RecordQueue),
        ROW(TraceWrapper),
    };
    return RUN_TESTS(tests);
}
