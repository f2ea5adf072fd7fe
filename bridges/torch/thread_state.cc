/* Creates and frees states of threads, and resolves names that are not in their caches to sites of
 * libckineto-rt. Sites are never freed, so their number is limited (kMaxSites). */
#include "thread_state.h"

#include <new>

namespace ckt {

thread_local ThreadState *thread_state;

namespace {

/* From RecordFunction's numbers of threads, which begin at 1, to ckineto's ids. Threads with higher
 * numbers are unknown. */
constexpr uint64_t kMaxForwardThreads = 65536;
std::atomic<uint64_t> forward_threads[kMaxForwardThreads];

std::atomic<uint32_t> site_count;

/* The thread's thread-local objects are being destroyed: its operators are not recorded any
 * more. */
thread_local bool thread_ends __attribute__((tls_model("initial-exec")));

/* Frees the state when the thread ends. Operators that are still open then end with the thread's
 * recording. */
struct StateOwner {
  ~StateOwner()
  {
    thread_ends = true;
    ThreadState *t = thread_state;
    thread_state = nullptr;
    delete t;
  }
};

uint32_t hash_name(const char *name, at::RecordScope scope)
{
  uint32_t hash = 2166136261u + (uint32_t)scope;
  for (; *name; name++)
    hash = (hash ^ (uint8_t)*name) * 16777619u;
  return hash ^ hash >> 15;
}

/* The name is at::kParamCommsCallName, which older versions do not declare. */
NameClass classify_name(const char *name)
{
  return std::strcmp(name, "record_param_comms") == 0 ? NameClass::collective : NameClass::plain;
}

const char *get_overload_name(const at::RecordFunction &fn)
{
#if CKT_HAS_OVERLOAD_NAME
  const char *overload = fn.overload_name();
  return overload && *overload ? overload : nullptr;
#else
  (void)fn;
  return nullptr;
#endif
}

/* Programs put numbers into names ("step 17"). Beyond kMaxSites such names share one site, and each
 * operator carries its own. */
ResolvedName resolve_dynamic(at::RecordScope scope)
{
  ResolvedName out = {kineto_function_site("operator with a name of its own", nullptr,
                                           (kineto_scope)scope),
                      NameClass::plain, true};
  return out;
}

}  // namespace

ThreadState *create_thread_state()
{
  if (thread_ends)
    return nullptr;
  static thread_local StateOwner owner;
  (void)&owner;
  ThreadState *t = new (std::nothrow) ThreadState();
  if (!t)
    return nullptr;
  t->thread_id = kineto_function_thread_id();
  uint64_t number = at::RecordFunction::currentThreadId();
  if (number < kMaxForwardThreads)
    forward_threads[number].store(t->thread_id, std::memory_order_relaxed);
  thread_state = t;
  return t;
}

uint64_t find_forward_thread(uint64_t record_function_thread)
{
  return record_function_thread < kMaxForwardThreads
             ? forward_threads[record_function_thread].load(std::memory_order_relaxed)
             : 0;
}

ResolvedName resolve_slow(ThreadState *t, const at::RecordFunction &fn, const char *name)
{
  ResolvedName &slot = t->by_text[hash_name(name, fn.scope()) % kTextCache];
  if (slot.site && !slot.is_dynamic && names_match(slot, name, fn.scope()))
    return slot;
  if (fn.scope() == at::RecordScope::USER_SCOPE &&
      site_count.load(std::memory_order_relaxed) >= kMaxSites)
    return resolve_dynamic(fn.scope());
  ResolvedName made = {kineto_function_site(name, get_overload_name(fn), (kineto_scope)fn.scope()),
                       classify_name(name), false};
  site_count.fetch_add(1, std::memory_order_relaxed);
  if (made.site)
    slot = made;
  return made;
}

}  // namespace ckt
