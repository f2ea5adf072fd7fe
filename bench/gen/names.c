/* All texts of a generated trace: operators with their callees, kernels, Python frames, inputs.
 *
 * There are about 2000 names, as long and as unevenly used as those of real traces: most are
 * kernels, instantiations of few templates. */
#include "gen/gen.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- texts ------------------------------------------------------------------------------------- */

static void *grow_array(void *data, uint32_t count, uint32_t *capacity, size_t size, bool *failed)
{
    if (count < *capacity)
        return data;
    uint32_t wanted = *capacity ? *capacity * 2 : 256;
    void *more = realloc(data, wanted * size);
    if (!more) {
        *failed = true;
        return data;
    }
    *capacity = wanted;
    return more;
}

static gen_text text_copy(const char *s, size_t size, bool *failed)
{
    char *copy = size ? malloc(size + 1) : NULL;
    if (!copy) {
        *failed |= size != 0;
        return (gen_text){"", 0};
    }
    memcpy(copy, s, size);
    copy[size] = 0;
    return (gen_text){copy, (uint32_t)size};
}

static uint32_t add_text(gen_names *n, const char *s, size_t size)
{
    n->texts = grow_array(n->texts, n->count, &n->capacity, sizeof *n->texts, &n->failed);
    if (n->failed)
        return 0;
    n->texts[n->count] = text_copy(s, size, &n->failed);
    return n->count++;
}

static uint32_t intern_text(gen_names *n, const char *s, size_t size)
{
    for (uint32_t i = 0; i < n->count; i++)
        if (n->texts[i].size == size && memcmp(n->texts[i].data, s, size) == 0)
            return i;
    return add_text(n, s, size);
}

__attribute__((format(printf, 2, 3))) static uint32_t addf(gen_names *n, const char *format, ...)
{
    char text[4096];
    va_list list;
    va_start(list, format);
    int size = vsnprintf(text, sizeof text, format, list);
    va_end(list);
    return intern_text(n, text,
                  size < 0                     ? 0
                  : (size_t)size < sizeof text ? (size_t)size
                                               : sizeof text - 1);
}

/* ---- operators --------------------------------------------------------------------------------- *
 * A tree is written `name{ callee callee{ … } }`. After a name, '+' stands for an allocation, and '!'
 * with a letter for a launch: elementwise, reduce, gemm, conv, fused, nccl, memcpy (y), memset (z). */

typedef struct call_row {
    uint32_t weight;
    const char *forward, *gradient, *backward, *module, *function;
} call_row;

