/* The table of operators whose FLOPs are known, and the formulas of products, sums and attention
 * (convolutions: flops_conv.c). docs/reference/summaries.md explains them. Input indices are those of the
 * operators' schemas in aten/src/ATen/native/native_functions.yaml. */
#include "analyze/summary/flops.h"

/* ---- products -------------------------------------------------------------------------------- */

/* Indices of rule->at: the two factors, and the ranks that they must have (0: any but 0). */
enum { LEFT, RIGHT, LEFT_RANK, RIGHT_RANK };

static bool has_rank(const kineto_flops_input *x, int rank)
{
    return x && (rank ? x->rank == (uint32_t)rank : x->rank > 0);
}

/* [..., m, k] x [..., k, n]: 2 * m * k * n for each matrix of the broadcast batch; a vector is a
 * matrix of one row on the left, of one column on the right. */
static bool count_matmul(const ka_flops_rule *rule, const kineto_flops_inputs *in, uint64_t *flops)
{
    const kineto_flops_input *a = ka_flops_tensor(in, rule->at[LEFT]);
    const kineto_flops_input *b = ka_flops_tensor(in, rule->at[RIGHT]);
    if (!has_rank(a, rule->at[LEFT_RANK]) || !has_rank(b, rule->at[RIGHT_RANK]))
        return false;
    int64_t m = a->rank > 1 ? a->dims[a->rank - 2] : 1, k = a->dims[a->rank - 1];
    int64_t n = b->rank > 1 ? b->dims[b->rank - 1] : 1;
    int64_t rows = b->dims[b->rank > 1 ? b->rank - 2 : 0];
    uint64_t batch, one;
    if (k != rows || !ka_flops_product((int64_t[]){m, k, n}, 3, &one) ||
        !ka_flops_broadcast(a->dims, a->rank > 2 ? a->rank - 2 : 0, b->dims,
                            b->rank > 2 ? b->rank - 2 : 0, &batch))
        return false;
    *flops = one && batch ? ka_flops_multiply(2, ka_flops_multiply(batch, one)) : 0;
    return true;
}

/* LEFT: [..., k], RIGHT: the weight, [n, k] or [k]: 2 * elements of the input * n. */
static bool count_linear(const ka_flops_rule *rule, const kineto_flops_inputs *in, uint64_t *flops)
{
    const kineto_flops_input *x = ka_flops_tensor(in, rule->at[LEFT]);
    const kineto_flops_input *w = ka_flops_tensor(in, rule->at[RIGHT]);
    uint64_t elements, weights;
    if (!x || !w || x->rank == 0 || w->rank == 0 || w->rank > 2 ||
        x->dims[x->rank - 1] != w->dims[w->rank - 1] ||
        !ka_flops_product(x->dims, x->rank, &elements) ||
        !ka_flops_product(w->dims, w->rank, &weights))
        return false;
    uint64_t n = w->rank == 2 ? (uint64_t)w->dims[0] : 1;
    *flops = elements && weights ? ka_flops_multiply(2, ka_flops_multiply(elements, n)) : 0;
    return true;
}

/* One operation for each element of what the first two inputs broadcast to. */
static bool count_elementwise(const ka_flops_rule *rule, const kineto_flops_inputs *in,
                              uint64_t *flops)
{
    const kineto_flops_input *a = ka_flops_tensor(in, rule->at[LEFT]);
    const kineto_flops_input *b = ka_flops_tensor(in, rule->at[RIGHT]);
    return a && b && ka_flops_broadcast(a->dims, a->rank, b->dims, b->rank, flops);
}

/* ---- attention ------------------------------------------------------------------------------- */

/* Entries of rule->at: the query, followed by key and value; whether the heads are the second size
 * ([batch, heads, length, width], 0) or the third ([batch, length, heads, width], 1); the number of
 * products over the width of the query, and of the value; an input that makes the sizes
 * meaningless. */
enum { QUERY, HEADS_LAST, QUERY_TIMES, VALUE_TIMES, UNLESS };

/* [..., length, width] of an input; `outer` are the sizes of the batch before them. */
typedef struct attention_side {
    const int64_t *outer;
    uint32_t outer_count;
    int64_t heads, length, width;
} attention_side;

