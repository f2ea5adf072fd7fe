/* Stops libkineto's daemon client. With KINETO_USE_DAEMON libkineto starts a thread when libtorch
 * is loaded that polls the daemon for requests. Where ckineto handles them, that thread has to end:
 * otherwise a request would reach the client that happens to poll first.
 *
 * The functions are exported by libtorch_cpu.so and declared in no header that PyTorch installs:
 * they are looked up by their mangled names, which are the same in 2.5 ... 2.15. */
#include "bridge.h"

#include <cstdio>
#include <cstdlib>
#include <dlfcn.h>
#include <pthread.h>
#include <time.h>
#include <unistd.h>

namespace ckt {
namespace {

using InstanceFunction = void *();
using StopFunction = void(void *loader);

/* The client usually ends at once. If it waits for a daemon that does not run, it sleeps up to 10
 * s. The import of PyTorch must not wait that long, so a thread of ours joins the client. */
constexpr long kStopWaitNs = 100000000;

/* The thread that joins libkineto's client. */
struct Stopper {
  InstanceFunction *instance;
  StopFunction *stop;
  pthread_t thread;
  pid_t pid; /* that started it: a fork's child has no such thread */
  bool is_joined;
};

Stopper stopper;

void *stop_thread(void *)
{
  (void)pthread_setname_np(pthread_self(), "ckineto");
  stopper.stop(stopper.instance());
  return nullptr;
}

/* libkineto stops its thread at exit too, and two threads must not join it at the same time: wait
 * for the stopper first. */
void join_at_exit()
{
  if (!stopper.is_joined && stopper.pid == getpid())
    (void)pthread_join(stopper.thread, nullptr);
}

/* Look up libkineto's functions. False: *text says that this PyTorch does not export them. */
bool find_stop_functions(char *text, size_t text_bytes)
{
  stopper.instance = (InstanceFunction *)dlsym(RTLD_DEFAULT, "_ZN9libkineto12ConfigLoader8instanceEv");
  stopper.stop = (StopFunction *)dlsym(RTLD_DEFAULT, "_ZN9libkineto12ConfigLoader10stopThreadEv");
  if (stopper.instance && stopper.stop)
    return true;
  std::snprintf(text, text_bytes, "the client of the daemon in this PyTorch cannot be stopped");
  return false;
}

bool start_stopper(char *text, size_t text_bytes)
{
  stopper.pid = getpid();
  int failed = pthread_create(&stopper.thread, nullptr, stop_thread, nullptr);
  if (failed)
    std::snprintf(text, text_bytes, "a thread cannot be started (error %d)", failed);
  return failed == 0;
}

/* Wait kStopWaitNs for the stopper to end; if it takes longer, join it at exit. */
void wait_for_stopper()
{
  timespec until;
  clock_gettime(CLOCK_REALTIME, &until);
  until.tv_nsec += kStopWaitNs;
  until.tv_sec += until.tv_nsec / 1000000000;
  until.tv_nsec %= 1000000000;
  stopper.is_joined = pthread_timedjoin_np(stopper.thread, nullptr, &until) == 0;
  if (!stopper.is_joined)
    (void)std::atexit(join_at_exit);
}

}  // namespace
}  // namespace ckt

int ckineto_torch_stop_daemon_client(char *text, size_t text_bytes)
{
  static bool stopped;
  if (stopped)
    return 0;
  if (!ckt::find_stop_functions(text, text_bytes) || !ckt::start_stopper(text, text_bytes))
    return -1;
  ckt::wait_for_stopper();
  stopped = true;
  return 0;
}
