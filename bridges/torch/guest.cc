/* The guest: a child profiler of libkineto. One profile of PyTorch is one session of ckineto, whose
 * device activities are handed to libkineto's logger. Where libkineto takes loggers of others
 * (2.14), the protocol "ckineto://" writes its profiles in any format of ckineto. */
#include "convert.h"

#include <stdexcept>

namespace ckt {
namespace {

using libkineto::ActivityLogger;
using libkineto::IActivityProfiler;
using libkineto::IActivityProfilerSession;
using libkineto::TraceStatus;

/* One profile of PyTorch as a session of ckineto, whose sources are on before libkineto starts it:
 * switching them on would fall into the profile's window. libkineto calls start, stop and processTrace in
 * this order. Errors are kept until it asks for them. */
class GuestSession final : public IActivityProfilerSession {
 public:
  GuestSession()
  {
    kineto_error err = {};
    kineto_session_options options;
    kineto_session_options_init(&options);
    options.kinds = device_kinds();
    if (lib.kineto_session_create(&options, &session_, &err) != KINETO_OK ||
        lib.kineto_session_warm_up(session_, &err) != KINETO_OK)
      errors_.push_back(err.message);
  }
  ~GuestSession() override
  {
    lib.kineto_session_destroy(session_);
    if (trace_)
      lib.kineto_trace_release(trace_);
  }

  void start() override
  {
    kineto_error err = {};
    if (session_ && lib.kineto_session_start(session_, &err) != KINETO_OK)
      errors_.push_back(err.message);
    status_ = TraceStatus::RECORDING;
  }
  void stop() override
  {
    kineto_error err = {};
    if (session_ && lib.kineto_session_stop(session_, &trace_, &err) != KINETO_OK)
      errors_.push_back(err.message);
    status_ = TraceStatus::PROCESSING;
  }
  std::vector<std::string> errors() override { return errors_; }

  void processTrace(ActivityLogger &logger) override { processTrace(logger, nullptr, 0, 0); }
  void processTrace(ActivityLogger &logger, libkineto::getLinkedActivityCallback find_linked,
                    int64_t, int64_t) override
  {
    buffer_ = std::make_unique<CpuTraceBuffer>();
    buffer_->gpuOpCount = 0;
    if (!trace_)
      return;
    int64_t start, end;
    lib.kineto_trace_window(trace_, &start, &end);
    buffer_->span = libkineto::TraceSpan(start, end, "ckineto");
    FindLinked find;
    if (find_linked)
      find = [&](int64_t id) { return find_linked((int32_t)id); };
    TraceReader(trace_, find, Reader::kLibkineto).read_into(*buffer_);
    for (auto &activity : buffer_->activities)
      logger.handleGenericActivity(*activity);
    log_devices(trace_, logger);
  }

  std::unique_ptr<libkineto::DeviceInfo> getDeviceInfo() override { return nullptr; }
  std::vector<libkineto::ResourceInfo> getResourceInfos() override { return {}; }
  std::unique_ptr<CpuTraceBuffer> getTraceBuffer() override { return std::move(buffer_); }

  void pushCorrelationId(uint64_t id) override { kineto_correlation_push(id); }
  void popCorrelationId() override { kineto_correlation_pop(); }
  void pushUserCorrelationId(uint64_t id) override { kineto_user_correlation_push(id); }
  void popUserCorrelationId() override { kineto_user_correlation_pop(); }
#if CKT_HAS_SESSION_TOGGLE
  void toggleCollectionDynamic(bool enable) override
  {
    if (session_)
      (void)lib.kineto_session_pause(session_, !enable, nullptr);
  }
#endif

 private:
  kineto_session *session_ = nullptr;
  kineto_trace *trace_ = nullptr;
  std::unique_ptr<CpuTraceBuffer> buffer_;
  std::vector<std::string> errors_;
};

/* The child profiler. Its sessions record all kinds of device work, whatever types a profile
 * names. */
class GuestProfiler final : public IActivityProfiler {
 public:
  const std::string &name() const override { return name_; }
  const std::set<ActivityType> &availableActivities() const override { return types_; }
  std::unique_ptr<IActivityProfilerSession> configure(const std::set<ActivityType> &,
                                                      const libkineto::Config &) override
  {
    return std::make_unique<GuestSession>();
  }
  std::unique_ptr<IActivityProfilerSession> configure(int64_t, int64_t,
                                                      const std::set<ActivityType> &types,
                                                      const libkineto::Config &config) override
  {
    return configure(types, config);
  }

