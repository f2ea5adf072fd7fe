/* Operators of neural networks: embeddings, norms, activations, softmax, the loss, with their
 * gradients. */
#include "kernels.h"
#include "ops.h"

#include <string.h>

static int64_t get_width(const tensor *x) { return x->sizes[x->meta.rank - 1]; }
static int64_t count_rows(const tensor *x) { return tensor_count(x) / get_width(x); }

/* ---- embeddings ------------------------------------------------------------------------------ */

/* The gradient of the weight; indices have none. */
static void embedding_backward(node *n, tensor *const *outputs, tensor **inputs)
{
    tensor *grad = outputs[0], *indices = n->saved[0];
    OP(op, "aten::embedding_backward", in_tensor(grad), in_tensor(indices),
       kineto_input_int(n->sizes[0]), kineto_input_int(-1), kineto_input_bool(false),
       kineto_input_bool(false));
    OP(dense, "aten::embedding_dense_backward", in_tensor(grad), in_tensor(indices),
       kineto_input_int(n->sizes[0]), kineto_input_int(-1), kineto_input_bool(false));
    inputs[0] = tensor_new(KINETO_DTYPE_FLOAT, 2, n->sizes);
    launch_embedding_grad(floats(inputs[0]), floats(grad), tensor_data(indices),
                          tensor_count(indices), n->sizes[1], n->sizes[0]);
    op_end(&dense, inputs[0]);
    op_end(&op, inputs[0]);
}

/* Rows of the weight, chosen by the indices. */
tensor *op_embedding(tensor *weight, tensor *indices)
{
    NODE_TYPE(type, "EmbeddingBackward0", embedding_backward);
    OP(op, "aten::embedding", in_tensor(weight), in_tensor(indices), kineto_input_int(-1),
       kineto_input_bool(false), kineto_input_bool(false));
    int64_t sizes[MAX_RANK];
    memcpy(sizes, indices->sizes, sizeof sizes);
    sizes[indices->meta.rank] = weight->sizes[1];
    tensor *out = tensor_new(KINETO_DTYPE_FLOAT, indices->meta.rank + 1, sizes);
    launch_embedding(floats(out), floats(weight), tensor_data(indices), tensor_count(indices),
                     weight->sizes[1]);
    node *n = grad_node(&type, &weight, 1);
    grad_save(n, 0, indices);
    if (n)
        memcpy(n->sizes, weight->sizes, sizeof n->sizes);
    grad_output(n, out, 0);
    return op_end(&op, out);
}

/* ---- layer norm ------------------------------------------------------------------------------ */

/* Gradients of input, weight and bias in one pass. */
static void layer_norm_backward(node *n, tensor *const *outputs, tensor **inputs)
{
    tensor *grad = outputs[0], *x = n->saved[0], *mean = n->saved[1], *scale = n->saved[2];
    tensor *weight = n->saved[3];
    int64_t width = get_width(x);
    static const bool mask[] = {true, true, true};
    kineto_input mask_input = kineto_input_of(KINETO_INPUT_BOOLS, 3);
    mask_input.bools = mask;
    OP(op, "aten::native_layer_norm_backward", in_tensor(grad), in_tensor(x),
       kineto_input_ints(&width, 1), in_tensor(mean), in_tensor(scale), in_tensor(weight),
       in_tensor(weight), mask_input);
    inputs[0] = tensor_like(x);
    inputs[1] = tensor_like(weight);
    inputs[2] = tensor_like(weight);
    launch_layer_norm_grad(floats(inputs[0]), floats(inputs[1]), floats(inputs[2]), floats(grad),
                           floats(x), floats(mean), floats(scale), floats(weight), count_rows(x),
                           width);
    op_end(&op, inputs[0]);
}

