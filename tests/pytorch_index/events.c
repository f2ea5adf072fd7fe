/* KinetoEvent → kineto_event: every accessor on every kind of event, with values known beforehand.
 */
#include "unit/unit.h"

#include "base/base.h"

#include "profiler/profiling.h"

#include "helpers/plugins.h"

#include <ckineto/stubs.h>

/* What an event is expected to say. Zero and NULL are what is said of most: nothing. */
typedef struct expected {
    uint32_t kind;
    const char *name, *overload;
    const char *shapes, *strides, *dtypes, *concrete;
    const char *stack, *modules, *backend;
    int64_t sequence, debug_handle; /* one less: 0 is -1 */
    uint64_t fwd_thread, flops;
    kineto_scope scope;
    uint32_t device_type;
    int64_t device_index;    /* 0: this process */
    int64_t bytes, resource; /* resource 0: this thread */
    bool async, python, annotation, hidden, keywords;
    uint64_t correlation, linked; /* 0: its own id; none */
    uint64_t flow_type;
    bool flow_start, has_id;
} expected;

static void assert_text_or_none(kineto_string s, const char *text)
{
    assert_text(s, text ? text : "");
}

static void check_inputs(const kineto_event *e, const expected *x)
{
    assert_int_equal(kineto_event_has_shapes(e), x->shapes != NULL);
    assert_text_or_none(kineto_event_shapes(e), x->shapes);
    assert_text_or_none(kineto_event_strides(e), x->strides);
    assert_int_equal(kineto_event_has_types(e), x->dtypes != NULL);
    assert_text_or_none(kineto_event_dtypes(e), x->dtypes);
    assert_int_equal(kineto_event_has_concrete_inputs(e), x->concrete != NULL);
    assert_text_or_none(kineto_event_concrete_inputs(e), x->concrete);
    assert_int_equal(kineto_event_has_kwinputs(e), x->keywords);
    assert_int_equal(kineto_event_flops(e), x->flops);
}

static void check_texts(const kineto_event *e, const expected *x)
{
    assert_text(kineto_event_name(e), x->name);
    assert_text_or_none(kineto_event_overload_name(e), x->overload);
    assert_int_equal(kineto_event_has_stack(e), x->stack != NULL);
    assert_text_or_none(kineto_event_stack(e), x->stack);
    assert_int_equal(kineto_event_has_module_hierarchy(e), x->modules != NULL);
    assert_text_or_none(kineto_event_module_hierarchy(e), x->modules);
    assert_text_or_none(kineto_event_backend(e), x->backend);
}

static void check_numbers(const kineto_event *e, const expected *x)
{
    assert_int_equal(kineto_event_activity_type(e), x->kind);
    assert_int_equal(kineto_event_sequence_nr(e), x->sequence - 1);
    assert_int_equal(kineto_event_debug_handle(e), x->debug_handle - 1);
    assert_int_equal(kineto_event_fwd_thread_id(e), x->fwd_thread);
    assert_int_equal(kineto_event_scope(e), x->scope);
    assert_int_equal(kineto_event_device_type(e), x->device_type);
    assert_int_equal(kineto_event_device_index(e), x->device_index ? x->device_index : getpid());
    assert_int_equal(kineto_event_nbytes(e), x->bytes);
    if (x->resource >= 0)
        assert_int_equal(kineto_event_device_resource_id(e), x->resource ? x->resource : gettid());
    assert_int_equal(kineto_event_linked_correlation_id(e), x->linked);
    assert_int_equal(kineto_event_external_id(e) != 0, x->has_id);
    uint64_t correlation = x->correlation ? x->correlation : kineto_event_external_id(e);
    assert_int_equal(kineto_event_correlation_id(e), correlation);
}

