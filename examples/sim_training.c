/* A training loop on an accelerator: the operators of each step on the host, what they launch on
 * the device, and the device's counters, in one trace. The accelerator is plugins/sim; give its
 * library, that holds the plug-in as well, as the argument:
 *
 *     sim_training lib/ckineto/ckineto-sim.so
 *
 * Without it the plug-in comes from elsewhere (ckineto record --plugin,
 * KINETO_PLUGIN_LIB_DIR_PATH). */
#include <ckineto/ckineto.h>
#include <sim.h>

#include <stdio.h>

enum { STEPS = 5, SAMPLES = 64, WIDTH = 32 };

/* What the device works on. */
static float input[SAMPLES * WIDTH], target[SAMPLES], weights[WIDTH], output[SAMPLES];
static float gradient[WIDTH];

/* ---- kernels ----------------------------------------------------------------------------------- */

static void forward(void *arguments, uint32_t sample)
{
    (void)arguments;
    output[sample] = 0;
    for (int i = 0; i < WIDTH; i++)
        output[sample] += input[sample * WIDTH + (uint32_t)i] * weights[i];
}

static void backward(void *arguments, uint32_t weight)
{
    (void)arguments;
    gradient[weight] = 0;
    for (uint32_t n = 0; n < SAMPLES; n++)
        gradient[weight] += (output[n] - target[n]) * input[n * WIDTH + weight] / SAMPLES;
}

static void optimize(void *rate, uint32_t weight)
{
    weights[weight] -= *(const float *)rate * gradient[weight];
}

/* ---- operators --------------------------------------------------------------------------------- */

/* What is launched until op_end belongs to this operator. */
static kineto_range op_begin(kineto_site *site)
{
    static uint64_t last_id;
    kineto_props props = {.size = sizeof props, .external_id = ++last_id};
    kineto_correlation_push(last_id);
    return kineto_range_begin_props(site, &props);
}

static void op_end(kineto_range range)
{
    kineto_range_end(range);
    kineto_correlation_pop();
}

static void load_batch(const float *samples, const float *answers)
{
    KINETO_SITE(site, KINETO_KIND_CPU_OP, "load_batch");
    kineto_range range = op_begin(&site);
    sim_copy(SIM_COPIES, target, answers, sizeof target);
    sim_copy(SIM_DMA_ENGINE, input, samples, sizeof input);
    sim_synchronize(SIM_COPIES);
    sim_synchronize(SIM_DMA_ENGINE);
    op_end(range);
}

static void launch(kineto_site *site, uint32_t grid, sim_kernel kernel, void *arguments)
{
    kineto_range range = op_begin(site);
    sim_launch(SIM_COMPUTE_0, site->name, grid, kernel, arguments);
    op_end(range);
}

static void step(const float *samples, const float *answers)
{
    KINETO_SITE(forward_site, KINETO_KIND_CPU_OP, "forward");
    KINETO_SITE(backward_site, KINETO_KIND_CPU_OP, "backward");
    KINETO_SITE(optimizer_site, KINETO_KIND_CPU_OP, "optimizer");
    static float rate = 0.05f;
    KINETO_SCOPED("step");
    load_batch(samples, answers);
    launch(&forward_site, SAMPLES, forward, NULL);
    launch(&backward_site, WIDTH, backward, NULL);
    launch(&optimizer_site, WIDTH, optimize, &rate);
    sim_synchronize(SIM_COMPUTE_0);
}

static void train(void)
{
    static float samples[SAMPLES * WIDTH], answers[SAMPLES];
    for (uint32_t i = 0; i < SAMPLES * WIDTH; i++)
        samples[i] = (float)(i * 2654435761u >> 16 & 255) / 256;
    for (size_t n = 0; n < SAMPLES; n++)
        answers[n] = samples[n * WIDTH] - samples[n * WIDTH + 1];
    for (int i = 0; i < STEPS; i++) {
        double loss = 0;
        step(samples, answers);
        for (uint32_t n = 0; n < SAMPLES; n++)
            loss += (output[n] - target[n]) * (output[n] - target[n]) / SAMPLES;
        printf("step %d: loss %.4f\n", i, loss);
    }
}

/* ---- the whole --------------------------------------------------------------------------------- */

static int fail(const kineto_error *err)
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
    if (status != KINETO_OK && status != KINETO_E_STATE) /* loaded already is fine */
        return fail(&err);
    kineto_session_options_init(&options);
    options.kinds = KINETO_KINDS_DEFAULT | KINETO_KIND_BIT(KINETO_KIND_GPU_PM_COUNTER);
    if (kineto_session_begin(&options, &session, &err) != KINETO_OK)
        return fail(&err);
    train();
    if (kineto_session_end(session, &trace, &err) != KINETO_OK)
        return fail(&err);
    status = kineto_trace_save(trace, "sim_training.json", &err);
    kineto_trace_release(trace);
    return status == KINETO_OK ? 0 : fail(&err);
}
