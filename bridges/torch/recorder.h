/* The recorder: a plug-in that records PyTorch's operators as operators of ckineto. This header is
 * for the files that make it up: recorder.cc, thread_state.cc, inputs.cc, collectives.cc,
 * memory.cc, python.cc and selftest.cc. */
#ifndef CKINETO_TORCH_RECORDER_H
#define CKINETO_TORCH_RECORDER_H

#include "bridge.h"
#include "thread_state.h"

namespace ckt {

/** Counts of events since the process started. ckineto_torch_counts returns them in this order. */
struct Counts {
  std::atomic<uint64_t> starts, stops;       /* of recording */
  std::atomic<uint64_t> registrations;       /* of the callback */
  std::atomic<uint64_t> too_deep;            /* operators deeper than kMaxDepth */
  std::atomic<uint64_t> ended_elsewhere;     /* on another thread than they began */
  std::atomic<uint64_t> ended_unknown;       /* began before recording */
  std::atomic<uint64_t> collectives, memory; /* events */
};
extern Counts counts;

/** Is any session recording operators? */
bool is_recording();
/** Number of the recording, from 1; another one for each start. */
uint64_t recording_number();

/** Are allocations recorded now? See ckineto_torch_want_memory. */
bool records_memory();

/* ---- collectives.cc ---- */
constexpr uint32_t kMaxKeywords = 24;
struct Collective;
/** Describe the running collective: fills keywords that stay valid until the thread's next call.
 *  @return their number; 0: PyTorch has no information about it. */
uint32_t gather_collective(const at::RecordFunction &fn, kineto_keyword *keywords) noexcept;

/* ---- memory.cc ---- */
/** Install the memory hook of the calling thread: its allocations are recorded from now on. */
void hook_memory(ThreadState *t) noexcept;
/** Remove the memory hook of the calling thread, if it is still on top of the slot. */
void unhook_memory(ThreadState *t) noexcept;

/* ---- python.cc ---- */
/** Set the function that notify_observer calls; NULL: none. */
void set_observer(ckineto_torch_observer observer);
/** Have the observer called in Python's main thread. Does not block; any thread, without Python's
 *  lock. */
void notify_observer(bool recording);

/* ---- selftest.cc ---- */
/** Run one operator and compare the name, inputs and sequence number that a callback reads with the
 *  expected ones. False: *text describes the difference. */
bool run_self_test(char *text, size_t text_bytes) noexcept;

}  // namespace ckt
#endif
