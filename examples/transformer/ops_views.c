/* Reports of operators to profilers; views, and copies that make views contiguous. */
#include "device.h"
#include "kernels.h"
#include "ops.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- reports to profilers -------------------------------------------------------------------- */

static _Atomic uint64_t operator_count;
static _Thread_local char module_names[MAX_MODULES];

void op_count(void) { atomic_fetch_add_explicit(&operator_count, 1, memory_order_relaxed); }

uint64_t op_total(void) { return operator_count; }

const char *module_path(void) { return module_names; }

void module_enter(const char *name)
{
    size_t length = strlen(module_names);
    snprintf(module_names + length, sizeof module_names - length, "%s.", name);
}

void module_leave(void)
{
    size_t length = strlen(module_names);
    while (length > 1 && module_names[length - 2] != '.')
        length--;
    module_names[length > 1 ? length - 1 : 0] = '\0';
}

/* Sets the modules, and the sequence number if a node will be made. */
kineto_function_info describe(const kineto_input *inputs, size_t count)
{
    kineto_function_info info;
    kineto_function_info_init(&info);
    info.inputs = inputs;
    info.input_count = (uint32_t)count;
    info.sequence_number = grad_next_sequence();
    info.modules = module_names[0] ? module_names : NULL;
    return info;
}

tensor *op_end(kineto_function *op, tensor *output)
{
    const kineto_input out = in_tensor(output);
    if (output && op->state)
        kineto_function_set_outputs(op, &out, 1);
    kineto_function_end(op);
    return output;
}

/* ---- view ------------------------------------------------------------------------------------ */

/* Stores the sizes of the input, which the gradient of a view restores. */
static void keep_sizes(node *n, const tensor *x)
{
    if (!n)
        return;
    n->rank = x->meta.rank;
    memcpy(n->sizes, x->sizes, sizeof n->sizes);
}

static void view_backward(node *n, tensor *const *outputs, tensor **inputs)
{
    inputs[0] = op_reshape(outputs[0], n->rank, n->sizes);
}

/* The tensor must be contiguous. */
tensor *op_view(tensor *x, uint32_t rank, const int64_t *sizes)
{
    NODE_TYPE(type, "ViewBackward0", view_backward);
    OP(op, "aten::view", in_tensor(x), kineto_input_ints(sizes, rank));
    tensor *out = tensor_alias(x, rank, sizes, NULL, 0);
    node *n = grad_node(&type, &x, 1);
    keep_sizes(n, x);
    grad_output(n, out, 0);
    return op_end(&op, out);
}

tensor *op_reshape(tensor *x, uint32_t rank, const int64_t *sizes)
{
    OP(op, "aten::reshape", in_tensor(x), kineto_input_ints(sizes, rank));
    tensor *whole = op_contiguous(x);
    return op_end(&op, then(whole, op_view(whole, rank, sizes)));
}

/* ---- permute --------------------------------------------------------------------------------- */

/* A view with its dimensions in another order; no data is copied. */
static tensor *make_permuted_view(const tensor *x, const int64_t *order)
{
    int64_t sizes[MAX_RANK], strides[MAX_RANK];
    for (uint32_t i = 0; i < x->meta.rank; i++) {
        sizes[i] = x->sizes[order[i]];
        strides[i] = x->strides[order[i]];
    }
    return tensor_alias(x, x->meta.rank, sizes, strides, 0);
}

static void permute_backward(node *n, tensor *const *outputs, tensor **inputs)
{
    int64_t back[MAX_RANK];
    for (uint32_t i = 0; i < n->rank; i++)
        back[n->sizes[i]] = i;
    inputs[0] = op_permute(outputs[0], back);
}

/* A view: order[i] is the dimension that becomes dimension i. */
tensor *op_permute(tensor *x, const int64_t *order)
{
    NODE_TYPE(type, "PermuteBackward0", permute_backward);
    OP(op, "aten::permute", in_tensor(x), kineto_input_ints(order, x->meta.rank));
    tensor *out = make_permuted_view(x, order);
    node *n = grad_node(&type, &x, 1);
    if (n) {
        n->rank = x->meta.rank;
        memcpy(n->sizes, order, n->rank * sizeof *order);
    }
    grad_output(n, out, 0);
    return op_end(&op, out);
}

static void transpose_backward(node *n, tensor *const *outputs, tensor **inputs)
{
    inputs[0] = op_transpose(outputs[0], n->sizes[0], n->sizes[1]);
}

/* A view with two dimensions exchanged. */
tensor *op_transpose(tensor *x, int64_t a, int64_t b)
{
    NODE_TYPE(type, "TransposeBackward0", transpose_backward);
    OP(op, "aten::transpose", in_tensor(x), kineto_input_int(a), kineto_input_int(b));
    int64_t order[MAX_RANK] = {0, 1, 2, 3, 4};
    order[a] = b;
    order[b] = a;
    tensor *out = make_permuted_view(x, order);
    node *n = grad_node(&type, &x, 1);
    if (n) {
        n->sizes[0] = a;
        n->sizes[1] = b;
    }
    grad_output(n, out, 0);
    return op_end(&op, out);
}

static void t_backward(node *n, tensor *const *outputs, tensor **inputs)
{
    (void)n;
    inputs[0] = op_t(outputs[0]);
}