static const call_row call_rows[] = {
    {90,
     "aten::linear{ aten::t{ aten::transpose{ aten::as_strided } } aten::addmm!g{ aten::empty+ } }",
     "AddmmBackward0",
     "aten::t{ aten::transpose{ aten::as_strided } } aten::mm!g{ aten::empty+ } aten::t{ "
     "aten::transpose{ aten::as_strided } } aten::mm!g{ aten::empty+ } aten::sum!r{ aten::empty+ "
     "aten::as_strided aten::fill_!e } aten::view",
     "Linear", "torch/nn/modules/linear.py(125): forward"},
    {60,
     "aten::conv2d{ aten::convolution{ aten::_convolution{ aten::cudnn_convolution!c!z{ "
     "aten::empty+ "
     "aten::resize_ } } } }",
     "ConvolutionBackward0",
     "aten::convolution_backward{ aten::cudnn_convolution_backward!c!c{ "
     "aten::empty+ aten::empty+ } }",
     "Conv2d", "torch/nn/modules/conv.py(456): _conv_forward"},
    {60,
     "aten::batch_norm{ aten::_batch_norm_impl_index{ aten::cudnn_batch_norm!c{ aten::empty+ "
     "aten::empty_like{ aten::empty+ } aten::empty+ aten::view aten::view } } }",
     "CudnnBatchNormBackward0", "aten::cudnn_batch_norm_backward!c{ aten::empty+ aten::empty+ }",
     "BatchNorm2d", "torch/nn/functional.py(2421): batch_norm"},
    {70, "aten::relu{ aten::clamp_min!e{ aten::empty+ } }", "ReluBackward0",
     "aten::threshold_backward!e{ aten::empty+ }", "ReLU", "torch/nn/functional.py(1457): relu"},
    {30, "aten::gelu!e{ aten::empty+ }", "GeluBackward0", "aten::gelu_backward!e{ aten::empty+ }",
     "GELU", "torch/nn/modules/activation.py(684): forward"},
    {40,
     "aten::layer_norm{ aten::native_layer_norm!r{ aten::empty+ aten::empty+ aten::empty+ "
     "aten::view "
     "aten::view } }",
     "NativeLayerNormBackward0",
     "aten::native_layer_norm_backward!r!r{ aten::empty+ aten::empty_like{ "
     "aten::empty+ } }",
     "LayerNorm", "torch/nn/functional.py(2515): layer_norm"},
    {35, "aten::softmax{ aten::_softmax!r{ aten::empty_like{ aten::empty+ } } }",
     "SoftmaxBackward0", "aten::_softmax_backward_data!r{ aten::empty+ }", "Softmax",
     "torch/nn/functional.py(1843): softmax"},
    {40, "aten::dropout{ aten::native_dropout!e{ aten::empty_like{ aten::empty+ } } }",
     "NativeDropoutBackward0", "aten::native_dropout_backward!e{ aten::empty+ }", "Dropout",
     "torch/nn/functional.py(1252): dropout"},
    {50,
     "aten::matmul{ aten::expand{ aten::as_strided } aten::reshape{ aten::view } aten::bmm!g{ "
     "aten::empty+ } aten::_unsafe_view }",
     "BmmBackward0",
     "aten::transpose{ aten::as_strided } aten::bmm!g{ aten::empty+ } aten::transpose{ "
     "aten::as_strided } aten::bmm!g{ aten::empty+ }",
     "MultiheadAttention", "torch/nn/modules/activation.py(1230): forward"},
    {25,
     "aten::scaled_dot_product_attention{ aten::_scaled_dot_product_flash_attention{ "
     "aten::transpose{ "
     "aten::as_strided } aten::_flash_attention_forward!g{ aten::empty_like{ aten::empty_strided+ "
     "} "
     "aten::empty+ } aten::transpose{ aten::as_strided } } }",
     "ScaledDotProductFlashAttentionBackward0",
     "aten::_scaled_dot_product_flash_attention_backward{ aten::_flash_attention_backward!g!e{ "
     "aten::empty_like{ aten::empty_strided+ } aten::zeros_like{ aten::zero_{ aten::fill_!e } } } "
     "}",
     "Attention", "model/attention.py(87): forward"},
    {70, "aten::add!e{ aten::empty+ }", "AddBackward0",
     "aten::sum!r{ aten::empty+ aten::as_strided }", "Residual", "model/block.py(41): forward"},
    {50, "aten::mul!e{ aten::empty+ }", "MulBackward0",
     "aten::mul!e{ aten::empty+ } aten::mul!e{ "
     "aten::empty+ }",
     "Scale", "model/block.py(63): scale"},
    {25,
     "aten::embedding{ aten::reshape{ aten::view } aten::index_select!e{ aten::empty+ "
     "aten::resize_ } "
     "aten::view }",
     "EmbeddingBackward0",
     "aten::embedding_backward{ aten::embedding_dense_backward!e!r{ aten::zeros{ "
     "aten::empty+ aten::zero_!z } } }",
     "Embedding", "torch/nn/modules/sparse.py(162): forward"},
    {35, "aten::cat!e{ aten::empty+ aten::narrow{ aten::slice{ aten::as_strided } } }",
     "CatBackward0",
     "aten::narrow{ aten::slice{ aten::as_strided } } aten::narrow{ aten::slice{ aten::as_strided "
     "} }",
     "Concat", "model/block.py(18): forward"},
    {40, "aten::to{ aten::_to_copy{ aten::empty_strided+ aten::copy_!e } }", "ToCopyBackward0",
     "aten::to{ aten::_to_copy{ aten::empty_strided+ aten::copy_!y } }", "Cast",
     "torch/amp/autocast_mode.py(14): decorate_autocast"},
    {25,
     "aten::contiguous{ aten::clone{ aten::empty_like{ aten::empty_strided+ } aten::copy_!y } }",
     "CloneBackward0", "aten::view aten::detach{ detach }", "Permute",
     "model/block.py(29): permute"},
    {20, "aten::max_pool2d{ aten::max_pool2d_with_indices!r{ aten::empty+ aten::empty+ } }",
     "MaxPool2DWithIndicesBackward0",
     "aten::max_pool2d_with_indices_backward!e{ aten::empty+ "
     "aten::zero_{ aten::fill_!e } }",
     "MaxPool2d", "torch/nn/functional.py(780): _max_pool2d"},
    {15,
     "aten::cross_entropy_loss{ aten::log_softmax{ aten::_log_softmax!r{ aten::empty+ } } "
     "aten::nll_loss_nd{ aten::nll_loss{ aten::nll_loss_forward!r{ aten::empty+ aten::resize_ } } "
     "} }",
     "NllLossBackward0",
     "aten::nll_loss_backward!e{ aten::empty_like{ aten::empty+ } aten::zero_!z }",
     "CrossEntropyLoss", "torch/nn/functional.py(2994): cross_entropy"},
    {15, "aten::item{ aten::_local_scalar_dense!y }", "SelectBackward0",
     "aten::select_backward{ aten::zeros{ aten::empty+ aten::zero_{ aten::fill_!e } } "
     "aten::select{ "
     "aten::as_strided } aten::copy_!e }",
     "Metric", "train.py(212): log_metrics"},
    {18, "aten::index!e{ aten::nonzero{ aten::resize_ } aten::empty+ aten::as_strided }",
     "IndexBackward0", "aten::new_zeros{ aten::empty+ aten::zero_!z } aten::_index_put_impl_!e",
     "Gather", "model/sampler.py(55): gather"},
    {30, "CompiledFunction{ triton_poi_fused_add_mul_0!f{ aten::empty_strided+ } }",
     "CompiledFunctionBackward", "triton_red_fused_sum_1!f{ aten::empty_strided+ }",
     "OptimizedModule", "torch/_dynamo/eval_frame.py(574): _fn"},
};

