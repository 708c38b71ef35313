#include "tests/exchange/msccl_files.hpp"

#include <algorithm>
#include <utility>
#include <vector>

#include <fmt/format.h>

namespace tutti::exchange {
namespace {

std::string_view word_of(MscclType type) {
  constexpr std::string_view kNames[] = {"s", "r", "cpy", "re", "rcs", "rrs", "rrc", "rrcs", "nop"};
  return kNames[static_cast<std::size_t>(type)];
}

std::string_view word_of(Collective collective) {
  constexpr std::string_view kNames[] = {"allreduce", "allgather", "reduce_scatter", "broadcast",
                                         "reduce",    "alltoall",  "gather",         "scatter"};
  return kNames[static_cast<std::size_t>(collective)];
}

std::string operand(std::string_view side, const Run& run) {
  constexpr std::string_view kBuffers[] = {"i", "o", "s"};
  if (run.count == 0) return fmt::format(R"({0}buf="i" {0}off="-1")", side);
  return fmt::format(R"({0}buf="{1}" {0}off="{2}")", side,
                     kBuffers[static_cast<std::size_t>(run.space)], run.first);
}

std::string text_of(const MscclBlock& block, std::size_t id) {
  std::string text = fmt::format("<tb id=\"{}\" send=\"{}\" recv=\"{}\" chan=\"{}\">\n", id,
                                 block.send, block.recv, block.channel);
  for (std::size_t s = 0; s < block.steps.size(); ++s) {
    const MscclStep& step = block.steps[s];
    text += fmt::format(
        "<step s=\"{}\" type=\"{}\" {} {} cnt=\"{}\" depid=\"{}\" deps=\"{}\" hasdep=\"{}\"/>\n", s,
        word_of(step.type), operand("src", step.src), operand("dst", step.dst),
        std::max(step.src.count, step.dst.count), step.after_block, step.after_step,
        step.waited_for ? 1 : 0);
  }
  return text + "</tb>\n";
}

class Mutator {
 public:
  Mutator(MscclAlgo& algo, std::mt19937_64& random) : algo_(algo), random_(random) {}

  bool apply(FileMutation mutation) {
    MscclGpu& gpu = algo_.gpus[below(algo_.gpus.size())];
    if (gpu.blocks.empty()) return false;
    MscclBlock& block = gpu.blocks[below(gpu.blocks.size())];
    if (block.steps.empty()) return false;
    const std::size_t number = below(block.steps.size());
    MscclStep& step = block.steps[number];
    switch (mutation) {
      case FileMutation::kWaitGone:
        if (step.after_block < 0) return false;
        step.after_block = step.after_step = -1;
        return true;
      case FileMutation::kWaitMoved:
        return move_wait(gpu, step);
      case FileMutation::kWaitHidden:
        return std::exchange(step.waited_for, false);
      case FileMutation::kSwap:
        if (number + 1 == block.steps.size()) return false;
        std::swap(block.steps[number], block.steps[number + 1]);
        return true;
      case FileMutation::kSplit:
        return split(gpu, static_cast<std::size_t>(&block - gpu.blocks.data()), number);
      case FileMutation::kDrop:
        block.steps.erase(block.steps.begin() + static_cast<std::ptrdiff_t>(number));
        return true;
      case FileMutation::kDuplicate:
        block.steps.insert(block.steps.begin() + static_cast<std::ptrdiff_t>(number), step);
        return true;
      case FileMutation::kType:
        return change_type(step);
      case FileMutation::kChunk:
        return change_chunk(step);
      case FileMutation::kBuffer:
        return change_buffer(step);
      case FileMutation::kChannel:
        block.channel += below(2) == 0 ? 1 : -1;
        algo_.channels = std::max(algo_.channels, block.channel + 1);
        return block.channel >= 0;
    }
    return false;
  }

 private:
  std::size_t below(std::size_t limit) { return random_() % limit; }

  bool move_wait(const MscclGpu& gpu, MscclStep& step) {
    if (step.after_block < 0) return false;
    if (below(2) == 0) {
      step.after_block = static_cast<int>(below(gpu.blocks.size()));
      const auto& steps = gpu.blocks[static_cast<std::size_t>(step.after_block)].steps;
      if (steps.empty()) return false;
      step.after_step = static_cast<int>(below(steps.size()));
    } else {
      step.after_step += below(2) == 0 ? 1 : -1;
    }
    return step.after_step >= 0;
  }

