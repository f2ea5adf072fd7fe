/* Converts activities of libkineto to activities of ckineto, and back. The seat and the guest use
 * it. The functions need libckineto (library.h) to be open. */
#ifndef CKINETO_TORCH_CONVERT_H
#define CKINETO_TORCH_CONVERT_H

#include "library.h"

#include <libkineto.h>
#include <output_base.h>

#include <cstring>
#include <functional>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

namespace ckt {

using libkineto::ActivityType;
using libkineto::CpuTraceBuffer;
using libkineto::GenericTraceActivity;
using libkineto::ITraceActivity;

/** Kinds that a session must record for a profile: all of devices and of the host's calls that
 *  launch work, but no operators and annotations, which PyTorch hands over itself. */
uint64_t device_kinds();

inline std::string to_string(kineto_string s) { return std::string(s.data ? s.data : "", s.size); }
inline kineto_string to_kineto(const std::string &s) { return kineto_string{s.data(), s.size()}; }
inline kineto_string to_kineto(const char *s) { return kineto_string{s, std::strlen(s)}; }

/** The text as a string of JSON, with quotes. Bytes from 0x80 on stay as they are. */
std::string quote_json(const std::string &text);

/** Replace characters that libkineto's writer does not escape in names and values by similar ones:
 *  ' for ", / for \, a space for control characters. */
void make_plain(std::string &text);
/** make_plain for a name, with ? for each non-ASCII character: libkineto writes "unknown" for such
 *  names. */
void make_plain_name(std::string &name);
/** make_plain within a JSON value: its strings remain strings. */
void make_plain_json(std::string &json);

/* ---- into a trace (into_trace.cc) ---- */

/** Appends activities of libkineto to a builder. */
class TraceWriter {
 public:
  explicit TraceWriter(kineto_builder *builder);
  /** `name` is the activity's; `activity` any, generic ones are read without JSON in between. */
  void add(const ITraceActivity &activity, const std::string &name);
  void add_generic(const GenericTraceActivity &activity);
  /** An activity of PyTorch's own buffers. Those without an end were open when recording stopped,
   *  and end there, as libkineto writes them. */
  void add_host(const GenericTraceActivity &activity, int64_t window_end_ns);
  /** Names of the process and of a thread of it. */
  void name_process(int64_t pid, const std::string &name);
  void name_thread(int64_t pid, int64_t tid, const std::string &name);

 private:
  struct TypeInfo {
    uint32_t kind, category;
    bool known;
  };
  struct Place {
    int64_t device, resource;
    bool is_device;
    uint32_t track;
  };
  const TypeInfo &type_info(ActivityType type);
  uint32_t track_of(int64_t device, int64_t resource, bool is_device);
  void add_until(const GenericTraceActivity &activity, int64_t end_ns);
  void put_metadata(const GenericTraceActivity &activity);
  void append(const ITraceActivity &activity, uint32_t name, int64_t start, int64_t end);
  uint32_t key_of(std::string_view key);

  kineto_builder *builder_;
  TypeInfo types_[64] = {};
  Place last_place_ = {-1, -1, false, KINETO_NO_ROW};
  std::unordered_map<uint64_t, uint32_t> tracks_;
  std::unordered_map<int64_t, uint32_t> processes_[2];
  /* Keys are few: found by their size and ends. */
  struct KeyHint {
    char text[40];
    size_t size;
    uint32_t id;
  };
  KeyHint keys_[64] = {};
};

/* ---- out of a trace (from_trace.cc) ---- */

/** The CPU activity with this correlation id; nullptr: none. */
using FindLinked = std::function<const ITraceActivity *(int64_t)>;

/** The reader of the activities: PyTorch alone (counter samples, which are no events to it, are
 *  left out), or libkineto's writer too (samples are kept from 2.15 on; texts are made plain). */
enum class Reader { kPyTorch, kLibkineto };

/** Copies device activities of a trace, and the calls that launched them, into a buffer of
 *  libkineto's. */
class TraceReader {
 public:
  TraceReader(const kineto_trace *trace, const FindLinked &find_linked, Reader reader);
  /** All activities that libkineto has a type for. */
  void read_into(CpuTraceBuffer &buffer);
  /** Number of activities whose operator read_into has found. */
  size_t linked() const { return linked_; }
  /** Number of activities that the reader cannot use, or that have no type. */
  size_t left_out() const { return left_out_; }

 private:
  bool type_of(const kineto_activity &activity, ActivityType *out);
  void fill(const kineto_activity &activity, GenericTraceActivity *out);
  void put_args(const kineto_activity &activity, GenericTraceActivity *out);
  void put_arg(const kineto_activity &activity, kineto_arg arg, GenericTraceActivity *out);
  void put_text(const std::string &key, const kineto_arg &arg, GenericTraceActivity *out);
  std::string name_of(kineto_string name) const;
  std::string text_of(kineto_string text) const;

  const kineto_trace *trace_;
  FindLinked find_linked_;
  Reader reader_;
  std::unordered_map<uint32_t, int> types_; /* by category; -1: none */
  size_t linked_ = 0, left_out_ = 0;
};

/** Devices and their rows, as libkineto's loggers want them. */
void log_devices(const kineto_trace *trace, libkineto::ActivityLogger &logger);

}  // namespace ckt
#endif