static const char families[] = "ergcfnyz"; /* in the order of gen_family */

static int32_t node_new(gen_names *n)
{
    uint32_t capacity = (uint32_t)n->node_capacity;
    n->nodes = grow_array(n->nodes, (uint32_t)n->node_count, &capacity, sizeof *n->nodes,
                          &n->failed);
    n->node_capacity = (int32_t)capacity;
    if (n->failed)
        return -1;
    n->nodes[n->node_count] = (gen_node){.child = -1, .next = -1};
    return n->node_count++;
}

static const char *parse_marks(gen_node *node, const char *s)
{
    for (; *s == '!' || *s == '+'; s++) {
        if (*s == '+') {
            node->allocates = true;
            continue;
        }
        const char *family = strchr(families, *++s);
        if (family && node->launch_count < 4)
            node->launches[node->launch_count++] = (uint8_t)(family - families);
    }
    return s;
}

/* A list of trees up to '}' or the end; returns its first node. */
static int32_t parse_list(gen_names *n, const char **at)
{
    int32_t first = -1, last = -1;
    while (**at && **at != '}' && !n->failed) {
        if (**at == ' ') {
            ++*at;
            continue;
        }
        size_t size = strcspn(*at, "!+{} ");
        uint32_t name = intern_text(n, *at, size);
        int32_t node = node_new(n);
        if (node < 0)
            break;
        n->nodes[node].name = name;
        *at = parse_marks(&n->nodes[node], *at + size);
        if (**at == '{') {
            ++*at;
            int32_t child = parse_list(n, at);
            n->nodes[node].child = child;
            *at += **at == '}';
        }
        if (last >= 0)
            n->nodes[last].next = node;
        first = first < 0 ? node : first;
        last = node;
    }
    return first;
}

static int32_t parse_tree(gen_names *n, const char *tree) { return parse_list(n, &tree); }

