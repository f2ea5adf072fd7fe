/* Records allocations of PyTorch's allocators, of the host and of devices. They report to an object
 * in a slot of the thread (ThreadLocalDebugInfo, kind PROFILER_STATE), which autograd's threads
 * inherit. PyTorch's own profiler keeps its state there and casts any object in it to
 * ProfilerStateBase, so the hook is derived from that class, with the state Disabled. While the
 * hook is in the slot, PyTorch's profiler refuses to start on the thread: ckineto_attach calls
 * ckineto_torch_release_memory first. */
#include "recorder.h"

#include <c10/core/Allocator.h>
#include <c10/util/ThreadLocalDebugInfo.h>
#include <ckineto/record.h>
#include <torch/csrc/profiler/orchestration/observer.h>

namespace ckt {
namespace {

using torch::profiler::impl::ActiveProfilerType;
using torch::profiler::impl::ProfilerConfig;
using torch::profiler::impl::ProfilerState;
using torch::profiler::impl::ProfilerStateBase;

#if CKINETO_TORCH_MINOR >= 201
using Total = size_t;
#else
using Total = int64_t;
#endif

/* One object for all threads: it has no state. */
class MemoryHook final : public ProfilerStateBase {
 public:
  MemoryHook() : ProfilerStateBase(ProfilerConfig(ProfilerState::Disabled)) {}

  ActiveProfilerType profilerType() override { return ActiveProfilerType::NONE; }

  bool memoryProfilingEnabled() const override
  {
    return kineto_enabled(KINETO_KIND_MEMORY) && records_memory();
  }

  void reportMemoryUsage(void *address, int64_t bytes, Total allocated, Total reserved,
                         c10::Device device) override
  {
    kineto_memory_event event = make_memory_event(bytes, allocated, reserved, device);
    event.address = (uint64_t)(uintptr_t)address;
    counts.memory.fetch_add(1, std::memory_order_relaxed);
    kineto_memory_report(&event);
  }

  void reportOutOfMemory(int64_t bytes, Total allocated, Total reserved,
                         c10::Device device) override
  {
    kineto_memory_event event = make_memory_event(bytes, allocated, reserved, device);
    kineto_memory_report_failure(&event);
  }

 private:
  static kineto_memory_event make_memory_event(int64_t bytes, Total allocated, Total reserved,
                                               c10::Device device)
  {
    kineto_memory_event event = {};
    event.size = sizeof event;
    event.bytes = bytes;
    event.total_allocated_bytes = (uint64_t)allocated;
    event.total_reserved_bytes = (uint64_t)reserved;
    event.device_type = (int32_t)device.type();
    event.device_index = device.index();
    return event;
  }
};

const std::shared_ptr<MemoryHook> &get_hook()
{
  /* Never destroyed: threads may allocate until the process has ended. */
  static const auto *hook = new std::shared_ptr<MemoryHook>(std::make_shared<MemoryHook>());
  return *hook;
}

c10::DebugInfoBase *find_state()
{
  return c10::ThreadLocalDebugInfo::get(c10::DebugInfoKind::PROFILER_STATE);
}

}  // namespace

void hook_memory(ThreadState *t) noexcept
{
  t->memory_session = recording_number();
  if (!kineto_enabled(KINETO_KIND_MEMORY) || !records_memory())
    return;
  try {
    if (!find_state())
      c10::ThreadLocalDebugInfo::_push(c10::DebugInfoKind::PROFILER_STATE, get_hook());
  } catch (...) { /* out of memory: this thread has no memory events */
  }
}

void unhook_memory(ThreadState *t) noexcept
{
  try {
    if (find_state() == static_cast<c10::DebugInfoBase *>(get_hook().get()))
      c10::ThreadLocalDebugInfo::_pop(c10::DebugInfoKind::PROFILER_STATE);
  } catch (...) { /* another object was pushed after the hook, which stays below it */
  }
  t->memory_session = 0;
}

}  // namespace ckt

void ckineto_torch_release_memory(void)
{
  if (ckt::thread_state)
    ckt::unhook_memory(ckt::thread_state);
}
