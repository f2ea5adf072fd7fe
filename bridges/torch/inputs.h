/* Inputs of an operator as ckineto has them: sizes, strides, types and values are borrowed from the
 * tensors for the time of the call. */
#ifndef CKINETO_TORCH_INPUTS_H
#define CKINETO_TORCH_INPUTS_H

#include "bridge.h"

#include <ATen/record_function.h>
#include <ckineto/function.h>

#include <vector>

namespace ckt {

constexpr uint32_t kFewInputs = 32;  /* that fit on the stack; more are cut */
constexpr uint32_t kFewTensors = 64; /* of all inputs together; lists beyond use the heap */
constexpr uint32_t kFewNumbers = 64; /* in lists of numbers, all together */

/** Room for the inputs of one operator, on the stack. The arrays are not initialised: gather_inputs
 *  returns how many inputs are set. `more` holds lists of tensors that do not fit. */
struct InputRoom {
  kineto_input inputs[kFewInputs];
  kineto_tensor tensors[kFewTensors];
  union {
    int64_t ints[kFewNumbers];
    double doubles[kFewNumbers];
  };
  bool bools[kFewNumbers];
  uint32_t tensor_count = 0, number_count = 0, bool_count = 0;
  uint32_t wants; /* KINETO_OPERATORS_… */
  std::vector<std::vector<kineto_tensor>> more;
};

/** Fill room.inputs. Must not throw: what cannot be read is KINETO_INPUT_OTHER.
 *  @return how many inputs there are in it. */
uint32_t gather_inputs(c10::ArrayRef<const c10::IValue> values, InputRoom &room) noexcept;

}  // namespace ckt
#endif
