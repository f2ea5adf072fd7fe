/* FLOPs of convolutions, forward and backward. Each element of the output takes one multiplication
 * and one addition for each element of the kernel and each input channel of its group; kernel
 * elements that reach into the padding are counted as well. A transposed convolution does the same
 * with input and output exchanged, and so does each of the two gradients (of the input, of the
 * weight) of either. The bias is not counted. */
#include "analyze/summary/flops.h"

/* Spatial dimensions; PyTorch has up to 3. */
#define MAX_SPATIAL 8u

/* Indices of rule->at. Input 0 is the one that is convolved. */
enum { WEIGHT, STRIDE, PADDING, DILATION, TRANSPOSED };
/* Value of TRANSPOSED for operators that always are, in place of the index of a flag. */
#define ALWAYS (-2)

/* A parameter with a value for each spatial dimension, or one for all. False if it is malformed;
 * `initial` if the operator does not have it. */
static bool get_conv_parameter(const kineto_flops_inputs *in, int at, uint32_t spatial,
                               int64_t initial, int64_t *values)
{
    uint32_t count = 1;
    values[0] = initial;
    if (at >= 0 && (size_t)at < in->count) {
        kineto_string text = in->data[at].concrete;
        if (!text.size || !ka_flops_numbers(text, values, spatial, &count))
            return false;
    }
    for (uint32_t i = 1; count == 1 && i < spatial; i++)
        values[i] = values[0];
    return count == 1 || count == spatial;
}

/* Size of an output: (in + 2 * padding - dilation * (kernel - 1) - 1) / stride + 1. */
static bool compute_output_size(int64_t in, int64_t kernel, int64_t stride, int64_t padding,
                                int64_t dilation, int64_t *out)
{
    int64_t reach, room;
    if (in < 0 || kernel < 1 || stride < 1 || padding < 0 || dilation < 1)
        return false;
    if (__builtin_mul_overflow(dilation, kernel - 1, &reach) ||
        __builtin_mul_overflow(padding, (int64_t)2, &room) ||
        __builtin_add_overflow(room, in, &room) || __builtin_sub_overflow(room, reach, &room) ||
        room < 1)
        return false;
    *out = (room - 1) / stride + 1;
    return true;
}

/* padding="same" keeps the sizes; "valid" is no padding. False: the padding is not named. */
static bool get_named_padding(const kineto_flops_inputs *in, int at, bool *is_same)
{
    if (at < 0 || (size_t)at >= in->count)
        return false;
    *is_same = kb_string_equal(in->data[at].concrete, kb_string("same"));
    return *is_same || kb_string_equal(in->data[at].concrete, kb_string("valid"));
}

/* Spatial sizes of the output from those of the input and of the kernel. */
static bool compute_output_sizes(const ka_flops_rule *rule, const kineto_flops_inputs *in,
                                 const int64_t *input, const int64_t *kernel, uint32_t spatial,
                                 int64_t *out)
{
    int64_t stride[MAX_SPATIAL], padding[MAX_SPATIAL] = {0}, dilation[MAX_SPATIAL];
    KB_ASSERT(spatial <= MAX_SPATIAL);
    bool is_same = false, is_named = get_named_padding(in, rule->at[PADDING], &is_same);
    if (!get_conv_parameter(in, rule->at[STRIDE], spatial, 1, stride) ||
        !get_conv_parameter(in, rule->at[DILATION], spatial, 1, dilation) ||
        (!is_named && !get_conv_parameter(in, rule->at[PADDING], spatial, 0, padding)))
        return false;
    for (uint32_t i = 0; i < spatial; i++) {
        if (is_same)
            out[i] = input[i];
        else if (!compute_output_size(input[i], kernel[i], stride[i], padding[i], dilation[i],
                                      &out[i]))
            return false;
    }
    return true;
}

/* 2 * batch * positions * elements of the weight: the weight is [out, in / groups, kernel...], or
 * [in, out / groups, kernel...] where transposed, and so holds groups already. */
static bool multiply_conv_work(uint64_t batch, const int64_t *positions,
                               const kineto_flops_input *weight, uint64_t *flops)
{
    uint64_t places, elements;
    if (!ka_flops_product(positions, weight->rank - 2, &places) ||
        !ka_flops_product(weight->dims, weight->rank, &elements))
        return false;
    if (!batch || !places || !elements)
        *flops = 0;
    else
        *flops =
            ka_flops_multiply(ka_flops_multiply(2, batch), ka_flops_multiply(places, elements));
    return true;
}

/* out: whether this call is transposed. False if the flag is malformed. */
static bool get_transposed(const ka_flops_rule *rule, const kineto_flops_inputs *in, bool *out)
{
    int64_t flag = 0;
    int at = rule->at[TRANSPOSED];
    if (at == ALWAYS)
        flag = 1;
    else if (!get_conv_parameter(in, at, 1, 0, &flag))
        return false;
    *out = flag != 0;
    return true;
}

/* The tensor at `at` with spatial sizes like the weight's: [batch, channels, sizes...], or without
 * the batch. It has `channels`, or whole groups of them. */
static bool get_conv_tensor(const kineto_flops_inputs *in, int at, const kineto_flops_input *weight,
                            int64_t channels, bool grouped, uint64_t *batch, const int64_t **sizes)
{
    const kineto_flops_input *x = ka_flops_tensor(in, at);
    if (!x || x->rank > weight->rank || x->rank + 1 < weight->rank || channels < 1)
        return false;
    uint32_t first = x->rank == weight->rank;
    int64_t there = x->dims[first];
    if ((first && x->dims[0] < 0) || (grouped ? there % channels != 0 : there != channels))
        return false;
    *batch = first ? (uint64_t)x->dims[0] : 1;
    *sizes = x->dims + first + 1;
    return true;
}