static void check_rest(const kineto_event *e, const expected *x)
{
    kineto_string name;
    uint64_t value;
    kineto_arg arg;
    assert_int_equal(kineto_event_is_async(e), x->async);
    assert_int_equal(kineto_event_is_python_function(e), x->python);
    assert_int_equal(kineto_event_is_user_annotation(e), x->annotation);
    assert_int_equal(kineto_event_is_hidden(e), x->hidden);
    assert_int_equal(kineto_event_cuda_elapsed_us(e), -1);
    assert_int_equal(kineto_event_privateuse1_elapsed_us(e), -1);
    assert_int_equal(kineto_event_python_id(e), -1);
    assert_int_equal(kineto_event_python_parent_id(e), -1);
    assert_int_equal(kineto_event_python_module_id(e), -1);
    assert_int_equal(kineto_event_flow_type(e), x->flow_type);
    assert_int_equal(kineto_event_flow_id(e) != 0, x->flow_type != 0);
    assert_int_equal(kineto_event_flow_start(e), x->flow_start);
    assert_false(kineto_event_perf_counter(e, 0, &name, &value));
    assert_false(kineto_event_extra_meta(e, "no such key", &arg));
    assert_int_equal(kineto_event_duration_ns(e),
                     kineto_event_end_ns(e) - kineto_event_start_ns(e));
    assert_int_equal(kineto_event_start_ns(e), e->activity.start_ns);
    char *json = kineto_event_metadata_json(e);
    assert_non_null(json);
    assert_int_equal(json[0], '{');
    assert_int_equal(json[strlen(json) - 1], '}');
    free(json);
}

static void check(const kineto_event *e, const expected *x)
{
    check_texts(e, x);
    check_inputs(e, x);
    check_numbers(e, x);
    check_rest(e, x);
}

static kineto_profiler_config everything(void)
{
    kineto_profiler_config c = config_of(KINETO_STATE_KINETO);
    c.report_input_shapes = c.profile_memory = c.with_flops = c.with_modules = true;
    c.experimental.capture_overload_names = true;
    c.experimental.expose_kineto_event_metadata = true;
    c.experimental.record_python_gc_info = true;
    return c;
}

static kineto_profiler_result *profiled(void (*body)(void), uint32_t activities)
{
    kineto_profiler_config c = everything();
    enable_with(&c, activities);
    body();
    return disabled();
}

/* ---- operators ------------------------------------------------------------------------------------ */

static int64_t a_sizes[] = {2, 3}, b_sizes[] = {3, 4}, b_strides[] = {1, 3};

static void run_mm(void)
{
    kineto_tensor a = {.sizes = a_sizes, .rank = 2, .dtype = KINETO_DTYPE_FLOAT}, b = a;
    b.sizes = b_sizes;
    b.strides = b_strides;
    kineto_input in[] = {kineto_input_tensor(&a), kineto_input_tensor(&b)};
    kineto_keyword keyword = {"stream", kineto_input_int(3)};
    kineto_function_info info;
    kineto_function_info_init(&info);
    info.inputs = in;
    info.input_count = 2;
    info.keywords = &keyword;
    info.keyword_count = 1;
    info.sequence_number = 11;
    info.debug_handle = 12;
    info.stack = "leaf;root;";
    info.modules = "Net.Linear.";
    kineto_function f;
    kineto_site *site = kineto_function_site("aten::mm", "out", KINETO_SCOPE_FUNCTION);
    kineto_function_begin_info(&f, site, &info);
    kineto_function_end(&f);
}

static void an_operator_says_all_that_is_known_of_it(void **state)
{
    (void)state;
    kineto_profiler_result *r = profiled(run_mm, ONLY(CPU));
    kineto_event e = event_named(r, "aten::mm.out");
    check(&e, &(expected){.kind = KINETO_KIND_CPU_OP,
                          .name = "aten::mm",
                          .overload = "out",
                          .shapes = "[[2,3],[3,4]]",
                          .strides = "[[3,1],[1,3]]",
                          .dtypes = "[\"float\",\"float\"]",
                          .concrete = "[\"\",\"\"]",
                          .stack = "leaf;root;",
                          .modules = "Net.Linear.",
                          .sequence = 12,
                          .debug_handle = 13,
                          .flops = 2 * 2 * 3 * 4,
                          .keywords = true,
                          .has_id = true});
    assert_int_equal(kineto_event_start_thread_id(&e), kineto_function_thread_id());
    assert_int_equal(kineto_event_end_thread_id(&e), kineto_function_thread_id());
    kineto_arg arg;
    assert_true(kineto_event_kwinput(&e, 0, &arg));
    assert_text(arg.key, "stream");
    assert_int_equal(arg.i, 3);
    assert_false(kineto_event_kwinput(&e, 1, &arg));
    assert_true(kineto_event_extra_meta(&e, "stream", &arg));
    kineto_profiler_result_release(r);
}

