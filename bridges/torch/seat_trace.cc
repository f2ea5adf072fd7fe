/* Results of the seat. PyTorch reads activities as objects of libkineto, so a trace of ckineto is
 * built only when the result is first saved. It is written like libkineto's: the order of the last
 * rows matters to tools that count from the end of the file. */
#include "seat_trace.h"

#include <cstdio>
#include <stdexcept>
#include <unistd.h>

/* Opaque in libkineto's headers; loggers get a pointer to one, which is NULL here. */
namespace KINETO_NAMESPACE {
struct ActivityBuffers {};
}

namespace ckt {

Recorded::~Recorded()
{
  if (devices)
    lib.kineto_trace_release(devices);
}

void ChildLogger::handleDeviceInfo(const libkineto::DeviceInfo &info, CKT_DEVICE_INFO_TIME)
{
  devices.push_back(Device{info.id, info.sortIndex, info.name, info.label});
}

void ChildLogger::handleResourceInfo(const libkineto::ResourceInfo &info, int64_t)
{
  rows.push_back(Row{info.deviceId, info.id, info.sortIndex, info.name});
}

SeatTrace::SeatTrace(std::unique_ptr<Recorded> recorded) : recorded_(std::move(recorded))
{
  devices_.span = libkineto::TraceSpan(recorded_->start_ns, recorded_->end_ns, "ckineto");
  devices_.gpuOpCount = 0;
}

SeatTrace::~SeatTrace()
{
  if (trace_)
    lib.kineto_trace_release(trace_);
}

/* The operator or annotation with this id; the index is built by the first call. */
const ITraceActivity *SeatTrace::find_linked(int64_t id)
{
  if (by_id_.empty()) {
    for (const auto &buffer : recorded_->cpu)
      for (const auto &activity : buffer->activities)
        if (activity->activityType == ActivityType::CPU_OP ||
            activity->activityType == ActivityType::USER_ANNOTATION)
          by_id_.emplace(activity->id, activity.get());
  }
  auto found = by_id_.find(id);
  return found == by_id_.end() ? nullptr : found->second;
}

/* Have the child profilers log their activities into children_, once. */
void SeatTrace::collect_children()
{
  if (collected_)
    return;
  collected_ = true;
  auto linked = [this](int32_t id) { return find_linked(id); };
  for (auto &child : recorded_->children) {
    child->processTrace(children_, linked, recorded_->start_ns, recorded_->end_ns);
    if (auto info = child->getDeviceInfo())
      children_.handleDeviceInfo(*info, 0);
    for (const auto &row : child->getResourceInfos())
      children_.handleResourceInfo(row, 0);
    for (const auto &error : child->errors())
      recorded_->errors.push_back(error);
  }
}

/* Convert the device activities of our own sources to activities of libkineto. */
void SeatTrace::list_devices()
{
  if (!recorded_->devices)
    return;
  auto linked = [this](int64_t id) { return find_linked(id); };
  TraceReader reader(recorded_->devices, linked, Reader::kPyTorch);
  reader.read_into(devices_);
  for (const auto &activity : devices_.activities)
    activities_.push_back(activity.get());
}

const std::vector<const ITraceActivity *> *SeatTrace::activities()
{
  if (listed_)
    return &activities_;
  listed_ = true;
  collect_children();
  for (const auto &buffer : recorded_->cpu)
    for (const auto &activity : buffer->activities)
      activities_.push_back(activity.get());
  list_devices();
  activities_.insert(activities_.end(), children_.activities.begin(), children_.activities.end());
  return &activities_;
}

/* ---- the trace ---------------------------------------------------------------------------------- */

namespace {

/* "thread 17 (loader)", as libkineto names threads. A thread without a recorded name that still
 * runs has the kernel's name. */
std::string format_thread_name(int64_t tid, std::string name)
{
  char path[64], comm[32] = "";
  std::snprintf(path, sizeof path, "/proc/self/task/%lld/comm", (long long)tid);
  FILE *file = name.empty() ? std::fopen(path, "re") : nullptr;
  if (file) {
    size_t size = std::fread(comm, 1, sizeof comm - 1, file);
    name.assign(comm, size && comm[size - 1] == '\n' ? size - 1 : size);
    std::fclose(file);
  }
  return "thread " + std::to_string(tid) + (name.empty() ? "" : " (" + name + ")");
}

}  // namespace

void SeatTrace::write_names(TraceWriter &writer)
{
  int64_t pid = libkineto::processId();
  writer.name_process(pid, libkineto::processName((int32_t)pid));
  for (const auto &thread : recorded_->threads)
    writer.name_thread(pid, thread.first, format_thread_name(thread.first, thread.second));
}

void SeatTrace::write_children(TraceWriter &writer, kineto_builder *builder)
{
  collect_children();
  for (const auto &device : children_.devices) {
    kineto_process process = {};
    process.is_device = true;
    process.pid = device.id;
    process.sort_index = device.sort_index;
    process.name = to_kineto(device.name);
    process.label = to_kineto(device.label);
    process.rank = -1;
    uint32_t index = lib.kineto_builder_process(builder, &process);
    for (const auto &row : children_.rows) {
      kineto_track track = {};
      track.type = KINETO_TRACK_STREAM;
      track.id = row.id;
      track.name = to_kineto(row.name);
      track.sort_index = row.sort_index;
      if (row.device == device.id)
        (void)lib.kineto_builder_track(builder, index, &track);
    }
  }
  for (const ITraceActivity *activity : children_.activities)
    writer.add(*activity, activity->name());
}

/* A row about the recording itself. libkineto writes such rows at the end of its traces, and tools
 * search for them there. With a category it is a slice, without one a global instant. */
struct SpanRow {
  const char *process, *track, *name, *category;
  int64_t start_ns, end_ns;
};

static void add_span_row(kineto_builder *builder, const SpanRow &row)
{
  kineto_activity activity = {};
  activity.start_ns = row.start_ns;
  activity.end_ns = row.end_ns;
  activity.name_id = lib.kineto_builder_string(builder, to_kineto(row.name));
  activity.track = lib.kineto_builder_named_track(builder, to_kineto(row.process), to_kineto(row.track));
  activity.kind = row.category ? KINETO_KIND_OVERHEAD : KINETO_KIND_CPU_INSTANT_EVENT;
  activity.category = row.category ? lib.kineto_builder_string(builder, to_kineto(row.category))
                                   : UINT32_MAX;
  activity.form = row.category ? KINETO_FORM_SLICE : KINETO_FORM_INSTANT;
  activity.flags = row.category ? 0 : KINETO_ACTIVITY_GLOBAL;
  (void)lib.kineto_builder_add(builder, &activity);
}

void SeatTrace::write_span(kineto_builder *builder)
{
  for (size_t i = 0; i < recorded_->cpu.size(); i++) {
    const libkineto::TraceSpan &span = recorded_->cpu[i]->span;
    std::string name = span.name + " (" + std::to_string(i) + ")", start = "Iteration Start: " + span.name,
                track = "Trace " + span.name;
    kineto_arg count = {};
    count.type = KINETO_ARG_INT;
    count.i = span.opCount;
    lib.kineto_builder_arg(builder, lib.kineto_builder_string(builder, kineto_string{"Op count", 8}),
                           &count);
    add_span_row(builder, SpanRow{"Spans", span.name.c_str(), name.c_str(), "Trace", span.startTime,
                                  span.endTime});
    /* PyTorch's own test finds the other rows by their places counted from the end, where libkineto
     * has the names of the process "Spans" between them: this row takes their place. */
    add_span_row(builder, SpanRow{"Traces", "ckineto", "Written by ckineto", nullptr, span.startTime,
                                  span.startTime});
    add_span_row(builder, SpanRow{"Traces", track.c_str(), start.c_str(), nullptr, span.startTime,
                                  span.startTime});
  }
}

void SeatTrace::write_header(kineto_builder *builder)
{
  for (const auto &entry : recorded_->metadata)
    lib.kineto_builder_metadata(builder, to_kineto(entry.first), to_kineto(entry.second));
  for (const auto &error : recorded_->errors) {
    kineto_ledger_line line = {};
    line.source = to_kineto(CKT_SOURCE);
    line.reason = to_kineto("child profiler failed");
    line.count = 1;
    line.detail = to_kineto(error);
    lib.kineto_builder_ledger(builder, &line);
  }
  kineto_ledger_line cost = {};
  cost.source = to_kineto("self-cost");
  cost.reason = to_kineto("not measured");
  cost.detail = to_kineto("PyTorch's own profiler recorded the operators; the other numbers of self-cost "
                          "are those of devices and plug-ins");
  lib.kineto_builder_ledger(builder, &cost);
  int64_t start = recorded_->start_ns, end = recorded_->end_ns;
  for (const auto &buffer : recorded_->cpu) {
    start = std::min(start, buffer->span.startTime);
    end = std::max(end, buffer->span.endTime);
  }
  lib.kineto_builder_window(builder, start, end);
}

bool SeatTrace::build(kineto_error *err)
{
  kineto_builder *builder;
  if (trace_)
    return true;
  if (lib.kineto_builder_create(&builder, err) != KINETO_OK)
    return false;
  if (recorded_->devices)
    (void)lib.kineto_builder_append(builder, recorded_->devices);
  TraceWriter writer(builder);
  write_names(writer);
  for (const auto &buffer : recorded_->cpu)
    for (const auto &activity : buffer->activities)
      writer.add_host(*activity, recorded_->end_ns);
  write_children(writer, builder);
  if (recorded_->devices)
    lib.kineto_builder_project(builder);
  write_span(builder);
  write_header(builder);
  kineto_status status = lib.kineto_builder_finish(builder, &trace_, err);
  lib.kineto_builder_destroy(builder);
  return status == KINETO_OK;
}

void SeatTrace::save(const std::string &path)
{
  kineto_error err = {};
  std::string name = path.rfind("file://", 0) == 0 ? path.substr(7) : path;
  kineto_status status = build(&err) ? lib.kineto_output_save(trace_, name.c_str(), &err) : err.code;
  /* Programs choose file names freely; a name without a known extension means Chrome JSON. */
  if (status == KINETO_E_UNSUPPORTED)
    status = lib.kineto_trace_export_chrome(trace_, name.c_str(), nullptr, &err);
  if (status != KINETO_OK)
    throw std::runtime_error(std::string("ckineto: ") + err.message);
}

}  // namespace ckt