/* The sizes of query, key or value; false: not a tensor of enough dimensions. */
static bool get_attention_side(const kineto_flops_inputs *in, int at, bool heads_last,
                               attention_side *out)
{
    const kineto_flops_input *x = ka_flops_tensor(in, at);
    if (!x || x->rank < (heads_last ? 4u : 2u))
        return false;
    const int64_t *last = x->dims + x->rank;
    out->width = last[-1];
    out->length = last[heads_last ? -3 : -2];
    out->heads = x->rank < 3 ? 1 : last[heads_last ? -2 : -3];
    out->outer = x->dims;
    out->outer_count = x->rank < 3 ? 0 : x->rank - 3;
    return true;
}

/* Batches times heads. Several heads of the query may share one of key and value (grouped-query
 * attention). */
static bool count_attention_batch(const attention_side *q, const attention_side *k, uint64_t *batch)
{
    int64_t heads = KB_MAX(q->heads, k->heads);
    bool shared = k->heads > 0 && q->heads > 0 && q->heads % k->heads == 0;
    if (q->heads != k->heads && q->heads != 1 && !shared)
        return false;
    if (heads < 0 || !ka_flops_broadcast(q->outer, q->outer_count, k->outer, k->outer_count, batch))
        return false;
    *batch = ka_flops_multiply(*batch, (uint64_t)heads);
    return true;
}

/* 2 * batch * query length * key length * (products over the width of query and of value). */
static bool count_attention(const ka_flops_rule *rule, const kineto_flops_inputs *in,
                            uint64_t *flops)
{
    attention_side q, k, v;
    bool last = rule->at[HEADS_LAST] != 0;
    int at = rule->at[QUERY], unless = rule->at[UNLESS];
    /* Sequences of different lengths are packed: the sizes do not contain the single lengths. */
    if (unless != KA_FLOPS_NO_INPUT && (size_t)unless < in->count && in->data[unless].rank > 0)
        return false;
    if (!get_attention_side(in, at, last, &q) || !get_attention_side(in, at + 1, last, &k) ||
        !get_attention_side(in, at + 2, last, &v) || q.width != k.width || k.length != v.length)
        return false;
    uint64_t batch, scores, keys, values;
    if (!count_attention_batch(&q, &k, &batch) ||
        !ka_flops_product((int64_t[]){q.length, k.length}, 2, &scores) ||
        !ka_flops_product((int64_t[]){q.width, rule->at[QUERY_TIMES]}, 2, &keys) ||
        !ka_flops_product((int64_t[]){v.width, rule->at[VALUE_TIMES]}, 2, &values))
        return false;
    uint64_t width = keys > UINT64_MAX - values ? UINT64_MAX : keys + values;
    bool is_empty = !batch || !scores || !width;
    *flops = is_empty
                 ? 0
                 : ka_flops_multiply(ka_flops_multiply(2, batch), ka_flops_multiply(scores, width));
    return true;
}

/* ---- the table ------------------------------------------------------------------------------- */

#define NONE   KA_FLOPS_NO_INPUT
#define ALWAYS (-2)
#define PRODUCT(name, a, b, a_rank, b_rank)                                                        \
    {                                                                                              \
        name, count_matmul, { a, b, a_rank, b_rank, NONE, NONE }                                   \
    }
#define LINEAR(name)                                                                               \
    {                                                                                              \
        name, count_linear, { 0, 1, NONE, NONE, NONE, NONE }                                       \
    }
#define SUM(name)                                                                                  \
    {                                                                                              \
        name, count_elementwise, { 0, 1, NONE, NONE, NONE, NONE }                                  \
    }
#define CONV(name, weight, stride, padding, dilation, transposed)                                  \
    {                                                                                              \
        name, ka_flops_conv, { weight, stride, padding, dilation, transposed, NONE }               \
    }
#define CONV_BACK(name, grad, input, weight, transposed, mask, sizes)                              \
    {                                                                                              \
        name, ka_flops_conv_backward, { grad, input, weight, transposed, mask, sizes }             \
    }
/* Forward: query x key, scores x value. Backward: the scores again, then the gradients of scores,
 * value, query and key. */
#define ATTENTION(name, last, unless)                                                              \
    {                                                                                              \
        name, count_attention, { 0, last, 1, 1, unless, NONE }                                     \
    }
#define ATTENTION_BACK(name, last, unless)                                                         \
    {                                                                                              \
        name, count_attention, { 1, last, 3, 2, unless, NONE }                                     \
    }