static void run_all_inputs(void)
{
    static const int64_t ints[] = {1, -2}, many[31] = {0};
    static const double doubles[] = {0.5};
    static const bool bools[] = {true, false};
    kineto_tensor list[2] = {{.sizes = a_sizes, .rank = 2, .dtype = KINETO_DTYPE_HALF},
                             {.sizes = b_sizes, .rank = 1, .dtype = KINETO_DTYPE_INT64}};
    kineto_input d = kineto_input_of(KINETO_INPUT_DOUBLES, 1),
                 b = kineto_input_of(KINETO_INPUT_BOOLS, 2);
    d.doubles = doubles;
    b.bools = bools;
    kineto_input in[] = {kineto_input_tensor(NULL),
                         kineto_input_tensors(list, 2),
                         kineto_input_of(KINETO_INPUT_NONE, 0),
                         kineto_input_int(-7),
                         kineto_input_double(2.5),
                         kineto_input_bool(true),
                         kineto_input_ints(ints, 2),
                         kineto_input_ints(many, 31),
                         d,
                         b,
                         kineto_input_of(KINETO_INPUT_OTHER, 0)};
    kineto_function_info info;
    kineto_function_info_init(&info);
    info.inputs = in;
    info.input_count = COUNT_OF(in);
    run_op_with("aten::everything", &info);
}

static void inputs_of_all_types_are_spelled_as_in_pytorch(void **state)
{
    (void)state;
    kineto_profiler_result *r = profiled(run_all_inputs, ONLY(CPU));
    kineto_event e = event_named(r, "aten::everything");
    assert_text(kineto_event_shapes(&e), "[[],[[2,3],[3]],[],[],[],[],[],[],[],[],[]]");
    assert_text(kineto_event_dtypes(&e),
                "[\"\",\"TensorList\",\"\",\"Scalar\",\"Scalar\",\"Scalar\",\"ScalarList\","
                "\"ScalarList\",\"ScalarList\",\"ScalarList\",\"\"]");
    assert_text(kineto_event_concrete_inputs(&e),
                "[\"\",\"\",\"\",\"-7\",\"2.5\",\"True\",\"[1, -2]\",\"\",\"[0.5]\","
                "\"[True, False]\",\"\"]");
    kineto_profiler_result_release(r);
}

static uint64_t forward_thread;
static void *backward(void *unused)
{
    assert_int_equal(kineto_profiler_enable_in_child_thread(NULL), KINETO_OK);
    kineto_function f;
    kineto_function_info info;
    kineto_function_info_init(&info);
    info.sequence_number = 5;
    info.forward_thread_id = forward_thread;
    KINETO_FUNCTION_SITE(site, KINETO_SCOPE_BACKWARD_FUNCTION, "MulBackward0");
    kineto_function_begin_info(&f, &site, &info);
    kineto_function_end(&f);
    return unused;
}

static void run_forward_and_backward(void)
{
    kineto_function_info info;
    kineto_function_info_init(&info);
    info.sequence_number = 5;
    forward_thread = kineto_function_thread_id();
    run_op_with("aten::mul", &info);
    on_thread(backward, NULL);
}

static void a_backward_operator_knows_its_forward_one(void **state)
{
    (void)state;
    kineto_profiler_result *r = profiled(run_forward_and_backward, ONLY(CPU));
    kineto_event f = event_named(r, "aten::mul"), b = event_named(r, "MulBackward0");
    check(&f, &(expected){.kind = KINETO_KIND_CPU_OP,
                          .name = "aten::mul",
                          .sequence = 6,
                          .flow_type = KINETO_FLOW_FWD_BWD,
                          .flow_start = true,
                          .has_id = true});
    check(&b, &(expected){.kind = KINETO_KIND_CPU_OP,
                          .name = "MulBackward0",
                          .sequence = 6,
                          .fwd_thread = forward_thread,
                          .scope = KINETO_SCOPE_BACKWARD_FUNCTION,
                          .resource = -1,
                          .flow_type = KINETO_FLOW_FWD_BWD,
                          .has_id = true});
    assert_int_equal(kineto_event_flow_id(&f), kineto_event_flow_id(&b));
    assert_int_not_equal(kineto_event_start_thread_id(&f), kineto_event_start_thread_id(&b));
    kineto_profiler_result_release(r);
    kineto_profiler_set_fwd_bwd(false);
    r = profiled(run_forward_and_backward, ONLY(CPU));
    kineto_profiler_set_fwd_bwd(true);
    f = event_named(r, "aten::mul");
    assert_int_equal(kineto_event_flow_type(&f), 0);
    kineto_profiler_result_release(r);
}

