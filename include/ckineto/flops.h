/** @file
 *  The number of floating point operations of an operator, from the sizes of its inputs.
 *
 *  A table knows PyTorch's operators ("aten::mm") and can be extended. A multiplication and an
 *  addition count as two operations. What a call does inside its children belongs to its number:
 *  docs/reference/summaries.md says how numbers of nested operators add up, and has every formula.
 */
#ifndef CKINETO_FLOPS_H
#define CKINETO_FLOPS_H

#include <ckineto/base.h>

#ifdef __cplusplus
extern "C" {
#endif

/** One input of a call. Borrowed for the duration of the call. */
typedef struct kineto_flops_input {
    const int64_t *dims;     /**< sizes; NULL: it is a list of tensors, or unknown */
    uint32_t rank;           /**< number of sizes; 0: a scalar, or no tensor at all */
    const int64_t *strides;  /**< in elements, `rank` of them; NULL: unknown */
    kineto_string dtype;     /**< as the trace has it ("float", "Scalar"), or empty */
    kineto_string concrete;  /**< value as text ("1", "[2, 2]", "True"); or empty */
} kineto_flops_input;

typedef struct kineto_flops_inputs {
    size_t size;  /**< sizeof(kineto_flops_inputs): set by kineto_flops_inputs_init */
    size_t count; /**< a call may state fewer than the operator has: the rest has its defaults */
    const kineto_flops_input *data;
} kineto_flops_inputs;
KINETO_INIT_FUNCTION(kineto_flops_inputs)

/** Counts the operations of one call. Called on any thread, on several at once.
 *  @param flops  receives the number; saturate instead of wrapping.
 *  @return false if the inputs are not sufficient. */
typedef bool (*kineto_flops_function)(const kineto_flops_inputs *inputs, uint64_t *flops,
                                      void *user);

/** Register `function` to count the operator `op` in this process. It replaces the built-in formula or an
 *  earlier function.
 *  @param op  copied; the full name as traces have it.
 *  @return KINETO_E_ARGUMENT without name or function, KINETO_E_MEMORY, KINETO_E_STATE from inside
 *          a function that counts. threads: any. */
KINETO_API kineto_status kineto_flops_register(const char *op, kineto_flops_function function,
                                               void *user);
/** Remove it; the built-in formula applies again. On return no thread is inside the function.
 *  @return KINETO_E_NOT_FOUND if none is registered for `op`; else as above. threads: any. */
KINETO_API kineto_status kineto_flops_unregister(const char *op);

/** Operations of one call of `op`; names of overloads ("aten::add.Tensor") are accepted.
 *  @param flops  receives the number, UINT64_MAX if it does not fit; 0 on failure.
 *  @return KINETO_E_NOT_FOUND for an unknown operator, KINETO_E_ARGUMENT if the inputs are not sufficient.
 *          threads: any. */
KINETO_API kineto_status kineto_flops_count(const char *op, const kineto_flops_inputs *inputs,
                                      uint64_t *flops);

#ifdef __cplusplus
}
#endif

#define CKINETO_FLOPS_DECLARED
#include <ckineto/deprecated.h>
#endif
