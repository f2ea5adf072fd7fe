/* RecordFunction callbacks that record operators through libckineto-rt. The recorder is a plug-in:
 * its start adds the callbacks and its stop removes them, so operators have no extra cost while no
 * session records them.
 *
 * The open operators of a thread are a stack (thread_state.h) that only this thread changes.
 * Operators that end on another thread are passed back through a short list with a mutex. */
#include "recorder.h"

#include "inputs.h"

#include <ckineto/plugin.h>

#include <cstdio>
#include <mutex>

namespace ckt {

Counts counts;

namespace {

std::atomic<uint64_t> recording{0}; /* number of the running recording; 0: none runs */
std::atomic<uint64_t> recordings{0};
std::atomic<bool> with_inputs{false}; /* the registered callback receives inputs */
std::atomic<bool> attaching{false}, memory_wanted{false}, memory_recorded{false};

/* ---- operators that end on another thread -------------------------------------------------------
 * Only a few do (futures of RPC). The thread that ends one adds its address to this list; the
 * thread that began it closes it when it runs its next operator. A full list drops the address: the
 * operator then ends with the one around it. */

constexpr uint32_t kMaxElsewhere = 64;
std::mutex elsewhere_mutex;
const at::RecordFunction *elsewhere[kMaxElsewhere];
std::atomic<uint32_t> elsewhere_count{0};

void note_end_elsewhere(const at::RecordFunction *fn)
{
  std::lock_guard<std::mutex> guard(elsewhere_mutex);
  uint32_t n = elsewhere_count.load(std::memory_order_relaxed);
  counts.ended_elsewhere++;
  if (n == kMaxElsewhere)
    return;
  elsewhere[n] = fn;
  elsewhere_count.store(n + 1, std::memory_order_release);
}

/* Remove an operator from the list; the caller holds elsewhere_mutex. False: it is not in the
 * list. */
bool take_end_elsewhere(const at::RecordFunction *fn)
{
  uint32_t n = elsewhere_count.load(std::memory_order_relaxed);
  for (uint32_t i = 0; i < n; i++) {
    if (elsewhere[i] != fn)
      continue;
    elsewhere[i] = elsewhere[n - 1];
    elsewhere_count.store(n - 1, std::memory_order_release);
    return true;
  }
  return false;
}

/* End the open operators from this depth on, innermost first. */
void close_open_from(ThreadState *t, uint32_t depth)
{
  while (t->depth > depth) {
    uint32_t at = --t->depth;
    if (at < kMaxDepth)
      kineto_function_end(&t->open[at].record);
  }
}

/* End operators of the calling thread that another thread has ended, with all inside of them. */
__attribute__((noinline)) void close_ended_elsewhere(ThreadState *t)
{
  std::lock_guard<std::mutex> guard(elsewhere_mutex);
  for (uint32_t i = 0; i < t->depth && i < kMaxDepth; i++) {
    if (take_end_elsewhere(t->open[i].function))
      close_open_from(t, i);
  }
}

/* ---- begin and end of an operator --------------------------------------------------------------- */

/* Fill the facts that every operator has: the sequence number and the forward thread. */
inline void describe_operator(const at::RecordFunction &fn, kineto_function_info *info)
{
  info->sequence_number = fn.seqNr();
  if (CKT_UNLIKELY(fn.forwardThreadId() != 0))
    info->forward_thread_id = find_forward_thread(fn.forwardThreadId());
}

/* Start an operator with everything that the session wants: inputs, keywords of collectives, its
 * own name. The arrays live on the stack and are copied by kineto_function_record_begin_info. */
void start_recorded(const at::RecordFunction &fn, const ResolvedName &name, const char *text,
                    kineto_function *record, uint32_t wants)
{
  kineto_function_info info;
  kineto_function_info_init(&info);
  kineto_keyword keywords[kMaxKeywords];
  InputRoom room;
  room.wants = wants;
  describe_operator(fn, &info);
  if (wants & KINETO_OPERATORS_INPUTS) {
    info.inputs = room.inputs;
    info.input_count = gather_inputs(fn.inputs(), room);
  }
  if (CKT_UNLIKELY(name.name_class == NameClass::collective)) {
    info.keywords = keywords;
    info.keyword_count = gather_collective(fn, keywords);
  }
  if (CKT_UNLIKELY(name.is_dynamic))
    info.name = text;
  info.debug_handle = fn.debugHandle();
  kineto_function_record_begin_info(record, name.site, &info);
}

/* Start an operator that is not special (is_special): the usual case, which needs no arrays. */
inline void start_plain(const at::RecordFunction &fn, const ResolvedName &name,
                        kineto_function *record)
{
  kineto_function_info info;
  kineto_function_info_init(&info);
  describe_operator(fn, &info);
  kineto_function_record_begin_info(record, name.site, &info);
}

void register_callback();

/* Register the callback again with or without inputs: a session that wants inputs began later than
 * the first one, or ended before the last one. */
__attribute__((noinline)) void update_callback(uint32_t wants)
{
  bool wanted = (wants & KINETO_OPERATORS_INPUTS) != 0, now = with_inputs.load();
  if (wanted != now && with_inputs.compare_exchange_strong(now, wanted))
    register_callback();
}

inline bool is_special(const ResolvedName &name, const at::RecordFunction &fn, uint32_t wants)
{
  return (wants & KINETO_OPERATORS_INPUTS) || name.name_class != NameClass::plain ||
         name.is_dynamic || fn.debugHandle() != -1;
}

/* Begin of an operator. It is pushed even if it is not recorded, so that on_exit finds it on top of
 * the stack; record.state is then 0. */
std::unique_ptr<at::ObserverContext> on_enter(const at::RecordFunction &fn)
{
  ThreadState *t = thread_state;
  if (CKT_UNLIKELY(!t) && !(t = create_thread_state()))
    return nullptr;
  if (CKT_UNLIKELY(elsewhere_count.load(std::memory_order_relaxed)))
    close_ended_elsewhere(t);
  uint32_t depth = t->depth++;
  if (CKT_UNLIKELY(depth >= kMaxDepth)) {
    counts.too_deep.fetch_add(1, std::memory_order_relaxed);
    return nullptr;
  }
  OpenFunction *open = &t->open[depth];
  open->function = &fn;
  open->record.state = 0;
  const char *text = fn.name();
  const ResolvedName &name = resolve_name(t, fn, text);
  if (CKT_UNLIKELY(!name.site) || !kineto_function_wanted(name.site))
    return nullptr;
  uint32_t wants = kineto_function_wants();
  if (CKT_UNLIKELY(((wants & KINETO_OPERATORS_INPUTS) != 0) !=
                   with_inputs.load(std::memory_order_relaxed)))
    update_callback(wants);
  if (CKT_UNLIKELY(t->memory_session != recording.load(std::memory_order_relaxed)))
    hook_memory(t);
  if (is_special(name, fn, wants))
    start_recorded(fn, name, text, &open->record, wants);
  else
    start_plain(fn, name, &open->record);
  return nullptr;
}

/* End of an operator that is not the innermost one: an operator inside was left open, or it began
 * before recording, on another thread, or beyond kMaxDepth. */
__attribute__((noinline)) void end_unusual(ThreadState *t, const at::RecordFunction *fn)
{
  if (t && t->depth > kMaxDepth) {
    t->depth--; /* operators beyond kMaxDepth are only counted */
    return;
  }
  for (uint32_t i = t ? t->depth : 0; i-- > 0;) {
    if (t->open[i].function == fn) {
      close_open_from(t, i);
      return;
    }
  }
  if (fn->isAsync())
    note_end_elsewhere(fn);
  else
    counts.ended_unknown.fetch_add(1, std::memory_order_relaxed);
}

__attribute__((noinline)) void begin_iteration(ThreadState *t)
{
  t->step_depth = 0;
  kineto_step_mark();
}

void on_exit(const at::RecordFunction &fn, at::ObserverContext *)
{
  ThreadState *t = thread_state;
  uint32_t depth = t ? t->depth : 0;
  if (CKT_UNLIKELY(depth == 0 || depth > kMaxDepth || t->open[depth - 1].function != &fn)) {
    end_unusual(t, &fn);
    return;
  }
  t->depth = depth - 1;
  kineto_function_end(&t->open[depth - 1].record);
  if (CKT_UNLIKELY(t->step_depth >= depth))
    begin_iteration(t);
}

/* ---- the callback ------------------------------------------------------------------------------- */

std::mutex callback_mutex;
at::CallbackHandle callback;

/* Register the callback with the present with_inputs, in place of the one before. Operators that
 * are running keep the pair of callbacks that they began with, so each end is matched to its
 * begin. */
void register_callback()
{
  std::lock_guard<std::mutex> guard(callback_mutex);
  if (!is_recording())
    return;
  at::CallbackHandle old = callback;
  if (old)
    at::removeCallback(old);
  at::RecordFunctionCallback made(on_enter, on_exit);
  made.needsInputs(with_inputs.load());
  callback = at::addGlobalCallback(made);
  counts.registrations++;
}

void remove_callback()
{
  std::lock_guard<std::mutex> guard(callback_mutex);
  if (callback)
    at::removeCallback(callback);
  callback = 0;
}

/* ---- the plug-in -------------------------------------------------------------------------------- */

/* Sessions may overlap: the first one begins the recording, and the last one ends it. */
std::mutex session_mutex;
uint32_t sessions;

void begin_recording()
{
  memory_recorded.store(attaching.load() || memory_wanted.load());
  recording.store(recordings.fetch_add(1) + 1);
  with_inputs.store((kineto_function_wants() & KINETO_OPERATORS_INPUTS) != 0);
  counts.starts++;
  register_callback();
  notify_observer(true);
}

void end_recording()
{
  recording.store(0);
  remove_callback();
  if (thread_state) /* NULL at exit of the thread: the slot with the hook is gone too */
    unhook_memory(thread_state);
  counts.stops++;
  notify_observer(false);
}

int create_profiler(KinetoPlugin_ProfilerCreate_Params *p)
{
  p->pProfilerHandle = (KinetoPlugin_ProfilerHandle *)&sessions;
  return 0;
}

int destroy_profiler(KinetoPlugin_ProfilerDestroy_Params *) { return 0; }

int query_profiler(KinetoPlugin_ProfilerQuery_Params *p)
{
  static const int32_t types[] = {KINETO_PLUGIN_PROFILE_EVENT_TYPE_CPU_OP,
                                  KINETO_PLUGIN_PROFILE_EVENT_TYPE_USER_ANNOTATION};
  if (p->pProfilerName && p->profilerNameMaxLen) {
    std::strncpy(p->pProfilerName, CKT_SOURCE, p->profilerNameMaxLen);
    p->pProfilerName[p->profilerNameMaxLen] = '\0';
  }
  for (size_t i = 0; i < 2 && i < p->supportedActivityTypesMaxLen; i++)
    p->pSupportedActivityTypes[i] = types[i];
  return 0;
}

/* Call a function of C++ from the host, which is C: no exception may reach it. @return 0, or 1. */
template <typename Call> int call_safely(Call call) noexcept
{
  try {
    call();
    return 0;
  } catch (...) {
    return 1;
  }
}

int start_profiler(KinetoPlugin_ProfilerStart_Params *)
{
  std::lock_guard<std::mutex> guard(session_mutex);
  return sessions++ ? 0 : call_safely(begin_recording);
}

int stop_profiler(KinetoPlugin_ProfilerStop_Params *)
{
  std::lock_guard<std::mutex> guard(session_mutex);
  return --sessions ? 0 : call_safely(end_recording);
}

int process_events(KinetoPlugin_ProfilerProcessEvents_Params *) { return 0; }

const KinetoPlugin_ProfilerInterface profiler = {
    KINETO_PLUGIN_SIZE(KinetoPlugin_ProfilerInterface, profilerErrorText),
    create_profiler,
    destroy_profiler,
    query_profiler,
    start_profiler,
    stop_profiler,
    nullptr,
    nullptr,
    nullptr,
    nullptr,
    process_events,
    nullptr,
    nullptr};

}  // namespace

bool is_recording() { return recording.load(std::memory_order_relaxed) != 0; }
bool records_memory() { return is_recording() && memory_recorded.load(std::memory_order_relaxed); }
uint64_t recording_number() { return recording.load(std::memory_order_relaxed); }

}  // namespace ckt