  /// Only the order of the block holds these steps behind those before them.
  static bool split(MscclGpu& gpu, std::size_t from, std::size_t number) {
    auto& steps = gpu.blocks[from].steps;
    if (number == 0 || receives(steps[number].type) || sends(steps[number].type)) return false;
    MscclBlock alone;
    alone.steps = {steps[number]};
    // Who waited for this step waits for the one in the new block.
    const int moved = static_cast<int>(gpu.blocks.size());
    steps[number] = MscclStep{};
    steps[number].waited_for = alone.steps[0].waited_for;
    for (MscclBlock& block : gpu.blocks)
      for (MscclStep& step : block.steps)
        if (step.after_block == static_cast<int>(from) &&
            step.after_step == static_cast<int>(number)) {
          step.after_block = moved;
          step.after_step = 0;
          alone.steps[0].waited_for = true;
        }
    gpu.blocks.push_back(std::move(alone));
    return true;
  }

  bool change_type(MscclStep& step) {
    const auto type = static_cast<MscclType>(below(9));
    const bool same_ends = sends(type) == sends(step.type) && receives(type) == receives(step.type);
    if (type == step.type || !same_ends) return false;
    const Run some = step.src.count > 0 ? step.src : step.dst;
    step.src = reads_src(type) ? (step.src.count > 0 ? step.src : some) : Run{};
    step.dst = writes_dst(type) ? (step.dst.count > 0 ? step.dst : some) : Run{};
    step.type = type;
    return true;
  }

  Run* operand_of(MscclStep& step) {
    Run& run = below(2) == 0 ? step.src : step.dst;
    return run.count > 0 ? &run : nullptr;
  }
  bool change_chunk(MscclStep& step) {
    Run* const run = operand_of(step);
    if (run == nullptr || (run->first == 0 && below(2) == 0)) return false;
    run->first += run->first == 0 || below(2) == 0 ? 1U : ~0U;
    return true;
  }
  bool change_buffer(MscclStep& step) {
    Run* const run = operand_of(step);
    if (run == nullptr) return false;
    const auto space = static_cast<ir::Space>(below(ir::kSpaces));
    return std::exchange(run->space, space) != space;
  }

  MscclAlgo& algo_;
  std::mt19937_64& random_;
};

}  // namespace

std::string text_of(const MscclAlgo& algo) {
  const MscclPurpose& purpose = algo.purposes.front();
  const auto ranks = static_cast<std::int32_t>(algo.gpus.size());
  const std::int32_t blocks =
      ir::largest_block_count({.collective = purpose.collective, .ranks = ranks});
  std::string text = fmt::format(
      "<algo name=\"{}\" proto=\"Simple\" nchannels=\"{}\" nchunksperloop=\"{}\" ngpus=\"{}\" "
      "coll=\"{}\" inplace=\"{}\" outofplace=\"{}\" minBytes=\"0\" maxBytes=\"0\">\n",
      algo.name, algo.channels, purpose.chunks_per_block * static_cast<std::uint32_t>(blocks),
      ranks, word_of(purpose.collective), algo.in_place ? 1 : 0, algo.out_of_place ? 1 : 0);
  for (std::size_t rank = 0; rank < algo.gpus.size(); ++rank) {
    const MscclGpu& gpu = algo.gpus[rank];
    text += fmt::format("<gpu id=\"{}\" i_chunks=\"{}\" o_chunks=\"{}\" s_chunks=\"{}\">\n", rank,
                        gpu.sizes.input, gpu.sizes.output, gpu.sizes.scratch);
    for (std::size_t b = 0; b < gpu.blocks.size(); ++b) text += text_of(gpu.blocks[b], b);
    text += "</gpu>\n";
  }
  return text + "</algo>\n";
}

std::string_view name_of(FileMutation mutation) {
  constexpr std::string_view kNames[] = {
      "wait gone",  "wait moved", "wait hidden", "steps swapped", "step split off", "step gone",
      "step twice", "type",       "chunk",       "buffer",        "channel"};
  return kNames[static_cast<std::size_t>(mutation)];
}

std::optional<MscclAlgo> mutate(const MscclAlgo& original, FileMutation mutation,
                                std::mt19937_64& random) {
  MscclAlgo mutant = original;
  if (!Mutator(mutant, random).apply(mutation)) return std::nullopt;
  return mutant;
}

}  // namespace tutti::exchange
