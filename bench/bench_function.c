/* Benchmark of an operator: idle, recorded, with two matrices as inputs, with its id passed to a
 * plug-in, with callbacks. Each round has a new session, so that the memory of its chunks is warm.
 * The floor is two reads of the clock and a 32-byte store. */
#include "bench.h"
#include "null_plugin.h"

#include "base/base.h"

#include <ckineto/function.h>
#include <ckineto/host.h>
#include <ckineto/session.h>

#define OPS    5000L
#define ROUNDS 250

KINETO_OPERATOR(site_mm, "aten::mm");

/* ---- a plug-in that listens -------------------------------------------------------------------- */

static uint64_t pushed, popped;

static int push_id(KinetoPlugin_ProfilerPushCorrelationId_Params *p)
{
    pushed += p->correlationId;
    return 0;
}
static int pop_id(KinetoPlugin_ProfilerPopCorrelationId_Params *p)
{
    popped += p->pProfilerHandle != NULL;
    return 0;
}

static const KinetoPlugin_ProfilerInterface listener = {
    NULL_PLUGIN, .profilerPushCorrelationId = push_id, .profilerPopCorrelationId = pop_id};

/* ---- timed functions ---------------------------------------------------------------------------- */

static uint64_t floor_buffer[4];

static void run_floor(void)
{
    for (long i = 0; i < OPS; i++) {
        floor_buffer[0] = kb_ticks_hw();
        floor_buffer[1] = (uint64_t)i;
        BENCH_BARRIER();
        floor_buffer[2] = kb_ticks_hw();
        floor_buffer[3] = (uint64_t)i;
        BENCH_BARRIER();
    }
}

static void run_plain(void)
{
    kineto_function f;
    for (long i = 0; i < OPS; i++) {
        kineto_function_begin(&f, &site_mm, NULL, 0);
        BENCH_BARRIER();
        kineto_function_end(&f);
        BENCH_BARRIER();
    }
}

static void run_inputs(void)
{
    int64_t dims[4] = {32, 512, 512, 128}, strides[4] = {512, 1, 128, 1};
    kineto_tensor a = {.sizes = dims, .strides = strides, .rank = 2, .dtype = KINETO_DTYPE_FLOAT};
    kineto_tensor b = a;
    b.sizes += 2;
    b.strides += 2;
    for (long i = 0; i < OPS; i++) {
        kineto_function f;
        dims[0] = i & 1023;
        kineto_input in[2] = {kineto_input_tensor(&a), kineto_input_tensor(&b)};
        kineto_function_begin(&f, &site_mm, in, 2);
        BENCH_BARRIER();
        kineto_function_end(&f);
        BENCH_BARRIER();
    }
}

static double time_ns(void (*run)(void))
{
    double begin = bench_thread_ns();
    run();
    return (bench_thread_ns() - begin) / (double)OPS;
}

static void exit_with_error(const char *what, const kineto_error *err)
{
    fprintf(stderr, "bench_function: %s: %s\n", what, err->message);
    exit(1);
}

static void compare_with_floor(const char *name, kineto_session *s, void (*run)(void))
{
    static bench_series own, floor;
    kineto_error err;
    own.count = floor.count = 0;
    for (int round = 0; round < ROUNDS; round++) {
        bench_add(&floor, time_ns(run_floor));
        if (s && kineto_session_start(s, &err))
            exit_with_error(name, &err);
        bench_add(&own, time_ns(run));
        if (s && kineto_session_stop(s, NULL, &err))
            exit_with_error(name, &err);
    }
    bench_print(name, "ns/op", &own, &floor);
}

static void *on_enter(const kineto_function_view *f, void *user)
{
    (void)f;
    ++*(uint64_t *)user;
    return NULL;
}
static void on_exit_of(const kineto_function_view *f, void *context, void *user)
{
    (void)f, (void)context;
    ++*(uint64_t *)user;
}

static void compare_recorded(const char *name, uint32_t operators, void (*run)(void))
{
    kineto_error err;
    kineto_session *s;
    kineto_session_options o;
    kineto_session_options_init(&o);
    o.operators = operators;
    if (kineto_session_create(&o, &s, &err))
        exit_with_error(name, &err);
    compare_with_floor(name, s, run);
    kineto_session_destroy(s);
}

int main(void)
{
    kineto_error err = {0};
    uint64_t calls = 0;
    compare_with_floor("function_idle", NULL, run_plain);
    compare_recorded("function_plain", 0, run_plain);
    compare_recorded("function_inputs", KINETO_OPERATORS_INPUTS | KINETO_OPERATORS_VALUES,
                     run_inputs);
    const KinetoPlugin_Registry *registry = kineto_plugin_registry();
    if (registry->registerProfiler(registry->pRegistryHandle, &listener))
        exit_with_error("plug-in", &err);
    compare_recorded("function_full", KINETO_OPERATORS_INPUTS | KINETO_OPERATORS_VALUES,
                     run_inputs);
    if (pushed == 0 || popped == 0)
        exit_with_error("plug-in", &(kineto_error){.message = "heard nothing"});
    kineto_function_callback c;
    kineto_function_callback_init(&c);
    c.enter = on_enter;
    c.exit = on_exit_of;
    c.user = &calls;
    if (kineto_function_add_global(&c, NULL, &err))
        exit_with_error("callback", &err);
    compare_with_floor("function_callback", NULL, run_plain);
    kineto_function_clear_global();
    return calls == 2UL * OPS * ROUNDS ? 0 : 1;
}