static void make_calls(gen_names *n, gen_layout layout)
{
    n->call_count = sizeof call_rows / sizeof *call_rows - (layout != GEN_TORCH2);
    for (uint32_t i = 0; i < n->call_count; i++) {
        const call_row *row = &call_rows[i];
        n->calls[i] = (gen_call){
            .weight = row->weight,
            .forward = parse_tree(n, row->forward),
            .backward = parse_tree(n, row->backward),
            .evaluate = addf(n, "autograd::engine::evaluate_function: %s", row->gradient),
            .gradient = addf(n, "%s", row->gradient),
            .module = addf(n, "nn.Module: %s_0", row->module),
            .function = addf(n, "%s", row->function)};
        n->weight_sum += row->weight;
    }
    n->optimizer =
        parse_tree(n, "aten::mul_!e aten::add_!e aten::addcmul_!e aten::sqrt!e{ aten::empty+ } "
                 "aten::div!e aten::addcdiv_!e");
    n->accumulate =
        parse_tree(n, "autograd::engine::evaluate_function:\x01torch::autograd::AccumulateGrad{ "
                 "torch::autograd::AccumulateGrad{ aten::detach{ detach } aten::add_!e } }");
    n->all_reduce = parse_tree(n, "record_param_comms!n");
    n->copy_in = parse_tree(n, "aten::to{ aten::_to_copy{ aten::empty_strided+ aten::copy_!y } }");
    n->pin =
        parse_tree(n, "aten::pin_memory{ aten::_pin_memory{ aten::empty+ aten::set_ aten::copy_ } } "
                 "aten::resolve_conj aten::resolve_neg");
}

/* ---- kernels ----------------------------------------------------------------------------------- */

static const char *const functors[] = {"CUDAFunctor_add",
                                       "MulFunctor",
                                       "DivFunctor",
                                       "SubFunctor",
                                       "BUnaryFunctor",
                                       "AUnaryFunctor",
                                       "FillFunctor",
                                       "sigmoid_kernel_cuda",
                                       "exp_kernel_cuda",
                                       "log_kernel_cuda",
                                       "sqrt_kernel_cuda",
                                       "GeluCUDAKernelImpl",
                                       "launch_clamp_scalar",
                                       "threshold_kernel_impl",
                                       "where_kernel_impl",
                                       "direct_copy_kernel_cuda",
                                       "bfloat16_copy_kernel_cuda",
                                       "CompareEqFunctor",
                                       "tanh_kernel_cuda",
                                       "pow_tensor_scalar_kernel_impl",
                                       "rsqrt_kernel_cuda",
                                       "neg_kernel_cuda",
                                       "addcmul_cuda_kernel",
                                       "addcdiv_cuda_kernel",
                                       "lerp_scalar_kernel",
                                       "masked_fill_kernel",
                                       "bitwise_and_kernel_cuda",
                                       "silu_kernel",
                                       "silu_backward_kernel",
                                       "reciprocal_kernel_cuda"};
static const char *const types[] = {"float",  "c10::Half", "c10::BFloat16",
                                    "double", "long",      "bool"};
#define COUNT(array) ((uint32_t)(sizeof(array) / sizeof *(array)))

static void make_elementwise(gen_names *n)
{
    for (uint32_t f = 0; f < COUNT(functors); f++)
        for (uint32_t t = 0; t < COUNT(types); t++)
            for (int arity = 2; arity <= 3; arity++)
                addf(n,
                     "void at::native::vectorized_elementwise_kernel<4, at::native::%s<%s>, "
                     "at::detail::Array<char*, %d> >(int, at::native::%s<%s>, "
                     "at::detail::Array<char*, %d>)",
                     functors[f], types[t], arity, functors[f], types[t], arity);
    for (uint32_t f = 0; f < COUNT(functors); f++)
        for (uint32_t t = 0; t < COUNT(types); t++)
            addf(n,
                 "void "
                 "at::native::unrolled_elementwise_kernel<at::native::%s(at::TensorIteratorBase&)::"
                 "{lambda()#%u}::operator()() const::{lambda()#%u}::operator()() "
                 "const::{lambda(%s)#1}, "
                 "at::detail::Array<char*, 2>, TrivialOffsetCalculator<1, unsigned int>, "
                 "TrivialOffsetCalculator<1, unsigned int>, at::native::memory::LoadWithCast<1>, "
                 "at::native::memory::StoreWithCast<1> >(int, "
                 "at::native::%s(at::TensorIteratorBase&)::"
                 "{lambda()#%u}, at::detail::Array<char*, 2>, TrivialOffsetCalculator<1, unsigned "
                 "int>, "
                 "TrivialOffsetCalculator<1, unsigned int>)",
                 functors[f], t + 1, f % 7 + 1, types[t], functors[f], t + 1);
}

