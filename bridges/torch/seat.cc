/* The seat: ckineto in the place of libkineto's activity profiler. PyTorch prepares, starts and
 * stops it, hands operators over when a profile ends, and reads devices' activities from the result
 * (seat_trace.cc). libkineto's own profiler, with CUPTI, is then never created.
 *
 * PyTorch calls prepare, start and stop from one thread at a time. Metadata, names of threads and
 * child profilers may come from any thread: mutex_ protects them. */
#include "seat_trace.h"

#include <Config.h>
#include <ckineto/host.h>

#include <dlfcn.h>
#include <mutex>
#include <pthread.h>
#include <time.h>
#include <unistd.h>

namespace ckt {
namespace {

std::string library_folder; /* of libckineto */

using libkineto::ActivityProfilerInterface;
using libkineto::ActivityTraceInterface;
using libkineto::IActivityProfiler;

int64_t read_realtime_ns()
{
  timespec t;
  clock_gettime(CLOCK_REALTIME, &t);
  return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

/* The value of the line "KEY=value" of a configuration; "" if there is no such line. */
std::string find_config_value(const std::string &config, const std::string &key)
{
  size_t at = 0;
  while (at < config.size()) {
    size_t end = std::min(config.find('\n', at), config.size());
    std::string line = config.substr(at, end - at);
    if (line.rfind(key + "=", 0) == 0)
      return line.substr(key.size() + 1);
    at = end + 1;
  }
  return "";
}

std::string read_host_name()
{
  char name[256] = "";
  (void)gethostname(name, sizeof name - 1);
  return name;
}

/* Load our CUPTI source once, for a profile of CUDA devices, if the driver is installed. Its errors
 * are in the table of plug-ins and the ledger. */
void load_cuda_source()
{
  static std::once_flag once;
  std::call_once(once, [] {
    void *driver = dlopen("libcuda.so.1", RTLD_LAZY | RTLD_LOCAL);
    if (!driver)
      return;
    (void)kineto_plugin_load((library_folder + "/ckineto/ckineto-cuda.so").c_str(), nullptr, nullptr);
    dlclose(driver);
  });
}

std::string read_thread_name()
{
  char name[32] = "";
  (void)pthread_getname_np(pthread_self(), name, sizeof name);
  return name;
}

/* One object for the process. A profile is a session of ckineto plus the sessions of child
 * profilers; its parts are collected in recorded_ until stopTrace hands them over. */
class SeatProfiler final : public ActivityProfilerInterface {
 public:
  explicit SeatProfiler(bool initialized) : initialized_(initialized) {}
  ~SeatProfiler() override { lib.kineto_session_destroy(session_); }

  void init() override { initialized_ = true; }
  bool isInitialized() override { return initialized_; }
  bool isActive() override { return active_.load(); }
#if CKT_HAS_IS_STOPPED
  bool isStopped() const override { return !active_.load(); }
#endif

  void scheduleTrace(const std::string &config) override
  {
    kineto_error err = {};
    if (lib.kineto_control_request(config.c_str(), nullptr, &err) != KINETO_OK)
      add_ledger_note("request refused", err.message);
  }

  void step() override { kineto_step_mark(); }

  /* Sources are switched on here, which may take 50 ms: PyTorch's profile window has begun when it
   * calls startTrace. Device work that begins before that is not in the result, as in libkineto's. */
  void prepareTrace(const std::set<ActivityType> &types, const std::string &config) override
  {
    kineto_error err = {};
    std::string custom = find_config_value(config, "CUSTOM_CONFIG");
    discard_profile();
    recorded_.reset(new Recorded());
    recorded_->metadata = take_metadata();
    name_trace(config);
    if (types.count(ActivityType::CONCURRENT_KERNEL))
      load_cuda_source();
    kineto_session_options options;
    kineto_session_options_init(&options);
    options.kinds = device_kinds();
    if (!types.count(ActivityType::CUDA_SYNC)) /* off in PyTorch, unless enable_cuda_sync_events */
      options.kinds &= ~(KINETO_KIND_BIT(KINETO_KIND_CUDA_SYNC) | KINETO_KIND_BIT(KINETO_KIND_CUDA_EVENT));
    options.custom_config = custom.empty() ? nullptr : custom.c_str();
    if (lib.kineto_session_create(&options, &session_, &err) != KINETO_OK ||
        lib.kineto_session_warm_up(session_, &err) != KINETO_OK)
      add_ledger_note("devices are not recorded", err.message);
    configure_children(types, config);
  }

  void startTrace() override
  {
    kineto_error err = {};
    if (!recorded_)
      recorded_.reset(new Recorded());
    if (session_ && lib.kineto_session_start(session_, &err) != KINETO_OK)
      add_ledger_note("devices are not recorded", err.message);
    for (auto &child : recorded_->children)
      child->start();
    recorded_->start_ns = read_realtime_ns();
    active_.store(true);
    recordThreadInfo();
  }

  void toggleCollectionDynamic(const bool enable) override
  {
    if (session_)
      (void)lib.kineto_session_pause(session_, !enable, nullptr);
#if CKT_HAS_SESSION_TOGGLE
    for (size_t i = 0; recorded_ && i < recorded_->children.size(); i++)
      recorded_->children[i]->toggleCollectionDynamic(enable);
#endif
  }

  std::unique_ptr<ActivityTraceInterface> stopTrace() override
  {
    kineto_error err = {};
    if (!recorded_)
      recorded_.reset(new Recorded());
    active_.store(false);
    recorded_->end_ns = read_realtime_ns();
    for (auto &child : recorded_->children)
      child->stop();
    if (session_ && lib.kineto_session_stop(session_, &recorded_->devices, &err) != KINETO_OK)
      add_ledger_note("devices are not recorded", err.message);
    lib.kineto_session_destroy(session_);
    session_ = nullptr;
    for (auto &entry : take_metadata())
      recorded_->metadata.push_back(entry);
    take_threads();
    return std::make_unique<SeatTrace>(std::move(recorded_));
  }

  void pushCorrelationId(uint64_t id) override
  {
    kineto_correlation_push(id);
    if (CKT_UNLIKELY(has_children_))
      for (auto &child : recorded_->children)
        child->pushCorrelationId(id);
  }
  void popCorrelationId() override
  {
    kineto_correlation_pop();
    if (CKT_UNLIKELY(has_children_))
      for (auto &child : recorded_->children)
        child->popCorrelationId();
  }
  void pushUserCorrelationId(uint64_t id) override
  {
    kineto_user_correlation_push(id);
    if (CKT_UNLIKELY(has_children_))
      for (auto &child : recorded_->children)
        child->pushUserCorrelationId(id);
  }
  void popUserCorrelationId() override
  {
    kineto_user_correlation_pop();
    if (CKT_UNLIKELY(has_children_))
      for (auto &child : recorded_->children)
        child->popUserCorrelationId();
  }

  void transferCpuTrace(std::unique_ptr<CpuTraceBuffer> buffer) override
  {
    if (recorded_ && buffer)
      recorded_->cpu.push_back(std::move(buffer));
  }

  void recordThreadInfo() override
  {
    std::lock_guard<std::mutex> guard(mutex_);
    threads_[libkineto::systemThreadId()] = read_thread_name();
  }

  void addMetadata(const std::string &key, const std::string &value) override
  {
    std::lock_guard<std::mutex> guard(mutex_);
    for (auto &entry : metadata_) {
      if (entry.first == key) {
        entry.second = value;
        return;
      }
    }
    metadata_.emplace_back(key, value);
  }

  void addChildActivityProfiler(std::unique_ptr<IActivityProfiler> profiler) override
  {
    std::lock_guard<std::mutex> guard(mutex_);
    profilers_.push_back(std::move(profiler));
  }

  void logInvariantViolation(const std::string &, const std::string &assertion,
                             const std::string &error, const std::string &) override
  {
    add_ledger_note("PyTorch's profiler reports a fault", (assertion + ": " + error).c_str());
  }

 private:
  static void add_ledger_note(const char *reason, const char *detail)
  {
    (void)kineto_ledger_add(CKT_SOURCE, reason, 1, false, detail);
  }

  /* Drop a profile that was prepared but not started, or started but not stopped. */
  void discard_profile()
  {
    active_.store(false);
    lib.kineto_session_destroy(session_);
    session_ = nullptr;
    recorded_.reset();
    has_children_ = false;
  }

  /* Add the header members trace_id and host_name, as libkineto's traces have them. */
  void name_trace(const std::string &config)
  {
    std::string id = find_config_value(config, "REQUEST_TRACE_ID"), host = read_host_name();
    if (!id.empty())
      recorded_->metadata.emplace_back("trace_id", quote_json(id));
    if (!host.empty())
      recorded_->metadata.emplace_back("host_name", quote_json(host));
  }

  void configure_children(const std::set<ActivityType> &types, const std::string &text)
  {
    libkineto::Config config;
    (void)config.parse(text);
    std::lock_guard<std::mutex> guard(mutex_);
    for (auto &profiler : profilers_)
      if (auto session = profiler->configure(types, config))
        recorded_->children.push_back(std::move(session));
    has_children_ = !recorded_->children.empty();
  }

  std::vector<std::pair<std::string, std::string>> take_metadata()
  {
    std::lock_guard<std::mutex> guard(mutex_);
    std::vector<std::pair<std::string, std::string>> taken;
    taken.swap(metadata_);
    return taken;
  }

  /* Name the threads that have activities; others are left out. */
  void take_threads()
  {
    std::lock_guard<std::mutex> guard(mutex_);
    for (const auto &buffer : recorded_->cpu)
      for (const auto &activity : buffer->activities)
        recorded_->threads.emplace(activity->resource, "");
    for (const auto &thread : threads_)
      if (recorded_->threads.count(thread.first))
        recorded_->threads[thread.first] = thread.second;
  }

  std::atomic<bool> active_{false};
  bool initialized_, has_children_ = false;
  kineto_session *session_ = nullptr;
  std::unique_ptr<Recorded> recorded_;
  std::mutex mutex_; /* protects the members that follow */
  std::vector<std::unique_ptr<IActivityProfiler>> profilers_;
  std::vector<std::pair<std::string, std::string>> metadata_;
  std::map<int64_t, std::string> threads_;
};

}  // namespace
}  // namespace ckt

int ckineto_torch_attach_seat(const char *libckineto, char *text, size_t text_bytes)
{
  static bool attached;
  if (attached)
    return 0;
  if (!ckt::open_library(libckineto, text, text_bytes))
    return -1;
  libkineto::LibkinetoApi &api = libkineto::api();
  if (api.isProfilerRegistered() && api.activityProfiler().isActive()) {
    std::snprintf(text, text_bytes, "a profile of PyTorch is active; attach before or after it");
    return -1;
  }
  ckt::library_folder = libckineto;
  ckt::library_folder.erase(std::min(ckt::library_folder.rfind('/'), ckt::library_folder.size()));
  /* When libkineto was initialised, PyTorch does not do it again. */
  bool initialized = api.isProfilerInitialized();
  api.registerProfiler(std::make_unique<ckt::SeatProfiler>(initialized));
  attached = true;
  return 0;
}
