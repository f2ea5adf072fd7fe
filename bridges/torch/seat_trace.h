/* The result of a profile in the seat, which PyTorch holds: it reads the activities, and may save
 * them as a trace. */
#ifndef CKINETO_TORCH_SEAT_TRACE_H
#define CKINETO_TORCH_SEAT_TRACE_H

#include "convert.h"

#include <deque>
#include <map>

namespace ckt {

using libkineto::IActivityProfilerSession;

/** Everything that belongs to one profile. */
struct Recorded {
  std::vector<std::unique_ptr<CpuTraceBuffer>> cpu; /* as PyTorch handed them over */
  std::vector<std::unique_ptr<IActivityProfilerSession>> children;
  std::vector<std::pair<std::string, std::string>> metadata; /* key, JSON value */
  std::map<int64_t, std::string> threads;                    /* names by number */
  kineto_trace *devices = nullptr;                           /* device work of our sources */
  int64_t start_ns = 0, end_ns = 0;
  std::vector<std::string> errors;

  Recorded() = default;
  Recorded(const Recorded &) = delete;
  Recorded &operator=(const Recorded &) = delete;
  ~Recorded();
};

/** Collects what child profilers log. The activities remain owned by their sessions. */
class ChildLogger final : public libkineto::ActivityLogger {
 public:
  void handleDeviceInfo(const libkineto::DeviceInfo &info, CKT_DEVICE_INFO_TIME) override;
  void handleResourceInfo(const libkineto::ResourceInfo &info, int64_t) override;
  void handleOverheadInfo(const OverheadInfo &, int64_t) override {}
  void handleTraceSpan(const libkineto::TraceSpan &) override {}
  void handleActivity(const ITraceActivity &activity) override { activities.push_back(&activity); }
  void handleGenericActivity(const GenericTraceActivity &activity) override
  {
    activities.push_back(&activity);
  }
#if CKT_HAS_START_PROPERTIES
  void handleTraceStart(const std::unordered_map<std::string, std::string> &,
                        const std::string &) override
  {
  }
#else
  void handleTraceStart(const std::unordered_map<std::string, std::string> &) override {}
#endif
#if CKT_HAS_MEMORY_TRACE
  void finalizeMemoryTrace(const std::string &, const libkineto::Config &) override {}
#endif
#if CKT_HAS_LOGGER_FACTORY
  void finalizeTrace(const libkineto::Config &, std::unique_ptr<libkineto::ActivityBuffers>,
                     int64_t) override
  {
  }
#else
  void finalizeTrace(const libkineto::Config &, std::unique_ptr<libkineto::ActivityBuffers>,
                     int64_t, std::unordered_map<std::string, std::vector<std::string>> &) override
  {
  }
#endif

  struct Device {
    int64_t id, sort_index;
    std::string name, label;
  };
  struct Row {
    int64_t device, id, sort_index;
    std::string name;
  };
  std::vector<const ITraceActivity *> activities;
  std::vector<Device> devices;
  std::vector<Row> rows;
};

class SeatTrace final : public libkineto::ActivityTraceInterface {
 public:
  explicit SeatTrace(std::unique_ptr<Recorded> recorded);
  ~SeatTrace() override;
  /** CPU activities as they were handed over, then those of devices. */
  const std::vector<const ITraceActivity *> *activities() override;
  /** In the format of the path's ending. Throws std::runtime_error with the reason. */
  void save(const std::string &path) override;

 private:
  void collect_children();
  void list_devices();
  const ITraceActivity *find_linked(int64_t id);
  void write_children(TraceWriter &writer, kineto_builder *builder);
  void write_header(kineto_builder *builder);
  void write_span(kineto_builder *builder);
  void write_names(TraceWriter &writer);
  bool build(kineto_error *err);

  std::unique_ptr<Recorded> recorded_;
  ChildLogger children_;
  CpuTraceBuffer devices_;
  std::vector<const ITraceActivity *> activities_;
  std::unordered_map<int64_t, const ITraceActivity *> by_id_;
  bool collected_ = false, listed_ = false;
  kineto_trace *trace_ = nullptr; /* all of it */
};

}  // namespace ckt
#endif
