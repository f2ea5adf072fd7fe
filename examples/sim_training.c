/* A training loop on an accelerator: the operators of each step on the host, their work on the
 * device, and the device's counters, in one trace. The accelerator is plugins/sim; the argument is
 * its library, which contains the plug-in as well:
 *
 *     sim_training lib/ckineto/ckineto-sim.so
 *
 * Without it the plug-in comes from elsewhere (ckineto record --plugin,
 * KINETO_PLUGIN_LIB_DIR_PATH). */
#include <ckineto/ckineto.h>
#include <sim.h>

#include <stdio.h>

enum { STEPS = 5, SAMPLES = 64, WIDTH = 32 };

/* The memory that the device works on. */
static float input[SAMPLES * WIDTH], target[SAMPLES], weights[WIDTH], output[SAMPLES];
static float gradient[WIDTH];

/* ---- kernels --------------------------------------------------------------------------------- */

/* Kernel, once per sample: the prediction of the linear model. */
static void compute_output(void *arguments, uint32_t sample)
{
    (void)arguments;
    output[sample] = 0;
    for (int i = 0; i < WIDTH; i++)
        output[sample] += input[sample * WIDTH + (uint32_t)i] * weights[i];
}

/* Kernel, once per weight: the gradient of the mean squared error. */
static void compute_gradient(void *arguments, uint32_t weight)
{
    (void)arguments;
    gradient[weight] = 0;
    for (uint32_t n = 0; n < SAMPLES; n++)
        gradient[weight] += (output[n] - target[n]) * input[n * WIDTH + weight] / SAMPLES;
}

static void update_weight(void *rate, uint32_t weight)
{
    weights[weight] -= *(const float *)rate * gradient[weight];
}

/* ---- operators ------------------------------------------------------------------------------- */

/* Begins an operator. Launches until end_operator belong to it: the plug-in gets its id. */
static kineto_range begin_operator(kineto_site *site)
{
    static uint64_t last_id;
    kineto_props props = {.size = sizeof props, .external_id = ++last_id};
    kineto_correlation_push(last_id);
    return kineto_range_begin_props(site, &props);
}

static void end_operator(kineto_range range)
{
    kineto_range_end(range);
    kineto_correlation_pop();
}

/* Copies a batch to the device and waits for the copies. */
static void load_batch(const float *samples, const float *answers)
{
    KINETO_SITE(site, KINETO_KIND_CPU_OP, "load_batch");
    kineto_range range = begin_operator(&site);
    sim_copy(SIM_COPIES, target, answers, sizeof target);
    sim_copy(SIM_DMA_ENGINE, input, samples, sizeof input);
    sim_synchronize(SIM_COPIES);
    sim_synchronize(SIM_DMA_ENGINE);
    end_operator(range);
}

/* An operator that launches one kernel under the same name. */
static void launch_operator(kineto_site *site, uint32_t grid, sim_kernel kernel, void *arguments)
{
    kineto_range range = begin_operator(site);
    sim_launch(SIM_COMPUTE_0, site->name, grid, kernel, arguments);
    end_operator(range);
}

/* One step: copy a batch, three kernels, and wait for them. */
static void run_step(const float *samples, const float *answers)
{
    KINETO_SITE(forward_site, KINETO_KIND_CPU_OP, "forward");
    KINETO_SITE(backward_site, KINETO_KIND_CPU_OP, "backward");
    KINETO_SITE(optimizer_site, KINETO_KIND_CPU_OP, "optimizer");
    static float rate = 0.05f;
    KINETO_SCOPED("step");
    load_batch(samples, answers);
    launch_operator(&forward_site, SAMPLES, compute_output, NULL);
    launch_operator(&backward_site, WIDTH, compute_gradient, NULL);
    launch_operator(&optimizer_site, WIDTH, update_weight, &rate);
    sim_synchronize(SIM_COMPUTE_0);
}

/* Trains on a target that the model can learn exactly. */
static void run_training(void)
{
    static float samples[SAMPLES * WIDTH], answers[SAMPLES];
    for (uint32_t i = 0; i < SAMPLES * WIDTH; i++)
        samples[i] = (float)(i * 2654435761u >> 16 & 255) / 256;
    for (size_t n = 0; n < SAMPLES; n++)
        answers[n] = samples[n * WIDTH] - samples[n * WIDTH + 1];
    for (int i = 0; i < STEPS; i++) {
        double loss = 0;
        run_step(samples, answers);
        for (uint32_t n = 0; n < SAMPLES; n++)
            loss += (output[n] - target[n]) * (output[n] - target[n]) / SAMPLES;
        printf("step %d: loss %.4f\n", i, loss);
    }
}

/* ---- the program ----------------------------------------------------------------------------- */

static int report_failure(const kineto_error *err)
{
    fprintf(stderr, "sim_training: %s\n", err->message);
    return 1;
}

int main(int argc, char **argv)
{
    kineto_error err;
    kineto_session_options options;
    kineto_session *session;
    kineto_trace *trace;

    kineto_status status = argc > 1 ? kineto_plugin_load(argv[1], NULL, &err) : KINETO_OK;
    if (status != KINETO_OK && status != KINETO_E_STATE) /* KINETO_E_STATE: loaded already */
        return report_failure(&err);
    kineto_session_options_init(&options);
    options.kinds = KINETO_KINDS_DEFAULT | KINETO_KIND_BIT(KINETO_KIND_GPU_PM_COUNTER);
    if (kineto_session_create(&options, &session, &err) != KINETO_OK ||
        kineto_session_start(session, &err) != KINETO_OK)
        return report_failure(&err);
    run_training();
    status = kineto_session_stop(session, &trace, &err);
    kineto_session_destroy(session);
    if (status != KINETO_OK)
        return report_failure(&err);
    status = kineto_trace_save(trace, "sim_training.json", &err);
    kineto_trace_release(trace);
    return status == KINETO_OK ? 0 : report_failure(&err);
}
