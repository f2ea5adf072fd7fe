/* Operators: each is a RecordFunction with its inputs, a kernel, and a node for its gradient.
 * Results belong to the caller. */
#ifndef TRANSFORMER_OPS_H
#define TRANSFORMER_OPS_H

#include "autograd.h"

/* ---- reports to profilers -------------------------------------------------------------------- */

/* Begin an operator: OP(op, "aten::mm", in_tensor(a), in_tensor(b)); … op_end(&op, out); */
#define OP(var, name, ...)                                                                         \
    KINETO_OPERATOR(var##_site, name);                                                             \
    kineto_function var;                                                                           \
    var.state = 0;                                                                                 \
    op_count();                                                                                    \
    if (kineto_function_wanted(&var##_site)) {                                                     \
        const kineto_input var##_in[] = {__VA_ARGS__};                                             \
        kineto_function_info var##_info =                                                          \
            describe(var##_in, sizeof var##_in / sizeof var##_in[0]);                              \
        kineto_function_record_begin_info(&var, &var##_site, &var##_info);                                \
    }
/* The information that profilers get about an operator. */
kineto_function_info describe(const kineto_input *inputs, size_t count);
/* End an operator with this result, which is returned; NULL: none. */
tensor *op_end(kineto_function *op, tensor *output);
void op_count(void);
/* Number of operators that have run, without annotations and the engine's functions. */
uint64_t op_total(void);

/* The path of modules that operators of the calling thread belong to: "Transformer.Block_0.". */
void module_enter(const char *name);
void module_leave(void);
const char *module_path(void);

/* ---- views ----------------------------------------------------------------------------------- */

tensor *op_view(tensor *x, uint32_t rank, const int64_t *sizes);
tensor *op_permute(tensor *x, const int64_t *order);
tensor *op_t(tensor *x);
tensor *op_transpose(tensor *x, int64_t a, int64_t b);
tensor *op_contiguous(tensor *x);
tensor *op_reshape(tensor *x, uint32_t rank, const int64_t *sizes);
/* The parts of the first dimension, which has at most MAX_OUTPUTS. */
void op_unbind(tensor *x, tensor **parts);
tensor *op_detach(tensor *x);

/* ---- arithmetic ------------------------------------------------------------------------------ */

tensor *op_mm(tensor *a, tensor *b);
tensor *op_addmm(tensor *bias, tensor *a, tensor *b);
tensor *op_bmm(tensor *a, tensor *b);
tensor *op_linear(tensor *x, tensor *weight, tensor *bias);
/* b may lack leading dimensions of a. */
tensor *op_add(tensor *a, tensor *b);
tensor *op_scale(tensor *x, double factor);
/* Over the first dimension. */
tensor *op_sum(tensor *x);
tensor *op_ones_like(tensor *x);

/* ---- neural networks ------------------------------------------------------------------------- */

tensor *op_embedding(tensor *weight, tensor *indices);
tensor *op_layer_norm(tensor *x, tensor *weight, tensor *bias, double epsilon);
tensor *op_gelu(tensor *x);
tensor *op_masked_fill(tensor *x, tensor *mask, double value);
tensor *op_softmax(tensor *x);
tensor *op_cross_entropy(tensor *logits, tensor *targets);

/* ---- optimizers, in place -------------------------------------------------------------------- */

void op_lerp_(tensor *x, tensor *end, double weight);
void op_scale_(tensor *x, double factor);
void op_addcmul_(tensor *x, tensor *a, tensor *b, double value);
tensor *op_sqrt(tensor *x);
void op_add_scalar_(tensor *x, double value);
void op_addcdiv_(tensor *x, tensor *a, tensor *b, double value);

/* ---- between host and device ----------------------------------------------------------------- */

void op_copy_from_host(tensor *x, const void *data);
double op_item(tensor *x);

#endif
