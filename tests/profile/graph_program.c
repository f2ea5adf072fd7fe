/* A step of training, forward on one thread and backward on another, with ids of tensors and
 * memory; writes its trace and its graph for test_graph.py: graph_program TRACE GRAPH. */
#include <ckineto/profile_run.h>

#include <pthread.h>
#include <stdio.h>

KINETO_OPERATOR(linear, "aten::linear");
KINETO_OPERATOR(mm, "aten::mm");
KINETO_OPERATOR(cat, "aten::cat");
KINETO_OPERATOR(odd, "own::odd");
KINETO_OPERATOR(evaluate, "autograd::engine::evaluate_function: MmBackward0");
KINETO_FUNCTION_SITE(backward, KINETO_SCOPE_BACKWARD_FUNCTION, "MmBackward0");
KINETO_FUNCTION_SITE(step, KINETO_SCOPE_USER_SCOPE, "step");

static const int64_t wide[] = {4, 8}, tall[] = {8, 4}, small[] = {4, 4}, strides[] = {1, 8};

static kineto_tensor tensor(const int64_t *sizes, uint64_t id, uint64_t storage)
{
    return (kineto_tensor){.sizes = sizes,
                           .rank = 2,
                           .dtype = KINETO_DTYPE_FLOAT,
                           .device_index = -1,
                           .id = id,
                           .storage_id = storage,
                           .storage_offset = (int64_t)id % 3};
}

static uint64_t forward_thread;

static void run_forward(void)
{
    kineto_tensor x = tensor(wide, 1, 0x1000), w = tensor(tall, 2, 0x2000),
                  y = tensor(small, 3, 0x3000);
    w.strides = strides;
    kineto_input in[] = {kineto_input_tensor(&x), kineto_input_tensor(&w),
                         kineto_input_of(KINETO_INPUT_NONE, 0)};
    kineto_input out[] = {kineto_input_tensor(&y)};
    kineto_function outer, inner;
    kineto_function_info info;
    kineto_function_info_init(&info);
    forward_thread = kineto_function_thread_id();
    kineto_function_begin(&outer, &linear, in, 3);
    info.inputs = in;
    info.input_count = 2;
    info.sequence_number = 7;
    kineto_function_begin_info(&inner, &mm, &info);
    kineto_function_set_outputs(&inner, out, 1);
    kineto_function_end(&inner);
    kineto_function_set_outputs(&outer, out, 1);
    kineto_function_end(&outer);
}

/* Lists: short, long, with a tensor that is undefined next to it, of numbers; and no inputs at all.
 */
static void run_lists(void)
{
    kineto_tensor many[40];
    for (int i = 0; i < 40; i++)
        many[i] = tensor(small, 100 + (uint64_t)i, 0x9000 + (uint64_t)i);
    int64_t numbers[] = {-1, 2};
    kineto_function f;
    kineto_input two[] = {kineto_input_tensors(many, 2), kineto_input_int(-5),
                          kineto_input_ints(numbers, 2), kineto_input_bool(true),
                          kineto_input_double(0.5),      kineto_input_tensor(&many[2])};
    kineto_function_begin(&f, &cat, two, 6);
    kineto_function_end(&f);
    kineto_input most[] = {kineto_input_tensor(&many[0]), kineto_input_tensors(many, 40),
                           kineto_input_tensor(&many[1])};
    kineto_function_begin(&f, &odd, most, 3);
    kineto_function_end(&f);
    kineto_input none[] = {kineto_input_tensor(NULL), kineto_input_tensor(&many[3]),
                           kineto_input_tensors(NULL, 0)};
    kineto_function_begin(&f, &odd, none, 3);
    kineto_function_end(&f);
    kineto_function_begin(&f, &odd, NULL, 0);
    kineto_function_end(&f);
}

static void *run_backward(void *profiler)
{
    kineto_function outer, node, inner;
    kineto_function_info info;
    kineto_function_info_init(&info);
    (void)kineto_profiler_join(profiler, NULL);
    info.sequence_number = 7;
    info.forward_thread_id = forward_thread;
    kineto_function_begin(&outer, &evaluate, NULL, 0);
    kineto_function_begin_info(&node, &backward, &info);
    kineto_function_begin(&inner, &mm, NULL, 0);
    kineto_function_end(&inner);
    kineto_function_end(&node);
    kineto_function_end(&outer);
    return NULL;
}

static kineto_status profile(const char *trace, const char *graph, kineto_error *err)
{
    pthread_t thread;
    kineto_profiler *p;
    kineto_profiler_result *r = NULL;
    kineto_profiler_config c;
    kineto_function f;
    kineto_profiler_config_init(&c, KINETO_STATE_KINETO);
    c.report_input_shapes = c.record_tensor_ids = true;
    kineto_status status = kineto_profiler_create(&c, KINETO_ACTIVITY_SET(CPU), 0, &p, err);
    if (status)
        return status;
    status = kineto_profiler_start(p, err);
    kineto_function_begin(&f, &step, NULL, 0);
    run_forward();
    run_lists();
    if (!pthread_create(&thread, NULL, run_backward, p))
        pthread_join(thread, NULL);
    kineto_function_end(&f);
    if (!status)
        status = kineto_profiler_stop(p, &r, err);
    if (!status)
        status = kineto_profiler_result_save(r, trace, err);
    if (!status)
        status = kineto_execution_trace_save(kineto_profiler_result_trace(r), graph, err);
    kineto_profiler_result_release(r);
    kineto_profiler_destroy(p);
    return status;
}

int main(int argc, char **argv)
{
    kineto_error err;
    if (argc != 3)
        return 2;
    if (profile(argv[1], argv[2], &err)) {
        fprintf(stderr, "%s\n", err.message);
        return 1;
    }
    return 0;
}