/* An input that can be a weight: at least one spatial dimension and not too many. */
static const kineto_flops_input *get_weight_tensor(const kineto_flops_inputs *in, int at)
{
    const kineto_flops_input *w = ka_flops_tensor(in, at);
    return w && w->rank >= 3 && w->rank - 2 <= MAX_SPATIAL ? w : NULL;
}

bool ka_flops_conv(const ka_flops_rule *rule, const kineto_flops_inputs *in, uint64_t *flops)
{
    const kineto_flops_input *weight = get_weight_tensor(in, rule->at[WEIGHT]);
    const int64_t *sizes;
    int64_t out[MAX_SPATIAL];
    uint64_t batch;
    bool transposed;
    if (!weight || !get_transposed(rule, in, &transposed) ||
        !get_conv_tensor(in, 0, weight, weight->dims[!transposed], !transposed, &batch, &sizes))
        return false;
    if (transposed)
        return multiply_conv_work(batch, sizes, weight, flops);
    return compute_output_sizes(rule, in, sizes, weight->dims + 2, weight->rank - 2, out) &&
           multiply_conv_work(batch, out, weight, flops);
}

/* ---- backward -------------------------------------------------------------------------------- */

/* Indices of rule->at. B_SIZES: the input with the weight's sizes as numbers, for operators that do
 * not get the weight itself. */
enum { B_GRAD, B_INPUT, B_WEIGHT, B_TRANSPOSED, B_MASK, B_SIZES };

/* How many of the two gradients the call computes. The mask is [input, weight] or [input, weight,
 * bias]. */
static bool count_wanted_gradients(const ka_flops_rule *rule, const kineto_flops_inputs *in,
                                   uint64_t *count)
{
    int64_t mask[3] = {1, 0, 0};
    uint32_t flags = 2;
    int at = rule->at[B_MASK];
    if (at != KA_FLOPS_NO_INPUT &&
        ((size_t)at >= in->count || !ka_flops_numbers(in->data[at].concrete, mask, 3, &flags) ||
         flags < 2))
        return false;
    *count = (uint64_t)(mask[0] != 0) + (uint64_t)(mask[1] != 0);
    return true;
}

/* The weight, or a tensor `made` from its sizes; NULL: neither is usable. */
static const kineto_flops_input *get_weight_or_sizes(const ka_flops_rule *rule,
                                                     const kineto_flops_inputs *in,
                                                     kineto_flops_input *made, int64_t *dims)
{
    int at = rule->at[B_SIZES];
    if (at == KA_FLOPS_NO_INPUT)
        return get_weight_tensor(in, rule->at[B_WEIGHT]);
    uint32_t rank;
    if ((size_t)at >= in->count ||
        !ka_flops_numbers(in->data[at].concrete, dims, MAX_SPATIAL + 2, &rank) || rank < 3)
        return NULL;
    *made = (kineto_flops_input){.dims = dims, .rank = rank};
    return made;
}

bool ka_flops_conv_backward(const ka_flops_rule *rule, const kineto_flops_inputs *in,
                            uint64_t *flops)
{
    kineto_flops_input made;
    int64_t dims[MAX_SPATIAL + 2];
    const kineto_flops_input *weight = get_weight_or_sizes(rule, in, &made, dims);
    const int64_t *sizes;
    uint64_t batch, count, one;
    bool transposed = false;
    ka_flops_rule flag = {.at = {[TRANSPOSED] = rule->at[B_TRANSPOSED]}};
    if (!weight || !count_wanted_gradients(rule, in, &count) ||
        !get_transposed(&flag, in, &transposed))
        return false;
    /* The tensor whose positions each take a whole kernel: the output, or the input if
     * transposed. */
    int side = transposed ? rule->at[B_INPUT] : rule->at[B_GRAD];
    if (!get_conv_tensor(in, side, weight, weight->dims[0], false, &batch, &sizes) ||
        !multiply_conv_work(batch, sizes, weight, &one))
        return false;
    *flops = ka_flops_multiply(count, one);
    return true;
}

/* ---- queries of flops_context.c --------------------------------------------------------------- */

int ka_flops_forward_weight(const ka_flops_rule *rule)
{
    return rule->count == ka_flops_conv && rule->at[TRANSPOSED] == KA_FLOPS_NO_INPUT
               ? rule->at[WEIGHT]
               : -1;
}

bool ka_flops_lacks_weight(const ka_flops_rule *rule)
{
    return rule->count == ka_flops_conv_backward && rule->at[B_SIZES] != KA_FLOPS_NO_INPUT;
}

ka_flops_backward_inputs ka_flops_backward_inputs_of(const ka_flops_rule *rule)
{
    if (rule->count != ka_flops_conv_backward)
        return (ka_flops_backward_inputs){-1, -1, -1, true};
    return (ka_flops_backward_inputs){rule->at[B_GRAD], rule->at[B_INPUT], rule->at[B_WEIGHT],
                                      rule->at[B_TRANSPOSED] != KA_FLOPS_NO_INPUT};
}

ka_flops_rule ka_flops_gradient_rule(int gradient, int weight)
{
    return (ka_flops_rule){.count = ka_flops_conv_backward,
                           .at = {[B_GRAD] = (int8_t)gradient,
                                  [B_INPUT] = KA_FLOPS_NO_INPUT,
                                  [B_WEIGHT] = (int8_t)weight,
                                  [B_TRANSPOSED] = KA_FLOPS_NO_INPUT,
                                  [B_MASK] = KA_FLOPS_NO_INPUT,
                                  [B_SIZES] = KA_FLOPS_NO_INPUT}};
}
