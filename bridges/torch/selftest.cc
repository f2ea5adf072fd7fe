/* The self-test of the recorder, run once when it is attached. A bridge that was built for another
 * version of PyTorch would read RecordFunction and tensors at wrong offsets. So one addition is run
 * with a thread-local callback, which must see the operator's name, the sizes of its inputs and its
 * sequence number in the autograd graph. */
#include "recorder.h"

#include "inputs.h"

#include <c10/core/GradMode.h>
#include <ATen/ops/add.h>
#include <ATen/ops/zeros.h>

#include <cstdio>
#include <exception>

namespace ckt {
namespace {

constexpr int64_t kRows = 2, kColumns = 3;

struct Seen {
  bool called, ended;
  uint32_t inputs;
  int64_t rows, columns, sequence;
  uint8_t dtype;
};
thread_local Seen seen;

std::unique_ptr<at::ObserverContext> check_enter(const at::RecordFunction &fn)
{
  const char *name = fn.name();
  if (!name || std::strcmp(name, "aten::add") != 0 || seen.called)
    return nullptr;
  InputRoom room;
  room.wants = KINETO_OPERATORS_INPUTS;
  seen.called = true;
  seen.sequence = fn.seqNr();
  seen.inputs = gather_inputs(fn.inputs(), room);
  const kineto_input &first = room.inputs[0];
  if (seen.inputs && first.type == KINETO_INPUT_TENSOR && first.tensor && first.tensor->rank == 2) {
    seen.rows = first.tensor->sizes[0];
    seen.columns = first.tensor->sizes[1];
    seen.dtype = first.tensor->dtype;
  }
  return nullptr;
}

void check_exit(const at::RecordFunction &fn, at::ObserverContext *)
{
  seen.ended |= seen.called && std::strcmp(fn.name(), "aten::add") == 0;
}

/* Registers the callback for a scope; it is removed also when the operator throws. */
struct LocalCallback {
  at::CallbackHandle handle;
  LocalCallback()
      : handle(at::addThreadLocalCallback(
            at::RecordFunctionCallback(check_enter, check_exit).needsInputs(true)))
  {
  }
  ~LocalCallback() { at::removeCallback(handle); }
};

void run_addition()
{
  at::Tensor a = at::zeros({kRows, kColumns}, at::kFloat).requires_grad_(true);
  at::Tensor b = at::zeros({kRows, kColumns}, at::kFloat);
  LocalCallback callback;
  c10::AutoGradMode with_grad(true);
  at::Tensor sum = at::add(a, b);
}

bool fail_test(char *text, size_t text_bytes, const char *what)
{
  std::snprintf(text, text_bytes,
                "self-test: %s; this bridge does not fit the PyTorch that is loaded", what);
  return false;
}

bool check_seen(char *text, size_t text_bytes)
{
  if (!seen.called || !seen.ended)
    return fail_test(text, text_bytes, "the operator aten::add was not seen");
  if (seen.inputs != 3 || seen.rows != kRows || seen.columns != kColumns ||
      seen.dtype != KINETO_DTYPE_FLOAT)
    return fail_test(text, text_bytes, "the inputs of aten::add were misread");
  if (seen.sequence < 0)
    return fail_test(text, text_bytes, "the sequence number of aten::add was misread");
  return true;
}

}  // namespace

bool run_self_test(char *text, size_t text_bytes) noexcept
{
  seen = Seen();
  seen.sequence = -1;
  try {
    run_addition();
  } catch (const std::exception &e) {
    std::snprintf(text, text_bytes, "self-test: %s", e.what());
    return false;
  } catch (...) {
    return fail_test(text, text_bytes, "an operator failed");
  }
  return check_seen(text, text_bytes);
}

}  // namespace ckt
