/* Steps on the software accelerator whose times are known: kernels sleep. For what_if.py.
 *
 *     what_if_program PLUGIN TRACE.json FACTOR
 *
 * FACTOR is of the time of the kernels "gemm". In each step two queues work side by side; the one
 * with these kernels is the longer one until they take less than two thirds. */
#include <ckineto/ckineto.h>
#include "../helpers/sessions.h"
#include <sim.h>

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum { STEPS = 12, GEMMS = 3 };
#define MS INT64_C(1000000)

static void sleep_until(struct timespec t)
{
    while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &t, NULL) == EINTR)
        ;
}

static void sleep_for(int64_t ns)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    ns += t.tv_nsec;
    t.tv_sec += ns / 1000000000;
    t.tv_nsec = ns % 1000000000;
    sleep_until(t);
}

static void kernel(void *ns, uint32_t item)
{
    (void)item;
    sleep_for(*(const int64_t *)ns);
}

static void work_on_host(kineto_site *site, int64_t ns)
{
    kineto_range range = kineto_range_begin(site);
    sleep_for(ns);
    kineto_range_end(range);
}

static void synchronize(kineto_site *site, uint32_t queue, uint32_t other)
{
    kineto_range range = kineto_range_begin(site);
    sim_synchronize(queue);
    sim_synchronize(other);
    kineto_range_end(range);
}

static void step(int64_t *gemm_ns)
{
    static int64_t relu_ns = 8 * MS, reduce_ns = 60 * MS;
    KINETO_SITE(load, KINETO_KIND_CPU_OP, "load");
    KINETO_SITE(prepare, KINETO_KIND_CPU_OP, "prepare");
    KINETO_SITE(wait_stream, KINETO_KIND_RUNTIME, "simStreamSynchronize");
    KINETO_SITE(wait_device, KINETO_KIND_RUNTIME, "simDeviceSynchronize");
    work_on_host(&load, 10 * MS);
    for (int i = 0; i < GEMMS; i++)
        sim_launch(SIM_COMPUTE_0, "gemm", 1, kernel, gemm_ns);
    sim_launch(SIM_COMPUTE_0, "relu", 1, kernel, &relu_ns);
    sim_launch(SIM_COMPUTE_1, "reduce", 1, kernel, &reduce_ns);
    work_on_host(&prepare, 20 * MS);
    synchronize(&wait_stream, SIM_COMPUTE_0, SIM_COMPUTE_0);
    synchronize(&wait_device, SIM_COMPUTE_0, SIM_COMPUTE_1);
}

static int fail(const kineto_error *err)
{
    fprintf(stderr, "what_if_program: %s\n", err->message);
    return 1;
}

int main(int argc, char **argv)
{
    kineto_error err;
    kineto_session_options options;
    kineto_session *session;
    kineto_trace *trace;
    if (argc != 4)
        return 2;
    int64_t gemm_ns = (int64_t)(atof(argv[3]) * 24 * MS);
    kineto_status status = kineto_plugin_load(argv[1], NULL, &err);
    if (status != KINETO_OK && status != KINETO_E_STATE)
        return fail(&err);
    kineto_session_options_init(&options);
    if (begin_session(&options, &session, &err) != KINETO_OK)
        return fail(&err);
    for (int i = 0; i < STEPS; i++) {
        KINETO_SITE(site, KINETO_KIND_USER_ANNOTATION, "ProfilerStep");
        char name[32];
        snprintf(name, sizeof name, "ProfilerStep#%d", i);
        kineto_range range = kineto_range_begin_props(
            &site, &(kineto_props){.size = sizeof(kineto_props), .name = name});
        step(&gemm_ns);
        kineto_range_end(range);
    }
    if (end_session(session, &trace, &err) != KINETO_OK)
        return fail(&err);
    status = kineto_trace_save(trace, argv[2], &err);
    kineto_trace_release(trace);
    return status == KINETO_OK ? 0 : fail(&err);
}