/* The operator that does the work; aten::layer_norm only calls it. */
static tensor *native_layer_norm(tensor *x, tensor *weight, tensor *bias, double epsilon)
{
    NODE_TYPE(type, "NativeLayerNormBackward0", layer_norm_backward);
    int64_t width = get_width(x), rows = count_rows(x);
    OP(op, "aten::native_layer_norm", in_tensor(x), kineto_input_ints(&width, 1), in_tensor(weight),
       in_tensor(bias), kineto_input_double(epsilon));
    tensor *out = tensor_like(x), *inputs[] = {x, weight, bias};
    tensor *mean = tensor_new(KINETO_DTYPE_FLOAT, 1, &rows);
    tensor *scale = tensor_new(KINETO_DTYPE_FLOAT, 1, &rows);
    launch_layer_norm(floats(out), floats(mean), floats(scale), floats(x), floats(weight),
                      floats(bias), (float)epsilon, rows, width);
    node *n = grad_node(&type, inputs, 3);
    grad_save(n, 0, x);
    grad_save(n, 1, mean);
    grad_save(n, 2, scale);
    grad_save(n, 3, weight);
    tensor_release(mean);
    tensor_release(scale);
    grad_output(n, out, 0);
    return op_end(&op, out);
}

tensor *op_layer_norm(tensor *x, tensor *weight, tensor *bias, double epsilon)
{
    int64_t width = get_width(x);
    OP(op, "aten::layer_norm", in_tensor(x), kineto_input_ints(&width, 1), in_tensor(weight),
       in_tensor(bias), kineto_input_double(epsilon), kineto_input_bool(false));
    return op_end(&op, native_layer_norm(x, weight, bias, epsilon));
}

/* ---- activations ----------------------------------------------------------------------------- */

/* The derivative needs the input, which the node keeps. */
static void gelu_backward(node *n, tensor *const *outputs, tensor **inputs)
{
    tensor *grad = outputs[0], *x = n->saved[0];
    OP(op, "aten::gelu_backward", in_tensor(grad), in_tensor(x), kineto_input_string("none"));
    inputs[0] = tensor_like(x);
    launch_elementwise(ELEMENT_GELU_GRAD, floats(inputs[0]), floats(grad), floats(x), 0,
                       tensor_count(x), 0);
    op_end(&op, inputs[0]);
}

/* The exact form, with erf. */
tensor *op_gelu(tensor *x)
{
    NODE_TYPE(type, "GeluBackward0", gelu_backward);
    OP(op, "aten::gelu", in_tensor(x), kineto_input_string("none"));
    tensor *out = tensor_like(x);
    launch_elementwise(ELEMENT_GELU, floats(out), floats(x), NULL, 0, tensor_count(x), 0);
    node *n = grad_node(&type, &x, 1);
    grad_save(n, 0, x);
    grad_output(n, out, 0);
    return op_end(&op, out);
}

static void masked_fill_backward(node *n, tensor *const *outputs, tensor **inputs)
{
    inputs[0] = op_masked_fill(outputs[0], n->saved[0], 0);
}

/* The mask has no gradient. */
tensor *op_masked_fill(tensor *x, tensor *mask, double value)
{
    NODE_TYPE(type, "MaskedFillBackward0", masked_fill_backward);
    OP(op, "aten::masked_fill", in_tensor(x), in_tensor(mask), kineto_input_double(value));
    tensor *out = tensor_like(x);
    launch_elementwise(ELEMENT_MASK, floats(out), floats(x), tensor_data(mask), (float)value,
                       tensor_count(x), tensor_count(mask));
    node *n = grad_node(&type, &x, 1);
    grad_save(n, 0, mask);
    grad_output(n, out, 0);
    return op_end(&op, out);
}

/* ---- softmax --------------------------------------------------------------------------------- */

static void softmax_backward(node *n, tensor *const *outputs, tensor **inputs)
{
    tensor *grad = outputs[0], *result = n->saved[0];
    OP(op, "aten::_softmax_backward_data", in_tensor(grad), in_tensor(result), kineto_input_int(-1),
       kineto_input_int(KINETO_DTYPE_FLOAT));
    inputs[0] = tensor_like(result);
    launch_softmax_grad(floats(inputs[0]), floats(grad), floats(result), false, count_rows(grad),
                        get_width(grad));
    op_end(&op, inputs[0]);
}

static void log_softmax_backward(node *n, tensor *const *outputs, tensor **inputs)
{
    tensor *grad = outputs[0], *result = n->saved[0];
    OP(op, "aten::_log_softmax_backward_data", in_tensor(grad), in_tensor(result),
       kineto_input_int(1), kineto_input_int(KINETO_DTYPE_FLOAT));
    inputs[0] = tensor_like(result);
    launch_softmax_grad(floats(inputs[0]), floats(grad), floats(result), true, count_rows(grad),
                        get_width(grad));
    op_end(&op, inputs[0]);
}

