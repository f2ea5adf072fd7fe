/* The Adam optimizer, as in PyTorch: a few in-place operators for each parameter, so that profiles
 * show many small launches. */
#include "model.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* A tensor of the same shape filled with zeros; written on the host before the device runs. */
static tensor *create_zeros(const tensor *like)
{
    tensor *x = tensor_like(like);
    memset(tensor_data(x), 0, tensor_bytes(x));
    return x;
}

/* The moments are created once, as large as the parameters. */
adam *adam_new(model *m, double rate)
{
    adam *a = zeroed(1, sizeof *a);
    a->model = m;
    a->rate = rate;
    for (uint32_t i = 0; i < m->parameter_count; i++) {
        a->mean[i] = create_zeros(m->parameters[i]);
        a->square[i] = create_zeros(m->parameters[i]);
    }
    return a;
}

void adam_free(adam *a)
{
    for (uint32_t i = 0; i < a->model->parameter_count; i++) {
        tensor_release(a->mean[i]);
        tensor_release(a->square[i]);
    }
    free(a);
}

/* Updates all parameters that have a gradient, in place and without a tape. */
void adam_step(adam *a)
{
    static const double beta1 = 0.9, beta2 = 0.99;
    KINETO_USER_SCOPE("Optimizer.step#Adam.step");
    bool was_enabled = grad_enable(false);
    a->steps++;
    double correction1 = 1 - pow(beta1, (double)a->steps);
    double correction2 = 1 - pow(beta2, (double)a->steps);
    for (uint32_t i = 0; i < a->model->parameter_count; i++) {
        tensor *x = a->model->parameters[i];
        if (!x->grad)
            continue;
        op_lerp_(a->mean[i], x->grad, 1 - beta1);
        op_scale_(a->square[i], beta2);
        op_addcmul_(a->square[i], x->grad, x->grad, 1 - beta2);
        tensor *divisor = op_sqrt(a->square[i]);
        op_scale_(divisor, 1 / sqrt(correction2));
        op_add_scalar_(divisor, 1e-8);
        op_addcdiv_(x, a->mean[i], divisor, -a->rate / correction1);
        tensor_release(divisor);
    }
    grad_enable(was_enabled);
}

/* Releasing the gradients, as set_to_none does in PyTorch, frees their memory early. */
void adam_zero_grad(adam *a)
{
    KINETO_USER_SCOPE("Optimizer.zero_grad#Adam.zero_grad");
    for (uint32_t i = 0; i < a->model->parameter_count; i++) {
        tensor_release(a->model->parameters[i]->grad);
        a->model->parameters[i]->grad = NULL;
    }
}
