// The writer of src/exchange/msccl_xml.hpp. Every connection gets a thread block of its own, and so
// do the local steps. Dependencies inside a thread block are its order; of several on one thread
// block the latest says it all.
#include <algorithm>
#include <map>
#include <tuple>

#include <fmt/format.h>

#include "src/base/result.hpp"
#include "src/exchange/msccl_xml.hpp"
#include "src/ir/text.hpp"

namespace tutti::exchange {
namespace {

using Where = std::pair<int, int>;  // thread block and step

struct XmlStep {
  std::string_view type;
  ir::ChunkSet src, dst;  // count 0: not used
  Where after{-1, -1};
  bool waited_for = false;
};

struct ThreadBlock {
  Rank send = kNoRank;
  Rank recv = kNoRank;
  Lane channel = 0;
  std::vector<XmlStep> steps;
};

std::string_view coll_name(Collective collective) {
  constexpr std::string_view kNames[] = {"allreduce", "allgather", "reduce_scatter", "broadcast",
                                         "reduce",    "alltoall",  "gather",         "scatter"};
  return kNames[static_cast<std::size_t>(collective)];
}

std::string_view type_name(ir::Verb verb) {
  constexpr std::string_view kNames[] = {"s", "r", "cpy", "re"};
  return kNames[static_cast<std::size_t>(verb)];
}

bool is_strided(const ir::ChunkSet& set) { return set.count > 1 && set.stride != 1; }

/// What the format has no words for in a step; "" when it can say it.
std::string_view inexpressible(const ir::Step& step) {
  if (ir::uses_group(step.verb)) return "steps of the network";
  if (step.src.format != ir::kPlain || step.dst.format != ir::kPlain) return "formats";
  return is_strided(step.src) || is_strided(step.dst) ? "strided chunks" : "";
}

Status check_expressible(const ir::Schedule& schedule) {
  const auto refuse = [](std::string_view what, std::string_view missing) {
    return make_error(Code::kInvalidArgument,
                      "{} cannot be expressed in MSCCL's XML, which has no {}", what, missing);
  };
  if (rooted(schedule.request.collective) && schedule.request.root != 0)
    return refuse(fmt::format("root {}", schedule.request.root), "roots: use --root 0");
  for (Rank rank = 0; rank < schedule.request.ranks; ++rank)
    for (const ir::Step& step : schedule.programs[rank].steps)
      if (const std::string_view missing = inexpressible(step); !missing.empty())
        return refuse(fmt::format("`{}` of rank {}", ir::print_action(step), rank), missing);
  return ok_status();
}

/// One rank's program as thread blocks.
class Gpu {
 public:
  explicit Gpu(const ir::Program& program) {
    for (const ir::Step& step : program.steps) {
      const int tb = thread_block_of(step);
      std::map<int, int> latest;  // the step of each other thread block that this one waits for
      for (const ir::StepId dep : step.deps) {
        const auto [other, number] = where_[dep];
        if (other != tb) latest[other] = std::max(latest[other], number);
      }
      append(tb, step, latest);
    }
  }

  [[nodiscard]] const std::vector<ThreadBlock>& blocks() const { return blocks_; }

 private:
  int thread_block_of(const ir::Step& step) {
    const auto next = static_cast<int>(blocks_.size());
    const auto verb = uses_peer(step.verb) ? step.verb : ir::Verb::kCopy;
    const auto [at, is_new] = ids_.try_emplace({verb, step.peer, step.lane}, next);
    if (is_new)
      blocks_.push_back({.send = verb == ir::Verb::kSend ? step.peer : kNoRank,
                         .recv = verb == ir::Verb::kRecv ? step.peer : kNoRank,
                         .channel = step.lane,
                         .steps = {}});
    return at->second;
  }

  void append(int tb, const ir::Step& step, const std::map<int, int>& latest) {
    std::vector<XmlStep>& steps = blocks_[tb].steps;
    for (const auto& [other, last] : latest) {
      blocks_[other].steps[last].waited_for = true;
      steps.push_back({"nop", {}, {}, {other, last}});
    }
    if (latest.empty()) steps.emplace_back();
    steps.back() = {type_name(step.verb), step.src, step.dst, steps.back().after};
    where_.push_back({tb, static_cast<int>(steps.size()) - 1});
  }

  std::map<std::tuple<ir::Verb, Rank, Lane>, int> ids_;
  std::vector<ThreadBlock> blocks_;
  std::vector<Where> where_;  // of every step of the program
};

std::string operand(std::string_view side, const ir::ChunkSet& set, std::string_view unused) {
  constexpr std::string_view kBuffers[] = {"i", "o", "s"};
  if (set.count == 0) return fmt::format(R"({0}buf="{1}" {0}off="-1")", side, unused);
  return fmt::format(R"({0}buf="{1}" {0}off="{2}")", side,
                     kBuffers[static_cast<std::size_t>(set.space)], set.first);
}

std::string text_of(const ThreadBlock& block, std::size_t id) {
  std::string text = fmt::format("    <tb id=\"{}\" send=\"{}\" recv=\"{}\" chan=\"{}\">\n", id,
                                 block.send, block.recv, block.channel);
  int number = 0;
  for (const XmlStep& step : block.steps)
    text += fmt::format(
        "      <step s=\"{}\" type=\"{}\" {} {} cnt=\"{}\" depid=\"{}\" deps=\"{}\" "
        "hasdep=\"{}\"/>\n",
        number++, step.type, operand("src", step.src, "i"), operand("dst", step.dst, "o"),
        std::max(step.src.count, step.dst.count), step.after.first, step.after.second,
        step.waited_for ? 1 : 0);
  return text + "    </tb>\n";
}

}  // namespace

Result<std::string> write_msccl_xml(const ir::Schedule& schedule) {
  TUTTI_TRY(check_expressible(schedule));
  const ir::Request& request = schedule.request;
  std::string gpus;
  std::uint32_t most_chunks = 0;
  for (Rank rank = 0; rank < request.ranks; ++rank) {
    const ir::BlockCounts blocks = ir::block_counts(request, rank);
    const std::uint32_t inputs =
        schedule.chunks_per_block * static_cast<std::uint32_t>(blocks.input);
    const std::uint32_t outputs =
        schedule.chunks_per_block * static_cast<std::uint32_t>(blocks.output);
    most_chunks = std::max({most_chunks, inputs, outputs});
    gpus += fmt::format("  <gpu id=\"{}\" i_chunks=\"{}\" o_chunks=\"{}\" s_chunks=\"{}\">\n", rank,
                        inputs, outputs, schedule.programs[rank].scratch.size());
    const Gpu gpu(schedule.programs[rank]);
    for (std::size_t tb = 0; tb < gpu.blocks().size(); ++tb) gpus += text_of(gpu.blocks()[tb], tb);
    gpus += "  </gpu>\n";
  }
  return fmt::format(
      "<algo name=\"{}\" proto=\"Simple\" nchannels=\"{}\" nchunksperloop=\"{}\" ngpus=\"{}\" "
      "coll=\"{}\" inplace=\"{}\" outofplace=\"{}\" minBytes=\"0\" maxBytes=\"0\"{}>\n{}</algo>\n",
      plain_name(schedule.algorithm), schedule.lanes, most_chunks, request.ranks,
      coll_name(request.collective), request.in_place ? 1 : 0, request.in_place ? 0 : 1,
      request.layout.empty() ? "" : fmt::format(" tutti_layout=\"{}\"", print(request.layout)),
      gpus);
}

}  // namespace tutti::exchange