 private:
  std::string name_ = "ckineto";
  std::set<ActivityType> types_ = {ActivityType::CONCURRENT_KERNEL, ActivityType::GPU_MEMCPY};
};

#if CKT_HAS_LOGGER_FACTORY

/* The output protocol: prof.export_chrome_trace("ckineto:///tmp/x.pftrace"). libkineto hands over
 * the whole profile activity by activity; finalizeTrace builds a trace of them and writes it. */
class OutputLogger final : public ActivityLogger {
 public:
  explicit OutputLogger(const std::string &path) : path_(path)
  {
    if (lib.kineto_builder_create(&builder_, nullptr) == KINETO_OK)
      writer_ = std::make_unique<TraceWriter>(builder_);
  }
  ~OutputLogger() override { lib.kineto_builder_destroy(builder_); }

  void handleDeviceInfo(const libkineto::DeviceInfo &info, int64_t) override
  {
    kineto_process process = {};
    process.is_device = info.id < kFirstProcess && info.id != libkineto::processId();
    process.pid = info.id;
    process.sort_index = info.sortIndex;
    process.name = to_kineto(info.name);
    process.label = to_kineto(info.label);
    process.rank = -1;
    if (writer_)
      (void)lib.kineto_builder_process(builder_, &process);
  }
  void handleResourceInfo(const libkineto::ResourceInfo &info, int64_t) override
  {
    if (writer_ && info.deviceId == libkineto::processId())
      writer_->name_thread(info.deviceId, info.id, info.name);
  }
  void handleOverheadInfo(const OverheadInfo &, int64_t) override {}
  void handleTraceSpan(const libkineto::TraceSpan &) override {}
  void handleActivity(const ITraceActivity &activity) override
  {
    if (writer_)
      writer_->add(activity, activity.name());
  }
  void handleGenericActivity(const GenericTraceActivity &activity) override
  {
    if (writer_)
      writer_->add_generic(activity);
  }
  void handleTraceStart(const std::unordered_map<std::string, std::string> &metadata,
                        const std::string &) override
  {
    for (const auto &entry : metadata)
      if (writer_)
        lib.kineto_builder_metadata(builder_, to_kineto(entry.first), to_kineto(entry.second));
  }
  void finalizeMemoryTrace(const std::string &, const libkineto::Config &) override {}
  void finalizeTrace(const libkineto::Config &, std::unique_ptr<libkineto::ActivityBuffers>,
                     int64_t) override
  {
    kineto_trace *trace = nullptr;
    kineto_error err = {};
    bool ok = writer_ && lib.kineto_builder_finish(builder_, &trace, &err) == KINETO_OK &&
              lib.kineto_output_save(trace, path_.c_str(), &err) == KINETO_OK;
    if (trace)
      lib.kineto_trace_release(trace);
    if (!ok)
      throw std::runtime_error(std::string("ckineto: ") + err.message);
  }

 private:
  /* Numbers below are those of devices in libkineto's traces. */
  static constexpr int64_t kFirstProcess = 64;
  std::string path_;
  kineto_builder *builder_ = nullptr;
  std::unique_ptr<TraceWriter> writer_;
};

void register_output()
{
  libkineto::registerLoggerFactory(
      "ckineto", [](const std::string &path) -> std::unique_ptr<ActivityLogger> {
        return std::make_unique<OutputLogger>(path);
      });
}

#else
void register_output() {}
#endif

}  // namespace
}  // namespace ckt

int ckineto_torch_attach_guest(const char *libckineto, char *text, size_t text_bytes)
{
  static bool attached;
  if (attached)
    return 0;
  if (!ckt::open_library(libckineto, text, text_bytes))
    return -1;
  libkineto::api().registerProfilerFactory(
      []() -> std::unique_ptr<libkineto::IActivityProfiler> {
        return std::make_unique<ckt::GuestProfiler>();
      });
  ckt::register_output();
  attached = true;
  return 0;
}