static void make_reduce(gen_names *n)
{
    static const char *const reductions[] = {"sum_functor",   "MeanOps",       "MaxOps",
                                             "ArgMaxOps",     "NormTwoOps",    "WelfordOps",
                                             "MinNanFunctor", "or_kernel_cuda"};
    for (uint32_t r = 0; r < COUNT(reductions); r++)
        for (uint32_t t = 0; t < COUNT(types); t++)
            for (uint32_t v = 0; v < 3; v++)
                addf(n,
                     "void at::native::reduce_kernel<%u, %u, at::native::ReduceOp<%s, "
                     "at::native::func_wrapper_t<%s, at::native::%s<%s, float, %s>::operator()"
                     "(at::TensorIterator&)::{lambda(float, float)#1}>, unsigned int, %s, 4> >"
                     "(at::native::ReduceOp<%s, at::native::func_wrapper_t<%s, at::native::%s<%s, "
                     "float, "
                     "%s>::operator()(at::TensorIterator&)::{lambda(float, float)#1}>, unsigned "
                     "int, %s, 4>)",
                     512u >> v, v + 1, types[t], types[t], reductions[r], types[t], types[t],
                     types[t], types[t], types[t], reductions[r], types[t], types[t], types[t]);
}

static void make_gemm(gen_names *n)
{
    static const char *const tiles[] = {"32x32",  "64x32",   "64x64",  "128x32",
                                        "128x64", "128x128", "256x64", "256x128"};
    static const char *const orders[] = {"nn", "nt", "tn", "tt"};
    for (uint32_t t = 0; t < COUNT(tiles); t++)
        for (uint32_t o = 0; o < COUNT(orders); o++) {
            addf(n, "ampere_sgemm_%s_%s", tiles[t], orders[o]);
            addf(n, "ampere_fp16_s16816gemm_fp16_%s_ldg8_f2f_stages_64x3_%s", tiles[t], orders[o]);
            addf(n,
                 "sm80_xmma_gemm_bf16bf16_bf16f32_f32_%s_n_tilesize%sx32_stage4_warpsize2x2x1_"
                 "tensor16x8x16"
                 "_kernel",
                 orders[o], tiles[t]);
            for (int align = 1; align <= 8; align *= 2)
                addf(n,
                     "void cutlass::Kernel<cutlass_80_tensorop_s1688gemm_%s_16x%d_%s_align%d>"
                     "(cutlass_80_tensorop_s1688gemm_%s_16x%d_%s_align%d::Params)",
                     tiles[t], 6 - (int)(o & 1), orders[o], align, tiles[t], 6 - (int)(o & 1),
                     orders[o], align);
        }
}

static void make_conv(gen_names *n)
{
    static const char *const parts[] = {
        "bn_fw_tr_1C11_kernel_NCHW",     "bn_bw_1C11_kernel_new",
        "ops::nchwToNhwcKernel",         "ops::nhwcToNchwKernel",
        "detail::dgrad_engine",          "detail::wgrad_alg0_engine",
        "cnn::reduce_wgrad_nchw_helper", "winograd::generateWinogradTilesKernel"};
    for (uint32_t p = 0; p < COUNT(parts); p++)
        for (uint32_t t = 0; t < COUNT(types); t++)
            addf(n,
                 "void cudnn::%s<%s, float, %u, true, 1>(cudnnTensorStruct, %s const*, "
                 "cudnnTensorStruct, %s*, "
                 "float const*, float const*, float, float, float*, float*)",
                 parts[p], types[t], 128u << (p % 3), types[t], types[t]);
    for (int i = 0; i < 24; i++)
        addf(n,
             "_ZN19cutlass_cudnn_train6KernelINS_4conv6kernel23ImplicitGemmConvolutionINS1_"
             "11threadblock22"
             "ImplicitGemmMultistageINS_4gemm9GemmShapeILi%dELi128ELi32EEENS4_"
             "52Conv2dWgradOutputGradient"
             "TileAccessIteratorOptimizedINS_11MatrixShapeILi128ELi%dEEENS_10tfloat32_tENS_"
             "9transform29Pitch"
             "LinearWarpRakedThreadMapINS_16PitchLinearShapeILi128ELi32EEELi128ENSF_"
             "ILi8ELi4EEELi4EEENS_12"
             "AlignedArrayISC_Li4ELi16EEEEENSD_11threadblock25RegularTileAccessIteratorISB_SC_NS_"
             "6layout40"
             "ColumnMajorTensorOpMultiplicandCongruousILi32ELi32EEELi1ESI_Li16EEELNS_"
             "4arch14CacheOperation4"
             "KindE0ENS4_48Conv2dWgradActivationTileAccessIteratorOptimizedINSA_ILi32ELi128EEESC_"
             "SI_SK_EENSN"
             "_ISW_SC_NSO_37RowMajorTensorOpMultiplicandCongruousILi32ELi32EEELi0ESI_Li16EEELSU_"
             "0ENS6_11"
             "threadblock9MmaPolicyINS6_4warp11MmaTensorOpINS7_ILi64ELi64ELi32EEESC_SQ_SC_SZ_fNSO_"
             "8RowMajor"
             "ENS13_17MmaTensorOpPolicyEEEEEvNT_6ParamsE",
             32 << (i % 4), 32 + i);
}