/* ---- others of the host ---------------------------------------------------------------------------- */

static void run_annotation(void)
{
    kineto_function f;
    KINETO_FUNCTION_SITE(site, KINETO_SCOPE_USER_SCOPE, "## forward ##");
    kineto_function_begin(&f, &site, NULL, 0);
    kineto_function_end(&f);
}

static void an_annotation(void **state)
{
    (void)state;
    kineto_profiler_result *r = profiled(run_annotation, ONLY(CPU));
    kineto_event e = event_named(r, "## forward ##");
    check(&e, &(expected){.kind = KINETO_KIND_USER_ANNOTATION,
                          .name = "## forward ##",
                          .scope = KINETO_SCOPE_USER_SCOPE,
                          .annotation = true,
                          .has_id = true});
    kineto_profiler_result_release(r);
}

static void report_backend(void)
{
    int64_t now = now_ns();
    kineto_profiler_report_backend_event_ns(now, now + 5000, 8, KINETO_SCOPE_FUNCTION,
                                            "delegate::run", "XNNPACK");
    usleep(100);
}

static void an_event_of_a_backend(void **state)
{
    (void)state;
    kineto_profiler_result *r = profiled(report_backend, ONLY(CPU));
    kineto_event e = event_named(r, "delegate::run");
    check(&e, &(expected){.kind = KINETO_KIND_CPU_OP,
                          .name = "delegate::run",
                          .backend = "XNNPACK",
                          .debug_handle = 9,
                          .has_id = true});
    kineto_profiler_result_release(r);
}

static void use_memory(void)
{
    kineto_memory_event m = {.size = sizeof m,
                             .address = 0x7f00,
                             .bytes = 512,
                             .total_allocated_bytes = 1024,
                             .total_reserved_bytes = 2048,
                             .device_type = KINETO_DEVICE_CUDA,
                             .device_index = 3};
    kineto_memory_report(&m);
    m.bytes = -512;
    kineto_memory_report(&m);
    m.bytes = 1 << 30;
    kineto_memory_report_failure(&m);
}

static void allocations_and_lack_of_memory(void **state)
{
    (void)state;
    kineto_profiler_result *r = profiled(use_memory, ONLY(CPU));
    expected x = {
        .name = "[memory]", .device_type = KINETO_DEVICE_CUDA, .device_index = 3, .bytes = 512};
    kineto_event e = event_nth(r, "[memory]", 0);
    kineto_arg arg;
    x.kind = kineto_event_activity_type(&e);
    assert_true(x.kind == KINETO_KIND_MEMORY || x.kind == KINETO_KIND_CPU_INSTANT_EVENT);
    check(&e, &x);
    assert_true(kineto_event_extra_meta(&e, "Total Allocated", &arg) && arg.u == 1024);
    assert_true(kineto_event_extra_meta(&e, "Total Reserved", &arg) && arg.u == 2048);
    assert_true(kineto_event_extra_meta(&e, "Addr", &arg) && arg.u == 0x7f00);
    assert_int_equal(kineto_event_duration_ns(&e), 0);
    e = event_nth(r, "[memory]", 1);
    x.bytes = -512;
    check(&e, &x);
    e = event_named(r, "[OutOfMemory]");
    assert_int_equal(kineto_event_device_type(&e), KINETO_DEVICE_CUDA);
    assert_int_equal(kineto_event_device_index(&e), 3);
    kineto_profiler_result_release(r);
}

static void collect_garbage(void)
{
    kineto_profiler_report_gc(true);
    kineto_profiler_report_gc(false);
}

