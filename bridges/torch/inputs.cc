/* Reads inputs of operators, c10::IValue and at::Tensor, into an InputRoom. Everything is borrowed
 * from the tensors for the time of the call. As in PyTorch's own profiler, sizes of nested tensors
 * and of tensors with symbolic sizes are left out. */
#include "inputs.h"

#include <ATen/core/Tensor.h>

namespace ckt {
namespace {

/* Does the tensor have sizes and strides that are numbers? */
bool is_readable(const at::Tensor &tensor)
{
  return tensor.defined() && !tensor.is_nested() &&
         !tensor.unsafeGetTensorImpl()->has_symbolic_sizes_strides();
}

/* Ids as in execution traces: the tensor's, its storage's, and its offset in the storage. */
void fill_ids(const at::Tensor &tensor, kineto_tensor *out)
{
  c10::TensorImpl *impl = tensor.unsafeGetTensorImpl();
  out->id = (uint64_t)(uintptr_t)impl;
  if (impl->has_storage()) {
    out->storage_id = (uint64_t)(uintptr_t)impl->unsafe_storage().unsafeGetStorageImpl();
    out->storage_offset = impl->storage_offset();
  }
}

void fill_tensor(const at::Tensor &tensor, uint32_t wants, kineto_tensor *out)
{
  c10::TensorImpl *impl = tensor.unsafeGetTensorImpl();
  c10::IntArrayRef sizes = impl->sizes();
  out->sizes = sizes.data();
  out->rank = (uint32_t)sizes.size();
  out->strides = impl->layout() == at::kStrided ? impl->strides().data() : nullptr;
  out->dtype = (uint8_t)c10::typeMetaToScalarType(impl->dtype());
  c10::Device device = impl->device();
  out->device_type = (uint8_t)device.type();
  out->device_index = device.index();
  out->id = out->storage_id = 0;
  out->storage_offset = 0;
  if (CKT_UNLIKELY(wants & KINETO_OPERATORS_IDS))
    fill_ids(tensor, out);
}

/* A tensor that cannot be read, or has no room, is a tensor without sizes (tensor = nullptr). */
void gather_tensor(const at::Tensor &tensor, InputRoom &room, kineto_input *out)
{
  out->type = KINETO_INPUT_TENSOR;
  out->tensor = nullptr;
  if (!is_readable(tensor) || room.tensor_count == kFewTensors)
    return;
  kineto_tensor *to = &room.tensors[room.tensor_count++];
  fill_tensor(tensor, room.wants, to);
  out->tensor = to;
}

/* Reserve room for a list of tensors: in the room itself, or on the heap if it is too long. The
 * caller initialises the entries. Throws std::bad_alloc. */
kineto_tensor *reserve_tensors(InputRoom &room, size_t count)
{
  if (count <= kFewTensors - room.tensor_count) {
    kineto_tensor *list = &room.tensors[room.tensor_count];
    room.tensor_count += (uint32_t)count;
    return list;
  }
  room.more.emplace_back(count);
  return room.more.back().data();
}

void gather_tensors(c10::ArrayRef<c10::IValue> list, InputRoom &room, kineto_input *out)
{
  kineto_tensor *to = reserve_tensors(room, list.size());
  out->type = KINETO_INPUT_TENSORS;
  out->count = (uint32_t)list.size();
  out->tensor = to;
  for (const c10::IValue &value : list) {
    *to = kineto_tensor{};
    to->dtype = KINETO_DTYPE_COUNT;
    if (value.isTensor() && is_readable(value.toTensor()))
      fill_tensor(value.toTensor(), room.wants, to);
    to++;
  }
}

bool has_number_room(uint32_t used, size_t count) { return count <= kFewNumbers - used; }

/* Lists of numbers. A list that does not fit has its type and count, but no values. */
void gather_numbers(const c10::IValue &value, InputRoom &room, kineto_input *out)
{
  c10::ArrayRef<c10::IValue> list = value.toListRef();
  uint32_t count = (uint32_t)list.size();
  out->count = count;
  if (value.isBoolList()) {
    out->type = KINETO_INPUT_BOOLS;
    out->bools = has_number_room(room.bool_count, count) ? &room.bools[room.bool_count] : nullptr;
    for (uint32_t i = 0; out->bools && i < count; i++)
      room.bools[room.bool_count++] = list[i].toBool();
    return;
  }
  bool whole = value.isIntList(), room_left = has_number_room(room.number_count, count);
  out->type = whole ? KINETO_INPUT_INTS : KINETO_INPUT_DOUBLES;
  out->ints = room_left ? &room.ints[room.number_count] : nullptr;
  for (uint32_t i = 0; room_left && i < count; i++, room.number_count++) {
    if (whole)
      room.ints[room.number_count] = list[i].toInt();
    else
      room.doubles[room.number_count] = list[i].toDouble();
  }
}

void gather_list(const c10::IValue &value, InputRoom &room, kineto_input *out)
{
  if (value.isTensorList())
    gather_tensors(value.toListRef(), room, out);
  else if (value.isIntList() || value.isDoubleList() || value.isBoolList())
    gather_numbers(value, room, out);
  else if (!value.toListRef().empty() && value.toListRef()[0].isTensor())
    gather_tensors(value.toListRef(), room, out);
}

/* Everything but tensors; types that PyTorch does not record stay KINETO_INPUT_OTHER. */
void gather_other(const c10::IValue &value, InputRoom &room, kineto_input *out)
{
  if (value.isList())
    gather_list(value, room, out);
  else if (value.isInt()) {
    out->type = KINETO_INPUT_INT;
    out->i = value.toInt();
  } else if (value.isDouble()) {
    out->type = KINETO_INPUT_DOUBLE;
    out->d = value.toDouble();
  } else if (value.isBool()) {
    out->type = KINETO_INPUT_BOOL;
    out->u = value.toBool();
  } else if (value.isNone())
    out->type = KINETO_INPUT_NONE;
}

void gather_one(const c10::IValue &value, InputRoom &room, kineto_input *out)
{
  out->type = KINETO_INPUT_OTHER;
  out->count = 0;
  out->u = 0;
  if (CKT_LIKELY(value.isTensor()))
    gather_tensor(value.toTensor(), room, out);
  else
    gather_other(value, room, out);
}

}  // namespace

uint32_t gather_inputs(c10::ArrayRef<const c10::IValue> values, InputRoom &room) noexcept
{
  uint32_t count = 0;
  for (const c10::IValue &value : values) {
    if (count == kFewInputs)
      break;
    kineto_input *out = &room.inputs[count++];
    try {
      gather_one(value, room, out);
    } catch (...) { /* for example a tensor subclass of Python without sizes */
      out->type = KINETO_INPUT_OTHER;
      out->count = 0;
    }
  }
  return count;
}

}  // namespace ckt
