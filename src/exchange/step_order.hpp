// Finds races in a file: two steps of a gpu that touch the same chunk, at least one of them
// writing, although nothing says which comes first. What says so is program order within thread
// blocks, waits between them, and messages: what came before a send is complete when what comes
// after its receive begins, also through other gpus. Messages count as whole, as they are when
// Tutti runs the file: a step that has received one has received all of it.
//
// Vector clocks: each thread block knows how many steps of every other block of its gpu are surely
// complete. A step that others wait for publishes what its block knows; a waiter learns it. Clocks
// that messages carry would need a number for every block of the file. Few files need them, so
// where a clock knows of no order, the causes of the later step are followed backwards, and the
// clock learns what is found.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <map>
#include <optional>
#include <vector>

namespace tutti::exchange {

/// Steps of all gpus, counted in the order in which they run.
using StepIndex = std::uint32_t;
inline constexpr StepIndex kNoStep = std::numeric_limits<StepIndex>::max();

/// How much may be looked at to find orders in one file.
struct Patience {
  std::uint64_t steps = std::uint64_t{1} << 27;
};

/// Which steps each step follows.
class Causes {
 public:
  /// `patience` is used up, and must outlive this.
  explicit Causes(Patience& patience) : patience_(patience) {}

  /// The step that runs now begins after these are complete. kNoStep: none.
  StepIndex add(const std::array<StepIndex, 3>& follows);
  /// Whether `before` is surely complete when `after` begins. False once gave_up().
  bool ordered(StepIndex before, StepIndex after);
  /// Whether orders were asked for that would take too long to find.
  [[nodiscard]] bool gave_up() const { return patience_.steps == 0; }

 private:
  Patience& patience_;
  std::vector<std::array<StepIndex, 3>> follows_;
  std::vector<std::uint32_t> seen_;  // by step: the last search that came here
  std::vector<StepIndex> stack_;     // of one search
  std::uint32_t searches_ = 0;
};

/// A step of a gpu: its thread block, and its index there.
struct BlockStep {
  std::uint32_t block = 0;
  std::uint32_t step = 0;
  friend auto operator<=>(const BlockStep&, const BlockStep&) = default;
};

/// For one gpu. Report its steps in an order in which they may run.
class StepOrder {
 public:
  /// `causes` are those of all gpus, and must outlive this.
  StepOrder(Causes& causes, std::size_t blocks, std::size_t cells);

  /// `step` begins after the one before it in its block, after a published one that it waits for,
  /// and after the one that sent it a message.
  StepIndex begin(BlockStep step, std::optional<BlockStep> awaited, StepIndex sender);
  void complete(BlockStep step, bool publishes);

  /// Records this access by a step that has begun. Returns an access that races with it, if there
  /// is one.
  std::optional<BlockStep> read(std::size_t cell, BlockStep step);
  std::optional<BlockStep> write(std::size_t cell, BlockStep step);

 private:
  struct Cell {
    std::optional<BlockStep> writer;
    std::vector<BlockStep> readers;  // since the last write, one per block
  };

  bool ordered(BlockStep before, BlockStep after);
  [[nodiscard]] StepIndex index(BlockStep step) const { return ran_[step.block][step.step]; }

  Causes& causes_;
  std::vector<std::vector<StepIndex>> ran_;        // by block and step
  std::vector<std::vector<std::uint32_t>> known_;  // by block: steps of each block
  std::map<BlockStep, std::vector<std::uint32_t>> published_;
  std::vector<Cell> cells_;
};

}  // namespace tutti::exchange
