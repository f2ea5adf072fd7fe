/* Device activities of a trace as activities of libkineto: that is how PyTorch's tables, events and
 * FunctionEvent.kernels get them. */
#include "convert.h"

namespace ckt {
namespace {

/* Neutral kinds whose own names libkineto does not have. */
int fallback_type(uint32_t kind)
{
  switch (kind) {
  case KINETO_KIND_RUNTIME:
    return (int)ActivityType::PRIVATEUSE1_RUNTIME;
  case KINETO_KIND_DRIVER:
    return (int)ActivityType::PRIVATEUSE1_DRIVER;
  case KINETO_KIND_CONCURRENT_KERNEL:
    return (int)ActivityType::CONCURRENT_KERNEL;
#if CKT_HAS_COUNTER_TYPE
  case KINETO_KIND_GPU_PM_COUNTER:
    return (int)ActivityType::HARDWARE_COUNTERS;
#endif
  default:
    return -1;
  }
}

int type_of_name(const std::string &name)
{
  try {
    return (int)libkineto::toActivityType(name);
  } catch (...) {
    return -1;
  }
}

bool is_host_call(uint32_t kind)
{
  return kind == KINETO_KIND_RUNTIME || kind == KINETO_KIND_DRIVER;
}

libkineto::ResourceInfo resource_info(int64_t id, int64_t sort_index, int64_t device,
                                      const std::string &name)
{
#if CKT_HAS_AGGREGATE_INFO
  return libkineto::ResourceInfo{id, sort_index, device, name};
#else
  return libkineto::ResourceInfo{device, id, sort_index, name};
#endif
}

}  // namespace

uint64_t device_kinds()
{
  uint64_t none = KINETO_KIND_BIT(KINETO_KIND_CPU_OP) | KINETO_KIND_BIT(KINETO_KIND_USER_ANNOTATION) |
                  KINETO_KIND_BIT(KINETO_KIND_PYTHON_FUNCTION) |
                  KINETO_KIND_BIT(KINETO_KIND_MEMORY) |
                  KINETO_KIND_BIT(KINETO_KIND_CPU_INSTANT_EVENT) |
                  KINETO_KIND_BIT(KINETO_KIND_COUNTER);
  return (KINETO_KINDS_DEFAULT | KINETO_KIND_BIT(KINETO_KIND_GPU_PM_COUNTER)) & ~none;
}

TraceReader::TraceReader(const kineto_trace *trace, const FindLinked &find_linked)
    : trace_(trace), find_linked_(find_linked)
{
}

bool TraceReader::type_of(const kineto_activity &activity, ActivityType *out)
{
  auto known = types_.find(activity.category);
  if (known == types_.end()) {
    int type = type_of_name(to_string(lib.kineto_trace_string(trace_, activity.category)));
    if (type < 0)
      type = type_of_name(kineto_kind_name(activity.kind));
    if (type < 0)
      type = fallback_type(activity.kind);
    known = types_.emplace(activity.category, type).first;
  }
  *out = (ActivityType)known->second;
  return known->second >= 0;
}

void TraceReader::put_args(const kineto_activity &activity, GenericTraceActivity *out)
{
  kineto_args_iterator it;
  kineto_arg arg;
  lib.kineto_args_begin(trace_, activity.row, &it);
  while (lib.kineto_args_next(&it, &arg)) {
    std::string key = to_string(arg.key);
    switch (arg.type) {
    case KINETO_ARG_INT:
      out->addMetadata(key, std::to_string(arg.i));
      break;
    case KINETO_ARG_UINT:
      out->addMetadata(key, std::to_string(arg.u));
      break;
    case KINETO_ARG_DOUBLE:
#if CKT_HAS_COUNTER_VALUES
      if (activity.form == KINETO_FORM_COUNTER) {
        out->addCounterValue(key, arg.d);
        break;
      }
#endif
      out->addMetadata(key, std::to_string(arg.d));
      break;
    case KINETO_ARG_BOOL:
      out->addMetadata(key, std::string(arg.u ? "true" : "false"));
      break;
    case KINETO_ARG_STRING:
      out->addMetadataQuoted(key, to_string(arg.text));
      break;
    default:
      out->addMetadata(key, to_string(arg.text));
      break;
    }
  }
}

void TraceReader::fill(const kineto_activity &activity, GenericTraceActivity *out)
{
  kineto_track track;
  kineto_process process;
  lib.kineto_trace_track(trace_, activity.track, &track);
  lib.kineto_trace_process(trace_, track.process, &process);
  out->startTime = activity.start_ns;
  out->endTime = activity.end_ns;
  out->device = (int32_t)process.pid;
  out->resource = (int32_t)track.id;
  out->threadId = (int32_t)track.id;
  out->id = (int32_t)(activity.correlation_id ? activity.correlation_id : activity.external_id);
  if (activity.correlation_id && (process.is_device || is_host_call(activity.kind))) {
    out->flow.id = (uint32_t)activity.correlation_id;
    out->flow.type = libkineto::kLinkAsyncCpuGpu;
    out->flow.start = !process.is_device;
  }
  if (activity.external_id && find_linked_)
    out->linked = find_linked_((int64_t)activity.external_id);
  linked_ += out->linked != nullptr;
  put_args(activity, out);
  if (activity.external_id)
    out->addMetadata("External id", std::to_string(activity.external_id));
  if (activity.correlation_id)
    out->addMetadata("correlation", std::to_string(activity.correlation_id));
}

void TraceReader::read_into(CpuTraceBuffer &buffer)
{
  uint64_t count = lib.kineto_trace_count(trace_);
  for (uint64_t row = 0; row < count; row++) {
    kineto_activity activity;
    ActivityType type;
    lib.kineto_trace_get(trace_, (kineto_row)row, &activity);
    if (!type_of(activity, &type)) {
      left_out_++;
      continue;
    }
    buffer.emplace_activity(buffer.span, type, to_string(activity.name));
    fill(activity, buffer.activities.back().get());
  }
}

void log_devices(const kineto_trace *trace, libkineto::ActivityLogger &logger)
{
  int64_t start, end;
  lib.kineto_trace_window(trace, &start, &end);
  for (uint32_t i = 0; i < lib.kineto_trace_process_count(trace); i++) {
    kineto_process p;
    lib.kineto_trace_process(trace, i, &p);
    if (p.is_device)
      logger.handleDeviceInfo(
          libkineto::DeviceInfo{p.pid, p.sort_index, to_string(p.name), to_string(p.label)}, start);
  }
  for (uint32_t i = 0; i < lib.kineto_trace_track_count(trace); i++) {
    kineto_track track;
    kineto_process p;
    lib.kineto_trace_track(trace, i, &track);
    lib.kineto_trace_process(trace, track.process, &p);
    if (p.is_device && track.name.size)
      logger.handleResourceInfo(
          resource_info(track.id, track.sort_index, p.pid, to_string(track.name)), start);
  }
}

}  // namespace ckt
