/* Converts device activities of a ckineto trace to activities of libkineto, from which PyTorch
 * makes its tables, events and FunctionEvent.kernels. The seat and the guest use it; the other
 * direction is into_trace.cc. */
#include "convert.h"

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace ckt {
namespace {

/* The type of a kind that libkineto has no type of the same name for; -1: none. */
int find_fallback_type(uint32_t kind)
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

/* toActivityType throws for unknown names; -1 here. */
int find_type_by_name(const std::string &name)
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

libkineto::ResourceInfo make_resource_info(int64_t id, int64_t sort_index, int64_t device,
                                           const std::string &name)
{
#if CKT_HAS_AGGREGATE_INFO
  return libkineto::ResourceInfo{id, sort_index, device, name};
#else
  return libkineto::ResourceInfo{device, id, sort_index, name};
#endif
}

/* A number as a JSON value with all its digits, which std::to_string cuts. JSON has no NaN and no
 * infinity: they become strings. */
std::string format_number(double value)
{
  char text[40];
  if (!std::isfinite(value))
    return std::isnan(value) ? "\"NaN\"" : value > 0 ? "\"Infinity\"" : "\"-Infinity\"";
  std::snprintf(text, sizeof text, "%.17g", value);
  return text;
}

inline bool is_number_arg(uint32_t type)
{
  return type == KINETO_ARG_INT || type == KINETO_ARG_UINT || type == KINETO_ARG_DOUBLE;
}

inline double get_arg_number(const kineto_arg &arg)
{
  return arg.type == KINETO_ARG_INT    ? (double)arg.i
         : arg.type == KINETO_ARG_UINT ? (double)arg.u
                                       : arg.d;
}

char replace_special_char(char c)
{
  return c == '"' ? '\'' : c == '\\' ? '/' : (unsigned char)c < 0x20 || c == 0x7f ? ' ' : c;
}

/* Append the code point of the four hexadecimal digits at text[at] as UTF-8. Half of a surrogate
 * pair becomes '?', a control character a space. */
void append_escaped(std::string &out, const std::string &text, size_t at)
{
  unsigned long code = std::strtoul(text.substr(at, 4).c_str(), nullptr, 16);
  if (code < 0x80)
    out += replace_special_char((char)code);
  else if (code >= 0xd800 && code < 0xe000)
    out += '?';
  else {
    if (code >= 0x800)
      out += (char)(0xe0 | code >> 12);
    out += (char)(code >= 0x800 ? 0x80 | (code >> 6 & 0x3f) : 0xc0 | code >> 6);
    out += (char)(0x80 | (code & 0x3f));
  }
}

}  // namespace

std::string quote_json(const std::string &text)
{
  std::string out = "\"";
  char escape[8];
  for (char c : text) {
    if (c == '"' || c == '\\')
      out += '\\';
    if ((unsigned char)c < 0x20) {
      std::snprintf(escape, sizeof escape, "\\u%04x", (unsigned)(unsigned char)c);
      out += escape;
    } else {
      out += c;
    }
  }
  return out + '"';
}

void make_plain(std::string &text)
{
  for (char &c : text)
    c = replace_special_char(c);
}

void make_plain_name(std::string &name)
{
  size_t end = 0;
  make_plain(name);
  for (char c : name)
    if (((unsigned char)c & 0xc0) != 0x80) /* not within a character of UTF-8 */
      name[end++] = (unsigned char)c < 0x80 ? c : '?';
  name.resize(end);
}

void make_plain_json(std::string &json)
{
  if (json.find('\\') == std::string::npos)
    return;
  std::string out;
  for (size_t i = 0; i < json.size(); i++) {
    if (json[i] != '\\' || i + 1 == json.size()) {
      out += json[i];
      continue;
    }
    char letter = json[++i];
    if (letter == 'u') {
      append_escaped(out, json, i + 1);
      i = std::min(i + 4, json.size() - 1);
    } else {
      out += std::strchr("bfnrt", letter) ? ' ' : replace_special_char(letter);
    }
  }
  json.swap(out);
}

uint64_t device_kinds()
{
  /* The kinds that PyTorch records itself. */
  uint64_t none = KINETO_KIND_BIT(KINETO_KIND_CPU_OP) | KINETO_KIND_BIT(KINETO_KIND_USER_ANNOTATION) |
                  KINETO_KIND_BIT(KINETO_KIND_PYTHON_FUNCTION) |
                  KINETO_KIND_BIT(KINETO_KIND_MEMORY) |
                  KINETO_KIND_BIT(KINETO_KIND_CPU_INSTANT_EVENT) |
                  KINETO_KIND_BIT(KINETO_KIND_COUNTER);
  return (KINETO_KINDS_DEFAULT | KINETO_KIND_BIT(KINETO_KIND_GPU_PM_COUNTER)) & ~none;
}

TraceReader::TraceReader(const kineto_trace *trace, const FindLinked &find_linked, Reader reader)
    : trace_(trace), find_linked_(find_linked), reader_(reader)
{
}

std::string TraceReader::text_of(kineto_string text) const
{
  std::string made = to_string(text);
  if (reader_ == Reader::kLibkineto)
    make_plain(made);
  return made;
}

std::string TraceReader::name_of(kineto_string name) const
{
  std::string made = to_string(name);
  if (reader_ == Reader::kLibkineto)
    make_plain_name(made);
  return made;
}

/* The type is that of the category's name, else of the kind's name, else a similar one. It is found
 * once per category. False: the activity has no type, or the reader has no use for it. */
bool TraceReader::type_of(const kineto_activity &activity, ActivityType *out)
{
  auto known = types_.find(activity.category);
  if (known == types_.end()) {
    int type = find_type_by_name(to_string(lib.kineto_trace_string(trace_, activity.category)));
    if (type < 0)
      type = find_type_by_name(kineto_kind_name(activity.kind));
    if (type < 0)
      type = find_fallback_type(activity.kind);
    known = types_.emplace(activity.category, type).first;
  }
  *out = (ActivityType)known->second;
  if (activity.form == KINETO_FORM_COUNTER && reader_ == Reader::kPyTorch)
    return false;
  return known->second >= 0;
}

/* Strings are added as JSON texts, with quotes and escapes: not every version of libkineto escapes
 * them when it writes. */
void TraceReader::put_text(const std::string &key, const kineto_arg &arg, GenericTraceActivity *out)
{
  if (arg.type == KINETO_ARG_STRING) {
    out->addMetadata(key, quote_json(text_of(arg.text)));
    return;
  }
  std::string json = to_string(arg.text);
  if (reader_ == Reader::kLibkineto)
    make_plain_json(json);
  out->addMetadata(key, json);
}

void TraceReader::put_arg(const kineto_activity &activity, kineto_arg arg, GenericTraceActivity *out)
{
  std::string key = text_of(arg.key);
#if CKT_HAS_COUNTER_VALUES
  if (activity.form == KINETO_FORM_COUNTER && is_number_arg(arg.type)) {
    out->addCounterValue(key, get_arg_number(arg));
    return;
  }
#else
  (void)activity;
#endif
  if (arg.type == KINETO_ARG_INT)
    out->addMetadata(key, arg.i);
  else if (arg.type == KINETO_ARG_UINT)
    out->addMetadata(key, arg.u);
  else if (arg.type == KINETO_ARG_DOUBLE)
    out->addMetadata(key, format_number(arg.d));
  else if (arg.type == KINETO_ARG_BOOL)
    out->addMetadata(key, std::string(arg.u ? "true" : "false"));
  else
    put_text(key, arg, out);
}

void TraceReader::put_args(const kineto_activity &activity, GenericTraceActivity *out)
{
  kineto_args_iterator it;
  kineto_arg arg;
  lib.kineto_args_begin(trace_, activity.row, &it);
  while (lib.kineto_args_next(&it, &arg))
    put_arg(activity, arg, out);
}

/* Fill times, place, ids, flow and metadata. A flow goes from the host's call (start) to the device
 * activity with the same correlation id. */
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
    buffer.emplace_activity(buffer.span, type, name_of(activity.name));
    fill(activity, buffer.activities.back().get());
  }
}

namespace {

std::string copy_plain_name(kineto_string text)
{
  std::string made = to_string(text);
  make_plain_name(made);
  return made;
}

}  // namespace

void log_devices(const kineto_trace *trace, libkineto::ActivityLogger &logger)
{
  int64_t start, end;
  lib.kineto_trace_window(trace, &start, &end);
  for (uint32_t i = 0; i < lib.kineto_trace_process_count(trace); i++) {
    kineto_process p;
    lib.kineto_trace_process(trace, i, &p);
    if (p.is_device)
      logger.handleDeviceInfo(
          libkineto::DeviceInfo{p.pid, p.sort_index, copy_plain_name(p.name),
                                copy_plain_name(p.label)},
          start);
  }
  for (uint32_t i = 0; i < lib.kineto_trace_track_count(trace); i++) {
    kineto_track track;
    kineto_process p;
    lib.kineto_trace_track(trace, i, &track);
    lib.kineto_trace_process(trace, track.process, &p);
    if (p.is_device && track.name.size)
      logger.handleResourceInfo(
          make_resource_info(track.id, track.sort_index, p.pid, copy_plain_name(track.name)),
          start);
  }
}

}  // namespace ckt