/* aten::t, the transpose of a matrix. */
tensor *op_t(tensor *x)
{
    NODE_TYPE(type, "TBackward0", t_backward);
    OP(op, "aten::t", in_tensor(x));
    node *n = grad_node(&type, &x, 1);
    bool was = grad_enable(false);
    tensor *out = op_transpose(x, 0, 1);
    grad_enable(was);
    grad_output(n, out, 0);
    return op_end(&op, out);
}

/* ---- copies ---------------------------------------------------------------------------------- */

/* Copies a strided tensor to contiguous memory. */
static void copy_into(const char *name, void *to, const tensor *x)
{
    strided s = {.to = to, .from = tensor_data(x), .rank = x->meta.rank};
    s.bytes = x->meta.dtype == KINETO_DTYPE_INT64 ? 8 : 4;
    memcpy(s.sizes, x->sizes, sizeof s.sizes);
    memcpy(s.strides, x->strides, sizeof s.strides);
    launch_copy(name, &s);
}

static void clone_backward(node *n, tensor *const *outputs, tensor **inputs)
{
    (void)n;
    inputs[0] = tensor_retain(outputs[0]);
}

/* A contiguous copy, with a gradient. */
static tensor *clone_contiguous(tensor *x)
{
    NODE_TYPE(type, "CloneBackward0", clone_backward);
    OP(op, "aten::clone", in_tensor(x));
    node *n = grad_node(&type, &x, 1);
    tensor *out = tensor_like(x);
    bool was = grad_enable(false);
    OP(copy, "aten::copy_", in_tensor(out), in_tensor(x), kineto_input_bool(false));
    copy_into("copy_f32", tensor_data(out), x);
    op_end(&copy, out);
    grad_enable(was);
    grad_output(n, out, 0);
    return op_end(&op, out);
}

/* Returns the tensor itself if it is contiguous already. */
tensor *op_contiguous(tensor *x)
{
    if (tensor_is_contiguous(x))
        return tensor_retain(x);
    OP(op, "aten::contiguous", in_tensor(x));
    return op_end(&op, clone_contiguous(x));
}

tensor *op_detach(tensor *x)
{
    OP(op, "aten::detach", in_tensor(x));
    return op_end(&op, tensor_alias(x, x->meta.rank, x->sizes, x->strides, 0));
}

/* ---- parts ----------------------------------------------------------------------------------- */

/* Joins gradients of parts; parts without one count as zero. */
static tensor *stack_parts(tensor *const *parts, uint32_t count, uint32_t rank,
                           const int64_t *sizes)
{
    kineto_tensor metas[MAX_OUTPUTS];
    for (uint32_t i = 0; i < count; i++)
        metas[i] = parts[i] ? parts[i]->meta : (kineto_tensor){.rank = 0};
    OP(op, "aten::stack", kineto_input_tensors(metas, count), kineto_input_int(0));
    OP(cat, "aten::cat", kineto_input_tensors(metas, count), kineto_input_int(0));
    tensor *out = tensor_new(KINETO_DTYPE_FLOAT, rank, sizes);
    int64_t each = tensor_count(out) / count;
    for (uint32_t i = 0; i < count; i++) {
        float *to = floats(out) + i * each;
        if (parts[i])
            copy_into("cat_f32", to, parts[i]);
        else
            launch_elementwise(ELEMENT_FILL, to, NULL, NULL, 0, each, 0);
    }
    op_end(&cat, out);
    return op_end(&op, out);
}

static void unbind_backward(node *n, tensor *const *outputs, tensor **inputs)
{
    inputs[0] = stack_parts(outputs, (uint32_t)n->sizes[0], n->rank, n->sizes);
}

/* Views of the parts; each output has a gradient of its own. */
void op_unbind(tensor *x, tensor **parts)
{
    NODE_TYPE(type, "UnbindBackward0", unbind_backward);
    OP(op, "aten::unbind", in_tensor(x), kineto_input_int(0));
    node *n = grad_node(&type, &x, 1);
    keep_sizes(n, x);
    for (uint32_t i = 0; i < (uint32_t)x->sizes[0]; i++) {
        parts[i] =
            tensor_alias(x, x->meta.rank - 1, x->sizes + 1, x->strides + 1, i * x->strides[0]);
        grad_output(n, parts[i], i);
    }
    op_end(&op, NULL);
}

/* ---- between host and device ----------------------------------------------------------------- */

/* The data must stay valid until the device has copied it. */
void op_copy_from_host(tensor *x, const void *data)
{
    OP(op, "aten::copy_", in_tensor(x), in_tensor(x), kineto_input_bool(false));
    device_upload(tensor_data(x), data, tensor_bytes(x));
    device_synchronize();
    op_end(&op, NULL);
}

/* Waits for the device, since the host needs the value. */
double op_item(tensor *x)
{
    float value;
    OP(op, "aten::item", in_tensor(x));
    OP(dense, "aten::_local_scalar_dense", in_tensor(x));
    device_synchronize();
    device_download(&value, tensor_data(x), sizeof value);
    device_synchronize();
    op_end(&dense, NULL);
    op_end(&op, NULL);
    return (double)value;
}
