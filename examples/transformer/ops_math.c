/* Matrix products and arithmetic with their gradients, and the in-place operators of optimizers. */
#include "kernels.h"
#include "ops.h"

#include <stdio.h>
#include <stdlib.h>

/* ---- products -------------------------------------------------------------------------------- */

/* Layout of the last two dimensions as a matrix: its rows or its columns must be contiguous. */
static bool get_matrix_layout(const tensor *x, int64_t *leading)
{
    const int64_t *sizes = x->sizes + x->meta.rank - 2, *strides = x->strides + x->meta.rank - 2;
    bool transposed = strides[1] != 1 && strides[0] == 1;
    int64_t width = transposed ? sizes[0] : sizes[1];
    *leading = transposed ? strides[1] : strides[0];
    if (*leading < width)
        *leading = width;
    if (transposed || strides[1] == 1)
        return transposed;
    fprintf(stderr, "transformer: a matrix with gaps\n");
    exit(1);
}

/* Computes a · b (+ bias) for matrices or batches of them, on whatever layouts they have. */
static tensor *run_product(tensor *bias, tensor *a, tensor *b)
{
    uint32_t rank = a->meta.rank;
    const int64_t sizes[3] = {a->sizes[0], a->sizes[rank - 2], b->sizes[rank - 1]};
    tensor *out = tensor_new(KINETO_DTYPE_FLOAT, rank, sizes + 3 - rank);
    product p = {.a = floats(a),
                 .b = floats(b),
                 .bias = bias ? floats(bias) : NULL,
                 .c = floats(out),
                 .m = sizes[1],
                 .n = sizes[2],
                 .k = a->sizes[rank - 1],
                 .batch = rank == 3 ? sizes[0] : 1};
    p.transpose_a = get_matrix_layout(a, &p.lda);
    p.transpose_b = get_matrix_layout(b, &p.ldb);
    p.step_a = rank == 3 ? a->strides[0] : 0;
    p.step_b = rank == 3 ? b->strides[0] : 0;
    p.step_c = p.m * p.n;
    static const char *const names[] = {"gemm_f32_nn", "gemm_f32_nt", "gemm_f32_tn", "gemm_f32_tt"};
    static const char *const batched[] = {"batched_gemm_f32_nn", "batched_gemm_f32_nt",
                                          "batched_gemm_f32_tn", "batched_gemm_f32_tt"};
    launch_product((rank == 3 ? batched : names)[2 * p.transpose_a + p.transpose_b], &p);
    return out;
}

static tensor *multiply_transposed(tensor *a, tensor *b, bool transpose_a)
{
    tensor *t = op_t(transpose_a ? a : b);
    return then(t, transpose_a ? op_mm(t, b) : op_mm(a, t));
}

/* If the second operand is a transposed view, so is its gradient: that of the weight itself is
 * contiguous then. */
static tensor *compute_second_grad(tensor *first, tensor *second, tensor *grad)
{
    if (second->strides[0] != 1)
        return multiply_transposed(first, grad, true);
    tensor *transposed = multiply_transposed(grad, first, true);
    return then(transposed, op_t(transposed));
}

static void addmm_backward(node *n, tensor *const *outputs, tensor **inputs)
{
    inputs[1] = multiply_transposed(outputs[0], n->saved[1], false);
    inputs[2] = compute_second_grad(n->saved[0], n->saved[1], outputs[0]);
    inputs[0] = op_sum(outputs[0]);
}

/* aten::addmm: the bias is added to each row. */
tensor *op_addmm(tensor *bias, tensor *a, tensor *b)
{
    NODE_TYPE(type, "AddmmBackward0", addmm_backward);
    OP(op, "aten::addmm", in_tensor(bias), in_tensor(a), in_tensor(b), kineto_input_int(1),
       kineto_input_int(1));
    tensor *out = run_product(bias, a, b), *inputs[] = {bias, a, b};
    node *n = grad_node(&type, inputs, 3);
    grad_save(n, 0, a);
    grad_save(n, 1, b);
    grad_output(n, out, 0);
    return op_end(&op, out);
}