static void a_garbage_collection(void **state)
{
    (void)state;
    kineto_profiler_result *r = profiled(collect_garbage, ONLY(CPU));
    kineto_event e = event_named(r, "Python GC");
    check(&e,
          &(expected){.kind = KINETO_KIND_PYTHON_FUNCTION, .name = "Python GC", .python = true});
    kineto_profiler_result_release(r);
}

/* ---- devices ---------------------------------------------------------------------------------------- */

/* At each operator: a launch, a kernel, a copy and a hidden thing. */
static void launch(fake *f, uint64_t id)
{
    const builder *b = live_of(f);
    KinetoPlugin_Metadata hidden = {"hidden", KINETO_PLUGIN_VALUE_INT, 1, {.i = 1}};
    KinetoPlugin_Activity call = activity_of(TYPE(RUNTIME), "launchKernel");
    call.event.processId = getpid();
    call.event.threadId = gettid();
    call.event.eventId = 77;
    call.flowType = KINETO_PLUGIN_PROFILE_EVENT_FLOW_TYPE_ASYNC_CPU_GPU;
    call.flowId = 77;
    call.flowIsStart = 1;
    call.externalId = id;
    KinetoPlugin_Activity kernel = activity_of(TYPE(CONCURRENT_KERNEL), "gemm");
    kernel.event.eventId = 77;
    kernel.flowType = call.flowType;
    kernel.flowId = 77;
    kernel.externalId = id;
    KinetoPlugin_Activity copy = activity_of(TYPE(GPU_MEMCPY), "Memcpy HtoD");
    copy.metadataCount = 1;
    copy.pMetadata = &hidden;
    assert_int_equal(b->emit(b->pTraceBuilderHandle, &call), 0);
    assert_int_equal(b->emit(b->pTraceBuilderHandle, &kernel), 0);
    assert_int_equal(b->emit(b->pTraceBuilderHandle, &copy), 0);
}
static void forget(fake *f) { (void)f; }

static uint64_t op_id;
static void run_one(void)
{
    op_id = run_op("aten::gemm");
    usleep(100);
}

static void device_work_and_its_launch(void **state)
{
    (void)state;
    fake *f = make_fake(0, "device", LISTENS);
    f->vendor = "privateuse1";
    f->types[2] = TYPE(RUNTIME);
    f->at_push = launch;
    f->at_pop = forget;
    assert_int_equal(register_interface(&interfaces[0]), 0);
    kineto_profiler_result *r = profiled(run_one, ONLY(CPU) | ONLY(PRIVATEUSE1));
    kineto_event e = event_named(r, "launchKernel");
    check(&e, &(expected){.kind = KINETO_KIND_RUNTIME,
                          .name = "launchKernel",
                          .correlation = 77,
                          .flow_type = KINETO_FLOW_ASYNC_CPU_GPU,
                          .flow_start = true,
                          .has_id = true});
    kineto_event k = event_named(r, "gemm");
    expected x = {.kind = KINETO_KIND_CONCURRENT_KERNEL,
                  .name = "gemm",
                  .device_type = KINETO_DEVICE_PRIVATEUSE1, /* as its launch says */
                  .device_index = 3,
                  .resource = 7,
                  .correlation = 77,
                  .linked = op_id,
                  .flow_type = KINETO_FLOW_ASYNC_CPU_GPU,
                  .has_id = true};
    check(&k, &x);
    assert_int_equal(kineto_event_flow_id(&k), kineto_event_flow_id(&e));
    assert_int_equal(kineto_event_start_thread_id(&k), kineto_function_thread_id());
    assert_int_equal(kineto_profiler_result_tree_parent(r, k.row), e.row);
    kineto_event c = event_named(r, "Memcpy HtoD");
    x.kind = KINETO_KIND_GPU_MEMCPY;
    x.name = "Memcpy HtoD";
    x.correlation = x.linked = x.flow_type = 0;
    x.has_id = false;
    x.hidden = true;
    x.device_type = KINETO_DEVICE_CUDA; /* not given */
    check(&c, &x);
    kineto_profiler_result_release(r);
    leave(0);
}

/* ---- traces of others, and nothing at all ------------------------------------------------------------ */

