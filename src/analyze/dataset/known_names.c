/* Meanings of names that frameworks and vendors give their activities: data loaders, operators that
 * may use tensor cores, calls that cannot block. A new spelling of a framework is added here.
 *
 * Names of kernels have rules of their own (analyze/classes), steps too (trace/model/steps.h). */
#include "analyze/dataset/known_names.h"

#include "analyze/dataset/arg_lookup.h"
#include "analyze/dataset/dataset.h"
#include "trace/trace.h"

/* Names that only PyTorch and its profiler give; with the latter also those of steps, which ckineto records of
 * all programs. */
bool ka_is_torch(const kineto_trace *t)
{
    static const char *const of_torch[] = {"aten::", "c10d::", "c10::", "nn.Module: ", "torch/", "torch::", "autograd::engine::",
                                           "enumerate(DataLoader)#", "Optimizer.", "PyTorch Profiler (",
                                           "DistributedDataParallel", "ProfilerStep#"};
    size_t count = KB_COUNT(of_torch) - (*kt_writer_version(t) != 0);
    for (uint32_t id = 0; id < kineto_trace_string_count(t); id++)
        for (size_t i = 0; i < count; i++)
            if (kb_string_starts_with(kineto_trace_string(t, id), of_torch[i]))
                return true;
    return false;
}

bool ka_is_dataloader(kineto_string name)
{
    return (kb_string_starts_with(name, "enumerate(DataLoader)#") &&
            kb_string_ends_with(name, ".__next__")) ||
           kb_string_starts_with(name, "enumerate(DataPipe)#");
}

/* ---- MPI -------------------------------------------------------------------------------------- */

bool ka_is_mpi_call(const ka_dataset *s, uint32_t slice)
{
    uint32_t kind = s->slices[slice].kind;
    kineto_string name = ka_name(s, s->slices[slice].name);
    return kind == KINETO_KIND_COLLECTIVE_COMM ||
           (kind == KINETO_KIND_MPI && !kb_string_starts_with(name, "MPI_Init") &&
            !kb_string_equal(name, kb_string("MPI_Finalize")));
}

bool ka_is_mpi_collective(const ka_dataset *s, uint32_t slice)
{
    return s->slices[slice].kind == KINETO_KIND_COLLECTIVE_COMM &&
           !kb_string_starts_with(ka_name(s, s->slices[slice].name), "MPI_I");
}

kineto_string ka_mpi_group(const ka_dataset *s, uint32_t slice)
{
    kineto_string group = ka_arg_text(s->trace, s->slices[slice].row, "Process Group Name");
    return kb_string_equal(group, kb_string("world")) ? (kineto_string){"", 0} : group;
}

/* PyTorch calls the group of all ranks "0" or "default_pg". */
kineto_string ka_device_group(const ka_dataset *s, kineto_row row, int64_t *ranks)
{
    kineto_string name = ka_arg_text(s->trace, row, "Process Group Name"),
                  description = ka_arg_text(s->trace, row, "Process Group Description");
    bool is_world = kb_string_equal(description, kb_string("default_pg")) || kb_string_equal(name, kb_string("default_pg")) ||
                    (!description.size && kb_string_equal(name, kb_string("0")));
    *ranks = 0;
    if (is_world || !ka_arg_int(s->trace, row, "Group size", ranks) || *ranks < 2)
        return (kineto_string){"", 0};
    return name;
}

/* ---- operators that may use tensor cores ------------------------------------------------------ */

/* "autograd::engine::evaluate_function: AddmmBackward0" → "AddmmBackward0"; "aten::mm.out" → "mm".
 */
static kineto_string core_of(kineto_string op)
{
    for (size_t i = op.size; i-- > 0;)
        if (op.data[i] == ':' || op.data[i] == ' ')
            return (kineto_string){op.data + i + 1, op.size - i - 1};
    return op;
}

bool ka_is_eligible(kineto_string op)
{
    /* words that stand in names of nothing else */
    static const char *const anywhere[] = {
        "matmul",    "addmm",      "bmm",         "scaled_mm",      "conv1d",     "conv2d",
        "conv3d",    "conv_tbc",   "convolution", "conv_transpose", "attention",  "einsum",
        "lstm",      "gru_cell",   "rnn_tanh",    "rnn_relu",       "cudnn_rnn",  "miopen_rnn",
        "multi_dot", "grouped_mm", "int_mm",      "int8pack_mm",    "int4pack_mm"};
    static const char *const whole[] = {"mm",
                                        "mv",
                                        "linear",
                                        "addmv",
                                        "addr",
                                        "gru",
                                        "bilinear",
                                        "MmBackward0",
                                        "MmBackward",
                                        "MvBackward0",
                                        "MvBackward",
                                        "LinearBackward0",
                                        "_trilinear",
                                        "inner",
                                        "tensordot",
                                        "gemm",
                                        "linear_backward",
                                        "mkldnn_linear",
                                        "GruBackward0"};
    kineto_string core = core_of(op);
    for (size_t i = 0; i < core.size; i++)
        if (core.data[i] == '.')
            core.size = i;
    if (kb_string_is_one_of(core, whole, KB_COUNT(whole)))
        return true;
    for (size_t i = 0; i < KB_COUNT(anywhere); i++)
        if (kb_string_contains_ignoring_case(core, anywhere[i]))
            return true;
    return false;
}

/* ---- calls that cannot block ------------------------------------------------------------------ */

/* Of a copy's name: does it say that neither side is pageable memory? */
static bool is_without_pageable(kineto_string name)
{
    static const char *const words[] = {"DtoD", "DeviceToDevice", "D2D", "PtoP", "Pinned"};
    if (kb_string_contains(name, "Pageable"))
        return false;
    for (size_t i = 0; i < KB_COUNT(words); i++)
        if (kb_string_contains(name, words[i]))
            return true;
    return false;
}

bool ka_cannot_block(const ka_dataset *s, uint32_t slice)
{
    const ka_slice *call = &s->slices[slice];
    if (!call->work_count || !kb_string_contains(ka_name(s, call->name), "Async"))
        return false;
    for (uint32_t i = 0; i < call->work_count; i++) {
        const ka_work *w = &s->work[s->launched[call->first_work + i]];
        if (w->kind != KINETO_KIND_GPU_MEMSET &&
            (w->kind != KINETO_KIND_GPU_MEMCPY || !is_without_pageable(ka_name(s, w->name))))
            return false;
    }
    return true;
}