static void mm_backward(node *n, tensor *const *outputs, tensor **inputs)
{
    inputs[0] = multiply_transposed(outputs[0], n->saved[1], false);
    inputs[1] = compute_second_grad(n->saved[0], n->saved[1], outputs[0]);
}

/* aten::mm, for two matrices. */
tensor *op_mm(tensor *a, tensor *b)
{
    NODE_TYPE(type, "MmBackward0", mm_backward);
    OP(op, "aten::mm", in_tensor(a), in_tensor(b));
    tensor *out = run_product(NULL, a, b), *inputs[] = {a, b};
    node *n = grad_node(&type, inputs, 2);
    grad_save(n, 0, a);
    grad_save(n, 1, b);
    grad_output(n, out, 0);
    return op_end(&op, out);
}

static void bmm_backward(node *n, tensor *const *outputs, tensor **inputs)
{
    tensor *b = op_transpose(n->saved[1], 1, 2), *a = op_transpose(n->saved[0], 1, 2);
    inputs[0] = then(b, op_bmm(outputs[0], b));
    inputs[1] = then(a, op_bmm(a, outputs[0]));
}

/* aten::bmm, for batches of matrices. */
tensor *op_bmm(tensor *a, tensor *b)
{
    NODE_TYPE(type, "BmmBackward0", bmm_backward);
    OP(op, "aten::bmm", in_tensor(a), in_tensor(b));
    tensor *out = run_product(NULL, a, b), *inputs[] = {a, b};
    node *n = grad_node(&type, inputs, 2);
    grad_save(n, 0, a);
    grad_save(n, 1, b);
    grad_output(n, out, 0);
    return op_end(&op, out);
}

/* As in PyTorch: a transposed view of the weight and aten::addmm. */
tensor *op_linear(tensor *x, tensor *weight, tensor *bias)
{
    OP(op, "aten::linear", in_tensor(x), in_tensor(weight), in_tensor(bias));
    tensor *t = op_t(weight), *out;
    if (bias) {
        out = op_addmm(bias, x, t);
    } else {
        OP(matmul, "aten::matmul", in_tensor(x), in_tensor(t));
        out = op_end(&matmul, op_mm(x, t));
    }
    tensor_release(t);
    return op_end(&op, out);
}

/* ---- sums and factors ------------------------------------------------------------------------ */

/* Only the first dimension, which is what bias gradients need. */
tensor *op_sum(tensor *x)
{
    static const int64_t dimensions[] = {0};
    OP(op, "aten::sum", in_tensor(x), kineto_input_ints(dimensions, 1), kineto_input_bool(false),
       kineto_input_of(KINETO_INPUT_NONE, 0));
    tensor *out = tensor_new(KINETO_DTYPE_FLOAT, x->meta.rank - 1, x->sizes + 1);
    launch_sum_rows(floats(out), floats(x), x->sizes[0], tensor_count(out));
    return op_end(&op, out);
}

/* The gradient of a broadcast operand: the sum over its copies. */
static tensor *sum_to_shape(tensor *grad, uint32_t rank, const int64_t *sizes)
{
    int64_t flat[2] = {1, 1};
    for (uint32_t i = 0; i < rank; i++)
        flat[1] *= sizes[i];
    flat[0] = tensor_count(grad) / flat[1];
    tensor *rows = op_view(grad, 2, flat);
    tensor *sum = then(rows, op_sum(rows));
    return then(sum, op_view(sum, rank, sizes));
}

static void add_backward(node *n, tensor *const *outputs, tensor **inputs)
{
    inputs[0] = tensor_retain(outputs[0]);
    inputs[1] = n->rank == outputs[0]->meta.rank ? tensor_retain(outputs[0])
                                                 : sum_to_shape(outputs[0], n->rank, n->sizes);
}

