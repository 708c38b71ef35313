// Finds races on one gpu: two steps that touch the same chunk, at least one of them writing,
// although neither program order within thread blocks nor waits between them say which comes first.
//
// Vector clocks: each thread block knows how many steps of every other block are surely complete. A
// step that others wait for publishes what its block knows; a waiter learns it.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <utility>
#include <vector>

namespace tutti::exchange {

/// A step of a gpu: its thread block, and its index there.
struct BlockStep {
  std::uint32_t block = 0;
  std::uint32_t step = 0;
  friend auto operator<=>(const BlockStep&, const BlockStep&) = default;
};

/// For one gpu. Report its steps in an order in which they may run.
class BlockOrder {
 public:
  BlockOrder(std::size_t blocks, std::size_t cells)
      : known_(blocks, std::vector<std::uint32_t>(blocks, 0)), cells_(cells) {}

  /// `block` has waited for `step`, which was published.
  void wait(std::uint32_t block, BlockStep step) {
    std::vector<std::uint32_t>& mine = known_[block];
    const std::vector<std::uint32_t>& theirs = published_.at(step);
    for (std::size_t i = 0; i < mine.size(); ++i) mine[i] = std::max(mine[i], theirs[i]);
  }
  void complete(BlockStep step, bool publishes) {
    known_[step.block][step.block] = step.step + 1;
    if (publishes) published_.emplace(step, known_[step.block]);
  }

  /// Records this access. Returns an access that races with it, if there is one.
  std::optional<BlockStep> read(std::size_t cell, BlockStep step) {
    Cell& touched = cells_[cell];
    if (touched.writer && !ordered(*touched.writer, step)) return touched.writer;
    const auto same_block = [&](const BlockStep& each) { return each.block == step.block; };
    std::erase_if(touched.readers, same_block);
    touched.readers.push_back(step);
    return std::nullopt;
  }
  std::optional<BlockStep> write(std::size_t cell, BlockStep step) {
    Cell& touched = cells_[cell];
    if (touched.writer && !ordered(*touched.writer, step)) return touched.writer;
    for (const BlockStep& reader : touched.readers)
      if (!ordered(reader, step)) return reader;
    touched.writer = step;
    touched.readers.clear();
    return std::nullopt;
  }

 private:
  struct Cell {
    std::optional<BlockStep> writer;
    std::vector<BlockStep> readers;  // since the last write, one per block
  };

  [[nodiscard]] bool ordered(BlockStep before, BlockStep after) const {
    return before.block == after.block || known_[after.block][before.block] > before.step;
  }

  std::vector<std::vector<std::uint32_t>> known_;
  std::map<BlockStep, std::vector<std::uint32_t>> published_;
  std::vector<Cell> cells_;
};

}  // namespace tutti::exchange