/* Softmax or its logarithm. The gradient needs the result, so the node keeps a reference to it. */
static tensor *run_softmax(const node_type *type, tensor *x, bool logarithm)
{
    tensor *out = tensor_like(x);
    launch_softmax(floats(out), floats(x), logarithm, count_rows(x), get_width(x));
    node *n = grad_node(type, &x, 1);
    grad_output(n, out, 0);
    if (n) /* a copy of the view: the node must not hold what holds the node */
        n->saved[0] = tensor_alias(out, out->meta.rank, out->sizes, NULL, 0);
    return out;
}

/* aten::softmax calls aten::_softmax, as PyTorch does. */
tensor *op_softmax(tensor *x)
{
    NODE_TYPE(type, "SoftmaxBackward0", softmax_backward);
    OP(op, "aten::softmax", in_tensor(x), kineto_input_int(-1),
       kineto_input_of(KINETO_INPUT_NONE, 0));
    OP(inner, "aten::_softmax", in_tensor(x), kineto_input_int(-1), kineto_input_bool(false));
    tensor *out = op_end(&inner, run_softmax(&type, x, false));
    return op_end(&op, out);
}

static tensor *log_softmax(tensor *x)
{
    NODE_TYPE(type, "LogSoftmaxBackward0", log_softmax_backward);
    OP(op, "aten::log_softmax", in_tensor(x), kineto_input_int(1),
       kineto_input_of(KINETO_INPUT_NONE, 0));
    OP(inner, "aten::_log_softmax", in_tensor(x), kineto_input_int(1), kineto_input_bool(false));
    tensor *out = op_end(&inner, run_softmax(&type, x, true));
    return op_end(&op, out);
}

/* ---- the loss -------------------------------------------------------------------------------- */

/* Only the logarithms have a gradient, not the targets. */
static void nll_loss_backward(node *n, tensor *const *outputs, tensor **inputs)
{
    tensor *grad = outputs[0], *x = n->saved[0], *targets = n->saved[1];
    OP(op, "aten::nll_loss_backward", in_tensor(grad), in_tensor(x), in_tensor(targets),
       kineto_input_of(KINETO_INPUT_NONE, 0), kineto_input_int(1), kineto_input_int(-100));
    inputs[0] = tensor_like(x);
    launch_nll_loss_grad(floats(inputs[0]), floats(grad), tensor_data(targets), count_rows(x),
                         get_width(x));
    op_end(&op, inputs[0]);
}

/* The mean over all rows. */
static tensor *nll_loss(tensor *x, tensor *targets)
{
    NODE_TYPE(type, "NllLossBackward0", nll_loss_backward);
    OP(op, "aten::nll_loss", in_tensor(x), in_tensor(targets),
       kineto_input_of(KINETO_INPUT_NONE, 0), kineto_input_int(1), kineto_input_int(-100));
    OP(inner, "aten::nll_loss_forward", in_tensor(x), in_tensor(targets),
       kineto_input_of(KINETO_INPUT_NONE, 0), kineto_input_int(1), kineto_input_int(-100));
    tensor *out = tensor_new(KINETO_DTYPE_FLOAT, 0, x->sizes);
    launch_nll_loss(floats(out), floats(x), tensor_data(targets), count_rows(x), get_width(x));
    node *n = grad_node(&type, &x, 1);
    grad_save(n, 0, x);
    grad_save(n, 1, targets);
    grad_output(n, out, 0);
    op_end(&inner, out);
    return op_end(&op, out);
}

/* aten::cross_entropy_loss is log_softmax followed by nll_loss. */
tensor *op_cross_entropy(tensor *logits, tensor *targets)
{
    OP(op, "aten::cross_entropy_loss", in_tensor(logits), in_tensor(targets),
       kineto_input_of(KINETO_INPUT_NONE, 0), kineto_input_int(1), kineto_input_int(-100),
       kineto_input_double(0));
    tensor *likely = log_softmax(logits);
    return op_end(&op, then(likely, nll_loss(likely, targets)));
}
