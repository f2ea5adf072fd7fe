/* Classes of kernels, by their names: built-in rules (kernel_rules.def) and those of the user.
 * docs/reference/kernel-rules.md has the syntax. */
#ifndef KA_CLASSES_H
#define KA_CLASSES_H

#include "base/base.h"

/** What device time is summed up by. */
#define KA_TYPE_MAP(X)                                                                             \
    X(OTHER, "other")                                                                              \
    X(COMPUTATION, "computation")                                                                  \
    X(COMMUNICATION, "communication")                                                              \
    X(MEMORY, "memory")

/** What is computed: X(NAME, "word", type that follows from it). */
#define KA_FAMILY_MAP(X)                                                                           \
    X(UNKNOWN, "unknown", COMPUTATION)                                                             \
    X(GEMM, "gemm", COMPUTATION)                                                                   \
    X(CONVOLUTION, "convolution", COMPUTATION)                                                     \
    X(ATTENTION, "attention", COMPUTATION)                                                         \
    X(ELEMENTWISE, "elementwise", COMPUTATION)                                                     \
    X(REDUCTION, "reduction", COMPUTATION) /* and scans */                                         \
    X(NORMALIZATION, "normalization", COMPUTATION)                                                 \
    X(SOFTMAX, "softmax", COMPUTATION)                                                             \
    X(EMBEDDING, "embedding", COMPUTATION)                                                         \
    X(INDEXING, "indexing", COMPUTATION) /* gather, scatter, index, sort, top-k */                 \
    X(OPTIMIZER, "optimizer", COMPUTATION)                                                         \
    X(COPY, "copy", COMPUTATION) /* by a kernel: casts, concatenation */                           \
    X(FILL, "fill", COMPUTATION)                                                                   \
    X(LAYOUT, "layout", COMPUTATION) /* transposition, NCHW to NHWC, packing */                    \
    X(RANDOM, "random", COMPUTATION) /* and dropout */                                             \
    X(TRITON, "triton", COMPUTATION) /* fused by a compiler, contents unknown … */               \
    X(TRITON_POINTWISE, "triton_pointwise", COMPUTATION)   /* … _poi_ */                         \
    X(TRITON_REDUCTION, "triton_reduction", COMPUTATION)   /* … _red_ */                         \
    X(TRITON_PERSISTENT, "triton_persistent", COMPUTATION) /* … _per_: a reduction in one go */  \
    X(POOLING, "pooling", COMPUTATION)                                                             \
    X(INTERPOLATION, "interpolation", COMPUTATION)                                                 \
    X(RNN, "rnn", COMPUTATION)                                                                     \
    X(STATE_SPACE, "state_space", COMPUTATION) /* Mamba and linear attention */                    \
    X(FFT, "fft", COMPUTATION)                                                                     \
    X(LOSS, "loss", COMPUTATION)                                                                   \
    X(QUANTIZATION, "quantization", COMPUTATION)                                                   \
    X(SPARSE, "sparse", COMPUTATION)                                                               \
    X(SOLVER, "solver", COMPUTATION)   /* linear algebra beyond products */                        \
    X(MOE, "moe", COMPUTATION)         /* routing to experts; their products are gemm */           \
    X(PROGRAM, "program", COMPUTATION) /* a whole compiled graph, as accelerators run it */        \
    X(SYNCHRONIZATION, "synchronization", OTHER)                                                   \
    X(COLLECTIVE, "collective", COMMUNICATION)                                                     \
    X(POINT_TO_POINT, "point_to_point", COMMUNICATION)                                             \
    X(MEMCPY, "memcpy", MEMORY)                                                                    \
    X(MEMSET, "memset", MEMORY)

/** Type of the factors or, where nothing is multiplied, of the data: the narrowest floating type
 *  that the name contains. */
#define KA_PRECISION_MAP(X)                                                                        \
    X(UNKNOWN, "unknown")                                                                          \
    X(FP64, "fp64")                                                                                \
    X(FP32, "fp32")                                                                                \
    X(TF32, "tf32")                                                                                \
    X(FP16, "fp16")                                                                                \
    X(BF16, "bf16")                                                                                \
    X(FP8, "fp8")                                                                                  \
    X(FP6, "fp6")                                                                                  \
    X(FP4, "fp4")                                                                                  \
    X(INT8, "int8")                                                                                \
    X(INT4, "int4")

/** Tensor cores of NVIDIA, MFMA of AMD, XMX of Intel. */
#define KA_TENSOR_MAP(X)                                                                           \
    X(UNKNOWN, "unknown")                                                                          \
    X(NO, "no")                                                                                    \
    X(YES, "yes")