static void make_fused(gen_names *n)
{
    static const char *const what[] = {
        "add", "mul",  "native_layer_norm", "gelu", "_softmax", "_to_copy",
        "cat", "relu", "native_dropout",    "sum"};
    static const char *const how[] = {"poi", "red", "per"};
    for (uint32_t h = 0; h < COUNT(how); h++)
        for (uint32_t a = 0; a < COUNT(what); a++)
            for (uint32_t b = 0; b < COUNT(what); b++)
                addf(n, "triton_%s_fused_%s_%s_%u", how[h], what[a], what[b], a * 10 + b);
}

static void make_nccl(gen_names *n)
{
    static const char *const what[] = {"AllReduce_Sum_f32_RING_LL",
                                       "AllReduce_Sum_bf16_TREE_LL",
                                       "AllGather_RING_LL",
                                       "ReduceScatter_Sum_f32_RING_LL",
                                       "SendRecv",
                                       "Broadcast_RING_LL"};
    for (uint32_t i = 0; i < COUNT(what); i++)
        addf(n, "ncclDevKernel_%s(ncclDevComm*, unsigned long, ncclWork*)", what[i]);
}

static void make_copies(gen_names *n)
{
    addf(n, "Memcpy HtoD (Pinned -> Device)");
    addf(n, "Memcpy DtoD (Device -> Device)");
    addf(n, "Memcpy DtoH (Device -> Pageable)");
}
static void make_sets(gen_names *n) { addf(n, "Memset (Device)"); }

static void make_kernels(gen_names *n)
{
    static void (*const makers[GEN_FAMILIES])(gen_names *) = {[GEN_ELEMENTWISE] = make_elementwise,
                                                              [GEN_REDUCE] = make_reduce,
                                                              [GEN_GEMM] = make_gemm,
                                                              [GEN_CONV] = make_conv,
                                                              [GEN_FUSED] = make_fused,
                                                              [GEN_NCCL] = make_nccl,
                                                              [GEN_MEMCPY] = make_copies,
                                                              [GEN_MEMSET] = make_sets};
    for (int f = 0; f < GEN_FAMILIES; f++) {
        n->kernels[f].first = n->count;
        makers[f](n);
        n->kernels[f].count = n->count - n->kernels[f].first;
    }
}

/* ---- annotations and Python -------------------------------------------------------------------- */

static void make_annotations(gen_names *n)
{
    n->annotations.first = n->count;
    static const char *const what[] = {"## all2all_data:recat_permute_gen ##",
                                       "DistributedDataParallel.forward",
                                       "## embedding lookup ##",
                                       "stage \\\"encoder\\\"",
                                       "stage \\\"decoder\\\"",
                                       "## sync metrics ##",
                                       "[param|model.block|0|0|0]",
                                       "checkpoint/io"};
    for (uint32_t i = 0; i < COUNT(what); i++)
        addf(n, "%s", what[i]);
    n->annotations.count = n->count - n->annotations.first;
    n->forward = addf(n, "## forward ##");
    n->backward = addf(n, "## backward ##");
    n->optimizer_step = addf(n, "Optimizer.step#Adam.step");
    n->zero_grad = addf(n, "Optimizer.zero_grad#Adam.zero_grad");
    n->next_batch = addf(n, "enumerate(DataLoader)#_MultiProcessingDataLoaderIter.__next__");
    n->bucket = addf(n, "torch.distributed.ddp.reducer::copy_bucket_to_grad");
    n->pad = addf(n, "aten::result_type");
}

