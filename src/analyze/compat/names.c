/* How HolisticTraceAnalysis 0.6.1 and the TensorBoard plug-in 0.4.3 understand names of work, calls
 * and operators. The lists are theirs, with what is missing in them. */
#include "analyze/compat/compat.h"

/* ---- HTA: types of work ----------------------------------------------------------------------- */

/* Does the name begin with one of the texts (NULL-terminated)? */
static bool starts_with_any(kineto_string name, const char *const *texts)
{
    for (; *texts; texts++)
        if (kb_string_starts_with(name, *texts))
            return true;
    return false;
}

/* What `.*` can reach: it stops at a line's end. */
static kineto_string first_line(kineto_string name)
{
    const char *end = name.size ? memchr(name.data, '\n', name.size) : NULL;
    return end ? (kineto_string){name.data, (size_t)(end - name.data)} : name;
}
/* Names that HTA counts neither as computation nor as memory. */
static bool no_computation(kineto_string name, kineto_string line)
{
    static const char *const starting[] = {"Stream Wait Event",
                                           "runFunction",
                                           "job_exe",
                                           "packet",
                                           "pe_exe",
                                           "cpum_exe_subgraph",
                                           "collective_subgraph_execution",
                                           NULL};
    if (starts_with_any(name, starting) || kb_string_contains(line, "Memcpy") ||
        kb_string_contains(line, "Memset") || kb_string_contains(line, "dma") ||
        kb_string_contains(line, "Sync"))
        return true;
    return kb_string_starts_with(name, "cuda") &&
           kb_string_contains((kineto_string){line.data + 4, line.size - 4}, "LaunchKernel");
}

ka_type ka_type_hta(kineto_string name)
{
    static const char *const communication[] = {"nccl", "hip", "hccl", NULL};
    static const char *const memory[] = {"Memcpy", "Memset", "dma", NULL};
    kineto_string line = first_line(name);
    if (starts_with_any(name, communication) || kb_string_contains(line, "ncclKernel"))
        return KA_TYPE_COMMUNICATION;
    if (starts_with_any(name, memory))
        return KA_TYPE_MEMORY;
    return no_computation(name, line) ? KA_TYPE_OTHER : KA_TYPE_COMPUTATION;
}

/* ---- HTA: copies and launches ----------------------------------------------------------------- */

/* HTA cuts where "Memcpy HtoD" ends. */
kineto_string ka_hta_copy_label(kineto_string name)
{
    if (kb_string_starts_with(name, "Memset"))
        return kb_string("Memset");
    if (kb_string_starts_with(name, "Memcpy"))
        return (kineto_string){name.data, KB_MIN(name.size, (size_t)11)};
    return kb_string("Memcpy Unknown");
}

bool ka_hta_counts_launch(kineto_string name)
{
    static const char *const names[] = {
        "cudaLaunchKernel",    "cudaLaunchKernelExC",
        "cuLaunchKernel",      "cuLaunchKernelEx",
        "cudaMemcpyAsync",     "cudaMemsetAsync",
        "hipLaunchKernel",     "hipExtModuleLaunchKernel",
        "hipMemcpyAsync",      "hipMemsetAsync",
        "hipMemcpyWithStream", "runFunction - job_prep_and_submit_for_execution"};
    return kb_string_is_one_of(name, names, KB_COUNT(names));
}

bool ka_hta_is_counted_launch(kineto_string name)
{
    static const char *const names[] = {"cudaLaunchKernel", "cudaLaunchKernelExC",
                                        "cudaMemcpyAsync", "cudaMemsetAsync",
                                        "runFunction - job_prep_and_submit_for_execution"};
    return kb_string_is_one_of(name, names, KB_COUNT(names));
}

bool ka_hta_is_kernel_launch(kineto_string name)
{
    return kb_string_equal(name, kb_string("cudaLaunchKernel"));
}

/* ---- the plug-in: tensor cores ---------------------------------------------------------------- */

/* "AddmmBackward0", also as the engine calls it. */
static bool is_known_backward(kineto_string op)
{
    static const char frame[] = "autograd::engine::evaluate_function: ";
    static const char *const names[] = {"AddmmBackward",
                                        "AddmvBackward",
                                        "AddrBackward",
                                        "AddbmmBackward",
                                        "BaddbmmBackward",
                                        "BmmBackward",
                                        "MmBackward",
                                        "MvBackward",
                                        "PreluBackward",
                                        "CudnnConvolutionBackward",
                                        "CudnnConvolutionTransposeBackward"};
    if (kb_string_starts_with(op, frame))
        op = (kineto_string){op.data + sizeof frame - 1, op.size - sizeof frame + 1};
    while (op.size && kb_is_digit(op.data[op.size - 1]))
        op.size--;
    return kb_string_is_one_of(op, names, KB_COUNT(names));
}

bool ka_plugin_eligible(kineto_string op)
{
    static const char *const names[] = {"aten::_convolution",
                                        "aten::conv1d",
                                        "aten::conv2d",
                                        "aten::conv3d",
                                        "aten::conv_tbc",
                                        "aten::conv_transpose1d",
                                        "aten::conv_transpose2d",
                                        "aten::conv_transpose3d",
                                        "aten::convolution",
                                        "aten::cudnn_convolution",
                                        "aten::cudnn_convolution_transpose",
                                        "aten::prelu",
                                        "aten::addmm",
                                        "aten::addmv",
                                        "aten::addr",
                                        "aten::matmul",
                                        "aten::mm",
                                        "aten::mv",
                                        "aten::linear",
                                        "aten::addbmm",
                                        "aten::baddbmm",
                                        "aten::bmm",
                                        "aten::chain_matmul",
                                        "aten::linalg_multi_dot",
                                        "aten::_thnn_fused_lstm_cell",
                                        "aten::_thnn_fused_gru_cell",
                                        "aten::lstm_cell",
                                        "aten::gru_cell",
                                        "aten::rnn_tanh_cell",
                                        "aten::rnn_relu_cell",
                                        "aten::cudnn_convolution_backward",
                                        "aten::cudnn_convolution_backward_input",
                                        "aten::cudnn_convolution_backward_weight",
                                        "aten::cudnn_convolution_transpose_backward",
                                        "aten::cudnn_convolution_transpose_backward_input",
                                        "aten::cudnn_convolution_transpose_backward_weight"};
    return kb_string_is_one_of(op, names, KB_COUNT(names)) || is_known_backward(op);
}

bool ka_plugin_tensor(kineto_string kernel)
{
    static const char *const parts[] = {"h884",
                                        "s884",
                                        "h1688",
                                        "s1688",
                                        "hmma",
                                        "i8816",
                                        "16816",
                                        "dgrad_1x1_stride_2x2",
                                        "first_layer_wgrad_kernel",
                                        "conv1x1",
                                        "conv2d_c1_k1",
                                        "direct_group",
                                        "xmma_implicit_gemm",
                                        "xmma_sparse_conv",
                                        "xmma_warp_specialized_implicit_gemm",
                                        "xmma_gemm",
                                        "xmma_sparse_gemm",
                                        "c1688"};
    for (size_t i = 0; i < KB_COUNT(parts); i++)
        if (kb_string_contains(kernel, parts[i]))
            return true;
    return false;
}