int ckineto_torch_attach_recorder(ckineto_torch_observer observer, char *text, size_t text_bytes)
{
  static bool attached;
  if (attached)
    return 0;
  if (!ckt::run_self_test(text, text_bytes))
    return -1;
  ckt::set_observer(observer);
  const KinetoPlugin_Registry *registry = kineto_plugin_registry();
  ckt::attaching.store(true);
  int refused = registry->registerProfiler(registry->pRegistryHandle, &ckt::profiler);
  ckt::attaching.store(false);
  if (refused) {
    std::snprintf(text, text_bytes, "ckineto's host of plug-ins refused the recorder");
    return -1;
  }
  attached = true;
  return 0;
}

void ckineto_torch_counts(uint64_t *out, size_t count)
{
  const std::atomic<uint64_t> *all[] = {
      &ckt::counts.starts,          &ckt::counts.stops,         &ckt::counts.registrations,
      &ckt::counts.too_deep,        &ckt::counts.ended_elsewhere, &ckt::counts.ended_unknown,
      &ckt::counts.collectives,     &ckt::counts.memory};
  for (size_t i = 0; i < count; i++)
    out[i] = i < sizeof all / sizeof all[0] ? all[i]->load() : 0;
}

void ckineto_torch_step_after(void)
{
  ckt::ThreadState *t = ckt::thread_state;
  if (t && t->step_depth)
    ckt::begin_iteration(t);
  if (t && t->depth && t->depth <= ckt::kMaxDepth && ckt::is_recording())
    t->step_depth = t->depth;
  else
    kineto_step_mark();
}

void ckineto_torch_want_memory(int wanted) { ckt::memory_wanted.store(wanted != 0); }

int ckineto_torch_minor(void) { return CKINETO_TORCH_MINOR; }

uint32_t ckineto_torch_features(void)
{
  return CKINETO_TORCH_RECORDER |
         (CKINETO_TORCH_HAS_KINETO ? CKINETO_TORCH_SEAT | CKINETO_TORCH_GUEST : 0u);
}