static void an_event_of_a_file_needs_no_result(void **state)
{
    (void)state;
    static const char text[] =
        "{\"traceEvents\":[{\"ph\":\"X\",\"cat\":\"cpu_op\",\"name\":\"aten::mm\",\"pid\":5,"
        "\"tid\":6,\"ts\":1.5,\"dur\":2.25,\"args\":{\"External id\":9,\"Ev Idx\":0,"
        "\"Sequence number\":4,\"Fwd thread id\":0,\"Input Dims\":[[2,3],[3,4]],"
        "\"Input type\":[\"float\",\"float\"],\"Call stack\":\"a;b;\"}},"
        "{\"ph\":\"X\",\"cat\":\"python_function\",\"name\":\"f\",\"pid\":5,\"tid\":6,\"ts\":1,"
        "\"dur\":4,\"args\":{\"Python id\":3,\"Python parent id\":2,\"Python module id\":1}}]}";
    char folder[256], path[300];
    assert_non_null(make_directory(folder, sizeof folder));
    (void)snprintf(path, sizeof path, "%s/t.json", folder);
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    assert_true(fputs(text, file) >= 0 && fclose(file) == 0);
    kineto_trace *t = NULL;
    assert_int_equal(kineto_trace_open(path, &t, NULL), KINETO_OK);
    kineto_event e;
    assert_true(kineto_event_of(t, find_only(t, "aten::mm").row, &e));
    assert_int_equal(kineto_event_external_id(&e), 9);
    assert_int_equal(kineto_event_sequence_nr(&e), 4);
    assert_int_equal(kineto_event_device_index(&e), 5);
    assert_int_equal(kineto_event_device_resource_id(&e), 6);
    assert_int_equal(kineto_event_duration_ns(&e), 2250);
    assert_int_equal(kineto_event_flops(&e), 48);
    assert_int_equal(kineto_event_start_thread_id(&e), 0);
    assert_text(kineto_event_stack(&e), "a;b;");
    assert_text(kineto_event_dtypes(&e), "[\"float\",\"float\"]");
    assert_true(kineto_event_of(t, find_only(t, "f").row, &e));
    assert_true(kineto_event_is_python_function(&e));
    assert_int_equal(kineto_event_python_id(&e), 3);
    assert_int_equal(kineto_event_python_parent_id(&e), 2);
    assert_int_equal(kineto_event_python_module_id(&e), 1);
    kineto_trace_release(t);
    (void)unlink(path);
    (void)rmdir(folder);
}

static void an_event_that_is_none_says_nothing(void **state)
{
    (void)state;
    kineto_event e;
    kineto_arg arg;
    assert_false(kineto_event_of(NULL, 0, &e));
    assert_int_equal(e.row, KINETO_NO_ROW);
    assert_int_equal(kineto_event_name(&e).size, 0);
    assert_int_equal(kineto_event_overload_name(&e).size, 0);
    assert_int_equal(kineto_event_sequence_nr(&e), -1);
    assert_int_equal(kineto_event_flops(&e), 0);
    assert_int_equal(kineto_event_start_thread_id(&e), 0);
    assert_int_equal(kineto_event_end_thread_id(&e), 0);
    assert_int_equal(kineto_event_linked_correlation_id(&e), 0);
    assert_int_equal(kineto_event_device_type(&e), KINETO_DEVICE_CPU);
    assert_int_equal(kineto_event_flow_id(&e), 0);
    assert_false(kineto_event_has_shapes(&e) || kineto_event_kwinput(&e, 0, &arg));
    char *json = kineto_event_metadata_json(&e);
    assert_string_equal(json, "");
    free(json);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        ROW(an_operator_says_all_that_is_known_of_it),
        ROW(inputs_of_all_types_are_spelled_as_in_pytorch),
        ROW(a_backward_operator_knows_its_forward_one),
        ROW(an_annotation),
        ROW(an_event_of_a_backend),
        ROW(allocations_and_lack_of_memory),
        ROW(a_garbage_collection),
        ROW(device_work_and_its_launch),
        ROW(an_event_of_a_file_needs_no_result),
        ROW(an_event_that_is_none_says_nothing),
    };
    return RUN_TESTS(tests);
}
