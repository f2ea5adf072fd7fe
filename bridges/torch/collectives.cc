/* Facts of torch.distributed about a collective, in addition to its inputs: they are in a
 * thread-local slot while the operator "record_param_comms" runs. Names of the arguments are those
 * of PyTorch's traces (torch/csrc/profiler/util.h). */
#include "recorder.h"

#include <ckineto/record.h>
#include <torch/csrc/distributed/c10d/ParamCommsUtils.hpp>

#include <cstdio>
#include <set>
#include <string>

#if CKT_HAS_PARAM_COMMS

namespace ckt {
namespace {

constexpr size_t kMaxListed = 30; /* numbers of a list; PyTorch writes "..." for the rest */

/* Texts that the keywords of the last call point to; one per thread, reused by its next call. */
struct Texts {
  std::string name, group, description, in_split, out_split, ranks;
};

/* "[1, 2, 3]", as PyTorch writes lists; at most kMaxListed numbers. */
std::string list_numbers(const std::vector<int64_t> &numbers)
{
  std::string out = "[";
  for (size_t i = 0; i < numbers.size() && i < kMaxListed; i++) {
    out += i ? ", " : "";
    out += std::to_string(numbers[i]);
  }
  out += numbers.size() > kMaxListed ? ", ...]" : "]";
  return out;
}

/* Appends to the caller's array, which has room for kMaxKeywords. */
struct KeywordWriter {
  kineto_keyword *at;
  uint32_t count = 0;

  void put_text(const char *key, const std::string &text)
  {
    at[count++] = {key, kineto_input_string(text.c_str())};
  }
  void put_int(const char *key, int64_t value) { at[count++] = {key, kineto_input_int(value)}; }
  void put_bool(const char *key, bool value) { at[count++] = {key, kineto_input_bool(value)}; }
};

const char *get_dtype_name(at::ScalarType type)
{
  return c10::toString(type);
}

void put_message_sizes(KeywordWriter &w, Texts &texts, const torch::ParamCommsDebugInfo &info)
{
  w.put_int("In msg nelems", info.getInMessageNelems());
  w.put_int("Out msg nelems", info.getOutMessageNelems());
  texts.in_split = list_numbers(info.getInputSplitSizes());
  w.put_text("In split size", texts.in_split);
  texts.out_split = list_numbers(info.getOutputSplitSizes());
  w.put_text("Out split size", texts.out_split);
}

/* The ranks of a group; those of a group without a list are start, start + stride, …. */
std::vector<int64_t> list_ranks(const torch::ParamCommsDebugInfo &info, int64_t start,
                                int64_t stride)
{
  std::vector<int64_t> ranks = info.getGroupRanks();
  if (!ranks.empty() || start < 0 || stride <= 0)
    return ranks;
  for (int i = 0; i < info.getWorldSize(); i++)
    ranks.push_back(start + i * stride);
  return ranks;
}

void put_process_group(KeywordWriter &w, Texts &texts, const torch::ParamCommsDebugInfo &info)
{
#if CKT_HAS_GROUP_DESCRIPTION
  texts.group = info.getProcessGroupName();
  texts.description = info.getProcessGroupDesc();
  int64_t start = info.getGlobalRankStart(), stride = info.getGlobalRankStride();
  if (start >= 0)
    w.put_int("Global rank start", start);
  if (stride > 0)
    w.put_int("Global rank stride", stride);
  if (!texts.group.empty()) {
    w.put_text("Process Group Name", texts.group);
    if (!texts.description.empty())
      w.put_text("Process Group Description", texts.description);
  }
#else
  int64_t start = -1, stride = 0;
#endif
  w.put_int("Group size", info.getWorldSize());
  texts.ranks = list_numbers(list_ranks(info, start, stride));
  if (texts.ranks != "[]")
    w.put_text("Process Group Ranks", texts.ranks);
  w.put_int("Rank", info.getRank());
}

void put_sequence_number(KeywordWriter &w, const at::RecordFunction &fn,
                         const torch::ParamCommsDebugInfo &info)
{
#if CKT_HAS_SEQUENCE_INFO
  (void)fn;
  w.put_int("Seq", info.getSequenceNumber());
  w.put_bool("Is asynchronized op", info.isAsynchronizedOp());
#else
  /* Before 2.12 the first input is the number, alone or in a pair with the point-to-point flag. */
  (void)info;
  const c10::IValue *first = fn.inputs().empty() ? nullptr : fn.inputs().data();
  if (first && first->isInt())
    w.put_int("Seq", first->toInt());
  else if (first && first->isTuple() && !first->toTupleRef().elements().empty() &&
           first->toTupleRef().elements()[0].isInt())
    w.put_int("Seq", first->toTupleRef().elements()[0].toInt());
#endif
}

/* Write the process's rank in a group into the header of the trace; once per group and thread. */
void announce_group(const torch::ParamCommsDebugInfo &info, const Texts &texts)
{
  static thread_local std::set<std::string> *known;
  if (!known)
    known = new std::set<std::string>();
  if (!known->insert(texts.group).second)
    return;
  char key[160], value[512];
  std::snprintf(key, sizeof key, "process group %.100s", texts.group.c_str());
  std::snprintf(value, sizeof value, "{\"rank\": %d, \"size\": %d, \"ranks\": \"%.300s\"}",
                info.getRank(), info.getWorldSize(), texts.ranks.c_str());
  (void)kineto_process_set_metadata(key, value);
}

/* Fill the keywords of a collective in the order of PyTorch's traces. @return their number. */
uint32_t describe_collective(const at::RecordFunction &fn, const torch::ParamCommsDebugInfo &info,
                             kineto_keyword *keywords)
{
  static thread_local Texts *texts;
  if (!texts)
    texts = new Texts();
  KeywordWriter w = {keywords};
  texts->name = info.getCollectiveName();
  w.put_text("Collective name", texts->name);
  w.at[w.count++] = {"dtype", kineto_input_string(get_dtype_name(info.getDType()))};
  put_message_sizes(w, *texts, info);
  put_process_group(w, *texts, info);
  put_sequence_number(w, fn, info);
  announce_group(info, *texts);
  return w.count;
}

}  // namespace

uint32_t gather_collective(const at::RecordFunction &fn, kineto_keyword *keywords) noexcept
{
  try {
    auto *info = dynamic_cast<torch::ParamCommsDebugInfo *>(
        c10::ThreadLocalDebugInfo::get(c10::DebugInfoKind::PARAM_COMMS_INFO));
    if (!info)
      return 0;
    counts.collectives.fetch_add(1, std::memory_order_relaxed);
    return describe_collective(fn, *info, keywords);
  } catch (...) {
    return 0;
  }
}

}  // namespace ckt

#else /* older versions record too little to name a collective */

namespace ckt {
uint32_t gather_collective(const at::RecordFunction &, kineto_keyword *) noexcept { return 0; }
}  // namespace ckt

#endif