/* Sorted by strcmp: ka_flops_rule_find searches it by halving. */
static const ka_flops_rule flops_rules[] = {
    PRODUCT("aten::_addmm_activation", 1, 2, 2, 2),
    CONV("aten::_conv_depthwise2d", 1, 4, 5, 6, NONE),
    CONV("aten::_convolution", 1, 3, 4, 5, 6),
    CONV("aten::_convolution_mode", 1, 3, 4, 5, NONE),
    ATTENTION_BACK("aten::_efficient_attention_backward", 1, 6),
    ATTENTION("aten::_efficient_attention_forward", 1, 4),
    ATTENTION_BACK("aten::_flash_attention_backward", 1, 6),
    ATTENTION("aten::_flash_attention_forward", 1, 3),
    PRODUCT("aten::_int_mm", 0, 1, 2, 2),
    ATTENTION("aten::_scaled_dot_product_attention_math", 0, NONE),
    ATTENTION("aten::_scaled_dot_product_cudnn_attention", 0, NONE),
    ATTENTION_BACK("aten::_scaled_dot_product_cudnn_attention_backward", 0, NONE),
    ATTENTION("aten::_scaled_dot_product_efficient_attention", 0, NONE),
    ATTENTION_BACK("aten::_scaled_dot_product_efficient_attention_backward", 0, NONE),
    ATTENTION("aten::_scaled_dot_product_flash_attention", 0, NONE),
    ATTENTION_BACK("aten::_scaled_dot_product_flash_attention_backward", 0, NONE),
    ATTENTION("aten::_scaled_dot_product_flash_attention_for_cpu", 0, NONE),
    ATTENTION_BACK("aten::_scaled_dot_product_flash_attention_for_cpu_backward", 0, NONE),
    ATTENTION("aten::_scaled_dot_product_fused_attention_overrideable", 0, NONE),
    ATTENTION_BACK("aten::_scaled_dot_product_fused_attention_overrideable_backward", 0, NONE),
    PRODUCT("aten::_scaled_mm", 0, 1, 2, 2),
    CONV_BACK("aten::_slow_conv2d_backward", 0, 1, 2, NONE, 6, NONE),
    CONV("aten::_slow_conv2d_forward", 1, 4, 5, NONE, NONE),
    SUM("aten::add"),
    SUM("aten::add_"),
    PRODUCT("aten::addbmm", 1, 2, 3, 3),
    PRODUCT("aten::addbmm_", 1, 2, 3, 3),
    PRODUCT("aten::addmm", 1, 2, 2, 2),
    PRODUCT("aten::addmm_", 1, 2, 2, 2),
    PRODUCT("aten::addmv", 1, 2, 2, 1),
    PRODUCT("aten::addmv_", 1, 2, 2, 1),
    PRODUCT("aten::baddbmm", 1, 2, 3, 3),
    PRODUCT("aten::baddbmm_", 1, 2, 3, 3),
    PRODUCT("aten::bmm", 0, 1, 3, 3),
    CONV("aten::conv1d", 1, 3, 4, 5, NONE),
    CONV("aten::conv2d", 1, 3, 4, 5, NONE),
    CONV("aten::conv3d", 1, 3, 4, 5, NONE),
    CONV("aten::conv_depthwise3d", 1, 4, 5, 6, NONE),
    CONV("aten::conv_transpose1d", 1, NONE, NONE, NONE, ALWAYS),
    CONV("aten::conv_transpose2d", 1, NONE, NONE, NONE, ALWAYS),
    CONV("aten::conv_transpose3d", 1, NONE, NONE, NONE, ALWAYS),
    CONV("aten::convolution", 1, 3, 4, 5, 6),
    CONV_BACK("aten::convolution_backward", 0, 1, 2, 7, 10, NONE),
    CONV_BACK("aten::convolution_backward_overrideable", 0, 1, 2, 6, 9, NONE),
    CONV("aten::convolution_overrideable", 1, 3, 4, 5, 6),
    CONV("aten::cudnn_convolution", 1, 3, 2, 4, NONE),
    CONV("aten::cudnn_convolution_add_relu", 1, 5, 6, 7, NONE),
    CONV_BACK("aten::cudnn_convolution_backward", 1, 0, 2, NONE, 10, NONE),
    CONV_BACK("aten::cudnn_convolution_backward_input", 1, NONE, 2, NONE, NONE, NONE),
    CONV_BACK("aten::cudnn_convolution_backward_weight", 1, 2, NONE, NONE, NONE, 0),
    CONV("aten::cudnn_convolution_relu", 1, 3, 4, 5, NONE),
    CONV("aten::cudnn_convolution_transpose", 1, NONE, NONE, NONE, ALWAYS),
    SUM("aten::div"),
    SUM("aten::div_"),
    PRODUCT("aten::dot", 0, 1, 1, 1),
    LINEAR("aten::linear"),
    PRODUCT("aten::matmul", 0, 1, 0, 0),
    CONV("aten::miopen_convolution", 1, 4, 3, 5, NONE),
    CONV_BACK("aten::miopen_convolution_backward", 1, 0, 2, NONE, 9, NONE),
    CONV_BACK("aten::miopen_convolution_backward_input", 1, NONE, 2, NONE, NONE, NONE),
    CONV_BACK("aten::miopen_convolution_backward_weight", 1, 2, NONE, NONE, NONE, 0),
    CONV("aten::miopen_convolution_transpose", 1, NONE, NONE, NONE, ALWAYS),
    CONV("aten::miopen_depthwise_convolution", 1, 4, 3, 5, NONE),
    CONV("aten::mkldnn_convolution", 1, 4, 3, 5, NONE),
    CONV_BACK("aten::mkldnn_convolution_backward", 1, 0, 2, NONE, 7, NONE),
    CONV_BACK("aten::mkldnn_convolution_backward_input", 1, NONE, 2, NONE, NONE, NONE),
    CONV_BACK("aten::mkldnn_convolution_backward_weights", 1, 2, NONE, NONE, NONE, 0),
    LINEAR("aten::mkldnn_linear"),
    PRODUCT("aten::mm", 0, 1, 2, 2),
    SUM("aten::mul"),
    SUM("aten::mul_"),
    PRODUCT("aten::mv", 0, 1, 2, 1),
    SUM("aten::rsub"),
    ATTENTION("aten::scaled_dot_product_attention", 0, NONE),
    CONV("aten::slow_conv3d", 1, 4, 5, NONE, NONE),
    CONV("aten::slow_conv3d_forward", 1, 4, 5, NONE, NONE),
    CONV("aten::slow_conv_dilated2d", 1, 4, 5, 6, NONE),
    CONV("aten::slow_conv_dilated3d", 1, 4, 5, 6, NONE),
    CONV("aten::slow_conv_transpose2d", 1, NONE, NONE, NONE, ALWAYS),
    CONV("aten::slow_conv_transpose3d", 1, NONE, NONE, NONE, ALWAYS),
    SUM("aten::sub"),
    SUM("aten::sub_"),
    CONV("aten::thnn_conv2d", 1, 4, 5, NONE, NONE),
    CONV_BACK("aten::thnn_conv2d_backward", 0, 1, 2, NONE, 8, NONE),
    CONV("aten::thnn_conv2d_forward", 1, 4, 5, NONE, NONE),
    CONV("aten::thnn_conv_depthwise2d", 1, 4, 5, 6, NONE),
    CONV_BACK("aten::thnn_conv_depthwise2d_backward", 0, 1, 2, NONE, 7, NONE),
    CONV("aten::thnn_conv_depthwise2d_forward", 1, 4, 5, 6, NONE),
    PRODUCT("aten::vdot", 0, 1, 1, 1),
};

const ka_flops_rule *ka_flops_rules(size_t *count)
{
    *count = KB_COUNT(flops_rules);
    return flops_rules;
}

/* memcmp order of a counted string and a C string. */
static int compare_rule_name(kineto_string name, const char *rule)
{
    size_t size = strlen(rule);
    int order = memcmp(name.data, rule, KB_MIN(name.size, size));
    return order ? order : KB_COMPARE(name.size, size);
}

/* Is the rule one for a smaller name? The table is sorted by name. */
static bool is_rule_before(size_t rule, kineto_string name)
{
    KB_ASSERT(rule == 0 || strcmp(flops_rules[rule - 1].name, flops_rules[rule].name) < 0);
    return compare_rule_name(name, flops_rules[rule].name) > 0;
}

const ka_flops_rule *ka_flops_rule_find(kineto_string name)
{
    size_t i = 0, count = KB_COUNT(flops_rules);
    if (name.size < 7 || memcmp(name.data, "aten::", 6) != 0)
        return NULL;
    KB_LOWER_BOUND(i, count, is_rule_before(i, name));
    return i < count && kb_string_is(name, flops_rules[i].name) ? &flops_rules[i] : NULL;
}
