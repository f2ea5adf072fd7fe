/* The recorder's state of a thread: the operators that are running on it, and a cache of the sites
 * of recent names. Created when the thread runs its first recorded operator, freed when it ends.
 * Only its thread reads and writes it. */
#ifndef CKINETO_TORCH_THREAD_STATE_H
#define CKINETO_TORCH_THREAD_STATE_H

#include "bridge.h"

#include <ATen/record_function.h>
#include <ckineto/function.h>

#include <atomic>
#include <cstring>

namespace ckt {

constexpr uint32_t kMaxDepth = 256;       /* operators that are open on a thread */
constexpr uint32_t kPointerCache = 512;   /* a power of two */
constexpr uint32_t kTextCache = 1024;     /* a power of two */
constexpr uint32_t kMaxSites = 16384;     /* names with a site of their own, in the process */

/* Operators with facts beyond their inputs: collectives have keywords. */
enum class NameClass : uint8_t { plain, collective };

/** A name, resolved. */
struct ResolvedName {
  kineto_site *site;
  NameClass name_class;
  bool is_dynamic; /* the site is shared: each operator carries its own name */
};

/** An operator that is running. Its end is matched by the address of its RecordFunction. */
struct OpenFunction {
  const at::RecordFunction *function;
  kineto_function record;
};

struct ThreadState {
  uint32_t depth;
  uint32_t step_depth;     /* an iteration begins when depth gets below; 0: none waits */
  uint64_t thread_id;      /* kineto_function_thread_id */
  uint64_t memory_session; /* that its memory hook is of; 0: it has none */
  OpenFunction open[kMaxDepth];
  struct {
    const char *name;
    ResolvedName resolved;
  } by_pointer[kPointerCache];
  ResolvedName by_text[kTextCache];
};

/* Initial-exec: the bridge is opened once and never closed, and one pointer fits into what the C
 * library reserves for such. */
extern thread_local ThreadState *thread_state __attribute__((tls_model("initial-exec")));

/** Make the state of the calling thread; NULL: out of memory. */
ThreadState *create_thread_state();

/** ckineto's id of a thread by RecordFunction's number; 0: unknown, it has recorded nothing yet. */
uint64_t find_forward_thread(uint64_t record_function_thread);

/** Resolve a name that is not in the cache by pointer. site is NULL: out of memory. */
ResolvedName resolve_slow(ThreadState *t, const at::RecordFunction &fn, const char *name);

inline bool names_match(const ResolvedName &known, const char *name, at::RecordScope scope)
{
  return known.site->scope == (uint8_t)scope && std::strcmp(known.site->name, name) == 0;
}

/** The site of an operator. It is cached by the address of the name. Names of schemas live for
 *  ever, but the memory of other names is reused, so the text is compared too. */
inline const ResolvedName &resolve_name(ThreadState *t, const at::RecordFunction &fn,
                                        const char *name)
{
  auto &slot = t->by_pointer[((uintptr_t)name >> 4) % kPointerCache];
  if (CKT_LIKELY(slot.name == name && !slot.resolved.is_dynamic &&
                 names_match(slot.resolved, name, fn.scope())))
    return slot.resolved;
  slot.resolved = resolve_slow(t, fn, name);
  slot.name = slot.resolved.site ? name : nullptr;
  return slot.resolved;
}

}  // namespace ckt
#endif