static void make_python(gen_names *n)
{
    static const char *const files[] = {"torch/nn/modules/module.py",
                                        "torch/nn/modules/container.py",
                                        "torch/nn/functional.py",
                                        "torch/utils/_contextlib.py",
                                        "torch/_ops.py",
                                        "model/transformer.py",
                                        "model/block.py",
                                        "/opt/train/lib/python3.11/site-packages/data/pipeline.py",
                                        "train.py",
                                        "torch/_tensor.py"};
    static const char *const functions[] = {"_wrapped_call_impl", "_call_impl", "forward",
                                            "__getattr__",        "__call__",   "<lambda>",
                                            "decorate_context",   "_apply"};
    n->frames.first = n->count;
    for (uint32_t f = 0; f < COUNT(files); f++)
        for (uint32_t g = 0; g < COUNT(functions); g++)
            for (uint32_t line = 0; line < 2; line++)
                addf(n, "%s(%u): %s", files[f], 90 + f * 131 + g * 17 + line * 1009, functions[g]);
    n->frames.count = n->count - n->frames.first;
    static const char *const builtins[] = {"linear",    "conv2d",     "relu",    "add",
                                           "embedding", "layer_norm", "dropout", "matmul",
                                           "cat",       "isinstance", "len",     "get"};
    n->builtins.first = n->count;
    for (uint32_t b = 0; b < COUNT(builtins); b++)
        addf(n, "<built-in method %s of type object at 0x7f3c%08x>", builtins[b], b * 0x1234560u);
    n->builtins.count = n->count - n->builtins.first;
    /* Modules are numbered within their class. */
    n->modules.first = n->count;
    for (uint32_t c = 0; c < n->call_count; c++)
        for (int i = 0; i < 12; i++)
            addf(n, "nn.Module: %s_%d", call_rows[c].module, i + 1);
    n->modules.count = n->count - n->modules.first;
}

/* ---- inputs and call stacks --------------------------------------------------------------------- */

static const char *const input_types[] = {"float",     "float",    "float",       "c10::BFloat16",
                                          "c10::Half", "long int", "Scalar",      "Scalar",
                                          "",          "",         "GenericList", "ScalarList"};

typedef struct input_text {
    char dims[512], types[512], concrete[512];
    size_t dims_size, types_size, concrete_size;
} input_text;

__attribute__((format(printf, 3, 4))) static void append(char *text, size_t *size,
                                                         const char *format, ...)
{
    va_list list;
    va_start(list, format);
    int more = vsnprintf(text + *size, 512 - *size, format, list);
    va_end(list);
    if (more > 0 && (size_t)more < 512 - *size)
        *size += (size_t)more;
}

static void add_tensor(input_text *t, gen_random *r)
{
    static const uint32_t sizes[] = {1, 3, 7, 32, 64, 128, 512, 768, 1024, 4096, 50257};
    uint32_t rank = gen_below(r, 5);
    append(t->dims, &t->dims_size, "[");
    for (uint32_t d = 0; d < rank; d++)
        append(t->dims, &t->dims_size, "%s%u", d ? ", " : "", sizes[gen_below(r, COUNT(sizes))]);
    append(t->dims, &t->dims_size, "]");
    append(t->concrete, &t->concrete_size, "\"\"");
}

static void add_scalar(input_text *t, gen_random *r, const char *type)
{
    append(t->dims, &t->dims_size, "[]");
    uint32_t what = gen_below(r, 5), rows = gen_below(r, 64);
    if (!strcmp(type, "Scalar") && what < 3)
        append(t->concrete, &t->concrete_size, "\"%d\"", (int)gen_below(r, 2048) - 1);
    else if (!strcmp(type, "Scalar"))
        append(t->concrete, &t->concrete_size, what == 3 ? "\"False\"" : "\"1e-05\"");
    else if (!strcmp(type, "ScalarList"))
        append(t->concrete, &t->concrete_size, "\"[%u, %u]\"", rows, what * 64);
    else
        append(t->concrete, &t->concrete_size, "\"\"");
}

