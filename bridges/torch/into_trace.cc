/* Appends libkineto's activities to a builder; the other direction is from_trace.cc. Metadata are
 * JSON texts before PyTorch 2.14 and typed values from then on. Both are read in place, since
 * metadataJson() costs a microsecond with shapes. */
#include "convert.h"

#include <cstdlib>
#include <cstring>

namespace ckt {
namespace {

/* ---- texts of JSON ----------------------------------------------------------------------------- */

/* The contents of a JSON string need no unescaping. */
bool is_plain_text(const char *text, size_t size)
{
  for (size_t i = 0; i < size; i++)
    if (text[i] == '\\' || text[i] == '"' || (unsigned char)text[i] < 0x20)
      return false;
  return true;
}

/* A JSON integer that fits into 64 bits: at most 18 digits, no leading zero. */
bool is_integer(const std::string &text)
{
  size_t digits = text.size() && text[0] == '-' ? text.size() - 1 : text.size();
  size_t first = text.size() - digits;
  if (!digits || digits > 18 || (digits > 1 && text[first] == '0'))
    return false;
  for (size_t i = first; i < text.size(); i++)
    if (text[i] < '0' || text[i] > '9')
      return false;
  return true;
}

/* An argument of a number type; `bits` are the value's, also of a double. */
kineto_arg make_number_arg(uint32_t type, uint64_t bits)
{
  kineto_arg arg = {};
  arg.type = type;
  arg.u = bits;
  return arg;
}

kineto_arg make_text_arg(uint32_t type, const char *data, size_t size)
{
  kineto_arg arg = {};
  arg.type = type;
  arg.text = kineto_string{data, size};
  return arg;
}

/* An argument from a JSON value. Only its type is guessed here, by the first characters: the
 * builder parses the value, and keeps an invalid one as a text. */
kineto_arg make_json_arg(const std::string &json)
{
  if (is_integer(json))
    return make_number_arg(KINETO_ARG_INT, (uint64_t)std::strtoll(json.c_str(), nullptr, 10));
  if (json.size() >= 2 && json.front() == '"' && json.back() == '"' &&
      is_plain_text(json.data() + 1, json.size() - 2))
    return make_text_arg(KINETO_ARG_STRING, json.data() + 1, json.size() - 2);
  uint32_t type = KINETO_ARG_JSON;
  if (json.size() >= 2 && json[0] == '[')
    type = json[1] == '"' ? KINETO_ARG_STRINGS : json[1] == '[' ? KINETO_ARG_SHAPES : KINETO_ARG_INTS;
  return make_text_arg(type, json.data(), json.size());
}

/* "External id" and "correlation" are columns of a trace and no arguments. */
bool is_column_key(std::string_view key)
{
  return key == "External id" || key == "correlation";
}

#if CKT_HAS_TYPED_METADATA

/* ---- typed values ------------------------------------------------------------------------------- */

/* Lists and shapes become JSON texts, which the builder stores as they are. */
void append_int(std::string &out, int64_t value)
{
  char digits[24];
  char *end = digits + sizeof digits, *at = end;
  uint64_t rest = value < 0 ? 0 - (uint64_t)value : (uint64_t)value;
  do
    *--at = (char)('0' + rest % 10);
  while (rest /= 10);
  if (value < 0)
    *--at = '-';
  out.append(at, (size_t)(end - at));
}

void append_list(std::string &out, const std::vector<int64_t> &list)
{
  out += '[';
  for (size_t i = 0; i < list.size(); i++) {
    if (i)
      out += ',';
    append_int(out, list[i]);
  }
  out += ']';
}

void append_text(std::string &out, const std::string &text)
{
  static const char digits[] = "0123456789abcdef";
  out += '"';
  for (unsigned char c : text) {
    if (c == '"' || c == '\\') {
      out += '\\';
      out += (char)c;
    } else if (c < 0x20) {
      out += "\\u00";
      out += digits[c >> 4];
      out += digits[c & 15];
    } else {
      out += (char)c;
    }
  }
  out += '"';
}

void append_shapes(std::string &out, const libkineto::InputShapes &shapes)
{
  out += '[';
  for (size_t i = 0; i < shapes.size(); i++) {
    if (i)
      out += ',';
    if (const auto *list = std::get_if<std::vector<int64_t>>(&shapes[i])) {
      append_list(out, *list);
      continue;
    }
    const auto &tensors = std::get<libkineto::TensorListShapes>(shapes[i]);
    out += '[';
    for (size_t k = 0; k < tensors.size(); k++) {
      if (k)
        out += ',';
      append_list(out, tensors[k]);
    }
    out += ']';
  }
  out += ']';
}

/* Calls put(key, arg) for each value; the argument is valid during the call. */
template <typename Put> class MetadataVisitor final : public libkineto::ITypedMetadataVisitor {
 public:
  explicit MetadataVisitor(Put put) : put_(put) {}

 protected:
  void beginDict(std::string_view) override {}
  void endDict() override {}
  void visitUnsupported(std::string_view) override {}
  void visitValue(const libkineto::MetadataField<int64_t> &f, int64_t v) override
  {
    put_(f.name, make_number_arg(KINETO_ARG_INT, (uint64_t)v));
  }
  void visitValue(const libkineto::MetadataField<uint64_t> &f, uint64_t v) override
  {
    put_(f.name, make_number_arg(KINETO_ARG_UINT, v));
  }
  void visitValue(const libkineto::MetadataField<double> &f, double v) override
  {
    uint64_t bits;
    std::memcpy(&bits, &v, sizeof bits);
    put_(f.name, make_number_arg(KINETO_ARG_DOUBLE, bits));
  }
  void visitValue(const libkineto::MetadataField<bool> &f, bool v) override
  {
    put_(f.name, make_number_arg(KINETO_ARG_BOOL, v));
  }
  void visitValue(const libkineto::MetadataField<std::string> &f, std::string_view v) override
  {
    put_(f.name, make_text_arg(KINETO_ARG_STRING, v.data(), v.size()));
  }
  void visitValue(const libkineto::MetadataField<std::vector<int64_t>> &f,
                  const std::vector<int64_t> &v) override
  {
    text_.clear();
    append_list(text_, v);
    put_(f.name, make_text_arg(KINETO_ARG_INTS, text_.data(), text_.size()));
  }
  void visitValue(const libkineto::MetadataField<std::vector<std::string>> &f,
                  const std::vector<std::string> &v) override
  {
    text_ = "[";
    for (size_t i = 0; i < v.size(); i++) {
      text_ += i ? "," : "";
      append_text(text_, v[i]);
    }
    text_ += ']';
    put_(f.name, make_text_arg(KINETO_ARG_STRINGS, text_.data(), text_.size()));
  }
  void visitValue(const libkineto::MetadataField<libkineto::RawJson> &f,
                  const libkineto::RawJson &v) override
  {
    put_(f.name, make_json_arg(v.value));
  }
  void visitValue(const libkineto::MetadataField<libkineto::InputShapes> &f,
                  const libkineto::InputShapes &v) override
  {
    text_.clear();
    append_shapes(text_, v);
    put_(f.name, make_text_arg(KINETO_ARG_SHAPES, text_.data(), text_.size()));
  }

 private:
  Put put_;
  std::string text_;
};

template <typename Put> void visit_metadata(const GenericTraceActivity &activity, Put put)
{
  MetadataVisitor<Put> visitor(put);
  activity.visitTypedMetadata(visitor);
}

#else

/* ---- pairs of a text and whether it is quoted ----------------------------------------------------- */

/* The map is private and every accessor formats or copies it. Explicit instantiation may name
 * private members, and makes the pointer to this one known. */
using MetadataMap = std::unordered_map<std::string, std::pair<std::string, bool>>;
template <MetadataMap GenericTraceActivity::*Member> struct ExposeMetadata {
  friend MetadataMap GenericTraceActivity::*metadata_member() { return Member; }
};
MetadataMap GenericTraceActivity::*metadata_member();
template struct ExposeMetadata<&GenericTraceActivity::metadataMap_>;

template <typename Put> void visit_metadata(const GenericTraceActivity &activity, Put put)
{
  for (const auto &entry : activity.*metadata_member()) {
    const std::string &text = entry.second.first;
    bool is_quoted = entry.second.second;
    put(std::string_view(entry.first),
        is_quoted ? make_text_arg(KINETO_ARG_STRING, text.data(), text.size())
                  : make_json_arg(text));
  }
}

#endif

/* Activities of these types run on a device: their resource is a stream, not a thread. */
bool is_device_type(ActivityType type)
{
  switch (type) {
  case ActivityType::GPU_USER_ANNOTATION:
  case ActivityType::GPU_MEMCPY:
  case ActivityType::GPU_MEMSET:
  case ActivityType::CONCURRENT_KERNEL:
  case ActivityType::CUDA_SYNC:
  case ActivityType::MTIA_CCP_EVENTS:
  case ActivityType::COLLECTIVE_COMM:
  case ActivityType::CUDA_PROFILER_RANGE:
    return true;
  default:
    return false;
  }
}

/* The kind with the name of a libkineto type; OVERHEAD for types without a kind, whose name is then
 * kept as the category. */
uint32_t parse_kind_name(const char *name)
{
  uint64_t mask = 0;
  if (kineto_kinds_parse(name, &mask, nullptr) != KINETO_OK || !mask)
    return KINETO_KIND_OVERHEAD;
  return (uint32_t)__builtin_ctzll(mask);
}

}  // namespace

TraceWriter::TraceWriter(kineto_builder *builder) : builder_(builder) {}

const TraceWriter::TypeInfo &TraceWriter::type_info(ActivityType type)
{
  TypeInfo &info = types_[(unsigned)type % 64];
  if (CKT_UNLIKELY(!info.known)) {
    const char *name = libkineto::toString(type);
    info.kind = parse_kind_name(name);
    info.category = std::strcmp(name, kineto_kind_name(info.kind)) == 0
                        ? 0
                        : lib.kineto_builder_string(builder_, kineto_string{name, strlen(name)});
    info.known = true;
  }
  return info;
}

/* The track of a thread or stream; the builder returns the same one for the same ids. Activities
 * come in runs of one track, so the last one is checked first. */
uint32_t TraceWriter::track_of(int64_t device, int64_t resource, bool is_device)
{
  if (CKT_LIKELY(device == last_place_.device && resource == last_place_.resource &&
                 is_device == last_place_.is_device))
    return last_place_.track;
  auto process = processes_[is_device].find(device);
  if (process == processes_[is_device].end()) {
    kineto_process made = {};
    made.is_device = is_device;
    made.pid = device;
    made.rank = -1;
    process = processes_[is_device].emplace(device, lib.kineto_builder_process(builder_, &made)).first;
  }
  kineto_track row = {};
  row.type = is_device ? KINETO_TRACK_STREAM : KINETO_TRACK_THREAD;
  row.id = resource;
  uint32_t track = lib.kineto_builder_track(builder_, process->second, &row);
  last_place_ = Place{device, resource, is_device, track};
  return track;
}

/* The builder's string id of a key, by a small direct-mapped cache. */
uint32_t TraceWriter::key_of(std::string_view key)
{
  if (key.empty())
    return 0;
  KeyHint &hint = keys_[(key.size() * 31 + (unsigned char)key.front() * 7 + (unsigned char)key.back()) % 64];
  if (CKT_LIKELY(hint.size == key.size() && std::memcmp(hint.text, key.data(), key.size()) == 0))
    return hint.id;
  uint32_t id = lib.kineto_builder_string(builder_, kineto_string{key.data(), key.size()});
  if (key.size() <= sizeof hint.text) {
    std::memcpy(hint.text, key.data(), key.size());
    hint.size = key.size();
    hint.id = id;
  }
  return id;
}

void TraceWriter::put_metadata(const GenericTraceActivity &activity)
{
  visit_metadata(activity, [&](std::string_view key, const kineto_arg &arg) {
    if (!is_column_key(key))
      lib.kineto_builder_arg(builder_, key_of(key), &arg);
  });
}

/* Add the row; its arguments have been given to the builder before. CPU operators and annotations
 * are known by their external id, device work and calls by the correlation id; linked work has
 * both. */
void TraceWriter::append(const ITraceActivity &activity, uint32_t name, int64_t start, int64_t end)
{
  ActivityType type = activity.type();
  const TypeInfo &info = type_info(type);
  bool is_device = is_device_type(type);
  bool is_call = info.kind == KINETO_KIND_RUNTIME || info.kind == KINETO_KIND_DRIVER;
  bool has_id = type == ActivityType::CPU_OP || type == ActivityType::USER_ANNOTATION;
  kineto_activity row = {};
  row.start_ns = start;
  row.end_ns = end < start ? start : end;
  row.name_id = name;
  row.kind = info.kind;
  row.category = info.category;
  row.form = type == ActivityType::CPU_INSTANT_EVENT ? KINETO_FORM_INSTANT : KINETO_FORM_SLICE;
  int64_t place = activity.deviceId(); /* PyTorch has 0 for threads that it does not know */
  row.track = track_of(is_device || place ? place : libkineto::processId(), activity.resourceId(),
                       is_device);
  uint64_t id = (uint64_t)(uint32_t)activity.correlationId();
  if (has_id)
    row.external_id = id;
  else if (is_device || is_call)
    row.correlation_id = id;
  if ((is_device || is_call) && activity.linkedActivity())
    row.external_id = (uint64_t)(uint32_t)activity.linkedActivity()->correlationId();
  kineto_row made = lib.kineto_builder_add(builder_, &row);
  /* Only flows from forward to backward are added: those from launches to device work follow from
   * the correlation ids. */
  if (activity.flowType() == (int)libkineto::kLinkFwdBwd)
    lib.kineto_builder_flow(builder_, KINETO_FLOW_FWD_BWD, (uint64_t)activity.flowId(), made,
                            activity.flowStart());
}

void TraceWriter::add_until(const GenericTraceActivity &activity, int64_t end_ns)
{
  put_metadata(activity);
  uint32_t name = lib.kineto_builder_string(builder_, to_kineto(activity.activityName));
  append(activity, name, activity.startTime, end_ns);
}

void TraceWriter::add_generic(const GenericTraceActivity &activity)
{
  add_until(activity, activity.endTime);
}

void TraceWriter::add_host(const GenericTraceActivity &activity, int64_t window_end_ns)
{
  bool is_open = activity.endTime < activity.startTime;
#if CKT_MARKS_UNFINISHED
  if (CKT_UNLIKELY(is_open)) {
    kineto_arg no = make_number_arg(KINETO_ARG_BOOL, 0);
    lib.kineto_builder_arg(builder_, key_of("finished"), &no);
  }
#endif
  add_until(activity, is_open ? window_end_ns : activity.endTime);
}

void TraceWriter::add(const ITraceActivity &activity, const std::string &name)
{
  if (const auto *generic = dynamic_cast<const GenericTraceActivity *>(&activity)) {
    add_generic(*generic);
    return;
  }
  std::string json = activity.metadataJson();
  std::string object = "{" + json + "}";
  if (!json.empty() && !lib.kineto_builder_args(builder_, to_kineto(object))) {
    kineto_arg arg = make_text_arg(KINETO_ARG_STRING, json.data(), json.size());
    lib.kineto_builder_arg(builder_, key_of("metadata"), &arg);
  }
  append(activity, lib.kineto_builder_string(builder_, to_kineto(name)), activity.timestamp(),
         activity.timestamp() + activity.duration());
}

void TraceWriter::name_process(int64_t pid, const std::string &name)
{
  kineto_process process = {};
  process.pid = process.sort_index = pid;
  process.name = to_kineto(name);
  process.label = kineto_string{"CPU", 3};
  process.rank = -1;
  (void)lib.kineto_builder_process(builder_, &process);
}

void TraceWriter::name_thread(int64_t pid, int64_t tid, const std::string &name)
{
  kineto_process process = {};
  process.pid = pid;
  process.rank = -1;
  kineto_track row = {};
  row.type = KINETO_TRACK_THREAD;
  row.id = tid;
  row.name = to_kineto(name);
  (void)lib.kineto_builder_track(builder_, lib.kineto_builder_process(builder_, &process), &row);
}

}  // namespace ckt
