/* Notifies Python of the begin and end of recording. Sessions begin and end on any thread, and a
 * thread of ckineto must not wait for Python's lock: Py_AddPendingCall has the interpreter make the
 * call in its main thread. Its functions are looked up at run time, since one bridge serves all
 * versions of Python, and C++ programs without Python. */
#include "recorder.h"

#include <dlfcn.h>

namespace ckt {
namespace {

using PendingCall = int (*)(void *);
using AddPendingCall = int (*)(PendingCall, void *);

std::atomic<ckineto_torch_observer> current_observer{nullptr};

int run_observer(void *recording)
{
  ckineto_torch_observer observer = current_observer.load();
  if (observer)
    observer((int)(intptr_t)recording);
  return 0;
}

}  // namespace

void set_observer(ckineto_torch_observer observer) { current_observer.store(observer); }

void notify_observer(bool recording)
{
  static const auto add = (AddPendingCall)dlsym(RTLD_DEFAULT, "Py_AddPendingCall");
  static const auto is_initialized = (int (*)())dlsym(RTLD_DEFAULT, "Py_IsInitialized");
  /* Sessions may end after the interpreter has been finalised. */
  if (add && is_initialized && current_observer.load() && is_initialized())
    (void)add(run_observer, (void *)(intptr_t)recording);
}

}  // namespace ckt

void ckineto_torch_detach_observer(void) { ckt::set_observer(nullptr); }
