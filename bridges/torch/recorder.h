/* The recorder: PyTorch's operators as operators of ckineto. */
#ifndef CKINETO_TORCH_RECORDER_H
#define CKINETO_TORCH_RECORDER_H

#include "bridge.h"
#include "thread_state.h"

namespace ckt {

/** What was seen and what could not be recorded, of the process. ckineto_torch_counts gives them in this
 *  order. */
struct Counts {
  std::atomic<uint64_t> starts, stops;       /* of recording */
  std::atomic<uint64_t> registrations;       /* of the callback */
  std::atomic<uint64_t> too_deep;            /* operators deeper than kMaxDepth */
  std::atomic<uint64_t> ended_elsewhere;     /* on another thread than they began */
  std::atomic<uint64_t> ended_unknown;       /* began before recording */
  std::atomic<uint64_t> collectives, memory; /* events */
};
extern Counts counts;

/** Is some session recording operators? */
bool is_recording();
/** Number of the recording, from 1; another one for each start. */
uint64_t recording_number();

/** Are allocations recorded now? See ckineto_torch_want_memory. */
bool records_memory();

/* ---- collectives.cc ---- */
constexpr uint32_t kMaxKeywords = 24;
struct Collective;
/** What the running collective is: fills keywords that stay valid until the next call of this thread.
 *  @return how many; 0: nothing is known of it. */
uint32_t gather_collective(const at::RecordFunction &fn, kineto_keyword *keywords) noexcept;

/* ---- memory.cc ---- */
/** Allocations of the calling thread are reported to the recorder from now on. */
void hook_memory(ThreadState *t) noexcept;
/** And no more, if the hook is still its own. */
void unhook_memory(ThreadState *t) noexcept;

/* ---- python.cc ---- */
/** Who is to be notified. NULL: no one. Once, before recording. */
void set_observer(ckineto_torch_observer observer);
/** Have the observer called in Python's main thread. Does not block; any thread, without Python's
 *  lock. */
void notify_observer(bool recording);

/* ---- selftest.cc ---- */
/** Run one operator and compare what a callback sees of it with what it must be. False: *text says what
 *  differs. */
bool run_self_test(char *text, size_t text_bytes) noexcept;

}  // namespace ckt
#endif
