/* Checks the gradients: the loss is measured a little before and after each parameter along its
 * gradient; the slope must equal the length of the gradient. */
#include "model.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>

/* The loss with the current parameters, without a tape. */
static double compute_loss(model *m, tensor *tokens, tensor *targets)
{
    bool was_enabled = grad_enable(false);
    tensor *logits = model_forward(m, tokens);
    tensor *loss = then(logits, op_cross_entropy(logits, targets));
    double value = op_item(loss);
    tensor_release(loss);
    grad_enable(was_enabled);
    return value;
}

/* The Euclidean length of a gradient. */
static double compute_length(const tensor *x)
{
    double sum = 0;
    for (int64_t i = 0; i < tensor_count(x); i++)
        sum += (double)floats(x)[i] * (double)floats(x)[i];
    return sqrt(sum);
}

static void shift_tensor(tensor *x, const tensor *along, double by)
{
    for (int64_t i = 0; i < tensor_count(x); i++)
        floats(x)[i] += (float)(by * (double)floats(along)[i]);
}

/* Compares the slope by central differences with the gradient of one parameter; the parameter is
 * restored up to rounding. */
static bool check_parameter(model *m, uint32_t index, tensor *tokens, tensor *targets)
{
    tensor *x = m->parameters[index];
    double length = compute_length(x->grad), step = length > 0.2 ? 0.01 / length : 0.05;
    double unit = length > 0 ? step / length : 0;
    shift_tensor(x, x->grad, unit);
    double after = compute_loss(m, tokens, targets);
    shift_tensor(x, x->grad, -2 * unit);
    double before = compute_loss(m, tokens, targets);
    shift_tensor(x, x->grad, unit);
    double slope = (after - before) / (2 * step);
    bool good = length > 0 && fabs(slope - length) < 0.03 * length + 1e-4;
    printf("parameter %" PRIu32 ": gradient %.6f, measured %.6f%s\n", index, length, slope,
           good ? "" : ": WRONG");
    return good;
}

/* One backward pass, then two forward passes for each parameter. */
bool model_check_gradients(model *m, tensor *tokens, tensor *targets)
{
    bool good = true;
    tensor *logits = model_forward(m, tokens);
    tensor *loss = then(logits, op_cross_entropy(logits, targets));
    grad_backward(loss);
    (void)op_item(loss); /* waits for the device */
    tensor_release(loss);
    for (uint32_t i = 0; i < m->parameter_count; i++)
        good &= check_parameter(m, i, tokens, targets);
    return good;
}
