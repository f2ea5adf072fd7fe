/* libkineto's client of a daemon. With KINETO_USE_DAEMON libkineto starts a thread when libtorch is loaded
 * that asks the daemon for requests. Where ckineto answers them, that thread has to end, or a request
 * would reach the client that happens to ask first.
 *
 * The functions are exported by libtorch_cpu.so and declared in no header that PyTorch installs: they are
 * looked up by their mangled names, which are the same in 2.5 ... 2.15. */
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

/* Most threads end at once. One that waits for a daemon that is not there sleeps up to 10 s, and the
 * import of PyTorch must not: then the stopper waits for it. */
constexpr long PATIENCE_NS = 100000000;

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

/* At the end of the process libkineto stops its thread, too: two must not join it at the same time. */
void join_at_exit()
{
  if (!stopper.is_joined && stopper.pid == getpid())
    (void)pthread_join(stopper.thread, nullptr);
}

bool look_up(char *text, size_t text_bytes)
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

void wait_a_little()
{
  timespec until;
  clock_gettime(CLOCK_REALTIME, &until);
  until.tv_nsec += PATIENCE_NS;
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
  if (!ckt::look_up(text, text_bytes) || !ckt::start_stopper(text, text_bytes))
    return -1;
  ckt::wait_a_little();
  stopped = true;
  return 0;
}