/* The gradient of a broadcast operand is summed over its copies. */
tensor *op_add(tensor *a, tensor *b)
{
    NODE_TYPE(type, "AddBackward0", add_backward);
    OP(op, "aten::add", in_tensor(a), in_tensor(b), kineto_input_int(1));
    tensor *out = tensor_like(a), *inputs[] = {a, b};
    launch_elementwise(ELEMENT_ADD, floats(out), floats(a), floats(b), 0, tensor_count(a),
                       tensor_count(b) == tensor_count(a) ? 0 : tensor_count(b));
    node *n = grad_node(&type, inputs, 2);
    if (n) {
        n->rank = b->meta.rank;
        for (uint32_t i = 0; i < n->rank; i++)
            n->sizes[i] = b->sizes[i];
    }
    grad_output(n, out, 0);
    return op_end(&op, out);
}

static void mul_backward(node *n, tensor *const *outputs, tensor **inputs)
{
    inputs[0] = op_scale(outputs[0], n->value);
}

/* aten::mul with a number. */
tensor *op_scale(tensor *x, double factor)
{
    NODE_TYPE(type, "MulBackward0", mul_backward);
    OP(op, "aten::mul", in_tensor(x), kineto_input_double(factor));
    tensor *out = tensor_like(x);
    launch_elementwise(ELEMENT_SCALE, floats(out), floats(x), NULL, (float)factor, tensor_count(x),
                       0);
    node *n = grad_node(&type, &x, 1);
    if (n)
        n->value = factor;
    grad_output(n, out, 0);
    return op_end(&op, out);
}

tensor *op_ones_like(tensor *x)
{
    OP(op, "aten::ones_like", in_tensor(x));
    tensor *out = tensor_like(x);
    OP(fill, "aten::fill_", in_tensor(out), kineto_input_int(1));
    launch_elementwise(ELEMENT_FILL, floats(out), NULL, NULL, 1, tensor_count(x), 0);
    op_end(&fill, out);
    return op_end(&op, out);
}

/* ---- optimizers ------------------------------------------------------------------------------ */

static void run_in_place(elementwise_op op, tensor *x, const tensor *a, const tensor *b,
                         double value)
{
    launch_elementwise(op, floats(x), floats(a), b ? floats(b) : NULL, (float)value,
                       tensor_count(x), 0);
}

void op_lerp_(tensor *x, tensor *end, double weight)
{
    OP(op, "aten::lerp_", in_tensor(x), in_tensor(end), kineto_input_double(weight));
    run_in_place(ELEMENT_LERP, x, x, end, weight);
    op_end(&op, x);
}

void op_scale_(tensor *x, double factor)
{
    OP(op, "aten::mul_", in_tensor(x), kineto_input_double(factor));
    run_in_place(ELEMENT_SCALE, x, x, NULL, factor);
    op_end(&op, x);
}

void op_addcmul_(tensor *x, tensor *a, tensor *b, double value)
{
    OP(op, "aten::addcmul_", in_tensor(x), in_tensor(a), in_tensor(b), kineto_input_double(value));
    run_in_place(ELEMENT_ADDCMUL, x, a, b, value);
    op_end(&op, x);
}

tensor *op_sqrt(tensor *x)
{
    OP(op, "aten::sqrt", in_tensor(x));
    tensor *out = tensor_like(x);
    run_in_place(ELEMENT_SQRT, out, x, NULL, 0);
    return op_end(&op, out);
}

void op_add_scalar_(tensor *x, double value)
{
    OP(op, "aten::add_", in_tensor(x), kineto_input_double(value), kineto_input_int(1));
    run_in_place(ELEMENT_ADD_VALUE, x, x, NULL, value);
    op_end(&op, x);
}

void op_addcdiv_(tensor *x, tensor *a, tensor *b, double value)
{
    OP(op, "aten::addcdiv_", in_tensor(x), in_tensor(a), in_tensor(b), kineto_input_double(value));
    run_in_place(ELEMENT_ADDCDIV, x, a, b, value);
    op_end(&op, x);
}