static void make_inputs(gen_names *n, gen_random *r)
{
    n->inputs = calloc(GEN_INPUTS, sizeof *n->inputs);
    n->failed |= !n->inputs;
    for (uint32_t i = 0; i < GEN_INPUTS && !n->failed; i++) {
        input_text t = {.dims_size = 0};
        uint32_t arity = 1 + gen_below(r, 4) + (gen_chance(r, 250) ? gen_below(r, 5) : 0);
        for (uint32_t a = 0; a < arity; a++) {
            const char *comma = a ? ", " : "",
                       *type = input_types[gen_below(r, COUNT(input_types))];
            append(t.dims, &t.dims_size, "%s", comma);
            append(t.concrete, &t.concrete_size, "%s", comma);
            append(t.types, &t.types_size, "%s\"%s\"", comma, type);
            if (type[0] == 'S' || type[0] == 'G' || !type[0])
                add_scalar(&t, r, type);
            else
                add_tensor(&t, r);
        }
        n->inputs[i] = (gen_inputs){text_copy(t.dims, t.dims_size, &n->failed),
                                    text_copy(t.types, t.types_size, &n->failed),
                                    text_copy(t.concrete, t.concrete_size, &n->failed)};
    }
}

static void make_stacks(gen_names *n, gen_random *r)
{
    static const char *const frames[] = {"torch/nn/modules/conv.py(443): forward",
                                         "torch/nn/modules/module.py(1051): _call_impl",
                                         "torchvision/models/resnet.py(132): forward",
                                         "torch/nn/modules/container.py(139): forward",
                                         "torchvision/models/resnet.py(249): forward",
                                         "torch/utils/data/dataloader.py(521): __next__",
                                         "torch/nn/functional.py(2282): batch_norm",
                                         "torch/optim/optimizer.py(88): wrapper"};
    n->stacks = calloc(GEN_STACKS, sizeof *n->stacks);
    n->failed |= !n->stacks;
    for (uint32_t i = 0; i < GEN_STACKS && !n->failed; i++) {
        char text[4096];
        size_t size = 0;
        uint32_t depth = 3 + gen_below(r, 10);
        for (uint32_t d = 0; d < depth; d++)
            size +=
                (size_t)snprintf(text + size, sizeof text - size,
                                 "/home/user/anaconda3/envs/kineto/lib/python3.7/site-packages/%s;",
                                 frames[gen_below(r, COUNT(frames))]);
        size += (size_t)snprintf(text + size, sizeof text - size,
                                 "resnet50_profiler_api.py(%u): <module>", 40 + i % 9);
        n->stacks[i] = text_copy(text, size, &n->failed);
    }
}

/* ---- all of it ----------------------------------------------------------------------------------- */

/* The tree syntax has no blanks in names: '_' stands for one in a name that needs it. */
static void restore_blanks(gen_names *n)
{
    for (uint32_t i = 0; i < n->count; i++) {
        char *mark = memchr(n->texts[i].data, 1, n->texts[i].size);
        if (mark)
            *mark = ' ';
    }
}

bool gen_names_make(gen_names *names, gen_layout layout, uint64_t seed)
{
    gen_random r = {seed ^ UINT64_C(0x6e616d6573)};
    *names = (gen_names){.texts = NULL};
    make_kernels(names);
    make_calls(names, layout);
    make_annotations(names);
    make_python(names);
    restore_blanks(names);
    make_inputs(names, &r);
    make_stacks(names, &r);
    if (names->failed)
        gen_names_free(names);
    return !names->failed;
}

static void free_text(gen_text text)
{
    if (text.size)
        free((char *)(uintptr_t)text.data);
}

void gen_names_free(gen_names *names)
{
    for (uint32_t i = 0; i < names->count; i++)
        free_text(names->texts[i]);
    for (uint32_t i = 0; names->inputs && i < GEN_INPUTS; i++) {
        free_text(names->inputs[i].dims);
        free_text(names->inputs[i].types);
        free_text(names->inputs[i].concrete);
    }
    for (uint32_t i = 0; names->stacks && i < GEN_STACKS; i++)
        free_text(names->stacks[i]);
    free(names->texts);
    free(names->nodes);
    free(names->inputs);
    free(names->stacks);
    bool failed = names->failed;
    *names = (gen_names){.failed = failed};
}