/** Where the kernel comes from. */
#define KA_LIBRARY_MAP(X)                                                                          \
    X(UNKNOWN, "unknown")                                                                          \
    X(ATEN, "aten")                                                                                \
    X(TRITON, "triton")                                                                            \
    X(CUBLAS, "cublas")                                                                            \
    X(CUTLASS, "cutlass")                                                                          \
    X(CUDNN, "cudnn")                                                                              \
    X(CUFFT, "cufft")                                                                              \
    X(CUSPARSE, "cusparse")                                                                        \
    X(CUSOLVER, "cusolver")                                                                        \
    X(CUB, "cub")                                                                                  \
    X(MAGMA, "magma")                                                                              \
    X(FLASH, "flash")                                                                              \
    X(FLASHINFER, "flashinfer")                                                                    \
    X(XFORMERS, "xformers")                                                                        \
    X(APEX, "apex")                                                                                \
    X(FBGEMM, "fbgemm")                                                                            \
    X(TRANSFORMER_ENGINE, "transformer_engine")                                                    \
    X(TENSORRT, "tensorrt")                                                                        \
    X(DEEPSPEED, "deepspeed")                                                                      \
    X(DEEPGEMM, "deepgemm")                                                                        \
    X(VLLM, "vllm")                                                                                \
    X(SGLANG, "sglang")                                                                            \
    X(BITSANDBYTES, "bitsandbytes")                                                                \
    X(LIGER, "liger")                                                                              \
    X(XLA, "xla")                                                                                  \
    X(TENSILE, "tensile")                                                                          \
    X(COMPOSABLE_KERNEL, "composable_kernel")                                                      \
    X(AITER, "aiter")                                                                              \
    X(MIOPEN, "miopen")                                                                            \
    X(ROCCLR, "rocclr")                                                                            \
    X(ONEDNN, "onednn")                                                                            \
    X(MTIA, "mtia")                                                                                \
    X(NCCL, "nccl")                                                                                \
    X(RCCL, "rccl")                                                                                \
    X(MSCCL, "msccl")                                                                              \
    X(DEEPEP, "deepep")                                                                            \
    X(NVSHMEM, "nvshmem")                                                                          \
    X(SYMMETRIC_MEMORY, "symmetric_memory")                                                        \
    X(ONECCL, "oneccl")                                                                            \
    X(HCCL, "hccl")                                                                                \
    X(GLOO, "gloo")

#define KA_X(name, ...) KA_TYPE_##name,
typedef enum ka_type { KA_TYPE_MAP(KA_X) KA_TYPE_COUNT } ka_type;
#undef KA_X
#define KA_X(name, ...) KA_FAMILY_##name,
typedef enum ka_family { KA_FAMILY_MAP(KA_X) KA_FAMILY_COUNT } ka_family;
#undef KA_X
#define KA_X(name, ...) KA_PRECISION_##name,
typedef enum ka_precision { KA_PRECISION_MAP(KA_X) KA_PRECISION_COUNT } ka_precision;
#undef KA_X
#define KA_X(name, ...) KA_TENSOR_##name,
typedef enum ka_tensor { KA_TENSOR_MAP(KA_X) KA_TENSOR_COUNT } ka_tensor;
#undef KA_X
#define KA_X(name, ...) KA_LIBRARY_##name,
typedef enum ka_library { KA_LIBRARY_MAP(KA_X) KA_LIBRARY_COUNT } ka_library;
#undef KA_X

typedef struct ka_class {
    uint8_t type;      /* ka_type */
    uint8_t family;    /* ka_family */
    uint8_t precision; /* ka_precision */
    uint8_t tensor;    /* ka_tensor */
    uint8_t library;   /* ka_library */
} ka_class;

/** Immutable once made: any number of threads may classify with it. */
typedef struct ka_rules ka_rules;

/* ---- classes_file.c ---- */
/** @param path  rules of the user, which go before the built-in ones; NULL: none.
 *  @return KINETO_E_FORMAT names file and line, KINETO_E_LIMIT, KINETO_E_MEMORY, or why the file
 *          cannot be read. */
kineto_status ka_rules_create(const char *path, ka_rules **out, kineto_error *err);
/** NULL is fine. */
void ka_rules_free(ka_rules *rules);

/* ---- classes.c ---- */
/** By the activity's kind (kineto_kind), then by its name. */
ka_class ka_classify(const ka_rules *rules, uint32_t kind, kineto_string name);

/** The word for a number; "unknown" if it is out of range. Static storage. */
const char *ka_type_name(uint32_t type);
const char *ka_family_name(uint32_t family);
const char *ka_precision_name(uint32_t precision);
const char *ka_tensor_name(uint32_t tensor);
const char *ka_library_name(uint32_t library);
#endif
