/* Are the gradients right? The loss is measured a little before and behind each parameter, along
 * its gradient: it must grow by the length of that. */
#include "model.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>

static double loss_at(model *m, tensor *tokens, tensor *targets)
{
    bool was = grad_enable(false);
    tensor *logits = model_forward(m, tokens);
    tensor *loss = then(logits, op_cross_entropy(logits, targets));
    double value = op_item(loss);
    tensor_release(loss);
    grad_enable(was);
    return value;
}

static double length_of(const tensor *x)
{
    double sum = 0;
    for (int64_t i = 0; i < tensor_count(x); i++)
        sum += (double)floats(x)[i] * (double)floats(x)[i];
    return sqrt(sum);
}

static void shift(tensor *x, const tensor *along, double by)
{
    for (int64_t i = 0; i < tensor_count(x); i++)
        floats(x)[i] += (float)(by * (double)floats(along)[i]);
}

static bool check_parameter(model *m, uint32_t index, tensor *tokens, tensor *targets)
{
    tensor *x = m->parameters[index];
    double length = length_of(x->grad), step = length > 0.2 ? 0.01 / length : 0.05;
    double unit = length > 0 ? step / length : 0;
    shift(x, x->grad, unit);
    double after = loss_at(m, tokens, targets);
    shift(x, x->grad, -2 * unit);
    double before = loss_at(m, tokens, targets);
    shift(x, x->grad, unit);
    double slope = (after - before) / (2 * step);
    bool good = length > 0 && fabs(slope - length) < 0.03 * length + 1e-4;
    printf("parameter %" PRIu32 ": gradient %.6f, measured %.6f%s\n", index, length, slope,
           good ? "" : ": WRONG");
    return good;
}

bool model_check_gradients(model *m, tensor *tokens, tensor *targets)
{
    bool good = true;
    tensor *logits = model_forward(m, tokens);
    tensor *loss = then(logits, op_cross_entropy(logits, targets));
    grad_backward(loss);
    (void)op_item(loss); /* the device is done */
    tensor_release(loss);
    for (uint32_t i = 0; i < m->parameter_count; i++)
        good &= check_parameter(m, i, tokens, targets);
    return good;
}
